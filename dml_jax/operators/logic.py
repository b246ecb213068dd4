"""Operators that compare, and operators of truth values and of bits."""

from collections.abc import Callable, Mapping
from typing import ClassVar

import jax
from jax import lax

from dml_jax.enums import TensorDataType
from dml_jax.lowering import logic
from dml_jax.operator import Operator


class _ByElement(Operator):
    """Maps the elements at one place of the inputs to the element there of the output."""

    by_element = True
    function: ClassVar[Callable[..., jax.Array]]

    def lower(self, *xs):
        attributes = {f.name: getattr(self, f.name) for f in self.fields if not f.tensor}
        return lax.convert_element_type(self.function(*xs, **attributes), self.output_tensor.dtype)


class _Counting(_ByElement):
    """Has an output type of its own."""

    def default_data_types(self) -> Mapping[str, TensorDataType]:
        """Return UINT8, the smallest of the types."""
        return {"output_tensor": TensorDataType.UINT8}


class Logical(_ByElement):
    """Combines truth values: an element is true where it is not 0.

    The output is 1 for true and 0 for false, in the type of the inputs.

    Gradient: none; truth values are integers.

    Fields:
        input_tensor, a_tensor, b_tensor: the truth values.
        output_tensor: of the inputs' type and sizes; may be the memory of an input.
    """


class ElementWiseLogicalAnd(Logical, op="ELEMENT_WISE_LOGICAL_AND"):
    """Tells where both elements are true: `a and b`."""

    function = staticmethod(logic.of_truth(lax.bitwise_and))


class ElementWiseLogicalOr(Logical, op="ELEMENT_WISE_LOGICAL_OR"):
    """Tells where at least one of two elements is true: `a or b`."""

    function = staticmethod(logic.of_truth(lax.bitwise_or))


class ElementWiseLogicalXor(Logical, op="ELEMENT_WISE_LOGICAL_XOR"):
    """Tells where exactly one of two elements is true: `(a != 0) != (b != 0)`."""

    function = staticmethod(logic.of_truth(lax.bitwise_xor))


class ElementWiseLogicalNot(Logical, op="ELEMENT_WISE_LOGICAL_NOT"):
    """Tells where an element is not true: `x == 0`."""

    function = staticmethod(logic.of_truth(lax.bitwise_not))


class Comparison(_Counting):
    """Compares the elements at one place: 1 where the comparison holds, else 0.

    Choices: a comparison with NaN gives 0; -0.0 equals 0.0; denormals of FLOAT32 may count as 0.

    Gradient: none; the output is of integers.

    Fields:
        a_tensor, b_tensor: the tensors to compare.
        output_tensor: of the inputs' sizes; UINT32 or UINT8.
    """


class ElementWiseLogicalEquals(Comparison, op="ELEMENT_WISE_LOGICAL_EQUALS"):
    """Tells where two elements are equal: `a == b`."""

    function = staticmethod(logic.of_values(lax.eq))


class ElementWiseLogicalGreaterThan(Comparison, op="ELEMENT_WISE_LOGICAL_GREATER_THAN"):
    """Tells where the first of two elements is greater: `a > b`."""

    function = staticmethod(logic.of_values(lax.gt))


class ElementWiseLogicalLessThan(Comparison, op="ELEMENT_WISE_LOGICAL_LESS_THAN"):
    """Tells where the first of two elements is less: `a < b`."""

    function = staticmethod(logic.of_values(lax.lt))


class ElementWiseLogicalGreaterThanOrEqual(
    Comparison, op="ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL"
):
    """Tells where the first of two elements is greater or equal: `a >= b`."""

    function = staticmethod(logic.of_values(lax.ge))


class ElementWiseLogicalLessThanOrEqual(Comparison, op="ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL"):
    """Tells where the first of two elements is less or equal: `a <= b`."""

    function = staticmethod(logic.of_values(lax.le))


class Classification(_Counting):
    """Tells of which kind each element is: 1 where it is of the kind, else 0.

    Gradient: none; the output is of integers.

    Fields:
        input_tensor: the tensor to look at.
        output_tensor: of the input's sizes, and of an unsigned integer type.
    """


class ElementWiseIsNan(Classification, op="ELEMENT_WISE_IS_NAN"):
    """Tells where an element is NaN: `x != x`."""

    function = staticmethod(logic.is_nan)


class ElementWiseIsInfinity(Classification, op="ELEMENT_WISE_IS_INFINITY"):
    """Tells where an element is infinite: `x == inf`, `x == -inf`, or either of them.

    Fields:
        infinity_mode: which infinity counts: POSITIVE, NEGATIVE, or EITHER.
    """

    function = staticmethod(logic.is_infinity)


class Bitwise(_ByElement):
    """Combines the bits of elements; the data type says only how many there are.

    Gradient: 0; bits have no derivative.

    Fields:
        input_tensor, a_tensor, b_tensor: the tensors whose bits are read.
        output_tensor: of the inputs' type and sizes; may be the memory of an input.
    """


class ElementWiseBitAnd(Bitwise, op="ELEMENT_WISE_BIT_AND"):
    """Sets the bits that are 1 in both elements: `a & b`."""

    function = staticmethod(logic.of_bits(lax.bitwise_and))


class ElementWiseBitOr(Bitwise, op="ELEMENT_WISE_BIT_OR"):
    """Sets the bits that are 1 in at least one of two elements: `a | b`."""

    function = staticmethod(logic.of_bits(lax.bitwise_or))


class ElementWiseBitXor(Bitwise, op="ELEMENT_WISE_BIT_XOR"):
    """Sets the bits that differ between two elements: `a ^ b`."""

    function = staticmethod(logic.of_bits(lax.bitwise_xor))


class ElementWiseBitNot(Bitwise, op="ELEMENT_WISE_BIT_NOT"):
    """Inverts every bit of each element: `~x`."""

    function = staticmethod(logic.of_bits(lax.bitwise_not))


class ElementWiseBitCount(_Counting, op="ELEMENT_WISE_BIT_COUNT"):
    """Counts the bits of each element that are 1.

    The bits are those of the element's own type: a negative integer counts its two's complement,
    and -0.0 has one bit.

    Gradient: none; the output is of integers.

    Fields:
        input_tensor: the tensor whose bits are counted.
        output_tensor: of the input's sizes; UINT32 or UINT8.
    """

    function = staticmethod(logic.bit_count)


class Shift(_ByElement):
    """Shifts the bits of each element by a number of places; 0 enters where bits move away.

    Choices: a shift by at least the width of the type gives 0.

    Gradient: none; the tensors are of integers.

    Fields:
        a_tensor: the tensor whose bits are shifted.
        b_tensor: by how many places.
        output_tensor: of the inputs' type and sizes; may be the memory of an input.
    """


class ElementWiseBitShiftLeft(Shift, op="ELEMENT_WISE_BIT_SHIFT_LEFT"):
    """Shifts bits toward the highest: `a << b`, modulo 2^n for n bits."""

    function = staticmethod(logic.shift_left)


class ElementWiseBitShiftRight(Shift, op="ELEMENT_WISE_BIT_SHIFT_RIGHT"):
    """Shifts bits toward the lowest: `a >> b`."""

    function = staticmethod(logic.shift_right)

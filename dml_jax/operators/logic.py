"""Operators that compare, and operators of truth values and of bits."""

from collections.abc import Callable, Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import lax

from dml_jax.enums import TensorDataType
from dml_jax.lowering import element_wise
from dml_jax.lowering.dtypes import bits_of, wide
from dml_jax.operator import Operator


class _ByElement(Operator):
    """Maps the elements at one place of the inputs to the element there of the output."""

    by_element = True
    read: ClassVar[Callable[[jax.Array], jax.Array]] = staticmethod(
        element_wise.identity
    )  # each input

    def lower(self, *xs):
        attributes = {f.name: getattr(self, f.name) for f in self.fields if not f.tensor}
        result = self.function(*map(self.read, xs), **attributes)
        return lax.convert_element_type(result, self.output_tensor.dtype)


class _Counting(_ByElement):
    """Has an output type of its own.

    Gradient: none; the output is of integers.
    """

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

    read = staticmethod(element_wise.is_true)


class ElementWiseLogicalAnd(Logical, op="ELEMENT_WISE_LOGICAL_AND", function=lax.bitwise_and):
    """Tells where both elements are true: `a and b`."""


class ElementWiseLogicalOr(Logical, op="ELEMENT_WISE_LOGICAL_OR", function=lax.bitwise_or):
    """Tells where at least one of two elements is true: `a or b`."""


class ElementWiseLogicalXor(Logical, op="ELEMENT_WISE_LOGICAL_XOR", function=lax.bitwise_xor):
    """Tells where exactly one of two elements is true: `(a != 0) != (b != 0)`."""


class ElementWiseLogicalNot(Logical, op="ELEMENT_WISE_LOGICAL_NOT", function=lax.bitwise_not):
    """Tells where an element is not true: `x == 0`."""


class Comparison(_Counting):
    """Compares the elements at one place: 1 where the comparison holds, else 0.

    Choices: a comparison with NaN gives 0; -0.0 equals 0.0; denormals of FLOAT32 may count as 0.

    Fields:
        a_tensor, b_tensor: the tensors to compare.
        output_tensor: of the inputs' sizes; UINT32 or UINT8.
    """

    read = staticmethod(wide)


class ElementWiseLogicalEquals(Comparison, op="ELEMENT_WISE_LOGICAL_EQUALS", function=lax.eq):
    """Tells where two elements are equal: `a == b`."""


class ElementWiseLogicalGreaterThan(
    Comparison, op="ELEMENT_WISE_LOGICAL_GREATER_THAN", function=lax.gt
):
    """Tells where the first of two elements is greater: `a > b`."""


class ElementWiseLogicalLessThan(Comparison, op="ELEMENT_WISE_LOGICAL_LESS_THAN", function=lax.lt):
    """Tells where the first of two elements is less: `a < b`."""


class ElementWiseLogicalGreaterThanOrEqual(
    Comparison, op="ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL", function=lax.ge
):
    """Tells where the first of two elements is greater or equal: `a >= b`."""


class ElementWiseLogicalLessThanOrEqual(
    Comparison, op="ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL", function=lax.le
):
    """Tells where the first of two elements is less or equal: `a <= b`."""


class Classification(_Counting):
    """Tells of which kind each element is: 1 where it is of the kind, else 0.

    Fields:
        output_tensor: of the input's sizes, and of an unsigned integer type.
    """


class ElementWiseIsNan(Classification, op="ELEMENT_WISE_IS_NAN", function=jnp.isnan):
    """Tells where an element is NaN: `x != x`."""


class ElementWiseIsInfinity(
    Classification, op="ELEMENT_WISE_IS_INFINITY", function=element_wise.is_infinity
):
    """Tells where an element is infinite, of one sign or of either.

    `output = (x == inf)` for POSITIVE, `(x == -inf)` for NEGATIVE, `(|x| == inf)` for EITHER.

    Fields:
        infinity_mode: which infinity counts: POSITIVE, NEGATIVE, or EITHER.
    """


class Bitwise(_ByElement):
    """Combines the bits of elements; the data type says only how many there are.

    Gradient: 0; bits have no derivative.

    Fields:
        input_tensor, a_tensor, b_tensor: the tensors whose bits are read.
        output_tensor: of the inputs' type and sizes; may be the memory of an input.
    """

    def lower(self, *xs):
        return lax.bitcast_convert_type(self.function(*map(bits_of, xs)), xs[0].dtype)


class ElementWiseBitAnd(Bitwise, op="ELEMENT_WISE_BIT_AND", function=lax.bitwise_and):
    """Sets the bits that are 1 in both elements: `a & b`."""


class ElementWiseBitOr(Bitwise, op="ELEMENT_WISE_BIT_OR", function=lax.bitwise_or):
    """Sets the bits that are 1 in at least one of two elements: `a | b`."""


class ElementWiseBitXor(Bitwise, op="ELEMENT_WISE_BIT_XOR", function=lax.bitwise_xor):
    """Sets the bits that differ between two elements: `a ^ b`."""


class ElementWiseBitNot(Bitwise, op="ELEMENT_WISE_BIT_NOT", function=lax.bitwise_not):
    """Inverts every bit of each element: `~x`."""


class ElementWiseBitCount(_Counting, op="ELEMENT_WISE_BIT_COUNT", function=lax.population_count):
    """Counts the bits of each element that are 1: `popcount(x)`.

    The bits are those of the element's own type: a negative integer counts its two's complement,
    and -0.0 has one bit.

    Fields:
        output_tensor: of the input's sizes; UINT32 or UINT8.
    """

    read = staticmethod(bits_of)


class Shift(_ByElement):
    """Shifts the bits of each element by a number of places; 0 enters where bits move away.

    Choices: a shift by at least the width of the type gives 0.

    Gradient: none; the tensors are of integers.

    Fields:
        a_tensor: the tensor whose bits are shifted.
        b_tensor: by how many places.
        output_tensor: of the inputs' type and sizes; may be the memory of an input.
    """


class ElementWiseBitShiftLeft(
    Shift, op="ELEMENT_WISE_BIT_SHIFT_LEFT", function=element_wise.shift_left
):
    """Shifts bits toward the highest: `a << b`, modulo 2^n for n bits."""


class ElementWiseBitShiftRight(
    Shift, op="ELEMENT_WISE_BIT_SHIFT_RIGHT", function=element_wise.shift_right
):
    """Shifts bits toward the lowest: `a >> b`."""

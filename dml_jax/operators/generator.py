"""Operators that make tensors from numbers: constants, sequences, diagonals, random bits."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.description.fields import INT, Scalar
from dml_jax.enums import TensorDataType
from dml_jax.errors import DmlError, Fault
from dml_jax.lowering import clamp, generators
from dml_jax.operator import Operator


class FillValueConstant(Operator, op="FILL_VALUE_CONSTANT"):
    """Fills a tensor with one number: `value` everywhere.

    Gradient: none; there is no input.

    Fields:
        value: the number, of that type. Choices: floats are rounded to the type; an integer has to
            fit the type.
    """

    def lower(self):
        tensor = self.output_tensor
        return lax.full(tensor.sizes, generators.number(self.value, tensor.dtype))


class FillValueSequence(Operator, op="FILL_VALUE_SEQUENCE"):
    """Fills a tensor with numbers at equal distances: `value_start + k * value_delta`.

    k = 0, 1, ... counts the elements in row-major order.

    Choices: floats are computed in FLOAT64 and rounded once, so that no error adds up; integers
    wrap modulo 2^n, so that a step of 254 in UINT8 counts down by 2.

    Gradient: none; there is no input.

    Fields:
        value_start: the first element, of that type.
        value_delta: the step from one element to the next, of that type.
    """

    def lower(self):
        sizes, dtype = self.output_tensor.sizes, self.output_tensor.dtype
        return generators.sequence(sizes, dtype, self.value_start, self.value_delta)


class DiagonalMatrix(Operator, op="DIAGONAL_MATRIX"):
    """Makes matrices with one number along a diagonal, and 0 elsewhere.

    `output_tensor[..., y, x] = value if x == y + offset else 0`

    Gradient: none; there is no input.

    Fields:
        output_tensor: the matrices, in the last two dimensions; all are alike.
        offset: how far the diagonal is to the right of the main one; to the left if negative.
        value: the number, a FLOAT whatever the type of the output. Choices: for integers the
            fraction is dropped toward zero, what does not fit becomes the nearest end of the type,
            and NaN is refused.
    """

    arguments = ("value_data_type", "diagonal_fill_begin", "diagonal_fill_end")

    @classmethod
    def call_of(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of one diagonal, whose number a FLOAT is in the output's type."""
        data_type, scalar = TensorDataType.of(arguments["value_data_type"]), Scalar("")
        begin, end = (INT.convert(arguments[f"diagonal_fill_{side}"]) for side in ("begin", "end"))
        value = scalar.convert(arguments["value"])
        as_float = clamp.cast_bound(value, np.dtype(np.float32))
        if clamp.cast_bound(as_float, data_type.dtype) != scalar.of_type(value, data_type):
            raise DmlError([Fault(cls.c_name, "Value", f"be a FLOAT, and {data_type}", value)])
        if end != begin + 1:
            raise DmlError([Fault(cls.c_name, "diagonal_fill_end", f"be {begin + 1}", end)])
        sizes = arguments["output_sizes"]
        made = {"output_sizes": sizes, "output_data_type": data_type}
        return {"offset": begin, "value": as_float, **made}

    def lower(self):
        sizes, dtype = self.output_tensor.sizes, self.output_tensor.dtype
        inside = generators.band(sizes, self.offset, self.offset + 1)
        value = dtype.type(clamp.cast_bound(self.value, dtype))
        return jnp.where(inside, value, dtype.type(0))


class DiagonalMatrix1(Operator, op="DIAGONAL_MATRIX1"):
    """Writes one number on a band of diagonals of matrices.

    `output_tensor[..., y, x] = value if diagonal_fill_begin <= x - y < diagonal_fill_end`, else the
    input there, or 0 without an input. Where `diagonal_fill_begin > diagonal_fill_end`, it is
    `value` if not `diagonal_fill_end <= x - y < diagonal_fill_begin`.

    Choices: the page shows a value of 7 for an example whose output is 1; the formula rules.

    Gradient: the output's where the input is kept, 0 where `value` is written.

    Fields:
        input_tensor: the matrices to write on; zeros without it.
        output_tensor: the matrices, in the last two dimensions; of the input's type and sizes.
        value_data_type: the type of the tensors.
        value: the number, of that type.
        diagonal_fill_begin: the leftmost diagonal; 0 is the main one, negative ones are below it.
        diagonal_fill_end: the diagonal after the rightmost one.
    """

    def lower(self, x):
        tensor = self.output_tensor
        inside = generators.band(tensor.sizes, self.diagonal_fill_begin, self.diagonal_fill_end)
        kept = tensor.dtype.type(0) if x is None else x
        return jnp.where(inside, generators.number(self.value, tensor.dtype), kept)


class RandomGenerator(Operator, op="RANDOM_GENERATOR"):
    """Makes random UINT32 numbers, evenly distributed, from a counter and a key.

    `output.ravel()[4 * i : 4 * i + 4] = philox_4x32_10(counter + i, key)` for i = 0, 1, ..., with
    the function that Salmon and others published in 2011; a last group is cut off.

    Choices: the words of the counter are in order, the lowest first, as in Random123; the counter
    wraps modulo 2^128.

    Gradient: none; all tensors are of integers.

    Fields:
        input_state_tensor: [1, ..., 1, 6]: four words of counter and two of key.
        output_tensor: of any sizes; the numbers.
        output_state_tensor: the state that continues: the counter after a quarter of the elements,
            rounded up, and the key.
        type: the algorithm.
    """

    def lower(self, state):
        return generators.random_bits(state, self.output_tensor.sizes)

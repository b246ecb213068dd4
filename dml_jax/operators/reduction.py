"""Operators that combine the elements along axes into one: REDUCE, ARGMAX, ARGMIN.

`lower` calls a function of `lowering/reduction.py`, whose docstring says which file has the program
for each platform.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import jax

from dml_jax.description.descriptor import UnknownFieldError
from dml_jax.enums import AxisDirection, ReduceFunction, TensorDataType
from dml_jax.errors import Expect
from dml_jax.lowering import reduction
from dml_jax.operator import Operator, rule

F = ReduceFunction


# Functions of an array and axes; of an index type too, where they give the places of elements.
_GIVE_INDEX = F.ARGMAX, F.ARGMIN
REDUCTIONS: dict[ReduceFunction, Callable[..., jax.Array]] = {
    F.ARGMAX: reduction.argmax,
    F.ARGMIN: reduction.argmin,
    F.AVERAGE: reduction.average,
    F.L1: reduction.l1,
    F.L2: reduction.l2,
    F.LOG_SUM: reduction.log_sum,
    F.LOG_SUM_EXP: reduction.log_sum_exp,
    F.MAX: reduction.max_,
    F.MIN: reduction.min_,
    F.MULTIPLY: reduction.multiply,
    F.SUM: reduction.sum_,
    F.SUM_SQUARE: reduction.sum_square,
}


class _OverAxes(Operator):
    """A reduction keeps the rank; what is reduced has size 1."""

    reduce_function: ClassVar[ReduceFunction]  # of ARGMAX and ARGMIN; REDUCE has a field of it

    @property
    def gives_index(self) -> bool:
        """Return whether the result has the places of elements, else what they make together."""
        return self.reduce_function in _GIVE_INDEX

    @classmethod
    def infer_from(cls, **fields: Any) -> Self:
        """Return the reduction over `axes`: over all, where there are none."""
        if not fields.get("axes"):
            fields["axes"] = tuple(range(fields["input_tensor"].dimension_count))
        return super().infer_from(**fields)

    @rule("input_tensor", "output_tensor", "axes")
    def indices_fit_their_type(self, expect: Expect) -> None:
        if not self.gives_index:
            return
        data_type, sizes = self.output_tensor.data_type, self.input_tensor.sizes
        count = math.prod(sizes[axis] for axis in {*self.axes} if axis < len(sizes))
        fits = data_type != TensorDataType.INT32 or count <= 2**31  # all other index types do
        text = f"hold {count - 1}, the largest index"
        expect(fits, "OutputTensor.DataType", text, data_type.shown())

    def default_data_types(self) -> Mapping[str, TensorDataType]:
        """Return UINT32 for indices, as in DirectMLX."""
        return {"output_tensor": TensorDataType.UINT32} if self.gives_index else {}


class Reduce(_OverAxes, op="REDUCE"):
    """Combines the elements along `axes` into one; the rank is kept.

    `output_tensor[i, 0] = f(input_tensor[i, k] for every k)`, where k stands for the indices of
    `axes` and i for the others.

    SUM, MULTIPLY, MIN, MAX as they say; AVERAGE `sum(x) / N`; L1 `sum(|x|)`; L2 `sqrt(sum(x^2))`;
    SUM_SQUARE `sum(x^2)`; LOG_SUM `ln(sum(x))`; LOG_SUM_EXP `ln(sum(exp(x)))`; ARGMAX and ARGMIN
    the index of the largest (smallest) element.

    Choices: FLOAT16 accumulates in FLOAT32 and is rounded once; integers wrap modulo 2^n. The
    compiled program decides the order in which floats are added: the last digits of a sum, and
    whether a part of it overflows, may differ between devices and programs. MIN and MAX give NaN
    where there is one, ARGMIN and ARGMAX the index of the first; ties go to the smallest index,
    which counts row-major within the reduced dimensions. LOG_SUM_EXP is shifted by the maximum. L2
    is right also where the square of an element is beyond the type's range.
    Denormals of FLOAT32 may count as 0, but in ARGMIN and ARGMAX: on a CPU XLA reads and writes 0
    for them, on a GPU it does not.

    Gradient: the function's derivative. MIN and MAX share among ties equally and have 0 where there
    is NaN, L1 has 0 at 0, L2 of a zero vector has 0, LOG_SUM_EXP has 0 where its result is
    infinite; ARGMAX and ARGMIN, and integers, have none.

    Fields:
        function: what to compute.
        output_tensor: the input's sizes, with 1 for each of `axes`; of its type, but for ARGMAX
            and ARGMIN, which give an integer type of the support table.
        axes: the dimensions to reduce: one or more, each once, in any order. Functions reduce all
            where the list is empty or left out.
    """

    takes_any_axes = True

    @property
    def reduce_function(self) -> ReduceFunction:
        """Return the field `function`; of an operator without it, rules have nothing to check."""
        if self.function is None:  # the class has an attribute of this name, for activations
            raise UnknownFieldError("function")
        return self.function

    def lower(self, x: jax.Array) -> jax.Array:
        dtype = [self.output_tensor.dtype] if self.gives_index else []
        return REDUCTIONS[self.function](x, self.axes, *dtype)


class _Arg(_OverAxes):
    """The signature and support of ARGMAX and ARGMIN.

    Gradient: none; an index is an integer.

    Fields:
        output_tensor: the input's sizes, with 1 for each of `axes`; of an index type.
        axes: the dimensions to reduce: one or more, each once, in any order. Functions reduce all
            where the list is empty or left out.
        axis_direction: among equals, INCREASING takes the smallest index, DECREASING the largest.
    """

    def lower(self, x: jax.Array) -> jax.Array:
        is_last = self.axis_direction == AxisDirection.DECREASING
        compute = REDUCTIONS[self.reduce_function]
        return compute(x, self.axes, self.output_tensor.dtype, is_last)


class Argmax(_Arg, op="ARGMAX"):
    """The index of the largest element along `axes`; the rank is kept.

    `output_tensor[i, 0] = k` where `input_tensor[i, k]` is the largest, with k the index within the
    dimensions of `axes` and i that of the others.

    Choices: the index counts row-major within the reduced dimensions in increasing order, whatever
    the order of `axes`; the first NaN where there is one (the last with DECREASING); -0.0 and 0.0
    are equal.
    """

    reduce_function = F.ARGMAX


class Argmin(_Arg, op="ARGMIN"):
    """The index of the smallest element along `axes`; otherwise as ARGMAX.

    `output_tensor[i, 0] = k` where `input_tensor[i, k]` is the smallest, with k the index within
    the dimensions of `axes` and i that of the others.

    Choices: the order of indices, NaN and -0.0 as for ARGMAX.
    """

    reduce_function = F.ARGMIN

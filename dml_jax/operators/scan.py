"""Operators that go along an axis: running sums and products, the first of sorted elements."""

from collections.abc import Mapping, Sequence

from dml_jax.enums import AxisDirection, TensorDataType
from dml_jax.lowering import scans
from dml_jax.operator import Operator


class _Cumulative(Operator):
    """Combines each element along an axis with all before it.

    Choices: FLOAT16 is computed in FLOAT32, and each element is rounded once; integers wrap modulo
    2^n. In which order floats are combined is the platform's, so that the last digits of an
    element, and whether a part of it overflows, may differ.

    Fields:
        output_tensor: of the input's type and sizes; may be the input's memory.
        axis_direction: INCREASING from the first element on, DECREASING from the last.
    """

    @property
    def _is_reversed(self) -> bool:
        """Return whether the operator begins at the end of the axis."""
        return self.axis_direction == AxisDirection.DECREASING


class CumulativeSummation(_Cumulative, op="CUMULATIVE_SUMMATION"):
    """Adds up elements along an axis, in each line.

    `output[j] = sum(input[i] for i <= j)`; DECREASING has `i >= j` in place of `i <= j`.

    Gradient: CUMULATIVE_SUMMATION of the output's, in the other direction.

    Fields:
        has_exclusive_sum: whether the element j itself is left out; the first sum is 0 then.
    """

    def lower(self, x):
        return scans.cumulative_sum(x, self.axis, self._is_reversed, self.has_exclusive_sum)


class CumulativeProduct(_Cumulative, op="CUMULATIVE_PRODUCT"):
    """Multiplies elements along an axis, in each line.

    `output[j] = product(input[i] for i <= j)`; DECREASING has `i >= j` in place of `i <= j`.

    Gradient: for each element, the sum of the output's times the product of the other elements.

    Fields:
        has_exclusive_product: whether the element j itself is left out; the first product is 1
            then.
    """

    def lower(self, x):
        return scans.cumulative_product(x, self.axis, self._is_reversed, self.has_exclusive_product)


class _TopK(Operator):
    """Takes the first elements of sorted lines.

    Choices: NaN comes before all numbers, in both directions; -0 and 0 are equal.

    Gradient: the output's, at the elements that were taken.

    Fields:
        output_value_tensor: the elements; of the input's sizes, but `k` along `axis`.
        output_index_tensor: where each element lies on `axis`, from 0, as UINT64 or UINT32.
        axis: the dimension of the lines.
        k: how many elements of each line to take. Choice: all are accepted.
    """

    def default_data_types(self) -> Mapping[str, TensorDataType]:
        """Return UINT32 for indices, as in DirectMLX."""
        return {"output_index_tensor": TensorDataType.UINT32}

    def default_sizes(self) -> Mapping[str, Sequence[int]]:
        sizes = list(self.input_tensor.sizes)
        sizes[self.axis] = self.k
        return {"output_value_tensor": sizes, "output_index_tensor": sizes}

    def lower(self, x):
        is_increasing = self.axis_direction == AxisDirection.INCREASING
        return scans.top_k(x, self.axis, self.k, is_increasing, self.output_index_tensor.dtype)


class TopK(_TopK, op="TOP_K"):
    """Takes the largest elements of each line along an axis, the largest first, and their indices.

    `value[j] = input[index[j]]`, the element j of the line when it is sorted. Equal elements stay
    in the order of their indices.
    """

    arguments = only = ("axis_direction",)
    axis_direction = AxisDirection.DECREASING


class TopK1(_TopK, op="TOP_K1"):
    """Takes the first elements of each line, sorted along an axis, and their indices.

    `value[j] = input[index[j]]`, the element j of the line when it is sorted. Equal elements stay
    in the order of their indices, in both directions.

    Fields:
        axis_direction: INCREASING takes the smallest elements, the smallest first; DECREASING the
            largest.
    """

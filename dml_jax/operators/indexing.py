"""Operators that read or write elements where index tensors say."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from dml_jax.errors import DmlError, Fault
from dml_jax.lowering import indexing
from dml_jax.operator import Fitted, Operator, with_rank


def _of_rank(sizes: Sequence[int], rank: int) -> list[int]:
    """Return sizes with as many ones in front as give the rank; leading ones go where too many."""
    sizes = list(sizes)
    while len(sizes) > rank and sizes[0] == 1:
        del sizes[0]
    return [1] * (rank - len(sizes)) + sizes


def _without_leading(x: jax.Array, count: int) -> jax.Array:
    """Return an array with its last `count` dimensions; those before have the size 1."""
    return x.reshape(x.shape[x.ndim - count :])


class _Indexed(Operator):
    """Reads or writes elements where an index tensor says.

    Choices: a negative index counts from the end.

    Fields:
        input_dimension_count: the number of the input's dimensions, from the last one, that count;
            those before have the size 1.
        indices_dimension_count: the number of dimensions of the indices, from the last one, that
            count; those before have the size 1.
    """


def _fitted_slices(
    sizes: Mapping[str, tuple[int, ...] | None], attributes: Mapping[str, Any], scatters: bool
) -> Fitted:
    """Return how arrays of slices fit, where a call leaves out how many dimensions count: all."""
    x, indices = sizes["input_tensor"], sizes["indices_tensor"]
    asked = attributes["input_dimension_count"], attributes["indices_dimension_count"]
    if asked != (None, None) or not x or not indices:
        return Fitted()  # as DirectML has it
    changed = {"input_dimension_count": len(x), "indices_dimension_count": len(indices)}
    slices = *indices[:-1], *x[attributes.get("batch_dimension_count", 0) + indices[-1] :]
    rank = max(len(x), len(indices), len(slices))
    fitted = {"input_tensor": with_rank(x, rank), "indices_tensor": with_rank(indices, rank)}
    if not scatters:
        return Fitted(fitted, changed, slices)
    updates = sizes["updates_tensor"]
    if updates is not None:
        fitted["updates_tensor"] = with_rank(updates, rank)
    return Fitted(fitted, changed, x)


class _Gather(_Indexed):
    """Reads elements where an index tensor says.

    Choices: an index that is out of range, after negative ones count from the end, is clamped to
    the nearest end.

    Gradient: the output's, added up at the elements that were read.

    Fields:
        output_tensor: the elements; of the input's type and rank, with ones in front.
    """

    def default_sizes(self) -> Mapping[str, Sequence[int]]:
        return {"output_tensor": _of_rank(self._sizes, self.input_tensor.dimension_count)}

    @property
    def _sizes(self) -> Sequence[int]:
        """Return the output's sizes, of any rank."""
        raise NotImplementedError


class Gather(_Gather, op="GATHER"):
    """Reads slices along an axis.

    `output[a, i, b] = input[a, indices[i], b]`, where i stands for the coordinates in the last
    `index_dimensions` dimensions of the indices, a and b for those before and behind `axis`.

    Fields:
        axis: the dimension of the input that indices name.
        index_dimensions: the number of dimensions of the indices, from the last one, that count;
            those before have the size 1. Choice: 0 and the rank are accepted. Functions count all
            where it is left out; then, and where ranks differ, the sizes are those of `jnp.take`.
    """

    @classmethod
    def fitted(
        cls, sizes: Mapping[str, tuple[int, ...] | None], attributes: Mapping[str, Any]
    ) -> Fitted:
        """Return arrays of other ranks with ones in front; then the result has `take`'s sizes."""
        x, indices = sizes["input_tensor"], sizes["indices_tensor"] or ()
        axis, count = attributes["axis"], attributes["index_dimensions"]
        own, is_asked = len(indices), count is not None
        count = count if is_asked else own
        if not x or type(axis) is not int:  # the descriptor says what is wrong, as below
            rank = max(len(x or ()), own)
            ranked = {n: with_rank(s, rank) for n, s in sizes.items() if s}
            return Fitted(ranked, {"index_dimensions": count})
        if type(count) is not int or not 0 <= count <= own:
            return Fitted()
        places = next((d for d, size in enumerate(x) if size != 1), len(x))
        if is_asked and own == len(x) and count - 1 <= places:
            return Fitted()  # as DirectML has it
        if not -len(x) <= axis < len(x):
            rule = f"be in [{-len(x)}, {len(x) - 1}]"
            raise DmlError([Fault(cls.c_name, "Axis", rule, axis)])
        axis %= len(x)
        result = (*x[:axis], *indices[own - count :], *x[axis + 1 :])
        rank = max(len(x), own, len(result))
        fitted = {"input_tensor": with_rank(x, rank), "indices_tensor": with_rank(indices, rank)}
        changed = {"axis": axis + rank - len(x), "index_dimensions": count}
        return Fitted(fitted, changed, result)

    @property
    def _sizes(self) -> Sequence[int]:
        input_, indices = self.input_tensor.sizes, self.indices_tensor.sizes
        kept = indices[len(indices) - self.index_dimensions :]
        return [*input_[: self.axis], *kept, *input_[self.axis + 1 :]]

    def lower(self, x, indices):
        indices = _without_leading(indices, self.index_dimensions)
        return indexing.gather(x, indices, self.axis).reshape(self.output_tensor.sizes)


class GatherElements(_Gather, op="GATHER_ELEMENTS"):
    """Reads one element for each index, in the index's own line along an axis.

    `output[a, i, b] = input[a, indices[a, i, b], b]`, where i is the coordinate on `axis`, and a
    and b stand for those before and behind it.

    Fields:
        indices_tensor: the indices; of the input's sizes, but along `axis`.
        output_tensor: the elements; of the indices' sizes.
        axis: the dimension of the input that indices name.
    """

    @property
    def _sizes(self) -> Sequence[int]:
        return self.indices_tensor.sizes

    def lower(self, x, indices):
        return indexing.gather_elements(x, indices, self.axis)


class _GatherNd(_Gather):
    """Reads slices, each at a list of indices."""

    batch_dimension_count = 0

    @classmethod
    def fitted(
        cls, sizes: Mapping[str, tuple[int, ...] | None], attributes: Mapping[str, Any]
    ) -> Fitted:
        return _fitted_slices(sizes, attributes, scatters=False)

    @property
    def _sizes(self) -> Sequence[int]:
        input_, indices = self.input_tensor.sizes, self.indices_tensor.sizes
        first = len(input_) - self.input_dimension_count + self.batch_dimension_count
        kept = indices[len(indices) - self.indices_dimension_count : -1]
        return [*kept, *input_[first + indices[-1] :]]

    def lower(self, x, indices):
        x = _without_leading(x, self.input_dimension_count)
        indices = _without_leading(indices, self.indices_dimension_count)
        read = indexing.gather_nd(x, indices, self.batch_dimension_count)
        return read.reshape(self.output_tensor.sizes)


class GatherNd(_GatherNd, op="GATHER_ND"):
    """Reads slices, each at a list of indices.

    `output[i, b] = input[indices[i, :], b]`. The last dimension of the indices names as many of the
    input's first dimensions; i stands for the coordinates before it, b for those that are not
    named.
    """

    arguments = only = ("batch_dimension_count",)


class GatherNd1(_GatherNd, op="GATHER_ND1"):
    """Reads slices, each at a list of indices, from the same batch.

    `output[n, i, b] = input[n, indices[n, i, :], b]`, where n stands for the coordinates in the
    batch dimensions, i for the others of the indices before the last dimension, which names as many
    dimensions of the input behind the batch dimensions; b for those that are not named.

    Fields:
        batch_dimension_count: the number of first dimensions that input and indices share.
    """


class _Scatter(_Indexed):
    """Writes elements where an index tensor says.

    Choices: an index that is out of range, after negative ones count from the end, writes nothing.
    Of several indices of one place, the last in row-major order writes, on every platform.

    Gradient: the output's, for the input where nothing was written, for each update where it was
    written.

    Fields:
        output_tensor: the input with the updates in it.
    """


class Scatter(_Scatter, op="SCATTER"):
    """Writes one element for each index, into the index's own line along an axis.

    `output[a, indices[a, i, b], b] = updates[a, i, b]`, where i is the coordinate on `axis`, and a
    and b stand for those before and behind it. All other elements are the input's.

    The operator's other name is SCATTER_ELEMENTS.

    Fields:
        indices_tensor: the indices; of the input's sizes, but along `axis`.
        updates_tensor: the elements to write; of the indices' sizes.
        axis: the dimension of the output that indices name.
    """

    def lower(self, x, indices, updates):
        return indexing.scatter_elements(x, indices, updates, self.axis)


class ScatterNd(_Scatter, op="SCATTER_ND"):
    """Writes slices, each at a list of indices.

    `output[indices[i, :], b] = updates[i, b]`. The last dimension of the indices names as many of
    the input's first dimensions; i stands for the coordinates before it, b for those that are not
    named. All other elements are the input's.

    Fields:
        updates_tensor: the slices to write.
    """

    @classmethod
    def fitted(
        cls, sizes: Mapping[str, tuple[int, ...] | None], attributes: Mapping[str, Any]
    ) -> Fitted:
        return _fitted_slices(sizes, attributes, scatters=True)

    def lower(self, x, indices, updates):
        sizes = self.output_tensor.sizes
        x = _without_leading(x, self.input_dimension_count)
        indices = _without_leading(indices, self.indices_dimension_count)
        updates = updates.reshape(*indices.shape[:-1], *x.shape[indices.shape[-1] :])
        return indexing.scatter_nd(x, indices, updates).reshape(sizes)


class OneHot(_Indexed, op="ONE_HOT"):
    """Makes lines in which one element differs from the others.

    `output[.., j, ..] = on if j == index else off`, where j is the coordinate on `axis`. `off` and
    `on` are the first two elements of the values, in row-major order; each index is that of the
    line along `axis`.

    Choices: a line whose index is out of range, after negative ones count from the end, is `off`
    everywhere.

    Gradient: for each of the two values, the sum of the output's over its copies.

    Fields:
        indices_tensor: an index for each line; of the size 1 along `axis`.
        values_tensor: `off` and `on`, at least; of the output's type.
        output_tensor: the lines; of any size along `axis`, and of the indices' in all others.
        axis: the dimension of a line.
    """

    arguments = ("output_length",)

    @classmethod
    def infer_from(cls, **fields: Any) -> Any:
        """Return the operator whose lines have `output_length` elements."""
        length, axis = fields.pop("output_length"), fields["axis"]
        sizes = list(fields["indices_tensor"].sizes)
        if isinstance(axis, int) and 0 <= axis < len(sizes):  # or else the axis is refused
            sizes[axis] = length
        return cls.infer(**fields, output_sizes=sizes)

    def lower(self, indices, values):
        return indexing.one_hot(indices, values, self.output_tensor.sizes[self.axis], self.axis)


class NonzeroCoordinates(Operator, op="NONZERO_COORDINATES"):
    """Finds the elements that are not zero: their number, and the coordinates of each.

    `coordinates[r] = place of the element r`, where r counts the elements that are not zero, in
    row-major order.

    Choices: NaN and subnormal numbers are not zero, -0 is; rows past the number are 0.

    Gradient: none; the outputs are integers.

    Fields:
        output_count_tensor: the number of elements that are not zero; of one element.
        output_coordinates_tensor: a row for each element of the input, with its coordinates in the
            last dimensions; leading dimensions of the size 1 may be left out of it.
    """

    def default_sizes(self) -> Mapping[str, Sequence[int]]:
        tensor = self.input_tensor
        rows = [math.prod(tensor.sizes), tensor.dimension_count]
        return {"output_count_tensor": [1], "output_coordinates_tensor": rows}

    def lower(self, x):
        sizes = self.output_coordinates_tensor.sizes
        count, coordinates = indexing.nonzero(x, sizes[-1])
        return count.reshape(self.output_count_tensor.sizes), coordinates.reshape(sizes)

"""Windows that slide over the spatial dimensions of an array {N, C, spatial...}.

`first` is the first spatial axis of an array: 2, or 1 of {N, spatial..., C}.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.axes import on_axis
from dml_jax.lowering.indexing import gather
from dml_jax.lowering.platform_forms import by_platform
from dml_jax.lowering.slicing import every

Parts = TypeVar("Parts")

# A longer window is folded half by half, so that a program does not grow with its size.
FEW = 8


class Window(NamedTuple):
    """A window: one number for each spatial dimension in every list.

    Attributes:
        sizes: the elements that the window reads.
        strides: the steps from one window to the next.
        dilations: the steps from one element of a window to the next.
        start, end: the elements of padding before and behind the input; an end below 0 cuts it.
    """

    sizes: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]
    start: Sequence[int]
    end: Sequence[int]

    @property
    def padding(self) -> list[tuple[int, int]]:
        """The padding before and behind each spatial dimension."""
        return list(zip(self.start, self.end, strict=True))

    @property
    def is_padded(self) -> bool:
        """Return whether there is any padding."""
        return any(self.start) or any(self.end)

    @property
    def unpadded(self) -> "Window":
        """The window without padding, for an input that is padded already."""
        zeros = (0,) * len(self.sizes)
        return self._replace(start=zeros, end=zeros)

    @property
    def offsets(self) -> Iterator[tuple[int, ...]]:
        """The places of the window's elements from its first one, row-major."""
        steps = zip(self.sizes, self.dilations, strict=True)
        return itertools.product(*(range(0, size * step, step) for size, step in steps))

    def counts(self, sizes: Sequence[int]) -> list[int]:
        """Return how many windows there are in each dimension of an input of spatial `sizes`."""
        parts = zip(sizes, *self, strict=True)
        return [(n + a + b - (k - 1) * d - 1) // s + 1 for n, k, s, d, a, b in parts]

    def counted(self, sizes: Sequence[int], counts: Sequence[int]) -> "Window":
        """Return the window with the end of which an input of spatial `sizes` has `counts`.

        It is longer where the last window hangs over the end, and negative where elements behind
        the last window are left out.
        """
        if list(counts) == self.counts(sizes):
            return self
        parts = zip(sizes, counts, *self, strict=True)
        return self._replace(
            end=[(c - 1) * s + (k - 1) * d + 1 - n - a for n, c, k, s, d, a, _ in parts]
        )

    def spatial(self, x: jax.Array, first: int = 2) -> tuple[int, ...]:
        """Return the spatial sizes of an array."""
        return x.shape[first : first + len(self.sizes)]

    def padded(self, x: jax.Array, value: jax.typing.ArrayLike, first: int = 2) -> jax.Array:
        """Return `x` with `value` for the padding."""
        if not self.is_padded:
            return x
        edges = [(0, 0, 0)] * x.ndim
        edges[first : first + len(self.sizes)] = [(a, b, 0) for a, b in self.padding]
        return lax.pad(x, jnp.asarray(value, x.dtype), edges)

    def at(
        self, x: jax.Array, offset: Sequence[int], counts: Sequence[int], first: int = 2
    ) -> jax.Array:
        """Return the element of each window that lies at `offset`; `x` is padded."""
        for d, step in enumerate(offset):
            x = every(x, d + first, step, self.strides[d], counts[d])
        return x

    def fold(self, combine: Callable[[Parts, Parts], Parts], parts: Parts, first: int = 2) -> Parts:
        """Return the elements of each window combined, in their row-major order.

        `combine` is associative; `parts` is the padded array, or several of the same sizes.
        """
        counts = self.unpadded.counts(self.spatial(jax.tree.leaves(parts)[0], first))
        for d in reversed(range(len(counts))):
            steps = self.sizes[d], self.dilations[d], self.strides[d]
            parts = _fold_halves(combine, parts, d + first, *steps, counts[d])
        return parts

    def elements(self, sizes: Sequence[int], dtype: np.dtype, first: int = 2) -> jax.Array:
        """Return how many elements of each window lie in an input of spatial `sizes`."""
        rank = 2 + len(sizes)
        total = jnp.ones([1] * rank, dtype)
        for d, count in enumerate(self.counts(sizes)):
            start = np.arange(count)[:, None] * self.strides[d] - self.start[d]
            places = start + np.arange(self.sizes[d]) * self.dilations[d]
            inside = ((places >= 0) & (places < sizes[d])).sum(1).astype(dtype)
            total = total * on_axis(inside, d + first, rank)
        return total


def _fold_halves(
    combine: Callable[[Parts, Parts], Parts],
    parts: Parts,
    axis: int,
    size: int,
    dilation: int,
    stride: int,
    count: int,
) -> Parts:
    """Return windows along one axis combined."""

    def at(parts: Parts, first: int) -> Parts:
        return jax.tree.map(lambda x: every(x, axis, first, stride, count), parts)

    if size <= FEW:
        return functools.reduce(combine, (at(parts, k * dilation) for k in range(size)))
    half = size // 2
    places = (count - 1) * stride + 1 + half * dilation
    halves = _fold_halves(combine, parts, axis, half, dilation, 1, places)
    whole = combine(at(halves, 0), at(halves, half * dilation))
    return combine(whole, at(parts, (size - 1) * dilation)) if size % 2 else whole


def elements_of_windows(x: jax.Array, window: Window) -> jax.Array:
    """Return {N, C, window sizes..., counts of windows...}: the elements at each place of it."""
    parts = functools.partial(_elements, window=window, takes=False)
    taken = functools.partial(_elements, window=window, takes=True)
    return by_platform(parts, cpu=taken, whole_arrays=True)(x)


def _elements(x: jax.Array, window: Window, takes: bool) -> jax.Array:
    """Return `elements_of_windows` by slices.

    With `takes` rows are taken by their places: a CPU's kernel of slices grows with their number.
    """
    counts = window.counts(x.shape[2:])
    x = window.padded(x, 0)
    for d, count in enumerate(counts):  # {N, C, sizes so far..., counts so far..., spatial...}
        axis, step, stride = 2 + 2 * d, window.dilations[d], window.strides[d]
        taps = range(0, window.sizes[d] * step, step)
        if takes and len(taps) > 1 and math.prod(x.shape[axis + 1 :]) > 1:
            places = jnp.asarray(np.add.outer(taps, stride * np.arange(count)), np.uint32)
            x = jnp.moveaxis(gather(x, places, axis), axis, 2 + d)
        else:
            slices = [every(x, axis, first, stride, count) for first in taps]
            x = lax.concatenate([lax.expand_dims(s, [2 + d]) for s in slices], 2 + d)
    return x


def unfold(x: jax.Array, window: Window) -> jax.Array:
    """Return {N, C * window elements, windows}: each column has the elements of one window."""
    elements = elements_of_windows(x, window)
    rows = x.shape[1] * math.prod(window.sizes)
    return elements.reshape(x.shape[0], rows, -1)


def fold(x: jax.Array, window: Window, shape: Sequence[int]) -> jax.Array:
    """Return an array of `shape` with the columns that `unfold` makes added at their places."""
    whole = lax.full_like(x, 0, shape=shape)
    (y,) = jax.linear_transpose(lambda y: unfold(y, window), whole)(x)
    return y


def dilated(x: jax.Array, edges: Sequence[tuple[int, int, int]]) -> jax.Array:
    """Return `x` with zeros before, behind and between its elements, as `lax.pad` takes edges.

    Negative edges are cut off last: XLA's partitioner ends the process where it would do both.
    """
    more = [(max(low, 0), max(high, 0), inside) for low, high, inside in edges]
    padded = lax.pad(x, x.dtype.type(0), more)
    starts = [max(-low, 0) for low, _, _ in edges]
    ends = [n - max(-high, 0) for n, (_, high, _) in zip(padded.shape, edges, strict=True)]
    return lax.slice(padded, starts, ends)

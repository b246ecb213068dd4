"""The kinds of reductions: what each means, and its form on a CPU and on an NVIDIA GPU.

On a CPU the form of more than LITTLE (2**15) elements is `cpu.fold` of a `Fold` that stands here;
fewer elements have `plain`. On a GPU a kind that keeps one array is `gpu.by_xla`, XLA's own
reduction but for short odd rows; a kind that keeps two is `gpu.fold` of a `Pair`.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.axes import (
    LITTLE,
    Axes,
    Parts,
    last_row,
    pairwise,
    reduced_shape,
    restored,
    runs_of,
    summed,
)
from dml_jax.lowering.dtypes import (
    finite,
    is_float,
    is_infinite,
    lowest,
    ordered_bits,
    signed_type,
    where,
    wide,
    wide_type,
)
from dml_jax.lowering.platform_forms import in_memory
from dml_jax.lowering.reduce import cpu, gpu, packed
from dml_jax.lowering.reduce.packed import UINT32
from dml_jax.lowering.reduce.primitive import Kind, Layout, along_axes


def _zero(dtype: np.dtype) -> Any:
    return dtype.type(0)


def _one(dtype: np.dtype) -> Any:
    return dtype.type(1)


_SUM = cpu.Fold(
    combine=functools.partial(pairwise, lax.add),
    rows=cpu.rows_with_nan_flag(lax.add, _zero, keeps=True),
)
_PRODUCT = cpu.Fold(
    combine=functools.partial(pairwise, lax.mul),
    rows=cpu.rows_with_nan_flag(lax.mul, _one, keeps=True),
)


@dataclass(frozen=True)
class Sum(Kind):
    """The sum, in the elements' own type."""

    linear = 0

    def plain(self, x: jax.Array, axes: Axes) -> Parts:
        return (summed(x, axes),)

    def tuned(self, platform: str, x: jax.Array, axes: Axes) -> Parts:
        if platform == "cpu" and x.size > LITTLE:
            return (cpu.fold(_SUM, x, axes),)
        if platform == "cuda":
            own = gpu.by_bits(lax.reduce_sum, is_ordered=False)
            return (gpu.by_xla(own, lax.add, [_zero(wide_type(x.dtype))], x, axes),)
        return self.plain(x, axes)

    def per_shard(self, x: jax.Array, axes: Axes, layout: Layout) -> Parts:
        return (lax.psum(self.tuned(layout.platform, x, axes)[0], layout.over(axes)),)

    def transposed(self, cotangent: jax.Array, x: Any, axes: Axes) -> jax.Array:
        shape, sharding = x.aval.shape, x.aval.sharding
        return lax.broadcast_in_dim(cotangent, shape, range(len(shape)), out_sharding=sharding)


def sum_along(x: jax.Array, axes: Axes) -> jax.Array:
    """Return the sum, in the elements' own type, in the form of the platform."""
    return along_axes(Sum(), x, axes=axes)[0]


@dataclass(frozen=True)
class Repeat(Kind):
    """Elements repeated along axes of size 1, which have so many elements then.

    It is `lax.broadcast_in_dim` with a transpose that is a `Sum`, which a CPU computes faster.
    """

    counts: tuple[int, ...]
    linear = 0

    def shape(self, shape: Sequence[int], axes: Axes) -> Sequence[int]:
        counts = dict(zip(axes, self.counts, strict=True))
        return [counts.get(a, n) for a, n in enumerate(shape)]

    def plain(self, x: jax.Array, axes: Axes) -> Parts:
        shape = self.shape(x.shape, axes)
        return (lax.broadcast_in_dim(x, shape, range(x.ndim)),)

    def transposed(self, cotangent: jax.Array, x: Any, axes: Axes) -> jax.Array:
        return lax.convert_element_type(sum_along(wide(cotangent), axes), cotangent.dtype)


@dataclass(frozen=True)
class Product(Kind):
    """The product, in the elements' own type."""

    def plain(self, x: jax.Array, axes: Axes) -> Parts:
        return (restored(lax.reduce_prod(x, axes), axes),)

    def by_halves(self, x: jax.Array, axes: Axes) -> jax.Array:
        """Return the product as products of halves, whose derivatives are products too."""
        for a in axes:
            while (n := x.shape[a]) > 1:
                first, second, rest = lax.split(x, (n // 2, n // 2, n % 2), a)
                x = lax.concatenate([first * second, rest], a)
        return x

    def tuned(self, platform: str, x: jax.Array, axes: Axes) -> Parts:
        if platform == "cpu" and x.size > LITTLE:
            return (cpu.fold(_PRODUCT, x, axes),)
        if platform == "cuda":
            own = gpu.by_bits(lax.reduce_prod, is_ordered=False)
            return (gpu.by_xla(own, lax.mul, [_one(wide_type(x.dtype))], x, axes),)
        return self.plain(x, axes)


@dataclass(frozen=True)
class Norm(Kind):
    """The square root of the sum of squares, in the type that elements accumulate in.

    A CPU and a GPU sum squares of float32 in float64, where no square overflows.
    """

    def types(self, dtype: np.dtype) -> Sequence[np.dtype]:
        return (wide_type(dtype),)

    def plain(self, x: jax.Array, axes: Axes) -> Parts:
        x = wide(x)
        most = restored(lax.reduce_max(lax.abs(x), axes), axes)
        scale = where((most > 0) & (most < np.inf), _power_of_two(most), 1)
        total = restored(lax.reduce_sum(lax.square(x / scale), axes), axes)
        return (scale * lax.sqrt(total),)

    def tuned(self, platform: str, x: jax.Array, axes: Axes) -> Parts:
        if platform not in ("cpu", "cuda") or x.dtype.itemsize == 8:  # no wider type
            return self.plain(x, axes)
        return (self._root(self._squares(platform, x, axes), x),)

    def per_shard(self, x: jax.Array, axes: Axes, layout: Layout) -> Parts:
        with jax.enable_x64(True):
            total = lax.psum(self._squares(layout.platform, x, axes), layout.over(axes))
        return (self._root(total, x),)

    def _squares(self, platform: str, x: jax.Array, axes: Axes) -> jax.Array:
        wider = np.dtype(np.float64) if x.dtype == jnp.float32 else wide_type(x.dtype)

        def squared(x: jax.Array) -> jax.Array:
            return lax.square(lax.convert_element_type(x, wider))

        with jax.enable_x64(True):
            if platform == "cpu" and x.size > LITTLE:
                return cpu.fold(replace(_SUM, start=squared), x, axes)
            return Sum().tuned(platform, squared(x), axes)[0]

    def _root(self, total: jax.Array, x: jax.Array) -> jax.Array:
        with jax.enable_x64(True):
            return lax.convert_element_type(lax.sqrt(total), wide_type(x.dtype))


def _power_of_two(x: jax.Array) -> jax.Array:
    """Return the power of two that a positive number begins with, by its exponent's bits."""
    integer = signed_type(x.dtype)
    bits = lax.bitcast_convert_type(x, integer) & x.dtype.type(np.inf).view(integer)
    return lax.max(lax.bitcast_convert_type(bits, x.dtype), np.finfo(x.dtype).tiny)


@dataclass(frozen=True)
class Extreme(Kind):
    """The largest element, or the smallest; NaN where there is one."""

    largest: bool

    def plain(self, x: jax.Array, axes: Axes) -> Parts:
        if _are_single(x, axes):
            return (x,)
        own = lax.reduce_max if self.largest else lax.reduce_min
        return (restored(_nan_by_integers(lambda x: own(x, axes), x, self.largest), axes),)

    def tuned(self, platform: str, x: jax.Array, axes: Axes) -> Parts:
        if platform == "cpu" and x.size > LITTLE:
            return (cpu.fold(_EXTREMES[self.largest], x, axes),)
        if platform == "cuda":
            return (self._by_xla(x, axes),)
        return self.plain(x, axes)

    def _by_xla(self, x: jax.Array, axes: Axes) -> jax.Array:
        own, op = (lax.reduce_max, lax.max) if self.largest else (lax.reduce_min, lax.min)
        if not is_float(x) and x.dtype.itemsize < 4:
            y = self._by_xla(lax.convert_element_type(x, np.int32), axes)
            return lax.convert_element_type(y, x.dtype)
        if last_row(x.shape, axes) != []:  # of signed rows XLA's own is as fast
            return gpu.by_xla(own, op, [lowest(wide_type(x.dtype), self.largest)], x, axes)
        return restored(gpu.by_bits(own, is_ordered=True)(x, axes), axes)

    def per_shard(self, x: jax.Array, axes: Axes, layout: Layout) -> Parts:
        (y,) = self.tuned(layout.platform, x, axes)
        return (extreme_across(y, layout.over(axes), self.largest),)


def _are_single(x: jax.Array, axes: Axes) -> bool:
    """Return whether each element is alone along the axes: it is its own extreme."""
    return all(x.shape[a] == 1 for a in axes)


def _nan_by_integers(
    reduction: Callable[[jax.Array], jax.Array], x: jax.Array, largest: bool
) -> jax.Array:
    """Reduce floats by way of integers, since XLA's reductions and collectives may drop NaN."""
    if not is_float(x):
        return reduction(x)
    y = wide(x)
    integer = signed_type(y.dtype)
    nan = np.iinfo(integer).max if largest else np.iinfo(integer).min
    key = reduction(where(x != x, nan, ordered_bits(lax.bitcast_convert_type(y, integer))))
    value = lax.bitcast_convert_type(ordered_bits(key), y.dtype)
    return where(key == nan, np.nan, lax.convert_element_type(value, x.dtype))


def extreme_across(x: jax.Array, names: tuple[str, ...], largest: bool) -> jax.Array:
    """Return the extreme of what devices have, over the named mesh axes."""
    across = lax.pmax if largest else lax.pmin
    return _nan_by_integers(lambda x: across(x, names), x, largest)


def _extreme_of(pieces: Sequence[jax.Array], largest: bool) -> jax.Array:
    """Return the extreme elementwise.

    Floats are compared as if none were NaN, which is put back at the end: half the instructions.
    """
    if not is_float(pieces[0]):
        return pairwise(lax.max if largest else lax.min, pieces)
    if pieces[0].dtype == jnp.float16:
        keys = [cpu.key_of(piece) for piece in pieces]
        low, high = pairwise(lax.min, keys), pairwise(lax.max, keys)
        return cpu.extreme_of_keys(low, high, pieces[0].dtype, largest)
    beats = lax.gt if largest else lax.lt
    top = pairwise(lambda a, b: lax.select(beats(a, b), a, b), pieces)
    is_nan = pairwise(lax.bitwise_or, [piece != piece for piece in pieces])
    return where(is_nan, np.nan, top)


def _extreme_rows(x: jax.Array, largest: bool) -> jax.Array:
    """Return the extreme of each row; floats by integers of their order, which keep NaN."""
    if is_float(x):
        return cpu.extreme_of_keys(*cpu.least_and_greatest(cpu.key_of(x)), x.dtype, largest)
    op = lax.max if largest else lax.min
    return cpu.rows_with_nan_flag(op, functools.partial(lowest, largest=largest))(x)


_EXTREMES = {
    largest: cpu.Fold(
        functools.partial(_extreme_of, largest=largest),
        functools.partial(_extreme_rows, largest=largest),
    )
    for largest in (True, False)
}


@dataclass(frozen=True)
class Arg(Kind):
    """The row-major index along the axes of the extreme element: the first NaN, if there is one.

    Elements compare by value and, where that is equal, by index: the answer is the same in whatever
    order they are combined.

    Attributes:
        largest: whether the largest element is looked for, else the smallest.
        last: whether the last of equal elements is, else the first.
    """

    largest: bool
    last: bool

    def types(self, dtype: np.dtype) -> Sequence[np.dtype]:
        return (UINT32,)

    def plain(self, x: jax.Array, axes: Axes) -> Parts:
        if _are_single(x, axes):
            return (lax.full_like(x, 0, np.uint32),)
        (value,) = Extreme(self.largest).plain(x, axes)
        return (self._index_of(value, x, packed.indices(x, axes), axes),)

    def _index_of(self, value: jax.Array, x: jax.Array, index: jax.Array, axes: Axes) -> jax.Array:
        is_it = (x == value) | (x != x) if is_float(x) else x == value
        own, none = (lax.reduce_max, 0) if self.last else (lax.reduce_min, 2**32 - 1)
        return restored(own(where(is_it, index, none), axes), axes)

    def tuned(self, platform: str, x: jax.Array, axes: Axes) -> Parts:
        if platform not in ("cpu", "cuda"):
            return self.plain(x, axes)
        shape = reduced_shape(x.shape, axes)
        if platform == "cuda" or last_row(x.shape, axes):
            # Of neighbouring axes as one, XLA knows each index without divisions.
            runs = runs_of(x.shape, axes)
            x = x.reshape([n for n, _ in runs])
            axes = [a for a, (_, is_reduced) in enumerate(runs) if is_reduced]
        is_long = math.prod(last_row(x.shape, axes)) > gpu.AT_ONCE
        if platform == "cuda" and x.size > LITTLE and not is_long:
            pair = gpu.Pair(self._identity, functools.partial(pairwise, self._pair))
            index = gpu.fold(pair, (x, packed.indices(x, axes)), axes)[1]
        elif packed.fits(x.dtype):
            index = self._packed(platform, x, axes, x.shape, [0] * x.ndim)
        else:
            (index,) = self.plain(x, axes)
        return (index.reshape(shape),)

    def per_shard(self, x: jax.Array, axes: Axes, layout: Layout) -> Parts:
        places = [lax.axis_index(names) if names else 0 for names in layout.names]
        starts = [place * n for place, n in zip(places, x.shape, strict=True)]
        names = layout.over(axes)
        if packed.fits(x.dtype):
            return (self._packed(layout.platform, x, axes, layout.shape, starts, names),)
        value = extreme_across(Extreme(self.largest).plain(x, axes)[0], names, self.largest)
        index = packed.indices(x, axes, UINT32, layout.shape, starts)
        across = lax.pmax if self.last else lax.pmin
        return (across(self._index_of(value, x, index, axes), names),)

    def _packed(
        self,
        platform: str,
        x: jax.Array,
        axes: Axes,
        sizes: Sequence[int],
        starts: Sequence[Any],
        names: tuple[str, ...] = (),
    ) -> jax.Array:
        kind = Extreme(self.last)

        def extreme(integers: jax.Array, axes: Axes) -> jax.Array:
            return kind.tuned(platform, integers, axes)[0]

        def agreed(integers: jax.Array, axes: Axes) -> jax.Array:
            best = extreme(integers, axes)
            return extreme_across(best, names, self.last) if names else best

        values = packed.ordered(x, self.largest, complemented=self.largest != self.last)
        if platform == "cpu" and not names and (length := cpu.length_of_rows(x.shape, axes)):
            return packed.of_rows(values, x.dtype, axes, length, extreme)
        return packed.index_of_extreme(values, x.dtype, axes, agreed, sizes, starts)

    def _identity(self, dtype: np.dtype) -> Sequence[Any]:
        return lowest(dtype, self.largest), np.uint32(0 if self.last else 2**32 - 1)

    def _pair(self, a: Parts, b: Parts) -> Parts:
        wins_ties = a[1] > b[1] if self.last else a[1] < b[1]
        if self.largest:  # `beats` is true where either is NaN, `beaten` false
            beats, beaten = ~(a[0] <= b[0]), a[0] < b[0]
        else:
            beats, beaten = ~(a[0] >= b[0]), a[0] > b[0]
        if not is_float(a[0]):
            first = lax.select(wins_ties, ~beaten, beats)
        else:
            a_nan, b_number = a[0] != a[0], b[0] == b[0]
            first = lax.select(wins_ties, (~beaten & b_number) | a_nan, beats & b_number)
        return lax.select(first, a[0], b[0]), lax.select(first, a[1], b[1])


@dataclass(frozen=True)
class LogSumExp(Kind):
    """The logarithm of the sum of exponentials, shifted by the maximum; it accumulates wide."""

    def types(self, dtype: np.dtype) -> Sequence[np.dtype]:
        return (wide_type(dtype),)

    def plain(self, x: jax.Array, axes: Axes) -> Parts:
        x = wide(x)
        (top,) = Extreme(True).plain(x, axes)
        total = restored(lax.reduce_sum(lax.exp(x - finite(top)), axes), axes)
        return (_logarithm(top, total),)

    def tuned(self, platform: str, x: jax.Array, axes: Axes) -> Parts:
        if platform == "cpu" and x.size > LITTLE:
            return (cpu.fold(_LOGARITHM, x, axes),)
        if platform == "cuda":
            top, total = ExpSum().tuned(platform, x, axes)
            return (lax.log(total) + top,)
        return self.plain(x, axes)

    def per_shard(self, x: jax.Array, axes: Axes, layout: Layout) -> Parts:
        (part,), names = self.tuned(layout.platform, x, axes), layout.over(axes)
        top = extreme_across(part, names, True)
        return (_logarithm(top, lax.psum(lax.exp(part - finite(top)), names)),)


def _logarithm(top: jax.Array, total: jax.Array) -> jax.Array:
    """Return the logarithm of `total * exp(top)`; where `top` is infinite, that."""
    return where(is_infinite(top), top, top + lax.log(total))


def _logarithm_of(pieces: Sequence[jax.Array]) -> jax.Array:
    """Return the logarithm of the sum of the exponentials of several arrays."""
    top = pairwise(lax.max, pieces)
    return _logarithm(top, pairwise(lax.add, [lax.exp(piece - top) for piece in pieces]))


def _logarithm_of_rows(x: jax.Array) -> jax.Array:
    top = _extreme_rows(x, True)
    total = _SUM.rows(lax.exp(x - finite(top)[:, None]))
    return _logarithm(top, total)


# It keeps one array, the running logarithm, and XLA's CPU reads x once for it.
_LOGARITHM = cpu.Fold(combine=_logarithm_of, rows=_logarithm_of_rows, start=wide)


@dataclass(frozen=True)
class ExpSum(Kind):
    """The maximum, and the sum of exponentials shifted by it where it is finite."""

    def types(self, dtype: np.dtype) -> Sequence[np.dtype]:
        return (wide_type(dtype),) * 2

    def plain(self, x: jax.Array, axes: Axes) -> Parts:
        (top,) = along_axes(Extreme(True), x, axes=axes)
        top = wide(top)
        return top, sum_along(lax.exp(wide(x) - finite(top)), axes)

    def tuned(self, platform: str, x: jax.Array, axes: Axes) -> Parts:
        if platform == "cpu":
            (top,) = map(wide, in_memory(Extreme(True).tuned(platform, x, axes)))
            return top, *Sum().tuned(platform, lax.exp(wide(x) - finite(top)), axes)
        if platform != "cuda":
            return self.plain(x, axes)
        ones = lax.full_like(x, 1, wide_type(x.dtype))
        return gpu.fold(_EXP_SUM, (wide(x), ones), axes)


def _exp_sum(pieces: Sequence[Parts]) -> Parts:
    if len(pieces) == 2:
        # One exponential for two elements. Equal maxima may be infinite: nothing to scale then.
        a, b = pieces
        scale = where(a[0] == b[0], 1, lax.exp(-lax.abs(a[0] - b[0])))
        total = lax.select(a[0] > b[0], a[1] + b[1] * scale, a[1] * scale + b[1])
        return lax.max(a[0], b[0]), total
    top = pairwise(lax.max, [piece[0] for piece in pieces])
    shift = finite(top)
    return top, pairwise(lax.add, [total * lax.exp(x - shift) for x, total in pieces])


_EXP_SUM = gpu.Pair(lambda dtype: (lowest(dtype, True), dtype.type(0)), _exp_sum)


@dataclass(frozen=True)
class Counted(Kind):
    """The extreme, and how many elements equal it (beside NaN none), in the type it accumulates."""

    largest: bool

    def types(self, dtype: np.dtype) -> Sequence[np.dtype]:
        return (wide_type(dtype),) * 2

    def plain(self, x: jax.Array, axes: Axes) -> Parts:
        (value,) = along_axes(Extreme(self.largest), x, axes=axes)
        equal = lax.convert_element_type(x == value, wide_type(x.dtype))
        return wide(value), sum_along(equal, axes)

    def tuned(self, platform: str, x: jax.Array, axes: Axes) -> Parts:
        if platform != "cuda":
            return self.plain(x, axes)
        ones = lax.full_like(x, 1, wide_type(x.dtype))
        pair = gpu.Pair(lambda dtype: (lowest(dtype, self.largest), dtype.type(0)), self._counted)
        return gpu.fold(pair, (wide(x), ones), axes)

    def _counted(self, pieces: Sequence[Parts]) -> Parts:
        value = pairwise(lax.max if self.largest else lax.min, [x for x, _ in pieces])
        return value, pairwise(lax.add, [where(x == value, count, 0) for x, count in pieces])

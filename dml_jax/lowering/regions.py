"""Regions of pictures, read at samples between the elements, or pooled.

Pictures have the order [N, H, W, C], so that a sample reads the channels of one place, and results
the order [R, Y, X, C] of regions, rows, columns and channels. Arrays of places have four dimensions
too, of size 1 where places are equal.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.axes import on_axis
from dml_jax.lowering.dtypes import wide
from dml_jax.lowering.mesh_axes import alike
from dml_jax.lowering.platform_forms import by_platform
from dml_jax.lowering.primitives import whole
from dml_jax.lowering.resampling import nearest

# A loop of up to so many steps goes on past the samples; a longer one ends where the data say.
_MOST_STEPS = 64
_MOST_UNROLLED = 16  # steps that are written out; more take long to compile
_FAR = 2.0**20  # beyond every picture


@dataclass(frozen=True)
class Aligning:
    """How regions are sampled.

    Attributes:
        sizes: the number of output rows and columns.
        scales: the factors of the y and x coordinates of regions.
        input_offset: what is subtracted from the place of a sample.
        output_offset: what is subtracted from its number.
        least: the smallest number of samples of an output, along each axis.
        most: the largest one.
        to_corners: whether the first and the last sample of a region lie on its corners.
        is_linear: whether samples interpolate; else they read the nearest element.
        is_max: whether outputs are the largest of their samples; else their average.
        outside: the value of samples outside of the picture.
        is_unrolled: whether a loop of a static length is written out.
    """

    sizes: tuple[int, int]
    scales: tuple[float, float]
    input_offset: float
    output_offset: float
    least: int
    most: int
    to_corners: bool
    is_linear: bool
    is_max: bool
    outside: float = 0.0
    is_unrolled: bool = False

    def bounds(self, x: jax.Array) -> tuple[int, int]:
        """Return how many samples of an output can lie inside `x` at most, along y and x.

        Where there are more than `least`, they are at least half an element apart.
        """
        inside = (max(self.least, 2 * size + 6) for size in x.shape[1:3])
        rows, columns = (min(self.most, count) for count in inside)
        return rows, columns

    def is_short(self, x: jax.Array) -> bool:
        """Return whether a loop over the samples of an output may have a static length."""
        return math.prod(self.bounds(x)) <= _MOST_STEPS

    def loop(self, steps: Any, body: Callable[[Any, Any], Any], initial: Any) -> Any:
        """Return what `body`, of a step and a value, makes of the `initial` value in all steps."""
        if not self.is_unrolled:
            return lax.fori_loop(0, steps, body, initial)
        value = initial
        for step in range(steps):
            value = body(jnp.int32(step), value)
        return value


class _Samples:
    """The samples along one axis: 0 is y, 1 is x.

    Attributes:
        count: the number of samples of an output, by region.
        steps: the number of samples of an output that have to be read.
    """

    def __init__(self, how: Aligning, axis: int, x: jax.Array, rois: jax.Array):
        start, end = (rois[:, 1 - axis + k] * how.scales[axis] for k in (0, 2))
        self.how, self.size, bound = how, x.shape[1 + axis], how.bounds(x)[axis]
        self.start, self.extent = (a.reshape(-1, 1, 1, 1) for a in (start, end - start))
        outputs = how.sizes[axis]
        fixed = lax.stop_gradient(self.extent)
        wanted = jnp.where(fixed > 0, jnp.ceil(fixed / outputs), 1.0)
        self.count = jnp.clip(wanted, float(how.least), float(how.most))
        whole = self.count * outputs
        self.parts = jnp.maximum(whole - 1, 1.0) if how.to_corners else whole
        self.number = on_axis(np.arange(outputs, dtype=rois.dtype), 1 + axis, 4) * self.count
        self.first = 0.0
        if how.most > bound:  # samples before the picture are passed over
            here, there = (lax.stop_gradient(self.place(k)) for k in (0, 1))
            skipped = jnp.floor((-1 - here) / (there - here)) - 1
            behind = jnp.maximum(self.count - bound, 0.0)
            self.first = jnp.where(skipped > 0, jnp.minimum(skipped, behind), 0.0)
        self.steps: Any = bound  # without a number that devices with other regions have to agree on
        if not how.is_short(x):
            most = jnp.minimum(jnp.max(self.count, initial=1), bound)
            self.steps = most.astype(np.int32)

    def place(self, sample: Any) -> jax.Array:
        """Return the place of a sample of each output.

        A product before a quotient keeps places exact that are simple fractions.
        """
        number = self.number + sample - self.how.output_offset
        return number * self.extent / self.parts + (self.start - self.how.input_offset)

    def at(self, step: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the place of a step of each output, and whether it is a sample that lies inside.

        A place outside is 0.
        """
        sample = self.first + step.astype(self.start.dtype)
        place = self.place(sample)
        inside = (sample < self.count) & (place >= -1) & (place <= self.size)
        return jnp.where(inside, place, 0.0), inside

    def inside(self) -> jax.Array:
        """Return how many samples of each output lie inside, along this axis."""

        def body(step: Any, total: Any) -> Any:
            return total + self.at(step)[1].astype(self.start.dtype)

        return self.how.loop(self.steps, body, lax.full_like(self.number, 0, self.start.dtype))


class _Grid:
    """The samples along both axes, of which a step is a pair."""

    def __init__(self, how: Aligning, x: jax.Array, rois: jax.Array):
        self.y, self.x = (_Samples(how, axis, x, rois) for axis in (0, 1))
        self.columns: Any = self.x.steps
        self.steps: Any = self.y.steps * self.x.steps
        self.count = self.y.count * self.x.count

    def missing(self) -> jax.Array:
        """Return how many samples of each output lie outside."""
        return self.count - self.y.inside() * self.x.inside()

    def at(self, step: jax.Array) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        """Return the places along y and x of a step, and whether they lie inside."""
        (y, is_y), (x, is_x) = self.y.at(step // self.columns), self.x.at(step % self.columns)
        return (y, x), is_y & is_x


def _gather(x: jax.Array, batch: jax.Array, y: Any, z: Any, by_channel: bool) -> jax.Array:
    """Return the elements of rows `y` and columns `z`: all channels of each, or one each."""
    places = jnp.broadcast_arrays(batch.reshape(-1, 1, 1, 1), *(a.astype(np.int32) for a in (y, z)))
    if not by_channel:
        return x.at[tuple(place[..., 0] for place in places)].get(mode="promise_in_bounds")
    (n, h, w, c), (number, row, column) = x.shape, places
    if n * h * w > np.iinfo(np.int32).max:
        index = (*places, np.arange(c, dtype=np.int32))
        return x.at[index].get(mode="promise_in_bounds")
    flat = ((number * np.int32(h) + row) * np.int32(w) + column).reshape(-1, c)
    read = jnp.take_along_axis(x.reshape(-1, c), flat, 0, mode="promise_in_bounds")
    return read.reshape(row.shape)  # channels stay apart, so that they shard


def _sample(
    x: jax.Array,
    batch: jax.Array,
    places: Any,
    inside: jax.Array,
    how: Aligning,
    by_channel: bool = False,
) -> jax.Array:
    """Return what `x` has at places between its elements; beyond an edge, what it has there.

    Of a place that is not `inside`, no element is read; NaN and infinity of weight 0 count as 0.
    """
    taps = []
    for place, size in zip(places, x.shape[1:3], strict=True):
        end = size - 1
        place = jnp.where(place >= 0, jnp.where(place < end, place, end), 0.0)
        fixed = lax.stop_gradient(place)
        low = jnp.floor(fixed) if how.is_linear else nearest(fixed, jnp)
        taps.append((low, jnp.minimum(low + 1, end), place - low))
    (top, bottom, v), (left, right, w) = taps

    def at(row: jax.Array, column: jax.Array, has_weight: Any = True) -> jax.Array:
        y = _gather(x, batch, row, column, by_channel)
        return jnp.where(inside & (has_weight | jnp.isfinite(y)), y, lax.full_like(y, 0))

    if not how.is_linear:
        return at(top, left)
    is_below, is_beside = v != 0, w != 0
    upper = _mean(at(top, left), at(top, right, is_beside), w)
    lower = _mean(at(bottom, left, is_below), at(bottom, right, is_below & is_beside), w)
    return _mean(upper, lower, v)


def _mean(a: jax.Array, b: jax.Array, weight: jax.Array) -> jax.Array:
    """Return `a * (1 - weight) + b * weight`."""
    return a * (1 - weight) + b * weight


def _sums(x: jax.Array, rois: jax.Array, batch: jax.Array, how: Aligning) -> jax.Array:
    """Return the sums over the samples of each output that lie inside."""

    def term(step: Any, x: jax.Array, rois: jax.Array, batch: jax.Array) -> list[jax.Array]:
        return [_sample(x, batch, *_Grid(how, x, rois).at(step), how)]

    steps = _Grid(how, x, lax.stop_gradient(rois)).steps
    if how.is_unrolled:  # one gather, or one scatter of the gradient
        terms = jax.vmap(term, (0, None, None, None))
        return terms(jnp.arange(steps, dtype=np.int32), x, rois, batch)[0].sum(0)
    return whole(term, jnp.int32(steps), x, rois, batch, in_steps=True)[0]


def _largest(
    loop: Callable[..., Any], candidates: Callable[[Any], Any], x: jax.Array, shape: tuple[int, ...]
) -> jax.Array:
    """Return the step with the largest value of each output, the first of equals, or -1.

    `loop` returns what a function of a step and a value makes of an initial value in all steps.
    `candidates` returns the values of a step, and which of them count. NaN is the largest.
    """

    def body(step: Any, kept: Any) -> Any:
        best, chosen = kept
        value, counts = candidates(step)
        is_more = (value > best) | ((value != value) & (best == best)) | (chosen < 0)
        is_best = counts & is_more
        step = jnp.int32(step)
        return jnp.where(is_best, value, best), jnp.where(is_best, step, chosen)

    initial = lax.full_like(x, 0, shape=shape), lax.full_like(x, -1, np.int32, shape)
    return loop(body, initial)[1]


def _maxima(x: jax.Array, rois: jax.Array, batch: jax.Array, how: Aligning) -> jax.Array:
    """Return the largest sample of each output that lies inside; without any, `how.outside`."""
    fixed, fixed_rois = lax.stop_gradient((x, rois))
    grid = _Grid(how, fixed, fixed_rois)

    def candidates(step: Any) -> Any:
        places, inside = grid.at(step)
        return _sample(fixed, batch, places, inside, how), inside

    shape = (rois.shape[0], *how.sizes, x.shape[3])
    step = _largest(functools.partial(how.loop, grid.steps), candidates, fixed, shape)
    places, _ = _Grid(how, x, rois).at(jnp.maximum(step, np.int32(0)))
    value = _sample(x, batch, jnp.broadcast_arrays(*places), step >= 0, how, by_channel=True)
    return jnp.where(step < 0, how.outside, value)


def _prepare(x: jax.Array, rois: jax.Array, batch: jax.Array) -> tuple[Any, Any, Any]:
    """Return the picture as [N, H, W, C], the regions as [R, 4], and their pictures as [R]."""
    last = batch.dtype.type(x.shape[0] - 1)
    picture = jnp.minimum(batch, last).astype(np.int32).reshape(-1)
    pixels = wide(x).transpose(0, 2, 3, 1)
    return alike((pixels, wide(rois).reshape(-1, rois.shape[-1]), picture))


def align(x: jax.Array, rois: jax.Array, batch: jax.Array, how: Aligning) -> jax.Array:
    """Return what `x` [N, C, H, W] has in regions, as [R, C, Y, X], sampled as `how` says.

    `rois` has the left, top, right and bottom of each region, [..., R, 4], `batch` its picture.
    """
    arrays = _prepare(x, rois, batch)
    plain = functools.partial(_align, how=how)
    if math.prod(how.bounds(arrays[0])) > _MOST_UNROLLED:
        return plain(*arrays).transpose(0, 3, 1, 2).astype(x.dtype)
    # A GPU starts several kernels in each step of a loop.
    unrolled = functools.partial(_align, how=replace(how, is_unrolled=True))

    def back(*arrays: jax.Array) -> Any:
        return jax.vjp(unrolled, *arrays[:3])[1](arrays[3])

    y = by_platform(plain, cuda=unrolled, gradients={"cuda": back}, whole_arrays=True)(*arrays)
    return y.transpose(0, 3, 1, 2).astype(x.dtype)


def _align(picture: jax.Array, regions: jax.Array, batch: jax.Array, how: Aligning) -> jax.Array:
    """Return what pictures [N, H, W, C] have in regions, as [R, Y, X, C]; see `align`."""
    fixed = _Grid(how, picture, lax.stop_gradient(regions))
    missing, outside = fixed.missing(), how.outside
    if how.is_max:
        y = _maxima(picture, regions, batch, how)
        return jnp.where((missing > 0) & (y < outside), outside, y)
    rest = jnp.where(missing > 0, outside * missing, 0.0)
    return (_sums(picture, regions, batch, how) + rest) / fixed.count


def align_gradient(
    x: jax.Array, dy: jax.Array, rois: jax.Array, batch: jax.Array, how: Aligning
) -> tuple[jax.Array, jax.Array]:
    """Return the gradients of `x` and of `rois`, where `dy` is that of `align`.

    Samples outside of the picture have the value 0 and no gradient.
    """
    x, rois, batch, dy = alike((x, rois, batch, dy))
    _, back = jax.vjp(lambda x, rois: align(x, rois, batch, how), x, rois)
    return back(dy)


def pool(x: jax.Array, rois: jax.Array, scale: float, sizes: tuple[int, int]) -> jax.Array:
    """Return the largest elements of the bins of regions, as [R, C, Y, X]; 0 of an empty bin.

    `rois` has the picture, left, top, right and bottom of each region, [..., R, 5]. Coordinates are
    multiplied by `scale`, and rounded, halves away from zero. `sizes` are the bins along y and x.
    """
    batch = _whole(jnp.trunc(wide(rois)[..., 0]), 0, x.shape[0] - 1)
    picture, regions, batch = _prepare(x, lax.stop_gradient(rois), batch)
    places = lax.round(regions[:, 1:] * scale, lax.RoundingMethod.AWAY_FROM_ZERO)
    whole = _whole(places, -_FAR, _FAR)
    bins = []
    for axis, count in enumerate(sizes):
        start, end = (whole[:, 1 - axis + k].reshape(-1, 1, 1, 1) for k in (0, 2))
        part = on_axis(np.arange(count, dtype=np.int32), 1 + axis, 4)
        each, more = jnp.divmod(jnp.maximum(end - start + 1, np.int32(1)), np.int32(count))
        limits = (
            start + part * each + part * more // np.int32(count),
            start + (part + 1) * each - (-(part + 1) * more) // np.int32(count),
        )
        size = np.int32(picture.shape[1 + axis])
        bins.append([jnp.clip(limit, np.int32(0), size) for limit in limits])
    (top, bottom), (left, right) = bins
    columns = jnp.max(right - left, initial=1)

    def read(x: jax.Array, step: Any, by_channel: bool) -> tuple[jax.Array, jax.Array]:
        y, z = top + step // columns, left + step % columns
        ends = (np.int32(n - 1) for n in picture.shape[1:3])
        y_inside, z_inside = (jnp.minimum(a, end) for a, end in zip((y, z), ends, strict=True))
        return _gather(x, batch, y_inside, z_inside, by_channel), (y < bottom) & (z < right)

    steps = jnp.max(bottom - top, initial=0) * columns
    fixed = lax.stop_gradient(picture)
    shape = (regions.shape[0], *sizes, x.shape[1])
    loop = functools.partial(lax.fori_loop, 0, steps)
    step = _largest(loop, lambda step: read(fixed, step, by_channel=False), fixed, shape)
    value, _ = read(picture, jnp.maximum(step, np.int32(0)), by_channel=True)
    value = jnp.where(step < 0, 0.0, value)
    return value.transpose(0, 3, 1, 2).astype(x.dtype)


def _whole(x: jax.Array, low: float, high: float) -> jax.Array:
    """Return floats as INT32 within limits, NaN as 0."""
    fits = jnp.clip(x, low, high)
    return jnp.where(x == x, fits, 0.0).astype(np.int32)

"""Tensors read on another grid than their own: one dimension after another.

All places and weights follow from sizes and attributes, and are computed on the host in float64.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.dtypes import is_float, wide
from dml_jax.lowering.platform_forms import by_platform
from dml_jax.lowering.scale_bias import wide_real

# Taps are read one by one up to so many, which is far faster than a gather of all; with more, a
# program grows too long.
_UNROLLED = 32
_MOST_TAPS = 2**24  # the elements of the largest table of places, which is a limit of memory


class Taps(NamedTuple):
    """The elements that results along one dimension read.

    Attributes:
        places: `places[i, t]` is the element that result i reads at its tap t.
        weights: `weights[i, t]` is the factor of that element; where it is 0, nothing is read.
    """

    places: np.ndarray
    weights: np.ndarray


class Axis(NamedTuple):
    """The grid of the results along one dimension, as attributes describe it."""

    scale: float
    input_offset: float
    output_offset: float


def nearest(x: Any, xp: Any) -> Any:
    """Return the integers nearest to `x`, an array of the library `xp`; halves go up.

    A sum `floor(x + 0.5)` would round the largest number below 0.5 up.
    """
    low = xp.floor(x)
    return xp.where(x - low < 0.5, low, low + 1)


def positions(axis: Axis, size: int, count: int) -> np.ndarray:
    """Return where each of `count` results lies between the `size` elements of a dimension.

    A scale that is the FLOAT of `count / size`, or of `(count - 1) / (size - 1)`, counts as that
    quotient, so that positions that are whole numbers come out whole.
    """
    places = np.arange(count) - axis.output_offset
    for above, below in ((count, size), (count - 1, size - 1)):
        if below and np.float32(above / below) == np.float32(axis.scale):
            return places * below / above - axis.input_offset
    return places / axis.scale - axis.input_offset


def taps(axis: Axis, size: int, count: int, mode: str, antialiased: bool = False) -> Taps:
    """Return what `count` results read of the `size` elements of a dimension.

    The mode is LINEAR, NEAREST (halves up), INCREASING or DECREASING. Where it is `antialiased`,
    LINEAR averages more elements if the scale is below 1.
    """
    x = np.clip(positions(axis, size, count), -(2.0**53), 2.0**53)
    if mode != "LINEAR":
        rounded = {"INCREASING": np.ceil, "DECREASING": np.floor}.get(mode)
        place = rounded(x) if rounded else nearest(x, np)
        return Taps(np.clip(place, 0, size - 1).astype(np.int64)[:, None], np.ones((count, 1)))
    reach = 1 / min(axis.scale, 1) if antialiased else 1
    low = np.floor(x)[:, None] + np.arange(1 - np.ceil(reach), 1 + np.ceil(reach))
    weights = np.maximum(1 - np.abs(low - x[:, None]) / reach, 0)
    weights /= weights.sum(1, keepdims=True)
    places = np.clip(low, 0, size - 1).astype(np.int64)
    if places.shape[1] == 2:  # beyond an edge both taps are one
        weights[places[:, 0] == places[:, 1]] = 1, 0
        if not weights[:, 1].any():
            return Taps(places[:, :1], weights[:, :1])
    return Taps(places, weights)


def transposed(taps: Taps, size: int) -> Taps | None:
    """Return, for each of `size` elements, the results that read it, with the same weights.

    None stands for a table that would be too large.
    """
    result, tap = np.nonzero(taps.weights)
    place = taps.places[result, tap]
    counts = np.bincount(place, minlength=size)
    if counts.max() * size > _MOST_TAPS:
        return None
    order = np.argsort(place, kind="stable")
    column = np.arange(place.size) - (np.cumsum(counts) - counts)[place[order]]
    places = np.zeros((size, counts.max()), np.int64)
    weights = np.zeros(places.shape)
    places[place[order], column] = result[order]
    weights[place[order], column] = taps.weights[result, tap][order]
    return Taps(places, weights)


def blended(x: jax.Array, taps: Sequence[Taps]) -> jax.Array:
    """Return `x` read by the taps of each dimension, rounded once to its type.

    FLOAT16 and integers are computed in FLOAT32; integers round half to even.
    """
    y = wide(x)
    if not is_float(x) and any((t.weights != 1).any() for t in taps):
        y = lax.convert_element_type(x, wide_real(x.dtype))

    def back(x: jax.Array, dy: jax.Array) -> tuple[jax.Array]:
        return (gradient(dy, taps, x.shape),)

    # The transpose of a gather is a scatter, which is slower than to gather by the turned taps.
    read = functools.partial(_read_all, taps=taps)
    gradients = {"cpu": back, "cuda": back}
    y = by_platform(read, gradients=gradients, whole_arrays=True)(y)
    if not is_float(x) and is_float(y):
        y = lax.round(y, lax.RoundingMethod.TO_NEAREST_EVEN)
    return lax.convert_element_type(y, x.dtype)


def _read_all(x: jax.Array, taps: Sequence[Taps]) -> jax.Array:
    """Return `x` read by the taps of each dimension, in its own type."""
    sizes = [t.places.shape[0] / n for t, n in zip(taps, x.shape, strict=True)]
    for axis in np.argsort(sizes, kind="stable"):  # first those that leave fewer elements
        x = _along(x, taps[axis], int(axis))
    return x


def gradient(dy: jax.Array, taps: Sequence[Taps], sizes: Sequence[int]) -> jax.Array:
    """Return the gradient of an `x` of `sizes`, where `dy` is that of `blended(x, taps)`."""
    turned = [transposed(t, n) for t, n in zip(taps, sizes, strict=True)]
    whole = [t for t in turned if t is not None]
    if len(whole) == len(turned):
        return blended(dy, whole)
    dy = wide(dy)
    x = lax.full_like(dy, 0, shape=sizes)
    (dx,) = jax.linear_transpose(lambda x: blended(x, taps), x)(dy)
    return lax.convert_element_type(dx, dy.dtype)


def _along(x: jax.Array, taps: Taps, axis: int) -> jax.Array:
    """Return the sums that the taps of one dimension describe."""
    places, weights = taps
    count = places.shape[1]
    if count > _UNROLLED:
        read = jnp.take(x, places, axis, mode="clip")
        return jnp.sum(_weigh(read, weights, axis), axis + 1)
    parts = [_weigh(_read(x, places[:, t], axis), weights[:, t], axis) for t in range(count)]
    return sum(parts[1:], parts[0])


def _weigh(x: jax.Array, weights: np.ndarray, axis: int) -> jax.Array:
    """Return `x` by the weights from dimension `axis` on; 0 where they are 0, of NaN too."""
    if (weights == 1).all():
        return x
    factors = weights.reshape(weights.shape + (1,) * (x.ndim - axis - weights.ndim))
    factors = np.broadcast_to(factors, (1,) * (x.ndim - factors.ndim) + factors.shape)
    product = x * jnp.asarray(factors.astype(x.dtype))
    if weights.all():
        return product
    return jnp.where(jnp.asarray(factors != 0), product, x.dtype.type(0))


def _read(x: jax.Array, places: np.ndarray, axis: int) -> jax.Array:
    """Return the elements at `places` of a dimension: as slices or repeats, where they are."""
    size, count = x.shape[axis], len(places)
    step = int(places[1] - places[0]) if count > 1 else 1
    if step > 0 and (np.diff(places) == step).all():
        return lax.slice_in_dim(x, int(places[0]), int(places[-1]) + 1, step, axis)
    if count % size == 0 and (places == np.arange(count) // (count // size)).all():
        return jnp.repeat(x, count // size, axis)
    return jnp.take(x, places, axis, mode="clip")

"""An element above its index in one integer, of which one maximum finds both.

Integers have 32 bits where both fit, else 64, which JAX has inside of `jax.enable_x64`.
"""

import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.numbers import is_float, signed_type, where
from dml_jax.lowering.shapes import Axes


def fits(dtype: np.dtype) -> bool:
    """Return whether elements of a type have room for an index beside them."""
    return dtype.itemsize <= 4


def index_of_extreme(
    x: jax.Array,
    axes: Axes,
    largest: bool,
    last: bool,
    maximum: Callable[[jax.Array], jax.Array],
    sizes: Sequence[int],
    starts: Sequence[jax.Array | int],
) -> jax.Array:
    """Return the row-major index along `axes` of the extreme element, as uint32.

    Args:
        x: the elements, of a type that `fits`; maybe a part of more.
        axes: the axes that are searched.
        largest: whether the largest element is looked for, else the smallest.
        last: whether the last of equal elements is, else the first.
        maximum: the maximum of integers along the axes.
        sizes: the shape of all elements.
        starts: of each axis, where this part begins.
    """
    count = math.prod(sizes[a] for a in axes)
    bits = 16 if x.dtype.itemsize == 2 else 24 if x.dtype.itemsize == 1 else 32
    integer = np.dtype(np.int32 if x.dtype.itemsize < 4 and count <= 1 << bits else np.int64)
    bits = 32 if integer.itemsize == 8 else bits
    with jax.enable_x64(True):
        value = _ordered(x, largest)
        value = lax.convert_element_type(value if largest else ~value, integer)
        index = indices(x, axes, integer, sizes, starts)
        if not last:
            index ^= integer.type((1 << bits) - 1)
        best = maximum(value << integer.type(bits) | index)
        if not last:
            best = ~best
        return lax.convert_element_type(best & integer.type((1 << bits) - 1), np.uint32)


def indices(
    x: jax.Array,
    axes: Axes,
    dtype: np.dtype,
    sizes: Sequence[int] = (),
    starts: Sequence[jax.Array | int] = (),
) -> jax.Array:
    """Return the row-major index along `axes` of each element of `x`.

    Where `x` is a part of an array, that array has these `sizes`, and the part `starts` there.
    """
    index, step = lax.full_like(x, 0, dtype), 1
    for a in sorted(axes, reverse=True):
        place = lax.broadcasted_iota(dtype, x.shape, a)
        if starts:
            place += lax.convert_element_type(starts[a], dtype)
        index += place * dtype.type(step)
        step *= (sizes or x.shape)[a]
    return index


def _ordered(x: jax.Array, largest: bool) -> jax.Array:
    """Map elements to int32 of their order, in as many bits; NaN comes before all others.

    (Compared as floats, denormals would be zeros on a CPU.)
    """
    low = np.int32(-1 << (8 * x.dtype.itemsize - 1))
    if jnp.issubdtype(x.dtype, jnp.unsignedinteger):
        return lax.convert_element_type(x, np.int32) + low
    if not is_float(x):
        return lax.convert_element_type(x, np.int32)
    bits = lax.convert_element_type(lax.bitcast_convert_type(x, signed_type(x.dtype)), np.int32)
    magnitude, sign = bits & ~low, bits >> np.int32(31)
    # By the bits: with x != x, XLA takes negative denormals for NaN on a GPU.
    infinite = np.int32(x.dtype.type(np.inf).view(signed_type(x.dtype)))
    is_nan = magnitude > infinite if x.dtype.itemsize < 4 else x != x
    return where(is_nan, ~low if largest else low, (magnitude ^ sign) - sign)

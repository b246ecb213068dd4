"""Pack an element above its index into one integer, so that one maximum finds both.

Integers have 32 bits where both fit, else 64, which JAX has inside of `jax.enable_x64`.
"""

import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.axes import Axes
from dml_jax.lowering.dtypes import is_float, signed_type, where

UINT32 = np.dtype(np.uint32)


def fits(dtype: np.dtype) -> bool:
    """Return whether elements of a type have room for an index beside them."""
    return dtype.itemsize <= 4


def index_of_extreme(
    values: jax.Array,
    dtype: np.dtype,
    axes: Axes,
    extreme: Callable[[jax.Array, Axes], jax.Array],
    sizes: Sequence[int],
    starts: Sequence[jax.Array | int],
) -> jax.Array:
    """Return the row-major index along `axes` of the extreme element, as uint32.

    `values` are what `ordered` makes of the elements of `dtype`, or of a part of them, which begins
    at `starts` of all `sizes`. `extreme` reduces integers to the largest, where the last of equal
    elements is looked for, else to the smallest.
    """
    with jax.enable_x64(True):
        integer, bits = _room(dtype, math.prod(sizes[a] for a in axes))
        place = indices(values, axes, integer, sizes, starts)
        best = extreme(_packed(values, integer, bits) | place, axes)
        return _index(best, bits)


def of_rows(
    values: jax.Array,
    dtype: np.dtype,
    axes: Axes,
    length: int,
    extreme: Callable[[jax.Array, Axes], jax.Array],
) -> jax.Array:
    """Do as `index_of_extreme`, of pieces of rows first, whose indices fit into 32 bits.

    A piece has `length` elements, which divides the last of the searched axes.
    """
    pieces, last = values.reshape(*values.shape[:-1], -1, length), values.ndim
    with jax.enable_x64(True):
        integer, bits = _room(dtype, length)
        place = lax.broadcasted_iota(integer, pieces.shape, last)
        best = extreme(_packed(pieces, integer, bits) | place, [last])[..., 0]
        values = lax.convert_element_type(best >> integer.type(bits), np.int32)
        # The index of a piece counts in steps of its length, as all before it do.
        start = indices(values, axes, np.dtype(np.int64)) * length
        index = start + lax.convert_element_type(_index(best, bits), np.int64)
        best = extreme(_packed(values, np.dtype(np.int64), 32) | index, axes)
        return _index(best, 32)


def _room(dtype: np.dtype, count: int) -> tuple[np.dtype, int]:
    """Return the integers that hold an element and an index below `count`, and the index's bits."""
    bits = 32 - 8 * dtype.itemsize
    if count <= 1 << bits and bits > 0:
        return np.dtype(np.int32), bits
    return np.dtype(np.int64), 32


def _packed(values: jax.Array, integer: np.dtype, bits: int) -> jax.Array:
    return lax.convert_element_type(values, integer) << integer.type(bits)


def _index(best: jax.Array, bits: int) -> jax.Array:
    return lax.convert_element_type(best & best.dtype.type((1 << bits) - 1), np.uint32)


def indices(
    x: jax.Array,
    axes: Axes,
    dtype: np.dtype = UINT32,
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


def ordered(x: jax.Array, largest: bool, complemented: bool) -> jax.Array:
    """Map elements to int32 of their order, or of the reverse, in as many bits as they have.

    NaN is above all others if `largest`, else below. (Compared as floats, denormals would be zeros
    on a CPU.)
    """
    value = _ordered(x, largest)
    return ~value if complemented else value


def _ordered(x: jax.Array, largest: bool) -> jax.Array:
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

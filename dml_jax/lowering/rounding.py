"""Conversions to float types that round each number once: to nearest, halves to even.

XLA's own has two faults. It converts FLOAT64 to types of 16 and 8 bits by way of FLOAT32, and
rounds twice. For a GPU it drops a conversion that is converted back, and its rounding with it.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.dtypes import bits_of, is_float, unsigned_type, where
from dml_jax.lowering.elementwise_primitive import derived_by
from dml_jax.lowering.platform_forms import by_platform

_FRACTION = 23  # the bits of FLOAT32's fraction
_LEAST_NORMAL, _LEAST = 2.0**-126, 2.0**-149  # of FLOAT32
_SIGN = np.uint32(1 << 31)


def as_float(x: jax.Array, dtype: Any) -> jax.Array:
    """Return numbers `x`, or bool, in a float type, each rounded once to nearest even.

    Beyond the range of `dtype` they are its infinity, or NaN where it has none. The derivative is
    the conversion.
    """
    dtype = np.dtype(dtype)
    if x.dtype == dtype:
        return x
    if not is_float(x):
        if dtype.itemsize >= 4:
            return lax.convert_element_type(x, dtype)
        if dtype == jnp.bfloat16 and x.dtype.itemsize >= 4:
            x = _odd_integers(x)
        else:  # FLOAT32 holds the integers that the other types distinguish
            x = lax.convert_element_type(x, np.float32)
    if x.dtype.itemsize < 4:
        x = lax.convert_element_type(x, np.float32)
    return x if x.dtype == dtype else _convert(x, dtype)


@derived_by(
    lambda dx, x, dtype: lax.convert_element_type(dx, dtype),
    transpose=lambda dy, x, dtype: lax.convert_element_type(dy, x.dtype),
)
def _convert(x: jax.Array, dtype: np.dtype) -> jax.Array:
    """Return FLOAT32 or FLOAT64 in another float type."""
    if dtype == np.float64:
        return _as_float64(x)
    if x.dtype == np.float64:
        return _as_float32(x) if dtype == np.float32 else _convert(odd_float32(x), dtype)

    def convert(x: jax.Array) -> jax.Array:
        return lax.convert_element_type(x, dtype)

    rounded = by_platform(lambda x: convert(_on_grid(x, dtype)), cpu=convert, whole_arrays=False)
    return rounded(x)


def _on_grid(x: jax.Array, dtype: np.dtype) -> jax.Array:
    """Return FLOAT32 rounded to numbers of a narrower type, which convert without a rounding."""
    info = jnp.finfo(dtype)
    bits = bits_of(x)
    sign, magnitude = bits & _SIGN, bits & ~_SIGN
    cut = np.uint32(_FRACTION - info.nmant)
    last = (magnitude >> cut) & np.uint32(1)
    half = np.uint32((1 << (int(cut) - 1)) - 1)
    near = (magnitude + half + last) >> cut << cut
    if info.minexp > -126:  # the subnormals are multiples of one step
        step = np.float32(2.0 ** (int(info.minexp) - info.nmant))
        steps = lax.round(abs(x) * (1 / step), lax.RoundingMethod.TO_NEAREST_EVEN)
        is_small = magnitude < _bits(2.0 ** int(info.minexp))
        near = where(is_small, bits_of(steps * step), near)
    beyond = _bits(np.array(np.inf, np.float32).astype(dtype))
    near = where(near > _bits(info.max), beyond, near)
    if not np.signbit(np.array(-0.0, np.float32).astype(dtype).astype(np.float32)):
        sign = where(near == np.uint32(0), np.uint32(0), sign)
    return where(x == x, lax.bitcast_convert_type(near | sign, np.float32), x)


def _bits(number: Any) -> Any:
    """Return the bits of a number as FLOAT32."""
    return np.asarray(number).astype(np.float32).view(np.uint32)[()]


def odd_float32(x: jax.Array) -> jax.Array:
    """Return FLOAT64 as FLOAT32: exactly, or the neighbour whose last bit is 1.

    Such a number lies on the same side of all numbers of narrower types and of their midpoints.
    """
    most = float(np.finfo(np.float32).max)
    magnitude = jnp.where(jnp.isinf(x), np.inf, jnp.minimum(abs(x), most))
    near = lax.reduce_precision(magnitude, 11, _FRACTION)  # XLA drops a conversion there and back
    bits, one = bits_of(lax.convert_element_type(near, np.float32)), np.uint32(1)
    is_even = bits & one == 0
    bits = jnp.where(is_even & (near > magnitude), bits - one, bits)
    bits = jnp.where(is_even & (near < magnitude), bits + one, bits)
    steps = magnitude * np.float64(1 / _LEAST)
    small = lax.convert_element_type(jnp.where(magnitude < _LEAST_NORMAL, steps, 0), np.uint32)
    is_between = lax.convert_element_type(small, np.float64) != steps
    small = jnp.where(is_between, small | one, small)
    bits = jnp.where(magnitude < _LEAST_NORMAL, small, bits)
    return lax.bitcast_convert_type(bits | _sign_of(x), np.float32)


def _odd_integers(x: jax.Array) -> jax.Array:
    """Return integers as FLOAT32: exactly, or the neighbour whose last bit is 1."""
    one = lax.full_like(x, 1, unsigned_type(x.dtype))
    magnitude = lax.convert_element_type(abs(x), one.dtype)
    spare = x.dtype.itemsize * 8 - 1 - _FRACTION  # the bits that FLOAT32 has no room for
    beyond = spare - lax.convert_element_type(lax.clz(magnitude), np.int32)
    unit = one << lax.convert_element_type(jnp.maximum(beyond, 0), one.dtype)  # of the last bit
    rest = magnitude & (unit - one)
    odd = lax.convert_element_type(where(rest == 0, magnitude, magnitude - rest | unit), np.float32)
    return where(x < 0, -odd, odd)


def _as_float64(x: jax.Array) -> jax.Array:
    """Return FLOAT32 as FLOAT64: subnormals by their bits, since a CPU takes them for zero."""
    bits = bits_of(x)
    magnitude = bits & ~_SIGN
    steps = lax.convert_element_type(magnitude, np.float64) * np.float64(_LEAST)
    small = jnp.where(bits == magnitude, steps, -steps)
    return jnp.where(
        magnitude < _bits(_LEAST_NORMAL), small, lax.convert_element_type(x, np.float64)
    )


def _as_float32(x: jax.Array) -> jax.Array:
    """Return FLOAT64 as FLOAT32: subnormals by their bits, since a CPU makes zeros of them."""
    steps = lax.round(abs(x) * np.float64(1 / _LEAST), lax.RoundingMethod.TO_NEAREST_EVEN)
    steps = jnp.where(abs(x) < _LEAST_NORMAL, steps, np.float64(0))
    bits = lax.convert_element_type(steps, np.uint32) | _sign_of(x)
    small = lax.bitcast_convert_type(bits, np.float32)
    return jnp.where(abs(x) < _LEAST_NORMAL, small, lax.convert_element_type(x, np.float32))


def _sign_of(x: jax.Array) -> jax.Array:
    """Return FLOAT32's bit of the sign of each number."""
    return jnp.where(jnp.signbit(x), _SIGN, np.uint32(0))

"""Conversions between types, and between real numbers and small integers that stand for them."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.dtypes import is_float, wide
from dml_jax.lowering.platform_forms import by_platform
from dml_jax.lowering.rounding import as_float
from dml_jax.lowering.scale_bias import saturate


def cast(x: jax.Array, dtype: Any) -> jax.Array:
    """Return `x` in another type: floats to nearest even, or toward zero and saturated; NaN 0.

    Integers wrap.
    """
    to_float = jnp.issubdtype(dtype, jnp.floating)
    if is_float(x) and not to_float:
        return saturate(wide(x), dtype)
    return as_float(x, dtype) if to_float else lax.convert_element_type(x, dtype)


def limits_of(dtype: Any) -> tuple[int, int]:
    """Return the least and the largest number of an integer type, of 4 bits too."""
    limits = jnp.iinfo(dtype)
    return int(limits.min), int(limits.max)


def divide(x: jax.Array, divisor: Any) -> jax.Array:
    """Return `x / divisor` of FLOAT32, correctly rounded, so that halves are halves everywhere.

    XLA multiplies by the reciprocal of a divisor that is a constant or a broadcast, which a select
    hides from it. GPUs divide with an error of more than half a unit in the last place.
    """
    hidden = jnp.where(x == x, divisor, x.dtype.type(1))
    whole = jnp.broadcast_to(x, hidden.shape)
    return by_platform(corrected, cpu=lax.div, whole_arrays=False)(whole, hidden)


def corrected(x: jax.Array, divisor: jax.Array) -> jax.Array:
    """Return `x / divisor` with the remainder divided once more.

    Products of halves of 12 bits are exact, whether or not they are contracted with a sum.
    """
    quotient = lax.div(x, divisor)
    high, high_divisor = _upper_half(quotient), _upper_half(divisor)
    low, low_divisor = quotient - high, divisor - high_divisor
    rest = x - high * high_divisor - high * low_divisor - low * high_divisor - low * low_divisor
    better = quotient + lax.div(rest, divisor)
    return jnp.where(jnp.isfinite(better), better, quotient)


def _upper_half(x: jax.Array) -> jax.Array:
    """Return FLOAT32 with the lower 12 bits of its significand cleared."""
    bits = lax.bitcast_convert_type(x, np.uint32) & np.uint32(0xFFFFF000)
    return lax.bitcast_convert_type(bits, np.float32)


def quantize(v: jax.Array, scale: jax.Array, zero_point: jax.Array | None, dtype: Any) -> jax.Array:
    """Return `clamp(round(v / scale) + zero_point)` in an integer type of at most 16 bits.

    `scale` and `zero_point` have the sizes of `v`, or 1 in some dimensions; None is 0. Computed in
    FLOAT32; halves round to even, and NaN gives 0.
    """
    low, high = limits_of(dtype)
    quotient = divide(_float32(v), _float32(scale))
    steps = lax.round(quotient, lax.RoundingMethod.TO_NEAREST_EVEN)
    if zero_point is not None:
        steps = steps + _float32(zero_point)
    fits = jnp.where(steps == steps, jnp.clip(steps, low, high), np.float32(0))
    return lax.convert_element_type(lax.convert_element_type(fits, np.int32), dtype)


def dequantize(x: jax.Array, scale: jax.Array, zero_point: jax.Array | None, dtype: Any) -> Any:
    """Return `(x - zero_point) * scale` in a float type, computed in FLOAT32.

    `scale` and `zero_point` have the sizes of `x`, or 1 in some dimensions; None is 0. The
    difference does not wrap.
    """
    steps = _float32(x) if zero_point is None else _difference(x, zero_point)
    return as_float(steps * _float32(scale), dtype)


def _float32(x: jax.Array) -> jax.Array:
    """Return numbers as FLOAT32; small integers by way of 8 bits, as CPUs have no others."""
    is_small = x.dtype.name in ("int4", "uint4", "int2", "uint2")
    return lax.convert_element_type(x.astype(np.int8) if is_small else x, jnp.float32)


def _difference(x: jax.Array, y: jax.Array) -> jax.Array:
    """Return `x - y` of integers as FLOAT32, rounded once."""
    if x.dtype.itemsize < 4:
        return _float32(x) - _float32(y)
    first, second = (lax.convert_element_type(v, np.uint32) for v in (x, y))
    magnitude = jnp.where(x >= y, first - second, second - first)  # at most 2^32 - 1: it fits
    steps = lax.convert_element_type(magnitude, jnp.float32)
    return jnp.where(x >= y, steps, -steps)


def dynamic_quantize(x: jax.Array, dtype: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return `x` quantized over the range from its least to its largest element and 0.

    The others are the scale and the zero point, of one element each.
    """
    low, high = limits_of(dtype)
    zero = np.float32(0)
    least = jnp.minimum(_float32(x.min(keepdims=True)), zero)
    most = jnp.maximum(_float32(x.max(keepdims=True)), zero)
    scale = divide(most - least, np.float32(high - low))
    scale = jnp.where(scale == 0, np.float32(1), scale)
    # The zero point is low for a least element of 0.
    offset = lax.round(low - divide(least, scale), lax.RoundingMethod.TO_NEAREST_EVEN)
    zero_point = saturate(lax.stop_gradient(offset), dtype)
    return quantize(x, scale, zero_point, dtype), scale, zero_point


def spread(x: jax.Array, sizes: tuple[int, ...]) -> jax.Array:
    """Return `x` with each element repeated over its block: a size q of n has blocks of n / q."""
    blocks = [(q, n // q) for n, q in zip(sizes, x.shape, strict=True)]
    split = x.reshape([size for q, _ in blocks for size in (q, 1)])
    return jnp.broadcast_to(split, [*itertools.chain(*blocks)]).reshape(sizes)

"""Powers of FLOAT32 on a CPU, where XLA would call C's pow for each element.

`|x|^y` is `2^(y * log2(|x|))`. The logarithm and the product are sums of two FLOAT32 each: a
rounding of either would be magnified. A part of 12 bits times another has no rounding.
"""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.by_platform import placed
from dml_jax.lowering.element_wise import power_of_two

Pair = tuple[jax.Array, jax.Array]

_ROOT_OF_HALF = np.float32(math.sqrt(0.5)).view(np.int32)
_SCALE = 2 / math.log(2)
_FIRST = np.float32(math.floor(_SCALE * 2**10) / 2**10)  # 12 bits of it
_ARTANH = [1 / (2 * k + 1) for k in range(1, 7)]  # of f^3, f^5, ...
_POWERS = [math.log(2) ** k / math.factorial(k) for k in range(8)]  # of 2^r
_MOST_BITS = np.float32(np.inf).view(np.int32)


def _upper(x: jax.Array) -> jax.Array:
    """Return the first 12 bits of each number."""
    bits = lax.bitcast_convert_type(x, np.int32) & np.int32(-(2**12))
    return lax.bitcast_convert_type(bits, np.float32)


def _series(coefficients: Sequence[float], x: jax.Array) -> jax.Array:
    value = jnp.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = value * x + np.float32(coefficient)
    return value


def _sum(a: jax.Array, b: jax.Array) -> Pair:
    """Return the sum of `a` and a smaller `b`, and what its rounding leaves out."""
    total = a + b
    return total, b - (total - a)


def _logarithm(bits: jax.Array) -> Pair:
    """Return the logarithm to the base 2 of positive numbers, of their bits.

    Of `m = (1 + f) / (1 - f)`, between the roots of 1/2 and 2, it is `2 / ln(2) * artanh(f)`.
    """
    is_small = bits < 2**23  # subnormal numbers, which processors take for 0
    whole = lax.bitcast_convert_type(bits.astype(np.float32), np.int32)
    bits = jnp.where(is_small, whole, bits)
    exponent = (bits - _ROOT_OF_HALF) >> 23
    m = lax.bitcast_convert_type(bits - (exponent << 23), np.float32)
    exponent = exponent - jnp.where(is_small, np.int32(149), np.int32(0))
    divisor, lost = _sum(jnp.maximum(m, 1), jnp.minimum(m, 1))
    f = _upper((m - 1) / divisor)
    of_divisor = _upper(divisor)
    rest = (m - 1) - f * of_divisor - f * (divisor - of_divisor)
    f_rest = (rest - f * lost) / divisor
    near = f + f_rest
    square = near * near
    tail = near * (square * _series(_ARTANH, square))
    high, low = _sum(exponent.astype(np.float32), f * _FIRST)
    low = low + (f * np.float32(_SCALE - float(_FIRST)) + (f_rest + tail) * np.float32(_SCALE))
    return _sum(high, low)


def _exponential(high: jax.Array, low: jax.Array) -> jax.Array:
    """Return 2 to the power of a sum of two numbers."""
    whole = lax.clamp(np.float32(-200), jnp.round(high + low), np.float32(200))
    near = _series(_POWERS, (high - whole) + low)
    n = whole.astype(np.int32)
    return near * power_of_two(n >> 1) * power_of_two(n - (n >> 1))


def _pow(x: jax.Array, y: jax.Array) -> jax.Array:
    """Return C's pow of FLOAT32."""
    size, bits = jnp.abs(x), lax.bitcast_convert_type(jnp.abs(x), np.int32)
    of_y = lax.bitcast_convert_type(jnp.abs(y), np.int32)
    least = np.float32(2**-100)  # the power of it is 1, as that of a smaller one
    y = jnp.where((of_y > 0) & (jnp.abs(y) < least), jnp.copysign(least, y), y)
    high, low = _logarithm(bits)
    upper_y, upper = _upper(y), _upper(high)
    rest = upper_y * (high - upper) + (y - upper_y) * high + y * low
    power = _exponential(upper_y * upper, rest)
    high = jnp.where(bits == 0, -np.inf, jnp.where(bits == _MOST_BITS, np.inf, high))
    exponent = y * high
    power = jnp.where(exponent > 129, np.inf, jnp.where(exponent < -151, 0, power))
    power = jnp.where((of_y == 0) | (size == 1), 1, power)
    is_whole, half = jnp.floor(y) == y, y * np.float32(0.5)
    is_negative = jnp.signbit(x)
    power = jnp.where(is_negative & is_whole & (jnp.floor(half) != half), -power, power)
    is_nan = is_negative & ~is_whole & (bits > 0) & (bits < _MOST_BITS)
    is_nan = is_nan | ((x != x) & (of_y > 0)) | ((y != y) & (x != 1))
    return jnp.where(is_nan, np.float32(np.nan), power)


_of_float32 = placed(lax.pow, cpu=_pow)


def power(x: jax.Array, y: jax.Array) -> jax.Array:
    """Return C's pow of floats."""
    is_short = x.dtype == y.dtype == np.float32
    return (_of_float32 if is_short else lax.pow)(x, y)

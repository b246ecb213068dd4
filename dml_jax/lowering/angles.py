"""Functions of angles on a CPU, where XLA would call C's functions for each element.

Each is a polynomial near 0, and elsewhere an identity that leads back to it, so that XLA computes
vectors of elements.
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.axes import LITTLE
from dml_jax.lowering.platform_forms import by_platform

_HALF_PI = np.float32(np.pi / 2)
_REST = np.float32(np.pi / 2 - float(_HALF_PI))  # of pi / 2 beyond FLOAT32
_FAR = np.float32(0.6)  # from here on, half of the angle has fewer roundings


@functools.cache
def _coefficients(function: Callable[[Any], Any], top: float, degree: int) -> list[np.float32]:
    """Return p of `function(x) = x + x * s * p(s)`, s = x^2 up to `top`, by Chebyshev's points."""
    from numpy.polynomial import Chebyshev, Polynomial

    def part(s: np.ndarray) -> np.ndarray:
        return (function(np.sqrt(s)) / np.sqrt(s) - 1) / s

    series = Chebyshev.interpolate(part, degree, [0, top])
    return [*map(np.float32, series.convert(kind=Polynomial).coef)]


def _odd(function: Callable[[Any], Any], top: float, degree: int, x: jax.Array) -> jax.Array:
    """Return the odd `function` of x by its polynomial."""
    *rest, value = _coefficients(function, top, degree)
    square = x * x
    for coefficient in reversed(rest):
        value = value * square + coefficient
    return jnp.where(jnp.abs(x) < 2**-12, x, x + x * (square * value))  # a subnormal stays


def _from_half_pi(x: jax.Array) -> jax.Array:
    return (_HALF_PI - x) + _REST


def _half(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return arcsin(r), and where r is sqrt((1 - |x|) / 2) and not |x|."""
    size = jnp.abs(x)
    is_far = size > _FAR
    root = jnp.where(is_far, lax.sqrt((1 - size) * np.float32(0.5)), size)
    return _odd(np.arcsin, 0.36, 7, root), is_far


def _arcsin(x: jax.Array) -> jax.Array:
    near, is_far = _half(x)
    return jnp.copysign(jnp.where(is_far, _from_half_pi(2 * near), near), x)


def _arccos(x: jax.Array) -> jax.Array:
    near, is_far = _half(x)
    below = x < 0
    far = jnp.where(below, 2 * _from_half_pi(near), 2 * near)
    return jnp.where(is_far, far, _from_half_pi(jnp.copysign(near, x)))


def _arctan(x: jax.Array) -> jax.Array:
    size = jnp.abs(x)
    return jnp.copysign(_angle(jnp.where(size > 1, 1 / size, size), size > 1), x)


def _arctan2(y: jax.Array, x: jax.Array) -> jax.Array:
    """Return the angle of the points (x, y); zeros count by their signs, as for C's atan2."""
    width, height = jnp.abs(x), jnp.abs(y)
    bits = [lax.bitcast_convert_type(v, np.int32) for v in (width, height)]
    less, more = jnp.minimum(*bits), jnp.maximum(*bits)
    # Subnormal numbers, which processors take for 0, are compared and divided as integers.
    is_tiny = more < np.finfo(np.float32).smallest_normal.view(np.int32)
    parts = [
        jnp.where(is_tiny, v.astype(np.float32), lax.bitcast_convert_type(v, np.float32))
        for v in (less, more)
    ]
    slope = jnp.where(less == more, 1, parts[0] / parts[1])
    angle = _angle(jnp.where(more == 0, 0, slope), bits[1] > bits[0])
    angle = jnp.where(jnp.signbit(x), 2 * _from_half_pi(angle * np.float32(0.5)), angle)
    return jnp.where(jnp.isnan(x) | jnp.isnan(y), np.float32(np.nan), jnp.copysign(angle, y))


def _angle(slope: jax.Array, is_steep: jax.Array) -> jax.Array:
    angle = _odd(np.arctan, 1, 10, slope)
    return jnp.where(is_steep, _from_half_pi(angle), angle)


# Sines. A quarter turn is pi / 2: x has `m * 2^k * 2 / pi` of them, of the whole number m of 24
# bits and the power of 2 that are x. Bits that stand for four quarter turns or more do not count,
# nor do bits that are too small for a sine of FLOAT32.

_QUARTERS = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561 >> 26  # 2 / pi
_WORDS = [np.uint32(_QUARTERS >> 32 * n & 2**32 - 1) for n in reversed(range(8))]
_SINES = [-1 / 6, 1 / 120, -1 / 5040, 1 / 362880]  # of x^3, x^5, ...
_COSINES = [1, -1 / 2, 1 / 24, -1 / 720, 1 / 40320, -1 / 3628800]


def _bits_of_quarters(exponent: jax.Array) -> list[jax.Array]:
    """Return 96 bits of `2^k * 2 / pi`: two for whole numbers, the others for the fraction.

    The exponent is k + 24, not below 0.
    """
    word, shift = exponent >> np.uint32(5), exponent & np.uint32(31)
    words = []
    for n in range(4):
        value = jnp.full_like(exponent, _WORDS[n])
        for later in range(1, 5):
            value = jnp.where(word == later, _WORDS[n + later], value)
        words.append(value)
    back = np.uint32(31) - shift
    return [(a << shift) | ((b >> np.uint32(1)) >> back) for a, b in itertools.pairwise(words)]


def _high_product(m: jax.Array, w: jax.Array) -> jax.Array:
    """Return the upper 32 bits of the product of 24 bits and 32 bits."""
    low, half = np.uint32(0xFFFF), np.uint32(16)
    m_low, m_high, w_low, w_high = m & low, m >> half, w & low, w >> half
    middle = m_low * w_high + (m_low * w_low >> half)
    rest = m_high * w_low + (middle & low)
    return m_high * w_high + (middle >> half) + (rest >> half)


def _turned(size: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the rest of |x| beyond the nearest quarter turns, and their number modulo 4."""
    bits = lax.bitcast_convert_type(size, np.uint32)
    exponent = jnp.maximum(bits >> np.uint32(23), np.uint32(126)) - np.uint32(126)
    m = bits & np.uint32(2**23 - 1) | np.uint32(2**23)
    high, middle, low = _bits_of_quarters(exponent)
    part = m * middle
    lower = part + _high_product(m, low)
    upper = m * high + _high_product(m, middle) + (lower < part).astype(np.uint32)
    quarters = (upper + np.uint32(2**29)) >> np.uint32(30)
    fraction = lax.bitcast_convert_type(upper << 2 | lower >> np.uint32(30), np.int32)
    rest = (lower << 2 >> np.uint32(1)).astype(np.int32).astype(np.float32)
    most = jnp.minimum(fraction.astype(np.float32), np.float32(2**31 - 2**7))
    lost = (fraction - most.astype(np.int32)).astype(np.float32)  # when it was rounded
    least = lost * np.float32(2**-32) + rest * np.float32(2**-63)
    near = most * np.float32(2**-32) + least
    least = least - (near - most * np.float32(2**-32))
    is_near = size < np.float32(np.pi / 4)
    rest = jnp.where(is_near, size, near * _HALF_PI + (near * _REST + least * _HALF_PI))
    return rest, jnp.where(is_near, np.uint32(0), quarters)


def _power_series(coefficients: Sequence[float], square: jax.Array) -> jax.Array:
    """Return the polynomial of a square."""
    value = jnp.full_like(square, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = value * square + np.float32(coefficient)
    return value


def _sine_and_cosine(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return both of the rest of |x| beyond quarter turns, and how many these are modulo 4.

    They are NaN where x is infinite.
    """
    rest, quarters = _turned(jnp.abs(x))
    rest = jnp.where(jnp.abs(x) < np.inf, rest, np.float32(np.nan))
    square = rest * rest
    sine = rest + rest * (square * _power_series(_SINES, square))
    return sine, _power_series(_COSINES, square), quarters


def _is_odd(quarters: jax.Array) -> jax.Array:
    return (quarters & np.uint32(1)) == 1


def _is_half(quarters: jax.Array) -> jax.Array:
    return (quarters & np.uint32(2)) == 2


def _sin(x: jax.Array) -> jax.Array:
    sine, cosine, quarters = _sine_and_cosine(x)
    value = jnp.where(_is_odd(quarters), cosine, sine)
    value = jnp.where(_is_half(quarters) ^ (x < 0), -value, value)
    return jnp.where(jnp.abs(x) < 2**-12, x, value)


def _cos(x: jax.Array) -> jax.Array:
    sine, cosine, quarters = _sine_and_cosine(x)
    value = jnp.where(_is_odd(quarters), sine, cosine)
    return jnp.where(_is_half(quarters + np.uint32(1)), -value, value)


def _tan(x: jax.Array) -> jax.Array:
    sine, cosine, quarters = _sine_and_cosine(x)
    is_odd = _is_odd(quarters)
    height = jnp.where(is_odd, cosine, sine)
    height = jnp.where(is_odd ^ (x < 0), -height, height)
    return jnp.where(jnp.abs(x) < 2**-12, x, height / jnp.where(is_odd, sine, cosine))


def _xla_arcsin(x: jax.Array) -> jax.Array:
    """Return the arc sine, which is x itself where x is tiny: XLA halves it, to a subnormal."""
    return jnp.where(jnp.abs(x) < (2**-12 if x.dtype.itemsize < 8 else 2**-28), x, lax.asin(x))


def _xla_arctan(x: jax.Array) -> jax.Array:
    """Return the arc tangent; its series for small x, where XLA's on CPUs has fewer digits."""
    if x.dtype.itemsize == 8:
        return lax.atan(x)
    small = lax.clamp(x.dtype.type(-(2**-8)), x, x.dtype.type(2**-8))
    return jnp.where(jnp.abs(x) < 2**-8, small * (1 - small * small / 3), lax.atan(x))  # -0 stays


def _vectors(
    function: Callable[..., jax.Array], form: Callable[..., jax.Array], above: int = 0
) -> Any:
    """Return `function`, computed by `form` in FLOAT32 on a CPU, but for FLOAT64.

    Arrays of at most `above` elements are computed by `function`.
    """

    def in_float32(*xs: jax.Array) -> jax.Array:
        if xs[0].size <= above:
            return function(*xs)
        return form(*(x.astype(np.float32) for x in xs)).astype(xs[0].dtype)

    on_cpu = by_platform(function, cpu=in_float32, whole_arrays=True)
    return lambda *xs: (on_cpu if xs[0].dtype.itemsize < 8 else function)(*xs)


arcsin = _vectors(_xla_arcsin, _arcsin)
arccos = _vectors(lax.acos, _arccos)
arctan = _vectors(_xla_arctan, _arctan)
arctan2 = _vectors(lax.atan2, _arctan2)
# The program of the bits of quarter turns takes longer to begin than XLA's own loop over few.
sin = _vectors(lax.sin, _sin, above=LITTLE)
cos = _vectors(lax.cos, _cos, above=LITTLE)
tan = _vectors(lax.tan, _tan, above=LITTLE)

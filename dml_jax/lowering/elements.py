"""Functions of each element, where one function of `jax.lax` does not do."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.enums import RoundingMode
from dml_jax.lowering import clamp


def identity(x: jax.Array) -> jax.Array:
    """Return `x`."""
    return x


def exp(x: jax.Array) -> jax.Array:
    """Return e to the power of x; beyond 88, where XLA's on CPUs has fewer digits, in two steps."""
    is_large = x > 88
    return lax.exp(jnp.where(is_large, x - 1, x)) * jnp.where(is_large, np.e, 1).astype(x.dtype)


def asin(x: jax.Array) -> jax.Array:
    """Return the arc sine, which is x itself where x is tiny: XLA halves it, to a subnormal."""
    return jnp.where(jnp.abs(x) < 2**-12, x, lax.asin(x))


def atan(x: jax.Array) -> jax.Array:
    """Return the arc tangent; its series for small x, where XLA's on CPUs has fewer digits."""
    small = lax.clamp(x.dtype.type(-(2**-8)), x, x.dtype.type(2**-8))
    return jnp.where(jnp.abs(x) < 2**-8, small - small * small * small / 3, lax.atan(x))


def erf(x: jax.Array) -> jax.Array:
    """Return the error function. XLA passes a sharding through a select, and not through `erf`."""
    return jnp.where(x == x, lax.erf(x), x)


# ln(2) in two parts: a whole number of at most 16 bits times the first is exact.
_LN2, _LN2_REST = 0.693359375, float(np.log(2)) - 0.693359375


def exponential_parts(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return n, c and s of FLOAT32 `x`, so that `exp(x) = 2^n * (1 + c + s)`.

    n is a whole number in INT32; c and s are `cosh(r) - 1` and `sinh(r)` of the rest r of x, which
    is at most ln(2) / 2. Sums of these have the digits that XLA's exponential for a GPU lacks.
    """
    whole = lax.round(x * float(np.log2(np.e)), lax.RoundingMethod.TO_NEAREST_EVEN)
    whole = lax.stop_gradient(whole)
    near, rest = x - whole * _LN2, whole * _LN2_REST
    r = near - rest
    lost = near - r - rest  # when r was rounded
    square = r * r
    c = square * (1 / 2 + square * (1 / 24 + square * (1 / 720 + square * (1 / 40320))))
    s = r + (r * (square * (1 / 6 + square * (1 / 120 + square * (1 / 5040)))) + lost)
    return lax.convert_element_type(whole, np.int32), c, s


def power_of_two(n: jax.Array) -> jax.Array:
    """Return 2^n as FLOAT32 of INT32 n up to 127; 0 where it is below the normal numbers."""
    return lax.bitcast_convert_type(jnp.maximum(n + 127, 0) << 23, np.float32)


def cosh(x: jax.Array) -> jax.Array:
    """Return `(exp(x) + exp(-x)) / 2`, by the addition theorem of cosh."""
    (even, odd), (c, s) = _halves(x)
    return 2 * (even + (even * c + odd * s))


def sinh(x: jax.Array) -> jax.Array:
    """Return `(exp(x) - exp(-x)) / 2`, by the addition theorem of sinh."""
    (even, odd), (c, s) = _halves(x)
    return jnp.where(jnp.abs(x) < 2**-12, x, 2 * (odd + (odd * c + even * s)))


Pair = tuple[jax.Array, jax.Array]


def _halves(x: jax.Array) -> tuple[Pair, Pair]:
    """Return half of cosh and sinh of `n * ln(2)`, and `cosh(r) - 1` and `sinh(r)`.

    `n * ln(2) + r` is x, or 89.5, where both are infinite.
    """
    n, c, s = exponential_parts(lax.clamp(np.float32(-89.5), x, np.float32(89.5)))
    up, down = power_of_two(n - 2), power_of_two(-n - 2)
    return (up + down, up - down), (c, s)


def sign(x: jax.Array) -> jax.Array:
    """Return 1 above 0, -1 below, else 0: for NaN too."""
    return lax.convert_element_type(x > 0, x.dtype) - lax.convert_element_type(x < 0, x.dtype)


def rounded(x: jax.Array, rounding_mode: RoundingMode) -> jax.Array:
    """Return floats as whole numbers; halves go to even numbers, or away from zero."""
    if rounding_mode == RoundingMode.TOWARD_ZERO:
        return jnp.trunc(x)
    is_even = rounding_mode == RoundingMode.HALVES_TO_NEAREST_EVEN
    method = lax.RoundingMethod.TO_NEAREST_EVEN if is_even else lax.RoundingMethod.AWAY_FROM_ZERO
    return lax.round(x, method)


def threshold(x: jax.Array, min: float) -> jax.Array:  # noqa: A002
    """Return `max(x, min)`, with `min` cast to the type of `x`. The derivative at `min` is 0."""
    dtype = np.dtype(x.dtype)
    low = dtype.type(clamp.cast_bound(min, dtype))
    return jnp.where(x <= low, low, x)


def constant_pow(x: jax.Array, exponent: float) -> jax.Array:
    """Return `pow(x, exponent)` as C has it."""
    if exponent in (0, 1, 2, 3):  # products, whose derivatives at 0 are never 0 * infinity
        return lax.integer_pow(x, int(exponent))
    return lax.pow(x, lax.full_like(x, exponent))


def value_scale_2d(x: jax.Array, scale: float, bias: Sequence[float]) -> jax.Array:
    """Return `x * scale + bias`, with one bias a channel (dimension 1)."""
    channels = jnp.array(bias, x.dtype)[None, :, None, None]
    return x * scale + lax.broadcast_in_dim(channels, x.shape, (0, 1, 2, 3))

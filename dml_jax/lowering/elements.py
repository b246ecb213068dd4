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
    return jnp.where(jnp.abs(x) < (2**-12 if x.dtype.itemsize < 8 else 2**-28), x, lax.asin(x))


def atan(x: jax.Array) -> jax.Array:
    """Return the arc tangent; its series for small x, where XLA's on CPUs has fewer digits."""
    if x.dtype.itemsize == 8:
        return lax.atan(x)
    small = lax.clamp(x.dtype.type(-(2**-8)), x, x.dtype.type(2**-8))
    return jnp.where(jnp.abs(x) < 2**-8, small - small * small * small / 3, lax.atan(x))


def erf(x: jax.Array) -> jax.Array:
    """Return the error function. XLA passes a sharding through a select, and not through `erf`."""
    return jnp.where(x == x, lax.erf(x), x)


def cosh(x: jax.Array) -> jax.Array:
    """Return `(exp(x) + exp(-x)) / 2`, of half the exponent, so that `exp` never overflows first.

    `lax.cosh` adds `ln(1/2)` to the exponent, and loses digits of it.
    """
    root = lax.exp(jnp.abs(x) / 2)
    return 0.5 * root * root + 0.5 / root / root


def sinh(x: jax.Array) -> jax.Array:
    """Return `(exp(x) - exp(-x)) / 2`: by its series up to 1, beyond as `cosh` does."""
    if x.dtype.itemsize == 8:
        return lax.sinh(x)
    root = lax.exp(jnp.abs(x) / 2)
    large = lax.sign(x) * (0.5 * root * root - 0.5 / root / root)
    small = lax.clamp(x.dtype.type(-1), x, x.dtype.type(1))
    square = small * small
    series = square * (1 / 6 + square * (1 / 120 + square * (1 / 5040 + square / 362880)))
    return jnp.where(jnp.abs(x) < 1, small + small * series, large)


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

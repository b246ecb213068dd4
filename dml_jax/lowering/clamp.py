"""Clipping, and the linear map before it."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.mapping import Linear, saturate
from dml_jax.lowering.numbers import where


def clip(x: jax.Array, low: float | int, high: float | int) -> jax.Array:
    """`max(low, min(x, high))`; NaN stays. The derivative is 0 at and beyond the bounds.

    Two selects and not `lax.max`, `lax.min`: those share the derivative at a tie, and `lax.clamp`
    lets `high` win where low > high.
    """
    low_, high_ = (lax.full_like(x, limit) for limit in (low, max(low, high)))
    below_high = lax.select(x >= high_, high_, x)
    return lax.select(x <= low_, low_, below_high)


def clip_grad(x: jax.Array, gradient: jax.Array, low: float | int, high: float | int) -> jax.Array:
    """`gradient` where x lies strictly between the bounds, else 0; where x is NaN, `gradient`."""
    if low < high:
        low_, high_ = (lax.full_like(x, limit) for limit in (low, high))
        return where(~(x <= low_) & ~(x >= high_), gradient, 0)
    # All numbers are at a limit or beyond one, which XLA's GPU takes to be true of NaN too.
    return where(x != x, gradient, 0)


def cast_bound(bound: float, dtype: np.dtype) -> float | int:
    """A FLOAT bound in the type that it clips.

    Integers truncate toward zero and then saturate (infinities too); floats round to nearest even,
    beyond their range to infinity.
    """
    if not np.issubdtype(dtype, np.integer):
        with np.errstate(over="ignore"):
            return float(dtype.type(bound))
    limits = np.iinfo(dtype)
    if math.isinf(bound):
        return int(limits.max if bound > 0 else limits.min)
    return min(max(math.trunc(bound), int(limits.min)), int(limits.max))


def scaled(x: jax.Array, map_: Linear | None) -> jax.Array:
    """`x * scale + bias`, rounded once to x's type; x itself where there is no map.

    Computed in float32, for 64-bit types in float64; integers truncate toward zero and saturate.
    """
    if map_ is None:
        return x
    type_ = jnp.float64 if x.dtype.itemsize == 8 else jnp.float32
    y = lax.convert_element_type(x, type_) * type_(map_.scale) + type_(map_.bias)
    if jnp.issubdtype(x.dtype, jnp.integer):
        return saturate(y, x.dtype)
    return lax.convert_element_type(y, x.dtype)

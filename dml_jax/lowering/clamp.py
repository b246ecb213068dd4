"""Clipping, and the bounds of it."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.dtypes import is_float, where


def clip(x: jax.Array, min: float | int, max: float | int) -> jax.Array:  # noqa: A002
    """`max(min, min(x, max))`; NaN stays. The derivative is 0 at and beyond the bounds.

    Two selects and not `lax.max`, `lax.min`: those share the derivative at a tie, and `lax.clamp`
    lets `max` win where min > max. The arguments have the names of DirectML's fields, by which a
    fused activation calls the function.
    """
    low_, high_ = (lax.full_like(x, limit) for limit in (min, min if min > max else max))
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
    """Return a FLOAT in the type of the elements beside it.

    Integers truncate toward zero and then saturate (infinities too), and NaN is 0; floats round to
    nearest even, beyond their range to infinity.
    """
    if is_float(dtype):
        with np.errstate(over="ignore"):
            return float(dtype.type(bound))
    if dtype.kind == "c":  # of ONNX's complex numbers, beyond DirectML
        return bound
    limits = jnp.iinfo(dtype)
    if math.isnan(bound):
        return 0
    if math.isinf(bound):
        return int(limits.max if bound > 0 else limits.min)
    return min(max(math.trunc(bound), int(limits.min)), int(limits.max))

"""Clipping, and the linear map before it."""

import math
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

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


class Linear(Protocol):
    """`x * scale + bias`."""

    @property
    def scale(self) -> float: ...
    @property
    def bias(self) -> float: ...


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


def saturate(x: jax.Array, dtype: np.dtype) -> jax.Array:
    """Floats to integers: toward zero, beyond the type's range its ends, NaN to 0.

    XLA leaves the conversion of what does not fit to the backend, so nothing that does not fit
    reaches it.
    """
    limits = np.iinfo(dtype)
    start, last = x.dtype.type(limits.min), x.dtype.type(limits.max)
    if int(last) > limits.max:  # 2^n - 1 may not be a float, 2^n is
        last = np.nextafter(last, start)
    fits = lax.select(x > start, x, lax.full_like(x, start))  # NaN too is `start`
    fits = lax.select(fits < last, fits, lax.full_like(x, last))
    whole = lax.convert_element_type(fits, dtype)
    if int(last) < limits.max:
        whole = where(x > last, limits.max, whole)
    return where(x == x, whole, 0) if start else whole

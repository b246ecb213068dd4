"""Clipping, and the linear map before it."""

import functools
import math
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.differentiable import differentiable
from dml_jax.lowering.elementwise import unsigned, where


def clip(x: jax.Array, low: float | int, high: float | int) -> jax.Array:
    """`max(low, min(x, high))`; NaN stays. The derivative is 0 at and beyond the bounds.

    Two selects and not `lax.max`, `lax.min`: those share the derivative at a tie, and `lax.clamp`
    lets `high` win where low > high.
    """
    low_, high_ = (lax.full_like(x, bound) for bound in (low, max(low, high)))
    # float16 is compared as it is, not in float32. H100, jax 0.11.2, us, in float32 and so, pieces
    # of [8, 64, 256, 256], clipped and joined over 1 51.5, 46.4; a CLIP is level, also on a CPU.
    below_high = lax.select(x >= high_, high_, x)
    return lax.select(x <= low_, low_, below_high)


def clip_grad(x: jax.Array, gradient: jax.Array, low: float | int, high: float | int) -> jax.Array:
    """`gradient` where x lies strictly between the bounds, else 0; where x is NaN, `gradient`."""
    if low < high:
        low_, high_ = (lax.full_like(x, bound) for bound in (low, high))
        return _kept(~(x <= low_) & ~(x >= high_), gradient)
    # All numbers are at a bound or beyond one, which the compiler for the H200 (jax 0.11.2,
    # float32) takes to be true of NaN too.
    return _kept(x != x, gradient)


@differentiable(linear=True)
def _kept(there: jax.Array, x: jax.Array) -> jax.Array:
    """Its elements there, else 0."""
    return lax.platform_dependent(there, x, cpu=_kept_bits, default=functools.partial(where, y=0))


@_kept.defjvp
def _kept_jvp(primals: tuple[jax.Array, ...], tangents: tuple[Any, ...]):
    (there, x), (_, dx) = primals, tangents
    return _kept(there, x), where(there, dx, 0)


def _kept_bits(there: jax.Array, x: jax.Array) -> jax.Array:
    """The least of its bits and all or none of them.

    Of a select LLVM makes a masked load, which waits for the mask. 2 cores, jax 0.10.2, ms, select
    and so, CLIP_GRAD of [8, 64, 256, 256] FLOAT32 13.5, 10.1; FLOAT16 7.2, 5.9; INT32 11.3, 10.8.
    """
    bits = lax.bitcast_convert_type(x, unsigned(x))
    ones = lax.full_like(bits, np.iinfo(bits.dtype).max)
    kept = lax.min(bits, where(there, ones, 0))
    return lax.bitcast_convert_type(kept, x.dtype)


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

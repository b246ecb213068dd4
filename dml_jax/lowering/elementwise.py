"""Elementwise functions as primitives; jax.numpy's are calls of jitted functions.

A call in the body of a reduction whose result nothing reads crashes XLA (jax 0.10.2 to 0.12.0:
`jit(grad(LOG_SUM_EXP), keep_unused=True)` for a GPU), and each takes time to trace.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def where(condition: jax.Array, x: Any, y: Any) -> jax.Array:
    """`x` where the condition holds, else `y`: arrays of its shape; one may be a number."""
    if not isinstance(x, jax.Array):
        x = lax.full_like(y, x)
    if not isinstance(y, jax.Array):
        y = lax.full_like(x, y)
    return lax.select(condition, x, y)


def is_infinite(x: jax.Array) -> jax.Array:
    """Whether an element is an infinity of either sign."""
    return lax.abs(x) == x.dtype.type(np.inf)


def unsigned(x: jax.Array) -> np.dtype:
    """The unsigned integers as wide as an element."""
    return unsigned_type(x.dtype)


def unsigned_type(dtype: np.dtype) -> np.dtype:
    """Those as wide as an element of this type."""
    return np.dtype(f"uint{dtype.itemsize * 8}")


def signed_type(dtype: np.dtype) -> np.dtype:
    """The signed ones."""
    return np.dtype(f"int{dtype.itemsize * 8}")


def alike(x: jax.Array, count: int) -> list[jax.Array]:
    """Copies of an array that XLA does not know to be equal, or it would broadcast one of them."""
    bits = lax.bitcast_convert_type(x, unsigned(x))
    return [lax.bitcast_convert_type(bits | zero, x.dtype) for zero in opaque_zeros(x, count)]


def opaque_zeros(x: jax.Array, count: int) -> list[jax.Array]:
    """Unsigned integers as wide as an element, of which XLA does not know that they are zero."""
    return lax.optimization_barrier([jnp.zeros((), unsigned(x))] * count)

"""Types of elements: the type in which they accumulate, and integers of as many bits.

Functions are of `jax.lax`: those of jax.numpy are calls of jitted functions, and a call in the body
of a reduction whose result nothing reads crashes XLA for a GPU.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

# So many products of integers of 9 bits have a sum that FLOAT32 holds exactly.
EXACT_PRODUCTS = 256


def is_float(x: jax.Array | np.dtype) -> bool:
    """Return whether an array or a type is of floats."""
    return jnp.issubdtype(x if isinstance(x, np.dtype) else x.dtype, jnp.floating)


def wide_type(dtype: np.dtype) -> np.dtype:
    """Return the type in which elements accumulate: float32 for smaller floats, else theirs."""
    return np.dtype(np.float32) if dtype.itemsize < 4 and is_float(dtype) else dtype


def wide(x: jax.Array) -> jax.Array:
    """Convert `x` to the type in which its elements accumulate."""
    return lax.convert_element_type(x, wide_type(x.dtype))


def unsigned_type(dtype: np.dtype) -> np.dtype:
    """Return the unsigned integers as wide as elements of a type."""
    return np.dtype(f"uint{dtype.itemsize * 8}")


def signed_type(dtype: np.dtype) -> np.dtype:
    """Return the signed integers as wide as elements of a type."""
    return np.dtype(f"int{dtype.itemsize * 8}")


def bits_of(x: jax.Array) -> jax.Array:
    """View the elements of `x` as unsigned integers."""
    return lax.bitcast_convert_type(x, unsigned_type(x.dtype))


def where(condition: jax.Array, x: Any, y: Any) -> jax.Array:
    """Select `x` where the condition holds, else `y`: arrays of its shape; one may be a number."""
    if not isinstance(x, jax.Array):
        x = lax.full_like(y, x)
    if not isinstance(y, jax.Array):
        y = lax.full_like(x, y)
    return lax.select(condition, x, y)


def is_infinite(x: jax.Array) -> jax.Array:
    """Return whether each element is an infinity of either sign."""
    return lax.abs(x) == x.dtype.type(np.inf)


def finite(x: jax.Array) -> jax.Array:
    """Replace infinities by 0, for a shift that leaves no inf - inf."""
    return where(is_infinite(x), 0, x)


def lowest(dtype: np.dtype, largest: bool) -> Any:
    """Return the number that no element is below (above, if not `largest`)."""
    if is_float(dtype):
        return dtype.type(-np.inf if largest else np.inf)
    return dtype.type(np.iinfo(dtype).min if largest else np.iinfo(dtype).max)


def ordered_bits(x: jax.Array) -> jax.Array:
    """Map signed integers that are a float's bits to integers of the float's order, and back."""
    limits = np.iinfo(x.dtype)
    return x ^ (x >> x.dtype.type(limits.bits - 1) & x.dtype.type(limits.max))


def has_x64() -> bool:
    """Return whether JAX computes with 64-bit types."""
    return bool(jax.config.jax_enable_x64)  # pyright: ignore[reportAttributeAccessIssue]

"""The type in which elements accumulate and compare: float32 for float16, else their own."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def is_float(x: jax.Array) -> bool:
    """Whether elements are floats."""
    return jnp.issubdtype(x.dtype, jnp.floating)


def wide(x: jax.Array) -> jax.Array:
    """Elements in the type in which they accumulate and compare."""
    return lax.convert_element_type(x, wide_type(x.dtype))


def wide_type(dtype: np.dtype) -> np.dtype:
    """The type in which elements of this one do."""
    return np.dtype(np.float32) if dtype == jnp.float16 else dtype

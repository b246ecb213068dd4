"""Functions of elements: the types in which they are computed, and the linear map before them."""

from collections.abc import Callable
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.dtypes import is_float, wide


class Linear(Protocol):
    """A linear map, `x * scale + bias`."""

    @property
    def scale(self) -> float: ...
    @property
    def bias(self) -> float: ...


def mapped(
    function: Callable[..., jax.Array], x: jax.Array, scale_bias: Linear | None, **attributes: Any
) -> jax.Array:
    """Return `function(x * scale + bias, **attributes)` in the type of `x`, rounded once."""
    if is_float(x):
        y = wide(x)
        if scale_bias is not None:
            y = y * y.dtype.type(scale_bias.scale) + y.dtype.type(scale_bias.bias)
        return lax.convert_element_type(function(y, **attributes), x.dtype)
    return function(scaled_integers(x, scale_bias), **attributes)


def scaled_integers(x: jax.Array, scale_bias: Linear | None) -> jax.Array:
    """Return `x * scale + bias` of integers, truncated toward zero and saturated."""
    if scale_bias is None:
        return x
    type_ = wide_real(x.dtype).type
    y = lax.convert_element_type(x, type_) * type_(scale_bias.scale) + type_(scale_bias.bias)
    return saturate(y, x.dtype)


def wide_real(dtype: np.dtype) -> np.dtype:
    """Return the type of the real numbers with which integers are multiplied."""
    return np.dtype(np.float64 if dtype.itemsize == 8 else np.float32)


def saturate(x: jax.Array, dtype: Any) -> jax.Array:
    """Return floats as integers: toward zero, beyond the type's range its ends, NaN as 0.

    XLA leaves the conversion of a number that does not fit to the backend, so that none reaches it.
    """
    dtype = np.dtype(dtype)
    limits = jnp.iinfo(dtype)
    start, last = x.dtype.type(int(limits.min)), x.dtype.type(int(limits.max))
    if int(last) > limits.max:  # the largest integer may be no float, the one after it is
        last = np.nextafter(last, start)
    fits = lax.select(x > start, x, lax.full_like(x, start))  # NaN too is `start`
    fits = lax.select(fits < last, fits, lax.full_like(x, last))
    whole = lax.convert_element_type(fits, dtype)
    if int(last) < limits.max:
        whole = lax.select(x > last, lax.full_like(whole, limits.max), whole)
    return lax.select(x == x, whole, lax.full_like(whole, 0))

"""Functions of truth values and of bits, where one function of `jax.lax` does not do.

What is true or false comes as `jax.numpy.bool_`; the bits of a float are those of an unsigned
integer of its width.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from dml_jax.enums import IsInfinityMode


def is_true(x: jax.Array) -> jax.Array:
    """Return whether each element of `x` differs from 0."""
    return x != x.dtype.type(0)


def is_infinity(x: jax.Array, infinity_mode: IsInfinityMode) -> jax.Array:
    """Return whether each element of `x` is the infinity of `infinity_mode`."""
    if infinity_mode == IsInfinityMode.EITHER:
        return jnp.isinf(x)
    sign = 1 if infinity_mode == IsInfinityMode.POSITIVE else -1
    return x == x.dtype.type(sign * jnp.inf)


def _shift(shift: Any) -> Callable[..., jax.Array]:
    """Return `shift`, with 0 for counts of at least the width, which XLA leaves to its backends."""

    def shifted(x: jax.Array, count: jax.Array) -> jax.Array:
        width = count.dtype.type(8 * x.dtype.itemsize)
        return lax.select(count < width, shift(x, count), lax.full_like(x, 0))

    return shifted


shift_left = _shift(lax.shift_left)
shift_right = _shift(lax.shift_right_logical)

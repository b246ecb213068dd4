"""Softmax, its logarithm and its limit, over axes together: the forms that do not overflow."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax

from dml_jax.lowering.axes import beside, summed
from dml_jax.lowering.elementwise_primitive import derived_by

LAST = (-1,)


def _below_maximum(x: jax.Array, axes: Sequence[int]) -> jax.Array:
    """Return by how much each element of `x` is above the maximum over `axes`: at most 0."""
    return x - jnp.max(x, axes, keepdims=True)


def _from_end(x: jax.Array, axes: Sequence[int]) -> tuple[int, ...]:
    """Return axes as a batch in front leaves them."""
    return tuple(axis % x.ndim - x.ndim for axis in axes)


def softmax(x: jax.Array, axes: Sequence[int] = LAST) -> jax.Array:
    """Return `exp(x) / sum(exp(x))`, with the sum over `axes`."""
    return _softmax(x, _from_end(x, axes))


def _of_softmax(dx: jax.Array, x: jax.Array, axes: Sequence[int]) -> jax.Array:
    y = _softmax(x, axes)
    return y * (dx - beside(summed(y * dx, axes), dx))


@derived_by(_of_softmax)
def _softmax(x: jax.Array, axes: Sequence[int]) -> jax.Array:
    y = jnp.exp(_below_maximum(x, axes))
    return y / jnp.sum(y, axes, keepdims=True)


def log_softmax(x: jax.Array, axes: Sequence[int] = LAST) -> jax.Array:
    """Return `x - log(sum(exp(x)))`, with the sum over `axes`.

    The sum is in float64, whatever `jax_enable_x64` says: it is near 1 where one element outweighs
    the others, and its logarithm, then near 0, has only the digits that the sum has beyond 1.
    """
    return _log_softmax(x, _from_end(x, axes))


def _of_log_softmax(dx: jax.Array, x: jax.Array, axes: Sequence[int]) -> jax.Array:
    return dx - beside(summed(jnp.exp(_log_softmax(x, axes)) * dx, axes), dx)


@derived_by(_of_log_softmax)
def _log_softmax(x: jax.Array, axes: Sequence[int]) -> jax.Array:
    x = _below_maximum(x, axes)
    with jax.enable_x64(True):
        terms = lax.convert_element_type(jnp.exp(x), jnp.float64)
        log_sum = jnp.log(jnp.sum(terms, axes, keepdims=True))
        return x - lax.convert_element_type(log_sum, x.dtype)


def hardmax(x: jax.Array, axes: Sequence[int] = LAST) -> jax.Array:
    """Return 1 at the first maximum over `axes`, in row-major order, and 0 elsewhere.

    The first NaN is the maximum where there is one.
    """
    axes = tuple(sorted(axis % x.ndim for axis in axes))
    place, step = jnp.zeros(x.shape, jnp.uint32), 1
    for axis in reversed(axes):
        place += lax.broadcasted_iota(jnp.uint32, x.shape, axis) * jnp.uint32(step)
        step *= x.shape[axis]
    is_top = (x == jnp.max(x, axes, keepdims=True)) | (x != x)
    first = jnp.min(jnp.where(is_top, place, jnp.uint32(2**32 - 1)), axes, keepdims=True)
    return lax.convert_element_type(place == first, x.dtype)

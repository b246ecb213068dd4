"""Softmax, its logarithm and its limit, over axes together: the forms that do not overflow."""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax

LAST = (-1,)


def _below_maximum(x: jax.Array, axes: Sequence[int]) -> jax.Array:
    """Return by how much each element of `x` is above the maximum over `axes`: at most 0."""
    return x - jnp.max(x, axes, keepdims=True)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def softmax(x: jax.Array, axes: Sequence[int] = LAST) -> jax.Array:
    """Return `exp(x) / sum(exp(x))`, with the sum over `axes`."""
    y = jnp.exp(_below_maximum(x, axes))
    return y / jnp.sum(y, axes, keepdims=True)


@softmax.defjvp
def _(axes: Sequence[int], primals: tuple[jax.Array], tangents: tuple[jax.Array]):
    y, dx = softmax(*primals, axes), tangents[0]
    return y, y * (dx - jnp.sum(y * dx, axes, keepdims=True))


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def log_softmax(x: jax.Array, axes: Sequence[int] = LAST) -> jax.Array:
    """Return `x - log(sum(exp(x)))`, with the sum over `axes`.

    The maxima are counted apart, since 1 plus what the others add would be rounded.
    """
    x = _below_maximum(x, axes)
    is_top = x == x.dtype.type(0)
    others = jnp.sum(jnp.where(is_top, x, jnp.exp(x)), axes, keepdims=True)
    ties = jnp.sum(is_top, axes, x.dtype, keepdims=True)
    return x - jnp.log1p(others + (ties - x.dtype.type(1)))


@log_softmax.defjvp
def _(axes: Sequence[int], primals: tuple[jax.Array], tangents: tuple[jax.Array]):
    y, dx = log_softmax(*primals, axes), tangents[0]
    return y, dx - jnp.sum(jnp.exp(y) * dx, axes, keepdims=True)


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

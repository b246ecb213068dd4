"""Softmax, its logarithm and its limit, over axes together: the forms that do not overflow."""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax

from dml_jax.lowering.axes import beside, summed
from dml_jax.lowering.by_platform import stored

LAST = (-1,)


def _below_maximum(x: jax.Array, axes: Sequence[int]) -> jax.Array:
    """Return by how much each element of `x` is above the maximum over `axes`: at most 0.

    The elements are read twice, so a CPU stores them.
    """
    x = stored(x)
    return x - jnp.max(x, axes, keepdims=True)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def softmax(x: jax.Array, axes: Sequence[int] = LAST) -> jax.Array:
    """Return `exp(x) / sum(exp(x))`, with the sum over `axes`."""
    y = jnp.exp(_below_maximum(x, axes))
    return y / jnp.sum(y, axes, keepdims=True)


@softmax.defjvp
def _(axes: Sequence[int], primals: tuple[jax.Array], tangents: tuple[jax.Array]):
    y, dx = softmax(*primals, axes), tangents[0]
    return y, y * (dx - beside(summed(y * dx, axes), dx))


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def log_softmax(x: jax.Array, axes: Sequence[int] = LAST) -> jax.Array:
    """Return `x - log(sum(exp(x)))`, with the sum over `axes`.

    The sum is in float64, whatever `jax_enable_x64` says: it is near 1 where one element outweighs
    the others, and its logarithm, then near 0, has only the digits that the sum has beyond 1.
    """
    x = _below_maximum(x, axes)
    with jax.enable_x64(True):
        terms = lax.convert_element_type(jnp.exp(x), jnp.float64)
        log_sum = jnp.log(jnp.sum(terms, axes, keepdims=True))
        return x - lax.convert_element_type(log_sum, x.dtype)


@log_softmax.defjvp
def _(axes: Sequence[int], primals: tuple[jax.Array], tangents: tuple[jax.Array]):
    y, dx = log_softmax(*primals, axes), tangents[0]
    return y, dx - beside(summed(jnp.exp(y) * dx, axes), dx)


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

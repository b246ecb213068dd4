"""Functions of the elements of each window of an array {N, C, spatial...}.

`first` is the first spatial axis of an array: 2, or 1 of {N, spatial..., C}.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering import quantization
from dml_jax.lowering.axes import on_axis, summed
from dml_jax.lowering.dtypes import is_float, lowest, wide
from dml_jax.lowering.mesh_axes import alike
from dml_jax.lowering.windows import Window


def average(x: jax.Array, window: Window, include_padding: bool, first: int = 2) -> jax.Array:
    """Return the mean of each window: of all its elements, or of those in the input alone.

    FLOAT16 is summed in FLOAT32. A window without elements has 0.
    """
    y, sizes = wide(x), window.spatial(x, first)
    if first == 1 and not window.is_padded and tuple(window.sizes) == sizes:
        total = summed(y, range(1, 1 + len(sizes)))
    else:
        total = window.fold(lax.add, window.padded(y, 0, first), first)
    count = _count(sizes, window, include_padding, total.dtype, first)
    return lax.convert_element_type(total / count, x.dtype)


def _count(
    sizes: Sequence[int], window: Window, include_padding: bool, dtype: Any, first: int = 2
) -> jax.Array:
    """Return by how many elements a window's sum is divided; 1 where there are none."""
    if include_padding:
        return jnp.asarray(math.prod(window.sizes), dtype)
    return jnp.maximum(window.elements(sizes, dtype, first), dtype.type(1))


def average_grad(
    gradient: jax.Array, window: Window, include_padding: bool, shape: Sequence[int]
) -> jax.Array:
    """Return the gradient of the input of `average`, which has this shape."""
    dy = wide(gradient)
    x = lax.full_like(dy, 0, shape=shape)
    (y,) = jax.linear_transpose(lambda x: average(x, window, include_padding), x)(dy)
    return lax.convert_element_type(y, gradient.dtype)


def lp(x: jax.Array, window: Window, p: int) -> jax.Array:
    """Return `sum(|x|^p)^(1/p)` of each window; its derivative is 0 where it is 0."""
    y = wide(x)
    sizes = y * lax.stop_gradient(lax.sign(y))  # the derivative of |x| at 0 is 0
    total = window.fold(lax.add, window.padded(lax.integer_pow(sizes, p), 0))
    if p > 1:
        is_plain = (total > 0) & (total < np.inf)
        safe = jnp.where(is_plain, total, total.dtype.type(1))
        root = lax.sqrt(safe) if p == 2 else _root(safe, p)
        total = jnp.where(is_plain, root, lax.stop_gradient(total))
    return lax.convert_element_type(total, x.dtype)


def _root(x: jax.Array, p: int) -> jax.Array:
    """Return `x^(1/p)` of positive floats; a step of Newton's mends what 1/p is rounded by."""
    guess = lax.pow(x, x.dtype.type(1 / p))
    return guess * (1 + (x / lax.integer_pow(guess, p) - 1) / p)


# Stands for the place of padding.
_NOWHERE = np.uint32(2**32 - 1)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def maximum(x: jax.Array, window: Window, first: int = 2) -> jax.Array:
    """Return the largest element of each window, or NaN where it has one.

    A window without elements has the lowest value.
    """
    return window.fold(lax.max, window.padded(x, lowest(x.dtype, True), first), first)


@maximum.defjvp
def _(window: Window, first: int, primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> Any:
    def chosen(x: jax.Array) -> jax.Array:
        if first == 2:
            return maximum_with_index(x, window, np.uint32)[0]
        return jnp.moveaxis(maximum_with_index(jnp.moveaxis(x, -1, 1), window, np.uint32)[0], 1, -1)

    return jax.jvp(chosen, primals, tangents)


def maximum_with_index(
    x: jax.Array, window: Window, index_type: Any
) -> tuple[jax.Array, jax.Array]:
    """Return the largest element of each window, and its row-major index in `x`.

    The first of equal elements, or the first NaN. A window without elements has the lowest value
    and index 0.
    """
    plane = math.prod(x.shape[2:])
    values = window.padded(wide(x), lowest(x.dtype, True))
    places = lax.iota(np.uint32, plane).reshape(1, 1, *x.shape[2:])
    places = jnp.broadcast_to(window.padded(places, _NOWHERE), values.shape)

    def larger(first: Any, second: Any) -> tuple[jax.Array, jax.Array]:
        (v, i), (w, j) = first, second
        wins = (v == v) & ~(w <= v) if is_float(v) else w > v
        if window.is_padded:
            wins = wins | (i == _NOWHERE)
        return lax.select(wins, w, v), lax.select(wins, j, i)

    values, places = window.fold(larger, (values, places))
    lines = lax.iota(index_type, math.prod(x.shape[:2])) * np.dtype(index_type).type(plane)
    index = lines.reshape(*x.shape[:2], *[1] * (x.ndim - 2)) + places.astype(index_type)
    index = jnp.where(places == _NOWHERE, np.dtype(index_type).type(0), index)
    return lax.convert_element_type(values, x.dtype), index


def maximum_grad(x: jax.Array, gradient: jax.Array, window: Window) -> jax.Array:
    """Return the gradient of the input of `maximum`, summed in FLOAT32."""
    y, dy = alike((wide(x), wide(gradient)))
    _, back = jax.vjp(lambda x: maximum(x, window), y)
    return lax.convert_element_type(back(dy)[0], x.dtype)


def unpooled(x: jax.Array, indices: jax.Array, shape: Sequence[int]) -> jax.Array:
    """Return zeros of this shape with each element of `x` at its row-major index.

    The last of several elements with one index is written, and none whose index lies outside.
    """
    count = math.prod(shape)
    places = jnp.minimum(indices.reshape(-1), indices.dtype.type(count)).astype(np.uint32)
    order = lax.iota(np.int32, x.size)
    writer = jnp.full(count, np.int32(-1)).at[places].max(order, mode="drop")
    places = writer.astype(np.uint32)  # where none writes, outside
    written = x.reshape(-1).at[places].get(mode="fill", fill_value=0)
    return written.reshape(shape)


def quantized_average(
    x: jax.Array,
    x_scale: jax.Array,
    x_zero: jax.Array | None,
    scale: jax.Array,
    zero: jax.Array | None,
    window: Window,
    include_padding: bool,
    dtype: Any,
) -> jax.Array:
    """Return the mean of each window of dequantized elements of 8 bits, quantized.

    Scales and zeros have one element, or one for each channel; a zero that is None is 0. Padding
    counts as elements that are 0 with `include_padding`. The sum is one of integers; it is scaled,
    then divided, in FLOAT32.
    """
    steps = lax.convert_element_type(x, np.int32)
    if x_zero is not None:
        steps = steps - on_axis(lax.convert_element_type(x_zero, np.int32), 1, x.ndim)
    total = window.fold(lax.add, window.padded(steps, 0)).astype(np.float32)
    total = total * on_axis(x_scale, 1, x.ndim)
    count = _count(x.shape[2:], window, include_padding, total.dtype)
    mean = quantization.divide(total, count)
    zero = None if zero is None else on_axis(zero, 1, x.ndim)
    return quantization.quantize(mean, on_axis(scale, 1, x.ndim), zero, dtype)

"""Pooling, FOLD and UNFOLD as a user of JAX writes them."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.bench.expressions.matrix import along, given, quantize


def _windows(op: Any, xs: Any, initial: Any, combine: Any) -> Any:
    """Reduce the windows of an array, or of several in a tuple."""
    padding = [(0, 0), (0, 0), *zip(op.start_padding, op.end_padding, strict=True)]
    dilations = (1, 1, *getattr(op, "dilations", [1] * len(op.strides)))
    window, strides = (1, 1, *op.window_size), (1, 1, *op.strides)
    initial = jax.tree.map(lambda x, first: jnp.asarray(first, x.dtype)[()], xs, initial)
    return lax.reduce_window(
        xs, initial, combine, window, strides, padding, window_dilation=dilations
    )


def _sum(op: Any, x: Any) -> Any:
    return _windows(op, x, 0, lax.add)


def _average(op: Any, x: Any) -> Any:
    every = math.prod(op.window_size)
    count = every if op.include_padding else jnp.maximum(_sum(op, jnp.ones_like(x)), 1)
    return _sum(op, x) / count


def _average_grad(op: Any, gradient: Any) -> Any:
    whole = jax.ShapeDtypeStruct(op.output_gradient_tensor.sizes, op.output_gradient_tensor.dtype)
    return jax.linear_transpose(lambda x: _average(op, x), whole)(gradient)[0]


def _lp(op: Any, x: Any) -> Any:
    return _sum(op, jnp.abs(x) ** op.p) ** (1 / op.p)


def _largest(first: Any, second: Any) -> Any:
    (v, i), (w, j) = first, second
    wins = (w > v) | ((w == v) & (j < i))
    return jnp.where(wins, w, v), jnp.where(wins, j, i)


def _maximum(op: Any, x: Any) -> Any:
    indices = getattr(op, "output_indices_tensor", None)
    lowest = -np.inf if jnp.issubdtype(x.dtype, jnp.floating) else jnp.iinfo(x.dtype).min
    if indices is None:
        return _windows(op, x, lowest, lax.max)
    index = jnp.arange(x.size, dtype=indices.dtype).reshape(x.shape)
    return _windows(op, (x, index), (lowest, x.size), _largest)


def _max_grad(op: Any, x: Any, gradient: Any) -> Any:
    return jax.vjp(lambda x: _windows(op, x, -np.inf, lax.max), x)[1](gradient)[0]


def _unpooling(op: Any, x: Any, indices: Any) -> Any:
    sizes = op.output_tensor.sizes
    flat = jnp.zeros(math.prod(sizes), x.dtype)
    return flat.at[indices.ravel()].set(x.ravel(), mode="drop").reshape(sizes)


def _quantize(op: Any, *arrays: Any) -> Any:
    x, *points = given(op, arrays)
    x_scale, x_zero, scale, zero = (p if p is None else along(p, 1, x.ndim) for p in points)
    x = x.astype("float32")
    mean = _average(op, (x if x_zero is None else x - x_zero.astype("float32")) * x_scale)
    return quantize(mean / scale, zero, op.output_tensor.dtype)


def _unfold(op: Any, x: Any) -> Any:
    padding = list(zip(op.start_padding, op.end_padding, strict=True))
    how: Any = {"rhs_dilation": op.dilations, "precision": lax.Precision.HIGHEST}
    patches = lax.conv_general_dilated_patches(x, op.window_sizes, op.strides, padding, **how)
    return patches.reshape(*patches.shape[:2], -1)


def _fold(op: Any, x: Any) -> Any:
    whole = jax.ShapeDtypeStruct(op.output_tensor.sizes, op.output_tensor.dtype)
    columns = x.reshape(x.shape[-3:])
    return jax.linear_transpose(lambda y: _unfold(op, y), whole)(columns)[0]


EXPRESSIONS = {
    "AVERAGE_POOLING": _average,
    "AVERAGE_POOLING1": _average,
    "AVERAGE_POOLING_GRAD": _average_grad,
    "LP_POOLING": _lp,
    "LP_POOLING1": _lp,
    "MAX_POOLING": _maximum,
    "MAX_POOLING1": _maximum,
    "MAX_POOLING2": _maximum,
    "MAX_POOLING_GRAD": _max_grad,
    "MAX_UNPOOLING": _unpooling,
    "QUANTIZED_LINEAR_AVERAGE_POOLING": _quantize,
    "UNFOLD": lambda op, x: _unfold(op, x).reshape(op.output_tensor.sizes),
    "FOLD": _fold,
}

"""Pooling, FOLD and UNFOLD as a user of JAX writes them."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def _windows(op: Any, x: Any, initial: Any, combine: Any) -> Any:
    padding = [(0, 0), (0, 0), *zip(op.start_padding, op.end_padding, strict=True)]
    dilations = (1, 1, *getattr(op, "dilations", [1] * len(op.strides)))
    window, strides = (1, 1, *op.window_size), (1, 1, *op.strides)
    initial = jnp.asarray(initial, x.dtype)
    return lax.reduce_window(
        x, initial[()], combine, window, strides, padding, window_dilation=dilations
    )


def _sum(op: Any, x: Any) -> Any:
    return _windows(op, x, 0, lax.add)


def _average(op: Any) -> Any:
    def of(x: Any) -> Any:
        count = _sum(op, jnp.ones_like(x))
        every = math.prod(op.window_size)
        return _sum(op, x) / (every if op.include_padding else jnp.maximum(count, 1))

    return of


def _average_grad(op: Any) -> Any:
    whole = jax.ShapeDtypeStruct(op.output_gradient_tensor.sizes, op.output_gradient_tensor.dtype)
    return lambda gradient: jax.linear_transpose(_average(op), whole)(gradient)[0]


def _lp(op: Any) -> Any:
    return lambda x: _sum(op, jnp.abs(x) ** op.p) ** (1 / op.p)


def _lowest(x: Any) -> Any:
    return -np.inf if jnp.issubdtype(x.dtype, jnp.floating) else jnp.iinfo(x.dtype).min


def _maximum(op: Any) -> Any:
    indices = getattr(op, "output_indices_tensor", None)

    def largest(first: Any, second: Any) -> Any:
        (v, i), (w, j) = first, second
        wins = (w > v) | ((w == v) & (j < i))
        return jnp.where(wins, w, v), jnp.where(wins, j, i)

    def of(x: Any) -> Any:
        if indices is None:
            return _windows(op, x, _lowest(x), lax.max)
        index = jnp.arange(x.size, dtype=indices.dtype).reshape(x.shape)
        padding = [(0, 0), (0, 0), *zip(op.start_padding, op.end_padding, strict=True)]
        dilations = (1, 1, *getattr(op, "dilations", [1] * len(op.strides)))
        initial = (jnp.asarray(_lowest(x), x.dtype), jnp.asarray(x.size, indices.dtype))
        window, strides = (1, 1, *op.window_size), (1, 1, *op.strides)
        return lax.reduce_window(
            (x, index), initial, largest, window, strides, padding, window_dilation=dilations
        )

    return of


def _max_grad(op: Any) -> Any:
    def of(x: Any, gradient: Any) -> Any:
        return jax.vjp(lambda x: _windows(op, x, -np.inf, lax.max), x)[1](gradient)[0]

    return of


def _unpooling(op: Any) -> Any:
    sizes = op.output_tensor.sizes

    def of(x: Any, indices: Any) -> Any:
        flat = jnp.zeros(math.prod(sizes), x.dtype)
        return flat.at[indices.ravel()].set(x.ravel(), mode="drop").reshape(sizes)

    return of


def _quantized(op: Any) -> Any:
    limits = jnp.iinfo(op.output_tensor.dtype)

    def of(*given: Any) -> Any:
        names = [n for _, n, _ in op.tensors(output=False)]
        arrays = dict(zip(names, given, strict=True))
        x = arrays["input_tensor"].astype("float32")

        def along(name: str) -> Any:
            values = arrays.get(f"{name}_tensor", jnp.zeros(1))
            return values.astype("float32").reshape(1, -1, *[1] * (x.ndim - 2))

        mean = _average(op)((x - along("input_zero_point")) * along("input_scale"))
        steps = jnp.round(mean / along("output_scale")) + along("output_zero_point")
        return jnp.clip(steps, int(limits.min), int(limits.max)).astype(limits.dtype)

    return of


def _unfolded(op: Any, x: Any) -> Any:
    padding = list(zip(op.start_padding, op.end_padding, strict=True))
    patches = lax.conv_general_dilated_patches(
        x,
        op.window_sizes,
        op.strides,
        padding,
        rhs_dilation=op.dilations,
        precision=lax.Precision.HIGHEST,
    )
    return patches.reshape(*patches.shape[:2], -1)


def _fold(op: Any) -> Any:
    whole = jax.ShapeDtypeStruct(op.output_tensor.sizes, op.output_tensor.dtype)

    def of(x: Any) -> Any:
        columns = x.reshape(x.shape[-3:])
        return jax.linear_transpose(lambda y: _unfolded(op, y), whole)(columns)[0]

    return of


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
    "QUANTIZED_LINEAR_AVERAGE_POOLING": _quantized,
    "UNFOLD": lambda op: lambda x: _unfolded(op, x).reshape(op.output_tensor.sizes),
    "FOLD": _fold,
}

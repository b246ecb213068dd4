"""Convolutions, pools and normalizations of types that DirectML's operators do not take."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.onnx.nodes import Node
from dml_jax.onnx.plain import plain
from dml_jax.onnx.translators.windows import Window, window_of

_LAYOUTS = {1: "NCX", 2: "NCXY", 3: "NCXYZ"}


def _layout(spatial: int) -> tuple[str, str, str]:
    own = _LAYOUTS[spatial]
    return own, own.replace("N", "O").replace("C", "I"), own


def _fitting(node: Node, sizes: Sequence[int], spatial: Sequence[int]) -> Window:
    """Return the window of a node. Raises `DmlError` where the padded input is smaller."""
    window = window_of(node, sizes, spatial)
    for d, size in enumerate(spatial):
        most = size + window.start[d] + window.end[d]
        extent = (window.sizes[d] - 1) * window.dilations[d] + 1
        if extent > most:
            rule = f"span at most {most} elements in spatial dimension {d} (the padded input)"
            raise node.refusal("the window", rule, extent)
    return window


@plain("Conv")
def _conv(node: Node, x: jax.Array, weights: jax.Array, bias: Any = None) -> jax.Array:
    window = _fitting(node, weights.shape[2:], x.shape[2:])
    made = lax.conv_general_dilated(
        x,
        weights,
        window.strides,
        list(zip(window.start, window.end, strict=True)),
        rhs_dilation=window.dilations,
        dimension_numbers=_layout(x.ndim - 2),
        feature_group_count=node.attribute("group"),
        precision=lax.Precision.HIGHEST,
    )
    return made if bias is None else made + _of_channels(bias, x.ndim)


def _of_channels(x: jax.Array, rank: int) -> jax.Array:
    """Return a parameter of the channels with the rank of the tensor."""
    return x.reshape([-1 if d == 1 else 1 for d in range(rank)])


def _pooled(x: jax.Array, window: Window, start: Any, function: Any, ends: Any) -> jax.Array:
    """Return what a function makes of the elements of each window."""
    ones = [1, 1]
    pads = [(0, 0), (0, 0), *zip(window.start, ends, strict=True)]
    sizes, strides = [*ones, *window.sizes], [*ones, *window.strides]
    dilations = [*ones, *window.dilations]
    return lax.reduce_window(x, start, function, sizes, strides, pads, window_dilation=dilations)


def _window(node: Node, x: jax.Array) -> Window:
    return _fitting(node, node.attribute("kernel_shape"), x.shape[2:])


@plain("MaxPool")
def _max_pool(node: Node, x: jax.Array) -> jax.Array:
    is_floating = jnp.issubdtype(x.dtype, jnp.floating)
    least = -np.inf if is_floating else np.iinfo(x.dtype).min
    window = _window(node, x)
    return _pooled(x, window, np.array(least, x.dtype), lax.max, window.end)


@plain("AveragePool")
def _average_pool(node: Node, x: jax.Array) -> jax.Array:
    window, zero = _window(node, x), np.array(0, x.dtype)
    total = _pooled(x, window, zero, lax.add, window.end)
    inside = jnp.ones((1, 1, *x.shape[2:]), x.dtype)
    if node.attribute("count_include_pad", 0):  # cells beyond the padding never count
        pads = [(0, 0), (0, 0), *zip(window.start, window.declared, strict=True)]
        inside = jnp.pad(inside, pads, constant_values=1)
        more = [max(0, a - b) for a, b in zip(window.end, window.declared, strict=True)]
        window.start = [0] * len(more)
        return total / _pooled(inside, window, zero, lax.add, more)
    return total / _pooled(inside, window, zero, lax.add, window.end)


@plain("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(node: Node, x: jax.Array) -> jax.Array:
    pool = jnp.mean if node.op_type == "GlobalAveragePool" else jnp.max
    return pool(x, axis=tuple(range(2, x.ndim)), keepdims=True)


@plain("BatchNormalization")
def _batch(
    node: Node, x: jax.Array, scale: jax.Array, bias: jax.Array, mean: jax.Array, square: jax.Array
) -> jax.Array:
    if node.attribute("training_mode", 0):
        raise node.refusal("training_mode", "be 0", 1)
    scale, bias, mean, square = (_of_channels(p, x.ndim) for p in (scale, bias, mean, square))
    made = (x - mean) / jnp.sqrt(square + node.attribute("epsilon"))
    return (made * scale + bias).astype(x.dtype)


@plain("InstanceNormalization")
def _instance(node: Node, x: jax.Array, scale: jax.Array, bias: jax.Array) -> jax.Array:
    axes = tuple(range(2, x.ndim))
    mean = jnp.mean(x, axis=axes, keepdims=True)
    square = jnp.mean((x - mean) ** 2, axis=axes, keepdims=True)
    made = (x - mean) / jnp.sqrt(square + node.attribute("epsilon"))
    return made * _of_channels(scale, x.ndim) + _of_channels(bias, x.ndim)

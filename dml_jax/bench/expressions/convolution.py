"""Convolutions as a user of JAX writes them."""

from typing import Any

import jax.numpy as jnp
from jax import lax

from dml_jax.bench.expressions.quantization import activate, along, given, quantize


def _window_products(op: Any, x: Any, w: Any, **types: Any) -> Any:
    padding = list(zip(op.start_padding, op.end_padding, strict=True))
    how = {"rhs_dilation": op.dilations, "feature_group_count": op.group_count}
    return lax.conv_general_dilated(x, w, op.strides, padding, **how, **types)


def _transpose(op: Any, x: Any, w: Any) -> Any:
    edges = []
    behind = [(0, 0), (0, 0), *((0, p) for p in op.output_padding)]
    sizes = [n - p for n, p in zip(op.output_tensor.sizes[2:], op.output_padding, strict=True)]
    lists = (x.shape[2:], sizes, w.shape[2:], op.strides, op.dilations)
    for n, size, k, s, d, a in zip(*lists, op.start_padding, strict=True):
        edges.append(((k - 1) * d - a, size - (n - 1) * s - 1 + a))
    groups = op.group_count
    w = w.reshape(groups, -1, *w.shape[1:]).swapaxes(1, 2)
    y = lax.conv_general_dilated(
        x,
        w.reshape(-1, *w.shape[2:]),
        [1] * len(edges),
        edges,
        lhs_dilation=op.strides,
        rhs_dilation=op.dilations,
        feature_group_count=groups,
        precision="highest",
    )
    return jnp.pad(y, behind)


def _convolution(op: Any, x: Any, w: Any, *bias: Any) -> Any:
    is_forward = op.direction.name == "FORWARD"
    w = jnp.flip(w, range(2, w.ndim)) if (op.mode.name == "CONVOLUTION") == is_forward else w
    y = _window_products(op, x, w, precision="highest") if is_forward else _transpose(op, x, w)
    return activate(op, y + bias[0] if bias else y)


def _at_center(x: Any, zero: Any, axis: int, dtype: str) -> Any:
    x = x.astype(dtype)
    return x if zero is None else x - along(zero.astype(dtype), axis, x.ndim)


def _integer(op: Any, *arrays: Any) -> Any:
    x, x_zero, w, w_zero = given(op, arrays)
    return _window_products(
        op, _at_center(x, x_zero, 1, "int32"), _at_center(w, w_zero, 0, "int32")
    )


def _quantize(op: Any, *arrays: Any) -> Any:
    x, x_scale, x_zero, w, w_scale, w_zero, bias, scale, zero = given(op, arrays)
    x = _at_center(x, x_zero, 1, "float32") * along(x_scale, 1, x.ndim)
    w = _at_center(w, w_zero, 0, "float32") * along(w_scale, 0, w.ndim)
    y = _window_products(op, x, w, precision="highest")
    if bias is not None:
        y = y + bias.astype("float32") * along(x_scale.ravel() * w_scale.ravel(), 1, y.ndim)
    first = zero if zero is None else zero.ravel()[0]
    return quantize(y / scale.ravel()[0], first, op.output_tensor.dtype)


EXPRESSIONS = {
    "CONVOLUTION": _convolution,
    "CONVOLUTION_INTEGER": _integer,
    "QUANTIZED_LINEAR_CONVOLUTION": _quantize,
}

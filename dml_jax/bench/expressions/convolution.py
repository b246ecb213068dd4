"""Convolutions as a user of JAX writes them."""

from typing import Any

import jax.numpy as jnp
from jax import lax

from dml_jax.bench.expressions.quantization import activated, along, given, quantized


def _convolved(op: Any, x: Any, w: Any, **types: Any) -> Any:
    padding = list(zip(op.start_padding, op.end_padding, strict=True))
    how = {"rhs_dilation": op.dilations, "feature_group_count": op.group_count}
    return lax.conv_general_dilated(x, w, op.strides, padding, **how, **types)


def _transposed(op: Any, x: Any, w: Any) -> Any:
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
    y = _convolved(op, x, w, precision="highest") if is_forward else _transposed(op, x, w)
    return activated(op, y + bias[0] if bias else y)


def _centred(x: Any, zero: Any, axis: int, dtype: str) -> Any:
    x = x.astype(dtype)
    return x if zero is None else x - along(zero.astype(dtype), axis, x.ndim)


def _integer(op: Any, *arrays: Any) -> Any:
    x, x_zero, w, w_zero = given(op, arrays)
    return _convolved(op, _centred(x, x_zero, 1, "int32"), _centred(w, w_zero, 0, "int32"))


def _quantized(op: Any, *arrays: Any) -> Any:
    x, x_scale, x_zero, w, w_scale, w_zero, bias, scale, zero = given(op, arrays)
    x = _centred(x, x_zero, 1, "float32") * along(x_scale, 1, x.ndim)
    w = _centred(w, w_zero, 0, "float32") * along(w_scale, 0, w.ndim)
    y = _convolved(op, x, w, precision="highest")
    if bias is not None:
        y = y + bias.astype("float32") * along(x_scale.ravel() * w_scale.ravel(), 1, y.ndim)
    first = zero if zero is None else zero.ravel()[0]
    return quantized(y / scale.ravel()[0], first, op.output_tensor.dtype)


EXPRESSIONS = {
    "CONVOLUTION": _convolution,
    "CONVOLUTION_INTEGER": _integer,
    "QUANTIZED_LINEAR_CONVOLUTION": _quantized,
}

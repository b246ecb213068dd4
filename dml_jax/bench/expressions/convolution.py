"""Convolutions as a user of JAX writes them."""

from typing import Any

import jax.numpy as jnp
from jax import lax


def _convolved(op: Any, x: Any, w: Any, **types: Any) -> Any:
    padding = list(zip(op.start_padding, op.end_padding, strict=True))
    return lax.conv_general_dilated(
        x,
        w,
        op.strides,
        padding,
        rhs_dilation=op.dilations,
        feature_group_count=op.group_count,
        **types,
    )


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


def _convolution(op: Any) -> Any:
    is_flipped = (op.mode.name == "CONVOLUTION") == (op.direction.name == "FORWARD")

    def of(x: Any, w: Any, *bias: Any) -> Any:
        w = jnp.flip(w, range(2, w.ndim)) if is_flipped else w
        is_forward = op.direction.name == "FORWARD"
        y = _convolved(op, x, w, precision="highest") if is_forward else _transposed(op, x, w)
        y = y + bias[0] if bias else y
        return y if op.fused_activation is None else op.fused_activation(y)

    return of


def _zeroed(op: Any, arrays: Any, name: str, axis: int) -> Any:
    x = next(arrays).astype("int32")
    if getattr(op, f"{name}_zero_point_tensor") is None:
        return x
    zero = next(arrays).astype("int32")
    return x - zero.reshape([-1 if d == axis else 1 for d in range(x.ndim)])


def _integer(op: Any) -> Any:
    def of(*given: Any) -> Any:
        arrays = iter(given)
        x = _zeroed(op, arrays, "input", 1)
        return _convolved(op, x, _zeroed(op, arrays, "filter", 0))

    return of


def _quantized(op: Any) -> Any:
    limits = jnp.iinfo(op.output_tensor.dtype)

    def of(*given: Any) -> Any:
        names = [n for _, n, _ in op.tensors(output=False)]
        arrays = dict(zip(names, given, strict=True))

        def real(name: str, axis: int) -> Any:
            x = arrays[f"{name}_tensor"].astype("float32")
            shape = [-1 if d == axis else 1 for d in range(x.ndim)]
            zero = arrays.get(f"{name}_zero_point_tensor", jnp.zeros(1))
            scale = arrays[f"{name}_scale_tensor"].reshape(shape)
            return (x - zero.astype("float32").reshape(shape)) * scale

        y = _convolved(op, real("input", 1), real("filter", 0), precision="highest")
        if "bias_tensor" in arrays:
            scales = arrays["input_scale_tensor"].ravel() * arrays["filter_scale_tensor"].ravel()
            shape = [1, -1, *[1] * (y.ndim - 2)]
            y = y + arrays["bias_tensor"].astype("float32") * scales.reshape(shape)
        zero = arrays.get("output_zero_point_tensor", jnp.zeros(1)).astype("float32").ravel()[0]
        steps = jnp.round(y / arrays["output_scale_tensor"].ravel()[0]) + zero
        return jnp.clip(steps, int(limits.min), int(limits.max)).astype(limits.dtype)

    return of


EXPRESSIONS = {
    "CONVOLUTION": _convolution,
    "CONVOLUTION_INTEGER": _integer,
    "QUANTIZED_LINEAR_CONVOLUTION": _quantized,
}

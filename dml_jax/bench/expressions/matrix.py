"""Products of matrices, convolutions, casts and quantization as a user of JAX writes them."""

from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp
from jax import lax


def activate(op: Any, y: Any) -> Any:
    """Return `y` behind the operator's activation, if it has one."""
    return y if op.fused_activation is None else op.fused_activation(y)


def given(op: Any, arrays: Iterable[Any]) -> list[Any]:
    """Return `arrays` by the operator's inputs in order, None for those that it has not."""
    left = iter(arrays)
    tensors = (getattr(op, f.name) for f in op.fields if f.tensor and not f.tensor.output)
    return [None if tensor is None else next(left) for tensor in tensors]


def along(values: Any, axis: int, rank: int) -> Any:
    """Return values along one axis of an array of this rank."""
    return values.reshape([-1 if d == axis else 1 for d in range(rank)])


def quantize(v: Any, zero: Any, dtype: Any) -> Any:
    """Return `v` rounded, `zero` added, within the numbers of an integer type."""
    limits = jnp.iinfo(dtype)
    steps = jnp.round(v) + (0 if zero is None else zero.astype(jnp.float32))
    return jnp.clip(steps, limits.min, limits.max).astype(dtype)


def _real(x: Any, scale: Any, zero: Any) -> Any:
    steps = x.astype(jnp.float32)
    return (steps if zero is None else steps - zero.astype(jnp.float32)) * scale


def _spread(t: Any, sizes: Any) -> Any:
    if t is not None:
        for d, n in enumerate(sizes):
            t = jnp.repeat(t, n // t.shape[d], d)
    return t


def _dynamic(op: Any, x: Any) -> Any:
    dtype = op.output_tensor.dtype
    limits = jnp.iinfo(dtype)
    low, high = jnp.minimum(x.min(), 0), jnp.maximum(x.max(), 0)
    scale = (high - low) / (limits.max - limits.min)
    zero = jnp.round(limits.min - low / scale).astype(dtype)
    ones = (1,) * x.ndim
    return quantize(x / scale, zero, dtype), scale.reshape(ones), zero.reshape(ones)


def _quantize(op: Any, x: Any, scale: Any, zero: Any = None) -> Any:
    steps = x / _spread(scale, x.shape)
    return quantize(steps, _spread(zero, x.shape), op.output_tensor.dtype)


def _dequantize(op: Any, x: Any, scale: Any, zero: Any = None) -> Any:
    real = _real(x, _spread(scale, x.shape), _spread(zero, x.shape))
    return real.astype(op.output_tensor.dtype)


def _add(op: Any, *arrays: Any) -> Any:
    a, sa, za, b, sb, zb, s, z = given(op, arrays)
    return quantize((_real(a, sa, za) + _real(b, sb, zb)) / s, z, op.output_tensor.dtype)


def _gemm(op: Any, a: Any, b: Any, c: Any = None) -> Any:
    a, b = (x.mT if t.value else x for x, t in ((a, op.trans_a), (b, op.trans_b)))
    y = op.alpha * jnp.matmul(a, b, precision="highest")
    return activate(op, y if c is None else y + op.beta * c)


def _integer_product(a: Any, a_zero: Any, b: Any, b_zero: Any) -> Any:
    a, b = a.astype("int32"), b.astype("int32")
    a = a if a_zero is None else a - a_zero.astype("int32").reshape(-1, 1)
    return a @ (b if b_zero is None else b - b_zero.astype("int32").reshape(1, -1))


def _real_product(a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any) -> Any:
    scale = a_scale.reshape(-1, 1) * b_scale.reshape(1, -1)
    return _integer_product(a, a_zero, b, b_zero).astype(scale.dtype) * scale


def _product_of_steps(op: Any, *arrays: Any) -> Any:
    *terms, scale, zero = given(op, arrays)
    zero = zero if zero is None else zero.reshape(-1, 1)
    return quantize(_real_product(*terms) / scale.reshape(-1, 1), zero, op.output_tensor.dtype)


def _to_float(op: Any, *arrays: Any) -> Any:
    *terms, bias = given(op, arrays)
    return _real_product(*terms) if bias is None else _real_product(*terms) + bias


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


def _integer_convolution(op: Any, *arrays: Any) -> Any:
    x, x_zero, w, w_zero = given(op, arrays)
    return _window_products(
        op, _at_center(x, x_zero, 1, "int32"), _at_center(w, w_zero, 0, "int32")
    )


def _convolution_of_steps(op: Any, *arrays: Any) -> Any:
    x, x_scale, x_zero, w, w_scale, w_zero, bias, scale, zero = given(op, arrays)
    x = _at_center(x, x_zero, 1, "float32") * along(x_scale, 1, x.ndim)
    w = _at_center(w, w_zero, 0, "float32") * along(w_scale, 0, w.ndim)
    y = _window_products(op, x, w, precision="highest")
    if bias is not None:
        y = y + bias.astype("float32") * along(x_scale.ravel() * w_scale.ravel(), 1, y.ndim)
    first = zero if zero is None else zero.ravel()[0]
    return quantize(y / scale.ravel()[0], first, op.output_tensor.dtype)


EXPRESSIONS = {
    "CAST": lambda op, x: x.astype(op.output_tensor.dtype),
    "ELEMENT_WISE_QUANTIZE_LINEAR": _quantize,
    "ELEMENT_WISE_DEQUANTIZE_LINEAR": _dequantize,
    "DYNAMIC_QUANTIZE_LINEAR": _dynamic,
    "QUANTIZE": _quantize,
    "DEQUANTIZE": _dequantize,
    "ELEMENT_WISE_QUANTIZED_LINEAR_ADD": _add,
    "GEMM": _gemm,
    "MATRIX_MULTIPLY_INTEGER": lambda op, *xs: _integer_product(*given(op, xs)),
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY": _product_of_steps,
    "MATRIX_MULTIPLY_INTEGER_TO_FLOAT": _to_float,
    "CONVOLUTION": _convolution,
    "CONVOLUTION_INTEGER": _integer_convolution,
    "QUANTIZED_LINEAR_CONVOLUTION": _convolution_of_steps,
}

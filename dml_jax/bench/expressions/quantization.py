"""Casts and quantization as a user of JAX writes them."""

from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp


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


EXPRESSIONS = {
    "CAST": lambda op, x: x.astype(op.output_tensor.dtype),
    "ELEMENT_WISE_QUANTIZE_LINEAR": lambda op, x, scale, zero=None: quantize(
        x / scale, zero, op.output_tensor.dtype
    ),
    "ELEMENT_WISE_DEQUANTIZE_LINEAR": lambda op, x, scale, zero=None: _real(x, scale, zero),
    "DYNAMIC_QUANTIZE_LINEAR": _dynamic,
    "QUANTIZE": _quantize,
    "DEQUANTIZE": _dequantize,
    "ELEMENT_WISE_QUANTIZED_LINEAR_ADD": _add,
}

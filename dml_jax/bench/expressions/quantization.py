"""Casts and quantization as a user of JAX writes them."""

from typing import Any

import jax.numpy as jnp


def _quantized(v: Any, zero: Any, dtype: Any) -> Any:
    limits = jnp.iinfo(dtype)
    steps = jnp.round(v) + (0 if zero is None else zero.astype(jnp.float32))
    return jnp.clip(steps, limits.min, limits.max).astype(dtype)


def _real(x: Any, scale: Any, zero: Any) -> Any:
    steps = x.astype(jnp.float32)
    return (steps if zero is None else steps - zero.astype(jnp.float32)) * scale


def _spread(t: Any, sizes: Any) -> Any:
    for d, n in enumerate(sizes):
        t = jnp.repeat(t, n // t.shape[d], d)
    return t


def _dynamic(op: Any) -> Any:
    dtype = op.output_tensor.dtype
    limits = jnp.iinfo(dtype)

    def quantize(x: Any) -> Any:
        low, high = jnp.minimum(x.min(), 0), jnp.maximum(x.max(), 0)
        scale = (high - low) / (limits.max - limits.min)
        zero = jnp.round(limits.min - low / scale).astype(dtype)
        ones = (1,) * x.ndim
        return _quantized(x / scale, zero, dtype), scale.reshape(ones), zero.reshape(ones)

    return quantize


def _blocks(zero: Any, sizes: Any) -> Any:
    return _spread(zero[0], sizes) if zero else None


def _add(op: Any) -> Any:
    tensors = [getattr(op, f.name) for f in op.fields if f.tensor and not f.tensor.output]

    def add(*arrays: Any) -> Any:
        given = iter(arrays)
        a, sa, za, b, sb, zb, s, z = (None if t is None else next(given) for t in tensors)
        total = _real(a, sa, za) + _real(b, sb, zb)
        return _quantized(total / s, z, op.output_tensor.dtype)

    return add


EXPRESSIONS = {
    "CAST": lambda op: lambda x: x.astype(op.output_tensor.dtype),
    "ELEMENT_WISE_QUANTIZE_LINEAR": lambda op: (
        lambda x, scale, zero=None: _quantized(x / scale, zero, op.output_tensor.dtype)
    ),
    "ELEMENT_WISE_DEQUANTIZE_LINEAR": lambda op: lambda x, scale, zero=None: _real(x, scale, zero),
    "DYNAMIC_QUANTIZE_LINEAR": _dynamic,
    "QUANTIZE": lambda op: (
        lambda x, scale, *zero: _quantized(
            x / _spread(scale, x.shape), _blocks(zero, x.shape), op.output_tensor.dtype
        )
    ),
    "DEQUANTIZE": lambda op: (
        lambda x, scale, *zero: _real(x, _spread(scale, x.shape), _blocks(zero, x.shape)).astype(
            op.output_tensor.dtype
        )
    ),
    "ELEMENT_WISE_QUANTIZED_LINEAR_ADD": _add,
}

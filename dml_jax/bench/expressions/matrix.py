"""What a user of jax.numpy would write for products of matrices."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp


def _gemm(op: Any) -> Callable[..., Any]:
    def call(a: Any, b: Any, c: Any = None) -> Any:
        a, b = (x.mT if t.value else x for x, t in ((a, op.trans_a), (b, op.trans_b)))
        y = op.alpha * jnp.matmul(a, b, precision="highest")
        y = y if c is None else y + op.beta * c
        return y if op.fused_activation is None else op.fused_activation(y)

    return call


def _placed(op: Any, arrays: Any) -> Any:
    given = iter(arrays)
    fields = [f.name for f in op.fields if f.tensor and not f.tensor.output]
    return [None if getattr(op, name) is None else next(given) for name in fields]


def _integers(a: Any, a_zero: Any, b: Any, b_zero: Any) -> Any:
    a, b = a.astype("int32"), b.astype("int32")
    a = a if a_zero is None else a - a_zero.astype("int32").reshape(-1, 1)
    return a @ (b if b_zero is None else b - b_zero.astype("int32").reshape(1, -1))


def _real(a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any) -> Any:
    scale = a_scale.reshape(-1, 1) * b_scale.reshape(1, -1)
    return _integers(a, a_zero, b, b_zero).astype(scale.dtype) * scale


def _quantized(op: Any) -> Callable[..., Any]:
    dtype = op.output_tensor.dtype
    limits = jnp.iinfo(dtype)

    def call(*arrays: Any) -> Any:
        *terms, scale, zero = _placed(op, arrays)
        steps = jnp.round(_real(*terms) / scale.reshape(-1, 1))
        steps = steps if zero is None else steps + zero.reshape(-1, 1)
        return jnp.clip(steps, limits.min, limits.max).astype(dtype)

    return call


def _to_float(op: Any) -> Callable[..., Any]:
    def call(*arrays: Any) -> Any:
        *terms, bias = _placed(op, arrays)
        return _real(*terms) if bias is None else _real(*terms) + bias

    return call


EXPRESSIONS: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "GEMM": _gemm,
    "MATRIX_MULTIPLY_INTEGER": lambda op: lambda *xs: _integers(*_placed(op, xs)),
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY": _quantized,
    "MATRIX_MULTIPLY_INTEGER_TO_FLOAT": _to_float,
}

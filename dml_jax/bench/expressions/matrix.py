"""What a user of jax.numpy would write for products of matrices."""

from typing import Any

import jax.numpy as jnp

from dml_jax.bench.expressions.quantization import activate, given, quantize


def _gemm(op: Any, a: Any, b: Any, c: Any = None) -> Any:
    a, b = (x.mT if t.value else x for x, t in ((a, op.trans_a), (b, op.trans_b)))
    y = op.alpha * jnp.matmul(a, b, precision="highest")
    return activate(op, y if c is None else y + op.beta * c)


def _integers(a: Any, a_zero: Any, b: Any, b_zero: Any) -> Any:
    a, b = a.astype("int32"), b.astype("int32")
    a = a if a_zero is None else a - a_zero.astype("int32").reshape(-1, 1)
    return a @ (b if b_zero is None else b - b_zero.astype("int32").reshape(1, -1))


def _real(a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any) -> Any:
    scale = a_scale.reshape(-1, 1) * b_scale.reshape(1, -1)
    return _integers(a, a_zero, b, b_zero).astype(scale.dtype) * scale


def _quantize(op: Any, *arrays: Any) -> Any:
    *terms, scale, zero = given(op, arrays)
    zero = zero if zero is None else zero.reshape(-1, 1)
    return quantize(_real(*terms) / scale.reshape(-1, 1), zero, op.output_tensor.dtype)


def _to_float(op: Any, *arrays: Any) -> Any:
    *terms, bias = given(op, arrays)
    return _real(*terms) if bias is None else _real(*terms) + bias


EXPRESSIONS = {
    "GEMM": _gemm,
    "MATRIX_MULTIPLY_INTEGER": lambda op, *xs: _integers(*given(op, xs)),
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY": _quantize,
    "MATRIX_MULTIPLY_INTEGER_TO_FLOAT": _to_float,
}

"""Exporters of quantized numbers, where a tensor has one scale and one zero point."""

from typing import Any

import numpy as np

from dml_jax.onnx.writing.operator_records import exports, only
from dml_jax.onnx.writing.primitives.products import attributes_of
from dml_jax.onnx.writing.writer import Value, Writer


def _numbers(w: Writer, *tensors: Value | None) -> list[Value | None]:
    """Return the only element of each tensor that is there."""
    only(all(x is None or x.shape == (1,) * x.rank for x in tensors))
    return [None if x is None else w.reshape(x, ()) for x in tensors]


@exports("DYNAMIC_QUANTIZE_LINEAR")
def dynamically_quantized(w: Writer, op: Any, x: Value) -> list[Value]:
    only(x.dtype == np.float32 and op.output_tensor.dtype == np.uint8)
    results = [(np.uint8, x.shape), (np.float32, ()), (np.uint8, ())]
    made = w.several("DynamicQuantizeLinear", x, results=results)
    tensors = (op.output_tensor, op.output_scale_tensor, op.output_zero_point_tensor)
    return [w.reshape(v, t.sizes) for v, t in zip(made, tensors, strict=True)]


@exports("MATRIX_MULTIPLY_INTEGER")
def product(w: Writer, op: Any, a: Value, zero_a: Any, b: Value, zero_b: Any) -> Value:
    only(a.dtype == np.uint8 and op.output_tensor.dtype == np.int32)
    inputs = a, b, *_numbers(w, zero_a, zero_b)
    return w("MatMulInteger", *inputs, dtype=np.int32, shape=op.output_tensor.sizes)


@exports("QUANTIZED_LINEAR_MATRIX_MULTIPLY")
def quantized_product(w: Writer, op: Any, *inputs: Any) -> Value:
    a, scale_a, zero_a, b, scale_b, zero_b, scale, zero = inputs
    dtype = op.output_tensor.dtype
    only(a.dtype == np.uint8 == dtype)
    zeros = zip((zero_a, zero_b, zero), (a.dtype, b.dtype, dtype), strict=True)
    zero_a, zero_b, zero = (w.constant(0, d) if z is None else z for z, d in zeros)
    given = a, *_numbers(w, scale_a, zero_a), b, *_numbers(w, scale_b, zero_b, scale, zero)
    return w("QLinearMatMul", *given, dtype=dtype, shape=op.output_tensor.sizes)


@exports("ELEMENT_WISE_DEQUANTIZE_LINEAR")
def dequantized(w: Writer, op: Any, x: Value, scale: Value, zero: Value | None) -> Value:
    only(x.dtype in (np.int8, np.uint8) and op.output_tensor.dtype == np.float32)
    return w("DequantizeLinear", x, *_numbers(w, scale, zero), dtype=np.float32, shape=x.shape)


@exports("CONVOLUTION_INTEGER")
def convolution(w: Writer, op: Any, x: Value, zero: Any, filters: Value, zeros: Any) -> Value:
    only(x.dtype == np.uint8 == filters.dtype)
    inputs, pads = (x, filters, *_numbers(w, zero, zeros)), [*op.start_padding, *op.end_padding]
    named = attributes_of(filters, op.strides, op.dilations, pads, op.group_count)
    return w("ConvInteger", *inputs, dtype=np.int32, shape=op.output_tensor.sizes, **named)

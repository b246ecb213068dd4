"""Exporters of quantized numbers, where a tensor has one scale and one zero point."""

from typing import Any

import numpy as np

from dml_jax.onnx.writing.exporters.products import attributes_of
from dml_jax.onnx.writing.operator_records import Use, exports
from dml_jax.onnx.writing.writer import Value

_BYTES = (np.dtype(np.int8), np.dtype(np.uint8))


def _number(use: Use, x: Value | None) -> Any:
    """Return the only element of a tensor; NotImplemented where it has several."""
    if x is None:
        return None
    return use.writer.reshape(x, ()) if x.shape == (1,) * x.rank else NotImplemented


@exports("DYNAMIC_QUANTIZE_LINEAR")
def dynamically_quantized(use: Use) -> Any:
    w, x, op = use.writer, use.input_tensor, use.operator
    if x.dtype != np.float32 or op.output_tensor.dtype != np.uint8:
        return NotImplemented
    results = [(np.uint8, x.shape), (np.float32, ()), (np.uint8, ())]
    made = w.several("DynamicQuantizeLinear", x, results=results)
    tensors = (op.output_tensor, op.output_scale_tensor, op.output_zero_point_tensor)
    return [w.reshape(v, t.sizes) for v, t in zip(made, tensors, strict=True)]


@exports("MATRIX_MULTIPLY_INTEGER")
def product(use: Use) -> Any:
    zeros = [_number(use, z) for z in (use.a_zero_point_tensor, use.b_zero_point_tensor)]
    is_simple = use.a_tensor.dtype == np.uint8 and not any(z is NotImplemented for z in zeros)
    if not is_simple or use.output_tensor.dtype != np.int32:
        return NotImplemented
    shape = use.output_tensor.sizes
    inputs = (use.a_tensor, use.b_tensor, *zeros)
    return use.writer("MatMulInteger", *inputs, dtype=np.int32, shape=shape)


@exports("QUANTIZED_LINEAR_MATRIX_MULTIPLY")
def quantized_product(use: Use) -> Any:
    def parameters(name: str) -> list[Any]:
        """Return the scale and the zero point of a tensor, 0 where it is left out."""
        parts = (f"{name}_{part}tensor" for part in ("", "scale_", "zero_point_"))
        x, scale, zero = (getattr(use, part) for part in parts)
        zero = use.writer.constant(0, x.dtype) if zero is None else zero
        return [_number(use, scale), _number(use, zero)]

    a, b, dtype = use.a_tensor, use.b_tensor, use.output_tensor.dtype
    inputs = [a, *parameters("a"), b, *parameters("b"), *parameters("output")]
    is_simple = use.a_tensor.dtype == np.uint8 == dtype
    if not is_simple or any(x is NotImplemented for x in inputs):
        return NotImplemented
    return use.writer("QLinearMatMul", *inputs, dtype=dtype, shape=use.output_tensor.sizes)


@exports("ELEMENT_WISE_DEQUANTIZE_LINEAR")
def dequantized(use: Use) -> Any:
    w, x = use.writer, use.input_tensor
    scale, zero = _number(use, use.scale_tensor), _number(use, use.zero_point_tensor)
    if scale is NotImplemented or zero is NotImplemented or x.dtype not in _BYTES:
        return NotImplemented
    if use.output_tensor.dtype != np.float32:
        return NotImplemented
    return w("DequantizeLinear", x, scale, zero, dtype=np.float32, shape=x.shape)


@exports("CONVOLUTION_INTEGER")
def convolution(use: Use) -> Any:
    x, filters = use.input_tensor, use.filter_tensor
    zeros = [_number(use, z) for z in (use.input_zero_point_tensor, use.filter_zero_point_tensor)]
    is_simple = x.dtype == np.uint8 == filters.dtype
    if not is_simple or any(z is NotImplemented for z in zeros):
        return NotImplemented
    shape, named = use.output_tensor.sizes, attributes_of(use, filters)
    return use.writer("ConvInteger", x, filters, *zeros, dtype=np.int32, shape=shape, **named)

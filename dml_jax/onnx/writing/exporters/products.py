"""Exporters of products of matrices, convolutions and pooling."""

from typing import Any

import numpy as np

from dml_jax.onnx.writing.operator_records import exports, only, op_type_of
from dml_jax.onnx.writing.primitives.products import attributes_of, correlate, counts_of_windows
from dml_jax.onnx.writing.primitives.shapes import reverse
from dml_jax.onnx.writing.writer import Value, Writer


@exports("GEMM")
def gemm(w: Writer, op: Any, a: Value, b: Value, c: Value | None) -> Value:
    is_a, is_b = (t.name == "TRANSPOSE" for t in (op.trans_a, op.trans_b))
    shape = op.output_tensor.sizes
    if all(n == 1 for n in a.shape[:-2]) and a.dtype == np.float32:
        flat = [None if x is None else w.reshape(x, x.shape[-2:]) for x in (a, b, c)]
        named = {"alpha": float(op.alpha), "beta": float(op.beta)}
        named |= {"transA": int(is_a), "transB": int(is_b)}
        return w.reshape(w("Gemm", *flat, shape=shape[-2:], **named), shape)
    last = [*range(a.rank - 2), a.rank - 1, a.rank - 2]
    a, b = w.transpose(a, last) if is_a else a, w.transpose(b, last) if is_b else b
    made = w("MatMul", a, b, shape=shape)
    made = w("Mul", made, w.like(op.alpha, made)) if op.alpha != 1 else made
    if c is None:
        return made
    c = w("Mul", c, w.like(op.beta, c)) if op.beta != 1 else c
    return w("Add", made, c)


@exports("CONVOLUTION")
def convolution(w: Writer, op: Any, x: Value, filters: Value, bias: Value | None) -> Value:
    only(not any(op.output_padding))
    bias = None if bias is None else w.reshape(bias, [bias.shape[1]])
    if op.mode.name == "CONVOLUTION":
        filters = reverse(w, filters, tuple(range(2, x.rank)))
    if op.direction.name == "FORWARD":
        padding = list(zip(op.start_padding, op.end_padding, strict=True))
        return correlate(w, x, filters, op.strides, padding, op.dilations, op.group_count, bias)
    shape, outside = op.output_tensor.sizes, []
    rows = zip(shape[2:], x.shape[2:], filters.shape[2:], strict=True)
    for k, (out, n, size) in enumerate(rows):
        whole = (n - 1) * op.strides[k] + (size - 1) * op.dilations[k] + 1
        outside.append(out - (whole - op.start_padding[k] - op.end_padding[k]))
    only(all(0 <= more < step for more, step in zip(outside, op.strides, strict=True)))
    only(3 <= x.rank <= 4)
    pads = [*op.start_padding, *op.end_padding]
    named = attributes_of(filters, op.strides, op.dilations, pads, op.group_count)
    return w("ConvTranspose", x, filters, bias, shape=shape, output_padding=outside, **named)


@exports("AVERAGE_POOLING", "AVERAGE_POOLING1", "LP_POOLING", "LP_POOLING1")
@exports("MAX_POOLING", "MAX_POOLING1", "MAX_POOLING2")
def pooling(w: Writer, op: Any, x: Value) -> Value:
    window, shape, op_type = [*op.window_size], op.output_tensor.sizes, op_type_of(op)
    dilations = [*(getattr(op, "dilations", None) or [1] * len(window))]
    low, high = [*op.start_padding], [*op.end_padding]
    sizes = counts_of_windows(x.shape[2:], low, high, window, dilations, op.strides)
    only(sizes == list(shape[2:]) and x.dtype == np.float32)
    only(all(p < k for p, k in zip(low + high, window * 2, strict=True)))
    only(getattr(op, "output_indices_tensor", None) is None)
    named: dict[str, Any] = {"kernel_shape": window, "strides": [*op.strides], "pads": low + high}
    if op_type == "LpPool":
        only(all(d == 1 for d in dilations))
        return w(op_type, x, shape=shape, p=int(op.p), **named)
    if op_type == "AveragePool":
        named["count_include_pad"] = int(op.include_padding)
    return w(op_type, x, shape=shape, dilations=dilations, **named)

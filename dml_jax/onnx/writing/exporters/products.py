"""Exporters of products of matrices, convolutions and pooling."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dml_jax.onnx.writing.operator_records import Use, exports
from dml_jax.onnx.writing.primitives.products import correlate
from dml_jax.onnx.writing.primitives.shapes import reverse
from dml_jax.onnx.writing.writer import Value


@exports("GEMM")
def gemm(use: Use) -> Any:
    w, a, b = use.writer, use.a_tensor, use.b_tensor
    c: Value | None = use.c_tensor
    last = [*range(a.rank - 2), a.rank - 1, a.rank - 2]
    is_a, is_b = (t.name == "TRANSPOSE" for t in (use.trans_a, use.trans_b))
    shape = use.output_tensor.sizes
    if all(n == 1 for n in a.shape[:-2]) and a.dtype == np.float32:
        flat = [w.reshape(x, x.shape[-2:]) for x in (a, b)]
        bias = [] if c is None else [w.reshape(c, c.shape[-2:])]
        named = {"alpha": float(use.alpha), "beta": float(use.beta)}
        named |= {"transA": int(is_a), "transB": int(is_b)}
        return w.reshape(w("Gemm", *flat, *bias, shape=shape[-2:], **named), shape)
    a, b = w.transpose(a, last) if is_a else a, w.transpose(b, last) if is_b else b
    made = w("MatMul", a, b, shape=shape)
    made = w("Mul", made, w.like(use.alpha, made)) if use.alpha != 1 else made
    if c is None:
        return made
    c = w("Mul", c, w.like(use.beta, c)) if use.beta != 1 else c
    return w("Add", made, c)


def attributes_of(use: Use, filters: Value) -> dict[str, Any]:
    """Return the attributes of a convolution, but for the sizes of its output."""
    return {
        "kernel_shape": [*filters.shape[2:]],
        "strides": [*use.strides],
        "dilations": [*use.dilations],
        "pads": [*use.start_padding, *use.end_padding],
        "group": int(use.group_count),
    }


@exports("CONVOLUTION")
def convolution(use: Use) -> Any:
    w, x, filters = use.writer, use.input_tensor, use.filter_tensor
    spatial = x.rank - 2
    bias: Value | None = use.bias_tensor
    if bias is not None:
        bias = w.reshape(bias, [bias.shape[1]])
    padding = list(zip(use.start_padding, use.end_padding, strict=True))
    if use.mode.name == "CONVOLUTION":
        filters = reverse(w, filters, tuple(range(2, x.rank)))
    if use.direction.name == "FORWARD":
        if any(use.output_padding):
            return NotImplemented
        return correlate(w, x, filters, use.strides, padding, use.dilations, use.group_count, bias)
    shape, outside = use.output_tensor.sizes, []
    rows = zip(shape[2:], x.shape[2:], filters.shape[2:], strict=True)
    for k, (out, n, size) in enumerate(rows):
        whole = (n - 1) * use.strides[k] + (size - 1) * use.dilations[k] + 1
        outside.append(out - (whole - use.start_padding[k] - use.end_padding[k]))
    if any(not 0 <= more < step for more, step in zip(outside, use.strides, strict=True)):
        return NotImplemented
    if any(use.output_padding) or spatial < 1 or spatial > 2:
        return NotImplemented
    named = attributes_of(use, filters)
    return w("ConvTranspose", x, filters, bias, shape=shape, output_padding=outside, **named)


@exports("AVERAGE_POOLING", "AVERAGE_POOLING1", "LP_POOLING", "LP_POOLING1")
@exports("MAX_POOLING", "MAX_POOLING1", "MAX_POOLING2")
def pooling(use: Use) -> Any:
    w, x, op = use.writer, use.input_tensor, use.operator
    dilations: Sequence[int] = getattr(op, "dilations", None) or [1] * len(use.window_size)
    shape = use.output_tensor.sizes
    rows = zip(
        x.shape[2:],
        use.start_padding,
        use.end_padding,
        use.window_size,
        dilations,
        use.strides,
        strict=True,
    )
    sizes = [(n + a + b - (k - 1) * d - 1) // s + 1 for n, a, b, k, d, s in rows]
    pads = [*use.start_padding, *use.end_padding]
    is_wide = any(p >= k for p, k in zip(pads, [*use.window_size] * 2, strict=True))
    if sizes != list(shape[2:]) or x.dtype != np.float32 or is_wide:
        return NotImplemented
    is_norm = use.op_type == "LpPool"
    if is_norm and any(d != 1 for d in dilations):
        return NotImplemented
    named: dict[str, Any] = {
        "kernel_shape": list(use.window_size),
        "strides": list(use.strides),
        "pads": pads,
        "dilations": None if is_norm else list(dilations),
    }
    if use.op_type == "AveragePool":
        named["count_include_pad"] = int(use.include_padding)
    if is_norm:
        named["p"] = int(use.p)
    if getattr(op, "output_indices_tensor", None) is not None:
        return NotImplemented
    return w(use.op_type, x, shape=shape, **named)

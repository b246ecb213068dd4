"""DirectML operators as ONNX nodes, by family, for `dml_jax.onnx.writing.export_model`."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dml_jax import facts
from dml_jax.onnx.translators.activation import ACTIVATIONS
from dml_jax.onnx.translators.reduction import REDUCTIONS
from dml_jax.onnx.writing.primitives.arrangement import BEFORE_FIRST, reverse
from dml_jax.onnx.writing.primitives.matrix import attributes_of, correlate, counts_of_windows
from dml_jax.onnx.writing.writer import Value, Writer

Exporter = Callable[..., Any]

EXPORTERS: dict[str, Exporter] = {}
"""What writes an operator, by its name without DML_OPERATOR_."""

_ALIKE = {"ELEMENT_WISE_TANH": "Tanh", "ACTIVATION_IDENTITY": "Identity"}
"""Op types of operators that have another one's beside them, which the facts of names have."""


class Unfit(Exception):  # noqa: N818
    """Says that nodes do not compute what a use of an operator does: its program is written."""


def exports(*operators: str, prefix: str = "") -> Callable[[Exporter], Exporter]:
    """Register what writes some operators, whose names begin with `prefix`.

    It takes a writer, the operator (of a fused activation its attributes), and the value of each
    input tensor that the operator may have, the first after its scale and bias. It returns the
    value or values of the outputs that are described, before a fused activation.
    """

    def register(exporter: Exporter) -> Exporter:
        EXPORTERS.update({prefix + name: exporter for name in operators})
        return exporter

    return register


def only(fits: bool) -> None:
    """Raise `Unfit` where a use of an operator does not fit its nodes."""
    if not fits:
        raise Unfit


def op_type_of(operator: Any) -> str:
    """Return the op type that ONNX has for an operator, in all versions of it."""
    name = operator.short_name.rstrip("12")
    return _ALIKE.get(name) or facts.names()[name]["onnx"][0]


_RECURRENT_ACTIVATIONS = {"RELU": "Relu", "TANH": "Tanh", "SIGMOID": "Sigmoid"}
_DIRECTIONS = {"FORWARD": "forward", "BACKWARD": "reverse", "BIDIRECTIONAL": "bidirectional"}
_OP_TYPES = {function: op_type for op_type, (function, _, _) in REDUCTIONS.items()}


@exports(
    *("CELU", "ELU", "GELU", "HARD_SIGMOID", "LEAKY_RELU", "PARAMETERIZED_RELU", "RELU"),
    *("SCALED_ELU", "SIGMOID", "SOFTSIGN", "TANH", "THRESHOLDED_RELU"),
    prefix="ACTIVATION_",
)
def activation(w: Writer, op: Any, *inputs: Value) -> Value:
    """Write an op type with the operator's attributes."""
    op_type = op_type_of(op)
    only(inputs[0].dtype.kind == "f" and (op_type != "Celu" or op.alpha > 0))
    values: dict[str, Any] = {n: float(getattr(op, n)) for n in ACTIVATIONS.get(op_type, ())}
    return w(op_type, *inputs, **values)


@exports("ACTIVATION_SHRINK")
def shrink(w: Writer, op: Any, x: Value) -> Value:
    only(x.dtype.kind == "f" and op.threshold >= 0)
    return w("Shrink", x, bias=float(op.bias), lambd=float(op.threshold))


@exports("ACTIVATION_PARAMETRIC_SOFTPLUS")
def parametric_softplus(w: Writer, op: Any, x: Value) -> Value:
    return w("Mul", w("Softplus", w("Mul", x, w.like(op.beta, x))), w.like(op.alpha, x))


@exports("ACTIVATION_SOFTPLUS")
def softplus(w: Writer, op: Any, x: Value) -> Value:
    if op.steepness == 1:
        return w("Softplus", x)
    steepness = w.like(op.steepness, x)
    return w("Div", w("Softplus", w("Mul", x, steepness)), steepness)


@exports("ACTIVATION_SWISH")
def swish(w: Writer, op: Any, x: Value) -> Value:
    return w("Mul", x, w("Sigmoid", w("Mul", x, w.like(op.sigmoid_input_scale, x))))


@exports("ACTIVATION_HARD_SWISH")
def hard_swish(w: Writer, op: Any, x: Value) -> Value:
    return w("Mul", x, w("HardSigmoid", x, alpha=float(op.alpha), beta=float(op.beta)))


@exports("HARDMAX", "LOG_SOFTMAX", "SOFTMAX", prefix="ACTIVATION_")
@exports("HARDMAX1", "LOG_SOFTMAX1", "SOFTMAX1", prefix="ACTIVATION_")
def along_axes(w: Writer, op: Any, x: Value) -> Value:
    """Write rows of several dimensions as one dimension, at the end."""
    op_type, axes = op_type_of(op), sorted(getattr(op, "axes", [-1]))
    if len(axes) == 1:
        return w(op_type, x, axis=axes[0])
    others = [a for a in range(x.rank) if a not in axes]
    order = [*others, *axes]
    moved = w.transpose(x, order)
    flat = w.reshape(moved, [*(x.shape[a] for a in others), math.prod(x.shape[a] for a in axes)])
    made = w.reshape(w(op_type, flat, axis=-1), moved.shape)
    return w.transpose(made, sorted(range(x.rank), key=order.__getitem__))


@exports(
    *("ABS", "ACOS", "ACOSH", "ADD", "ADD1", "ASIN", "ASINH", "ATAN", "ATANH", "BIT_AND"),
    *("BIT_NOT", "BIT_OR", "BIT_XOR", "CEIL", "COS", "COSH", "DIVIDE", "ERF", "EXP", "FLOOR"),
    *("IDENTITY", "LOG", "MAX", "MIN", "MULTIPLY", "NEGATE", "POW", "RECIP", "SIGN", "SIN"),
    *("SINH", "SQRT", "SUBTRACT", "TAN", "TANH"),
    prefix="ELEMENT_WISE_",
)
@exports("ACTIVATION_IDENTITY")
def element_wise(w: Writer, op: Any, *inputs: Value) -> Value:
    op_type, is_integer = op_type_of(op), any(x.dtype.kind in "iu" for x in inputs)
    only(is_integer or not op_type.startswith("Bitwise"))
    # integers by 0, and powers beyond the ends of their type, are what the program says
    only(op_type not in ("Div", "Pow") or not is_integer)
    return w(op_type, *inputs)


@exports(
    *("EQUALS", "GREATER_THAN", "GREATER_THAN_OR_EQUAL", "LESS_THAN", "LESS_THAN_OR_EQUAL"),
    prefix="ELEMENT_WISE_LOGICAL_",
)
def compare(w: Writer, op: Any, a: Value, b: Value) -> Value:
    return w.cast(w(op_type_of(op), a, b, dtype=bool), op.output_tensor.dtype)


@exports("ELEMENT_WISE_IS_INFINITY")
def is_infinity(w: Writer, op: Any, x: Value) -> Value:
    mode, named = op.infinity_mode.name, dict[str, Any]()
    named["detect_negative"], named["detect_positive"] = mode != "POSITIVE", mode != "NEGATIVE"
    return w.cast(w("IsInf", x, dtype=bool, **named), op.output_tensor.dtype)


@exports("ELEMENT_WISE_CLIP")
def clip(w: Writer, op: Any, x: Value) -> Value:
    only(op.min <= op.max and x.dtype.kind == "f")  # else the lower one, unlike ONNX's Clip
    return w("Clip", x, w.like(op.min, x), w.like(op.max, x), shape=x.shape)


@exports("CAST")
def cast(w: Writer, op: Any, x: Value) -> Value:
    dtype = op.output_tensor.dtype
    only(not (x.dtype.kind == "f" and dtype.kind in "iu"))  # beyond its ends as the program says
    only("V" not in (x.dtype.kind, dtype.kind))
    return w.cast(x, dtype)


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


def _numbers(w: Writer, *tensors: Value | None) -> list[Value | None]:
    """Return the only element of each tensor that is there."""
    only(all(x is None or x.shape == (1,) * x.rank for x in tensors))
    return [None if x is None else w.reshape(x, ()) for x in tensors]


@exports("DYNAMIC_QUANTIZE_LINEAR")
def dynamic_quantize_linear(w: Writer, op: Any, x: Value) -> list[Value]:
    only(x.dtype == np.float32 and op.output_tensor.dtype == np.uint8)
    results = [(np.uint8, x.shape), (np.float32, ()), (np.uint8, ())]
    made = w.several("DynamicQuantizeLinear", x, results=results)
    tensors = (op.output_tensor, op.output_scale_tensor, op.output_zero_point_tensor)
    return [w.reshape(v, t.sizes) for v, t in zip(made, tensors, strict=True)]


@exports("MATRIX_MULTIPLY_INTEGER")
def product_of_integers(w: Writer, op: Any, a: Value, zero_a: Any, b: Value, zero_b: Any) -> Value:
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
def dequantize(w: Writer, op: Any, x: Value, scale: Value, zero: Value | None) -> Value:
    only(x.dtype in (np.int8, np.uint8) and op.output_tensor.dtype == np.float32)
    return w("DequantizeLinear", x, *_numbers(w, scale, zero), dtype=np.float32, shape=x.shape)


@exports("CONVOLUTION_INTEGER")
def convolution_of_integers(
    w: Writer, op: Any, x: Value, zero: Any, filters: Value, zeros: Any
) -> Value:
    only(x.dtype == np.uint8 == filters.dtype)
    inputs, pads = (x, filters, *_numbers(w, zero, zeros)), [*op.start_padding, *op.end_padding]
    named = attributes_of(filters, op.strides, op.dilations, pads, op.group_count)
    return w("ConvInteger", *inputs, dtype=np.int32, shape=op.output_tensor.sizes, **named)


@exports("RNN", "LSTM", "GRU")
def recurrent(w: Writer, op: Any, x: Value, weight: Value, matrix: Value, *rest: Any) -> Any:
    names = [f.operator.short_name.removeprefix("ACTIVATION_") for f in op.activation_descs]
    only(x.dtype == np.float32 and set(names) <= _RECURRENT_ACTIVATIONS.keys())
    bias, state, *cell, lengths = rest[:5] if op.short_name == "LSTM" else rest
    _, steps, batch, _ = x.shape
    _, directions, _, hidden = matrix.shape

    def less(x: Value | None, count: int) -> Value | None:
        """Return a tensor without its first dimensions, of size 1."""
        return None if x is None else w.reshape(x, x.shape[count:])

    lengths = less(lengths, 3)
    # DirectML takes a length beyond the sequence for the whole one, which ONNX does not promise.
    if lengths is not None:
        lengths = w("Min", w.cast(lengths, np.int32), w.constant(np.int32(steps)))
    inputs = [less(x, 1), less(weight, 1), less(matrix, 1), less(bias, 2), lengths, less(state, 1)]
    named: dict[str, Any] = {
        "activations": [_RECURRENT_ACTIVATIONS[name] for name in names],
        "direction": _DIRECTIONS[op.direction.name],
        "hidden_size": int(hidden),
    }
    single = (None, (directions, batch, hidden))
    results = [(None, (steps, directions, batch, hidden)), single]
    if op.short_name == "GRU":
        named["linear_before_reset"] = int(op.linear_before_reset)
    if op.short_name == "LSTM":
        inputs += [less(cell[0], 1), less(rest[5], 2)]
        named["input_forget"] = int(op.couple_input_forget)
        named["clip"] = float(op.clip_threshold) if op.use_clip_threshold else None
        results.append(single)
    made = w.several(op.short_name, *inputs, results=results, **named)
    return [
        w.reshape(x, getattr(op, f.name).sizes)
        for f, x in zip(op.outputs_of(), made, strict=True)
        if getattr(op, f.name) is not None
    ]


@exports("REDUCE")
def reduction(w: Writer, op: Any, x: Value) -> Value:
    name = op.function.name
    if name in ("ARGMAX", "ARGMIN"):
        return place_of_extreme(w, op, x)
    only(x.dtype in (np.float32, np.int32, np.int64) and op.output_tensor.dtype == x.dtype)
    only(bool(op.axes))
    return w.reduce(_OP_TYPES[name], x, op.axes, keep=True)


@exports("ARGMAX", "ARGMIN")
def place_of_extreme(w: Writer, op: Any, x: Value) -> Value:
    is_reduction, axes = op.short_name == "REDUCE", list(op.axes)
    name = op.function.name if is_reduction else op.short_name
    is_last = not is_reduction and op.axis_direction.name == "DECREASING"
    only(len(axes) == 1 and x.dtype in (np.int8, np.int32, np.uint8, np.float32))
    named: dict[str, Any] = {"shape": [1 if k in axes else n for k, n in enumerate(x.shape)]}
    named |= {"axis": axes[0], "keepdims": 1, "select_last_index": int(is_last), "dtype": np.int64}
    place = w("ArgMax" if name == "ARGMAX" else "ArgMin", x, **named)
    if x.dtype == np.float32:  # NaN comes before all numbers, which ONNX does not promise
        no_numbers = w.cast(w("IsNaN", x, dtype=bool), np.int32)
        has_one = w.cast(w.reduce("ReduceMax", no_numbers, axes, keep=True), bool)
        place = w("Where", has_one, w("ArgMax", no_numbers, **named), place)
    return w.cast(place, op.output_tensor.dtype)


@exports("CUMULATIVE_SUMMATION")
def running_sum(w: Writer, op: Any, x: Value) -> Value:
    only(x.dtype in (np.float32, np.int32, np.int64))
    is_backward = op.axis_direction.name == "DECREASING"
    named = {"exclusive": int(op.has_exclusive_sum), "reverse": int(is_backward)}
    return w("CumSum", x, w.indices(op.axis), shape=x.shape, **named)


@exports("TOP_K", "TOP_K1")
def largest(w: Writer, op: Any, x: Value) -> list[Value]:
    # NaN counts as the largest element, which ONNX does not promise: no floats here.
    only(x.dtype in (np.int8, np.int16, np.int32, np.int64, np.uint8))
    direction = getattr(op, "axis_direction", None)
    is_least = direction is not None and direction.name == "INCREASING"
    values, places = w.top_k(x, op.k, op.axis, not is_least)
    return [values, w.cast(places, op.output_index_tensor.dtype)]


@exports("BATCH_NORMALIZATION")
def batch_normalization(w: Writer, op: Any, x: Value, *rows: Value) -> Value:
    wanted = (1, *x.shape[1:2], *[1] * (x.rank - 2))
    only(x.rank > 1 and x.dtype == np.float32 and all(v.shape == wanted for v in rows))
    mean, variance, scale, bias = (w.reshape(v, [x.shape[1]]) for v in rows)
    inputs = x, scale, bias, mean, variance
    return w("BatchNormalization", *inputs, shape=x.shape, epsilon=float(op.epsilon))


@exports("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(w: Writer, op: Any, x: Value) -> Value:
    only(op.cross_channel and op.local_size % 2 == 1 and x.dtype == np.float32)
    named: dict[str, Any] = {name: float(getattr(op, name)) for name in ("alpha", "beta", "bias")}
    return w("LRN", x, size=int(op.local_size), **named)


@exports("SPLIT")
def split(w: Writer, op: Any, x: Value) -> list[Value]:
    only(len(op.output_tensors) > 1)
    results = [(None, tensor.sizes) for tensor in op.output_tensors]
    sizes = w.indices([shape[op.axis] for _, shape in results])
    return w.several("Split", x, sizes, results=results, axis=int(op.axis))


@exports("SLICE1")
def slice_backwards(w: Writer, op: Any, x: Value) -> Value:
    """Write a slice that goes from its last element along some dimensions."""
    steps, shape = op.input_window_strides, op.output_tensor.sizes
    only(any(step < 0 for step in steps))
    rows = zip(op.input_window_offsets, op.input_window_sizes, steps, strict=True)
    starts = [first if step > 0 else first + size - 1 for first, size, step in rows]
    stops = [k + n * step for k, n, step in zip(starts, shape, steps, strict=True)]
    stops = [BEFORE_FIRST if stop < 0 else stop for stop in stops]
    return w("Slice", x, *map(w.indices, (starts, stops, range(x.rank), steps)), shape=shape)


@exports("TILE")
def tile(w: Writer, op: Any, x: Value) -> Value:
    return w("Tile", x, w.indices(op.repeats), shape=op.output_tensor.sizes)


@exports("DEPTH_TO_SPACE", "DEPTH_TO_SPACE1", "SPACE_TO_DEPTH", "SPACE_TO_DEPTH1")
def blocks(w: Writer, op: Any, x: Value) -> Value:
    op_type = op_type_of(op)
    mode = "CRD" if op.order.name == "COLUMN_ROW_DEPTH" else "DCR"
    only(x.rank == 4 and x.dtype == np.float32)
    if op_type == "SpaceToDepth":  # which has this order alone
        only(mode == "DCR")
        mode = None
    shape, size = op.output_tensor.sizes, int(op.block_size)
    return w(op_type, x, shape=shape, blocksize=size, mode=mode)


@exports("PADDING", "PADDING1")
def padding(w: Writer, op: Any, x: Value) -> Value:
    """Write a padding with elements of the tensor; one with a value is a Pad as a program too."""
    counts = [*op.start_padding, *op.end_padding]
    mode = {"EDGE": "edge", "REFLECTION": "reflect"}.get(op.padding_mode.name)
    only(x.dtype == np.float32 and mode is not None)
    only(mode == "edge" or max(*counts, 0) < min(x.shape))
    return w("Pad", x, w.indices(counts), shape=op.output_tensor.sizes, mode=mode)


@exports("GATHER_ELEMENTS")
def gather_elements(w: Writer, op: Any, x: Value, indices: Value) -> Value:
    n, places = x.shape[op.axis], w.cast(indices, np.int64)
    if indices.dtype.kind == "i":
        is_from_end = w.compare("Less", places, w.indices(0))
        places = w.where(is_from_end, w("Add", places, w.indices(n)), places)
    places = w("Min", w("Max", places, w.indices(0)), w.indices(n - 1))
    return w("GatherElements", x, places, shape=places.shape, axis=int(op.axis))

"""Exporters of reductions, of running sums, of places of extremes, and of normalizations."""

from typing import Any

import numpy as np

from dml_jax.onnx.translators.reductions import REDUCTIONS
from dml_jax.onnx.writing.operator_records import exports, only
from dml_jax.onnx.writing.writer import Value, Writer

_OP_TYPES = {function: op_type for op_type, (function, _, _) in REDUCTIONS.items()}


@exports("REDUCE")
def reduction(w: Writer, op: Any, x: Value) -> Value:
    name = op.function.name
    if name in ("ARGMAX", "ARGMIN"):
        return _place(w, op, x, name == "ARGMAX", False)
    only(x.dtype in (np.float32, np.int32, np.int64) and op.output_tensor.dtype == x.dtype)
    only(bool(op.axes))
    return w.reduce(_OP_TYPES[name], x, op.axes, keep=True)


@exports("ARGMAX", "ARGMIN")
def place_of_extreme(w: Writer, op: Any, x: Value) -> Value:
    is_last = op.axis_direction.name == "DECREASING"
    return _place(w, op, x, op.short_name == "ARGMAX", is_last)


def _place(w: Writer, op: Any, x: Value, is_most: bool, is_last: bool) -> Value:
    axes = list(op.axes)  # floats may be NaN
    only(len(axes) == 1 and x.dtype in (np.int8, np.int32, np.uint8))
    shape = [1 if k in axes else n for k, n in enumerate(x.shape)]
    op_type = "ArgMax" if is_most else "ArgMin"
    named = {"axis": axes[0], "keepdims": 1, "select_last_index": int(is_last)}
    return w.cast(w(op_type, x, dtype=np.int64, shape=shape, **named), op.output_tensor.dtype)


@exports("CUMULATIVE_SUMMATION")
def running_sum(w: Writer, op: Any, x: Value) -> Value:
    only(x.dtype in (np.float32, np.int32, np.int64))
    is_backward = op.axis_direction.name == "DECREASING"
    named = {"exclusive": int(op.has_exclusive_sum), "reverse": int(is_backward)}
    return w("CumSum", x, w.indices(op.axis), shape=x.shape, **named)


@exports("TOP_K", "TOP_K1")
def largest(w: Writer, op: Any, x: Value) -> list[Value]:
    only(x.dtype in (np.int8, np.int16, np.int32, np.int64, np.uint8))  # NaN counts as the largest
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

"""Exporters of reductions, and of scans along a dimension."""

from typing import Any

import numpy as np

from dml_jax.onnx.translators.reductions import REDUCTIONS
from dml_jax.onnx.writing.operator_records import Use, exports
from dml_jax.onnx.writing.writer import Value

_OP_TYPES = {function: op_type for op_type, (function, _, _) in REDUCTIONS.items()}


@exports("REDUCE")
def reduction(use: Use) -> Any:
    w, x, name = use.writer, use.input_tensor, use.function.name
    if name in ("ARGMAX", "ARGMIN"):
        return _place(use, name == "ARGMAX", False)
    is_plain = x.dtype in (np.float32, np.int32, np.int64)
    if not is_plain or not use.axes or use.output_tensor.dtype != x.dtype:
        return NotImplemented
    return w.reduce(_OP_TYPES[name], x, use.axes, keep=True)


@exports("ARGMAX", "ARGMIN")
def place_of_extreme(use: Use) -> Any:
    is_last = use.axis_direction.name == "DECREASING"
    return _place(use, use.operator.short_name == "ARGMAX", is_last)


def _place(use: Use, is_most: bool, is_last: bool) -> Any:
    w, x, axes = use.writer, use.input_tensor, list(use.axes)
    if len(axes) != 1 or x.dtype.kind == "f" or x.dtype not in (np.int8, np.int32, np.uint8):
        return NotImplemented  # of NaN, and of several dimensions
    shape = [1 if k in axes else n for k, n in enumerate(x.shape)]
    op_type = "ArgMax" if is_most else "ArgMin"
    named = {"axis": axes[0], "keepdims": 1, "select_last_index": int(is_last)}
    made = w(op_type, x, dtype=np.int64, shape=shape, **named)
    return w.cast(made, use.output_tensor.dtype)


@exports("CUMULATIVE_SUMMATION")
def running_sum(use: Use) -> Any:
    w, x = use.writer, use.input_tensor
    if x.dtype not in (np.float32, np.int32, np.int64):
        return NotImplemented
    named = {
        "exclusive": int(use.has_exclusive_sum),
        "reverse": int(use.axis_direction.name == "DECREASING"),
    }
    return w("CumSum", x, w.indices(use.axis), shape=x.shape, **named)


@exports("TOP_K", "TOP_K1")
def largest(use: Use) -> Any:
    w, x, outputs = use.writer, use.input_tensor, use.operator
    if x.dtype not in (np.int8, np.int16, np.int32, np.int64, np.uint8):
        return NotImplemented  # NaN counts as the largest
    direction = getattr(outputs, "axis_direction", None)
    is_least = direction is not None and direction.name == "INCREASING"
    values, places = w.top_k(x, use.k, use.axis, not is_least)
    return [values, w.cast(places, outputs.output_index_tensor.dtype)]


@exports("BATCH_NORMALIZATION")
def batch_normalization(use: Use) -> Any:
    w, x = use.writer, use.input_tensor
    inputs = [use.scale_tensor, use.bias_tensor, use.mean_tensor, use.variance_tensor]
    wanted = (1, x.shape[1] if x.rank > 1 else 0, *[1] * (x.rank - 2))
    if x.rank < 2 or x.dtype != np.float32 or any(v.shape != wanted for v in inputs):
        return NotImplemented
    rows = [w.reshape(v, [x.shape[1]]) for v in inputs]
    return w("BatchNormalization", x, *rows, shape=x.shape, epsilon=float(use.epsilon))


@exports("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(use: Use) -> Any:
    x: Value = use.input_tensor
    if not use.cross_channel or use.local_size % 2 == 0 or x.dtype != np.float32:
        return NotImplemented
    named: dict[str, Any] = {name: float(getattr(use, name)) for name in ("alpha", "beta", "bias")}
    return use.writer("LRN", x, size=int(use.local_size), **named)

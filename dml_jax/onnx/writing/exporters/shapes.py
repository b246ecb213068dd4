"""Exporters of operators that move elements."""

from typing import Any

import numpy as np

from dml_jax.onnx.writing.operator_records import exports, only
from dml_jax.onnx.writing.writer import Value, Writer


@exports("PADDING", "PADDING1")
def padding(w: Writer, op: Any, x: Value) -> Value:
    """Write a padding with elements of the tensor; one with a value is a Pad as a program too."""
    counts = [*op.start_padding, *op.end_padding]
    mode = {"EDGE": "edge", "REFLECTION": "reflect"}.get(op.padding_mode.name)
    only(x.dtype == np.float32 and mode is not None)
    only(mode == "edge" or max(*counts, 0) < min(x.shape))
    return w("Pad", x, w.indices(counts), shape=op.output_tensor.sizes, mode=mode)


@exports("GATHER_ELEMENTS")
def gathered_elements(w: Writer, op: Any, x: Value, indices: Value) -> Value:
    n, places = x.shape[op.axis], w.cast(indices, np.int64)
    if indices.dtype.kind == "i":
        is_from_end = w.compare("Less", places, w.indices(0))
        places = w.where(is_from_end, w("Add", places, w.indices(n)), places)
    places = w("Min", w("Max", places, w.indices(0)), w.indices(n - 1))
    return w("GatherElements", x, places, shape=places.shape, axis=int(op.axis))

"""Exporters of operators that move elements."""

from typing import Any

import numpy as np

from dml_jax.onnx.writing.operator_records import exports, only, op_type_of
from dml_jax.onnx.writing.primitives.shapes import BEFORE_FIRST
from dml_jax.onnx.writing.writer import Value, Writer


@exports("SPLIT")
def parts(w: Writer, op: Any, x: Value) -> list[Value]:
    only(len(op.output_tensors) > 1)
    results = [(None, tensor.sizes) for tensor in op.output_tensors]
    sizes = w.indices([shape[op.axis] for _, shape in results])
    return w.several("Split", x, sizes, results=results, axis=int(op.axis))


@exports("SLICE1")
def sliced_backwards(w: Writer, op: Any, x: Value) -> Value:
    """Write a slice that goes from its last element along some dimensions."""
    steps, shape = op.input_window_strides, op.output_tensor.sizes
    only(any(step < 0 for step in steps))
    rows = zip(op.input_window_offsets, op.input_window_sizes, steps, strict=True)
    starts = [first if step > 0 else first + size - 1 for first, size, step in rows]
    stops = [k + n * step for k, n, step in zip(starts, shape, steps, strict=True)]
    stops = [BEFORE_FIRST if stop < 0 else stop for stop in stops]
    return w("Slice", x, *map(w.indices, (starts, stops, range(x.rank), steps)), shape=shape)


@exports("TILE")
def tiled(w: Writer, op: Any, x: Value) -> Value:
    return w("Tile", x, w.indices(op.repeats), shape=op.output_tensor.sizes)


@exports("DEPTH_TO_SPACE", "DEPTH_TO_SPACE1", "SPACE_TO_DEPTH", "SPACE_TO_DEPTH1")
def moved_blocks(w: Writer, op: Any, x: Value) -> Value:
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
def gathered_elements(w: Writer, op: Any, x: Value, indices: Value) -> Value:
    n, places = x.shape[op.axis], w.cast(indices, np.int64)
    if indices.dtype.kind == "i":
        is_from_end = w.compare("Less", places, w.indices(0))
        places = w.where(is_from_end, w("Add", places, w.indices(n)), places)
    places = w("Min", w("Max", places, w.indices(0)), w.indices(n - 1))
    return w("GatherElements", x, places, shape=places.shape, axis=int(op.axis))

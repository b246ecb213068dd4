"""Exporters of operators that move elements."""

from typing import Any

import numpy as np

from dml_jax.onnx.writing.operator_records import Use, exports
from dml_jax.onnx.writing.writer import Value


@exports("SPLIT")
def parts(use: Use) -> list[Value]:
    w, x, shapes = use.writer, use.input_tensor, [t.sizes for t in use.output_tensors]
    if len(shapes) == 1:
        return [w("Identity", x)]
    sizes = w.indices([shape[use.axis] for shape in shapes])
    results = [(None, shape) for shape in shapes]
    return w.several("Split", x, sizes, results=results, axis=int(use.axis))


@exports("SLICE1")
def sliced_either_way(use: Use) -> Any:
    """Write a slice that goes backwards from its last element."""
    w, x, shape = use.writer, use.input_tensor, use.output_tensor.sizes
    starts, stops = [], []
    rows = zip(
        use.input_window_offsets,
        use.input_window_sizes,
        use.input_window_strides,
        shape,
        strict=True,
    )
    for offset, size, step, count in rows:
        start = offset if step > 0 else offset + size - 1
        stop = start + (count - 1) * step + (1 if step > 0 else -1)
        starts.append(start)
        stops.append(stop if stop >= 0 else -(2**62))
    axes = w.indices(range(x.rank))
    inputs = [w.indices(v) for v in (starts, stops)]
    steps = w.indices(list(use.input_window_strides))
    return w("Slice", x, *inputs, axes, steps, shape=shape)


_MODES = {"CONSTANT": "constant", "EDGE": "edge", "REFLECTION": "reflect", "WRAP": "wrap"}


@exports("PADDING", "PADDING1")
def padding(use: Use) -> Any:
    w, x, mode = use.writer, use.input_tensor, use.padding_mode.name
    counts = w.indices([*use.start_padding, *use.end_padding])
    most = max(*use.start_padding, *use.end_padding, 0)
    is_simple = mode == "CONSTANT" or (mode == "EDGE" and x.dtype == np.float32)
    if not is_simple and (mode != "REFLECTION" or most >= min(x.shape) or x.dtype != np.float32):
        return NotImplemented
    if x.dtype.name in ("float64", "uint64", "int64"):
        return NotImplemented
    shape = use.output_tensor.sizes
    fill = w.like(use.value, x) if mode == "CONSTANT" else None
    return w("Pad", x, counts, fill, shape=shape, mode=_MODES[mode])


@exports("TILE")
def tiled(use: Use) -> Value:
    w = use.writer
    shape = use.output_tensor.sizes
    return w("Tile", use.input_tensor, w.indices(list(use.repeats)), shape=shape)


@exports("DEPTH_TO_SPACE", "DEPTH_TO_SPACE1")
def depth_to_space(use: Use) -> Any:
    order = getattr(use.operator, "order", None)
    mode = "CRD" if order is not None and order.name == "COLUMN_ROW_DEPTH" else "DCR"
    x = use.input_tensor
    if x.rank != 4 or x.dtype != np.float32:
        return NotImplemented
    size = int(use.block_size)
    shape = use.output_tensor.sizes
    return use.writer("DepthToSpace", x, shape=shape, blocksize=size, mode=mode)


@exports("SPACE_TO_DEPTH", "SPACE_TO_DEPTH1")
def space_to_depth(use: Use) -> Any:
    order, x = getattr(use.operator, "order", None), use.input_tensor
    is_other = order is not None and order.name == "COLUMN_ROW_DEPTH"
    if is_other or x.rank != 4 or x.dtype != np.float32:
        return NotImplemented
    shape = use.output_tensor.sizes
    return use.writer("SpaceToDepth", x, shape=shape, blocksize=int(use.block_size))


@exports("FILL_VALUE_CONSTANT")
def filled(use: Use) -> Any:
    w, tensor = use.writer, use.output_tensor
    if tensor.dtype.kind == "V":
        return NotImplemented
    return w.expand(w.constant(use.value, tensor.dtype), tensor.sizes)


@exports("GATHER_ELEMENTS")
def gathered_elements(use: Use) -> Value:
    w, x = use.writer, use.input_tensor
    n = x.shape[use.axis]
    places = w.cast(use.indices_tensor, np.int64)
    if use.indices_tensor.dtype.kind == "i":
        is_from_end = w.compare("Less", places, w.indices(0))
        places = w.where(is_from_end, w("Add", places, w.indices(n)), places)
    places = w("Min", w("Max", places, w.indices(0)), w.indices(n - 1))
    return w("GatherElements", x, places, shape=places.shape, axis=int(use.axis))

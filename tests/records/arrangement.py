"""Records of the operators that move elements."""

from typing import Any

import numpy as np

from dml_jax import DepthSpaceOrder, TensorDesc
from dml_jax.operator import Operator
from records import Fields, Record, Rng, Types, each, sizes, tensors


def draw_split(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    shape = sizes(rng)
    axis = int(rng.integers(len(shape)))
    pieces = [int(n) for n in rng.integers(1, 4, rng.integers(1, 5))]
    shape[axis] = sum(pieces)
    outputs = [[*shape[:axis], p, *shape[axis + 1 :]] for p in pieces]
    parts = [TensorDesc(types["output_tensors"], s) for s in outputs]
    return {**tensors(types, input_tensor=shape), "output_tensors": parts, "axis": axis}


def draw_join(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    split = draw_split(rng, op_class, {"input_tensor": "INT8", "output_tensors": "INT8"})
    type_ = types["input_tensors"]
    pieces = [TensorDesc(type_, t.sizes) for t in split["output_tensors"]]
    return {"input_tensors": pieces, "axis": split["axis"]}


def draw_tile(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    shape = sizes(rng, elements=60)
    repeats = [int(r) for r in rng.integers(1, 4, len(shape))]
    return {"input_tensor": TensorDesc(types["input_tensor"], shape), "repeats": repeats}


def draw_blocks(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    n, c, h, w, block = (int(k) for k in rng.integers(1, 4, 5))
    deep, wide = [n, c * block * block, h, w], [n, c, h * block, w * block]
    is_deep = "DEPTH_TO" in op_class.short_name
    order = DepthSpaceOrder(int(rng.integers(2)))
    shape = deep if is_deep else wide
    return {**tensors(types, input_tensor=shape), "block_size": block, "order": order}


def _pixels(op: Any, shape: tuple[int, ...]):
    """Yield (channel in depth, row, column, channel, row, column in space), by the formula."""
    block, channels = op.block_size, shape[1]
    for c, y, x in np.ndindex(*shape[1:]):
        i, j = y % block, x % block
        depth = (i * block + j) * channels + c
        if getattr(op, "order", None) == DepthSpaceOrder.COLUMN_ROW_DEPTH:
            depth = (c * block + i) * block + j
        yield depth, y // block, x // block, c, y, x


def depth_to_space(op: Any, x: np.ndarray) -> np.ndarray:
    out = np.zeros(op.output_tensor.sizes, x.dtype)
    for d, h, w, c, i, j in _pixels(op, out.shape):
        out[:, c, i, j] = x[:, d, h, w]
    return out


def space_to_depth(op: Any, x: np.ndarray) -> np.ndarray:
    out = np.zeros(op.output_tensor.sizes, x.dtype)
    for d, h, w, c, i, j in _pixels(op, x.shape):
        out[:, d, h, w] = x[:, c, i, j]
    return out


def split(op: Any, x: np.ndarray) -> list[np.ndarray]:
    ends = np.cumsum([t.sizes[op.axis] for t in op.output_tensors])
    return np.split(x, ends[:-1], op.axis)


RECORDS = {
    "SPLIT": Record(split, draw_split, attributes={"axis": 0}),
    "JOIN": Record(lambda op, *xs: np.concatenate(xs, op.axis), draw_join, attributes={"axis": 0}),
    "TILE": Record(
        lambda op, x: np.tile(x, op.repeats), draw_tile, smallest={"repeats": each(1)}, ulp=0
    ),
    **dict.fromkeys(("DEPTH_TO_SPACE", "DEPTH_TO_SPACE1"), Record(depth_to_space, draw_blocks)),
    **dict.fromkeys(("SPACE_TO_DEPTH", "SPACE_TO_DEPTH1"), Record(space_to_depth, draw_blocks)),
}

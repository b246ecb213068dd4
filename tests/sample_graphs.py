"""The graph of several files of tests, in three forms."""

from typing import Any

import numpy as np

from dml_jax import ElementWiseClip, Join, Reduce, Split, TensorDesc
from dml_jax.graph import (
    ConstantNode,
    Graph,
    GraphBuilder,
    InputEdge,
    IntermediateEdge,
    OperatorNode,
    OutputEdge,
)
from dml_jax.show.diagrams import Layout, Picture, columns_of

Json = dict[str, Any]


def tensor(*sizes: int, type_: str = "FLOAT32", **fields: Any) -> TensorDesc:
    return TensorDesc(type_, sizes, **fields)


def clip(t: TensorDesc, low: float = -1, high: float = 1, to: TensorDesc | None = None):
    return ElementWiseClip(input_tensor=t, output_tensor=to or t, min=low, max=high)


def summed(t: TensorDesc) -> Reduce:
    output = TensorDesc(t.data_type, (*t.sizes[:-1], 1))
    axes = [t.dimension_count - 1]
    return Reduce(function="SUM", input_tensor=t, output_tensor=output, axes=axes)


WIDE, HALF = tensor(2, 4), tensor(2, 2)
HALVES = Split(input_tensor=WIDE, output_tensors=[HALF, HALF], axis=1)
PAIR = Join(input_tensors=[HALF, HALF], output_tensor=WIDE, axis=1)
KEPT = np.array([[5, 6], [7, 8]], np.float32)
X = np.array([[-3, 0.5, 2, 3], [0.25, 9, 4, 5]], np.float32)


def parts() -> Json:
    """From x to halves; the first to low; low and kept to pair, sum, total; the second to rest."""
    return {
        "input_count": 1,
        "output_count": 2,
        "nodes": [
            OperatorNode(HALVES, "halves"),
            OperatorNode(clip(HALF), "low"),
            ConstantNode(KEPT, "kept"),
            OperatorNode(PAIR, "pair"),
            OperatorNode(summed(WIDE), "sum"),
        ],
        "input_edges": [InputEdge(0, 0, 0)],
        "intermediate_edges": [
            IntermediateEdge(0, 0, 1, 0),
            IntermediateEdge(1, 0, 3, 0, "clipped"),
            IntermediateEdge(2, 0, 3, 1),
            IntermediateEdge(3, 0, 4, 0),
        ],
        "output_edges": [OutputEdge(4, 0, 0), OutputEdge(0, 1, 1)],
        "input_names": ["x"],
        "output_names": ["total", "rest"],
    }


def graph() -> Graph:
    return Graph(**parts())


def expected(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.clip(x[:, :2], -1, 1).sum(1, keepdims=True) + KEPT.sum(1, keepdims=True), x[:, 2:]


def by_name() -> Graph:
    named = parts()
    named["input_edges"] = [InputEdge("x", "halves", 0)]
    named["intermediate_edges"] = [
        IntermediateEdge("halves", 0, "low", 0),
        IntermediateEdge("low", 0, "pair", 0, name="clipped"),
        IntermediateEdge("kept", 0, "pair", 1),
        IntermediateEdge("pair", 0, "sum", 0),
    ]
    named["output_edges"] = [OutputEdge("sum", 0, "total"), OutputEdge("halves", 1, "rest")]
    return Graph(**named)


def built() -> Graph:
    builder = GraphBuilder()
    x = builder.input_tensor("x", WIDE)
    first, rest = builder.apply(HALVES, x, name="halves")
    low = builder.apply(clip(HALF), first, name="low")
    kept = builder.constant(KEPT, name="kept")
    pair = builder.apply(PAIR, low, kept, name="pair")
    return builder.build(
        {"total": builder.apply(summed(pair.desc), pair, name="sum"), "rest": rest}
    )


def assert_no_overlaps(picture: Picture) -> list[Layout]:
    """Return the columns of a picture, whose boxes, labels and lines have places of their own."""
    columns = columns_of(picture)
    for layout in columns:
        x, y, wide, high = map(np.array, (layout.x, layout.y, layout.widths, layout.heights))
        is_beside = abs(x[:, None] - x) >= (wide[:, None] + wide) / 2
        is_below = abs(y[:, None] - y) >= (high[:, None] + high) / 2
        assert (is_beside | is_below | np.eye(len(x), dtype=bool)).all()
        assert all(y[a] < y[b] for a, b in layout.links)
        assert (x - wide / 2 > 0).all()
        assert (x + wide / 2 < layout.width).all()
        assert (y + high / 2 < layout.height).all()
    return columns

"""Indices among the inputs: a table's rows are known, so an index beyond them is an error.

A program on a device cannot raise; it would read another row.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dml_jax.onnx.stages import Source
from dml_jax.onnxruntime.errors import InvalidArgument

_VIEWS = {"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}


def rows_of(source: Source) -> dict[str, int]:
    """Return how many rows the tables have that inputs are indices of, by the name of the input."""
    makers = {name: node for node in source.nodes for name in node.output}
    inputs = {value.name for value in source.proto.graph.input} - source.initializers.keys()
    found: dict[str, int] = {}
    for node in source.nodes:
        if node.op_type not in ("Gather", "GatherElements") or node.domain not in ("", "ai.onnx"):
            continue
        if len(node.input) < 2:
            continue  # a run refuses it
        table, _ = source.initializers.get(node.input[0], (None, 0))
        axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
        name, seen = node.input[1], set[str]()
        while (maker := makers.get(name)) and maker.op_type in _VIEWS and name not in seen:
            seen.add(name)
            name = next(iter(maker.input), "")
        if name in inputs and table is not None and -table.ndim <= axis < table.ndim:
            rows = table.shape[axis]
            found[name] = min(rows, found.get(name, rows))
    return found


def check(feeds: Mapping[str, Any], rows: Mapping[str, int]) -> None:
    """Raise `InvalidArgument` where an input has an index beyond the rows of its table."""
    for name, count in rows.items():
        held = feeds.get(name)
        if held is None:
            continue
        array = np.asarray(held)
        if array.dtype.kind not in "iu" or not array.size:
            continue
        low, high = int(array.min()), int(array.max())
        if low < -count or high >= count:
            text = f"expected the indices of the input {name!r} to be in [{-count}, {count - 1}], "
            raise InvalidArgument(f"{text}got {low if low < -count else high}")

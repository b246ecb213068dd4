"""The first stage of a run, and the inputs whose values decide sizes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from dml_jax.onnxruntime.model_parts import Source, read_by_outer
from dml_jax.onnxruntime.stage import Plan, Stage, Values, type_of

_SMALL = 8  # elements of an input whose values decide sizes


def first_stage(
    source: Source,
    nodes: Sequence[onnx.NodeProto],
    values: Values,
    wanted: Sequence[str],
    deciding: set[str],
) -> Stage:
    """Return the first stage for the values of inputs.

    Args:
        source: the model.
        nodes: the part of it that is computed, each node after those that it reads from.
        values: the inputs by name.
        wanted: the names of the outputs of the model.
        deciding: the inputs whose values decide sizes; those that are found are added.
    """
    while True:
        given = {n: np.asarray(v) if n in deciding else type_of(v) for n, v in values.items()}
        stage = Stage.kept(source, Plan(nodes, given), wanted)
        found = {n for n in _origins(stage, nodes, values) if n not in deciding}
        if not found:
            return stage
        stage.keep()
        deciding |= found


def _origins(stage: Stage, nodes: Sequence[onnx.NodeProto], values: Values) -> set[str]:
    """Return the inputs that decide sizes by their values alone: a few integers each."""
    makers = {name: node for node in nodes for name in node.output if name}
    found: set[str] = set()
    for name in stage.by_value:
        names, seen, pending = set[str](), {name}, [name]
        while pending:
            one = pending.pop()
            if one in values:
                names.add(one)
            node = makers.get(one)
            if node is not None and (node.op_type not in ("Shape", "Size") or node.domain):
                fresh = read_by_outer(node) - seen
                seen |= fresh
                pending += fresh
        if all(_is_small(values[n]) for n in names):
            found |= names
    return found


def _is_small(value: Any) -> bool:
    return getattr(value, "size", _SMALL + 1) <= _SMALL and value.dtype.kind in "iub"

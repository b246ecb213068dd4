"""The inputs of a run whose values decide sizes."""

from collections.abc import Sequence
from typing import Any

import onnx

from dml_jax.onnxruntime.model_parts import read_by_outer
from dml_jax.onnxruntime.stage import Stage, Values

# Elements of an input whose values decide sizes. A shape, a sampling rate or a number of steps has
# few, and few values; an array of many would make a stage for each run.
_SMALL = 8


def deciding_inputs(stage: Stage, nodes: Sequence[onnx.NodeProto], values: Values) -> set[str]:
    """Return the inputs that decide sizes by their values alone: a few integers each.

    Args:
        stage: the first stage of a run, whose next stage is for elements of some tensors.
        nodes: the part of the model that is computed.
        values: the inputs by name.
    """
    makers = {name: node for node in nodes for name in node.output if name}
    found: set[str] = set()
    for name in stage.by_value:
        names, seen, pending = set[str](), {name}, [name]
        while pending:
            one = pending.pop()
            if one in values:
                names.add(one)
            node = makers.get(one)
            # Shape and Size read the sizes of an input, which are in each key anyway.
            if node is not None and (node.op_type not in ("Shape", "Size") or node.domain):
                fresh = read_by_outer(node) - seen
                seen |= fresh
                pending += fresh
        if all(_is_small(values[n]) for n in names):
            found |= names
    return found


def _is_small(value: Any) -> bool:
    return getattr(value, "size", _SMALL + 1) <= _SMALL and value.dtype.kind in "iub"

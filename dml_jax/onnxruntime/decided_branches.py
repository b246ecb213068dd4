"""If nodes whose condition is known: their branch stands in their place."""

from collections.abc import Mapping
from copy import deepcopy

import onnx
from onnx import helper

from dml_jax.onnx.files.attributes import domain_of
from dml_jax.onnx.nodes.tensor import Scope, Tensor


def branch_of(node: onnx.NodeProto, scope: Scope) -> list[onnx.NodeProto] | None:
    """Return the nodes of the branch that an If takes; None where that is not known, or no If.

    Names within the branch are made distinct from those around it.
    """
    if node.op_type != "If" or domain_of(node.domain) or not node.input or not node.output:
        return None
    condition = scope.get(node.input[0])
    if not isinstance(condition, Tensor) or not condition.is_known or condition.array.size != 1:
        return None
    name = "then_branch" if bool(condition.array.reshape(-1)[0]) else "else_branch"
    graph = next((a.g for a in node.attribute if a.name == name), None)
    if graph is None or graph.sparse_initializer or len(graph.output) != len(node.output):
        return None
    own = [*(n for inner in graph.node for n in inner.output), *(t.name for t in graph.initializer)]
    names = {n: f"{node.output[0]}/{n}" for n in own if n}
    constants = [
        helper.make_node("Constant", [], [names[tensor.name]], value=tensor)
        for tensor in graph.initializer
    ]
    made = [deepcopy(inner) for inner in graph.node]
    for inner in made:
        _rename(inner, names)
    pairs = zip(graph.output, node.output, strict=True)
    given = [(names.get(value.name, value.name), output) for value, output in pairs if output]
    return [*constants, *made, *(helper.make_node("Identity", [a], [b]) for a, b in given)]


def _rename(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    """Give the tensors of a node, and of the graphs within it, other names."""
    for listed in (node.input, node.output):
        for index, name in enumerate(listed):
            listed[index] = names.get(name, name)
    for attribute in node.attribute:
        for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
            own = {v.name for v in graph.input} | {t.name for t in graph.initializer}
            inner = {old: new for old, new in names.items() if old not in own}
            for each in graph.node:
                _rename(each, inner)
            for output in graph.output:
                output.name = inner.get(output.name, output.name)

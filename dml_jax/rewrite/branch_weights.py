"""What the branches of an If make of weights stands around them, where it is prepared once.

Branches read weights in the order that their operators want, as the whole graph does. A branch that
turned them itself would do so at each call.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from dml_jax.enums import TensorFlags
from dml_jax.graph import Expression, FunctionNode, Graph, OperatorNode, Source
from dml_jax.rewrite.pattern import Copy


def hoist(graph: Graph) -> Graph:
    """Return the graph in which nodes of branches stand around these that follow from weights.

    It is for what computes it: the branches keep these nodes, and do not run them.
    """
    if not any(isinstance(node, FunctionNode) and node.graphs for node in graph.nodes):
        return graph
    copy = Copy(graph)
    for index, node, _ in copy.plan():
        given: list[Expression] = []
        if isinstance(node, FunctionNode) and node.graphs:
            parts, reads = tuple(map(hoist, node.graphs)), copy.reads(index)
            made = [_of_weights(copy, *p, reads) for p in zip(parts, node.captured, strict=False)]
            given = [expression for own in made for expression in own.values()]
            inputs = (*node.inputs, *(expression.desc for expression in given))
            function = _holding(node.function, made) if given else node.function
            node = replace(node, function=function, inputs=inputs, graphs=parts)
        copy.add(index, node, dict(enumerate(given, len(node.slots(output=False)) - len(given))))
    return copy.build()


def _of_weights(
    copy: Copy, graph: Graph, places: Mapping[str, int], reads: Mapping[int, Source]
) -> dict[Source, Expression]:
    """Add the nodes of a node's graph that follow from weights to `copy`, the graph around it.

    `places` tells which input of the node, of the sources `reads`, each input of the graph is.
    Returns the outputs that other nodes read, by their sources in the graph. What grows stays.
    """
    known = {
        source: reads[places[name]]
        for source, name, edge in graph.named_inputs
        if TensorFlags.OWNED_BY_DML in getattr(edge, "flags", ())
    }
    made, used = dict[Source, Expression](), {*graph.results}
    for index, node, sources in graph.plan:
        if isinstance(node, OperatorNode) and known.keys() >= {*sources} and _keeps_size(node):
            around = {slot: known[source] for slot, source in graph.reads[index].items()}
            (made[index, 0],) = copy.builder.add(node, around)
            known[index, 0] = made[index, 0].source
        else:
            used.update(sources)
    return {source: expression for source, expression in made.items() if source in used}


def _keeps_size(node: OperatorNode) -> bool:
    """Return whether the only output of an operator is not larger than what it reads."""
    sides = node.operator.inputs, node.operator.outputs
    read, made = ([t.total_tensor_size_in_bytes for t in side] for side in sides)
    return len(made) == 1 and made[0] <= max(read, default=0)


def _holding(function: Any, sources: Sequence[Collection[Source]]) -> Any:
    """Return a function of graphs and arrays that takes some arrays of the graphs, too.

    They are behind the others: those of `sources`, the sources of each graph.
    """

    def run(graphs: Sequence[Graph], *arrays: Any) -> Sequence[Any]:
        count = len(arrays) - sum(map(len, sources))
        rest = iter(arrays[count:])
        known = [{source: next(rest) for source in own} for own in sources]
        return function([*map(_knowing, graphs, known)], *arrays[:count])

    return run


def _knowing(graph: Graph, held: Mapping[Source, Any]) -> Any:
    """Return what computes a graph some of whose arrays are known."""
    points = {"named_inputs": graph.named_inputs, "counted": graph.counted}
    return SimpleNamespace(computed=lambda known: graph.computed({**known, **held}), **points)

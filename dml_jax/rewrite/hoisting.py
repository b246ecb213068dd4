"""What the branches of an If make of weights stands around them, where it is prepared once.

Branches read weights in the order that their operators want, as the whole graph does. A branch that
turned them itself would do so at each call.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dml_jax.description.tensor import TensorDesc
from dml_jax.enums import TensorFlags
from dml_jax.graph import Expression, FunctionNode, Graph, OperatorNode, Source
from dml_jax.rewrite.matching import Copy


@dataclass(frozen=True)
class _Part:
    """A graph of a node, some arrays of which are known: by their sources in it."""

    graph: Graph
    known: dict[Source, Any]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.graph, name)

    def computed(self, known: dict[Source, Any]) -> Sequence[Any]:
        return self.graph.computed({**known, **self.known})


@dataclass(frozen=True)
class _Holding:
    """A function of graphs and arrays, behind whose arrays are those that the graphs know."""

    function: Callable[..., Sequence[Any]]
    sources: Sequence[Sequence[Source]]

    def __call__(self, graphs: Sequence[Graph], *arrays: Any) -> Sequence[Any]:
        count = len(arrays) - sum(map(len, self.sources))
        rest = iter(arrays[count:])
        held = [{source: next(rest) for source in sources} for sources in self.sources]
        parts = [_Part(graph, known) for graph, known in zip(graphs, held, strict=True)]
        return self.function(parts, *arrays[:count])


def hoisted(graph: Graph) -> Graph:
    """Return the graph in which nodes of branches stand around these that follow from weights.

    It is for what computes it: the branches keep these nodes, and do not run them.
    """
    if not any(isinstance(node, FunctionNode) and node.graphs for node in graph.nodes):
        return graph
    copy = Copy(graph)
    for index, node, _ in graph.plan:
        if not isinstance(node, FunctionNode):
            copy.add(index, node)
            continue
        made, parts = list[dict[Source, Expression]](), tuple(map(hoisted, node.graphs))
        reads = copy.reads(index)
        for part, places in zip(parts, node.captured, strict=False):
            known = {
                source: reads[places[name]]
                for source, name, edge in part.named_inputs
                if isinstance(edge, TensorDesc) and TensorFlags.OWNED_BY_DML in edge.flags
            }
            made.append(dict(_of_weights(copy, part, known)))
        given = [expression for own in made for expression in own.values()]
        function = _Holding(node.function, [[*own] for own in made]) if given else node.function
        inputs = (*node.inputs, *(expression.desc for expression in given))
        other = replace(node, function=function, inputs=inputs, graphs=parts)
        copy.add(index, other, dict(enumerate(given, len(node.inputs))))
    return copy.build()


def _of_weights(
    copy: Copy, graph: Graph, known: dict[Source, Source]
) -> Iterator[tuple[Source, Expression]]:
    """Add the nodes of a graph that follow from weights to the graph around it.

    Args:
        copy: the graph around it.
        graph: the graph.
        known: the sources around it of its weights, by those in it; those of nodes are added.

    Yields the outputs that other nodes read. What grows stays where it is.
    """
    made, used = dict[Source, Expression](), {*graph.results}
    for index, node, sources in graph.plan:
        if isinstance(node, OperatorNode) and _keeps_size(node) and known.keys() >= {*sources}:
            reads = {slot: known[source] for slot, source in graph.reads[index].items()}
            (made[index, 0],) = copy.added(node, reads)
            known[index, 0] = made[index, 0].source
        else:
            used.update(sources)
    return ((source, expression) for source, expression in made.items() if source in used)


def _keeps_size(node: OperatorNode) -> bool:
    """Return whether the only output of an operator is not larger than what it reads."""
    inputs, outputs = ([t for _, t in node.slots(is_output) if t] for is_output in (False, True))
    most = max((tensor.total_tensor_size_in_bytes for tensor in inputs), default=0)
    return len(outputs) == 1 and outputs[0].total_tensor_size_in_bytes <= most

"""What the nodes of a graph read, and the order in which they are translated."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import onnx

from dml_jax.errors import Fault
from dml_jax.graph.parts import reached
from dml_jax.onnx.files.slice_assignment import without_ranges


def graphs_of(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """Return the graphs that are attributes of a node."""
    return [g for a in node.attribute for g in ([a.g] if a.HasField("g") else a.graphs)]


def read_by(node: onnx.NodeProto) -> list[str]:
    """Return the tensors that a node reads, those of the graphs within it included."""
    return [*node.input, *(name for graph in graphs_of(node) for name in read_by_graph(graph))]


def read_by_graph(graph: onnx.GraphProto) -> list[str]:
    """Return the tensors that the nodes and the outputs of a graph read."""
    inner = [name for node in graph.node for name in read_by(node)]
    return [*inner, *(output.name for output in graph.output)]


def normalise(
    graph: onnx.GraphProto | onnx.FunctionProto, outputs: Iterable[str]
) -> tuple[list[onnx.NodeProto], list[Fault]]:
    """Return the nodes that `outputs` depend on, in one spelling and in order, and the faults.

    Each node stands after those that it reads from. A fault is a name that is given twice.
    """
    nodes = graph.node
    if any(node.op_type == "ScatterElements" and not node.domain for node in nodes):
        nodes = without_ranges(nodes)
    return needed(nodes, outputs), repeated(graph)


def repeated(graph: onnx.GraphProto | onnx.FunctionProto) -> list[Fault]:
    """Return the faults of names that two nodes give, or a node and an input or an initializer."""
    given = Counter(name for node in graph.node for name in node.output if name)
    inputs = {value if isinstance(value, str) else value.name for value in graph.input}
    given.update(inputs | {t.name for t in getattr(graph, "initializer", ())})
    names = [name for name, count in given.items() if count > 1]
    return [Fault("", "the name of an output", "be given once", name) for name in names]


def needed(nodes: Sequence[onnx.NodeProto], outputs: Iterable[str]) -> list[onnx.NodeProto]:
    """Return the nodes that `outputs` depend on, each one after those that it reads from.

    ONNX asks for this order, and ONNX Runtime takes files that do not have it.
    """
    makers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    reads = [[makers[n] for n in read_by(node) if n in makers] for node in nodes]
    wanted = reached((makers[name] for name in outputs if name in makers), reads)
    # By a list, not by recursion: a chain of nodes may be longer than Python's stack is deep.
    ordered: dict[int, None] = {}
    for first in sorted(wanted):
        path, begun = [(first, iter(reads[first]))], {first}
        while path:
            index, rest = path[-1]
            missing = next((k for k in rest if k not in ordered and k not in begun), None)
            if missing is None:
                ordered[index] = None
                path.pop()
            else:
                begun.add(missing)
                path.append((missing, iter(reads[missing])))
    return [nodes[index] for index in ordered]


def within(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    """Yield a node and those of the graphs within it."""
    yield node
    for graph in graphs_of(node):
        for inner in graph.node:
            yield from within(inner)

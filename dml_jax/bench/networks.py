"""The operators of a graph or a network as cells, equal ones once, and the whole program."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dml_jax.bench.cells import Cell
from dml_jax.bench.counts import operations
from dml_jax.bench.functions import Plain
from dml_jax.bench.memory import Data
from dml_jax.bench.shares import called, computations
from dml_jax.graph import ConstantNode, FunctionNode, Graph, OperatorNode
from dml_jax.graph.parts import ArrayType
from dml_jax.operator import Operator
from dml_jax.operator.callable import Bindable

if TYPE_CHECKING:
    from dml_jax.onnx import Network

PROGRAM = "whole program"


@dataclass(frozen=True, eq=False)
class Program(Plain):
    """The whole program of a network, on arrays of its own.

    Attributes:
        network: the path of the file.
        names: the names of the inputs.
        graph: what the program computes.
    """

    network: str = ""
    names: Sequence[str] = ()
    graph: Graph | None = None


def cells_of_network(network: "Network", path: str) -> list[Cell]:
    """Return the cells of a network: its operators, equal ones once, and the whole program."""
    graph, inputs = network.rewritten, network.random_inputs()
    ends = [*network.tensors(output=False)]
    arrays = [np.asarray(inputs[name], t.dtype).reshape(t.sizes) for name, _, t in ends]
    names, tensors = [name for name, _, _ in ends], [tensor for _, _, tensor in ends]
    tensors += [ArrayType(array.dtype, array.shape) for array in network.constants]
    outputs = [tensor for _, _, tensor in network.tensors(output=True)]
    program = Program(
        network.compute,
        tensors,
        outputs,
        [*arrays, *network.constants],
        operations(graph),
        is_wide=True,
        network=path,
        names=names,
        graph=graph,
    )
    once = _of_weights(graph, names)
    return [*cells_of_graph(graph, once), Cell(PROGRAM, "", program, family="program")]


def _of_weights(graph: Graph, inputs: Sequence[str]) -> set[int]:
    """Return the ids of the nodes that read weights alone, which are computed once at load."""
    names = graph.input_names or ()
    changing = {(-1, k) for k, name in enumerate(names) if name in inputs}
    once = set()
    for index, node, sources in graph.plan:
        if changing.isdisjoint(sources):
            once.add(id(node))
        else:
            changing |= {(index, k) for k in range(len(node.slots(output=True)))}
    return once


def cells_of_graph(graph: Graph, skipped: Collection[int] = ()) -> list[Cell]:
    """Return a cell for each operator of a graph, those of graphs within it included.

    Nodes whose ids are in `skipped` are left out.
    """
    counts: dict[Any, int] = {}
    functions: dict[Any, FunctionNode] = {}
    for _, node in graph.all_nodes:
        if id(node) in skipped:
            continue
        if isinstance(node, OperatorNode):
            counts[node.operator] = counts.get(node.operator, 0) + 1
        elif isinstance(node, FunctionNode) and not node.graphs:
            key = (node.operator, node.label) if node.operator else id(node)
            functions[key], counts[key] = node, counts.get(key, 0) + 1
    named: dict[str, int] = {}
    found: list[Cell] = []
    for key, count in counts.items():
        if key in functions:
            found += _of_function(functions[key], count)
        else:
            found.append(Cell(key.short_name, _sizes(key), key, count, key.family))
    cells = []
    for cell in found:
        named[cell.name] = number = named.get(cell.name, 0) + 1
        words = cell.variant if number == 1 else f"{cell.variant} ({number})"
        cells.append(Cell(cell.operator, words, cell.function, cell.count, cell.family))
    return cells


def _sizes(op: Operator) -> str:
    """Return the sizes of the inputs, by which equal operators of a network differ."""
    sizes = (",".join(map(str, t.sizes)) for t in op.inputs[:2])
    return " ".join(f"[{one}]" for one in sizes)


def _of_function(node: FunctionNode, count: int) -> Iterator[Cell]:
    """Yield the cell of a function of arrays; one of another layout is named by its operator."""
    inputs = [one for one in node.inputs if one is not None]
    op = node.operator
    if inputs and all(hasattr(end, "dtype") for end in (*inputs, *node.outputs)):
        work = operations(op) if op else 0.0
        function = Plain(node, inputs, node.outputs, operations=work, is_wide=True)
        words, family = (_sizes(op), op.family) if op else ("", "other")
        yield Cell(node.label.split(" ")[0], words, function, count, family)


def cells_of(function: Bindable, name: str) -> list[Cell]:
    """Return the cells of a dispatchable: itself, and the operators of a graph."""
    whole = [Cell(name, "", function, family="program" if isinstance(function, Graph) else "")]
    return whole + (cells_of_graph(function) if isinstance(function, Graph) else [])


def kernels(text: str, names: Sequence[str]) -> dict[str, list[str]]:
    """Return the nodes that each kernel of a compiled program computes; each node stands once.

    A node belongs to the last kernel that has an instruction of it. Those that XLA left out stand
    under "".

    Args:
        text: the optimised HLO of the program.
        names: the scopes of the nodes: their names, or else their indices.
    """
    bodies, entry = computations(text)
    known = {f"/{name}/": name for name in names}
    anywhere = re.compile("|".join(map(re.escape, sorted(known, key=len, reverse=True))) or r"\Z.")

    def nodes(lines: Iterable[str], seen: frozenset[str]) -> set[str]:
        found: set[str] = set()
        for line in lines:
            for path in re.findall(r'op_name="([^"]*)"', line):
                if outermost := anywhere.search(f"/{path}/"):
                    found.add(known[outermost[0]])
            for name in set(called(line)) - seen:
                found |= nodes(bodies.get(name, {}).values(), seen | {name})
        return found

    place = dict.fromkeys(names, "")
    kinds = (
        r" (fusion|custom-call|dot|convolution|while|call|reduce|copy|scatter|sort|conditional)\("
    )
    for kernel, line in bodies.get(entry, {}).items():
        if re.search(kinds, line) or "op_name" in line:
            if re.search(r" (parameter|constant|bitcast|tuple|get-tuple-element)\(", line):
                continue
            place |= dict.fromkeys(nodes([line], frozenset()), kernel)
    found: dict[str, list[str]] = {}
    for name, kernel in place.items():
        found.setdefault(kernel, []).append(name)
    return found


def node_names(graph: Graph) -> list[str]:
    """Return the scope of each operator and function of a graph in its program."""
    return [
        node.name or str(index)
        for index, node in enumerate(graph.nodes)
        if not isinstance(node, ConstantNode)
    ]


def profile(cell: Cell, graph: Graph, folder: Any, device: Any) -> dict[str, list[str]]:
    """Write a trace of some calls, for Perfetto and xprof; return the nodes of each kernel."""
    (xs, *_) = Data(device).sets(cell.function, 1)
    program = jax.jit(lambda *arrays: cell.function(*arrays)).lower(*xs).compile()
    jax.block_until_ready(program(*xs))
    with jax.profiler.trace(str(folder), create_perfetto_trace=True):
        for _ in range(5):
            jax.block_until_ready(program(*xs))
    return kernels(program.as_text() or "", node_names(graph))

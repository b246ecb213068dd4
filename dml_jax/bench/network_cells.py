"""The operators of a graph or a network as cells, equal ones once, and the whole program."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dml_jax.bench.cells import Cell
from dml_jax.bench.measured_functions import Plain
from dml_jax.bench.memory import Data
from dml_jax.bench.operation_counts import operations
from dml_jax.graph import ConstantNode, FunctionNode, Graph, OperatorNode
from dml_jax.graph.parts import ArrayType, name_of, scope_of
from dml_jax.operator.call import Bindable

if TYPE_CHECKING:
    from dml_jax.onnx import Network

PROGRAM = "whole program"


@dataclass(frozen=True, eq=False)
class Program(Plain):
    """The whole program of a network: the path of its file, and what it computes of which names."""

    network: str = ""
    names: Sequence[str] = ()
    graph: Graph | None = None


def cells_of_network(network: "Network", path: str) -> list[Cell]:
    """Return the cells of a network: its operators, equal ones once, and the whole program."""
    graph, inputs = network.rewritten, network.random_inputs()
    ends = [*network.tensors(output=False)]
    names, tensors = [name for name, _, _ in ends], [tensor for _, _, tensor in ends]
    arrays = [np.asarray(inputs[name], t.dtype).reshape(t.sizes) for name, _, t in ends]
    arrays += network.constants
    tensors += [ArrayType(array.dtype, array.shape) for array in network.constants]
    outputs = [tensor for _, _, tensor in network.tensors(output=True)]
    known: dict[str, Any] = {"arrays": arrays, "operations": operations(graph), "is_wide": True}
    known |= {"network": path, "names": names, "graph": graph}
    program = Program(network.compute, tensors, outputs, **known)
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
    nodes: dict[Any, list[OperatorNode | FunctionNode]] = {}
    for _, node in graph.all_nodes:
        if not (isinstance(node, ConstantNode) or id(node) in skipped):
            key = (node.operator, node.label if isinstance(node, FunctionNode) else "")
            nodes.setdefault(key if node.operator else id(node), []).append(node)
    named, cells = Counter[str](), list[Cell]()
    for node, *others in nodes.values():
        cell = _cell(node, 1 + len(others))
        if cell is not None:
            named[cell.name] += 1
            count = named[cell.name]
            words = cell.variant if count == 1 else f"{cell.variant} ({count})"
            known = dict.fromkeys(filter(None, map(name_of, (node, *others))))
            cells.append(replace(cell, variant=words, nodes=(*known,)))
    return cells


def _cell(node: OperatorNode | FunctionNode, count: int) -> Cell | None:
    """Return the cell of a node, with the sizes of its inputs; a function's if it is of arrays."""
    op: Any = node.operator
    words = " ".join(f"[{','.join(map(str, t.sizes))}]" for t in op.inputs[:2]) if op else ""
    if isinstance(node, OperatorNode):
        return Cell(op.short_name, words, op, count, op.family)
    inputs = [one for one in node.inputs if one is not None]
    if not inputs or node.graphs or not all(hasattr(t, "dtype") for t in (*inputs, *node.outputs)):
        return None
    work = operations(op) if op else 0.0
    function = Plain(node, inputs, node.outputs, operations=work, is_wide=True)
    return Cell(node.label.split(" ")[0], words, function, count, op.family if op else "other")


def cells_of(function: Bindable, name: str) -> list[Cell]:
    """Return the cells of a dispatchable: itself, and the operators of a graph."""
    whole = [Cell(name, "", function, family="program" if isinstance(function, Graph) else "")]
    return whole + (cells_of_graph(function) if isinstance(function, Graph) else [])


def computations(text: str) -> tuple[dict[str, dict[str, str]], str]:
    """Return the instructions of each computation of an optimised program (HLO), and its entry.

    An instruction is its name and what is right of its equals sign.
    """
    found: dict[str, dict[str, str]] = {}
    entry = current = ""
    for line in text.splitlines():
        if start := re.match(r"(ENTRY )?%?([\w.\-]+) .*\{$", line):
            current = start[2]
            entry = current if start[1] else entry
        elif one := re.match(r"\s+(?:ROOT )?%?([\w.\-]+) = (.*)", line):
            found.setdefault(current, {})[one[1]] = one[2]
    return found, entry


def within(
    line: str, bodies: Mapping[str, Mapping[str, str]], seen: frozenset[str] = frozenset()
) -> Iterator[str]:
    """Yield an instruction, and after it those of the computations that it calls."""
    yield line
    names = re.findall(r"(?:calls|to_apply|body|condition)=%?([\w.\-]+)", line)
    for some in re.findall(r"branch_computations=\{([^}]*)\}", line):
        names += re.findall(r"[\w.\-]+", some)
    for name in {*names} - seen:
        for inner in bodies.get(name, {}).values():
            yield from within(inner, bodies, seen | {name})


def kernels(text: str, names: Sequence[str]) -> dict[str, list[str]]:
    """Return the nodes that each kernel of a compiled program computes; each node stands once.

    A node belongs to the last kernel that has an instruction of it. Those that XLA left out stand
    under "". `text` is the program's optimised HLO, `names` has the scopes of the nodes.
    """
    bodies, entry = computations(text)
    known = {f"/{name}/": name for name in names}
    anywhere = re.compile("|".join(map(re.escape, sorted(known, key=len, reverse=True))) or r"\Z.")
    place = dict.fromkeys(names, "")
    for kernel, line in bodies.get(entry, {}).items():
        if re.search(r" (parameter|constant|bitcast|tuple|get-tuple-element)\(", line):
            continue
        for inner in within(line, bodies):
            found = re.findall(r'op_name="((?:[^"\\]|\\.)*)"', inner)
            paths = (f"/{path}/".replace('\\"', '"') for path in found)
            nodes = (known[one[0]] for one in map(anywhere.search, paths) if one)
            place |= dict.fromkeys(nodes, kernel)
    of_kernel: dict[str, list[str]] = {}
    for name, kernel in place.items():
        of_kernel.setdefault(kernel, []).append(name)
    return of_kernel


def profile(cell: Cell, graph: Graph, folder: Any, device: Any) -> dict[str, list[str]]:
    """Write a trace of some calls, for Perfetto and xprof; return the nodes of each kernel."""
    (xs, *_) = Data(device).sets(cell.function, 1)
    program = jax.jit(lambda *arrays: cell.function(*arrays)).lower(*xs).compile()
    jax.block_until_ready(program(*xs))
    with jax.profiler.trace(str(folder), create_perfetto_trace=True):
        for _ in range(5):
            jax.block_until_ready(program(*xs))
    nodes = (pair for pair in enumerate(graph.nodes) if not isinstance(pair[1], ConstantNode))
    return kernels(program.as_text() or "", [scope_of(*pair) for pair in nodes])

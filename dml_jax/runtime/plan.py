"""The split of a graph into what follows from weights alone, and what a call computes."""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax

from dml_jax.graph import ConstantNode, Expression, Graph, GraphBuilder, OperatorNode, Source
from dml_jax.graph.graph import sources_of

Arrays = Mapping[str, Any]
Parameters = tuple[Any, ...]
"""The arrays that calls hold: weights as they are, and behind them what follows from weights."""

_UNPACKED = 4  # bytes of a FLOAT32 for an integer of 8 bits
# Products of integers as floats are faster on a CPU. More bytes than these would be noticed.
_UNPACKED_MAX = 1 << 28
_UNPACKING = ("CAST", "ELEMENT_WISE_DEQUANTIZE_LINEAR")
_PRODUCTS = ("GEMM", "CONVOLUTION")


@dataclass(frozen=True, eq=False)
class Plan:
    """A pure function of a graph and of which of its inputs are weights.

    Attributes:
        kept: the names of the weights that calls read as they are.
        derived: the outputs of nodes that follow from weights alone, and that calls read; of
            several with equal arrays the first.
        aliases: the one of `derived` that has the array, for each output that calls read.
        prepare_graph: the graph of weights whose results are the arrays of `derived`; None where
            nothing is derived.
        call_graph: returns the whole graph. A start from a cache makes it only where it is asked.
    """

    kept: Sequence[str]
    derived: Sequence[Source]
    aliases: Mapping[Source, Source]
    prepare_graph: Graph | None
    call_graph: Callable[[], Graph]

    @classmethod
    def of(cls, graph: Graph, weights: Collection[str], growth: float | None) -> "Plan":
        """Return the plan of a graph.

        Args:
            graph: the graph.
            weights: which of its inputs are weights, by name.
            growth: how many times as large as the arrays that it follows from an array may be that
                is derived; None derives nothing.
        """
        names = graph.input_names or ()
        if growth is None:
            kept = [name for name in names if name in weights]
            return cls(kept, (), {}, None, lambda: graph)
        read = _read_by_calls(graph, weights, growth)
        keys, first = keys_of(graph, {name: name for name in weights}), dict[Hashable, Source]()
        sources = [source for source in read if source[0] >= 0]
        aliases = {source: first.setdefault(keys[source], source) for source in sources}
        derived = [*first.values()]
        return cls(
            [names[index] for node, index in read if node < 0],
            derived,
            aliases,
            _part_of(graph, derived, weights) if derived else None,
            lambda: graph,
        )

    def without_graph(self) -> "Plan":
        """Return the plan without the whole graph, as another process reads it."""
        return replace(self, call_graph=_missing)

    def parameters(self, weights: Arrays) -> Parameters:
        """Return the arrays that calls hold, of weights by name; a pure function."""
        kept, graph = [weights[name] for name in self.kept], self.prepare_graph
        return (*kept, *(graph.computed(sources_of(graph, weights)) if graph is not None else ()))

    def call(self, parameters: Sequence[Any], inputs: Arrays) -> list[jax.Array]:
        """Return the results of the graph, of `parameters` and of inputs by name; pure too."""
        count = len(self.kept)
        graph, arrays = self.call_graph(), dict(zip(self.derived, parameters[count:], strict=True))
        given = {**inputs, **dict(zip(self.kept, parameters, strict=False))}
        known = {source: arrays[first] for source, first in self.aliases.items()}
        return graph.computed(sources_of(graph, given) | known)


def _missing() -> Graph:
    raise NotImplementedError  # `without_graph` is for a record, whose reader puts a graph here


def keys_of(graph: Graph, weights: Mapping[str, Hashable]) -> dict[Source, Hashable]:
    """Return what makes each output of a node of weights: equal keys have equal arrays.

    `weights` has a key for each weight.
    """
    keys: dict[Source, Hashable] = {
        source: weights[name] for source, name, _ in graph.named_inputs if name in weights
    }
    for index, node, sources in graph.plan:
        if isinstance(node, ConstantNode):
            # By elements, not by identity: exporters write the same scale or axis again for each
            # layer.
            keys[index, 0] = node.array.dtype.name, node.array.shape, node.array.tobytes()
        elif isinstance(node, OperatorNode) and all(source in keys for source in sources):
            views = tuple(graph.views.get((index, place)) for place in range(len(sources)))
            key = node.operator, views, tuple(keys[source] for source in sources)
            keys |= {(index, k): (k, key) for k in range(len(node.operator.outputs))}
        elif all(source in keys for source in sources):  # a function: equal to itself alone
            count = sum(tensor is not None for _, tensor in node.slots(output=True))
            keys |= {(index, k): object() for k in range(count)}
    return keys


def _read_by_calls(graph: Graph, weights: Collection[str], growth: float) -> list[Source]:
    """Return the sources that follow from weights alone, and that calls read."""
    fixed = {  # the bytes of each source that follows from weights and constants
        source: edge.total_tensor_size_in_bytes
        for source, name, edge in graph.named_inputs
        if name in weights
    }
    used, unpacked = [*graph.results], _unpacking_nodes(graph, weights)
    for index, node, sources in graph.plan:
        sizes = _sizes(node)
        # An Expand of a small weight is cheap to compute and large to hold: growth is limited.
        most = max((fixed.get(source, 0) for source in sources), default=0)
        most *= _UNPACKED if index in unpacked else growth
        if isinstance(node, ConstantNode):
            fixed[index, 0] = node.array.nbytes
        elif sizes and max(sizes) <= most and all(source in fixed for source in sources):
            fixed |= {(index, place): size for place, size in enumerate(sizes)}
        else:
            used += sources
    constants = {index for index, node, _ in graph.plan if isinstance(node, ConstantNode)}
    kept = (source for source in used if fixed.get(source) and source[0] not in constants)
    return [*dict.fromkeys(kept)]


def _unpacking_nodes(graph: Graph, weights: Collection[str]) -> set[int]:
    """Return the nodes that make floats of integer weights which products alone read.

    There are none where all these floats take more than `_UNPACKED_MAX` bytes.
    """
    readers = dict[int, list[int]]()
    fixed = {source for source, name, _ in graph.named_inputs if name in weights}
    for index, node, sources in graph.plan:
        for source in sources:
            readers.setdefault(source[0], []).append(index)
        is_constant = isinstance(node, ConstantNode)
        if is_constant or (_sizes(node) and fixed.issuperset(sources)):
            fixed |= {(index, place) for place in range(max(1, len(_sizes(node))))}
    leads, ends, found = set[int](), {node for node, _ in graph.results}, dict[int, int]()
    for index, node, _ in reversed(graph.plan):
        if (index, 0) not in fixed or index in ends:
            continue
        if all(k in leads or _is(graph.nodes[k], _PRODUCTS) for k in readers[index]):
            leads.add(index)
            if _is(node, _UNPACKING):
                found[index] = max(_sizes(node))
    return set(found) if sum(found.values()) <= _UNPACKED_MAX else set()


def _part_of(graph: Graph, wanted: Sequence[Source], weights: Collection[str]) -> Graph:
    """Return the part of a graph that computes some outputs of nodes, of weights alone."""
    builder, made = GraphBuilder(), dict[Source, Source]()
    for source, name, edge in graph.named_inputs:
        if name in weights:
            made[source] = builder.input_tensor(name, edge).source
    needed = {node for node, _ in wanted}
    for index, _, sources in reversed(graph.plan):
        needed |= {node for node, _ in sources} if index in needed else set()
    for index, node, _ in graph.plan:
        if index in needed:
            reads = {slot: made[source] for slot, source in graph.reads[index].items()}
            for expression in builder.add(node, reads):
                made[index, expression.source[1]] = expression.source
    outputs = {
        f"{node}.{number}": Expression(builder.written(source), builder, source)
        for node, number in wanted
        for source in [made[node, _slot_of(graph.nodes[node], number)]]
    }
    return builder.build(outputs, only_read=True)


def _slot_of(node: Any, number: int) -> int:
    """Return the index, among all outputs of a node, of a result: some outputs are left out."""
    slots = [k for k, (_, tensor) in enumerate(node.slots(output=True)) if tensor is not None]
    return slots[number]


def _sizes(node: Any) -> list[int]:
    """Return the bytes of each output of an operator; none of another node."""
    if getattr(node, "operator", None) is None:
        return []
    return [t.total_tensor_size_in_bytes for _, t in node.slots(output=True) if t]


def _is(node: Any, names: Collection[str]) -> bool:
    """Return whether a node is one of these operators."""
    operator = getattr(node, "operator", None)
    return operator is not None and operator.short_name in names

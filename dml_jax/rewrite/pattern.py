"""Walk a graph, match nodes, and replace them: the one way in which graphs are rewritten."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from dml_jax import functional as dml
from dml_jax.description.tensor import TensorDesc
from dml_jax.enums import TensorFlags
from dml_jax.errors import DmlError, Fault, Unquoted
from dml_jax.graph import Expression, FunctionNode, Graph, GraphBuilder, OperatorNode, Source
from dml_jax.graph.parts import AnyNode, same_layout
from dml_jax.operator import Operator

_PASSES_MAX = 8  # a replacement may hold its own pattern; else a pass or two are enough


@dataclass(frozen=True)
class Rewrite:
    """A rewrite of a graph: what it looks for, and what stands for it then.

    Attributes:
        name: how reports name it.
        pattern: the operators of a chain, by DirectML's names without the prefix: that of the node
            that is replaced, that of the node that writes its first input, and so on. Spaces stand
            between names of which any one is right.
        replacement: takes the `Found` nodes in this order; returns the expression that stands for
            the only output of the first one. It calls functions of `dml_jax` with the inputs of
            the nodes. The expression has the output's type, sizes and strides. Or it returns a node
            with the same outputs, and its other inputs by their places.
        condition: takes the same nodes; returns why they are not replaced, as a report says it, and
            "" where they are. True and False do as well, for a yes and for a no without words.
        read: the place of the input through which the chain goes on.
    """

    name: str
    pattern: Sequence[str]
    replacement: Callable[..., Expression | tuple[AnyNode, Mapping[int, Expression]]]
    condition: Callable[..., bool | str] = lambda *_: True
    read: int = 0

    def once(self, graph: Graph) -> tuple[Graph, int]:
        """Return the graph with the nodes replaced that match, and their number."""
        places = range(len(graph.nodes))
        chains = {index: chain for index in places if (chain := self._chain(graph, index))}
        if not chains:
            return graph, 0
        copy, count = Copy(graph), 0
        for index, node, _ in copy.plan():
            found = [copy.found(k) for k in chains.get(index, ())]
            if not found or not _is_yes(self.condition(*found)):
                copy.add(index, node)
                continue
            made, count = self.replacement(*found), count + 1
            if isinstance(made, tuple):
                copy.add(index, replace(made[0], name=node.name), made[1])
            else:
                copy.replace(index, self, made)
        return (copy.build(), count) if count else (graph, 0)

    def refusals(self, graph: Graph) -> Counter[str]:
        """Return how many chains of nodes match, but are not replaced, by the reason in words."""
        copy, reasons = Copy(graph), Counter[str]()
        for index, node, _ in copy.plan():
            if chain := self._chain(graph, index):
                reason = self.condition(*(copy.found(k) for k in chain))
                reasons.update([reason] if isinstance(reason, str) and reason else [])
            copy.add(index, node)
        return reasons

    def _chain(self, graph: Graph, index: int) -> list[int]:
        """Return the nodes that match, from the last one on; none where they do not."""
        chain = []
        for name in self.pattern:
            node = graph.nodes[index] if index >= 0 else None
            if not isinstance(node, OperatorNode) or node.operator.short_name not in name.split():
                return []
            chain.append(index)
            index, _ = graph.reads[index].get(self.read, (-1, 0))
        return chain


def _is_yes(answer: bool | str) -> bool:
    return answer == "" if isinstance(answer, str) else bool(answer)


class GraphRewrite(Protocol):
    """A rewrite of whole graphs, as `Rewrite` is one of chains of nodes."""

    @property
    def name(self) -> str:
        """Return how reports name it."""
        ...

    def once(self, graph: Graph) -> tuple[Graph, int]:
        """Return the graph that it makes, and how many nodes are other ones."""
        ...


@dataclass(frozen=True)
class Found:
    """A node that a rewrite looks at.

    `found[0]` or `found["input_tensor"]` is an input as an expression, None where the node leaves
    it out.

    Attributes:
        operator: the operator of the node.
        readers: how many inputs of nodes and outputs of the graph read the node's outputs.
        is_output: whether the graph gives an output of the node.
    """

    operator: Operator
    readers: int
    is_output: bool
    _inputs: Sequence[tuple[str, Expression]]
    _varying: frozenset[Source]

    @property
    def inputs(self) -> list[Expression]:
        """Return the inputs that the node reads, in their order."""
        return [expression for _, expression in self._inputs]

    @property
    def output(self) -> TensorDesc:
        """Return the tensor of the first output."""
        return self.operator.outputs[0]

    def __getitem__(self, key: int | str) -> Any:
        if isinstance(key, int):
            return self.inputs[key]
        return next((expression for field, expression in self._inputs if field == key), None)

    def is_fixed(self, *keys: int | str) -> bool:
        """Return whether inputs follow from constants and OWNED_BY_DML inputs of the graph alone.

        Such are the weights of a network. Inputs that are left out are fixed.
        """
        return not any(self[k] is not None and self[k].source in self._varying for k in keys)


def rewritten(
    graph: Graph, rewrites: Iterable[Rewrite | GraphRewrite]
) -> tuple[Graph, dict[str, int]]:
    """Return what rewrites make of a graph, and how many nodes each one replaced, by its name.

    Each rewrite walks the whole graph, those within its functions too, until it finds no more. The
    graph itself stays as it is. Its results are the same up to rounding.

    Args:
        graph: the graph.
        rewrites: the rewrites, in the order in which they are applied.

    Raises `DmlError` where a replacement has another type, other sizes or other strides.
    """
    counts: dict[str, int] = {}
    for rewrite in rewrites:
        counts[rewrite.name] = 0
        for _ in range(_PASSES_MAX):
            graph, count = _everywhere(graph, rewrite)
            counts[rewrite.name] += count
            if not count:
                break
    return graph, counts


def refusals(graph: Graph, rewrites: Iterable[Rewrite | GraphRewrite]) -> dict[str, Counter[str]]:
    """Return why nodes that match a rewrite are not replaced, and how many, by the rewrite's name.

    The arguments are those of `rewritten`. It rewrites the graph again, since a node may become
    another one before a rewrite looks at it: nothing has to be kept for a report that few ask for.
    """
    reasons = {}
    for rewrite in rewrites:
        graph, _ = rewritten(graph, [rewrite])
        if isinstance(rewrite, Rewrite):
            parts = [graph, *(g for node in graph.functions for g in node.graphs)]
            reasons[rewrite.name] = sum(map(rewrite.refusals, parts), Counter[str]())
    return reasons


def _everywhere(graph: Graph, rewrite: Rewrite | GraphRewrite) -> tuple[Graph, int]:
    """Return the graph rewritten once, and the graphs within its nodes; and how many nodes were."""
    inner, total = dict[int, AnyNode](), 0
    for index, node in enumerate(graph.nodes):
        if isinstance(node, FunctionNode) and node.graphs:
            parts, counts = zip(*(_everywhere(part, rewrite) for part in node.graphs), strict=True)
            inner[index], total = replace(node, graphs=parts), total + sum(counts)
    if total:
        copy = Copy(graph)
        for index, node, _ in copy.plan():
            copy.add(index, inner.get(index, node))
        graph = copy.build()
    graph, count = rewrite.once(graph)
    return graph, total + count


class Copy:
    """A graph that is built again node by node, with replacements.

    Attributes:
        builder: makes the new graph.
    """

    def __init__(self, graph: Graph):
        self._graph, self.builder = graph, GraphBuilder()
        self._made: dict[Source, Source] = {}  # the sources of the old graph in the new one
        self._varying: set[Source] = set()  # in the new graph
        for outer, name, edge in graph.named_inputs:
            source = self.builder.input_tensor(name, edge).source
            self._made[outer] = source
            if not isinstance(edge, TensorDesc) or TensorFlags.OWNED_BY_DML not in edge.flags:
                self._varying.add(source)
        edges = [*(s for read in graph.reads for s in read.values()), *graph.ends.values()]
        self._readers = Counter(node for node, _ in edges)
        self._ends = {node for node, _ in graph.ends.values()}

    def plan(self) -> Iterator[tuple[int, AnyNode, Sequence[Source]]]:
        """Yield the graph's plan; what is added at a node has its origin."""
        for index, node, sources in self._graph.plan:
            with self.builder.made_of(vars(node).get("origin", "")):
                yield index, node, sources

    def reads(self, index: int) -> dict[int, Source]:
        """Return the sources of a node's inputs in the new graph, by the index that edges use."""
        return {slot: self._made[source] for slot, source in self._graph.reads[index].items()}

    def found(self, index: int) -> Found:
        """Return a node, with its inputs in the new graph."""
        node = self._graph.nodes[index]
        assert isinstance(node, OperatorNode)
        fields = [f for _, f, _ in node.operator.tensors(output=False)]
        slots, reads = node.slots(output=False), sorted(self.reads(index).items())
        expressions = [Expression(slots[slot][1], self.builder, s) for slot, s in reads]
        inputs = [*zip(fields, expressions, strict=True)]
        is_output, varying = index in self._ends, frozenset(self._varying)
        return Found(node.operator, self._readers[index], is_output, inputs, varying)

    def _keep(self, index: int, slot: int, expression: Expression, is_varying: bool) -> None:
        self._made[index, slot] = expression.source
        if is_varying:
            self._varying.add(expression.source)

    def add(self, index: int, node: AnyNode, other: Mapping[int, Expression] = {}) -> None:
        """Copy a node, or add `node` in its place, with `other` for some of its inputs."""
        reads = self.reads(index) | {slot: e.source for slot, e in other.items()}
        is_varying = isinstance(node, FunctionNode) or not self._varying.isdisjoint(reads.values())
        for expression in self.builder.add(node, reads):
            self._keep(index, expression.source[1], expression, is_varying)

    def replace(self, index: int, rewrite: Rewrite, new: Any) -> None:
        """Let an expression stand for the output of a node. Raises `DmlError` if it does not."""
        slots = enumerate(self._graph.nodes[index].slots(output=True))
        (slot, tensor), *others = [(slot, t) for slot, (_, t) in slots if t is not None]
        is_own = isinstance(new, Expression) and new.builder is self.builder and not others
        size = tensor.total_tensor_size_in_bytes  # which is the same to its last byte
        if not (
            is_own
            and same_layout(new.desc, tensor)
            and self.builder.written(new.source).total_tensor_size_in_bytes == size
        ):
            rule = f"give an expression of {tensor.shown()}, the only output of the node"
            shown = Unquoted(new.desc.shown() if isinstance(new, Expression) else repr(new))
            raise DmlError([Fault("", f"the rewrite '{rewrite.name}'", rule, shown)])
        varying = not self._varying.isdisjoint(self.reads(index).values())
        self._keep(index, slot, new, varying)

    def build(self) -> Graph:
        """Return the new graph: the old one's outputs, and the inputs that they depend on."""
        return built(self._graph, self.builder, self._made.__getitem__)


def built(graph: Graph, builder: GraphBuilder, made: Callable[[Source], Source]) -> Graph:
    """Return the graph with the outputs of another one, whose sources `made` gives for its own."""
    outputs = {}
    for index, name in enumerate(graph.output_names or ()):
        source = made(graph.ends[index])
        output = Expression(graph.outputs[index], builder, source)
        outputs[name] = dml.identity(output) if source[0] < 0 else output
    return builder.build(outputs, True, graph.counted)

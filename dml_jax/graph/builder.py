"""Graphs made by hand: expressions in the manner of DirectMLX and PyDirectML."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dml_jax.errors import DmlError, Expect, Fault, Unquoted
from dml_jax.graph.graph import Graph
from dml_jax.graph.parts import (
    ConstantNode,
    InputEdge,
    IntermediateEdge,
    OperatorNode,
    OutputEdge,
    Source,
    layout_of,
    same_value,
    shown_at,
)
from dml_jax.operator import Operator
from dml_jax.tensor import Placeholder, TensorDesc, shown_array


@dataclass(frozen=True, eq=False)
class Expression(Placeholder):
    """A tensor of a graph in the making: a graph input, a constant, or an output of an operator.

    Operators and functions that are called with one add a node to the graph.
    """

    desc: TensorDesc
    builder: "GraphBuilder" = field(repr=False)
    source: Source = field(repr=False)

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.desc.sizes

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes, by the name that arrays have for them."""
        return self.desc.sizes

    @property
    def dtype(self) -> np.dtype:
        """The elements' type."""
        return self.desc.dtype

    def takes(self, operator: Operator, values: Sequence[Any]) -> Any:
        """What calling the operator with these values gives: a node's outputs."""
        return self.builder.apply(operator, *values)

    def _as_array(self, *_: Any, **__: Any) -> Any:
        rule = (
            "be given to operators only (what jax.numpy and + - * / do is for arrays: "
            "write a function of arrays, which jax.jit compiles)"
        )
        raise DmlError([Fault(Graph.c_name, "an expression", rule, self.desc.shown())])

    __jax_array__ = property(_as_array)  # JAX asks for it, and does not call it
    __array__ = __neg__ = _as_array
    __add__ = __sub__ = __mul__ = __truediv__ = __pow__ = _as_array
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rpow__ = _as_array


class GraphBuilder:
    """Makes a graph an operator at a time, in the manner of DirectMLX and PyDirectML."""

    def __init__(self) -> None:
        self._inputs: list[str] = []
        self._nodes: list[OperatorNode | ConstantNode] = []
        self._edges: list[tuple[Source, int, int]] = []  # what is read, by which node's which slot

    def __repr__(self) -> str:
        return f"<GraphBuilder: {len(self._inputs)} inputs, {len(self._nodes)} nodes>"

    def input_tensor(self, name: str, desc: TensorDesc) -> Expression:
        """The next input of the graph. Raises `DmlError` where the name is taken."""
        expect = Expect(Graph.c_name)
        expect(isinstance(name, str) and bool(name), "the input's name", "be a name", name)
        expect(name not in self._inputs, "the input's name", "differ from the others", name)
        expect(isinstance(desc, TensorDesc), "the input's tensor", "be a TensorDesc", desc)
        expect.check()
        self._inputs.append(name)
        return Expression(desc, self, (-1, len(self._inputs) - 1))

    def constant(self, array: Any, name: str | None = None) -> Expression:
        """An array that becomes a part of the graph."""
        node = ConstantNode(array, name)
        self._nodes.append(node)
        return Expression(node.tensor, self, (len(self._nodes) - 1, 0))

    def apply(self, operator: Operator, *expressions: Expression, name: str | None = None) -> Any:
        """The operator's output (a tuple where it returns one), given its inputs in order.

        Raises `DmlError` where they are not of its types and sizes, or of another builder.
        """
        node = OperatorNode(operator, name)
        slots = [
            (index, path, tensor)
            for index, (path, tensor) in enumerate(node.slots(output=False))
            if tensor is not None
        ]
        expect = Expect(operator.c_name)
        rule = f"be {len(slots)}, one for each input tensor"
        expect(len(expressions) == len(slots), "the number of expressions", rule, len(expressions))
        for (_, path, tensor), given in zip(slots, expressions, strict=False):
            if self._check_own(expect, path, given):
                rule = f"be {shown_at(given.desc, 'the expression')}"
                shown = TensorDesc(tensor.data_type, tensor.sizes).shown()
                alike = expect(same_value(tensor, given.desc), path, rule, shown)
                if alike and given.source[0] < 0:
                    self._check_memory(expect, path, tensor, given)
        expect.check()
        index = len(self._nodes)
        self._nodes.append(node)
        for (slot, _, _), given in zip(slots, expressions, strict=True):
            self._edges.append((given.source, index, slot))
        results = tuple(
            Expression(tensor, self, (index, slot))
            for slot, (_, tensor) in enumerate(node.slots(output=True))
            if tensor is not None
        )
        return results if operator.returns_tuple else results[0]

    def build(
        self,
        outputs: Expression | Iterable[Expression] | Mapping[str, Expression],
    ) -> Graph:
        """The graph that gives these outputs (a mapping's, by its names), of the nodes they need.

        Raises `DmlError` with all that is wrong with it.
        """
        names: Any = None
        if isinstance(outputs, Mapping):
            names, outputs = list(outputs), list(outputs.values())
        elif isinstance(outputs, Expression):
            outputs = [outputs]
        elif isinstance(outputs, (str, bytes, Set)) or not isinstance(outputs, Iterable):
            rule = "be an expression, several in order, or a mapping of names"
            raise DmlError([Fault(Graph.c_name, "outputs", rule, shown_array(outputs))])
        else:
            outputs = list(outputs)
        expect, sources = Expect(Graph.c_name), []
        for index, given in enumerate(outputs):
            if self._check_own(expect, f"outputs[{index}]", given):
                rule = "be computed by a node"
                value = Unquoted("a graph input")
                if expect(given.source[0] >= 0, f"outputs[{index}]", rule, value):
                    sources.append(given.source)
        expect.check()
        places = {node: place for place, node in enumerate(sorted(self._needed(sources)))}
        edges = [(source, places[n], slot) for source, n, slot in self._edges if n in places]
        return Graph(
            len(self._inputs),
            len(outputs),
            [self._nodes[node] for node in places],
            [InputEdge(i, n, slot) for (source, i), n, slot in edges if source < 0],
            [
                IntermediateEdge(places[source], i, n, slot)
                for (source, i), n, slot in edges
                if source >= 0
            ],
            [OutputEdge(places[node], i, index) for index, (node, i) in enumerate(sources)],
            self._inputs,
            names,
        )

    def _needed(self, sources: Sequence[Source]) -> set[int]:
        """The nodes that these are computed by."""
        needed = {node for node, _ in sources}
        for (source, _), node, _ in reversed(self._edges):  # what reads stands behind what is read
            if node in needed and source >= 0:
                needed.add(source)
        return needed

    def _check_memory(
        self, expect: Expect, path: str, tensor: TensorDesc, given: Expression
    ) -> None:
        """What reads a graph input says of its memory what that says, or demands more."""
        named = f"as graph input {given.source[1]} has"
        for what, known, own in (
            ("strides", layout_of(given.desc), layout_of(tensor)),
            ("Flags", given.desc.flags.name, tensor.flags.name),
        ):
            expect(known == own, path, f"have {what} {known}, {named}", Unquoted(own))
        for what, least, own in (
            (
                "TotalTensorSizeInBytes",
                given.desc.total_tensor_size_in_bytes,
                tensor.total_tensor_size_in_bytes,
            ),
            (
                "GuaranteedBaseOffsetAlignment",
                given.desc.guaranteed_base_offset_alignment,
                tensor.guaranteed_base_offset_alignment,
            ),
        ):
            expect(own >= least, path, f"have {what} of at least {least}, {named}", own)

    def _check_own(self, expect: Expect, path: str, given: Any) -> bool:
        if not expect(isinstance(given, Expression), path, "be an Expression", shown_array(given)):
            return False
        return expect(given.builder is self, path, "be of this builder", Unquoted("another's"))

"""Builds graphs from expressions, in the manner of DirectMLX and PyDirectML."""

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
    """A tensor of an unfinished graph: a graph input, a constant, or an output of an operator.

    An operator or function that is called with an expression adds a node to the graph.
    """

    desc: TensorDesc
    builder: "GraphBuilder" = field(repr=False)
    source: Source = field(repr=False)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the sizes of the tensor."""
        return self.desc.sizes

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the sizes, under the name that arrays have for them."""
        return self.desc.sizes

    @property
    def dtype(self) -> np.dtype:
        """Return the type of the elements."""
        return self.desc.dtype

    def takes(self, operator: Operator, values: Sequence[Any]) -> Any:
        """Add a node of `operator` with `values` as its inputs; return its outputs."""
        return self.builder.apply(operator, *values)

    def _as_array(self, *_: Any, **__: Any) -> Any:
        rule = (
            "be passed to operators only (for jax.numpy and + - * / write a function of arrays "
            "instead of a graph; jax.jit compiles it)"
        )
        raise DmlError([Fault(Graph.c_name, "an expression", rule, self.desc.shown())])

    __jax_array__ = property(_as_array)  # JAX asks for it, and does not call it
    __array__ = __neg__ = _as_array
    __add__ = __sub__ = __mul__ = __truediv__ = __pow__ = _as_array
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rpow__ = _as_array


class GraphBuilder:
    """Builds a graph operator by operator, in the manner of DirectMLX and PyDirectML."""

    def __init__(self) -> None:
        self._inputs: list[str] = []
        self._nodes: list[OperatorNode | ConstantNode] = []
        self._edges: list[tuple[Source, int, int]] = []  # (source, reading node, its input)

    def __repr__(self) -> str:
        return f"<GraphBuilder: {len(self._inputs)} inputs, {len(self._nodes)} nodes>"

    def input_tensor(self, name: str, desc: TensorDesc) -> Expression:
        """Add an input to the graph. Raises `DmlError` if another input has the name."""
        expect = Expect(Graph.c_name)
        expect(isinstance(name, str) and bool(name), "the input's name", "be a name", name)
        expect(name not in self._inputs, "the input's name", "differ from the others", name)
        expect(isinstance(desc, TensorDesc), "the input's tensor", "be a TensorDesc", desc)
        expect.check()
        self._inputs.append(name)
        return Expression(desc, self, (-1, len(self._inputs) - 1))

    def constant(self, array: Any, name: str | None = None) -> Expression:
        """Add an array to the graph as a constant."""
        node = ConstantNode(array, name)
        self._nodes.append(node)
        return Expression(node.tensor, self, (len(self._nodes) - 1, 0))

    def apply(self, operator: Operator, *expressions: Expression, name: str | None = None) -> Any:
        """Add a node of `operator` that reads `expressions`; return its output, or a tuple.

        Raises `DmlError` if types or sizes differ, or if an expression is of another builder.
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
        for (_, path, tensor), value in zip(slots, expressions, strict=False):
            if self._check_own(expect, path, value):
                rule = f"be {shown_at(value.desc, 'the expression')}"
                got = TensorDesc(tensor.data_type, tensor.sizes).shown()
                alike = expect(same_value(tensor, value.desc), path, rule, got)
                if alike and value.source[0] < 0:
                    self._check_memory(expect, path, tensor, value)
        expect.check()
        index = len(self._nodes)
        self._nodes.append(node)
        for (slot, _, _), value in zip(slots, expressions, strict=True):
            self._edges.append((value.source, index, slot))
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
        """Return the graph of these outputs, with the nodes that they need.

        The keys of a mapping become the names of the outputs. Raises `DmlError` with all faults.
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
        for index, output in enumerate(outputs):
            if self._check_own(expect, f"outputs[{index}]", output):
                rule = "be computed by a node"
                got = Unquoted("a graph input")
                if expect(output.source[0] >= 0, f"outputs[{index}]", rule, got):
                    sources.append(output.source)
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
        """Return the nodes that the sources depend on."""
        needed = {node for node, _ in sources}
        for (source, _), node, _ in reversed(self._edges):  # a reader comes after its sources
            if node in needed and source >= 0:
                needed.add(source)
        return needed

    def _check_memory(
        self, expect: Expect, path: str, tensor: TensorDesc, source: Expression
    ) -> None:
        """Check that a reader of the graph input `source` describes its memory alike or larger."""
        named = f"as graph input {source.source[1]} has"
        for name, known, own in (
            ("strides", layout_of(source.desc), layout_of(tensor)),
            ("Flags", source.desc.flags.name, tensor.flags.name),
        ):
            expect(known == own, path, f"have {name} {known}, {named}", Unquoted(own))
        for name, least, own in (
            (
                "TotalTensorSizeInBytes",
                source.desc.total_tensor_size_in_bytes,
                tensor.total_tensor_size_in_bytes,
            ),
            (
                "GuaranteedBaseOffsetAlignment",
                source.desc.guaranteed_base_offset_alignment,
                tensor.guaranteed_base_offset_alignment,
            ),
        ):
            expect(own >= least, path, f"have {name} of at least {least}, {named}", own)

    def _check_own(self, expect: Expect, path: str, value: Any) -> bool:
        """Check that `value` is an expression of this builder."""
        if not expect(isinstance(value, Expression), path, "be an Expression", shown_array(value)):
            return False
        return expect(value.builder is self, path, "be of this builder", Unquoted("another's"))

"""A graph while it is translated, as its nodes see it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx

from dml_jax.errors import Unquoted
from dml_jax.onnx.files.attributes import attribute_value
from dml_jax.onnx.files.local_functions import FunctionKey
from dml_jax.onnx.nodes.network_builder import NetworkBuilder
from dml_jax.onnx.nodes.node import refused
from dml_jax.onnx.nodes.tensor import Scope, Tensor

Results = list[Tensor | None]


class GraphContext(NetworkBuilder):
    """Builds a graph whose nodes are translated, which may have graphs of their own.

    Attributes:
        curable: the nodes among the faults that `fallback` would compute.
        asked: the names of the model's inputs.
        deciding: those of the inputs whose values would cure faults.
        beyond: the label of the ONNX node and the reason, of each `OperatorNode` beyond DirectML,
            by its identity.
        turns: how many turns a Loop may take; None for any number.
        looks: whether indices are looked at, which may lie beyond their table.
        counts: what is counted, and its count, by the identity of what is counted.
        loops: how many loops are around what is translated, whose turns are written out.
        called: the functions around what is translated, whose bodies stand in place of a node.
        inner: returns the context of a graph within a node of this one, which may have another
            `fallback`.
        graph: translates the nodes of a graph that some outputs depend on; returns the outputs.
        call: translates the body of a function in place of the node that calls it.
    """

    def __init__(self, fallback: bool, outer: NetworkBuilder | None = None):
        super().__init__(fallback, outer)
        self.curable: list[str] = []
        self.asked, self.deciding = set[str](), set[str]()
        self.beyond: dict[int, tuple[str, str]] = {}
        self.turns: int | None = None
        self.looks = True
        self.counts: dict[int, tuple[Any, Tensor]] = {}
        self.loops = 0
        self.called: tuple[FunctionKey, ...] = ()

    @property
    def is_inner(self) -> bool:
        """Return whether this translates a graph within a node."""
        return self._outer is not None or self.loops > 0

    def blame(self, tensors: Sequence[Any]) -> None:
        """Note the inputs that `tensors` follow from, where nothing else decides them."""
        found, left = dict[int, Tensor](), [*tensors]
        while left:
            tensor = left.pop()
            if isinstance(tensor, Tensor) and not tensor.is_known and id(tensor) not in found:
                found[id(tensor)] = tensor
                left += tensor.made_by.inputs if tensor.made_by else ()
        names = {tensor.name for tensor in found.values() if tensor.made_by is None}
        self.deciding |= names if names <= self.asked else set()

    inner: Callable[..., "GraphContext"]
    graph: Callable[[Any, Scope, Sequence[str], Mapping[str, int]], Results]
    call: Callable[[onnx.FunctionProto, onnx.NodeProto, Sequence[Tensor | None]], Results]


@dataclass(frozen=True)
class Site:
    """A node, and the graph around it, as what translates the node in place reads them.

    Attributes:
        translation: the translation of the graph around it.
        proto: the node.
        inputs: tensors, sequences of these, None for an input that is left out.
        scope: the tensors and sequences of the graph around it, by name.
        opsets: the version of each domain.
    """

    translation: GraphContext
    proto: onnx.NodeProto
    inputs: Sequence[Any]
    scope: Scope
    opsets: Mapping[str, int]

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute, `default` where it is left out."""
        return next((attribute_value(a) for a in self.proto.attribute if a.name == name), default)

    def get(self, index: int) -> Any:
        """Return input `index`, None where it is left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def graph(self, name: str) -> onnx.GraphProto:
        """Return the graph that is the attribute `name`."""
        graph = self.attribute(name)
        if graph is None:
            raise refused(name, "be given", Unquoted("nothing"))
        return graph

    def inlined(self, graph: onnx.GraphProto, scope: Scope) -> list[Any]:
        """Return the outputs of a graph within the node, translated in the graph around it."""
        return self.translation.graph(graph, scope, [o.name for o in graph.output], self.opsets)

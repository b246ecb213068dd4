"""DML_GRAPH_DESC: operators joined into one function.

Source: the DML_GRAPH_DESC page and those of its nodes and edges, of DirectML's documentation.
"""

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

import jax

from dml_jax.bindable import Bindable, BindPoint
from dml_jax.enums import FeatureLevel
from dml_jax.errors import DmlError, Fault, Unquoted
from dml_jax.fields import Array, Count, Structure, UInt
from dml_jax.files import distinct_keys, path_given, read_parsed, write_npy, write_whole
from dml_jax.graph.parts import (
    ConstantNode,
    InputEdge,
    IntermediateEdge,
    Name,
    Node,
    OperatorNode,
    OutputEdge,
    Part,
    Source,
    label_of,
)
from dml_jax.graph.wiring import Wiring
from dml_jax.tensor import TensorDesc


@jax.tree_util.register_static
class Graph(Part, Bindable, c_name="DML_GRAPH_DESC", kw_only=False):
    """DML_GRAPH_DESC: operators joined by edges; checked whole, and called as one operator is.

    `graph(x, ...)` takes one array for each graph input, and returns the graph output (a tuple
    where there are several). It is one program, in which each node is a scope of its own name.

    Choices: edges carry values, so the tensors at both ends have one type and sizes, and strides
    matter only where memory is: what reads one graph input has one layout. (DirectML's edges carry
    bytes: its tensors may differ where their bytes are as many.) An output of a node may be left
    unread, if another of its outputs is read.

    Fields:
        input_count, output_count: how many arrays it takes, and returns.
        nodes: `OperatorNode` and `ConstantNode`.
        input_edges, intermediate_edges, output_edges: what they join, by index or by name.
        input_names, output_names: what memory is bound by; Input0, ..., Output0, ... by default.

    Source: DML_GRAPH_DESC.
    """

    is_one = False

    input_count: UInt
    output_count: UInt
    nodes: Annotated[Sequence[OperatorNode | ConstantNode], Array(Node()), Count("NodeCount")]
    input_edges: Annotated[
        Sequence[InputEdge], Array(Structure(InputEdge)), Count("InputEdgeCount")
    ]
    intermediate_edges: Annotated[
        Sequence[IntermediateEdge],
        Array(Structure(IntermediateEdge)),
        Count("IntermediateEdgeCount"),
    ]
    output_edges: Annotated[
        Sequence[OutputEdge], Array(Structure(OutputEdge)), Count("OutputEdgeCount")
    ]
    input_names: Annotated[Sequence[str], Array(Name()), Count("InputCount")] | None = None
    output_names: Annotated[Sequence[str], Array(Name()), Count("OutputCount")] | None = None

    def _check(self, faults: list[Fault], present: Mapping[str, Any]) -> None:
        if len(present) < len(self.fields):
            return
        wiring = Wiring(self)
        faults += wiring.faults
        if not faults:
            self.__dict__.update(wiring.resolved, _wiring=wiring)

    def tensors(self, output: bool | None = None) -> Iterator[tuple[str, str, TensorDesc]]:
        """(name, name, tensor) of the graph's inputs and outputs."""
        for point in self.bind_points():
            if output is None or point.output == output:
                yield point.name, point.name, point.tensors[0]

    def bind_points(self) -> Iterator[BindPoint]:
        """Where memory is bound: the graph's inputs and outputs, by their names."""
        wiring: Wiring = self.__dict__["_wiring"]
        for index, name in enumerate(wiring.input_names):
            yield BindPoint(name, (wiring.inputs[index],), False, False)
        for index, name in enumerate(wiring.output_names):
            yield BindPoint(name, (wiring.outputs[index],), True, False)

    def _described(self) -> Iterator[tuple[str, TensorDesc]]:
        for index, node in enumerate(self.nodes):
            for path, tensor in (*node.slots(output=False), *node.slots(output=True)):
                if tensor is not None:
                    yield f"Nodes[{index}].{path}", tensor

    def refused_at(self, feature_level: FeatureLevel | str) -> tuple[Fault, ...]:
        """Why a feature level does not take one of the operators, each within its node."""
        level, faults = FeatureLevel.of(feature_level), []
        for index, node in enumerate(self.nodes):
            if isinstance(node, OperatorNode):
                found = DmlError(node.operator.refused_at(level))
                faults += found.within(label_of(index, node).capitalize()).faults
        return tuple(faults)

    @functools.cached_property
    def minimum_feature_level(self) -> FeatureLevel:
        """The lowest feature level that takes all of the operators."""
        operators = (node.operator for node in self.nodes if isinstance(node, OperatorNode))
        levels = (operator.minimum_feature_level for operator in operators)
        return max(levels, default=min(FeatureLevel))

    @property
    def plan(self) -> "Sequence[tuple[int, OperatorNode | ConstantNode, list[Source]]]":
        """(index, node, what it reads) of each node, after those that it reads.

        What is read is (node, which of its results); the inputs of the graph are those of node -1.
        """
        return self.__dict__["_wiring"].plan

    @property
    def results(self) -> list[Source]:
        """What the graph returns, as `plan` says what a node reads."""
        return self.__dict__["_wiring"].results

    def compute(self, *arrays: Any) -> Sequence[jax.Array]:
        """All results of arrays that nobody checks, in no program of its own."""
        values: list[Sequence[Any]] = [*(() for _ in self.nodes), arrays]  # the last is node -1
        for index, node, sources in self.plan:
            with jax.named_scope(node.name or str(index)):
                values[index] = node(*(values[n][i] for n, i in sources))
        return [values[n][i] for n, i in self.results]

    def __repr__(self) -> str:
        return f"Graph({len(self.nodes)} nodes: {self.describe()})"

    def save(self, path: str | Path) -> None:
        """Writes the graph as JSON, and each constant beside it as <stem>.<node>.npy."""
        path, value = path_given(path, "path"), self.to_json()
        for index, node in enumerate(self.nodes):
            if isinstance(node, ConstantNode):
                target, array = path.with_name(f"{path.stem}.{index}.npy"), node.array
                write_whole(target, lambda file, a=array: write_npy(file, a))
                stored = value["Nodes"][index]["Array"]
                del stored["Data"]
                stored["SourcePath"] = target.name
        text = json.dumps(value, indent=1)
        write_whole(path, lambda file: file.write(text.encode()))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The graph that `save` wrote. Raises `DmlError` with all that is wrong with the file."""
        path = path_given(path, "path")

        def parse(data: bytes) -> Self:
            value = json.loads(data, object_pairs_hook=distinct_keys)
            if isinstance(value, dict) and "dispatchables" in value:
                rule = "hold a graph (`dml-jax run` takes models)"
                raise DmlError([Fault("", "the file", rule, Unquoted("a model"))])
            return cls.from_json(value, path.parent)

        return read_parsed(path, "Graph", parse)

    @classmethod
    def from_json(cls, value: Any, folder: str | Path = "") -> Self:
        """The graph that a JSON object holds; the inverse of `to_json`.

        Args:
            value: the object.
            folder: where the files of its constants are (`SourcePath`).

        Raises `DmlError` with all that is wrong.
        """
        nodes = value.get("Nodes") if isinstance(value, Mapping) else None
        if isinstance(nodes, list):
            value = {**value, "Nodes": [_within(Path(folder), node) for node in nodes]}
        return super().from_json(value)


def _within(folder: Path, node: Any) -> Any:
    """A node in JSON, with the file of its constant, if it has one, in the folder."""
    array = node.get("Array") if isinstance(node, dict) else None
    if not isinstance(array, dict) or not isinstance(array.get("SourcePath"), str):
        return node
    return {**node, "Array": {**array, "SourcePath": str(folder / array["SourcePath"])}}

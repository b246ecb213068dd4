"""DML_GRAPH_DESC: operators joined into one function.

Source: the DML_GRAPH_DESC page and those of its nodes and edges, of DirectML's documentation.
"""

import functools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.description.fields import Array, Count, Structure, UInt
from dml_jax.description.tensor import TensorDesc
from dml_jax.enums import FeatureLevel
from dml_jax.errors import DmlError, Fault, Unquoted, expect_few
from dml_jax.graph.bfloat16 import computed, is_narrow, through_float32
from dml_jax.graph.parts import (
    LITERAL_BYTES,
    AnyNode,
    ConstantNode,
    Edge,
    Ends,
    FunctionNode,
    InputEdge,
    IntermediateEdge,
    Name,
    Node,
    OperatorNode,
    OutputEdge,
    Part,
    Source,
    label_of,
    padding_of,
    reached,
    reinterpreted,
    scope_of,
)
from dml_jax.graph.wiring import Wiring
from dml_jax.lowering.platform_forms import stored
from dml_jax.operator import Operator
from dml_jax.operator.call import Bindable, BindPoint
from dml_jax.system.files import as_path, distinct_keys, parse_file, write_npy, write_whole

_REPEATED = 8  # equal nodes


@functools.lru_cache(maxsize=1024)
def _called(operator: Operator) -> Any:
    """Return the function of an operator's arrays that JAX traces once, and XLA inlines."""
    node = OperatorNode(operator)
    return jax.jit(lambda *arrays: tuple(computed(node, arrays)))


@jax.tree_util.register_static
class Graph(Part, Bindable, c_name="DML_GRAPH_DESC", kw_only=False):
    """DML_GRAPH_DESC: operators joined by edges; checked whole, and called as one operator is.

    A graph may also have functions of arrays among its nodes (`FunctionNode`), which DML_GRAPH_DESC
    lacks: `dml_jax.graph.cut` gives the graphs between them.

    `graph(x, ...)` takes one array for each graph input, also by name. It returns the graph output,
    or a tuple of several. It is one program; each node is a scope with the node's name.

    Edges carry bytes: the tensors at both ends have one TotalTensorSizeInBytes, and may differ in
    type, sizes and strides. Equal tensors cost nothing; others are read as the bytes say. Bytes
    between elements are 0.

    Choice: an output of a node may be left unread, if another of its outputs is read.

    Fields:
        input_count, output_count: the number of arrays that a call takes, and returns.
        nodes: `OperatorNode`, `ConstantNode` and `FunctionNode`.
        input_edges, intermediate_edges, output_edges: the edges; ends by index or by name.
        input_names, output_names: names to bind memory by; Input0, ..., Output0, ... by default.
        input_tensors: the tensors of the graph's inputs. By default an input has the tensor of the
            first edge that reads it.
        output_tensors: the tensors of the graph's outputs. By default an output has the tensor that
            its node writes; another one reads the same bytes.

    Source: DML_GRAPH_DESC.
    """

    input_count: UInt
    output_count: UInt
    nodes: Annotated[Sequence[AnyNode], Array(Node()), Count("NodeCount")]
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
    input_tensors: Annotated[Sequence[TensorDesc], Array(Ends()), Count("InputCount")] | None = None
    output_tensors: Annotated[Sequence[TensorDesc], Array(Ends()), Count("OutputCount")] | None = (
        None
    )

    # What follows from the edges, of each graph: a `ClassVar` is no field.
    plan: ClassVar[Sequence[tuple[int, AnyNode, list[Source]]]]
    """(index, node, sources) of each node, after its sources: (node, number of its result)."""
    reads: ClassVar[Sequence[Mapping[int, Source]]]
    """The sources of the inputs of each node, by the indices that edges use."""
    ends: ClassVar[Mapping[int, Source]]
    """The sources of the graph's outputs, which count as in `reads`."""
    results: ClassVar[list[Source]]
    """The sources of the graph's outputs, which count as in `plan`."""
    views: ClassVar[Mapping[tuple[int, int], tuple[TensorDesc, TensorDesc]]]
    """(written, read) tensors of inputs that read bytes as another, by node and place in `plan`."""
    output_views: ClassVar[Mapping[int, tuple[TensorDesc, TensorDesc]]]
    """The same, of the graph's outputs."""

    def _check(self, faults: list[Fault], present: Mapping[str, Any]) -> None:
        if len(present) < len(self.fields):
            return
        wiring = Wiring(self.c_name, **present)
        faults += wiring.faults
        if not faults:
            names = ("plan", "reads", "ends", "results", "views", "output_views")
            followed = {name: getattr(wiring, name) for name in names}
            self.__dict__.update(wiring.resolved, _wiring=wiring, **followed)

    @property
    def kind(self) -> str:
        """Return how tables and pictures name the graph."""
        return f"graph of {len(self.nodes)} nodes"

    def tensors(self, output: bool | None = None) -> Iterator[tuple[str, str, TensorDesc]]:
        """Yield (name, name, tensor) of the graph's inputs and outputs."""
        for point in self.bind_points():
            if output is None or point.output == output:
                yield point.name, point.name, point.tensors[0]

    def bind_points(self) -> Iterator[BindPoint]:
        """Yield the graph's inputs and outputs, to which memory is bound by their names."""
        wiring: Wiring = self.__dict__["_wiring"]
        for index, name in enumerate(wiring.input_names):
            yield BindPoint(name, (wiring.inputs[index],), False, False)
        for index, name in enumerate(wiring.output_names):
            yield BindPoint(name, (wiring.outputs[index],), True, False)

    def _described(self) -> Iterator[tuple[str, TensorDesc]]:
        for index, node in enumerate(self.nodes):
            for path, tensor in (*node.slots(output=False), *node.slots(output=True)):
                if isinstance(tensor, TensorDesc):
                    yield f"Nodes[{index}].{path}", tensor

    @property
    def functions(self) -> "Iterator[FunctionNode]":
        """Yield the nodes that are no operators, each before those of the graphs within it."""
        return (node for _, node in self.all_nodes if isinstance(node, FunctionNode))

    @property
    def all_nodes(self) -> "Iterator[tuple[int, AnyNode]]":
        """Yield (index, node) of all nodes; each node is followed by those of graphs within it."""
        for index, node in enumerate(self.nodes):
            yield index, node
            if isinstance(node, FunctionNode):
                for graph in node.graphs:
                    yield from graph.all_nodes

    @property
    def operators(self) -> Iterator[Operator]:
        """Yield the operators, those of the graphs within nodes included."""
        return (node.operator for _, node in self.all_nodes if isinstance(node, OperatorNode))

    def refused_at(self, feature_level: FeatureLevel | str) -> tuple[Fault, ...]:
        """Return why a feature level refuses operators of the graph, each within its node."""
        level, faults = FeatureLevel.of(feature_level), []
        for index, node in self.all_nodes:
            if isinstance(node, OperatorNode):
                refusals = DmlError(node.operator.refused_at(level))
                faults += refusals.within(label_of(index, node).capitalize()).faults
        return tuple(faults)

    @functools.cached_property
    def minimum_feature_level(self) -> FeatureLevel:
        """Return the lowest feature level that accepts all of the operators."""
        levels = (operator.minimum_feature_level for operator in self.operators)
        return max(levels, default=min(FeatureLevel))

    @functools.cached_property
    def named_inputs(self) -> Sequence[tuple[Source, str, Any]]:
        """Return (source, name, tensor) of each input."""
        pairs = zip(self.input_names or (), self.inputs, strict=True)
        return [((-1, k), name, tensor) for k, (name, tensor) in enumerate(pairs)]

    @functools.cached_property
    def counted(self) -> Mapping[str, tuple[int, str]]:
        """The outputs whose size data decides, by name: (the dimension, the output that counts).

        Behind the elements that are there, such an output has a padding.
        """
        names = self.output_names or ()
        edges = ((names[int(edge.graph_output_index)], edge) for edge in self.output_edges)
        return {name: found for name, edge in edges if (found := padding_of(edge))}

    @functools.cached_property
    def padded(self) -> Mapping[Source, tuple[int, str]]:
        """The arrays of which data decides a size, by source: (the dimension, the size's name)."""
        read = (*self.input_edges, *self.intermediate_edges)
        edges: list[tuple[Source, Any]] = [
            (self.reads[int(e.to_node_index)][e.to_node_input_index], e) for e in read
        ]
        edges += [
            (self.ends[index], e)
            for e in self.output_edges
            if (index := int(e.graph_output_index)) not in self.output_views
        ]
        return {source: found for source, edge in edges if (found := padding_of(edge))}

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """Compute the output, or a tuple of several, of arrays in their order, then by name.

        Raises `DmlError` where shapes, types or names are not those of the inputs.
        """
        names = (self.input_names or ())[len(arrays) :] if named else ()
        if {*names} != named.keys():
            rule = f"be {', '.join(names) or 'none'}"
            raise DmlError([Fault(self.c_name, "the named arrays", rule, [*named])])
        return super().__call__(*arrays, *(named[name] for name in names))

    @functools.cached_property
    def constants(self) -> Sequence[np.ndarray]:
        """Return the arrays of large constants, in the order of their nodes."""
        return tuple(self._large.values())

    @functools.cached_property
    def _large(self) -> Mapping[int, np.ndarray]:
        """Return the arrays by which a program would grow, by the index of the node."""
        return {
            index: node.array
            for index, node in enumerate(self.nodes)
            if isinstance(node, ConstantNode) and node.array.nbytes > LITERAL_BYTES
        }

    @functools.cached_property
    def _repeated(self) -> frozenset[Operator]:
        """Return the operators of so many nodes, as of equal layers, that JAX traces them once."""
        counts = Counter(node.operator for node in self.nodes if isinstance(node, OperatorNode))
        return frozenset(operator for operator, count in counts.items() if count >= _REPEATED)

    def compute(self, *arrays: Any) -> Sequence[jax.Array]:
        """Return all results, in their order, of arrays that are not checked; without `jax.jit`.

        The arrays are the inputs, and after them the constants, which may be left out. Arrays of
        bfloat16 may stand for FLOAT32 (`dml_jax.graph.bfloat16`).
        """
        inputs, constants = arrays[: self.input_count], arrays[self.input_count :]
        return self.computed({(-1, k): array for k, array in enumerate(inputs)}, constants)

    def computed(self, known: Mapping[Source, Any], constants: Sequence[Any] = ()) -> list[Any]:
        """Return all results, in their order, of inputs and other arrays by their sources.

        `constants` stand for the large constants of the graph, if any are given.
        """
        results = self.evaluated(known, self.results, constants)
        for index, view in self.output_views.items():
            results[index] = through_float32(reinterpreted, results[index], *view)
        return results

    def evaluated(
        self, known: Mapping[Source, Any], wanted: Sequence[Source], constants: Sequence[Any] = ()
    ) -> list[Any]:
        """Return the arrays of the sources `wanted`, computed by the nodes that they depend on.

        `known` has arrays by their sources. `constants` stand for the large constants of the graph,
        if any are given.
        """
        values = dict(known)
        given = dict(zip(self._large, constants or map(_literal, self.constants), strict=True))
        read: list[list[int]] = [[] for _ in self.nodes]
        for index, _, sources in self.plan:
            read[index] = [source[0] for source in sources if source not in known]
        needed = reached((source[0] for source in wanted if source not in known), read)
        readers = Counter(source for _, _, sources in self.plan for source in sources)
        for index, node, sources in self.plan:
            if index not in needed:
                continue
            inputs = [values[source] for source in sources]
            with jax.named_scope(scope_of(index, node)):
                for place, array in enumerate(inputs):
                    if (index, place) in self.views:
                        view = self.views[index, place]
                        inputs[place] = through_float32(reinterpreted, array, *view)
                if index in given:
                    made = [given[index]]
                elif isinstance(node, OperatorNode) and node.operator in self._repeated:
                    made = _called(node.operator)(*inputs)
                else:
                    made = computed(node, inputs)
                if not isinstance(node, ConstantNode) and node.operator is not None:
                    # Or each reader would compute it again on a CPU.
                    made = [stored(x) if readers[index, i] > 1 else x for i, x in enumerate(made)]
            values |= {(index, i): array for i, array in enumerate(made)}
        return [values[source] for source in wanted]

    def __repr__(self) -> str:
        return f"Graph({len(self.nodes)} nodes: {self.describe()})"

    def _repr_svg_(self) -> str | None:
        """Return the picture for notebooks as SVG; None until `show.diagrams` replaces this."""
        return None

    def save(self, path: str | Path) -> None:
        """Write the graph as JSON, and each constant beside it as <stem>.<node>.npy."""
        path, value = as_path(path, "path"), self.to_json()
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
        """Return the graph that `save` wrote. Raises `DmlError` with all faults of the file."""
        path = as_path(path, "path")

        def parse(data: bytes) -> Self:
            value = json.loads(data, object_pairs_hook=distinct_keys)
            if isinstance(value, dict) and "dispatchables" in value:
                rule = "hold a graph (`dml-jax run` takes models)"
                raise DmlError([Fault("", "the file", rule, Unquoted("a model"))])
            return cls.from_json(value, path.parent)

        return parse_file(path, "Graph", parse)

    @classmethod
    def from_json(cls, value: Any, folder: str | Path = "") -> Self:
        """Return the graph of a JSON object; the inverse of `to_json`.

        The files of its constants (`SourcePath`) are in `folder`. Raises `DmlError` with all
        faults.
        """
        nodes = value.get("Nodes") if isinstance(value, Mapping) else None
        if isinstance(nodes, list):
            expect_few("the number of Nodes", len(nodes))
            value = {**value, "Nodes": [_within(Path(folder), node) for node in nodes]}
        return super().from_json(value)


def inner(array: Any, edge: Edge) -> jax.Array:
    """Return an array as an edge carries it; bfloat16 may stand for FLOAT32."""
    is_kept = is_narrow(array) and isinstance(edge, TensorDesc) and edge.dtype == np.float32
    array = jnp.asarray(array)
    return (array if is_kept else array.astype(edge.dtype)).reshape(edge.sizes)


def sources_of(graph: Graph, values: Mapping[str, Any]) -> dict[Source, Any]:
    """Return the inputs of a graph that `values` has by name, as its edges carry them."""
    points = graph.named_inputs
    return {source: inner(values[name], edge) for source, name, edge in points if name in values}


def _within(folder: Path, node: Any) -> Any:
    """Return a node in JSON, with the path of its constant's file, if it has one, from `folder`."""
    array = node.get("Array") if isinstance(node, dict) else None
    if not isinstance(array, dict) or not isinstance(array.get("SourcePath"), str):
        return node
    return {**node, "Array": {**array, "SourcePath": str(folder / array["SourcePath"])}}


def _literal(array: np.ndarray) -> jax.Array:
    """Return a constant of a program; XLA computes nothing from a large one while it compiles.

    It would do so element by element, so that the time to compile would grow with the constant.
    """
    literal = jnp.asarray(array)
    return lax.optimization_barrier(literal) if array.size > _FOLDED_MAX else literal


_FOLDED_MAX = 1 << 12  # elements

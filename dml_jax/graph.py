"""DML_GRAPH_DESC: operators joined into one function; and the builder that joins them.

Source: the DML_GRAPH_DESC page and those of its nodes and edges, of DirectML's documentation.
"""

import base64
import binascii
import functools
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from dml_jax.descriptor import Descriptor
from dml_jax.enums import FeatureLevel, TensorFlags
from dml_jax.errors import NOTHING, DmlError, Fault, Unquoted, nearest
from dml_jax.fields import UINT, Array, Count, Kind, Structure, UInt, refuse
from dml_jax.files import write_whole
from dml_jax.operator import Bindable, BindPoint, Expect, Operator, operator_from_json, trace
from dml_jax.tensor import TensorDesc, shown_array

Slots = list[tuple[str, TensorDesc | None]]
"""(path, tensor) of what edges may join, by its index; no tensor where an optional one is left out,
since DirectML counts those too."""

Source = tuple[int, int]
"""A node, and which of its outputs. The inputs of the graph stand as node -1."""


class _Name(Kind):
    def convert(self, value: Any) -> str:
        if not isinstance(value, str) or not value:
            raise refuse("be a name", value)
        return value


class _Reference(Kind):
    """A UINT, or the name of what it counts."""

    def convert(self, value: Any) -> int | str:
        return value if isinstance(value, str) else UINT.convert(value)


class _Operator(Kind):
    def convert(self, value: Any) -> Operator:
        if not isinstance(value, Operator):
            raise refuse("be an operator", value)
        return value

    def to_json(self, value: Operator) -> Any:
        return value.to_json()

    def from_json(self, value: Any, siblings: Mapping[str, Any]) -> Operator:
        return operator_from_json(value)


class _Constant(Kind):
    """An array, kept as a copy that cannot be written to; equality goes by its bytes.

    In JSON {"DataType", "Sizes", "Data"}, the bytes in base64, or with the "SourcePath" of a .npy
    file in place of "Data".
    """

    def convert(self, value: Any) -> np.ndarray:
        if not hasattr(value, "dtype") or not hasattr(value, "shape"):
            raise refuse("be an array", shown_array(value))
        array = np.array(value, TensorDesc.of(value).dtype, order="C")
        array.setflags(write=False)
        return array

    def key(self, value: np.ndarray) -> Any:
        return value.dtype.name, value.shape, hashlib.sha256(value.tobytes()).digest()

    def to_json(self, value: np.ndarray) -> Any:
        data = base64.b64encode(value.tobytes()).decode()
        return {**TensorDesc.of(value).to_json(), "Data": data}

    def from_json(self, value: Any, siblings: Mapping[str, Any]) -> np.ndarray:
        known = ("DataType", "Sizes", "Data", "SourcePath")
        if not isinstance(value, Mapping):
            raise refuse(f"be an object with {', '.join(known[:3])} or {known[3]}", value)
        faults = [
            Fault("", str(name), f"be a field of a constant{nearest(name, known)}", value[name])
            for name in value
            if name not in known
        ]
        array = None
        try:
            tensor = TensorDesc.from_json(
                {name: value[name] for name in known[:2] if name in value}
            )
            array = _stored(value, tensor)
        except DmlError as error:
            faults += error.faults
        if faults or array is None:
            raise DmlError(faults)
        return self.convert(array)


def _stored(value: Mapping[str, Any], tensor: TensorDesc) -> np.ndarray:
    """The elements that the JSON of a constant holds, or names the file of."""
    data, source = value.get("Data"), value.get("SourcePath")
    if not isinstance(data if source is None else source, str) or None not in (data, source):
        rule = "be given as a string, or else SourcePath"
        raise DmlError([Fault("", "Data", rule, NOTHING if data is None else data)])
    if source is None:
        try:
            raw = base64.b64decode(str(data), validate=True)
            return np.frombuffer(raw, tensor.dtype).reshape(tensor.sizes)
        except (binascii.Error, ValueError):
            rule = f"be the bytes of {tensor.shown()}, in base64"
            raise DmlError([Fault("", "Data", rule, data)]) from None
    try:
        # Mapped: a header that promises more than the file holds is refused, not allocated.
        array = np.lib.format.open_memmap(source, mode="r")
    except Exception as error:  # NumPy raises of any kind where a header is broken
        text = Unquoted(getattr(error, "strerror", None) or error)
        raise DmlError([Fault("", f"SourcePath '{source}'", "be a .npy file", text)]) from None
    if array.dtype.kind == "V" and array.dtype.itemsize == tensor.dtype.itemsize:
        array = array.view(tensor.dtype)  # the 4-bit types have no name in a .npy file
    if (array.shape, array.dtype) != (tensor.sizes, tensor.dtype):
        rule = f"hold {tensor.shown()}"
        raise DmlError([Fault("", f"SourcePath '{source}'", rule, shown_array(array))])
    return array


class _Node(Kind):
    def convert(self, value: Any) -> Any:
        if not isinstance(value, (OperatorNode, ConstantNode)):
            raise refuse("be an OperatorNode or a ConstantNode", value)
        return value

    def to_json(self, value: Any) -> Any:
        return value.to_json()

    def from_json(self, value: Any, siblings: Mapping[str, Any]) -> Any:
        constant = isinstance(value, Mapping) and "Array" in value
        return (ConstantNode if constant else OperatorNode).from_json(value)


class _Part(Descriptor):
    """A descriptor whose fields may also be given in their order, without names."""

    def __init_subclass__(cls, kw_only: bool = False, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)  # kw_only is what type checkers read

    def __init__(self, *values: Any, **named: Any):
        if len(values) > len(self.fields):
            most = f"{type(self).__name__} takes {len(self.fields)} fields"
            raise TypeError(f"{most}, got {len(values)} values")
        names = (f.name for f in self.fields)
        super().__init__(**dict(zip(names, values, strict=False)), **named)


OptionalName = Annotated[str, _Name()] | None
Reference = Annotated[int | str, _Reference()]


class OperatorNode(_Part, c_name="DML_OPERATOR_GRAPH_NODE_DESC", kw_only=False):
    """DML_OPERATOR_GRAPH_NODE_DESC: an operator in a graph."""

    operator: Annotated[Operator, _Operator()]
    name: OptionalName = None

    def slots(self, output: bool) -> Slots:
        """The operator's inputs, or its outputs, by the index that edges know them by."""
        slots: Slots = []
        for f in self.operator.fields:
            if f.tensor is not None and f.tensor.output == output:
                value = getattr(self.operator, f.name)
                if f.is_array:
                    slots += [(f"{f.c_name}[{i}]", tensor) for i, tensor in enumerate(value or ())]
                else:
                    slots.append((f.c_name, value))
        return slots

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        # Not a jitted call: JAX compares a new static argument to all that it has seen.
        results = trace(self.operator, *arrays)
        return results if isinstance(results, tuple) else (results,)


class ConstantNode(_Part, c_name="DML_CONSTANT_DATA_GRAPH_NODE_DESC", kw_only=False):
    """DML_CONSTANT_DATA_GRAPH_NODE_DESC: an array that is a part of the graph."""

    array: Annotated[np.ndarray, _Constant()]
    name: OptionalName = None

    @functools.cached_property
    def tensor(self) -> TensorDesc:
        return TensorDesc.of(self.array)

    def slots(self, output: bool) -> Slots:
        return [("Array", self.tensor)] if output else []

    def __call__(self) -> tuple[Any, ...]:
        return (jnp.asarray(self.array),)


class InputEdge(_Part, c_name="DML_INPUT_GRAPH_EDGE_DESC", kw_only=False):
    """DML_INPUT_GRAPH_EDGE_DESC: from an input of the graph to an input of a node.

    Nodes and graph inputs by index or by name, in this edge as in the others.
    """

    graph_input_index: Reference
    to_node_index: Reference
    to_node_input_index: UInt
    name: OptionalName = None


class IntermediateEdge(_Part, c_name="DML_INTERMEDIATE_GRAPH_EDGE_DESC", kw_only=False):
    """DML_INTERMEDIATE_GRAPH_EDGE_DESC: from an output of a node to an input of another."""

    from_node_index: Reference
    from_node_output_index: UInt
    to_node_index: Reference
    to_node_input_index: UInt
    name: OptionalName = None


class OutputEdge(_Part, c_name="DML_OUTPUT_GRAPH_EDGE_DESC", kw_only=False):
    """DML_OUTPUT_GRAPH_EDGE_DESC: from an output of a node to an output of the graph."""

    from_node_index: Reference
    from_node_output_index: UInt
    graph_output_index: Reference
    name: OptionalName = None


@jax.tree_util.register_static
class Graph(_Part, Bindable, c_name="DML_GRAPH_DESC", kw_only=False):
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

    input_count: UInt
    output_count: UInt
    nodes: Annotated[Sequence[OperatorNode | ConstantNode], Array(_Node()), Count("NodeCount")]
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
    input_names: Annotated[Sequence[str], Array(_Name()), Count("InputCount")] | None = None
    output_names: Annotated[Sequence[str], Array(_Name()), Count("OutputCount")] | None = None

    def _check(self, faults: list[Fault], present: Mapping[str, Any]) -> None:
        if len(present) < len(self.fields):
            return
        wiring = _Wiring(self)
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
        wiring: _Wiring = self.__dict__["_wiring"]
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
                faults += found.within(_label(index, node).capitalize()).faults
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

    def __call__(self, *arrays: ArrayLike) -> Any:
        self._check_arrays(arrays)
        return _run(self, *arrays)

    def __repr__(self) -> str:
        return f"Graph({len(self.nodes)} nodes: {self.describe()})"

    def save(self, path: str | Path) -> None:
        """Writes the graph as JSON, and each constant beside it as <stem>.<node>.npy."""
        path, value = Path(path), self.to_json()
        for index, node in enumerate(self.nodes):
            if isinstance(node, ConstantNode):
                target, array = path.with_name(f"{path.stem}.{index}.npy"), node.array
                write_whole(target, lambda file, a=array: np.save(file, a, allow_pickle=False))
                stored = value["Nodes"][index]["Array"]
                del stored["Data"]
                stored["SourcePath"] = target.name
        text = json.dumps(value, indent=1)
        write_whole(path, lambda file: file.write(text.encode()))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The graph that `save` wrote. Raises `DmlError` with all that is wrong with the file."""
        path = Path(path)
        try:
            value = json.loads(path.read_bytes(), object_pairs_hook=_once)
            for node in value.get("Nodes", ()) if isinstance(value, dict) else ():
                stored = node.get("Array") if isinstance(node, dict) else None
                if isinstance(stored, dict) and isinstance(stored.get("SourcePath"), str):
                    stored["SourcePath"] = str(path.parent / stored["SourcePath"])
            return cls.from_json(value)
        except OSError as error:
            fault = Fault("", "the graph", "be a readable file", Unquoted(error.strerror))
        except RecursionError:
            fault = Fault("", "the nesting", "be less than 1000 deep", Unquoted("more"))
        except DmlError as error:
            raise error.within(f"Graph '{path}'") from None
        except ValueError as error:
            fault = Fault("", "the text", "be JSON", Unquoted(error))
        raise DmlError([fault]).within(f"Graph '{path}'")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise DmlError([Fault("", "each key of an object", "stand once", twice)])
    return result


@functools.partial(jax.jit, static_argnums=0, inline=True)
def _run(graph: Graph, *arrays: Any) -> Any:
    values: list[tuple[Any, ...]] = [()] * len(graph.nodes) + [arrays]  # the last is node -1
    for index, node, sources in graph.plan:
        with jax.named_scope(node.name or str(index)):
            values[index] = node(*(values[n][i] for n, i in sources))
    results = tuple(values[n][i] for n, i in graph.results)
    return results[0] if len(results) == 1 else results


def _label(index: int, node: OperatorNode | ConstantNode) -> str:
    return f"node {index}" + (f" '{node.name}'" if node.name else "")


def _shown(tensor: TensorDesc, where: str) -> str:
    """`FLOAT32[2,3] (InputTensor of node 1 'a')`; the layout does not matter."""
    return f"{TensorDesc(tensor.data_type, tensor.sizes).shown()} ({where})"


def _alike(a: TensorDesc, b: TensorDesc) -> bool:
    return (a.data_type, a.sizes) == (b.data_type, b.sizes)


def _layout(tensor: TensorDesc) -> list[int]:
    """The strides, without those of dimensions of one element, which mean nothing."""
    strides = tensor.packed_strides if tensor.strides is None else tensor.strides
    return [stride for stride, size in zip(strides, tensor.sizes, strict=True) if size > 1]


class _Wiring(Expect):
    """What the edges of a graph join, and what is wrong with that; linear in nodes and edges.

    Attributes:
        inputs, outputs: the tensors of the graph, by index.
        input_names, output_names: their names.
        plan, results: as `Graph` has them; there are none where something is wrong.
        resolved: the fields of the graph, with indices for names, and names for None.
    """

    def __init__(self, graph: Graph):
        super().__init__(graph.c_name)
        self.nodes = graph.nodes
        self.slots = {out: [n.slots(out) for n in self.nodes] for out in (False, True)}
        self.inputs: dict[int, TensorDesc] = {}
        self.outputs: dict[int, TensorDesc] = {}
        self.plan: list[tuple[int, OperatorNode | ConstantNode, list[Source]]] = []
        self.results: list[Source] = []
        self._sources: list[dict[int, Source]] = [{} for _ in self.nodes]
        self._results: dict[int, Source] = {}
        self._fed: dict[Any, str] = {}  # an input of a node, or an output of the graph -> its edge
        self._first: dict[int, str] = {}  # an input of the graph -> its first edge
        self._lost: set[str] = set()  # what some edge does not find, or finds taken
        self(len(self.nodes) > 0, "NodeCount", "be at least 1", 0)
        self(graph.output_count > 0, "OutputCount", "be at least 1", 0)
        names = [node.name for node in self.nodes]
        self._by_name = {"node": self._distinct("Nodes[{}].Name", names)}
        # More inputs than edges are a mistake that is found below; it must not cost memory here.
        shown = min(graph.input_count, len(graph.input_edges) + 1)
        self.input_names = self._names("Input", graph.input_names, graph.input_count, shown)
        shown = min(graph.output_count, len(graph.output_edges) + 1)
        self.output_names = self._names("Output", graph.output_names, graph.output_count, shown)
        self._by_name["graph input"] = self._distinct("InputNames[{}]", self.input_names)
        self._by_name["graph output"] = self._distinct("OutputNames[{}]", self.output_names)
        for name in self._by_name["graph input"].keys() & self._by_name["graph output"].keys():
            self(False, "OutputNames", "differ from InputNames", name)
        self._counts = {
            "node": len(self.nodes),
            "graph input": graph.input_count,
            "graph output": graph.output_count,
        }
        self.resolved = {
            "input_names": self.input_names,
            "output_names": self.output_names,
            "input_edges": tuple(map(self._input, *_numbered(graph.input_edges, "Input"))),
            "intermediate_edges": tuple(
                map(self._between, *_numbered(graph.intermediate_edges, "Intermediate"))
            ),
            "output_edges": tuple(map(self._output, *_numbered(graph.output_edges, "Output"))),
        }
        self._check_complete()
        order = self._order()
        if len(order) < len(self.nodes):
            self._name_cycle(set(range(len(self.nodes))).difference(order))
        elif not self._lost:
            self._check_live()
        if not self.faults:
            self._settle(order)

    def _names(
        self, kind: str, names: Sequence[str] | None, count: int, shown: int
    ) -> tuple[str, ...]:
        if names is None:
            return tuple(f"{kind}{i}" for i in range(shown))
        rule = f"have {count} elements ({kind}Count)"
        self(len(names) == count, f"{kind}Names", rule, list(names))
        return tuple(names)

    def _distinct(self, field: str, names: Sequence[str | None]) -> dict[str, int]:
        """The names' indices; each may stand once."""
        indices: dict[str, int] = {}
        for index, name in enumerate(names):
            if name is not None and indices.setdefault(name, index) != index:
                rule = f"differ from {field.format(indices[name])}"
                self(False, field.format(index), rule, name)
        return indices

    def _resolve(self, kind: str, field: str, value: int | str) -> int | None:
        """The index of the node, graph input or graph output that an edge names."""
        names, count = self._by_name[kind], self._counts[kind]
        if isinstance(value, str):
            found = names.get(value)
            rule = f"be a {kind}'s name{nearest(value, names)}"
            self(found is not None, field, rule, value)
        else:
            found = self._within(field, value, count, f"{kind}s")
        if found is None:
            self._lost.add(kind)
        return found

    def _within(self, field: str, value: int, count: int, what: str) -> int | None:
        rule = (
            f"be in [0, {count - 1}] ({what})" if count else f"be one of the {what} (it has none)"
        )
        return value if self(value < count, field, rule, value) else None

    def _end(self, edge: Any, path: str, side: str) -> tuple[int, int, TensorDesc | None, str]:
        """(node, slot, tensor, words for it) of an edge's From or To side; no tensor where lost."""
        kind = "Output" if side == "From" else "Input"
        low = side.lower()
        node = self._resolve("node", f"{path}.{side}NodeIndex", getattr(edge, f"{low}_node_index"))
        slot = getattr(edge, f"{low}_node_{kind.lower()}_index")
        if node is None:
            return -1, slot, None, ""
        label = _label(node, self.nodes[node])
        slots, field = self.slots[side == "From"][node], f"{path}.{side}Node{kind}Index"
        found = self._within(field, slot, len(slots), f"{kind.lower()}s of {label}")
        name, tensor = slots[slot] if found is not None else ("", None)
        if found is not None:
            rule = f"be an {kind.lower()} that is given ({name} of {label} is not)"
            self(tensor is not None, field, rule, slot)
        if tensor is None:
            self._lost.add("slot")
        return node, slot, tensor, f"{name} of {label}"

    def _feed(self, edge: Any, path: str) -> tuple[int, int, TensorDesc | None, str]:
        """The To side of an edge, which no other edge may feed."""
        node, slot, tensor, where = self._end(edge, path, "To")
        if tensor is not None:
            first = self._fed.setdefault((node, slot), path)
            rule = f"feed an input that no other edge feeds, as {first} does"
            if not self(first == path, path, rule, Unquoted(where)):
                self._lost.add("second")
        return node, slot, tensor, where

    def _input(self, edge: InputEdge, path: str) -> InputEdge:
        kind = "graph input"
        index = self._resolve(kind, f"{path}.GraphInputIndex", edge.graph_input_index)
        node, slot, tensor, where = self._feed(edge, path)
        if index is None:
            return edge
        first = self._first.setdefault(index, path)
        if tensor is None:
            return edge
        self._sources[node][slot] = -1, index
        known = self.inputs.setdefault(index, tensor)
        rule = f"carry {_shown(known, f'what {first} does, from {kind} {index}')}"
        if self(_alike(known, tensor), path, rule, Unquoted(_shown(tensor, where))):
            self._check_memory(path, index, known, tensor, first)
        return _with(edge, graph_input_index=index, to_node_index=node)

    def _check_memory(
        self, path: str, index: int, known: TensorDesc, tensor: TensorDesc, first: str
    ) -> None:
        """What reads one graph input reads one memory: in one layout, owned or not."""
        if known == tensor:
            return
        rule = f"read graph input {index} with strides {_layout(known)}, as {first} does"
        self(_layout(known) == _layout(tensor), path, rule, _layout(tensor))
        rule = f"have flags {known.flags.name}, as {first} has"
        self(known.flags == tensor.flags, path, rule, Unquoted(tensor.flags.name))
        self.inputs[index] = TensorDesc(
            known.data_type,
            known.sizes,
            known.strides,
            known.flags,
            max(known.total_tensor_size_in_bytes, tensor.total_tensor_size_in_bytes),
            max(known.guaranteed_base_offset_alignment, tensor.guaranteed_base_offset_alignment),
        )

    def _between(self, edge: IntermediateEdge, path: str) -> IntermediateEdge:
        source, output, given, origin = self._end(edge, path, "From")
        node, slot, tensor, where = self._feed(edge, path)
        if given is None or tensor is None:
            return edge
        self._sources[node][slot] = source, output
        rule = f"carry {_shown(given, origin)}"
        self(_alike(given, tensor), path, rule, Unquoted(_shown(tensor, where)))
        rule = "lead to a tensor that is not OWNED_BY_DML, which only a graph input may feed"
        self(TensorFlags.OWNED_BY_DML not in tensor.flags, path, rule, Unquoted(where))
        return _with(edge, from_node_index=source, to_node_index=node)

    def _output(self, edge: OutputEdge, path: str) -> OutputEdge:
        source, output, tensor, _ = self._end(edge, path, "From")
        kind = "graph output"
        index = self._resolve(kind, f"{path}.GraphOutputIndex", edge.graph_output_index)
        if index is None:
            return edge
        first = self._fed.setdefault(index, path)
        rule = f"feed a graph output that no other edge feeds, as {first} does"
        if not self(first == path, path, rule, index):
            self._lost.add("second")
        if tensor is None:
            return edge
        self._results[index] = source, output
        self.outputs[index] = tensor
        return _with(edge, from_node_index=source, graph_output_index=index)

    def _check_complete(self) -> None:
        """Every input of a node and output of the graph is fed, every input of the graph used.

        Not asked where an edge is lost: it may have been meant for what seems to be missing.
        """
        if not self._lost & {"node", "slot"}:
            for index, slots in enumerate(self.slots[False]):
                for slot, (path, tensor) in enumerate(slots):
                    if tensor is not None and (index, slot) not in self._fed:
                        rule = f"be fed by an edge ({_label(index, self.nodes[index])})"
                        self(False, f"Nodes[{index}].{path}", rule, NOTHING)
        if "graph input" not in self._lost:
            for index, name in enumerate(self.input_names):
                rule = f"be read by an edge (graph input {index} '{name}')"
                self(index in self._first, f"InputNames[{index}]", rule, NOTHING)
        if "graph output" not in self._lost:
            for index, name in enumerate(self.output_names):
                rule = f"be fed by an edge (graph output {index} '{name}')"
                self(index in self._fed, f"OutputNames[{index}]", rule, NOTHING)

    def _order(self) -> list[int]:
        """The nodes, each after those that it reads; without those that read a cycle."""
        readers: list[list[int]] = [[] for _ in self.nodes]
        waiting = [0] * len(self.nodes)
        for node, sources in enumerate(self._sources):
            for source, _ in sources.values():
                if source >= 0:
                    readers[source].append(node)
                    waiting[node] += 1
        order = [node for node, count in enumerate(waiting) if count == 0]
        for node in order:  # grows on the way
            for reader in readers[node]:
                waiting[reader] -= 1
                if waiting[reader] == 0:
                    order.append(reader)
        return order

    def _name_cycle(self, left: set[int]) -> None:
        node, walked = min(left), {}
        while node not in walked:  # upstream, where each of these has another of them
            walked[node] = len(walked)
            node = next(n for n, _ in self._sources[node].values() if n in left)
        cycle = list(walked)[walked[node] :][::-1]
        start = cycle.index(min(cycle))
        cycle = [*cycle[start:], *cycle[: start + 1]]
        labels = " -> ".join(_label(n, self.nodes[n]) for n in cycle)
        self(False, "IntermediateEdges", "make no cycle", Unquoted(labels))

    def _check_live(self) -> None:
        """Every node leads to an output of the graph."""
        ahead = [node for node, _ in self._results.values()]
        live = set(ahead)
        while ahead:
            for node, _ in self._sources[ahead.pop()].values():
                if node >= 0 and node not in live:
                    live.add(node)
                    ahead.append(node)
        for index, node in enumerate(self.nodes):
            rule = f"lead to a graph output ({_label(index, node)})"
            kind = "a constant" if isinstance(node, ConstantNode) else "an operator"
            self(index in live, f"Nodes[{index}]", rule, Unquoted(f"{kind} of no effect"))

    def _settle(self, order: list[int]) -> None:
        """The order of the calls; optional tensors are arguments and results only if given."""
        position = [
            {slot: p for p, slot in enumerate(s for s, (_, t) in enumerate(slots) if t is not None)}
            for slots in self.slots[True]
        ]

        def settled(source: Source) -> Source:
            node, slot = source
            return source if node < 0 else (node, position[node][slot])

        for index in order:
            sources = self._sources[index]
            self.plan.append(
                (index, self.nodes[index], [settled(sources[slot]) for slot in sorted(sources)])
            )
        self.results = [settled(self._results[i]) for i in range(len(self._results))]


def _numbered(edges: Sequence[Any], kind: str) -> tuple[Sequence[Any], Iterable[str]]:
    return edges, (f"{kind}Edges[{index}]" for index in range(len(edges)))


def _with(edge: Any, **indices: int) -> Any:
    """The edge with indices in place of names."""
    if all(getattr(edge, name) == index for name, index in indices.items()):
        return edge
    return type(edge)(**{f.name: getattr(edge, f.name) for f in edge.fields} | indices)


@dataclass(frozen=True, eq=False)
class Expression:
    """A tensor of a graph in the making: a graph input, a constant, or an output of an operator."""

    desc: TensorDesc
    builder: "GraphBuilder" = field(repr=False)
    source: Source = field(repr=False)

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.desc.sizes


class GraphBuilder:
    """Makes a graph an operator at a time, in the manner of DirectMLX and PyDirectML."""

    def __init__(self):
        self._inputs: list[str] = []
        self._nodes: list[OperatorNode | ConstantNode] = []
        self._input_edges: list[InputEdge] = []
        self._intermediate_edges: list[IntermediateEdge] = []

    def input_tensor(self, name: str, desc: TensorDesc) -> Expression:
        """The next input of the graph. Raises `DmlError` where the name is taken."""
        expect = Expect(Graph.c_name)
        expect(isinstance(name, str) and bool(name), "the input's name", "be a name", name)
        expect(name not in self._inputs, "the input's name", "differ from the others", name)
        expect(isinstance(desc, TensorDesc), "the input's tensor", "be a TensorDesc", desc)
        _raise(expect)
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
                rule = f"be {_shown(given.desc, 'the expression')}"
                shown = TensorDesc(tensor.data_type, tensor.sizes).shown()
                alike = expect(_alike(tensor, given.desc), path, rule, shown)
                if alike and given.source[0] < 0:
                    strides = _layout(given.desc)
                    rule = f"have strides {strides}, as graph input {given.source[1]} has"
                    expect(_layout(tensor) == strides, path, rule, _layout(tensor))
        _raise(expect)
        index = len(self._nodes)
        self._nodes.append(node)
        for (slot, _, _), given in zip(slots, expressions, strict=True):
            source, output = given.source
            if source < 0:
                self._input_edges.append(InputEdge(output, index, slot))
            else:
                self._intermediate_edges.append(IntermediateEdge(source, output, index, slot))
        results = tuple(
            Expression(tensor, self, (index, slot))
            for slot, (_, tensor) in enumerate(node.slots(output=True))
            if tensor is not None
        )
        return results if operator._returns_tuple else results[0]

    def build(
        self,
        outputs: Expression | Sequence[Expression] | Mapping[str, Expression],
        names: Sequence[str] | None = None,
    ) -> Graph:
        """The graph that gives these outputs. Raises `DmlError` with all that is wrong with it."""
        if isinstance(outputs, Mapping):
            names, outputs = list(outputs), list(outputs.values())
        elif isinstance(outputs, Expression):
            outputs = [outputs]
        expect, edges = Expect(Graph.c_name), []
        for index, given in enumerate(outputs):
            if self._check_own(expect, f"outputs[{index}]", given):
                rule = "be computed by a node"
                value = Unquoted("a graph input")
                if expect(given.source[0] >= 0, f"outputs[{index}]", rule, value):
                    edges.append(OutputEdge(*given.source, index))
        _raise(expect)
        return Graph(
            len(self._inputs),
            len(outputs),
            self._nodes,
            self._input_edges,
            self._intermediate_edges,
            edges,
            self._inputs,
            names,
        )

    def _check_own(self, expect: Expect, path: str, given: Any) -> bool:
        if not expect(isinstance(given, Expression), path, "be an Expression", shown_array(given)):
            return False
        return expect(given.builder is self, path, "be of this builder", Unquoted("another's"))


def _raise(expect: Expect) -> None:
    if expect.faults:
        raise DmlError(expect.faults)

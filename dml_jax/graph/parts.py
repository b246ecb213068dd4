"""Nodes and edges of a graph, as DirectML.h declares them."""

import base64
import binascii
import functools
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dml_jax.description.arrays import IS_PLAIN, check_there, is_plain
from dml_jax.description.descriptor import Descriptor
from dml_jax.description.fields import UINT, Described, Kind, Tensor, UInt
from dml_jax.description.tensor import TensorDesc, is_array, round_up, shown_array
from dml_jax.errors import (
    NOTHING,
    DmlError,
    Fault,
    Unquoted,
    collecting,
    nearest,
    refused,
    with_article,
)
from dml_jax.lowering import strided_memory
from dml_jax.operator import Operator, operator_from_json
from dml_jax.system.files import read_npy, readable, similar_file


class ArrayType(NamedTuple):
    """The type and shape of an array that no tensor of DirectML describes."""

    dtype: np.dtype
    sizes: tuple[int, ...]

    @property
    def total_tensor_size_in_bytes(self) -> int:
        """Return the bytes of the elements."""
        return math.prod(self.sizes) * self.dtype.itemsize

    def shown(self) -> str:
        """Return the type and shape on one line: `float8_e5m2[2,3]`."""
        return f"{self.dtype.name}[{','.join(map(str, self.sizes))}]"


Edge = TensorDesc | ArrayType
"""What an edge carries: a tensor, or between functions also an array that DirectML lacks."""

Slots = list[tuple[str, Any]]
"""(path, `Edge`) of the inputs or outputs of a node, by the index that edges use.

The tensor of an optional one without a value is None: DirectML counts these too."""

Source = tuple[int, int]
"""A node, and the number of its output. The inputs of the graph are outputs of node -1."""


LITERAL_BYTES = 1024
"""The size up to which a constant is a part of the program, so that XLA computes with it."""


class Name(Kind):
    """A name: a string that is not empty."""

    def convert(self, value: Any) -> str:
        if not isinstance(value, str) or not value:
            raise refused("be a name", value)
        return value


class _Reference(Kind):
    """A UINT, or the name of the node, input or output with that number."""

    def convert(self, value: Any) -> int | str:
        return value if isinstance(value, str) else UINT.convert(value)


class _Operator(Described):
    def convert(self, value: Any) -> Operator:
        if not isinstance(value, Operator):
            raise refused("be an operator", value)
        return value

    def from_json(self, value: Any, siblings: Mapping[str, Any]) -> Operator:
        return operator_from_json(value)


@dataclass(frozen=True)
class _Constant(Kind):
    """An array, as a read-only copy; constants with the same bytes are equal.

    In JSON it is {"DataType", "Sizes", "Data"} with the bytes in base64, or with the "SourcePath"
    of a .npy file in place of "Data".

    Attributes:
        is_wide: whether the array may have a type that DirectML lacks.
    """

    is_wide: bool = False

    @property
    def wider(self) -> Kind:
        return _Constant(is_wide=True)

    def convert(self, value: Any) -> np.ndarray:
        if not is_array(value):
            raise refused("be an array", shown_array(value))
        if not is_plain(value):
            raise refused(IS_PLAIN, Unquoted(with_article(type(value))))
        check_there(value, "")
        array = np.array(value, TensorDesc.of(value, self.is_wide).dtype, order="C")
        array.setflags(write=False)
        return array

    def shown(self, value: np.ndarray) -> str:
        if value.size > 16:  # a repr is one line
            return f"<{shown_array(value)}>"
        return f"np.array({value.tolist()}, {value.dtype.name!r})"

    def key(self, value: np.ndarray) -> Any:
        import hashlib  # it loads OpenSSL, which most programs do not need

        return value.dtype.name, value.shape, hashlib.sha256(value.tobytes()).digest()

    def to_json(self, value: np.ndarray) -> Any:
        data = base64.b64encode(value.tobytes()).decode()
        return {**TensorDesc.of(value).to_json(), "Data": data}

    def from_json(self, value: Any, siblings: Mapping[str, Any]) -> np.ndarray:
        known = ("DataType", "Sizes", "Data", "SourcePath")
        if not isinstance(value, Mapping):
            raise refused(f"be an object with {', '.join(known[:3])} or {known[3]}", value)
        faults = [
            Fault("", str(name), f"be a field of a constant{nearest(name, known)}", value[name])
            for name in value
            if name not in known
        ]
        array = None
        with collecting(faults):
            said = {name: value[name] for name in known[:2] if name in value}
            array = _stored(value, TensorDesc.from_json(said))
        if faults or array is None:
            raise DmlError(faults)
        return self.convert(array)


def _stored(value: Mapping[str, Any], tensor: TensorDesc) -> np.ndarray:
    """Return the elements of a constant in JSON: of "Data", or of the file at "SourcePath"."""
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
    hint = "" if Path(source).exists() else similar_file(Path(source))
    with readable(f"SourcePath '{source}'", f"be a .npy file{hint}"):
        array = read_npy(source)
    if array.dtype.kind == "V" and array.dtype.itemsize == tensor.dtype.itemsize:
        array = array.view(tensor.dtype)  # the 4-bit types have no name in a .npy file
    if (array.shape, array.dtype) != (tensor.sizes, tensor.dtype):
        rule = f"hold {tensor.shown()}"
        raise DmlError([Fault("", f"SourcePath '{source}'", rule, shown_array(array))])
    return array


class Node(Described):
    """A node of a graph."""

    def convert(self, value: Any) -> Any:
        if not isinstance(value, (OperatorNode, ConstantNode, FunctionNode)):
            raise refused("be an OperatorNode, a ConstantNode or a FunctionNode", value)
        return value

    def from_json(self, value: Any, siblings: Mapping[str, Any]) -> Any:
        constant = isinstance(value, Mapping) and "Array" in value
        return (ConstantNode if constant else OperatorNode).from_json(value)


class Ends(Tensor):
    """The tensor of an input or an output of a graph, or the type of an array that has none."""

    def convert(self, value: Any) -> Any:
        return value if isinstance(value, ArrayType) else super().convert(value)


class Part(Descriptor):
    """A descriptor whose fields may also be positional arguments, in their order."""

    _given = inspect.Parameter.POSITIONAL_OR_KEYWORD

    def __init_subclass__(cls, kw_only: bool = False, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)  # kw_only is for type checkers

    def __init__(self, *values: Any, **named: Any):
        if len(values) > len(self.fields):
            most = f"{type(self).__name__} takes {len(self.fields)} fields"
            raise TypeError(f"{most}, got {len(values)} values")
        names = (f.name for f in self.fields)
        super().__init__(**dict(zip(names, values, strict=False)), **named)


OptionalName = Annotated[str, Name()] | None
Reference = Annotated[int | str, _Reference()]


class OperatorNode(Part, c_name="DML_OPERATOR_GRAPH_NODE_DESC", kw_only=False):
    """DML_OPERATOR_GRAPH_NODE_DESC: an operator in a graph."""

    operator: Annotated[Operator, _Operator()]
    name: OptionalName = None

    def slots(self, output: bool) -> Slots:
        """Return the operator's inputs or outputs, by the index that edges use."""
        slots: Slots = []
        for f in self.operator.fields:
            if f.tensor is not None and f.tensor.output == output:
                value = getattr(self.operator, f.name)
                if f.is_array:
                    slots += [(f"{f.c_name}[{i}]", tensor) for i, tensor in enumerate(value or ())]
                else:
                    slots.append((f.c_name, value))
        return slots

    def __call__(self, *arrays: Any) -> Sequence[Any]:
        # Not a jitted call: JAX would compare a new static argument with all earlier ones.
        return self.operator.compute(*arrays)


class ConstantNode(Part, c_name="DML_CONSTANT_DATA_GRAPH_NODE_DESC", kw_only=False):
    """DML_CONSTANT_DATA_GRAPH_NODE_DESC: an array of the graph."""

    array: Annotated[np.ndarray, _Constant()]
    name: OptionalName = None
    if TYPE_CHECKING:  # no field, but an argument of all descriptors
        beyond: bool = False

    @functools.cached_property
    def tensor(self) -> TensorDesc:
        """Return the description of the array."""
        return TensorDesc.of(self.array, self.beyond)

    def slots(self, output: bool) -> Slots:
        """Return the constant's one output, and no inputs."""
        return [("Array", self.tensor)] if output else []

    def __call__(self) -> Sequence[Any]:
        return (jnp.asarray(self.array),)


@dataclass(frozen=True, eq=False)
class FunctionNode:
    """A node that is no operator of DirectML: a Python function of arrays.

    Such are control flow, with graphs of its own, and what DirectML has no operator or type for.
    They are part of the graph's one program. DML_GRAPH_DESC has no such nodes: `cut` gives
    the graphs between them.

    Attributes:
        function: takes `graphs`, and then an array for each of `inputs`, None for one that is left
            out; returns an array for each of `outputs`.
        inputs: the tensors that it reads; None for one that is left out.
        outputs: the tensors that it writes.
        label: how messages name the node.
        reason: why it is no operator.
        graphs: the graphs that the function runs, as the body of a loop.
        name: the name of the node.
        operator: the operator that it computes of arrays in another layout (`laid_out`); None where
            it is no operator.
        captured: for each of `graphs`, which of `inputs` an input of the graph is, by its name.
    """

    function: Callable[..., Sequence[Any]]
    inputs: tuple[Edge | None, ...]
    outputs: tuple[Edge, ...]
    label: str = "function"
    reason: str = ""
    graphs: tuple[Any, ...] = ()
    name: str | None = None
    operator: Operator | None = None
    captured: tuple[Mapping[str, int], ...] = ()

    def slots(self, output: bool) -> Slots:
        """Return the inputs or outputs, by the index that edges use."""
        kind, some = ("output", self.outputs) if output else ("input", self.inputs)
        return [(f"{kind} {index}", one) for index, one in enumerate(some)]

    def __call__(self, *arrays: Any) -> Sequence[Any]:
        given = iter(arrays)
        taken = [None if one is None else next(given) for one in self.inputs]
        return self.function(self.graphs, *taken)

    def to_json(self) -> Any:
        """Raise `DmlError`: JSON and programs describe operators and constants."""
        rule = "be an operator or a constant (dml_jax.graph.cut gives the graphs of these)"
        raise DmlError([Fault("", self.label, rule, Unquoted("a function"))])


def name_of(node: "AnyNode") -> str:
    """Return the name of the node of a file that a node is from, or its own; "" without one."""
    return vars(node).get("origin") or node.name or ""


def scope_of(index: int, node: "AnyNode") -> str:
    """Return the name that a node has in programs."""
    return name_of(node) or str(index)


def laid_out(
    operator: Operator,
    layout: str,
    inputs: Sequence[Edge | None],
    outputs: Sequence[Edge],
    name: str | None,
) -> FunctionNode:
    """Return the node that computes an operator, whose `lower` takes `layout`, in this layout.

    One of `inputs` is None where the node reads none.
    """

    def function(_: Any, *arrays: Any) -> Sequence[Any]:
        return operator.evaluate(*(a for a in arrays if a is not None), layout=layout)

    label = f"{operator.short_name} ({layout})"
    return FunctionNode(function, (*inputs,), (*outputs,), label, name=name, operator=operator)


class InputEdge(Part, c_name="DML_INPUT_GRAPH_EDGE_DESC", kw_only=False):
    """DML_INPUT_GRAPH_EDGE_DESC: from an input of the graph to an input of a node.

    All edges refer to nodes, graph inputs and graph outputs by index or by name.

    Data may decide a size of what an edge carries: then its elements are followed by a padding.
    DirectML has no such edges.

    Fields:
        padded_axis: the dimension whose size data decides; None for none.
        count_name: the name of this size; None for none.
    """

    graph_input_index: Reference
    to_node_index: Reference
    to_node_input_index: UInt
    name: OptionalName = None
    padded_axis: UInt | None = None
    count_name: OptionalName = None


class IntermediateEdge(Part, c_name="DML_INTERMEDIATE_GRAPH_EDGE_DESC", kw_only=False):
    """DML_INTERMEDIATE_GRAPH_EDGE_DESC: from an output of a node to an input of another.

    Fields:
        padded_axis, count_name: as of `InputEdge`.
    """

    from_node_index: Reference
    from_node_output_index: UInt
    to_node_index: Reference
    to_node_input_index: UInt
    name: OptionalName = None
    padded_axis: UInt | None = None
    count_name: OptionalName = None


class OutputEdge(Part, c_name="DML_OUTPUT_GRAPH_EDGE_DESC", kw_only=False):
    """DML_OUTPUT_GRAPH_EDGE_DESC: from an output of a node to an output of the graph.

    Fields:
        padded_axis: as of `InputEdge`.
        count_name: the name of the output of the graph that has this size; None for none.
    """

    from_node_index: Reference
    from_node_output_index: UInt
    graph_output_index: Reference
    name: OptionalName = None
    padded_axis: UInt | None = None
    count_name: OptionalName = None


AnyNode = OperatorNode | ConstantNode | FunctionNode


def padding_of(edge: InputEdge | IntermediateEdge | OutputEdge) -> tuple[int, str] | None:
    """Return the dimension of what an edge carries whose size data decides, and the size's name."""
    axis, name = edge.padded_axis, edge.count_name
    return None if axis is None or name is None else (axis, name)


def reached(ends: Iterable[int], sources: Sequence[Iterable[int]]) -> set[int]:
    """Return the nodes that `ends` depend on, themselves included.

    `sources` has the nodes that each node reads; negative numbers, the inputs, are left out.
    """
    found, ahead = set[int](), list(ends)
    while ahead:
        node = ahead.pop()
        if node >= 0 and node not in found:
            found.add(node)
            ahead += sources[node]
    return found


def label_of(index: int, node: AnyNode) -> str:
    """Return words for a node: `node 1 'halves'`."""
    return f"node {index}" + (f" '{node.name}'" if node.name else "")


def shown_at(tensor: Edge, where: str) -> str:
    """Return `FLOAT32[2,3] (InputTensor of node 1 'a')` for a tensor, without its layout."""
    if isinstance(tensor, TensorDesc):
        tensor = TensorDesc(tensor.data_type, tensor.sizes)
    return f"{tensor.shown()} ({where})"


def same_value(a: Edge, b: Edge) -> bool:
    """Return whether two tensors have the same type and sizes."""
    if isinstance(a, TensorDesc) and isinstance(b, TensorDesc):
        return a.data_type == b.data_type and a.sizes == b.sizes
    return type(a) is type(b) and a.dtype == b.dtype and a.sizes == b.sizes


def same_layout(a: Edge, b: Edge) -> bool:
    """Return whether two tensors describe the same value of the same bytes."""
    return a is b or (same_value(a, b) and layout_of(a) == layout_of(b))


def same_bytes(a: Edge, b: Edge) -> bool:
    """Return whether a tensor `b` may read what `a` wrote, as another type, sizes or strides."""
    if not (isinstance(a, TensorDesc) and isinstance(b, TensorDesc)):
        return False
    is_whole = a.total_tensor_size_in_bytes == b.total_tensor_size_in_bytes
    return is_whole and a.has_distinct_addresses


def reinterpreted(array: Any, written: TensorDesc, read: TensorDesc) -> jax.Array:
    """Return what `read` reads of the bytes to which `written` writes an array."""
    is_same = written.is_packed and written.data_type == read.data_type
    if is_same and read.is_packed and read.span == written.span:
        return jnp.reshape(array, read.sizes)
    if is_same and written.memory_dtype == written.dtype and read.span <= written.span:
        return read.read(jnp.reshape(array, -1))
    count = round_up(max(written.span_in_bytes, read.span_in_bytes), 8)
    buffer = jnp.zeros(count // written.memory_dtype.itemsize, written.memory_dtype)
    buffer = written.write(buffer, jnp.asarray(array))
    return read.read(strided_memory.reinterpret(buffer, read.memory_dtype))


def layout_of(tensor: Edge) -> list[int]:
    """Return the strides of the dimensions with more than one element; the others mean nothing."""
    if isinstance(tensor, ArrayType):
        return []
    pairs = zip(strides_of(tensor), tensor.sizes, strict=True)
    return [stride for stride, size in pairs if size > 1]


def strides_of(tensor: TensorDesc) -> Sequence[int]:
    """Return the strides of a tensor, also of a packed one."""
    return tensor.packed_strides if tensor.strides is None else tensor.strides

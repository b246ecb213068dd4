"""Serialized graphs: DML_GRAPH_DESC as ONNX Runtime's DirectML provider writes it to a file.

The file is a FlatBuffer; large constants lie beside it, each in a file of its own. Source:
DmlGraphDesc_generated.h and OperatorFieldTypes_generated.h of ONNX Runtime.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dml_jax.description.fields import Array, Choice, Field, Scalar
from dml_jax.description.tensor import TensorDesc
from dml_jax.dxdispatch.flatbuffer import Flatbuffer, Table
from dml_jax.enums import TensorDataType
from dml_jax.errors import DmlError, Fault, Unquoted, collecting, raise_if
from dml_jax.graph import (
    ConstantNode,
    Graph,
    InputEdge,
    IntermediateEdge,
    OperatorNode,
    OutputEdge,
    Source,
)
from dml_jax.operator import Fused, Operator, operator_type
from dml_jax.system.files import similar_file

_WHAT = "a serialized graph of DirectML"
_OPERATOR, _CONSTANT = 1, 2  # NodeDesc
_NAMED, _RAW = 1, 2  # ConstantNodeDescDetail
# AttributeFieldVariant; the structures among them have these members.
_ACTIVATION, _ACTIVATIONS, _SCALAR_UNION = 1, 2, 12
_NUMBERS = {3: "u4", 4: "u8", 5: "i4", 6: "f4", 13: "u1"}
_ARRAYS = {7: "u4", 8: "i4", 9: "f4"}
_STRUCTURES = {10: ("Scale", "Bias", "f4"), 11: ("Width", "Height", "u4")}
_BYTES_OF_UNION = 8
_NO_NAME_OF_A_FILE = re.compile(r'[\\/"|<>:?*\0]')


@dataclass(frozen=True)
class SerializedGraph:
    """A graph, and the files of its large constants.

    Attributes:
        graph: the graph. Its large constants are inputs behind those that the file names.
        files: the file of each large constant, by the name of its input.
    """

    graph: Graph
    files: Mapping[str, Path]


@dataclass(frozen=True)
class _Node:
    """A node of the file; the constants of files and raw bytes have no operator."""

    name: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    table: Table | None = None
    constant: str | None = None
    raw: bytes | None = None


def parse(data: bytes, folder: Path) -> SerializedGraph:
    """Return the graph in the bytes of a file; `folder` has the files of its constants.

    Raises `DmlError` with all faults.
    """
    file = Flatbuffer(data, _WHAT)
    root = Table(file, file.target(0))
    nodes = [_node(table) for table in root.tables(0)]
    constants = list(dict.fromkeys(n.constant for n in nodes if n.constant is not None))
    files, faults = {}, list[Fault]()
    for name in constants:
        with collecting(faults, f"Constant '{name}'"):
            files[name] = _file_of(name, folder)
    raise_if(faults)
    return SerializedGraph(_graph(nodes, root.texts(1), root.texts(2), constants), files)


def _node(table: Table) -> _Node:
    name, kind = table.text(2, "a name"), table.number(0, "u1")
    ends = table.texts(3), table.texts(4)
    if kind == _OPERATOR:
        return _Node(name, *ends, table=table.table(1, "an operator"))
    detail = table.table(1, "a constant") if kind == _CONSTANT else None
    if detail is not None and detail.number(0, "u1") == _NAMED:
        return _Node(name, *ends, constant=detail.table(1, "data").text(0, "the name of its data"))
    if detail is not None and detail.number(0, "u1") == _RAW:
        raw = detail.table(1, "data")
        return _Node(name, *ends, raw=raw.file.bytes_at(raw.needed(0, "bytes")))
    raise table.file.refusal(table.place, "a node that is no operator and no constant")


def _file_of(name: str, folder: Path) -> Path:
    """Return the file of a large constant. Raises `DmlError` if there is none.

    Windows takes some characters in no name of a file, and a path would leave the folder.
    """
    path = folder / (_NO_NAME_OF_A_FILE.sub("_", name) + ".bin")
    if not path.is_file():
        rule = f"lie in '{path.name}' beside the graph{similar_file(path)}"
        raise DmlError([Fault("", "its data", rule, Unquoted("no such file"))])
    return path


def _graph(
    nodes: Sequence[_Node], inputs: Sequence[str], outputs: Sequence[str], constants: Sequence[str]
) -> Graph:
    """Return the graph of nodes, whose edges the file gives as names at both ends.

    The large `constants` are inputs behind `inputs`. Raises `DmlError` with all faults.
    """
    read = {name for node in nodes for name in node.inputs}
    known = [*(name for name in inputs if name and name in read), *constants]
    numbers = {name: i for i, name in enumerate(known)}
    sources: dict[str, Source] = {n: (-1, numbers[n]) for n in inputs if n and n in numbers}
    raw: dict[str, bytes] = {}  # by the edge that leaves the constant
    operators: list[_Node] = []
    for node in nodes:
        if node.constant is not None:
            sources |= dict.fromkeys(node.outputs, (-1, numbers[node.constant]))
        elif node.raw is not None:
            raw |= dict.fromkeys(node.outputs, node.raw)
        else:
            sources |= {n: (len(operators), i) for i, n in enumerate(node.outputs) if n}
            operators.append(node)
    made, faults = _operator_nodes(operators), list[Fault]()
    edges: list[tuple[Source, int, int]] = []
    for index, node in enumerate(operators):
        slots = made[index].slots(output=False)
        for slot, name in enumerate(node.inputs[: len(slots)]):
            tensor = slots[slot][1]
            if not name or tensor is None:
                continue
            if name in raw and name not in sources:
                made.append(ConstantNode(_constant(name, raw[name], tensor)))
                sources[name] = len(made) - 1, 0
            if name not in sources:
                rule = "be a graph input, or an output of a node"
                faults += [Fault("", slots[slot][0], rule, name, (f"Node {index}",))]
            else:
                edges.append((sources[name], index, slot))
    ends = list(filter(None, outputs))
    for name in ends:
        if sources.get(name, (-1, 0))[0] < 0:
            faults.append(Fault("", "the graph output", "be an output of a node", name))
    raise_if(faults)
    return Graph(
        len(known),
        len(ends),
        made,
        [InputEdge(i, index, slot) for (n, i), index, slot in edges if n < 0],
        [IntermediateEdge(n, i, index, slot) for (n, i), index, slot in edges if n >= 0],
        [OutputEdge(*sources[name], place) for place, name in enumerate(ends)],
        known,
        ends,
    )


def _operator_nodes(operators: Sequence[_Node]) -> list[OperatorNode | ConstantNode]:
    """Return the nodes of operators; of equal names the first alone has it. Raises `DmlError`."""
    made: list[OperatorNode | ConstantNode] = []
    faults: list[Fault] = []
    names: set[str] = set()
    for index, node in enumerate(operators):
        assert node.table is not None
        with collecting(faults, f"Node {index} '{node.name}'"):
            name = None if node.name in names or not node.name else node.name
            made.append(OperatorNode(_operator(node.table, node.inputs, node.outputs), name))
            names.add(node.name)
    raise_if(faults)
    return made


def _constant(name: str, raw: bytes, tensor: TensorDesc) -> np.ndarray:
    """Return the bytes of a constant as the tensor that reads it first."""
    dtype = tensor.memory_dtype
    if len(raw) < tensor.span_in_bytes:
        rule = f"have at least {tensor.span_in_bytes} bytes ({tensor.shown()})"
        raise DmlError([Fault("", f"the constant '{name}'", rule, len(raw))])
    array = np.frombuffer(raw, dtype, tensor.span_in_bytes // dtype.itemsize)
    return array.reshape(tensor.sizes) if array.size == np.prod(tensor.sizes) else array


def _operator(table: Table, inputs: Sequence[str], outputs: Sequence[str]) -> Operator:
    """Return the operator of a node, whose optional tensors have no name if they are left out."""
    operator = operator_type(table.text(0, "the name of its operator"))
    fields = _attributes(operator, table.tables(3))
    ends = (
        (False, iter(inputs), iter(table.tables(1))),
        (True, iter(outputs), iter(table.tables(2))),
    )
    for is_output, names, tensors in ends:
        for f in operator.fields:
            if f.tensor is None or f.tensor.output != is_output:
                continue
            if f.is_array:
                fields[f.c_name] = [_tensor(t) for t in tensors]
            elif next(names, ""):
                tensor = next(tensors, None)
                if tensor is None:
                    rule = "have a tensor (its edge has a name)"
                    raise DmlError([Fault(operator.c_name, f.c_name, rule, Unquoted("none"))])
                fields[f.c_name] = _tensor(tensor)
    return operator.of_fields(fields)


def _tensor(table: Table) -> dict[str, Any]:
    return {
        "DataType": table.text(0, "a type"),
        "Sizes": table.vector(1, "u4"),
        "Strides": table.vector(2, "u4"),
        "TotalTensorSizeInBytes": table.number(3, "u8"),
    }


def _attributes(
    operator: type[Operator], tables: Sequence[Table], depth: int = 0
) -> dict[str, Any]:
    """Return the attributes of an operator as JSON has them, by name."""
    known = {f.c_name: f for f in operator.fields}
    found = {}
    for table in tables:
        if table.target(0) is not None:  # those without a name have no value
            name = table.text(0, "a name")
            found[name] = _attribute(table, known.get(name), depth)
    for name, value in found.items():
        kind = known[name].kind if name in known else None
        if isinstance(kind, Scalar) and isinstance(value, bytes):
            found[name] = _union(value, found.get(kind.type_field))
    return found


def _attribute(table: Table, known: Field | None, depth: int) -> Any:
    kind, place = table.number(1, "u1"), table.needed(2, "a value")
    kinds = known.kind if known is not None else None
    element = kinds.element if isinstance(kinds, Array) else kinds
    if kind in _NUMBERS:
        (value,) = table.file.numbers(place, _NUMBERS[kind])
        return _member(element, value)
    if kind in _ARRAYS:
        values = Table(table.file, place).vector(0, _ARRAYS[kind])
        return [_member(element, value) for value in values]
    if kind in _STRUCTURES:
        *members, form = _STRUCTURES[kind]
        return dict(zip(members, table.file.numbers(place, form, 2), strict=True))
    if kind == _SCALAR_UNION:
        data = Table(table.file, place).needed(1, "a number")
        return bytes(table.file.numbers(data, "u1", _BYTES_OF_UNION))
    if kind in (_ACTIVATION, _ACTIVATIONS) and isinstance(element, Fused) and not depth:
        if kind == _ACTIVATION:
            return _activation(Table(table.file, place))
        return [_activation(t) for t in Table(table.file, place).tables(0)]
    raise table.file.refusal(table.place, f"an attribute of kind {kind}")


def _activation(table: Table) -> dict[str, Any]:
    operator = operator_type(table.text(0, "the name of its operator"))
    return {"Type": operator.c_name, **_attributes(operator, table.tables(1), depth=1)}


def _member(kind: Any, value: Any) -> Any:
    """Return a number, or the name of the member of an enumeration that it stands for."""
    if not isinstance(kind, Choice):
        return value
    names = {int(member): member.full_name for member in kind.enumeration}
    return names.get(value, value)


def _union(data: bytes, data_type: Any) -> Any:
    """Return the number that DML_SCALAR_UNION holds; a type that is unknown is refused later."""
    try:
        kind = TensorDataType.of(data_type)
    except DmlError:
        return 0
    return np.frombuffer(data, kind.dtype, 1)[0].item() if kind.element_size else 0

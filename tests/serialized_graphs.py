"""Writes serialized graphs as ONNX Runtime's DirectML provider does, with the flatbuffers package.

The tables and their fields are those of DmlGraphDesc_generated.h of ONNX Runtime.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import flatbuffers
import numpy as np

Make = Callable[[flatbuffers.Builder], int]

KINDS = {"UInt32": (3, "I"), "UInt64": (4, "Q"), "Int32": (5, "i"), "Float32": (6, "f")}
ARRAYS = {"UIntArray": (7, np.uint32), "IntArray": (8, np.int32), "FloatArray": (9, np.float32)}


class Tensor(NamedTuple):
    """A tensor of an operator."""

    sizes: Sequence[int]
    strides: Sequence[int] | None = None
    data_type: str = "FLOAT32"
    size_in_bytes: int | None = None

    def make(self, b: flatbuffers.Builder) -> int:
        kind = b.CreateString(f"DML_TENSOR_DATA_TYPE_{self.data_type}")
        sizes = b.CreateNumpyVector(np.array(self.sizes, np.uint32))
        strides = None
        if self.strides is not None:
            strides = b.CreateNumpyVector(np.array(self.strides, np.uint32))
        total = self.size_in_bytes
        if total is None:
            steps = self.strides or [int(np.prod(self.sizes[d + 1 :])) for d in range(9)]
            last = sum((n - 1) * s for n, s in zip(self.sizes, steps, strict=False))
            total = -(-(last + 1) * np.dtype(self.data_type.lower()).itemsize // 4) * 4
        b.StartObject(4)
        for number, place in enumerate((kind, sizes, strides)):
            if place is not None:
                b.PrependUOffsetTRelativeSlot(number, place, 0)
        b.PrependUint64Slot(3, total, 0)
        return b.EndObject()


def vector(b: flatbuffers.Builder, places: Sequence[int]) -> int:
    b.StartVector(4, len(places), 4)
    for place in reversed(places):
        b.PrependUOffsetTRelative(place)
    return b.EndVector()


def texts(b: flatbuffers.Builder, names: Sequence[str]) -> int:
    return vector(b, [b.CreateString(name) for name in names])


def table(b: flatbuffers.Builder, *fields: int | None) -> int:
    """Return a table of offsets."""
    b.StartObject(len(fields))
    for number, place in enumerate(fields):
        if place is not None:
            b.PrependUOffsetTRelativeSlot(number, place, 0)
    return b.EndObject()


def union(b: flatbuffers.Builder, kind: int, value: int | None, *others: int | None) -> int:
    """Return a table that begins with a union: the kind and the value of it."""
    b.StartObject(2 + len(others))
    b.PrependUint8Slot(0, kind, 0)
    for number, place in enumerate((value, *others), 1):
        if place is not None:
            b.PrependUOffsetTRelativeSlot(number, place, 0)
    return b.EndObject()


def structure(b: flatbuffers.Builder, data: bytes) -> int:
    b.Prep(8, len(data))
    for byte in reversed(data):
        b.PrependByte(byte)
    return b.Offset()


def attribute(b: flatbuffers.Builder, name: str | None, kind: str, value: Any) -> int:
    place = None
    if kind in KINDS:
        number, form = KINDS[kind]
        place = structure(b, np.array(value, f"<{form}").tobytes())
    elif kind in ARRAYS:
        number, dtype = ARRAYS[kind]
        place = table(b, b.CreateNumpyVector(np.array(value, dtype)))
    elif kind == "Activation":
        number = 1
        if value is not None:
            operator, parts = value
            made = vector(b, [attribute(b, *part) for part in parts])
            place = table(b, b.CreateString(operator), made)
    elif kind == "ActivationArray":
        number, made = 2, []
        for operator, parts in value:
            own = vector(b, [attribute(b, *part) for part in parts])
            made.append(table(b, b.CreateString(operator), own))
        place = table(b, vector(b, made))
    elif kind == "ScaleBias":
        number, place = 10, structure(b, np.array(value, "<f").tobytes())
    elif kind == "Size2D":
        number, place = 11, structure(b, np.array(value, "<I").tobytes())
    elif kind == "ScalarUnionData":
        number, place = 12, union(b, 1, structure(b, value.tobytes().ljust(8, b"\0")))
    else:
        raise ValueError(kind)
    text = None if name is None else b.CreateString(name)
    b.StartObject(3)
    if text is not None:
        b.PrependUOffsetTRelativeSlot(0, text, 0)
    b.PrependUint8Slot(1, number, 0)
    if place is not None:
        b.PrependUOffsetTRelativeSlot(2, place, 0)
    return b.EndObject()


class Node(NamedTuple):
    """An operator, or a constant: by the name of its file, or by its bytes."""

    name: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    operator: str = ""
    input_tensors: Sequence[Tensor] = ()
    output_tensors: Sequence[Tensor] = ()
    attributes: Sequence[tuple[str | None, str, Any]] = ()
    file: str | None = None
    raw: bytes | None = None

    def make(self, b: flatbuffers.Builder) -> int:
        name, ends = b.CreateString(self.name), (texts(b, self.inputs), texts(b, self.outputs))
        if self.file is not None:
            return union(b, 2, union(b, 1, table(b, b.CreateString(self.file))), name, *ends)
        if self.raw is not None:
            data = table(b, b.CreateByteVector(self.raw))
            return union(b, 2, union(b, 2, data), name, *ends)
        parts = (
            vector(b, [t.make(b) for t in self.input_tensors]),
            vector(b, [t.make(b) for t in self.output_tensors]),
            vector(b, [attribute(b, *a) for a in self.attributes]),
        )
        made = table(b, b.CreateString(f"DML_OPERATOR_{self.operator}"), *parts)
        return union(b, 1, made, name, *ends)


def serialized(nodes: Sequence[Node], inputs: Sequence[str], outputs: Sequence[str]) -> bytes:
    """Return the bytes of a graph."""
    b = flatbuffers.Builder()
    made = vector(b, [node.make(b) for node in nodes])
    b.Finish(table(b, made, texts(b, inputs), texts(b, outputs)))
    return bytes(b.Output())


def dense() -> bytes:
    """Return y = relu(x @ w + 0.5) * 2 of FLOAT32[2, 3]; w is in a file, and 2 is written as is."""
    wide, tall, out = Tensor([1, 1, 2, 3]), Tensor([1, 1, 3, 4]), Tensor([1, 1, 2, 4])
    relu = ("DML_OPERATOR_ACTIVATION_RELU", [])
    spread = [0, 0, 0, 0]
    nodes = [
        Node("file", [], ["e0"], file="w"),
        Node("half", [], ["e1"], raw=np.float32(0.5).tobytes()),
        Node("two", [], ["e2"], raw=np.float32(2).tobytes()),
        Node(
            "gemm",
            ["x", "e0", "e1"],
            ["z"],
            "GEMM",
            [wide, tall, Tensor([1, 1, 2, 4], spread)],
            [out],
            [
                ("TransA", "UInt32", 0),
                ("TransB", "UInt32", 0),
                ("Alpha", "Float32", 1),
                ("Beta", "Float32", 1),
                ("FusedActivation", "Activation", relu),
            ],
        ),
        Node(
            "double",
            ["z", "e2"],
            ["y"],
            "ELEMENT_WISE_MULTIPLY",
            [out, Tensor([1, 1, 2, 4], spread)],
            [out],
        ),
    ]
    return serialized(nodes, ["x"], ["y"])


def node_of(operator: Any) -> Node:
    """Return an operator as a node that reads i0, i1, ... and writes o0, o1, ..."""
    ends: dict[bool, tuple[list[str], list[Tensor]]] = {False: ([], []), True: ([], [])}
    for f in operator.fields:
        if f.tensor is None:
            continue
        names, tensors = ends[f.tensor.output]
        value = getattr(operator, f.name)
        for tensor in (value if f.is_array else [value]) or []:
            names.append("" if tensor is None else f"{'io'[f.tensor.output]}{len(names)}")
            if tensor is not None:
                sizes = tensor.sizes, tensor.strides, tensor.data_type.name
                tensors.append(Tensor(*sizes, tensor.total_tensor_size_in_bytes))
    (inputs, input_tensors), (outputs, output_tensors) = ends[False], ends[True]
    parts = [
        attribute_of(f, getattr(operator, f.name), operator)
        for f in operator.fields
        if f.tensor is None
    ]
    lists = [f for f in operator.fields if f.count]
    counts = [(f.count, "UInt32", len(getattr(operator, f.name) or ())) for f in lists]
    return Node(
        operator.short_name.lower(),
        inputs,
        outputs,
        operator.short_name,
        input_tensors,
        output_tensors,
        [*parts, *counts],
    )


_KINDS = {"UINT": "UInt32", "UINT64": "UInt64", "INT": "Int32", "FLOAT": "Float32"}


def attribute_of(f: Any, value: Any, owner: Any) -> tuple[str | None, str, Any]:
    """Return (name, kind, value) of an attribute; one that is left out has no name."""
    c_type = f.kind.element.c_type if f.is_array else f.kind.c_type
    kind = _KINDS.get(c_type, "UInt32")  # enumerations and BOOL are UINT
    if f.is_array and c_type != "DML_OPERATOR_DESC":
        kinds = {"UInt32": "UIntArray", "Int32": "IntArray", "Float32": "FloatArray"}
        return (f.c_name if value is not None else None), kinds[kind], value or ()
    if c_type == "DML_OPERATOR_DESC":
        if value is None:
            return None, "Activation", None
        if f.is_array:
            return f.c_name, "ActivationArray", [_activation(v) for v in value]
        return f.c_name, "Activation", _activation(value)
    if c_type == "DML_SCALE_BIAS":
        if value is None:
            return None, "ScaleBias", [0, 0]
        return f.c_name, "ScaleBias", [value.scale, value.bias]
    if c_type == "DML_SIZE_2D":
        return f.c_name, "Size2D", [value.width, value.height]
    if c_type == "DML_SCALAR_UNION":
        of = next(g.name for g in owner.fields if g.c_name == f.kind.type_field)
        return f.c_name, "ScalarUnionData", np.array(value, getattr(owner, of).dtype)
    return (f.c_name if value is not None else None), kind, 0 if value is None else value


def _activation(value: Any) -> tuple[str, Any]:
    fields = {f.name: f for f in value.operator.fields}
    parts = [attribute_of(fields[name], item, value) for name, item in value.attributes.items()]
    return value.operator.c_name, [part for part in parts if part[0] is not None]

"""What a session says of its model: `NodeArg` and `ModelMetadata`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx

from dml_jax.onnx.files.model import is_fixed
from dml_jax.onnx.files.types import Type


@dataclass(frozen=True, eq=False)  # as in ONNX Runtime, one is itself alone
class NodeArg:
    """An input or an output of a model.

    Attributes:
        name: its name.
        shape: its sizes: a number, the name of a free dimension, or None for one without a name.
        type: its type in ONNX Runtime's spelling, `tensor(float)`.
    """

    name: str
    shape: list[int | str | None]
    type: str

    def __repr__(self) -> str:
        """Return the text that ONNX Runtime has."""
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape!r})"

    @classmethod
    def of(
        cls, value: onnx.ValueInfoProto, names: Mapping[str, int], denoted: Mapping[str, int]
    ) -> "NodeArg":
        """Return the argument of a value of a graph, with the sizes of overridden dimensions."""
        kind = value.type
        dims = kind.tensor_type.shape.dim if kind.HasField("tensor_type") else ()
        shape: list[int | str | None] = []
        for d in dims:
            if is_fixed(d):
                shape.append(d.dim_value)
            elif d.dim_param in names:
                shape.append(names[d.dim_param])
            elif d.denotation in denoted:
                shape.append(denoted[d.denotation])
            else:
                shape.append(d.dim_param or None)
        return cls(value.name, shape, type_text(kind))

    @classmethod
    def of_initializer(cls, tensor: onnx.TensorProto) -> "NodeArg":
        """Return the argument of an input that has a default."""
        return cls(tensor.name, list(tensor.dims), tensor_text(tensor.data_type))


def tensor_text(element: int) -> str:
    """Return the type of a tensor as ONNX Runtime spells it: `tensor(float)`."""
    return f"tensor({Type(element, None).name.lower()})"


def type_text(kind: onnx.TypeProto) -> str:
    """Return a type as ONNX Runtime spells it: `seq(map(int64,tensor(float)))`."""
    what = kind.WhichOneof("value")
    if what == "tensor_type":
        return tensor_text(kind.tensor_type.elem_type)
    if what == "sparse_tensor_type":
        return f"sparse_{tensor_text(kind.sparse_tensor_type.elem_type)}"
    if what in ("sequence_type", "optional_type"):
        word = {"sequence_type": "seq", "optional_type": "optional"}[what]
        return f"{word}({type_text(getattr(kind, what).elem_type)})"
    if what == "map_type":
        key = tensor_text(kind.map_type.key_type)[len("tensor(") : -1]
        return f"map({key},{type_text(kind.map_type.value_type)})"
    return ""


@dataclass(frozen=True)
class ModelMetadata:
    """What a file says of its model; `custom_metadata_map` has texts that its maker added."""

    custom_metadata_map: dict[str, str] = field(default_factory=dict)
    description: str = ""
    domain: str = ""
    graph_description: str = ""
    graph_name: str = ""
    producer_name: str = ""
    version: int = 0

    @classmethod
    def of(cls, proto: Any) -> "ModelMetadata":
        """Return the metadata of an onnx.ModelProto."""
        return cls(
            {entry.key: entry.value for entry in proto.metadata_props},
            proto.doc_string,
            proto.domain,
            proto.graph.doc_string,
            proto.graph.name,
            proto.producer_name,
            proto.model_version if proto.HasField("model_version") else 2**63 - 1,
        )

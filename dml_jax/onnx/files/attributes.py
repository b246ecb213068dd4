"""Attributes, labels and domains of nodes in a file."""

from typing import Any

import onnx
from onnx import helper

from dml_jax.onnx.files.types import elements_of

MICROSOFT = "com.microsoft"


def domain_of(name: str) -> str:
    """Return a domain's name, "" for ONNX's own."""
    return "" if name == "ai.onnx" else name


def label_of(proto: onnx.NodeProto) -> str:
    """Return how messages name a node."""
    name = proto.name or next(filter(None, proto.output), "")
    return f"Node '{name}' ({proto.op_type})"


def attribute_value(proto: onnx.AttributeProto) -> Any:
    """Return an attribute as Python has it: strings as text, tensors as arrays.

    Raises `DmlError` where the elements of a tensor cannot be read.
    """
    value = helper.get_attribute_value(proto)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if proto.type == onnx.AttributeProto.STRINGS:
        return [v.decode(errors="replace") for v in value]
    if isinstance(value, onnx.TensorProto):
        return elements_of(value)
    return value

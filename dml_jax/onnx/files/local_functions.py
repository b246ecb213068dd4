"""Functions of a model: their keys, attributes and calls."""

from collections.abc import Collection, Mapping

import onnx

from dml_jax.onnx.files.attributes import domain_of
from dml_jax.onnx.files.topology import within

Opsets = Mapping[str, int]

FunctionKey = tuple[str, str, str]


def key_of(domain: str, name: str, overload: str) -> FunctionKey:
    """Return what a function of a model is found by."""
    return domain_of(domain), name, overload


def without(node: onnx.NodeProto, left_out: Collection[str]) -> None:
    """Leave out the inputs of a function's node that the call of the function leaves out."""
    for inner in within(node):
        for index, name in enumerate(inner.input):
            if name in left_out:
                inner.input[index] = ""


def fill(node: onnx.NodeProto, given: Mapping[str, onnx.AttributeProto]) -> None:
    """Replace the attributes of a function's node that name attributes of its call."""
    for inner in within(node):
        for attribute in [a for a in inner.attribute if a.ref_attr_name]:
            name, value = attribute.name, given.get(attribute.ref_attr_name)
            if value is None:
                inner.attribute.remove(attribute)
            else:
                attribute.CopyFrom(value)
                attribute.name = name

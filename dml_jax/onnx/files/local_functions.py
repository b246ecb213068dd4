"""Functions of a model: their keys, attributes and calls."""

from collections.abc import Collection, Mapping
from copy import deepcopy

import onnx

from dml_jax.onnx.files.attributes import domain_of

Opsets = Mapping[str, int]

FunctionKey = tuple[str, str, str]


def key_of(domain: str, name: str, overload: str) -> FunctionKey:
    """Return what a function of a model is found by."""
    return domain_of(domain), name, overload


def without(node: onnx.NodeProto, left_out: Collection[str]) -> None:
    """Leave out the inputs of a function's node that the call of the function leaves out."""
    for index, name in enumerate(node.input):
        if name in left_out:
            node.input[index] = ""
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                without(inner, left_out)


def fill(node: onnx.NodeProto, given: Mapping[str, onnx.AttributeProto]) -> None:
    """Replace the attributes of a function's node that name attributes of its call."""
    kept = []
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            for graph in (attribute.g, *attribute.graphs):
                for inner in graph.node:
                    fill(inner, given)
            kept.append(attribute)
        elif attribute.ref_attr_name in given:
            copy = deepcopy(given[attribute.ref_attr_name])
            copy.name = attribute.name
            kept.append(copy)
    del node.attribute[:]
    node.attribute.extend(kept)

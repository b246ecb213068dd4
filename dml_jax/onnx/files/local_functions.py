"""Functions of a model: their keys, their attributes, and their nodes in place of calls."""

from collections.abc import Collection, Mapping, Sequence

import onnx
from onnx import inliner

from dml_jax.errors import PARTS_MAX, DmlError, Fault, Sentence, Unquoted
from dml_jax.onnx.files.attributes import domain_of
from dml_jax.onnx.files.topology import within

Opsets = Mapping[str, int]

FunctionKey = tuple[str, str, str]

CALLS_MAX = 64  # functions and branches within each other


def key_of(domain: str, name: str, overload: str) -> FunctionKey:
    """Return what a function of a model is found by."""
    return domain_of(domain), name, overload


def functions_of(proto: onnx.ModelProto) -> dict[FunctionKey, onnx.FunctionProto]:
    """Return the functions that a model defines."""
    return {key_of(f.domain, f.name, f.overload): f for f in proto.functions}


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


def too_deep(name: str) -> DmlError:
    """Return the error of a function that others call which others call, and so on."""
    return DmlError([Fault("", "the function", f"be called by at most {CALLS_MAX} others", name)])


def written_out(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model without calls of its functions, whose nodes stand in their place.

    Raises `DmlError` where a function calls itself, or where that makes too many nodes.
    """
    functions = functions_of(proto)
    counts: dict[FunctionKey, int] = {}

    def count(nodes: Sequence[onnx.NodeProto], depth: int) -> int:
        """Return how many nodes there are, with those of the functions that they call."""
        keys = [key_of(n.domain, n.op_type, n.overload) for node in nodes for n in within(node)]
        for key in keys:
            if key in functions and key not in counts:
                if depth >= CALLS_MAX:
                    raise too_deep(key[1])
                counts[key] = count(functions[key].node, depth + 1)
        return len(keys) + sum(counts.get(key, 0) for key in keys)

    if not functions:
        return proto
    if count(proto.graph.node, 0) > PARTS_MAX:
        rule = f"be at most {PARTS_MAX}, with those of functions"
        raise DmlError([Fault("", "the number of nodes", rule, Unquoted("more"))])
    try:
        return inliner.inline_local_functions(proto)
    except (RuntimeError, onnx.checker.ValidationError) as error:  # too many inputs, say
        text = str(error).partition("\n")[0]
        rule = Sentence(f"the functions of the model cannot be written out: {text}")
        raise DmlError([Fault("", "", rule, "")]) from None

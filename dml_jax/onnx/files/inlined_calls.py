"""Functions of a model, written out where they are called."""

from collections.abc import Sequence

import onnx
from onnx import inliner

from dml_jax.errors import PARTS_MAX, DmlError, Fault, Sentence, Unquoted
from dml_jax.onnx.files.local_functions import FunctionKey, key_of
from dml_jax.onnx.files.topology import within

CALLS_MAX = 64  # functions and branches within each other


def too_deep(name: str) -> DmlError:
    """Return the error of a function that others call which others call, and so on."""
    rule = f"be called by at most {CALLS_MAX} others"
    return DmlError([Fault("", "the function", rule, name)])


def written_out(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model without calls of its functions, whose nodes stand in their place.

    Raises `DmlError` where a function calls itself, or where that makes too many nodes.
    """
    functions = {key_of(f.domain, f.name, f.overload): f.node for f in proto.functions}
    counts: dict[FunctionKey, int] = {}

    def count(nodes: Sequence[onnx.NodeProto], depth: int) -> int:
        """Return how many nodes there are, with those of the functions that they call."""
        keys = [key_of(n.domain, n.op_type, n.overload) for node in nodes for n in within(node)]
        for key in keys:
            if key in functions and key not in counts:
                if depth >= CALLS_MAX:
                    raise too_deep(key[1])
                counts[key] = count(functions[key], depth + 1)
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

"""Casts to BFLOAT16, whose tensors hold FLOAT32 in a graph and bfloat16 between graphs."""

import jax

from dml_jax.errors import Unquoted
from dml_jax.lowering.rounding import as_float
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import fallback


def _rounds_to_bfloat16(node: Node) -> str:
    """Return why no operator computes a cast to BFLOAT16, a rounding with the fallback or not."""
    is_narrowed = node.result_type().name == "BFLOAT16" and node.type().name != "BFLOAT16"
    return "Cast to BFLOAT16 rounds, and DirectML lacks the type" if is_narrowed else ""


@fallback("Cast", "CastLike", kept_from_operator=_rounds_to_bfloat16)
def _cast(node: Node, x: jax.Array, like: jax.Array | None = None) -> jax.Array:
    kind = node.result_type()
    if kind.name != "BFLOAT16":
        raise node.refusal("to", "be a type that its operator or its code has", Unquoted(kind.name))
    return as_float(x, kind.array_dtype)

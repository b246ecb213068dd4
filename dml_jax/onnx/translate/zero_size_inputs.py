"""Nodes of ONNX Runtime's own op types that read tensors without elements.

These op types have no schema that says the sizes of their outputs. The translator says them: it
translates the node with 2 and with 3 elements in place of each 0, in a graph that is thrown away,
and the sizes of the outputs are continued to 0.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx.helper import np_dtype_to_tensor_dtype

from dml_jax.description.tensor import TensorDesc
from dml_jax.graph import Expression, GraphBuilder
from dml_jax.onnx.files.types import Type
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import as_list
from dml_jax.onnx.nodes.tensor import Tensor


def has_empty_inputs(node: Node) -> bool:
    """Return whether an input has no elements."""
    return any(t is not None and t.type.is_empty for t in node.inputs)


def translated(node: Node) -> Sequence[Any]:
    """Return what a node without schema gives whose translator needs elements.

    The types of the node are set. Outputs without elements are None; for the others an input
    without elements counts as left out.
    """
    # Two sizes, since a size of the output grows by a number for each element of the input, and
    # begins at another one: two points give the line, which is read at 0.
    few, more = (_of_size(node, size) for size in (2, 3))
    node.types = [_type(a, b) for a, b in zip(few, more, strict=True)]
    if all(kind is None or kind.is_empty for kind in node.types):
        return [None] * len(few)
    kept = [None if t is not None and t.type.is_empty else t for t in node.inputs]
    return _results(node.over(kept, node.builder))


def _results(node: Node) -> Sequence[Any]:
    assert node.translator is not None
    return as_list(node.translator(node))


def _of_size(node: Node, size: int) -> Sequence[Any]:
    """Return what the translator gives with `size` elements in place of 0."""
    builder = GraphBuilder(beyond=node.builder.beyond)
    inputs = [t and _with_elements(t, str(k), size, builder) for k, t in enumerate(node.inputs)]
    return _results(node.over(inputs, builder, [None] * len(node.types)))


def _with_elements(tensor: Tensor, name: str, size: int, builder: GraphBuilder) -> Tensor:
    """Return a tensor like another one, with `size` elements in place of 0, in another graph."""
    kind = Type(tensor.type.element, tuple(n or size for n in tensor.shape))

    def expression() -> Expression:
        shape, beyond = kind.shape or (1,), builder.beyond
        return builder.input_tensor(name, TensorDesc(kind.edge_type(beyond), shape, beyond=beyond))

    def array() -> np.ndarray:
        return np.zeros(kind.shape or (), kind.dtype) if tensor.type.is_empty else tensor.array

    is_weight = tensor.is_weight
    return Tensor(tensor.name, kind, expression, array if tensor.is_known else None, is_weight)


def _type(few: Any, more: Any) -> Type | None:
    """Return the type of an output, by its sizes with 2 and with 3 elements in place of 0."""
    if few is None or more is None:
        return None
    element = few.type.element if isinstance(few, Tensor) else np_dtype_to_tensor_dtype(few.dtype)
    pairs = zip(few.shape, more.shape, strict=True)
    return Type(element, tuple(max(0, a - 2 * (b - a)) for a, b in pairs))

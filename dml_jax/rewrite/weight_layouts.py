"""Weights lie as products read them: a program turns them once, when it prepares weights.

A product `x @ w` reads the rows of a matrix {K, N}. Networks also store {N, K}, and the weights of
recurrent cells as {gates, K}. A node ELEMENT_WISE_IDENTITY turns them, which follows from weights
alone.
"""

from typing import Any

from dml_jax import functional as dml
from dml_jax.enums import MatrixTransform, TensorDataType
from dml_jax.graph import Expression, Graph, OperatorNode
from dml_jax.graph.parts import laid_out
from dml_jax.operators.recurrent import TURNED
from dml_jax.rewrite.pattern import Copy, Found, Rewrite

_WEIGHTS = ("weight_tensor", "recurrence_tensor")
_RECURRENT = ("RNN", "LSTM", "GRU")


def turned(x: Expression, order: tuple[int, ...]) -> Expression:
    """Return a copy of `x`, which is packed, with its dimensions in another order."""
    strides = x.desc.packed_strides
    return dml.identity(x.reinterpret([x.sizes[d] for d in order], [strides[d] for d in order]))


def _is_matrix_turned(node: Found) -> bool:
    is_turned = node.operator.trans_b == MatrixTransform.TRANSPOSE
    return is_turned and node.is_fixed("b_tensor") and node["b_tensor"].desc.is_packed


def _with_turned_matrix(node: Found) -> Expression:
    """Return the product with its second matrix in the other order."""
    is_turned, b = node.operator.trans_b == MatrixTransform.TRANSPOSE, node["b_tensor"]
    rank = len(b.sizes)
    b = turned(b, (*range(rank - 2), rank - 1, rank - 2))
    after = MatrixTransform.NONE if is_turned else MatrixTransform.TRANSPOSE
    operator = node.operator.replace(b_tensor=b.desc, trans_b=after)
    return operator(node["a_tensor"], b, *node.inputs[2:])


def _is_half_matrix(node: Found) -> bool:
    is_half = node.operator.b_tensor.data_type == TensorDataType.FLOAT16
    is_plain = node.operator.trans_b == MatrixTransform.NONE and is_half
    return is_plain and node.is_fixed("b_tensor") and node["b_tensor"].desc.is_packed


class Recurrences:
    """Turns the weights of recurrent cells."""

    name = "recurrences turned"

    def once(self, graph: Graph) -> tuple[Graph, int]:
        """Return the graph whose recurrent cells read turned weights, and their number."""
        if not any(map(_is_recurrent, graph.nodes)):
            return graph, 0
        made, count = Copy(graph), 0
        for index, node, _ in made.plan():
            found = made.found(index) if _is_recurrent(node) else None
            if found is None or not found.is_fixed(*_WEIGHTS):
                made.add(index, node)
                continue
            count += 1
            weight, recurrence = (found[name] for name in _WEIGHTS)
            weight, recurrence = turned(weight, (0, 3, 1, 2)), turned(recurrence, (0, 1, 3, 2))
            inputs = [tensor for _, tensor in node.slots(output=False)]
            inputs[1:3] = weight.desc, recurrence.desc
            outputs = [tensor for _, tensor in node.slots(output=True)]
            other = laid_out(found.operator, TURNED, inputs, outputs, node.name)
            made.add(index, other, {1: weight, 2: recurrence})
        return (made.build(), count) if count else (graph, 0)


def _is_recurrent(node: Any) -> bool:
    if not isinstance(node, OperatorNode) or node.operator.short_name not in _RECURRENT:
        return False
    return node.operator.weight_tensor.is_packed and node.operator.recurrence_tensor.is_packed


RECURRENCES = Recurrences()
MATRICES = Rewrite("matrices turned", ("GEMM",), _with_turned_matrix, _is_matrix_turned)
ROWS = Rewrite("matrices as rows", ("GEMM",), _with_turned_matrix, _is_half_matrix)
"""Turns FLOAT16 matrices {K, N} to {N, K}, as a GPU multiplies one row by them fastest."""

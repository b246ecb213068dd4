"""Weights lie as products read them: a program turns and casts them once, when it prepares weights.

A product `x @ w` reads the rows of a matrix {K, N}. Networks also store {N, K}, and the weights of
recurrent cells as {gates, K}. A node ELEMENT_WISE_IDENTITY turns them, which follows from weights
alone.

A product of FLOAT16 is computed in FLOAT32 and rounded once. Casts around a GEMM of FLOAT32 give
the same numbers, and that of a weight follows from the weight alone: for devices whose products of
FLOAT16 are slow, such as CPUs.
"""

from dml_jax import functional as dml
from dml_jax.enums import MatrixTransform, TensorDataType
from dml_jax.graph import Expression, FunctionNode, OperatorNode
from dml_jax.graph.parts import laid_out
from dml_jax.operators.recurrent import TURNED
from dml_jax.rewrite.pattern import Found, Rewrite

_WEIGHTS = ("weight_tensor", "recurrence_tensor")
_MATRICES = ("a_tensor", "b_tensor", "c_tensor")


def transpose(x: Expression, order: tuple[int, ...]) -> Expression:
    """Return a copy of `x`, which is packed, with its dimensions in another order."""
    strides = x.desc.packed_strides
    return dml.identity(x.reinterpret([x.sizes[d] for d in order], [strides[d] for d in order]))


def _fixed_matrix(node: Found) -> str:
    """Return why the second matrix of a product cannot be turned once."""
    if not node.is_fixed("b_tensor"):
        return "the matrix is computed at each call"
    return "" if node["b_tensor"].desc.is_packed else "the matrix is a view of other strides"


def _refusal_of_transpose(node: Found) -> bool | str:
    is_transposed = node.operator.trans_b == MatrixTransform.TRANSPOSE
    return _fixed_matrix(node) if is_transposed else False


def _with_turned_matrix(node: Found) -> Expression:
    """Return the product with its second matrix in the other order."""
    is_turned, b = node.operator.trans_b == MatrixTransform.TRANSPOSE, node["b_tensor"]
    rank = len(b.sizes)
    b = transpose(b, (*range(rank - 2), rank - 1, rank - 2))
    after = MatrixTransform.NONE if is_turned else MatrixTransform.TRANSPOSE
    operator = node.operator.replace(b_tensor=b.desc, trans_b=after)
    return operator(node["a_tensor"], b, *node.inputs[2:])


def _refusal_of_half(node: Found) -> bool | str:
    is_half = node.operator.b_tensor.data_type == TensorDataType.FLOAT16
    is_plain = node.operator.trans_b == MatrixTransform.NONE and is_half
    return _fixed_matrix(node) if is_plain else False


def _refusal_of_cell(node: Found) -> str:
    if not node.is_fixed(*_WEIGHTS):
        return "the weights are computed at each call"
    are_packed = all(node[name].desc.is_packed for name in _WEIGHTS)
    return "" if are_packed else "the weights are views of other strides"


def _with_turned_weights(node: Found) -> tuple[FunctionNode, dict[int, Expression]]:
    """Return the node of a recurrent cell that reads turned weights."""
    weight, recurrence = (node[name] for name in _WEIGHTS)
    weight, recurrence = transpose(weight, (0, 3, 1, 2)), transpose(recurrence, (0, 1, 3, 2))
    inputs, outputs = (
        [tensor for _, tensor in OperatorNode(node.operator).slots(output=is_output)]
        for is_output in (False, True)
    )
    inputs[1:3] = weight.desc, recurrence.desc
    return laid_out(node.operator, TURNED, inputs, outputs, None), {1: weight, 2: recurrence}


def _is_half(node: Found) -> bool:
    is_weight = any(node[name] is not None and node.is_fixed(name) for name in _MATRICES[:2])
    return node.output.data_type == TensorDataType.FLOAT16 and is_weight


def _widen(node: Found) -> Expression:
    given = {n: node[n] if node[n] is None else dml.cast(node[n], "FLOAT32") for n in _MATRICES}
    descs = {n: None if x is None else x.desc for n, x in given.items()}
    output = node.output.replace(data_type="FLOAT32", total_tensor_size_in_bytes=None)
    made = node.operator.replace(**descs, output_tensor=output)
    return dml.cast(made(*(x for x in given.values() if x is not None)), "FLOAT16")


RECURRENCES = Rewrite(
    "recurrences turned", ("RNN LSTM GRU",), _with_turned_weights, _refusal_of_cell
)
MATRICES = Rewrite("matrices turned", ("GEMM",), _with_turned_matrix, _refusal_of_transpose)
ROWS = Rewrite("matrices as rows", ("GEMM",), _with_turned_matrix, _refusal_of_half)
"""Turns FLOAT16 matrices {K, N} to {N, K}, as a GPU multiplies one row by them fastest."""
PRODUCTS = Rewrite("products in FLOAT32", ("GEMM",), _widen, _is_half)

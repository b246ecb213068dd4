"""Products of matrices."""

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper

from dml_jax import functional as dml
from dml_jax.enums import MatrixTransform
from dml_jax.graph import Expression
from dml_jax.lowering.strided_memory import packed_strides
from dml_jax.onnx.files.attributes import MICROSOFT
from dml_jax.onnx.nodes.einsum import broadcast_shapes, labels_of
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import translates
from dml_jax.onnx.nodes.reshapes import as_type, of_rank, pack, permute, reshape, spread
from dml_jax.onnx.nodes.tensor import Tensor
from dml_jax.onnx.sizes import integer_ranges, padding_rules
from dml_jax.onnx.translators.activation import with_activation
from dml_jax.onnx.translators.elements import narrow

_RANK_MAX = 4  # of GEMM


def matrices(a: Expression, b: Expression) -> tuple[Expression, Expression, tuple[int, ...]]:
    """Return two stacks of matrices of one rank of at most 4, and the product's sizes.

    A vector is a row of `a`, and a column of `b`. Stacks are broadcast.
    """
    is_row, is_column = len(a.sizes) == 1, len(b.sizes) == 1
    a = reshape(a, (1, *a.sizes)) if is_row else a
    b = reshape(b, (*b.sizes, 1)) if is_column else b
    stack = tuple(np.broadcast_shapes(a.sizes[:-2], b.sizes[:-2]))
    sizes = (*stack, *a.sizes[-2:-1][is_row:], *b.sizes[-1:][is_column:])
    if len(b.sizes) == 2 and len(a.sizes) > 2:  # one matrix for all rows
        return reshape(a, (math.prod(a.sizes[:-1]), a.sizes[-1])), b, sizes
    pair = []
    for x in (a, b):
        x = spread(x, (*stack, *x.sizes[-2:])) if x.sizes[:-2] != stack else x
        if len(x.sizes) > _RANK_MAX:
            x = reshape(pack(x), (math.prod(stack), *x.sizes[-2:]))
        pair.append(x)
    return pair[0], pair[1], sizes


def product(a: Expression, b: Expression, alpha: float = 1.0) -> Expression:
    """Return the product of two stacks of matrices."""
    a, b, sizes = matrices(a, b)
    return reshape(dml.gemm(a, b, alpha=alpha), sizes)


class Quantized(NamedTuple):
    """Integers that stand for real numbers, `(steps - zero) * scale`; a zero of None is 0."""

    steps: Expression
    scale: Expression
    zero: Expression | None


def product_of_integers(a: Quantized, b: Quantized, bias: Expression | None = None) -> Expression:
    """Return the product of two stacks of matrices of 8-bit integers, plus `bias`, in FLOAT32.

    Parameters are one number, or one for each row of `a`, and one for each column of `b`.
    """
    # DirectML takes one type of both inputs, where ONNX takes INT8 with UINT8.
    if a.steps.dtype != b.steps.dtype:
        a, b = _as_unsigned(a), _as_unsigned(b)
    x, y, sizes = matrices(a.steps, b.steps)
    rows = [_of_rows(p, len(x.sizes)) for p in (a.scale, a.zero)]
    columns = [_of_columns(p, len(x.sizes)) for p in (b.scale, b.zero, bias)]
    added = None if bias is None else spread(columns[2], (*x.sizes[:-1], y.sizes[-1]))
    inputs = pack(x), rows[0], pack(y), columns[0], rows[1], columns[1], added
    return reshape(dml.matrix_multiply_integer_to_float(*inputs), sizes)


def _as_unsigned(x: Quantized) -> Quantized:
    """Return INT8 as UINT8, with 128 added to each element and to the zero."""
    if x.steps.desc.data_type.name == "UINT8":
        return x
    zero = x.steps.builder.constant(np.full(1, 128, np.uint8))
    return Quantized(_flip(x.steps), x.scale, zero if x.zero is None else _flip(x.zero))


def _flip(x: Expression) -> Expression:
    return pack(x).reinterpret(x.sizes, data_type="UINT8") ^ 128


@translates("MatMul", padding=padding_rules.matmul_rule, integers=integer_ranges.sum_of_products)
def _matmul(node: Node) -> Expression:
    left, right = (_dequantize_node(node, index) for index in (0, 1))
    if left is None or right is None:
        return product(node[0], node[1])
    a, b = (Quantized(x[0], x[1], x.get(2)) for x in (left, right))
    return product_of_integers(a, b)


def _dequantize_node(node: Node, index: int) -> Node | None:
    """Return the DequantizeLinear that makes a matrix of 8-bit integers, None for another.

    The integers are multiplied, which is faster. A matrix has one scale, or the second one of two
    dimensions has one for each column.
    """
    made = node.tensor(index).made_by
    if made is None or made.op_type != "DequantizeLinear" or made.attribute("block_size", 0):
        return None
    is_small = made.type(0).inner.bits == 8 and made.output_type().name == "FLOAT32"
    is_one = math.prod(made.shape(1)) == 1
    is_by_column = index == 1 and made.rank() == 2 and made.attribute("axis", 1) in (1, -1)
    return made if is_small and made.rank() > 1 and (is_one or is_by_column) else None


@translates("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def _fused_matmul(node: Node) -> Expression:
    operands = []
    for index, name in enumerate("AB"):
        x, rank = node[index], node.rank(index)
        order = [*range(rank)]
        if node.attribute(f"transBatch{name}", 0):
            order = [*order[1:-1], order[0], order[-1]]
        if node.attribute(f"trans{name}", 0) and rank > 1:
            order[-2:] = order[:-3:-1]
        operands.append(x if order == [*range(rank)] else permute(x, order))
    return product(operands[0], operands[1], node.attribute("alpha", 1.0))


@translates("FusedMatMulActivation", domain=MICROSOFT)
def _matmul_with_activation(node: Node) -> Expression:
    return with_activation(node, _fused_matmul(node))


@translates("Gemm", padding=padding_rules.gemm_rule, integers=integer_ranges.sum_of_products)
def _gemm(node: Node) -> Expression:
    a, b, c = node[0], node[1], None
    alpha, beta = (node.attribute(name, 1.0) for name in ("alpha", "beta"))
    is_turned = [bool(node.attribute(f"trans{name}", 0)) for name in "AB"]
    ways = [MatrixTransform(turned) for turned in is_turned]
    # A beta of 0 means that C is not read, as in BLAS: NaN times 0 would be NaN.
    if node.has(2) and beta:
        sizes = a.sizes[is_turned[0]], b.sizes[1 - is_turned[1]]
        c = spread(of_rank(node[2], 2), sizes)
    return dml.gemm(a, b, c, ways[0], ways[1], alpha, beta)


@translates("FusedGemm", domain=MICROSOFT)
def _gemm_with_activation(node: Node) -> Expression:
    return with_activation(node, _gemm(node))


def _of_rows(x: Expression | None, rank: int) -> Any:
    """Return a parameter of the rows of A; None where it is left out."""
    is_list = x is not None and len(x.sizes) == 1 and x.sizes != (1,)
    return _of_columns(reshape(x, (*x.sizes, 1)) if x is not None and is_list else x, rank)


def _of_columns(x: Expression | None, rank: int) -> Any:
    """Return a parameter of the columns of B; None where it is left out."""
    return None if x is None else of_rank(x, rank)


@translates("MatMulInteger")
def _integers(node: Node) -> Expression:
    a, b, sizes = matrices(node[0], node[1])
    rows, columns = _of_rows(node.get(2), len(a.sizes)), _of_columns(node.get(3), len(b.sizes))
    return reshape(dml.matrix_multiply_integer(pack(a), pack(b), rows, columns), sizes)


@translates("QLinearMatMul")
def _q_linear_mat_mul(node: Node) -> Expression:
    if node.type(0).is_small or node.type(3).is_small or node.result_type().is_small:
        return _of_small_floats(node)
    a, b, sizes = matrices(node[0], node[3])
    rank = len(a.sizes)
    scales = {1: _of_rows, 4: _of_columns, 6: _of_rows}
    a_scale, b_scale, y_scale = (as_type(of(node[k], rank), "FLOAT32") for k, of in scales.items())
    zeros = {2: _of_rows, 5: _of_columns, 7: _of_rows}
    a_zero, b_zero, y_zero = (of(node.get(k), rank) for k, of in zeros.items())
    inputs = pack(a), a_scale, pack(b), b_scale, y_scale, a_zero, b_zero, y_zero
    return reshape(dml.quantized_linear_matrix_multiply(*inputs), sizes)


def _of_small_floats(node: Node) -> Expression:
    """Return QLinearMatMul of floats of 8 bits: the product of the real numbers, rounded once."""

    def parameter(index: int, of: Any, rank: int) -> Expression:
        return dml.cast(of(node[index], rank), "FLOAT32")

    def real(index: int, of: Any) -> Expression:
        x = dml.cast(node[index], "FLOAT32")
        zero, scale = (parameter(index + k, of, len(x.sizes)) for k in (2, 1))
        return (x - zero) * scale

    whole = product(real(0, _of_rows), real(3, _of_columns))
    scale, zero = (parameter(k, _of_rows, len(whole.sizes)) for k in (6, 7))
    if not node.result_type().is_small:
        zero = _of_rows(node[7], len(whole.sizes))
        return dml.quantize_linear(whole, scale, zero, node.output_type())
    return narrow(node, whole / scale + zero, node.result_type())


@translates("CDist", domain=MICROSOFT)
def _distances(node: Node) -> Expression:
    (m, size), (n, _) = node.shape(0), node.shape(1)
    apart = reshape(node[0], (m, 1, size)) - reshape(node[1], (1, n, size))
    is_square = node.attribute("metric", "sqeuclidean") == "sqeuclidean"
    return reshape(dml.reduce(apart, "SUM_SQUARE" if is_square else "L2", [2]), (m, n))


@translates("AffineGrid")
def _affine_grid(node: Node) -> Expression:
    """Return the places of an image's elements in [-1, 1], moved by a matrix: [..., y, x]."""
    sizes, is_aligned = [int(n) for n in node.constant(1)[2:]], node.attribute("align_corners")
    lines = [np.linspace(-1, 1, n) if is_aligned else (2 * np.arange(n) + 1) / n - 1 for n in sizes]
    count, dtype = len(sizes), node.type().inner.dtype
    columns = dml.split(node[0], 2, [1] * (count + 1))
    parts = [reshape(column, (node.shape()[0], *[1] * count, count)) for column in columns]
    grid = parts.pop()
    for part, axis in zip(parts, range(count, 0, -1), strict=True):  # x, the last, comes first
        along = [-1 if d == axis else 1 for d in range(count + 2)]
        line = lines[axis - 1].reshape(along).astype(dtype)
        grid = grid + part * node.builder.constant(line)
    return reshape(grid, node.output_shape())


def _inferred_einsum(
    proto: onnx.NodeProto, kinds: dict[str, onnx.TypeProto], inputs: Sequence[Tensor | None]
) -> None:
    """Give operands the sizes that they are broadcast to: inference takes the first of a label."""
    equation = next((a.s.decode(errors="replace") for a in proto.attribute), "")
    given = [tensor for tensor in inputs if tensor is not None]
    names = [name for name in proto.input if name]
    if len({*names}) < len(names):  # a tensor alone, or with itself
        return
    # NumPy refuses ranks that do not fit. ONNX's inference does too, and names the node.
    with contextlib.suppress(ValueError):
        shapes = broadcast_shapes(equation, [tensor.shape for tensor in given])
        for name, tensor, shape in zip(names, given, shapes, strict=True):
            kinds[name] = helper.make_tensor_type_proto(tensor.type.element, shape)


@translates("Einsum", inferred_as=_inferred_einsum)
def _einsum(node: Node) -> Expression:
    ranks = [node.rank(k) for k in range(len(node.inputs))]
    terms, out = labels_of(node.attribute("equation"), ranks)
    operands = [_diagonal(node[k], term) for k, term in enumerate(terms)]
    sizes = {c: n for x, term in operands for c, n in zip(term, x.sizes, strict=False) if n != 1}
    operands = [_unspread(x, term, sizes) for x, term in operands]
    terms = [term for _, term in operands]
    left, labels = operands[0]
    for k in range(1, len(terms)):
        right, others = operands[k]
        left, labels = _contract(left, labels, right, others, set(out).union(*terms[k + 1 :]))
    left, labels = _sum_labels(left, labels, set(out))
    return permute(left, [labels.index(label) for label in out]) if out else left


def _unspread(x: Expression, labels: str, sizes: Mapping[str, int]) -> tuple[Expression, str]:
    """Return an operand without the dimensions of size 1 whose label has another size elsewhere.

    `sizes` has the labels that have a size other than 1.
    """
    kept = [d for d, c in enumerate(labels) if x.sizes[d] != 1 or c not in sizes]
    if len(kept) == len(labels):
        return x, labels
    return reshape(x, [x.sizes[d] for d in kept]), "".join(labels[d] for d in kept)


def _diagonal(x: Expression, labels: str) -> tuple[Expression, str]:
    """Return an operand in which each label occurs once: a repeated one is its diagonal."""
    own = "".join(dict.fromkeys(labels))
    if own == labels or not labels:
        return x, labels
    strides = x.desc.strides or packed_strides(x.sizes)
    sizes = [x.sizes[labels.index(label)] for label in own]
    steps = [sum(s for s, known in zip(strides, labels, strict=True) if known == l) for l in own]  # noqa: E741
    return pack(x.reinterpret(sizes, steps)), own


def _sum_labels(x: Expression, labels: str, kept: set[str]) -> tuple[Expression, str]:
    """Return the sum over the labels that are not kept."""
    axes = [d for d, label in enumerate(labels) if label not in kept]
    if not axes:
        return x, labels
    sizes = [size for d, size in enumerate(x.sizes) if d not in axes]
    rest = "".join(label for label in labels if label in kept)
    return reshape(dml.reduce(x, "SUM", axes), sizes), rest


def _contract(
    a: Expression, of_a: str, b: Expression, of_b: str, later: set[str]
) -> tuple[Expression, str]:
    """Return the product of two operands, summed over the labels that nothing reads later."""
    a, of_a = _sum_labels(a, of_a, later | set(of_b))
    b, of_b = _sum_labels(b, of_b, later | set(of_a))
    both = [label for label in of_a if label in of_b]
    stack = [label for label in both if label in later]
    inner = [label for label in both if label not in later]
    rows = [label for label in of_a if label not in both]
    columns = [label for label in of_b if label not in both]
    x, x_sizes = _stack_of_matrices(a, of_a, stack, rows, inner)
    y, y_sizes = _stack_of_matrices(b, of_b, stack, inner, columns)
    labels, known = [*stack, *rows, *columns], y_sizes | x_sizes
    return reshape(product(x, y), [known[label] for label in labels]), "".join(labels)


def _stack_of_matrices(
    x: Expression, labels: str, *groups: Sequence[str]
) -> tuple[Expression, dict[str, int]]:
    """Return an operand as a stack of matrices: a dimension for each of three groups of labels."""
    sizes = dict(zip(labels, x.sizes, strict=False))
    if labels:
        x = permute(x, [labels.index(label) for group in groups for label in group])
    return reshape(x, [math.prod(sizes[label] for label in group) for group in groups]), sizes

"""Quantized op types of ONNX Runtime's own domain."""

from typing import Any

import numpy as np

from dml_jax import functional as dml
from dml_jax.errors import Unquoted
from dml_jax.graph import Expression
from dml_jax.onnx.nodes import MICROSOFT as DOMAIN
from dml_jax.onnx.nodes import Node, translates
from dml_jax.onnx.reshapes import packed, reshaped, spread, transposed
from dml_jax.onnx.translators.products import matrices
from dml_jax.onnx.translators.windows import planes, window_of, with_planes

_SOFTMAX_OF_ONE_AXIS = 13  # the opset from which a softmax is over one dimension


def _scalar(node: Node, index: int, rank: int) -> Any:
    """Return a parameter of all elements with `rank` dimensions; None where it is left out."""
    x = node.given(index)
    if x is None:
        return None
    if np.prod(x.sizes) != 1:
        raise node.refusal(node.input_name(index), "have one element", list(x.sizes))
    return reshaped(x, (1,) * max(rank, 1))


@translates("QLinearAdd", domain=DOMAIN)
def _add(node: Node) -> Expression:
    rank = max(node.rank(0), node.rank(3))
    a_scale, b_scale, scale = (_scalar(node, k, rank) for k in (1, 4, 6))
    a_zero, b_zero, zero = (_scalar(node, k, rank) for k in (2, 5, 7))
    return dml.quantized_linear_add(node[0], a_scale, node[3], b_scale, scale, a_zero, b_zero, zero)


def _real(node: Node, index: int) -> Expression:
    """Return input `index` as real numbers, by the scale and the zero point that follow it."""
    rank = node.rank(index)
    scale, zero_point = _scalar(node, index + 1, rank), _scalar(node, index + 2, rank)
    return dml.dequantize_linear(node[index], scale, zero_point)


def _quantized(node: Node, x: Expression, index: int) -> Expression:
    """Return real numbers by the scale that is input `index`, and the zero point after it."""
    rank = len(x.sizes)
    scale, zero_point = _scalar(node, index, rank), _scalar(node, index + 1, rank)
    kind = node[0].desc.data_type if zero_point is None else zero_point.desc.data_type
    return dml.quantize_linear(x, scale, zero_point, kind)


@translates("QLinearMul", domain=DOMAIN)
def _multiply(node: Node) -> Expression:
    return _quantized(node, _real(node, 0) * _real(node, 3), 6)


@translates("QLinearSigmoid", domain=DOMAIN)
def _sigmoid(node: Node) -> Expression:
    return _quantized(node, dml.activation_sigmoid(_real(node, 0)), 3)


@translates("QLinearLeakyRelu", domain=DOMAIN)
def _leaky_relu(node: Node) -> Expression:
    alpha = node.attribute("alpha", 0.01)
    return _quantized(node, dml.activation_leaky_relu(_real(node, 0), alpha), 3)


@translates("QLinearSoftmax", domain=DOMAIN)
def _softmax(node: Node) -> Expression:
    x, axis = _real(node, 0), node.from_start(node.attribute("axis", -1), node.rank())
    if node.attribute("opset", 13) >= _SOFTMAX_OF_ONE_AXIS:
        made = dml.activation_softmax(x, [axis])
    else:  # over all dimensions from the axis on
        rows = (int(np.prod(x.sizes[:axis])), int(np.prod(x.sizes[axis:])))
        made = reshaped(dml.activation_softmax(reshaped(x, rows), [1]), x.sizes)
    return _quantized(node, made, 3)


@translates("QGemm", domain=DOMAIN)
def _gemm(node: Node) -> Expression:
    a, b = (
        packed(transposed(node[index], (1, 0)) if node.attribute(name, 0) else node[index])
        for index, name in ((0, "transA"), (3, "transB"))
    )
    of_columns = [reshaped(node[k], (1, int(np.prod(node.shape(k))))) for k in (4, 5)]
    whole = dml.matrix_multiply_integer(a, b, _scalar(node, 2, 2), of_columns[1])
    if node.has(6):
        bias = reshaped(node[6], (1,) * (2 - node.rank(6)) + node.shape(6))
        whole = whole + spread(bias, whole.sizes)
    real = dml.cast(whole, "FLOAT32") * (_scalar(node, 1, 2) * of_columns[0])
    real = real * node.attribute("alpha", 1.0)
    return _quantized(node, real, 7) if node.has(7) else real


@translates("QLinearConcat", domain=DOMAIN)
def _concat(node: Node) -> Expression:
    parts = [_real(node, k) for k in range(2, len(node), 3)]
    axis = node.from_start(node.attribute("axis", 0), node.rank(2))
    return _quantized(node, dml.join(parts, axis) if len(parts) > 1 else parts[0], 0)


@translates("QLinearAveragePool", "QLinearGlobalAveragePool", domain=DOMAIN)
def _pool(node: Node) -> Expression:
    rank = node.rank()
    is_last = bool(node.attribute("channels_last", 0))
    inward, outward = (0, rank - 1, *range(1, rank - 1)), (0, *range(2, rank), 1)
    x = packed(transposed(node[0], inward)) if is_last else node[0]
    if node.op_type == "QLinearGlobalAveragePool":
        sizes = x.sizes[2:]
        ones, zeros = [1] * len(sizes), [0] * len(sizes)
        window = (ones, list(sizes), zeros, zeros, ones, False)
    else:
        w = window_of(node, node.attribute("kernel_shape"), x.sizes[2:])
        if w.end != w.declared and node.attribute("count_include_pad", 0):
            rule = "be 0 where ceil_mode makes windows that end beyond the padding"
            raise node.refusal("count_include_pad", rule, 1)
        w = with_planes(w)
        is_counted = bool(node.attribute("count_include_pad", 0))
        window = (w.strides, w.sizes, w.start, w.end, w.dilations, is_counted)
    plane = planes(x)
    if rank == 3 and node.op_type == "QLinearGlobalAveragePool":
        window = ([1, 1], [1, x.sizes[2]], [0, 0], [0, 0], [1, 1], False)
    x_scale, y_scale = (_scalar(node, k, len(plane.sizes)) for k in (1, 3))
    zeros_of = [_scalar(node, k, len(plane.sizes)) for k in (2, 4)]
    made = dml.quantized_linear_average_pooling(plane, x_scale, y_scale, *window, *zeros_of)
    made = reshaped(made, (*made.sizes[:2], *made.sizes[2 if rank > 3 else 3 :]))
    return packed(transposed(made, outward)) if is_last else made


def _to_float(
    node: Node, a: Expression, a_scale: Any, a_zero: Any, places: tuple[int, int, int, int]
) -> Expression:
    """Return a product of integers times their scales, plus a bias.

    Args:
        node: the node.
        a: the first operand.
        a_scale: its scale.
        a_zero: its zero point; None is 0.
        places: which inputs are the second operand, its scale, its zero point, and the bias.
    """
    at_b, at_scale, at_zero, at_bias = places
    a, b, sizes = matrices(a, node[at_b])
    rank = len(a.sizes)

    zeros = [a_zero, node.given(at_zero)]
    if a.dtype != b.dtype:  # DirectML has one type for both
        zeros = [_as_uint8(node, x, z) for x, z in zip((a, b), zeros, strict=True)]
        a, b = (_unsigned(packed(x)) for x in (a, b))

    def of_columns(x: Any) -> Any:
        return None if x is None else reshaped(x, (1,) * (rank - len(x.sizes)) + tuple(x.sizes))

    def of_rows(x: Any) -> Any:
        if x is None:
            return None
        tall = (*x.sizes, 1) if len(x.sizes) == 1 and x.sizes != (1,) else x.sizes
        return reshaped(x, (1,) * (rank - len(tall)) + tuple(tall))

    bias = of_columns(node.given(at_bias))
    made = dml.matrix_multiply_integer_to_float(
        packed(a),
        of_rows(a_scale),
        packed(b),
        of_columns(node.given(at_scale)),
        of_rows(zeros[0]),
        of_columns(zeros[1]),
        None if bias is None else spread(bias, (*a.sizes[:-1], b.sizes[-1])),
    )
    return reshaped(made, sizes)


def _unsigned(x: Expression) -> Expression:
    """Return bytes as UINT8; an INT8 grows by 128."""
    return x.reinterpret(x.sizes, None, "UINT8") ^ 128 if x.dtype == np.int8 else x


def _as_uint8(node: Node, x: Expression, zero: Expression | None) -> Expression | None:
    """Return the zero point of `x` once that is UINT8."""
    if zero is not None:
        return _unsigned(packed(zero))
    return node.builder.constant(np.full(1, 128, np.uint8)) if x.dtype == np.int8 else None


@translates("MatMulIntegerToFloat", domain=DOMAIN)
def _integers_to_float(node: Node) -> Expression:
    return _to_float(node, node[0], node[2], node.given(4), (1, 3, 5, 6))


@translates("DynamicQuantizeMatMul", domain=DOMAIN)
def _dynamic_product(node: Node) -> Expression:
    a, scale, zero_point = dml.dynamic_quantize_linear(node[0])
    return _to_float(node, a, reshaped(scale, (1,)), reshaped(zero_point, (1,)), (1, 2, 3, 4))


@translates("MatMulNBits", domain=DOMAIN)
def _product_of_bits(node: Node) -> Expression:
    bits, block = node.attribute("bits", 4), node.attribute("block_size")
    columns, inner = node.attribute("N"), node.attribute("K")
    if bits not in (4, 8):
        raise node.refusal("bits", "be 4 or 8", bits)
    if node.has(4):
        raise node.refusal("g_idx", "be left out", Unquoted("a tensor"))
    blocks = -(-inner // block)
    whole = _unpacked(reshaped(node[1], (columns, blocks, block * bits // 8)), bits)
    if node.has(3):
        zero = node[3]
        if zero.dtype != np.uint8:
            raise node.refusal("zero_points", "be UINT8", Unquoted(zero.dtype.name))
        zero = _unpacked(reshaped(zero, (columns, np.prod(zero.sizes) // columns)), bits)
        if zero.sizes[1] != blocks:
            zero = dml.slice(zero, (0, 0), (columns, blocks), (1, 1))
        zero = reshaped(zero, (columns, blocks, 1))
    else:
        zero = node.builder.constant(np.full((1, 1, 1), 1 << (bits - 1), np.uint8))
    scale = reshaped(node[2], (columns, blocks, 1))
    real = reshaped(dml.dequantize_linear(whole, scale, zero), (columns, blocks * block))
    if real.sizes[1] != inner:
        real = dml.slice(real, (0, 0), (columns, inner), (1, 1))
    rows = reshaped(node[0], (int(np.prod(node.shape()[:-1])), inner))
    bias = reshaped(node[5], (1, columns)) if node.has(5) else None
    made = dml.gemm(rows, real, None, "NONE", "TRANSPOSE")
    made = made if bias is None else made + bias
    return reshaped(made, (*node.shape()[:-1], columns))


def _unpacked(x: Expression, bits: int) -> Expression:
    """Return bytes as numbers of 4 or 8 bits, the low ones of a byte first."""
    if bits == 8:
        return x
    halves = [reshaped(half, (*x.sizes, 1)) for half in (x & 15, x >> 4)]
    return reshaped(dml.join(halves, len(x.sizes)), (*x.sizes[:-1], 2 * x.sizes[-1]))

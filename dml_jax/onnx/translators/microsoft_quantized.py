"""Quantized op types of ONNX Runtime's own domain."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dml_jax import functional as dml
from dml_jax.graph import Expression
from dml_jax.onnx.files.attributes import MICROSOFT
from dml_jax.onnx.nodes.node import Node, required
from dml_jax.onnx.nodes.op_types import translates
from dml_jax.onnx.nodes.reshapes import (
    as_type,
    cut,
    lengthen,
    of_rank,
    pack,
    permute,
    reshape,
    spread,
    taken,
    with_channels_last,
    with_channels_second,
)
from dml_jax.onnx.translators.products import Quantized, product_of_integers
from dml_jax.onnx.translators.windowed import planes, window_of
from dml_jax.runtime.platform import platform


def _scalar(node: Node, index: int, rank: int) -> Any:
    """Return a parameter of all elements with `rank` dimensions; None where it is left out."""
    x = node.get(index)
    if x is None:
        return None
    node.expect(np.prod(x.sizes) == 1, node.input_name(index), "have one element", list(x.sizes))
    return reshape(x, (1,) * max(rank, 1))


@translates("QLinearAdd", domain=MICROSOFT)
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


def _quantize(node: Node, x: Expression, index: int) -> Expression:
    """Return numbers as integers by the scale, input `index`, and the zero point behind it."""
    rank = len(x.sizes)
    scale, zero_point = _scalar(node, index, rank), _scalar(node, index + 1, rank)
    kind = node[0].desc.data_type if zero_point is None else zero_point.desc.data_type
    return dml.quantize_linear(x, scale, zero_point, kind)


@translates("QLinearMul", domain=MICROSOFT)
def _multiply(node: Node) -> Expression:
    return _quantize(node, _real(node, 0) * _real(node, 3), 6)


@translates("QLinearSigmoid", domain=MICROSOFT)
def _sigmoid(node: Node) -> Expression:
    return _quantize(node, dml.activation_sigmoid(_real(node, 0)), 3)


@translates("QLinearLeakyRelu", domain=MICROSOFT)
def _leaky_relu(node: Node) -> Expression:
    alpha = node.attribute("alpha", 0.01)
    return _quantize(node, dml.activation_leaky_relu(_real(node, 0), alpha), 3)


@translates("QLinearSoftmax", domain=MICROSOFT)
def _softmax(node: Node) -> Expression:
    x, axis = _real(node, 0), node.from_start(node.attribute("axis", -1), node.rank())
    if node.attribute("opset", 13) >= 13:  # the version from which it is over one dimension
        made = dml.activation_softmax(x, [axis])
    else:  # over all dimensions from the axis on
        rows = (math.prod(x.sizes[:axis]), math.prod(x.sizes[axis:]))
        made = reshape(dml.activation_softmax(reshape(x, rows), [1]), x.sizes)
    return _quantize(node, made, 3)


@translates("QGemm", domain=MICROSOFT)
def _gemm(node: Node) -> Expression:
    a, b = (
        permute(node[index], (1, 0)) if node.attribute(name, 0) else pack(node[index])
        for index, name in ((0, "transA"), (3, "transB"))
    )
    of_columns = [reshape(node[k], (1, math.prod(node.shape(k)))) for k in (4, 5)]
    whole = dml.matrix_multiply_integer(a, b, _scalar(node, 2, 2), of_columns[1])
    if node.has(6):
        whole = whole + spread(of_rank(node[6], 2), whole.sizes)
    real = dml.cast(whole, "FLOAT32") * (_scalar(node, 1, 2) * of_columns[0])
    real = real * node.attribute("alpha", 1.0)
    return _quantize(node, real, 7) if node.has(7) else real


@translates("QLinearConcat", domain=MICROSOFT)
def _concat(node: Node) -> Expression:
    parts = [_real(node, k) for k in range(2, len(node.inputs), 3)]
    axis = node.from_start(node.attribute("axis", 0), node.rank(2))
    return _quantize(node, dml.join(parts, axis) if len(parts) > 1 else parts[0], 0)


@translates("QLinearAveragePool", "QLinearGlobalAveragePool", domain=MICROSOFT)
def _pool(node: Node) -> Expression:
    rank = node.rank()
    is_last = bool(node.attribute("channels_last", 0))
    x = with_channels_second(node[0]) if is_last else node[0]
    sizes, is_counted = x.sizes[2:], bool(node.attribute("count_include_pad", 0))
    w = window_of(node, sizes if node.op_type == "QLinearGlobalAveragePool" else None, sizes)
    rule = "be 0 where ceil_mode makes windows that end beyond the padding"
    node.expect(w.end == w.declared or not is_counted, "count_include_pad", rule, 1)
    plane, window = planes(x), (*w.pool, is_counted)
    x_scale, y_scale = (_scalar(node, k, len(plane.sizes)) for k in (1, 3))
    zeros_of = [_scalar(node, k, len(plane.sizes)) for k in (2, 4)]
    made = dml.quantized_linear_average_pooling(plane, x_scale, y_scale, *window, *zeros_of)
    made = reshape(made, (*made.sizes[:2], *made.sizes[2 if rank > 3 else 3 :]))
    return with_channels_last(made) if is_last else made


@translates("MatMulIntegerToFloat", domain=MICROSOFT)
def _integers_to_float(node: Node) -> Expression:
    a, b = (Quantized(node[k], node[k + 2], node.get(k + 4)) for k in (0, 1))
    return product_of_integers(a, b, node.get(6))


@translates("DynamicQuantizeMatMul", domain=MICROSOFT)
def _dynamic_product(node: Node) -> Expression:
    a, *parameters = dml.dynamic_quantize_linear(node[0])
    a = Quantized(a, *(reshape(p, (1,)) for p in parameters))
    return product_of_integers(a, Quantized(node[1], node[2], node.get(3)), node.get(4))


@translates("MatMulNBits", domain=MICROSOFT)
def _product_of_bits(node: Node) -> Expression:
    bits, block = node.attribute("bits", 4), required(node, "block_size")
    columns, inner = required(node, "N"), required(node, "K")
    node.expect(bits in _BITS, "bits", "be 2, 4 or 8", bits)
    if node.attribute("weight_prepacked", 0):
        rule = "be 0, since 1 and 2 are layouts of one graphics card"
        raise node.refusal("weight_prepacked", rule, node.attribute("weight_prepacked"))
    blocks = -(-inner // block)
    is_plain = bits == 4 and not node.has(4)
    is_plain = is_plain and not (node.has(3) and node.type(3).name != "UINT8")
    if is_plain and platform() != "cpu":  # a CPU is slower at integers of 4 bits than at bytes
        return _by_rows(node, _of_four_bits(node, (columns, blocks), block), inner)
    whole = unpacked_bits(reshape(node[1], (columns, blocks, block * bits // 8)), bits)
    zero = _zero_points(node, 3, (columns, blocks), bits)
    scale = reshape(node[2], (columns, blocks, 1))
    if node.has(4):  # each row of the matrix has a block of its own
        whole = reshape(whole, (columns, blocks * block))
        places = cut(reshape(node[4], (1, math.prod(node.shape(4)))), (1, inner))
        whole = cut(whole, (columns, inner))
        scale, zero = (
            dml.gather(pack(spread(reshape(x, x.sizes[:2]), (columns, blocks))), places, 1, 1)
            for x in (scale, zero)
        )
        real = real_of(pack(whole), scale, zero)
    else:
        real = reshape(real_of(whole, scale, zero), (columns, blocks * block))
    return _by_rows(node, real, inner)


def _of_four_bits(node: Node, sizes: tuple[int, int], block: int) -> Expression:
    """Return the matrix of integers of 4 bits, [columns, blocks * block]."""
    columns, blocks = sizes
    whole = pack(node[1]).reinterpret((columns, blocks * block), None, "UINT4")
    scale = reshape(node[2], sizes)
    if node.has(3):  # each row is padded to whole bytes
        strides = (blocks + blocks % 2, 1)
        zero = pack(node[3]).reinterpret(sizes, strides if blocks % 2 else None, "UINT4")
    else:
        zero = node.builder.constant(np.full(1, 8, np.uint8))
        zero = zero.reinterpret((1, 1), None, "UINT4")
    return dml.dequantize(whole, [scale, zero], "SCALE_ZERO_POINT")


def _by_rows(node: Node, real: Expression, inner: int) -> Expression:
    """Return the product of the rows of the first input and a matrix [columns, inner or more]."""
    columns = real.sizes[0]
    real = cut(real, (columns, inner))
    rows = reshape(node[0], (math.prod(node.shape()[:-1]), inner))
    made = dml.gemm(rows, real, None, "NONE", "TRANSPOSE")
    made = made + reshape(node[5], (1, columns)) if node.has(5) else made
    return reshape(made, (*node.shape()[:-1], columns))


def _zero_points(node: Node, index: int, sizes: tuple[int, int], bits: int) -> Expression:
    """Return the zero point of each block, [columns, blocks, 1] or one for all, [1, 1, 1].

    Zero points of UINT8 are packed as the numbers are, a row padded to whole bytes.
    """
    columns, blocks = sizes
    if not node.has(index):
        return node.builder.constant(np.full((1, 1, 1), 1 << (bits - 1), np.uint8))
    zero = node[index]
    zero = reshape(zero, (columns, math.prod(zero.sizes) // columns))
    zero = unpacked_bits(zero, bits) if zero.dtype == np.uint8 else zero
    return reshape(cut(zero, sizes), (columns, blocks, 1))


def real_of(whole: Expression, scale: Expression, zero: Expression) -> Expression:
    """Return numbers of bits as real ones; a zero point may be a real number itself."""
    if zero.desc.data_type == whole.desc.data_type:
        return dml.dequantize_linear(whole, scale, zero)
    kind = scale.desc.data_type
    return (dml.cast(whole, kind) - as_type(zero, kind)) * scale


@translates("GatherBlockQuantized", domain=MICROSOFT)
def _gathered_blocks(node: Node) -> Expression:
    bits, block = node.attribute("bits", 4), node.attribute("block_size", 128)
    shape, wanted = node.shape(), node.shape(1)
    axis = node.from_start(node.attribute("gather_axis", 0), len(shape), "gather_axis")
    along = node.from_start(node.attribute("quantize_axis", 1), len(shape), "quantize_axis")
    is_packed = node.type().name == "UINT8"
    last = len(shape) - 1
    if is_packed and (bits not in _BITS or along != last or (axis == last and bits < 8)):
        rule = f"be {last}, the dimension whose bytes hold several numbers, and no gather_axis"
        raise node.refusal("quantize_axis", rule, along)

    def rows(x: Expression) -> Expression:
        """Return the rows of a table that the indices name."""
        return reshape(taken(x, node[1], axis), (*x.sizes[:axis], *wanted, *x.sizes[axis + 1 :]))

    at = along if along < axis else along + len(wanted) - 1
    rule = "be another dimension than gather_axis, as in ONNX Runtime"
    node.expect(along != axis, "quantize_axis", rule, along)
    bits = bits if is_packed else 8
    whole, scale = _rows_of_bits(node, 0, rows, bits), rows(node[2])
    size, blocks = whole.sizes[at], scale.sizes[at]
    before, after = whole.sizes[:at], whole.sizes[at + 1 :]
    whole = lengthen(whole, (*before, blocks * block, *after))  # of full blocks

    def by_block(x: Expression, count: int) -> Expression:
        return reshape(x, (math.prod(before), blocks, count, math.prod(after)))

    if node.has(3):
        zero = by_block(cut(_rows_of_bits(node, 3, rows, bits), scale.sizes), 1)
    else:
        middle = 1 << (bits - 1) if is_packed else 0
        zero = node.builder.constant(np.full((1, 1, 1, 1), middle, whole.dtype))
    real = real_of(by_block(whole, block), by_block(scale, 1), zero)
    return cut(reshape(real, (*before, blocks * block, *after)), (*before, size, *after))


def _rows_of_bits(
    node: Node, index: int, rows: Callable[[Expression], Expression], bits: int
) -> Expression:
    """Return rows of a table as numbers of 8 bits; GATHER takes those of fewer bits as bytes."""
    x, kind = node[index], node[index].desc.data_type
    if kind.bits == 8:
        return unpacked_bits(rows(x), bits)
    if x.sizes[-1] % 2:  # a byte may belong to two rows: the whole table is unpacked
        count = math.prod(x.sizes)
        flat = unpacked_bits(x.reinterpret((-(-count // 2),), None, "UINT8"), 4)
        whole = rows(reshape(cut(flat, (count,)), x.sizes))
    else:
        whole = rows(x.reinterpret((*x.sizes[:-1], x.sizes[-1] // 2), None, "UINT8"))
        whole = unpacked_bits(whole, 4)
    if kind.name == "UINT4":
        return whole
    return (whole ^ 8).reinterpret(whole.sizes, None, "INT8") - 8


_BITS = (2, 4, 8)


def unpacked_bits(x: Expression, bits: int) -> Expression:
    """Return bytes as numbers of 2, 4 or 8 bits, the low ones of a byte first."""
    if bits == 8:
        return x
    most = (1 << bits) - 1
    parts = [reshape((x >> shift) & most, (*x.sizes, 1)) for shift in range(0, 8, bits)]
    return reshape(dml.join(parts, len(x.sizes)), (*x.sizes[:-1], len(parts) * x.sizes[-1]))

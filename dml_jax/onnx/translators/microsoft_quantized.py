"""Quantized op types of ONNX Runtime's own domain."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dml_jax import functional as dml
from dml_jax.graph import Expression
from dml_jax.onnx.kernels import platform
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
    if bits not in _BITS:
        raise node.refusal("bits", "be 2, 4 or 8", bits)
    if node.attribute("weight_prepacked", 0):
        rule = "be 0, since 1 and 2 are layouts of one graphics card"
        raise node.refusal("weight_prepacked", rule, node.attribute("weight_prepacked"))
    blocks = -(-inner // block)
    is_plain = bits == 4 and not node.has(4)
    is_plain = is_plain and not (node.has(3) and node.type(3).name != "UINT8")
    if is_plain and platform() != "cpu":  # a CPU is slower at integers of 4 bits than at bytes
        return _by_rows(node, _of_four_bits(node, (columns, blocks), block), inner)
    whole = unpacked_bits(reshaped(node[1], (columns, blocks, block * bits // 8)), bits)
    zero = _zero_points(node, 3, (columns, blocks), bits)
    scale = reshaped(node[2], (columns, blocks, 1))
    if node.has(4):  # each row of the matrix has a block of its own
        whole = reshaped(whole, (columns, blocks * block))
        places = reshaped(node[4], (1, int(np.prod(node.shape(4)))))
        if places.sizes[1] > inner:
            places = dml.slice(places, (0, 0), (1, inner), (1, 1))
        if blocks * block > inner:
            whole = dml.slice(whole, (0, 0), (columns, inner), (1, 1))
        scale, zero = (
            dml.gather(packed(spread(reshaped(x, x.sizes[:2]), (columns, blocks))), places, 1, 1)
            for x in (scale, zero)
        )
        real = real_of(packed(whole), scale, zero)
    else:
        real = reshaped(real_of(whole, scale, zero), (columns, blocks * block))
    return _by_rows(node, real, inner)


def _of_four_bits(node: Node, sizes: tuple[int, int], block: int) -> Expression:
    """Return the matrix of integers of 4 bits, [columns, blocks * block]."""
    columns, blocks = sizes
    whole = packed(node[1]).reinterpret((columns, blocks * block), None, "UINT4")
    scale = reshaped(node[2], sizes)
    if node.has(3):  # each row is padded to whole bytes
        strides = (blocks + blocks % 2, 1)
        zero = packed(node[3]).reinterpret(sizes, strides if blocks % 2 else None, "UINT4")
    else:
        zero = node.builder.constant(np.full(1, 8, np.uint8))
        zero = zero.reinterpret((1, 1), None, "UINT4")
    return dml.dequantize(whole, [scale, zero], "SCALE_ZERO_POINT")


def _by_rows(node: Node, real: Expression, inner: int) -> Expression:
    """Return the product of the rows of the first input and a matrix [columns, inner or more]."""
    columns = real.sizes[0]
    if real.sizes[1] != inner:
        real = dml.slice(real, (0, 0), (columns, inner), (1, 1))
    rows = reshaped(node[0], (int(np.prod(node.shape()[:-1])), inner))
    bias = reshaped(node[5], (1, columns)) if node.has(5) else None
    made = dml.gemm(rows, real, None, "NONE", "TRANSPOSE")
    made = made if bias is None else made + bias
    return reshaped(made, (*node.shape()[:-1], columns))


def _zero_points(node: Node, index: int, sizes: tuple[int, int], bits: int) -> Expression:
    """Return the zero point of each block, [columns, blocks, 1] or one for all, [1, 1, 1].

    Zero points of UINT8 are packed as the numbers are, a row padded to whole bytes.
    """
    columns, blocks = sizes
    if not node.has(index):
        return node.builder.constant(np.full((1, 1, 1), 1 << (bits - 1), np.uint8))
    zero = node[index]
    zero = reshaped(zero, (columns, int(np.prod(zero.sizes)) // columns))
    zero = unpacked_bits(zero, bits) if zero.dtype == np.uint8 else zero
    if zero.sizes[1] != blocks:
        zero = dml.slice(zero, (0, 0), sizes, (1, 1))
    return reshaped(zero, (columns, blocks, 1))


def real_of(whole: Expression, scale: Expression, zero: Expression) -> Expression:
    """Return numbers of bits as real ones; a zero point may be a real number itself."""
    if zero.desc.data_type == whole.desc.data_type:
        return dml.dequantize_linear(whole, scale, zero)
    kind = scale.desc.data_type
    zero = zero if zero.desc.data_type == kind else dml.cast(zero, kind)
    return (dml.cast(whole, kind) - zero) * scale


@translates("GatherBlockQuantized", domain=DOMAIN)
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
        before, after = int(np.prod(x.sizes[:axis])), int(np.prod(x.sizes[axis + 1 :]))
        data = reshaped(x, (before, x.sizes[axis], after))
        taken = dml.gather(data, reshaped(node[1], (1, 1, int(np.prod(wanted)))), 1, 1)
        return reshaped(taken, (*x.sizes[:axis], *wanted, *x.sizes[axis + 1 :]))

    at = along if along < axis else along + len(wanted) - 1
    if along == axis:
        rule = "be another dimension than gather_axis, as in ONNX Runtime"
        raise node.refusal("quantize_axis", rule, along)
    bits = bits if is_packed else 8
    whole, scale = _rows_of_bits(node, 0, rows, bits), rows(node[2])
    size, blocks = whole.sizes[at], scale.sizes[at]
    before, after = whole.sizes[:at], whole.sizes[at + 1 :]
    if blocks * block != size:  # the last block is not full
        missing = [0] * len(whole.sizes)
        missing[at] = blocks * block - size
        whole = dml.padding(whole, "CONSTANT", 0.0, [0] * len(missing), missing)

    def by_block(x: Expression) -> Expression:
        return reshaped(x, (int(np.prod(before)), blocks, 1, int(np.prod(after))))

    if node.has(3):
        zero = _rows_of_bits(node, 3, rows, bits)
        if zero.sizes[at] != blocks:
            zero = dml.slice(zero, [0] * len(zero.sizes), scale.sizes, [1] * len(zero.sizes))
        zero = by_block(zero)
    else:
        middle = 1 << (bits - 1) if is_packed else 0
        zero = node.builder.constant(np.full((1, 1, 1, 1), middle, whole.dtype))
    sizes = (int(np.prod(before)), blocks, block, int(np.prod(after)))
    real = reshaped(
        real_of(reshaped(whole, sizes), by_block(scale), zero), (*before, blocks * block, *after)
    )
    sizes = (*before, size, *after)
    return (
        real if real.sizes == sizes else dml.slice(real, [0] * len(sizes), sizes, [1] * len(sizes))
    )


def _rows_of_bits(
    node: Node, index: int, rows: Callable[[Expression], Expression], bits: int
) -> Expression:
    """Return rows of a table as numbers of 8 bits; GATHER takes those of fewer bits as bytes."""
    x, kind = node[index], node[index].desc.data_type
    if kind.bits == 8:
        return unpacked_bits(rows(x), bits)
    if x.sizes[-1] % 2:  # a byte may belong to two rows: the whole table is unpacked
        count = int(np.prod(x.sizes))
        flat = unpacked_bits(x.reinterpret((-(-count // 2),), None, "UINT8"), 4)
        flat = dml.slice(flat, (0,), (count,), (1,)) if count % 2 else flat
        whole = rows(reshaped(flat, x.sizes))
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
    parts = [reshaped((x >> shift) & most, (*x.sizes, 1)) for shift in range(0, 8, bits)]
    return reshaped(dml.join(parts, len(x.sizes)), (*x.sizes[:-1], len(parts) * x.sizes[-1]))

"""Quantization."""

from typing import Any

from dml_jax import functional as dml
from dml_jax.graph import Expression
from dml_jax.onnx.nodes import Node, translates
from dml_jax.onnx.translators.elements import narrowed
from dml_jax.onnx.views import on_axis, reshaped, spread


def _parameters(node: Node) -> tuple[Expression, Expression | None, bool]:
    """Return the scale and zero point with the rank of the input, and whether they are blocks."""
    rank = max(node.rank(), 1)
    is_blocked = bool(node.attribute("block_size", 0))

    def placed(index: int) -> Expression:
        x = node[index]
        if is_blocked:
            return x
        if node.rank(index) == 1 and node.shape(index) != (1,):
            return on_axis(x, node.from_start(node.attribute("axis", 1), rank), rank)
        return reshaped(x, (1,) * rank)

    return placed(1), placed(2) if node.has(2) else None, is_blocked


def _in_blocks(scale: Expression, zero_point: Expression | None) -> tuple[list[Expression], str]:
    """Return the parameters of QUANTIZE and DEQUANTIZE, and their type."""
    if zero_point is None:
        return [scale], "SCALE"
    return [scale, zero_point], "SCALE_ZERO_POINT"


def _cut(node: Node, x: Expression, scale: Expression) -> tuple[Expression, int, int]:
    """Return the input with whole blocks along the axis, the axis, and its own size."""
    axis, block = node.axis(), node.attribute("block_size")
    size, whole = node.shape()[axis], scale.sizes[axis] * block
    if whole == size:
        return x, axis, size
    ends = [whole - size if d == axis else 0 for d in range(node.rank())]
    return dml.padding(x, "CONSTANT", 0.0, [0] * node.rank(), ends), axis, size


def _uncut(node: Node, x: Expression, axis: int, size: int) -> Expression:
    if x.sizes[axis] == size:
        return x
    sizes = [size if d == axis else n for d, n in enumerate(x.sizes)]
    return dml.slice(x, [0] * len(sizes), sizes, [1] * len(sizes))


@translates("QuantizeLinear")
def _quantize(node: Node) -> Expression:
    scale, zero_point, is_blocked = _parameters(node)
    x, kind = node[0], node.output_type()
    if node.made().is_small and node.made().is_floating:
        return _to_small_floats(node, x, scale, zero_point, is_blocked)
    if x.dtype != scale.dtype:
        x = dml.cast(x, scale.desc.data_type)
    if not is_blocked and kind.bits == 8:
        return dml.quantize_linear(x, scale, zero_point, kind)
    axis, size = 0, x.sizes[0]
    if is_blocked:
        x, axis, size = _cut(node, x, scale)
    parameters, form = _in_blocks(scale, zero_point)
    return _uncut(node, dml.quantize(x, parameters, form, kind), axis, size)


def _to_small_floats(
    node: Node, x: Expression, scale: Expression, zero_point: Expression | None, is_blocked: bool
) -> Expression:
    """Return `x / scale + zero_point`, rounded to floats of 8 bits or less."""
    parts = [dml.cast(p, "FLOAT32") for p in (x, scale, zero_point) if p is not None]
    if is_blocked:
        parts[1:] = [_of_blocks(node, part) for part in parts[1:]]
    real = parts[0] / parts[1]
    return narrowed(node, real if zero_point is None else real + parts[2], node.made())


def _of_blocks(node: Node, x: Expression) -> Expression:
    """Return a parameter of blocks along the axis with an element for each of the input."""
    axis, block, sizes = node.axis(), node.attribute("block_size"), x.sizes
    apart = (*sizes[: axis + 1], 1, *sizes[axis + 1 :])
    each = (*sizes[: axis + 1], block, *sizes[axis + 1 :])
    whole = (*sizes[:axis], sizes[axis] * block, *sizes[axis + 1 :])
    return _uncut(node, reshaped(spread(reshaped(x, apart), each), whole), axis, node.shape()[axis])


@translates("DequantizeLinear")
def _dequantize(node: Node) -> Expression:
    scale, zero_point, is_blocked = _parameters(node)
    x = node[0]
    if not is_blocked and x.desc.data_type.bits > 4:
        result = dml.dequantize_linear(x, scale, zero_point)
    else:
        axis, size = 0, x.sizes[0]
        if is_blocked:
            x, axis, size = _cut(node, x, scale)
        parameters, form = _in_blocks(scale, zero_point)
        result = _uncut(node, dml.dequantize(x, parameters, form), axis, size)
    kind = node.output_type()
    return result if result.desc.data_type == kind else dml.cast(result, kind)


@translates("DynamicQuantizeLinear")
def _dynamic(node: Node) -> Any:
    return tuple(dml.dynamic_quantize_linear(node[0]))

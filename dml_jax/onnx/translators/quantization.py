"""Quantization."""

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto

from dml_jax import functional as dml
from dml_jax.enums import QuantizationType, TensorDataType
from dml_jax.graph import Expression
from dml_jax.onnx.files.attributes import MICROSOFT
from dml_jax.onnx.files.types import Type
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import MISREAD, translates
from dml_jax.onnx.nodes.reshapes import as_type, cut, lengthen, on_axis, reshape, spread
from dml_jax.onnx.sizes import padding_rules
from dml_jax.onnx.translators.elements import narrow


def _parameters(node: Node) -> tuple[Expression, Expression | None, bool]:
    """Return the scale and zero point with the rank of the input, and whether they are blocks."""
    rank = max(node.rank(), 1)
    is_blocked = bool(node.attribute("block_size", 0))

    def along_axis(index: int) -> Expression:
        x = node[index]
        if is_blocked:
            return x
        if node.rank(index) == 1 and node.shape(index) != (1,):
            return on_axis(x, node.from_start(node.attribute("axis", 1), rank), rank)
        return reshape(x, (1,) * rank)

    return along_axis(1), along_axis(2) if node.has(2) else None, is_blocked


def _by_form(
    function: Callable[..., Expression],
    node: Node,
    x: Expression,
    scale: Expression,
    zero_point: Expression | None,
    *kind: TensorDataType,
) -> Expression:
    """Return QUANTIZE or DEQUANTIZE of `x`, which whole blocks along the axis may need longer."""
    sizes = [*x.sizes]
    if node.attribute("block_size", 0):
        sizes[node.axis()] = scale.sizes[node.axis()] * node.attribute("block_size")
    form = QuantizationType.SCALE if zero_point is None else QuantizationType.SCALE_ZERO_POINT
    parameters = [scale] if zero_point is None else [scale, zero_point]
    return cut(function(lengthen(x, sizes), parameters, form, *kind), x.sizes)


def _quantized_type(node: Node) -> Type:
    """Return the type of a QuantizeLinear's output; ONNX Runtime's own has no schema."""
    known = node.types[0] or (node.type(2) if node.has(2) else None)
    return known or Type(TensorProto.UINT8, node.shape())


@translates("QuantizeLinear", domain=MICROSOFT)
@translates("QuantizeLinear", padding=padding_rules.quantize_rule)
def _quantize(node: Node) -> Expression:
    scale, zero_point, is_blocked = _parameters(node)
    x, made = node[0], _quantized_type(node)
    kind = made.inner
    if (made.is_small and made.is_floating) or kind.bits == 16:
        return _by_parts(node, x, scale, zero_point, is_blocked)
    x = as_type(x, scale.desc.data_type)
    if not is_blocked and kind.bits == 8:
        return dml.quantize_linear(x, scale, zero_point, kind)
    return _by_form(dml.quantize, node, x, scale, zero_point, kind)


def _by_parts(
    node: Node, x: Expression, scale: Expression, zero_point: Expression | None, is_blocked: bool
) -> Expression:
    """Return what no operator of DirectML gives: floats of 8 bits or less, integers of 16 bits."""
    made = _quantized_type(node)
    parts = [dml.cast(p, "FLOAT32") for p in (x, scale, zero_point) if p is not None]
    if is_blocked:
        parts[1:] = [_of_blocks(node, part) for part in parts[1:]]
    # XLA would multiply by the reciprocal of a broadcast divisor, which moves halves.
    steps = parts[0] / dml.if_(dml.equals(parts[0], parts[0]), parts[1], 1.0)
    steps = steps if made.is_floating else dml.round(steps)
    steps = steps if zero_point is None else steps + parts[2]
    return narrow(node, steps, made) if made.is_floating else dml.cast(steps, made.inner)


def _of_blocks(node: Node, x: Expression) -> Expression:
    """Return a parameter of blocks along the axis with an element for each of the input."""
    axis, block, sizes = node.axis(), node.attribute("block_size"), x.sizes
    apart = (*sizes[: axis + 1], 1, *sizes[axis + 1 :])
    each = (*sizes[: axis + 1], block, *sizes[axis + 1 :])
    whole = (*sizes[:axis], sizes[axis] * block, *sizes[axis + 1 :])
    return cut(reshape(spread(reshape(x, apart), each), whole), node.shape())


@translates("DequantizeLinear", domain=MICROSOFT)
@translates("DequantizeLinear", padding=padding_rules.quantize_rule)
def _dequantize(node: Node) -> Expression:
    scale, zero_point, is_blocked = _parameters(node)
    x = node[0]
    if not is_blocked and x.desc.data_type.bits > 4:
        result = dml.dequantize_linear(x, scale, zero_point)
    else:
        result = _by_form(dml.dequantize, node, x, scale, zero_point)
    return as_type(result, scale.desc.data_type if node.types[0] is None else node.output_type())


@translates("DynamicQuantizeLinear", misread_before=MISREAD)  # a range of 0
def _dynamic(node: Node) -> Any:
    if node.type().is_empty:
        return None, np.ones((), np.float32), np.zeros((), np.uint8)
    return tuple(dml.dynamic_quantize_linear(node[0]))

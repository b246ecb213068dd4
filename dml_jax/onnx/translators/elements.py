"""Arithmetic, comparisons, logic and bits: an element of the output for each of the inputs."""

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

from dml_jax import functional as dml
from dml_jax.enums import TensorDataType
from dml_jax.errors import Unquoted
from dml_jax.graph import Expression
from dml_jax.onnx.files.attributes import MICROSOFT
from dml_jax.onnx.files.types import Type
from dml_jax.onnx.nodes import early_versions
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import translates
from dml_jax.onnx.nodes.reshapes import as_type, on_axis, pack, reshape
from dml_jax.onnx.nodes.tensor import Tensor
from dml_jax.onnx.sizes import integer_ranges, padding_rules, symbolic_sizes

UNARY = (
    *("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Ceil", "Cos", "Cosh"),
    *("Exp", "Floor", "IsNaN", "Log", "Neg", "Not", "Reciprocal", "Round", "Sin", "Sinh"),
    *("Sqrt", "Tan"),
)
BINARY = (
    *("Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater"),
    *("GreaterOrEqual", "Less", "LessOrEqual", "Mul", "Or", "Sub", "Xor"),
)


def operands(node: Node) -> tuple[Expression, Expression]:
    """Return the two operands. Before version 7, `axis` says where the second one lies."""
    a, b = node[0], node[1]
    axis = node.attribute("axis")
    if axis is not None:
        trailing = node.rank(0) - node.from_start(axis, node.rank(0)) - node.rank(1)
        b = reshape(b, (*node.shape(1), *[1] * trailing))
    return a, b


@translates("Neg", integers=integer_ranges.negative, elements=symbolic_sizes.negative)
@translates("Where", elements=symbolic_sizes.chosen)
@translates(*UNARY, "Where", padding=padding_rules.by_element)
def _of_all_inputs(node: Node) -> Expression:
    return node.function(*(node[k] for k in range(len(node.inputs))))


@translates("Sign", padding=padding_rules.by_element)
def _sign(node: Node) -> Expression:
    # DirectML's SIGN has 0 of NaN, ONNX has NaN: ONNX wins.
    sign = dml.sign(node[0])
    return dml.if_(dml.is_nan(node[0]), node[0], sign) if node.type().is_floating else sign


@translates("Add", integers=integer_ranges.added, elements=symbolic_sizes.sums(1))
@translates("Sub", integers=integer_ranges.difference, elements=symbolic_sizes.sums(-1))
@translates("Mul", integers=integer_ranges.multiplied, elements=symbolic_sizes.product)
@translates("Equal", elements=symbolic_sizes.equal)
@translates(*BINARY, padding=padding_rules.by_element, misread_before=7)  # along `axis`
def _binary(node: Node) -> Expression:
    return node.function(*operands(node))


@translates("Sum", integers=integer_ranges.added)
@translates("Max", "Min", "Sum", padding=padding_rules.by_element)
def _chain(node: Node) -> Expression:
    return functools.reduce(node.function, [node[k] for k in range(len(node.inputs))])


@translates("ImageScaler", "Scale")
def _scale(node: Node) -> Expression:
    x = node[0] * node.attribute("scale", 1.0)
    if node.op_type == "Scale":
        return x
    bias = node.builder.constant(np.array(node.attribute("bias"), x.dtype))
    return x + on_axis(bias, 1, node.rank())


@translates("Mean", padding=padding_rules.by_element)
def _mean(node: Node) -> Expression:
    if len(node.inputs) == 2:
        return dml.mean(node[0], node[1])
    return _sum(node) / len(node.inputs) if len(node.inputs) > 1 else node[0]


@translates("BiasAdd", domain=MICROSOFT)
def _sum(node: Node) -> Expression:
    return functools.reduce(dml.add, [node[k] for k in range(len(node.inputs))])


@translates("Abs", padding=padding_rules.by_element, integers=integer_ranges.magnitude)
def _abs(node: Node) -> Expression | Tensor:
    return node.tensor(0) if node.type().dtype.kind == "u" else dml.abs(node[0])


@translates("Erf", padding=padding_rules.by_element)
def _erf(node: Node) -> Expression:
    if node.type().is_floating:
        return dml.erf(node[0])
    return dml.cast(dml.erf(dml.cast(node[0], "FLOAT32")), node.output_type())


@translates("Pow", misread_before=7, integers=integer_ranges.power)
@translates("Pow", padding=padding_rules.by_element)
def _pow(node: Node) -> Expression:
    x, exponent = operands(node)
    known, is_floating = node.known(1), node.type().is_floating
    if known is not None and known.size == 1 and is_floating:
        return reshape(dml.pow(x, float(known.reshape(-1)[0])), node.output_shape())
    return dml.pow(x, as_type(exponent, node.output_type()) if is_floating else exponent)


@translates("Mod", padding=padding_rules.by_element)
def _mod(node: Node) -> Expression:
    a, b = node[0], node[1]
    if node.attribute("fmod"):
        return dml.modulus_truncate(a, b)
    if not node.type().is_floating:
        return dml.modulus_floor(a, b)
    # It has the sign of `b`, and is exact also where `b` is infinite.
    rest = dml.modulus_truncate(a, b)
    is_zero = dml.equals(rest, 0.0)
    has_other_sign = dml.logical_xor(dml.less_than(rest, 0.0), dml.less_than(b, 0.0))
    shifted = dml.if_(has_other_sign, rest + b, rest)
    # ONNX's Mod has the sign of the divisor, also of 0.
    return dml.if_(is_zero, dml.sign(b) * 0.0, shifted)


@translates("BitShift")
def _shift(node: Node) -> Expression:
    x, count = node[0], node[1]
    is_left = node.choice("direction", ("LEFT", "RIGHT")) == "LEFT"
    shift = dml.bit_shift_left if is_left else dml.bit_shift_right
    dtype = node.type().dtype
    if dtype.kind == "u":
        return shift(x, count)
    unsigned = TensorDataType.of(f"U{node.output_type().suffix}")
    bits, counts = dml.cast(x, unsigned), dml.cast(count, unsigned)
    ones = int(np.iinfo(unsigned.dtype).max)
    # A negative number is shifted right as its complement, which is not negative.
    zeros = bits ^ bits
    mask = zeros if is_left else dml.if_(dml.less_than(x, 0), zeros | ones, zeros)
    shifted = shift(bits ^ mask, counts)
    is_out = dml.greater_than_or_equal(counts, dtype.itemsize * 8)
    shifted = dml.if_(is_out, shifted ^ shifted, shifted)
    return dml.cast(shifted ^ mask, node.output_type())


@translates("IsInf", padding=padding_rules.by_element)
def _is_inf(node: Node) -> Expression:
    is_positive, is_negative = node.attribute("detect_positive"), node.attribute("detect_negative")
    if not (is_positive or is_negative):
        sizes = node.output_shape() or (1,)
        return dml.fill_value_constant(sizes, "UINT8", 0, graph=node.builder)
    mode = "EITHER" if is_positive and is_negative else "POSITIVE" if is_positive else "NEGATIVE"
    return dml.is_infinity(node[0], mode)


@translates("Clip", padding=padding_rules.by_element)
def _clip_by_attributes(node: Node) -> Expression:
    limits = np.finfo(np.float32)
    low = node.attribute("min", float(limits.min))
    high = node.attribute("max", float(limits.max))
    return dml.clip(node[0], min(low, high), high)


@translates("Clip", since=11)
def _clip(node: Node) -> Expression:
    dtype, is_floating = node.type().inner.dtype, node.type().is_floating
    limits = np.finfo(dtype) if is_floating else np.iinfo(dtype)
    bounds = [node.known(1), node.known(2)]
    if all(bound is not None or not node.has(k) for k, bound in enumerate(bounds, 1)):
        ends = (np.asarray(limits.min), np.asarray(limits.max))
        low, high = (node.number(k, end.item()) for k, end in enumerate(ends, 1))
        # Where min is above max, ONNX gives max, and DirectML does not: ONNX wins.
        return dml.clip(node[0], min(low, high), high)
    x = node[0]
    x = dml.max(x, node[1]) if node.has(1) else x
    return dml.min(x, node[2]) if node.has(2) else x


@translates("Cast", written_as=early_versions.CAST, elements=symbolic_sizes.cast)
@translates("Cast", padding=padding_rules.by_element)
@translates("CastLike")
def _cast(node: Node) -> Expression | Tensor:
    kind = node.result_type()
    if kind.name == "BOOL" and node.type().name != "BOOL":
        return dml.logical_not(dml.equals(node[0], 0))
    if kind.element == node.type().element:
        return node.tensor(0)
    x = node[0]
    if kind.is_small:
        return narrow(node, x, kind)
    is_widened = node.type().name == "BFLOAT16" and kind.name == "FLOAT"
    return dml.cast(x, kind.inner) if is_widened or x.desc.data_type != kind.inner else x


def narrow(node: Node, x: Expression, kind: Type) -> Expression:
    """Return `x` as floats of 8 bits or less, or as integers of less than 8 bits.

    A float is rounded to the nearest one; beyond the largest one it is that, where ONNX says so.
    An integer is the low bits of the number, as ONNX's own implementation keeps them.
    """
    if not kind.is_floating:
        is_real = jnp.issubdtype(x.dtype, jnp.floating)
        return dml.cast(dml.cast(x, "INT32") if is_real else x, kind.inner)
    if x.dtype.itemsize < 2 or not jnp.issubdtype(x.dtype, jnp.floating):
        x = dml.cast(x, "FLOAT32")
    if kind.name == "FLOAT8E8M0":
        return _power_of_two(node, x)
    if node.attribute("saturate", 1) or kind.name == "FLOAT4E2M1":
        most = float(jnp.finfo(kind.dtype).max)
        x = dml.clip(x, -most, most)
    return dml.cast(x, kind.inner)


def _power_of_two(node: Node, x: Expression) -> Expression:
    """Return the powers of two that FLOAT8E8M0 holds, which has no sign, in place of `x`."""
    wide, x = x, as_type(x, "FLOAT32")
    least = {"down": 23, "nearest": 22, "up": 0}[node.attribute("round_mode", "up")]
    bits = pack(x).reinterpret(x.sizes, data_type="UINT32")
    if wide.dtype == np.float64:  # rounded to odd: toward 0, with the last bit set where digits go
        back = dml.cast(x, "FLOAT64")
        bits = bits - dml.cast(dml.greater_than(dml.abs(back), dml.abs(wide)), "UINT32")
        bits = bits | dml.cast(dml.logical_not(dml.equals(back, wide)), "UINT32")
    power, fraction = (bits >> 23) & 255, bits & 0x7FFFFF
    is_more = dml.cast(dml.greater_than_or_equal(fraction, 1 << least), "UINT32")
    power = dml.if_(dml.less_than(power, 255), dml.min(power + is_more, 254), 255)
    bytes_: Any = dml.cast(power, "UINT8")
    return bytes_.reinterpret(x.sizes, data_type=node.result_type().inner)


@translates("BitCast")
def _bit_cast(node: Node) -> Expression:
    x, kind = node[0], node.output_type()
    count, made = node.type().dtype.itemsize, node.result_type()
    rule = f"have elements of {count} bytes, as the input has"
    node.expect(made.dtype.itemsize == count, "to", rule, Unquoted(made.name))
    return dml.identity(x.reinterpret(x.sizes, x.desc.strides, kind))


@translates("Identity", padding=padding_rules.by_element, elements=symbolic_sizes.same)
@translates("Dropout", misread_before=12, padding=padding_rules.by_element)
def _identity(node: Node) -> Any:
    if node.op_type == "Identity" or len(node.types) == 1:
        return node.tensor(0)
    kind, value = node.result_type(1).inner, int(node.version >= 12)  # before, as ONNX Runtime
    mask = dml.fill_value_constant(node.shape() or (1,), kind, value, graph=node.builder)
    return node.tensor(0), mask


@translates("Dropout", since=12)
def _dropout(node: Node) -> Any:
    is_training = node.constant(2, False)
    if np.any(is_training) and float(np.ravel(node.constant(1, 0.5))[0]):
        raise node.refusal("training_mode", "be False where ratio is not 0", True)
    return _identity(node)

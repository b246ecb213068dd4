"""Arithmetic, comparisons, logic and casts of types that DirectML's operators do not take."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.rounding import as_float, odd_float32
from dml_jax.onnx.nodes import Node
from dml_jax.onnx.plain import plain

_UNARY: dict[str, Callable[[jax.Array], jax.Array]] = {
    "Abs": jnp.abs,
    "Acos": jnp.arccos,
    "Acosh": jnp.arccosh,
    "Asin": jnp.arcsin,
    "Asinh": jnp.arcsinh,
    "Atan": jnp.arctan,
    "Atanh": jnp.arctanh,
    "BitwiseNot": jnp.invert,
    "Ceil": jnp.ceil,
    "Cos": jnp.cos,
    "Cosh": jnp.cosh,
    "Erf": lax.erf,
    "Exp": jnp.exp,
    "Floor": jnp.floor,
    "Identity": lambda x: x,
    "IsNaN": jnp.isnan,
    "Log": jnp.log,
    "Neg": jnp.negative,
    "Not": jnp.logical_not,
    "Reciprocal": lambda x: 1 / x,
    "Relu": lambda x: jnp.maximum(x, 0),
    "Round": jnp.round,
    "Sigmoid": jax.nn.sigmoid,
    "Sign": jnp.sign,
    "Sin": jnp.sin,
    "Sinh": jnp.sinh,
    "Softplus": jax.nn.softplus,
    "Softsign": jax.nn.soft_sign,
    "Sqrt": jnp.sqrt,
    "Tan": jnp.tan,
    "Tanh": jnp.tanh,
}
_BINARY: dict[str, Callable[[jax.Array, jax.Array], jax.Array]] = {
    "Add": jnp.add,
    "And": jnp.logical_and,
    "BitwiseAnd": jnp.bitwise_and,
    "BitwiseOr": jnp.bitwise_or,
    "BitwiseXor": jnp.bitwise_xor,
    "Equal": jnp.equal,
    "Greater": jnp.greater,
    "GreaterOrEqual": jnp.greater_equal,
    "Less": jnp.less,
    "LessOrEqual": jnp.less_equal,
    "Mul": jnp.multiply,
    "Or": jnp.logical_or,
    "Sub": jnp.subtract,
    "Xor": jnp.logical_xor,
}
_CHAINED = {"Max": jnp.maximum, "Min": jnp.minimum, "Sum": jnp.add}


def operands(node: Node, a: jax.Array, b: jax.Array) -> list[jax.Array]:
    """Return the two operands. Before version 7, `axis` says where the second one lies."""
    axis = node.attribute("axis")
    if axis is not None:
        b = b.reshape(b.shape + (1,) * (a.ndim - node.from_start(axis, a.ndim) - b.ndim))
    return [a, b]


@plain(*_UNARY)
def _unary(node: Node, x: jax.Array) -> jax.Array:
    return _UNARY[node.op_type](x)


@plain(*_BINARY)
def _binary(node: Node, a: jax.Array, b: jax.Array) -> jax.Array:
    return _BINARY[node.op_type](*operands(node, a, b))


@plain("Div")
def _div(node: Node, a: jax.Array, b: jax.Array) -> jax.Array:
    a, b = jnp.broadcast_arrays(*operands(node, a, b))
    return lax.div(a, b)  # integers are cut towards 0


@plain(*_CHAINED)
def _chained(node: Node, *terms: jax.Array) -> jax.Array:
    return functools.reduce(_CHAINED[node.op_type], terms)


@plain("Mean")
def _mean(node: Node, *terms: jax.Array) -> jax.Array:
    return functools.reduce(jnp.add, terms) / len(terms)


@plain("Pow")
def _pow(node: Node, x: jax.Array, exponent: jax.Array) -> jax.Array:
    x, exponent = operands(node, x, exponent)
    if jnp.issubdtype(x.dtype, jnp.integer) and jnp.issubdtype(exponent.dtype, jnp.integer):
        result = jnp.power(x, jnp.maximum(exponent, 0).astype(x.dtype))
        sign = jnp.where(exponent % 2 == 0, 1, -1).astype(x.dtype)
        inverse = jnp.where(x == 1, 1, jnp.where(x == -1, sign, 0)).astype(x.dtype)
        return jnp.where(exponent < 0, inverse, result)
    if jnp.issubdtype(x.dtype, jnp.integer):
        return jnp.power(x.astype(exponent.dtype), exponent).astype(x.dtype)
    return jnp.power(x, exponent.astype(x.dtype))


@plain("Mod")
def _mod(node: Node, a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.fmod(a, b) if node.attribute("fmod") else jnp.mod(a, b)


@plain("Where")
def _where(node: Node, condition: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.where(condition, a, b)


@plain("IsInf")
def _is_inf(node: Node, x: jax.Array) -> jax.Array:
    is_high = jnp.isposinf(x) & bool(node.attribute("detect_positive"))
    return is_high | (jnp.isneginf(x) & bool(node.attribute("detect_negative")))


@plain("Clip")
def _clip_by_attributes(node: Node, x: jax.Array) -> jax.Array:
    low, high = node.attribute("min"), node.attribute("max")
    x = x if low is None else jnp.maximum(x, low)
    return x if high is None else jnp.minimum(x, high)


@plain("Clip", since=11)
def _clip(node: Node, x: jax.Array, low: Any = None, high: Any = None) -> jax.Array:
    x = x if low is None else jnp.maximum(x, low.reshape((1,) * x.ndim))
    return x if high is None else jnp.minimum(x, high.reshape((1,) * x.ndim))


@plain("LeakyRelu")
def _leaky_relu(node: Node, x: jax.Array) -> jax.Array:
    return jnp.where(x < 0, x * node.attribute("alpha"), x)


@plain("PRelu")
def _prelu(node: Node, x: jax.Array, slope: jax.Array) -> jax.Array:
    return jnp.where(x < 0, x * slope, x)


@plain("HardSigmoid")
def _hard_sigmoid(node: Node, x: jax.Array) -> jax.Array:
    return jnp.clip(node.attribute("alpha") * x + node.attribute("beta"), 0, 1)


@plain("Cast", "CastLike")
def _cast(node: Node, x: jax.Array, like: Any = None) -> jax.Array:
    return converted(node, x, node.made().array_dtype)


def converted(node: Node, x: jax.Array, dtype: np.dtype) -> jax.Array:
    """Return `x` as numbers of `dtype`; 8-bit floats hold the nearest one, where ONNX says so."""
    if dtype.kind == "b":
        return x != 0
    if jnp.issubdtype(dtype, jnp.floating) and dtype.itemsize == 1:
        wide = x.astype(np.float32) if x.dtype.itemsize <= 4 else x
        if dtype == jnp.float8_e8m0fnu:
            return _powers_of_two(node, wide)
        if node.attribute("saturate", 1) or dtype == jnp.float4_e2m1fn:
            most = float(jnp.finfo(dtype).max)
            wide = jnp.clip(wide, -most, most)
        return as_float(wide, dtype)
    if jnp.issubdtype(dtype, jnp.floating):
        return as_float(x, dtype)
    if jnp.issubdtype(dtype, jnp.integer) and jnp.issubdtype(x.dtype, jnp.floating):
        bits = jnp.iinfo(dtype).bits
        if bits < 8:  # the low bits, as ONNX's own implementation keeps them
            return x.astype(np.float32).astype(np.int32).astype(dtype)
    return x.astype(dtype)


def _powers_of_two(node: Node, x: jax.Array) -> jax.Array:
    """Return the powers of two that FLOAT8E8M0 holds, which has no sign, instead of `x`."""
    mode = node.attribute("round_mode", "up")
    wide = odd_float32(x) if x.dtype == np.float64 else x.astype(np.float32)
    bits = lax.bitcast_convert_type(wide, np.uint32)
    power, fraction = (bits >> 23) & 255, bits & 0x7FFFFF
    least = {"down": 1 << 23, "nearest": 1 << 22, "up": 1}[mode]  # the fraction that counts as 1
    power = jnp.where(
        power < 255, jnp.minimum(power + (fraction >= least).astype(power.dtype), 254), 255
    )
    return lax.bitcast_convert_type(power.astype(np.uint8), jnp.float8_e8m0fnu)


@plain("BitCast")
def _bit_cast(node: Node, x: jax.Array) -> jax.Array:
    x = x.astype(np.uint8) if x.dtype.kind == "b" else x
    dtype = node.made().array_dtype
    if dtype.kind == "b":
        return lax.bitcast_convert_type(x, np.uint8) != 0
    return lax.bitcast_convert_type(x, dtype)


@plain("QuantizeLinear")
def _quantize(node: Node, x: jax.Array, scale: jax.Array, zero_point: Any = None) -> jax.Array:
    dtype = node.made().array_dtype
    wide = x.astype(np.float32) / _placed(node, x, scale).astype(np.float32)
    shift = None if zero_point is None else _placed(node, x, zero_point).astype(np.float32)
    if jnp.issubdtype(dtype, jnp.floating):
        return converted(node, wide if shift is None else wide + shift, dtype)
    info = jnp.iinfo(dtype)
    wide = jnp.round(wide) if shift is None else jnp.round(wide) + shift
    return jnp.clip(wide, int(info.min), int(info.max)).astype(np.int32).astype(dtype)


@plain("DequantizeLinear")
def _dequantize(node: Node, x: jax.Array, scale: jax.Array, zero_point: Any = None) -> jax.Array:
    wide = x.astype(np.float32)
    if zero_point is not None:
        wide = wide - _placed(node, x, zero_point).astype(np.float32)
    result = wide * _placed(node, x, scale).astype(np.float32)
    return as_float(result, node.made().array_dtype)


def _placed(node: Node, x: jax.Array, parameter: jax.Array) -> jax.Array:
    """Return a scale or a zero point with an element for each element of `x`, or with ones."""
    if parameter.size == 1:
        return parameter.reshape((1,) * x.ndim)
    axis = node.from_start(node.attribute("axis", 1), x.ndim)
    if parameter.ndim == 1 and not node.attribute("block_size", 0):
        return parameter.reshape([-1 if d == axis else 1 for d in range(x.ndim)])
    block = node.attribute("block_size") or math.ceil(x.shape[axis] / parameter.shape[axis])
    return lax.slice_in_dim(jnp.repeat(parameter, block, axis), 0, x.shape[axis], axis=axis)

"""Primitives of each element."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from onnx import helper

from dml_jax.onnx.writing.jaxpr_nodes import Equation, writes
from dml_jax.onnx.writing.writer import Value, Writer, unwritten

_CAPITALIZED = (
    *("exp", "log", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"),
    *("asinh", "acosh", "atanh", "floor", "ceil", "abs", "sign", "erf", "neg"),
    *("add", "sub", "mul", "max", "min", "pow"),
)
_SAME = {name: name.capitalize() for name in _CAPITALIZED}
_SAME |= {"logistic": "Sigmoid", "add_any": "Add"}
_COMPARED = {"eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater"}
_COMPARED["ge"] = "GreaterOrEqual"


@writes(*_SAME)
def same(eqn: Equation) -> Value:
    w, inputs = eqn.writer, list(eqn.inputs)
    if eqn.dtype == bool:  # sums and products of truths
        return w.cast(w(_SAME[eqn.name], *(w.cast(x, np.int32) for x in inputs)), bool)
    if eqn.name == "pow" and inputs[1].dtype.kind in "iu":
        inputs[1] = w.cast(inputs[1], np.int64)
    return w(_SAME[eqn.name], *inputs)


@writes(*_COMPARED)
def compare(eqn: Equation) -> Value:
    return eqn.writer.compare(_COMPARED[eqn.name], *eqn.inputs)


@writes("ne")
def differing(eqn: Equation) -> Value:
    w, (a, b) = eqn.writer, eqn.inputs
    if a == b and a.dtype.kind == "f":
        return w("IsNaN", a, dtype=bool)
    if b.array is not None and not b.array.any():
        return w.cast(a, bool)
    return w("Not", w.compare("Equal", a, b))


@writes("integer_pow")
def integer_power(eqn: Equation) -> Value:
    w, x, y = eqn.writer, eqn[0], eqn.params["y"]
    result = x if y else w.expand(w.like(1, x), x.shape)
    for bit in bin(abs(y))[3:]:
        result = w("Mul", result, result)
        result = w("Mul", result, x) if bit == "1" else result
    return w("Reciprocal", result) if y < 0 else result


@writes("atan2")
def angle(eqn: Equation) -> Value:
    """Add pi, with the sign of y, to the angle of y / x where x is negative."""
    w, (y, x) = eqn.writer, eqn.inputs
    zero = w.like(0, x)
    turn = w.where(_is_negative(w, y), w.like(-np.pi, x), w.like(np.pi, x))
    both = w("And", *(w("IsInf", v, dtype=bool) for v in (y, x)))
    ratio = w.where(both, w("Mul", w("Sign", y), w("Sign", x)), w("Div", y, x))
    slope = w("Atan", ratio)
    result = w.where(_is_negative(w, x), w("Add", slope, turn), slope)
    is_zero = w("And", w.compare("Equal", y, zero), w.compare("Equal", x, zero))
    return w.where(is_zero, w.where(_is_negative(w, x), turn, y), result)


def _is_negative(w: Writer, x: Value) -> Value:
    """Return where floats are below 0, or -0."""
    inverse = w.compare("Less", w("Reciprocal", x), w.like(0, x))
    is_zero = w.compare("Equal", x, w.like(0, x))
    return w("Or", w.compare("Less", x, w.like(0, x)), w("And", is_zero, inverse))


@writes("round")
def round_(eqn: Equation) -> Value:
    w, x = eqn.writer, eqn[0]
    if eqn.params["rounding_method"] == lax.RoundingMethod.TO_NEAREST_EVEN:
        return w("Round", x)
    half = w.like(np.nextafter(np.asarray(0.5, x.dtype), np.asarray(0, x.dtype)), x)
    return w("Mul", w("Sign", x), w("Floor", w("Add", w("Abs", x), half)))


@writes("and", "or", "xor")
def by_bits(eqn: Equation) -> Value:
    name = eqn.name.capitalize()
    return eqn.writer(name if eqn.dtype == bool else f"Bitwise{name}", *eqn.inputs)


@writes("not")
def complement(eqn: Equation) -> Value:
    return eqn.writer("Not" if eqn.dtype == bool else "BitwiseNot", eqn[0])


@writes("clamp")
def clamp(eqn: Equation) -> Value:
    low, x, high = eqn.inputs
    return eqn.writer("Min", eqn.writer("Max", x, low), high)


@writes("select_n")
def select(eqn: Equation) -> Value:
    w, (which, *cases) = eqn.writer, eqn.inputs
    if which.dtype == bool:
        return chosen(w, which, cases[1], cases[0])
    result = cases[-1]
    for k in range(len(cases) - 2, -1, -1):
        is_case = w.compare("LessOrEqual", which, w.like(k, which))
        result = chosen(w, is_case, cases[k], result)
    return result


def chosen(w: Writer, condition: Value, a: Value, b: Value) -> Value:
    """Return `a` where a condition holds, else `b`, of any type."""
    if a.dtype == bool:
        return w("Or", w("And", condition, a), w("And", w("Not", condition), b))
    return w.where(condition, a, b)


@writes("div")
def quotient(eqn: Equation) -> Value:
    w, (a, b) = eqn.writer, eqn.inputs
    if eqn.dtype.kind not in "iu":
        return w("Div", a, b)
    safe, is_zero, is_minus_one = _divisor(w, b)
    result = w("Div", a, safe)
    if is_zero is not None:
        ones = w.constant(-1 if b.dtype.kind == "i" else np.iinfo(b.dtype).max, b.dtype)
        result = w.where(is_zero, w.expand(ones, result.shape), result)
    if is_minus_one is not None:
        result = w.where(is_minus_one, w("Neg", a), result)
    return result


@writes("rem")
def remainder(eqn: Equation) -> Value:
    w, (a, b) = eqn.writer, eqn.inputs
    if eqn.dtype.kind not in "iu":
        return w("Mod", a, b, fmod=1)
    safe, is_zero, _ = _divisor(w, b)
    result = w("Mod", a, safe, fmod=1)
    return result if is_zero is None else w.where(is_zero, a, result)


def _divisor(w: Writer, b: Value) -> tuple[Value, Value | None, Value | None]:
    """Return divisors by which a processor divides, and where they were 0 and -1."""
    is_signed = b.dtype.kind == "i"
    if b.array is not None and not np.isin(b.array, [0, *[-1] * is_signed]).any():
        return b, None, None
    is_zero = w.compare("Equal", b, w.like(0, b))
    special, is_minus_one = is_zero, None
    if is_signed:
        is_minus_one = w.compare("Equal", b, w.like(-1, b))
        special = w("Or", is_zero, is_minus_one)
    return w.where(special, w.like(1, b), b), is_zero, is_minus_one


@writes("shift_left", "shift_right_logical", "shift_right_arithmetic")
def shift(eqn: Equation) -> Value:
    w, (x, count) = eqn.writer, eqn.inputs
    if eqn.name == "shift_right_arithmetic" and x.dtype.kind == "i":
        is_negative = w.compare("Less", x, w.like(0, x))
        most = w.like(8 * x.dtype.itemsize - 1, count)
        is_below = w.compare("Less", count, w.like(0, count))
        is_large = w("Or", w.compare("Greater", count, most), is_below)
        count = w.where(is_large, most, count)
        flipped = w.where(is_negative, w("BitwiseNot", x), x)
        down = _shift(w, flipped, count, "RIGHT")
        return w.where(is_negative, w("BitwiseNot", down), down)
    return _shift(w, x, count, "LEFT" if eqn.name == "shift_left" else "RIGHT")


def _shift(w: Writer, x: Value, count: Value, direction: str) -> Value:
    unsigned = np.dtype(f"uint{8 * x.dtype.itemsize}")
    if unsigned == np.uint16:  # ONNX Runtime has this BitShift since 1.32
        made = _shift(w, w.cast(w.cast(x, unsigned), np.uint32), count, direction)
        return w.cast(w.cast(made, unsigned), x.dtype)
    bits, by = w.cast(x, unsigned), w.cast(count, unsigned)
    most = w.like(8 * x.dtype.itemsize - 1, by)
    is_large = w.compare("Greater", by, most)
    made = w("BitShift", bits, w("Min", by, most), direction=direction)
    return w.cast(w.where(is_large, w.like(0, bits), made), x.dtype)


@writes("convert_element_type")
def convert_element_type(eqn: Equation) -> Value:
    return convert(eqn.writer, eqn[0], eqn.dtype)


def convert(w: Writer, x: Value, dtype: Any) -> Value:
    """Return `x` in another type, as XLA does: floats become the nearest integer, NaN is 0."""
    dtype = np.dtype(dtype)
    is_float = x.dtype.kind == "f" or x.dtype == jnp.bfloat16
    if not is_float or dtype.kind not in "iu":
        return w.cast(x, dtype)
    if x.dtype != np.float64:
        x = w.cast(x, np.float32)
    info = np.iinfo(dtype)
    low, high = (np.asarray(v, x.dtype) for v in (info.min, info.max))
    top = high if int(high) <= info.max else np.nextafter(high, np.asarray(0, x.dtype))
    x = w.where(w("IsNaN", x, dtype=bool), w.like(0, x), x)
    made = w.cast(w("Min", w("Max", x, w.like(low, x)), w.like(top, x)), dtype)
    if int(top) == info.max:
        return made
    return w.where(w.compare("Greater", x, w.like(top, x)), w.constant(info.max, dtype), made)


@writes("bitcast_convert_type")
def bits(eqn: Equation) -> Value:
    w, x = eqn.writer, eqn[0]
    if x.dtype.kind in "iu" and eqn.dtype.kind in "iu" and x.dtype.itemsize == eqn.dtype.itemsize:
        return w.cast(x, eqn.dtype)
    w.needs(26)
    to = helper.np_dtype_to_tensor_dtype(eqn.dtype)
    return w("BitCast", x, dtype=eqn.dtype, shape=eqn.shape, to=to)


@writes("reduce_precision")
def in_fewer_bits(eqn: Equation) -> Value:
    w, x = eqn.writer, eqn[0]
    sizes = eqn.params["exponent_bits"], eqn.params["mantissa_bits"]
    known = {(5, 10): np.float16, (8, 7): jnp.bfloat16, (8, 23): np.float32}
    if sizes == (11, 52) or known.get(sizes) == x.dtype:
        return x
    if sizes not in known:
        raise unwritten(f"a rounding to {sizes[1]} bits")
    return w.cast(w.cast(x, known[sizes]), x.dtype)


@writes(
    *("stop_gradient", "copy", "copy_p", "optimization_barrier", "reduce_and_scatter"),
    *("sharding_constraint", "layout_constraint", "device_put"),
)
def pass_on(eqn: Equation) -> list[Value]:
    return list(eqn.inputs)

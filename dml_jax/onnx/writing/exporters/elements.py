"""Exporters of the operators of each element."""

from typing import Any

from dml_jax.onnx.writing.operator_records import Use, exports
from dml_jax.onnx.writing.writer import Value


@exports(
    *("ABS", "ACOS", "ACOSH", "ASIN", "ASINH", "ATAN", "ATANH", "BIT_NOT", "CEIL", "COS", "COSH"),
    *("ERF", "EXP", "FLOOR", "IDENTITY", "LOG", "NEGATE", "RECIP", "SIGN", "SIN", "SINH", "SQRT"),
    *("TAN", "TANH"),
    prefix="ELEMENT_WISE_",
)
@exports("ACTIVATION_IDENTITY")
def unary(use: Use) -> Any:
    if use.input_tensor.dtype.kind == "f" and use.operator.short_name == "ELEMENT_WISE_BIT_NOT":
        return NotImplemented
    return use.writer(use.op_type, use.scaled)


@exports("ADD", "ADD1", "MAX", "MIN", "MULTIPLY", "SUBTRACT", prefix="ELEMENT_WISE_")
def binary(use: Use) -> Value:
    return use.writer(use.op_type, use.a_tensor, use.b_tensor)


@exports("ELEMENT_WISE_DIVIDE")
def divide(use: Use) -> Any:
    if use.a_tensor.dtype.kind in "iu":  # by 0 it gives what the program says
        return NotImplemented
    return use.writer("Div", use.a_tensor, use.b_tensor)


@exports("AND", "OR", "XOR", prefix="ELEMENT_WISE_BIT_")
def by_bits(use: Use) -> Any:
    if use.a_tensor.dtype.kind not in "iu":
        return NotImplemented
    return use.writer(use.op_type, use.a_tensor, use.b_tensor)


@exports("AND", "OR", "XOR", prefix="ELEMENT_WISE_LOGICAL_")
def truths(use: Use) -> Value:
    w = use.writer
    a, b = (w.cast(x, bool) for x in (use.a_tensor, use.b_tensor))
    return _as_output(use, w(use.op_type, a, b))


@exports(
    *("EQUALS", "GREATER_THAN", "GREATER_THAN_OR_EQUAL", "LESS_THAN", "LESS_THAN_OR_EQUAL"),
    prefix="ELEMENT_WISE_LOGICAL_",
)
def compared(use: Use) -> Value:
    return _as_output(use, use.writer.compare(use.op_type, use.a_tensor, use.b_tensor))


@exports("ELEMENT_WISE_LOGICAL_NOT")
def negation(use: Use) -> Value:
    return _as_output(use, use.writer("Not", use.writer.cast(use.scaled, bool)))


@exports("ELEMENT_WISE_IS_NAN")
def is_nan(use: Use) -> Value:
    return _as_output(use, use.writer("IsNaN", use.input_tensor, dtype=bool))


@exports("ELEMENT_WISE_IS_INFINITY")
def is_infinity(use: Use) -> Value:
    w, mode = use.writer, use.infinity_mode.name
    named: dict[str, Any] = {
        "detect_negative": int(mode != "POSITIVE"),
        "detect_positive": int(mode != "NEGATIVE"),
    }
    return _as_output(use, w("IsInf", use.input_tensor, dtype=bool, **named))


def _as_output(use: Use, x: Value) -> Value:
    return use.writer.cast(x, use.output_tensor.dtype)


@exports("ELEMENT_WISE_IF")
def choice(use: Use) -> Value:
    w = use.writer
    return w.where(w.cast(use.condition_tensor, bool), use.a_tensor, use.b_tensor)


@exports("ELEMENT_WISE_CLIP")
def clipped(use: Use) -> Any:
    is_float = use.input_tensor.dtype.kind == "f"
    if use.min > use.max or not is_float:  # the lower one, unlike ONNX's Clip
        return NotImplemented
    w, x = use.writer, use.scaled
    return w("Clip", x, w.like(use.min, x), w.like(use.max, x), shape=x.shape)


@exports("ELEMENT_WISE_THRESHOLD")
def from_a_least(use: Use) -> Any:
    if use.input_tensor.dtype.kind != "f":
        return NotImplemented
    return use.writer("Max", use.scaled, use.writer.like(use.min, use.scaled))


@exports("ELEMENT_WISE_CONSTANT_POW")
def power(use: Use) -> Value:
    x = use.scaled
    return use.writer("Pow", x, use.writer.like(use.exponent, x))


@exports("ELEMENT_WISE_POW")
def powers(use: Use) -> Any:
    if use.input_tensor.dtype.kind in "iu" or use.exponent_tensor.dtype.kind in "iu":
        return NotImplemented
    return use.writer("Pow", use.scaled, use.exponent_tensor)


@exports("CAST")
def cast(use: Use) -> Any:
    x, dtype = use.input_tensor, use.output_tensor.dtype
    if (x.dtype.kind == "f" and dtype.kind in "iu") or "V" in (x.dtype.kind, dtype.kind):
        return NotImplemented  # beyond the ends of the type it gives what the program says
    return use.writer.cast(x, dtype)

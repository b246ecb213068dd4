"""Exporters of the operators of each element."""

from typing import Any

from dml_jax.onnx.writing.operator_records import exports, only, op_type_of
from dml_jax.onnx.writing.writer import Value, Writer


@exports(
    *("ABS", "ACOS", "ACOSH", "ADD", "ADD1", "ASIN", "ASINH", "ATAN", "ATANH", "BIT_AND"),
    *("BIT_NOT", "BIT_OR", "BIT_XOR", "CEIL", "COS", "COSH", "DIVIDE", "ERF", "EXP", "FLOOR"),
    *("IDENTITY", "LOG", "MAX", "MIN", "MULTIPLY", "NEGATE", "POW", "RECIP", "SIGN", "SIN"),
    *("SINH", "SQRT", "SUBTRACT", "TAN", "TANH"),
    prefix="ELEMENT_WISE_",
)
@exports("ACTIVATION_IDENTITY")
def same(w: Writer, op: Any, *inputs: Value) -> Value:
    op_type, is_integer = op_type_of(op), any(x.dtype.kind in "iu" for x in inputs)
    only(is_integer or not op_type.startswith("Bitwise"))
    # integers by 0, and powers beyond the ends of their type, are what the program says
    only(op_type not in ("Div", "Pow") or not is_integer)
    return w(op_type, *inputs)


@exports(
    *("EQUALS", "GREATER_THAN", "GREATER_THAN_OR_EQUAL", "LESS_THAN", "LESS_THAN_OR_EQUAL"),
    prefix="ELEMENT_WISE_LOGICAL_",
)
def compared(w: Writer, op: Any, a: Value, b: Value) -> Value:
    return w.cast(w(op_type_of(op), a, b, dtype=bool), op.output_tensor.dtype)


@exports("ELEMENT_WISE_IS_INFINITY")
def is_infinity(w: Writer, op: Any, x: Value) -> Value:
    mode, named = op.infinity_mode.name, dict[str, Any]()
    named["detect_negative"], named["detect_positive"] = mode != "POSITIVE", mode != "NEGATIVE"
    return w.cast(w("IsInf", x, dtype=bool, **named), op.output_tensor.dtype)


@exports("ELEMENT_WISE_CLIP")
def clipped(w: Writer, op: Any, x: Value) -> Value:
    only(op.min <= op.max and x.dtype.kind == "f")  # else the lower one, unlike ONNX's Clip
    return w("Clip", x, w.like(op.min, x), w.like(op.max, x), shape=x.shape)


@exports("CAST")
def cast(w: Writer, op: Any, x: Value) -> Value:
    dtype = op.output_tensor.dtype
    only(not (x.dtype.kind == "f" and dtype.kind in "iu"))  # beyond its ends as the program says
    only("V" not in (x.dtype.kind, dtype.kind))
    return w.cast(x, dtype)

"""Exporters of the operators of each element."""

from typing import Any

from dml_jax.onnx.uses import Use, exports
from dml_jax.onnx.writer import Value

_SAME = (
    *("Abs", "Acos", "Asin", "Atan", "Ceil", "Cos", "Erf", "Exp", "Floor", "Log", "Sin", "Sqrt"),
    *("Tan", "Sinh", "Cosh", "Tanh", "Asinh", "Acosh", "Atanh", "Sign", "Identity"),
)
_UNARY = {
    **{f"ELEMENT_WISE_{name.upper()}": name for name in _SAME},
    "ELEMENT_WISE_NEGATE": "Neg",
    "ELEMENT_WISE_RECIP": "Reciprocal",
    "ELEMENT_WISE_BIT_NOT": "BitwiseNot",
    "ACTIVATION_IDENTITY": "Identity",
}
_BINARY = {
    "ELEMENT_WISE_ADD": "Add",
    "ELEMENT_WISE_ADD1": "Add",
    "ELEMENT_WISE_SUBTRACT": "Sub",
    "ELEMENT_WISE_MULTIPLY": "Mul",
    "ELEMENT_WISE_MAX": "Max",
    "ELEMENT_WISE_MIN": "Min",
}
_BITS = {f"ELEMENT_WISE_BIT_{name.upper()}": f"Bitwise{name}" for name in ("And", "Or", "Xor")}
_TRUTHS = {f"ELEMENT_WISE_LOGICAL_{name.upper()}": name for name in ("And", "Or", "Xor")}
_COMPARED = {
    "ELEMENT_WISE_LOGICAL_EQUALS": "Equal",
    "ELEMENT_WISE_LOGICAL_GREATER_THAN": "Greater",
    "ELEMENT_WISE_LOGICAL_LESS_THAN": "Less",
    "ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL": "GreaterOrEqual",
    "ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL": "LessOrEqual",
}


@exports(*_UNARY)
def unary(use: Use) -> Any:
    if use.input_tensor.dtype.kind == "f" and use.operator.short_name == "ELEMENT_WISE_BIT_NOT":
        return NotImplemented
    return use.writer(_UNARY[use.operator.short_name], use.scaled)


@exports(*_BINARY)
def binary(use: Use) -> Value:
    return use.writer(_BINARY[use.operator.short_name], use.a_tensor, use.b_tensor)


@exports("ELEMENT_WISE_DIVIDE")
def divide(use: Use) -> Any:
    if use.a_tensor.dtype.kind in "iu":  # by 0 it gives what the program says
        return NotImplemented
    return use.writer("Div", use.a_tensor, use.b_tensor)


@exports(*_BITS)
def by_bits(use: Use) -> Any:
    if use.a_tensor.dtype.kind not in "iu":
        return NotImplemented
    return use.writer(_BITS[use.operator.short_name], use.a_tensor, use.b_tensor)


@exports(*_TRUTHS)
def truths(use: Use) -> Value:
    w = use.writer
    a, b = (w.cast(x, bool) for x in (use.a_tensor, use.b_tensor))
    return _as_output(use, w(_TRUTHS[use.operator.short_name], a, b))


@exports(*_COMPARED)
def compared(use: Use) -> Value:
    made = use.writer.compare(_COMPARED[use.operator.short_name], use.a_tensor, use.b_tensor)
    return _as_output(use, made)


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

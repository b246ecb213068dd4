"""Exporters of the activations, which other operators fuse too."""

import math
from typing import Any

from dml_jax.onnx.translators.activations import ACTIVATIONS
from dml_jax.onnx.writing.operator_records import exports, only, op_type_of
from dml_jax.onnx.writing.writer import Value, Writer


@exports(
    *("CELU", "ELU", "GELU", "HARD_SIGMOID", "LEAKY_RELU", "PARAMETERIZED_RELU", "RELU"),
    *("SCALED_ELU", "SIGMOID", "SOFTSIGN", "TANH", "THRESHOLDED_RELU"),
    prefix="ACTIVATION_",
)
def same(w: Writer, op: Any, *inputs: Value) -> Value:
    """Write an op type with the operator's attributes."""
    op_type = op_type_of(op)
    only(inputs[0].dtype.kind == "f" and (op_type != "Celu" or op.alpha > 0))
    values: dict[str, Any] = {n: float(getattr(op, n)) for n in ACTIVATIONS.get(op_type, ())}
    return w(op_type, *inputs, **values)


@exports("ACTIVATION_SHRINK")
def shrunk(w: Writer, op: Any, x: Value) -> Value:
    only(x.dtype.kind == "f" and op.threshold >= 0)
    return w("Shrink", x, bias=float(op.bias), lambd=float(op.threshold))


@exports("ACTIVATION_PARAMETRIC_SOFTPLUS")
def parametric_softplus(w: Writer, op: Any, x: Value) -> Value:
    return w("Mul", w("Softplus", w("Mul", x, w.like(op.beta, x))), w.like(op.alpha, x))


@exports("ACTIVATION_SOFTPLUS")
def softplus(w: Writer, op: Any, x: Value) -> Value:
    if op.steepness == 1:
        return w("Softplus", x)
    steepness = w.like(op.steepness, x)
    return w("Div", w("Softplus", w("Mul", x, steepness)), steepness)


@exports("ACTIVATION_SWISH")
def swish(w: Writer, op: Any, x: Value) -> Value:
    return w("Mul", x, w("Sigmoid", w("Mul", x, w.like(op.sigmoid_input_scale, x))))


@exports("ACTIVATION_HARD_SWISH")
def hard_swish(w: Writer, op: Any, x: Value) -> Value:
    return w("Mul", x, w("HardSigmoid", x, alpha=float(op.alpha), beta=float(op.beta)))


@exports("HARDMAX", "LOG_SOFTMAX", "SOFTMAX", prefix="ACTIVATION_")
@exports("HARDMAX1", "LOG_SOFTMAX1", "SOFTMAX1", prefix="ACTIVATION_")
def along_axes(w: Writer, op: Any, x: Value) -> Value:
    """Write rows of several dimensions as one dimension, at the end."""
    op_type, axes = op_type_of(op), sorted(getattr(op, "axes", [-1]))
    if len(axes) == 1:
        return w(op_type, x, axis=axes[0])
    others = [a for a in range(x.rank) if a not in axes]
    order = [*others, *axes]
    moved = w.transpose(x, order)
    flat = w.reshape(moved, [*(x.shape[a] for a in others), math.prod(x.shape[a] for a in axes)])
    made = w.reshape(w(op_type, flat, axis=-1), moved.shape)
    return w.transpose(made, sorted(range(x.rank), key=order.__getitem__))

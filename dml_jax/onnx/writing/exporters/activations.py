"""Exporters of the activations, which other operators fuse too."""

import math
from typing import Any

from dml_jax.onnx.translators.activations import ACTIVATIONS
from dml_jax.onnx.writing.operator_records import Use, exports
from dml_jax.onnx.writing.writer import Value


@exports(
    *("ELU", "GELU", "HARD_SIGMOID", "LEAKY_RELU", "RELU", "SCALED_ELU", "SIGMOID", "SOFTSIGN"),
    *("TANH", "THRESHOLDED_RELU"),
    prefix="ACTIVATION_",
)
def same(use: Use) -> Any:
    """Write an op type with the operator's attributes."""
    if use.input_tensor.dtype.kind != "f":
        return NotImplemented
    names = ACTIVATIONS.get(use.op_type, ())
    values: dict[str, Any] = {name: float(getattr(use, name)) for name in names}
    return use.writer(use.op_type, use.input_tensor, **values)


@exports("ACTIVATION_CELU")
def celu(use: Use) -> Any:
    if use.alpha <= 0:
        return NotImplemented
    return use.writer("Celu", use.input_tensor, alpha=float(use.alpha))


@exports("ACTIVATION_SHRINK")
def shrunk(use: Use) -> Any:
    x = use.input_tensor
    if use.threshold < 0 or x.dtype.kind != "f":
        return NotImplemented
    return use.writer("Shrink", x, bias=float(use.bias), lambd=float(use.threshold))


@exports("ACTIVATION_PARAMETERIZED_RELU")
def parameterized_relu(use: Use) -> Any:
    if use.input_tensor.dtype.kind != "f":
        return NotImplemented
    return use.writer("PRelu", use.input_tensor, use.slope_tensor)


@exports("ACTIVATION_PARAMETRIC_SOFTPLUS")
def parametric_softplus(use: Use) -> Value:
    w, x = use.writer, use.input_tensor
    return w("Mul", w("Softplus", w("Mul", x, w.like(use.beta, x))), w.like(use.alpha, x))


@exports("ACTIVATION_SOFTPLUS")
def softplus(use: Use) -> Value:
    w, x = use.writer, use.input_tensor
    if use.steepness == 1:
        return w("Softplus", x)
    steepness = w.like(use.steepness, x)
    return w("Div", w("Softplus", w("Mul", x, steepness)), steepness)


@exports("ACTIVATION_SWISH")
def swish(use: Use) -> Value:
    w, x = use.writer, use.input_tensor
    return w("Mul", x, w("Sigmoid", w("Mul", x, w.like(use.sigmoid_input_scale, x))))


@exports("ACTIVATION_HARD_SWISH")
def hard_swish(use: Use) -> Value:
    w, x = use.writer, use.input_tensor
    return w("Mul", x, w("HardSigmoid", x, alpha=float(use.alpha), beta=float(use.beta)))


@exports("HARDMAX", "LOG_SOFTMAX", "SOFTMAX", prefix="ACTIVATION_")
@exports("HARDMAX1", "LOG_SOFTMAX1", "SOFTMAX1", prefix="ACTIVATION_")
def along_axes(use: Use) -> Any:
    """Write rows of several dimensions as one dimension, at the end."""
    w, x, op_type = use.writer, use.input_tensor, use.op_type
    axes = sorted(getattr(use.operator, "axes", [-1]))
    if len(axes) == 1:
        return w(op_type, x, axis=axes[0])
    others = [a for a in range(x.rank) if a not in axes]
    order = [*others, *axes]
    moved = w.transpose(x, order)
    flat = w.reshape(moved, [*(x.shape[a] for a in others), math.prod(x.shape[a] for a in axes)])
    made = w.reshape(w(op_type, flat, axis=-1), moved.shape)
    return w.transpose(made, sorted(range(x.rank), key=order.__getitem__))

"""Records of the activations."""

from typing import Any

import numpy as np

from records import Record, Rng
from records.element_wise import cast, erfc, unary


def nonzero(rng: Rng) -> float:
    """Draw a coefficient by which the formula divides."""
    return float(rng.choice([-1.5, 0.5, 1, 2]))


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def hard_sigmoid(x: np.ndarray, op: Any) -> np.ndarray:
    return np.maximum(0, np.minimum(op.alpha * x + op.beta, 1))


def softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(0, x)


def leaky_relu(x: np.ndarray, slope: Any) -> np.ndarray:
    return np.where(x >= 0, x, slope * x)


def celu(x: np.ndarray, op: Any) -> np.ndarray:
    return np.maximum(0, x) + np.minimum(0, op.alpha * np.expm1(x / op.alpha))


def shrink(x: np.ndarray, op: Any) -> np.ndarray:
    """Compute in float64, or in Python's integers, which wrap at the end."""
    bias, threshold = op.bias, op.threshold
    if x.dtype.kind in "iu":
        bias, threshold = cast(bias, x.dtype), cast(threshold, x.dtype)
    values = [
        v - bias if v > threshold else v + bias if v < -threshold else 0 for v in x.ravel().tolist()
    ]
    return np.array(values, np.int64 if x.dtype.kind in "iu" else float).reshape(x.shape)


RECORDS = {
    "ACTIVATION_ELU": unary(lambda x, op: np.where(x >= 0, x, op.alpha * np.expm1(x))),
    "ACTIVATION_CELU": unary(celu, attributes={"alpha": nonzero}),
    "ACTIVATION_HARD_SIGMOID": unary(hard_sigmoid),
    "ACTIVATION_IDENTITY": unary(lambda x: x),
    "ACTIVATION_LEAKY_RELU": unary(lambda x, op: leaky_relu(x, op.alpha)),
    "ACTIVATION_LINEAR": unary(lambda x, op: op.alpha * x + op.beta),
    "ACTIVATION_PARAMETERIZED_RELU": Record(lambda op, x, slope: leaky_relu(x, slope)),
    "ACTIVATION_PARAMETRIC_SOFTPLUS": unary(lambda x, op: op.alpha * softplus(op.beta * x)),
    "ACTIVATION_RELU": unary(relu),
    "ACTIVATION_SCALED_ELU": unary(
        lambda x, op: op.gamma * np.where(x > 0, x, op.alpha * np.expm1(x))
    ),
    "ACTIVATION_SCALED_TANH": unary(lambda x, op: op.alpha * np.tanh(op.beta * x)),
    "ACTIVATION_SIGMOID": unary(lambda x: 1 / (1 + np.exp(-x))),
    "ACTIVATION_SOFTPLUS": unary(
        lambda x, op: softplus(op.steepness * x) / op.steepness, attributes={"steepness": nonzero}
    ),
    "ACTIVATION_SOFTSIGN": unary(lambda x: x / (1 + np.abs(x))),
    "ACTIVATION_TANH": unary(np.tanh),
    "ACTIVATION_THRESHOLDED_RELU": unary(lambda x, op: np.where(x > op.alpha, x, 0)),
    "ACTIVATION_SHRINK": unary(shrink),
    "ACTIVATION_GELU": unary(lambda x: 0.5 * x * erfc(-x / np.sqrt(2)), ulp=6),
    "ACTIVATION_SWISH": unary(lambda x, op: x / (1 + np.exp(-op.sigmoid_input_scale * x))),
    "ACTIVATION_HARD_SWISH": unary(lambda x, op: x * hard_sigmoid(x, op)),
    "ACTIVATION_RELU_GRAD": Record(lambda op, x, dy: np.where(x > 0, dy, 0)),
}

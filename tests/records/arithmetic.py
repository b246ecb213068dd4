"""Records of the operators that map the elements at one place of several tensors."""

import math
from typing import Any

import numpy as np

from dml_jax import TensorDesc
from dml_jax.operator import Operator
from records import Fields, Record, Rng, Types, activated, sizes
from records.element_wise import cast, scaled


def exactly(function: Any) -> Any:
    """Return a reference that applies a function of Python's integers, wrapped, or of floats."""

    def reference(op: Any, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if a.dtype.kind == "f":
            return function(a, b)
        pairs = zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)
        return wrapped([function(x, y) for x, y in pairs], a)

    return reference


def wrapped(values: list[int], like: np.ndarray) -> np.ndarray:
    """Return integers modulo 2^n in the type and shape of an array."""
    bits = like.dtype.itemsize * 8
    unsigned = np.array([v % 2**bits for v in values], f"uint{bits}")
    return unsigned.view(like.dtype).reshape(like.shape)


def divided(a: Any, b: Any) -> Any:
    """Return a quotient toward zero: -1, which wraps to all bits, of integers by 0."""
    if isinstance(a, np.ndarray):
        return a / b
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def mean(a: Any, b: Any) -> Any:
    return (a + b) / 2 if isinstance(a, np.ndarray) else math.trunc((a + b) / 2)


def truncated_modulus(a: Any, b: Any) -> Any:
    return np.fmod(a, b) if isinstance(a, np.ndarray) else a - b * divided(a, b) if b else a


def floor_modulus(a: Any, b: Any) -> Any:
    if not isinstance(a, np.ndarray):
        return a % b if b else a
    return np.where(np.isinf(b) & np.isfinite(a), np.where(a * b < 0, b, a), np.mod(a, b))


def integer_power(x: int, exponent: float) -> float:
    """Return the real power toward zero; infinite for 0 to a negative power."""
    if exponent == int(exponent):
        if exponent >= 0:
            return x ** int(exponent)
        return math.inf if x == 0 else x ** int(-exponent) if abs(x) == 1 else 0
    return float(np.power(np.float64(x), exponent))


def power(op: Any, x: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """Compute powers of integers in Python's own: modulo 2^n, or saturated of float exponents."""
    x = scaled(op, x)
    if x.dtype.kind == "f":
        return np.power(x, exponent.astype(np.float64))
    pairs = zip(x.ravel().tolist(), exponent.ravel().tolist(), strict=True)
    if exponent.dtype.kind == "f":
        values = [
            cast(integer_power(b, e) if math.isfinite(e) else float(np.power(float(b), e)), x.dtype)
            for b, e in pairs
        ]
        return np.array(values, x.dtype).reshape(x.shape)
    bits = x.dtype.itemsize * 8
    values = [
        pow(b, e, 2**bits) if e >= 0 else cast(integer_power(b, e), x.dtype) for b, e in pairs
    ]
    return wrapped([int(v) for v in values], x)


def draw_adam(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    shape = sizes(rng, 4, 4)
    tensors = [f.name for f in op_class.fields if f.tensor and not f.tensor.output]
    fields = {name: TensorDesc(types[name], shape) for name in tensors}
    step = {"training_step_tensor": TensorDesc("UINT32", [1] * 4)}
    return {**fields, **step, **ADAM}


def adam(op: Any, x: Any, m: Any, v: Any, g: Any, step: Any) -> list[np.ndarray]:
    step = step.astype(np.float64)
    m = op.beta1 * m + (1 - op.beta1) * g
    v = op.beta2 * v + (1 - op.beta2) * g * g
    alpha = np.sqrt(1 - op.beta2**step) / (1 - op.beta1**step)
    return [x - op.learning_rate * alpha * m / (np.sqrt(v) + op.epsilon), m, v]


DIVISOR = {"a_tensor": (-4.0, 4.0), "b_tensor": (0.25, 4.0)}
ADAM = {"learning_rate": 0.125, "beta1": 0.75, "beta2": 0.875, "epsilon": 0.25}

RECORDS = {
    "ELEMENT_WISE_ADD": Record(exactly(lambda a, b: a + b)),
    "ELEMENT_WISE_ADD1": Record(lambda op, a, b: activated(op.fused_activation, a + b)),
    "ELEMENT_WISE_SUBTRACT": Record(exactly(lambda a, b: a - b)),
    "ELEMENT_WISE_MULTIPLY": Record(exactly(lambda a, b: a * b)),
    "ELEMENT_WISE_DIVIDE": Record(exactly(divided), values=DIVISOR),
    "ELEMENT_WISE_MIN": Record(lambda op, a, b: np.minimum(a, b)),
    "ELEMENT_WISE_MAX": Record(lambda op, a, b: np.maximum(a, b)),
    "ELEMENT_WISE_MEAN": Record(exactly(mean)),
    "ELEMENT_WISE_POW": Record(
        power, values={"input_tensor": (0.25, 4), "exponent_tensor": (-2, 3)}
    ),
    "ELEMENT_WISE_DIFFERENCE_SQUARE": Record(exactly(lambda a, b: (a - b) ** 2)),
    "ELEMENT_WISE_ATAN_YX": Record(lambda op, a, b: np.arctan2(a, b), values={"": (0.25, 4)}),
    "ELEMENT_WISE_MODULUS_TRUNCATE": Record(exactly(truncated_modulus), values=DIVISOR),
    "ELEMENT_WISE_MODULUS_FLOOR": Record(exactly(floor_modulus), values=DIVISOR),
    "ELEMENT_WISE_IF": Record(lambda op, c, a, b: np.where(c != 0, a, b)),
    "ADAM_OPTIMIZER": Record(
        adam,
        draw_adam,
        values={
            "": (-4, 4),
            "input_second_moment_tensor": (1, 4),
            "training_step_tensor": (0.25, 4),
        },
        attributes=ADAM,
        ulp=32,
        batch=({"": 0, "training_step_tensor": None},),
    ),
}

"""Records of the products of matrices."""

from typing import Any

import numpy as np

from dml_jax import ActivationElu, ActivationRelu, ActivationSoftmax, ActivationSoftmax1, TensorDesc
from dml_jax.operator import Operator
from records import Fields, Record, Rng, Types, activated
from records.quantization import quantize

FUSED = [
    None,
    ActivationRelu.fused(),
    ActivationElu.fused(alpha=0.5),
    ActivationSoftmax.fused(),
    ActivationSoftmax1.fused(axes=[0, 1]),
]


def shapes(rng: Rng) -> tuple[list[int], int, int, int]:
    """Return the batch of matrices, and M, K and N."""
    batch = rng.integers(1, 3, int(rng.integers(0, 3))).tolist()
    m, k, n = rng.permutation([2, 3, 4, 5])[:3].tolist()
    return batch, m, k, n


def draw_gemm(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    (batch, m, k, n), flips = shapes(rng), rng.integers(0, 2, 2).tolist()
    a, b = ([k, m] if flips[0] else [m, k]), ([n, k] if flips[1] else [k, n])
    activation = FUSED[int(rng.integers(len(FUSED)))]
    if activation == ActivationSoftmax.fused():
        batch = [1] * len(batch)
    drawn: Fields = {
        "a_tensor": TensorDesc(types["a_tensor"], batch + a),
        "b_tensor": TensorDesc(types["a_tensor"], batch + b),
        "trans_a": ["NONE", "TRANSPOSE"][flips[0]],
        "trans_b": ["NONE", "TRANSPOSE"][flips[1]],
        "alpha": float(rng.integers(1, 9)) / 8,
        "beta": float(rng.integers(-8, 9)) / 8,
        "fused_activation": activation,
    }
    if rng.integers(2):
        drawn["c_tensor"] = TensorDesc(types["a_tensor"], [*batch, m, n])
    return drawn


def gemm(op: Any, a: np.ndarray, b: np.ndarray, c: np.ndarray | None) -> np.ndarray:
    a = a.swapaxes(-1, -2) if op.trans_a.value else a
    b = b.swapaxes(-1, -2) if op.trans_b.value else b
    y = op.alpha * (a @ b)
    return activated(op.fused_activation, y if c is None else y + op.beta * c)


def draw_integers(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    """Draw parameters of one, two or more dimensions, for the whole, or for rows and columns."""
    batch, m, k, n = shapes(rng)
    ones = [1] * int(rng.integers(0, 3))
    by_row, by_column = bool(rng.integers(2)), bool(rng.integers(2))
    drawn: Fields = {}
    for name, type_ in types.items():
        if name == "output_tensor" or (("zero" in name or "bias" in name) and rng.integers(2)):
            continue
        if name in ("a_tensor", "b_tensor", "bias_tensor"):
            sizes = batch + {"a": [m, k], "b": [k, n], "bias": [m, n]}[name.removesuffix("_tensor")]
        elif name.startswith("b_"):
            sizes = [*ones, 1, n if by_column else 1]
        else:
            sizes = [*ones, m if by_row else 1, 1]
        drawn[name] = TensorDesc(type_, sizes)
    return drawn


def beside(x: np.ndarray | None, is_row: bool) -> Any:
    """Return parameters as they stand beside a matrix; those left out as 0."""
    return 0 if x is None else x.reshape((-1, 1) if is_row else (1, -1))


def integer(op: Any, a: np.ndarray, a_zero: Any, b: np.ndarray, b_zero: Any) -> np.ndarray:
    left = a.astype(np.int64) - beside(a_zero, True)
    return left @ (b.astype(np.int64) - beside(b_zero, False))


def real(op: Any, a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any) -> Any:
    return integer(op, a, a_zero, b, b_zero) * beside(a_scale, True) * beside(b_scale, False)


def quantized(op: Any, *arrays: Any) -> np.ndarray:
    *terms, scale, zero = arrays
    zero = None if zero is None else beside(zero, True)
    return quantize(real(op, *terms), beside(scale, True), zero, op.output_tensor.data_type)


def to_float(op: Any, *arrays: Any) -> np.ndarray:
    *terms, bias = arrays
    return real(op, *terms) + (0 if bias is None else bias)


SCALES = {"": (-25.0, 25.0), **dict.fromkeys(("a_scale_tensor", "b_scale_tensor"), (0.25, 1.0))}

PRODUCTS = ("a_tensor", "b_tensor", "bias_tensor", "output_tensor")
ROWS = {"a_tensor": -2, "c_tensor": -2, "bias_tensor": -2, "output_tensor": -2}
BATCHES = (dict.fromkeys(PRODUCTS, 0), ROWS)

RECORDS = {
    "GEMM": Record(
        gemm,
        draw_gemm,
        attributes={"trans_a": "NONE", "trans_b": "NONE"},
        ulp=16,
        batch=({"": 0}, ROWS),
    ),
    "MATRIX_MULTIPLY_INTEGER": Record(integer, draw_integers, values=SCALES, batch=BATCHES),
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY": Record(
        quantized,
        draw_integers,
        values={**SCALES, "output_scale_tensor": (4, 40)},
        special=False,
        batch=BATCHES,
    ),
    "MATRIX_MULTIPLY_INTEGER_TO_FLOAT": Record(
        to_float, draw_integers, values=SCALES, ulp=8, batch=BATCHES
    ),
}

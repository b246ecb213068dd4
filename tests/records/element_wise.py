"""Records of the operators that map each element of one tensor by itself."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dml_jax import ScaleBias, TensorDesc
from dml_jax.operator import Operator
from records import LENGTHS, Fields, Record, Rng, Types, sizes, type_of


def cast(bound: float, dtype: np.dtype) -> float | int:
    """Return a bound as the pages cast it: toward zero, then into the range of the type."""
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return float(dtype.type(bound))
    limits = np.iinfo(dtype)
    if math.isinf(bound) or math.isnan(bound):
        return 0 if math.isnan(bound) else int(limits.max if bound > 0 else limits.min)
    return max(int(limits.min), min(int(limits.max), int(bound)))


def scaled(op: Any, x: np.ndarray) -> np.ndarray:
    """Return `x * scale + bias`; integers truncate and saturate."""
    map_ = getattr(op, "scale_bias", None)
    if map_ is None:
        return x
    if x.dtype.kind == "f":
        return x * map_.scale + map_.bias
    values = [cast(v * map_.scale + map_.bias, x.dtype) for v in x.ravel().tolist()]
    return np.array(values, x.dtype).reshape(x.shape)


def unary(function: Callable[..., np.ndarray], **parts: Any) -> Record:
    """Return the record of `function(g(x))`, or `function(g(x), op)` where it asks for two."""
    takes_op = function.__code__.co_argcount > 1 if hasattr(function, "__code__") else False

    def reference(op: Any, x: np.ndarray) -> np.ndarray:
        y = scaled(op, x)
        return function(y, op) if takes_op else function(y)

    return Record(reference, **parts)


erf = np.vectorize(math.erf, otypes=[float])
erfc = np.vectorize(math.erfc, otypes=[float])


def _bound(rng: Rng) -> float:
    return float(rng.choice([-np.inf, np.inf, 2.5, -2.5, 3e38, *rng.uniform(-300, 300, 4)]))


def clip(op: Any, x: np.ndarray) -> np.ndarray:
    """Compute exactly, in Python's own numbers."""
    low, high = (cast(bound, op.input_tensor.dtype) for bound in (op.min, op.max))
    values = scaled(op, x).ravel().tolist()
    clipped = [v if v != v else max(low, min(v, high)) for v in values]
    return np.array(clipped, x.dtype).reshape(x.shape)


def clip_grad(op: Any, x: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Return 0 where clipping leaves a bound, else the gradient; NaN passes it."""
    low, high = (cast(bound, op.input_tensor.dtype) for bound in (op.min, op.max))
    passed = [not (v <= low or v >= high) for v in x.ravel().tolist()]
    return np.where(np.reshape(passed, x.shape), gradient, np.zeros_like(gradient))


def draw_exact(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    """Draw tensors of one type, and bounds of that type."""
    shape, type_ = sizes(rng), types["input_tensor"]
    dtype = np.dtype(type_.lower())
    if dtype.kind == "f":
        bounds = {"min": _bound(rng), "max": _bound(rng)}
    else:
        limits = np.iinfo(dtype)
        low, high = sorted(int(b) for b in rng.integers(limits.min, limits.max, 2, dtype=dtype))
        bounds = {"min": low, "max": high}
    inputs = [f.name for f in op_class.fields if f.tensor and not f.tensor.output]
    tensors = dict.fromkeys(inputs, TensorDesc(type_, shape))
    return {**tensors, "min_max_data_type": type_, **bounds}


def power(x: np.ndarray, op: Any) -> np.ndarray:
    """Compute C's pow; of a single exponent NumPy makes other functions, such as sqrt."""
    return np.power(x, np.full_like(x, op.exponent))


def _exponent(rng: Rng) -> float:
    return float(rng.choice([-2, -0.5, 0, 0.5, 1, 2, 2.5, 3]))


def sign(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, 1, np.where(x < 0, -1, 0))


def threshold(x: np.ndarray, op: Any) -> np.ndarray:
    return np.maximum(x, cast(op.min, op.input_tensor.dtype))


def rounded(x: np.ndarray, op: Any) -> np.ndarray:
    """Round in float64, in which adding 0.5 to float32 and float16 is exact where it matters."""
    if op.rounding_mode.suffix == "HALVES_TO_NEAREST_EVEN":
        return np.rint(x)
    is_nearest = op.rounding_mode.suffix == "TOWARD_INFINITY"
    return np.copysign(np.floor(np.abs(x) + 0.5), x) if is_nearest else np.trunc(x)


def value_scale_2d(op: Any, x: np.ndarray) -> np.ndarray:
    return x * op.scale + np.reshape(op.bias, (1, -1, 1, 1))


def draw_channels(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    channels = int(rng.choice([1, 3]))
    tensor = TensorDesc(types["input_tensor"], [2, channels, *rng.integers(1, 5, 2).tolist()])
    bias = rng.integers(-4, 5, channels).astype(float).tolist()
    return {"input_tensor": tensor, "scale": float(rng.integers(-8, 9)) / 4, "bias": bias}


def _within(low: float, high: float, scale: float, bias: float, **attributes: Any) -> Any:
    """Return parts of a record whose elements, and what ScaleBias makes of them, are in a range."""
    map_ = ScaleBias(scale=scale, bias=bias)
    return {
        "values": {"": (low, high)},
        "attributes": {"scale_bias": lambda rng: map_ if rng.random() < 0.5 else None} | attributes,
    }


ABOVE = _within(0.25, 4, 1.5, 1)
INSIDE = _within(-0.75, 0.75, 0.5, 0.25)
BOUNDS = {"min": _bound, "max": _bound}
EXACT = {"min_max_data_type": type_of("input_tensor"), "min": 0}

RECORDS = {
    "ELEMENT_WISE_CLIP": Record(clip, attributes=BOUNDS),
    "ELEMENT_WISE_CLIP1": Record(clip, draw_exact, EXACT),
    "ELEMENT_WISE_CLIP_GRAD": Record(clip_grad, attributes=BOUNDS),
    "ELEMENT_WISE_CLIP_GRAD1": Record(clip_grad, draw_exact, EXACT),
    "ELEMENT_WISE_IDENTITY": unary(lambda x: x),
    "ELEMENT_WISE_ABS": unary(np.abs),
    "ELEMENT_WISE_ACOS": unary(np.arccos, **INSIDE),
    "ELEMENT_WISE_ASIN": unary(np.arcsin, **INSIDE),
    "ELEMENT_WISE_ATAN": unary(np.arctan),
    "ELEMENT_WISE_CEIL": unary(np.ceil),
    "ELEMENT_WISE_COS": unary(np.cos),
    "ELEMENT_WISE_EXP": unary(np.exp),
    "ELEMENT_WISE_FLOOR": unary(np.floor),
    "ELEMENT_WISE_LOG": unary(np.log, **ABOVE),
    "ELEMENT_WISE_CONSTANT_POW": unary(power, **_within(0.25, 4, 1.5, 1, exponent=_exponent)),
    "ELEMENT_WISE_RECIP": unary(lambda x: 1 / x, **ABOVE),
    "ELEMENT_WISE_SIN": unary(np.sin),
    "ELEMENT_WISE_SQRT": unary(np.sqrt, **ABOVE),
    "ELEMENT_WISE_TAN": unary(np.tan, **INSIDE),
    "ELEMENT_WISE_THRESHOLD": unary(threshold, attributes={"min": _bound}),
    "VALUE_SCALE_2D": Record(value_scale_2d, draw_channels, unbroken=LENGTHS),
    "ELEMENT_WISE_SIGN": unary(sign),
    "ELEMENT_WISE_NEGATE": unary(np.negative),
    "ELEMENT_WISE_ERF": unary(erf),
    "ELEMENT_WISE_SINH": unary(np.sinh),
    "ELEMENT_WISE_COSH": unary(np.cosh),
    "ELEMENT_WISE_TANH": unary(np.tanh),
    "ELEMENT_WISE_ASINH": unary(np.arcsinh),
    "ELEMENT_WISE_ACOSH": unary(np.arccosh, **_within(1.25, 4, 1.5, 1)),
    "ELEMENT_WISE_ATANH": unary(np.arctanh, **INSIDE),
    "ELEMENT_WISE_ROUND": unary(rounded, unbroken=("one_of",)),
}

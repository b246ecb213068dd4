"""PyTorch's functions for the operators whose elements depend on one place, or on numbers alone."""

import math
from collections.abc import Callable
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch.nn import functional  # pyright: ignore[reportMissingImports]


def plain(function: Callable[..., torch.Tensor]) -> Any:
    """Return a peer that asks the operator for nothing."""
    return lambda op, *xs: function(*xs)


def scaled(op: Any, x: torch.Tensor) -> torch.Tensor:
    map_ = getattr(op, "scale_bias", None)
    return x if map_ is None else x * map_.scale + map_.bias


def of_scaled(function: Callable[[Any, Any], Any]) -> Any:
    """Return a peer that gives a function the operator, and the scaled tensor."""
    return lambda op, x: function(op, scaled(op, x))


def _unary(name: str) -> Any:
    return lambda op, x: getattr(torch, name)(scaled(op, x))


def _clip(op: Any, x: torch.Tensor) -> torch.Tensor:
    return x.minimum(torch.full_like(x, op.max)).maximum(torch.full_like(x, op.min))


def _rounded(op: Any, x: torch.Tensor) -> torch.Tensor:
    return {
        "HALVES_TO_NEAREST_EVEN": torch.round,
        "TOWARD_ZERO": torch.trunc,
        "TOWARD_INFINITY": lambda x: x.sign() * (x.abs() + 0.5).floor(),
    }[op.rounding_mode.suffix](x)


def _shrink(op: Any, x: torch.Tensor) -> torch.Tensor:
    below = torch.where(x < -op.threshold, x + op.bias, 0)
    return torch.where(x > op.threshold, x - op.bias, below)


def _truth(function: Callable[..., torch.Tensor]) -> Any:
    """Return a peer of truth values, of integers that PyTorch has all functions for."""
    return lambda op, *xs: function(*(x.long() for x in xs))


def _bits(function: Callable[..., torch.Tensor]) -> Any:
    """Return a peer of the bits of elements, of each type."""
    kinds = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

    def peer(op: Any, *xs: torch.Tensor) -> torch.Tensor:
        return function(*(x.view(kinds[x.element_size()]) for x in xs)).view(xs[0].dtype)

    return peer


def _is_infinity(op: Any, x: torch.Tensor) -> torch.Tensor:
    modes = {"EITHER": torch.isinf, "POSITIVE": torch.isposinf, "NEGATIVE": torch.isneginf}
    return modes[op.infinity_mode.name](x)


def _sequence(op: Any) -> torch.Tensor:
    sizes = op.output_tensor.sizes
    k = torch.arange(math.prod(sizes), dtype=torch.float64)
    return (op.value_start + k * op.value_delta).reshape(sizes)


def _diagonal(op: Any) -> torch.Tensor:
    *_, height, width = op.output_tensor.sizes
    distances = torch.arange(width) - torch.arange(height)[:, None]
    return torch.where(distances.expand(op.output_tensor.sizes) == op.offset, op.value, 0.0)


def _band(op: Any, *xs: torch.Tensor) -> torch.Tensor:
    """Fill what `torch.tril` and `torch.triu` keep; outside of it where the range is inverted."""
    begin, end = sorted((op.diagonal_fill_begin, op.diagonal_fill_end))
    begin, end = max(begin, -100), min(end, 100)  # PyTorch's own bounds are the matrix's
    ones = torch.ones(op.output_tensor.sizes)
    within = torch.tril(torch.triu(ones, begin), end - 1) == 1
    if op.diagonal_fill_begin > op.diagonal_fill_end:
        within = ~within
    value = torch.tensor(op.value, dtype=torch.float64)
    return torch.where(within, value, xs[0] if xs else torch.zeros(()).double())


NAMES = """
    ABS ACOS ASIN ATAN CEIL COS EXP FLOOR LOG SIN SQRT TAN SIGN ERF SINH COSH TANH ASINH ACOSH ATANH
"""
PEERS: dict[str, Any] = {
    **{f"ELEMENT_WISE_{name}": _unary(name.lower()) for name in NAMES.split()},
    "ELEMENT_WISE_IDENTITY": _unary("clone"),
    "ELEMENT_WISE_RECIP": _unary("reciprocal"),
    "ELEMENT_WISE_NEGATE": _unary("neg"),
    "ELEMENT_WISE_CLIP": of_scaled(_clip),
    "ELEMENT_WISE_CLIP1": of_scaled(_clip),
    "ELEMENT_WISE_THRESHOLD": of_scaled(lambda op, x: x.maximum(torch.full_like(x, op.min))),
    "ELEMENT_WISE_CONSTANT_POW": of_scaled(lambda op, x: x.pow(op.exponent)),
    "ELEMENT_WISE_ROUND": _rounded,
    "VALUE_SCALE_2D": lambda op, x: x * op.scale + torch.tensor(op.bias)[None, :, None, None],
    "ACTIVATION_ELU": lambda op, x: functional.elu(x, op.alpha),
    "ACTIVATION_CELU": lambda op, x: functional.celu(x, op.alpha),
    "ACTIVATION_HARD_SIGMOID": lambda op, x: (op.alpha * x + op.beta).clamp(0, 1),
    "ACTIVATION_IDENTITY": plain(torch.clone),
    "ACTIVATION_LEAKY_RELU": lambda op, x: functional.leaky_relu(x, op.alpha),
    "ACTIVATION_LINEAR": lambda op, x: op.alpha * x + op.beta,
    "ACTIVATION_PARAMETERIZED_RELU": lambda op, x, slope: torch.where(x >= 0, x, slope * x),
    "ACTIVATION_PARAMETRIC_SOFTPLUS": lambda op, x: op.alpha * functional.softplus(op.beta * x),
    "ACTIVATION_RELU": plain(functional.relu),
    "ACTIVATION_SCALED_ELU": lambda op, x: op.gamma * functional.elu(x, op.alpha),
    "ACTIVATION_SCALED_TANH": lambda op, x: op.alpha * torch.tanh(op.beta * x),
    "ACTIVATION_SIGMOID": plain(torch.sigmoid),
    "ACTIVATION_SOFTPLUS": lambda op, x: functional.softplus(x, op.steepness, threshold=1e9),
    "ACTIVATION_SOFTSIGN": plain(functional.softsign),
    "ACTIVATION_TANH": plain(torch.tanh),
    "ACTIVATION_THRESHOLDED_RELU": lambda op, x: functional.threshold(x, op.alpha, 0),
    "ACTIVATION_SHRINK": _shrink,
    "ACTIVATION_GELU": plain(functional.gelu),
    "ACTIVATION_SWISH": lambda op, x: x * torch.sigmoid(op.sigmoid_input_scale * x),
    "ACTIVATION_HARD_SWISH": lambda op, x: x * (op.alpha * x + op.beta).clamp(0, 1),
    "ACTIVATION_RELU_GRAD": lambda op, x, dy: torch.ops.aten.threshold_backward(dy, x, 0),
    "CAST": lambda op, x: x.to(getattr(torch, op.output_tensor.dtype.name)),
    "ELEMENT_WISE_ADD": plain(torch.add),
    "ELEMENT_WISE_SUBTRACT": plain(torch.sub),
    "ELEMENT_WISE_MULTIPLY": plain(torch.mul),
    "ELEMENT_WISE_DIVIDE": plain(torch.div),
    "ELEMENT_WISE_MIN": plain(torch.minimum),
    "ELEMENT_WISE_MAX": plain(torch.maximum),
    "ELEMENT_WISE_MEAN": lambda op, a, b: torch.lerp(a, b, 0.5),
    "ELEMENT_WISE_POW": lambda op, x, e: torch.pow(scaled(op, x), e),
    "ELEMENT_WISE_DIFFERENCE_SQUARE": lambda op, a, b: torch.square(a - b),
    "ELEMENT_WISE_ATAN_YX": plain(torch.atan2),
    "ELEMENT_WISE_MODULUS_TRUNCATE": plain(torch.fmod),
    "ELEMENT_WISE_MODULUS_FLOOR": plain(torch.remainder),
    "ELEMENT_WISE_IF": lambda op, c, a, b: torch.where(c != 0, a, b),
    "ELEMENT_WISE_LOGICAL_AND": _truth(torch.logical_and),
    "ELEMENT_WISE_LOGICAL_OR": _truth(torch.logical_or),
    "ELEMENT_WISE_LOGICAL_XOR": _truth(torch.logical_xor),
    "ELEMENT_WISE_LOGICAL_NOT": _truth(torch.logical_not),
    "ELEMENT_WISE_LOGICAL_EQUALS": plain(torch.eq),
    "ELEMENT_WISE_LOGICAL_GREATER_THAN": plain(torch.gt),
    "ELEMENT_WISE_LOGICAL_LESS_THAN": plain(torch.lt),
    "ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL": plain(torch.ge),
    "ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL": plain(torch.le),
    "ELEMENT_WISE_IS_NAN": plain(torch.isnan),
    "ELEMENT_WISE_IS_INFINITY": _is_infinity,
    "ELEMENT_WISE_BIT_AND": _bits(torch.bitwise_and),
    "ELEMENT_WISE_BIT_OR": _bits(torch.bitwise_or),
    "ELEMENT_WISE_BIT_XOR": _bits(torch.bitwise_xor),
    "ELEMENT_WISE_BIT_NOT": _bits(torch.bitwise_not),
    "ELEMENT_WISE_BIT_SHIFT_LEFT": _bits(torch.bitwise_left_shift),
    "ELEMENT_WISE_BIT_SHIFT_RIGHT": _bits(torch.bitwise_right_shift),
    "FILL_VALUE_CONSTANT": lambda op: torch.full(op.output_tensor.sizes, op.value),
    "FILL_VALUE_SEQUENCE": _sequence,
    "DIAGONAL_MATRIX": _diagonal,
    "DIAGONAL_MATRIX1": _band,
}

_CORNERS = "PyTorch passes the gradient at the bounds too"
_ONE_SCALE = "PyTorch quantizes with one scale, or with one for each index of an axis"
_ONNX_RUNTIME = "compared with ONNX Runtime in test_quantization.py"
WITHOUT = {
    "ELEMENT_WISE_CLIP_GRAD": _CORNERS,
    "ELEMENT_WISE_CLIP_GRAD1": _CORNERS,
    "ELEMENT_WISE_ADD1": "PyTorch adds without an activation",
    "ADAM_OPTIMIZER": "torch.optim.Adam keeps its own state; test_arithmetic.py has 20 steps of it",
    "ELEMENT_WISE_BIT_COUNT": "PyTorch does not count bits",
    "ELEMENT_WISE_QUANTIZE_LINEAR": _ONE_SCALE,
    "ELEMENT_WISE_DEQUANTIZE_LINEAR": _ONE_SCALE,
    "DYNAMIC_QUANTIZE_LINEAR": _ONNX_RUNTIME,
    "QUANTIZE": _ONNX_RUNTIME,
    "DEQUANTIZE": _ONNX_RUNTIME,
    "ELEMENT_WISE_QUANTIZED_LINEAR_ADD": "PyTorch adds tensors of a quantized type only",
    "RANDOM_GENERATOR": "PyTorch's Philox has another layout; Random123's vectors are tests",
}

"""PyTorch's functions for the operators that map each element of one tensor by itself."""

import importlib
from collections.abc import Callable
from typing import Any


def torch() -> Any:
    """Return PyTorch, which is imported only where it is asked."""
    return importlib.import_module("torch")


def nn() -> Any:
    """Return PyTorch's functions of layers."""
    return torch().nn.functional


def _unary(name: str) -> Callable[[Any], Callable[[Any], Any]]:
    """Return what makes `torch.<name>(g(x))` from an operator."""

    def made(op: Any) -> Callable[[Any], Any]:
        map_ = getattr(op, "scale_bias", None)
        function = getattr(torch(), name)
        return function if map_ is None else lambda x: function(x * map_.scale + map_.bias)

    return made


def _rounded(op: Any) -> Callable[[Any], Any]:
    return {
        "HALVES_TO_NEAREST_EVEN": torch().round,
        "TOWARD_ZERO": torch().trunc,
        "TOWARD_INFINITY": lambda x: x.sign() * (x.abs() + 0.5).floor(),
    }[op.rounding_mode.suffix]


def _of_g(function: Callable[[Any, Any], Any]) -> Callable[[Any], Callable[[Any], Any]]:
    """Return what makes `function(op, g(x))` from an operator."""
    return lambda op: lambda x: function(op, _unary("clone")(op)(x))


NAMES = """
    ABS ACOS ASIN ATAN CEIL COS EXP FLOOR LOG SIN SQRT TAN SIGN ERF SINH COSH TANH ASINH ACOSH ATANH
"""

PEERS = {
    **{f"ELEMENT_WISE_{name}": _unary(name.lower()) for name in NAMES.split()},
    "ELEMENT_WISE_IDENTITY": _unary("clone"),
    "ELEMENT_WISE_RECIP": _unary("reciprocal"),
    "ELEMENT_WISE_NEGATE": _unary("neg"),
    "ELEMENT_WISE_CLIP": _of_g(lambda op, x: x.minimum(_full(x, op.max)).maximum(_full(x, op.min))),
    "ELEMENT_WISE_CLIP1": _of_g(
        lambda op, x: x.minimum(_full(x, op.max)).maximum(_full(x, op.min))
    ),
    "ELEMENT_WISE_THRESHOLD": _of_g(lambda op, x: x.maximum(_full(x, op.min))),
    "ELEMENT_WISE_CONSTANT_POW": _of_g(lambda op, x: x.pow(op.exponent)),
    "ELEMENT_WISE_ROUND": _rounded,
    "VALUE_SCALE_2D": lambda op: (
        lambda x: x * op.scale + torch().tensor(op.bias)[None, :, None, None]
    ),
}

WITHOUT = {
    "ELEMENT_WISE_CLIP_GRAD": "PyTorch passes the gradient at the bounds too",
    "ELEMENT_WISE_CLIP_GRAD1": "PyTorch passes the gradient at the bounds too",
}


def _full(x: Any, value: float) -> Any:
    return torch().full_like(x, value)

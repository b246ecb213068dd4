"""Operators that map each element of one tensor by itself, as a JAX user writes them."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax


def scaled(op: Any, x: Any) -> Any:
    """Return `x * scale + bias` where the operator has them."""
    map_ = getattr(op, "scale_bias", None)
    return x if map_ is None else x * map_.scale + map_.bias


def _unary(function: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda op, x: function(scaled(op, x))


def _round(op: Any, x: Any) -> Any:
    return {
        "HALVES_TO_NEAREST_EVEN": jnp.round,
        "TOWARD_ZERO": jnp.trunc,
        "TOWARD_INFINITY": lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    }[op.rounding_mode.suffix](x)


FUNCTIONS = {
    "IDENTITY": lambda x: x,
    "ABS": jnp.abs,
    "ACOS": jnp.arccos,
    "ASIN": jnp.arcsin,
    "ATAN": jnp.arctan,
    "CEIL": jnp.ceil,
    "COS": jnp.cos,
    "EXP": jnp.exp,
    "FLOOR": jnp.floor,
    "LOG": jnp.log,
    "RECIP": jnp.reciprocal,
    "SIN": jnp.sin,
    "SQRT": jnp.sqrt,
    "TAN": jnp.tan,
    "SIGN": jnp.sign,
    "NEGATE": jnp.negative,
    "ERF": lax.erf,
    "SINH": jnp.sinh,
    "COSH": jnp.cosh,
    "TANH": jnp.tanh,
    "ASINH": jnp.arcsinh,
    "ACOSH": jnp.arccosh,
    "ATANH": jnp.arctanh,
}

EXPRESSIONS = {
    **{f"ELEMENT_WISE_{name}": _unary(function) for name, function in FUNCTIONS.items()},
    "ELEMENT_WISE_ROUND": _round,
    "ELEMENT_WISE_THRESHOLD": lambda op, x: jnp.maximum(scaled(op, x), op.min),
    "ELEMENT_WISE_CONSTANT_POW": lambda op, x: scaled(op, x) ** op.exponent,
    "VALUE_SCALE_2D": lambda op, x: x * op.scale + jnp.array(op.bias, x.dtype)[None, :, None, None],
}

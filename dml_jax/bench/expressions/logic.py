"""What a user of jax.numpy would write for comparisons, and for truth values and bits."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax


def _in_type(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the expression of a function whose results become the output's type."""
    return lambda op, *xs: function(*xs).astype(op.output_tensor.dtype)


def _bits(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the expression of a function of the bits of any type."""
    return lambda op, *xs: function(*map(_as_unsigned, xs)).view(xs[0].dtype)


def _as_unsigned(x: Any) -> Any:
    return x.view(f"uint{8 * x.dtype.itemsize}")


def _is_infinity(op: Any, x: Any) -> Any:
    mode = {"EITHER": jnp.isinf, "POSITIVE": jnp.isposinf, "NEGATIVE": jnp.isneginf}
    return mode[op.infinity_mode.name](x).astype(op.output_tensor.dtype)


EXPRESSIONS = {
    "ELEMENT_WISE_LOGICAL_AND": _in_type(jnp.logical_and),
    "ELEMENT_WISE_LOGICAL_OR": _in_type(jnp.logical_or),
    "ELEMENT_WISE_LOGICAL_XOR": _in_type(jnp.logical_xor),
    "ELEMENT_WISE_LOGICAL_NOT": _in_type(jnp.logical_not),
    "ELEMENT_WISE_LOGICAL_EQUALS": _in_type(jnp.equal),
    "ELEMENT_WISE_LOGICAL_GREATER_THAN": _in_type(jnp.greater),
    "ELEMENT_WISE_LOGICAL_LESS_THAN": _in_type(jnp.less),
    "ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL": _in_type(jnp.greater_equal),
    "ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL": _in_type(jnp.less_equal),
    "ELEMENT_WISE_IS_NAN": _in_type(jnp.isnan),
    "ELEMENT_WISE_IS_INFINITY": _is_infinity,
    "ELEMENT_WISE_BIT_AND": _bits(jnp.bitwise_and),
    "ELEMENT_WISE_BIT_OR": _bits(jnp.bitwise_or),
    "ELEMENT_WISE_BIT_XOR": _bits(jnp.bitwise_xor),
    "ELEMENT_WISE_BIT_NOT": _bits(jnp.bitwise_not),
    "ELEMENT_WISE_BIT_COUNT": _in_type(lambda x: lax.population_count(_as_unsigned(x))),
    "ELEMENT_WISE_BIT_SHIFT_LEFT": lambda op, x, count: jnp.left_shift(x, count),
    "ELEMENT_WISE_BIT_SHIFT_RIGHT": lambda op, x, count: jnp.right_shift(x, count),
}

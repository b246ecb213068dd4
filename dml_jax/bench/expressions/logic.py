"""What a user of jax.numpy would write for comparisons, and for truth values and bits."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax


def _typed(function: Callable[..., Any]) -> Callable[[Any], Callable[..., Any]]:
    """Return the expression of a function whose results become the output's type."""
    return lambda op: lambda *xs: function(*xs).astype(op.output_tensor.dtype)


def _bits(function: Callable[..., Any]) -> Callable[[Any], Callable[..., Any]]:
    """Return the expression of a function of the bits of any type."""

    def expression(op: Any) -> Callable[..., Any]:
        unsigned = f"uint{8 * op.output_tensor.dtype.itemsize}"
        return lambda *xs: function(*(x.view(unsigned) for x in xs)).view(xs[0].dtype)

    return expression


def _is_infinity(op: Any) -> Callable[..., Any]:
    mode = {"EITHER": jnp.isinf, "POSITIVE": jnp.isposinf, "NEGATIVE": jnp.isneginf}
    return _typed(mode[op.infinity_mode.name])(op)


EXPRESSIONS: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "ELEMENT_WISE_LOGICAL_AND": _typed(jnp.logical_and),
    "ELEMENT_WISE_LOGICAL_OR": _typed(jnp.logical_or),
    "ELEMENT_WISE_LOGICAL_XOR": _typed(jnp.logical_xor),
    "ELEMENT_WISE_LOGICAL_NOT": _typed(jnp.logical_not),
    "ELEMENT_WISE_LOGICAL_EQUALS": _typed(jnp.equal),
    "ELEMENT_WISE_LOGICAL_GREATER_THAN": _typed(jnp.greater),
    "ELEMENT_WISE_LOGICAL_LESS_THAN": _typed(jnp.less),
    "ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL": _typed(jnp.greater_equal),
    "ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL": _typed(jnp.less_equal),
    "ELEMENT_WISE_IS_NAN": _typed(jnp.isnan),
    "ELEMENT_WISE_IS_INFINITY": _is_infinity,
    "ELEMENT_WISE_BIT_AND": _bits(jnp.bitwise_and),
    "ELEMENT_WISE_BIT_OR": _bits(jnp.bitwise_or),
    "ELEMENT_WISE_BIT_XOR": _bits(jnp.bitwise_xor),
    "ELEMENT_WISE_BIT_NOT": _bits(jnp.bitwise_not),
    "ELEMENT_WISE_BIT_COUNT": lambda op: (
        lambda x: lax.population_count(x.view(f"uint{8 * x.dtype.itemsize}")).astype(
            op.output_tensor.dtype
        )
    ),
    "ELEMENT_WISE_BIT_SHIFT_LEFT": lambda op: jnp.left_shift,
    "ELEMENT_WISE_BIT_SHIFT_RIGHT": lambda op: jnp.right_shift,
}

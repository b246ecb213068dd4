"""What a user of jax.numpy would write for the operators of several tensors."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax


def _adam(op: Any) -> Callable[..., Any]:
    def update(x: Any, m: Any, v: Any, g: Any, step: Any) -> tuple[Any, Any, Any]:
        m = op.beta1 * m + (1 - op.beta1) * g
        v = op.beta2 * v + (1 - op.beta2) * g * g
        step = step.astype(jnp.float32)
        alpha = jnp.sqrt(1 - op.beta2**step) / (1 - op.beta1**step)
        rate = (op.learning_rate * alpha).astype(x.dtype)
        return x - rate * m / (jnp.sqrt(v) + op.epsilon), m, v

    return update


def _pow(op: Any) -> Callable[..., Any]:
    def power(x: Any, e: Any) -> Any:
        y = x if op.scale_bias is None else x * op.scale_bias.scale + op.scale_bias.bias
        return jnp.power(y, e).astype(x.dtype)

    return power


EXPRESSIONS: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "ELEMENT_WISE_ADD": lambda op: jnp.add,
    "ELEMENT_WISE_ADD1": lambda op: lambda a, b: (op.fused_activation or (lambda x: x))(a + b),
    "ELEMENT_WISE_SUBTRACT": lambda op: jnp.subtract,
    "ELEMENT_WISE_MULTIPLY": lambda op: jnp.multiply,
    "ELEMENT_WISE_DIVIDE": lambda op: lax.div,
    "ELEMENT_WISE_MIN": lambda op: jnp.minimum,
    "ELEMENT_WISE_MAX": lambda op: jnp.maximum,
    "ELEMENT_WISE_MEAN": lambda op: lambda a, b: ((a + b) / 2).astype(a.dtype),
    "ELEMENT_WISE_POW": _pow,
    "ELEMENT_WISE_DIFFERENCE_SQUARE": lambda op: lambda a, b: (a - b) ** 2,
    "ELEMENT_WISE_ATAN_YX": lambda op: jnp.arctan2,
    "ELEMENT_WISE_MODULUS_TRUNCATE": lambda op: jnp.fmod,
    "ELEMENT_WISE_MODULUS_FLOOR": lambda op: jnp.mod,
    "ELEMENT_WISE_IF": lambda op: lambda c, a, b: jnp.where(c, a, b),
    "ADAM_OPTIMIZER": _adam,
}

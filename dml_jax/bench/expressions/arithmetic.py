"""What a user of jax.numpy would write for the operators of several tensors."""

from typing import Any

import jax.numpy as jnp
from jax import lax

from dml_jax.bench.expressions.element_wise import scaled


def _adam(op: Any, x: Any, m: Any, v: Any, g: Any, step: Any) -> tuple[Any, Any, Any]:
    m = op.beta1 * m + (1 - op.beta1) * g
    v = op.beta2 * v + (1 - op.beta2) * g * g
    step = step.astype(jnp.float32)
    alpha = jnp.sqrt(1 - op.beta2**step) / (1 - op.beta1**step)
    rate = (op.learning_rate * alpha).astype(x.dtype)
    return x - rate * m / (jnp.sqrt(v) + op.epsilon), m, v


EXPRESSIONS = {
    "ELEMENT_WISE_ADD": lambda op, a, b: jnp.add(a, b),
    "ELEMENT_WISE_ADD1": lambda op, a, b: (op.fused_activation or (lambda x: x))(a + b),
    "ELEMENT_WISE_SUBTRACT": lambda op, a, b: jnp.subtract(a, b),
    "ELEMENT_WISE_MULTIPLY": lambda op, a, b: jnp.multiply(a, b),
    "ELEMENT_WISE_DIVIDE": lambda op, a, b: lax.div(a, b),
    "ELEMENT_WISE_MIN": lambda op, a, b: jnp.minimum(a, b),
    "ELEMENT_WISE_MAX": lambda op, a, b: jnp.maximum(a, b),
    "ELEMENT_WISE_MEAN": lambda op, a, b: ((a + b) / 2).astype(a.dtype),
    "ELEMENT_WISE_POW": lambda op, x, e: jnp.power(scaled(op, x), e).astype(x.dtype),
    "ELEMENT_WISE_DIFFERENCE_SQUARE": lambda op, a, b: (a - b) ** 2,
    "ELEMENT_WISE_ATAN_YX": lambda op, a, b: jnp.arctan2(a, b),
    "ELEMENT_WISE_MODULUS_TRUNCATE": lambda op, a, b: jnp.fmod(a, b),
    "ELEMENT_WISE_MODULUS_FLOOR": lambda op, a, b: jnp.mod(a, b),
    "ELEMENT_WISE_IF": lambda op, c, a, b: jnp.where(c, a, b),
    "ADAM_OPTIMIZER": _adam,
}

"""Operators of elements as a JAX user writes them: functions, activations, logic and bits."""

import pkgutil
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from dml_jax import facts

_FAMILIES = ("element_wise", "arithmetic", "logic", "activation")


def _scaled(op: Any, x: Any) -> Any:
    """Return `x * scale + bias` where the operator has them."""
    map_ = getattr(op, "scale_bias", None)
    return x if map_ is None else x * map_.scale + map_.bias


def _of_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the expression of a function whose results become the output's type."""
    return lambda op, x, *xs: function(_scaled(op, x), *xs).astype(op.outputs[0].dtype)


def _round(op: Any, x: Any) -> Any:
    return {
        "HALVES_TO_NEAREST_EVEN": jnp.round,
        "TOWARD_ZERO": jnp.trunc,
        "TOWARD_INFINITY": lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    }[op.rounding_mode.suffix](x)


def _adam(op: Any, x: Any, m: Any, v: Any, g: Any, step: Any) -> tuple[Any, Any, Any]:
    m = op.beta1 * m + (1 - op.beta1) * g
    v = op.beta2 * v + (1 - op.beta2) * g * g
    step = step.astype(jnp.float32)
    alpha = jnp.sqrt(1 - op.beta2**step) / (1 - op.beta1**step)
    rate = (op.learning_rate * alpha).astype(x.dtype)
    return x - rate * m / (jnp.sqrt(v) + op.epsilon), m, v


def _bits(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the expression of a function of the bits of any type."""
    return lambda op, *xs: function(*map(_as_unsigned, xs)).view(xs[0].dtype)


def _as_unsigned(x: Any) -> Any:
    return x.view(f"uint{8 * x.dtype.itemsize}")


def _is_infinity(op: Any, x: Any) -> Any:
    mode = {"EITHER": jnp.isinf, "POSITIVE": jnp.isposinf, "NEGATIVE": jnp.isneginf}
    return mode[op.infinity_mode.name](x).astype(op.output_tensor.dtype)


EXPRESSIONS: dict[str, Callable[..., Any]] = {
    "ELEMENT_WISE_IDENTITY": _scaled,  # jax.numpy.copy would copy what a program has in memory
    "ELEMENT_WISE_ERF": _of_function(lax.erf),
    "ELEMENT_WISE_ROUND": _round,
    "ELEMENT_WISE_THRESHOLD": lambda op, x: jnp.maximum(_scaled(op, x), op.min),
    "ELEMENT_WISE_CONSTANT_POW": lambda op, x: _scaled(op, x) ** op.exponent,
    "VALUE_SCALE_2D": lambda op, x: x * op.scale + jnp.array(op.bias, x.dtype)[None, :, None, None],
    "ELEMENT_WISE_ADD1": lambda op, a, b: (op.fused_activation or (lambda x: x))(a + b),
    "ELEMENT_WISE_DIVIDE": lambda op, a, b: lax.div(a, b),
    "ELEMENT_WISE_MEAN": lambda op, a, b: ((a + b) / 2).astype(a.dtype),
    "ELEMENT_WISE_DIFFERENCE_SQUARE": lambda op, a, b: (a - b) ** 2,
    "ADAM_OPTIMIZER": _adam,
    "ACTIVATION_ELU": lambda op, x: jax.nn.elu(x, op.alpha),
    "ACTIVATION_CELU": lambda op, x: jax.nn.celu(x, op.alpha),
    "ACTIVATION_HARD_SIGMOID": lambda op, x: jnp.clip(op.alpha * x + op.beta, 0, 1),
    "ACTIVATION_LEAKY_RELU": lambda op, x: jax.nn.leaky_relu(x, op.alpha),
    "ACTIVATION_LINEAR": lambda op, x: op.alpha * x + op.beta,
    "ACTIVATION_PARAMETERIZED_RELU": lambda op, x, slope: jnp.where(x >= 0, x, slope * x),
    "ACTIVATION_PARAMETRIC_SOFTPLUS": lambda op, x: op.alpha * jax.nn.softplus(op.beta * x),
    "ACTIVATION_SCALED_ELU": lambda op, x: op.gamma * jax.nn.elu(x, op.alpha),
    "ACTIVATION_SCALED_TANH": lambda op, x: op.alpha * jnp.tanh(op.beta * x),
    "ACTIVATION_SOFTPLUS": lambda op, x: jax.nn.softplus(op.steepness * x) / op.steepness,
    "ACTIVATION_THRESHOLDED_RELU": lambda op, x: jnp.where(x > op.alpha, x, 0),
    "ACTIVATION_SHRINK": lambda op, x: jnp.where(
        x > op.threshold, x - op.bias, jnp.where(x < -op.threshold, x + op.bias, 0)
    ),
    "ACTIVATION_GELU": lambda op, x: jax.nn.gelu(x, approximate=False),
    "ACTIVATION_SWISH": lambda op, x: x * jax.nn.sigmoid(op.sigmoid_input_scale * x),
    "ACTIVATION_HARD_SWISH": lambda op, x: x * jnp.clip(op.alpha * x + op.beta, 0, 1),
    "ACTIVATION_RELU_GRAD": lambda op, x, gradient: jnp.where(x > 0, gradient, 0),
    "ELEMENT_WISE_IS_INFINITY": _is_infinity,
    "ELEMENT_WISE_BIT_AND": _bits(jnp.bitwise_and),
    "ELEMENT_WISE_BIT_OR": _bits(jnp.bitwise_or),
    "ELEMENT_WISE_BIT_XOR": _bits(jnp.bitwise_xor),
    "ELEMENT_WISE_BIT_NOT": _bits(jnp.bitwise_not),
    "ELEMENT_WISE_BIT_COUNT": _of_function(lambda x: lax.population_count(_as_unsigned(x))),
}
# An operator that has none of these is the function by which JAX knows it.
for _name, _elsewhere in facts.names().items():
    if _name not in EXPRESSIONS and facts.catalogue()[_name]["family"] in _FAMILIES:
        for _path in _elsewhere.get("jax", ()):
            EXPRESSIONS[_name] = _of_function(pkgutil.resolve_name(_path))

"""Activations, as a JAX user writes them."""

import jax
import jax.numpy as jnp

EXPRESSIONS = {
    "ACTIVATION_ELU": lambda op, x: jax.nn.elu(x, op.alpha),
    "ACTIVATION_CELU": lambda op, x: jax.nn.celu(x, op.alpha),
    "ACTIVATION_HARD_SIGMOID": lambda op, x: jnp.clip(op.alpha * x + op.beta, 0, 1),
    "ACTIVATION_IDENTITY": lambda op, x: x,
    "ACTIVATION_LEAKY_RELU": lambda op, x: jax.nn.leaky_relu(x, op.alpha),
    "ACTIVATION_LINEAR": lambda op, x: op.alpha * x + op.beta,
    "ACTIVATION_PARAMETERIZED_RELU": lambda op, x, slope: jnp.where(x >= 0, x, slope * x),
    "ACTIVATION_PARAMETRIC_SOFTPLUS": lambda op, x: op.alpha * jax.nn.softplus(op.beta * x),
    "ACTIVATION_RELU": lambda op, x: jax.nn.relu(x),
    "ACTIVATION_SCALED_ELU": lambda op, x: op.gamma * jax.nn.elu(x, op.alpha),
    "ACTIVATION_SCALED_TANH": lambda op, x: op.alpha * jnp.tanh(op.beta * x),
    "ACTIVATION_SIGMOID": lambda op, x: jax.nn.sigmoid(x),
    "ACTIVATION_SOFTPLUS": lambda op, x: jax.nn.softplus(op.steepness * x) / op.steepness,
    "ACTIVATION_SOFTSIGN": lambda op, x: jax.nn.soft_sign(x),
    "ACTIVATION_TANH": lambda op, x: jnp.tanh(x),
    "ACTIVATION_THRESHOLDED_RELU": lambda op, x: jnp.where(x > op.alpha, x, 0),
    "ACTIVATION_SHRINK": lambda op, x: jnp.where(
        x > op.threshold, x - op.bias, jnp.where(x < -op.threshold, x + op.bias, 0)
    ),
    "ACTIVATION_GELU": lambda op, x: jax.nn.gelu(x, approximate=False),
    "ACTIVATION_SWISH": lambda op, x: x * jax.nn.sigmoid(op.sigmoid_input_scale * x),
    "ACTIVATION_HARD_SWISH": lambda op, x: x * jnp.clip(op.alpha * x + op.beta, 0, 1),
    "ACTIVATION_RELU_GRAD": lambda op, x, gradient: jnp.where(x > 0, gradient, 0),
}

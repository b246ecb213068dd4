"""Optimizers, as ONNX's preview of training has them."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import fallback

DOMAIN = "ai.onnx.preview.training"


def _each(arrays: Sequence[jax.Array], kinds: int, function: Callable[..., Any]) -> Any:
    """Return the results of a function of a tensor, its gradient and its states, kind by kind."""
    count = len(arrays) // kinds
    made = [function(*arrays[k::count]) for k in range(count)]
    return [result for results in zip(*made, strict=True) for result in results]


def _regular(node: Node, x: jax.Array, gradient: jax.Array) -> jax.Array:
    return node.attribute("norm_coefficient", 0.0) * x + gradient


@fallback("Adagrad", domain=DOMAIN)
def _adagrad(node: Node, rate: jax.Array, turn: jax.Array, *arrays: jax.Array) -> Any:
    decay = node.attribute("decay_factor")
    step = rate.reshape(()) / (1 + turn.reshape(()).astype(rate.dtype) * decay)

    def update(x: jax.Array, gradient: jax.Array, total: jax.Array) -> Any:
        own = _regular(node, x, gradient)
        total = total + own * own
        return x - step * own / (jnp.sqrt(total) + node.attribute("epsilon")), total

    return _each(arrays, 3, update)


@fallback("Adam", domain=DOMAIN)
def _adam(node: Node, rate: jax.Array, turn: jax.Array, *arrays: jax.Array) -> Any:
    alpha, beta = node.attribute("alpha"), node.attribute("beta")
    time = turn.reshape(()).astype(rate.dtype)
    later = jnp.maximum(time, 1)
    adjusted = jnp.sqrt(1 - jnp.power(beta, later)) / (1 - jnp.power(alpha, later))
    step = rate.reshape(()) * jnp.where(time > 0, adjusted, 1)

    def update(x: jax.Array, gradient: jax.Array, mean: jax.Array, square: jax.Array) -> Any:
        own = _regular(node, x, gradient)
        mean = alpha * mean + (1 - alpha) * own
        square = beta * square + (1 - beta) * own * own
        x = x - step * mean / (jnp.sqrt(square) + node.attribute("epsilon"))
        return (1 - node.attribute("norm_coefficient_post")) * x, mean, square

    return _each(arrays, 4, update)


@fallback("Momentum", domain=DOMAIN)
def _momentum(node: Node, rate: jax.Array, turn: jax.Array, *arrays: jax.Array) -> Any:
    alpha, step = node.attribute("alpha"), rate.reshape(())
    beta = jnp.where(turn.reshape(()) > 0, node.attribute("beta"), 1).astype(rate.dtype)

    def update(x: jax.Array, gradient: jax.Array, velocity: jax.Array) -> Any:
        own = _regular(node, x, gradient)
        velocity = alpha * velocity + beta * own
        is_ahead = node.attribute("mode") == "nesterov"
        return x - step * (own + alpha * velocity if is_ahead else velocity), velocity

    return _each(arrays, 3, update)

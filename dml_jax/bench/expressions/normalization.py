"""Normalizations and softmax as a user of JAX writes them."""

from typing import Any

import jax
import jax.numpy as jnp

from dml_jax.bench.expressions.matrix import activate


def _axes(x: Any) -> tuple[int, ...]:
    return tuple(d for d, n in enumerate(x.shape) if n == 1)


def _batch(op: Any, x: Any, mean: Any, variance: Any, scale: Any, bias: Any) -> Any:
    return scale * (x - mean) / jnp.sqrt(variance + op.epsilon) + bias


def _gradient(op: Any, x: Any, dy: Any, mean: Any, variance: Any, scale: Any) -> Any:
    def of(x: Any, scale: Any, bias: Any) -> Any:
        return _batch(op, x, mean, variance, scale, bias)

    return jax.vjp(of, x, scale, jnp.zeros_like(scale))[1](dy)


def _training(op: Any, x: Any, scale: Any, bias: Any, add: Any = 0) -> Any:
    mean, variance = (f(x, _axes(scale), keepdims=True) for f in (jnp.mean, jnp.var))
    return activate(op, _batch(op, x, mean, variance, scale, bias) + add), mean, variance


def _training_gradient(op: Any, x: Any, dy: Any, mean: Any, variance: Any, scale: Any) -> Any:
    axes, inverse = _axes(mean), 1 / jnp.sqrt(variance + op.epsilon)
    centred = x - x.mean(axes, keepdims=True)
    along = (dy * centred).mean(axes, keepdims=True) * inverse**2
    of_input = scale * inverse * (dy - dy.mean(axes, keepdims=True) - centred * along)
    of_scale = (dy * (x - mean) * inverse).sum(axes, keepdims=True)
    return of_input, of_scale, dy.sum(axes, keepdims=True)


def _mean_variance(op: Any, x: Any, scale: Any = 1, bias: Any = 0) -> Any:
    uses_mean, uses_variance = op.uses
    x = x - x.mean(op.axes, keepdims=True) if uses_mean else x
    if uses_variance:
        x = x / jnp.sqrt(jnp.square(x).mean(op.axes, keepdims=True) + op.epsilon)
    return activate(op, scale * x + bias)


def _local_response(op: Any, x: Any) -> Any:
    before, behind = (op.local_size - 1) // 2, op.local_size // 2
    window = [op.local_size if d in op.window[0] else 1 for d in range(4)]
    padding = [(before, behind) if d in op.window[0] else (0, 0) for d in range(4)]
    zero = x.dtype.type(0)
    squares = jax.lax.reduce_window(x * x, zero, jax.lax.add, window, (1,) * 4, padding)
    return x / (op.bias + op.alpha / op.local_size * squares) ** op.beta


def _lp(op: Any, x: Any) -> Any:
    norm = jnp.linalg.norm(x, op.p, op.axis, keepdims=True)
    return x / jnp.maximum(norm, op.epsilon)


def _hardmax(x: jax.Array, axes: tuple[int, ...]) -> jax.Array:
    axes = tuple(sorted(axis % x.ndim for axis in axes))
    last = jnp.moveaxis(x, axes, range(x.ndim - len(axes), x.ndim))
    rows = last.reshape(*last.shape[: x.ndim - len(axes)], -1)
    tops = jax.nn.one_hot(rows.argmax(-1), rows.shape[-1], dtype=x.dtype)
    return jnp.moveaxis(tops.reshape(last.shape), range(x.ndim - len(axes), x.ndim), axes)


EXPRESSIONS = {
    "BATCH_NORMALIZATION": lambda op, *xs: activate(op, _batch(op, *xs)),
    "BATCH_NORMALIZATION_GRAD": _gradient,
    "BATCH_NORMALIZATION_TRAINING": _training,
    "BATCH_NORMALIZATION_TRAINING_GRAD": _training_gradient,
    "MEAN_VARIANCE_NORMALIZATION": _mean_variance,
    "MEAN_VARIANCE_NORMALIZATION1": _mean_variance,
    "MEAN_VARIANCE_NORMALIZATION2": _mean_variance,
    "LOCAL_RESPONSE_NORMALIZATION": _local_response,
    "LOCAL_RESPONSE_NORMALIZATION_GRAD": lambda op, x, dy: jax.vjp(
        lambda x: _local_response(op, x), x
    )[1](dy)[0],
    "LP_NORMALIZATION": _lp,
    "ACTIVATION_SOFTMAX": lambda op, x: jax.nn.softmax(x),
    "ACTIVATION_SOFTMAX1": lambda op, x: jax.nn.softmax(x, op.axes),
    "ACTIVATION_LOG_SOFTMAX": lambda op, x: jax.nn.log_softmax(x),
    "ACTIVATION_LOG_SOFTMAX1": lambda op, x: jax.nn.log_softmax(x, op.axes),
    "ACTIVATION_HARDMAX": lambda op, x: _hardmax(x, (-1,)),
    "ACTIVATION_HARDMAX1": lambda op, x: _hardmax(x, op.axes),
}

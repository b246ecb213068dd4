"""What a user of JAX would write for softmax."""

import jax
import jax.numpy as jnp


def _hardmax(x: jax.Array, axes: tuple[int, ...]) -> jax.Array:
    axes = tuple(sorted(axis % x.ndim for axis in axes))
    last = jnp.moveaxis(x, axes, range(x.ndim - len(axes), x.ndim))
    rows = last.reshape(*last.shape[: x.ndim - len(axes)], -1)
    tops = jax.nn.one_hot(rows.argmax(-1), rows.shape[-1], dtype=x.dtype)
    return jnp.moveaxis(tops.reshape(last.shape), range(x.ndim - len(axes), x.ndim), axes)


EXPRESSIONS = {
    "ACTIVATION_SOFTMAX": lambda op, x: jax.nn.softmax(x),
    "ACTIVATION_SOFTMAX1": lambda op, x: jax.nn.softmax(x, op.axes),
    "ACTIVATION_LOG_SOFTMAX": lambda op, x: jax.nn.log_softmax(x),
    "ACTIVATION_LOG_SOFTMAX1": lambda op, x: jax.nn.log_softmax(x, op.axes),
    "ACTIVATION_HARDMAX": lambda op, x: _hardmax(x, (-1,)),
    "ACTIVATION_HARDMAX1": lambda op, x: _hardmax(x, op.axes),
}

"""What a user of JAX would write for constants, sequences, diagonals and random bits."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def _sequence(op: Any) -> Any:
    sizes, dtype = op.output_tensor.sizes, op.output_tensor.dtype
    start, delta = dtype.type(op.value_start), dtype.type(op.value_delta)
    return (start + jnp.arange(math.prod(sizes), dtype=dtype) * delta).reshape(sizes)


def _diagonal(op: Any) -> jax.Array:
    *batch, height, width = op.output_tensor.sizes
    dtype, value = op.output_tensor.dtype, op.value
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        value = int(max(limits.min, min(limits.max, value)))
    eye = jnp.eye(height, width, op.offset, dtype=bool)
    return jnp.where(jnp.broadcast_to(eye, (*batch, height, width)), jnp.array(value, dtype), 0)


def _band(op: Any, x: jax.Array | None = None) -> jax.Array:
    sizes, dtype = op.output_tensor.sizes, op.output_tensor.dtype
    begin, end = sorted((op.diagonal_fill_begin, op.diagonal_fill_end))
    within = jnp.tril(jnp.triu(jnp.ones(sizes, bool), begin), end - 1)
    within = ~within if op.diagonal_fill_begin > op.diagonal_fill_end else within
    return jnp.where(within, dtype.type(op.value), jnp.zeros(sizes, dtype) if x is None else x)


def _random(op: Any, state: jax.Array) -> Any:
    """Draw as many bits by JAX's own generator, which are other bits."""
    key = jax.random.wrap_key_data(state.reshape(-1)[4:])
    bits = jax.random.bits(key, op.output_tensor.sizes, jnp.uint32)
    return bits if op.output_state_tensor is None else (bits, state)


EXPRESSIONS = {
    "FILL_VALUE_CONSTANT": lambda op: jnp.full(
        op.output_tensor.sizes, op.value, op.output_tensor.dtype
    ),
    "FILL_VALUE_SEQUENCE": _sequence,
    "DIAGONAL_MATRIX": _diagonal,
    "DIAGONAL_MATRIX1": _band,
    "RANDOM_GENERATOR": _random,
}

"""What a user of JAX would write for constants, sequences, diagonals and random bits."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def _sequence(op: Any) -> Callable[[], Any]:
    sizes, dtype = op.output_tensor.sizes, op.output_tensor.dtype
    start, delta = dtype.type(op.value_start), dtype.type(op.value_delta)
    return lambda: (start + jnp.arange(math.prod(sizes), dtype=dtype) * delta).reshape(sizes)


def _diagonal(op: Any) -> Callable[[], Any]:
    *batch, height, width = op.output_tensor.sizes
    dtype, value = op.output_tensor.dtype, op.value
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        value = int(max(limits.min, min(limits.max, value)))

    def make() -> jax.Array:
        eye = jnp.eye(height, width, op.offset, dtype=bool)
        return jnp.where(jnp.broadcast_to(eye, (*batch, height, width)), jnp.array(value, dtype), 0)

    return make


def _band(op: Any) -> Callable[..., Any]:
    sizes, dtype = op.output_tensor.sizes, op.output_tensor.dtype
    begin, end = sorted((op.diagonal_fill_begin, op.diagonal_fill_end))

    def write(x: jax.Array | None = None) -> jax.Array:
        ones = jnp.ones(sizes, bool)
        within = jnp.tril(jnp.triu(ones, begin), end - 1)
        within = ~within if op.diagonal_fill_begin > op.diagonal_fill_end else within
        kept = jnp.zeros(sizes, dtype) if x is None else x
        return jnp.where(within, dtype.type(op.value), kept)

    return write


def _random(op: Any) -> Callable[[jax.Array], Any]:
    """Draw as many bits by JAX's own generator, which are other bits."""
    sizes = op.output_tensor.sizes

    def draw(state: jax.Array) -> Any:
        key = jax.random.wrap_key_data(state.reshape(-1)[4:])
        bits = jax.random.bits(key, sizes, jnp.uint32)
        return bits if op.output_state_tensor is None else (bits, state)

    return draw


EXPRESSIONS: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "FILL_VALUE_CONSTANT": lambda op: (
        lambda: jnp.full(op.output_tensor.sizes, op.value, op.output_tensor.dtype)
    ),
    "FILL_VALUE_SEQUENCE": _sequence,
    "DIAGONAL_MATRIX": _diagonal,
    "DIAGONAL_MATRIX1": _band,
    "RANDOM_GENERATOR": _random,
}

"""Recurrent networks of one pass, and attention without masks, as a user of JAX writes them."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


def _scan(cell: Callable[..., Any], count: int) -> Callable[..., Any]:

    def expression(op: Any, x: jax.Array, weight: jax.Array, recurrence: jax.Array) -> Any:
        w, r = weight[0, 0], recurrence[0, 0]
        first = (jnp.zeros((x.shape[2], r.shape[1]), x.dtype),) * count

        def step(states: Any, part: jax.Array) -> Any:
            states = cell(part, r, *states)
            return states, states[0]

        last, outputs = lax.scan(step, first, x[0] @ w.T)
        return outputs[:, None], *(state[None, None] for state in last)

    return expression


def _lstm(part: Any, r: Any, h: Any, c: Any) -> Any:
    i, o, f, new = jnp.split(part + h @ r.T, 4, -1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(new)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def _gru(part: Any, r: Any, h: Any) -> Any:
    k = h.shape[-1]
    z, reset = jnp.split(jax.nn.sigmoid(part[:, : 2 * k] + h @ r[: 2 * k].T), 2, -1)
    new = jnp.tanh(part[:, 2 * k :] + (reset * h) @ r[2 * k :].T)
    return ((1 - z) * new + z * h,)


def _attention(op: Any, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    counts = (op.query_head_count, op.key_value_head_count, op.key_value_head_count)
    q, k, v = (
        x.reshape(*x.shape[:2], count, -1) for x, count in zip((q, k, v), counts, strict=True)
    )
    out = jax.nn.dot_product_attention(q, k, v, scale=op.scale)
    return out.reshape(*out.shape[:2], -1)


EXPRESSIONS = {
    "RNN": _scan(lambda part, r, h: (jnp.tanh(part + h @ r.T),), 1),
    "LSTM": _scan(_lstm, 2),
    "GRU": _scan(_gru, 1),
    **dict.fromkeys(("MULTIHEAD_ATTENTION", "MULTIHEAD_ATTENTION1"), _attention),
}

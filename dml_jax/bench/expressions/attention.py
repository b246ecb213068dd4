"""What a user of JAX would write for attention without masks."""

from typing import Any

import jax


def _attention(op: Any, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    counts = (op.query_head_count, op.key_value_head_count, op.key_value_head_count)
    q, k, v = (
        x.reshape(*x.shape[:2], count, -1) for x, count in zip((q, k, v), counts, strict=True)
    )
    out = jax.nn.dot_product_attention(q, k, v, scale=op.scale)
    return out.reshape(*out.shape[:2], -1)


EXPRESSIONS = dict.fromkeys(("MULTIHEAD_ATTENTION", "MULTIHEAD_ATTENTION1"), _attention)

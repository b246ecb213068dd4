"""Running sums and products, and top-k, as a user of JAX writes them."""

from typing import Any

import jax.numpy as jnp
from jax import lax


def _cumulative(function: Any, exclusive: str, identity: int) -> Any:
    def expression(op: Any, x: Any) -> Any:
        def _reverse(x: Any) -> Any:
            return jnp.flip(x, op.axis) if op.axis_direction.name == "DECREASING" else x

        x = _reverse(x)
        if getattr(op, exclusive):
            first = jnp.full_like(lax.slice_in_dim(x, 0, 1, axis=op.axis), identity)
            x = jnp.concatenate([first, lax.slice_in_dim(x, 0, -1, axis=op.axis)], op.axis)
        return _reverse(function(x, op.axis, dtype=x.dtype))

    return expression


def _top_k(op: Any, x: Any) -> Any:
    direction = getattr(op, "axis_direction", None)
    is_increasing = direction is not None and direction.name == "INCREASING"
    lines = jnp.moveaxis(x, op.axis, -1)
    values, index = lax.top_k(-lines if is_increasing else lines, op.k)
    values = -values if is_increasing else values
    index = index.astype(op.output_index_tensor.dtype)
    return jnp.moveaxis(values, -1, op.axis), jnp.moveaxis(index, -1, op.axis)


EXPRESSIONS = {
    "CUMULATIVE_SUMMATION": _cumulative(jnp.cumsum, "has_exclusive_sum", 0),
    "CUMULATIVE_PRODUCT": _cumulative(jnp.cumprod, "has_exclusive_product", 1),
    "TOP_K": _top_k,
    "TOP_K1": _top_k,
}

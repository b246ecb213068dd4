"""The mask of an attention: what a query may see, and what is added to its scores.

The letters of sizes are those of `attention`.
"""

import functools
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp

from dml_jax.lowering.dtypes import wide

HIDING = -10000.0
"""A number that usually hides a key where it is added to a score."""


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["biases", "penalized", "replaced"],
    meta_fields=["fill"],
)
@dataclass(frozen=True)
class Mask:
    """Arrays [B, G*N, S, T], or 1 in some dimensions, by which scores change.

    They are applied in the order of the attributes. A tree of JAX, so that it is an argument of
    functions by platform.

    Attributes:
        fill: the number that hides a key.
        biases: are added to the scores. One that is at most `fill` or `HIDING` hides the key.
        penalized: booleans; where one is false, `fill` is added.
        replaced: booleans; where one is false, `fill` takes the place of the score.
    """

    fill: float
    biases: list[jax.Array] = field(default_factory=list)
    penalized: list[jax.Array] = field(default_factory=list)
    replaced: list[jax.Array] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Return whether each query sees each key, and nothing is added."""
        return not (self.biases or self.penalized or self.replaced)

    @property
    def threshold(self) -> float:
        """Return the largest bias that hides a key."""
        return max(self.fill, HIDING)

    def with_seen(self, seen: jax.Array) -> "Mask":
        """Return the mask with which keys are also hidden where `seen` is false."""
        return replace(self, replaced=[*self.replaced, seen])

    def left_open(self, low: Any) -> list[jax.Array]:
        """Return where the arrays that are added hide no key; `low` is `threshold` as an array."""
        return [*self.penalized, *(~(wide(bias) <= low) for bias in self.biases)]

    def add(self, scores: jax.Array) -> jax.Array:
        """Return scores with all that is added to them."""
        for bias in self.biases:
            scores = scores + wide(bias)
        for is_open in self.penalized:
            scores = jnp.where(is_open, scores, scores + scores.dtype.type(self.fill))
        return scores

    def fill_hidden(self, scores: jax.Array) -> jax.Array:
        """Return scores with the number that takes the place of hidden ones."""
        for is_open in self.replaced:
            scores = jnp.where(is_open, scores, scores.dtype.type(self.fill))
        return scores

    def keys_seen(self, low: Any, heads: int) -> jax.Array | None:
        """Return which keys any query may see, [B, 1 or N, T, 1]; None where each one may be seen.

        `heads` is N, and `low` as for `left_open`. NaN in other keys, and in their values, must not
        reach a result: a product with a weight of 0 would be NaN as well.
        """
        masks = [*self.replaced, *self.left_open(low)]
        if not masks:
            return None
        seen = jnp.any(functools.reduce(jnp.logical_and, masks), 2)
        if seen.shape[1] > 1:
            seen = jnp.any(seen.reshape(seen.shape[0], heads, -1, seen.shape[2]), 2)
        return seen[..., None]


def causal(starts: jax.Array, queries: int, new: int, keys: int) -> jax.Array:
    """Return which of `keys` each query may see, [B, 1, `queries`, `keys`].

    Query i of batch b stands at position `starts[b] + i`, and sees the keys up to there, of which
    `new` are new.
    """
    key = jnp.arange(keys, dtype=jnp.int32)[None, None, None]
    query = jnp.arange(queries, dtype=jnp.int32)[None, None, :, None]
    return key <= starts[:, None, None, None] + jnp.minimum(query, new - 1)


def between(starts: jax.Array | None, ends: jax.Array, keys: int) -> jax.Array:
    """Return which of `keys` lie in [start, end) of their batch, [B, 1, 1, `keys`]."""
    key = jnp.arange(keys, dtype=jnp.int32)[None, None, None]
    is_below = key < ends[:, None, None, None]
    return is_below if starts is None else is_below & (key >= starts[:, None, None, None])


def zero_unseen(x: jax.Array, seen: jax.Array | None) -> jax.Array:
    """Return keys or values [B, N, T, ...] with 0 for NaN and infinity where none is `seen`."""
    return x if seen is None else jnp.where(seen | jnp.isfinite(x), x, x.dtype.type(0))

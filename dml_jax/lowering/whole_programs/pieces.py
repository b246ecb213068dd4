"""Pieces of arrays along an axis, as columns of matrices."""

import math
from collections.abc import Sequence
from typing import Any

import jax


def rows_of(x: jax.Array, axis: int) -> jax.Array:
    """[before the axis, elements from it on]."""
    return x.reshape(math.prod(x.shape[:axis]), -1)


def row_lengths(xs: Sequence[Any], axis: int) -> list[int]:
    """The elements of such a row of each, of arrays or their types."""
    return [math.prod(x.shape[axis:]) for x in xs]


def shapes_of(x: jax.Array, sizes: Sequence[int], axis: int) -> list[tuple[int, ...]]:
    """Of the pieces of `sizes` along an axis."""
    return [(*x.shape[:axis], size, *x.shape[axis + 1 :]) for size in sizes]


def joined_shape(xs: Sequence[Any], axis: int) -> tuple[int, ...]:
    """Of the concatenation along `axis`, of arrays or their types."""
    return (*xs[0].shape[:axis], sum(x.shape[axis] for x in xs), *xs[0].shape[axis + 1 :])

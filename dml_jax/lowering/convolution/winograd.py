"""Convolutions of 3 by 3 windows by tiles of 2 by 2 results, which take fewer products."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from dml_jax.lowering.platform_forms import stored
from dml_jax.lowering.precision import precision
from dml_jax.lowering.windows import Window

Parts = Sequence[Any]


def by_tiles(x: jax.Array, w: jax.Array, window: Window) -> jax.Array:
    """Return the correlation of {N, H, W, C} with {3, 3, C, P}, in steps of 1.

    Tiles of 2 by 2 results take 16 products for each pair of channels instead of 36: F(2x2, 3x3) of
    Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, arXiv:1509.09308. Infinity
    and NaN reach all results of a tile.
    """
    counts = window.counts(x.shape[1:-1])
    tiles = [-(-n // 2) for n in counts]
    whole = window.counted(x.shape[1:-1], [2 * n for n in tiles])
    padded, places = stored(whole.padded(x, 0, 1)), window._replace(strides=(2, 2))
    elements = [[places.at(padded, (i, j), tiles, 1) for j in range(4)] for i in range(4)]
    pairs = zip(_both_ways(_differences, elements), _both_ways(_spread, w), strict=True)
    products = [
        [matrix_products(a.reshape(-1, a.shape[-1]), b) for a, b in zip(*rows, strict=True)]
        for rows in pairs
    ]
    shape = (x.shape[0], *tiles, w.shape[-1])
    rows = [[y.reshape(shape) for y in row] for row in _both_ways(_results, products)]
    y = jnp.stack([jnp.stack(row, 3) for row in rows], 2)
    y = y.reshape(shape[0], 2 * tiles[0], 2 * tiles[1], shape[-1])
    return y[:, : counts[0], : counts[1]]


def _both_ways(combine: Callable[[Parts], Parts], parts: Any) -> list[Parts]:
    """Return what `combine` makes of each row, and then of each column."""
    columns = zip(*(combine(row) for row in parts), strict=True)
    return [*zip(*(combine(column) for column in columns), strict=True)]


def _differences(x: Parts) -> Parts:
    return x[0] - x[2], x[1] + x[2], x[2] - x[1], x[1] - x[3]


def _spread(w: Parts) -> Parts:
    ends, middle = (w[0] + w[2]) * 0.5, w[1] * 0.5
    return w[0], ends + middle, ends - middle, w[2]


def _results(x: Parts) -> Parts:
    return x[0] + x[1] + x[2], x[1] - x[2] - x[3]


def last_two(a: jax.Array) -> Any:
    """Return the dimensions of a product of matrices in the last two axes of `a` and another."""
    batch = tuple(range(a.ndim - 2))
    return ((a.ndim - 1,), (a.ndim - 2,)), (batch, batch)


def matrix_products(a: jax.Array, b: jax.Array) -> jax.Array:
    """Return the products of the matrices in the last two axes of `a` and `b`."""
    return lax.dot_general(a, b, last_two(a), precision=precision())

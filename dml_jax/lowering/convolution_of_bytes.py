"""Convolutions of 8-bit integers on a CPU, as products of INT8 matrices, which XLA is fast at."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.matrix import as_int8, product
from dml_jax.lowering.windows import Window, unfold


def by_bytes(
    x: jax.Array,
    w: jax.Array,
    x_zero: jax.Array,
    w_zero: jax.Array,
    *,
    window: Window,
    groups: int,
) -> jax.Array:
    """Return `convolution.integer_convolution`, whose arguments these are.

    The product is of the integers themselves. What their zero points add is taken off afterwards:
    it follows from the sums of the filters and of the windows. A row of ones below the filters
    makes the sums of the windows. XLA's own sum on a CPU would first store its elements as INT32.
    """
    terms, batch = math.prod(w.shape[1:]), x.shape[0]
    zero, zeros = as_int8(x_zero), as_int8(w_zero)
    padded = window.padded(as_int8(x), zero.reshape(()))
    columns = unfold(padded, window.unpadded).reshape(batch, groups, terms, -1)
    filters = as_int8(w).reshape(groups, -1, terms)
    rows = lax.concatenate([filters, jnp.ones((groups, 1, terms), np.int8)], 1)
    both = _products(jnp.broadcast_to(rows, (batch, *rows.shape)), columns)
    total, of_windows = both[:, :, :-1], both[:, :, -1:]
    # Beside the ones stands a column of zeros: XLA would turn a product with ones into its own sum.
    ends = jnp.broadcast_to(np.array([1, 0], np.int8), (groups, terms, 2))
    of_filters = _products(filters, ends)[None, :, :, :1]
    zero = zero.astype(np.int32).reshape(())
    each = jnp.broadcast_to(zeros.astype(np.int32).reshape(-1), (w.shape[0],))
    offsets = each.reshape(1, groups, -1, 1)
    total = total - zero * of_filters - offsets * (of_windows - np.int32(terms) * zero)
    return total.reshape(batch, w.shape[0], *window.counts(x.shape[2:]))


def _products(a: jax.Array, b: jax.Array) -> jax.Array:
    return product(a, b, np.int32, (False, False))

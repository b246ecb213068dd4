"""Convolutions of integers of 8 bits: exact sums, which wrap, and their quantization."""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering import quantization
from dml_jax.lowering.axes import on_axis
from dml_jax.lowering.convolution import cost
from dml_jax.lowering.convolution.cost import Form, shape_of
from dml_jax.lowering.convolution.forms import by_shifts
from dml_jax.lowering.convolution.winograd import last_two
from dml_jax.lowering.dtypes import EXACT_PRODUCTS
from dml_jax.lowering.matrix import as_int8, product_of_int8
from dml_jax.lowering.platform_forms import by_platform
from dml_jax.lowering.windows import Window, unfold


def integer_convolution(
    x: jax.Array,
    x_zero: jax.Array | None,
    w: jax.Array,
    w_zero: jax.Array | None,
    window: Window,
    groups: int,
) -> jax.Array:
    """Return the sum of `(x - x_zero) * (w - w_zero)` as INT32, which wraps.

    `x` is {N, groups * C, spatial...} and `w` {groups * P, C, spatial...}, of 8 bits; padding has
    the difference 0. A zero is one element, of `w` also one for each output channel; None is 0.
    """
    zeros = [
        np.zeros(1, array.dtype) if zero is None else zero
        for array, zero in ((x, x_zero), (w, w_zero))
    ]

    def by_differences(x: jax.Array, w: jax.Array, x_zero: Any, w_zero: Any) -> jax.Array:
        form = by_shifts if own is Form.SHIFTS else by_exact_products
        return form(_difference(x, x_zero, 1), _difference(w, w_zero, 0), window, groups)

    own = cost.form(shape_of(x, w, window, groups), "cpu")
    by_bytes = functools.partial(by_int8_product, window=window, groups=groups)
    tuned = by_bytes if own is Form.INT8_PRODUCT else None
    return by_platform(by_differences, cpu=tuned, whole_arrays=False)(x, w, *zeros)


def by_exact_products(x: jax.Array, w: jax.Array, window: Window, groups: int) -> jax.Array:
    """Return the correlation of INT32 of 9 bits, as products of BFLOAT16 matrices, which hold them.

    Each product has so few terms that its FLOAT32 sum is exact. (A GPU has no convolution of
    integers, and that of a CPU is slow.)
    """
    terms = math.prod(w.shape[1:])
    parts = -(-terms // EXACT_PRODUCTS)
    rest = parts * EXACT_PRODUCTS - terms if parts > 1 else 0

    def apart(matrix: jax.Array, axis: int) -> jax.Array:
        edges = [(0, rest if d == axis else 0, 0) for d in range(matrix.ndim)]
        padded = lax.pad(matrix.astype(jnp.bfloat16), jnp.bfloat16(0), edges)
        length = padded.shape[axis] // parts
        return padded.reshape(*padded.shape[:axis], parts, length, *padded.shape[axis + 1 :])

    columns = unfold(x, window)
    columns = apart(columns.reshape(x.shape[0], groups, terms, columns.shape[2]), 2)
    rows = jnp.swapaxes(apart(w.reshape(groups, -1, terms), 2), 1, 2)  # {groups, parts, P, terms}
    rows = jnp.broadcast_to(rows, (x.shape[0], *rows.shape))
    sums = lax.dot_general(rows, columns, last_two(rows), preferred_element_type=np.float32)
    sums = sums.astype(np.int32).sum(2, dtype=np.int32)
    return sums.reshape(x.shape[0], w.shape[0], *window.counts(x.shape[2:]))


def _difference(x: jax.Array, zero: jax.Array, axis: int) -> jax.Array:
    """Return `x - zero` as INT32; several zeros go along an axis."""
    zero = on_axis(lax.convert_element_type(zero, np.int32), axis, x.ndim)
    return lax.convert_element_type(x, np.int32) - zero


def quantize_sums(
    total: jax.Array,
    bias: jax.Array | None,
    x_scale: jax.Array,
    w_scale: jax.Array,
    scale: jax.Array,
    zero: jax.Array | None,
    dtype: Any,
) -> jax.Array:
    """Return `(total + bias) * x_scale * w_scale`, quantized by `scale` and `zero`.

    `total` is what `integer_convolution` returns, `bias` INT32 {1, channels, 1...}. The other
    arrays have one element, `w_scale` also one for each channel; None is 0.
    """
    total = total if bias is None else total + bias
    factor = on_axis(x_scale, 1, total.ndim) * on_axis(w_scale, 1, total.ndim)
    zero = None if zero is None else on_axis(zero, 1, total.ndim)
    real = lax.convert_element_type(total, np.float32) * factor
    return quantization.quantize(real, on_axis(scale, 1, total.ndim), zero, dtype)


def by_int8_product(
    x: jax.Array,
    w: jax.Array,
    x_zero: jax.Array,
    w_zero: jax.Array,
    *,
    window: Window,
    groups: int,
) -> jax.Array:
    """Return `integer_convolution`, whose arguments these are, on a CPU.

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
    both = product_of_int8(jnp.broadcast_to(rows, (batch, *rows.shape)), columns)
    total, of_windows = both[:, :, :-1], both[:, :, -1:]
    # Beside the ones stands a column of zeros: XLA would turn a product with ones into its own sum.
    ends = jnp.broadcast_to(np.array([1, 0], np.int8), (groups, terms, 2))
    of_filters = product_of_int8(filters, ends)[None, :, :, :1]
    zero = zero.astype(np.int32).reshape(())
    each = jnp.broadcast_to(zeros.astype(np.int32).reshape(-1), (w.shape[0],))
    offsets = each.reshape(1, groups, -1, 1)
    total = total - zero * of_filters - offsets * (of_windows - np.int32(terms) * zero)
    return total.reshape(batch, w.shape[0], *window.counts(x.shape[2:]))

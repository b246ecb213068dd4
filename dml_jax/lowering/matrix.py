"""Products of matrices: of floats in full precision, of integers exactly."""

import functools
import os
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering import one_row_products
from dml_jax.lowering.axes import on_axis
from dml_jax.lowering.dtypes import EXACT_PRODUCTS, is_float, wide, wide_type
from dml_jax.lowering.platform_forms import by_platform
from dml_jax.lowering.precision import chosen_name, operands, precision, stored_operands
from dml_jax.lowering.scale_bias import saturate, wide_real

TILE = 16  # rows, columns and terms of which an NVIDIA GPU multiplies INT8 at once

Activation = Callable[[jax.Array], jax.Array]


def product(a: jax.Array, b: jax.Array, dtype: Any, transposed: tuple[bool, bool]) -> jax.Array:
    """Return the products of the matrices in the last two axes of `a` and `b`, summed in `dtype`.

    `transposed` says whether the matrices of `a`, and of `b`, are transposed first.
    """
    batch = tuple(range(a.ndim - 2))
    summed = (
        (a.ndim - 2 if transposed[0] else a.ndim - 1,),
        (b.ndim - 1 if transposed[1] else b.ndim - 2,),
    )
    dimensions = summed, (batch, batch)

    def multiplied(a: jax.Array, b: jax.Array) -> jax.Array:
        return lax.dot_general(a, b, dimensions, precision(), preferred_element_type=dtype)

    if chosen_name() != "bfloat16" or a.dtype != np.float32:
        return multiplied(a, b)
    return by_platform(
        lambda a, b: multiplied(*operands(a, b)),
        cuda=lambda a, b: multiplied(*stored_operands(a, b)),
        whole_arrays=False,
    )(a, b)


def gemm(
    a: jax.Array,
    b: jax.Array,
    c: jax.Array | None,
    transposed: tuple[bool, bool],
    alpha: float,
    beta: float,
    activation: Activation | None,
) -> jax.Array:
    """Return `activation(alpha * a @ b + beta * c)` in the type of `a`, rounded once.

    Integers wrap, where `alpha` and `beta` are 1; else the sum is truncated and saturated.
    """
    return _finish(_of_rows(a, b, transposed), a, c, alpha, beta, activation)


def quantized_gemm(
    a: jax.Array,
    packed: jax.Array,
    scale: jax.Array,
    zero: jax.Array | None,
    c: jax.Array | None,
    bits: int,
    alpha: float,
    beta: float,
    activation: Activation | None,
) -> jax.Array:
    """Return what `gemm` returns of a matrix [N, K] of integers of few bits, which is transposed.

    The matrix is given as to `one_row_products.dequantized`.
    """
    rows = a.reshape(-1, a.shape[-1])

    def plain(x: jax.Array, packed: jax.Array, scale: jax.Array, *zero: jax.Array) -> jax.Array:
        b = one_row_products.dequantized(packed, scale, zero[0] if zero else None, bits)
        if x.shape[0] > 1:
            return product(x, b, np.float32, (False, True))
        return product(b, x, np.float32, (False, True)).T  # a CPU is faster so

    arrays = (rows, packed, scale) if zero is None else (rows, packed, scale, zero)
    is_one = rows.shape[0] == 1 and packed.shape[0] * rows.shape[1] >= one_row_products.LARGE
    of_one_row = functools.partial(one_row_products.of_one_row, bits=bits)
    y = by_platform(plain, cuda=of_one_row if is_one else None, whole_arrays=True)(*arrays)
    return _finish(y.reshape(*a.shape[:-1], -1), a, c, alpha, beta, activation)


def _of_rows(a: jax.Array, b: jax.Array, transposed: tuple[bool, bool]) -> jax.Array:
    """Return the product of the matrices, of one row by another form on a GPU."""
    plain = functools.partial(product, dtype=wide_type(a.dtype), transposed=transposed)
    if not one_row_products.is_one(a, b, transposed):
        return plain(a, b)
    reduced = functools.partial(one_row_products.reduced, is_turned=transposed[1])
    return by_platform(plain, cuda=reduced, whole_arrays=True)(a, b)


def _finish(
    y: jax.Array,
    a: jax.Array,
    c: jax.Array | None,
    alpha: float,
    beta: float,
    activation: Activation | None,
) -> jax.Array:
    """Return what `gemm` makes of the product `y`, in the type of `a`."""
    if not is_float(a):
        whole = y if c is None else y + c
        if alpha == 1 and (c is None or beta == 1):
            return whole
        y = y.astype(wide_real(a.dtype))
    y = y * y.dtype.type(alpha)
    if c is not None:
        y = y + wide(c).astype(y.dtype) * y.dtype.type(beta)
    if not is_float(a):
        return saturate(y, a.dtype)
    return lax.convert_element_type(y if activation is None else activation(y), a.dtype)


def integer_product(
    a: jax.Array, a_zero: jax.Array | None, b: jax.Array, b_zero: jax.Array | None, dtype: Any
) -> jax.Array:
    """Return `(a - a_zero) @ (b - b_zero)` as INT32 or FLOAT32, of integers of at most 32 bits.

    A zero is one integer, or one for each row of `a` or column of `b`; None is 0. Sums of 8-bit
    integers are INT32, of wider ones INT64; they wrap.
    """
    of_a = functools.partial(on_axis, axis=-2, rank=a.ndim)
    of_b = functools.partial(on_axis, axis=-1, rank=b.ndim)
    if a.dtype.itemsize == 1:
        total = _product_of_bytes(a, _zero(a_zero, a, of_a), b, _zero(b_zero, b, of_b))
        return lax.convert_element_type(total, dtype)
    with jax.enable_x64(True):
        left, right = lax.convert_element_type(a, np.int64), lax.convert_element_type(b, np.int64)
        if a_zero is not None:
            left = left - of_a(lax.convert_element_type(a_zero, np.int64))
        if b_zero is not None:
            right = right - of_b(lax.convert_element_type(b_zero, np.int64))
        whole = functools.partial(product, dtype=np.int64, transposed=(False, False))
        total = by_platform(whole, tpu=_product_by_elements, whole_arrays=False)(left, right)
        return lax.convert_element_type(total, dtype)


def _product_by_elements(a: jax.Array, b: jax.Array) -> jax.Array:
    """Return `a @ b` of INT64, of which a TPU has no product of matrices."""
    return jnp.sum(a[..., None] * b[..., None, :, :], -2)


def as_int8(x: jax.Array) -> jax.Array:
    """Return INT8 as it is, and UINT8 as INT8, with 128 taken off each element."""
    return x if x.dtype == np.int8 else lax.bitcast_convert_type(x ^ np.uint8(128), np.int8)


def _zero(zero: jax.Array | None, x: jax.Array, spread: Activation) -> Any:
    """Return what stands for 0 in `as_int8(x)`, as INT32, where `zero` stands for 0 in `x`.

    None is 0.
    """
    if zero is None:
        return None if x.dtype == np.int8 else np.int32(-128)
    return lax.convert_element_type(spread(as_int8(zero)), np.int32)


def _product_of_bytes(a: jax.Array, a_zero: Any, b: jax.Array, b_zero: Any) -> jax.Array:
    """Return `(as_int8(a) - a_zero) @ (as_int8(b) - b_zero)`, which wraps.

    The terms of the zero points are added afterwards, because XLA multiplies INT8 faster than
    differences, which take more bits.
    """
    left, right = as_int8(a), as_int8(b)
    if a_zero is None and b_zero is None:
        return _whole_product(left, right)
    a_zero, b_zero = (np.int32(0) if zero is None else zero for zero in (a_zero, b_zero))
    rows = jnp.sum(left, -1, np.int32, keepdims=True)
    whole, columns = by_platform(_and_sums, cpu=_with_sums, whole_arrays=True)(left, right)
    return whole - (a_zero * (columns - np.int32(a.shape[-1]) * b_zero) + rows * b_zero)


def _with_sums(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return `a @ b` of INT8 as INT32, and the sums of the columns of `b`.

    They are one product: XLA's sum on a CPU would first store all elements as INT32.
    """
    ones = jnp.ones((*a.shape[:-2], 1, a.shape[-1]), np.int8)
    both = product_of_int8(lax.concatenate([a, ones], a.ndim - 2), b)
    return both[..., :-1, :], both[..., -1:, :]


def _and_sums(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return what `_with_sums` does. Devices that share a batch send each other nothing."""
    return _whole_product(a, b), jnp.sum(b, -2, np.int32, keepdims=True)


def _whole_product(a: jax.Array, b: jax.Array) -> jax.Array:
    """Return `a @ b` of INT8 as INT32, in the form of the platform."""
    return by_platform(
        _product_in_parts,
        cpu=product_of_int8,
        cuda=_product_of_whole_tiles,
        whole_arrays=False,
    )(a, b)


def product_of_int8(a: jax.Array, b: jax.Array) -> jax.Array:
    """Return `a @ b` of INT8 as INT32."""
    return product(a, b, np.int32, (False, False))


def _product_of_whole_tiles(a: jax.Array, b: jax.Array) -> jax.Array:
    """Return `a @ b` of INT8 as INT32, with zeros up to multiples of `TILE`.

    XLA's product on an NVIDIA GPU is wrong for some odd sizes. It is of FLOAT32, and slower, where
    a product of INT8 would be wrong for all (`_counts_twice`).
    """
    if _counts_twice(os.environ.get("XLA_FLAGS", "")):
        return _product_in_parts(a, b)
    (rows, terms), columns = a.shape[-2:], b.shape[-1]
    left = _fill_tiles(a, -rows % TILE, -terms % TILE)
    right = _fill_tiles(b, -terms % TILE, -columns % TILE)
    return product_of_int8(left, right)[..., :rows, :columns]


def _counts_twice(flags: str) -> bool:
    """Return whether XLA, by its flags, takes its first kernel of a product without a trial.

    That of INT8 has 16 terms at once, whatever the size: a tensor core takes 32, each term twice.
    """
    is_untried = re.search(r"--xla_gpu_autotune_level=0\b", flags)
    return bool(is_untried) and not re.search(r"--xla_gpu_enable_triton_gemm=(false|0)\b", flags)


def _fill_tiles(x: jax.Array, rows: int, columns: int) -> jax.Array:
    """Return matrices with rows and columns of zeros behind."""
    edges = [*[(0, 0, 0)] * (x.ndim - 2), (0, rows, 0), (0, columns, 0)]
    return lax.pad(x, x.dtype.type(0), edges)


def _product_in_parts(a: jax.Array, b: jax.Array) -> jax.Array:
    """Return `a @ b` of INT8 as INT32: exact FLOAT32 products of parts, added as INT32."""
    terms = a.shape[-1]
    parts = -(-terms // EXACT_PRODUCTS)
    rest = parts * EXACT_PRODUCTS - terms if parts > 1 else 0
    left = jnp.pad(lax.convert_element_type(a, np.float32), [(0, 0)] * (a.ndim - 1) + [(0, rest)])
    right = jnp.pad(
        lax.convert_element_type(b, np.float32), [(0, 0)] * (b.ndim - 2) + [(0, rest), (0, 0)]
    )
    left = jnp.moveaxis(left.reshape(*left.shape[:-1], parts, -1), -2, 0)
    right = jnp.moveaxis(right.reshape(*b.shape[:-2], parts, -1, b.shape[-1]), -3, 0)
    batch = tuple(range(a.ndim - 1))
    axes = (((a.ndim,), (a.ndim - 1,)), (batch, batch))
    sums = lax.dot_general(left, right, axes, precision=lax.Precision.HIGHEST)
    return jnp.sum(lax.convert_element_type(sums, np.int32), 0, np.int32)


def real_product(
    a: jax.Array,
    a_scale: jax.Array,
    a_zero: jax.Array | None,
    b: jax.Array,
    b_scale: jax.Array,
    b_zero: jax.Array | None,
) -> jax.Array:
    """Return the FLOAT32 product of the real numbers that integers stand for."""
    steps = integer_product(a, a_zero, b, b_zero, jnp.float32)
    return steps * (on_axis(wide(a_scale), -2, a.ndim) * on_axis(wide(b_scale), -1, b.ndim))

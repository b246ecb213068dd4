"""Products of one row with a large matrix, which take a GPU as long as it reads the matrix.

The row is multiplied with each row, or column, of the matrix and summed up, in one loop over the
matrix: XLA's product of matrices reads it at a fraction of the speed. A matrix of integers of few
bits is never stored as floats.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dml_jax.lowering.dtypes import wide
from dml_jax.lowering.rounding import as_float

LARGE = 1 << 18
"""The elements of a matrix from which on the forms of this module are used."""


def is_one(a: jax.Array, b: jax.Array, transposed: tuple[bool, bool]) -> bool:
    """Return whether `a` has one row, and FLOAT16 or bfloat16 `b` is large."""
    is_row = a.shape[-2] == 1 and not transposed[0] and b.size == b.shape[-1] * b.shape[-2]
    return is_row and a.dtype.itemsize == 2 and b.size >= LARGE


def reduced(a: jax.Array, b: jax.Array, is_turned: bool) -> jax.Array:
    """Return the product of one row [.., 1, K] and a matrix [.., K, N] in FLOAT32.

    The matrix is [.., N, K] where it `is_turned`.
    """
    x, w = wide(a), wide(b)
    if is_turned:
        return jnp.sum(x * w, -1)[..., None, :]
    return jnp.sum(jnp.swapaxes(x, -1, -2) * w, -2, keepdims=True)


def unpacked(packed: jax.Array, bits: int) -> jax.Array:
    """Return the integers of `bits` that unsigned ones hold, the low bits first, as UINT8."""
    width = packed.dtype.itemsize * 8
    shifts = np.arange(0, width, bits, dtype=packed.dtype).reshape(*(1,) * packed.ndim, -1)
    parts = (packed[..., None] >> shifts) & packed.dtype.type((1 << bits) - 1)
    return parts.reshape(*packed.shape[:-1], -1).astype(np.uint8)


def dequantized(
    packed: jax.Array, scale: jax.Array, zero: jax.Array | None, bits: int
) -> jax.Array:
    """Return the matrix [N, K] that integers of `bits` stand for, in the type of the scale.

    `packed` has the integers, [N, blocks, n], as for `unpacked`; `scale` is of each block, [N,
    blocks], and so is `zero`, the integers that stand for 0; None is 0.
    """
    real = (unpacked(packed, bits).astype(np.float32) - _start(zero)) * wide(scale)[..., None]
    return as_float(real.reshape(packed.shape[0], -1), scale.dtype)


def _start(zero: jax.Array | None) -> Any:
    """Return what stands for 0 in each block as FLOAT32, [N, blocks, 1], or one number."""
    if zero is None:
        return np.float32(0)
    return zero[..., None].astype(np.uint8).astype(np.float32)


def of_one_row(
    x: jax.Array, packed: jax.Array, scale: jax.Array, zero: jax.Array | None = None, *, bits: int
) -> jax.Array:
    """Return the product of one row [1, K] and the matrix of `dequantized`, [1, N] FLOAT32."""
    _, blocks, count = packed.shape
    per, most = packed.dtype.itemsize * 8 // bits, packed.dtype.type((1 << bits) - 1)
    parts, start = wide(x).reshape(1, blocks, count, per), _start(zero)
    total: Any = np.float32(0)
    for k in range(per):
        number = (packed >> packed.dtype.type(k * bits)) & most
        total = total + (number.astype(np.float32) - start) * parts[..., k]
    return jnp.sum(total * wide(scale)[..., None], (1, 2))[None]

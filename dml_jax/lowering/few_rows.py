"""Products of few rows with a large matrix, which take as long as a GPU reads the matrix.

A row is multiplied with each row, or column, of the matrix and summed up, in one loop over the
matrix: XLA's product of matrices reads it at a fraction of the speed. Matrices of integers of few
bits lie in words of 32 bits, the first integer in the lowest bits, and are never stored as floats.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.dtypes import wide
from dml_jax.lowering.rounding import as_float

LARGE = 1 << 18
"""The elements of a matrix from which on the forms of this module are used."""

ROWS_MAX = 64
"""The rows up to which a matrix of few bits is unpacked tile by tile."""

_WORD = 32
_WHOLE = 0x4B000000  # the bits of the FLOAT32 number 2**23, whose lowest bit stands for 1
_TILE, _CHUNK = 64, 32  # rows and words of a tile


def is_one(a: jax.Array, b: jax.Array, transposed: tuple[bool, bool]) -> bool:
    """Return whether `a` has one row, and FLOAT16 or bfloat16 `b` is large."""
    is_row = a.shape[-2] == 1 and not transposed[0] and b.size == b.shape[-1] * b.shape[-2]
    return is_row and a.dtype.itemsize == 2 and b.size >= LARGE


def reduced(a: jax.Array, b: jax.Array, is_turned: bool) -> jax.Array:
    """Return the product of one row [.., 1, K] and a matrix [.., K, N] in FLOAT32.

    Args:
        a: the row.
        b: the matrix, [.., N, K] where it `is_turned`.
        is_turned: whether it is.
    """
    x, w = wide(a), wide(b)
    if is_turned:
        return jnp.sum(x * w, -1)[..., None, :]
    return jnp.sum(jnp.swapaxes(x, -1, -2) * w, -2, keepdims=True)


def unpacked(words: jax.Array, bits: int) -> jax.Array:
    """Return the integers of words, [.., n] -> [.., 32 / bits * n], as UINT8."""
    shifts = np.arange(0, _WORD, bits, dtype=np.uint32).reshape(*(1,) * words.ndim, -1)
    parts = (words[..., None] >> shifts) & np.uint32((1 << bits) - 1)
    return parts.reshape(*words.shape[:-1], -1).astype(np.uint8)


def dequantized(words: jax.Array, scale: jax.Array, zero: jax.Array | None, bits: int) -> jax.Array:
    """Return the matrix [N, K] that words [N, blocks, n] stand for, in the type of the scale.

    Args:
        words: the integers.
        scale: of each block, [N, blocks].
        zero: the integers that stand for 0, likewise; None is the middle.
        bits: of an integer.
    """
    middle = np.float32(1 << (bits - 1))
    start = middle if zero is None else zero[..., None].astype(np.uint8).astype(np.float32)
    real = (unpacked(words, bits).astype(np.float32) - start) * wide(scale)[..., None]
    return as_float(real.reshape(words.shape[0], -1), scale.dtype)


def form_of(rows: int, words: jax.Array, bits: int, x: jax.Array) -> Any:
    """Return the function of `x`, words, scale and zero point that suits a GPU; None: the plain.

    Args:
        rows: the number of rows of `x`.
        words: the matrix, [N, blocks, n].
        bits: of an integer.
        x: the rows, [rows, K].
    """
    count, per = words.shape[1] * words.shape[2], _WORD // bits
    if words.shape[0] * count * per < LARGE:
        return None
    if rows == 1:
        return functools.partial(of_one_row, bits=bits)
    fits = words.shape[0] % _TILE == 0 and count % _CHUNK == 0 and _CHUNK % words.shape[2] == 0
    if rows <= ROWS_MAX and fits and x.dtype.itemsize == 2:
        return functools.partial(by_tiles, bits=bits)
    return None


def of_one_row(
    x: jax.Array, words: jax.Array, scale: jax.Array, zero: jax.Array | None = None, *, bits: int
) -> jax.Array:
    """Return the product of one row [1, K] and a matrix of words, [1, N] FLOAT32.

    Args:
        x: the row.
        words: as for `dequantized`.
        scale: as there.
        zero: as there.
        bits: as there.
    """
    _, blocks, count = words.shape
    per, most = _WORD // bits, np.uint32((1 << bits) - 1)
    parts = wide(x).reshape(blocks, count, per).transpose(2, 0, 1)
    middle = np.float32(1 << (bits - 1))
    start = middle if zero is None else zero[..., None].astype(np.uint8).astype(np.float32)
    total: Any = None
    for k in range(per):
        raw = ((words >> np.uint32(k * bits)) & most) | np.uint32(_WHOLE)
        number = lax.bitcast_convert_type(raw, np.float32) - np.float32(1 << 23)
        term = (number - start) * parts[k][None]
        total = term if total is None else total + term
    return jnp.sum(total * wide(scale)[..., None], (1, 2))[None]


def by_tiles(
    x: jax.Array, words: jax.Array, scale: jax.Array, zero: jax.Array | None = None, *, bits: int
) -> jax.Array:
    """Return the product of a few rows [M, K] and a matrix of words, [M, N] FLOAT32.

    A kernel unpacks a tile of the matrix at a time, and multiplies it on the tensor cores.

    Args:
        x: the rows, FLOAT16 or bfloat16.
        words: as for `dequantized`.
        scale: as there.
        zero: as there.
        bits: as there.
    """
    from jax.experimental import pallas as pl

    n, blocks, count = words.shape
    per, most, rows = _WORD // bits, (1 << bits) - 1, x.shape[0]
    padded = max(16, 1 << (rows - 1).bit_length())
    groups = _CHUNK // count  # blocks of a chunk
    parts = jnp.pad(x, ((0, padded - rows), (0, 0)))
    parts = parts.reshape(padded, blocks * count, per).transpose(2, 0, 1)

    def spread(ref: Any, g: Any) -> jax.Array:
        """Return one number for each word of a tile, of one for each block."""
        part = ref[:, pl.ds(g * groups, groups)].astype(np.float32)
        wide = jnp.broadcast_to(part[:, :, None], (_TILE, groups, count))
        return wide.reshape(_TILE, _CHUNK)

    def kernel(x_ref: Any, words_ref: Any, scale_ref: Any, *refs: Any) -> None:
        *zero_ref, out_ref = refs

        def step(g: Any, total: jax.Array) -> jax.Array:
            place = pl.ds(g * _CHUNK, _CHUNK)
            whole = words_ref[:, place]
            factor = spread(scale_ref, g)
            start = spread(zero_ref[0], g) if zero_ref else jnp.float32(1 << (bits - 1))
            for k in range(per):
                raw = (whole >> np.uint32(k * bits)) & np.uint32(most)
                number = raw.astype(np.int32).astype(np.float32)
                tile = ((number - start) * factor).astype(x_ref.dtype)
                part = x_ref[k, :, place]
                total = total + jnp.dot(tile, part.T, preferred_element_type=np.float32)
            return total

        steps = blocks * count // _CHUNK
        zeros = jnp.zeros((_TILE, padded), np.float32)
        out_ref[:, :] = lax.fori_loop(0, steps, step, zeros)

    def rows_of(width: int) -> Any:
        return pl.BlockSpec((_TILE, width), lambda i: (i, 0))

    arrays = [parts, words.reshape(n, -1), scale]
    specs = [pl.BlockSpec(parts.shape, lambda i: (0, 0, 0)), rows_of(blocks * count)]
    specs.append(rows_of(blocks))
    if zero is not None:
        arrays.append(zero.astype(np.uint8).astype(np.float32))
        specs.append(rows_of(blocks))
    out = jax.ShapeDtypeStruct((n, padded), np.float32)
    whole = (n // _TILE,)
    call = pl.pallas_call(
        kernel, out, grid=whole, in_specs=specs, out_specs=rows_of(padded), **_compiled()
    )
    return call(*arrays).T[:rows]


def _compiled() -> dict[str, Any]:
    """Return how a kernel is compiled."""
    from jax.experimental.pallas import triton

    return {"compiler_params": triton.CompilerParams(num_warps=4, num_stages=3)}

"""Loops on a CPU that all cores share.

XLA splits a loop by its estimated cost: no more cores than the square root of their number share a
loop with at most one operation a byte. `x ^ i ^ i` raises the estimate and costs nothing, since
LLVM removes it. Two cores share every loop without it.
"""

import math

import jax
from jax import lax

from dml_jax.lowering.dtypes import bits_of, is_float
from dml_jax.system.processor import cores

MUCH = 2**20  # bytes from which on it is worth waking all cores


def leave_cores_idle() -> bool:
    """Return whether XLA's loops leave cores idle by themselves."""
    return math.isqrt(cores() - 1) + 1 < cores()


def even_rows(size: int) -> int:
    """Return the number of equal rows of a flat array that cores share best; 1 if there is none.

    Where parts do not come out even, XLA tests every element for the end, and LLVM does not make
    vectors of that. Rows are at most 128, which is more than most machines have cores.
    """
    return next((n for n in range(128, cores() - 1, -1) if size % n == 0), 1)


def read_by_all_cores(x: jax.Array, size: int, times: int = 1) -> jax.Array:
    """Give all cores a part of a loop that reads `size` elements, of which `x` are a slice.

    XLA counts the elements of the sliced arrays: `times` as many as `size`.
    """
    if size * x.dtype.itemsize < MUCH:
        return x
    return _with_operations(x, times * x.dtype.itemsize)


def written_by_all_cores(x: jax.Array, reads: int = 1) -> jax.Array:
    """Give all cores a part of a loop that writes `x`, and reads so many arrays like it."""
    if x.size * x.dtype.itemsize < MUCH:
        return x
    return _with_operations(x, (reads + 1) * x.dtype.itemsize)


def _with_operations(x: jax.Array, count: int) -> jax.Array:
    if not leave_cores_idle() or x.dtype == bool:
        return x
    bits = bits_of(x) if is_float(x) else x
    # XLA would do what is done with a number before it repeats `x`; with a place it cannot.
    longest = max(range(x.ndim), key=lambda axis: x.shape[axis])
    place = lax.broadcasted_iota(bits.dtype, bits.shape, longest)
    for _ in range(count // 2 + 1):
        bits = bits ^ place ^ place
    return lax.bitcast_convert_type(bits, x.dtype) if is_float(x) else bits

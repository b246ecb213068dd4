"""Loops on a CPU that all cores share.

XLA lets no more cores share a loop than the square root of their number, 4 of 16, where it does no
more than one operation for each byte that it moves (`DefaultCostModel` in XLA's
parallel_task_assignment.cc). So here each element takes more, which come to nothing: exclusive ors
that undo each other, which XLA counts, and LLVM removes before it makes vectors. Two cores share
every loop, and have none of this.

16 cores (Intel Xeon, jax 0.11.2), ms of FLOAT32 [8, 64, 256, 256], as it is, and so; jax.numpy's:

    CLIP                      7.8, 3.0; 7.7
    DEPTH_TO_SPACE1 by 2      8.5, 3.3; 9.7
    SPACE_TO_DEPTH1 by 2; 8   12, 5.1; 20. 36, 10; 38
    SPLIT over 1; JOIN        10, 4.3; 6.9. 7.7, 3.4; 7.5
    SUM over 0; 3             4.0, 1.3; 1.4. 3.4, 1.3; 1.2
    MAX over 1; 3             4.2, 1.8; 1.4. 5.2, 1.9; 1.3
    LOG_SUM_EXP over 3; all   13, 4.7; 4.0. 12, 4.8; 3.7
    gradient of MAX over 1    14, 5.7; 50

docs/forms.md has the means over all of the table's cells.
"""

import math

import jax
import jax.numpy as jnp
from jax import lax

from dml_jax.lowering import loops_cpu
from dml_jax.lowering.axes import Parts
from dml_jax.lowering.elementwise import unsigned
from dml_jax.lowering.identity import identity

# Bytes from which on it is worth waking them. us on 16 cores, as it is and so, of 1 MB CLIP FLOAT32
# 116, 101; FLOAT16 98, 84; SUM over rows of 128 80, 78; of half as much 56, 63; 65, 63; 50, 56; of
# 4 MB CLIP 296, 192; SUM 164, 137.
MUCH = 2**20


def leave_cores_idle() -> bool:
    """Whether XLA's loops do by themselves."""
    return math.isqrt(loops_cpu.CORES - 1) + 1 < loops_cpu.CORES


def read_by_all_cores(xs: Parts, size: int, times: int = 1) -> Parts:
    """Arrays of one shape and width, for a loop that reads `size` elements and writes few.

    Slices each by itself: operations on the whole XLA counts in each loop that reads some of it.

    Args:
        xs: what is kept of elements, or a slice of it.
        size: of all slices.
        times: how many times that the arrays have which are sliced, of which XLA counts all bytes.
    """
    if size * xs[0].dtype.itemsize < MUCH:
        return xs
    return tuple(_with_operations(x, times * x.dtype.itemsize) for x in xs)


def written_by_all_cores(x: jax.Array, reads: int = 1, size: int = 0) -> jax.Array:
    """x, for a loop that writes an array like it, and reads others.

    Args:
        x: what is written, or, where that is mapped, what is read.
        reads: how many arrays of that size are read.
        size: the elements that are written, where x is a part of them.
    """
    # Of a last axis that they cannot share evenly some would have parts that are not vectorised: ms
    # of TILE FLOAT32 [2, 13, 509, 521] over 1 6.5, 17.
    if max(size, x.size) * x.dtype.itemsize < MUCH or loops_cpu.is_uneven(x.shape):
        return x
    return _with_operations(x, (reads + 1) * x.dtype.itemsize)


def by_all_cores(x: jax.Array) -> jax.Array:
    """x, for a loop that reads it and another array and writes a third.

    Anywhere in a program: it has derivatives and batches, and on other devices is x.
    """
    return _BY_ALL_CORES.bind(x)


_BY_ALL_CORES = identity("dml_by_all_cores", lambda x: written_by_all_cores(x, reads=2))


def _with_operations(x: jax.Array, count: int) -> jax.Array:
    """x, by more than so many operations for each element."""
    if not leave_cores_idle() or x.dtype == bool:
        return x
    is_integer = jnp.issubdtype(x.dtype, jnp.integer)
    bits = x if is_integer else lax.bitcast_convert_type(x, unsigned(x))
    # With a place, since what is done with a number XLA would do before it repeats x.
    longest = max(range(x.ndim), key=lambda axis: x.shape[axis])
    place = lax.broadcasted_iota(bits.dtype, bits.shape, longest)
    conversions = 0 if is_integer else 2
    for _ in range((count - conversions) // 2 + 1):
        bits = bits ^ place ^ place
    return bits if is_integer else lax.bitcast_convert_type(bits, x.dtype)

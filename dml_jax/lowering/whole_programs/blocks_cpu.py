"""Pieces that are joined on a CPU as blocks of one size."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import lax

from dml_jax.lowering.all_cores_cpu import written_by_all_cores
from dml_jax.lowering.stored_cpu import reshaped

# Elements below which a loop for each piece is as fast on a CPU: they stay in its caches, and may
# not be worth a second thread. ms, FLOAT16 of two pieces of 128, 2^20 0.05, 0.10; 2^22 0.29, 0.25.
CACHED = 2**21
# Pieces of one loop. One over 16 LLVM does not unroll: 27 ms, in loops of their own 12.
MOST_AT_ONCE = 8


def join_blocks(xs: Sequence[jax.Array], axis: int) -> jax.Array:
    """`arrangement.join` on a CPU of what is computed, by a loop over blocks of one size.

    An axis's number says which block it is, and LLVM makes a loop of each. 2 cores, jax 0.10.2, ms,
    SPLIT, CLIPs, and JOIN along the last axis of 33554432 elements, as a concatenation and so, a
    copy:

        pieces       2, of 128       4, of 64      8, of 16
        FLOAT32   21, 4.8, 5.0   26, 8.5, 9.0   20, 5.1, 6.2
        FLOAT16   16, 4.0, 3.8   13, 3.9, 4.0   45, 4.1, 4.0
        UINT8    6.7, 1.9, 1.9  5.8, 2.1, 2.1   23, 2.1, 2.0

    Of 16777216 elements two of 524288 FLOAT32 5.0, 2.4; FLOAT16 2.2, 0.9; UINT8 0.8, 0.4.
    """
    size = _common(xs, axis)
    blocks = [b for x in xs for b in lax.split(x, [size] * (x.shape[axis] // size), axis)]
    shape = [*xs[0].shape]
    shape[axis : axis + 1] = len(blocks), size
    kept = [d for d in range(len(shape)) if d != axis]
    number = lax.broadcasted_iota(np.int32, shape, axis)
    joined, *others = (lax.broadcast_in_dim(block, shape, kept) for block in blocks)
    # The first innermost: ms, four of FLOAT16 in reverse order 4.6, the last innermost 8.3.
    for i, block in enumerate(others, 1):
        joined = lax.select(number == i, block, joined)
    shape[axis : axis + 2] = [len(blocks) * size]
    return reshaped(written_by_all_cores(joined), shape)


# Rows of no more elements LLVM unrolls in such a loop: ms, as a concatenation and so, CLIPs joined
# of 8388608 elements, FLOAT32 in 8 of 8 3.6, 12; FLOAT16 2.5, 29.
UNROLLED_BLOCK = 8
# Narrow elements that are joined so: in rows of so many, or of more blocks than that. ms, SPLIT,
# CLIPs, and JOIN of 16777216 elements, FLOAT16; UINT8, 2 of 33 13, 20; 9.2, 9.7; 2 of 40 3.2, 1.7;
# 1.4, 0.8; 3 of 16 20, 20; 12, 4.9; 4 of 16 21, 17; 9.6, 1.0; 5 of 16 20, 1.8; 11, 1.5; of half as
# many 4 of 14 6.7, 24; 13, 5.4.
WIDE, FEW_BLOCKS = 40, 4


def are_few_blocks(types: Sequence[Any], axis: int) -> bool:
    """Whether a CPU gains by `join_blocks`, of what has these types."""
    shape, size = [*types[0].shape], _common(types, axis)
    count = sum(x.shape[axis] for x in types) // size
    shape[axis] = size
    row, width = shape[-1], types[0].dtype.itemsize
    if count * math.prod(shape) < CACHED:
        return False
    is_wide = width >= 4 or row >= WIDE or count > FEW_BLOCKS
    return row > UNROLLED_BLOCK and is_wide and count <= MOST_AT_ONCE


def _common(xs: Sequence[Any], axis: int) -> int:
    """The largest size that divides all of theirs along the axis."""
    return math.gcd(*(x.shape[axis] for x in xs))

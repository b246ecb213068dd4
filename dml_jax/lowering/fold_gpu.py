"""Reductions on an NVIDIA GPU that keep two things (LOG_SUM_EXP, ARGMAX, ARGMIN).

XLA reduces them well over long rows, and over wide columns; else it is up to 50 times slower than
the memory. H200, jax 0.11.2, TB/s read, XLA's own (`Fold.default`) and this, LOG_SUM_EXP FLOAT32,
FLOAT16; ARGMAX FLOAT32, FLOAT16:

    short rows     [67108864, 2]          0.04, 1.97; 0.02, 1.28; 0.05, 1.97; 0.03, 1.54
                   [8388608, 16]          0.32, 2.58; 0.17, 2.54; 0.41, 2.61; 0.20, 2.59
    long rows      [32, 64, 65536]        3.1, 4.0; 1.6, 3.1; 3.6, 3.9; 1.8, 2.2
    columns        [32, 16384, 256]       2.2, 3.4; 1.1, 2.8; 2.6, 3.4; 1.3, 2.2
                   [2048, 256, 256]       3.0, 3.5; 1.6, 2.9; 3.9, 3.9; 1.7, 2.6
                   [32, 64, 65536]        1.8, 3.4; -, 2.9; 1.9, 3.8; -, 2.4
                   [16411, 16411]         2.1, 3.4; 1.1, 3.0; 2.5, 3.4; 1.3, 2.9
    narrow columns [44739242, 3]          0.6, 3.3; 0.3, 2.6; 0.3, 3.2; 0.1, 2.7
    odd columns    [8, 67, 265189]        0.9, 2.8; 0.5, 1.9; 1.1, 3.0; 0.6, 2.2
    two runs       [32, 64, 256, 256]     over (1, 3) 0.4, 3.1; 0.2, 1.6; 0.4, 3.8; 0.2, 2.1
                                          over (0, 2) 0.9, 3.0; 0.5, 2.4; 1.2, 3.3; 0.5, 2.2

Of SUM, PRODUCT, MAX and MIN, XLA's own are as fast over any axes (3.7 to 4.1).
"""

import functools

import jax
from jax import lax

from dml_jax.lowering.fold import (
    LITTLE,
    Axes,
    Combine,
    Fold,
    Parts,
    piece,
    run_by_run,
    shaped,
    taken,
)

# With 64 the threads need too many registers: LOG_SUM_EXP 2.5 where it is 3.5.
BLOCKS = 32
# Elements of which another kernel is not worth its launch.
LITTLE_COLUMNS = 2**20
# Of shorter ones blocks are too short: rows of 128 1.7, 2.1 without.
LONG_ROW = 512
# Into how many blocks long rows of elements packed with their index go: of 32 bits where they are
# no multiple of `LONG_ROW`, as a second kernel unpacks; and of narrower ones (also where that
# divides shorter rows). TB/s of ARGMAX, before and so: FLOAT32 rows of 513 2.8, 3.9; 1000 3.4, 3.8;
# 16411 3.0, 3.8; 65537 3.7, 4.0; 512, 4096 and 262144 4.2, 4.2. FLOAT16 96 1.1, 2.5; 513 2.1, 2.9;
# 16411 2.0, 3.0. UINT8 96 0.9, 2.6; 4096 2.3, 2.7; 262144 2.6, 3.4; but of 333 1.9, 1.6.
PACKED_BLOCKS, NARROW_BLOCKS = 2, 8
# ARGMAX over columns up to this, a multiple of 32 beside each other, is XLA's: 3.9, 3.5 in blocks.
# Not of float16, 1.7, 2.6 in blocks.
LONG_COLUMN = 4096
# And so many columns in all: [4096, 4096] 1.5, 2.7 in blocks; [2, 4096, 4096] 3.6, 3.2.
MANY_COLUMNS = 2**13


def fold(kind: Fold, x: jax.Array, axes: Axes) -> Parts:
    """What `kind` keeps of the elements along `axes`."""
    if x.size <= LITTLE or not kind.row:
        return kind.default(kind.started(x, axes), axes)
    stages = [functools.partial(stage, kind) for stage in (_columns, _rows)]
    return run_by_run(kind, kind.start(x), axes, *stages)


def _columns(kind: Fold, parts: Parts, combine: Combine) -> Parts:
    """By blocks of rows, which one kernel reads beside each other, until there are few rows."""
    k, n, c = parts[0].shape
    if k % 2 == 0 and c % 2:
        # Of a multiple of 4 outputs XLA gives each thread four neighbours, which it reads one by
        # one where rows are odd: [8, 67, 265189] 1.4. Of an odd number it does not: 2.8.
        ends = [taken(parts, 0, 1, axis=0), taken(parts, 1, k, axis=0)]
        ends = [_columns(kind, end, combine) for end in ends]
        return tuple(lax.concatenate(both, 0) for both in zip(*ends, strict=True))
    aligned = c % 32 == 0 and parts[0].dtype.itemsize >= 4
    wide = kind.locates and aligned and n <= LONG_COLUMN and k * c >= MANY_COLUMNS
    while n > 1:
        if n <= kind.column:
            size = 1
        elif wide or parts[0].size <= LITTLE_COLUMNS:
            return kind.default(parts, (1,))
        else:
            size = _block(k, n, c)
        flat, width = shaped(parts, (k, n * c)), size * c
        blocks = combine([taken(flat, i * width, (i + 1) * width) for i in range(n // size)])
        if size > 1:
            # Else XLA may compute them again for each element that is made of them.
            blocks = lax.optimization_barrier(blocks)
            blocks = kind.with_rest(blocks, taken(flat, n // size * width, n * c))
        parts, n, combine = shaped(blocks, (k, size, c)), size, kind.combine
    return tuple(part[:, 0] for part in parts)


def _rows(kind: Fold, parts: Parts, combine: Combine) -> Parts:
    """Short ones as columns are; long ones by blocks in the one kernel that reduces them."""
    k, n, _ = parts[0].shape
    parts = shaped(parts, (k, n))
    if n <= kind.row:
        return combine([taken(parts, i, i + 1) for i in range(n)])
    packing, x = kind.packing, parts[0]
    if packing and combine is kind.first and n <= packing.most(x.dtype):
        if x.dtype.itemsize < 4:
            even = n >= LONG_ROW or n % NARROW_BLOCKS == 0
            blocks = NARROW_BLOCKS if even else 1
            return packing.through(functools.partial(_long_rows, blocks), x)
        if n > LONG_ROW and n % LONG_ROW:
            return packing.through(functools.partial(_long_rows, PACKED_BLOCKS), x)
    return _long_rows(kind.ahead if n >= LONG_ROW else 1, kind, parts, combine)


def _long_rows(blocks: int, kind: Fold, parts: Parts, combine: Combine) -> Parts:
    """By so many blocks of each, which the kernel that reduces them combines first."""
    k, n = parts[0].shape
    if blocks == 1:
        return shaped(kind.default(piece(kind, parts, 0, n), (1,)), (k, 1))
    size = n // blocks
    pieces = [piece(kind, parts, i * size, (i + 1) * size) for i in range(blocks)]
    rest = [piece(kind, parts, i, i + 1) for i in range(size * blocks, n)]
    out = shaped(kind.default(combine(pieces), (1,)), (k, 1))
    return kind.combine([out, *rest])


def _block(k: int, n: int, c: int) -> int:
    """How many of n rows of c elements a block has, so that there are some `BLOCKS` blocks.

    Of 17 to 32 blocks that divide n, the most. Else, where k is 1, blocks begin at a multiple of 8
    elements; where it is not and c is odd, they have an odd number of rows (`_columns` says why).
    """
    fewer = range(BLOCKS, BLOCKS // 2, -1)
    size = max(n // next((b for b in fewer if n % b == 0), BLOCKS), 2)
    if k == 1 and size > 8:
        return size if n % size == 0 or c % 8 == 0 else size - size % 8
    return size if c % 2 == 0 else size | 1

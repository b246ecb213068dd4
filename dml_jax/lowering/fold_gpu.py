"""Reductions on an NVIDIA GPU that keep two things.

That is LOG_SUM_EXP, ARGMAX, ARGMIN; and over columns, for the gradient of MAX and MIN, an extreme
and how many elements equal it.

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
from dataclasses import replace

import jax
from jax import lax

from dml_jax.lowering.fold import (
    LITTLE,
    Axes,
    Combine,
    Fold,
    Parts,
    ends_in_rows,
    piece,
    run_by_run,
    shaped,
    taken,
)

# With 64 the threads need too many registers: LOG_SUM_EXP 2.5 where it is 3.5.
BLOCKS = 32
# Elements of which another kernel is not worth its launch.
LITTLE_COLUMNS = 2**20
# Into how many pieces, at most, rows of elements packed with their index go. TB/s of ARGMAX of
# 33554432 elements, packed and not: FLOAT32 rows of 96 3.3, 1.6; 200 3.3, 2.9; 521 3.2, 2.5; 1000
# 3.3, 3.0; 16411 3.5, 2.8; FLOAT16 96 2.5, 0.8; 200 2.3, 1.3; 333 2.3, 2.1; 1000 2.2, 1.9; 16411
# 2.6, 1.6; UINT8 96 2.6, 0.4; 1000 2.7, 1.0.
PACKED = 8
# 32-bit elements are neither packed nor cut in rows of these lengths, and of any multiple of
# `MULTIPLE`, as a second kernel unpacks: 333 3.2, 3.6; 512 3.4, 3.8; 4099 3.2, 3.8.
APART, MULTIPLE = (range(256, 513), range(2049, 2**14)), 512
# Rows of narrow elements up to this length go as rows that a thread reads, the longest of `READ`
# that divides them: LOG_SUM_EXP of FLOAT16 rows of 160 0.9, 2.1; 256 1.5, 2.4; 384 1.8, 2.4; 512
# 2.2, 2.4.
SHORT_ROW, READ = 512, range(64, 31, -1)
# Rows of narrow elements that are too long for packing go as rows of this length, where it divides
# them: ARGMAX of 33554432 elements FLOAT16 2.1, 2.4; UINT8 0.9, 1.4; of 536870912 UINT8 3.5.
ROW = 2**13
# ARGMAX over columns up to this, a multiple of 32 beside each other, is XLA's: 3.9, 3.5 in blocks.
# Not of float16, 1.7, 2.6 in blocks.
LONG_COLUMN = 4096
# And so many columns in all: [4096, 4096] 1.5, 2.7 in blocks; [2, 4096, 4096] 3.6, 3.2.
MANY_COLUMNS = 2**13


def fold(kind: Fold, x: jax.Array, axes: Axes) -> Parts:
    """What `kind` keeps of the elements along `axes`."""
    if x.size <= LITTLE or not (kind.row if ends_in_rows(x, axes) else kind.column):
        return kind.default(kind.started(x, axes), axes)
    kind = replace(kind, first=kind.first_on_gpu or kind.first)
    columns = functools.partial(_columns, kind)
    rows = functools.partial(_rows, kind, x.dtype.itemsize < 4)
    return run_by_run(kind, kind.start(x), axes, columns, rows)


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


def _rows(kind: Fold, narrow: bool, parts: Parts, combine: Combine) -> Parts:
    """Short ones as columns are; long ones in pieces, by the one kernel that reduces them.

    `narrow` are elements of less than 32 bits, before they are widened.
    """
    k, n, _ = parts[0].shape
    parts = shaped(parts, (k, n))
    if n <= kind.row:
        return combine([taken(parts, i, i + 1) for i in range(n)])
    if combine is not kind.first:
        return _long_rows(kind.ahead, kind, parts, combine)
    packing, x = kind.packing, parts[0]
    apart = n % MULTIPLE == 0 or any(n in lengths for lengths in APART)
    if packing and (narrow or not apart):
        if n <= packing.most(x.dtype):
            return packing.through(functools.partial(_long_rows, PACKED), x)
        if narrow and n % ROW == 0:
            return _by_shorter_rows(ROW, kind, parts, combine)
    size = next((size for size in READ if n % size == 0), 0)
    if narrow and size and n <= SHORT_ROW:
        return _by_shorter_rows(size, kind, parts, combine)
    return _long_rows(kind.ahead, kind, parts, combine)


def _by_shorter_rows(size: int, kind: Fold, parts: Parts, combine: Combine) -> Parts:
    """By rows of so many narrow elements first. What locates is packed there, and begins at 0."""
    k, n = parts[0].shape
    ends = _rows(kind, True, shaped(parts, (k * n // size, size, 1)), combine)
    ends = kind.located(shaped(lax.optimization_barrier(ends), (k, n // size)), [1], size)
    return _rows(kind, True, shaped(ends, (k, n // size, 1)), kind.combine)


def _long_rows(most: int, kind: Fold, parts: Parts, combine: Combine) -> Parts:
    """In at most so many pieces of each, which the kernel that reduces them combines first.

    A piece is a power of two long, and the last one is filled with nothing. TB/s of LOG_SUM_EXP of
    33554432 elements as they are, in eight equal pieces and a rest, and so: FLOAT32 rows of 200
    2.3, -, 2.6; 521 2.3, 2.7, 3.6; 640 2.6, 2.8, 3.6; 1000 2.8, 3.3, 3.6; 4099 3.6, 3.2, 3.2;
    FLOAT16 1.1, -, 1.3; 1.2, 1.6, 2.0; 1.3, 1.7, 2.2; 1.6, 2.2, 2.3; 1.9, 2.3, 2.2.
    """
    k, n = parts[0].shape
    size = n if most == 1 else 1 << (-(-n // most) - 1).bit_length()
    pieces = [piece(kind, parts, at, min(at + size, n)) for at in range(0, n, size)]
    pieces[-1] = _filled(kind, pieces[-1], size)
    return shaped(kind.default(combine(pieces) if len(pieces) > 1 else pieces[0], (1,)), (k, 1))


def _filled(kind: Fold, parts: Parts, size: int) -> Parts:
    """[k, up to size] -> [k, size]."""
    missing = size - parts[0].shape[1]
    if missing == 0:
        return parts
    assert kind.nothing, "what a GPU reduces by rows says what nothing is"
    nothing = kind.nothing(parts[0].dtype)
    around = [(0, 0, 0), (0, missing, 0)]
    return tuple(lax.pad(part, none, around) for part, none in zip(parts, nothing, strict=True))


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

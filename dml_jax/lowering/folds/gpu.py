"""Reductions on an NVIDIA GPU that keep two things.

That is LOG_SUM_EXP, ARGMAX, ARGMIN; and over columns, for the gradient of MAX and MIN, an extreme
and how many elements equal it.

XLA reduces them well over long rows, and over wide columns; else it is up to 50 times slower than
the memory. Over columns each result is a window here, since of a `lax.reduce_window` XLA makes a
loop in a thread, and fuses it with what makes its input. H200, jax 0.11.2, TB/s read, XLA's own
(`Fold.default`; of columns, four times as many elements) and this (of columns before they filled
the threads, see `THREADS`), LOG_SUM_EXP FLOAT32, FLOAT16; ARGMAX FLOAT32, FLOAT16:

    short rows     [67108864, 2]          0.04, 1.97; 0.02, 1.28; 0.05, 1.97; 0.03, 1.54
                   [8388608, 16]          0.32, 2.58; 0.17, 2.54; 0.41, 2.61; 0.20, 2.59
    long rows      [32, 64, 65536]        3.1, 4.0; 1.6, 3.1; 3.6, 3.9; 1.8, 2.2
    columns        [8, 16384, 256]        2.2, 3.3; 1.1, 2.1; 2.6, 3.5; 1.3, 2.2
                   [512, 256, 256]        3.0, 3.4; 1.6, -; 3.9, 3.7; 1.7, -
                   [8, 64, 65536]         1.8, 3.6; -, 2.4; 1.9, 3.6; -, 2.6
                   [4096, 4096]           2.1, 2.9; 1.1, 1.8; 2.5, 3.1; 1.3, 1.8
                   [65, 509, 521]         2.4, 2.7; 1.5, 1.6; 3.0, 2.6; 1.9, 1.8
                   [4093, 4099]           1.8, 2.6; 1.0, 1.6; 1.8, 2.9; 1.0, 1.8
    narrow columns [11184810, 3]          0.6, 2.6; 0.3, 1.1; 0.3, 2.6; 0.1, 1.8
    odd columns    [8, 67, 65531]         0.9, 3.0; 0.5, 1.7; 1.1, 3.4; 0.6, 2.5

Of SUM, PRODUCT, MAX and MIN, XLA's own are as fast over any axes (3.7 to 4.1). (`lax.argmax`, which
keeps the first index only, has 3.0 and 2.2 of [4093, 4099], 3.0 and 1.9 of [65, 509, 521].)
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import lax

from dml_jax.lowering.axes import Axes, Parts, kept
from dml_jax.lowering.epilogue import epilogue
from dml_jax.lowering.folds import as_complex
from dml_jax.lowering.folds.fold import (
    LITTLE,
    Combine,
    Fold,
    as_started,
    by_pairs,
    ends_in_rows,
    joined,
    piece,
    run_by_run,
    runs_of,
    shaped,
    taken,
)
from dml_jax.lowering.folds.one_value import pairwise
from dml_jax.lowering.wide import wide, wide_type


def fold(kind: Fold, x: jax.Array, axes: Axes) -> Parts:
    """What is asked of what `kind` keeps of the elements along `axes`."""
    types = kind.types(x.dtype)
    if x.size <= LITTLE or not (kind.row if ends_in_rows(x.shape, axes) else len(types) == 2):
        return kind.asked(_by_xla(kind, x, axes))
    columns = functools.partial(_columns, kind)
    rows = functools.partial(_rows, kind, x.dtype.itemsize < 4)
    apart = functools.partial(as_complex.apart, [*map(wide_type, types)])
    parts = run_by_run(kind, (x,), axes, columns, rows, apart)

    def asked(*parts: jax.Array) -> Parts:
        return kind.asked(tuple(map(lax.convert_element_type, apart(parts), types)))

    if as_complex.is_one(parts) and kind.result:
        return (epilogue(lambda number: asked(number)[0], *parts),)
    return asked(*parts)


# Rows that are short for the threads of XLA's own reductions, which read elements one by one where
# rows are no multiple of four: they go in so many pieces, which are combined before. Rows of bytes
# gain where they are a multiple, too. H100, jax 0.11.2, TB/s of 268 MB (UINT8 134), as they are
# and so, where a CLIP has 2.8 (UINT8 2.5):
#     rows of        17        33        49        63        65        81        98       127
#     FLOAT32  2.0, 2.7  1.5, 2.7  2.0, 2.6  2.3, 2.6  2.3, 2.8  2.6, 2.7  2.5, 2.6  2.5, 2.7  SUM
#     FLOAT16  2.4, 2.5  0.8, 2.5  1.1, 2.4  1.5, 2.5  1.3, 2.5  1.6, 2.5  1.9, 2.6  2.2, 2.6
#              2.2, 2.3  0.8, 2.4  1.1, 2.4  1.4, 2.3  1.3, 2.3  1.6, 2.4  2.1, 2.2  2.1, 2.5  MAX
#     UINT8    2.5, 1.8  0.9, 1.8  1.2, 1.8  1.5, 1.3  0.7, 1.7  0.8, 1.7  1.5, 2.2  1.1, 1.3
# of 36 FLOAT16 2.7, 2.4, UINT8 1.3, 2.2; of 60 2.6, 2.1; 1.6, 2.1; of 128 2.7, 2.7; 2.5, 2.4. (A
# row in a thread has 0.9 to 1.0 of FLOAT32; two rows in a thread FLOAT16 33 2.3, 49 2.1, 81 1.5.
# MAX by `Fold.combine`, which has NaN apart, is as fast but behind a clip: maps of 7 by 7 1.0, 1.3;
# by XLA's own maximum 2.3.)
PIECED_ROWS, PIECED_ROWS_OF_BYTES, PIECES = range(17, 129), range(33, 129), 4


def _by_xla(kind: Fold, x: jax.Array, axes: Axes) -> Parts:
    """By its own reduction; of short rows pieces are combined before."""
    runs = runs_of(x.shape, axes)
    (n, is_row), op = runs[-1], kind.pair
    if op is None or x.size <= LITTLE or not (is_row and _is_short(n, x.dtype.itemsize)):
        return kind.default(kind.started(x, axes), axes)

    def combine(pieces: Sequence[Parts]) -> Parts:
        return (pairwise(op, [piece for (piece,) in pieces]),)

    parts = _combined(PIECES, kind, (wide(x).reshape(-1, n),), combine)
    parts = shaped(parts, (*(size for size, _ in runs[:-1]), -1))
    (y,) = kind.default(parts, tuple(i for i, (_, is_reduced) in enumerate(runs) if is_reduced))
    return (lax.convert_element_type(y, x.dtype).reshape(kept(x.shape, axes)),)


def _is_short(row: int, itemsize: int) -> bool:
    if itemsize == 1:
        return row in PIECED_ROWS_OF_BYTES
    return itemsize <= 4 and row in PIECED_ROWS and row % 4 != 0


# Columns up to this are combined at once; longer ones by threads that loop, which compiles in 0.1 s
# where 64 at once take 0.8. us, at once and so, ARGMAX; LOG_SUM_EXP of FLOAT32 [8, 4194304] over 0
# 39, 55; 40, 57; of [8, 64, 65536] 37, 38 (FLOAT16 23, 26, UINT8 20, 23); 42, 37 (FLOAT16 26, 28).
AT_ONCE = 24
# Results, a thread for each, that are enough: of whole columns, or of blocks of them. us, for so
# many blocks at least, twice and four times as many, ARGMAX; LOG_SUM_EXP:
#     [8192, 8192]      FLOAT32  72, 76, 78; 76, 74, 75;  FLOAT16  60, 57, 56; 68, 64, 60
#     [8, 16384, 256]            40, 41, 43; 42, 42, 43;           33, 32, 32; 37, 34, 34
#     [4093, 4099]               28, 23, 25; 29, 26, 24;           24, 23, 18; 60, 35, 21
MANY = 2**17
# Columns of bytes that a thread has, each element packed with its index; what the blocks leave is
# put side by side, and reduced as one array. us of ARGMAX, one column; four, each reduced by
# itself; and so: [16384, 32768] over 0 268, 158, 157; [4096, 4096] 14, 23, 11.5; [2048, 2048] 10,
# 23, 9.5; four, and so: [8, 64, 256, 256] over (1, 2) 27, 19; [262144, 128] over 0 121, 23. Of
# FLOAT16, two columns, packed or not, TB/s [16384, 32768] 2.9, 3.0; [8, 16384, 4096] 2.7, 1.9.
BYTES = 4
# Rows of a block of these. Of fewer bytes blocks are shorter, so that there are `MANY` threads; of
# more they are longer, so that there are at most four times as many. us of ARGMAX, blocks of 8, 64
# and 128: [65536, 1024] 78, 53, 45; [8192, 8192] 52, 41, 43; [16384, 32768] in 1, 2, 4 and 8 times
# as many threads 199, 184, 174, 180.
ROWS = 2**7
# Of so few columns so many rows go as one, since neighbouring threads begin far apart. us of
# 67108864 elements, before and so, LOG_SUM_EXP FLOAT16; FLOAT32; ARGMAX FLOAT16; UINT8:
#     [262144, 128, 2]     135, 63; 136, 103; 136, 51; 135, 47
#     [170760, 131, 3]      77, 76; 110, 98;   75, 65;  55, 82
#     [22369, 1000, 3]      83, 63; 102, 80;   78, 66;  56, 50
#     [33554432, 2]        143, 56; 143, 78;  140, 50; 138, 50
#     [8, 2097152, 4]       82, 66;  88, 72;   83, 52
# Shorter ones only where they are two that begin with a line of memory, which come in each other's
# way:
#     [524288, 64, 2]      138, 61; 138, 100; 134, 113; 133, 42
#     [500812, 67, 2]       70, 79; 102, 133;  69, 129;  55, 46
#     [262144, 64, 4]       73, 60;  85, 90;   71, 105
FEW_COLUMNS, BESIDE, LINE = 4, 4, 128
# What columns are a multiple of if every row begins where threads read several elements at once.
# Of others there are twice as many threads: H100, us of ARGMAX, as many and so, [4093, 4099] 30, 28
# (an H200 28, 23); but [65, 509, 521] over 1 28, 30.
ALIGNED = 8


def _columns(kind: Fold, parts: Parts, combine: Combine) -> Parts:
    """Short ones at once; others by threads, whole or in blocks, and then what these have left."""
    k, n, c = parts[0].shape
    if n <= AT_ONCE:
        flat = shaped(as_started(kind, parts), (k, n * c))
        return combine([taken(flat, i * c, (i + 1) * c) for i in range(n)])
    x, packing = parts[0], kind.packing
    in_bytes = x.dtype.itemsize == 1 and c % BYTES == 0
    if in_bytes and packing and not kind.is_started(parts) and n <= packing.most(x.dtype):
        many = min(max(MANY, x.size // (BYTES * ROWS)), 4 * MANY)
        return packing.through(lambda kind, x, _: _by_threads(kind, x, many, abreast=BYTES), x)
    on_lines = c == 2 and n * c * x.dtype.itemsize % LINE == 0
    if c <= FEW_COLUMNS and (n > AT_ONCE * BESIDE or on_lines):
        return _rows_beside(kind, parts, combine)
    many = 4 * MANY if x.dtype.itemsize < 4 else MANY if c % ALIGNED == 0 else 2 * MANY
    # Wide: us, ARGMAX of FLOAT16 [8, 16384, 256] over 1 33, 30; [4096, 4096] over 0 22, 19.
    return _by_threads(kind, tuple(map(wide, parts)), many)


def _rows_beside(kind: Fold, parts: Parts, combine: Combine) -> Parts:
    """[k, n, c] -> [k, c], `BESIDE` rows as one of as many times the columns first."""
    k, n, c = parts[0].shape
    end, is_started = n // BESIDE * BESIDE, kind.is_started(parts)
    rows = shaped(taken(parts, 0, end), (k, end // BESIDE, BESIDE * c))
    types = [*map(wide_type, kind.types(parts[0].dtype))]
    left = tuple(map(wide, as_complex.apart(types, _columns(kind, rows, combine))))
    if kind.locates and not is_started:
        *rest, index = left
        left = (*rest, index * index.dtype.type(BESIDE))
    # Else a thread would read all that it combines.
    left = lax.optimization_barrier(shaped(left, (k, BESIDE, c)))
    left = left if is_started else kind.located(left, [1])
    if end < n:
        left = joined([left, piece(kind, tuple(map(wide, parts)), end, n)], 1)
    return kind.combine([shaped(taken(left, i, i + 1), (k, c)) for i in range(BESIDE + n - end)])


# Threads that are launched together. Where the results are no multiple of it, XLA tests which of
# them have one, and LLVM keeps the place of each row it reads at once in registers of its own, of
# which there are too few (PTX, jax 0.11.2): so the blocks are as many as make it a multiple. What
# is left of the rows goes to the second kernel, since a window that is not full has a test for each
# row. TB/s of 268 MB, before (as few blocks as divide the rows, or the last one filled up) and so,
# ARGMAX; LOG_SUM_EXP:
#     [6656, 18801] FLOAT32 1.4, 3.1; 2.7, 3.2   [6656, 37601]  FLOAT16 1.0, 2.5; 2.5, 2.2
#     [16411, 8209]         3.3, 3.3; 2.9, 3.3   [16411, 16411]         2.0, 2.7; 1.2, 2.5
#     [6656, 75201] UINT8   1.0, 1.6             [16411, 32771] UINT8   1.2, 1.9
THREADS = 2**7
# So many blocks are reduced in groups first: XLA has one kernel for up to 8191 rows, which is slow
# for few columns. us of ARGMAX; LOG_SUM_EXP, by that and so: FLOAT16 [131072, 128] 35, 16; 38, 20;
# [262144, 128] 47, 28; 54, 32; [131072, 256] 37, 29; 42, 33; FLOAT32 [524288, 32] 53, 21; 80, 25;
# [524288, 64] 46, 37; 48, 41; [131072, 256] 39, 36; 42, 41. Of 5248 blocks 30, 31; 33, 35.
GROUPED, GROUPS = range(512, 4097), 64


def _by_threads(kind: Fold, parts: Parts, many: int, *, abreast: int = 1) -> Parts:
    """[k, n, c] -> [k, c]: each thread goes through a block of `abreast` neighbouring columns.

    A block's rows are neighbours: to read every so many-th row, where that is a power of two, takes
    longer; us, ARGMAX of [8192, 8192] over 0 190, so 69.

    Args:
        kind: the reduction.
        parts: what is reduced.
        many: threads that are enough.
        abreast: columns of a thread; the first ones of all threads are one array, and so on.
    """
    k, n, c = parts[0].shape
    count, size = _blocks(many, k, n, c // abreast)
    end = min(count * size, n)
    are_full = end == count * size
    in_order = are_full and not kind.is_started(parts)
    shape = (k * count, size, c // abreast) if are_full else (k, n, c // abreast)
    columns = [_every(abreast, i, parts) for i in range(abreast)]
    blocks = [shaped(taken(column, 0, end), shape) for column in columns]
    blocks = [as_started(kind, block) for block in blocks]
    blocks = _looped(kind, blocks, size, in_order, count == 1)
    beside = (shaped(block, (k, count, -1, 1)) for block in blocks)
    left = shaped(joined(beside, 3), (k, count, c))
    if count == 1:
        return shaped(left, (k, c))
    # Else XLA may compute them again for each element that is made of them.
    left = lax.optimization_barrier(left)
    if in_order:
        # An index counts from its block on. Behind the barrier the kernel that reduces adds; us of
        # ARGMAX, before it and so: [8, 64, 256, 256] over (1, 2) 38.1, 37.2, FLOAT16 29.9, 28.1;
        # [4096, 4096] 21.4, 20.6, FLOAT16 17.3, 15.4.
        left = kind.located(left, [1], size)
    if count in GROUPED:
        left = _in_groups(kind, left)
    if end < n:
        left = joined([left, piece(kind, parts, end, n)], 1)
    # One thing after the other (`Fold.default` may be so) XLA would lay blocks out anew: us, an
    # extreme and its count over 1 of [8, 16384, 256] 118, 39.
    return by_pairs(kind.combine, kind.identity, left, (1,))


def _in_groups(kind: Fold, parts: Parts) -> Parts:
    """[k, n, c] -> [k, groups, c], of neighbouring rows."""
    k, n, c = parts[0].shape
    groups = next((q for q in range(GROUPS, 2 * GROUPS) if n % q == 0), n)
    return by_pairs(kind.combine, kind.identity, shaped(parts, (k, groups, n // groups, c)), (2,))


def _every(count: int, start: int, parts: Parts) -> Parts:
    """Every so many-th column, from that one on."""
    return tuple(lax.slice_in_dim(part, start, None, count, axis=2) for part in parts)


# The part of the rows that may be left, with the blocks, to the second kernel. us of ARGMAX where
# it is a 16th, filled up and so: [4093, 4099] 24, 28.
LEFT = 20
# Of more blocks than this, where there are several matrices, the second kernel takes longer: us,
# ARGMAX of FLOAT16 [32, 65536, 16] in 256 34, 512 33, 1024 40.
MOST_BLOCKS = 2**9


def _blocks(many: int, k: int, n: int, c: int) -> tuple[int, int]:
    """How many blocks a column of [k, n, c] goes in, and of how many rows.

    Together they may have less than n, the rest of which goes to the second kernel, or more, where
    the last one is filled up.
    """
    count = -(-many // (k * c))
    if count == 1 or count >= n:
        return 1, n
    if k > 1:
        count = min(count, max(MOST_BLOCKS, -(-MANY // (k * c))))
    step = THREADS // math.gcd(THREADS, k * c)
    least = -(-count // step) * step
    best = min(range(least, max(least, 4 * count) + 1, step), key=lambda q: q + n % q)
    if best + n % best <= n // LEFT:
        return best, n // best
    # Else as many as divide the rows; TB/s of [3328, 18800], with a last one that is filled up and
    # so, ARGMAX; LOG_SUM_EXP: 1.0, 2.5; 1.2, 2.6.
    even = next((q for q in range(count, min(4 * count, n + 1)) if n % q == 0), count)
    size = -(-n // even)
    return -(-n // size), size


def _looped(
    kind: Fold, blocks: Sequence[Parts], size: int, in_order: bool, are_whole: bool
) -> list[Parts]:
    """Of [k, rows, columns] each [k, blocks, columns], the last block filled with nothing.

    `in_order` says that these are single elements, in full blocks. To compare each with what came
    before needs no look at the index, as XLA's loop goes over them in this order and begins, once,
    with nothing (tests/test_reduce.py holds that of ties and NaN). A block of which none is beyond
    the identity has the index that it begins with, so that is the first.

    `are_whole` says that these are no blocks, which are reduced again: those are not kept as one
    number, of which XLA's kernel for columns is slow. us, ARGMAX of [4096, 4096] over 0, two
    arrays and so 22, 56; of [262144, 128] 43, 111.
    """
    (k, n, c), identity = blocks[0][0].shape, [*kind.identity(blocks[0][0].dtype)]
    step = kind.combine
    if in_order and kind.locates and kind.first and k * c % THREADS == 0:
        step, identity[-1] = kind.first, type(identity[-1])(0)
    over = functools.partial(
        lax.reduce_window,
        window_dimensions=[1, size, 1],
        window_strides=[1, size, 1],
        padding=[(0, 0), (0, -n % size), (0, 0)],
    )
    if are_whole and as_complex.fit(blocks[0]):
        return [as_complex.reduced(over, step, identity, block) for block in blocks]
    return _together(over, step, identity, blocks)


def _together(
    over: Callable[..., Parts], combine: Combine, identity: Sequence[Any], columns: Sequence[Parts]
) -> list[Parts]:
    """Each of the columns, reduced by pairs in one kernel."""
    size = len(columns[0])

    def apart(flat: Parts) -> list[Parts]:
        return [tuple(flat[i : i + size]) for i in range(0, len(flat), size)]

    def pair(a: Parts, b: Parts) -> Parts:
        pairs = zip(apart(a), apart(b), strict=True)
        return tuple(part for pair in pairs for part in combine(pair))

    return apart(over(sum(columns, ()), (*identity,) * len(columns), pair))


# Of longer rows narrow ones go in no more pieces than others, and what is kept of these, or of
# elements that are not combined ahead, stays two arrays. us, so and `as_complex`: ARGMAX of FLOAT32
# rows of 65536 38, 42 (of one row, of which XLA makes many, 36, 35); LOG_SUM_EXP of FLOAT16 rows of
# 65536 45, 49, of one 48, 55.
LONG_ROW = 2**14
# Into how many pieces, at most, rows of elements packed with their index go. TB/s of ARGMAX of
# 33554432 elements, packed and not: FLOAT32 rows of 96 3.3, 1.6; 200 3.3, 2.9; 521 3.2, 2.5; 1000
# 3.3, 3.0; 16411 3.5, 2.8; FLOAT16 96 2.5, 0.8; 200 2.3, 1.3; 333 2.3, 2.1; 1000 2.2, 1.9; 16411
# 2.6, 1.6; UINT8 96 2.6, 0.4; 1000 2.7, 1.0.
PACKED = 8
# 32-bit elements are neither packed nor cut in rows of these lengths, and of any multiple of
# `MULTIPLE`, as a second kernel unpacks: 333 3.2, 3.6; 512 3.4, 3.8; 4099 3.2, 3.8.
APART, MULTIPLE = (range(256, 513), range(2049, 2**14)), 512
# Rows of narrow elements that are too long for packing go as rows of this length, where it divides
# them: ARGMAX of 33554432 elements FLOAT16 2.1, 2.4; UINT8 0.9, 1.4; of 536870912 UINT8 3.5.
ROW = 2**13


def _rows(kind: Fold, narrow: bool, parts: Parts, combine: Combine) -> Parts:
    """Short ones as columns are; long ones in pieces, by the one kernel that reduces them.

    `narrow` are elements of less than 32 bits, before they are widened.
    """
    k, n, _ = parts[0].shape
    parts = shaped(parts, (k, n))
    if n <= kind.row:
        parts = as_started(kind, parts)
        return combine([taken(parts, i, i + 1) for i in range(n)])
    packing, x = kind.packing, parts[0]
    apart = n % MULTIPLE == 0 or any(n in lengths for lengths in APART)
    if packing and not kind.is_started(parts) and (narrow or not apart):
        if n <= packing.most(x.dtype):
            return packing.through(functools.partial(_long_rows, PACKED), x)
        if narrow and n % ROW == 0:
            return _by_shorter_rows(ROW, kind, parts, combine)
    most = 2 * kind.ahead - 1 if narrow and n <= LONG_ROW else kind.ahead
    return _long_rows(most, kind, parts, combine)


def _by_shorter_rows(size: int, kind: Fold, parts: Parts, combine: Combine) -> Parts:
    """By rows of so many narrow elements first. What locates is packed there, and begins at 0."""
    k, n = parts[0].shape
    ends = _rows(kind, True, shaped(parts, (k * n // size, size, 1)), combine)
    ends = kind.located(shaped(ends, (k, n // size)), [1], size)
    return _rows(kind, True, shaped(ends, (k, n // size, 1)), kind.combine)


def _long_rows(most: int, kind: Fold, parts: Parts, combine: Combine) -> Parts:
    """In at most so many pieces of each, which the kernel that reduces them combines first.

    What is kept is one number (`as_complex.apart`) where that is faster.

    A piece is a power of two long, and the last one is filled with nothing. us of LOG_SUM_EXP of
    33554432 elements, rows of up to 128 read by one thread, of others eight pieces and a rest, and
    so, on an H100: FLOAT32 rows of 64 62, 55; 100 63, 51; 256 106, 49; 521 105, 49; 4099 112, 58;
    FLOAT16 100 39, 33; 256 34, 28; 333 41, 31. On an H200: FLOAT32 64 51, 41; 256 41, 37.
    """
    (k, n), narrow = parts[0].shape, parts[0].dtype.itemsize < 4
    parts = _combined(most, kind, parts, combine)
    is_as_it_was = parts[0].shape[1] == n and k > 1
    if not as_complex.fit(parts) or (n > LONG_ROW and (narrow or is_as_it_was)):
        return shaped(kind.default(parts, (1,)), (k, 1))
    over, identity = functools.partial(lax.reduce, dimensions=[1]), kind.identity(parts[0].dtype)
    return shaped(as_complex.reduced(over, kind.combine, identity, parts), (k, 1))


# Elements that a piece of a row has at least. us, LOG_SUM_EXP of FLOAT16 rows of 64, by one thread
# and in pieces: of 4 31, 38 (H100); of 8 27, 29.
LANES = 8


def _combined(most: int, kind: Fold, parts: Parts, combine: Combine) -> Parts:
    """[k, n] -> [k, size]: pieces of each row, at most so many, combined."""
    n = parts[0].shape[1]
    size = n if most == 1 else max(1 << (-(-n // most) - 1).bit_length(), LANES)
    pieces = [piece(kind, parts, at, min(at + size, n)) for at in range(0, n, size)]
    pieces[-1] = _filled(kind, pieces[-1], size)
    return combine(pieces) if len(pieces) > 1 else pieces[0]


def _filled(kind: Fold, parts: Parts, size: int) -> Parts:
    """[k, up to size] -> [k, size]."""
    missing = size - parts[0].shape[1]
    if missing == 0:
        return parts
    identity = kind.identity(parts[0].dtype)
    around = [(0, 0, 0), (0, missing, 0)]
    return tuple(lax.pad(part, none, around) for part, none in zip(parts, identity, strict=True))

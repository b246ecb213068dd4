"""Forms of split and join for whole programs on a CPU: of matrices, whose rows the cores share."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import lax

from dml_jax.lowering.all_cores_cpu import leave_cores_idle, written_by_all_cores
from dml_jax.lowering.elementwise import unsigned, where
from dml_jax.lowering.loops_cpu import (
    UNROLLED,
    VECTORISED,
    is_little,
    is_narrow,
    is_uneven,
    long_rows,
    with_even_rows,
)
from dml_jax.lowering.stored_cpu import all_reshaped
from dml_jax.lowering.whole_programs.blocks_cpu import (
    CACHED,
    MOST_AT_ONCE,
    are_few_blocks,
    join_blocks,
)
from dml_jax.lowering.whole_programs.pieces import joined_shape, row_lengths, rows_of, shapes_of
from dml_jax.lowering.whole_programs.places_cpu import joined_by_places


def split(
    x: jax.Array, sizes: Sequence[int], axis: int, pairs: bool = False
) -> Sequence[jax.Array]:
    """`arrangement.split` on a CPU, neighbours of one size by one loop, short rows by `pairs`.

    XLA has a loop for each piece, and each reads all lines of x. Of a reduction of several arrays
    it has one: along the pieces, of as many arrays of which each has one piece among zeros, which
    are or-ed. 2 cores, jax 0.10.2, ms of 33554432 elements as slices, so, and a copy:

        pieces          2, of 128          3, of 1000         4, of 64           8, of 5
        FLOAT32   20.9, 8.3, 8.7    10.2, 9.5, 6.9   14.0, 10.2, 9.0    35.2, 8.0, 7.6
        FLOAT16    6.1, 4.0, 3.9     5.9, 4.8, 4.1     5.6, 4.9, 3.7    13.9, 4.6, 3.8
        UINT8      5.4, 1.9, 2.0     2.1, 1.6, 1.5     6.8, 1.9, 1.8     5.7, 3.2, 1.8
    """
    unit, at, made = math.prod(x.shape[axis + 1 :]), 0, list[jax.Array]()
    rows = rows_of(x, axis)
    for size, count in _neighbours(sizes):
        width = size * unit
        many = -(-count // MOST_AT_ONCE)
        for i in range(many):
            n = (count + i) // many
            piece = lax.slice_in_dim(rows, at, at + n * width, axis=1)
            made += _equal_pieces(_by_pairs(piece) if pairs and n == 1 else piece, n)
            at += n * width
    return all_reshaped(made, shapes_of(x, sizes, axis))


def has_equal_neighbours(x: Any, sizes: Sequence[int], axis: int) -> bool:
    """Whether a CPU gains by `split`, of an array or its type."""
    return math.prod(x.shape) >= CACHED and any(n > 1 for _, n in _neighbours(sizes))


def gains_by_pairs(x: Any, sizes: Sequence[int], axis: int) -> bool:
    """Whether it gains by `split` by pairs, of what a program is given.

    2 cores, jax 0.10.2, ms without and so, [16, 13, 509, 521] in 65, 228 and 228, [64, 128, 56, 56]
    in 20 and 36, and in 13, 20 and 23: FLOAT32 17, 14; 6.8, 7.3; 7.7, 7.2; FLOAT16 14, 7.3; 4.1,
    3.9; 5.6, 5.4; UINT8 6.2, 3.5; 2.8, 1.7; 3.2, 2.8. 16 cores (Intel, jax 0.11.2) 6.8, 6.6; 3.1,
    3.7; 3.4, 7.0; 5.3, 3.7; 1.9, 1.5; 4.0, 4.4; 4.6, 2.0; 1.2, 0.9; 1.5, 1.7; of 30 and 70 1.2,
    1.0; 1.2, 0.8; 0.7, 0.5; of 21 and 28 8.1, 14; 6.8, 5.9; 3.5, 3.0.
    """
    count, widths = math.prod(x.shape[:axis]), _widths(x, sizes, axis)
    are_paired = any(_are_paired((count, w)) for w in widths)
    gains = is_narrow(x) or min(widths) >= PAIRED_WIDE
    return math.prod(x.shape) >= CACHED and are_paired and gains


def gains_by_pairs_mapped(x: Any, sizes: Sequence[int], axis: int) -> bool:
    """Whether it does of what is mapped: of narrow elements, where no piece has shorter rows.

    The same behind a CLIP on two cores: FLOAT32 17, 22; 6.2, 5.5; 7.9, 7.5; FLOAT16 9.2, 8.3; 6.7,
    4.1; 7.9, 21; UINT8 3.5, 3.4; 4.8, 2.2; 4.6, 11.
    """
    is_short = min(_widths(x, sizes, axis)) < PAIRED[0]
    return is_narrow(x) and not is_short and gains_by_pairs(x, sizes, axis)


def _widths(x: Any, sizes: Sequence[int], axis: int) -> list[int]:
    """Of the pieces' rows."""
    return [size * math.prod(x.shape[axis + 1 :]) for size in sizes]


def _neighbours(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Sizes, and how many of one size follow each other."""
    return [(size, len([*run])) for size, run in itertools.groupby(sizes)]


def _equal_pieces(rows: jax.Array, count: int) -> Sequence[jax.Array]:
    """[rows, count * width] -> so many of [rows, width], by one loop."""
    if count == 1:
        return [rows]
    k, width = rows.shape[0], rows.shape[1] // count
    _, *piece = with_even_rows((k, width))
    # Not with an axis of one element, for which XLA would choose another layout.
    x = written_by_all_cores(rows.reshape(k, -1, *piece[1:])).reshape(k, count, *piece)
    number = lax.broadcasted_iota(np.int32, x.shape, 1)
    among_zeros = tuple(where(number == i, x, 0) for i in range(count))

    def either(a: jax.Array, b: jax.Array) -> jax.Array:
        bits = [lax.bitcast_convert_type(y, unsigned(y)) for y in (a, b)]
        return lax.bitcast_convert_type(bits[0] | bits[1], a.dtype)

    nothing = (x.dtype.type(0),) * count
    return lax.reduce(among_zeros, nothing, lambda a, b: (*map(either, a, b),), [1])


# Elements of a piece's row that LLVM unrolls, and of wide ones from which on pairs are as fast.
PAIRED, PAIRED_WIDE = range(16, UNROLLED.stop), 30


def _by_pairs(rows: jax.Array) -> jax.Array:
    """Short rows of a piece, two at once, of which LLVM makes vectors; others as they are.

    2 cores, jax 0.10.2, ms, of 65536 rows of 521 elements each's first w, as they are and so:

        w          16          24          36          48          65          74          75
        FLOAT32    0.55, 0.52  1.2, 0.74   1.9, 0.98   2.8, 1.3    3.0, 1.5    3.9, 1.6    1.6, 1.6
        FLOAT16    0.49, 0.24  1.1, 0.44   2.5, 0.55   2.7, 0.71   5.2, 0.94   5.4, 1.0    1.2, 1.2
        UINT8      0.21, 0.14  0.28, 0.19  1.0, 0.48   1.3, 0.46   3.1, 0.64   1.6, 0.69   0.7, 0.8

    Rows of 77 to 1024 gain as much or are level (but of 256 FLOAT16 up to 0.6).
    """
    if not _are_paired(rows.shape):
        return rows
    count, width = rows.shape
    pairs = rows.reshape(count // 2, 2, width)
    both = [lax.index_in_dim(pairs, i, 1, keepdims=False) for i in range(2)]
    return joined_by_places(both, rows.shape)


def _are_paired(shape: Sequence[int]) -> bool:
    """Whether rows of a piece go by pairs, in such a matrix."""
    count, width = shape
    return width in PAIRED and count % 2 == 0 and not is_little(shape)


def join(xs: Sequence[jax.Array], axis: int) -> jax.Array:
    """`arrangement.join` on a CPU, of matrices: the cores share their rows evenly.

    2 cores, jax 0.10.2, GB/s moved, `lower` and this, last axis: FLOAT32 [5, 13, 509, 521] 21, 26;
    [8, 64, 256, 256] 23, 29; FLOAT16 25, 32. First axis: FLOAT32 [8, 64, 256, 256] 25, 28 (as one
    row 21); [2, 64, 512, 512] 20, 30 (20); UINT8 (20) 27.

    Of others than a program has been given XLA makes a loop, which LLVM does not vectorise where a
    row of a piece is short. GB/s, as matrices and as they are, [256, .., n] along the last axis, of
    23, 32 and 22 FLOAT32 6, 18, FLOAT16 8, 21, UINT8 14, 23; of 36 and 76 10, 25; 9, 19; 17, 34; of
    40, 40, 40 and 41, and of longer ones, level.

    Where XLA leaves cores idle its copies have few too. 16 cores (jax 0.11.2), ms of pieces of 8,
    28 and 28 along axis 1 of [8, 64, 256, 256] FLOAT32 6.6, in a loop 2.6; FLOAT16 3.3, 1.1; UINT8
    1.4, 0.5; of 32, 112 and 112 along axis 2 7.0, 2.9; along the last 7.4, 13; but two of 128, in
    blocks, 8.2, 2.9; UINT8 1.1, 0.5.
    """
    shape = joined_shape(xs, axis)
    behind = long_rows(shape, axis)
    if leave_cores_idle() and behind is not None:
        return _joined_by_all_cores(xs, axis)
    if leave_cores_idle() and are_few_blocks(xs, axis):
        return join_blocks(xs, axis)
    if min(row_lengths(xs, axis)) < VECTORISED:
        return lax.concatenate(xs, axis)
    if behind is None or math.prod(shape[:axis]) > 1:
        return lax.concatenate([rows_of(x, axis) for x in xs], 1).reshape(shape)
    return lax.concatenate([rows_of(x, behind) for x in xs], 0).reshape(shape)


def join_computed(xs: Sequence[jax.Array], axis: int) -> jax.Array:
    """`arrangement.join` on a CPU of what is computed: by blocks, if they are few."""
    return join_blocks(xs, axis) if are_few_blocks(xs, axis) else _joined_by_all_cores(xs, axis)


def _joined_by_all_cores(xs: Sequence[jax.Array], axis: int) -> jax.Array:
    """Joined in one loop, where XLA would copy what is given."""
    size = sum(x.size for x in xs)
    return lax.concatenate([written_by_all_cores(x, size=size) for x in xs], axis)


# Elements of a piece's row from which it is mapped before the JOIN, unless along the last axis. ms
# of FLOAT32, behind it and so, [8, 1024, 255] and [8, 1026, 255] over 1 1.2, 0.9; [40, 100003] and
# [40, 100005] 2.9, 3.9.
LONG = 2**15


def gains_computed(types: Sequence[Any], axis: int) -> bool:
    """Whether a CPU gains by `join_computed`, of what has these types and is mapped behind it.

    XLA stores a concatenation that is read twice, as CLIP does. 2 cores, jax 0.10.2, GB/s moved,
    JOIN and CLIP as XLA has it, and pieces mapped before they are joined, of FLOAT32; FLOAT16;
    UINT8: two of [8, 32, 128, 256] over 1 26, 44; 30, 51; 38, 63; two of 8388608 26, 43; 25, 41;
    37, 59; eight of [8, 8, 128, 256] over 1 28, 47; 37, 48; 45, 62; but 16 of [8, 4, 128, 256] 30,
    23; 35, 22; 51, 34.
    """
    if are_few_blocks(types, axis):
        return True
    shape = joined_shape(types, axis)
    if math.prod(shape) < CACHED or len(types) > MOST_AT_ONCE or is_uneven(shape):
        return False
    long = axis < len(shape) - 1 and min(row_lengths(types, axis)) > LONG
    return long or long_rows(shape, axis) is not None

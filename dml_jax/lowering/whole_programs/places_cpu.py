"""Pieces joined on a CPU by a loop over the places of a row, or over blocks as long as all divide.

Of a concatenation XLA asks for each element in which piece it is, and LLVM vectorises nothing of
what is computed in the same loop; of `joined_by_places` it does. 2 cores (AMD EPYC with AVX-512),
jax 0.10.2, ms, SPLIT, CLIPs and JOIN along the last axis, as a concatenation, in the package's
forms until then, and so; a CLIP of long rows:

    pieces of     85, 85, 86          33, 33              23, 32, 22          13, 13
    rows of these 131072              409600              358400              425984
    FLOAT32  26, 28, 7.7; 7.8  24, 6.2, 6.1; 6.2   35, 36, 6.3; 6.2  7.8, 3.8, 3.7; 3.7
    FLOAT16  15, 18, 6.8; 3.5  18, 17, 3.2; 3.0    22, 22, 3.1; 3.0  7.8, 7.5, 1.5; 1.4
    UINT8    8.2, 7.2, 2.2; 1.8  44, 43, 1.2; 1.0  44, 44, 1.8; 1.6   18, 5.9, 0.7; 0.7

Over an axis before the last the row is all behind it: 10 and 16 of [64, 256, 26, 26] over axis 2
FLOAT32 12, 11, 4.0; FLOAT16 19, 5.1, 3.0; UINT8 18, 1.7, 1.6. Eight pieces of 19 to 45 FLOAT32 35,
35, 18; FLOAT16 84, 80, 25; UINT8 45, 46, 1.9.

Whose a place is LLVM asks once a row where that is short, as it unrolls it then, else of each
vector. Where blocks of one size make up all pieces it asks once a block. The same of 31 million
elements, as a concatenation, by places, by blocks, and a CLIP of long rows; of a SPLIT, and of
three arrays:

    rows of       3000, 5000           2800, 1600, 3500; of arrays           85, 170
    FLOAT32  19, 11, 8.9; 8.3    22, 9.3, 8.7;  17, 11, 8.9           11, 4.2, 3.3
    FLOAT16  15, 15, 4.1; 5.6    14, 12, 4.5;   11, 15, 4.8           6.0, 8.2, 2.1
    UINT8    7.8, 10, 3.1; 2.7   8.4, 8.7, 1.9; 5.2, 8.5, 2.1         3.3, 4.3, 0.9
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import lax

from dml_jax.lowering.all_cores_cpu import leave_cores_idle, written_by_all_cores
from dml_jax.lowering.loops_cpu import VECTORISED, is_little, is_narrow, is_uneven
from dml_jax.lowering.stored_cpu import reshaped
from dml_jax.lowering.whole_programs.blocks_cpu import MOST_AT_ONCE, are_few_blocks
from dml_jax.lowering.whole_programs.pieces import joined_shape, row_lengths, rows_of

# Elements of a row from which on narrow ones gain: LLVM unrolls rows of 9 to 11. ms, 800000 of
# FLOAT16; UINT8, in the forms until then and so, of 10 7, 24; 5.5, 14; of 12 8.7, 2.4; 6.1, 1.5.
SHORTEST = 12
# And to which, by the bytes of one. ms, rows of 521 FLOAT32 7.3, 2.3; FLOAT16 2.8, 2.4; UINT8 1.4,
# 1.5; of 4100 5.1, 2.3; 3.1, 1.9; of 12544 14.7, 11.4; 8.7, 12.8; of 131072 10.8, 14.4; SPLIT,
# CLIPs and JOIN of 521 FLOAT16 7.9, 4.3, of 2048 14, 9.0, but CLIPs of two arrays in rows of 800
# 12, 15. (Of eight bytes in as much memory as of four.)
LONGEST = {1: 2**9, 2: 2**12, 4: 2**14, 8: 2**13}
# Pieces that go by blocks. ms of 16000000 elements, as XLA has them, by `blocks_cpu`, and so, CLIPs
# of five of 100 FLOAT32 8.9, 2.4, 2.9; FLOAT16 9.2, 1.8, 3.1; UINT8 2.3, 0.7, 1.2; of six 7.7, 2.4,
# 4.8; 6.6, 1.7, 4.4; 2.6, 0.7, 1.5. (Of four of 64 a SPLIT, CLIPs and JOIN FLOAT16 11, 4.0, 3.8;
# but on 16 cores of an Intel 2.1, 4.6, FLOAT32 3.5, 5.4, so that few blocks are left to those.)
MOST_IN_BLOCKS = 4
# And the elements of a block to which they gain. ms of 33554432 UINT8, as XLA has them and so, of
# CLIPs of 1, 6 and 6 blocks of 1001 2.8, 1.7; of 10000 1.8, 1.7; of 65536 1.6, 1.7; of three
# times as many in blocks of 265189 4.1, 4.6; FLOAT16 of 1001 6.0, 3.8; of 10000 3.9, 3.6.
LONGEST_BLOCK = 2**15
# Rows that LLVM unrolls wholly, up to five pieces of which go by places also where they are few
# blocks. ms of 8000000 elements, by these and so, 14 and 42 FLOAT16 23, 0.7; UINT8 7.1, 0.5; 32 and
# 96 24, 1.9; 0.8, 0.9; five of 30 9.2, 2.1; 1.9, 0.9; 96 and 160 1.9, 5.1; 0.7, 0.9; of half as
# many FLOAT32 28 and 28 1.4, 1.1; 16 and 48 1.1, 0.9; 32 and 96 2.6, 3.3.
UNROLLED_TO, MOST_UNROLLED = {1: 160, 2: 160, 4: 74, 8: 74}, 5


def join_computed(xs: Sequence[jax.Array], axis: int) -> jax.Array:
    """`arrangement.join` on a CPU, of few pieces, by the places of a row or of its blocks."""
    rows = [rows_of(x, axis) for x in xs]
    return joined_by_places(rows, joined_shape(xs, axis), _block(xs, axis))


def gains_computed(types: Sequence[Any], axis: int) -> bool:
    """Whether a CPU gains by `join_computed`, of what has these types and may be mapped."""
    shape, first = joined_shape(types, axis), types[0]
    rows = math.prod(shape[:axis]), math.prod(shape[axis:])
    one_row = rows[0] == 1  # of which XLA's own concatenation is a loop
    if one_row or is_little(shape) or is_uneven(rows) or not 1 < len(types) <= MOST_AT_ONCE:
        return False
    width, are_few = first.dtype.itemsize, are_few_blocks(types, axis)
    in_blocks = 1 < _block(types, axis) <= LONGEST_BLOCK and len(types) <= MOST_IN_BLOCKS
    if in_blocks and not are_few:
        return True
    if rows[1] < (SHORTEST if is_narrow(first) else 2) or width not in LONGEST:
        return False
    if are_few:
        return rows[1] <= UNROLLED_TO[width] and len(types) <= MOST_UNROLLED
    return rows[1] <= LONGEST[width] or _gains_in_rows_of_any_length(first)


def gains_given(types: Sequence[Any], axis: int) -> bool:
    """Whether it does of what a program is given, which XLA copies, by few of many cores.

    2 cores, jax 0.10.2, GB/s moved, JOIN of 23, 32 and 22 along the last axis as XLA copies it and
    so, FLOAT32 18, 26; FLOAT16 21, 28; UINT8 23, 32; of 65, 228 and 228 16, 27; 27, 17; 33, 14. 16
    cores (Intel, jax 0.11.2) 14, 66; 12, 84; 21, 94; of the others 28, 71; 25, 61; 27, 28.
    """
    has_short_rows = min(row_lengths(types, axis)) < VECTORISED
    return (has_short_rows or leave_cores_idle()) and gains_computed(types, axis)


def _gains_in_rows_of_any_length(x: Any) -> bool:
    """Whether all cores are worth more than plain loads, where XLA would leave some idle.

    16 cores (Intel, jax 0.11.2), ms as XLA has it and so, a JOIN of 3003 and 4997, and with CLIPs;
    of 300003 and 499997: FLOAT32 7.8, 3.0; 16, 3.7; 8.0, 4.7; 13, 3.8; FLOAT16 3.6, 1.7; 6.4, 1.9;
    3.7, 2.4; 5.1, 2.1; UINT8 1.9, 2.0; 2.7, 1.9; 1.9, 2.4; 2.5, 2.0.
    """
    return leave_cores_idle() and x.dtype.itemsize > 1


def _block(xs: Sequence[Any], axis: int) -> int:
    """The elements of blocks that make up a row of each piece; 1, if LLVM would unroll them."""
    size = math.gcd(*row_lengths(xs, axis))
    return size if size >= VECTORISED else 1


def joined_by_places(rows: Sequence[jax.Array], shape: Sequence[int], size: int = 1) -> jax.Array:
    """Matrices side by side, in that shape, by a loop over the places of a row.

    Of single elements, or of blocks of that size, of which each matrix has some in a row.

    Each is padded to the whole row, and a place's number says whose it is: loads what a mask tells.
    Of two LLVM would make one load, from either, and no vector: the wider goes as two. 2 cores, jax
    0.10.2, ms, of 100 and 37 columns, 153600 rows, FLOAT32 6.0, 5.1; FLOAT16 6.0, 2.8; UINT8 7.2,
    1.4.
    """
    pieces = [x.reshape(x.shape[0], -1, size) if size > 1 else x for x in rows]
    widest = max(range(len(pieces)), key=lambda i: pieces[i].shape[1])
    width = pieces[widest].shape[1]
    if len(pieces) == 2 and size == 1 < width:
        halves = lax.split(pieces[widest], (width // 2, width - width // 2), 1)
        pieces = [*pieces[:widest], *halves, *pieces[widest + 1 :]]
    ends = [*itertools.accumulate(x.shape[1] for x in pieces)]
    *others, joined = map(_padded, pieces, ends, itertools.repeat(ends[-1]))
    place = lax.broadcasted_iota(np.int32, joined.shape, 1)
    # The first outermost: ms, five pieces of UINT8 2.1, as a tree 2.4, the last outermost 13.
    for x, end in zip(reversed(others), reversed(ends[:-1]), strict=True):
        joined = lax.select(place < end, x, joined)
    return reshaped(written_by_all_cores(joined), shape)


def _padded(piece: jax.Array, end: int, width: int) -> jax.Array:
    """Among so many places, of which they are what ends there."""
    around = end - piece.shape[1], width - end, 0
    return lax.pad(piece, piece.dtype.type(0), [(0, 0, 0), around, (0, 0, 0)][: piece.ndim])

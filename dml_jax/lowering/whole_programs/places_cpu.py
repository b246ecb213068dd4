"""Short rows of pieces, joined on a CPU by a loop over the places of a row.

Of a concatenation XLA asks for each element in which piece it is, and LLVM vectorises nothing of
what is computed in the same loop; of `pieces_cpu.joined_by_places` it does. 2 cores (AMD EPYC with
AVX-512), jax 0.10.2, ms, SPLIT, CLIPs and JOIN along the last axis, as a concatenation, in the
package's forms until then, and so; a CLIP of long rows:

    pieces of     85, 85, 86          33, 33              23, 32, 22          13, 13
    rows of these 131072              409600              358400              425984
    FLOAT32  26, 28, 7.7; 7.8  24, 6.2, 6.1; 6.2   35, 36, 6.3; 6.2  7.8, 3.8, 3.7; 3.7
    FLOAT16  15, 18, 6.8; 3.5  18, 17, 3.2; 3.0    22, 22, 3.1; 3.0  7.8, 7.5, 1.5; 1.4
    UINT8    8.2, 7.2, 2.2; 1.8  44, 43, 1.2; 1.0  44, 44, 1.8; 1.6   18, 5.9, 0.7; 0.7

Over an axis before the last the row is all behind it: 10 and 16 of [64, 256, 26, 26] over axis 2
FLOAT32 12, 11, 4.0; FLOAT16 19, 5.1, 3.0; UINT8 18, 1.7, 1.6. Eight pieces of 19 to 45 FLOAT32 35,
35, 18; FLOAT16 84, 80, 25; UINT8 45, 46, 1.9.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax

from dml_jax.lowering.all_cores_cpu import leave_cores_idle
from dml_jax.lowering.loops_cpu import VECTORISED, is_little, is_narrow, is_uneven
from dml_jax.lowering.stored_cpu import reshaped
from dml_jax.lowering.whole_programs.pieces import joined_shape, rows_of
from dml_jax.lowering.whole_programs.pieces_cpu import (
    MOST_AT_ONCE,
    are_few_blocks,
    joined_by_places,
)

# Elements of a row from which on narrow ones gain: LLVM unrolls rows of 9 to 11. ms, 800000 of
# FLOAT16; UINT8, in the forms until then and so, of 10 7, 24; 5.5, 14; of 12 8.7, 2.4; 6.1, 1.5.
SHORTEST = 12
# And to which, by the bytes of one. ms, rows of 521 FLOAT32 7.3, 2.3; FLOAT16 2.8, 2.4; UINT8 1.4,
# 1.5; of 4100 5.1, 2.3; 3.1, 1.9; of 12544 14.7, 11.4; 8.7, 12.8; of 131072 10.8, 14.4. (Of eight
# bytes in as much memory as of four.)
LONGEST = {1: 2**9, 2: 2**12, 4: 2**14, 8: 2**13}


def join_computed(xs: Sequence[jax.Array], axis: int) -> jax.Array:
    """`arrangement.join` on a CPU, of few pieces in short rows."""
    return reshaped(joined_by_places([rows_of(x, axis) for x in xs]), joined_shape(xs, axis))


def gains_computed(types: Sequence[Any], axis: int) -> bool:
    """Whether a CPU gains by `join_computed`, of what has these types and may be mapped."""
    shape, first = joined_shape(types, axis), types[0]
    rows = math.prod(shape[:axis]), math.prod(shape[axis:])
    if is_little(shape) or is_uneven(rows) or are_few_blocks(types, axis):
        return False
    shortest = SHORTEST if is_narrow(first) else 2
    is_short = shortest <= rows[1] <= LONGEST.get(first.dtype.itemsize, 0)
    return is_short and 1 < len(types) <= MOST_AT_ONCE


def gains_given(types: Sequence[Any], axis: int) -> bool:
    """Whether it does of what a program is given, which XLA copies, by few of many cores.

    2 cores, jax 0.10.2, GB/s moved, JOIN of 23, 32 and 22 along the last axis as XLA copies it and
    so, FLOAT32 18, 26; FLOAT16 21, 28; UINT8 23, 32; of 65, 228 and 228 16, 27; 27, 17; 33, 14. (It
    is not measured that more cores do as much each; of 16 XLA has four copy.)
    """
    has_short_rows = min(math.prod(x.shape[axis:]) for x in types) < VECTORISED
    return (has_short_rows or leave_cores_idle()) and gains_computed(types, axis)

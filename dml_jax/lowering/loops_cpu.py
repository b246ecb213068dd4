"""What XLA and LLVM make of a loop on a CPU, as the sizes of its axes tell.

XLA loops over the axes of what it computes, and gives each core an equal part of the outermost.
Where that is the only one, and the parts do not come out even, every element is tested for the end,
and LLVM does not vectorise that. Nor does it vectorise a short innermost loop, which it unrolls.
"""

import math
from collections.abc import Sequence
from typing import Any

from dml_jax.host import cores

CORES = cores()
# Elements up to which one core does it, or the dispatch is what counts.
LITTLE = 2**15
# Bytes of elements for which it is worth much that a loop is vectorised.
NARROW = 2
# Numbers of rows to try, in this order: up to more than most machines have cores, else more yet. A
# row has no fewer elements. ms, CLIP of 131 * 256163, 1009 * 33247 and 8111 * 4139 elements, as it
# is and so: UINT8 8.2, 1.6; 8.0, 1.7; 8.4, 1.6; FLOAT16 4.9, 3.6; 4.7, 3.6; 4.9, 3.6; FLOAT32 9.9,
# 7.0; 8.1, 10; 14, 7.7.
ROWS = (*range(2**7, 1, -1), *range(2**7 + 1, 2**13))
# Rows whose loop LLVM unrolls wholly, elements one by one, and does not vectorise; of 75 it does
# not unroll it. Shorter ones it vectorises with the axis before them, but for one of so few
# elements too: ns a byte, UINT8 clipped as it is, and over long rows, [.., 3] 0.03, 0.04, [.., 63,
# 3, 3] 0.57, 0.03; FLOAT16 0.10, 0.03.
UNROLLED = range(9, 75)
# Of what is cut or joined it vectorises rows from here on, and of shorter ones than it unrolls
# those of a multiple of four. GB/s, FLOAT16, CLIPs joined of [.., 14, n], n of 36, 40, 44, 63, 64:
# 3, 38, 36, 24, 46; of [.., n, 7], n of 7, 8, 11, 16, 17, 20, 30, 64: 3, 47, 3, 46, 27, 42, 11, 45.
VECTORISED, EVEN = 40, 4
# Elements of a row that is copied as fast as any longer one.
LONG = 2**8


def is_little(shape: Sequence[int]) -> bool:
    """Whether an array of this shape is too small to choose its loops."""
    return math.prod(shape) <= LITTLE


def is_narrow(x: Any) -> bool:
    """Whether the elements of an array or its type are."""
    return x.dtype.itemsize <= NARROW


def inner_loops(shape: Sequence[int]) -> tuple[int, int]:
    """The sizes of the last two axes of more than one element, 1 where there are none."""
    before, last = [1, 1, *(n for n in shape if n > 1)][-2:]
    return before, last


def are_short(loops: Sequence[int]) -> bool:
    """Whether LLVM does not vectorise what is cut or joined by a loop over such axes."""
    before, row = inner_loops(loops)
    if row < UNROLLED[0]:
        return before <= UNROLLED[-1] and before % EVEN > 0
    return row < VECTORISED


def long_rows(shape: Sequence[int], axis: int = 0, least: int | None = None) -> int | None:
    """The last axis behind this one from which on a row has `least` elements, if there is one.

    Not told otherwise, `LONG`.
    """
    axes, least = range(len(shape) - 1, axis, -1), least or LONG
    return next((d for d in axes if math.prod(shape[d:]) >= least), None)


def is_uneven(shape: Sequence[int]) -> bool:
    """Whether a loop over such axes is one that cores cannot share evenly."""
    size, (_, last) = math.prod(shape), inner_loops(shape)
    return not is_little(shape) and size // last < CORES and last % CORES > 0


def even_rows(shape: Sequence[int]) -> int | None:
    """In how many rows the last axis of such a loop goes, which cores can share.

    None of a prime, twice one and the like, and where the loop is even. How many there are makes
    little difference: of CLIPs three take two cores as long as 128 do.
    """
    if not is_uneven(shape):
        return None
    _, last = inner_loops(shape)
    shared = (rows for rows in ROWS if CORES <= rows <= last // rows and last % rows == 0)
    return next(shared, None)


def with_even_rows(shape: Sequence[int]) -> tuple[int, ...]:
    """Such axes with the last as rows, if there are `even_rows`; else as they are."""
    *outer, last = shape
    rows = even_rows(shape) if last > 1 else None
    return (*outer, rows, last // rows) if rows else (*outer, last)


def even_loops(shape: Sequence[int]) -> tuple[int, int] | None:
    """The axes of such a loop, with the last as rows; None where there are no `even_rows`.

    2 cores, jax 0.10.2, GB/s of CLIPs of [999999, 33] as one axis and so UINT8 17, 41, FLOAT16 16,
    39, FLOAT32 19, 39.
    """
    rows = even_rows(shape)
    if rows is None:
        return None
    row = inner_loops(shape)[1] // rows
    return math.prod(shape) // row, row

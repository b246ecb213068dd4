"""Reductions on a CPU: columns by blocks that are combined elementwise, rows in one pass.

XLA fuses both with what makes the input, and vectorises them.
"""

import functools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from dml_jax.lowering import loops_cpu
from dml_jax.lowering.all_cores_cpu import read_by_all_cores
from dml_jax.lowering.axes import Axes, Parts, restored
from dml_jax.lowering.folds.fold import (
    LITTLE,
    Combine,
    Fold,
    InTurn,
    as_started,
    at_once,
    by_pairs,
    ends_in_rows,
    joined,
    moved,
    run_by_run,
    runs_of,
    shaped,
    taken,
)
from dml_jax.lowering.folds.packed import Packing
from dml_jax.lowering.loops_cpu import even_rows
from dml_jax.lowering.stored_cpu import in_memory, reshaped, stored
from dml_jax.lowering.wide import wide


def fold(kind: Fold, x: jax.Array, axes: Axes) -> Parts:
    """What is asked of what `kind` keeps of the elements along `axes`."""
    return kind.asked(_kept(kind, x, axes))


def _kept(kind: Fold, x: jax.Array, axes: Axes) -> Parts:
    if x.size <= LITTLE and kind.rounds:
        # It keeps NaN, and compiles in half the time: SUM 52 ms, 20; LOG_SUM_EXP 110, 65.
        return kind.plain(x, axes)
    if kind.on_cpu:
        other, parts_of = kind.on_cpu
        return parts_of(*_kept(other, x, axes))
    if x.size <= LITTLE:
        packing = _packing(kind, (x,))
        stage = at_once(axes)
        return packing.through(stage, x) if packing else stage(kind, (x,), kind.combine)
    if kind.in_turn and not ends_in_rows(x.shape, axes):
        return _in_one_loop(kind, x, axes) or _in_turn(kind.in_turn, x, axes)
    kept = [a for a, size in enumerate(x.shape) if size > 1 and a not in axes]
    row = x.shape[kept[-1] + 1 if kept else 0 :]
    columns, rows = functools.partial(_columns, kind), functools.partial(_evenly, kind, row)
    # Runs that XLA puts in one loop are of too many slices to fuse what makes x, and it computes
    # some of them many times over. GB/s read over (0, 2) of [64, 256, 14, 14] in one and so, SUM
    # FLOAT32 11, 44; FLOAT16 3, 45; SUM_SQUARE 7, 40; MAX 13, 25; LOG_SUM_EXP 3, 14; over (0, 3) of
    # [28, 128, 80, 8] L2 14, 30; FLOAT16 7, 17; but SUM 40, 32. (172 reductions over two runs 1.2
    # times as fast.) What rows in one pass leave, and ARGMAX, lose a twentieth.
    rows_in_one_pass = ends_in_rows(x.shape, axes) and math.prod(row) > _short_row(kind)
    is_stored = not kind.locates and (kind.reads_twice or not rows_in_one_pass)
    between = in_memory if is_stored else tuple
    parts = run_by_run(kind, (x,), axes, columns, rows, between)
    return _in_long_loops(kind, x, axes, parts)


def _in_one_loop(kind: Fold, x: jax.Array, axes: Axes) -> Parts | None:
    """Both of two things that are kept; None of columns that cannot be cut so.

    XLA's CPU has a loop for each of two results, but of one reduction one for both. So blocks of a
    column are combined in two sets or more, and these by a reduction, which LLVM unrolls. The whole
    gradient, 2 cores, jax 0.10.2, ms, in turn and so, MAX; LOG_SUM_EXP of FLOAT32: [8, 64, 256,
    256] over 0 24, 18; 28, 26; over 1 20, 16; 23, 20; over (1, 2) 19, 14; 22, 21; [200000, 16, 4]
    over 1 15, 6; 31, 13; [8388608, 3] over 0 24, 12; 69, 14. It compiles in 0.5 to 0.8 of it.
    """
    cuts = [_cuts(n) for n, reduced in runs_of(x.shape, axes) if reduced]
    if not all(cuts) or cuts[-1][0][1] == 1:
        return None

    def columns(parts: Parts, combine: Combine) -> Parts:
        k, n, c = parts[0].shape
        for sets, each in _cuts(n):
            n //= sets * each
            blocks = shaped(parts, (k, sets, each, n * c))
            slices = [_read(taken(blocks, i, i + 1, 2), parts) for i in range(each)]
            if not kind.is_started(parts):
                slices = [kind.start(*one) for one in slices]
            both = shaped(combine(slices), (k, sets, n * c))
            parts, combine = by_pairs(kind.combine, kind.identity, both, (1,)), kind.combine
        return shaped(parts, (k, c))

    return run_by_run(kind, (x,), axes, columns, columns)


def _read(some: Parts, whole: Parts) -> Parts:
    """Some of what a loop reads all of, on all cores; the little that is left over as it is.

    (Each slice by itself: what computes all of them XLA would store, or count once for each loop.)
    """
    part, size = some[0].size, whole[0].size
    if part * STORED_AT_ONCE < size:
        return some
    # Such slices may be half of what is there, of which XLA counts every byte.
    return read_by_all_cores(some, size, times=1 if part * FUSED_AT_ONCE >= size else 2)


# Where one loop keeps two things it combines so many at once (MAX and a count of columns of 64, in
# turn 12 ms, of 64 at once 57), and so many of these by pairs, which LLVM unrolls (the gradient of
# LOG_SUM_EXP of 11 28 ms, of 13 150). Not single elements, as pairs take more exponentials (of 5 in
# turn 27 ms, by pairs 32).
AT_ONCE, MOST_SETS = 24, 11


def _cuts(n: int) -> list[tuple[int, int]]:
    """Of how many sets of how many blocks each loop makes one; none where a prime is in the way."""
    cuts: list[tuple[int, int]] = []
    while n > 1:
        size = next((size for size in range(AT_ONCE, 1, -1) if n % size == 0), 1)
        sets = next((sets for sets in range(2, MOST_SETS + 1) if size % sets == 0), None)
        if sets is None:
            return []
        cuts.append((sets, size // sets))
        n //= size
    return cuts


def _in_turn(two: InTurn, x: jax.Array, axes: Axes) -> Parts:
    """The first of the whole, stored; then the second, of what elements are beside it.

    XLA's CPU has a loop for each of two things that are kept, and would combine both in each.
    """
    (first,) = stored(fold(two.first, x, axes))
    elements = two.beside(x, restored(first, axes))
    return wide(first), *stored(fold(two.second, elements, axes))


# Up to so many columns a loop goes over all elements of a block, since LLVM vectorises the
# innermost one alone: LOG_SUM_EXP of [4228, 256, 31] 27 ms, 8.3. Of more it gains less (47 36, 8.8;
# 256 nothing), and what repeats along the axis takes longer so: x - m of [259, 64, 1009] 9, 46.
SHORT_LOOP = 32


def _in_long_loops(kind: Fold, x: jax.Array, axes: Axes, parts: Parts) -> Parts:
    """What is left of x, by a loop over several of its axes, or all, as one.

    XLA would loop over each, the last in vectors. ms, so and as here: LOG_SUM_EXP of [1048576, 2,
    9] over 2 44, 6.5, of [4, 21, 4000, 30] over 1 5.4, 2.6; MAX of FLOAT16 [881449, 3, 4] over 2
    5.8, 1.1. An odd number of short rows is two loops in one: LOG_SUM_EXP of [3, 881449, 4] 35,
    4.9, MAX of FLOAT16 3.6, 1.1, ARGMAX 9.0, 3.9. LLVM unrolls a loop over two or three columns of
    exponentials: [524288, 8, 2] over 1 21, 3.3, [246723, 17, 2] 21, 12, [246723, 17, 3] 8, 6.

    Where cores share rows evenly, what does not read twice gains nothing by it (SUM of FLOAT32
    [1048576, 2, 4] 1.9, 2.6), but by a loop that has what becomes of narrow results, too
    (`by_other_loops`).
    """
    first = min(a for a in axes if x.shape[a] > 1)
    before = [size for size in x.shape[:first] if size > 1]
    behind = [n for a, n in enumerate(x.shape) if n > 1 and a > first and a not in axes]
    k, c = math.prod(before), math.prod(behind)
    n = x.size // (k * c)
    if kind.logarithm and c in (2, 3) and k * c % loops_cpu.CORES == 0:
        flat = (k * c,)
    elif len(behind) > 1 and kind.reads_twice and behind[-1] < SHORT_LOOP:
        flat = (k, c)
    elif not behind and len(before) > 1 and n <= _short_row(kind):
        is_long = before[-1] >= SHORT_LOOP or not kind.reads_twice
        if k % loops_cpu.CORES == 0 and is_long:
            return parts
        flat = (k,)
    else:
        return parts
    return tuple(reshaped(part.reshape(flat), part.shape) for part in parts)


# Up to this the elements of a row are combined like blocks. ms, 33554432 elements in one pass, and
# so: rows of 2 SUM 32, 28, LOG_SUM_EXP 137, 33, ARGMAX 83, 26; of 6 5.1, 4.2; 74, 10; 36, 5.1; of
# 12 5.3, 4.5; 70, 12; 37, 6.8.
SHORT_ROW = 12
# The same of LOG_SUM_EXP; rows of 16 and more in two stages. ms of 8388608 elements, FLOAT16;
# FLOAT32, rows of 13 9.3, 2.8; 3.7, 2.5; of 23 10.6, 2.9; 3.2, 2.5; but of 24 5, 20. Its gradient
# keeps two things: of 13 7.2, 27.
SHORT_LOGARITHM = 23


def _short_row(kind: Fold) -> int:
    """Up to how many elements of a row are combined like blocks."""
    return SHORT_LOGARITHM if kind.logarithm else SHORT_ROW


# Of longer rows an uneven number costs less than to put two parts together. ms of 8388608 elements,
# as they are and in parts: SUM of FLOAT32, rows of 24 2.8, 1.7; of 40 1.4, 1.4; L2 of FLOAT16, rows
# of 24 12, 1.5; of 64 0.48, 0.63.
UNEVEN_ROW = 48
# Behind a producer XLA fuses up to 15 slices: of these many there can be two sets. ms of a clip and
# SUM of an odd number of rows, in one pass and so, FLOAT32 of 7 2.0, 1.4; of 8 1.8, 3.4; FLOAT16 of
# 7 1.5, 0.9; of 8 2.0, 20.
TWO_SETS = 7


def _evenly(kind: Fold, sizes: Sequence[int], parts: Parts, combine: Combine) -> Parts:
    """Rows, and where that is faster, the last few of them by themselves.

    XLA gives each core an equal part of a loop's outermost dimension, rounded up. Where that does
    not come out even, every turn of an inner loop tests whether it is beyond the end, and little is
    vectorised. ms, as they are, and as what the cores divide, then the rest: an odd number of rows
    of 6 MAX 15, 5, LOG_SUM_EXP 75, 11, ARGMAX 29, 6; of 16 MAX 16, 5, ARGMAX 35, 7. Not so of
    columns: results of several axes come out even, and putting them together stores them twice.

    And XLA stores what makes x where two passes read just that, and not slices of it or another
    shape. ms, LOG_SUM_EXP of [131072, 256] behind a clip 37, and so 9; of [131073, 253] 43, 11. Of
    x as it is 8 to 10 both ways.

    `sizes` are of the axes that make up a row.
    """
    k, n, _ = parts[0].shape
    rest, in_two_passes = k % loops_cpu.CORES, _in_two_passes(kind, parts)
    most = _short_row(kind) if in_two_passes or rest == 0 else TWO_SETS
    are_short = n <= most
    form = _columns if are_short else functools.partial(_rows, sizes=sizes)
    if not are_short and in_two_passes:
        rest = min(rest or loops_cpu.CORES, k - 1)
    elif n > UNEVEN_ROW:
        rest = 0
    if rest in (0, k):
        return form(kind, parts, combine)
    ends = [taken(parts, 0, k - rest, 0), taken(parts, k - rest, k, 0)]
    ends = [form(kind, end, combine) for end in ends]
    if are_short and n > TWO_SETS:
        ends = in_memory(ends)  # LOG_SUM_EXP of an odd number of rows of 9 29 ms, 13
    return joined(ends, 0)


# float32, 2 cores, jax 0.10.2, ms: XLA's own sum and this; then both behind a clip, which XLA's
# cannot fuse. [8, 4194304] over the first axis 182, 4.2; 405, 5.0. [1024, 32768] 129, 9.3; 285,
# 9.3. [4096, 4096] 3.2, 3.4; 18, 2.6. [8, 64, 65536] over the middle 10, 9.4; 83, 12. [512, 256,
# 256] 7.2, 7.2; 40, 16. With 16 blocks XLA does not fuse the producer.
BLOCKS = 12
# Up to so many are combined at once. In two stages and so, LOG_SUM_EXP of [8, 15, 131072] over 1
# 6.3, 3.9; of [15, 1118481] over 0, and behind a clip, SUM 1.60, 1.36; 1.66, 1.31; MAX 2.04, 1.77;
# 1.78, 1.42; MULTIPLY of FLOAT16 0.95, 0.65; of INT32 1.47, 1.13; 1.76, 1.32 (63 cells 0.84).
FUSED_AT_ONCE = 15
# And of what is stored, which has no producer.
STORED_AT_ONCE = 24


def _columns(kind: Fold, parts: Parts, combine: Combine) -> Parts:
    """Short ones at once; others in blocks, and what these leave with the rest.

    What blocks leave is stored. Else XLA puts all in one loop, of too many slices to fuse what
    makes x (SUM of FLOAT16 [2097152, 16] over 0 39 ms, 3); and where an update in place kept it
    from that, LOG_SUM_EXP of [8, 64, 65536] over 1 took 10.2 ms, and so 7.5.
    """
    packing = _packing(kind, parts)
    if packing and parts[0].shape[1] <= packing.most(parts[0].dtype):
        return packing.through(_columns, parts[0])
    k, n, c = parts[0].shape
    is_located, step, rows = kind.is_started(parts), 1, even_rows((k, c))
    if c < SHORT_LOOP:
        parts, step = shaped(parts, (k, n * c)), c
    elif rows:
        parts = shaped(parts, (k, n, rows, c // rows))

    def some(start: int, stop: int) -> Parts:
        """Of rows from `start` to `stop`: of an index, the part that is the same for all rows."""
        found = _read(taken(parts, start * step, stop * step), parts)
        if is_located:
            return found
        return moved(kind, found if kind.is_started(found) else kind.start(*found), start)

    most, rest = FUSED_AT_ONCE, list[Parts]()
    while n > most:
        count, size = _blocks(n, c)
        rest += [some(i, i + 1) for i in range(count * size, n)]
        blocks = [some(i * size, (i + 1) * size) for i in range(count)]
        parts, n = in_memory(combine(blocks)), size
        combine, most = kind.combine, STORED_AT_ONCE
    return shaped(combine([some(i, i + 1) for i in range(n)] + rest), (k, c))


# Of fewer columns than this there are as many blocks as leave the fewest rows, to which the last
# stage goes by short loops. ms, twelve and so, [2048, 56, 56] over 1 MAX FLOAT16 1.1, 0.9; [4096,
# 28, 28] ARGMAX FLOAT32 2.2, 1.4, LOG_SUM_EXP 3.4, 2.5; [64, 224, 224] MAX FLOAT32 0.8, 0.6 (of 63
# such 0.88 of the time). Of more columns more blocks are slower: ARGMAX of [8, 56, 65536] 6.6, 8.3.
FEW_COLUMNS, FEWEST_BLOCKS = 2**10, 10


def _blocks(n: int, c: int) -> tuple[int, int]:
    """In how many blocks n rows of c columns go, and of how many rows each is; some are left."""
    if n < 2 * BLOCKS:
        return -(-n // 2), 1
    count = BLOCKS
    if c < FEW_COLUMNS:
        several = range(FEWEST_BLOCKS, min(FUSED_AT_ONCE, n // 2) + 1)
        count = min(several, key=lambda q: (n % q, abs(q - BLOCKS)))
    return count, n // count


# What rounds goes over rows of this length: it keeps the error of a sum near that of a pairwise one
# (33554432 elements: 0.7 ulp, in one pass 23; NumPy 0.7). ms 5.0, 3.7.
LONG_ROW = 1024
# Rows that no such length divides go in one pass up to here, which leaves sums up to 4 ulp off. ms,
# as pieces and a rest, and so: LOG_SUM_EXP of rows of 10007 14, 9; SUM 6.3, 4.2, FLOAT16 3.0, 1.7.
WHOLE_ROW = 2**14
# What does not, where there are fewer rows than cores, goes over rows of this length, so that all
# have some. One row of 33554432 elements, before and so: ARGMAX behind a clip 20, 4.5; MAX FLOAT32
# 6.1, 4.6, FLOAT16 3.6, 2.6, INT32 5.1, 4.4, FLOAT32 behind a clip 7.5, 4.9.
PIECE = 2**16


def _rows(kind: Fold, parts: Parts, combine: Combine, sizes: Sequence[int] = ()) -> Parts:
    """Long ones, of axes of these sizes, as several each, and then what these have left."""
    k, n, _ = parts[0].shape
    if kind.rounds and not kind.reads_twice and kind.is_started(parts) and parts[0].size <= LITTLE:
        # As `fold` does what is little. A sum of all of [8, 64, 256, 256] is traced and compiled in
        # 59 ms, before in 101.
        return kind.reduce(shaped(parts, (k, n)), (1,))
    packing = _packing(kind, parts)
    longest, whole = n, 0
    if kind.rounds and jnp.issubdtype(parts[0].dtype, jnp.floating):
        longest, whole = LONG_ROW, WHOLE_ROW
    elif k < loops_cpu.CORES and not (kind.locates and kind.is_started(parts)):
        longest = PIECE
    if packing:
        longest = min(longest, packing.most(parts[0].dtype))
    longest = _length_of_pieces(sizes or (n,), longest, whole)

    def in_one_pass(parts: Parts) -> Parts:
        if packing:
            return packing.through(_in_one_pass, parts[0])
        return _in_one_pass(kind, parts, combine)

    if n <= longest:
        return in_one_pass(parts)
    end = n - n % longest
    pieces = shaped(taken(parts, 0, end), (-1, longest, 1))
    left = shaped(in_one_pass(pieces), (k, -1, 1))
    left = kind.located(left, [1], longest)
    if end < n:
        rest = shaped(in_one_pass(taken(parts, end, n)), (k, 1, 1))
        rest = moved(kind, rest, end)
        left = joined([left, rest], 1)
    return _rows(kind, left, kind.combine)


def _in_one_pass(kind: Fold, parts: Parts, _: Combine) -> Parts:
    started = as_started(kind, _read(parts, parts))
    return kind.one_pass(shaped(started, parts[0].shape[:2]), (1,))


def _length_of_pieces(sizes: Sequence[int], most: int, whole: int) -> int:
    """How long the pieces are that rows of these sizes are cut into: up to `most` elements.

    Or an axis of up to `whole` elements, with those behind it.

    XLA moves what makes x before a reshape. Of one that cuts its axes in parts, or puts whole ones
    together, it knows where each element is; of others it computes that by divisions, or not if
    there are slices between. A sum of [40, 576, 192] by 1024 2.2 ms, by 768 0.4.
    """
    if math.prod(sizes) <= most:
        return math.prod(sizes)
    inner, (*outer, size) = 1, sizes
    while inner * size <= most:
        inner, size = inner * size, outer.pop()
    even = inner * next(part for part in range(most // inner, 0, -1) if size % part == 0)
    if even >= most // 4:
        return even
    if inner * size <= whole:
        return inner * size
    return most if math.prod(sizes) % most else most - 1


def _packing(kind: Fold, parts: Parts) -> Packing | None:
    """Of elements that have room for an index beside them."""
    if not kind.packing or kind.is_started(parts):
        return None
    return kind.packing if kind.packing.most(parts[0].dtype) else None


def _in_two_passes(kind: Fold, parts: Parts) -> bool:
    return kind.reads_twice and len(parts) == 1 and not _packing(kind, parts)

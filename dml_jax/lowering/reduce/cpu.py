"""Reductions on a CPU.

Columns, and rows of at most FUSED elements, go by blocks that are combined elementwise. Longer rows
go in one pass, in pieces where they have more than PIECE elements. XLA fuses both with the program
that makes the input, and LLVM makes vectors of them; XLA's own reductions of columns take up to
forty times as long. With three or more cores `read_by_all_cores` puts exclusive ors around a large
input, which cancel out and change no value.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jax import lax

from dml_jax.lowering.axes import Axes, last_row, run_by_run, runs_of
from dml_jax.lowering.dtypes import is_float, ordered_bits, signed_type, where
from dml_jax.lowering.parallel_cpu import even_rows, read_by_all_cores
from dml_jax.lowering.platform_forms import in_memory
from dml_jax.system.processor import cores

Combine = Callable[[Sequence[jax.Array]], jax.Array]

FEWEST = 10  # blocks of a column: from here to FUSED, the number that leaves the fewest slices
FUSED = 15  # slices of x up to which XLA fuses what makes x, and that are not cut in blocks
STORED = 24  # slices that a later stage combines at once; they are in memory, nothing is fused
PIECE = 1024  # elements of a row that are added up at once, which keeps a sum near a pairwise one
UNROLLED = 75  # elements of a row up to which LLVM unrolls its loop, and makes few vectors of it


@dataclass(frozen=True, eq=False)
class Fold:
    """A reduction that keeps one array.

    Attributes:
        combine: combines several arrays elementwise.
        rows: reduces [k, n] along the last axis in one pass.
        start: converts elements to what is kept of them.
    """

    combine: Combine
    rows: Callable[[jax.Array], jax.Array]
    start: Callable[[jax.Array], jax.Array] = lambda x: x


def fold(how: Fold, x: jax.Array, axes: Axes) -> jax.Array:
    """Reduce `x` along `axes`, which have size 1 in the result."""
    few = _few(x.shape, axes)
    if few:
        x, how = in_memory(_at_once(how, x, few)), replace(how, start=_as_it_is)
        axes = [a for a in axes if a not in few and x.shape[a] > 1]
        if not axes:
            return x
    row = last_row(x.shape, axes)

    def stage(parts: tuple[jax.Array, ...], is_first: bool) -> tuple[jax.Array]:
        start = how.start if is_first else _as_it_is
        (x,) = parts
        k, n, c = x.shape
        if c > 1 or n <= FUSED:
            return (_columns(how.combine, start, x),)
        sizes = row if is_first else [n]
        return (_rows(how.rows, start, x.reshape(k, n), sizes),)

    # Stored between runs: XLA fuses two stages to a loop of too many slices to fuse what makes x.
    return run_by_run((x,), axes, stage, between=in_memory)[0]


def _few(shape: Sequence[int], axes: Axes) -> list[int]:
    """Return the last reduced axes of at most FUSED elements together, if these are several runs.

    Otherwise return []: the axes of one run are one axis already.
    """
    few, count = list[int](), 1
    for a in sorted(axes, reverse=True):
        count *= shape[a]
        if count <= FUSED:
            few.append(a)
    runs = [n for n, is_reduced in runs_of(shape, few) if is_reduced]
    return few if len(runs) > 1 else []


def _at_once(how: Fold, x: jax.Array, axes: Axes) -> jax.Array:
    """Combine all slices along some axes."""
    slices = [x]
    for a in axes:
        slices = [
            lax.slice_in_dim(part, i, i + 1, axis=a) for part in slices for i in range(x.shape[a])
        ]
    parts = [how.start(read_by_all_cores(part, x.size, times=2)) for part in slices]
    return how.combine(parts)


def _as_it_is(x: jax.Array) -> jax.Array:
    return x


def _columns(combine: Combine, start: Any, x: jax.Array) -> jax.Array:
    """[k, n, c] -> [k, c]: short columns at once; long ones in blocks, whose results come next."""
    k, n, c = x.shape
    step, size = 1, x.size
    if c < UNROLLED:  # a loop over all elements of a block is long enough for vectors
        x, step = x.reshape(k, n * c), c
    elif k < cores() and c % cores():
        rows = even_rows(c)
        x = x.reshape(k, n, rows, c // rows)

    def some(begin: int, end: int) -> jax.Array:
        part = lax.slice_in_dim(x, begin * step, end * step, axis=1)
        if part.size * STORED >= size:
            # Of a slice that is less than a fifteenth of an array, XLA counts the whole array.
            part = read_by_all_cores(part, size, times=1 if part.size * FUSED >= size else 2)
        return start(part)

    rest, most = list[jax.Array](), FUSED
    while n > most:
        count = min(range(FEWEST, FUSED + 1), key=lambda q: q + n % q)
        count, height = (count, n // count) if n >= 2 * FUSED else (-(-n // 2), 1)
        rest += [some(i, i + 1) for i in range(count * height, n)]
        blocks = combine([some(i * height, (i + 1) * height) for i in range(count)])
        x, n, start, most, size = in_memory(blocks), height, _as_it_is, STORED, blocks.size
    return combine([some(i, i + 1) for i in range(n)] + rest).reshape(k, c)


def _rows(rows: Any, start: Any, x: jax.Array, sizes: Sequence[int]) -> jax.Array:
    """[k, n] -> [k]: rows of axes of these sizes; long ones in pieces, whose results come next."""
    k, n = x.shape
    length = _length_of_pieces(sizes)

    def in_one_pass(x: jax.Array) -> jax.Array:
        return rows(start(read_by_all_cores(x, x.size)))

    if n <= length:
        return in_one_pass(x)
    end = n - n % length
    pieces = lax.slice_in_dim(x, 0, end, axis=1).reshape(-1, length)
    left = in_one_pass(pieces).reshape(k, -1)
    if end < n:
        rest = in_one_pass(lax.slice_in_dim(x, end, n, axis=1))
        left = lax.concatenate([left, rest[:, None]], 1)
    return _rows(rows, _as_it_is, left, [left.shape[1]])


def length_of_rows(shape: Sequence[int], axes: Axes) -> int:
    """Return how long the equal pieces are that rows are cut into; 0 if they are not."""
    row = last_row(shape, axes)
    length = _length_of_pieces(row or [1])
    n = math.prod(row)
    return length if n > length and n % length == 0 else 0


def _length_of_pieces(sizes: Sequence[int]) -> int:
    """Return how long the pieces are that rows of axes of these sizes are cut into.

    A piece is whole axes, or a part that divides one: there XLA knows without divisions where each
    element is that is made on the spot.
    """
    inner, (*outer, size) = 1, sizes
    while inner * size <= PIECE and outer:
        inner, size = inner * size, outer.pop()
    if inner * size <= PIECE:
        return inner * size
    even = inner * next(part for part in range(PIECE // inner, 0, -1) if size % part == 0)
    return even if even >= PIECE // 4 else PIECE


# Rows in one pass. XLA's CPU fuses a reduction of two arrays with what makes them, but not one of
# one array; and where it makes vectors of a maximum of floats, that drops NaN.


def rows_with_nan_flag(
    op: Callable[[Any, Any], Any], identity: Callable[[np.dtype], Any], keeps: bool = False
) -> Any:
    """Return the reduction by `op` along the last axis, with a flag of NaN beside it.

    The flag is always an operand, since XLA fuses a reduction of two. Where `op` keeps NaN by
    itself, the flag is x != x for rows of fewer than UNROLLED elements, whose loop it makes better,
    and False for longer rows.
    """

    def rows(x: jax.Array) -> jax.Array:
        floats, is_short = is_float(x), x.shape[-1] < UNROLLED
        asked = floats and (is_short or not keeps)
        is_nan = x != x if asked else lax.full_like(x, False, np.bool_)
        value, any_ = lax.reduce(
            (x, is_nan),
            (identity(x.dtype), np.False_),
            lambda a, b: (op(a[0], b[0]), a[1] | b[1]),
            [x.ndim - 1],
        )
        return where(any_, np.nan if floats else 0, value)

    return rows


def least_and_greatest(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return both of integers along the last axis, of which LLVM makes vectors."""
    low, high = np.iinfo(x.dtype).min, np.iinfo(x.dtype).max
    return lax.reduce(
        (x, x),
        (x.dtype.type(high), x.dtype.type(low)),
        lambda a, b: (lax.min(a[0], b[0]), lax.max(a[1], b[1])),
        [x.ndim - 1],
    )


def key_of(x: jax.Array) -> jax.Array:
    """Map floats to integers of their order; any NaN is beyond one of the infinities."""
    return ordered_bits(lax.bitcast_convert_type(x, signed_type(x.dtype)))


def extreme_of_keys(low: jax.Array, high: jax.Array, dtype: np.dtype, largest: bool) -> jax.Array:
    """Return the extreme of floats of a type, of which `low` and `high` are the extreme keys."""
    infinity = dtype.type(np.inf).view(low.dtype)
    is_nan = (high > infinity) | (low < ~infinity)
    value = lax.bitcast_convert_type(ordered_bits(high if largest else low), dtype)
    return where(is_nan, np.nan, value)

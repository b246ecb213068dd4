"""Forms of elementwise and arranging functions for whole programs: pieces, rows, words.

Those for a CPU say so. On one NVIDIA GPU XLA writes a concatenation of two to four pieces with a
kernel of its own: each thread computes the same element of every piece. So one read serves several
writes, and several reads of narrow elements are under way at once. It does
not fuse with what reads it. And narrow elements that are not changed move as words of several.
H200, jax 0.11.2, TB/s moved, `lower` and the form here:

    clip         UINT8 [32, 3, 1080, 1920] 1.57, 3.83. FLOAT16 [32, 64, 256, 256] 3.07, 3.76.
                 [16411, 16411] FLOAT32 1.53, 3.6; FLOAT16 0.77, 2.6; UINT8 0.37, 1.5
                 in a chain it costs: depth_to_space of it 3.8, 1.7; its sum over axis 1 3.1, 1.5
    split        over axis 1 of [32, 64, 256, 256] UINT8 1.48, 3.42; [32, 65, 252, 520] 0.88, 2.80
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering import arrangement
from dml_jax.lowering.elementwise import where
from dml_jax.lowering.stored import all_reshaped, reshaped

# More are written element by element.
MOST = 4
# Elements below which the launch is what counts.
LITTLE_ON_GPU = 2**20
# Elements that a piece is a multiple of.
ALIGNED = 64
# Bytes that are joined or split as one.
WORD = 4
# Words of which XLA gives each thread as many neighbours.
EVEN = 4
# Words of a run in which most warps read one input; and how many inputs of shorter ones are or-ed.
# TB/s as a concatenation, by halves, all at once: FLOAT16 last axis, of 6 inputs 1.9, 2.2, 3.0; of
# 16 0.8, 0.9, 1.5; of 64 0.7, 0.2, 0.4; FLOAT32 of 3 of 84 words 3.7, 3.3, 3.6.
RUN, MOST_SHORT = 128, 16
# Elements of a row that a CPU copies as fast as any longer one.
LONG = 2**8
# Elements below which a loop for each piece is as fast on a CPU: they stay in its caches, and may
# not be worth a second thread. ms, FLOAT16 of two pieces of 128, 2^20 0.05, 0.10; 2^22 0.29, 0.25.
LITTLE_ON_CPU = 2**21
# Elements of a piece's row up to which it is worth a loop for several pieces.
NEAR = 2**15
# Pieces of one such loop. One over 16 LLVM does not unroll: 27 ms, in loops of their own 12.
MOST_AT_ONCE = 8
# Rows of no more elements LLVM unrolls in such a loop: ms, as a concatenation and so, CLIPs joined
# of 8388608 elements, FLOAT32 in 8 of 8 3.6, 12; FLOAT16 2.5, 29.
UNROLLED = 8
# Narrow elements that are joined so: in rows of so many, or of more blocks than that. ms, SPLIT,
# CLIPs, and JOIN of 16777216 elements, FLOAT16; UINT8, 2 of 33 13, 20; 9.2, 9.7; 2 of 40 3.2, 1.7;
# 1.4, 0.8; 3 of 16 20, 20; 12, 4.9; 4 of 16 21, 17; 9.6, 1.0; 5 of 16 20, 1.8; 11, 1.5.
WIDE, FEW_BLOCKS = 40, 3


def elementwise(function: Callable[..., jax.Array], *xs: jax.Array) -> jax.Array:
    """`function(*xs)`, for one that maps each element by itself."""
    size = xs[0].size
    if size < LITTLE_ON_GPU or (xs[0].dtype.itemsize >= 4 and size % 4 == 0):
        return function(*xs)
    flat = [x.reshape(-1) for x in xs]
    quarters = [function(*[lax.slice_in_dim(x, *ends) for x in flat]) for ends in _quarters(size)]
    return lax.concatenate(quarters, 0).reshape(xs[0].shape)


def in_quarters(
    function: Callable[[jax.Array], Sequence[jax.Array]], x: jax.Array
) -> Sequence[jax.Array]:
    """`function(x)`, each quarter of a result from another copy of x, so that a thread has all.

    For rows that are not aligned, whose neighbours XLA has a thread move one by one.
    """
    results = [function(copy) for copy in alike(x, MOST)]
    return [_one_of(same) for same in zip(*results, strict=True)]


def _one_of(same: Sequence[jax.Array]) -> jax.Array:
    """One array of four that are alike, a quarter of each."""
    ends = _quarters(same[0].size)
    flat = [x.reshape(-1) for x in same]
    quarters = [lax.slice_in_dim(x, *bounds) for x, bounds in zip(flat, ends, strict=True)]
    return lax.concatenate(quarters, 0).reshape(same[0].shape)


def _quarters(size: int) -> list[tuple[int, int]]:
    """Where they begin and end; the last ones may have less, or nothing."""
    step = -(-size // (MOST * ALIGNED)) * ALIGNED
    return [(min(i * step, size), min((i + 1) * step, size)) for i in range(MOST)]


def alike(x: jax.Array, count: int) -> list[jax.Array]:
    """The same array several times, which XLA does not know: it would make a broadcast of them."""
    bits = lax.bitcast_convert_type(x, unsigned(x))
    return [lax.bitcast_convert_type(bits | zero, x.dtype) for zero in zeros(x, count)]


def zeros(x: jax.Array, count: int) -> list[jax.Array]:
    """Unsigned integers as wide as an element, of which XLA does not know that they are zero."""
    return lax.optimization_barrier([jnp.zeros((), unsigned(x))] * count)


def unsigned(x: jax.Array) -> jnp.dtype:
    """The unsigned integers as wide as an element."""
    return jnp.dtype(f"uint{x.dtype.itemsize * 8}")


def split(x: jax.Array, sizes: Sequence[int], axis: int) -> Sequence[jax.Array]:
    """`arrangement.split` of rows, of 32-bit words where pieces begin and end with one.

    TB/s, [5, 13, 509, 521] over axis 1 as rows and in quarters: FLOAT32 2.5, 3.1; FLOAT16 1.3, 2.4;
    UINT8 0.8, 1.2; over 3 2.6, 3.0; 1.6, 2.6; 0.8, 2.0.
    """
    if x.size < LITTLE_ON_GPU:
        return arrangement.split(x, sizes, axis)
    in_words = _fill_words(x, sizes, axis)
    rows = _words(x, axis) if in_words else _rows(x, axis)
    widths = [size * rows.shape[1] // x.shape[axis] for size in sizes]

    def cut(rows: jax.Array) -> Sequence[jax.Array]:
        return lax.split(rows, widths, 1)

    aligned = (in_words or x.dtype.itemsize > WORD) and all(n % EVEN == 0 for n in widths)
    pieces = cut(rows) if aligned else in_quarters(cut, rows)
    pairs = zip(pieces, _shapes(x, sizes, axis), strict=True)
    return [elements_of(piece, shape, x.dtype) for piece, shape in pairs]


def join(xs: Sequence[jax.Array], axis: int) -> jax.Array:
    """`arrangement.join`, of 32-bit words: each input among zeros, all of them or-ed together.

    A thread reads, of each output's word, the one input that has it. Of a concatenation a thread
    writes an element of each input, and waits where that is a short one: TB/s, [8, 64, 256, 256]
    of three pieces, FLOAT32 over axis 0 so 3.9 (3.0), FLOAT16 over 3 3.3 (2.0), UINT8 over 1 3.7
    (3.3), over 3 3.2 (2.4). Of 8 inputs UINT8 over 1 3.9 (1.6), FLOAT32 3.8 (3.9); of 16 3.8
    (0.4), 3.7 (1.5); of 64 3.3 (0.4), 3.3 (1.5). Words of 64 bits are slower, and so are words
    whose number is no multiple of four. Narrow elements of these are words of a concatenation.
    """
    first, sizes = xs[0], [x.shape[axis] for x in xs]
    shape = (*first.shape[:axis], sum(sizes), *first.shape[axis + 1 :])
    count = math.prod(shape)
    if count < LITTLE_ON_GPU or not _fill_words(first, sizes, axis):
        return arrangement.join(xs, axis)
    words = [_words(x, axis) for x in xs]
    halves = len(xs) > MOST and min(x.shape[1] for x in words) >= RUN
    even = count * first.dtype.itemsize % (EVEN * WORD) == 0
    if even and (halves or len(xs) <= MOST_SHORT):
        return elements_of(_among_zeros(words, 2 if halves else len(xs)), shape, first.dtype)
    # Short runs of words are slower than their elements: UINT8 [32, 65, 252, 260] twice 3.0, 0.8.
    if first.dtype.itemsize == WORD or math.prod(shape[axis + 1 :]) == 1:
        return arrangement.join(xs, axis)
    return elements_of(lax.concatenate(words, 1), shape, first.dtype)


def _among_zeros(words: Sequence[jax.Array], parts: int) -> jax.Array:
    """Matrices joined along their last axis, by a tree of so many parts at each step."""
    if len(words) == 1:
        return words[0]
    step = -(-len(words) // parts)
    joined = [_among_zeros(words[i : i + step], parts) for i in range(0, len(words), step)]
    total, at, padded = sum(x.shape[1] for x in joined), 0, []
    for x in joined:
        around = (at, total - at - x.shape[1], 0)
        padded.append(lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, 0), around]))
        at += x.shape[1]
    return functools.reduce(lax.bitwise_or, padded)


def split_rows(x: jax.Array, sizes: Sequence[int], axis: int) -> Sequence[jax.Array]:
    """`arrangement.split` on a CPU, neighbours of one size by one loop.

    XLA has a loop for each piece, and each reads all lines of x. Of a reduction of several arrays
    it has one: along the pieces, of as many arrays of which each has one piece among zeros, which
    are or-ed. 2 cores, jax 0.10.2, ms of 33554432 elements as slices, so, and a copy:

        pieces          2, of 128          3, of 1000         4, of 64           8, of 5
        FLOAT32   20.9, 8.3, 8.7    10.2, 9.5, 6.9   14.0, 10.2, 9.0    35.2, 8.0, 7.6
        FLOAT16    6.1, 4.0, 3.9     5.9, 4.8, 4.1     5.6, 4.9, 3.7    13.9, 4.6, 3.8
        UINT8      5.4, 1.9, 2.0     2.1, 1.6, 1.5     6.8, 1.9, 1.8     5.7, 3.2, 1.8
    """
    unit, at, made = math.prod(x.shape[axis + 1 :]), 0, list[jax.Array]()
    rows = _rows(x, axis)
    for size, count in _neighbours(sizes):
        width = size * unit
        many = -(-count // MOST_AT_ONCE) if width <= NEAR else count
        for i in range(many):
            n = (count + i) // many
            made += _equal_pieces(lax.slice_in_dim(rows, at, at + n * width, axis=1), n)
            at += n * width
    return all_reshaped(made, _shapes(x, sizes, axis))


def has_equal_neighbours(x: Any, sizes: Sequence[int], axis: int) -> bool:
    """Whether a CPU gains by `split_rows`, of an array or its type."""
    unit = math.prod(x.shape[axis + 1 :])
    near = any(n > 1 and size * unit <= NEAR for size, n in _neighbours(sizes))
    return near and math.prod(x.shape) >= LITTLE_ON_CPU


def _neighbours(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Sizes, and how many of one size follow each other."""
    return [(size, len([*run])) for size, run in itertools.groupby(sizes)]


def _shapes(x: jax.Array, sizes: Sequence[int], axis: int) -> list[tuple[int, ...]]:
    """Of the pieces along an axis."""
    return [(*x.shape[:axis], size, *x.shape[axis + 1 :]) for size in sizes]


def _equal_pieces(rows: jax.Array, count: int) -> Sequence[jax.Array]:
    """[rows, count * width] -> so many of [rows, width], by one loop."""
    if count == 1:
        return [rows]
    x = rows.reshape(rows.shape[0], count, -1)
    number = lax.broadcasted_iota(np.int32, x.shape, 1)
    among_zeros = tuple(where(number == i, x, 0) for i in range(count))

    def either(a: jax.Array, b: jax.Array) -> jax.Array:
        bits = [lax.bitcast_convert_type(y, unsigned(y)) for y in (a, b)]
        return lax.bitcast_convert_type(bits[0] | bits[1], a.dtype)

    nothing = (np.zeros((), x.dtype)[()],) * count
    return lax.reduce(among_zeros, nothing, lambda a, b: (*map(either, a, b),), [1])


def join_rows(xs: Sequence[jax.Array], axis: int) -> jax.Array:
    """`arrangement.join` on a CPU, of matrices: the cores share their rows evenly.

    2 cores, jax 0.10.2, GB/s moved, `lower` and this, last axis: FLOAT32 [5, 13, 509, 521] 21, 26;
    [8, 64, 256, 256] 23, 29; FLOAT16 25, 32. First axis: FLOAT32 [8, 64, 256, 256] 25, 28 (as one
    row 21); [2, 64, 512, 512] 20, 30 (20); UINT8 (20) 27.
    """
    shape = [*xs[0].shape]
    shape[axis] = sum(x.shape[axis] for x in xs)
    behind = long_rows(shape, axis)
    if behind is None or math.prod(shape[:axis]) > 1:
        return lax.concatenate([_rows(x, axis) for x in xs], 1).reshape(shape)
    return lax.concatenate([_rows(x, behind) for x in xs], 0).reshape(shape)


def join_blocks(xs: Sequence[jax.Array], axis: int) -> jax.Array:
    """`arrangement.join` on a CPU of what is computed, by a loop over blocks of one size.

    An axis's number says which block it is, and LLVM makes a loop of each. 2 cores, jax 0.10.2, ms,
    SPLIT, CLIPs, and JOIN along the last axis of 33554432 elements, as a concatenation and so, a
    copy:

        pieces       2, of 128       4, of 64      8, of 16
        FLOAT32   21, 4.8, 5.0   26, 8.5, 9.0   20, 5.1, 6.2
        FLOAT16   16, 4.0, 3.8   13, 3.9, 4.0   45, 4.1, 4.0
        UINT8    6.7, 1.9, 1.9  5.8, 2.1, 2.1   23, 2.1, 2.0
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
    return reshaped(joined, shape)


def are_few_blocks(types: Sequence[Any], axis: int) -> bool:
    """Whether a CPU gains by `join_blocks`, of what has these types."""
    shape, size = [*types[0].shape], _common(types, axis)
    count = sum(x.shape[axis] for x in types) // size
    shape[axis] = size
    row, width = shape[-1], types[0].dtype.itemsize
    if count * math.prod(shape) < LITTLE_ON_CPU or math.prod(shape[axis:]) > NEAR:
        return False
    is_wide = width >= 4 or row >= WIDE or count > FEW_BLOCKS
    return row > UNROLLED and is_wide and count <= MOST_AT_ONCE


def _common(xs: Sequence[Any], axis: int) -> int:
    """The largest size that divides all of theirs along the axis."""
    return math.gcd(*(x.shape[axis] for x in xs))


def long_rows(shape: Sequence[int], axis: int = 0) -> int | None:
    """The last axis behind this one from which on a row has `LONG` elements, if there is one."""
    axes = range(len(shape) - 1, axis, -1)
    return next((d for d in axes if math.prod(shape[d:]) >= LONG), None)


def _fill_words(x: jax.Array, sizes: Sequence[int], axis: int) -> bool:
    """Whether pieces of an axis begin and end with a word."""
    width = x.dtype.itemsize * math.prod(x.shape[axis + 1 :])
    return x.dtype.itemsize <= WORD and all(size * width % WORD == 0 for size in sizes)


def _rows(x: jax.Array, axis: int) -> jax.Array:
    """[before the axis, elements from it on]."""
    return x.reshape(math.prod(x.shape[:axis]), -1)


def _words(x: jax.Array, axis: int) -> jax.Array:
    """[before the axis, words from it on]."""
    return words_of(_rows(x, axis), WORD // x.dtype.itemsize)


def words_of(x: jax.Array, count: int) -> jax.Array:
    """[..., elements] -> [..., words], each of so many elements."""
    word = jnp.dtype(f"uint{8 * count * x.dtype.itemsize}")
    if count > 1:
        x = x.reshape(*x.shape[:-1], -1, count)
    return lax.bitcast_convert_type(x, word)


def elements_of(words: jax.Array, shape: Sequence[int], dtype: jnp.dtype) -> jax.Array:
    """What words consist of, in this shape."""
    return lax.bitcast_convert_type(words, dtype).reshape(shape)

"""Forms of what maps elements, splits and joins, for whole programs on a GPU.

`threads_gpu` says why. H200, jax 0.11.2, TB/s moved, `lower` and the form here:

    clip         UINT8 [32, 3, 1080, 1920] 1.57, 3.83. FLOAT16 [32, 64, 256, 256] 3.07, 3.76.
                 2**27 + 1 elements FLOAT32 1.62, 4.07; FLOAT16 0.80, 3.16; UINT8 0.41, 1.56
                 a chain would lose: depth_to_space of it 3.8, 1.7; its sum over axis 1 3.1, 1.5
    split        over axis 1 of [32, 64, 256, 256] UINT8 1.48, 3.42; [32, 65, 252, 520] 0.88, 2.80
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from dml_jax.lowering.elementwise import alike
from dml_jax.lowering.threads_gpu import (
    EVEN,
    MOST_PIECES,
    WORD,
    are_even,
    elements_of,
    flattened,
    in_place,
    in_quarters,
    is_little,
    quarter_bounds,
    quarters_of_rows,
    words_of,
    written_at_once,
)
from dml_jax.lowering.whole_programs.pieces import joined_shape, rows_of, shapes_of

# Elements of which a second kernel for a few costs less than it saves: H100, us of CLIPs, quarters
# and so, of 2**22 + 1 FLOAT32 18.8, 19.9, FLOAT16 15.1, 15.7; of 2**23 + 1 25.9, 25.7; 16.3, 14.3;
# of 2**25 + 1 95, 92; 57, 48. And of which where a part begins is no 32-bit integer, as JAX has it.
IN_PLACE_FROM, IN_PLACE_TO = 2**23, 2**31


def elementwise(function: Callable[..., jax.Array], *xs: jax.Array) -> jax.Array:
    """`function(*xs)`, for one that maps each element by itself, to one of the same type.

    TB/s of 2**27 + 1 elements in quarters and in place: FLOAT64 4.07, 3.70; FLOAT32 3.71, 4.07;
    FLOAT16 2.72, 3.16; UINT8 1.56, 1.58. Of 2**27 + 2: 3.84, 3.71; 3.93, 4.10; 3.53, 3.16; 2.61,
    1.61.
    """
    size, width = xs[0].size, xs[0].dtype.itemsize
    if is_little(xs[0].shape) or (width >= WORD and are_even([size])):
        return function(*xs)
    uneven = width == WORD or (width < WORD and size % 2 == 1)
    if uneven and IN_PLACE_FROM <= size < IN_PLACE_TO:
        return in_place([function(*[x.reshape(1, -1) for x in xs])]).reshape(xs[0].shape)
    flat = [x.reshape(-1) for x in xs]
    quarters = [
        function(*[lax.slice_in_dim(x, *ends) for x in flat]) for ends in quarter_bounds(size)
    ]
    return lax.concatenate(quarters, 0).reshape(xs[0].shape)


def split(x: jax.Array, sizes: Sequence[int], axis: int) -> Sequence[jax.Array]:
    """`arrangement.split` of rows, of 32-bit words where pieces begin and end with one."""
    if is_little(x.shape):
        return lax.split(x, sizes, axis)
    rows = _words(x, axis) if _fill_words(x, sizes, axis) else rows_of(x, axis)
    return _split_rows(rows, x, sizes, axis)


def split_computed(x: jax.Array, sizes: Sequence[int], axis: int) -> Sequence[jax.Array]:
    """`arrangement.split` of what is computed, which as words would be stored first.

    TB/s of a clip and halves of it, as XLA has it and of rows, [64, 3, 1081, 1921] over 0: FLOAT32
    1.8, 3.9; FLOAT16 1.7, 3.9; UINT8 1.8, 3.2. UINT8 [32, 6, 1081, 1921] over 1 1.3, 2.1;
    [65, 26, 509, 521] 0.8, 1.4; but [65, 12, 509, 522] over 3 2.5, 1.5, in thirds 3.0, 1.6.
    """
    last = axis == x.ndim - 1
    plain = x.dtype.itemsize == 1 and last and are_even([x.size]) and not are_even(sizes)
    if is_little(x.shape) or plain:
        return lax.split(x, sizes, axis)
    return _split_rows(rows_of(x, axis), x, sizes, axis)


def _split_rows(
    rows: jax.Array, x: jax.Array, sizes: Sequence[int], axis: int
) -> Sequence[jax.Array]:
    """Pieces of x of these sizes, from its rows, of elements or words from the axis on."""
    pieces = _cut(rows, [size * rows.shape[1] // x.shape[axis] for size in sizes])
    shapes = shapes_of(x, sizes, axis)
    return [elements_of(y, shape, x.dtype) for y, shape in zip(pieces, shapes, strict=True)]


def _cut(rows: jax.Array, widths: Sequence[int]) -> Sequence[jax.Array]:
    """Columns; those that are not aligned in place, or in quarters, and then flat.

    XLA writes more than two of one shape with one kernel, of which a thread has an element of each:
    TB/s of thirds of [65, 12, 509, 521] over 1 as they are and in quarters FLOAT32 3.9, 3.8;
    FLOAT16 3.8, 3.3; UINT8 3.6, 2.6. Of two halves, the larger of odd rows, as they are, in
    quarters of the rows, and in place:

        [rows, elements]      FLOAT32             FLOAT16             UINT8
        [2**18, 521]          2.3, 3.75, 3.84     1.3, 3.46, 3.11     0.7, 2.70, 1.59
        [2**18 + 1, 521]      2.3, 3.56, 3.79     1.3, 2.90, 3.11     0.7, 1.89, 1.57
        [2**11, 65539]             3.87, 3.98          3.56, 3.12          2.80, 1.58
        [8, 2**24 + 1]             3.70, 3.56          3.44, 3.02          2.60, 1.58
    """

    def cut(rows: jax.Array) -> Sequence[jax.Array]:
        return lax.split(rows, widths, 1)

    if are_even(widths) or (len(widths) > 2 and len(set(widths)) == 1):
        return cut(rows)
    if rows.shape[0] < MOST_PIECES:
        return in_quarters(cut, rows)
    pieces = cut(rows)
    placed = [_gains_in_place(piece) for piece in pieces]
    if all(placed):
        return [in_place([piece]) for piece in pieces]
    quarters = zip(*map(cut, quarters_of_rows(alike(rows, MOST_PIECES))), strict=True)
    ways = zip(pieces, placed, quarters, strict=True)
    return [in_place([piece]) if here else flattened(parts) for piece, here, parts in ways]


def _gains_in_place(piece: jax.Array) -> bool:
    """Whether columns that are not aligned are better off so than as quarters of their rows."""
    bytes_, large = piece.dtype.itemsize, piece.size >= IN_PLACE_FROM
    return large and (bytes_ > 2 or (bytes_ == 2 and written_at_once(*piece.shape) == 1))


# Words of a run in which most warps read one input; and how many inputs of shorter ones are or-ed.
# TB/s as a concatenation, by halves, all at once: FLOAT16 last axis, of 6 inputs 1.9, 2.2, 3.0; of
# 16 0.8, 0.9, 1.5; of 64 0.7, 0.2, 0.4; FLOAT32 of 3 of 84 words 3.7, 3.3, 3.6.
RUN, MOST_SHORT = 128, 16


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
    shape = joined_shape(xs, axis)
    if is_little(shape) or not _fill_words(first, sizes, axis):
        return join_computed(xs, axis)
    words = [_words(x, axis) for x in xs]
    halves = len(xs) > MOST_PIECES and min(x.shape[1] for x in words) >= RUN
    even = are_even([math.prod(shape) * first.dtype.itemsize // WORD])
    if even and (halves or len(xs) <= MOST_SHORT):
        return elements_of(_among_zeros(words, 2 if halves else len(xs)), shape, first.dtype)
    # As words short runs are slower: UINT8 [32, 65, 252, 260] twice 0.8, as elements 3.0.
    if first.dtype.itemsize == WORD or math.prod(shape[axis + 1 :]) == 1:
        return join_computed(xs, axis)
    return elements_of(join_computed(words, 1), shape, first.dtype)


# Pieces that are mapped one by one before they are joined; JOINs of JOINs may be of many more.
# JOIN and CLIP along the last axis, as XLA has it and so, H100, TB/s, 12, 24 or 64 pieces of 64:
# FLOAT32 1.6, 2.3; FLOAT16 0.8, 1.5; UINT8 0.4, 0.9. To compile takes 0.1 s, and so 0.2, 0.5, 2.
MOST_JOINED = 32


def gains_computed(types: Sequence[Any], axis: int) -> bool:
    """Whether a GPU may gain by `join_computed`, of what has these types."""
    return len(types) <= MOST_JOINED and not is_little(joined_shape(types, axis))


# Of a concatenation of more XLA's threads write one element each. H100, TB/s of CLIPs that are
# joined, as one and by rows: of 10 FLOAT32 2.95, 2.89; FLOAT16 2.86, 2.77; of 12 1.67, 2.54; 0.85,
# 1.71.
MOST_VECTORISED = 10


def join_computed(xs: Sequence[jax.Array], axis: int) -> jax.Array:
    """`arrangement.join` of what is computed or not aligned: of rows.

    TB/s of two clips, joined, as XLA has it and of rows, [32, 3, 1080, 1920] over 1: FLOAT32 3.2,
    4.0; FLOAT16 1.6, 4.0; UINT8 0.8, 3.1.
    """
    sizes, shape = [x.shape[axis] for x in xs], joined_shape(xs, axis)
    vectorised = len(xs) <= MOST_VECTORISED
    if is_little(shape) or (vectorised and are_even([*sizes, shape[-1]])):
        return lax.concatenate(xs, axis)
    rows = [rows_of(x, axis) for x in xs]
    aligned = vectorised and are_even([x.shape[1] for x in rows])
    return (_columns if aligned else _unaligned_columns)(rows).reshape(shape)


def _columns(matrices: Sequence[jax.Array]) -> jax.Array:
    return lax.concatenate(matrices, 1)


# Elements of a row that share lines of memory with its neighbours', so that to write each input by
# itself writes these once more; in which most warps read one input.
SHORT_ROW, LONG_ROW = 2**8, 2**11


def _unaligned_columns(matrices: Sequence[jax.Array]) -> jax.Array:
    """Matrices joined along their last axis, maybe flat.

    TB/s as one concatenation; in quarters of rows; in place, each by itself; and at once:

                          FLOAT32              FLOAT16              UINT8
        of two
        [2**18, 521]      3.1, 3.9, 3.3, 3.2   1.6, 3.7, 2.4, 1.6   0.8, 2.9, 1.6, 0.8
        [2**18 + 1, 521]  3.1, 3.7, 3.2, 3.7   1.6, 3.3, 2.4, 3.2   0.8, 2.3, 1.6, 1.6
        [65, 3446707]     3.0, 3.5, 3.9, 2.4   1.6, 2.6, 2.9, 2.4   0.8, 1.5, 1.6, 1.4
        of three
        [65488, 4099]     3.7, 3.8, 3.6, 3.8   2.4, 3.4, 3.0, 2.4   1.2, 2.6, 1.6, 1.2
        [430105, 521]     3.7, 3.4, 3.2, 3.7   2.4, 2.3, 2.3, 2.8   1.2, 1.4, 1.6, 1.6
        [65, 3446707]     3.7, 2.7, 3.9, 1.6   2.4, 1.6, 2.9, 1.5   1.2, 0.9, 1.5, 1.4
        of four
        [430105, 521]     3.7, 3.0, 3.0, 3.9   3.2, 2.9, 2.2, 3.1   1.6, 2.2, 1.6, 1.6
        [65, 3446707]     3.6, 3.5, 3.8, 3.9   3.2, 3.1, 2.7, 3.0   1.6, 2.0, 1.5, 1.6
        of five; of six
        [430105, 521]     1.6, 2.7, 3.0, 1.6   0.8, 1.6, 2.1, 1.5   0.4, 0.9, 1.6, 1.5
        [65, 3446707]     1.6, 2.7, 3.9, 1.6   0.8, 1.7, 2.8, 1.5   0.4, 0.9, 1.5, 1.3
        [2**18, 521]           3.9, 3.1             3.3, 2.3             1.9, 1.6
    """
    rows, widths = matrices[0].shape[0], [x.shape[1] for x in matrices]
    count, bytes_ = len(matrices), matrices[0].dtype.itemsize
    # Of three or four a thread writes 8 bytes and more as it is.
    enough = 2 < count <= MOST_PIECES and count * bytes_ >= 2 * WORD
    if enough or bytes_ > WORD or (rows < MOST_PIECES and count == 3):
        return _columns(matrices)
    if rows < MOST_PIECES:
        return in_quarters(lambda *xs: [_columns(xs)], *matrices)[0]
    evenly = written_at_once(rows, sum(widths)) > (1 if rows >= MOST_PIECES * EVEN else 2)
    by_itself = count > MOST_PIECES or min(widths) >= LONG_ROW
    short = by_itself and min(widths) < SHORT_ROW
    if evenly or short or rows * sum(widths) < IN_PLACE_FROM:
        quarters = zip(*(quarters_of_rows([x] * MOST_PIECES) for x in matrices), strict=True)
        return flattened([_columns(same) for same in quarters])
    return in_place(matrices if by_itself else [_columns(matrices)])


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


def _fill_words(x: jax.Array, sizes: Sequence[int], axis: int) -> bool:
    """Whether pieces of an axis begin and end with a word."""
    width = x.dtype.itemsize * math.prod(x.shape[axis + 1 :])
    return x.dtype.itemsize <= WORD and all(size * width % WORD == 0 for size in sizes)


def _words(x: jax.Array, axis: int) -> jax.Array:
    """[before the axis, words from it on]."""
    return words_of(rows_of(x, axis), WORD // x.dtype.itemsize)

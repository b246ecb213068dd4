"""Forms of elementwise and arranging functions for whole programs: pieces, rows, words.

All but `join_rows` are for one NVIDIA GPU, where XLA writes a concatenation of two to four pieces
with a kernel of its own: each thread computes the same element of every piece. So one read serves
several writes, and several reads of narrow elements are under way at once. It does not fuse with
what reads it. And narrow elements that are not changed move as words of several. H200, jax 0.11.2,
TB/s moved, `lower` and the form here:

    clip         UINT8 [32, 3, 1080, 1920] 1.57, 3.83. FLOAT16 [32, 64, 256, 256] 3.07, 3.76.
                 [16411, 16411] FLOAT32 1.53, 3.6; FLOAT16 0.77, 2.6; UINT8 0.37, 1.5
                 in a chain it costs: depth_to_space of it 3.8, 1.7; its sum over axis 1 3.1, 1.5
    space_to_depth, block 4, [32, 3, 1080, 1920] FLOAT32 2.69, 3.84; FLOAT16 2.9, 3.0. Block 3
                 [32, 64, 255, 255] 3.04, 3.79; 2.7, 2.3. Block 8 1.60, 3.70
    split        over axis 1 of [32, 64, 256, 256] UINT8 1.48, 3.42; [32, 65, 252, 520] 0.88, 2.80
"""

import functools
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax import lax

from dml_jax.lowering import arrangement

# More are written element by element.
MOST = 4
# Elements below which the launch is what counts.
LITTLE = 2**20
# Elements that a piece is a multiple of.
ALIGNED = 64
# Bytes that are joined or split as one.
WORD = 4
# Words of which XLA gives each thread as many neighbours.
EVEN = 4
# Elements of a row that a CPU copies as fast as any longer one.
LONG = 2**8


def elementwise(function: Callable[..., jax.Array], *xs: jax.Array) -> jax.Array:
    """`function(*xs)`, for one that maps each element by itself."""
    size, width = xs[0].size, xs[0].dtype.itemsize
    step = -(-size // (MOST * ALIGNED)) * ALIGNED
    if size < LITTLE or (width >= 4 and size % 4 == 0):
        return function(*xs)
    flat = [x.reshape(-1) for x in xs]
    bounds = [(start, min(start + step, size)) for start in range(0, size, step)]
    pieces = [function(*[lax.slice_in_dim(x, *bound) for x in flat]) for bound in bounds]
    return lax.concatenate(pieces, 0).reshape(xs[0].shape)


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


def space_to_depth(x: jax.Array, block: int, depth_first: bool) -> jax.Array:
    """`arrangement.space_to_depth`: a thread reads neighbours of a row, which are apart after.

    A block's columns are [count, rest]; pieces go by the first, within a piece by the second, as an
    axis of its own: on one axis, XLA makes one concatenation of all, which has too many pieces.
    """
    count = next((n for n in (MOST, MOST - 1) if block % n == 0), 0)
    if not count or block > 3 * MOST or x.dtype.itemsize < 4 or x.size < LITTLE:
        return arrangement.space_to_depth(x, block, depth_first)
    n, c, height, width = x.shape
    h, w = height // block, width // block
    order, axis = ((0, 3, 1, 2, 4), 2) if depth_first else ((0, 1, 3, 2, 4), 3)
    x = x.reshape(n, c, h, block, w, block)
    columns = [
        lax.expand_dims(
            lax.index_in_dim(x, i, 5, keepdims=False).transpose(order), [axis, axis + 1]
        )
        for i in range(block)
    ]
    rest = block // count
    pieces = [
        lax.concatenate(columns[start : start + rest], axis + 1) for start in range(0, block, rest)
    ]
    return lax.concatenate(pieces, axis).reshape(n, c * block**2, h, w)


def split(x: jax.Array, sizes: Sequence[int], axis: int) -> Sequence[jax.Array]:
    """`arrangement.split` of rows, of 32-bit words where pieces begin and end with one.

    TB/s, FLOAT32 [5, 13, 509, 521] over axis 1 3.3 as rows, with all axes 2.7.
    """
    if x.size < LITTLE:
        return arrangement.split(x, sizes, axis)
    width = math.prod(x.shape[axis + 1 :])
    if _fill_words(x, sizes, axis):
        rows, width = _words(x, axis), width * x.dtype.itemsize
        pieces = lax.split(rows, [size * width // WORD for size in sizes], 1)
    else:
        pieces = lax.split(_rows(x, axis), [size * width for size in sizes], 1)
    shapes = [(*x.shape[:axis], size, *x.shape[axis + 1 :]) for size in sizes]
    return [_elements(*piece, x.dtype) for piece in zip(pieces, shapes, strict=True)]


def join(xs: Sequence[jax.Array], axis: int) -> jax.Array:
    """`arrangement.join`, of 32-bit words: each input among zeros, all of them or-ed together.

    A thread reads, of each output's word, the one input that has it. Of a concatenation a thread
    writes an element of each input, and waits where that is a short one: TB/s, [8, 64, 256, 256]
    of three pieces, FLOAT32 over axis 0 so 3.9 (3.0), FLOAT16 over 3 3.3 (2.0), UINT8 over 1 3.7
    (3.3), over 3 3.2 (2.4). Words of 64 bits are slower, and so are words whose number is no
    multiple of four. Narrow elements of these, and of many inputs, are words of a concatenation.
    """
    first, sizes = xs[0], [x.shape[axis] for x in xs]
    shape = (*first.shape[:axis], sum(sizes), *first.shape[axis + 1 :])
    count = math.prod(shape)
    if count < LITTLE or not _fill_words(first, sizes, axis):
        return arrangement.join(xs, axis)
    if len(xs) <= MOST and count * first.dtype.itemsize % (EVEN * WORD) == 0:
        return _elements(_among_zeros([_words(x, axis) for x in xs]), shape, first.dtype)
    # Short runs of words are slower than their elements: UINT8 [32, 65, 252, 260] twice 3.0, 0.8.
    if first.dtype.itemsize == WORD or math.prod(shape[axis + 1 :]) == 1:
        return arrangement.join(xs, axis)
    return _elements(lax.concatenate([_words(x, axis) for x in xs], 1), shape, first.dtype)


def _among_zeros(words: Sequence[jax.Array]) -> jax.Array:
    """Matrices joined along their last axis."""
    total, at, padded = sum(x.shape[1] for x in words), 0, []
    for x in words:
        around = (at, total - at - x.shape[1], 0)
        padded.append(lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, 0), around]))
        at += x.shape[1]
    return functools.reduce(lax.bitwise_or, padded)


def join_rows(xs: Sequence[jax.Array], axis: int) -> jax.Array:
    """`arrangement.join` on a CPU, of matrices: the cores share their rows evenly.

    2 cores, jax 0.10.2, GB/s moved, `lower` and this, last axis: FLOAT32 [5, 13, 509, 521] 21, 26;
    [8, 64, 256, 256] 23, 29; FLOAT16 25, 32. First axis: FLOAT32 [8, 64, 256, 256] 25, 28 (as one
    row 21); [2, 64, 512, 512] 20, 30 (20); UINT8 (20) 27.
    """
    shape = [*xs[0].shape]
    shape[axis] = sum(x.shape[axis] for x in xs)
    long = (d for d in range(len(shape) - 1, axis, -1) if math.prod(shape[d:]) >= LONG)
    behind = next(long, None)
    if behind is None or math.prod(shape[:axis]) > 1:
        return lax.concatenate([_rows(x, axis) for x in xs], 1).reshape(shape)
    return lax.concatenate([_rows(x, behind) for x in xs], 0).reshape(shape)


def _fill_words(x: jax.Array, sizes: Sequence[int], axis: int) -> bool:
    """Whether pieces of an axis begin and end with a word."""
    width = x.dtype.itemsize * math.prod(x.shape[axis + 1 :])
    return x.dtype.itemsize <= WORD and all(size * width % WORD == 0 for size in sizes)


def _rows(x: jax.Array, axis: int) -> jax.Array:
    """[before the axis, elements from it on]."""
    return x.reshape(math.prod(x.shape[:axis]), -1)


def _words(x: jax.Array, axis: int) -> jax.Array:
    """[before the axis, words from it on]."""
    rows, per_word = _rows(x, axis), WORD // x.dtype.itemsize
    if per_word > 1:
        rows = rows.reshape(rows.shape[0], -1, per_word)
    return lax.bitcast_convert_type(rows, jnp.uint32)


def _elements(words: jax.Array, shape: Sequence[int], dtype: jnp.dtype) -> jax.Array:
    return lax.bitcast_convert_type(words, dtype).reshape(shape)

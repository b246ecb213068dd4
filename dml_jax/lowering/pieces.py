"""Forms of elementwise and arranging functions for whole programs, most of them concatenations.

All but `join_rows` are for one NVIDIA GPU, where XLA writes a concatenation of two to four pieces
with a kernel of its own: each thread computes the same element of every piece. So one read serves
several writes, and several reads of narrow elements are under way at once. It does not fuse with
what reads it. H200, jax 0.11.2, TB/s moved, `lower` and the form here:

    clip         UINT8 [32, 3, 1080, 1920] 1.57, 3.83. FLOAT16 [32, 64, 256, 256] 3.07, 3.76.
                 [16411, 16411] FLOAT32 1.53, 3.6; FLOAT16 0.77, 2.6; UINT8 0.37, 1.5
                 in a chain it costs: depth_to_space of it 3.8, 1.7; its sum over axis 1 3.1, 1.5
    space_to_depth, block 4, [32, 3, 1080, 1920] FLOAT32 2.69, 3.84; FLOAT16 2.9, 3.0. Block 3
                 [32, 64, 255, 255] 3.04, 3.79; 2.7, 2.3. Block 8 1.60, 3.70
    split, join  over axis 1 of [32, 64, 256, 256] UINT8 1.48, 3.42; [32, 65, 252, 520] 0.88, 2.80
"""

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
    """`arrangement.split`, narrow elements as 32-bit words of several."""
    if x.size < LITTLE or not _fill_words(x, sizes, axis):
        return arrangement.split(x, sizes, axis)
    behind = math.prod(x.shape[axis + 1 :])
    words = _words(x, axis)
    pieces = lax.split(words, [size * behind * x.dtype.itemsize // 4 for size in sizes], 1)
    shapes = [(*x.shape[:axis], size, *x.shape[axis + 1 :]) for size in sizes]
    return [_elements(*piece, x.dtype) for piece in zip(pieces, shapes, strict=True)]


def join(xs: Sequence[jax.Array], axis: int) -> jax.Array:
    """`arrangement.join`, narrow elements as 32-bit words of several."""
    first, sizes = xs[0], [x.shape[axis] for x in xs]
    # Short runs of words are slower than their elements: UINT8 [32, 65, 252, 260] twice 3.0, 0.8.
    apart = math.prod(first.shape[axis + 1 :]) > 1
    little = sum(x.size for x in xs) < LITTLE
    if little or not apart or not _fill_words(first, sizes, axis):
        return arrangement.join(xs, axis)
    words = lax.concatenate([_words(x, axis) for x in xs], 1)
    shape = (*first.shape[:axis], sum(sizes), *first.shape[axis + 1 :])
    return _elements(words, shape, first.dtype)


def join_rows(xs: Sequence[jax.Array], axis: int) -> jax.Array:
    """`arrangement.join` on a CPU, of matrices: the cores share their rows evenly.

    2 cores, jax 0.10.2, GB/s moved, `lower` and this, last axis: FLOAT32 [5, 13, 509, 521] 21, 26;
    [8, 64, 256, 256] 23, 29; FLOAT16 25, 32.
    """
    shape = [*xs[0].shape]
    shape[axis] = sum(x.shape[axis] for x in xs)
    rows = math.prod(shape[:axis])
    return lax.concatenate([x.reshape(rows, -1) for x in xs], 1).reshape(shape)


def _fill_words(x: jax.Array, sizes: Sequence[int], axis: int) -> bool:
    """Whether elements are narrow, and pieces of an axis begin and end with a word."""
    width = x.dtype.itemsize * math.prod(x.shape[axis + 1 :])
    return x.dtype.itemsize < 4 and all(size * width % 4 == 0 for size in sizes)


def _words(x: jax.Array, axis: int) -> jax.Array:
    """[before the axis, words]."""
    rows = math.prod(x.shape[:axis])
    return lax.bitcast_convert_type(x.reshape(rows, -1, 4 // x.dtype.itemsize), jnp.uint32)


def _elements(words: jax.Array, shape: Sequence[int], dtype: jnp.dtype) -> jax.Array:
    return lax.bitcast_convert_type(words, dtype).reshape(shape)

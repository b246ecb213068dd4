"""Rows that become columns of a few elements, or the reverse, on an NVIDIA GPU: as words.

DEPTH_TO_SPACE writes beside each other what it reads apart, SPACE_TO_DEPTH reads so and writes
apart. Element by element, XLA moves narrow ones at the speed of its copy of their type, and reads
what is apart once for each. Here a thread reads as many words as a block is wide, exchanges the
elements within them, and writes as many words: XLA computes a concatenation of two to four pieces
in one thread. H200, jax 0.11.2, TB/s moved, the function as it is and this:

    block                        2           3           4           6           8
    depth_to_space UINT8      1.6, 4.0    1.5, 3.8    1.6, 3.9    1.6, 2.9    1.6, 3.1
                   FLOAT16    3.1, 3.9    3.1, 3.9    3.1, 3.9    3.1, 3.5    3.1, 3.3
    space_to_depth UINT8      1.6, 3.9    1.6, 3.9    1.6, 3.9    1.6, 3.6    1.6, 3.2
                   FLOAT16    3.1, 3.9    3.0, 4.0    2.9, 4.0                1.8, 3.2
                   FLOAT32    3.5, 3.9    3.1, 3.9    2.9, 4.0                1.6, 3.6

Of FLOAT32, DEPTH_TO_SPACE is as fast as it is. What computes the elements is not fused with what
makes words of them, and is stored: a clip before block 3 of UINT8 2.6, 1.0.
"""

import functools
from collections.abc import Callable, Sequence

import jax
from jax import lax

from dml_jax.lowering.axes import ranks
from dml_jax.lowering.threads_gpu import LONG_WORD, MOST_PIECES, WORD, elements_of, words_of
from dml_jax.lowering.whole_programs.pending import Pending

# Elements that a block is wide. (SPACE_TO_DEPTH FLOAT32: of 12 1.0, 3.1.)
WIDEST = 3 * MOST_PIECES
# Up to which width a block goes by long words where rows are a multiple of these (block 2 of UINT8
# with 4 bytes 3.2; block 8 with 8 1.9); others do so of 64-bit elements.
NARROW_BLOCK = 3

# Of the q-th word written the e-th element: in which of the words that are read, and where.
_Source = Callable[[int, int], Sequence[int]]


def exchanged(x: Pending) -> jax.Array | None:
    """The result, under `jax.enable_x64`; None where there are no words, or no gain."""
    if not x.given or x.repeats or len(x.factors) < 2:
        return None
    result = None
    if x.factors[-2].axis == x.array.ndim - 1 and x.array.dtype.itemsize < WORD:
        result = _interleaved(x)
    if result is None and x.factors[-1].axis == x.array.ndim - 2:
        result = _taken_apart(x)
    return result


def _interleaved(x: Pending) -> jax.Array | None:
    """Several rows, [..., block, ..., n], become one, [..., n * block]."""
    n, block, axis = x.factors[-2].size, x.factors[-1].size, x.order[-1]
    count = _elements_of_word(x, n, block)
    if not count:
        return None
    words, order = words_of(x.array, count), _without(x, axis)
    read = [lax.index_in_dim(words, i, axis, keepdims=False).transpose(order) for i in range(block)]
    written = _exchanged(read, count, lambda q, e: divmod(q * count + e, block)[::-1])
    return elements_of(_stacked(written, len(order)), x.shape, x.array.dtype)


def _taken_apart(x: Pending) -> jax.Array | None:
    """One row, [..., n * block], becomes several, [..., block, ..., n]."""
    *outer, n, block = x.array.shape
    count = _elements_of_word(x, n, block)
    if not count or (count == 1 and block == 2):  # FLOAT32 3.5, 3.1 so
        return None
    words = words_of(x.array.reshape(*outer, n * block), count).reshape(*outer, n // count, block)
    order = _without(x, x.array.ndim - 1)
    read = [lax.index_in_dim(words, i, -1, keepdims=False).transpose(order) for i in range(block)]
    written = _exchanged(read, count, lambda q, e: divmod(e * block + q, count))
    at = next(k for k, factor in enumerate(x.factors) if factor.axis == x.array.ndim - 1)
    return elements_of(_stacked(written, at), x.shape, x.array.dtype)


def _elements_of_word(x: Pending, n: int, block: int) -> int:
    """How many elements of a row of n are a word; 0 where rows or the block are no multiple."""
    if block > WIDEST or not _pieces(block):
        return 0
    width = x.array.dtype.itemsize
    sizes = (LONG_WORD, WORD) if block <= NARROW_BLOCK or width > WORD else (WORD,)
    return next((size // width for size in sizes if n % (size // width) == 0), 0)


def _pieces(block: int) -> int:
    """Of how many pieces, of as many words each, a concatenation is; 0 if of none of 2 to 4."""
    return next((n for n in range(MOST_PIECES, 1, -1) if block % n == 0), 0)


def _without(x: Pending, axis: int) -> list[int]:
    """The array's other axes, as the result has them."""
    return ranks([other for other in x.order if other != axis])


def _exchanged(words: Sequence[jax.Array], count: int, source: _Source) -> Sequence[jax.Array]:
    """As many words, of the elements that `source` names."""
    if count == 1:
        return words
    word = words[0].dtype.type
    bits = words[0].dtype.itemsize * 8 // count
    mask = word((1 << bits) - 1)

    def element(q: int, e: int) -> jax.Array:
        which, at = source(q, e)
        return (words[which] >> word(at * bits) & mask) << word(e * bits)

    return [
        functools.reduce(lax.bitwise_or, [element(q, e) for e in range(count)])
        for q in range(len(words))
    ]


def _stacked(words: Sequence[jax.Array], axis: int) -> jax.Array:
    """Along a new axis. (On one axis, XLA makes one concatenation of all: too many pieces.)"""
    words = [lax.expand_dims(word, [axis, axis + 1]) for word in words]
    step = len(words) // _pieces(len(words))
    within = [words[start : start + step] for start in range(0, len(words), step)]
    return lax.concatenate([lax.concatenate(some, axis + 1) for some in within], axis)

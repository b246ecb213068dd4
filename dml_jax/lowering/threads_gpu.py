"""What a thread of XLA's GPU writes, and what makes it more.

An H200 begins a block of threads each 0.61 ns, about a cycle. XLA's blocks have 128 threads, of
which each writes four elements, or one where the result's number of elements is odd: so it writes
at most 840 G elements a second, or 210. (Nsight Compute: a CLIP of 224084705 UINT8 takes 1054 us,
for its 1750662 blocks, with 8% of the memory's throughput and 12% of the instructions'.) So a
thread has to do more:

- XLA writes a concatenation of two to four pieces with a kernel of its own, of which each thread
  computes the same elements of every piece: one read serves several writes, and indices are
  computed once. It does not fuse with what reads it.
- What is written in place, into memory that nothing else writes, may be of any number of elements:
  a multiple of four, and the rest by another kernel.
- Narrow elements that are not changed move as words of several.
"""

import itertools
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax import lax

from dml_jax.lowering.elementwise import alike

# Elements below which the launch is what counts.
LITTLE = 2**20
# Bytes that are joined or split as one; and that a thread writes at once.
WORD, LONG_WORD = 4, 8
# Pieces of a concatenation; more are written element by element.
MOST_PIECES = 4
# Elements that a piece is a multiple of. H100, us of a CLIP of 2**27 + 2 FLOAT16 where it is 4, 16,
# 64 and 128: 202, 195, 193, 190; FLOAT32 and UINT8 within 1%.
ALIGNED = 64
# Elements, or words, of which XLA gives each thread as many neighbours.
EVEN = 4
# Rows of which three are little beside the others. H100, us of FLOAT32, SPLITs in two with at most
# three rows apart, and with as many columns, which are not aligned: 5 rows 382, 362; 7 423, 367; 35
# 374, 368; 67 367, 367; 2**15 721, 734; 2**18 750, 861.
SOME_ROWS = 2**6


def is_little(shape: Sequence[int]) -> bool:
    """Whether an array of this shape is too small to choose what threads write."""
    return math.prod(shape) < LITTLE


def in_place(matrices: Sequence[jax.Array]) -> jax.Array:
    """Matrices joined along their last axis, each written by itself.

    By two kernels: one for a multiple of four rows, or columns, of which a thread writes four
    elements, and one for up to three that are left. XLA allocates what `lax.empty` is, and writes
    nothing to it.
    """
    sizes = [x.shape[1] for x in matrices]
    whole, at = lax.empty((matrices[0].shape[0], sum(sizes)), matrices[0].dtype), 0
    for x, size in zip(matrices, sizes, strict=True):
        axis = 0 if x.shape[0] >= SOME_ROWS else 1
        most = x.shape[axis] // EVEN * EVEN
        for begin, end in itertools.pairwise(sorted({0, most, x.shape[axis]})):
            part = lax.slice_in_dim(x, begin, end, axis=axis)
            start = (begin, at) if axis == 0 else (0, at + begin)
            whole = lax.dynamic_update_slice(whole, part, start)
        at += size
    return whole


def in_quarters(
    function: Callable[..., Sequence[jax.Array]], *xs: jax.Array
) -> Sequence[jax.Array]:
    """`function(*xs)`: one thread computes an element of each quarter of a result.

    It is computed of four copies of xs, which XLA does not know to be equal, and of each another
    quarter of the result is kept. For rows that are not aligned, whose neighbours XLA has a thread
    move one by one.
    """
    copies = zip(*(alike(x, MOST_PIECES) for x in xs), strict=True)
    results = [function(*same) for same in copies]
    return [_one_of(same) for same in zip(*results, strict=True)]


def _one_of(same: Sequence[jax.Array]) -> jax.Array:
    """One array of four that are alike, a quarter of each."""
    ends = quarter_bounds(same[0].size)
    flat = [x.reshape(-1) for x in same]
    quarters = [lax.slice_in_dim(x, *bounds) for x, bounds in zip(flat, ends, strict=True)]
    return lax.concatenate(quarters, 0).reshape(same[0].shape)


def quarter_bounds(size: int) -> list[tuple[int, int]]:
    """Where they begin and end; the last ones may have less, or nothing."""
    step = -(-size // (MOST_PIECES * ALIGNED)) * ALIGNED
    return [(min(i * step, size), min((i + 1) * step, size)) for i in range(MOST_PIECES)]


def quarters_of_rows(matrices: Sequence[jax.Array]) -> list[jax.Array]:
    """The first quarter of the rows of the first of four matrices, the second of the second, ...

    Of as many rows each but for the last: TB/s of JOINs of two, and of quarters that differ by four
    rows, [430105, 521] FLOAT32 3.66, 3.40; FLOAT16 3.29, 2.66; UINT8 2.31, 1.62; [300007, 701]
    3.64, 3.61; 3.31, 2.98; 2.34, 1.89.
    """
    bounds = _row_quarters(matrices[0].shape[0])
    return [lax.slice_in_dim(x, *ends) for x, ends in zip(matrices, bounds, strict=True)]


def in_quarters_of_rows(function: Callable[[jax.Array], jax.Array], x: jax.Array) -> jax.Array:
    """`function(x)`, flat, for one that maps rows, of each quarter of them."""
    return flattened([function(part) for part in quarters_of_rows(alike(x, MOST_PIECES))])


def _row_quarters(count: int) -> list[tuple[int, int]]:
    """Where quarters of so many rows, four or more, begin and end.

    Of 16 rows and more each but the last has a multiple of four, and the largest is as small as can
    be. H100, us of JOINs of two UINT8, FLOAT16 and FLOAT32, by equal quarters and so, 70 rows 167,
    110; 204, 192; 360, 359; 131 rows 173, 125; 212, 200; 377, 374; by quarters of which the last is
    the largest, 29 rows 210, 118; 252, 193; 408, 370; SPLITs of UINT8 257, 150.
    """
    unit = EVEN if count >= MOST_PIECES * EVEN else 1
    down = count // (MOST_PIECES * unit) * unit
    last = MOST_PIECES - 1
    step = min(
        (s for s in (down, down + unit) if count > last * s), key=lambda s: max(s, count - last * s)
    )
    return list(itertools.pairwise([*(i * step for i in range(MOST_PIECES)), count]))


def written_at_once(rows: int, width: int) -> int:
    """How many elements of each quarter of rows a thread writes where they are a concatenation."""
    return math.gcd(EVEN, *((end - begin) * width for begin, end in _row_quarters(rows)))


def flattened(parts: Sequence[jax.Array]) -> jax.Array:
    """Quarters one behind the other, of which each thread writes the same elements, far apart."""
    return lax.concatenate([part.reshape(-1) for part in parts], 0)


def are_even(widths: Sequence[int]) -> bool:
    return all(width % EVEN == 0 for width in widths)


def words_of(x: jax.Array, count: int) -> jax.Array:
    """[..., elements] -> [..., words], each of so many elements."""
    word = jnp.dtype(f"uint{8 * count * x.dtype.itemsize}")
    if count > 1:
        x = x.reshape(*x.shape[:-1], -1, count)
    return lax.bitcast_convert_type(x, word)


def elements_of(words: jax.Array, shape: Sequence[int], dtype: jnp.dtype) -> jax.Array:
    """What words consist of, in this shape."""
    return lax.bitcast_convert_type(words, dtype).reshape(shape)

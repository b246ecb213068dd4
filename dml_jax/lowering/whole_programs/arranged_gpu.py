"""What is moved and repeated last on an NVIDIA GPU: as words, or as pieces of rows.

XLA writes narrow elements one by one, at the speed of its copy of their type, and stores what is
transposed before it is repeated. Here the elements of an input are exchanged within words
(`exchanged_gpu`). Of what is computed eight bytes of neighbours are put together in an integer
first, so that each thread writes as much, and repeats are a concatenation (`threads_gpu` says why).
H200, jax 0.11.2, TB/s moved, the function as it is, this, and a copy:

    tile            [8, 64, 256, 256] by (4, 1, 1, 1) FLOAT32 2.4, 3.6, 4.1; FLOAT16 1.9, 3.3, 3.1;
                    UINT8 0.97, 2.7, 1.57. By (1, 1, 1, 16) 3.3, 3.6; 1.7, 3.6; 0.86, 3.2
    clip, depth_to_space by 2, tile by (1, 1, 2, 2), of [32, 64, 256, 256] FLOAT32 2.79, 3.74, 4.1;
                    FLOAT16 1.69, 3.59, 3.1; UINT8 0.92, 3.45, 1.57
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.layout import Layout, with_layout_constraint

from dml_jax.lowering.axes import ranks
from dml_jax.lowering.elementwise import alike, opaque_zeros, unsigned
from dml_jax.lowering.threads_gpu import (
    EVEN,
    LONG_WORD,
    MOST_PIECES,
    elements_of,
    in_quarters,
    in_quarters_of_rows,
    is_little,
)
from dml_jax.lowering.whole_programs.exchanged_gpu import exchanged
from dml_jax.lowering.whole_programs.pending import Factor, Pending

# Elements of a word are read this far apart at most. H100, us of a clip, DEPTH_TO_SPACE by 2, TILE
# of [32, 64, 256, 256], at most 1 and 8, FLOAT16 816, 463; UINT8 727, 232; of a clip,
# SPACE_TO_DEPTH by 4, TILE of half of it, at most 8 and 64, FLOAT16 252, 283.
FAR = 8


def written(x: Pending) -> jax.Array:
    """As words, as pieces of rows that are repeated, or as it is."""
    if is_little(x.shape) or x.is_number:
        return x.arranged
    with jax.enable_x64(True):
        for form in (exchanged, _in_words, _repeated):
            y = form(x)
            if y is not None:
                return y
    return x.arranged


def _in_words(x: Pending) -> jax.Array | None:
    words = _words_of(x)
    return None if words is None else elements_of(_words(words), x.shape, x.array.dtype)


def _words_of(x: Pending) -> Pending | None:
    """[words, elements of each], where that is faster."""
    width = x.array.dtype.itemsize
    count, size = LONG_WORD // width, math.prod(x.shape)
    if not x.moves or size % count or not (width == 1 or x.repeats):
        return None
    words = x.reshape([size // count, count])
    if words is None:
        return None
    last = next((f.axis for f in reversed(words.axes[0]) if f.axis is not None), None)
    near = last is not None and math.prod(words.array.shape[last + 1 :]) <= FAR
    return words if near else None


def _repeated(x: Pending) -> jax.Array | None:
    """Rows that are repeated and stay in their order, as a concatenation or by quarters.

    TB/s of [5, 13, 509, 521] as it is, as a concatenation, and by quarters:

                       FLOAT32             FLOAT16             UINT8
        (2, 1, 1, 1)   2.4, 2.4, 3.5       1.2, 1.2, 3.4       0.6, 0.6, 2.1
        (1, 2, 1, 1)   2.4, 2.4, 2.8       1.2, 1.2, 1.9       0.6, 0.6, 1.0
        (1, 1, 1, 2)   2.3, 2.3, 3.1       1.2, 1.2, 3.1       0.6, 0.6, 1.7
        (1, 3, 1, 1)   1.1, 3.1, 2.1       0.5, 1.6, 1.5       0.3, 0.8, 0.9
        (1, 1, 1, 3)   1.1, 3.1, 2.9       0.5, 1.6, 1.9       0.3, 0.8, 1.1
        (4, 1, 1, 1)   2.2, 3.3, 3.6       1.3, 2.0, 2.5       0.7, 1.0, 1.2
        (1, 4, 1, 1)   3.2, 3.0, 2.4       2.0, 2.0, 2.0       1.0, 1.0, 1.0
        (1, 1, 1, 4)   3.7, 3.2, 3.6       2.0, 2.0, 3.3       1.0, 1.0, 2.0
        (1, 8, 1, 1)   3.1, 3.0, 2.8       1.8, 2.5, 1.9       0.9, 1.7, 1.2

    and of [65, 13, 509, 521] by quarters of the result, and of the rows before the repeats:

        (1, 2, 1, 1)   2.7, 2.7            2.0, 2.7            1.0, 1.8
        (1, 4, 1, 1)                       1.9, 2.4            1.0, 2.0
        (1, 1, 2, 1)   3.1, 3.1            2.8, 2.8            1.5, 1.7
        (1, 1, 1, 4)                       3.0, 2.8            2.0, 2.2

    Several repeats are judged by the first. Rows of a multiple of four are a concatenation.
    """
    if x.moves or not x.repeats:
        return None
    first = next(k for k, factor in enumerate(x.factors) if factor.axis is None)
    count, narrow = x.factors[first].size, x.array.dtype.itemsize < 4
    aligned, few = x.factors[-1].size % 4 == 0, count <= MOST_PIECES
    if not aligned and (count == 2 or (few and narrow) or (count == MOST_PIECES and first == 0)):
        if first == 0 or x.factors[0].size < (MOST_PIECES if narrow else MOST_PIECES * EVEN):
            return in_quarters(lambda array: [replace(x, array=array).arranged], x.array)[0]
        return in_quarters_of_rows(functools.partial(_with_rows, x), x.array).reshape(x.shape)
    if not aligned and count == MOST_PIECES:
        return None
    return _concatenated(x).reshape(x.shape)


def _concatenated(x: Pending) -> jax.Array:
    """What is not moved: repeats, and the axis behind them, are one axis.

    TB/s, FLOAT16 [8, 64, 256, 256] by (4, 1, 1, 1), so 3.2, with axes apart 1.9.
    """
    runs: list[list[int]] = [[]]
    for k, factor in enumerate(x.factors):
        runs[-1].append(k)
        if factor.axis is not None:
            runs.append([])
    runs = [run for run in runs if run]
    at = next(k for k, run in enumerate(runs) if x.factors[run[0]].axis is None)
    pieces = []
    for sizes, copy in _copies(x.factors, functools.partial(alike, x.array)):
        pieces.append(copy.reshape([math.prod(sizes[k] for k in run) for run in runs]))
    return lax.concatenate(pieces, at)


def _with_rows(x: Pending, rows: jax.Array) -> jax.Array:
    """The same of other rows, flat."""
    return Pending(rows, ((Factor(rows.shape[0], 0), *x.factors[1:]),), given=False).arranged


def _words(words: Pending) -> jax.Array:
    """[words, elements of each] -> the words, an axis for each factor."""
    outer, inner = words.axes
    at = next((k for k, factor in enumerate(outer) if factor.axis is None), None)
    if at is None:
        # Without a layout XLA transposes by itself, elements one by one: UINT8 3.08, 1.13.
        word = _word(words.array, outer, inner)
        return with_layout_constraint(word, Layout(tuple(range(word.ndim))))

    def copies(count: int) -> list[jax.Array]:
        # Which of them XLA makes one kernel of: UINT8 1.7, 3.4, the others 3.6, 2.6.
        if math.prod(factor.size for factor in inner) > MOST_PIECES:
            return [
                _word(words.array, outer, inner, zero) for zero in opaque_zeros(words.array, count)
            ]
        return [_word(array, outer, inner) for array in alike(words.array, count)]

    return lax.concatenate([copy for _, copy in _copies(outer, copies)], at)


def _copies(
    factors: Sequence[Factor], copies: Callable[[int], Sequence[jax.Array]]
) -> Iterator[tuple[list[int], jax.Array]]:
    """The pieces whose concatenation along the first repeats has all factors, and their sizes.

    Args:
        factors: one of them repeats, or several.
        copies: so many of an array with the other factors as axes, of which XLA does not know that
            they are the same.
    """
    sizes = [factor.size for factor in factors]
    kept = [k for k, factor in enumerate(factors) if factor.axis is not None]
    at = next(k for k, factor in enumerate(factors) if factor.axis is None)
    count = min(sizes[at], MOST_PIECES)
    for i, array in enumerate(copies(count)):
        within = [*sizes[:at], (sizes[at] + i) // count, *sizes[at + 1 :]]
        yield within, lax.broadcast_in_dim(array, within, kept)


def _word(
    array: jax.Array,
    outer: Sequence[Factor],
    inner: Sequence[Factor],
    zero: jax.Array | None = None,
) -> jax.Array:
    """An axis for each of the outer factors that is one; the inner ones' elements, an integer."""
    width = array.dtype.itemsize * 8
    elements = lax.bitcast_convert_type(array, unsigned(array))
    order = ranks([factor.axis for factor in outer if factor.axis is not None])
    ones = []
    for number, place in enumerate(itertools.product(*[range(factor.size) for factor in inner])):
        one = elements
        for factor, i in sorted(zip(inner, place, strict=True), key=_axis_last):
            if factor.axis is not None:
                one = lax.index_in_dim(one, i, factor.axis, keepdims=False)
        one = one if zero is None else one | zero
        one = one.transpose(order).astype(jnp.uint64)
        ones.append(lax.shift_left(one, lax.full_like(one, number * width)))
    return functools.reduce(lax.bitwise_or, ones)


def _axis_last(at: tuple[Factor, int]) -> int:
    return -1 if at[0].axis is None else -at[0].axis

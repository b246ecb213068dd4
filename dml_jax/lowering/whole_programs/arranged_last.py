"""Whole programs whose elements are moved and repeated last, by what writes them.

What arranges (reshapes, transpositions, broadcasts) is put off through what maps each element by
itself, to the end of an operator or a graph, and done there in one loop that writes the result.

On a CPU XLA's loops are over the axes of what a fusion returns. Where that ends in a reshape that
merges axes, as in DEPTH_TO_SPACE and TILE, each element's index is divided to find where it is
read, and elements are read one by one. Here the loop is over all the factors of the axes, and they
are merged in a call that XLA does not inline and that costs nothing. 2 cores, jax
0.10.2, ms with bound outputs, the function as it is, this, and a copy:

    depth_to_space  [8, 64, 256, 256], block 2: FLOAT32 22, 14, 17; FLOAT16 22, 7.7, 8.5; UINT8 21,
                    3.9, 4.4. [8, 63, 256, 256], block 3: 28, 15, 17; 25, 8.0, 8.5; 24, 4.2, 4.4
    tile            UINT8 [8, 64, 256, 256] by (1, 1, 1, 2) 18, 7.2; [2, 64, 256, 256] by
                    (2, 2, 2, 2) 35, 12. FLOAT16 [64, 256, 256] by (1, 1, 16) 19, 11
    clip, depth_to_space by 2, tile by (1, 1, 2, 2), of [2, 64, 256, 256] FLOAT32 20, 13;
                    [4, 64, 256, 256] FLOAT16 42, 13; [8, 64, 256, 256] UINT8 76, 13. (A
                    concatenation of four copies takes 16.)
    space_to_depth  takes the same time both ways: it is bound by what it reads

On an NVIDIA GPU XLA writes narrow elements one by one, at the speed of its copy of their type, and
stores what is transposed before it is repeated. Here the elements of an input are exchanged within
words (`exchanged_gpu.py`). Of what is computed eight bytes of neighbours are put together in an
integer first, so that each thread writes as much, and repeats are a concatenation (`pieces_gpu.py`
says why).
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
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.layout import Layout, with_layout_constraint

from dml_jax.lowering.axes import ranks
from dml_jax.lowering.elementwise import unsigned
from dml_jax.lowering.stored_cpu import in_memory, reshaped
from dml_jax.lowering.whole_programs.equations import (
    ELEMENTWISE,
    as_part_of,
    body_of,
    bound,
    evaluated,
)
from dml_jax.lowering.whole_programs.exchanged_gpu import exchanged
from dml_jax.lowering.whole_programs.mapped import LITTLE_ON_CPU, UNROLLED
from dml_jax.lowering.whole_programs.pending import Factor, Pending
from dml_jax.lowering.whole_programs.pieces_gpu import (
    LITTLE_ON_GPU,
    MANY_ROWS,
    MOST_PIECES,
    alike,
    elements_of,
    in_quarters,
    in_quarters_of_rows,
    zeros,
)

# On a CPU what is given and ends in rows that LLVM unrolls is repeated as a concatenation, which
# copies them, where that gives a row of so many elements or they are narrow. 2 cores, jax 0.10.2,
# ns a byte written, in a loop and so, a copy 0.06: UINT8 rows of 16 by 16 0.13, 0.04; of 64 by 2
# 0.22, 0.04; of 33 by 2 0.20, 0.14; FLOAT16 of 64 by 2 0.12, 0.04; FLOAT32 0.10, 0.05; of 33 by 2
# 0.09, 0.15. What is computed is faster in a loop: a clip of UINT8 rows of 17, by 4 0.10, 0.25.
COPIED_ROW = 128
# Pieces of such a concatenation.
MOST_COPIES = 16
# Bytes that a thread writes at once.
WORD = 8
# Elements of a word are read this far apart at most.
FAR = 8

_Value = jax.Array | Pending


class _Made(NamedTuple):
    """A value while the program is evaluated.

    Attributes:
        value: the array, or what is yet to be arranged.
        given: whether there are only moves between the inputs and it.
        maker: the outermost equation that made it, whose name it has in profiles.
    """

    value: _Value
    given: bool
    maker: Any


def rewritten(platform: str, program: Any, xs: Sequence[jax.Array]) -> list[jax.Array]:
    """The results of a traced program."""
    made = _evaluate(program, [_Made(x, True, None) for x in xs], platform)
    return [_written(each, platform) for each in made]


def mapped_first(program: Any, xs: Sequence[jax.Array]) -> list[tuple[jax.Array, tuple[int, ...]]]:
    """The results of a traced program on a CPU, where what maps elements is put before moves.

    And of each the sizes of the loops that write it.
    """
    made = _evaluate(program, [_Made(x, True, None) for x in xs], "cpu")
    return [(_array(each.value), _loops(each.value)) for each in made]


def _loops(x: _Value) -> tuple[int, ...]:
    flat = x.flat() if isinstance(x, Pending) and x.merges else x
    return tuple(f.size for f in flat.factors) if isinstance(flat, Pending) else flat.shape


def _written(made: _Made, platform: str) -> jax.Array:
    if not isinstance(made.value, Pending):
        return made.value
    with as_part_of(made.maker):
        return _merged_by_itself(made.value) if platform == "cpu" else _in_pieces(made.value)


def _evaluate(program: Any, xs: Sequence[_Made], platform: str) -> list[_Made]:
    step = functools.partial(_step, platform)
    return evaluated(program, xs, step, lambda value: _Made(value, True, None))


def _step(platform: str, eqn: Any, operands: Sequence[_Made]) -> list[_Made]:
    values, given = [x.value for x in operands], all(x.given for x in operands)
    body = body_of(eqn, operands, platform)
    if body is not None:
        return [result._replace(maker=eqn) for result in _evaluate(*body, platform)]
    arranged = _arranged(eqn, values, given)
    if arranged is None:
        return [_Made(value, False, eqn) for value in _applied(platform, eqn, values)]
    return [_Made(arranged.simplest(), arranged.given, eqn)]


def _applied(platform: str, eqn: Any, xs: Sequence[_Value]) -> Sequence[_Value]:
    name, out = eqn.primitive.name, eqn.outvars[0].aval
    pending = [x for x in xs if isinstance(x, Pending)]
    first = next((x for x in pending if not _is_number(x)), None)
    if pending and all(map(_is_number, xs)):
        first = pending[0]
    if first is not None and name in ELEMENTWISE and out.shape == first.shape:
        return [_elementwise(platform, eqn, first, xs)]
    return bound(eqn, [_array(x) for x in xs])


def _arranged(eqn: Any, xs: Sequence[_Value], given: bool) -> Pending | None:
    """What moves and repeats elements, put off; None where it cannot be."""
    name, params, out = eqn.primitive.name, eqn.params, eqn.outvars[0].aval
    if len(xs) != 1 or 0 in out.shape:
        return None
    if not jnp.shape(xs[0]) and name != "broadcast_in_dim":
        return None
    x = xs[0] if isinstance(xs[0], Pending) else Pending.of(xs[0], given)
    if name == "reshape" and params["dimensions"] is None:
        return x.reshape(out.shape)
    if name == "transpose":
        return x.transpose(params["permutation"])
    if name == "broadcast_in_dim":
        return x.broadcast_in_dim(out.shape, params["broadcast_dimensions"])
    return None


def _elementwise(platform: str, eqn: Any, first: Pending, xs: Sequence[_Value]) -> _Value:
    """What is arranged alike is computed before that, else with the factors apart."""
    if all(_is_number(x) or (isinstance(x, Pending) and x.axes == first.axes) for x in xs):
        shape = first.array.shape
        # As rows on a GPU: of FLOAT16 that is taken apart first XLA's kernel moves 0.7 TB/s, and so
        # 2.6 (an H100, CLIP of depth_to_space or space_to_depth by 2).
        rows = (shape[0], math.prod(shape[1:])) if platform == "cuda" and shape else shape
        (y,) = bound(eqn, [_before(x, rows) for x in xs])
        return Pending(y.reshape(shape), first.axes, given=False)
    sizes = [factor.size for factor in first.factors]
    (y,) = bound(eqn, [_apart(x, first, sizes) if jnp.shape(x) else x for x in xs])
    numbers = itertools.count()
    axes = tuple(tuple(Factor(f.size, next(numbers)) for f in run) for run in first.axes)
    return Pending(y, axes, given=False).simplest()


def _is_number(x: _Value) -> bool:
    """Or one that is broadcast: it is arranged as anything is."""
    return x.array.ndim == 0 if isinstance(x, Pending) else not jnp.shape(x)


def _before(x: _Value, shape: Sequence[int]) -> jax.Array:
    """What is arranged, in this shape.

    A number goes along. With the factors apart a CLIP of what is tiled by (1, 1, 1, 2), FLOAT16
    [85, 12, 128, 64], moved 1 GB/s on two cores, and so 46; by (2, 1, 1, 1), [167, 256, 14, 14]
    2.1, 39; of depth_to_space by 2 1.3, 2.6.
    """
    if not isinstance(x, Pending):
        return x
    return x.array.reshape(shape) if x.array.ndim else lax.broadcast(x.array, shape)


def _apart(x: _Value, like: Pending, sizes: Sequence[int]) -> jax.Array:
    if isinstance(x, Pending) and x.axes == like.axes:
        return x.apart()
    return _array(x).reshape(sizes)


def _array(x: _Value) -> jax.Array:
    return x.arranged if isinstance(x, Pending) else x


def _merged_by_itself(x: Pending) -> jax.Array:
    """What XLA does not fuse with what computes x, nor makes a copy of.

    Over few axes, since rows that are neighbours are one that LLVM does not unroll: ns a byte
    written, UINT8 [24, 72, 64, 64] by (1, 2, 1, 1) 0.14, so 0.05.
    """
    if not x.merges or math.prod(x.shape) < LITTLE_ON_CPU:
        return x.arranged
    flat = _rows_repeated(x.flat())
    if not isinstance(flat, Pending):
        return reshaped(flat, x.shape)
    apart = flat.apart()
    # A transposition that is a fusion's last step has a kernel of its own, of tiles: ms, FLOAT32
    # block 3 26, and 15 where there is another step, which XLA does not know to do nothing.
    (apart,) = alike(apart, 1)
    return reshaped(apart, x.shape)


def _rows_repeated(x: _Value) -> _Value:
    """With short rows repeated by copying them, where that is how it ends."""
    if not isinstance(x, Pending) or not x.given or len(x.factors) < 2:
        return x
    *outer, repeats, row = x.factors
    if repeats.axis is not None or row.axis != x.array.ndim - 1 or row.size not in UNROLLED:
        return x
    counts = [n for n in range(2, MOST_COPIES + 1) if repeats.size % n == 0]
    enough = [n for n in counts if n * row.size >= COPIED_ROW]
    if repeats.size <= MOST_COPIES and (x.array.dtype.itemsize < 4 or enough):
        count = repeats.size
    elif enough:
        count = enough[0]
    else:
        return x
    # In memory, or XLA fuses the copies with what reads them, and takes elements one by one.
    rows = in_memory(lax.concatenate([x.array] * count, x.array.ndim - 1))
    left = [*outer, Factor(repeats.size // count, None), Factor(count * row.size, row.axis)]
    return Pending(rows, (tuple(f for f in left if f.size > 1),), given=False).simplest()


def _in_pieces(x: Pending) -> jax.Array:
    """As words, as pieces of rows that are repeated, or as it is."""
    if math.prod(x.shape) < LITTLE_ON_GPU or _is_number(x):
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
    count, size = WORD // width, math.prod(x.shape)
    if not x.moves or size % count or not (width == 1 or x.repeats):
        return None
    words = x.reshape([size // count, count])
    if words is None:
        return None
    last = next((f.axis for f in reversed(words.axes[0]) if f.axis is not None), None)
    near = last is not None and math.prod(words.array.shape[last + 1 :]) <= FAR
    return words if near else None


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
        if first == 0 or x.factors[0].size < (MOST_PIECES if narrow else MANY_ROWS):
            return in_quarters(lambda array: [replace(x, array=array).arranged], x.array)[0]
        return in_quarters_of_rows(functools.partial(_with_rows, x), x.array).reshape(x.shape)
    if not aligned and count == MOST_PIECES:
        return None
    return _concatenated(x).reshape(x.shape)


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
            return [_word(words.array, outer, inner, zero) for zero in zeros(words.array, count)]
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

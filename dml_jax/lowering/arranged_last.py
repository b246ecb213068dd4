"""Forms of whole programs in which elements are moved and repeated last, by what writes them.

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
words (`exchanged.py`). Of what is computed eight bytes of neighbours are put together in an integer
first, so that each thread writes as much, and repeats are a concatenation (`pieces.py` says why).
H200, jax 0.11.2, TB/s moved, the function as it is, this, and a copy:

    tile            [8, 64, 256, 256] by (4, 1, 1, 1) FLOAT32 2.4, 3.6, 4.1; FLOAT16 1.9, 3.3, 3.1;
                    UINT8 0.97, 2.7, 1.57. By (1, 1, 1, 16) 3.3, 3.6; 1.7, 3.6; 0.86, 3.2
    clip, depth_to_space by 2, tile by (1, 1, 2, 2), of [32, 64, 256, 256] FLOAT32 2.79, 3.74, 4.1;
                    FLOAT16 1.69, 3.59, 3.1; UINT8 0.92, 3.45, 1.57
"""

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import source_info_util
from jax.experimental.layout import Layout, with_layout_constraint
from jax.extend.core import Literal

from dml_jax.lowering.exchanged import exchanged
from dml_jax.lowering.pending import Factor, Pending
from dml_jax.lowering.pieces import LITTLE as LITTLE_ON_GPU
from dml_jax.lowering.pieces import MOST, alike, elements_of, in_quarters, unsigned, zeros
from dml_jax.lowering.stored import in_a_call

# Elements below which dispatch is what counts.
LITTLE = 2**15
# Bytes that a thread writes at once.
WORD = 8
# Elements of a word are read this far apart at most.
FAR = 8

# What maps each element by itself.
_ELEMENTWISE = frozenset(
    {"abs", "add", "and", "bitcast_convert_type", "ceil", "clamp", "convert_element_type", "div"}
    | {"eq", "exp", "floor", "ge", "gt", "integer_pow", "is_finite", "le", "log", "log1p", "lt"}
    | {"max", "min", "mul", "ne", "neg", "not", "or", "pow", "rem", "round", "rsqrt", "select_n"}
    | {"shift_left", "shift_right_arithmetic", "shift_right_logical", "sign", "sqrt", "square"}
    | {"sub", "tanh", "xor"}
)

_Value = jax.Array | Pending
_Writer = Callable[[Pending], jax.Array]


def forms(function: Callable[..., Any]) -> Mapping[str, Callable[..., Any]]:
    """By platform, the form of a function that is a whole program."""
    writers = {"cpu": _merged_by_itself, "cuda": _in_pieces}
    return {name: functools.partial(_run, function, write) for name, write in writers.items()}


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


def _run(function: Callable[..., Any], write: _Writer, *xs: jax.Array) -> Any:
    jaxpr, shape = jax.make_jaxpr(function, return_shape=True)(*xs)
    results = []
    for value, _, maker in _evaluate(jaxpr, [_Made(x, True, None) for x in xs]):
        if isinstance(value, Pending):
            with _as_part_of(maker):
                value = write(value)
        results.append(value)
    return jax.tree.unflatten(jax.tree.structure(shape), results)


def _evaluate(closed: Any, xs: Sequence[_Made]) -> list[_Made]:
    jaxpr = closed.jaxpr
    made = dict(zip(jaxpr.constvars, (_Made(x, True, None) for x in closed.consts), strict=True))
    made.update(zip(jaxpr.invars, xs, strict=True))

    def of(var: Any) -> _Made:
        return _Made(var.val, False, None) if isinstance(var, Literal) else made[var]

    for eqn in jaxpr.eqns:
        made.update(zip(eqn.outvars, _step(eqn, [of(var) for var in eqn.invars]), strict=True))
    return [of(var) for var in jaxpr.outvars]


def _step(eqn: Any, operands: Sequence[_Made]) -> list[_Made]:
    values, given = [x.value for x in operands], all(x.given for x in operands)
    with _as_part_of(eqn):
        if eqn.primitive.name == "custom_jvp_call":  # here nothing has a derivative
            results = _evaluate(eqn.params["call_jaxpr"], operands)
            return [result._replace(maker=eqn) for result in results]
        arranged = _arranged(eqn, values, given)
        if arranged is None:
            return [_Made(value, False, eqn) for value in _applied(eqn, values)]
        return [_Made(arranged.simplest(), arranged.given, eqn)]


@contextlib.contextmanager
def _as_part_of(eqn: Any) -> Iterator[None]:
    """What is traced has the names of the equation, which profiles show."""
    names = source_info_util.current_name_stack() + eqn.source_info.name_stack
    user = source_info_util.user_context(eqn.source_info.traceback, name_stack=names)
    with user, eqn.ctx.manager:
        yield


def _applied(eqn: Any, xs: Sequence[_Value]) -> Sequence[_Value]:
    name, out = eqn.primitive.name, eqn.outvars[0].aval
    first = next((x for x in xs if isinstance(x, Pending)), None)
    if first is not None and name in _ELEMENTWISE and out.shape == first.shape:
        return [_elementwise(eqn, first, xs)]
    return _bound(eqn, [_array(x) for x in xs])


def _arranged(eqn: Any, xs: Sequence[_Value], given: bool) -> Pending | None:
    """What moves and repeats elements, put off; None where it cannot be."""
    name, params, out = eqn.primitive.name, eqn.params, eqn.outvars[0].aval
    if len(xs) != 1 or not jnp.shape(xs[0]) or 0 in out.shape:
        return None
    x = xs[0] if isinstance(xs[0], Pending) else Pending.of(xs[0], given)
    if name == "reshape" and params["dimensions"] is None:
        return x.reshape(out.shape)
    if name == "transpose":
        return x.transpose(params["permutation"])
    if name == "broadcast_in_dim":
        return x.broadcast_in_dim(out.shape, params["broadcast_dimensions"])
    return None


def _elementwise(eqn: Any, first: Pending, xs: Sequence[_Value]) -> _Value:
    """What is arranged alike is computed before that, else with the factors apart."""
    arrays = [x for x in xs if jnp.shape(x)]
    if all(isinstance(x, Pending) and x.axes == first.axes for x in arrays):
        (y,) = _bound(eqn, [x.array if isinstance(x, Pending) else x for x in xs])
        return Pending(y, first.axes, given=False)
    sizes = [factor.size for factor in first.factors]
    (y,) = _bound(eqn, [_apart(x, first, sizes) if jnp.shape(x) else x for x in xs])
    numbers = itertools.count()
    axes = tuple(tuple(Factor(f.size, next(numbers)) for f in run) for run in first.axes)
    return Pending(y, axes, given=False).simplest()


def _apart(x: _Value, like: Pending, sizes: Sequence[int]) -> jax.Array:
    if isinstance(x, Pending) and x.axes == like.axes:
        return x.apart()
    return _array(x).reshape(sizes)


def _array(x: _Value) -> jax.Array:
    return x.arranged() if isinstance(x, Pending) else x


def _bound(eqn: Any, xs: Sequence[Any]) -> Sequence[jax.Array]:
    outs = eqn.primitive.bind(*xs, **eqn.primitive.get_bind_params(eqn.params))
    return outs if eqn.primitive.multiple_results else [outs]


def _merged_by_itself(x: Pending) -> jax.Array:
    """What XLA does not fuse with what computes x, nor makes a copy of."""
    apart = x.apart()
    if not x.merges or apart.size < LITTLE:
        return apart.reshape(x.shape)
    # A transposition that is a fusion's last step has a kernel of its own, of tiles: ms, FLOAT32
    # block 3 26, and 15 where there is another step, which XLA does not know to do nothing.
    (apart,) = alike(apart, 1)
    # With no layout named, XLA names another where an axis has one element, and copies.
    layout = Layout(tuple(range(len(x.shape))))
    return in_a_call(lambda y: with_layout_constraint(y.reshape(x.shape), layout), apart)


def _in_pieces(x: Pending) -> jax.Array:
    """As words, as pieces of rows that are repeated, or as it is."""
    if math.prod(x.shape) < LITTLE_ON_GPU:
        return x.arranged()
    with jax.enable_x64(True):
        for form in (exchanged, _in_words, _repeated):
            y = form(x)
            if y is not None:
                return y
    return x.arranged()


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

    Several repeats are judged by the first. Rows of a multiple of four are a concatenation.
    """
    if x.moves or not x.repeats:
        return None
    first = next(k for k, factor in enumerate(x.factors) if factor.axis is None)
    count, narrow = x.factors[first].size, x.array.dtype.itemsize < 4
    aligned, few = x.factors[-1].size % 4 == 0, count <= MOST
    if not aligned and (count == 2 or (few and narrow) or (count == MOST and first == 0)):
        return in_quarters(lambda array: [replace(x, array=array).arranged()], x.array)[0]
    if not aligned and count == MOST:
        return None
    return _concatenated(x).reshape(x.shape)


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
        if math.prod(factor.size for factor in inner) > MOST:
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
    count = min(sizes[at], MOST)
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
    kept = [factor.axis for factor in outer if factor.axis is not None]
    order = [sorted(kept).index(axis) for axis in kept]
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

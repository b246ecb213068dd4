"""Reductions. Each takes an array and axes, and keeps the rank: a reduced axis has size 1.

float16 accumulates in float32 and is rounded once, at the end; integers wrap modulo 2^n. What each
is on a device, and across devices, says its `Fold`.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering import across
from dml_jax.lowering.elementwise import is_infinite, where
from dml_jax.lowering.exponential import exp_of_negative, exp_of_negative_on_cpu
from dml_jax.lowering.fold import LITTLE, Axes, Fold, InTurn, Parts, at_once, by_pairs, shaped
from dml_jax.lowering.fold_along import fold
from dml_jax.lowering.others import product_of_others
from dml_jax.lowering.packed import Packing
from dml_jax.lowering.stored import stored
from dml_jax.lowering.wide import is_float, wide, wide_type

Reduction = Callable[[jax.Array, Axes], jax.Array]
Across = Callable[[jax.Array, tuple[str, ...]], jax.Array]
Pick = Callable[[jax.Array, jax.Array], jax.Array]


def _restored(x: jax.Array, axes: Axes) -> jax.Array:
    return lax.expand_dims(x, sorted(axes))


def _accumulated(reduction: Reduction) -> Reduction:
    """The reduction in the type it accumulates in, rounded back to the input's."""

    def rounded(x: jax.Array, axes: Axes) -> jax.Array:
        return lax.convert_element_type(reduction(wide(x), axes), x.dtype)

    return rounded


def _pairwise(op: Callable[[Any, Any], Any], values: Sequence[Any]) -> Any:
    """Neighbours first, as a tree: for a sum, the smallest rounding error."""
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=False)
        values = [*(op(a, b) for a, b in pairs), *values[len(values) // 2 * 2 :]]
    return values[0]


def _reducer(reduce: Reduction) -> Callable[[Parts, Axes], Parts]:
    return lambda parts, axes: (reduce(parts[0], axes),)


# Rows whose loop LLVM unrolls wholly, and then vectorises badly or not. 2 cores, jax 0.10.2, of
# 33554432 elements, ms, as they are and in halves: MAX FLOAT32 of 224 7.9, 4.9; of 256 8.8, 4.4; of
# 320 12.5, 4.5; LOG_SUM_EXP of 512 15.8, 7.4, of 576 15.4, 10.4, of 600 11.2, 8.2. Of 192, 352, 544
# and 1024 nothing is gained, nor for SUM.
UNROLLED = (224, 256, 288, 320)
UNROLLED_EXPONENTIALS = range(512, 641, 2)


def _halved(parts: Parts, axes: Axes, lengths: Sequence[int]) -> tuple[Parts, Axes]:
    """Rows of some lengths as halves, and the axes of those."""
    k, n = parts[0].shape[0], parts[0].shape[-1]
    if parts[0].ndim != 2 or axes != (1,) or n not in lengths:
        return parts, axes
    return shaped(parts, (k, 2, n // 2)), (1, 2)


# Rows of which a sum is not asked beside it whether there was NaN, which it is by itself; of the
# others LLVM unrolls the loop wholly, and what is then vectorised changes. 2 cores, jax 0.10.2, ms,
# of 33554432 elements, asked and so, rows of 64 3.5, 4.0; 96 3.4, 5.1; 128 3.9, 3.6; 256 4.8, 4.2,
# behind a clip 5.3, 4.2; 320 5.0, 3.6; 1024 4.4, 4.0, FLOAT16 2.4, 1.9; squares of 640 4.0, 6.0;
# exponentials of 512 8.1, 10.8.
UNASKED = (range(97, 513), range(768, 2**31))


def _one_pass(
    op: Pick,
    identity: Callable[[np.dtype], Any],
    reduce: Reduction,
    rounds: bool,
    unasked: Sequence[range] = (),
) -> Callable[[Parts, Axes], Parts]:
    """In one pass, on CPU.

    Beside the value it carries whether there was NaN. XLA's vectorised max and min drop it (jax
    0.10.2: rows of 64 lose all of them); and a reduction of two values, unlike one of one, is fused
    with what makes its input, and a maximum of integers is vectorised: there never is one of those.
    ms, XLA's own and this: float32 sums of 131072 rows of 256 3.4, 3.2, both behind a clip 80, 5.9;
    of 4096 of 4096 1.6, 1.7; 30, 1.6. int32 maxima of rows of 256 16, 4.5.

    Args:
        op: combines two.
        identity: the value of nothing.
        reduce: XLA's own, which vectorises what rounds, of integers.
        rounds: as in `Fold`.
        unasked: how many floats are not asked whether there is NaN.
    """

    def one_pass(parts: Parts, axes: Axes) -> Parts:
        (x,) = parts
        if rounds and not is_float(x):
            return (reduce(x, axes),)
        count = math.prod(x.shape[a] for a in axes)
        asked = is_float(x) and not any(count in lengths for lengths in unasked)
        is_nan = x != x if asked else lax.full_like(x, False, np.bool_)
        lengths = UNROLLED if x.dtype == jnp.float32 and asked else ()
        both, axes = _halved((x, is_nan), axes, lengths)
        value, any_ = lax.reduce(
            both,
            (identity(x.dtype), np.False_),
            lambda a, b: (op(a[0], b[0]), a[1] | b[1]),
            axes,
        )
        return (where(any_, np.nan if is_float(x) else 0, value),)

    return one_pass


def _of_one(
    op: Pick,
    identity: Callable[[np.dtype], Any],
    reduce: Reduction,
    agreed: Across,
    *,
    combine: Callable[[Sequence[jax.Array]], jax.Array] | None = None,
    partitioned: Reduction | None = None,
    rounds: bool = True,
) -> Fold:
    """A fold that keeps one value.

    Args:
        op: combines two.
        identity: the value of nothing.
        reduce: XLA's own.
        agreed: what devices agree on, over the named mesh axes.
        combine: of several arrays, elementwise, where that is not `op` of pairs.
        partitioned: the form that partitions well, where that is not `reduce`.
        rounds: as in `Fold`.
    """
    several = combine or functools.partial(_pairwise, op)
    return Fold(
        types=lambda dtype: (dtype,),
        nothing=lambda dtype: (identity(dtype),),
        start=lambda x: (x,),
        combine=lambda pieces: (several([piece[0] for piece in pieces]),),
        reduce=_reducer(partitioned or reduce),
        one_pass=_one_pass(op, identity, reduce, rounds, UNASKED if rounds else ()),
        default=_reducer(reduce),
        across=lambda parts, names: (agreed(parts[0], names),),
        rounds=rounds,
    )


SUM = _of_one(lax.add, lambda dtype: dtype.type(0), lax.reduce_sum, lax.psum)
PRODUCT = _of_one(lax.mul, lambda dtype: dtype.type(1), lax.reduce_prod, across.product)


def _sum_of_slopes(x: jax.Array, axes: Axes) -> jax.Array:
    """A sum that transposes; where it does, nothing is summed."""
    return _restored(lax.reduce_sum(x, axes), axes)


def _with_slopes(
    kind: Fold, slopes: Callable[[jax.Array, Axes, jax.Array], jax.Array]
) -> Reduction:
    """A fold whose derivative is the sum of its elements' slopes: of x, axes and dx."""

    @functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
    def reduced(x: jax.Array, axes: Axes) -> jax.Array:
        return _restored(fold(x, kind, axes)[0], axes)

    @reduced.defjvp
    def _(axes: Axes, primals: tuple[jax.Array], tangents: tuple[jax.Array]):
        (x,), (dx,) = primals, tangents
        return reduced(x, axes), _sum_of_slopes(slopes(x, axes, dx), axes)

    return reduced


_sum = _with_slopes(SUM, lambda x, axes, dx: dx)
_product = _with_slopes(PRODUCT, lambda x, axes, dx: product_of_others(x, axes, PRODUCT) * dx)


@jax.custom_jvp
def _abs(x: jax.Array) -> jax.Array:
    return x if jnp.issubdtype(x.dtype, jnp.unsignedinteger) else lax.abs(x)


@_abs.defjvp
def _abs_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]):
    # The derivative of lax.abs is 1 at 0, this one's 0.
    (x,), (dx,) = primals, tangents
    return _abs(x), lax.sign(x) * dx


@_accumulated
def sum_(x: jax.Array, axes: Axes) -> jax.Array:
    return _sum(x, axes)


@_accumulated
def average(x: jax.Array, axes: Axes) -> jax.Array:
    return _sum(x, axes) / x.dtype.type(math.prod(x.shape[a] for a in axes))


@_accumulated
def l1(x: jax.Array, axes: Axes) -> jax.Array:
    return _sum(_abs(x), axes)


@_accumulated
def sum_square(x: jax.Array, axes: Axes) -> jax.Array:
    return _sum(x * x, axes)


@_accumulated
def log_sum(x: jax.Array, axes: Axes) -> jax.Array:
    return lax.log(_sum(x, axes))


@_accumulated
def multiply(x: jax.Array, axes: Axes) -> jax.Array:
    return _product(x, axes)


def _flipped(bits: jax.Array) -> jax.Array:
    """A float's bits as an integer that orders as it does; and its own inverse."""
    limits = np.iinfo(bits.dtype)
    kept = bits.dtype.type(limits.max)
    return bits ^ (bits >> bits.dtype.type(limits.bits - 1) & kept)


def _ordered(largest: bool, reduce: Callable[[jax.Array], jax.Array]):
    """A max or min that gives NaN where there is one, by way of integers for floats.

    What combines in an order of its own (collectives, vectorised loops) may drop NaN of floats.
    """

    def ordered(x: jax.Array) -> jax.Array:
        if not is_float(x):
            return reduce(x)
        y = wide(x)
        integer = jnp.dtype(f"int{y.dtype.itemsize * 8}")
        limits = jnp.iinfo(integer)
        key = _flipped(lax.bitcast_convert_type(y, integer))
        nan = lax.full_like(key, limits.max if largest else limits.min)
        key = reduce(lax.select(x != x, nan, key))
        is_nan = key == (limits.max if largest else limits.min)
        value = lax.bitcast_convert_type(_flipped(key), y.dtype)
        value = lax.convert_element_type(value, x.dtype)
        return where(is_nan, np.nan, value)

    return ordered


def _lowest(dtype: np.dtype, largest: bool) -> Any:
    if jnp.issubdtype(dtype, jnp.floating):
        return dtype.type(-np.inf if largest else np.inf)
    limits = jnp.iinfo(dtype)
    return dtype.type(limits.min if largest else limits.max)


def _extreme_over(x: jax.Array, axes: Axes, largest: bool) -> jax.Array:
    """The form that partitions into one all-reduce."""
    reduce = lax.reduce_max if largest else lax.reduce_min
    return _ordered(largest, lambda x: reduce(x, axes))(x)


def _extreme_across(x: jax.Array, names: tuple[str, ...], largest: bool) -> jax.Array:
    reduce = lax.pmax if largest else lax.pmin
    return _ordered(largest, lambda x: reduce(x, names))(x)


def _extreme_of(pieces: Sequence[jax.Array], largest: bool) -> jax.Array:
    """Of floats, what is NaN apart: half the instructions, float16 [512, 256, 256] 6.6 ms, 3.1."""
    dtype = pieces[0].dtype
    if not is_float(pieces[0]):
        return _pairwise(lax.max if largest else lax.min, pieces)
    values = [wide(piece) for piece in pieces]
    beats = lax.gt if largest else lax.lt
    top = _pairwise(lambda a, b: lax.select(beats(a, b), a, b), values)
    is_nan = _pairwise(lax.bitwise_or, [value != value for value in values])
    top = lax.select(is_nan, lax.full_like(top, np.nan), top)
    return lax.convert_element_type(top, dtype)


def _extreme_bits(x: jax.Array, axes: Axes, largest: bool) -> jax.Array:
    """Of float16, by the integers that order as it does; any NaN is beyond one of the infinities.

    ms, rows of 256 as floats and so 2.5, 0.5; behind a clip 6.1, 2.9.
    """
    limits = np.iinfo(np.int16)
    key = _flipped(lax.bitcast_convert_type(x, np.int16))
    low, high = lax.reduce(
        (key, key),
        (np.int16(limits.max), np.int16(limits.min)),
        lambda a, b: (lax.min(a[0], b[0]), lax.max(a[1], b[1])),
        axes,
    )
    infinity = np.float16(np.inf).view(np.int16)
    value = lax.bitcast_convert_type(_flipped(high if largest else low), x.dtype)
    is_nan = (high > infinity) | (low < ~infinity)
    return lax.select(is_nan, lax.full_like(value, np.nan), value)


def _compared(largest: bool) -> Fold:
    """The extreme of elements as they are."""
    own, op = (lax.reduce_max, lax.max) if largest else (lax.reduce_min, lax.min)
    return _of_one(
        op,
        functools.partial(_lowest, largest=largest),
        lambda x, axes: lax.convert_element_type(own(wide(x), axes), x.dtype),
        functools.partial(_extreme_across, largest=largest),
        combine=functools.partial(_extreme_of, largest=largest),
        partitioned=functools.partial(_extreme_over, largest=largest),
        rounds=False,
    )


_COMPARED = {largest: _compared(largest) for largest in (True, False)}

# Lengths of rows whose loop LLVM unrolls wholly before it could vectorise it, by kind and width.
# Packed with their index they are more to unroll, and it does not. 2 cores, jax 0.10.2, of
# 16777216 elements, ms, by themselves and packed: FLOAT32 of 28 7.1, 3.2; FLOAT16 of 16 13, 2.4,
# of 32 19, 1.4; UINT8 of 16 8.8, 1.8, of 48 7.1, 0.7; INT32 of 16 8.2, 4.2, of 48 5.5, 1.5.
PACKED_ROWS = {"f4": range(24, 48), "f2": range(40), "i": range(80), "u": range(80)}


def _extreme_fold(largest: bool) -> Fold:
    kind = _COMPARED[largest]
    # Which of equal ones makes no difference but to LLVM: INT32 of 16 7.2 the other way.
    packing = Packing(_COMPARED[not largest], largest, not largest, np.dtype(np.int32), False)

    def one_pass(parts: Parts, axes: Axes) -> Parts:
        (x,) = parts
        name, count = x.dtype.str[1:], math.prod(x.shape[a] for a in axes)
        lengths = PACKED_ROWS.get(name) or PACKED_ROWS.get(name[0], ())
        if x.size > LITTLE and count in lengths and count <= packing.most(x.dtype):
            return packing.through(at_once(axes), x)[:1]
        if x.dtype == jnp.float16:
            return (_extreme_bits(x, axes, largest),)
        return kind.one_pass(parts, axes)

    return replace(kind, one_pass=one_pass)


MAX, MIN = _extreme_fold(True), _extreme_fold(False)


def _extreme_and_sum(
    largest: bool,
    worth: Callable[[Parts, jax.Array], jax.Array],
    *,
    worth_of_one: Callable[[jax.Array, jax.Array], jax.Array] | None = None,
    combine: Callable[[Sequence[Parts]], Parts] | None = None,
    sum_once: Reduction = lambda x, axes: SUM.one_pass((x,), axes)[0],
) -> Fold:
    """(extreme, the sum of what elements are worth beside it), in the type that accumulates.

    Args:
        largest: which extreme.
        worth: of what is kept of elements, beside the extreme of more of them.
        worth_of_one: the same of elements, for columns on a CPU, where that is another function.
        combine: as in `Fold`, where pairs are combined otherwise than several; a GPU's rows are so
            combined, and go in two passes where there is none.
        sum_once: the sum in one pass on a CPU.
    """
    extreme, op = (MAX, lax.max) if largest else (MIN, lax.min)

    def several(pieces: Sequence[Parts]) -> Parts:
        value = _pairwise(op, [piece[0] for piece in pieces])
        return value, _pairwise(lax.add, [worth(piece, value) for piece in pieces])

    def two_passes(first: Reduction, second: Reduction) -> Callable[[Parts, Axes], Parts]:
        def passes(parts: Parts, axes: Axes) -> Parts:
            value = first(parts[0], axes)
            return value, second(worth(parts, lax.expand_dims(value, sorted(axes))), axes)

        return passes

    def nothing(dtype: np.dtype) -> Sequence[Any]:
        kept = wide_type(dtype)
        return _lowest(kept, largest), kept.type(0)

    def agreed(parts: Parts, names: tuple[str, ...]) -> Parts:
        value = _extreme_across(parts[0], names, largest)
        return value, lax.psum(worth(parts, value), names)

    def beside(x: jax.Array, value: jax.Array) -> jax.Array:
        x, value = wide(x), wide(value)
        return worth_of_one(x, value) if worth_of_one else worth((x, lax.full_like(x, 1)), value)

    own = lax.reduce_max if largest else lax.reduce_min
    default = two_passes(own, lax.reduce_sum)
    if combine:
        default = functools.partial(by_pairs, combine, nothing)

    # `start`: slices of anything but x and constants (one that looks for -inf) are two kernels on
    # an H200, TB/s 1.8, 3.5 otherwise; and each slice becomes float32 by itself, since the whole,
    # which has several users, would be stored on a CPU. `one_pass`: XLA's own maximum does not fuse
    # on a CPU with what makes x. 2 cores, jax 0.10.2, ms, LOG_SUM_EXP of rows of [8192, 4096] with
    # it and with `MAX`: float16 56, 5.9; behind a clip 54, 8.6; as they are 10, 10.
    return Fold(
        types=lambda dtype: (wide_type(dtype),) * 2,
        start=lambda x: (wide(x), lax.full_like(x, 1, wide_type(x.dtype))),
        nothing=nothing,
        combine=combine or several,
        reduce=two_passes(functools.partial(_extreme_over, largest=largest), lax.reduce_sum),
        one_pass=two_passes(lambda x, axes: extreme.one_pass((x,), axes)[0], sum_once),
        default=default,
        across=agreed,
        rounds=True,
        row=128 if combine else 0,
        by_threads=True,
        ahead=9,  # with 8, LOG_SUM_EXP of FLOAT32 rows of 521 3.2, with 9 3.6
        first=several,
        twice=True,
        in_turn=InTurn(extreme, beside, SUM),
    )


def _counted(largest: bool) -> Fold:
    """(extreme, how many elements equal it); of NaN none."""
    return _extreme_and_sum(
        largest,
        lambda parts, value: parts[1] * lax.convert_element_type(parts[0] == value, value.dtype),
    )


_COUNTED = {largest: _counted(largest) for largest in (True, False)}


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _extreme(x: jax.Array, axes: Axes, largest: bool) -> jax.Array:
    """The largest or smallest element, NaN where there is one."""
    return _restored(fold(x, MAX if largest else MIN, axes)[0], axes)


@_extreme.defjvp
def _extreme_jvp(axes: Axes, largest: bool, primals: tuple[jax.Array], tangents: tuple[jax.Array]):
    # Equal elements share the derivative, as in JAX's own reductions.
    (x,), (dx,) = primals, tangents
    kept = fold(lax.stop_gradient(x), _COUNTED[largest], axes)
    value, count = stored(tuple(_restored(part, axes) for part in kept))
    chosen = lax.convert_element_type(wide(x) == value, value.dtype)
    slope = _sum_of_slopes(chosen * wide(dx), axes) / count
    return _extreme(x, axes, largest), lax.convert_element_type(slope, x.dtype)


def max_(x: jax.Array, axes: Axes) -> jax.Array:
    return _extreme(x, axes, True)


def min_(x: jax.Array, axes: Axes) -> jax.Array:
    return _extreme(x, axes, False)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _l2(x: jax.Array, axes: Axes) -> jax.Array:
    return lax.sqrt(_sum(x * x, axes))


@_l2.defjvp
def _l2_jvp(axes: Axes, primals: tuple[jax.Array], tangents: tuple[jax.Array]):
    # d|x| = x . dx / |x|, and 0 at the origin, where autodiff has 0 / 0.
    (x,), (dx,) = primals, tangents
    out = _l2(x, axes)
    return out, _sum_of_slopes(x / where(out == 0, np.inf, out) * dx, axes)


l2 = _accumulated(_l2)


def _finite(top: jax.Array) -> jax.Array:
    """The maximum as a shift: not where it is infinite, which would leave inf - inf."""
    return where(is_infinite(top), 0, top)


def _scaled(parts: Parts, top: jax.Array) -> jax.Array:
    """Sums of exponentials beside a maximum of more elements."""
    return parts[1] * lax.exp(parts[0] - _finite(top))


def _exp_sum_pair(a: Parts, b: Parts) -> Parts:
    # One exponential for two elements. Equal maxima may be infinite: nothing to scale then.
    even = lax.full_like(a[0], 1)
    scale = lax.select(a[0] == b[0], even, lax.exp(-lax.abs(a[0] - b[0])))
    first = a[0] > b[0]
    total = lax.select(first, a[1] + b[1] * scale, a[1] * scale + b[1])
    return lax.max(a[0], b[0]), total


_summed_asked = _one_pass(lax.add, lambda dtype: dtype.type(0), lax.reduce_sum, True)


def _sum_of_exponentials(x: jax.Array, axes: Axes) -> jax.Array:
    return _summed_asked(*_halved((x,), axes, UNROLLED_EXPONENTIALS))[0]


def _logarithm(top: jax.Array, total: jax.Array) -> Parts:
    """Of `total * exp(top)`; what is infinite is `top`."""
    return (where(is_infinite(top), top, top + lax.log(total)),)


# Results up to which what blocks have left is combined with XLA's own exponential, which is one
# instruction and not twenty. LOG_SUM_EXP of [8, 64, 256, 256] over (1, 2), ms to compile, to run,
# with none of XLA's 314, 6.9; so 232, 6.8; with XLA's alone 172 (and 308 with none), 10.6 (9.1).
FEW_EXPONENTIALS = 2**17


def _logarithm_of_rest(pieces: Sequence[Parts]) -> Parts:
    little = pieces[0][0].size <= FEW_EXPONENTIALS
    return _logarithm_of(pieces, lax.exp if little else exp_of_negative_on_cpu)


def _logarithm_of(
    pieces: Sequence[Parts], exp: Callable[[jax.Array], jax.Array] = exp_of_negative_on_cpu
) -> Parts:
    """Of the sum of their exponentials."""
    top = _pairwise(lax.max, [piece for (piece,) in pieces])
    total = _pairwise(lax.add, [exp(piece - top) for (piece,) in pieces])
    return _logarithm(top, total)


def _logarithm_once(parts: Parts, axes: Axes) -> Parts:
    return _logarithm(*EXP_SUM.one_pass((*parts, lax.full_like(parts[0], 1)), axes))


def _of_logarithm(x: jax.Array) -> Parts:
    return x, lax.full_like(x, 1)


EXP_SUM = _extreme_and_sum(
    True,
    _scaled,
    combine=functools.partial(_pairwise, _exp_sum_pair),
    sum_once=_sum_of_exponentials,
    # Beside an infinite maximum x - 0 may be above 0; what comes of it does not count.
    worth_of_one=lambda x, top: exp_of_negative_on_cpu(lax.min(x - _finite(top), x.dtype.type(0))),
)
# Where nothing but the logarithm is asked for (softmax wants the total's last bits): one value, for
# which XLA's CPU reads x once. 2 cores, jax 0.10.2, ms, FLOAT32, FLOAT16, of [8, 64, 256, 256] over
# (1) 55, 36; 27, 20; over (2) 47, 26; 29, 20; over (1, 2) 39, 29; 18, 14.
_LOGARITHM = replace(
    EXP_SUM,
    types=lambda dtype: (wide_type(dtype),),
    nothing=lambda dtype: (wide_type(dtype).type(-np.inf),),
    start=lambda x: (wide(x),),
    first=_logarithm_of,
    combine=_logarithm_of_rest,
    one_pass=_logarithm_once,
    in_turn=None,
)
LOG_EXP_SUM = replace(EXP_SUM, on_cpu=(_LOGARITHM, _of_logarithm))


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _shift_and_total(x: jax.Array, axes: Axes) -> Parts:
    """A constant, and the sum of `exp(x - constant)`, in the type that accumulates."""
    top, total = fold(x, EXP_SUM, axes)
    # exp(-inf - (-inf)) has counted as 1.
    known = total == total
    total = where(known & (top == np.inf), np.inf, total)
    total = where(known & (top == -np.inf), 0, total)
    return _restored(_finite(top), axes), _restored(total, axes)


def _power(x: jax.Array, shift: jax.Array, infinite: jax.Array) -> jax.Array:
    """exp(x - shift); 0 where the sum of them is infinite, and all its derivatives too."""
    x, shift = wide(x), stored(where(infinite, np.inf, shift))
    return exp_of_negative(where(x == np.inf, np.finfo(x.dtype).max, x) - shift)


@_shift_and_total.defjvp
def _shift_and_total_jvp(axes: Axes, primals: tuple[jax.Array], tangents: tuple[jax.Array]):
    (x,), (dx,) = primals, tangents
    shift, total = _shift_and_total(x, axes)
    power = _power(x, shift, is_infinite(total))
    slope = _sum_of_slopes(power * wide(dx), axes)
    return (shift, total), (jnp.zeros_like(shift), slope)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def log_sum_exp(x: jax.Array, axes: Axes) -> jax.Array:
    # Its parts accumulate by themselves, so that each piece of x is converted where it is read.
    # Infinite is what the maximum is. (With a shift and a total that are right by themselves, as
    # above, XLA stores on a CPU what makes x: [8, 4194304] over 0 behind a clip 37 ms, 11 so.)
    top, total = fold(x, LOG_EXP_SUM, axes)
    return lax.convert_element_type(_restored(lax.log(total) + top, axes), x.dtype)


@log_sum_exp.defjvp
def _log_sum_exp_jvp(axes: Axes, primals: tuple[jax.Array], tangents: tuple[jax.Array]):
    # The softmax of x; 0 where the result is infinite.
    (x,), (dx,) = primals, tangents
    shift, total = _shift_and_total(x, axes)
    infinite = is_infinite(lax.log(total) + shift)
    power, total = _power(x, shift, infinite), stored(where(infinite, 1, total))
    slope = _sum_of_slopes(power * wide(dx), axes) / total
    return log_sum_exp(x, axes), lax.convert_element_type(slope, x.dtype)


def argmax(x: jax.Array, axes: Axes, dtype: jnp.dtype, last: bool = False) -> jax.Array:
    """Index of the largest element; see `_arg`."""
    return _arg(x, axes, True, dtype, last)


def argmin(x: jax.Array, axes: Axes, dtype: jnp.dtype, last: bool = False) -> jax.Array:
    """Index of the smallest element; see `_arg`."""
    return _arg(x, axes, False, dtype, last)


def _arg(x: jax.Array, axes: Axes, largest: bool, dtype: jnp.dtype, last: bool) -> jax.Array:
    """Row-major index within the reduced axes, in increasing order, of the extreme element.

    The first of equal ones, or the `last`; the first (last) NaN where there is one.
    """
    count = math.prod(x.shape[a] for a in axes)
    index_type = np.dtype(np.int32 if count <= 2**31 - 1 else np.uint32)
    kind = _arg_fold(largest, last, index_type)
    _, index = fold(lax.stop_gradient(x), kind, axes)
    return lax.convert_element_type(_restored(index, axes), dtype)


@functools.cache
def _arg_fold(largest: bool, last: bool, index_type: np.dtype) -> Fold:
    """(extreme element, its index).

    Elements compare by value and, where that is equal, by index: the answer is the same in whatever
    order a backend combines.
    """
    over = lax.reduce_max if last else lax.reduce_min
    across = lax.pmax if last else lax.pmin
    none = index_type.type(0 if last else np.iinfo(index_type).max)

    def same(x: jax.Array, value: jax.Array) -> jax.Array:
        """Whether x is the extreme, which is NaN where one is."""
        return (x == value) | (x != x) if is_float(x) else x == value

    def found(x: jax.Array, value: jax.Array, index: jax.Array) -> jax.Array:
        """The index where x is that value, else one that any other beats."""
        return where(same(x, value), index, none)

    def pair(a: Parts, b: Parts) -> Parts:
        wins_ties = a[1] > b[1] if last else a[1] < b[1]
        if largest:  # `beats` is true where either is NaN, `beaten` false: fewer instructions
            beats, beaten = ~(a[0] <= b[0]), a[0] < b[0]
        else:
            beats, beaten = ~(a[0] >= b[0]), a[0] > b[0]
        if not is_float(a[0]):
            first = lax.select(wins_ties, ~beaten, beats)
        else:
            a_nan, b_number = a[0] != a[0], b[0] == b[0]
            first = lax.select(wins_ties, (~beaten & b_number) | a_nan, beats & b_number)
        return lax.select(first, a[0], b[0]), lax.select(first, a[1], b[1])

    def pair_in_order(a: Parts, b: Parts) -> Parts:
        kept, other = (b, a) if last else (a, b)
        if is_float(a[0]):
            beaten = ~(other[0] <= kept[0] if largest else other[0] >= kept[0])
            beaten &= kept[0] == kept[0]
        else:
            beaten = other[0] > kept[0] if largest else other[0] < kept[0]
        return lax.select(beaten, other[0], kept[0]), lax.select(beaten, other[1], kept[1])

    combine = functools.partial(_pairwise, pair)

    def reduce(parts: Parts, axes: Axes) -> Parts:
        x, index = parts
        value = _extreme_over(x, axes, largest)
        return value, over(found(x, lax.expand_dims(value, sorted(axes)), index), axes)

    def two_passes(parts: Parts, axes: Axes) -> Parts:
        x, index = parts
        (value,) = (MAX if largest else MIN).one_pass((x,), axes)
        places = found(x, lax.expand_dims(value, sorted(axes)), index)
        # Of two values, so that XLA makes the places as it reduces, and does not store them.
        nearest, any_ = lax.reduce(
            (places, places != none),
            (none, np.False_),
            lambda a, b: ((lax.max if last else lax.min)(a[0], b[0]), a[1] | b[1]),
            axes,
        )
        return value, where(any_, nearest, none)

    def nothing(dtype: np.dtype) -> Sequence[Any]:
        return _lowest(dtype, largest), none

    def agreed(parts: Parts, names: tuple[str, ...]) -> Parts:
        value = _extreme_across(parts[0], names, largest)
        return value, across(found(parts[0], value, parts[1]), names)

    return Fold(
        types=lambda dtype: (dtype, index_type),
        nothing=nothing,
        start=lambda x: (x, lax.full_like(x, 0, index_type)),
        combine=combine,
        first=functools.partial(_pairwise, pair_in_order),
        reduce=reduce,
        one_pass=two_passes,
        default=functools.partial(by_pairs, combine, nothing),
        across=agreed,
        row=24,
        by_threads=True,
        locates=True,
        packing=Packing(_COMPARED[last], largest, last, index_type),
        twice=True,
    )

"""The folds of MAX and MIN, and those that keep beside an extreme the sum of something."""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.axes import Axes, Parts, restored
from dml_jax.lowering.elementwise import signed_type, where
from dml_jax.lowering.folds.fold import (
    LITTLE,
    Fold,
    InTurn,
    at_once,
    by_pairs,
    last_run,
)
from dml_jax.lowering.folds.one_value import SUM, Reduction, of_one, pairwise
from dml_jax.lowering.folds.packed import Packing
from dml_jax.lowering.wide import is_float, wide, wide_type


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
        integer = signed_type(y.dtype)
        limits = jnp.iinfo(integer)
        nan = limits.max if largest else limits.min
        key = reduce(where(x != x, nan, _flipped(lax.bitcast_convert_type(y, integer))))
        value = lax.bitcast_convert_type(_flipped(key), y.dtype)
        return where(key == nan, np.nan, lax.convert_element_type(value, x.dtype))

    return ordered


def lowest(dtype: np.dtype, largest: bool) -> Any:
    """What no element is below; above, where the smallest is looked for."""
    if jnp.issubdtype(dtype, jnp.floating):
        return dtype.type(-np.inf if largest else np.inf)
    limits = jnp.iinfo(dtype)
    return dtype.type(limits.min if largest else limits.max)


def extreme_over(x: jax.Array, axes: Axes, largest: bool) -> jax.Array:
    """The form that partitions into one all-reduce."""
    reduce = lax.reduce_max if largest else lax.reduce_min
    return _ordered(largest, lambda x: reduce(x, axes))(x)


def extreme_across(x: jax.Array, names: tuple[str, ...], largest: bool) -> jax.Array:
    """The extreme of what devices have, over the named mesh axes."""
    reduce = lax.pmax if largest else lax.pmin
    return _ordered(largest, lambda x: reduce(x, names))(x)


def _extreme_of(pieces: Sequence[jax.Array], largest: bool) -> jax.Array:
    """The largest or smallest, elementwise.

    Floats are compared as if none were NaN, which is put back at the end: half the instructions.
    """
    if not is_float(pieces[0]):
        return pairwise(lax.max if largest else lax.min, pieces)
    if pieces[0].dtype == jnp.float16:
        keys = [_key(piece) for piece in pieces]
        return _of_keys(pairwise(lax.min, keys), pairwise(lax.max, keys), largest)
    beats = lax.gt if largest else lax.lt
    top = pairwise(lambda a, b: lax.select(beats(a, b), a, b), pieces)
    is_nan = pairwise(lax.bitwise_or, [piece != piece for piece in pieces])
    return where(is_nan, np.nan, top)


def _extreme_bits(x: jax.Array, axes: Axes, largest: bool) -> jax.Array:
    """Of float16. ms, rows of 256 as floats and so 2.5, 0.5; behind a clip 6.1, 2.9."""
    limits = np.iinfo(np.int16)
    key = _key(x)
    low, high = lax.reduce(
        (key, key),
        (np.int16(limits.max), np.int16(limits.min)),
        lambda a, b: (lax.min(a[0], b[0]), lax.max(a[1], b[1])),
        axes,
    )
    return _of_keys(low, high, largest)


def _key(x: jax.Array) -> jax.Array:
    """Of float16, an int16 that orders as it does; any NaN is beyond one of the infinities."""
    return _flipped(lax.bitcast_convert_type(x, np.int16))


def _of_keys(low: jax.Array, high: jax.Array, largest: bool) -> jax.Array:
    """The extreme, of the least and the greatest key."""
    infinity = np.float16(np.inf).view(np.int16)
    value = lax.bitcast_convert_type(_flipped(high if largest else low), np.float16)
    is_nan = (high > infinity) | (low < ~infinity)
    return lax.select(is_nan, lax.full_like(value, np.nan), value)


def _compared_as(x: jax.Array) -> jax.Array:
    """Narrow integers become int32.

    H100, jax 0.11.2, us, MAX as they are and so: UINT8 [8, 64, 1024, 1024] over 2 274, 217, over
    other axes within 6%; INT16 449, 357; INT8 [5, 13, 2036, 2084] over (1, 2) 308, 206, over 3 121,
    105. libtpu 0.0.42 for a v5e, millions of cycles that it estimates, UINT8 [8, 64, 256, 256] over
    any axes 1.2, 0.4; UINT16 0.9, 0.5. FLOAT16 would lose as float32: [30000000, 3] over 0 69, 114.
    """
    if not is_float(x) and x.dtype.itemsize < 4:
        return lax.convert_element_type(x, np.int32)
    return x


def _compared(largest: bool) -> Fold:
    """The extreme of elements as they are."""
    own, op = (lax.reduce_max, lax.max) if largest else (lax.reduce_min, lax.min)
    return of_one(
        op,
        functools.partial(lowest, largest=largest),
        lambda x, axes: lax.convert_element_type(own(_compared_as(x), axes), x.dtype),
        functools.partial(extreme_across, largest=largest),
        combine=functools.partial(_extreme_of, largest=largest),
        partitioned=functools.partial(extreme_over, largest=largest),
        rounds=False,
    )


COMPARED = {largest: _compared(largest) for largest in (True, False)}

# Lengths of rows whose loop LLVM unrolls wholly before it could vectorise it, by kind and width.
# Packed with their index they are more to unroll, and it does not. 2 cores, jax 0.10.2, of
# 16777216 elements, ms, by themselves and packed: FLOAT32 of 28 7.1, 3.2; FLOAT16 of 16 13, 2.4,
# of 32 19, 1.4; UINT8 of 16 8.8, 1.8, of 48 7.1, 0.7; INT32 of 16 8.2, 4.2, of 48 5.5, 1.5.
PACKED_ROWS = {"f4": range(24, 48), "f2": range(40), "i": range(80), "u": range(80)}

# Shorter rows of signed integers a GPU reduces as they are. us of 33554432, by bits
# (`one_value.of_one`) and so: rows of 4 54, 45; of 16 54, 38; of 64 52, 37; of 256 34.7, 35.5.
SHORT_ROW = 2**8


def _extreme_fold(largest: bool) -> Fold:
    kind = COMPARED[largest]
    # Which of equal ones makes no difference but to LLVM: INT32 of 16 7.2 the other way.
    packing = Packing(COMPARED[not largest], largest, not largest, np.dtype(np.int32), False)

    def one_pass(parts: Parts, axes: Axes) -> Parts:
        (x,) = parts
        name, count = x.dtype.str[1:], math.prod(x.shape[a] for a in axes)
        lengths = PACKED_ROWS.get(name) or PACKED_ROWS.get(name[0], ())
        if x.size > LITTLE and count in lengths and count <= packing.most(x.dtype):
            return packing.through(at_once(axes), x)[:1]
        if x.dtype == jnp.float16:
            return (_extreme_bits(x, axes, largest),)
        return kind.one_pass(parts, axes)

    def default(parts: Parts, axes: Axes) -> Parts:
        (x,) = parts
        n, behind = last_run(x.shape, axes)
        is_short = behind == 1 and n < SHORT_ROW
        if x.dtype == jnp.int32 and is_short:
            return ((lax.reduce_max if largest else lax.reduce_min)(x, axes),)
        return kind.default(parts, axes)

    return replace(kind, one_pass=one_pass, default=default)


MAX, MIN = _extreme_fold(True), _extreme_fold(False)


def extreme_and_sum(
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
        value = pairwise(op, [piece[0] for piece in pieces])
        return value, pairwise(lax.add, [worth(piece, value) for piece in pieces])

    def two_passes(first: Reduction, second: Reduction) -> Callable[[Parts, Axes], Parts]:
        def passes(parts: Parts, axes: Axes) -> Parts:
            value = first(parts[0], axes)
            return value, second(worth(parts, restored(value, axes)), axes)

        return passes

    def identity(dtype: np.dtype) -> Sequence[Any]:
        kept = wide_type(dtype)
        return lowest(kept, largest), kept.type(0)

    def agreed(parts: Parts, names: tuple[str, ...]) -> Parts:
        value = extreme_across(parts[0], names, largest)
        return value, lax.psum(worth(parts, value), names)

    def beside(x: jax.Array, value: jax.Array) -> jax.Array:
        x, value = wide(x), wide(value)
        return worth_of_one(x, value) if worth_of_one else worth((x, lax.full_like(x, 1)), value)

    own = lax.reduce_max if largest else lax.reduce_min
    default = two_passes(own, lax.reduce_sum)
    if combine:
        default = functools.partial(by_pairs, combine, identity)

    # `start`: slices of anything but x and constants (one that looks for -inf) are two kernels on
    # an H200, TB/s 1.8, 3.5 otherwise; and each slice becomes float32 by itself, since the whole,
    # which has several users, would be stored on a CPU. `one_pass`: XLA's own maximum does not fuse
    # on a CPU with what makes x. 2 cores, jax 0.10.2, ms, LOG_SUM_EXP of rows of [8192, 4096] with
    # it and with `MAX`: float16 56, 5.9; behind a clip 54, 8.6; as they are 10, 10.
    return Fold(
        types=lambda dtype: (wide_type(dtype),) * 2,
        start=lambda x: (wide(x), lax.full_like(x, 1, wide_type(x.dtype))),
        identity=identity,
        combine=combine or several,
        reduce=two_passes(functools.partial(extreme_over, largest=largest), lax.reduce_sum),
        one_pass=two_passes(lambda x, axes: extreme.one_pass((x,), axes)[0], sum_once),
        default=default,
        across=agreed,
        rounds=True,
        row=24 if combine else 0,
        ahead=9,  # with 8, LOG_SUM_EXP of FLOAT32 rows of 521 3.2, with 9 3.6
        first=several,
        reads_twice=True,
        in_turn=InTurn(extreme, beside, SUM),
    )


def _counted(largest: bool) -> Fold:
    """(extreme, how many elements equal it); of NaN none."""
    return extreme_and_sum(
        largest,
        lambda parts, value: parts[1] * lax.convert_element_type(parts[0] == value, value.dtype),
    )


COUNTED = {largest: _counted(largest) for largest in (True, False)}

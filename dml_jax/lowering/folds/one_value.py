"""Folds that keep one value: SUM and PRODUCT, and what those of MAX and MIN have in common."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.axes import Axes, Parts
from dml_jax.lowering.devices import across
from dml_jax.lowering.elementwise import signed_type, where
from dml_jax.lowering.epilogue import epilogue
from dml_jax.lowering.folds.fold import Fold, ends_in_rows, shaped
from dml_jax.lowering.wide import is_float

Reduction = Callable[[jax.Array, Axes], jax.Array]
Across = Callable[[jax.Array, tuple[str, ...]], jax.Array]
Pick = Callable[[jax.Array, jax.Array], jax.Array]


def pairwise(op: Callable[[Any, Any], Any], values: Sequence[Any]) -> Any:
    """Neighbours first, as a tree: for a sum, the smallest rounding error."""
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=False)
        values = [*(op(a, b) for a, b in pairs), *values[len(values) // 2 * 2 :]]
    return values[0]


def _reducer(reduce: Reduction) -> Callable[[Parts, Axes], Parts]:
    return lambda parts, axes: (reduce(parts[0], axes),)


def _by_bits(reduce: Reduction, ordered: bool) -> Reduction:
    """The same, of signed integers as unsigned ones; where order matters, in the same order.

    XLA's GPU leaves columns of signed ones to Triton, in tiles of four. H200, jax 0.11.2, TB/s, SUM
    and MAX as they are, and so: [3328, 18800] over 0 0.9, 3.1; 0.9, 2.7. [1048576, 64] 2.3, 3.1;
    2.1, 3.0. [5, 13, 1017, 1015] over 2 1.8, 2.9; 1.8, 2.8. [16, 64, 256, 256] over 2 2.4, 3.4;
    2.4, 2.6. Along rows, us, MAX of [131072, 256] 35.5, 34.8, [4093, 4099] 19.7, 17.1, as an
    element and its index (`packed`) of [8, 64, 65536] over 2 32, 27.
    """
    sign = np.uint32(2**31 if ordered else 0)

    def reduced(x: jax.Array, axes: Axes) -> jax.Array:
        if x.dtype != jnp.int32:
            return reduce(x, axes)
        bits = reduce(lax.bitcast_convert_type(x, np.uint32) ^ sign, axes)
        return epilogue(signed, bits) if ordered and ends_in_rows(x.shape, axes) else signed(bits)

    def signed(bits: jax.Array) -> jax.Array:
        return lax.bitcast_convert_type(bits ^ sign, np.int32)

    return reduced


# Rows whose loop LLVM unrolls wholly, and then vectorises badly or not. 2 cores, jax 0.10.2, of
# 33554432 elements, ms, as they are and in halves: MAX FLOAT32 of 224 7.9, 4.9; of 256 8.8, 4.4; of
# 320 12.5, 4.5. Of 192, 352 and 1024 nothing is gained, nor for SUM.
HALVED_ROWS = (224, 256, 288, 320)


def halved(parts: Parts, axes: Axes, lengths: Sequence[int]) -> tuple[Parts, Axes]:
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
UNASKED = (range(99, 513), range(768, 2**31))
# Rows of which NaN is looked for in integers as wide as the elements, since LLVM does not vectorise
# what has flags of one bit beside. GB/s of 33 MB, 2026-11-26, with flags and so, SUM of FLOAT32,
# rows of 25 14, 26; 31 16, 25; 49 12, 28 (XLA's own, which is not fused, 24, 25, 28); 97 16, 26; L2
# of FLOAT16, 33 6.8, 15; behind a clip 640 16, 18. Others are level or slower: behind a clip of
# FLOAT16 from 65 on (SUM of 96 19, 16), behind squares of differences up to 20 (variances of 17 1.6
# ms, 2.3, where SUM has 14, 24 GB/s), LOG_SUM_EXP (FLOAT32, 256 12.6, 10) and MAX (13 26, 20).
BY_BITS = (range(21, 65), range(97, 99), range(513, 768))


def _magnitude(x: jax.Array) -> jax.Array:
    """A float's bits without the sign, as a signed integer: NaN is above infinity."""
    integer = signed_type(x.dtype)
    return lax.bitcast_convert_type(x, integer) & integer.type(np.iinfo(integer).max)


def one_pass_of(
    op: Pick,
    identity: Callable[[np.dtype], Any],
    unasked: Sequence[range] = (),
    by_bits: Sequence[range] = (),
) -> Callable[[Parts, Axes], Parts]:
    """In one pass, on CPU.

    Beside the value it carries whether there was NaN. XLA's vectorised max and min drop it (jax
    0.10.2: rows of 64 lose all of them); and a reduction of two values, unlike one of one, is fused
    with what makes its input, and a maximum of integers is vectorised: there never is one of those.
    ms, XLA's own and this: float32 sums of 131072 rows of 256 3.4, 3.2, both behind a clip 80, 5.9;
    of 4096 of 4096 1.6, 1.7; 30, 1.6. int32 maxima of rows of 256 16, 4.5; sums behind an absolute
    value 55, 3.9.

    Args:
        op: combines two.
        identity: the value of no elements.
        unasked: how many floats are not asked whether there is NaN.
        by_bits: and how many are asked by their bits.
    """

    def both(parts: Parts, axes: Axes, of_nan: Pick = lax.bitwise_or) -> Parts:
        x, nan = parts
        start = identity(x.dtype), nan.dtype.type(0)
        return lax.reduce(parts, start, lambda a, b: (op(a[0], b[0]), of_nan(a[1], b[1])), axes)

    def one_pass(parts: Parts, axes: Axes) -> Parts:
        (x,) = parts
        count = math.prod(x.shape[a] for a in axes)
        asked = is_float(x) and not any(count in lengths for lengths in unasked)
        if asked and any(count in lengths for lengths in by_bits):
            value, largest = both((x, _magnitude(x)), axes, lax.max)
            return (where(largest > _magnitude(lax.full_like(value, np.inf)), np.nan, value),)
        is_nan = x != x if asked else lax.full_like(x, False, np.bool_)
        lengths = HALVED_ROWS if x.dtype == jnp.float32 and asked else ()
        value, any_ = both(*halved((x, is_nan), axes, lengths))
        return (where(any_, np.nan if is_float(x) else 0, value),)

    return one_pass


def of_one(
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
        identity: the value of no elements.
        reduce: XLA's own.
        agreed: what devices agree on, over the named mesh axes.
        combine: of several arrays, elementwise, where that is not `op` of pairs.
        partitioned: the form that partitions well, where that is not `reduce`.
        rounds: as in `Fold`.
    """
    several = combine or functools.partial(pairwise, op)
    return Fold(
        types=lambda dtype: (dtype,),
        identity=lambda dtype: (identity(dtype),),
        start=lambda x: (x,),
        combine=lambda pieces: (several([piece[0] for piece in pieces]),),
        reduce=_reducer(partitioned or reduce),
        one_pass=one_pass_of(op, identity, *((UNASKED, BY_BITS) if rounds else ())),
        default=_reducer(_by_bits(reduce, ordered=not rounds)),
        across=lambda parts, names: (agreed(parts[0], names),),
        pair=op,
        rounds=rounds,
    )


SUM = of_one(lax.add, lambda dtype: dtype.type(0), lax.reduce_sum, lax.psum)
PRODUCT = of_one(lax.mul, lambda dtype: dtype.type(1), lax.reduce_prod, across.product)

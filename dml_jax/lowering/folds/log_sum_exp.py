"""The folds of LOG_SUM_EXP: a maximum, and the sum of exponentials beside it."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace

import jax
import numpy as np
from jax import lax

from dml_jax.lowering.axes import Axes, Parts
from dml_jax.lowering.elementwise import is_infinite, where
from dml_jax.lowering.folds.exponential import exp_of_negative_on_cpu
from dml_jax.lowering.folds.extreme import extreme_and_sum
from dml_jax.lowering.folds.one_value import halved, one_pass_of, pairwise
from dml_jax.lowering.wide import wide, wide_type


def finite(top: jax.Array) -> jax.Array:
    """The maximum as a shift: not where it is infinite, which would leave inf - inf."""
    return where(is_infinite(top), 0, top)


def _scaled(parts: Parts, top: jax.Array) -> jax.Array:
    """Sums of exponentials beside a maximum of more elements."""
    return parts[1] * lax.exp(parts[0] - finite(top))


def _exp_sum_pair(a: Parts, b: Parts) -> Parts:
    # One exponential for two elements. Equal maxima may be infinite: nothing to scale then.
    even = lax.full_like(a[0], 1)
    scale = lax.select(a[0] == b[0], even, lax.exp(-lax.abs(a[0] - b[0])))
    first = a[0] > b[0]
    total = lax.select(first, a[1] + b[1] * scale, a[1] * scale + b[1])
    return lax.max(a[0], b[0]), total


_summed_asked = one_pass_of(lax.add, lambda dtype: dtype.type(0))


# Rows whose loop LLVM unrolls wholly, as `one_value.HALVED_ROWS`: ms, as they are and in halves, of
# 512 15.8, 7.4, of 576 15.4, 10.4, of 600 11.2, 8.2; of 544 nothing is gained.
HALVED_ROWS = range(512, 641, 2)


def _sum_of_exponentials(x: jax.Array, axes: Axes) -> jax.Array:
    return _summed_asked(*halved((x,), axes, HALVED_ROWS))[0]


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
    top = pairwise(lax.max, [piece for (piece,) in pieces])
    total = pairwise(lax.add, [exp(piece - top) for (piece,) in pieces])
    return _logarithm(top, total)


def _logarithm_once(parts: Parts, axes: Axes) -> Parts:
    return _logarithm(*EXP_SUM.one_pass((*parts, lax.full_like(parts[0], 1)), axes))


def _of_logarithm(x: jax.Array) -> Parts:
    return x, lax.full_like(x, 1)


EXP_SUM = extreme_and_sum(
    True,
    _scaled,
    combine=functools.partial(pairwise, _exp_sum_pair),
    sum_once=_sum_of_exponentials,
    # Beside an infinite maximum x - 0 may be above 0; what comes of it does not count.
    worth_of_one=lambda x, top: exp_of_negative_on_cpu(lax.min(x - finite(top), x.dtype.type(0))),
)
# Where nothing but the logarithm is asked for (softmax wants the total's last bits): one value, for
# which XLA's CPU reads x once. 2 cores, jax 0.10.2, ms, FLOAT32, FLOAT16, of [8, 64, 256, 256] over
# (1) 55, 36; 27, 20; over (2) 47, 26; 29, 20; over (1, 2) 39, 29; 18, 14.
_LOGARITHM = replace(
    EXP_SUM,
    types=lambda dtype: (wide_type(dtype),),
    identity=lambda dtype: (wide_type(dtype).type(-np.inf),),
    start=lambda x: (wide(x),),
    first=_logarithm_of,
    combine=_logarithm_of_rest,
    one_pass=_logarithm_once,
    in_turn=None,
    logarithm=True,
)
LOG_EXP_SUM = replace(
    EXP_SUM,
    result=lambda top, total: lax.log(total) + top,
    on_cpu=(_LOGARITHM, _of_logarithm),
)

"""Slopes of LOG_SUM_EXP, MAX and MIN: what elements' tangents are multiplied by before the sum.

Along rows XLA makes one kernel of them on a GPU, which holds a row while it reduces it, so that a
derivative reads its input once. It does so for plain reductions that are broadcast, subtracted and
divided by, as in a softmax; not if an element is selected by what was reduced, nor if it meets the
result's gradient as a quotient of that and what was reduced. So there the division comes first.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np
from jax import lax

from dml_jax.lowering.axes import Axes, Parts, reduced_shape, restored
from dml_jax.lowering.differentiable import differentiable
from dml_jax.lowering.elementwise import is_infinite, where
from dml_jax.lowering.folds.exponential import exp_of_negative
from dml_jax.lowering.folds.extreme import COUNTED
from dml_jax.lowering.folds.log_sum_exp import EXP_SUM, finite
from dml_jax.lowering.folds.placed import fold
from dml_jax.lowering.slopes.slope_sum import slope_sum
from dml_jax.lowering.stored_cpu import stored
from dml_jax.lowering.wide import wide

# Rows that a GPU's kernel holds. H200, jax 0.11.2, us of 33554432 elements, in two passes and so, a
# copy of FLOAT32 70, of FLOAT16 36; rows of 16, 48, 256, 1000, 4096, 16384:
#     LOG_SUM_EXP  FLOAT32  142, 90; 127, 87; 115, 84; 114, 79; 117, 93; 113, 130
#                  FLOAT16   88, 41;  82, 51;  80, 44;  78, 46;  81, 60;  78, 98
#     MAX          FLOAT32  113, 76; 114, 73; 116, 77; 114, 77; 114, 79; 118, 105
#                  FLOAT16   91, 47;  40, 43;  41, 41;  42, 43;  55, 50;  73, 75
# Of 333 LOG_SUM_EXP 124, 163; 101, 206; MAX 121, 106; 181, 110. LOG_SUM_EXP of 15 FLOAT16 125, 94;
# of 5000 84, 155.
LONGEST = 2**13


@dataclass(frozen=True, eq=False)
class Slopes:
    """How elements' slopes are made.

    Attributes:
        slope: of elements and what they share along the axes.
        shared: that, and what the sum of tangents by slopes is to be divided by.
        of_rows: the slopes themselves, divided, for a GPU's rows.
        one_kernel: whether rows of so many elements go so.
    """

    slope: Callable[[jax.Array, jax.Array], jax.Array]
    shared: Callable[[jax.Array, Axes], tuple[jax.Array, jax.Array]]
    of_rows: Callable[[jax.Array, Axes], jax.Array]
    one_kernel: Callable[[int], bool] = lambda n: True


def summed(slopes: Slopes, dx: jax.Array, x: jax.Array, axes: Axes) -> jax.Array:
    """The sum of elements' dx by their slopes along axes, which become 1; it accumulates wide.

    Args:
        slopes: how they are made.
        dx: of x's shape.
        x: floats.
        axes: along these.
    """
    n = _row(x, axes)
    if 0 < n <= LONGEST and slopes.one_kernel(n):
        factor, divisor = _by_platform(slopes, x, tuple(axes))
        return restored(lax.reduce_sum(factor * wide(dx), axes), axes) / divisor
    shared, divisor = slopes.shared(x, axes)
    return slope_sum(slopes.slope, dx, x, shared, axes) / divisor


def _row(x: jax.Array, axes: Axes) -> int:
    """How many elements rows have; 0 where they are not the last axis (of more than one element).

    Rows of several axes XLA does not take for a softmax, reshaped or not.
    """
    longer = [a for a, n in enumerate(x.shape) if n > 1]
    along = [a for a in longer if a in axes]
    return x.shape[along[0]] if along and along == longer[-1:] else 0


@functools.partial(jax.jit, static_argnums=(0, 2))  # or each eager derivative would compile it
def _by_platform(slopes: Slopes, x: jax.Array, axes: Axes) -> Parts:
    """Slopes, and what their sum is divided by: 1 where they are already."""

    def of_rows(x: jax.Array) -> Parts:
        divided = slopes.of_rows(x, axes)
        return divided, lax.full_like(divided, 1, shape=reduced_shape(x.shape, axes))

    def other(x: jax.Array) -> Parts:
        shared, divisor = slopes.shared(x, axes)
        return slopes.slope(x, shared), divisor

    return lax.platform_dependent(x, cuda=of_rows, default=other)


def _softmax_of_rows(x: jax.Array, axes: Axes) -> jax.Array:
    x = wide(x)
    most = np.finfo(x.dtype).max
    top = lax.max(restored(lax.reduce_max(lax.stop_gradient(x), axes), axes), -most)
    power = lax.exp(_bounded(x) - top)
    # At least 1, but 0 where the top is infinite.
    total = lax.max(restored(lax.reduce_sum(power, axes), axes), x.dtype.type(0.5))
    return power / total * lax.convert_element_type(x != -np.inf, x.dtype)


@differentiable()
def _bounded(x: jax.Array) -> jax.Array:
    most = np.finfo(x.dtype).max
    return lax.clamp(-most, x, most)


@_bounded.defjvp
def _bounded_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]):
    # Also at the bounds, where that of a clamp is 0.
    return _bounded(*primals), *tangents


def _are_even(n: int) -> bool:
    """Any of up to 16 elements, multiples of 8 up to 4096, of 64 beyond."""
    return n <= 16 or n % (8 if n <= 2**12 else 64) == 0


def _share_of_rows(x: jax.Array, axes: Axes, largest: bool) -> jax.Array:
    x = wide(lax.stop_gradient(x))
    top = restored((lax.reduce_max if largest else lax.reduce_min)(x, axes), axes)
    chosen = _equal(x, top)
    return chosen / lax.max(restored(lax.reduce_sum(chosen, axes), axes), x.dtype.type(1))


def _equal(x: jax.Array, value: jax.Array) -> jax.Array:
    return lax.convert_element_type(wide(x) == value, value.dtype)


def _value_and_count(x: jax.Array, axes: Axes, largest: bool) -> tuple[jax.Array, jax.Array]:
    value, count = fold(lax.stop_gradient(x), COUNTED[largest], axes)
    count = lax.max(count, count.dtype.type(1))
    return stored((restored(value, axes), restored(count, axes)))


def _finite_shift_and_total(x: jax.Array, axes: Axes) -> tuple[jax.Array, jax.Array]:
    shift, total = _shift_and_total(x, axes)
    infinite = is_infinite(total) | (total == 0)
    return stored((where(infinite, np.inf, shift), where(infinite, 1, total)))


@differentiable(static=1)
def _shift_and_total(x: jax.Array, axes: Axes) -> Parts:
    """A constant, and the sum of `exp(x - constant)`, in the type that accumulates."""
    top, total = fold(x, EXP_SUM, axes)
    # exp(-inf - (-inf)) has counted as 1.
    known = total == total
    total = where(known & (top == np.inf), np.inf, total)
    total = where(known & (top == -np.inf), 0, total)
    return restored(finite(top), axes), restored(total, axes)


def _power(x: jax.Array, shift: jax.Array) -> jax.Array:
    """exp(x - shift) of a shift that is not below x; 0, and so its derivatives, where it is inf."""
    x = wide(x)
    return exp_of_negative(where(x == np.inf, np.finfo(x.dtype).max, x) - shift)


@_shift_and_total.defjvp
def _shift_and_total_jvp(axes: Axes, primals: tuple[jax.Array], tangents: tuple[jax.Array]):
    (x,), (dx,) = primals, tangents
    shift, total = _shift_and_total(x, axes)
    top = stored(where(is_infinite(total), np.inf, shift))
    return (shift, total), (lax.full_like(shift, 0), slope_sum(_power, dx, x, top, axes))


SOFTMAX = Slopes(_power, _finite_shift_and_total, _softmax_of_rows, _are_even)
"""exp(x) / the sum of them; 0 where that is infinite, or 0."""
SHARES = {
    largest: Slopes(
        _equal,
        functools.partial(_value_and_count, largest=largest),
        functools.partial(_share_of_rows, largest=largest),
    )
    for largest in (True, False)
}
"""1 shared by the largest (smallest) elements, as in JAX's own reductions; beside NaN 0.

(Of rows that are sharded over several GPUs a maximum may drop NaN, and the others share.)
"""

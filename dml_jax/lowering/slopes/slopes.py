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

from dml_jax.lowering.all_cores_cpu import by_all_cores
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

# Rows that a GPU's kernel holds. us of 33554432 elements, in two passes and so; LOG_SUM_EXP (H100,
# jax 0.11.2) of rows of 15, 48, 256, 333, 777, 1000, 4096, 8192:
#     FLOAT32  187, 117; 157, 99; 148, 98; 153, 117; 156, 121; 152, 99; 151, 98; 149, 98
#     FLOAT16  131, 83; 94, 53; 87, 51; 98, 117; 97, 86; 88, 55; 94, 56; 95, 59
# MAX (H200, where a copy of FLOAT32 takes 70) of rows of 16, 48, 256, 1000, 4096, 16384, 333:
#     FLOAT32  113, 76; 114, 73; 116, 77; 114, 77; 114, 79; 118, 105; 121, 106
#     FLOAT16  91, 47; 40, 43; 41, 41; 42, 43; 55, 50; 73, 75; 181, 110
LONGEST = 2**13


@dataclass(frozen=True, eq=False)
class Slopes:
    """How elements' slopes are made.

    Attributes:
        slope: of elements and what they share along the axes.
        shared: that, and what the sum of tangents by slopes is to be divided by.
        of_rows: the slopes themselves, divided, for a GPU's rows.
    """

    slope: Callable[[jax.Array, jax.Array], jax.Array]
    shared: Callable[[jax.Array, Axes], tuple[jax.Array, jax.Array]]
    of_rows: Callable[[jax.Array, Axes], jax.Array]


def summed(slopes: Slopes, dx: jax.Array, x: jax.Array, axes: Axes) -> jax.Array:
    """The sum of elements' dx by their slopes along axes, which become 1; it accumulates wide.

    Args:
        slopes: how they are made.
        dx: of x's shape.
        x: floats.
        axes: along these.
    """
    if 0 < _row(x, axes) <= LONGEST:
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
        return slopes.slope(by_all_cores(x), shared), divisor

    return lax.platform_dependent(x, cuda=of_rows, default=other)


def _softmax_of_rows(x: jax.Array, axes: Axes) -> jax.Array:
    """In few instructions: of more XLA gives a thread too many rows.

    H100, jax 0.11.2, us, with elements bounded below, too, and a factor of 0 where one is -inf, and
    so, of 33554432 FLOAT32, rows of 48 140, 99; 100 155, 99; 256 162, 98; 333 165, 117; 512 186,
    97.
    """
    x = wide(x)
    # The top is finite or inf, so that all that is infinite becomes exp(-inf).
    top = restored(lax.reduce_max(lax.stop_gradient(x), axes), axes)
    power = lax.exp(_at_most(x) - lax.max(top, -np.finfo(x.dtype).max))
    # At least 1, but 0 where the top is infinite.
    return power / lax.max(restored(lax.reduce_sum(power, axes), axes), x.dtype.type(0.5))


@differentiable()
def _at_most(x: jax.Array) -> jax.Array:
    """x, or the largest number where it is inf."""
    return lax.min(x, np.finfo(x.dtype).max)


@_at_most.defjvp
def _at_most_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]):
    # Also of the largest number, where that of a minimum is half.
    return _at_most(*primals), *tangents


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


SOFTMAX = Slopes(_power, _finite_shift_and_total, _softmax_of_rows)
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

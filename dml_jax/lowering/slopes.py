"""The derivatives of LOG_SUM_EXP, MAX and MIN: sums of elements' tangents by their slopes.

Of a softmax along rows, by plain reductions whose results are broadcast and divide, XLA makes one
kernel on a GPU: it holds a row while it reduces it, so that a derivative reads its input once. A
product with a quotient, or a select by what was reduced, does not go into it.
"""

import functools
from collections.abc import Callable

import jax
import numpy as np
from jax import lax

from dml_jax.lowering.elementwise import is_infinite, where
from dml_jax.lowering.exponential import exp_of_negative
from dml_jax.lowering.fold import Axes, Parts
from dml_jax.lowering.fold_along import fold
from dml_jax.lowering.fold_exponentials import EXP_SUM, finite
from dml_jax.lowering.fold_extreme import COUNTED
from dml_jax.lowering.slope_sum import slope_sum
from dml_jax.lowering.stored import stored
from dml_jax.lowering.wide import wide

Form = Callable[..., Parts]

# Rows that a GPU's kernel holds. H200, jax 0.11.2, us of 33554432 elements, in two passes and so, a
# copy of FLOAT32 70, of FLOAT16 36; rows of 16, 48, 256, 1000, 4096, 16384:
#     LOG_SUM_EXP  FLOAT32  142, 90; 127, 87; 115, 84; 114, 79; 117, 93; 113, 130
#                  FLOAT16   88, 41;  82, 51;  80, 44;  78, 46;  81, 60;  78, 98
#     MAX          FLOAT32  113, 76; 114, 73; 116, 77; 114, 77; 114, 79; 118, 105
#                  FLOAT16   91, 47;  40, 43;  41, 41;  42, 43;  55, 50;  73, 75
# Of 333 LOG_SUM_EXP 124, 163; 101, 206; MAX 121, 106; 181, 110. LOG_SUM_EXP of 15 FLOAT16 125, 94;
# of 5000 84, 155.
LONGEST = 2**13
# What LOG_SUM_EXP's rows are a multiple of, of more elements than `FEW`, and than `MANY`.
EVEN, LONG_EVEN, FEW, MANY = 8, 64, 16, 2**12


def by_softmax(dx: jax.Array, x: jax.Array, axes: Axes) -> jax.Array:
    """The sum of dx by the softmax of x along axes, which become 1, in the type that accumulates.

    The softmax is 0 where the sum of the exponentials is infinite, or 0.
    """
    n = _row(x, axes)
    even = n <= FEW or n % (EVEN if n <= MANY else LONG_EVEN) == 0
    if 1 < n <= LONGEST and even:
        factor, divisor = _by_platform(_softmax_of_rows, _softmax, x, tuple(axes))
        return _along(lax.reduce_sum, factor * wide(dx), axes) / divisor
    shift, total = _finite_shift_and_total(x, axes)
    return slope_sum(_power, dx, x, (shift,), axes) / total


def by_share(dx: jax.Array, x: jax.Array, axes: Axes, largest: bool) -> jax.Array:
    """The same by 1 shared by the largest (smallest) elements; of NaN 0."""
    if 1 < _row(x, axes) <= LONGEST:
        factor, divisor = _by_platform(*_SHARES[largest], x, tuple(axes))
        return _along(lax.reduce_sum, factor * wide(dx), axes) / divisor
    value, count = _value_and_count(x, axes, largest)
    return slope_sum(_equal, dx, x, (value,), axes) / count


def _row(x: jax.Array, axes: Axes) -> int:
    """How many elements rows have that are along the last axis of more than one; else 0."""
    longer = [a for a, n in enumerate(x.shape) if n > 1]
    along = [a for a in longer if a in axes]
    return x.shape[along[0]] if along and along == longer[-1:] else 0


@functools.partial(jax.jit, static_argnums=(0, 1, 3))  # or each eager one would be compiled
def _by_platform(of_rows: Form, other: Form, x: jax.Array, axes: Axes) -> Parts:
    """What elements' tangents are multiplied by, and what their sum is divided by."""
    return lax.platform_dependent(
        x, cuda=functools.partial(of_rows, axes=axes), default=functools.partial(other, axes=axes)
    )


def _softmax_of_rows(x: jax.Array, axes: Axes) -> Parts:
    x = wide(x)
    most = np.finfo(x.dtype).max
    top = lax.max(_along(lax.reduce_max, lax.stop_gradient(x), axes), -most)
    power = lax.exp(lax.clamp(-most, x, most) - top)
    # At least 1, but 0 where the top is infinite.
    total = lax.max(_along(lax.reduce_sum, power, axes), x.dtype.type(0.5))
    there = lax.convert_element_type(x != -np.inf, x.dtype)
    return power / total * there, lax.full_like(total, 1)


def _share_of_rows(x: jax.Array, axes: Axes, largest: bool) -> Parts:
    x = wide(lax.stop_gradient(x))
    top = _along(lax.reduce_max if largest else lax.reduce_min, x, axes)
    chosen = lax.convert_element_type(x == top, x.dtype)
    count = lax.max(_along(lax.reduce_sum, chosen, axes), x.dtype.type(1))
    return chosen / count, lax.full_like(count, 1)


def _softmax(x: jax.Array, axes: Axes) -> Parts:
    shift, total = _finite_shift_and_total(x, axes)
    return _power(x, shift), total


def _share(x: jax.Array, axes: Axes, largest: bool) -> Parts:
    value, count = _value_and_count(x, axes, largest)
    return _equal(x, value), count


def _finite_shift_and_total(x: jax.Array, axes: Axes) -> Parts:
    shift, total = _shift_and_total(x, axes)
    infinite = is_infinite(total) | (total == 0)
    return stored((where(infinite, np.inf, shift), where(infinite, 1, total)))


def _value_and_count(x: jax.Array, axes: Axes, largest: bool) -> Parts:
    kept = fold(lax.stop_gradient(x), COUNTED[largest], axes)
    value, count = (lax.expand_dims(part, sorted(axes)) for part in kept)
    return stored((value, lax.max(count, count.dtype.type(1))))


def _equal(x: jax.Array, value: jax.Array) -> jax.Array:
    return lax.convert_element_type(wide(x) == value, value.dtype)


_SHARES = {
    largest: tuple(functools.partial(form, largest=largest) for form in (_share_of_rows, _share))
    for largest in (True, False)
}


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _shift_and_total(x: jax.Array, axes: Axes) -> Parts:
    """A constant, and the sum of `exp(x - constant)`, in the type that accumulates."""
    top, total = fold(x, EXP_SUM, axes)
    # exp(-inf - (-inf)) has counted as 1.
    known = total == total
    total = where(known & (top == np.inf), np.inf, total)
    total = where(known & (top == -np.inf), 0, total)
    return lax.expand_dims(finite(top), sorted(axes)), lax.expand_dims(total, sorted(axes))


def _power(x: jax.Array, shift: jax.Array) -> jax.Array:
    """exp(x - shift) of a shift that is not below x; 0, and so its derivatives, where it is inf."""
    x = wide(x)
    return exp_of_negative(where(x == np.inf, np.finfo(x.dtype).max, x) - shift)


@_shift_and_total.defjvp
def _shift_and_total_jvp(axes: Axes, primals: tuple[jax.Array], tangents: tuple[jax.Array]):
    (x,), (dx,) = primals, tangents
    shift, total = _shift_and_total(x, axes)
    top = stored(where(is_infinite(total), np.inf, shift))
    return (shift, total), (lax.full_like(shift, 0), slope_sum(_power, dx, x, (top,), axes))


def _along(reduce: Callable[[jax.Array, Axes], jax.Array], x: jax.Array, axes: Axes) -> jax.Array:
    return lax.expand_dims(reduce(x, axes), sorted(axes))

"""Derivatives of reductions: the sum of the elements' tangents times their slopes.

A slope is written in functions whose derivatives JAX knows, and in reductions, so that derivatives
of any order are right, also inside of a loop, where JAX drops the rules of a `jax.custom_jvp`.

Along rows XLA makes one kernel of slopes on a GPU, which holds a row while it reduces it. That is
for plain reductions that are broadcast, subtracted and divided by, as in a softmax.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.layout import Layout, with_layout_constraint

from dml_jax.lowering.axes import Axes, Parts, are_known, last_row
from dml_jax.lowering.dtypes import finite, is_infinite, where, wide
from dml_jax.lowering.mesh_axes import alike
from dml_jax.lowering.parallel_cpu import written_by_all_cores
from dml_jax.lowering.platform_forms import by_platform, stored
from dml_jax.lowering.reduce.primitive import Kind, along_axes, derivative
from dml_jax.lowering.reduce.reductions import (
    Counted,
    ExpSum,
    Extreme,
    LogSumExp,
    Norm,
    Product,
    sum_along,
)

LONGEST = 2**13  # elements of a row that a GPU's kernel holds


def _are_rows(x: jax.Array, axes: Axes) -> bool:
    """Return whether the last axis alone is reduced, and short enough for one kernel."""
    if not are_known(x.shape):
        return False
    row = last_row(x.shape, axes)
    longer = [a for a in axes if x.shape[a] > 1]
    return len(row) == len(longer) == 1 and row[0] <= LONGEST


_by_all_cores = by_platform(
    lambda x: x, cpu=functools.partial(written_by_all_cores, reads=2), whole_arrays=True
)


@derivative(Extreme)
def _of_extreme(primals: Any, tangents: Any, kind: Any, axes: Axes) -> tuple[Parts, Parts]:
    """1 shared by the extreme elements; beside NaN 0."""
    (x,), (dx,), largest = primals, tangents, kind.largest
    y = along_axes(kind, x, axes=axes)
    constant = lax.stop_gradient(x)
    if _are_rows(x, axes):
        (value,) = map(stored, along_axes(Extreme(largest), constant, axes=axes))
        chosen = lax.convert_element_type(constant == value, wide(x).dtype)
        share = chosen / lax.max(stored(sum_along(chosen, axes)), chosen.dtype.type(1))
        dy = sum_along(share * wide(dx), axes)
    else:
        value, count = map(stored, along_axes(Counted(largest), constant, axes=axes))
        chosen = lax.convert_element_type(wide(_by_all_cores(constant)) == value, value.dtype)
        dy = sum_along(chosen * wide(dx), axes) / lax.max(count, count.dtype.type(1))
    return y, (lax.convert_element_type(dy, x.dtype),)


@derivative(LogSumExp)
def _of_log_sum_exp(primals: Any, tangents: Any, kind: Kind, axes: Axes) -> tuple[Parts, Parts]:
    """The softmax; 0 where the sum of exponentials is infinite, or 0."""
    (x,), (dx,) = primals, tangents
    y = along_axes(kind, x, axes=axes)
    if _are_rows(x, axes):
        top = stored(wide(along_axes(Extreme(True), lax.stop_gradient(x), axes=axes)[0]))
        power = _power(x, top)
        # The sum is at least 1, but 0 where the top is infinite.
        total = lax.max(stored(sum_along(power, axes)), power.dtype.type(0.5))
        return y, (sum_along(power / total * wide(dx), axes),)
    top, total = map(stored, along_axes(ExpSum(), x, axes=axes))
    total = where(is_infinite(top), 1, total)
    return y, (sum_along(_power(_by_all_cores(x), top) * wide(dx), axes) / total,)


def _power(x: jax.Array, top: jax.Array) -> jax.Array:
    """Return exp(x - top) of a `top` that is not below `x`; 0 where it is infinite."""
    x, most = wide(x), np.finfo(top.dtype).max
    return lax.exp(where(x == np.inf, most, x) - lax.max(top, -most))


@derivative(ExpSum)
def _of_exp_sum(primals: Any, tangents: Any, kind: Kind, axes: Axes) -> tuple[Parts, Parts]:
    """The maximum is a constant shift, whose derivative is 0."""
    (x,), (dx,) = primals, tangents
    top, total = along_axes(kind, x, axes=axes)
    power = lax.exp(wide(x) - stored(finite(top)))
    return (top, total), (lax.full_like(top, 0), sum_along(power * wide(dx), axes))


@derivative(Norm)
def _of_norm(primals: Any, tangents: Any, kind: Kind, axes: Axes) -> tuple[Parts, Parts]:
    """The vector of length 1; 0 where the norm is 0 or infinite."""
    (x,), (dx,) = primals, tangents
    (norm,) = along_axes(kind, x, axes=axes)
    # A constant scale keeps the derivatives in range; where the norm is 0 it leaves 0 of them.
    size = lax.max(norm, np.finfo(norm.dtype).tiny)
    scale = lax.stop_gradient(where(norm == 0, 0, 1 / size))
    unit = wide(_by_all_cores(x)) * stored(scale / (size / lax.stop_gradient(size)))
    return (norm,), (sum_along(unit * wide(dx), axes),)


# Products.


@dataclass(frozen=True)
class ProductTangent(Kind):
    """The tangent of a product: of `x` and its tangent, in which it is linear."""

    linear = 1

    def plain(self, x: jax.Array, dx: jax.Array, axes: Axes) -> Parts:
        return (jax.jvp(functools.partial(Product().by_halves, axes=axes), (x,), (dx,))[1],)

    def transposed(self, cotangent: jax.Array, x: Any, dx: Any, axes: Axes) -> jax.Array:
        return along_axes(ProductCotangent(), x, cotangent, axes=axes)[0]


@dataclass(frozen=True)
class ProductCotangent(Kind):
    """The cotangent of a product, of `x` and its result's: that, by the product of all others."""

    linear = 1

    def shape(self, shape: Sequence[int], axes: Axes) -> Sequence[int]:
        return shape

    def plain(self, x: jax.Array, y: jax.Array, axes: Axes) -> Parts:
        return jax.vjp(lambda x: Product().by_halves(x, axes), x)[1](y)

    def tuned(self, platform: str, x: jax.Array, y: jax.Array, axes: Axes) -> Parts:
        """By division where no product is zero, denormal, infinite or NaN."""
        (whole,) = along_axes(Product(), x, axes=axes)
        size = lax.abs(whole)
        divides = jnp.all((size >= np.finfo(x.dtype).tiny) & (size < np.inf))
        if platform == "cpu":
            x = written_by_all_cores(x, reads=2)
        rows = Layout(tuple(range(x.ndim)))  # or XLA takes the layout of what seldom runs

        def multiplied(state: Any) -> Any:
            return state[0] | True, with_layout_constraint(self.plain(x, y, axes)[0], rows)

        # A loop of one turn or none: of a `lax.cond` XLA runs both branches on a GPU.
        state = divides, whole / x * y
        return (lax.while_loop(lambda state: ~state[0], multiplied, state)[1],)

    def transposed(self, cotangent: jax.Array, x: Any, y: Any, axes: Axes) -> jax.Array:
        return along_axes(ProductTangent(), x, cotangent, axes=axes)[0]


@derivative(Product)
def _of_product(primals: Any, tangents: Any, kind: Kind, axes: Axes) -> tuple[Parts, Parts]:
    x, dx = alike((*primals, *tangents))
    return along_axes(kind, x, axes=axes), along_axes(ProductTangent(), x, dx, axes=axes)

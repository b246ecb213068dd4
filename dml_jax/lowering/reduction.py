"""Reductions. Each takes an array and axes, and keeps the rank: a reduced axis has size 1.

float16 accumulates in float32 and is rounded once, at the end; integers wrap modulo 2^n. What each
is on a device, and across devices, says its `Fold`.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.axes import Axes, restored
from dml_jax.lowering.by_other_loops import by_other_loops
from dml_jax.lowering.differentiable import differentiable
from dml_jax.lowering.elementwise import where
from dml_jax.lowering.folds.cpu import SHORT_ROW
from dml_jax.lowering.folds.extreme import MAX, MIN
from dml_jax.lowering.folds.fold import Fold, ends_in_rows, last_run
from dml_jax.lowering.folds.index import arg_fold
from dml_jax.lowering.folds.log_sum_exp import LOG_EXP_SUM
from dml_jax.lowering.folds.one_value import PRODUCT, SUM, Reduction
from dml_jax.lowering.folds.placed import fold
from dml_jax.lowering.slopes import slopes
from dml_jax.lowering.slopes.product_of_others import sum_by_others
from dml_jax.lowering.slopes.slope_sum import slope_sum
from dml_jax.lowering.wide import wide


def _accumulated(reduction: Reduction) -> Reduction:
    """The reduction in the type it accumulates in, rounded back to the input's."""

    def rounded(x: jax.Array, axes: Axes) -> jax.Array:
        return _returned(reduction(wide(x), axes), x, axes)

    return rounded


# Of fewer rows what is left is too much to be read by another loop. Of three FLOAT16 rows of maps
# of 13 by 13 L2 gains by `by_other_loops`, AVERAGE loses behind which results are clipped: GB/s
# read 1.2, 50; 9.4, 3.3.
FEW_ROWS = 8


def _returned(y: jax.Array, x: jax.Array, axes: Axes, dtype: Any = None) -> jax.Array:
    """What an operator gives of y, which is left of x: of its type, if not told otherwise."""
    y = lax.convert_element_type(y, dtype or x.dtype)
    if ends_in_rows(x.shape, axes):
        row, _ = last_run(x.shape, axes)  # longer ones are loops of their own
        return by_other_loops(y, y.ndim) if row <= SHORT_ROW else y
    rows = math.prod(x.shape[a] for a in axes)
    last = max(a for a in axes if x.shape[a] > 1)
    return by_other_loops(y, 0 if rows < FEW_ROWS else y.ndim - last - 1)


def _with_slopes(
    kind: Fold,
    sum_of_slopes: Callable[[jax.Array, jax.Array, Axes], jax.Array],
    linear: bool = False,
) -> Reduction:
    """A fold whose derivative is the sum of its elements' slopes times dx: of dx, x and axes."""

    @differentiable(static=1, linear=linear)
    def reduced(x: jax.Array, axes: Axes) -> jax.Array:
        return restored(fold(x, kind, axes)[0], axes)

    @reduced.defjvp
    def _(axes: Axes, primals: tuple[jax.Array], tangents: tuple[jax.Array]):
        (x,), (dx,) = primals, tangents
        return reduced(x, axes), sum_of_slopes(dx, x, axes)

    return reduced


# JAX's own, which transposes; where it does, nothing is summed.
_sum = _with_slopes(SUM, lambda dx, x, axes: restored(lax.reduce_sum(dx, axes), axes), linear=True)
_product = _with_slopes(PRODUCT, sum_by_others)


@differentiable()
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


@differentiable(static=2)
def _extreme(x: jax.Array, axes: Axes, largest: bool) -> jax.Array:
    """The largest or smallest element, NaN where there is one."""
    (extreme,) = fold(x, MAX if largest else MIN, axes)
    return _returned(restored(extreme, axes), x, axes)


@_extreme.defjvp
def _extreme_jvp(axes: Axes, largest: bool, primals: tuple[jax.Array], tangents: tuple[jax.Array]):
    (x,), (dx,) = primals, tangents
    dy = slopes.summed(slopes.SHARES[largest], dx, x, axes)
    return _extreme(x, axes, largest), lax.convert_element_type(dy, x.dtype)


def max_(x: jax.Array, axes: Axes) -> jax.Array:
    return _extreme(x, axes, True)


def min_(x: jax.Array, axes: Axes) -> jax.Array:
    return _extreme(x, axes, False)


@differentiable(static=1)
def _norm(x: jax.Array, axes: Axes) -> jax.Array:
    """In the type that accumulates."""
    x = wide(x)
    return lax.sqrt(_sum(x * x, axes))


@_norm.defjvp
def _norm_jvp(axes: Axes, primals: tuple[jax.Array], tangents: tuple[jax.Array]):
    (x,), (dx,), norm = primals, tangents, _norm(*primals, axes)
    return norm, slope_sum(_unit, dx, x, norm, axes)


@differentiable()
def _unit(x: jax.Array, norm: jax.Array) -> jax.Array:
    """Of length 1, shorter where squares are too small for a normal float, and 0 at the origin.

    (A maximum, unlike a select, goes into the one kernel that XLA makes of rows on a GPU.)
    """
    return wide(x) / _at_least_tiny(norm)


@_unit.defjvp
def _unit_jvp(primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, jax.Array]):
    (_, norm), (dx, dnorm), unit = primals, tangents, _unit(*primals)
    # Where the norm is 0 it has a corner, and the derivative is 0.
    return unit, (wide(dx) - unit * dnorm) / where(norm == 0, np.inf, _at_least_tiny(norm))


def _at_least_tiny(norm: jax.Array) -> jax.Array:
    return lax.max(norm, np.sqrt(np.finfo(norm.dtype).tiny))


def l2(x: jax.Array, axes: Axes) -> jax.Array:
    return _returned(_norm(x, axes), x, axes)


@differentiable(static=1)
def log_sum_exp(x: jax.Array, axes: Axes) -> jax.Array:
    # Its parts accumulate by themselves, so that each piece of x is converted where it is read.
    # Infinite is what the maximum is. (With a shift and a total that are right by themselves, as in
    # slopes.py, XLA stores on a CPU what makes x: [8, 4194304] over 0 behind a clip 37 ms, 11 so.)
    (logarithm,) = fold(x, LOG_EXP_SUM, axes)
    return _returned(restored(logarithm, axes), x, axes)


@log_sum_exp.defjvp
def _log_sum_exp_jvp(axes: Axes, primals: tuple[jax.Array], tangents: tuple[jax.Array]):
    (x,), (dx,) = primals, tangents
    dy = slopes.summed(slopes.SOFTMAX, dx, x, axes)
    return log_sum_exp(x, axes), lax.convert_element_type(dy, x.dtype)


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
    # Signed on a CPU, for its vectors; else as asked for, where XLA's GPU would have another kernel
    # that converts: us, ARGMAX of FLOAT32 [8, 64, 256, 256] over (2, 3) 36.1, 35.7.
    signed, unsigned = np.dtype(np.int32), np.dtype(np.uint32)
    fits = count <= 2**31 - 1
    index_type = signed if fits and dtype == signed else unsigned
    kind = arg_fold(largest, last, index_type, signed if fits else unsigned)
    (index,) = fold(lax.stop_gradient(x), kind, axes)
    return _returned(restored(index, axes), x, axes, dtype)


def compiler_options(
    function: Callable[..., jax.Array], shape: Sequence[int], axes: Axes
) -> dict[str, Any]:
    """XLA's, for a program that does nothing but reduce an array of this shape.

    On a CPU it uses vectors of 256 bits, if it is not told otherwise. What computes more than it
    reads gains by longer ones, where the processor has them: 2 cores (AMD EPYC), jax 0.10.2, ms of
    FLOAT32 [8, 64, 256, 256] and so, LOG_SUM_EXP over 0 10.0, 6.8; over 1 10.2, 7.2; ARGMAX over 1
    7.8, 6.6, of FLOAT16 3.7, 2.9; over 3 5.3, 4.6 (an Intel Xeon, rows of 256: ARGMIN 12, 9.0, of
    FLOAT16 7.7, 4.0). L2 over 3 3.9, 5.0, so not everything. And not LOG_SUM_EXP of rows, whose sum
    would differ in its last bits from that of the same operator inside of another program.
    """
    columns = not ends_in_rows(shape, axes)
    gains = function in (argmax, argmin) or (function is log_sum_exp and columns)
    return {"xla_cpu_prefer_vector_width": 512} if gains else {}

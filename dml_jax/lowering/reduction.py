"""Reductions of operators. Each takes an array and axes, and keeps the rank: axes become 1.

float16 accumulates in float32 and is rounded once, at the end; integers wrap modulo 2^n.

A function here calls `along_axes(kind, x, axes=axes)`. `reduce/reductions.py` has the kinds:
`plain` is the meaning of one, `tuned` its form on one CPU or GPU, and `per_shard` its form on each
of several devices. `_form` in `reduce/primitive.py` chooses among them.
"""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.axes import Axes
from dml_jax.lowering.dtypes import where, wide
from dml_jax.lowering.reduce import derivatives  # noqa: F401  (registers the derivatives)
from dml_jax.lowering.reduce.primitive import Kind, along_axes
from dml_jax.lowering.reduce.reductions import Arg, Extreme, LogSumExp, Norm, Product, sum_along

Reduction = Callable[[jax.Array, Axes], jax.Array]


def _rounded(reduction: Reduction) -> Reduction:
    """Return a reduction of the type that accumulates, rounded to the type of its argument."""

    @functools.wraps(reduction)
    def rounded(x: jax.Array, axes: Axes) -> jax.Array:
        return lax.convert_element_type(reduction(wide(x), axes), x.dtype)

    return rounded


def _floating(x: jax.Array) -> jax.Array:
    """Return integers, which ONNX has where DirectML has floats, as floats."""
    is_floating = jnp.issubdtype(x.dtype, jnp.floating)
    return x if is_floating else lax.convert_element_type(x, jnp.result_type(float))


sum_ = _rounded(sum_along)


@_rounded
def average(x: jax.Array, axes: Axes) -> jax.Array:
    """Return the sum divided by the number of elements."""
    return sum_along(x, axes) / x.dtype.type(math.prod(x.shape[a] for a in axes))


@_rounded
def l1(x: jax.Array, axes: Axes) -> jax.Array:
    """Return the sum of absolute values, whose derivative at 0 is 0 (that of `lax.abs` is 1)."""
    if jnp.issubdtype(x.dtype, jnp.unsignedinteger):
        return sum_along(x, axes)
    return sum_along(where(x == 0, 0, lax.abs(x)), axes)


@_rounded
def sum_square(x: jax.Array, axes: Axes) -> jax.Array:
    """Return the sum of squares."""
    return sum_along(x * x, axes)


@_rounded
def log_sum(x: jax.Array, axes: Axes) -> jax.Array:
    """Return the logarithm of the sum."""
    return lax.log(_floating(sum_along(x, axes)))


def _of(kind: Kind) -> Reduction:
    """Return the reduction by a kind."""
    return lambda x, axes: along_axes(kind, x, axes=axes)[0]


multiply = _rounded(_of(Product()))
max_, min_ = _of(Extreme(True)), _of(Extreme(False))  # NaN where there is one


def l2(x: jax.Array, axes: Axes) -> jax.Array:
    """Return the square root of the sum of squares."""
    return _widening(Norm(), x, axes)


def log_sum_exp(x: jax.Array, axes: Axes) -> jax.Array:
    """Return the logarithm of the sum of exponentials, which do not overflow."""
    return lax.convert_element_type(_widening(LogSumExp(), _floating(x), axes), x.dtype)


def _widening(kind: Kind, x: jax.Array, axes: Axes) -> jax.Array:
    """Reduce by a kind that widens each piece of `x` where it is read."""
    return lax.convert_element_type(along_axes(kind, x, axes=axes)[0], x.dtype)


def _arg(
    x: jax.Array, axes: Axes, dtype: np.dtype, last: bool = False, *, largest: bool
) -> jax.Array:
    """Return the row-major index within the reduced axes, in increasing order.

    That is of the first of equal elements, or the `last`; of the first (last) NaN, if there is one.
    """
    (index,) = along_axes(Arg(largest, last), lax.stop_gradient(x), axes=axes)
    return lax.convert_element_type(index, dtype)


argmax = functools.partial(_arg, largest=True)
argmin = functools.partial(_arg, largest=False)

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
from dml_jax.lowering.reduce.reductions import Arg, Extreme, LogSumExp, Norm, Product, Sum

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


def _sum(x: jax.Array, axes: Axes) -> jax.Array:
    return along_axes(Sum(), x, axes=axes)[0]


@_rounded
def sum_(x: jax.Array, axes: Axes) -> jax.Array:
    """Return the sum."""
    return _sum(x, axes)


@_rounded
def average(x: jax.Array, axes: Axes) -> jax.Array:
    """Return the sum divided by the number of elements."""
    return _sum(x, axes) / x.dtype.type(math.prod(x.shape[a] for a in axes))


@_rounded
def l1(x: jax.Array, axes: Axes) -> jax.Array:
    """Return the sum of absolute values, whose derivative at 0 is 0 (that of `lax.abs` is 1)."""
    if jnp.issubdtype(x.dtype, jnp.unsignedinteger):
        return _sum(x, axes)
    return _sum(where(x == 0, 0, lax.abs(x)), axes)


@_rounded
def sum_square(x: jax.Array, axes: Axes) -> jax.Array:
    """Return the sum of squares."""
    return _sum(x * x, axes)


@_rounded
def log_sum(x: jax.Array, axes: Axes) -> jax.Array:
    """Return the logarithm of the sum."""
    return lax.log(_floating(_sum(x, axes)))


@_rounded
def multiply(x: jax.Array, axes: Axes) -> jax.Array:
    """Return the product."""
    return along_axes(Product(), x, axes=axes)[0]


def max_(x: jax.Array, axes: Axes) -> jax.Array:
    """Return the largest element, or NaN where there is one."""
    return along_axes(Extreme(True), x, axes=axes)[0]


def min_(x: jax.Array, axes: Axes) -> jax.Array:
    """Return the smallest element, or NaN where there is one."""
    return along_axes(Extreme(False), x, axes=axes)[0]


def l2(x: jax.Array, axes: Axes) -> jax.Array:
    """Return the square root of the sum of squares."""
    return _widening(Norm(), x, axes)


def log_sum_exp(x: jax.Array, axes: Axes) -> jax.Array:
    """Return the logarithm of the sum of exponentials, which do not overflow."""
    return lax.convert_element_type(_widening(LogSumExp(), _floating(x), axes), x.dtype)


def _widening(kind: Kind, x: jax.Array, axes: Axes) -> jax.Array:
    """Reduce by a kind that widens each piece of `x` where it is read."""
    return lax.convert_element_type(along_axes(kind, x, axes=axes)[0], x.dtype)


def argmax(x: jax.Array, axes: Axes, dtype: np.dtype, last: bool = False) -> jax.Array:
    """Return the index of the largest element; see `_arg`."""
    return _arg(x, axes, True, dtype, last)


def argmin(x: jax.Array, axes: Axes, dtype: np.dtype, last: bool = False) -> jax.Array:
    """Return the index of the smallest element; see `_arg`."""
    return _arg(x, axes, False, dtype, last)


def _arg(x: jax.Array, axes: Axes, largest: bool, dtype: np.dtype, last: bool) -> jax.Array:
    """Return the row-major index within the reduced axes, in increasing order.

    That is of the first of equal elements, or the `last`; of the first (last) NaN, if there is one.
    """
    (index,) = along_axes(Arg(largest, last), lax.stop_gradient(x), axes=axes)
    return lax.convert_element_type(index, dtype)

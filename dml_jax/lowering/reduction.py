"""Reductions. Each takes an array and axes, and keeps the rank: a reduced axis has size 1.

float16 accumulates in float32 and is rounded once, at the end; integers wrap modulo 2^n.
"""

import functools
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax import lax

Axes = Sequence[int]
Reduction = Callable[[jax.Array, Axes], jax.Array]


def _wide(x: jax.Array) -> jax.Array:
    return lax.convert_element_type(x, jnp.float32) if x.dtype == jnp.float16 else x


def _is_float(x: jax.Array) -> bool:
    return jnp.issubdtype(x.dtype, jnp.floating)


def _kept(x: jax.Array, axes: Axes) -> jax.Array:
    return lax.expand_dims(x, sorted(axes))


def _accumulated(reduction: Reduction) -> Reduction:
    """The reduction in the type it accumulates in, rounded back to the input's."""

    def rounded(x: jax.Array, axes: Axes) -> jax.Array:
        return lax.convert_element_type(reduction(_wide(x), axes), x.dtype)

    return rounded


def _abs(x: jax.Array) -> jax.Array:
    if jnp.issubdtype(x.dtype, jnp.unsignedinteger):
        return x
    return x * lax.stop_gradient(lax.sign(x))  # the derivative of lax.abs is 1 at 0, this one's 0


# Elements beside the leading axes from which a sum over them is a product with ones on CPU.
MANY_COLUMNS = 2**15


def _sum(x: jax.Array, axes: Axes) -> jax.Array:
    """The sum in x's own type.

    XLA walks down the columns of a leading axis, on CPU slower than anything else that it does once
    the columns are many. A product with a row of ones is fast, and partitions into one all-reduce.
    float32 on 2 cores, jax 0.10.2, ms, reduce_sum and this: 8 x 4194304 179, 5; 64 x 65536 19, 0.5;
    1024 x 32768 115, 4; 8 x 16384 0.04, 0.03. Of squares, which the product does not fuse: 174, 37;
    17, 1.3; 112, 33; 0.03, 0.06.
    """
    leading = sorted(axes) == list(range(len(axes)))
    columns = math.prod(x.shape[len(axes) :])
    if not (_is_float(x) and leading and columns >= MANY_COLUMNS):
        return _kept(lax.reduce_sum(x, axes), axes)

    def product(x: jax.Array) -> jax.Array:
        # Not of x as a matrix: that would gather it where it is sharded over its last axis.
        dimensions = tuple(range(len(axes)))
        contracted = ((dimensions, dimensions), ((), ()))
        ones = jnp.ones(x.shape[: len(axes)], x.dtype)
        return lax.dot_general(ones, x, contracted, precision=lax.Precision.HIGHEST)

    def plain(x: jax.Array) -> jax.Array:
        return lax.reduce_sum(x, axes)

    return _kept(lax.platform_dependent(x, cpu=product, default=plain), axes)


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
    return _kept(lax.reduce_prod(x, axes), axes)


def _extreme(x: jax.Array, axes: Axes, largest: bool) -> jax.Array:
    """The largest or smallest element, NaN where there is one."""
    plain = lax.reduce_max if largest else lax.reduce_min
    if not _is_float(x):
        return _kept(plain(x, axes), axes)
    # On CPU XLA's vectorised max and min drop NaN (jax 0.10.2: rows of 64 lose all of them), so it
    # is carried beside the value, in the same pass. 8x64x256x256 float32 on 2 cores, ms, plain and
    # this: last axis 7, 5; axis 0 116, 3; axis 1 8, 59; axis 2 7, 16; all 2, 5. An integer key
    # that orders like the floats takes 42 to 62, a second pass that looks for NaN 23 and more. A
    # reduction whose operator is a comparison takes 4 to 25 and cannot be sharded.
    pick = lax.max if largest else lax.min
    start = x.dtype.type(-jnp.inf if largest else jnp.inf)

    def with_nan(x: jax.Array) -> jax.Array:
        value, is_nan = lax.reduce(
            (x, x != x), (start, False), lambda a, b: (pick(a[0], b[0]), a[1] | b[1]), axes
        )
        return jnp.where(is_nan, jnp.full_like(value, jnp.nan), value)

    return _kept(lax.platform_dependent(x, cpu=with_nan, default=lambda x: plain(x, axes)), axes)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _shared_extreme(x: jax.Array, axes: Axes, largest: bool) -> jax.Array:
    return _extreme(x, axes, largest)


@_shared_extreme.defjvp
def _extreme_jvp(axes: Axes, largest: bool, primals: tuple[jax.Array], tangents: tuple[jax.Array]):
    # Equal elements share the derivative, as in JAX's own reductions.
    (x,), (dx,) = primals, tangents
    out = _shared_extreme(x, axes, largest)
    chosen = lax.convert_element_type(x == out, x.dtype)
    return out, _sum(chosen * dx, axes) / _sum(chosen, axes)


@_accumulated
def max_(x: jax.Array, axes: Axes) -> jax.Array:
    return (_shared_extreme if _is_float(x) else _extreme)(x, axes, True)


@_accumulated
def min_(x: jax.Array, axes: Axes) -> jax.Array:
    return (_shared_extreme if _is_float(x) else _extreme)(x, axes, False)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _l2(x: jax.Array, axes: Axes) -> jax.Array:
    return lax.sqrt(_sum(x * x, axes))


@_l2.defjvp
def _l2_jvp(axes: Axes, primals: tuple[jax.Array], tangents: tuple[jax.Array]):
    # d|x| = x . dx / |x|, and 0 at the origin, where autodiff has 0 / 0.
    (x,), (dx,) = primals, tangents
    out = _l2(x, axes)
    slope = jnp.where(out == 0, jnp.zeros_like(x), x / jnp.where(out == 0, jnp.ones_like(out), out))
    return out, _sum(slope * dx, axes)


l2 = _accumulated(_l2)


def _shifted_exp(x: jax.Array, axes: Axes) -> tuple[jax.Array, jax.Array]:
    """`exp(x - shift)` and the shift: the maximum, so that nothing overflows.

    Not where that is infinite, which would leave inf - inf.
    """
    top = _kept(lax.reduce_max(lax.stop_gradient(x), axes), axes)
    shift = jnp.where(jnp.isinf(top), jnp.zeros_like(top), top)
    return lax.exp(x - shift), shift


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _log_sum_exp(x: jax.Array, axes: Axes) -> jax.Array:
    terms, shift = _shifted_exp(x, axes)
    return lax.log(_sum(terms, axes)) + shift


@_log_sum_exp.defjvp
def _log_sum_exp_jvp(axes: Axes, primals: tuple[jax.Array], tangents: tuple[jax.Array]):
    # The softmax of x; 0 where the result is infinite.
    (x,), (dx,) = primals, tangents
    terms, shift = _shifted_exp(x, axes)
    total = _sum(terms, axes)
    out = lax.log(total) + shift
    infinite = jnp.isinf(out)
    softmax = terms / jnp.where(infinite, jnp.ones_like(total), total)
    return out, _sum(jnp.where(infinite, jnp.zeros_like(x), softmax) * dx, axes)


log_sum_exp = _accumulated(_log_sum_exp)


def argmax(x: jax.Array, axes: Axes, dtype: jnp.dtype, last: bool = False) -> jax.Array:
    """Index of the largest element; see `_arg`."""
    return _arg(x, axes, True, dtype, last)


def argmin(x: jax.Array, axes: Axes, dtype: jnp.dtype, last: bool = False) -> jax.Array:
    """Index of the smallest element; see `_arg`."""
    return _arg(x, axes, False, dtype, last)


def _arg(x: jax.Array, axes: Axes, largest: bool, dtype: jnp.dtype, last: bool) -> jax.Array:
    """Row-major index within the reduced axes, in increasing order, of the extreme element.

    The first of equal ones, or the `last`; the first (last) NaN where there is one. By value, then
    by index: unlike one reduction that carries both, this gives the same answer in whatever order
    the backend combines, and two small all-reduces where the axis is sharded.
    """
    x = lax.stop_gradient(x)
    found = x == _extreme(x, axes, largest)
    if _is_float(x):
        found |= x != x
    count = math.prod(x.shape[a] for a in axes)
    index_type = jnp.int32 if count <= 2**31 - 1 else jnp.uint32
    index = jnp.zeros(x.shape, index_type)
    step = 1
    for a in sorted(axes, reverse=True):
        index += lax.broadcasted_iota(index_type, x.shape, a) * index_type(step)
        step *= x.shape[a]
    if last:
        chosen = lax.reduce_max(jnp.where(found, index, index_type(0)), axes)
    else:
        chosen = lax.reduce_min(jnp.where(found, index, index_type(count - 1)), axes)
    return lax.convert_element_type(_kept(chosen, axes), dtype)

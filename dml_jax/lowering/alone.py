"""Forms for an operator that is the whole program; `is_alone()` says so while it is traced.

Inside a larger program XLA fuses operators that map or move elements, and these forms would be in
its way. There are three: elements are mapped over one flat axis; axes are merged last, in a call
that XLA does not inline; neighbouring axes are reduced as one.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from dml_jax.lowering.cores import MUCH, even_rows, written_by_all_cores
from dml_jax.lowering.numbers import bits_of
from dml_jax.lowering.placed import placed, reshaped
from dml_jax.lowering.shapes import LITTLE, Axes

_ALONE = ContextVar("alone", default=False)


@contextlib.contextmanager
def alone(is_so: bool = True) -> Iterator[None]:
    """Trace the operator inside this context as a whole program, or not."""
    token = _ALONE.set(is_so)
    try:
        yield
    finally:
        _ALONE.reset(token)


def is_alone() -> bool:
    """Return whether the operator that is traced is the whole program."""
    return _ALONE.get()


# Elements that are mapped.


def elementwise(function: Callable[..., Sequence[jax.Array]], *xs: jax.Array) -> Any:
    """Return `function(*xs)`, a list of arrays, which maps each element of `xs` by itself."""
    if any(x.shape != xs[0].shape for x in xs) or not xs:
        return function(*xs)
    rows = functools.partial(_in_rows, function)
    quarters = functools.partial(_in_quarters, function)
    return placed(function, cpu=rows, cuda=quarters)(*xs)


def _in_rows(function: Callable[..., Any], *xs: jax.Array) -> list[jax.Array]:
    """On a CPU, over rows that are long, and that cores share evenly.

    LLVM unrolls loops over short last axes, and makes no vectors of narrow elements then.
    """
    if xs[0].size <= LITTLE:
        return function(*xs)
    count = even_rows(xs[0].size)
    rows = (count, xs[0].size // count)
    results = function(*(written_by_all_cores(reshaped(x, rows)) for x in xs))
    return [reshaped(y, xs[0].shape) for y in results]


def _in_quarters(function: Callable[..., Any], *xs: jax.Array) -> list[jax.Array]:
    """On a GPU, one thread computes an element of each quarter, of bytes or of an odd number.

    A thread writes four elements that are neighbours, or one where the number of all is odd, which
    is too little. Each quarter is computed of another copy, which XLA does not know to be equal.
    """
    size = xs[0].size
    if size * xs[0].dtype.itemsize < MUCH or (size % 4 == 0 and xs[0].dtype.itemsize > 1):
        return function(*xs)
    step = -(-size // 256) * 64  # a multiple of 64, so that quarters are aligned
    zeros = lax.optimization_barrier([jnp.zeros((), bits_of(xs[0]).dtype)] * 4)
    quarters = []
    for i, zero in enumerate(zeros):
        bits = (bits_of(x) | lax.convert_element_type(zero, bits_of(x).dtype) for x in xs)
        copies = [lax.bitcast_convert_type(b, x.dtype) for b, x in zip(bits, xs, strict=True)]
        ends = min(i * step, size), min((i + 1) * step, size)
        results = [y.reshape(-1) for y in function(*copies)]
        quarters.append([lax.slice_in_dim(y, *ends) for y in results])
    joined = (lax.concatenate(same, 0) for same in zip(*quarters, strict=True))
    return [y.reshape(xs[0].shape) for y in joined]


# Elements that are moved.


def axes_merged_last(
    function: Callable[[jax.Array], jax.Array], apart: Callable[[jax.Array], jax.Array]
) -> Callable[[jax.Array], jax.Array]:
    """Return `function`, which moves elements: alone on a CPU, its axes are merged at the end.

    `apart` gives the same elements in the same order, with axes that are still apart. XLA's loops
    go over the axes of what a fusion returns: where those are merged, each index is divided.
    """

    def cpu(x: jax.Array) -> jax.Array:
        if x.size <= LITTLE:
            return function(x)
        y = apart(x)
        # XLA has a slower kernel for a transposition that is the last step. This one does nothing.
        zero = lax.optimization_barrier(jnp.zeros((), bits_of(y).dtype))
        y = lax.bitcast_convert_type(bits_of(y) | zero, y.dtype)
        shape = jax.eval_shape(function, x).shape
        return reshaped(written_by_all_cores(y), shape)

    return placed(function, cpu=cpu) if is_alone() else function


# Elements that are reduced.


def merged(
    reduction: Callable[[jax.Array, Axes], jax.Array], x: jax.Array, axes: Axes
) -> jax.Array:
    """Return `reduction(x, axes)`; alone on a GPU, neighbouring axes are made one axis first.

    Otherwise XLA's kernel divides to find the place of each element on every axis.
    """
    if not is_alone():
        return reduction(x, axes)
    shape, first = list(x.shape), None
    for a, n in enumerate(x.shape):
        if a in axes and first is not None:
            shape[first], shape[a] = shape[first] * n, 1
        elif a in axes:
            first = a
        elif n > 1:
            first = None
    if tuple(shape) == x.shape or x.size * x.dtype.itemsize < MUCH:
        return reduction(x, axes)
    # Behind a barrier, or XLA takes the reshape into the kernel.
    cuda = lambda x: reduction(lax.optimization_barrier(x.reshape(shape)), axes)  # noqa: E731
    return placed(lambda x: reduction(x, axes), cuda=cuda)(x)

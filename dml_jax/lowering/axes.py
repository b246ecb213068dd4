"""Axes and shapes of reductions."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

Axes = Sequence[int]
Parts = tuple[jax.Array, ...]
"""What is kept of the elements along axes: arrays of one shape."""

LITTLE = 2**15  # elements up to which to start another form takes longer than to read the array


def are_known(shape: Sequence[Any]) -> bool:
    """Return whether all sizes are numbers; an exported program may have symbols."""
    return all(isinstance(n, int) for n in shape)


def reduced_shape(shape: Sequence[int], axes: Axes) -> tuple[int, ...]:
    """Return the shape in which `axes` have size 1."""
    return tuple(1 if a in axes else n for a, n in enumerate(shape))


def restored(x: jax.Array, axes: Axes) -> jax.Array:
    """Insert the axes that a reduction dropped, with size 1."""
    return lax.expand_dims(x, sorted(axes))


CROWDED = 7  # dimensions from which a sum takes in degenerate ones


def _degenerate(x: jax.Array) -> list[int]:
    """Return the axes of one element that lie on no mesh axis.

    XLA's CPU in jaxlib 0.10 makes products of vectors of the sum of a product. Where they keep six
    axes, one of them degenerate, its kernel writes behind the end of a list of dimensions: the
    process ends, or elements are wrong. A sum along degenerate axes as well is the same sum.
    """
    spec = jax.typeof(x).sharding.spec
    return [a for a, n in enumerate(x.shape) if n == 1 and spec[a] is None]


def on_axis(x: Any, axis: int, rank: int) -> Any:
    """Return the elements of an array along an axis of one of this rank."""
    return x.reshape([-1 if d == axis % rank else 1 for d in range(rank)])


def summed(x: jax.Array, axes: Axes) -> jax.Array:
    """Return the sum along `axes`, which have size 1 in the result, in the elements' own type."""
    others = _degenerate(x) if x.ndim >= CROWDED else []
    axes = sorted({*(a % x.ndim for a in axes), *others})
    return restored(lax.reduce_sum(x, axes), axes)


def averaged(x: jax.Array, axes: Axes) -> jax.Array:
    """Return the mean along `axes`, which have size 1 in the result."""
    return summed(x, axes) / math.prod(x.shape[a] for a in axes)


def broadcast(x: jax.Array, shape: Sequence[int]) -> jax.Array:
    """Return what `jax.numpy.broadcast_to` does, in a form whose transpose is a sum as `summed`."""
    if len(shape) < CROWDED:
        return jnp.broadcast_to(x, shape)
    left_out = _degenerate(x)
    places = [a + len(shape) - x.ndim for a in range(x.ndim) if a not in left_out]
    return lax.broadcast_in_dim(lax.squeeze(x, left_out), shape, places)


def beside(x: jax.Array, other: jax.Array) -> jax.Array:
    """Return `x`, for an operation that broadcasts it to the shape of `other`, as `broadcast`."""
    return x if other.ndim < CROWDED else broadcast(x, other.shape)


def batched_first(xs: Sequence[jax.Array], dims: Sequence[int | None]) -> list[jax.Array]:
    """Return arrays whose batch is the first axis; None stands for an array that has none."""
    size = next(x.shape[d] for x, d in zip(xs, dims, strict=True) if d is not None)
    return [
        jnp.broadcast_to(x, (size, *x.shape)) if d is None else jnp.moveaxis(x, d, 0)
        for x, d in zip(xs, dims, strict=True)
    ]


def runs_of(shape: Sequence[int], axes: Axes) -> list[tuple[int, bool]]:
    """Merge neighbouring axes that are all reduced, or all kept.

    Returns the size of each run, and whether it is reduced. Axes of one element are in none.
    """
    fates = [(n, a in axes) for a, n in enumerate(shape) if n > 1]
    runs = itertools.groupby(fates, lambda fate: fate[1])
    return [(math.prod(n for n, _ in run), reduced) for reduced, run in runs]


def last_row(shape: Sequence[int], axes: Axes) -> list[int]:
    """Return the sizes of the reduced axes that elements beside each other lie on; [] if none."""
    longer = [(n, a in axes) for a, n in enumerate(shape) if n > 1]
    behind = itertools.takewhile(lambda fate: fate[1], reversed(longer))
    return [n for n, _ in behind][::-1]


def run_by_run(
    x: Parts,
    axes: Axes,
    stage: Callable[[Parts, bool], Parts],
    between: Callable[[Parts], Parts] = tuple,
) -> Parts:
    """Reduce one run of axes after the other, the last first; `axes` have size 1 in the result.

    `x` are arrays of one shape, with more than one element along `axes`. `stage` reduces arrays of
    [k, n, c] to as many of [k, c], for k elements before a run, n in it and c behind it; its second
    argument says whether the run is the first. `between` is applied before each next one.
    """
    shape = x[0].shape
    runs = runs_of(shape, axes)
    sizes = [n for n, _ in runs]
    reduced = [k for k, (_, is_reduced) in enumerate(runs) if is_reduced]
    for k in reversed(reduced):
        matrices = math.prod(sizes[:k]), sizes[k], math.prod(sizes[k + 1 :])
        x = x if k == reduced[-1] else between(x)
        x = stage(shaped(x, matrices), k == reduced[-1])
        del sizes[k]
    return shaped(x, reduced_shape(shape, axes))


def shaped(parts: Parts, shape: Sequence[int]) -> Parts:
    """Reshape all parts."""
    return tuple(part.reshape(shape) for part in parts)


def taken(parts: Parts, start: int, stop: int, axis: int = 1) -> Parts:
    """Slice all parts along an axis."""
    return tuple(lax.slice_in_dim(part, start, stop, axis=axis) for part in parts)


def joined(pieces: Sequence[Parts], axis: int) -> Parts:
    """Concatenate the parts of each piece."""
    return tuple(lax.concatenate(same, axis) for same in zip(*pieces, strict=True))


def pairwise(op: Callable[[Any, Any], Any], values: Sequence[Any]) -> Any:
    """Combine neighbours first, as a tree, which has the smallest rounding error for a sum."""
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=False)
        values = [*(op(a, b) for a, b in pairs), *values[len(values) // 2 * 2 :]]
    return values[0]

"""Elements moved, not changed: tile, depth to space and back.

Reshapes split or merge one axis at a time.
"""

import functools
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax import lax

from dml_jax.lowering.axes import LITTLE
from dml_jax.lowering.dtypes import bits_of
from dml_jax.lowering.parallel_cpu import written_by_all_cores
from dml_jax.lowering.platform_forms import by_platform, reshaped
from dml_jax.lowering.reduce.primitive import bind_reduction
from dml_jax.lowering.reduce.reductions import Repeat


def tile(x: jax.Array, repeats: Sequence[int]) -> jax.Array:
    """[n0, n1, ...] -> [r0 * n0, r1 * n1, ...]: return the whole repeated along each axis."""
    repeated = [d for d, r in enumerate(repeats) if r > 1]

    def plain(x: jax.Array) -> jax.Array:
        at = [d + i for i, d in enumerate(repeated)]
        counts = tuple(repeats[d] for d in repeated)
        if repeated:
            (x,) = bind_reduction(Repeat(counts), lax.expand_dims(x, at), axes=at)
        for d in repeated:
            x = x.reshape(*x.shape[:d], x.shape[d] * x.shape[d + 1], *x.shape[d + 2 :])
        return x

    def apart(x: jax.Array) -> jax.Array:
        """Repeat with neighbouring axes merged, so that short rows are none."""
        starts = [0, *repeated]
        ends = [*repeated, x.ndim]
        sizes = [math.prod(x.shape[i:j]) for i, j in zip(starts, ends, strict=True)]
        shape, places = [sizes[0]], [0]
        for d, size in zip(repeated, sizes[1:], strict=True):
            shape += [repeats[d], size]
            places.append(len(shape) - 1)
        return lax.broadcast_in_dim(x.reshape(sizes), shape, places)

    return _axes_merged_last(plain, apart)(x)


def depth_to_space(x: jax.Array, block: int, depth_first: bool) -> jax.Array:
    """[n, c * b * b, h, w] -> [n, c, h * b, w * b], where b is `block`.

    The input's channels are [b, b, c] where `depth_first`, else [c, b, b].
    """
    apart = functools.partial(_pixels, block=block, depth_first=depth_first)
    return _axes_merged_last(lambda x: _depth_to_space(x, block, depth_first), apart)(x)


@functools.partial(jax.jit, static_argnums=(1, 2))  # compiled once for eager gradients
def _depth_to_space(x: jax.Array, block: int, depth_first: bool) -> jax.Array:
    n, depth, h, w = x.shape
    c, at = depth // block**2, 1 if depth_first else 2

    def at_once(x: jax.Array) -> jax.Array:
        x = _pixels(x, block, depth_first).reshape(n, c, h * block, w, block)
        return x.reshape(n, c, h * block, w * block)

    def columns_then_rows(x: jax.Array) -> jax.Array:
        x = x.reshape(n, *((block, block, c) if depth_first else (c, block, block)), h, w)
        x = jnp.moveaxis(x, at + 1, 5)
        x = jnp.moveaxis(x.reshape(*x.shape[:4], w * block), at, 3)
        return x.reshape(n, c, h * block, w * block)

    # A TPU's memory is tiles of 8 by 128: a last axis of `block` elements is padded to 128.
    return by_platform(at_once, tpu=columns_then_rows, whole_arrays=False)(x)


def _axes_merged_last(
    function: Callable[[jax.Array], jax.Array], apart: Callable[[jax.Array], jax.Array]
) -> Callable[[jax.Array], jax.Array]:
    """Return `function`, which moves elements; on a CPU its axes are merged at the end.

    `apart` gives the same elements in the same order, with axes that are not merged. XLA's loops go
    over the axes of a fusion's result: where these are merged, each index is divided.
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

    return by_platform(function, cpu=cpu, whole_arrays=True)


def _pixels(x: jax.Array, block: int, depth_first: bool) -> jax.Array:
    """[n, c * b * b, h, w] -> [n, c, h, b, w, b]."""
    n, depth, h, w = x.shape
    c = depth // block**2
    if depth_first:
        return x.reshape(n, block, block, c, h, w).transpose(0, 3, 4, 1, 5, 2)
    return x.reshape(n, c, block, block, h, w).transpose(0, 1, 4, 2, 5, 3)


def space_to_depth(x: jax.Array, block: int, depth_first: bool) -> jax.Array:
    """[n, c, h * b, w * b] -> [n, c * b * b, h, w]; the inverse of `depth_to_space`."""
    apart = functools.partial(_channels, block=block, depth_first=depth_first)
    return _axes_merged_last(lambda x: _space_to_depth(x, block, depth_first), apart)(x)


@functools.partial(jax.jit, static_argnums=(1, 2))
def _space_to_depth(x: jax.Array, block: int, depth_first: bool) -> jax.Array:
    n, c, height, width = x.shape
    h, w, at = height // block, width // block, 1 if depth_first else 2

    def at_once(x: jax.Array) -> jax.Array:
        return _channels(x, block, depth_first).reshape(n, c * block**2, h, w)

    def rows_then_columns(x: jax.Array) -> jax.Array:
        x = jnp.moveaxis(x.reshape(n, c, h, block, width), 3, at)
        x = jnp.moveaxis(x.reshape(*x.shape[:4], w, block), 5, at + 1)
        return x.reshape(n, c * block**2, h, w)

    return by_platform(at_once, tpu=rows_then_columns, whole_arrays=False)(x)


def _channels(x: jax.Array, block: int, depth_first: bool) -> jax.Array:
    """[n, c, h * b, w * b] -> [n, b, b, c, h, w], or [n, c, b, b, h, w]."""
    n, c, height, width = x.shape
    h, w = height // block, width // block
    x = x.reshape(n, c, h, block, width).reshape(n, c, h, block, w, block)
    return x.transpose((0, 3, 5, 1, 2, 4) if depth_first else (0, 1, 3, 5, 2, 4))

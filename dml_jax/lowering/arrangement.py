"""Elements moved, not changed: tile, depth to space and back.

Reshapes split or merge one axis at a time.
"""

import functools
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.enums import DepthSpaceOrder
from dml_jax.lowering.axes import LITTLE
from dml_jax.lowering.dtypes import bits_of
from dml_jax.lowering.parallel_cpu import written_by_all_cores
from dml_jax.lowering.platform_forms import by_platform, reshaped
from dml_jax.lowering.reduce.primitive import along_axes
from dml_jax.lowering.reduce.reductions import Repeat

Function = Callable[[jax.Array], jax.Array]


def tile(x: jax.Array, repeats: Sequence[int]) -> jax.Array:
    """[n0, n1, ...] -> [r0 * n0, r1 * n1, ...]: return the whole repeated along each axis."""
    repeated = [d for d, r in enumerate(repeats) if r > 1]
    if not repeated:
        return x

    def plain(x: jax.Array) -> jax.Array:
        """Insert an axis before each repeated one, repeat along it, and merge both."""
        at = [d + i for i, d in enumerate(repeated)]
        counts = tuple(repeats[d] for d in repeated)
        # The transpose of a broadcast is a sum. JAX would take `lax.reduce_sum`, which a CPU
        # computes slowly along a leading axis. The transpose of a `Repeat` is our `Sum`, with its
        # form for each platform: the bench of gradients of TILE on a CPU shows the difference.
        (x,) = along_axes(Repeat(counts), lax.expand_dims(x, at), axes=at)
        for d in repeated:
            x = x.reshape(*x.shape[:d], x.shape[d] * x.shape[d + 1], *x.shape[d + 2 :])
        return x

    def unmerged(x: jax.Array) -> jax.Array:
        """Repeat with neighbouring axes as one, so that there are no short rows."""
        starts = [0, *repeated]
        ends = [*repeated, x.ndim]
        sizes = [math.prod(x.shape[i:j]) for i, j in zip(starts, ends, strict=True)]
        shape, places = [sizes[0]], [0]
        for d, size in zip(repeated, sizes[1:], strict=True):
            shape += [repeats[d], size]
            places.append(len(shape) - 1)
        return lax.broadcast_in_dim(x.reshape(sizes), shape, places)

    shape = [n * r for n, r in zip(x.shape, repeats, strict=True)]
    return by_platform(plain, cpu=_merged_last(plain, unmerged, shape), whole_arrays=True)(x)


def _merged_last(plain: Function, unmerged: Function, shape: Sequence[int]) -> Function:
    """Return the form of a CPU: `unmerged`, whose axes are merged to `shape` when it is in memory.

    `plain` gives that shape, and `unmerged` the same elements in the same order.
    """

    # XLA's CPU loops over the axes of a fusion's result. Where the plain form merges axes within
    # the fusion, each element costs a division to find its places before they are merged: so the
    # elements are written with the axes apart, and the merge of an array in memory is free.
    # A transposition that ends a fusion gets a kernel of its own, which is slower than the loop of
    # a fusion. An OR with zero ends the fusion in its place. It changes no bit, and the barrier
    # hides from XLA that it is zero, or XLA would drop the OR.
    # Both hold of jaxlib 0.10.2. The cells TILE, DEPTH_TO_SPACE1 and SPACE_TO_DEPTH1 of `dml-jax
    # bench` on a CPU, with `plain` in place of this form, tell when it has no use.
    def cpu(x: jax.Array) -> jax.Array:
        if x.size <= LITTLE:
            return plain(x)
        y = unmerged(x)
        zero = lax.optimization_barrier(jnp.zeros((), bits_of(y).dtype))
        y = lax.bitcast_convert_type(bits_of(y) | zero, y.dtype)
        return reshaped(written_by_all_cores(y), shape)

    return cpu


def _block_axes(
    shape: Sequence[int], block: int, order: DepthSpaceOrder
) -> tuple[list[int], list[int]]:
    """Return the six axes of [n, c * b * b, h, w], and their permutation to [n, c, h, b, w, b].

    b is `block`; the channels have the `order` [b, b, c] or [c, b, b].
    """
    n, depth, h, w = shape
    c = depth // block**2
    if order == DepthSpaceOrder.DEPTH_COLUMN_ROW:
        return [n, block, block, c, h, w], [0, 3, 4, 1, 5, 2]
    return [n, c, block, block, h, w], [0, 1, 4, 2, 5, 3]


def depth_to_space(x: jax.Array, block: int, order: DepthSpaceOrder) -> jax.Array:
    """[n, c * b * b, h, w] -> [n, c, h * b, w * b], where b is `block`.

    The input's channels are [b, b, c] for DEPTH_COLUMN_ROW, else [c, b, b].
    """
    n, depth, h, w = x.shape
    shape = n, depth // block**2, h * block, w * block
    plain = functools.partial(_depth_to_space, block=block, order=order)

    def unmerged(x: jax.Array) -> jax.Array:
        split, permutation = _block_axes(x.shape, block, order)
        return x.reshape(split).transpose(permutation)

    return by_platform(plain, cpu=_merged_last(plain, unmerged, shape), whole_arrays=True)(x)


@functools.partial(jax.jit, static_argnums=(1, 2))  # compiled once for eager gradients
def _depth_to_space(x: jax.Array, block: int, order: DepthSpaceOrder) -> jax.Array:
    split, permutation = _block_axes(x.shape, block, order)
    n, c, h, _, w, _ = (split[axis] for axis in permutation)
    shape = n, c, h * block, w * block

    def at_once(x: jax.Array) -> jax.Array:
        x = x.reshape(split).transpose(permutation)
        return x.reshape(n, c, h * block, w, block).reshape(shape)

    def columns_then_rows(x: jax.Array) -> jax.Array:
        at = permutation[3]  # the axis of a block's rows; that of its columns follows
        x = jnp.moveaxis(x.reshape(split), at + 1, 5)
        return jnp.moveaxis(x.reshape(*x.shape[:4], w * block), at, 3).reshape(shape)

    # A TPU's memory is tiles of 8 by 128: a last axis of `block` elements is padded to 128. The
    # form is that of gradients too, whose last axis would be as short: so it is no form of whole
    # arrays, whose gradients are those of `at_once`.
    return by_platform(at_once, tpu=columns_then_rows, whole_arrays=False)(x)


def space_to_depth(x: jax.Array, block: int, order: DepthSpaceOrder) -> jax.Array:
    """[n, c, h * b, w * b] -> [n, c * b * b, h, w]; the inverse of `depth_to_space`."""
    n, c, height, width = x.shape
    shape = n, c * block**2, height // block, width // block
    plain = functools.partial(_space_to_depth, block=block, order=order)
    unmerged = functools.partial(_blocks_of, block=block, order=order)
    return by_platform(plain, cpu=_merged_last(plain, unmerged, shape), whole_arrays=True)(x)


@functools.partial(jax.jit, static_argnums=(1, 2))  # compiled once for eager gradients
def _space_to_depth(x: jax.Array, block: int, order: DepthSpaceOrder) -> jax.Array:
    n, c, height, width = x.shape
    h, w = height // block, width // block
    shape = n, c * block**2, h, w

    def at_once(x: jax.Array) -> jax.Array:
        return _blocks_of(x, block, order).reshape(shape)

    def rows_then_columns(x: jax.Array) -> jax.Array:
        _, permutation = _block_axes(shape, block, order)
        at = permutation[3]
        x = jnp.moveaxis(x.reshape(n, c, h, block, width), 3, at)
        return jnp.moveaxis(x.reshape(*x.shape[:4], w, block), 5, at + 1).reshape(shape)

    # As of `_depth_to_space`: a TPU pads a short last axis.
    return by_platform(at_once, tpu=rows_then_columns, whole_arrays=False)(x)


def _blocks_of(x: jax.Array, block: int, order: DepthSpaceOrder) -> jax.Array:
    """[n, c, h * b, w * b] -> the six axes of `_block_axes`, which is read backwards."""
    n, c, height, width = x.shape
    h, w = height // block, width // block
    _, permutation = _block_axes((n, c * block**2, h, w), block, order)
    x = x.reshape(n, c, h, block, width).reshape(n, c, h, block, w, block)
    return x.transpose(np.argsort(permutation))

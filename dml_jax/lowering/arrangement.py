"""Elements moved, not changed: tile, depth to space and back.

Reshapes split or merge one axis at a time.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.enums import DepthSpaceOrder
from dml_jax.lowering.parallel_cpu import written_by_all_cores
from dml_jax.lowering.platform_forms import by_platform
from dml_jax.lowering.reduce.primitive import along_axes
from dml_jax.lowering.reduce.reductions import Repeat

_by_all_cores = by_platform(lambda x: x, cpu=written_by_all_cores, whole_arrays=True)


def tile(x: jax.Array, repeats: Sequence[int]) -> jax.Array:
    """[n0, n1, ...] -> [r0 * n0, r1 * n1, ...]: return the whole repeated along each axis."""
    repeated = [d for d, r in enumerate(repeats) if r > 1]
    if not repeated:
        return x

    # An axis is inserted before each repeated one, repeated along, and merged with it.
    at = [d + i for i, d in enumerate(repeated)]
    counts = tuple(repeats[d] for d in repeated)
    # The transpose of a broadcast is a sum. JAX would take `lax.reduce_sum`, which a CPU computes
    # slowly along a leading axis. The transpose of a `Repeat` is our `Sum`, with its form for each
    # platform: the bench of gradients of TILE on a CPU shows the difference.
    (x,) = along_axes(Repeat(counts), lax.expand_dims(x, at), axes=at)
    for d in repeated:
        x = x.reshape(*x.shape[:d], x.shape[d] * x.shape[d + 1], *x.shape[d + 2 :])
    return _by_all_cores(x)


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
    return _by_all_cores(by_platform(at_once, tpu=columns_then_rows, whole_arrays=False)(x))


def space_to_depth(x: jax.Array, block: int, order: DepthSpaceOrder) -> jax.Array:
    """[n, c, h * b, w * b] -> [n, c * b * b, h, w]; the inverse of `depth_to_space`."""
    n, c, height, width = x.shape
    h, w = height // block, width // block
    shape = n, c * block**2, h, w
    _, permutation = _block_axes(shape, block, order)  # of the inverse, which is read backwards

    def at_once(x: jax.Array) -> jax.Array:
        x = x.reshape(n, c, h, block, width).reshape(n, c, h, block, w, block)
        return x.transpose(np.argsort(permutation)).reshape(shape)

    def rows_then_columns(x: jax.Array) -> jax.Array:
        at = permutation[3]
        x = jnp.moveaxis(x.reshape(n, c, h, block, width), 3, at)
        return jnp.moveaxis(x.reshape(*x.shape[:4], w, block), 5, at + 1).reshape(shape)

    # As of `_depth_to_space`: a TPU pads a short last axis.
    return _by_all_cores(by_platform(at_once, tpu=rows_then_columns, whole_arrays=False)(x))

"""Elements moved, not changed: split, join, tile, depth to space and back.

Reshapes split or merge one axis at a time: on meshes with explicit axes JAX takes no others.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax import lax

from dml_jax.lowering.by_other_loops import transposed_by_other_loops
from dml_jax.lowering.differentiable import differentiable
from dml_jax.lowering.wide import wide

Form = Callable[..., jax.Array]


def split(x: jax.Array, sizes: Sequence[int], axis: int) -> Sequence[jax.Array]:
    """Consecutive pieces of `sizes` along `axis`."""
    return lax.split(x, sizes, axis)


def join(xs: Sequence[jax.Array], axis: int) -> jax.Array:
    """The concatenation along `axis`."""
    return lax.concatenate(xs, axis)


@differentiable(static=1, linear=True)
def tile(x: jax.Array, repeats: Sequence[int]) -> jax.Array:
    """[n0, n1, ...] -> [r0 * n0, r1 * n1, ...], the whole repeated along each axis."""
    return _by_platform(x, {"tpu": _last_by_pieces, "default": _broadcast}, repeats=repeats)


@tile.defjvp
def _tile_jvp(
    repeats: Sequence[int], primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[jax.Array, jax.Array]:
    """Its transpose is a sum, for which float16 is widened."""
    (x,), (dx,) = primals, tangents
    return tile(x, repeats), _tangent(dx, repeats)


@functools.partial(jax.jit, static_argnums=1)  # or each eager derivative would compile it again
def _tangent(dx: jax.Array, repeats: Sequence[int]) -> jax.Array:
    forms = {"cpu": _of_copies, "tpu": _widened(_last_by_pieces), "default": _widened(_broadcast)}
    return _by_platform(dx, forms, repeats=repeats)


def _widened(form: Form) -> Form:
    def widened(x: jax.Array, repeats: Sequence[int]) -> jax.Array:
        return lax.convert_element_type(form(wide(x), repeats), x.dtype)

    return widened


def _by_platform(x: jax.Array, forms: Mapping[str, Form], **fields: Any) -> jax.Array:
    """The form of the platform, for `lax.platform_dependent`."""
    bound = {name: functools.partial(form, **fields) for name, form in forms.items()}
    return lax.platform_dependent(x, **bound)  # pyright: ignore[reportArgumentType]


def _broadcast(x: jax.Array, repeats: Sequence[int]) -> jax.Array:
    repeated = [d for d, r in enumerate(repeats) if r > 1]
    shape, kept = [], []
    for d, size in enumerate(x.shape):
        if d in repeated:
            shape.append(repeats[d])
        kept.append(len(shape))
        shape.append(size)
    x = lax.broadcast_in_dim(x, shape, kept)
    for d in repeated:
        x = x.reshape(*x.shape[:d], repeats[d] * x.shape[d + 1], *x.shape[d + 2 :])
    return x


def _last_by_pieces(x: jax.Array, repeats: Sequence[int]) -> jax.Array:
    """The last axis by pieces: a TPU's tiles are 8 by 128, and `repeats` before it fills few.

    libtpu 0.0.42 for a v5e, broadcast and so, millions of cycles that it estimates and temporary
    MB: [8, 64, 256, 256] FLOAT32 by 2 along axis 3 more than 6.4, 1.6; 268, 0. UINT8 2.8, 1.0. Of
    [4, 4096, 256] by 16 UINT8 1.5, 1.5.
    """
    *others, last = repeats
    if x.ndim and x.shape[-1] > 1:
        x, last = _repeated(x, x.ndim - 1, last), 1
    return _broadcast(x, [*others, last])


# Copies of which the transpose is one sum; of more (40 by 7) the last axis is summed first, since
# what computes the cotangent would be computed for each slice, or stored. Of fewer LLVM unrolls
# short rows.
COPIES = 16


def _of_copies(x: jax.Array, repeats: Sequence[int]) -> jax.Array:
    """Copies that are put together, of which the transpose is a sum of slices.

    Of a broadcast it is XLA's own reduction. 2 cores, jax 0.10.2, ms, of [2, 64, 256, 256] by 4
    along axis 0 119, 3.8, along 1 106, 3.8, along 2 7.1, 4.5; of [1, 32, 256, 256] by 2 along each
    10.6, 3.7.

    Each copy is rounded by itself, so that each slice is widened as it is read; else XLA would
    store all that is widened: FLOAT16 [8, 64, 256, 256] by 2 along each 133, 47, by 16 along the
    last axis 128, 61. And short rows of narrow elements are summed over one axis from the last that
    is repeated on, or, where rows are, over all axes as one: FLOAT16 [64, 1024, 7, 7] by 4 along
    axis 0, 1 or 2 13, 0.96, by 2 along 3 5.4, 2.2 (but by 16 3.2 as it is, 30).
    """
    repeated = [d for d, r in enumerate(repeats) if r > 1]
    if not repeated:
        return x
    *_, last = repeated
    outer = [d for d in repeated if math.prod(repeats[d:]) <= COPIES] or [last]
    are_few = math.prod(repeats[d] for d in outer) < COPIES
    inner = x.ndim if last == x.ndim - 1 and are_few else x.ndim - last
    reads = min(math.prod(repeats), 4 * COPIES)  # which each are operations to compile
    copies = wide(transposed_by_other_loops(x, inner, reads))
    for d in repeated[: -len(outer)]:
        copies = _repeated(copies, d, repeats[d])
    return _copies(copies, repeats, outer, x.dtype)


def _copies(x: jax.Array, repeats: Sequence[int], axes: Sequence[int], dtype: Any) -> jax.Array:
    """Along these axes, with each copy in this type."""
    if not axes:
        return lax.convert_element_type(x, dtype)
    *others, axis = axes
    return _repeated(x, axis, repeats[axis], lambda x: _copies(x, repeats, others, dtype))


def _repeated(x: jax.Array, axis: int, count: int, copy: Form = lambda x: x) -> jax.Array:
    """By at most 31 pieces, of which 16 are large; each a `copy` of its own."""
    if count == 1:
        return copy(x)
    if count <= 16:
        return lax.concatenate([copy(x) for _ in range(count)], axis)
    large = _repeated(x, axis, count // 16)
    pieces = [large] * 16 + [x] * (count % 16)
    return lax.concatenate([copy(piece) for piece in pieces], axis)


@differentiable(static=2, linear=True)
def depth_to_space(x: jax.Array, block: int, depth_first: bool) -> jax.Array:
    """[n, c * b * b, h, w] -> [n, c, h * b, w * b].

    Args:
        x: the tensor.
        block: b, the side of the square of pixels that a pixel's channels become.
        depth_first: the input's channels are [b, b, c] (DEPTH_COLUMN_ROW), else [c, b, b]
            (COLUMN_ROW_DEPTH).
    """
    forms = {"tpu": _columns_then_rows, "default": _merged_at_once}
    return _by_platform(x, forms, block=block, depth_first=depth_first)


@differentiable(static=2, linear=True)
def space_to_depth(x: jax.Array, block: int, depth_first: bool) -> jax.Array:
    """[n, c, h * b, w * b] -> [n, c * b * b, h, w]; the inverse of `depth_to_space`."""
    forms = {"tpu": _rows_then_columns, "default": _parted_at_once}
    return _by_platform(x, forms, block=block, depth_first=depth_first)


def _merged_at_once(x: jax.Array, block: int, depth_first: bool) -> jax.Array:
    n, depth, h, w = x.shape
    c = depth // block**2
    if depth_first:
        x = x.reshape(n, block, block, c, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        x = x.reshape(n, c, block, block, h, w).transpose(0, 1, 4, 2, 5, 3)
    return x.reshape(n, c, h * block, w, block).reshape(n, c, h * block, w * block)


def _columns_then_rows(x: jax.Array, block: int, depth_first: bool) -> jax.Array:
    """On a TPU, whose memory is tiles of 8 by 128: a last axis of `block` is padded to 128.

    libtpu 0.0.42 for a v5e, at once and so, millions of cycles that it estimates and temporary MB,
    [8, 64, 256, 256] FLOAT32 block 2 6.8, 2.6; 1074, 134. Block 4 20.6, 2.6; 2147, 134. UINT8
    block 4 13.7, 0.8; 537, 0; of block 2 and 3 it makes no program at once. [8, 4, 1080, 1920] 65,
    4.8; 4247, 549. Its inverse, of [8, 16, 512, 512] 6.8, 2.6; 1074, 134. A CLIP 0.6.
    """
    n, depth, h, w = x.shape
    c = depth // block**2
    if depth_first:
        x = x.reshape(n, block, block, c, h, w).transpose(0, 1, 3, 4, 5, 2)
        x = x.reshape(n, block, c, h, w * block).transpose(0, 2, 3, 1, 4)
    else:
        x = x.reshape(n, c, block, block, h, w).transpose(0, 1, 2, 4, 5, 3)
        x = x.reshape(n, c, block, h, w * block).transpose(0, 1, 3, 2, 4)
    return x.reshape(n, c, h * block, w * block)


def _parted_at_once(x: jax.Array, block: int, depth_first: bool) -> jax.Array:
    n, c, height, width = x.shape
    h, w = height // block, width // block
    x = x.reshape(n, c, h, block, width).reshape(n, c, h, block, w, block)
    order = (0, 3, 5, 1, 2, 4) if depth_first else (0, 1, 3, 5, 2, 4)
    return x.transpose(order).reshape(n, c * block**2, h, w)


def _rows_then_columns(x: jax.Array, block: int, depth_first: bool) -> jax.Array:
    n, c, height, width = x.shape
    h, w = height // block, width // block
    x = x.reshape(n, c, h, block, width)
    if depth_first:
        x = x.transpose(0, 3, 1, 2, 4).reshape(n, block, c, h, w, block)
        x = x.transpose(0, 1, 5, 2, 3, 4)
    else:
        x = x.transpose(0, 1, 3, 2, 4).reshape(n, c, block, h, w, block)
        x = x.transpose(0, 1, 2, 5, 3, 4)
    return x.reshape(n, c * block**2, h, w)

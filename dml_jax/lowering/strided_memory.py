"""Strided tensors in flat buffers, as pure array functions.

A layout is *nested* when, from the largest stride to the smallest, what lies within one step of a
dimension fits into that step: packed, padded and transposed layouts are. Such a layout is read by
slices, reshapes and a transposition, and written by pads and a select, all of which XLA fuses with
what stands around them. Any other (overlapping windows, interleaved dimensions) goes through
computed addresses: a gather, or a scatter.
"""

import functools
import itertools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Sizes = tuple[int, ...]

# Steps that the search for two elements of one address may take; layouts that need more (none seen
# outside of tests that look for them) count as overlapping.
SEARCH_LIMIT = 200_000


def packed_strides(sizes: Sequence[int]) -> Sizes:
    """Strides of a row-major tensor without padding."""
    return tuple(math.prod(sizes[d + 1 :]) for d in range(len(sizes)))


def _outward(sizes: Sizes, strides: Sizes) -> list[int]:
    """The dimensions that move (size above 1), by falling stride."""
    moving = [d for d in range(len(sizes)) if sizes[d] > 1]
    return sorted(moving, key=lambda d: -strides[d])


def _is_nested(sizes: Sizes, strides: Sizes, order: list[int]) -> bool:
    inner = itertools.pairwise(order)
    return all(sizes[j] * strides[j] <= strides[i] for i, j in inner) and all(
        strides[d] > 0 for d in order
    )


@functools.lru_cache(maxsize=4096)
def distinct(sizes: Sizes, strides: Sizes) -> bool:
    """Return whether no two elements of a strided tensor share an address."""
    order = _outward(sizes, strides)
    if any(strides[d] == 0 for d in order):
        return False
    if _is_nested(sizes, strides, order):
        return True
    # Two indices of one address differ by a vector d != 0 with sum(d[i] * strides[i]) == 0 and
    # |d[i]| < sizes[i]. Search it from the largest stride down; what the smaller ones can make up
    # for bounds each step.
    reach = [0]
    for d in reversed(order):
        reach.append(reach[-1] + (sizes[d] - 1) * strides[d])
    reach.reverse()
    steps = 0
    stack = [(0, 0, False)]  # next dimension of `order`, sum so far, whether any step was made
    while stack:
        at, total, moved = stack.pop()
        if at == len(order):
            if moved:
                return False
            continue
        steps += 1
        if steps > SEARCH_LIMIT:
            return False
        size, stride, rest = sizes[order[at]], strides[order[at]], reach[at + 1]
        low = max(-(size - 1) if moved else 0, -((total + rest) // stride))
        high = min(size - 1, (rest - total) // stride)
        if high - low > SEARCH_LIMIT:
            return False
        for step in range(high, low - 1, -1):
            stack.append((at + 1, total + step * stride, moved or step != 0))
    return True


def _addresses(sizes: Sizes, strides: Sizes) -> jax.Array:
    """Each element's address in elements, in a tensor's shape."""
    last = sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    dtype = jnp.int32 if last < 2**31 else jnp.uint32
    address = jnp.zeros(sizes, dtype)
    for d, stride in enumerate(strides):
        if sizes[d] > 1 and stride:
            address += lax.broadcasted_iota(dtype, sizes, d) * dtype(stride)
    return address


def read(buffer: jax.Array, sizes: Sizes, strides: Sizes | None) -> jax.Array:
    """The tensor at the start of a flat buffer of at least its span; strides of None are packed."""
    if strides is None:
        return lax.slice_in_dim(buffer, 0, math.prod(sizes)).reshape(sizes)
    order = [d for d in _outward(sizes, strides) if strides[d] > 0]
    if not _is_nested(sizes, strides, order):
        # `distinct` is not asked for: inputs may overlap themselves.
        return buffer.at[_addresses(sizes, strides)].get(mode="promise_in_bounds")
    ordered = tuple(sizes[d] for d in order)
    if tuple(strides[d] for d in order) == packed_strides(ordered):
        x = lax.slice_in_dim(buffer, 0, math.prod(ordered)).reshape(ordered)
        return _place(x, sizes, order)
    x, step = lax.expand_dims(buffer, [0]), None
    for d in order:
        # x is [..., extent]; of the extent, sizes[d] steps of strides[d] belong to the tensor.
        extent = sizes[d] * strides[d]
        x = _resize(x, extent) if step is None else lax.slice_in_dim(x, 0, extent, axis=-1)
        x = x.reshape(*x.shape[:-1], sizes[d], strides[d])
        step = strides[d]
    x = lax.index_in_dim(lax.index_in_dim(x, 0, 0, keepdims=False), 0, -1, keepdims=False)
    return _place(x, sizes, order)


def _place(x: jax.Array, sizes: Sizes, order: Sequence[int]) -> jax.Array:
    """Return `x`, whose dimensions are those of `order`, as a tensor that repeats the others."""
    x = lax.transpose(x, sorted(range(len(order)), key=order.__getitem__))
    return x if x.shape == sizes else lax.broadcast_in_dim(x, sizes, sorted(order))


def write(buffer: jax.Array, tensor: jax.Array, strides: Sizes | None) -> jax.Array:
    """The flat buffer with a tensor at its start; elements between the tensor's keep their values.

    The strides are as for `read`, and `distinct`.
    """
    sizes = tensor.shape
    if strides is None or strides == packed_strides(sizes):
        flat = tensor.reshape(-1)
        if flat.shape == buffer.shape:
            return flat
        return lax.dynamic_update_slice_in_dim(buffer, flat, 0, 0)
    order = _outward(sizes, strides)
    if not _is_nested(sizes, strides, order):
        addresses = _addresses(sizes, strides)
        return buffer.at[addresses].set(tensor, mode="promise_in_bounds", unique_indices=True)
    # Spread the elements to where they belong, then select them by address: one fused pass that
    # reads the tensor and the buffer once and writes the buffer once.
    moving = sorted(order)
    x = lax.transpose(tensor.reshape([sizes[d] for d in moving]), [*map(moving.index, order)])
    x = x[..., None]
    address = lax.iota(jnp.uint32, buffer.shape[0])
    inside = jnp.ones(buffer.shape, bool)
    for d in order:
        inside &= address // jnp.uint32(strides[d]) < sizes[d]
        address %= jnp.uint32(strides[d])
    inside &= address == 0
    for d in reversed(order):
        x = _resize(x, strides[d])
        x = x.reshape(*x.shape[:-2], sizes[d] * strides[d])
    return lax.select(inside, _resize(x, buffer.shape[0]), buffer)


def _resize(x: jax.Array, extent: int) -> jax.Array:
    """The array with its last dimension cut or zero-padded to `extent`."""
    if x.shape[-1] >= extent:
        return lax.slice_in_dim(x, 0, extent, axis=-1)
    padding = [(0, 0, 0)] * (x.ndim - 1) + [(0, extent - x.shape[-1], 0)]
    return lax.pad(x, jnp.zeros((), x.dtype), padding)


def reinterpret(buffer: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """The bytes of a flat buffer as elements of another type; bytes left over are dropped."""
    old, new = buffer.dtype.itemsize, dtype.itemsize
    if buffer.dtype == dtype:
        return buffer
    if old < new:
        buffer = lax.slice_in_dim(buffer, 0, buffer.shape[0] // (new // old) * (new // old))
    if old > new:
        # Of two in a row, from int8 by way of float32 to uint16, XLA makes one that is none.
        buffer = lax.optimization_barrier(buffer)
    parts = buffer.reshape(-1, new // old) if new > old else buffer
    return lax.bitcast_convert_type(parts, dtype).reshape(-1)


# 4-bit integers: two in a byte, the first in its low half.

_LOW, _WIDTH, _SIGN = np.uint8(15), np.uint8(4), np.uint8(8)


def read_4_bits(
    buffer: jax.Array, sizes: tuple[int, ...], strides: tuple[int, ...] | None, dtype: np.dtype
) -> jax.Array:
    """Return the tensor of `sizes`, of jnp.int4 or jnp.uint4, at the start of a UINT8 `buffer`."""
    bits = read(_unpack(buffer), sizes, strides)
    if dtype == jnp.uint4:
        return lax.convert_element_type(bits, dtype)
    signed = lax.bitcast_convert_type((bits ^ _SIGN) - _SIGN, jnp.int8)
    return lax.convert_element_type(signed, dtype)


def write_4_bits(
    buffer: jax.Array, tensor: jax.Array, strides: tuple[int, ...] | None
) -> jax.Array:
    """Return the UINT8 `buffer` with a 4-bit `tensor` at its start; other halves stay."""
    wide = jnp.int8 if tensor.dtype == jnp.int4 else jnp.uint8
    bits = lax.bitcast_convert_type(lax.convert_element_type(tensor, wide), jnp.uint8) & _LOW
    pairs = write(_unpack(buffer), bits, strides).reshape(-1, 2)
    return pairs[:, 0] | pairs[:, 1] << _WIDTH


def _unpack(buffer: jax.Array) -> jax.Array:
    """Return the halves of bytes: [n] -> [2 * n], in [0, 15]."""
    return jnp.stack([buffer & _LOW, buffer >> _WIDTH], axis=-1).reshape(-1)

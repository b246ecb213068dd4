"""Parts of tensors, tensors with something around them, and lines that run backward."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.platform_forms import by_platform

Numbers = Sequence[int]


def _bounds(starts: Numbers, strides: Numbers, counts: Numbers) -> list[tuple[int, int]]:
    """Return the lowest and the highest index of what each dimension reads."""
    reaches = ((c - 1) * s for s, c in zip(strides, counts, strict=True))
    ends = [(start, start + reach) for start, reach in zip(starts, reaches, strict=True)]
    return [(min(pair), max(pair)) for pair in ends]


def _backward(strides: Numbers) -> list[int]:
    return [d for d, stride in enumerate(strides) if stride < 0]


def cut(x: jax.Array, starts: Numbers, strides: Numbers, counts: Numbers) -> jax.Array:
    """Return the elements `x[start + stride * i]` for i below `count`, in each dimension.

    Strides may be negative.
    """
    bounds = _bounds(starts, strides, counts)
    lows, limits = [low for low, _ in bounds], [high + 1 for _, high in bounds]
    # XLA's partitioner takes a wrong element where the stride of a single one is not 1.
    steps = [abs(s) if c > 1 else 1 for s, c in zip(strides, counts, strict=True)]
    return lax.rev(lax.slice(x, lows, limits, steps), _backward(strides))


def every(x: jax.Array, axis: int, first: int, stride: int, count: int) -> jax.Array:
    """Return `count` elements of an axis, from `first` on, each `stride` behind the one before."""
    starts, strides, counts = [0] * x.ndim, [1] * x.ndim, list(x.shape)
    starts[axis], strides[axis], counts[axis] = first, stride, count
    return cut(x, starts, strides, counts)


def put(x: jax.Array, starts: Numbers, strides: Numbers, sizes: Numbers) -> jax.Array:
    """Return zeros of `sizes` with `x` at the places where `cut` reads it."""
    bounds = zip(_bounds(starts, strides, x.shape), strides, sizes, strict=True)
    widths = [(low, n - 1 - high, abs(s) - 1) for (low, high), s, n in bounds]
    return lax.pad(lax.rev(x, _backward(strides)), jnp.zeros((), x.dtype), widths)


_MODES: Mapping[str, Any] = {
    "EDGE": "edge",
    "REFLECTION": "reflect",
    "SYMMETRIC": "symmetric",
    "WRAP": "wrap",
}


def pad(x: jax.Array, start: Numbers, end: Numbers, mode: str, value: float | int) -> jax.Array:
    """Return `x` with `start` and `end` elements before and behind it in each dimension.

    The mode is a name of DML_PADDING_MODE without its prefix; CONSTANT adds `value`.
    """
    widths = list(zip(start, end, strict=True))
    if mode == "CONSTANT":
        with np.errstate(over="ignore"):  # a large value is infinity in FLOAT16
            fill = jnp.asarray(np.array(value, x.dtype))
        return lax.pad(x, fill, [(before, behind, 0) for before, behind in widths])
    plain = functools.partial(jnp.pad, pad_width=widths, mode=_MODES[mode])
    read = functools.partial(_read_around, widths=widths, mode=mode)
    return by_platform(plain, cuda=read, whole_arrays=True)(x)


def _read_around(x: jax.Array, widths: Sequence[tuple[int, int]], mode: str) -> jax.Array:
    """Return what `pad` does, by a gather for each dimension: a GPU joins no parts."""
    for axis, width in enumerate(widths):
        if width != (0, 0):
            places = np.pad(np.arange(x.shape[axis], dtype=np.int32), width, _MODES[mode])
            x = x.at[(*[slice(None)] * axis, places)].get(mode="promise_in_bounds")
    return x


def reverse_subsequences(x: jax.Array, lengths: jax.Array, axis: int) -> jax.Array:
    """Return `x` with the first elements of each line along `axis` in reverse order.

    `lengths` has the number of these elements for each line, and the size 1 along `axis`.
    """
    length = jnp.minimum(lengths, x.shape[axis]).astype(np.uint32)
    place = lax.broadcasted_iota(np.uint32, x.shape, axis)
    source = jnp.where(place < length, length - np.uint32(1) - place, place)
    return jnp.take_along_axis(x, source, axis, mode="promise_in_bounds")

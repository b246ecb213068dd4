"""Slices and padding as a user of JAX writes them."""

from typing import Any

import jax.numpy as jnp

_MODES: dict[str, Any] = {
    "EDGE": "edge",
    "REFLECTION": "reflect",
    "SYMMETRIC": "symmetric",
    "WRAP": "wrap",
}


def _window(op: Any, counts: Any) -> Any:
    places = []
    for start, stride, count in zip(op.starts, op.input_window_strides, counts, strict=True):
        end = start + stride * count
        places.append(slice(start, end if end >= 0 else None, stride))
    return tuple(places)


def _slice(op: Any) -> Any:
    triples = zip(op.offsets, op.sizes, op.strides, strict=True)
    places = tuple(slice(o, o + (n - 1) * s + 1, s) for o, n, s in triples)
    return lambda x: x[places]


def _slice_grad(op: Any) -> Any:
    sizes = op.output_gradient_tensor.sizes
    return lambda x: jnp.zeros(sizes, x.dtype).at[_window(op, x.shape)].set(x)


def _padding(op: Any) -> Any:
    widths = list(zip(op.start_padding, op.end_padding, strict=True))
    if op.padding_mode.name == "CONSTANT":
        return lambda x: jnp.pad(x, widths, constant_values=op.padding_value)
    return lambda x: jnp.pad(x, widths, _MODES[op.padding_mode.name])


def _reverse(op: Any) -> Any:
    def reverse(x: Any, lengths: Any) -> Any:
        n = x.shape[op.axis]
        place = jnp.arange(n).reshape([-1 if d == op.axis else 1 for d in range(x.ndim)])
        length = jnp.minimum(lengths, n).astype(place.dtype)
        return jnp.take_along_axis(x, jnp.where(place < length, length - 1 - place, place), op.axis)

    return reverse


EXPRESSIONS = {
    "SLICE": _slice,
    "SLICE1": lambda op: lambda x: x[_window(op, op.output_tensor.sizes)],
    "SLICE_GRAD": _slice_grad,
    "PADDING": _padding,
    "PADDING1": _padding,
    "REVERSE_SUBSEQUENCES": _reverse,
}

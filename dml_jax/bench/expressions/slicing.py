"""Slices and padding as a user of JAX writes them."""

from typing import Any

import jax.numpy as jnp

from dml_jax.bench.expressions.quantization import along

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


def _slice(op: Any, x: Any) -> Any:
    triples = zip(op.offsets, op.sizes, op.strides, strict=True)
    return x[tuple(slice(o, o + (n - 1) * s + 1, s) for o, n, s in triples)]


def _slice_grad(op: Any, x: Any) -> Any:
    zeros = jnp.zeros(op.output_gradient_tensor.sizes, x.dtype)
    return zeros.at[_window(op, x.shape)].set(x)


def _padding(op: Any, x: Any) -> Any:
    widths = list(zip(op.start_padding, op.end_padding, strict=True))
    if op.padding_mode.name == "CONSTANT":
        return jnp.pad(x, widths, constant_values=op.padding_value)
    return jnp.pad(x, widths, _MODES[op.padding_mode.name])


def _reverse(op: Any, x: Any, lengths: Any) -> Any:
    n = x.shape[op.axis]
    place = along(jnp.arange(n), op.axis, x.ndim)
    length = jnp.minimum(lengths, n).astype(place.dtype)
    return jnp.take_along_axis(x, jnp.where(place < length, length - 1 - place, place), op.axis)


EXPRESSIONS = {
    "SLICE": _slice,
    "SLICE1": lambda op, x: x[_window(op, op.output_tensor.sizes)],
    "SLICE_GRAD": _slice_grad,
    "PADDING": _padding,
    "PADDING1": _padding,
    "REVERSE_SUBSEQUENCES": _reverse,
}

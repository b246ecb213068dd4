"""Elements that are chosen, moved, summed up or made, as a user of JAX writes them."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.bench.expressions.matrix import along


def _kept(x: Any, count: int) -> Any:
    return x.reshape(x.shape[x.ndim - count :])


def _gather(op: Any, x: Any, indices: Any) -> Any:
    read = jnp.take(x, _kept(indices, op.index_dimensions), op.axis, mode="clip")
    return read.reshape(op.output_tensor.sizes)


def _gather_nd(op: Any, x: Any, indices: Any) -> Any:
    x, indices = _kept(x, op.input_dimension_count), _kept(indices, op.indices_dimension_count)
    places = [indices[..., k] for k in range(indices.shape[-1])]
    own = jnp.indices(indices.shape[:-1], sparse=True)[: op.batch_dimension_count]
    return x.at[(*own, *places)].get(mode="clip").reshape(op.output_tensor.sizes)


def _scatter(op: Any, x: Any, indices: Any, updates: Any) -> Any:
    places = list(jnp.indices(indices.shape, sparse=True))
    places[op.axis] = indices
    return x.at[tuple(places)].set(updates)


def _scatter_nd(op: Any, x: Any, indices: Any, updates: Any) -> Any:
    out, indices = _kept(x, op.input_dimension_count), _kept(indices, op.indices_dimension_count)
    places = tuple(indices[..., k] for k in range(indices.shape[-1]))
    updates = updates.reshape((*indices.shape[:-1], *out.shape[len(places) :]))
    return out.at[places].set(updates).reshape(x.shape)


def _one_hot(op: Any, indices: Any, values: Any) -> Any:
    size = op.output_tensor.sizes[op.axis]
    shape = [size if d == op.axis else 1 for d in range(len(op.output_tensor.sizes))]
    is_on = indices == jnp.arange(size, dtype=indices.dtype).reshape(shape)
    return jnp.where(is_on, values.ravel()[1], values.ravel()[0])


def _nonzero(op: Any, x: Any) -> Any:
    sizes = op.output_coordinates_tensor.sizes
    found = jnp.nonzero(x, size=math.prod(x.shape), fill_value=0)[x.ndim - sizes[-1] :]
    count = jnp.count_nonzero(x).astype(jnp.uint32).reshape(op.output_count_tensor.sizes)
    return count, jnp.stack(found, -1).astype(jnp.uint32).reshape(sizes)


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
    return jnp.pad(x, widths, op.padding_mode.name.lower().removesuffix("ion"))  # of reflection


def _reverse(op: Any, x: Any, lengths: Any) -> Any:
    n = x.shape[op.axis]
    place = along(jnp.arange(n), op.axis, x.ndim)
    length = jnp.minimum(lengths, n).astype(place.dtype)
    return jnp.take_along_axis(x, jnp.where(place < length, length - 1 - place, place), op.axis)


def _cumulative(function: Any, exclusive: str, identity: int) -> Any:
    def expression(op: Any, x: Any) -> Any:
        def _reverse(x: Any) -> Any:
            return jnp.flip(x, op.axis) if op.axis_direction.name == "DECREASING" else x

        x = _reverse(x)
        if getattr(op, exclusive):
            first = jnp.full_like(lax.slice_in_dim(x, 0, 1, axis=op.axis), identity)
            x = jnp.concatenate([first, lax.slice_in_dim(x, 0, -1, axis=op.axis)], op.axis)
        return _reverse(function(x, op.axis, dtype=x.dtype))

    return expression


def _top_k(op: Any, x: Any) -> Any:
    direction = getattr(op, "axis_direction", None)
    is_increasing = direction is not None and direction.name == "INCREASING"
    lines = jnp.moveaxis(x, op.axis, -1)
    values, index = lax.top_k(-lines if is_increasing else lines, op.k)
    values = -values if is_increasing else values
    index = index.astype(op.output_index_tensor.dtype)
    return jnp.moveaxis(values, -1, op.axis), jnp.moveaxis(index, -1, op.axis)


def _sequence(op: Any) -> Any:
    sizes, dtype = op.output_tensor.sizes, op.output_tensor.dtype
    start, delta = dtype.type(op.value_start), dtype.type(op.value_delta)
    return (start + jnp.arange(math.prod(sizes), dtype=dtype) * delta).reshape(sizes)


def _diagonal(op: Any) -> jax.Array:
    *batch, height, width = op.output_tensor.sizes
    dtype, value = op.output_tensor.dtype, op.value
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        value = int(max(limits.min, min(limits.max, value)))
    eye = jnp.eye(height, width, op.offset, dtype=bool)
    return jnp.where(jnp.broadcast_to(eye, (*batch, height, width)), jnp.array(value, dtype), 0)


def _band(op: Any, x: jax.Array | None = None) -> jax.Array:
    sizes, dtype = op.output_tensor.sizes, op.output_tensor.dtype
    begin, end = sorted((op.diagonal_fill_begin, op.diagonal_fill_end))
    within = jnp.tril(jnp.triu(jnp.ones(sizes, bool), begin), end - 1)
    within = ~within if op.diagonal_fill_begin > op.diagonal_fill_end else within
    return jnp.where(within, dtype.type(op.value), jnp.zeros(sizes, dtype) if x is None else x)


def _random(op: Any, state: jax.Array) -> Any:
    """Draw as many bits by JAX's own generator, which are other bits."""
    key = jax.random.wrap_key_data(state.reshape(-1)[4:])
    bits = jax.random.bits(key, op.output_tensor.sizes, jnp.uint32)
    return bits if op.output_state_tensor is None else (bits, state)


EXPRESSIONS = {
    "GATHER": _gather,
    "GATHER_ELEMENTS": lambda op, x, indices: jnp.take_along_axis(x, indices, op.axis, mode="clip"),
    "GATHER_ND": _gather_nd,
    "GATHER_ND1": _gather_nd,
    "SCATTER": _scatter,
    "SCATTER_ND": _scatter_nd,
    "ONE_HOT": _one_hot,
    "NONZERO_COORDINATES": _nonzero,
    "SLICE": _slice,
    "SLICE1": lambda op, x: x[_window(op, op.output_tensor.sizes)],
    "SLICE_GRAD": _slice_grad,
    "PADDING": _padding,
    "PADDING1": _padding,
    "REVERSE_SUBSEQUENCES": _reverse,
    "CUMULATIVE_SUMMATION": _cumulative(jnp.cumsum, "has_exclusive_sum", 0),
    "CUMULATIVE_PRODUCT": _cumulative(jnp.cumprod, "has_exclusive_product", 1),
    "TOP_K": _top_k,
    "TOP_K1": _top_k,
    "FILL_VALUE_CONSTANT": lambda op: jnp.full(
        op.output_tensor.sizes, op.value, op.output_tensor.dtype
    ),
    "FILL_VALUE_SEQUENCE": _sequence,
    "DIAGONAL_MATRIX": _diagonal,
    "DIAGONAL_MATRIX1": _band,
    "RANDOM_GENERATOR": _random,
}

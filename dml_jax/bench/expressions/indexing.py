"""Gather, scatter, one-hot and nonzero as a user of JAX writes them."""

import math
from typing import Any

import jax.numpy as jnp


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


EXPRESSIONS = {
    "GATHER": _gather,
    "GATHER_ELEMENTS": lambda op, x, indices: jnp.take_along_axis(x, indices, op.axis, mode="clip"),
    "GATHER_ND": _gather_nd,
    "GATHER_ND1": _gather_nd,
    "SCATTER": _scatter,
    "SCATTER_ND": _scatter_nd,
    "ONE_HOT": _one_hot,
    "NONZERO_COORDINATES": _nonzero,
}

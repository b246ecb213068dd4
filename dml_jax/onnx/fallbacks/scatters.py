"""Scatters with reductions, and into caches."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import fallback
from dml_jax.onnx.translators.indexing import check_places


def _places(indices: jax.Array, axis: int, shape: tuple[int, ...]) -> tuple[jax.Array, ...]:
    """Return the index of each of `indices` along each dimension."""
    found = [*jnp.indices(indices.shape, indices.dtype, sparse=True)]
    found[axis] = jnp.where(indices < 0, indices + shape[axis], indices)
    return tuple(found)


def _scatter(node: Node, x: jax.Array, places: Any, updates: jax.Array) -> jax.Array:
    """Return `x` with updates at places, as the reduction says."""
    at, reduction = x.at[places], node.attribute("reduction", "none")
    functions = {"none": at.set, "add": at.add, "mul": at.mul, "max": at.max, "min": at.min}
    return functions[reduction](updates)


@fallback("Scatter", "ScatterElements")
def _scatter_elements(
    node: Node, x: jax.Array, indices: jax.Array, updates: jax.Array
) -> jax.Array:
    check_places(node)
    return _scatter(node, x, _places(indices, node.axis(), x.shape), updates)


@fallback("ScatterND")
def _scatter_nd(node: Node, x: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
    return _scatter(node, x, tuple(jnp.moveaxis(indices, -1, 0)), updates)


@fallback("TensorScatter")
def _tensor_scatter(
    node: Node, past: jax.Array, update: jax.Array, starts: Any = None
) -> jax.Array:
    axis = node.axis()
    batch, length, most = past.shape[0], update.shape[axis], past.shape[axis]
    begins = jnp.zeros(batch, np.int32) if starts is None else starts.astype(np.int32)
    steps = begins[:, None] + jnp.arange(length, dtype=np.int32)[None]
    if node.attribute("mode", "linear") == "circular":
        steps = steps % most
    rows = jnp.arange(batch, dtype=np.int32)[:, None]
    moved, written = jnp.moveaxis(past, axis, 1), jnp.moveaxis(update, axis, 1)
    return jnp.moveaxis(moved.at[rows, steps].set(written), 1, axis)

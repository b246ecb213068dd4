"""Views, parts, joins, gathers and scatters."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dml_jax.onnx.nodes import Node
from dml_jax.onnx.plain import plain


@plain("Flatten", "Reshape", "Squeeze", "Unsqueeze")
def _view(node: Node, x: jax.Array, sizes: Any = None) -> jax.Array:
    return x.reshape(node.output_shape())


@plain("Transpose")
def _transpose(node: Node, x: jax.Array) -> jax.Array:
    return jnp.transpose(x, node.attribute("perm") or [*reversed(range(x.ndim))])


@plain("Expand")
def _expand(node: Node, x: jax.Array, sizes: Any) -> jax.Array:
    shape = node.output_shape()
    return jnp.broadcast_to(x.reshape((1,) * (len(shape) - x.ndim) + x.shape), shape)


@plain("Concat")
def _concat(node: Node, *parts: jax.Array) -> jax.Array:
    return jnp.concatenate(parts, node.attribute("axis"))


@plain("Split")
def _split(node: Node, x: jax.Array, sizes: Any = None) -> Any:
    axis = node.axis()
    pieces = [node.output_shape(k)[axis] for k in range(len(node.types))]
    return jnp.split(x, [*np.cumsum(pieces[:-1])], axis)


@plain("Slice", since=10)
def _slice(node: Node, x: jax.Array, *_: Any) -> jax.Array:
    starts, ends, axes, steps = (node.constant(k) for k in range(1, 5))
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    windows = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        windows[node.from_start(int(axis), x.ndim, "axes")] = slice(int(start), int(end), int(step))
    return x[tuple(windows)]


@plain("Tile", since=6)
def _tile(node: Node, x: jax.Array, repeats: Any) -> jax.Array:
    return jnp.tile(x, node.constant(1).tolist())


@plain("Range")
def _range(node: Node, start: jax.Array, limit: jax.Array, delta: jax.Array) -> jax.Array:
    ends = [node.constant(k).reshape(-1)[0].astype(np.float64) for k in range(3)]
    count = max(0, math.ceil((ends[1] - ends[0]) / ends[2]))
    steps = jnp.arange(count, dtype=start.dtype)
    return start.reshape(1) + steps * delta.reshape(1)


@plain("OneHot")
def _one_hot(node: Node, indices: jax.Array, depth: Any, values: jax.Array) -> jax.Array:
    count = int(node.constant(1).reshape(-1)[0])
    axis = node.from_start(node.attribute("axis"), indices.ndim + 1)
    places = jnp.expand_dims(jnp.mod(indices.astype(np.int32), count), axis)
    is_inside = jnp.expand_dims((indices >= -count) & (indices < count), axis)
    ranks = jnp.arange(count, dtype=np.int32)
    ranks = ranks.reshape([count if d == axis else 1 for d in range(indices.ndim + 1)])
    return jnp.where((places == ranks) & is_inside, values[1], values[0])


@plain("ReverseSequence")
def _reverse(node: Node, x: jax.Array, lengths: jax.Array) -> jax.Array:
    time, batch = node.axis("time_axis"), node.axis("batch_axis")
    steps = jnp.arange(x.shape[time], dtype=lengths.dtype)
    steps = steps.reshape([-1 if d == time else 1 for d in range(x.ndim)])
    lengths = lengths.reshape([-1 if d == batch else 1 for d in range(x.ndim)])
    places = jnp.where(steps < lengths, lengths - 1 - steps, steps)
    return jnp.take_along_axis(x, jnp.broadcast_to(places, x.shape), time)


@plain("Gather")
def _gather(node: Node, x: jax.Array, indices: jax.Array) -> jax.Array:
    return jnp.take(x, indices, node.axis(), mode="wrap")


@plain("GatherElements")
def _gather_elements(node: Node, x: jax.Array, indices: jax.Array) -> jax.Array:
    places = _places(indices, node.axis(), x.shape)
    return x[places]


def _places(indices: jax.Array, axis: int, shape: tuple[int, ...]) -> tuple[jax.Array, ...]:
    """Return the index of each of `indices` along each dimension."""
    found = []
    for d, size in enumerate(indices.shape):
        own = jnp.arange(size, dtype=indices.dtype)
        own = own.reshape([size if k == d else 1 for k in range(indices.ndim)])
        place = jnp.where(indices < 0, indices + shape[d], indices) if d == axis else own
        found.append(jnp.broadcast_to(place, indices.shape))
    return tuple(found)


def _scattered(node: Node, x: jax.Array, places: Any, updates: jax.Array) -> jax.Array:
    """Return `x` with updates at places, as the reduction says."""
    at, reduction = x.at[places], node.attribute("reduction", "none")
    functions = {"none": at.set, "add": at.add, "mul": at.mul, "max": at.max, "min": at.min}
    return functions[reduction](updates)


@plain("Scatter", "ScatterElements")
def _scatter_elements(
    node: Node, x: jax.Array, indices: jax.Array, updates: jax.Array
) -> jax.Array:
    return _scattered(node, x, _places(indices, node.axis(), x.shape), updates)


@plain("ScatterND")
def _scatter_nd(node: Node, x: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
    return _scattered(node, x, tuple(jnp.moveaxis(indices, -1, 0)), updates)


@plain("TensorScatter")
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


@plain("Pad", since=11)
def _pad(node: Node, x: jax.Array, pads: Any, value: Any = None, axes: Any = None) -> jax.Array:
    given, rank = node.constant(1), x.ndim
    along = node.constant(3)
    along = [*range(rank)] if along is None else [node.from_start(int(a), rank) for a in along]
    ends = [(0, 0)] * rank
    for k, axis in enumerate(along):
        ends[axis] = (int(given[k]), int(given[k + len(along)]))
    kept = [slice(max(0, -a), n - max(0, -b)) for (a, b), n in zip(ends, x.shape, strict=True)]
    x, wider = x[tuple(kept)], [(max(0, a), max(0, b)) for a, b in ends]
    mode = node.attribute("mode")
    if mode == "constant":
        filled = jnp.zeros((), x.dtype) if value is None else value.reshape(())
        return jnp.pad(x, wider, constant_values=filled)
    return jnp.pad(x, wider, mode=mode)

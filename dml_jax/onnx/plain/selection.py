"""Op types whose outputs have as many elements as the data says: padded, with a count."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.onnx.nodes import Node
from dml_jax.onnx.plain import plain
from dml_jax.onnx.tensors import Padded, has_x64


def _integers(x: jax.Array) -> jax.Array:
    """Return numbers as ONNX's INT64."""
    return x.astype(np.int64 if has_x64() else np.int32)


def _places(mask: jax.Array, most: int) -> tuple[jax.Array, jax.Array]:
    """Return where a mask is set, in `most` elements of which the rest is 0, and how often."""
    flat = mask.reshape(-1)
    (places,) = jnp.nonzero(flat, size=most, fill_value=0)
    return places, _integers(jnp.minimum(jnp.sum(flat, dtype=np.int32), most))


@plain("Compress")
def _compress(node: Node, x: jax.Array, condition: jax.Array) -> Padded:
    axis = node.attribute("axis")
    x = x.reshape(-1) if axis is None else x
    along = 0 if axis is None else node.from_start(axis, x.ndim)
    places, count = _places(condition, min(condition.size, x.shape[along]))
    rows = jnp.take(x, places, along)
    is_there = jnp.arange(rows.shape[along], dtype=count.dtype) < count
    is_there = is_there.reshape([-1 if d == along else 1 for d in range(x.ndim)])
    return Padded(jnp.where(is_there, rows, jnp.zeros((), x.dtype)), along, count)


@plain("Unique")
def _unique(node: Node, x: jax.Array) -> Any:
    axis = node.attribute("axis")
    along = 0 if axis is None else node.from_start(axis, x.ndim)
    size = x.size if axis is None else x.shape[along]
    zero = jnp.zeros((), x.dtype)
    values, first, inverse, counts = jnp.unique(
        x, True, True, True, axis, size=size, fill_value=zero, equal_nan=False
    )
    count = jnp.sum(counts > 0, dtype=np.int32)
    if not node.attribute("sorted"):  # by their first place
        order = jnp.argsort(jnp.where(counts > 0, first, size), stable=True)
        values, first, counts = jnp.take(values, order, along), first[order], counts[order]
        inverse = jnp.argsort(order)[inverse]
    is_there = jnp.arange(size, dtype=np.int32) < count
    first = jnp.where(is_there, first, 0)
    number = _integers(count)
    return (
        Padded(values, along, number),
        Padded(_integers(first), 0, number),
        _integers(inverse.reshape(-1)),
        Padded(_integers(counts), 0, number),
    )


@plain("NonMaxSuppression")
def _suppress(
    node: Node,
    boxes: jax.Array,
    scores: jax.Array,
    most: Any = None,
    overlap: Any = None,
    least: Any = None,
) -> Padded:
    known = 0 if most is None else node.known(2)
    limit = boxes.shape[1] if known is None else int(np.reshape(known, -1)[0])
    limit = max(0, min(limit, boxes.shape[1]))
    if 0 in (*scores.shape, limit):
        return Padded(_integers(jnp.zeros((0, 3), np.int32)), 0, _integers(jnp.zeros((), np.int32)))
    overlap = jnp.zeros((), boxes.dtype) if overlap is None else overlap.reshape(())
    corners = _corners(boxes, bool(node.attribute("center_point_box")))

    def of_class(corners: jax.Array, scores: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the chosen boxes of a class, the best first, and whether each is one."""
        allowed = jnp.ones(scores.shape, bool)
        allowed = allowed if least is None else scores > least.reshape(())

        def choose(left: jax.Array, _: None) -> tuple[jax.Array, Any]:
            best = jnp.argmax(jnp.where(left, scores, -jnp.inf))
            is_one = left[best]
            is_near = _overlap(corners[best], corners) > overlap
            left = left & ~is_near & (jnp.arange(left.size, dtype=best.dtype) != best)
            return left, (best.astype(np.int32), is_one)

        return lax.scan(choose, allowed, None, limit)[1]

    of_image = jax.vmap(of_class, (None, 0))
    chosen, is_one = jax.vmap(of_image)(corners, scores)  # [batch, class, limit]
    if most is not None and known is None:
        ranks = jnp.arange(limit, dtype=np.int32).reshape(1, 1, limit)
        is_one = is_one & (ranks < most.reshape(()).astype(np.int32))
    places, count = _places(is_one, is_one.size)
    classes = jnp.unravel_index(places, is_one.shape)[:2]
    rows = jnp.stack([*(_integers(c) for c in classes), _integers(chosen.reshape(-1)[places])], 1)
    is_there = jnp.arange(rows.shape[0], dtype=count.dtype) < count
    return Padded(jnp.where(is_there[:, None], rows, 0), 0, count)


def _corners(boxes: jax.Array, is_centred: bool) -> jax.Array:
    """Return boxes as their low and high corners, [batch, box, low or high, 2]."""
    first, second = boxes[..., :2], boxes[..., 2:]
    if is_centred:
        first, second = first - second / 2, first + second / 2
    return jnp.stack([jnp.minimum(first, second), jnp.maximum(first, second)], -2)


def _overlap(one: jax.Array, boxes: jax.Array) -> jax.Array:
    """Return the area that a box shares with each of the boxes, of the area of both."""
    low = jnp.maximum(one[None, 0], boxes[:, 0])
    high = jnp.minimum(one[None, 1], boxes[:, 1])
    shared = jnp.prod(jnp.maximum(high - low, 0), -1)
    areas = jnp.prod(boxes[:, 1] - boxes[:, 0], -1)
    both = jnp.prod(one[1] - one[0]) + areas - shared
    return jnp.where(both > 0, shared / jnp.where(both > 0, both, 1), 0)

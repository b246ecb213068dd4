"""Op types whose outputs have as many elements as the data says: padded, with a count."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.dtypes import has_x64
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import fallback
from dml_jax.onnx.nodes.tensor import Padded
from dml_jax.onnx.sizes import integer_ranges, padding_rules

# Boxes are compared in blocks: the matrix of all pairs may be too large.
_BLOCK = 256


def _integers(x: jax.Array) -> jax.Array:
    """Return numbers as ONNX's INT64."""
    return x.astype(np.int64 if has_x64() else np.int32)


def _places(mask: jax.Array, most: int) -> tuple[jax.Array, jax.Array]:
    """Return where a mask is set, in `most` elements of which the rest is 0, and how often."""
    flat = mask.reshape(-1)
    (places,) = jnp.nonzero(flat, size=most, fill_value=0)
    return places, _integers(jnp.minimum(jnp.sum(flat, dtype=np.int32), most))


@fallback("Compress", padding=padding_rules.compress_rule, counted=1)
def _compress(node: Node, x: jax.Array, condition: jax.Array) -> Padded:
    axis = node.attribute("axis")
    x = x.reshape(-1) if axis is None else x
    along = 0 if axis is None else node.from_start(axis, x.ndim)
    places, count = _places(condition, min(condition.size, x.shape[along]))
    rows = jnp.take(x, places, along)
    is_there = jnp.arange(rows.shape[along], dtype=count.dtype) < count
    is_there = is_there.reshape([-1 if d == along else 1 for d in range(x.ndim)])
    return Padded(jnp.where(is_there, rows, jnp.zeros((), x.dtype)), along, count)


@fallback("Unique")
def _unique(node: Node, x: jax.Array) -> Any:
    axis = node.attribute("axis")
    along = 0 if axis is None else node.from_start(axis, x.ndim)
    size = x.size if axis is None else x.shape[along]
    zero = jnp.zeros((), x.dtype)
    given = {"size": size, "fill_value": zero, "equal_nan": False}
    values, first, inverse, counts = jnp.unique(x, True, True, True, axis, **given)
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


@fallback("NonMaxSuppression", integers=integer_ranges.places, read_at_load=(2,))
@fallback("NonMaxSuppression", padding=padding_rules.boxes_rule)
def _suppress(node: Node, boxes: jax.Array, scores: jax.Array, *others: Any) -> Padded:
    most, overlap, least = (*others, None, None, None)[:3]
    is_known = not node.has(2) or node.tensor(2).is_known
    is_right = boxes.shape[:2] == (scores.shape[0], scores.shape[2])
    rule = f"have {boxes.shape[1]} boxes, as the boxes"
    node.expect(is_right, "scores", rule, list(scores.shape))
    limit = max(0, min(node.number(2, 0) if is_known else boxes.shape[1], boxes.shape[1]))
    if 0 in (*scores.shape, limit):
        return Padded(_integers(jnp.zeros((0, 3), np.int32)), 0, _integers(jnp.zeros((), np.int32)))
    overlap = jnp.zeros((), boxes.dtype) if overlap is None else overlap.reshape(())
    corners = _corners(boxes, bool(node.attribute("center_point_box")))
    least = None if least is None else least.reshape(())

    def of_class(corners: jax.Array, scores: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the chosen boxes of a class, the best first, and how many these are."""
        # NaN is no score: it passes no threshold, and is left out where there is none.
        allowed = ~jnp.isnan(scores) if least is None else scores > least
        order = jnp.argsort(jnp.where(allowed, -scores, jnp.inf), stable=True)
        kept = _survivors(corners[order], allowed[order], overlap, limit)
        places, count = _places(kept, limit)
        return order[places], count

    def of_image(arrays: Any) -> Any:
        own, scores = arrays
        return lax.map(lambda row: of_class(own, row), scores)

    arrays = lax.stop_gradient((corners, scores))
    chosen, counts = lax.map(of_image, arrays)  # [batch, class, limit]
    if most is not None and not is_known:
        counts = jnp.minimum(counts, most.reshape(()).astype(counts.dtype))
    is_one = jnp.arange(limit, dtype=counts.dtype) < counts[..., None]
    places, count = _places(is_one, is_one.size)
    classes = jnp.unravel_index(places, is_one.shape)[:2]
    rows = jnp.stack([*(_integers(c) for c in classes), _integers(chosen.reshape(-1)[places])], 1)
    is_there = jnp.arange(rows.shape[0], dtype=count.dtype) < count
    return Padded(jnp.where(is_there[:, None], rows, 0), 0, count)


def _survivors(boxes: jax.Array, allowed: jax.Array, most: jax.Array, limit: int) -> jax.Array:
    """Return which boxes no better one suppresses, up to about `limit` of them.

    Blocks of boxes are compared with the blocks before them, then each with itself. The work ends
    with the first block that has no candidates, or where enough boxes are kept. The best boxes, and
    all candidates (`allowed`), stand in front. An overlap above `most` suppresses a box.
    """
    count = min(_BLOCK, len(boxes))
    blocks = -(-len(boxes) // count)
    missing = blocks * count - len(boxes)
    boxes = jnp.pad(boxes, [(0, missing), (0, 0), (0, 0)]).reshape(blocks, count, 2, 2)
    allowed = jnp.pad(allowed, (0, missing)).reshape(blocks, count)
    is_later = np.arange(count)[:, None] < np.arange(count)

    def goes_on(state: Any) -> jax.Array:
        number, _, found = state
        is_left = allowed[jnp.minimum(number, blocks - 1), 0]
        return (number < blocks) & (found < limit) & is_left

    def advance(state: Any) -> Any:
        number, kept, found = state
        own = boxes[number]

        def against(before: jax.Array, left: jax.Array) -> jax.Array:
            is_near = _overlap(boxes[before], own) > most
            return left & ~jnp.any(is_near & kept[before][:, None], 0)

        left = lax.fori_loop(0, number, against, allowed[number])
        is_near = (_overlap(own, own) > most) & is_later

        # The best undecided box stays, so that each turn decides one box at least.
        def settle(pair: Any) -> Any:
            last = pair[1]
            return last, left & ~jnp.any(is_near & last[:, None], 0)

        first = jnp.zeros_like(left), left
        left = lax.while_loop(lambda pair: jnp.any(pair[0] != pair[1]), settle, first)[1]
        found = found + jnp.sum(left, dtype=np.int32)
        return number + np.int32(1), kept.at[number].set(left), found

    start = np.int32(0), jnp.zeros_like(allowed), np.int32(0)
    kept = lax.while_loop(goes_on, advance, start)[1]
    return kept.reshape(-1)[: blocks * count - missing]


def _corners(boxes: jax.Array, is_centred: bool) -> jax.Array:
    """Return boxes as their low and high corners, [batch, box, low or high, 2]."""
    first, second = boxes[..., :2], boxes[..., 2:]
    if is_centred:
        first, second = first - second / 2, first + second / 2
    return jnp.stack([jnp.minimum(first, second), jnp.maximum(first, second)], -2)


def _overlap(some: jax.Array, others: jax.Array) -> jax.Array:
    """Return the area that each of some boxes shares with each of others, of the area of both."""
    corners = [box[:, k, d] for box in (some, others) for k in (0, 1) for d in (0, 1)]
    y, x, bottom, right = (c[:, None] for c in corners[:4])
    top, left, low, end = (c[None] for c in corners[4:])
    height = jnp.minimum(bottom, low) - jnp.maximum(y, top)
    width = jnp.minimum(right, end) - jnp.maximum(x, left)
    shared = jnp.maximum(height, 0) * jnp.maximum(width, 0)
    both = (bottom - y) * (right - x) + (low - top) * (end - left) - shared
    return jnp.where(both > 0, shared / jnp.where(both > 0, both, 1), 0)

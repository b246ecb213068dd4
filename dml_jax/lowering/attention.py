"""Attention of several heads; letters name sizes.

B batches, S queries, L new keys, P past keys, T keys in all, N heads of keys and values, G times as
many heads of queries, D elements of a query or key, E of a value.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.dtypes import wide
from dml_jax.lowering.platform_forms import by_platform
from dml_jax.lowering.precision import operands, precision
from dml_jax.lowering.softmax import softmax

Parts = tuple[jax.Array, jax.Array, jax.Array]

_LOW = -10000.0  # a number that usually hides a key where it is added


def separated(
    plain: Sequence[jax.Array | None],
    stacked: Sequence[jax.Array | None],
    heads: int,
    key_heads: int,
) -> Parts:
    """Return queries [B, S, G*N, D], keys [B, L, N, D] and values [B, L, N, E].

    `plain` has queries, keys and values, [..., B, S, heads * D] each; None where they are stacked.
    `stacked` has queries and keys, keys and values, or all three: one array [B, S, heads, 2, D] or
    [B, S, heads, 3, D], and None for the others.
    """
    parts = [
        x if x is None else x.reshape(*x.shape[-3:-1], count, -1)
        for x, count in zip(plain, (heads, key_heads, key_heads), strict=True)
    ]
    for whole, places in zip(stacked, ((0, 1), (1, 2), (0, 1, 2)), strict=True):
        if whole is not None:
            for k, place in enumerate(places):
                parts[place] = whole[:, :, :, k]
    q, k, v = parts
    assert q is not None and k is not None and v is not None
    return q, k, v


def biased(parts: Parts, bias: jax.Array | None) -> Parts:
    """Return queries, keys and values plus their parts of `bias`, one after the other in it."""
    if bias is None:
        return parts
    added, start = [], 0
    for x in parts:
        count = x.shape[2] * x.shape[3]
        added.append(x + bias.reshape(-1)[start : start + count].reshape(1, 1, *x.shape[2:]))
        start += count
    return added[0], added[1], added[2]


def appended(past: jax.Array | None, new: jax.Array) -> jax.Array:
    """Return `past` [..., B, N, P, D] and `new` [B, L, N, D] behind it, as [B, N, T, D]."""
    new = new.transpose(0, 2, 1, 3)
    return new if past is None else jnp.concatenate([past.reshape(past.shape[-4:]), new], 2)


def overwritten(past: jax.Array, new: jax.Array, starts: jax.Array, size: int) -> jax.Array:
    """Return `past` [..., B, N, P, D] with `new` [B, L, N, D] over it from `starts` [B] on.

    The result is [B, N, `size`, D]: what lies beyond is left out, and elements that neither has
    are 0. A program that takes over the memory of `past` writes the new rows alone.
    """
    past, new = past.reshape(past.shape[-4:]), new.transpose(0, 2, 1, 3).astype(past.dtype)
    count = new.shape[2]
    zero, missing = past.dtype.type(0), max(size, count) - past.shape[2]
    if missing:
        past = lax.pad(past, zero, [(0, 0, 0), (0, 0, 0), (0, missing, 0), (0, 0, 0)])

    def of_batch(past: jax.Array, new: jax.Array, start: jax.Array) -> jax.Array:
        place = jnp.clip(start, 0, past.shape[1] - count)
        index = place - start + jnp.arange(count, dtype=start.dtype)
        is_new = ((index >= 0) & (index < count))[None, :, None]
        moved = jnp.take(new, jnp.clip(index, 0, count - 1), 1) if count > 1 else new
        rows = jnp.where(is_new, moved, lax.dynamic_slice_in_dim(past, place, count, 1))
        return lax.dynamic_update_slice_in_dim(past, rows, place, 1)

    if past.shape[0] == 1:  # of several batches, a scatter
        made = of_batch(past[0], new[0], starts[0])[None]
    else:
        made = jax.vmap(of_batch)(past, new, starts)
    return made[:, :, :size]


def causal(starts: jax.Array, queries: int, new: int, keys: int) -> jax.Array:
    """Return which of `keys` each query may see, [B, 1, `queries`, `keys`].

    Query i of batch b stands at position `starts[b] + i`, and sees the keys up to there, of which
    `new` are new.
    """
    key = jnp.arange(keys, dtype=jnp.int32)[None, None, None]
    query = jnp.arange(queries, dtype=jnp.int32)[None, None, :, None]
    return key <= starts[:, None, None, None] + jnp.minimum(query, new - 1)


def between(starts: jax.Array | None, ends: jax.Array, keys: int) -> jax.Array:
    """Return which of `keys` lie in [start, end) of their batch, [B, 1, 1, `keys`]."""
    key = jnp.arange(keys, dtype=jnp.int32)[None, None, None]
    is_below = key < ends[:, None, None, None]
    return is_below if starts is None else is_below & (key >= starts[:, None, None, None])


def attend(
    parts: Parts,
    scale: float,
    added: Sequence[jax.Array],
    left: Sequence[jax.Array],
    seen: Sequence[jax.Array],
    filtered: float,
    dtype: Any,
) -> jax.Array:
    """Return the values, weighted by how well queries and keys agree, [B, S, G*N*E] in FLOAT32.

    `parts` are queries [B, S, G*N, D], keys [B, N, T, D] and values [B, N, T, E]. To the products
    of queries and keys times `scale`, `added` are added, [B, G*N, S, T] or 1 in some dimensions.
    `filtered` hides a key, as a number of `added` does that is no larger: it is added where `left`
    is false, and replaces a product where `seen` is. `dtype` is that of the operator's tensors.

    Of a key that is hidden from all queries, and of its value, NaN and infinity count as 0.
    """

    def plain(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return _attend((q, k, v), scale, (), (), (), filtered)

    if dtype.itemsize > 2 or seen or left or added:
        return _attend(parts, scale, added, left, seen, filtered)
    cuda = functools.partial(_by_cudnn, plain, scale, dtype)
    gradients = {"cuda": functools.partial(_gradients_by_cudnn, plain, scale, dtype)}
    return by_platform(plain, cuda=cuda, gradients=gradients, whole_arrays=True, partitioned=True)(
        *parts
    )


def attend_buffers(
    parts: Parts,
    starts: jax.Array,
    new: int,
    scale: float,
    added: Sequence[jax.Array],
    left: Sequence[jax.Array],
    seen: Sequence[jax.Array],
    filtered: float,
) -> jax.Array:
    """Return what `attend` returns, of queries that stand in buffers of keys and values.

    Keys and values may have a smaller type, and `new` of the keys are new. `starts` has the place
    of the first query of each batch, [B].
    """
    counts = (len(added), len(left))

    def plain(q: Any, k: Any, v: Any, starts: Any, *masks: Any, by_sums: bool = False) -> jax.Array:
        added, left, seen = _parted(masks, counts)
        own = causal(starts, q.shape[1], new, k.shape[2])
        return _attend((q, k, v), scale, added, left, [*seen, own], filtered, by_sums)

    def by_blocks(q: Any, k: Any, v: Any, starts: Any, *masks: Any) -> jax.Array:
        return _by_blocks((q, k, v), starts, new, scale, _parted(masks, counts), filtered)

    arrays = (*parts, starts, *added, *left, *seen)
    forms: dict[str, Any] = {}
    if parts[1].shape[2] > _BLOCKS_MIN * _BLOCK:
        forms["cpu"] = by_blocks
    if parts[0].shape[0] * parts[0].shape[1] <= _FEW_QUERIES:
        forms["cuda"] = functools.partial(plain, by_sums=True)
    return by_platform(plain, **forms, whole_arrays=True)(*arrays)


def _parted(
    masks: Sequence[Any], counts: tuple[int, int]
) -> tuple[list[Any], list[Any], list[Any]]:
    a, b = counts[0], counts[0] + counts[1]
    return [*masks[:a]], [*masks[a:b]], [*masks[b:]]


_BLOCK, _BLOCKS_MIN = 256, 2  # keys read at once; more blocks than these pay for a loop
_FEW_QUERIES = 2  # up to so many, a GPU multiplies and sums up faster than by products of matrices


def _by_blocks(
    parts: Parts,
    starts: jax.Array,
    new: int,
    scale: float,
    masks: tuple[list[jax.Array], list[jax.Array], list[jax.Array]],
    filtered: float,
) -> jax.Array:
    """Return what `attend_buffers` returns, block by block: keys that no query sees are not read.

    The softmax is the one of Milakov and Gimelshein, "Online normalizer calculation for softmax".
    """
    q, k, v = wide(parts[0]), parts[1], parts[2]
    (b, s, heads, _), (n, t) = q.shape, k.shape[1:3]
    rows = q.transpose(0, 2, 1, 3).reshape(b, n, heads // n * s, -1)
    batch, exact = ((0, 1), (0, 1)), precision()
    hidden = rows.dtype.type(filtered)
    last = jnp.max(starts) + min(s, new)  # the keys from here on are hidden

    def block(carry: Any, start: jax.Array) -> Any:
        most, total, sums = carry

        def part(x: jax.Array, axis: int = 2) -> jax.Array:
            return lax.dynamic_slice_in_dim(x, start, _BLOCK, axis) if x.shape[axis] == t else x

        key = jnp.minimum(start, t - _BLOCK) + jnp.arange(_BLOCK, dtype=start.dtype)
        keys, values = wide(part(k)), wide(part(v))
        added, left, seen = ([part(m, 3) for m in group] for group in masks)
        key = key[None, None, None]
        query = jnp.minimum(jnp.arange(s, dtype=start.dtype), new - 1)[None, None, :, None]
        own = key <= starts[:, None, None, None] + query
        own = own & (key >= start)  # the last block reads keys of the one before it again
        low = k.dtype.type(max(filtered, _LOW))
        is_open = [*left, *(~(wide(array) <= low) for array in added), own, *seen]
        shown = _shown(is_open, n)
        assert shown is not None
        keys = jnp.where(shown | jnp.isfinite(keys), keys, keys.dtype.type(0))
        values = jnp.where(shown | jnp.isfinite(values), values, values.dtype.type(0))
        scores = lax.dot_general(rows, keys, (((3,), (3,)), batch), precision=exact)
        scores = (scores * scores.dtype.type(scale)).reshape(b, heads, s, _BLOCK)
        for array in added:
            scores = scores + wide(array)
        for is_left in left:
            scores = jnp.where(is_left, scores, scores + hidden)
        for is_shown in (own, *seen):
            scores = jnp.where(is_shown, scores, hidden)
        scores = scores.reshape(*rows.shape[:3], _BLOCK)
        top = jnp.maximum(most, lax.stop_gradient(jnp.max(scores, -1, keepdims=True)))
        weights, kept = jnp.exp(scores - top), jnp.exp(most - top)
        made = lax.dot_general(weights, values, (((3,), (2,)), batch), precision=exact)
        return top, total * kept + jnp.sum(weights, -1, keepdims=True), sums * kept + made

    def step(carry: Any, start: jax.Array) -> Any:
        return lax.cond(start < last, block, lambda carry, _: carry, carry, start), None

    one = (*rows.shape[:3], 1)
    first = (
        jnp.full(one, -np.inf, rows.dtype),
        jnp.zeros(one, rows.dtype),
        jnp.zeros((*rows.shape[:3], v.shape[3]), rows.dtype),
    )
    places = jnp.arange(0, t, _BLOCK, dtype=starts.dtype)
    (_, total, sums), _ = lax.scan(step, first, places)
    out = sums / jnp.where(total > 0, total, 1)
    return out.reshape(b, heads, s, -1).transpose(0, 2, 1, 3).reshape(b, s, -1)


def _by_cudnn(
    plain: Callable[..., jax.Array], scale: float, dtype: Any, *arrays: jax.Array
) -> jax.Array:
    """Return `plain(*arrays)` from cuDNN's one kernel, which stores no scores, if it takes them.

    Its products are of `dtype`, with FLOAT32 sums.
    """
    try:
        return _of_cudnn(scale, dtype, *arrays)
    except _REFUSALS:
        return plain(*arrays)


def _gradients_by_cudnn(
    plain: Callable[..., jax.Array], scale: float, dtype: Any, *arrays: jax.Array
) -> Sequence[jax.Array]:
    """Return the gradients of what `plain` takes, of these and of the gradient of its result."""
    *parts, slope = arrays
    try:
        return jax.vjp(functools.partial(_of_cudnn, scale, dtype), *parts)[1](slope)
    except _REFUSALS:
        return jax.vjp(plain, *parts)[1](slope)


_REFUSALS = NotImplementedError, RuntimeError, ValueError  # of sizes, the device, its libraries


def _of_cudnn(scale: float, dtype: Any, *arrays: jax.Array) -> jax.Array:
    q, k, v = (lax.convert_element_type(x, dtype) for x in arrays)
    k, v = k.transpose(0, 2, 1, 3), v.transpose(0, 2, 1, 3)
    out = jax.nn.dot_product_attention(q, k, v, scale=scale, implementation="cudnn")
    return wide(out).reshape(*q.shape[:2], -1)


def _attend(
    parts: Parts,
    scale: float,
    added: Sequence[jax.Array],
    left: Sequence[jax.Array],
    seen: Sequence[jax.Array],
    filtered: float,
    by_sums: bool = False,
) -> jax.Array:
    """Return what `attend` returns, in the plain form.

    `by_sums` asks for loops in place of products of matrices, which read keys and values once.
    """
    q, k, v = map(wide, parts)
    (b, s, heads, d), (n, t) = q.shape, k.shape[1:3]
    # Behind a barrier, since XLA takes long to reduce a mask that is a constant.
    low = lax.optimization_barrier(k.dtype.type(max(filtered, _LOW)))
    open_to = [*left, *(~(wide(array) <= low) for array in added)]
    shown = _shown([*seen, *open_to], n)
    if shown is not None:
        k = jnp.where(shown | jnp.isfinite(k), k, k.dtype.type(0))
    rows = q.transpose(0, 2, 1, 3).reshape(b, n, heads // n * s, d)  # query heads of one key head
    batch, exact = ((0, 1), (0, 1)), precision()
    if by_sums:
        scores = jnp.sum(rows[:, :, :, None] * k[:, :, None], -1)
    else:
        scores = lax.dot_general(*operands(rows, k), (((3,), (3,)), batch), precision=exact)
    scores = (scores * scores.dtype.type(scale)).reshape(b, heads, s, t)
    hidden = scores.dtype.type(filtered)
    for array in added:
        scores = scores + wide(array)
    for is_left in left:
        scores = jnp.where(is_left, scores, scores + hidden)
    for is_open in open_to:  # where a key is hidden, NaN is none of the query
        scores = jnp.where(is_open | (scores < np.inf), scores, hidden)
    for is_seen in seen:
        scores = jnp.where(is_seen, scores, hidden)
    weights = softmax(scores).reshape(b, n, heads // n * s, t)
    if by_sums:
        weight, value = weights[..., None], v[:, :, None]
        terms = weight * value
        if shown is not None:
            is_read = shown[:, :, None] | ((weight > 0) & jnp.isfinite(value))
            terms = jnp.where(is_read, terms, terms.dtype.type(0))
        out = jnp.sum(terms, 3)
    else:
        if shown is not None:  # a value without weight may be too large for the derivative
            has_weight = jnp.any(weights > 0, 2)[..., None]
            v = jnp.where(shown | (has_weight & jnp.isfinite(v)), v, v.dtype.type(0))
        out = lax.dot_general(*operands(weights, v), (((3,), (2,)), batch), precision=exact)
    return out.reshape(b, heads, s, -1).transpose(0, 2, 1, 3).reshape(b, s, -1)


def _shown(masks: Sequence[jax.Array], heads: int) -> jax.Array | None:
    """Return which keys any query may see by all `masks`, [B, 1 or `heads`, T, 1]; None: all.

    The masks are [B, G*N, S, T] or 1 in some dimensions; `heads` is N.
    """
    if not masks:
        return None
    shown = jnp.any(functools.reduce(jnp.logical_and, masks), 2)
    if shown.shape[1] > 1:
        shown = jnp.any(shown.reshape(shown.shape[0], heads, -1, shown.shape[2]), 2)
    return shown[..., None]

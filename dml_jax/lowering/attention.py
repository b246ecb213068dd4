"""Attention of several heads; letters name sizes.

B batches, S queries, L new keys, P past keys, T keys in all, N heads of keys and values, G times as
many heads of queries, D elements of a query or key, E of a value.
"""

import contextlib
import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.dtypes import wide
from dml_jax.lowering.masking import Mask, causal, zero_unseen
from dml_jax.lowering.platform_forms import by_platform
from dml_jax.lowering.precision import operands, precision
from dml_jax.lowering.softmax import softmax

Parts = tuple[jax.Array, jax.Array, jax.Array]

# cuDNN's attention has heads of a multiple of so many elements, which are 16 bytes.
HEAD_MULTIPLE = 8
# Heads of up to so many elements are in each cuDNN and on each GPU that has the kernel; some have
# larger ones. A graph gets an attention in place of products where this is sure to gain.
HEAD_MOST = 128


def separate(
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


def add_bias(parts: Parts, bias: jax.Array | None) -> Parts:
    """Return queries, keys and values plus their parts of `bias`, one after the other in it."""
    if bias is None:
        return parts
    added, start = [], 0
    for x in parts:
        count = x.shape[2] * x.shape[3]
        added.append(x + bias.reshape(-1)[start : start + count].reshape(1, 1, *x.shape[2:]))
        start += count
    return added[0], added[1], added[2]


def append(past: jax.Array | None, new: jax.Array) -> jax.Array:
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


def attend(parts: Parts, scale: float, mask: Mask, dtype: Any) -> jax.Array:
    """Return the values, weighted by how well queries and keys agree, [B, S, G*N*E] in FLOAT32.

    `parts` are queries [B, S, G*N, D], keys [B, N, T, D] and values [B, N, T, E]. `mask` changes
    the products of queries and keys times `scale`. `dtype` is that of the operator's tensors.

    Of a key that is hidden from all queries, and of its value, NaN and infinity count as 0.
    """
    if not mask.is_empty or cudnn_refusal(parts, dtype):
        return _attend(*parts, scale, mask)

    def plain(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return _attend(q, k, v, scale, mask)

    def of_kernel(of: Callable[[Callable[..., jax.Array]], Any], head_size: int) -> Any:
        """Return what `of` makes of cuDNN's attention, or of the plain form where it is refused."""
        if not missing_cudnn(head_size):
            with contextlib.suppress(*_REFUSALS):
                return of(functools.partial(_by_cudnn, scale, dtype))
        return of(plain)

    def by_kernel(*arrays: jax.Array) -> jax.Array:
        return of_kernel(lambda form: form(*arrays), arrays[0].shape[3])

    def gradients(*arrays: jax.Array) -> Sequence[jax.Array]:
        *own, slope = arrays
        return of_kernel(lambda form: jax.vjp(form, *own)[1](slope), arrays[0].shape[3])

    return by_platform(
        plain, cuda=by_kernel, gradients={"cuda": gradients}, whole_arrays=True, partitioned=True
    )(*parts)


# JAX refuses sizes while it traces cuDNN's attention, and each version others: gradients of odd
# lengths, say. No public question tells them.
_REFUSALS = NotImplementedError, ValueError


def attend_buffers(
    parts: Parts, starts: jax.Array, new: int, scale: float, mask: Mask
) -> jax.Array:
    """Return what `attend` returns, of queries that stand in buffers of keys and values.

    Keys and values may have a smaller type, and `new` of the keys are new. `starts` has the place
    of the first query of each batch, [B].
    """
    arrays, tree = jax.tree.flatten((*parts, starts, mask))

    def plain(*arrays: jax.Array, by_sums: bool = False) -> jax.Array:
        q, k, v, starts, mask = jax.tree.unflatten(tree, arrays)
        mask = mask.with_seen(causal(starts, q.shape[1], new, k.shape[2]))
        return _attend(q, k, v, scale, mask, by_sums)

    def by_blocks(*arrays: jax.Array) -> jax.Array:
        q, k, v, starts, mask = jax.tree.unflatten(tree, arrays)
        return _by_blocks((q, k, v), starts, new, scale, mask)

    is_long = parts[1].shape[2] > _BLOCKS_MIN * _BLOCK
    is_short = parts[0].shape[0] * parts[0].shape[1] <= _FEW_QUERIES
    return by_platform(
        plain,
        cpu=by_blocks if is_long else None,
        cuda=functools.partial(plain, by_sums=True) if is_short else None,
        whole_arrays=True,
    )(*arrays)


_BLOCK, _BLOCKS_MIN = 256, 2  # keys read at once; more blocks than these pay for a loop
_FEW_QUERIES = 2  # up to so many, a GPU multiplies and sums up faster than by products of matrices


def _by_blocks(parts: Parts, starts: jax.Array, new: int, scale: float, mask: Mask) -> jax.Array:
    """Return what `attend_buffers` returns, block by block: keys that no query sees are not read.

    The softmax is the one of Milakov and Gimelshein, "Online normalizer calculation for softmax".
    """
    q, k, v = wide(parts[0]), parts[1], parts[2]
    (b, s, heads, _), (n, t) = q.shape, k.shape[1:3]
    rows = q.transpose(0, 2, 1, 3).reshape(b, n, heads // n * s, -1)
    batch, exact = ((0, 1), (0, 1)), precision()
    low = rows.dtype.type(mask.threshold)
    last = jnp.max(starts) + min(s, new)  # the keys from here on are hidden

    def block(carry: Any, start: jax.Array) -> Any:
        most, total, sums = carry

        def part(x: jax.Array, axis: int = 2) -> jax.Array:
            return lax.dynamic_slice_in_dim(x, start, _BLOCK, axis) if x.shape[axis] == t else x

        key = jnp.minimum(start, t - _BLOCK) + jnp.arange(_BLOCK, dtype=start.dtype)
        keys, values = wide(part(k)), wide(part(v))
        key = key[None, None, None]
        query = jnp.minimum(jnp.arange(s, dtype=start.dtype), new - 1)[None, None, :, None]
        own = key <= starts[:, None, None, None] + query
        own = own & (key >= start)  # the last block reads keys of the one before it again
        here = jax.tree.map(lambda x: part(x, 3), mask).with_seen(own)
        seen = here.keys_seen(low, n)
        keys, values = zero_unseen(keys, seen), zero_unseen(values, seen)
        scores = lax.dot_general(rows, keys, (((3,), (3,)), batch), precision=exact)
        scores = (scores * scores.dtype.type(scale)).reshape(b, heads, s, _BLOCK)
        scores = here.fill_hidden(here.add(scores))
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


def cudnn_refusal(parts: Parts, dtype: Any) -> str:
    """Return why cuDNN's attention takes no arrays of these sizes and type; "" if it may."""
    if dtype not in (np.float16, jnp.bfloat16):
        return f"its elements have 16 bits, and {dtype} has others"
    size, value_size = parts[0].shape[3], parts[2].shape[3]
    if size != value_size:
        return f"keys and values have heads of equal sizes, not {size} and {value_size}"
    if size % HEAD_MULTIPLE:
        return f"the elements of a head are a multiple of {HEAD_MULTIPLE}, and {size} is none"
    return ""


@functools.cache
def missing_cudnn(head_size: int = HEAD_MULTIPLE) -> str:
    """Return why the GPU's cuDNN has no attention of heads of a size; "" if it has.

    JAX has no public question for the library, its version and its largest heads. So a process
    compiles one small attention of such heads, and keeps the answer.
    """
    x = jax.ShapeDtypeStruct((1, 8, 1, head_size), np.float16)
    keys = jax.ShapeDtypeStruct((1, 1, 8, head_size), np.float16)

    def trial() -> str:
        try:
            with jax.default_device(jax.devices("gpu")[0]):
                by_kernel = functools.partial(_by_cudnn, 1.0, x.dtype)
                jax.jit(by_kernel).lower(x, keys, keys).compile()
        except RuntimeError as error:  # JAX's, where there is no GPU, or no library that has it
            return str(error).partition("\n")[0]
        return ""

    # A program is lowered meanwhile. Another thread has neither its mesh nor its settings.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(trial).result()


def _by_cudnn(scale: float, dtype: Any, *arrays: jax.Array) -> jax.Array:
    """Return `attend` without a mask from cuDNN's one kernel, which stores no scores.

    Its products are of `dtype`, with FLOAT32 sums.
    """
    q, k, v = (lax.convert_element_type(x, dtype) for x in arrays)
    k, v = k.transpose(0, 2, 1, 3), v.transpose(0, 2, 1, 3)
    out = jax.nn.dot_product_attention(q, k, v, scale=scale, implementation="cudnn")
    return wide(out).reshape(*q.shape[:2], -1)


def _attend(
    q: jax.Array, k: jax.Array, v: jax.Array, scale: float, mask: Mask, by_sums: bool = False
) -> jax.Array:
    """Return what `attend` returns, in the plain form.

    `by_sums` asks for loops in place of products of matrices, which read keys and values once.
    """
    q, k, v = map(wide, (q, k, v))
    (b, s, heads, d), (n, t) = q.shape, k.shape[1:3]
    # Behind a barrier, since XLA takes long to reduce a mask that is a constant.
    low = lax.optimization_barrier(k.dtype.type(mask.threshold))
    seen = mask.keys_seen(low, n)
    k = zero_unseen(k, seen)
    rows = q.transpose(0, 2, 1, 3).reshape(b, n, heads // n * s, d)  # query heads of one key head
    batch, exact = ((0, 1), (0, 1)), precision()
    if by_sums:
        scores = jnp.sum(rows[:, :, :, None] * k[:, :, None], -1)
    else:
        scores = lax.dot_general(*operands(rows, k), (((3,), (3,)), batch), precision=exact)
    scores = (scores * scores.dtype.type(scale)).reshape(b, heads, s, t)
    scores = mask.add(scores)
    for is_open in mask.left_open(low):  # where a key is hidden, NaN is none of the query
        scores = jnp.where(is_open | (scores < np.inf), scores, scores.dtype.type(mask.fill))
    scores = mask.fill_hidden(scores)
    weights = softmax(scores).reshape(b, n, heads // n * s, t)
    if by_sums:
        weight, value = weights[..., None], v[:, :, None]
        terms = weight * value
        if seen is not None:
            is_read = seen[:, :, None] | ((weight > 0) & jnp.isfinite(value))
            terms = jnp.where(is_read, terms, terms.dtype.type(0))
        out = jnp.sum(terms, 3)
    else:
        if seen is not None:  # a value without weight may be too large for the derivative
            has_weight = jnp.any(weights > 0, 2)[..., None]
            v = jnp.where(seen | (has_weight & jnp.isfinite(v)), v, v.dtype.type(0))
        out = lax.dot_general(*operands(weights, v), (((3,), (2,)), batch), precision=exact)
    return out.reshape(b, heads, s, -1).transpose(0, 2, 1, 3).reshape(b, s, -1)

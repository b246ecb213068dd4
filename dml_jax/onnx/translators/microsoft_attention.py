"""Attention, as ONNX Runtime's own domain has it."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dml_jax import functional as dml
from dml_jax.enums import TensorDataType
from dml_jax.errors import Unquoted
from dml_jax.graph import Expression
from dml_jax.onnx.files.attributes import MICROSOFT
from dml_jax.onnx.nodes.node import Node, required
from dml_jax.onnx.nodes.op_types import translates
from dml_jax.onnx.nodes.reshapes import (
    as_type,
    cut,
    lengthen,
    of_rank,
    pack,
    permute,
    reshape,
    resize,
    spread,
    taken,
    transpose,
)
from dml_jax.onnx.translators.attention import attend, flat, places
from dml_jax.onnx.translators.products import product

_HIDDEN = -10000.0  # what a mask adds


def _refuse(node: Node, **values: Any) -> None:
    """Raise `DmlError` where an attribute has another value than the one that is computed."""
    for name, value in values.items():
        node.expect(node.attribute(name, value) == value, name, f"be {value}", node.attribute(name))


def _refuse_inputs(node: Node, *indices: int) -> None:
    for index in indices:
        node.expect(not node.has(index), f"input {index}", "be left out", Unquoted("a tensor"))


def _filter_value(node: Node, kind: TensorDataType) -> float:
    """Return what hides a key; of the numbers of a type, the nearest one, as ONNX Runtime."""
    hidden = node.attribute("mask_filter_value", _HIDDEN)
    limits = np.finfo(kind.dtype)
    return float(np.clip(hidden, float(limits.min), float(limits.max)))


def _hidden(node: Node, is_seen: Expression, kind: Any) -> Expression:
    """Return 0 where a mask is set, and else what hides a key."""
    hidden = _filter_value(node, kind)
    zero = dml.fill_value_constant((1, 1, 1, 1), kind, 0.0, graph=node.builder)
    return dml.if_(is_seen, zero, hidden)


def _mask(node: Node, index: int, shape: tuple[int, ...], kind: Any) -> Expression | None:
    """Return what a mask adds to the scores, [batch, 1 or heads, 1 or queries, keys]."""
    if not node.has(index):
        return None
    batch, _, queries, keys = shape
    mask, sizes = node[index], node.shape(index)
    if len(sizes) == 1:
        rule = f"have {batch} or {2 * batch} elements, or more dimensions"
        node.expect(sizes[0] in (batch, 2 * batch), "the mask", rule, list(sizes))
        ranks = np.arange(keys, dtype=mask.dtype)
        places = reshape(node.builder.constant(ranks), (1, 1, 1, keys))
        ends = reshape(mask, (sizes[0] // batch, batch, 1, 1, 1))
        parts = dml.split(ends, 0, (1, 1)) if sizes[0] > batch else [ends]
        is_seen = dml.less_than(places, reshape(parts[0], (batch, 1, 1, 1)))
        if len(parts) > 1:
            start = reshape(parts[1], (batch, 1, 1, 1))
            is_seen = dml.logical_and(is_seen, dml.greater_than_or_equal(places, start))
        return _hidden(node, is_seen, kind)
    if len(sizes) == 4:  # [batch, 1, most, most]: the queries come last
        first = sizes[3] - queries if sizes[2] == sizes[3] else 0
        window = ([0, 0, keys - queries if first else 0, 0], (batch, 1, queries, keys))
        mask = dml.slice(mask, *window, [1] * 4) if mask.sizes != window[1] else mask
    else:
        mask = reshape(mask, (batch, 1, *((1,) if len(sizes) == 2 else ()), *sizes[1:]))
    return _hidden(node, dml.greater_than(mask, 0), kind)


def _attend(node: Node, heads: int, parts: dict[str, Any], at_mask: int, at_bias: int) -> Any:
    """Return the attention of queries, keys and values, and those of the past.

    Input `at_mask` is the mask; input `at_bias` is added to the scores.
    """
    query, past = parts["query"], parts.get("past_key")
    keys = parts["key"].sizes[1] + (0 if past is None else past.sizes[2])
    shape, kind = (query.sizes[0], heads, query.sizes[1], keys), query.desc.data_type
    masks = [_mask(node, at_mask, shape, kind), node.get(at_bias)]
    if node.attribute("unidirectional", 0):
        key, query = places(node, shape[2], shape[3], shape[3] - shape[2])
        masks.append(_hidden(node, dml.less_than_or_equal(key, query), kind))
    added = [mask for mask in masks if mask is not None]
    if added:
        parts["relative_position_bias"] = spread(functools.reduce(dml.add, added), shape)
    return attend(node, heads, heads, _filter_value(node, kind), **parts)


@translates("Attention", domain=MICROSOFT)
def _attention(node: Node) -> Any:
    _refuse(node, do_rotary=0, past_present_share_buffer=0)
    _refuse_inputs(node, 6)
    return _from_input(node, node[0], node[1], node.get(2), (3, 4, 5))


@translates("QAttention", domain=MICROSOFT)
def _quantized_attention(node: Node) -> Any:
    _refuse(node, do_rotary=0, past_present_share_buffer=0)

    def real(index: int, scale: int, zero: int) -> Expression:
        rank = node.rank(index)
        zero_point = of_rank(node[zero], rank) if node.has(zero) else None
        return dml.dequantize_linear(node[index], of_rank(node[scale], rank), zero_point)

    return _from_input(node, real(0, 3, 6), real(1, 4, 7), node[2], (5, 8, 9))


def _from_input(
    node: Node, x: Expression, weights: Expression, bias: Any, places: tuple[int, int, int]
) -> Any:
    """Return the attention of queries, keys and values that are products of one input.

    Their matrices are side by side in `weights`. The inputs at `places` are the mask, the past, and
    a bias of the scores.
    """
    at_mask, at_past, at_bias = places
    widths = node.attribute("qkv_hidden_sizes") or [weights.sizes[1] // 3] * 3
    made = product(x, weights)
    made = made if bias is None else made + reshape(bias, (1, 1, *bias.sizes))
    parts: dict[str, Any] = dict(
        zip(("query", "key", "value"), dml.split(made, 2, widths), strict=True)
    )
    if node.has(at_past):
        pair = dml.split(node[at_past], 0, (1, 1))  # [keys and values, batch, heads, keys, size]
        parts["past_key"], parts["past_value"] = (reshape(p, p.sizes[1:]) for p in pair)
    heads = required(node, "num_heads")
    output, key, value = _attend(node, heads, parts, at_mask, at_bias)
    if len(node.types) == 1:
        return output
    stacked = [reshape(pack(p), (1, *p.sizes)) for p in (key, value)]
    return output, dml.join(stacked, 0)


@translates("MultiHeadAttention", domain=MICROSOFT)
def _multi_head(node: Node) -> Any:
    _refuse_inputs(node, 8, 9)
    heads, x = required(node, "num_heads"), node[0]
    if node.rank() == 5:
        query, key, value = _parts_of_heads(x)
    elif node.rank(1) == 5:
        query, (key, value) = x, _parts_of_heads(node[1])
    else:
        query, key, value = x, flat(node[1]), flat(node[2])
    parts: dict[str, Any] = {"query": query, "key": key, "value": value}
    if node.has(3):
        rule = "be left out where keys have 4 dimensions"
        node.expect(not node.has(1) or node.rank(1) != 4, "bias", rule, Unquoted("one"))
        parts["bias"] = node[3]
    if node.has(6):
        parts["past_key"], parts["past_value"] = node[6], node[7]
    return (*_attend(node, heads, parts, 4, 5), None)[: len(node.types)]


def _parts_of_heads(x: Expression) -> list[Expression]:
    """Return the parts of [batch, sequence, heads, parts, size], as `flat` returns each."""
    batch, sequence, heads, count, size = x.sizes
    parts = dml.split(x, 3, [1] * count)
    return [reshape(part, (batch, sequence, heads * size)) for part in parts]


def rotate(
    x: Expression, cosines: Expression, sines: Expression, is_interleaved: bool
) -> Expression:
    """Return [batch, sequence, heads, size] with pairs of elements turned by an angle.

    Cosines and sines are [batch, sequence, 1, half of the elements that turn]. A pair is two
    neighbours where it is interleaved, and else one of each half.
    """
    batch, sequence, heads, size = x.sizes
    half = cosines.sizes[3]
    if 2 * half < size:
        turning, rest = dml.split(x, 3, (2 * half, size - 2 * half))
        return dml.join([rotate(turning, cosines, sines, is_interleaved), rest], 3)
    pair = (half, 2) if is_interleaved else (2, half)
    axis = 4 if is_interleaved else 3
    halves = dml.split(reshape(x, (batch, sequence, heads, *pair)), axis, (1, 1))
    a, b = (reshape(part, (batch, sequence, heads, half)) for part in halves)
    made = [a * cosines - b * sines, b * cosines + a * sines]
    shape = (half, 1) if is_interleaved else (1, half)
    made = [reshape(part, (batch, sequence, heads, *shape)) for part in made]
    return reshape(dml.join(made, axis), x.sizes)


def angles(node: Node, index: int, places: Expression) -> Expression:
    """Return the rows of a table of cosines or sines, [batch, sequence, 1, half]."""
    return reshape(taken(node[index], places, 0), (*places.sizes, 1, node.shape(index)[1]))


def sequence_of(node: Node, count: int, kind: Any) -> Expression:
    return dml.fill_value_sequence((1, count), kind, 0, 1, graph=node.builder)


@translates("RotaryEmbedding", domain=MICROSOFT)
def _rotary(node: Node) -> Expression:
    _refuse(node, is_packed_batching=0)
    x, shape = node[0], node.shape()
    is_split = len(shape) == 4  # [batch, heads, sequence, size]
    sequence = shape[2] if is_split else shape[1]
    half = node.shape(2)[1]
    heads = node.attribute("num_heads", 0)
    size = shape[3] if is_split else shape[2] // heads if heads else 2 * half
    places = node[1]
    if node.rank(1) < 2:  # the first position, from which the others count
        steps = sequence_of(node, sequence, places.desc.data_type) + reshape(places, (1, 1))
        places = pack(spread(steps, (shape[0], sequence)))
    cosines, sines = (angles(node, k, places) for k in (2, 3))
    rows = flat(x)
    made = rotate(of_heads(rows, size), cosines, sines, bool(node.attribute("interleaved", 0)))
    scale = node.attribute("scale", 1.0)
    made = made if scale == 1 else made * scale
    return permute(made, (0, 2, 1, 3)) if is_split else reshape(made, shape)


def of_heads(x: Expression, size: int) -> Expression:
    """Return [batch, sequence, heads * size] as [batch, sequence, heads, size]."""
    return reshape(x, (*x.sizes[:2], x.sizes[2] // size, size))


def past_lengths(node: Node, past: Expression, at_total: int) -> Expression:
    """Return how many keys of the past are valid in each batch.

    None are in a prompt, whose total length (input `at_total`) is that of its queries: batches with
    fewer tokens are padded behind these. Else there are as many as `past` says, [batch].
    """
    sequence, total = node.shape()[1], node.known(at_total)
    if total is not None:
        is_prompt = int(total.reshape(-1)[0]) == sequence
        kind = past.desc.data_type
        none = dml.fill_value_constant(past.sizes, kind, 0, graph=node.builder)
        return none if is_prompt else past
    is_prompt = dml.equals(reshape(node[at_total], (1,)), sequence)
    return dml.if_(pack(spread(is_prompt, past.sizes)), 0, past)


def rotate_heads(
    node: Node, parts: Sequence[Expression], size: int, places: Expression, at_cosines: int
) -> list[Expression]:
    """Return queries and keys [batch, sequence, heads * size], whose heads `rotate` turns.

    Tokens stand at `places`, [batch, sequence]. Input `at_cosines` is the table of cosines, and the
    next one that of sines.
    """
    cosines, sines = (angles(node, at_cosines + k, places) for k in (0, 1))
    pairs = bool(node.attribute("rotary_interleaved", 0))
    rows = (rotate(of_heads(x, size), cosines, sines, pairs) for x in parts)
    return [reshape(made, x.sizes) for made, x in zip(rows, parts, strict=True)]


def attend_with_cache(
    node: Node,
    parts: Sequence[Expression],
    buffers: Sequence[Expression],
    past: Expression,
    mask: Expression | None,
    bias: Expression | None = None,
) -> Any:
    """Return attention to keys and values of buffers too, and the buffers with the new ones.

    Queries, keys and values are [batch, sequence, heads * size], and buffers [batch, groups, keys,
    size], of whose keys there are `past` in each batch. A mask, [batch, heads, queries, keys], is 1
    where a query sees a key.
    """
    heads, groups = required(node, "num_heads"), required(node, "kv_num_heads")
    names = ("query", "key", "value", "past_key", "past_value")
    given: dict[str, Any] = dict(zip(names, (*parts, *buffers), strict=True))
    given |= {"past_sequence_lengths": past, "mask": mask, "relative_position_bias": bias}
    sizes = {f"output_present_{n}_tensor": buffers[0].sizes for n in ("key", "value")}
    lowest = float(np.finfo(np.float32).min)
    return attend(node, heads, groups, lowest, output_sizes=sizes, **given)


def of_queries(node: Node, heads: int, groups: int) -> Sequence[Expression]:
    """Return queries, keys and values: three inputs, or the parts of the first one."""
    if node.has(1):
        return [node[k] for k in range(3)]
    size = node.shape()[2] // (heads + 2 * groups)
    return dml.split(node[0], 2, [n * size for n in (heads, groups, groups)])


@translates("GroupQueryAttention", domain=MICROSOFT)
def _group_query_attention(node: Node) -> Any:
    _refuse(node, causal=1, qk_output=0)
    _refuse_inputs(node, 16)
    heads, groups = required(node, "num_heads"), required(node, "kv_num_heads")
    batch, sequence, _ = node.shape()
    query, key, value = of_queries(node, heads, groups)
    size = query.sizes[2] // heads
    query, key = (_normalize_heads(node, x, size, k) for k, x in enumerate((query, key)))
    kind = node[5].desc.data_type
    before, is_known = (node.shape(3)[2] if node.has(3) else 0), node.tensor(6).is_known
    keys = before or sequence  # without a past, the queries are all that is there
    keys = max(before, node.number(6)) if is_known else keys
    if node.attribute("sliding_window_cache", 0) and before and keys > before:
        rule = f"have {keys} keys or more, all that there are (sliding_window_cache is 1)"
        raise node.refusal("the past", rule, before)
    if before:
        past = past_lengths(node, reshape(node[5], (batch,)) + (1 - sequence), 6)
    else:
        past = dml.fill_value_constant((batch,), kind, 0, graph=node.builder)
    if node.attribute("do_rotary", 0):
        counted = sequence_of(node, sequence, kind) + reshape(past, (batch, 1))
        places = node[9] if node.has(9) else counted
        query, key = rotate_heads(node, (query, key), size, places, 7)
    full = (batch, groups, keys, size)
    scales = [_cache_scale(node, k, groups, size) for k in (0, 1)]
    key, value = (_as_cached(x, scale) for x, scale in zip((key, value), scales, strict=True))
    if before:
        held = [_real_cache(node[k], scale, query) for k, scale in zip((3, 4), scales, strict=True)]
        buffers = [lengthen(x, full) for x in held]
    else:
        empty = dml.fill_value_constant(full, query.desc.data_type, 0.0, graph=node.builder)
        buffers = [empty, empty]
    shape, window = (batch, heads, sequence, keys), node.attribute("local_window_size", -1)
    is_limited, starts = 0 < window < keys, reshape(past, (batch, 1, 1, 1))
    is_seen = _in_window(node, starts, shape, window if is_limited else keys)
    mask = dml.cast(pack(spread(is_seen, shape)), "INT32") if is_limited else None
    has_sink = node.has(11) or node.attribute("smooth_softmax", 0) == 1
    bias = None
    if node.has(10):  # no query sees keys without one
        bias = pack(spread(resize(node[10], (*node.shape(10)[:3], keys)), shape))
    is_composed = has_sink or bool(node.attribute("softcap", 0.0))
    added = (None, None) if is_composed else (mask, bias)
    output, key, value = attend_with_cache(node, (query, key, value), buffers, past, *added)
    if is_composed:  # scores go through more than DirectML's attention has
        output = _attention_with_sink(node, (query, key, value), is_seen, bias)
    # More tokens than the buffer holds would overwrite keys: such a call has no answer.
    if before and not is_known:
        is_beyond = dml.greater_than(reshape(node[6], (1, 1, 1)), keys)
        output = dml.if_(pack(spread(is_beyond, output.sizes)), math.nan, output)
    key, value = (_whole_cache(x, scale) for x, scale in zip((key, value), scales, strict=True))
    return (output, key, value)[: len(node.types)]


def _normalize_heads(node: Node, x: Expression, size: int, k: int) -> Expression:
    """Return queries (`k` is 0) or keys (1) over the root of their mean square, head by head."""
    if not node.has(14 + k):
        return x
    own = node.attribute(("q_norm_epsilon", "k_norm_epsilon")[k])
    epsilon = node.attribute("qk_norm_epsilon", 1e-6) if own is None else own
    parts = of_heads(as_type(x, "FLOAT32"), size)
    mean = dml.reduce(parts * parts, "AVERAGE", [3]) + epsilon
    weight = reshape(as_type(node[14 + k], "FLOAT32"), (1, 1, 1, size))
    return as_type(reshape(parts / dml.sqrt(mean) * weight, x.sizes), x.desc.data_type)


def _cache_scale(node: Node, k: int, groups: int, size: int) -> Expression | None:
    """Return the scale of a cache of keys (`k` is 0) or values (1), [1, groups or 1, 1, size or 1].

    None is a cache of real numbers.
    """
    name = ("k_quant_type", "v_quant_type")[k]
    how = node.attribute(name, "NONE")
    if how == "NONE":
        return None
    _refuse(node, kv_cache_bit_width=8)
    scale, whole = node[12 + k], groups * size
    count, rule = math.prod(scale.sizes), f"have one element, or {whole}"
    node.expect(count in (1, whole), node.input_name(12 + k), rule, list(scale.sizes))
    return reshape(scale, (1, 1, 1, 1) if count == 1 else (1, groups, 1, size))


def _whole_cache(x: Expression, scale: Expression | None) -> Expression:
    """Return a cache as INT8, where it has a scale."""
    if scale is None:
        return x
    scale = pack(spread(scale, x.sizes))
    return dml.quantize_linear(as_type(x, "FLOAT32"), scale, None, "INT8")


def _real_cache(x: Expression, scale: Expression | None, like: Expression) -> Expression:
    """Return a cache as real numbers of the type of `like`."""
    if scale is None:
        return x
    real = dml.dequantize_linear(x, pack(spread(scale, x.sizes)), None)
    return as_type(real, like.desc.data_type)


def _as_cached(x: Expression, scale: Expression | None) -> Expression:
    """Return new keys or values [batch, keys, groups * size] as their cache will have them."""
    if scale is None:
        return x
    flat = reshape(scale, (1, 1, math.prod(scale.sizes)))
    return _real_cache(_whole_cache(x, flat), flat, x)


def _in_window(node: Node, starts: Expression, shape: tuple[int, ...], window: int) -> Expression:
    """Return which keys a query sees: itself and those before it, `window` in all.

    The first query of each batch stands at `starts`, [batch, 1, 1, 1]; `shape` is of the scores.
    """
    key, query = places(node, shape[2], shape[3], 0)
    query = query + dml.cast(starts, "INT32")
    is_before = dml.less_than_or_equal(key, query)
    return dml.logical_and(is_before, dml.greater_than(key, query - window))


def _attention_with_sink(
    node: Node, parts: Sequence[Expression], is_seen: Expression, bias: Expression | None
) -> Expression:
    """Return attention whose scores are capped, or share their softmax with a sink.

    Queries are [batch, queries, heads * size], keys and values [batch, groups, keys, size]. A key
    is hidden where `is_seen` is 0, [batch, 1, queries, keys]; `bias` is added to the capped scores.
    """
    query, key, value = (as_type(x, "FLOAT32") for x in parts)
    batch, queries, width = query.sizes
    groups, keys, size = key.sizes[1:]
    heads, rows = width // size, width // size // groups * queries
    scale = node.attribute("scale", 0.0) or 1 / math.sqrt(size)
    by_head = permute(of_heads(query, size), (0, 2, 1, 3))
    by_group = reshape(by_head, (batch, groups, rows, size))
    scores = dml.gemm(by_group, key, None, "NONE", "TRANSPOSE", scale)
    scores = reshape(scores, (batch, heads, queries, keys))
    cap = node.attribute("softcap", 0.0)
    scores = dml.tanh(scores / cap) * cap if cap else scores
    if bias is not None:
        scores = scores + as_type(bias, "FLOAT32")
    scores = dml.if_(spread(is_seen, scores.sizes), scores, float(np.finfo(np.float32).min))
    # The softmax of a sink has one term more in its sum, which DirectML's attention lacks.
    if node.has(11) or node.attribute("smooth_softmax", 0) == 1:
        zeros = node.builder.constant(np.zeros(heads, np.float32))
        sink = as_type(node[11], "FLOAT32") if node.has(11) else zeros
        sink = pack(spread(reshape(sink, (1, heads, 1, 1)), (batch, heads, queries, 1)))
        weights = cut(dml.activation_softmax(dml.join([scores, sink], 3), [3]), scores.sizes)
    else:
        weights = dml.activation_softmax(scores, [3])
    output = dml.gemm(reshape(weights, (batch, groups, rows, keys)), value)
    output = transpose(reshape(output, (batch, heads, queries, size)), (0, 2, 1, 3))
    output = reshape(pack(output), (batch, queries, width))
    return as_type(output, parts[0].desc.data_type)


@translates("CausalConvWithState", "LinearAttention", domain=MICROSOFT)
def _as_onnx(node: Node) -> Any:
    return NotImplemented  # ONNX's function of this name is translated

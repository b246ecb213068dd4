"""Attention."""

import math
from typing import Any

import numpy as np

from dml_jax import functional as dml
from dml_jax.graph import Expression
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import translates
from dml_jax.onnx.nodes.reshapes import lengthen, of_rank, permute, reshape, spread, transpose

_SCORES = 3  # an output that the operator lacks


@translates("Attention", since=23)
def _attention(node: Node) -> Any:
    has_scores = len(node.types) > _SCORES and node.types[_SCORES] is not None
    if node.attribute("softcap") or has_scores:
        return NotImplemented  # the function that ONNX defines
    is_flat = node.rank() == 3  # [batch, sequence, heads * size]
    heads, groups = (node.attribute(f"{name}_num_heads") for name in ("q", "kv"))
    if not is_flat:
        heads, groups = node.shape(0)[1], node.shape(1)[1]
    query, key, value = (flat(node[k]) for k in range(3))
    past = node.shape(4)[2] if node.has(4) else 0
    shape = (query.sizes[0], heads, query.sizes[1], past + key.sizes[1])
    bias, is_seen = _bias(node, past, shape)
    parts: dict[str, Any] = {"query": query, "key": key, "value": value}
    parts |= {"past_key": node.get(4), "past_value": node.get(5)}
    parts["relative_position_bias"] = None if bias is None else spread(bias, shape)
    made = attend(node, heads, groups, -10000.0, **parts)
    output = reshape(made[0], (shape[0], shape[2], heads, made[0].sizes[2] // heads))
    # A query that sees no key gives 0, which no softmax of its scores would.
    if is_seen is not None:
        output = dml.if_(transpose(is_seen, (0, 2, 1, 3)), output, 0)
    if not is_flat:
        output = permute(output, (0, 2, 1, 3))
    return (output, made[1], made[2])[: len(node.types)]


def attend(node: Node, heads: int, groups: int, hidden: float, **parts: Any) -> Any:
    """Return the attention of `parts`, which are arguments of `dml.multihead_attention`.

    Queries, keys and values are [batch, sequence, heads * size]; `hidden` is what a mask adds.
    """
    scale = node.attribute("scale", 0.0) or 1 / math.sqrt(parts["query"].sizes[2] // heads)
    mask = "NONE" if parts.get("mask") is None else "BOOLEAN"
    return dml.multihead_attention(scale, hidden, heads, groups, mask, **parts)


def flat(x: Expression) -> Expression:
    """Return [batch, heads, sequence, size] as [batch, sequence, heads * size]."""
    if len(x.sizes) == 3:
        return x
    batch, heads, sequence, size = x.sizes
    return reshape(permute(x, (0, 2, 1, 3)), (batch, sequence, heads * size))


def _bias(
    node: Node, past: int, shape: tuple[int, ...]
) -> tuple[Expression | None, Expression | None]:
    """Return what all masks add to the scores, and which queries see a key: None for all."""
    lowest = float(np.finfo(node.type().inner.dtype).min)
    mask = _mask(node, shape[3], lowest)
    seen = _seen(node, past, shape)
    if mask is not None and mask.dtype == np.uint8:
        seen.append(mask)
        mask = None
    bias = mask
    for allowed in seen:
        zero = dml.fill_value_constant((1, 1, 1, 1), node[0].desc.data_type, 0, graph=node.builder)
        bias = dml.if_(allowed, zero if bias is None else bias, lowest)
    if bias is None:
        return None, None
    is_own_key_there = past + shape[2] <= shape[3] and not node.has(6)
    if is_own_key_there and not node.has(3):
        return bias, None
    return bias, dml.reduce(dml.greater_than(bias, lowest / 2), "MAX", [3])


def _mask(node: Node, keys: int, lowest: float) -> Expression | None:
    """Return the mask that is an input: UINT8 tells what is seen, floats are added."""
    if not node.has(3):
        return None
    mask = of_rank(node[3], 4)
    if mask.sizes[3] == 1:
        return mask
    # ONNX lets a mask be shorter than the keys: keys beyond it are not seen.
    value = 0.0 if mask.dtype == np.uint8 else lowest
    return lengthen(mask, (*mask.sizes[:3], keys), value)


def _seen(node: Node, past: int, shape: tuple[int, ...]) -> list[Expression]:
    """Return which keys each query sees by its place: 1 where it sees one."""
    _, _, queries, keys = shape
    is_causal = node.attribute("is_causal")
    left, right = (node.attribute(f"{side}_window_size", -1) for side in ("left", "right"))
    right = min([w for w in (right, 0 if is_causal else -1) if w >= 0], default=-1)
    key, query = places(node, queries, keys, past)
    seen: list[Expression] = []
    if node.has(6):
        lengths = reshape(dml.cast(node[6], "INT32"), (shape[0], 1, 1, 1))
        seen.append(dml.less_than(key, lengths))
        query = query + (lengths - (queries + past))
    if right >= 0 and (node.has(6) or past + right < keys - 1):
        seen.append(dml.less_than_or_equal(key, query + right))
    if left >= 0 and (node.has(6) or past + queries - 1 > left):
        seen.append(dml.greater_than_or_equal(key, query - left))
    return seen


def places(node: Node, queries: int, keys: int, offset: int) -> tuple[Expression, Expression]:
    """Return where keys and queries stand, [1, 1, 1, keys] and [1, 1, queries, 1].

    The first query stands at `offset`. A mask follows from these while the network runs: a constant
    would have as many elements as the product of both lengths.
    """
    key, query = np.arange(keys, dtype=np.int32), np.arange(queries, dtype=np.int32) + offset
    constant = node.builder.constant
    return constant(key[None, None, None]), constant(query.astype(np.int32)[None, None, :, None])

"""Attention to blocks of keys, as ONNX Runtime's own domain has it."""

from typing import Any

import numpy as np

from dml_jax import functional as dml
from dml_jax.graph import Expression
from dml_jax.onnx.files.attributes import MICROSOFT
from dml_jax.onnx.nodes.node import Node, required
from dml_jax.onnx.nodes.op_types import translates
from dml_jax.onnx.nodes.reshapes import permute, reshape, spread
from dml_jax.onnx.translators.microsoft_attention import (
    attend_with_cache,
    of_queries,
    past_lengths,
    rotate_heads,
    sequence_of,
)


@translates("SparseAttention", domain=MICROSOFT)
def _sparse(node: Node) -> Any:
    heads, groups = required(node, "num_heads"), required(node, "kv_num_heads")
    batch, sequence, _ = node.shape()
    query, key, value = of_queries(node, heads, groups)
    size, keys = query.sizes[2] // heads, node.shape(3)[2]
    ends = node[8]  # the number of keys of each batch, the new ones included
    past = past_lengths(node, ends - sequence, 7)
    places = sequence_of(node, sequence, ends.desc.data_type) + reshape(past, (batch, 1))
    if node.attribute("do_rotary", 0):
        query, key = rotate_heads(node, (query, key), size, places, 9)
    mask = _blocks(node, places, heads, keys)
    return attend_with_cache(node, (query, key, value), (node[3], node[4]), past, mask)


def _blocks(node: Node, places: Expression, heads: int, keys: int) -> Expression:
    """Return 1 where the blocks let a query see a key, [batch, heads, queries, keys] INT32."""
    block = node.attribute("sparse_block_size")
    rows, columns = node.constant(5), node.constant(6)
    layouts, count = rows.shape[0], rows.shape[1] - 1
    is_seen = np.zeros((layouts, count, max(count, -(-keys // block))), np.int32)
    for k, row in np.ndindex(layouts, count):
        is_seen[k, row, columns[k, rows[k, row] : rows[k, row + 1]]] = 1
    batch, queries = places.sizes
    by_key = np.repeat(is_seen, block, 2)[:, :, :keys]  # of each block of queries
    table = node.builder.constant(np.ascontiguousarray(by_key))
    own = dml.cast(reshape(places, (1, 1, batch * queries)), "INT32") / block
    taken = dml.gather(table, own, 1, 1)
    taken = permute(reshape(taken, (layouts, batch, queries, keys)), (1, 0, 2, 3))
    taken = reshape(taken, (batch, 1, layouts, queries, keys))
    taken = spread(taken, (batch, heads // layouts, layouts, queries, keys))
    return reshape(taken, (batch, heads, queries, keys))

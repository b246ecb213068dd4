"""Decoders whose keys and values grow, in buffers that are filled from their ends.

The exports of optimum and of torch.onnx return the keys and values that they read with those of
the new tokens behind them. Where an attention mask hides the rows that are not filled, a buffer of
a fixed size serves. It is filled from its end, so that the new tokens stand next to the last ones:
distances between tokens are right also in a graph that counts them by places in the buffer.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dml_jax.genai.decoder import Cache, Decoder, as_inputs, empty_buffers, rows_of, token_inputs
from dml_jax.genai.decoder_networks import DecoderNetworks, Lengths
from dml_jax.graph import ConstantNode, OperatorNode
from dml_jax.onnx.network import Network
from dml_jax.runtime.plan import keys_of

_ROWS = 16  # of the smaller buffer that is looked at: a table of places may have few rows


class RightAlignedDecoder(Decoder):
    """A decoder whose networks return longer keys and values than they read."""

    @property
    def note(self) -> str:
        """Return the form of the cache, in one line."""
        return "keys and values lie in buffers of a fixed size, under the attention mask"

    def shapes(self, lengths: Lengths) -> Mapping[str, Sequence[int]]:
        """Return the sizes of the inputs of a network, by name."""
        # The mask is over the keys that attentions read: the buffer, and the new tokens behind it.
        return self.networks.buffer_shapes(lengths, lengths.rows + lengths.length)

    def cache(self, batch: int, rows: int) -> Cache:
        """Return an empty cache."""
        return empty_buffers(self.networks, batch, rows)

    def inputs(self, network: Any, cache: Cache, tokens: Any, counts: Any) -> dict[str, Any]:
        """Return the inputs of a network by name."""
        rows, start = rows_of(cache), cache["length"].astype(np.int32)
        places = jnp.arange(rows + tokens.shape[1], dtype=np.int32)[None]
        is_there = (places >= rows - start[:, None]) & (places < rows + counts[:, None])
        arrays = {**token_inputs(cache, tokens, counts), "attention_mask": is_there}
        return as_inputs(self.networks, network, arrays, cache["buffers"])

    def cache_after(self, cache: Cache, tokens: Any, counts: Any, results: Any) -> Cache:
        """Return the cache after a network gave `results`."""
        rows = rows_of(cache)
        # Behind the new tokens of a sequence is the padding of its chunk: the buffer ends before.
        last = jax.vmap(lambda x, count: jax.lax.dynamic_slice_in_dim(x, count, rows, 1))
        buffers = [last(results[present], counts) for _, present in self.networks.folder.caches]
        return {"length": cache["length"] + counts, "buffers": buffers}

    def shorten(self, cache: Cache, lengths: Sequence[int]) -> Cache:
        """Return a cache of the first tokens of each sequence, as many as `lengths` says."""
        roll = jax.vmap(lambda x, count: jnp.roll(x, count, 1))
        length = jnp.asarray(np.array(lengths, np.int32))
        buffers = [roll(buffer, cache["length"] - length) for buffer in cache["buffers"]]
        return {**cache, "length": length, "buffers": buffers}

    def filled_rows(self, buffer: np.ndarray, length: int) -> np.ndarray:
        """Return the rows of a buffer that `length` tokens fill, [batch, heads, length, size]."""
        return buffer[:, :, buffer.shape[2] - length :]


def counts_places_by_rows(networks: DecoderNetworks) -> bool:
    """Return whether the places of tokens follow from the size of the buffer.

    In a buffer of a fixed size they would be the places behind its end. The graph says it: with two
    sizes of the buffer, arrays of places keep their sizes and change their values, whereas those of
    masks change their sizes too. `networks` are those of a `RightAlignedDecoder`.
    """
    first, other = (networks.of(Lengths(1, 1, rows, rows)) for rows in (_ROWS, _ROWS + 1))
    assert isinstance(first, Network) and isinstance(other, Network)
    if len(first.graph.nodes) != len(other.graph.nodes):
        return True
    pairs = zip(first.graph.all_nodes, other.graph.all_nodes, strict=False)
    if any(_has_other_values(a, b) for (_, a), (_, b) in pairs):
        return True
    # A table of places may be cut at the place itself: the same array of weights, at another row.
    keys = [keys_of(n.graph, {name: name for name in n.weights}) for n in (first, other)]
    for (_, a, read), (_, b, others) in zip(first.graph.plan, other.graph.plan, strict=True):
        known = [(keys[0].get(x), keys[1].get(y)) for x, y in zip(read, others, strict=False)]
        if all(x is not None and x == y for x, y in known) and _is_at_another_row(a, b):
            return True
    return False


def _has_other_values(a: Any, b: Any) -> bool:
    """Return whether two nodes are constants of equal sizes with other values."""
    if not (isinstance(a, ConstantNode) and isinstance(b, ConstantNode)):
        return False
    is_alike = (a.array.shape, a.array.dtype) == (b.array.shape, b.array.dtype)
    return is_alike and not np.array_equal(a.array, b.array)


def _is_at_another_row(a: Any, b: Any) -> bool:
    """Return whether two operators give arrays of equal sizes, and differ in their fields."""
    if not (isinstance(a, OperatorNode) and isinstance(b, OperatorNode)):
        return False
    sizes = [[tensor.sizes for tensor in node.operator.outputs] for node in (a, b)]
    return sizes[0] == sizes[1] and a.operator != b.operator

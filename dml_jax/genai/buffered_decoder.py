"""Decoders whose attention reads a buffer of keys and values, as GroupQueryAttention does.

A row of the buffer holds the keys, or values, of one token. A chunk of tokens that is padded at its
end writes rows that nothing sees, since the next tokens write over them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from dml_jax.genai.decoder import Cache, Decoder, as_inputs, empty_buffers, token_inputs
from dml_jax.genai.decoder_networks import Lengths


class BufferedDecoder(Decoder):
    """A decoder whose networks write new keys and values into the buffers that they read."""

    def shapes(self, lengths: Lengths) -> Mapping[str, Sequence[int]]:
        """Return the sizes of the inputs of a network, by name."""
        return self.networks.buffer_shapes(lengths, lengths.width)

    def cache(self, batch: int, rows: int) -> Cache:
        """Return an empty cache."""
        return empty_buffers(self.networks, batch, rows)

    def inputs(self, network: Any, cache: Cache, tokens: Any, counts: Any) -> dict[str, Any]:
        """Return the inputs of a network by name."""
        networks, start = self.networks, cache["length"].astype(np.int32)
        _, width = network.inputs[networks.folder.names["attention_mask"]].shape or (0, 0)
        # The mask counts the padding of a chunk too: the attention takes the place of the first
        # token of the chunk from its sum.
        end = start[:, None] + np.int32(tokens.shape[1])
        is_there = jnp.arange(width, dtype=np.int32)[None] < end
        arrays = {**token_inputs(cache, tokens, counts), "attention_mask": is_there}
        return as_inputs(networks, network, arrays, cache["buffers"])

    def cache_after(self, cache: Cache, tokens: Any, counts: Any, results: Any) -> Cache:
        """Return the cache after a network gave `results`."""
        buffers = [results[present] for _, present in self.networks.folder.caches]
        return {"length": cache["length"] + counts, "buffers": buffers}

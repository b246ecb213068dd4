"""Decoders whose attention reads a buffer of keys and values, as GroupQueryAttention does.

A row of the buffer holds the keys, or values, of one token. A chunk of tokens that is padded at its
end writes rows that nothing sees, since the next tokens write over them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from dml_jax.genai.decoder import Cache, Decoder, as_inputs, token_inputs, zeros
from dml_jax.genai.decoder_networks import Lengths


class BufferedDecoder(Decoder):
    """A decoder whose networks write new keys and values into the buffers that they read."""

    @property
    def note(self) -> str:
        """Return what devices do not divide, in one line; or ""."""
        return "" if self.networks.mesh is None else self.networks.division.note

    def width(self, rows: int, total: int) -> int:
        """Return the size of the mask of a program that makes sequences of `total` tokens."""
        return self.networks.mask_width(rows, total)

    def shapes(self, lengths: Lengths) -> Mapping[str, Sequence[int]]:
        """Return the sizes of the inputs of a network, by name."""
        return self.networks.buffer_shapes(lengths, lengths.width)

    def cache(self, batch: int, rows: int) -> Cache:
        """Return an empty cache."""
        networks, (heads, size), place = self.networks, self.networks.heads, None
        if networks.mesh is not None:
            own, spec = networks.device_heads, P()
            # Where there are fewer heads than devices, several devices have copies of a head.
            if networks.division.caches:
                heads, spec = own * networks.mesh.size, P(None, *networks.mesh.axis_names)
            place = NamedSharding(networks.mesh, spec)
        shape = (batch, heads, rows, size)
        buffers = zeros(len(networks.folder.caches), shape, networks.cache_type, place)
        return {"length": jnp.zeros(batch, np.int32), "buffers": buffers}

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

    def filled_rows(self, buffer: np.ndarray, length: int) -> np.ndarray:
        """Return the rows of a buffer that `length` tokens fill, [batch, heads, length, size]."""
        return buffer[:, :, :length]

    def cache_bytes(self, filled: int) -> int:
        """Return the bytes of keys and values that a device reads in a step."""
        return self.networks.buffer_bytes(filled)

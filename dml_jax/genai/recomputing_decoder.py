"""Decoders that read all tokens again at each step.

No mask of their graphs hides rows of a buffer that are not filled, or they count places by the size
of the buffer. So the cache holds the tokens. They are read in sizes of powers of two: few programs
serve every length, and a token does not see the padding behind it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from dml_jax.genai.decoder import Cache, Decoder, as_inputs, zeros
from dml_jax.genai.decoder_networks import LAST, Lengths
from dml_jax.genai.encoder_decoder import Encoder
from dml_jax.genai.folder import Folder
from dml_jax.runtime.weight_store import WeightStore

_LEAST = 16  # tokens of a program: a smaller one is not faster, and each size is compiled


class RecomputingDecoder(Decoder):
    """A decoder whose cache holds the tokens, and with an `Encoder` also what this one made."""

    has_buffers = False

    @property
    def note(self) -> str:
        """Return the form of the cache, in one line."""
        reason = "no mask hides keys and values"
        return f"{reason}: each step reads all tokens, in sizes of powers of two"

    def __init__(
        self,
        folder: Folder,
        keeps_int4: bool = False,
        mesh: Mesh | None = None,
        store: WeightStore | None = None,
    ):
        super().__init__(folder, keeps_int4, mesh, store)
        self._encoder = Encoder(folder, self.networks) if "encoder" in folder.model else None
        self.is_encoding = self._encoder is not None

    def lengths(self, batch: int, length: int, rows: int, width: int, is_last: bool) -> Lengths:
        """Return the sizes of the network that reads `width` tokens, or `rows` where it is 0."""
        return super().lengths(batch, width or rows, width or rows, width, is_last)

    def width(self, rows: int, total: int) -> int:
        """Return the tokens that a program reads, for sequences of `total` tokens."""
        return min(rows, max(_LEAST, 1 << (total - 1).bit_length()))

    def shapes(self, lengths: Lengths) -> Mapping[str, Sequence[int]]:
        """Return the sizes of the inputs of a network, by name; its past is empty."""
        networks, batch = self.networks, lengths.batch
        parts = ("input_ids", "attention_mask", "position_ids")
        shapes = networks.token_shapes(batch, dict.fromkeys(parts, lengths.length))
        heads, size = networks.heads if networks.folder.caches else (0, 0)
        shapes |= {past: (batch, heads, 0, size) for past, _ in networks.folder.caches}
        return shapes if self._encoder is None else {**shapes, **self._encoder.shapes(batch)}

    def cache(self, batch: int, rows: int) -> Cache:
        """Return an empty cache."""
        (tokens,) = zeros(1, (batch, rows), np.int32)
        cache = {"length": jnp.zeros(batch, np.int32), "tokens": tokens}
        return cache if self._encoder is None else {**cache, **self._encoder.nothing(batch)}

    def inputs(self, network: Any, cache: Cache, tokens: Any, counts: Any) -> dict[str, Any]:
        """Return the inputs of a network by name."""
        networks, end = self.networks, cache["length"].astype(np.int32) + counts
        batch, width = network.inputs[networks.folder.names["input_ids"]].shape
        places = jnp.broadcast_to(jnp.arange(width, dtype=np.int32), (batch, width))
        arrays = {
            "input_ids": self.cache_after(cache, tokens, counts, {})["tokens"][:, :width],
            "attention_mask": places < end[:, None],
            "position_ids": places,
            LAST: jnp.maximum(end - 1, 0).reshape(batch, 1, 1),
        }
        arrays |= {} if self._encoder is None else self._encoder.inputs(cache)
        kinds = [network.inputs[past] for past, _ in networks.folder.caches]
        empty = [jnp.zeros(kind.shape, kind.array_dtype) for kind in kinds]
        return as_inputs(networks, network, arrays, empty)

    def cache_after(self, cache: Cache, tokens: Any, counts: Any, results: Any) -> Cache:
        """Return the cache with the tokens behind those that it has."""
        put = jax.vmap(lambda x, y, at: jax.lax.dynamic_update_slice_in_dim(x, y, at, 0))
        after = put(cache["tokens"], tokens.astype(np.int32), cache["length"].astype(np.int32))
        return {**cache, "length": cache["length"] + counts, "tokens": after}

    def logits_of_tokens(self, logits: Any, cache: Cache, length: int) -> Any:
        """Return the logits of `length` new tokens, of those of all tokens."""
        take = jax.vmap(lambda x, at: jax.lax.dynamic_slice_in_dim(x, at, length, 0))
        return take(logits, cache["length"].astype(np.int32))

    def encode(self, cache: Cache, source: np.ndarray) -> Cache:
        """Return an empty cache with what the encoder makes of a source."""
        assert self._encoder is not None
        return {**cache, **self._encoder(source, cache)}

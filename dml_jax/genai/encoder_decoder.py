"""The encoder of a decoder that attends to what it makes of a text, or of features of sound.

The encoder runs once a sequence, and its results are part of the decoder's cache. The decoder reads
all its tokens at each step: exports with an encoder have no mask over keys and values.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from dml_jax.genai.decoder import zeros
from dml_jax.genai.decoder_networks import DecoderNetworks
from dml_jax.genai.errors import refusal
from dml_jax.genai.folder import Folder
from dml_jax.onnx import load_network
from dml_jax.onnx.options import NetworkOptions

STATES, MASK = "encoder_hidden_states", "encoder_attention_mask"


class Encoder:
    """The encoder of `folder`, for the decoder that has `networks`."""

    def __init__(self, folder: Folder, networks: DecoderNetworks):
        self._folder, self._networks = folder, networks
        # How many results there are for a sequence: a decoder's network has a fixed number.
        self._count = int(folder.model.get("source_length") or folder.context_length)

    def shapes(self, batch: int) -> dict[str, Sequence[int]]:
        """Return the sizes of the decoder's inputs that are results, by name."""
        sizes = self._networks.input_sizes
        states = batch, self._count, sizes[STATES][2]
        return {n: s for n, s in {STATES: states, MASK: states[:2]}.items() if n in sizes}

    def nothing(self, batch: int) -> dict[str, Any]:
        """Return the results in an empty cache."""
        states = self.shapes(batch)[STATES]
        (encoded,) = zeros(1, states, np.float32)
        return {"encoded": encoded, "seen": jnp.ones(states[:2], np.int32)}

    def inputs(self, cache: Mapping[str, Any]) -> dict[str, Any]:
        """Return the decoder's inputs that are results, of its cache."""
        return {STATES: cache["encoded"], MASK: cache["seen"]}

    def __call__(self, source: np.ndarray, cache: Mapping[str, Any]) -> dict[str, Any]:
        """Return the results of a source, as a cache has them.

        Args:
            source: as for `Decoder.encode`.
            cache: an empty cache.

        Raises `DmlError` where the source does not fit the encoder.
        """
        folder, batch = self._folder, cache["encoded"].shape[0]
        proto = folder.network_of(str(folder.model["encoder"]["filename"]))
        names = [value.name for value in proto.graph.input]
        is_text = "input_ids" in names
        if is_text != (source.ndim == 2) or not names:
            rule = "be a text" if is_text else "be features of sound, [channels, times]"
            raise refusal("what the encoder reads", rule, list(source.shape))
        if is_text:
            if source.shape[1] > self._count:
                rule = f"have at most {self._count} tokens, as the encoder reads"
                raise refusal("the prompt", rule, source.shape[1])
            room, pad = ((0, 0), (0, self._count - source.shape[1])), folder.pad_token_id
            seen = np.pad((source != pad) | (batch == 1), room).astype(np.int64)
            padded = np.pad(source.astype(np.int64), room, constant_values=pad)
            arrays = {"input_ids": padded, "attention_mask": seen}
        else:
            shape = (batch, *(int(n) for n in folder.model["features"]))
            if source.shape != shape:
                raise refusal("the shape of the features", f"be {list(shape)}", list(source.shape))
            arrays, seen = {names[0]: source.astype(np.float32)}, cache["seen"]
        arrays = {name: x for name, x in arrays.items() if name in names}
        shapes = {name: x.shape for name, x in arrays.items()}
        options = NetworkOptions(shapes=shapes, folder=folder.files, looks=False)
        # Loaded for one call: the weights of an encoder leave the device with its network.
        (encoded,) = load_network(proto, options)(arrays).values()
        return {"encoded": jnp.asarray(encoded, np.float32), "seen": jnp.asarray(seen, np.int32)}

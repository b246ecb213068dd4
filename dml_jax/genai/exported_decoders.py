"""Decoders whose keys and values grow: the exports of optimum and of torch.onnx.

Such a graph returns the keys and values that it was given with those of the new tokens behind
them. Where an attention mask hides what is not there, the given ones lie in a buffer of a fixed
size, filled from its end: so distances between tokens are right also where a graph counts them by
places. Where there is none, the decoder reads all tokens again, in sizes of powers of two: a token
does not see the padding behind it.
"""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from dml_jax.genai.cached_start import KeptDecoder
from dml_jax.genai.decoder import LAST, Cache, Decoder, typed, zeros
from dml_jax.genai.errors import refusal
from dml_jax.genai.folder import FITTING, Folder
from dml_jax.onnx import load_network
from dml_jax.onnx.options import NetworkOptions

_LEAST = 16  # tokens of a program that reads whole sequences
_NEAR = 1e-3  # of the largest logit


class ExportedDecoder(Decoder):
    """A decoder whose networks may make other constants of each length, as of tables of places."""

    def held(self, network: Any) -> Sequence[jax.Array]:
        """Return what a network's calls hold; networks have equal arrays in common."""
        own = self._own.get(id(network))
        if own is None:
            names, _ = network.prepared_from
            made = network.prepared(network.weights)
            kept = map(self._kept, made[len(names) :])
            own = self._own[id(network)] = (*made[: len(names)], *kept)
        return own

    @functools.cached_property
    def _own(self) -> dict[int, Sequence[jax.Array]]:
        return {}

    def _kept(self, x: jax.Array) -> jax.Array:
        for y in self._made or ():
            if (x.shape, x.dtype) == (y.shape, y.dtype) and bool(jnp.array_equal(x, y)):
                return y
        self._made = (*(self._made or ()), x)
        return x


class GrowingDecoder(ExportedDecoder):
    """A decoder whose keys and values lie in buffers of a fixed size, filled from their ends."""

    _form = "keys and values lie in buffers of a fixed size, under the attention mask"

    def _shapes(self, batch: int, length: int, rows: int, width: int) -> dict[str, Sequence[int]]:
        return super()._shapes(batch, length, rows, rows + length)

    def _inputs(self, network: Any, cache: Cache, tokens: Any, counts: Any) -> dict[str, Any]:
        inputs, name = super()._inputs(network, cache, tokens, counts), "attention_mask"
        rows, name = cache["buffers"][0].shape[2], self.folder.names[name]
        places = jnp.arange(rows + tokens.shape[1], dtype=np.int32)[None]
        start = cache["length"].astype(np.int32)
        is_there = (places >= rows - start[:, None]) & (places < rows + counts[:, None])
        return {**inputs, name: is_there.astype(network.inputs[name].array_dtype)}

    def _after(self, results: Mapping[str, Any], cache: Cache, tokens: Any, counts: Any) -> Cache:
        rows = cache["buffers"][0].shape[2]
        last = jax.vmap(lambda x, count: jax.lax.dynamic_slice_in_dim(x, count, rows, 1))
        buffers = [last(results[present], counts) for _, present in self.folder.caches]
        return {"length": cache["length"] + counts, "buffers": buffers}

    def cut(self, cache: Cache, lengths: Sequence[int]) -> Cache:
        """Return a cache of the first tokens of each sequence, as many as `lengths` says."""
        moved = jax.vmap(lambda x, count: jnp.roll(x, count, 1))
        made = super().cut(cache, lengths)
        buffers = [moved(x, cache["length"] - made["length"]) for x in cache["buffers"]]
        return {**made, "buffers": buffers}

    def filled(self, buffer: np.ndarray, length: int) -> np.ndarray:
        """Return the rows of a buffer that are filled, [batch, heads, length, size]."""
        return buffer[:, :, buffer.shape[2] - length :]


class WholeDecoder(ExportedDecoder):
    """A decoder that reads all tokens at each step; its cache holds the tokens."""

    _form = "no mask hides keys and values: each step reads all tokens, in sizes of powers of two"

    @property
    def weights(self) -> Mapping[str, jax.Array]:
        """Return the weights of the file, by name."""
        if not self._networks:
            self.network(1, 1, _LEAST)
        return self._weights

    def cache(self, batch: int, rows: int) -> Cache:
        """Return an empty cache."""
        tokens = zeros(1, (batch, 1, rows, 1), np.int32)
        return {"length": jnp.zeros(batch, np.int32), "buffers": tokens}

    def width(self, rows: int, total: int) -> int:
        """Return the tokens that a program reads, for sequences of `total` ones."""
        return min(rows, max(_LEAST, 1 << (total - 1).bit_length()))

    def network(
        self, batch: int, length: int, rows: int, width: int = 0, is_last: bool = False
    ) -> Any:
        """Return the network of `width` tokens, or of `rows` where it is 0."""
        whole = width or rows
        return super().network(batch, whole, whole, whole, is_last)

    def _shapes(self, batch: int, length: int, rows: int, width: int) -> dict[str, Sequence[int]]:
        return super()._shapes(batch, length, 0, width)

    def _kept_tokens(self, cache: Cache, tokens: Any) -> jax.Array:
        """Return the tokens of a cache, with others behind them, [batch, rows]."""
        put = jax.vmap(lambda x, y, at: jax.lax.dynamic_update_slice_in_dim(x, y, at, 0))
        start = cache["length"].astype(np.int32)
        return put(cache["buffers"][0][:, 0, :, 0], tokens.astype(np.int32), start)

    def _inputs(self, network: Any, cache: Cache, tokens: Any, counts: Any) -> dict[str, Any]:
        names, end = self.folder.names, cache["length"].astype(np.int32) + counts
        batch, width = network.inputs[names["input_ids"]].shape
        places = jnp.broadcast_to(jnp.arange(width, dtype=np.int32), (batch, width))
        made = {
            "input_ids": self._kept_tokens(cache, tokens)[:, :width],
            "attention_mask": places < end[:, None],
            "position_ids": places,
            LAST: jnp.maximum(end - 1, 0).reshape(batch, 1, 1),
        }
        pasts = {past: network.inputs[past] for past, _ in self.folder.caches}
        empty = {past: jnp.zeros(kind.shape, kind.array_dtype) for past, kind in pasts.items()}
        return {**typed(network, {names.get(n, n): x for n, x in made.items()}), **empty}

    def _after(self, results: Mapping[str, Any], cache: Cache, tokens: Any, counts: Any) -> Cache:
        kept = self._kept_tokens(cache, tokens)[:, None, :, None]
        return {**cache, "length": cache["length"] + counts, "buffers": [kept]}

    def decode(
        self, weights: Mapping[str, Any], cache: Cache, tokens: Any, output: str = "logits"
    ) -> tuple[Any, Cache]:
        """Return the logits of each token, and the cache after them, as `Decoder.decode`."""
        made, after = super().decode(weights, cache, tokens, output)
        length = np.shape(tokens)[1]
        own = jax.vmap(lambda x, at: jax.lax.dynamic_slice_in_dim(x, at, length, 0))
        return own(made, cache["length"].astype(np.int32)), after

    def step_bytes(self, filled: int) -> int:
        """Return the bytes of weights, which a step reads."""
        return sum(x.nbytes for x in (*self._weights.values(), *(self._made or ())))


class EncodingDecoder(WholeDecoder):
    """A decoder that attends to what an encoder made of a text, or of features of sound.

    The encoder runs once a sequence. Its results are part of the cache.
    """

    is_encoding = True

    @property
    def _length(self) -> int:
        """Return how many results of the encoder there are for a sequence."""
        return int(self.folder.model.get("source_length") or self.folder.context_length)

    @FITTING
    def cache(self, batch: int, rows: int) -> Cache:
        """Return an empty cache."""
        shape = (batch, self._length, self._dims["encoder_hidden_states"][2])
        encoded = zeros(1, shape, np.float32)[0]
        made = {"encoded": encoded, "seen": jnp.ones(shape[:2], np.int32)}
        return {**super().cache(batch, rows), **made}

    def _shapes(self, batch: int, length: int, rows: int, width: int) -> dict[str, Sequence[int]]:
        shapes = super()._shapes(batch, length, rows, width)
        shape = (batch, self._length, self._dims["encoder_hidden_states"][2])
        own = {"encoder_hidden_states": shape, "encoder_attention_mask": shape[:2]}
        return {**shapes, **{n: sizes for n, sizes in own.items() if n in self._dims}}

    def _inputs(self, network: Any, cache: Cache, tokens: Any, counts: Any) -> dict[str, Any]:
        given = {"encoder_hidden_states": cache["encoded"], "encoder_attention_mask": cache["seen"]}
        return {**super()._inputs(network, cache, tokens, counts), **typed(network, given)}

    @FITTING
    def encoded(self, cache: Cache, source: np.ndarray) -> Cache:
        """Return a cache with what the encoder makes of a source.

        Args:
            cache: an empty cache.
            source: tokens [batch, length], padded at the end by pad_token_id; or features of sound
                [batch, channels, times].

        Raises `GenAIError` where the source does not fit the encoder.
        """
        folder, batch = self.folder, cache["encoded"].shape[0]
        proto = folder.network_of(str(folder.model["encoder"]["filename"]))
        names = [value.name for value in proto.graph.input]
        is_text = "input_ids" in names
        if is_text != (source.ndim == 2):
            rule = "be a text" if is_text else "be features of sound, [channels, times]"
            raise refusal("what the encoder reads", rule, list(source.shape))
        if is_text:
            if source.shape[1] > self._length:
                rule = f"have at most {self._length} tokens, as the encoder reads"
                raise refusal("the prompt", rule, source.shape[1])
            room, pad = ((0, 0), (0, self._length - source.shape[1])), folder.pad_token_id
            seen = np.pad((source != pad) | (batch == 1), room).astype(np.int64)
            filled = np.pad(source.astype(np.int64), room, constant_values=pad)
            given = {"input_ids": filled, "attention_mask": seen}
        else:
            shape = (batch, *(int(n) for n in folder.model["features"]))
            if source.shape != shape:
                raise refusal("the shape of the features", f"be {list(shape)}", list(source.shape))
            given, seen = {names[0]: source.astype(np.float32)}, cache["seen"]
        given = {name: x for name, x in given.items() if name in names}
        shapes = {name: x.shape for name, x in given.items()}
        network = load_network(
            proto, NetworkOptions(shapes=shapes, folder=folder.files, looks=False)
        )
        (made,) = network(given).values()
        made = jnp.asarray(made, np.float32)
        return {**cache, "encoded": made, "seen": jnp.asarray(seen, np.int32)}


@FITTING
def decoder_of(
    folder: Folder,
    keeps_int4: bool = False,
    mesh: Mesh | None = None,
    programs: Path | None = None,
) -> Decoder:
    """Return the decoder of a folder, by the form of its keys and values.

    A decoder of GroupQueryAttention on one CPU keeps its programs in the folder `programs`; None
    keeps none. The other arguments are those of `Decoder`.
    """
    if "encoder" in folder.model:
        return EncodingDecoder(folder, keeps_int4, mesh)
    graph, pasts = folder.proto.graph, {past for past, _ in folder.caches}
    readers = {node.op_type for node in graph.node if pasts & set(node.input)}
    if readers == {"GroupQueryAttention"} or mesh is not None:
        if programs is not None and mesh is None and jax.default_backend() == "cpu":
            return KeptDecoder(folder, keeps_int4, programs)
        return Decoder(folder, keeps_int4, mesh)
    inputs = {value.name for value in graph.input}
    whole = WholeDecoder(folder, keeps_int4)
    if folder.names["attention_mask"] not in inputs:
        return whole
    growing = GrowingDecoder(folder, keeps_int4)
    if folder.names["position_ids"] in inputs or _agree(growing, whole):
        return growing
    return whole


def _agree(growing: Decoder, whole: Decoder) -> bool:
    """Return whether a decoder has the same logits with its keys and values in a buffer.

    A graph that counts positions by the size of the buffer has others.
    """
    tokens = jnp.array([[3, 5, 4]], np.int32)
    decode = jax.jit(growing.decode)
    _, cache = decode(growing.weights, growing.cache(1, _LEAST), tokens[:, :2])
    found, _ = decode(growing.weights, cache, tokens[:, 2:])
    wanted, _ = jax.jit(whole.decode)(whole.weights, whole.cache(1, _LEAST), tokens)
    apart = np.abs(np.asarray(found[:, -1] - wanted[:, -1], np.float32)).max()
    return bool(apart <= _NEAR * np.abs(np.asarray(wanted, np.float32)).max())

"""The forms of a decoder, by its keys and values, and which one a folder has."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from dml_jax.genai.decoder import Cache, Decoder, rows_of, zeros
from dml_jax.genai.decoder_networks import LAST, DecoderNetworks, Lengths
from dml_jax.genai.errors import refusal
from dml_jax.genai.folder import Folder
from dml_jax.graph import ConstantNode, OperatorNode
from dml_jax.onnx import load_network
from dml_jax.onnx.network import Network
from dml_jax.onnx.options import NetworkOptions
from dml_jax.runtime.plan import keys_of

_ROWS = 16  # of the smaller buffer that is looked at: a table of places may have few rows
_STATES, _MASK = "encoder_hidden_states", "encoder_attention_mask"
_LEAST = 16  # tokens of a program: a smaller one is not faster, and each size is compiled


def decoder_of(folder: Folder, keeps_int4: bool = False, mesh: Mesh | None = None) -> Decoder:
    """Return the decoder of a folder, by the form of its keys and values.

    No form runs a token to find out: a graph of GroupQueryAttention writes into its buffers, an
    attention mask hides what is not filled, and places of tokens follow from the mask or from the
    size of the buffer. The arguments are those of `DecoderNetworks`.
    """
    graph, pasts = folder.proto.graph, {past for past, _ in folder.caches}
    readers = {node.op_type for node in graph.node if pasts & set(node.input)}
    if "encoder" not in folder.model and (readers == {"GroupQueryAttention"} or mesh is not None):
        return BufferedDecoder(folder, keeps_int4, mesh)
    inputs = {value.name for value in graph.input}
    if "encoder" in folder.model or folder.names["attention_mask"] not in inputs:
        return RecomputingDecoder(folder, keeps_int4)
    aligned = RightAlignedDecoder(folder, keeps_int4)
    is_told = folder.names["position_ids"] in inputs
    if is_told or not counts_places_by_rows(aligned.networks):
        return aligned
    return RecomputingDecoder(folder, keeps_int4, store=aligned.networks.store)


class BufferedDecoder(Decoder):
    """A decoder whose networks write new keys and values into the buffers that they read.

    So does GroupQueryAttention. A row of a buffer holds the keys, or values, of one token. A chunk
    of tokens that is padded at its end writes rows that nothing sees, since the next tokens write
    over them.
    """

    def shapes(self, lengths: Lengths) -> Mapping[str, Sequence[int]]:
        batch, length, rows, width, _ = lengths
        return self.networks.input_shapes(batch, length, width, rows)

    def inputs(self, network: Any, cache: Cache, tokens: Any, counts: Any) -> dict[str, Any]:
        start = cache["length"].astype(np.int32)
        _, width = network.inputs[self.networks.folder.names["attention_mask"]].shape or (0, 0)
        # The mask counts the padding of a chunk too: the attention takes the place of the first
        # token of the chunk from its sum.
        end = start[:, None] + np.int32(tokens.shape[1])
        is_there = jnp.arange(width, dtype=np.int32)[None] < end
        return _buffer_inputs(self.networks, network, cache, tokens, counts, is_there)

    def cache_after(self, cache: Cache, tokens: Any, counts: Any, results: Any) -> Cache:
        buffers = [results[present] for _, present in self.networks.folder.caches]
        return {"length": cache["length"] + counts, "buffers": buffers}


class RightAlignedDecoder(Decoder):
    """A decoder whose networks return longer keys and values than they read.

    The exports of optimum and of torch.onnx return the keys and values that they read with those of
    the new tokens behind them. Where an attention mask hides the rows that are not filled, a buffer
    of a fixed size serves. It is filled from its end, so that the new tokens stand next to the last
    ones: distances between tokens are right also in a graph that counts them by places in the
    buffer.
    """

    @property
    def note(self) -> str:
        return "keys and values lie in buffers of a fixed size, under the attention mask"

    def shapes(self, lengths: Lengths) -> Mapping[str, Sequence[int]]:
        batch, length, rows, _, _ = lengths
        # The mask is over the keys that attentions read: the buffer, and the new tokens behind it.
        return self.networks.input_shapes(batch, length, rows + length, rows)

    def inputs(self, network: Any, cache: Cache, tokens: Any, counts: Any) -> dict[str, Any]:
        rows, start = rows_of(cache), cache["length"].astype(np.int32)
        places = jnp.arange(rows + tokens.shape[1], dtype=np.int32)[None]
        is_there = (places >= rows - start[:, None]) & (places < rows + counts[:, None])
        return _buffer_inputs(self.networks, network, cache, tokens, counts, is_there)

    def cache_after(self, cache: Cache, tokens: Any, counts: Any, results: Any) -> Cache:
        rows = rows_of(cache)
        # Behind the new tokens of a sequence is the padding of its chunk: the buffer ends before.
        last = jax.vmap(lambda x, count: jax.lax.dynamic_slice_in_dim(x, count, rows, 1))
        buffers = [last(results[present], counts) for _, present in self.networks.folder.caches]
        return {"length": cache["length"] + counts, "buffers": buffers}

    def shorten(self, cache: Cache, lengths: Sequence[int]) -> Cache:
        roll = jax.vmap(lambda x, count: jnp.roll(x, count, 1))
        length = jnp.asarray(np.array(lengths, np.int32))
        buffers = [roll(buffer, cache["length"] - length) for buffer in cache["buffers"]]
        return {**cache, "length": length, "buffers": buffers}

    def filled_rows(self, buffer: np.ndarray, length: int) -> np.ndarray:
        return buffer[:, :, buffer.shape[2] - length :]


class Encoder:
    """The encoder of a text, or of features of sound, for the decoder that has `networks`.

    It runs once a sequence, and its results are part of the decoder's cache.
    """

    def __init__(self, networks: DecoderNetworks):
        self._folder, self._networks = networks.folder, networks
        # The results of a sequence: a decoder's network has a fixed number.
        self._count = int(self._folder.model.get("source_length") or self._folder.context_length)

    def shapes(self, batch: int) -> dict[str, Sequence[int]]:
        """Return the sizes of the decoder's inputs that are results, by name."""
        sizes = self._networks.input_sizes
        states = batch, self._count, sizes[_STATES][2]
        return {n: s for n, s in {_STATES: states, _MASK: states[:2]}.items() if n in sizes}

    def nothing(self, batch: int) -> dict[str, Any]:
        """Return the results in an empty cache."""
        states = self.shapes(batch)[_STATES]
        (encoded,) = zeros(1, states, np.float32)
        return {"encoded": encoded, "seen": jnp.ones(states[:2], np.int32)}

    def __call__(self, source: np.ndarray, cache: Mapping[str, Any]) -> dict[str, Any]:
        """Return the results of a source, as a cache has them; `cache` is an empty one.

        The source is as for `Decoder.encode`. Raises `DmlError` where it does not fit the encoder.
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


class RecomputingDecoder(Decoder):
    """A decoder that reads all tokens again at each step.

    No mask of its graph hides rows of a buffer that are not filled, or it counts places by the size
    of the buffer. So the cache holds the tokens, and with an `Encoder` also what this one made:
    exports with an encoder have no mask over keys and values.
    Tokens are read in sizes of powers of two: few programs serve every length, and a token does not
    see the padding behind it.
    """

    has_buffers = False

    @property
    def note(self) -> str:
        reason = "no mask hides keys and values"
        return f"{reason}: each step reads all tokens, in sizes of powers of two"

    @functools.cached_property
    def _encoder(self) -> Encoder | None:
        return Encoder(self.networks) if self.is_encoding else None

    def lengths(self, batch: int, length: int, rows: int, width: int, is_last: bool) -> Lengths:
        return super().lengths(batch, width or rows, width or rows, width, is_last)

    def width(self, rows: int, total: int) -> int:
        return min(rows, max(_LEAST, 1 << (total - 1).bit_length()))

    def shapes(self, lengths: Lengths) -> Mapping[str, Sequence[int]]:
        batch, length = lengths[:2]
        shapes = self.networks.input_shapes(batch, length, length, 0)
        return shapes if self._encoder is None else {**shapes, **self._encoder.shapes(batch)}

    def cache(self, batch: int, rows: int) -> Cache:
        (tokens,) = zeros(1, (batch, rows), np.int32)
        cache = {"length": jnp.zeros(batch, np.int32), "tokens": tokens}
        return cache if self._encoder is None else {**cache, **self._encoder.nothing(batch)}

    def inputs(self, network: Any, cache: Cache, tokens: Any, counts: Any) -> dict[str, Any]:
        networks, end = self.networks, cache["length"].astype(np.int32) + counts
        batch, width = network.inputs[networks.folder.names["input_ids"]].shape
        places = jnp.broadcast_to(jnp.arange(width, dtype=np.int32), (batch, width))
        arrays = {
            "input_ids": self.cache_after(cache, tokens, counts, {})["tokens"][:, :width],
            "attention_mask": places < end[:, None],
            "position_ids": places,
            LAST: jnp.maximum(end - 1, 0).reshape(batch, 1, 1),
        }
        if self.is_encoding:
            arrays |= {_STATES: cache["encoded"], _MASK: cache["seen"]}
        kinds = [network.inputs[past] for past, _ in networks.folder.caches]
        empty = [jnp.zeros(kind.shape, kind.array_dtype) for kind in kinds]
        return _as_inputs(networks, network, arrays, empty)

    def cache_after(self, cache: Cache, tokens: Any, counts: Any, results: Any) -> Cache:
        put = jax.vmap(lambda x, y, at: jax.lax.dynamic_update_slice_in_dim(x, y, at, 0))
        after = put(cache["tokens"], tokens.astype(np.int32), cache["length"].astype(np.int32))
        return {**cache, "length": cache["length"] + counts, "tokens": after}

    def logits_of_tokens(self, logits: Any, cache: Cache, length: int) -> Any:
        take = jax.vmap(lambda x, at: jax.lax.dynamic_slice_in_dim(x, at, length, 0))
        return take(logits, cache["length"].astype(np.int32))

    def encode(self, cache: Cache, source: np.ndarray) -> Cache:
        assert self._encoder is not None
        return {**cache, **self._encoder(source, cache)}


def _as_inputs(
    networks: DecoderNetworks, network: Any, arrays: Mapping[str, Any], pasts: Sequence[Any]
) -> dict[str, Any]:
    """Return the inputs of a network by name, in their types.

    `arrays` has them by their parts in genai_config.json, with others that the network may lack.
    `pasts` are the keys and values of each layer.
    """
    names, kinds = networks.folder.names, network.inputs
    named = {names.get(part, part): array for part, array in arrays.items()}
    inputs = {n: x.astype(kinds[n].array_dtype) for n, x in named.items() if n in kinds}
    return inputs | {name: x for (name, _), x in zip(networks.folder.caches, pasts, strict=True)}


def _buffer_inputs(
    networks: DecoderNetworks, network: Any, cache: Cache, tokens: Any, counts: Any, mask: Any
) -> dict[str, Any]:
    """Return the inputs of a network that reads these tokens alone, and buffers under a mask."""
    start = cache["length"].astype(np.int32)
    places = start[:, None] + jnp.arange(tokens.shape[1], dtype=np.int32)[None]
    last = jnp.maximum(start + counts - 1, 0)  # a place behind it has no meaning
    arrays = {
        "input_ids": tokens,
        "attention_mask": mask,
        "position_ids": jnp.minimum(places, last[:, None]),
        LAST: jnp.maximum(counts - 1, 0).reshape(-1, 1, 1),
    }
    return _as_inputs(networks, network, arrays, cache["buffers"])


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

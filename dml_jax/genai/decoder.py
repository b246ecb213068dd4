"""What a decoder is, whatever the form of its keys and values.

A decoder computes the logits of the next token. What it knows of the tokens before is in a cache:
keys and values in buffers of a fixed size, or the tokens themselves. How much of a cache is filled
is an array beside it, so that one program serves every number of tokens.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from dml_jax.errors import Expect
from dml_jax.genai.decoder_networks import DecoderNetworks, Lengths
from dml_jax.genai.errors import refusal
from dml_jax.genai.folder import Folder
from dml_jax.runtime.weight_store import WeightStore
from dml_jax.system.free_memory import free_bytes

# A prompt costs a call a chunk, and a program a length. Three lengths are few programs, and chunks
# are long enough that products of matrices keep a device busy.
CHUNKS = (256, 32, 1)
"""The lengths of programs: tokens of a prompt are padded to one of these."""

_STEP = 64  # a buffer is a multiple of so many rows, so that near lengths have one program

Cache = dict[str, Any]
"""`length`, the filled rows [batch] INT32, beside `buffers`, [batch, heads, rows, size] each, or
`tokens`, [batch, rows] INT32, of a decoder that reads them all at each step."""


class Decoder(Protocol):
    """A decoder of a folder: pure functions of weights, a cache and tokens.

    The classes that implement it differ in the form of the cache: in what stands below as `...`.
    None is made of another one. The arguments are those of `DecoderNetworks`.

    Attributes:
        networks: the networks by numbers of tokens.
        is_encoding: whether an encoder reads the prompt, or features of sound.
        has_buffers: whether the cache has keys and values; else it has the tokens.
    """

    networks: DecoderNetworks
    is_encoding: bool
    has_buffers: bool = True

    def __init__(
        self,
        folder: Folder,
        keeps_int4: bool = False,
        mesh: Mesh | None = None,
        store: WeightStore | None = None,
    ):
        self.networks = DecoderNetworks(folder, self.shapes, keeps_int4, mesh, store)
        self.is_encoding = "encoder" in folder.model

    @property
    def note(self) -> str:
        """Return the form of the cache, or what devices do not divide, in one line; or ""."""
        return "" if self.networks.mesh is None else self.networks.division.note

    def shapes(self, lengths: Lengths) -> Mapping[str, Sequence[int]]:
        """Return the sizes of the inputs of a network, by name."""
        ...

    def inputs(self, network: Any, cache: Cache, tokens: Any, counts: Any) -> dict[str, Any]:
        """Return the inputs of a network by name; the other arguments are those of `step`."""
        ...

    def cache_after(self, cache: Cache, tokens: Any, counts: Any, results: Any) -> Cache:
        """Return the cache after a network gave `results`; the others are those of `step`."""
        ...

    def cache(self, batch: int, rows: int) -> Cache:
        """Return an empty cache of `batch` sequences of at most `rows` tokens.

        Raises `DmlError` where it does not fit in memory.
        """
        networks, place = self.networks, None
        heads, size = networks.heads
        if networks.mesh is not None:
            own, spec = networks.device_heads, P()
            # Where there are fewer heads than devices, several devices have copies of a head.
            if networks.division.caches:
                heads, spec = own * networks.mesh.size, P(None, *networks.mesh.axis_names)
            place = NamedSharding(networks.mesh, spec)
        shape = (batch, heads, rows, size)
        buffers = zeros(len(networks.folder.caches), shape, networks.cache_type, place)
        return {"length": jnp.zeros(batch, np.int32), "buffers": buffers}

    def width(self, rows: int, total: int) -> int:
        """Return how many tokens a program sees that makes sequences of `total` tokens.

        A cache has room for `rows` tokens. Fewer choose the other set of angles, if there are two.
        """
        limit = self.networks.longest_short
        return rows if limit is None or total > limit else min(rows, limit)

    def shorten(self, cache: Cache, lengths: Sequence[int]) -> Cache:
        """Return a cache of the first tokens of each sequence, as many as `lengths` says."""
        # What is behind them stays: a mask hides it, and new tokens write over it.
        return {**cache, "length": jnp.asarray(np.array(lengths, np.int32))}

    def filled_rows(self, buffer: np.ndarray, length: int) -> np.ndarray:
        """Return the rows of a buffer that `length` tokens fill, [batch, heads, length, size]."""
        return buffer[:, :, :length]

    def encode(self, cache: Cache, source: np.ndarray) -> Cache:
        """Return an empty cache with what an encoder makes of a source; as it is without one.

        `source` is tokens [batch, length], padded at the end by pad_token_id, or features of sound
        [batch, channels, times]. Raises `DmlError` where it does not fit the encoder.
        """
        return cache

    def lengths(self, batch: int, length: int, rows: int, width: int, is_last: bool) -> Lengths:
        """Return the sizes of the network that reads `length` tokens of each sequence."""
        return Lengths(batch, length, rows, width or rows, is_last and length > 1)

    def logits_of_tokens(self, logits: Any, cache: Cache, length: int) -> Any:
        """Return the logits of `length` new tokens, of all that a network gives."""
        return logits

    def with_folder(self, folder: Folder) -> "Decoder":
        """Return the decoder of another network, with the weights that both have."""
        known = self.networks
        # A store of its own: two adapters may have other weights under the same names.
        return type(self)(folder, known.keeps_int4, known.mesh, WeightStore(known.weights))

    def rows(self, length: int) -> int:
        """Return the rows of a buffer for sequences of `length` tokens, the padding included."""
        return -(-(length + CHUNKS[1]) // _STEP) * _STEP

    def network(
        self, batch: int, length: int, rows: int, width: int = 0, is_last: bool = False
    ) -> Any:
        """Return the network that reads `length` tokens of each of `batch` sequences.

        `rows` is the number of tokens that a cache has room for, and `width` what `width` returns,
        or 0. `is_last` asks for the logits of one token of each sequence alone.
        """
        return self.networks.of(self.lengths(batch, length, rows, width, is_last))

    @property
    def weights(self) -> Mapping[str, jax.Array]:
        """Return the weights of the file, by name."""
        if not self.networks.is_loaded:
            rows = self.rows(self.networks.folder.context_length)
            has_one = self.networks.longest_short is None
            for total in (1,) if has_one else (1, rows):  # a network of each set of angles
                self.network(1, 1, rows, self.width(rows, total))
        return self.networks.weights

    def decode(
        self, weights: Mapping[str, Any], cache: Cache, tokens: Any, output: str = "logits"
    ) -> tuple[Any, Cache]:
        """Return the logits of each token, [batch, length, vocabulary], and the cache after them.

        The function is pure, for jax.jit, jax.vmap, jax.lax.scan and jax.grad.

        Args:
            weights: the weights by name, as `weights` has them.
            cache: what `cache` or another call returns.
            tokens: the next tokens, [batch, length].
            output: the name of another output of the network, which it returns for the logits.
        """
        tokens = jnp.asarray(tokens)
        _check(cache, tokens)
        batch, length = tokens.shape
        network = self.network(batch, length, rows_of(cache))
        counts = jnp.full(tokens.shape[:1], tokens.shape[1], np.int32)
        # Weights that networks of other lengths alone have are no arguments of this one.
        others = self.networks.weights.keys() - network.weights.keys()
        own = {name: array for name, array in weights.items() if name not in others}
        results = network.apply(own, self.inputs(network, cache, tokens, counts))
        after = self.cache_after(cache, tokens, counts, results)
        name = self.networks.folder.names.get(output, output)
        return self.logits_of_tokens(results[name], cache, length), after

    def step(
        self, parameters: Sequence[Any], cache: Cache, tokens: Any, counts: Any, width: int = 0
    ) -> tuple[jax.Array, Cache]:
        """Return the logits of the last token of each sequence, FLOAT32, and the cache after it.

        `parameters` are the `constants` of the network of these sizes. `tokens` are the next ones,
        [batch, length], padded at the end. `counts` says how many of each sequence are there,
        [batch]: 0 leaves a sequence as it is, and its logits are of no use. `width` is what `width`
        returns; 0 is as many as the cache has rows.
        """
        batch, length = tokens.shape
        network = self.network(batch, length, rows_of(cache), width, True)
        results = network.apply_prepared(parameters, self.inputs(network, cache, tokens, counts))
        logits = results[self.networks.folder.names["logits"]].reshape(batch, -1)
        return logits.astype(np.float32), self.cache_after(cache, tokens, counts, results)


def _check(cache: Cache, tokens: Any) -> None:
    expect = Expect("")
    expect(tokens.ndim == 2, "tokens", "be [batch, length]", list(tokens.shape))
    batch, rows = cache["length"].shape[0], rows_of(cache)
    if tokens.ndim == 2:
        fits = tokens.shape[0] == batch
        expect(fits, "tokens", f"have {batch} rows, as the cache", list(tokens.shape))
        rule = f"have at most {rows} columns, as the cache has rows"
        expect(tokens.shape[1] <= rows, "tokens", rule, list(tokens.shape))
    expect.check()


def rows_of(cache: Cache) -> int:
    """Return the number of tokens that a cache has room for."""
    return cache["tokens"].shape[1] if "tokens" in cache else cache["buffers"][0].shape[2]


def zeros(count: int, shape: Sequence[int], dtype: Any, place: Any = None) -> list[jax.Array]:
    """Return equal arrays of zeros. Raises `DmlError` where they do not fit in memory."""
    size = count * math.prod(shape) * np.dtype(dtype).itemsize
    devices = [*place.device_set] if place is not None else jax.devices()[:1]
    free, shares = free_bytes(devices[0]), 1 if devices[0].platform == "cpu" else len(devices)
    # Asked before: a CPU gives more memory than it has, and ends the process when it is written.
    if free is not None and size > free * shares:
        rule = f"take at most the {free * shares} bytes that are free (max_length, batch_size)"
        raise refusal("the cache", rule, size)
    return [jnp.zeros(shape, dtype, device=place) for _ in range(count)]

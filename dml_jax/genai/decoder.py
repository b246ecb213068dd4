"""Decoders: networks of several lengths over one buffer of keys and values.

The buffer has a fixed size. A row of it holds the keys, or values, of one token; how many rows are
filled is an array beside it, so that one program serves every number of tokens. A chunk of tokens
that is padded at its end writes rows that nothing sees, since the next tokens write over them.
"""

import functools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from onnx import helper

from dml_jax.errors import DmlError, Expect, Fault
from dml_jax.genai.folder import FITTING, Folder
from dml_jax.genai.optimum_folders import numbers, whole
from dml_jax.onnx import load_network
from dml_jax.onnx.network import Network
from dml_jax.onnx.options import NetworkOptions
from dml_jax.onnx.tensor_parallel.division import Division, divided
from dml_jax.onnx.tensor_parallel.sharded_network import ShardedNetwork, axis_of, sharded
from dml_jax.rewrite import DEFAULT, MATRICES, PRODUCTS, QUANTIZED, ROWS
from dml_jax.system.free_memory import free_bytes

CHUNKS = (256, 32, 1)
"""The lengths of programs: tokens of a prompt are padded to one of these."""

_STEP = 64  # a buffer is a multiple of so many rows
_GROWTH = 16.0  # a FLOAT32 number has eight times the bits of an int4 one, and scales are small
LAST = "dml_jax.last"
"""The input that is the place of the token whose logits a network gives."""

_THROUGH = ("Cast", "Div", "Mul", "Tanh", "Identity")  # of logits: each element by itself

Cache = dict[str, Any]
"""`length`, the filled rows [batch] INT32, and `buffers`, [batch, heads, rows, size] each."""


class Decoder:
    """A decoder of a folder, as a pure function of weights, a cache and tokens.

    Args:
        folder: the folder.
        keeps_int4: whether quantized weights stay as they are, and are unpacked at each call. Else
            a CPU unpacks them once, which takes up to eight times their memory.
        mesh: the devices that compute it together, along one axis; None for one device.
    """

    is_encoding = False
    """Whether an encoder reads the prompt, or features of sound."""

    _form = ""

    def __init__(self, folder: Folder, keeps_int4: bool = False, mesh: Mesh | None = None):
        self.folder, self.mesh, self._keeps_int4 = folder, mesh, keeps_int4
        self._unpacks = not keeps_int4 and jax.default_backend() == "cpu"
        self._networks: dict[tuple[int, int, int, int, bool], Network | ShardedNetwork] = {}
        self._weights: Mapping[str, jax.Array] = {}
        self._made: Sequence[jax.Array] | None = None
        self._names: dict[int, Sequence[str]] = {}  # of the weights that a length's calls hold

    def having(self, folder: Folder) -> "Decoder":
        """Return the decoder of another network, with the weights that both have."""
        other = type(self)(folder, self._keeps_int4, self.mesh)
        other._weights = self._weights
        return other

    @functools.cached_property
    def _dims(self) -> Mapping[str, Sequence[int]]:
        """Return the sizes of the inputs; 0 for one that has none."""
        inputs = self.folder.proto.graph.input
        return {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in inputs}

    @property
    def heads(self) -> tuple[int, int]:
        """Return the number of heads of the keys, and the size of each."""
        dims, decoder = self._dims[self.folder.caches[0][0]], self.folder.decoder
        heads = dims[1] or whole(decoder, "num_key_value_heads") or 0
        return heads, dims[3] or whole(decoder, "head_size") or 0

    @property
    def cache_type(self) -> np.dtype:
        """Return the type of keys and values."""
        name = self.folder.caches[0][0]
        value = next(v for v in self.folder.proto.graph.input if v.name == name)
        return np.dtype(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))

    def rows(self, length: int) -> int:
        """Return the rows of a buffer for sequences of `length` tokens, the padding included."""
        return -(-(length + CHUNKS[1]) // _STEP) * _STEP

    @FITTING
    def cache(self, batch: int, rows: int) -> Cache:
        """Return an empty cache."""
        (heads, size), place = self.heads, None
        if self.mesh is not None:
            own, spec = self._own_heads, P()
            if self._division.caches:
                heads, spec = own * self.mesh.size, P(None, *self.mesh.axis_names)
            place = NamedSharding(self.mesh, spec)
        shape = (batch, heads, rows, size)
        buffers = zeros(len(self.folder.caches), shape, self.cache_type, place)
        return {"length": jnp.zeros(batch, np.int32), "buffers": buffers}

    @functools.cached_property
    @FITTING
    def _division(self) -> Division:
        """Return how several devices divide the network."""
        assert self.mesh is not None
        axis = axis_of(self.mesh, None)
        return divided(self.folder.proto, self.folder.files, self.mesh.size, axis)

    @property
    def _own_heads(self) -> int:
        """Return the number of heads of the keys that a device has."""
        heads = self.heads[0]
        past = self.folder.caches[0][0]
        return heads if self.mesh is None else self._division.caches.get(past, heads)

    @property
    def note(self) -> str:
        """Return the form of keys and values, or what devices do not divide, in one line."""
        return self._form or ("" if self.mesh is None else self._division.note)

    @property
    def weights(self) -> Mapping[str, jax.Array]:
        """Return the weights of the file, by name."""
        if not self._networks:
            rows = self.rows(self.folder.context_length)
            for total in {rows, min(rows, self.longest_short or rows)}:  # each set of angles
                self.network(1, 1, rows, self.width(rows, total))
        return self._weights

    @functools.cached_property
    @FITTING
    def longest_short(self) -> int | None:
        """Return the number of tokens up to which a decoder has other angles; None: it has one set.

        Phi-3 has two sets of rotary angles, and its graph chooses by the size of the mask.
        """
        graph = self.folder.proto.graph
        by_output = {name: node for node in graph.node for name in node.output}
        known = numbers(graph, self.folder.files.array)
        for node in graph.node:
            if node.op_type != "If":
                continue
            test = by_output.get(node.input[0])
            if test is not None and test.op_type == "Greater" and test.input[1] in known:
                return int(known[test.input[1]])
        return None

    def width(self, rows: int, total: int) -> int:
        """Return the size of the mask of a program that makes sequences of `total` tokens."""
        limit = self.longest_short
        return rows if limit is None or total > limit else min(rows, limit)

    def network(
        self, batch: int, length: int, rows: int, width: int = 0, is_last: bool = False
    ) -> Network | ShardedNetwork:
        """Return the network of `length` tokens of each sequence, and a buffer of `rows`.

        Args:
            batch: the number of sequences.
            length: the number of tokens.
            rows: the number of tokens that a buffer holds.
            width: the size of the mask; 0 is `rows`.
            is_last: whether it gives the logits of one token of each sequence, whose place is the
                input 'dml_jax.last'.
        """
        key = (batch, length, rows, width or rows, is_last and length > 1)
        if key not in self._networks:
            with jax.ensure_compile_time_eval():  # a program may be traced
                self._networks[key] = self._loaded(*key)
        return self._networks[key]

    def _shapes(self, batch: int, length: int, rows: int, width: int) -> dict[str, Sequence[int]]:
        """Return the sizes of the inputs of a network."""
        names, (heads, size) = self.folder.names, self.heads if self.folder.caches else (0, 0)
        shapes: dict[str, Sequence[int]] = {
            past: (batch, heads, rows, size) for past, _ in self.folder.caches
        }
        sizes = {"input_ids": length, "attention_mask": width, "position_ids": length}
        there = {n: count for n, count in sizes.items() if names[n] in self._dims}
        return {**shapes, **{names[n]: (batch, count) for n, count in there.items()}}

    @FITTING
    def _loaded(
        self, batch: int, length: int, rows: int, width: int, is_last: bool
    ) -> Network | ShardedNetwork:
        names = self.folder.names
        shapes = self._shapes(batch, length, rows, width)
        proto = self.folder.proto
        if is_last:
            proto = _of_one_token(proto, names["logits"], batch)
        rewrites, growth = DEFAULT, 0.0  # nothing of weights is kept
        if self._unpacks:
            rewrites, growth = (*DEFAULT, PRODUCTS), _GROWTH
        elif jax.default_backend() != "cpu":
            others = (rewrite for rewrite in DEFAULT if rewrite is not MATRICES)
            rewrites, growth = (QUANTIZED, *others, ROWS), 1.0
        known: dict[str, Any] = {"folder": self.folder.files, "looks": False}  # room has no places
        options = NetworkOptions(shapes=shapes, rewrites=rewrites, growth=growth, **known)
        try:
            if self.mesh is None:
                network = load_network(proto, options)
            else:
                network = sharded(load_network, proto, options, self.mesh, placed=self._weights)
        except DmlError as error:  # faults of a file's many tensors have one cause
            raise DmlError(error.faults[:1]) from None
        if isinstance(network, Network) and self.folder.caches:
            size, shape = self.heads[1], network.output_types[self.folder.caches[0][1]].shape
            own = (shape or (0,) * 4)[3]
            if size != own:
                field = f"head_size in {self.folder.config_name}"
                raise DmlError([Fault("", field, f"be {own}, as in the network", size)])
        self._weights = {**network.weights, **self._weights}
        if isinstance(network, Network):
            held = {name: self._weights[name] for name in network.weights}
            network = network.replace(weights=held)
        return network

    def holding(self, batch: int, length: int, rows: int, width: int) -> Sequence[jax.Array]:
        """Return what the calls of a step hold: `held` of its network, as `network` has them."""
        network = self.network(batch, length, rows, width, True)
        self._names[length], _ = network.prepared_from
        return self.held(network)

    def held(self, network: Network | ShardedNetwork) -> Sequence[jax.Array]:
        """Return what a network's calls hold: weights, in the form in which products are quickest.

        What follows from weights is computed once for all networks of the decoder.
        """
        names, made = network.prepared_from
        if self._made is None or len(self._made) != made:
            self._made = tuple(network.prepared(network.weights)[len(names) :])
        return (*(self._weights[name] for name in names), *self._made)

    @property
    def made_bytes(self) -> int:
        """Return the bytes of what was computed from weights once, beside these."""
        return sum(x.nbytes for x in self._made or ())

    def step_bytes(self, filled: int) -> int:
        """Return the bytes that a device reads in a step of one token, after `filled` tokens.

        Of the table of the tokens it reads a row, and of a buffer the rows that are filled.
        """
        tables = {
            n.input[0] for n in self.folder.proto.graph.node if n.op_type.startswith("Gather")
        }
        names = self._names[min(self._names)]  # of one token
        read = [*(self._weights[n] for n in names if n not in tables), *(self._made or ())]
        weights = sum(x.nbytes * math.prod(x.sharding.shard_shape(x.shape)) // x.size for x in read)
        heads, size = self._own_heads, self.heads[1]
        return weights + len(self.folder.caches) * heads * size * filled * self.cache_type.itemsize

    def _inputs(self, network: Any, cache: Cache, tokens: Any, counts: Any) -> dict[str, Any]:
        names, length = self.folder.names, tokens.shape[1]
        buffers, start = cache["buffers"], cache["length"].astype(np.int32)
        _, width = network.inputs[names["attention_mask"]].shape or (0, 0)
        places = start[:, None] + jnp.arange(length, dtype=np.int32)[None]
        is_there = jnp.arange(width, dtype=np.int32)[None] < start[:, None] + np.int32(length)
        last = jnp.maximum(start + counts - 1, 0)  # a place behind it has no meaning
        made = {
            "input_ids": tokens,
            "attention_mask": is_there,
            "position_ids": jnp.minimum(places, last[:, None]),
            LAST: jnp.maximum(counts - 1, 0).reshape(-1, 1, 1),
        }
        pasts = [past for past, _ in self.folder.caches]
        inputs = typed(network, {names.get(n, n): x for n, x in made.items()})
        return {**inputs, **dict(zip(pasts, buffers, strict=True))}

    def _after(self, results: Mapping[str, Any], cache: Cache, tokens: Any, counts: Any) -> Cache:
        buffers = [results[present] for _, present in self.folder.caches]
        return {"length": cache["length"] + counts, "buffers": buffers}

    def cut(self, cache: Cache, lengths: Sequence[int]) -> Cache:
        """Return a cache of the first tokens of each sequence, as many as `lengths` says."""
        return {**cache, "length": jnp.asarray(np.array(lengths, np.int32))}

    def encoded(self, cache: Cache, source: np.ndarray) -> Cache:
        """Return a cache with what an encoder made of a source; this decoder has none."""
        raise NotImplementedError

    def filled(self, buffer: np.ndarray, length: int) -> np.ndarray:
        """Return the rows of a buffer that are filled, [batch, heads, length, size]."""
        return buffer[:, :, :length]

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
        self._check(cache, tokens)
        batch, length = tokens.shape
        network = self.network(batch, length, cache["buffers"][0].shape[2])
        counts = jnp.full(tokens.shape[:1], tokens.shape[1], np.int32)
        others = self._weights.keys() - network.weights.keys()  # of other lengths alone
        read = {name: w for name, w in weights.items() if name not in others}
        results = network.apply(read, self._inputs(network, cache, tokens, counts))
        after = self._after(results, cache, tokens, counts)
        return results[self.folder.names.get(output, output)], after

    def _check(self, cache: Cache, tokens: Any) -> None:
        expect = Expect("")
        expect(tokens.ndim == 2, "tokens", "be [batch, length]", list(tokens.shape))
        batch, rows = cache["buffers"][0].shape[0], cache["buffers"][0].shape[2]
        if tokens.ndim == 2:
            fits = tokens.shape[0] == batch
            expect(fits, "tokens", f"have {batch} rows, as the cache", list(tokens.shape))
            rule = f"have at most {rows} columns, as the cache has rows"
            expect(tokens.shape[1] <= rows, "tokens", rule, list(tokens.shape))
        expect.check()

    def step(
        self, held: Sequence[Any], cache: Cache, tokens: Any, counts: Any, width: int = 0
    ) -> tuple[jax.Array, Cache]:
        """Return the logits of the last token of each sequence, FLOAT32, and the cache after it.

        Args:
            held: what `held` returns of the network of these sizes.
            cache: the cache.
            tokens: the next tokens, [batch, length], padded at the end.
            counts: how many tokens of each sequence are there, [batch]; 0 leaves a sequence as it
                is, and its logits are of no use.
            width: the size of the mask, as `width` gives it; 0 is as many as the cache has rows.
        """
        batch, length = tokens.shape
        network = self.network(batch, length, cache["buffers"][0].shape[2], width, True)
        results = network.apply_prepared(held, self._inputs(network, cache, tokens, counts))
        logits = results[self.folder.names["logits"]].reshape(batch, -1).astype(np.float32)
        return logits, self._after(results, cache, tokens, counts)


def zeros(count: int, shape: Sequence[int], dtype: Any, place: Any = None) -> list[jax.Array]:
    """Return equal arrays of zeros. Raises `DmlError` where they do not fit in memory."""
    size = count * math.prod(shape) * np.dtype(dtype).itemsize
    devices = [*place.device_set] if place is not None else jax.devices()[:1]
    free, shares = free_bytes(devices[0]), 1 if devices[0].platform == "cpu" else len(devices)
    if free is not None and size > free * shares:
        rule = f"take at most the {free * shares} bytes that are free (max_length, batch_size)"
        raise DmlError([Fault("", "the cache", rule, size)])
    return [jnp.zeros(shape, dtype, device=place) for _ in range(count)]


def typed(network: Any, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays that are inputs of a network, in the types of these."""
    kinds = network.inputs
    return {n: x.astype(kinds[n].array_dtype) for n, x in arrays.items() if n in kinds}


def _of_one_token(proto: onnx.ModelProto, logits: str, batch: int) -> onnx.ModelProto:
    """Return a decoder that multiplies one token of each sequence by the matrix of the vocabulary.

    The token's place is an input. A decoder whose logits come in another way is left as it is, and
    gives those of the token alone all the same.
    """
    made = deepcopy(proto)
    graph = made.graph
    by_output = {name: (k, node) for k, node in enumerate(graph.node) for name in node.output}
    readers = Counter(name for node in graph.node for name in node.input)
    index, node = by_output[logits]
    weights = {tensor.name for tensor in graph.initializer}
    name = logits
    while node.op_type in _THROUGH and readers[name] <= 1:
        before = [n for n in node.input if n in by_output and by_output[n][1].op_type != "Constant"]
        if len(before) != 1:
            break
        name = before[0]
        index, node = by_output[name]
    graph.input.append(helper.make_tensor_value_info(LAST, onnx.TensorProto.INT64, [batch, 1, 1]))
    is_product = node.op_type in ("MatMul", "MatMulNBits", "Gemm") and node.input[1] in weights
    if is_product:
        read, taken = node.input[0], f"{LAST}.rows"
        node.input[0] = taken
    else:
        index, read, taken = len(graph.node), f"{LAST}.whole", logits
        final = by_output[logits][1]
        final.output[list(final.output).index(logits)] = read
    gather = helper.make_node("GatherND", [read, LAST], [taken], batch_dims=1)
    graph.node.insert(index, gather)
    del graph.value_info[:]
    for value in graph.output:
        if value.name == logits:
            value.type.tensor_type.ClearField("shape")
    return made

"""Decoders: networks of several lengths over one buffer of keys and values.

The buffer has a fixed size. A row of it holds the keys, or values, of one token; how many rows are
filled is an array beside it, so that one program serves every number of tokens. A chunk of tokens
that is padded at its end writes rows that nothing sees, since the next tokens write over them.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from onnx import helper

from dml_jax.errors import DmlError, Expect, Fault, Unquoted
from dml_jax.genai.folder import Folder
from dml_jax.onnx import load_network
from dml_jax.onnx.network import Network
from dml_jax.onnx.options import NetworkOptions
from dml_jax.rewrite import DEFAULT
from dml_jax.rewrite.widening import PRODUCTS

CHUNKS = (256, 32, 1)
"""The lengths of programs: tokens of a prompt are padded to one of these."""

_STEP = 64  # a buffer is a multiple of so many rows
_GROWTH = 16.0  # a FLOAT32 number has eight times the bits of an int4 one, and scales are small
_LAST = "dml_jax.last"
_THROUGH = ("Cast", "Div", "Mul", "Tanh", "Identity")  # of logits: each element by itself

Cache = dict[str, Any]
"""`length`, the filled rows [batch] INT32, and `buffers`, [batch, heads, rows, size] each."""


class Decoder:
    """A decoder of a folder, as a pure function of weights, a cache and tokens.

    Args:
        folder: the folder.
        keeps_int4: whether quantized weights stay as they are, and are unpacked at each call. Else
            they are unpacked once, which takes up to eight times their memory.

    Attributes:
        folder: the folder.
        weights: the weights of the file, by name.
    """

    def __init__(self, folder: Folder, keeps_int4: bool = False):
        self.folder, self.keeps_int4 = folder, keeps_int4
        self._networks: dict[tuple[int, int, int, bool], Network] = {}
        self._weights: Mapping[str, jax.Array] | None = None
        self._prepared: Sequence[jax.Array] | None = None
        self._programs: dict[bool, Any] = {}

    @functools.cached_property
    def _dims(self) -> Mapping[str, Sequence[int]]:
        """Return the sizes of the inputs; 0 for one that has none."""
        found = {}
        for value in self.folder.proto.graph.input:
            tensor = value.type.tensor_type
            found[value.name] = [d.dim_value if d.HasField("dim_value") else 0 for d in tensor.shape.dim]
        return found

    @property
    def heads(self) -> tuple[int, int]:
        """Return the number of heads of the keys, and the size of each."""
        dims, decoder = self._dims[self.folder.caches[0][0]], self.folder.decoder
        heads = dims[1] or int(decoder.get("num_key_value_heads") or 0)
        return heads, dims[3] or int(decoder.get("head_size") or 0)

    @property
    def cache_type(self) -> np.dtype:
        """Return the type of keys and values."""
        name = self.folder.caches[0][0]
        value = next(v for v in self.folder.proto.graph.input if v.name == name)
        return np.dtype(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))

    def rows(self, length: int) -> int:
        """Return the rows of a buffer for sequences of `length` tokens, the padding included."""
        return -(-(length + CHUNKS[1]) // _STEP) * _STEP

    def cache(self, batch: int, rows: int) -> Cache:
        """Return an empty cache."""
        heads, size = self.heads
        shape = (batch, heads, rows, size)
        buffers = [jnp.zeros(shape, self.cache_type) for _ in self.folder.caches]
        return {"length": jnp.zeros(batch, np.int32), "buffers": buffers}

    @property
    def weights(self) -> Mapping[str, jax.Array]:
        """Return the weights of the file, by name."""
        if self._weights is None:
            self.network(1, 1, self.rows(self.folder.context_length))
        assert self._weights is not None
        return self._weights

    def network(self, batch: int, length: int, rows: int, is_last: bool = False) -> Network:
        """Return the network of `length` tokens of each sequence, and a buffer of `rows`.

        `is_last` says that it gives the logits of one token of each sequence, whose place is the
        input 'dml_jax.last'.
        """
        key = (batch, length, rows, is_last and length > 1)
        if key not in self._networks:
            with jax.ensure_compile_time_eval():  # a program may be traced
                self._networks[key] = self._loaded(*key)
        return self._networks[key]

    def _loaded(self, batch: int, length: int, rows: int, is_last: bool) -> Network:
        names, dims = self.folder.names, self._dims
        heads, size = self.heads
        shapes: dict[str, Sequence[int]] = {
            past: (batch, heads, rows, size) for past, _ in self.folder.caches
        }
        sizes = {"input_ids": length, "attention_mask": rows, "position_ids": length}
        shapes |= {names[n]: (batch, count) for n, count in sizes.items() if names[n] in dims}
        proto = self.folder.proto
        if is_last:
            proto = _of_one_token(proto, names["logits"], batch)
        growth = 1.0 if self.keeps_int4 else _GROWTH
        rewrites = (*DEFAULT, *([] if self.keeps_int4 else [PRODUCTS]))
        options = NetworkOptions(
            shapes=shapes, rewrites=rewrites, growth=growth, folder=self.folder.path
        )
        network = load_network(proto, options)
        if self._weights is None:
            self._weights = network.weights
        else:
            network.weights = {name: self._weights[name] for name in network.weights}
        return network

    @property
    def prepared(self) -> Sequence[jax.Array]:
        """Return what `step` takes as weights: in the form in which products are quickest."""
        if self._prepared is None:
            raise DmlError([Fault("", "the decoder", "have run", Unquoted("nothing"))])
        return self._prepared

    def prepare(self, batch: int, rows: int) -> Sequence[jax.Array]:
        """Compute `prepared` if it is not there, and return it."""
        if self._prepared is None:
            network = self.network(batch, 1, rows)
            self._prepared = tuple(network.prepared(network.weights))
            if not self.keeps_int4:
                self._release()
        return self._prepared

    def _release(self) -> None:
        """Leave out weights that the prepared ones stand for."""

    def _inputs(self, network: Network, cache: Cache, tokens: Any) -> dict[str, Any]:
        names, (batch, length) = self.folder.names, tokens.shape
        buffers, start = cache["buffers"], cache["length"].astype(np.int32)
        rows = buffers[0].shape[2]
        places = start[:, None] + jnp.arange(length, dtype=np.int32)[None]
        is_there = jnp.arange(rows, dtype=np.int32)[None] < start[:, None] + np.int32(length)
        most = np.int32(min(rows, self.folder.context_length) - 1)
        made = {
            "input_ids": tokens,
            "attention_mask": is_there,
            "position_ids": jnp.minimum(places, most),
        }
        inputs = {
            names[n]: x.astype(network.inputs[names[n]].array_dtype)
            for n, x in made.items()
            if names[n] in network.inputs
        }
        pasts = [past for past, _ in self.folder.caches]
        return {**inputs, **dict(zip(pasts, buffers, strict=True))}

    def _after(self, results: Mapping[str, Any], cache: Cache, counts: Any) -> Cache:
        buffers = [results[present] for _, present in self.folder.caches]
        return {"length": cache["length"] + counts, "buffers": buffers}

    def decode(self, weights: Mapping[str, Any], cache: Cache, tokens: Any) -> tuple[Any, Cache]:
        """Return the logits of each token, [batch, length, vocabulary], and the cache after them.

        The function is pure, for jax.jit, jax.vmap, jax.lax.scan and jax.grad.

        Args:
            weights: the weights by name, as `weights` has them.
            cache: what `cache` or another call returns.
            tokens: the next tokens, [batch, length].
        """
        tokens = jnp.asarray(tokens)
        self._check(cache, tokens)
        network = self.network(*tokens.shape, cache["buffers"][0].shape[2])
        results = network.apply(weights, self._inputs(network, cache, tokens))
        after = self._after(results, cache, np.int32(tokens.shape[1]))
        return results[self.folder.names["logits"]], after

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
        self, held: Sequence[Any], cache: Cache, tokens: Any, counts: Any
    ) -> tuple[jax.Array, Cache]:
        """Return the logits of the last token of each sequence, FLOAT32, and the cache after it.

        Args:
            held: what `prepare` returns.
            cache: the cache.
            tokens: the next tokens, [batch, length], padded at the end.
            counts: how many tokens of each sequence are there, [batch]; 0 leaves a sequence as it
                is, and its logits are of no use.
        """
        batch, length = tokens.shape
        network = self.network(batch, length, cache["buffers"][0].shape[2], True)
        inputs = self._inputs(network, cache, tokens)
        if length > 1:
            last = jnp.maximum(counts - 1, 0).reshape(batch, 1, 1)
            inputs[_LAST] = last.astype(network.inputs[_LAST].array_dtype)
        results = network.apply_prepared(held, inputs)
        logits = results[self.folder.names["logits"]]
        return logits.reshape(batch, -1).astype(np.float32), self._after(results, cache, counts)


def _of_one_token(proto: onnx.ModelProto, logits: str, batch: int) -> onnx.ModelProto:
    """Return a decoder that multiplies one token of each sequence by the matrix of the vocabulary.

    The token's place is an input. A decoder whose logits come in another way is left as it is, and
    gives those of the token alone all the same.
    """
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    graph = made.graph
    by_output = {name: (k, node) for k, node in enumerate(graph.node) for name in node.output}
    readers: dict[str, int] = {}
    for node in graph.node:
        for name in node.input:
            readers[name] = readers.get(name, 0) + 1
    index, node = by_output[logits]
    weights = {tensor.name for tensor in graph.initializer}
    name = logits
    while node.op_type in _THROUGH and readers.get(name, 0) <= 1:
        before = [n for n in node.input if n in by_output and by_output[n][1].op_type != "Constant"]
        if len(before) != 1:
            break
        name = before[0]
        index, node = by_output[name]
    graph.input.append(helper.make_tensor_value_info(_LAST, onnx.TensorProto.INT64, [batch, 1, 1]))
    is_product = node.op_type in ("MatMul", "MatMulNBits", "Gemm") and node.input[1] in weights
    if is_product:
        taken = f"{_LAST}.rows"
        gather = helper.make_node("GatherND", [node.input[0], _LAST], [taken], batch_dims=1)
        node.input[0] = taken
        graph.node.insert(index, gather)
        del graph.value_info[:]
        for value in graph.output:
            if value.name == logits:
                value.type.tensor_type.ClearField("shape")
        return made
    whole = f"{_LAST}.whole"
    final = by_output[logits][1]
    final.output[list(final.output).index(logits)] = whole
    graph.node.append(helper.make_node("GatherND", [whole, _LAST], [logits], batch_dims=1))
    del graph.value_info[:]
    for value in graph.output:
        if value.name == logits:
            value.type.tensor_type.ClearField("shape")
    return made

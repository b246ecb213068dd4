"""Networks of a decoder by numbers of tokens, with each weight once on the devices.

A network has fixed sizes, and a decoder reads prompts in chunks: it needs one for each length of a
chunk. They are loaded of one model, and have their weights, and what follows from these, in common.
"""

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import NamedTuple

import jax
import numpy as np
import onnx
from jax.sharding import Mesh
from onnx import helper

from dml_jax.errors import DmlError
from dml_jax.genai.errors import refusal
from dml_jax.genai.folder import Folder
from dml_jax.genai.optimum_folders import numbers, whole
from dml_jax.onnx import load_network
from dml_jax.onnx.network import Network
from dml_jax.onnx.options import NetworkOptions
from dml_jax.onnx.tensor_parallel.division import Division, divided
from dml_jax.onnx.tensor_parallel.sharded_network import ShardedNetwork, axis_of, sharded
from dml_jax.rewrite import DEFAULT, MATRICES, PRODUCTS, QUANTIZED, ROWS
from dml_jax.runtime.platform import platform
from dml_jax.runtime.recently_used import RecentlyUsed
from dml_jax.runtime.weight_store import WeightStore

LAST = "dml_jax.last"
"""The input that is the place of the token whose logits a network gives."""

# A network is a graph of some thousand nodes, and a program that is traced needs it no more. So
# many serve the lengths of a chunk for buffers of some sizes and batches of some sizes.
_NETWORKS = 64
_GROWTH = 16.0  # a FLOAT32 number has eight times the bits of an int4 one, and scales are small
_BY_ELEMENT = ("Cast", "Div", "Mul", "Tanh", "Identity")  # between the last product and the logits


class Lengths(NamedTuple):
    """The sizes that tell the networks of a decoder apart.

    Attributes:
        batch: the number of sequences.
        length: the number of tokens of each that it reads.
        rows: the number of tokens that a buffer holds.
        width: the size of the mask.
        is_last: whether it gives the logits of one token of each sequence, whose place is the input
            `LAST`.
    """

    batch: int
    length: int
    rows: int
    width: int
    is_last: bool = False


class DecoderNetworks:
    """The networks of a decoder.

    Args:
        folder: the folder of the decoder.
        shapes: returns the sizes of the inputs of a network, by name.
        keeps_int4: whether quantized weights stay as they are, and are unpacked at each call. Else
            a CPU unpacks them once, which takes up to eight times their memory.
        mesh: the devices that compute the networks together, along one axis; None for one device.
        store: the weights that a decoder of another network of the folder has on the devices.
    """

    def __init__(
        self,
        folder: Folder,
        shapes: Callable[[Lengths], Mapping[str, Sequence[int]]],
        keeps_int4: bool = False,
        mesh: Mesh | None = None,
        store: WeightStore | None = None,
    ):
        self.folder, self.mesh, self.keeps_int4, self._shapes = folder, mesh, keeps_int4, shapes
        self._unpacks = not keeps_int4 and platform() == "cpu"
        # By name: a weight that is read again for another length is another array of the host.
        self.store = WeightStore({}) if store is None else store
        self._networks = RecentlyUsed[Network | ShardedNetwork](_NETWORKS)

    def of(self, lengths: Lengths) -> Network | ShardedNetwork:
        """Return the network of some lengths, which is loaded once."""
        return self._networks.get_or_build(lengths, lambda: self._load(lengths))

    def _load(self, lengths: Lengths) -> Network | ShardedNetwork:
        folder = self.folder
        proto = folder.proto
        if lengths.is_last:
            proto = _of_one_token(proto, folder.names["logits"], lengths.batch)
        # Growth 0 derives nothing from weights: a CPU's products read them as the file has them.
        rewrites, growth = DEFAULT, 0.0
        if self._unpacks:
            rewrites, growth = (*DEFAULT, PRODUCTS), _GROWTH
        elif platform() != "cpu":
            others = (rewrite for rewrite in DEFAULT if rewrite is not MATRICES)
            rewrites, growth = (QUANTIZED, *others, ROWS), 1.0
        # Rows behind the filled ones have no places in tables of places, and nothing sees them: so
        # no index is looked at.
        options = NetworkOptions(
            shapes=self._shapes(lengths),
            rewrites=rewrites,
            growth=growth,
            folder=folder.files,
            looks=False,
        )
        try:
            with jax.ensure_compile_time_eval():  # a program may be traced, whose arrays are none
                if self.mesh is None:
                    network = load_network(proto, options, self.store)
                else:
                    network = sharded(load_network, proto, options, self.mesh, store=self.store)
        except DmlError as error:  # faults of a file's many tensors have one cause
            raise type(error)(error.faults[:1]) from error.__cause__
        if isinstance(network, Network) and folder.caches:
            size, shape = self.heads[1], network.output_types[folder.caches[0][1]].shape
            own = (shape or (0,) * 4)[3]
            if size != own:
                rule = f"be {own}, as in the network"
                raise refusal(f"head_size in {folder.config_name}", rule, size)
        return network

    @property
    def weights(self) -> Mapping[str, jax.Array]:
        """Return the weights that networks have on the devices, by name."""
        return self.store.named or {}

    @property
    def is_loaded(self) -> bool:
        """Return whether there is a network; the weights of another decoder may be there before."""
        return len(self._networks) > 0

    @functools.cached_property
    def input_sizes(self) -> Mapping[str, Sequence[int]]:
        """Return the sizes of the inputs that the file gives, by name; 0 for one that is free."""
        inputs = self.folder.proto.graph.input
        return {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in inputs}

    @property
    def heads(self) -> tuple[int, int]:
        """Return the number of heads of the keys, and the size of each."""
        sizes, decoder = self.input_sizes[self.folder.caches[0][0]], self.folder.decoder
        heads = sizes[1] or whole(decoder, "num_key_value_heads") or 0
        return heads, sizes[3] or whole(decoder, "head_size") or 0

    @property
    def device_heads(self) -> int:
        """Return the number of heads of the keys that a device has."""
        heads = self.heads[0]
        past = self.folder.caches[0][0]
        return heads if self.mesh is None else self.division.caches.get(past, heads)

    @property
    def cache_type(self) -> np.dtype:
        """Return the type of keys and values."""
        name = self.folder.caches[0][0]
        value = next(v for v in self.folder.proto.graph.input if v.name == name)
        return np.dtype(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))

    @functools.cached_property
    def division(self) -> Division:
        """Return how several devices divide the network."""
        assert self.mesh is not None
        axis = axis_of(self.mesh, None)
        return divided(self.folder.proto, self.folder.files, self.mesh.size, axis)

    @functools.cached_property
    def longest_short(self) -> int | None:
        """Return the number of tokens up to which a decoder has other angles; None: it has one set.

        Phi-3 has two sets of rotary angles, and its graph chooses by the size of the mask.
        """
        graph = self.folder.proto.graph
        by_output = {name: node for node in graph.node for name in node.output}
        known = numbers(graph, self.folder.files.array)
        for node in graph.node:
            test = by_output.get(node.input[0]) if node.op_type == "If" and node.input else None
            if test is None or test.op_type != "Greater" or len(test.input) < 2:
                continue
            limit = known.get(test.input[1])
            if isinstance(limit, (int, float)) and abs(limit) < 2**31:
                return int(limit)
        return None

    def input_shapes(
        self, batch: int, length: int, width: int, rows: int
    ) -> Mapping[str, Sequence[int]]:
        """Return the sizes of the inputs of a network, by name.

        They are `length` tokens, a mask of `width` places, and keys and values of `rows` tokens.
        """
        parts = {"input_ids": length, "attention_mask": width, "position_ids": length}
        named = {self.folder.names[part]: (batch, count) for part, count in parts.items()}
        shapes = {name: sizes for name, sizes in named.items() if name in self.input_sizes}
        heads, size = self.heads if self.folder.caches else (0, 0)
        return shapes | {past: (batch, heads, rows, size) for past, _ in self.folder.caches}


def _of_one_token(proto: onnx.ModelProto, logits: str, batch: int) -> onnx.ModelProto:
    """Return a decoder that multiplies one token of each sequence by the matrix of the vocabulary.

    The token's place is an input. A decoder whose logits come in another way is left as it is, and
    gives the logits of that token alone all the same.
    """
    changed = deepcopy(proto)
    graph = changed.graph
    by_output = {name: (k, node) for k, node in enumerate(graph.node) for name in node.output}
    readers = Counter(name for node in graph.node for name in node.input)
    index, node = by_output[logits]
    weights = {tensor.name for tensor in graph.initializer}
    name = logits
    while node.op_type in _BY_ELEMENT and readers[name] <= 1:
        before = [n for n in node.input if n in by_output and by_output[n][1].op_type != "Constant"]
        if len(before) != 1:
            break
        name = before[0]
        index, node = by_output[name]
    graph.input.append(helper.make_tensor_value_info(LAST, onnx.TensorProto.INT64, [batch, 1, 1]))
    is_product = node.op_type in ("MatMul", "MatMulNBits", "Gemm") and len(node.input) > 1
    if is_product and node.input[1] in weights:
        read, chosen = node.input[0], f"{LAST}.rows"
        node.input[0] = chosen
    else:
        index, read, chosen = len(graph.node), f"{LAST}.all", logits
        final = by_output[logits][1]
        final.output[list(final.output).index(logits)] = read
    gather = helper.make_node("GatherND", [read, LAST], [chosen], batch_dims=1)
    graph.node.insert(index, gather)
    # The sizes that the file says of tensors in between are those of all tokens.
    del graph.value_info[:]
    for value in graph.output:
        if value.name == logits:
            value.type.tensor_type.ClearField("shape")
    return changed

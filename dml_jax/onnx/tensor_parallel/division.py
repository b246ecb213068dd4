"""Divides a decoder's graph among devices: the graph that each device computes, and its weights.

Devices have their own heads of attentions and their own columns of MLPs. A node AllReduce adds up
what they computed; all else is the same on all devices.
"""

import math
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper, numpy_helper

from dml_jax.errors import DmlError, Fault, Unquoted
from dml_jax.onnx.files.attributes import MICROSOFT, attribute_value
from dml_jax.onnx.files.external_data import Folder, computed_tensor
from dml_jax.onnx.files.packed_integers import packed_bits, unpacked_bits
from dml_jax.onnx.tensor_parallel.decoder_blocks import (
    ATTENTION,
    COLUMNS,
    KEYS,
    NORM,
    PACKED,
    QUERIES,
    SINK,
    WITH_ANGLES,
    Block,
    Walk,
    attributes_of,
    blocks_of,
    kind_of,
)
from dml_jax.onnx.translators.collectives import AXIS

_UINT8 = onnx.TensorProto.UINT8

Pieces = tuple[tuple[slice, ...], ...]
"""Which parts of an axis each device has."""


@dataclass(frozen=True)
class Cut:
    """How a weight is divided.

    Attributes:
        axis: the axis that is divided.
        pieces: which parts of it each device has.
        shape: the sizes of the array as it is divided.
        bits: of numbers of fewer than 8 bits, packed along the last axis, those of one; else 8.
    """

    axis: int
    pieces: Pieces
    shape: tuple[int, ...]
    bits: int = 8

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the sizes of the part of a device."""
        made = [*self.shape]
        made[self.axis] = _length(self.pieces)
        made[-1] = -(-made[-1] * self.bits // 8) if self.bits < 8 else made[-1]
        return tuple(made)

    def part(self, array: np.ndarray, device: int) -> np.ndarray:
        """Return the part of an array that a device has."""
        whole = array.reshape(*self.shape[:-1], -1)
        whole = whole if self.bits == 8 else unpacked_bits(whole, self.bits)
        before = (slice(None),) * self.axis
        parts = [whole[(*before, piece)] for piece in self.pieces[device]]
        part = parts[0] if len(parts) == 1 else np.concatenate(parts, self.axis)
        part = part if self.bits == 8 else packed_bits(part, self.bits)
        return np.ascontiguousarray(part).reshape(self.sizes)


class _Undivided(Exception):  # noqa: N818
    """Says why a block is not divided."""


@dataclass
class Division:
    """A decoder's graph as each of several devices computes it.

    Attributes:
        proto: the model of one device.
        cuts: the initializer of the whole model and how it is divided, by the name in `proto`.
        caches: how many heads a device has of each input and output of keys or values, by name;
            those are left out that hold all heads on all devices.
        note: what is not divided, and why, in one line; "" where all is.
    """

    proto: onnx.ModelProto
    cuts: dict[str, tuple[str, Cut]] = field(default_factory=dict)
    caches: dict[str, int] = field(default_factory=dict)
    note: str = ""

    def files(self, proto: onnx.ModelProto, files: Folder) -> Folder:
        """Return the files of the first device's model, of the whole model `proto` and `files`."""
        tensors = {t.name: t for t in proto.graph.initializer}
        arrays = {
            name: lambda t=tensors[whole], cut=cut: cut.part(files.array(t), 0)
            for name, (whole, cut) in self.cuts.items()
        }
        return Folder(files.apparent, files.true, arrays=arrays)


def divided(proto: onnx.ModelProto, files: Folder, count: int, axis: str) -> Division:
    """Return a decoder's model with its `files`, divided among `count` devices along `axis`.

    Raises `DmlError` for a model without attentions of keys and values that are kept, and where
    nothing can be divided.
    """
    walk = Walk(proto.graph)
    blocks = blocks_of(walk)
    count_of_all = sum(kind_of(node) == ATTENTION for node in walk.nodes)
    if not 0 < sum(block.heads > 0 for block in blocks) == count_of_all:
        rule = "have nodes GroupQueryAttention, all with past keys and values, between products "
        rule += "of weights (decoders of language models have them; others are not divided)"
        raise DmlError([Fault("shard", "the network", rule, Unquoted("others"))])
    maker = _Maker(proto, files, walk, count, axis)
    kinds = {
        "attention": [b for b in blocks if b.heads],
        "the MLP": [b for b in blocks if not b.heads],
    }
    left: dict[str, str] = {}  # what is left, and why
    for name, own in kinds.items():
        try:
            maker.add(own)
        except _Undivided as reason:
            left[name] = str(reason)
        if not own:
            left[name] = "it has a form that is not known"
    if not maker.parts:
        shown = Unquoted("; ".join(left.values()))
        rule = "divide the heads of an attention or the columns of an MLP"
        raise DmlError([Fault("shard", f"{count} devices", rule, shown)])
    notes = [f"{name} is replicated ({reason})" for name, reason in left.items()]
    notes += [f"{name} is divided" for name in kinds if left and name not in left]
    return maker.division(f"{count} devices: {', '.join(notes)}" if notes else "")


@dataclass
class _Part:
    """What becomes of a node: other initializers by place, and other whole numbers by name."""

    names: dict[int, str] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)


class _Maker:
    """Writes the model of one device."""

    def __init__(self, proto: onnx.ModelProto, files: Folder, walk: Walk, count: int, axis: str):
        self._proto, self._files, self._walk = proto, files, walk
        self._count, self._axis = count, axis
        self._tensors = {t.name: t for t in proto.graph.initializer}
        self._constants: dict[str, np.ndarray] = {}
        self._rows: set[int] = set()
        self._names: set[str] = {*self._tensors}
        self.parts: dict[int, _Part] = {}
        self._division = Division(proto)

    def add(self, blocks: Sequence[Block]) -> None:
        """Divide blocks of one kind. Raises `_Undivided` where one of them cannot be."""
        before = {**self._division.cuts}, {**self._constants}, {*self._names}
        made = dict[int, _Part]()
        try:
            for block in blocks:
                self._check(block)
                made |= {k: self._column(block, k, role) for k, role in block.columns.items()}
                made |= {k: self._row(block, k) for k in block.rows}
                made |= {k: self._inner(block, k, role) for k, role in block.inner.items()}
        except _Undivided:
            self._division.cuts, self._constants, self._names = before
            raise
        self.parts |= made
        for block in blocks:
            self._rows |= {*block.rows}
            if block.attention is not None:
                node = self._walk.nodes[block.attention]
                heads = max(1, block.groups // self._count)
                self._division.caches |= dict.fromkeys((*node.input[3:5], *node.output[1:3]), heads)

    def _check(self, block: Block) -> None:
        count, heads, groups = self._count, block.heads, block.groups
        if heads and (heads % count or (groups % count and count % groups)):
            raise _Undivided(f"{heads} heads of queries and {groups} of keys")
        if not heads and block.width % count:
            raise _Undivided(f"{block.width} columns")

    def _pieces(self, block: Block, role: str) -> Pieces:
        """Return which columns of a product each device has."""
        count, size, width = self._count, block.size, block.width
        own = [slice(d * width // count, (d + 1) * width // count) for d in range(count)]
        if role in (COLUMNS, QUERIES):
            return tuple((piece,) for piece in own)
        each = max(1, block.groups // count)
        first = [d * block.groups // count for d in range(count)]
        keys = [slice(head * size, (head + each) * size) for head in first]
        if role == KEYS:
            return tuple((piece,) for piece in keys)
        starts = (width, width + block.groups * size)
        return tuple(
            (query, *(slice(start + key.start, start + key.stop) for start in starts))
            for query, key in zip(own, keys, strict=True)
        )

    def _cut(self, name: str, cut: Cut) -> str:
        """Return the name of a weight's part in the model of one device."""
        chain = self._walk.chain(name)
        whole, cuts = chain[-1], self._division.cuts
        if whole not in self._tensors:
            raise _Undivided(f"'{name}' is computed")
        if all(len(self._walk.readers[n]) == 1 for n in chain):
            cuts[whole] = whole, cut
            return name
        if len(chain) > 1:
            raise _Undivided(f"several nodes read '{whole}'")
        known = next((n for n, made in cuts.items() if made == (whole, cut)), None)
        made = known or self._unique(f"{whole}.part")
        cuts[made] = whole, cut
        return made

    def _unique(self, name: str) -> str:
        while name in self._names:
            name += "'"
        self._names.add(name)
        return name

    def _column(self, block: Block, k: int, role: str) -> _Part:
        """Return a product that makes the columns of one device."""
        node, (rows, columns) = self._walk.nodes[k], self._walk.matrix(k)
        pieces = self._pieces(block, role)
        if node.op_type == "MatMul":
            return _Part({1: self._cut(node.input[1], Cut(1, pieces, (rows, columns)))})
        names = {
            place: self._cut(node.input[place], Cut(0, pieces, (columns, self._each(k, place))))
            for place in (1, 2, 3, 5)
            if self._walk.has(k, place)
        }
        return _Part(names, {"N": _length(pieces)})

    def _each(self, k: int, place: int) -> int:
        """Return how many elements of an input a column of a quantized matrix has."""
        name = self._walk.nodes[k].input[place]
        sizes = self._walk.sizes.get(self._walk.weight(name) or "", ())
        return math.prod(sizes) // attributes_of(self._walk.nodes[k])["N"]

    def _row(self, block: Block, k: int) -> _Part:
        """Return a product that sums up the columns of one device."""
        node, pieces = self._walk.nodes[k], self._pieces(block, COLUMNS)
        if node.op_type == "MatMul":
            return _Part({1: self._cut(node.input[1], Cut(0, pieces, self._walk.matrix(k)))})
        given = attributes_of(node)
        size, bits = given["block_size"], given.get("bits", 4)
        shape = given["N"], -(-given["K"] // size), size * bits // 8  # the bytes of a block last
        if any(end % size for (piece,) in pieces for end in (piece.start, piece.stop)):
            raise _Undivided(f"blocks of {size} quantized numbers in {block.width} columns")
        if self._walk.has(k, 4):
            raise _Undivided("quantized numbers in an order of their own (g_idx)")
        pieces = tuple((slice(p.start // size, p.stop // size),) for (p,) in pieces)
        names = {1: Cut(1, pieces, shape), 2: Cut(1, pieces, shape[:2])}
        if self._walk.has(k, 3):
            is_packed = self._tensors[self._walk.weight(node.input[3]) or ""].data_type == _UINT8
            names[3] = Cut(1, pieces, shape[:2], bits if is_packed else 8)
        made = {place: self._cut(node.input[place], cut) for place, cut in names.items()}
        return _Part(made, {"K": _length(pieces) * size})

    def _inner(self, block: Block, k: int, role: str) -> _Part:
        """Return a node between the products, for the heads or columns of one device."""
        node, kind = self._walk.nodes[k], kind_of(self._walk.nodes[k])
        if k == block.attention:
            heads, size = self._pieces(block, QUERIES), block.size
            numbers = {"num_heads": _length(heads) // size}
            numbers["kv_num_heads"] = _length(self._pieces(block, KEYS)) // size
            if not self._walk.has(k, SINK):
                return _Part({}, numbers)
            of_heads = tuple((slice(p.start // size, p.stop // size),) for (p,) in heads)
            cut = Cut(0, of_heads, (block.heads,))
            return _Part({SINK: self._cut(node.input[SINK], cut)}, numbers)
        pieces = self._pieces(block, role)
        groups = block.groups * block.size
        whole = {KEYS: groups, PACKED: block.width + 2 * groups}.get(role, block.width)
        if kind == WITH_ANGLES:
            has_heads = attributes_of(node).get("num_heads", 0)
            return _Part({}, {"num_heads": _length(pieces) // block.size} if has_heads else {})
        if kind[1] == "Reshape":
            return _Part({1: self._reshape(node.input[1], block.size, whole, _length(pieces))})
        weights = {p: self._walk.weight(n) for p, n in enumerate(node.input) if n}
        sizes = {p: self._walk.sizes[name] for p, name in weights.items() if name is not None}
        if kind == NORM:
            if sizes[1] != (block.size,):
                raise _Undivided("a normalization of all heads together")
            return _Part()
        names = {}
        for place, shape in sizes.items():
            if all(size == 1 for size in shape):
                continue
            if shape[-1] != whole:
                raise _Undivided(f"'{weights[place]}' has other sizes than the columns")
            names[place] = self._cut(node.input[place], Cut(len(shape) - 1, pieces, shape))
        return _Part(names)

    def _reshape(self, name: str, size: int, whole: int, own: int) -> str:
        """Return the name of the sizes that a node Reshape gives to one device's heads."""
        wanted = [*self._known(name)]
        if wanted[-1] == whole and whole != size:
            wanted[-1] = own
        elif wanted[-1] == size and len(wanted) > 1 and wanted[-2] == whole // size:
            wanted[-2] = own // size
        elif wanted[-1] != size or -1 not in wanted:
            raise _Undivided(f"'{name}' has no sizes of heads")
        made = self._unique(f"{name}.part")
        self._constants[made] = np.array(wanted, np.int64)
        return made

    def _known(self, name: str) -> np.ndarray:
        """Return the elements of an initializer or a Constant."""
        if name in self._tensors:
            return self._files.array(self._tensors[name])
        k = self._walk.writers.get(name)
        if k is None or self._walk.nodes[k].op_type != "Constant":
            raise _Undivided(f"'{name}' is computed")
        return np.asarray(attribute_value(self._walk.nodes[k].attribute[0]))

    def division(self, note: str) -> Division:
        """Return the division; `note` says what is not divided."""
        made = deepcopy(self._proto)
        graph, cuts = made.graph, self._division.cuts
        kept = [t for t in graph.initializer if t.name not in cuts]
        for name, (whole, cut) in cuts.items():
            dtype = helper.tensor_dtype_to_np_dtype(self._tensors[whole].data_type)
            kept.append(computed_tensor(name, dtype, cut.sizes))
        kept += [numpy_helper.from_array(array, name) for name, array in self._constants.items()]
        nodes = [*self._nodes()]
        del graph.initializer[:], graph.node[:], graph.value_info[:]
        graph.initializer.extend(kept)
        graph.node.extend(nodes)
        for value in (*graph.input, *graph.output):
            if value.name in self._division.caches:
                heads = self._division.caches[value.name]
                value.type.tensor_type.shape.dim[1].dim_value = heads
        self._division.proto, self._division.note = made, note
        return self._division

    def _nodes(self) -> Iterator[onnx.NodeProto]:
        """Yield the nodes of one device, each sum of devices after what it adds up."""
        partial, added = set[str](), dict[str, str]()
        for k, node in enumerate(self._walk.nodes):
            own, part = deepcopy(node), self.parts.get(k, _Part())
            for place, name in part.names.items():
                own.input[place] = name
            for attribute in own.attribute:
                if attribute.name in part.numbers:
                    attribute.i = part.numbers[attribute.name]
            has_bias = node.op_type == "MatMulNBits" and self._walk.has(k, 5)
            if k in self._rows and has_bias:  # it is added once, after the sum
                bias, output = own.input[5], own.output[0]
                own.input[5], own.output[0] = "", self._unique(f"{output}.part")
                yield own
                yield self._sum(own.output[0], added)
                yield helper.make_node("Add", [added[own.output[0]], bias], [output])
                continue
            is_product = self._walk.is_product(k) and k not in self.parts and not has_bias
            linear = node.input[:1] if is_product else node.input if node.op_type == "Add" else ()
            if k in self._rows or (linear and partial.issuperset(linear)):
                partial.add(own.output[0])
                yield own
                continue
            for place, name in enumerate(own.input):
                if name in partial:
                    if name not in added:
                        yield self._sum(name, added)
                    own.input[place] = added[name]
            yield own

    def _sum(self, name: str, added: dict[str, str]) -> onnx.NodeProto:
        """Return the node that adds up a tensor of all devices; `added` takes its output."""
        added[name] = self._unique(f"{name}.sum")
        given = {AXIS: self._axis, "name": added[name], "domain": MICROSOFT}
        return helper.make_node("AllReduce", [name], [added[name]], **given)


def _length(pieces: Pieces) -> int:
    """Return how long the part of each device is."""
    return sum(piece.stop - piece.start for piece in pieces[0])

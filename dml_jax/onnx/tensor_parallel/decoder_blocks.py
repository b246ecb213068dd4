"""Blocks of a decoder: attentions and MLPs, each between products by weights.

A block has products that make columns, nodes that compute each head or column by itself, and
products that sum the columns up. So devices may divide the heads or columns among each other, and
add up their sums at the end (Megatron-LM, arXiv:1909.08053, section 3).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx

from dml_jax.onnx.files.attributes import MICROSOFT, attribute_value, domain_of
from dml_jax.onnx.files.topology import read_by

COLUMNS, QUERIES, KEYS, PACKED = "columns", "queries", "keys", "packed"
"""What the columns of a product are: those of an MLP, the heads of queries, the heads of keys or of
values, or all three beside each other."""

_PRODUCTS = {("", "MatMul"), (MICROSOFT, "MatMulNBits")}
ATTENTION = (MICROSOFT, "GroupQueryAttention")
WITH_ANGLES = (MICROSOFT, "RotaryEmbedding")
_OF_EACH = {  # each element by itself
    *(("", name) for name in ("Add", "Cast", "Div", "Elu", "Erf", "Gelu", "HardSigmoid")),
    *(("", name) for name in ("HardSwish", "Identity", "LeakyRelu", "Mish", "Mul", "Neg", "Pow")),
    *(("", name) for name in ("Relu", "Sigmoid", "Softplus", "Sqrt", "Sub", "Swish", "Tanh")),
    *((MICROSOFT, name) for name in ("BiasGelu", "FastGelu", "Gelu", "QuickGelu")),
}
NORM = ("", "SimplifiedLayerNormalization")
SINK = 11  # the input of an attention that has a number for each head
_ATTENTION_INPUTS = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, SINK, 14, 15}


def kind_of(node: onnx.NodeProto) -> tuple[str, str]:
    """Return the domain and the op type of a node."""
    return domain_of(node.domain), node.op_type


def attributes_of(node: onnx.NodeProto) -> dict[str, int]:
    """Return the attributes of a node that are whole numbers."""
    return {a.name: a.i for a in node.attribute if a.type == a.INT}


class Walk:
    """A graph of ONNX, whose nodes are found by what they write and read.

    Args:
        graph: the graph.

    Attributes:
        nodes: the nodes of the graph.
        sizes: the sizes of each initializer, by name.
        types: the type of the elements of each initializer, by name.
        writers: the number of the node that writes a tensor, by name.
        readers: (number of a node, place) of all that read a tensor, by name. The place is that
            among the node's inputs, and behind these for graphs within the node.
        outputs: the names of the outputs of the graph.
    """

    def __init__(self, graph: onnx.GraphProto):
        self.nodes: Sequence[onnx.NodeProto] = graph.node
        self.sizes = {t.name: tuple(t.dims) for t in graph.initializer}
        self.types = {t.name: t.data_type for t in graph.initializer}
        self.writers = {n: k for k, node in enumerate(graph.node) for n in node.output if n}
        self.readers: dict[str, list[tuple[int, int]]] = {}
        for k, node in enumerate(graph.node):
            for place, name in enumerate(read_by(node)):
                self.readers.setdefault(name, []).append((k, place))
        self.outputs = {value.name for value in graph.output}

    def chain(self, name: str) -> list[str]:
        """Return a tensor, what it is cast from, and so on."""
        names = [name]
        while names[-1] in self.writers and self.nodes[self.writers[names[-1]]].op_type == "Cast":
            names.append(self.nodes[self.writers[names[-1]]].input[0])
            if len(names) > len(self.nodes):  # a circle
                break
        return names

    def weight(self, name: str) -> str | None:
        """Return the initializer that a tensor is, or is cast from; None for another tensor."""
        first = self.chain(name)[-1]
        return first if first in self.sizes else None

    def is_number(self, name: str) -> bool:
        """Return whether a tensor is the only element of a node Constant."""
        node = self.nodes[self.writers[name]] if name in self.writers else None
        if node is None or node.op_type != "Constant":
            return False
        return np.size(attribute_value(node.attribute[0])) == 1

    def is_product(self, k: int) -> bool:
        """Return whether a node multiplies what it reads by a matrix of weights."""
        node = self.nodes[k]
        if kind_of(node) not in _PRODUCTS:
            return False
        weight = self.weight(node.input[1])
        return weight is not None and (node.op_type != "MatMul" or len(self.sizes[weight]) == 2)

    def has(self, k: int, place: int) -> bool:
        """Return whether a node has an input at a place."""
        return place < len(self.nodes[k].input) and bool(self.nodes[k].input[place])

    def matrix(self, k: int) -> tuple[int, int]:
        """Return the rows and columns of a product's matrix."""
        node = self.nodes[k]
        if node.op_type == "MatMul":
            rows, columns = self.sizes[self.weight(node.input[1]) or ""]
            return rows, columns
        given = attributes_of(node)
        return given["K"], given["N"]


@dataclass
class Block:
    """An attention or an MLP, by the numbers of its nodes.

    Attributes:
        columns: the products that make the columns, and what these are.
        inner: the nodes between, and what the columns of each are; the attention is among them.
        rows: the products that sum the columns up.
        attention: the node of the attention; None for an MLP.
        heads: the number of heads of the queries; of an MLP, 0.
        groups: the number of heads of the keys; of an MLP, 0.
        width: the number of columns that are summed up.
    """

    columns: dict[int, str] = field(default_factory=dict)
    inner: dict[int, str] = field(default_factory=dict)
    rows: list[int] = field(default_factory=list)
    attention: int | None = None
    heads: int = 0
    groups: int = 0
    width: int = 0

    @property
    def size(self) -> int:
        """Return the number of columns of a head; of an MLP, 1."""
        return self.width // self.heads if self.heads else 1


def blocks_of(walk: Walk) -> list[Block]:
    """Return the attentions and MLPs of a graph, none of which shares a product with another."""
    found: dict[tuple[int, ...], Block] = {}
    for k in range(len(walk.nodes)):
        block = _block(walk, k) if walk.is_product(k) else None
        if block is not None:
            found.setdefault(tuple(sorted(block.rows)), block)
    taken, made = set[int](), list[Block]()
    for block in sorted(found.values(), key=lambda b: (b.attention is None, -len(b.inner))):
        products = {*block.columns, *block.rows}
        if not taken & products:
            taken |= products
            made.append(block)
    return sorted(made, key=lambda block: block.rows)


def _block(walk: Walk, row: int) -> Block | None:
    """Return the block that a product ends; None where what it reads is no such."""
    block = Block(width=walk.matrix(row)[0])
    if not _follow(walk, block, walk.nodes[row].input[0], COLUMNS):
        return None
    if not block.inner or not block.columns:
        return None
    for k in (*block.columns, *block.inner):
        for place, name in enumerate(walk.nodes[k].output):
            if not name or (k == block.attention and place):
                continue
            if name in walk.outputs or not _is_within(walk, block, name):
                return None
    return block if _has_sums(walk, block) and _has_sizes(walk, block) else None


def _follow(walk: Walk, block: Block, name: str, role: str) -> bool:
    """Add what a tensor of columns follows from to a block; return whether that is possible."""
    k = walk.writers.get(name)
    if k is None or block.inner.get(k, role) != role or block.columns.get(k, role) != role:
        return False
    if k in block.inner or k in block.columns:
        return True
    node, kind = walk.nodes[k], kind_of(walk.nodes[k])
    if walk.is_product(k):
        block.columns[k] = role
        return True
    block.inner[k] = role
    if kind == ATTENTION:
        return role == COLUMNS and _follow_attention(walk, block, k)
    if kind in (WITH_ANGLES, NORM, ("", "Reshape")):
        is_there = kind == WITH_ANGLES or walk.weight(node.input[1]) or kind[1] == "Reshape"
        return bool(is_there) and role != COLUMNS and _follow(walk, block, node.input[0], role)
    if kind not in _OF_EACH:
        return False
    read = [n for n in node.input if n and walk.weight(n) is None and not walk.is_number(n)]
    return bool(read) and all(_follow(walk, block, n, role) for n in read)


def _follow_attention(walk: Walk, block: Block, k: int) -> bool:
    """Add an attention to a block, and what its queries, keys and values follow from."""
    node, given = walk.nodes[k], attributes_of(walk.nodes[k])
    names = {place: name for place, name in enumerate(node.input) if name}
    is_known = names.keys() <= _ATTENTION_INPUTS and {3, 4} <= names.keys()
    if block.attention is not None or not is_known:
        return False
    block.attention, block.heads, block.groups = k, given["num_heads"], given["kv_num_heads"]
    if 1 not in names:
        return _follow(walk, block, names[0], PACKED)
    roles = (QUERIES, KEYS, KEYS)
    return all(_follow(walk, block, names[p], role) for p, role in enumerate(roles))


def _is_within(walk: Walk, block: Block, name: str) -> bool:
    """Return whether a block alone reads a tensor; products that do are its rows."""
    for k, place in walk.readers.get(name, ()):
        if k in block.inner:
            continue
        if k in block.columns or place or not walk.is_product(k):
            return False
        if k not in block.rows:
            block.rows.append(k)
    return True


def _has_sums(walk: Walk, block: Block) -> bool:
    """Return whether nodes of the graph read what the rows of a block give, and no others do."""
    names = [walk.nodes[k].output[0] for k in block.rows]
    readers = [(walk.nodes[k], place) for n in names for k, place in walk.readers.get(n, ())]
    are_inputs = all(place < len(node.input) for node, place in readers)
    return bool(names) and are_inputs and walk.outputs.isdisjoint(names)


def _has_sizes(walk: Walk, block: Block) -> bool:
    """Return whether all products of a block have the columns that they should have."""
    if block.heads and block.width % block.heads:
        return False
    groups = block.groups * block.size
    wanted = {COLUMNS: block.width, QUERIES: block.width, KEYS: groups}
    wanted[PACKED] = block.width + 2 * groups
    are_columns = all(walk.matrix(k)[1] == wanted[role] for k, role in block.columns.items())
    return are_columns and all(walk.matrix(k)[0] == block.width for k in block.rows)

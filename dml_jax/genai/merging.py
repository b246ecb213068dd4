"""Folders whose weights are those of another one, with an adapter added to them."""

import shutil
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from dml_jax.errors import Unquoted
from dml_jax.genai.decoder_forms import BufferedDecoder
from dml_jax.genai.errors import as_genai_errors, refusal
from dml_jax.genai.folder import Folder
from dml_jax.genai.lora import Adapter, Products
from dml_jax.genai.model import Model
from dml_jax.onnx.files.external_data import Folder as Files
from dml_jax.onnx.files.external_data import computed_tensor, files_of
from dml_jax.onnx.files.packed_integers import packed_bits, unpacked_bits
from dml_jax.onnx.tensor_parallel.decoder_blocks import Walk, attributes_of


def save_merged(model: Model, adapter: Adapter, path: str | Path, dtype: Any = None) -> None:
    """Write a folder of a model, with an adapter added to its weights: W + A @ B.

    Args:
        model: the model.
        adapter: the adapter.
        path: the folder to write, another one than the model's.
        dtype: float16 stores all weights as FLOAT16, quantized ones too. None keeps their types:
            quantized ones are rounded again, each block with its old scale or a new one, whichever
            is nearer.

    Raises `GenAIError` where a file cannot be written.
    """
    target, folder = Path(path), model.folder
    with as_genai_errors():
        made = folder if dtype is None else _of_floats(folder)
        changes = dict[str, np.ndarray]()
        products = Products(made)
        for name, (a, b) in adapter.pairs.items():
            k = products.nodes[products.keys[name]]
            changes |= _sums(made, products.walk, k, a.astype(np.float64) @ b)
        file = folder.filename
        if Path(file).is_absolute() or ".." in Path(file).parts:
            raise refusal("the decoder's filename", "be a path below the folder", file)
        target.mkdir(parents=True, exist_ok=True)
        network: Any = BufferedDecoder(made).network(1, 1, 64)
        network.save(target / file, changes, dtype=dtype)
        written = {folder.path / file, *files_of(folder.proto, folder.files)}
        for other in folder.path.iterdir():
            if other.is_file() and other not in written:
                shutil.copyfile(other, target / other.name)


def _sums(folder: Folder, walk: Walk, k: int, change: np.ndarray) -> Mapping[str, np.ndarray]:
    """Return the weights of a product by name, whose matrix a change is added to."""
    node, weights = walk.nodes[k], _arrays(folder, walk, k)
    matrix = _matrix(node, weights).astype(np.float64) + change
    is_plain = node.op_type == "MatMul"
    made = {1: matrix.astype(weights[1].dtype)} if is_plain else _quantize(node, matrix, weights)
    return {walk.weight(node.input[place]) or "": array for place, array in made.items()}


def _arrays(folder: Folder, walk: Walk, k: int) -> dict[int, np.ndarray]:
    """Return the weights of a product, by their places among its inputs."""
    tensors = {tensor.name: tensor for tensor in folder.proto.graph.initializer}
    names = {place: walk.weight(n) for place, n in enumerate(walk.nodes[k].input) if n}
    return {p: folder.files.array(tensors[n]) for p, n in names.items() if n is not None}


def _of_floats(folder: Folder) -> Folder:
    """Return a folder whose quantized matrices are numbers of the type of their scales."""
    proto = deepcopy(folder.proto)
    walk, graph, arrays = Walk(folder.proto.graph), proto.graph, dict[str, Any]()
    nodes, left = list[onnx.NodeProto](), set[str]()
    for k, node in enumerate(graph.node):
        if node.op_type != "MatMulNBits" or not walk.is_product(k):
            nodes.append(node)
            continue
        name, (rows, columns) = f"{node.input[1]}.whole", walk.matrix(k)
        dtype = helper.tensor_dtype_to_np_dtype(walk.types[walk.weight(node.input[2]) or ""])

        def matrix(k: int = k, dtype: Any = dtype) -> np.ndarray:
            made = _matrix(walk.nodes[k], _arrays(folder, walk, k))
            return np.ascontiguousarray(made).astype(dtype)

        arrays[name] = matrix
        graph.initializer.append(computed_tensor(name, dtype, (rows, columns)))
        left |= {*node.input[1:5]}
        output = node.output[0]
        has_bias = walk.has(k, 5)
        product = f"{output}.product" if has_bias else output
        nodes.append(helper.make_node("MatMul", [node.input[0], name], [product], node.name))
        if has_bias:
            nodes.append(helper.make_node("Add", [product, node.input[5]], [output]))
    read = {name for node in nodes for name in node.input}
    kept = [t for t in graph.initializer if t.name not in left or t.name in read]
    del graph.node[:], graph.initializer[:], graph.value_info[:]
    graph.node.extend(nodes)
    graph.initializer.extend(kept)
    return folder.having(proto, Files(folder.files.apparent, folder.files.true, arrays=arrays))


def _blocks(node: onnx.NodeProto) -> tuple[int, int, int, int, int]:
    """Return the columns, blocks, numbers of a block, rows and bits of a quantized matrix."""
    given = attributes_of(node)
    block = given["block_size"]
    return given["N"], -(-given["K"] // block), block, given["K"], given.get("bits", 4)


def _matrix(node: onnx.NodeProto, weights: Mapping[int, np.ndarray]) -> np.ndarray:
    """Return the matrix [K, N] of a product."""
    if node.op_type == "MatMul":
        return weights[1]
    columns, blocks, _, rows, bits = _blocks(node)
    whole = unpacked_bits(weights[1].reshape(columns, blocks, -1), bits).astype(np.float32)
    scale = weights[2].reshape(columns, blocks, 1).astype(np.float32)
    zero = _zeros(weights.get(3), columns, blocks, bits)
    if 4 in weights:  # each row has a block of its own
        places = weights[4][:rows]
        whole = whole.reshape(columns, -1)[:, :rows]
        return ((whole - zero[:, places, 0]) * scale[:, places, 0]).T
    return ((whole - zero) * scale).reshape(columns, -1)[:, :rows].T


def _zeros(given: np.ndarray | None, columns: int, blocks: int, bits: int) -> np.ndarray:
    """Return the zero points, [columns, blocks, 1]."""
    if given is None:
        return np.full((columns, blocks, 1), 1 << (bits - 1), np.float32)
    zero = given.reshape(columns, -1)
    zero = unpacked_bits(zero, bits)[:, :blocks] if zero.dtype == np.uint8 else zero
    return zero.reshape(columns, blocks, 1).astype(np.float32)


def _quantize(
    node: onnx.NodeProto, matrix: np.ndarray, weights: Mapping[int, np.ndarray]
) -> dict[int, np.ndarray]:
    """Return the quantized form of a matrix [K, N], by the places among the node's inputs.

    A block has its old scale and zero point, or new ones: whichever numbers are nearer.
    """
    columns, blocks, block, rows, bits = _blocks(node)
    most, middle = (1 << bits) - 1, 1 << (bits - 1)
    if 4 in weights:
        rule = "have no order of their own (g_idx): save the folder as FLOAT16"
        raise refusal(f"the blocks of '{node.name}'", rule, Unquoted("one"))
    filled = np.pad(matrix.T, ((0, 0), (0, blocks * block - rows)))
    values = filled.reshape(columns, blocks, block)
    old = weights[2].reshape(columns, blocks, 1).astype(np.float64)
    zero = _zeros(weights.get(3), columns, blocks, bits).astype(np.float64)
    if 3 in weights:
        low, high = np.minimum(values.min(-1, keepdims=True), 0), values.max(-1, keepdims=True)
        new = (np.maximum(high, 0) - low) / most
        new = np.where(new == 0, 1, new)
        new_zero = np.clip(np.round(-low / new), 0, most)
    else:
        place = np.abs(values).argmax(-1)[..., None]
        new = np.take_along_axis(values, place, -1) / -middle
        new, new_zero = np.where(new == 0, 1, new), zero
    new = new.astype(weights[2].dtype).astype(np.float64)
    found = []
    for scale, offset in ((old, zero), (new, new_zero)):
        safe = np.where(scale == 0, 1, scale)
        whole = np.clip(np.round(values / safe + offset), 0, most)
        found.append((np.square((whole - offset) * scale - values).sum(-1, keepdims=True), whole))
    is_new = found[1][0] < found[0][0]
    made = {1: packed_bits(np.where(is_new, found[1][1], found[0][1]).astype(np.uint8), bits)}
    made[2] = np.where(is_new, new, old)
    if 3 in weights:
        zeros = np.where(is_new, new_zero, zero)[..., 0]
        is_packed = weights[3].dtype == np.uint8
        made[3] = packed_bits(zeros.astype(np.uint8), bits) if is_packed else zeros
    return {p: x.reshape(weights[p].shape).astype(weights[p].dtype) for p, x in made.items()}

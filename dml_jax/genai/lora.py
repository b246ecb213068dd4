"""Adapters: changes of low rank to the products of a decoder, in files as PEFT has them.

    y = x @ W + x @ A @ B,    W [K, N], A [K, rank], B [rank, N]

Source: Hu et al., LoRA (arXiv:2106.09685); the checkpoint format of Hugging Face's PEFT.
"""

import json
import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import onnx
from onnx import helper, numpy_helper

from dml_jax.errors import Expect, Unquoted, nearest
from dml_jax.genai.errors import fitting, refusal
from dml_jax.genai.folder import Folder
from dml_jax.genai.optimum_folders import members, whole
from dml_jax.onnx.tensor_parallel.decoder_blocks import Walk
from dml_jax.system.files import read_bytes, write_whole
from dml_jax.system.unchanged_programs import need

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""The products of a layer, as PEFT's `target_modules` names them."""

_FUSED = {"qkv_proj": PROJECTIONS[:3], "gate_up_proj": PROJECTIONS[4:6]}
_PART_OF = {part: whole for whole, parts in _FUSED.items() for part in parts}
_IN_LAYER = re.compile(r"\blayers\.(\d+)\..*?(\w+_proj)$")
_TYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": jnp.bfloat16}
_ALLOWED = {"peft_type": ("LORA",), "bias": ("none", None)}
_ALLOWED |= {"use_dora": (False, None), "fan_in_fan_out": (False, None)}
_FITTING = fitting("the adapter", "fit the decoder")
_COSTLY = re.compile(r"\(\?|\)[*+?{]")  # in a pattern: it may look at 2^n ways to divide a name

Pair = tuple[np.ndarray, np.ndarray]
"""A [K, rank] and B [rank, N] of a product."""


def key_of(name: str) -> str | None:
    """Return the name of a product without what folders call differently: 'layers.0.q_proj'."""
    found = _IN_LAYER.search(name)
    if found:
        return f"layers.{found[1]}.{found[2]}"
    return "lm_head" if name.endswith("lm_head") else None


class Products:
    """The products by weights of the decoder of `folder`, by `key_of` their names.

    Attributes:
        walk: the graph.
        nodes: the number of the node of each product.
        keys: the products by their names in the graph: 'model.layers.0.attn.q_proj'.
    """

    def __init__(self, folder: Folder):
        self.walk, self._decoder = Walk(folder.proto.graph), folder.decoder
        self.is_fused = folder.type.startswith("phi3")  # Transformers has them so
        self.nodes, names = dict[str, int](), dict[str, str]()
        for k, node in enumerate(self.walk.nodes):
            name = ".".join(node.name.strip("/").split("/")[:-1])
            key = key_of(name) if self.walk.is_product(k) else None
            if key is not None:
                self.nodes[key], names[key] = k, name
        self.keys = {name: key for key, name in names.items()}

    def sizes(self, key: str) -> tuple[int, int]:
        """Return the rows and columns of a product's matrix."""
        return self.walk.matrix(self.nodes[key])

    def dtype(self, key: str) -> np.dtype:
        """Return the type of what a product computes."""
        node = self.walk.nodes[self.nodes[key]]
        name = node.input[1 if node.op_type == "MatMul" else 2]
        if name in self.walk.writers:  # a cast weight
            to = self.walk.nodes[self.walk.writers[name]].attribute[0].i
        else:
            to = self.walk.types[name]
        return helper.tensor_dtype_to_np_dtype(to)

    def widths(self, key: str) -> list[int]:
        """Return the columns of each part of a fused product."""
        layer, name = key.rpartition(".")[::2]
        parts = [f"{layer}.{part}" for part in _FUSED[name]]
        if parts[0] in self.nodes:
            return [self.sizes(part)[1] for part in parts]
        _, columns = self.sizes(key)
        if name == "qkv_proj":
            heads = whole(self._decoder, "num_attention_heads") or 1
            groups = whole(self._decoder, "num_key_value_heads") or 1
            size = columns // (heads + 2 * groups)
            return [heads * size, groups * size, groups * size]
        return [columns // 2] * 2


class Adapter:
    """A change of low rank to some products of a decoder.

    Args:
        folder: the folder of the decoder.
        pairs: A and B by the names that products have in the graph: 'model.layers.0.attn.q_proj'.

    Raises `DmlError` for a product that the decoder has not, and for other sizes.
    """

    def __init__(self, folder: Folder, pairs: Mapping[str, Pair]):
        self._folder, self._products = folder, Products(folder)
        self.pairs, expect, known = dict(pairs), Expect(""), self._products.keys
        for name, (a, b) in pairs.items():
            rule = f"be a product of the decoder{nearest(name, known)}"
            if expect(name in known, "an adapter's product", rule, name):
                rows, columns = self._products.sizes(known[name])
                rule = f"be [{rows}, rank] and [rank, {columns}]"
                fits = a.shape == (rows, a.shape[-1]) and b.shape == (a.shape[-1], columns)
                shown = Unquoted(f"{list(a.shape)} and {list(b.shape)}")
                expect(fits, f"A and B of '{name}'", rule, shown)
        expect(bool(pairs), "an adapter", "change one product or more", Unquoted("none"))
        expect.check()

    @classmethod
    def new(
        cls, folder: Folder, rank: int = 8, targets: Iterable[str] = PROJECTIONS, seed: int = 0
    ) -> "Adapter":
        """Return an adapter to train, which changes nothing yet: A is random, and B is 0.

        Args:
            folder: the folder of the decoder, `model.folder`.
            rank: the columns of each A.
            targets: the products of each layer that are changed, of `PROJECTIONS`.
            seed: of the random numbers, which are uniform in [-1, 1) / sqrt(K), as in PEFT.

        Raises `DmlError` where the decoder has no such products.
        """
        products, draw, pairs = Products(folder), np.random.default_rng(seed), dict[str, Pair]()
        wanted = {*targets}
        wanted |= {_PART_OF[name] for name in wanted & _PART_OF.keys()}
        for name, key in products.keys.items():
            if key.rpartition(".")[2] in wanted:
                rows, columns = products.sizes(key)
                a = draw.uniform(-1, 1, (rows, rank)).astype(np.float32) / math.sqrt(rows)
                pairs[name] = a, np.zeros((rank, columns), np.float32)
        return cls(folder, pairs)

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """Return A and B as the weights of an adapted decoder, by name."""
        named = dict[str, np.ndarray]()
        for name, pair in self.pairs.items():
            named |= dict(zip(_names(name), pair, strict=True))
        return named

    def of(self, weights: Mapping[str, Any]) -> "Adapter":
        """Return the adapter with other values, as a training makes them of `weights`."""
        pairs = {
            name: tuple(np.asarray(weights[n], np.float32) for n in _names(name))
            for name in self.pairs
        }
        return Adapter(self._folder, pairs)  # pyright: ignore[reportArgumentType]

    @_FITTING
    def applied(self) -> onnx.ModelProto:
        """Return the decoder's model with the adapter beside its products."""
        made, products = deepcopy(self._folder.proto), self._products
        graph = made.graph
        by_node = {products.nodes[products.keys[name]]: name for name in self.pairs}
        nodes = list[onnx.NodeProto]()
        for k, node in enumerate(graph.node):
            nodes.append(node)
            if k not in by_node:
                continue
            name, output = by_node[k], node.output[0]
            names, dtype = _names(name), products.dtype(products.keys[name])
            base, low, change = (f"{name}.lora.{part}" for part in ("base", "low", "change"))
            node.output[0] = base
            nodes.append(helper.make_node("MatMul", [node.input[0], names[0]], [low]))
            nodes.append(helper.make_node("MatMul", [low, names[1]], [change]))
            nodes.append(helper.make_node("Add", [base, change], [output]))
            for own, array in zip(names, self.pairs[name], strict=True):
                graph.initializer.append(numpy_helper.from_array(array.astype(dtype), own))
        del graph.node[:]
        graph.node.extend(nodes)
        return made

    def save(self, path: str | Path) -> None:
        """Write the folder `path`: adapter_model.safetensors and adapter_config.json, as PEFT does.

        Products that are one here and several in Transformers, or several here and one there, are
        written as they are there.
        """
        need("safetensors", "read and write adapters", "genai")
        from safetensors.numpy import save

        products = self._products
        own = {products.keys[name]: pair for name, pair in self.pairs.items()}

        def is_there(key: str) -> bool:  # in Transformers
            name = key.rpartition(".")[2]
            return name not in (_PART_OF if products.is_fused else _FUSED)

        pairs = dict(_pairs_by_product(products, own, is_there))
        rank = max(a.shape[1] for a, _ in pairs.values())
        tensors = dict[str, np.ndarray]()
        for key, (a, b) in pairs.items():
            for letter, matrix in (("A", a.T), ("B", b)):  # padded along the rank
                padded = np.pad(matrix, ((0, rank - len(matrix)), (0, 0)))
                array = np.ascontiguousarray(padded if letter == "A" else padded.T, np.float32)
                tensors[f"base_model.model.{_module(key)}.lora_{letter}.weight"] = array
        config = {
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "r": rank,
            "lora_alpha": rank,
            "target_modules": sorted({key.rpartition(".")[2] for key in pairs}),
            "lora_dropout": 0.0,
            "bias": "none",
            "inference_mode": True,
            "base_model_name_or_path": None,
        }
        data, text = save(tensors), json.dumps(config, indent=2) + "\n"
        write_whole(Path(path) / WEIGHTS, lambda file: file.write(data))
        write_whole(Path(path) / CONFIG, lambda file: file.write(text.encode()))

    @classmethod
    @_FITTING
    @np.errstate(over="raise", invalid="raise")
    def load(cls, path: str | Path, folder: Folder) -> "Adapter":
        """Return the adapter in a folder of PEFT's.

        Args:
            path: the folder, or the file adapter_model.safetensors in it.
            folder: the folder of the decoder.

        Raises `DmlError` where a file is missing or broken, where it is no LoRA of products, and
        where the decoder has no such products.
        """
        path = Path(path)
        place = path.parent if path.suffix == ".safetensors" else path
        file = path if path.suffix == ".safetensors" else path / WEIGHTS
        config = _config(place / CONFIG)
        tensors, products = _tensors(file), Products(folder)
        given, expect = dict[str, dict[str, np.ndarray]](), Expect("")
        for name, array in tensors.items():
            if name.endswith(".base_layer.weight"):  # the decoder's own, which PEFT adds
                continue
            module, _, letter = name.removesuffix(".weight").rpartition(".lora_")
            key = key_of(module)
            rule = "be lora_A or lora_B of a layer's product or of lm_head"
            fits = key is not None and letter in ("A", "B") and array.ndim == 2
            if expect(fits, f"a tensor of '{file}'", rule, name) and key is not None:
                given.setdefault(key, {})[letter] = array.T.astype(np.float32)
        for key, pair in given.items():
            rule = f"have lora_A and lora_B of '{key}'"
            expect(len(pair) == 2, f"the file '{file}'", rule, Unquoted("one of them"))
        expect.check()
        scales = {key: _scale(config, key, pair["A"].shape[1]) for key, pair in given.items()}
        pairs = {key: (pair["A"], pair["B"] * scales[key]) for key, pair in given.items()}
        placed = _pairs_by_product(products, pairs, products.nodes.__contains__)
        names = {key: name for name, key in products.keys.items()}
        return cls(folder, {names.get(key, key): pair for key, pair in placed})


def _names(product: str) -> tuple[str, str]:
    """Return the names of the weights A and B of a product."""
    return f"{product}.lora_A.weight", f"{product}.lora_B.weight"


def _module(key: str) -> str:
    """Return the name of a product in Transformers."""
    layer, name = key.rpartition(".")[::2]
    if not layer:
        return key
    is_attention = name in ("o_proj", "qkv_proj", *_FUSED["qkv_proj"])
    return f"model.{layer}.{'self_attn' if is_attention else 'mlp'}.{name}"


def _concatenate(parts: Mapping[str, Pair], names: Sequence[str], widths: Sequence[int]) -> Pair:
    """Return A and B of products beside each other, of those of some of them."""
    a = np.concatenate([parts[name][0] for name in names if name in parts], 1)
    b, row, column = np.zeros((a.shape[1], sum(widths)), a.dtype), 0, 0
    for name, width in zip(names, widths, strict=True):
        if name in parts:
            own = parts[name][1]
            b[row : row + len(own), column : column + width] = own
            row += len(own)
        column += width
    return a, b


def _pairs_by_product(
    products: Products, pairs: Mapping[str, Pair], is_there: Callable[[str], bool]
) -> Iterator[tuple[str, Pair]]:
    """Yield (key, A and B) of products that are there, of `pairs` of which some are other ones."""
    fused = dict[str, dict[str, Pair]]()
    for key, (a, b) in pairs.items():
        layer, name = key.rpartition(".")[::2]
        whole = f"{layer}.{_PART_OF.get(name)}"
        parts = [f"{layer}.{part}" for part in _FUSED.get(name, ())]
        if not is_there(key) and name in _PART_OF and is_there(whole):
            fused.setdefault(whole, {})[name] = a, b
        elif not is_there(key) and parts and is_there(parts[0]):
            ends = np.cumsum(products.widths(key))[:-1]
            yield from ((p, (a, own)) for p, own in zip(parts, np.split(b, ends, 1), strict=True))
        else:
            yield key, (a, b)
    for key, found in fused.items():
        yield key, _concatenate(found, _FUSED[key.rpartition(".")[2]], products.widths(key))


def _scale(config: Mapping[str, Any], key: str, rank: int) -> float:
    """Return what multiplies A @ B: alpha / rank, or alpha / sqrt(rank) for rsLoRA."""
    matching = (v for k, v in config["alpha_pattern"].items() if k.search(_module(key)))
    alpha = float(next(matching, config.get("lora_alpha", rank)))
    return alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)


def _config(path: Path) -> dict[str, Any]:
    """Return an adapter_config.json. Raises `DmlError` for another kind of adapter than LoRA."""
    config, expect, where = members(read_bytes(path), path), Expect(""), f"in '{path}'"
    for name, allowed in _ALLOWED.items():
        value = config.get(name)
        expect(value in allowed, f"{name} {where}", f"be {allowed[0]!r}", value)
    left = config.get("modules_to_save")
    expect(not left, f"modules_to_save {where}", "be left out", left)
    patterns = config.get("alpha_pattern") or {}
    for text in patterns:
        is_quick = not _COSTLY.search(text) and len(re.findall(r"[*+?{|]", text)) <= 3
        rule = "have at most 3 of the signs * + ? { |, and none of them behind a parenthesis"
        expect(is_quick, f"a name in alpha_pattern {where}", rule, text)
    expect.check()
    with warnings.catch_warnings(action="ignore", category=FutureWarning):  # of sets within sets
        made = {re.compile(rf"(^|\.){k}$"): patterns[k] for k in patterns}
    return {**config, "alpha_pattern": made}


def _tensors(path: Path) -> dict[str, np.ndarray]:
    """Return the tensors of a file by name."""
    need("safetensors", "read and write adapters", "genai")
    from safetensors import SafetensorError, deserialize

    where = f"the file '{path}'"
    try:
        found = deserialize(read_bytes(path))
    except SafetensorError as error:
        raise refusal(where, "be of safetensors", Unquoted(error)) from None
    made = {}
    for name, tensor in found:
        kind = tensor["dtype"]
        if kind not in _TYPES:
            rule = f"have tensors of {', '.join(_TYPES)}"
            raise refusal(where, rule, Unquoted(f"{kind} ('{name}')"))
        made[name] = np.frombuffer(tensor["data"], _TYPES[kind]).reshape(tensor["shape"])
    return made

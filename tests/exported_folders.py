"""Small folders of language models with random weights, in the form of optimum's exports."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from language_folders import VOCABULARY, write_tokenizer
from onnx import TensorProto, helper, numpy_helper

WIDTH, HEADS, SIZE, LAYERS, CONTEXT = 16, 2, 8, 2, 128
SOURCE, CHANNELS = 8, 4  # results of the encoder of sound, and the rows of its features
_LOW = -1e9


class _Graph:
    """Nodes and weights of a network, as they are added."""

    def __init__(self, seed: int):
        self._draw, self._count = np.random.default_rng(seed), 0
        self.nodes, self.weights = list[Any](), dict[str, np.ndarray]()

    def add(self, op_type: str, *inputs: str, to: str = "", **attributes: Any) -> str:
        """Add a node; return the name of its output."""
        self._count += 1
        name = to or f"x{self._count}"
        self.nodes.append(helper.make_node(op_type, list(inputs), [name], **attributes))
        return name

    def held(self, value: Any, kind: Any = np.int64) -> str:
        """Add a constant; return its name."""
        self._count += 1
        self.weights[f"c{self._count}"] = np.array(value, kind)
        return f"c{self._count}"

    def weight(self, *sizes: int) -> str:
        """Add random weights; return their name."""
        return self.held(self._draw.standard_normal(sizes) / sizes[0] ** 0.25, np.float32)

    def size(self, name: str, axis: int) -> str:
        """Return a size of a tensor, [1]."""
        return self.add("Gather", self.add("Shape", name), self.held([axis]), axis=0)

    def heads(self, x: str) -> str:
        """Return [batch, length, width] as [batch, heads, length, size]."""
        parts = self.add("Reshape", x, self.held([0, 0, HEADS, SIZE]))
        return self.add("Transpose", parts, perm=[0, 2, 1, 3])

    def attention(self, x: str, keys: str, values: str, bias: str = "") -> str:
        """Return what queries of x attend to."""
        queries = self.heads(self.add("MatMul", x, self.weight(WIDTH, WIDTH)))
        scores = self.add("MatMul", queries, self.add("Transpose", keys, perm=[0, 1, 3, 2]))
        scores = self.add("Mul", scores, self.held(SIZE**-0.5, np.float32))
        scores = self.add("Add", scores, bias) if bias else scores
        made = self.add("MatMul", self.add("Softmax", scores, axis=-1), values)
        rows = self.add("Transpose", made, perm=[0, 2, 1, 3])
        return self.add(
            "MatMul", self.add("Reshape", rows, self.held([0, 0, WIDTH])), self.weight(WIDTH, WIDTH)
        )

    def wide(self, x: str) -> str:
        """Return an MLP of x, added to it."""
        inner = self.add("Relu", self.add("MatMul", x, self.weight(WIDTH, 32)))
        return self.norm(self.add("Add", x, self.add("MatMul", inner, self.weight(32, WIDTH))))

    def norm(self, x: str) -> str:
        """Return the layer normalization of x."""
        ones = self.held(np.ones(WIDTH), np.float32)
        return self.add("LayerNormalization", x, ones, axis=-1, epsilon=1e-5)

    def save(self, path: Path, inputs: list[Any], outputs: list[Any]) -> None:
        """Write the network."""
        path.parent.mkdir(parents=True, exist_ok=True)
        weights = [numpy_helper.from_array(a, n) for n, a in self.weights.items()]
        graph = helper.make_graph(self.nodes, "network", inputs, outputs, weights)
        opsets = [helper.make_opsetid("", 18)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)


def _value(name: str, kind: int, *sizes: Any) -> Any:
    return helper.make_tensor_value_info(name, kind, sizes)


def write_decoder(
    path: Path, positions: str = "given", mask: bool = True, past: bool = True, source: str = ""
) -> None:
    """Write a decoder of two layers.

    Args:
        path: the file.
        positions: where the tokens' places come from: "given", an input; "mask", the sum of the
            mask; "size", the size of the past; "row", a row of the table at that size.
        mask: whether it has an attention mask.
        past: whether it has keys and values of earlier tokens.
        source: "mask" or "plain": whether it reads an encoder's results, under a mask.
    """
    graph, whole, int64 = _Graph(0), TensorProto.FLOAT, TensorProto.INT64
    add, held = graph.add, graph.held
    inputs = [_value("input_ids", int64, "batch", "length")]
    length = graph.size("input_ids", 1)
    first = graph.size("past_key_values.0.key", 2) if past else held([0])
    total = add("Add", first, length)
    zero, one = held(0), held(1)
    scalar = held([0])
    every = add("Range", zero, add("Squeeze", total, scalar), one)
    own = add("Slice", every, first, total)
    if mask:
        inputs.append(_value("attention_mask", int64, "batch", "total"))
    if positions == "given":
        inputs.append(_value("position_ids", int64, "batch", "length"))
        places = "position_ids"
    elif positions == "mask":
        sums = add("Sub", add("CumSum", "attention_mask", held(1)), held(1))
        sums = add("Max", sums, held(0))
        places = add("Slice", sums, first, total, held([1]))
    else:
        places = add("Unsqueeze", own, held([0]))
    seen = add("LessOrEqual", every, add("Unsqueeze", own, held([1])))  # [length, total]
    seen = add("Unsqueeze", seen, held([0, 1]))
    if mask:
        there = graph.add("Equal", "attention_mask", held(1))
        seen = add("And", seen, add("Unsqueeze", there, held([1, 2])))
    bias = add("Where", seen, held(0, np.float32), held(_LOW, np.float32))
    x = add("Gather", graph.weight(VOCABULARY, WIDTH), "input_ids")
    table = graph.weight(CONTEXT, WIDTH)
    if positions == "row":
        x = add("Add", x, add("Slice", table, first, total, held([0])))
    else:
        x = add("Add", x, add("Gather", table, places))
    cross = ""
    if source:
        inputs.append(_value("encoder_hidden_states", whole, "batch", "source", WIDTH))
    if source == "mask":
        inputs.append(_value("encoder_attention_mask", int64, "batch", "source"))
        there = add("Unsqueeze", add("Equal", "encoder_attention_mask", held(1)), held([1, 2]))
        cross = add("Where", there, held(0, np.float32), held(_LOW, np.float32))
    outputs = [_value("logits", whole, "batch", "length", VOCABULARY)]
    for k in range(LAYERS):
        kept = []
        for part in ("key", "value"):
            made = graph.heads(add("MatMul", x, graph.weight(WIDTH, WIDTH)))
            if past:
                name = f"past_key_values.{k}.{part}"
                inputs.append(_value(name, whole, "batch", HEADS, "past", SIZE))
                made = add("Concat", name, made, axis=2, to=f"present.{k}.{part}")
                outputs.append(_value(made, whole, "batch", HEADS, "total", SIZE))
            kept.append(made)
        x = graph.norm(add("Add", x, graph.attention(x, *kept, bias)))
        if source:
            read = "encoder_hidden_states"
            kept = [graph.heads(add("MatMul", read, graph.weight(WIDTH, WIDTH))) for _ in "kv"]
            x = graph.norm(add("Add", x, graph.attention(x, *kept, cross)))
        x = graph.wide(x)
    add("MatMul", x, graph.weight(WIDTH, VOCABULARY), to="logits")
    graph.save(path, inputs, outputs)


def write_encoder(path: Path, is_sound: bool) -> None:
    """Write an encoder of text, or of features of sound."""
    graph, int64 = _Graph(1), TensorProto.INT64
    if is_sound:
        sizes = ("batch", CHANNELS, 2 * SOURCE)
        inputs = [_value("input_features", TensorProto.FLOAT, *sizes)]
        kernel = graph.weight(WIDTH, CHANNELS, 3)
        x = graph.add("Conv", "input_features", kernel, strides=[2], pads=[1, 1])
        x, bias = graph.add("Transpose", x, perm=[0, 2, 1]), ""
    else:
        names = ("input_ids", "attention_mask")
        inputs = [_value(name, int64, "batch", "source") for name in names]
        x = graph.add("Gather", graph.weight(VOCABULARY, WIDTH), "input_ids")
        there = graph.add("Equal", "attention_mask", graph.held(1))
        there = graph.add("Unsqueeze", there, graph.held([1, 2]))
        bias = graph.add("Where", there, graph.held(0, np.float32), graph.held(_LOW, np.float32))
    kept = [graph.heads(graph.add("MatMul", x, graph.weight(WIDTH, WIDTH))) for _ in "kv"]
    x = graph.add("Add", x, graph.attention(x, *kept, bias))
    graph.wide(x)
    graph.nodes[-1].output[0] = "last_hidden_state"
    outputs = [_value("last_hidden_state", TensorProto.FLOAT, "batch", "source", WIDTH)]
    graph.save(path, inputs, outputs)


def write_config(folder: Path, **values: Any) -> Path:
    """Write config.json and a tokenizer; return the folder."""
    config = {
        "model_type": "tiny",
        "vocab_size": VOCABULARY,
        "num_hidden_layers": LAYERS,
        "max_position_embeddings": CONTEXT,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
    }
    (folder / "config.json").write_text(json.dumps({**config, **values}))
    write_tokenizer(folder)
    return folder

"""Small folders of language models with random weights, in the form of ONNX Runtime GenAI."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import dml_jax.genai as og
from dml_jax.genai.folder import merge_json

MICROSOFT = "com.microsoft"
TEXTS = ["the quick brown fox jumps over the lazy dog", "user: hello, how are you?", "é 東京 🙂"]
TEMPLATE = (
    "{% for m in messages %}<{{ m['role'] }}> {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant> {% endif %}"
)
VOCABULARY, WIDTH, HEADS, GROUPS, SIZE, CONTEXT = 320, 32, 2, 1, 16, 512
END = 2
PROMPT = [5, 77, 130, 201, 9]
RECORDED = json.loads((Path(__file__).parent / "facts" / "genai.json").read_text())
"""The names of onnxruntime-genai, and what it says of the folder of `write_folder` after calls."""


def write_tokenizer(folder: Path) -> None:
    """Write a tokenizer of bytes and of what occurs in `TEXTS`, and a template."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<pad>", "<s>", "</s>"]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=special,
        initial_alphabet=alphabet,
        show_progress=False,
    )
    made.train_from_iterator(TEXTS * 4, trainer)
    made.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(TEMPLATE)


def _quantized(matrix: np.ndarray, block: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """Return a matrix [columns, rows] as 4-bit numbers around 8, and their scales."""
    blocks = matrix.reshape(matrix.shape[0], -1, block)
    scale = np.abs(blocks).max(-1) / 7
    whole = np.clip(np.round(blocks / scale[..., None]) + 8, 0, 15).astype(np.uint8)
    return whole[..., ::2] | whole[..., 1::2] << 4, scale


def _label(name: str) -> str:
    """Return the name of the node of a product, as the model builder has it."""
    kind, layer = name.rstrip("0123456789"), name.lstrip("abcdefghijklmnopqrstuvwxyz")
    if kind == "head":
        return "/lm_head/MatMul"
    part = "attn" if kind in ("qkv", "q", "k", "v", "out") else "mlp"
    kind = "o" if kind == "out" else kind
    return f"/model/layers.{layer}/{part}/{kind}_proj/MatMul"


def write_folder(
    folder: Path,
    kind: Any = np.float32,
    bits: int = 0,
    layers: int = 2,
    heads: int = HEADS,
    groups: int = GROUPS,
    columns: int = 64,
    zero_points: bool = False,
    biases: bool = False,
    seed: int = 0,
    width: int = WIDTH,
    size: int = SIZE,
    vocabulary: int = VOCABULARY,
    context: int = CONTEXT,
    block: int = 16,
    is_dml: bool = False,
    draw: Any = None,
    **attention: Any,
) -> Path:
    """Write a folder of a decoder with grouped attention; return it.

    The graph is one that the model builder writes for a CPU, or for DirectML: products of queries,
    keys and values apart, RotaryEmbedding, and sums that are normalized at once.

    Args:
        folder: the folder.
        kind: the type of the floats.
        bits: 4 for products of quantized weights; 0 for products of floats.
        layers: the number of layers.
        heads: the number of heads of the queries.
        groups: the number of heads of the keys.
        columns: the width of the MLPs.
        zero_points: whether quantized weights have zero points beside their scales.
        biases: whether the products of attentions have biases, quantized ones as inputs.
        seed: of the weights.
        width: the elements of a token.
        size: the elements of a head.
        vocabulary: the number of tokens.
        context: the most tokens of a sequence.
        block: the elements that have one scale of quantized weights.
        is_dml: whether the graph is that for DirectML.
        draw: gives random numbers, in place of a generator with the seed.
        attention: further attributes of GroupQueryAttention.
    """
    draw = draw or np.random.default_rng(seed)
    nodes, weights = list[Any](), dict[str, np.ndarray]()

    def weight(name: str, *sizes: int, scale: float = 0.3) -> str:
        weights[name] = (draw.standard_normal(sizes) * scale).astype(kind)
        return name

    def add(op_type: str, inputs: str, outputs: str, **attributes: Any) -> str:
        given, made = (["" if n == "-" else n for n in s.split()] for s in (inputs, outputs))
        nodes.append(helper.make_node(op_type, given, made, **attributes))
        return made[0]

    def product(x: str, name: str, rows: int, columns: int) -> str:
        matrix = draw.standard_normal((columns, rows)) / rows**0.5
        label = _label(name)
        has_bias = biases and "/attn/" in label
        if has_bias:
            weight(f"{name}.bias", columns)
        if not bits:
            weights[name] = matrix.T.astype(kind)
            made = add("MatMul", f"{x} {name}", f"{name}.out", name=label)
            return add("Add", f"{made} {name}.bias", f"{name}.sum") if has_bias else made
        weights[name], scale = _quantized(matrix, block)
        weights[f"{name}.scale"] = scale.astype(kind)
        given = {"K": rows, "N": columns, "bits": 4, "block_size": block, "domain": MICROSOFT}
        inputs = f"{x} {name} {name}.scale"
        if zero_points:
            weights[f"{name}.zero"] = draw.integers(
                0, 256, (columns, -(-rows // block // 2)), np.uint8
            )
            inputs += f" {name}.zero"
        inputs += f"{'' if zero_points else ' -'} - {name}.bias" * has_bias
        return add("MatMulNBits", inputs, f"{name}.out", name=label, **given)

    def attended(read: str, k: int) -> str:
        past = f"past_key_values.{k}.key past_key_values.{k}.value"
        if is_dml:
            counts = {"q": heads, "k": groups, "v": groups}
            made = [product(read, f"{n}{k}", width, count * size) for n, count in counts.items()]
            turned = [
                add("RotaryEmbedding", f"{x} position_ids cos sin", f"{x}.turned", domain=MICROSOFT)
                for x in made[:2]
            ]
            inputs = f"{' '.join(turned)} {made[2]} {past} lengths total"
        else:
            packed = product(read, f"qkv{k}", width, (heads + 2 * groups) * size)
            inputs = f"{packed} - - {past} lengths total cos sin"
        return add(
            "GroupQueryAttention",
            inputs,
            f"attended{k} present.{k}.key present.{k}.value",
            domain=MICROSOFT,
            num_heads=heads,
            kv_num_heads=groups,
            do_rotary=int(not is_dml),
            **attention,
        )

    def normed(x: str, name: str) -> str:
        weights[name] = np.ones(width, kind)
        return add("SimplifiedLayerNormalization", f"{x} {name}", f"{name}ed", **norm)

    def summed(x: str, made: str, name: str) -> tuple[str, str]:
        """Return a sum, and what the next product reads."""
        if not is_dml:
            return add("Add", f"{x} {made}", name), name
        weights[f"{name}.norm"] = np.ones(width, kind)
        inputs, outputs = f"{x} {made} {name}.norm", f"{name}.normed - - {name}"
        given = {"epsilon": 1e-5, "domain": MICROSOFT}
        return name, add("SkipSimplifiedLayerNormalization", inputs, outputs, **given)

    angles = np.arange(context)[:, None] / 100 ** (np.arange(size // 2) / (size // 2))
    weights |= {"cos": np.cos(angles).astype(kind), "sin": np.sin(angles).astype(kind)}
    weights |= {"one": np.array([1], np.int64), "place": np.array(1, np.int64)}
    add("ReduceSum", "attention_mask one", "sums", keepdims=0)
    add("Sub", "sums one", "ends")
    add("Cast", "ends", "lengths", to=TensorProto.INT32)
    add("Shape", "attention_mask", "sizes")
    add("Gather", "sizes place", "size", axis=0)
    add("Cast", "size", "total", to=TensorProto.INT32)
    norm = {"axis": -1, "epsilon": 1e-5, "stash_type": 1}
    x = add("Gather", f"{weight('embedding', vocabulary, width, scale=1)} input_ids", "embedded")
    read = x
    for k in range(layers):
        read = normed(x, f"norm{k}") if k == 0 or not is_dml else read
        made = product(attended(read, k), f"out{k}", heads * size, width)
        x, read = summed(x, made, f"sum{k}")
        gate, up = (product(read, f"{name}{k}", width, columns) for name in ("gate", "up"))
        add("Sigmoid", gate, f"sigmoid{k}")
        add("Mul", f"{gate} sigmoid{k}", f"silu{k}")
        add("Mul", f"silu{k} {up}", f"wide{k}")
        x, read = summed(x, product(f"wide{k}", f"down{k}", columns, width), f"layer{k}")
    product(read if is_dml else normed(x, "norm"), "head", width, vocabulary)
    nodes[-1].output[0] = "logits"
    element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    value = helper.make_tensor_value_info
    tokens = [value("input_ids", TensorProto.INT64, ["batch_size", "sequence_length"])]
    tokens.append(value("attention_mask", TensorProto.INT64, ["batch_size", "total_length"]))
    if is_dml:
        tokens.append(value("position_ids", TensorProto.INT64, ["batch_size", "sequence_length"]))
    names = [f"{k}.{part}" for k in range(layers) for part in ("key", "value")]
    caches = {
        side: [
            value(f"{side}.{n}", element, ["batch_size", groups, f"{side}_length", size])
            for n in names
        ]
        for side in ("past_key_values", "present")
    }
    outputs = [value("logits", element, ["batch_size", "sequence_length", vocabulary])]
    graph = helper.make_graph(
        nodes,
        "decoder",
        tokens + caches["past_key_values"],
        outputs + caches["present"],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    folder.mkdir(parents=True, exist_ok=True)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    onnx.save(model, folder / "model.onnx", save_as_external_data=True, location="model.onnx.data")
    decoder = {"filename": "model.onnx", "head_size": size, "num_hidden_layers": layers}
    decoder |= {"num_attention_heads": heads, "num_key_value_heads": groups}
    config: dict[str, Any] = {
        "model": {
            "type": "llama",
            "bos_token_id": 1,
            "eos_token_id": END,
            "pad_token_id": 0,
            "vocab_size": vocabulary,
            "context_length": context,
            "decoder": decoder,
        },
        "search": {"max_length": context, "do_sample": False, "top_k": 50, "top_p": 1.0},
    }
    config["search"] |= {"past_present_share_buffer": True} if is_dml else {}
    (folder / "genai_config.json").write_text(json.dumps(config))
    write_tokenizer(folder)
    return folder


class Reference:
    """The same model in ONNX Runtime, step by step, with keys and values that grow."""

    def __init__(self, folder: Path, layers: int = 2):
        import onnxruntime

        path = str(folder / "model.onnx")
        self._session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        self._names = [f"{k}.{part}" for k in range(layers) for part in ("key", "value")]
        self._inputs = {value.name: value for value in self._session.get_inputs()}
        cache = self._inputs["past_key_values.0.key"]
        self._groups = cache.shape[1]
        self._kind = np.float16 if "float16" in cache.type else np.float32

    def logits(self, tokens: list[int]) -> np.ndarray:
        """Return the logits after tokens, [length, vocabulary]."""
        empty = np.zeros((1, self._groups, 0, SIZE), self._kind)
        feeds = {f"past_key_values.{n}": empty for n in self._names}
        feeds |= {"input_ids": np.array([tokens], np.int64)}
        feeds |= {"attention_mask": np.ones((1, len(tokens)), np.int64)}
        if "position_ids" in self._inputs:
            feeds |= {"position_ids": np.arange(len(tokens))[None]}
        (logits,) = self._session.run(["logits"], feeds)
        return np.asarray(logits)[0].astype(np.float64)

    def greedy(self, tokens: list[int], count: int) -> list[int]:
        """Return the most likely tokens, one after the other."""
        made = list(tokens)
        for _ in range(count):
            made.append(int(self.logits(made)[-1].argmax()))
        return made


def generator(model: og.Model, tokens: Any = (), **options: Any) -> og.Generator:
    """Return a generator of at most 40 tokens that has read `tokens`."""
    params = og.GeneratorParams(model)
    params.set_search_options(**{"max_length": 40, **options})
    made = og.Generator(model, params)
    if len(tokens):
        made.append_tokens(np.array(tokens, np.int32))
    return made


def finish(made: og.Generator, count: int = CONTEXT) -> list[int]:
    """Let a generator make `count` tokens, or as many as it can; return the first sequence."""
    while not made.is_done() and count > 0:
        made.generate_next_token()
        count -= 1
    return made.get_sequence(0).tolist()


def generated(
    model: og.Model, tokens: Any = PROMPT, count: int = CONTEXT, **options: Any
) -> list[int]:
    """Return the tokens of a new generator."""
    return finish(generator(model, tokens, **options), count)


def sequences(made: og.Generator, count: int) -> list[list[int]]:
    """Return the first sequences of a generator."""
    return [made.get_sequence(k).tolist() for k in range(count)]


def rewrite(path: Path, **members: Any) -> None:
    """Put members over those of a file of JSON, and of the objects within it."""
    path.write_text(json.dumps(merge_json(json.loads(path.read_text()), members)))


def configured(folder: Path, **members: Any) -> og.Config:
    """Return the config of a folder, with members over those of its genai_config.json."""
    config = og.Config(folder)
    config.overlay(json.dumps(members))
    return config


def program_count(model: Any) -> int:
    """Return how many programs of a model were compiled."""
    programs = model.programs._programs.entries()
    return sum(program.call._alone._cache_size() for program in programs)

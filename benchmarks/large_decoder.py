"""Measure a large decoder with random weights on this device, beside transformers.

`python benchmarks/large_decoder.py results.json [NAME ...]` measures a Llama of 1.1 billion
weights, or one of other sizes: `--num_hidden_layers 2`. The graph is the one that
`onnxruntime_genai.models.builder -e dml` writes: FLOAT16, or int4 weights in blocks of 32 between
FLOAT16. It needs onnx, and torch and transformers for the peer.

Each row is a process of its own, which compiles all that it runs: it generates tokens greedily, as
many as the prompt has, and the best of some rounds counts, the prompt's time included. A row has a
time limit.
"""

# pyright: reportMissingImports=false

import json
import os
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from measuring import Row, measure, parser, run, said_by
from onnx import TensorProto, helper

MICROSOFT = "com.microsoft"
BLOCK = 32
OF_DECODER = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")


@dataclass(frozen=True)
class Shape:
    """The sizes of a Llama, by the names of transformers."""

    hidden_size: int = 2048
    intermediate_size: int = 5632
    num_hidden_layers: int = 22
    num_attention_heads: int = 32
    num_key_value_heads: int = 4
    vocab_size: int = 32000
    max_position_embeddings: int = 2048

    @property
    def size(self) -> int:
        """Return the elements of a head."""
        return self.hidden_size // self.num_attention_heads


class _Writer:
    """Nodes and weights, whose elements it writes into a file one after the other."""

    def __init__(self, shape: Shape, bits: int, file: BinaryIO):
        self.shape, self.bits, self._file = shape, bits, file
        self.nodes: list[Any] = []
        self.tensors: list[TensorProto] = []
        random = np.random.default_rng(0)
        self._normal = random.standard_normal(1 << 22, np.float32).astype(np.float16)
        self._bytes = random.integers(0, 256, 1 << 22, np.uint8)
        self._random = random

    def weight(self, name: str, array: np.ndarray) -> str:
        tensor = TensorProto(name=name, dims=array.shape, data_location=TensorProto.EXTERNAL)
        tensor.data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        start = -(-self._file.tell() // 4096) * 4096
        self._file.seek(start)
        self._file.write(np.ascontiguousarray(array).data)
        pairs = {"location": "model.onnx.data", "offset": start, "length": array.nbytes}
        for key, value in pairs.items():
            tensor.external_data.add(key=key, value=str(value))
        self.tensors.append(tensor)
        return name

    def drawn(self, pool: np.ndarray, *sizes: int) -> np.ndarray:
        """Return elements of a pool of random ones, from a random place on."""
        count, start = int(np.prod(sizes)), int(self._random.integers(len(pool)))
        repeated = np.tile(pool, (start + count) // len(pool) + 1)
        return repeated[start : start + count].reshape(sizes)

    def normal(self, name: str, *sizes: int, scale: float) -> str:
        return self.weight(name, self.drawn(self._normal, *sizes) * np.float16(scale))

    def node(self, op_type: str, inputs: str, outputs: str, **attributes: Any) -> str:
        """Add a node; '-' stands for a tensor that is left out."""
        given, made = (["" if n == "-" else n for n in s.split()] for s in (inputs, outputs))
        self.nodes.append(helper.make_node(op_type, given, made, made[0], **attributes))
        return made[0]

    def product(self, x: str, name: str, rows: int, columns: int) -> str:
        """Add the product of rows of `rows` elements and a matrix."""
        if not self.bits:
            w = self.normal(f"{name}.weight", rows, columns, scale=rows**-0.5)
            return self.node("MatMul", f"{x} {w}", f"{name}/output_0")
        blocks = rows // BLOCK
        w = self.weight(f"{name}.weight_Q4", self.drawn(self._bytes, columns, blocks, BLOCK // 2))
        scale = np.full(columns * blocks, rows**-0.5 / 4.6, np.float16)
        s = self.weight(f"{name}.weight_scales", scale)
        given = {"K": rows, "N": columns, "bits": 4, "block_size": BLOCK, "accuracy_level": 0}
        inputs = f"{x} {w} {s}"
        return self.node("MatMulNBits", inputs, f"{name}/output_0", domain=MICROSOFT, **given)


def _graph(w: _Writer) -> None:
    """Add the nodes of a decoder."""
    shape = w.shape
    width, size, half = shape.hidden_size, shape.size, shape.size // 2
    ones = np.ones(width, np.float16)
    angles = np.arange(shape.max_position_embeddings)[:, None] * 10000.0 ** (
        -np.arange(half) / half
    )
    cosines = w.weight("cos_cache", np.cos(angles).astype(np.float16))
    sines = w.weight("sin_cache", np.sin(angles).astype(np.float16))
    one, place = w.weight("one", np.array([1])), w.weight("place", np.array(1))
    w.node("ReduceSum", f"attention_mask {one}", "mask_sums", keepdims=0)
    w.node("Sub", f"mask_sums {one}", "mask_ends")
    w.node("Cast", "mask_ends", "seqlens_k", to=TensorProto.INT32)
    w.node("Shape", "attention_mask", "mask_shape")
    w.node("Gather", f"mask_shape {place}", "mask_size", axis=0)
    w.node("Cast", "mask_size", "total_seq_len", to=TensorProto.INT32)
    table = w.normal("model.embed_tokens.weight", shape.vocab_size, width, scale=1.0)
    x = w.node("Gather", f"{table} input_ids", "embeddings")
    norm = {"axis": -1, "epsilon": 1e-5, "stash_type": 1}
    read = w.node("SimplifiedLayerNormalization", f"{x} {w.weight('norm', ones)}", "read", **norm)
    skip = {"epsilon": 1e-5, "domain": MICROSOFT}
    turn = {"interleaved": 0, "num_heads": 0, "rotary_embedding_dim": 0, "domain": MICROSOFT}
    heads = {
        "num_heads": shape.num_attention_heads,
        "kv_num_heads": shape.num_key_value_heads,
        "domain": MICROSOFT,
    }
    for k in range(shape.num_hidden_layers):
        name, of_keys = f"/model/layers.{k}", shape.num_key_value_heads * size
        q = w.product(read, f"{name}/attn/q_proj", width, width)
        key = w.product(read, f"{name}/attn/k_proj", width, of_keys)
        value = w.product(read, f"{name}/attn/v_proj", width, of_keys)
        q, key = (
            w.node("RotaryEmbedding", f"{x} position_ids {cosines} {sines}", f"{x}/turned", **turn)
            for x in (q, key)
        )
        pasts = f"past_key_values.{k}.key past_key_values.{k}.value"
        made = w.node(
            "GroupQueryAttention",
            f"{q} {key} {value} {pasts} seqlens_k total_seq_len",
            f"{name}/attn/output_0 present.{k}.key present.{k}.value",
            scale=size**-0.5,
            do_rotary=0,
            **heads,
        )
        made = w.product(made, f"{name}/attn/o_proj", width, width)
        given = f"{x} {made} {w.weight(f'{name}/norm', ones)}"
        read = w.node(
            "SkipSimplifiedLayerNormalization", given, f"{name}/read - - {name}/sum", **skip
        )
        x = f"{name}/sum"
        gate = w.product(read, f"{name}/mlp/gate_proj", width, shape.intermediate_size)
        up = w.product(read, f"{name}/mlp/up_proj", width, shape.intermediate_size)
        sigmoid = w.node("Sigmoid", gate, f"{name}/mlp/sigmoid")
        silu = w.node("Mul", f"{gate} {sigmoid}", f"{name}/mlp/silu")
        wide = w.node("Mul", f"{silu} {up}", f"{name}/mlp/wide")
        made = w.product(wide, f"{name}/mlp/down_proj", shape.intermediate_size, width)
        given = f"{x} {made} {w.weight(f'{name}/norm_after', ones)}"
        out = "-" if k == shape.num_hidden_layers - 1 else f"{name}/layer"
        read = w.node("SkipSimplifiedLayerNormalization", given, f"{name}/normed - - {out}", **skip)
        x = out
    w.product(read, "/lm_head", width, shape.vocab_size)
    w.nodes[-1].output[0] = "logits"


def write(folder: Path, shape: Shape, bits: int) -> None:
    """Write the folder of a decoder.

    Args:
        folder: the folder.
        shape: the sizes.
        bits: 4 for int4 weights, 0 for FLOAT16.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "model.onnx.data").open("wb") as file:
        writer = _Writer(shape, bits, file)
        _graph(writer)
    value, half = helper.make_tensor_value_info, TensorProto.FLOAT16
    sizes = {
        "input_ids": "sequence_length",
        "attention_mask": "total_sequence_length",
        "position_ids": "sequence_length",
    }
    inputs = [value(n, TensorProto.INT64, ["batch_size", size]) for n, size in sizes.items()]
    outputs = [value("logits", half, ["batch_size", "sequence_length", shape.vocab_size])]
    for side, into in (("past_key_values", inputs), ("present", outputs)):
        length = f"{'past' if side != 'present' else 'total'}_sequence_length"
        buffer = ["batch_size", shape.num_key_value_heads, length, shape.size]
        names = [
            f"{side}.{k}.{part}"
            for k in range(shape.num_hidden_layers)
            for part in ("key", "value")
        ]
        into += [value(name, half, buffer) for name in names]
    graph = helper.make_graph(writer.nodes, "main_graph", inputs, outputs, writer.tensors)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    decoder = {"filename": "model.onnx", "head_size": shape.size}
    decoder |= {name: getattr(shape, name) for name in OF_DECODER}
    tokens = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    lengths = {"vocab_size": shape.vocab_size, "context_length": shape.max_position_embeddings}
    search = {"max_length": shape.max_position_embeddings, "do_sample": False}
    config = {
        "model": {"type": "llama", **tokens, **lengths, "decoder": decoder},
        "search": {**search, "past_present_share_buffer": True},
    }
    (folder / "genai_config.json").write_text(json.dumps(config))


FORMS = {"float16": 0, "int4": 4}
CASES = (
    ("dml_jax, float16", 1),
    ("transformers, compiled", 1),
    ("dml_jax, int4", 1),
    ("dml_jax, float16", 32),
    ("transformers, compiled", 32),
    ("dml_jax, int4", 32),
    ("transformers, eager", 1),
)
ROUNDS, SECONDS = 4, 90


def own(folder: str, batch: str, length: str, started: str) -> Row:
    """Return how fast dml_jax generates `length` tokens after as many, in this process."""
    import dml_jax.genai
    from dml_jax.genai.talking import copy_rate

    rows, count = int(batch), int(length)
    model = dml_jax.genai.Model(folder)
    params = dml_jax.genai.GeneratorParams(model)
    options = {"max_length": 2 * count, "min_length": 2 * count, "batch_size": rows}
    params.set_search_options(**options, do_sample=False)
    prompt = np.random.default_rng(0).integers(3, 500, (rows, count)).astype(np.int32)
    first, best, step = 0.0, np.inf, np.inf
    for _ in range(ROUNDS):
        made, start, times = dml_jax.genai.Generator(model, params), time.time(), list[float]()
        made.append_tokens(prompt)
        while not made.is_done():
            made.generate_next_token()
            times.append(time.time())
        first = first or times[0] - float(started)
        best = min(best, times[-1] - start)
        step = min(step, (times[-1] - times[0]) / (count - 1))
    read = model.decoder.step_bytes(count + count // 2)
    return {
        "first_token_s": round(first, 1),
        "tokens_s": round(rows * count / best),
        "step_ms": round(step * 1e3, 3),
        "of_copy": round(read / step / copy_rate(), 3),
    }


def peer(sizes: str, batch: str, length: str, *compiled: str) -> Row:
    """Return how fast transformers does the same, of FLOAT16 weights, in this process."""
    import torch
    import transformers

    rows, last, shape = int(batch), int(length), json.loads(sizes)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.device(device):
        torch.set_default_dtype(torch.float16)
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**shape)).eval()
    prompt = torch.randint(0, shape["vocab_size"], (rows, last), device=device)
    options: dict[str, Any] = {"cache_implementation": "static"} if compiled else {}
    options |= {"do_sample": False, "pad_token_id": 0}
    best = np.inf
    for count in [8, *[last] * (ROUNDS - 1)] if compiled else [8, last]:
        start = time.time()
        options |= {"max_new_tokens": count, "min_new_tokens": count}
        with torch.no_grad():
            model.generate(prompt, **options)[:, -1].tolist()  # waits for the device
        best = min(best, time.time() - start) if count == last else best
    return {"tokens_s": round(rows * last / best)}


def row_of(root: Path, shape: Shape, length: int, name: str, batch: int) -> Row:
    """Return a row; the folder of a decoder is written at need.

    Args:
        root: has the folders.
        shape: the sizes of the decoder.
        length: the tokens of the prompt, and of the answer.
        name: the program and its form.
        batch: the number of prompts.
    """
    form = name.rpartition(" ")[2]
    if form not in FORMS:
        words = ["peer", json.dumps(vars(shape)), batch, length, *["compiled"] * (form != "eager")]
        return said_by(__file__, *words, seconds=SECONDS)
    folder = root / form
    if not folder.exists():
        write(folder, shape, FORMS[form])
    return said_by(__file__, "own", folder, batch, length, time.time(), seconds=SECONDS)


def main() -> int:
    """Measure the rows; return how many fail."""
    made = parser(__doc__, "rows")
    made.add_argument("--length", type=int, default=128, help="tokens of the prompt")
    for name, default in vars(Shape()).items():
        made.add_argument(f"--{name}", type=int, default=default)
    given = made.parse_intermixed_args()
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    shape = Shape(**{name: getattr(given, name) for name in vars(Shape())})
    with tempfile.TemporaryDirectory() as root:
        row = partial(row_of, Path(root), shape, given.length)
        return measure(given, rows={f"{name}, {n}": partial(row, name, n) for name, n in CASES})


if __name__ == "__main__":
    run(main, own, peer)

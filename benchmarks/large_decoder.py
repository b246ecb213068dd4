"""Measure a large decoder with random weights on this device, beside transformers.

    python benchmarks/large_decoder.py measure FOLDERS [-o table.json] [--layers 22] ...
    python benchmarks/large_decoder.py write FOLDER [--bits 4] [--layers 22] [--width 2048] ...

By default it is a Llama of 1.1 billion weights. The graph is the one that
`onnxruntime_genai.models.builder -e dml` writes: FLOAT16, or int4 weights in blocks of 32 between
FLOAT16. `write` needs onnx and NumPy alone, `measure` also torch and transformers for the peer.
Each row is a process of its own, which compiles all that it runs: it generates tokens greedily, as
many as the prompt has, and the best of some rounds counts, the prompt's time included. A row has a
time limit, and so have all together: rows that do not fit into it are left out.
"""

# pyright: reportMissingImports=false

import argparse
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from measuring import said_by
from measuring import write as write_json
from onnx import TensorProto, helper

MICROSOFT = "com.microsoft"
BLOCK = 32


@dataclass(frozen=True)
class Shape:
    """The sizes of a Llama."""

    width: int = 2048
    inner: int = 5632
    layers: int = 22
    heads: int = 32
    groups: int = 4
    vocabulary: int = 32000
    context: int = 2048

    @property
    def size(self) -> int:
        """Return the elements of a head."""
        return self.width // self.heads


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
    width, size, half = shape.width, shape.size, shape.size // 2
    ones = np.ones(width, np.float16)
    angles = np.arange(shape.context)[:, None] * 10000.0 ** (-np.arange(half) / half)
    cosines = w.weight("cos_cache", np.cos(angles).astype(np.float16))
    sines = w.weight("sin_cache", np.sin(angles).astype(np.float16))
    one, place = w.weight("one", np.array([1])), w.weight("place", np.array(1))
    w.node("ReduceSum", f"attention_mask {one}", "mask_sums", keepdims=0)
    w.node("Sub", f"mask_sums {one}", "mask_ends")
    w.node("Cast", "mask_ends", "seqlens_k", to=TensorProto.INT32)
    w.node("Shape", "attention_mask", "mask_shape")
    w.node("Gather", f"mask_shape {place}", "mask_size", axis=0)
    w.node("Cast", "mask_size", "total_seq_len", to=TensorProto.INT32)
    table = w.normal("model.embed_tokens.weight", shape.vocabulary, width, scale=1.0)
    x = w.node("Gather", f"{table} input_ids", "embeddings")
    norm = {"axis": -1, "epsilon": 1e-5, "stash_type": 1}
    read = w.node("SimplifiedLayerNormalization", f"{x} {w.weight('norm', ones)}", "read", **norm)
    skip = {"epsilon": 1e-5, "domain": MICROSOFT}
    turn = {"interleaved": 0, "num_heads": 0, "rotary_embedding_dim": 0, "domain": MICROSOFT}
    heads = {"num_heads": shape.heads, "kv_num_heads": shape.groups, "domain": MICROSOFT}
    for k in range(shape.layers):
        name, of_keys = f"/model/layers.{k}", shape.groups * size
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
        gate = w.product(read, f"{name}/mlp/gate_proj", width, shape.inner)
        up = w.product(read, f"{name}/mlp/up_proj", width, shape.inner)
        sigmoid = w.node("Sigmoid", gate, f"{name}/mlp/sigmoid")
        silu = w.node("Mul", f"{gate} {sigmoid}", f"{name}/mlp/silu")
        wide = w.node("Mul", f"{silu} {up}", f"{name}/mlp/wide")
        made = w.product(wide, f"{name}/mlp/down_proj", shape.inner, width)
        given = f"{x} {made} {w.weight(f'{name}/norm_after', ones)}"
        out = "-" if k == shape.layers - 1 else f"{name}/layer"
        read = w.node("SkipSimplifiedLayerNormalization", given, f"{name}/normed - - {out}", **skip)
        x = out
    w.product(read, "/lm_head", width, shape.vocabulary)
    w.nodes[-1].output[0] = "logits"


def write(folder: Path, shape: Shape = Shape(), bits: int = 0) -> Path:
    """Write the folder of a decoder; return it.

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
    outputs = [value("logits", half, ["batch_size", "sequence_length", shape.vocabulary])]
    for side, into in (("past_key_values", inputs), ("present", outputs)):
        length = f"{'past' if side != 'present' else 'total'}_sequence_length"
        buffer = ["batch_size", shape.groups, length, shape.size]
        names = [f"{side}.{k}.{part}" for k in range(shape.layers) for part in ("key", "value")]
        into += [value(name, half, buffer) for name in names]
    graph = helper.make_graph(writer.nodes, "main_graph", inputs, outputs, writer.tensors)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    decoder = {"filename": "model.onnx", "head_size": shape.size, "hidden_size": shape.width}
    decoder |= {"num_attention_heads": shape.heads, "num_key_value_heads": shape.groups}
    decoder |= {"num_hidden_layers": shape.layers}
    tokens = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    sizes_of = {"vocab_size": shape.vocabulary, "context_length": shape.context}
    model_of = {"type": "llama", **tokens, **sizes_of, "decoder": decoder}
    search = {"max_length": shape.context, "do_sample": False, "past_present_share_buffer": True}
    config = {"model": model_of, "search": search}
    write_json(folder / "genai_config.json", config)
    return folder


FORMS = {"float16": 0, "int4": 4}
OWN, COMPILED, EAGER = "dml_jax, {}", "transformers, compiled", "transformers, eager"
CASES = (
    (OWN.format("float16"), 1),
    (COMPILED, 1),
    (OWN.format("int4"), 1),
    (OWN.format("float16"), 32),
    (COMPILED, 32),
    (OWN.format("int4"), 32),
    (EAGER, 1),
)
ROUNDS, SECONDS, LEAST = 4, 90, 30


def child(folder: Path, batch: int, length: int) -> dict[str, Any]:
    """Return how fast dml_jax generates `length` tokens after as many, in this process."""
    import jax

    import dml_jax.genai
    from dml_jax.bench.rows import environment
    from dml_jax.genai.talking import copy_rate

    model = dml_jax.genai.Model(folder)
    params = dml_jax.genai.GeneratorParams(model)
    options = {"max_length": 2 * length, "min_length": 2 * length, "batch_size": batch}
    params.set_search_options(**options, do_sample=False)
    prompt = np.random.default_rng(0).integers(3, 500, (batch, length)).astype(np.int32)
    first, best, step = 0.0, np.inf, np.inf
    for _ in range(ROUNDS):
        made, start, times = dml_jax.genai.Generator(model, params), time.time(), list[float]()
        made.append_tokens(prompt)
        while not made.is_done():
            made.generate_next_token()
            times.append(time.time())
        first = first or times[0] - float(os.environ["STARTED"])
        best = min(best, times[-1] - start)
        step = min(step, (times[-1] - times[0]) / (length - 1))
    read = model.decoder.step_bytes(length + length // 2)
    return {
        "first_token_s": round(first, 1),
        "tokens_s": round(batch * length / best),
        "step_ms": round(step * 1e3, 3),
        "of_copy": round(read / step / copy_rate(), 3),
        "environment": environment(jax.devices()[0]),
    }


def peer(shape: Shape, batch: int, length: int, is_compiled: bool) -> dict[str, Any]:
    """Return how fast transformers does the same, of FLOAT16 weights, in this process."""
    import torch
    import transformers

    config = transformers.LlamaConfig(
        hidden_size=shape.width,
        intermediate_size=shape.inner,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.groups,
        vocab_size=shape.vocabulary,
        max_position_embeddings=shape.context,
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.device(device):
        torch.set_default_dtype(torch.float16)
        model = transformers.LlamaForCausalLM(config).eval()
    prompt = torch.randint(0, shape.vocabulary, (batch, length), device=device)
    options: dict[str, Any] = {"cache_implementation": "static"} if is_compiled else {}
    options |= {"do_sample": False, "pad_token_id": 0}
    best = np.inf
    for count in [8, *[length] * (ROUNDS - 1)] if is_compiled else [8, length]:
        start = time.time()
        options |= {"max_new_tokens": count, "min_new_tokens": count}
        with torch.no_grad():
            model.generate(prompt, **options)[:, -1].tolist()  # waits for the device
        best = min(best, time.time() - start) if count == length else best
    return {"tokens_s": round(batch * length / best)}


def measure(root: Path, shape: Shape, length: int, output: Path | None, seconds: float) -> None:
    """Measure all rows, print each as it comes, and write those so far to a file.

    Args:
        root: where the folders of the decoders are, or are written.
        shape: the sizes.
        length: the tokens of the prompt, and of the answer.
        output: the file.
        seconds: the time for all rows.
    """
    end = time.time() + seconds
    for name, bits in FORMS.items():
        if not (root / name / "genai_config.json").exists():
            write(root / name, shape, bits)
    whole: dict[str, Any] = {"environment": {}, "rows": {}}
    sizes = [word for name, size in vars(shape).items() for word in (f"--{name}", size)]
    for name, batch in CASES:
        limit = min(SECONDS, end - time.time())
        if limit < LEAST:
            break
        command = "peer" if name in (COMPILED, EAGER) else "child"
        words = [command, root / name.rpartition(" ")[2], "--batch", batch, "--length", length]
        words += [*sizes, *["--compiled"] * (name == COMPILED)]
        own = {**os.environ, "STARTED": str(time.time()), "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        found, said = said_by(__file__, words, limit, env=own)
        row = found or {"error": said[-600:]}
        whole["environment"] = row.pop("environment", whole["environment"])
        whole["rows"][f"{name}, {batch}"] = row
        print(name, batch, json.dumps(row), flush=True)
        if output:
            write_json(output, whole)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["write", "measure", "child", "peer"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bits", type=int, default=0)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--seconds", type=float, default=250, help="for all rows")
    parser.add_argument("-o", "--output", type=Path)
    for name, default in vars(Shape()).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    shape = Shape(**{name: getattr(given, name) for name in vars(Shape())})
    if given.command == "write":
        write(given.folder, shape, given.bits)
    elif given.command == "measure":
        measure(given.folder, shape, given.length, given.output, given.seconds)
    elif given.command == "child":
        print(json.dumps(child(given.folder, given.batch, given.length)))
    else:
        print(json.dumps(peer(shape, given.batch, given.length, given.compiled)))


if __name__ == "__main__":
    main()

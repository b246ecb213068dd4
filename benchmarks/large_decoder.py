"""Measure a Llama of 1.1 billion random weights on this device, beside transformers.

`python benchmarks/large_decoder.py results.json [NAME ...]` writes the graph that
`onnxruntime_genai.models.builder -e dml` writes: FLOAT16, or int4 weights in blocks of 32 between
FLOAT16. It needs onnx and tokenizers, and torch and transformers for the peer.

Each row is a process of its own, which compiles all that it runs: it generates tokens greedily, as
many as the prompt has, and the best of some rounds counts, the prompt's time included.
"""

# pyright: reportMissingImports=false

import os
import tempfile
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from measuring import Row, measure, parser, run, said_by

SIZES = {  # by the names of transformers: the names of `write_folder`, and the sizes
    "hidden_size": ("width", 2048),
    "intermediate_size": ("columns", 5632),
    "num_hidden_layers": ("layers", 22),
    "num_attention_heads": ("heads", 32),
    "num_key_value_heads": ("groups", 4),
    "vocab_size": ("vocabulary", 32000),
    "max_position_embeddings": ("context", 2048),
}
HEAD = 64  # elements
FORMS = {"float16": 0, "int4": 4}  # the bits of unpacked weights
CASES = (
    ("dml_jax, float16", 1),
    ("transformers, compiled", 1),
    ("dml_jax, int4", 1),
    ("dml_jax, float16", 32),
    ("transformers, compiled", 32),
    ("dml_jax, int4", 32),
    ("transformers, eager", 1),
)
ROUNDS, SECONDS = 4, 90  # of a row


def write(folder: Path, bits: int, layers: int) -> None:
    """Write the folder of a decoder, whose random numbers are drawn once and repeated."""
    from language_folders import write_folder

    random = np.random.default_rng(0)
    pool = random.standard_normal(1 << 22, np.float32)
    draw = lambda sizes: np.resize(np.roll(pool, random.integers(len(pool))), sizes)  # noqa: E731
    sizes: Any = {**dict(SIZES.values()), "layers": layers, "size": HEAD, "block": 32}
    options = {**sizes, "is_dml": True, "draw": SimpleNamespace(standard_normal=draw)}
    write_folder(folder, np.float16, bits, **options)


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


def peer(layers: str, batch: str, length: str, form: str) -> Row:
    """Return how fast transformers does the same, of FLOAT16 weights, in this process."""
    import torch
    import transformers

    rows, last, is_compiled = int(batch), int(length), form == "compiled"
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.device(device):
        torch.set_default_dtype(torch.float16)
        sizes: Any = {name: size for name, (_, size) in SIZES.items()}
        config = transformers.LlamaConfig(**{**sizes, "num_hidden_layers": int(layers)})
        model = transformers.LlamaForCausalLM(config).eval()
    prompt = torch.randint(0, config.vocab_size, (rows, last), device=device)
    options: dict[str, Any] = {"cache_implementation": "static"} if is_compiled else {}
    options |= {"do_sample": False, "pad_token_id": 0}
    best = np.inf
    for count in [8, *[last] * (ROUNDS - 1 if is_compiled else 1)]:
        start = time.time()
        options |= {"max_new_tokens": count, "min_new_tokens": count}
        with torch.no_grad():
            model.generate(prompt, **options)[:, -1].tolist()  # waits for the device
        best = min(best, time.time() - start) if count == last else best
    return {"tokens_s": round(rows * last / best)}


def row_of(root: Path, layers: int, length: int, name: str, batch: int) -> Row:
    """Return the row of a program in a form; the folder of a decoder is written at need."""
    form = name.rpartition(" ")[2]
    if form not in FORMS:
        return said_by(__file__, "peer", layers, batch, length, form, seconds=SECONDS)
    if not (root / form).exists():
        write(root / form, FORMS[form], layers)
    return said_by(__file__, "own", root / form, batch, length, time.time(), seconds=SECONDS)


def main() -> int:
    """Measure the rows; return how many fail."""
    made = parser(__doc__, "rows")
    made.add_argument("--length", type=int, default=128, help="tokens of the prompt")
    made.add_argument("--layers", type=int, default=22)
    given = made.parse_intermixed_args()
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    with tempfile.TemporaryDirectory() as root:
        row = partial(row_of, Path(root), given.layers, given.length)
        return measure(given, rows={f"{name}, {n}": partial(row, name, n) for name, n in CASES})


if __name__ == "__main__":
    run(main, own, peer)

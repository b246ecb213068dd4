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
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Row, measure, parser, run, said_by


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


class _Pool:
    """Random numbers that are drawn once, and repeated."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(0)
        self._pool = self._random.standard_normal(1 << 22, np.float32)

    def standard_normal(self, sizes: tuple[int, ...]) -> np.ndarray:
        """Return numbers of the pool, from a random place on."""
        return np.resize(np.roll(self._pool, self._random.integers(len(self._pool))), sizes)


def write(folder: Path, shape: Shape, bits: int) -> None:
    """Write the folder of a decoder: `bits` is 4 for int4 weights, and 0 for FLOAT16."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from language_folders import write_folder

    write_folder(
        folder,
        np.float16,
        bits,
        layers=shape.num_hidden_layers,
        heads=shape.num_attention_heads,
        groups=shape.num_key_value_heads,
        columns=shape.intermediate_size,
        width=shape.hidden_size,
        size=shape.hidden_size // shape.num_attention_heads,
        vocabulary=shape.vocab_size,
        context=shape.max_position_embeddings,
        block=32,
        is_dml=True,
        draw=_Pool(),
    )


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

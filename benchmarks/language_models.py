"""Make folders of language models, and compare their tokens and speed with ONNX Runtime GenAI.

    python benchmarks/language_models.py make FOLDERS [ARCHITECTURE ...]
    python benchmarks/language_models.py compare FOLDERS [--steps 120] [-o table.json]

Both need onnxruntime-genai, transformers, torch, tokenizers and onnx-ir. Weights are
random. Both programs read the same tokens, those of ONNX Runtime GenAI, so that each step is
compared: a step is right if the most likely token is the same, and near if the reference's two best
logits are nearer than 0.001 (FLOAT32) or 0.06 (FLOAT16).
"""

# pyright: reportMissingImports=false

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx

FORMS = (("int4", "dml"), ("fp16", "dml"), ("int4", "cpu"), ("fp32", "cpu"))
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
PROMPT = [298, 431, 426, 411, 77, 12, 300]


def make(root: Path, architectures: list[str]) -> None:
    """Write a folder of each architecture in each form."""
    import onnxruntime_genai.models.builder as builder
    import torch
    import transformers
    from language_folders import write_tokenizer

    for name in architectures or OWN:
        source = root / "source" / name
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
        details = {
            "extra_kwargs": {},
            "hf_name": str(source),
            "hf_config": transformers.AutoConfig.from_pretrained(source),
        }
        for precision, provider in FORMS:
            target = root / f"{name}_{precision}_{provider}"
            options = {"hf_details": details, "hf_token": False, "hf_remote": False}
            builder.create_model(
                None, str(source), str(target), precision, provider, str(root / "cache"), **options
            )


def exact(folder: Path, target: Path) -> Path:
    """Return a copy of a folder whose products round no activations (accuracy_level 0)."""
    shutil.copytree(folder, target)
    model = onnx.load(target / "model.onnx", load_external_data=False)
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "accuracy_level":
                attribute.i = 0
    (target / "model.onnx").write_bytes(model.SerializeToString())
    return target


def generator(og: Any, folder: Path, length: int) -> Any:
    """Return a generator that has read the prompt."""
    config = og.Config(str(folder))
    config.clear_providers()
    model = og.Model(config)
    params = og.GeneratorParams(model)
    params.set_search_options(max_length=length, do_sample=False, min_length=length)
    made = og.Generator(model, params)
    made.append_tokens(np.array(PROMPT, np.int32))
    return made


def compare(folder: Path, steps: int) -> dict[str, Any]:
    """Return how many steps are right, and the tokens a second of both programs."""
    import onnxruntime_genai

    import dml_jax.genai

    limit = 0.06 if folder.name.endswith("dml") else 1e-3
    right, near, spent = 0, 0, {"dml_jax": list[float](), "onnxruntime-genai": list[float]()}
    with tempfile.TemporaryDirectory() as copy:
        own = exact(folder, Path(copy) / folder.name) if "int4_cpu" in folder.name else folder
        length = len(PROMPT) + steps
        peer, mine = (generator(og, own, length) for og in (onnxruntime_genai, dml_jax.genai))
        for _ in range(steps):
            wanted, found = (np.array(g.get_logits()).ravel() for g in (peer, mine))
            best = np.sort(wanted)[-2:]
            right += int(wanted.argmax() == found.argmax())
            near += int(wanted.argmax() != found.argmax() and best[1] - best[0] < limit)
            mine.set_logits(wanted)
            for name, made in (("onnxruntime-genai", peer), ("dml_jax", mine)):
                start = time.perf_counter()
                made.generate_next_token()
                try:
                    made.get_logits()
                except RuntimeError as error:  # the reference stops at some windows
                    return {"folder": folder.name, "right": right, "stopped": str(error)[:200]}
                spent[name].append(time.perf_counter() - start)
            assert peer.get_next_tokens()[0] == mine.get_next_tokens()[0]
            if mine.is_done():
                break
    count = len(spent["dml_jax"])
    rates = {name: round(1 / float(np.median(seconds)), 1) for name, seconds in spent.items()}
    return {"folder": folder.name, "steps": count, "right": right, "near": near, **rates}


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["make", "compare"])
    parser.add_argument("folders", type=Path)
    parser.add_argument("architectures", nargs="*", help="by default all")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    if given.command == "make":
        make(given.folders, given.architectures)
        return
    rows = []
    for path in sorted(given.folders.glob("*/genai_config.json")):
        rows.append(compare(path.parent, given.steps))
        print(*(f"{key} {value}" for key, value in rows[-1].items()), flush=True)  # noqa: T201
    if given.output:
        given.output.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()

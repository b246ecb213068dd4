"""Beam search of language models gives the sequences of ONNX Runtime GenAI."""

from pathlib import Path
from typing import Any

import pytest
from build import command
from language_folders import RECORDED, configured, finish, generated, generator, sequences

import dml_jax.genai as og


@pytest.mark.parametrize("case", RECORDED["beams"], ids=lambda case: str(case["options"]))
def test_sequences_are_those_of_onnx_runtime_genai(case: dict[str, Any], folder: Path):
    """A penalty of diversity changes nothing."""
    model = og.Model(configured(folder, model={"eos_token_id": case["ends"]}))
    made = generator(model, case["prompts"], **case["options"])
    finish(made)
    assert sequences(made, len(case["sequences"])) == case["sequences"]
    if "num_beams" in case["options"]:
        with pytest.raises(og.GenAIError, match="be called once where num_beams is more than 1"):
            made.append_tokens([3] * len(case["prompts"]))


def test_the_command_says_the_best_sequence(folder: Path, model: og.Model):
    tokenizer = og.Tokenizer(model)
    tokens = tokenizer.encode("the quick")
    count = len(tokens) + 6
    wanted = generated(model, tokens, max_length=count, num_beams=3)[len(tokens) :]
    words = ("-p", "the quick", "--max_length", count, "--num_beams", 3)
    result = command("generate", folder, *words)
    assert (result.stderr, result.stdout) == ("", tokenizer.decode(wanted) + "\n")

"""Beam search of language models gives the sequences of ONNX Runtime GenAI."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from language_folders import write_folder

import dml_jax.genai as og
from dml_jax.cli import cli

pytestmark = pytest.mark.usefixtures("soon")

PROMPT = [5, 77, 130, 201, 9]
ENDS = [2, *range(200, 300, 3)]
START = [*PROMPT, 19, 49, 24, 24, 24, 24]
BACK = [*PROMPT[::-1], 202, 198, 83, 141, 232, 255, 74, 301, 23, 3]

# (options, tokens that end a sequence, sequences of onnxruntime_genai 0.18.0 on a CPU)
CASES: list[tuple[dict[str, Any], list[int], list[list[int]]]] = [
    (
        {"num_beams": 3, "num_return_sequences": 3},
        [2],
        [
            [*START, 261, 24, 24, 24, 24],
            [*START, 261, 24, 24, 24, 257],
            [*START, 24, 24, 24, 24, 136],
        ],
    ),
    (
        {"num_beams": 3, "num_return_sequences": 3},
        ENDS,
        [PROMPT, START[:7], [*START, 261, 24, 24, 24]],
    ),
    (
        {"num_beams": 2, "num_return_sequences": 2, "batch_size": 2, "early_stopping": False},
        ENDS,
        [PROMPT, START[:7], [*BACK, 205], [*BACK, 22]],
    ),
    (
        {"num_beams": 2, "repetition_penalty": 1.5},
        [2],
        [[*START[:7], 227, 74, 162, 31, 24, 261, 215, 314, 10]],
    ),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_sequences_are_those_of_onnx_runtime_genai(case: int, tmp_path: Path):
    options, ends, wanted = CASES[case]
    config = og.Config(write_folder(tmp_path))
    config.overlay(json.dumps({"model": {"eos_token_id": ends}}))
    model = og.Model(config)
    params = og.GeneratorParams(model)
    params.set_search_options(max_length=16, **options)
    made = og.Generator(model, params)
    two = options.get("batch_size", 1) == 2
    made.append_tokens(np.array([PROMPT, PROMPT[::-1]] if two else PROMPT, np.int32))
    while not made.is_done():
        made.generate_next_token()
    assert [made.get_sequence(k).tolist() for k in range(len(wanted))] == wanted
    with pytest.raises(og.GenAIError, match="be called once where num_beams is more than 1"):
        made.append_tokens([3] * options.get("batch_size", 1))


def test_the_command_says_the_best_sequence(tmp_path: Path):
    model = og.Model(write_folder(tmp_path))
    tokenizer = og.Tokenizer(model)
    tokens = tokenizer.encode("the quick")
    count = len(tokens) + 6
    params = og.GeneratorParams(model)
    params.set_search_options(max_length=count, num_beams=3)
    made = og.Generator(model, params)
    made.append_tokens(tokens)
    while not made.is_done():
        made.generate_next_token()
    words = ["generate", str(tmp_path), "-p", "the quick", "--max_length", str(count)]
    result = CliRunner().invoke(cli, [*words, "--num_beams", "3"])
    wanted = tokenizer.decode(made.get_sequence(0)[len(tokens) :])
    assert (result.stderr, result.stdout) == ("", wanted + "\n")

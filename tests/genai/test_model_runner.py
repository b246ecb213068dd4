"""Tokens that one program computes ahead are those of a program for each token."""

import re
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from language_folders import PROMPT, Reference, configured, finish, generator, write_folder
from nightly import NIGHTLY

import dml_jax.genai as og
from dml_jax.runtime.compiled_function import CompiledFunction
from dml_jax.system import slow_notice

AHEAD, MOST = 4, 43  # tokens of a program, and of a sequence
DRAWN: dict[str, Any] = {"do_sample": True, "top_k": 20, "temperature": 2.0, "random_seed": 3}
OPTIONS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "drawn": DRAWN,
    "drawn of the likely ones": {**DRAWN, "top_k": 0, "top_p": 0.9},
    "a penalty": {"repetition_penalty": 1.3},
    "a penalty, drawn": {**DRAWN, "repetition_penalty": 1.3},
    "a least length": {"min_length": 25},
    "no group twice": {"no_repeat_ngram_size": 2},
}


@pytest.fixture(scope="module")
def models(folder: Path) -> list[og.Model]:
    """Return a model of one token a program, and another one; at many tokens a sequence ends."""
    config = configured(folder, model={"eos_token_id": [*range(2, 22)]})
    return [og.Model(config, ahead=ahead) for ahead in (1, AHEAD)]


def started(model: og.Model, batch: int = 1, **options: Any) -> og.Generator:
    prompts = [PROMPT, [8, 0, 0, 0, 0], [250, 4, 11, 0, 0]][:batch]
    return generator(model, prompts, **{"max_length": MOST, "batch_size": batch, **options})


def assert_same_steps(made: list[og.Generator], count: int, batch: int) -> None:
    one, other = made
    for _ in range(min(count, MOST - one.token_count())):
        for each in made:
            each.generate_next_token()
        np.testing.assert_array_equal(other.get_next_tokens(), one.get_next_tokens())
        assert (other.token_count(), other.is_done()) == (one.token_count(), one.is_done())
    for row in range(batch):
        np.testing.assert_array_equal(made[1].get_sequence(row), made[0].get_sequence(row))


def assert_same_logits(made: list[og.Generator]) -> None:
    one, other = (each.get_logits() for each in made)
    np.testing.assert_allclose(other, one, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "batch"),
    [
        (name, batch)
        for turn, name in enumerate(OPTIONS)
        for batch in ((1, 3) if NIGHTLY else (1 + 2 * (turn % 2),))
    ],
)
def test_tokens_are_those_of_one_token_a_program(name: str, batch: int, models: list[og.Model]):
    """Between the tokens a program reads logits, appends tokens and goes back."""
    made = [started(model, batch, **OPTIONS[name]) for model in models]
    assert_same_steps(made, 7, batch)
    assert_same_logits(made)
    assert_same_steps(made, 3, batch)
    for one in made:
        one.append_tokens(np.array([[33, 44]] * batch))
    assert_same_steps(made, 6, batch)
    length = 9 if batch == 1 else 0
    for one in made:
        one.rewind_to(length)
    if not length:
        for one in made:
            one.append_tokens(np.array([PROMPT] * batch))
    assert_same_steps(made, 2, batch)
    for one in made:
        one.set_logits(-one.get_logits())
    assert_same_steps(made, MOST, batch)
    assert made[1].is_done()
    assert_same_logits(made)


def test_keys_of_the_cache_are_those_of_the_tokens(models: list[og.Model]):
    made = [started(model, min_length=40) for model in models]
    assert_same_steps(made, 6, 1)
    one, other = (each.get_output("present.0.key") for each in made)
    np.testing.assert_allclose(other, one, atol=1e-5)


def test_the_last_tokens_are_less_than_a_program(folder: Path):
    model, reference = og.Model(folder, ahead=AHEAD), Reference(folder)
    for length in (len(PROMPT) + 1, len(PROMPT) + 2, len(PROMPT) + AHEAD + 3):
        wanted = reference.greedy(PROMPT, length - len(PROMPT))
        assert finish(started(model, max_length=length)) == wanted[:length]


@pytest.mark.skipif(jax.device_count() < 2, reason="JAX has one device")
def test_several_devices_go_ahead(folder: Path):
    models = [og.Model(folder, devices=2, ahead=ahead) for ahead in (1, AHEAD)]
    assert_same_steps([started(model, min_length=40) for model in models], 11, 1)


def test_no_turn_copies_a_buffer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """XLA's program writes keys and values in place: no instruction of it copies a buffer."""
    made = started(og.Model(write_folder(tmp_path, layers=1), ahead=AHEAD), max_length=400)
    texts = list[str]()
    run = CompiledFunction.__call__

    def compiled(function: Any, *given: Any) -> Any:
        texts.append(function.lower(*given).compile().as_text())
        return run(function, *given)

    monkeypatch.setattr(CompiledFunction, "__call__", compiled)
    finish(made, 2)
    sizes = ",".join(map(str, made._runner.cache["buffers"][0].shape))
    assert f"[{sizes}]" in texts[0] and "while(" in texts[0]
    assert not re.findall(rf"\[{sizes}\]\S* copy\(", texts[0])


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_says_once_that_a_call_compiles(is_terminal, folder, monkeypatch, capsys):
    monkeypatch.setattr(slow_notice, "SECONDS", 0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    finish(started(og.Model(folder, ahead=AHEAD), max_length=12))
    said = capsys.readouterr().err
    assert said.count("\n") == said.count("dml_jax compiles") == is_terminal

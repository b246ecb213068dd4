"""Language models whose programs are kept: another start reads them, and loads no network."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from build import command
from language_folders import PROMPT, Reference, generated, write_folder
from nightly import sample

import dml_jax.genai as og
from dml_jax.genai import decoder_networks

ON_A_CPU = pytest.mark.skipif(
    jax.default_backend() != "cpu", reason="programs of decoders are kept on a CPU alone"
)
LENGTH = len(PROMPT) + 6


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list that gets longer with each network that is loaded."""
    counted, load = list[Any](), decoder_networks.load_network

    def counting(proto: Any, options: Any, store: Any) -> Any:
        counted.append(options)
        return load(proto, options, store)

    monkeypatch.setattr(decoder_networks, "load_network", counting)
    return counted


@ON_A_CPU
@pytest.mark.parametrize("options", sample([{"bits": 4}, {}, {"kind": np.float16}], of=3))
def test_another_start_loads_no_network(options: Any, loads: list[Any], tmp_path: Path):
    folder = write_folder(tmp_path / "model", **options)
    first = generated(og.Model(folder, cache=tmp_path / "programs"), max_length=LENGTH)
    assert first == generated(og.Model(folder), max_length=LENGTH)
    loads.clear()
    model = og.Model(folder, cache=tmp_path / "programs")
    assert generated(model, max_length=LENGTH) == first
    assert not loads
    made = sum(array.nbytes for array in model.decoder.networks.store.derived.values())
    assert "0 written" in model.report()
    assert f"computed from weights once: {made} bytes" in model.report()


def test_other_weights_have_programs_of_their_own(tmp_path: Path):
    folder, programs = write_folder(tmp_path / "model", bits=4), tmp_path / "programs"
    generated(og.Model(folder, cache=programs), max_length=LENGTH)
    write_folder(folder, bits=4, seed=1)
    made = generated(og.Model(folder, cache=programs), max_length=LENGTH)
    assert made == Reference(folder).greedy(PROMPT, 6)


def test_weights_that_are_gone_are_said_in_a_line(tmp_path: Path):
    folder, programs = write_folder(tmp_path / "model"), tmp_path / "programs"
    generated(og.Model(folder, cache=programs), max_length=LENGTH)
    (folder / "model.onnx").unlink()
    with pytest.raises(og.GenAIError, match=r"model\.onnx"):
        og.Model(folder, cache=programs)


@ON_A_CPU
def test_the_command_keeps_programs_unless_told_not_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder, programs = write_folder(tmp_path / "model"), tmp_path / "programs"
    monkeypatch.setenv("DML_JAX_CACHE", str(programs))
    words = ("generate", folder, "--prompt", "the quick", "--max_length", 12)
    without = command(*words, "--no-cache").stdout
    assert not programs.exists()
    assert [command(*words).stdout for _ in range(2)] == [without] * 2
    assert [*programs.iterdir()]

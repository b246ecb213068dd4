"""What goes wrong inside a model comes out at one door, in one line."""

from pathlib import Path
from typing import Any

import pytest
from language_folders import generator, write_folder

import dml_jax.genai as og
from dml_jax.errors import OF_BUG, InternalError
from dml_jax.genai.decoder_forms import BufferedDecoder


def test_a_bug_of_a_step_is_no_fault_of_the_folder(tmp_path: Path, monkeypatch: Any):
    folder = write_folder(tmp_path, layers=1)

    def planted(*_: Any) -> Any:
        raise TypeError("planted")

    monkeypatch.setattr(BufferedDecoder, "inputs", planted)
    with pytest.raises(TypeError, match="planted"):
        generator(og.Model(folder), [5, 77])  # tests set DML_JAX_RAISE=1
    monkeypatch.setenv("DML_JAX_RAISE", "0")
    with pytest.raises(InternalError) as caught:
        generator(og.Model(folder), [5, 77])
    assert [fault.kind for fault in caught.value.faults] == [OF_BUG]
    assert isinstance(caught.value.__cause__, TypeError)
    text = str(caught.value)
    assert text.startswith(f"the folder '{folder}': this is a bug of dml_jax") and "\n" not in text

"""What the tests of the room share: a small folder of FLOAT32, and its model."""

from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from language_folders import write_folder

    return write_folder(tmp_path_factory.mktemp("models") / "float")


@pytest.fixture(scope="module")
def model(folder: Path):
    import dml_jax.genai as og

    return og.Model(folder)

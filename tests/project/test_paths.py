"""What stays while modules move: public paths, and names of modules."""

import collections
import importlib
import re
from importlib import metadata
from pathlib import Path

import pytest

import dml_jax

ROOT = Path(__file__).parents[2]

PUBLIC = (
    *("enums", "errors", "facts", "constraints", "functional", "operators", "operator", "graph"),
    *("description.fields", "description.support", "rewrite", "bench", "pydirectml", "genai"),
    *("onnx", "onnx.backend", "onnxruntime", "onnxruntime.errors", "onnxruntime.capi"),
    *("onnxruntime.capi._pybind_state", "onnxruntime.capi.onnxruntime_inference_collection"),
    *("onnxruntime.capi.onnxruntime_pybind11_state", "onnxruntime.capi.onnxruntime_validation"),
    *("onnxruntime.backend", "onnxruntime.datasets"),
    *("__main__", "onnxruntime.__main__", "pydirectml.__main__", "genai.__main__"),
)
"""The modules that users and their pickles name, and those of `python -m`."""

TWICE = {
    "backend",  # ONNX and ONNX Runtime have a module of this name
    *("call", "enumerations", "errors", "model", "tensor"),
}
"""Names of several modules that are no families of operators; the list may only shrink."""


@pytest.mark.parametrize("path", PUBLIC)
def test_public_modules_stay_where_they_are(path: str):
    if path.startswith(("onnx", "rewrite", "genai")):
        pytest.importorskip("onnx")
    module = importlib.import_module(f"dml_jax.{path}")
    assert all(hasattr(module, name) for name in getattr(module, "__all__", ()))


def test_public_names_stay_where_they_are():
    assert all(hasattr(dml_jax, name) for name in dml_jax.__all__)
    (command,) = metadata.entry_points(group="console_scripts", name="dml-jax")
    assert callable(command.load())


def test_a_name_of_a_module_says_one_thing():
    paths = [p.relative_to(ROOT / "dml_jax") for p in (ROOT / "dml_jax").rglob("*.py")]
    families = {path.stem for path in paths if path.parent.name == "operators"}
    stems = collections.Counter(p.stem for p in paths if not p.stem.startswith("__"))
    assert {s for s, count in stems.items() if count > 1} - families == TWICE


def test_fuzzers_count_the_lines_of_modules_that_are_there():
    text = (ROOT / "tests" / "fuzz" / "fuzz_files.py").read_text()
    paths = re.findall(r'"((?:[a-z_]+/)+[a-z_]+\.py)"', text)
    assert paths and not [path for path in paths if not (ROOT / "dml_jax" / path).exists()]

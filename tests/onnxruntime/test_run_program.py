"""Programs that `python -m dml_jax.onnxruntime` runs as they are."""

import subprocess
import sys

import pytest
from build import saved


@pytest.fixture
def folder(tmp_path):
    saved("g (float[N] x) => (float[N] y) { y = Relu (x) }", tmp_path, "relu.onnx")
    return tmp_path


def run(folder, text, *arguments, code=0):
    if text is not None:
        (folder / "program.py").write_text(text)
        arguments = ("program.py", *arguments)
    command = [sys.executable, "-m", "dml_jax.onnxruntime", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def test_a_program_finds_this_package(folder):
    text = """
import importlib.metadata, importlib.util, sys
import numpy as np
import onnxruntime as ort
from onnxruntime import InferenceSession
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
from onnxruntime.capi import _pybind_state
from onnxruntime.capi.onnxruntime_inference_collection import OrtValue

session = InferenceSession("relu.onnx")
print(session.run(None, {"x": np.array([-1, 2], np.float32)})[0].tolist())
try:
    session.run(None, {"x": np.array([-1, 2])})
except InvalidArgument as error:
    print(type(error).__name__)
print(ort.InferenceSession.__module__, sys.argv[1:], __name__)
print(importlib.util.find_spec("onnxruntime") is not None)
print(importlib.metadata.version("onnxruntime") == ort.__version__ == ort.get_version_string())
print(ort.capi.onnxruntime_pybind11_state.InvalidArgument is InvalidArgument)
"""
    lines = run(folder, text, "a", "b").splitlines()
    assert lines == [
        "[0.0, 2.0]",
        "InvalidArgument",
        "dml_jax.onnxruntime.session ['a', 'b'] __main__",
        *["True"] * 3,
    ]


def test_processes_that_a_program_spawns_find_this_package(folder):
    text = """
import multiprocessing, numpy, onnxruntime
def run(k):
    session = onnxruntime.InferenceSession("relu.onnx")
    return onnxruntime.__name__, session.run(None, {"x": numpy.full(1, k, "float32")})[0].tolist()
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(run, [3]))
"""
    assert run(folder, text) == "[('dml_jax.onnxruntime', [3.0])]\n"


def test_a_module(folder):
    package = folder / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    text = "import sys, onnxruntime\nprint(onnxruntime.__name__, sys.argv[1:])\n"
    (package / "__main__.py").write_text(text)
    assert run(folder, None, "-m", "package", "x").split() == ["dml_jax.onnxruntime", "['x']"]


def test_quantization_comes_from_the_installed_package(folder):
    text = """
from onnxruntime.quantization import QuantType, quantize_dynamic
import onnxruntime.quantization as q
print("site-packages/onnxruntime/quantization" in q.__file__.replace("\\\\", "/"))
print(QuantType.QInt8.name)
"""
    assert run(folder, text).split() == ["True", "QInt8"]


def test_a_part_that_is_not_installed_is_one_sentence(folder):
    text = """
import sys
sys.path[:] = [p for p in sys.path if "site-packages" not in p]
try:
    import onnxruntime.quantization
except ImportError as error:
    print(error)
"""
    line = "onnxruntime.quantization comes from the package onnxruntime (pip install onnxruntime)"
    assert run(folder, text).strip() == line


def test_a_mistake_shows_the_lines_of_the_program_alone(folder):
    text = """
import onnxruntime
session = onnxruntime.InferenceSession("relu.onnx")
session.run(None, {"y": [1.0], "x": [1.0]})
"""
    shown = run(folder, text, code=1)
    assert shown.count("File ") == 1 and "line 4" in shown
    assert shown.strip().endswith("expected the name of an input ('x'), got 'y'")


def test_usage_and_files_that_are_not_there(folder):
    assert "Usage" in run(folder, None, code=2)
    assert "Usage" in run(folder, None, "--help")
    assert "can't open file 'no.py'" in run(folder, None, "no.py", code=2)

"""Large networks: what they take in memory, and how large tensors are read."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from build import model_of, node, parse, refusal, runtime
from nightly import sample
from onnx import TensorProto, helper, numpy_helper
from processes import linux

from dml_jax import load_onnx

RANDOM = np.random.default_rng(0)
SIZE = 2048  # of square matrices: 16 MB each

MEASURING = """
import sys
import jax
from dml_jax import load_onnx

def held(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(name))

def peak(path, prepare):
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the most that was held so far is forgotten
    before = held("VmRSS")
    network = load_onnx(path, prepare=prepare)
    jax.block_until_ready(network(network.random_inputs()))
    size = sum(weight.nbytes for weight in network.weights.values())
    return (held("VmHWM") - before) / size

small, path, prepare = sys.argv[1:]
peak(small, True)
print(peak(path, prepare == "prepared"))
"""


def products(op_type: str, size: int, count: int, **attributes: Any) -> Any:
    """Return a model of products, one after the other."""
    weights = {f"w{k}": RANDOM.standard_normal((size, size), np.float32) for k in range(count)}
    nodes = [node(op_type, f"y{k} w{k}", f"y{k + 1}", **attributes) for k in range(count)]
    return model_of(nodes, {"y0": (np.float32, [4, size])}, [f"y{count}"], weights)


def saved(model: Any, path: Path, is_external: bool) -> Path:
    onnx.save(model, path, save_as_external_data=is_external, location=f"{path.name}.data")
    return path


@linux
@pytest.mark.parametrize("is_external", sample([True, False]))
def test_weights_are_in_memory_once_and_prepared_ones_once_more(is_external: bool, tmp_path: Path):
    small = saved(products("Gemm", 8, 1, transB=1), tmp_path / "small.onnx", is_external)
    plain = saved(products("MatMul", SIZE, 6), tmp_path / "plain.onnx", is_external)
    turned = saved(products("Gemm", SIZE, 6, transB=1), tmp_path / "turned.onnx", is_external)
    # Each in a process of its own: memory that another network gave back would not count again.
    cases = [(plain, "prepared", 1.2), (turned, "prepared", 2.2), (turned, "as it is", 1.5)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", MEASURING, small, path, how],
            stdout=subprocess.PIPE,
            env={**os.environ, "JAX_PLATFORMS": "cpu"},
        )
        for path, how, _ in cases
    ]
    found = [float(process.communicate(timeout=120)[0]) for process in processes]
    for times, (_, _, most) in zip(found, cases, strict=True):
        assert 0.8 < times < most, found


@pytest.mark.parametrize("kind", ["FLOAT", "FLOAT16", "BFLOAT16", "INT8", "INT4", "INT64", "BOOL"])
@pytest.mark.parametrize("place", ["inline", "external", "bytes", "proto"])
def test_large_initializers_of_each_type(kind: str, place: str, tmp_path: Path):
    numbers = RANDOM.integers(-7, 8, (400, 500))
    dtype = helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(kind))
    array = (numbers > 0 if kind == "BOOL" else numbers).astype(dtype)
    nodes = [node("Cast", "w", "c", to=TensorProto.FLOAT), node("Mul", "x c", "y")]
    model = model_of(nodes, {"x": (np.float32, [500])}, ["y"], opset=21)
    model.graph.initializer.append(numpy_helper.from_array(array, "w"))
    path = saved(model, tmp_path / "m.onnx", is_external=place == "external")
    given = {"bytes": path.read_bytes(), "proto": model}.get(place, path)
    x = RANDOM.standard_normal(500, np.float32)
    network = load_onnx(given)
    np.testing.assert_array_equal(network({"x": x})["y"], x * array.astype(np.float32))
    network.save(tmp_path / "again.onnx")
    again = numpy_helper.to_array(onnx.load(tmp_path / "again.onnx").graph.initializer[0])
    assert again.dtype == array.dtype
    np.testing.assert_array_equal(again, array)


def test_large_initializers_between_small_ones(tmp_path: Path):
    weights = {
        "a": RANDOM.standard_normal((300, 200), np.float32),
        "b": RANDOM.standard_normal(200, np.float32),
        "c": RANDOM.standard_normal((200, 300), np.float32),
    }
    text = "g (float[2, 300] x) => (y) { p = MatMul(x, a) q = Add(p, b) y = MatMul(q, c) }"
    model, x = parse(text, **weights), RANDOM.standard_normal((2, 300), np.float32)
    (expected,) = runtime(model, {"x": x})
    for given in (saved(model, tmp_path / "m.onnx", False), model.SerializeToString(), model):
        found = np.asarray(load_onnx(given)({"x": x})["y"])
        np.testing.assert_allclose(found, expected, 1e-4, 1e-3)


def large_sum() -> Any:
    array = RANDOM.standard_normal((400, 500), np.float32)
    return model_of([node("Add", "x w", "y")], {"x": (np.float32, [500])}, ["y"], {"w": array})


@pytest.mark.parametrize("is_external", [False, True], ids=["inline", "external"])
def test_a_large_initializer_with_too_few_bytes_is_named(is_external: bool, tmp_path: Path):
    model = large_sum()
    model.graph.initializer[0].dims[0] = 401
    path = saved(model, tmp_path / "m.onnx", is_external)
    assert "the initializer 'w' cannot be read" in refusal(path)


def test_a_file_that_ends_early_is_no_model(tmp_path: Path):
    data = large_sum().SerializeToString()
    for count in (len(data) - 1, 3000, 10):
        (tmp_path / "m.onnx").write_bytes(data[:count])
        assert "m.onnx" in refusal(tmp_path / "m.onnx")
        assert "be an ONNX model" in refusal(data[:count])

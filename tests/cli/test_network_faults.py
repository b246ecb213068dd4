"""Networks, serialized graphs and PyDirectML programs under load and faults."""

import gc
import os
import weakref
from pathlib import Path
from unittest import mock

import jax
import numpy as np
import pytest
from build import command, parse, saved
from cli.test_faults import DEVICE, HALF, KB, MB, at_once, names, resident
from dispatch_models import dispatch, filled, model_file, model_of
from processes import dml_jax, interrupt, linux
from serialized_graphs import dense

from dml_jax import load_onnx
from dml_jax import pydirectml as dml
from dml_jax.dxdispatch.executor import Executor
from dml_jax.dxdispatch.parsing import load_model
from dml_jax.errors import DmlError

LAYER = "g (float[N,4] x) => (float[N,4] y) { z = MatMul(x, w)  y = Relu(z) }"
W = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)


def network(folder: Path) -> Path:
    return saved(parse(LAYER, w=W), folder)


def expected(x: np.ndarray) -> np.ndarray:
    return np.maximum(x @ W, 0)


# Load


@linux
def test_thousands_of_calls_leak_nothing(tmp_path: Path):
    net = load_onnx(network(tmp_path), {"x": (250, 4)})
    x = jax.numpy.ones((250, 4), jax.numpy.float32)

    def work(times: int) -> tuple[int, int]:
        for _ in range(times - 1):
            net(x)
        net(x)["y"].block_until_ready()
        gc.collect()
        return len(jax.live_arrays()), resident()

    arrays, held = work(500)
    arrays_after, held_after = work(10_000)
    assert arrays_after == arrays
    assert held_after - held < 20 * MB  # the results are 40 MB, and allocators keep some pages


def test_networks_leave_nothing(tmp_path: Path):
    gc.collect()
    path, arrays = network(tmp_path), len(jax.live_arrays())

    def loaded() -> weakref.ref:
        net = load_onnx(path, {"x": (2, 4)})
        net(np.ones((2, 4), np.float32))
        return weakref.ref(net)

    found = [loaded() for _ in range(3)]
    gc.collect()
    assert [net() for net in found] == [None] * 3
    assert len(jax.live_arrays()) == arrays


def test_sixteen_threads_call_one_network(tmp_path: Path):
    """They load networks too, and dispatch a model of one; some first calls are at once."""
    path = network(tmp_path)
    shared = load_onnx(path, {"x": (3, 4)})

    def work(index: int) -> None:
        rng = np.random.default_rng(index)
        for turn in range(3):
            x = rng.normal(size=(3, 4)).astype(np.float32)
            np.testing.assert_allclose(shared(x)["y"], expected(x), rtol=1e-5, atol=1e-6)
            own = shared if turn else load_onnx(path, {"x": (index % 3 + 1, 4)})
            y = rng.normal(size=own.inputs["x"].shape).astype(np.float32)
            np.testing.assert_allclose(own(y)["y"], expected(y), rtol=1e-5, atol=1e-6)
            with pytest.raises(DmlError, match="the input 'x' to be"):
                shared(x[:2])

    at_once(work)


# Files


@linux
def test_a_disk_that_is_full(tmp_path: Path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/y.npy").write_bytes(b"old")
    path = network(tmp_path)
    options = ["-f", "N:10000", "--output_path", "out"]
    done = dml_jax("run", path, *options, cwd=tmp_path, RLIMIT_FSIZE=64 * KB)
    assert done.status == 1
    rule = "expected the file 'out/y.npy' to be one that can be written"
    assert done.err == f"{rule}, got File too large\n"
    assert (tmp_path / "out/y.npy").read_bytes() == b"old"
    assert names(tmp_path) == ["n.onnx", "out", "out/y.npy"]


def test_a_folder_for_outputs_is_checked_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "out").write_bytes(b"a file")
    monkeypatch.setattr(Executor, "run", mock.Mock(side_effect=AssertionError("it ran")))
    words = ["run", network(tmp_path), "--output_path", tmp_path / "out/in"]
    assert "to be one that can be written" in command(*words, status=1).stderr


@pytest.mark.parametrize("change", ["gone", "short"])
def test_a_constant_whose_file_changes_after_the_check(change: str, tmp_path: Path):
    (tmp_path / "g.bin").write_bytes(dense())
    (tmp_path / "w.bin").write_bytes(bytes(48))
    net = {"type": "dmlSerializedGraph", "sourcePath": "g.bin"}
    resources = {"r": filled(9, 1), "s": filled(9, 1)}
    value = model_of(resources, {"net": net}, dispatch("net", x="r", y="s"))
    loaded = load_model(model_file(value, tmp_path))
    (tmp_path / "w.bin").unlink()
    if change == "short":
        (tmp_path / "w.bin").write_bytes(bytes(40))
    with pytest.raises(DmlError, match=r"'net: w': expected initialValues\.sourcePath 'w\.bin'"):
        Executor(loaded, DEVICE, print)


# Interruptions


@linux
def test_interrupted_while_dispatching(tmp_path: Path):
    words = ["run", network(tmp_path), "-t", "60000", "-v", "1", "--output_path", "out"]
    status, _, err = interrupt("Initialize", "-m", "dml_jax", *words, cwd=tmp_path)
    assert (status, err) == (130, "Interrupted.\n")
    assert {*names(tmp_path)} <= {"n.onnx", "out"}


@linux
def test_interrupted_while_writing(tmp_path: Path):
    (tmp_path / "y.npy").write_bytes(b"old")
    options = ["--output_path", "."]
    before = HALF.format(signal="SIGINT")
    done = dml_jax("run", network(tmp_path), *options, cwd=tmp_path, before=before)
    assert (done.status, done.err) == (130, "Interrupted.\n")
    assert (tmp_path / "y.npy").read_bytes() == b"old"
    assert names(tmp_path) == ["n.onnx", "y.npy"]


# PyDirectML's programs


class Sums:
    """A compiled graph that adds a tensor to itself."""

    def __init__(self, device: dml.Device, size: int):
        builder = dml.GraphBuilder(device)
        self.device, self.size = device, size
        self.x = dml.input_tensor(
            builder, 0, dml.TensorDesc(dml.TensorDataType.FLOAT32, [1, 1, 1, size])
        )
        self.y = self.x + self.x
        self.model = builder.build(dml.ExecutionFlags.NONE, [self.y])

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return np.array(self.device.compute(self.model, [dml.Binding(self.x, x)], [self.y])[0])


@linux
def test_thousands_of_computes_leak_nothing():
    double, x = Sums(dml.Device(True, False), 1000), np.ones(1000, np.float32)

    def work(times: int) -> tuple[int, int]:
        for _ in range(times):
            double(x)
        gc.collect()
        return len(jax.live_arrays()), resident()

    arrays, held = work(200)
    arrays_after, held_after = work(1500)
    assert arrays_after == arrays
    assert held_after - held < 4 * MB  # the results are 6 MB


def test_sixteen_threads_compute_on_one_device():
    device = dml.Device(True, False)

    def work(index: int) -> None:
        double = Sums(device, 4 + index % 3)
        for turn in range(3):
            x = np.full(double.size, index + turn, np.float32)
            assert (double(x) == 2 * x).all()

    at_once(work)


PROGRAM = """
import numpy as np, pydirectml as dml
device = dml.Device(True, False)
builder = dml.GraphBuilder(device)
x = dml.input_tensor(builder, 0, dml.TensorDesc(dml.TensorDataType.FLOAT32, [1, 1, 1, 2]))
y = x + x
model = builder.build(dml.ExecutionFlags.NONE, [y])
print("READY", flush=True)
while True:
    device.compute(model, [dml.Binding(x, np.ones(2, np.float32))], [y])
"""


@linux
def test_an_interrupted_program_shows_its_own_lines_alone(tmp_path: Path):
    (tmp_path / "program.py").write_text(PROGRAM)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    words = ["-m", "dml_jax.pydirectml", "program.py"]
    status, _, err = interrupt("READY", *words, cwd=tmp_path, env=env)
    assert status == 130
    first, second, *_, last = err.splitlines()
    assert first == "Traceback (most recent call last):"
    assert 'File "program.py", line' in second
    assert last.startswith("KeyboardInterrupt")

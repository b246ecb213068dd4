"""The backend for ONNX's own runner, and its interface."""

import re

import jax
import numpy as np
import onnx
import pytest
from build import parse
from conformance import backend as runner
from conformance.report import PAGE, RUNNER_TITLE
from onnx import helper

from dml_jax import DmlError
from dml_jax.onnx import backend

MODEL = parse("""g (float[n,3] x, int64[2] shape) => (float[a,b] y, float[n,3] z)
<float one = {1}> { z = Add(x, one)  y = Reshape(z, shape) }""")
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_a_sample_of_the_runner_passes():
    """Plain nodes, sizes that are inputs, sizes that data decides, and control flow."""
    names = ("add", "slice_neg", "reshape_zero_dim", "range_float_type_positive_delta", "nonzero_")
    names += ("if_cpu", "scan_sum", "resize_upsample_sizes_nearest_cpu", "topk_smallest")
    names += ("expand_dim_changed", "cast_FLOAT_to_DOUBLE", "compress_0")
    found = runner.outcomes([f"^test_{name}" for name in names])
    assert found.others == {}
    assert found.passed == found.tests > len(names)


def test_the_page_counts_every_test_of_the_runner():
    section = PAGE.read_text().partition(f"## {RUNNER_TITLE}")[2]
    row = re.search(r"^\| dml_jax \|.*$", section, re.MULTILINE)
    assert row is not None, "python tests/conformance/report.py writes the page"
    tests, passed, at_load = map(int, row[0].strip("| ").split(" | ")[3:6])
    counts = re.findall(r"^\| [^|]+ \| (\d+) \| `test_", section, re.MULTILINE)
    assert tests == passed + sum(map(int, counts))
    assert at_load < passed


def test_sizes_are_inputs_and_change_from_call_to_call():
    prepared = backend.prepare(MODEL)
    for shape in ([3, 2], [1, 6], [6, 1]):
        y, z = prepared.run([X, np.array(shape)])
        np.testing.assert_array_equal(y, (X + 1).reshape(shape))
        np.testing.assert_array_equal(z, X + 1)
    assert prepared.run({"x": X[:1], "shape": np.array([3, 1])})[0].shape == (3, 1)
    assert len(prepared.networks) == 4
    prepared.run([X, np.array([3, 2])])
    assert len(prepared.networks) == 4


def test_64_bits_stay_whatever_jax_says(no_x64: None):
    node = helper.make_node("Add", ["a", "b"], ["c"])
    large = np.array([2**40])
    (result,) = backend.run_node(node, [large, large])
    np.testing.assert_array_equal(result, [2**41])
    assert result.flags.writeable
    assert jax.numpy.arange(3).dtype == np.int32


def test_nodes_of_older_versions():
    node = helper.make_node("Softmax", ["x"], ["y"])
    (old,) = backend.run_node(node, X.reshape(1, 2, 3), opset_version=11)
    np.testing.assert_allclose(old.sum(), 1, rtol=1e-6)
    (new,) = backend.run_node(node, X.reshape(1, 2, 3))
    np.testing.assert_allclose(new.sum(), 2, rtol=1e-6)


def test_devices():
    assert backend.supports_device("CPU")
    assert backend.supports_device("CPU:7")  # the tests have 8
    has_gpu = any(d.platform == "gpu" for d in jax.devices())
    assert backend.supports_device("CUDA") == has_gpu
    for name in ("CPU:8", "TPU", "CPU:x", ""):
        assert not backend.supports_device(name)
    with pytest.raises(DmlError, match=r"the device to be CPU, CUDA or CUDA:1, and there .*CPU"):
        backend.prepare(MODEL, "cpu")


def test_compatible_models():
    assert backend.is_compatible(MODEL)
    node = helper.make_node("StringConcat", ["a", "b"], ["c"])
    values = [helper.make_tensor_value_info(n, onnx.TensorProto.STRING, [1]) for n in "abc"]
    assert not backend.is_compatible(
        helper.make_model(helper.make_graph([node], "g", values[:2], values[2:]))
    )


def test_bad_inputs():
    prepared = backend.prepare(MODEL)
    with pytest.raises(DmlError, match=r"the number of arrays to be 2 \(x, shape\), got 1"):
        prepared.run([X])
    with pytest.raises(DmlError, match=r"the input 'x' to be a tensor .*got a list"):
        prepared.run([[X, X], np.array([3, 2])])
    with pytest.raises(DmlError, match="be an ONNX model"):
        backend.prepare(b"")
    with pytest.raises(DmlError, match="the number of arrays to be 1"):
        backend.run_node(helper.make_node("Abs", ["x"], ["y"]), [X, X])

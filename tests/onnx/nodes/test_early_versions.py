"""Op types and versions of old files, and corners of sizes, beside ONNX Runtime."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from build import case, external, floats, model_of, node, runtime, same_as_runtime, saved, single
from onnx import TensorProto, helper, numpy_helper

from dml_jax import load_onnx
from dml_jax.onnxruntime import InferenceSession

RANDOM = np.random.RandomState(3)
X = floats(RANDOM.randn(2, 3, 4, 4))
ROWS = floats(RANDOM.randn(4, 6))
BYTES = RANDOM.randint(0, 256, (2, 5, 6, 3)).astype(np.uint8)
QUANTIZED = {
    "sx": floats(0.05),
    "zx": np.uint8(120),
    # Without VNNI, ONNX Runtime adds two products in 16 bits: those of weights below 64 fit.
    "w": RANDOM.randint(-64, 64, (4, 3, 3, 3)).astype(np.int8),
    "sw": floats([0.01, 0.02, 0.03, 0.005]),
    "zw": np.zeros(4, np.int8),
    "sy": floats(0.4),
    "zy": np.uint8(100),
    "b": np.arange(4, dtype=np.int32) * 999,
}

FILTER = X.transpose(1, 0, 2, 3)[..., :3, :3]
SHAPES = [
    {"output_shape": [3, 3]},
    {"output_shape": [3, 6]},
    {"output_shape": [1, 9], "strides": [2, 2], "output_padding": [1, 1]},
    {"output_shape": [3, 2], "strides": [3, 2], "dilations": [2, 1]},
]
LITTLE = (floats([0, 0, 0]), floats([]), floats([1e-30, 0]), floats([-1, -1]))
SCALED, PART = {"X": ROWS, "s": ROWS[0]}, {"s": np.array([1, 2]), "e": np.array([3, -1])}
ENDS = {"s": np.array([1]), "e": np.array([9]), "a": np.array([-1])}

# The op type, arrays (those in lower case are initializers) and attributes
CASES: list[tuple[str, dict[str, Any]]] = [
    ("LayerNormalization", {**SCALED, "b": ROWS[1], "opset": 11, "axis": -1}),
    ("LayerNormalization", {**SCALED, "opset": 16, "outputs": "y m d"}),
    *(
        ("MeanVarianceNormalization", {"X": X, "opset": 8, "across_channels": a, **more})
        for a in (0, 1)
        for more in ({}, {"normalize_variance": 0})
    ),
    ("Scale", {"X": ROWS, "scale": 2.5, "opset": 8}),
    ("DynamicSlice", {"X": ROWS, **PART, "opset": 8}),
    ("DynamicSlice", {"X": ROWS > 0, **ENDS, "opset": 9}),
    ("Shrink", {"X": np.arange(-4, 5, dtype=np.int32), "bias": 1.5, "lambd": 1.5}),
    ("Shrink", {"X": np.arange(9, dtype=np.uint8), "bias": 0.25, "lambd": 2.5}),
    *(("ConvTranspose", {"X": X, "w": FILTER, **shape}) for shape in SHAPES),
    *(("DynamicQuantizeLinear", {"X": x, "outputs": "y s z"}) for x in LITTLE),
]


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize(("op_type", "given"), CASES)
def test_a_node_is_as_in_onnx_runtime(op_type: str, given: dict[str, Any], is_known: bool):
    given = {name.replace("X", "x"): a for name, a in given.items()} if is_known else given
    model, inputs = case(op_type, **given)
    model.ir_version = 3 if given.get("opset", 18) < 9 and not model.graph.initializer else 8
    same_as_runtime(model, inputs, atol=1e-5, has_types=True)


@pytest.mark.parametrize("more", [{}, {"pads": [1, 0, 1, 2], "strides": [2, 1]}, {"group": 1}])
@pytest.mark.parametrize("count", [8, 9])
def test_a_quantized_convolution_may_have_its_channels_last(more: dict[str, Any], count: int):
    """In float64; a quotient that lies at a half may be rounded to either side."""
    names = ["sx", "zx", "w", "sw", "zw", "sy", "zy", "b"][: count - 1]
    arrays = {"X": BYTES, **{name: QUANTIZED[name] for name in names}}
    given = {"domain": "com.microsoft", "channels_last": 1, **more}
    model = single("QLinearConv", arrays, constants=names, **given)
    (result,) = load_onnx(model)({"X": BYTES}).values()
    own = arrays | {"X": BYTES.transpose(0, 3, 1, 2)}
    (expected,) = runtime(single("QLinearConv", own, constants=names, **more), {"X": own["X"]})
    assert result.dtype == np.uint8
    difference = np.asarray(result).astype(int) - expected.transpose(0, 2, 3, 1)
    assert np.abs(difference).max() <= 1 and (difference == 0).mean() > 0.99


@pytest.mark.parametrize("has_states", [False, True])
@pytest.mark.parametrize(("op_type", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_a_recurrence_over_no_steps_has_its_first_states(
    op_type: str, gates: int, has_states: bool
):
    x = np.zeros((0, 2, 4), np.float32)
    arrays = {"x": x, "w": np.ones((1, 3 * gates, 4)), "r": np.ones((1, 3 * gates, 3))}
    states = ["h", "c"][: 2 if op_type == "LSTM" else 1]
    arrays = {name: floats(array) for name, array in arrays.items()}
    given = {name: floats(RANDOM.randn(1, 2, 3)) for name in states if has_states}
    made = node(
        *(op_type, " ".join(["x w r - -", *given]), " ".join(["y", *(f"{s}_" for s in states)])),
        hidden_size=3,
    )
    inputs = {n: (a.dtype, a.shape) for n, a in {"x": x, **given}.items()}
    model = model_of([made], inputs, made.output, {n: arrays[n] for n in "wr"})
    feeds = {"x": x, **given}
    session = InferenceSession(model.SerializeToString())
    for found in ([*load_onnx(model)(feeds).values()], session.run(None, feeds)):
        assert found[0].shape == (0, 1, 2, 3)
        for name, state in zip(states, found[1:], strict=True):
            np.testing.assert_array_equal(state, given.get(name, np.zeros((1, 2, 3))))


@pytest.mark.parametrize(("own", "whole"), [(16, 18), (21, 18), (18, 21), (12, 13)])
def test_a_function_has_nodes_of_its_own_opset(own: int, whole: int):
    """Softmax over all dimensions from the axis on, up to opset 12."""
    nodes = [node("Neg", "a", "b"), node("Softmax", "b", "c", axis=1)]
    imports = [helper.make_opsetid("", own)]
    function = helper.make_function("l", "f", ["a"], ["c"], nodes, imports)
    inputs = {"x": (np.float32, X.shape)}
    made = [node("f", "x", "y", domain="l"), node("Relu", "y", "z")]
    model = model_of(made, inputs, ["z"], opset=whole, functions=[function])
    session = InferenceSession(model.SerializeToString())
    powers = np.exp(-X.astype(np.float64))
    expected = powers / powers.sum(1 if own >= 13 else (1, 2, 3), keepdims=True)
    np.testing.assert_allclose(session.run(None, {"x": X})[0], expected, 1e-5, 1e-6)
    np.testing.assert_allclose(load_onnx(model)(X)["z"], expected, 1e-5, 1e-6)


@pytest.mark.parametrize("element", ["FLOAT", "FLOAT16", "INT64", "INT4", "UINT2", "BOOL"])
def test_external_data_may_lack_its_length(element: str, tmp_path: Path):
    kind = helper.tensor_dtype_to_np_dtype(getattr(TensorProto, element))
    array = (np.arange(300).reshape(100, 3) % 2).astype(kind)
    data = numpy_helper.from_array(array).raw_data
    (tmp_path / "w.bin").write_bytes(b"1234" + data + b"more than the tensor has")
    tensor = external(array, "w", location="w.bin", offset="4")
    made = [node("Cast", "w", "v", to=TensorProto.FLOAT), node("Add", "x v", "y")]
    model = model_of(made, {"x": (np.float32, [3])}, ["y"], opset=25)
    model.graph.initializer.append(tensor)
    x = floats([1, 2, 3])
    result = load_onnx(saved(model, tmp_path))({"x": x})["y"]
    np.testing.assert_array_equal(result, array.astype(np.float32) + x)

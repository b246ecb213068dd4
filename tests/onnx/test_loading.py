"""ONNX networks as graphs of DirectML operators: `load_onnx`, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from build import (
    case,
    command,
    floats,
    model_of,
    node,
    operators_of,
    parse,
    refusal,
    runtime,
    same_as_runtime,
    saved,
)
from onnx import TensorProto, helper

from dml_jax import DmlError, load_onnx

RANDOM = np.random.RandomState(0)


def dense() -> tuple[Any, np.ndarray, np.ndarray]:
    """Return a model of one layer, with its weights."""
    w = RANDOM.randn(4, 3).astype(np.float32)
    b = RANDOM.randn(3).astype(np.float32)
    nodes = [node("Gemm", "x w b", "z"), node("Relu", "z", "y")]
    return model_of(nodes, {"x": (np.float32, ["batch", 4])}, ["y"], {"w": w, "b": b}), w, b


# What a network is


def test_a_network_is_called_by_name_and_in_order():
    model, w, b = dense()
    network = load_onnx(model, free_dimensions={"batch": 2})
    x = RANDOM.randn(2, 4).astype(np.float32)
    expected = np.maximum(x @ w + b, 0)
    np.testing.assert_allclose(network({"x": x})["y"], expected, rtol=1e-5)
    np.testing.assert_allclose(network(x)["y"], expected, rtol=1e-5)
    assert network.outputs == ["y"]
    assert operators_of(network) == ["DML_OPERATOR_GEMM", "DML_OPERATOR_ACTIVATION_RELU"]
    assert str(network.minimum_feature_level) == "4_0"


def test_weights_are_arguments():
    model, _, _ = dense()
    network = load_onnx(model, {"x": (2, 4)})
    x = jnp.ones((2, 4), jnp.float32)
    assert set(network.weights) == {"w", "b"} == set(network.trainable)
    zeros = jax.tree.map(jnp.zeros_like, network.weights)
    assert not network.apply(zeros, {"x": x})["y"].any()
    gradient = jax.grad(lambda w: network.apply(w, {"x": x})["y"].sum())(network.weights)
    assert gradient["w"].shape == (4, 3)
    assert not jax.make_jaxpr(network.apply)(network.weights, {"x": x}).consts


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"free_dimensions": [2]}, "free_dimensions to be a dict, {'NAME': VALUE}, got [2]"),
        ({"free_dimensions": {"x": 2.5}}, "free_dimensions['x'] to be a whole number, got 2.5"),
        ({"input_shapes": {"x": 2}}, "input_shapes['x'] to be a list of whole numbers"),
        ({"input_shapes": {"x": ["2", 4]}}, "input_shapes['x'] to be a list of whole numbers"),
        ({"bounds": 5}, "bounds to be a dict"),
        ({"constants": "x"}, "constants to be a dict"),
    ],
)
def test_options_by_name_are_dicts_of_whole_sizes(options: dict[str, Any], message: str):
    assert message in refusal(dense()[0], **options)


def test_every_name_without_a_size_is_said_once():
    model = parse("""
        g (float[batch, time] a, float[batch, more] b) => (float[n, m] y) {
            y = Concat <axis = 1> (a, b)
        }""")
    with pytest.raises(DmlError) as refused:
        load_onnx(model)
    names = ["batch", "time", "more"]
    assert [fault.value for fault in refused.value.faults] == [f"'{name}'" for name in names]
    cures = zip(names, str(refused.value).splitlines(), strict=True)
    assert all(f"free_dimensions={{'{name}': ...}}" in line for name, line in cures)


def test_a_file_of_another_name_is_named(tmp_path: Path):
    saved(dense()[0], tmp_path, "network.onnx")
    with pytest.raises(DmlError, match=r"did you mean 'network\.onnx'"):
        load_onnx(tmp_path / "network.onx")


def test_constants_of_one_number_are_no_weights():
    """PyTorch exports what attention masks with as Constants [-inf]; AdamW would make NaN of it."""
    model = parse("""
        masked (float[2, 2] x, bool[2, 2] mask) => (float[2, 2] y) <float[2, 2] w = {1, 2, 3, 4}> {
            z = MatMul(x, w)
            none = Constant <value = float[1] {-inf}> ()
            scores = Where(mask, z, none)
            y = Softmax(scores)
        }""")
    network = load_onnx(model)
    assert set(network.weights) == {"w"}
    x, mask = np.ones((2, 2), np.float32), np.tril(np.ones((2, 2), bool))
    expected = np.exp([[4, -np.inf], [4, 6]])
    expected /= expected.sum(1, keepdims=True)
    np.testing.assert_allclose(network(x, mask)["y"], expected, rtol=1e-5)


def test_inputs_of_another_shape_or_name_are_refused():
    network = load_onnx(dense()[0], {"x": (2, 4)})
    with pytest.raises(DmlError, match=r"the input 'x' to be float32\[2, 4\]"):
        network(np.ones((3, 4), np.float32))
    with pytest.raises(DmlError, match="name an input"):
        network({"X": np.ones((2, 4), np.float32)})
    for is_wide in (False, True):
        with jax.enable_x64(is_wide), pytest.raises(DmlError, match="got float64"):
            network(np.ones((2, 4)))
    with pytest.raises(DmlError, match="the weight 'b' to be given"):
        network.apply({"w": network.weights["w"]}, {"x": np.ones((2, 4), np.float32)})
    with pytest.raises(DmlError, match="weights to come before inputs"):
        network.apply({"x": np.ones((2, 4), np.float32)}, network.weights)


def test_quantized_weights_stay_narrow():
    w = RANDOM.randint(-9, 9, (4, 3)).astype(np.int8)
    arrays = {"w": w, "s": floats([0.5]), "c": np.arange(3)}
    text = """g (float[2, 4] x) => (z, g) {
        f = DequantizeLinear(w, s) t = Transpose(f) z = MatMul(x, f) g = Gather(t, c)
    }"""
    network = load_onnx(parse(text, **arrays))
    assert network.weights["w"].dtype == np.int8
    assert set(network.weights) == {"w", "s"}
    assert not network.trainable  # a scale of one element
    x = RANDOM.randn(2, 4).astype(np.float32)
    result = network(x)
    np.testing.assert_allclose(result["z"], x @ (w * np.float32(0.5)), rtol=1e-5)
    np.testing.assert_allclose(result["g"], (w * np.float32(0.5)).T)


@pytest.mark.usefixtures("no_x64")
def test_a_loss_of_labels_needs_no_64_bits():
    model = parse("""
        loss (float[3, 4] scores, int64[3] labels) => (float y) {
            y = SoftmaxCrossEntropyLoss <ignore_index = 1> (scores, labels)
        }""")
    scores, labels = RANDOM.randn(3, 4).astype(np.float32), np.array([0, 3, 1])
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    expected = -(logs[0, 0] + logs[1, 3]) / 2
    np.testing.assert_allclose(load_onnx(model)(scores, labels)["y"], expected, rtol=1e-5)


@pytest.mark.usefixtures("no_x64")
def test_an_output_that_is_a_large_integer_is_not_cut():
    nodes = [node("Add", "large large", "y"), node("Relu", "x", "z")]
    large = {"large": np.array([2**40, 3])}
    model = model_of(nodes, {"x": (np.float32, [2])}, ["y", "z"], large)
    message = refusal(model)
    assert message.startswith("expected the constant 'y' to fit INT32 while 64-bit types are off")
    with jax.enable_x64(True):
        assert load_onnx(model)(np.ones(2, np.float32))["y"].tolist() == [2**41, 6]


def test_nodes_in_another_order_are_sorted():
    nodes = [node("Add", "b a", "y"), node("Neg", "a", "b"), node("Exp", "x", "a")]
    model, x = model_of(nodes, {"x": (np.float32, [3])}, ["y"]), floats([1, 2, 3])
    np.testing.assert_allclose(load_onnx(model)(x)["y"], runtime(model, {"x": x})[0])


# Tensors without elements


@pytest.mark.parametrize(("op_type", "sizes"), [("MatMul", [3, 4]), ("Add", [1, 3])])
def test_what_follows_from_weights_and_no_elements_is_empty(op_type: str, sizes: list[int]):
    nodes = [node("Slice", "x end end", "none"), node(op_type, "none w", "y")]
    weights = {"end": np.array([2]), "w": floats(np.ones(sizes))}
    model = model_of(nodes, {"x": (np.float32, [2, 3])}, ["y"], weights)
    x = floats(np.ones((2, 3)))
    result, expected = load_onnx(model)(x)["y"], runtime(model, {"x": x})[0]
    assert result.shape == expected.shape == (0, sizes[1])


def test_a_tensor_without_elements_is_named():
    inputs = {"a": (np.uint8, [2, 0]), "b": (np.uint8, [0, 3]), "zero": (np.uint8, [])}
    message = refusal(model_of([node("MatMulInteger", "a b zero", "y")], inputs, ["y"]))
    assert message.startswith("Node 'y' (MatMulInteger): expected the tensor 'a' to have elements")


INTEGERS, FLOATS = "DML_OPERATOR_MATRIX_MULTIPLY_INTEGER_TO_FLOAT", "DML_OPERATOR_GEMM"


def quantized(dtype: str, shape: tuple[int, ...], count: tuple[int, ...]) -> list[np.ndarray]:
    """Return random integers, and `count` scales and zero points."""
    rng, limits = np.random.default_rng(len(shape)), np.iinfo(dtype)
    array, zero = (rng.integers(limits.min, limits.max, n, dtype, True) for n in (shape, count))
    return [array, (rng.integers(1, 9, count) / 8).astype(np.float32), np.asarray(zero)]


def real(array: np.ndarray, scale: Any, zero: np.ndarray, axis: int) -> np.ndarray:
    """Return what quantized numbers stand for; several scales lie along an axis."""
    lies = [-1 if d == axis % array.ndim else 1 for d in range(array.ndim)] if zero.ndim else ()
    return (array - zero.reshape(lies).astype(np.float64)) * np.reshape(scale, lies)


@pytest.mark.parametrize(
    ("a", "b", "count", "axis", "product"),
    [
        (("uint8", (5, 4)), ("uint8", (4, 3)), (), 1, INTEGERS),
        (("uint8", (2, 5, 4)), ("int8", (4, 3)), (3,), -1, INTEGERS),
        (("int8", (2, 5, 4)), ("uint8", (2, 4, 3)), (), 1, INTEGERS),
        (("uint8", (5, 4)), ("int8", (4, 3)), (4,), 0, FLOATS),
        (("uint8", (5, 4)), ("int8", (4,)), (), 0, FLOATS),
    ],
)
@pytest.mark.parametrize("has_zeros", [True, False])
def test_quantized_matrices_are_multiplied_as_integers(
    a: Any, b: Any, count: tuple[int, ...], axis: int, product: str, has_zeros: bool
):
    left, right = quantized(*a, ()), quantized(*b, count)
    for part in (left, right):
        part[2] *= has_zeros
    arrays = dict(zip(("s", "z", "b", "t", "u"), (*left[1:], *right), strict=True))
    given = ["a, s, z", "b, t, u"] if has_zeros else ["a, s", "b, t"]
    text = f"g ({a[0]}{[*a[1]]} a) => (y) {{ x = DequantizeLinear({given[0]})"
    text += f" w = DequantizeLinear<axis = {axis}>({given[1]}) y = MatMul(x, w) }}"
    network = load_onnx(parse(text, **arrays))
    expected = real(*left, 0) @ real(*right, axis)
    np.testing.assert_allclose(network(left[0])["y"], expected, rtol=1e-6)
    if has_zeros:
        assert product in operators_of(network)


# Sizes, constants, branches and functions


def test_free_dimensions_are_named():
    model, _, _ = dense()
    message = refusal(model)
    assert "free_dimensions={'batch': ...}" in message
    assert "input_shapes={'x': [...]}" in message
    assert "did you mean 'batch'" in refusal(model, free_dimensions={"bach": 1})
    assert "have size 4 in dimension 1" in refusal(model, input_shapes={"x": (2, 5)})
    network = load_onnx(model, free_dimensions={"batch": 1})
    assert repr(network) == "<Network: x FLOAT[1, 4] -> y FLOAT[1, 3]; 2 operators, 2 weights>"
    with pytest.raises(DmlError, match=r"\(load_onnx\(..., free_dimensions=\{'batch': 4\}\)"):
        network(x=np.zeros((4, 4), np.float32))


def test_functions_of_the_model_are_translated():
    model = parse("""<ir_version: 10, opset_import: ["": 18, "own": 1]>
        g (float[2] x) => (y) { y = own.Twice <slope = 0.5> (x) }
        <domain: "own", opset_import: ["": 18]> Twice <slope> (a) => (c) {
            two = Constant <value_float = 2.0> () b = Mul(a, two)
            c = LeakyRelu <alpha: float = @slope> (b)
        }""")
    assert load_onnx(model)(floats([3, -4]))["y"].tolist() == [6, -4]


# What is refused


def test_all_that_is_in_the_way_is_said_at_once():
    nodes = [
        node("Foo", "x", "a", name="first"),
        node("Relu", "x", "b", name="fine"),
        helper.make_node("Elu", ["b"], ["c"], name="third", gamma=1.0),
        node("Add", "c w", "d", name="fourth"),
        node("Add", "a d", "y"),
    ]
    message = refusal(model_of(nodes, {"x": (np.float32, [2]), "w": (np.float64, [2])}, ["y"]))
    assert "Node 'first' (Foo): expected op type to be known" in message
    assert "Node 'third' (Elu): expected gamma to be an attribute of Elu 6" in message
    assert len(message.splitlines()) == 2


def test_an_opset_that_is_not_known_is_refused():
    model = model_of([node("Relu", "x", "y")], {"x": (np.float32, [2])}, ["y"], opset=28)
    load_onnx(model)
    model.opset_import[0].version = 99
    assert "the opset to be in [1, 28], got 99" in refusal(model)


def test_other_sources_are_refused(tmp_path: Path):
    assert "be a path, bytes or a ModelProto" in refusal(3)
    assert "No such file" in refusal(tmp_path / "none.onnx")
    with pytest.raises(FileNotFoundError):
        load_onnx(tmp_path / "none.onnx")
    assert "be an ONNX model" in refusal(b"\x08\xff\xff")
    assert "an empty file" in refusal(b"")


def test_an_output_of_another_type_than_its_model_says_is_refused():
    model = parse("g (float[2] x) => (int64[2] y) { y = Relu (x) }")
    assert "the output 'y' to be INT64, as the model declares it, got FLOAT" in refusal(model)


def test_nodes_that_read_each_other_are_refused():
    nodes = [node("Relu", "z", "y"), node("Relu", "y", "z")]
    message = refusal(model_of(nodes, {"x": (np.float32, [2])}, ["y"]))
    assert "the tensor 'y' to be an input, an initializer or an output of a node" in message
    assert "a node that does not read this one, got none of these" in message


# 64-bit integers while JAX has 32


@pytest.mark.usefixtures("no_x64")
def test_indices_are_32_bits_inside():
    nodes = [node("Gather", "w ids", "e"), node("ArgMax", "e", "y", axis=1, keepdims=0)]
    w = RANDOM.randn(9, 4).astype(np.float32)
    model = model_of(nodes, {"ids": (np.int64, [3])}, ["e", "y"], {"w": w})
    network = load_onnx(model)
    ids = np.array([8, 0, -1])
    result = network(ids)
    np.testing.assert_array_equal(result["e"], w[ids])
    np.testing.assert_array_equal(result["y"], w[ids].argmax(1))
    assert result["y"].dtype == np.int32
    assert "input 'ids': INT64 is INT32 inside" in network.report()
    with pytest.raises(DmlError, match="fit int32 while 64-bit types are off"):
        network(np.array([2**40, 0, 0]))


@pytest.mark.usefixtures("no_x64")
@pytest.mark.parametrize(
    ("body", "fits"),
    [
        ("y = Add(a, b)", False),
        ("y = Mul(a, ten)", False),
        ("m = Cast <to = 7> (mask) y = Mul(m, ten)", True),
        ("m = Cast <to = 7> (mask) s = CumSum(m, zero) y = Add(s, ten)", True),
        ("y = Neg(a)", False),
        ("y = ReduceSum(a)", False),
        ("y = ReduceMax(a)", True),
    ],
)
def test_arithmetic_that_may_need_64_bits_is_refused(body: str, fits: bool):
    head = "g (int64[3] a, int64[3] b, bool[3] mask) => (y) <int64[1] ten = {10}, int64 zero = {0}>"
    model = parse(f"{head} {{ {body} }}")
    if not fits:
        assert "the result to stay within" in refusal(model)
    with jax.enable_x64(not fits):
        assert load_onnx(model).outputs == ["y"]


# What ONNX's own tests leave open: old versions, and other traps, beside ONNX Runtime

X = RANDOM.randn(2, 3, 4).astype(np.float32)
SPECIAL = np.array([0.0, -0.0, 0.3, -1.0, np.nan, np.inf, -np.inf, 2.5], np.float32)
STATES = {
    "X": RANDOM.randn(5, 3, 2).astype(np.float32),
    "w": RANDOM.randn(1, 16, 2).astype(np.float32),
    "r": RANDOM.randn(1, 16, 4).astype(np.float32),
    "b": RANDOM.randn(1, 32).astype(np.float32),
    "LENGTHS": np.array([5, 2, 3], np.int32),
}
ENDS = {"s": np.array([-1, 2]), "e": np.array([-(2**63), 0]), "a": np.array([2, 1])}
POOL = {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1], "ceil_mode": 1}
SUMS = {"S": X[::-1], "g": X[0, 0], "b": X[0, 1], "outputs": "y - - total"}
BOXES = floats([[0, 0, 0, 2, 2], [0, 1, 0, 3, 1]])
HALVES = floats([0.5, 1.5, 2.5, -0.5])
MICROSOFT = {"domain": "com.microsoft"}
TRAPS = {
    "softmax of the rest": case("Softmax", X=X, opset=11),
    "log of softmax of the rest": case("LogSoftmax", X=X, opset=11, axis=-2),
    "hardmax of the rest": case("Hardmax", X=X, opset=11, axis=1),
    "softmax of an axis": case("Softmax", X=X, opset=13, axis=1),
    "bounds as attributes": case("Clip", X=X, opset=6, min=-0.5, max=0.5),
    "no bounds": case("Clip", X=SPECIAL[:4], opset=13),
    "everything but 0 is true": case("Cast", X=SPECIAL, to=TensorProto.BOOL),
    "a wide number is true": case("Cast", X=np.array([256, 0, -1]), to=TensorProto.BOOL),
    "neither infinity": case("IsInf", X=SPECIAL, detect_negative=0, detect_positive=0),
    "slices as attributes": case("Slice", X=X, opset=9, starts=[0, 1], ends=[2, -1]),
    "a slice backward": case("Slice", X=X, **ENDS, t=np.array([-1, -2])),
    "a window in the padding": case("MaxPool", X=X[None], opset=12, **POOL),
    "padding that cuts": case("Pad", X=X, p=np.array([0, -1, 1, 0, 1, -2])),
    "axes as an attribute": case("ReduceSum", X=X, opset=11, axes=[-1], keepdims=0),
    "axes as an input": case("ReduceSum", X=X, a=np.array([-1]), opset=13),
    "lengths of sequences": case("LSTM", **STATES, outputs="y h c", hidden_size=4),
    "upsampling": case("Upsample", X=X[None], s=floats([1, 1, 2, 1.5]), opset=9, mode="linear"),
    "a cubic": case("Resize", X=X[None], r=floats([]), s=floats([1, 1, 1.7, 0.6]), mode="cubic"),
    "GELU by a tangent": case("FastGelu", X=X, **MICROSOFT),
    "GELU with a bias": case("BiasGelu", X=X, B=X[0, 0], **MICROSOFT),
    "a quick GELU": case("QuickGelu", X=X, alpha=1.5, **MICROSOFT),
    "a sum that is normalized": case("SkipLayerNormalization", X=X, **SUMS, **MICROSOFT),
    "a global norm": case("GlobalLpPool", X=X, p=3),
    "maxima of regions": case("MaxRoiPool", X=X[None], r=BOXES, pooled_shape=[2, 2]),
    "halves": case("QuantizeLinear", X=HALVES, s=np.float32(1), z=np.uint8(10)),
}


@pytest.mark.parametrize("name", TRAPS)
def test_answers_are_those_of_onnx_runtime(name: str):
    same_as_runtime(*TRAPS[name], atol=1e-5, has_types=True)


# The command line


def test_the_command_line_runs_checks_and_shows_networks(tmp_path: Path):
    path = saved(dense()[0], tmp_path)
    shown = command("run", path, "-f", "batch:3", "--json").stdout
    assert json.loads(shown)["outputs"] == {"y": ["float32", [3, 3]]}
    assert "Load" in command("run", path).stdout
    for name, sizes in (("check", "FLOAT32[batch=3,4]"), ("show", "FLOAT32[3,4]")):
        shown = command(name, path, "-f", "batch:3").stdout
        weights = "2 weights (60 bytes), from feature level 4_0 on"
        assert all(text in shown for text in ("ACTIVATION_RELU", sizes, weights))
    assert "GEMM" in command("check", path, "--feature-level", "3_0", status=1).stderr
    command("run", path, "-f", "batch", status=2)

"""ONNX networks as graphs of DirectML operators: `load_onnx`, and what it refuses."""

import contextlib
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from build import (
    floats,
    model_of,
    node,
    operators_of,
    refusal,
    runtime,
    single,
)
from click.testing import CliRunner
from onnx import TensorProto, helper, parser

from dml_jax import DmlError, load_onnx
from dml_jax.cli import cli
from dml_jax.onnx import free_sizes

pytestmark = pytest.mark.usefixtures("soon")

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


def test_a_network_is_read_from_a_path_and_from_bytes(tmp_path: Path):
    model, _, _ = dense()
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    x = np.ones((2, 4), np.float32)
    answers = [
        load_onnx(source, {"x": (2, 4)})(x)["y"]
        for source in (tmp_path / "m.onnx", str(tmp_path / "m.onnx"), model.SerializeToString())
    ]
    assert np.array_equal(answers[0], answers[1])
    assert np.array_equal(answers[0], answers[2])


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
    with pytest.raises(DmlError) as refused:
        load_onnx(dense()[0], **options)
    assert message in str(refused.value)


def test_every_name_without_a_size_is_said_once():
    model = parser.parse_model("""<ir_version: 10, opset_import: ["": 18]>
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
    (tmp_path / "network.onnx").write_bytes(dense()[0].SerializeToString())
    with pytest.raises(DmlError, match=r"did you mean 'network\.onnx'"):
        load_onnx(tmp_path / "network.onx")


def test_constants_of_one_number_are_no_weights():
    """PyTorch exports what attention masks with as Constants [-inf]; AdamW would make NaN of it."""
    model = parser.parse_model("""<ir_version: 10, opset_import: ["": 18]>
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


def test_quantized_weights_stay_narrow():
    w = RANDOM.randint(-9, 9, (4, 3)).astype(np.int8)
    arrays = {"w": w, "s": floats([0.5]), "c": np.arange(3)}
    nodes = [
        node("DequantizeLinear", "w s", "f"),
        node("Transpose", "f", "t"),
        node("MatMul", "x f", "z"),
        node("Gather", "t c", "g"),
    ]
    model = model_of(nodes, {"x": (np.float32, [2, 4])}, ["z", "g"], arrays)
    network = load_onnx(model)
    assert network.weights["w"].dtype == np.int8
    assert set(network.weights) == {"w", "s"}
    assert not network.trainable  # a scale of one element
    x = RANDOM.randn(2, 4).astype(np.float32)
    result = network(x)
    np.testing.assert_allclose(result["z"], x @ (w * np.float32(0.5)), rtol=1e-5)
    np.testing.assert_allclose(result["g"], (w * np.float32(0.5)).T)


@pytest.mark.usefixtures("no_x64")
def test_a_loss_of_labels_needs_no_64_bits():
    model = parser.parse_model("""<ir_version: 10, opset_import: ["": 18]>
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


@pytest.mark.parametrize("height", [3, 4])
@pytest.mark.parametrize("fallback", [False, True])
def test_a_filter_that_is_larger_than_the_input_is_refused(height: int, fallback: bool):
    """ONNX infers sizes of 0 and below; ONNX Runtime refuses the node."""
    arrays = {"x": floats(np.ones((1, 2, height, 9))), "w": floats(np.ones((2, 2, 5, 3)))}
    model = single("Conv", arrays)
    with pytest.raises(Exception, match="Invalid input shape"):
        runtime(model, arrays)
    message = refusal(model, fallback=fallback)
    assert f"to span at most {height} elements (the padded input), with its dilation" in message
    assert "--fallback" not in message


INTEGERS, FLOATS = "DML_OPERATOR_MATRIX_MULTIPLY_INTEGER_TO_FLOAT", "DML_OPERATOR_GEMM"


@pytest.mark.parametrize(
    ("a", "b", "scales", "axis", "product"),
    [
        ("uint8[5, 4]", "uint8[4, 3]", 1, 1, INTEGERS),
        ("uint8[2, 5, 4]", "int8[4, 3]", 3, -1, INTEGERS),
        ("int8[2, 5, 4]", "uint8[2, 4, 3]", 1, 1, INTEGERS),
        ("uint8[5, 4]", "int8[4, 3]", 4, 0, FLOATS),
        ("uint8[5, 4]", "int8[4]", 1, 0, FLOATS),
    ],
)
@pytest.mark.parametrize("has_zeros", [True, False])
def test_quantized_matrices_are_multiplied_as_integers(
    a: str, b: str, scales: int, axis: int, product: str, has_zeros: bool
):
    rng = np.random.default_rng(0)
    arrays: dict[str, np.ndarray] = {}
    for name, text, count in (("a", a, 1), ("b", b, scales)):
        dtype, sizes = text.rstrip("]").split("[")
        limits, shape = np.iinfo(dtype), [int(n) for n in sizes.split(",")]
        arrays[name] = rng.integers(limits.min, limits.max, shape, dtype, True)
        arrays[f"{name}_scale"] = (rng.integers(1, 9, count) / 8).astype(np.float32)
        arrays[f"{name}_zero"] = rng.integers(limits.min, limits.max, count, dtype, True)
        if count == 1:
            for part in ("scale", "zero"):
                arrays[f"{name}_{part}"] = arrays[f"{name}_{part}"].reshape(())
    zeros = ("a_zero", "b_zero") if has_zeros else ("", "")
    nodes = [
        node("DequantizeLinear", f"a a_scale {zeros[0]}", "x"),
        node("DequantizeLinear", f"b b_scale {zeros[1]}", "w", axis=axis),
        node("MatMul", "x w", "y"),
    ]
    x = arrays.pop("a")
    model = model_of(nodes, {"a": (x.dtype, x.shape)}, ["y"], arrays)
    network = load_onnx(model)
    real = []
    for name, array, along in (("a", x, 0), ("b", arrays["b"], axis)):
        scale, zero = arrays[f"{name}_scale"], arrays[f"{name}_zero"] if has_zeros else 0
        lies = [-1 if d == along % array.ndim else 1 for d in range(array.ndim)]
        scale, zero = (np.asarray(v).reshape(lies if np.ndim(v) else ()) for v in (scale, zero))
        real.append((array.astype(np.float64) - zero) * scale)
    np.testing.assert_allclose(network(x)["y"], real[0] @ real[1], rtol=1e-6)
    if has_zeros:
        assert product in operators_of(network)


def test_outputs_may_be_inputs_weights_and_constants():
    nodes = [
        node("Identity", "x", "a"),
        node("Reshape", "w n", "b"),
        node("Shape", "x", "c"),
        node("Identity", "flag", "d"),
    ]
    inputs = {"x": (np.float32, [2, 3]), "flag": (np.bool_, [])}
    arrays = {"w": floats([[1, 2]]), "n": np.array([2, 1])}
    network = load_onnx(model_of(nodes, inputs, ["a", "b", "c", "d"], arrays))
    x = RANDOM.randn(2, 3).astype(np.float32)
    result = network({"x": x, "flag": np.array(True)})
    assert np.array_equal(result["a"], x)
    assert result["b"].tolist() == [[1], [2]]
    assert result["c"].tolist() == [2, 3]
    assert result["d"].shape == ()
    assert result["d"].dtype == bool


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


def test_sizes_are_computed_at_load():
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n"),
        node("Concat", "n rest", "t", axis=0),
        node("Reshape", "x t", "y"),
    ]
    arrays = {"zero": np.array([0]), "rest": np.array([-1])}
    model = model_of(nodes, {"x": (np.float32, [2, 3, 4])}, ["y"], arrays)
    network = load_onnx(model)
    assert network(np.zeros((2, 3, 4), np.float32))["y"].shape == (2, 12)
    assert not network.weights


def test_a_branch_is_chosen_where_its_condition_is_known():
    def branch(op_type: str) -> Any:
        out = onnx.ValueInfoProto(name=op_type)
        return helper.make_graph([node(op_type, "x", op_type)], op_type, [], [out])

    nodes = [node("If", "c", "y", then_branch=branch("Neg"), else_branch=branch("Abs"))]
    inputs = {"x": (np.float32, [2])}
    for condition, expected in ((True, [-1, 2]), (False, [1, 2])):
        model = model_of(nodes, inputs, ["y"], {"c": np.array(condition)})
        assert load_onnx(model)(floats([1, -2]))["y"].tolist() == expected


def test_functions_of_the_model_are_translated():
    body = [
        node("Constant", "", "two", value_float=2.0),
        node("Mul", "a two", "b"),
        helper.make_node("LeakyRelu", ["b"], ["c"]),
    ]
    attribute = onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=1)
    body[2].attribute.append(attribute)
    imports = [helper.make_opsetid("", 18)]
    function = helper.make_function("own", "Twice", ["a"], ["c"], body, imports, ["slope"])
    call = helper.make_node("Twice", ["x"], ["y"], domain="own", slope=0.5)
    model = model_of([call], {"x": (np.float32, [2])}, ["y"], functions=[function])
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
    inputs = {"x": (np.float32, [2]), "w": (np.float64, [2])}
    message = refusal(model_of(nodes, inputs, ["y"]))
    assert "Node 'first' (Foo): expected op type to be known" in message
    assert "Node 'third' (Elu): expected gamma to be an attribute of Elu 6" in message
    assert len(message.splitlines()) == 2


def test_an_opset_that_is_not_known_is_refused():
    model = model_of([node("Relu", "x", "y")], {"x": (np.float32, [2])}, ["y"], opset=28)
    load_onnx(model)
    model.opset_import[0].version = 99
    assert "the opset to be in [1, 28], got 99" in refusal(model)


@pytest.mark.parametrize("size", [0, 1, 20, 100, -1])
def test_broken_files_are_refused(size: int, tmp_path: Path):
    data = dense()[0].SerializeToString()
    (tmp_path / "m.onnx").write_bytes(data[:size])
    with pytest.raises(DmlError):
        load_onnx(tmp_path / "m.onnx", {"x": (2, 4)})


@pytest.mark.parametrize("name", ["softmax of the rest", "a slice backward", "a cubic", "halves"])
def test_mutated_files_are_loaded_or_refused(name: str):
    data = TRAPS[name].SerializeToString()
    random = np.random.RandomState(len(name))
    for _ in range(150):
        changed = bytearray(data)
        for place in random.randint(len(data), size=random.randint(1, 4)):
            changed[place] = random.randint(256)
        with contextlib.suppress(DmlError):
            load_onnx(bytes(changed), *free_sizes(bytes(changed), {}))


def test_other_sources_are_refused(tmp_path: Path):
    assert "be a path, bytes or a ModelProto" in refusal(3)
    assert "No such file" in refusal(tmp_path / "none.onnx")
    assert "be an ONNX model" in refusal(b"\x08\xff\xff")
    assert "an empty file" in refusal(b"")


def test_nodes_that_read_each_other_are_refused():
    nodes = [node("Relu", "z", "y"), node("Relu", "y", "z")]
    message = refusal(model_of(nodes, {"x": (np.float32, [2])}, ["y"]))
    assert "the tensor 'y' to be an input, an initializer or an output of a node" in message
    assert "a node that does not read this one, got none of these" in message


def test_external_data_stays_in_its_folder(tmp_path: Path):
    model, _, _ = dense()
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="../secret.bin")
    (tmp_path / "secret.bin").write_bytes(bytes(48))
    (tmp_path / "in").mkdir()
    (tmp_path / "in/m.onnx").write_bytes(model.SerializeToString())
    assert "the initializer 'w'" in refusal(tmp_path / "in/m.onnx", input_shapes={"x": (2, 4)})


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
    ("nodes", "fits"),
    [
        ([("Add", "a b")], False),
        ([("Mul", "a ten")], False),
        ([("Cast", "mask"), ("Mul", "_0 ten")], True),
        ([("Cast", "mask"), ("CumSum", "_0 zero"), ("Add", "_1 ten")], True),
        ([("Neg", "a")], False),
        ([("ReduceSum", "a")], False),
        ([("ReduceMax", "a")], True),
    ],
)
def test_arithmetic_that_may_need_64_bits_is_refused(nodes: Any, fits: bool):
    made = []
    for k, (op_type, inputs) in enumerate(nodes):
        attributes = {"to": TensorProto.INT64} if op_type == "Cast" else {}
        out = "y" if k == len(nodes) - 1 else f"_{k}"
        made.append(node(op_type, inputs, out, **attributes))
    inputs = {"a": (np.int64, [3]), "b": (np.int64, [3]), "mask": (np.bool_, [3])}
    arrays = {"ten": np.array([10]), "zero": np.array(0)}
    model = model_of(made, inputs, ["y"], arrays)
    if fits:
        assert load_onnx(model).outputs == ["y"]
    else:
        assert "the result to stay within" in refusal(model)
        with jax.enable_x64(True):
            assert load_onnx(model).outputs == ["y"]


# What ONNX's own tests leave open: old versions, and other traps, beside ONNX Runtime

X = RANDOM.randn(2, 3, 4).astype(np.float32)
SPECIAL = np.array([0.0, -0.0, 0.3, -1.0, np.nan, np.inf, -np.inf, 2.5], np.float32)
STATES = {
    "x": RANDOM.randn(5, 3, 2).astype(np.float32),
    "w": RANDOM.randn(1, 16, 2).astype(np.float32),
    "r": RANDOM.randn(1, 16, 4).astype(np.float32),
    "b": RANDOM.randn(1, 32).astype(np.float32),
    "lengths": np.array([5, 2, 3], np.int32),
}
TRAPS: dict[str, Any] = {
    "softmax of the rest": single("Softmax", {"x": X}, opset=11),
    "log of softmax of the rest": single("LogSoftmax", {"x": X}, opset=11, axis=-2),
    "hardmax of the rest": single("Hardmax", {"x": X}, opset=11, axis=1),
    "softmax of an axis": single("Softmax", {"x": X}, opset=13, axis=1),
    "bounds as attributes": single("Clip", {"x": X}, opset=6, min=-0.5, max=0.5),
    "no bounds": single("Clip", {"x": SPECIAL[:4]}, opset=13),
    "everything but 0 is true": single("Cast", {"x": SPECIAL}, to=TensorProto.BOOL),
    "a wide number is true": single("Cast", {"x": np.array([256, 0, -1])}, to=TensorProto.BOOL),
    "neither infinity": single("IsInf", {"x": SPECIAL}, detect_negative=0, detect_positive=0),
    "slices as attributes": single("Slice", {"x": X}, opset=9, starts=[0, 1], ends=[2, -1]),
    "a slice backward": single(
        "Slice",
        {
            "x": X,
            "s": np.array([-1, 2]),
            "e": np.array([-(2**63), 0]),
            "a": np.array([2, 1]),
            "t": np.array([-1, -2]),
        },
        constants=["s", "e", "a", "t"],
    ),
    "a window in the padding": single(
        "MaxPool",
        {"x": X[None]},
        opset=12,
        kernel_shape=[3, 2],
        strides=[2, 2],
        pads=[1, 0, 1, 1],
        ceil_mode=1,
    ),
    "padding that cuts": single(
        "Pad", {"x": X, "p": np.array([0, -1, 1, 0, 1, -2])}, constants=["p"]
    ),
    "axes as an attribute": single("ReduceSum", {"x": X}, opset=11, axes=[-1], keepdims=0),
    "axes as an input": single(
        "ReduceSum", {"x": X, "a": np.array([-1])}, opset=13, constants=["a"]
    ),
    "lengths of sequences": single(
        "LSTM", STATES, outputs="y h c", hidden_size=4, constants=["w", "r", "b"]
    ),
    "upsampling": single(
        "Upsample",
        {"x": X[None], "s": floats([1, 1, 2, 1.5])},
        opset=9,
        mode="linear",
        constants=["s"],
    ),
    "a cubic": single(
        "Resize",
        {"x": X[None], "r": floats([]), "s": floats([1, 1, 1.7, 0.6])},
        mode="cubic",
        constants=["r", "s"],
    ),
    "GELU by a tangent": single("FastGelu", {"x": X}, domain="com.microsoft"),
    "GELU with a bias": single("BiasGelu", {"x": X, "b": X[0, 0]}, domain="com.microsoft"),
    "a quick GELU": single("QuickGelu", {"x": X}, domain="com.microsoft", alpha=1.5),
    "a transposed product": single(
        "FusedMatMul", {"x": X, "b": X[:, :2]}, domain="com.microsoft", transB=1, alpha=0.5
    ),
    "a sum that is normalized": single(
        "SkipLayerNormalization",
        {"x": X, "s": X[::-1], "g": X[0, 0], "b": X[0, 1]},
        domain="com.microsoft",
        outputs="y - - total",
        constants=["g", "b"],
    ),
    "a global norm": single("GlobalLpPool", {"x": X}, p=3),
    "maxima of regions": single(
        "MaxRoiPool",
        {"x": X[None], "r": floats([[0, 0, 0, 2, 2], [0, 1, 0, 3, 1]])},
        pooled_shape=[2, 2],
        constants=["r"],
    ),
    "halves": single(
        "QuantizeLinear",
        {"x": floats([0.5, 1.5, 2.5, -0.5]), "s": np.float32(1), "z": np.uint8(10)},
        constants=["s", "z"],
    ),
}


@pytest.mark.parametrize("name", TRAPS)
def test_answers_are_those_of_onnx_runtime(name: str):
    model = TRAPS[name]
    every = {"x": X, **STATES}
    initialized = {t.name for t in model.graph.initializer}
    inputs = {}
    for value in model.graph.input:
        if value.name in initialized:
            continue
        sizes = [d.dim_value for d in value.type.tensor_type.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        known = [
            a
            for a in (*every.values(), X[None], SPECIAL)
            if (a.shape, a.dtype) == (tuple(sizes), dtype)
        ]
        random = np.random.RandomState(3)
        inputs[value.name] = known[0] if known else (random.randn(*sizes) * 300).astype(dtype)
    results = load_onnx(model)(inputs)
    for result, expected in zip(results.values(), runtime(model, inputs), strict=True):
        assert np.asarray(result).dtype == expected.dtype
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


# The command line


def command(*arguments: str) -> Any:
    return CliRunner().invoke(cli, arguments)


def test_the_command_line_runs_checks_and_shows_networks(tmp_path: Path):
    path = str(tmp_path / "layer.onnx")
    Path(path).write_bytes(dense()[0].SerializeToString())
    told = command("run", path, "-f", "batch:3", "--json")
    assert told.exit_code == 0
    assert json.loads(told.stdout)["outputs"] == {"y": ["float32", [3, 3]]}
    assert "Load" in command("run", path).stdout
    for name, sizes in (("check", "FLOAT32[batch=3,4]"), ("show", "FLOAT32[3,4]")):
        told = command(name, path, "-f", "batch:3")
        assert "ACTIVATION_RELU" in told.stdout
        assert sizes in told.stdout
        assert "2 weights (60 bytes), from feature level 4_0 on" in told.stdout
    assert "GEMM" in command("check", path, "--feature-level", "3_0").stderr
    assert command("run", path, "-f", "batch").exit_code == 2


def test_the_command_line_says_what_is_in_the_way(tmp_path: Path):
    model = model_of([node("Foo", "x", "y")], {"x": (np.float32, [2])}, ["y"])
    (tmp_path / "foo.onnx").write_bytes(model.SerializeToString())
    told = command("check", str(tmp_path / "foo.onnx"))
    assert told.exit_code == 1
    assert "Node 'y' (Foo): expected op type to be known" in told.stderr

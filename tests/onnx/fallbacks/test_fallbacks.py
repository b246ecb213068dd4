"""Nodes that are no operators of DirectML (`load_onnx(fallback=True)`), and padded outputs."""

import json
import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from build import (
    command,
    floats,
    model_of,
    node,
    operators_of,
    parse,
    refusal,
    runtime,
    same_as_runtime,
    single,
)
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

import dml_jax
from dml_jax import DmlError, GraphBuilder, TensorDesc, load_onnx
from dml_jax.graph import cut as parts_of

RANDOM = np.random.RandomState(2)
X = RANDOM.rand(2, 3, 4) * 0.8 + 0.1
Y = RANDOM.rand(2, 3, 4) * 0.8 + 0.1

# Nodes of FLOAT64: the op type, its inputs, and its attributes
UNARY = "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor Log Neg Reciprocal Relu"
UNARY += " Round Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh IsNaN Elu Selu HardSwish"
UNARY += " LeakyRelu HardSigmoid ReduceMax ReduceMean ReduceSum ReduceL1 ReduceL2 ReduceProd"
UNARY += " ReduceSumSquare ReduceLogSum ReduceMin ArgMax ArgMin Softmax LogSoftmax Mish"
BINARY = (
    "Add Sub Mul Div Pow Max Min Equal Less Greater LessOrEqual GreaterOrEqual MatMul Mean PRelu"
)


@pytest.mark.parametrize("op_type", [*UNARY.split(), *BINARY.split()])
def test_float64_is_computed(op_type: str):
    """Compare all op types with ONNX's own implementation, in FLOAT64."""
    arrays = {"x": X + (1 if op_type == "Acosh" else 0)}
    if op_type in BINARY.split():
        arrays["y"] = np.swapaxes(Y, 1, 2).copy() if op_type == "MatMul" else Y
    model = single(op_type, arrays, outputs="z")
    expected = ReferenceEvaluator(model).run(None, arrays)[0]  # pyright: ignore
    if op_type == "Erf":  # its own is no better than FLOAT32
        expected = np.vectorize(math.erf)(X)
    with jax.enable_x64(True):
        network = load_onnx(model, fallback=True)
        result = np.asarray(network(arrays)["z"])
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected, rtol=1e-12)


def test_clipping_that_directml_lacks_is_computed():
    sizes = {"x": (5, 3, 2), "w": (1, 12, 2), "r": (1, 12, 4), "b": (1, 24), "h": (1, 3, 4)}
    arrays = {name: floats(RANDOM.randn(*shape)) for name, shape in sizes.items()}
    arrays["l"] = np.array([5, 2, 3], np.int32)
    inputs = {name: arrays[name] for name in ("x", "w", "r", "b", "l", "h")}
    model = single("GRU", inputs, outputs="y yh", hidden_size=4, clip=0.7)
    assert "expected clip to be left out (DirectML has it in LSTM)" in refusal(model)
    same_as_runtime(model, inputs, 1e-4, 1e-5, fallback=True)


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize(("dtype", "is_by_column"), [(np.int8, False), (np.uint8, True)])
@pytest.mark.parametrize(("units", "steps"), [(4, 5), (260, 2)])
def test_a_quantized_lstm_of_onnx_runtime_is_computed(
    direction: str, dtype: Any, is_by_column: bool, units: int, steps: int
):
    # One sequence, since ONNX Runtime's threads quantize the states of several apart.
    random = np.random.RandomState(3)
    count = 2 if direction == "bidirectional" else 1
    parameters = (count, 4 * units) if is_by_column else (count,)

    def quantized(*sizes: int) -> np.ndarray:
        return random.randint(0, 60, sizes).astype(dtype)

    constants = {
        "w": quantized(count, 2, 4 * units),
        "r": quantized(count, units, 4 * units),
        "b": floats(random.randn(count, 8 * units)),
        "l": np.array([steps - 1], np.int32),
        "h": floats(random.randn(count, 1, units)),
        "c": floats(random.randn(count, 1, units)),
        "p": floats(random.randn(count, 3 * units)),
        "ws": floats(random.rand(*parameters) * 0.02),
        "wz": np.full(parameters, 0 if dtype == np.int8 else 30, dtype),
        "rs": floats(random.rand(*parameters) * 0.02),
        "rz": np.full(parameters, 0 if dtype == np.int8 else 20, dtype),
    }
    arrays = {"x": floats(random.randn(steps, 1, 2)), **constants}
    given: Any = {"outputs": "y yh yc", "constants": [*constants], "domain": "com.microsoft"}
    attributes = {"hidden_size": units, "direction": direction}
    model = single("DynamicQuantizeLSTM", arrays, **given, **attributes)
    more = onnx.ModelProto()
    more.CopyFrom(model)
    more.graph.node.append(node("Foo", "y", "foo"))
    more.graph.output.append(onnx.ValueInfoProto(name="foo"))
    message = refusal(more)
    assert "Node 'foo' (Foo): expected op type to be known" in message  # the LSTM's types are known
    assert "DynamicQuantizeLSTM has no operator of DirectML" in message
    assert "with fallback=True (the option --fallback), JAX computes" in message
    same_as_runtime(model, {"x": arrays["x"]}, 1e-4, 1e-5, fallback=True)


@pytest.mark.usefixtures("no_x64")
def test_float64_needs_jaxs():
    model = single("Exp", {"x": X})
    message = refusal(model, fallback=True)
    assert "have another type while 64-bit types are off in JAX" in message
    assert 'jax.config.update("jax_enable_x64", True)' in message


def mixed() -> Any:
    """Return a model whose second node has no operator."""
    nodes = "a = Mul(x, w) d = Det(a) e = Mul(d, d) y = Add(e, a)"
    text = f"g (float[2, 2] x) => (float[2, 2] y) {{ {nodes} }}"
    return parse(text, w=floats([[1, 2], [3, 4]]))


def test_a_node_without_an_operator_is_computed_where_that_is_asked_for():
    message = refusal(mixed())
    assert "Node 'd' (Det): Det has no operator of DirectML" in message
    cure = "with fallback=True (the option --fallback), JAX computes: Node 'd' (Det)"
    assert message.splitlines()[0] == cure
    network = load_onnx(mixed(), fallback=True)
    x = RANDOM.randn(2, 2).astype(np.float32)
    a = x * np.array([[1, 2], [3, 4]])
    np.testing.assert_allclose(network(x)["y"], np.linalg.det(a) ** 2 + a, rtol=1e-4)
    assert "1 nodes by JAX\n  Node 'd' (Det): " in network.report()
    assert list(network.fallbacks) == ["Node 'd' (Det)"]
    assert [len(graph.nodes) for graph in parts_of(network.graph)] == [1, 2]


def test_weights_of_double_are_turned_as_those_of_float():
    weights = RANDOM.rand(4, 3)
    text = "g (double[2, 3] x) => (double[2, 4] y) { y = Gemm <transB = 1> (x, w) }"
    model = parse(text, w=weights)
    with jax.enable_x64(True):
        result = load_onnx(model, fallback=True)(X[:, 0, :3])["y"]
    np.testing.assert_allclose(result, X[:, 0, :3] @ weights.T, rtol=1e-14)


def test_a_fallback_that_cures_nothing_is_not_offered():
    """INT64 arithmetic is refused without x64, by a plain function too, and once."""
    model = parse("g (int64[2] i, int64[2] j) => (int64[2] y) { y = Mul(i, j) }")
    with jax.enable_x64(False):
        message = refusal(model)
        assert len(message.splitlines()) == 1
        assert "turn them on" in message
        assert refusal(model, fallback=True) == message
    with jax.enable_x64(True):
        assert load_onnx(model)(np.array([2**40, 3]), np.array([4, 5]))["y"].tolist() == [2**42, 15]


@pytest.mark.parametrize("name", ["run", "check", "show"])
def test_the_commands_take_fallback(name: str, tmp_path: Path):
    path = tmp_path / "det.onnx"
    path.write_bytes(mixed().SerializeToString())
    refused = command(name, path, status=1)
    assert "--fallback" in refused.stderr
    assert "Traceback" not in command(name, path, "--fallback").output


def test_the_commands_show_nodes_beyond_directml(tmp_path: Path):
    path = tmp_path / "sign.onnx"
    path.write_bytes(single("Sign", {"x": X}).SerializeToString())
    with jax.enable_x64(True):
        command("run", path, "--fallback")
        for words in (["check"], ["show"], ["show", "--json"]):
            told = command(*words, path, "--fallback").stdout
            assert "ELEMENT_WISE_SIGN" in told
        assert json.loads(told)["nodes"][0]["feature_level"] is None


def test_a_network_with_fallbacks_is_one_pure_function():
    text = """g (float[2, 2] x) => (float[2, 2] y) {
        a = Mul(x, w) d = ScatterElements<axis = 1, reduction = "add">(a, i, a) y = Mul(d, x) }"""
    model = parse(text, w=floats([[1, 2], [3, 4]]), i=np.array([[1, 1], [0, 0]]))
    network = load_onnx(model, fallback=True)
    x = jnp.array([[1.0, 2], [3, 4]], jnp.float32)

    def total(weights: Any, x: jax.Array) -> jax.Array:
        return network.apply(weights, {"x": x})["y"].sum()

    gradient = jax.jit(jax.grad(total))(network.weights, x)["w"]
    step = jnp.zeros((2, 2), jnp.float32).at[0, 1].set(0.01)
    compiled = jax.jit(total)
    ends = [compiled({"w": network.weights["w"] + s}, x) for s in (-step, step)]
    np.testing.assert_allclose(gradient[0, 1], (ends[1] - ends[0]) / 0.02, rtol=1e-2)
    many = jax.jit(jax.vmap(lambda x: network.apply(network.weights, {"x": x})["y"]))
    np.testing.assert_allclose(many(jnp.stack([x, -x]))[0], network(x)["y"], rtol=1e-5)


def test_operators_stay_operators():
    """A fallback changes nothing where DirectML has the operators."""
    model = model_of([node("Relu", "x", "y")], {"x": (np.float32, [2])}, ["y"])
    network = load_onnx(model, fallback=True)
    assert operators_of(network) == ["DML_OPERATOR_ACTIVATION_RELU"]
    assert "by JAX" not in network.report()


def test_a_node_beyond_directml_has_no_json_and_no_level_and_is_reported():
    x = np.array([-1.5, 0.25, 2.0])
    with jax.enable_x64(True):
        network = load_onnx(single("Elu", {"x": x}, alpha=2.0), fallback=True)
        found = np.asarray(network(x)["y"])
    np.testing.assert_allclose(found, np.where(x > 0, x, 2 * np.expm1(x)), rtol=1e-12)
    rule = "DML_OPERATOR_ACTIVATION_ELU: expected InputTensor.DataType to be one of FLOAT32, FLOAT"
    assert list(network.fallbacks) == ["Node 'y' (Elu)"]
    assert rule in network.fallbacks["Node 'y' (Elu)"]
    assert f"1 nodes of types beyond DirectML\n  Node 'y' (Elu): {rule}" in network.report()
    graph = network.graph
    assert graph is not None
    for ask in (graph.to_json, lambda: graph.minimum_feature_level):
        with pytest.raises(DmlError, match="got FLOAT64"):
            ask()


def test_functions_and_descriptors_refuse_types_beyond_directml():
    """Loading a network with fallbacks leaves what a call outside of it takes."""
    x = jnp.ones(3, jnp.float8_e4m3fn)
    with jax.enable_x64(True):
        load_onnx(single("Sign", {"x": X}), fallback=True)
        double = GraphBuilder().input_tensor("x", TensorDesc("FLOAT64", [3]))
        for wrong in (jnp.ones(X.shape), double):
            with pytest.raises(DmlError, match=r"InputTensor\.DataType"):
                dml_jax.sign(wrong)
    with pytest.raises(DmlError, match="be one that DirectML has"):
        dml_jax.identity(x)
    with pytest.raises(DmlError, match="be one of FLOAT32"):
        TensorDesc("FLOAT8_E4M3FN", [3])
    with pytest.raises(DmlError, match="DimensionCount"):
        TensorDesc("FLOAT32", [1] * 9)


@pytest.mark.parametrize("kind", ["FLOAT8E4M3FN", "FLOAT8E5M2", "INT4", "UINT2"])
def test_values_of_types_that_directml_lacks_are_converted(kind: str):
    x = floats([0.3, -1.4, 3.0, 0.0, 1.6])
    x = np.round(np.abs(x)) if "INT" in kind else x
    narrow = f"n = Cast<to = {TensorProto.DataType.Value(kind)}>(x)"
    model = parse(f"g (float[5] x) => (float[5] y) {{ {narrow} y = Cast<to = 1>(n) }}", 25)
    expected = ReferenceEvaluator(model).run(None, {"x": x})[0]  # pyright: ignore
    np.testing.assert_array_equal(load_onnx(model, fallback=True)(x)["y"], expected)


# Outputs whose size depends on data


MASKED = """g (float[4, 5] x) => (float[n] y, int64[m, 2] z) {
    zero = Constant<value_float = 0.0>()
    mask = Greater(x, zero)
    places = NonZero(mask)
    z = Transpose(places)
    picked = GatherND(x, z)
    y = Exp(picked)
}"""


def test_places_are_padded_with_a_count():
    model = parse(MASKED)
    network = load_onnx(model)
    x = RANDOM.randn(4, 5).astype(np.float32)
    results = network(x)
    assert network.padded == {"y": 0, "z": 0}
    assert results["y"].shape == (20,)
    assert results["z"].shape == (20, 2)
    assert int(results["y.count"]) == (x > 0).sum()
    for name, expected in zip(("y", "z"), runtime(model, {"x": x}), strict=True):
        np.testing.assert_allclose(network.without_padding(results)[name], expected, rtol=1e-5)
    assert not np.asarray(results["z"])[int(results["z.count"]) :].any()
    assert "output 'y': padded to 20 in dimension 0; 'y.count' counts" in network.report()
    assert int(network(-np.abs(x))["y.count"]) == 0
    assert network.counted == {"y": (0, "y.count"), "z": (0, "z.count")}
    assert [*network.without_padding(results)] == ["y", "z"]
    shown = "x FLOAT32[4,5] -> y FLOAT32[y.count<=20], z INT64[z.count<=20,2]"
    assert network.describe() == f"{shown}, y.count INT64[1], z.count INT64[1]"
    assert network.rewritten.counted == network.graph.counted == network.counted


def test_a_count_has_a_name_that_no_output_has():
    text = MASKED.replace("(float[n] y, int64[m, 2] z)", "(float[n] y, float[4, 5] other)")
    model = parse(text.replace("mask =", "other = Abs(x)\n    mask ="))
    model.graph.node[1].output[0] = model.graph.output[1].name = "y.count"
    network = load_onnx(model)
    x = RANDOM.randn(4, 5).astype(np.float32)
    assert network.counted == {"y": (0, "y.count (2)")}
    results = network.without_padding(network(x))
    for name, expected in zip(("y", "y.count"), runtime(model, {"x": x}), strict=True):
        np.testing.assert_allclose(results[name], expected, rtol=1e-5)


BOXES = """g (float[1, 50, 4] boxes, float[1, 3, 50] scores)
=> (int64[n, 3] chosen, float[n, 4] kept, float[n] best)
<int64 most = {6}, float overlap = {0.3}, float least = {0.2},
 int64[1] two = {2}, int64[1] three = {3}, int64[1] one = {1}, int64[1] zero = {0}> {
    chosen = NonMaxSuppression(boxes, scores, most, overlap, least)
    column = Slice(chosen, two, three, one)
    index = Squeeze(column, one)
    plain = Squeeze(boxes, zero)
    kept = Gather(plain, index)
    per_class = Squeeze(scores, zero)
    per_box = Transpose(per_class)
    rows = Gather(per_box, index)
    best = ReduceMax<keepdims = 0>(rows, one)
}"""


@pytest.mark.usefixtures("no_x64")
@pytest.mark.parametrize("most", [6, 2**63 - 1])  # torchvision exports the second
def test_boxes_are_padded_with_a_count(most: int):
    """Compare far boxes, which are kept up to the limit, and near ones, which suppress others."""
    model = parse(BOXES.replace("most = {6}", f"most = {{{most}}}"))
    network = load_onnx(model, fallback=True)
    for spread in (1.0, 0.1):
        corner = RANDOM.rand(1, 50, 2) * spread
        boxes = np.concatenate([corner, corner + 0.1 + RANDOM.rand(1, 50, 2) * 0.1], 2)
        inputs = {"boxes": floats(boxes), "scores": floats(RANDOM.rand(1, 3, 50))}
        results = network(inputs)
        assert results["chosen"].shape == (3 * min(most, 50), 3)
        for name, expected in zip(("chosen", "kept", "best"), runtime(model, inputs), strict=True):
            np.testing.assert_allclose(network.without_padding(results)[name], expected, rtol=1e-6)


@pytest.mark.parametrize("last", ['Einsum<equation = "ij->i">(i)', "Trilu(i)"])
def test_padding_that_would_be_read_is_refused(last: str):
    text = f"g (float[4, 5] x) => (int64[n] y) {{ i = NonZero(x) y = {last} }}"
    message = refusal(parse(text), fallback=True)
    assert "would read the padding (end the network at 'i': 'i.count' then says" in message
    assert "Node 'i' (NonZero) decides the size of dimension 1" in message

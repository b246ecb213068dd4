"""Networks that are written again with other weights: ONNX Runtime reads them."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from build import command, floats, model_of, node, parse, saved, session
from onnx import TensorProto, helper, numpy_helper

from dml_jax import DmlError, load_onnx
from dml_jax.onnx import Network

RANDOM = np.random.default_rng(64)
X = RANDOM.standard_normal((2, 3)).astype(np.float32)

LAYERS = """<ir_version: 10, opset_import: ["": 18, "own": 1], producer_name: "somebody">
g (float[batch,3] x) => (float[batch,4] y, float[4] b)
<float[3,4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float[4] b = {1, 0, -1, 2}>
{ z = MatMul(x, w)  s = own.twice(z)  y = Add(s, b) }
<domain: "own", opset_import: ["": 18]>
twice (a) => (c) { c = Add(a, a) }"""


def external(model: Any, path: Path, location: str, threshold: int):
    """Write a model whose initializers of `threshold` bytes and more lie in another file."""
    for tensor in model.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    named = {"location": location, "size_threshold": threshold}
    onnx.save(model, path, save_as_external_data=True, **named)


def layers(model: Any) -> Network:
    return load_onnx(model, free_dimensions={"batch": 2})


def runtime(path: Path, *inputs: np.ndarray) -> list[Any]:
    made = session(path, as_written=True)  # 4 bits are not multiplied in 8
    names = [value.name for value in made.get_inputs()]
    return list(made.run(None, dict(zip(names, inputs, strict=True))))


def changed(network: Any) -> dict[str, Any]:
    """Return weights whose elements stand in another order."""
    return {n: jnp.flip(w.reshape(-1)).reshape(w.shape) for n, w in network.weights.items()}


def agrees(network: Any, weights: Any, path: Path, *inputs: np.ndarray):
    """Compare a network of `weights`, and the file that has them, with ONNX Runtime."""
    feeds, answers = dict(zip(network.inputs, inputs, strict=True)), runtime(path, *inputs)
    again = load_onnx(path, {name: x.shape for name, x in feeds.items()})
    for results in (network.apply(weights, feeds), again(feeds)):
        for result, answer in zip(results.values(), answers, strict=True):
            np.testing.assert_allclose(np.asarray(result), answer, rtol=1e-5, atol=1e-6)


def elements(path: Path) -> dict[str, np.ndarray]:
    """Return the initializers of a file, by name."""
    return {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}


def refusal(network: Any, *arguments: Any, **named: Any) -> str:
    with pytest.raises(DmlError) as error:
        network.save(*arguments, **named)
    return str(error.value)


def test_a_saved_network_is_the_file_with_other_weights(tmp_path: Path):
    path = saved(LAYERS, tmp_path)
    proto = onnx.load(path)
    helper.set_model_props(proto, {"classes": "cat, dog"})
    proto.graph.initializer[0].doc_string = "of the first layer"
    proto.graph.initializer[1].ClearField("raw_data")
    del proto.graph.initializer[1].float_data[:]
    proto.graph.initializer[1].float_data.extend([1, 0, -1, 2])
    before = proto.SerializeToString()
    path.write_bytes(before)
    network = layers(path)
    weights = changed(network)
    network.save(tmp_path / "tuned.onnx", weights)
    agrees(network, weights, tmp_path / "tuned.onnx", X)
    tuned = onnx.load(tmp_path / "tuned.onnx")
    for name, array in elements(tmp_path / "tuned.onnx").items():
        np.testing.assert_array_equal(array, weights[name])
    assert tuned.graph.initializer[0].doc_string == "of the first layer"
    for model in (proto, tuned):
        del model.graph.initializer[:]
    assert tuned == proto
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["n.onnx", "tuned.onnx"]


def test_weights_that_stay_leave_the_file_as_it_is(tmp_path: Path):
    path = saved(LAYERS, tmp_path)
    for model in (path, path.read_bytes(), onnx.load(path)):
        network = layers(model)
        network.save(tmp_path / "same.onnx")
        assert onnx.load(tmp_path / "same.onnx") == onnx.load(path)
        network.save(tmp_path / "one.onnx", {"b": floats([5, 6, 7, 8])})
        found = elements(tmp_path / "one.onnx")
        np.testing.assert_array_equal(found["b"], [5, 6, 7, 8])
        np.testing.assert_array_equal(found["w"], network.weights["w"])
        assert model in (path, path.read_bytes(), onnx.load(path))  # also one that is held


def test_external_data_goes_to_a_new_file(tmp_path: Path):
    model = parse(LAYERS)
    (tmp_path / "a").mkdir()
    path = tmp_path / "a/network.onnx"
    external(model, path, "weights", 70)  # with 33 bytes of Python's own each
    before = (tmp_path / "a/weights").read_bytes()
    network = layers(path)
    weights = changed(network)
    network.save(tmp_path / "a/tuned.onnx", weights)
    (tmp_path / "b").mkdir()
    for name in ("tuned.onnx", "tuned.onnx.data"):
        (tmp_path / "a" / name).rename(tmp_path / "b" / name)
    (tmp_path / "a/weights").rename(tmp_path / "weights")
    agrees(network, weights, tmp_path / "b/tuned.onnx", X)
    tuned = onnx.load(tmp_path / "b/tuned.onnx", load_external_data=False)
    places = [t.data_location == TensorProto.EXTERNAL for t in tuned.graph.initializer]
    assert places == [True, False]  # 48 and 16 bytes
    assert (tmp_path / "weights").read_bytes() == before
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["network.onnx"]


def test_a_file_that_was_read_is_never_written(tmp_path: Path):
    path = saved(LAYERS, tmp_path)
    network = layers(path)
    (tmp_path / "link.onnx").symlink_to(path)
    for name in ("n.onnx", "link.onnx", "./n.onnx"):
        assert "to be another file than" in refusal(network, str(tmp_path / name))
    external(onnx.load(path), tmp_path / "c.onnx", "tuned.onnx.data", 0)
    network = layers(tmp_path / "c.onnx")
    for name in ("tuned.onnx", "tuned.onnx.data"):
        assert "to be another file than" in refusal(network, tmp_path / name)
    network.save(tmp_path / "d.onnx")
    other = layers(path)
    saved(LAYERS.replace("somebody", "anybody"), tmp_path)
    assert "to be as it was when it was loaded" in refusal(other, tmp_path / "e.onnx")
    assert not (tmp_path / "e.onnx").exists()


def test_the_only_data_file_of_a_proto_is_never_written(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "network.onnx"
    external(parse(LAYERS), path, "tuned.onnx.data", 70)
    before = (tmp_path / "tuned.onnx.data").read_bytes()
    network = layers(onnx.load(path, load_external_data=False))
    assert "to be another file than" in refusal(network, tmp_path / "tuned.onnx")
    assert (tmp_path / "tuned.onnx.data").read_bytes() == before


@pytest.mark.parametrize(
    "weights, message",
    [
        ({"v": X}, "weights to name an initializer of the model"),
        ({"bb": X}, "(did you mean 'b'?)"),
        ({"b": X}, "the weight 'b' to have the shape [4] of the model, got [2, 3]"),
        (
            {"b": np.full(4, 0.1)},
            "to hold numbers that FLOAT holds (round them: .astype('float32'))",
        ),
        ({"b": np.array(["a"] * 4)}, "to be of numbers"),
        ({"b": np.full(4, 1j)}, "to be of numbers"),
    ],
)
def test_weights_that_do_not_fit(tmp_path: Path, weights: Any, message: str):
    network = layers(parse(LAYERS))
    assert message in refusal(network, tmp_path / "tuned.onnx", weights)
    assert not [*tmp_path.iterdir()]


def test_narrow_weights_are_widened(tmp_path: Path):
    network = layers(parse(LAYERS))
    weights = {n: w / 3 for n, w in network.weights_as(jnp.bfloat16).items()}
    network.save(tmp_path / "tuned.onnx", weights)
    for name, array in elements(tmp_path / "tuned.onnx").items():
        assert array.dtype == np.float32
        np.testing.assert_array_equal(array, weights[name].astype(np.float32))


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
@pytest.mark.parametrize("is_external", [False, True], ids=["inline", "external"])
def test_weights_may_be_stored_in_a_narrow_type(tmp_path: Path, dtype: Any, is_external: bool):
    path = saved(LAYERS, tmp_path)
    if is_external:
        external(parse(LAYERS), path, "weights", 0)
    network = layers(path)
    weights = {name: w / 3 for name, w in network.weights.items()}
    network.save(tmp_path / "tuned.onnx", weights, np.dtype(dtype).name.upper())
    assert {a.dtype for a in elements(tmp_path / "tuned.onnx").values()} == {np.dtype(dtype)}
    rounded = {n: w.astype(dtype).astype(np.float32) for n, w in weights.items()}
    agrees(network, rounded, tmp_path / "tuned.onnx", X)
    assert "weights to be a dictionary of arrays by name" in refusal(network, "t.onnx", [X])
    large = {"b": floats([np.finfo(np.float32).max, 0, 0, 0])}
    assert "infinities" in refusal(network, tmp_path / "t.onnx", large, dtype)
    assert "to be float16 or bfloat16" in refusal(network, tmp_path / "t.onnx", dtype=np.int8)


def test_quantized_weights(tmp_path: Path):
    numbers = RANDOM.integers(-128, 128, (3, 4)).astype(np.int8)
    weights = {"w": numbers, "scale": floats(0.25), "zero": np.array(3, np.int8), "s": floats(0.5)}
    text = """g (float[2, 3] x) => (float[4, 3] y) {
        f = DequantizeLinear(w, scale, zero) t = MatMul(x, f) d = DequantizeLinear(q, s)
        t2 = MatMul(x, d) t3 = Transpose<perm = [1, 0]>(t) y = MatMul(t3, t2) }"""
    model = parse(text, 21, **weights)
    four = RANDOM.integers(-8, 8, (3, 3)).astype(jnp.int4)
    model.graph.initializer.append(numpy_helper.from_array(four, "q"))
    network = load_onnx(saved(model, tmp_path))
    assert network.weights["q"].dtype == jnp.int4
    new = changed(network)
    network.save(tmp_path / "tuned.onnx", new)
    agrees(network, new, tmp_path / "tuned.onnx", X)


@pytest.mark.parametrize("indices", [[1, 11], [[0, 1], [2, 3]]], ids=["linear", "by coordinates"])
def test_sparse_initializers(tmp_path: Path, indices: Any):
    dense = np.zeros((3, 4), np.float32)
    dense[0, 1], dense[2, 3] = 5, -2
    model = model_of([node("MatMul", "x w", "y")], {"x": (np.float32, [2, 3])}, ["y"])
    values = numpy_helper.from_array(floats([5, -2]), "w")
    places = numpy_helper.from_array(np.array(indices))
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [3, 4]))
    network = load_onnx(saved(model, tmp_path))
    for name, weight in (("scaled.onnx", 2 * dense), ("moved.onnx", dense + 1)):
        network.save(tmp_path / name, {"w": weight})
        agrees(network, {"w": jnp.asarray(weight)}, tmp_path / name, X)
    found = onnx.load(tmp_path / "scaled.onnx").graph.sparse_initializer[0]
    assert found.indices == model.graph.sparse_initializer[0].indices


INNER = """<ir_version: 10, opset_import: ["": 18]>
g (float[2,3] x, bool c) => (float[2,3] y)
<float[3] w = {1, 2, 3}>
{ k = Constant <value = float[3] {7, 8, 9}> ()
  z = If (c) <then_branch = t () => (float[2,3] a) <float[3] v = {4, 5, 6}> { a = Add(x, v) },
              else_branch = e () => (float[2,3] b) <float[3] v = {4, 5, 6}> { b = Mul(x, v) }>
  u = Add(z, k)
  y = Mul(u, w) }"""


def test_initializers_of_graphs_within_and_constants(tmp_path: Path):
    path = saved(INNER, tmp_path)
    network = load_onnx(path)
    assert set(network.weights) == {"w", "v", "k"}
    weights = changed(network)
    network.save(tmp_path / "tuned.onnx", weights)
    for chosen in (True, False):
        agrees(network, weights, tmp_path / "tuned.onnx", X, np.asarray(chosen))


def test_initializers_of_one_name_that_differ(tmp_path: Path):
    text = INNER.replace("v = {4, 5, 6}> { b", "v = {6, 5, 4}> { b")
    network = load_onnx(saved(text, tmp_path))
    assert set(network.weights) == {"w", "v", "v (2)", "k"}
    network.save(tmp_path / "tuned.onnx", {"w": floats([3, 2, 1])})
    for name in ("v", "v (2)"):
        message = refusal(network, tmp_path / "t.onnx", {name: floats([0, 0, 0])})
        assert f"'{name}' to keep its value" in message


def test_inputs_that_are_fixed_at_load(tmp_path: Path):
    text = LAYERS.replace("x) =>", "x, float[4] u) =>").replace("Add(s, b)", "Add(s, u)")
    path, u = saved(text, tmp_path), floats([1, 2, 3, 4])
    network = load_onnx(path, free_dimensions={"batch": 2}, constants={"u": u})
    network.save(tmp_path / "tuned.onnx", {"w": 2 * np.asarray(network.weights["w"])})
    assert "name an initializer" in refusal(network, tmp_path / "t.onnx", {"u": 2 * u})


def test_the_command(tmp_path: Path):
    path, weights = saved(LAYERS, tmp_path), {"b": floats([4, 3, 2, 1])}
    np.savez(tmp_path / "weights.npz", **weights)
    target = tmp_path / "new" / "tuned.onnx"
    save = ["save", path, "--weights", tmp_path / "weights.npz", "-o", target]
    assert command(*save).output == f"{target}: 1 of 1 weights differ, in a new folder.\n"
    network = layers(path)
    agrees(network, {**network.weights, **weights}, target, X)
    assert '"changed": ["b"]' in command(*save, "--dtype", "float16", "--json").output
    (tmp_path / "weights.npz").write_bytes(b"PK nothing")
    assert "weights.npz' to be a file of numpy.savez" in command(*save, status=1).output
    result = command("save", tmp_path / "none.onnx", "-o", tmp_path / "t.onnx", status=1)
    assert "to be a file that can be read" in result.output


CONSTANTS = """<ir_version: 10, opset_import: ["": 18]>
g (float[batch,4] x) => (float[batch,3] scores)
<float[4,3] w = {-1, 0, 1, 1, -1, 0, 0, 1, -1, 1, 1, 1}, float[3] bias = {1, 0, -1},
 float part = {0.25}, float[1,1] epsilon = {0.000001}, float half = {0.5}, float cube = {0.044715},
 float root = {0.7978846}, float one = {1}, int64[1] last = {-1}>
{ sum = ReduceSum(x, last)  mean = Mul(sum, part)  from_mean = Sub(x, mean)
  squares = Mul(from_mean, from_mean)  total = ReduceSum(squares, last)
  variance = Mul(total, part)  above = Add(variance, epsilon)  deviation = Sqrt(above)
  even = Div(from_mean, deviation)
  even2 = Mul(even, even)  even3 = Mul(even2, even)  few = Mul(even3, cube)  inner = Add(even, few)
  scaled = Mul(inner, root)  bent = Tanh(scaled)  raised = Add(bent, one)
  halves = Mul(even, half)  gelu = Mul(halves, raised)
  product = MatMul(gelu, w)  sums = Add(product, bias)  scores = Add(sums, mask) }"""


def test_what_is_trained_of_a_network_whose_constants_are_initializers(tmp_path: Path):
    path = saved(parse(CONSTANTS, mask=floats([0, 0, -np.inf])), tmp_path)
    network = load_onnx(path, free_dimensions={"batch": 1})
    inputs = {"x": np.array([[3, 1, 4, 2]], np.float32)}

    def loss(w: Any) -> Any:  # the README's lines
        return -network.apply(network.weights | w, inputs)["scores"][0, 1]

    slopes = jax.grad(loss)(network.trainable)
    tuned = {name: w - 0.01 * slopes[name] for name, w in network.trainable.items()}
    network.save(tmp_path / "tuned.onnx", tuned)
    scores = [runtime(p, inputs["x"])[0][0, 1] for p in (path, tmp_path / "tuned.onnx")]
    assert scores[1] > scores[0]
    assert set(network.trainable) == {"w", "bias"}
    constants = {"part", "epsilon", "half", "cube", "root", "one", "mask"}
    assert set(network.weights) == {"w", "bias"} | constants

"""Networks whose sizes data decides, in one program with bounds, beside ONNX Runtime."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from build import command, floats, parse, runtime, same_as_runtime, saved

import dml_jax
from dml_jax import DmlError

RANDOM = np.random.RandomState(0)
VOICE = """
    voice (float[n] lengths, float[n, 4] features) => (OUT)
    <int64 zero = {0}, int64 one = {1}, int64[1] m1 = {-1}, int64[1] a0 = {0}, int64[1] a1 = {1},
     int64[1] a2 = {2}, float[2, 4, 3] w = {W}, float[4, 2, 4] u = {U}, float half = {0.5},
     int64[2] twice = {1, 2}, int64[6] pads = {0, 0, 1, 0, 0, 2}, float[3, 4, 5] w5 = {W5}>
    {
        total = ReduceSum <keepdims = 0> (lengths)
        frames = Cast <to = 7> (total)
        places = Range(zero, frames, one)
        steps = Cast <to = 1> (places)
        column = Unsqueeze(steps, a1)
        ends = CumSum(lengths, zero)
        row = Unsqueeze(ends, a0)
        is_before = Less(column, row)
        path = Cast <to = 1> (is_before)
        spread = MatMul(path, features)
        turned = Transpose <perm = [1, 0]> (spread)
        x = Unsqueeze(turned, a0)
        NODE
    }
"""
TAILS = {
    "a convolution": "y = Conv <pads = [1, 1]> (x, w)",
    "one with strides": "y = Conv <pads = [2, 1], strides = [2]> (x, w5)",
    "dilations, and another behind": "c = Conv <pads = [4, 4], dilations = [2]> (x, w5)\n"
    "b = Exp(c)\n y = ReduceSum <keepdims = 0> (b, a2)",
    "two convolutions": "c = Conv <pads = [1, 1]> (x, w)\n d = Exp(c)\n"
    "s = Concat <axis = 1> (d, d)\n y = Conv <pads = [1, 1]> (s, w)",
    "auto_pad SAME": 'c = Conv <auto_pad = "SAME_LOWER"> (x, w)\n'
    'd = Concat <axis = 1> (c, c)\n y = Conv <auto_pad = "VALID"> (d, w)',
    "a transposed one": "y = ConvTranspose <strides = [2], pads = [1, 1]> (x, u)",
    "two transposed ones": "c = ConvTranspose <strides = [2], output_padding = [1]> (x, u)\n"
    "d = Sigmoid(c)\n e = Concat <axis = 1> (d, d)\n"
    "y = ConvTranspose <strides = [3], pads = [0, 1]> (e, u)",
    "a maximum of neighbours": "n = Neg(x)\n m = Sub(n, half)\n"
    "y = MaxPool <kernel_shape = [3], pads = [1, 1], strides = [2]> (m)",
    "a mean of neighbours": "e = Exp(x)\n"
    "y = AveragePool <kernel_shape = [3], pads = [1, 1], count_include_pad = 1> (e)",
    "a mean without the padding": "e = Exp(x)\n"
    "y = AveragePool <kernel_shape = [2], strides = [2]> (e)",
    "elements around": "e = Exp(x)\n p = Pad(e, pads, half)\n y = Conv(p, w)",
    "zeros like another": "s = Shape(x)\n z = ConstantOfShape(s)\n e = Exp(x)\n y = Add(z, e)",
    "a row for each": "s = Shape(spread)\n c = Gather(s, a0)\n t = Concat <axis = 0> (c, a1)\n"
    "y = Expand(half, t)",
    "another view": "s = Shape(spread)\n c = Gather(s, a0)\n t = Concat <axis = 0> (c, twice, m1)\n"
    "y = Reshape(spread, t)",
    "all in one dimension": "y = Reshape(spread, m1)",
    "another range": "s = Shape(spread)\n c = Gather(s, zero)\n f = Cast <to = 1> (c)\n"
    "z = Cast <to = 1> (zero)\n o = Cast <to = 1> (one)\n r = Range(z, f, o)\n y = Add(steps, r)",
    "a shape that is compared": "s = Shape(spread)\n o = Equal(s, m1)\n t = Where(o, twice, s)\n"
    "y = Expand(column, t)",
    "an integer": "y = Cast <to = 7> (spread)",
}


def made(tail: str) -> Any:
    arrays = {"W": (2, 4, 3), "U": (4, 2, 4), "W5": (3, 4, 5)}
    text = VOICE.replace("NODE", tail).replace("OUT", "y")
    for name, shape in arrays.items():
        numbers = np.random.RandomState(len(name)).randn(*shape).ravel()
        text = text.replace(f"{{{name}}}", "{" + ", ".join(f"{n:.3f}" for n in numbers) + "}")
    return parse(text)


def feeds_of(total: int) -> dict[str, np.ndarray]:
    lengths = np.array([1, total - 4, 3], np.float32)
    return {"lengths": lengths, "features": RANDOM.randn(3, 4).astype(np.float32)}


def loaded(model: Any, **bounds: int) -> Any:
    return dml_jax.load_onnx(model, free_dimensions={"n": 3}, fallback=True, bounds=bounds)


def cut(network: Any, results: Any) -> np.ndarray:
    array = np.asarray(results["y"])
    if "y" not in network.padded:
        return array
    return array.take(range(int(results["y.count"])), network.padded["y"])


@pytest.mark.parametrize("tail", TAILS)
def test_answers_are_those_without_padding(tail: str):
    model = made(TAILS[tail])
    network = loaded(model, frames=20)
    for total in (6, 13, 20):
        feeds = feeds_of(total)
        results, (expected,) = network(feeds), runtime(model, feeds)
        found = cut(network, results)
        assert found.shape == expected.shape and int(results["frames.size"]) == total
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_size_beyond_its_bound_is_an_error():
    network = loaded(made(TAILS["a convolution"]), frames=12)
    assert network.bounds == {"frames": 12}
    with pytest.raises(DmlError, match=r"the size 'frames' to be at most 12, .* got 13"):
        network(feeds_of(13))
    with pytest.raises(DmlError, match="got 13"):
        network.apply(network.weights, feeds_of(13))


@pytest.mark.parametrize("tail", ["a convolution", "an integer"])
def test_a_program_of_the_user_gets_no_answer_beyond_a_bound(tail: str):
    network = loaded(made(TAILS[tail]), frames=12)
    program = jax.jit(network.apply)
    within, beyond = (program(network.weights, feeds_of(total)) for total in (12, 13))
    assert int(within["frames.size"]) == 12 and int(beyond["frames.size"]) == 13
    y = np.asarray(beyond["y"])
    is_wrong = np.isnan(y) if y.dtype.kind == "f" else y == np.iinfo(y.dtype).min
    assert is_wrong.all() and not np.isnan(np.asarray(within["y"], np.float32)).any()


def test_gradients_and_batches_pass_a_bound():
    network = loaded(made(TAILS["two convolutions"]), frames=16)
    feeds = feeds_of(9)

    def loss(features: Any) -> Any:
        results = network.apply(network.weights, {**feeds, "features": features})
        is_there = jnp.arange(results["y"].shape[2]) < results["y.count"]
        return jnp.where(is_there, results["y"], np.float32(0)).sum()

    slope, step = jax.grad(loss)(feeds["features"]), np.float32(1e-2)
    shift = np.zeros((3, 4), np.float32)
    shift[1, 2] = step
    numeric = (loss(feeds["features"] + shift) - loss(feeds["features"] - shift)) / (2 * step)
    np.testing.assert_allclose(slope[1, 2], numeric, rtol=2e-2)
    many = jax.vmap(lambda one: network.apply(network.weights, one))
    totals = [feeds_of(n) for n in (7, 16, 17)]
    results = many({name: np.stack([one[name] for one in totals]) for name in feeds})
    assert results["frames.size"].tolist() == [7, 16, 17]
    assert np.isnan(np.asarray(results["y"])).all((1, 2, 3)).tolist() == [False, False, True]


def test_a_size_without_a_bound_is_refused_by_name():
    with pytest.raises(DmlError, match=r"bounds=\{'places': \.\.\.\}"):
        loaded(made(TAILS["a convolution"]))


def with_sizes(tail: str, **dims: list[str]) -> Any:
    """Return a model whose tensors have dimensions of these names."""
    model = made(TAILS[tail])
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    for name, names in dims.items():
        is_output = name == "y"
        info = model.graph.output[0] if is_output else model.graph.value_info.add(name=name)
        info.type.tensor_type.elem_type = 1 if is_output else 7
        for dim in names:
            info.type.tensor_type.shape.dim.add(dim_param=dim)
    return model


@pytest.mark.parametrize("dims", [{"places": ["time"]}, {"y": ["rows", "columns", "time"]}, {}])
def test_a_bound_has_the_name_of_a_dimension_or_any_other(dims: dict[str, list[str]]):
    network = loaded(with_sizes("a convolution", **dims), time=8)
    assert network.bounds == {"time": 8} and network(feeds_of(8))["y"].shape == (1, 2, 8)


def test_a_bound_of_an_output_holds_for_what_decides_it():
    network = loaded(with_sizes("a transposed one", y=["rows", "columns", "time"]), time=20)
    assert network(feeds_of(10))["y"].shape == (1, 2, 20)
    with pytest.raises(DmlError, match=r"the size 'time' to be at most 20, .* got 22"):
        network(feeds_of(11))


def test_bounds_are_checked():
    model = made(TAILS["a convolution"])
    assert loaded(model, places=8)(feeds_of(8))["y"].shape == (1, 2, 8)
    with pytest.raises(DmlError, match="expected bounds to name a size that data decides"):
        loaded(model, places=8, tim=9)
    with pytest.raises(DmlError, match=r"bounds\['time'\] to be a size of at least 1"):
        loaded(model, time=0)


def test_a_bound_below_what_is_possible_cuts():
    text = """
        places (float[9] x) => (int64[1, n] where)
        { where = NonZero(x) }
    """
    network = dml_jax.load_onnx(parse(text), fallback=True, bounds={"where": 4})
    results = network(x=np.array([1, 0, 2, 0, 0, 0, 0, 0, 1], np.float32))
    assert results["where"].shape == (1, 4) and int(results["where.count"]) == 3
    assert np.asarray(results["where"])[0, :3].tolist() == [0, 2, 8]
    with pytest.raises(DmlError, match=r"the size 'where' to be at most 4, .* got 9"):
        network(x=np.ones(9, np.float32))


@pytest.mark.parametrize(
    ("tail", "op_type"),
    [
        ("y = AveragePool <kernel_shape = [3], pads = [1, 1]> (x)", "AveragePool"),
        ("y = MaxPool <kernel_shape = [3], strides = [2], ceil_mode = 1> (x)", "MaxPool"),
        ('y = Conv <auto_pad = "SAME_UPPER", strides = [2]> (x, w)', "Conv"),
        ('e = Exp(x)\n y = Pad <mode = "reflect"> (e, pads)', "Pad"),
        ("s = Shape(x)\n o = Concat <axis = 0> (s, s)\n y = ConstantOfShape(o)", "ConstantOfShape"),
        ("y = Tile(x, pads)", "Tile"),
    ],
)
def test_what_cannot_carry_a_count_is_refused_by_name(tail: str, op_type: str):
    with pytest.raises(DmlError, match=rf"\({op_type}\)"):
        loaded(made(tail), frames=20)


def test_elements_are_put_at_places_that_data_decides():
    text = """
        scatter (float[3, 4] x) => (float[3, 4] y)
        <float zero = {0}, float[1] three = {3}>
        {
            is_positive = Greater(x, zero)
            where = NonZero(is_positive)
            places = Transpose <perm = [1, 0]> (where)
            found = GatherND(x, places)
            more = Mul(found, three)
            y = ScatterND(x, places, more)
        }
    """
    arrays = RANDOM.randn(3, 4), -np.ones((3, 4)), np.ones((3, 4))
    same_as_runtime(parse(text), [{"x": floats(x)} for x in arrays], fallback=True)


def test_the_command_line_takes_bounds(tmp_path: Path):
    """A name that no size has gets the names of all, and a size beyond its bound is an error."""
    words = [saved(with_sizes("a convolution", places=["frames"]), tmp_path), "-f", "n:3"]
    words += ["--fallback"]
    shown = command("check", *words, "--bounds", "frames=20").stdout
    assert "y FLOAT32[1,2,y.count<=20]" in shown
    feeds, out = feeds_of(9), tmp_path / "out"
    for name, array in feeds.items():
        np.save(tmp_path / name, array)
        words += ["--input", f"{name}={tmp_path / name}.npy"]
    command("run", *words, "--bounds", "frames=20", "--output_path", out)
    found = np.load(out / "y.npy")[..., : int(np.load(out / "y.count.npy"))]
    (expected,) = runtime(made(TAILS["a convolution"]), feeds)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    beyond = command("run", *words, "--bounds", "frames=8", status=1)
    assert "the size 'frames' to be at most 8" in beyond.stderr
    assert "--bounds places=SIZE" in command("run", *words, status=1).stderr
    command("run", *words, "--bounds", "frames8", status=2)


def test_a_bound_of_an_unknown_name_gets_the_names(tmp_path: Path):
    words = [saved(with_sizes("a convolution", places=["frames"]), tmp_path), "-f", "n:3"]
    words += ["--fallback", "--bounds", "frames=20", "--bounds"]
    for word, hint in (("time=9", r"(frames)"), ("frame=9", "(did you mean 'frames'?)")):
        assert hint in command("check", *words, word, status=1).stderr
    path = saved("g (float[2] x) => (float[2] y) { y = Relu(x) }", tmp_path)
    done = command("bench", "--network", path, "--list", "--bounds", "time=9", status=1)
    rule = "expected bounds to name a size that data decides (there is none), got 'time'"
    assert rule in done.stderr

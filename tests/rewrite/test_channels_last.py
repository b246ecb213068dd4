"""Programs of networks: channels last, prepared weights, XLA's kernels, and tuning."""

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from build import command, parse, runtime, saved
from nightly import sample
from rewrite.test_rewrite import compared

import dml_jax
from dml_jax import DmlError, load_onnx
from dml_jax.lowering.convolution.api import NHWC_HWIO, convolution
from dml_jax.lowering.windows import Window
from dml_jax.onnx.options import NetworkOptions
from dml_jax.rewrite import ChannelsLast, rewritten
from dml_jax.runtime.compiler_options import TRITON, YNNPACK, by_rule_of_gpu
from dml_jax.runtime.executable import Choice, Start

of_a_cpu = pytest.mark.skipif(
    jax.default_backend() != "cpu", reason="layouts and kernels are chosen on a CPU alone"
)

LAST, MATRICES, RECURRENCES = "channels last", "matrices turned", "recurrences turned"
RANDOM = np.random.default_rng(5)


def weight(*shape: int) -> np.ndarray:
    return (RANDOM.normal(size=shape) / np.sqrt(np.prod(shape[1:]) + 1)).astype(np.float32)


def network_of(nodes: str, shape: tuple[int, ...], outputs: str = "y", **weights: Any) -> Any:
    """Return the model of a text; a weight is an array, or the sizes of random numbers."""
    arrays = {n: weight(*w) if isinstance(w, tuple) else w for n, w in weights.items()}
    sizes = ", ".join(map(str, shape))
    return parse(f"g (float[{sizes}] x) => ({outputs}) {{ {nodes} }}", **arrays)


SAME = "pads = [1, 1, 1, 1]"


def chain(shape: tuple[int, ...] = (1, 16, 6, 6)) -> Any:
    nodes = f"""h = Conv <{SAME}> (x, a)  i = Relu (h)
        j = Conv <{SAME}> (i, b, c)  y = Relu (j)"""
    return network_of(nodes, shape, a=(32, 16, 3, 3), b=(16, 32, 3, 3), c=(16,))


def of_tensorflow() -> Any:
    nodes = f"""t = Transpose <perm = [0, 3, 1, 2]> (x)  h = Conv <{SAME}> (t, a)
        i = Relu (h)  y = Transpose <perm = [0, 2, 3, 1]> (i)"""
    return network_of(nodes, (1, 6, 6, 16), a=(32, 16, 3, 3))


def mixed() -> Any:
    """Return a network whose values have readers of all kinds."""
    nodes = f"""h = Conv <{SAME}, dilations = [1, 1]> (x, a)  i = PRelu (h, slope)
        j = Conv <group = 16, pads = [2, 0, 0, 2], strides = [2, 1]> (i, d)
        k = Conv <group = 2, {SAME}> (j, g)
        m = MaxPool <kernel_shape = [2, 2], pads = [1, 0, 0, 1]> (k)
        n = AveragePool <kernel_shape = [2, 2], strides = [1, 1], pads = [0, 1, 1, 0]> (k)
        o = Concat <axis = 1> (m, n)  o2 = Add (o, whole)
        s = GlobalAveragePool (o2)  s2 = Conv (s, e)  s3 = Sigmoid (s2)  p = Mul (o2, s3)
        q = Slice (p, starts, ends, axes)  r = Softmax <axis = 1> (q)
        t = ReduceMean <keepdims = 1> (r, axes)  u = Resize <mode = "linear"> (p, , scales)
        v = Conv <{SAME}> (u, f)  w = Reshape (v, flat)  y = MatMul (w, matrix)"""
    return network_of(
        nodes,
        (2, 16, 8, 6),
        "y, t",
        a=(16, 16, 3, 3),
        slope=(16, 1, 1),
        d=(16, 1, 3, 3),
        g=(32, 8, 3, 3),
        whole=(1, 64, 4, 6),
        e=(64, 64, 1, 1),
        f=(16, 64, 3, 3),
        starts=np.array([8, 1]),
        ends=np.array([40, 3]),
        axes=np.array([1, 2]),
        scales=np.array([1, 1, 2, 1.5], np.float32),
        flat=np.array([2, -1]),
        matrix=(16 * 8 * 9, 3),
    )


def read_twice() -> Any:
    """Return a convolution of each channel that two nodes read."""
    nodes = f"h = Conv <{SAME}, group = 16> (x, a)  i = Sigmoid (h)  y = Mul (h, i)"
    return network_of(nodes, (2, 16, 6, 5), a=(16, 1, 3, 3))


def of_one_dimension() -> Any:
    nodes = """h = Conv <pads = [1, 1]> (x, a)  i = Tanh (h)  j = Conv <strides = [2]> (i, b)
        k = MaxPool <kernel_shape = [2]> (j)  y = Transpose <perm = [0, 2, 1]> (k)"""
    return network_of(nodes, (2, 16, 12), a=(32, 16, 3), b=(16, 32, 3))


def spectrum() -> Any:
    """Return a Fourier transform of windows, as networks of sounds have it."""
    return network_of("h = Conv <strides = [64]> (x, a)  y = Abs (h)", (2, 1, 448), a=(20, 1, 192))


def products() -> Any:
    nodes = """h = Gemm <transB = 1> (x, a, c)  i = Relu (h)
        y = Gemm <transB = 1, alpha = 0.5> (i, b)"""
    return network_of(nodes, (3, 8), a=(12, 8), b=(5, 12), c=(12,))


def recurrent(op_type: str, gates: int, direction: str, more: str = "") -> Any:
    directions, units = 1 + (direction == "bidirectional"), 4
    outputs = "output, last, cell" if op_type == "LSTM" else "output, last"
    attributes = f'hidden_size = {units}, direction = "{direction}"{more}'
    return network_of(
        f"{outputs} = {op_type} <{attributes}> (x, w, r, b)",
        (5, 2, 3),
        outputs,
        w=(directions, gates * units, 3),
        r=(directions, gates * units, units),
        b=(directions, 2 * gates * units),
    )


CASES = {
    "chain": (chain, {LAST: 2}),
    "of TensorFlow": (of_tensorflow, {LAST: 1}),
    "mixed": (mixed, {LAST: 5}),
    "one dimension": (of_one_dimension, {LAST: 2}),
    "spectrum": (spectrum, {LAST: 1}),
    "one channel": (lambda: network_of("y = Conv (x, a)", (1, 1, 9, 7), a=(4, 1, 3, 3)), {LAST: 1}),
    "products": (products, {MATRICES: 2}),
    "RNN": (lambda: recurrent("RNN", 1, "bidirectional"), {RECURRENCES: 1}),
    "LSTM": (lambda: recurrent("LSTM", 4, "reverse"), {RECURRENCES: 1}),
    "GRU": (lambda: recurrent("GRU", 3, "bidirectional"), {RECURRENCES: 1}),
    "GRU, linear": (
        lambda: recurrent("GRU", 3, "forward", ", linear_before_reset = 1"),
        {RECURRENCES: 1},
    ),
}


def test_programs_give_the_values_and_gradients_of_the_file() -> None:
    counts = compared({n: make() for n, (make, _) in CASES.items()}, {}, layout="channels_last")
    names = (LAST, MATRICES, RECURRENCES)
    found = {
        name: {key: made[key] for key in names if made.get(key)} for name, made in counts.items()
    }
    assert found == {name: wanted for name, (_, wanted) in CASES.items()}


@pytest.mark.parametrize("precision", sample(["bfloat16", None]))
def test_channels_last_for_a_gpu_give_the_values_and_gradients_of_the_file(precision: Any) -> None:
    rewrites = [ChannelsLast(True, ("FLOAT32",), is_gpu=True)]
    cases = {name: CASES[name][0]() for name in ("chain", "mixed", "one dimension")}
    cases["read twice"] = read_twice()
    with jax.default_matmul_precision(precision) if precision else contextlib.nullcontext():
        counts = compared(cases, {}, rewrites=rewrites)
    assert {name: made[LAST] for name, made in counts.items()} == {
        "chain": 2,
        "mixed": 5,
        "one dimension": 2,
        "read twice": 1,
    }


@pytest.mark.parametrize(
    ("kind", "options", "is_laid_out"),
    [
        ("FLOAT16", {}, True),
        ("FLOAT32", {}, False),
        ("FLOAT32", {"precision": "tensorfloat32"}, True),
        ("FLOAT32", {"precision": "bfloat16"}, True),
        ("FLOAT32", {"layout": "channels_last"}, True),
        ("FLOAT16", {"layout": "file"}, False),
        ("FLOAT16", {"prepare": False}, False),
    ],
)
def test_a_gpu_has_channels_last_where_its_products_are_rounded(
    kind: str, options: dict[str, Any], is_laid_out: bool
) -> None:
    x, w = (dml_jax.TensorDesc(kind, sizes) for sizes in ([1, 3, 9, 9], [8, 3, 3, 3]))
    builder = dml_jax.GraphBuilder()
    given = builder.input_tensor("x", x), builder.input_tensor("w", w.replace(flags="OWNED_BY_DML"))
    h = dml_jax.convolution(*given)
    y = dml_jax.convolution(h, builder.constant(np.ones((8, 8, 3, 3), w.dtype)))
    graph = builder.build({"y": y})
    _, counts = rewritten(graph, NetworkOptions(**options).rewrites_on("gpu"))
    assert bool(counts.get(LAST)) == is_laid_out


def test_a_gpu_needs_no_kernels_of_triton_in_full_precision() -> None:
    graph = load_onnx(chain()).graph
    assert by_rule_of_gpu(graph, None) == by_rule_of_gpu(graph, "float32") == {TRITON: False}
    assert by_rule_of_gpu(graph, "tensorfloat32") == {}
    with jax.default_matmul_precision("bfloat16"):
        assert by_rule_of_gpu(graph, None) == {}


def transposes(network: Any, x: np.ndarray) -> int:
    """Return the number of transpositions of a call's program."""

    def call(held: Any, x: Any) -> Any:
        return network.compute(x, *held)

    return jax.jit(call).lower(network.constants, x).as_text().count("stablehlo.transpose")


@pytest.mark.parametrize(
    ("make", "layout", "count"),
    [
        pytest.param(chain, "channels_last", 2, id="at both ends"),
        pytest.param(of_tensorflow, "channels_last", 0, id="those of the file cancel"),
        pytest.param(of_tensorflow, "file", 2, id="those of the file"),
        pytest.param(products, None, 0, id="weights are prepared"),
    ],
)
def test_copies_stand_at_the_borders(make: Any, layout: Any, count: int) -> None:
    network = load_onnx(make(), layout=layout)
    assert transposes(network, np.ones(network.inputs["x"].shape, np.float32)) == count


@of_a_cpu
def test_a_network_with_more_copies_than_convolutions_need_stays() -> None:
    nodes = f"i0 = Conv <{SAME}> (x, a)"
    for k in range(3):  # each reads elements across channels and places
        nodes += f"""
            f{k} = Reshape (i{k}, flat)  g{k} = Softmax <axis = 1> (f{k})
            h{k} = Reshape (g{k}, back)  i{k + 1} = Conv <group = 16> (h{k}, one)"""
    model = network_of(
        nodes,
        (1, 16, 4, 100),
        "i3",
        a=(16, 16, 3, 3),
        one=(16, 1, 1, 3),
        flat=np.array([1, -1]),
        back=np.array([1, 16, 4, -1]),
    )
    assert not load_onnx(model).rewrites[LAST]


@of_a_cpu
def test_layouts_and_preparation_are_options() -> None:
    model, x = chain(), RANDOM.normal(size=(1, 16, 6, 6)).astype(np.float32)
    network = load_onnx(model)
    assert network.rewrites[LAST] == 2
    assert "2 arrays prepared of weights, 36864 bytes beside these" in network.report()
    for options in ({"layout": "file"}, {"prepare": False}):
        other = load_onnx(model, **options)
        assert not other.rewrites.get(LAST)
        assert "prepared" not in other.report()
        np.testing.assert_allclose(other(x)["y"], network(x)["y"], atol=1e-5)
    with pytest.raises(DmlError, match="expected layout to be 'file' or 'channels_last', or None"):
        load_onnx(model, layout="NHWC")


def test_weights_are_prepared_again_where_others_stand_for_them() -> None:
    network, x = load_onnx(products()), np.ones((3, 8), np.float32)
    before = network(x)["y"]
    network.weights["b"] = 2 * network.weights["b"]
    np.testing.assert_allclose(network(x)["y"], 2 * before, rtol=1e-5)


@of_a_cpu
def test_a_weight_of_several_nodes_is_prepared_once() -> None:
    nodes = " ".join(f"{y} = Gemm <transB = 1> ({x}, a)" for x, y in ("xh", "hi", "iy"))
    a, x = weight(8, 8), RANDOM.normal(size=(3, 8)).astype(np.float32)
    network = load_onnx(network_of(nodes, (3, 8), a=a))
    np.testing.assert_allclose(network(x)["y"], x @ np.linalg.matrix_power(a.T, 3), 1e-4, 1e-4)
    assert f"1 arrays prepared of weights, {a.nbytes} bytes beside these" in network.report()


def branches(has_inner: bool) -> Any:
    """Return a network whose branch convolves by a filter, or by another and multiplies.

    The latter may have an If within, whose branches convolve by filters too.
    """
    kind = "float[1, 16, 6, 6]"
    inner = f"""e = If (d0) <
        then_branch = least () => ({kind} j) {{ j = Conv <{SAME}> (i, a) }},
        else_branch = most () => ({kind} k) {{ k = Conv <{SAME}> (i, d) }}>"""
    text = f"""g ({kind} x, bool c, bool d0) => (y) {{ y = If (c) <
        then_branch = then () => ({kind} t) {{ t = Conv <{SAME}> (x, a) }},
        else_branch = other () => ({kind} u) {{ h = Conv <{SAME}> (x, b)  i = MatMul (h, m)
            {inner if has_inner else "e = Identity (i)"}  u = Identity (e) }}> }}"""
    return parse(text, **{n: weight(16, 16, 3, 3) for n in "abd"}, m=weight(6, 6))


@of_a_cpu
@pytest.mark.parametrize("has_inner", [False, True])
def test_weights_of_branches_are_prepared_once(has_inner: bool) -> None:
    model = branches(has_inner)
    network, plain = load_onnx(model, layout="channels_last"), load_onnx(model, prepare=False)
    assert network.prepared_from[1] == (3 if has_inner else 2)
    assert plain.prepared_from[1] == 0
    x = RANDOM.normal(size=(1, 16, 6, 6)).astype(np.float32)
    for c, d in ((True, True), (False, True), (False, False)):
        feeds = {"x": x, "c": np.array(c), "d0": np.array(d)}
        (expected,) = runtime(model, feeds)
        for results in (network(feeds), plain(feeds), network.apply(network.weights, feeds)):
            np.testing.assert_allclose(results["y"], expected, rtol=1e-4, atol=1e-4)
    network.weights["a"] = 2 * network.weights["a"]
    feeds = {"x": x, "c": np.array(True), "d0": np.array(True)}
    np.testing.assert_allclose(network(feeds)["y"], 2 * plain(feeds)["y"], rtol=1e-4, atol=1e-4)


@of_a_cpu
def test_kernels_follow_shapes_and_types() -> None:
    few, rows = (network_of("y = MatMul (x, a)", (count, 8), a=(8, 4)) for count in (15, 16))
    convolving = network_of(f"y = Conv <{SAME}> (x, a)", (1, 32, 7, 7), a=(32, 32, 3, 3))
    assert load_onnx(convolving).compiler_options == {YNNPACK: ""}
    assert load_onnx(few).compiler_options == {YNNPACK: ""}
    assert not load_onnx(rows).compiler_options
    text = "g (uint8[4, 8] x) => (y) { y = MatMulInteger (x, w) }"
    assert not load_onnx(parse(text, w=np.ones((8, 8), np.int8))).compiler_options


@pytest.fixture
def tuned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a network with options of XLA, and the file that it was loaded from."""
    monkeypatch.setenv("DML_JAX_CACHE", str(tmp_path / "cache"))
    path = saved(chain(), tmp_path, "chain.onnx")
    network = load_onnx(path)
    assert not network.is_tuned
    assert network.compiler_options
    return network, path


@of_a_cpu
def test_a_network_with_options_is_a_part_of_programs(tuned: Any) -> None:
    network, _ = tuned
    x = RANDOM.normal(size=(1, 16, 6, 6)).astype(np.float32)
    y = network(x)["y"]

    def call(x: Any) -> Any:
        return network(x)["y"]

    def total(x: Any) -> Any:
        return call(x).sum()

    np.testing.assert_allclose(jax.jit(call)(x), y, atol=1e-5)
    np.testing.assert_allclose(jax.vmap(call)(jnp.stack([x, x]))[1], y, atol=1e-5)
    _, ys = jax.lax.scan(lambda c, x: (c, call(x)), 0, jnp.stack([x, x]))
    np.testing.assert_allclose(ys[1], y, atol=1e-5)
    _, ys = jax.lax.scan(lambda c, _: (c, call(x)), 0, jnp.zeros(2))  # no tracer among the inputs
    np.testing.assert_allclose(ys[0], y, atol=1e-5)
    slope = jax.grad(total)(jnp.asarray(x))
    wanted = jax.grad(lambda x: network.apply(network.weights, {"x": x})["y"].sum())(x)
    np.testing.assert_allclose(slope, wanted, atol=1e-4)
    np.testing.assert_allclose(dml_jax.compile(network)(x), y, atol=1e-5)


@of_a_cpu
def test_options_that_xla_does_not_know_are_left_out(tuned: Any) -> None:
    network, _ = tuned
    x = np.ones((1, 16, 6, 6), np.float32)
    choice = Choice("file", {"xla_no_such_option": True})
    other = replace(network, start=Start(choice))
    np.testing.assert_allclose(other(x)["y"], network(x)["y"], atol=1e-5)
    np.testing.assert_allclose(dml_jax.compile(other)(x), network(x)["y"], atol=1e-5)


@of_a_cpu
def test_tuning_is_kept_for_later_loads(tuned: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    network, path = tuned
    x = np.ones((1, 16, 6, 6), np.float32)
    before = network(x)["y"]
    found = network.tune(seconds=0.01)
    assert network.is_tuned
    assert found.winner.ms is not None
    assert str(found).splitlines()[0].split() == ["layout", "kernels", "ms"]
    np.testing.assert_allclose(network(x)["y"], before, atol=1e-5)
    file = found.file
    assert file is not None
    assert json.loads(file.read_text())["layout"] == found.winner.layout
    other = {"layout": "file", "kernels": "Eigen"}
    file.write_text(json.dumps(other))
    again = load_onnx(path)
    assert again.is_tuned
    assert again.compiler_options == {YNNPACK: ""}
    assert not again.rewrites.get(LAST)
    assert "tuned on this machine" in again.report()
    assert not load_onnx(path, tuned=False).is_tuned
    assert not load_onnx(path, layout="channels_last").is_tuned
    for text in ("", "[]", '{"layout": "file", "kernels": "none of these"}'):
        file.write_text(text)
        assert not load_onnx(path).is_tuned
    assert again.untune()
    assert not again.is_tuned
    assert not again.untune()


@of_a_cpu
def test_a_folder_that_cannot_be_written_is_no_fault(
    tuned: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, _ = tuned
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DML_JAX_CACHE", str(tmp_path / "file"))
    found = network.tune(seconds=0.01)
    assert found.file is None
    assert str(found).endswith("not kept")


@of_a_cpu
def test_the_command_tunes_and_forgets(tuned: Any) -> None:
    _, path = tuned
    done = command("tune", path, "-t", "0.01", "--json")
    assert json.loads(done.output)["candidates"][0]["ms"] > 0
    assert "Forgotten." in command("tune", path, "--forget").output
    assert "nothing to forget" in command("tune", path, "--forget").output


def of_bytes(consumer: str) -> Any:
    """Return a network whose node reads weights of 8 bits as floats."""
    kind, read = ("float[3, 96]", "x, w") if consumer == "MatMul" else ("int64[5]", "w, x")
    nodes = f"f = Cast <to = 1> (q)  w = Mul (f, s)  y = {consumer} ({read})"
    q, s = RANDOM.integers(-128, 128, (96, 64)).astype(np.int8), weight(64)
    return parse(f"g ({kind} x) => (y) {{ {nodes} }}", q=q, s=s)


def test_weights_of_bytes_are_unpacked_once_for_products_alone() -> None:
    model = of_bytes("MatMul")
    network, x = load_onnx(model), RANDOM.normal(size=(3, 96)).astype(np.float32)
    (q, s) = map(onnx.numpy_helper.to_array, model.graph.initializer)
    expected = x.astype(np.float64) @ (q * s.astype(np.float64))
    np.testing.assert_allclose(network(x)["y"], expected, 1e-4, 1e-4)
    assert f"1 arrays prepared of weights, {96 * 64 * 4} bytes beside these" in network.report()
    assert "prepared of weights" not in load_onnx(of_bytes("Gather")).report()


def normalized() -> Any:
    """Return a network whose BATCH_NORMALIZATION is a part of its filters."""
    nodes = "c = Conv (x, w)  y = BatchNormalization (c, s, b, m, v)"
    arrays = {"w": (24, 16, 3, 3), **dict.fromkeys("sbm", (24,))}
    return network_of(nodes, (1, 16, 9, 9), **arrays, v=np.abs(weight(24)) + 1)


def quantized() -> Any:
    """Return a network of a matrix of UINT8 with a scale and a zero point for each column."""
    q = RANDOM.integers(0, 256, (96, 64)).astype(np.uint8)
    zero = RANDOM.integers(0, 256, 64).astype(np.uint8)
    nodes = "w = DequantizeLinear <axis = 1> (q, s, z)  y = MatMul (x, w)"
    return network_of(nodes, (3, 96), q=q, s=(64,), z=zero)


def turned() -> Any:
    """Return a network of a large matrix {N, K}, and of a recurrent cell."""
    nodes = """p = Gemm <transB = 1> (x, a)  q = Unsqueeze (p, one)
        y = GRU <hidden_size = 32> (q, w, r)"""
    arrays = {"a": (300, 80), "w": (1, 96, 300), "r": (1, 96, 32)}
    return network_of(nodes, (4, 80), **arrays, one=np.array([1]))


@pytest.mark.parametrize("make", [chain, normalized, quantized, turned])
def test_weights_that_numpy_prepares_are_those_of_the_program(make: Any) -> None:
    network = load_onnx(make())
    ours, theirs = network.constants, network.prepared(network.weights)
    assert len(ours) == len(theirs) > 0
    for one, other in zip(ours, theirs, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(one, other, 1e-6, 1e-7)


def moved(x: Any, window: Any, place: tuple[int, ...]) -> Any:
    """Return what a window of 3 by 3 reads of {N, H, W, C} at one of its places."""
    edges = [(0, 0), *window.padding, (0, 0)]
    rows, columns = window.counts(x.shape[1:3])
    i, j = place
    return np.pad(x, edges)[:, i : i + rows, j : j + columns]


@of_a_cpu
@pytest.mark.parametrize("batch", [1, 2])
def test_large_planes_of_many_channels_are_convolved_by_tiles(batch: int) -> None:
    window = Window((3, 3), (1, 1), (1, 1), (1, 0), (2, 1))
    x, w = (RANDOM.normal(size=s) for s in ((batch, 38, 43, 64), (3, 3, 64, 72)))
    dy = RANDOM.normal(size=(batch, 39, 42, 72))
    y, dw = np.zeros(dy.shape), np.zeros(w.shape)
    wide = np.zeros((batch, 41, 44, 64))
    for i, j in np.ndindex(3, 3):
        read = moved(x, window, (i, j))
        y += read @ w[i, j]
        dw[i, j] = np.einsum("nhwc,nhwo->co", read, dy)
        wide[:, i : i + 39, j : j + 42] += dy @ w[i, j].T
    dx = wide[:, 1:39, :43]

    def convolved(x: jax.Array, w: jax.Array) -> jax.Array:
        return convolution(x, w, None, window, 1, False, layout=NHWC_HWIO)

    arrays = [jnp.asarray(a, jnp.float32) for a in (x, w)]
    assert "convolution" not in jax.jit(convolved).lower(*arrays).as_text()
    result, back = jax.vjp(convolved, *arrays)
    found = [result, *back(jnp.asarray(dy, jnp.float32))]
    for array, answer in zip(found, (y, dx, dw), strict=True):
        np.testing.assert_allclose(array, answer, rtol=0, atol=2e-6 * np.abs(answer).max())


@of_a_cpu
def test_what_follows_from_constants_and_a_weight_is_prepared() -> None:
    angles = np.arange(16, dtype=np.float32).reshape(4, 4)
    constant = f"Constant <value = float[4, 4] {{{', '.join(map(str, angles.ravel()))}}}> ()"
    nodes = f"angles = {constant}  a = Mul (angles, step)  s = Sin (a)  y = Add (x, s)"
    network = load_onnx(network_of(nodes, (4, 4), step=np.float32([0.5])))
    x = RANDOM.normal(size=(4, 4)).astype(np.float32)
    np.testing.assert_allclose(network(x)["y"], x + np.sin(angles / 2), rtol=1e-5, atol=1e-6)
    assert "1 arrays prepared of weights, 64 bytes beside these" in network.report()


@of_a_cpu
def test_weights_are_prepared_by_one_program_where_jax_traces_the_caller() -> None:
    places = RANDOM.permuted(np.tile(np.arange(7), (5, 1)), axis=1)
    constant = f"Constant <value = int64[5, 7] {{{', '.join(map(str, places.ravel()))}}}> ()"
    nodes = f"""places = {constant}  a = Mul (w, step)  c = Cos (a)
        s = ScatterElements <axis = 1> (w, places, c)  y = Add (x, s)"""
    w = RANDOM.normal(size=(5, 7)).astype(np.float32)
    network = load_onnx(network_of(nodes, (5, 7), w=w, step=np.float32([0.5])))
    compiled: list[str] = []

    def note(event: str, _: float, **__: Any) -> None:
        compiled.extend([event] * event.endswith("backend_compile_duration"))

    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        jax.eval_shape(network, jax.ShapeDtypeStruct((5, 7), np.float32))
    finally:
        jax.monitoring.unregister_event_duration_listener(note)
    assert len(compiled) == 1
    expected = np.empty_like(w)
    np.put_along_axis(expected, places, np.cos(w / 2), axis=1)
    np.testing.assert_allclose(network(np.zeros_like(w))["y"], expected, rtol=1e-5, atol=1e-6)

"""How ONNX networks are read: files, functions, versions, defaults, and what is known at load."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from build import (
    case,
    close,
    command,
    external,
    floats,
    in_function,
    model_of,
    node,
    parse,
    refusal,
    runtime,
    same_as_runtime,
    saved,
    single,
)
from onnx import helper
from onnx.reference import ReferenceEvaluator

from dml_jax import DmlError, compile, load_onnx

RANDOM = np.random.RandomState(0)
W = np.arange(1, 5, dtype=np.float32)
X = floats([1, 0, 3, 0])


# Files


IN_A_BRANCH = """g (bool c, float[4] x) => (float[4] y) { y = If (c) <
    then_branch = t () => (float[4] a) <float[4] w = {0, 0, 0, 0}> { a = Add(x, w) },
    else_branch = e () => (float[4] b) { b = Neg(x) }>
}"""
IN_A_LOOP = """g (int64 c, float[4] x) => (float[4] y) { y = Loop (c, , x) <
    body = b (int64 i, bool go, float[4] s) => (bool on, float[4] r)
    <float[4] w = {0, 0, 0, 0}> { on = Identity(go) r = Add(s, w) }>
}"""


def _outside_the_list(place: str, location: str) -> tuple[Any, np.ndarray]:
    """Return a model with external data in a place, and its other input."""
    tensor = external(W, "w", location=location)
    if place in ("function", "constant"):
        body = [helper.make_node("Constant", [], ["w"], value=tensor), node("Add", "x w", "y")]
        function = helper.make_function("l", "f", ["x"], ["y"], body, [helper.make_opsetid("", 18)])
        nodes = [helper.make_node("f", ["x"], ["y"], domain="l")] if place == "function" else body
        functions = [function] * (place == "function")
        inputs = {"x": (np.float32, [4]), "c": (bool, [])}
        return model_of(nodes, inputs, ["y"], functions=functions), np.array(True)
    model = parse(IN_A_BRANCH if place == "branch" else IN_A_LOOP)
    graph = model.graph.node[0].attribute[0].g
    graph.initializer[0].CopyFrom(tensor)
    return model, np.array(True) if place == "branch" else np.array(1)


@pytest.mark.parametrize("place", ["branch", "loop", "function", "constant"])
def test_external_data_of_every_tensor(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    model, other = _outside_the_list(place, "w.bin")
    path = saved(model, tmp_path)
    message = refusal(path)
    assert "the tensor 'w' cannot be read: " in message and "w.bin" in message
    W.tofile(tmp_path / "w.bin")
    monkeypatch.chdir(tmp_path.parent)
    for given in (path, os.path.relpath(path)):
        close(load_onnx(given)({"x": X, "c": other})["y"], X + W)
    monkeypatch.chdir(tmp_path)
    close(load_onnx(model)({"x": X, "c": other})["y"], X + W)
    assert model.SerializeToString() == path.read_bytes()
    assert "to lie in the model's bytes (give its path: " in refusal(path.read_bytes())
    (tmp_path / "w.bin").unlink()
    assert refusal(path, cache=tmp_path / "cache") == refusal(path)


def test_links_of_a_cache_are_followed(tmp_path: Path):
    """Lay files out as the cache of the Hugging Face hub: links in `snapshots`, data in `blobs`."""
    snapshot, blobs = tmp_path / "snapshots/abc/onnx", tmp_path / "blobs"
    for folder in (snapshot, blobs, tmp_path / "elsewhere"):
        folder.mkdir(parents=True)
    model = model_of([node("Add", "x w", "y")], {"x": (np.float32, [4])}, ["y"])
    model.graph.initializer.append(external(W, "w", location="w.bin"))
    (blobs / "1").write_bytes(model.SerializeToString())
    W.tofile(blobs / "2")
    (snapshot / "m.onnx").symlink_to("../../../blobs/1")
    data = snapshot / "w.bin"
    data.symlink_to("../../../blobs/2")
    close(load_onnx(snapshot / "m.onnx")(X)["y"], X + W)
    data.unlink()
    W.tofile(data)  # in the folder that the caller names
    close(load_onnx(snapshot / "m.onnx")(X)["y"], X + W)
    data.unlink()
    secret = tmp_path / "elsewhere/secret"
    W.tofile(secret)
    data.symlink_to(secret)
    message = refusal(snapshot / "m.onnx")
    assert f"the initializer 'w' to have its data in the model's folder '{snapshot}'" in message
    assert f"or in '{blobs.resolve()}' (copy the file there), got '{str(secret)[:20]}" in message
    data.unlink()
    data.symlink_to(tmp_path / "nothing")
    assert "the initializer 'w'" in refusal(snapshot / "m.onnx")


# Functions


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("y = l.f (x)", [-1, 0, 2]),
        ("y = l.f (x, , h)", [-1, 0, 0.5]),
        ("y = l.f (x, h)", [0.5, 0.5, 2]),
        ("y = l.outer (x)", [-1, 0, 2]),
        ("y = l.outer (x, h)", [-1, 0, 0.5]),
        ("y = l.choose (x)", [1, 0, -2]),
        ("y = l.choose (x, h)", [-0.5, 0.5, 2.5]),
    ],
)
def test_a_call_may_leave_inputs_out(call: str, expected: list[float]):
    text = """<ir_version: 10, opset_import: ["": 18, "l": 1]>
    g (float[3] x) => (float[3] y) <float h = {0.5}> { CALL }
    <opset_import: ["": 18], domain: "l"> f (x, lo, hi) => (y) { y = Clip(x, lo, hi) }
    <opset_import: ["": 18, "l": 1], domain: "l"> outer (x, hi) => (y) { y = l.f(x, , hi) }
    <opset_import: ["": 18], domain: "l"> choose (x, o) => (y) {
        has = OptionalHasElement(o)
        y = If (has) <then_branch = t () => (a) { a = Add(x, o) },
                      else_branch = e () => (b) { b = Neg(x) }>
    }"""
    model = parse(text.replace("CALL", call))
    close(load_onnx(model)(floats([-1, 0, 2]))["y"], floats(expected))


def test_functions_are_told_apart_by_their_overload():
    opset = [helper.make_opsetid("", 18)]
    functions = [
        helper.make_function("l", "f", ["x"], ["y"], [node(op, "x", "y")], opset, overload=name)
        for op, name in (("Neg", "a"), ("Abs", "b"), ("Relu", ""))
    ]
    calls = [
        helper.make_node("f", ["x"], [y], domain="l", overload=name)
        for y, name in (("u", "a"), ("v", "b"), ("w", ""))
    ]
    model = model_of(calls, {"x": (np.float32, [2])}, ["u", "v", "w"], functions=functions)
    results = load_onnx(model)(floats([-1, 2]))
    for name, expected in (("u", [1, -2]), ("v", [1, 2]), ("w", [0, 2])):
        close(results[name], floats(expected))
    model.graph.node[0].overload = "c"
    rule = "expected overload to be that of a function of the model ('a', 'b', ''), got 'c'"
    assert rule in refusal(model)


# Versions


X4 = RANDOM.randn(2, 3, 4, 5).astype(np.float32)
THREE = np.abs(RANDOM.randn(3)).astype(np.float32)
IMAGE = RANDOM.randn(1, 2, 4, 6).astype(np.float32)
GRID = RANDOM.uniform(-1, 1, (1, 3, 3, 2)).astype(np.float32)
BOXES = floats([[0, 0, 3, 3], [1, 1, 2, 3]])
BATCH = {"X": X4, "s": THREE, "b": THREE, "m": THREE, "v": THREE}
OF_VERSIONS: list[tuple[str, int, dict[str, Any]]] = [
    ("Softmax", 11, {"X": X4}),
    ("LogSoftmax", 12, {"X": X4, "axis": -2}),
    ("Hardmax", 12, {"X": X4, "axis": -2}),
    ("Softmax", 13, {"X": X4}),
    ("BatchNormalization", 12, BATCH),
    ("Dropout", 10, {"X": X4, "outputs": "y z"}),
    ("GridSample", 16, {"X": IMAGE, "G": GRID, "mode": "bilinear"}),
    ("LRN", 12, {"X": X4, "size": 3}),
    ("MaxPool", 10, {"X": IMAGE, "kernel_shape": [2, 2], "outputs": "y z"}),
    ("RoiAlign", 10, {"X": IMAGE, "B": BOXES, "I": np.array([0, 0]), "sampling_ratio": 2}),
    ("ArgMax", 11, {"X": X4, "axis": 1}),
    ("Squeeze", 11, {"X": X4[:, :1], "axes": [1]}),
    ("TopK", 10, {"X": X4, "k": np.array([2]), "outputs": "y z"}),
]


@pytest.mark.parametrize(("op_type", "opset", "given"), OF_VERSIONS)
def test_what_is_known_at_load_has_the_meaning_of_its_version(
    op_type: str, opset: int, given: dict[str, Any]
):
    model, inputs = case(op_type, opset=opset, **given)
    model.ir_version = 8
    arrays = {name: array for name, array in given.items() if isinstance(array, np.ndarray)}
    outputs = [output.name for output in model.graph.output]
    results = load_onnx(in_function(model.graph.node, {}, outputs, arrays, opset))({})
    for result, expected in zip(results.values(), runtime(model, inputs), strict=True):
        close(result, expected, 1e-4)


def test_early_operands_are_broadcast_along_an_axis():
    """Compute at load, where sizes alone would say another axis."""
    square, line = np.arange(9, dtype=np.float32).reshape(3, 3), floats([1, 2, 4])
    arrays = {"a": square, "b": line, "i": -square.reshape(1, 3, 1, 3)}
    functions = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Greater": np.greater}
    nodes = [node(op, "a b", op, broadcast=1, axis=0) for op in functions]
    nodes.append(node("PRelu", "i b", "PRelu"))
    results = load_onnx(in_function(nodes, {}, [*functions, "PRelu"], arrays, 6))({})
    for name, compute in functions.items():
        close(results[name], compute(square, line[:, None]))
    close(results["PRelu"], arrays["i"] * line.reshape(1, 3, 1, 1))


EARLY: list[tuple[str, int, dict[str, Any], Any]] = [
    ("Reshape", 1, {"shape": [5, -1, 4]}, X4.reshape(5, 6, 4)),
    ("Reshape", 4, {"shape": [0, 60]}, X4.reshape(2, 60)),
    ("Cast", 5, {"to": "INT32"}, X4.astype(np.int32)),
    ("Split", 1, {"axis": 3, "split": [2, 3]}, X4[..., :2]),
    ("LpPool", 1, {"kernel_shape": [4, 5], "p": 2.0}, np.sqrt((X4**2).sum((2, 3), keepdims=True))),
]


@pytest.mark.parametrize(("op_type", "opset", "attributes", "expected"), EARLY)
def test_early_versions(op_type: str, opset: int, attributes: dict[str, Any], expected: Any):
    outputs = "y z" if op_type == "Split" else "y"
    model, _ = case(op_type, X=X4, opset=opset, outputs=outputs, **attributes)
    close(load_onnx(model)(X4)["y"], expected)


@pytest.mark.parametrize(
    ("op_type", "attributes"), [("Cast", {"to": "NUMBER"}), ("LpPool", {"p": 1.5}), ("Reshape", {})]
)
def test_early_attributes_that_say_nothing_are_refused(op_type: str, attributes: dict[str, Any]):
    field = next(iter(attributes), "shape")
    message = refusal(case(op_type, X=X4, opset=1, **attributes)[0])
    assert f"Node 'y' ({op_type}): expected {field} to be" in message


# What is known at load


def test_nothing_that_is_known_waits_for_run_time():
    """Compute op types that have no operator of DirectML, of initializers."""
    scalars = {"bins": np.array(8), "size": np.array(16), "rate": np.array(8192)}
    scalars |= {"low": floats(0), "high": floats(4096), "s": floats([[0, 2], [3, 0]])}
    text = """g (float[4] x) => (mel, black, hann, hamming, det, places, y) {
        mel = MelWeightMatrix(bins, size, rate, low, high)
        black = BlackmanWindow(size) hann = HannWindow(size) hamming = HammingWindow(size)
        det = Det(m) places = NonZero(s) y = Gather(x, places)
    }"""
    model = parse(text, **scalars, m=RANDOM.randn(2, 3, 3).astype(np.float32))
    results = load_onnx(model)(X)
    expected = ReferenceEvaluator(model).run(None, {"x": X})
    for result, array in zip(results.values(), expected, strict=True):
        close(result, np.asarray(array, result.dtype))


def test_sizes_of_weights_are_numbers():
    network = load_onnx(
        parse("""g (float[4] x) => (places, r, t) <float[2, 2] w = {1, 1, 1, 1}, int64[1] o = {0}> {
            sizes = Shape(w) places = NonZero(sizes) r = Reshape(x, sizes)
            count = Size(w) counts = Unsqueeze(count, o) t = Tile(x, counts)
        }""")
    )
    results = network(X)
    np.testing.assert_array_equal(results["places"], [[0, 1]])
    close(results["r"], X.reshape(2, 2))
    close(results["t"], np.tile(X, 4))
    assert not network.padded
    assert not network.weights


def test_lists_of_any_length_are_known():
    sizes = [1, 2] * 35
    x, names = np.arange(105, dtype=np.float32), [f"y{k}" for k in range(70)]
    outputs = ", ".join(names)
    text = f"""g (float[105] x) => ({outputs}, z) {{
        {outputs} = Split(x, s) q = SplitToSequence(x, s) z = SequenceAt(q, last) }}"""
    results = load_onnx(parse(text, s=np.array(sizes), last=np.array(-1)))(x)
    for name, part in zip(names, np.split(x, np.cumsum(sizes)[:-1]), strict=True):
        close(results[name], part)
    close(results["z"], x[-2:])


@pytest.mark.parametrize(
    ("op_type", "opset", "field", "inputs"),
    [
        ("ReduceSum", 13, "axes", "x s"),
        ("ReduceMax", 18, "axes", "x s"),
        ("Slice", 13, "starts", "x s l"),
        ("Tile", 13, "repeats", "x s"),
        ("Split", 13, "split", "x s"),
        ("Expand", 13, "shape", "x s"),
        ("Reshape", 13, "shape", "x s"),
    ],
)
def test_lists_have_rank_1(op_type: str, opset: int, field: str, inputs: str):
    constants = {"s": np.array(1), "l": np.array([1])}
    kinds = {"x": (np.float32, [4])}
    model = model_of([node(op_type, inputs, "y")], kinds, ["y"], constants, opset)
    rule = f"Node 'y' ({op_type}): expected {field} to have rank 1 (be a list), got rank 0"
    assert rule in refusal(model)


@pytest.mark.parametrize(
    ("boxes", "scores"), [((1, 0, 4), (1, 2, 0)), ((0, 5, 4), (0, 1, 5))], ids=["boxes", "batch"]
)
@pytest.mark.parametrize("more", [{}, {"O": floats([0.5])}], ids=["", "overlap"])
def test_nothing_is_suppressed_among_no_boxes(boxes: Any, scores: Any, more: Any):
    arrays = {"B": np.zeros(boxes, np.float32), "S": np.zeros(scores, np.float32)}
    same_as_runtime(*case("NonMaxSuppression", **arrays, n=np.array([3]), **more), fallback=True)


def test_an_optional_may_hold_an_empty_sequence():
    text = """g (float[2] x) => (bool y, bool z, bool u, int64 n) {
        e = SequenceEmpty() o = Optional(e) y = OptionalHasElement(o)
        nothing = Optional() z = OptionalHasElement(nothing)
        u = OptionalHasElement(e)
        inner = OptionalGetElement(o) n = SequenceLength(inner)
    }"""
    results = load_onnx(parse(text))(floats([1, 2]))
    assert [results[name].item() for name in ("y", "z", "u", "n")] == [True, False, True, 0]
    broken = parse("g (float[2] x) => (y) { o = Optional() y = OptionalGetElement(o) }")
    assert "expected input to hold an element, got none" in refusal(broken)


# Shapes


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,ij->ij", [(1, 3), (2, 3)]),
        ("ij,ij->i", [(2, 1), (2, 3)]),
        ("ij,ij->", [(2, 3), (1, 3)]),
        ("bij,bjk->bik", [(1, 2, 3), (4, 3, 1)]),
        ("ij,jk,ki->ik", [(2, 1), (3, 4), (1, 2)]),
        ("...i,...i->...", [(1, 2, 3), (5, 1, 3)]),
        ("ij,kj", [(1, 3), (2, 3)]),
    ],
)
def test_einsum_broadcasts_sizes_of_1(equation: str, shapes: list[tuple[int, ...]]):
    arrays = {f"x{k}": RANDOM.randn(*s).astype(np.float32) for k, s in enumerate(shapes)}
    model = single("Einsum", arrays, equation=equation)
    close(load_onnx(model)(arrays)["y"], np.einsum(equation, *arrays.values()), 1e-4)


@pytest.mark.parametrize("size", [(1, 1, 2, 2), (1, 3, 3, 4), (2, 1, 3, 4), (1, 1, 2, 3, 4)])
@pytest.mark.parametrize("is_aligned", [0, 1])
def test_affine_grids(size: tuple[int, ...], is_aligned: int):
    """Compare with the formula of the op type: places in [-1, 1], moved by a matrix."""
    rank = len(size) - 2
    theta = RANDOM.randn(size[0], rank, rank + 1).astype(np.float32)
    lines = [
        np.linspace(-1, 1, n) if is_aligned else (2 * np.arange(n) + 1) / n - 1 for n in size[2:]
    ]
    base = np.stack([*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(size[2:])], -1)
    expected = np.einsum("...k,nck->n...c", base, theta.astype(np.float64)).astype(np.float32)
    for dtype, rtol in ((np.float32, 1e-5), (np.float16, 1e-2)):
        arrays = {"T": theta.astype(dtype), "s": np.array(size)}
        model, given = case("AffineGrid", **arrays, opset=20, align_corners=is_aligned)
        result = load_onnx(model)(given)["y"]
        np.testing.assert_allclose(result.astype(np.float32), expected, rtol, rtol)
        assert result.dtype == dtype


def test_dimensions_that_are_terms_of_others():
    inputs = {"a": (np.float32, ["past", 2]), "b": (np.float32, ["past + new", 2])}
    inputs |= {"c": (np.float32, ["2 * new"]), "d": (np.float32, ["some-name"])}
    nodes = [node(op, name, f"{op}{name}") for op, name in (("Neg", n) for n in "abcd")]
    model = model_of(nodes, inputs, [n.output[0] for n in nodes])
    given = {"past": 5, "new": 3, "some-name": 7}
    network = load_onnx(model, free_dimensions=given)
    assert [kind.shape for kind in network.inputs.values()] == [(5, 2), (8, 2), (6,), (7,)]
    network = load_onnx(model, free_dimensions={**given, "past + new": 9})
    assert network.inputs["b"].shape == (9, 2)
    message = refusal(model, free_dimensions={"past": 5, "some-name": 7, "old": 1})
    assert "free_dimensions={'past + new': ...}" in message
    assert "free_dimensions to name a free dimension" in message


@pytest.mark.parametrize(("sizes", "shown"), [(["past:4"], 5), ([], 2), (["past:4", "new:3"], 7)])
def test_the_command_line_computes_dimensions(tmp_path: Path, sizes: list[str], shown: int):
    inputs = {"a": (np.float32, ["past", 2]), "b": (np.float32, ["past + new", 2])}
    model = model_of([node("Neg", "b", "y"), node("Neg", "a", "z")], inputs, ["y", "z"])
    options = [word for size in sizes for word in ("-f", size)]
    result = command("check", saved(model, tmp_path), *options)
    assert f"b FLOAT32[past + new={shown},2]" in result.output


# Defaults: inputs that are initializers too


def with_default(ir: int = 10) -> Any:
    weights = {"w": floats([3, 4]), "index": np.array([1, 0]), "sizes": np.array([2, 1])}
    text = """g (float[2] a, float[2] w, int64[2] index, int64[2] sizes) => (float[2, 1] y) {
        m = Mul(a, w) g = Gather(m, index) y = Reshape(g, sizes) }"""
    model = parse(text, **weights)
    model.ir_version = ir
    return model


def test_a_call_replaces_defaults_by_name():
    model, a = with_default(), floats([1, 2])
    network = load_onnx(model)
    assert [*network.inputs] == ["a"]
    assert [*network.defaults] == ["w", "index", "sizes"]
    for given in (
        {},
        {"w": floats([10, 20])},
        {"index": np.array([0, 0])},
        {"w": floats([5, 6]), "index": np.array([1, 1]), "sizes": np.array([2, 1])},
    ):
        expected = runtime(model, {"a": a, **given})[0]
        close(network({"a": a, **given})["y"], expected)
        close(network(a, **given)["y"], expected)
    close(network(a=a, w=floats([10, 20]))["y"], floats([[40], [10]]))
    applied = network.apply(network.weights, {"a": a, "w": floats([10, 20])})
    close(applied["y"], floats([[40], [10]]))


def test_what_follows_from_weights_follows_the_replaced_default():
    model = parse("""<ir_version: 8, opset_import: ["": 17]>
        g (float[2] a, bool c, float[2] w) => (float[2] y, float[2] z)
        <float[2] w = {1, 2}, float[2] v = {3, 4}> {
            p = Mul(w, v) q = Exp(p) y = Add(a, q)
            z = If (c) <then_branch = t () => (float[2] s) { s = Mul(a, w) },
                        else_branch = e () => (float[2] d) { d = Add(a, w) }>
        }""")
    network, a = load_onnx(model), floats([1, 2])
    for chosen in (True, False):
        for given in ({}, {"w": floats([0.5, 0.25])}, {}):
            feeds = {"a": a, "c": np.array(chosen)} | given
            for found, expected in zip(network(feeds).values(), runtime(model, feeds), strict=True):
                close(found, expected)
    compiled = compile(network.with_inputs(["w"]))
    close(compiled(a, np.array(1, np.uint8).reshape(1), floats([0, 0]))[0], floats([2, 3]))


def test_defaults_that_decided_something_are_named():
    network, a = load_onnx(with_default()), floats([1, 2])
    with pytest.raises(DmlError) as error:
        network(a, sizes=np.array([1, 2]))
    rule = "expected the input 'sizes' to keep its default, which decided something at load"
    cure = "load_onnx(..., constants={'sizes': ...}) or --constant sizes:VALUE"
    assert rule in str(error.value) and cure in str(error.value)
    other = load_onnx(with_default(), constants={"sizes": [1, 2]})
    close(other(a)["y"], floats([[8, 3]]))
    with pytest.raises(DmlError, match=r"'w'.*float32.*2"):
        network(a, w=floats([1, 2, 3]))
    with pytest.raises(DmlError, match="name an input"):
        network(a, v=floats([1, 2]))
    report = network.report()
    assert "2 inputs have defaults that are replaced by name at a call: w, index" in report
    assert "1 inputs have defaults that are replaced at load alone" in report


def test_defaults_are_fixed_below_version_4_of_the_format():
    network, a = load_onnx(with_default(ir=3)), floats([1, 2])
    close(network(a, w=floats([3, 4]))["y"], floats([[8], [3]]))
    with pytest.raises(DmlError, match="'w' to keep its default"):
        network(a, w=floats([1, 1]))


def test_the_command_line_replaces_defaults(tmp_path: Path):
    model = saved(with_default(), tmp_path)
    arrays = {"a": floats([1, 2]), "w": floats([10, 20]), "sizes": np.array([1, 2])}
    files = {name: f"{name}={tmp_path / name}.npy" for name in arrays}
    for name, array in arrays.items():
        np.save(tmp_path / name, array)
    run = ["run", model, "--input", files["a"], "--input"]
    command(*run, files["w"], "--output_path", tmp_path / "o")
    close(np.load(tmp_path / "o/y.npy"), floats([[40], [10]]))
    assert "keep its default" in command(*run, files["sizes"], status=1).output
    shown = command("check", model).output
    assert "Inputs with defaults (--input NAME=FILE): w, index" in shown
    assert "Inputs with fixed defaults (--constant NAME:VALUE): sizes" in shown


# Padded tensors in graphs within nodes


STATE = """g (float[4] x, int64 m, bool c) => (int64[1, N] y, int64[2] s, int64 z) { n = NonZero(x)
    y = Loop (m, c, n) <body = b (int64 i, bool go, int64[1, N] v) => (bool on, int64[1, N] w) {
        on = Identity(go) w = BODY
    }>
    s = Shape(y) z = Size(y)
}"""
BRANCHES = """g (float[4] x, bool c) => (int64[1, N] y, int64[1] s) { n = NonZero(x)
    y = If (c) <then_branch = t () => (int64[1, N] p) { p = Abs(n) },
                else_branch = e () => (int64[1, N] q) { k = Sub(x, x) q = NonZero(k) }>
    s = Shape<start = 1>(y)
}"""


@pytest.mark.parametrize("body", ["Abs(v)", "NonZero(x)"])
@pytest.mark.parametrize("turns", [0, 3, 65])
def test_a_padded_state_keeps_its_count(body: str, turns: int):
    model = parse(STATE.replace("BODY", body))
    feeds = {"x": X, "m": np.array(turns), "c": np.array(True)}
    same_as_runtime(model, feeds, has_types=True)
    same_as_runtime(model, feeds, has_types=True, constants={"m": turns, "c": True})


@pytest.mark.parametrize("condition", [True, False])
def test_a_padded_tensor_keeps_its_count_in_a_branch(condition: bool):
    feeds = {"x": X, "c": np.array(condition)}
    same_as_runtime(parse(BRANCHES), feeds, has_types=True)
    same_as_runtime(parse(BRANCHES), feeds, has_types=True, constants={"c": condition})


SCANNED = STATE.replace("y = Loop", "y, ys = Loop").replace("int64[1, N] w)", "int64[1, N] w, u)")
OTHER = BRANCHES.replace("{ n =", "<int64[1, 4] o = {1, 2, 3, 4}> { n =", 1)
MIXED: dict[str, tuple[str, dict[str, Any]]] = {
    "Loop": (STATE.replace("BODY", "Add(v, n)"), {}),
    "body": (SCANNED.replace("BODY", "Abs(v) u = Abs(w)"), {"constants": {"m": 100, "c": True}}),
    "else_branch": (OTHER.replace("NonZero(k)", "Identity(o)"), {}),
    "Scan": (
        """g (float[4] x, float[3] e) => (int64[1, N] y, float[3] o) { n = NonZero(x)
            y, o = Scan<num_scan_inputs = 1, body = b (int64[1, N] v, float k) => (w, q) {
                w = Abs(v) q = Neg(k)
            }>(n, e)
        }""",
        {},
    ),
}


@pytest.mark.parametrize(("text", "arguments"), MIXED.values(), ids=MIXED)
def test_padding_that_a_graph_would_read_is_refused(text: str, arguments: dict[str, Any]):
    message = refusal(parse(text), **arguments)
    assert "NonZero) decides" in message and "while the network runs" in message


# Masks


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_what_hides_keys_is_a_number_of_the_type(dtype: Any):
    arrays = {"X": RANDOM.randn(2, 3, 8), "W": RANDOM.randn(8, 24), "B": RANDOM.randn(24)}
    given: dict[str, Any] = {name: array.astype(dtype) for name, array in arrays.items()}
    given |= {"M": np.array([[1, 1, 0], [1, 0, 0]], np.int32), "domain": "com.microsoft"}
    lowest = float(np.finfo(np.float32).min)
    model, feeds = case("Attention", **given, num_heads=2, mask_filter_value=lowest)
    result, expected = load_onnx(model)(feeds)["y"], runtime(model, feeds)[0]
    np.testing.assert_allclose(result, expected, rtol=1e-2, atol=1e-2)

"""How ONNX networks are read: files, functions, versions, defaults, and what is known at load."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from build import command, floats, model_of, node, refusal, runtime, single
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper, parser
from onnx.reference import ReferenceEvaluator

from dml_jax import DmlError, compile, load_onnx
from dml_jax.cli import cli

RANDOM = np.random.RandomState(0)
W = np.arange(1, 5, dtype=np.float32)
X = floats([1, 0, 3, 0])


def parsed(text: str, opset: int = 18, functions: str = "") -> Any:
    imports = f'"": {opset}' + (', "l": 1' if functions else "")
    head = f"<ir_version: 10, opset_import: [{imports}]>\n"
    return parser.parse_model(head + text + functions)


def close(result: Any, expected: Any, rtol: float = 1e-5) -> None:
    result, expected = np.asarray(result), np.asarray(expected)
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(result, expected, rtol, 1e-6)


# Files


def external(array: np.ndarray, location: str) -> TensorProto:
    tensor = numpy_helper.from_array(array, "w")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    return tensor


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
    tensor = external(W, location)
    if place in ("function", "constant"):
        body = [helper.make_node("Constant", [], ["w"], value=tensor), node("Add", "x w", "y")]
        function = helper.make_function("l", "f", ["x"], ["y"], body, [helper.make_opsetid("", 18)])
        nodes = [helper.make_node("f", ["x"], ["y"], domain="l")] if place == "function" else body
        functions = [function] * (place == "function")
        inputs = {"x": (np.float32, [4]), "c": (bool, [])}
        return model_of(nodes, inputs, ["y"], functions=functions), np.array(True)
    model = parsed(IN_A_BRANCH if place == "branch" else IN_A_LOOP)
    graph = model.graph.node[0].attribute[0].g
    graph.initializer[0].CopyFrom(tensor)
    return model, np.array(True) if place == "branch" else np.array(1)


@pytest.mark.parametrize("place", ["branch", "loop", "function", "constant"])
def test_external_data_of_every_tensor(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    model, other = _outside_the_list(place, "w.bin")
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    message = refusal(tmp_path / "m.onnx")
    assert "the tensor 'w' cannot be read: " in message
    assert "w.bin" in message
    W.tofile(tmp_path / "w.bin")
    monkeypatch.chdir(tmp_path.parent)
    for path in (tmp_path / "m.onnx", os.path.relpath(tmp_path / "m.onnx")):
        close(load_onnx(path)({"x": X, "c": other})["y"], X + W)
    monkeypatch.chdir(tmp_path)
    close(load_onnx(model)({"x": X, "c": other})["y"], X + W)
    assert model.SerializeToString() == (tmp_path / "m.onnx").read_bytes()


def test_links_of_a_cache_are_followed(tmp_path: Path):
    """Lay files out as the cache of the Hugging Face hub: links in `snapshots`, data in `blobs`."""
    snapshot, blobs = tmp_path / "snapshots/abc/onnx", tmp_path / "blobs"
    for folder in (snapshot, blobs, tmp_path / "elsewhere"):
        folder.mkdir(parents=True)
    model = model_of([node("Add", "x w", "y")], {"x": (np.float32, [4])}, ["y"])
    model.graph.initializer.append(external(W, "w.bin"))
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
    functions = """
    <opset_import: ["": 18], domain: "l"> f (x, lo, hi) => (y) { y = Clip(x, lo, hi) }
    <opset_import: ["": 18, "l": 1], domain: "l"> outer (x, hi) => (y) { y = l.f(x, , hi) }
    <opset_import: ["": 18], domain: "l"> choose (x, o) => (y) {
        has = OptionalHasElement(o)
        y = If (has) <then_branch = t () => (a) { a = Add(x, o) },
                      else_branch = e () => (b) { b = Neg(x) }>
    }"""
    text = f"g (float[3] x) => (float[3] y) <float h = {{0.5}}> {{ {call} }}"
    x = floats([-1, 0, 2])
    close(load_onnx(parsed(text, functions=functions))(x)["y"], floats(expected))


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
    message = refusal(model)
    assert "expected overload to be that of a function of the model ('a', 'b', ''), got 'c'" in (
        message
    )


# Versions


X4 = RANDOM.randn(2, 3, 4, 5).astype(np.float32)
THREE = np.abs(RANDOM.randn(3)).astype(np.float32)
IMAGE = RANDOM.randn(1, 2, 4, 6).astype(np.float32)
GRID = RANDOM.uniform(-1, 1, (1, 3, 3, 2)).astype(np.float32)
BOXES = floats([[0, 0, 3, 3], [1, 1, 2, 3]])
OF_VERSIONS: list[tuple[str, int, list[np.ndarray], int, dict[str, Any]]] = [
    ("Softmax", 11, [X4], 1, {}),
    *((op, 12, [X4], 1, {"axis": -2}) for op in ("LogSoftmax", "Hardmax")),
    ("Softmax", 13, [X4], 1, {}),
    ("BatchNormalization", 12, [X4, THREE, THREE, THREE, THREE], 1, {}),
    ("Dropout", 10, [X4], 2, {}),
    ("GridSample", 16, [IMAGE, GRID], 1, {"mode": "bilinear"}),
    ("LRN", 12, [X4], 1, {"size": 3}),
    ("MaxPool", 10, [IMAGE], 2, {"kernel_shape": [2, 2]}),
    ("RoiAlign", 10, [IMAGE, BOXES, np.array([0, 0])], 1, {"sampling_ratio": 2}),
    ("ArgMax", 11, [X4], 1, {"axis": 1}),
    ("Squeeze", 11, [X4[:, :1]], 1, {"axes": [1]}),
    ("TopK", 10, [X4, np.array([2])], 2, {}),
]


def test_what_is_known_at_load_has_the_meaning_of_its_version():
    """Compute constants of functions, all of an opset in one model."""
    for opset in sorted({case[1] for case in OF_VERSIONS}):
        functions, calls, expected = [], [], {}
        for k, (op_type, version, arrays, count, attributes) in enumerate(OF_VERSIONS):
            if version != opset:
                continue
            names, outputs = [f"x{n}" for n in range(len(arrays))], [f"y{n}" for n in range(count)]
            pairs = dict(zip(names, arrays, strict=True))
            constants = ["x1"] if op_type == "TopK" else []
            made = single(
                op_type, pairs, opset=opset, outputs=" ".join(outputs), constants=constants,
                **attributes,
            )  # fmt: skip
            made.ir_version = 8
            feeds = {n: a for n, a in pairs.items() if n not in constants}
            body = [
                helper.make_node("Constant", [], [n], value=numpy_helper.from_array(a))
                for n, a in pairs.items()
            ]
            imports = [helper.make_opsetid("", opset)]
            function = helper.make_function(
                "l", f"f{k}", [], outputs, [*body, *made.graph.node], imports
            )
            functions.append(function)
            own = [f"{op_type} {k} {y}" for y in outputs]
            calls.append(helper.make_node(f"f{k}", [], own, domain="l"))
            expected |= zip(own, runtime(made, feeds), strict=True)
        model = model_of(calls, {}, [*expected], opset=opset, functions=functions)
        results = load_onnx(model)({})
        for name, array in expected.items():
            close(results[name], array, 1e-4)


def test_early_operands_are_broadcast_along_an_axis():
    """Compute at load, where sizes alone would say another axis."""
    square, line = np.arange(9, dtype=np.float32).reshape(3, 3), floats([1, 2, 4])
    image = -square.reshape(1, 3, 1, 3)
    weights = {"a": square, "b": line, "i": image}
    body = [
        helper.make_node("Constant", [], [n], value=numpy_helper.from_array(w))
        for n, w in weights.items()
    ]
    functions = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Greater": np.greater}
    body += [node(op, "a b", op, broadcast=1, axis=0) for op in functions]
    outputs = [*functions, "PRelu"]
    body.append(node("PRelu", "i b", "PRelu"))
    imports = [helper.make_opsetid("", 6)]
    function = helper.make_function("l", "f", [], outputs, body, imports)
    call = helper.make_node("f", [], outputs, domain="l")
    results = load_onnx(model_of([call], {}, outputs, opset=6, functions=[function]))({})
    for name, compute in functions.items():
        close(results[name], compute(square, line[:, None]))
    close(results["PRelu"], image * line.reshape(1, 3, 1, 1))


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
    model = single(op_type, {"x": X4}, opset=opset, outputs=outputs, **attributes)
    close(load_onnx(model)(X4)["y"], expected)


def test_early_attributes_that_say_nothing_are_refused():
    for op_type, attributes in (
        ("Cast", {"to": "NUMBER"}),
        ("LpPool", {"p": 1.5}),
        ("Reshape", {}),
    ):
        message = refusal(single(op_type, {"x": X4}, opset=1, **attributes))
        field = next(iter(attributes), "shape")
        assert f"Node 'y' ({op_type}): expected {field} to be" in message


# What is known at load


def test_nothing_that_is_known_waits_for_run_time():
    """Compute op types that have no operator of DirectML, of initializers."""
    scalars = {"bins": np.array(8), "length": np.array(16), "rate": np.array(8192)}
    scalars |= {"low": floats(0), "high": floats(4096)}
    square = RANDOM.randn(2, 3, 3).astype(np.float32)
    weights = {**scalars, "m": square, "s": floats([[0, 2], [3, 0]])}
    nodes = [
        node("MelWeightMatrix", " ".join(scalars), "mel"),
        *(node(f"{name}Window", "length", name) for name in ("Blackman", "Hann", "Hamming")),
        node("Det", "m", "det"),
        node("NonZero", "s", "places"),
        node("Gather", "x places", "y"),
    ]
    names = ["mel", "Blackman", "Hann", "Hamming", "det", "places", "y"]
    model = model_of(nodes, {"x": (np.float32, [4])}, names, weights)
    results = load_onnx(model)(X)
    expected = ReferenceEvaluator(model).run(None, {"x": X})
    for name, array in zip(names, expected, strict=True):
        close(results[name], np.asarray(array, results[name].dtype))


def test_sizes_of_weights_are_numbers():
    nodes = [
        node("Shape", "w", "sizes"),
        node("NonZero", "sizes", "places"),
        node("Reshape", "x sizes", "r"),
        node("Size", "w", "count"),
        node("Tile", "x count1", "t"),
        node("Unsqueeze", "count zero", "count1"),
    ]
    weights = {"w": floats(np.ones((2, 2))), "zero": np.array([0])}
    network = load_onnx(model_of(nodes, {"x": (np.float32, [4])}, ["places", "r", "t"], weights))
    results = network(X)
    np.testing.assert_array_equal(results["places"], [[0, 1]])
    close(results["r"], X.reshape(2, 2))
    close(results["t"], np.tile(X, 4))
    assert not network.padded
    assert not network.weights


def test_lists_of_any_length_are_known():
    sizes = [1, 2] * 35
    x, names = np.arange(105, dtype=np.float32), [f"y{k}" for k in range(70)]
    nodes = [
        helper.make_node("Split", ["x", "s"], names),
        node("SplitToSequence", "x s", "q"),
        node("SequenceAt", "q last", "z"),
    ]
    constants = {"s": np.array(sizes), "last": np.array(-1)}
    model = model_of(nodes, {"x": (np.float32, [105])}, [*names, "z"], constants)
    results = load_onnx(model)(x)
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
    model = model_of(
        [node(op_type, inputs, "y")], {"x": (np.float32, [4])}, ["y"], constants, opset
    )
    message = refusal(model)
    assert (
        f"Node 'y' ({op_type}): expected {field} to have rank 1 (be a list), got rank 0" in message
    )


def test_nothing_is_suppressed_among_no_boxes():
    for boxes, scores in (((1, 0, 4), (1, 2, 0)), ((0, 5, 4), (0, 1, 5))):
        arrays = {"b": np.zeros(boxes, np.float32), "s": np.zeros(scores, np.float32)}
        most, overlap = np.array([3]), floats([0.5])
        for extra, constants in (({"n": most}, ["n"]), ({"n": most, "o": overlap}, ["n"])):
            given = {**arrays, **extra}
            model = single("NonMaxSuppression", given, constants=constants)
            network = load_onnx(model, fallback=True)
            feeds = {name: given[name] for name in network.inputs}
            results = network(feeds)
            y = network.without_padding(results)["y"]
            assert y.shape == runtime(model, feeds)[0].shape == (0, 3)


def test_an_optional_may_hold_an_empty_sequence():
    text = """g (float[2] x) => (bool y, bool z, bool u, int64 n) {
        e = SequenceEmpty() o = Optional(e) y = OptionalHasElement(o)
        nothing = Optional <type = float[2]> () z = OptionalHasElement(nothing)
        u = OptionalHasElement(e)
        inner = OptionalGetElement(o) n = SequenceLength(inner)
    }"""
    model = parsed(text.replace("<type = float[2]> ", ""))
    results = load_onnx(model)(floats([1, 2]))
    assert [results[name].item() for name in ("y", "z", "u", "n")] == [True, False, True, 0]
    broken = parsed("g (float[2] x) => (y) { o = Optional() y = OptionalGetElement(o) }")
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
        given = {"t": theta.astype(dtype), "s": np.array(size)}
        model = single("AffineGrid", given, opset=20, constants=["s"], align_corners=is_aligned)
        result = load_onnx(model)({"t": given["t"]})["y"]
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


def test_the_command_line_computes_dimensions(tmp_path: Path):
    inputs = {"a": (np.float32, ["past", 2]), "b": (np.float32, ["past + new", 2])}
    model = model_of([node("Neg", "b", "y"), node("Neg", "a", "z")], inputs, ["y", "z"])
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    for options, shown in (
        (["-f", "past:4"], "5"),
        ([], "2"),
        (["-f", "past:4", "-f", "new:3"], "7"),
    ):
        result = command("check", tmp_path / "m.onnx", *options)
        assert f"b FLOAT32[past + new={shown},2]" in result.output


# Defaults: inputs that are initializers too


def with_default(ir: int = 10) -> Any:
    weights = {"w": floats([3, 4]), "index": np.array([1, 0]), "sizes": np.array([2, 1])}
    nodes = [
        node("Mul", "a w", "m"),
        node("Gather", "m index", "g"),
        node("Reshape", "g sizes", "y"),
    ]
    inputs = {"a": (np.float32, [2])} | {n: (a.dtype, a.shape) for n, a in weights.items()}
    model = model_of(nodes, inputs, ["y"], weights)
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
    model = parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
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
            y, z = runtime(model, feeds)
            found = network(feeds)
            close(found["y"], y)
            close(found["z"], z)
    compiled = compile(network.with_inputs(["w"]))
    close(compiled(a, np.array(1, np.uint8).reshape(1), floats([0, 0]))[0], floats([2, 3]))


def test_defaults_that_decided_something_are_named():
    network, a = load_onnx(with_default()), floats([1, 2])
    with pytest.raises(DmlError) as error:
        network(a, sizes=np.array([1, 2]))
    assert "expected the input 'sizes' to keep its default, which decided something at load" in str(
        error.value
    )
    assert "load_onnx(..., constants={'sizes': ...}) or --constant sizes:VALUE" in str(error.value)
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
    model, file = tmp_path / "m.onnx", tmp_path / "w.npy"
    model.write_bytes(with_default().SerializeToString())
    np.save(file, floats([10, 20]))
    np.save(tmp_path / "a.npy", floats([1, 2]))
    np.save(tmp_path / "sizes.npy", np.array([1, 2]))
    arguments = ["run", str(model), "--input", f"a={tmp_path / 'a.npy'}", "--input"]
    result = command(*arguments, f"w={file}", "--output_path", tmp_path / "o")
    close(np.load(tmp_path / "o/y.npy"), floats([[40], [10]]))
    result = command(*arguments, f"sizes={tmp_path / 'sizes.npy'}", status=1)
    assert "keep its default" in result.output
    shown = CliRunner().invoke(cli, ["check", str(model)]).output
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


def same_as_runtime(model: Any, feeds: dict[str, np.ndarray], **arguments: Any) -> None:
    network = load_onnx(model, **arguments)
    results = network({name: feeds[name] for name in network.inputs})
    for name, expected in zip(
        (o.name for o in model.graph.output), runtime(model, feeds), strict=True
    ):
        close(network.without_padding(results)[name], expected)


@pytest.mark.parametrize("body", ["Add(v, v)", "NonZero(x)"])
@pytest.mark.parametrize("turns", [0, 3, 65])
def test_a_padded_state_keeps_its_count(body: str, turns: int):
    model = parsed(STATE.replace("BODY", body).replace("Add(v, v)", "Abs(v)"))
    feeds = {"x": X, "m": np.array(turns), "c": np.array(True)}
    same_as_runtime(model, feeds)
    same_as_runtime(model, feeds, constants={"m": turns, "c": True})


def test_a_padded_tensor_keeps_its_count_in_a_branch():
    for condition in (True, False):
        feeds = {"x": X, "c": np.array(condition)}
        same_as_runtime(parsed(BRANCHES), feeds)
        same_as_runtime(parsed(BRANCHES), feeds, constants={"c": condition})


def test_padding_that_a_graph_would_read_is_refused():
    scanned = STATE.replace("y = Loop", "y, ys = Loop").replace(
        "int64[1, N] w)", "int64[1, N] w, u)"
    )
    whole = BRANCHES.replace("NonZero(k)", "Identity(o)")
    whole = whole.replace("{ n =", "<int64[1, 4] o = {1, 2, 3, 4}> { n =", 1)
    cases = {
        "Loop": parsed(STATE.replace("BODY", "Add(v, n)")),
        "body": parsed(scanned.replace("BODY", "Abs(v) u = Abs(w)")),
        "else_branch": parsed(whole),
        "Scan": parsed("""g (float[4] x, float[3] e) => (int64[1, N] y, float[3] o) { n = NonZero(x)
            y, o = Scan<num_scan_inputs = 1, body = b (int64[1, N] v, float k) => (w, q) {
                w = Abs(v) q = Neg(k)
            }>(n, e)
        }"""),
    }
    for name, model in cases.items():
        arguments: dict[str, Any] = {}
        if name == "body":
            arguments["constants"] = {"m": 100, "c": True}
        message = refusal(model, **arguments)
        assert "NonZero) decides" in message, (name, message)
        assert "while the network runs" in message


# Masks


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_what_hides_keys_is_a_number_of_the_type(dtype: Any):
    arrays = {"x": RANDOM.randn(2, 3, 8), "w": RANDOM.randn(8, 24), "b": RANDOM.randn(24)}
    given: dict[str, Any] = {name: array.astype(dtype) for name, array in arrays.items()}
    given["m"] = np.array([[1, 1, 0], [1, 0, 0]], np.int32)
    lowest = float(np.finfo(np.float32).min)
    model = single(
        "Attention", given, domain="com.microsoft", num_heads=2, mask_filter_value=lowest
    )
    result, expected = load_onnx(model)(given)["y"], runtime(model, given)[0]
    np.testing.assert_allclose(result, expected, rtol=1e-2, atol=1e-2)

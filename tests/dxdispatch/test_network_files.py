"""Networks and serialized graphs in DxDispatch's models, and on the command line."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from build import command, floats, parse, refusal, saved
from dispatch_models import (
    Json,
    buffer,
    dispatch,
    filled,
    model_file,
    model_of,
    show,
    tensor,
    write,
)
from fuzz.models import CONCAT
from serialized_graphs import Node, Tensor, dense, node_of, serialized

import dml_jax
from dml_jax import OPERATORS, DmlError, OperatorNode, load_model, load_onnx, run_model
from dml_jax.dxdispatch import serialized as reading

W = np.arange(12, dtype=np.float32).reshape(3, 4)
X = np.array([[1, 2, 3], [-1, 0, -4]], np.float32)

LAYER = """g (float[batch,2] x) => (float[batch,2] y, bool[batch,2] big)
<float[2,2] w = {1, 2, 3, -4}, float one = {1}>
{ z = MatMul(x, w)  y = Relu(z)  big = Greater(y, one) }"""


LAYER_W = floats([[1, 2], [3, -4]])


def of_network(folder: Path, text: str, resources: Json, *bindings: Json, **fields: Any) -> Path:
    """Return a model that dispatches a network with each of the bindings."""
    saved(text, folder)
    dispatchables = {"net": {"type": "onnx", "sourcePath": "n.onnx", **fields}}
    commands = (dispatch("net", **b) for b in bindings)
    return model_file(model_of(resources, dispatchables, *commands), folder)


PLACES = """g (float[2,3] x) => (int64[2,k] y, float[2,3] z, bool[2,3] b)
{ y = NonZero(x)  z = Abs(x)  b = IsNaN(x) }"""
PAST = """g (float[past,3] cache, float[2,3] x) => (float[all,3] y, float[past,3] c)
{ y = Concat <axis = 0> (cache, x)  c = Abs(cache) }"""


DEFERRED = {"initialValues": "deferred"}


def model_refusal(path: Path) -> str:
    with pytest.raises(DmlError) as error:
        load_model(path)
    return str(error.value)


# Networks in models


def test_a_network_is_dispatched_with_shapes_of_each_dispatch(tmp_path: Path):
    numbers = [1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]
    resources = {"a": buffer(numbers[0]), "b": buffer(numbers[1]), "c": filled(12)}
    resources["later"] = buffer("deferred")

    def bound(rows: int, output: Json) -> Json:
        inputs = {"x0": {"name": "a", "shape": [rows, 2]}, "x1": {"name": "b", "shape": [rows, 2]}}
        return inputs | {"y": output}

    bindings = bound(3, {"name": "later"}), bound(1, {"name": "c", "shape": [2, 2]})
    found = run_model(load_model(of_network(tmp_path, CONCAT, resources, *bindings)))
    assert found.keys() == resources.keys()
    assert found["later"].reshape(-1).tolist() == [*numbers[0], *numbers[1]]
    assert found["c"].tolist() == [1, 2, 7, 8, *[0] * 8]


def test_bits_of_a_bool_are_bytes(tmp_path: Path):
    resources = {"x": buffer([1, 1]), "y": filled(2), "big": filled(2, 0, "UINT8")}
    bindings = {name: name for name in resources}
    found = run_model(load_model(of_network(tmp_path, LAYER, resources, bindings)))
    assert found["y"].tolist() == [[4, 0]]
    assert found["big"].tolist() == [[1, 0]]


def test_tensors_that_are_bound_to_nothing_have_memory_of_their_own(tmp_path: Path):
    path = of_network(tmp_path, LAYER, {}, {}, {"x": {"shape": [3, 2]}})
    model = load_model(path)
    assert run_model(model) == {}
    (first, second) = model.dispatches
    sizes = {t.path: t.tensor.sizes for t in second.tensors}
    assert sizes == {"x": (3, 2), "y": (3, 2), "big": (3, 2)}
    assert not {t.memory for t in first.tensors} & {t.memory for t in second.tensors}
    done = command("run", path)
    assert done.stderr == ""
    assert done.stdout.count("Dispatch 'net'") == 2
    command("show", path, "-o", tmp_path / "n.svg")


@pytest.mark.parametrize("kind", [None, "INT64", "FLOAT32"])
def test_a_deferred_resource_has_the_tensor_that_a_network_gives(kind: str | None, tmp_path: Path):
    """Its type, its sizes, and as many elements as the data says; also where it has no type."""
    resources = {"x": buffer(X.ravel().tolist()), "y": buffer("deferred", kind)}
    resources |= dict.fromkeys(("z", "b", "count"), DEFERRED)
    bindings = {"x": "x", "y": "y", "z": "z", "b": "b", "y.count": "count"}
    path = of_network(tmp_path, PLACES, resources, bindings)
    expected = {"x": X, "y": np.stack(np.nonzero(X)), "z": np.abs(X), "b": np.isnan(X)}
    found = run_model(load_model(path))
    assert found["count"].tolist() == 5
    for name, wanted in expected.items():
        dtype = np.uint8 if wanted.dtype == bool else wanted.dtype
        assert found[name].dtype == dtype
        np.testing.assert_array_equal(found[name], wanted)
    model = json.loads(path.read_text())
    for name in ("y", "z"):
        files = (write(name, f"{name}.{kind}") for kind in ("npy", "bin"))
        model["commands"] += [show(name), *files]
    flat = write("y", "flat.npy", dimensions=[5, 2])
    model["commands"].append(flat)
    words = ["run", model_file(model, tmp_path), "--output_path", tmp_path]
    done = command(*words)
    assert done.stderr == ""
    for name in ("y", "z"):
        wanted = expected[name]
        shown = ", ".join(f"{v:g}" for v in wanted.ravel())
        assert f"Resource '{name}': {shown}\n" in done.stdout
        np.testing.assert_array_equal(np.load(tmp_path / f"{name}.npy"), wanted)
        assert (tmp_path / f"{name}.bin").read_bytes() == wanted.tobytes()
    assert np.load(tmp_path / "flat.npy").shape == (5, 2)
    flat["dimensions"] = [2, 6]
    model_file(model, tmp_path)
    told = command(*words, status=1).stderr
    assert "dimensions to hold 10 elements, as the network gives, got [2, 6]" in told


def test_a_padded_resource_is_read_by_no_other_network(tmp_path: Path):
    resources = {"x": buffer(X.ravel().tolist()), "y": DEFERRED, "z": DEFERRED}
    path = of_network(tmp_path, PLACES, resources, {"x": "x", "y": "y"})
    saved("g (int64[2,6] a) => (int64[2,6] b) { b = Abs(a) }", tmp_path, "other.onnx")
    model = json.loads(path.read_text())
    model["dispatchables"]["other"] = {"type": "onnx", "sourcePath": "other.onnx"}
    model["commands"].append(dispatch("other", a="y", b="z"))
    message = model_refusal(model_file(model, tmp_path))
    assert "a to have sizes that are known at load ('y' has as many" in message


X_FILE = floats([[0, 1, 2], [3, 4, 5]])


@pytest.mark.parametrize("options", [["-f", "past:0"], ["-b", "cache:0,3"]])
def test_sizes_of_the_command_line_may_be_0(options: list[str], tmp_path: Path):
    """The first step of a decoder, whose past has length 0."""
    path, x = saved(PAST, tmp_path), tmp_path / "x.npy"
    np.save(x, X_FILE)
    done = command("run", path, *options, "--input", f"x={x}", "--output_path", tmp_path)
    assert done.stderr == ""
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), X_FILE)
    assert np.load(tmp_path / "c.npy").shape == (0, 3)
    command("check", path, *options)
    said = command("run", path, *options, "--input", f"cache={x}", status=1).stderr
    assert "name an input with elements" in said
    assert "not NAME:SIZE" in command("run", path, "-f", "past:-1", status=2).stderr


def test_sizes_of_a_model_may_be_0(tmp_path: Path):
    resources = {"x": buffer(X_FILE.ravel().tolist()), "y": filled(6)}
    resources |= {"cache": buffer([7]), "c": DEFERRED}
    bindings = {name: name for name in resources}
    fields = {"freeDimensionNameOverrides": {"past": 0}}
    found = run_model(load_model(of_network(tmp_path, PAST, resources, bindings, **fields)))
    np.testing.assert_array_equal(found["y"], X_FILE)
    assert not found["c"].size
    assert run_model(load_model(of_network(tmp_path, LAYER, {}, {"x": {"shape": [0, 2]}}))) == {}


@pytest.mark.parametrize(
    "fields, options, rows",
    [
        ({}, [], 1),
        ({"freeDimensionNameOverrides": {"batch": 5}}, [], 5),
        ({"freeDimensionNameOverrides": {"batch": 5}}, ["-f", "batch:2"], 2),
        ({"graphOptimizationLevel": 0, "loggingLevel": 4}, ["-b", "x:4,2"], 4),
    ],
)
def test_sizes_of_free_dimensions(fields: Json, options: list[str], rows: int, tmp_path: Path):
    path = of_network(tmp_path, LAYER, {}, {}, **fields)
    assert f"FLOAT32[{rows},2]" in command("check", path, *options).stdout


def test_sizes_are_for_the_networks_that_know_them(tmp_path: Path):
    saved(LAYER, tmp_path)
    saved(CONCAT.replace("float[N,2] x1", "float[M,2] x1"), tmp_path, "c.onnx")
    files = {"layer": "n.onnx", "concat": "c.onnx"}
    networks = {n: {"type": "onnx", "sourcePath": f} for n, f in files.items()}
    path = model_file(model_of({}, networks, *map(dispatch, files)), tmp_path)
    shown = command("check", path, "-f", "batch:3", "-f", "N:4", "-b", "x1:5,2").stdout
    assert "FLOAT32[3,2]" in shown
    assert "FLOAT32[9,2]" in shown


OVERRIDES = "freeDimensionNameOverrides"


@pytest.mark.parametrize(
    ("resources", "bindings", "fields", "message"),
    [
        ({}, {"y": {"shape": [9, 2]}}, {}, "the output 'y' to have shape [1, 2], as its"),
        ({}, {"x": {"shape": [1, 3]}}, {}, "the input 'x' to have size 2 in dimension 1"),
        ({}, {"x": {"shape": [2]}}, {}, "the input 'x' to have 2 dimensions"),
        ({}, {"X": {"shape": [1, 2]}}, {}, "the shape to name an input or an output (did you"),
        ({"y": filled(1)}, {"y": "y"}, {}, "y to be bound to at least 8 bytes"),
        ({}, {"y": "z"}, {}, "y to be bound to a resource of the model, got 'z'"),
        (
            *({}, {}, {OVERRIDES: {"batches": 2}}),
            "free_dimensions to name a free dimension (did you mean 'batch'?)",
        ),
        ({}, {}, {OVERRIDES: {"batch": "2"}}, f"{OVERRIDES}.batch to be an integer"),
        (
            *({}, {}, {"freeDimensionDenotationOverrides": {"D": 2}}),
            "the denotation to be that of a free dimension, got 'D'",
        ),
    ],
)
def test_networks_that_do_not_fit_are_refused(
    resources: Json, bindings: Json, fields: Json, message: str, tmp_path: Path
):
    path = of_network(tmp_path, LAYER, resources, bindings, **fields)
    assert message in model_refusal(path)


def test_a_file_that_is_no_network_is_refused(tmp_path: Path):
    path = of_network(tmp_path, LAYER, {}, {})
    (tmp_path / "n.onnx").write_bytes(b"no network")
    assert "be an ONNX model" in model_refusal(path)
    (tmp_path / "n.onnx").unlink()
    assert "sourcePath 'n.onnx' to exist" in model_refusal(path)


def test_a_shape_alone_binds_no_operator(tmp_path: Path):
    desc = {"InputTensor": tensor([1]), "OutputTensor": tensor([1])}
    operator = {"op": {"type": "ELEMENT_WISE_IDENTITY", "desc": desc}}
    bound = dispatch("op", InputTensor={"shape": [1]}, OutputTensor="r")
    message = model_refusal(model_file(model_of({"r": filled(1)}, operator, bound), tmp_path))
    assert "InputTensor to name a resource of the model, got nothing" in message


@pytest.mark.usefixtures("no_x64")
def test_64_bit_types_are_not_narrowed(tmp_path: Path):
    text = "g (int64[2] i, float[4] d) => (float[2] y) { y = Gather(d, i) }"
    message = model_refusal(of_network(tmp_path, text, {}, {}))
    assert "the input 'i' to have at most 32 bits while 64-bit types are off" in message


# Serialized graphs


def of_graph(folder: Path) -> Path:
    (folder / "g.bin").write_bytes(dense())
    W.tofile(folder / "w.bin")
    resources = {"x": buffer(X.reshape(-1).tolist()), "y": filled(8)}
    net = {"net": {"type": "dmlSerializedGraph", "sourcePath": "g.bin"}}
    return model_file(model_of(resources, net, dispatch("net", x="x", y="y"), show("y")), folder)


def test_a_serialized_graph_is_dispatched(tmp_path: Path):
    path = of_graph(tmp_path)
    found = run_model(load_model(path))
    np.testing.assert_array_equal(found["y"][0, 0], np.maximum(X @ W + 0.5, 0) * 2)
    assert found.keys() == {"x", "y"}
    done = command("run", path)
    assert done.stdout.splitlines()[-1] == "Resource 'y': 65, 77, 89, 101, 0, 0, 0, 0"
    assert "graph of 4 nodes" in command("check", path).stdout


def test_every_operator_is_read_as_it_was():
    """Of all attributes that DirectML has: enumerations, arrays, unions and activations."""
    read = set()
    for name in OPERATORS:
        found = []
        for data_type in ("FLOAT32", "UINT8"):
            try:
                found += OPERATORS[name].typical(1024, data_type)[:2]
            except DmlError:  # the operator does not take the type
                continue
        for operator in found:
            node = node_of(operator)
            ends = (list(filter(None, names)) for names in (node.inputs, node.outputs))
            (made,) = reading.parse(serialized([node], *ends), Path()).graph.nodes
            assert isinstance(made, OperatorNode)
            assert made.operator == operator
            read.add(name)
    assert len(read) > 130


def test_the_file_of_a_constant_is_beside_the_graph(tmp_path: Path):
    path = of_graph(tmp_path)
    (tmp_path / "w.bin").write_bytes(bytes(44))
    assert "w to be bound to at least 48 bytes" in model_refusal(path)
    (tmp_path / "w.bin").write_bytes(b"")
    assert "sourcePath 'w.bin' to hold a positive multiple of 4 bytes" in model_refusal(path)
    (tmp_path / "w.bin").unlink()
    message = "Constant 'w': expected its data to lie in 'w.bin' beside the graph"
    assert message in model_refusal(path)


@pytest.mark.parametrize("name", ["../w", "/w", "a\\w", "..", "onnx::w"])
def test_a_constant_does_not_lead_out_of_its_folder(name: str, tmp_path: Path):
    """A name of a network may have characters that names of files have not."""
    nodes = [Node("file", [], ["e"], file=name), identity("n", "e", "y", 3, 4)]
    data = serialized(nodes, [], ["y"])
    W.tofile(tmp_path / "w.bin")
    inside = tmp_path / "in"
    inside.mkdir()
    with pytest.raises(DmlError):
        reading.parse(data, inside)
    plain = "".join("_" if c in "/\\:" else c for c in name)
    W.tofile(inside / f"{plain}.bin")
    assert reading.parse(data, inside).files == {name: inside / f"{plain}.bin"}


RELU = "DML_OPERATOR_ACTIVATION_RELU"


def identity(name: str, source: str, target: str, *sizes: int) -> Node:
    tensor = Tensor(sizes or [1])
    return Node(name, [source], [target], "ELEMENT_WISE_IDENTITY", [tensor], [tensor])


DEEP = (*("FusedActivation", "Activation"), (RELU, [("FusedActivation", "Activation", (RELU, []))]))


ONE = identity("a", "x", "y")
BROKEN: Mapping[str, tuple[list[Node], str]] = {
    "cycle": ([identity("a", "y", "z"), identity("b", "z", "y")], "cycle"),
    "source": ([identity("a", "q", "y")], "be a graph input, or an output of a node, got 'q'"),
    "output": ([identity("a", "x", "z")], "the graph output to be an output of a node, got 'y'"),
    "operator": ([ONE._replace(operator="FOO")], "Node 0 'a'"),
    "tensor": ([ONE._replace(input_tensors=[])], "InputTensor to have a tensor"),
    "size": ([identity("a", "x", "y", 0)], "Sizes[0] to be in [1,"),
    "attribute": (
        [ONE._replace(attributes=[("Foo", "UInt32", 1)])],
        "Foo to be a field of DML_OPERATOR_ELEMENT_WISE_IDENTITY",
    ),
    "deep": (
        [
            ONE._replace(
                inputs=["x", "x"],
                operator="ELEMENT_WISE_ADD1",
                input_tensors=[Tensor([1])] * 2,
                attributes=[DEEP],
            )
        ],
        "an attribute of kind 1",
    ),
    "constant": ([Node("c", [], ["x"], raw=b"ab"), ONE], "at least 4 bytes"),
    "kind": ([Node("c", ["x"], ["y"], raw=b"")], "be an output of a node"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_graphs_that_are_none_are_refused(case: str):
    nodes, message = BROKEN[case]
    inputs = [] if case == "constant" else ["x"]
    with pytest.raises(DmlError) as error:
        reading.parse(serialized(nodes, inputs, ["y"]), Path())
    assert message in str(error.value)


def test_a_short_file_does_not_stand_for_a_long_one():
    """Thousands of offsets to one table of thousands of offsets to one name."""
    count = 1 << 14
    data = bytearray(dense())
    many = len(data)
    for _ in range(2):
        data += count.to_bytes(4, "little") + bytes(4 * count)
    # The root table's nodes are all at one place, which is no table.
    data[many : many + 4] = count.to_bytes(4, "little")
    root = int.from_bytes(data[:4], "little")
    place = root + int.from_bytes(
        data[root - int.from_bytes(data[root : root + 4], "little", signed=True) + 4 :][:2],
        "little",
    )
    data[place : place + 4] = (many - place).to_bytes(4, "little")
    with pytest.raises(DmlError, match="a serialized graph"):
        reading.parse(bytes(data), Path())


# The command line


def test_a_network_runs_by_itself(tmp_path: Path):
    path = saved(LAYER, tmp_path)
    x = floats([[1, 1], [2, 0], [0, 1]])
    np.save(tmp_path / "x.npy", x)
    done = command(
        *("run", path, "-f", "batch:3", "--input", f"x={tmp_path / 'x.npy'}", "-i", 3),
        *("--output_path", tmp_path / "out", "-v", 1),
    )
    assert done.stderr == ""
    assert "Initialize 'n.onnx':" in done.stdout
    assert "run" in done.stdout.splitlines()[-1]
    y = np.maximum(x @ LAYER_W, 0)
    assert "  4, 0, 2, 4, ...\n" in done.stdout
    assert f"Output 'y' written to '{tmp_path / 'out/y.npy'}'\n" in done.stdout
    np.testing.assert_array_equal(np.load(tmp_path / "out/y.npy"), y)
    np.testing.assert_array_equal(np.load(tmp_path / "out/big.npy"), (y > 1).view(np.uint8))
    x.tofile(tmp_path / "x.bin")
    done = command("run", path, "-b", "x:3,2", "--input", f"x={tmp_path / 'x.bin'}", "--json")
    told = json.loads(done.stdout)
    assert told["outputs"] == {"y": ["float32", [3, 2]], "big": ["uint8", [3, 2]]}
    assert told["values"] == {"y": y.tolist(), "big": (y > 1).astype(int).tolist()}
    assert "(values: --output_path FOLDER)" in command("run", path).stdout
    assert told.keys() > {"load_ms", "compile_ms", "run_ms", "dispatches", "device"}
    assert "HloModule" in command("run", path, "--hlo").stdout


@pytest.mark.parametrize(
    ("name", "file", "message"),
    [
        ("x", "x.bin", "'{}' to hold FLOAT32[1,2], 8 bytes, got 4 bytes"),
        ("x", "xs.bin", "'{}' to hold FLOAT32[1,2] (batch is 1: -f batch:3), 8 bytes, got 24"),
        ("x", "i.npy", "'{}' holds INT32, the network wants FLOAT32 (np.save(f, a.astype('float3"),
        ("x", "t.npy", "'{}' to hold FLOAT32[2,2], got FLOAT32[2,1]"),
        ("x", "none.bin", "sourcePath '{}' to be a readable .bin file, got No such file"),
        ("X", "x.bin", "--input to name an input (did you mean 'x'?)"),
        ("image", "x.bin", "--input to name an input (x), got 'image'"),
    ],
)
def test_inputs_of_files_are_checked(
    name: str, file: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    for count in (1, 6):
        Path("x.bin" if count == 1 else "xs.bin").write_bytes(bytes(4 * count))
    np.save("i.npy", np.zeros((1, 2), np.int32))
    np.save("t.npy", np.zeros((2, 1), np.float32))
    words = ["run", saved(LAYER, tmp_path), "--input", f"{name}={file}"]
    assert message.format(file) in command(*words, status=1).stderr


def test_an_input_of_a_file_may_be_flat(tmp_path: Path):
    np.save(tmp_path / "flat.npy", np.zeros(2, np.float32))
    path = saved(LAYER, tmp_path)
    command("run", path, "--input", f"x={tmp_path / 'flat.npy'}")
    command("run", path, "--input", "x", status=2)
    model = of_network(tmp_path, LAYER, {}, {})
    said = command("run", model, "--input", "x=x.bin", status=1).stderr
    assert "expected --input to name one of the model's resources, got 'x'" in said


def test_an_input_of_booleans(tmp_path: Path):
    """Booleans are taken as they are; INT64 takes neither them nor INT32."""
    text = "g (bool[3] b, int64[3] i) => (bool[3] y, int64[3] z) { y = Not(b)  z = Neg(i) }"
    path = saved(text, tmp_path)
    np.save(tmp_path / "b.npy", np.array([True, False, True]))
    np.save(tmp_path / "i.npy", np.array([1, 2, 3], np.int32))
    done = command("run", path, "--input", f"b={tmp_path / 'b.npy'}", "--json")
    assert json.loads(done.stdout)["values"]["y"] == [0, 1, 0]
    for name in ("b", "i"):
        said = command("run", path, "--input", f"i={tmp_path / name}.npy", status=1).stderr
        assert "the network wants INT64 (np.save(f, a.astype('int64')))" in said


def test_sizes_by_denotation(tmp_path: Path):
    model = parse(LAYER)
    model.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    path = saved(model, tmp_path)
    for options, rows in (
        (["-F", "DATA_BATCH:7"], 7),
        (["-F", "DATA_BATCH:7", "-f", "batch:2"], 7),
        (["--onnx_free_dim_denotation_override", "DATA_BATCH:3"], 3),
    ):
        assert f"x FLOAT32[batch={rows},2] ->" in command("check", path, *options).stdout
    said = command("check", path, "-F", "DATA_BATCHES:7", status=1).stderr
    assert "did you mean 'DATA_BATCH'?" in said
    command("run", path, "-F", "DATA_BATCH", status=2)
    command("run", path, "-b", "x:2,a", status=2)


def test_inputs_that_are_constants(tmp_path: Path):
    text = """g (float[2] x, int64[2] sizes, float k) => (float[?,?] y)
        { z = Mul (x, k)  y = Expand (z, sizes) }"""
    np.save(tmp_path / "x.npy", floats([1, -2]))
    words = ["run", saved(text, tmp_path), "--input", f"x={tmp_path / 'x.npy'}", "--json"]
    done = command(*words, "--constant", "sizes:3,2", "--constant", "k:1.5")
    assert json.loads(done.stdout)["values"] == {"y": [[1.5, -3.0]] * 3}
    command(*words, "--constant", "k:a", status=2)
    said = command(*words, "--constant", "K:2", status=1).stdout
    assert "expected constants to name an input (did you mean 'k'?), got 'K'" in said


def test_a_check_says_what_a_network_takes(tmp_path: Path):
    path = saved(LAYER, tmp_path)
    told = json.loads(command("check", path, "-f", "batch:4", "--json").stdout)
    assert told["operators"]["GEMM"] == told["operators"]["ACTIVATION_RELU"] == 1
    between = "tensors between nodes at most"
    memory = {"weights": 20, "inputs": 32, "outputs": 32 + 8, between: 2 * 32}
    assert told["memory"] == memory
    assert told["flops"] >= 2 * 4 * 2 * 2  # a product of 4 x 2 and 2 x 2
    shown = command("check", path).stdout
    assert "Operator" in shown and "Bytes: 20 of weights" in shown


def test_a_program_of_a_network_calls_its_graph(tmp_path: Path):
    """The comments are Python that runs."""
    text = command("show", saved(LAYER, tmp_path), "--python", "-f", "batch:2").stdout
    lines = [line[2:] for line in text.splitlines() if line.startswith("# ")]
    x = floats([[1, 1], [2, 0]])
    names: Json = {"dml_jax": dml_jax, "inputs": {"x": x}}
    code = [*lines[1:-1], f"results = {lines[-1]}"]
    exec("\n".join([text, *code]), names)
    np.testing.assert_array_equal(names["results"][0], np.maximum(x @ LAYER_W, 0))


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_model_with_a_network_is_no_program(options: list[str], tmp_path: Path):
    text, resources = "g (float[2] x) => (float[2] y) { y = Relu(x) }", {"r": filled(2)}
    path = of_network(tmp_path, text, {**resources, "r2": filled(2)}, {"x": "r", "y": "r2"})
    said = command("show", path, "--python", *options, status=1).output
    assert "operators and graphs alone, to become a program" in said


def test_two_sizes_of_one_dimension_are_refused(tmp_path: Path):
    path = saved(LAYER, tmp_path)
    message = "the input 'x' to have size 8 in dimension 0, as free_dimensions (-f) says of 'batch'"
    said = command("run", path, "-f", "batch:8", "-b", "x:4,2", status=1).stderr
    assert f"expected {message}, got [4, 2] of input_shapes (-b)\n" == said
    sizes = {"free_dimensions": {"batch": 8}}
    assert message in refusal(path, input_shapes={"x": [4, 2]}, **sizes)
    assert load_onnx(path, {"x": [8, 2]}, **sizes).inputs["x"].shape == (8, 2)


@pytest.mark.parametrize("verb", ["run", "check", "show"])
def test_what_is_no_model(verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A folder's own name is no suggestion; a program has a command of its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.onnx").mkdir()
    (tmp_path / "p.py").write_text("import pydirectml\n")
    (tmp_path / "o.py").write_text("import onnxruntime as ort\n")
    cures = {
        "d.onnx": "'d.onnx' is a folder: dml-jax check d.onnx\n",
        "p.py": "'p.py' is a program: python -m dml_jax.pydirectml p.py\n",
        "o.py": "'o.py' is a program: python -m dml_jax.onnxruntime o.py\n",
    }
    cures |= {".": "'.' is a folder: dml-jax check .\n"} if verb == "show" else {}
    for name, cure in cures.items() if verb != "check" else ():
        assert command(verb, name, status=1).stderr == cure
    (tmp_path / "empty.onnx").touch()
    said = command(verb, "empty.onnx", status=1).stderr
    assert "be an ONNX model, got an empty file" in said


def test_bindings_of_a_faulty_operator_are_checked(tmp_path: Path):
    own = {
        "type": "DML_OPERATOR_ACTIVATION_RELUU",
        "desc": {},
        "bindings": {"InputTensor": "bufer"},
    }
    value = model_of({"buffer": filled(1)}, {"op": own}, dispatch("op", OutputTensor="Buffr"))
    first, second, third = model_refusal(model_file(value, tmp_path)).splitlines()
    assert "RELUU" in first
    hint = "be bound to a resource of the model (did you mean 'buffer'?)"
    assert second.endswith(f"Dispatchable 'op': expected InputTensor to {hint}, got 'bufer'")
    assert third.endswith(f"Command 0: expected OutputTensor to {hint}, got 'Buffr'")


def test_arguments_of_a_network_have_names(tmp_path: Path):
    net = load_onnx(saved(LAYER, tmp_path), {"x": [1, 2]})
    x = np.ones((1, 2), np.float32)
    message = r"expected inputs to be a dict, \{'x': array\}, got float32"
    with pytest.raises(DmlError, match=message):
        net.apply(net.weights, x)
    with pytest.raises(DmlError, match=r"expected weights to be a dict, \{'w': array\}"):
        net.apply([], {"x": x})
    np.savez(tmp_path / "w.npz", **net.weights)
    result = net.apply(np.load(tmp_path / "w.npz"), {"x": x})["y"]
    np.testing.assert_array_equal(result, net(x)["y"])

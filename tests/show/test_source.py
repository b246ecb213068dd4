"""Models, graphs and networks as Python programs, which are run and do the same.

`test_random_graphs.py` has programs of random graphs of all operators.
"""

import json
import re
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import dml_jax as dml
from dml_jax import Graph, GraphBuilder, OperatorNode, Tile, load_model, run_model
from dml_jax.cli import cli
from dml_jax.graph import OutputEdge
from dml_jax.show.source import program

T = dml.TensorDesc
ROOT = Path(__file__).parents[2]
MODELS = sorted((ROOT / "examples" / "models").glob("*.json"))


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)


def printed(*words: Any) -> str:
    result = CliRunner().invoke(cli, ["show", *map(str, words), "--python"])
    assert result.exit_code == 0, result.output
    return result.stdout


def ran(text: str) -> dict[str, Any]:
    assert all(len(line) <= 100 for line in text.splitlines() if "Path(" not in line)
    made: dict[str, Any] = {}
    exec(text, made)
    return made


def assert_does_the_same(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Compare the buffers, the files and the printed numbers."""
    made = ran(printed(path))
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    files = {p.name: p.read_bytes() for p in Path("out").glob("*")}
    model = load_model(path)
    right = run_model(model, output_folder="right")
    assert files == {p.name: p.read_bytes() for p in Path("right/out").glob("*")}
    for name, values in right.items():
        buffer = np.asarray(made[name].array).reshape(-1).view(np.uint8)
        np.testing.assert_array_equal(buffer[: values.nbytes], values.reshape(-1).view(np.uint8))
    prints = [c["resource"] for c in read(path)["commands"] if c["type"] == "print"]
    assert [name for name, *_ in shown] == prints
    for name, *numbers in shown:
        np.testing.assert_array_equal(
            np.array(numbers, float), right[name].ravel()[: len(numbers)].astype(float)
        )


def read(path: Path) -> Any:
    return json.loads(re.sub(r"(?m)^//.*$", "", path.read_text()))


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_programs_of_models(path: Path, capsys: pytest.CaptureFixture[str]):
    assert_does_the_same(path, capsys)


def test_parts_of_buffers_and_all_kinds_of_values(capsys: pytest.CaptureFixture[str]):
    """Offsets, padding, files, sequences, mixed lists, and graphs as dispatchables."""
    builder = GraphBuilder()
    x = builder.input_tensor("x", T("INT16", [1, 1, 1, 3]))
    builder.build({"y": dml.identity(x) + 1}).save("graph.json")
    np.save("two.npy", np.array([[7, -8]], np.int8))
    np.arange(4, dtype=np.float32).tofile("raw.bin")

    def tensor(kind: str, count: int) -> dict[str, Any]:
        return {"DataType": kind, "Sizes": [1, 1, 1, count]}

    def identity(kind: str, count: int) -> dict[str, Any]:
        desc = dict.fromkeys(("InputTensor", "OutputTensor"), tensor(kind, count))
        return {"type": "DML_OPERATOR_ELEMENT_WISE_IDENTITY", "desc": desc}

    def numbers(kind: str, values: Any, **more: Any) -> dict[str, Any]:
        return {"initialValuesDataType": kind, "initialValues": values, **more}

    def dispatch(name: str, **bindings: Any) -> dict[str, Any]:
        return {"type": "dispatch", "dispatchable": name, "bindings": bindings}

    sequence = {"valueCount": 5, "valueStart": 250, "valueDelta": 3}
    mixed = [{"type": "FLOAT32", "value": 2.5}, {"type": "INT8", "value": -3}]
    model = {
        "resources": {
            "class": numbers("INT16", [1, -2, 3], sizeInBytes=56, initialValuesOffsetInBytes=16),
            "steps": numbers("UINT8", sequence),
            "raw": numbers("FLOAT32", {"sourcePath": "raw.bin"}),
            "two": {"initialValues": {"sourcePath": "two.npy"}},
            "mixed": {"initialValues": mixed},
            "nothing": numbers("FLOAT32", ["nan", "-inf", -0.0, 1e-3]),
            "later": numbers("FLOAT32", "deferred"),
            "wide": numbers("INT64", [2**40] * 20),
        },
        "dispatchables": {
            "plus": {"type": "graph", "sourcePath": "graph.json"},
            "copy": identity("FLOAT32", 4),
            "first": identity("INT64", 1),
        },
        "commands": [
            dispatch(
                "plus",
                x={"name": "class", "elementOffset": 8},
                y={"name": "class", "elementOffset": 16},
            ),
            dispatch("copy", InputTensor="raw", OutputTensor="later"),
            dispatch("copy", InputTensor="later", OutputTensor="nothing"),
            dispatch("copy", InputTensor="raw", OutputTensor="later"),
            dispatch(
                "first", InputTensor={"name": "wide", "elementOffset": 4}, OutputTensor="wide"
            ),
            {"type": "print", "resource": "steps"},
            {"type": "print", "resource": "two"},
            {"type": "writeFile", "resource": "class", "targetPath": "out/c.npy"},
            {"type": "writeFile", "resource": "mixed", "targetPath": "out\\m.bin"},
        ],
    }
    Path("model.json").write_text(json.dumps(model))
    path = Path("model.json")
    text = printed(path)
    assert "class_1 = Buffer(padded(" in text
    Path("renamed.json").write_text(json.dumps(model).replace('"class"', '"words"'))
    assert_does_the_same(Path("renamed.json"), capsys)
    assert path.exists()


def test_what_graphs_have_beside_operators():
    """Reinterpreted inputs, edges and outputs; constants of all kinds; names that are no words."""
    builder = GraphBuilder(dml.TensorPolicy.INTERLEAVED_CHANNEL)
    x = builder.input_tensor("the image / 2", T("FLOAT32", [1, 2, 2, 3]))
    y = builder.input_tensor("lambda", T("FLOAT32", [1, 2, 2, 3], [12, 1, 6, 2]))
    repeats = Tile.infer(input_tensor=T("FLOAT32", [1, 2, 2, 3]), repeats=[1, 1, 1, 2])
    tiled = builder.apply(repeats, x, name='a "quoted" name')
    total = dml.add(
        dml.clip(x.reinterpret([1, 2, 3, 2]), -1, 1), dml.add(y, 1).reinterpret([1, 2, 3, 2])
    )
    few = builder.constant(np.array([np.nan, -0.0], np.float32), "not a number")
    many = builder.constant(np.random.default_rng(0).normal(size=(40, 8)).astype(np.float16))
    small = builder.constant(np.arange(-8, 8).astype("int4"))
    scale = builder.constant(np.ones(1, np.float32))
    graph = builder.build(
        {
            "bits": dml.identity(total).reinterpret([12], data_type="UINT32"),
            "tiled": tiled,
            "few": dml.identity(few),
            "many": dml.abs(many),
            "small": dml.dequantize(small, [scale], "SCALE"),
            "top": dml.top_k(total, 3, 2, "INCREASING").index,
        }
    )
    made = ran(program(graph))["graph"]
    assert made == graph
    assert "dml.identity(not_a_number)" in program(graph)


def test_nodes_in_any_order():
    """A node may stand before those that it reads; the program computes the same."""
    builder = GraphBuilder()
    x = builder.input_tensor("x", T("FLOAT32", [4]))
    graph = builder.build(dml.exp(dml.negate(x)))
    turned = Graph.from_json(
        {
            **graph.to_json(),
            "Nodes": graph.to_json()["Nodes"][::-1],
            "InputEdges": [{**graph.to_json()["InputEdges"][0], "ToNodeIndex": 1}],
            "IntermediateEdges": [
                {**graph.to_json()["IntermediateEdges"][0], "FromNodeIndex": 1, "ToNodeIndex": 0}
            ],
            "OutputEdges": [OutputEdge(0, 0, 0).to_json()],
        }
    )
    assert isinstance(turned.nodes[0], OperatorNode)
    values = jnp.arange(4, dtype=jnp.float32)
    made = ran(program(turned))["graph"]
    np.testing.assert_array_equal(made(values), turned(values))
    np.testing.assert_allclose(made(values), np.exp(-np.arange(4)), rtol=1e-6)


def test_networks():
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["": 18]>
        layer (float[batch, 2] x) => (float[batch, 2] y)
        <float[2, 2] w = {1, 2, 3, -4}>
        { z = MatMul(x, w)  y = Relu(z) }
    """)
    onnx.save(model, "n.onnx")
    made = ran(printed("n.onnx", "-f", "batch:3"))["graph"]
    assert made == dml.load_onnx("n.onnx", free_dimensions={"batch": 3}).graph
    identity = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["": 18]> layer (float[2] x) => (float[2] y)
        { y = Identity(x) }
    """)
    onnx.save(identity, "i.onnx")
    assert ran(printed("i.onnx"))["graph"] == dml.load_onnx("i.onnx").graph


def test_as_json_and_with_a_picture():
    path = MODELS[0]
    words = ["show", str(path), "--python", "--json"]
    value = json.loads(CliRunner().invoke(cli, words).stdout)
    assert value == {"python": printed(path)}
    assert printed(path, "-o", "m.svg") == printed(path)
    assert Path("m.svg").exists()

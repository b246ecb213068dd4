"""Models, graphs and networks as Python programs, which are run and do the same.

`test_random_graphs.py` has programs of random graphs of all operators.
"""

import json
import re
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from build import command, saved
from dispatch_models import Json, buffer, dispatch, model_file, model_of, show, tensor, write

import dml_jax as dml
from dml_jax import Graph, GraphBuilder, OperatorNode, Tile, load_model, run_model
from dml_jax.graph import OutputEdge
from dml_jax.show.source import program

T = dml.TensorDesc
ROOT = Path(__file__).parents[2]
MODELS = sorted((ROOT / "examples" / "models").glob("*.json"))


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)


def printed(*words: Any) -> str:
    return command("show", *words, "--python").stdout


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

    def identity(kind: str, count: int) -> Json:
        desc = dict.fromkeys(("InputTensor", "OutputTensor"), tensor([1, 1, 1, count], kind))
        return {"type": "DML_OPERATOR_ELEMENT_WISE_IDENTITY", "desc": desc}

    def part(name: str, offset: int) -> Json:
        return {"name": name, "elementOffset": offset}

    sequence = {"valueCount": 5, "valueStart": 250, "valueDelta": 3}
    mixed = [{"type": "FLOAT32", "value": 2.5}, {"type": "INT8", "value": -3}]
    padding = {"sizeInBytes": 56, "initialValuesOffsetInBytes": 16}
    copy = dispatch("copy", InputTensor="raw", OutputTensor="later")
    model = model_of(
        {
            "class": buffer([1, -2, 3], "INT16", **padding),
            "steps": buffer(sequence, "UINT8"),
            "raw": buffer({"sourcePath": "raw.bin"}),
            "two": buffer({"sourcePath": "two.npy"}, None),
            "mixed": buffer(mixed, None),
            "nothing": buffer(["nan", "-inf", -0.0, 1e-3]),
            "later": buffer("deferred"),
            "wide": buffer([2**40] * 20, "INT64"),
        },
        {
            "plus": {"type": "graph", "sourcePath": "graph.json"},
            "copy": identity("FLOAT32", 4),
            "first": identity("INT64", 1),
        },
        dispatch("plus", x=part("class", 8), y=part("class", 16)),
        copy,
        dispatch("copy", InputTensor="later", OutputTensor="nothing"),
        copy,
        dispatch("first", InputTensor=part("wide", 4), OutputTensor="wide"),
        show("steps"),
        show("two"),
        write("class", "out/c.npy"),
        write("mixed", "out\\m.bin"),
    )
    path = model_file(model, Path())
    assert "class_1 = Buffer(padded(" in printed(path)
    path.write_text(path.read_text().replace('"class"', '"words"'))
    assert_does_the_same(path, capsys)


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
    value = builder.build(dml.exp(dml.negate(x))).to_json()
    value["Nodes"].reverse()
    value["InputEdges"][0]["ToNodeIndex"] = 1
    value["IntermediateEdges"][0] |= {"FromNodeIndex": 1, "ToNodeIndex": 0}
    value["OutputEdges"] = [OutputEdge(0, 0, 0).to_json()]
    turned = Graph.from_json(value)
    assert isinstance(turned.nodes[0], OperatorNode)
    values = jnp.arange(4, dtype=jnp.float32)
    made = ran(program(turned))["graph"]
    np.testing.assert_array_equal(made(values), turned(values))
    np.testing.assert_allclose(made(values), np.exp(-np.arange(4)), rtol=1e-6)


def test_networks():
    path = saved(
        """layer (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] w = {1, 2, 3, -4}>
        { z = MatMul(x, w)  y = Relu(z) }""",
        Path(),
    )
    made = ran(printed(path, "-f", "batch:3"))["graph"]
    assert made == dml.load_onnx(path, free_dimensions={"batch": 3}).graph
    path = saved("layer (float[2] x) => (float[2] y) { y = Identity(x) }", Path())
    assert ran(printed(path))["graph"] == dml.load_onnx(path).graph


def test_as_json_and_with_a_picture():
    path = MODELS[0]
    value = json.loads(command("show", path, "--python", "--json").stdout)
    assert value == {"python": printed(path)}
    assert printed(path, "-o", "m.svg") == printed(path)
    assert Path("m.svg").exists()

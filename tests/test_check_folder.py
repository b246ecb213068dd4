"""`dml-jax check` of a folder: one table of models, graphs, networks and PyDirectML programs."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import dml_jax as dml
from dml_jax.cli import cli

ROOT = Path(__file__).parent.parent
PROGRAM = """
import pydirectml as p
from pydirectml import TensorDesc as T, TensorDataType
device = p.Device(True, True)
builder = p.GraphBuilder(device)
x = p.input_tensor(builder, 0, T(TensorDataType.FLOAT32, [1, 1, 2, 2]))
y = p.add(p.gemm(x, x), x)
z = p.join([y, y], axis=3)
print(builder.build(p.ExecutionFlags.NONE, [z]), p.FORWARD, *[p.add(*[x, y])])
"""
FAULTY = """
import dml_jax.pydirectml, numpy as np
from pydirectml import TensorDesk
dml_jax.pydirectml.reinterpet(1, 2)
x = dml_jax.pydirectml.TensorDataType.FLOAT322
dml_jax.pydirectml.gemm(1, 2, alfa=1)
dml_jax.pydirectml.join([x])
dml_jax.pydirectml.np.zeros(3)
np.nothing.of.ours
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file of each kind that runs, and of each that does not."""
    source = ROOT / "examples" / "models" / "pixel_shuffle.json"
    text = source.read_text().replace("../images", (ROOT / "examples" / "images").as_posix())
    (tmp_path / "shuffle.json").write_text(text)
    (tmp_path / "broken.json").write_text(text.replace('"BlockSize": 2', '"BlockSize": 3'))
    (tmp_path / "other.json").write_text('{"version": 3}')
    (tmp_path / "no.json").write_text("{")
    (tmp_path / "deep").mkdir()
    builder = dml.GraphBuilder()
    x = builder.input_tensor("x", dml.TensorDesc("FLOAT32", [2, 3, 4, 5, 6]))
    builder.build(dml.activation_gelu(x)).save(tmp_path / "deep" / "graph.json")
    (tmp_path / "deep" / "program.py").write_text(PROGRAM)
    (tmp_path / "faulty.py").write_text(FAULTY)
    (tmp_path / "syntax.py").write_text("import pydirectml\nx = (\n")
    (tmp_path / "plain.py").write_text("import numpy\nnumpy.nothing(")
    return tmp_path


def invoke(*words: Any) -> Result:
    return CliRunner().invoke(cli, ["check", *map(str, words)])


def files(*words: Any) -> dict[str, dict[str, Any]]:
    value = json.loads(invoke(*words, "--json").stdout)
    return {file["file"]: file for file in value["files"]}


def test_the_table(folder: Path):
    """The levels are those of the documentation: GELU's is 5_1, ADD1's is 2_0."""
    found = files(folder)
    runs = {name: file["feature_level"] for name, file in found.items() if file["runs"]}
    assert runs == {"shuffle.json": "2_1", "deep/graph.json": "5_1", "deep/program.py": "2_0"}
    assert {name: f["kind"] for name, f in found.items() if not f["runs"]} == {
        "broken.json": "model",
        "no.json": "model",
        "faulty.py": "program",
        "syntax.py": "program",
    }
    shown = invoke(folder)
    assert shown.exit_code == 1
    for name, file in found.items():
        assert name in shown.stdout
        assert bool(file["faults"]) != file["runs"]
    assert f"{folder}: 3 of 7 files run." in shown.stdout
    assert "plain.py" not in shown.stdout and "other.json" not in shown.stdout


def test_what_a_program_says(folder: Path):
    found = files(folder)
    assert [fault["message"] for fault in found["faulty.py"]["faults"]] == [
        "expected line 3 to be in dml_jax.pydirectml (did you mean 'TensorDesc'?), "
        "got 'TensorDesk'",
        "expected line 4 to be in dml_jax.pydirectml (did you mean 'reinterpret'?), "
        "got 'reinterpet'",
        "expected line 5 to be in dml_jax.pydirectml (did you mean 'FLOAT32'?), "
        "got 'TensorDataType.FLOAT322'",
        "expected the call in line 6 to fit gemm(a, b, c, trans_a, trans_b, alpha, beta, "
        "fused_activation), got an unexpected keyword argument 'alfa'",
        "expected the call in line 7 to fit join(input, axis), "
        "got missing a required argument: 'axis'",
        "expected line 8 to be in dml_jax.pydirectml, got 'np'",
    ]
    (fault,) = found["syntax.py"]["faults"]
    assert fault["field"] in ("line 2", "line 3")


def test_a_feature_level_and_free_dimensions(folder: Path):
    onnx = pytest.importorskip("onnx")
    network = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["": 18]>
        layer (float[batch, 2] x) => (float[batch, 2] y) { y = Relu(x) }
    """)
    onnx.save(network, folder / "n.onnx")
    levels = files(folder, "-f", "batch:4")
    assert levels["n.onnx"]["runs"]
    refused = files(folder, "--feature-level", "1_0", "-f", "batch:4")
    assert not any(refused[name]["runs"] for name in ("deep/graph.json", "deep/program.py"))
    assert "at least 2_0" in refused["deep/program.py"]["faults"][0]["message"]


def test_folders_beside_files(folder: Path, tmp_path: Path):
    """A folder in which all runs, and one without models, are no failure."""
    assert invoke(folder / "deep").exit_code == 0
    (tmp_path / "empty").mkdir()
    shown = invoke(tmp_path / "empty", folder / "deep", folder / "shuffle.json")
    assert shown.exit_code == 0
    assert "0 of 0 files run." in shown.stdout
    assert "DEPTH_TO_SPACE1" in shown.stdout
    assert invoke(folder / "deep", folder / "broken.json").exit_code == 1


def test_programs_that_cannot_be_read(folder: Path):
    (folder / "folder.py").mkdir()
    (folder / "nothing.py").symlink_to(folder / "none")
    found = files(folder)
    assert "folder.py" not in found
    (fault,) = found["nothing.py"]["faults"]
    assert "No such file" in fault["message"]

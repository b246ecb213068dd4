"""`dml-jax check` of a folder: one table of models, graphs, networks and PyDirectML programs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from build import command, parse, saved
from click.testing import Result

import dml_jax as dml


def check(*words: Any, status: int = 0) -> Result:
    return command("check", *words, status=status)


ROOT = Path(__file__).parents[2]
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


def files(*words: Any, status: int = 1) -> dict[str, dict[str, Any]]:
    value = json.loads(check(*words, "--json", status=status).stdout)
    return {file["file"]: file for file in value["files"]}


def test_the_table(folder: Path):
    """The levels are those of the documentation: GELU's is 5_1, ADD1's is 2_0."""
    found = files(folder)
    runs = {name: file["feature_level"] for name, file in found.items() if file["runs"]}
    assert runs == {"shuffle.json": "2_1", "deep/graph.json": "5_1", "deep/program.py": "2_0"}
    assert {name: f["kind"] for name, f in found.items() if not f["runs"]} == {
        **dict.fromkeys(("broken.json", "no.json"), "model"),
        **dict.fromkeys(("faulty.py", "syntax.py"), "program"),
    }
    shown = check(folder, status=1).stdout
    assert all(name in shown for name in found)
    assert all(bool(file["faults"]) != file["runs"] for file in found.values())
    assert f"{folder}: 3 of 7 files run." in shown
    assert "plain.py" not in shown and "other.json" not in shown


def test_what_a_program_says(folder: Path):
    found = files(folder)
    assert [fault["message"] for fault in found["faulty.py"]["faults"]] == [
        "line 3: dml_jax.pydirectml has no 'TensorDesk' (did you mean 'TensorDesc'?)",
        "line 4: dml_jax.pydirectml has no 'reinterpet' (did you mean 'reinterpret'?)",
        "line 5: dml_jax.pydirectml has no 'TensorDataType.FLOAT322' (did you mean 'FLOAT32'?)",
        "expected the call in line 6 to fit gemm(a, b, c, trans_a, trans_b, alpha, beta, "
        "fused_activation), got an unexpected keyword argument 'alfa'",
        "expected the call in line 7 to fit join(input, axis), "
        "got missing a required argument: 'axis'",
        "line 8: dml_jax.pydirectml has no 'np'",
    ]
    (fault,) = found["syntax.py"]["faults"]
    assert fault["field"] in ("line 2", "line 3")


def test_a_feature_level_and_free_dimensions(folder: Path):
    saved("layer (float[batch, 2] x) => (float[batch, 2] y) { y = Relu(x) }", folder)
    assert files(folder, "-f", "batch:4")["n.onnx"]["runs"]
    refused = files(folder, "--feature-level", "1_0", "-f", "batch:4")
    assert not any(refused[name]["runs"] for name in ("deep/graph.json", "deep/program.py"))
    assert "at least 2_0" in refused["deep/program.py"]["faults"][0]["message"]


def test_folders_beside_files(folder: Path, tmp_path: Path):
    """A folder in which all runs, and one without models, are no failure."""
    check(folder / "deep")
    (tmp_path / "empty").mkdir()
    shown = check(tmp_path / "empty", folder / "deep", folder / "shuffle.json").stdout
    assert "0 of 0 files run." in shown
    assert "DEPTH_TO_SPACE1" in shown
    check(folder / "deep", folder / "broken.json", status=1)


def test_programs_that_cannot_be_read(folder: Path):
    (folder / "folder.py").mkdir()
    (folder / "nothing.py").symlink_to(folder / "none")
    found = files(folder)
    assert "folder.py" not in found
    (fault,) = found["nothing.py"]["faults"]
    assert "No such file" in fault["message"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("gem", " (did you mean 'gemm'?)"),
        ("Gemm", " (did you mean 'gemm'?)"),
        ("tensordesc", " (did you mean 'TensorDesc'?)"),
        ("float32", " (did you mean 'FLOAT32'?)"),
        ("ReduceFunction", ""),
        ("reduce", " (PyDirectML has none; port the program to dml_jax.reduce)"),
        ("FusedActivation.relu", ""),
    ],
)
def test_names_that_are_meant(name: str, hint: str, tmp_path: Path):
    """Functions stand for functions, and classes for classes."""
    (tmp_path / "p.py").write_text(f"import pydirectml as dml\ndml.{name}\n")
    (fault,) = files(tmp_path)["p.py"]["faults"]
    assert fault["message"] == f"line 2: dml_jax.pydirectml has no {name!r}{hint}"


def test_a_program_alone(folder: Path):
    assert "program.py: 1 of 1 files run." in check(folder / "deep" / "program.py").stdout
    check(folder / "faulty.py", status=1)
    assert "none.py': expected the program to be" in check(folder / "none.py", status=1).stderr
    (folder / "plain.py").write_text("import numpy\n")
    said = check(folder / "plain.py", status=1).stderr
    assert "is a program that does not import pydirectml (python -m dml_jax.onnxr" in said


@pytest.mark.parametrize(
    ("inputs", "node", "cure"),
    [
        ("float[2, 3, 3] x", "Det(x)", "with fallback=True (the option --fallback), JAX computes:"),
        ("float[N, M] x", "MatMul(x, c)", "free dimensions N, M of 'x' have size 1: set them with"),
        ("float[1, 1] x, int64[2] s", "Expand(x, s)", "with constants={'s': ...} (--constant s:"),
    ],
)
def test_what_cures_many_faults_is_said_first(inputs: str, node: str, cure: str, tmp_path: Path):
    names = [f"y{index}" for index in range(120)]
    outputs = ", ".join(f"float[A, B] {name}" for name in names)
    nodes = "\n".join(f"{name} = {node}" for name in names)
    path = saved(
        parse(f"g ({inputs}) => ({outputs}) <float[2, 2] c = {{1, 2, 3, 4}}> {{ {nodes} }}"),
        tmp_path,
    )
    lines = check(path, status=1).stderr.splitlines()
    assert lines[0].startswith(cure)
    assert "Node 'y0'" in lines[1]
    assert len(lines) < 12
    assert lines[-1] == "... 113 more (--json has all)"
    assert len(json.loads(check(path, "--json", status=1).stdout)["faults"]) == 121
    assert cure in check(path, path, status=1).stderr.splitlines()[0]


def test_sizes_that_a_network_needs(tmp_path: Path):
    network = parse(
        """g (float[N, 3, H, W] x) => (float[N, 3, H2, W2] y) {
            y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x) }"""
    )
    path = saved(network, tmp_path)
    message = "free dimensions N, H, W of 'x' have size 1: set them with -f NAME:SIZE or -b x:SIZES"
    assert files(tmp_path)["n.onnx"]["faults"][-1]["message"] == message
    assert "needs sizes" in check(tmp_path, status=1).stdout
    fewer = message.replace("N, H, W", "N, W")
    assert fewer in check(tmp_path, "-f", "H:2", status=1).stdout
    message = "free dimension W of 'x' has size 1: set it with -f NAME:SIZE or -b x:SIZES"
    assert message in check(tmp_path, "-f", "H:2", "-f", "N:2", status=1).stdout
    assert "needs sizes" not in check(tmp_path, "-f", "H:4", "-f", "W:6").stdout
    (lacking := tmp_path / "lacking").mkdir()
    for second in ("Foo(x)", "Softmax<axis = 3>(x)"):
        text = f"{{ y = MaxPool<kernel_shape = [2]>(x) z = {second} }}"
        saved(f"g (float[1, 3, N] x) => (float[N] y, float[N] z) {text}", lacking)
        assert "needs sizes" not in check(lacking, status=1).stdout
    np.save(tmp_path / "x.npy", np.ones((2, 3, 4, 6), np.float32))
    done = command("run", path, "--input", f"x={tmp_path}/x.npy")
    assert "x FLOAT32[N=2,3,H=4,W=6]" in done.stdout
    line = "x FLOAT32[N=1,3,H=4,W=6] -> y FLOAT32[1,3,2,3]"
    assert line in check(path, "-f", "H:4", "-f", "W:6").stdout
    for dim in network.graph.input[0].type.tensor_type.shape.dim:
        dim.ClearField("dim_param")
    saved(network, tmp_path)
    message = "3 free dimensions without names of 'x' have size 1: set them with -b x:SIZES"
    assert files(tmp_path)["n.onnx"]["faults"][-1]["message"] == message

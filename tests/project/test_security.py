"""What SECURITY.md says of files from strangers."""

import ast
import json
import os
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from build import command, model_of, parse, saved
from dispatch_models import buffer, guide_model, model_file
from onnx import TensorProto
from PIL import Image
from processes import linux

import dml_jax
from dml_jax import DmlError
from dml_jax.dxdispatch.resources import values_of_file
from dml_jax.enums import TensorDataType
from dml_jax.genai.folder import Folder
from dml_jax.onnxruntime import InferenceSession
from dml_jax.onnxruntime.errors import OnnxRuntimeError

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text()


def test_each_limit_names_its_test():
    limits = PAGE.partition("## Limits that hold")[2].partition("## What has no limit")[0]
    rows = [line for line in limits.splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 8
    for row in rows:
        names = re.findall(r"`([\w/]+/test_\w+\.py)`", row)
        assert names, row
        for name in names:
            assert (ROOT / "tests" / name).exists(), name


def test_a_model_writes_where_it_says_when_it_runs_and_only_then(tmp_path: Path):
    target = tmp_path / "elsewhere.npy"
    path = model_file(guide_model(str(target)), tmp_path)
    for word in ("check", "show"):
        command(word, path)
    dml_jax.run_model(dml_jax.load_model(path))
    assert not target.exists()
    command("run", path, "--output_path", tmp_path)
    assert target.exists()


@pytest.mark.parametrize(
    "target", ["{outside}", "../x.npy", "in/../../x.npy", "link/x.npy", "x.npy"]
)
def test_a_model_writes_in_the_output_folder_alone(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """`x.npy` is a link to a file elsewhere."""
    current, outside = tmp_path / "current", tmp_path / "x.npy"
    (current / "in").mkdir(parents=True)
    monkeypatch.chdir(current)
    Path("link").symlink_to(tmp_path)
    Path("x.npy").symlink_to(outside)
    model = guide_model(target.format(outside=outside))
    model["commands"].insert(0, {**model["commands"][-1], "targetPath": "first.npy"})
    path = model_file(model, Path())
    said = command("run", path, status=1).output
    assert "targetPath to lie in the folder" in said and "--output_path" in said
    with pytest.raises(DmlError, match="output_folder= of run_model"):
        dml_jax.run_model(path, output_folder=current)
    assert not outside.exists() and not Path("first.npy").exists()
    if target == "{outside}":  # the folder that the user names may be this one
        dml_jax.run_model(path, output_folder=tmp_path)
        assert outside.exists()


def test_check_does_not_run_a_program(tmp_path: Path):
    program, trace = tmp_path / "p.py", tmp_path / "ran"
    program.write_text(f"import pydirectml as dml\nopen({str(trace)!r}, 'w').close()\n")
    command("check", program)
    assert not trace.exists()


def network_of(folder: Path, location: str) -> Path:
    """Write a network whose weight lies in a file; return its path."""
    model = parse("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Mul (x, w) }")
    weight = model.graph.initializer[0]
    weight.ClearField("float_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value=location)
    return saved(model, folder)


@pytest.mark.parametrize("location", ["../w.bin", "in/../../w.bin", "{outside}", "link.bin"])
def test_no_external_data_lies_outside_of_the_folder(location: str, tmp_path: Path):
    folder, outside = tmp_path / "model", tmp_path / "w.bin"
    (folder / "in").mkdir(parents=True)
    np.zeros(2, np.float32).tofile(outside)
    (folder / "link.bin").symlink_to(outside)
    with pytest.raises(DmlError, match="the initializer 'w'"):
        dml_jax.load_onnx(network_of(folder, location.format(outside=outside)))
    np.zeros(2, np.float32).tofile(folder / "in" / "w.bin")
    network = dml_jax.load_onnx(network_of(folder, "in/w.bin"))
    assert network({"x": np.ones(2, np.float32)})["y"].shape == (2,)


@pytest.mark.parametrize("location", ["../n.onnx", "{outside}", "link.onnx"])
def test_no_file_of_a_language_model_lies_outside_of_its_folder(location: str, tmp_path: Path):
    outside, folder = tmp_path / "n.onnx", tmp_path / "model"
    folder.mkdir()
    outside.write_bytes(b"")
    (folder / "link.onnx").symlink_to(outside)
    decoder = {"filename": location.format(outside=outside)}
    (folder / "genai_config.json").write_text(json.dumps({"model": {"decoder": decoder}}))
    with pytest.raises(DmlError, match="in the model's folder"):
        _ = Folder(folder).proto


@linux
def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path: Path):
    """What somebody packed may hold one; nobody writes to it."""
    os.mkfifo(tmp_path / "genai_config.json")
    os.mkfifo(tmp_path / "w.npy")
    with pytest.raises(DmlError, match="a folder, a pipe or a device"):
        Folder(tmp_path)
    constant = {"DataType": "FLOAT32", "Sizes": [2], "SourcePath": "w.npy"}
    with pytest.raises(DmlError, match="a folder, a pipe or a device"):
        dml_jax.Graph.from_json({"Nodes": [{"Array": constant}]}, tmp_path)
    with pytest.raises(DmlError, match="the initializer 'w'"):
        dml_jax.load_onnx(network_of(tmp_path, "w.npy"))


def test_a_folder_may_have_its_files_in_a_cache(tmp_path: Path):
    """As downloads are kept: links, all of which lead to one folder elsewhere."""
    folder, cache = tmp_path / "model", tmp_path / "cache"
    cache.mkdir()
    folder.mkdir()
    (cache / "1").write_text(json.dumps({"model": {"type": "own"}}))
    (cache / "2").write_bytes(b"text")
    for name, target in (("genai_config.json", "1"), ("tokenizer.json", "2")):
        (folder / name).symlink_to(cache / target)
    assert Folder(folder).read("tokenizer.json") == b"text"


@pytest.fixture
def ghostscript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file that a program named as Ghostscript writes when it is started."""
    trace, program = tmp_path / "started", tmp_path / "bin" / "gs"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {trace}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setattr("PIL.EpsImagePlugin.gs_binary", None)
    return trace


POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n"


@linux
def test_a_picture_starts_no_program(ghostscript: Path, tmp_path: Path):
    """Pillow lets Ghostscript run what is named a picture and is PostScript."""
    (tmp_path / "x.png").write_bytes(POSTSCRIPT)
    with pytest.raises(OSError), Image.open(tmp_path / "x.png") as picture:
        picture.load()
    assert ghostscript.exists()  # as Pillow does by itself
    ghostscript.unlink()
    with pytest.raises(DmlError, match=r"be a readable \.png file"):
        values_of_file("x.png", lambda: tmp_path / "x.png", TensorDataType.FLOAT32)
    assert not ghostscript.exists()


@linux
@pytest.mark.parametrize("is_within", [False, True])
def test_a_picture_within_a_network_starts_no_program(is_within: bool, ghostscript: Path):
    numbers = ", ".join(map(str, POSTSCRIPT))
    own = "y = ImageDecoder (x)"
    if is_within:
        own = "y = If (c) <then_branch = a () => (uint8[?,?,3] p) {p = ImageDecoder (x)}, "
        own += "else_branch = b () => (uint8[?,?,3] q) {q = ImageDecoder (x)}>"
    text = f"""g (bool c) => (uint8[?,?,3] y)
    <uint8[{len(POSTSCRIPT)}] x = {{{numbers}}}> {{ {own} }}"""
    data = parse(text, opset=20).SerializeToString()
    with pytest.raises((DmlError, OnnxRuntimeError), match=r"ImageDecoder\): neither JAX"):
        InferenceSession(data).run(None, {"c": np.array(True)})
    assert not ghostscript.exists()


@pytest.mark.parametrize("change", ["name", "number"])
def test_long_names_and_numbers_stand_in_programs(change: str, tmp_path: Path):
    model = guide_model("a.npy")
    values = {"valueCount": 4, "valueStart": -(2**128), "valueDelta": 1}
    model["resources"] |= {"more": buffer(values, "FLOAT64")} if change == "number" else {}
    path = model_file(model, tmp_path)
    if change == "name":
        path.write_text(path.read_text().replace('"input"', f'"{"x" * 300}"'))
    assert ast.parse(command("show", path, "--python").stdout)


CODE = 'a"\'\\n"""\\\n\r\u2028boom()\n</text><script>boom()</script>'


def test_names_are_no_code(tmp_path: Path):
    """Neither in the program that `show --python` prints, nor in what a notebook shows."""
    nodes = [onnx.helper.make_node("Relu", [CODE], [f"{CODE}y"], CODE)]
    model = model_of(nodes, {CODE: (np.float32, [2])}, [f"{CODE}y"])
    model.graph.name = model.graph.doc_string = CODE
    path = saved(model, tmp_path)
    network = dml_jax.load_onnx(path)
    for text in (network._repr_html_(), network.graph._repr_svg_()):
        assert text and "<script" not in text
    network.graph.save(tmp_path / "g.json")
    for shown in (tmp_path / "g.json", path):
        program = command("show", shown, "--python").stdout
        assert "boom" in program
        named = [n.id for n in ast.walk(ast.parse(program)) if isinstance(n, ast.Name)]
        assert "boom" not in named


def test_the_package_opens_no_connection():
    text = "\n".join(path.read_text() for path in (ROOT / "dml_jax").rglob("*.py"))
    assert not re.search(r"^\s*(from|import) (socket|urllib|http|requests)\b", text, re.MULTILINE)

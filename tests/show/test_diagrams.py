"""Drawings of graphs and models, and models of graphs on the command line."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from sample_graphs import HALF, Json, X, assert_no_overlaps, clip, expected, graph

import dml_jax
from dml_jax.cli import cli
from dml_jax.errors import install_command
from dml_jax.graph import (
    GraphBuilder,
)
from dml_jax.show.diagrams import draw, graph_picture


def on_command_line(*words: Any) -> Result:
    return CliRunner().invoke(cli, [*map(str, words)])


def model(source: str = "graphs/g.json", **fields: Any) -> Json:
    def zeros(count: int) -> Json:
        return {
            "initialValuesDataType": "FLOAT32",
            "initialValues": {"valueCount": count, "value": 0},
        }

    return {
        "resources": {
            "photo": {"initialValuesDataType": "FLOAT32", "initialValues": X.ravel().tolist()},
            "sums": zeros(2),
            "half": zeros(4),
        },
        "dispatchables": {"all": {"type": "graph", "sourcePath": source, **fields}},
        "commands": [
            {
                "type": "dispatch",
                "dispatchable": "all",
                "bindings": {"x": "photo", "total": "sums", "rest": "half"},
            },
            {"type": "print", "resource": "sums"},
            {"type": "print", "resource": "half"},
            {"type": "writeFile", "resource": "half", "targetPath": "out/half.npy"},
        ],
    }


def written(folder: Path, value: Json) -> Path:
    graph().save(folder / "graphs" / "g.json")
    (folder / "model.json").write_text(json.dumps(value))
    return folder / "model.json"


def test_a_model_runs_a_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = written(tmp_path, model())
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")  # the model's folder comes first
    result = on_command_line("run", path)
    assert result.exit_code == 0, result.output
    total, rest = expected(X)
    for name, right in (("sums", total), ("half", rest)):
        values = ", ".join(f"{v:g}" for v in right.ravel())
        assert f"Resource '{name}': {values}" in result.output
    np.testing.assert_array_equal(np.load("out/half.npy"), rest.ravel())
    monkeypatch.chdir(tmp_path / "graphs")  # and then the current one
    (tmp_path / "elsewhere" / "model.json").write_text(json.dumps(model("g.json")))
    assert on_command_line("run", tmp_path / "elsewhere" / "model.json").exit_code == 0
    checked = on_command_line("run", path, "--check")
    assert "graph of 5 nodes" in checked.output
    assert "FLOAT32[2,4]" in checked.output


@pytest.mark.parametrize(
    ("change", "fragment"),
    [
        (
            lambda m: m["dispatchables"]["all"].update(sourcePath="none.json"),
            "expected sourcePath 'none.json' to exist, in the folder ",
        ),
        (lambda m: m["dispatchables"]["all"].pop("sourcePath"), "expected sourcePath to be given"),
        (
            lambda m: m["dispatchables"]["all"].update(sourcePth=""),
            "sourcePth to be a known field (did you mean 'sourcePath'?)",
        ),
        (
            lambda m: m["dispatchables"]["all"].update(sourcePath="model.json"),
            "model.json': expected the file to hold a graph",
        ),
        (
            lambda m: m["commands"][0]["bindings"].update(y="sums"),
            "DML_GRAPH_DESC: expected bindings to name tensors of the operator",
        ),
        (lambda m: m["commands"][0]["bindings"].pop("x"), "DML_GRAPH_DESC: expected x to be bound"),
        (
            lambda m: m["commands"][0]["bindings"].update(x="sums"),
            "expected x to be bound to at least 32 bytes",
        ),
        (
            lambda m: m["commands"][0]["bindings"].update(rest="photo"),
            "to not overlap x",
        ),
    ],
)
def test_models_of_broken_graphs_are_refused(change: Callable, fragment: str, tmp_path: Path):
    value = model()
    change(value)
    result = on_command_line("run", written(tmp_path, value))
    assert result.exit_code == 1
    assert fragment in result.output
    assert "Dispatchable 'all': " in result.output


@pytest.mark.parametrize("kind", ["svg", "png"])
@pytest.mark.parametrize("file", ["model.json", "graphs/g.json"])
def test_show_draws(kind: str, file: str, tmp_path: Path):
    written(tmp_path, model())
    target = tmp_path / "out" / f"picture.{kind}"
    result = on_command_line("show", tmp_path / file, "-o", target)
    assert result.exit_code == 0, result.output
    assert "FLOAT32[2,4]" in result.output
    assert ("SPLIT" if file.endswith("g.json") else "graph of 5 nodes") in result.output
    assert 4_000 < target.stat().st_size < 400_000
    assert [p.name for p in target.parent.iterdir()] == [target.name]
    if kind == "svg":
        text = target.read_text()
        words = ("halves", "SPLIT", "kept", "constant", "total", "FLOAT32[2,1]")
        for word in words if file.endswith("g.json") else ("photo", "32 bytes", "all", "print"):
            assert f"<!-- {word} -->" in text
        on_command_line("show", tmp_path / file, "-o", target)
        assert target.read_text() == text
    else:
        assert target.read_bytes().startswith(b"\x89PNG")


def test_a_tall_picture_stands_in_columns():
    """A picture of 500 nodes, among them lines over many layers, is about as wide as high."""
    builder = GraphBuilder()
    x = y = builder.input_tensor("x", HALF)
    w = builder.input_tensor("w", HALF)
    for index in range(250):
        is_last = index % 50 == 49
        y = dml_jax.add(dml_jax.clip(y, 0, 1), x if is_last else w)
        x = y if is_last else x
    g = builder.build([y])
    assert len(g.nodes) == 500
    columns = assert_no_overlaps(graph_picture(g, weights=["w"]))
    assert 0.7 < sum(c.width for c in columns) / max(c.height for c in columns) < 2
    kinds = [box.kind for column in columns for box in column.boxes if box]
    assert {kind: kinds.count(kind) for kind in ("operator", "input", "output")} == {
        "operator": 500,
        "input": 1,
        "output": 1,
    }
    marks = [box.title for column in columns for box in column.boxes if box and box.kind == "mark"]
    assert len(marks) > 4
    assert sorted(marks) == sorted([*{*marks}] * 2)


def test_show_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = written(tmp_path, model()).parent / "graphs" / "g.json"
    for words, status, fragment in (
        ((tmp_path / "none.json",), 1, "expected the model to be a readable JSON file"),
        ((path, "-o", tmp_path / "x.gif"), 2, "the picture's name to end in .svg or .png, got"),
        ((path, "-o", path / "x.png"), 1, "to be one that can be written"),
    ):
        result = on_command_line("show", *words)
        assert result.exit_code == status
        assert fragment in result.output
    for package in ("matplotlib", "networkx"):
        monkeypatch.setitem(sys.modules, package, None)
        result = on_command_line("show", path, "-o", tmp_path / "x.svg")
        assert result.exit_code == 1
        assert f"the package {package} to be installed to draw pictures" in result.output
        assert install_command("show") in result.output
        assert on_command_line("show", path).exit_code == 0
        monkeypatch.undo()


def test_names_are_drawn_as_they_are(tmp_path: Path):

    builder = GraphBuilder()
    x = builder.input_tensor("$x^2$", HALF)
    y = builder.apply(clip(HALF), x, name="a & <b>\n" + "long " * 30)
    draw(graph_picture(builder.build({"$": y})), tmp_path / "g.svg")
    text = (tmp_path / "g.svg").read_text()
    assert "<!-- $x^2$ -->" in text
    assert "<!-- a &amp; &lt;b&gt; long" in text

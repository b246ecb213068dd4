"""Drawings of graphs and models, and models of graphs on the command line."""

import collections
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from build import command
from dispatch_models import buffer, dispatch, filled, model_file, model_of, show, write
from sample_graphs import HALF, Json, X, assert_no_overlaps, clip, expected, graph

import dml_jax
from dml_jax.errors import install_command
from dml_jax.graph import GraphBuilder
from dml_jax.show.diagrams import draw, graph_picture


def model(source: str = "graphs/g.json", **fields: Any) -> Json:
    return model_of(
        {"photo": buffer(X.ravel().tolist()), "sums": filled(2), "half": filled(4)},
        {"all": {"type": "graph", "sourcePath": source, **fields}},
        dispatch("all", x="photo", total="sums", rest="half"),
        show("sums"),
        show("half"),
        write("half", "out/half.npy"),
    )


def written(folder: Path, value: Json) -> Path:
    graph().save(folder / "graphs" / "g.json")
    return model_file(value, folder)


def test_a_model_runs_a_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = written(tmp_path, model())
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")  # the model's folder comes first
    said = command("run", path).output
    total, rest = expected(X)
    for name, right in (("sums", total), ("half", rest)):
        values = ", ".join(f"{v:g}" for v in right.ravel())
        assert f"Resource '{name}': {values}" in said
    np.testing.assert_array_equal(np.load("out/half.npy"), rest.ravel())
    monkeypatch.chdir(tmp_path / "graphs")  # and then the current one
    command("run", model_file(model("g.json"), tmp_path / "elsewhere"))
    checked = command("run", path, "--check").output
    assert "graph of 5 nodes" in checked
    assert "FLOAT32[2,4]" in checked


@pytest.mark.parametrize(
    ("part", "change", "fragment"),
    [
        ("fields", {"sourcePath": "none.json"}, "sourcePath 'none.json' to exist, in the folder "),
        ("fields", {"sourcePath": None}, "expected sourcePath to be given"),
        ("fields", {"sourcePth": ""}, "to be a known field (did you mean 'sourcePath'?)"),
        ("fields", {"sourcePath": "model.json"}, "model.json': expected the file to hold a graph"),
        ("bindings", {"y": "sums"}, "DML_GRAPH_DESC: expected bindings to name tensors of the op"),
        ("bindings", {"x": None}, "DML_GRAPH_DESC: expected x to be bound"),
        ("bindings", {"x": "sums"}, "expected x to be bound to at least 32 bytes"),
        ("bindings", {"rest": "photo"}, "to not overlap x"),
    ],
)
def test_models_of_broken_graphs_are_refused(
    part: str, change: Json, fragment: str, tmp_path: Path
):
    """None takes a field or a binding away."""
    value = model()
    parts = {"fields": value["dispatchables"]["all"], "bindings": value["commands"][0]["bindings"]}
    changed = parts[part] | change
    parts[part].clear()
    parts[part].update({name: own for name, own in changed.items() if own is not None})
    said = command("run", written(tmp_path, value), status=1).output
    assert fragment in said
    assert "Dispatchable 'all': " in said


@pytest.mark.parametrize("kind", ["svg", "png"])
@pytest.mark.parametrize("file", ["model.json", "graphs/g.json"])
def test_show_draws(kind: str, file: str, tmp_path: Path):
    written(tmp_path, model())
    target = tmp_path / "out" / f"picture.{kind}"
    words = ["show", tmp_path / file, "-o", target]
    said = command(*words).output
    assert "FLOAT32[2,4]" in said
    assert ("SPLIT" if file.endswith("g.json") else "graph of 5 nodes") in said
    assert 4_000 < target.stat().st_size < 400_000
    assert [p.name for p in target.parent.iterdir()] == [target.name]
    drawn = target.read_bytes()
    if kind == "png":
        assert drawn.startswith(b"\x89PNG")
        return
    names = ("halves", "SPLIT", "kept", "constant", "total", "FLOAT32[2,1]")
    for name in names if file.endswith("g.json") else ("photo", "32 bytes", "all", "print"):
        assert f"<!-- {name} -->".encode() in drawn
    command(*words)
    assert target.read_bytes() == drawn


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
    boxes = [box for column in columns for box in column.boxes if box]
    marks = [box.title for box in boxes if box.kind == "mark"]
    counts = collections.Counter(box.kind for box in boxes)
    assert [counts[kind] for kind in ("operator", "input", "output")] == [500, 1, 1]
    assert len(marks) > 4
    assert sorted(marks) == sorted([*{*marks}] * 2)


@pytest.mark.parametrize(
    ("words", "status", "fragment"),
    [
        ("none.json", 1, "expected the model to be a readable JSON file"),
        ("graphs/g.json -o x.gif", 2, "the picture's name to end in .svg or .png, got"),
        ("graphs/g.json -o graphs/g.json/x.png", 1, "to be one that can be written"),
    ],
)
def test_show_refuses(
    words: str, status: int, fragment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    written(tmp_path, model())
    monkeypatch.chdir(tmp_path)
    assert fragment in command("show", *words.split(), status=status).output


@pytest.mark.parametrize("package", ["matplotlib", "networkx"])
def test_packages_are_missing(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = written(tmp_path, model()).parent / "graphs" / "g.json"
    monkeypatch.setitem(sys.modules, package, None)
    said = command("show", path, "-o", tmp_path / "x.svg", status=1).output
    assert f"the package {package} to be installed to draw pictures" in said
    assert install_command("show") in said
    command("show", path)


def test_names_are_drawn_as_they_are(tmp_path: Path):
    builder = GraphBuilder()
    x = builder.input_tensor("$x^2$", HALF)
    y = builder.apply(clip(HALF), x, name="a & <b>\n" + "long " * 30)
    draw(graph_picture(builder.build({"$": y})), tmp_path / "g.svg")
    text = (tmp_path / "g.svg").read_text()
    assert "<!-- $x^2$ -->" in text
    assert "<!-- a &amp; &lt;b&gt; long" in text

"""Models and graphs for the commands: read from a file or standard input, and shown as a table."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dml_jax.cli.terminal import STDIN, as_values, read_stdin, say_json, show_table
from dml_jax.enums import FeatureLevel
from dml_jax.errors import DmlError, Fault, Sentence, inside, printable, raise_if
from dml_jax.onnx.options import NetworkOptions

if TYPE_CHECKING:
    from dml_jax.dispatch.model import Model
    from dml_jax.graph import Graph


def load(
    path: Path,
    feature_level: FeatureLevel | None = None,
    folder: Path | None = None,
    options: NetworkOptions | None = None,
) -> "Model":
    """Return the model at `path`, or of standard input.

    Args:
        path: the file.
        feature_level: the level that must accept all operators; None is any.
        folder: the folder of the model's files; None is the model's own.
        options: the options of networks; None is as the model says.

    Raises `DmlError` with all faults, also if `feature_level` does not accept all its operators.
    """
    from dml_jax.dispatch.model import load_model, parse_model

    _check_kind(path)
    shared = replace(options or NetworkOptions(), is_shared=True)
    if path == STDIN:
        model = parse_model(read_stdin(), folder or Path(), str(path), shared)
    else:
        model = load_model(path, folder, shared)
    if feature_level is not None:
        faults: list[Fault] = []
        for dispatchable in model.dispatchables.values():
            refusals = DmlError(dispatchable.operator.refused_at(feature_level))
            faults += refusals.within(dispatchable.context).faults
        raise_if(faults)
    return model


def load_model_or_graph(path: Path) -> "Model | Graph":
    """Return the model or the graph at `path`, or of standard input.

    Raises `DmlError` with all faults.
    """
    from dml_jax.dispatch.model import parse_model
    from dml_jax.dispatch.reading import folder_of, read_json
    from dml_jax.graph import Graph

    if path.is_dir():
        raise DmlError([folder_fault(path)])
    _check_kind(path)
    value = read_stdin() if path == STDIN else read_json(path)
    if not (isinstance(value, dict) and "Nodes" in value):
        return parse_model(value, folder_of(path), str(path))
    with inside(f"Graph '{path}'"):
        return Graph.from_json(value, folder_of(path))


def folder_fault(path: Path) -> Fault:
    """Return the fault of a folder where a file is wanted."""
    return Fault("", "", Sentence(f"'{path}' is a folder: dml-jax check {path}"), "")


def _check_kind(path: Path) -> None:
    """Raise `DmlError` where a path names a Python program, which another command runs."""
    if path.suffix.lower() == ".py":
        text = f"'{path}' is a program: python -m dml_jax.pydirectml {path}"
        raise DmlError([Fault("", "", Sentence(text), "")])


def show_model(model: "Model", as_json: bool, name: str = "") -> None:
    """Print the operators of `model`; `name` tells it from other models."""
    from dml_jax.show.diagrams import kind_of

    ops = ((key, d.operator) for key, d in model.dispatchables.items())
    rows = ((key, kind_of(op), op) for key, op in ops)
    if as_json:
        title: dict[str, Any] = {"model": name} if name else {}
        say_json(title | {"dispatchables": [as_values(*row) for row in rows]})
    else:
        if name:
            click.echo(f"{printable(name)}:")
        show_table("Dispatchable", rows)


def rows_of(graph: "Graph") -> Iterator[tuple[str, str, Any]]:
    """Yield (name, kind, operator, tensor or function) of each node, those within nodes too."""
    from dml_jax.graph import ConstantNode, OperatorNode
    from dml_jax.show.diagrams import kind_of

    for index, node in graph.all_nodes:
        name = node.name or str(index)
        if isinstance(node, OperatorNode):
            yield name, kind_of(node.operator), node.operator
        elif isinstance(node, ConstantNode):
            yield name, "constant", node.tensor
        else:
            yield name, node.label, node

"""Models and graphs for the commands: read from a file or standard input, and shown as a table."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dml_jax.cli.terminal import STDIN, as_values, read_stdin, say_json, show_table
from dml_jax.errors import DmlError, Fault, Sentence, inside, printable
from dml_jax.onnx.options import AS_THE_MODEL_SAYS, NetworkOptions
from dml_jax.system.files import absolute

if TYPE_CHECKING:
    from dml_jax.dxdispatch.model import Model
    from dml_jax.graph import Graph


def load(
    path: Path,
    options: NetworkOptions = AS_THE_MODEL_SAYS,
    folder: Path | None = None,
    takes_graphs: bool = False,
) -> Any:
    """Return the model at `path`, or of standard input, or the graph.

    Args:
        path: the file.
        options: the options of networks.
        folder: the folder of the model's files; None is the model's own.
        takes_graphs: whether a graph is no mistake.

    Raises `DmlError` with all faults.
    """
    from dml_jax.dxdispatch.model import parse_model
    from dml_jax.dxdispatch.reading import folder_of, read_json
    from dml_jax.graph import Graph

    if takes_graphs and path.is_dir():
        raise DmlError([folder_fault(path)])
    if path.suffix.lower() == ".py":
        text = f"'{path}' is a program: python -m dml_jax.pydirectml {path}"
        raise DmlError([Fault("", "", Sentence(text), "")])
    value = read_stdin() if path == STDIN else read_json(path)
    if takes_graphs and isinstance(value, dict) and "Nodes" in value:
        with inside(f"Graph '{path}'"):
            return Graph.from_json(value, folder_of(path))
    shared = replace(options, is_shared=True)
    model = parse_model(value, folder or folder_of(path), str(path), shared)
    return model if path == STDIN else replace(model, path=absolute(path))


def folder_fault(path: Path) -> Fault:
    """Return the fault of a folder where a file is wanted."""
    return Fault("", "", Sentence(f"'{path}' is a folder: dml-jax check {path}"), "")


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

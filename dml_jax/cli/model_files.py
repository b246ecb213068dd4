"""Models and graphs for the commands: read from a file or standard input, and shown as a table."""

from collections.abc import Iterable, Iterator, Mapping
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
    """Return the model at `path`, or of standard input, or the graph if `takes_graphs`.

    `options` are those of networks; the model's files are in `folder`, or else in its own. Raises
    `DmlError` with all faults.
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


def titled(name: str) -> dict[str, Any]:
    """Return for JSON the `name` that tells a model from others, if it has one."""
    return {"model": name} if name else {}


def show_rows(
    kind: str, rows: Iterable[Any], as_json: bool, known: Mapping[str, Any] = {}, name: str = ""
) -> None:
    """Print the rows of `show_table`; JSON has what is `known` beside them."""
    if as_json:
        listed = {f"{kind.lower()}s": [as_values(*row) for row in rows]}
        say_json({**titled(name), **known, **listed})
        return
    if name:
        click.echo(f"{printable(name)}:")
    show_table(kind, rows)


def show_model(model: "Model", as_json: bool, name: str = "") -> None:
    """Print the operators of `model`; `name` tells it from other models."""
    from dml_jax.show.diagrams import kind_of

    ops = ((key, d.operator) for key, d in model.dispatchables.items())
    show_rows("Dispatchable", ((key, kind_of(op), op) for key, op in ops), as_json, name=name)


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

"""`dml-jax show`: models and graphs as tables and pictures."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dml_jax.cli.check import show_model
from dml_jax.cli.terminal import (
    FILE,
    INPUT,
    STDIN,
    as_values,
    json_option,
    read_stdin,
    reporting,
    say_json,
    show_table,
)
from dml_jax.errors import DmlError

if TYPE_CHECKING:
    from dml_jax.graph import Graph


@click.command()
@click.argument("file", type=INPUT)
@click.option(
    "-o",
    "--output",
    type=FILE,
    help="Draw it too, to a .svg or .png file.",
)
@json_option
def show(file: Path, output: Path | None, as_json: bool) -> None:
    """Show FILE, a model or a graph.

    A table of its operators, and with -o a picture.

    \b
    dml-jax show model.json
    dml-jax show graph.json -o graph.svg
    """  # noqa: D301
    from dml_jax.dispatch.model import parse_model
    from dml_jax.dispatch.reading import read_json
    from dml_jax.graph import Graph

    with reporting(as_json):
        if output is not None:
            from dml_jax.diagrams import check_diagram

            check_diagram(output)
        value = read_stdin() if file == STDIN else read_json(file)
        if isinstance(value, dict) and "Nodes" in value:
            try:
                shown = Graph.from_json(value, file.parent)
            except DmlError as error:
                raise error.within(f"Graph '{file}'") from None
            _show_nodes(shown, as_json)
        else:
            shown = parse_model(value, file.parent)
            show_model(shown, as_json)
        if output is not None:
            from dml_jax.diagrams import draw, graph_picture, model_picture

            draw(graph_picture(shown) if isinstance(shown, Graph) else model_picture(shown), output)
            click.echo(f"Drawn to '{output}'", err=as_json)


def _show_nodes(graph: "Graph", as_json: bool) -> None:
    rows = list(_rows(graph))
    if as_json:
        say_json({**as_values("", "graph", graph), "nodes": [as_values(*row) for row in rows]})
        return
    show_table("Node", rows)
    click.echo(f"{graph.describe()}, from feature level {graph.minimum_feature_level} on")


def _rows(graph: "Graph") -> Any:
    from dml_jax.diagrams import kind_of
    from dml_jax.graph import OperatorNode

    for index, node in enumerate(graph.nodes):
        name = node.name or str(index)
        if isinstance(node, OperatorNode):
            yield name, kind_of(node.operator), node.operator
        else:
            yield name, "constant", node.tensor

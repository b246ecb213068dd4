"""`dml-jax show`: models and graphs as tables and pictures."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dml_jax.cli.models import load_model_or_graph, show_model
from dml_jax.cli.terminal import (
    FILE,
    INPUT,
    as_values,
    json_option,
    reporting,
    say_json,
    show_table,
)

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
    """Show the operators of FILE, a model or a graph, as a table.

    With -o, draw it too.

    \b
    dml-jax show model.json
    dml-jax show graph.json -o graph.svg
    """  # noqa: D301
    from dml_jax.graph import Graph

    with reporting(as_json):
        if output is not None:
            from dml_jax.diagrams import check_diagram

            check_diagram(output)
        loaded = load_model_or_graph(file)
        if isinstance(loaded, Graph):
            _show_nodes(loaded, as_json)
        else:
            show_model(loaded, as_json)
        if output is not None:
            from dml_jax.diagrams import draw, graph_picture
            from dml_jax.dispatch.pictures import model_picture

            is_graph = isinstance(loaded, Graph)
            draw(graph_picture(loaded) if is_graph else model_picture(loaded), output)
            click.echo(f"Drawn to '{output}'", err=as_json)


def _show_nodes(graph: "Graph", as_json: bool) -> None:
    rows = list(_rows(graph))
    if as_json:
        say_json({**as_values("", "graph", graph), "nodes": [as_values(*row) for row in rows]})
        return
    show_table("Node", rows)
    click.echo(f"{graph.describe()}, from feature level {graph.minimum_feature_level} on")


def _rows(graph: "Graph") -> Iterator[tuple[str, str, Any]]:
    """Yield (name, kind, operator or tensor) of each node."""
    from dml_jax.diagrams import kind_of
    from dml_jax.graph import OperatorNode

    for index, node in enumerate(graph.nodes):
        name = node.name or str(index)
        if isinstance(node, OperatorNode):
            yield name, kind_of(node.operator), node.operator
        else:
            yield name, "constant", node.tensor

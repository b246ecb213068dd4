"""`dml-jax show`: models and graphs as tables and pictures."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dml_jax.cli.terminal import failing, show_table
from dml_jax.errors import DmlError

if TYPE_CHECKING:
    from dml_jax.dispatch.model import Model
    from dml_jax.graph import Graph


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Draw it too, to a .svg or .png file."
)
def show(file: Path, output: Path | None) -> None:
    """Show FILE, a model or a graph.

    A table of its operators, and with -o a picture.
    """
    from dml_jax.dispatch.model import parse_model
    from dml_jax.dispatch.reading import read_json
    from dml_jax.graph import Graph

    try:
        value = read_json(file)
        if isinstance(value, dict) and "Nodes" in value:
            shown = Graph.load(file)
            _show_nodes(shown)
        else:
            shown = parse_model(value, file.parent)
            show_operators(shown)
        if output is not None:
            from dml_jax.drawing import draw, graph_picture, model_picture

            draw(graph_picture(shown) if isinstance(shown, Graph) else model_picture(shown), output)
            click.echo(f"Drawn to '{output}'")
    except DmlError as error:
        raise failing(error) from None


def show_operators(model: "Model") -> None:
    from dml_jax.drawing import kind_of

    rows = ((name, d.operator) for name, d in model.dispatchables.items())
    show_table("Dispatchable", ((name, kind_of(op), op) for name, op in rows))


def _show_nodes(graph: "Graph") -> None:
    from dml_jax.drawing import kind_of
    from dml_jax.graph import OperatorNode

    nodes = ((node.name or str(index), node) for index, node in enumerate(graph.nodes))
    show_table(
        "Node",
        (
            (name, kind_of(node.operator), node.operator)
            if isinstance(node, OperatorNode)
            else (name, "constant", node.tensor)
            for name, node in nodes
        ),
    )
    click.echo(f"{graph.describe()}, from feature level {graph.minimum_feature_level} on")

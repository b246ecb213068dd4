"""`dml-jax show`: models and graphs as tables and pictures."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dml_jax.cli.models import load_model_or_graph, rows_of, show_model
from dml_jax.cli.networks import free_option, is_network, load_network, show_network
from dml_jax.cli.terminal import (
    FILE,
    INPUT,
    as_values,
    json_option,
    reporting,
    say_json,
    show_table,
)
from dml_jax.errors import NOTHING, DmlError, Fault

if TYPE_CHECKING:
    from dml_jax.dispatch.model import Model
    from dml_jax.graph import Graph


@click.command()
@click.argument("file", type=INPUT)
@click.option(
    "-o",
    "--output",
    type=FILE,
    help="Draw it too, to a .svg or .png file.",
)
@click.option("--python", "as_python", is_flag=True, help="Print the Python program that makes it.")
@free_option
@json_option
def show(
    file: Path,
    output: Path | None,
    as_python: bool,
    free_dimensions: dict[str, int],
    as_json: bool,
) -> None:
    """Show the operators of FILE, a model, a graph or an ONNX network, as a table.

    With -o, draw it too. With --python, print a Python program instead of the table: it builds
    the graph, or runs the model.

    \b
    dml-jax show model.json
    dml-jax show graph.json -o graph.svg
    dml-jax show network.onnx -f batch:8
    dml-jax show model.json --python > model.py
    """  # noqa: D301
    from dml_jax.graph import Graph

    with reporting(as_json):
        if output is not None:
            from dml_jax.diagrams import check_diagram

            check_diagram(output)
        if as_python:
            loaded = _loaded(file, free_dimensions)
            text = _program(loaded)
            say_json({"python": text}) if as_json else click.echo(text, nl=False)
        else:
            loaded = _shown(file, free_dimensions, as_json)
        if output is not None and loaded is not None:
            from dml_jax.diagrams import draw, graph_picture
            from dml_jax.dispatch.pictures import model_picture

            picture = graph_picture(loaded) if isinstance(loaded, Graph) else model_picture(loaded)
            draw(picture, output)
            click.echo(f"Drawn to '{output}'", err=as_json or as_python)


def _loaded(file: Path, free_dimensions: dict[str, int]) -> "Model | Graph":
    """Return the model or graph of a file. Raises `DmlError` if a network has no operators."""
    if not is_network(file):
        return load_model_or_graph(file)
    graph = load_network(file, free_dimensions).graph
    if graph is None:
        rule = "have an operator (its outputs are known without one)"
        raise DmlError([Fault("", f"the network '{file}'", rule, NOTHING)])
    return graph


def _program(loaded: "Model | Graph") -> str:
    from dml_jax.code import program
    from dml_jax.dispatch.code import model_program
    from dml_jax.graph import Graph

    return program(loaded) if isinstance(loaded, Graph) else model_program(loaded)


def _shown(file: Path, free_dimensions: dict[str, int], as_json: bool) -> "Model | Graph | None":
    """Print the operators of a file; return what holds them."""
    from dml_jax.graph import Graph

    if is_network(file):
        network = load_network(file, free_dimensions)
        show_network(network, as_json)
        return network.graph
    loaded = load_model_or_graph(file)
    if isinstance(loaded, Graph):
        _show_nodes(loaded, as_json)
    else:
        show_model(loaded, as_json)
    return loaded


def _show_nodes(graph: "Graph", as_json: bool) -> None:
    rows = list(rows_of(graph))
    if as_json:
        say_json({**as_values("", "graph", graph), "nodes": [as_values(*row) for row in rows]})
        return
    show_table("Node", rows)
    click.echo(f"{graph.describe()}, from feature level {graph.minimum_feature_level} on")

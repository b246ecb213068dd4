"""`dml-jax show`: models and graphs as tables and pictures."""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dml_jax.cli.model_files import load_file, network_options
from dml_jax.cli.terminal import (
    INPUT,
    Command,
    Target,
    json_option,
    new_folder,
    reporting,
    say_json,
)
from dml_jax.errors import DmlError, Fault, Unquoted
from dml_jax.onnx.options import NetworkOptions

if TYPE_CHECKING:
    from dml_jax.dxdispatch.model import Model
    from dml_jax.graph import Graph
    from dml_jax.onnx import Network


@click.command(cls=Command)
@click.argument("file", type=INPUT)
@click.option("-o", "--output", type=Target(), help="Draw it too, to a .svg or .png file.")
@click.option("--python", "as_python", is_flag=True, help="Print the Python program that makes it.")
@network_options
@json_option
def show(
    file: Path, output: Path | None, as_python: bool, options: NetworkOptions, as_json: bool
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
    with reporting(as_json):
        from dml_jax.cli.tables import as_values, rows_of, show_model, show_network, show_rows
        from dml_jax.dxdispatch.model import Model
        from dml_jax.graph import Graph
        from dml_jax.show.diagrams import check_diagram, draw, graph_picture
        from dml_jax.show.dxdispatch_models import model_picture

        new = "" if output is None else new_folder(output)
        if output is not None:
            check_diagram(output)
        loaded = load_file(file, options, takes_graphs=True)
        if output is not None:
            if isinstance(loaded, Graph):
                picture = graph_picture(loaded)
            elif isinstance(loaded, Model):
                picture = model_picture(loaded)
            else:
                picture = graph_picture(loaded.graph, loaded.weights)
            draw(picture, output)  # before the table, whose reader may leave early
        if as_python:
            text = _program(loaded, file)
            say_json({"python": text}) if as_json else click.echo(text, nl=False)
        elif isinstance(loaded, Graph):
            known = as_values("", "graph", loaded) if as_json else {}
            show_rows("Node", rows_of(loaded), as_json, known)
            if not as_json:
                level = loaded.minimum_feature_level
                click.echo(f"{loaded.describe()}, from feature level {level} on")
        elif isinstance(loaded, Model):
            show_model(loaded, as_json)
        else:
            show_network(loaded, as_json)
        if output is not None:
            click.echo(f"Drawn to '{output}'{new}", err=as_json or as_python)


def _program(loaded: "Model | Graph | Network", file: Path) -> str:
    """Return the program that makes what was loaded. Raises `DmlError` where there is none."""
    from dml_jax.dxdispatch.model import Model
    from dml_jax.graph import Graph
    from dml_jax.operator import Operator
    from dml_jax.show.dxdispatch_source import model_program
    from dml_jax.show.source import program

    if isinstance(loaded, Graph):
        return program(loaded)
    if not isinstance(loaded, Model):
        return program(loaded.graph) + _with_weights(file, loaded, loaded.graph)
    operators = [dispatchable.operator for dispatchable in loaded.dispatchables.values()]
    if loaded.hidden or not all(isinstance(o, (Operator, Graph)) for o in operators):
        rule = "have operators and graphs alone, to become a program (load_onnx takes networks)"
        value = Unquoted("networks or serialized graphs")
        raise DmlError([Fault("", "the dispatchables", rule, value)])
    return model_program(loaded)


def _with_weights(file: Path, network: "Network", graph: "Graph") -> str:
    """Return comments that call the graph of a network with its weights; "" without weights."""
    if not network.weights:
        return ""
    shapes = {name: list(kind.shape or ()) for name, kind in network.inputs.items()}
    arguments = []
    for name, tensor in zip(graph.input_names or (), graph.inputs, strict=True):
        place = "weights" if name in network.weights else "inputs"
        known = network.weights.get(name, network.inputs.get(name))
        is_scalar = known is not None and known.shape == ()
        arguments.append(f"{place}[{name!r}]" + f".reshape({list(tensor.sizes)})" * is_scalar)
    call = textwrap.fill(
        f"graph({', '.join(arguments)})", 96, initial_indent="# ", subsequent_indent="#     "
    )
    return (
        "\n# The graph takes the weights of the network as arguments:\n"
        f"# weights = dml_jax.load_onnx({str(file)!r}, {shapes}).weights\n"
        f"{call}\n"
    )

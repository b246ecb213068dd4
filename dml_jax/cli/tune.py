"""`dml-jax tune`: finds the fastest layout and kernels for a network on this machine."""

from pathlib import Path

import click

from dml_jax.cli.model_files import load_network, network_options
from dml_jax.cli.terminal import INPUT, Command, Finite, json_option, reporting, say_json
from dml_jax.onnx.options import NetworkOptions


@click.command(cls=Command)
@click.argument("network", type=INPUT)
@click.option(
    "-t",
    "--seconds",
    type=Finite(0),
    default=60,
    show_default=True,
    help="About how long it takes.",
)
@click.option("--forget", is_flag=True, help="Remove what was kept for the network, and stop.")
@network_options
@json_option
def tune(
    network: Path, seconds: float, forget: bool, options: NetworkOptions, as_json: bool
) -> None:
    """Time layouts and kernels for NETWORK, an ONNX file, and keep the fastest.

    Later commands, and load_onnx in Python, use it for networks of the same sizes on this machine.

    \b
    dml-jax tune network.onnx            about a minute
    dml-jax tune network.onnx -f batch:8 with a batch of 8
    dml-jax tune network.onnx --forget   as without tuning again
    """  # noqa: D301
    with reporting(as_json):
        loaded = load_network(network, options)
        if forget:
            was_kept = loaded.untune()
            if as_json:
                say_json({"forgotten": was_kept})
            else:
                click.echo("Forgotten." if was_kept else "There was nothing to forget.")
            return
        found = loaded.tune(seconds)
        if not as_json:
            click.echo(str(found))
            return
        rows = [
            {"layout": c.layout, "kernels": c.kernels, "ms": c.ms, "note": c.note}
            for c in found.candidates
        ]
        say_json({"candidates": rows, "file": found.file and str(found.file)})

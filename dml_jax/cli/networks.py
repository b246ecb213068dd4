"""ONNX networks for the commands: loaded with sizes for free dimensions, shown and run."""

import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dml_jax.cli.models import rows_of
from dml_jax.cli.terminal import as_values, say_folded, say_json, show_table
from dml_jax.enums import FeatureLevel
from dml_jax.errors import DmlError, printable

if TYPE_CHECKING:
    from dml_jax.onnx import Network

_NAME = "NAME:SIZE"


def is_network(path: Path) -> bool:
    """Return whether a file is named as an ONNX model."""
    return path.suffix.lower() == ".onnx"


def _sizes(ctx: click.Context, parameter: click.Parameter, values: Sequence[str]) -> dict[str, int]:
    sizes = {}
    for value in values:
        name, _, size = value.rpartition(":")
        if not name or not size.isdigit() or not int(size):
            raise click.BadParameter(f"{value!r} is not {_NAME}, with a size of at least 1.")
        sizes[name] = int(size)
    return sizes


free_option = click.option(
    "-f",
    "free_dimensions",
    metavar=_NAME,
    multiple=True,
    callback=_sizes,
    help="Size of a free dimension of an ONNX network (others have size 1). Repeatable.",
)


def load_network(
    path: Path, free_dimensions: Mapping[str, int], feature_level: FeatureLevel | None = None
) -> "Network":
    """Return the network at `path`; free dimensions without a size have size 1.

    Raises `DmlError` with all faults, also if `feature_level` does not accept all its operators.
    """
    from dml_jax.onnx import free_sizes, load_onnx

    shapes, names = free_sizes(path, free_dimensions)
    network = load_onnx(path, shapes, names)
    if feature_level is not None and network.graph is not None:
        faults = network.graph.refused_at(feature_level)
        if faults:
            raise DmlError(faults)
    return network


def show_network(network: "Network", as_json: bool, name: str = "") -> None:
    """Print the operators of a network; `name` tells it from others."""
    rows = [] if network.graph is None else list(rows_of(network.graph))
    if as_json:
        title: dict[str, Any] = {"model": name} if name else {}
        level = network.minimum_feature_level.suffix
        nodes = [as_values(*row) for row in rows]
        say_json({**title, "feature_level": level, "weights": _weights(network), "nodes": nodes})
        return
    if name:
        click.echo(f"{printable(name)}:")
    show_table("Node", rows)
    weights = _weights(network)
    click.echo(
        f"{len(rows)} nodes, {weights['count']} weights ({weights['bytes']:,} bytes), "
        f"from feature level {network.minimum_feature_level} on"
    )


def _weights(network: "Network") -> dict[str, int]:
    arrays = network.weights.values()
    return {"count": len(arrays), "bytes": sum(a.nbytes for a in arrays)}


def run_network(
    path: Path,
    free_dimensions: Mapping[str, int],
    feature_level: FeatureLevel | None,
    device: Any,
    iterations: int,
    as_json: bool,
) -> None:
    """Run a network with random inputs; print its outputs' shapes, and the time of each step."""
    import jax

    start = time.perf_counter()
    with jax.default_device(device):
        network = load_network(path, free_dimensions, feature_level)
        inputs = network.random_inputs()
        loaded = time.perf_counter()
        results = jax.block_until_ready(network(inputs))
        first = time.perf_counter()
        samples = []
        for _ in range(iterations):
            begin = time.perf_counter()
            jax.block_until_ready(network(inputs))
            samples.append(time.perf_counter() - begin)
    times = {
        "load_ms": 1e3 * (loaded - start),
        "compile_ms": 1e3 * (first - loaded),
        "run_ms": 1e3 * statistics.median(samples),
    }
    shapes = {name: [array.dtype.name, list(array.shape)] for name, array in results.items()}
    if as_json:
        say_json({"outputs": shapes, **times})
        return
    rows = [[printable(name), dtype, str(shape)] for name, (dtype, shape) in shapes.items()]
    say_folded(["Output", "Type", "Shape"], *rows)
    click.echo(
        f"Load {times['load_ms']:.0f} ms, compile {times['compile_ms']:.0f} ms, "
        f"run {times['run_ms']:.3f} ms (median of {iterations})"
    )

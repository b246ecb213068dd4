"""`dml-jax bench`: what this device's memory gives, and how much of it the operators take."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dml_jax.cli.terminal import Finite, console, find_device, name_of, progress, reporting
from dml_jax.enums import TensorDataType
from dml_jax.errors import DmlError, Fault

if TYPE_CHECKING:
    from dml_jax.bench.cells import Cell


def _kinds(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from dml_jax.bench.cells import named_kinds

    return [name for name in named_kinds() if name.startswith(incomplete.upper())]


def _known(ctx: click.Context, parameter: click.Parameter, values: Any) -> Any:
    from dml_jax.bench.cells import chosen

    try:
        chosen(values)
    except DmlError as error:
        raise click.BadParameter(str(error)) from None
    return values


def _types(ctx: click.Context, parameter: click.Parameter, values: Any) -> Any:
    try:
        return [TensorDataType.of(value.upper()) for value in values]
    except DmlError as error:
        raise click.BadParameter(str(error)) from None


def _sizes(ctx: click.Context, parameter: click.Parameter, values: Any) -> Any:
    try:
        return [tuple(int(size) for size in value.strip("[]").split(",")) for value in values]
    except ValueError:
        raise click.BadParameter(f"expected sizes such as 8,64,256,256, got {values}") from None


@click.command()
@click.option(
    "--operator",
    "operators",
    multiple=True,
    metavar="NAME",
    callback=_known,
    shell_complete=_kinds,
    help="Only this operator, or CHAINS, BACKWARD, VMAP; may stand several times.",
)
@click.option(
    "--dtype", "types", multiple=True, metavar="TYPE", callback=_types, help="FLOAT32, UINT8, ..."
)
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="SIZES",
    callback=_sizes,
    help="8,64,256,256: in place of the table's sizes.",
)
@click.option(
    "--model",
    type=click.Path(path_type=Path),
    help="Measure the dispatchables of a DxDispatch model in place of the table.",
)
@click.option("--device", default="", help="Substring of the name of the device to use.")
@click.option("--quick", is_flag=True, help="One cell in nine.")
@click.option(
    "--seconds",
    type=Finite(min=0.001),
    default=0.5,
    show_default=True,
    help="Of samples for each cell, about.",
)
@click.option(
    "--limit",
    type=Finite(min=0.001),
    help="MB of the largest tensor; larger ones are cut. By default 200 on a CPU, else 2148.",
)
@click.option(
    "--overhead/--no-overhead", default=True, help="Also the calls of small cells, and compiling."
)
@click.option(
    "--json",
    "json_file",
    is_flag=False,
    flag_value="-",
    metavar="FILE",
    help="Write JSON, to a file or (-, or no name) to stdout in place of the tables.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Draw the roofline: .svg or .png."
)
def bench(
    operators: tuple[str, ...],
    types: list[TensorDataType],
    shapes: list[tuple[int, ...]],
    model: Path | None,
    device: str,
    quick: bool,
    seconds: float,
    limit: float | None,
    overhead: bool,
    json_file: str | None,
    output: Path | None,
) -> None:
    """Measure the operators against this device's memory.

    First plain copies and reads of large arrays, then every operator over a table of sizes and
    types: the time of a call whose outputs are allocated, the time of one whose outputs are bound,
    and the bytes that must move, a second, beside a copy (a read, for reductions) timed in turn
    with it.

    \b
    dml-jax bench --quick
    dml-jax bench --operator REDUCE --dtype FLOAT16 -o roofline.svg
    dml-jax bench --operator TILE --shape 1,64,256,256 --json tile.json
    dml-jax bench --model model.json
    """  # noqa: D301  (click reads \b as a control character)
    from dml_jax.bench import report
    from dml_jax.bench.cells import small_cells
    from dml_jax.bench.overhead import measure_overhead
    from dml_jax.bench.roofline import Bench, environment
    from dml_jax.files import check_writable

    with reporting(json_file == "-"):
        if output is not None:
            report.check_picture(output)
            check_writable(output)
        if json_file not in (None, "-"):
            check_writable(Path(json_file))
        chosen = find_device(device, "--device")
        most = int((limit or (200 if chosen.platform == "cpu" else 2148)) * 1e6)
        cells = _cells(operators, types, shapes, model, most, quick)
        run = Bench(chosen, seconds, most)
        known = environment(chosen)
        to_stdout = json_file != "-"
        if to_stdout:
            click.echo(f"{name_of(chosen)}, {known['cpu']}, jax {known['jax']}")
        bandwidth = run.bandwidth(cells)
        if to_stdout:
            console().print(report.bandwidth_table(bandwidth))
        measuring = run.run(cells)
        measured = [next(measuring) for _ in progress(None)(range(len(cells)), "Measuring")]
        small = []
        if overhead and model is None and not shapes:
            kinds = {cell.kind for cell in cells}
            few = [cell for cell in small_cells() if cell.kind in kinds][:: 3 if quick else 1]
            calling = measure_overhead(few, chosen, min(seconds, 0.3))
            small = [next(calling) for _ in progress(None)(range(len(few)), "Calling")]
        if to_stdout:
            console().print(report.cell_table(measured))
            click.echo(report.summary(measured))
        if to_stdout and small:
            console().print(report.overhead_table(small))
        if json_file is not None:
            _write_json(
                json_file,
                {
                    "environment": known,
                    "bandwidth": bandwidth.to_json(),
                    "cells": [m.to_json() for m in measured],
                    "overhead": [o.to_json() for o in small],
                },
            )
        if output is not None:
            report.draw(known, bandwidth, measured, output)
            click.echo(f"Drawn to '{output}'", err=not to_stdout)


def _cells(
    operators: tuple[str, ...],
    types: list[TensorDataType],
    shapes: list[tuple[int, ...]],
    model: Path | None,
    limit: int,
    quick: bool,
) -> "list[Cell]":
    from dml_jax.bench.cells import Cell, cells

    if model is None:
        return cells(operators, types, shapes, limit, every=9 if quick else 1)
    if operators or types or shapes:
        rule = "stand without --operator, --dtype and --shape"
        raise DmlError([Fault("", "--model", rule, str(model))])
    from dml_jax.dispatch.model import load_model

    found = load_model(model).dispatchables.items()
    return [Cell("MODEL", name, dispatchable.operator) for name, dispatchable in found]


def _write_json(target: str, value: Any) -> None:
    text = json.dumps(value, indent=1)
    if target == "-":
        click.echo(text)
        return
    from dml_jax.files import write_whole

    write_whole(Path(target), lambda file: file.write(text.encode() + b"\n"))
    click.echo(f"Written to '{target}'", err=not sys.stdout.isatty())

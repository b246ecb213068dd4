"""`dml-jax bench`: what this device's memory gives, and how much of it the operators take."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dml_jax.cli.models import load
from dml_jax.cli.terminal import (
    FILE,
    INPUT,
    Finite,
    device_names,
    find_device,
    name_of,
    progress,
    reporting,
    say_table,
    usage_errors,
)
from dml_jax.enums import TensorDataType
from dml_jax.errors import DmlError, Fault
from dml_jax.tensor import TensorDesc

if TYPE_CHECKING:
    from dml_jax.bench.cells import Cell


def _kinds(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from dml_jax.bench.cells import named_kinds

    return [name for name in named_kinds() if name.startswith(incomplete.upper())]


def _type_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    names = (t.name for t in TensorDataType if t.element_size)
    return [name for name in names if name.startswith(incomplete.upper())]


def _known(ctx: click.Context, parameter: click.Parameter, values: Any) -> Any:
    from dml_jax.bench.cells import chosen

    with usage_errors():
        chosen(values)
    return values


def _types(ctx: click.Context, parameter: click.Parameter, values: Any) -> Any:
    with usage_errors():
        return [TensorDataType.of(value.upper()) for value in values]


def _sizes(ctx: click.Context, parameter: click.Parameter, values: Any) -> Any:
    try:
        found = [tuple(int(size) for size in value.strip("[]").split(",")) for value in values]
    except ValueError:
        got = " ".join(values) or "nothing"
        raise click.BadParameter(f"expected sizes such as 8,64,256,256, got {got}") from None
    with usage_errors():
        return [TensorDesc(TensorDataType.FLOAT32, sizes).sizes for sizes in found]


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
    "--dtype",
    "types",
    multiple=True,
    metavar="TYPE",
    callback=_types,
    shell_complete=_type_names,
    help="FLOAT32, UINT8, ...",
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
    type=INPUT,
    help="Measure the dispatchables of a DxDispatch model in place of the table.",
)
@click.option(
    "--device",
    default="",
    shell_complete=device_names,
    help="Substring of the name of the device to use.",
)
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
    help="MB of the largest tensor; the table's are cut. By default 200 on a CPU, else 2148.",
)
@click.option(
    "--overhead/--no-overhead",
    default=None,
    help="Also the calls of small cells, and compiling; not with --shape or --model.",
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
    "-o",
    "--output",
    type=FILE,
    help="Draw the roofline: .svg or .png.",
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
    overhead: bool | None,
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
    from dml_jax.bench.roofline import Bench, default_limit, environment
    from dml_jax.files import check_writable
    from dml_jax.pictures import check_picture

    if model is not None and (operators or types or shapes):
        raise click.UsageError("--model stands without --operator, --dtype and --shape.")
    if overhead and (model is not None or shapes):
        raise click.UsageError("--overhead stands without --shape and --model.")
    with reporting(json_file == "-"):
        if output is not None:
            check_picture(output)
            check_writable(output)
        if json_file not in (None, "-"):
            check_writable(Path(json_file))
        chosen = find_device(device, "--device")
        most = int(limit * 1e6) if limit else default_limit(chosen)
        cells = _cells(operators, types, shapes, model, most, quick)
        if limit is not None:
            _check_limit(limit, cells)
        run = Bench(chosen, seconds, most)
        known = environment(chosen)
        to_stdout = json_file != "-"
        if to_stdout:
            click.echo(f"{name_of(chosen)}, {known['cpu']}, jax {known['jax']}")
        is_table = model is None and not shapes
        kinds = {cell.kind for cell in cells} if overhead is not False and is_table else ()
        few = [cell for cell in small_cells() if cell.kind in kinds][:: 3 if quick else 1]
        bandwidth, measured, small, interrupted = None, [], [], False
        try:
            bandwidth = run.bandwidth(cells)
            if to_stdout:
                say_table(report.bandwidth_table(bandwidth))
            _each(run.run(cells), measured, len(cells), "Measuring")
            _each(measure_overhead(few, chosen, min(seconds, 0.3)), small, len(few), "Calling")
        except KeyboardInterrupt:  # what is measured is reported
            interrupted = True
        if to_stdout and measured:
            say_table(report.cell_table(measured))
            click.echo(report.summary(measured))
        if to_stdout and small:
            say_table(report.overhead_table(small))
        # A file of an earlier run is worth more than nothing.
        if json_file is not None and (measured or json_file == "-"):
            _write_json(
                json_file,
                {
                    "environment": known,
                    "bandwidth": bandwidth and bandwidth.to_json(),
                    "cells": [m.to_json() for m in measured],
                    "overhead": [o.to_json() for o in small],
                    **({"interrupted": True} if interrupted else {}),
                },
            )
        if output is not None and bandwidth is not None and measured:
            report.draw(known, bandwidth, measured, output)
            click.echo(f"Drawn to '{output}'", err=not to_stdout)
        if interrupted:
            raise KeyboardInterrupt


def _each(measuring: Iterator[Any], found: list[Any], count: int, title: str) -> None:
    """Puts each that is measured into a list, so that it is there when the next is interrupted."""
    for _ in progress()(range(count), title):
        found.append(next(measuring))


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
    found = load(model).dispatchables.items()
    return [Cell("MODEL", name, dispatchable.operator) for name, dispatchable in found]


def _check_limit(limit: float, cells: "list[Cell]") -> None:
    """Sizes that are given are not cut, and are compared with copies of up to the limit."""
    for cell in cells:
        largest = cell.largest / 1e6
        if largest > limit:
            rule = f"be at least {largest:g}, the MB of the largest tensor of {cell.name}"
            raise DmlError([Fault("", "--limit", rule, limit)])


def _write_json(target: str, value: Any) -> None:
    text = json.dumps(value, indent=1)
    if target == "-":
        click.echo(text)
        return
    from dml_jax.files import write_whole

    write_whole(Path(target), lambda file: file.write(text.encode() + b"\n"))
    click.echo(f"Written to '{target}'", err=not sys.stdout.isatty())

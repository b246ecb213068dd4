"""`dml-jax bench`: the limits of a device, and the share of them that operators reach."""

import json
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dml_jax.cli.models import load
from dml_jax.cli.terminal import (
    INPUT,
    PICTURE,
    Finite,
    device_names,
    find_device,
    name_of,
    new_folder,
    reporting,
    usage_errors,
)
from dml_jax.enums import TensorDataType
from dml_jax.errors import nearest, printable, refused
from dml_jax.facts import PREFIX, catalogue, names_of_aliases
from dml_jax.show.names import search

if TYPE_CHECKING:
    from dml_jax.bench.cells import Cell

QUICK_SECONDS = 20  # after these `--quick` begins no further cell, however long the table is


def _complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    names = [*catalogue()]
    if parameter.name == "types":
        names = [t.name for t in TensorDataType if t.element_size]
    return [name for name in names if name.startswith(incomplete.upper())]


def _known(ctx: click.Context, parameter: click.Parameter, values: Any) -> list[str]:
    with usage_errors():
        if parameter.name == "types":
            members = TensorDataType.__members__
            return [
                TensorDataType.of(v.upper() if v.upper() in members else v).name for v in values
            ]
        return list(map(_operator, values))


def _operator(word: str) -> str:
    """Return the operator of a name. Raises `DmlError` with those that a search finds."""
    name = word.upper().removeprefix(PREFIX)
    name = names_of_aliases().get(name, name)
    if name in catalogue():
        return name
    named, others = search(word)
    found = list(named or others)
    hint = f" (such as {', '.join(found[:6])})" if found else nearest(word.upper(), catalogue())
    if "," in word:
        hint = f" (one each: {' '.join(f'--operator {name}' for name in word.split(','))})"
    raise refused(f"be an operator{hint}", word)


_SIZES = "MiB of the largest tensor. Default: 8 and 64; --quick 64; --roofline 8."
SIZES: dict[str, Any] = {"multiple": True, "type": Finite(1e-6, 16_000)}
DEVICE = ("-a", "--adapter", "--device", "adapter")
JSON: dict[str, Any] = {"flag_value": "-", "is_flag": False, "metavar": "FILE"}
NAMES: dict[str, Any] = {"multiple": True, "callback": _known, "shell_complete": _complete}


@click.command()
@click.option("--operator", "operators", **NAMES, help="This operator, all variants; repeatable.")
@click.option("--dtype", "types", **NAMES, help="Default: FLOAT32, FLOAT16 and UINT8.")
@click.option("--mb", "sizes", **SIZES, help=_SIZES)
@click.option("--model", type=INPUT, help="Measure the dispatchables of a DxDispatch model.")
@click.option(*DEVICE, default="", shell_complete=device_names, help="Part of a device's name.")
@click.option("--roofline", is_flag=True, help="Also find the peak of a product; draw both limits.")
@click.option("--quick", is_flag=True, help="One variant of each in FLOAT32: half a minute.")
@click.option("--seconds", type=Finite(0.001), default=0.3, help="Seconds of samples a cell.")
@click.option("-v", "--verbose", is_flag=True, help="Also time allocating calls; draw small cells.")
@click.option("--json", "json_file", **JSON, help="Write JSON; alone, or to -, in place of tables.")
@click.option("-o", "--output", type=PICTURE, help="Draw the chart, or the roofline: .svg or .png.")
def bench(
    operators: list[str],
    types: list[str],
    sizes: tuple[float, ...],
    model: Path | None,
    adapter: str,
    roofline: bool,
    quick: bool,
    seconds: float,
    verbose: bool,
    json_file: str | None,
    output: Path | None,
) -> None:
    """Measure the memory bandwidth of a device, and the share of it that operators reach.

    A plain copy of a large array measures the bandwidth. Each cell is an operator with its
    attributes, type and sizes; it is timed in turn with the copy. With --roofline a product of
    large matrices measures the peak of arithmetic, and cells are held against both limits. Without
    --quick the table takes a few minutes.

    \b
    dml-jax bench --quick -o bandwidth.svg
    dml-jax bench --operator REDUCE --dtype FLOAT16
    dml-jax bench --operator TILE --mb 16 --mb 256 --json tile.json
    dml-jax bench --model model.json
    dml-jax bench --roofline -o roofline.svg
    """  # noqa: D301  (click reads \b as a control character)
    if model is not None and (operators or types or sizes):
        raise click.UsageError("--model stands without --operator, --dtype and --mb.")
    to_stdout = json_file != "-"
    with reporting(not to_stdout):
        from dml_jax.bench import report
        from dml_jax.bench import roofline as roofs
        from dml_jax.bench.measure import Bench, environment
        from dml_jax.bench.memory import WAYS
        from dml_jax.files import check_writable, write_whole
        from dml_jax.show.figures import check_picture

        new = "" if output is None else new_folder(output)
        if output is not None:
            check_picture(output)
            check_writable(output)
        if json_file is not None and to_stdout:
            check_writable(Path(json_file))
        device = find_device(adapter, "--adapter")
        chosen = _cells(operators, types, sizes, model, quick, roofline)
        known = environment(device)
        title = f"{name_of(device)}, {known['cpu']}, jax {known['jax']}"
        run = Bench(device, seconds, WAYS if verbose else WAYS[:1], roofline)
        measured, interrupted = [], False
        try:
            for _, found in zip(_shown(chosen, quick), run.run(chosen), strict=False):
                measured.append(found)
        except KeyboardInterrupt:  # what is measured is reported
            interrupted = True
        part = f" ({len(measured)} of {len(chosen)} cells)" if len(measured) < len(chosen) else ""
        copies, peaks = report.copies(measured), roofs.peaks(measured)
        if to_stdout and measured:
            copied = ", ".join(
                f"copy {report.shown(rate)} GB/s ({name})" for name, rate in copies.items()
            )
            made = ", ".join(
                f"product {report.shown(r, 4)} GFLOP/s ({name})" for name, r in peaks.items()
            )
            click.echo("\n".join(filter(None, [title, copied, made])))
            _print(report.cell_table(measured, verbose, roofline), report.COLUMNS)
            legend = roofs.LEGEND if roofline else report.LEGEND
            ridges = [roofs.ridges(measured)] if roofline else []
            click.echo("\n".join([legend, *[report.ALLOCATED] * verbose]))
            lines = [report.summary(measured, roofline), report.busy(measured), *ridges]
            click.echo("\n".join(filter(None, lines)))
        # A file of an earlier run is worth more than an empty one.
        if json_file is not None and (measured or not to_stdout):
            made = [m.to_json() for m in measured]
            value = {"environment": known, "copy_gb_s": copies, "cells": made}
            value |= {"product_gflop_s": peaks} if roofline else {}
            text = json.dumps(value | ({"interrupted": True} if interrupted else {}), indent=1)
            if to_stdout:
                write_whole(Path(json_file), lambda file: file.write(text.encode() + b"\n"))
            click.echo(f"Written to '{json_file}'{part}" if to_stdout else text)
        if output is not None and measured:
            if roofline:
                roofs.draw(title, measured, output)
            else:
                report.draw(title, measured, output, verbose)
            click.echo(f"Drawn to '{output}'{part}{new}", err=not to_stdout)
        if interrupted:
            raise KeyboardInterrupt


def _cells(
    operators: list[str],
    types: list[str],
    sizes: tuple[float, ...],
    model: Path | None,
    quick: bool,
    roofline: bool,
) -> "list[Cell]":
    from dml_jax.bench import roofline as roofs
    from dml_jax.bench.cells import MEBIBYTES, VARIANTS, Cell, cells

    if model is not None:
        found = load(model).dispatchables.items()
        return [Cell(printable(name), "", dispatchable.operator) for name, dispatchable in found]
    names = operators or (roofs.OPERATORS if roofline else ())
    sizes = sizes or (roofs.MEBIBYTES if roofline else ())
    if quick:
        return cells(names, types, sizes or MEBIBYTES[-1:], 1, None if types else 1)
    types = types or list(roofs.TYPES if roofline else ())
    return cells(names, types, sizes, None if operators else VARIANTS)


def _shown(chosen: "list[Cell]", quick: bool) -> "Iterator[Cell]":
    """Yield cells, and show on standard error which is measured; if `quick`, not for too long.

    A terminal shows one line that changes; a file gets a line every five seconds.
    """
    live, begin = sys.stderr.isatty(), time.monotonic()
    last = begin
    try:
        for number, cell in enumerate(chosen):
            moment = time.monotonic()
            if quick and moment > begin + QUICK_SECONDS:
                click.echo(f"Time is up; not measured: {len(chosen) - number} cells", err=True)
                return
            if live or moment > last + 5:
                line, last = f"[{number + 1}/{len(chosen)}] {cell.name}", moment
                click.echo(f"\r\x1b[K{line[:79]}" if live else line, err=True, nl=not live)
            yield cell
    finally:
        if live:
            click.echo("\r\x1b[K", err=True, nl=False)


def _print(table: Any, columns: int) -> None:
    from rich.console import Console

    width = min(shutil.get_terminal_size((columns, 0)).columns, columns)
    Console(width=width, markup=False, highlight=False).print(table)

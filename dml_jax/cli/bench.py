"""`dml-jax bench`: the limits of a device, and the share of them that operators reach."""

import contextlib
import json
import math
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dml_jax.cli.bench_options import BenchCommand, BenchOptions, bench_options, check_together
from dml_jax.cli.model_files import load, load_network
from dml_jax.cli.network_options import network_options
from dml_jax.cli.terminal import (
    Failure,
    find_device,
    name_of,
    new_folder,
    reporting,
    usage_errors,
)
from dml_jax.errors import DmlError, Fault, printable, raise_if

if TYPE_CHECKING:
    from dml_jax.bench.cells import Cell
    from dml_jax.bench.measure import Bench
    from dml_jax.bench.report import Table
    from dml_jax.bench.rows import Results

COLUMNS = 100  # of a table where the terminal has more


@click.command(cls=BenchCommand)
@bench_options
@network_options
@click.pass_context
def bench(ctx: click.Context, **asked: Any) -> None:
    """Measure a device: its limits, operators, models and networks, each beside a plain copy.

    Without options, a table of typical operators and the share of a copy's bandwidth that they
    reach. A cell is an operator with its attributes, type and sizes, timed in turn with the copy.

    \b
    dml-jax bench --quick -o bandwidth.svg
    dml-jax bench --limits
    dml-jax bench --operator REDUCE --filter "SUM axes=[0]" --dtype FLOAT16
    dml-jax bench --operator CONVOLUTION --sizes 8,64,56,56 --peers jnp
    dml-jax bench --network net.onnx --roofline -o net.html
    dml-jax bench --operator REDUCE -o new.json
    dml-jax bench --compare old.json new.json --fail-above 1.1
    """  # noqa: D301  (click reads \b as a control character)
    check_together(ctx)
    options = BenchOptions(**asked, line=_without_files(ctx.meta["words"]))
    with reporting(not options.to_stdout):
        from dml_jax.bench import output_files, runs
        from dml_jax.bench.rows import environment

        if options.compare is not None:
            _compare(options)
            return
        for target in () if options.child else options.targets:
            output_files.check_target(target)
        is_here = options.child or options.listing or options.profile
        if (options.process_count > 1 or options.resume) and not is_here:
            _run(options, None)
            return
        device = find_device(options.adapter, "--adapter")
        cells = _cells(device, options)
        if options.listing:
            click.echo("\n".join(cell.name for cell in cells))
        elif options.child:
            known = {**environment(device), "name": name_of(device)}
            runs.child(_bench(device, options), cells, known, click.echo)
        elif options.profile is not None:
            _profile(cells, options.profile, device)
        else:
            _run(options, (_bench(device, options), cells))


def _without_files(words: Sequence[str]) -> list[str]:
    """Return the words of a command line without the files that it writes and reads."""
    others, skip = [], False
    for word in words:
        if skip:
            skip = False
        elif word in ("-o", "--output", "--resume"):
            skip = True
        elif not word.startswith(("--output=", "--resume=")):
            others.append(word)
    return others


def _bench(device: Any, options: BenchOptions) -> "Bench":
    """Return what measures on a device, as the options say."""
    from dml_jax.bench.measure import Bench
    from dml_jax.bench.memory import WAYS

    is_short = options.network or options.limits
    with usage_errors():
        return Bench(
            device,
            min(options.seconds, 0.1) if is_short else options.seconds,
            WAYS if options.verbose else WAYS[:1],
            options.roofline,
            options.peers,
            1 if options.limits else options.devices or 1,
            options.precision,
        )


def _cells(device: Any, options: BenchOptions) -> "list[Cell]":
    """Return the cells that the options ask for. Raises `DmlError` if there is none."""
    from dml_jax.bench.cell_choice import choice_of, matching
    from dml_jax.bench.limits import limits
    from dml_jax.bench.network_cells import cells_of, cells_of_network

    if options.model is not None:
        found = load(options.model, options.options).dispatchables.items()
        cells = [c for name, one in found for c in cells_of(one.operator, printable(name))]
    elif options.network is not None:
        network = load_network(options.network, replace(options.options, fallback=True))
        cells = cells_of_network(network, str(options.network))
    else:
        with usage_errors():
            if options.limits:
                cells = limits(device, options.types, options.devices or 0)
            else:
                cells = choice_of(
                    device,
                    options.operators,
                    options.families,
                    options.types,
                    options.mebibytes,
                    quick=options.quick,
                    roofline=options.roofline,
                    sizes=options.sizes,
                    gradient=options.gradient,
                    batch=options.batch or 0,
                ).cells()
    cells = matching(cells, options.words)
    fault = Fault("", "--filter", "be words of a cell's name (--list)", options.words)
    if options.named is not None:
        lines = {line.strip() for line in options.named}
        cells = [cell for cell in cells if cell.name in lines]
        rule = "have a line that is the name of a cell (--list)"
        fault = Fault("", "--cells", rule, options.named.name)
    if not cells:
        with usage_errors():
            raise DmlError([fault])
    return cells


def _run(options: BenchOptions, here: "tuple[Bench, list[Cell]] | None") -> None:
    """Measure, in this process or in others; print and write what was measured."""
    from dml_jax.bench import runs
    from dml_jax.bench.rows import Results, environment

    # A file of --resume that is missing is the first run of a script that always gives the option.
    if options.resume is not None and options.resume.exists():
        results = replace(Results.load(options.resume), interrupted=False)
    else:
        results = Results(options={"arguments": options.line})
    tell = _Progress()
    if here is not None:
        run, cells = here
        results.environment = {**environment(run.device), "name": name_of(run.device)}
        rows = runs.here(run, cells, results, tell)
    else:
        command = [sys.executable, "-m", "dml_jax", "bench", *options.line, "--child"]
        rows = runs.in_processes(command, results, options.process_count, options.narrow, tell)

    def save() -> None:
        with contextlib.suppress(DmlError):  # the end of the run says that no file can be written
            for target in options.data_files if results.rows else ():
                results.save(target)

    try:
        is_late = runs.take(rows, options.time_limit, save, lambda: tell.left > 0)
        tell.end()
        if is_late:
            left = results.cells - results.complete - len(results.failed)
            click.echo(f"Time is up; not complete: {left} of {results.cells} cells", err=True)
    except runs.WrongUsageError as error:
        raise click.UsageError(str(error)) from None
    except KeyboardInterrupt:  # the report has what was measured until then
        results.interrupted = True
    finally:
        tell.end()
    _say(options, results)
    if results.interrupted:
        raise KeyboardInterrupt


class _Progress:
    """Shows on standard error which cell is measured, and the time that is left.

    A terminal shows one line that changes; a file gets a line every five seconds.
    """

    def __init__(self) -> None:
        self.live, self.begin = sys.stderr.isatty(), time.monotonic()
        self.last, self.left = self.begin, 0

    def __call__(self, done: int, total: int, name: str) -> None:
        from dml_jax.bench.runs import time_left

        self.left, moment = total - done - 1, time.monotonic()
        if self.live or moment > self.last + 5:
            words = f"[{done + 1}/{total}{time_left(self.begin, done, total)}] {name}"
            self.last = moment
            click.echo(f"\r\x1b[K{words[:79]}" if self.live else words, err=True, nl=not self.live)

    def end(self) -> None:
        if self.live:
            click.echo("\r\x1b[K", err=True, nl=False)


def _say(options: BenchOptions, results: "Results") -> None:
    """Print the table, and write the files; an earlier file is worth more than an empty one."""
    from dml_jax.bench import report

    _say_failures(results.failed)
    title = report.header(results, results.environment.get("name", "")).splitlines()
    if not options.to_stdout:
        click.echo(json.dumps(results.to_json(), indent=1))
    elif results.rows:
        rows = [*results.rows.values()]
        click.echo("\n".join(title))
        table = report.table_of(rows, options.verbose)
        _print(table)
        lines = [table.legend(), report.summary(rows), report.busy(rows)]
        click.echo("\n".join(filter(None, [*lines, *report.differences(rows, options.peers)])))
    if results.rows:
        _write(options, results, title[0])
    elif results.failed:
        raise Failure("No cell was measured.")


def _say_failures(failed: Mapping[str, str]) -> None:
    for name, reason in [*failed.items()][:5]:
        click.echo(f"Not measured: {name}: {reason}", err=True)
    if len(failed) > 5:
        click.echo(f"Not measured: {len(failed) - 5} more cells", err=True)


def _write(options: BenchOptions, results: "Results", title: str) -> None:
    """Write the files of a run. Raises `DmlError` with those that cannot be written."""
    from dml_jax.bench import output_files

    part, faults = results.part(), list[Fault]()
    for target in options.targets:
        new = new_folder(target)
        try:
            output_files.write(target, results, title, options.verbose)
        except DmlError as error:  # the other files may lie elsewhere
            faults += error.faults
            continue
        verb = "Drawn" if target.suffix.lower() in output_files.PICTURES else "Written"
        click.echo(f"{verb} to '{target}'{part}{new}", err=not options.to_stdout)
    raise_if(faults)


def _compare(options: BenchOptions) -> None:
    """Print the verdict of each cell; end with status 1 if one failed, or is slower by a factor."""
    from dml_jax.bench import compare, output_files
    from dml_jax.bench.rows import Results

    for target in options.outputs:
        if target.suffix.lower() not in (".json", ".md", ".csv"):
            raise click.UsageError(f"--compare writes .json, .md or .csv, not '{target}'.")
    before, after = map(Results.load, options.compare)
    verdicts = compare.compare(before, after)
    _say_failures({v.name: after.failed[v.name] for v in verdicts if v.verdict == "failed"})
    if not options.to_stdout:
        click.echo(output_files.comparison_as(".json", verdicts), nl=False)
    else:
        _print(compare.table_of(verdicts))
        click.echo(compare.summary(verdicts))
    for target in options.targets:
        output_files.write_text(target, output_files.comparison_as(target.suffix, verdicts))
    slower = (v.ratio or math.inf for v in verdicts if v.verdict in ("slower", "failed"))
    if options.fail_above and any(ratio > options.fail_above for ratio in slower):
        sys.exit(1)


def _profile(cells: "list[Cell]", folder: Path, device: Any) -> None:
    """Write a trace of the whole program, and the nodes of each kernel beside it."""
    from dml_jax.bench.network_cells import profile
    from dml_jax.bench.output_files import write_text
    from dml_jax.graph import Graph

    cell = next((c for c in cells if c.family == "program"), cells[0])
    graph = getattr(cell.function, "graph", cell.function)
    if not isinstance(graph, Graph):
        raise click.UsageError("--profile needs --network, or a --model with a graph.")
    found = profile(cell, graph, folder, device)
    write_text(folder / "kernels.json", json.dumps(found, indent=1) + "\n")
    out, kernels = len(found.get("", ())), [name for name in found if name]
    count = sum(len(found[name]) for name in kernels)
    click.echo(f"{count} nodes stand in {len(kernels)} kernels; XLA left out {out}.")
    click.echo(f"Written to '{folder}': kernels.json, and a trace for Perfetto and xprof.")


def _print(table: "Table") -> None:
    from rich.console import Console

    rich_table = table.rich()
    width = min(shutil.get_terminal_size((COLUMNS, 0)).columns, COLUMNS)
    width = max(width, rich_table.min_width)  # a column that is cut off is worse than a folded line
    Console(width=width, markup=False, highlight=False).print(rich_table)

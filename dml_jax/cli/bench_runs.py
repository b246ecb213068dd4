"""What `dml-jax bench` measures, prints and writes."""

import contextlib
import json
import math
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
from rich.console import Console

from dml_jax.bench import compare, output_files, report, runs
from dml_jax.bench.cells import MEBIBYTES, VARIANTS, Cell, Choice, matching
from dml_jax.bench.limits import limits
from dml_jax.bench.measure import Bench
from dml_jax.bench.memory import WAYS
from dml_jax.bench.network_cells import cells_of, cells_of_network, profile
from dml_jax.bench.report import Table
from dml_jax.bench.rows import Results, environment
from dml_jax.cli.model_files import load, load_network
from dml_jax.cli.terminal import (
    STDIN,
    Failure,
    find_device,
    name_of,
    new_folder,
    usage_errors,
)
from dml_jax.errors import DmlError, Fault, printable, raise_if
from dml_jax.facts import catalogue
from dml_jax.graph import Graph

COLUMNS = 100  # of a table where the terminal has more
QUICK_SECONDS = 20  # after these `--quick` begins no further cell, however long the table is


# A namespace, no dataclass: click names some thirty options, and a field each would say them twice.
class BenchOptions(SimpleNamespace):
    """What the command line asks for, by the names of its options."""

    @property
    def to_stdout(self) -> bool:
        """Return whether tables are printed: JSON stands alone on standard output."""
        return self.json_file != "-"

    @property
    def data_files(self) -> list[Path]:
        """Return the files of the run as data, which it writes again and again."""
        named = [Path(self.json_file)] if self.json_file and self.to_stdout else []
        named = [*(path for path in self.outputs if path.suffix.lower() == ".json"), *named]
        return named + ([self.resume] if self.resume else [])

    @property
    def targets(self) -> list[Path]:
        """Return all files that the run writes, each once."""
        return [*dict.fromkeys([*self.outputs, *self.data_files])]

    @property
    def process_count(self) -> int:
        """Return how many processes measure each cell: several where the run is compared later."""
        has_data = self.resume or any(path.suffix.lower() == ".json" for path in self.outputs)
        is_repeated = has_data and not self.quick and self.model != STDIN
        return self.processes or (5 if is_repeated or self.narrow else 1)

    @property
    def time_limit(self) -> float:
        """Return the seconds after which no further cell begins."""
        return QUICK_SECONDS if self.quick else self.budget or math.inf


def bench_cells(options: BenchOptions) -> None:
    """Do what the command line asks for: measure, list, profile or compare cells."""
    if options.compare is not None:
        _compare(options)
        return
    for target in () if options.child else options.targets:
        output_files.check_target(target)
    is_here = options.child or options.listing or options.profile
    if (options.process_count > 1 or options.resume) and not is_here:
        _run(options, None)
        return
    device = find_device(options.adapter)
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


def _bench(device: Any, options: BenchOptions) -> Bench:
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


def _cells(device: Any, options: BenchOptions) -> list[Cell]:
    if options.model is not None:
        found = load(options.model, options.options).dispatchables.items()
        cells = [c for name, one in found for c in cells_of(one.operator, printable(name))]
    elif options.network is not None:
        network = load_network(options.network, replace(options.options, fallback=True))
        cells = cells_of_network(network, str(options.network))
    elif options.limits:
        with usage_errors():
            cells = limits(device, options.types, options.devices or 0)
    else:
        with usage_errors():
            cells = _choice(device, options).cells()
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


def _choice(device: Any, options: BenchOptions) -> Choice:
    """Return the cells of operators and of families; a roofline without operators has all of them.

    `--quick` and families have one variant of each operator, of one type and size.
    """
    is_whole = bool(options.families or (options.roofline and not options.operators))
    of_families = [
        name
        for name, facts in catalogue().items()
        if is_whole and (not options.families or facts["family"] in options.families)
    ]
    is_one_size = options.roofline or is_whole
    # On an accelerator a small cell would measure how fast the host starts it.
    size = MEBIBYTES[0 if is_one_size and device.platform == "cpu" else -1]
    return Choice(
        [*of_families, *options.operators],
        options.types,
        options.mebibytes or ([size] if is_one_size or options.quick else ()),
        1 if options.quick or is_whole else None if options.operators else VARIANTS,
        1 if (options.quick or is_whole) and not options.types else None,
        options.sizes,
        options.gradient,
        options.batch or 0,
    )


def _run(options: BenchOptions, here: tuple[Bench, list[Cell]] | None) -> None:
    """Measure, in this process or in others; print and write what was measured."""
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
        self.left, moment = total - done - 1, time.monotonic()
        if self.live or moment > self.last + 5:
            words = f"[{done + 1}/{total}{runs.time_left(self.begin, done, total)}] {name}"
            self.last = moment
            click.echo(f"\r\x1b[K{words[:79]}" if self.live else words, err=True, nl=not self.live)

    def end(self) -> None:
        if self.live:
            click.echo("\r\x1b[K", err=True, nl=False)


def _say(options: BenchOptions, results: Results) -> None:
    """Print the table, and write the files; an earlier file is worth more than an empty one."""
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


def _write(options: BenchOptions, results: Results, title: str) -> None:
    """Write the files of a run. Raises `DmlError` with those that cannot be written."""
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


def _profile(cells: list[Cell], folder: Path, device: Any) -> None:
    """Write a trace of the whole program, and the nodes of each kernel beside it."""
    cell = next((c for c in cells if c.family == "program"), cells[0])
    graph = getattr(cell.function, "graph", cell.function)
    if not isinstance(graph, Graph):
        raise click.UsageError("--profile needs --network, or a --model with a graph.")
    found = profile(cell, graph, folder, device)
    output_files.write_text(folder / "kernels.json", json.dumps(found, indent=1) + "\n")
    out, kernels = len(found.get("", ())), [name for name in found if name]
    count = sum(len(found[name]) for name in kernels)
    click.echo(f"{count} nodes stand in {len(kernels)} kernels; XLA left out {out}.")
    click.echo(f"Written to '{folder}': kernels.json, and a trace for Perfetto and xprof.")


def _print(table: Table) -> None:
    rich_table = table.rich()
    width = min(shutil.get_terminal_size((COLUMNS, 0)).columns, COLUMNS)
    width = max(width, rich_table.min_width)  # a column that is cut off is worse than a folded line
    Console(width=width, markup=False, highlight=False).print(rich_table)

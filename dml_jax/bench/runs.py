"""Runs: cells measured in this process, or in several processes one after the other."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax

from dml_jax.bench.cells import Cell
from dml_jax.bench.measure import Bench
from dml_jax.bench.rows import Results, Row
from dml_jax.errors import UNSAID, DmlError, Fault, Sentence

MOST_PROCESSES = 25  # of a cell that is measured until its interval is narrow
WRONG_USAGE = 2  # the status of a command whose words are wrong

Tell = Callable[[int, int, str], None]
"""Takes the number of rows that are done, that of all, and the name of the next cell."""


class WrongUsageError(Exception):
    """A process of the bench says that the words of its command line are wrong."""


def here(
    bench: Bench, cells: Sequence[Cell], results: Results, tell: Tell = lambda *_: None
) -> Generator[Row, None, None]:
    """Measure cells in this process, and yield each row; a cell that fails is kept as failed."""
    results.cells = len(cells)
    for number, cell in enumerate(cells):
        tell(number, len(cells), cell.name)
        try:
            (row,) = bench.run([cell])
        except Exception as error:  # the other cells are still worth having
            lines = str(error).splitlines() or [type(error).__name__]
            results.failed[cell.name] = lines[0][:200]
            continue
        results.add(row)
        results.complete += 1
        yield row


def child(
    bench: Bench, cells: Sequence[Cell], environment: dict[str, Any], say: Callable[[str], Any]
) -> None:
    """Measure cells for a parent process: not those whose names are on standard input.

    `say` gets lines of JSON: the environment, the names of the cells, then what is begun and done.
    """
    if bench.device.platform != "cpu":  # or each process would choose the kernels again
        folder = Path(tempfile.gettempdir()) / "dml-jax-bench"
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    done, results = {*json.loads(sys.stdin.read())}, Results()
    wanted = [cell for cell in cells if cell.name not in done]
    say(json.dumps({"environment": environment}))
    say(json.dumps({"names": [cell.name for cell in cells]}))
    for row in here(bench, wanted, results, lambda *at: say(json.dumps({"begun": at[2]}))):
        say(json.dumps({"row": row.to_json()}))
    say(json.dumps({"failed": results.failed}))


def in_processes(
    command: Sequence[str], results: Results, processes: int, narrow: float, tell: Tell
) -> Generator[Row, None, None]:
    """Measure cells in as many `processes` of `command` as `results` lack; yield each row.

    A process runs `child`. A cell gets more of them until its interval is as narrow as `narrow`,
    where that is not 0. Raises `DmlError` or `WrongUsageError` if a process says nothing but an
    error.
    """
    total = done = 0
    names: list[str] | None = None
    while True:
        skipped = [n for n in results.rows if _is_done(results.rows[n], processes, narrow)]
        if names is not None and {*names} <= {*skipped, *results.failed}:
            return
        begun, rows, said, status = "", 0, "", 0
        for kind, value in _lines(command, [*skipped, *results.failed]):
            match kind:
                case "environment":
                    results.environment = results.environment or value
                case "names":
                    names, results.cells = value, len(value)
                    results.complete = len({*value} & {*skipped})
                    left = [processes - results.processes(name) for name in value]
                    total = done + sum(max(n, 1 if narrow else 0) for n in left)
                case "begun":
                    begun = value
                    tell(done, max(total, done + 1), begun)
                case "row":
                    row = Row.from_json(value)
                    results.add(row)
                    rows, done = rows + 1, done + 1
                    results.complete += _is_done(results.rows[row.name], processes, narrow)
                    yield row
                case "failed":
                    results.failed |= value
                    begun = ""
                case "error":
                    status, said = value
        if begun:  # the process has ended within this cell
            results.failed[begun] = said or "the process ended"
        elif not rows:
            if status == WRONG_USAGE:
                raise WrongUsageError(said.removeprefix("Error: "))
            if said:
                raise DmlError([Fault("", "", Sentence(said), UNSAID)])
            return


def _is_done(row: Row, processes: int, narrow: float) -> bool:
    is_narrow = not narrow or row.interval <= narrow or row.processes >= MOST_PROCESSES
    return row.processes >= processes and is_narrow


def _lines(command: Sequence[str], skipped: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield what a child process says; then its status and last line, if it ends with an error."""
    with tempfile.TemporaryFile("w+") as known, tempfile.TemporaryFile("w+") as errors:
        known.write(json.dumps([*skipped]))
        known.seek(0)
        pipes: dict[str, Any] = {"stdin": known, "stdout": subprocess.PIPE, "stderr": errors}
        with subprocess.Popen(command, **pipes, text=True) as process:
            try:
                for line in process.stdout or ():
                    if line.startswith("{"):
                        yield from json.loads(line).items()
            except BaseException:  # interrupted, or the reader has had enough
                process.kill()
                raise
        if process.returncode:
            errors.seek(0)
            words = errors.read().strip().splitlines()
            line = words[-1] if words else f"status {process.returncode}"
            yield "error", (process.returncode, line)


def time_left(begin: float, done: int, total: int) -> str:
    """Return how long what is left will take, from what is done since `begin`."""
    if not done:
        return ""
    seconds = (time.monotonic() - begin) / done * (total - done)
    return f", {seconds / 60:.0f} min left" if seconds > 90 else f", {seconds:.0f} s left"

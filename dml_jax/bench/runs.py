"""Runs: cells measured in this process, or in several processes one after the other."""

import contextlib
import json
import math
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

SAVED = 2.0  # seconds after which a run is written again
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
        except Exception as error:
            # XLA and JAX have no common class of errors. A run has hundreds of cells, and one that
            # they refuse (a type without a kernel, too little memory) must not end it.
            lines = str(error).splitlines() or [type(error).__name__]
            results.failed[cell.name] = lines[0][:200]
            continue
        results.add(row)
        results.complete += 1
        yield row


def take(
    rows: Generator[Row, None, None],
    seconds: float,
    save: Callable[[], Any],
    is_left: Callable[[], bool],
) -> bool:
    """Take rows to their end, or until `seconds` are over; return whether time was up.

    `save` is called after the first row, and then at most each `SAVED` seconds. `is_left` says
    whether there is a further cell.
    """
    begin, saved = time.monotonic(), -math.inf
    with contextlib.closing(rows):
        for _ in rows:
            now = time.monotonic()
            if now - saved > SAVED:
                save()
                saved = now
            if now - begin > seconds and is_left():
                return True
    return False


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
        with (
            subprocess.Popen(command, **pipes, text=True) as process,
            contextlib.ExitStack() as early,
        ):
            # At an interrupt, or without a reader, the process ends before anybody waits for it.
            early.callback(process.kill)
            for line in process.stdout or ():
                if line.startswith("{"):
                    yield from json.loads(line).items()
            early.pop_all()
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

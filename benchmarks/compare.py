"""Every cell of the bench beside what a user would pick instead, in one run, interleaved.

    python benchmarks/compare.py results.json                 all cells, all peers of this machine
    python benchmarks/compare.py results.json --operator REDUCE --seconds 0.5
    python benchmarks/compare.py results.json --missing --budget 200   more of them, another time
    python benchmarks/compare.py results.json --report        the tables of what is there

Each cell is merged into the results file as soon as it is measured.
"""

import argparse
import contextlib
import ctypes
import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# Before the backend starts: PyTorch and CuPy need some of a GPU's memory.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import peers
import report
from kept_pages import restart_with_kept_pages
from roofline import Bench, default_limit, environment
from small import measure_overhead
from table import Cell, cells, small_cells

from dml_jax import DmlError
from dml_jax.bench.memory import Programs, wide
from dml_jax.enums import TensorDataType
from dml_jax.files import write_whole

ROOT = Path(__file__).parent

say = functools.partial(print, flush=True)


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("results", type=Path, help="the JSON file that cells are merged into")
    add("--report", action="store_true", help="measure nothing; print the tables")
    add("--operator", action="append", default=[], help="only this one, or CHAINS, BACKWARD, VMAP")
    add("--dtype", action="append", default=[], help="only this type")
    add("--shape", action="append", default=[], help="8,64,256,256: in place of the table's")
    add("--match", default="", help="only cells whose name has this text")
    names = [*peers.NAMES, "none"]
    add("--peer", action="append", choices=names, default=[], help="only this one, or none")
    add("--quick", action="store_true", help="one cell in nine")
    add("--missing", action="store_true", help="only cells that the file does not have")
    add("--seconds", type=float, help="of samples for each cell and way; 0.3 on a CPU, else 0.15")
    add("--budget", type=float, default=float("inf"), help="seconds, after which it stops")
    add("--torch-compile", type=float, default=150, help="seconds torch.compile may take in all")
    add("--limit", type=float, help="MB of the largest tensor; 200 on a CPU, else 2148")
    add("--fresh-pages", action="store_true", help="leave host memory to the allocator, for all")
    add("--overhead", action="store_true", help="only the overhead of small cells")
    add(
        "--keep-going",
        action="store_true",
        help="merge into a file of another machine, jax or method",
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, merges, reports."""
    given = parsed(arguments)
    if given.report and not given.results.exists():
        sys.exit(f"{given.results} is not there")
    results = load(given.results)
    if not given.report:
        measure(given, results)
    for line in report.lines(results):
        say(line)


def load(path: Path) -> dict[str, Any]:
    """What the file has, or nothing. Cells and overheads name the run that they are of."""
    if path.exists():
        return json.loads(path.read_text())
    return {"runs": {}, "cells": {}, "overhead": {}}


def save(path: Path, results: dict[str, Any]) -> None:
    """Whole or not at all; a line for each cell. Runs of which no cell is left go."""
    measured = (*results["cells"].values(), *results["overhead"].values())
    left = {entry["run"] for entry in measured}
    results["runs"] = {name: run for name, run in results["runs"].items() if name in left}
    parts = (f"{json.dumps(name)}: {_lines(part)}" for name, part in results.items())
    text = "{\n" + ",\n".join(parts) + "\n}\n"
    write_whole(path, lambda file: file.write(text.encode()))


def _lines(part: dict[str, Any]) -> str:
    lines = (f" {json.dumps(name)}: {json.dumps(value)}" for name, value in part.items())
    return "{\n" + ",\n".join(lines) + "\n}"


def measure(given: argparse.Namespace, results: dict[str, Any]) -> None:
    """Runs what was asked for into the results."""
    # On a CPU each call is waited for: 1 MB takes 0.06 ms so, 0.16 in a thread of its own.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    begin = time.perf_counter()
    device = jax.devices()[0]
    seconds = given.seconds or (0.3 if device.platform == "cpu" else 0.15)
    known = environment(device) | {"commit": commit(), "async_dispatch": False}
    for old in results["runs"].values():
        for name in ("device", "cpu", "jax", "method"):
            was = old.get(name, 1)  # the first method had no number
            if was != known[name] and not given.keep_going:
                sys.exit(f"{given.results} is of {name} {was}, not {known[name]}")
    kinds = given.operator
    limit = int(given.limit * 1e6) if given.limit else default_limit(device)
    run = Bench(device, seconds, limit)
    types = [TensorDataType.of(name) for name in given.dtype]
    sizes = [tuple(map(int, shape.split(","))) for shape in given.shape]
    try:
        chosen = cells(kinds, types, sizes, limit, every=9 if given.quick else 1)
    except DmlError as error:
        sys.exit(str(error))
    chosen = [
        cell
        for cell in chosen
        if given.match in cell.name and not (given.missing and cell.name in results["cells"])
    ]
    this = str(max(map(int, results["runs"]), default=0) + 1)
    results["runs"][this] = known
    if given.overhead:
        overhead(given, results, {cell.kind for cell in chosen}, device, this)
        return
    contestants = Contestants(device, given.peer, given.torch_compile)
    known["peers"] = contestants.versions
    say(f"{known['device']}, {known['cpu']}, jax {known['jax']}: {len(chosen)} cells")
    for name, why in contestants.absent.items():
        say(f"without {name}: {why}")
    if not chosen:
        sys.exit("no cell is chosen, or none is missing")
    bandwidth = run.bandwidth(chosen)
    known["bandwidth"] = bandwidth.to_json()
    for type_name, rates in known["bandwidth"]["gb_s"].items():
        say(f"{type_name}: " + ", ".join(f"{form} {rate} GB/s" for form, rate in rates.items()))
    for number, (cell, compiled) in enumerate(run.compiled(chosen, contestants.prepare(run)), 1):
        release_memory()  # cells are of many sizes
        elapsed = time.perf_counter() - begin
        if elapsed > given.budget:
            say(f"stopped after {elapsed:.0f} s with {len(chosen) - number + 1} cells left")
            break
        try:
            if isinstance(compiled, Exception):
                raise compiled
            entry = contestants.measure(run, cell, compiled, number / len(chosen))
        except Exception as error:  # no memory, say; the other cells are still worth having
            say(f"[{number}/{len(chosen)}] {cell.name} failed: {_first_line(error)}")
            results["cells"].pop(cell.name, None)
            continue
        results["cells"][cell.name] = {"run": this, **entry}
        save(given.results, results)
        say(f"[{number}/{len(chosen)} {time.perf_counter() - begin:.0f}s] {report.line(entry)}")
    save(given.results, results)


def release_memory() -> None:
    """Give the system back all pages that hold nothing, where the allocator is glibc's."""
    with contextlib.suppress(OSError, TypeError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def commit() -> str | None:
    """The checkout's, and whether it was changed; None where there is no git."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def overhead(
    given: argparse.Namespace, results: dict[str, Any], kinds: set[str], device: Any, run: str
) -> None:
    """Calls of small cells, descriptors and compile times, beside the plain expressions'."""
    small = [cell for cell in small_cells() if cell.kind in kinds]
    for found in measure_overhead(small, device, given.seconds or 0.3):
        results["overhead"][found.cell.name] = {"run": run, **found.to_json()}
        say(report.overhead_line(found.to_json()))
        save(given.results, results)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:160]}"


class Contestants:
    """The peers of this machine, and how they meet a cell."""

    def __init__(self, device: Any, wanted: Sequence[str], compile_seconds: float):
        self.present: dict[str, Any] = {}
        self.absent: dict[str, str] = {}
        for name, peer in peers.peers(device, wanted):
            if isinstance(peer, str):
                self.absent[name] = peer
            else:
                self.present[name] = peer
        self.compile_seconds = compile_seconds
        self.compiling = 0.0

    @property
    def versions(self) -> dict[str, str]:
        """Of the libraries that are there."""
        names = {"numpy": "numpy", "cupy": "cupy", "torch": "torch", "onnxruntime": "onnxruntime"}
        modules = {name: sys.modules.get(module) for name, module in names.items()}
        return {n: m.__version__ for n, m in modules.items() if m is not None}

    def prepare(self, run: Bench) -> Any:
        """What compiles a cell ahead of its turn: ours, and the plain expression."""

        def of(cell: Cell) -> dict[str, Programs] | Exception:
            try:
                made = {"dml_jax": run.prepare(cell)}
                if "jnp" in self.present:
                    with wide(cell.function):
                        made["jnp"] = self.present["jnp"].programs(cell, run.device)
            except Exception as error:  # the others go on
                return error
            return made

        return of

    def measure(self, run: Bench, cell: Cell, compiled: dict[str, Programs], done: float) -> Any:
        """The cell's times, checked answers, and why a peer is not among them."""
        notes: dict[str, str] = {}
        entries: dict[str, peers.Entry] = {}
        with wide(cell.function):
            inputs = run.data.sets_of_cell(cell)
            ours = peers.jax_entries(cell, inputs, run.data, compiled["dml_jax"])
            answer = ours["allocated"].results(0)
            for name, peer in self.present.items():
                paced = self.compiling > self.compile_seconds * done
                if name == "torch.compile" and paced:
                    notes[name] = report.FOR_TIME
                    continue
                start = time.perf_counter()
                try:
                    found = peer.entries(cell, inputs, run.data, compiled.get(name))
                    for way, entry in found.items():
                        theirs = entry.results(0)
                        differs = peers.disagreement(cell, inputs[0], answer, theirs)
                        if differs:
                            notes[f"{name} {way}"] = differs
                        entries[f"{name} {way}"] = entry
                except Exception as error:  # a peer that cannot is no reason to stop
                    notes[name] = _first_line(error)
                if name == "torch.compile":
                    self.compiling += time.perf_counter() - start
            contenders = {way: entry.contender for way, entry in ours.items()}
            contenders |= {name: entry.contender for name, entry in entries.items()}
            measured = run.measure(cell, contenders, notes)
        return report.with_ratios(measured.to_json())


if __name__ == "__main__":
    if "--fresh-pages" not in sys.argv:
        restart_with_kept_pages()
    main()

"""Measures the tables of docs/measurements.md: `python benchmarks/all.py cpu-2core`.

The argument names the machine in the files of benchmarks/results. The limits come first, then
operators, torch.compile for the 40 slowest, and gradients. Each table goes on where an earlier run
stopped; `--budget 480` ends after so many seconds, `--processes` says how often each cell is
measured: all tables once, then all again. `--at-once 4` measures four parts of a table at the same
time, each on cores of its own, and, where the machine has GPUs, on a GPU of its own. On a GPU
`--compiling 12` processes compile a table into JAX's cache before it is measured; products, whose
kernels XLA chooses by their times, are compiled where they are measured. On a CPU the pictures of
docs/benchmarks.md are drawn too.
"""

import argparse
import importlib.util
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measuring import restart_with_kept_pages

from dml_jax.bench.report import draw, header
from dml_jax.bench.rows import Results
from dml_jax.facts import catalogue

ROOT = Path(__file__).parent.parent
BENCH = [sys.executable, "-m", "dml_jax", "bench"]
SLOWEST = 40
STARTING = 30  # seconds that a table needs to begin
LATE = 20  # seconds after its budget in which a process ends by itself
CHOSEN_BY_TIME = ("convolution", "matrix", "recurrent", "attention")  # families with products
PICTURES = {"limits": "limits.svg", "operators": "roofline.svg"}
TABLES = {
    "limits": ["--limits"],
    "operators": ["--roofline", "--peers", "jnp"],
    "compiled": ["--roofline", "--peers", "torch.compile"],
    "gradients": ["--roofline", "--gradient", "--peers", "jnp", "--dtype", "FLOAT32"],
}


@dataclass(frozen=True)
class Tables:
    """How the tables of a machine are measured.

    Attributes:
        machine: the end of the names of files.
        end: the time of `time.monotonic` after which no cell begins.
        at_once: how many parts of a table are measured at the same time.
        compiling: how many processes compile a table before it is measured.
        compiled: the tables for which that is done.
    """

    machine: str
    end: float
    at_once: int
    compiling: int
    compiled: set[str] = field(default_factory=set)

    @property
    def left(self) -> float:
        """Return the seconds that are left."""
        return self.end - time.monotonic()

    @property
    def of_cpu(self) -> bool:
        """Whether the machine is measured without its GPUs."""
        return self.machine.startswith("cpu")

    def file(self, kind: str) -> Path:
        """Return the file of a table."""
        return ROOT / "benchmarks" / "results" / f"{kind}-{self.machine}.json"

    def load(self, kind: str) -> Results:
        """Return what is measured of a table."""
        return Results.load(self.file(kind)) if self.file(kind).exists() else Results()

    def measure(self, kind: str, words: list[str], processes: int) -> None:
        """Measure the cells of a table until each has the times of so many processes."""
        whole = self.load(kind)
        names = self._slowest(whole) if kind == "compiled" else _names(words)
        missing = [name for name in names if name not in whole.failed]
        missing = [name for name in missing if whole.processes(name) < processes]
        if not missing:
            return
        of_all = kind == "limits" and not self.of_cpu  # all GPUs, and what joins them
        parts = 1 if kind == "limits" else self.at_once
        with tempfile.TemporaryDirectory() as path:
            folder = Path(path)
            if self.compiling and kind not in ("limits", *self.compiled):
                self._compile(folder, words, missing)
                self.compiled.add(kind)
            started, results = [], []
            for part in range(parts):
                cells, result = folder / f"{part}.txt", folder / f"{part}.json"
                own = missing[part::parts]
                cells.write_text("\n".join(own) + "\n")
                known = Results(options={"arguments": [*words, "--cells", str(cells)]})
                known.rows = {name: whole.rows[name] for name in own if name in whole.rows}
                known.save(result)
                options = ["--resume", str(result), "--processes", str(processes)]
                where = {} if of_all or self.at_once == 1 else _place(part, self.at_once)
                started.append(self._start(options, self.left, **where))
                results.append(result)
            _wait(started, self.left + LATE)
            for found in map(Results.load, results):
                whole.environment = whole.environment or found.environment
                whole.failed |= found.failed
                whole.rows |= found.rows
        whole.options = {"arguments": words, "at_once": parts}
        whole.rows = {name: whole.rows[name] for name in names if name in whole.rows}
        whole.save(self.file(kind))

    def draw(self) -> None:
        """Draw the pictures of tables."""
        for kind, picture in PICTURES.items():
            whole = self.load(kind)
            if whole.rows:
                title, *_ = header(whole, f"{whole.environment['cores']} cores").splitlines()
                draw(title, [*whole.rows.values()], ROOT / "docs" / "images" / picture)

    def _slowest(self, compiled: Results) -> list[str]:
        """Return the cells in which PyTorch is fastest beside ours, or those of an earlier run."""
        rows = [row for row in self.load("operators").rows.values() if "torch" in row.peers]
        rows.sort(key=lambda row: row.time("torch") / row.time("allocated"))
        return [*compiled.rows] or [row.name for row in rows[:SLOWEST]]

    def _compile(self, folder: Path, words: list[str], names: Sequence[str]) -> None:
        """Compile cells in many processes, whose times are thrown away."""
        slow = {name for name, facts in catalogue().items() if facts["family"] in CHOSEN_BY_TIME}
        chosen = [name for name in names if name.split()[0] not in slow]
        begin, started, nothing = time.monotonic(), [], folder / "nothing.json"
        nothing.write_text("[]")  # the names of cells that are measured already
        for part in range(min(self.compiling, len(chosen))):
            cells = folder / f"compiled-{part}.txt"
            cells.write_text("\n".join(chosen[part :: self.compiling]) + "\n")
            own = {"CUDA_VISIBLE_DEVICES": str(part % self.at_once)}
            options = [*words, "--cells", str(cells), "--seconds", "0.001", "--child"]
            pipes = {"stdin": nothing.open(), "stdout": subprocess.DEVNULL}
            started.append(self._start(options, self.left, env=os.environ | own, **pipes))
        _wait(started, self.left / 3)
        print(f"compiled in {time.monotonic() - begin:.0f} s", flush=True)

    def _start(
        self, options: list[str], budget: float, before: Sequence[str] = (), **how: Any
    ) -> subprocess.Popen[Any]:
        command = [*before, *BENCH, *options, "--budget", str(max(budget, 1))]
        print("+", *command, flush=True)
        return subprocess.Popen(command, cwd=ROOT, **how)


def _names(words: list[str]) -> list[str]:
    """Return the names of the cells that the bench measures with these words."""
    command = [*BENCH, *words, "--list"]
    listed = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return listed.stdout.splitlines()


def _place(part: int, parts: int) -> dict[str, Any]:
    """Return how a part gets its cores and, if the machine has some, its GPU."""
    every = sorted(os.sched_getaffinity(0))
    each = max(len(every) // parts, 2)
    own = ",".join(map(str, every[part * each : (part + 1) * each]))
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": str(part)}
    return {"before": ["taskset", "-c", own], "env": environment}


def _wait(started: Sequence[subprocess.Popen[Any]], seconds: float) -> None:
    """Wait for processes; interrupt those that last longer."""
    end = time.monotonic() + seconds
    for process in started:
        try:
            process.wait(max(end - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
    for process in started:
        try:
            process.wait(LATE)
        except subprocess.TimeoutExpired:
            process.kill()


def main() -> None:
    """Measure all tables of a machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("machine")
    parser.add_argument("--budget", type=float, default=1e9)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--compiling", type=int, default=0)
    options = parser.parse_args()
    if options.machine.startswith("cpu"):
        restart_with_kept_pages()
    end = time.monotonic() + options.budget
    tables = Tables(options.machine, end, options.at_once, options.compiling)
    has_torch = bool(importlib.util.find_spec("torch"))
    wanted = {kind: [*words] for kind, words in TABLES.items()}
    if has_torch:
        wanted["operators"][-1] = "jnp,torch"
    else:
        del wanted["compiled"]
    for processes, kind in itertools.product(range(1, options.processes + 1), wanted):
        if tables.left > STARTING:
            tables.measure(kind, wanted[kind], processes)
    if tables.of_cpu:
        tables.draw()


if __name__ == "__main__":
    main()

"""Measures the tables of docs/measurements.md: `python benchmarks/all.py cpu-2core`.

The argument names the machine in the files of benchmarks/results. The limits come first, then
operators, torch.compile for the 40 slowest, and gradients. Each table goes on where an earlier run
stopped, and measures rows again whose code has changed since. `--budget 480` ends after so many
seconds, `--processes` says how often each cell is measured: all tables once, then all again.
`--at-once 4` measures four parts of a table at the same time, each on cores of its own, and, where
the machine has GPUs, on a GPU of its own. On a GPU `--compiling 12` processes compile a table into
JAX's cache before it is measured; products, whose kernels XLA chooses by their times, are compiled
where they are measured. On a CPU the pictures of docs/benchmarks.md are drawn too.
"""

import argparse
import importlib.util
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measured_code import code_of, is_changed
from measuring import restart_with_kept_pages

from dml_jax.bench.charts import draw
from dml_jax.bench.report import header
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


def measure(given: argparse.Namespace, kind: str, words: list[str], processes: int) -> None:
    """Measure the cells of a table, by options of the bench, until each has so many processes."""
    file, whole = results_of(given, kind)
    whole.rows = {name: row for name, row in whole.rows.items() if not is_changed(kind, vars(row))}
    names = slowest(given, whole) if kind == "compiled" else names_of(words)
    missing = [name for name in names if name not in whole.failed]
    missing = [name for name in missing if whole.processes(name) < processes]
    if not missing:
        return
    of_all = kind == "limits" and not given.machine.startswith("cpu")  # GPUs, and what joins them
    parts = 1 if kind == "limits" else given.at_once
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        if given.compiling and kind not in ("limits", *given.compiled):
            compile_all(given, folder, words, missing)
            given.compiled.append(kind)
        started, results = [], [folder / f"{part}.json" for part in range(parts)]
        for part, result in enumerate(results):
            own = missing[part::parts]
            known = Results(options={"arguments": [*words, *listed(result, own)]})
            known.rows = {name: whole.rows[name] for name in own if name in whole.rows}
            known.save(result)
            options = ["--resume", str(result), "--processes", str(processes)]
            where = {} if of_all or given.at_once == 1 else place(part, given.at_once)
            started.append(start(options, given.end - time.monotonic(), **where))
        for process in started:
            process.wait()
        for found in map(Results.load, results):
            whole.environment = found.environment or whole.environment
            whole.failed |= found.failed
            whole.rows |= found.rows
    whole.options = {"arguments": words, "at_once": parts}
    whole.rows = {name: whole.rows[name] for name in names if name in whole.rows}
    for row in whole.rows.values():
        row.code = code_of(kind, vars(row))
    whole.save(file)


def results_of(given: argparse.Namespace, kind: str) -> tuple[Path, Results]:
    """Return the file of a table, and what is measured of it."""
    file = ROOT / "benchmarks" / "results" / f"{kind}-{given.machine}.json"
    return file, Results.load(file) if file.exists() else Results()


def slowest(given: argparse.Namespace, compiled: Results) -> list[str]:
    """Return the cells in which PyTorch is fastest beside ours, or those of an earlier run."""
    _, whole = results_of(given, "operators")
    rows = [row for row in whole.rows.values() if "torch" in row.peers]
    rows.sort(key=lambda row: row.time("torch") / row.time("allocated"))
    return [*compiled.rows] or [row.name for row in rows[:SLOWEST]]


def names_of(words: list[str]) -> list[str]:
    """Return the names of the cells that the bench measures with these words."""
    command = [*BENCH, *words, "--list"]
    said = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return said.stdout.splitlines()


def compile_all(
    given: argparse.Namespace, folder: Path, words: list[str], names: Sequence[str]
) -> None:
    """Compile cells in many processes, whose times are thrown away."""
    slow = {name for name, facts in catalogue().items() if facts["family"] in CHOSEN_BY_TIME}
    chosen = [name for name in names if name.split()[0] not in slow]
    started, nothing = [], folder / "nothing.json"
    nothing.write_text("[]")  # the names of cells that are measured already
    for part in range(min(given.compiling, len(chosen))):
        own = os.environ | {"CUDA_VISIBLE_DEVICES": str(part % given.at_once)}
        cells = listed(folder / f"compiled-{part}", chosen[part :: given.compiling])
        pipes = {"stdin": nothing.open(), "stdout": subprocess.DEVNULL}
        options = [*words, *cells, "--seconds", "0.001", "--child"]
        most = (given.end - time.monotonic()) / 3 - LATE
        started.append(start(options, most, env=own, **pipes))
    for process in started:
        process.wait()


def listed(file: Path, names: Sequence[str]) -> list[str]:
    """Return the words by which the bench measures cells, whose names are written beside a file."""
    cells = file.with_suffix(".txt")
    cells.write_text("\n".join(names) + "\n")
    return ["--cells", str(cells)]


def start(options: list[str], seconds: float, before: Sequence[str] = (), **how: Any) -> Any:
    """Start the bench, which begins no cell after so many seconds; it is interrupted if it is late.

    `before` is a command that starts it.
    """
    budget = max(seconds, 1)
    ends = ["timeout", "--foreground", "-s", "INT", "-k", str(LATE), str(budget + LATE)]
    command = [*ends, *before, *BENCH, *options, "--budget", str(budget)]
    print("+", *command, flush=True)
    return subprocess.Popen(command, cwd=ROOT, **how)


def place(part: int, parts: int) -> dict[str, Any]:
    """Return how a part gets its cores and, if the machine has some, its GPU."""
    every = sorted(os.sched_getaffinity(0))
    each = max(len(every) // parts, 2)
    own = ",".join(map(str, every[part * each : (part + 1) * each]))
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": str(part)}
    return {"before": ["taskset", "-c", own], "env": environment}


def main() -> None:
    """Measure all tables of a machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("machine")
    parser.add_argument("--budget", type=float, default=1e9)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--compiling", type=int, default=0)
    given = parser.parse_args()
    if of_cpu := given.machine.startswith("cpu"):
        restart_with_kept_pages()
    given.end, given.compiled = time.monotonic() + given.budget, []
    wanted = {kind: [*words] for kind, words in TABLES.items()}
    if importlib.util.find_spec("torch"):
        wanted["operators"][-1] = "jnp,torch"
    else:
        del wanted["compiled"]
    for processes, kind in itertools.product(range(1, given.processes + 1), wanted):
        if given.end - time.monotonic() > STARTING:
            measure(given, kind, wanted[kind], processes)
    for kind, picture in PICTURES.items() if of_cpu else ():
        _, whole = results_of(given, kind)
        if whole.rows:
            title, *_ = header(whole, f"{whole.environment['cores']} cores").splitlines()
            draw(title, [*whole.rows.values()], ROOT / "docs" / "images" / picture)


if __name__ == "__main__":
    main()

"""Measures the tables of docs/measurements.md: `python benchmarks/all.py cpu-2core`.

The argument names the machine in the files of benchmarks/results. Each table goes on where an
earlier run stopped; `--budget 480` ends after so many seconds, `--processes` says how often each
cell is measured. `--at-once 4` measures four parts of a table at the same time, each on two cores
of its own, and, where the machine has GPUs, on a GPU of its own. On a CPU the pictures of
docs/benchmarks.md are drawn too. The limits come first, then operators, forward, torch.compile for
the 40 slowest, and gradients.
"""

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from measuring import restart_with_kept_pages

from dml_jax.bench.report import draw, header
from dml_jax.bench.rows import Results

ROOT = Path(__file__).parent.parent
BENCH = [sys.executable, "-m", "dml_jax", "bench"]
SLOWEST = 40
STARTING = 30  # seconds that a table needs to begin
PICTURES = {"limits": "limits.svg", "operators": "roofline.svg"}


def started(words: list[str], given: Any, part: int | None) -> subprocess.Popen[bytes]:
    """Start the bench, for a part with two cores, and a GPU where there is one, of its own."""
    left = max(given.end - time.monotonic(), 1)
    command = [*BENCH, *words, "--budget", str(left), "--processes", str(given.processes)]
    print("+", *command, flush=True)
    if part is None:
        return subprocess.Popen(command, cwd=ROOT)
    own = {} if given.of_cpu else {"CUDA_VISIBLE_DEVICES": str(part)}
    pair = f"{2 * part},{2 * part + 1}"
    return subprocess.Popen(["taskset", "-c", pair, *command], cwd=ROOT, env=os.environ | own)


def measure(target: Path, words: list[str], given: Any) -> None:
    """Measure one table, or go on with it."""
    if given.at_once == 1 or "--limits" in words:
        known = ["--resume", str(target)] if target.exists() else [*words, "-o", str(target)]
        started(known, given, None).wait()
        return
    listed = subprocess.check_output([*BENCH, *words, "--list"], cwd=ROOT, text=True)
    names, whole = listed.splitlines(), Results.load(target) if target.exists() else Results()
    with tempfile.TemporaryDirectory() as folder:
        running = {}
        for part in range(given.at_once):
            cells, result = Path(folder, f"{part}.txt"), Path(folder, f"{part}.json")
            cells.write_text("\n".join(names[part :: given.at_once]) + "\n")
            known = [*words, "--cells", str(cells), "-o", str(result)]
            running[result] = started(known, given, part)
        for result, process in running.items():
            process.wait()
            found = Results.load(result)
            whole.environment = whole.environment or found.environment
            whole.failed |= found.failed
            for row in found.rows.values():
                whole.add(row)
    whole.options = {"arguments": words, "at_once": given.at_once}
    whole.rows = {name: whole.rows[name] for name in names if name in whole.rows}
    whole.save(target)


def main() -> None:
    """Measure all tables of a machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("machine")
    parser.add_argument("--budget", type=float, default=1e9)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--at-once", type=int, default=1)
    given: Any = parser.parse_args()
    given.of_cpu = given.machine.startswith("cpu")
    given.end = time.monotonic() + given.budget
    folder = ROOT / "benchmarks" / "results"
    torch = ",torch" if importlib.util.find_spec("torch") else ""
    tables = {
        "limits": ["--limits"],
        "operators": ["--roofline", "--peers", f"jnp{torch}"],
        "gradients": ["--roofline", "--gradient", "--peers", "jnp", "--dtype", "FLOAT32"],
    }
    for kind, words in tables.items():
        if given.end - time.monotonic() < STARTING:
            return
        target = folder / f"{kind}-{given.machine}.json"
        measure(target, words, given)
        if given.of_cpu and kind in PICTURES:
            drawn = Results.load(target)
            title, *_ = header(drawn, f"{drawn.environment['cores']} cores").splitlines()
            draw(title, [*drawn.rows.values()], ROOT / "docs" / "images" / PICTURES[kind])
        if kind == "operators" and torch:
            rows = sorted(Results.load(target).rows.values(), key=lambda row: row.speedup)
            names = folder / "slowest.txt"
            names.write_text("\n".join(row.name for row in rows[:SLOWEST]) + "\n")
            words = ["--roofline", "--peers", "torch.compile", "--cells", str(names)]
            once = argparse.Namespace(**{**vars(given), "processes": 1, "at_once": 1})
            measure(folder / f"compiled-{given.machine}.json", words, once)
            names.unlink()


if __name__ == "__main__":
    restart_with_kept_pages()
    main()

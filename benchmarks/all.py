"""Measures the tables of docs/measurements.md: `python benchmarks/all.py cpu-2core`.

The argument names the machine in the files of benchmarks/results. Each table goes on where an
earlier run stopped; `--budget 480` ends after so many seconds, `--processes` says how often each
cell is measured. On a CPU the pictures of docs/benchmarks.md are drawn too. Operators come first,
forward; then the limits, torch.compile for the 40 slowest, and gradients.
"""

import argparse
import importlib.util
import subprocess
import sys
import time
from pathlib import Path

from kept_pages import restart_with_kept_pages

from dml_jax.bench.rows import Results

ROOT = Path(__file__).parent.parent
SLOWEST = 40
STARTING = 30  # seconds that a table needs to begin
PICTURES = {"limits": "limits.svg", "operators": "roofline.svg"}


def run(target: Path, words: list[str], budget: float, processes: int) -> None:
    """Measure one table, or go on with it."""
    known = ["--resume", str(target)] if target.exists() else [*words, "-o", str(target)]
    limits = ["--budget", str(max(budget, 1)), "--processes", str(processes)]
    command = [sys.executable, "-m", "dml_jax", "bench", *known, *limits]
    print("+", *command, flush=True)  # noqa: T201
    subprocess.run(command, cwd=ROOT, check=True)


def main() -> None:
    """Measure all tables of a machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("machine")
    parser.add_argument("--budget", type=float, default=1e9)
    parser.add_argument("--processes", type=int, default=5)
    options = parser.parse_args()
    folder, end = ROOT / "benchmarks" / "results", time.monotonic() + options.budget
    files = {
        k: folder / f"{k}-{options.machine}.json" for k in ("limits", "operators", "gradients")
    }
    torch = ",torch" if importlib.util.find_spec("torch") else ""
    tables = {
        "limits": ["--limits"],
        "operators": ["--roofline", "--peers", f"jnp{torch}"],
        "gradients": ["--roofline", "--gradient", "--peers", "jnp", "--dtype", "FLOAT32"],
    }
    for kind, words in tables.items():
        if end - time.monotonic() < STARTING:
            return
        run(files[kind], words, end - time.monotonic(), options.processes)
        if options.machine.startswith("cpu") and kind in PICTURES:
            picture = ["--resume", str(files[kind]), "-o", f"docs/images/{PICTURES[kind]}"]
            again = [sys.executable, "-m", "dml_jax", "bench", *picture, "--budget", "1"]
            subprocess.run(again, cwd=ROOT, check=True)
        if kind == "operators" and torch:
            rows = sorted(Results.load(files[kind]).rows.values(), key=lambda row: row.speedup)
            names = folder / "slowest.txt"
            names.write_text("\n".join(row.name for row in rows[:SLOWEST]) + "\n")
            words = ["--roofline", "--peers", "torch.compile", "--cells", str(names)]
            target = folder / f"compiled-{options.machine}.json"
            run(target, words, end - time.monotonic(), 1)
            names.unlink()


if __name__ == "__main__":
    restart_with_kept_pages()
    main()

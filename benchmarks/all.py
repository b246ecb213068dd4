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
from dataclasses import dataclass
from pathlib import Path

from kept_pages import restart_with_kept_pages

from dml_jax.bench.report import draw, header
from dml_jax.bench.rows import Results

ROOT = Path(__file__).parent.parent
BENCH = [sys.executable, "-m", "dml_jax", "bench"]
SLOWEST = 40
STARTING = 30  # seconds that a table needs to begin
PICTURES = {"limits": "limits.svg", "operators": "roofline.svg"}


@dataclass(frozen=True)
class Tables:
    """How the tables of a machine are measured.

    Attributes:
        end: the time of `time.monotonic` after which no cell begins.
        processes: how often each cell is measured.
        at_once: how many parts of a table are measured at the same time.
        on_gpus: whether each part has a GPU of its own.
    """

    end: float
    processes: int
    at_once: int
    on_gpus: bool

    @property
    def left(self) -> float:
        """Return the seconds that are left."""
        return self.end - time.monotonic()

    def measure(self, target: Path, words: list[str]) -> None:
        """Measure one table, or go on with it."""
        if self.at_once == 1 or "--limits" in words:
            known = ["--resume", str(target)] if target.exists() else [*words, "-o", str(target)]
            self._start(known, 0).wait()
            return
        listed = subprocess.run(
            [*BENCH, *words, "--list"], cwd=ROOT, check=True, capture_output=True, text=True
        )
        names = listed.stdout.splitlines()
        with tempfile.TemporaryDirectory() as folder:
            started = []
            for part in range(self.at_once):
                cells, result = Path(folder, f"{part}.txt"), Path(folder, f"{part}.json")
                cells.write_text("\n".join(names[part :: self.at_once]) + "\n")
                known = [*words, "--cells", str(cells), "-o", str(result)]
                started.append((self._start(known, part), result))
            whole = Results.load(target) if target.exists() else Results()
            for process, result in started:
                process.wait()
                found = Results.load(result)
                whole.environment = whole.environment or found.environment
                whole.failed |= found.failed
                for row in found.rows.values():
                    whole.add(row)
        whole.options = {"arguments": words, "at_once": self.at_once}
        whole.rows = {name: whole.rows[name] for name in names if name in whole.rows}
        whole.save(target)

    def _start(self, words: list[str], part: int) -> subprocess.Popen[bytes]:
        """Start the bench with the cores, and the GPU, of a part."""
        limits = ["--budget", str(max(self.left, 1)), "--processes", str(self.processes)]
        command = [*BENCH, *words, *limits]
        print("+", *command, flush=True)  # noqa: T201
        if self.at_once == 1:
            return subprocess.Popen(command, cwd=ROOT)
        own = {"CUDA_VISIBLE_DEVICES": str(part)} if self.on_gpus else {}
        pair = f"{2 * part},{2 * part + 1}"
        return subprocess.Popen(["taskset", "-c", pair, *command], cwd=ROOT, env=os.environ | own)


def main() -> None:
    """Measure all tables of a machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("machine")
    parser.add_argument("--budget", type=float, default=1e9)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--at-once", type=int, default=1)
    options = parser.parse_args()
    of_cpu = options.machine.startswith("cpu")
    end = time.monotonic() + options.budget
    table = Tables(end, options.processes, options.at_once, not of_cpu)
    folder = ROOT / "benchmarks" / "results"
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
        if table.left < STARTING:
            return
        table.measure(files[kind], words)
        if of_cpu and kind in PICTURES:
            drawn = Results.load(files[kind])
            title, *_ = header(drawn, f"{drawn.environment['cores']} cores").splitlines()
            draw(title, [*drawn.rows.values()], ROOT / "docs" / "images" / PICTURES[kind])
        if kind == "operators" and torch:
            rows = sorted(Results.load(files[kind]).rows.values(), key=lambda row: row.speedup)
            names = folder / "slowest.txt"
            names.write_text("\n".join(row.name for row in rows[:SLOWEST]) + "\n")
            words = ["--roofline", "--peers", "torch.compile", "--cells", str(names)]
            target = folder / f"compiled-{options.machine}.json"
            Tables(table.end, 1, 1, table.on_gpus).measure(target, words)
            names.unlink()


if __name__ == "__main__":
    restart_with_kept_pages()
    main()

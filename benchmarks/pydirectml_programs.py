"""Microsoft's PyDirectML programs, beside the same calls in PyTorch: answers and times.

`python benchmarks/pydirectml_programs.py results.json --folder FOLDER [NAME ...]` runs the programs
that lie in FOLDER beside their data, as microsoft/DirectML has them in Python/samples. It runs
each program with `dml_jax.pydirectml`, then with a module whose functions PyTorch computes, and
times their last `Device.compute`: all but the first call, in turns. It needs torch and pillow.
"""

import contextlib
import functools
import io
import os
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from measuring import difference, measure, milliseconds, parser, restart_with_kept_pages, run

import dml_jax.pydirectml as dml
from dml_jax.host import cores

PROGRAMS = ("mnist", "squeezenet", "mobilenet", "candy", "superres")


def run_by(program: str, module: ModuleType) -> None:
    """Run a program that imports `module` as pydirectml, without its words and pictures."""
    from PIL import Image

    Image.Image.show = lambda *_, **__: None  # pyright: ignore[reportAttributeAccessIssue]
    sys.modules["pydirectml"] = module
    sys.argv = [f"{program}.py"]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        runpy.run_path(f"{program}.py", run_name="__main__")


def measured(program: str) -> dict[str, Any]:
    """Return the largest error of a program's outputs, and both times."""
    import pydirectml_by_torch as by_torch

    own: list[Callable[[], Any]] = []
    compute = dml.Device.compute

    def noted(*arguments: Any) -> Any:
        own.append(lambda: compute(*arguments))
        return own[-1]()

    dml.Device.compute = noted  # pyright: ignore[reportAttributeAccessIssue]
    try:
        run_by(program, dml)
    finally:
        dml.Device.compute = compute
    run_by(program, by_torch.module())
    other = by_torch.Device.runs[-1]
    error = max(
        difference(np.ravel(a), np.ravel(b)) for a, b in zip(own[-1](), other(), strict=True)
    )
    ms, peer = milliseconds(own[-1], other)
    return {"error": error, "ms": ms, "peer_ms": peer}


def main() -> int:
    """Measure the programs of a folder; return how many fail."""
    import torch  # pyright: ignore[reportMissingImports]

    made = parser(__doc__, "programs")
    made.add_argument("--folder", type=Path, required=True, help="has the programs and their data")
    given = made.parse_intermixed_args()
    restart_with_kept_pages()
    torch.set_num_threads(cores())
    given.results = given.results.resolve()
    os.chdir(given.folder)
    there = [name for name in PROGRAMS if Path(f"{name}.py").exists()]
    return measure(given, programs={name: functools.partial(measured, name) for name in there})


if __name__ == "__main__":
    run(main)

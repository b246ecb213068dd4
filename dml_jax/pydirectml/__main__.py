"""Run a program that imports `pydirectml`: `python -m dml_jax.pydirectml PROGRAM.py ...`."""

import importlib
import itertools
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dml_jax.pydirectml.arguments import ArgumentError, PyDirectMLError
from dml_jax.system import unchanged_programs

PACKAGE = "dml_jax.pydirectml"
OPTION = "--save-images"


def main(arguments: Sequence[str]) -> None:
    """Run a program as `python PROGRAM.py ARGUMENTS` does; it finds this module as `pydirectml`.

    After `--save-images FOLDER` the pictures that the program shows are saved there.
    """
    folder = None
    if arguments[:1] == [OPTION]:
        folder = Path(arguments[1]) if len(arguments) > 1 else None
        arguments = arguments[2:]
    unchanged_programs.run(
        PACKAGE, arguments, partial(_install, folder), _is_usage, f"[{OPTION} FOLDER] "
    )


def _install(folder: Path | None) -> None:
    sys.modules["pydirectml"] = importlib.import_module(PACKAGE)
    if folder is not None:
        _save_images(folder)


def _save_images(folder: Path) -> None:
    """Let `Image.show` of Pillow save a picture, where a machine has no screen."""
    from PIL import Image

    numbers = itertools.count(1)

    def show(self: Image.Image, title: str | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{next(numbers)}.png"
        self.save(path)
        sys.stderr.write(f"Saved '{path}'.\n")

    shown: Any = Image.Image
    shown.show = show


def _is_usage(error: BaseException) -> bool:
    is_name = getattr(error, "obj", None) is sys.modules[PACKAGE]  # which the module lacks
    return is_name or isinstance(error, (PyDirectMLError, ArgumentError))


if __name__ == "__main__":
    main(sys.argv[1:])

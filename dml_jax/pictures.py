"""Writing pictures: what their names may be, and files that are the same in every run."""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from dml_jax.errors import DmlError, Fault, missing_extra
from dml_jax.files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def check_picture(target: Path, *packages: str) -> None:
    """Raises `DmlError` where a picture of this name cannot be drawn.

    `packages` are what draws it beside matplotlib.
    """
    if target.suffix.lower() not in (".svg", ".png"):
        raise DmlError([Fault("", "the picture's name", "end in .svg or .png", str(target))])
    for package in ("matplotlib", *packages):
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise missing_extra(error.name or package, "draw pictures", "show") from None


def save_picture(figure: "Figure", target: Path, dots: float = 150) -> None:
    """Writes a figure to a .svg or .png file, of so many dots an inch."""
    import matplotlib

    kind = target.suffix.lower().removeprefix(".")
    date = {"Date": None} if kind == "svg" else None
    with matplotlib.rc_context({"svg.hashsalt": "dml-jax"}):
        write_whole(target, lambda file: figure.savefig(file, format=kind, dpi=dots, metadata=date))

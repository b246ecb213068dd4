"""Files of pictures: the names that they may have, and contents that every run repeats."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from dml_jax.errors import DmlError, Fault, missing_extra
from dml_jax.system.files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


PICTURES = (".svg", ".png")


def check_name(target: Path, kinds: Sequence[str], field: str) -> None:
    """Raise `DmlError` if `target`, of which messages call the name `field`, has another end."""
    if target.suffix.lower() not in kinds:
        rule = f"end in {', '.join(kinds[:-1])} or {kinds[-1]}"
        raise DmlError([Fault("", field, rule, str(target))])


def check_picture(target: Path, *packages: str) -> None:
    """Raise `DmlError` if `target` is no name of a picture, or if a drawing package is missing.

    `packages` are those that the picture needs beside matplotlib.
    """
    check_name(target, PICTURES, "the picture's name")
    for package in ("matplotlib", *packages):
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise missing_extra(error.name or package, "draw pictures", "show") from None


def save_picture(figure: "Figure", target: Path, dots: float = 150) -> None:
    """Write `figure` to a .svg or .png file, with so many `dots` an inch."""
    kind = target.suffix.lower().removeprefix(".")
    write_whole(target, lambda file: write_picture(figure, file, kind, dots))


def write_picture(figure: "Figure", file: IO[bytes], kind: str, dots: float = 150) -> None:
    """Write `figure` to an open file: `kind` is svg or png."""
    import matplotlib

    date = {"Date": None} if kind == "svg" else None
    with matplotlib.rc_context({"svg.hashsalt": "dml-jax"}):
        figure.savefig(file, format=kind, dpi=dots, metadata=date)

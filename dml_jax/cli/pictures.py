"""Pictures as inputs of networks, and the largest numbers of outputs with their labels."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dml_jax.cli.terminal import say_folded
from dml_jax.errors import DmlError, Fault, Unquoted, printable

if TYPE_CHECKING:
    import numpy as np

_LARGEST = 5  # numbers of an output that are listed


def _numbers(ctx: click.Context, parameter: click.Parameter, value: str | None) -> Any:
    try:
        return None if value is None else tuple(map(float, value.split(",")))
    except ValueError:
        raise click.BadParameter(f"{value!r} is not NUMBERS, as 0.485,0.456,0.406.") from None


def picture_options(function: Any) -> Any:
    """Add the options of pictures and labels."""
    for option in (
        click.option(
            "--labels",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            metavar="FILE",
            help="A label for each number of an output, one a line: the five largest are listed.",
        ),
        click.option(
            "--std",
            callback=_numbers,
            metavar="NUMBERS",
            help="What pictures in [0, 1] are divided by after --mean: one number, or one for "
            "each channel.",
        ),
        click.option(
            "--mean",
            callback=_numbers,
            metavar="NUMBERS",
            help="What is subtracted from pictures in [0, 1], as 0.485,0.456,0.406.",
        ),
    ):
        function = option(function)
    return function


@dataclass
class Pictures:
    """What is done to pictures.

    Attributes:
        mean: what is subtracted from each channel, or from all; None for nothing.
        std: what each channel is divided by then, or all; None for nothing.
        said: what was done to each input, by its name.
    """

    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None
    said: dict[str, str] = field(default_factory=dict)

    def normalized(self, name: str, path: Path, planes: "np.ndarray") -> "np.ndarray":
        """Return a picture, [..., C, H, W], as a network gets it; `said` tells what was done.

        Raises `DmlError` where a picture of integers has a mean, or the channels are others.
        """
        import numpy as np
        from PIL import Image

        with Image.open(path) as opened:
            width, height = opened.size
        channels, *sizes = planes.shape[-3:]
        kind = {1: "grey", 3: "RGB", 4: "RGBA"}[channels]
        text = f"{width} x {height} pixels"
        if (height, width) != tuple(sizes):
            text += f", resized to {sizes[1]} x {sizes[0]}"
        is_real = np.issubdtype(planes.dtype, np.floating)
        text += f", {kind} in {'[0, 1]' if is_real else '[0, 255]'}"
        for word, numbers in (("mean", self.mean), ("std", self.std)):
            if numbers is None:
                continue
            if not is_real:
                rule = f"be floats for --{word}"
                raise DmlError([Fault("", "the picture", rule, Unquoted(planes.dtype.name))])
            if len(numbers) not in (1, channels) or (word == "std" and 0 in numbers):
                rule = f"be 1 or {channels} numbers" + " other than 0" * (word == "std")
                raise DmlError([Fault("", f"--{word}", rule, list(numbers))])
            own = np.array(numbers, planes.dtype).reshape(-1, 1, 1)
            planes = planes - own if word == "mean" else planes / own
            shown = ", ".join(f"{number:g}" for number in numbers)
            text += f", {'minus' if word == 'mean' else 'divided by'} {shown}"
        low, high = float(planes.min()), float(planes.max())
        self.said[name] = f"{text}; elements from {low:.4g} to {high:.4g}"
        return planes

    def expect_used(self) -> None:
        """Raise `UsageError` where a mean was given and no picture."""
        if (self.mean or self.std) and not self.said:
            raise click.UsageError("--mean and --std are for pictures (--input NAME=FILE.png).")


def labels_of(path: Path | None) -> list[str] | None:
    """Return the lines of a file of labels; None without a file."""
    return None if path is None else path.read_text("utf-8", "replace").splitlines()


def largest_of(
    outputs: Mapping[str, "np.ndarray"], labels: Sequence[str] | None
) -> dict[str, list[tuple[int, str, float]]]:
    """Return the five largest numbers of each output of one row: index, label, number.

    With `labels`, a row has as many numbers as there are labels. Raises `DmlError` where no output
    has such a row.
    """
    import numpy as np

    found = {}
    for name, array in outputs.items():
        is_row = max(array.shape, default=1) == array.size > 1
        is_labelled = labels is not None and is_row and array.size == len(labels)
        if not np.issubdtype(array.dtype, np.floating) or not (is_labelled or labels is None):
            continue
        if is_row:
            row = array.reshape(-1)
            order = np.argsort(-row, kind="stable")[:_LARGEST]
            found[name] = [(int(k), labels[k] if labels else "", float(row[k])) for k in order]
    if labels is not None and not found:
        sizes = {a.size for a in outputs.values() if max(a.shape, default=1) == a.size > 1}
        count = " or ".join(map(str, sorted(sizes))) or "no"
        rule = f"have a line for each number of an output of one row, {count} lines"
        raise DmlError([Fault("", "--labels", rule, len(labels))])
    return found


def say_largest(
    found: Mapping[str, Sequence[tuple[int, str, float]]], say: Callable[..., Any]
) -> None:
    """Print a table of the largest numbers of each output."""
    for name, rows in found.items():
        say(printable(f"Largest of '{name}':"))
        has_labels = any(label for _, label, _ in rows)
        head = ["Index", *["Label"] * has_labels, "Value"]
        lines = [
            [str(k), *[printable(label)] * has_labels, f"{value:.6g}"] for k, label, value in rows
        ]
        say_folded(head, *lines)

"""What the examples share: the photograph, sheets of labelled pictures, and curves of losses."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from jax.typing import ArrayLike
from PIL import Image, ImageDraw, ImageFont

_MEAN = 20
PHOTOGRAPH = Path(__file__).parent / "images" / "astronaut.jpg"


def photograph() -> np.ndarray:
    """float32[1, 3, 512, 512], red, green and blue from 0 to 1."""
    pixels = np.asarray(Image.open(PHOTOGRAPH).convert("RGB"), np.float32) / 255
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])


def write_sheet(path: Path, pictures: Mapping[str, ArrayLike], zoom: int = 1) -> None:
    """Writes pictures [1, 3, H, W] of one size side by side, each pixel `zoom` wide, named."""
    gap, head = 12, 52
    font = ImageFont.load_default(30)
    _, _, height, width = (zoom * size for size in np.shape(next(iter(pictures.values()))))
    sheet = Image.new("RGB", ((width + gap) * len(pictures) + gap, height + head + gap), "white")
    draw = ImageDraw.Draw(sheet)
    for index, (label, picture) in enumerate(pictures.items()):
        steps = np.round(np.asarray(picture)[0] * 255).astype(np.uint8)
        panel = Image.fromarray(steps.transpose(1, 2, 0)).resize(
            (width, height), Image.Resampling.NEAREST
        )
        left = gap + index * (width + gap)
        sheet.paste(panel, (left, head))
        draw.text((left, head // 2), label, "black", font, anchor="lm")
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(path)
    print(f"{path} written")


def write_losses(path: Path, losses: Mapping[str, np.ndarray]) -> None:
    """Draws two courses of a loss over each other, and how far they are apart."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no picture without matplotlib")
        return
    first, second = losses.values()
    steps, blue = np.arange(1, len(first) + 1), "#20639b"
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    window = np.ones(_MEAN) / _MEAN
    left.plot(steps, first, color="#d5dbe1", linewidth=1)
    for values, style, width, colour in ((first, "-", 6, "#f2b134"), (second, ":", 2, blue)):
        mean = np.convolve(values, window, "valid")
        middle = steps[_MEAN // 2 :][: len(mean)]  # of each window
        left.plot(middle, mean, style, linewidth=width, color=colour)
    left.set_title(f"Loss (thin: each step, thick: mean of {_MEAN})")
    left.legend(["each step", *losses])
    apart = abs(first / second - 1)
    right.semilogy(steps, apart, ".", color=blue)
    ends = np.log10(apart[apart > 0])
    right.set_ylim(10 ** np.floor(ends.min()), 10 ** np.ceil(ends.max()))
    right.yaxis.set_minor_formatter("")  # powers of ten alone
    right.set_title("Relative difference of the two losses")
    for axes in (left, right):
        axes.set_xlabel("step")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    print(f"{path} written")

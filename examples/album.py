"""What the examples share: the photograph, and sheets of labelled pictures."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from jax.typing import ArrayLike
from PIL import Image, ImageDraw, ImageFont

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

"""Words in ten photographs, by rapidocr: detected, turned the right way round, and read."""

import functools
from pathlib import Path
from typing import Any

import matplotlib  # pyright: ignore[reportMissingImports]
import numpy as np
import skimage  # pyright: ignore[reportMissingImports]
import sklearn  # pyright: ignore[reportMissingImports]
from PIL import Image, ImageDraw, ImageFont
from rapidocr import RapidOCR  # pyright: ignore[reportMissingImports]
from timed import report

FONTS = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
SCIENCE, SKLEARN = (Path(str(package.__file__)).parent for package in (skimage, sklearn))
PHOTOGRAPHS: dict[Path, tuple[str, str, int]] = {  # the words, their font, their direction
    SCIENCE / "data/astronaut.png": ("Eileen Collins", "DejaVuSans.ttf", 0),
    SCIENCE / "data/coffee.png": ("Two cups of coffee, 3.50 EUR", "DejaVuSerif.ttf", 0),
    SCIENCE / "data/chelsea.png": ("CHELSEA the cat", "DejaVuSans-Bold.ttf", 0),
    SCIENCE / "data/rocket.jpg": ("Launch complex 40", "DejaVuSansMono.ttf", 180),
    SCIENCE / "data/motorcycle_left.png": ("no parking 08:00-18:00", "DejaVuSans.ttf", 0),
    SCIENCE / "data/page.png": ("", "DejaVuSans.ttf", 0),
    SCIENCE / "data/text.png": ("", "DejaVuSans.ttf", 0),
    SCIENCE / "data/retina.jpg": ("ID 7734-B left", "DejaVuSansMono-Bold.ttf", 0),
    SKLEARN / "datasets/images/china.jpg": ("Summer Palace", "DejaVuSerif-Italic.ttf", 0),
    SKLEARN / "datasets/images/flower.jpg": ("Do not pick the flowers", "DejaVuSans.ttf", 0),
}


def photograph(path: Path, words: str, font: str, turned: int) -> np.ndarray:
    """Return a photograph with words on it, [height, width, BGR]."""
    image = Image.open(path).convert("RGB")
    image.thumbnail((640, 640))
    if words:
        size = image.width // (len(words) // 2 + 4)
        place = image.width // 20, image.height // 3
        letters = ImageFont.truetype(str(FONTS / font), size)
        options: dict[str, Any] = {"stroke_width": 3, "stroke_fill": (0, 0, 0)}
        ImageDraw.Draw(image).text(place, words, (255, 255, 255), letters, **options)
    return np.asarray(image.rotate(turned, expand=True))[..., ::-1].copy()


loaded = functools.cache(RapidOCR)
PICTURES = [photograph(path, *words) for path, words in PHOTOGRAPHS.items()]


def answers() -> list[Any]:
    """Return the words, their scores, and the corners of their boxes."""
    found = (loaded()(picture) for picture in PICTURES)
    return [
        [
            list(one.txts or ()),
            list(one.scores or ()),
            [] if one.boxes is None else one.boxes.tolist(),
        ]
        for one in found
    ]


report(answers)

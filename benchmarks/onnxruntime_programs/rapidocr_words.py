"""The words in pictures, by rapidocr: detected, turned the right way round, and read."""

import functools
from pathlib import Path

import cv2  # pyright: ignore[reportMissingImports]
import numpy as np
from rapidocr import RapidOCR  # pyright: ignore[reportMissingImports]
from timed import report

IMAGES = Path(__file__).parent.parent.parent / "docs" / "images"
loaded = functools.cache(RapidOCR)
drawn = np.full((240, 640, 3), 255, np.uint8)
for k, text in enumerate(["Hello DirectML", "the quick brown fox", "ONNX Runtime programs"]):
    place = (20, 60 + 70 * k)
    cv2.putText(drawn, text, place, cv2.FONT_HERSHEY_SIMPLEX, 1.4, (0, 0, 0), 3)
PICTURES = [drawn, *(cv2.imread(str(path)) for path in sorted(IMAGES.glob("*"))[:9])]


def answers():
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

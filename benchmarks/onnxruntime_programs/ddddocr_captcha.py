"""A captcha of two widths, by ddddocr: read, and its letters detected."""

import functools

import cv2  # pyright: ignore[reportMissingImports]
import ddddocr  # pyright: ignore[reportMissingImports]
import numpy as np
from timed import report

reader = functools.cache(lambda: ddddocr.DdddOcr(show_ad=False))
detector = functools.cache(lambda: ddddocr.DdddOcr(det=True, show_ad=False))
picture = np.full((64, 160, 3), 255, np.uint8)
cv2.putText(picture, "A7kX", (8, 48), cv2.FONT_HERSHEY_SIMPLEX, 1.6, (20, 20, 160), 3)
whole, part = (cv2.imencode(".png", picture[:, :width])[1].tobytes() for width in (160, 120))
report(
    lambda: (
        [reader().classification(whole), reader().classification(part)]
        + [[int(x) for x in box] for box in detector().detection(whole)]
    )
)

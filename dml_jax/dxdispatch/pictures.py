"""Pictures as tensors: read by Pillow, and written again."""

import contextlib
from pathlib import Path
from typing import Any

import numpy as np

from dml_jax.enums import TensorDataType
from dml_jax.errors import missing_extra, refused

IMAGE_TYPES = (".png", ".jpg", ".jpeg")
IMAGE_FORMATS = ("JPEG", "PNG", "WEBP")  # by contents: of others Pillow may start programs
IMAGE_DATA_TYPES = ("FLOAT32", "FLOAT16", "FLOAT64", "UINT8")


def sizes_of_image(
    path: Path, data_type: TensorDataType, resample: tuple[int, int, int] | None
) -> tuple[int, int, int]:
    """Return the channels, height and width of a picture: those of `resample`, or its own.

    Raises `DmlError` if elements of `data_type` hold no picture, or if there are too many pixels.
    """
    if data_type.name not in IMAGE_DATA_TYPES:
        names = ", ".join(IMAGE_DATA_TYPES)
        raise refused(f"come with an initialValuesDataType of {names}", data_type.shown())
    width, height = upright_size(path)
    most = pillow().MAX_IMAGE_PIXELS
    if most is not None and width * height > most:  # of which Pillow itself only warns
        raise refused(f"have at most {most} pixels (PIL.Image.MAX_IMAGE_PIXELS)", width * height)
    return resample or (3, height, width)


def upright_size(path: Path) -> tuple[int, int]:
    """Return the width and height of a picture that stands as its EXIF data say."""
    with pillow().open(path, formats=IMAGE_FORMATS) as header:
        width, height = header.size
        return (height, width) if _orientation(header) > 4 else (width, height)


# What Pillow calls the way from each orientation of EXIF to an upright picture.
_TURNS = (None, None, 0, 3, 1, 5, 4, 6, 2)


def _orientation(image: Any) -> int:
    """Return how the rows of a picture lie, from 1 to 8, as EXIF counts it; 1 is upright."""
    # The method of a PNG decodes all of the picture first. A picture with data that Pillow cannot
    # read, whose errors have no common class, is shown by others as it is.
    with contextlib.suppress(Exception):
        value = int(pillow().Image.getexif(image).get(0x0112, 1))
        return value if value in range(1, 9) else 1
    return 1


def read_image(path: Path, dtype: np.dtype, sizes: tuple[int, int, int]) -> np.ndarray:
    """Return a picture as [C, H, W] of a type; floats are in [0, 1]."""
    channels, height, width = sizes
    image_class = pillow()
    with image_class.open(path, formats=IMAGE_FORMATS) as opened:
        turn = _TURNS[_orientation(opened)]  # before it is decoded, as for its size
        # Before Pillow converts the picture, which would lose what these bits say.
        deep = _sixteen_bits(path, opened)
        image = opened if deep is None else image_class.fromarray(deep)
        image = image.convert({1: "L", 3: "RGB", 4: "RGBA"}[channels])
        image = image if turn is None else image.transpose(turn)
    if image.size != (width, height):
        image = image.resize((width, height), image_class.Resampling.BICUBIC)
    pixels = np.asarray(image).reshape(height, width, channels)
    planes = np.empty((channels, height, width), dtype)
    for index in range(channels):  # a plane at a time, so that little memory is needed
        plane = pixels[..., index]
        planes[index] = plane if planes.dtype == np.uint8 else plane / np.float32(255)
    return planes


_ROWS = 256
# The raw modes that give the high and the low bytes of 16 bits; of LA all four bytes are channels.
_BYTES = {
    "RGB;16B": ("RGB;16B", "RGB;16L"),
    "RGBA;16B": ("RGBA;16B", "RGBA;16L"),
    "LA;16B": ("RGBA",),
}


def _sixteen_bits(path: Path, opened: Any) -> np.ndarray | None:
    """Return a picture of 16 bits a channel with 8, or None for others: x becomes round(x / 257).

    Pillow's own conversions clip grey at 255, and drop the low bytes of other pictures.
    """
    if opened.mode.startswith("I;16"):
        high, low = np.asarray(opened), None
    else:
        modes = _BYTES.get(str(opened.tile[0].args)) if opened.tile else None
        if modes is None:
            return None
        parts = []
        for mode in modes:
            with pillow().open(path, formats=IMAGE_FORMATS) as image:
                image.tile = [tile._replace(args=mode) for tile in image.tile]
                parts.append(np.asarray(image))
        high, low = parts if len(parts) == 2 else (parts[0][..., ::2], parts[0][..., 1::2])
    narrow = np.empty(high.shape, np.uint8)
    for k in range(0, len(high), _ROWS):  # some rows at a time, so that little memory is needed
        rows = slice(k, k + _ROWS)
        deep = high[rows].astype(np.uint32)
        deep = deep if low is None else deep * 256 + low[rows]
        narrow[rows] = (deep + 128) // 257
    return narrow


def pillow() -> Any:
    """Return PIL.Image. Raises the error that says how to install it."""
    try:
        from PIL import Image
    except ImportError:
        raise missing_extra("pillow", "read and write pictures", "cli") from None
    return Image


def to_image(tensor: np.ndarray, opaque: bool) -> Any:
    """Return a [1, C, H, W] tensor as an image; floats in [0, 1] become 256 steps."""
    pixels = tensor[0].transpose(1, 2, 0)
    if pixels.dtype != np.uint8:
        pixels = np.nan_to_num(pixels.astype(np.float32), nan=0.0)
        pixels = np.rint(np.clip(pixels, 0, 1) * 255).astype(np.uint8)
    pixels = pixels[..., :3] if opaque else pixels  # JPEG has no transparency
    return pillow().fromarray(pixels.squeeze(-1) if pixels.shape[-1] == 1 else pixels)

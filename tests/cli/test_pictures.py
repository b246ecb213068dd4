"""Pictures as inputs of networks on the command line: what is done to them, and the labels."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from build import command, parse, saved
from click.testing import Result
from PIL import ExifTags, Image, ImageOps

SCORES = """g (float[1,3,4,6] x) => (float[1,6] y) {
    m = ReduceMean <axes = [1, 2], keepdims = 0> (x)  y = Identity(m) }"""
PIXELS = np.random.default_rng(0).integers(0, 256, (4, 6, 3)).astype(np.uint8)
MEAN, STD = (0.5, 0.25, 0.125), (2.0, 4.0, 0.5)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    saved(parse(SCORES, opset=17), tmp_path)
    Image.fromarray(PIXELS).save(tmp_path / "dog.png")
    Image.fromarray(PIXELS).resize((12, 8)).save(tmp_path / "large.png")
    labels = "\n".join(f"kind {k}" for k in range(6))
    (tmp_path / "labels.txt").write_text(labels, encoding="utf-8")
    return tmp_path


def run(folder: Path, *words: Any, status: int = 0) -> Result:
    return command("run", folder / "n.onnx", "--no-cache", *words, status=status)


def test_it_is_said_what_was_done_to_a_picture(folder: Path):
    said = run(folder, "--input", f"x={folder / 'large.png'}", "--mean", "0.5").output
    text = "Input 'x': 12 x 8 pixels, resized to 6 x 4, RGB in [0, 1], minus 0.5; elements from "
    assert text in said


def test_pictures_are_normalized_and_the_largest_have_labels(folder: Path):
    options = ["--mean", "0.5,0.25,0.125", "--std", "2,4,0.5", "--json"]
    options += ["--labels", folder / "labels.txt", "--input", f"x={folder / 'dog.png'}"]
    report = json.loads(run(folder, *options).output)
    x = PIXELS.transpose(2, 0, 1) / 255
    x = (x - np.reshape(MEAN, (3, 1, 1))) / np.reshape(STD, (3, 1, 1))
    scores = x.mean((0, 1))
    np.testing.assert_allclose(report["values"]["y"][0], scores, rtol=1e-5)
    order = np.argsort(-scores)[:5]
    assert [row[:2] for row in report["largest"]["y"]] == [[k, f"kind {k}"] for k in order]
    assert report["pictures"]["x"].startswith("6 x 4 pixels, RGB in [0, 1], minus 0.5, 0.25, 0.125")
    said = run(folder, *(o for o in options if o != "--json")).output
    assert "Largest of 'y':" in said and f"kind {order[0]}" in said


@pytest.mark.parametrize("orientation", range(1, 10))
@pytest.mark.parametrize("kind", ["png", "jpg"])
def test_a_picture_stands_as_its_exif_data_say(orientation: int, kind: str, folder: Path):
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    blocks = PIXELS.repeat(8, 0).repeat(8, 1)  # those that JPEG keeps
    Image.fromarray(blocks).save(folder / f"x.{kind}", exif=exif, quality=100, subsampling=0)
    with Image.open(folder / f"x.{kind}") as image:
        upright = ImageOps.exif_transpose(image)
    assert upright is not None
    height, width = upright.height, upright.width
    saved(
        f"g (float[1,3,{height},{width}] x) => (float[1,3,{height},{width}] y) {{ y = Neg (x) }}",
        folder,
    )
    result = run(folder, "--input", f"x={folder / f'x.{kind}'}", "--json")
    report = json.loads(result.output)
    expected = np.asarray(upright).transpose(2, 0, 1)[None] / -255
    np.testing.assert_allclose(report["values"]["y"], expected, atol=1e-6)
    assert report["pictures"]["x"].startswith(f"{width} x {height} pixels, RGB")


def test_a_picture_with_broken_exif_data_is_read(folder: Path):
    Image.fromarray(PIXELS).save(folder / "x.png", exif=b"Exif\0\0no TIFF")
    assert "6 x 4 pixels" in run(folder, "--input", f"x={folder / 'x.png'}").output


@pytest.mark.parametrize(
    ("options", "text", "status"),
    [
        ("--mean 0.5,0.5 --input x=dog.png", "--mean to be 1 or 3 numbers", 1),
        ("--std 0 --input x=dog.png", "numbers other than 0", 1),
        ("--mean a", "is not NUMBERS", 2),
        ("--mean 0.5", "are for pictures", 2),
        ("--labels few.txt", "a line for each number of an output", 1),
    ],
)
def test_mistakes(
    folder: Path, options: str, text: str, status: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(folder)
    Path("few.txt").write_text("a\nb", encoding="utf-8")
    result = run(folder, *options.split(), status=status)
    assert text in result.output
    assert "Dispatch" not in result.output  # the network has not run


def identity(folder: Path, sizes: str) -> None:
    saved(f"g (float[{sizes}] x) => (float[{sizes}] y) {{ y = Identity(x) }}", folder)


@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ("1,4,6,3", []),
        ("4,6,3", []),
        ("n,h,w,3", ["-f", "h:4", "-f", "w=6"]),
        ("n,h,w,c", ["-b", "x:1,4,6,3"]),
    ],
)
def test_channels_may_come_last(folder: Path, sizes: str, options: list[str]):
    identity(folder, sizes)
    given = ["--input", f"x={folder / 'dog.png'}", "--mean", "0.5,0.25,0.125", "--json", *options]
    report = json.loads(run(folder, *given).output)
    found = np.array(report["values"]["y"]).reshape(4, 6, 3)
    np.testing.assert_allclose(found, PIXELS / 255 - MEAN, atol=1e-6)


@pytest.mark.parametrize(
    ("sizes", "cure"),
    [
        ("n,h,w,3", "h is 1, w is 1: -f h:4 -f w:6"),
        ("n,3,h,w", "h is 1, w is 1: -f h:4 -f w:6"),
        ("1,5,w,3", "w is 1: -f w:6"),
        ("1,?,?,3", "dimension 1 is 1, dimension 2 is 1: -b x:1,4,6,3"),
        ("1,5,4,7", "the input 'x' to be [..., C, H, W] or [..., H, W, C] with 1, 3 or 4 channels"),
        ("3,4", "the input 'x' to be [..., C, H, W] or [..., H, W, C] with 1, 3 or 4 channels"),
    ],
)
def test_pictures_that_have_no_place(folder: Path, sizes: str, cure: str):
    identity(folder, sizes)
    assert cure in run(folder, "--input", f"x={folder / 'dog.png'}", status=1).output


def test_it_is_said_which_sizes_free_dimensions_have(folder: Path):
    identity(folder, "batch,?,2")
    said = run(folder, "-f", "batch:3")
    text = "Sizes (others: -f NAME:SIZE, -b NAME:SIZES): x FLOAT32[batch=3,?=1,2] -> y"
    assert text in said.output
    report = json.loads(run(folder, "--json").output)
    assert report["inputs"] == {"x": ["float32", [1, 1, 2]]}

"""What the README and the examples show is what happens."""

import doctest
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from dml_jax.cli import cli

ROOT = Path(__file__).parent.parent
MODELS = sorted((ROOT / "examples" / "models").glob("*.json"))


def test_quickstart():
    failed, tried = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert tried > 10
    assert failed == 0


def headings(page: Path) -> list[str]:
    """As links name them."""
    found = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found]


def test_links_lead_somewhere():
    for page in (ROOT / "README.md", ROOT / "examples" / "images" / "README.md"):
        for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
            path, _, anchor = target.partition("#")
            if not target.startswith("https://"):
                assert (page.parent / path).exists(), target
                assert not anchor or anchor in headings(page.parent / path), target


def photograph(size: int) -> np.ndarray:
    """[3, size, size], 0 to 1."""
    image = Image.open(ROOT / "examples" / "images" / "astronaut.jpg").convert("RGB")
    image = image.resize((size, size), Image.Resampling.BICUBIC)
    return np.asarray(image).transpose(2, 0, 1) / 255


def picture(name: str) -> np.ndarray:
    pixels = np.asarray(Image.open(Path("out") / name)) / 255
    return pixels.transpose(2, 0, 1) if pixels.ndim == 3 else pixels


EXPECTED = {
    "exposure": lambda: {"exposure.png": np.clip(photograph(512) * 1.414 - 0.05, 0, 1)},
    "contact_sheet": lambda: {"contact_sheet.jpg": np.tile(photograph(128), (1, 2, 3))},
    "channels": lambda: dict(
        zip(("red.png", "green.png", "blue.png"), photograph(512), strict=True)
    ),
    "pixel_shuffle": lambda: {"pixel_shuffle.png": photograph(256)},
    "profiles": lambda: {
        "rows.png": np.tile(photograph(512).mean((0, 2))[:, None], (1, 512)),
        "columns.png": np.tile(photograph(512).mean((0, 1)), (512, 1)),
    },
}


@pytest.mark.parametrize("model", MODELS, ids=lambda path: path.stem)
def test_example_models_make_their_pictures(model: Path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["run", str(model)])
    assert result.exit_code == 0, result.output
    expected = EXPECTED[model.stem]()
    for name, pixels in expected.items():
        # PNG keeps what rounding to 256 steps does, JPEG loses something around edges.
        assert picture(name).shape == pixels.shape
        difference = np.abs(picture(name) - pixels)
        assert difference.mean() < 0.015 if name.endswith("jpg") else difference.max() < 0.51 / 255
    assert sorted(path.name for path in Path("out").iterdir()) == sorted(expected)
    if model.stem == "profiles":
        brightness = photograph(512).mean(0)
        values = dict(re.findall(r"Resource '(index|value)': (\S+)", result.output))
        assert brightness.ravel()[int(values["index"])] == pytest.approx(brightness.max())
        assert float(values["value"]) == pytest.approx(brightness.max())


def test_commands_name_what_is_there():
    commands = re.findall(
        r"<!-- command: \w+ -->\n```sh\n(.*)\n```", (ROOT / "README.md").read_text()
    )
    assert len(commands) == 2
    for command in commands:
        for word in shlex.split(command):
            assert "/" not in word or word.startswith(".venv") or (ROOT / word).exists(), word

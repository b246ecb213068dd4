"""What the README and the examples show is what happens."""

import re
from pathlib import Path

import numpy as np
import pytest
from build import command
from PIL import Image
from snippets import run_page

import dml_jax

ROOT = Path(__file__).parents[2]
MODELS = sorted((ROOT / "examples" / "models").glob("*.json"))


def test_quickstart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The first code enlarges the face better than Pillow does, and takes a step downhill."""
    monkeypatch.chdir(tmp_path)
    Path("examples").symlink_to(ROOT / "examples")
    text = (ROOT / "README.md").read_text()
    kinds = run_page("README", text)
    assert kinds.count("python") + kinds.count("pycon") >= 3
    image = Image.open(ROOT / "examples" / "images" / "astronaut.jpg").crop((120, 0, 312, 192))
    small = image.reduce(3)

    def array(image: Image.Image) -> np.ndarray:
        return np.asarray(image, np.float32).transpose(2, 0, 1)[None] / 255

    def error(picture: np.ndarray) -> float:
        return float(np.mean((np.asarray(picture) - array(image)) ** 2))

    cubic = small.resize(image.size, Image.Resampling.BICUBIC)
    before, after = (
        error(dml_jax.load_onnx(path)(small=array(small))["large"])
        for path in (ROOT / "examples" / "models" / "enlarge.onnx", "out/tuned.onnx")
    )
    assert after < before < error(array(cubic))
    first = text.splitlines().index("```python")
    assert first < 20


def headings(page: Path) -> list[str]:
    """As links name them."""
    found = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found]


def test_links_lead_somewhere():
    for page in (p for at in (".", "docs/**", "examples/**") for p in ROOT.glob(f"{at}/*.md")):
        for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
            path, _, anchor = target.partition("#")
            if not target.startswith("https://"):
                there = page.parent / path if path else page
                assert there.exists(), target
                assert not anchor or anchor in headings(there), target


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
    result = command("run", model)
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
        r"<!-- command: (\w+) -->\n```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL
    )
    assert [name for name, _ in commands] == ["run", "test"]
    for _, block in commands:
        lines = block.splitlines()
        assert lines[1] == ". .venv/bin/activate"
        assert not re.search("['&;|]", block), "one command a line, double quotes: for any shell"
        for word in " ".join(lines[2:]).split():
            assert "/" not in word or (ROOT / word).exists(), word

"""The examples, run as a reader runs them: what they print, check and draw."""

import importlib
import math
import os
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from build import parse, saved, session
from forms import soon
from jax import lax
from language_folders import write_folder
from nightly import NIGHTLY, sample
from PIL import Image
from processes import python

from dml_jax import Graph, OperatorNode

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


FLAGS = " ".join(f"--{name}={str(value).lower()}" for name, value in (soon() or {}).items())
"""XLA's for programs that are compiled soon, as `forms` has them."""


def run(*words: str | Path) -> str:
    """What the script prints; it runs in the current folder, on a CPU with one device."""
    settings = {"XLA_FLAGS": "" if NIGHTLY else FLAGS, "JAX_PLATFORMS": "cpu", "PYTHONUTF8": "1"}
    done = python("-W", "error", *words, env=os.environ | settings, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)


def panels(path: Path, count: int, zoom: int = 1) -> list[np.ndarray]:
    """The pictures of a sheet, from 0 to 1."""
    sheet = np.asarray(Image.open(path), np.float64)[52:-12] / 255
    width = (sheet.shape[1] - 12) // count
    pictures = (sheet[:, width * k + 12 : width * (k + 1)] for k in range(count))
    return [picture[::zoom, ::zoom] for picture in pictures]


def decibels(picture: np.ndarray, original: np.ndarray) -> float:
    return -10 * math.log10(((picture - original) ** 2).mean())


def test_super_resolution_beats_bicubic():
    printed = run(EXAMPLES / "super_resolution.py", "--steps", "100", "--batch", "8")
    quality = {name: float(v) for name, v in re.findall(r"^([a-z ]+), (\S+) dB$", printed, re.M)}
    assert list(quality) == ["low resolution", "bicubic", "learned"]
    assert quality["low resolution"] < quality["bicubic"] < quality["learned"] - 0.2

    *made, face = panels(Path("out/super_resolution.png"), 4, zoom=2)
    photograph = Image.open(EXAMPLES / "images" / "astronaut.jpg").convert("RGB")
    crop = photograph.crop((120, 0, 312, 192))
    np.testing.assert_array_equal(face * 255, np.asarray(crop))
    for picture, value in zip(made, quality.values(), strict=True):
        assert decibels(picture, face) == pytest.approx(value, abs=0.05)
    # Pillow's bicubic is the same filter.
    peer = np.asarray(crop.reduce(3).resize((192, 192), Image.Resampling.BICUBIC)) / 255
    assert quality["bicubic"] == pytest.approx(decibels(peer, face), abs=0.1)

    run("-m", "dml_jax.pydirectml", EXAMPLES / "pydirectml_super_resolution.py")
    program = np.asarray(Image.open("out/pydirectml_super_resolution.png"), np.float64) / 255
    # Both round to 255 steps, of sums in another order.
    np.testing.assert_allclose(program, made[2], atol=1.01 / 255)
    assert decibels(program, face) == pytest.approx(quality["learned"], abs=0.01)


def test_the_pydirectml_program_says_what_it_needs():
    done = python("-m", "dml_jax.pydirectml", EXAMPLES / "pydirectml_super_resolution.py")
    assert done.returncode == 1
    assert done.stderr == (
        "out/super_resolution.npz is missing: run examples/super_resolution.py first\n"
    )


def test_super_resolution_trains_beside_the_face(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    module = importlib.import_module("super_resolution")
    picture = np.random.default_rng(0).random((1, 3, 512, 512), np.float32)
    picture[:, :, 0:192, 120:312] = np.nan
    batch = next(module.patches(picture, 300))
    assert batch.shape == (300, 3, 72, 72)
    assert np.isfinite(batch).all()


def developed(raw: np.ndarray) -> np.ndarray:
    """The camera of examples/camera.py by hand: [H, W] -> [3, H, W]."""
    light = np.log(np.clip((raw.astype(np.float64) - 64) / (1023 - 64), 0.001, 1))
    toned = np.empty_like(light)
    for site in np.ndindex(2, 2):
        plane = light[site[0] :: 2, site[1] :: 2]
        share = np.exp(plane - plane.max(1).mean())
        toned[site[0] :: 2, site[1] :: 2] = np.log1p(15 * share) / np.log1p(15)

    def spread(values: np.ndarray, known: np.ndarray) -> np.ndarray:
        """Each unknown pixel is the mean of the known ones nearest to it."""
        total, count = (np.pad(a, 2, "symmetric") for a in (values * known, known * 1.0))
        result = values.copy()
        here = np.pad(known, 2, "symmetric")
        for steps in (((0, 1), (0, -1), (1, 0), (-1, 0)), ((1, 1), (1, -1), (-1, 1), (-1, -1))):
            sums = [sum(np.roll(a, s, (0, 1)) for s in steps) for a in (total, count)]
            found = ~here & (sums[1] > 0)
            inner = (slice(2, -2), slice(2, -2))
            result[found[inner]] = (sums[0] / np.maximum(sums[1], 1))[inner][found[inner]]
            here |= found
        return result

    rows, columns = np.indices(raw.shape) % 2
    green = spread(toned, rows != columns)
    distances = [spread(toned - green, (rows == k) & (columns == k)) for k in (0, 1)]
    return np.clip([green + distances[0], green, green + distances[1]], 0, 1)


def test_the_camera_develops_three_times_alike():
    printed = run(EXAMPLES / "camera.py")
    folder = Path("out/camera")
    raw = np.load(folder / "raw.npy")[0, 0]
    assert raw.min() >= 0 and raw.max() <= 1023 and (raw == np.round(raw)).all()
    expected = developed(raw)
    for way in ("model", "stablehlo"):
        assert f"{way}: differs from Python's by" in printed
        picture = np.load(folder / f"{way}.npy")[0]
        # At the border the graph doubles the last block, not the last pixel.
        inner = (slice(None), slice(2, -2), slice(2, -2))
        np.testing.assert_allclose(picture[inner], expected[inner], atol=2e-5)
    _, drawn, original = panels(folder / "camera.png", 3)
    np.testing.assert_allclose(drawn.transpose(2, 0, 1), picture, atol=0.51 / 255)
    assert decibels(drawn, original) > 20


@pytest.mark.parametrize("arguments", sample([["--processes", "2"], ["--devices", "1"], []], of=3))
def test_sharded_logits_read_the_same_text(arguments: list[str]):
    printed = run(EXAMPLES / "sharded_logits.py", *arguments)
    assert "read: Hello, Γειά σου, こんにちは, 世界, 안녕, 𐌷𐌰𐌹𐌻𐍃 🌍🚀\n" in printed  # noqa: RUF001
    assert "one device gives the same\n" in printed
    assert f", {2 if '--processes' in arguments else 1} processes\n" in printed
    sent = re.findall(r"^  (argmax|log_sum_exp|softmax) +(.*)$", printed, re.M)
    assert len(sent) == 6
    for index, (_, collectives) in enumerate(sent):
        if index >= 3 or "1" in arguments:  # sharded over the positions, or not at all
            assert collectives == "nothing is sent"
        else:  # a number or two for each position, whatever the number of devices
            assert re.fullmatch(
                r"all-reduce \w+\[40(,1)?\](, all-reduce \w+\[40(,1)?\])?", collectives
            )
    assert np.asarray(Image.open("out/sharded_logits.png")).shape == (460, 1000, 4)


def test_feature_levels_is_a_script_and_a_notebook():
    printed = run(EXAMPLES / "feature_levels.py")
    # REDUCE of rank 2, ARGMAX and MAX of UINT8 came with 3_0, by DirectML's pages.
    assert "FLOAT32[3,3] -> FLOAT32[3,1]\n  needs 3_0\n" in printed
    assert printed.count("3_0 -> 1_0\n") == 2
    assert "UINT8[4,1,64,64]) needs 3_0\nNode 1: DML_OPERATOR_REDUCE: expected" in printed
    assert np.asarray(Image.open("out/feature_levels.png")).shape[1] == 800

    cells = (EXAMPLES / "feature_levels.py").read_text().split("# %%")[1:]
    assert len(cells) > 10
    for cell in cells:
        head, *lines = cell.splitlines()
        assert head in ("", " [markdown]")
        if head:
            assert all(line.startswith("#") or not line for line in lines), lines


def test_adam_learns_as_much_as_optax():
    printed = run(EXAMPLES / "adam.py")
    (mean,) = re.findall(r"^the neighbours' mean: off by (\S+) grey", printed, re.M)
    reached = dict(re.findall(r"^(directml|optax): loss .*; off by (\S+) on unseen", printed, re.M))
    assert float(reached["directml"]) < 0.8 * float(mean)
    assert float(reached["directml"]) == pytest.approx(float(reached["optax"]), abs=0.02)
    assert len(re.findall(r"^  in step \d+: by \S+; by \S+ with an epsilon", printed, re.M)) == 3


def test_the_training_graph_learns_as_jax_grad_does():
    printed = run(EXAMPLES / "training_graph.py", "--steps", "40")
    (first,) = re.findall(r"by (\S+) of themselves in the first 20 steps", printed)
    assert float(first) < 1e-5
    right = re.findall(r"^(.+): (\S+)% of 1000 new pictures", printed, re.M)
    assert [name for name, _ in right] == ["jax.grad", "graph"]
    assert all(float(part) > 50 for _, part in right)  # a guess is right in 25
    assert np.asarray(Image.open("out/training_graph.png")).shape == (400, 1000, 4)
    saved = Graph.load("out/training_graph.json")
    names = {n.operator.short_name for n in saved.nodes if isinstance(n, OperatorNode)}
    gradients = {"ACTIVATION_RELU_GRAD", "AVERAGE_POOLING_GRAD", "MAX_POOLING_GRAD"}
    assert names > {*gradients, "ADAM_OPTIMIZER", "CONVOLUTION", "GEMM"}


def test_the_training_graph_has_the_gradients_of_plain_jax(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    module = importlib.import_module("training_graph")
    pictures, labels = module.drawn(module.BATCH, seed=3)
    state = module.started(jax.random.key(1))

    def loss(p: dict[str, jax.Array]) -> jax.Array:
        x = lax.conv(pictures, p["filter1"], (1, 1), "SAME") + p["bias1"]
        window = ((1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        x = lax.reduce_window(jax.nn.relu(x), -jnp.inf, lax.max, *window)
        x = jax.nn.relu(lax.conv(x, p["filter2"], (1, 1), "SAME") + p["bias2"])
        x = lax.reduce_window(x, 0.0, lax.add, *window) / 4
        logits = x.reshape(len(x), -1) @ p["weights"][0, 0] + p["bias3"][0, 0]
        return -(jax.nn.log_softmax(logits) * labels[0, 0]).sum(1).mean()

    value, gradients = jax.value_and_grad(loss)(state.parameters)
    results = module.training_graph(state)(pictures, labels, *jax.tree.leaves(state))
    assert results[0].item() == pytest.approx(float(value), rel=1e-4)  # a GPU has TF32 there
    after = jax.tree.unflatten(jax.tree.structure(state), results[1:])
    assert after.step.item() == 2
    least = (1e-4, 1e-6) if jax.default_backend() == "cpu" else (1e-2, 1e-3)  # a GPU has TF32 there
    for name, gradient in gradients.items():  # the first moment is 0 before the step
        np.testing.assert_allclose(after.first_moment[name] * 10, gradient, *least)


CLASSIFIER = """
small (float[batch, 3, 224, 224] x) => (float[batch, 4] chances)
<int64[2] sizes = {0, -1}>
{
    fine = Conv<strides = [4, 4]>(x, filter)
    coarse = Conv<strides = [8, 8]>(fine, filter2)
    active = Relu(coarse)
    flat = Reshape(active, sizes)
    logits = Gemm(flat, dense, bias)
    chances = Softmax<axis = 1>(logits)
}
"""


def test_a_network_is_tuned_saved_exported_and_sharded():
    random = np.random.default_rng(0)
    shapes = {"filter": (8, 3, 4, 4), "filter2": (8, 8, 8, 8), "dense": (392, 4), "bias": (4,)}
    before = {n: random.normal(0, 0.05, s).astype(np.float32) for n, s in shapes.items()}
    saved(parse(CLASSIFIER, **before), Path(), "small.onnx")
    printed = run(EXAMPLES / "onnx_fine_tune.py", "small.onnx", "--steps", "20")
    losses = [float(loss) for loss in re.findall(r"^step \d+: loss (\S+)$", printed, re.M)]
    assert losses[1] < losses[0]
    assert "8 devices: 4 pictures each; nothing is sent\n" in printed
    assert re.findall(r"^(.+): differs by", printed, re.M) == ["JAX alone", "several devices"]
    assert np.asarray(Image.open("out/onnx_fine_tune.png")).shape == (512, 1852, 3)

    after = np.load("out/onnx_fine_tune.npz")
    changed = {n: after[n] for n, w in before.items() if not np.array_equal(w, after[n])}
    assert changed.keys() == {"filter2", "dense", "bias"}
    pictures = np.load("out/pictures.npy")
    x = (pictures - np.array([[[0.485]], [[0.456]], [[0.406]]], np.float32)) / np.float32(0.226)
    # ONNX Runtime answers as JAX alone did.
    (expected,) = session(parse(CLASSIFIER, **before | changed)).run(None, {"x": x})
    np.testing.assert_allclose(np.load("out/answers.npy"), np.asarray(expected), atol=1e-5)


def test_a_decoder_learns_on_the_devices_of_two_processes():
    write_folder(Path("FOLDER"), bits=4, layers=1, heads=8, groups=8, columns=128)
    printed = run(EXAMPLES / "decoder_fine_tune.py", "FOLDER", "--processes", "2", "--steps", "30")
    assert printed.startswith("8 x cpu, 2 processes\n")
    found = [float(loss) for loss in re.findall(r"loss .*?(\d+\.\d+)$", printed, re.M)]
    before, after, of_float16, of_int4 = found
    assert after < before / 2
    assert of_float16 == pytest.approx(after, abs=0.1)  # of one step more
    assert of_int4 < before
    assert "\n8 devices share all heads and columns\n" in printed
    assert "\nall devices go on as one: " in printed
    assert "out/decoder_fine_tune/adapter: read as it was written\n" in printed
    wanted = {"model.onnx", "model.onnx.data", "genai_config.json", "tokenizer.json"}
    assert wanted <= {path.name for path in Path("out/decoder_fine_tune/merged").iterdir()}


def test_every_example_is_shown():
    for page in (EXAMPLES / "README.md", ROOT / "docs" / "examples.md"):
        text = page.read_text()
        for script in EXAMPLES.glob("*.py"):
            named = f"examples/{script.name}" in text
            assert named or script.stem == "album", (page, script)

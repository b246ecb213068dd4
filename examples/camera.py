"""Develops a camera's raw picture by a graph of DirectML operators, run three ways.

    python examples/camera.py

The raw picture is made from the photograph: light of a lamp that lacks red and blue falls on a
sensor with a red, a green or a blue filter on each pixel; it counts electrons, with noise, and has
a black level. Developing it takes seven kinds of operators, and one idea: on a logarithmic scale,
white balance adds, and LOG_SUM_EXP is the curve that a screen wants. JOIN and REDUCE add.

The same graph is then called from Python; saved as JSON and dispatched by `dml-jax run`; exported
as StableHLO and called by a process that has JAX alone. All three give the same picture.

Writes out/camera/: the raw picture, the graph, the model, the program, and camera.png.
"""

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import jax
import numpy as np
from album import photograph, write_sheet

import dml_jax
from dml_jax import Expression, Graph, GraphBuilder, ScaleBias, TensorDesc

BLACK, WHITE = 64, 1023  # what the sensor gives without light, and at most: 10 bits
ELECTRONS = 8000  # of white light
BLOCKS = 256  # of 2 x 2 pixels, in height and width
HEIGHT, WIDTH = 2, 3  # axes
CONTRAST = 15

Tensor = TypeVar("Tensor", jax.Array, Expression)  # what can be computed, can be built


def sensed(picture: np.ndarray, seed: int = 0) -> np.ndarray:
    """What the sensor makes of a picture: float32[1, 1, H, W], whole numbers up to WHITE."""
    random = np.random.default_rng(seed)
    light = np.where(picture < 0.04045, picture / 12.92, ((picture + 0.055) / 1.055) ** 2.4)
    red, green, blue = light[0] * np.reshape([0.5, 0.9, 0.6], (3, 1, 1))
    mosaic = green.copy()  # green where no other filter is
    mosaic[0::2, 0::2] = red[0::2, 0::2]
    mosaic[1::2, 1::2] = blue[1::2, 1::2]
    electrons = random.poisson(mosaic * ELECTRONS) + random.normal(0, 6, mosaic.shape)
    steps = np.round(BLACK + (WHITE - BLACK) * electrons / ELECTRONS)
    return np.clip(steps, 0, WHITE).astype(np.float32)[None, None]


# Arithmetic: the tensors joined along the first axis, of size 1, and that one reduced.


def total(*terms: Tensor) -> Tensor:
    return dml_jax.reduce(dml_jax.join(terms, 0), "SUM", [0])


def mean(*terms: Tensor) -> Tensor:
    return dml_jax.reduce(dml_jax.join(terms, 0), "AVERAGE", [0])


def linear(x: Tensor, scale: float = 1, bias: float = 0) -> Tensor:
    return dml_jax.clip(x, -math.inf, math.inf, ScaleBias(scale=scale, bias=bias))


def minus(x: Tensor, y: Tensor) -> Tensor:
    return total(x, linear(y, -1))


# The camera.


def exposed(raw: Tensor) -> Tensor:
    """The logarithm of the light: 0 is white. The least is what a step or so is."""
    full = WHITE - BLACK
    light = dml_jax.clip(raw, 0.001, 1, ScaleBias(scale=1 / full, bias=-BLACK / full))
    return dml_jax.reduce(light, "LOG_SUM", [0])  # of one term


def balanced(planes: Tensor) -> Tensor:
    """White made white: the mean over rows of each row's brightest pixel, plane by plane."""
    brightest = dml_jax.reduce(planes, "MAX", [WIDTH])
    white = dml_jax.reduce(brightest, "AVERAGE", [HEIGHT])
    return minus(planes, dml_jax.tile(white, [1, 1, BLOCKS, BLOCKS]))


def toned(planes: Tensor) -> Tensor:
    """`log(1 + CONTRAST * light) / log(1 + CONTRAST)`, near to what screens expect."""
    nothing = dml_jax.clip(planes, 0, 0)
    terms = dml_jax.join([nothing, linear(planes, bias=math.log(CONTRAST))], 0)
    curve = dml_jax.reduce(terms, "LOG_SUM_EXP", [0])
    return linear(curve, 1 / math.log(1 + CONTRAST))


def neighbour(plane: Tensor, axis: int, step: int) -> Tensor:
    """The plane moved by one block, the one at the border doubled."""
    if step > 0:
        first, *_ = dml_jax.split(plane, axis, [1, BLOCKS - 1])
        rest, _ = dml_jax.split(plane, axis, [BLOCKS - 1, 1])
        return dml_jax.join([first, rest], axis)
    _, last = dml_jax.split(plane, axis, [BLOCKS - 1, 1])
    _, rest = dml_jax.split(plane, axis, [1, BLOCKS - 1])
    return dml_jax.join([rest, last], axis)


def filled(colour: Tensor, step: int) -> list[Tensor]:
    """A colour that one pixel a block has, at all four, from the pixel's own on."""
    beside, below = neighbour(colour, WIDTH, step), neighbour(colour, HEIGHT, step)
    corner = neighbour(beside, HEIGHT, step)
    return [colour, mean(colour, beside), mean(colour, below), mean(colour, beside, below, corner)]


def coloured(planes: Tensor) -> Tensor:
    """Three colours a pixel: green from its neighbours, the others by their distance to it."""
    red, green1, green2, blue = dml_jax.split(planes, 1, [1, 1, 1, 1])
    at_red = mean(green1, neighbour(green1, WIDTH, 1), green2, neighbour(green2, HEIGHT, 1))
    at_blue = mean(green2, neighbour(green2, WIDTH, -1), green1, neighbour(green1, HEIGHT, -1))
    greens = [at_red, green1, green2, at_blue]
    reds = map(total, greens, filled(minus(red, at_red), -1))
    blues = map(total, greens, reversed(filled(minus(blue, at_blue), 1)))
    blocks = dml_jax.join([*reds, *greens, *blues], 1)
    return dml_jax.depth_to_space(blocks, 2, "COLUMN_ROW_DEPTH")


def developed(raw: Tensor) -> Tensor:
    """[1, 1, H, W] as the sensor gives it -> [1, 3, H, W] as a screen shows it."""
    planes = dml_jax.space_to_depth(exposed(raw), 2)  # red, green, green, blue
    return dml_jax.clip(coloured(toned(balanced(planes))), 0, 1)


def camera() -> Graph:
    """The whole as DML_GRAPH_DESC has it."""
    builder = GraphBuilder()
    raw = builder.input_tensor("raw", TensorDesc("FLOAT32", [1, 1, 2 * BLOCKS, 2 * BLOCKS]))
    return builder.build({"picture": developed(raw)})


# The other two ways.


def by_model(folder: Path) -> np.ndarray:
    """The picture that `dml-jax run` makes of camera.json, which dispatches graph.json."""
    sizes = [1, 3, 2 * BLOCKS, 2 * BLOCKS]
    model = {
        "resources": {
            "raw": {"initialValues": {"sourcePath": "raw.npy"}},
            "picture": {
                "initialValuesDataType": "FLOAT32",
                "initialValues": {"valueCount": math.prod(sizes), "value": 0},
            },
        },
        "dispatchables": {"camera": {"type": "graph", "sourcePath": "graph.json"}},
        "commands": [
            {
                "type": "dispatch",
                "dispatchable": "camera",
                "bindings": {"raw": "raw", "picture": "picture"},
            },
            {
                "type": "writeFile",
                "resource": "picture",
                "targetPath": "model.npy",
                "dimensions": sizes,
            },
        ],
    }
    (folder / "camera.json").write_text(json.dumps(model, indent=1))
    command = [sys.executable, "-m", "dml_jax", "run", "camera.json"]
    subprocess.run(command, cwd=folder, check=True)
    return np.load(folder / "model.npy")


JAX_ALONE = """
import sys, numpy, jax.export
with open("camera.stablehlo", "rb") as file:
    camera = jax.export.deserialize(bytearray(file.read()))
numpy.save("stablehlo.npy", camera.call(numpy.load("raw.npy")))
assert "dml_jax" not in sys.modules
"""


def by_stablehlo(folder: Path) -> np.ndarray:
    """The picture that a process without dml_jax makes of the exported program."""
    subprocess.run([sys.executable, "-c", JAX_ALONE], cwd=folder, check=True)
    return np.load(folder / "stablehlo.npy")


def main(argv: Sequence[str] | None = None) -> None:
    """Develops the picture three ways, and writes all there is to see."""
    formatter = argparse.RawDescriptionHelpFormatter
    argparse.ArgumentParser(description=__doc__, formatter_class=formatter).parse_args(argv)
    folder = Path("out/camera")
    folder.mkdir(parents=True, exist_ok=True)
    original = photograph()
    raw = sensed(original)
    np.save(folder / "raw.npy", raw)

    graph = camera()
    print(f"{graph}, from feature level {graph.minimum_feature_level} on")
    picture = np.asarray(graph(raw))

    graph.save(folder / "graph.json")
    (folder / "camera.stablehlo").write_bytes(dml_jax.compile(graph).export())
    for name, other in {"model": by_model(folder), "stablehlo": by_stablehlo(folder)}.items():
        difference = float(np.abs(other - picture).max())
        print(f"{name}: differs from Python's by {difference:.1e} at most")
        # XLA may fuse and round each program in its own way.
        assert difference < 1e-5, f"{name} gives another picture"

    filters = np.zeros_like(original)
    for colour, (rows, columns) in zip((0, 1, 1, 2), np.ndindex(2, 2), strict=True):
        pixels = (..., slice(rows, None, 2), slice(columns, None, 2))
        filters[:, colour][pixels] = raw[:, 0][pixels] / WHITE
    sheet = {"as the sensor sees it": filters, "developed": picture, "original": original}
    write_sheet(folder / "camera.png", sheet)
    print(f"dml-jax show {folder / 'graph.json'}   shows the graph's {len(graph.nodes)} nodes")


if __name__ == "__main__":
    main()

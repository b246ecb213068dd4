"""Learns to enlarge one photograph three times, and shows what it makes of a face it has not seen.

    python examples/super_resolution.py
    python -m dml_jax.pydirectml examples/pydirectml_super_resolution.py

The network is made of DirectML's operators. AVERAGE_POOLING makes a picture small; CONVOLUTIONs
look at the small picture and give 27 channels a pixel; DEPTH_TO_SPACE lays these out as blocks of
3 x 3 pixels, which are added to the enlargement by UPSAMPLE_2D; CLIP keeps the result a picture.
The second command is a PyDirectML program: it reads the weights that the first one saves, builds
the same network as a graph, and enlarges the same face.

The network learns from random patches of the photograph that do not touch the face, and is tested
on the face. So no pixel of the face takes part in training, though its surroundings come from the
same photograph: this is a network for one photograph, not for all.

Writes out/super_resolution.png, and the weights as out/super_resolution.npz.
"""

import argparse
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from album import photograph, write_sheet

import dml_jax
from dml_jax import ActivationLeakyRelu, Size2D

FACTOR = 3
FACE = (slice(0, 192), slice(120, 312))  # rows and columns, both multiples of FACTOR
PATCH = 72  # pixels of the large picture
SLOPE = 0.1  # of the activation below 0

Parameters = list[tuple[jax.Array, jax.Array]]


def reduced(pictures: jax.Array) -> jax.Array:
    """Return the pictures, FACTOR times as small: means of blocks of pixels."""
    block, none, ones = [FACTOR, FACTOR], [0, 0], [1, 1]
    return dml_jax.average_pooling(pictures, block, block, none, none, ones, include_padding=False)


def network(key: jax.Array, width: int = 32, layers: int = 4) -> Parameters:
    """Return filters and biases. The last are zero, so that training starts from UPSAMPLE_2D."""
    channels = [3] + [width] * (layers - 1) + [3 * FACTOR**2]
    parameters = []
    for index, (before, after) in enumerate(itertools.pairwise(channels)):
        side = 5 if index == 0 else 3
        scale = 0 if index == layers - 1 else (2 / (before * side**2)) ** 0.5
        kernel = jax.random.normal(jax.random.fold_in(key, index), (after, before, side, side))
        parameters.append((scale * kernel, jnp.zeros((1, after, 1, 1))))
    return parameters


def enlarged(parameters: Parameters, small: jax.Array) -> jax.Array:
    """[N, 3, H, W] -> [N, 3, 3H, 3W]; a little below 0 and above 1, too."""
    x = small - 0.5
    for index, (kernel, bias) in enumerate(parameters):
        is_last = index == len(parameters) - 1
        activation = None if is_last else ActivationLeakyRelu.fused(alpha=SLOPE)
        border = [kernel.shape[2] // 2] * 2
        x = dml_jax.convolution(
            *(x, kernel, bias),
            start_padding=border,
            end_padding=border,
            fused_activation=activation,
        )
    between = dml_jax.upsample_2d(small, Size2D(width=FACTOR, height=FACTOR), "LINEAR")
    return dml_jax.add(between, dml_jax.depth_to_space(x, FACTOR))


def loss(parameters: Parameters, large: jax.Array) -> jax.Array:
    """Return the mean squared error, computed before the clip.

    The gradient of CLIP is 0 at its bounds and beyond them: a pixel that is wrongly there would
    learn nothing.
    """
    return jnp.mean((enlarged(parameters, reduced(large)) - large) ** 2)


def upscale(parameters: Parameters, small: jax.Array) -> jax.Array:
    """The network as it is used: a picture in, a picture three times as large out."""
    return dml_jax.clip(enlarged(parameters, small), 0, 1)


def patches(picture: np.ndarray, count: int, seed: int = 0) -> Iterator[np.ndarray]:
    """Batches [count, 3, PATCH, PATCH] of what lies beside the face, mirrored at random."""
    random = np.random.default_rng(seed)
    rows, columns = FACE

    def patch() -> np.ndarray:
        while True:
            top, left = random.integers(0, np.subtract(picture.shape[2:], PATCH - 1))
            below, above = top >= rows.stop, top + PATCH <= rows.start
            right, before = left >= columns.stop, left + PATCH <= columns.start
            if below or above or right or before:
                part = picture[0, :, top : top + PATCH, left : left + PATCH]
                return part[:, :: random.choice([1, -1]), :: random.choice([1, -1])]

    while True:
        yield np.stack([patch() for _ in range(count)])


def psnr(picture: jax.Array, original: jax.Array) -> float:
    """Decibels; 1 dB more is a mean squared error a fifth smaller."""
    return float(-10 * jnp.log10(jnp.mean((picture - original) ** 2)))


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Trains, writes the sheet, returns PSNR by label."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--steps", type=int, default=1000, help="of training; 1000 by default")
    parser.add_argument("--batch", type=int, default=16, help="patches a step; 16 by default")
    options = parser.parse_args(argv)

    picture = photograph()
    parameters = network(jax.random.key(0))
    optimizer = optax.adam(optax.cosine_decay_schedule(2e-3, options.steps))
    state = optimizer.init(parameters)

    @jax.jit
    def step(parameters, state, large):
        value, gradient = jax.value_and_grad(loss)(parameters, large)
        updates, state = optimizer.update(gradient, state)
        return optax.apply_updates(parameters, updates), state, value

    values, batches = [], patches(picture, options.batch)
    for count in range(1, options.steps + 1):
        parameters, state, value = step(parameters, state, next(batches))
        values.append(value)
        if count % 100 == 0:
            print(f"step {count}: loss {np.mean(values[-100:]):.6f}")

    face = jnp.asarray(picture[:, :, *FACE])
    small = reduced(face)
    cubic = jax.image.resize(small, face.shape, "cubic")
    made = {
        "low resolution": small.repeat(FACTOR, 2).repeat(FACTOR, 3),
        "bicubic": dml_jax.clip(cubic, 0, 1),  # cubics overshoot, pictures do not
        "learned": upscale(parameters, small),
    }
    quality = {name: psnr(result, face) for name, result in made.items()}
    labels = {f"{name}, {quality[name]:.2f} dB": result for name, result in made.items()}
    for label in labels:
        print(label)
    write_sheet(Path("out/super_resolution.png"), {**labels, "original": face}, zoom=2)
    weights = {}
    for number, (kernel, bias) in enumerate(parameters, 1):
        weights |= {f"filter{number}": kernel, f"bias{number}": bias}
    np.savez(Path("out/super_resolution.npz"), **weights)
    print("out/super_resolution.npz written")
    return quality


if __name__ == "__main__":
    main()

"""Rates of YNNPACK's and Eigen's kernels on a CPU, over shapes.

`python benchmarks/kernels.py` prints a row for each convolution and product: its sizes, both rates
in GFLOP/s on all cores, and the rate of Eigen's by that of YNNPACK's. Calls of both alternate. The
rule of `onnx/kernels.py` is for whole networks, whose convolutions differ in both directions.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.bench.timing import interleaved, jax_contender
from dml_jax.onnx.kernels import YNNPACK

CONVOLUTIONS = [
    *((size, channels) for size in (160, 112) for channels in (16, 32, 64)),
    *((size, channels) for size in (56, 28, 14) for channels in (32, 64, 128, 256)),
    *((7, channels) for channels in (128, 256, 512)),
]
PRODUCTS = [(m, k, k) for m in (1, 4, 16, 64, 256, 1024) for k in (64, 256, 512)]


def _random(*shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(0).standard_normal(shape, np.float32))


def _convolution(x: jax.Array, w: jax.Array) -> jax.Array:
    numbers = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=numbers)


def cases() -> Iterator[tuple[str, Callable[..., Any], tuple[jax.Array, ...], float]]:
    """Yield the name, the function, the arrays and the operations of each case."""
    for size, channels in CONVOLUTIONS:
        arrays = _random(1, size, size, channels), _random(3, 3, channels, channels)
        work = 2 * 9 * size**2 * channels**2
        yield f"3x3 {channels} channels {size}x{size}", _convolution, arrays, work
    for m, k, n in PRODUCTS:
        yield f"{m}x{k} by {k}x{n}", lax.dot, (_random(m, k), _random(k, n)), 2 * m * k * n


def main() -> None:
    """Print the table."""
    for name, function, arrays, work in cases():
        lowered = jax.jit(function).lower(*arrays)
        programs = {"eigen": lowered.compile(compiler_options={YNNPACK: ""})}
        programs["ynnpack"] = lowered.compile()
        calls = {
            kind: jax_contender(lambda index, p=p, xs=arrays: p(*xs), jax.devices()[0])
            for kind, p in programs.items()
        }
        times = interleaved(calls, seconds=0.3, give_up=math.inf)
        ynnpack, eigen = (times[kind].median for kind in ("ynnpack", "eigen"))
        rates = f"{work / ynnpack / 1e9:8.1f} {work / eigen / 1e9:8.1f} {ynnpack / eigen:6.2f}"
        print(f"{name:<28}{rates}", flush=True)


if __name__ == "__main__":
    main()

"""The named constants of dml_jax/lowering: which form is faster on both sides of each.

`python benchmarks/thresholds.py [NAME ...]` takes sizes of a quarter, half, one, twice and four
times each constant. At each size it forces both forms, by a constant below the size and by an
endless one, times them in turn, and prints the time of the form above the constant over that of the
form below. On a CPU, times are the seconds of all cores, which other programs disturb less. Where
the ratio falls through 1 is the crossing. A constant whose ratios are all near 1 is flat, and may
go. Of a constant that is a number of parts, and no limit, the table has the time with each number
over the time with the constant.
"""

import contextlib
import importlib
import math
import pkgutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import jax

import dml_jax
from dml_jax import lowering
from dml_jax.bench.cells import Cell
from dml_jax.bench.functions import gradient
from dml_jax.bench.memory import Data, contender, sets_moving
from dml_jax.bench.timing import interleaved
from dml_jax.errors import nearest

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
FLAT = 0.05  # the logarithm of a ratio below which two forms are alike
ELEMENTS = 2**20 if jax.default_backend() == "cpu" else 2**25  # more than a launch hides


@dataclass(frozen=True)
class Constant:
    """A constant, and the use of an operator whose form it decides.

    Attributes:
        module: the module of dml_jax.lowering.
        use: the operator of a size, which the constant is compared with.
        platform: the platform whose forms it decides.
        is_limit: whether sizes up to it have another form; else it is a number of parts.
    """

    module: str
    use: Callable[[int], Any]
    platform: str = "cpu"
    is_limit: bool = True


def reduced(function: str, sizes: Sequence[int], axes: Sequence[int]) -> Any:
    """Return a REDUCE of FLOAT32."""
    tensor = dml_jax.TensorDesc("FLOAT32", sizes)
    kind = dml_jax.ReduceFunction[function]
    return dml_jax.Reduce.infer(function=kind, input_tensor=tensor, axes=axes)


def rows(function: str, size: int) -> Any:
    """Return a REDUCE of rows of `size` elements."""
    return reduced(function, [max(ELEMENTS // size, 1), size], [1])


def convolution(
    channels: int, groups: int, window: tuple[int, int], side: int = 56, rows: int = 0
) -> Any:
    """Return a CONVOLUTION of as many channels as it reads, at each element."""
    tensor = dml_jax.TensorDesc("FLOAT32", [1, channels, rows or side, side])
    w = dml_jax.TensorDesc("FLOAT32", [channels, channels // groups, *window])
    (use, *_) = dml_jax.Convolution.typical(1000, "FLOAT32")
    fields = {f.name: getattr(use, f.name) for f in use.fields if not f.tensor}
    fields |= {"group_count": groups, "start_padding": [0, 0], "end_padding": [0, 0]}
    return dml_jax.Convolution.infer(input_tensor=tensor, filter_tensor=w, **fields)


def pooled(size: int) -> Any:
    """Return a MAX_POOLING of windows of `size` elements of a row."""
    fields: Any = {"strides": [1, 1], "window_size": [1, size]}
    fields |= {"start_padding": [0, 0], "end_padding": [0, 0]}
    tensor = dml_jax.TensorDesc("FLOAT32", [1, 16, 64, 1024])
    return dml_jax.MaxPooling.infer(input_tensor=tensor, **fields)


def summed(shape: Sequence[int]) -> Any:
    """Return a CUMULATIVE_SUMMATION along the first axis."""
    tensor = dml_jax.TensorDesc("FLOAT32", shape)
    fields = {"axis": 0, "axis_direction": "INCREASING", "has_exclusive_sum": False}
    return dml_jax.CumulativeSummation.infer(input_tensor=tensor, **fields)


def largest(size: int, k: int = 8) -> Any:
    """Return a TOP_K of lines that are searched in pieces of `size` elements."""
    tensor = dml_jax.TensorDesc("FLOAT32", [4, k * size * size])
    return dml_jax.TopK.infer(input_tensor=tensor, axis=1, k=k)


def shrunk(taps: int) -> Any:
    """Return a RESAMPLE3 whose elements average so many of a row."""
    tensor = dml_jax.TensorDesc("FLOAT32", [1, 16, 256, 2048])
    fields: Any = {"interpolation_mode": "LINEAR", "rounding_direction": "DECREASING"}
    fields |= {"scales": [1, 1, 1, 2 / taps], "antialiased": True}
    fields |= {"input_pixel_offsets": [0.5] * 4, "output_pixel_offsets": [-0.5] * 4}
    sizes = [1, 16, 256, 4096 // taps]
    return dml_jax.Resample3.infer(input_tensor=tensor, output_sizes=sizes, **fields)


CONSTANTS = {
    "LITTLE": Constant("axes", lambda n: reduced("SUM", [max(n // 64, 1), 64], [0])),
    "UNROLLED": Constant("reduce.cpu", lambda n: rows("SUM", n)),
    "PIECE": Constant("reduce.cpu", lambda n: rows("SUM", 16384), "cpu", False),
    "FEWEST": Constant("reduce.cpu", lambda n: reduced("SUM", [4096, 256], [0]), "cpu", False),
    "FUSED": Constant("reduce.cpu", lambda n: reduced("SUM", [4096, 256], [0]), "cpu", False),
    "STORED": Constant("reduce.cpu", lambda n: reduced("SUM", [4096, 256], [0]), "cpu", False),
    "FEW": Constant("windows", pooled),
    "FEW_PRODUCTS": Constant("convolution", lambda n: convolution(32, 32, (1, n), 352)),
    "FEW_WINDOWS": Constant("convolution", lambda n: convolution(12, 1, (3, 3), math.isqrt(n) + 2)),
    "FEW_CHANNELS": Constant("convolution", lambda n: convolution(n, 1, (5, 5), 28)),
    "FEW_PLACES": Constant("convolution", lambda n: convolution(8, 1, (1, n), 112, 16)),
    "FEW_ELEMENTS": Constant(
        "convolution", lambda n: convolution(8, 1, (5, 5), math.isqrt(n // 200) + 4)
    ),
    "FEW_GROUPS": Constant("convolution", lambda n: convolution(16 * n, n, (3, 3), 28)),
    "FEW_LINES": Constant("scans", lambda n: summed([4096, 32]), "cpu", False),
    "_UNROLLED": Constant("resampling", shrunk),
    "LEAST_PIECE": Constant("scans", largest),
    "GPU_PIECE": Constant("scans", largest, "cuda"),
    "AT_ONCE": Constant("reduce.gpu", lambda n: rows("LOG_SUM_EXP", n), "cuda"),
    "ODD_ROW": Constant("reduce.gpu", lambda n: rows("SUM", n | 1), "cuda"),
    "PIECES": Constant("reduce.gpu", lambda n: rows("LOG_SUM_EXP", 4096), "cuda", False),
    "MANY": Constant(
        "reduce.gpu", lambda n: reduced("ARGMAX", [ELEMENTS // 64, 64], [0]), "cuda", False
    ),
    "LONGEST": Constant("reduce.derivatives", lambda n: gradient(rows("LOG_SUM_EXP", n)), "cuda"),
}


@contextlib.contextmanager
def forced(name: str, value: float) -> Iterator[None]:
    """Give a constant another value in every module that has it."""
    found = pkgutil.walk_packages(lowering.__path__, f"{lowering.__name__}.")
    modules = [importlib.import_module(module.name) for module in found]
    with contextlib.ExitStack() as stack:
        for module in (m for m in modules if name in vars(m)):
            stack.enter_context(mock.patch.object(module, name, value))
        jax.clear_caches()
        yield
    jax.clear_caches()


def ratio(name: str, use: Any, values: tuple[float, float]) -> float:
    """Return the time with the first value of a constant over the time with the second."""
    device = jax.devices()[0]
    data, cell = Data(device), Cell("", "", use)
    sets = min(sets_moving(cell.bytes, device), 8)
    inputs, contenders = data.sets(use, sets), {}
    for value in dict.fromkeys(values):
        with forced(name, value):
            contenders[str(value)] = contender(use, inputs, device, use.outputs)
    times = interleaved(contenders, sets, samples=25, seconds=0.5, give_up=math.inf)
    first, second = (times[str(value)] for value in values)
    return (first.processor or first.median) / (second.processor or second.median)


def main(names: Sequence[str]) -> None:
    """Print a row for each constant of this platform."""
    platform = {"gpu": "cuda"}.get(jax.default_backend(), jax.default_backend())
    for name in names:
        if name not in CONSTANTS:
            raise SystemExit(f"{name!r} names no constant{nearest(name, CONSTANTS)}")
    print(f"{'':14}" + "".join(f"{factor:>8}x" for factor in FACTORS))
    for name, constant in CONSTANTS.items():
        if constant.platform != platform or (names and name not in names):
            continue
        value = getattr(importlib.import_module(f"dml_jax.lowering.{constant.module}"), name)
        found = []
        for factor in FACTORS:
            size = max(round(value * factor), 1)
            both = (max(size - 1, 1), 2**40) if constant.is_limit else (size, value)
            found.append(math.nan)
            with contextlib.suppress(ValueError, StopIteration):  # there is no such form
                found[-1] = ratio(name, constant.use(size), both)
        flat = not any(abs(math.log(r)) >= FLAT for r in found)
        print(f"{name:14}" + "".join(f"{r:9.2f}" for r in found) + "  flat" * flat, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

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
from typing import Any, NamedTuple
from unittest import mock

import jax

import dml_jax
from dml_jax import lowering
from dml_jax.bench.cells import Cell
from dml_jax.bench.measured_functions import gradient
from dml_jax.bench.memory import Data, contender, sets_moving
from dml_jax.bench.timing import interleave
from dml_jax.errors import nearest

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
FLAT = 0.05  # the logarithm of a ratio below which two forms are alike
ELEMENTS = 2**20 if jax.default_backend() == "cpu" else 2**25  # more than a launch hides


class Constant(NamedTuple):
    """A constant of a module of dml_jax.lowering, and an operator whose form it decides."""

    module: str
    use: Callable[[int], Any]  # the operator of a size, which the constant is compared with
    platform: str = "cpu"
    is_limit: bool = True  # whether sizes up to it have another form; else it is a number of parts


def used(operator: str, sizes: Sequence[int], **fields: Any) -> Any:
    """Return an operator of FLOAT32 whose input has some sizes."""
    tensor = dml_jax.TensorDesc("FLOAT32", sizes)
    return getattr(dml_jax, operator).infer(input_tensor=tensor, **fields)


def rows(function: str, size: int) -> Any:
    """Return a REDUCE of rows of `size` elements."""
    return used("Reduce", [max(ELEMENTS // size, 1), size], function=function, axes=[1])


def columns(_: int) -> Any:
    """Return a REDUCE along the first axis."""
    return used("Reduce", [4096, 256], function="SUM", axes=[0])


def convolution(
    channels: int, groups: int, window: tuple[int, int], side: int = 56, rows: int = 0
) -> Any:
    """Return a CONVOLUTION of as many channels as it reads, at each element."""
    w = dml_jax.TensorDesc("FLOAT32", [channels, channels // groups, *window])
    fields = {**WINDOWS, "mode": "CROSS_CORRELATION", "direction": "FORWARD"}
    fields |= {"dilations": [1, 1], "output_padding": [0, 0], "group_count": groups}
    return used("Convolution", [1, channels, rows or side, side], filter_tensor=w, **fields)


def shrunk(taps: int) -> Any:
    """Return a RESAMPLE3 whose elements average so many of a row."""
    fields: Any = {"interpolation_mode": "LINEAR", "rounding_direction": "DECREASING"}
    fields |= {"scales": [1, 1, 1, 2 / taps], "output_sizes": [1, 16, 256, 4096 // taps]}
    fields |= {"input_pixel_offsets": [0.5] * 4, "output_pixel_offsets": [-0.5] * 4}
    return used("Resample3", [1, 16, 256, 2048], antialiased=True, **fields)


def largest(size: int) -> Any:
    """Return a TOP_K of lines that are searched in pieces of `size` elements."""
    return used("TopK", [4, 8 * size * size], axis=1, k=8)


WINDOWS: dict[str, Any] = {"strides": [1, 1], "start_padding": [0, 0], "end_padding": [0, 0]}
SUM = {"axis": 0, "axis_direction": "INCREASING", "has_exclusive_sum": False}
COST = "convolution.cost"
CONSTANTS = {
    "LITTLE": Constant(
        "axes", lambda n: used("Reduce", [max(n // 64, 1), 64], function="SUM", axes=[0])
    ),
    "UNROLLED": Constant("reduce.cpu", lambda n: rows("SUM", n)),
    "PIECE": Constant("reduce.cpu", lambda n: rows("SUM", 16384), "cpu", False),
    "FEWEST": Constant("reduce.cpu", columns, "cpu", False),
    "FUSED": Constant("reduce.cpu", columns, "cpu", False),
    "STORED": Constant("reduce.cpu", columns, "cpu", False),
    "FEW": Constant(
        "windows", lambda n: used("MaxPooling", [1, 16, 64, 1024], window_size=[1, n], **WINDOWS)
    ),
    "FEW_PRODUCTS": Constant(COST, lambda n: convolution(32, 32, (1, n), 352)),
    "FEW_WINDOWS": Constant(COST, lambda n: convolution(12, 1, (3, 3), math.isqrt(n) + 2)),
    "FEW_CHANNELS": Constant(COST, lambda n: convolution(n, 1, (5, 5), 28)),
    "FEW_PLACES": Constant(COST, lambda n: convolution(8, 1, (1, n), 112, 16)),
    "FEW_ELEMENTS": Constant(COST, lambda n: convolution(8, 1, (5, 5), math.isqrt(n // 200) + 4)),
    "SOME_PLACES": Constant(COST, lambda _: convolution(32, 32, (13, 13), 64), "cpu", False),
    "FEW_GROUPS": Constant(COST, lambda n: convolution(16 * n, n, (3, 3), 28)),
    "FEW_LINES": Constant(
        "scans", lambda n: used("CumulativeSummation", [4096, 32], **SUM), "cpu", False
    ),
    "_UNROLLED": Constant("resampling", shrunk),
    "LEAST_PIECE": Constant("scans", largest),
    "GPU_PIECE": Constant("scans", largest, "cuda"),
    "AT_ONCE": Constant("reduce.gpu", lambda n: rows("LOG_SUM_EXP", n), "cuda"),
    "ODD_ROW": Constant("reduce.gpu", lambda n: rows("SUM", n | 1), "cuda"),
    "PIECES": Constant("reduce.gpu", lambda n: rows("LOG_SUM_EXP", 4096), "cuda", False),
    "MANY": Constant(
        "reduce.gpu",
        lambda n: used("Reduce", [ELEMENTS // 64, 64], function="ARGMAX", axes=[0]),
        "cuda",
        False,
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
    times = interleave(contenders, sets, samples=25, seconds=0.5, give_up=math.inf)
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

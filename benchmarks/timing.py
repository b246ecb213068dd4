"""Times of several functions in one run, interleaved: a noisy machine is as noisy to each."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax


def interleaved(
    functions: Mapping[str, Callable[[], Any]], samples: int = 11, warmup: int = 2
) -> dict[str, float]:
    """The median milliseconds of each; what a function returns is waited for."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for sample in range(warmup + samples):
        for name, function in functions.items():
            start = time.perf_counter()
            jax.block_until_ready(function())
            if sample >= warmup:
                times[name].append((time.perf_counter() - start) * 1e3)
    return {name: statistics.median(values) for name, values in times.items()}


def row(label: str, times: Mapping[str, float]) -> str:
    """`label: a 1.00 ms, b 2.00 ms`."""
    return f"{label:<40} " + ", ".join(f"{name} {t:8.3f}" for name, t in times.items())

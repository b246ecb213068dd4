"""What the benchmarks share: times in turns, errors, files of results, processes of their own."""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dml_jax.host import cores

ROUNDS, RUNS = 5, 5
SETTLING = 0.1  # seconds in which a system spreads the threads of another program over its cores
CLOCK = time.process_time if cores() == 1 else time.perf_counter
KEPT_PAGES = {  # what glibc's allocator reads when a process starts
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**64 - 1),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}


def restart_with_kept_pages() -> None:
    """Start this program again with an allocator that keeps freed memory, where it has another.

    docs/performance.md has the same environment variables for users. ONNX Runtime and PyTorch keep
    freed memory by themselves.
    """
    if not KEPT_PAGES.items() <= os.environ.items():
        os.environ |= KEPT_PAGES
        os.execv(sys.executable, [sys.executable, *sys.argv])


def milliseconds(*calls: Callable[[], Any], rounds: int = ROUNDS) -> list[float]:
    """Return the median time of each of `calls`, which take turns, `rounds` of them.

    The calls of the first `SETTLING` seconds of a turn are not counted.
    """
    samples: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, times in zip(calls, samples, strict=True):
            begin = time.perf_counter()
            while time.perf_counter() - begin < SETTLING:
                call()
            for _ in range(RUNS):
                start = CLOCK()
                call()
                times.append(1e3 * (CLOCK() - start))
    return [statistics.median(times) for times in samples]


def difference(result: Any, answer: Any) -> float:
    """Return the largest difference, as a part of the largest absolute value of `answer`."""
    result, answer = (np.asarray(array, np.float64) for array in (result, answer))
    return float(np.abs(result - answer).max() / max(np.abs(answer).max(), 1e-9))


def kept(results: Path, table: str) -> dict[str, Any]:
    """Return a table of a file of results, which is empty without the file."""
    return json.loads(results.read_text())[table] if results.exists() else {}


def save(results: Path, facts: Mapping[str, Any] = {}, **tables: Any) -> None:
    """Write results: where they were measured, with `facts` of a peer, and the tables."""
    import jax

    from dml_jax.bench.rows import environment

    write(results, {"environment": {**environment(jax.devices()[0]), **facts}, **tables})


def write(results: Path, value: Any) -> None:
    """Write a file of results."""
    results.write_text(json.dumps(value, indent=1) + "\n")


def shown(row: Mapping[str, Any]) -> str:
    """Return the speed, the error and the time of a row as text."""
    return f"{row['peer_ms'] / row['ms']:6.2f} {row['error']:8.1e} {row['ms']:9.3f} ms"


def said_by(script: str, words: Sequence[Any], seconds: float, **options: Any) -> tuple[Any, str]:
    """Return the last line of JSON that a process prints, or None, and what else it says at last.

    Args:
        script: the file of its program.
        words: of its command line.
        seconds: after these it is ended.
        options: of `subprocess.run`.
    """
    command = [sys.executable, script, *map(str, words)]
    try:
        done = subprocess.run(command, timeout=seconds, capture_output=True, text=True, **options)
    except subprocess.TimeoutExpired:
        return None, f"no answer within {seconds:.0f} s"
    *_, last = [line for line in done.stdout.splitlines() if line.startswith("{")] or [""]
    return (json.loads(last) if last else None), done.stderr.strip()

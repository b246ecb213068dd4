"""Programs in processes of their own: plain ones, and the command line under limits, measured."""

import contextlib
import json
import math
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

linux = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="only Linux limits and counts a process's memory"
)

PIPES: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8"}


GB = 2**30


def peak() -> int:
    """Return the bytes of memory that this process has held at most."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextlib.contextmanager
def within(seconds: float, size: float = math.inf) -> Iterator[None]:
    """Expect a block to take less processor time than so much, and fewer bytes of memory."""
    before, start = peak(), time.process_time()
    yield
    assert time.process_time() - start < seconds
    assert peak() - before < size


def python(*words: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    """Return how `python WORDS` ends; `options` are those of a process."""
    return subprocess.run([sys.executable, *map(str, words)], **PIPES | options)


def interrupt(
    behind: str, *words: Any, name: str = "SIGINT", **options: Any
) -> tuple[int, str, str]:
    """Send a signal to `python WORDS` once it prints a line that begins so.

    Returns its status, and what it writes to stdout, behind that line, and to stderr.
    """
    with subprocess.Popen([sys.executable, *map(str, words)], **PIPES | options) as process:
        assert process.stdout is not None
        while not process.stdout.readline().startswith(behind):
            assert process.poll() is None
        process.send_signal(getattr(signal, name))
        out, err = process.communicate(timeout=60)
    return process.returncode, out, err


_PROGRAM = """
import json, os, resource, signal, sys, time
limits = json.loads(sys.argv[1])
for name, limit in limits.items():
    resource.setrlimit(getattr(resource, name), (limit, limit))
sys.argv[:2] = ["dml-jax"]
{before}
from dml_jax.__main__ import main
try:
    main()
finally:
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
    print("MEASURED", time.process_time(), peak, file=sys.stderr)
"""


@dataclass(frozen=True)
class Ended:
    """How a process ended.

    Attributes:
        status: its exit status; negative is the signal that killed it.
        out, err: what it wrote.
        seconds: of processor time, which is the same on a busy machine, unlike the clock's; NaN of
            one that a signal ended.
        peak: bytes of memory that it held at most; 0 of such.
    """

    status: int
    out: str
    err: str
    seconds: float
    peak: int


def dml_jax(
    *arguments: str | Path,
    cwd: Path,
    before: str = "",
    env: dict[str, str] | None = None,
    **limits: int,
) -> Ended:
    """`dml-jax` in a process of its own; Linux only.

    Args:
        arguments: those of the command line.
        cwd: its current folder.
        before: Python that runs before the command line is imported.
        env: all of the environment.
        limits: `RLIMIT_DATA=2**30`.
    """
    program, options = _PROGRAM.format(before=before), {"cwd": cwd, "env": env, "timeout": 120}
    done = python("-c", program, json.dumps(limits), *arguments, **options)
    if done.returncode in (130, 143):  # at once
        return Ended(done.returncode, done.stdout, done.stderr, math.nan, 0)
    err, found, measured = done.stderr.rpartition("MEASURED ")
    assert found, f"status {done.returncode}: {done.stderr}"
    seconds, peak = measured.split()[:2]
    return Ended(done.returncode, done.stdout, err, float(seconds), int(peak))

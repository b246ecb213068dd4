"""The command line in a process of its own, under limits, and measured."""

import json
import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

linux = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="only Linux limits and counts a process's memory"
)

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
    program = _PROGRAM.format(before=before)
    command: Sequence[str] = [
        sys.executable,
        "-c",
        program,
        json.dumps(limits),
        *map(str, arguments),
    ]
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, timeout=120, check=False)
    out, err = done.stdout.decode(), done.stderr.decode()
    if done.returncode in (130, 143):  # at once
        return Ended(done.returncode, out, err, math.nan, 0)
    err, found, measured = err.rpartition("MEASURED ")
    assert found, f"status {done.returncode}: {done.stderr.decode()}"
    seconds, peak = measured.split()[:2]
    return Ended(done.returncode, out, err, float(seconds), int(peak))

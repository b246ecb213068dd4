"""Rows: what a run measured of each cell, as data, and the file that keeps them."""

import json
import math
import os
import platform as machine
import re
import statistics
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from dml_jax import __version__
from dml_jax.bench.cells import Cell
from dml_jax.bench.measured_functions import type_name
from dml_jax.errors import DmlError, Fault, Unquoted
from dml_jax.system.files import write_whole
from dml_jax.system.processor import cores, last_cache_bytes

MOST_UNKNOWN = 10.0  # operations a byte up to which memory limits, where no peak is known
FORMAT = 1  # of the file; a reader refuses another one


@dataclass
class Row:
    """A cell, and its times by contender: `donated`, `allocated`, `copy`, and the peers.

    Attributes:
        name, operator, variant, family, count, nodes: those of the `Cell`.
        data_type, sizes: of the largest tensor.
        bytes, operations: what a call must move, and its arithmetic operations.
        copy_bytes: what the plain copy moves that was timed beside.
        peak: the operations a second of a product of the type; 0 without one.
        seconds: for each contender the median of each process.
        spread: for each contender half the distance of its quartiles, as a part of the median.
        processor: for our own calls and the copy the seconds of all cores, likewise.
        differs: how the answers of peers differ, by peer.
        code: the digest of the code that is measured, where a program of benchmarks adds it.
    """

    name: str
    operator: str
    variant: str
    family: str
    data_type: str
    sizes: list[int]
    bytes: int
    operations: float
    count: int = 1
    copy_bytes: int = 0
    peak: float = 0.0
    seconds: dict[str, list[float]] = field(default_factory=dict)
    spread: dict[str, list[float]] = field(default_factory=dict)
    processor: dict[str, list[float]] = field(default_factory=dict)
    differs: dict[str, str] = field(default_factory=dict)
    nodes: Sequence[str] = ()
    code: str = ""

    @classmethod
    def of(cls, cell: Cell, operations: float) -> "Row":
        """Return the row of a cell, without times."""
        named = ("name", "operator", "variant", "family", "bytes", "count", "nodes")
        known: dict[str, Any] = {name: getattr(cell, name) for name in named}
        known |= {"data_type": type_name(cell.tensor), "sizes": [*map(int, cell.tensor.sizes)]}
        return cls(**known, operations=operations)

    def to_json(self) -> dict[str, Any]:
        """Return the row for JSON; seconds have five digits, and what is empty is left out."""
        value = asdict(self)
        for key in ("seconds", "spread", "processor"):
            value[key] = {k: [float(f"{x:.5g}") for x in v] for k, v in value[key].items()}
        return {k: v for k, v in value.items() if v not in ({}, 0, 0.0, "", ())}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Row":
        """Return the row that `to_json` gave."""
        empty: dict[str, Any] = {"variant": "", "family": "", "bytes": 0, "operations": 0.0}
        return cls(**empty | {f.name: value[f.name] for f in fields(cls) if f.name in value})

    def add(self, other: "Row") -> None:
        """Add the times that another process measured of the same cell."""
        for kind in ("seconds", "spread", "processor"):
            for name, values in getattr(other, kind).items():
                getattr(self, kind).setdefault(name, []).extend(values)
        self.differs |= other.differs
        self.peak, self.copy_bytes = other.peak or self.peak, other.copy_bytes or self.copy_bytes

    @property
    def label(self) -> str:
        """Return the operator and its variant."""
        return f"{self.operator} {self.variant}".strip()

    @property
    def way(self) -> str:
        """Return the way of our own calls: `donated`, or else `allocated`."""
        return "donated" if "donated" in self.seconds else "allocated"

    @property
    def processes(self) -> int:
        """Return how many processes measured the cell."""
        return len(self.seconds[self.way])

    def time(self, name: str = "") -> float:
        """Return the median over the processes, in seconds."""
        return statistics.median(self.seconds[name or self.way])

    @property
    def interval(self) -> float:
        """Return half of the 95% interval of the time, as a part of it; inf of one process."""
        logs = [math.log(x) for x in self.seconds[self.way]]
        if len(logs) < 2:
            return math.inf
        from scipy.special import stdtrit

        error = statistics.stdev(logs) / math.sqrt(len(logs))
        return math.expm1(float(stdtrit(len(logs) - 1, 0.975)) * error)

    @property
    def whole(self) -> float:
        """Return the time that all cells like it take in a network, in seconds."""
        return self.count * self.time()

    @property
    def rate(self) -> float:
        """Return the bytes a second; 0 of limits that are no rate of memory."""
        other = self.family == "limits" and self.operator in ("launch", "product")
        return 0.0 if other else self.bytes / self.time()

    @property
    def work(self) -> float:
        """Return the operations a second."""
        return self.operations / self.time()

    @property
    def copy(self) -> float:
        """Return the bytes a second of the copy beside; 0 without one."""
        return self.copy_bytes / self.time("copy") if "copy" in self.seconds else 0.0

    @property
    def share(self) -> float:
        """Return the rate as a part of the copy's, both of the same process; 0 without a copy."""
        if not self.copy_bytes:
            return 0.0
        pairs = zip(self.seconds["copy"], self.seconds[self.way], strict=False)
        return self.bytes / self.copy_bytes * statistics.median(c / t for c, t in pairs)

    @property
    def intensity(self) -> float:
        """Return the operations for each byte that must move."""
        return self.operations / max(self.bytes, 1)

    @property
    def of_roof(self) -> float:
        """Return the least time that memory or arithmetic takes, as a part of the time.

        0 if the operations could be what limits, and no peak of their type is known.
        """
        if not self.peak and self.intensity > MOST_UNKNOWN:
            return 0.0
        arithmetic = self.operations / self.peak / self.time() if self.peak else 0.0
        return max(self.share, arithmetic)

    @property
    def peers(self) -> list[str]:
        """Return the names of the peers."""
        return [n for n in self.seconds if n not in ("donated", "allocated", "copy")]

    @property
    def speedup(self) -> float:
        """Return the time of the fastest peer over ours; 0 without a peer."""
        own = "allocated" if "allocated" in self.seconds else self.way
        return min(map(self.time, self.peers), default=0.0) / self.time(own)


@dataclass
class Results:
    """A run: where and how it measured, and its rows.

    Attributes:
        environment: the machine, the versions and the flags.
        options: the words of the command line.
        rows: by the names of their cells.
        failed: why cells have no row, by their names.
        interrupted: whether it ended before its time.
        cells: how many cells it was to measure.
        complete: how many of them have all their times.
    """

    environment: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, Row] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False
    cells: int = 0
    complete: int = 0

    def add(self, row: Row) -> None:
        """Add a row, or the times of another process to it."""
        known = self.rows.setdefault(row.name, row)
        if known is not row:
            known.add(row)

    def processes(self, name: str) -> int:
        """Return how many processes measured a cell."""
        return self.rows[name].processes if name in self.rows else 0

    def part(self) -> str:
        """Return ` (2 of 8 cells)` where cells lack times; "" where the run is complete."""
        count = len(self.rows)
        if not self.interrupted and self.complete + len(self.failed) >= self.cells:
            return ""
        complete = f", {self.complete} of them complete" * (self.complete < count)
        return f" ({count} of {self.cells} cells{complete})"

    def to_json(self) -> dict[str, Any]:
        """Return the run for JSON."""
        value = {"format": FORMAT, "environment": self.environment, "options": self.options}
        value |= {"interrupted": True} if self.interrupted else {}
        value |= {"failed": self.failed} if self.failed else {}
        return value | {"cells": [row.to_json() for row in self.rows.values()]}

    def save(self, path: Path) -> None:
        """Write the file whole or not at all, with a line for each cell."""
        value = self.to_json()
        cells = ",\n".join(map(json.dumps, value.pop("cells")))
        text = f'{json.dumps(value, indent=1)[:-2]},\n "cells": [\n{cells}\n]}}\n'
        write_whole(path, lambda file: file.write(text.encode()))

    @classmethod
    def load(cls, path: Path) -> "Results":
        """Read a file of `save`. Raises `DmlError` if it is none."""
        try:
            value = json.loads(path.read_text())
            if value["format"] != FORMAT:
                raise KeyError("format")
            rows = [Row.from_json(cell) for cell in value["cells"]]
            known = {k: value.get(k, {}) for k in ("environment", "options", "failed")}
        except OSError as error:
            rule, said = "be readable", error.strerror or str(error)
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
            rule, said = "be a file of `dml-jax bench -o x.json` of this version", "another file"
        else:
            found = {row.name: row for row in rows}
            return cls(rows=found, **known, interrupted="interrupted" in value)
        raise DmlError([Fault("", f"the file '{path}'", rule, Unquoted(said))])


def by_type(
    rows: Iterable[Row], key: str, of: Callable[[list[float]], float] = statistics.median
) -> dict[str, float]:
    """Return a rate of each type, in GB/s or GFLOP/s: the median over the cells, or their `of`.

    `key` is copy or peak.
    """
    found: dict[str, list[float]] = {}
    for row in rows:
        if rate := getattr(row, key):
            found.setdefault(row.data_type, []).append(rate / 1e9)
    return {name: of(rates) for name, rates in found.items()}


def environment(device: Any) -> dict[str, Any]:
    """Return what figures depend on beside the code: the machine, the versions, the flags."""
    read = ("XLA_", "JAX_", "MALLOC_", "GLIBC_", "OMP_", "LIBTPU_")
    facts = Path("/proc/cpuinfo")
    cpu = re.search(r"model name\s*: (.*)", facts.read_text() if facts.exists() else "")
    return {
        "device": device.device_kind,
        "platform": device.platform,
        "platform_version": device.client.platform_version.splitlines()[0],
        "cpu": cpu[1] if cpu else machine.processor() or machine.machine(),
        "cores": cores(),
        "last_cache_bytes": last_cache_bytes(),
        "os": machine.platform(),
        "python": machine.python_version(),
        "dml_jax": __version__,
        "commit": _commit(),
        "jax": jax.__version__,
        "jaxlib": metadata.version("jaxlib"),
        "flags": {k: v for k, v in sorted(os.environ.items()) if k.startswith(read)},
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        **(_clocks(device) if device.platform in ("gpu", "cuda") else {}),
    }


def _commit() -> str:
    """Return the commit of the checkout that the package is in, with + for changes; or ""."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty=+"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip()


def _clocks(device: Any) -> dict[str, Any]:
    """Return clocks, power and throttling of an NVIDIA device, where nvidia-ml-py is installed."""
    try:
        import pynvml as nvml  # pyright: ignore[reportMissingImports]
    except ImportError:
        return {}
    try:
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(device.local_hardware_id)
        slowed = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
        idle = nvml.nvmlClocksThrottleReasonGpuIdle | nvml.nvmlClocksThrottleReasonNone
        return {
            "clock_mhz": nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
            "most_clock_mhz": nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM),
            "memory_clock_mhz": nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
            "watts": nvml.nvmlDeviceGetPowerUsage(handle) / 1e3,
            "celsius": nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
            "throttled": bool(slowed & ~idle),
        }
    except nvml.NVMLError:  # the driver is missing, or the user may not ask it
        return {}


def worst(rows: Sequence[Row], key: str, count: int = 10) -> list[Row]:
    """Return the rows with the lowest `key` above 0."""
    found = [row for row in rows if getattr(row, key)]
    return sorted(found, key=lambda row: getattr(row, key))[:count]

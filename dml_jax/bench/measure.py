"""Measures a plain copy on a device, and each cell beside it."""

import os
import platform as machine
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from dml_jax import __version__
from dml_jax.bench.arithmetic import operations, product
from dml_jax.bench.cells import Cell
from dml_jax.bench.memory import WAYS, Data, jax_contenders, programs, sets_moving, wide
from dml_jax.bench.timing import Contender, Times, interleaved, is_queued
from dml_jax.description.tensor import TensorDesc
from dml_jax.enums import TensorDataType
from dml_jax.host import cores, last_cache_bytes

COPIED, COPIED_QUEUED = 2**26, 2**28  # bytes of the copied array, the second on a GPU
MULTIPLIED, MULTIPLIED_QUEUED = 2048, 8192  # rows of the matrices of a product


@dataclass(frozen=True)
class Measured:
    """A cell's times by way, and the bytes a second of a plain copy in the same seconds."""

    cell: Cell
    times: Mapping[str, Times]
    copy: float
    operations: float = 0.0  # on floating-point numbers, of a call
    peak: float = 0.0  # operations a second of a product of the type; 0 without one

    def rate(self, way: str = "donated") -> float:
        """Bytes that must move, a second."""
        return self.cell.bytes / self.times[way].median

    def share(self, way: str = "donated") -> float:
        """The rate as a part of the copy's."""
        return self.rate(way) / self.copy

    @property
    def intensity(self) -> float:
        """Operations for each byte that must move."""
        return self.operations / self.cell.bytes

    def of_roof(self, way: str = "donated") -> float:
        """The least time that memory or arithmetic takes, as a part of the time."""
        arithmetic = self.operations / self.peak if self.peak else 0.0
        return max(self.cell.bytes / self.copy, arithmetic) / self.times[way].median

    def to_json(self) -> dict[str, Any]:
        """Return times in microseconds and rates in GB/s."""
        cell = self.cell
        return {
            "name": cell.name,
            "operator": cell.operator,
            "variant": cell.variant,
            "data_type": cell.tensor.data_type.name,
            "sizes": list(cell.tensor.sizes),
            "bytes_in": cell.bytes_in,
            "bytes_out": cell.bytes_out,
            "copy_gb_s": round(self.copy / 1e9, 2),
            **({"operations": self.operations} if self.operations else {}),
            **({"peak_gflop_s": round(self.peak / 1e9, 2)} if self.peak else {}),
            "times": {
                way: times.to_json()
                | {"gb_s": round(self.rate(way) / 1e9, 2), "of_copy": round(self.share(way), 4)}
                for way, times in self.times.items()
            },
        }


def changed(x: jax.Array) -> jax.Array:
    """Change each element: the copy that cells are compared with is XLA's program for this."""
    return x * 2 if jnp.issubdtype(x.dtype, jnp.floating) else x ^ 1


class Bench:
    """Measures cells on a device, in some `WAYS`, with about so many seconds for each.

    With `arithmetic` it also counts operations, and measures a product of each floating type.
    """

    def __init__(
        self, device: Any, seconds: float, ways: Sequence[str] = WAYS[:1], arithmetic: bool = False
    ):
        self.device, self.seconds, self.data = device, seconds, Data(device)
        self.ways, self.arithmetic = ways, arithmetic
        self._copies: dict[TensorDataType, tuple[Contender, int]] = {}
        self._peaks: dict[TensorDataType, float] = {}

    def _copy(self, data_type: TensorDataType) -> tuple[Contender, int]:
        """Return a copy of a large array, and the bytes that it moves."""
        if data_type not in self._copies:
            size = COPIED_QUEUED if is_queued(self.device) else COPIED
            tensor = TensorDesc(data_type, [size // data_type.element_size])
            sets = sets_moving(2 * size, self.device)
            self._copies[data_type] = self._plain(changed, 1, tensor, sets), 2 * size
        return self._copies[data_type]

    def _plain(
        self, function: Callable[..., Any], count: int, tensor: TensorDesc, sets: int
    ) -> Contender:
        """Return a function of `count` tensors like `tensor`, and to such a one, to be timed."""
        with jax.enable_x64(tensor.data_type.bits == 64):
            compiled = programs(function, [tensor] * count, [tensor], self.device, sets)
            inputs = [tuple(self.data.array(tensor) for _ in range(count)) for _ in range(sets)]
            return jax_contenders(compiled, inputs, [tensor], self.data)["donated"]

    def _peak(self, data_type: TensorDataType) -> float:
        """Return the operations a second of a product of large matrices; 0 for integers."""
        if not data_type.name.startswith("FLOAT"):
            return 0.0
        if data_type not in self._peaks:
            size = MULTIPLIED_QUEUED if is_queued(self.device) else MULTIPLIED
            contender = self._plain(product, 2, TensorDesc(data_type, [size, size]), 2)
            times = interleaved({"product": contender}, 2, seconds=max(self.seconds, 0.3))
            self._peaks[data_type] = 2 * size**3 / times["product"].median
        return self._peaks[data_type]

    def run(self, cells: Sequence[Cell]) -> Iterator[Measured]:
        """Measure each cell; nothing is compiled while something is timed."""
        for cell in cells:
            function, sets = cell.function, sets_moving(cell.bytes, self.device)
            copy, size = self._copy(cell.tensor.data_type)
            with wide(function):
                made = programs(function, function.inputs, function.outputs, self.device, sets)
                inputs = self.data.sets(function, sets)
                contenders = jax_contenders(made, inputs, function.outputs, self.data)
                times: dict[str, Times] = {}
                for way in self.ways:  # apart: new pages leave the caches cold
                    group = {way: contenders[way], **({} if times else {"copy": copy})}
                    times |= interleaved(group, sets, seconds=self.seconds, keep={"copy"})
                work = operations(function, function.inputs) if self.arithmetic else 0.0
            copied = size / times.pop("copy").median
            peak = self._peak(cell.tensor.data_type) if self.arithmetic else 0.0
            yield Measured(cell, times, copied, work, peak)


def environment(device: Any) -> dict[str, Any]:
    """Return what figures depend on beside the code: the machine, the versions, the flags."""
    return {
        "device": device.device_kind,
        "platform": device.platform,
        "platform_version": device.client.platform_version.splitlines()[0],
        "cpu": _cpu(),
        "cores": cores(),
        "last_cache_bytes": last_cache_bytes(),
        "dml_jax": __version__,
        "jax": jax.__version__,
        "jaxlib": metadata.version("jaxlib"),
        "flags": {
            name: value
            for name, value in sorted(os.environ.items())
            if name.startswith(("XLA_", "JAX_", "MALLOC_", "GLIBC_", "OMP_", "LIBTPU_"))
        },
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _cpu() -> str:
    facts = Path("/proc/cpuinfo")
    known = re.search(r"model name\s*: (.*)", facts.read_text() if facts.exists() else "")
    return known[1] if known else machine.processor() or machine.machine()

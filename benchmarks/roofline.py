"""How the comparison measures: references of several forms beside each cell, and its peers.

The rules stay those by which the kept results were measured; `dml-jax bench` has fewer references.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from table import HIGH, LOW, Cell

from dml_jax.bench import measure, memory
from dml_jax.bench.memory import Programs, jax_contenders, programs, sets_moving, wide
from dml_jax.bench.timing import Contender, Times, interleaved, is_queued
from dml_jax.description.tensor import TensorDesc
from dml_jax.enums import TensorDataType
from dml_jax.host import cores

__all__ = ["Bench", "Data", "default_limit", "environment", "sets_of", "wide"]

EVEN = 1024
"""A copy of as many bytes as a cell has a multiple of this many elements."""

METHOD, METHOD_QUEUED = 2, 3
"""The numbers of the ways to measure, where calls are waited for and where they are queued: figures
of different numbers are not mixed."""

WAYS = ("bound", "allocated")
"""How the results name calls that write into donated memory, and calls that allocate."""


def sets_of(cell: Cell, device: Any) -> int:
    """Return through how many sets of data a cell rotates."""
    return sets_moving(cell.bytes, device)


def environment(device: Any) -> dict[str, Any]:
    """Return what figures depend on beside the code, and the number of the way to measure."""
    number = METHOD_QUEUED if is_queued(device) else METHOD
    return measure.environment(device) | {"method": number}


class Data(memory.Data):
    """Random arrays: floats in [`LOW`, `HIGH`), and integers of all bits."""

    def _random(self, dtype: np.dtype, bounds: Any, count: int) -> jax.Array:
        if jnp.issubdtype(dtype, jnp.floating):
            return super()._random(dtype, (LOW, HIGH), count)
        bits = jax.random.bits(
            jax.random.key(len(self._long)), (count,), f"uint{dtype.itemsize * 8}"
        )
        return lax.bitcast_convert_type(jax.device_put(bits, self.device), dtype)

    def sets_of_cell(self, cell: Cell) -> list[memory.Arrays]:
        """Draw the inputs of each set."""
        count = sets_of(cell, self.device)
        made = [tuple(map(self.array, cell.function.inputs)) for _ in range(count)]
        return jax.block_until_ready(made)


# The references.

_FORMS: dict[str, tuple[bool, Callable[[jax.Array], jax.Array]]] = {
    # Whether it copies, else it reads.
    "copy": (True, measure.changed),
    "memcpy": (True, lax.optimization_barrier),
    "read max": (False, lambda x: lax.reduce_max(x, (0,))[None]),
    "read sum": (False, lambda x: lax.reduce(x, np.zeros((), x.dtype)[()], lax.add, (0,))[None]),
}


class References:
    """Plain copies and reads of large arrays, to be timed on their own and beside each cell."""

    def __init__(self, data: Data, size: int):
        self.data = data
        self.size = size
        self.sets = sets_moving(2 * size, data.device)
        self._made: dict[TensorDataType, dict[str, Contender]] = {}
        self._compiled: dict[Any, Programs] = {}

    def contenders(self, data_type: TensorDataType) -> dict[str, Contender]:
        """All forms for one type."""
        if data_type not in self._made:
            with jax.enable_x64(data_type.bits == 64):
                self._made[data_type] = self._make(data_type)
        return self._made[data_type]

    def _make(self, data_type: TensorDataType) -> dict[str, Contender]:
        tensor = TensorDesc(data_type, [self.size // data_type.element_size])
        inputs = [(self.data.array(tensor),) for _ in range(self.sets)]
        return {form: self._contender(form, tensor, inputs) for form in _FORMS}

    def equal_size(self, cell: Cell) -> int:
        """Bytes of an array whose copy moves as many as the cell does; at most the large one's.

        Its number of elements is a multiple of `EVEN`, where it is more: XLA's GPU copies others at
        less than half the speed.
        """
        element = cell.tensor.data_type.element_size
        count = max(cell.bytes // 2 // element, 1)
        count -= count % EVEN if count > EVEN else 0
        return min(count * element, self.size)

    def equal_copy(self, cell: Cell) -> Contender:
        """A copy of an array of that size, through as many sets as the cell's."""
        data_type = cell.tensor.data_type
        tensor = TensorDesc(data_type, [self.equal_size(cell) // data_type.element_size])
        inputs = [(self.data.array(tensor),) for _ in range(sets_of(cell, self.data.device))]
        return self._contender("copy", tensor, inputs)

    def _contender(
        self, form: str, tensor: TensorDesc, inputs: Sequence[tuple[jax.Array, ...]]
    ) -> Contender:
        copies, function = _FORMS[form]
        outputs = [tensor if copies else TensorDesc(tensor.data_type, [1])]
        key = (form, tensor.data_type, tensor.sizes, len(inputs))
        if key not in self._compiled:
            self._compiled[key] = programs(
                function, [tensor], outputs, self.data.device, len(inputs)
            )
        return jax_contenders(self._compiled[key], inputs, outputs, self.data)["donated"]

    def rate(self, form: str, times: Times) -> float:
        """Bytes a second; a copy's are counted twice, since it reads and writes them."""
        return self.size * (2 if _FORMS[form][0] else 1) / times.median


@dataclass(frozen=True)
class Bandwidth:
    """Bytes a second of each type and form: `rates[FLOAT32]["copy"]`."""

    rates: Mapping[TensorDataType, Mapping[str, float]]

    def read_form(self, data_type: TensorDataType) -> str:
        """The form that reads this type fastest."""
        of_type = self.rates[data_type]
        return max((f for f in of_type if f.startswith("read")), key=of_type.__getitem__)

    @property
    def best_copy(self) -> float:
        """Of any type and form: the nearest that XLA comes to the card."""
        return best_copy(self.rates)

    def to_json(self) -> dict[str, Any]:
        """In GB/s."""
        rates = {
            t.name: {form: round(rate / 1e9, 2) for form, rate in of_type.items()}
            for t, of_type in self.rates.items()
        }
        return {"best_copy_gb_s": round(self.best_copy / 1e9, 2), "gb_s": rates}


def best_copy(rates: Mapping[Any, Mapping[str, float]]) -> float:
    """The fastest of what each type has."""
    return max(max(of_type["copy"], of_type["memcpy"]) for of_type in rates.values())


def measure_bandwidth(
    references: References, types: Sequence[TensorDataType], seconds: float = 2.0
) -> Bandwidth:
    """Every form of every type, in turn."""
    contenders = {
        (t, form): contender for t in types for form, contender in references.contenders(t).items()
    }
    names = {f"{t} {form}": key for key in contenders for t, form in [key]}
    times = interleaved(
        {name: contenders[key] for name, key in names.items()},
        references.sets,
        seconds=seconds,
        give_up=math.inf,
    )
    rates: dict[TensorDataType, dict[str, float]] = {t: {} for t in types}
    for name, (t, form) in names.items():
        rates[t][form] = references.rate(form, times[name])
    return Bandwidth(rates)


# The cells.


@dataclass(frozen=True)
class Measured:
    """The times of a cell, and of the references in the same seconds.

    Attributes:
        times: by contender; `allocated` and `bound` are the operator's.
        copy: bytes a second of a plain copy of the cell's type, of a large array, timed beside the
            cell.
        equal_copy: of a plain copy of the type that moves as many bytes as the cell.
        best_copy: of the fastest copy that the device has of any type.
        read: of a plain read of the type.
    """

    cell: Cell
    times: Mapping[str, Times]
    copy: float
    equal_copy: float
    best_copy: float
    read: float
    notes: Mapping[str, str] = field(default_factory=dict)

    def rate(self, way: str) -> float:
        """Bytes that must move, a second."""
        return self.cell.bytes / self.times[way].median

    @property
    def limit(self) -> float:
        """What the rate is judged by: the read where the cell reads, else the copy of its type."""
        return self.read if self.cell.reads else self.copy

    def to_json(self) -> dict[str, Any]:
        """Times in microseconds, rates in GB/s."""
        ways: dict[str, Any] = {}
        for way, times in self.times.items():
            rate = self.rate(way)
            ways[way] = times.to_json() | {
                "gb_s": round(rate / 1e9, 2),
                "of_copy": round(rate / self.copy, 4),
                "of_equal_copy": round(rate / self.equal_copy, 4),
                "of_best_copy": round(rate / self.best_copy, 4),
                "of_limit": round(rate / self.limit, 4),
            }
        cell = self.cell
        return {
            "name": cell.name,
            "kind": cell.kind,
            "group": cell.group,
            "variant": cell.variant,
            "data_type": cell.tensor.data_type.name,
            "sizes": list(cell.tensor.sizes),
            "bytes_in": cell.bytes_in,
            "bytes_out": cell.bytes_out,
            "limit": "read" if cell.reads else "copy",
            "copy_gb_s": round(self.copy / 1e9, 2),
            "equal_copy_gb_s": round(self.equal_copy / 1e9, 2),
            "read_gb_s": round(self.read / 1e9, 2),
            "times": ways,
            **({"notes": dict(self.notes)} if self.notes else {}),
        }


def default_limit(device: Any) -> int:
    """Bytes of the largest tensor that is measured, where the user does not say."""
    return 200_000_000 if device.platform == "cpu" else 2_148_000_000


class Bench:
    """A device under measurement.

    Args:
        device: where.
        seconds: of samples for each cell, about.
        limit: most bytes of the references' arrays, which are of 64 MB on a CPU, else 256 MB.
    """

    def __init__(self, device: Any, seconds: float, limit: int):
        self.device = device
        self.seconds = seconds
        self.data = Data(device)
        size = 2 ** (26 if device.platform == "cpu" else 28)
        self.references = References(self.data, min(limit, size))
        self._bandwidth: Bandwidth | None = None

    def bandwidth(self, cells: Sequence[Cell]) -> Bandwidth:
        """Of the types of these cells, and of FLOAT32, whose copy is the best of a GPU's.

        Measured before the cells.
        """
        types = sorted({cell.tensor.data_type for cell in cells} | {TensorDataType.FLOAT32})
        self._bandwidth = measure_bandwidth(self.references, types, 4 * self.seconds)
        return self._bandwidth

    def compiled(
        self,
        cells: Sequence[Cell],
        prepare: Callable[[Cell], Any] | None = None,
    ) -> Iterator[tuple[Cell, Any]]:
        """Yield each cell with its programs, which are not compiled while one is timed.

        On a CPU several are compiled at once. XLA's GPU compiler times kernels to choose between
        them, and chooses badly if it runs more than once.
        """
        at_once = 1 if is_queued(self.device) else 4 * cores()
        with ThreadPoolExecutor() as pool:
            for start in range(0, len(cells), at_once):
                chunk = cells[start : start + at_once]
                made = list(pool.map(prepare or self.prepare, chunk))  # all, before one is timed
                yield from zip(chunk, made, strict=True)

    def prepare(self, cell: Cell) -> Programs:
        """The cell's programs."""
        with wide(cell.function):
            function, sets = cell.function, sets_of(cell, self.device)
            return programs(function, function.inputs, function.outputs, self.device, sets)

    def measure(
        self,
        cell: Cell,
        contenders: Mapping[str, Contender],
        notes: Mapping[str, str] | None = None,
    ) -> Measured:
        """The contenders' times: of all bound ones in turn, then of all allocated ones.

        Names end in the way. The references take turns with the bound ones.
        """
        bandwidth = self._bandwidth or self.bandwidth([cell])
        forms = self.references.contenders(cell.tensor.data_type)
        copy, read = "copy", bandwidth.read_form(cell.tensor.data_type)
        beside = {copy: forms[copy], read: forms[read]}
        equal_size = self.references.equal_size(cell)
        if equal_size < self.references.size:
            beside["equal"] = self.references.equal_copy(cell)
        times: dict[str, Times] = {}
        # Apart, since pages that are new leave the caches cold and the kernel busy.
        for way in WAYS:
            group = {name: c for name, c in contenders.items() if name.endswith(way)}
            times |= interleaved(
                {**group, **(beside if way == "bound" else {})},
                sets_of(cell, self.device),
                seconds=self.seconds,
                keep=set(beside),
            )
        rates = {form: self.references.rate(form, times.pop(form)) for form in (copy, read)}
        of_type = bandwidth.rates[cell.tensor.data_type]["copy"]
        best = max(rates[copy] * bandwidth.best_copy / of_type, rates[copy])
        equal = times.pop("equal", None)
        equal_rate = 2 * equal_size / equal.median if equal else rates[copy]
        return Measured(cell, times, rates[copy], equal_rate, best, rates[read], notes or {})

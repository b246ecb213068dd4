"""Measures cells on a device, each beside a plain copy and beside peers."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from dml_jax.bench.cells import Cell
from dml_jax.bench.counts import operations
from dml_jax.bench.functions import Plain, Transformed, byte_count
from dml_jax.bench.memory import (
    WAYS,
    Data,
    all_at_once,
    as_tuple,
    check_memory,
    jax_contenders,
    programs,
    sets_moving,
    wide,
)
from dml_jax.bench.peers import UnsupportedError, difference, peer_named
from dml_jax.bench.rows import Row
from dml_jax.bench.timing import Contender, Times, interleaved, is_queued
from dml_jax.errors import DmlError, Fault
from dml_jax.graph.parts import ArrayType, Edge

COPIED, COPIED_QUEUED = 2**26, 2**28  # bytes of the copied array, the second on a GPU
MULTIPLIED, MULTIPLIED_QUEUED = 2048, 8192  # rows of the matrices of a product
PRODUCTS = ("FLOAT32", "FLOAT16", "BFLOAT16")  # the types whose peak a roofline measures


def changed(x: jax.Array) -> jax.Array:
    """Change each element: the copy that cells are compared with is XLA's program for this."""
    return x * 2 if jnp.issubdtype(x.dtype, jnp.floating) else x ^ 1


def product(precision: Any, dtype: Any, x: jax.Array, y: jax.Array) -> jax.Array:
    """Multiply matrices: the peak is the rate of XLA's program for this in full precision."""
    return lax.dot(x, y, precision=precision, preferred_element_type=dtype)


class Bench:
    """Measures cells on a device.

    Args:
        device: the first device.
        seconds: of samples for each cell, about.
        ways: how calls get memory for their outputs: `WAYS`.
        roofline: whether to measure a product of each floating type too.
        peers: the names of other libraries that compute the same.
        count: over so many devices each array is sharded, by the first axis that divides.
        precision: of products, as `jax.default_matmul_precision` names it.
        most_sets: through at most so many sets of data calls rotate, if any.
    """

    def __init__(
        self,
        device: Any,
        seconds: float,
        ways: Sequence[str] = WAYS[:1],
        roofline: bool = False,
        peers: Sequence[str] = (),
        count: int = 1,
        precision: str | None = None,
        most_sets: int | None = None,
    ):
        self.device, self.seconds, self.data = device, seconds, Data(device)
        self.ways = [*ways, *(["allocated"] if peers and "allocated" not in ways else [])]
        self.roofline, self.precision, self.most_sets = roofline, precision, most_sets
        self.peers = {name: peer_named(name, device) for name in peers}
        self.place = None if count == 1 else _sharding(device, count)
        self._copies: dict[Any, tuple[Contender, int]] = {}
        self._peaks: dict[str, float] = {}

    def _copy(self, dtype: Any) -> tuple[Contender, int]:
        """Return a copy of a large array, and the bytes that it moves."""
        if dtype not in self._copies:
            size = COPIED_QUEUED if is_queued(self.device) else COPIED
            tensor = ArrayType(dtype, (size // dtype.itemsize,))
            sets = sets_moving(2 * size, self.device)
            self._copies[dtype] = self._plain(changed, [tensor], tensor, sets), 2 * size
        return self._copies[dtype]

    def _plain(
        self, function: Callable[..., Any], inputs: Sequence[Edge], output: Edge, sets: int
    ) -> Contender:
        """Return the contender of a function of random arrays, which writes to donated memory."""
        plain = Plain(function, inputs, [output])
        with wide(plain):
            made = programs(function, inputs, [output], self.device, sets, WAYS[:1])
            arrays = self.data.sets(plain, sets)
            return jax_contenders(made, arrays, [output], self.data)["donated"]

    def peak(self, name: str, dtype: Any) -> float:
        """Return the operations a second of a product of large matrices; 0 for other types."""
        if name in PRODUCTS and name not in self._peaks:
            size = MULTIPLIED_QUEUED if is_queued(self.device) else MULTIPLIED
            tensor = ArrayType(dtype, (size, size))
            function = functools.partial(product, lax.Precision.HIGHEST, dtype)
            contender = self._plain(function, [tensor] * 2, tensor, 2)
            times = interleaved({"product": contender}, 2, seconds=max(self.seconds, 0.2))
            self._peaks[name] = 2 * size**3 / times["product"].median
        return self._peaks.get(name, 0.0)

    def run(self, cells: Sequence[Cell]) -> Iterator[Row]:
        """Measure each cell; nothing is compiled while something is timed."""
        for cell in cells:
            with _precision(self.precision):
                yield self.row(cell)

    def row(self, cell: Cell) -> Row:
        """Measure a cell."""
        function, row = cell.function, Row.of(cell, operations(cell.function))
        sets = min(sets_moving(cell.bytes, self.device), self.most_sets or 2**30)
        sets = 1 if getattr(function, "arrays", None) is not None else max(sets, 1)
        dtype, own = cell.tensor.dtype, getattr(function, "place", None)
        place, ways = own or self.place, WAYS[1:] if own else self.ways
        with wide(function):
            ends = function.inputs, function.outputs
            made = programs(function, *ends, self.device, sets, ways, place)
            if not is_queued(self.device):
                check_memory(made, sum(map(byte_count, (*ends[0], *ends[1]))) * sets)
            inputs = self.data.sets(function, sets, place)
            contenders = jax_contenders(made, inputs, ends[1], self.data, place)
            beside: dict[str, Contender] = {}
            if cell.family != "limits":
                beside["copy"], row.copy_bytes = self._copy(dtype)
            for way in ways:  # apart: new pages leave the caches cold
                group = {way: contenders[way], **({} if row.seconds else beside)}
                if way == "allocated" and self.peers:
                    group |= self._beside(cell, made, inputs, row)
                    if is_queued(self.device):
                        group[way] = all_at_once(function, inputs, self.device)
                _add(row, interleaved(group, sets, seconds=self.seconds, keep={"copy"}))
        if self.roofline and all(tensor.dtype == dtype for tensor in function.inputs[:1]):
            row.peak = self.peak(row.data_type, dtype)  # integers are multiplied at another rate
        return row

    def _beside(self, cell: Cell, made: Any, inputs: Any, row: Row) -> dict[str, Contender]:
        """Return the contenders of the peers that have such an operator; compare their answers."""
        found: dict[str, Contender] = {}
        ours = as_tuple(made.allocated(*inputs[0]))
        for name, peer in self.peers.items():
            try:
                found[name], results = peer(cell, inputs)
                said = difference(ours, results, cell.operator)
            except UnsupportedError:
                continue
            except Exception as error:  # the other peers are still worth having
                said = f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"
                found.pop(name, None)
            if said:
                row.differs[name] = said
        return found


def _add(row: Row, times: dict[str, Times]) -> None:
    for name, found in times.items():
        row.seconds[name] = [found.median]
        row.spread[name] = [(found.high - found.low) / 2 / found.median]
        if found.processor and name in ("copy", row.way):
            row.processor[name] = [found.processor]


def devices_of(device: Any, count: int) -> list[Any]:
    """Return so many devices of a platform, or all for 0. Raises `DmlError` if there are fewer."""
    found = device.client.local_devices()
    if count > len(found):
        more = f" (JAX_NUM_CPU_DEVICES={count} makes more)" if device.platform == "cpu" else ""
        rule = f"be at most {len(found)}, the {device.platform} devices of this machine{more}"
        raise DmlError([Fault("", "--devices", rule, count)])
    return found[: count or None]


def _precision(name: str | None) -> Any:
    return jax.default_matmul_precision(name) if name else contextlib.nullcontext()


def _sharding(device: Any, count: int) -> Callable[[Sequence[int]], NamedSharding]:
    """Return the sharding of arrays of some sizes: by the first axis that divides, if one does."""
    chosen = devices_of(device, count)
    mesh = jax.make_mesh((count,), ("devices",), axis_types=(AxisType.Auto,), devices=chosen)

    def place(sizes: Sequence[int]) -> NamedSharding:
        axes = [axis for axis, size in enumerate(sizes) if size % count == 0]
        return NamedSharding(mesh, P(*[None] * axes[0], "devices") if axes else P())

    return place


def time(function: Callable[..., Any], *arrays: Any, seconds: float = 0.3) -> Row:
    """Time a function of arrays, compiled by `jax.jit`, beside a plain copy on the same device.

    Args:
        function: takes `arrays`, and returns an array or several.
        arrays: the arguments; a call reads the same ones each time.
        seconds: of samples, about.

    Returns:
        A `Row`: `row.time()` is the median of a call in seconds, `row.share` the part of the copy's
        bandwidth.
    """
    placed = [jnp.asarray(array) for array in arrays]
    device = next(iter(placed[0].devices())) if placed else jax.devices()[0]
    ends = [
        [ArrayType(x.dtype, x.shape) for x in some]
        for some in (placed, jax.tree.leaves(jax.eval_shape(function, *placed)))
    ]

    def flat(*xs: Any) -> Any:
        return jax.tree.leaves(function(*xs))

    name = getattr(function, "__name__", type(function).__name__)
    count = operations(function) if isinstance(function, Transformed) else 0.0
    plain = Plain(flat, *ends, arrays=placed, operations=count)
    return Bench(device, seconds, WAYS[1:]).row(Cell(name, "", plain))

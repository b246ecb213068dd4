"""Measures cells on a device, each beside a plain copy and beside peers."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from dml_jax.bench.cells import Cell
from dml_jax.bench.limits import copy_cell, devices_of, product_cell
from dml_jax.bench.measured_functions import Plain, byte_count
from dml_jax.bench.memory import WAYS, Arrays, Data, contender, sets_moving, wide
from dml_jax.bench.operation_counts import operations, product_type
from dml_jax.bench.peers import UnsupportedError, difference, find_peer
from dml_jax.bench.rows import Row
from dml_jax.bench.timing import Contender, interleave
from dml_jax.errors import DmlError, Fault
from dml_jax.graph.parts import ArrayType

PRODUCTS = ("FLOAT32", "FLOAT16", "BFLOAT16")  # the types whose peak a roofline measures


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
    ):
        self.device, self.seconds, self.data = device, seconds, Data(device)
        self.ways = WAYS if peers else ways
        self.roofline, self.precision = roofline, precision
        self.peers = {name: find_peer(name, device) for name in peers}
        self.place = None if count == 1 else _sharding(device, count)
        self._copies: dict[Any, tuple[Contender, int]] = {}
        self._peaks: dict[str, float] = {}

    def _contender(self, cell: Cell) -> Contender:
        """Return the contender of a limit of the device, which writes to donated memory."""
        inputs = self.data.sets(cell.function, self._sets(cell.function))
        return contender(cell.function, inputs, self.device, cell.function.outputs)

    def _sets(self, function: Any) -> int:
        return sets_moving(byte_count(*function.inputs, *function.outputs), self.device)

    def _copy(self, name: str, dtype: Any) -> tuple[Contender, int]:
        """Return a copy of a large array, and the bytes that it moves."""
        if dtype not in self._copies:
            cell = copy_cell(name, dtype, self.device)
            self._copies[dtype] = self._contender(cell), cell.bytes
        return self._copies[dtype]

    def peak(self, name: str) -> float:
        """Return the operations a second of a product of large matrices; 0 for other types."""
        if name in PRODUCTS and name not in self._peaks:
            cell = product_cell(name, self.device)
            seconds, product = max(self.seconds, 0.2), self._contender(cell)
            times = interleave({"product": product}, 2, seconds=seconds)
            self._peaks[name] = cell.function.operations / times["product"].median
        return self._peaks.get(name, 0.0)

    def run(self, cells: Sequence[Cell]) -> Iterator[Row]:
        """Measure each cell; nothing is compiled while something is timed."""
        for cell in cells:
            precision = self.precision or jax.config.jax_default_matmul_precision  # pyright: ignore
            with jax.default_matmul_precision(precision):
                yield self.row(cell)

    def row(self, cell: Cell) -> Row:
        """Measure a cell."""
        function, row = cell.function, Row.of(cell, operations(cell.function))
        has_data = getattr(function, "arrays", None) is not None
        sets = 1 if has_data else self._sets(function)
        dtype, own = cell.tensor.dtype, getattr(function, "place", None)
        place, beside = own or self.place, dict[str, Contender]()
        with wide(function):
            inputs = self.data.sets(function, sets, place)
            if cell.family != "limits":
                beside["copy"], row.copy_bytes = self._copy(row.data_type, dtype)
            for way in WAYS[1:] if own else self.ways:  # apart: new pages leave the caches cold
                outputs = function.outputs if way == "donated" else ()
                ours = contender(function, inputs, self.device, outputs, place)
                group = {way: ours, **({} if row.seconds else beside)}
                if way == "allocated" and self.peers:
                    group |= self._beside(cell, ours, inputs, row)
                times = interleave(group, sets, seconds=self.seconds, keep={"copy"})
                for name, found in times.items():
                    row.seconds[name] = [found.median]
                    row.spread[name] = [(found.high - found.low) / 2 / found.median]
                    if found.processor and name in ("copy", row.way):
                        row.processor[name] = [found.processor]
        if self.roofline and cell.family == "program":
            row.peak = self.peak(product_type(getattr(function, "graph", function)))
        elif self.roofline and all(tensor.dtype == dtype for tensor in function.inputs[:1]):
            row.peak = self.peak(row.data_type)  # integers are product_cell at another rate
        return row

    def _beside(
        self, cell: Cell, ours: Contender, inputs: Sequence[Arrays], row: Row
    ) -> dict[str, Contender]:
        """Return the contenders of the peers that have such an operator; compare their answers."""
        found, (answer, *_) = dict[str, Contender](), ours.call(0)
        for name, peer in self.peers.items():
            try:
                found[name], results = peer(cell, inputs)
                jax.block_until_ready(found[name].call(0))  # all sets at once may lack memory
                said = difference(answer, results, cell.operator)
            except UnsupportedError:
                continue
            except Exception as error:
                # A peer is another library, which fails in its own way; the others are measured.
                said = f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"
                found.pop(name, None)
            if said:
                row.differs[name] = said
        return found


def _sharding(device: Any, count: int) -> Callable[[Sequence[int]], NamedSharding]:
    """Return the sharding of arrays of some sizes: by the first axis that divides, if one does."""
    chosen = devices_of(device, count)
    mesh = jax.make_mesh((count,), ("devices",), axis_types=(AxisType.Auto,), devices=chosen)

    def place(sizes: Sequence[int]) -> NamedSharding:
        axes = [axis for axis, size in enumerate(sizes) if size % count == 0]
        return NamedSharding(mesh, P(*[None] * axes[0], "devices") if axes else P())

    return place


def time(function: Callable[..., Any], *arguments: Any, seconds: float = 0.3) -> Row:
    """Time a function of arrays, compiled by `jax.jit`, beside a plain copy on the same device.

    Args:
        function: takes `arguments`, and returns an array, or several in a pytree.
        arguments: arrays, or pytrees of arrays; a call reads the same ones each time.
        seconds: of samples, about.

    Returns:
        A `Row`: `row.time()` is the median of a call in seconds, `row.share` the part of the copy's
        bandwidth, `row.work` the operations a second, as XLA counts them: a loop's once.

    Raises `DmlError` for an argument that is no array.
    """
    leaves, tree = jax.tree_util.tree_flatten_with_path(arguments)
    placed = [_array(value, f"arguments{jax.tree_util.keystr(path)}") for path, value in leaves]

    def flat(*arrays: Any) -> list[Any]:
        return jax.tree.leaves(function(*tree.unflatten(arrays)))

    device = next(iter(placed[0].devices())) if placed else jax.devices()[0]
    lowered = jax.jit(flat).lower(*placed)
    inputs, outputs = (
        [ArrayType(x.dtype, x.shape) for x in some] for some in (placed, lowered.out_info)
    )
    counted: Any = lowered.cost_analysis() or {}
    work = operations(function) or max(counted.get("flops", 0.0), 0.0)
    plain = Plain(flat, inputs, outputs, placed, work)
    name = getattr(function, "__name__", type(function).__name__)
    return Bench(device, seconds, WAYS[1:]).row(Cell(name, "", plain))


def _array(value: Any, name: str) -> jax.Array:
    """Return an argument as an array. Raises `DmlError` if it is none."""
    try:
        return jnp.asarray(value)
    except (OverflowError, TypeError):
        rule = "be an array, as jax.jit takes it (functools.partial binds others)"
        raise DmlError([Fault("", name, rule, value)]) from None

"""The limits of a device as cells: memory, products, caches, launches, collectives."""

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

from dml_jax.bench import measure
from dml_jax.bench.cells import Cell
from dml_jax.bench.functions import BFLOAT16, Plain
from dml_jax.bench.timing import is_queued
from dml_jax.errors import DmlError, Fault
from dml_jax.graph.parts import ArrayType

TYPES = {
    "FLOAT32": np.dtype(np.float32),
    "BFLOAT16": BFLOAT16,
    "FLOAT16": np.dtype(np.float16),
    "INT8": np.dtype(np.int8),
}
SMALLEST, LARGEST = 2**14, 2**28  # bytes of the arrays by which caches are seen
MOVED = 2**26  # bytes that a call moves within a cache
COMBINED = (2**14, 2**18, 2**22, 2**26)  # bytes of a device's part in a collective


def limits(device: Any, types: Sequence[str] = (), devices: int = 0) -> list[Cell]:
    """Return the cells of a device's limits.

    Args:
        device: the first device.
        types: of `TYPES`; none stands for all.
        devices: over so many of them collectives work; 0 stands for all of the platform.

    Raises `DmlError` for other types, or if there are fewer devices.
    """
    chosen = measure.devices_of(device, devices)
    for name in types:
        if name not in TYPES:
            raise DmlError([Fault("", "--dtype", f"be of {', '.join(TYPES)} with --limits", name)])
    kinds = {name: TYPES[name] for name in types or TYPES}
    queued = is_queued(device)
    return [
        *_of_memory(kinds, measure.COPIED_QUEUED if queued else measure.COPIED),
        *_of_products(kinds, queued),
        *_of_caches(LARGEST if queued else LARGEST // 2),
        _launch(),
        *(_of_collectives(chosen) if len(chosen) > 1 else ()),
    ]


def _cell(what: str, variant: str, function: Plain) -> Cell:
    return Cell(what, variant, function, family="limits")


def _of_memory(kinds: dict[str, np.dtype], size: int) -> Iterator[Cell]:
    for name, dtype in kinds.items():
        x, one = ArrayType(dtype, (size // dtype.itemsize,)), ArrayType(dtype, (1,))
        read = jnp.sum if name == "FLOAT32" else jnp.max  # a CPU adds FLOAT16 more slowly
        yield _cell("copy", name, Plain(measure.changed, [x], [x]))
        yield _cell("read", name, Plain(read, [x], [ArrayType(dtype, ())]))
        yield _cell(
            "write", name, Plain(functools.partial(jnp.broadcast_to, shape=x.sizes), [one], [x])
        )
        yield _cell("add", name, Plain(jnp.add, [x, x], [x]))


def _of_products(kinds: dict[str, np.dtype], queued: bool) -> Iterator[Cell]:
    size = measure.MULTIPLIED_QUEUED if queued else measure.MULTIPLIED
    presets: dict[str, Any] = dict.fromkeys(kinds)
    if queued and "FLOAT32" in kinds:
        presets["TF32"] = lax.DotAlgorithmPreset.TF32_TF32_F32
    for name, preset in presets.items():
        dtype = kinds.get(name, np.dtype(np.float32))
        out = np.dtype(np.int32) if name == "INT8" else dtype
        n = size if queued or name != "INT8" else size // 4  # XLA has no fast one on a CPU
        x, y = ArrayType(dtype, (n, n)), ArrayType(out, (n, n))
        function = functools.partial(measure.product, preset or lax.Precision.HIGHEST, out)
        yield _cell("product", name, Plain(function, [x, x], [y], operations=2 * n**3))


def _of_caches(largest: int) -> Iterator[Cell]:
    """Yield copies of arrays that stay where they are, by size: a cell copies some times."""
    for size in (2**k for k in range(SMALLEST.bit_length() - 1, largest.bit_length(), 2)):
        x = ArrayType(np.dtype(np.float32), (size // 4,))
        times = max(MOVED // (2 * size), 1)
        data = [np.ones(x.sizes, x.dtype)]
        function = functools.partial(_again, times)
        words = f"{size // 1024} KiB"
        yield _cell("cache", words, Plain(function, [x], [x], data, moved=2 * size * times))


def _again(times: int, x: Any) -> Any:
    return lax.fori_loop(0, times, lambda _, y: y * np.float32(0.5) + np.float32(1), x)


def _launch() -> Cell:
    x = ArrayType(np.dtype(np.float32), (1,))
    return _cell("launch", "", Plain(lambda x: x + 1, [x], [x], [np.ones(1, np.float32)]))


def _of_collectives(devices: Sequence[Any]) -> Iterator[Cell]:
    count = len(devices)
    mesh = jax.make_mesh(
        (count,), ("d",), axis_types=(jax.sharding.AxisType.Auto,), devices=devices
    )
    split = jax.sharding.NamedSharding(mesh, P("d"))
    kinds = {
        "all-reduce": lambda x: lax.psum(x, "d"),
        "all-gather": lambda x: lax.all_gather(x, "d", tiled=True),
    }
    for what, function in kinds.items():
        for size in COMBINED:
            rows = size // 4
            x = ArrayType(np.dtype(np.float32), (count * rows,))
            gathers = what == "all-gather"
            y = ArrayType(x.dtype, (count * rows if gathers else rows,))
            whole = jax.shard_map(
                function, mesh=mesh, in_specs=P("d"), out_specs=P(), check_vma=False
            )
            data = [np.ones(x.sizes, x.dtype)]
            # What each device has to send: of a sum twice what of a gathering.
            sent = math.ceil((1 if gathers else 2) * size * (count - 1) / (1 if gathers else count))
            words = f"{size // 1024} KiB, {count} devices"
            yield _cell(what, words, Plain(whole, [x], [y], data, 0, sent, lambda _: split))

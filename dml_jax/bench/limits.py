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

from dml_jax.bench.cells import Cell
from dml_jax.bench.measured_functions import BFLOAT16, Plain
from dml_jax.bench.timing import has_queue
from dml_jax.errors import DmlError, Fault
from dml_jax.graph.parts import ArrayType

F32 = np.dtype(np.float32)
TYPES = {
    "FLOAT32": F32,
    "BFLOAT16": BFLOAT16,
    "FLOAT16": np.dtype(np.float16),
    "INT8": np.dtype(np.int8),
}
COPIED, COPIED_QUEUED = 2**26, 2**28  # bytes of the copy_cell array, the second on a GPU
MULTIPLIED, MULTIPLIED_QUEUED = 2048, 8192  # rows of the matrices of a product
SMALLEST, LARGEST = 2**14, 2**28  # bytes of the arrays by which caches are seen
MOVED = 2**26  # bytes that a call moves within a cache
COMBINED = (2**14, 2**18, 2**22, 2**26)  # bytes of a device's part in a collective


def limits(device: Any, types: Sequence[str] = (), devices: int = 0) -> list[Cell]:
    """Return the cells of a device's limits, for some of `TYPES` or all.

    Collectives work over so many `devices`; 0 stands for all of the platform. Raises `DmlError` for
    other types, or if there are fewer devices.
    """
    chosen = devices_of(device, devices)
    for name in types:
        if name not in TYPES:
            raise DmlError([Fault("", "--dtype", f"be of {', '.join(TYPES)} with --limits", name)])
    kinds = {name: TYPES[name] for name in types or TYPES}
    found = [cell for name in kinds for cell in _of_memory(name, device)]
    found += [product_cell(name, device) for name in kinds]
    if has_queue(device) and "FLOAT32" in kinds:
        found.append(product_cell("TF32", device))
    found += [*_of_caches(LARGEST if has_queue(device) else LARGEST // 2)]
    one = ArrayType(F32, (1,))
    found.append(_cell("launch", "", lambda x: x + 1, [one], one, arrays=[np.ones(1, F32)]))
    return [*found, *(_of_collectives(chosen) if len(chosen) > 1 else ())]


def devices_of(device: Any, count: int) -> list[Any]:
    """Return so many devices of a platform, or all for 0. Raises `DmlError` if there are fewer."""
    found = device.client.local_devices()
    if count > len(found):
        more = f" (JAX_NUM_CPU_DEVICES={count} makes more)" if device.platform == "cpu" else ""
        rule = f"be at most {len(found)}, the {device.platform} devices of this machine{more}"
        raise DmlError([Fault("", "--devices", rule, count)])
    return found[: count or None]


def _cell(what: str, variant: str, function: Any, inputs: Any, output: Any, **more: Any) -> Cell:
    return Cell(what, variant, Plain(function, inputs, [output], **more), family="limits")


def copy_cell(name: str, dtype: np.dtype, device: Any) -> Cell:
    """Return the copy of a large array that cells are compared with: it changes each element."""
    size = COPIED_QUEUED if has_queue(device) else COPIED
    if jnp.issubdtype(dtype, jax.dtypes.extended):  # keys of random numbers
        dtype = np.dtype(np.uint32)
    x = ArrayType(dtype, (size // dtype.itemsize,))

    def change(x: jax.Array) -> jax.Array:
        return x * 2 if jnp.issubdtype(x.dtype, jnp.inexact) else ~x

    return _cell("copy", name, change, [x], x)


def product_cell(name: str, device: Any) -> Cell:
    """Return a product of large matrices: XLA's program for it, in full precision or in TF32."""
    n, dtype = MULTIPLIED_QUEUED if has_queue(device) else MULTIPLIED, TYPES.get(name, F32)
    n //= 4 if name == "INT8" and not has_queue(device) else 1  # XLA has no fast one on a CPU
    tf32, full = lax.DotAlgorithmPreset.TF32_TF32_F32, lax.Precision.HIGHEST
    out = np.dtype(np.int32) if name == "INT8" else dtype
    how: Any = {"precision": tf32 if name == "TF32" else full, "preferred_element_type": out}
    x, y = ArrayType(dtype, (n, n)), ArrayType(out, (n, n))
    function = functools.partial(lax.dot, **how)
    return _cell("product", name, function, [x, x], y, operations=2 * n**3)


def _of_memory(name: str, device: Any) -> Iterator[Cell]:
    copy = copy_cell(name, TYPES[name], device)
    x, one, number = copy.tensor, ArrayType(TYPES[name], (1,)), ArrayType(TYPES[name], ())
    read = jnp.sum if name == "FLOAT32" else jnp.max  # a CPU adds FLOAT16 more slowly
    yield copy
    yield _cell("read", name, read, [x], number)
    yield _cell("write", name, functools.partial(jnp.broadcast_to, shape=x.sizes), [one], x)
    yield _cell("add", name, jnp.add, [x, x], x)


def _of_caches(largest: int) -> Iterator[Cell]:
    """Yield copies of arrays that stay where they are, by size: a cell copies some times."""
    for size in (2**k for k in range(SMALLEST.bit_length() - 1, largest.bit_length(), 2)):
        x, times = ArrayType(F32, (size // 4,)), max(MOVED // (2 * size), 1)

        def again(x: Any, times: int = times) -> Any:
            return lax.fori_loop(0, times, lambda _, y: y * np.float32(0.5) + np.float32(1), x)

        known = {"arrays": [np.ones(x.sizes, F32)], "moved": 2 * size * times}
        yield _cell("cache", f"{size // 1024} KiB", again, [x], x, **known)


def _of_collectives(devices: Sequence[Any]) -> Iterator[Cell]:
    count = len(devices)
    axes = (jax.sharding.AxisType.Auto,)
    mesh = jax.make_mesh((count,), ("d",), axis_types=axes, devices=devices)
    split = jax.sharding.NamedSharding(mesh, P("d"))
    gather = functools.partial(lax.all_gather, axis_name="d", tiled=True)
    kinds = {"all-reduce": lambda x: lax.psum(x, "d"), "all-gather": gather}
    for (what, function), size in ((kind, size) for kind in kinds.items() for size in COMBINED):
        x = ArrayType(F32, (count * size // 4,))
        # What each device sends to each other one: its array, or of a sum twice a part of it.
        y, sent = ArrayType(F32, (size // 4,)), math.ceil(2 * size * (count - 1) / count)
        if what == "all-gather":
            y, sent = x, size * (count - 1)
        whole = jax.shard_map(function, mesh=mesh, in_specs=P("d"), out_specs=P(), check_vma=False)
        known = {"arrays": [np.ones(x.sizes, F32)], "moved": sent, "place": lambda _: split}
        yield _cell(what, f"{size // 1024} KiB, {count} devices", whole, [x], y, **known)

"""Random data on a device, and programs that write into memory that the caller donates."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.bench.functions import FLOATS, Bounds, drawn
from dml_jax.bench.timing import Contender, is_queued, jax_contender
from dml_jax.graph.parts import Edge
from dml_jax.host import last_cache_bytes
from dml_jax.memory.available import host_bytes

Arrays = tuple[jax.Array, ...]

WAYS = ("donated", "allocated")  # how a call gets memory for its outputs
ROTATED, MOST_SETS = 2**28, 64  # bytes of all sets of data, and the number of sets, on a CPU
ROTATED_QUEUED, MOST_QUEUED = 2**30, 16  # where one call does all sets
INTEGERS = (1, 15)  # the range of integers where the operator has no `domain`


def sets_moving(size: int, device: Any) -> int:
    """Return through how many sets of data calls rotate that move `size` bytes each.

    On a CPU they are more than the last caches hold, if there is memory for them.
    """
    if is_queued(device):
        rotated, most = ROTATED_QUEUED, MOST_QUEUED
    else:
        room = (host_bytes() or 0) // 8
        rotated, most = max(ROTATED, min(2 * (last_cache_bytes() or 0), room)), MOST_SETS
    return min(max(math.ceil(rotated / max(size, 1)), 2), most)


def wide(function: Any) -> Any:
    """Return the context in which JAX has 64-bit types if the function has, and only then."""
    tensors = (*function.inputs, *function.outputs)
    is_wide = getattr(function, "is_wide", False)
    return jax.enable_x64(is_wide or any(t.dtype.itemsize == 8 for t in tensors))


class Data:
    """Random arrays, made on a device: each is cut out of one long array at another place."""

    def __init__(self, device: Any):
        self.device = device
        self._key = jax.device_put(jax.random.key(0), device)
        self._long: dict[tuple[np.dtype, Bounds], jax.Array] = {}
        self._cuts = 0

    def array(self, tensor: Edge, bounds: Bounds = FLOATS) -> jax.Array:
        """Draw floats of [low, high); integers of [low, high] if both are non-negative integers."""
        count, key = math.prod(tensor.sizes), (tensor.dtype, bounds)
        long = self._long.get(key)
        if long is None or long.size < count + min(count, 2**20):
            long = self._long[key] = self._random(tensor.dtype, bounds, count + 2**20)
        self._cuts += 1
        start = self._cuts * 65537 % (long.size - count + 1)  # a prime: starts repeat late
        return _cut(long, start, tuple(tensor.sizes))

    def _random(self, dtype: np.dtype, bounds: Bounds, count: int) -> jax.Array:
        key, shape = jax.random.fold_in(self._key, len(self._long)), (count,)
        if jnp.issubdtype(dtype, jnp.floating):
            return jax.random.uniform(key, shape, dtype, *bounds)
        fits = all(isinstance(bound, int) and bound >= 0 for bound in bounds)
        low, high = bounds if fits else INTEGERS
        return jax.random.randint(key, shape, low, high + 1).astype(dtype)

    def sets(self, function: Any, count: int, place: Any = None) -> list[Arrays]:
        """Draw the inputs of `count` sets, each in the range that an operator's `domain` says.

        `place` gives the sharding of an array of some sizes; None leaves all on the device.
        """
        if getattr(function, "arrays", None) is not None:
            where = place or (lambda sizes: self.device)
            return [tuple(jax.device_put(x, where(x.shape)) for x in function.arrays)] * count
        made = [tuple(self.array(*one) for one in drawn(function)) for _ in range(count)]
        if place is not None:
            made = [tuple(jax.device_put(x, place(x.shape)) for x in xs) for xs in made]
        return jax.block_until_ready(made)


@functools.partial(jax.jit, static_argnums=2)
def _cut(long: jax.Array, start: int, sizes: tuple[int, ...]) -> jax.Array:
    return lax.dynamic_slice_in_dim(long, start, math.prod(sizes)).reshape(sizes)


class Programs(NamedTuple):
    """A function compiled for ways of a call: `donated` does `sets` sets of data, others one."""

    donated: Any
    allocated: Any
    sets: int


def programs(
    function: Callable[..., Any],
    inputs: Sequence[Edge],
    outputs: Sequence[Edge],
    device: Any,
    sets: int,
    ways: Sequence[str] = WAYS,
    place: Any = None,
) -> Programs:
    """Compile a function of arrays for some ways of a call; the others are None.

    Where calls are queued, one call of the donated program does all sets: a short kernel would end
    before the next call arrives. `place` gives the sharding of an array of some sizes; without it
    all arrays are on the device.
    """
    sets = sets if is_queued(device) else 1
    place = place or (lambda sizes: jax.sharding.SingleDeviceSharding(device))

    def shape(t: Edge) -> Any:
        return jax.ShapeDtypeStruct(tuple(t.sizes), t.dtype, sharding=place(tuple(t.sizes)))

    xs, outs = (tuple(map(shape, ts)) for ts in (inputs, outputs))
    donated = allocated = None
    if "donated" in ways:
        # XLA writes to the donated memory because it is an argument, though nothing reads it.
        every = jax.jit(lambda _, xs: each_set(function, xs), donate_argnums=0, keep_unused=True)
        donated = every.lower([outs] * sets, [xs] * sets).compile()
    if "allocated" in ways:
        allocated = jax.jit(lambda *xs: function(*xs)).lower(*xs).compile()
    return Programs(donated, allocated, sets)


def check_memory(made: Programs, data: int) -> None:
    """Raise `MemoryError` if the host has not the bytes of the data and of the programs.

    The system would end the process, where a GPU raises an error.
    """
    found = [p.memory_analysis() for p in (made.donated, made.allocated) if p is not None]
    needed = data + max((one.temp_size_in_bytes for one in found if one is not None), default=0)
    free = host_bytes()
    if free is not None and needed > free:
        sizes = (f"{size / 2**30:.1f} GiB" for size in (needed, free))
        raise MemoryError("{} of memory are needed, and {} are free".format(*sizes))


def each_set(function: Callable[..., Any], inputs: Sequence[Arrays]) -> list[Any]:
    """Call a function with one set after the other; XLA has no reason to merge the calls."""
    made: list[Any] = []
    for xs in inputs:
        if made:
            xs, made[-1] = lax.optimization_barrier((xs, made[-1]))
        made.append(as_tuple(function(*xs)))
    return made


def as_tuple(results: Any) -> tuple[Any, ...]:
    """Return several results as a tuple, and one as a tuple of one."""
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def jax_contenders(
    compiled: Programs,
    inputs: Sequence[Arrays],
    outputs: Sequence[Edge],
    data: Data,
    place: Any = None,
) -> dict[str, Contender]:
    """Return the contenders of compiled programs over sets of inputs, by way."""

    def zeros(t: Edge) -> jax.Array:
        where = data.device if place is None else place(tuple(t.sizes))
        return jnp.zeros(tuple(t.sizes), t.dtype, device=where)

    found: dict[str, Contender] = {}
    if compiled.donated is not None:
        held = [tuple(map(zeros, outputs)) for _ in inputs]

        def donated(index: int) -> Any:
            start = index * compiled.sets % len(inputs)
            chosen = slice(start, start + compiled.sets)
            held[chosen] = compiled.donated(held[chosen], list(inputs[chosen]))
            return held[chosen]

        found["donated"] = jax_contender(donated, data.device, sets=compiled.sets)
    if compiled.allocated is not None:

        def allocated(index: int) -> Any:
            return compiled.allocated(*inputs[index % len(inputs)])

        found["allocated"] = jax_contender(allocated, data.device)
    return found


def all_at_once(function: Callable[..., Any], inputs: Sequence[Arrays], device: Any) -> Contender:
    """Return the contender of one program of all sets of data, which allocates its outputs."""
    every = list(inputs)
    program = jax.jit(lambda sets: each_set(function, sets)).lower(every).compile()
    return jax_contender(lambda index: program(every), device, sets=len(every))

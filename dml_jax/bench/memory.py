"""Random data on a device, and programs that write into memory that the caller donates."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.bench.measured_functions import FLOATS, Bounds, as_tuple, byte_count, drawn
from dml_jax.bench.timing import Contender, has_queue, jax_contender
from dml_jax.graph.parts import Edge
from dml_jax.system.free_memory import host_bytes
from dml_jax.system.processor import last_cache_bytes

Arrays = tuple[jax.Array, ...]
Place = Callable[[Sequence[int]], Any] | None
"""Gives the sharding of an array of some sizes; without it all arrays are on one device."""

WAYS = ("donated", "allocated")  # how a call gets memory for its outputs
ROTATED, MOST_SETS = 2**28, 64  # bytes of all sets of data, and the number of sets, on a CPU
ROTATED_QUEUED, MOST_QUEUED = 2**30, 16  # where one call does all sets
INTEGERS = (1, 15)  # the range of integers where the operator has no `domain`


def sets_moving(size: int, device: Any) -> int:
    """Return through how many sets of data calls rotate that move `size` bytes each.

    On a CPU they are more than the last caches hold, if there is memory for them.
    """
    if has_queue(device):
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

    def sets(self, function: Any, count: int, place: Place = None) -> list[Arrays]:
        """Draw the inputs of `count` sets, each in the range that an operator's `domain` says.

        Raises `MemoryError` if the host has no memory for them and for as many outputs.
        """
        arrays, where = getattr(function, "arrays", None), place or (lambda sizes: self.device)
        if arrays is not None:
            return [tuple(jax.device_put(x, where(x.shape)) for x in arrays)] * count
        if not has_queue(self.device):
            check_memory(byte_count(*function.inputs, *function.outputs) * count)
        made = [tuple(self.array(*one) for one in drawn(function)) for _ in range(count)]
        return [tuple(jax.device_put(x, where(x.shape)) for x in xs) for xs in made]


@functools.partial(jax.jit, static_argnums=2)
def _cut(long: jax.Array, start: int, sizes: tuple[int, ...]) -> jax.Array:
    return lax.dynamic_slice_in_dim(long, start, math.prod(sizes)).reshape(sizes)


def check_memory(needed: int) -> None:
    """Raise `MemoryError` if the host has not so many bytes: the system would end the process."""
    free = host_bytes()
    if free is not None and needed > free:
        sizes = (f"{size / 2**30:.1f} GiB" for size in (needed, free))
        raise MemoryError("{} of memory are needed, and {} are free".format(*sizes))


def contender(
    function: Callable[..., Any],
    inputs: Sequence[Arrays],
    device: Any,
    outputs: Sequence[Edge] = (),
    place: Place = None,
) -> Contender:
    """Return the contender of a compiled function, whose call returns the results of each set.

    Where calls are queued, one call does all sets of `inputs`: a short kernel would end before the
    next call arrives. Calls write to donated memory for `outputs`, with the sharding of `place`;
    without outputs they allocate it.
    """
    at_once, where = len(inputs) if has_queue(device) else 1, place or (lambda sizes: device)
    held = [
        tuple(jnp.zeros(t.sizes, t.dtype, device=where(t.sizes)) for t in outputs) for _ in inputs
    ]
    if outputs or at_once > 1:
        # XLA writes to the donated memory because it is an argument, though nothing reads it.
        every = jax.jit(lambda _, xs: _each_set(function, xs), donate_argnums=0, keep_unused=True)
        program = every.lower(held[:at_once], list(inputs[:at_once])).compile()

        def call(index: int) -> Any:
            start = index * at_once % len(inputs)
            chosen = slice(start, start + at_once)
            results = program(held[chosen], list(inputs[chosen]))
            if outputs:
                held[chosen] = results
            return results
    else:  # without lists, which would make the call longer
        program = jax.jit(lambda *xs: as_tuple(function(*xs))).lower(*inputs[0]).compile()

        def call(index: int) -> Any:
            return [program(*inputs[index % len(inputs)])]

    needed = program.memory_analysis()
    if needed is not None and not has_queue(device):
        check_memory(needed.temp_size_in_bytes)
    return jax_contender(call, device, sets=at_once)


def _each_set(function: Callable[..., Any], inputs: Sequence[Arrays]) -> list[Any]:
    """Call a function with one set after the other; XLA has no reason to merge the calls."""
    made: list[Any] = []
    for xs in inputs:
        if made:
            xs, made[-1] = lax.optimization_barrier((xs, made[-1]))
        made.append(as_tuple(function(*xs)))
    return made

"""Reductions in the form that the device and the layout call for.

A `Fold` says what a reduction is; `fold` runs it as one primitive, which is lowered

- on one device, or inside shard_map, to the form that is fastest there (`Fold.local`);
- where XLA partitions it over several, to the same form on each device's part, and to one
  all-reduce of the reduced size for each quantity that the devices have to agree on;
- where neither can be (an exported program, shard_map over some axes only, meshes with explicit
  axes) to the form that XLA partitions well (`Fold.reduce`).

The fast forms reshape and slice along the reduced axes, which XLA partitions by moving data; so the
choice cannot be left to it.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from dml_jax.lowering.placement import has_explicit_axes, needs_devices, on_one_device

Axes = Sequence[int]
Parts = tuple[jax.Array, ...]
Take = Callable[[Parts, int, int], Parts]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Fold:
    """A reduction, as what it keeps of the elements seen so far: arrays of one shape.

    Attributes:
        types: the types of what is kept, for an element type.
        start: what is kept of single elements.
        combine: what is kept of several, elementwise.
        reduce: XLA's own reductions over any axes, in a form that partitions well.
        one_pass: for CPU, where XLA's loops do well: over the last axis, and of little.
        default: for other platforms, over any axes.
        across: what devices agree on, over the named mesh axes; None where XLA has to.
        few: the most elements that other platforms combine at once, one kernel reading them all.
        locates: whether the last thing kept is an index.
        first: `combine` for single elements, each behind the one before; None is the same.
    """

    types: Callable[[np.dtype], Sequence[np.dtype]]
    start: Callable[[jax.Array], Parts]
    combine: Callable[[Sequence[Parts]], Parts]
    reduce: Callable[[Parts, Axes], Parts]
    one_pass: Callable[[Parts, Axes], Parts]
    default: Callable[[Parts, Axes], Parts]
    across: Callable[[Parts, tuple[str, ...]], Parts] | None
    few: int = 0
    locates: bool = False
    first: Callable[[Sequence[Parts]], Parts] | None = None

    def plain(self, x: jax.Array, *, axes: Axes) -> Parts:
        """The form that XLA partitions well."""
        return self.reduce(self._located(self.start(x), axes), axes)

    def local(self, x: jax.Array, *, axes: Axes) -> Parts:
        """The form that is fastest on one device."""
        if not axes or x.size == 0:
            return self.plain(x, axes=axes)
        return lax.platform_dependent(
            x,
            cpu=functools.partial(self._on_cpu, axes=axes),
            default=functools.partial(self._by_default, axes=axes),
        )

    def _located(self, parts: Parts, axes: Axes, step: int = 1) -> Parts:
        """With `step` times the row-major index within the axes added to the index."""
        if not self.locates:
            return parts
        *rest, index = parts
        for a in sorted(axes, reverse=True):
            index += lax.broadcasted_iota(index.dtype, index.shape, a) * index.dtype.type(step)
            step *= index.shape[a]
        return (*rest, index)

    def _by_default(self, x: jax.Array, *, axes: Axes) -> Parts:
        runs = _runs(x.shape, axes)
        if sum(reduced for _, reduced in runs) == 1 and not runs[-1][1]:
            # An axis with others behind it: neighbouring threads read neighbouring columns.
            k, (size, _) = next((k, run) for k, run in enumerate(runs) if run[1])
            if size <= self.few:
                parts = self._located(_shaped(self.start(x), [n for n, _ in runs]), [k])
                combine = self.first or self.combine
                parts = combine([_taken(parts, i, i + 1, k) for i in range(size)])
                return _shaped(parts, _kept(x.shape, axes))
        return self.default(self._located(self.start(x), axes), axes)

    def _on_cpu(self, x: jax.Array, *, axes: Axes) -> Parts:
        if x.size <= LITTLE:
            return self.one_pass(self._located(self.start(x), axes), axes)
        runs = _runs(x.shape, axes)
        sizes = [n for n, _ in runs]
        parts, take, step = (x,), self._started, 1
        for k in reversed([k for k, (_, reduced) in enumerate(runs) if reduced]):
            shape = (math.prod(sizes[:k]), sizes[k], math.prod(sizes[k + 1 :]))
            parts = _shaped(parts, shape)
            if step > 1:
                parts = self._located(parts, [1], step)
            parts = self._last(parts, take) if shape[2] == 1 else self._columns(parts, take)
            step, take = step * sizes[k], _taken
            del sizes[k]
        return _shaped(parts, _kept(x.shape, axes))

    def _started(self, parts: Parts, start: int, stop: int) -> Parts:
        """Some of the elements, and what is kept of them.

        Made of each piece, not cut from the whole: XLA would compute and store that.
        """
        pieces = self._located(self.start(_taken(parts, start, stop)[0]), [1])
        if not self.locates:
            return pieces
        *rest, index = pieces
        return (*rest, index + index.dtype.type(start))

    def _combined(self, pieces: Sequence[Parts], take: Take) -> Parts:
        first = take == self._started
        return (self.first or self.combine)(pieces) if first else self.combine(pieces)

    def _columns(self, parts: Parts, take: Take) -> Parts:
        """[k, n, c] -> [k, c]."""
        while parts[0].shape[1] > BLOCKS:
            parts, take = self._by_blocks(parts, take), _taken
        pieces = [take(parts, i, i + 1) for i in range(parts[0].shape[1])]
        return tuple(part[:, 0] for part in self._combined(pieces, take))

    def _last(self, parts: Parts, take: Take) -> Parts:
        """[k, n, 1] -> [k]."""
        dtype = parts[0].dtype
        integers = jnp.issubdtype(dtype, jnp.integer) and dtype.itemsize > 1
        longest = LONG_INTEGER_ROW if integers else LONG_ROW
        while parts[0].shape[1] > longest and not self.locates:
            parts, take = self._by_blocks(parts, take), _taken
        rows = take(parts, 0, parts[0].shape[1])
        return self.one_pass(tuple(part[:, :, 0] for part in rows), (1,))

    def _by_blocks(self, parts: Parts, take: Take) -> Parts:
        """[k, n, c] -> [k, n // b, c]: b blocks of neighbours, combined elementwise.

        b leaves a rest, which is combined into the first elements: XLA does not fuse what updates
        in place with what reads it, so that each pass stays one loop over its input.
        """
        n = parts[0].shape[1]
        blocks = next(b for b in range(BLOCKS, 1, -1) if 0 < n % b <= n // b)
        size, rest = divmod(n, blocks)
        pieces = [take(parts, i * size, (i + 1) * size) for i in range(blocks)]
        out = self._combined(pieces, take)
        ends = self.combine([_taken(out, 0, rest), take(parts, n - rest, n)])
        return tuple(
            lax.dynamic_update_slice_in_dim(part, end, 0, 1)
            for part, end in zip(out, ends, strict=True)
        )


# float32, 2 cores, jax 0.10.2, ms: XLA's own sum and this; then both behind a clip, which XLA's
# cannot fuse. [8, 4194304] over the first axis 182, 4.2; 405, 5.0. [1024, 32768] 129, 9.3; 285,
# 9.3. [4096, 4096] 3.2, 3.4; 18, 2.6. [8, 64, 65536] over the middle 10, 9.4; 83, 12. [512, 256,
# 256] 7.2, 7.2; 40, 16. With 16 blocks XLA does not fuse the producer; with 8, two passes become
# one, which computes it 64 times.
BLOCKS = 12
# Elements up to which the time to compile counts for more.
LITTLE = 2**15
# Rows beyond this go through blocks first: it keeps the rounding error of a sum near that of a
# pairwise one (33554432 elements: 0.3 ulp, without 23; NumPy 0.7).
LONG_ROW = 4096
# XLA does not vectorise the maximum of a row of integers. ms, XLA's own and this: 131072 rows of
# 256 INT32 13, 4.1, INT16 18, 2.0; 4096 rows of 4096 8.2, 2.0 and 9.2, 1.4; 33085 rows of 521
# 7.5, 2.4 and 11, 3.4. Sums 4.0, 3.6.
LONG_INTEGER_ROW = 32


def _taken(parts: Parts, start: int, stop: int, axis: int = 1) -> Parts:
    return tuple(lax.slice_in_dim(part, start, stop, axis=axis) for part in parts)


def _shaped(parts: Parts, shape: Sequence[int]) -> Parts:
    return tuple(part.reshape(shape) for part in parts)


def _kept(values: Sequence[T], axes: Axes) -> list[T]:
    """Those of the axes that are not reduced."""
    return [value for a, value in enumerate(values) if a not in axes]


def _runs(shape: Sequence[int], axes: Axes) -> list[tuple[int, bool]]:
    """Neighbouring axes of one fate as one: their size, and whether they are reduced."""
    runs: list[tuple[int, bool]] = []
    for a, n in enumerate(shape):
        reduced = a in axes
        if runs and (runs[-1][1] == reduced or n == 1):
            runs[-1] = (runs[-1][0] * n, runs[-1][1])
        else:
            runs.append((n, reduced))
    return runs


_fold = Primitive("dml_fold")
_fold.multiple_results = True


def fold(x: jax.Array, kind: Fold, axes: Axes) -> Parts:
    """What `kind` keeps of the elements along `axes`; these axes are dropped.

    It has no derivative of its own: what calls it has one.
    """
    return tuple(_fold.bind(x, kind=kind, axes=tuple(axes)))


@functools.lru_cache(maxsize=4096)
def _jitted(kind: Fold, axes: tuple[int, ...]) -> Callable[[jax.Array], list[jax.Array]]:
    return jax.jit(lambda x: _fold.bind(x, kind=kind, axes=axes))


@_fold.def_impl
def _eager(x: jax.Array, *, kind: Fold, axes: tuple[int, ...]) -> list[jax.Array]:
    return _jitted(kind, axes)(x)


@_fold.def_abstract_eval
def _shapes(x: Any, *, kind: Fold, axes: tuple[int, ...]) -> list[Any]:
    sharding = x.sharding.update(spec=PartitionSpec(*_kept(x.sharding.spec, axes)))
    shape = tuple(_kept(x.shape, axes))
    types = kind.types(x.dtype)
    return [x.update(shape=shape, dtype=t, weak_type=False, sharding=sharding) for t in types]


def _batched(xs: Any, dims: Any, *, kind: Fold, axes: tuple[int, ...]) -> tuple[Any, Any]:
    (x,), (d,) = xs, dims
    outs = _fold.bind(x, kind=kind, axes=tuple(a + (a >= d) for a in axes))
    return outs, [d - sum(a < d for a in axes)] * len(outs)


batching.primitive_batchers[_fold] = _batched


def _lowered(ctx: Any, x: Any, *, kind: Fold, axes: tuple[int, ...]) -> Any:
    form = kind.plain if has_explicit_axes(ctx.avals_in[0]) else _form(ctx.module_context, kind)
    return mlir.lower_fun(functools.partial(form, axes=axes), multiple_results=True)(ctx, x)


mlir.register_lowering(_fold, _lowered)
needs_devices(_fold)


def _form(module: Any, kind: Fold) -> Callable[..., Parts]:
    if on_one_device(module):
        return kind.local
    manual = getattr(module.axis_context, "manual_axes", None)
    if module.lowering_parameters.for_export or manual or kind.across is None:
        return kind.plain
    return functools.partial(_partitioned, kind=kind)


def _partitioned(x: jax.Array, *, axes: tuple[int, ...], kind: Fold) -> Parts:
    @custom_partitioning
    def whole(x: jax.Array) -> Parts:
        return kind.plain(x, axes=axes)

    def partition(mesh: Any, arguments: Any, results: Any) -> Any:
        (argument,) = arguments
        shape, count = argument.shape, len(results)
        if not isinstance(argument.sharding, NamedSharding):
            # Devices without a mesh: JAX replicates over them what it does not shard.
            devices = np.array(sorted(argument.sharding.device_set, key=lambda d: d.id))
            alike = NamedSharding(Mesh(devices, "d"), PartitionSpec())
            return mesh, functools.partial(kind.local, axes=axes), (alike,) * count, (alike,)
        spec = [*argument.sharding.spec, *[None] * (len(shape) - len(argument.sharding.spec))]
        names = [() if s is None else s if isinstance(s, tuple) else (s,) for s in spec]
        # XLA pads what does not divide evenly, with anything.
        names = [
            ns if n % math.prod(mesh.shape[name] for name in ns) == 0 else ()
            for ns, n in zip(names, shape, strict=True)
        ]
        into = NamedSharding(mesh, PartitionSpec(*names))
        out = NamedSharding(mesh, PartitionSpec(*_kept(names, axes)))
        shared = tuple(name for a in axes for name in names[a])

        def each(part: jax.Array) -> Parts:
            parts = kind.local(part, axes=axes)
            if not shared or kind.across is None:
                return parts
            if kind.locates:
                *rest, index = parts
                where = {a: _place(mesh, names[a]) for a in axes}
                parts = (*rest, _global(index, part.shape, shape, where))
            return kind.across(parts, shared)

        return mesh, each, (out,) * count, (into,)

    def rule(mesh: Any, values: Any, results: Any) -> str:
        dimensions = [f"d{a}" for a in range(x.ndim)]
        kept = " ".join(_kept(dimensions, axes))
        return f"{' '.join(dimensions)} -> {', '.join([kept] * len(results))}"

    whole.def_partition(partition=partition, sharding_rule=rule)
    return whole(x)


def _place(mesh: Any, names: Sequence[str]) -> jax.Array | int:
    """Which part of an axis that is sharded over mesh axes this device has."""
    place: jax.Array | int = 0
    for name in names:
        place = place * mesh.shape[name] + lax.axis_index(name)
    return place


def _global(
    index: jax.Array,
    part: Sequence[int],
    whole: Sequence[int],
    place: dict[int, jax.Array | int],
) -> jax.Array:
    """The index within the whole of an index within a device's part."""
    out, step, local_step = jnp.zeros_like(index), 1, 1
    as_type = index.dtype.type
    for a in sorted(place, reverse=True):
        coordinate = index // as_type(local_step) % as_type(part[a])
        offset = jnp.asarray(place[a]).astype(index.dtype) * as_type(part[a])
        out += (coordinate + offset) * as_type(step)
        step, local_step = step * whole[a], local_step * part[a]
    return out

"""Reductions as one primitive, lowered to the form that the devices and the layout call for.

- on one device, or inside shard_map, to the form that is fastest there;
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
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from dml_jax.lowering import fold_cpu, fold_gpu
from dml_jax.lowering.fold import Axes, Fold, Parts, kept
from dml_jax.lowering.placement import has_explicit_axes, needs_devices, on_one_device

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
    sharding = x.sharding.update(spec=PartitionSpec(*kept(x.sharding.spec, axes)))
    shape = tuple(kept(x.shape, axes))
    types = kind.types(x.dtype)
    return [x.update(shape=shape, dtype=t, weak_type=False, sharding=sharding) for t in types]


def _batched(xs: Any, dims: Any, *, kind: Fold, axes: tuple[int, ...]) -> tuple[Any, Any]:
    (x,), (d,) = xs, dims
    outs = _fold.bind(x, kind=kind, axes=tuple(a + (a >= d) for a in axes))
    return outs, [d - sum(a < d for a in axes)] * len(outs)


batching.primitive_batchers[_fold] = _batched


def _lowered(ctx: Any, x: Any, *, kind: Fold, axes: tuple[int, ...]) -> Any:
    form = Fold.plain if has_explicit_axes(ctx.avals_in[0]) else _form(ctx.module_context, kind)
    form = functools.partial(form, kind, axes=axes)
    return mlir.lower_fun(form, multiple_results=True)(ctx, x)


mlir.register_lowering(_fold, _lowered)
needs_devices(_fold)


def _form(module: Any, kind: Fold) -> Callable[..., Parts]:
    if on_one_device(module):
        return _local
    manual = getattr(module.axis_context, "manual_axes", None)
    if module.lowering_parameters.for_export or manual or kind.across is None:
        return Fold.plain
    return _partitioned


def _local(kind: Fold, x: jax.Array, axes: Axes) -> Parts:
    """The form that is fastest on one device."""
    if all(x.shape[a] == 1 for a in axes) or x.size == 0:
        return kind.plain(x, axes)
    return lax.platform_dependent(
        x,
        cpu=lambda x: fold_cpu.fold(kind, x, axes),
        cuda=lambda x: fold_gpu.fold(kind, x, axes),
        default=lambda x: kind.default(kind.started(x, axes), axes),
    )


def _partitioned(kind: Fold, x: jax.Array, axes: tuple[int, ...]) -> Parts:
    @custom_partitioning
    def whole(x: jax.Array) -> Parts:
        return kind.plain(x, axes)

    def partition(mesh: Any, arguments: Any, results: Any) -> Any:
        (argument,) = arguments
        shape, count = argument.shape, len(results)
        if not isinstance(argument.sharding, NamedSharding):
            # Devices without a mesh: JAX replicates over them what it does not shard.
            devices = np.array(sorted(argument.sharding.device_set, key=lambda d: d.id))
            alike = NamedSharding(Mesh(devices, "d"), PartitionSpec())
            return mesh, functools.partial(_local, kind, axes=axes), (alike,) * count, (alike,)
        spec = [*argument.sharding.spec, *[None] * (len(shape) - len(argument.sharding.spec))]
        names = [() if s is None else s if isinstance(s, tuple) else (s,) for s in spec]
        # XLA pads what does not divide evenly, with anything.
        names = [
            ns if n % math.prod(mesh.shape[name] for name in ns) == 0 else ()
            for ns, n in zip(names, shape, strict=True)
        ]
        into = NamedSharding(mesh, PartitionSpec(*names))
        out = NamedSharding(mesh, PartitionSpec(*kept(names, axes)))
        shared = tuple(name for a in axes for name in names[a])

        def each(part: jax.Array) -> Parts:
            parts = _local(kind, part, axes)
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
        out = " ".join(kept(dimensions, axes))
        return f"{' '.join(dimensions)} -> {', '.join([out] * len(results))}"

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

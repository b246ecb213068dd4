"""What is computed along axes, as one primitive: its form depends on the devices and the layout.

- on one device, or inside shard_map, the form that is fastest there;
- where XLA partitions it over several, the same form on each device's part, and collectives of the
  reduced size for what the devices have to agree on;
- where neither can be (a program of several devices that is exported, shard_map over some axes
  only, meshes with explicit axes; TPUs, whose compiler has no custom_partitioning: jax-ml/jax
  issue 38196) the form that XLA partitions well.

The fast forms reshape and slice along the axes, which XLA partitions by moving data; so the choice
cannot be left to it.
"""

import functools
import hashlib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import numpy as np
from jax.experimental.custom_partitioning import custom_partitioning
from jax.experimental.xla_metadata import set_xla_metadata
from jax.interpreters import batching
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from dml_jax.lowering.axes import Axes, Parts, kept
from dml_jax.lowering.devices.placement import (
    has_explicit_axes,
    on_one_device,
    placed_primitive,
    platforms_of,
)

_ADDRESS = re.compile(r"\b0x[0-9a-f]+\b")


@dataclass(frozen=True)
class Layout:
    """How an array lies on devices.

    Attributes:
        shape: the whole array's.
        names: for each axis of the array, the mesh axes that it is sharded over.
        platforms: the devices', as `placement.platforms_of` has them.
    """

    shape: tuple[int, ...]
    names: Sequence[tuple[str, ...]]
    platforms: Sequence[str]

    def over(self, axes: Axes) -> tuple[str, ...]:
        """The mesh axes that some axes are sharded over."""
        return tuple(name for a in axes for name in self.names[a])


class Along(Protocol):
    """A computation along axes. It is hashable: what equals it, computes the same.

    Attributes:
        keeps: whether results have the axes; else they are dropped.
    """

    keeps: bool

    def types(self, dtype: np.dtype) -> Sequence[np.dtype]:
        """Those of the results, for an element type."""
        ...

    def plain(self, x: jax.Array, axes: Axes) -> Parts:
        """The form that XLA partitions well."""
        ...

    def unsharded(self, x: jax.Array, axes: Axes, platforms: Sequence[str]) -> Parts:
        """The form that is fastest on one device of such platforms."""
        ...

    def each(self, part: jax.Array, axes: Axes, layout: Layout) -> Parts:
        """Each device's part of the results. Mesh axes have names here, as in shard_map."""
        ...


def along(x: jax.Array, axes: Axes, what: Along) -> Parts:
    """`what` of x along `axes`. It has no derivative of its own: what calls it has one."""
    return tuple(ALONG.bind(x, what=what, axes=tuple(axes)))


def _form(ctx: Any, *, what: Along, axes: tuple[int, ...]) -> Callable[[jax.Array], Parts]:
    module, platforms = ctx.module_context, platforms_of(ctx)
    if has_explicit_axes(ctx.avals_in[0]):
        return functools.partial(what.plain, axes=axes)
    if on_one_device(module):
        return functools.partial(what.unsharded, axes=axes, platforms=platforms)
    partly = getattr(module.axis_context, "manual_axes", None)
    if module.lowering_parameters.for_export or partly or "tpu" in platforms:
        return functools.partial(what.plain, axes=axes)
    return functools.partial(_partitioned, what, platforms, axes=axes)


ALONG = placed_primitive("dml_along", _form, multiple_results=True)


@ALONG.def_abstract_eval
def _shapes(x: Any, *, what: Along, axes: tuple[int, ...]) -> list[Any]:
    dropped = () if what.keeps else axes
    sharding = x.sharding.update(spec=PartitionSpec(*kept(x.sharding.spec, dropped)))
    shape = tuple(kept(x.shape, dropped))
    types = what.types(x.dtype)
    return [x.update(shape=shape, dtype=t, weak_type=False, sharding=sharding) for t in types]


def _batched(xs: Any, dims: Any, *, what: Along, axes: tuple[int, ...]) -> tuple[Any, Any]:
    (x,), (d,) = xs, dims
    outs = ALONG.bind(x, what=what, axes=tuple(a + (a >= d) for a in axes))
    at = d if what.keeps else d - sum(a < d for a in axes)
    return outs, [at] * len(outs)


batching.primitive_batchers[ALONG] = _batched


def _partitioned(
    what: Along, platforms: Sequence[str], x: jax.Array, axes: tuple[int, ...]
) -> Parts:
    dropped, rank = () if what.keeps else axes, x.ndim
    unsharded = functools.partial(what.unsharded, axes=axes, platforms=platforms)

    def plain(x: jax.Array) -> Parts:
        return what.plain(x, axes)

    whole = custom_partitioning(plain)

    def partition(mesh: Any, arguments: Any, results: Any) -> Any:
        (argument,) = arguments
        shape, count = argument.shape, len(results)
        if not isinstance(argument.sharding, NamedSharding):
            # Devices without a mesh: JAX replicates over them what it does not shard.
            devices = np.array(sorted(argument.sharding.device_set, key=lambda d: d.id))
            alike = NamedSharding(Mesh(devices, "d"), PartitionSpec())
            return mesh, unsharded, (alike,) * count, (alike,)
        spec = [*argument.sharding.spec, *[None] * (len(shape) - len(argument.sharding.spec))]
        names = [() if s is None else s if isinstance(s, tuple) else (s,) for s in spec]
        # XLA pads what does not divide evenly, with anything.
        names = [
            ns if n % math.prod(mesh.shape[name] for name in ns) == 0 else ()
            for ns, n in zip(names, shape, strict=True)
        ]
        layout = Layout(shape, names, platforms)
        into = NamedSharding(mesh, PartitionSpec(*names))
        out = NamedSharding(mesh, PartitionSpec(*kept(names, dropped)))
        each = functools.partial(what.each, axes=axes, layout=layout)
        return mesh, each if layout.over(axes) else unsharded, (out,) * count, (into,)

    def rule(mesh: Any, values: Any, results: Any) -> str:
        dimensions = [f"d{a}" for a in range(rank)]
        out = " ".join(kept(dimensions, dropped))
        return f"{' '.join(dimensions)} -> {', '.join([out] * len(results))}"

    whole.def_partition(partition=partition, sharding_rule=rule)
    # What is lowered names this by the address of an object alone, by which JAX's compilation cache
    # would take a later one at that address for it (tests/test_sharding.py).
    with set_xla_metadata(dml_along=_digest(plain, x, platforms)):
        return whole(x)


def _digest(function: Callable[..., Any], x: jax.Array, platforms: Sequence[str]) -> str:
    """The same for what computes the same, in any process."""
    program = _ADDRESS.sub("", str(jax.make_jaxpr(function)(x)))
    return hashlib.sha256(f"{program} {sorted(platforms)}".encode()).hexdigest()

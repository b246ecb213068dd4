"""The primitive of all reductions, and how devices, platform and layout choose its form.

- On one device, or inside shard_map: the form of the platform, `Kind.tuned`.
- Where XLA partitions it over several devices: `Kind.per_shard`, which is the same form on each
  device's part and then collectives of the reduced size, by which the devices agree.
- Else `Kind.plain`, which XLA partitions well: in an export, in a shard_map over some axes only, on
  a TPU (whose compiler has no custom_partitioning), and where nothing is reduced.

The forms by platform reshape and slice along the axes, which XLA partitions by moving data; so the
choice cannot be left to it.
"""

import functools
import hashlib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import numpy as np
from jax.experimental.custom_partitioning import custom_partitioning
from jax.experimental.xla_metadata import set_xla_metadata
from jax.interpreters import ad, mlir
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from dml_jax.lowering.axes import Axes, Parts, are_known, batched_first, reduced_shape
from dml_jax.lowering.mesh_axes import without_mesh
from dml_jax.lowering.platform_forms import custom_partitioning_jaxpr, is_on_one_device, platform_of
from dml_jax.lowering.primitives import register

_ADDRESS = re.compile(r"\b0x[0-9a-f]+\b")


@dataclass(frozen=True)
class Layout:
    """How an array lies on devices.

    Attributes:
        shape: the shape of the whole array.
        names: for each axis of the array, the mesh axes that it is sharded over.
        platform: the platform of the devices.
    """

    shape: tuple[int, ...]
    names: Sequence[tuple[str, ...]]
    platform: str

    def over(self, axes: Axes) -> tuple[str, ...]:
        """Return the mesh axes that some axes are sharded over."""
        return tuple(name for a in axes for name in self.names[a])


@dataclass(frozen=True)
class Kind:
    """A computation along axes. Kinds that are equal compute the same.

    A subclass gives `plain`, the meaning, and the other methods where it has better forms.

    Attributes:
        linear: the number of the operand that it is linear in; None if it is not linear.
    """

    linear: ClassVar[int | None] = None

    def types(self, dtype: np.dtype) -> Sequence[np.dtype]:
        """Return the types of the results, for a type of elements."""
        return (dtype,)

    def shape(self, shape: Sequence[int], axes: Axes) -> Sequence[int]:
        """Return the shape of the results, for the shape of the first operand."""
        return reduced_shape(shape, axes)

    def plain(self, *xs: Any, **axes: Any) -> Parts:
        """Compute in `jax.lax`, in a form that XLA partitions well. This is the meaning."""
        raise NotImplementedError

    def tuned(self, platform: str, *xs: Any, **axes: Any) -> Parts:
        """Compute on one device of a platform; most kinds compute few elements by `plain`."""
        return self.plain(*xs, **axes)

    def per_shard(self, x: jax.Array, axes: Axes, layout: Layout) -> Parts:
        """Compute one device's part, where several devices share `x`; mesh axes have names here.

        XLA partitions the plain form of a kind that does not override this method.
        """
        raise NotImplementedError

    def transposed(self, cotangent: jax.Array, *xs: Any, **axes: Any) -> jax.Array:
        """Transpose in the operand that it is linear in."""
        raise NotImplementedError


def along_axes(kind: Kind, *xs: jax.Array, axes: Axes) -> Parts:
    """Compute a kind of reduction of `xs` along `axes`, which have size 1 in the results."""
    return tuple(
        REDUCE.bind(*xs, kind=kind, axes=tuple(sorted(axes)), devices=custom_partitioning_jaxpr())
    )


Rule = Callable[..., tuple[Sequence[Any], Sequence[Any]]]
RULES: dict[type[Kind], Rule] = {}
"""Derivatives by kind: of primals, tangents (arrays), kind and axes, as `jax.jvp` returns them."""


def derivative(of: type[Kind]) -> Callable[[Rule], Rule]:
    """Register the derivative of a kind that is not that of its plain form."""
    return lambda rule: RULES.setdefault(of, rule)


def _types(*xs: Any, kind: Kind, axes: Axes, devices: Any) -> list[Any]:
    x = xs[0]
    spec = [None if a in axes else name for a, name in enumerate(x.sharding.spec)]
    sharding = x.sharding.update(spec=PartitionSpec(*spec))
    shape = tuple(kind.shape(x.shape, axes))
    return [
        x.update(shape=shape, dtype=dtype, weak_type=False, sharding=sharding)
        for dtype in kind.types(x.dtype)
    ]


def _lower(ctx: Any, *xs: Any, kind: Kind, axes: Axes, devices: Any) -> Any:
    return mlir.lower_fun(_form(ctx, kind, axes), multiple_results=True)(ctx, *xs)


def _form(ctx: Any, kind: Kind, axes: Axes) -> Callable[..., Parts]:
    """Return the form of a kind that a program gets, from the context of its lowering."""
    # The program                                   its form   because
    # an export, unknown sizes, nothing to reduce   plain      it has to run anywhere, or is short
    # one device, or whole arrays in a shard_map    tuned      it may merge and cut axes
    # several devices that XLA partitions           per_shard  XLA would move data to merge axes
    # a shard_map over some axes only               plain      custom_partitioning has no mesh there
    # several TPUs                                  plain      they have no custom_partitioning
    # a kind without `per_shard`                    plain      XLA partitions it well
    x, platform = ctx.avals_in[0], platform_of(ctx)
    plain = functools.partial(kind.plain, axes=axes)
    is_small = 0 in x.shape or all(x.shape[a] == 1 for a in axes)
    if platform is None or not are_known(x.shape) or is_small:
        return plain
    if is_on_one_device(ctx):
        return functools.partial(kind.tuned, platform, axes=axes)
    is_manual = isinstance(ctx.module_context.axis_context, mlir.SPMDAxisContext)
    if is_manual or platform == "tpu" or type(kind).per_shard is Kind.per_shard:
        return plain
    return functools.partial(_partitioned, kind, platform, axes=axes)


def _partitioned(kind: Kind, platform: str, x: jax.Array, axes: Axes) -> Parts:
    rank = x.ndim

    def plain(x: jax.Array) -> Parts:
        return kind.plain(x, axes=axes)

    whole = custom_partitioning(plain)

    def partition(mesh: Any, arguments: Any, results: Any) -> Any:
        (argument,) = arguments
        count, on_one = len(results), functools.partial(kind.tuned, platform, axes=axes)
        if not isinstance(argument.sharding, NamedSharding):
            # Devices without a mesh: JAX replicates over them what it does not shard.
            devices = np.array(sorted(argument.sharding.device_set, key=lambda d: d.id))
            alike = NamedSharding(Mesh(devices, "d"), PartitionSpec())
            return mesh, without_mesh(on_one), (alike,) * count, (alike,)
        shape, spec = argument.shape, argument.sharding.spec
        names = [() if s is None else s if isinstance(s, tuple) else (s,) for s in spec]
        names += [()] * (len(shape) - len(names))
        # XLA pads what does not divide evenly, with anything.
        names = [
            ns if n % math.prod(mesh.shape[name] for name in ns) == 0 else ()
            for ns, n in zip(names, shape, strict=True)
        ]
        layout = Layout(shape, names, platform)
        into = NamedSharding(mesh, PartitionSpec(*names))
        left = [() if a in axes else ns for a, ns in enumerate(names)]
        out = NamedSharding(mesh, PartitionSpec(*left))
        per_shard = functools.partial(kind.per_shard, axes=axes, layout=layout)
        form = per_shard if layout.over(axes) else on_one
        return mesh, without_mesh(form), (out,) * count, (into,)

    def rule(mesh: Any, values: Any, results: Any) -> str:
        read = " ".join(f"d{a}" for a in range(rank))
        left = " ".join(f"r{a}" if a in axes else f"d{a}" for a in range(rank))
        return f"{read} -> {', '.join([left] * len(results))}"

    whole.def_partition(partition=partition, sharding_rule=rule)
    # The lowered text holds an object's address. Two functions that had the same address, one after
    # the other, would share an entry of JAX's compilation cache. The digest tells them apart.
    with set_xla_metadata(dml_along_axes=_digest(plain, x, platform)):
        return whole(x)


def _digest(function: Callable[..., Any], x: jax.Array, platform: str) -> str:
    """Return a text that two functions share if they compute the same, in any process."""
    program = _ADDRESS.sub("", str(jax.make_jaxpr(function)(x)))
    return hashlib.sha256(f"{program} {platform}".encode()).hexdigest()


def _jvp(primals: Any, tangents: Any, *, kind: Kind, axes: Axes, devices: Any) -> Any:
    is_real = all(np.issubdtype(t, np.inexact) for t in kind.types(primals[0].dtype))
    if all(type(dx) is ad.Zero for dx in tangents) or not is_real:
        results = along_axes(kind, *primals, axes=axes)
        return results, [ad.Zero(jax.typeof(y).to_tangent_aval()) for y in results]
    at = kind.linear
    if at is not None and [i for i, dx in enumerate(tangents) if type(dx) is not ad.Zero] == [at]:
        operands = [*primals[:at], tangents[at], *primals[at + 1 :]]
        return along_axes(kind, *primals, axes=axes), along_axes(kind, *operands, axes=axes)
    tangents = tuple(map(ad.instantiate_zeros, tangents))
    rule = RULES.get(type(kind), _derivative_of_plain)
    return rule(primals, tangents, kind, axes)


def _derivative_of_plain(primals: Any, tangents: Any, kind: Kind, axes: Axes) -> Any:
    _, slopes = jax.jvp(functools.partial(kind.plain, axes=axes), primals, tangents)
    return along_axes(kind, *primals, axes=axes), slopes


def _transpose(cotangents: Any, *xs: Any, kind: Kind, axes: Axes, devices: Any) -> list[Any]:
    (ct,), at = cotangents, kind.linear
    if at is None or not ad.is_undefined_primal(xs[at]):
        raise NotImplementedError("only a linear reduction has a transpose")
    result: list[Any] = [None] * len(xs)
    result[at] = (
        ad.Zero(xs[at].aval) if type(ct) is ad.Zero else kind.transposed(ct, *xs, axes=axes)
    )
    return result


def _batch(xs: Any, dims: Any, *, kind: Kind, axes: Axes, devices: Any) -> tuple[Any, Any]:
    at = dims[0] if len(xs) == 1 else 0
    xs = xs if len(xs) == 1 else batched_first(xs, dims)
    results = along_axes(kind, *xs, axes=[a + (a >= at) for a in axes])
    return results, [at] * len(results)


def _plain(*xs: Any, kind: Kind, axes: Axes, devices: Any) -> Parts:
    return kind.plain(*xs, axes=axes)


REDUCE = register(
    "dml_along_axes",
    _plain,
    types=_types,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    lower=_lower,
)

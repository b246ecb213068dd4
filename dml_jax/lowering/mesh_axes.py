"""Programs whose types say how arrays lie on the axes of a mesh.

An axis of a mesh is automatic, explicit or manual. XLA lays arrays out over an automatic axis, and
no type names it. Types name an explicit axis where an array is sharded over it, and a manual one
(inside `jax.shard_map`) where the devices along it hold different values.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import lax
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec, auto_axes, use_abstract_mesh


def laid_out_by_xla(
    function: Callable[..., Any], shapes: Sequence[Sequence[int]]
) -> Callable[..., Any]:
    """Return `function`, inside of which explicit axes are automatic ones.

    A sharded axis of an input shards the axis of each result, of `shapes`, that has its place,
    counted from the first axis or from the last one, and its size; else the first of its size.
    """

    def call(*xs: jax.Array) -> Any:
        types = [jax.typeof(x) for x in xs]
        meshes = jax.sharding.get_abstract_mesh(), *(x.sharding.mesh for x in types)
        mesh = next((mesh for mesh in meshes if mesh.explicit_axes), None)
        if mesh is None:
            return function(*xs)
        results = tuple(NamedSharding(mesh, _spec(types, shape)) for shape in shapes)
        automatic = auto_axes(
            lambda *xs: tuple(function(*xs)), axes=mesh.explicit_axes, out_sharding=results
        )
        return automatic(*xs)

    return call


def _spec(types: Sequence[Any], shape: Sequence[int]) -> PartitionSpec:
    """Return how a result of `shape` is sharded, of inputs of these types."""
    spec: list[Any] = [None] * len(shape)
    used: set[Any] = set()
    for x in types:
        for d, names in enumerate(x.sharding.spec):
            own = set(names) if isinstance(names, tuple) else {names} - {None}
            for place in (d, d - x.ndim + len(shape), *range(len(shape))):
                fits = 0 <= place < len(shape) and shape[place] == x.shape[d]
                if own and fits and spec[place] is None and not own & used:
                    spec[place], used = names, used | own
    return PartitionSpec(*spec)


def without_mesh(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function`, inside of which no mesh is set.

    A program of one device's part of the arrays is traced where the caller's mesh is set. Its
    arrays would be laid out over explicit axes of that mesh, which XLA has no call for there.
    """

    def call(*xs: Any) -> Any:
        with use_abstract_mesh(AbstractMesh((), ())):
            return function(*xs)

    return call


def alike(arrays: Any) -> Any:
    """Return the arrays of a tree, each with the type that is manual over the axes of all of them.

    Values of a loop, or of a derivative, have such types where they are computed of all `arrays`.
    """
    axes = {name for x in jax.tree.leaves(arrays) for name in _varying(x)}

    def cast(x: jax.Array) -> jax.Array:
        missing = tuple(sorted(axes - _varying(x)))
        return lax.pcast(x, missing, to="varying") if missing else x

    return jax.tree.map(cast, arrays)


def _varying(x: jax.Array) -> set[str]:
    """Return the manual axes along which devices hold different values of `x`."""
    return set(jax.typeof(x).manual_axis_type.varying)

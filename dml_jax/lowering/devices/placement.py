"""Where a program runs, as its lowering sees it."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import jax
from jax import lax
from jax._src import dispatch
from jax.extend.core import Primitive

T = TypeVar("T")


def has_explicit_axes(x: Any) -> bool:
    """Whether types say the layout, which jax 0.11 does not carry through custom_partitioning."""
    return bool(x.sharding.mesh.explicit_axes or jax.sharding.get_abstract_mesh().explicit_axes)


def on_one_device(module: Any) -> bool:
    """Whether a program works on whole arrays: on one device, or in each part of a shard_map."""
    context = module.axis_context
    manual = getattr(context, "manual_axes", None)
    if manual is not None:
        return set(manual) == set(context.mesh.axis_names)
    return getattr(context, "num_devices", None) == 1


def platforms_of(ctx: Any) -> Sequence[str]:
    """What a program is lowered for.

    One platform; several where an export names them, none where `compute_on` says otherwise.
    """
    if getattr(ctx.jaxpr_eqn_ctx, "compute_type", None):
        return ()
    return ctx.platforms or ctx.module_context.platforms


def by_platform(
    platforms: Sequence[str], forms: Mapping[str, Callable[..., T]], default: Callable[..., T]
) -> Callable[..., T]:
    """The form of the platform; where that is known, no other is traced."""
    if len(platforms) == 1:
        return forms.get(platforms[0], default)
    return functools.partial(lax.platform_dependent, **forms, default=default)


def needs_devices(primitive: Primitive) -> None:
    """Makes JAX decide the devices before it lowers the primitive, as its own partitioned ones."""
    dispatch.prim_requires_devices_during_lowering.add(primitive)

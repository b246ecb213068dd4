"""Where a program runs, as its lowering sees it."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import jax
from jax import lax
from jax._src import dispatch  # for `prim_requires_devices_during_lowering`
from jax.extend.core import Primitive
from jax.interpreters import mlir, xla

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


def placed_primitive(
    name: str, form_of: Callable[..., Callable[..., Any]], multiple_results: bool = False
) -> Primitive:
    """A primitive that is lowered as a function, chosen by where its program runs.

    Args:
        name: as jaxprs show it.
        form_of: the function of arrays, given the lowering's context and the parameters.
        multiple_results: whether that function, and so the primitive, gives a sequence.
    """
    primitive = Primitive(name)
    primitive.multiple_results = multiple_results

    def lowered(ctx: Any, *xs: Any, **params: Any) -> Any:
        return mlir.lower_fun(form_of(ctx, **params), multiple_results)(ctx, *xs)

    primitive.def_impl(functools.partial(xla.apply_primitive, primitive))
    mlir.register_lowering(primitive, lowered)
    # JAX decides the devices before it lowers it, as its own primitives that are partitioned.
    dispatch.prim_requires_devices_during_lowering.add(primitive)
    return primitive

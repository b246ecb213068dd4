"""Where a program runs, as its lowering sees it, and forms that are for one place only."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import jax
from jax import lax
from jax._src import dispatch
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import mlir

Form = Callable[..., Sequence[jax.Array]]
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


_alone = Primitive("dml_alone")
_alone.multiple_results = True


def alone(plain: Form, forms: Mapping[str, Form], *xs: Any) -> list[jax.Array]:
    """`plain(*xs)`, on one device in the form of its platform, which returns the same.

    For what is a whole program: such a form does not fuse with what stands around it, and this has
    neither derivative nor batching. It is called under `jax.jit`.

    Args:
        plain: the form for everything else.
        forms: by platform ("cpu", "cuda").
        xs: the arrays.
    """
    if any(has_explicit_axes(jax.typeof(x)) for x in xs):
        return list(plain(*xs))
    return _alone.bind(*xs, plain=plain, forms=tuple(forms.items()))


@_alone.def_abstract_eval
def _shapes(*xs: Any, plain: Form, forms: Any) -> list[Any]:
    return [ShapedArray(y.shape, y.dtype) for y in jax.eval_shape(plain, *xs)]


def _lowered(ctx: Any, *xs: Any, plain: Form, forms: Any) -> Any:
    chosen = plain
    if on_one_device(ctx.module_context) and not ctx.module_context.lowering_parameters.for_export:
        chosen = by_platform(platforms_of(ctx), dict(forms), plain)
    return mlir.lower_fun(chosen, multiple_results=True)(ctx, *xs)


mlir.register_lowering(_alone, _lowered)
needs_devices(_alone)

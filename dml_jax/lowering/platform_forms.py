"""Choose the form of a function by platform: beside `reduce` the one place that names platforms.

`by_platform` has two mechanisms. `jax.lax.platform_dependent` chooses by platform alone: it does
not know whether the program is partitioned over devices, where a form that merges axes would gather
them, or exported, where a form would carry the tuning of this machine to another. A primitive of
this package knows both.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.experimental.layout import Layout, with_layout_constraint
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.interpreters import ad, mlir

from dml_jax.lowering.axes import batched_first
from dml_jax.lowering.primitives import register, transpose_program

PLATFORMS = "cpu", "cuda", "tpu"
"""The platforms that functions have forms of their own for, by JAX's names of them."""


def platform_of(ctx: Any) -> str | None:
    """Return the platform of a program from the context of its lowering.

    None where it is unknown: in an export, for several platforms, or computed on a GPU's host.
    """
    module = ctx.module_context
    if module.lowering_parameters.for_export or ctx.jaxpr_eqn_ctx.compute_type is not None:
        return None
    platforms = ctx.platforms or module.platforms
    return platforms[0] if len(platforms) == 1 else None


def is_on_one_device(ctx: Any) -> bool:
    """Return whether a program works on whole arrays: on one device, or inside a shard_map."""
    context = ctx.module_context.axis_context
    if isinstance(context, mlir.ShardingContext):
        return context.num_devices == 1
    return set(context.manual_axes) == set(context.mesh.axis_names)


@functools.cache
def custom_partitioning_jaxpr() -> ClosedJaxpr:
    """Return a jaxpr that contains a custom_partitioning, for a parameter of a primitive.

    By this parameter JAX determines the devices before it lowers a program. A custom_partitioning
    that the primitive itself becomes appears too late for that.
    """
    call = custom_partitioning(lambda x: x)
    call.def_partition(lambda *_: None, sharding_rule="i -> i")
    return jax.make_jaxpr(call)(jax.ShapeDtypeStruct((1,), np.float32))


def by_platform(
    plain: Callable[..., Any],
    *,
    cpu: Callable[..., Any] | None = None,
    cuda: Callable[..., Any] | None = None,
    tpu: Callable[..., Any] | None = None,
    gradients: Mapping[str, Callable[..., Any]] | None = None,
    whole_arrays: bool,
    partitioned: bool = False,
) -> Callable[..., Any]:
    """Return `plain`, which a platform computes by the form of its name.

    A form gives what `plain` gives, an array or a tuple of them: `by_platform(f, cpu=g,
    whole_arrays=True)(x)`. There are two mechanisms, since they differ in two ways:

    - With `whole_arrays` a form gets whole arrays: in a program of one device, inside a shard_map,
      and never in an export. Derivatives are the derivatives of `plain`.
    - Without, a form is in programs of any number of devices, which XLA partitions, and in exports.
      Derivatives are the derivatives of the form itself: the transpose of a convolution in a fast
      form is fast as well.

    Args:
        plain: a pure function of arrays, which other platforms compute.
        cpu: the form of a CPU.
        cuda: the form of an NVIDIA GPU.
        tpu: the form of a TPU.
        gradients: forms of the gradients by platform, with `whole_arrays` alone. One takes the
            arguments and the gradients of the results, and returns a gradient for each argument.
        whole_arrays: whether a form works on whole arrays only.
        partitioned: whether a form contains a custom_partitioning.
    """
    named = (("cpu", cpu), ("cuda", cuda), ("tpu", tpu))
    forms = tuple((name, form) for name, form in named if form is not None)
    of_gradients = tuple((gradients or {}).items())
    if not forms and not of_gradients:
        return plain

    def chosen_by_jax(*xs: jax.Array) -> Any:
        return lax.platform_dependent(*xs, **dict(forms), default=plain)

    def call(*xs: jax.Array) -> Any:
        default, shape = jax.make_jaxpr(plain, return_shape=True)(*xs)
        devices = custom_partitioning_jaxpr() if partitioned else None
        params = {"default": default, "forms": forms, "gradients": of_gradients}
        results = BY_PLATFORM.bind(*xs, devices=devices, **params)
        return jax.tree.unflatten(jax.tree.structure(shape), results)

    return call if whole_arrays else chosen_by_jax


def _default(*xs: Any, default: ClosedJaxpr, **_: Any) -> list[Any]:
    return jaxpr_as_fun(default)(*xs)


def _lower(
    ctx: Any, *xs: Any, default: ClosedJaxpr, forms: Sequence[tuple[str, Any]], **_: Any
) -> Any:
    platform = platform_of(ctx) if is_on_one_device(ctx) else None
    form = dict(forms).get(platform or "", jaxpr_as_fun(default))
    results = mlir.lower_fun(lambda *xs: jax.tree.leaves(form(*xs)), multiple_results=True)
    return results(ctx, *xs)


def _jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    results = BY_PLATFORM.bind(*primals, **params)
    tangents = tuple(map(ad.instantiate_zeros, tangents))
    if params["gradients"]:
        return results, TANGENT.bind(*primals, *tangents, **params)
    return results, _slopes(*primals, *tangents, **params)


def _slopes(*xs: Any, **params: Any) -> list[Any]:
    """Return the tangents of the results, of arguments and their tangents."""
    count = len(xs) // 2
    default = functools.partial(_default, **params)
    return jax.jvp(default, xs[:count], xs[count:])[1]


def _tangent_transpose(cotangents: Any, *xs: Any, **params: Any) -> list[Any]:
    """Return the gradients of the arguments' tangents, by their forms."""
    count = len(xs) // 2

    def function(*arrays: Any) -> Any:
        default = functools.partial(_default, **params)
        return jax.vjp(default, *arrays[:count])[1]([*arrays[count:]])

    forms: dict[str, Any] = dict(params["gradients"])
    partitioned = params["devices"] is not None
    slopes = by_platform(function, **forms, whole_arrays=True, partitioned=partitioned)
    gradients = slopes(*xs[:count], *map(ad.instantiate_zeros, cotangents))
    pairs = zip(xs[count:], gradients, strict=True)
    return [None] * count + [g if ad.is_undefined_primal(x) else None for x, g in pairs]


def _batch(xs: Any, axes: Any, **params: Any) -> Any:
    """Map a function, its forms and the forms of its gradients over axes of the arguments.

    Where gradients have forms each argument gets the axis, so that each gradient has it too.
    """
    if params["gradients"]:
        xs, axes = batched_first(xs, axes), [0] * len(xs)
    count = len(params["default"].in_avals)
    made = BY_PLATFORM if count == len(xs) else TANGENT
    places = tuple(axes[:count])
    params = {
        **params,
        "default": jax.make_jaxpr(jax.vmap(jaxpr_as_fun(params["default"]), places))(*xs[:count]),
        "forms": tuple((name, jax.vmap(form, places)) for name, form in params["forms"]),
        "gradients": tuple(
            (name, jax.vmap(form, (*places, *[0] * len(params["default"].out_avals))))
            for name, form in params["gradients"]
        ),
    }
    results = made.bind(*xs, **params)
    return results, [0] * len(results)


def _tangent_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    slopes = functools.partial(_slopes, **params)
    return jax.jvp(slopes, (*primals,), (*map(ad.instantiate_zeros, tangents),))


_both = functools.partial(
    register,
    types=lambda *_, default, **__: default.out_avals,
    batch=_batch,
    is_compiled=False,
)
BY_PLATFORM = _both(
    "dml_by_platform",
    _default,
    jvp=_jvp,
    transpose=lambda cotangents, *xs, default, **_: transpose_program(default, xs, cotangents),
    lower=_lower,
)
# The tangents of a function whose gradients have forms: of arguments and their tangents.
TANGENT = _both("dml_by_platform_tangent", _slopes, jvp=_tangent_jvp, transpose=_tangent_transpose)


# On a CPU, calls that XLA does not inline: their arguments and results are stored.


def in_a_call(function: Callable[..., Any], *xs: Any) -> Any:
    """Return `function(*xs)` from a call that XLA's CPU does not inline."""
    with set_xla_metadata(inlineable="false"):
        return jax.jit(function)(*xs)


def in_memory(x: Any) -> Any:
    """Store the arrays of a tree on a CPU, so that XLA does not compute them for each reader."""
    return in_a_call(lax.optimization_barrier, x)


def reshaped(x: jax.Array, shape: Sequence[int]) -> jax.Array:
    """Reshape `x` on a CPU, where what computes it loops over the axes that it has here.

    XLA would loop over the axes of the result. The layout is named, since XLA chooses another one
    where an axis has one element, and copies.
    """
    rows = Layout(tuple(range(len(shape))))
    return in_a_call(lambda x: with_layout_constraint(x.reshape(shape), rows), x)


stored = by_platform(lambda x: x, cpu=in_memory, whole_arrays=True)
"""Give an array that a CPU stores: it is small, and kernels that read it need not compute it."""

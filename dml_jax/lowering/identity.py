"""Primitives that give their operand, and say how a CPU computes it, wherever they occur."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching

from dml_jax.lowering.devices.placement import (
    by_platform,
    has_explicit_axes,
    on_one_device,
    placed_primitive,
    platforms_of,
)


def identity(
    name: str, on_cpu: Callable[..., jax.Array], transpose: Primitive | None = None
) -> Primitive:
    """One that a program for one CPU has as `on_cpu`, of the operand and the parameters.

    On other devices, on several, and where it is called with no program around it, it is the
    operand; on meshes with explicit axes too, of which JAX merges none that are sharded. It has the
    operand's derivative, and its batches, with the same parameters, whichever axis is the batch's.
    A cotangent goes through `transpose`, another of these, with them too, if there is one.
    """

    def form(ctx: Any, **how: Any) -> Callable[[jax.Array], jax.Array]:
        applies = on_one_device(ctx.module_context) and not has_explicit_axes(ctx.avals_in[0])
        forms = {"cpu": lambda x: on_cpu(x, **how)} if applies else {}
        return by_platform(platforms_of(ctx), forms, lambda x: x)

    def transposed(cotangent: Any, _: Any, **how: Any) -> list[Any]:
        if transpose is None or type(cotangent) is ad.Zero:
            return [cotangent]
        return [transpose.bind(cotangent, **how)]

    def batched(xs: Any, dims: Any, **how: Any) -> tuple[Any, Any]:
        return primitive.bind(*xs, **how), *dims

    primitive = placed_primitive(name, form)
    primitive.def_impl(lambda x, **_: jnp.asarray(x))
    primitive.def_abstract_eval(lambda x, **_: x)
    ad.primitive_jvps[primitive] = lambda xs, dxs, **how: (primitive.bind(*xs, **how), *dxs)
    ad.primitive_transposes[primitive] = transposed
    batching.primitive_batchers[primitive] = batched
    return primitive

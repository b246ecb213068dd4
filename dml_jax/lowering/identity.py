"""Primitives that give their operand, and say how a CPU computes it, wherever they occur."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching

from dml_jax.lowering.devices.placement import (
    by_platform,
    on_one_device,
    placed_primitive,
    platforms_of,
)


def identity(
    name: str, on_cpu: Callable[..., jax.Array], transpose: Primitive | None = None
) -> Primitive:
    """One that a program for one CPU has as `on_cpu`, of the operand and the parameters.

    On other devices, on several, and where it is called with no program around it, it is the
    operand. It has the operand's derivative; in a batch the parameters stay as they are.
    `transpose`, another of these, is what its transpose has; else that is the cotangent.
    """

    def form(ctx: Any, **how: Any) -> Callable[[jax.Array], jax.Array]:
        forms = {"cpu": lambda x: on_cpu(x, **how)} if on_one_device(ctx.module_context) else {}
        return by_platform(platforms_of(ctx), forms, lambda x: x)

    def transposed(cotangent: Any, _: Any, **how: Any) -> list[Any]:
        if transpose is None or type(cotangent) is ad.Zero:
            return [cotangent]
        return [transpose.bind(cotangent, **how)]

    primitive = placed_primitive(name, form)
    primitive.def_impl(lambda x, **_: jnp.asarray(x))
    primitive.def_abstract_eval(lambda x, **_: x)
    ad.primitive_jvps[primitive] = lambda xs, dxs, **how: (primitive.bind(*xs, **how), *dxs)
    ad.primitive_transposes[primitive] = transposed
    batching.primitive_batchers[primitive] = lambda xs, dims, **_: (*xs, *dims)
    return primitive

"""Primitives that give their operand, and say how a CPU computes it, wherever they occur."""

from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching

from dml_jax.lowering.devices.placement import (
    by_platform,
    on_one_device,
    placed_primitive,
    platforms_of,
)


def identity(name: str, on_cpu: Callable[..., jax.Array]) -> Primitive:
    """One that is `on_cpu` on one device, of the operand and the parameters; else nothing."""

    def form(ctx: Any, **how: Any) -> Callable[[jax.Array], jax.Array]:
        forms = {"cpu": lambda x: on_cpu(x, **how)} if on_one_device(ctx.module_context) else {}
        return by_platform(platforms_of(ctx), forms, lambda x: x)

    primitive = placed_primitive(name, form)
    primitive.def_impl(lambda x, **_: x)
    primitive.def_abstract_eval(lambda x, **_: x)
    ad.primitive_jvps[primitive] = lambda xs, dxs, **how: (primitive.bind(*xs, **how), *dxs)
    ad.primitive_transposes[primitive] = lambda cotangents, x, **_: [cotangents]
    # Each of a batch has other axes before its last.
    batching.primitive_batchers[primitive] = lambda xs, dims, **_: (*xs, *dims)
    return primitive

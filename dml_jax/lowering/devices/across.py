"""Products across devices, which jax.lax lacks. Inside shard_map or custom_partitioning."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import mlir

_product = Primitive("dml_product_across")


def product(x: jax.Array, names: Sequence[str]) -> jax.Array:
    """Of each element, over the devices along mesh axes: one all-reduce, as `lax.psum`."""
    return _product.bind(x, names=tuple(names))


@_product.def_abstract_eval
def _shape(x: Any, *, names: tuple[str, ...]) -> Any:
    return ShapedArray(x.shape, x.dtype)


def _lowered(ctx: Any, x: Any, *, names: tuple[str, ...]) -> Any:
    mesh = ctx.module_context.axis_context.mesh
    places = np.arange(math.prod(mesh.shape.values())).reshape(list(mesh.shape.values()))
    inner = [a for a, name in enumerate(mesh.axis_names) if name in names]
    places = np.moveaxis(places, inner, range(-len(inner), 0))
    groups = places.reshape(-1, math.prod(mesh.shape[name] for name in names))
    shape = "x".join(map(str, groups.shape))
    element = ir.RankedTensorType.get([], ir.RankedTensorType(x.type).element_type)
    op = stablehlo.AllReduceOp(
        [x.type],
        [x],
        replica_groups=ir.Attribute.parse(f"dense<{groups.tolist()}> : tensor<{shape}xi64>"),
        channel_handle=stablehlo.ChannelHandle.get(1, 1),  # between devices, as JAX's own
        use_global_device_ids=True,
    )
    body = op.regions[0].blocks.append(element, element)
    with ir.InsertionPoint(body):
        stablehlo.return_([stablehlo.multiply(*body.arguments)])
    return op.results


mlir.register_lowering(_product, _lowered)


def product_of_other_devices(x: jax.Array, names: Sequence[str]) -> jax.Array:
    """Of each element, over the other devices along mesh axes.

    No division, so that it is exact where there are zeros; the devices along an axis pass on what
    they have some 2 log2(size) times, and nobody has more than a product.
    """
    others = jnp.ones_like(x)
    for name in names:
        rest = _product_of_next(x, name, lax.axis_size(name) - 1)
        others, x = others * rest, x * rest
    return others


def _product_of_next(x: jax.Array, name: str, count: int) -> jax.Array:
    """Over the next `count` devices along a mesh axis, which is a ring."""
    if count == 0:
        return jnp.ones_like(x)
    size = lax.axis_size(name)

    def from_behind(x: jax.Array, steps: int) -> jax.Array:
        return lax.ppermute(x, name, [((to + steps) % size, to) for to in range(size)])

    if count % 2:
        return from_behind(x * _product_of_next(x, name, count - 1), 1)
    half = _product_of_next(x, name, count // 2)
    return half * from_behind(half, count // 2)

"""Calls that XLA does not inline on a CPU: what goes in and comes out of them is stored."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import lax
from jax.experimental.layout import Layout, with_layout_constraint
from jax.experimental.xla_metadata import set_xla_metadata

from dml_jax.lowering.devices.placement import placed_primitive


@jax.jit  # in a call of its own, or each eager derivative would compile it again
def stored(x: Any) -> Any:
    """The arrays of a tree, which XLA does not fuse on a CPU with what reads them.

    For what is small and read by much: the maxima of 64 rows, compared with each element of them,
    would be computed 64 times. Elsewhere a reduction is a kernel's end.
    """
    return lax.platform_dependent(x, cpu=in_memory, default=lambda x: x)


def in_memory(x: Any) -> Any:
    """As `stored`, in what is for a CPU already."""
    return in_a_call(lax.optimization_barrier, x)


def reshaped(x: jax.Array, shape: Sequence[int]) -> jax.Array:
    """`x.reshape(shape)`, where what computes x loops over the axes that x has here.

    XLA would loop over those of the result. It costs nothing, but where the result takes an input's
    memory: then it is copied there.
    """
    return in_a_call(lambda x: _row_major.bind(x.reshape(shape)), x)


def _in_rows(ctx: Any) -> Callable[[jax.Array], jax.Array]:
    """With no layout named, XLA names another where an axis has one element, and copies.

    An exported program may name none (`jax.export`).
    """
    if ctx.module_context.lowering_parameters.for_export:
        return lambda x: x
    layout = Layout(tuple(range(ctx.avals_in[0].ndim)))

    def constrained(x: jax.Array) -> jax.Array:
        return with_layout_constraint(x, layout)

    return constrained


_row_major = placed_primitive("dml_row_major", _in_rows)
_row_major.def_abstract_eval(lambda x: x)


def all_reshaped(xs: Sequence[jax.Array], shapes: Sequence[Sequence[int]]) -> list[jax.Array]:
    """Results of a program, each in its shape, as they lie in memory.

    (Of an axis of one element XLA would choose another layout, and copy.)
    """
    pairs = zip(xs, shapes, strict=True)
    return [reshaped(x, shape) if 1 in shape else x.reshape(shape) for x, shape in pairs]


def in_a_call(function: Callable[..., Any], *xs: Any) -> Any:
    """What the function returns, from a call that XLA does not inline."""
    with set_xla_metadata(inlineable="false"):
        return jax.jit(function)(*xs)

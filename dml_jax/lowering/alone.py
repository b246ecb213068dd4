"""What an operator or a graph does as a whole program on one device: in a form of its platform.

Nothing fuses with such a form, so that it may choose what its loops and kernels are over. The
program is traced, and is what the first of these makes of it that has a form for it: what is cut or
joined last (`pieces`), what only maps elements (`mapped`), what moves and repeats them last
(`arranged_last`, which has a form of anything).
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import mlir

from dml_jax.lowering import arranged_last, mapped, pieces
from dml_jax.lowering.equations import bound, evaluated
from dml_jax.lowering.placement import (
    by_platform,
    has_explicit_axes,
    needs_devices,
    on_one_device,
    platforms_of,
)

Program = Callable[..., Sequence[jax.Array]]

_alone = Primitive("dml_alone")
_alone.multiple_results = True


def alone(program: Program, *xs: Any) -> list[jax.Array]:
    """`program(*xs)`, on one device in the form of its platform, which returns the same.

    For what is a whole program: such a form does not fuse with what stands around it, and this has
    neither derivative nor batching. It is called under `jax.jit`.
    """
    if any(has_explicit_axes(jax.typeof(x)) for x in xs):
        return list(program(*xs))
    return _alone.bind(*xs, program=program)


@_alone.def_abstract_eval
def _shapes(*xs: Any, program: Program) -> list[Any]:
    return [ShapedArray(y.shape, y.dtype) for y in jax.eval_shape(program, *xs)]


def _lowered(ctx: Any, *xs: Any, program: Program) -> Any:
    chosen = program
    if on_one_device(ctx.module_context) and not ctx.module_context.lowering_parameters.for_export:
        chosen = by_platform(platforms_of(ctx), forms(program), program)
    return mlir.lower_fun(chosen, multiple_results=True)(ctx, *xs)


mlir.register_lowering(_alone, _lowered)
needs_devices(_alone)


def forms(function: Callable[..., Any]) -> Mapping[str, Callable[..., Any]]:
    """By platform ("cpu", "cuda"), a form of the function that gives the same."""
    return {platform: functools.partial(_in_a_form, platform, function) for platform in _MAPPED}


def _in_a_form(platform: str, function: Callable[..., Any], *xs: jax.Array) -> Any:
    program, shape = jax.make_jaxpr(function, return_shape=True)(*xs)
    results = _cut_or_joined_last(platform, program, xs)
    if results is None:
        results = _MAPPED[platform](program, xs)
    if results is None:
        results = arranged_last.rewritten(platform, program, xs)
    return jax.tree.unflatten(jax.tree.structure(shape), results)


_MAPPED = {"cpu": mapped.in_long_rows, "cuda": mapped.in_pieces}


def _cut_or_joined_last(
    platform: str, program: Any, xs: Sequence[jax.Array]
) -> Sequence[jax.Array] | None:
    """The results, where one equation makes them all; None where it does not cut or join."""
    eqns = program.jaxpr.eqns
    if not eqns or [*eqns[-1].outvars] != [*program.jaxpr.outvars]:
        return None
    form = _of_equation(platform, eqns[-1], is_given=len(eqns) == 1)

    def step(eqn: Any, operands: Sequence[jax.Array]) -> Sequence[jax.Array]:
        return form(*operands) if form and eqn is eqns[-1] else bound(eqn, operands)

    return form and evaluated(program, program.consts, xs, lambda value: value, step)


def _of_equation(
    platform: str, eqn: Any, is_given: bool
) -> Callable[..., Sequence[jax.Array]] | None:
    """What cuts or joins inputs of the program; on a CPU also what cuts what it computes.

    There one loop computes each element once for all pieces, else the loop of each piece its own. 2
    cores, jax 0.10.2, ms, a CLIP's four pieces of 64 so and as one loop: FLOAT32 [8, 64, 256, 256]
    9.8, 7.9; FLOAT16 4.3, 3.7; UINT8 2.1, 1.5; five of [6710886, 5] 21, 7.8; 9.2, 4.0; 3.3, 1.7.
    """
    name, params, first = eqn.primitive.name, eqn.params, eqn.invars[0].aval
    if name == "split":
        sizes, axis = params["sizes"], params["axis"]
        if platform == "cpu" and pieces.has_equal_neighbours(first, sizes, axis):
            return lambda x: pieces.split_rows(x, sizes, axis)
        if platform == "cuda" and is_given:
            return lambda x: pieces.split(x, sizes, axis)
    if name == "concatenate" and is_given:
        join = pieces.join_rows if platform == "cpu" else pieces.join
        return lambda *xs: [join(xs, params["dimension"])]
    return None

"""Whole programs that map each element by itself: on a CPU over long rows.

They may cut and join too, along axes before those that are put together.

XLA's loops are over the axes of the result. One over a short last axis LLVM unrolls wholly,
elements one by one, and does not vectorise then. Here rows are put together until they are long,
and are mapped in a call that XLA does not inline: around it they have the axes that they had. (XLA
moves a reshape of its own accord; and one in a call behind the loop may be copied where the result
takes the input's memory.) 2 cores, jax 0.10.2, ns a byte moved, as it is and so, a copy 0.03:

    ELEMENT_WISE_CLIP, rows of     8           9           33          64
    UINT8                     0.03, 0.03  0.93, 0.04  0.92, 0.04  0.04, 0.04
    FLOAT16                   0.03, 0.03  0.13, 0.03  0.03, 0.03  0.05, 0.05
    FLOAT32                   0.02, 0.03  0.06, 0.03  0.04, 0.04  0.03, 0.04

    split over 1, clip, join, rows of     17          33
    UINT8 [200, 72, 64, ..]           0.74, 0.04  0.70, 0.04
    FLOAT16 [100, 72, 64, ..]         0.13, 0.03  0.04, 0.05
    FLOAT32 [50, 72, 64, ..]          0.05, 0.04  0.04, 0.04
"""

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from dml_jax.lowering import pieces
from dml_jax.lowering.equations import ELEMENTWISE, body_of, bound, evaluated
from dml_jax.lowering.pieces import LITTLE_ON_CPU, has_short_rows, long_rows
from dml_jax.lowering.stored import in_a_call, reshaped

# What cuts and joins, and which parameter says along which axis.
AXIS = {"split": "axis", "concatenate": "dimension"}


def forms(function: Callable[..., Any]) -> Mapping[str, Callable[..., Any]]:
    """By platform, the form of an elementwise function that is a whole program.

    For a GPU it is `pieces.elementwise`.
    """
    return {
        "cpu": functools.partial(_on_cpu, function),
        "cuda": functools.partial(pieces.elementwise, function),
    }


def _on_cpu(function: Callable[..., Any], *xs: jax.Array) -> Any:
    program, shape = jax.make_jaxpr(function, return_shape=True)(*xs)
    results = in_long_rows(program, xs)
    if results is None:
        return function(*xs)
    return jax.tree.unflatten(jax.tree.structure(shape), results)


def in_long_rows(program: Any, xs: Sequence[jax.Array]) -> list[jax.Array] | None:
    """The results of a traced program; None where it does more, or rows are not so short."""
    shape = max((x.shape for x in xs), key=math.prod, default=())
    shapes, along = set[tuple[int, ...]](), set[int]()
    if math.prod(shape) < LITTLE_ON_CPU or not has_short_rows(shape):
        return None
    if not _survey(program, shapes, along) or any(y.shape == () for y in program.out_avals):
        return None
    same = max(along, default=-1) + 1
    if any(len(y) != len(shape) or y[same:] != shape[same:] for y in shapes - {()}):
        return None
    behind = long_rows(shape, max(along, default=0))
    if behind is None and along:
        return None
    starts = [*range(same + 1)]  # axes that are not cut are two at most: for both cores, and a row
    if behind is not None and math.prod(shape[same:behind]) > 1:
        starts.append(behind)
    return _in_rows(program, xs, starts)


def _in_rows(program: Any, xs: Sequence[jax.Array], starts: Sequence[int]) -> list[jax.Array]:
    """The results, of arrays whose axes from each start to the next are one."""

    def rows(shape: Sequence[int]) -> tuple[int, ...]:
        ends = (*starts[1:], len(shape))
        merged = (math.prod(shape[i:j]) for i, j in zip(starts, ends, strict=True))
        return tuple(merged) if shape else ()

    def evaluate(program: Any, *xs: jax.Array) -> list[jax.Array]:
        consts = [jnp.reshape(x, rows(jnp.shape(x))) for x in program.consts]
        return evaluated(program, consts, xs, lambda value: value, step)

    def step(eqn: Any, operands: Sequence[Any]) -> Sequence[jax.Array]:
        body, out = body_of(eqn, operands, "cpu"), rows(eqn.outvars[0].aval.shape)
        if body is not None:
            return evaluate(body[0], *body[1])
        if eqn.primitive.name == "broadcast_in_dim":
            return [lax.broadcast(operands[0], out)]
        if eqn.primitive.name == "slice":
            (x,), indices = operands, eqn.params["start_indices"]
            cut = zip(indices, x.shape, out, strict=False)
            start = [index if part != whole else 0 for index, whole, part in cut]
            return [lax.slice(x, start, list(map(operator.add, start, out)))]
        return bound(eqn, operands)

    arrays = (x.reshape(rows(x.shape)) for x in xs)
    mapped = in_a_call(functools.partial(evaluate, program), *arrays)
    # Of an axis of one element XLA would choose another layout, and copy.
    shapes = [y.shape for y in program.out_avals]
    pairs = zip(mapped, shapes, strict=True)
    return [reshaped(y, shape) if 1 in shape else y.reshape(shape) for y, shape in pairs]


def _survey(program: Any, shapes: set[tuple[int, ...]], along: set[int]) -> bool:
    """Whether elements are mapped, and moved along whole axes, and nothing more.

    Adds the shapes of its values, and the axes along which it cuts and joins. Of equations that are
    calls (`jax.jit`, and so `jnp.where`) it is not known.
    """
    variables = [*program.jaxpr.invars, *program.jaxpr.constvars]
    variables += [var for eqn in program.jaxpr.eqns for var in eqn.outvars]
    shapes.update(var.aval.shape for var in variables)
    return all(_is_known(eqn, shapes, along) for eqn in program.jaxpr.eqns)


def _is_known(eqn: Any, shapes: set[tuple[int, ...]], along: set[int]) -> bool:
    body, name = body_of(eqn, eqn.invars, "cpu"), eqn.primitive.name
    if body is not None:
        return _survey(body[0], shapes, along)
    if name in AXIS:
        along.add(eqn.params[AXIS[name]])
        return True
    if name == "slice" and eqn.params["strides"] is None:
        sizes = zip(eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape, strict=True)
        along.update(axis for axis, (whole, part) in enumerate(sizes) if part != whole)
        return True
    if name in ELEMENTWISE:
        return True
    operands_are_numbers = all(var.aval.shape == () for var in eqn.invars)
    if name == "broadcast_in_dim":
        return operands_are_numbers
    return operands_are_numbers and all(var.aval.shape == () for var in eqn.outvars)

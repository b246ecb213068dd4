"""Whole programs that map each element by itself: on a CPU over long rows.

XLA's loops are over the axes of the result. One over a short last axis LLVM unrolls wholly,
elements one by one, and does not vectorise then. Here rows are put together until they are long,
and are mapped in a call that XLA does not inline: around it they have the axes that they had. (XLA
moves a reshape of its own accord; and one in a call behind the loop may be copied where the result
takes the input's memory.) 2 cores, jax 0.10.2, ns a byte moved, as it is and so, a copy 0.03:

    ELEMENT_WISE_CLIP, rows of     8           9           33          64
    UINT8                     0.03, 0.03  0.93, 0.04  0.92, 0.04  0.04, 0.04
    FLOAT16                   0.03, 0.03  0.13, 0.03  0.03, 0.03  0.05, 0.05
    FLOAT32                   0.02, 0.03  0.06, 0.03  0.04, 0.04  0.03, 0.04
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from dml_jax.lowering import pieces
from dml_jax.lowering.equations import ELEMENTWISE, body_of, bound, evaluated
from dml_jax.lowering.pieces import LITTLE_ON_CPU, has_short_rows, long_rows
from dml_jax.lowering.stored import in_a_call, reshaped


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
    if math.prod(shape) < LITTLE_ON_CPU or not has_short_rows(shape) or not _maps(program, shape):
        return None
    if any(y.shape != shape for y in program.out_avals):
        return None
    behind = long_rows(shape)
    rows = (math.prod(shape[:behind]), math.prod(shape[behind:])) if behind else (math.prod(shape),)

    def evaluate(program: Any, *xs: jax.Array) -> list[jax.Array]:
        consts = [x.reshape(rows) if jnp.shape(x) else x for x in program.consts]
        return evaluated(program, consts, xs, lambda value: value, step)

    def step(eqn: Any, operands: Sequence[Any]) -> Sequence[jax.Array]:
        body = body_of(eqn, operands, "cpu")
        if body is not None:
            return evaluate(body[0], *body[1])
        if eqn.primitive.name == "broadcast_in_dim" and eqn.outvars[0].aval.shape:
            return [lax.broadcast(operands[0], rows)]
        return bound(eqn, operands)

    arrays = (x.reshape(rows) if x.shape else x for x in xs)
    mapped = in_a_call(functools.partial(evaluate, program), *arrays)
    # Of an axis of one element XLA would choose another layout, and copy.
    return [reshaped(y, shape) if 1 in shape else y.reshape(shape) for y in mapped]


def _maps(program: Any, shape: Sequence[int]) -> bool:
    """Whether all of its arrays are of this shape, or numbers, and each element is by itself.

    Of equations that are calls (`jax.jit`, and so `jnp.where`) it is not known.
    """
    variables = [*program.jaxpr.invars, *program.jaxpr.constvars]
    variables += [var for eqn in program.jaxpr.eqns for var in eqn.outvars]
    if any(var.aval.shape not in ((), shape) for var in variables):
        return False
    return all(map(functools.partial(_is_mapped, shape), program.jaxpr.eqns))


def _is_mapped(shape: Sequence[int], eqn: Any) -> bool:
    body = body_of(eqn, eqn.invars, "cpu")
    if body is not None:
        return _maps(body[0], shape)
    if eqn.primitive.name in ELEMENTWISE:
        return True
    operands_are_numbers = all(var.aval.shape == () for var in eqn.invars)
    if eqn.primitive.name == "broadcast_in_dim":
        return operands_are_numbers
    return operands_are_numbers and all(var.aval.shape == () for var in eqn.outvars)

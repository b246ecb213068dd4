"""Whole programs that map each element by itself, cut and join: their axes, and others in place."""

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from dml_jax.lowering.whole_programs.equations import (
    bound,
    in_other_shapes,
    maps_elements,
    of_other_shapes,
)

# The shape of a loop for that of an array; a number stays one.
Shaped = Callable[[Sequence[int]], Sequence[int]]
# What cuts and joins, and which parameter says along which axis.
_AXIS = {"split": "axis", "concatenate": "dimension"}


@dataclass(frozen=True)
class Survey:
    """The shapes of a program's arrays, numbers left out, and the axes it cuts and joins along."""

    shapes: frozenset[tuple[int, ...]]
    along: frozenset[int]

    @classmethod
    def of(cls, program: Any) -> "Survey | None":
        """Of a traced program; None where it does more.

        Of equations that are calls (`jax.jit`, and so `jnp.where`) it is not known what they do.
        """
        values = [*program.jaxpr.invars, *program.jaxpr.constvars]
        along = set[int]()
        for eqn in program.jaxpr.eqns:
            cut = _cut(eqn)
            if cut is None and not _maps(eqn):
                return None
            along |= cut or set()
            values += eqn.outvars
        return cls(frozenset(var.aval.shape for var in values) - {()}, frozenset(along))


def _cut(eqn: Any) -> set[int] | None:
    """The axes along which an equation cuts or joins; None where it does something else."""
    name, params = eqn.primitive.name, eqn.params
    if name in _AXIS:
        return {params[_AXIS[name]]}
    if name == "slice" and params["strides"] is None:
        sizes = zip(eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape, strict=True)
        return {axis for axis, (whole, part) in enumerate(sizes) if part != whole}
    return None


def _maps(eqn: Any) -> bool:
    """Whether it maps elements, or is of numbers, or broadcasts one."""
    if maps_elements(eqn):
        return True
    made = [] if eqn.primitive.name == "broadcast_in_dim" else eqn.outvars
    return all(var.aval.shape == () for var in (*eqn.invars, *made))


def shape_of_all(program: Any) -> tuple[int, ...] | None:
    """The one shape of a traced program's arrays; None where it does more than to map elements."""
    if not program.jaxpr.eqns or not program.in_avals or any(map(jnp.shape, program.consts)):
        return None
    survey = Survey.of(program)
    # What is cut or joined may be one piece, of the same shape.
    if survey is None or survey.along or any(y.shape == () for y in program.out_avals):
        return None
    return next(iter(survey.shapes)) if len(survey.shapes) == 1 else None


def merged(program: Any, shaped: Shaped) -> Any:
    """The program of such arrays, which have another shape in place of each."""
    return of_other_shapes(program, functools.partial(_step, shaped=shaped), shaped)


def mapped(program: Any, xs: Sequence[jax.Array], shaped: Shaped) -> list[jax.Array]:
    """The results, of arrays that have another shape in place of each."""
    return in_other_shapes(program, xs, functools.partial(_step, shaped=shaped), shaped)


def _step(eqn: Any, operands: Sequence[Any], shaped: Shaped) -> Sequence[jax.Array]:
    """What an equation gives of such arrays: cut axes stay apart."""
    params = eqn.params
    if eqn.primitive.name == "broadcast_in_dim":
        return [lax.broadcast(operands[0], shaped(eqn.outvars[0].aval.shape))]
    if eqn.primitive.name not in ("split", "slice"):
        return bound(eqn, operands)
    (x,), sizes = operands, eqn.invars[0].aval.shape
    times = [merged // size for merged, size in zip(x.shape, sizes, strict=False)]
    if eqn.primitive.name == "split":
        axis = params["axis"]
        return lax.split(x, [size * times[axis] for size in params["sizes"]], axis)
    # What is not cut starts at 0, however many axes it is of.
    start = list(map(operator.mul, params["start_indices"], times))
    ends = map(operator.add, start, shaped(eqn.outvars[0].aval.shape))
    return [lax.slice(x, start, list(ends))]

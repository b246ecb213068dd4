"""Whole programs in which pieces are joined last, each mapped by itself before.

What is mapped behind a concatenation is mapped before it, piece by piece, and they are joined where
the program ends, in a form of the platform: by a CPU's loop over the places of a row (`places_cpu`)
or over blocks (`blocks_cpu`), by rows or quarters of a GPU (`pieces_gpu.join_computed`). 2 cores,
jax 0.10.2, ms, JOIN along the last axis of two of [8, 64, 256, 128] and CLIP, as XLA has it and by
blocks: FLOAT32 15, 7.4; FLOAT16 8.4, 2.2; UINT8 3.8, 1.5; over axis 2 7.3, 5.0; 5.8, 3.6;
2.1, 1.1.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import lax

from dml_jax.lowering.whole_programs.equations import (
    bound,
    evaluated,
    maps_elements,
    variables,
)


class Joining(Protocol):
    """How pieces are joined that are computed; a module."""

    def gains_computed(self, types: Sequence[Any], axis: int) -> bool:
        """Whether what has these types gains by it."""
        ...

    def join_computed(self, xs: Sequence[jax.Array], axis: int) -> jax.Array:
        """Their concatenation."""
        ...


class _Joined(NamedTuple):
    """What is yet to be joined."""

    parts: Sequence[jax.Array]
    axis: int

    @property
    def sizes(self) -> list[int]:
        return [part.shape[self.axis] for part in self.parts]


def rewritten(joining: Joining, program: Any, xs: Sequence[jax.Array]) -> list[jax.Array] | None:
    """The results of a traced program; None where none of them is so joined."""
    if not _may_be_joined(joining, program.jaxpr):  # what is evaluated in vain is lowered, too
        return None
    results = evaluated(program, xs, functools.partial(_step, joining))
    if not any(isinstance(y, _Joined) for y in results):
        return None
    return [joining.join_computed(*y) if isinstance(y, _Joined) else y for y in results]


def _may_be_joined(joining: Joining, jaxpr: Any) -> bool:
    """Whether a result is."""
    joined = set[Any]()
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "concatenate":
            types = [var.aval for var in eqn.invars]
            found = joining.gains_computed(types, eqn.params["dimension"])
        else:
            found = maps_elements(eqn) and not joined.isdisjoint(variables(eqn.invars))
        joined.update(eqn.outvars if found else ())
    return not joined.isdisjoint(variables(jaxpr.outvars))


def _step(joining: Joining, eqn: Any, operands: Sequence[Any]) -> Sequence[Any]:
    if eqn.primitive.name == "concatenate":
        axis = eqn.params["dimension"]
        parts = [part for x in operands for part in _along(x, axis)]
        if not joining.gains_computed(parts, axis):
            parts = [*map(_array, operands)]
            if not joining.gains_computed(parts, axis):
                return bound(eqn, parts)
        return [_Joined(parts, axis)]
    joined = [x for x in operands if isinstance(x, _Joined)]
    if not joined:
        return bound(eqn, operands)
    first = joined[0]
    alike = all((x.axis, x.sizes) == (first.axis, first.sizes) for x in joined)
    if alike and maps_elements(eqn):
        apart = zip(*(_apart(x, first) for x in operands), strict=True)
        return [first._replace(parts=[y for part in apart for y in bound(eqn, part)])]
    return bound(eqn, [_array(x) for x in operands])


def _along(x: Any, axis: int) -> Sequence[jax.Array]:
    """What is to be joined along that axis."""
    return x.parts if isinstance(x, _Joined) and x.axis == axis else [_array(x)]


def _apart(x: Any, like: _Joined) -> Sequence[Any]:
    """What each part has of it."""
    if isinstance(x, _Joined):
        return x.parts
    return lax.split(x, like.sizes, like.axis) if jnp.shape(x) else [x] * len(like.parts)


def _array(x: Any) -> Any:
    return lax.concatenate(x.parts, x.axis) if isinstance(x, _Joined) else x

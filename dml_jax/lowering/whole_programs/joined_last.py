"""Whole programs in which pieces are joined last, each mapped by itself before.

What is mapped behind a concatenation is mapped before it, piece by piece, and they are joined where
the program ends, in the form of the platform.

Of a concatenation XLA's CPU asks for each element in which piece it is, and LLVM vectorises nothing
of what is computed in the same loop: there an axis's number says which block it is, if they are few
(`pieces_cpu.join_blocks`). 2 cores, jax 0.10.2, ms, JOIN along the last axis of two of
[8, 64, 256, 128] and CLIP, as XLA has it and so: FLOAT32 15, 7.4; FLOAT16 8.4, 2.2; UINT8 3.8, 1.5;
over axis 2 7.3, 5.0; 5.8, 3.6; 2.1, 1.1. A GPU joins rows, or quarters
(`pieces_gpu.join_computed`).
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from dml_jax.lowering.whole_programs import pieces_cpu, pieces_gpu
from dml_jax.lowering.whole_programs.equations import (
    bound,
    evaluated,
    maps_elements,
    variables,
)


class _Joined(NamedTuple):
    """What is yet to be joined."""

    parts: Sequence[jax.Array]
    axis: int

    @property
    def sizes(self) -> list[int]:
        return [part.shape[self.axis] for part in self.parts]


def rewritten(platform: str, program: Any, xs: Sequence[jax.Array]) -> list[jax.Array] | None:
    """The results of a traced program; None where none of them is so joined."""
    if not _may_be_joined(platform, program.jaxpr):  # what is evaluated in vain is lowered, too
        return None
    results = evaluated(program, xs, functools.partial(_step, platform))
    if not any(isinstance(y, _Joined) for y in results):
        return None
    join = pieces_cpu.join_computed if platform == "cpu" else pieces_gpu.join_computed
    return [join(*y) if isinstance(y, _Joined) else y for y in results]


def _may_be_joined(platform: str, jaxpr: Any) -> bool:
    """Whether a result is."""
    joined = set[Any]()
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "concatenate":
            types = [var.aval for var in eqn.invars]
            found = _gains(platform, types, eqn.params["dimension"])
        else:
            found = maps_elements(eqn) and not joined.isdisjoint(variables(eqn.invars))
        joined.update(eqn.outvars if found else ())
    return not joined.isdisjoint(variables(jaxpr.outvars))


def _gains(platform: str, parts: Sequence[Any], axis: int) -> bool:
    pieces = pieces_cpu if platform == "cpu" else pieces_gpu
    return pieces.gains_computed(parts, axis)


def _step(platform: str, eqn: Any, operands: Sequence[Any]) -> Sequence[Any]:
    name, joined = eqn.primitive.name, [x for x in operands if isinstance(x, _Joined)]
    if name == "concatenate":
        axis = eqn.params["dimension"]
        parts = [part for x in operands for part in _along(x, axis)]
        if _gains(platform, parts, axis):
            return [_Joined(parts, axis)]
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

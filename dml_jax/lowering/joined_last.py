"""Whole programs on a CPU in which pieces are joined last, by a loop over blocks of one size.

Of a concatenation XLA asks for each element in which piece it is, and LLVM vectorises nothing of
what is computed in the same loop. So what is mapped behind it is mapped before it, piece by piece,
and where the program ends an axis's number says which block it is (`matrices.join_blocks`).

2 cores, jax 0.10.2, ms, JOIN along the last axis of two of [8, 64, 256, 128] and CLIP, as XLA has
it and so: FLOAT32 15, 7.4; FLOAT16 8.4, 2.2; UINT8 3.8, 1.5; over axis 2 7.3, 5.0; 5.8, 3.6; 2.1,
1.1.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from dml_jax.lowering import matrices
from dml_jax.lowering.equations import ELEMENTWISE, body_of, bound, evaluated


class _Joined(NamedTuple):
    """What is yet to be joined."""

    parts: Sequence[jax.Array]
    axis: int

    @property
    def sizes(self) -> list[int]:
        return [part.shape[self.axis] for part in self.parts]


def rewritten(program: Any, xs: Sequence[jax.Array]) -> list[jax.Array] | None:
    """The results of a traced program; None where none of them is so joined."""
    # What is evaluated and not used is lowered all the same.
    if not any(map(_joins_blocks, program.jaxpr.eqns)):
        return None
    results = _evaluate(program, xs)
    if not any(isinstance(y, _Joined) for y in results):
        return None
    return [matrices.join_blocks(*y) if isinstance(y, _Joined) else y for y in results]


def _joins_blocks(eqn: Any) -> bool:
    if eqn.primitive.name != "concatenate":
        return False
    return matrices.are_few_blocks([var.aval for var in eqn.invars], eqn.params["dimension"])


def _evaluate(program: Any, xs: Sequence[Any]) -> list[Any]:
    return evaluated(program, xs, _step)


def _step(eqn: Any, operands: Sequence[Any]) -> Sequence[Any]:
    name, joined = eqn.primitive.name, [x for x in operands if isinstance(x, _Joined)]
    if name == "concatenate":
        axis = eqn.params["dimension"]
        parts = [part for x in operands for part in _along(x, axis)]
        if matrices.are_few_blocks(parts, axis):
            return [_Joined(parts, axis)]
    if not joined:
        return bound(eqn, operands)
    body, first = body_of(eqn, operands, "cpu"), joined[0]
    if body is not None:
        return _evaluate(*body)
    alike = all((x.axis, x.sizes) == (first.axis, first.sizes) for x in joined)
    if alike and name in ELEMENTWISE:
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

"""Whole programs that reduce what they are given, on a GPU: neighbouring axes that go as one.

XLA puts such axes together by itself, but within the kernel, which finds each element by its place
on every axis: where sizes are no powers of two, by divisions, and neighbours one by one. Given an
array that has them as one already, it need not. H100, jax 0.11.2, us, as it is and so, and what a
copy's rate takes for the bytes read:

                  [32, 16, 333, 777]  [8, 16, 540, 960]  [16, 8, 512, 768]  [2, 32, 100, 56, 56]
                  over (1, 2)         over (1, 2)        over all           over (2, 3)
    SUM  FLOAT16  262, 145; 89        83, 73; 45                            45, 27; 14
    MAX  FLOAT16  260, 143            75, 67                                47, 28
         FLOAT32  318, 289; 178                                             51, 44; 27
         UINT8    247, 86; 45                            28, 26; 17
    ARGMAX        145, 82 (UINT8)     90, 70 (FLOAT16)   54, 29 (UINT8)     80, 42 (0, 2, 3)
    LOG_SUM_EXP   192, 129 (FLOAT16)  214, 73 (FLOAT16)                     76, 41 (0, 2, 3)

Of 79 such the mean is 1.15 times as fast. It loses where MAX of UINT8 ends in rows ([65, 13, 509,
521] over (0, 2, 3) 172, 199), and LOG_SUM_EXP of FLOAT32 over (1, 2) of the first (237, 261). Axes
that are kept stay apart: as one they are now faster, now slower (MAX over 0 of the first FLOAT32
302, 214, UINT8 84, 169).
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
from jax import lax

from dml_jax.lowering.axes import Axes, reduced_shape
from dml_jax.lowering.devices.along import ALONG
from dml_jax.lowering.threads_gpu import is_little
from dml_jax.lowering.whole_programs.equations import (
    bound,
    maps_elements,
    of_other_shapes,
    variables,
)

Shape = tuple[int, ...]


def as_runs(program: Any) -> Any | None:
    """The traced program of arrays that have other axes; None where there are no such.

    Neighbouring axes that are reduced are the first of them there, and the others have size 1. None
    also where the program does more than to reduce what it maps.
    """
    shape: Shape = max((x.shape for x in program.in_avals), key=math.prod, default=())
    axes = None if is_little(shape) else _reduced(program, shape)
    if axes is None:
        return None
    merged = _merged(shape, axes)
    if merged == shape:
        return None

    def shaped(other: Shape) -> Shape:
        return merged if other == shape else other

    def step(eqn: Any, operands: Sequence[Any]) -> Sequence[jax.Array]:
        if eqn.primitive.name == "broadcast_in_dim":
            shape, places = shaped(eqn.outvars[0].aval.shape), eqn.params["broadcast_dimensions"]
            return [lax.broadcast_in_dim(operands[0], shape, places)]
        return bound(eqn, operands)

    return of_other_shapes(program, step, shaped)


def _merged(shape: Shape, axes: Axes) -> Shape:
    """The sizes, where the first of neighbouring axes that are reduced has all of theirs."""
    merged, first = list(shape), None
    for a, n in enumerate(shape):
        if a in axes and first is not None:
            merged[first], merged[a] = merged[first] * n, 1
        elif a in axes:
            first = a
        elif n > 1:
            first = None
    return tuple(merged)


def _reduced(program: Any, shape: Shape) -> Axes | None:
    """The axes along which it reduces arrays of this shape; None where it does other things."""
    found = set[Axes]()
    if not all(_is_known(eqn, shape, found) for eqn in program.jaxpr.eqns) or len(found) != 1:
        return None
    (axes,) = found
    shapes, values = (shape, reduced_shape(shape, axes), ()), [*program.jaxpr.invars]
    values += program.jaxpr.constvars
    for eqn in program.jaxpr.eqns:
        if eqn.primitive is not ALONG:
            # Of what is reduced, without these axes, only that they are restored.
            is_restored = _places(eqn) == [a for a in range(len(shape)) if a not in axes]
            values += [*eqn.outvars, *([] if is_restored else variables(eqn.invars))]
    return axes if all(var.aval.shape in shapes for var in values) else None


def _places(eqn: Any) -> list[int] | None:
    is_placed = eqn.primitive.name == "broadcast_in_dim"
    return list(eqn.params["broadcast_dimensions"]) if is_placed else None


def _is_known(eqn: Any, shape: Shape, found: set[Axes]) -> bool:
    """Whether it maps or reduces. Adds the axes along which it reduces arrays of this shape."""
    if eqn.primitive is ALONG:
        found.add(eqn.params["axes"])
        return eqn.invars[0].aval.shape == shape and not eqn.params["what"].keeps
    return maps_elements(eqn) or eqn.primitive.name == "broadcast_in_dim"

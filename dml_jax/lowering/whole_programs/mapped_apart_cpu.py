"""Whole programs on a CPU that map narrow elements, and write what they then move by short loops.

LLVM does not vectorise these (`mapped_cpu`), and with them not what is mapped in the same loop,
which takes twenty times as long. So it is mapped before, by itself: over long rows, and stored. 2
cores, jax 0.10.2, GB/s moved, a CLIP and what moves in one loop, and apart; a copy 50:

                                              FLOAT16      UINT8
    split in two over 3   [.., 13, 13]        2.7, 23      1.9, 28
    clips of two pieces   [.., 56, 56]        2.7, 12      1.8, 6.1
    depth_to_space by 2   [.., 14, 14]        2.6, 11      1.7, 13
    space_to_depth by 2   [.., 28, 28]        2.8, 11      2.0, 15
    tile by (1, 1, 2, 2)  [.., 3, 3]          5.3, 30      3.9, 14

FLOAT32 is not so slow that it gains (20 to 50 in one loop).

And what is clipped of sums of columns XLA computes once for each time it is read, and stores the
sum's input as FLOAT32 for that: SUM over 1 of FLOAT16 [11, 32, 149, 149] and CLIP 1.2, 33, AVERAGE
of [334, 512, 7, 7] 1.6, 25.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax

from dml_jax.lowering.devices.along import ALONG
from dml_jax.lowering.folds.fold import ends_in_rows
from dml_jax.lowering.folds.placed import Folded
from dml_jax.lowering.loops_cpu import are_short, is_little, is_narrow, long_rows
from dml_jax.lowering.whole_programs.arranged_last import mapped_first
from dml_jax.lowering.whole_programs.equations import (
    bound,
    evaluated,
    maps_elements,
    variables,
)
from dml_jax.lowering.whole_programs.mapped_cpu import over

# Sums of fewer rows are too much to store. GB/s, FLOAT16 [24, 3, 299, 299] over 1 48, 8.6.
FEW_ROWS = 8


@dataclass(eq=False)
class _Mapped:
    """What is yet to be mapped; they are numbered in the order of the program."""

    eqn: Any
    operands: Sequence[Any]
    value: jax.Array | None = None
    number: int = field(default_factory=itertools.count().__next__)

    @property
    def aval(self) -> Any:
        return self.eqn.outvars[0].aval


def with_maps_stored(program: Any) -> Any | None:
    """The traced program with what is narrow mapped in passes of its own; None without a gain."""
    little = all(is_little(x.shape) for x in program.in_avals + program.out_avals)
    if little or not any(map(is_narrow, program.out_avals)):
        return None
    loops = list[tuple[int, ...]]()

    def first(*xs: jax.Array) -> list[jax.Array]:
        made = mapped_first(program, xs)
        loops.extend(sizes for y, sizes in made if is_narrow(y) and not is_little(y.shape))
        return [array for array, _ in made]

    ordered = jax.make_jaxpr(first)(*program.in_avals)
    equations = ordered.jaxpr.eqns
    reductions = [eqn for eqn in equations if eqn.primitive is ALONG]
    if reductions:
        gains = any(map(_are_sums, reductions)) and _is_clipped(equations, reductions[-1])
    else:
        maps = any(map(maps_elements, equations))
        gains = maps and any(map(are_short, loops))
    if not gains:
        return None
    return jax.make_jaxpr(lambda *xs: [*map(_array, evaluated(ordered, xs, _step))])(
        *program.in_avals
    )


def _are_sums(eqn: Any) -> bool:
    """Whether it gives sums of columns, of so many rows that a pass over these costs little."""
    x, axes, what = eqn.invars[0].aval, eqn.params["axes"], eqn.params["what"]
    rows = math.prod(x.shape[a] for a in axes)
    is_sum = isinstance(what, Folded) and what.kind.rounds
    return is_sum and rows >= FEW_ROWS and not ends_in_rows(x.shape, axes)


def _is_clipped(equations: Sequence[Any], last: Any) -> bool:
    """Whether what a reduction gives is mapped when it is narrow: more than rounded."""
    behind = equations[equations.index(last) + 1 :]
    maps = filter(maps_elements, behind)
    return any(
        var.aval.shape and is_narrow(var.aval) for eqn in maps for var in variables(eqn.invars)
    )


def _step(eqn: Any, operands: Sequence[Any]) -> Sequence[Any]:
    name = eqn.primitive.name
    of_a_number = name == "broadcast_in_dim" and not eqn.invars[0].aval.shape
    if eqn.outvars[0].aval.shape and (maps_elements(eqn) or of_a_number):
        return [_Mapped(eqn, operands)]
    # What a reduction reads goes into its loop.
    given = _fused if eqn.primitive is ALONG else _array
    return bound(eqn, [*map(given, operands)])


def _array(x: Any) -> Any:
    """It, stored where it is narrow; what widens it goes into the loop of what reads that."""
    if _is_open(x) and is_narrow(x.aval):
        x.value = _by_itself(x)
    for y in _before(x, lambda y: not is_narrow(y.aval))[0]:
        (y.value,) = bound(y.eqn, [*map(_array, y.operands)])
    return _value(x)


def _fused(x: Any) -> Any:
    """It, in the loop of what reads it."""
    for y in _before(x)[0]:
        (y.value,) = bound(y.eqn, [*map(_value, y.operands)])
    return _value(x)


def _by_itself(x: _Mapped) -> jax.Array:
    """Over long rows, in a call that XLA does not inline."""
    steps, given = _before(x)

    def mapped(*arrays: jax.Array) -> list[jax.Array]:
        values = dict(zip(map(id, given), arrays, strict=True))
        for y in steps:
            (values[id(y)],) = bound(y.eqn, [values[id(operand)] for operand in y.operands])
        return [values[id(x)]]

    arrays = [_value(y) for y in given]
    count = math.prod(x.aval.shape[: long_rows(x.aval.shape) or 0])
    rows = (count, math.prod(x.aval.shape) // count)
    (y,) = over(jax.make_jaxpr(mapped)(*arrays), arrays, rows)
    return y


def _before(
    x: Any, belongs: Callable[[_Mapped], bool] = lambda _: True
) -> tuple[list[_Mapped], list[Any]]:
    """What is to be mapped for it, and belongs to it, in order; and from what."""
    steps, given, left = dict[int, _Mapped](), dict[int, Any](), [x]
    while left:
        y = left.pop()
        if not (_is_open(y) and belongs(y)):
            given[id(y)] = y
        elif id(y) not in steps:
            steps[id(y)] = y
            left += y.operands
    return sorted(steps.values(), key=lambda y: y.number), [*given.values()]


def _is_open(x: Any) -> bool:
    return isinstance(x, _Mapped) and x.value is None


def _value(x: Any) -> Any:
    return x.value if isinstance(x, _Mapped) else x

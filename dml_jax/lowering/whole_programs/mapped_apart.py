"""Whole programs on a CPU that map narrow elements, and write what they then move by short loops.

LLVM does not vectorise these (`mapped`), and with them not what is mapped in the same loop, which
takes twenty times as long. So it is mapped before, by itself: over long rows, and stored. 2 cores,
jax 0.10.2, GB/s moved, a CLIP and what moves in one loop, and apart; a copy 50:

                                              FLOAT16      UINT8
    split in two over 3   [.., 13, 13]        2.7, 23      2.1, 20
    clips of two pieces   [.., 56, 56]        2.8, 10      1.9, 10
    depth_to_space by 2   [.., 14, 14]        2.6, 11      1.7, 9
    space_to_depth by 2   [.., 28, 28]        2.8, 11      2.0, 10
    tile by (1, 1, 2, 2)  [.., 3, 3]          5.4, 30      3.9, 30

FLOAT32 is not so slow that it gains (20 to 50 in one loop).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from dml_jax.lowering.stored_cpu import in_a_call
from dml_jax.lowering.whole_programs.arranged_last import mapped_first
from dml_jax.lowering.whole_programs.equations import ELEMENTWISE, body_of, bound, evaluated
from dml_jax.lowering.whole_programs.mapped import LITTLE_ON_CPU, UNROLLED
from dml_jax.lowering.whole_programs.pieces_cpu import long_rows

# Bytes of elements that gain.
NARROW = 2
# Rows from here on LLVM does vectorise, and of loops over shorter ones than it unrolls those of a
# multiple of four. GB/s, FLOAT16, CLIPs joined of [.., 14, n], n of 36, 40, 44, 63, 64: 3, 38, 36,
# 24, 46; of [.., n, 7], n of 7, 8, 11, 16, 17, 20, 30, 64: 3, 47, 3, 46, 27, 42, 11, 45.
VECTORISED, EVEN = 40, 4


@dataclass(eq=False)
class _Mapped:
    """What is yet to be mapped."""

    eqn: Any
    operands: Sequence[Any]
    value: jax.Array | None = None

    @property
    def is_narrow(self) -> bool:
        return self.eqn.outvars[0].aval.dtype.itemsize <= NARROW


def apart(program: Any) -> Any | None:
    """The traced program that gives the same so; None where it would gain nothing."""
    if not any(_is_much(var.aval) for var in program.jaxpr.outvars):
        return None
    loops = list[tuple[int, ...]]()

    def first(*xs: jax.Array) -> list[jax.Array]:
        made = mapped_first(program, xs)
        loops.extend(sizes for array, sizes in made if _is_much(array))
        return [array for array, _ in made]

    ordered = jax.make_jaxpr(first)(*program.in_avals)
    names = {eqn.primitive.name for eqn in ordered.jaxpr.eqns}
    # A reduction is a loop of its own, and has what it reads in it.
    if "dml_along" in names or names.isdisjoint(ELEMENTWISE) or not any(map(_are_short, loops)):
        return None
    return jax.make_jaxpr(lambda *xs: [*map(_array, _evaluate(ordered, xs))])(*program.in_avals)


def _is_much(x: Any) -> bool:
    return x.dtype.itemsize <= NARROW and math.prod(x.shape) >= LITTLE_ON_CPU


def _are_short(loops: Sequence[int]) -> bool:
    before, row = [1, 1, *(n for n in loops if n > 1)][-2:]
    if row < UNROLLED[0]:
        return before <= UNROLLED[-1] and before % EVEN > 0
    return row < VECTORISED


def _evaluate(program: Any, xs: Sequence[Any]) -> list[Any]:
    return evaluated(program, xs, _step)


def _step(eqn: Any, operands: Sequence[Any]) -> Sequence[Any]:
    body = body_of(eqn, operands, "cpu")
    if body is not None:
        return _evaluate(*body)
    name = eqn.primitive.name
    of_a_number = name == "broadcast_in_dim" and not eqn.invars[0].aval.shape
    if eqn.outvars[0].aval.shape and (name in ELEMENTWISE or of_a_number):
        return [_Mapped(eqn, operands)]
    return bound(eqn, [*map(_array, operands)])


def _array(x: Any) -> Any:
    """It, stored where it is narrow; what widens it goes into the loop of what reads that."""
    if not isinstance(x, _Mapped):
        return x
    if x.value is None:
        narrow = x.is_narrow
        x.value = _by_itself(x) if narrow else bound(x.eqn, [*map(_array, x.operands)])[0]
    return x.value


def _by_itself(x: _Mapped) -> jax.Array:
    """Over long rows, in a call that XLA does not inline."""
    shape = x.eqn.outvars[0].aval.shape
    behind = long_rows(shape) or 0
    rows = (math.prod(shape[:behind]), math.prod(shape[behind:]))
    given = {id(y): y for y in _given(x)}

    def mapped(*arrays: jax.Array) -> jax.Array:
        values = dict(zip(given, arrays, strict=True))

        def of(y: Any) -> jax.Array:
            if id(y) not in values:
                operands = [*map(of, y.operands)]
                if y.eqn.primitive.name == "broadcast_in_dim":
                    values[id(y)] = lax.broadcast(operands[0], rows)
                else:
                    (values[id(y)],) = bound(y.eqn, operands)
            return values[id(y)]

        return of(x)

    arrays = [y.value if isinstance(y, _Mapped) else y for y in given.values()]
    arrays = [jnp.reshape(y, rows) if jnp.shape(y) else y for y in arrays]
    return in_a_call(mapped, *arrays).reshape(shape)


def _given(x: Any) -> list[Any]:
    """What it is mapped from."""
    if isinstance(x, _Mapped) and x.value is None:
        return [y for operand in x.operands for y in _given(operand)]
    return [x]

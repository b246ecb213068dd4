"""Whole programs whose elements are moved and repeated last, by what writes them.

What arranges (reshapes, transpositions, broadcasts) is put off through what maps each element by
itself, to the end of an operator or a graph, and is done there by what writes the result: by
`arranged_cpu`, or `arranged_gpu`.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from dml_jax.lowering.all_cores_cpu import written_by_all_cores
from dml_jax.lowering.whole_programs import arranged_cpu, arranged_gpu
from dml_jax.lowering.whole_programs.equations import (
    as_part_of,
    bound,
    evaluated,
    maps_elements,
)
from dml_jax.lowering.whole_programs.pending import Factor, Pending

_Value = jax.Array | Pending


class _Made(NamedTuple):
    """A value while the program is evaluated.

    Attributes:
        value: the array, or what is yet to be arranged.
        given: whether there are only moves between the inputs and it.
        maker: the equation that made it, whose name it has in profiles.
    """

    value: _Value
    given: bool
    maker: Any


def rewritten(platform: str, program: Any, xs: Sequence[jax.Array]) -> list[jax.Array]:
    """The results of a traced program."""
    made = _evaluate(program, [_Made(x, True, None) for x in xs], platform)
    return [_written(each, platform, xs) for each in made]


def mapped_first(program: Any, xs: Sequence[jax.Array]) -> list[tuple[jax.Array, tuple[int, ...]]]:
    """The results of a traced program on a CPU, where what maps elements is put before moves.

    And of each the sizes of the loops that write it.
    """
    made = _evaluate(program, [_Made(x, True, None) for x in xs], "cpu")
    return [(_array(each.value), _loops(each.value)) for each in made]


def _loops(x: _Value) -> tuple[int, ...]:
    flat = x.flat() if isinstance(x, Pending) and x.merges else x
    return tuple(f.size for f in flat.factors) if isinstance(flat, Pending) else flat.shape


def _written(made: _Made, platform: str, xs: Sequence[jax.Array]) -> jax.Array:
    if not isinstance(made.value, Pending):
        if platform != "cpu" or made.maker is None or not _has_a_loop(made.maker):
            return made.value
        read = sum(x.size >= made.value.size for x in xs)
        return written_by_all_cores(made.value, read)
    with as_part_of(made.maker):
        return (arranged_cpu if platform == "cpu" else arranged_gpu).written(made.value)


def _has_a_loop(eqn: Any) -> bool:
    """Whether XLA loops over what it gives, and what follows goes into that loop."""
    return maps_elements(eqn) or eqn.primitive.name == "split"


def _evaluate(program: Any, xs: Sequence[_Made], platform: str) -> list[_Made]:
    step = functools.partial(_step, platform)
    return evaluated(program, xs, step, lambda value: _Made(value, True, None))


def _step(platform: str, eqn: Any, operands: Sequence[_Made]) -> list[_Made]:
    values, given = [x.value for x in operands], all(x.given for x in operands)
    arranged = _arranged(eqn, values, given)
    if arranged is None:
        return [_Made(value, False, eqn) for value in _applied(platform, eqn, values)]
    return [_Made(arranged.simplest(), arranged.given, eqn)]


def _applied(platform: str, eqn: Any, xs: Sequence[_Value]) -> Sequence[_Value]:
    pending = [x for x in xs if isinstance(x, Pending)]
    first = next((x for x in pending if not _is_number(x)), None)
    if pending and all(map(_is_number, xs)):
        first = pending[0]
    is_alike = first is not None and all(jnp.shape(x) in ((), first.shape) for x in xs)
    if first is not None and is_alike and maps_elements(eqn):
        return [_elementwise(platform, eqn, first, xs)]
    return bound(eqn, [_array(x) for x in xs])


def _arranged(eqn: Any, xs: Sequence[_Value], given: bool) -> Pending | None:
    """What moves and repeats elements, put off; None where it cannot be."""
    name, params, out = eqn.primitive.name, eqn.params, eqn.outvars[0].aval
    if len(xs) != 1 or 0 in out.shape:
        return None
    if not jnp.shape(xs[0]) and name != "broadcast_in_dim":
        return None
    x = xs[0] if isinstance(xs[0], Pending) else Pending.of(xs[0], given)
    if name == "reshape" and params["dimensions"] is None:
        return x.reshape(out.shape)
    if name == "transpose":
        return x.transpose(params["permutation"])
    if name == "broadcast_in_dim":
        return x.broadcast_in_dim(out.shape, params["broadcast_dimensions"])
    return None


def _elementwise(platform: str, eqn: Any, first: Pending, xs: Sequence[_Value]) -> _Value:
    """What is arranged alike is computed before that, else with the factors apart."""
    if all(_is_number(x) or (isinstance(x, Pending) and x.axes == first.axes) for x in xs):
        shape = first.array.shape
        # As rows on a GPU: of FLOAT16 that is taken apart first XLA's kernel moves 0.7 TB/s, and so
        # 2.6 (an H100, CLIP of depth_to_space or space_to_depth by 2).
        rows = (shape[0], math.prod(shape[1:])) if platform == "cuda" and shape else shape
        (y,) = bound(eqn, [_before(x, rows) for x in xs])
        return Pending(y.reshape(shape), first.axes, given=False)
    sizes = [factor.size for factor in first.factors]
    (y,) = bound(eqn, [_apart(x, first, sizes) if jnp.shape(x) else x for x in xs])
    numbers = itertools.count()
    axes = tuple(tuple(Factor(f.size, next(numbers)) for f in run) for run in first.axes)
    return Pending(y, axes, given=False).simplest()


def _is_number(x: _Value) -> bool:
    return x.is_number if isinstance(x, Pending) else not jnp.shape(x)


def _before(x: _Value, shape: Sequence[int]) -> jax.Array:
    """What is arranged, in this shape.

    A number goes along. With the factors apart a CLIP of what is tiled by (1, 1, 1, 2), FLOAT16
    [85, 12, 128, 64], moved 1 GB/s on two cores, and so 46; by (2, 1, 1, 1), [167, 256, 14, 14]
    2.1, 39; of depth_to_space by 2 1.3, 2.6.
    """
    if not isinstance(x, Pending):
        return x
    return x.array.reshape(shape) if x.array.ndim else lax.broadcast(x.array, shape)


def _apart(x: _Value, like: Pending, sizes: Sequence[int]) -> jax.Array:
    if isinstance(x, Pending) and x.axes == like.axes:
        return x.apart()
    return jnp.broadcast_to(_array(x), like.shape).reshape(sizes)  # sizes of 1 spread


def _array(x: _Value) -> jax.Array:
    return x.arranged if isinstance(x, Pending) else x

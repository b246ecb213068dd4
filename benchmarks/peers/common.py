"""What the peers share: entries, memory for outputs, what an operator asks for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import expressions
import jax
from transformed import Transformed

from dml_jax import AxisDirection, ReduceFunction
from dml_jax.bench.memory import as_tuple
from dml_jax.bench.timing import Contender, Mark
from dml_jax.graph import Graph

F = ReduceFunction
Inputs = Sequence[tuple[jax.Array, ...]]


class UnsupportedError(Exception):
    """The library has no such operator, or not for this type."""


@dataclass
class Entry:
    """A contender, and what its last call on a set gave."""

    contender: Contender
    results: Callable[[int], Sequence[Any]]


Entries = dict[str, Entry]


def event_mark(event: Any, passed: Callable[[], bool]) -> Mark:
    """A `Contender.mark` of an event of CUDA's, as PyTorch and CuPy have them."""
    event.record()
    return Mark(passed, event.synchronize)


def allocating(function: Callable[..., Any], inputs: Any, **options: Any) -> Entry:
    held: list[Any] = [None]

    def call(index: int) -> None:
        held[0] = function(*inputs[index])

    def results(index: int) -> Any:
        call(index)
        return as_tuple(held[0])

    return Entry(Contender(call, **options), results)


def writing(function: Callable[..., Any], outputs: Any, inputs: Any, **options: Any) -> Entry:
    def call(index: int) -> None:
        function(outputs[index], *inputs[index])

    def results(index: int) -> Any:
        call(index)
        return outputs[index]

    return Entry(Contender(call, **options), results)


def bound_nodes(
    function: Any,
    of: Callable[[Any], Callable[..., None]],
    empty: Callable[[Any], list[Any]],
) -> Callable[..., None]:
    """`call(outs, *xs)` of an operator or a graph, whose inner values have memory of their own."""
    if not isinstance(function, Graph):
        return of(function)
    nodes = [
        (index, of(node.operator), sources, empty(node.operator))  # pyright: ignore
        for index, node, sources in function.plan
    ]

    def call(outs: Sequence[Any], *xs: Any) -> None:
        values: dict[int, Sequence[Any]] = {-1: xs}
        for index, node, sources, scratch in nodes:
            made = list(scratch)
            for place, (n, i) in enumerate(function.results):
                if n == index:
                    made[i] = outs[place]
            node(made, *(values[n][i] for n, i in sources))
            values[index] = made

    return call


def last_node(function: Any) -> list[Any]:
    """For each output of an operator or graph, the operator that makes it."""
    if isinstance(function, Transformed):
        return [function.operator] * len(function.outputs)
    if not isinstance(function, Graph):
        return [function] * len(function.outputs)
    return [function.nodes[n].operator for n, _ in function.results]  # pyright: ignore


def is_arg(op: Any) -> bool:
    """Whether it gives indices."""
    named = op.c_name in ("DML_OPERATOR_ARGMAX", "DML_OPERATOR_ARGMIN")
    return named or getattr(op, "function", None) in (F.ARGMAX, F.ARGMIN)


def arg_parts(op: Any) -> tuple[bool, bool]:
    """Whether the largest is looked for, and whether the last one wins."""
    largest = op.c_name == "DML_OPERATOR_ARGMAX" or getattr(op, "function", None) == F.ARGMAX
    return largest, getattr(op, "axis_direction", None) == AxisDirection.DECREASING


def block_steps(op: Any) -> tuple[list[int], list[int], list[int]]:
    """Of the four operators that move depth and space."""
    deep = op.c_name.startswith("DML_OPERATOR_DEPTH")
    return (expressions.depth_to_space_steps if deep else expressions.space_to_depth_steps)(op)


def tile_shapes(op: Any) -> tuple[list[int], list[int]]:
    """[1, n0, 1, n1, ...] and [r0, n0, r1, n1, ...]."""
    sizes = op.inputs[0].sizes
    source = [part for n in sizes for part in (1, n)]
    return source, [part for r, n in zip(op.repeats, sizes, strict=True) for part in (r, n)]

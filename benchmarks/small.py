"""What an operator costs where there is no work: its descriptor, its call, its compilation."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from expressions import expression
from roofline import Data, wide
from table import Cell

from dml_jax.bench.timing import Contender, interleaved, jax_contender, marks
from dml_jax.memory.binding_table import Buffer, BufferBinding
from dml_jax.memory.compiled import compile
from dml_jax.operator import Operator
from dml_jax.operator.callable import Bindable


@dataclass(frozen=True)
class Overhead:
    """Of one small cell.

    Attributes:
        construct: microseconds to make and check the descriptor; None for a chain.
        call: microseconds of a jitted call, waited for.
        plain_call: of the straightforward expression's.
        dispatch: of a bound dispatch.
        compile: milliseconds to trace and compile it.
        plain_compile: for the straightforward expression.
    """

    cell: Cell
    construct: float | None
    call: float
    plain_call: float
    dispatch: float
    compile: float
    plain_compile: float

    def to_json(self) -> dict[str, Any]:
        """Microseconds and milliseconds."""

        def rounded(value: float | None) -> float | None:
            return None if value is None else round(value, 3)

        return {
            "name": self.cell.name,
            "construct_us": rounded(self.construct),
            "call_us": rounded(self.call),
            "plain_call_us": rounded(self.plain_call),
            "dispatch_us": rounded(self.dispatch),
            "compile_ms": rounded(self.compile),
            "plain_compile_ms": rounded(self.plain_compile),
        }


def measure_overhead(
    cells: Sequence[Cell], device: Any, seconds: float = 0.3
) -> Iterator[Overhead]:
    """Each cell's, beside the same of its straightforward expression."""
    data = Data(device)
    for cell in cells:
        with wide(cell.function):
            inputs = tuple(map(data.array, cell.function.inputs))
            measured = _measured(cell, inputs, device, seconds)
        yield measured


def _measured(cell: Cell, inputs: Sequence[Any], device: Any, seconds: float) -> Overhead:
    function, plain = cell.function, expression(cell.function)
    assert isinstance(function, Bindable), "what a small cell calls can be bound"
    ours, theirs = jax.jit(function), jax.jit(plain)
    contenders = {
        "call": jax_contender(lambda _: ours(*inputs), device),
        "plain": jax_contender(lambda _: theirs(*inputs), device),
        "dispatch": _dispatching(function, inputs, device),
    }
    times = interleaved(contenders, seconds=seconds, samples=31, give_up=math.inf)
    calls = {name: t.median * 1e6 for name, t in times.items()}
    compiling = compile_times({"ours": function, "plain": plain}, inputs)
    return Overhead(
        cell,
        _construct(function, seconds / 3) if isinstance(function, Operator) else None,
        calls["call"],
        calls["plain"],
        calls["dispatch"],
        compiling["ours"],
        compiling["plain"],
    )


def _construct(operator: Operator, seconds: float) -> float:
    """Median microseconds to make and check the descriptor, of tensors that are there."""
    fields = {f.name: getattr(operator, f.name) for f in operator.fields}
    contender = Contender(lambda _: type(operator)(**fields))
    return interleaved({"": contender}, seconds=seconds)[""].median * 1e6


def _dispatching(function: Bindable, inputs: Sequence[Any], device: Any) -> Contender:
    buffers = [Buffer.of(t, device) for t in function.outputs]
    table = compile(function, device=device).bind(
        [BufferBinding(Buffer(x)) for x in inputs], [BufferBinding(b) for b in buffers]
    )
    return Contender(lambda _: table.dispatch(), table.wait, marks(device))


def compile_times(
    functions: dict[str, Callable[..., Any]], inputs: Sequence[Any], rounds: int = 3
) -> dict[str, float]:
    """The least milliseconds of some rounds, to trace and compile a program anew."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            fresh = jax.jit(lambda *xs, f=function: f(*xs))
            start = time.perf_counter()
            fresh.lower(*inputs).compile()
            times[name].append((time.perf_counter() - start) * 1e3)
    return {name: min(values) for name, values in times.items()}

"""Every operator of families beside the plain jax.numpy expression, timed in turn.

    python benchmarks/families.py results.json                 all families
    python benchmarks/families.py results.json --family reduction --mb 8 --budget 300

Cells are what `Operator.typical` describes. Each is measured in three ways: `eager`, a call by
itself; `alone`, a compiled program of nothing else; `jit`, a function in a user's own jax.jit. No
memory is donated. Where calls are queued, one call of `jit` does all sets of data, so that its time
is that of the kernels; the other ways have the time of a call. Ratios are the expression's time
over ours: above 1 we are faster.
"""

import argparse
import functools
import itertools
import json
import math
import os
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp
from expressions import EXPRESSIONS, RANDOM

import dml_jax
from dml_jax import OPERATORS, DmlError, Operator
from dml_jax.bench.cells import TYPES, Cell, cells
from dml_jax.bench.measure import environment
from dml_jax.bench.memory import Arrays, Data, as_tuple, each_set, sets_moving, wide
from dml_jax.bench.timing import Contender, interleaved, is_queued, jax_contender
from dml_jax.files import write_whole

WAYS = ("eager", "alone", "jit")
WORST = 10
TOLERANCE = {"float16": 2e-2, "float32": 2e-4, "float64": 1e-9}

Call = Callable[..., Any]

say = functools.partial(print, flush=True)


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("results", type=Path, help="the JSON file to write")
    add("--family", action="append", default=[], help=f"of {', '.join(families())}")
    add("--operator", action="append", default=[], help="only this operator")
    add("--dtype", action="append", default=[], help=f"in place of {', '.join(TYPES)}")
    add("--mb", action="append", default=[], type=float, help="in place of 1, 8 and 64")
    add("--variants", type=int, default=2, help="of each operator, at most")
    add("--seconds", type=float, default=0.3, help="of samples for each cell, about")
    add("--budget", type=float, default=math.inf, help="seconds, after which no cell begins")
    options = parser.parse_args(arguments)
    if unknown := {*options.family}.difference(families()):
        parser.error(f"expected --family to be of {', '.join(families())}, got {min(unknown)!r}")
    names = {cls.short_name for cls in OPERATORS.values()}
    if unknown := {*options.operator}.difference(names):
        parser.error(f"expected --operator to be an operator's name, got {min(unknown)!r}")
    return options


def family(cls: type[Operator]) -> str:
    """Return the name of the module that declares an operator."""
    return cls.__module__.rpartition(".")[2]


def families() -> list[str]:
    """Return the names of all families."""
    return sorted({family(cls) for cls in OPERATORS.values()})


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, write what was measured after each cell, and sum up."""
    options = parsed(arguments)
    # Each call on a CPU is waited for: another thread would only add its own time.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    begin, device = time.perf_counter(), jax.devices()[0]
    chosen = [
        cls
        for cls in OPERATORS.values()
        if (not options.family or family(cls) in options.family)
        and (not options.operator or cls.short_name in options.operator)
    ]
    compared = [cls for cls in chosen if cls.short_name in EXPRESSIONS]
    without = sorted({cls.short_name for cls in chosen} - EXPRESSIONS.keys())
    found = {cls.short_name: cells_of(cls, options) for cls in compared}
    unused = sorted(name for name, of in found.items() if not of)
    # One of each operator, then the next of each: a budget cuts all alike.
    rounds = itertools.zip_longest(*found.values())
    queue = [cell for round_ in rounds for cell in round_ if cell is not None]
    results: dict[str, Any] = {
        "environment": environment(device),
        "without_expression": without,
        "without_cells": unused,
        "failed": {},
        "cells": {},
    }
    say(f"{device.device_kind}, jax {jax.__version__}: {len(queue)} cells")
    say(f"without an expression in benchmarks/expressions.py: {', '.join(without) or 'none'}")
    say(f"without a typical use of these types: {', '.join(unused) or 'none'}")
    data = Data(device)
    for number, cell in enumerate(queue):
        if time.perf_counter() - begin > options.budget:
            results["left"] = len(queue) - number
            say(f"the budget is spent; left: {len(queue) - number} cells")
            break
        try:
            with wide(cell.function):
                measured = measure(cell, data, options.seconds)
        except Exception as error:  # the other cells are still worth having
            results["failed"][cell.name] = f"{type(error).__name__}: {str(error)[:200]}"
            say(f"[{number + 1}/{len(queue)}] {cell.name} failed: {results['failed'][cell.name]}")
            continue
        results["cells"][cell.name] = measured
        ratios = ", ".join(f"{way} x{ratio:.2f}" for way, ratio in measured["ratios"].items())
        differs = f"; {measured['differs']}" if measured["differs"] else ""
        say(f"[{number + 1}/{len(queue)}] {cell.name}: {ratios}{differs}")
        save(options.results, results)
    save(options.results, results)
    for line in summary(results["cells"].values()):
        say(line)


def cells_of(cls: type[Operator], options: argparse.Namespace) -> list[Cell]:
    """Return the cells of an operator; none if it accepts none of the types."""
    sizes = options.mb or (8.0, 64.0, 1.0)
    try:
        return cells([cls.short_name], options.dtype, sizes, options.variants)
    except DmlError:
        return []


def measure(cell: Cell, data: Data, seconds: float) -> dict[str, Any]:
    """Time an operator and its expression in each way."""
    op, device = cell.function, data.device
    assert isinstance(op, Operator)
    expression = EXPRESSIONS[op.short_name](op, jnp)
    inputs = data.sets(op, sets_moving(cell.bytes, device))
    plain = jax.jit(expression).lower(*inputs[0]).compile()
    alone = dml_jax.compile(op, device=device)
    results = as_tuple(alone(*inputs[0])), as_tuple(plain(*inputs[0]))
    differs = "" if op.short_name in RANDOM else difference(*results)
    calls = {
        "ours eager": each(op, inputs, device),
        "plain eager": each(expression, inputs, device),
        "ours alone": each(alone, inputs, device),
        "plain alone": each(plain, inputs, device),
        "ours jit": in_a_jit(op, inputs, device),
        "plain jit": in_a_jit(expression, inputs, device),
    }
    times = interleaved(calls, len(inputs), seconds=seconds, give_up=math.inf)
    ratios = {w: times[f"plain {w}"].median / times[f"ours {w}"].median for w in WAYS}
    return {
        "family": family(type(op)),
        "operator": cell.operator,
        "variant": cell.variant,
        "data_type": cell.tensor.data_type.name,
        "sizes": list(cell.tensor.sizes),
        "bytes": cell.bytes,
        "times": {name: found.to_json() for name, found in times.items()},
        "ratios": {way: round(ratio, 3) for way, ratio in ratios.items()},
        "differs": differs,
    }


def each(function: Call, inputs: Sequence[Arrays], device: Any) -> Contender:
    """Return the contender that calls a function with one set."""
    return jax_contender(lambda index: function(*inputs[index % len(inputs)]), device)


def in_a_jit(function: Call, inputs: Sequence[Arrays], device: Any) -> Contender:
    """Return the contender of a user's jitted function; where calls are queued, of all sets."""
    if not is_queued(device):
        return each(jax.jit(lambda *xs: function(*xs)).lower(*inputs[0]).compile(), inputs, device)
    every = list(inputs)
    program = jax.jit(lambda sets: each_set(function, sets)).lower(every).compile()
    return jax_contender(lambda index: program(every), device, sets=len(every))


def difference(ours: Sequence[Any], plain: Sequence[Any]) -> str:
    """Say how the expression's results differ from ours; an empty string if they do not."""
    for index, (a, b) in enumerate(zip(ours, plain, strict=True)):
        if a.shape != b.shape:
            return f"output {index} has sizes {list(b.shape)}, not {list(a.shape)}"
        a, b = (x.astype(jnp.promote_types(a.dtype, b.dtype)) for x in (a, b))
        equal = a == b
        if jnp.issubdtype(a.dtype, jnp.floating):
            limit = TOLERANCE.get(ours[index].dtype.name, 1e-6)
            equal |= jnp.abs(a - b) <= limit * (1 + jnp.abs(a))
            equal |= jnp.isnan(a) & jnp.isnan(b)
        if not equal.all():
            share = 1 - float(jnp.mean(equal))
            return f"output {index} differs in {share:.1%} of its elements"
    return ""


def save(path: Path, results: dict[str, Any]) -> None:
    """Write the file whole or not at all."""
    text = json.dumps(results, indent=1) + "\n"
    write_whole(path, lambda file: file.write(text.encode()))


def summary(measured: Iterable[dict[str, Any]]) -> Iterable[str]:
    """Give the geometric means of each family, and the worst cells."""
    found = list(measured)
    groups: dict[str, list[dict[str, Any]]] = {}
    for cell in found:
        groups.setdefault(cell["family"], []).append(cell)
    if len(groups) > 1:
        groups["all"] = found
    yield f"{'geometric means':<28} {'cells':>5} " + " ".join(f"{way:>6}" for way in WAYS)
    for name, group in groups.items():
        means = (statistics.geometric_mean(c["ratios"][way] for c in group) for way in WAYS)
        yield f"{name:<28} {len(group):>5} " + " ".join(f"{mean:6.2f}" for mean in means)
    pairs = [(cell["ratios"][way], way, cell) for cell in found for way in WAYS]
    yield f"the worst {WORST}:"
    for ratio, way, cell in sorted(pairs, key=lambda pair: pair[0])[:WORST]:
        label = f"{cell['operator']} {cell['variant']}".strip()
        yield f"{ratio:6.2f} {way:<6} {label} {cell['data_type']}{cell['sizes']}"
    wrong = [cell for cell in found if cell["differs"]]
    yield f"answers that differ: {len(wrong)}"
    for cell in wrong:
        yield f"  {cell['operator']} {cell['variant']} {cell['data_type']}: {cell['differs']}"


if __name__ == "__main__":
    main()

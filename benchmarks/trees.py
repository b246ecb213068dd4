"""Two checkouts of this repository, timed beside each other over the cells of the first operators.

    python benchmarks/trees.py OLD NEW --json results.json
    python benchmarks/trees.py OLD NEW --platform cpu --group TILE --budget 500
    taskset -c 0,1 python benchmarks/trees.py OLD --self

Each checkout runs in a process of its own; both measure a cell, in turn, before the next begins.
The ways: `donated`, as all that a program does, into memory that is there; `jit`, inside of a
jax.jit of the user's own, whose outputs the call allocates. The newer checkout times the plain
jax.numpy expression of its table as well, both ways. Cells come from cells_of_14.json, in an order
of which every beginning has all groups, so that a budget of seconds takes a fair sample.

Ratios are old over new, and plain over new: above 1 the new tree is faster.
"""

import argparse
import contextlib
import functools
import json
import math
import os
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

CELLS = Path(__file__).parent / "cells_of_14.json"
WAYS = ("donated", "jit")
SLOWER = 1.3  # times as long, from which on a cell is listed
ROTATED = {"cpu": 2**28, "gpu": 2**30}  # bytes that calls go through before they come back
MOST_SETS = {"cpu": 64, "gpu": 16}  # sets of data; on a GPU one program does all of them

say = functools.partial(print, flush=True)


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("trees", nargs="+", type=Path, help="the older checkout, and the newer one")
    add("--self", action="store_true", help="the last checkout beside itself")
    add("--platform", help="cpu or cuda; JAX's default if left out")
    add("--group", action="append", default=[], help="only cells of this group")
    add("--way", action="append", choices=WAYS, help="only this way")
    add("--seconds", type=float, default=0.2, help="of samples for each cell, way and checkout")
    add("--budget", type=float, default=math.inf, help="seconds, after which the comparison ends")
    add("--bytes", type=float, default=2**20, help="that a cell moves at least")
    add("--cells", type=int, help="at most so many")
    add("--json", type=Path, help="write all times to this file")
    add("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.self:
        options.trees = [options.trees[-1]] * 2
    if not options.worker and len(options.trees) != 2:
        parser.error("expected two checkouts, or one and --self")
    options.way = options.way or list(WAYS)
    return options


def chosen(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the cells in an order of which every beginning is spread evenly over the groups."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for cell in json.loads(CELLS.read_text()):
        if cell["bytes"] >= options.bytes and cell["group"] in (options.group or [cell["group"]]):
            groups.setdefault(cell["group"], []).append(cell)
    golden = (math.sqrt(5) - 1) / 2
    placed = [
        ((place + 0.5) / len(cells), cell)
        for cells in groups.values()
        for place, cell in enumerate(sorted(cells, key=lambda c: cells.index(c) * golden % 1))
    ]
    return [cell for _, cell in sorted(placed, key=lambda pair: pair[0])][: options.cells]


# In the process of a checkout.


def as_tuple(results: Any) -> tuple[Any, ...]:
    """Return results as a tuple, also a single one."""
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


class Worker:
    """Times cells with the package that this process imports."""

    def __init__(self, options: argparse.Namespace):
        import jax

        self.jax, self.options = jax, options
        self.device = jax.devices(options.platform)[0]
        self.kind = "cpu" if self.device.platform == "cpu" else "gpu"

    def measure(self, cell: dict[str, Any], with_plain: bool) -> dict[str, list[float]]:
        """Return samples in seconds, by way, and by "plain" and way."""
        operator, inputs, outputs, transformed = self.read(cell)
        functions = {"": operator}
        if with_plain:
            functions["plain "] = expression(operator)
        inputs_of_sets = self.data(inputs, outputs)
        samples: dict[str, list[float]] = {}
        for name, function in functions.items():
            for way in self.options.way:
                alone = way == "donated" and not name
                run = self.program(transformed, function, alone, way, inputs_of_sets, outputs)
                samples[name + way] = self.sampled(run)
        return samples

    def read(self, cell: dict[str, Any]) -> tuple[Any, list[Any], list[Any], Any]:
        """Return the operator or graph, types of arrays, and what to make of its function."""
        import dml_jax

        jax, how = self.jax, cell.get("transformation")
        if "graph" in cell:
            function: Any = dml_jax.Graph.from_json(cell["graph"])
        else:
            function = dml_jax.Operator.from_json(cell["operator"])
        inputs, outputs = (
            [jax.ShapeDtypeStruct(tuple(t.sizes), t.dtype) for t in tensors]
            for tensors in (function.inputs, function.outputs)
        )
        if how is None:
            return function, inputs, outputs, lambda f: f
        if how["kind"] == "gradient":
            count = len(inputs)

            def gradient(f: Callable[..., Any]) -> Callable[..., Any]:
                def call(*arrays: Any) -> Any:
                    results, transposed = jax.vjp(f, *arrays[:count])
                    return transposed(
                        jax.tree.unflatten(jax.tree.structure(results), arrays[count:])
                    )

                return call

            return function, [*inputs, *outputs], inputs, gradient
        axis, size = how["axis"], how["size"]

        def mapped(types: Sequence[Any]) -> list[Any]:
            shapes = [(*t.shape[:axis], size, *t.shape[axis:]) for t in types]
            return [jax.ShapeDtypeStruct(s, t.dtype) for s, t in zip(shapes, types, strict=True)]

        return function, mapped(inputs), mapped(outputs), lambda f: jax.vmap(f, axis, axis)

    def data(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Make several sets of inputs, so that none is in a cache when its turn comes."""
        jax = self.jax
        moved = sum(math.prod(t.shape) * t.dtype.itemsize for t in (*inputs, *outputs))
        count = min(max(ROTATED[self.kind] // moved, 2), MOST_SETS[self.kind])

        def draw(key: Any, t: Any) -> Any:
            if t.dtype.kind == "f":
                return jax.random.uniform(key, t.shape, t.dtype, 0.5, 1.5)
            low, high = (0, 2**31 - 1) if t.dtype.itemsize >= 4 else (0, 200)
            return jax.random.randint(key, t.shape, low, high, "int32").astype(t.dtype)

        with jax.default_device(self.device):
            drawn = [jax.jit(functools.partial(draw, t=t)) for t in inputs]
            keys = jax.random.split(jax.random.key(0), count * len(inputs))
            return [
                tuple(f(keys[s * len(inputs) + i]) for i, f in enumerate(drawn))
                for s in range(count)
            ]

    def program(
        self,
        transformed: Any,
        function: Any,
        alone: bool,
        way: str,
        data: Sequence[tuple[Any, ...]],
        outputs: Sequence[Any],
    ) -> tuple[Callable[[int], Any], int]:
        """Compile one way; return a call that takes a turn's number, and how many sets it does."""
        jax = self.jax
        sets = len(data) if self.kind == "gpu" else 1
        call, told = transformed(function), {}
        if alone:
            call = getattr(call, "whole", call)
            told = compiler_options(function) if self.kind == "cpu" else {}

        def each(xs: Any) -> Any:
            return as_tuple(call(*xs))

        def donated(_: Any, inputs: Sequence[Any]) -> list[Any]:
            made: list[Any] = []
            for xs in inputs:
                if made:  # so that XLA has no reason to merge them
                    xs, made[-1] = jax.lax.optimization_barrier((xs, made[-1]))
                made.append(each(xs))
            return made

        if way == "jit":
            several = jax.jit(functools.partial(donated, None))
            compiled = several.lower(data[:sets]).compile()
            return lambda turn: compiled(_turn(data, turn, sets)), sets
        held = [
            tuple(jax.device_put(jax.numpy.zeros(t.shape, t.dtype), self.device) for t in outputs)
            for _ in data
        ]
        into = jax.jit(donated, donate_argnums=0, keep_unused=True, compiler_options=told)
        compiled = into.lower(held[:sets], data[:sets]).compile()

        def run(turn: int) -> Any:
            start = turn * sets % len(data)
            held[start : start + sets] = compiled(
                held[start : start + sets], _turn(data, turn, sets)
            )
            return held[start : start + sets]

        return run, sets

    def sampled(self, program: tuple[Callable[[int], Any], int]) -> list[float]:
        """Return seconds a set, of as many samples as there is time for; three, if not too slow."""
        (run, sets), wait = program, self.jax.block_until_ready
        wait(run(0))
        begin, turn, calls, patience = time.perf_counter(), 0, 1, 10
        samples = list[float]()
        while not samples or time.perf_counter() - begin < self.options.seconds * patience:
            patience = 10 if len(samples) < 2 else 1
            start = time.perf_counter()
            result = None
            for _ in range(calls):
                turn += 1
                result = run(turn)
                if self.kind == "cpu":
                    wait(result)
            wait(result)
            took = time.perf_counter() - start
            samples.append(took / (calls * sets))
            if took < 2e-3 and len(samples) < 3:  # too short for the clock
                samples.clear()
                calls *= 4
        return samples


def _turn(data: Sequence[Any], turn: int, sets: int) -> list[Any]:
    start = turn * sets % len(data)
    return list(data[start : start + sets])


def compiler_options(function: Any) -> dict[str, Any]:
    """Return what older checkouts tell XLA of a program that is this function."""
    for module in ("dml_jax.operator", "dml_jax.operator.callable"):
        with contextlib.suppress(ImportError, AttributeError):
            return sys.modules[module].compiler_options(function)
    return {}


def expression(function: Any) -> Callable[..., Any]:
    """Return the jax.numpy expression of an operator or a graph, of this checkout's table."""
    for module in ("expressions", "dml_jax.bench.plain"):
        with contextlib.suppress(ImportError):
            return __import__(module, fromlist=["expression"]).expression(function)
    raise ImportError("expected the checkout to have a table of plain expressions")


def serve(options: argparse.Namespace) -> None:
    """Measure the cells that come on standard input, one a line."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    worker = Worker(options)
    for line in sys.stdin:
        cell, with_plain = json.loads(line)
        try:
            answer: Any = worker.measure(cell, with_plain)
        except Exception as error:
            answer = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


# In the process that asks.


class Tree:
    """A checkout, in a process of its own."""

    def __init__(self, folder: Path, options: argparse.Namespace):
        paths = [str(folder.resolve()), str((folder / "benchmarks").resolve())]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        }
        if options.platform:
            environment["JAX_PLATFORMS"] = options.platform
        command = [sys.executable, __file__, "--worker", str(folder)]
        for name in ("seconds", "platform"):
            if getattr(options, name) is not None:
                command += [f"--{name}", str(getattr(options, name))]
        for way in options.way:
            command += ["--way", way]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, text=True, cwd=folder, env=environment
        )

    def measure(self, cell: dict[str, Any], with_plain: bool, seconds: float | None) -> Any:
        """Return samples by way, or a text that says what went wrong.

        Raises TimeoutError where the answer takes longer than so many seconds.
        """
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps([cell, with_plain]) + "\n")
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            raise TimeoutError(cell["name"])
        line = self.process.stdout.readline()
        return json.loads(line) if line else "the process ended"


def compared(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield, for each cell, the median microseconds of both checkouts and of the expression."""
    cells, begin = chosen(options), time.perf_counter()
    trees = [Tree(folder, options) for folder in options.trees]
    try:
        for number, cell in enumerate(cells):
            answers: list[Any] = [None, None]
            for place in (0, 1) if number % 2 else (1, 0):
                left = begin + options.budget - time.perf_counter()
                answers[place] = trees[place].measure(cell, place == 1, _timeout(left))
            wrong = [answer for answer in answers if isinstance(answer, str)]
            if wrong:
                say(f"{cell['name']}: {wrong[0]}", file=sys.stderr)
                continue
            old, new = (
                {way: statistics.median(samples) * 1e6 for way, samples in answer.items()}
                for answer in answers
            )
            yield {"group": cell["group"], "name": cell["name"], "old": old, "new": new}
            if number % 20 == 19:
                spent = time.perf_counter() - begin
                say(f"{number + 1} of {len(cells)} cells, {spent:.0f} s", file=sys.stderr)
    except TimeoutError as error:
        say(f"the budget was over at {error}", file=sys.stderr)
    finally:
        for tree in trees:
            tree.process.kill()


def _timeout(left: float) -> float | None:
    return None if left == math.inf else max(left, 0)


def ratios(results: Sequence[dict[str, Any]], way: str) -> dict[str, float]:
    """Return geometric means over cells: old over new, plain over new, plain over old."""

    def mean(of: Callable[[dict[str, Any]], float]) -> float:
        return statistics.geometric_mean(map(of, results))

    plain = f"plain {way}"
    return {
        "old/new": mean(lambda r: r["old"][way] / r["new"][way]),
        "plain/new": mean(lambda r: r["new"][plain] / r["new"][way]),
        "plain/old": mean(lambda r: r["new"][plain] / r["old"][way]),
    }


def show(results: Sequence[dict[str, Any]], ways: Sequence[str]) -> None:
    """Print means by group, and the cells that the newer checkout takes longer for."""
    groups = {"all": list(results)}
    for result in results:
        groups.setdefault(result["group"], []).append(result)
    for way in ways:
        say(f"\n{way:30} cells  old/new  plain/new  plain/old")
        for group, some in groups.items():
            values = ratios(some, way)
            row = (
                f"{values['old/new']:8.2f} {values['plain/new']:10.2f} {values['plain/old']:10.2f}"
            )
            say(f"{group:30} {len(some):5} {row}")
        slower = [(r["new"][way] / r["old"][way], r) for r in results]
        slower = sorted((s for s in slower if s[0] > SLOWER), key=lambda s: -s[0])
        say(f"{len(slower)} cells take more than {SLOWER} times as long:")
        for ratio, r in slower:
            say(f"  {ratio:5.2f} {r['old'][way]:9.1f} {r['new'][way]:9.1f} us  {r['name']}")


def main() -> None:
    """Compare, show and write."""
    options = parsed()
    if options.worker:
        return serve(options)
    results = list(compared(options))
    if not results:
        sys.exit("no cell was measured")
    show(results, options.way)
    if options.json:
        described = {"trees": [*map(str, options.trees)], "argv": sys.argv[1:], "cells": results}
        options.json.write_text(json.dumps(described, indent=1) + "\n")
    return None


if __name__ == "__main__":
    main()

"""What the package costs beside what `dml-jax bench` shows: `python benchmarks/overhead.py`.

Microseconds of eager calls of operators and functions; milliseconds a node to check and trace
graphs; milliseconds to trace and compile operators over large tensors, beside the straightforward
expressions. Descriptors, jitted calls and the compile times of small cells are the bench's.
"""

import argparse
import functools
import statistics
import time
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from expressions import expression
from small import compile_times
from table import MAIN, cells

import dml_jax
from dml_jax import ElementWiseClip, GraphBuilder, TensorDesc
from dml_jax.bench.timing import Contender, interleaved

say = functools.partial(print, flush=True)


def calls() -> None:
    """What an eager call costs over the same program by hand."""
    x = jnp.ones((1, 1, 3, 3), jnp.float32)
    tensor = TensorDesc.of(x)
    op = ElementWiseClip(input_tensor=tensor, output_tensor=tensor, min=0, max=1)
    by_hand = jax.jit(lambda x: jnp.clip(x, 0, 1))
    contenders = {
        "jitted by hand": Contender(lambda _: by_hand(x)),
        "operator": Contender(lambda _: op(x)),
        "clip()": Contender(lambda _: dml_jax.clip(x, 0, 1)),
        "reduce()": Contender(lambda _: dml_jax.reduce(x, "SUM", [3])),
    }
    for name, times in interleaved(contenders, samples=31, give_up=100).items():
        say(f"eager call, {name}: {times.median * 1e6:.1f} us")


def graphs() -> None:
    """Graphs of many nodes: checking and tracing are linear."""
    for count in (50, 200, 800):
        builder = GraphBuilder()
        value = builder.input_tensor("x", TensorDesc("FLOAT32", [4, 16]))
        for index in range(count):
            value = dml_jax.clip(value, -1 - index, 1 + index)
        start = time.perf_counter()
        graph = builder.build(value)
        checked = time.perf_counter()
        jax.make_jaxpr(graph)(jnp.zeros((4, 16), jnp.float32))
        traced = time.perf_counter()
        per_node = [1e3 * t / count for t in (checked - start, traced - checked)]
        say(f"graph of {count} nodes, ms a node: check {per_node[0]:.3f}, trace {per_node[1]:.3f}")


def compiling() -> None:
    """Programs over the table's main sizes, by kind of cell; the least favourable by name."""
    times: dict[str, list[tuple[float, float, str]]] = {}
    for cell in cells():
        if cell.tensor.sizes == MAIN:
            functions = {
                "plain": expression(cell.function),
                "ours": cell.function,
            }
            inputs = [jax.ShapeDtypeStruct(t.sizes, t.dtype) for t in cell.function.inputs]
            took = compile_times(functions, inputs, rounds=2)
            found = (took["ours"] / took["plain"], took["ours"], cell.name)
            times.setdefault(cell.group, []).append(found)
    for group, measured in times.items():
        ratio, most, name = max(measured)
        mean = statistics.geometric_mean(ratio for ratio, _, _ in measured)
        say(f"compile {group}: {mean:.2f} of plain, at most {ratio:.2f} ({most:.0f} ms, {name})")
    ratios = [ratio for measured in times.values() for ratio, _, _ in measured]
    above = sum(ratio > 1.5 for ratio in ratios)
    mean = statistics.geometric_mean(ratios)
    say(f"compile all {len(ratios)} programs: {mean:.2f} of plain, {above} above 1.5")


PARTS = {"calls": calls, "graphs": graphs, "compiling": compiling}


def main(argv: Sequence[str] | None = None) -> None:
    """Prints a line for each figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", nargs="*", help=f"of {', '.join(PARTS)}; all, if none is named")
    parts = parser.parse_args(argv).part
    if unknown := set(parts).difference(PARTS):
        parser.error(f"expected part to be of {', '.join(PARTS)}, got {min(unknown)!r}")
    say(f"{jax.devices()[0].device_kind}, jax {jax.__version__}")
    for part in parts or PARTS:
        PARTS[part]()


if __name__ == "__main__":
    main()

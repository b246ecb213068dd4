"""What the package costs beside what `dml-jax bench` shows: `python benchmarks/overhead.py`.

Microseconds of eager calls of operators and functions; milliseconds a node to check and trace
graphs. Descriptors, jitted calls and compile times are the bench's.
"""

import sys
import time

import jax
import jax.numpy as jnp

import dml_jax
from dml_jax import ElementWiseClip, GraphBuilder, TensorDesc
from dml_jax.bench.timing import Contender, interleaved


def say(line: str) -> None:
    """A line on stdout, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


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


if __name__ == "__main__":
    say(f"{jax.devices()[0].device_kind}, jax {jax.__version__}")
    for part in (calls, graphs):
        part()

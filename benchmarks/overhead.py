"""What the package costs beside the work: `python benchmarks/overhead.py`.

Microseconds to make and check descriptors and to call eagerly; milliseconds of a CLIP of 64 MB
whose output is allocated, bound, and bound in place; milliseconds a node to check and trace graphs.
"""

import sys
import time
import timeit
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from timing import interleaved, row

import dml_jax
from dml_jax import Buffer, ElementWiseClip, GraphBuilder, Reduce, TensorDesc


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def microseconds(function: Callable[[], object], number: int = 2000) -> float:
    """The best of several rounds' means: what is left is the function, not the machine."""
    function()
    return min(timeit.repeat(function, number=number, repeat=7)) / number * 1e6


def descriptors() -> None:
    """What a descriptor costs."""
    x, y = TensorDesc("FLOAT32", [1, 1, 3, 3]), TensorDesc("FLOAT32", [1, 1, 3, 1])
    made = {
        "TensorDesc": lambda: TensorDesc("FLOAT32", [1, 1, 3, 3]),
        "Reduce": lambda: Reduce(function="SUM", input_tensor=x, output_tensor=y, axes=[3]),
        "ElementWiseClip": lambda: ElementWiseClip(input_tensor=x, output_tensor=x, min=0, max=1),
    }
    for name, function in made.items():
        say(f"make and check {name}: {microseconds(function):.1f} us")


def calls() -> None:
    """What an eager call costs over the same program by hand."""
    x = jnp.ones((1, 1, 3, 3), jnp.float32)
    tensor = TensorDesc.of(x)
    op = ElementWiseClip(input_tensor=tensor, output_tensor=tensor, min=0, max=1)
    by_hand = jax.jit(lambda x: jnp.clip(x, 0, 1))
    for name, function in {
        "jitted by hand": lambda: by_hand(x),
        "operator": lambda: op(x),
        "clip()": lambda: dml_jax.clip(x, 0, 1),
        "reduce()": lambda: dml_jax.reduce(x, "SUM", [3]),
    }.items():
        say(f"eager call, {name}: {microseconds(function):.1f} us")


def memory() -> None:
    """Outputs that a call allocates, and outputs that are bound."""
    tensor = TensorDesc("FLOAT32", [64, 512, 512])
    op = ElementWiseClip(input_tensor=tensor, output_tensor=tensor, min=-1, max=1)
    compiled = dml_jax.compile(op)
    x = np.random.default_rng(0).standard_normal(tensor.sizes).astype(np.float32)
    source, target, both = Buffer(x), Buffer.of(tensor), Buffer(x)
    bound, in_place = compiled.bind([source], [target]), compiled.bind([both], [both])

    def run(table: dml_jax.BindingTable) -> None:
        table.dispatch()
        table.wait()

    times = interleaved(
        {
            "allocated": lambda: compiled(source.array),
            "bound": lambda: run(bound),
            "in place": lambda: run(in_place),
        }
    )
    say(row("CLIP of 64 MB, ms", times))


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
    for part in (descriptors, calls, memory, graphs):
        part()

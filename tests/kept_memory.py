"""What stays in memory of programs and descriptions, in a process of its own; Linux only.

`python tests/kept_memory.py 100 1000` compares the memory after 100 and after 1,000 programs.
"""

import gc
import sys
import weakref
from pathlib import Path

import jax.numpy as jnp
import numpy as np

import dml_jax
from dml_jax import ElementWiseClip, TensorDesc

MIB = 50  # that later programs may add


def resident() -> float:
    """Return the MiB of memory that the process has."""
    gc.collect()
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


x = np.ones((4, 4), np.float32)
tensor = TensorDesc.of(x)


def clips(first: int, end: int) -> float:
    """Compute CLIP with a bound for each number, in turn by all ways of a call."""
    for high in map(float, range(first, end)):
        op = ElementWiseClip(input_tensor=tensor, output_tensor=tensor, min=0, max=high)
        match high % 4:
            case 0:
                dml_jax.clip(x, 0, high)
            case 1:
                dml_jax.clip(jnp.asarray(x, "bfloat16"), 0, high)
            case 2:
                op(x)
            case _:
                dml_jax.compile(op)(x)
    return resident()


def graph() -> dml_jax.Graph:
    """Return a graph with weights."""
    builder = dml_jax.GraphBuilder()
    weights = builder.constant(np.ones((512, 512), np.float32))
    a = builder.input_tensor("a", TensorDesc("FLOAT32", [512, 512]))
    return builder.build([a + weights])


def is_freed(reference: weakref.ref) -> bool:
    gc.collect()
    return reference() is None


few, many = map(int, sys.argv[1:])
before = clips(0, few)
after = clips(few, many)
assert after < before + MIB, (before, after)

made = graph()
made(np.ones((512, 512), np.float32))
kept = weakref.ref(made)
del made
assert is_freed(kept), "the graph"

compiled = dml_jax.compile(graph())
compiled(np.ones((512, 512), np.float32))
kept = weakref.ref(compiled)
del compiled
assert is_freed(kept), "the compiled graph"

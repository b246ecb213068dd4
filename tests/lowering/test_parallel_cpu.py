"""Loops that all cores of a CPU of many share."""

import json
import math
import os
import re
import subprocess
import sys
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from forms import by_many_cores

from dml_jax import DepthToSpace1, Operator, Reduce, ReduceFunction, SpaceToDepth1, TensorDesc, Tile
from dml_jax.lowering import parallel_cpu
from dml_jax.system.processor import cores as host_cores

# XLA has as many threads as NPROC says. Of cores it knows those that are there, so that loops that
# do little for each byte it gives to less than half of 16.
CORES = 16
SIZES = [8, 16, 64, 256]
PROGRAMS = f"""
import json, sys, jax
from dml_jax import Operator, TensorDesc
from dml_jax.lowering import parallel_cpu
from dml_jax.lowering.reduce import cpu

parallel_cpu.cores = cpu.cores = lambda: {CORES}
texts = {{}}
for text in json.load(sys.stdin):
    op = Operator.from_json(text)
    xs = [jax.ShapeDtypeStruct(tuple(t.sizes), t.dtype) for t in op.inputs]
    texts[repr(op)] = jax.jit(lambda *xs, op=op: op(*xs)).lower(*xs).compile().as_text()
print(json.dumps(texts))
"""


def operators() -> list[Operator]:
    """What moves or reduces some megabytes, one after the other of each kind."""
    tensor = TensorDesc("FLOAT32", SIZES)
    blocks = {"input_tensor": tensor, "block_size": 2, "order": "DEPTH_COLUMN_ROW"}
    found: list[Operator] = [
        DepthToSpace1.infer(**blocks),
        SpaceToDepth1.infer(**blocks),
        Tile.infer(input_tensor=tensor, repeats=[1, 2, 1, 2]),
    ]
    for function in ReduceFunction:
        for axes in ([0], [1], [3], [2, 3], [0, 1, 2, 3]):
            found.append(Reduce.infer(function=function, input_tensor=tensor, axes=axes))
    return found


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or host_cores() > CORES // 2,
    reason="XLA gives a loop to half of 16 threads by itself, or may, where it has more cores",
)
def test_all_cores_share_the_loops_of_operators_with_forms():
    """Of some megabytes."""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "NPROC": str(CORES)}
    command, ops = [sys.executable, "-c", PROGRAMS], operators()
    given = json.dumps([op.to_json() for op in ops])
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, input=given
    )
    texts = json.loads(done.stdout)
    assert texts.keys() == {repr(op) for op in ops}
    most = {name: max(_cores_of_loops(text), default=0) for name, text in texts.items()}
    assert not [name for name, count in most.items() if count < CORES // 2]
    assert not any(" xor(" in line for text in texts.values() for line in _alone(text)), "stored"


def _cores_of_loops(text: str) -> list[int]:
    """How many share each loop of an optimised program: all share a library's."""
    found = re.findall(r'(__ynn_fusion"}.*)?outer_dimension_partitions":\[([^\]]*)\]', text)
    return [
        CORES if library else math.prod(map(int, re.findall(r"\d+", parts)))
        for library, parts in found
    ]


def _alone(text: str) -> list[str]:
    """What is not fused."""
    return text[text.index("ENTRY") :].splitlines()


@pytest.mark.parametrize("count, idle", [(1, False), (2, False), (3, True), (4, True), (64, True)])
def test_cores_that_xla_leaves_idle(count: int, idle: bool):
    """Two share every loop, of three and more the square root, rounded up."""
    x = jnp.ones((64, parallel_cpu.MUCH // 64), jnp.float32)
    with mock.patch.object(parallel_cpu, "cores", lambda: count):
        assert parallel_cpu.leave_cores_idle() == idle
        assert (parallel_cpu.written_by_all_cores(x) is not x) == idle
        little = x[:1]
        assert parallel_cpu.written_by_all_cores(little) is little


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint8"])
@pytest.mark.parametrize("arrays", [1, 9])
def test_bits_stay_as_they_are(dtype: str, arrays: int):
    """Of all numbers, NaN of any payload and -0.0 too."""
    bits = np.random.default_rng(0).integers(0, 256, 2**12, np.uint8)
    x = bits.view(dtype).reshape(2, -1, 4)
    with by_many_cores():
        operations = jax.make_jaxpr(lambda x: parallel_cpu.written_by_all_cores(x, arrays))(x)
        written = jax.jit(lambda x: parallel_cpu.written_by_all_cores(x, arrays))(x)
        read = jax.jit(lambda x: parallel_cpu.read_by_all_cores(x, x.size))(x)
    for y in (written, read):
        assert y.dtype == x.dtype
        np.testing.assert_array_equal(np.asarray(y).view(np.uint8), x.view(np.uint8))
    assert len(operations.eqns) > (arrays + 1) * x.dtype.itemsize

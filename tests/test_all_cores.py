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
from forms import by_many_cores, nothing_traced
from table import TRANSFORMED, cells, named_kinds

from dml_jax.host import cores
from dml_jax.lowering import all_cores_cpu, loops_cpu

# XLA has as many threads as NPROC says. Of cores it knows those that are there, so that loops that
# do little for each byte it gives to less than half of 16.
CORES = 16
SIZES = (8, 16, 64, 256)
# Derivatives of what moves elements, and batches of it, are JAX's own.
KINDS = [kind for kind in named_kinds() if kind not in TRANSFORMED]
PROGRAMS = f"""
import json, jax
from table import cells
from dml_jax.lowering import loops_cpu
from dml_jax.bindable import whole_program

loops_cpu.CORES = {CORES}
texts = {{}}
for cell in cells({KINDS}, sizes=[{SIZES}]):
    function = whole_program(cell.function)
    xs = [jax.ShapeDtypeStruct(tuple(t.sizes), t.dtype) for t in cell.function.inputs]
    texts[cell.name] = jax.jit(lambda *xs: function(*xs)).lower(*xs).compile().as_text()
print(json.dumps(texts))
"""


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or cores() > CORES // 2,
    reason="XLA gives a loop to half of 16 threads by itself, or may, where it has more cores",
)
def test_all_cores_share_the_loops_of_every_operator():
    """Of some megabytes."""
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "NPROC": str(CORES),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-c", PROGRAMS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    texts = json.loads(done.stdout)
    assert texts.keys() == {cell.name for cell in cells(KINDS, sizes=[SIZES])}
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
    x = jnp.ones((64, all_cores_cpu.MUCH // 64), jnp.float32)
    with mock.patch.object(loops_cpu, "CORES", count):
        assert all_cores_cpu.leave_cores_idle() == idle
        assert (all_cores_cpu.written_by_all_cores(x) is not x) == idle
        little = x[:1]
        assert all_cores_cpu.written_by_all_cores(little) is little


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint8", "int8", "uint16"])
@pytest.mark.parametrize("arrays", [1, 2, 9])
def test_bits_stay_as_they_are(dtype: str, arrays: int):
    """Of all numbers, NaN of any payload and -0.0 too."""
    bits = np.random.default_rng(0).integers(0, 256, 2**12, np.uint8)
    x = bits.view(dtype).reshape(2, -1, 4)
    with by_many_cores():
        operations = jax.make_jaxpr(lambda x: all_cores_cpu.written_by_all_cores(x, arrays))(x)
        written = jax.jit(lambda x: all_cores_cpu.written_by_all_cores(x, arrays))(x)
        (read,) = jax.jit(lambda x: all_cores_cpu.read_by_all_cores((x,), x.size))(x)
    for y in (written, read):
        assert y.dtype == x.dtype
        np.testing.assert_array_equal(np.asarray(y).view(np.uint8), x.view(np.uint8))
    assert len(operations.eqns) > (arrays + 1) * x.dtype.itemsize


def test_derivatives_of_what_is_computed_by_all_cores():
    """It is itself's: of the first order, of the second, in a batch, and eagerly."""

    def cubed(x: jax.Array) -> jax.Array:
        return all_cores_cpu.by_all_cores(x) ** 3

    x = np.linspace(-2, 2, 8, dtype=np.float32)
    with by_many_cores(), nothing_traced():
        for transform in (lambda f: f, jax.jit):
            second = transform(jax.vmap(jax.grad(jax.grad(cubed))))
            np.testing.assert_allclose(second(x), 6 * x, rtol=1e-6)
            _, slope = transform(lambda x: jax.jvp(cubed, (x,), (x,)))(x)
            np.testing.assert_allclose(slope, 3 * x**3, rtol=1e-6)

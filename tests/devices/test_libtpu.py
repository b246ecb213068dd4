"""Forms for a TPU give the same, on this machine; its compiler takes them, if there is libtpu.

No TPU is needed.
"""

import importlib.util
import os
import re
from collections.abc import Callable
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from devices.test_sharding import KINDS
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P
from records import combinations, record_of

import dml_jax
from dml_jax import DepthSpaceOrder, ReduceFunction
from dml_jax.bench.cells import Cell, cells

MOVING = ("REDUCE", "ARGMAX", "JOIN", "SPLIT", "TILE", "DEPTH_TO_SPACE1", "SPACE_TO_DEPTH1")


@pytest.fixture(scope="module")
def devices():
    """Four of a v5e, for which programs compile; they run nowhere."""
    if importlib.util.find_spec("libtpu") is None:
        pytest.skip("libtpu is not installed: pip install 'jax[tpu]'")
    with mock.patch.dict("os.environ"):
        # Read when libtpu is loaded: no other machines are to be asked what this one is.
        os.environ |= {
            "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
            "TPU_SKIP_MDS_QUERY": "1",
            "TPU_ACCELERATOR_TYPE": "v5litepod-4",
            "TPU_WORKER_HOSTNAMES": "localhost",
            "TPU_WORKER_ID": "0",
        }
        yield topologies.get_topology_desc("v5e:2x2", "tpu").devices


def _compiled(function: Callable[..., Any], *arguments: jax.ShapeDtypeStruct) -> Any:
    return jax.jit(function).trace(*arguments).lower(lowering_platforms=("tpu",)).compile()


@pytest.mark.parametrize("cell", cells(MOVING, mebibytes=[64])[::5], ids=lambda cell: cell.name)
def test_takes_the_table(devices: Any, cell: Cell):
    """Axes of a few elements in the last place would be padded to 128: to many times the memory."""
    place = SingleDeviceSharding(devices[0])
    function = getattr(cell.function, "whole", cell.function)
    shapes = [jax.ShapeDtypeStruct(t.sizes, t.dtype, sharding=place) for t in cell.function.inputs]
    found = _compiled(function, *shapes).memory_analysis()
    assert found.temp_size_in_bytes <= 3 * cell.bytes + 2**20


@pytest.mark.parametrize("name", sorted(dml_jax.OPERATORS))
def test_takes_every_operator(devices: Any, name: str):
    op_class = dml_jax.OPERATORS[name]
    record, rng = record_of(op_class), np.random.default_rng(len(name))
    (types, _), *_ = combinations(op_class, record)
    made = dml_jax.compile(record.operator(rng, op_class, types), device=devices[0])
    assert "ENTRY" in made.as_text()


@pytest.mark.parametrize("order", [str(order) for order in DepthSpaceOrder])
@pytest.mark.parametrize("block", [2, 3])
def test_takes_bytes_in_blocks(devices: Any, block: int, order: str):
    """In one transposition libtpu 0.0.42 has no memory for them (CompileTimeScopedVmemOom)."""
    place = SingleDeviceSharding(devices[0])
    deep = jax.ShapeDtypeStruct((8, 16 * block**2, 256, 256), jnp.uint8, sharding=place)
    wide = jax.ShapeDtypeStruct((8, 16, 256 * block, 256 * block), jnp.uint8, sharding=place)
    _compiled(lambda x: dml_jax.depth_to_space(x, block, order), deep)
    _compiled(lambda x: dml_jax.space_to_depth(x, block, order), wide)


@pytest.mark.parametrize("spec", [P("a"), P(None, "a")], ids=str)
@pytest.mark.parametrize("function", [str(function) for function in ReduceFunction])
def test_reduces_across_devices(devices: Any, function: str, spec: P):
    """Libtpu has no custom_partitioning (jax-ml/jax issue 38196)."""
    mesh = Mesh(np.array(devices).reshape(4), ("a",))
    x = jax.ShapeDtypeStruct((8, 16, 256), jnp.float32, sharding=NamedSharding(mesh, spec))
    text = _compiled(lambda x: dml_jax.reduce(x, function, [1, 2]), x).as_text()
    sent = set(re.findall(rf" ({KINDS})(?:-start)?\(", text))
    assert sent == ({"all-reduce"} if spec == P(None, "a") else set())


@pytest.mark.parametrize("function", ["MAX", "L2", "LOG_SUM_EXP", "MULTIPLY"])
def test_derives_across_devices(devices: Any, function: str):
    mesh = Mesh(np.array(devices).reshape(4), ("a",))
    place = NamedSharding(mesh, P(None, "a"))
    x = jax.ShapeDtypeStruct((8, 16, 256), jnp.float32, sharding=place)
    text = _compiled(jax.grad(lambda x: dml_jax.reduce(x, function, [1, 2]).sum()), x).as_text()
    assert "all-reduce" in text or "collective-permute" in text

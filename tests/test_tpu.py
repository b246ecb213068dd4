"""Forms for a TPU give the same, on this machine. `test_libtpu.py`: what its compiler takes."""

import functools
import itertools
from typing import Any
from unittest import mock

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import SAMPLES, random_array

from dml_jax.lowering import arrangement, memory

MOVING = ["DEPTH_TO_SPACE", "DEPTH_TO_SPACE1", "SPACE_TO_DEPTH", "SPACE_TO_DEPTH1", "TILE"]


def _for_tpu(*xs: Any, default: Any, tpu: Any = None, **others: Any) -> Any:
    return (tpu or default)(*xs)


for_tpu = functools.partial(mock.patch.object, jax.lax, "platform_dependent", _for_tpu)


@pytest.mark.parametrize("name", [f"DML_OPERATOR_{name}" for name in MOVING])
@given(data=st.data())
def test_moves_elements(name: str, data: st.DataObject):
    sample = SAMPLES[name]
    op = sample.draw(data.draw, data.draw(st.sampled_from(["FLOAT32", "UINT8"])))
    xs = [random_array(sample, t, 3) for t in op.inputs]
    with for_tpu():
        results = jax.jit(lambda *xs: op.lower(*xs))(*xs)
    expected = sample.reference(op, *xs)
    for result, reference in zip(jax.tree.leaves(results), expected, strict=True):
        np.testing.assert_array_equal(result, reference)


@pytest.mark.parametrize("repeats", [(1, 40), (3, 17), (16, 1), (2, 33)])
@pytest.mark.parametrize("width", [1, 5])
def test_repeats_many_times(repeats: tuple[int, int], width: int):
    x = np.arange(2 * width, dtype=np.float32).reshape(2, width)
    with for_tpu():
        tiled = jax.jit(lambda x: arrangement.tile(x, repeats))(x)
        gradient = jax.jit(jax.grad(lambda x: (arrangement.tile(x, repeats) ** 2).sum()))(x)
    np.testing.assert_array_equal(tiled, np.tile(x, repeats))
    np.testing.assert_allclose(gradient, 2 * x * np.prod(repeats))


WORDS = ["uint8", "int8", "float16", "uint16", "float32", "int32", "float64"]


@pytest.mark.parametrize(("source", "target"), [*itertools.permutations(WORDS, 2)])
@pytest.mark.parametrize("size", [3, 8, 4096, 9999])
def test_views_bytes(source: str, target: str, size: int):
    raw = np.random.default_rng(2).integers(0, 256, size * np.dtype(source).itemsize, np.uint8)
    whole = raw.size // np.dtype(target).itemsize * np.dtype(target).itemsize
    with for_tpu():
        view = jax.jit(functools.partial(memory.reinterpret, dtype=np.dtype(target)))
        assert np.asarray(view(raw.view(source))).tobytes() == raw[:whole].tobytes()

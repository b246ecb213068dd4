"""Forms for a TPU give the same, on this machine. `test_libtpu.py`: what its compiler takes."""

from typing import Any
from unittest import mock

import jax
import numpy as np
import pytest
from records import record_of

from dml_jax import DepthSpaceOrder, DepthToSpace1, SpaceToDepth1, TensorDesc


def _for_tpu(*xs: Any, default: Any, tpu: Any) -> Any:
    return tpu(*xs)


@pytest.mark.parametrize("order", DepthSpaceOrder, ids=str)
@pytest.mark.parametrize("cls", [DepthToSpace1, SpaceToDepth1])
def test_moves_elements(cls: Any, order: DepthSpaceOrder):
    op = cls.infer(
        input_tensor=TensorDesc("FLOAT32", [2, 18, 6, 9]), block_size=3, order=str(order)
    )
    (x,) = record_of(cls).arrays(np.random.default_rng(3), op)
    jax.clear_caches()
    with mock.patch.object(jax.lax, "platform_dependent", _for_tpu):
        result = jax.jit(lambda x: op.lower(x))(x)
    jax.clear_caches()
    (expected,) = record_of(cls).expected(op, [x])
    np.testing.assert_array_equal(result, expected)

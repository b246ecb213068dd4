"""Forms for a TPU give the same, on this machine. `test_libtpu.py`: what its compiler takes."""

from typing import Any
from unittest import mock

import jax
import numpy as np
import pytest
from samples import SAMPLES, random_array

from dml_jax import DepthSpaceOrder, DepthToSpace1, SpaceToDepth1, TensorDesc


def _for_tpu(*xs: Any, default: Any, tpu: Any) -> Any:
    return tpu(*xs)


@pytest.mark.parametrize("order", DepthSpaceOrder, ids=str)
@pytest.mark.parametrize("cls", [DepthToSpace1, SpaceToDepth1])
def test_moves_elements(cls: Any, order: DepthSpaceOrder):
    op = cls.infer(
        input_tensor=TensorDesc("FLOAT32", [2, 18, 6, 9]), block_size=3, order=str(order)
    )
    x = random_array(SAMPLES[op.c_name], op.inputs[0], 3)
    jax.clear_caches()
    with mock.patch.object(jax.lax, "platform_dependent", _for_tpu):
        result = jax.jit(lambda x: op.lower(x))(x)
    jax.clear_caches()
    (expected,) = SAMPLES[op.c_name].reference(op, x)
    np.testing.assert_array_equal(result, expected)

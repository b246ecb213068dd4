"""Forms of products and attention of one row, held to the plain ones on a CPU."""

from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from build import runtime, single
from forms import of_platform

import dml_jax
from dml_jax import load_onnx
from dml_jax.lowering import attention, one_row_products
from dml_jax.lowering.masking import Mask
from dml_jax.onnx.translators import microsoft_quantized
from dml_jax.rewrite import QUANTIZED, ROWS

RANDOM = np.random.RandomState(3)


def normal(*sizes: int) -> np.ndarray:
    return RANDOM.randn(*sizes).astype(np.float32)


@pytest.mark.parametrize("is_turned", [False, True])
def test_one_row_of_halves_is_multiplied_in_float32(is_turned: bool):
    a, b = normal(1, 300).astype(np.float16), normal(300, 40).astype(np.float16)
    expected = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float16)
    with of_platform("cuda"), mock.patch.object(one_row_products, "LARGE", 0):
        given = (b.T.copy(), None, "NONE", "TRANSPOSE") if is_turned else (b,)
        program = jax.jit(lambda a: dml_jax.gemm(a, *given))
        found = program(a)
        assert "dot_general" not in program.lower(a).as_text()
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-3)


QUANTIZED_PRODUCTS: dict[str, tuple[int, int, bool]] = {  # rows, K, has zero points
    "one row": (1, 64, False),
    "one row, zero points": (1, 96, True),
    "one row, part of a block": (1, 80, False),
    "three rows, zero points": (3, 96, True),
}


@pytest.mark.parametrize("name", QUANTIZED_PRODUCTS)
def test_quantized_weights_are_multiplied_as_they_are(name: str):
    rows, inner, has_zero = QUANTIZED_PRODUCTS[name]
    columns, blocks = 6, -(-inner // 32)
    arrays = {
        "x": normal(rows, inner),
        "w": RANDOM.randint(0, 256, (columns, blocks, 16)).astype(np.uint8),
        "s": normal(columns * blocks),
    }
    if has_zero:
        arrays["z"] = RANDOM.randint(0, 256, columns * (-(-blocks // 2))).astype(np.uint8)
    weights = [n for n in arrays if n != "x"]
    sizes: Any = {"K": inner, "N": columns, "bits": 4, "block_size": 32}
    model = single("MatMulNBits", arrays, constants=weights, domain="com.microsoft", **sizes)
    (expected,) = runtime(model, {"x": arrays["x"]})
    is_gpu = mock.patch.object(microsoft_quantized, "platform", lambda: "gpu")
    with is_gpu, of_platform("cuda"), mock.patch.object(one_row_products, "LARGE", 0):
        network = load_onnx(model, rewrites=[QUANTIZED])
        found = network(arrays["x"])["y"]
    assert network.rewrites[QUANTIZED.name] == (inner % 32 == 0)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_a_dequantize_without_zero_points_counts_from_0():
    builder = dml_jax.GraphBuilder()
    x = builder.input_tensor("x", dml_jax.TensorDesc("FLOAT32", (1, 64)))
    packed, scale = RANDOM.randint(0, 256, (8, 32)).astype(np.uint8), normal(8, 2)
    whole = builder.constant(packed).reinterpret((8, 64), None, "UINT4")
    real = dml_jax.dequantize(whole, [builder.constant(scale)], "SCALE")
    graph = builder.build({"y": dml_jax.gemm(x, real, None, "NONE", "TRANSPOSE")})
    made, count = QUANTIZED.once(graph)
    assert count == 1
    row = normal(1, 64)
    integers = np.stack([packed & 15, packed >> 4], -1).reshape(8, 2, 32)
    expected = row @ (integers * scale[..., None]).reshape(8, 64).T
    with of_platform("cuda"), mock.patch.object(one_row_products, "LARGE", 0):
        np.testing.assert_allclose(made(row), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(graph(row), expected, rtol=1e-4, atol=1e-4)


def test_matrices_of_halves_become_rows_once():
    w = normal(16, 8).astype(np.float16)
    model = single("MatMul", {"x": normal(1, 16).astype(np.float16), "w": w}, constants=["w"])
    network = load_onnx(model, rewrites=[ROWS])
    assert network.rewrites[ROWS.name] == 1
    (held,) = network.constants
    np.testing.assert_array_equal(held, w.T)
    x = normal(1, 16).astype(np.float16)
    expected = x.astype(np.float64) @ w.astype(np.float64)
    np.testing.assert_allclose(network(x)["y"], expected, rtol=2e-3, atol=2e-3)


def test_one_query_attends_as_many_do():
    """Rows of the buffers that nothing sees may hold anything."""
    keys = normal(2, 2, 6, 4)
    keys[:, :, 4:] = np.nan
    query, value = normal(2, 1, 4, 4), np.where(np.isnan(keys), np.inf, keys)
    starts = np.array([3, 1], np.int32)
    bias = normal(2, 4, 1, 6)

    def attended(q: Any, k: Any, v: Any, starts: Any, bias: Any) -> Any:
        return attention.attend_buffers((q, k, v), starts, 1, 0.5, Mask(-3e38, [bias]))

    arrays = [jnp.asarray(a) for a in (query, keys, value, starts, bias)]
    plain = jax.jit(attended)(*arrays)
    with of_platform("cuda"):
        program = jax.jit(lambda *xs: attended(*xs))
        found = program(*arrays)
        assert "dot_general" not in program.lower(*arrays).as_text()
    assert np.isfinite(plain).all()
    np.testing.assert_allclose(found, plain, rtol=1e-5, atol=1e-6)

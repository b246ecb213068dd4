"""Products of matrices: precision, rounding, sums that wrap, levels, and ONNX Runtime's answers."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arrays import float16, float32, graph_of
from build import answers

import dml_jax
from dml_jax import (
    ActivationRelu,
    ActivationSoftmax,
    ActivationSoftmax1,
    DmlError,
    ElementWiseClip,
    Gemm,
    MatrixMultiplyInteger,
    TensorDesc,
)

NONE: dict[str, Any] = {"trans_a": "NONE", "trans_b": "NONE", "alpha": 1, "beta": 1}


def square(*batch: int) -> dict[str, Any]:
    """Return the tensors of a product of matrices of 3 by 3."""
    tensor = TensorDesc("FLOAT32", [*batch, 3, 3])
    return {"a_tensor": tensor, "b_tensor": tensor}


def program(**how: Any) -> str:
    """Return the program of a small GEMM."""
    op = Gemm.infer(**square(), **NONE, **how)
    return jax.jit(op).lower(*(np.zeros((3, 3), np.float32),) * 2).as_text()


def test_precision_is_full_unless_the_user_sets_it():
    assert "precision = [HIGHEST, HIGHEST]" in program()
    with jax.default_matmul_precision("bfloat16"):
        assert "HIGHEST" not in program()
    with jax.default_matmul_precision("high"):
        assert "precision = [HIGH, HIGH]" in program()


def test_float16_is_summed_scaled_and_rounded_once():
    """The product is beyond FLOAT16, and its sum with C too, until they are scaled."""
    a, b, c = float16([[300, 300]]), float16([[300], [300]]), float16([[60000]])
    assert dml_jax.gemm(a, b, c, alpha=0.25, beta=-0.5).tolist() == [[15000]]
    thirds = np.full((1, 64), 1 / 3, np.float16)
    exact = (thirds.astype(float) @ thirds.T.astype(float)).astype(np.float16)
    result = dml_jax.gemm(thirds, thirds, trans_b="TRANSPOSE")
    assert result.dtype == jnp.float16
    np.testing.assert_array_equal(result, exact)
    slope = jax.grad(lambda a, b: dml_jax.gemm(a, b, alpha=0.5).sum(), (0, 1))
    for g, expected in zip(slope(a, b), ([[150, 150]], [[150], [150]]), strict=True):
        assert (g.dtype, g.tolist()) == (jnp.float16, expected)


def test_c_counts_where_beta_is_0():
    a = np.ones((1, 1), np.float32)
    assert np.isnan(dml_jax.gemm(a, a, a * np.nan, beta=0.0)).all()
    assert dml_jax.gemm(a, a, a * 8, beta=0.0).tolist() == [[1]]


@pytest.mark.parametrize("sizes", [(1, 3), (2, 1), (1, 1), (3,), (2, 3)])
@pytest.mark.parametrize("is_turned", [False, True])
def test_the_function_broadcasts_c(sizes: tuple[int, ...], is_turned: bool):
    random = np.random.default_rng(0)
    a, b = (random.integers(-9, 9, s).astype(np.float32) for s in ((2, 4), (4, 3)))
    c = np.arange(math.prod(sizes), dtype=np.float32).reshape(sizes)
    turned = "TRANSPOSE" if is_turned else "NONE"
    left, right = (a.T, b.T) if is_turned else (a, b)
    how: Any = {"trans_a": turned, "trans_b": turned, "beta": 2.0}
    np.testing.assert_array_equal(dml_jax.gemm(left, right, c, **how), a @ b + 2 * c)
    slope = jax.grad(lambda c: dml_jax.gemm(left, right, c, **how).sum())(c)
    np.testing.assert_array_equal(slope, np.full(sizes, 2 * 6 / c.size))

    graph = graph_of(lambda *xs: dml_jax.gemm(*xs, **how), left, right, c)
    assert len(graph.nodes) == 1
    np.testing.assert_array_equal(graph(left, right, c), a @ b + 2 * c)


def test_c_may_be_a_number():
    a = np.ones((2, 2), np.float32)
    assert dml_jax.gemm(a, a, 5.0).tolist() == [[7, 7], [7, 7]]


def test_fused_softmax_of_a_product():
    rng = np.random.default_rng(0)
    a = rng.standard_normal((2, 3, 3)).astype(np.float32)
    op = Gemm.infer(**square(2), **NONE, fused_activation=ActivationSoftmax1.fused(axes=[0, 2]))
    np.testing.assert_allclose(op(a, a), jax.nn.softmax(a @ a, (0, 2)), rtol=1e-5)
    assert op.minimum_feature_level.suffix == "6_1"
    rows = Gemm.infer(**square(1), **NONE, fused_activation=ActivationSoftmax.fused())
    assert rows.minimum_feature_level.suffix == "6_1"
    np.testing.assert_allclose(rows(a[:1], a[:1]).sum(-1), 1, rtol=1e-6)
    with pytest.raises(DmlError, match="dimensions before the last 2"):
        Gemm.infer(**square(2), **NONE, fused_activation=ActivationSoftmax.fused())
    with pytest.raises(DmlError, match=r"FusedActivation.Axes\[1\] to be in \[0, 2\].*got 3"):
        Gemm.infer(**square(2), **NONE, fused_activation=ActivationSoftmax1.fused(axes=[1, 3]))


@pytest.mark.parametrize(
    ("activation", "level"),
    [(None, "1_0"), (ActivationRelu.fused(), "1_0"), (ElementWiseClip.fused(min=0, max=1), "6_0")],
)
def test_levels_of_a_product(activation: Any, level: str):
    op = Gemm.infer(**square(1, 1), **NONE, fused_activation=activation)
    assert op.minimum_feature_level.suffix == level


def test_sums_of_8_bits_wrap():
    """Each of the 33026 products is 255 * 255; together they exceed INT32."""
    a, zero = np.full((1, 33026), -128, np.int8), np.array([127], np.int8)
    result = dml_jax.matrix_multiply_integer(a, a.T, zero, zero)
    assert result.dtype == jnp.int32
    assert result.tolist() == [[255 * 255 * 33026 - 2**32]]


@pytest.mark.parametrize("type_", ["int16", "uint16", "int32", "uint32"])
def test_sums_of_wider_integers_do_not_wrap(type_: str, no_x64: None):
    """They exceed INT32, and differences with the zero point exceed the type."""
    limits = np.iinfo(type_)
    a, b = np.full((2, 3), limits.min, type_), np.full((3, 2), 9, type_)
    zero, scale = np.array([limits.max], type_), np.array([0.5], np.float32)
    result = dml_jax.matrix_multiply_integer_to_float(a, scale, b, scale, zero)
    expected = (int(limits.min) - int(limits.max)) * 9 * 3 / 4
    np.testing.assert_array_equal(result, np.full((2, 2), expected, np.float32))


ROWS = [[1, 1, 2, 1], [1, 2, 1], [2, 1], [2]]
WHOLE = [[1, 1, 1, 1], [1, 1], [1]]


@pytest.mark.parametrize("sizes", [*ROWS, *WHOLE])
def test_zero_points_of_rows_and_of_columns(sizes: list[int]):
    rng = np.random.default_rng(1)
    a = rng.integers(0, 256, (2, 3), np.uint8)
    b = rng.integers(-128, 128, (3, 2)).astype(np.int8)
    row = rng.integers(0, 256, sizes, np.uint8)
    column = rng.integers(-128, 128, np.swapaxes(np.zeros(sizes), -1, -len(sizes[-2:])).shape)
    column = column.astype(np.int8)
    result = dml_jax.matrix_multiply_integer(a, b, row, column)
    left = a.astype(int) - row.reshape(-1, 1)
    assert result.tolist() == (left @ (b.astype(int) - column.reshape(1, -1))).tolist()


@pytest.mark.parametrize(("rank", "level"), [(1, "5_2"), (2, "4_0"), (4, "4_0")])
def test_level_of_a_zero_point(rank: int, level: str):
    a = TensorDesc("INT8", [3, 3])
    zero = TensorDesc("INT8", [1] * rank)
    op = MatrixMultiplyInteger.infer(a_tensor=a, b_tensor=a, b_zero_point_tensor=zero)
    assert op.minimum_feature_level.suffix == level


@pytest.mark.parametrize(("a_type", "b_type"), [("uint8", "int8"), ("uint8", "uint8")])
def test_quantized_products_are_those_of_onnx_runtime(a_type: str, b_type: str):
    rng = np.random.default_rng(2)
    a = rng.integers(0, 256, (7, 7), a_type)
    # Without VNNI, ONNX Runtime adds two products in 16 bits: those of weights below 64 fit.
    least, most = (-64, 63) if b_type == "int8" else (0, 255)
    b = rng.integers(least, most + 1, (7, 7), b_type)
    scales = [float32([s]) for s in (0.05, 0.07, 1.7)]
    zeros = [np.array([z], t) for z, t in ((120, a_type), (5, b_type), (100, a_type))]
    (expected,) = answers("MatMulInteger", a, b, *zeros[:2])
    result = dml_jax.matrix_multiply_integer(a, b, *zeros[:2])
    np.testing.assert_array_equal(result, expected)
    parts = [a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2], zeros[2]]
    (expected,) = answers("QLinearMatMul", *parts)
    result = dml_jax.quantized_linear_matrix_multiply(a, scales[0], b, *scales[1:], *zeros)
    assert len(np.unique(expected)) > 20
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((2, 3, 4), (1, 4, 5)),
        ((2, 3, 4), (4, 5)),
        ((3, 4), (2, 4, 5)),
        ((1, 2, 3, 4), (3, 1, 4, 5)),
        ((2, 3, 4), (2, 1, 4, 5)),
    ],
)
def test_functions_broadcast_matrices_as_numpy_does(a: Any, b: Any):
    rng = np.random.default_rng(0)
    x, y = (rng.integers(0, 255, shape).astype(np.uint8) for shape in (a, b))
    rows, columns = rng.integers(0, 9, (3, 1)), rng.integers(0, 9, (1, 5))
    x_zero = rows.reshape(*[1] * (len(a) - 2), 3, 1).astype(np.uint8)
    y_zero = columns.reshape(*[1] * (len(b) - 2), 1, 5).astype(np.uint8)
    expected = (x.astype(int) - rows) @ (y.astype(int) - columns)
    made = dml_jax.matrix_multiply_integer(x, y, x_zero, y_zero)
    np.testing.assert_array_equal(made, expected)
    halves = [np.full([1] * len(shape), 0.5, np.float32) for shape in (a, b)]
    bias = np.arange(5, dtype=np.float32)
    scaled = dml_jax.matrix_multiply_integer_to_float(
        x, halves[0], y, halves[1], x_zero, y_zero, bias
    )
    np.testing.assert_allclose(scaled, expected / 4 + bias, rtol=1e-6)
    scale = np.full([1] * expected.ndim, 2.0**12, np.float32)
    zero = np.zeros_like(scale, np.uint8)
    quantized = dml_jax.quantized_linear_matrix_multiply(
        x, halves[0], y, halves[1], scale, x_zero, y_zero, zero
    )
    np.testing.assert_array_equal(quantized, np.clip(np.round(expected / 2**14), 0, 255))
    u, v = x.astype(np.float32), y.astype(np.float32)
    turned = [m.swapaxes(-1, -2) for m in (u, v)]
    product = x.astype(int) @ y.astype(int)
    np.testing.assert_array_equal(dml_jax.gemm(u, v), product)
    np.testing.assert_array_equal(
        dml_jax.gemm(*turned, bias, trans_a="TRANSPOSE", trans_b="TRANSPOSE"), product + bias
    )

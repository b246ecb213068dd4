"""Normalizations: gradients, digits, windows, versions and levels."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arrays import float16, float32, normal

import dml_jax
from dml_jax import (
    BatchNormalization,
    MeanVarianceNormalization,
    MeanVarianceNormalization1,
    TensorDesc,
)

SIZES = (2, 6, 4, 5)
CHANNELS = (1, 6, 1, 1)
EPSILON = 1e-3


X, DY = normal(*SIZES), normal(*SIZES, seed=1)


def close(results: Any, expected: Any) -> None:
    """Assert that several arrays are nearly equal."""
    for result, other in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, other, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("few", [CHANNELS, (2, 6, 1, 1), (1, 6, 4, 5), (1, 1, 1, 1)])
def test_the_gradient_of_batch_normalization_training(few: tuple[int, ...]):
    """JAX's own of the forward operator, with the statistics that it returns."""
    scale, bias = normal(*few, seed=3), normal(*few, seed=4)

    def forward(x: Any, scale: Any, bias: Any) -> Any:
        return dml_jax.batch_normalization_training(x, scale, bias, None, EPSILON)

    (_, mean, variance), backward = jax.vjp(forward, X, scale, bias)
    made = dml_jax.batch_normalization_training_grad(X, DY, mean, variance, scale, EPSILON)
    nothing = jnp.zeros_like(mean)
    close(made, backward(type(forward(X, scale, bias))(DY, nothing, nothing)))


@pytest.mark.parametrize(("cross_channel", "axes"), [(True, (1,)), (False, (2, 3))])
def test_a_window_of_even_size_reaches_further_behind(cross_channel: bool, axes: tuple[int, ...]):
    """One element is seen from two before it and from one behind it, in a window of four."""
    x = np.zeros((1, 7, 7, 7), np.float32)
    x[0, 3, 3, 3] = 2
    y = np.ones_like(x)  # what is divided: x is 0 elsewhere
    slope = jax.jvp(
        lambda x: dml_jax.local_response_normalization(x, cross_channel, 4, 4.0, 1.0, 1.0),
        (x,),
        (y,),
    )[1]
    seen = np.argwhere(np.asarray(slope) == 0.2)  # 1 / (1 + 4 / 4 * 2 ** 2)
    for axis in range(1, 4):
        assert {*seen[:, axis].tolist()} <= ({1, 2, 3, 4} if axis in axes else {3})
    assert len(seen) == 4 ** len(axes) - 1  # the element itself changes otherwise


def test_a_window_beyond_the_tensor_costs_no_more():
    whole = dml_jax.local_response_normalization(X, True, 2**32 - 1, 2.0**32, 1.0, 1.0)
    squares = np.square(X).sum(1, keepdims=True)
    np.testing.assert_allclose(whole, X / (1 + squares), rtol=1e-5)


def test_digits_of_elements_far_from_0():
    x = normal(4, 3, 32, 32) + np.float32(1e4)
    wide = x.astype(float)
    deviation = wide.std((2, 3), keepdims=True)
    expected = (wide - wide.mean((2, 3), keepdims=True)) / deviation
    result = dml_jax.mean_variance_normalization(x, None, None, [2, 3], True, True, 0.0)
    np.testing.assert_allclose(result, expected, rtol=0, atol=np.spacing(np.float32(1e4)))
    ones = np.ones((4, 3, 1, 1), np.float32)
    _, _, variance = dml_jax.batch_normalization_training(x, ones, ones, None, 0.0)
    np.testing.assert_allclose(variance, deviation**2, rtol=1e-5)


def test_squares_beyond_float16():
    x = float16([[3000, -3000, 1000, -1000]])
    result = dml_jax.mean_variance_normalization(x, None, None, [1], True, True, 0.0)
    np.testing.assert_allclose(result, x.astype(float) / np.sqrt(5e6), rtol=2**-11)
    norm = dml_jax.lp_normalization(x, 1, 1e-5, 2)
    np.testing.assert_allclose(norm, x.astype(float) / np.sqrt(2e7), rtol=2**-11)


@pytest.mark.parametrize("size", [3e38, 1e-30])
@pytest.mark.parametrize("p", [1, 2])
def test_norms_whose_squares_are_no_floats(size: float, p: int):
    x = float32([[size, -size, 0, size]])
    result = dml_jax.lp_normalization(x, 1, 0.0, p)
    np.testing.assert_allclose(result, float32([[1, -1, 0, 1]]) / 3 ** (1 / p), rtol=1e-6)


def test_norms_that_are_0_or_below_epsilon():
    x = float32([[0, 0], [3e-6, 4e-6], [3, 4]])
    for p, expected in (
        (2, [[0, 0], [0.3, 0.4], [0.6, 0.8]]),
        (1, [[0, 0], [0.3, 0.4], [3 / 7, 4 / 7]]),
    ):
        np.testing.assert_allclose(dml_jax.lp_normalization(x, 1, 1e-5, p), expected, rtol=1e-6)
        assert dml_jax.lp_normalization(x[:1], 1, 0.0, p).tolist() == [[0, 0]]
        still = jax.grad(lambda x, p=p: dml_jax.lp_normalization(x, 1, 0.0, p).sum())(x[:1])
        assert still.tolist() == [[0, 0]]
        slope = jax.grad(lambda x, p=p: dml_jax.lp_normalization(x, 1, 0.5, p).sum())(x[:1])
        assert slope.tolist() == [[2, 2]]


@pytest.mark.parametrize(
    ("scale", "bias", "level"),
    [
        ((1, 6, 1, 1), (2, 6, 4, 1), "least"),
        (None, None, "least"),
        ((1, 1, 1, 1), (1, 6, 1, 1), "4_0"),
        ((1, 6, 1, 1), None, "5_2"),
        (None, (1, 6, 1, 1), "5_2"),
    ],
)
def test_levels_of_scale_and_bias(scale: Any, bias: Any, level: str):
    tensors = {
        name: None if sizes is None else TensorDesc("FLOAT32", sizes)
        for name, sizes in (("input", SIZES), ("scale", scale), ("bias", bias))
    }
    fields = {f"{name}_tensor": tensor for name, tensor in tensors.items()}
    fields |= {"normalize_variance": True, "epsilon": EPSILON}
    first = MeanVarianceNormalization.infer(**fields, cross_channel=False)
    second = MeanVarianceNormalization1.infer(**fields, axes=[2, 3])
    levels = [op.minimum_feature_level.suffix for op in (first, second)]
    assert levels == (["1_0", "2_1"] if level == "least" else [level, level])


@pytest.mark.parametrize(
    ("spatial", "sizes", "level"),
    [(True, CHANNELS, "1_0"), (False, (1, 1, 4, 5), "1_0"), (False, CHANNELS, "4_0")],
)
def test_levels_of_spatial(spatial: bool, sizes: tuple[int, ...], level: str):
    """It has no effect on the result."""
    names = ("mean", "variance", "scale", "bias")
    tensors = {f"{name}_tensor": TensorDesc("FLOAT32", sizes) for name in names}
    op = BatchNormalization.infer(
        input_tensor=TensorDesc("FLOAT32", SIZES), **tensors, spatial=spatial, epsilon=EPSILON
    )
    assert op.minimum_feature_level.suffix == level
    few = [np.abs(normal(*sizes, seed=k)) for k in range(4)]
    expected = few[2] * (X - few[0]) / np.sqrt(few[1] + EPSILON) + few[3]
    np.testing.assert_allclose(op(X, *few), expected, rtol=1e-4, atol=1e-5)


def test_squares_that_are_too_small_make_the_variance_zero():
    x = np.array([[-1e-25, 1e-25]], np.float32)
    y = dml_jax.mean_variance_normalization(x, None, None, [1], True, True, 0.0)
    np.testing.assert_array_equal(y, [[-np.inf, np.inf]])

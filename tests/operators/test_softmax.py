"""SOFTMAX, LOG_SOFTMAX and HARDMAX where elements are not finite, and which version is made."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dml_jax

INF = np.inf
FUNCTIONS = [dml_jax.activation_softmax, dml_jax.activation_log_softmax]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_rows_that_are_not_finite(function: Callable[..., jax.Array]):
    rows = jnp.array([[1, INF], [1, np.nan], [-INF, -INF], [1, -INF]], jnp.float32)
    results = np.asarray(function(rows))
    assert np.isnan(results[:3]).all()
    assert results[3].tolist() == ([1, 0] if function is FUNCTIONS[0] else [0, -INF])
    slope = jax.grad(lambda x: function(x)[0, 0])(rows[3:])
    assert np.isfinite(slope).all()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_large_elements_do_not_overflow(function: Callable[..., jax.Array]):
    for type_, large in ((jnp.float32, 3e38), (jnp.float16, 65000)):
        result = np.asarray(function(jnp.array([[large, large]], type_)))
        np.testing.assert_allclose(result, 0.5 if function is FUNCTIONS[0] else -np.log(2), 1e-3)


def test_logarithms_near_0_keep_their_digits(no_x64: None):
    """One element outweighs the others: `-log(1 + exp(-gap))`, by `numpy.log1p`."""
    gaps = np.array([2, 5, 10, 15, 20], np.float32)
    rows = np.stack([gaps, np.zeros_like(gaps)], 1)
    expected = -np.log1p(np.exp(-gaps.astype(float)))
    result = dml_jax.activation_log_softmax(rows)[:, 0]
    np.testing.assert_allclose(result, expected, rtol=4 * 2**-23)


def test_the_first_maximum_is_hard():
    rows = np.array([[1, 3, 3, -1], [-0.0, 0.0, -1, -2], [1, np.nan, 5, np.nan]], np.float32)
    expected = [[0, 1, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]]
    assert dml_jax.activation_hardmax(rows).tolist() == expected
    ties = np.array([[[0, 1], [1, 1]], [[1, 0], [0, 1]]], np.float32)
    for axes in ([0, 2], [2, 0]):  # in the order of the axes, not of the list
        made = dml_jax.activation_hardmax(ties, axes)
        assert made.tolist() == [[[0, 1], [1, 0]], [[0, 0], [0, 0]]]


@pytest.mark.parametrize("scale", [1, 5, 30])
def test_digits(scale: int):
    """FLOAT32 rounds the distance d from the maximum, which exp magnifies to d more units."""
    x = (np.random.default_rng(4).standard_normal((100, 1000)) * scale).astype(np.float32)
    below = x.max(1, keepdims=True) - x.astype(float)
    exact = np.exp(-below) / np.exp(-below).sum(1, keepdims=True)
    result = np.asarray(dml_jax.activation_softmax(x))
    is_normal = exact >= np.finfo(np.float32).tiny
    units = abs(result - exact) / np.spacing(exact.astype(np.float32))
    assert (units <= 4 + below)[is_normal].all()

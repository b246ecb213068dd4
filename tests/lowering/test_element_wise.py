"""Functions of each element: digits over all normal numbers, and values that formulas lose."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from records import records

import dml_jax
from dml_jax import TensorDesc
from dml_jax.operator import OPERATORS, Operator


def floats(*values: float) -> jax.Array:
    """Return values as a FLOAT32 array."""
    return jnp.array(values, jnp.float32)


FLOAT32 = [
    pytest.param(op, id=op.short_name)
    for op in OPERATORS.values()
    if op.family in ("element_wise", "activation")
    and op.by_element
    and len([f for f in op.fields if f.tensor]) == 2
]


# Units in the last place: more than 4 where XLA's functions for CPUs are worse.
UNITS = {
    "ELEMENT_WISE_ASIN": 3,
    "ELEMENT_WISE_ACOS": 3,
    "ELEMENT_WISE_ATAN": 3,
    "ELEMENT_WISE_SINH": 2,
    "ELEMENT_WISE_TANH": 5,
    "ELEMENT_WISE_ACOSH": 5,
    "ELEMENT_WISE_ERF": 6,
    "ACTIVATION_TANH": 5,
    "ACTIVATION_SCALED_TANH": 5,
    "ACTIVATION_GELU": 6,  # a product of two exponentials and a polynomial
}


@pytest.mark.parametrize("op_class", FLOAT32)
def test_digits_over_all_normal_numbers(op_class: type[Operator]):
    """FLOAT32 is within 4 units in the last place of float64, but for those of `UNITS`."""
    powers = 2 ** np.linspace(-125, 127.99, 30000)
    x = np.concatenate([powers, np.linspace(0, 110, 30000), np.linspace(0, 2, 9999)])
    x = np.concatenate([x, -x]).astype(np.float32)
    attributes: dict[str, Any] = {
        f.name: "TOWARD_ZERO"
        if "Mode" in f.c_name
        else "FLOAT32"
        if "DataType" in f.c_name
        else 1.0
        for f in op_class.fields
        if not f.tensor and not f.optional
    }
    op = op_class.infer(input_tensor=TensorDesc("FLOAT32", x.shape), **attributes)
    record = records()[op_class.short_name]
    (expected,) = record.expected(op, [x])
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = expected.astype(np.float32)
        is_normal = np.isfinite(narrow) & (np.abs(narrow) >= np.finfo(np.float32).tiny)
        result = np.asarray(jax.jit(op)(x))
        apart = np.abs(result - expected) / np.spacing(np.abs(narrow).clip(1e-38, 3e38))
    assert is_normal.any()
    np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
    worst = np.argmax(np.where(is_normal, apart, 0))
    units = UNITS.get(op_class.short_name, 4)
    assert apart[worst] <= units, (x[worst], result[worst], expected[worst])
    assert (result == narrow)[np.isinf(narrow)].all()
    is_odd = op_class.short_name in ("ELEMENT_WISE_ASIN", "ELEMENT_WISE_ATAN")
    assert not is_odd or (np.signbit(result) == np.signbit(x))[np.abs(x) <= 1].all()


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_sines_of_numbers_next_to_quarter_turns(name: str):
    """Of these the rest beyond a multiple of pi / 2 is smallest: it has no digit of a product."""
    sizes = [16367173 * 2.0**72, 10741887 * 2.0**11, 16573937 * 2.0**-16]
    x = floats(*sizes, *(-s for s in sizes), 3.4028235e38, np.pi, np.pi / 2, np.pi / 4)
    expected = getattr(np, name)(np.asarray(x, np.float64))
    result = np.asarray(getattr(dml_jax, name)(x))
    np.testing.assert_allclose(result, expected, rtol=4e-7)
    assert np.isnan(getattr(dml_jax, name)(floats(np.inf, -np.inf, np.nan))).all()
    assert np.signbit(dml_jax.sin(floats(-0.0, -1e-45))).all()


def test_halves_are_rounded_exactly():
    """The sum with 0.5 would be rounded itself, to 1 and to an even number."""
    x = floats(0.49999997, 8388609, -8388609, 2.5, -2.5, -0.25)
    mode = "TOWARD_INFINITY"
    rounded = np.asarray(dml_jax.round(x, mode))
    np.testing.assert_array_equal(rounded, floats(0, 8388609, -8388609, 3, -3, -0.0))
    assert np.signbit(rounded[-1])


def test_softplus_does_not_overflow():
    x = floats(1e30, 3e38, 100, -1e30)
    np.testing.assert_array_equal(dml_jax.activation_softplus(x, 1e20), np.maximum(x, 0))
    scaled = dml_jax.activation_parametric_softplus(x, 1e-20, 1e20)
    np.testing.assert_allclose(scaled, np.maximum(x, 0), rtol=1e-6)
    halves = dml_jax.activation_softplus(x, -0.5)
    np.testing.assert_allclose(halves, np.minimum(x, 0), atol=1e-20)


@pytest.mark.parametrize(
    ("bias", "threshold", "expected"),
    [
        (-1, -128, [127, -128, 6, -4]),  # the first test holds for all but -128; sums wrap
        (2.9, 3.9, [-126, 125, 3, -2]),  # 2 and 3
        (1e9, float("inf"), [-1, 0, 0, 0]),  # both are 127
    ],
)
def test_shrink_of_integers(bias: float, threshold: float, expected: list[int]):
    x = np.array([-128, 127, 5, -5] if bias < 2 else [-128, 127, 5, -4], np.int8)
    assert np.asarray(dml_jax.activation_shrink(x, bias, threshold)).tolist() == expected


def test_bounds_of_integers_are_numbers():
    for call in (
        lambda: dml_jax.activation_shrink(np.array([1], np.int32), 0.0, float("nan")),
        lambda: dml_jax.threshold(np.array([1], np.int32), float("nan")),
    ):
        with pytest.raises(dml_jax.DmlError, match="to not be NaN"):
            call()
    assert dml_jax.activation_shrink(floats(1), 0.0, float("nan")).tolist() == [0]


@pytest.mark.parametrize("name", ["activation_softsign", "asin"])
def test_derivatives_at_0_and_far_away(name: str):
    slope = jax.grad(lambda x: getattr(dml_jax, name)(x).sum())
    far = slope(floats(0, 1e30, -1e30))
    assert far[0] == 1
    assert np.isnan(far[1:]).any() == (name == "asin")  # outside its domain


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 1.5, 0.5, -1])
def test_derivatives_of_powers_of_0(exponent: float):
    slope = jax.grad(lambda x: dml_jax.pow(x, exponent).sum())(floats(0))
    expected = {0: 0, 1: 1, 2: 0, 3: 0, 1.5: 0, 0.5: np.inf, -1: -np.inf}[exponent]
    assert slope.tolist() == [expected]


def test_special_powers_are_those_of_c():
    x = floats(0, -0.0, np.nan, -np.inf, -8, 1)
    powers = np.asarray(dml_jax.pow(x, 0.0))
    np.testing.assert_array_equal(powers, np.ones(6, np.float32))
    roots = dml_jax.pow(x, 0.5)
    np.testing.assert_array_equal(roots, floats(0, 0, np.nan, np.inf, np.nan, 1))


def _units(found: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference in units in the last place of FLOAT32."""
    assert (np.isnan(found) == np.isnan(expected)).all()
    assert (np.signbit(found) == np.signbit(expected))[~np.isnan(expected)].all()
    unit = np.spacing(np.abs(expected.astype(np.float32))).astype(np.float64)
    return np.nanmax(np.where(expected == found, 0, np.abs(found - expected) / unit))


def test_angles_of_points_have_all_digits_in_each_quadrant():
    draws = np.random.default_rng(0)
    y, x = (draws.standard_normal(100_000) * 10.0 ** draws.integers(-9, 9, 100_000) for _ in "yx")
    special = np.array([0.0, 1, 1e-30, 3e38, np.inf, np.nan])
    special = np.concatenate([special, -special])
    y = np.concatenate([y, np.repeat(special, special.size)]).astype(np.float32)
    x = np.concatenate([x, np.tile(special, special.size)]).astype(np.float32)
    expected = np.arctan2(y.astype(np.float64), x.astype(np.float64))
    expected = np.where(np.abs(expected) < 2**-126, np.copysign(0, y), expected)
    found = np.asarray(dml_jax.atan_yx(y, x))
    found = np.where(np.abs(found) < 2**-126, np.copysign(0, found), found)
    assert _units(found, expected) <= 3

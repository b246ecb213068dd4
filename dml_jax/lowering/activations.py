"""Activations of floats; `relu`, `relu_grad`, `leaky_relu` and `shrink` take integers too."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering import clamp, element_wise
from dml_jax.lowering.dtypes import is_float
from dml_jax.lowering.elementwise_primitive import derived_by


def linear(x: jax.Array, alpha: float, beta: float) -> jax.Array:
    """Return `alpha * x + beta`."""
    return alpha * x + beta


def relu(x: jax.Array) -> jax.Array:
    """Return `max(0, x)`. Its derivative at 0 is 0."""
    return jnp.where(x <= 0, 0, x)


def relu_grad(x: jax.Array, gradient: jax.Array) -> jax.Array:
    """Return `gradient` where `x` is positive, else 0."""
    return jnp.where(x > 0, gradient, 0)


def thresholded_relu(x: jax.Array, alpha: float) -> jax.Array:
    """Return `x` where it is above `alpha`, else 0."""
    return jnp.where(x > alpha, x, 0)


def _not_positive(x: jax.Array) -> jax.Array:
    """Return `min(x, 0)` with derivative 1 at 0.

    What is computed of it stays finite where `x` is large, so that no derivative becomes NaN.
    """
    return jnp.where(x > 0, 0, x)


def leaky_relu(x: jax.Array, alpha: float | jax.Array) -> jax.Array:
    """Return `x if x >= 0 else alpha * x`."""
    return jnp.where(x >= 0, x, alpha * _not_positive(x))


@derived_by(
    lambda dx, x, slope: dx * jnp.where(x >= 0, 1, slope),
    lambda dslope, x, slope: dslope * jnp.where(x >= 0, 0, x),
)
def parameterized_relu(x: jax.Array, slope: jax.Array) -> jax.Array:
    """Return `x if x >= 0 else slope * x`."""
    return leaky_relu(x, slope)


@derived_by(lambda dx, x: dx * element_wise.exp(x))
def _expm1(x: jax.Array) -> jax.Array:
    """Return `exp(x) - 1`: near 0 by its series, where XLA's has fewer digits."""
    if x.dtype.itemsize == 8:
        return lax.expm1(x)
    is_small = jnp.abs(x) < 0.5
    small = jnp.where(is_small, x, 0)
    series = small / 40320 + 1 / 5040
    for factorial in (720, 120, 24, 6, 2):
        series = series * small + 1 / factorial
    return jnp.where(is_small, small + small * small * series, lax.exp(x) - 1)


def elu(x: jax.Array, alpha: float) -> jax.Array:
    """Return `x if x >= 0 else alpha * (exp(x) - 1)`."""
    return jnp.where(x >= 0, x, alpha * _expm1(_not_positive(x)))


def scaled_elu(x: jax.Array, alpha: float, gamma: float) -> jax.Array:
    """Return `gamma * (x if x > 0 else alpha * (exp(x) - 1))`."""
    return gamma * jnp.where(x > 0, x, alpha * _expm1(_not_positive(x)))


def celu(x: jax.Array, alpha: float) -> jax.Array:
    """Return `max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`; `max(0, x)` where alpha is 0."""
    if alpha == 0:
        return relu(x)
    return jnp.where(x >= 0, x, alpha * _expm1(_not_positive(x) / alpha))


@derived_by(lambda dx, x, steepness: dx * element_wise.logistic(steepness * x))
def softplus(x: jax.Array, steepness: float) -> jax.Array:
    """Return `ln(1 + exp(steepness * x)) / steepness`, where `exp` never overflows."""
    ramp = jnp.maximum(x, 0) if steepness > 0 else jnp.minimum(x, 0)
    return ramp + _softplus_of_minus_abs(steepness * x) / steepness


@derived_by(lambda dx, x, alpha, beta: dx * (alpha * beta) * element_wise.logistic(beta * x))
def parametric_softplus(x: jax.Array, alpha: float, beta: float) -> jax.Array:
    """Return `alpha * ln(1 + exp(beta * x))`, where `exp` never overflows."""
    if abs(alpha) < 1 <= abs(beta):  # `beta * x` may overflow where the result does not
        ramp = (alpha * beta) * (jnp.maximum(x, 0) if beta > 0 else jnp.minimum(x, 0))
    else:
        ramp = alpha * jnp.maximum(beta * x, 0)
    return ramp + alpha * _softplus_of_minus_abs(beta * x)


def _softplus_of_minus_abs(x: jax.Array) -> jax.Array:
    """Return `ln(1 + exp(-|x|))`; its derivative at 0 is 0, which that of `jnp.abs` is not."""
    return _log1p(lax.exp(jnp.minimum(x, 0) - jnp.maximum(x, 0)))


# Coefficients of 1, s^2, s^4, ... in `ln(1 + t) / s`, which is `2 * artanh(s) / s`, for
# s = t / (2 + t): an interpolation at Chebyshev's points for t from 0 to 1.
_LOGARITHM = (2.0, 0.666663159, 0.400248537, 0.279614188, 0.281746573)


def _log1p(t: jax.Array) -> jax.Array:
    """Return `ln(1 + t)` for t from 0 to 1, in FLOAT32 without the logarithm that XLA computes."""
    if t.dtype != np.float32:  # the polynomial has the digits of FLOAT32
        return lax.log1p(t)
    part = 1 / (2 + t)
    square = (t * part) * (t * part)
    ratio = jnp.zeros_like(t)
    for coefficient in reversed(_LOGARITHM):
        ratio = ratio * square + coefficient
    return t * (part * ratio)  # s itself would be 0 for the least t


def scaled_tanh(x: jax.Array, alpha: float, beta: float) -> jax.Array:
    """Return `alpha * tanh(beta * x)`."""
    return alpha * element_wise.tanh(beta * x)


@derived_by(lambda dx, x: element_wise.divide(dx, 1 + jnp.abs(x), 2))
def softsign(x: jax.Array) -> jax.Array:
    """Return `x / (1 + |x|)`."""
    return x / (1 + jnp.abs(x))


def hard_sigmoid(x: jax.Array, alpha: float, beta: float) -> jax.Array:
    """Return `max(0, min(alpha * x + beta, 1))`. Its derivative at the corners is 0."""
    return clamp.clip(linear(x, alpha, beta), 0, 1)


def _of_hard_swish(dx: jax.Array, x: jax.Array, alpha: float, beta: float) -> jax.Array:
    line = linear(x, alpha, beta)
    return dx * jnp.where(line <= 0, 0, jnp.where(line >= 1, 1, line + alpha * x))


@derived_by(_of_hard_swish)
def hard_swish(x: jax.Array, alpha: float, beta: float) -> jax.Array:
    """Return `x * max(0, min(alpha * x + beta, 1))`."""
    return x * hard_sigmoid(x, alpha, beta)


def _of_swish_slope(dy: jax.Array, y: jax.Array) -> jax.Array:
    y = lax.clamp(y.dtype.type(-2048), y, y.dtype.type(2048))  # beyond, the derivative is 0
    return dy * element_wise.sech_squared(y / 2, (2 - y * element_wise.tanh(y / 2)) / 4)


@derived_by(_of_swish_slope)
def _swish_slope(y: jax.Array) -> jax.Array:
    """Return the derivative of `y / (1 + exp(-y))`; of y and -y they are 1 together."""
    a = lax.min(jnp.abs(y), y.dtype.type(2048))
    root = lax.exp(-a / 2)
    e = root * root
    slope = root * (1 - a + e) * root / ((1 + e) * (1 + e))
    return jnp.where(y < 0, slope, 1 - slope)


@derived_by(lambda dx, x, scale: dx * _swish_slope(scale * x))
def swish(x: jax.Array, sigmoid_input_scale: float) -> jax.Array:
    """Return `x / (1 + exp(-scale * x))`.

    The exponential is of a number below 0, and of a greater one where it would be no normal float.
    """
    scaled = sigmoid_input_scale * x
    if x.dtype != np.float32:  # XLA's exponential of FLOAT64 has all digits
        return x * lax.logistic(scaled)
    size = jnp.abs(scaled)
    is_far = size > 64
    e = lax.exp(jnp.where(is_far, np.float32(16), np.float32(0)) - size)
    below = x * e * jnp.where(is_far, np.exp(np.float32(-16)), np.float32(1))
    return jnp.where(scaled >= 0, x, below) / (1 + e)


# Coefficients of u, u^2, ... in `0.5 * erfc(a / sqrt(2)) * exp(a^2 / 2)`, u = 1 / (1 + 7/16 * a):
# a weighted least-squares fit to SciPy's erfcx, for a from 0 to 16.
_TAIL = (
    0.174534673,
    0.174628194,
    0.139739349,
    0.0864385625,
    -0.0735274168,
    0.178911955,
    -0.639429267,
    0.902293584,
    -0.649543308,
    0.244674731,
    -0.0387210576,
)
_HEIGHT = (2 * np.pi) ** -0.5  # of the normal distribution's density


def _tail(a: jax.Array) -> jax.Array:
    """Return `0.5 * erfc(a / sqrt(2)) * exp(a^2 / 2)`."""
    if a.dtype.itemsize == 8:  # the polynomial has the digits of FLOAT32
        return 0.5 * lax.erfc(a * np.sqrt(0.5)) * lax.exp(a * a / 2)
    u = 1 / (1 + 0.4375 * a)
    tail = jnp.zeros_like(u)
    for coefficient in reversed(_TAIL):
        tail = (tail + coefficient) * u
    return tail


def _of_gelu_slope(dx: jax.Array, x: jax.Array) -> jax.Array:
    x = lax.clamp(x.dtype.type(-64), x, x.dtype.type(64))  # beyond, the derivative is 0
    return dx * (2 - x * x) * (_HEIGHT * element_wise.bell(x, 0.5, 0))


@derived_by(_of_gelu_slope)
def _gelu_slope(x: jax.Array) -> jax.Array:
    """Return the derivative of `gelu`; of x and -x they are 1 together."""
    a = lax.min(jnp.abs(x), x.dtype.type(16))
    slope = (_tail(a) - _HEIGHT * a) * element_wise.bell(a, 0.5, 0)
    return jnp.where(x < 0, slope, 1 - slope)


@derived_by(lambda dx, x: dx * _gelu_slope(x))
def gelu(x: jax.Array) -> jax.Array:
    """Return `0.5 * x * erfc(-x / sqrt(2))`.

    The tail `0.5 * erfc(a / sqrt(2))` of a = |x| is `exp(-a^2 / 2)` times a polynomial. Of a^2 the
    part `whole^2` is exact; what a rounding of the exponent loses is added to the result of `exp`,
    which would magnify it.
    """
    if x.dtype.itemsize == 8:
        return 0.5 * x * lax.erfc(-x * np.sqrt(0.5))
    a = jnp.where(jnp.abs(x) > 16, 16, jnp.abs(x))
    whole = jnp.floor(a * 16) / 16
    most, rest = -whole * whole / 2, (whole - a) * (whole + a) / 2
    exponent = most + rest
    bell, tail = lax.exp(exponent), _tail(a)
    bell += bell * (rest - (exponent - most))
    return jnp.where(x < 0, x * tail * bell, x * (1 - tail * bell))


def shrink(x: jax.Array, bias: float, threshold: float) -> jax.Array:
    """Return `x - bias if x > threshold else x + bias if x < -threshold else 0`.

    Integers have bounds of their own type. `x < -threshold` is then `x <= -1 - threshold`, which
    never overflows; it holds for no unsigned integer.
    """
    if is_float(x):
        is_below = x < -threshold
    else:
        dtype = np.dtype(x.dtype)
        bias, threshold = (dtype.type(clamp.cast_bound(v, dtype)) for v in (bias, threshold))
        is_below = x <= -1 - threshold if dtype.kind == "i" else jnp.zeros_like(x, bool)
    return jnp.where(x > threshold, x - bias, jnp.where(is_below, x + bias, 0))

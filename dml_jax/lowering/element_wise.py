"""Functions of each element, where one function of `jax.lax` does not do."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.enums import IsInfinityMode, RoundingMode
from dml_jax.lowering import angles, clamp
from dml_jax.lowering.elementwise_primitive import Differentiable, derived_by
from dml_jax.lowering.platform_forms import by_platform
from dml_jax.lowering.quantization import corrected


def identity(x: jax.Array) -> jax.Array:
    """Return `x`."""
    return x


def _of_exp(dx: jax.Array, x: jax.Array) -> jax.Array:
    return dx * exp(x)


@derived_by(_of_exp)
def exp(x: jax.Array) -> jax.Array:
    """Return e to the power of x; beyond 88, where XLA's on CPUs has fewer digits, in two steps."""
    is_large = x > 88
    return lax.exp(jnp.where(is_large, x - 1, x)) * jnp.where(is_large, np.e, 1).astype(x.dtype)


def _of_dividend(da: jax.Array, _: jax.Array, b: jax.Array, times: int) -> jax.Array:
    return divide(da, b, times)


def _of_divisor(db: jax.Array, a: jax.Array, b: jax.Array, times: int) -> jax.Array:
    return -times * db * divide(a, b, times + 1)


@derived_by(_of_dividend, _of_divisor, transpose=_of_dividend)
def divide(a: jax.Array, b: jax.Array, times: int) -> jax.Array:
    """Return floats `a` divided by `b`, so many times; a GPU's quotient of FLOAT32 is corrected."""
    if a.dtype == np.float32:
        a = by_platform(corrected, cpu=lax.div, whole_arrays=False)(a, b)
    else:
        a = lax.div(a, b)
    for _ in range(times - 1):
        a = lax.div(jnp.where(b == b, a, np.nan), b)  # or XLA makes a / (b * b) of it
    return a


reciprocal = Differentiable(lax.reciprocal, lambda dx, x: -divide(dx, x, 2))
log = Differentiable(lax.log, lambda dx, x: divide(dx, x, 1))


def _of_root(dx: jax.Array, x: jax.Array, a: int, b: int, j: int, k: int) -> jax.Array:
    slope = (-k * b) * _over_root(x, a, b, j + 1, k + 2)
    if j > 0:
        slope += j * _over_root(x, a, b, j - 1, k)
    return dx * slope


@derived_by(_of_root)
def _over_root(x: jax.Array, a: int, b: int, j: int, k: int) -> jax.Array:
    """Return `x^j / sqrt(a + b * x^2)^k` of a and b that are 1 or -1.

    Derivatives of it are of this kind too. Where x^2 might overflow, it is `x^j / |x|^k`.
    """
    square = 1 + x * x if a == b else (x + 1) * (b * (x - 1))
    power = lax.integer_pow(square, k // 2)
    if k % 2:
        power = power * lax.sqrt(square)
    near = lax.integer_pow(x, j) / power
    if b < 0:
        return near
    far = lax.integer_pow(1 / jnp.abs(x), k - j) * lax.integer_pow(lax.sign(x), j)
    return jnp.where(jnp.abs(x) > 2.0 ** (jnp.finfo(x.dtype).nmant // 2 + 2), far, near)


acosh = Differentiable(lax.acosh, lambda dx, x: dx * _over_root(x, -1, 1, 0, 1))
asinh = Differentiable(lax.asinh, lambda dx, x: dx * _over_root(x, 1, 1, 0, 1))
atanh = Differentiable(lax.atanh, lambda dx, x: dx * _over_root(x, 1, -1, 0, 2))
acos = Differentiable(angles.arccos, lambda dx, x: -dx * _over_root(x, 1, -1, 0, 1))
asin = Differentiable(angles.arcsin, lambda dx, x: dx * _over_root(x, 1, -1, 0, 1))
atan = Differentiable(angles.arctan, lambda dx, x: dx * _over_root(x, 1, 1, 0, 2))
cos = Differentiable(angles.cos, lambda dx, x: -dx * sin(x))
sin = Differentiable(angles.sin, lambda dx, x: dx * cos(x))
tan = Differentiable(angles.tan, lambda dx, x: dx * (1 + lax.square(tan(x))))


def _of_bell(dx: jax.Array, x: jax.Array, c: float, j: int) -> jax.Array:
    slope = (-2 * c) * bell(x, c, j + 1)
    if j > 0:
        slope += j * bell(x, c, j - 1)
    return dx * slope


@derived_by(_of_bell)
def bell(x: jax.Array, c: float, j: int) -> jax.Array:
    """Return `x^j * exp(-c * x^2)` of a c that is 1 or 1/2.

    Of x^2 the part `whole^2` is exact, so that `exp` gets no rounded square, which it would
    magnify.
    """
    x = lax.clamp(x.dtype.type(-64), x, x.dtype.type(64))  # where the bell is 0
    a = jnp.abs(x)
    whole = jnp.floor(a * 16) / 16
    rest = lax.exp(c * (whole - a) * (whole + a))
    rest = jnp.where(x == x, rest, np.nan)  # or XLA makes one `exp` of both
    return lax.integer_pow(x, j) * lax.exp(-c * whole * whole) * rest


@derived_by(lambda dx, x: dx * (2 / np.sqrt(np.pi)).astype(x.dtype) * bell(x, 1, 0))
def erf(x: jax.Array) -> jax.Array:
    """Return the error function. XLA passes a sharding through a select, and not through `erf`."""
    return jnp.where(x == x, lax.erf(x), x)


# ln(2) in two parts: a whole number of at most 16 bits times the first is exact.
_LN2, _LN2_REST = 0.693359375, float(np.log(2)) - 0.693359375


def exponential_parts(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return n, c and s of FLOAT32 `x`, so that `exp(x) = 2^n * (1 + c + s)`.

    n is a whole number in INT32; c and s are `cosh(r) - 1` and `sinh(r)` of the rest r of x, which
    is at most ln(2) / 2. Sums of these have the digits that XLA's exponential for a GPU lacks.
    """
    whole = lax.round(x * float(np.log2(np.e)), lax.RoundingMethod.TO_NEAREST_EVEN)
    whole = lax.stop_gradient(whole)
    near, rest = x - whole * _LN2, whole * _LN2_REST
    r = near - rest
    lost = near - r - rest  # when r was rounded
    square = r * r
    c = square * (1 / 2 + square * (1 / 24 + square * (1 / 720 + square * (1 / 40320))))
    s = r + (r * (square * (1 / 6 + square * (1 / 120 + square * (1 / 5040)))) + lost)
    return lax.convert_element_type(whole, np.int32), c, s


def power_of_two(n: jax.Array) -> jax.Array:
    """Return 2^n as FLOAT32 of INT32 n up to 127; 0 where it is below the normal numbers."""
    return lax.bitcast_convert_type(jnp.maximum(n + 127, 0) << 23, np.float32)


def _of_cosh(dx: jax.Array, x: jax.Array) -> jax.Array:
    return dx * sinh(x)


@derived_by(_of_cosh)
def cosh(x: jax.Array) -> jax.Array:
    """Return `(exp(x) + exp(-x)) / 2`, by the addition theorem of cosh."""
    if x.dtype != np.float32:  # XLA's exponential of FLOAT64 has all digits
        root = lax.exp(jnp.abs(x) / 2)
        return 0.5 * root * root + 0.5 / root / root
    (even, odd), (c, s) = _halves(x)
    return 2 * (even + (even * c + odd * s))


@derived_by(lambda dx, x: dx * cosh(x))
def sinh(x: jax.Array) -> jax.Array:
    """Return `(exp(x) - exp(-x)) / 2`, by the addition theorem of sinh."""
    if x.dtype != np.float32:
        small = lax.expm1(jnp.clip(x, -1, 1))
        root = lax.exp(jnp.abs(x) / 2)
        large = lax.sign(x) * (0.5 * root * root - 0.5 / root / root)
        return jnp.where(jnp.abs(x) < 1, (small + small / (small + 1)) / 2, large)
    (even, odd), (c, s) = _halves(x)
    return jnp.where(jnp.abs(x) < 2**-12, x, 2 * (odd + (odd * c + even * s)))


Pair = tuple[jax.Array, jax.Array]


def _halves(x: jax.Array) -> tuple[Pair, Pair]:
    """Return half of cosh and sinh of `n * ln(2)`, and `cosh(r) - 1` and `sinh(r)`.

    `n * ln(2) + r` is x, or 89.5, where both are infinite.
    """
    n, c, s = exponential_parts(lax.clamp(np.float32(-89.5), x, np.float32(89.5)))
    up, down = power_of_two(n - 2), power_of_two(-n - 2)
    return (up + down, up - down), (c, s)


def sech_squared(x: jax.Array, factor: jax.Array | float = 1) -> jax.Array:
    """Return `factor / cosh(x)^2`.

    For large x, `exp(-2 * |x|)` is a square, so that no factor underflows before the result does.
    """
    double = 2 * jnp.abs(x)
    is_small = double > 64
    root = lax.exp(-jnp.where(is_small, double / 2, double))
    rest = jnp.where(is_small, root, 1)
    size = 1 + root * rest
    return 4 * root / (size * size) * factor * rest


def _of_bend(dx: jax.Array, x: jax.Array) -> jax.Array:
    return -2 * dx * tanh(x) * _of_tanh(x)


@derived_by(_of_bend)
def _of_tanh(x: jax.Array) -> jax.Array:
    return sech_squared(x)


def _of_half_bend(dx: jax.Array, x: jax.Array) -> jax.Array:
    return -dx * tanh(x / 2) * _of_logistic(x)


@derived_by(_of_half_bend)
def _of_logistic(x: jax.Array) -> jax.Array:
    return sech_squared(x / 2, 0.25)


tanh = Differentiable(lax.tanh, lambda dx, x: dx * _of_tanh(x))
logistic = Differentiable(lax.logistic, lambda dx, x: dx * _of_logistic(x))


def sign(x: jax.Array) -> jax.Array:
    """Return 1 above 0, -1 below, else 0: for NaN too."""
    return lax.convert_element_type(x > 0, x.dtype) - lax.convert_element_type(x < 0, x.dtype)


def rounded(x: jax.Array, rounding_mode: RoundingMode) -> jax.Array:
    """Return floats as whole numbers; halves go to even numbers, or away from zero."""
    if rounding_mode == RoundingMode.TOWARD_ZERO:
        return jnp.trunc(x)
    is_even = rounding_mode == RoundingMode.HALVES_TO_NEAREST_EVEN
    method = lax.RoundingMethod.TO_NEAREST_EVEN if is_even else lax.RoundingMethod.AWAY_FROM_ZERO
    return lax.round(x, method)


def threshold(x: jax.Array, min: float) -> jax.Array:  # noqa: A002
    """Return `max(x, min)`, with `min` cast to the type of `x`. The derivative at `min` is 0."""
    dtype = np.dtype(x.dtype)
    low = dtype.type(clamp.cast_bound(min, dtype))
    return jnp.where(x <= low, low, x)


def constant_pow(x: jax.Array, exponent: float) -> jax.Array:
    """Return `pow(x, exponent)` as C has it."""
    if exponent in (0, 1, 2, 3):  # products, whose derivatives at 0 are never 0 * infinity
        return lax.integer_pow(x, int(exponent))
    return lax.pow(x, lax.full_like(x, exponent))


def value_scale_2d(x: jax.Array, scale: float, bias: Sequence[float]) -> jax.Array:
    """Return `x * scale + bias`, with one bias a channel (dimension 1)."""
    channels = jnp.array(bias, x.dtype)[None, :, None, None]
    return x * scale + lax.broadcast_in_dim(channels, x.shape, (0, 1, 2, 3))


# Functions of truth values, which come as `jax.numpy.bool_`, and of bits: those of a float are an
# unsigned integer of its width.


def is_true(x: jax.Array) -> jax.Array:
    """Return whether each element of `x` differs from 0."""
    return x != x.dtype.type(0)


def is_infinity(x: jax.Array, infinity_mode: IsInfinityMode) -> jax.Array:
    """Return whether each element of `x` is the infinity of `infinity_mode`."""
    if infinity_mode == IsInfinityMode.EITHER:
        return jnp.isinf(x)
    sign = 1 if infinity_mode == IsInfinityMode.POSITIVE else -1
    return x == x.dtype.type(sign * jnp.inf)


def _shift(shift: Any) -> Callable[..., jax.Array]:
    """Return `shift`, with 0 for counts of at least the width, which XLA leaves to its backends."""

    def shifted(x: jax.Array, count: jax.Array) -> jax.Array:
        width = count.dtype.type(8 * x.dtype.itemsize)
        return lax.select(count < width, shift(x, count), lax.full_like(x, 0))

    return shifted


shift_left = _shift(lax.shift_left)
shift_right = _shift(lax.shift_right_logical)

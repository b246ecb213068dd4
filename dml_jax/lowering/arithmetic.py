"""Functions of the elements at one place of several arrays."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering import angles, element_wise
from dml_jax.lowering.dtypes import finite, is_float, wide
from dml_jax.lowering.elementwise_primitive import Differentiable, derived_by
from dml_jax.lowering.platform_forms import by_platform
from dml_jax.lowering.scale_bias import Linear, mapped, saturate, scaled_integers


def rounded(function: Callable[..., jax.Array], a: jax.Array, b: jax.Array) -> jax.Array:
    """Return `function(a, b)` in the type of `a`: of FLOAT16 computed in FLOAT32, rounded once."""
    return lax.convert_element_type(function(wide(a), wide(b)), a.dtype)


def _is_signed(x: jax.Array) -> bool:
    return jnp.issubdtype(x.dtype, jnp.signedinteger)


def _divisor(b: jax.Array) -> jax.Array:
    """Return integers `b` with 1 for 0 and -1, for which XLA leaves the quotient to the backend."""
    is_open = (b == 0) | (b == -1) if _is_signed(b) else b == 0
    return jnp.where(is_open, lax.full_like(b, 1), b)


def divide(a: jax.Array, b: jax.Array) -> jax.Array:
    """Return a / b; of integers toward zero, with all bits set where `b` is 0."""
    if is_float(a):
        return element_wise.divide(a, b, 1)
    quotient = lax.div(a, _divisor(b))
    if _is_signed(b):
        quotient = jnp.where(b == -1, -a, quotient)
    return jnp.where(b == 0, ~lax.full_like(a, 0), quotient)


_FEW_BITS = 20  # of a quotient that is subtracted at once
_LEAST_DIVISOR = np.float32(2**-100).view(np.int32)  # multiples of smaller ones may be subnormal


def _beyond(x: jax.Array, unit: jax.Array) -> jax.Array:
    """Return what positive `x` has beyond multiples of `unit`, exactly; less than 2^22 fit in.

    Halves of the quotient by halves of the unit are products without rounding.
    """
    count = jnp.floor(x / unit)
    most = jnp.floor(count * 2**-11) * 2**11
    bits = lax.bitcast_convert_type(unit, np.int32) & np.int32(-(2**12))
    upper = lax.bitcast_convert_type(bits, np.float32)
    rest = x
    for part in (most, count - most):
        rest = rest - part * upper - part * (unit - upper)
    return jnp.where(rest < 0, rest + unit, rest)


def _rem_by_parts(a: jax.Array, b: jax.Array) -> jax.Array:
    """Return what `lax.rem` does, by two quotients of few bits, where XLA would call C's fmod.

    Where that does not do for all elements, all are C's.
    """
    x, y = jnp.abs(a), jnp.abs(b)
    of_x, of_y = (lax.bitcast_convert_type(v, np.int32) for v in (x, y))
    more = (of_x >> 23) - (of_y >> 23)
    power = element_wise.power_of_two(jnp.clip(more - _FEW_BITS, 0, _FEW_BITS))
    rest = jnp.where(of_x < of_y, x, _beyond(_beyond(x, y * power), y))
    rest = jnp.where((x < np.inf) & (y > 0), jnp.copysign(rest, a), np.float32(np.nan))
    is_far = (more > 2 * _FEW_BITS) | (of_y < _LEAST_DIVISOR)
    is_far = is_far & (of_x >= of_y) & (of_y > 0) & (x < np.inf)

    def by_library(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return state[0] | True, lax.rem(a, b)

    return lax.while_loop(lambda state: ~state[0], by_library, (~jnp.any(is_far), rest))[1]


_rem_of_float32 = by_platform(lax.rem, cpu=_rem_by_parts, whole_arrays=True)


def _rem(a: jax.Array, b: jax.Array) -> jax.Array:
    """Return a - b * trunc(a / b) of floats."""
    return (_rem_of_float32 if a.dtype == np.float32 else lax.rem)(a, b)


def _quotient(a: jax.Array, b: jax.Array) -> jax.Array:
    """Return trunc(a / b); a rounded a / b may be the next whole number."""
    return lax.round((a - _rem(a, b)) / b)


_remainder = Differentiable(_rem, lambda da, a, b: da, lambda db, a, b: -db * _quotient(a, b))


def modulus_truncate(a: jax.Array, b: jax.Array) -> jax.Array:
    """Return a - b * trunc(a / b), exactly; of integers `a` where `b` is 0."""
    if is_float(a):
        return _remainder(a, b)
    return jnp.where(b == 0, a, lax.rem(a, _divisor(b)))


def modulus_floor(a: jax.Array, b: jax.Array) -> jax.Array:
    """Return a - b * floor(a / b), exactly but for one rounding; of integers `a` where `b` is 0."""
    remainder = modulus_truncate(a, b)
    is_beyond = (remainder != 0) & ((remainder < 0) != (b < 0))
    return jnp.where(is_beyond, remainder + b, remainder)


def mean(a: jax.Array, b: jax.Array) -> jax.Array:
    """Return (a + b) / 2 of a sum that cannot overflow; of integers toward zero."""
    if is_float(a):
        half, total = a.dtype.type(0.5), a + b
        is_beyond = jnp.isinf(total) & jnp.isfinite(a) & jnp.isfinite(b)
        return jnp.where(is_beyond, a + (b - a) * half, total * half)
    differing, one = a ^ b, lax.full_like(a, 1)
    if not _is_signed(a):
        return (a & b) + lax.shift_right_logical(differing, one)
    floor = (a & b) + lax.shift_right_arithmetic(differing, one)
    return floor + jnp.where(floor < 0, differing & one, lax.full_like(a, 0))


def difference_square(a: jax.Array, b: jax.Array) -> jax.Array:
    """Return (a - b) ** 2; unsigned integers wrap, which gives the same square."""
    return lax.square(a - b)


def _in_units(y: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return 1 / r, and y and x in units of r, so that their squares stay in range.

    r is a power of 2 near the larger of |x| and |y|.
    """
    limits = jnp.finfo(x.dtype)
    y, x = (lax.clamp(-limits.max, v, limits.max) for v in (y, x))  # of infinity the limit
    size = lax.clamp(limits.tiny, lax.max(jnp.abs(y), jnp.abs(x)), limits.max / 4)
    power = lax.reduce_precision(lax.stop_gradient(size), limits.nexp, 0)
    unit = 1 / power
    return unit, y * unit, x * unit


def _of_ratio(dx: jax.Array, y: jax.Array, x: jax.Array) -> jax.Array:
    unit, v, u = _in_units(y, x)
    square = u * u + v * v
    square = jnp.where(square == 0, 1, square)
    return dx * unit * ((v - u) * (v + u) / (square * square)) * unit


def _of_height(dy: jax.Array, y: jax.Array, x: jax.Array) -> jax.Array:
    return -2 * dy * _ratio(x, y) * _ratio(y, x)


@derived_by(_of_height, _of_ratio)
def _ratio(y: jax.Array, x: jax.Array) -> jax.Array:
    """Return `x / (x^2 + y^2)`, and 0 at the origin."""
    unit, v, u = _in_units(y, x)
    square = u * u + v * v
    return u / jnp.where(square == 0, 1, square) * unit


@derived_by(lambda dy, y, x: dy * _ratio(y, x), lambda dx, y, x: -dx * _ratio(x, y))
def atan_yx(y: jax.Array, x: jax.Array) -> jax.Array:
    """Return the angle of the points (x, y) in radians; its gradient at the origin is 0."""
    return angles.arctan2(y, x)


def _of_base(dx: jax.Array, x: jax.Array, exponent: jax.Array, logarithms: int) -> jax.Array:
    # An exponent of 0 meets no infinity: neither here nor, forward or reverse, in a derivative.
    base, lower = (jnp.where(exponent == 0, lax.stop_gradient(v), v) for v in (x, exponent - 1))
    power = _power(base, lower, logarithms)
    power = jnp.where(exponent == 0, lax.stop_gradient(finite(power)), power)
    slope = exponent * power
    if logarithms:
        slope += logarithms * _power(x, exponent - 1, logarithms - 1)
    return dx * slope


def _of_exponent(de: jax.Array, x: jax.Array, exponent: jax.Array, logarithms: int) -> jax.Array:
    return de * _power(x, exponent, logarithms + 1)


@derived_by(_of_base, _of_exponent)
def _power(x: jax.Array, exponent: jax.Array, logarithms: int) -> jax.Array:
    """Return C's pow of floats times a power of the logarithm of x.

    With logarithms it is 0 where `x` is not positive: pow has no neighbours there. A root of it is
    in range where the product is.
    """
    if logarithms == 0:
        return lax.pow(x, exponent)
    root = lax.pow(x, exponent / 2)
    logarithm = lax.log(jnp.where(x > 0, x, 1))
    product = root * lax.integer_pow(logarithm, logarithms) * root
    return jnp.where((x <= 0) | (root == 0), 0, product)


def _float_power(x: jax.Array, exponent: jax.Array) -> jax.Array:
    """Return floats `x` to the power of exponents of any type, which do not round."""
    if is_float(exponent):
        return _power(x, wide(exponent), 0)
    parts = [exponent]
    if exponent.dtype.itemsize > 2:  # a FLOAT32 has 24 bits: two of 16, of one sign
        low = lax.rem(exponent, lax.full_like(exponent, 2**15))
        parts = [exponent - low, low]
    return math.prod(
        (_power(x, lax.convert_element_type(part, x.dtype), 0) for part in parts),
        start=lax.full_like(x, 1),
    )


def _integer_power(x: jax.Array, exponent: jax.Array) -> jax.Array:
    """Return integers `x` to the power of integers, modulo 2^n.

    A negative exponent gives the real power toward zero, and the largest integer where `x` is 0.
    """
    bits = exponent.dtype.itemsize * 8
    squarings = min(max(x.dtype.itemsize * 4 - 2, 3), bits)
    result, factor = lax.full_like(x, 1), x
    for bit in range(squarings):
        is_set = lax.shift_right_logical(exponent, lax.full_like(exponent, bit)) & 1 == 1
        result = jnp.where(is_set, result * factor, result)
        factor = factor * factor
    if squarings < bits:
        # The factor is 0 by now for even x. For odd x it is 1 + f, where f * f is 0 modulo 2^n:
        # so (1 + f) ** rest is 1 + rest * f.
        rest = lax.shift_right_logical(exponent, lax.full_like(exponent, squarings))
        of_odd = 1 + lax.convert_element_type(rest, x.dtype) * (factor - 1)
        of_even = lax.convert_element_type(rest == 0, x.dtype)
        result = result * jnp.where(x & 1 == 1, of_odd, of_even)
    if not _is_signed(exponent):
        return result
    inverse = jnp.where(x == 0, lax.full_like(x, np.iinfo(x.dtype).max), lax.full_like(x, 0))
    inverse = jnp.where(abs(x) == 1, result, inverse)  # 1, or -1 by the exponent's lowest bit
    return jnp.where(exponent < 0, inverse, result)


def power(x: jax.Array, exponent: jax.Array, scale_bias: Linear | None) -> jax.Array:
    """Return `x * scale + bias` to the power of `exponent` of any type, in the type of `x`."""
    if is_float(x):
        return mapped(lambda y: _float_power(y, exponent), x, scale_bias)
    x = scaled_integers(x, scale_bias)
    if not is_float(exponent):
        return _integer_power(x, exponent)
    exponent = wide(exponent)
    near = saturate(_power(lax.convert_element_type(x, exponent.dtype), exponent, 0), x.dtype)
    limits = np.iinfo(x.dtype)
    fits = (near > limits.min) & (near < limits.max) & (abs(exponent) < 2**24)
    whole = saturate(exponent, np.int32)
    is_whole = lax.convert_element_type(whole, exponent.dtype) == exponent
    return jnp.where(fits & is_whole, _integer_power(x, whole), near)


def _rest(beta: float, step: jax.Array) -> jax.Array:
    """Return 1 - beta ** step in FLOAT32, without cancellation."""
    if beta > 0:
        return -jnp.expm1(lax.convert_element_type(step, jnp.float32) * np.float32(math.log(beta)))
    return 1 - _float_power(jnp.full(step.shape, beta, jnp.float32), step)


def _root(x: jax.Array) -> jax.Array:
    """Return sqrt(x), whose gradient at 0 is 0."""
    is_zero = x == 0
    return jnp.where(is_zero, lax.full_like(x, 0), lax.sqrt(jnp.where(is_zero, 1, x)))


def adam(
    parameters: jax.Array,
    first_moment: jax.Array,
    second_moment: jax.Array,
    gradient: jax.Array,
    step: jax.Array,
    *,
    learning_rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return parameters and both moments after a step of Adam, each rounded once.

    `step` has the number of the step from 1 on, and sizes of 1; `epsilon` keeps the divisor from 0.
    """
    real, dtype = np.float32, parameters.dtype
    x, m, v, g = map(wide, (parameters, first_moment, second_moment, gradient))
    m = real(beta1) * m + real(1 - beta1) * g
    v = real(beta2) * v + real(1 - beta2) * g * g
    alpha = lax.sqrt(_rest(beta2, step)) / _rest(beta1, step)
    x = x - real(learning_rate) * alpha * m / (_root(v) + real(epsilon))
    return lax.convert_element_type(x, dtype), m.astype(dtype), v.astype(dtype)

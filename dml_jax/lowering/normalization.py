"""Normalizations, and their gradients: of FLOAT32 or FLOAT64, with sums of that type."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from dml_jax.lowering.axes import averaged, beside, summed
from dml_jax.lowering.platform_forms import by_platform

Activation = Callable[[jax.Array], jax.Array]
Three = tuple[jax.Array, jax.Array, jax.Array]
Statistics = tuple[jax.Array, jax.Array]  # a mean and a variance


def activated(y: jax.Array, activation: Activation | None) -> jax.Array:
    """Return `activation(y)`; None leaves `y`."""
    return y if activation is None else activation(y)


def statistics(x: jax.Array, axes: Sequence[int]) -> Statistics:
    """Return the mean and the population variance of the elements over `axes`, by two passes."""
    mean = averaged(x, axes)
    return mean, averaged(jnp.square(x - mean), axes)


def axes_of_ones(x: jax.Array) -> tuple[int, ...]:
    """Return the axes of size 1."""
    return tuple(axis for axis, size in enumerate(x.shape) if size == 1)


def inverse_deviation(variance: jax.Array, epsilon: float) -> jax.Array:
    """Return `1 / sqrt(variance + epsilon)`."""
    return 1 / jnp.sqrt(variance + epsilon)


def mean_variance(
    x: jax.Array,
    scale: jax.Array | None,
    bias: jax.Array | None,
    axes: Sequence[int],
    uses: tuple[bool, bool],
    epsilon: float,
) -> jax.Array:
    """Return `scale * (x - mean) / sqrt(variance + epsilon) + bias`, with both taken over `axes`.

    `uses` says whether the mean is subtracted, and whether the rest is divided. The variance is
    about 0 where the mean is not used.
    """
    uses_mean, uses_variance = uses
    if uses_mean:
        x = x - beside(averaged(x, axes), x)
    if uses_variance:
        variance = averaged(jnp.square(x), axes)
        x = x * beside(inverse_deviation(variance, epsilon), x)
    x = x if scale is None else x * beside(scale, x)
    return x if bias is None else x + beside(bias, x)


def batch(
    x: jax.Array, of: Statistics, scale: jax.Array, bias: jax.Array, epsilon: float
) -> jax.Array:
    """Return `scale * (x - mean) / sqrt(variance + epsilon) + bias`, of a mean and a variance."""
    mean, variance = of
    centred = x - beside(mean, x)
    inverse = inverse_deviation(variance, epsilon)
    return centred * beside(inverse, x) * beside(scale, x) + beside(bias, x)


def batch_gradient(
    x: jax.Array, dy: jax.Array, of: Statistics, scale: jax.Array, epsilon: float
) -> Three:
    """Return the gradients of `batch` for `x`, `scale` and `bias`; the statistics are constants."""
    mean, variance = of
    axes, inverse = axes_of_ones(mean), inverse_deviation(variance, epsilon)
    slope = summed(dy * (x - mean), axes) * inverse
    return dy * (scale * inverse), slope, summed(dy, axes)


def batch_training_gradient(
    x: jax.Array, dy: jax.Array, of: Statistics, scale: jax.Array, epsilon: float
) -> Three:
    """Return the gradients of `batch` with the statistics of `x`, for `x`, `scale` and `bias`."""
    axes, inverse = axes_of_ones(of[0]), inverse_deviation(of[1], epsilon)
    centred = x - averaged(x, axes)
    along = averaged(dy * centred, axes) * jnp.square(inverse)
    rest = dy - averaged(dy, axes) - centred * along
    _, of_scale, of_bias = batch_gradient(x, dy, of, scale, epsilon)
    return rest * (scale * inverse), of_scale, of_bias


def window_sum(x: jax.Array, axes: Sequence[int], size: int, mirrored: bool = False) -> jax.Array:
    """Return the sum over `size` neighbours along each of `axes`, the element itself among them.

    A window of even size has one more element behind its middle than before it; a mirrored one has
    one more before. Elements outside of `x` are 0.
    """
    for axis in axes:
        n = x.shape[axis]
        before, behind = min((size - 1) // 2, n - 1), min(size // 2, n - 1)
        padding = (behind, before) if mirrored else (before, behind)
        window = [1 + before + behind if d == axis else 1 for d in range(x.ndim)]
        around = [padding if d == axis else (0, 0) for d in range(x.ndim)]
        x = lax.reduce_window(x, x.dtype.type(0), lax.add, window, [1] * x.ndim, around)
    return x


class Neighbours(NamedTuple):
    """The window and the numbers of a normalization by the elements around each one.

    Attributes:
        axes: the dimensions of the window.
        size: the window's size in each of them.
        alpha: the factor of the mean of squares.
        beta: the power.
        bias: is added before the power is taken.
    """

    axes: Sequence[int]
    size: int
    alpha: float
    beta: float
    bias: float

    def base(self, x: jax.Array) -> jax.Array:
        """Return `bias + alpha / size * s`, with s the sum of squares in the window."""
        squares = window_sum(jnp.square(x), self.axes, self.size)
        return self.bias + self.alpha / self.size * squares


def local_response(x: jax.Array, around: Neighbours) -> jax.Array:
    """Return `x / (bias + alpha / size * s) ** beta`, with s the sum of squares in the window."""
    return x / lax.pow(around.base(x), x.dtype.type(around.beta))


def local_response_gradient(x: jax.Array, dy: jax.Array, around: Neighbours) -> jax.Array:
    """Return the gradient of `local_response` for `x`, where `dy` is that of its result."""
    axes, size, alpha, beta, _ = around
    base = around.base(x)
    direct = dy / lax.pow(base, x.dtype.type(beta))
    total = window_sum(direct * x / base, axes, size, mirrored=True)
    return direct - 2 * alpha * beta / size * x * total


def unit(x: jax.Array, axis: int, power: int, epsilon: float) -> jax.Array:
    """Return `x / max(norm, epsilon)`, with the norm over `axis`; 0 where the norm is 0.

    The norm is the sum of magnitudes where `power` is 1, the root of the sum of squares where it is
    2. Elements far from 1 are brought near it by a power of 2, so that all squares are normal
    floats. A CPU sums once, and again only where that sum is far from 1: it reads no largest
    element first.
    """

    def plain(x: jax.Array) -> jax.Array:
        step = _step(jnp.max(jnp.abs(x), axis, keepdims=True), 2.0**50)
        return _divide_by_norm(x, step, _total(x * step, axis, power), power, epsilon)

    def by_sum(x: jax.Array) -> jax.Array:
        total = _total(x, axis, power)
        step = _step(total, 2.0**100)
        total = lax.cond((step == 1).all(), lambda: total, lambda: _total(x * step, axis, power))
        return _divide_by_norm(x, step, total, power, epsilon)

    return by_platform(plain, cpu=by_sum, whole_arrays=True)(x)


def _total(x: jax.Array, axis: int, power: int) -> jax.Array:
    """Return the sum of magnitudes (`power` 1) or of squares (2) over `axis`."""
    return summed(jnp.abs(x) if power == 1 else jnp.square(x), [axis])


def _step(of: jax.Array, limit: float) -> jax.Array:
    """Return the power of 2 that brings lines near 1, of which `of` is beyond `limit`."""
    of = lax.stop_gradient(of)
    step = jnp.where(of < 1 / limit, of.dtype.type(2.0**90), of.dtype.type(1))
    return jnp.where(of > limit, of.dtype.type(2.0**-90), step)


def _divide_by_norm(
    x: jax.Array, step: jax.Array, total: jax.Array, power: int, epsilon: float
) -> jax.Array:
    """Return elements times `step`, divided by their norm, of which `total` is the power."""
    norm = total
    if power == 2:
        norm = jnp.where(total == 0, 0, jnp.sqrt(jnp.where(total == 0, 1, total)))
    divisor = beside(jnp.maximum(norm, epsilon * step), x)
    is_zero = divisor == 0
    return jnp.where(is_zero, 0, x * step / jnp.where(is_zero, 1, divisor))

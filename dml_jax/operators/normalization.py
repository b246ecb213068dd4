"""Operators that normalize elements by the statistics of others."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax import lax

from dml_jax.errors import DmlError, Fault, items_of
from dml_jax.lowering import normalization
from dml_jax.lowering.dtypes import wide
from dml_jax.operator import Fitted, Operator, per_channel, with_rank


class _Normalizing(Operator):
    """Normalizes elements.

    Choices: FLOAT16 is computed in FLOAT32, and rounded once.

    Fields:
        output_tensor: of the input's type and sizes.
        epsilon: is added to the variance, so that it is not 0; 0.00001 is usual.
    """

    def lower(self, *arrays):
        results = self.normalized(*(x if x is None else wide(x) for x in arrays))
        dtype = self.input_tensor.dtype
        return jax.tree.map(lambda y: lax.convert_element_type(y, dtype), results)

    def normalized(self, *arrays: Any, **_: Any) -> Any:
        """Return the outputs, in FLOAT32, of inputs in FLOAT32."""
        raise NotImplementedError


class _Batch(_Normalizing):
    """Normalizes elements by the statistics of a batch."""

    @classmethod
    def fitted(cls, sizes: Mapping[str, tuple[int, ...] | None], attributes: Any) -> Fitted:
        """Return arrays of one number for each channel with the input's rank."""
        names = ("mean_tensor", "variance_tensor", "scale_tensor", "bias_tensor")
        return per_channel(sizes, *names)


class BatchNormalization(_Batch, op="BATCH_NORMALIZATION"):
    """Normalizes elements by a mean and a variance that it is given.

    `output = activation(scale * (input - mean) / sqrt(variance + epsilon) + bias)`

    Choice: a variance below -epsilon gives NaN.

    Gradient: `dy * scale / sqrt(variance + epsilon)` for the input, with `dy` behind the
    activation's gradient, and likewise for the other tensors.

    Fields:
        mean_tensor, variance_tensor, scale_tensor, bias_tensor: of the input's type and number of
            dimensions; each size is the input's, or 1, which repeats the element. Functions also
            take {C}.
        spatial: has no effect. Below feature level 4_0, false needs a mean and a variance for each
            element of the last two dimensions.
    """

    def normalized(self, x, mean, variance, scale, bias):
        y = normalization.batch(x, (mean, variance), scale, bias, self.epsilon)
        return normalization.activated(y, self.fused_activation)


class _BatchGradient(_Batch):
    """Computes gradients of a batch normalization.

    Gradient: JAX's own of these formulas.

    Fields:
        input_tensor: the input of the normalization.
        input_gradient_tensor: the gradient of the normalization's output, of the input's sizes.
        mean_tensor, variance_tensor, scale_tensor: of equal sizes; each size is the input's, or 1,
            which repeats the element. Functions also take {C}.
        output_gradient_tensor: the gradient of the input, of its sizes.
        output_scale_gradient_tensor: the gradient of the scale, of its sizes.
        output_bias_gradient_tensor: the gradient of the bias, of the sizes of the scale.
    """


class BatchNormalizationGrad(_BatchGradient, op="BATCH_NORMALIZATION_GRAD"):
    """Computes the gradients of BATCH_NORMALIZATION, whose mean and variance are constants.

    With `inverse = 1 / sqrt(variance + epsilon)`, and with sums over the dimensions in which the
    mean has size 1, `output_gradient = dy * scale * inverse`,
    `output_scale_gradient = sum(dy * (x - mean) * inverse)` and
    `output_bias_gradient = sum(dy)`.
    """

    def normalized(self, x, dy, mean, variance, scale):
        return normalization.batch_gradient(x, dy, (mean, variance), scale, self.epsilon)


class BatchNormalizationTraining(_Batch, op="BATCH_NORMALIZATION_TRAINING"):
    """Normalizes elements by their own mean and variance.

    `output = activation(scale * (input - mean) / sqrt(variance + epsilon) + bias + fused_add)`,
    with the mean and the variance over the dimensions in which the scale has size 1.

    Choices: the variance is the population's: the mean of `(input - mean) ** 2`. A `fused_add` that
    is left out is 0. Squares that are too small for FLOAT32 make the variance 0, so that with an
    epsilon of 0 elements within about 1e-19 of their mean become infinite, or NaN.

    Gradient: BATCH_NORMALIZATION_TRAINING_GRAD for input, scale and bias, with `dy` behind the
    activation's gradient; `dy` for `fused_add`.

    Fields:
        scale_tensor, bias_tensor: of equal sizes; each size is the input's, or 1. Functions also
            take {C}.
        fused_add_tensor: what is added before the activation, of the input's sizes.
        output_mean_tensor, output_variance_tensor: the statistics, of the sizes of the scale.
    """

    def normalized(self, x, scale, bias, add):
        own = normalization.statistics(x, normalization.axes_of_ones(scale))
        y = normalization.batch(x, own, scale, bias, self.epsilon)
        y = y if add is None else y + add
        return normalization.activated(y, self.fused_activation), *own


class BatchNormalizationTrainingGrad(_BatchGradient, op="BATCH_NORMALIZATION_TRAINING_GRAD"):
    """Computes the gradients of BATCH_NORMALIZATION_TRAINING, whose statistics are the input's.

    With `inverse = 1 / sqrt(variance + epsilon)`, and with sums and means over the dimensions in
    which `mean_tensor` has size 1, `output_gradient = scale * inverse * (dy - mean(dy) -
    (x - mean(x)) * mean(dy * (x - mean(x))) * inverse ** 2)`,
    `output_scale_gradient = sum(dy * (x - mean_tensor) * inverse)` and
    `output_bias_gradient = sum(dy)`.

    Choice: the mean is computed again for the input's gradient, and is `mean_tensor` for the
    scale's.
    """

    def normalized(self, x, dy, mean, variance, scale):
        return normalization.batch_training_gradient(x, dy, (mean, variance), scale, self.epsilon)


class _MeanVariance(_Normalizing):
    """Normalizes elements by the mean and the variance over some dimensions.

    Choices: the variance is the population's: the mean of `(input - mean) ** 2`. A scale that is
    left out is 1, a bias that is left out 0, each by itself. Squares beyond FLOAT32 make the
    variance infinite. Squares too small for FLOAT32 make it 0: with an epsilon of 0, elements
    within about 1e-19 of their mean then become infinite. Elements equal to the mean become NaN.

    Gradient: with `n` for the normalized elements and `g = scale * dy` behind the activation's
    gradient, `(g - mean(g) - n * mean(g * n)) / sqrt(variance + epsilon)` for the input;
    `sum(dy * n)` for the scale; `sum(dy)` for the bias.

    Fields:
        scale_tensor, bias_tensor: each size is the input's, or 1, which repeats the element. Below
            feature level 5_2, both are given or neither. Functions also take one dimension: of the
            last axis where this alone is normalized, or else {C}.
        normalize_variance: false leaves out the division by the deviation.
    """

    arguments, only = ("normalize_variance", "normalize_mean"), ("normalize_mean",)
    normalize_mean = True

    @classmethod
    def fitted(cls, sizes: Mapping[str, tuple[int, ...] | None], attributes: Any) -> Fitted:
        """Return a scale and a bias of one dimension with the input's rank.

        They go along the last axis where this alone is normalized, as layer normalization has them;
        else along the channels, as for images.
        """
        x, axes = sizes["input_tensor"] or (), attributes.get("axes", ())
        if np.asarray(axes, object).ravel().tolist() not in ([-1], [len(x) - 1]):
            return per_channel(sizes, "scale_tensor", "bias_tensor")
        known = {name: sizes.get(name) or () for name in ("scale_tensor", "bias_tensor")}
        return Fitted({n: with_rank(s, len(x)) for n, s in known.items() if len(s) == 1 < len(x)})

    @property
    def uses(self) -> tuple[bool, bool]:
        """Return whether the mean is subtracted, and whether the deviation divides the rest."""
        return True, self.normalize_variance

    def normalized(self, x, scale, bias):
        y = normalization.mean_variance(x, scale, bias, self.axes, self.uses, self.epsilon)
        return normalization.activated(y, self.fused_activation)


class MeanVarianceNormalization(_MeanVariance, op="MEAN_VARIANCE_NORMALIZATION"):
    """Normalizes each image, or each channel of it, by its mean and variance.

    `output = activation(scale * (input - mean) / sqrt(variance + epsilon) + bias)`, without the
    division where `normalize_variance` is false.

    Choice: `epsilon` is added to the variance, as on the newest page.

    Fields:
        input_tensor: {N, C, H, W}.
        cross_channel: true takes mean and variance over C, H and W, false over H and W.
    """

    arguments = ("axes", *_MeanVariance.arguments)

    @classmethod
    def call_of(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with `cross_channel` in place of `axes`."""
        arguments, axes = super().call_of(arguments), arguments.pop("axes")
        listed = items_of([axes] if isinstance(axes, (int, np.integer)) else axes)
        named = sorted(a + 4 if isinstance(a, int) and a < 0 else a for a in listed)
        if named not in ([1, 2, 3], [2, 3]):
            raise DmlError([Fault(cls.c_name, "axes", "be [2, 3] or [1, 2, 3]", axes)])
        return {**arguments, "cross_channel": named == [1, 2, 3]}

    @property
    def axes(self) -> tuple[int, ...]:
        """The dimensions over which mean and variance are taken."""
        return (1, 2, 3) if self.cross_channel else (2, 3)


class MeanVarianceNormalization1(_MeanVariance, op="MEAN_VARIANCE_NORMALIZATION1"):
    """Normalizes elements by the mean and the variance over `axes`.

    `output = activation(scale * (input - mean) / sqrt(variance + epsilon) + bias)`, without the
    division where `normalize_variance` is false.
    """

    takes_any_axes = True


class MeanVarianceNormalization2(_MeanVariance, op="MEAN_VARIANCE_NORMALIZATION2"):
    """Normalizes elements by the mean and the variance over `axes`, or by one of these.

    `output = activation(scale * (input - mean) / sqrt(variance + epsilon) + bias)`, without the
    division where `use_variance` is false.

    Choices: where `use_mean` is false, the mean is 0, in the variance too, which is then the mean
    of squares; with `use_variance` this is the normalization by the root of the mean square (RMS).
    With neither, the input is only scaled and shifted. The same activations as with
    MEAN_VARIANCE_NORMALIZATION1 may be fused.

    Fields:
        use_mean: whether the mean is subtracted.
        use_variance: whether elements are divided by the deviation.
    """

    arguments = only = ()

    @property
    def uses(self) -> tuple[bool, bool]:
        """Return whether the mean is subtracted, and whether the deviation divides the rest."""
        return self.use_mean, self.use_variance


class _LocalResponse(_Normalizing):
    """Normalizes elements by their neighbours.

    Choices: `local_size` divides the sum within a channel too, where the window has
    `local_size ** 2` elements; a window of even size has one more element behind its middle than
    before it; elements outside of the tensor are 0.

    Fields:
        input_tensor: {N, C, H, W}.
        cross_channel: true has a window over the channels, false one over H and W.
        local_size: the window's size in each of its dimensions.
        alpha: the factor of the sum; 0.0001 is usual.
        beta: the power; 0.75 is usual.
        bias: is added before the power is taken; 1 is usual.
    """

    @property
    def window(self) -> normalization.Neighbours:
        """The dimensions of the window, and all numbers of the formula."""
        axes = (1,) if self.cross_channel else (2, 3)
        return normalization.Neighbours(axes, self.local_size, self.alpha, self.beta, self.bias)


class LocalResponseNormalization(_LocalResponse, op="LOCAL_RESPONSE_NORMALIZATION"):
    """Divides each element by a power of the sum of the squares around it.

    `output = input / (bias + alpha / local_size * sum(input ** 2)) ** beta`, with the sum over a
    window around the element.

    Gradient: LOCAL_RESPONSE_NORMALIZATION_GRAD.
    """

    def normalized(self, x):
        return normalization.local_response(x, self.window)


class LocalResponseNormalizationGrad(_LocalResponse, op="LOCAL_RESPONSE_NORMALIZATION_GRAD"):
    """Computes the gradient of LOCAL_RESPONSE_NORMALIZATION.

    With `base = bias + alpha / local_size * sum(x ** 2)`, `output_gradient = dy * base ** -beta -
    2 * alpha * beta / local_size * x * sum(dy * x * base ** (-beta - 1))`, with the second sum over
    the elements whose window has this one.

    Gradient: JAX's own of this formula.

    Fields:
        input_tensor: {N, C, H, W}, the input of the normalization.
        input_gradient_tensor: the gradient of the normalization's output.
        output_gradient_tensor: the gradient of the input.
    """

    def normalized(self, x, dy):
        return normalization.local_response_gradient(x, dy, self.window)


class LpNormalization(_Normalizing, op="LP_NORMALIZATION"):
    """Divides each element by the norm of the elements along an axis.

    `output = input / max(norm, epsilon)`, where the norm is `sum(abs(input))` for `p` 1, and
    `sqrt(sum(input ** 2))` for `p` 2.

    Choices: `epsilon` is the least divisor; where the norm and `epsilon` are 0, the output is 0;
    squares that are beyond FLOAT32 do no harm.

    Gradient: JAX's own of this formula; `dy / epsilon` where the norm is below `epsilon`.

    Fields:
        axis: the dimension of the norm.
        epsilon: the least divisor; 0.00001 is usual.
        p: which norm: 1 or 2.
    """

    def normalized(self, x):
        return normalization.unit(x, self.axis, self.p, self.epsilon)

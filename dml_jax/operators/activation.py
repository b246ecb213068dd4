"""Activations: functions of each element, which other operators may also apply to their result."""

from jax import lax

from dml_jax.lowering import activations, element_wise
from dml_jax.lowering.dtypes import wide
from dml_jax.operator import Operator
from dml_jax.operators.element_wise import Mapped


class Activation(Mapped):
    """Maps each element by itself; `ActivationRelu.fused()` is one for FusedActivation.

    Choices: FLOAT16 is computed in FLOAT32 and rounded once; coefficients keep their FLOAT value.
    NaN stays NaN, except where the formula is comparisons alone.

    Fields:
        output_tensor: of the input's type and sizes; may be the input's own memory.
        alpha, beta, gamma, steepness, sigmoid_input_scale: coefficients of the formula.
    """

    by_element = True


class ActivationElu(Activation, op="ACTIVATION_ELU", function=activations.elu):
    """Bends negative elements to an exponential: `x if x >= 0 else alpha * (exp(x) - 1)`.

    Gradient: `dy if x >= 0 else dy * alpha * exp(x)`.
    """


class ActivationCelu(Activation, op="ACTIVATION_CELU", function=activations.celu):
    """Bends negative elements smoothly: `max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`.

    Choices: an alpha of 0 means its limit, `max(0, x)`.

    Gradient: `dy if x >= 0 else dy * exp(x / alpha)`.
    """


class ActivationHardSigmoid(
    Activation, op="ACTIVATION_HARD_SIGMOID", function=activations.hard_sigmoid
):
    """Approximates a sigmoid by three lines: `max(0, min(alpha * x + beta, 1))`.

    Gradient: `dy * alpha` where `alpha * x + beta` lies strictly between 0 and 1, else 0.
    """


class ActivationIdentity(Activation, op="ACTIVATION_IDENTITY", function=element_wise.identity):
    """Copies each element: `x`.

    Gradient: `dy`.
    """


class ActivationLeakyRelu(Activation, op="ACTIVATION_LEAKY_RELU", function=activations.leaky_relu):
    """Scales negative elements: `x if x >= 0 else alpha * x`.

    Gradient: `dy if x >= 0 else dy * alpha`.
    """


class ActivationLinear(Activation, op="ACTIVATION_LINEAR", function=activations.linear):
    """Maps each element linearly: `alpha * x + beta`.

    Gradient: `dy * alpha`.
    """


class ActivationParameterizedRelu(Activation, op="ACTIVATION_PARAMETERIZED_RELU"):
    """Scales each negative element by a slope of its own: `x if x >= 0 else slope * x`.

    Choices: integers wrap modulo 2^n.

    Gradient: `dy if x >= 0 else dy * slope` for the input; `0 if x >= 0 else dy * x` for the slope.

    Fields:
        slope_tensor: the slopes, of the input's type and sizes; strides of 0 repeat them.
    """

    def lower(self, x, slope):
        y = activations.parameterized_relu(wide(x), wide(slope))
        return lax.convert_element_type(y, x.dtype)


class ActivationParametricSoftplus(
    Activation, op="ACTIVATION_PARAMETRIC_SOFTPLUS", function=activations.parametric_softplus
):
    """Takes a scaled soft maximum with 0: `alpha * ln(1 + exp(beta * x))`.

    Choices: computed without overflow, so that a large x gives `alpha * beta * x`.

    Gradient: `dy * alpha * beta * sigmoid(beta * x)`.
    """


class ActivationRelu(Activation, op="ACTIVATION_RELU", function=activations.relu):
    """Sets negative elements to 0: `max(0, x)`.

    Gradient: that of ACTIVATION_RELU_GRAD: `dy if x > 0 else 0`.
    """


class ActivationScaledElu(Activation, op="ACTIVATION_SCALED_ELU", function=activations.scaled_elu):
    """Scales an ELU: `gamma * x if x > 0 else gamma * alpha * (exp(x) - 1)`.

    Gradient: `dy * gamma if x > 0 else dy * gamma * alpha * exp(x)`.
    """


class ActivationScaledTanh(
    Activation, op="ACTIVATION_SCALED_TANH", function=activations.scaled_tanh
):
    """Scales a hyperbolic tangent: `alpha * tanh(beta * x)`.

    Gradient: `dy * alpha * beta * (1 - tanh(beta * x)^2)`.
    """


class ActivationSigmoid(Activation, op="ACTIVATION_SIGMOID", function=element_wise.logistic):
    """Maps each element to a number between 0 and 1: `1 / (1 + exp(-x))`.

    Gradient: `dy * y * (1 - y)`.
    """


class ActivationSoftplus(Activation, op="ACTIVATION_SOFTPLUS", function=activations.softplus):
    """Takes a soft maximum with 0: `ln(1 + exp(steepness * x)) / steepness`.

    Choices: computed without overflow, so that a large x gives x. From feature level 6_4 on,
    steepness may be any number: a negative one gives a soft minimum, 0 gives infinity.

    Gradient: `dy * sigmoid(steepness * x)`.
    """


class ActivationSoftsign(Activation, op="ACTIVATION_SOFTSIGN", function=activations.softsign):
    """Maps each element to a number between -1 and 1: `x / (1 + |x|)`.

    Choices: infinities give NaN, as the formula does.

    Gradient: `dy / (1 + |x|)^2`.
    """


class ActivationTanh(Activation, op="ACTIVATION_TANH", function=element_wise.tanh):
    """Takes the hyperbolic tangent of each element: `tanh(x)`.

    Gradient: `dy * (1 - y^2)`.
    """


class ActivationThresholdedRelu(
    Activation, op="ACTIVATION_THRESHOLDED_RELU", function=activations.thresholded_relu
):
    """Sets elements up to a threshold to 0: `x if x > alpha else 0`; NaN gives 0.

    Gradient: `dy if x > alpha else 0`.
    """


class ActivationShrink(Activation, op="ACTIVATION_SHRINK", function=activations.shrink):
    """Moves large elements toward 0, and sets small ones to 0.

    `x - bias if x > threshold else x + bias if x < -threshold else 0`, tested in this order; NaN
    gives 0.

    Choices: integers wrap modulo 2^n.

    Gradient: dy where `x > threshold` or `x < -threshold`, else 0.

    Fields:
        bias, threshold: FLOAT whatever the tensor's type. Choices: integers drop the fraction and
            saturate; NaN is refused for integers.
    """


class ActivationGelu(Activation, op="ACTIVATION_GELU", function=activations.gelu):
    """Weights each element by the normal distribution: `0.5 * x * (1 + erf(x / sqrt(2)))`.

    Choices: negative elements go by erfc, which loses no digits; -infinity gives NaN, as the
    formula does.

    Gradient: `dy * (0.5 * (1 + erf(x / sqrt(2))) + x * exp(-x^2 / 2) / sqrt(2 * pi))`.
    """


class ActivationSwish(Activation, op="ACTIVATION_SWISH", function=activations.swish):
    """Weights each element by its sigmoid: `x / (1 + exp(-sigmoid_input_scale * x))`.

    Choices: -infinity gives NaN where the scale is above 0, as the product with the sigmoid does.

    Gradient: `dy * s * (1 + scale * x * (1 - s))`, where s is the sigmoid of `scale * x`.
    """


class ActivationHardSwish(Activation, op="ACTIVATION_HARD_SWISH", function=activations.hard_swish):
    """Weights each element by its hard sigmoid: `x * max(0, min(alpha * x + beta, 1))`.

    Choices: -infinity gives NaN where alpha is above 0, as the product does.

    Gradient: `dy * (h + alpha * x)` where `h = alpha * x + beta` lies strictly between 0 and 1;
    dy where h is 1 or more; else 0.
    """


class ActivationReluGrad(Operator, op="ACTIVATION_RELU_GRAD"):
    """Passes the gradient where the input of ACTIVATION_RELU is above 0.

    `gradient if x > 0 else 0`.

    Choices: where x is 0, negative or NaN, the result is 0 whatever the gradient.

    Gradient: the same mask for `input_gradient_tensor`; 0 for `input_tensor`.

    Fields:
        input_tensor: the input of ACTIVATION_RELU.
        input_gradient_tensor: the gradient of its output; of the same type and sizes.
        output_gradient_tensor: the gradient of its input.
    """

    by_element = True

    def lower(self, x, gradient):
        return activations.relu_grad(x, gradient)

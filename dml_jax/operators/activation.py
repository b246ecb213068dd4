"""Activations: functions of each element, which other operators may also apply to their result."""

import math

from jax import lax

from dml_jax.errors import Expect
from dml_jax.lowering import activations, element_wise
from dml_jax.lowering.dtypes import wide
from dml_jax.operator import Operator, rule
from dml_jax.operators.element_wise import Unary


class Activation(Operator):
    """Maps each element by itself; `ActivationRelu.fused()` is one for FusedActivation.

    Choices: FLOAT16 is computed in FLOAT32 and rounded once; coefficients keep their FLOAT value.
    NaN stays NaN, except where the formula is comparisons alone.

    Fields:
        input_tensor: the tensor to map.
        output_tensor: of the input's type and sizes; may be the input's own memory.
        alpha, beta, gamma, steepness, sigmoid_input_scale: coefficients of the formula.
    """

    by_element = True
    lower = Unary.lower


class ActivationElu(Activation, op="ACTIVATION_ELU"):
    """Bends negative elements to an exponential: `x if x >= 0 else alpha * (exp(x) - 1)`.

    Gradient: `dy if x >= 0 else dy * alpha * exp(x)`.
    """

    function = staticmethod(activations.elu)


class ActivationCelu(Activation, op="ACTIVATION_CELU"):
    """Bends negative elements smoothly: `max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`.

    Choices: an alpha of 0 means its limit, `max(0, x)`.

    Gradient: `dy if x >= 0 else dy * exp(x / alpha)`.
    """

    function = staticmethod(activations.celu)


class ActivationHardSigmoid(Activation, op="ACTIVATION_HARD_SIGMOID"):
    """Approximates a sigmoid by three lines: `max(0, min(alpha * x + beta, 1))`.

    Gradient: `dy * alpha` where `alpha * x + beta` lies strictly between 0 and 1, else 0.
    """

    function = staticmethod(activations.hard_sigmoid)


class ActivationIdentity(Activation, op="ACTIVATION_IDENTITY"):
    """Copies each element: `x`.

    Gradient: `dy`.
    """

    function = staticmethod(element_wise.identity)


class ActivationLeakyRelu(Activation, op="ACTIVATION_LEAKY_RELU"):
    """Scales negative elements: `x if x >= 0 else alpha * x`.

    Gradient: `dy if x >= 0 else dy * alpha`.
    """

    function = staticmethod(activations.leaky_relu)


class ActivationLinear(Activation, op="ACTIVATION_LINEAR"):
    """Maps each element linearly: `alpha * x + beta`.

    Gradient: `dy * alpha`.
    """

    function = staticmethod(activations.linear)


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


class ActivationParametricSoftplus(Activation, op="ACTIVATION_PARAMETRIC_SOFTPLUS"):
    """Takes a scaled soft maximum with 0: `alpha * ln(1 + exp(beta * x))`.

    Choices: computed without overflow, so that a large x gives `alpha * beta * x`.

    Gradient: `dy * alpha * beta * sigmoid(beta * x)`.
    """

    function = staticmethod(activations.parametric_softplus)


class ActivationRelu(Activation, op="ACTIVATION_RELU"):
    """Sets negative elements to 0: `max(0, x)`.

    Gradient: that of ACTIVATION_RELU_GRAD: `dy if x > 0 else 0`.
    """

    function = staticmethod(activations.relu)


class ActivationScaledElu(Activation, op="ACTIVATION_SCALED_ELU"):
    """Scales an ELU: `gamma * x if x > 0 else gamma * alpha * (exp(x) - 1)`.

    Gradient: `dy * gamma if x > 0 else dy * gamma * alpha * exp(x)`.
    """

    function = staticmethod(activations.scaled_elu)


class ActivationScaledTanh(Activation, op="ACTIVATION_SCALED_TANH"):
    """Scales a hyperbolic tangent: `alpha * tanh(beta * x)`.

    Gradient: `dy * alpha * beta * (1 - tanh(beta * x)^2)`.
    """

    function = staticmethod(activations.scaled_tanh)


class ActivationSigmoid(Activation, op="ACTIVATION_SIGMOID"):
    """Maps each element to a number between 0 and 1: `1 / (1 + exp(-x))`.

    Gradient: `dy * y * (1 - y)`.
    """

    function = staticmethod(element_wise.logistic)


class ActivationSoftplus(Activation, op="ACTIVATION_SOFTPLUS"):
    """Takes a soft maximum with 0: `ln(1 + exp(steepness * x)) / steepness`.

    Choices: computed without overflow, so that a large x gives x. From feature level 6_4 on,
    steepness may be any number: a negative one gives a soft minimum, 0 gives infinity.

    Gradient: `dy * sigmoid(steepness * x)`.
    """

    function = staticmethod(activations.softplus)


class ActivationSoftsign(Activation, op="ACTIVATION_SOFTSIGN"):
    """Maps each element to a number between -1 and 1: `x / (1 + |x|)`.

    Choices: infinities give NaN, as the formula does.

    Gradient: `dy / (1 + |x|)^2`.
    """

    function = staticmethod(activations.softsign)


class ActivationTanh(Activation, op="ACTIVATION_TANH"):
    """Takes the hyperbolic tangent of each element: `tanh(x)`.

    Gradient: `dy * (1 - y^2)`.
    """

    function = staticmethod(element_wise.tanh)


class ActivationThresholdedRelu(Activation, op="ACTIVATION_THRESHOLDED_RELU"):
    """Sets elements up to a threshold to 0: `x if x > alpha else 0`; NaN gives 0.

    Gradient: `dy if x > alpha else 0`.
    """

    function = staticmethod(activations.thresholded_relu)


class ActivationShrink(Activation, op="ACTIVATION_SHRINK"):
    """Moves large elements toward 0, and sets small ones to 0.

    `x - bias if x > threshold else x + bias if x < -threshold else 0`, tested in this order; NaN
    gives 0.

    Choices: integers wrap modulo 2^n.

    Gradient: dy where `x > threshold` or `x < -threshold`, else 0.

    Fields:
        bias, threshold: FLOAT whatever the tensor's type. Choices: integers drop the fraction and
            saturate; NaN is refused for integers.
    """

    function = staticmethod(activations.shrink)

    @rule("bias", "threshold", "input_tensor")
    def bounds_are_numbers(self, expect: Expect) -> None:
        for name, value in (("Bias", self.bias), ("Threshold", self.threshold)):
            is_float = self.input_tensor.dtype.kind == "f"
            expect(is_float or not math.isnan(value), name, "not be NaN", value)


class ActivationGelu(Activation, op="ACTIVATION_GELU"):
    """Weights each element by the normal distribution: `0.5 * x * (1 + erf(x / sqrt(2)))`.

    Choices: negative elements go by erfc, which loses no digits; -infinity gives NaN, as the
    formula does.

    Gradient: `dy * (0.5 * (1 + erf(x / sqrt(2))) + x * exp(-x^2 / 2) / sqrt(2 * pi))`.
    """

    function = staticmethod(activations.gelu)


class ActivationSwish(Activation, op="ACTIVATION_SWISH"):
    """Weights each element by its sigmoid: `x / (1 + exp(-sigmoid_input_scale * x))`.

    Choices: -infinity gives NaN where the scale is above 0, as the product with the sigmoid does.

    Gradient: `dy * s * (1 + scale * x * (1 - s))`, where s is the sigmoid of `scale * x`.
    """

    function = staticmethod(activations.swish)


class ActivationHardSwish(Activation, op="ACTIVATION_HARD_SWISH"):
    """Weights each element by its hard sigmoid: `x * max(0, min(alpha * x + beta, 1))`.

    Choices: -infinity gives NaN where alpha is above 0, as the product does.

    Gradient: `dy * (h + alpha * x)` where `h = alpha * x + beta` lies strictly between 0 and 1;
    dy where h is 1 or more; else 0.
    """

    function = staticmethod(activations.hard_swish)


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

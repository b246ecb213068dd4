"""PyTorch's functions for the activations."""

from conformance.random_element_wise import nn
from conformance.random_element_wise import torch as t

PEERS = {
    "ACTIVATION_ELU": lambda op: lambda x: nn().elu(x, op.alpha),
    "ACTIVATION_CELU": lambda op: lambda x: nn().celu(x, op.alpha),
    "ACTIVATION_HARD_SIGMOID": lambda op: lambda x: (op.alpha * x + op.beta).clamp(0, 1),
    "ACTIVATION_IDENTITY": lambda op: t().clone,
    "ACTIVATION_LEAKY_RELU": lambda op: lambda x: nn().leaky_relu(x, op.alpha),
    "ACTIVATION_LINEAR": lambda op: lambda x: op.alpha * x + op.beta,
    "ACTIVATION_PARAMETERIZED_RELU": lambda op: lambda x, slope: t().where(x >= 0, x, slope * x),
    "ACTIVATION_PARAMETRIC_SOFTPLUS": lambda op: lambda x: op.alpha * nn().softplus(op.beta * x),
    "ACTIVATION_RELU": lambda op: nn().relu,
    "ACTIVATION_SCALED_ELU": lambda op: lambda x: op.gamma * nn().elu(x, op.alpha),
    "ACTIVATION_SCALED_TANH": lambda op: lambda x: op.alpha * t().tanh(op.beta * x),
    "ACTIVATION_SIGMOID": lambda op: t().sigmoid,
    "ACTIVATION_SOFTPLUS": lambda op: lambda x: nn().softplus(x, op.steepness, threshold=1e9),
    "ACTIVATION_SOFTSIGN": lambda op: nn().softsign,
    "ACTIVATION_TANH": lambda op: t().tanh,
    "ACTIVATION_THRESHOLDED_RELU": lambda op: lambda x: nn().threshold(x, op.alpha, 0),
    "ACTIVATION_SHRINK": lambda op: (
        lambda x: t().where(
            x > op.threshold, x - op.bias, t().where(x < -op.threshold, x + op.bias, 0)
        )
    ),
    "ACTIVATION_GELU": lambda op: nn().gelu,
    "ACTIVATION_SWISH": lambda op: lambda x: x * t().sigmoid(op.sigmoid_input_scale * x),
    "ACTIVATION_HARD_SWISH": lambda op: lambda x: x * (op.alpha * x + op.beta).clamp(0, 1),
    "ACTIVATION_RELU_GRAD": lambda op: lambda x, dy: t().ops.aten.threshold_backward(dy, x, 0),
}

WITHOUT: dict[str, str] = {}

"""The functions of PyDirectML: each adds an operator to a graph."""

# The decorator `adds` makes the bodies.
# pyright: reportReturnType=false

import inspect
from collections.abc import Sequence
from typing import Any

from dml_jax.pydirectml.arguments import converts_arguments, refuse
from dml_jax.pydirectml.compiled_models import GraphBuilder
from dml_jax.pydirectml.enumerations import (
    ConvolutionDirection,
    ConvolutionMode,
    InterpolationMode,
    MatrixTransform,
    OutputOptions,
    PaddingMode,
    RecurrentNetworkDirection,
    TensorDataType,
)
from dml_jax.pydirectml.expressions import NO_ACTIVATION, Expression, FusedActivation, Size2D, adds
from dml_jax.pydirectml.tensors import TensorDesc

__all__ = [
    "GRUOutputs",
    "MaxPoolingOutputs",
    "activation_identity",
    "activation_linear",
    "activation_relu",
    "activation_sigmoid",
    "activation_soft_max",
    "activation_tanh",
    "add",
    "average_pooling",
    "batch_normalization",
    "convolution",
    "divide",
    "gather",
    "gemm",
    "gru",
    "input_tensor",
    "join",
    "local_response_normalization",
    "max_pooling",
    "mean_variance_normalization",
    "multiply",
    "padding",
    "reinterpret",
    "slice",
    "subtract",
    "up_sample_2d",
    "value_scale_2d",
]

_REQUIRED: Any = inspect.Parameter.empty  # after arguments with defaults, as pybind11 allows


class MaxPoolingOutputs:
    """The outputs of `max_pooling`; `indices` is empty unless they were asked for."""

    @converts_arguments
    def __init__(self, values: Expression, indices: Expression, /) -> None:
        self.values, self.indices = values, indices


class GRUOutputs:
    """The outputs of `gru`; one that was not asked for is empty."""

    @converts_arguments
    def __init__(self, sequence: Expression, single: Expression, /) -> None:
        self.sequence, self.single = sequence, single


@converts_arguments
def input_tensor(scope: GraphBuilder, input_index: int, tensor_desc: TensorDesc) -> Expression:
    """Return the graph input of an index, to which `Device.compute` binds by position."""
    if input_index < 0:
        raise refuse("input_tensor", "input_index", "be at least 0", input_index)
    return Expression._of(scope._input(input_index, tensor_desc._desc))


@adds("CONVOLUTION")
def convolution(
    input: Expression,
    filter: Expression,
    bias: Expression | None = None,
    mode: ConvolutionMode = ConvolutionMode.CROSS_CORRELATION,
    direction: ConvolutionDirection = ConvolutionDirection.FORWARD,
    strides: Sequence[int] = [],
    dilations: Sequence[int] = [],
    start_padding: Sequence[int] = [],
    end_padding: Sequence[int] = [],
    output_padding: Sequence[int] = [],
    group_count: int = 1,
    fused_activation: FusedActivation = NO_ACTIVATION,
    output_sizes: Sequence[int] = [],
) -> Expression:
    """Convolve with a filter: CONVOLUTION."""


@adds("UPSAMPLE_2D")
def up_sample_2d(
    input: Expression, scale_size: Size2D, interpolation_mode: InterpolationMode
) -> Expression:
    """Enlarge by whole factors: UPSAMPLE_2D."""


@adds("ACTIVATION_RELU")
def activation_relu(input: Expression) -> Expression:
    """Compute max(0, x): ACTIVATION_RELU."""


@adds("ACTIVATION_SIGMOID")
def activation_sigmoid(input: Expression) -> Expression:
    """Compute 1 / (1 + exp(-x)): ACTIVATION_SIGMOID."""


@adds("ACTIVATION_IDENTITY")
def activation_identity(input: Expression) -> Expression:
    """Copy: ACTIVATION_IDENTITY."""


@adds("ACTIVATION_TANH")
def activation_tanh(input: Expression) -> Expression:
    """Compute tanh(x): ACTIVATION_TANH."""


@adds("ACTIVATION_SOFTMAX")
def activation_soft_max(input: Expression) -> Expression:
    """Compute exp(x) by its sum over the last dimension: ACTIVATION_SOFTMAX."""


@adds("ACTIVATION_LINEAR")
def activation_linear(input: Expression, alpha: float, beta: float) -> Expression:
    """Compute alpha * x + beta: ACTIVATION_LINEAR."""


@adds("ELEMENT_WISE_ADD1")
def add(
    a: Expression, b: Expression, fused_activation: FusedActivation = NO_ACTIVATION
) -> Expression:
    """Add, and apply an activation: ELEMENT_WISE_ADD1."""


@adds("ELEMENT_WISE_SUBTRACT")
def subtract(a: Expression, b: Expression) -> Expression:
    """Subtract: ELEMENT_WISE_SUBTRACT."""


@adds("ELEMENT_WISE_MULTIPLY")
def multiply(a: Expression, b: Expression) -> Expression:
    """Multiply: ELEMENT_WISE_MULTIPLY."""


@adds("ELEMENT_WISE_DIVIDE")
def divide(a: Expression, b: Expression) -> Expression:
    """Divide: ELEMENT_WISE_DIVIDE."""


@adds("PADDING")
def padding(
    input: Expression,
    padding_mode: PaddingMode,
    padding_value: float,
    start_padding: Sequence[int],
    end_padding: Sequence[int],
) -> Expression:
    """Add elements at the ends of dimensions: PADDING."""


@adds("MEAN_VARIANCE_NORMALIZATION1")
def mean_variance_normalization(
    input: Expression,
    scale: Expression | None = None,
    bias: Expression | None = None,
    axes: Sequence[int] = [],
    normalize_variance: bool = _REQUIRED,
    epsilon: float = _REQUIRED,
    fused_activation: FusedActivation = NO_ACTIVATION,
) -> Expression:
    """Subtract the mean and divide by the deviation: MEAN_VARIANCE_NORMALIZATION1."""


@adds("SLICE1")
def slice(
    input: Expression,
    input_window_offsets: Sequence[int],
    input_window_sizes: Sequence[int],
    input_window_strides: Sequence[int],
) -> Expression:
    """Take a window, with steps that may be negative: SLICE1."""


@adds("VALUE_SCALE_2D")
def value_scale_2d(input: Expression, scale: float, bias: Sequence[float]) -> Expression:
    """Multiply by a number, and add one of each channel: VALUE_SCALE_2D."""


@adds("BATCH_NORMALIZATION")
def batch_normalization(
    input: Expression,
    mean: Expression,
    variance: Expression,
    scale: Expression,
    bias: Expression,
    spatial: bool,
    epsilon: float,
    fused_activation: FusedActivation = NO_ACTIVATION,
) -> Expression:
    """Normalize with means and variances that are given: BATCH_NORMALIZATION."""


@adds("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(
    input: Expression, cross_channel: bool, local_size: int, alpha: float, beta: float, bias: float
) -> Expression:
    """Divide by a sum of squares of neighbours: LOCAL_RESPONSE_NORMALIZATION."""


@adds("GEMM")
def gemm(
    a: Expression,
    b: Expression,
    c: Expression | None = None,
    trans_a: MatrixTransform = MatrixTransform.NONE,
    trans_b: MatrixTransform = MatrixTransform.NONE,
    alpha: float = 1,
    beta: float = 1,
    fused_activation: FusedActivation = NO_ACTIVATION,
) -> Expression:
    """Compute alpha * a * b + beta * c of matrices: GEMM."""


@adds("AVERAGE_POOLING")
def average_pooling(
    input: Expression,
    strides: Sequence[int],
    window_sizes: Sequence[int],
    start_padding: Sequence[int],
    end_padding: Sequence[int],
    include_padding: bool,
) -> Expression:
    """Take the mean of windows: AVERAGE_POOLING."""


_POOLED = {
    False: ["output_tensor"],
    True: ["output_tensor", "output_indices_tensor"],
}


@adds("MAX_POOLING2", MaxPoolingOutputs, "output_indices", _POOLED)
def max_pooling(
    input: Expression,
    window_sizes: Sequence[int],
    strides: Sequence[int] = [],
    start_padding: Sequence[int] = [],
    end_padding: Sequence[int] = [],
    dilations: Sequence[int] = [],
    output_indices: bool = False,
) -> MaxPoolingOutputs:
    """Take the greatest element of windows, and where it lies: MAX_POOLING2."""


@converts_arguments
def reinterpret(
    input: Expression,
    new_type: TensorDataType,
    new_size: Sequence[int],
    new_strides: Sequence[int] | None,
) -> Expression:
    """Return the same bytes as a tensor of another type, sizes and strides."""
    return Expression._of(input._there.reinterpret(new_size, new_strides, new_type.name))


@adds("JOIN")
def join(input: Sequence[Expression], axis: int) -> Expression:
    """Put tensors one after the other: JOIN."""


_STATES = {
    OutputOptions.Both: ["output_sequence_tensor", "output_single_tensor"],
    OutputOptions.Sequence: ["output_sequence_tensor"],
    OutputOptions.Single: ["output_single_tensor"],
}


@adds("GRU", GRUOutputs, "output_options", _STATES)
def gru(
    input: Expression,
    weight: Expression,
    recurrence: Expression,
    bias: Expression | None = None,
    hidden_init: Expression | None = None,
    sequence_lengths: Expression | None = None,
    activation_descs: Sequence[FusedActivation] = _REQUIRED,
    direction: RecurrentNetworkDirection = _REQUIRED,
    linear_before_reset: bool = True,
    output_options: OutputOptions = _REQUIRED,
) -> GRUOutputs:
    """Run gated recurrent units: GRU."""


@adds("GATHER")
def gather(input: Expression, indices: Expression, axis: int, index_dimensions: int) -> Expression:
    """Take elements along an axis by their indices: GATHER."""

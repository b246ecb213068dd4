"""The functions of PyDirectML: each adds an operator to a graph."""

import inspect
from collections.abc import Sequence
from typing import Any

from dml_jax.description.descriptor import Size2D as _Size2D
from dml_jax.pydirectml.arguments import checked, guarded, refuse
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
from dml_jax.pydirectml.expressions import NO_ACTIVATION, Expression, FusedActivation, Size2D, node
from dml_jax.pydirectml.models import GraphBuilder
from dml_jax.pydirectml.tensors import TensorDesc


class MaxPoolingOutputs:
    """The outputs of `max_pooling`; `indices` is empty unless they were asked for."""

    @checked
    def __init__(self, values: Expression, indices: Expression, /) -> None:
        self.values, self.indices = values, indices


class GRUOutputs:
    """The outputs of `gru`; one that was not asked for is empty."""

    @checked
    def __init__(self, sequence: Expression, single: Expression, /) -> None:
        self.sequence, self.single = sequence, single


@checked
def input_tensor(scope: GraphBuilder, input_index: int, tensor_desc: TensorDesc) -> Expression:
    """Return the graph input of an index, to which `Device.compute` binds by position."""
    if input_index < 0:
        raise refuse("input_tensor", "input_index", "be at least 0", input_index)
    return Expression._of(scope._input(input_index, tensor_desc._desc))


def _spatial(input: Expression, values: Sequence[int], default: int) -> Sequence[int]:
    """Return one value for each spatial dimension."""
    return values or [default] * (len(input._there.sizes) - 2)


@checked
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
    return node(
        "CONVOLUTION",
        {"input_tensor": input, "filter_tensor": filter, "bias_tensor": bias},
        mode=mode,
        direction=direction,
        strides=_spatial(input, strides, 1),
        dilations=_spatial(input, dilations, 1),
        start_padding=_spatial(input, start_padding, 0),
        end_padding=_spatial(input, end_padding, 0),
        output_padding=_spatial(input, output_padding, 0),
        group_count=group_count,
        fused_activation=fused_activation,
        output_sizes=output_sizes or None,
    )


@checked
def up_sample_2d(
    input: Expression, scale_size: Size2D, interpolation_mode: InterpolationMode
) -> Expression:
    """Enlarge by whole factors: UPSAMPLE_2D."""
    size = _Size2D(width=scale_size.width, height=scale_size.height)
    return node(
        "UPSAMPLE_2D",
        {"input_tensor": input},
        scale_size=size,
        interpolation_mode=interpolation_mode,
    )


@checked
def activation_relu(input: Expression) -> Expression:
    """Compute max(0, x): ACTIVATION_RELU."""
    return node("ACTIVATION_RELU", {"input_tensor": input})


@checked
def activation_sigmoid(input: Expression) -> Expression:
    """Compute 1 / (1 + exp(-x)): ACTIVATION_SIGMOID."""
    return node("ACTIVATION_SIGMOID", {"input_tensor": input})


@checked
def activation_identity(input: Expression) -> Expression:
    """Copy: ACTIVATION_IDENTITY."""
    return node("ACTIVATION_IDENTITY", {"input_tensor": input})


@checked
def activation_tanh(input: Expression) -> Expression:
    """Compute tanh(x): ACTIVATION_TANH."""
    return node("ACTIVATION_TANH", {"input_tensor": input})


@checked
def activation_soft_max(input: Expression) -> Expression:
    """Compute exp(x) by its sum over the last dimension: ACTIVATION_SOFTMAX."""
    return node("ACTIVATION_SOFTMAX", {"input_tensor": input})


@checked
def activation_linear(input: Expression, alpha: float, beta: float) -> Expression:
    """Compute alpha * x + beta: ACTIVATION_LINEAR."""
    return node("ACTIVATION_LINEAR", {"input_tensor": input}, alpha=alpha, beta=beta)


@checked
def add(
    a: Expression, b: Expression, fused_activation: FusedActivation = NO_ACTIVATION
) -> Expression:
    """Add, and apply an activation: ELEMENT_WISE_ADD1."""
    inputs = {"a_tensor": a, "b_tensor": b}
    return node("ELEMENT_WISE_ADD1", inputs, fused_activation=fused_activation)


@checked
def subtract(a: Expression, b: Expression) -> Expression:
    """Subtract: ELEMENT_WISE_SUBTRACT."""
    return node("ELEMENT_WISE_SUBTRACT", {"a_tensor": a, "b_tensor": b})


@checked
def multiply(a: Expression, b: Expression) -> Expression:
    """Multiply: ELEMENT_WISE_MULTIPLY."""
    return node("ELEMENT_WISE_MULTIPLY", {"a_tensor": a, "b_tensor": b})


@checked
def divide(a: Expression, b: Expression) -> Expression:
    """Divide: ELEMENT_WISE_DIVIDE."""
    return node("ELEMENT_WISE_DIVIDE", {"a_tensor": a, "b_tensor": b})


@checked
def padding(
    input: Expression,
    padding_mode: PaddingMode,
    padding_value: float,
    start_padding: Sequence[int],
    end_padding: Sequence[int],
) -> Expression:
    """Add elements at the ends of dimensions: PADDING."""
    return node(
        "PADDING",
        {"input_tensor": input},
        padding_mode=padding_mode,
        padding_value=padding_value,
        start_padding=start_padding,
        end_padding=end_padding,
    )


_REQUIRED: Any = inspect.Parameter.empty  # after arguments with defaults, as pybind11 allows


@checked
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
    return node(
        "MEAN_VARIANCE_NORMALIZATION1",
        {"input_tensor": input, "scale_tensor": scale, "bias_tensor": bias},
        axes=axes,
        normalize_variance=normalize_variance,
        epsilon=epsilon,
        fused_activation=fused_activation,
    )


@checked
def slice(
    input: Expression,
    input_window_offsets: Sequence[int],
    input_window_sizes: Sequence[int],
    input_window_strides: Sequence[int],
) -> Expression:
    """Take a window, with steps that may be negative: SLICE1."""
    return node(
        "SLICE1",
        {"input_tensor": input},
        input_window_offsets=input_window_offsets,
        input_window_sizes=input_window_sizes,
        input_window_strides=input_window_strides,
    )


@checked
def value_scale_2d(input: Expression, scale: float, bias: Sequence[float]) -> Expression:
    """Multiply by a number, and add one of each channel: VALUE_SCALE_2D."""
    return node("VALUE_SCALE_2D", {"input_tensor": input}, scale=scale, bias=bias)


@checked
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
    inputs = {
        "input_tensor": input,
        "mean_tensor": mean,
        "variance_tensor": variance,
        "scale_tensor": scale,
        "bias_tensor": bias,
    }
    return node(
        "BATCH_NORMALIZATION",
        inputs,
        spatial=spatial,
        epsilon=epsilon,
        fused_activation=fused_activation,
    )


@checked
def local_response_normalization(
    input: Expression, cross_channel: bool, local_size: int, alpha: float, beta: float, bias: float
) -> Expression:
    """Divide by a sum of squares of neighbours: LOCAL_RESPONSE_NORMALIZATION."""
    return node(
        "LOCAL_RESPONSE_NORMALIZATION",
        {"input_tensor": input},
        cross_channel=cross_channel,
        local_size=local_size,
        alpha=alpha,
        beta=beta,
        bias=bias,
    )


@checked
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
    return node(
        "GEMM",
        {"a_tensor": a, "b_tensor": b, "c_tensor": c},
        trans_a=trans_a,
        trans_b=trans_b,
        alpha=alpha,
        beta=beta,
        fused_activation=fused_activation,
    )


@checked
def average_pooling(
    input: Expression,
    strides: Sequence[int],
    window_sizes: Sequence[int],
    start_padding: Sequence[int],
    end_padding: Sequence[int],
    include_padding: bool,
) -> Expression:
    """Take the mean of windows: AVERAGE_POOLING."""
    return node(
        "AVERAGE_POOLING",
        {"input_tensor": input},
        strides=strides,
        window_size=window_sizes,
        start_padding=start_padding,
        end_padding=end_padding,
        include_padding=include_padding,
    )


@checked
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
    made = node(
        "MAX_POOLING2",
        {"input_tensor": input},
        window_size=window_sizes,
        strides=_spatial(input, strides, 1),
        start_padding=_spatial(input, start_padding, 0),
        end_padding=_spatial(input, end_padding, 0),
        dilations=_spatial(input, dilations, 1),
        outputs=["output_tensor", "output_indices_tensor"][: 1 + output_indices],
    )
    values, *indices = made if isinstance(made, tuple) else (made,)
    return MaxPoolingOutputs(values, *(indices or [Expression()]))


@checked
def reinterpret(
    input: Expression,
    new_type: TensorDataType,
    new_size: Sequence[int],
    new_strides: Sequence[int] | None,
) -> Expression:
    """Return the same bytes as a tensor of another type, sizes and strides."""
    return Expression._of(input._there.reinterpret(new_size, new_strides, new_type.name))


@checked
def join(input: Sequence[Expression], axis: int) -> Expression:
    """Put tensors one after the other: JOIN."""
    if not input:
        raise refuse("join", "input", "have at least 1 expression", [])
    return node("JOIN", {"input_tensors": list(input)}, axis=axis)


@checked
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
    fields = ["output_sequence_tensor", "output_single_tensor"]
    chosen = {"Both": fields, "Sequence": fields[:1], "Single": fields[1:]}[output_options.name]
    made = node(
        "GRU",
        {
            "input_tensor": input,
            "weight_tensor": weight,
            "recurrence_tensor": recurrence,
            "bias_tensor": bias,
            "hidden_init_tensor": hidden_init,
            "sequence_lengths_tensor": sequence_lengths,
        },
        activation_descs=[guarded(activation._fused) for activation in activation_descs],
        direction=direction,
        linear_before_reset=linear_before_reset,
        outputs=chosen,
    )
    results = dict(zip(chosen, made if isinstance(made, tuple) else (made,), strict=True))
    return GRUOutputs(*(results.get(f, Expression()) for f in fields))


@checked
def gather(input: Expression, indices: Expression, axis: int, index_dimensions: int) -> Expression:
    """Take elements along an axis by their indices: GATHER."""
    return node(
        "GATHER",
        {"input_tensor": input, "indices_tensor": indices},
        axis=axis,
        index_dimensions=index_dimensions,
    )

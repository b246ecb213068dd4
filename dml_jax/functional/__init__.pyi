"""Operators as functions of arrays and expressions. Made by tools/stubs.py."""

from collections.abc import Mapping, Sequence
from typing import Any, Generic, Literal, NamedTuple, overload

import jax
import numpy as np
from jax.typing import ArrayLike
from typing_extensions import TypeVar

from dml_jax.description.descriptor import ScaleBias, Size2D
from dml_jax.enums import (
    AxisDirection,
    ConvolutionDirection,
    ConvolutionMode,
    DepthSpaceOrder,
    InterpolationMode,
    IsInfinityMode,
    MatrixTransform,
    MultiheadAttentionMaskType,
    PaddingMode,
    QuantizationType,
    RandomGeneratorType,
    RecurrentNetworkDirection,
    ReduceFunction,
    RoundingMode,
    TensorDataType,
)
from dml_jax.graph import Expression, GraphBuilder
from dml_jax.operator import FusedActivation, Operator
from dml_jax.description.tensor import Integers

Value = TypeVar("Value", jax.Array, Expression, default=jax.Array)
Given = Value | ArrayLike

FUNCTIONS: list[str]

_AxisDirection = Literal[
    "INCREASING",
    "DECREASING",
    "DML_AXIS_DIRECTION_INCREASING",
    "DML_AXIS_DIRECTION_DECREASING",
]
_ConvolutionDirection = Literal[
    "FORWARD",
    "BACKWARD",
    "DML_CONVOLUTION_DIRECTION_FORWARD",
    "DML_CONVOLUTION_DIRECTION_BACKWARD",
]
_ConvolutionMode = Literal[
    "CONVOLUTION",
    "CROSS_CORRELATION",
    "DML_CONVOLUTION_MODE_CONVOLUTION",
    "DML_CONVOLUTION_MODE_CROSS_CORRELATION",
]
_DepthSpaceOrder = Literal[
    "DEPTH_COLUMN_ROW",
    "COLUMN_ROW_DEPTH",
    "DML_DEPTH_SPACE_ORDER_DEPTH_COLUMN_ROW",
    "DML_DEPTH_SPACE_ORDER_COLUMN_ROW_DEPTH",
]
_InterpolationMode = Literal[
    "NEAREST_NEIGHBOR",
    "LINEAR",
    "DML_INTERPOLATION_MODE_NEAREST_NEIGHBOR",
    "DML_INTERPOLATION_MODE_LINEAR",
]
_IsInfinityMode = Literal[
    "EITHER",
    "POSITIVE",
    "NEGATIVE",
    "DML_IS_INFINITY_MODE_EITHER",
    "DML_IS_INFINITY_MODE_POSITIVE",
    "DML_IS_INFINITY_MODE_NEGATIVE",
]
_MatrixTransform = Literal[
    "NONE",
    "TRANSPOSE",
    "DML_MATRIX_TRANSFORM_NONE",
    "DML_MATRIX_TRANSFORM_TRANSPOSE",
]
_MultiheadAttentionMaskType = Literal[
    "NONE",
    "KEY_SEQUENCE_LENGTH",
    "KEY_SEQUENCE_END_START",
    "KEY_QUERY_SEQUENCE_LENGTH_START_END",
    "BOOLEAN",
    "DML_MULTIHEAD_ATTENTION_MASK_TYPE_NONE",
    "DML_MULTIHEAD_ATTENTION_MASK_TYPE_KEY_SEQUENCE_LENGTH",
    "DML_MULTIHEAD_ATTENTION_MASK_TYPE_KEY_SEQUENCE_END_START",
    "DML_MULTIHEAD_ATTENTION_MASK_TYPE_KEY_QUERY_SEQUENCE_LENGTH_START_END",
    "DML_MULTIHEAD_ATTENTION_MASK_TYPE_BOOLEAN",
]
_PaddingMode = Literal[
    "CONSTANT",
    "EDGE",
    "REFLECTION",
    "SYMMETRIC",
    "WRAP",
    "DML_PADDING_MODE_CONSTANT",
    "DML_PADDING_MODE_EDGE",
    "DML_PADDING_MODE_REFLECTION",
    "DML_PADDING_MODE_SYMMETRIC",
    "DML_PADDING_MODE_WRAP",
]
_QuantizationType = Literal[
    "NONE",
    "SCALE",
    "SCALE_ZERO_POINT",
    "DML_QUANTIZATION_TYPE_NONE",
    "DML_QUANTIZATION_TYPE_SCALE",
    "DML_QUANTIZATION_TYPE_SCALE_ZERO_POINT",
]
_RandomGeneratorType = Literal[
    "PHILOX_4X32_10",
    "DML_RANDOM_GENERATOR_TYPE_PHILOX_4X32_10",
]
_RecurrentNetworkDirection = Literal[
    "FORWARD",
    "BACKWARD",
    "BIDIRECTIONAL",
    "DML_RECURRENT_NETWORK_DIRECTION_FORWARD",
    "DML_RECURRENT_NETWORK_DIRECTION_BACKWARD",
    "DML_RECURRENT_NETWORK_DIRECTION_BIDIRECTIONAL",
]
_ReduceFunction = Literal[
    "ARGMAX",
    "ARGMIN",
    "AVERAGE",
    "L1",
    "L2",
    "LOG_SUM",
    "LOG_SUM_EXP",
    "MAX",
    "MIN",
    "MULTIPLY",
    "SUM",
    "SUM_SQUARE",
    "DML_REDUCE_FUNCTION_ARGMAX",
    "DML_REDUCE_FUNCTION_ARGMIN",
    "DML_REDUCE_FUNCTION_AVERAGE",
    "DML_REDUCE_FUNCTION_L1",
    "DML_REDUCE_FUNCTION_L2",
    "DML_REDUCE_FUNCTION_LOG_SUM",
    "DML_REDUCE_FUNCTION_LOG_SUM_EXP",
    "DML_REDUCE_FUNCTION_MAX",
    "DML_REDUCE_FUNCTION_MIN",
    "DML_REDUCE_FUNCTION_MULTIPLY",
    "DML_REDUCE_FUNCTION_SUM",
    "DML_REDUCE_FUNCTION_SUM_SQUARE",
]
_RoundingMode = Literal[
    "HALVES_TO_NEAREST_EVEN",
    "TOWARD_ZERO",
    "TOWARD_INFINITY",
    "DML_ROUNDING_MODE_HALVES_TO_NEAREST_EVEN",
    "DML_ROUNDING_MODE_TOWARD_ZERO",
    "DML_ROUNDING_MODE_TOWARD_INFINITY",
]
_TensorDataType = Literal[
    "FLOAT32",
    "FLOAT16",
    "UINT32",
    "UINT16",
    "UINT8",
    "INT32",
    "INT16",
    "INT8",
    "FLOAT64",
    "UINT64",
    "INT64",
    "UINT4",
    "INT4",
    "DML_TENSOR_DATA_TYPE_FLOAT32",
    "DML_TENSOR_DATA_TYPE_FLOAT16",
    "DML_TENSOR_DATA_TYPE_UINT32",
    "DML_TENSOR_DATA_TYPE_UINT16",
    "DML_TENSOR_DATA_TYPE_UINT8",
    "DML_TENSOR_DATA_TYPE_INT32",
    "DML_TENSOR_DATA_TYPE_INT16",
    "DML_TENSOR_DATA_TYPE_INT8",
    "DML_TENSOR_DATA_TYPE_FLOAT64",
    "DML_TENSOR_DATA_TYPE_UINT64",
    "DML_TENSOR_DATA_TYPE_INT64",
    "DML_TENSOR_DATA_TYPE_UINT4",
    "DML_TENSOR_DATA_TYPE_INT4",
    "bfloat16",
    "float32",
    "float16",
    "uint32",
    "uint16",
    "uint8",
    "int32",
    "int16",
    "int8",
    "float64",
    "uint64",
    "int64",
    "uint4",
    "int4",
]

__all__ = [
    "acos",
    "acosh",
    "activation_celu",
    "activation_elu",
    "activation_gelu",
    "activation_hard_sigmoid",
    "activation_hard_swish",
    "activation_hardmax",
    "activation_identity",
    "activation_leaky_relu",
    "activation_linear",
    "activation_log_softmax",
    "activation_parameterized_relu",
    "activation_parametric_softplus",
    "activation_relu",
    "activation_relu_grad",
    "activation_scaled_elu",
    "activation_scaled_tanh",
    "activation_shrink",
    "activation_sigmoid",
    "activation_softmax",
    "activation_softplus",
    "activation_softsign",
    "activation_swish",
    "activation_tanh",
    "activation_thresholded_relu",
    "adam_optimizer",
    "add",
    "argmax",
    "argmin",
    "asin",
    "asinh",
    "atan",
    "atan_yx",
    "atanh",
    "average_pooling",
    "average_pooling_grad",
    "batch_normalization",
    "batch_normalization_grad",
    "batch_normalization_training",
    "batch_normalization_training_grad",
    "bit_and",
    "bit_count",
    "bit_not",
    "bit_or",
    "bit_shift_left",
    "bit_shift_right",
    "bit_xor",
    "cast",
    "ceil",
    "clip",
    "clip_grad",
    "convolution",
    "convolution_integer",
    "cos",
    "cosh",
    "cumulative_product",
    "cumulative_summation",
    "depth_to_space",
    "dequantize",
    "dequantize_linear",
    "diagonal_matrix",
    "difference_square",
    "divide",
    "dynamic_quantize_linear",
    "equals",
    "erf",
    "exp",
    "fill_value_constant",
    "fill_value_sequence",
    "floor",
    "fold",
    "gather",
    "gather_elements",
    "gather_nd",
    "gemm",
    "greater_than",
    "greater_than_or_equal",
    "gru",
    "identity",
    "if_",
    "is_infinity",
    "is_nan",
    "join",
    "less_than",
    "less_than_or_equal",
    "local_response_normalization",
    "local_response_normalization_grad",
    "log",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "lp_normalization",
    "lp_pooling",
    "lstm",
    "matrix_multiply_integer",
    "matrix_multiply_integer_to_float",
    "max_pooling",
    "max_pooling_grad",
    "max_unpooling",
    "mean",
    "mean_variance_normalization",
    "modulus_floor",
    "modulus_truncate",
    "multihead_attention",
    "multiply",
    "negate",
    "non_zero_coordinates",
    "one_hot",
    "padding",
    "quantize",
    "quantize_linear",
    "quantized_linear_add",
    "quantized_linear_average_pooling",
    "quantized_linear_convolution",
    "quantized_linear_matrix_multiply",
    "random_generator",
    "recip",
    "reduce",
    "resample",
    "resample_grad",
    "reverse_subsequences",
    "rnn",
    "roi_align",
    "roi_align_grad",
    "roi_pooling",
    "scatter_elements",
    "scatter_nd",
    "sign",
    "sin",
    "sinh",
    "slice_grad",
    "space_to_depth",
    "split",
    "sqrt",
    "subtract",
    "tan",
    "tanh",
    "threshold",
    "tile",
    "top_k",
    "unfold",
    "upsample_2d",
    "value_scale_2d",
]

def abs(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the absolute value: `|g(x)|`. Choice: that of the smallest integer is itself.

    Args:
        input: The tensor to read.
        scale_bias: `g(x) = x * scale + bias`, applied to each element first; g(x) = x without
            it.

    Makes DML_OPERATOR_ELEMENT_WISE_ABS.
    """

def acos(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the arc cosine, in radians: `acos(g(x))`; NaN beyond -1 and 1.

    Args:
        input: The tensor to read.
        scale_bias: `g(x) = x * scale + bias`, applied to each element first; g(x) = x without
            it.

    Makes DML_OPERATOR_ELEMENT_WISE_ACOS.
    """

def acosh(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the inverse hyperbolic cosine: `acosh(g(x))`; NaN below 1.

    Args:
        input: The tensor to read.
        scale_bias: `g(x) = x * scale + bias`, applied to each element first; g(x) = x without
            it.

    Makes DML_OPERATOR_ELEMENT_WISE_ACOSH.
    """

def activation_celu(
    input: Given[Value],
    alpha: float = 1.0,
) -> Value:
    """Bends negative elements smoothly: `max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`.

    Args:
        input: The tensor to read.
        alpha: Coefficients of the formula.

    Makes DML_OPERATOR_ACTIVATION_CELU.
    """

def activation_elu(
    input: Given[Value],
    alpha: float = 1.0,
) -> Value:
    """Bends negative elements to an exponential: `x if x >= 0 else alpha * (exp(x) - 1)`.

    Args:
        input: The tensor to read.
        alpha: Coefficients of the formula.

    Makes DML_OPERATOR_ACTIVATION_ELU.
    """

def activation_gelu(
    input: Given[Value],
) -> Value:
    """Weights each element by the normal distribution: `0.5 * x * (1 + erf(x / sqrt(2)))`.

    This is `jax.nn.gelu(x, approximate=False)`.

    Args:
        input: The tensor to read.

    Makes DML_OPERATOR_ACTIVATION_GELU.
    """

def activation_hard_sigmoid(
    input: Given[Value],
    alpha: float = 0.2,
    beta: float = 0.5,
) -> Value:
    """Approximates a sigmoid by three lines: `max(0, min(alpha * x + beta, 1))`.

    Args:
        input: The tensor to read.
        alpha: Coefficients of the formula.
        beta: Coefficients of the formula.

    Makes DML_OPERATOR_ACTIVATION_HARD_SIGMOID.
    """

def activation_hard_swish(
    input: Given[Value],
    alpha: float = 0.16666666666666666,
    beta: float = 0.5,
) -> Value:
    """Weights each element by its hard sigmoid: `x * max(0, min(alpha * x + beta, 1))`.

    Args:
        input: The tensor to read.
        alpha: Coefficients of the formula.
        beta: Coefficients of the formula.

    Makes DML_OPERATOR_ACTIVATION_HARD_SWISH.
    """

def activation_hardmax(
    input: Given[Value],
    axes: Integers | int | None = None,
) -> Value:
    """Puts 1 at the first maximum of each row, and 0 elsewhere.

    Args:
        input: The tensor to normalize: a matrix, with any number of dimensions of size 1 before
            its two. Functions take tensors of every rank.
        axes: The dimensions to work along: one or more, each once, in any order.

    Makes DML_OPERATOR_ACTIVATION_HARDMAX or DML_OPERATOR_ACTIVATION_HARDMAX1.
    """

def activation_identity(
    input: Given[Value],
) -> Value:
    """Copies each element: `x`.

    Args:
        input: The tensor to read.

    Makes DML_OPERATOR_ACTIVATION_IDENTITY.
    """

def activation_leaky_relu(
    input: Given[Value],
    alpha: float = 0.01,
) -> Value:
    """Scales negative elements: `x if x >= 0 else alpha * x`.

    Args:
        input: The tensor to read.
        alpha: Coefficients of the formula.

    Makes DML_OPERATOR_ACTIVATION_LEAKY_RELU.
    """

def activation_linear(
    input: Given[Value],
    alpha: float,
    beta: float,
) -> Value:
    """Maps each element linearly: `alpha * x + beta`.

    Args:
        input: The tensor to read.
        alpha: Coefficients of the formula.
        beta: Coefficients of the formula.

    Makes DML_OPERATOR_ACTIVATION_LINEAR.
    """

def activation_log_softmax(
    input: Given[Value],
    axes: Integers | int | None = None,
) -> Value:
    """Takes the logarithm of SOFTMAX of each row.

    Args:
        input: The tensor to normalize: a matrix, with any number of dimensions of size 1 before
            its two. Functions take tensors of every rank.
        axes: The dimensions to work along: one or more, each once, in any order.

    Makes DML_OPERATOR_ACTIVATION_LOG_SOFTMAX or DML_OPERATOR_ACTIVATION_LOG_SOFTMAX1.
    """

def activation_parameterized_relu(
    input: Given[Value],
    slope: Given[Value],
) -> Value:
    """Scales each negative element by a slope of its own: `x if x >= 0 else slope * x`.

    Args:
        input: The tensor to read.
        slope: The slopes, of the input's type and sizes; strides of 0 repeat them.

    Makes DML_OPERATOR_ACTIVATION_PARAMETERIZED_RELU.
    """

def activation_parametric_softplus(
    input: Given[Value],
    alpha: float,
    beta: float,
) -> Value:
    """Takes a scaled soft maximum with 0: `alpha * ln(1 + exp(beta * x))`.

    Args:
        input: The tensor to read.
        alpha: Coefficients of the formula.
        beta: Coefficients of the formula.

    Makes DML_OPERATOR_ACTIVATION_PARAMETRIC_SOFTPLUS.
    """

def activation_relu(
    input: Given[Value],
) -> Value:
    """Sets negative elements to 0: `max(0, x)`.

    Args:
        input: The tensor to read.

    Makes DML_OPERATOR_ACTIVATION_RELU.
    """

def activation_relu_grad(
    input: Given[Value],
    input_gradient: Given[Value],
) -> Value:
    """Passes the gradient where the input of ACTIVATION_RELU is above 0.

    Args:
        input: The input of ACTIVATION_RELU.
        input_gradient: The gradient of its output; of the same type and sizes.

    Makes DML_OPERATOR_ACTIVATION_RELU_GRAD.
    """

def activation_scaled_elu(
    input: Given[Value],
    alpha: float = 1.6732631921768188,
    gamma: float = 1.0507010221481323,
) -> Value:
    """Scales an ELU: `gamma * x if x > 0 else gamma * alpha * (exp(x) - 1)`.

    Args:
        input: The tensor to read.
        alpha: Coefficients of the formula.
        gamma: Coefficients of the formula.

    Makes DML_OPERATOR_ACTIVATION_SCALED_ELU.
    """

def activation_scaled_tanh(
    input: Given[Value],
    alpha: float = 1.0,
    beta: float = 0.5,
) -> Value:
    """Scales a hyperbolic tangent: `alpha * tanh(beta * x)`.

    Args:
        input: The tensor to read.
        alpha: Coefficients of the formula.
        beta: Coefficients of the formula.

    Makes DML_OPERATOR_ACTIVATION_SCALED_TANH.
    """

def activation_shrink(
    input: Given[Value],
    bias: float = 0.0,
    threshold: float = 0.5,
) -> Value:
    """Moves large elements toward 0, and sets small ones to 0.

    Args:
        input: The tensor to read.
        bias: FLOAT whatever the tensor's type.
        threshold: FLOAT whatever the tensor's type.

    Makes DML_OPERATOR_ACTIVATION_SHRINK.
    """

def activation_sigmoid(
    input: Given[Value],
) -> Value:
    """Maps each element to a number between 0 and 1: `1 / (1 + exp(-x))`.

    Args:
        input: The tensor to read.

    Makes DML_OPERATOR_ACTIVATION_SIGMOID.
    """

def activation_softmax(
    input: Given[Value],
    axes: Integers | int | None = None,
) -> Value:
    """Turns the elements of each row into positive numbers that add up to 1.

    Args:
        input: The tensor to normalize: a matrix, with any number of dimensions of size 1 before
            its two. Functions take tensors of every rank.
        axes: The dimensions to work along: one or more, each once, in any order.

    Makes DML_OPERATOR_ACTIVATION_SOFTMAX or DML_OPERATOR_ACTIVATION_SOFTMAX1.
    """

def activation_softplus(
    input: Given[Value],
    steepness: float = 1.0,
) -> Value:
    """Takes a soft maximum with 0: `ln(1 + exp(steepness * x)) / steepness`.

    Args:
        input: The tensor to read.
        steepness: Coefficients of the formula.

    Makes DML_OPERATOR_ACTIVATION_SOFTPLUS.
    """

def activation_softsign(
    input: Given[Value],
) -> Value:
    """Maps each element to a number between -1 and 1: `x / (1 + |x|)`.

    Args:
        input: The tensor to read.

    Makes DML_OPERATOR_ACTIVATION_SOFTSIGN.
    """

def activation_swish(
    input: Given[Value],
    sigmoid_input_scale: float = 1.0,
) -> Value:
    """Weights each element by its sigmoid: `x / (1 + exp(-sigmoid_input_scale * x))`.

    Args:
        input: The tensor to read.
        sigmoid_input_scale: Coefficients of the formula.

    Makes DML_OPERATOR_ACTIVATION_SWISH.
    """

def activation_tanh(
    input: Given[Value],
) -> Value:
    """Takes the hyperbolic tangent of each element: `tanh(x)`.

    Args:
        input: The tensor to read.

    Makes DML_OPERATOR_ACTIVATION_TANH.
    """

def activation_thresholded_relu(
    input: Given[Value],
    alpha: float = 1.0,
) -> Value:
    """Sets elements up to a threshold to 0: `x if x > alpha else 0`; NaN gives 0.

    Args:
        input: The tensor to read.
        alpha: Coefficients of the formula.

    Makes DML_OPERATOR_ACTIVATION_THRESHOLDED_RELU.
    """

class AdamOptimizerOutputs(NamedTuple, Generic[Value]):
    parameters: Value
    first_moment: Value
    second_moment: Value

def adam_optimizer(
    input_parameters: Given[Value],
    input_first_moment: Given[Value],
    input_second_moment: Given[Value],
    gradient: Given[Value],
    training_step: Given[Value],
    learning_rate: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-08,
) -> AdamOptimizerOutputs[Value]:
    """Updates parameters by their gradient, as the optimizer Adam does.

    Returns a named tuple of parameters, first_moment, second_moment.

    Args:
        input_parameters: The parameters. Functions take parameters of every rank, with moments
            and a gradient of the same sizes.
        input_first_moment: The mean of gradients; 0 before the first step.
        input_second_moment: The mean of squared gradients; 0 before the first step.
        gradient: The gradient of what is minimised.
        training_step: The number of the step, UINT32 of sizes 1. Functions also take an
            integer, and an array of rank 0.
        learning_rate: The size of a step.
        beta1: How much of a mean remains in each step; between 0 and 1.
        beta2: How much of a mean remains in each step; between 0 and 1.
        epsilon: What keeps the divisor from 0, such as 1e-8.

    Makes DML_OPERATOR_ADAM_OPTIMIZER.
    """

def add(
    a: Given[Value],
    b: Given[Value],
    fused_activation: FusedActivation | type[Operator] | str | None = None,
) -> Value:
    """Adds the elements of two tensors: `output = a + b`.

    Args:
        a: The tensors to map, of one type and equal sizes; strides of 0 broadcast, and
            functions broadcast as NumPy does.
        b: The tensors to map, of one type and equal sizes; strides of 0 broadcast, and
            functions broadcast as NumPy does.
        fused_activation: An activation without tensors, such as `ActivationRelu.fused()`; none
            leaves the result.

    Makes DML_OPERATOR_ELEMENT_WISE_ADD or DML_OPERATOR_ELEMENT_WISE_ADD1.
    """

def argmax(
    input: Given[Value],
    axes: Integers | int | None = None,
    axis_direction: AxisDirection | _AxisDirection = "INCREASING",
    output_data_type: TensorDataType | _TensorDataType | type[Any] | np.dtype[Any] = "UINT32",
) -> Value:
    """The index of the largest element along `axes`; the rank is kept.

    Returns indices of UINT32: cast them before a subtraction.

    Args:
        input: The tensor to read.
        axes: The dimensions to reduce: one or more, each once, in any order. Functions reduce
            all where the list is empty or left out.
        axis_direction: Among equals, INCREASING takes the smallest index, DECREASING the
            largest.
        output_data_type: The type of the result.

    Makes DML_OPERATOR_ARGMAX.
    """

def argmin(
    input: Given[Value],
    axes: Integers | int | None = None,
    axis_direction: AxisDirection | _AxisDirection = "INCREASING",
    output_data_type: TensorDataType | _TensorDataType | type[Any] | np.dtype[Any] = "UINT32",
) -> Value:
    """The index of the smallest element along `axes`; otherwise as ARGMAX.

    Returns indices of UINT32: cast them before a subtraction.

    Args:
        input: The tensor to read.
        axes: The dimensions to reduce: one or more, each once, in any order. Functions reduce
            all where the list is empty or left out.
        axis_direction: Among equals, INCREASING takes the smallest index, DECREASING the
            largest.
        output_data_type: The type of the result.

    Makes DML_OPERATOR_ARGMIN.
    """

def asin(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the arc sine, in radians: `asin(g(x))`; NaN beyond -1 and 1.

    Args:
        input: The tensor to read.
        scale_bias: `g(x) = x * scale + bias`, applied to each element first; g(x) = x without
            it.

    Makes DML_OPERATOR_ELEMENT_WISE_ASIN.
    """

def asinh(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the inverse hyperbolic sine: `asinh(g(x))`.

    Args:
        input: The tensor to read.
        scale_bias: `g(x) = x * scale + bias`, applied to each element first; g(x) = x without
            it.

    Makes DML_OPERATOR_ELEMENT_WISE_ASINH.
    """

def atan(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the arc tangent, in radians: `atan(g(x))`.

    Args:
        input: The tensor to read.
        scale_bias: `g(x) = x * scale + bias`, applied to each element first; g(x) = x without
            it.

    Makes DML_OPERATOR_ELEMENT_WISE_ATAN.
    """

def atan_yx(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Takes the angle in radians of the point whose y is `a` and whose x is `b`.

    Args:
        a: The tensors to map, of one type and equal sizes; strides of 0 broadcast, and
            functions broadcast as NumPy does.
        b: The tensors to map, of one type and equal sizes; strides of 0 broadcast, and
            functions broadcast as NumPy does.

    Makes DML_OPERATOR_ELEMENT_WISE_ATAN_YX.
    """

def atanh(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the inverse hyperbolic tangent: `atanh(g(x))`; NaN beyond -1 and 1.

    Args:
        input: The tensor to read.
        scale_bias: `g(x) = x * scale + bias`, applied to each element first; g(x) = x without
            it.

    Makes DML_OPERATOR_ELEMENT_WISE_ATANH.
    """

def average_pooling(
    input: Given[Value],
    strides: Integers | int,
    window_sizes: Integers | int,
    start_padding: Integers | int | None = None,
    end_padding: Integers | int | None = None,
    dilations: Integers | int | None = None,
    include_padding: bool = False,
    output_sizes: Integers | None = None,
) -> Value:
    """Averages the elements of each window.

    The order of the arguments is DirectMLX's: strides come before the sizes of the window.

    Args:
        input: {N, C, spatial...}, with 2 or 3 spatial dimensions.
        strides: The steps from one window to the next; 1 where there are none.
        window_sizes: The elements of a window in each spatial dimension.
        start_padding: The elements that padding adds before each spatial dimension.
        end_padding: The elements that padding adds behind each spatial dimension.
        dilations: The steps from one element of a window to the next; 1 where there are none.
        include_padding: Whether a sum is divided by the number of all elements of the window;
            else by the number of those in the input.
        output_sizes: The sizes of the result. Of several results: the sizes of the first, a
            list for each result, or a dictionary by field.

    Makes DML_OPERATOR_AVERAGE_POOLING or DML_OPERATOR_AVERAGE_POOLING1.
    """

def average_pooling_grad(
    input_gradient: Given[Value],
    strides: Integers | int,
    window_size: Integers | int,
    start_padding: Integers | int | None = None,
    end_padding: Integers | int | None = None,
    include_padding: bool = False,
    output_sizes: Integers | None = None,
) -> Value:
    """Computes the gradient of the input of AVERAGE_POOLING from that of its output.

    Args:
        input_gradient: {N, C, spatial...}: one element for each window.
        strides: The steps from one window to the next; 1 where there are none.
        window_size: The elements of a window in each spatial dimension.
        start_padding: The elements that padding adds before each spatial dimension.
        end_padding: The elements that padding adds behind each spatial dimension.
        include_padding: Whether a sum is divided by the number of all elements of the window;
            else by the number of those in the input.
        output_sizes: The sizes of the result. Of several results: the sizes of the first, a
            list for each result, or a dictionary by field.

    Makes DML_OPERATOR_AVERAGE_POOLING_GRAD.
    """

def batch_normalization(
    input: Given[Value],
    mean: Given[Value],
    variance: Given[Value],
    scale: Given[Value],
    bias: Given[Value],
    spatial: bool = True,
    epsilon: float = 1e-05,
    fused_activation: FusedActivation | type[Operator] | str | None = None,
) -> Value:
    """Normalizes elements by a mean and a variance that it is given.

    Args:
        input: The tensor to read.
        mean: Of the input's type and number of dimensions; each size is the input's, or 1,
            which repeats the element. Functions also take {C}.
        variance: Of the input's type and number of dimensions; each size is the input's, or 1,
            which repeats the element. Functions also take {C}.
        scale: Of the input's type and number of dimensions; each size is the input's, or 1,
            which repeats the element. Functions also take {C}.
        bias: Of the input's type and number of dimensions; each size is the input's, or 1,
            which repeats the element. Functions also take {C}.
        spatial: Has no effect. Below feature level 4_0, false needs a mean and a variance for
            each element of the last two dimensions.
        epsilon: Is added to the variance, so that it is not 0; 0.00001 is usual.
        fused_activation: An activation without tensors, such as `ActivationRelu.fused()`; none
            leaves the result.

    Makes DML_OPERATOR_BATCH_NORMALIZATION.
    """

class BatchNormalizationGradOutputs(NamedTuple, Generic[Value]):
    gradient: Value
    scale_gradient: Value
    bias_gradient: Value

def batch_normalization_grad(
    input: Given[Value],
    input_gradient: Given[Value],
    mean: Given[Value],
    variance: Given[Value],
    scale: Given[Value],
    epsilon: float = 1e-05,
) -> BatchNormalizationGradOutputs[Value]:
    """Computes the gradients of BATCH_NORMALIZATION, whose mean and variance are constants.

    Returns a named tuple of gradient, scale_gradient, bias_gradient.

    Args:
        input: The input of the normalization.
        input_gradient: The gradient of the normalization's output, of the input's sizes.
        mean: Of equal sizes; each size is the input's, or 1, which repeats the element.
            Functions also take {C}.
        variance: Of equal sizes; each size is the input's, or 1, which repeats the element.
            Functions also take {C}.
        scale: Of equal sizes; each size is the input's, or 1, which repeats the element.
            Functions also take {C}.
        epsilon: Is added to the variance, so that it is not 0; 0.00001 is usual.

    Makes DML_OPERATOR_BATCH_NORMALIZATION_GRAD.
    """

class BatchNormalizationTrainingOutputs(NamedTuple, Generic[Value]):
    output: Value
    mean: Value
    variance: Value

def batch_normalization_training(
    input: Given[Value],
    scale: Given[Value],
    bias: Given[Value],
    fused_add: Given[Value] | None = None,
    epsilon: float = 1e-05,
    fused_activation: FusedActivation | type[Operator] | str | None = None,
) -> BatchNormalizationTrainingOutputs[Value]:
    """Normalizes elements by their own mean and variance.

    Returns a named tuple of output, mean, variance.

    Args:
        input: The tensor to read.
        scale: Of equal sizes; each size is the input's, or 1. Functions also take {C}.
        bias: Of equal sizes; each size is the input's, or 1. Functions also take {C}.
        fused_add: What is added before the activation, of the input's sizes.
        epsilon: Is added to the variance, so that it is not 0; 0.00001 is usual.
        fused_activation: An activation without tensors, such as `ActivationRelu.fused()`; none
            leaves the result.

    Makes DML_OPERATOR_BATCH_NORMALIZATION_TRAINING.
    """

class BatchNormalizationTrainingGradOutputs(NamedTuple, Generic[Value]):
    gradient: Value
    scale_gradient: Value
    bias_gradient: Value

def batch_normalization_training_grad(
    input: Given[Value],
    input_gradient: Given[Value],
    mean: Given[Value],
    variance: Given[Value],
    scale: Given[Value],
    epsilon: float = 1e-05,
) -> BatchNormalizationTrainingGradOutputs[Value]:
    """Computes the gradients of BATCH_NORMALIZATION_TRAINING, whose statistics are the input's.

    Returns a named tuple of gradient, scale_gradient, bias_gradient.

    Args:
        input: The input of the normalization.
        input_gradient: The gradient of the normalization's output, of the input's sizes.
        mean: Of equal sizes; each size is the input's, or 1, which repeats the element.
            Functions also take {C}.
        variance: Of equal sizes; each size is the input's, or 1, which repeats the element.
            Functions also take {C}.
        scale: Of equal sizes; each size is the input's, or 1, which repeats the element.
            Functions also take {C}.
        epsilon: Is added to the variance, so that it is not 0; 0.00001 is usual.

    Makes DML_OPERATOR_BATCH_NORMALIZATION_TRAINING_GRAD.
    """

def bit_and(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Sets the bits that are 1 in both elements: `a & b`.

    Args:
        a: The tensors whose bits are read.
        b: The tensors whose bits are read.

    Makes DML_OPERATOR_ELEMENT_WISE_BIT_AND.
    """

def bit_count(
    a: Given[Value],
    output_data_type: TensorDataType | _TensorDataType | type[Any] | np.dtype[Any] = "UINT8",
) -> Value:
    """Counts the bits of each element that are 1: `popcount(x)`.

    Args:
        a: The tensor to read.
        output_data_type: The type of the result.

    Makes DML_OPERATOR_ELEMENT_WISE_BIT_COUNT.
    """

def bit_not(
    a: Given[Value],
) -> Value:
    """Inverts every bit of each element: `~x`.

    Args:
        a: The tensors whose bits are read.

    Makes DML_OPERATOR_ELEMENT_WISE_BIT_NOT.
    """

def bit_or(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Sets the bits that are 1 in at least one of two elements: `a | b`.

    Args:
        a: The tensors whose bits are read.
        b: The tensors whose bits are read.

    Makes DML_OPERATOR_ELEMENT_WISE_BIT_OR.
    """

def bit_shift_left(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Shifts bits toward the highest: `a << b`, modulo 2^n for n bits.

    Args:
        a: The tensor whose bits are shifted.
        b: By how many places.

    Makes DML_OPERATOR_ELEMENT_WISE_BIT_SHIFT_LEFT.
    """

def bit_shift_right(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Shifts bits toward the lowest: `a >> b`.

    Args:
        a: The tensor whose bits are shifted.
        b: By how many places.

    Makes DML_OPERATOR_ELEMENT_WISE_BIT_SHIFT_RIGHT.
    """

def bit_xor(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Sets the bits that differ between two elements: `a ^ b`.

    Args:
        a: The tensors whose bits are read.
        b: The tensors whose bits are read.

    Makes DML_OPERATOR_ELEMENT_WISE_BIT_XOR.
    """

def cast(
    input: Given[Value],
    target_data_type: TensorDataType | _TensorDataType | type[Any] | np.dtype[Any],
) -> Value:
    """Converts each element to the type of the output.

    Args:
        input: The tensor to read.
        target_data_type: The type of the result.

    Makes DML_OPERATOR_CAST.
    """

def ceil(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the smallest whole number that is not below: `ceil(g(x))`.

    Args:
        input: The tensor to read.
        scale_bias: `g(x) = x * scale + bias`, applied to each element first; g(x) = x without
            it.

    Makes DML_OPERATOR_ELEMENT_WISE_CEIL.
    """

def clip(
    input: Given[Value],
    min: float,
    max: float,
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Clamps each element to [min, max].

    Args:
        input: The tensor to read.
        min: The bounds, FLOAT whatever the tensor's type; cast to it first.
        max: The bounds, FLOAT whatever the tensor's type; cast to it first.
        scale_bias: Applied to each element first.

    Makes DML_OPERATOR_ELEMENT_WISE_CLIP or DML_OPERATOR_ELEMENT_WISE_CLIP1.
    """

def clip_grad(
    input: Given[Value],
    input_gradient: Given[Value],
    min: float,
    max: float,
) -> Value:
    """The gradient of ELEMENT_WISE_CLIP, given that of its output.

    Args:
        input: What was clipped.
        input_gradient: The gradient of the clipped tensor; of the same type and sizes.
        min: The bounds, FLOAT whatever the tensor's type; cast to it first.
        max: The bounds, FLOAT whatever the tensor's type; cast to it first.

    Makes DML_OPERATOR_ELEMENT_WISE_CLIP_GRAD or DML_OPERATOR_ELEMENT_WISE_CLIP_GRAD1.
    """

def convolution(
    input: Given[Value],
    filter: Given[Value],
    bias: Given[Value] | None = None,
    mode: ConvolutionMode | _ConvolutionMode = "CROSS_CORRELATION",
    direction: ConvolutionDirection | _ConvolutionDirection = "FORWARD",
    strides: Integers | int | None = None,
    dilations: Integers | int | None = None,
    start_padding: Integers | int | None = None,
    end_padding: Integers | int | None = None,
    output_padding: Integers | int | None = None,
    group_count: int = 1,
    fused_activation: FusedActivation | type[Operator] | str | None = None,
    output_sizes: Integers | None = None,
) -> Value:
    """Convolves a tensor with a filter, adds a bias to each channel, and applies an activation.

    Args:
        input: {N, C, spatial...}, with 1, 2 or 3 spatial dimensions.
        filter: FORWARD: {output channels, C / group_count, spatial...}; BACKWARD: {C, output
            channels / group_count, spatial...}.
        bias: {1, output channels, 1...}; functions also take {output channels}.
        mode: CROSS_CORRELATION, or CONVOLUTION, which mirrors the filter.
        direction: FORWARD, or BACKWARD for the transpose.
        strides: The steps from one window to the next; 1 where there are none.
        dilations: The steps from one element of a window to the next; 1 where there are none.
        start_padding: The zeros before each spatial dimension of the input; in BACKWARD the
            elements that are cut off the result there.
        end_padding: The same, behind each spatial dimension.
        output_padding: The elements that are added behind each spatial dimension of the output.
        group_count: In how many groups of channels the convolution is done, each by itself; as
            many as channels is a depthwise convolution.
        fused_activation: An activation without tensors, such as `ActivationRelu.fused()`; none
            leaves the result.
        output_sizes: The sizes of the result. Of several results: the sizes of the first, a
            list for each result, or a dictionary by field.

    Makes DML_OPERATOR_CONVOLUTION.
    """

def convolution_integer(
    input: Given[Value],
    input_zero_point: Given[Value] | None,
    filter: Given[Value],
    filter_zero_point: Given[Value] | None,
    strides: Integers | int | None = None,
    dilations: Integers | int | None = None,
    start_padding: Integers | int | None = None,
    end_padding: Integers | int | None = None,
    group_count: int = 1,
    output_sizes: Integers | None = None,
) -> Value:
    """Convolves integers of 8 bits to INT32.

    Args:
        input: {N, C, spatial...}, with 1, 2 or 3 spatial dimensions.
        input_zero_point: What stands for 0 in the input; of one element.
        filter: {output channels, C / group_count, spatial...}.
        filter_zero_point: What stands for 0 in the filter; of one element, or one for each
            output channel.
        strides: The steps from one window to the next; 1 where there are none.
        dilations: The steps from one element of a window to the next; 1 where there are none.
        start_padding: The elements that padding adds before each spatial dimension.
        end_padding: The elements that padding adds behind each spatial dimension.
        group_count: In how many groups of channels the convolution is done, each by itself; as
            many as channels is a depthwise convolution.
        output_sizes: The sizes of the result. Of several results: the sizes of the first, a
            list for each result, or a dictionary by field.

    Makes DML_OPERATOR_CONVOLUTION_INTEGER.
    """

def cos(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the cosine of radians: `cos(g(x))`; NaN for infinities.

    Args:
        input: The tensor to read.
        scale_bias: `g(x) = x * scale + bias`, applied to each element first; g(x) = x without
            it.

    Makes DML_OPERATOR_ELEMENT_WISE_COS.
    """

def cosh(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the hyperbolic cosine: `cosh(g(x))`.

    Args:
        input: The tensor to read.
        scale_bias: `g(x) = x * scale + bias`, applied to each element first; g(x) = x without
            it.

    Makes DML_OPERATOR_ELEMENT_WISE_COSH.
    """

def cumulative_product(
    input: Given[Value],
    axis: int,
    axis_direction: AxisDirection | _AxisDirection = "INCREASING",
    has_exclusive_product: bool = False,
) -> Value:
    """Multiplies elements along an axis, in each line.

    Args:
        input: The tensor to read.
        axis: The dimension to work along, in [0, rank - 1].
        axis_direction: INCREASING from the first element on, DECREASING from the last.
        has_exclusive_product: Whether the element j itself is left out; the first product is 1
            then.

    Makes DML_OPERATOR_CUMULATIVE_PRODUCT.
    """

def cumulative_summation(
    input: Given[Value],
    axis: int,
    axis_direction: AxisDirection | _AxisDirection = "INCREASING",
    has_exclusive_sum: bool = False,
) -> Value:
    """Adds up elements along an axis, in each line.

    Args:
        input: The tensor to read.
        axis: The dimension to work along, in [0, rank - 1].
        axis_direction: INCREASING from the first element on, DECREASING from the last.
        has_exclusive_sum: Whether the element j itself is left out; the first sum is 0 then.

    Makes DML_OPERATOR_CUMULATIVE_SUMMATION.
    """

def depth_to_space(
    input: Given[Value],
    block_size: int,
    order: DepthSpaceOrder | _DepthSpaceOrder = "DEPTH_COLUMN_ROW",
) -> Value:
    """Moves channels into blocks of pixels; the inverse of SPACE_TO_DEPTH.

    Args:
        input: [N, C * B * B, H, W].
        block_size: The side of a block in pixels.
        order: How a pixel's channels are numbered. One of DEPTH_COLUMN_ROW, COLUMN_ROW_DEPTH.

    Makes DML_OPERATOR_DEPTH_TO_SPACE or DML_OPERATOR_DEPTH_TO_SPACE1.
    """

def dequantize(
    input: Given[Value],
    quantization_parameters: Sequence[Given[Value]],
    quantization_type: QuantizationType | _QuantizationType,
) -> Value:
    """Computes what integers of 4 or 8 bits stand for, in blocks.

    Args:
        input: The integers.
        quantization_parameters: [scale], or [scale, zero point].
        quantization_type: SCALE, or SCALE_ZERO_POINT.

    Makes DML_OPERATOR_DEQUANTIZE.
    """

def dequantize_linear(
    input: Given[Value],
    scale: Given[Value],
    zero_point: Given[Value] | None = None,
) -> Value:
    """Computes what integers stand for, each with a scale and a zero point of its own.

    Args:
        input: The integers.
        scale: What a step of the integer stands for. Functions broadcast it, and the zero
            point.
        zero_point: The integer that stands for 0, of the input's type. It may be left out from
            feature level 6_2 on.

    Makes DML_OPERATOR_ELEMENT_WISE_DEQUANTIZE_LINEAR.
    """

@overload
def diagonal_matrix(
    output_sizes: Integers,
    value_data_type: TensorDataType | _TensorDataType | type[Any] | np.dtype[Any],
    value: float,
    diagonal_fill_begin: int,
    diagonal_fill_end: int,
    input: Given[Value] | None = None,
    graph: None = None,
) -> Value:
    """Makes matrices with one number along a diagonal, and 0 elsewhere.

    Args:
        output_sizes: The sizes of the result. Of several results: the sizes of the first, a
            list for each result, or a dictionary by field.
        value_data_type: The type of the tensors.
        value: The number, a FLOAT whatever the type of the output.
        diagonal_fill_begin: The leftmost diagonal; 0 is the main one, negative ones are below
            it.
        diagonal_fill_end: The diagonal after the rightmost one.
        input: The matrices to write on; zeros without it.
        graph: The GraphBuilder that gets a node; without one, an array is returned.

    Makes DML_OPERATOR_DIAGONAL_MATRIX or DML_OPERATOR_DIAGONAL_MATRIX1.
    """

@overload
def diagonal_matrix(
    output_sizes: Integers,
    value_data_type: TensorDataType | _TensorDataType | type[Any] | np.dtype[Any],
    value: float,
    diagonal_fill_begin: int,
    diagonal_fill_end: int,
    input: Given[Value] | None = None,
    *,
    graph: GraphBuilder,
) -> Expression: ...

def difference_square(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Squares the difference of two elements: `output = (a - b) * (a - b)`.

    Args:
        a: The tensors to map, of one type and equal sizes; strides of 0 broadcast, and
            functions broadcast as NumPy does.
        b: The tensors to map, of one type and equal sizes; strides of 0 broadcast, and
            functions broadcast as NumPy does.

    Makes DML_OPERATOR_ELEMENT_WISE_DIFFERENCE_SQUARE.
    """

def divide(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Divides the elements of a tensor by those of another: `output = a / b`.

    Args:
        a: The tensors to map, of one type and equal sizes; strides of 0 broadcast, and
            functions broadcast as NumPy does.
        b: The tensors to map, of one type and equal sizes; strides of 0 broadcast, and
            functions broadcast as NumPy does.

    Makes DML_OPERATOR_ELEMENT_WISE_DIVIDE.
    """

class DynamicQuantizeLinearOutputs(NamedTuple, Generic[Value]):
    output: Value
    scale: Value
    zero_point: Value

def dynamic_quantize_linear(
    input: Given[Value],
    output_data_type: TensorDataType | _TensorDataType | type[Any] | np.dtype[Any] = "UINT8",
) -> DynamicQuantizeLinearOutputs[Value]:
    """Quantizes a tensor with one scale and one zero point, which follow from its range.

    Returns a named tuple of output, scale, zero_point.

    Args:
        input: The real numbers.
        output_data_type: The type of the result.

    Makes DML_OPERATOR_DYNAMIC_QUANTIZE_LINEAR.
    """

def equals(
    a: Given[Value],
    b: Given[Value],
    output_data_type: TensorDataType | _TensorDataType | type[Any] | np.dtype[Any] = "UINT8",
) -> Value:
    """Tells where two elements are equal: `a == b`.

    Returns UINT8: 1 where true, 0 elsewhere. `y != 0` is a mask of bool.

    Args:
        a: The tensors to compare.
        b: The tensors to compare.
        output_data_type: The type of the result.

    Makes DML_OPERATOR_ELEMENT_WISE_LOGICAL_EQUALS.
    """

def erf(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the error function: `erf(g(x))`.

    Args:
        input: The tensor to read.
        scale_bias: `g(x) = x * scale + bias`, applied to each element first; g(x) = x without
            it.

    Makes DML_OPERATOR_ELEMENT_WISE_ERF.
    """

def exp(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the exponential: `exp(g(x))`.

    Args:
        input: The tensor to read.
        scale_bias: `g(x) = x * scale + bias`, applied to each element first; g(x) = x without
            it.

    Makes DML_OPERATOR_ELEMENT_WISE_EXP.
    """

@overload
def fill_value_constant(
    output_sizes: Integers,
    value_data_type: TensorDataType | _TensorDataType | type[Any] | np.dtype[Any],
    value: float,
    graph: None = None,
) -> jax.Array:
    """Fills a tensor with one number: `value` everywhere.

    Args:
        output_sizes: The sizes of the result. Of several results: the sizes of the first, a
            list for each result, or a dictionary by field.
        value_data_type: The type of the values, which is the output's.
        value: The number, of that type.
        graph: The GraphBuilder that gets a node; without one, an array is returned.

    Makes DML_OPERATOR_FILL_VALUE_CONSTANT.
    """

@overload
def fill_value_constant(
    output_sizes: Integers,
    value_data_type: TensorDataType | _TensorDataType | type[Any] | np.dtype[Any],
    value: float,
    *,
    graph: GraphBuilder,
) -> Expression: ...

@overload
def fill_value_sequence(
    output_sizes: Integers,
    value_data_type: TensorDataType | _TensorDataType | type[Any] | np.dtype[Any],
    value_start: float,
    value_delta: float,
    graph: None = None,
) -> jax.Array:
    """Fills a tensor with numbers at equal distances: `value_start + k * value_delta`.

    Args:
        output_sizes: The sizes of the result. Of several results: the sizes of the first, a
            list for each result, or a dictionary by field.
        value_data_type: The type of the values, which is the output's.
        value_start: The first element, of that type.
        value_delta: The step from one element to the next, of that type.
        graph: The GraphBuilder that gets a node; without one, an array is returned.

    Makes DML_OPERATOR_FILL_VALUE_SEQUENCE.
    """

@overload
def fill_value_sequence(
    output_sizes: Integers,
    value_data_type: TensorDataType | _TensorDataType | type[Any] | np.dtype[Any],
    value_start: float,
    value_delta: float,
    *,
    graph: GraphBuilder,
) -> Expression: ...

def floor(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the largest whole number that is not above: `floor(g(x))`.

    Args:
        input: The tensor to read.
        scale_bias: `g(x) = x * scale + bias`, applied to each element first; g(x) = x without
            it.

    Makes DML_OPERATOR_ELEMENT_WISE_FLOOR.
    """

def fold(
    input: Given[Value],
    window_sizes: Integers | int,
    strides: Integers | int,
    dilations: Integers | int,
    start_padding: Integers | int,
    end_padding: Integers | int,
    output_sizes: Integers,
) -> Value:
    """Adds the columns that UNFOLD makes at the places of their windows.

    Args:
        input: {N, C * window elements, windows}.
        window_sizes: The elements of a window in each spatial dimension.
        strides: The steps from one window to the next; 1 where there are none.
        dilations: The steps from one element of a window to the next; 1 where there are none.
        start_padding: The elements that padding adds before each spatial dimension.
        end_padding: The elements that padding adds behind each spatial dimension.
        output_sizes: The sizes of the result. Of several results: the sizes of the first, a
            list for each result, or a dictionary by field.

    Makes DML_OPERATOR_FOLD.
    """

def gather(
    input: Given[Value],
    indices: Given[Value],
    axis: int = 0,
    index_dimensions: int | None = None,
) -> Value:
    """Reads slices along an axis.

    Args:
        input: The tensor to read.
        indices: Indices of elements.
        axis: The dimension of the input that indices name.
        index_dimensions: The number of dimensions of the indices, from the last one, that
            count; those before have the size 1.

    Makes DML_OPERATOR_GATHER.
    """

def gather_elements(
    input: Given[Value],
    indices: Given[Value],
    axis: int = 0,
) -> Value:
    """Reads one element for each index, in the index's own line along an axis.

    Args:
        input: The tensor to read.
        indices: The indices; of the input's sizes, but along `axis`.
        axis: The dimension of the input that indices name.

    Makes DML_OPERATOR_GATHER_ELEMENTS.
    """

def gather_nd(
    input: Given[Value],
    indices: Given[Value],
    input_dimension_count: int | None = None,
    indices_dimension_count: int | None = None,
    batch_dimension_count: int = 0,
) -> Value:
    """Reads slices, each at a list of indices.

    Without the two counts all dimensions count, and the result has the sizes of the slices.

    Args:
        input: The tensor to read.
        indices: Indices of elements.
        input_dimension_count: The number of the input's dimensions, from the last one, that
            count; those before have the size 1.
        indices_dimension_count: The number of dimensions of the indices, from the last one,
            that count; those before have the size 1.
        batch_dimension_count: The number of first dimensions that input and indices share.

    Makes DML_OPERATOR_GATHER_ND or DML_OPERATOR_GATHER_ND1.
    """

def gemm(
    a: Given[Value],
    b: Given[Value],
    c: Given[Value] | None = None,
    trans_a: MatrixTransform | _MatrixTransform = "NONE",
    trans_b: MatrixTransform | _MatrixTransform = "NONE",
    alpha: float = 1.0,
    beta: float = 1.0,
    fused_activation: FusedActivation | type[Operator] | str | None = None,
) -> Value:
    """Multiplies matrices, adds a third one, and applies an activation.

    Args:
        a: The left matrices, {.., M, K}, or {.., K, M} with TRANSPOSE.
        b: The right matrices, {.., K, N}, or {.., N, K} with TRANSPOSE; as many as of
            `a_tensor`. The function broadcasts both as `numpy.matmul` does.
        c: What is added, of the output's sizes; strides of 0 broadcast, and the function
            broadcasts it. None is 0.
        trans_a: TRANSPOSE exchanges the last two dimensions of the matrices, NONE leaves them.
        trans_b: TRANSPOSE exchanges the last two dimensions of the matrices, NONE leaves them.
        alpha: The factor of the product.
        beta: The factor of `c_tensor`.
        fused_activation: An activation without tensors, such as `ActivationRelu.fused()`; none
            leaves the result.

    Makes DML_OPERATOR_GEMM.
    """

def greater_than(
    a: Given[Value],
    b: Given[Value],
    output_data_type: TensorDataType | _TensorDataType | type[Any] | np.dtype[Any] = "UINT8",
) -> Value:
    """Tells where the first of two elements is greater: `a > b`.

    Returns UINT8: 1 where true, 0 elsewhere. `y != 0` is a mask of bool.

    Args:
        a: The tensors to compare.
        b: The tensors to compare.
        output_data_type: The type of the result.

    Makes DML_OPERATOR_ELEMENT_WISE_LOGICAL_GREATER_THAN.
    """

def greater_than_or_equal(
    a: Given[Value],
    b: Given[Value],
    output_data_type: TensorDataType | _TensorDataType | type[Any] | np.dtype[Any] = "UINT8",
) -> Value:
    """Tells where the first of two elements is greater or equal: `a >= b`.

    Returns UINT8: 1 where true, 0 elsewhere. `y != 0` is a mask of bool.

    Args:
        a: The tensors to compare.
        b: The tensors to compare.
        output_data_type: The type of the result.

    Makes DML_OPERATOR_ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL.
    """

class GruOutputs(NamedTuple, Generic[Value]):
    sequence: Value | None
    single: Value | None

def gru(
    input: Given[Value],
    weight: Given[Value],
    recurrence: Given[Value],
    bias: Given[Value] | None = None,
    hidden_init: Given[Value] | None = None,
    sequence_lengths: Given[Value] | None = None,
    activation_descs: Sequence[FusedActivation | type[Operator] | str] | None = None,
    direction: RecurrentNetworkDirection | _RecurrentNetworkDirection = "FORWARD",
    linear_before_reset: bool = False,
    output_options: Any = "Both",
) -> GruOutputs[Value]:
    """Runs gated recurrent units: gates decide how much of the last output stays.

    Returns a named tuple of sequence, single.

    Args:
        input: The sequences, [1, S, N, I].
        weight: What multiplies the inputs, [1, D, G*K, I] for G gates.
        recurrence: What multiplies the output of the step before, [1, D, G*K, K].
        bias: What is added, [1, 1, D, 2*G*K]: first beside the weights, then beside the
            recurrences.
        hidden_init: The output before the first step, [1, D, N, K].
        sequence_lengths: The number of steps of each sequence, [1, 1, 1, N].
        activation_descs: F and g of the forward pass, then of the backward pass.
        direction: FORWARD, BACKWARD, or BIDIRECTIONAL: both passes, forward first.
        linear_before_reset: Whether r multiplies after the product with Rh.
        output_options: The results to return: Both, Sequence or Single.

    Makes DML_OPERATOR_GRU.
    """

def identity(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Copies each element: `g(x)`; all bits stay where scale_bias is left out.

    Args:
        input: The tensor to read.
        scale_bias: `g(x) = x * scale + bias`, applied to each element first; g(x) = x without
            it.

    Makes DML_OPERATOR_ELEMENT_WISE_IDENTITY.
    """

def if_(
    condition: Given[Value],
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Chooses between two elements: `output = a if condition else b`.

    Args:
        condition: UINT8, of equal sizes. Functions also take bool, and broadcast it.
        a: The elements where the condition is true.
        b: The elements where the condition is false, of the type of `a_tensor`.

    Makes DML_OPERATOR_ELEMENT_WISE_IF.
    """

def is_infinity(
    input: Given[Value],
    infinity_mode: IsInfinityMode | _IsInfinityMode = "EITHER",
    output_data_type: TensorDataType | _TensorDataType | type[Any] | np.dtype[Any] = "UINT8",
) -> Value:
    """Tells where an element is infinite, of one sign or of either.

    Returns UINT8: 1 where true, 0 elsewhere. `y != 0` is a mask of bool.

    Args:
        input: The tensor to read.
        infinity_mode: Which infinity counts: POSITIVE, NEGATIVE, or EITHER.
        output_data_type: The type of the result.

    Makes DML_OPERATOR_ELEMENT_WISE_IS_INFINITY.
    """

def is_nan(
    input: Given[Value],
    output_data_type: TensorDataType | _TensorDataType | type[Any] | np.dtype[Any] = "UINT8",
) -> Value:
    """Tells where an element is NaN: `x != x`.

    Returns UINT8: 1 where true, 0 elsewhere. `y != 0` is a mask of bool.

    Args:
        input: The tensor to read.
        output_data_type: The type of the result.

    Makes DML_OPERATOR_ELEMENT_WISE_IS_NAN.
    """

def join(
    inputs: Sequence[Given[Value]],
    axis: int = 0,
) -> Value:
    """Joins tensors along an axis into one.

    Args:
        inputs: One or more tensors, of the output's sizes but for `axis`.
        axis: The dimension to work along, in [0, rank - 1].

    Makes DML_OPERATOR_JOIN.
    """

def less_than(
    a: Given[Value],
    b: Given[Value],
    output_data_type: TensorDataType | _TensorDataType | type[Any] | np.dtype[Any] = "UINT8",
) -> Value:
    """Tells where the first of two elements is less: `a < b`.

    Returns UINT8: 1 where true, 0 elsewhere. `y != 0` is a mask of bool.

    Args:
        a: The tensors to compare.
        b: The tensors to compare.
        output_data_type: The type of the result.

    Makes DML_OPERATOR_ELEMENT_WISE_LOGICAL_LESS_THAN.
    """

def less_than_or_equal(
    a: Given[Value],
    b: Given[Value],
    output_data_type: TensorDataType | _TensorDataType | type[Any] | np.dtype[Any] = "UINT8",
) -> Value:
    """Tells where the first of two elements is less or equal: `a <= b`.

    Returns UINT8: 1 where true, 0 elsewhere. `y != 0` is a mask of bool.

    Args:
        a: The tensors to compare.
        b: The tensors to compare.
        output_data_type: The type of the result.

    Makes DML_OPERATOR_ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL.
    """

def local_response_normalization(
    input: Given[Value],
    cross_channel: bool,
    local_size: int,
    alpha: float = 0.0001,
    beta: float = 0.75,
    bias: float = 1.0,
) -> Value:
    """Divides each element by a power of the sum of the squares around it.

    Args:
        input: {N, C, H, W}.
        cross_channel: True has a window over the channels, false one over H and W.
        local_size: The window's size in each of its dimensions.
        alpha: The factor of the sum; 0.0001 is usual.
        beta: The power; 0.75 is usual.
        bias: Is added before the power is taken; 1 is usual.

    Makes DML_OPERATOR_LOCAL_RESPONSE_NORMALIZATION.
    """

def local_response_normalization_grad(
    input: Given[Value],
    input_gradient: Given[Value],
    cross_channel: bool,
    local_size: int,
    alpha: float = 0.0001,
    beta: float = 0.75,
    bias: float = 1.0,
) -> Value:
    """Computes the gradient of LOCAL_RESPONSE_NORMALIZATION.

    Args:
        input: {N, C, H, W}, the input of the normalization.
        input_gradient: The gradient of the normalization's output.
        cross_channel: True has a window over the channels, false one over H and W.
        local_size: The window's size in each of its dimensions.
        alpha: The factor of the sum; 0.0001 is usual.
        beta: The power; 0.75 is usual.
        bias: Is added before the power is taken; 1 is usual.

    Makes DML_OPERATOR_LOCAL_RESPONSE_NORMALIZATION_GRAD.
    """

def log(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the natural logarithm: `ln(g(x))`; -infinity for 0, NaN below.

    Args:
        input: The tensor to read.
        scale_bias: `g(x) = x * scale + bias`, applied to each element first; g(x) = x without
            it.

    Makes DML_OPERATOR_ELEMENT_WISE_LOG.
    """

def logical_and(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Tells where both elements are true: `a and b`.

    Returns UINT8: 1 where true, 0 elsewhere. `y != 0` is a mask of bool.

    Args:
        a: The truth values.
        b: The truth values.

    Makes DML_OPERATOR_ELEMENT_WISE_LOGICAL_AND.
    """

def logical_not(
    input: Given[Value],
) -> Value:
    """Tells where an element is not true: `x == 0`.

    Returns UINT8: 1 where true, 0 elsewhere. `y != 0` is a mask of bool.

    Args:
        input: The truth values.

    Makes DML_OPERATOR_ELEMENT_WISE_LOGICAL_NOT.
    """

def logical_or(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Tells where at least one of two elements is true: `a or b`.

    Returns UINT8: 1 where true, 0 elsewhere. `y != 0` is a mask of bool.

    Args:
        a: The truth values.
        b: The truth values.

    Makes DML_OPERATOR_ELEMENT_WISE_LOGICAL_OR.
    """

def logical_xor(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Tells where exactly one of two elements is true: `(a != 0) != (b != 0)`.

    Returns UINT8: 1 where true, 0 elsewhere. `y != 0` is a mask of bool.

    Args:
        a: The truth values.
        b: The truth values.

    Makes DML_OPERATOR_ELEMENT_WISE_LOGICAL_XOR.
    """

def lp_normalization(
    input: Given[Value],
    axis: int = -1,
    epsilon: float = 1e-12,
    p: int = 2,
) -> Value:
    """Divides each element by the norm of the elements along an axis.

    Args:
        input: The tensor to read.
        axis: The dimension of the norm.
        epsilon: The least divisor; 0.00001 is usual.
        p: Which norm: 1 or 2.

    Makes DML_OPERATOR_LP_NORMALIZATION.
    """

def lp_pooling(
    input: Given[Value],
    strides: Integers | int,
    window_size: Integers | int,
    start_padding: Integers | int | None = None,
    end_padding: Integers | int | None = None,
    dilations: Integers | int | None = None,
    p: int = 2,
) -> Value:
    """Takes the Lp norm of each window.

    The order of the arguments is DirectMLX's: strides come before the sizes of the window.

    Args:
        input: {N, C, spatial...}, with 2 or 3 spatial dimensions.
        strides: The steps from one window to the next; 1 where there are none.
        window_size: The elements of a window in each spatial dimension.
        start_padding: The elements that padding adds before each spatial dimension.
        end_padding: The elements that padding adds behind each spatial dimension.
        dilations: The steps from one element of a window to the next; 1 where there are none.
        p: 1 for the sum of magnitudes, 2 for the Euclidean norm, and so on.

    Makes DML_OPERATOR_LP_POOLING or DML_OPERATOR_LP_POOLING1.
    """

class LstmOutputs(NamedTuple, Generic[Value]):
    sequence: Value | None
    single: Value | None
    cell_single: Value | None

def lstm(
    input: Given[Value],
    weight: Given[Value],
    recurrence: Given[Value],
    activation_descs: Sequence[FusedActivation | type[Operator] | str] | None = None,
    direction: RecurrentNetworkDirection | _RecurrentNetworkDirection = "FORWARD",
    clip_threshold: float = 0.0,
    use_clip_threshold: bool = False,
    couple_input_forget: bool = False,
    bias: Given[Value] | None = None,
    hidden_init: Given[Value] | None = None,
    cell_mem_init: Given[Value] | None = None,
    sequence_lengths: Given[Value] | None = None,
    peephole: Given[Value] | None = None,
) -> LstmOutputs[Value]:
    """Runs a long short-term memory: gates decide what a cell takes in, forgets and gives out.

    Returns a named tuple of sequence, single, cell_single.

    Args:
        input: The sequences, [1, S, N, I].
        weight: What multiplies the inputs, [1, D, G*K, I] for G gates.
        recurrence: What multiplies the output of the step before, [1, D, G*K, K].
        activation_descs: F, g and h of the forward pass, then of the backward pass.
        direction: FORWARD, BACKWARD, or BIDIRECTIONAL: both passes, forward first.
        clip_threshold: What f and g take is limited to [-clip_threshold, clip_threshold]; 0 or
            more where it is used.
        use_clip_threshold: Whether there is a limit.
        couple_input_forget: Whether the forget gate is `1 - i`.
        bias: What is added, [1, 1, D, 2*G*K]: first beside the weights, then beside the
            recurrences.
        hidden_init: The output before the first step, [1, D, N, K].
        cell_mem_init: The cell before the first step, [1, D, N, K].
        sequence_lengths: The number of steps of each sequence, [1, 1, 1, N].
        peephole: Pi, Po and Pf, [1, 1, D, 3*K].

    Makes DML_OPERATOR_LSTM.
    """

def matrix_multiply_integer(
    a: Given[Value],
    b: Given[Value],
    a_zero_point: Given[Value] | None = None,
    b_zero_point: Given[Value] | None = None,
) -> Value:
    """Multiplies matrices of 8-bit integers to INT32.

    Args:
        a: The left matrices, {.., M, K}: the last two dimensions are a matrix, and the leading
            ones, at most two, count matrices.
        b: The right matrices, {.., K, N}; as many as of `a_tensor`. Functions broadcast both as
            `numpy.matmul` does.
        a_zero_point: The integer that stands for 0 in `a_tensor`, of its type: one, or one for
            each row ({.., 1, M, 1}, or {M}). None is 0.
        b_zero_point: The integer that stands for 0 in `b_tensor`, of its type: one, or one for
            each column ({.., 1, N}). None is 0.

    Makes DML_OPERATOR_MATRIX_MULTIPLY_INTEGER.
    """

def matrix_multiply_integer_to_float(
    a: Given[Value],
    a_scale: Given[Value],
    b: Given[Value],
    b_scale: Given[Value],
    a_zero_point: Given[Value] | None = None,
    b_zero_point: Given[Value] | None = None,
    bias: Given[Value] | None = None,
) -> Value:
    """Multiplies matrices of quantized numbers to floats, and adds a bias.

    Args:
        a: The left matrices, {.., M, K}: the last two dimensions are a matrix, and the leading
            ones, at most two, count matrices.
        a_scale: What a step of the integers stands for, of the output's type; the sizes are
            those of the zero points.
        b: The right matrices, {.., K, N}; as many as of `a_tensor`. Functions broadcast both as
            `numpy.matmul` does.
        b_scale: What a step of the integers stands for, of the output's type; the sizes are
            those of the zero points.
        a_zero_point: The integer that stands for 0 in `a_tensor`, of its type: one, or one for
            each row ({.., 1, M, 1}, or {M}). None is 0.
        b_zero_point: The integer that stands for 0 in `b_tensor`, of its type: one, or one for
            each column ({.., 1, N}). None is 0.
        bias: What is added, of the output's type and sizes; strides of 0 broadcast.

    Makes DML_OPERATOR_MATRIX_MULTIPLY_INTEGER_TO_FLOAT.
    """

def max(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Takes the larger of two elements: `output = max(a, b)`.

    Args:
        a: The tensors to map, of one type and equal sizes; strides of 0 broadcast, and
            functions broadcast as NumPy does.
        b: The tensors to map, of one type and equal sizes; strides of 0 broadcast, and
            functions broadcast as NumPy does.

    Makes DML_OPERATOR_ELEMENT_WISE_MAX.
    """

class MaxPoolingOutputs(NamedTuple, Generic[Value]):
    values: Value
    indices: Value | None

def max_pooling(
    input: Given[Value],
    window_size: Integers | int,
    strides: Integers | int | None = None,
    start_padding: Integers | int | None = None,
    end_padding: Integers | int | None = None,
    dilations: Integers | int | None = None,
    output_indices: bool = False,
    output_sizes: Integers | Sequence[Integers | None] | Mapping[str, Integers] | None = None,
) -> MaxPoolingOutputs[Value]:
    """Finds the largest element of each window.

    Returns a named tuple of values, indices. `.values` is the result alone; the indices are
    UINT32. Without `strides`, windows are 1 apart.

    Args:
        input: {N, C, spatial...}, with 2 or 3 spatial dimensions.
        window_size: The elements of a window in each spatial dimension.
        strides: The steps from one window to the next; 1 where there are none.
        start_padding: The elements that padding adds before each spatial dimension.
        end_padding: The elements that padding adds behind each spatial dimension.
        dilations: The steps from one element of a window to the next; 1 where there are none.
        output_indices: Whether to return where each largest element lies, too.
        output_sizes: The sizes of the result. Of several results: the sizes of the first, a
            list for each result, or a dictionary by field.

    Makes DML_OPERATOR_MAX_POOLING or DML_OPERATOR_MAX_POOLING1 or DML_OPERATOR_MAX_POOLING2.
    """

def max_pooling_grad(
    input: Given[Value],
    input_gradient: Given[Value],
    strides: Integers | int,
    window_size: Integers | int,
    start_padding: Integers | int | None = None,
    end_padding: Integers | int | None = None,
    dilations: Integers | int | None = None,
) -> Value:
    """Computes the gradient of the input of MAX_POOLING2 from that of its output.

    Args:
        input: The input of MAX_POOLING2, {N, C, spatial...}.
        input_gradient: One element for each window.
        strides: The steps from one window to the next; 1 where there are none.
        window_size: The elements of a window in each spatial dimension.
        start_padding: The elements that padding adds before each spatial dimension.
        end_padding: The elements that padding adds behind each spatial dimension.
        dilations: The steps from one element of a window to the next; 1 where there are none.

    Makes DML_OPERATOR_MAX_POOLING_GRAD.
    """

def max_unpooling(
    input: Given[Value],
    indices: Given[Value],
    output_sizes: Integers,
) -> Value:
    """Writes each element at an index of an output that is 0 elsewhere.

    Args:
        input: {N, C, H, W}: the largest elements.
        indices: The indices that MAX_POOLING1 gives, of the input's sizes.
        output_sizes: The sizes of the result. Of several results: the sizes of the first, a
            list for each result, or a dictionary by field.

    Makes DML_OPERATOR_MAX_UNPOOLING.
    """

def mean(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Takes the mean of two elements: `output = (a + b) / 2`.

    Args:
        a: The tensors to map, of one type and equal sizes; strides of 0 broadcast, and
            functions broadcast as NumPy does.
        b: The tensors to map, of one type and equal sizes; strides of 0 broadcast, and
            functions broadcast as NumPy does.

    Makes DML_OPERATOR_ELEMENT_WISE_MEAN.
    """

def mean_variance_normalization(
    input: Given[Value],
    scale: Given[Value] | None = None,
    bias: Given[Value] | None = None,
    axes: Integers | int = (0, 2, 3),
    normalize_variance: bool = True,
    normalize_mean: bool = True,
    epsilon: float = 1e-05,
    fused_activation: FusedActivation | type[Operator] | str | None = None,
) -> Value:
    """Normalizes each image, or each channel of it, by its mean and variance.

    Without axes, the batch and the positions of images (NCHW) have one mean a channel. Layer
    normalization has axes=-1, instance normalization [2, 3].

    Args:
        input: {N, C, H, W}.
        scale: Each size is the input's, or 1, which repeats the element. Below feature level
            5_2, both are given or neither. Functions also take one dimension: of the last axis
            where this alone is normalized, or else {C}.
        bias: Each size is the input's, or 1, which repeats the element. Below feature level
            5_2, both are given or neither. Functions also take one dimension: of the last axis
            where this alone is normalized, or else {C}.
        axes: The dimensions to work along: one or more, each once, in any order.
        normalize_variance: Whether elements are divided by the deviation.
        normalize_mean: Whether the mean is subtracted.
        epsilon: Is added to the variance, so that it is not 0; 0.00001 is usual.
        fused_activation: An activation without tensors, such as `ActivationRelu.fused()`; none
            leaves the result.

    Makes DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION or DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION1 or DML_OPERATOR_MEAN_VARIANCE_NORMALIZATION2.
    """

def min(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Takes the smaller of two elements: `output = min(a, b)`.

    Args:
        a: The tensors to map, of one type and equal sizes; strides of 0 broadcast, and
            functions broadcast as NumPy does.
        b: The tensors to map, of one type and equal sizes; strides of 0 broadcast, and
            functions broadcast as NumPy does.

    Makes DML_OPERATOR_ELEMENT_WISE_MIN.
    """

def modulus_floor(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Takes the remainder of a division downward: `output = a - b * floor(a / b)`.

    Args:
        a: The tensors to map, of one type and equal sizes; strides of 0 broadcast, and
            functions broadcast as NumPy does.
        b: The tensors to map, of one type and equal sizes; strides of 0 broadcast, and
            functions broadcast as NumPy does.

    Makes DML_OPERATOR_ELEMENT_WISE_MODULUS_FLOOR.
    """

def modulus_truncate(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Takes the remainder of a division toward zero: `output = a - b * trunc(a / b)`.

    Args:
        a: The tensors to map, of one type and equal sizes; strides of 0 broadcast, and
            functions broadcast as NumPy does.
        b: The tensors to map, of one type and equal sizes; strides of 0 broadcast, and
            functions broadcast as NumPy does.

    Makes DML_OPERATOR_ELEMENT_WISE_MODULUS_TRUNCATE.
    """

class MultiheadAttentionOutputs(NamedTuple, Generic[Value]):
    output: Value
    present_key: Value | None
    present_value: Value | None

def multihead_attention(
    scale: float | None = None,
    mask_filter_value: float = -10000.0,
    query_head_count: int = ...,
    key_value_head_count: int | None = None,
    mask_type: MultiheadAttentionMaskType | _MultiheadAttentionMaskType | None = None,
    query: Given[Value] | None = None,
    key: Given[Value] | None = None,
    value: Given[Value] | None = None,
    stacked_query_key: Given[Value] | None = None,
    stacked_key_value: Given[Value] | None = None,
    stacked_query_key_value: Given[Value] | None = None,
    bias: Given[Value] | None = None,
    mask: Given[Value] | None = None,
    relative_position_bias: Given[Value] | None = None,
    past_key: Given[Value] | None = None,
    past_value: Given[Value] | None = None,
    past_sequence_lengths: Given[Value] | None = None,
    output_sizes: Integers | Sequence[Integers | None] | Mapping[str, Integers] | None = None,
) -> MultiheadAttentionOutputs[Value]:
    """Weights values by how well each query agrees with their keys, head by head.

    Returns a named tuple of output, present_key, present_value.

    Args:
        scale: Usually 1 / sqrt(D).
        mask_filter_value: A large negative number, usually -10000.
        query_head_count: H, a multiple of N.
        key_value_head_count: N.
        mask_type: How the mask is read. NONE: there is no mask. KEY_SEQUENCE_LENGTH, [B]: the
            number of keys. KEY_SEQUENCE_END_START, [2, B]: behind the last key, then the first
            key. KEY_QUERY_SEQUENCE_LENGTH_START_END, [3*B + 2]: the number of keys, then
            offsets. BOOLEAN, [B, H, S, T]: 0 where the key is hidden.
        query: [B, S, H*D]; this, the keys, values, masks, bias and output may have more
            dimensions of size 1 before these.
        key: [B, L, N*D].
        value: [B, L, N*E].
        stacked_query_key: [B, S, H, 2, D].
        stacked_key_value: [B, L, N, 2, D].
        stacked_query_key_value: [B, S, H, 3, D].
        bias: Is added to queries, keys and values, [H*D + N*D + N*E], in this order.
        mask: What a query may see, as `mask_type` says.
        relative_position_bias: Is added to the scores, [B, H, S, T].
        past_key: Keys before the new ones, [B, N, P, D]; with past_value_tensor only.
        past_value: Values before the new ones, [B, N, P, E].
        past_sequence_lengths: The number of valid past keys, [B].
        output_sizes: The sizes of the result. Of several results: the sizes of the first, a
            list for each result, or a dictionary by field.

    Makes DML_OPERATOR_MULTIHEAD_ATTENTION or DML_OPERATOR_MULTIHEAD_ATTENTION1.
    """

def multiply(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Multiplies the elements of two tensors: `output = a * b`.

    Args:
        a: The tensors to map, of one type and equal sizes; strides of 0 broadcast, and
            functions broadcast as NumPy does.
        b: The tensors to map, of one type and equal sizes; strides of 0 broadcast, and
            functions broadcast as NumPy does.

    Makes DML_OPERATOR_ELEMENT_WISE_MULTIPLY.
    """

def negate(
    input: Given[Value],
) -> Value:
    """Changes the sign: `-x`. Choice: the smallest integer stays itself.

    Args:
        input: The tensor to read.

    Makes DML_OPERATOR_ELEMENT_WISE_NEGATE.
    """

class NonZeroCoordinatesOutputs(NamedTuple, Generic[Value]):
    count: Value  # pyright: ignore[reportIncompatibleMethodOverride]
    coordinates: Value

def non_zero_coordinates(
    input: Given[Value],
) -> NonZeroCoordinatesOutputs[Value]:
    """Finds the elements that are not zero: their number, and the coordinates of each.

    Returns a named tuple of count, coordinates. Both are UINT32.

    Args:
        input: The tensor to read.

    Makes DML_OPERATOR_NONZERO_COORDINATES.
    """

def one_hot(
    indices: Given[Value],
    values: Given[Value],
    output_length: Any,
    axis: int = -1,
) -> Value:
    """Makes lines in which one element differs from the others.

    Args:
        indices: An index for each line; of the size 1 along `axis`.
        values: `off` and `on`, at least; of the output's type.
        output_length: The size of the result along the axis.
        axis: The dimension of a line.

    Makes DML_OPERATOR_ONE_HOT.
    """

def padding(
    input: Given[Value],
    padding_mode: PaddingMode | _PaddingMode = "CONSTANT",
    padding_value: float = 0,
    start_padding: Integers | int = ...,
    end_padding: Integers | int = ...,
) -> Value:
    """Pads a tensor, with a value that is FLOAT whatever the tensor's type.

    Args:
        input: The tensor to read.
        padding_mode: CONSTANT, EDGE, REFLECTION, SYMMETRIC (from feature level 3_0 on) or WRAP
            (from 6_4 on).
        padding_value: The elements that CONSTANT adds; cast to the tensor's type.
        start_padding: The elements before the first one, in each dimension.
        end_padding: The elements after the last one, in each dimension.

    Makes DML_OPERATOR_PADDING or DML_OPERATOR_PADDING1.
    """

def pow(
    input: Given[Value],
    exponent: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Raises each element to one power: `pow(g(x), exponent)`.

    Args:
        input: The tensor to read.
        exponent: The power: an array, or a number, which an array of integers reads as its
            type.
        scale_bias: `g(x) = x * scale + bias`, applied to each element first; g(x) = x without
            it.

    Makes DML_OPERATOR_ELEMENT_WISE_CONSTANT_POW or DML_OPERATOR_ELEMENT_WISE_POW.
    """

def quantize(
    input: Given[Value],
    quantization_parameters: Sequence[Given[Value]],
    quantization_type: QuantizationType | _QuantizationType,
    output_data_type: TensorDataType | _TensorDataType | type[Any] | np.dtype[Any] | None = None,
) -> Value:
    """Quantizes blocks of elements, to 4 or 8 bits.

    Args:
        input: The real numbers.
        quantization_parameters: [scale], or [scale, zero point].
        quantization_type: SCALE, or SCALE_ZERO_POINT.
        output_data_type: The type of the result.

    Makes DML_OPERATOR_QUANTIZE.
    """

def quantize_linear(
    input: Given[Value],
    scale: Given[Value],
    zero_point: Given[Value] | None = None,
    output_data_type: TensorDataType | _TensorDataType | type[Any] | np.dtype[Any] = "UINT8",
) -> Value:
    """Quantizes each element with a scale and a zero point of its own.

    Args:
        input: The real numbers.
        scale: What a step of the integer stands for; FLOAT32 for an input of INT32. Functions
            broadcast it, and the zero point.
        zero_point: The integer that stands for 0, of the output's type. It may be left out from
            feature level 6_2 on.
        output_data_type: The type of the result.

    Makes DML_OPERATOR_ELEMENT_WISE_QUANTIZE_LINEAR.
    """

def quantized_linear_add(
    a: Given[Value],
    a_scale: Given[Value],
    b: Given[Value],
    b_scale: Given[Value],
    output_scale: Given[Value],
    a_zero_point: Given[Value] | None = None,
    b_zero_point: Given[Value] | None = None,
    output_zero_point: Given[Value] | None = None,
) -> Value:
    """Adds two quantized tensors, and quantizes the sum.

    Args:
        a: The integers to add.
        a_scale: What a step stands for, of one element.
        b: The integers to add.
        b_scale: What a step stands for, of one element.
        output_scale: What a step stands for, of one element.
        a_zero_point: The integer that stands for 0, of one element.
        b_zero_point: The integer that stands for 0, of one element.
        output_zero_point: The integer that stands for 0, of one element.

    Makes DML_OPERATOR_ELEMENT_WISE_QUANTIZED_LINEAR_ADD.
    """

def quantized_linear_average_pooling(
    input: Given[Value],
    input_scale: Given[Value],
    output_scale: Given[Value],
    strides: Integers | int,
    window_size: Integers | int,
    start_padding: Integers | int | None = None,
    end_padding: Integers | int | None = None,
    dilations: Integers | int | None = None,
    include_padding: bool = False,
    input_zero_point: Given[Value] | None = None,
    output_zero_point: Given[Value] | None = None,
) -> Value:
    """Averages the quantized elements of each window, and quantizes the mean.

    Args:
        input: {N, C, spatial...}, with 2 or 3 spatial dimensions.
        input_scale: What a step of the integers stands for: of one element, or one for each
            channel.
        output_scale: What a step of the integers stands for: of one element, or one for each
            channel.
        strides: The steps from one window to the next; 1 where there are none.
        window_size: The elements of a window in each spatial dimension.
        start_padding: The elements that padding adds before each spatial dimension.
        end_padding: The elements that padding adds behind each spatial dimension.
        dilations: The steps from one element of a window to the next; 1 where there are none.
        include_padding: Whether a sum is divided by the number of all elements of the window;
            else by the number of those in the input.
        input_zero_point: The integer that stands for 0: of one element, or one for each
            channel.
        output_zero_point: The integer that stands for 0: of one element, or one for each
            channel.

    Makes DML_OPERATOR_QUANTIZED_LINEAR_AVERAGE_POOLING.
    """

def quantized_linear_convolution(
    input: Given[Value],
    input_scale: Given[Value],
    input_zero_point: Given[Value] | None,
    filter: Given[Value],
    filter_scale: Given[Value],
    filter_zero_point: Given[Value] | None,
    bias: Given[Value] | None,
    output_scale: Given[Value],
    output_zero_point: Given[Value] | None,
    output_data_type: TensorDataType | _TensorDataType | type[Any] | np.dtype[Any],
    strides: Integers | int | None = None,
    dilations: Integers | int | None = None,
    start_padding: Integers | int | None = None,
    end_padding: Integers | int | None = None,
    group_count: int = 1,
    output_sizes: Integers | None = None,
) -> Value:
    """Convolves two quantized tensors, and quantizes the result.

    Args:
        input: {N, C, spatial...}, with 1, 2 or 3 spatial dimensions.
        input_scale: What a step of the integers stands for; of one element, the filter's also
            one for each output channel.
        input_zero_point: The integer that stands for 0; of the sizes of the scales.
        filter: {output channels, C / group_count, spatial...}.
        filter_scale: What a step of the integers stands for; of one element, the filter's also
            one for each output channel.
        filter_zero_point: The integer that stands for 0; of the sizes of the scales.
        bias: {1, output channels, 1...}; functions also take {output channels}.
        output_scale: What a step of the integers stands for; of one element, the filter's also
            one for each output channel.
        output_zero_point: The integer that stands for 0; of the sizes of the scales.
        output_data_type: The type of the result.
        strides: The steps from one window to the next; 1 where there are none.
        dilations: The steps from one element of a window to the next; 1 where there are none.
        start_padding: The elements that padding adds before each spatial dimension.
        end_padding: The elements that padding adds behind each spatial dimension.
        group_count: In how many groups of channels the convolution is done, each by itself; as
            many as channels is a depthwise convolution.
        output_sizes: The sizes of the result. Of several results: the sizes of the first, a
            list for each result, or a dictionary by field.

    Makes DML_OPERATOR_QUANTIZED_LINEAR_CONVOLUTION.
    """

def quantized_linear_matrix_multiply(
    a: Given[Value],
    a_scale: Given[Value],
    b: Given[Value],
    b_scale: Given[Value],
    output_scale: Given[Value],
    a_zero_point: Given[Value] | None = None,
    b_zero_point: Given[Value] | None = None,
    output_zero_point: Given[Value] | None = None,
) -> Value:
    """Multiplies matrices of quantized numbers, and quantizes the product.

    Args:
        a: The left matrices, {.., M, K}: the last two dimensions are a matrix, and the leading
            ones, at most two, count matrices.
        a_scale: What a step of the integers stands for; the sizes are those of the zero points.
        b: The right matrices, {.., K, N}; as many as of `a_tensor`. Functions broadcast both as
            `numpy.matmul` does.
        b_scale: What a step of the integers stands for; the sizes are those of the zero points.
        output_scale: What a step of the output stands for: one number, or one for each row.
        a_zero_point: The integer that stands for 0 in `a_tensor`, of its type: one, or one for
            each row ({.., 1, M, 1}, or {M}). None is 0.
        b_zero_point: The integer that stands for 0 in `b_tensor`, of its type: one, or one for
            each column ({.., 1, N}). None is 0.
        output_zero_point: The integer that stands for 0 in the output, of its type; None is 0.

    Makes DML_OPERATOR_QUANTIZED_LINEAR_MATRIX_MULTIPLY.
    """

class RandomGeneratorOutputs(NamedTuple, Generic[Value]):
    values: Value
    state: Value | None

def random_generator(
    input_state: Given[Value],
    output_sizes: Integers | Sequence[Integers | None] | Mapping[str, Integers],
    output_state: bool = True,
    type: RandomGeneratorType | _RandomGeneratorType = "PHILOX_4X32_10",
) -> RandomGeneratorOutputs[Value]:
    """Makes random UINT32 numbers, evenly distributed, from a counter and a key.

    Returns a named tuple of values, state.

    Args:
        input_state: [1, ..., 1, 6]: four words of counter and two of key.
        output_sizes: The sizes of the result. Of several results: the sizes of the first, a
            list for each result, or a dictionary by field.
        output_state: Whether to return the generator's next state, too.
        type: The algorithm. One of PHILOX_4X32_10.

    Makes DML_OPERATOR_RANDOM_GENERATOR.
    """

def recip(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the reciprocal: `1 / g(x)`; infinity of its sign for 0.

    Args:
        input: The tensor to read.
        scale_bias: `g(x) = x * scale + bias`, applied to each element first; g(x) = x without
            it.

    Makes DML_OPERATOR_ELEMENT_WISE_RECIP.
    """

def reduce(
    input: Given[Value],
    function: ReduceFunction | _ReduceFunction,
    axes: Integers | int | None = None,
    output_data_type: TensorDataType | _TensorDataType | type[Any] | np.dtype[Any] | None = None,
) -> Value:
    """Combines the elements along `axes` into one; the rank is kept.

    Args:
        input: The tensor to read.
        function: What to compute. One of ARGMAX, ARGMIN, AVERAGE, L1, L2, LOG_SUM, LOG_SUM_EXP,
            MAX, MIN, MULTIPLY, SUM, SUM_SQUARE.
        axes: The dimensions to reduce: one or more, each once, in any order. Functions reduce
            all where the list is empty or left out.
        output_data_type: The type of the result.

    Makes DML_OPERATOR_REDUCE.
    """

def resample(
    input: Given[Value],
    output_sizes: Integers | None = None,
    mode: InterpolationMode | _InterpolationMode = ...,
    rounding_direction: AxisDirection | _AxisDirection = "INCREASING",
    scales: Sequence[float] | None = None,
    input_pixel_offsets: Sequence[float] | None = None,
    output_pixel_offsets: Sequence[float] | None = None,
    antialiased: bool = False,
) -> Value:
    """Resamples a tensor between the centres of its elements.

    Where it shrinks, it reads single elements unless it is `antialiased`; `jax.image.resize`
    smooths.

    Args:
        input: The tensor to read.
        output_sizes: The sizes of the result. Of several results: the sizes of the first, a
            list for each result, or a dictionary by field.
        mode: NEAREST_NEIGHBOR or LINEAR.
        rounding_direction: The element that NEAREST_NEIGHBOR reads: INCREASING is `ceil(x)`,
            DECREASING is `floor(x)`. LINEAR does not use it. The function takes None for the
            nearest element, which `jax.image.resize` reads too.
        scales: The factor of each dimension; above 1 there are more elements.
        input_pixel_offsets: The place within an element, of each dimension: 0.5 is its centre.
        output_pixel_offsets: The place within an element of the output, negative: -0.5 is its
            centre.
        antialiased: Whether LINEAR averages more elements where the scale is below 1.

    Makes DML_OPERATOR_RESAMPLE or DML_OPERATOR_RESAMPLE1 or DML_OPERATOR_RESAMPLE2 or DML_OPERATOR_RESAMPLE3.
    """

def resample_grad(
    input: Given[Value],
    output_sizes: Integers,
    mode: InterpolationMode | _InterpolationMode,
    scales: Sequence[float] | None = None,
    input_pixel_offsets: Sequence[float] | None = None,
    output_pixel_offsets: Sequence[float] | None = None,
    rounding_direction: AxisDirection | _AxisDirection | None = None,
) -> Value:
    """Computes the gradient of RESAMPLE1, given the gradient of its output.

    Args:
        input: The gradient of the resampled tensor.
        output_sizes: The sizes of the result. Of several results: the sizes of the first, a
            list for each result, or a dictionary by field.
        mode: NEAREST_NEIGHBOR or LINEAR.
        scales: The factor of each dimension; above 1 there are more elements.
        input_pixel_offsets: The place within an element, of each dimension: 0.5 is its centre.
        output_pixel_offsets: The place within an element of the output, negative: -0.5 is its
            centre.
        rounding_direction: The element that NEAREST_NEIGHBOR reads: INCREASING is `ceil(x)`,
            DECREASING is `floor(x)`. LINEAR does not use it. The function takes None for the
            nearest element, which `jax.image.resize` reads too.

    Makes DML_OPERATOR_RESAMPLE_GRAD or DML_OPERATOR_RESAMPLE_GRAD1.
    """

def reverse_subsequences(
    input: Given[Value],
    sequence_lengths: Given[Value],
    axis: int,
) -> Value:
    """Reverses the first elements of each line along an axis.

    Args:
        input: The tensor to read.
        sequence_lengths: The length of each line; of the size 1 along `axis`.
        axis: The dimension to work along, in [0, rank - 1].

    Makes DML_OPERATOR_REVERSE_SUBSEQUENCES.
    """

class RnnOutputs(NamedTuple, Generic[Value]):
    sequence: Value | None
    single: Value | None

def rnn(
    input: Given[Value],
    weight: Given[Value],
    recurrence: Given[Value],
    activation_descs: Sequence[FusedActivation | type[Operator] | str] | None = None,
    direction: RecurrentNetworkDirection | _RecurrentNetworkDirection = "FORWARD",
    bias: Given[Value] | None = None,
    hidden_init: Given[Value] | None = None,
    sequence_lengths: Given[Value] | None = None,
) -> RnnOutputs[Value]:
    """Runs a simple recurrent network: each step activates a sum of its input and its last output.

    Returns a named tuple of sequence, single.

    Args:
        input: The sequences, [1, S, N, I].
        weight: What multiplies the inputs, [1, D, G*K, I] for G gates.
        recurrence: What multiplies the output of the step before, [1, D, G*K, K].
        activation_descs: F of the forward pass, then f of the backward pass.
        direction: FORWARD, BACKWARD, or BIDIRECTIONAL: both passes, forward first.
        bias: What is added, [1, 1, D, 2*G*K]: first beside the weights, then beside the
            recurrences.
        hidden_init: The output before the first step, [1, D, N, K].
        sequence_lengths: The number of steps of each sequence, [1, 1, 1, N].

    Makes DML_OPERATOR_RNN.
    """

def roi_align(
    input: Given[Value],
    roi: Given[Value],
    batch_indices: Given[Value],
    reduction_function: ReduceFunction | _ReduceFunction = "AVERAGE",
    interpolation_mode: InterpolationMode | _InterpolationMode = "LINEAR",
    spatial_scale_x: float = 1.0,
    spatial_scale_y: float | None = None,
    input_pixel_offset: float = 0.5,
    output_pixel_offset: float = -0.5,
    out_of_bounds_input_value: float = 0.0,
    minimum_samples_per_output: int = 1,
    maximum_samples_per_output: int = 4294967295,
    align_regions_to_corners: bool = False,
    output_height: Any = 1,
    output_width: Any = 1,
) -> Value:
    """Samples each region of a picture, at the centres of a grid.

    Args:
        input: The pictures, [N, C, H, W].
        roi: A region each row, [..., R, 4]: left, top, right and bottom.
        batch_indices: The picture of each region, [..., R].
        reduction_function: AVERAGE or MAX.
        interpolation_mode: NEAREST_NEIGHBOR or LINEAR.
        spatial_scale_x: The factor of the x coordinates of regions.
        spatial_scale_y: The factor of the y coordinates of regions.
        input_pixel_offset: What is subtracted from the place of a sample.
        output_pixel_offset: What is subtracted from the number of a sample.
        out_of_bounds_input_value: The value of samples outside.
        minimum_samples_per_output: The smallest number of samples along each axis, at least 1.
        maximum_samples_per_output: The largest number of samples along each axis.
        align_regions_to_corners: Whether the first and the last sample lie on the corners of
            the region: the distance of samples is `(x2 - x1) / max(n * width - 1, 1)` then, as
            TensorFlow has it.
        output_height: The height of each region in the result.
        output_width: The width of each region in the result.

    Makes DML_OPERATOR_ROI_ALIGN or DML_OPERATOR_ROI_ALIGN1.
    """

class RoiAlignGradOutputs(NamedTuple, Generic[Value]):
    output_gradient: Value | None
    output_roi_gradient: Value | None

def roi_align_grad(
    input: Given[Value] | None,
    input_gradient: Given[Value],
    roi: Given[Value],
    batch_indices: Given[Value],
    reduction_function: ReduceFunction | _ReduceFunction,
    interpolation_mode: InterpolationMode | _InterpolationMode,
    spatial_scale_x: float,
    spatial_scale_y: float,
    input_pixel_offset: float,
    output_pixel_offset: float,
    minimum_samples_per_output: int,
    maximum_samples_per_output: int,
    align_regions_to_corners: bool,
    batch_size: Any,
    image_height: Any,
    image_width: Any,
    compute_output_gradient: Any,
    compute_output_roi_gradient: Any,
) -> RoiAlignGradOutputs[Value]:
    """Computes the gradients of ROI_ALIGN1, given the gradient of its output.

    Returns a named tuple of output_gradient, output_roi_gradient.

    Args:
        input: The pictures, [N, C, H, W]. AVERAGE without `output_roi_gradient_tensor` can do
            without them.
        input_gradient: The gradient of the samples, [R, C, height, width].
        roi: A region each row, [..., R, 4]: left, top, right and bottom.
        batch_indices: The picture of each region, [..., R].
        reduction_function: AVERAGE or MAX.
        interpolation_mode: NEAREST_NEIGHBOR or LINEAR.
        spatial_scale_x: The factor of the x coordinates of regions.
        spatial_scale_y: The factor of the y coordinates of regions.
        input_pixel_offset: What is subtracted from the place of a sample.
        output_pixel_offset: What is subtracted from the number of a sample.
        minimum_samples_per_output: The smallest number of samples along each axis, at least 1.
        maximum_samples_per_output: The largest number of samples along each axis.
        align_regions_to_corners: Whether the first and the last sample lie on the corners of
            the region: the distance of samples is `(x2 - x1) / max(n * width - 1, 1)` then, as
            TensorFlow has it.
        batch_size: The number of images.
        image_height: The height of the images.
        image_width: The width of the images.
        compute_output_gradient: Whether to return the gradient of the input.
        compute_output_roi_gradient: Whether to return the gradient of the regions.

    Makes DML_OPERATOR_ROI_ALIGN_GRAD.
    """

def roi_pooling(
    input: Given[Value],
    roi: Given[Value],
    spatial_scale: float,
    pooled_size: Size2D,
) -> Value:
    """Pools each region of a picture to a fixed size, by the largest element.

    Args:
        input: The pictures, [N, C, H, W].
        roi: A region each row, [1, 1, R, 5]: its picture, left, top, right and bottom.
        spatial_scale: The factor of the coordinates.
        pooled_size: The width and the height of the output.

    Makes DML_OPERATOR_ROI_POOLING.
    """

def round(
    input: Given[Value],
    rounding_mode: RoundingMode | _RoundingMode = "HALVES_TO_NEAREST_EVEN",
) -> Value:
    """Rounds each element to a whole number of the same type.

    Args:
        input: The tensor to read.
        rounding_mode: What becomes of fractions. HALVES_TO_NEAREST_EVEN: 0.5 gives 0, 1.5 gives
            2; TOWARD_ZERO: the fraction is dropped; TOWARD_INFINITY: the nearest number, of
            halves the one away from zero.

    Makes DML_OPERATOR_ELEMENT_WISE_ROUND.
    """

def scatter_elements(
    input: Given[Value],
    indices: Given[Value],
    updates: Given[Value],
    axis: int = 0,
) -> Value:
    """Writes one element for each index, into the index's own line along an axis.

    Args:
        input: The tensor to read.
        indices: The indices; of the input's sizes, but along `axis`.
        updates: The elements to write; of the indices' sizes.
        axis: The dimension of the output that indices name.

    Makes DML_OPERATOR_SCATTER.
    """

def scatter_nd(
    input: Given[Value],
    indices: Given[Value],
    updates: Given[Value],
    input_dimension_count: int | None = None,
    indices_dimension_count: int | None = None,
) -> Value:
    """Writes slices, each at a list of indices.

    Without the two counts all dimensions count.

    Args:
        input: The tensor to read.
        indices: Indices of elements.
        updates: The slices to write.
        input_dimension_count: The number of the input's dimensions, from the last one, that
            count; those before have the size 1.
        indices_dimension_count: The number of dimensions of the indices, from the last one,
            that count; those before have the size 1.

    Makes DML_OPERATOR_SCATTER_ND.
    """

def sign(
    a: Given[Value],
) -> Value:
    """Takes the sign: `1 if x > 0 else -1 if x < 0 else 0`; NaN gives 0.

    Args:
        a: The tensor to read.

    Makes DML_OPERATOR_ELEMENT_WISE_SIGN.
    """

def sin(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the sine of radians: `sin(g(x))`; NaN for infinities.

    Args:
        input: The tensor to read.
        scale_bias: `g(x) = x * scale + bias`, applied to each element first; g(x) = x without
            it.

    Makes DML_OPERATOR_ELEMENT_WISE_SIN.
    """

def sinh(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the hyperbolic sine: `sinh(g(x))`.

    Args:
        input: The tensor to read.
        scale_bias: `g(x) = x * scale + bias`, applied to each element first; g(x) = x without
            it.

    Makes DML_OPERATOR_ELEMENT_WISE_SINH.
    """

def slice(
    input: Given[Value],
    input_window_offsets: Integers | int,
    input_window_sizes: Integers | int,
    input_window_strides: Integers | int | None = None,
) -> Value:
    """Cuts a part out of a tensor, with strides.

    Args:
        input: The tensor to read.
        input_window_offsets: The first index of the window, in each dimension.
        input_window_sizes: The number of elements that the window spans, in each dimension.
        input_window_strides: The step from one element to the next, in each dimension; not 0. A
            negative one begins at the window's end.

    Makes DML_OPERATOR_SLICE or DML_OPERATOR_SLICE1.
    """

def slice_grad(
    input_gradient: Given[Value],
    output_gradient_sizes: Integers,
    input_window_offsets: Integers | int,
    input_window_sizes: Integers | int,
    input_window_strides: Integers | int | None = None,
) -> Value:
    """Computes the gradient of SLICE1, given the gradient of its output.

    Args:
        input_gradient: The gradient of the part that SLICE1 cut out.
        output_gradient_sizes: The sizes of the input that was sliced.
        input_window_offsets: The first index of the window, in each dimension.
        input_window_sizes: The number of elements that the window spans, in each dimension.
        input_window_strides: The step from one element to the next, in each dimension; not 0. A
            negative one begins at the window's end.

    Makes DML_OPERATOR_SLICE_GRAD.
    """

def space_to_depth(
    input: Given[Value],
    block_size: int,
    order: DepthSpaceOrder | _DepthSpaceOrder = "DEPTH_COLUMN_ROW",
) -> Value:
    """Moves blocks of pixels into channels; the inverse of DEPTH_TO_SPACE.

    Args:
        input: [N, C, H * B, W * B].
        block_size: The side of a block in pixels.
        order: How a pixel's channels are numbered. One of DEPTH_COLUMN_ROW, COLUMN_ROW_DEPTH.

    Makes DML_OPERATOR_SPACE_TO_DEPTH or DML_OPERATOR_SPACE_TO_DEPTH1.
    """

def split(
    input: Given[Value],
    axis: int,
    output_axis_sizes: Integers,
) -> tuple[Value, ...]:
    """Splits a tensor along an axis into several.

    Args:
        input: The tensor to read.
        axis: The dimension to work along, in [0, rank - 1].
        output_axis_sizes: The size of each piece along the axis.

    Makes DML_OPERATOR_SPLIT.
    """

def sqrt(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the square root of each element: `sqrt(g(x))`; NaN below 0.

    Args:
        input: The tensor to read.
        scale_bias: `g(x) = x * scale + bias`, applied to each element first; g(x) = x without
            it.

    Makes DML_OPERATOR_ELEMENT_WISE_SQRT.
    """

def subtract(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Subtracts the elements of a tensor from those of another: `output = a - b`.

    Args:
        a: The tensors to map, of one type and equal sizes; strides of 0 broadcast, and
            functions broadcast as NumPy does.
        b: The tensors to map, of one type and equal sizes; strides of 0 broadcast, and
            functions broadcast as NumPy does.

    Makes DML_OPERATOR_ELEMENT_WISE_SUBTRACT.
    """

def tan(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the tangent of radians: `tan(g(x))`; NaN for infinities.

    Args:
        input: The tensor to read.
        scale_bias: `g(x) = x * scale + bias`, applied to each element first; g(x) = x without
            it.

    Makes DML_OPERATOR_ELEMENT_WISE_TAN.
    """

def tanh(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the hyperbolic tangent: `tanh(g(x))`.

    Args:
        input: The tensor to read.
        scale_bias: `g(x) = x * scale + bias`, applied to each element first; g(x) = x without
            it.

    Makes DML_OPERATOR_ELEMENT_WISE_TANH.
    """

def threshold(
    input: Given[Value],
    min: float,
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Raises smaller elements to a bound: `max(g(x), min)`.

    Args:
        input: The tensor to read.
        min: The bound, FLOAT whatever the tensor's type.
        scale_bias: `g(x) = x * scale + bias`, applied to each element first; g(x) = x without
            it.

    Makes DML_OPERATOR_ELEMENT_WISE_THRESHOLD.
    """

def tile(
    input: Given[Value],
    repeats: Integers | int,
) -> Value:
    """Repeats a tensor along each dimension.

    Args:
        input: The tensor to read.
        repeats: How often the whole is repeated in each dimension; at least 1. The output has
            at most 2^32 - 1 elements, as every tensor.

    Makes DML_OPERATOR_TILE.
    """

class TopKOutputs(NamedTuple, Generic[Value]):
    value: Value
    index: Value  # pyright: ignore[reportIncompatibleMethodOverride]

def top_k(
    input: Given[Value],
    axis: int = -1,
    k: int = ...,
    axis_direction: AxisDirection | _AxisDirection = "DECREASING",
) -> TopKOutputs[Value]:
    """Takes the largest elements of each line along an axis, the largest first, and their indices.

    Returns a named tuple of value, index. The indices are UINT32: cast them before a
    subtraction.

    Args:
        input: The tensor to read.
        axis: The dimension of the lines.
        k: How many elements of each line to take.
        axis_direction: INCREASING takes the smallest elements, the smallest first; DECREASING
            the largest.

    Makes DML_OPERATOR_TOP_K or DML_OPERATOR_TOP_K1.
    """

def unfold(
    input: Given[Value],
    window_sizes: Integers | int,
    strides: Integers | int | None = None,
    dilations: Integers | int | None = None,
    start_padding: Integers | int | None = None,
    end_padding: Integers | int | None = None,
) -> Value:
    """Copies the elements of each window into one column.

    Args:
        input: {N, C, spatial...}.
        window_sizes: The elements of a window in each spatial dimension.
        strides: The steps from one window to the next; 1 where there are none.
        dilations: The steps from one element of a window to the next; 1 where there are none.
        start_padding: The elements that padding adds before each spatial dimension.
        end_padding: The elements that padding adds behind each spatial dimension.

    Makes DML_OPERATOR_UNFOLD.
    """

def upsample_2d(
    input: Given[Value],
    scale_size: Size2D,
    interpolation_mode: InterpolationMode | _InterpolationMode = "NEAREST_NEIGHBOR",
) -> Value:
    """Enlarges the last two dimensions by whole factors.

    Args:
        input: The tensor to read.
        scale_size: The factors of the last two dimensions, as Size2D(width=2, height=3).
        interpolation_mode: NEAREST_NEIGHBOR or LINEAR.

    Makes DML_OPERATOR_UPSAMPLE_2D.
    """

def value_scale_2d(
    input: Given[Value],
    scale: float,
    bias: Sequence[float],
) -> Value:
    """Scales all elements, and adds one number to each channel: `x * scale + bias[channel]`.

    Args:
        input: Images, {N, C, H, W}, with 1 or 3 channels.
        scale: The factor.
        bias: One FLOAT for each channel.

    Makes DML_OPERATOR_VALUE_SCALE_2D.
    """

"""Operators as functions of arrays and expressions. Made by tools/stubs.py."""

from collections.abc import Mapping, Sequence
from typing import Any, Generic, NamedTuple, overload

import jax
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
    """Takes the absolute value: `|g(x)|`. Choice: that of the smallest integer is itself."""

def acos(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the arc cosine, in radians: `acos(g(x))`; NaN beyond -1 and 1."""

def acosh(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the inverse hyperbolic cosine: `acosh(g(x))`; NaN below 1."""

def activation_celu(
    input: Given[Value],
    alpha: float = 1.0,
) -> Value:
    """Bends negative elements smoothly: `max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`."""

def activation_elu(
    input: Given[Value],
    alpha: float = 1.0,
) -> Value:
    """Bends negative elements to an exponential: `x if x >= 0 else alpha * (exp(x) - 1)`."""

def activation_gelu(
    input: Given[Value],
) -> Value:
    """Weights each element by the normal distribution: `0.5 * x * (1 + erf(x / sqrt(2)))`."""

def activation_hard_sigmoid(
    input: Given[Value],
    alpha: float = 0.2,
    beta: float = 0.5,
) -> Value:
    """Approximates a sigmoid by three lines: `max(0, min(alpha * x + beta, 1))`."""

def activation_hard_swish(
    input: Given[Value],
    alpha: float,
    beta: float,
) -> Value:
    """Weights each element by its hard sigmoid: `x * max(0, min(alpha * x + beta, 1))`."""

def activation_hardmax(
    input: Given[Value],
    axes: Integers | int | None = None,
) -> Value:
    """Puts 1 at the first maximum of each row, and 0 elsewhere."""

def activation_identity(
    input: Given[Value],
) -> Value:
    """Copies each element: `x`."""

def activation_leaky_relu(
    input: Given[Value],
    alpha: float = 0.01,
) -> Value:
    """Scales negative elements: `x if x >= 0 else alpha * x`."""

def activation_linear(
    input: Given[Value],
    alpha: float,
    beta: float,
) -> Value:
    """Maps each element linearly: `alpha * x + beta`."""

def activation_log_softmax(
    input: Given[Value],
    axes: Integers | int | None = None,
) -> Value:
    """Takes the logarithm of SOFTMAX of each row."""

def activation_parameterized_relu(
    input: Given[Value],
    slope: Given[Value],
) -> Value:
    """Scales each negative element by a slope of its own: `x if x >= 0 else slope * x`."""

def activation_parametric_softplus(
    input: Given[Value],
    alpha: float,
    beta: float,
) -> Value:
    """Takes a scaled soft maximum with 0: `alpha * ln(1 + exp(beta * x))`."""

def activation_relu(
    input: Given[Value],
) -> Value:
    """Sets negative elements to 0: `max(0, x)`."""

def activation_relu_grad(
    input: Given[Value],
    input_gradient: Given[Value],
) -> Value:
    """Passes the gradient where the input of ACTIVATION_RELU is above 0."""

def activation_scaled_elu(
    input: Given[Value],
    alpha: float = 1.6732631921768188,
    gamma: float = 1.0507010221481323,
) -> Value:
    """Scales an ELU: `gamma * x if x > 0 else gamma * alpha * (exp(x) - 1)`."""

def activation_scaled_tanh(
    input: Given[Value],
    alpha: float = 1.0,
    beta: float = 0.5,
) -> Value:
    """Scales a hyperbolic tangent: `alpha * tanh(beta * x)`."""

def activation_shrink(
    input: Given[Value],
    bias: float = 0.0,
    threshold: float = 0.5,
) -> Value:
    """Moves large elements toward 0, and sets small ones to 0."""

def activation_sigmoid(
    input: Given[Value],
) -> Value:
    """Maps each element to a number between 0 and 1: `1 / (1 + exp(-x))`."""

def activation_softmax(
    input: Given[Value],
    axes: Integers | int | None = None,
) -> Value:
    """Turns the elements of each row into positive numbers that add up to 1."""

def activation_softplus(
    input: Given[Value],
    steepness: float = 1.0,
) -> Value:
    """Takes a soft maximum with 0: `ln(1 + exp(steepness * x)) / steepness`."""

def activation_softsign(
    input: Given[Value],
) -> Value:
    """Maps each element to a number between -1 and 1: `x / (1 + |x|)`."""

def activation_swish(
    input: Given[Value],
    sigmoid_input_scale: float,
) -> Value:
    """Weights each element by its sigmoid: `x / (1 + exp(-sigmoid_input_scale * x))`."""

def activation_tanh(
    input: Given[Value],
) -> Value:
    """Takes the hyperbolic tangent of each element: `tanh(x)`."""

def activation_thresholded_relu(
    input: Given[Value],
    alpha: float = 1.0,
) -> Value:
    """Sets elements up to a threshold to 0: `x if x > alpha else 0`; NaN gives 0."""

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
    beta1: float,
    beta2: float,
    epsilon: float,
) -> AdamOptimizerOutputs[Value]:
    """Updates parameters by their gradient, as the optimizer Adam does."""

def add(
    a: Given[Value],
    b: Given[Value],
    fused_activation: FusedActivation | type[Operator] | None = None,
) -> Value:
    """Adds the elements of two tensors: `output = a + b`."""

def argmax(
    input: Given[Value],
    axes: Integers | int | None = None,
    axis_direction: AxisDirection | str = "INCREASING",
    output_data_type: TensorDataType | str = "UINT32",
) -> Value:
    """The index of the largest element along `axes`; the rank is kept."""

def argmin(
    input: Given[Value],
    axes: Integers | int | None = None,
    axis_direction: AxisDirection | str = "INCREASING",
    output_data_type: TensorDataType | str = "UINT32",
) -> Value:
    """The index of the smallest element along `axes`; otherwise as ARGMAX."""

def asin(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the arc sine, in radians: `asin(g(x))`; NaN beyond -1 and 1."""

def asinh(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the inverse hyperbolic sine: `asinh(g(x))`."""

def atan(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the arc tangent, in radians: `atan(g(x))`."""

def atan_yx(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Takes the angle in radians of the point whose y is `a` and whose x is `b`."""

def atanh(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the inverse hyperbolic tangent: `atanh(g(x))`; NaN beyond -1 and 1."""

def average_pooling(
    input: Given[Value],
    strides: Integers | int,
    window_sizes: Integers | int,
    start_padding: Integers | int,
    end_padding: Integers | int,
    dilations: Integers | int,
    include_padding: bool,
    output_sizes: Integers | None = None,
) -> Value:
    """Averages the elements of each window."""

def average_pooling_grad(
    input_gradient: Given[Value],
    strides: Integers | int,
    window_size: Integers | int,
    start_padding: Integers | int,
    end_padding: Integers | int,
    include_padding: bool,
    output_sizes: Integers | None = None,
) -> Value:
    """Computes the gradient of the input of AVERAGE_POOLING from that of its output."""

def batch_normalization(
    input: Given[Value],
    mean: Given[Value],
    variance: Given[Value],
    scale: Given[Value],
    bias: Given[Value],
    spatial: bool,
    epsilon: float,
    fused_activation: FusedActivation | type[Operator] | None = None,
) -> Value:
    """Normalizes elements by a mean and a variance that it is given."""

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
    epsilon: float,
) -> BatchNormalizationGradOutputs[Value]:
    """Computes the gradients of BATCH_NORMALIZATION, whose mean and variance are constants."""

class BatchNormalizationTrainingOutputs(NamedTuple, Generic[Value]):
    output: Value
    mean: Value
    variance: Value

def batch_normalization_training(
    input: Given[Value],
    scale: Given[Value],
    bias: Given[Value],
    fused_add: Given[Value] | None,
    epsilon: float,
    fused_activation: FusedActivation | type[Operator] | None = None,
) -> BatchNormalizationTrainingOutputs[Value]:
    """Normalizes elements by their own mean and variance."""

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
    epsilon: float,
) -> BatchNormalizationTrainingGradOutputs[Value]:
    """Computes the gradients of BATCH_NORMALIZATION_TRAINING, whose statistics are the input's."""

def bit_and(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Sets the bits that are 1 in both elements: `a & b`."""

def bit_count(
    a: Given[Value],
    output_data_type: TensorDataType | str = "UINT8",
) -> Value:
    """Counts the bits of each element that are 1."""

def bit_not(
    a: Given[Value],
) -> Value:
    """Inverts every bit of each element: `~x`."""

def bit_or(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Sets the bits that are 1 in at least one of two elements: `a | b`."""

def bit_shift_left(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Shifts bits toward the highest: `a << b`, modulo 2^n for n bits."""

def bit_shift_right(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Shifts bits toward the lowest: `a >> b`."""

def bit_xor(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Sets the bits that differ between two elements: `a ^ b`."""

def cast(
    input: Given[Value],
    target_data_type: TensorDataType | str,
) -> Value:
    """Converts each element to the type of the output."""

def ceil(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the smallest whole number that is not below: `ceil(g(x))`."""

def clip(
    input: Given[Value],
    min: float,
    max: float,
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Clamps each element to [min, max]."""

def clip_grad(
    input: Given[Value],
    input_gradient: Given[Value],
    min: float,
    max: float,
) -> Value:
    """The gradient of ELEMENT_WISE_CLIP, given that of its output."""

def convolution(
    input: Given[Value],
    filter: Given[Value],
    bias: Given[Value] | None = None,
    mode: ConvolutionMode | str = "CROSS_CORRELATION",
    direction: ConvolutionDirection | str = "FORWARD",
    strides: Integers | int | None = None,
    dilations: Integers | int | None = None,
    start_padding: Integers | int | None = None,
    end_padding: Integers | int | None = None,
    output_padding: Integers | int | None = None,
    group_count: int = 1,
    fused_activation: FusedActivation | type[Operator] | None = None,
    output_sizes: Integers | None = None,
) -> Value:
    """Convolves a tensor with a filter, adds a bias to each channel, and applies an activation."""

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
    """Convolves integers of 8 bits to INT32."""

def cos(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the cosine of radians: `cos(g(x))`; NaN for infinities."""

def cosh(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the hyperbolic cosine: `cosh(g(x))`."""

def cumulative_product(
    input: Given[Value],
    axis: int,
    axis_direction: AxisDirection | str,
    has_exclusive_product: bool,
) -> Value:
    """Multiplies elements along an axis, in each line."""

def cumulative_summation(
    input: Given[Value],
    axis: int,
    axis_direction: AxisDirection | str,
    has_exclusive_sum: bool,
) -> Value:
    """Adds up elements along an axis, in each line."""

def depth_to_space(
    input: Given[Value],
    block_size: int,
    order: DepthSpaceOrder | str = "DEPTH_COLUMN_ROW",
) -> Value:
    """Moves channels into blocks of pixels; the inverse of SPACE_TO_DEPTH."""

def dequantize(
    input: Given[Value],
    quantization_parameters: Sequence[Given[Value]],
    quantization_type: QuantizationType | str,
) -> Value:
    """Computes what integers of 4 or 8 bits stand for, in blocks."""

def dequantize_linear(
    input: Given[Value],
    scale: Given[Value],
    zero_point: Given[Value] | None = None,
) -> Value:
    """Computes what integers stand for, each with a scale and a zero point of its own."""

@overload
def diagonal_matrix(
    output_sizes: Integers,
    value_data_type: TensorDataType | str,
    value: float,
    diagonal_fill_begin: int,
    diagonal_fill_end: int,
    input: Given[Value] | None = None,
    graph: None = None,
) -> Value:
    """Makes matrices with one number along a diagonal, and 0 elsewhere."""

@overload
def diagonal_matrix(
    output_sizes: Integers,
    value_data_type: TensorDataType | str,
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
    """Squares the difference of two elements: `output = (a - b) * (a - b)`."""

def divide(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Divides the elements of a tensor by those of another: `output = a / b`."""

class DynamicQuantizeLinearOutputs(NamedTuple, Generic[Value]):
    output: Value
    scale: Value
    zero_point: Value

def dynamic_quantize_linear(
    input: Given[Value],
    output_data_type: TensorDataType | str = "UINT8",
) -> DynamicQuantizeLinearOutputs[Value]:
    """Quantizes a tensor with one scale and one zero point, which follow from its range."""

def equals(
    a: Given[Value],
    b: Given[Value],
    output_data_type: TensorDataType | str = "UINT8",
) -> Value:
    """Tells where two elements are equal: `a == b`."""

def erf(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the error function: `erf(g(x))`."""

def exp(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the exponential: `exp(g(x))`."""

@overload
def fill_value_constant(
    output_sizes: Integers,
    value_data_type: TensorDataType | str,
    value: float,
    graph: None = None,
) -> jax.Array:
    """Fills a tensor with one number: `value` everywhere."""

@overload
def fill_value_constant(
    output_sizes: Integers,
    value_data_type: TensorDataType | str,
    value: float,
    *,
    graph: GraphBuilder,
) -> Expression: ...

@overload
def fill_value_sequence(
    output_sizes: Integers,
    value_data_type: TensorDataType | str,
    value_start: float,
    value_delta: float,
    graph: None = None,
) -> jax.Array:
    """Fills a tensor with numbers at equal distances: `value_start + k * value_delta`."""

@overload
def fill_value_sequence(
    output_sizes: Integers,
    value_data_type: TensorDataType | str,
    value_start: float,
    value_delta: float,
    *,
    graph: GraphBuilder,
) -> Expression: ...

def floor(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the largest whole number that is not above: `floor(g(x))`."""

def fold(
    input: Given[Value],
    window_sizes: Integers | int,
    strides: Integers | int,
    dilations: Integers | int,
    start_padding: Integers | int,
    end_padding: Integers | int,
    output_sizes: Integers,
) -> Value:
    """Adds the columns that UNFOLD makes at the places of their windows."""

def gather(
    input: Given[Value],
    indices: Given[Value],
    axis: int,
    index_dimensions: int | None = None,
) -> Value:
    """Reads slices along an axis."""

def gather_elements(
    input: Given[Value],
    indices: Given[Value],
    axis: int,
) -> Value:
    """Reads one element for each index, in the index's own line along an axis."""

def gather_nd(
    input: Given[Value],
    indices: Given[Value],
    input_dimension_count: int,
    indices_dimension_count: int,
    batch_dimension_count: int,
) -> Value:
    """Reads slices, each at a list of indices."""

def gemm(
    a: Given[Value],
    b: Given[Value],
    c: Given[Value] | None = None,
    trans_a: MatrixTransform | str = "NONE",
    trans_b: MatrixTransform | str = "NONE",
    alpha: float = 1.0,
    beta: float = 1.0,
    fused_activation: FusedActivation | type[Operator] | None = None,
) -> Value:
    """Multiplies matrices, adds a third one, and applies an activation."""

def greater_than(
    a: Given[Value],
    b: Given[Value],
    output_data_type: TensorDataType | str = "UINT8",
) -> Value:
    """Tells where the first of two elements is greater: `a > b`."""

def greater_than_or_equal(
    a: Given[Value],
    b: Given[Value],
    output_data_type: TensorDataType | str = "UINT8",
) -> Value:
    """Tells where the first of two elements is greater or equal: `a >= b`."""

class GruOutputs(NamedTuple, Generic[Value]):
    sequence: Value | None
    single: Value | None

def gru(
    input: Given[Value],
    weight: Given[Value],
    recurrence: Given[Value],
    bias: Given[Value] | None,
    hidden_init: Given[Value] | None,
    sequence_lengths: Given[Value] | None,
    activation_descs: Sequence[FusedActivation | type[Operator]],
    direction: RecurrentNetworkDirection | str,
    linear_before_reset: bool,
    output_options: Any,
) -> GruOutputs[Value]:
    """Runs gated recurrent units: gates decide how much of the last output stays."""

def identity(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Copies each element: `g(x)`; all bits stay where scale_bias is left out."""

def if_(
    condition: Given[Value],
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Chooses between two elements: `output = a if condition else b`."""

def is_infinity(
    input: Given[Value],
    infinity_mode: IsInfinityMode | str = "EITHER",
    output_data_type: TensorDataType | str = "UINT8",
) -> Value:
    """Tells where an element is infinite: `x == inf`, `x == -inf`, or either of them."""

def is_nan(
    input: Given[Value],
    output_data_type: TensorDataType | str = "UINT8",
) -> Value:
    """Tells where an element is NaN: `x != x`."""

def join(
    inputs: Sequence[Given[Value]],
    axis: int,
) -> Value:
    """Joins tensors along an axis into one."""

def less_than(
    a: Given[Value],
    b: Given[Value],
    output_data_type: TensorDataType | str = "UINT8",
) -> Value:
    """Tells where the first of two elements is less: `a < b`."""

def less_than_or_equal(
    a: Given[Value],
    b: Given[Value],
    output_data_type: TensorDataType | str = "UINT8",
) -> Value:
    """Tells where the first of two elements is less or equal: `a <= b`."""

def local_response_normalization(
    input: Given[Value],
    cross_channel: bool,
    local_size: int,
    alpha: float,
    beta: float,
    bias: float,
) -> Value:
    """Divides each element by a power of the sum of the squares around it."""

def local_response_normalization_grad(
    input: Given[Value],
    input_gradient: Given[Value],
    cross_channel: bool,
    local_size: int,
    alpha: float,
    beta: float,
    bias: float,
) -> Value:
    """Computes the gradient of LOCAL_RESPONSE_NORMALIZATION."""

def log(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the natural logarithm: `ln(g(x))`; -infinity for 0, NaN below."""

def logical_and(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Tells where both elements are true: `a and b`."""

def logical_not(
    input: Given[Value],
) -> Value:
    """Tells where an element is not true: `x == 0`."""

def logical_or(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Tells where at least one of two elements is true: `a or b`."""

def logical_xor(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Tells where exactly one of two elements is true: `(a != 0) != (b != 0)`."""

def lp_normalization(
    input: Given[Value],
    axis: int,
    epsilon: float,
    p: int,
) -> Value:
    """Divides each element by the norm of the elements along an axis."""

def lp_pooling(
    input: Given[Value],
    strides: Integers | int,
    window_size: Integers | int,
    start_padding: Integers | int,
    end_padding: Integers | int,
    dilations: Integers | int,
    p: int,
) -> Value:
    """Takes the Lp norm of each window: `output = sum(|x|^p)^(1/p)`."""

class LstmOutputs(NamedTuple, Generic[Value]):
    sequence: Value | None
    single: Value | None
    cell_single: Value | None

def lstm(
    input: Given[Value],
    weight: Given[Value],
    recurrence: Given[Value],
    activation_descs: Sequence[FusedActivation | type[Operator]],
    direction: RecurrentNetworkDirection | str,
    clip_threshold: float,
    use_clip_threshold: bool,
    couple_input_forget: bool,
    bias: Given[Value] | None = None,
    hidden_init: Given[Value] | None = None,
    cell_mem_init: Given[Value] | None = None,
    sequence_lengths: Given[Value] | None = None,
    peephole: Given[Value] | None = None,
) -> LstmOutputs[Value]:
    """Runs a long short-term memory: gates decide what a cell takes in, forgets and gives out."""

def matrix_multiply_integer(
    a: Given[Value],
    b: Given[Value],
    a_zero_point: Given[Value] | None = None,
    b_zero_point: Given[Value] | None = None,
) -> Value:
    """Multiplies matrices of 8-bit integers to INT32."""

def matrix_multiply_integer_to_float(
    a: Given[Value],
    a_scale: Given[Value],
    b: Given[Value],
    b_scale: Given[Value],
    a_zero_point: Given[Value] | None = None,
    b_zero_point: Given[Value] | None = None,
    bias: Given[Value] | None = None,
) -> Value:
    """Multiplies matrices of quantized numbers to floats, and adds a bias."""

def max(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Takes the larger of two elements: `output = max(a, b)`."""

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
    """Finds the largest element of each window."""

def max_pooling_grad(
    input: Given[Value],
    input_gradient: Given[Value],
    strides: Integers | int,
    window_size: Integers | int,
    start_padding: Integers | int,
    end_padding: Integers | int,
    dilations: Integers | int,
) -> Value:
    """Computes the gradient of the input of MAX_POOLING2 from that of its output."""

def max_unpooling(
    input: Given[Value],
    indices: Given[Value],
    output_sizes: Integers,
) -> Value:
    """Writes each element at an index of an output that is 0 elsewhere."""

def mean(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Takes the mean of two elements: `output = (a + b) / 2`."""

def mean_variance_normalization(
    input: Given[Value],
    scale: Given[Value] | None,
    bias: Given[Value] | None,
    axes: Integers | int,
    normalize_variance: bool,
    normalize_mean: bool,
    epsilon: float,
    fused_activation: FusedActivation | type[Operator] | None = None,
) -> Value:
    """Normalizes each image, or each channel of it, by its mean and variance."""

def min(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Takes the smaller of two elements: `output = min(a, b)`."""

def modulus_floor(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Takes the remainder of a division downward: `output = a - b * floor(a / b)`."""

def modulus_truncate(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Takes the remainder of a division toward zero: `output = a - b * trunc(a / b)`."""

class MultiheadAttentionOutputs(NamedTuple, Generic[Value]):
    output: Value
    present_key: Value | None
    present_value: Value | None

def multihead_attention(
    scale: float,
    mask_filter_value: float,
    query_head_count: int,
    key_value_head_count: int,
    mask_type: MultiheadAttentionMaskType | str,
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
    """Weights values by how well each query agrees with their keys, head by head."""

def multiply(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Multiplies the elements of two tensors: `output = a * b`."""

def negate(
    input: Given[Value],
) -> Value:
    """Changes the sign: `-x`. Choice: the smallest integer stays itself."""

class NonZeroCoordinatesOutputs(NamedTuple, Generic[Value]):
    count: Value  # pyright: ignore[reportIncompatibleMethodOverride]
    coordinates: Value

def non_zero_coordinates(
    input: Given[Value],
) -> NonZeroCoordinatesOutputs[Value]:
    """Finds the elements that are not zero: their number, and the coordinates of each."""

def one_hot(
    indices: Given[Value],
    values: Given[Value],
    output_length: Any,
    axis: int,
) -> Value:
    """Makes lines in which one element differs from the others."""

def padding(
    input: Given[Value],
    padding_mode: PaddingMode | str,
    padding_value: float,
    start_padding: Integers | int,
    end_padding: Integers | int,
) -> Value:
    """Pads a tensor, with a value that is FLOAT whatever the tensor's type."""

def pow(
    input: Given[Value],
    exponent: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Raises each element to one power: `pow(g(x), exponent)`."""

def quantize(
    input: Given[Value],
    quantization_parameters: Sequence[Given[Value]],
    quantization_type: QuantizationType | str,
    output_data_type: TensorDataType | str | None = None,
) -> Value:
    """Quantizes blocks of elements, to 4 or 8 bits."""

def quantize_linear(
    input: Given[Value],
    scale: Given[Value],
    zero_point: Given[Value] | None = None,
    output_data_type: TensorDataType | str = "UINT8",
) -> Value:
    """Quantizes each element with a scale and a zero point of its own."""

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
    """Adds two quantized tensors, and quantizes the sum."""

def quantized_linear_average_pooling(
    input: Given[Value],
    input_scale: Given[Value],
    output_scale: Given[Value],
    strides: Integers | int,
    window_size: Integers | int,
    start_padding: Integers | int,
    end_padding: Integers | int,
    dilations: Integers | int,
    include_padding: bool,
    input_zero_point: Given[Value] | None = None,
    output_zero_point: Given[Value] | None = None,
) -> Value:
    """Averages the quantized elements of each window, and quantizes the mean."""

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
    output_data_type: TensorDataType | str,
    strides: Integers | int | None = None,
    dilations: Integers | int | None = None,
    start_padding: Integers | int | None = None,
    end_padding: Integers | int | None = None,
    group_count: int = 1,
    output_sizes: Integers | None = None,
) -> Value:
    """Convolves two quantized tensors, and quantizes the result."""

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
    """Multiplies matrices of quantized numbers, and quantizes the product."""

class RandomGeneratorOutputs(NamedTuple, Generic[Value]):
    values: Value
    state: Value | None

def random_generator(
    input_state: Given[Value],
    output_sizes: Integers | Sequence[Integers | None] | Mapping[str, Integers],
    output_state: bool = True,
    type: RandomGeneratorType | str = "PHILOX_4X32_10",
) -> RandomGeneratorOutputs[Value]:
    """Makes random UINT32 numbers, evenly distributed, from a counter and a key."""

def recip(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the reciprocal: `1 / g(x)`; infinity of its sign for 0."""

def reduce(
    input: Given[Value],
    function: ReduceFunction | str,
    axes: Integers | int | None = None,
    output_data_type: TensorDataType | str | None = None,
) -> Value:
    """Combines the elements along `axes` into one; the rank is kept."""

def resample(
    input: Given[Value],
    output_sizes: Integers,
    mode: InterpolationMode | str,
    rounding_direction: AxisDirection | str = "INCREASING",
    scales: Sequence[float] | None = None,
    input_pixel_offsets: Sequence[float] | None = None,
    output_pixel_offsets: Sequence[float] | None = None,
    antialiased: bool = False,
) -> Value:
    """Resamples a tensor between the centres of its elements."""

def resample_grad(
    input: Given[Value],
    output_sizes: Integers,
    mode: InterpolationMode | str,
    scales: Sequence[float] | None = None,
    input_pixel_offsets: Sequence[float] | None = None,
    output_pixel_offsets: Sequence[float] | None = None,
    rounding_direction: AxisDirection | str | None = None,
) -> Value:
    """Computes the gradient of RESAMPLE1, given the gradient of its output."""

def reverse_subsequences(
    input: Given[Value],
    sequence_lengths: Given[Value],
    axis: int,
) -> Value:
    """Reverses the first elements of each line along an axis."""

class RnnOutputs(NamedTuple, Generic[Value]):
    sequence: Value | None
    single: Value | None

def rnn(
    input: Given[Value],
    weight: Given[Value],
    recurrence: Given[Value],
    activation_descs: Sequence[FusedActivation | type[Operator]],
    direction: RecurrentNetworkDirection | str,
    bias: Given[Value] | None = None,
    hidden_init: Given[Value] | None = None,
    sequence_lengths: Given[Value] | None = None,
) -> RnnOutputs[Value]:
    """Runs a simple recurrent network: each step activates a sum of its input and its last output."""

def roi_align(
    input: Given[Value],
    roi: Given[Value],
    batch_indices: Given[Value],
    reduction_function: ReduceFunction | str,
    interpolation_mode: InterpolationMode | str,
    spatial_scale_x: float,
    spatial_scale_y: float,
    input_pixel_offset: float,
    output_pixel_offset: float,
    out_of_bounds_input_value: float,
    minimum_samples_per_output: int,
    maximum_samples_per_output: int,
    align_regions_to_corners: bool,
    output_height: Any,
    output_width: Any,
) -> Value:
    """Samples each region of a picture, at the centres of a grid."""

class RoiAlignGradOutputs(NamedTuple, Generic[Value]):
    output_gradient: Value | None
    output_roi_gradient: Value | None

def roi_align_grad(
    input: Given[Value] | None,
    input_gradient: Given[Value],
    roi: Given[Value],
    batch_indices: Given[Value],
    reduction_function: ReduceFunction | str,
    interpolation_mode: InterpolationMode | str,
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
    """Computes the gradients of ROI_ALIGN1, given the gradient of its output."""

def roi_pooling(
    input: Given[Value],
    roi: Given[Value],
    spatial_scale: float,
    pooled_size: Size2D,
) -> Value:
    """Pools each region of a picture to a fixed size, by the largest element."""

def round(
    input: Given[Value],
    rounding_mode: RoundingMode | str = "HALVES_TO_NEAREST_EVEN",
) -> Value:
    """Rounds each element to a whole number of the same type."""

def scatter_elements(
    input: Given[Value],
    indices: Given[Value],
    updates: Given[Value],
    axis: int,
) -> Value:
    """Writes one element for each index, into the index's own line along an axis."""

def scatter_nd(
    input: Given[Value],
    indices: Given[Value],
    updates: Given[Value],
    input_dimension_count: int,
    indices_dimension_count: int,
) -> Value:
    """Writes slices, each at a list of indices."""

def sign(
    a: Given[Value],
) -> Value:
    """Takes the sign: `1 if x > 0 else -1 if x < 0 else 0`; NaN gives 0."""

def sin(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the sine of radians: `sin(g(x))`; NaN for infinities."""

def sinh(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the hyperbolic sine: `sinh(g(x))`."""

def slice(
    input: Given[Value],
    input_window_offsets: Integers | int,
    input_window_sizes: Integers | int,
    input_window_strides: Integers | int,
) -> Value:
    """Cuts a part out of a tensor, with strides."""

def slice_grad(
    input_gradient: Given[Value],
    output_gradient_sizes: Integers,
    input_window_offsets: Integers | int,
    input_window_sizes: Integers | int,
    input_window_strides: Integers | int,
) -> Value:
    """Computes the gradient of SLICE1, given the gradient of its output."""

def space_to_depth(
    input: Given[Value],
    block_size: int,
    order: DepthSpaceOrder | str = "DEPTH_COLUMN_ROW",
) -> Value:
    """Moves blocks of pixels into channels; the inverse of DEPTH_TO_SPACE."""

def split(
    input: Given[Value],
    axis: int,
    output_axis_sizes: Integers,
) -> tuple[Value, ...]:
    """Splits a tensor along an axis into several."""

def sqrt(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the square root of each element: `sqrt(g(x))`; NaN below 0."""

def subtract(
    a: Given[Value],
    b: Given[Value],
) -> Value:
    """Subtracts the elements of a tensor from those of another: `output = a - b`."""

def tan(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the tangent of radians: `tan(g(x))`; NaN for infinities."""

def tanh(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the hyperbolic tangent: `tanh(g(x))`."""

def threshold(
    input: Given[Value],
    min: float,
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Raises smaller elements to a bound: `max(g(x), min)`."""

def tile(
    input: Given[Value],
    repeats: Integers | int,
) -> Value:
    """Repeats a tensor along each dimension."""

class TopKOutputs(NamedTuple, Generic[Value]):
    value: Value
    index: Value  # pyright: ignore[reportIncompatibleMethodOverride]

def top_k(
    input: Given[Value],
    axis: int,
    k: int,
    axis_direction: AxisDirection | str,
) -> TopKOutputs[Value]:
    """Takes the largest elements of each line along an axis, the largest first, and their indices."""

def unfold(
    input: Given[Value],
    window_sizes: Integers | int,
    strides: Integers | int,
    dilations: Integers | int,
    start_padding: Integers | int,
    end_padding: Integers | int,
) -> Value:
    """Copies the elements of each window into one column."""

def upsample_2d(
    input: Given[Value],
    scale_size: Size2D,
    interpolation_mode: InterpolationMode | str,
) -> Value:
    """Enlarges the last two dimensions by whole factors."""

def value_scale_2d(
    input: Given[Value],
    scale: float,
    bias: Sequence[float],
) -> Value:
    """Scales all elements, and adds one number to each channel: `x * scale + bias[channel]`."""

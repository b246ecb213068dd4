"""The operators. Made by tools/stubs.py."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, Self, overload

import jax
from jax.typing import ArrayLike

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
from dml_jax.operator import FusedActivation, Operator
from dml_jax.description.tensor import Integers, Placeholder, TensorDesc

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
    "ActivationCelu",
    "ActivationElu",
    "ActivationGelu",
    "ActivationHardSigmoid",
    "ActivationHardSwish",
    "ActivationHardmax",
    "ActivationHardmax1",
    "ActivationIdentity",
    "ActivationLeakyRelu",
    "ActivationLinear",
    "ActivationLogSoftmax",
    "ActivationLogSoftmax1",
    "ActivationParameterizedRelu",
    "ActivationParametricSoftplus",
    "ActivationRelu",
    "ActivationReluGrad",
    "ActivationScaledElu",
    "ActivationScaledTanh",
    "ActivationShrink",
    "ActivationSigmoid",
    "ActivationSoftmax",
    "ActivationSoftmax1",
    "ActivationSoftplus",
    "ActivationSoftsign",
    "ActivationSwish",
    "ActivationTanh",
    "ActivationThresholdedRelu",
    "AdamOptimizer",
    "Argmax",
    "Argmin",
    "AveragePooling",
    "AveragePooling1",
    "AveragePoolingGrad",
    "BatchNormalization",
    "BatchNormalizationGrad",
    "BatchNormalizationTraining",
    "BatchNormalizationTrainingGrad",
    "Cast",
    "Convolution",
    "ConvolutionInteger",
    "CumulativeProduct",
    "CumulativeSummation",
    "DepthToSpace",
    "DepthToSpace1",
    "Dequantize",
    "DiagonalMatrix",
    "DiagonalMatrix1",
    "DynamicQuantizeLinear",
    "ElementWiseAbs",
    "ElementWiseAcos",
    "ElementWiseAcosh",
    "ElementWiseAdd",
    "ElementWiseAdd1",
    "ElementWiseAsin",
    "ElementWiseAsinh",
    "ElementWiseAtan",
    "ElementWiseAtanYx",
    "ElementWiseAtanh",
    "ElementWiseBitAnd",
    "ElementWiseBitCount",
    "ElementWiseBitNot",
    "ElementWiseBitOr",
    "ElementWiseBitShiftLeft",
    "ElementWiseBitShiftRight",
    "ElementWiseBitXor",
    "ElementWiseCeil",
    "ElementWiseClip",
    "ElementWiseClip1",
    "ElementWiseClipGrad",
    "ElementWiseClipGrad1",
    "ElementWiseConstantPow",
    "ElementWiseCos",
    "ElementWiseCosh",
    "ElementWiseDequantizeLinear",
    "ElementWiseDifferenceSquare",
    "ElementWiseDivide",
    "ElementWiseErf",
    "ElementWiseExp",
    "ElementWiseFloor",
    "ElementWiseIdentity",
    "ElementWiseIf",
    "ElementWiseIsInfinity",
    "ElementWiseIsNan",
    "ElementWiseLog",
    "ElementWiseLogicalAnd",
    "ElementWiseLogicalEquals",
    "ElementWiseLogicalGreaterThan",
    "ElementWiseLogicalGreaterThanOrEqual",
    "ElementWiseLogicalLessThan",
    "ElementWiseLogicalLessThanOrEqual",
    "ElementWiseLogicalNot",
    "ElementWiseLogicalOr",
    "ElementWiseLogicalXor",
    "ElementWiseMax",
    "ElementWiseMean",
    "ElementWiseMin",
    "ElementWiseModulusFloor",
    "ElementWiseModulusTruncate",
    "ElementWiseMultiply",
    "ElementWiseNegate",
    "ElementWisePow",
    "ElementWiseQuantizeLinear",
    "ElementWiseQuantizedLinearAdd",
    "ElementWiseRecip",
    "ElementWiseRound",
    "ElementWiseSign",
    "ElementWiseSin",
    "ElementWiseSinh",
    "ElementWiseSqrt",
    "ElementWiseSubtract",
    "ElementWiseTan",
    "ElementWiseTanh",
    "ElementWiseThreshold",
    "FillValueConstant",
    "FillValueSequence",
    "Fold",
    "Gather",
    "GatherElements",
    "GatherNd",
    "GatherNd1",
    "Gemm",
    "Gru",
    "Join",
    "LocalResponseNormalization",
    "LocalResponseNormalizationGrad",
    "LpNormalization",
    "LpPooling",
    "LpPooling1",
    "Lstm",
    "MatrixMultiplyInteger",
    "MatrixMultiplyIntegerToFloat",
    "MaxPooling",
    "MaxPooling1",
    "MaxPooling2",
    "MaxPoolingGrad",
    "MaxUnpooling",
    "MeanVarianceNormalization",
    "MeanVarianceNormalization1",
    "MeanVarianceNormalization2",
    "MultiheadAttention",
    "MultiheadAttention1",
    "NonzeroCoordinates",
    "OneHot",
    "Padding",
    "Padding1",
    "Quantize",
    "QuantizedLinearAveragePooling",
    "QuantizedLinearConvolution",
    "QuantizedLinearMatrixMultiply",
    "RandomGenerator",
    "Reduce",
    "Resample",
    "Resample1",
    "Resample2",
    "Resample3",
    "ResampleGrad",
    "ResampleGrad1",
    "ReverseSubsequences",
    "Rnn",
    "RoiAlign",
    "RoiAlign1",
    "RoiAlignGrad",
    "RoiPooling",
    "Scatter",
    "ScatterNd",
    "Slice",
    "Slice1",
    "SliceGrad",
    "SpaceToDepth",
    "SpaceToDepth1",
    "Split",
    "Tile",
    "TopK",
    "TopK1",
    "Unfold",
    "Upsample2d",
    "ValueScale2d",
]

class ElementWiseIdentity(Operator, op="ELEMENT_WISE_IDENTITY"):
    """Copies each element: `g(x)`; all bits stay where scale_bias is left out."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_bias: ScaleBias | None
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseAbs(Operator, op="ELEMENT_WISE_ABS"):
    """Takes the absolute value: `|g(x)|`. Choice: that of the smallest integer is itself."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_bias: ScaleBias | None
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseAcos(Operator, op="ELEMENT_WISE_ACOS"):
    """Takes the arc cosine, in radians: `acos(g(x))`; NaN beyond -1 and 1."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_bias: ScaleBias | None
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseAdd(Operator, op="ELEMENT_WISE_ADD"):
    """Adds the elements of two tensors: `output = a + b`."""

    a_tensor: TensorDesc
    b_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseAsin(Operator, op="ELEMENT_WISE_ASIN"):
    """Takes the arc sine, in radians: `asin(g(x))`; NaN beyond -1 and 1."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_bias: ScaleBias | None
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseAtan(Operator, op="ELEMENT_WISE_ATAN"):
    """Takes the arc tangent, in radians: `atan(g(x))`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_bias: ScaleBias | None
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseCeil(Operator, op="ELEMENT_WISE_CEIL"):
    """Takes the smallest whole number that is not below: `ceil(g(x))`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_bias: ScaleBias | None
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseClip(Operator, op="ELEMENT_WISE_CLIP"):
    """Clamps each element to [min, max]."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_bias: ScaleBias | None
    min: float
    max: float
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        min: float,
        max: float,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        min: float,
        max: float,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseClip1(Operator, op="ELEMENT_WISE_CLIP1"):
    """ELEMENT_WISE_CLIP with bounds in the tensor's own type, so that 64-bit ones are exact."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_bias: ScaleBias | None
    min_max_data_type: TensorDataType
    min: float
    max: float
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        min_max_data_type: TensorDataType | _TensorDataType,
        min: float,
        max: float,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        min_max_data_type: TensorDataType | _TensorDataType,
        min: float,
        max: float,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseClipGrad(Operator, op="ELEMENT_WISE_CLIP_GRAD"):
    """The gradient of ELEMENT_WISE_CLIP, given that of its output."""

    input_tensor: TensorDesc
    input_gradient_tensor: TensorDesc
    output_gradient_tensor: TensorDesc
    min: float
    max: float
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        input_gradient_tensor: TensorDesc,
        output_gradient_tensor: TensorDesc,
        min: float,
        max: float,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        input_gradient_tensor: TensorDesc,
        min: float,
        max: float,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseClipGrad1(Operator, op="ELEMENT_WISE_CLIP_GRAD1"):
    """The gradient of ELEMENT_WISE_CLIP1, given that of its output."""

    input_tensor: TensorDesc
    input_gradient_tensor: TensorDesc
    output_gradient_tensor: TensorDesc
    min_max_data_type: TensorDataType
    min: float
    max: float
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        input_gradient_tensor: TensorDesc,
        output_gradient_tensor: TensorDesc,
        min_max_data_type: TensorDataType | _TensorDataType,
        min: float,
        max: float,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        input_gradient_tensor: TensorDesc,
        min_max_data_type: TensorDataType | _TensorDataType,
        min: float,
        max: float,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseCos(Operator, op="ELEMENT_WISE_COS"):
    """Takes the cosine of radians: `cos(g(x))`; NaN for infinities."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_bias: ScaleBias | None
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseDivide(Operator, op="ELEMENT_WISE_DIVIDE"):
    """Divides the elements of a tensor by those of another: `output = a / b`."""

    a_tensor: TensorDesc
    b_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseExp(Operator, op="ELEMENT_WISE_EXP"):
    """Takes the exponential: `exp(g(x))`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_bias: ScaleBias | None
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseFloor(Operator, op="ELEMENT_WISE_FLOOR"):
    """Takes the largest whole number that is not above: `floor(g(x))`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_bias: ScaleBias | None
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseLog(Operator, op="ELEMENT_WISE_LOG"):
    """Takes the natural logarithm: `ln(g(x))`; -infinity for 0, NaN below."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_bias: ScaleBias | None
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseLogicalAnd(Operator, op="ELEMENT_WISE_LOGICAL_AND"):
    """Tells where both elements are true: `a and b`."""

    a_tensor: TensorDesc
    b_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseLogicalEquals(Operator, op="ELEMENT_WISE_LOGICAL_EQUALS"):
    """Tells where two elements are equal: `a == b`."""

    a_tensor: TensorDesc
    b_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseLogicalGreaterThan(Operator, op="ELEMENT_WISE_LOGICAL_GREATER_THAN"):
    """Tells where the first of two elements is greater: `a > b`."""

    a_tensor: TensorDesc
    b_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseLogicalLessThan(Operator, op="ELEMENT_WISE_LOGICAL_LESS_THAN"):
    """Tells where the first of two elements is less: `a < b`."""

    a_tensor: TensorDesc
    b_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseLogicalGreaterThanOrEqual(Operator, op="ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL"):
    """Tells where the first of two elements is greater or equal: `a >= b`."""

    a_tensor: TensorDesc
    b_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseLogicalLessThanOrEqual(Operator, op="ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL"):
    """Tells where the first of two elements is less or equal: `a <= b`."""

    a_tensor: TensorDesc
    b_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseLogicalNot(Operator, op="ELEMENT_WISE_LOGICAL_NOT"):
    """Tells where an element is not true: `x == 0`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseLogicalOr(Operator, op="ELEMENT_WISE_LOGICAL_OR"):
    """Tells where at least one of two elements is true: `a or b`."""

    a_tensor: TensorDesc
    b_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseLogicalXor(Operator, op="ELEMENT_WISE_LOGICAL_XOR"):
    """Tells where exactly one of two elements is true: `(a != 0) != (b != 0)`."""

    a_tensor: TensorDesc
    b_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseMax(Operator, op="ELEMENT_WISE_MAX"):
    """Takes the larger of two elements: `output = max(a, b)`."""

    a_tensor: TensorDesc
    b_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseMean(Operator, op="ELEMENT_WISE_MEAN"):
    """Takes the mean of two elements: `output = (a + b) / 2`."""

    a_tensor: TensorDesc
    b_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseMin(Operator, op="ELEMENT_WISE_MIN"):
    """Takes the smaller of two elements: `output = min(a, b)`."""

    a_tensor: TensorDesc
    b_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseMultiply(Operator, op="ELEMENT_WISE_MULTIPLY"):
    """Multiplies the elements of two tensors: `output = a * b`."""

    a_tensor: TensorDesc
    b_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWisePow(Operator, op="ELEMENT_WISE_POW"):
    """Raises elements to the power of those of another tensor: `output = pow(g(x), exponent)`."""

    input_tensor: TensorDesc
    exponent_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_bias: ScaleBias | None
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        exponent_tensor: TensorDesc,
        output_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        exponent_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseConstantPow(Operator, op="ELEMENT_WISE_CONSTANT_POW"):
    """Raises each element to one power: `pow(g(x), exponent)`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_bias: ScaleBias | None
    exponent: float
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        exponent: float,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        exponent: float,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseRecip(Operator, op="ELEMENT_WISE_RECIP"):
    """Takes the reciprocal: `1 / g(x)`; infinity of its sign for 0."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_bias: ScaleBias | None
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseSin(Operator, op="ELEMENT_WISE_SIN"):
    """Takes the sine of radians: `sin(g(x))`; NaN for infinities."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_bias: ScaleBias | None
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseSqrt(Operator, op="ELEMENT_WISE_SQRT"):
    """Takes the square root of each element: `sqrt(g(x))`; NaN below 0."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_bias: ScaleBias | None
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseDifferenceSquare(Operator, op="ELEMENT_WISE_DIFFERENCE_SQUARE"):
    """Squares the difference of two elements: `output = (a - b) * (a - b)`."""

    a_tensor: TensorDesc
    b_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseAtanYx(Operator, op="ELEMENT_WISE_ATAN_YX"):
    """Takes the angle in radians of the point whose y is `a` and whose x is `b`."""

    a_tensor: TensorDesc
    b_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseSubtract(Operator, op="ELEMENT_WISE_SUBTRACT"):
    """Subtracts the elements of a tensor from those of another: `output = a - b`."""

    a_tensor: TensorDesc
    b_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseTan(Operator, op="ELEMENT_WISE_TAN"):
    """Takes the tangent of radians: `tan(g(x))`; NaN for infinities."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_bias: ScaleBias | None
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseThreshold(Operator, op="ELEMENT_WISE_THRESHOLD"):
    """Raises smaller elements to a bound: `max(g(x), min)`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_bias: ScaleBias | None
    min: float
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        min: float,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        min: float,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseQuantizeLinear(Operator, op="ELEMENT_WISE_QUANTIZE_LINEAR"):
    """Quantizes each element with a scale and a zero point of its own."""

    input_tensor: TensorDesc
    scale_tensor: TensorDesc
    zero_point_tensor: TensorDesc | None
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        scale_tensor: TensorDesc,
        zero_point_tensor: TensorDesc | None = None,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_tensor: TensorDesc,
        zero_point_tensor: TensorDesc | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseDequantizeLinear(Operator, op="ELEMENT_WISE_DEQUANTIZE_LINEAR"):
    """Computes what integers stand for, each with a scale and a zero point of its own."""

    input_tensor: TensorDesc
    scale_tensor: TensorDesc
    zero_point_tensor: TensorDesc | None
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        scale_tensor: TensorDesc,
        zero_point_tensor: TensorDesc | None = None,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_tensor: TensorDesc,
        zero_point_tensor: TensorDesc | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Convolution(Operator, op="CONVOLUTION"):
    """Convolves a tensor with a filter, adds a bias to each channel, and applies an activation."""

    input_tensor: TensorDesc
    filter_tensor: TensorDesc
    bias_tensor: TensorDesc | None
    output_tensor: TensorDesc
    mode: ConvolutionMode
    direction: ConvolutionDirection
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    output_padding: tuple[int, ...]
    group_count: int
    fused_activation: FusedActivation | None
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        filter_tensor: TensorDesc,
        bias_tensor: TensorDesc | None = None,
        output_tensor: TensorDesc,
        mode: ConvolutionMode | _ConvolutionMode,
        direction: ConvolutionDirection | _ConvolutionDirection,
        strides: Integers,
        dilations: Integers,
        start_padding: Integers,
        end_padding: Integers,
        output_padding: Integers,
        group_count: int,
        fused_activation: FusedActivation | type[Operator] | str | None = None,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        filter_tensor: TensorDesc,
        bias_tensor: TensorDesc | None = None,
        mode: ConvolutionMode | _ConvolutionMode,
        direction: ConvolutionDirection | _ConvolutionDirection,
        strides: Integers,
        dilations: Integers,
        start_padding: Integers,
        end_padding: Integers,
        output_padding: Integers,
        group_count: int,
        fused_activation: FusedActivation | type[Operator] | str | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Gemm(Operator, op="GEMM"):
    """Multiplies matrices, adds a third one, and applies an activation."""

    a_tensor: TensorDesc
    b_tensor: TensorDesc
    c_tensor: TensorDesc | None
    output_tensor: TensorDesc
    trans_a: MatrixTransform
    trans_b: MatrixTransform
    alpha: float
    beta: float
    fused_activation: FusedActivation | None
    def __init__(
        self,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        c_tensor: TensorDesc | None = None,
        output_tensor: TensorDesc,
        trans_a: MatrixTransform | _MatrixTransform,
        trans_b: MatrixTransform | _MatrixTransform,
        alpha: float,
        beta: float,
        fused_activation: FusedActivation | type[Operator] | str | None = None,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        c_tensor: TensorDesc | None = None,
        trans_a: MatrixTransform | _MatrixTransform,
        trans_b: MatrixTransform | _MatrixTransform,
        alpha: float,
        beta: float,
        fused_activation: FusedActivation | type[Operator] | str | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Reduce(Operator, op="REDUCE"):
    """Combines the elements along `axes` into one; the rank is kept."""

    function: ReduceFunction  # pyright: ignore[reportIncompatibleVariableOverride]
    input_tensor: TensorDesc
    output_tensor: TensorDesc
    axes: tuple[int, ...]
    def __init__(
        self,
        *,
        function: ReduceFunction | _ReduceFunction,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        axes: Integers,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        function: ReduceFunction | _ReduceFunction,
        input_tensor: TensorDesc,
        axes: Integers,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Argmin(Operator, op="ARGMIN"):
    """The index of the smallest element along `axes`; otherwise as ARGMAX."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    axes: tuple[int, ...]
    axis_direction: AxisDirection
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        axes: Integers,
        axis_direction: AxisDirection | _AxisDirection,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        axes: Integers,
        axis_direction: AxisDirection | _AxisDirection,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Argmax(Operator, op="ARGMAX"):
    """The index of the largest element along `axes`; the rank is kept."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    axes: tuple[int, ...]
    axis_direction: AxisDirection
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        axes: Integers,
        axis_direction: AxisDirection | _AxisDirection,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        axes: Integers,
        axis_direction: AxisDirection | _AxisDirection,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class AveragePooling(Operator, op="AVERAGE_POOLING"):
    """Averages the elements of each window."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    strides: tuple[int, ...]
    window_size: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    include_padding: bool
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        strides: Integers,
        window_size: Integers,
        start_padding: Integers,
        end_padding: Integers,
        include_padding: bool,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        strides: Integers,
        window_size: Integers,
        start_padding: Integers,
        end_padding: Integers,
        include_padding: bool,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class AveragePooling1(Operator, op="AVERAGE_POOLING1"):
    """Averages the elements of each window, which dilations may spread."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    strides: tuple[int, ...]
    window_size: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    dilations: tuple[int, ...]
    include_padding: bool
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        strides: Integers,
        window_size: Integers,
        start_padding: Integers,
        end_padding: Integers,
        dilations: Integers,
        include_padding: bool,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        strides: Integers,
        window_size: Integers,
        start_padding: Integers,
        end_padding: Integers,
        dilations: Integers,
        include_padding: bool,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class LpPooling(Operator, op="LP_POOLING"):
    """Takes the Lp norm of each window."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    strides: tuple[int, ...]
    window_size: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    p: int
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        strides: Integers,
        window_size: Integers,
        start_padding: Integers,
        end_padding: Integers,
        p: int,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        strides: Integers,
        window_size: Integers,
        start_padding: Integers,
        end_padding: Integers,
        p: int,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class LpPooling1(Operator, op="LP_POOLING1"):
    """Takes the Lp norm of each window, which dilations may spread."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    strides: tuple[int, ...]
    window_size: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    dilations: tuple[int, ...]
    p: int
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        strides: Integers,
        window_size: Integers,
        start_padding: Integers,
        end_padding: Integers,
        dilations: Integers,
        p: int,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        strides: Integers,
        window_size: Integers,
        start_padding: Integers,
        end_padding: Integers,
        dilations: Integers,
        p: int,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class MaxPooling(Operator, op="MAX_POOLING"):
    """Finds the largest element of each window."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    strides: tuple[int, ...]
    window_size: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        strides: Integers,
        window_size: Integers,
        start_padding: Integers,
        end_padding: Integers,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        strides: Integers,
        window_size: Integers,
        start_padding: Integers,
        end_padding: Integers,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class MaxPooling1(Operator, op="MAX_POOLING1"):
    """Finds the largest element of each window, and its index."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    output_indices_tensor: TensorDesc | None
    strides: tuple[int, ...]
    window_size: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        output_indices_tensor: TensorDesc | None = None,
        strides: Integers,
        window_size: Integers,
        start_padding: Integers,
        end_padding: Integers,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        strides: Integers,
        window_size: Integers,
        start_padding: Integers,
        end_padding: Integers,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Sequence[Integers | None] | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class RoiPooling(Operator, op="ROI_POOLING"):
    """Pools each region of a picture to a fixed size, by the largest element."""

    input_tensor: TensorDesc
    roi_tensor: TensorDesc
    output_tensor: TensorDesc
    spatial_scale: float
    pooled_size: Size2D
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        roi_tensor: TensorDesc,
        output_tensor: TensorDesc,
        spatial_scale: float,
        pooled_size: Size2D,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        roi_tensor: TensorDesc,
        spatial_scale: float,
        pooled_size: Size2D,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Slice(Operator, op="SLICE"):
    """Cuts a part out of a tensor, with strides."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        offsets: Integers,
        sizes: Integers,
        strides: Integers,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        offsets: Integers,
        sizes: Integers,
        strides: Integers,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Cast(Operator, op="CAST"):
    """Converts each element to the type of the output."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Split(Operator, op="SPLIT"):
    """Splits a tensor along an axis into several."""

    input_tensor: TensorDesc
    output_tensors: tuple[TensorDesc, ...]
    axis: int
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensors: Sequence[TensorDesc],
        axis: int,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        axis: int,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> tuple[jax.Array, ...]: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Join(Operator, op="JOIN"):
    """Joins tensors along an axis into one."""

    input_tensors: tuple[TensorDesc, ...]
    output_tensor: TensorDesc
    axis: int
    def __init__(
        self,
        *,
        input_tensors: Sequence[TensorDesc],
        output_tensor: TensorDesc,
        axis: int,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensors: Sequence[TensorDesc],
        axis: int,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Padding(Operator, op="PADDING"):
    """Pads a tensor, with a value that is FLOAT whatever the tensor's type."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    padding_mode: PaddingMode
    padding_value: float
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        padding_mode: PaddingMode | _PaddingMode,
        padding_value: float,
        start_padding: Integers,
        end_padding: Integers,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        padding_mode: PaddingMode | _PaddingMode,
        padding_value: float,
        start_padding: Integers,
        end_padding: Integers,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Padding1(Operator, op="PADDING1"):
    """Pads a tensor, with a value in the tensor's own type."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    padding_mode: PaddingMode
    padding_value_data_type: TensorDataType
    padding_value: float
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        padding_mode: PaddingMode | _PaddingMode,
        padding_value_data_type: TensorDataType | _TensorDataType,
        padding_value: float,
        start_padding: Integers,
        end_padding: Integers,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        padding_mode: PaddingMode | _PaddingMode,
        padding_value_data_type: TensorDataType | _TensorDataType,
        padding_value: float,
        start_padding: Integers,
        end_padding: Integers,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ValueScale2d(Operator, op="VALUE_SCALE_2D"):
    """Scales all elements, and adds one number to each channel: `x * scale + bias[channel]`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale: float
    bias: tuple[float, ...]
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        scale: float,
        bias: Sequence[float],
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale: float,
        bias: Sequence[float],
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Upsample2d(Operator, op="UPSAMPLE_2D"):
    """Enlarges the last two dimensions by whole factors."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_size: Size2D
    interpolation_mode: InterpolationMode
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        scale_size: Size2D,
        interpolation_mode: InterpolationMode | _InterpolationMode,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_size: Size2D,
        interpolation_mode: InterpolationMode | _InterpolationMode,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Gather(Operator, op="GATHER"):
    """Reads slices along an axis."""

    input_tensor: TensorDesc
    indices_tensor: TensorDesc
    output_tensor: TensorDesc
    axis: int
    index_dimensions: int
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        indices_tensor: TensorDesc,
        output_tensor: TensorDesc,
        axis: int,
        index_dimensions: int,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        indices_tensor: TensorDesc,
        axis: int,
        index_dimensions: int,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class SpaceToDepth(Operator, op="SPACE_TO_DEPTH"):
    """Moves blocks of pixels into channels; the inverse of DEPTH_TO_SPACE."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    block_size: int
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        block_size: int,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        block_size: int,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class DepthToSpace(Operator, op="DEPTH_TO_SPACE"):
    """Moves channels into blocks of pixels; the inverse of SPACE_TO_DEPTH."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    block_size: int
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        block_size: int,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        block_size: int,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Tile(Operator, op="TILE"):
    """Repeats a tensor along each dimension."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    repeats: tuple[int, ...]
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        repeats: Integers,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        repeats: Integers,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class TopK(Operator, op="TOP_K"):
    """Takes the largest elements of each line along an axis, the largest first, and their indices."""

    input_tensor: TensorDesc
    output_value_tensor: TensorDesc
    output_index_tensor: TensorDesc
    axis: int
    k: int
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_value_tensor: TensorDesc,
        output_index_tensor: TensorDesc,
        axis: int,
        k: int,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        axis: int,
        k: int,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Sequence[Integers | None] | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> tuple[jax.Array, ...]: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class BatchNormalization(Operator, op="BATCH_NORMALIZATION"):
    """Normalizes elements by a mean and a variance that it is given."""

    input_tensor: TensorDesc
    mean_tensor: TensorDesc
    variance_tensor: TensorDesc
    scale_tensor: TensorDesc
    bias_tensor: TensorDesc
    output_tensor: TensorDesc
    spatial: bool
    epsilon: float
    fused_activation: FusedActivation | None
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        mean_tensor: TensorDesc,
        variance_tensor: TensorDesc,
        scale_tensor: TensorDesc,
        bias_tensor: TensorDesc,
        output_tensor: TensorDesc,
        spatial: bool,
        epsilon: float,
        fused_activation: FusedActivation | type[Operator] | str | None = None,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        mean_tensor: TensorDesc,
        variance_tensor: TensorDesc,
        scale_tensor: TensorDesc,
        bias_tensor: TensorDesc,
        spatial: bool,
        epsilon: float,
        fused_activation: FusedActivation | type[Operator] | str | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class BatchNormalizationGrad(Operator, op="BATCH_NORMALIZATION_GRAD"):
    """Computes the gradients of BATCH_NORMALIZATION, whose mean and variance are constants."""

    input_tensor: TensorDesc
    input_gradient_tensor: TensorDesc
    mean_tensor: TensorDesc
    variance_tensor: TensorDesc
    scale_tensor: TensorDesc
    output_gradient_tensor: TensorDesc
    output_scale_gradient_tensor: TensorDesc
    output_bias_gradient_tensor: TensorDesc
    epsilon: float
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        input_gradient_tensor: TensorDesc,
        mean_tensor: TensorDesc,
        variance_tensor: TensorDesc,
        scale_tensor: TensorDesc,
        output_gradient_tensor: TensorDesc,
        output_scale_gradient_tensor: TensorDesc,
        output_bias_gradient_tensor: TensorDesc,
        epsilon: float,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        input_gradient_tensor: TensorDesc,
        mean_tensor: TensorDesc,
        variance_tensor: TensorDesc,
        scale_tensor: TensorDesc,
        epsilon: float,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Sequence[Integers | None] | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> tuple[jax.Array, ...]: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class BatchNormalizationTrainingGrad(Operator, op="BATCH_NORMALIZATION_TRAINING_GRAD"):
    """Computes the gradients of BATCH_NORMALIZATION_TRAINING, whose statistics are the input's."""

    input_tensor: TensorDesc
    input_gradient_tensor: TensorDesc
    mean_tensor: TensorDesc
    variance_tensor: TensorDesc
    scale_tensor: TensorDesc
    output_gradient_tensor: TensorDesc
    output_scale_gradient_tensor: TensorDesc
    output_bias_gradient_tensor: TensorDesc
    epsilon: float
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        input_gradient_tensor: TensorDesc,
        mean_tensor: TensorDesc,
        variance_tensor: TensorDesc,
        scale_tensor: TensorDesc,
        output_gradient_tensor: TensorDesc,
        output_scale_gradient_tensor: TensorDesc,
        output_bias_gradient_tensor: TensorDesc,
        epsilon: float,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        input_gradient_tensor: TensorDesc,
        mean_tensor: TensorDesc,
        variance_tensor: TensorDesc,
        scale_tensor: TensorDesc,
        epsilon: float,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Sequence[Integers | None] | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> tuple[jax.Array, ...]: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class MeanVarianceNormalization(Operator, op="MEAN_VARIANCE_NORMALIZATION"):
    """Normalizes each image, or each channel of it, by its mean and variance."""

    input_tensor: TensorDesc
    scale_tensor: TensorDesc | None
    bias_tensor: TensorDesc | None
    output_tensor: TensorDesc
    cross_channel: bool
    normalize_variance: bool
    epsilon: float
    fused_activation: FusedActivation | None
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        scale_tensor: TensorDesc | None = None,
        bias_tensor: TensorDesc | None = None,
        output_tensor: TensorDesc,
        cross_channel: bool,
        normalize_variance: bool,
        epsilon: float,
        fused_activation: FusedActivation | type[Operator] | str | None = None,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_tensor: TensorDesc | None = None,
        bias_tensor: TensorDesc | None = None,
        cross_channel: bool,
        normalize_variance: bool,
        epsilon: float,
        fused_activation: FusedActivation | type[Operator] | str | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class LocalResponseNormalization(Operator, op="LOCAL_RESPONSE_NORMALIZATION"):
    """Divides each element by a power of the sum of the squares around it."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    cross_channel: bool
    local_size: int
    alpha: float
    beta: float
    bias: float
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        cross_channel: bool,
        local_size: int,
        alpha: float,
        beta: float,
        bias: float,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        cross_channel: bool,
        local_size: int,
        alpha: float,
        beta: float,
        bias: float,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class LocalResponseNormalizationGrad(Operator, op="LOCAL_RESPONSE_NORMALIZATION_GRAD"):
    """Computes the gradient of LOCAL_RESPONSE_NORMALIZATION."""

    input_tensor: TensorDesc
    input_gradient_tensor: TensorDesc
    output_gradient_tensor: TensorDesc
    cross_channel: bool
    local_size: int
    alpha: float
    beta: float
    bias: float
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        input_gradient_tensor: TensorDesc,
        output_gradient_tensor: TensorDesc,
        cross_channel: bool,
        local_size: int,
        alpha: float,
        beta: float,
        bias: float,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        input_gradient_tensor: TensorDesc,
        cross_channel: bool,
        local_size: int,
        alpha: float,
        beta: float,
        bias: float,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class LpNormalization(Operator, op="LP_NORMALIZATION"):
    """Divides each element by the norm of the elements along an axis."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    axis: int
    epsilon: float
    p: int
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        axis: int,
        epsilon: float,
        p: int,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        axis: int,
        epsilon: float,
        p: int,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Rnn(Operator, op="RNN"):
    """Runs a simple recurrent network: each step activates a sum of its input and its last output."""

    input_tensor: TensorDesc
    weight_tensor: TensorDesc
    recurrence_tensor: TensorDesc
    bias_tensor: TensorDesc | None
    hidden_init_tensor: TensorDesc | None
    sequence_lengths_tensor: TensorDesc | None
    output_sequence_tensor: TensorDesc | None
    output_single_tensor: TensorDesc | None
    activation_descs: tuple[FusedActivation, ...]
    direction: RecurrentNetworkDirection
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        weight_tensor: TensorDesc,
        recurrence_tensor: TensorDesc,
        bias_tensor: TensorDesc | None = None,
        hidden_init_tensor: TensorDesc | None = None,
        sequence_lengths_tensor: TensorDesc | None = None,
        output_sequence_tensor: TensorDesc | None = None,
        output_single_tensor: TensorDesc | None = None,
        activation_descs: Sequence[FusedActivation | type[Operator] | str],
        direction: RecurrentNetworkDirection | _RecurrentNetworkDirection,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        weight_tensor: TensorDesc,
        recurrence_tensor: TensorDesc,
        bias_tensor: TensorDesc | None = None,
        hidden_init_tensor: TensorDesc | None = None,
        sequence_lengths_tensor: TensorDesc | None = None,
        activation_descs: Sequence[FusedActivation | type[Operator] | str],
        direction: RecurrentNetworkDirection | _RecurrentNetworkDirection,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Sequence[Integers | None] | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Lstm(Operator, op="LSTM"):
    """Runs a long short-term memory: gates decide what a cell takes in, forgets and gives out."""

    input_tensor: TensorDesc
    weight_tensor: TensorDesc
    recurrence_tensor: TensorDesc
    bias_tensor: TensorDesc | None
    hidden_init_tensor: TensorDesc | None
    cell_mem_init_tensor: TensorDesc | None
    sequence_lengths_tensor: TensorDesc | None
    peephole_tensor: TensorDesc | None
    output_sequence_tensor: TensorDesc | None
    output_single_tensor: TensorDesc | None
    output_cell_single_tensor: TensorDesc | None
    activation_descs: tuple[FusedActivation, ...]
    direction: RecurrentNetworkDirection
    clip_threshold: float
    use_clip_threshold: bool
    couple_input_forget: bool
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        weight_tensor: TensorDesc,
        recurrence_tensor: TensorDesc,
        bias_tensor: TensorDesc | None = None,
        hidden_init_tensor: TensorDesc | None = None,
        cell_mem_init_tensor: TensorDesc | None = None,
        sequence_lengths_tensor: TensorDesc | None = None,
        peephole_tensor: TensorDesc | None = None,
        output_sequence_tensor: TensorDesc | None = None,
        output_single_tensor: TensorDesc | None = None,
        output_cell_single_tensor: TensorDesc | None = None,
        activation_descs: Sequence[FusedActivation | type[Operator] | str],
        direction: RecurrentNetworkDirection | _RecurrentNetworkDirection,
        clip_threshold: float,
        use_clip_threshold: bool,
        couple_input_forget: bool,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        weight_tensor: TensorDesc,
        recurrence_tensor: TensorDesc,
        bias_tensor: TensorDesc | None = None,
        hidden_init_tensor: TensorDesc | None = None,
        cell_mem_init_tensor: TensorDesc | None = None,
        sequence_lengths_tensor: TensorDesc | None = None,
        peephole_tensor: TensorDesc | None = None,
        activation_descs: Sequence[FusedActivation | type[Operator] | str],
        direction: RecurrentNetworkDirection | _RecurrentNetworkDirection,
        clip_threshold: float,
        use_clip_threshold: bool,
        couple_input_forget: bool,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Sequence[Integers | None] | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Gru(Operator, op="GRU"):
    """Runs gated recurrent units: gates decide how much of the last output stays."""

    input_tensor: TensorDesc
    weight_tensor: TensorDesc
    recurrence_tensor: TensorDesc
    bias_tensor: TensorDesc | None
    hidden_init_tensor: TensorDesc | None
    sequence_lengths_tensor: TensorDesc | None
    output_sequence_tensor: TensorDesc | None
    output_single_tensor: TensorDesc | None
    activation_descs: tuple[FusedActivation, ...]
    direction: RecurrentNetworkDirection
    linear_before_reset: bool
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        weight_tensor: TensorDesc,
        recurrence_tensor: TensorDesc,
        bias_tensor: TensorDesc | None = None,
        hidden_init_tensor: TensorDesc | None = None,
        sequence_lengths_tensor: TensorDesc | None = None,
        output_sequence_tensor: TensorDesc | None = None,
        output_single_tensor: TensorDesc | None = None,
        activation_descs: Sequence[FusedActivation | type[Operator] | str],
        direction: RecurrentNetworkDirection | _RecurrentNetworkDirection,
        linear_before_reset: bool,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        weight_tensor: TensorDesc,
        recurrence_tensor: TensorDesc,
        bias_tensor: TensorDesc | None = None,
        hidden_init_tensor: TensorDesc | None = None,
        sequence_lengths_tensor: TensorDesc | None = None,
        activation_descs: Sequence[FusedActivation | type[Operator] | str],
        direction: RecurrentNetworkDirection | _RecurrentNetworkDirection,
        linear_before_reset: bool,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Sequence[Integers | None] | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseSign(Operator, op="ELEMENT_WISE_SIGN"):
    """Takes the sign: `1 if x > 0 else -1 if x < 0 else 0`; NaN gives 0."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseIsNan(Operator, op="ELEMENT_WISE_IS_NAN"):
    """Tells where an element is NaN: `x != x`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseNegate(Operator, op="ELEMENT_WISE_NEGATE"):
    """Changes the sign: `-x`. Choice: the smallest integer stays itself."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseErf(Operator, op="ELEMENT_WISE_ERF"):
    """Takes the error function: `erf(g(x))`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_bias: ScaleBias | None
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseSinh(Operator, op="ELEMENT_WISE_SINH"):
    """Takes the hyperbolic sine: `sinh(g(x))`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_bias: ScaleBias | None
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseCosh(Operator, op="ELEMENT_WISE_COSH"):
    """Takes the hyperbolic cosine: `cosh(g(x))`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_bias: ScaleBias | None
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseTanh(Operator, op="ELEMENT_WISE_TANH"):
    """Takes the hyperbolic tangent: `tanh(g(x))`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_bias: ScaleBias | None
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseAsinh(Operator, op="ELEMENT_WISE_ASINH"):
    """Takes the inverse hyperbolic sine: `asinh(g(x))`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_bias: ScaleBias | None
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseAcosh(Operator, op="ELEMENT_WISE_ACOSH"):
    """Takes the inverse hyperbolic cosine: `acosh(g(x))`; NaN below 1."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_bias: ScaleBias | None
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseAtanh(Operator, op="ELEMENT_WISE_ATANH"):
    """Takes the inverse hyperbolic tangent: `atanh(g(x))`; NaN beyond -1 and 1."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_bias: ScaleBias | None
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseIf(Operator, op="ELEMENT_WISE_IF"):
    """Chooses between two elements: `output = a if condition else b`."""

    condition_tensor: TensorDesc
    a_tensor: TensorDesc
    b_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        condition_tensor: TensorDesc,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        condition_tensor: TensorDesc,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseAdd1(Operator, op="ELEMENT_WISE_ADD1"):
    """Adds the elements of two tensors, and applies an activation: `output = activation(a + b)`."""

    a_tensor: TensorDesc
    b_tensor: TensorDesc
    output_tensor: TensorDesc
    fused_activation: FusedActivation | None
    def __init__(
        self,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_tensor: TensorDesc,
        fused_activation: FusedActivation | type[Operator] | str | None = None,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        fused_activation: FusedActivation | type[Operator] | str | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class MaxUnpooling(Operator, op="MAX_UNPOOLING"):
    """Writes each element at an index of an output that is 0 elsewhere."""

    input_tensor: TensorDesc
    indices_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        indices_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        indices_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class DiagonalMatrix(Operator, op="DIAGONAL_MATRIX"):
    """Makes matrices with one number along a diagonal, and 0 elsewhere."""

    output_tensor: TensorDesc
    offset: int
    value: float
    def __init__(
        self,
        *,
        output_tensor: TensorDesc,
        offset: int,
        value: float,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        offset: int,
        value: float,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Scatter(Operator, op="SCATTER"):
    """Writes one element for each index, into the index's own line along an axis."""

    input_tensor: TensorDesc
    indices_tensor: TensorDesc
    updates_tensor: TensorDesc
    output_tensor: TensorDesc
    axis: int
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        indices_tensor: TensorDesc,
        updates_tensor: TensorDesc,
        output_tensor: TensorDesc,
        axis: int,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        indices_tensor: TensorDesc,
        updates_tensor: TensorDesc,
        axis: int,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class OneHot(Operator, op="ONE_HOT"):
    """Makes lines in which one element differs from the others."""

    indices_tensor: TensorDesc
    values_tensor: TensorDesc
    output_tensor: TensorDesc
    axis: int
    def __init__(
        self,
        *,
        indices_tensor: TensorDesc,
        values_tensor: TensorDesc,
        output_tensor: TensorDesc,
        axis: int,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        indices_tensor: TensorDesc,
        values_tensor: TensorDesc,
        axis: int,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Resample(Operator, op="RESAMPLE"):
    """Resamples a tensor between the centres of its elements."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    interpolation_mode: InterpolationMode
    scales: tuple[float, ...]
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        interpolation_mode: InterpolationMode | _InterpolationMode,
        scales: Sequence[float],
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        interpolation_mode: InterpolationMode | _InterpolationMode,
        scales: Sequence[float],
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseBitShiftLeft(Operator, op="ELEMENT_WISE_BIT_SHIFT_LEFT"):
    """Shifts bits toward the highest: `a << b`, modulo 2^n for n bits."""

    a_tensor: TensorDesc
    b_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseBitShiftRight(Operator, op="ELEMENT_WISE_BIT_SHIFT_RIGHT"):
    """Shifts bits toward the lowest: `a >> b`."""

    a_tensor: TensorDesc
    b_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseRound(Operator, op="ELEMENT_WISE_ROUND"):
    """Rounds each element to a whole number of the same type."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    rounding_mode: RoundingMode
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        rounding_mode: RoundingMode | _RoundingMode,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        rounding_mode: RoundingMode | _RoundingMode,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseIsInfinity(Operator, op="ELEMENT_WISE_IS_INFINITY"):
    """Tells where an element is infinite, of one sign or of either."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    infinity_mode: IsInfinityMode
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        infinity_mode: IsInfinityMode | _IsInfinityMode,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        infinity_mode: IsInfinityMode | _IsInfinityMode,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseModulusTruncate(Operator, op="ELEMENT_WISE_MODULUS_TRUNCATE"):
    """Takes the remainder of a division toward zero: `output = a - b * trunc(a / b)`."""

    a_tensor: TensorDesc
    b_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseModulusFloor(Operator, op="ELEMENT_WISE_MODULUS_FLOOR"):
    """Takes the remainder of a division downward: `output = a - b * floor(a / b)`."""

    a_tensor: TensorDesc
    b_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class FillValueConstant(Operator, op="FILL_VALUE_CONSTANT"):
    """Fills a tensor with one number: `value` everywhere."""

    output_tensor: TensorDesc
    value_data_type: TensorDataType
    value: float
    def __init__(
        self,
        *,
        output_tensor: TensorDesc,
        value_data_type: TensorDataType | _TensorDataType,
        value: float,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        value_data_type: TensorDataType | _TensorDataType,
        value: float,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class FillValueSequence(Operator, op="FILL_VALUE_SEQUENCE"):
    """Fills a tensor with numbers at equal distances: `value_start + k * value_delta`."""

    output_tensor: TensorDesc
    value_data_type: TensorDataType
    value_start: float
    value_delta: float
    def __init__(
        self,
        *,
        output_tensor: TensorDesc,
        value_data_type: TensorDataType | _TensorDataType,
        value_start: float,
        value_delta: float,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        value_data_type: TensorDataType | _TensorDataType,
        value_start: float,
        value_delta: float,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class CumulativeSummation(Operator, op="CUMULATIVE_SUMMATION"):
    """Adds up elements along an axis, in each line."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    axis: int
    axis_direction: AxisDirection
    has_exclusive_sum: bool
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        axis: int,
        axis_direction: AxisDirection | _AxisDirection,
        has_exclusive_sum: bool,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        axis: int,
        axis_direction: AxisDirection | _AxisDirection,
        has_exclusive_sum: bool,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class CumulativeProduct(Operator, op="CUMULATIVE_PRODUCT"):
    """Multiplies elements along an axis, in each line."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    axis: int
    axis_direction: AxisDirection
    has_exclusive_product: bool
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        axis: int,
        axis_direction: AxisDirection | _AxisDirection,
        has_exclusive_product: bool,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        axis: int,
        axis_direction: AxisDirection | _AxisDirection,
        has_exclusive_product: bool,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ReverseSubsequences(Operator, op="REVERSE_SUBSEQUENCES"):
    """Reverses the first elements of each line along an axis."""

    input_tensor: TensorDesc
    sequence_lengths_tensor: TensorDesc
    output_tensor: TensorDesc
    axis: int
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        sequence_lengths_tensor: TensorDesc,
        output_tensor: TensorDesc,
        axis: int,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        sequence_lengths_tensor: TensorDesc,
        axis: int,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class GatherElements(Operator, op="GATHER_ELEMENTS"):
    """Reads one element for each index, in the index's own line along an axis."""

    input_tensor: TensorDesc
    indices_tensor: TensorDesc
    output_tensor: TensorDesc
    axis: int
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        indices_tensor: TensorDesc,
        output_tensor: TensorDesc,
        axis: int,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        indices_tensor: TensorDesc,
        axis: int,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class GatherNd(Operator, op="GATHER_ND"):
    """Reads slices, each at a list of indices."""

    input_tensor: TensorDesc
    indices_tensor: TensorDesc
    output_tensor: TensorDesc
    input_dimension_count: int
    indices_dimension_count: int
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        indices_tensor: TensorDesc,
        output_tensor: TensorDesc,
        input_dimension_count: int,
        indices_dimension_count: int,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        indices_tensor: TensorDesc,
        input_dimension_count: int,
        indices_dimension_count: int,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ScatterNd(Operator, op="SCATTER_ND"):
    """Writes slices, each at a list of indices."""

    input_tensor: TensorDesc
    indices_tensor: TensorDesc
    updates_tensor: TensorDesc
    output_tensor: TensorDesc
    input_dimension_count: int
    indices_dimension_count: int
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        indices_tensor: TensorDesc,
        updates_tensor: TensorDesc,
        output_tensor: TensorDesc,
        input_dimension_count: int,
        indices_dimension_count: int,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        indices_tensor: TensorDesc,
        updates_tensor: TensorDesc,
        input_dimension_count: int,
        indices_dimension_count: int,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class MaxPooling2(Operator, op="MAX_POOLING2"):
    """Finds the largest element of each window, which dilations may spread, and its index."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    output_indices_tensor: TensorDesc | None
    strides: tuple[int, ...]
    window_size: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    dilations: tuple[int, ...]
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        output_indices_tensor: TensorDesc | None = None,
        strides: Integers,
        window_size: Integers,
        start_padding: Integers,
        end_padding: Integers,
        dilations: Integers,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        strides: Integers,
        window_size: Integers,
        start_padding: Integers,
        end_padding: Integers,
        dilations: Integers,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Sequence[Integers | None] | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Slice1(Operator, op="SLICE1"):
    """Cuts a part out of a tensor, with strides that may be negative."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    input_window_offsets: tuple[int, ...]
    input_window_sizes: tuple[int, ...]
    input_window_strides: tuple[int, ...]
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        input_window_offsets: Integers,
        input_window_sizes: Integers,
        input_window_strides: Integers,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        input_window_offsets: Integers,
        input_window_sizes: Integers,
        input_window_strides: Integers,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class TopK1(Operator, op="TOP_K1"):
    """Takes the first elements of each line, sorted along an axis, and their indices."""

    input_tensor: TensorDesc
    output_value_tensor: TensorDesc
    output_index_tensor: TensorDesc
    axis: int
    k: int
    axis_direction: AxisDirection
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_value_tensor: TensorDesc,
        output_index_tensor: TensorDesc,
        axis: int,
        k: int,
        axis_direction: AxisDirection | _AxisDirection,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        axis: int,
        k: int,
        axis_direction: AxisDirection | _AxisDirection,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Sequence[Integers | None] | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> tuple[jax.Array, ...]: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class DepthToSpace1(Operator, op="DEPTH_TO_SPACE1"):
    """DEPTH_TO_SPACE with a choice of how channels are numbered; the inverse of SPACE_TO_DEPTH1."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    block_size: int
    order: DepthSpaceOrder
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        block_size: int,
        order: DepthSpaceOrder | _DepthSpaceOrder,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        block_size: int,
        order: DepthSpaceOrder | _DepthSpaceOrder,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class SpaceToDepth1(Operator, op="SPACE_TO_DEPTH1"):
    """SPACE_TO_DEPTH with a choice of how channels are numbered; the inverse of DEPTH_TO_SPACE1."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    block_size: int
    order: DepthSpaceOrder
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        block_size: int,
        order: DepthSpaceOrder | _DepthSpaceOrder,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        block_size: int,
        order: DepthSpaceOrder | _DepthSpaceOrder,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class MeanVarianceNormalization1(Operator, op="MEAN_VARIANCE_NORMALIZATION1"):
    """Normalizes elements by the mean and the variance over `axes`."""

    input_tensor: TensorDesc
    scale_tensor: TensorDesc | None
    bias_tensor: TensorDesc | None
    output_tensor: TensorDesc
    axes: tuple[int, ...]
    normalize_variance: bool
    epsilon: float
    fused_activation: FusedActivation | None
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        scale_tensor: TensorDesc | None = None,
        bias_tensor: TensorDesc | None = None,
        output_tensor: TensorDesc,
        axes: Integers,
        normalize_variance: bool,
        epsilon: float,
        fused_activation: FusedActivation | type[Operator] | str | None = None,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_tensor: TensorDesc | None = None,
        bias_tensor: TensorDesc | None = None,
        axes: Integers,
        normalize_variance: bool,
        epsilon: float,
        fused_activation: FusedActivation | type[Operator] | str | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Resample1(Operator, op="RESAMPLE1"):
    """Resamples a tensor on a grid with offsets."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    interpolation_mode: InterpolationMode
    scales: tuple[float, ...]
    input_pixel_offsets: tuple[float, ...]
    output_pixel_offsets: tuple[float, ...]
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        interpolation_mode: InterpolationMode | _InterpolationMode,
        scales: Sequence[float],
        input_pixel_offsets: Sequence[float],
        output_pixel_offsets: Sequence[float],
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        interpolation_mode: InterpolationMode | _InterpolationMode,
        scales: Sequence[float],
        input_pixel_offsets: Sequence[float],
        output_pixel_offsets: Sequence[float],
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class MatrixMultiplyInteger(Operator, op="MATRIX_MULTIPLY_INTEGER"):
    """Multiplies matrices of 8-bit integers to INT32."""

    a_tensor: TensorDesc
    a_zero_point_tensor: TensorDesc | None
    b_tensor: TensorDesc
    b_zero_point_tensor: TensorDesc | None
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        a_tensor: TensorDesc,
        a_zero_point_tensor: TensorDesc | None = None,
        b_tensor: TensorDesc,
        b_zero_point_tensor: TensorDesc | None = None,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        a_tensor: TensorDesc,
        a_zero_point_tensor: TensorDesc | None = None,
        b_tensor: TensorDesc,
        b_zero_point_tensor: TensorDesc | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class QuantizedLinearMatrixMultiply(Operator, op="QUANTIZED_LINEAR_MATRIX_MULTIPLY"):
    """Multiplies matrices of quantized numbers, and quantizes the product."""

    a_tensor: TensorDesc
    a_scale_tensor: TensorDesc
    a_zero_point_tensor: TensorDesc | None
    b_tensor: TensorDesc
    b_scale_tensor: TensorDesc
    b_zero_point_tensor: TensorDesc | None
    output_scale_tensor: TensorDesc
    output_zero_point_tensor: TensorDesc | None
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        a_tensor: TensorDesc,
        a_scale_tensor: TensorDesc,
        a_zero_point_tensor: TensorDesc | None = None,
        b_tensor: TensorDesc,
        b_scale_tensor: TensorDesc,
        b_zero_point_tensor: TensorDesc | None = None,
        output_scale_tensor: TensorDesc,
        output_zero_point_tensor: TensorDesc | None = None,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        a_tensor: TensorDesc,
        a_scale_tensor: TensorDesc,
        a_zero_point_tensor: TensorDesc | None = None,
        b_tensor: TensorDesc,
        b_scale_tensor: TensorDesc,
        b_zero_point_tensor: TensorDesc | None = None,
        output_scale_tensor: TensorDesc,
        output_zero_point_tensor: TensorDesc | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ConvolutionInteger(Operator, op="CONVOLUTION_INTEGER"):
    """Convolves integers of 8 bits to INT32."""

    input_tensor: TensorDesc
    input_zero_point_tensor: TensorDesc | None
    filter_tensor: TensorDesc
    filter_zero_point_tensor: TensorDesc | None
    output_tensor: TensorDesc
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    group_count: int
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        input_zero_point_tensor: TensorDesc | None = None,
        filter_tensor: TensorDesc,
        filter_zero_point_tensor: TensorDesc | None = None,
        output_tensor: TensorDesc,
        strides: Integers,
        dilations: Integers,
        start_padding: Integers,
        end_padding: Integers,
        group_count: int,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        input_zero_point_tensor: TensorDesc | None = None,
        filter_tensor: TensorDesc,
        filter_zero_point_tensor: TensorDesc | None = None,
        strides: Integers,
        dilations: Integers,
        start_padding: Integers,
        end_padding: Integers,
        group_count: int,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class QuantizedLinearConvolution(Operator, op="QUANTIZED_LINEAR_CONVOLUTION"):
    """Convolves two quantized tensors, and quantizes the result."""

    input_tensor: TensorDesc
    input_scale_tensor: TensorDesc
    input_zero_point_tensor: TensorDesc | None
    filter_tensor: TensorDesc
    filter_scale_tensor: TensorDesc
    filter_zero_point_tensor: TensorDesc | None
    bias_tensor: TensorDesc | None
    output_scale_tensor: TensorDesc
    output_zero_point_tensor: TensorDesc | None
    output_tensor: TensorDesc
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    group_count: int
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        input_scale_tensor: TensorDesc,
        input_zero_point_tensor: TensorDesc | None = None,
        filter_tensor: TensorDesc,
        filter_scale_tensor: TensorDesc,
        filter_zero_point_tensor: TensorDesc | None = None,
        bias_tensor: TensorDesc | None = None,
        output_scale_tensor: TensorDesc,
        output_zero_point_tensor: TensorDesc | None = None,
        output_tensor: TensorDesc,
        strides: Integers,
        dilations: Integers,
        start_padding: Integers,
        end_padding: Integers,
        group_count: int,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        input_scale_tensor: TensorDesc,
        input_zero_point_tensor: TensorDesc | None = None,
        filter_tensor: TensorDesc,
        filter_scale_tensor: TensorDesc,
        filter_zero_point_tensor: TensorDesc | None = None,
        bias_tensor: TensorDesc | None = None,
        output_scale_tensor: TensorDesc,
        output_zero_point_tensor: TensorDesc | None = None,
        strides: Integers,
        dilations: Integers,
        start_padding: Integers,
        end_padding: Integers,
        group_count: int,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseBitAnd(Operator, op="ELEMENT_WISE_BIT_AND"):
    """Sets the bits that are 1 in both elements: `a & b`."""

    a_tensor: TensorDesc
    b_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseBitOr(Operator, op="ELEMENT_WISE_BIT_OR"):
    """Sets the bits that are 1 in at least one of two elements: `a | b`."""

    a_tensor: TensorDesc
    b_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseBitXor(Operator, op="ELEMENT_WISE_BIT_XOR"):
    """Sets the bits that differ between two elements: `a ^ b`."""

    a_tensor: TensorDesc
    b_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        a_tensor: TensorDesc,
        b_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseBitNot(Operator, op="ELEMENT_WISE_BIT_NOT"):
    """Inverts every bit of each element: `~x`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseBitCount(Operator, op="ELEMENT_WISE_BIT_COUNT"):
    """Counts the bits of each element that are 1: `popcount(x)`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ActivationReluGrad(Operator, op="ACTIVATION_RELU_GRAD"):
    """Passes the gradient where the input of ACTIVATION_RELU is above 0."""

    input_tensor: TensorDesc
    input_gradient_tensor: TensorDesc
    output_gradient_tensor: TensorDesc
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        input_gradient_tensor: TensorDesc,
        output_gradient_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        input_gradient_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class AveragePoolingGrad(Operator, op="AVERAGE_POOLING_GRAD"):
    """Computes the gradient of the input of AVERAGE_POOLING from that of its output."""

    input_gradient_tensor: TensorDesc
    output_gradient_tensor: TensorDesc
    strides: tuple[int, ...]
    window_size: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    include_padding: bool
    def __init__(
        self,
        *,
        input_gradient_tensor: TensorDesc,
        output_gradient_tensor: TensorDesc,
        strides: Integers,
        window_size: Integers,
        start_padding: Integers,
        end_padding: Integers,
        include_padding: bool,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_gradient_tensor: TensorDesc,
        strides: Integers,
        window_size: Integers,
        start_padding: Integers,
        end_padding: Integers,
        include_padding: bool,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class MaxPoolingGrad(Operator, op="MAX_POOLING_GRAD"):
    """Computes the gradient of the input of MAX_POOLING2 from that of its output."""

    input_tensor: TensorDesc
    input_gradient_tensor: TensorDesc
    output_gradient_tensor: TensorDesc
    strides: tuple[int, ...]
    window_size: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    dilations: tuple[int, ...]
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        input_gradient_tensor: TensorDesc,
        output_gradient_tensor: TensorDesc,
        strides: Integers,
        window_size: Integers,
        start_padding: Integers,
        end_padding: Integers,
        dilations: Integers,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        input_gradient_tensor: TensorDesc,
        strides: Integers,
        window_size: Integers,
        start_padding: Integers,
        end_padding: Integers,
        dilations: Integers,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class RandomGenerator(Operator, op="RANDOM_GENERATOR"):
    """Makes random UINT32 numbers, evenly distributed, from a counter and a key."""

    input_state_tensor: TensorDesc
    output_tensor: TensorDesc
    output_state_tensor: TensorDesc | None
    type: RandomGeneratorType
    def __init__(
        self,
        *,
        input_state_tensor: TensorDesc,
        output_tensor: TensorDesc,
        output_state_tensor: TensorDesc | None = None,
        type: RandomGeneratorType | _RandomGeneratorType,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_state_tensor: TensorDesc,
        type: RandomGeneratorType | _RandomGeneratorType,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Sequence[Integers | None] | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class NonzeroCoordinates(Operator, op="NONZERO_COORDINATES"):
    """Finds the elements that are not zero: their number, and the coordinates of each."""

    input_tensor: TensorDesc
    output_count_tensor: TensorDesc
    output_coordinates_tensor: TensorDesc
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_count_tensor: TensorDesc,
        output_coordinates_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Sequence[Integers | None] | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> tuple[jax.Array, ...]: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ResampleGrad(Operator, op="RESAMPLE_GRAD"):
    """Computes the gradient of RESAMPLE1, given the gradient of its output."""

    input_gradient_tensor: TensorDesc
    output_gradient_tensor: TensorDesc
    interpolation_mode: InterpolationMode
    scales: tuple[float, ...]
    input_pixel_offsets: tuple[float, ...]
    output_pixel_offsets: tuple[float, ...]
    def __init__(
        self,
        *,
        input_gradient_tensor: TensorDesc,
        output_gradient_tensor: TensorDesc,
        interpolation_mode: InterpolationMode | _InterpolationMode,
        scales: Sequence[float],
        input_pixel_offsets: Sequence[float],
        output_pixel_offsets: Sequence[float],
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_gradient_tensor: TensorDesc,
        interpolation_mode: InterpolationMode | _InterpolationMode,
        scales: Sequence[float],
        input_pixel_offsets: Sequence[float],
        output_pixel_offsets: Sequence[float],
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class SliceGrad(Operator, op="SLICE_GRAD"):
    """Computes the gradient of SLICE1, given the gradient of its output."""

    input_gradient_tensor: TensorDesc
    output_gradient_tensor: TensorDesc
    input_window_offsets: tuple[int, ...]
    input_window_sizes: tuple[int, ...]
    input_window_strides: tuple[int, ...]
    def __init__(
        self,
        *,
        input_gradient_tensor: TensorDesc,
        output_gradient_tensor: TensorDesc,
        input_window_offsets: Integers,
        input_window_sizes: Integers,
        input_window_strides: Integers,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_gradient_tensor: TensorDesc,
        input_window_offsets: Integers,
        input_window_sizes: Integers,
        input_window_strides: Integers,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class AdamOptimizer(Operator, op="ADAM_OPTIMIZER"):
    """Updates parameters by their gradient, as the optimizer Adam does."""

    input_parameters_tensor: TensorDesc
    input_first_moment_tensor: TensorDesc
    input_second_moment_tensor: TensorDesc
    gradient_tensor: TensorDesc
    training_step_tensor: TensorDesc
    output_parameters_tensor: TensorDesc
    output_first_moment_tensor: TensorDesc
    output_second_moment_tensor: TensorDesc
    learning_rate: float
    beta1: float
    beta2: float
    epsilon: float
    def __init__(
        self,
        *,
        input_parameters_tensor: TensorDesc,
        input_first_moment_tensor: TensorDesc,
        input_second_moment_tensor: TensorDesc,
        gradient_tensor: TensorDesc,
        training_step_tensor: TensorDesc,
        output_parameters_tensor: TensorDesc,
        output_first_moment_tensor: TensorDesc,
        output_second_moment_tensor: TensorDesc,
        learning_rate: float,
        beta1: float,
        beta2: float,
        epsilon: float,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_parameters_tensor: TensorDesc,
        input_first_moment_tensor: TensorDesc,
        input_second_moment_tensor: TensorDesc,
        gradient_tensor: TensorDesc,
        training_step_tensor: TensorDesc,
        learning_rate: float,
        beta1: float,
        beta2: float,
        epsilon: float,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Sequence[Integers | None] | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> tuple[jax.Array, ...]: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class RoiAlign(Operator, op="ROI_ALIGN"):
    """Samples each region of a picture, at the centres of a grid."""

    input_tensor: TensorDesc
    roi_tensor: TensorDesc
    batch_indices_tensor: TensorDesc
    output_tensor: TensorDesc
    reduction_function: ReduceFunction
    interpolation_mode: InterpolationMode
    spatial_scale_x: float
    spatial_scale_y: float
    out_of_bounds_input_value: float
    minimum_samples_per_output: int
    maximum_samples_per_output: int
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        roi_tensor: TensorDesc,
        batch_indices_tensor: TensorDesc,
        output_tensor: TensorDesc,
        reduction_function: ReduceFunction | _ReduceFunction,
        interpolation_mode: InterpolationMode | _InterpolationMode,
        spatial_scale_x: float,
        spatial_scale_y: float,
        out_of_bounds_input_value: float,
        minimum_samples_per_output: int,
        maximum_samples_per_output: int,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        roi_tensor: TensorDesc,
        batch_indices_tensor: TensorDesc,
        reduction_function: ReduceFunction | _ReduceFunction,
        interpolation_mode: InterpolationMode | _InterpolationMode,
        spatial_scale_x: float,
        spatial_scale_y: float,
        out_of_bounds_input_value: float,
        minimum_samples_per_output: int,
        maximum_samples_per_output: int,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class RoiAlign1(Operator, op="ROI_ALIGN1"):
    """Samples each region of a picture, on a grid with offsets."""

    input_tensor: TensorDesc
    roi_tensor: TensorDesc
    batch_indices_tensor: TensorDesc
    output_tensor: TensorDesc
    reduction_function: ReduceFunction
    interpolation_mode: InterpolationMode
    spatial_scale_x: float
    spatial_scale_y: float
    input_pixel_offset: float
    output_pixel_offset: float
    out_of_bounds_input_value: float
    minimum_samples_per_output: int
    maximum_samples_per_output: int
    align_regions_to_corners: bool
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        roi_tensor: TensorDesc,
        batch_indices_tensor: TensorDesc,
        output_tensor: TensorDesc,
        reduction_function: ReduceFunction | _ReduceFunction,
        interpolation_mode: InterpolationMode | _InterpolationMode,
        spatial_scale_x: float,
        spatial_scale_y: float,
        input_pixel_offset: float,
        output_pixel_offset: float,
        out_of_bounds_input_value: float,
        minimum_samples_per_output: int,
        maximum_samples_per_output: int,
        align_regions_to_corners: bool,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        roi_tensor: TensorDesc,
        batch_indices_tensor: TensorDesc,
        reduction_function: ReduceFunction | _ReduceFunction,
        interpolation_mode: InterpolationMode | _InterpolationMode,
        spatial_scale_x: float,
        spatial_scale_y: float,
        input_pixel_offset: float,
        output_pixel_offset: float,
        out_of_bounds_input_value: float,
        minimum_samples_per_output: int,
        maximum_samples_per_output: int,
        align_regions_to_corners: bool,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class GatherNd1(Operator, op="GATHER_ND1"):
    """Reads slices, each at a list of indices, from the same batch."""

    input_tensor: TensorDesc
    indices_tensor: TensorDesc
    output_tensor: TensorDesc
    input_dimension_count: int
    indices_dimension_count: int
    batch_dimension_count: int
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        indices_tensor: TensorDesc,
        output_tensor: TensorDesc,
        input_dimension_count: int,
        indices_dimension_count: int,
        batch_dimension_count: int,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        indices_tensor: TensorDesc,
        input_dimension_count: int,
        indices_dimension_count: int,
        batch_dimension_count: int,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class DynamicQuantizeLinear(Operator, op="DYNAMIC_QUANTIZE_LINEAR"):
    """Quantizes a tensor with one scale and one zero point, which follow from its range."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    output_scale_tensor: TensorDesc
    output_zero_point_tensor: TensorDesc
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        output_scale_tensor: TensorDesc,
        output_zero_point_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Sequence[Integers | None] | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> tuple[jax.Array, ...]: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseQuantizedLinearAdd(Operator, op="ELEMENT_WISE_QUANTIZED_LINEAR_ADD"):
    """Adds two quantized tensors, and quantizes the sum."""

    a_tensor: TensorDesc
    a_scale_tensor: TensorDesc
    a_zero_point_tensor: TensorDesc | None
    b_tensor: TensorDesc
    b_scale_tensor: TensorDesc
    b_zero_point_tensor: TensorDesc | None
    output_scale_tensor: TensorDesc
    output_zero_point_tensor: TensorDesc | None
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        a_tensor: TensorDesc,
        a_scale_tensor: TensorDesc,
        a_zero_point_tensor: TensorDesc | None = None,
        b_tensor: TensorDesc,
        b_scale_tensor: TensorDesc,
        b_zero_point_tensor: TensorDesc | None = None,
        output_scale_tensor: TensorDesc,
        output_zero_point_tensor: TensorDesc | None = None,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        a_tensor: TensorDesc,
        a_scale_tensor: TensorDesc,
        a_zero_point_tensor: TensorDesc | None = None,
        b_tensor: TensorDesc,
        b_scale_tensor: TensorDesc,
        b_zero_point_tensor: TensorDesc | None = None,
        output_scale_tensor: TensorDesc,
        output_zero_point_tensor: TensorDesc | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class RoiAlignGrad(Operator, op="ROI_ALIGN_GRAD"):
    """Computes the gradients of ROI_ALIGN1, given the gradient of its output."""

    input_tensor: TensorDesc | None
    input_gradient_tensor: TensorDesc
    roi_tensor: TensorDesc
    batch_indices_tensor: TensorDesc
    output_gradient_tensor: TensorDesc | None
    output_roi_gradient_tensor: TensorDesc | None
    reduction_function: ReduceFunction
    interpolation_mode: InterpolationMode
    spatial_scale_x: float
    spatial_scale_y: float
    input_pixel_offset: float
    output_pixel_offset: float
    minimum_samples_per_output: int
    maximum_samples_per_output: int
    align_regions_to_corners: bool
    def __init__(
        self,
        *,
        input_tensor: TensorDesc | None = None,
        input_gradient_tensor: TensorDesc,
        roi_tensor: TensorDesc,
        batch_indices_tensor: TensorDesc,
        output_gradient_tensor: TensorDesc | None = None,
        output_roi_gradient_tensor: TensorDesc | None = None,
        reduction_function: ReduceFunction | _ReduceFunction,
        interpolation_mode: InterpolationMode | _InterpolationMode,
        spatial_scale_x: float,
        spatial_scale_y: float,
        input_pixel_offset: float,
        output_pixel_offset: float,
        minimum_samples_per_output: int,
        maximum_samples_per_output: int,
        align_regions_to_corners: bool,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc | None = None,
        input_gradient_tensor: TensorDesc,
        roi_tensor: TensorDesc,
        batch_indices_tensor: TensorDesc,
        reduction_function: ReduceFunction | _ReduceFunction,
        interpolation_mode: InterpolationMode | _InterpolationMode,
        spatial_scale_x: float,
        spatial_scale_y: float,
        input_pixel_offset: float,
        output_pixel_offset: float,
        minimum_samples_per_output: int,
        maximum_samples_per_output: int,
        align_regions_to_corners: bool,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Sequence[Integers | None] | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class BatchNormalizationTraining(Operator, op="BATCH_NORMALIZATION_TRAINING"):
    """Normalizes elements by their own mean and variance."""

    input_tensor: TensorDesc
    scale_tensor: TensorDesc
    bias_tensor: TensorDesc
    fused_add_tensor: TensorDesc | None
    output_tensor: TensorDesc
    output_mean_tensor: TensorDesc
    output_variance_tensor: TensorDesc
    epsilon: float
    fused_activation: FusedActivation | None
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        scale_tensor: TensorDesc,
        bias_tensor: TensorDesc,
        fused_add_tensor: TensorDesc | None = None,
        output_tensor: TensorDesc,
        output_mean_tensor: TensorDesc,
        output_variance_tensor: TensorDesc,
        epsilon: float,
        fused_activation: FusedActivation | type[Operator] | str | None = None,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_tensor: TensorDesc,
        bias_tensor: TensorDesc,
        fused_add_tensor: TensorDesc | None = None,
        epsilon: float,
        fused_activation: FusedActivation | type[Operator] | str | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Sequence[Integers | None] | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> tuple[jax.Array, ...]: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Resample2(Operator, op="RESAMPLE2"):
    """Resamples a tensor, where NEAREST_NEIGHBOR rounds up or down."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    interpolation_mode: InterpolationMode
    rounding_direction: AxisDirection
    scales: tuple[float, ...]
    input_pixel_offsets: tuple[float, ...]
    output_pixel_offsets: tuple[float, ...]
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        interpolation_mode: InterpolationMode | _InterpolationMode,
        rounding_direction: AxisDirection | _AxisDirection,
        scales: Sequence[float],
        input_pixel_offsets: Sequence[float],
        output_pixel_offsets: Sequence[float],
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        interpolation_mode: InterpolationMode | _InterpolationMode,
        rounding_direction: AxisDirection | _AxisDirection,
        scales: Sequence[float],
        input_pixel_offsets: Sequence[float],
        output_pixel_offsets: Sequence[float],
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ResampleGrad1(Operator, op="RESAMPLE_GRAD1"):
    """Computes the gradient of RESAMPLE2, given the gradient of its output."""

    input_gradient_tensor: TensorDesc
    output_gradient_tensor: TensorDesc
    interpolation_mode: InterpolationMode
    rounding_direction: AxisDirection
    scales: tuple[float, ...]
    input_pixel_offsets: tuple[float, ...]
    output_pixel_offsets: tuple[float, ...]
    def __init__(
        self,
        *,
        input_gradient_tensor: TensorDesc,
        output_gradient_tensor: TensorDesc,
        interpolation_mode: InterpolationMode | _InterpolationMode,
        rounding_direction: AxisDirection | _AxisDirection,
        scales: Sequence[float],
        input_pixel_offsets: Sequence[float],
        output_pixel_offsets: Sequence[float],
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_gradient_tensor: TensorDesc,
        interpolation_mode: InterpolationMode | _InterpolationMode,
        rounding_direction: AxisDirection | _AxisDirection,
        scales: Sequence[float],
        input_pixel_offsets: Sequence[float],
        output_pixel_offsets: Sequence[float],
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class DiagonalMatrix1(Operator, op="DIAGONAL_MATRIX1"):
    """Writes one number on a band of diagonals of matrices."""

    input_tensor: TensorDesc | None
    output_tensor: TensorDesc
    value_data_type: TensorDataType
    value: float
    diagonal_fill_begin: int
    diagonal_fill_end: int
    def __init__(
        self,
        *,
        input_tensor: TensorDesc | None = None,
        output_tensor: TensorDesc,
        value_data_type: TensorDataType | _TensorDataType,
        value: float,
        diagonal_fill_begin: int,
        diagonal_fill_end: int,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc | None = None,
        value_data_type: TensorDataType | _TensorDataType,
        value: float,
        diagonal_fill_begin: int,
        diagonal_fill_end: int,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class MultiheadAttention(Operator, op="MULTIHEAD_ATTENTION"):
    """Weights values by how well each query agrees with their keys, head by head."""

    query_tensor: TensorDesc | None
    key_tensor: TensorDesc | None
    value_tensor: TensorDesc | None
    stacked_query_key_tensor: TensorDesc | None
    stacked_key_value_tensor: TensorDesc | None
    stacked_query_key_value_tensor: TensorDesc | None
    bias_tensor: TensorDesc | None
    mask_tensor: TensorDesc | None
    relative_position_bias_tensor: TensorDesc | None
    past_key_tensor: TensorDesc | None
    past_value_tensor: TensorDesc | None
    output_tensor: TensorDesc
    output_present_key_tensor: TensorDesc | None
    output_present_value_tensor: TensorDesc | None
    scale: float
    mask_filter_value: float
    head_count: int
    mask_type: MultiheadAttentionMaskType
    def __init__(
        self,
        *,
        query_tensor: TensorDesc | None = None,
        key_tensor: TensorDesc | None = None,
        value_tensor: TensorDesc | None = None,
        stacked_query_key_tensor: TensorDesc | None = None,
        stacked_key_value_tensor: TensorDesc | None = None,
        stacked_query_key_value_tensor: TensorDesc | None = None,
        bias_tensor: TensorDesc | None = None,
        mask_tensor: TensorDesc | None = None,
        relative_position_bias_tensor: TensorDesc | None = None,
        past_key_tensor: TensorDesc | None = None,
        past_value_tensor: TensorDesc | None = None,
        output_tensor: TensorDesc,
        output_present_key_tensor: TensorDesc | None = None,
        output_present_value_tensor: TensorDesc | None = None,
        scale: float,
        mask_filter_value: float,
        head_count: int,
        mask_type: MultiheadAttentionMaskType | _MultiheadAttentionMaskType,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        query_tensor: TensorDesc | None = None,
        key_tensor: TensorDesc | None = None,
        value_tensor: TensorDesc | None = None,
        stacked_query_key_tensor: TensorDesc | None = None,
        stacked_key_value_tensor: TensorDesc | None = None,
        stacked_query_key_value_tensor: TensorDesc | None = None,
        bias_tensor: TensorDesc | None = None,
        mask_tensor: TensorDesc | None = None,
        relative_position_bias_tensor: TensorDesc | None = None,
        past_key_tensor: TensorDesc | None = None,
        past_value_tensor: TensorDesc | None = None,
        scale: float,
        mask_filter_value: float,
        head_count: int,
        mask_type: MultiheadAttentionMaskType | _MultiheadAttentionMaskType,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Sequence[Integers | None] | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class QuantizedLinearAveragePooling(Operator, op="QUANTIZED_LINEAR_AVERAGE_POOLING"):
    """Averages the quantized elements of each window, and quantizes the mean."""

    input_tensor: TensorDesc
    input_scale_tensor: TensorDesc
    input_zero_point_tensor: TensorDesc | None
    output_scale_tensor: TensorDesc
    output_zero_point_tensor: TensorDesc | None
    output_tensor: TensorDesc
    strides: tuple[int, ...]
    window_size: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    dilations: tuple[int, ...]
    include_padding: bool
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        input_scale_tensor: TensorDesc,
        input_zero_point_tensor: TensorDesc | None = None,
        output_scale_tensor: TensorDesc,
        output_zero_point_tensor: TensorDesc | None = None,
        output_tensor: TensorDesc,
        strides: Integers,
        window_size: Integers,
        start_padding: Integers,
        end_padding: Integers,
        dilations: Integers,
        include_padding: bool,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        input_scale_tensor: TensorDesc,
        input_zero_point_tensor: TensorDesc | None = None,
        output_scale_tensor: TensorDesc,
        output_zero_point_tensor: TensorDesc | None = None,
        strides: Integers,
        window_size: Integers,
        start_padding: Integers,
        end_padding: Integers,
        dilations: Integers,
        include_padding: bool,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class MatrixMultiplyIntegerToFloat(Operator, op="MATRIX_MULTIPLY_INTEGER_TO_FLOAT"):
    """Multiplies matrices of quantized numbers to floats, and adds a bias."""

    a_tensor: TensorDesc
    a_scale_tensor: TensorDesc
    a_zero_point_tensor: TensorDesc | None
    b_tensor: TensorDesc
    b_scale_tensor: TensorDesc
    b_zero_point_tensor: TensorDesc | None
    bias_tensor: TensorDesc | None
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        a_tensor: TensorDesc,
        a_scale_tensor: TensorDesc,
        a_zero_point_tensor: TensorDesc | None = None,
        b_tensor: TensorDesc,
        b_scale_tensor: TensorDesc,
        b_zero_point_tensor: TensorDesc | None = None,
        bias_tensor: TensorDesc | None = None,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        a_tensor: TensorDesc,
        a_scale_tensor: TensorDesc,
        a_zero_point_tensor: TensorDesc | None = None,
        b_tensor: TensorDesc,
        b_scale_tensor: TensorDesc,
        b_zero_point_tensor: TensorDesc | None = None,
        bias_tensor: TensorDesc | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class MeanVarianceNormalization2(Operator, op="MEAN_VARIANCE_NORMALIZATION2"):
    """Normalizes elements by the mean and the variance over `axes`, or by one of these."""

    input_tensor: TensorDesc
    scale_tensor: TensorDesc | None
    bias_tensor: TensorDesc | None
    output_tensor: TensorDesc
    axes: tuple[int, ...]
    use_mean: bool
    use_variance: bool
    epsilon: float
    fused_activation: FusedActivation | None
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        scale_tensor: TensorDesc | None = None,
        bias_tensor: TensorDesc | None = None,
        output_tensor: TensorDesc,
        axes: Integers,
        use_mean: bool,
        use_variance: bool,
        epsilon: float,
        fused_activation: FusedActivation | type[Operator] | str | None = None,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_tensor: TensorDesc | None = None,
        bias_tensor: TensorDesc | None = None,
        axes: Integers,
        use_mean: bool,
        use_variance: bool,
        epsilon: float,
        fused_activation: FusedActivation | type[Operator] | str | None = None,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class MultiheadAttention1(Operator, op="MULTIHEAD_ATTENTION1"):
    """Weights values by how well each query agrees with their keys, which query heads may share."""

    query_tensor: TensorDesc | None
    key_tensor: TensorDesc | None
    value_tensor: TensorDesc | None
    stacked_query_key_tensor: TensorDesc | None
    stacked_key_value_tensor: TensorDesc | None
    stacked_query_key_value_tensor: TensorDesc | None
    bias_tensor: TensorDesc | None
    mask_tensor: TensorDesc | None
    relative_position_bias_tensor: TensorDesc | None
    past_key_tensor: TensorDesc | None
    past_value_tensor: TensorDesc | None
    past_sequence_lengths_tensor: TensorDesc | None
    output_tensor: TensorDesc
    output_present_key_tensor: TensorDesc | None
    output_present_value_tensor: TensorDesc | None
    scale: float
    mask_filter_value: float
    query_head_count: int
    key_value_head_count: int
    mask_type: MultiheadAttentionMaskType
    def __init__(
        self,
        *,
        query_tensor: TensorDesc | None = None,
        key_tensor: TensorDesc | None = None,
        value_tensor: TensorDesc | None = None,
        stacked_query_key_tensor: TensorDesc | None = None,
        stacked_key_value_tensor: TensorDesc | None = None,
        stacked_query_key_value_tensor: TensorDesc | None = None,
        bias_tensor: TensorDesc | None = None,
        mask_tensor: TensorDesc | None = None,
        relative_position_bias_tensor: TensorDesc | None = None,
        past_key_tensor: TensorDesc | None = None,
        past_value_tensor: TensorDesc | None = None,
        past_sequence_lengths_tensor: TensorDesc | None = None,
        output_tensor: TensorDesc,
        output_present_key_tensor: TensorDesc | None = None,
        output_present_value_tensor: TensorDesc | None = None,
        scale: float,
        mask_filter_value: float,
        query_head_count: int,
        key_value_head_count: int,
        mask_type: MultiheadAttentionMaskType | _MultiheadAttentionMaskType,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        query_tensor: TensorDesc | None = None,
        key_tensor: TensorDesc | None = None,
        value_tensor: TensorDesc | None = None,
        stacked_query_key_tensor: TensorDesc | None = None,
        stacked_key_value_tensor: TensorDesc | None = None,
        stacked_query_key_value_tensor: TensorDesc | None = None,
        bias_tensor: TensorDesc | None = None,
        mask_tensor: TensorDesc | None = None,
        relative_position_bias_tensor: TensorDesc | None = None,
        past_key_tensor: TensorDesc | None = None,
        past_value_tensor: TensorDesc | None = None,
        past_sequence_lengths_tensor: TensorDesc | None = None,
        scale: float,
        mask_filter_value: float,
        query_head_count: int,
        key_value_head_count: int,
        mask_type: MultiheadAttentionMaskType | _MultiheadAttentionMaskType,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Sequence[Integers | None] | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Quantize(Operator, op="QUANTIZE"):
    """Quantizes blocks of elements, to 4 or 8 bits."""

    input_tensor: TensorDesc
    quantization_type: QuantizationType
    quantization_tensors: tuple[TensorDesc, ...]
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        quantization_type: QuantizationType | _QuantizationType,
        quantization_tensors: Sequence[TensorDesc],
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        quantization_type: QuantizationType | _QuantizationType,
        quantization_tensors: Sequence[TensorDesc],
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Dequantize(Operator, op="DEQUANTIZE"):
    """Computes what integers of 4 or 8 bits stand for, in blocks."""

    input_tensor: TensorDesc
    quantization_type: QuantizationType
    quantization_tensors: tuple[TensorDesc, ...]
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        quantization_type: QuantizationType | _QuantizationType,
        quantization_tensors: Sequence[TensorDesc],
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        quantization_type: QuantizationType | _QuantizationType,
        quantization_tensors: Sequence[TensorDesc],
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ActivationElu(Operator, op="ACTIVATION_ELU"):
    """Bends negative elements to an exponential: `x if x >= 0 else alpha * (exp(x) - 1)`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    alpha: float
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        alpha: float,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        alpha: float,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ActivationCelu(Operator, op="ACTIVATION_CELU"):
    """Bends negative elements smoothly: `max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    alpha: float
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        alpha: float,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        alpha: float,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ActivationHardmax(Operator, op="ACTIVATION_HARDMAX"):
    """Puts 1 at the first maximum of each row, and 0 elsewhere."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ActivationHardmax1(Operator, op="ACTIVATION_HARDMAX1"):
    """Puts 1 at the first maximum of the elements along axes, and 0 elsewhere."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    axes: tuple[int, ...]
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        axes: Integers,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        axes: Integers,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ActivationHardSigmoid(Operator, op="ACTIVATION_HARD_SIGMOID"):
    """Approximates a sigmoid by three lines: `max(0, min(alpha * x + beta, 1))`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    alpha: float
    beta: float
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        alpha: float,
        beta: float,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        alpha: float,
        beta: float,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ActivationIdentity(Operator, op="ACTIVATION_IDENTITY"):
    """Copies each element: `x`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ActivationLeakyRelu(Operator, op="ACTIVATION_LEAKY_RELU"):
    """Scales negative elements: `x if x >= 0 else alpha * x`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    alpha: float
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        alpha: float,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        alpha: float,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ActivationLinear(Operator, op="ACTIVATION_LINEAR"):
    """Maps each element linearly: `alpha * x + beta`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    alpha: float
    beta: float
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        alpha: float,
        beta: float,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        alpha: float,
        beta: float,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ActivationLogSoftmax(Operator, op="ACTIVATION_LOG_SOFTMAX"):
    """Takes the logarithm of SOFTMAX of each row."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ActivationLogSoftmax1(Operator, op="ACTIVATION_LOG_SOFTMAX1"):
    """Takes the logarithm of SOFTMAX1 of the elements along axes."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    axes: tuple[int, ...]
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        axes: Integers,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        axes: Integers,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ActivationParameterizedRelu(Operator, op="ACTIVATION_PARAMETERIZED_RELU"):
    """Scales each negative element by a slope of its own: `x if x >= 0 else slope * x`."""

    input_tensor: TensorDesc
    slope_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        slope_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        slope_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ActivationParametricSoftplus(Operator, op="ACTIVATION_PARAMETRIC_SOFTPLUS"):
    """Takes a scaled soft maximum with 0: `alpha * ln(1 + exp(beta * x))`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    alpha: float
    beta: float
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        alpha: float,
        beta: float,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        alpha: float,
        beta: float,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ActivationRelu(Operator, op="ACTIVATION_RELU"):
    """Sets negative elements to 0: `max(0, x)`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ActivationScaledElu(Operator, op="ACTIVATION_SCALED_ELU"):
    """Scales an ELU: `gamma * x if x > 0 else gamma * alpha * (exp(x) - 1)`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    alpha: float
    gamma: float
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        alpha: float,
        gamma: float,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        alpha: float,
        gamma: float,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ActivationScaledTanh(Operator, op="ACTIVATION_SCALED_TANH"):
    """Scales a hyperbolic tangent: `alpha * tanh(beta * x)`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    alpha: float
    beta: float
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        alpha: float,
        beta: float,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        alpha: float,
        beta: float,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ActivationSigmoid(Operator, op="ACTIVATION_SIGMOID"):
    """Maps each element to a number between 0 and 1: `1 / (1 + exp(-x))`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ActivationSoftmax(Operator, op="ACTIVATION_SOFTMAX"):
    """Turns the elements of each row into positive numbers that add up to 1."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ActivationSoftmax1(Operator, op="ACTIVATION_SOFTMAX1"):
    """Turns the elements along axes into positive numbers that add up to 1."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    axes: tuple[int, ...]
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        axes: Integers,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        axes: Integers,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ActivationSoftplus(Operator, op="ACTIVATION_SOFTPLUS"):
    """Takes a soft maximum with 0: `ln(1 + exp(steepness * x)) / steepness`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    steepness: float
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        steepness: float,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        steepness: float,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ActivationSoftsign(Operator, op="ACTIVATION_SOFTSIGN"):
    """Maps each element to a number between -1 and 1: `x / (1 + |x|)`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ActivationTanh(Operator, op="ACTIVATION_TANH"):
    """Takes the hyperbolic tangent of each element: `tanh(x)`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ActivationThresholdedRelu(Operator, op="ACTIVATION_THRESHOLDED_RELU"):
    """Sets elements up to a threshold to 0: `x if x > alpha else 0`; NaN gives 0."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    alpha: float
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        alpha: float,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        alpha: float,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ActivationShrink(Operator, op="ACTIVATION_SHRINK"):
    """Moves large elements toward 0, and sets small ones to 0."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    bias: float
    threshold: float
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        bias: float,
        threshold: float,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        bias: float,
        threshold: float,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ActivationGelu(Operator, op="ACTIVATION_GELU"):
    """Weights each element by the normal distribution: `0.5 * x * (1 + erf(x / sqrt(2)))`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ActivationSwish(Operator, op="ACTIVATION_SWISH"):
    """Weights each element by its sigmoid: `x / (1 + exp(-sigmoid_input_scale * x))`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    sigmoid_input_scale: float
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        sigmoid_input_scale: float,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        sigmoid_input_scale: float,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ActivationHardSwish(Operator, op="ACTIVATION_HARD_SWISH"):
    """Weights each element by its hard sigmoid: `x * max(0, min(alpha * x + beta, 1))`."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    alpha: float
    beta: float
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        alpha: float,
        beta: float,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        alpha: float,
        beta: float,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Resample3(Operator, op="RESAMPLE3"):
    """Resamples a tensor, and averages neighbours where it becomes smaller."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    interpolation_mode: InterpolationMode
    rounding_direction: AxisDirection
    scales: tuple[float, ...]
    input_pixel_offsets: tuple[float, ...]
    output_pixel_offsets: tuple[float, ...]
    antialiased: bool
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        interpolation_mode: InterpolationMode | _InterpolationMode,
        rounding_direction: AxisDirection | _AxisDirection,
        scales: Sequence[float],
        input_pixel_offsets: Sequence[float],
        output_pixel_offsets: Sequence[float],
        antialiased: bool,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        interpolation_mode: InterpolationMode | _InterpolationMode,
        rounding_direction: AxisDirection | _AxisDirection,
        scales: Sequence[float],
        input_pixel_offsets: Sequence[float],
        output_pixel_offsets: Sequence[float],
        antialiased: bool,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Fold(Operator, op="FOLD"):
    """Adds the columns that UNFOLD makes at the places of their windows."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    window_sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        window_sizes: Integers,
        strides: Integers,
        dilations: Integers,
        start_padding: Integers,
        end_padding: Integers,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        window_sizes: Integers,
        strides: Integers,
        dilations: Integers,
        start_padding: Integers,
        end_padding: Integers,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Unfold(Operator, op="UNFOLD"):
    """Copies the elements of each window into one column."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    window_sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        window_sizes: Integers,
        strides: Integers,
        dilations: Integers,
        start_padding: Integers,
        end_padding: Integers,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        window_sizes: Integers,
        strides: Integers,
        dilations: Integers,
        start_padding: Integers,
        end_padding: Integers,
        output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

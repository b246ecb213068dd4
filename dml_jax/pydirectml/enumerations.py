"""The enumerations of PyDirectML, whose members are no integers, but convert to them."""

import enum
import operator
from collections.abc import Callable
from typing import Any

__all__ = [
    "ConvolutionDirection",
    "ConvolutionMode",
    "ExecutionFlags",
    "InterpolationMode",
    "MatrixTransform",
    "OperatorType",
    "OutputOptions",
    "PaddingMode",
    "RecurrentNetworkDirection",
    "TensorDataType",
    "TensorFlags",
]


class Member(enum.Enum):
    """An enumeration whose members are no integers, but convert to them."""

    def __int__(self) -> int:
        return self.value

    __index__ = __int__


def _bits(name: str) -> Callable[..., Any]:
    function = getattr(operator, name)

    def method(self: Member, other: Any) -> Any:
        if not isinstance(other, (int, type(self))):
            return NotImplemented
        return function(int(self), int(other))

    return method


class Flags(Member):
    """An enumeration whose members compare and combine with integers, to integers."""

    __and__ = __rand__ = _bits("and_")
    __or__ = __ror__ = _bits("or_")
    __xor__ = __rxor__ = _bits("xor")
    __lt__, __le__, __gt__, __ge__ = _bits("lt"), _bits("le"), _bits("gt"), _bits("ge")
    __eq__ = _bits("eq")  # pyright: ignore[reportAssignmentType]
    __ne__ = _bits("ne")  # pyright: ignore[reportAssignmentType]

    def __invert__(self) -> int:
        return ~int(self)

    def __hash__(self) -> int:
        return hash(self.value)


class TensorDataType(Member):
    """The type of a tensor's elements."""

    UNKNOWN = 0
    FLOAT32 = 1
    FLOAT16 = 2
    UINT32 = 3
    UINT16 = 4
    UINT8 = 5
    INT32 = 6
    INT16 = 7
    INT8 = 8
    FLOAT64 = 9
    UINT64 = 10
    INT64 = 11


class TensorFlags(Member):
    """Whether memory is bound when a model is initialised."""

    NONE = 0
    OWNED_BY_DML = 1


class MatrixTransform(Member):
    """Whether a matrix is transposed."""

    NONE = 0
    TRANSPOSE = 1


class RecurrentNetworkDirection(Member):
    """The order in which a sequence is read."""

    FORWARD = 0
    BACKWARD = 1
    BIDIRECTIONAL = 2


class OutputOptions(Flags):
    """The outputs of `gru`."""

    Both = 0
    Sequence = 1
    Single = 2


class ConvolutionMode(Member):
    """Whether the filter is turned."""

    CONVOLUTION = 0
    CROSS_CORRELATION = 1


class ConvolutionDirection(Member):
    """Whether a convolution is transposed."""

    FORWARD = 0
    BACKWARD = 1


class InterpolationMode(Member):
    """How elements between others are computed."""

    NEAREST_NEIGHBOR = 0
    LINEAR = 1


class PaddingMode(Member):
    """What padding repeats."""

    CONSTANT = 0
    EDGE = 1
    REFLECTION = 2


class ExecutionFlags(Flags):
    """Flags of `GraphBuilder.build`, which change nothing here."""

    NONE = 0
    ALLOW_HALF_PRECISION_COMPUTATION = 1
    DISABLE_META_COMMANDS = 2
    DESCRIPTORS_VOLATILE = 4


class OperatorType(Member):
    """The operators of feature levels 1_0 and 2_0, which include all activations."""

    # The numbers go on from line to line, as DML_OPERATOR_TYPE counts.
    INVALID, ELEMENT_WISE_IDENTITY, ELEMENT_WISE_ABS, ELEMENT_WISE_ACOS = range(4)
    ELEMENT_WISE_ADD, ELEMENT_WISE_ASIN, ELEMENT_WISE_ATAN, ELEMENT_WISE_CEIL = range(4, 8)
    ELEMENT_WISE_CLIP, ELEMENT_WISE_COS, ELEMENT_WISE_DIVIDE, ELEMENT_WISE_EXP = range(8, 12)
    ELEMENT_WISE_FLOOR, ELEMENT_WISE_LOG, ELEMENT_WISE_LOGICAL_AND = range(12, 15)
    ELEMENT_WISE_LOGICAL_EQUALS, ELEMENT_WISE_LOGICAL_GREATER_THAN = range(15, 17)
    ELEMENT_WISE_LOGICAL_LESS_THAN, ELEMENT_WISE_LOGICAL_NOT = range(17, 19)
    ELEMENT_WISE_LOGICAL_OR, ELEMENT_WISE_LOGICAL_XOR, ELEMENT_WISE_MAX = range(19, 22)
    ELEMENT_WISE_MEAN, ELEMENT_WISE_MIN, ELEMENT_WISE_MULTIPLY, ELEMENT_WISE_POW = range(22, 26)
    ELEMENT_WISE_CONSTANT_POW, ELEMENT_WISE_RECIP, ELEMENT_WISE_SIN = range(26, 29)
    ELEMENT_WISE_SQRT, ELEMENT_WISE_SUBTRACT, ELEMENT_WISE_TAN = range(29, 32)
    ELEMENT_WISE_THRESHOLD, ELEMENT_WISE_QUANTIZE_LINEAR = range(32, 34)
    ELEMENT_WISE_DEQUANTIZE_LINEAR, ACTIVATION_ELU, ACTIVATION_HARDMAX = range(34, 37)
    ACTIVATION_HARD_SIGMOID, ACTIVATION_IDENTITY, ACTIVATION_LEAKY_RELU = range(37, 40)
    ACTIVATION_LINEAR, ACTIVATION_LOG_SOFTMAX, ACTIVATION_PARAMETERIZED_RELU = range(40, 43)
    ACTIVATION_PARAMETRIC_SOFTPLUS, ACTIVATION_RELU, ACTIVATION_SCALED_ELU = range(43, 46)
    ACTIVATION_SCALED_TANH, ACTIVATION_SIGMOID, ACTIVATION_SOFTMAX = range(46, 49)
    ACTIVATION_SOFTPLUS, ACTIVATION_SOFTSIGN, ACTIVATION_TANH = range(49, 52)
    ACTIVATION_THRESHOLDED_RELU, CONVOLUTION, GEMM, REDUCE, AVERAGE_POOLING = range(52, 57)
    LP_POOLING, MAX_POOLING, ROI_POOLING, SLICE, CAST, SPLIT, JOIN, PADDING = range(57, 65)
    VALUE_SCALE_2D, UPSAMPLE_2D, GATHER, SPACE_TO_DEPTH, DEPTH_TO_SPACE, TILE = range(65, 71)
    TOP_K, BATCH_NORMALIZATION, MEAN_VARIANCE_NORMALIZATION = range(71, 74)
    LOCAL_RESPONSE_NORMALIZATION, LP_NORMALIZATION, RNN, LSTM, GRU = range(74, 79)
    ELEMENT_WISE_SIGN, ELEMENT_WISE_IS_NAN, ELEMENT_WISE_ERF, ELEMENT_WISE_SINH = range(79, 83)
    ELEMENT_WISE_COSH, ELEMENT_WISE_TANH, ELEMENT_WISE_ASINH, ELEMENT_WISE_ACOSH = range(83, 87)
    ELEMENT_WISE_ATANH, ELEMENT_WISE_IF, ELEMENT_WISE_ADD1, ACTIVATION_SHRINK = range(87, 91)
    MAX_POOLING1, MAX_UNPOOLING, DIAGONAL_MATRIX, SCATTER, ONE_HOT, RESAMPLE = range(91, 97)


# Their members are attributes of the module too: a later NONE, FORWARD or CONVOLUTION takes the
# name, as in PyDirectML.
FLAT = (
    *(TensorDataType, TensorFlags, MatrixTransform, RecurrentNetworkDirection, ConvolutionMode),
    *(ConvolutionDirection, InterpolationMode, PaddingMode, ExecutionFlags, OperatorType),
)

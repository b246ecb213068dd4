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

    INVALID = 0
    ELEMENT_WISE_IDENTITY = 1
    ELEMENT_WISE_ABS = 2
    ELEMENT_WISE_ACOS = 3
    ELEMENT_WISE_ADD = 4
    ELEMENT_WISE_ASIN = 5
    ELEMENT_WISE_ATAN = 6
    ELEMENT_WISE_CEIL = 7
    ELEMENT_WISE_CLIP = 8
    ELEMENT_WISE_COS = 9
    ELEMENT_WISE_DIVIDE = 10
    ELEMENT_WISE_EXP = 11
    ELEMENT_WISE_FLOOR = 12
    ELEMENT_WISE_LOG = 13
    ELEMENT_WISE_LOGICAL_AND = 14
    ELEMENT_WISE_LOGICAL_EQUALS = 15
    ELEMENT_WISE_LOGICAL_GREATER_THAN = 16
    ELEMENT_WISE_LOGICAL_LESS_THAN = 17
    ELEMENT_WISE_LOGICAL_NOT = 18
    ELEMENT_WISE_LOGICAL_OR = 19
    ELEMENT_WISE_LOGICAL_XOR = 20
    ELEMENT_WISE_MAX = 21
    ELEMENT_WISE_MEAN = 22
    ELEMENT_WISE_MIN = 23
    ELEMENT_WISE_MULTIPLY = 24
    ELEMENT_WISE_POW = 25
    ELEMENT_WISE_CONSTANT_POW = 26
    ELEMENT_WISE_RECIP = 27
    ELEMENT_WISE_SIN = 28
    ELEMENT_WISE_SQRT = 29
    ELEMENT_WISE_SUBTRACT = 30
    ELEMENT_WISE_TAN = 31
    ELEMENT_WISE_THRESHOLD = 32
    ELEMENT_WISE_QUANTIZE_LINEAR = 33
    ELEMENT_WISE_DEQUANTIZE_LINEAR = 34
    ACTIVATION_ELU = 35
    ACTIVATION_HARDMAX = 36
    ACTIVATION_HARD_SIGMOID = 37
    ACTIVATION_IDENTITY = 38
    ACTIVATION_LEAKY_RELU = 39
    ACTIVATION_LINEAR = 40
    ACTIVATION_LOG_SOFTMAX = 41
    ACTIVATION_PARAMETERIZED_RELU = 42
    ACTIVATION_PARAMETRIC_SOFTPLUS = 43
    ACTIVATION_RELU = 44
    ACTIVATION_SCALED_ELU = 45
    ACTIVATION_SCALED_TANH = 46
    ACTIVATION_SIGMOID = 47
    ACTIVATION_SOFTMAX = 48
    ACTIVATION_SOFTPLUS = 49
    ACTIVATION_SOFTSIGN = 50
    ACTIVATION_TANH = 51
    ACTIVATION_THRESHOLDED_RELU = 52
    CONVOLUTION = 53
    GEMM = 54
    REDUCE = 55
    AVERAGE_POOLING = 56
    LP_POOLING = 57
    MAX_POOLING = 58
    ROI_POOLING = 59
    SLICE = 60
    CAST = 61
    SPLIT = 62
    JOIN = 63
    PADDING = 64
    VALUE_SCALE_2D = 65
    UPSAMPLE_2D = 66
    GATHER = 67
    SPACE_TO_DEPTH = 68
    DEPTH_TO_SPACE = 69
    TILE = 70
    TOP_K = 71
    BATCH_NORMALIZATION = 72
    MEAN_VARIANCE_NORMALIZATION = 73
    LOCAL_RESPONSE_NORMALIZATION = 74
    LP_NORMALIZATION = 75
    RNN = 76
    LSTM = 77
    GRU = 78
    ELEMENT_WISE_SIGN = 79
    ELEMENT_WISE_IS_NAN = 80
    ELEMENT_WISE_ERF = 81
    ELEMENT_WISE_SINH = 82
    ELEMENT_WISE_COSH = 83
    ELEMENT_WISE_TANH = 84
    ELEMENT_WISE_ASINH = 85
    ELEMENT_WISE_ACOSH = 86
    ELEMENT_WISE_ATANH = 87
    ELEMENT_WISE_IF = 88
    ELEMENT_WISE_ADD1 = 89
    ACTIVATION_SHRINK = 90
    MAX_POOLING1 = 91
    MAX_UNPOOLING = 92
    DIAGONAL_MATRIX = 93
    SCATTER = 94
    ONE_HOT = 95
    RESAMPLE = 96


# Their members are attributes of the module too: a later NONE, FORWARD or CONVOLUTION takes the
# name, as in PyDirectML.
FLAT = (
    *(TensorDataType, TensorFlags, MatrixTransform, RecurrentNetworkDirection, ConvolutionMode),
    *(ConvolutionDirection, InterpolationMode, PaddingMode, ExecutionFlags, OperatorType),
)

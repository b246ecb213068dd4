"""DirectML's enumerations, with the values of DirectML.h 1.15."""

import contextlib
import enum
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dml_jax.errors import DmlError, Fault, Unquoted, nearest

if TYPE_CHECKING:  # imported where a type is made: the command line reads feature levels without it
    import numpy as np


PRECISIONS = ("float32", "tensorfloat32", "bfloat16")
"""How products and convolutions of FLOAT32 may be computed, by JAX's names."""


class Enumeration(enum.IntEnum):
    """An enumeration whose members are taken as member, suffix or full name.

    `ReduceFunction.SUM`, `"SUM"` and `"DML_REDUCE_FUNCTION_SUM"` are the same; case counts.
    """

    prefix: ClassVar[str]  # pyright: ignore[reportGeneralTypeIssues, reportInvalidTypeForm]  (set by the class line)

    def __init_subclass__(cls, prefix: str, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        type.__setattr__(cls, "prefix", prefix)

    @classmethod
    def of(cls, value: Self | str) -> Self:
        """The member that `value` names. Raises `DmlError` where there is none."""
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            word = value.removeprefix(cls.prefix + "_")
            found = cls.named(word)
            if found is not None:
                return found
        names = ", ".join(n for n in cls.by_name() if n not in ("UNKNOWN", "INVALID"))
        raise DmlError([Fault(cls.prefix, "", f"be one of {names}{cls.hint(value)}", value)])

    @classmethod
    def named(cls, word: str) -> Self | None:
        """The member of a name without the prefix; None where there is none."""
        return cls.by_name().get(word, cls.__members__.get(word))

    @classmethod
    def hint(cls, value: object) -> str:
        """The member that is most likely meant, as an error message says it."""
        word = value.removeprefix(cls.prefix + "_") if isinstance(value, str) else value
        return nearest(word, cls.by_name())

    @classmethod
    def by_name(cls) -> Mapping[str, Self]:
        """The members by the name that error messages and JSON use."""
        return cls.__members__

    @property
    def suffix(self) -> str:
        return self.name

    @property
    def full_name(self) -> str:
        """Return the spelling of DirectML.h."""
        return f"{self.prefix}_{self.suffix}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __str__(self) -> str:
        return self.suffix

    def __format__(self, spec: str) -> str:
        """The name, unless the spec ends in the type of a number ("d", "#x")."""
        is_number = spec.endswith(tuple("bcdeEfFgGnoxX%"))
        return format(int(self) if is_number else str(self), spec)

    def shown(self) -> Unquoted:
        return Unquoted(self.suffix)


NO_BFLOAT16 = " (no operator takes bfloat16, but functions of arrays do, as dml_jax.clip)"


def is_bfloat16(value: object) -> bool:
    """Return whether a data type, or its name, is bfloat16."""
    if isinstance(value, str):
        return value.lower() == "bfloat16"
    import jax.numpy as jnp
    import numpy as np

    return isinstance(value, (type, np.dtype)) and value in (jnp.bfloat16, np.dtype(jnp.bfloat16))


class TensorDataType(Enumeration, prefix="DML_TENSOR_DATA_TYPE"):
    """DML_TENSOR_DATA_TYPE: the type of a tensor's elements."""

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
    UINT4 = 12
    INT4 = 13

    @functools.cached_property
    def bits(self) -> int:
        """Bits an element; 0 for UNKNOWN."""
        if self >= _FIRST_BEYOND:
            return self.dtype.itemsize * 8
        return int("".join(filter(str.isdigit, self.name)) or 0)

    @functools.cached_property
    def element_size(self) -> int:
        """Bytes an element; 0 for UNKNOWN and for the 4-bit types, which have no whole byte."""
        return self.bits // 8

    @property
    def dtype(self) -> "np.dtype":
        """The NumPy type of the same layout (ml_dtypes' for the 4-bit types)."""
        return _DTYPES[self]

    @classmethod
    def hint(cls, value: object) -> str:
        """The member of a dtype, too."""
        if is_bfloat16(value):
            return NO_BFLOAT16
        if isinstance(value, str):
            return super().hint(value)
        import numpy as np

        known = isinstance(value, type) and value.__module__ != "builtins"  # `int` is of any width
        if known or isinstance(value, np.dtype):
            with contextlib.suppress(DmlError):
                return f" (did you mean {cls.of_dtype(value).name!r}?)"
        return super().hint(value)

    @classmethod
    def of(cls, value: Self | str, beyond: bool = False) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The member that `value` names; `beyond`: also of a type that DirectML lacks.

        Raises `DmlError` where there is none.
        """
        if beyond and isinstance(value, str) and value.lower() in _BEYOND:
            return cls(_FIRST_BEYOND + _BEYOND.index(value.lower()))
        return super().of(value)

    @classmethod
    def of_dtype(cls, dtype: Any, beyond: bool = False) -> "TensorDataType":
        """The member for a NumPy or JAX dtype; `beyond`: also of a type that DirectML lacks.

        Raises `DmlError` where there is none.
        """
        import numpy as np

        try:
            name = np.dtype(dtype).name
        except TypeError:  # of JAX alone, such as random keys
            name = str(dtype)
        found = cls.by_name().get(name.upper())
        if found is None and beyond and name in _BEYOND:
            return _member_beyond(name)
        if found is None:
            names = ", ".join(name.lower() for name in cls.by_name() if name != "UNKNOWN")
            rule = f"be one that DirectML has ({names})"
            rule += NO_BFLOAT16 if name == "bfloat16" else ""
            raise DmlError([Fault(cls.prefix, "dtype", rule, Unquoted(name))])
        return found

    @classmethod
    def _missing_(cls, value: object) -> "TensorDataType | None":
        """Return the member of a type that DirectML lacks, which `pickle` names by its number."""
        number = value - _FIRST_BEYOND if isinstance(value, int) else -1
        return _member_beyond(_BEYOND[number]) if 0 <= number < len(_BEYOND) else None


# Types of arrays that DirectML lacks: they have members that no listing of the enumeration has.
_FIRST_BEYOND = 100
_BEYOND = (
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    *("float4_e2m1fn", "int2", "uint2", "complex64", "complex128"),
)


@functools.cache
def _member_beyond(name: str) -> TensorDataType:
    """Return the member of a type that DirectML lacks; its elements take whole bytes."""
    member = int.__new__(TensorDataType, _FIRST_BEYOND + _BEYOND.index(name))
    member._name_, member._value_ = name.upper(), int(member)
    return member


class _Dtypes(dict[TensorDataType, "np.dtype"]):
    """The NumPy type of each data type, made when it is asked for."""

    def __missing__(self, member: TensorDataType) -> "np.dtype":
        import jax.numpy as jnp
        import numpy as np

        if member == TensorDataType.UNKNOWN:
            raise KeyError(member)
        self[member] = np.dtype(getattr(jnp, member.name.lower()))
        return self[member]


_DTYPES = _Dtypes()


class TensorFlags(enum.IntFlag, boundary=enum.STRICT):
    """DML_TENSOR_FLAGS, combined with `|`."""

    NONE = 0
    OWNED_BY_DML = 1

    def __repr__(self) -> str:
        return f"TensorFlags.{self.name}"

    @classmethod
    def of(cls, value: "TensorFlags | str | list[str]") -> "TensorFlags":
        """The flags that `value` names: a member, a name, or a list of names."""
        if isinstance(value, cls):
            return value
        flags = cls.NONE
        for name in value if isinstance(value, (list, tuple)) else [value]:
            suffix = str(name).removeprefix("DML_TENSOR_FLAG_")
            if not isinstance(name, str) or suffix not in cls.__members__:
                rule = f"be one of {', '.join(cls.__members__)}{nearest(name, cls.__members__)}"
                raise DmlError([Fault("DML_TENSOR_FLAGS", "", rule, name)])
            flags |= cls[suffix]
        return flags


class TensorType(Enumeration, prefix="DML_TENSOR_TYPE"):
    """DML_TENSOR_TYPE: the kind of a tensor description."""

    INVALID = 0
    BUFFER = 1


class ReduceFunction(Enumeration, prefix="DML_REDUCE_FUNCTION"):
    """DML_REDUCE_FUNCTION: what DML_OPERATOR_REDUCE computes."""

    ARGMAX = 0
    ARGMIN = 1
    AVERAGE = 2
    L1 = 3
    L2 = 4
    LOG_SUM = 5
    LOG_SUM_EXP = 6
    MAX = 7
    MIN = 8
    MULTIPLY = 9
    SUM = 10
    SUM_SQUARE = 11


class AxisDirection(Enumeration, prefix="DML_AXIS_DIRECTION"):
    """DML_AXIS_DIRECTION: from low index to high, or from high to low."""

    INCREASING = 0
    DECREASING = 1


class DepthSpaceOrder(Enumeration, prefix="DML_DEPTH_SPACE_ORDER"):
    """DML_DEPTH_SPACE_ORDER: how a depth dimension is made of (channel, row, column).

    DEPTH_COLUMN_ROW: [BlockHeight, BlockWidth, Channel]; COLUMN_ROW_DEPTH: [Channel,
    BlockHeight, BlockWidth]; each row-major.
    """

    DEPTH_COLUMN_ROW = 0
    COLUMN_ROW_DEPTH = 1


class MatrixTransform(Enumeration, prefix="DML_MATRIX_TRANSFORM"):
    """DML_MATRIX_TRANSFORM: whether the last two dimensions of a matrix are exchanged."""

    NONE = 0
    TRANSPOSE = 1


class ConvolutionMode(Enumeration, prefix="DML_CONVOLUTION_MODE"):
    """DML_CONVOLUTION_MODE: whether a filter is mirrored: CONVOLUTION mirrors it."""

    CONVOLUTION = 0
    CROSS_CORRELATION = 1


class ConvolutionDirection(Enumeration, prefix="DML_CONVOLUTION_DIRECTION"):
    """DML_CONVOLUTION_DIRECTION: a convolution, or its transpose (BACKWARD)."""

    FORWARD = 0
    BACKWARD = 1


class PaddingMode(Enumeration, prefix="DML_PADDING_MODE"):
    """DML_PADDING_MODE: the elements that padding adds."""

    CONSTANT = 0
    EDGE = 1
    REFLECTION = 2
    SYMMETRIC = 3
    WRAP = 4


class InterpolationMode(Enumeration, prefix="DML_INTERPOLATION_MODE"):
    """DML_INTERPOLATION_MODE: how an element between others is computed."""

    NEAREST_NEIGHBOR = 0
    LINEAR = 1

    @classmethod
    def hint(cls, value: object) -> str:
        """The function of JAX for what DirectML lacks, too."""
        is_cubic = isinstance(value, str) and "cubic" in value.lower()
        return " (jax.image.resize has cubic)" if is_cubic else super().hint(value)


class RecurrentNetworkDirection(Enumeration, prefix="DML_RECURRENT_NETWORK_DIRECTION"):
    """DML_RECURRENT_NETWORK_DIRECTION: the order in which a sequence is read."""

    FORWARD = 0
    BACKWARD = 1
    BIDIRECTIONAL = 2


class RoundingMode(Enumeration, prefix="DML_ROUNDING_MODE"):
    """DML_ROUNDING_MODE: how a number is rounded; TOWARD_INFINITY: halves away from zero."""

    HALVES_TO_NEAREST_EVEN = 0
    TOWARD_ZERO = 1
    TOWARD_INFINITY = 2


class IsInfinityMode(Enumeration, prefix="DML_IS_INFINITY_MODE"):
    """DML_IS_INFINITY_MODE: which infinities are looked for."""

    EITHER = 0
    POSITIVE = 1
    NEGATIVE = 2


class RandomGeneratorType(Enumeration, prefix="DML_RANDOM_GENERATOR_TYPE"):
    """DML_RANDOM_GENERATOR_TYPE: the algorithm of a random generator."""

    PHILOX_4X32_10 = 0


class MultiheadAttentionMaskType(Enumeration, prefix="DML_MULTIHEAD_ATTENTION_MASK_TYPE"):
    """DML_MULTIHEAD_ATTENTION_MASK_TYPE: how a mask tensor of an attention is read."""

    NONE = 0
    KEY_SEQUENCE_LENGTH = 1
    KEY_SEQUENCE_END_START = 2
    KEY_QUERY_SEQUENCE_LENGTH_START_END = 3
    BOOLEAN = 4

    @classmethod
    def hint(cls, value: object) -> str:
        """The mask of a causal attention, too."""
        is_causal = isinstance(value, str) and "causal" in value.lower()
        return " (BOOLEAN with a jax.numpy.tril of bool)" if is_causal else super().hint(value)


class QuantizationType(Enumeration, prefix="DML_QUANTIZATION_TYPE"):
    """DML_QUANTIZATION_TYPE: which quantization tensors there are."""

    NONE = 0
    SCALE = 1
    SCALE_ZERO_POINT = 2


class FeatureLevel(Enumeration, prefix="DML_FEATURE_LEVEL"):
    """DML_FEATURE_LEVEL; each level holds all of the ones below it."""

    LEVEL_1_0 = 0x1000
    LEVEL_2_0 = 0x2000
    LEVEL_2_1 = 0x2100
    LEVEL_3_0 = 0x3000
    LEVEL_3_1 = 0x3100
    LEVEL_4_0 = 0x4000
    LEVEL_4_1 = 0x4100
    LEVEL_5_0 = 0x5000
    LEVEL_5_1 = 0x5100
    LEVEL_5_2 = 0x5200
    LEVEL_6_0 = 0x6000
    LEVEL_6_1 = 0x6100
    LEVEL_6_2 = 0x6200
    LEVEL_6_3 = 0x6300
    LEVEL_6_4 = 0x6400

    @property
    def suffix(self) -> str:
        return self.name.removeprefix("LEVEL_")

    @classmethod
    def by_name(cls) -> Mapping[str, "FeatureLevel"]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _LEVELS


_LEVELS = {member.suffix: member for member in FeatureLevel}


def by_prefix() -> dict[str, type[Enumeration]]:
    """Return every enumeration by its C name."""
    return {cls.prefix: cls for cls in Enumeration.__subclasses__()}

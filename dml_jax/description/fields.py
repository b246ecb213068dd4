"""The kinds of fields that descriptors are made of.

A descriptor annotates each of its fields with an alias from this module, an enumeration, or another
descriptor. The annotation says how a value is converted and checked, how it stands in JSON, and
what of it takes part in equality.
"""

import contextlib
import functools
import math
import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from dml_jax.description.tensor import UINT_MAX, TensorDesc
from dml_jax.enums import Enumeration, TensorDataType
from dml_jax.errors import (
    FAULTS_MAX,
    OF_RANGE,
    DmlError,
    Fault,
    items_of,
    raise_if,
    refused,
    with_article,
)


def float_of_word(value: Any) -> Any:
    """The float that "nan", "inf" or "-inf" stands for, as JSON has them; else the value itself."""
    is_word = isinstance(value, str) and value.lower() in ("nan", "inf", "-inf")
    return float(value) if is_word else value


@dataclass(frozen=True)
class Kind:
    """A kind of field: converts, compares and writes its values.

    `convert` gives the value as it is kept, or raises `DmlError`; `from_json` likewise, from what
    `to_json` gives; `key` is what equality and hash go by.
    """

    c_type = ""
    """As DirectML.h declares it, without the `*` of what is pointed to."""

    @property
    def word(self) -> str:
        """Return the word for this kind in descriptions of fields."""
        return self.c_type

    @property
    def wider(self) -> "Kind":
        """Return the kind that the field has in a description beyond DirectML."""
        return self

    def convert(self, value: Any) -> Any:
        raise NotImplementedError

    def key(self, value: Any) -> Any:
        return value

    def shown(self, value: Any) -> str:
        """As a constructor takes it."""
        return repr(value)

    def to_json(self, value: Any) -> Any:
        return value

    def from_json(self, value: Any, siblings: Mapping[str, Any]) -> Any:
        """The value that JSON holds; `siblings` are the fields beside it."""
        return self.convert(value)


@dataclass(frozen=True)
class Integer(Kind):
    """UINT or INT, or a part of its range."""

    least: int
    most: int
    c_type: str = field(default="UINT", repr=False)

    def convert(self, value: Any) -> int:
        try:
            number = operator.index(value)
        except TypeError:
            number = None
        if number is None or isinstance(value, bool) or not self.least <= number <= self.most:
            is_number = number is not None and not isinstance(value, bool)
            shown, kind = (number, OF_RANGE) if is_number else (value, "")
            raise refused(f"be an integer in [{self.least}, {self.most}]", shown, kind)
        return number


class Boolean(Kind):
    """BOOL: True or False; 0 and 1 are accepted for them."""

    c_type = "BOOL"

    def convert(self, value: Any) -> bool:
        if not isinstance(value, (bool, np.bool_, int)) or value not in (0, 1):
            raise refused("be True or False", value)
        return bool(value)


@dataclass(frozen=True)
class Real(Kind):
    """FLOAT: kept as the nearest 32-bit float, if not an integer, which has to be one.

    Equality goes by its bits.

    Attributes:
        is_wide: whether all bits of a number stay, for elements of 64 bits.
    """

    is_wide: bool = False
    c_type = "FLOAT"

    @property
    def wider(self) -> Kind:
        return Real(is_wide=True)

    def convert(self, value: Any) -> float:
        try:
            if isinstance(value, (bool, str)):
                raise TypeError
            if self.is_wide:
                return float(value)
            number = struct.unpack("<f", struct.pack("<f", value))[0]
        except (struct.error, TypeError, OverflowError) as error:
            large = isinstance(error, OverflowError) or type(value) is int
            rule = "fit a FLOAT (at most 3.4028235e+38 in magnitude)" if large else "be a number"
            raise refused(rule, value) from None
        if isinstance(value, (int, np.integer)) and number != value:
            raise refused(f"be a FLOAT, of which {int(number)} is the nearest", value)
        return math.nan if math.isnan(number) else number  # one object is equal to itself

    def key(self, value: float) -> bytes:
        return struct.pack("<d", value)

    def shown(self, value: float) -> str:
        is_float = float(np.float32(value)) == value or not math.isfinite(value)
        text = str(np.float32(value) if is_float else value)
        return text if math.isfinite(value) else f"float({text!r})"

    def to_json(self, value: float) -> float | str:
        return value if math.isfinite(value) else str(value)

    def from_json(self, value: Any, siblings: Mapping[str, Any]) -> float:
        """Return the nearest FLOAT, also of an integer: DxDispatch reads numbers as floats."""
        number = float_of_word(value)
        if type(number) is int and abs(number) < 2**128:
            with np.errstate(over="ignore"):  # infinity, which `convert` takes
                number = float(np.float32(number))
        return self.convert(number)


# Which member of DML_SCALAR_UNION holds a type; FLOAT16 has none of its own, and lies in its bits.
_UNION_MEMBERS = {
    "FLOAT64": "Float64",
    "FLOAT32": "Float32",
    "FLOAT16": "UInt16",
    **{f"{u}INT{n}": f"{u and 'U'}Int{n}" for u in ("", "U") for n in (8, 16, 32, 64)},
}


@dataclass(frozen=True)
class Scalar(Kind):
    """DML_SCALAR_UNION: a number of the type that another field names.

    Of a float type it is kept as the nearest one, ties to even, beyond its range infinity; else as
    it is given, for the operator to say whether it fits.

    In JSON a number, or {"Int64": 5} as the union has it; FLOAT16 as the number or as its bits.
    """

    type_field: str
    c_type = "DML_SCALAR_UNION"

    @property
    def word(self) -> str:
        return f"number of type {self.type_field}"

    def convert(self, value: Any) -> float | int:
        if getattr(value, "ndim", None) == 0:
            with contextlib.suppress(TypeError):  # JAX's, where the array is traced
                value = value.item()
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise refused("be a number", value)
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            raise refused("fit 64 bits", value)
        return int(value) if isinstance(value, int) else float(value)

    def of_type(self, value: float | int, data_type: TensorDataType) -> float | int:
        """A converted value as one of this type."""
        if not data_type.name.startswith("FLOAT"):
            return value
        with np.errstate(over="ignore"):
            # A 64-bit integer must not be rounded to float64 on the way.
            exact = np.longdouble(value) if isinstance(value, int) else value
            number = float(data_type.dtype.type(exact))
        return math.nan if math.isnan(number) else number  # one NaN is equal to another

    def key(self, value: float | int) -> Any:
        # 1 and 1.0 are one value, 0 and -0.0 are two.
        if isinstance(value, float) and value.is_integer() and str(value) != "-0.0":
            return int(value)
        return value if isinstance(value, int) else struct.pack("<d", value)

    def shown(self, value: float | int) -> str:
        return repr(value) if math.isfinite(value) else f"float({str(value)!r})"

    def to_json(self, value: float | int) -> float | int | str:
        return value if math.isfinite(value) else str(value)

    def from_json(self, value: Any, siblings: Mapping[str, Any]) -> float | int:
        if not isinstance(value, Mapping):
            return self.convert(float_of_word(value))
        name = str(siblings.get(self.type_field)).removeprefix("DML_TENSOR_DATA_TYPE_")
        member = _UNION_MEMBERS.get(name)
        if list(value) != [member]:
            raise refused(f"be a number, or an object with {member} ({self.type_field})", value)
        number = self.from_json(value[member], {}) if name != "FLOAT16" else value[member]
        if name == "FLOAT16":
            bits = Integer(0, 2**16 - 1).convert(number)
            return float(np.uint16(bits).view(np.float16))
        return number


@dataclass(frozen=True)
class Choice(Kind):
    """A member of an enumeration, taken as member, suffix or full name."""

    enumeration: type[Enumeration]

    @property
    def c_type(self) -> str:
        return self.enumeration.prefix

    def convert(self, value: Any) -> Enumeration:
        return self.enumeration.of(value)

    def shown(self, value: Enumeration) -> str:
        return repr(value.suffix)

    def to_json(self, value: Enumeration) -> str:
        return value.full_name


@dataclass(frozen=True)
class Described(Kind):
    """A value that has a JSON of its own."""

    def to_json(self, value: Any) -> Any:
        return value.to_json()


@dataclass(frozen=True)
class Tensor(Described):
    """A tensor that the operator reads, or (`output`) writes."""

    output: bool = False
    c_type = "DML_TENSOR_DESC"

    @property
    def word(self) -> str:
        return "output tensor" if self.output else "input tensor"

    def convert(self, value: Any) -> TensorDesc:
        if not isinstance(value, TensorDesc):
            raise refused("be a TensorDesc", value)
        return value

    def from_json(self, value: Any, siblings: Mapping[str, Any]) -> TensorDesc:
        return TensorDesc.from_json(value)


def list_of(convert: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    """Return a function that converts each of several values, or raises `DmlError`."""

    def converted(values: Any) -> list[Any]:
        faults: list[Fault] = []
        found: list[Any] = []
        for index, value in enumerate(items_of(values)):
            if len(faults) > FAULTS_MAX:
                break
            try:
                found.append(convert(value))
            except DmlError as error:
                for fault in error.faults:
                    faults += DmlError([fault]).moved(fault.operator, f"[{index}]")
        raise_if(faults)
        return found

    return converted


@dataclass(frozen=True)
class Array(Kind):
    """Several values of one kind, kept as a tuple."""

    element: Kind

    @property
    def word(self) -> str:
        return f"list of {self.element.word}"

    @property
    def wider(self) -> Kind:
        return Array(self.element.wider)

    def convert(self, value: Any) -> tuple[Any, ...]:
        element = self.element
        if type(element) is Integer and type(value) in (list, tuple):
            is_plain = {*map(type, value)} <= {int}
            if is_plain and (
                not value or element.least <= min(value) <= max(value) <= element.most
            ):
                return tuple(value)
        return tuple(list_of(element.convert)(value))

    def key(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(map(self.element.key, value))

    def shown(self, value: tuple[Any, ...]) -> str:
        return f"[{', '.join(map(self.element.shown, value))}]"

    def to_json(self, value: tuple[Any, ...]) -> list[Any]:
        return list(map(self.element.to_json, value))

    def from_json(self, value: Any, siblings: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(list_of(lambda v: self.element.from_json(v, siblings))(value))


@dataclass(frozen=True)
class OutputList(Array):
    """Several tensors that the operator writes, whose number and sizes its caller chooses."""

    element: Kind = Tensor(output=True)


@dataclass(frozen=True)
class Structure(Described):
    """Another descriptor, such as DML_SCALE_BIAS."""

    descriptor: Any

    @property
    def c_type(self) -> str:
        return self.descriptor.c_name

    def convert(self, value: Any) -> Any:
        if not isinstance(value, self.descriptor):
            name = self.descriptor.__name__
            made = f"{name}({', '.join(f'{f.name}=...' for f in self.descriptor.fields)})"
            raise refused(f"be {with_article(self.descriptor)}, as {made}", value)
        return value

    def from_json(self, value: Any, siblings: Mapping[str, Any]) -> Any:
        return self.descriptor.from_json(value)


@dataclass(frozen=True)
class Count:
    """Names the C field that holds the number of elements of an array field."""

    c_name: str


@dataclass(frozen=True)
class Field:
    """One field of a descriptor: its name here and in C, its kind, and how it may be left out."""

    name: str
    c_name: str
    kind: Kind
    optional: bool
    default: Any  # dataclasses.MISSING where the field has to be given
    count: str | None
    annotation: Any  # as `help` shows it

    @functools.cached_property
    def tensor(self) -> Tensor | None:
        """The tensor kind, of a tensor or of an array of them."""
        kind = self.kind.element if isinstance(self.kind, Array) else self.kind
        return kind if isinstance(kind, Tensor) else None

    @functools.cached_property
    def is_array(self) -> bool:
        return isinstance(self.kind, Array)


UINT = Integer(0, UINT_MAX)
INT = Integer(-(2**31), 2**31 - 1, "INT")

UInt = Annotated[int, UINT]
Float = Annotated[float, Real()]
Input = Annotated[TensorDesc, Tensor()]
Inputs = Annotated[Sequence[TensorDesc], Array(Tensor()), Count("InputCount")]
Output = Annotated[TensorDesc, Tensor(output=True)]
Outputs = Annotated[Sequence[TensorDesc], OutputList(), Count("OutputCount")]
Axes = Annotated[Sequence[int], Array(UINT), Count("AxisCount")]

"""DML_BUFFER_TENSOR_DESC: how a tensor lies in a buffer.

Source: the DML_BUFFER_TENSOR_DESC page and DMLCalcBufferTensorSize of DirectML's documentation.
"""

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from dml_jax.enums import TensorDataType, TensorFlags, TensorType
from dml_jax.errors import (
    NOTHING,
    DmlError,
    Expect,
    Fault,
    Unquoted,
    items_of,
    moving,
    nearest,
    raise_if,
    with_article,
)
from dml_jax.lowering import strided_memory
from dml_jax.system.files import is_note

Sizes = tuple[int, ...]
Integers = Sequence[int] | np.ndarray

DIMENSION_COUNT_MAX = 8
UINT_MAX = 2**32 - 1
MINIMUM_BUFFER_TENSOR_ALIGNMENT = 16

_STRUCT = "DML_BUFFER_TENSOR_DESC"
_SIZE_OF = "DMLCalcBufferTensorSize"


def calc_buffer_tensor_size(
    data_type: TensorDataType | str, sizes: Integers, strides: Integers | None = None
) -> int:
    """The least bytes that a buffer needs to hold a tensor (DMLCalcBufferTensorSize).

    `(sum((sizes[d] - 1) * strides[d]) + 1) * element_size`, or the product of the sizes for a
    packed tensor, rounded up to a multiple of 4. Counted without the 32-bit wrap of the published
    helper, and by bits: UINT4 and INT4, for which that helper gives 0, take half a byte an element.
    """
    counts = _counts("Sizes", sizes, 1)
    steps = None if strides is None else _counts("Strides", strides, 0)
    if steps is not None and len(steps) != len(counts):
        rule = f"be {len(counts)}, as many as Sizes has"
        raise DmlError([Fault(_SIZE_OF, "the number of Strides", rule, len(steps))])
    with moving(_SIZE_OF, "DataType"):
        bits = TensorDataType.of(data_type).bits
    return round_up(_bytes_of(span(counts, steps), bits), 4)


def _counts(field: str, values: Any, least: int) -> list[int]:
    with moving(_SIZE_OF, field):
        given = items_of(values, " of integers")
    if not all(is_uint(v) and v >= least for v in given):
        raise DmlError([Fault(_SIZE_OF, field, f"be integers of at least {least}", values)])
    return [*map(int, given)]  # integers of NumPy wrap


def of_symbols(values: Any) -> str:
    """Return what to do about the sizes that `jax.export.symbolic_shape` gives."""
    from jax import export

    symbolic = isinstance(values, tuple) and any(map(export.is_symbolic_dim, values))
    return " (symbolic ones are none: jax.vmap maps over a symbolic batch)" if symbolic else ""


def span(sizes: Sequence[int], strides: Sequence[int] | None) -> int:
    """Elements from a tensor's first to its last, both included."""
    if strides is None:
        return math.prod(sizes)
    return sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)) + 1


def _bytes_of(elements: int, bits: int) -> int:
    """Return the whole bytes that hold elements of so many bits."""
    return -(-elements * bits // 8)


def round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _integers(expect: Expect, field: str, values: Any) -> Sizes | None:
    """Return a list of integers as a tuple; None, and a fault, for another value."""
    try:
        if type(values) is not tuple:
            values = items_of(values, " of integers")
        if bool not in map(type, values):
            return tuple(map(operator.index, values))
    except DmlError as error:
        expect.faults += error.moved(_STRUCT, field)
        return None
    except TypeError:
        pass
    expect(False, field, f"be a list of integers{of_symbols(values)}", values)
    return None


def _expect_uints(expect: Expect, field: str, values: Sizes, least: int) -> None:
    for d, value in enumerate(values[:DIMENSION_COUNT_MAX]):
        if not least <= value <= UINT_MAX:
            expect(False, f"{field}[{d}]", f"be in [{least}, {UINT_MAX}]", value)


def _total(expect: Expect, sizes: Sizes, strides: Sizes | None, bits: int, given: Any) -> Any:
    """Return the bytes of a tensor: the least, or those that are given; `expect` checks them."""
    elements = span(sizes, strides)
    least = round_up(_bytes_of(elements, bits), 4)
    rule = f"hold at most {UINT_MAX} elements, padding included"
    count = math.prod(sizes)  # more than the span where strides of 0 repeat elements
    if max(count, elements) > UINT_MAX:
        field = "Sizes" if count > UINT_MAX else "Strides"
        expect(False, field, rule, max(count, elements))
    elif given is None:
        return least
    elif expect(is_uint(given), "TotalTensorSizeInBytes", "be a UINT64", given):
        given = operator.index(given)
        most = round_up(_bytes_of(UINT_MAX, bits), 4)
        expect(given <= most, "TotalTensorSizeInBytes", rule, given)
        rule = f"be at least {least} (the last element's end, rounded up to 4)"
        expect(given >= least, "TotalTensorSizeInBytes", rule, given)
    return given


def _alignment(expect: Expect, given: Any, element_size: int) -> Any:
    """Return the alignment of a tensor's first byte, which `expect` checks."""
    rule = "be a UINT, 0 or a power of two"
    if element_size:
        rule += f" of at least {element_size} bytes (an element)"
    is_power = is_uint(given) and given & (given - 1) == 0
    is_good = is_power and (given == 0 or element_size <= given <= UINT_MAX)
    expect(is_good, "GuaranteedBaseOffsetAlignment", rule, given)
    return operator.index(given) if is_good else given


class Placeholder:
    """Base of symbolic values: an operator that is called with one adds a node to a graph."""

    def takes(self, operator: Any, values: Sequence[Any]) -> Any:
        """Return what a call of the operator with these values gives."""
        raise NotImplementedError


@dataclass(init=False, repr=False, frozen=True, slots=True)
class TensorDesc:
    """A tensor in a buffer: type and sizes, and how its elements are laid out.

    Args:
        data_type: `TensorDataType`, or its name ("FLOAT32").
        sizes: elements in each dimension; 1 to 8 dimensions, no size 0.
        strides: elements (not bytes) from one index to the next in each dimension; None is packed
            row-major. 0 broadcasts, more than packed pads, another order transposes.
        flags: `TensorFlags`, or its name.
        total_tensor_size_in_bytes: at least `calc_buffer_tensor_size`, which is the default.
        guaranteed_base_offset_alignment: bytes; 0, or a power of two of at least an element.
        beyond: whether it may lie beyond DirectML: have more dimensions, and types of NumPy that
            DirectML lacks, by their names ("float8_e5m2").

    A tensor has at most 2^32 - 1 elements; padding counts, and so does what strides of 0 repeat.
    All that is wrong is raised at once, as one `DmlError`. Immutable; equality and hash go by
    value.
    """

    data_type: TensorDataType
    sizes: Sizes
    strides: Sizes | None
    flags: TensorFlags
    total_tensor_size_in_bytes: int
    guaranteed_base_offset_alignment: int

    def __init__(
        self,
        data_type: TensorDataType | str,
        sizes: Integers,
        strides: Integers | None = None,
        flags: TensorFlags | str | list[str] = TensorFlags.NONE,
        total_tensor_size_in_bytes: int | None = None,
        guaranteed_base_offset_alignment: int = 0,
        beyond: bool = False,
    ):
        expect = Expect(_STRUCT)

        try:
            if type(data_type) is not TensorDataType:
                data_type = TensorDataType.of(data_type, beyond)
            if data_type == TensorDataType.UNKNOWN:
                expect(False, "DataType", "be known", data_type.shown())
        except DmlError as error:
            expect.faults += error.moved(_STRUCT, "DataType")
            data_type = TensorDataType.UNKNOWN
        try:
            if type(flags) is not TensorFlags:
                flags = TensorFlags.of(flags)
        except DmlError as error:
            expect.faults += error.moved(_STRUCT, "Flags")

        shape = _integers(expect, "Sizes", sizes)
        if shape is not None:
            rank = len(shape)
            if rank < 1 or (rank > DIMENSION_COUNT_MAX and not beyond):
                expect(False, "DimensionCount", "be in [1, 8]", rank)
            _expect_uints(expect, "Sizes", shape, 1)
        if strides is not None:
            strides = _integers(expect, "Strides", strides)
            if strides is not None and shape is not None and len(strides) != len(shape):
                rule = f"have {len(shape)} elements, as Sizes has"
                expect(False, "Strides", rule, list(strides))
            _expect_uints(expect, "Strides", strides or (), 0)
        total, alignment = total_tensor_size_in_bytes, guaranteed_base_offset_alignment
        if not expect.faults and shape is not None:
            total = _total(expect, shape, strides, data_type.bits, total)
        if type(alignment) is not int or alignment != 0:
            alignment = _alignment(expect, alignment, data_type.element_size)
        if expect.faults:
            expect.check()

        put = object.__setattr__
        put(self, "data_type", data_type)
        put(self, "sizes", shape)
        put(self, "strides", strides)
        put(self, "flags", flags)
        put(self, "total_tensor_size_in_bytes", total)
        put(self, "guaranteed_base_offset_alignment", alignment)

    @classmethod
    def of(cls, array: Any, beyond: bool = False) -> "TensorDesc":
        """The packed description of an array (or of anything with `shape` and `dtype`)."""
        if not is_array(array):
            raise DmlError([Fault(_STRUCT, "", "be an array", shown_array(array))])
        data_type = TensorDataType.of_dtype(array.dtype, beyond)
        return cls(data_type, array.shape, beyond=beyond)

    def replace(self, /, **changes: Any) -> "TensorDesc":
        """The description with some fields changed, checked as a new one is.

        Where `total_tensor_size_in_bytes` is what the others need, it stays so. `beyond=True` is as
        for the constructor; a tensor beyond DirectML may stay beyond it.
        """
        fields: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        fields["beyond"] = self.is_beyond
        if self.total_tensor_size_in_bytes == self.implied_size_in_bytes:
            del fields["total_tensor_size_in_bytes"]
        return TensorDesc(**{**fields, **changes})

    __replace__ = replace  # `copy.replace`

    @property
    def dimension_count(self) -> int:
        return len(self.sizes)

    def packed(self, axis: int, size: int) -> "TensorDesc":
        """Return a packed tensor of the same type, with another size along an axis."""
        sizes = *self.sizes[:axis], size, *self.sizes[axis + 1 :]
        return TensorDesc(self.data_type, sizes, beyond=self.is_beyond)

    @property
    def is_beyond(self) -> bool:
        """Return whether the tensor has more dimensions than DirectML takes."""
        return len(self.sizes) > DIMENSION_COUNT_MAX

    @property
    def dtype(self) -> np.dtype:
        return self.data_type.dtype

    @property
    def memory_dtype(self) -> np.dtype:
        """The type of a flat buffer that holds the tensor: UINT8 for UINT4 and INT4.

        The first of two 4-bit elements lies in the low half of their byte.
        """
        return self.dtype if self.data_type.element_size else np.dtype(np.uint8)

    @property
    def packed_strides(self) -> Sizes:
        """The strides of these sizes, row-major without padding."""
        return strided_memory.packed_strides(self.sizes)

    @property
    def is_packed(self) -> bool:
        """Return whether elements lie row-major without padding, with strides or without."""
        return self.strides in (None, self.packed_strides)

    @property
    def span(self) -> int:
        """Elements from the first to the last, both included."""
        return span(self.sizes, self.strides)

    @property
    def span_in_bytes(self) -> int:
        """Bytes from the first element to the last, both included."""
        return _bytes_of(self.span, self.data_type.bits)

    @property
    def has_distinct_addresses(self) -> bool:
        """Return whether every element lies at an address of its own, as an output's must."""
        return self.strides is None or strided_memory.distinct(self.sizes, self.strides)

    def read(self, buffer: ArrayLike) -> jax.Array:
        """The tensor, of shape `sizes`, that lies at the start of a flat buffer of `memory_dtype`.

        A pure function of the buffer: a reshape, transposition, broadcast or slice where the
        strides allow, a gather where not; under jit it fuses with what reads the result.
        """
        flat = self._checked(buffer)
        if not self.data_type.element_size:
            return strided_memory.read_4_bits(flat, self.sizes, self.strides, self.dtype)
        return strided_memory.read(flat, self.sizes, self.strides)

    def write(self, buffer: ArrayLike, tensor: ArrayLike) -> jax.Array:
        """The flat buffer with the tensor written at its start, other elements as they were.

        A pure function, like `read`. Raises `DmlError` where two elements share an address.
        """
        if not self.has_distinct_addresses:
            raise DmlError([Fault(_STRUCT, "Strides", DISTINCT_ADDRESSES, self.strides)])
        if (getattr(tensor, "shape", None), getattr(tensor, "dtype", None)) != (
            self.sizes,
            self.dtype,
        ):
            rule = f"be {self.shown()}"
            raise DmlError([Fault(_STRUCT, "tensor", rule, shown_array(tensor))])
        is_whole = bool(self.data_type.element_size)
        write = strided_memory.write if is_whole else strided_memory.write_4_bits
        return write(self._checked(buffer), jnp.asarray(tensor), self.strides)

    def _checked(self, buffer: Any) -> jax.Array:
        if needs_x64(self.data_type):
            raise DmlError([Fault(_STRUCT, "DataType", X64_RULE, self.data_type.shown())])
        dtype = self.memory_dtype
        count = -(-self.span_in_bytes // dtype.itemsize)
        if (
            not hasattr(buffer, "ndim")
            or buffer.ndim != 1
            or buffer.dtype != dtype
            or buffer.shape[0] < count
        ):
            rule = f"be flat, {dtype}, of at least {count} elements"
            raise DmlError([Fault(_STRUCT, "buffer", rule, shown_array(buffer))])
        return jnp.asarray(buffer)

    def shown(self) -> Unquoted:
        """`FLOAT32[1,1,3,3]`, with strides where there are any."""
        layout = f" strides {list(self.strides)}" if self.strides is not None else ""
        return Unquoted(f"{self.data_type}[{_joined(self.sizes)}]{layout}")

    def to_json(self) -> dict[str, Any]:
        """Return DxDispatch's JSON; fields with default values are omitted."""
        result: dict[str, Any] = {"DataType": self.data_type.name}
        if self.flags:
            result["Flags"] = [flag.name for flag in TensorFlags if flag & self.flags]
        result["Sizes"] = list(self.sizes)
        if self.strides is not None:
            result["Strides"] = list(self.strides)
        if self.total_tensor_size_in_bytes != self.implied_size_in_bytes:
            result["TotalTensorSizeInBytes"] = self.total_tensor_size_in_bytes
        if self.guaranteed_base_offset_alignment:
            result["GuaranteedBaseOffsetAlignment"] = self.guaranteed_base_offset_alignment
        return result

    @classmethod
    def from_json(cls, value: Any) -> "TensorDesc":
        """The inverse of `to_json`; takes the fields as they are or as {"Type", "Desc"}.

        Type, Flags, DimensionCount, Strides, TotalTensorSizeInBytes (also 0, for the least) and
        GuaranteedBaseOffsetAlignment may be left out; Strides of [] are none, as for DxDispatch.
        Raises `DmlError` with all faults.
        """
        faults: list[Fault] = []
        if isinstance(value, Mapping):
            value = dict(value)
            try:
                kind = TensorType.of(value.pop("Type", TensorType.BUFFER))
                if kind != TensorType.BUFFER:
                    faults.append(Fault(_STRUCT, "Type", "be BUFFER", kind.shown()))
            except DmlError as error:
                faults += error.moved(_STRUCT, "Type")
            if "Desc" in value:
                outside = sorted(name for name in value if name != "Desc" and not is_note(name))
                if outside:
                    rule = "stand inside Desc, as the others do"
                    faults.append(Fault(_STRUCT, outside[0], rule, value[outside[0]]))
                value = value["Desc"]
        if not isinstance(value, Mapping):
            raise DmlError([*faults, Fault(_STRUCT, "", "be an object", value)])
        for name in value:
            if name not in _JSON_FIELDS and not is_note(name):
                rule = f"be a field of {_STRUCT}{nearest(name, _JSON_FIELDS)}"
                faults.append(Fault(_STRUCT, str(name), rule, value[name]))
        for name in ("DataType", "Sizes"):
            if name not in value:
                faults.append(Fault(_STRUCT, name, "be given", NOTHING))
        sizes, count = value.get("Sizes"), value.get("DimensionCount")
        counted = type(count) is int and isinstance(sizes, list) and count == len(sizes)
        if "DimensionCount" in value and isinstance(sizes, list) and not counted:
            rule = f"be {len(sizes)} (the elements of Sizes)"
            faults.append(Fault(_STRUCT, "DimensionCount", rule, count))
        total = value.get("TotalTensorSizeInBytes")
        if total == 0 and type(total) is int:
            total = None  # DxDispatch computes it then
        strides = value.get("Strides")
        try:
            tensor = cls(
                value.get("DataType", TensorDataType.FLOAT32),
                value.get("Sizes", (1,)),
                None if strides == [] else strides,
                value.get("Flags", TensorFlags.NONE),
                total,
                value.get("GuaranteedBaseOffsetAlignment", 0),
            )
        except DmlError as error:
            raise DmlError([*faults, *error.faults]) from None
        raise_if(faults)
        return tensor

    def __reduce__(self) -> tuple[Any, ...]:
        return TensorDesc, (*(getattr(self, name) for name in self.__slots__), self.is_beyond)

    def __repr__(self) -> str:
        parts = [repr(self.data_type.name), str(list(self.sizes))]
        if self.strides is not None:
            parts.append(f"strides={list(self.strides)}")
        if self.flags:
            parts.append(f"flags={self.flags.name!r}")
        if self.total_tensor_size_in_bytes != self.implied_size_in_bytes:
            parts.append(f"total_tensor_size_in_bytes={self.total_tensor_size_in_bytes}")
        if self.guaranteed_base_offset_alignment:
            parts.append(
                f"guaranteed_base_offset_alignment={self.guaranteed_base_offset_alignment}"
            )
        return f"TensorDesc({', '.join(parts)})"

    def _repr_html_(self) -> str:
        """Return a table of the fields that are set, for notebooks."""
        fields = {
            "type": self.data_type.name,
            "sizes": list(self.sizes),
            "strides": None if self.strides is None else list(self.strides),
            "bytes": self.total_tensor_size_in_bytes,
            "flags": self.flags.name if self.flags else None,
        }
        given = {name: value for name, value in fields.items() if value is not None}
        rows = "".join(f"<tr><td>{name}</td><td>{v}</td></tr>" for name, v in given.items())
        return f"<table><caption>TensorDesc</caption>{rows}</table>"

    @property
    def implied_size_in_bytes(self) -> int:
        """`calc_buffer_tensor_size` of this tensor: the least that a buffer needs."""
        return round_up(self.span_in_bytes, 4)


X64_RULE = (
    "have at most 32 bits while 64-bit types are off in JAX (turn them on: "
    'jax.config.update("jax_enable_x64", True), or JAX_ENABLE_X64=1)'
)


def needs_x64(data_type: TensorDataType) -> bool:
    """Return whether JAX, as it is set, would narrow arrays of this type."""
    return data_type.bits == 64 and not jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]


_JSON_FIELDS = (
    "DataType",
    "Flags",
    "DimensionCount",
    "Sizes",
    "Strides",
    "TotalTensorSizeInBytes",
    "GuaranteedBaseOffsetAlignment",
)

DISTINCT_ADDRESSES = "give every element of an output an address of its own"


def is_uint(value: object) -> bool:
    """Return whether the value is a UINT64."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        return False
    return 0 <= int(value) < 2**64


def shown_array(array: Any) -> Unquoted:
    """`float32[2,3]` for an array, the type's name for anything else."""
    if is_array(array):
        return Unquoted(f"{array.dtype}[{_joined(array.shape)}]")
    return Unquoted(None if array is None else with_article(type(array)))


def is_array(value: Any) -> bool:
    """Return whether `array` has a shape and a type, and is there."""
    is_there = not isinstance(value, Placeholder)
    return is_there and hasattr(value, "shape") and hasattr(value, "dtype")


def _joined(sizes: Iterable[int]) -> str:
    return ",".join(map(str, sizes))

"""The resources of a model: parsed and measured first; their contents are made when needed."""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dml_jax.description.fields import Integer, float_of_word, list_of
from dml_jax.description.tensor import UINT_MAX, round_up
from dml_jax.dxdispatch.pictures import IMAGE_TYPES, read_image, sizes_of_image
from dml_jax.dxdispatch.reading import Reader, find_file, one_of, string
from dml_jax.enums import TensorDataType
from dml_jax.errors import NOTHING, DmlError, Fault, Unquoted, abbreviate, moving, refused
from dml_jax.system.files import read_npy, readable

UINT64_MAX = 2**64 - 1
FILE_TYPES = (".npy", *IMAGE_TYPES)
# Files of these types are no raw bytes, and are not written either.
OTHER_TYPES = (".npz", ".bmp", ".gif", ".tif", ".tiff", ".webp")
NO_OTHER_TYPE = f"end in {', '.join(FILE_TYPES)}, or for raw bytes in .bin or .dat"
UNKNOWN = TensorDataType.UNKNOWN
DEFERRED = "deferred"
"""The initial values of a resource whose size follows from the tensors that are bound to it."""


@dataclass(frozen=True)
class Resource:
    """A buffer of `size_in_bytes`, with initial values from byte `offset` on.

    Attributes:
        data_type: the type of the elements that are printed and that offsets count; UNKNOWN for a
            list of mixed types.
        size_of_model: the `sizeInBytes` of the model, if it has one.
        initial_size: the number of bytes that `make` returns.
        make: makes the initial values; raises `DmlError` if a file has become unreadable. It is no
            closure, so that it can be pickled.
    """

    name: str
    data_type: TensorDataType
    size_in_bytes: int
    size_of_model: int | None
    offset: int
    initial_size: int
    make: Callable[[], np.ndarray] = dataclasses.field(repr=False)

    @property
    def context(self) -> str:
        return f"Resource '{self.name}'"

    @property
    def initialised(self) -> slice:
        """Return the bytes that a print command shows, as DxDispatch does: the initial values."""
        return slice(self.offset, self.offset + self.initial_size)

    def written(self, dimensions: Sequence[int] = ()) -> slice:
        """Return the bytes that a file gets: all of `sizeInBytes`, without padding.

        These are the initial values alone if the model has no size, or if `dimensions` hold as many
        elements; and the first elements if `dimensions` hold fewer.
        """
        count = math.prod(dimensions)
        fits = dimensions and count == self.elements(self.initialised)
        whole = self.initialised
        if self.size_of_model is not None and not fits:
            whole = slice(0, self.size_of_model)
        if dimensions and count < self.elements(whole):
            return slice(whole.start, whole.start + count * (self.data_type.element_size or 1))
        return whole

    def elements(self, part: slice) -> int:
        """Return the number of whole elements in `part`; of bytes if the resource has no type."""
        return (part.stop - part.start) // (self.data_type.element_size or 1)

    def bytes(self) -> np.ndarray:
        """Make the initial bytes of the whole buffer; bytes without a value are zero."""
        with moving("", "initialValues", self.context):
            values = np.ascontiguousarray(self.make()).reshape(-1).view(np.uint8)
        return self.in_buffer(values, self.offset)

    def in_buffer(self, values: np.ndarray, offset: int) -> np.ndarray:
        """Return a whole buffer that holds `values` from byte `offset` on, and else zero."""
        if values.size == self.size_in_bytes:
            return values
        buffer = np.zeros(self.size_in_bytes, np.uint8)
        buffer[offset : offset + values.size] = values
        return buffer


_FIELDS = (
    "type",
    "initialValues",
    "initialValuesDataType",
    "initialValuesOffsetInBytes",
    "sizeInBytes",
    "resampleSize",
    "resampleMode",
)


def parse_resource(name: str, value: Any, folder: Path) -> Resource:
    """Return the resource `name` of a model in `folder`. Raises `DmlError` with all its faults."""
    with Reader(value, _FIELDS, f"Resource '{name}'") as fields:
        fields.take("type", one_of("buffer"), "buffer")
        data_type = fields.take("initialValuesDataType", TensorDataType.of, UNKNOWN)
        resample = fields.take("resampleSize", _resample_size, None)
        fields.take("resampleMode", one_of("scale"), "scale")
        size = fields.take("sizeInBytes", Integer(1, UINT64_MAX).convert, None)
        offset = fields.take("initialValuesOffsetInBytes", Integer(0, UINT64_MAX).convert, 0)
        values = None
        if not fields.faults:
            values = fields.take(
                "initialValues", lambda v: _parse_values(v, data_type, folder, resample)
            )
        if values is not None:
            needed = values.size + offset
            if size is not None and size < needed:
                fields.refuse("sizeInBytes", f"be at least {needed} (the initial values)", size)
    assert values is not None
    if isinstance(value, Mapping) and value.get("initialValues") == DEFERRED:
        values = dataclasses.replace(values, size=max((size or 0) - offset, 0))
    whole = round_up(size or values.size + offset, 4)
    return Resource(name, values.data_type, whole, size, offset, values.size, values.make)


@dataclass(frozen=True)
class Values:
    """Initial values: their type, their bytes, and the function that makes them.

    `shape` is that of the array in a .npy file.
    """

    data_type: TensorDataType
    size: int  # bytes
    make: Callable[[], np.ndarray]
    shape: tuple[int, ...] | None = None


def _resample_size(value: Any) -> tuple[int, int, int]:
    sizes = list_of(Integer(1, UINT_MAX).convert)(value)
    if len(sizes) != 4 or sizes[0] != 1 or sizes[1] not in (1, 3, 4):
        raise refused("be [1, C, H, W] with 1, 3 or 4 channels", sizes)
    return sizes[1], sizes[2], sizes[3]


def _parse_values(
    value: Any, data_type: TensorDataType, folder: Path, resample: tuple[int, int, int] | None
) -> Values:
    if isinstance(value, list):
        if not value:
            raise refused("have at least 1 element", value)
        array = _bytes_of_types(value) if data_type == UNKNOWN else _numbers(value, data_type)
        return Values(data_type, array.nbytes, partial(read_only, array))
    if value == DEFERRED:
        return Values(data_type, 0, partial(np.zeros, 0, np.uint8))
    if not isinstance(value, Mapping):
        rule = "be a list, 'deferred', or an object with valueCount and value, valueStart or "
        raise refused(rule + "sourcePath", value)
    if "sourcePath" in value:
        return _file(value, data_type, folder, resample)
    if "value" in value and "valueStart" in value:
        raise refused("have value, or valueStart and valueDelta", Unquoted("both"))
    if "valueStart" in value:
        return _with_count(value, data_type, accumulated, ("valueStart", "valueDelta"))
    if "value" in value or "valueCount" in value:
        return _with_count(value, data_type, np.full, ("value",))
    raise refused("have valueCount and value, valueStart and valueDelta, or sourcePath", value)


def read_only(array: np.ndarray) -> np.ndarray:
    """Return `array`, which is written no more."""
    array.flags.writeable = False  # several buffers may begin with these values
    return array


def _with_size(data_type: TensorDataType) -> TensorDataType:
    """Return `data_type`. Raises `DmlError` if its elements have no size in bytes."""
    if data_type.element_size == 0:
        if data_type == UNKNOWN:
            raise refused("come with an initialValuesDataType", NOTHING)
        rule = "come with an initialValuesDataType of whole bytes (UINT8 for two 4-bit elements)"
        raise refused(rule, data_type.shown())
    return data_type


def _with_count(
    value: Any, data_type: TensorDataType, make: Callable[..., np.ndarray], names: tuple[str, ...]
) -> Values:
    """Return the values of {"valueCount"} and of the fields `names`, which are numbers.

    `make` is a function of the count, these numbers and the dtype.
    """
    dtype = _with_size(data_type).dtype
    with Reader(value, ("valueCount", *names), beside=_FIELDS) as fields:
        count = fields.take("valueCount", Integer(1, UINT_MAX).convert)
        numbers = [fields.take(name, lambda v: number(v, data_type)) for name in names]
    return Values(data_type, count * dtype.itemsize, partial(make, count, *numbers, dtype))


def accumulated(count: int, start: float, delta: float, dtype: np.dtype) -> np.ndarray:
    """Return start, start + delta, ... summed in the type itself, as in DxDispatch.

    Floats round at each step, and integers wrap.
    """
    steps = np.full(count, delta, dtype)
    steps[0] = start
    with np.errstate(all="ignore"):
        return np.add.accumulate(steps, dtype=dtype, out=steps)


def number(value: Any, data_type: TensorDataType) -> int | float:
    """Return a JSON number that `data_type` holds; floats may be "nan", "inf" or "-inf"."""
    dtype = data_type.dtype
    if np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)
        return Integer(int(limits.min), int(limits.max)).convert(value)
    value = float_of_word(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise refused("be a number, 'nan', 'inf' or '-inf'", value)
    with np.errstate(over="ignore"):
        try:
            fits = not math.isfinite(value) or not np.isinf(dtype.type(value))
        except OverflowError:
            fits = False
    if not fits:
        raise refused(f"fit {data_type} (at most {np.finfo(dtype).max} in magnitude)", value)
    return value


def _numbers(values: list[Any], data_type: TensorDataType) -> np.ndarray:
    _with_size(data_type)
    return np.array(list_of(lambda v: number(v, data_type))(values), data_type.dtype)


def _bytes_of_types(values: list[Any]) -> np.ndarray:
    """Return the bytes of a list of {"name", "type", "value"} elements, packed in order."""
    if not any(isinstance(value, Mapping) for value in values):
        _with_size(UNKNOWN)  # numbers have no type of their own

    def pack(value: Any) -> bytes:
        if not isinstance(value, Mapping):
            rule = "be an object with type and value (numbers need an initialValuesDataType)"
            raise refused(rule, value)
        element, data_type = 0, TensorDataType.UNKNOWN
        with Reader(value, ("name", "type", "value")) as fields:
            data_type = fields.take("type", lambda t: _with_size(TensorDataType.of(t)))
            if not fields.faults:
                element = fields.take("value", lambda v: number(v, data_type))
        return np.array(element, data_type.dtype).tobytes()

    return np.frombuffer(b"".join(list_of(pack)(values)), np.uint8)


@contextlib.contextmanager
def reading(source: str, kind: str) -> Iterator[None]:
    """Raise errors inside as a `DmlError` that names the file `source`, of this kind."""
    field = f"sourcePath {abbreviate(source)}"
    with moving("", field), readable("", f"be a readable {kind} file"):
        yield


def _file(
    value: Any, data_type: TensorDataType, folder: Path, resample: tuple[int, int, int] | None
) -> Values:
    source = ""
    with Reader(value, ("sourcePath",), beside=_FIELDS) as fields:
        source = fields.take("sourcePath", string)
    return values_of_file(source, lambda: find_file(folder, source), data_type, resample)


def values_of_file(
    source: str,
    find: Callable[[], Path],
    data_type: TensorDataType,
    resample: tuple[int, int, int] | None = None,
) -> Values:
    """Return the values in the file that messages call `source` and whose path `find` returns.

    They are read when they are needed. A picture takes the channels, height and width of
    `resample`, if there are any. Raises `DmlError` if the file cannot be read.
    """
    kind = Path(source).suffix.lower()
    if kind in OTHER_TYPES:
        raise DmlError([Fault("", "sourcePath", NO_OTHER_TYPE, source)])
    parse = {".npy": _npy}.get(kind, _image if kind in IMAGE_TYPES else _raw)
    with reading(source, kind or "raw"):
        parsed = parse(find(), data_type, resample)
    make = partial(read_source, source, kind or "raw", parsed.make)
    return dataclasses.replace(parsed, make=make)


def read_source(source: str, kind: str, make: Callable[[], np.ndarray]) -> np.ndarray:
    """Return what `make` reads of a file. Raises `DmlError` that names `source`."""
    with reading(source, kind):
        return make()


def _npy(path: Path, data_type: TensorDataType, _: Any) -> Values:
    # Mapped: a header that promises more than the file holds fails before anything is allocated.
    with np.errstate(over="raise"):  # of sizes whose product no integer holds
        mapped = np.lib.format.open_memmap(path, mode="r")
    array = _numeric(mapped)
    try:
        stored = TensorDataType.of_dtype(array.dtype.newbyteorder("="))
    except DmlError:
        rule = "hold numbers of a type that DirectML has"
        raise refused(rule, _name_in_file(mapped.dtype)) from None
    if data_type not in (UNKNOWN, stored):
        rule = f"hold {data_type}, as initialValuesDataType says"
        raise refused(rule, _name_in_file(mapped.dtype))
    if array.size == 0:
        raise refused("have at least 1 element", Unquoted(f"shape {list(array.shape)}"))
    make = partial(read_array, path, stored, array.shape)
    return Values(stored, array.nbytes, make, array.shape)


def read_array(path: Path, stored: TensorDataType, shape: tuple[int, ...]) -> np.ndarray:
    """Return the array of a .npy file. Raises `DmlError` if type or shape are others by now."""
    values = _numeric(read_npy(path))
    if (values.shape, values.dtype) != (shape, stored.dtype):
        rule = f"hold {stored} {list(shape)}, as it did"
        raise refused(rule, Unquoted(f"{values.dtype} {list(values.shape)}"))
    return values


def _numeric(array: np.ndarray) -> np.ndarray:
    """Return booleans as INT8, as DxDispatch reads them, and other arrays unchanged."""
    return array.view(np.int8) if array.dtype == np.bool_ else array


def _name_in_file(dtype: np.dtype) -> Unquoted:
    """Return the name of the type of a .npy file, as its author knows it."""
    if dtype == np.bool_:
        return Unquoted("bool (read as INT8)")
    if dtype.kind == "V" and dtype.names is None:
        hint = " (bfloat16 is stored so)" if dtype.itemsize == 2 else ""
        return Unquoted(f"elements of {8 * dtype.itemsize} bits without a type{hint}")
    try:
        return TensorDataType.of_dtype(dtype.newbyteorder("=")).shown()
    except DmlError:
        return Unquoted(dtype.name)


def _raw(path: Path, data_type: TensorDataType, _: Any) -> Values:
    path.open("rb").close()  # whether it may be read
    element, size = _with_size(data_type).element_size, path.stat().st_size
    if size == 0 or size % element:
        rule = f"hold a positive multiple of {element} bytes ({data_type})"
        raise refused(rule, Unquoted(f"{size} bytes"))
    return Values(data_type, size, partial(read_raw, path, size))


def read_raw(path: Path, size: int) -> np.ndarray:
    """Return the first bytes of a file. Raises `DmlError` if there are fewer by now."""
    data = np.fromfile(path, np.uint8, count=size)
    if data.size != size:
        raise refused(f"hold {size} bytes, as it did", Unquoted(f"{data.size} bytes"))
    return data


def _image(path: Path, data_type: TensorDataType, resample: tuple[int, int, int] | None) -> Values:
    sizes = sizes_of_image(path, data_type, resample)
    make = partial(read_image, path, data_type.dtype, sizes)
    return Values(data_type, math.prod(sizes) * data_type.element_size, make)

"""The initial contents of a model's resources: parsed and measured first, made when needed."""

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dml_jax.dispatch.reading import (
    Reader,
    find_file,
    string,
)
from dml_jax.enums import TensorDataType
from dml_jax.errors import (
    NOTHING,
    DmlError,
    Fault,
    Unquoted,
    abbreviate,
    missing_extra,
    refused,
)
from dml_jax.fields import Integer, float_of_word, list_of
from dml_jax.files import read_npy
from dml_jax.tensor import UINT_MAX, round_up

UINT64_MAX = 2**64 - 1
IMAGE_TYPES = (".png", ".jpg", ".jpeg")
FILE_TYPES = (".npy", *IMAGE_TYPES)
# Raw bytes would be taken for what they are not, or the other way about.
OTHER_TYPES = (".npz", ".bmp", ".gif", ".tif", ".tiff", ".webp")
NO_OTHER_TYPE = f"end in {', '.join(FILE_TYPES)}, or for raw bytes in .bin or .dat"
IMAGE_DATA_TYPES = ("FLOAT32", "FLOAT16", "FLOAT64", "UINT8")
UNKNOWN = TensorDataType.UNKNOWN


@dataclass(frozen=True)
class Resource:
    """A buffer: `size_in_bytes` of memory whose start, or what lies at `offset`, is initialised.

    Attributes:
        data_type: what it is printed and offset by; UNKNOWN for a list of mixed types.
        given_size: `sizeInBytes`, if the model has it.
        initial_size: bytes that `make` gives.
        make: makes the initial values; raises `DmlError` where a file has become unreadable. No
            closure, so that it can be pickled.
    """

    name: str
    data_type: TensorDataType
    size_in_bytes: int
    given_size: int | None
    offset: int
    initial_size: int
    make: Callable[[], np.ndarray] = dataclasses.field(repr=False)

    @property
    def context(self) -> str:
        return f"Resource '{self.name}'"

    @property
    def initialised(self) -> slice:
        """The bytes that are printed, as DxDispatch does."""
        return slice(self.offset, self.offset + self.initial_size)

    def written(self, dimensions: Sequence[int] = ()) -> slice:
        """The bytes that become a file: all that `sizeInBytes` asks for, without padding.

        Only what is initialised, where the model says no size, or that is what `dimensions` hold.
        """
        fits = dimensions and math.prod(dimensions) == self.elements(self.initialised)
        if self.given_size is None or fits:
            return self.initialised
        return slice(0, self.given_size)

    def elements(self, part: slice) -> int:
        """How many whole elements of its type a part has; bytes, where it has none."""
        return (part.stop - part.start) // (self.data_type.element_size or 1)

    def bytes(self) -> np.ndarray:
        """The whole buffer's initial bytes; zero where nothing is initialised."""
        try:
            values = np.ascontiguousarray(self.make()).reshape(-1).view(np.uint8)
        except DmlError as error:
            raise DmlError(error.moved("", "initialValues")).within(self.context) from None
        return self.placed(values, self.offset)

    def placed(self, values: np.ndarray, offset: int) -> np.ndarray:
        """A whole buffer that holds these bytes from an offset on, else zero."""
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
    """A resource of a model in `folder`. Raises `DmlError` with all that is wrong with it."""
    with Reader(value, _FIELDS, f"Resource '{name}'") as fields:
        fields.take("type", _only("buffer"), "buffer")
        data_type = fields.take("initialValuesDataType", TensorDataType.of, UNKNOWN)
        resample = fields.take("resampleSize", _resample_size, None)
        fields.take("resampleMode", _only("scale"), "scale")
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
    whole = round_up(size or values.size + offset, 4)
    return Resource(name, values.data_type, whole, size, offset, values.size, values.make)


@dataclass(frozen=True)
class _Values:
    data_type: TensorDataType
    size: int  # bytes
    make: Callable[[], np.ndarray]


def _resample_size(value: Any) -> tuple[int, int, int]:
    sizes = list_of(Integer(1, UINT_MAX).convert)(value)
    if len(sizes) != 4 or sizes[0] != 1 or sizes[1] not in (1, 3, 4):
        raise refused("be [1, C, H, W] with 1, 3 or 4 channels", sizes)
    return sizes[1], sizes[2], sizes[3]


def _only(word: str) -> Callable[[Any], str]:
    def convert(value: Any) -> str:
        if value != word:
            raise refused(f"be '{word}'", value)
        return value

    return convert


def _parse_values(
    value: Any, data_type: TensorDataType, folder: Path, resample: tuple[int, int, int] | None
) -> _Values:
    if isinstance(value, list):
        if not value:
            raise refused("have at least 1 element", value)
        array = _mixed(value) if data_type == UNKNOWN else _numbers(value, data_type)
        return _Values(data_type, array.nbytes, functools.partial(_kept, array))
    if value == "deferred":
        raise refused("be values (deferred ones are for ONNX models)", value)
    if not isinstance(value, Mapping):
        raise refused(
            "be a list, or an object with valueCount and value, valueStart or sourcePath", value
        )
    if "sourcePath" in value:
        return _file(value, data_type, folder, resample)
    if "value" in value and "valueStart" in value:
        raise refused("have value, or valueStart and valueDelta", Unquoted("both"))
    if "valueStart" in value:
        return _sequence(value, data_type)
    if "value" in value or "valueCount" in value:
        return _constant(value, data_type)
    raise refused("have valueCount and value, valueStart and valueDelta, or sourcePath", value)


def _kept(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False  # each buffer begins with these
    return array


def _typed(data_type: TensorDataType) -> TensorDataType:
    if data_type.element_size == 0:
        if data_type == UNKNOWN:
            raise refused("come with an initialValuesDataType", NOTHING)
        rule = "come with an initialValuesDataType of whole bytes (UINT8 for two 4-bit elements)"
        raise refused(rule, data_type.shown())
    return data_type


def _constant(value: Any, data_type: TensorDataType) -> _Values:
    dtype = _typed(data_type).dtype
    with Reader(value, ("valueCount", "value"), beside=_FIELDS) as fields:
        count = fields.take("valueCount", Integer(1, UINT_MAX).convert)
        element = fields.take("value", lambda v: number(v, data_type))
    make = functools.partial(np.full, count, element, dtype)
    return _Values(data_type, count * dtype.itemsize, make)


def _sequence(value: Any, data_type: TensorDataType) -> _Values:
    dtype = _typed(data_type).dtype
    with Reader(value, ("valueCount", "valueStart", "valueDelta"), beside=_FIELDS) as fields:
        count = fields.take("valueCount", Integer(1, UINT_MAX).convert)
        start = fields.take("valueStart", lambda v: number(v, data_type))
        delta = fields.take("valueDelta", lambda v: number(v, data_type))
    make = functools.partial(_accumulated, count, start, delta, dtype)
    return _Values(data_type, count * dtype.itemsize, make)


def _accumulated(count: int, start: float, delta: float, dtype: np.dtype) -> np.ndarray:
    # In the type, as DxDispatch does: floats round at each step, integers wrap.
    steps = np.full(count, delta, dtype)
    steps[0] = start
    with np.errstate(all="ignore"):
        return np.add.accumulate(steps, dtype=dtype, out=steps)


def number(value: Any, data_type: TensorDataType) -> int | float:
    """A JSON number, or "nan", "inf", "-inf" for floats, that the type holds."""
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
    _typed(data_type)
    return np.array(list_of(lambda v: number(v, data_type))(values), data_type.dtype)


def _mixed(values: list[Any]) -> np.ndarray:
    """A list initialiser: {"name", "type", "value"} elements, packed one behind the other."""
    if not any(isinstance(value, Mapping) for value in values):
        _typed(UNKNOWN)  # numbers have no type of their own

    def element(value: Any) -> bytes:
        if not isinstance(value, Mapping):
            rule = "be an object with type and value (numbers need an initialValuesDataType)"
            raise refused(rule, value)
        number_, data_type = 0, TensorDataType.UNKNOWN
        with Reader(value, ("name", "type", "value")) as fields:
            data_type = fields.take("type", lambda t: _typed(TensorDataType.of(t)))
            if not fields.faults:
                number_ = fields.take("value", lambda v: number(v, data_type))
        return np.array(number_, data_type.dtype).tobytes()

    return np.frombuffer(b"".join(list_of(element)(values)), np.uint8)


@contextlib.contextmanager
def reading(source: str, kind: str) -> Iterator[None]:
    """What goes wrong inside is said of the file, without the reading library's traceback."""
    field = f"sourcePath {abbreviate(source)}"
    try:
        yield
    except DmlError as error:
        raise DmlError(error.moved("", field)) from None
    except Exception as error:  # the libraries that parse pictures and arrays raise of any kind
        text = Unquoted(getattr(error, "strerror", None) or error or type(error).__name__)
        raise DmlError([Fault("", field, f"be a readable {kind} file", text)]) from None


def _file(
    value: Any, data_type: TensorDataType, folder: Path, resample: tuple[int, int, int] | None
) -> _Values:
    source = ""
    with Reader(value, ("sourcePath",), beside=_FIELDS) as fields:
        source = fields.take("sourcePath", string)
    kind = Path(source).suffix.lower()
    if kind in OTHER_TYPES:
        raise DmlError([Fault("", "sourcePath", NO_OTHER_TYPE, source)])
    parse = {".npy": _npy}.get(kind, _image if kind in IMAGE_TYPES else _raw)
    with reading(source, kind or "raw"):
        parsed = parse(find_file(folder, source), data_type, resample)
    make = functools.partial(_read, source, kind or "raw", parsed.make)
    return dataclasses.replace(parsed, make=make)


def _read(source: str, kind: str, make: Callable[[], np.ndarray]) -> np.ndarray:
    with reading(source, kind):
        return make()


def _npy(path: Path, data_type: TensorDataType, _: Any) -> _Values:
    # Mapped: a header that promises more than the file holds is refused, not allocated.
    with np.errstate(over="raise"):  # of sizes whose product no integer holds
        array = _numeric(np.lib.format.open_memmap(path, mode="r"))
    try:
        stored = TensorDataType.of_dtype(array.dtype.newbyteorder("="))
    except DmlError as error:
        raise refused("hold numbers of a type that DirectML has", error.value) from None
    if data_type not in (UNKNOWN, stored):
        raise refused(f"hold {data_type}, as initialValuesDataType says", stored.shown())
    if array.size == 0:
        raise refused("have at least 1 element", Unquoted(f"shape {list(array.shape)}"))
    make = functools.partial(_read_npy, path, stored, array.shape)
    return _Values(stored, array.nbytes, make)


def _read_npy(path: Path, stored: TensorDataType, shape: tuple[int, ...]) -> np.ndarray:
    values = _numeric(read_npy(path))
    if (values.shape, values.dtype) != (shape, stored.dtype):
        rule = f"hold {stored} {list(shape)}, as it did"
        raise refused(rule, Unquoted(f"{values.dtype} {list(values.shape)}"))
    return values


def _numeric(array: np.ndarray) -> np.ndarray:
    """Booleans as INT8, as DxDispatch reads them."""
    return array.view(np.int8) if array.dtype == np.bool_ else array


def _raw(path: Path, data_type: TensorDataType, _: Any) -> _Values:
    path.open("rb").close()  # whether it may be read
    element, size = _typed(data_type).element_size, path.stat().st_size
    if size == 0 or size % element:
        rule = f"hold a positive multiple of {element} bytes ({data_type})"
        raise refused(rule, Unquoted(f"{size} bytes"))
    return _Values(data_type, size, functools.partial(_read_raw, path, size))


def _read_raw(path: Path, size: int) -> np.ndarray:
    data = np.fromfile(path, np.uint8, count=size)
    if data.size != size:
        raise refused(f"hold {size} bytes, as it did", Unquoted(f"{data.size} bytes"))
    return data


def _image(path: Path, data_type: TensorDataType, resample: tuple[int, int, int] | None) -> _Values:
    image_class = pillow()
    if data_type.name not in IMAGE_DATA_TYPES:
        names = ", ".join(IMAGE_DATA_TYPES)
        raise refused(f"come with an initialValuesDataType of {names}", data_type.shown())
    with image_class.open(path) as header:
        pixels, most = header.width * header.height, image_class.MAX_IMAGE_PIXELS
        channels, height, width = resample or (3, header.height, header.width)
    if most is not None and pixels > most:  # of which Pillow itself only warns
        raise refused(f"have at most {most} pixels (PIL.Image.MAX_IMAGE_PIXELS)", pixels)
    make = functools.partial(_read_image, path, data_type.dtype, (channels, height, width))
    return _Values(data_type, channels * height * width * data_type.element_size, make)


def _read_image(path: Path, dtype: np.dtype, sizes: tuple[int, int, int]) -> np.ndarray:
    channels, height, width = sizes
    image_class = pillow()
    with image_class.open(path) as opened:
        image = opened
        if opened.mode.startswith("I;16"):  # Pillow's own conversion clips at 255
            deep = np.asarray(opened).astype(np.float32)
            image = image_class.fromarray(np.rint(deep / 257).astype(np.uint8))
        image = image.convert({1: "L", 3: "RGB", 4: "RGBA"}[channels])
    if image.size != (width, height):
        image = image.resize((width, height), image_class.Resampling.BICUBIC)
    pixels = np.asarray(image).reshape(height, width, channels)
    planes = np.empty((channels, height, width), dtype)
    for index in range(channels):  # a plane at a time, so that little memory is needed
        plane = pixels[..., index]
        planes[index] = plane if planes.dtype == np.uint8 else plane / np.float32(255)
    return planes


def pillow() -> Any:
    """PIL.Image, or the error that says how to install it."""
    try:
        from PIL import Image
    except ImportError:
        raise missing_extra("pillow", "read and write pictures", "cli") from None
    return Image

"""Large tensors of a model: their elements stay in the file until each is read, by itself.

Protobuf copies the bytes of a whole model, and again those of each tensor that is asked for. So a
model is parsed without the elements of its large initializers, and a place in the file stands for
each. Elements are read into memory that begins where XLA wants it, which JAX takes as it is on a
CPU: a weight is in memory once.
"""

import contextlib
import mmap
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from dml_jax.errors import DmlError, Fault, Unquoted
from dml_jax.system.aligned_memory import LARGE, empty

_MARK = "dml_jax.place"  # the entry of a tensor that tells the number of its place
_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9  # fields of onnx.proto
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # of Protobuf's encoding


@dataclass(frozen=True)
class Places:
    """Where the elements of large initializers are.

    Attributes:
        model: the path of the model's file, or its bytes.
        stamp: the size of the file and the time of its last change, when it was parsed.
        places: the first byte and the number of bytes of each.
    """

    model: Path | memoryview = field(default_factory=lambda: memoryview(b""), repr=False)
    stamp: tuple[int, int] | None = None
    places: Sequence[tuple[int, int]] = field(default=(), repr=False)

    def bytes_of(self, tensor: onnx.TensorProto) -> np.ndarray | None:
        """Return the bytes of a tensor's elements; None where the tensor has them itself.

        Raises `DmlError` where the file is not as it was.
        """
        place = next((int(e.value) for e in tensor.external_data if e.key == _MARK), None)
        if place is None or place >= len(self.places) or tensor.HasField("raw_data"):
            return None
        start, count = self.places[place]
        if isinstance(self.model, memoryview):
            made = empty(count)
            made[:] = np.frombuffer(self.model, np.uint8, count, start)
            return made
        read = read_from(self.model, start, count) if stamp_of(self.model) == self.stamp else None
        if read is None:
            rule, value = "be as it was when it was opened", Unquoted("another file")
            raise DmlError([Fault("", f"the file '{self.model}'", rule, value)])
        return read


@contextlib.contextmanager
def contents(model: Any) -> Iterator[tuple[Any, Places]]:
    """Yield the bytes of a model, and where these are.

    `model` is a path, whose bytes are a buffer that ends with this context, or bytes.
    """
    if not isinstance(model, Path):
        data = memoryview(model).cast("B")
        yield data, Places(data)
        return
    with model.open("rb") as file:
        places = Places(model, stamp_of(model))
        try:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (ValueError, OSError):  # an empty file, or a pipe
            whole = file.read()
            yield whole, Places(memoryview(whole))
            return
        with data:
            yield data, places


def read_from(path: Path, start: int, count: int) -> np.ndarray | None:
    """Return bytes of a file; None where it has not so many."""
    made = empty(count)
    with path.open("rb") as file:
        file.seek(start)
        return made if file.readinto(made.data) == count else None


def stamp_of(path: Path) -> tuple[int, int]:
    """Return the size of a file and the time of its last change."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def without_large(data: Any) -> tuple[bytes, list[tuple[int, int]]]:
    """Return a model without the elements of its large initializers, and their places.

    `data` are the bytes of the model: a buffer. It is returned as it is where it has no large
    initializers, or is no message of Protobuf, which who parses it says better.
    """
    places: list[tuple[int, int]] = []
    if len(data) <= LARGE or sys.byteorder == "big":  # elements are little-endian
        return bytes(data), places
    try:
        parts = b"".join(_parts(data, 0, len(data), (_GRAPH, _INITIALIZER), places))
    except (IndexError, ValueError):
        return bytes(data), []
    return (parts, places) if places else (bytes(data), places)


def _parts(
    data: Any, at: int, stop: int, path: Sequence[int], places: list[tuple[int, int]]
) -> Iterator[bytes]:
    """Yield the parts of a message in which a path of fields leads to tensors."""
    if not path:
        yield from _tensor(data, at, stop, places)
        return
    for number, start, value, end in _fields(data, at, stop):
        if number == path[0] and end - value > LARGE:
            inner = b"".join(_parts(data, value, end, path[1:], places))
            yield _written(number << 3 | _BYTES) + _written(len(inner)) + inner
        else:
            yield data[start:end]


def _tensor(data: Any, at: int, stop: int, places: list[tuple[int, int]]) -> Iterator[bytes]:
    parts = [*_fields(data, at, stop)]
    raw = [part for part in parts if part[0] == _RAW_DATA]
    is_large = len(raw) == 1 and raw[0][3] - raw[0][2] > LARGE
    for part in parts:
        _, start, value, end = part
        if is_large and part is raw[0]:
            entry = onnx.StringStringEntryProto(key=_MARK, value=str(len(places)))
            places.append((value, end - value))
            yield onnx.TensorProto(external_data=[entry]).SerializeToString()
        else:
            yield data[start:end]


def _fields(data: Any, at: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield (number, start, start of the value, end) of each field of a message.

    Raises `ValueError` or `IndexError` where the bytes are no message.
    """
    while at < stop:
        start = at
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == _VARINT:
            value = at
            _, at = _varint(data, at)
        elif kind in (_FIXED32, _FIXED64):
            value, at = at, at + (4 if kind == _FIXED32 else 8)
        elif kind == _BYTES:
            size, value = _varint(data, at)
            at = value + size
        else:
            raise ValueError(kind)
        if at > stop:
            raise ValueError(at)
        yield tag >> 3, start, value, at


def _varint(data: Any, at: int) -> tuple[int, int]:
    """Return the number at a place of a message, and the place behind it."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
        if shift > 63:
            raise ValueError(shift)


def _written(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)

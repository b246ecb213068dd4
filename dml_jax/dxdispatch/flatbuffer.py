"""Reads FlatBuffers, the format of serialized graphs, and checks every place before it is read.

FlatBuffers' own package for Python checks no place, and these files come from strangers.

A table holds a place for each field that it has, a vector its length and its elements; offsets lead
forward from where they stand. Source: "FlatBuffer Internals" of FlatBuffers' documentation.
"""

from typing import Any

import numpy as np

from dml_jax.errors import DmlError, Fault, Unquoted

_AGAIN = 4  # tables may share what they hold, so that a short file could stand for a long one


class Flatbuffer:
    """The bytes of a file, and how many may still be read; messages call it `what`."""

    def __init__(self, data: bytes, what: str):
        self.data, self.what = data, what
        self._left = _AGAIN * len(data)

    def refusal(self, place: int, reason: str) -> DmlError:
        """Return the error that the file is broken at a byte."""
        return DmlError(
            [Fault("", "the file", f"be {self.what}", Unquoted(f"{reason} at byte {place}"))]
        )

    def array(self, place: int, form: str, count: int) -> np.ndarray:
        """Return the array of a form ("u4") at a byte.

        Raises `DmlError` where it does not lie in the file.
        """
        dtype = np.dtype(f"<{form}")
        self._left -= count * dtype.itemsize
        if not 0 <= place <= len(self.data) - count * dtype.itemsize or self._left < 0:
            raise self.refusal(place, "numbers beyond its end")
        return np.frombuffer(self.data, dtype, count, place)

    def numbers(self, place: int, form: str, count: int = 1) -> list[Any]:
        """Return the numbers of a form at a byte."""
        return self.array(place, form, count).tolist()

    def target(self, place: int) -> int:
        """Return the byte that the offset at a byte leads to."""
        return place + self.numbers(place, "u4")[0]

    def vector(self, place: int, form: str) -> list[Any]:
        """Return the elements of the vector at a byte."""
        (count,) = self.numbers(place, "u4")
        return self.numbers(place + 4, form, count)

    def bytes_at(self, place: int) -> bytes:
        """Return the bytes of the vector at a byte."""
        (count,) = self.numbers(place, "u4")
        return self.array(place + 4, "u1", count).tobytes()

    def text(self, place: int) -> str:
        """Return the string at a byte."""
        try:
            return self.bytes_at(place).decode()
        except UnicodeDecodeError:
            raise self.refusal(place, "a name that is no UTF-8") from None

    def targets(self, place: int) -> list[int]:
        """Return the bytes that the vector of offsets at a byte leads to."""
        starts = enumerate(self.vector(place, "u4"))
        return [place + 4 + 4 * index + offset for index, offset in starts]


class Table:
    """The table at a byte: its fields by their number. A field that is left out is None."""

    def __init__(self, file: Flatbuffer, place: int):
        self.file, self.place = file, place
        start = place - file.numbers(place, "i4")[0]
        (size,) = file.numbers(start, "u2")
        if size < 4 or size % 2:
            raise file.refusal(start, f"a table of {size} bytes")
        self._places = file.numbers(start + 4, "u2", size // 2 - 2)

    def _place(self, number: int) -> int | None:
        offset = self._places[number] if number < len(self._places) else 0
        return self.place + offset if offset else None

    def number(self, number: int, form: str) -> int:
        """Return a number of `form`, by default 0."""
        place = self._place(number)
        return 0 if place is None else self.file.numbers(place, form)[0]

    def target(self, number: int) -> int | None:
        """Return the byte that a field leads to."""
        place = self._place(number)
        return None if place is None else self.file.target(place)

    def needed(self, number: int, what: str) -> int:
        """Return the byte that a field leads to. Raises `DmlError` where it is left out."""
        place = self.target(number)
        if place is None:
            raise self.file.refusal(self.place, f"a table without {what}")
        return place

    def table(self, number: int, what: str) -> "Table":
        """Return the table that a field leads to."""
        return Table(self.file, self.needed(number, what))

    def text(self, number: int, what: str) -> str:
        """Return the string that a field leads to."""
        return self.file.text(self.needed(number, what))

    def texts(self, number: int) -> list[str]:
        """Return the strings of a vector, none where it is left out."""
        place = self.target(number)
        return [] if place is None else [self.file.text(p) for p in self.file.targets(place)]

    def tables(self, number: int) -> "list[Table]":
        """Return the tables of a vector, none where it is left out."""
        place = self.target(number)
        return [] if place is None else [Table(self.file, p) for p in self.file.targets(place)]

    def vector(self, number: int, form: str) -> list[Any]:
        """Return the elements of a vector, none where it is left out."""
        place = self.target(number)
        return [] if place is None else self.file.vector(place, form)

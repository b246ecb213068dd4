"""Reading JSON with comments and trailing commas, and its objects field by field."""

import json
import os
import re
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from dml_jax.errors import (
    FAULTS_MAX,
    NOTHING,
    UNSAID,
    DmlError,
    Fault,
    Unquoted,
    missing_extra,
    nearest,
    refused,
)
from dml_jax.system.files import absolute, distinct_keys, is_note, parse_file, similar_file


def read_json(path: Path) -> Any:
    """Return the JSON value of the file at `path`. Raises `DmlError` with line and column."""
    return parse_file(path, "Model", parse_json)


def parse_json(text: bytes) -> Any:
    """Return the value of a JSON text. Raises `ValueError` with line and column.

    The parser is RapidJSON, as in DxDispatch, with the same leniencies. It accepts NaN and Infinity
    too, since python-rapidjson refuses trailing commas where it refuses these.
    """
    try:
        import rapidjson
    except ImportError:
        raise missing_extra("python-rapidjson", "read models", "cli") from None

    class Decoder(rapidjson.Decoder):
        def start_object(self) -> list[tuple[str, Any]]:
            return []

        def end_object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            return distinct_keys(pairs)

    flags = rapidjson.PM_COMMENTS | rapidjson.PM_TRAILING_COMMAS
    text = text.removeprefix(b"\xef\xbb\xbf")
    try:
        return Decoder(parse_mode=flags)(text.decode("utf-8"))
    except rapidjson.JSONDecodeError as error:
        raise ValueError(_with_line(str(error), text)) from None


def _with_line(message: str, text: bytes) -> str:
    """Replace the offset in `Parse error at offset 25: Invalid value.` by line and column."""
    head, _, rest = message.partition(": ")
    offset = int("".join(filter(str.isdigit, head)) or 0)
    before = text[:offset]
    line, column = before.count(b"\n") + 1, offset - (before.rfind(b"\n") + 1) + 1
    return f"{rest} (line {line}, column {column})"


def in_json(value: Any) -> Any:
    """Return `value` as JSON spells it, for messages: null, true, false, objects and lists."""
    if value is None or isinstance(value, (bool, list, tuple, dict)):
        try:
            return Unquoted(json.dumps(value, ensure_ascii=False))
        except (RecursionError, TypeError, ValueError):
            return value
    return value


def path_of(text: str) -> Path:
    """Return a path of a model, which may have been written on Windows.

    Raises `DmlError` if it names a drive or another machine and this system has none, or if it
    cannot be a name in this locale.
    """
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        encoding = sys.getfilesystemencoding()
        rule = f"be in {encoding}, as names of files are in this locale (see LC_ALL and PYTHONUTF8)"
        raise refused(rule, text) from None
    if os.sep != "\\" and re.match(r"[A-Za-z]:|\\\\", text):
        raise refused("be a path of this machine, without a drive or a server", text)
    return Path(text.replace("\\", "/"))


def folder_of(path: Path) -> Path:
    """Return the folder of a model's own files: of the model, or the current one for a pipe."""
    return Path() if path.is_fifo() else path.parent


def find_file(folder: Path, source: str) -> Path:
    """Return the path of the file `source` of a model: in `folder`, else in the current folder.

    Raises `DmlError`, with the most similar name of the folder, if there is no such file.
    """
    path = _existing(folder, Path(source)) or _existing(folder, path_of(source))
    if path is None:
        hint = similar_file(folder / path_of(source)) or similar_file(path_of(source))
        raise refused(f"exist, in the folder '{folder}' or the current one{hint}", UNSAID)
    if not path.is_file():
        raise refused("be a file", Unquoted("a folder or a device"))
    return absolute(path)  # the current folder may change before the file is read


def _existing(folder: Path, name: Path) -> Path | None:
    return next((path for path in (folder / name, name) if path.exists()), None)


class Reader:
    """Converts the fields of one JSON object and collects their faults.

    As a context manager it raises all faults at its end, within the object's context.

    Args:
        known: the names that its fields may have.
        context: the place of the object in the model.
        beside: names of fields of the enclosing object; one of these in `value` is misplaced.
    """

    def __init__(
        self, value: Any, known: Collection[str], context: str = "", beside: Collection[str] = ()
    ):
        self.faults: list[Fault] = []
        self.context = context
        self.value: Mapping[str, Any] = {}
        if not isinstance(value, Mapping):
            self.refuse("", "be an object", value)
            return
        self.value = value
        for name in value:
            if len(self.faults) > FAULTS_MAX:
                break
            if name not in known and not is_note(name):
                rule = f"be a known field{nearest(name, known)}"
                if name in beside:
                    rule = f"stand outside of the braces (beside what holds {', '.join(known)})"
                self.refuse(name, rule, value[name])

    def __enter__(self) -> "Reader":
        if self.faults and not self.value:
            self.__exit__(None)
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None and self.faults:
            error = DmlError(self.faults)
            raise error.within(self.context) if self.context else error

    def refuse(self, name: str, rule: str, value: object) -> None:
        """Record that field `name` breaks `rule`."""
        self.faults.append(Fault("", name, rule, value))

    def take(self, name: str, convert: Callable[[Any], Any], default: Any = NOTHING) -> Any:
        """Return the converted field `name`; if it is missing or faulty, `default` or None."""
        if name not in self.value:
            if default is NOTHING:
                self.refuse(name, "be given", NOTHING)
                return None
            return default
        try:
            return convert(self.value[name])
        except DmlError as error:
            for fault in error.faults:
                operator = fault.operator if fault.operator.startswith("DML_OPERATOR_") else ""
                self.faults += DmlError([fault]).moved(operator, name)
            return None if default is NOTHING else default


def string(value: Any) -> str:
    """Return `value`. Raises `DmlError` if it is no string."""
    if not isinstance(value, str):
        raise refused("be a string", value)
    return value


def one_of(*words: str) -> Callable[[Any], str]:
    """Return a function that returns its argument, and raises `DmlError` if it is no such word."""

    def convert(value: Any) -> str:
        if value not in words:
            raise refused(f"be {' or '.join(map(repr, words))}", value)
        return value

    return convert


def boolean(value: Any) -> bool:
    """Return `value`. Raises `DmlError` if it is no boolean."""
    if not isinstance(value, bool):
        raise refused("be true or false", value)
    return value

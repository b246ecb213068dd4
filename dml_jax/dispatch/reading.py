"""Reading JSON with comments and trailing commas, and its objects field by field."""

import os
import re
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from dml_jax.errors import (
    FAULTS_MAX,
    NOTHING,
    DmlError,
    Fault,
    Unquoted,
    missing_extra,
    nearest,
    refused,
)
from dml_jax.files import distinct_keys, is_note, read_parsed


def read_json(path: Path) -> Any:
    """The value that a file holds. Raises `DmlError`, with line and column where it is broken."""
    return read_parsed(path, "Model", parse_json)


def parse_json(text: bytes) -> Any:
    """The value of a text.

    The parser is RapidJSON, DxDispatch's own, with the same leniencies, and with NaN and Infinity:
    python-rapidjson refuses trailing commas where it refuses these.
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
        raise ValueError(_placed(str(error), text)) from None


def _placed(message: str, text: bytes) -> str:
    """`Parse error at offset 25: Invalid value.` with line and column for the offset."""
    head, _, rest = message.partition(": ")
    offset = int("".join(filter(str.isdigit, head)) or 0)
    before = text[:offset]
    line, column = before.count(b"\n") + 1, offset - (before.rfind(b"\n") + 1) + 1
    return f"{rest} (line {line}, column {column})"


def path_of(text: str) -> Path:
    """A path as a model has it, which may have been written on Windows.

    Raises `DmlError` where it names a drive, or another machine, and this one has none, or cannot
    be a name in this locale.
    """
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        encoding = sys.getfilesystemencoding()
        rule = f"be in {encoding}, as names of files are in this locale (see LC_ALL and PYTHONUTF8)"
        raise refused(rule, text) from None
    if os.sep != "\\" and re.match(r"[A-Za-z]:[\\/]|\\\\", text):
        raise refused("be a path of this machine", text)
    return Path(text.replace("\\", "/"))


def find_file(folder: Path, source: str) -> Path:
    """A file of a model: found in `folder`, or else in the current one."""
    names = (Path(source), path_of(source))
    path = next((p for n in names for p in (folder / n, n) if p.exists()), None)
    if path is None:
        raise refused(f"exist, in the folder '{folder}' or the current one", NOTHING)
    if not path.is_file():
        raise refused("be a file", Unquoted("a folder or a device"))
    return path.absolute()  # the current folder may be another when it is read


class Reader:
    """Takes the fields of one JSON object, collecting what is wrong with them.

    Those that stand `beside` it, in the object that holds it, are told so.

    Used as a context manager: leaving it raises all faults, within the object's context.
    """

    def __init__(
        self,
        value: Any,
        known: Collection[str],
        context: str = "",
        beside: Collection[str] = (),
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
        self.faults.append(Fault("", name, rule, value))

    def take(self, name: str, convert: Callable[[Any], Any], default: Any = NOTHING) -> Any:
        """The converted field; the default, or None, where it is missing or refused."""
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
    if not isinstance(value, str):
        raise refused("be a string", value)
    return value


def boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise refused("be true or false", value)
    return value

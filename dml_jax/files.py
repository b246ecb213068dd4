"""Files: written whole or not at all, and read without losing a key."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from dml_jax.errors import DmlError, Fault, Unquoted


def write_whole(
    target: Path, write: Callable[[IO[bytes]], object], field: str = "the file"
) -> None:
    """Writes a file beside its target and then renames it, so that no half of one is left there.

    Raises `DmlError` where it cannot be written; `field` is what the message calls it.
    """
    partial = target.with_name(f".dml-jax-{os.getpid()}")  # a name as long as any is too long here
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            write(file)
        partial.replace(target)
    except OSError as error:
        rule, text = "be one that can be written", Unquoted(error.strerror or error)
        raise DmlError([Fault("", f"{field} '{target}'", rule, text)]) from None
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object of these pairs. Raises `DmlError` for a key that stands twice.

    One of its two values would be lost.
    """
    result = dict(pairs)
    if len(result) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise DmlError([Fault("", "each key of an object", "stand once", twice)])
    return result

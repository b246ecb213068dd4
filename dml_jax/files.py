"""Files: written whole or not at all, and read without losing a key."""

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from dml_jax.errors import DmlError, Fault, Unquoted, nearest


def write_whole(
    target: Path, write: Callable[[IO[bytes]], object], field: str = "the file"
) -> None:
    """Writes a file beside its target and then renames it, so that no half of one is left there.

    A link is followed: what it leads to is replaced. Raises `DmlError` where the file cannot be
    written, or is none (a folder, a device); `field` is what the message calls it.
    """
    with _beside(target, field) as (real, partial):
        with partial.open("xb") as file:
            write(file)
        if real.exists():
            shutil.copymode(real, partial)
        partial.replace(real)


def check_writable(target: Path, field: str = "the file") -> None:
    """Raises what `write_whole` would, before there is anything to write."""
    with _beside(target, field) as (_, partial):
        partial.open("xb").close()


@contextlib.contextmanager
def _beside(target: Path, field: str) -> Iterator[tuple[Path, Path]]:
    """What the target leads to, and a name for a file beside it, which is then taken away."""
    # Beside the target, since a rename stays within a file system; of a name of its own, since
    # other threads and machines may write here too, and short, since a name may be as long as any.
    real = Path(os.path.realpath(target))
    partial = real.parent / f".dml-jax-{os.urandom(8).hex()}"
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
        if real.exists() and not real.is_file():
            raise OSError(0, os.strerror(errno.EISDIR) if real.is_dir() else "a device")
        try:
            yield real, partial
        finally:
            with contextlib.suppress(OSError):
                partial.unlink()
    except OSError as error:
        # `mkdir` found a file where a folder should be.
        known = os.strerror(errno.ENOTDIR) if isinstance(error, FileExistsError) else error.strerror
        rule, text = "be one that can be written", Unquoted(known or error)
        raise DmlError([Fault("", f"{field} '{target}'", rule, text)]) from None


def read_npy(path: str | Path) -> np.ndarray:
    """The array of a .npy file, row-major, in native order. Raises of any kind for other files.

    Its size is held against the header before anything is allocated, and it is read, not mapped:
    a mapped file that another process cuts short kills this one.
    """
    mapped = np.lib.format.open_memmap(path, mode="r")
    count, order = mapped.size, "C" if mapped.flags.c_contiguous else "F"
    flat = np.fromfile(path, mapped.dtype, count, offset=mapped.offset)
    if flat.size != count:
        raise ValueError(f"{flat.size} of {count} elements are left")
    native = flat.astype(flat.dtype.newbyteorder("="), copy=False)
    return np.asarray(native.reshape(mapped.shape, order=order), order="C")


def write_npy(file: IO[bytes], array: np.ndarray) -> None:
    """Writes a .npy file, row-major. Unlike NumPy's own, it says why where it cannot."""
    array = np.asarray(array, order="C")
    header = np.lib.format.header_data_from_array_1_0(array)
    np.lib.format.write_array_header_1_0(file, header)
    file.write(array.reshape(-1).view(np.uint8).data)


def read_parsed(path: Path, what: str, parse: Callable[[bytes], Any]) -> Any:
    """What `parse` makes of the JSON that a file holds.

    Raises `DmlError` with all that is wrong with it, within `what` it is ("Model").
    """
    where = f"{what} '{path}'"
    try:
        if path.exists() and not path.is_file():
            raise IsADirectoryError(0, "not a file")
        data = path.read_bytes()
    except OSError as error:
        rule = "be a readable JSON file"
        if isinstance(error, FileNotFoundError) and path.parent.is_dir():
            rule += nearest(path.name, (p.name for p in path.parent.glob("*.json")))
        fault = Fault("", f"the {what.lower()}", rule, Unquoted(error.strerror), (where,))
        raise DmlError([fault]) from None
    return parsed(data, where, parse)


def parsed(data: bytes, where: str, parse: Callable[[bytes], Any]) -> Any:
    """What `parse` makes of JSON. Raises `DmlError` with all that is wrong with it, within `where`.

    That is what it is, and where it is from ("Model 'model.json'").
    """
    try:
        return parse(data)
    except UnicodeDecodeError as error:
        text = Unquoted(f"byte {error.start}: {error.reason}")
        fault = Fault("", "the text", "be UTF-8", text)
    except RecursionError:
        fault = Fault("", "the nesting", "be less than 1000 deep", Unquoted("more"))
    except DmlError as error:
        raise error.within(where) from None
    except ValueError as error:  # also of numbers with thousands of digits
        fault = Fault("", "the text", "be JSON", Unquoted(error))
    raise DmlError([fault]).within(where)


def path_given(value: Any, place: str) -> Path:
    """A path as a caller gives it. Raises `DmlError` for what is none."""
    try:
        text = os.fspath(value)
    except TypeError:
        text = None
    if not isinstance(text, str) or "\0" in text:
        raise DmlError([Fault("", place, "be a path, as a str or pathlib.Path", value)])
    return Path(text)


def is_note(key: object) -> bool:
    """Whether a key of a JSON object begins with `$`: whoever wrote it knows what it says."""
    return str(key).startswith("$")


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

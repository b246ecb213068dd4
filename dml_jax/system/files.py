"""Atomic writes of files, and JSON that refuses duplicate keys."""

import contextlib
import difflib
import errno
import itertools
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from dml_jax.errors import DmlError, Fault, MissingFileError, Unquoted, suggested

if TYPE_CHECKING:  # imported where arrays are read and written: the command line starts without it
    import numpy as np


def write_whole(
    target: Path, write: Callable[[IO[bytes]], object], field: str = "the file"
) -> None:
    """Let `write` fill a file beside `target`, then rename it: a failure leaves no half file.

    A link is followed, and the file that it leads to is replaced. Raises `DmlError` if `target`
    cannot be written, or is a folder or a device; the message calls it `field`.
    """
    with beside(target, field) as (real, partial):
        with partial.open("xb") as file:
            write(file)
        if real.exists():
            shutil.copymode(real, partial)
        partial.replace(real)


def check_writable(target: Path, field: str = "the file") -> None:
    """Raise the error that `write_whole` would raise, before there is anything to write."""
    with beside(target, field) as (_, partial):
        partial.open("xb").close()


@contextlib.contextmanager
def beside(target: Path, field: str) -> Iterator[tuple[Path, Path]]:
    """Yield the file that `target` leads to, and a path beside it; remove the latter at the end."""
    try:
        real = Path(os.path.realpath(target)) if target.is_symlink() else target
        # Beside the target, since a rename stays within a file system; with a name of its own,
        # since other threads and machines may write here too, and short, since names have a limit.
        partial = real.parent / f".dml-jax-{os.urandom(8).hex()}"
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
        reason = (
            os.strerror(errno.ENOTDIR) if isinstance(error, FileExistsError) else error.strerror
        )
        rule, text = "be one that can be written", Unquoted(reason or error)
        raise DmlError([Fault("", f"{field} '{target}'", rule, text)]) from None


def absolute(path: Path) -> Path:
    """Return `path` from the root; as it is if the current folder has been removed.

    A relative path still leads from a removed folder to its parents.
    """
    try:
        return path.absolute()
    except FileNotFoundError:
        return path


@contextlib.contextmanager
def readable(field: str, rule: str) -> Iterator[None]:
    """Raise an error of a library that reads a file inside as a `DmlError`.

    The fault says that `field` has to follow `rule`, and its value is the first line of the error.
    """
    try:
        yield
    except DmlError:
        raise
    except Exception as error:  # NumPy, zipfile and Pillow have no common class of errors
        text = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise DmlError([Fault("", field, rule, Unquoted(text or type(error).__name__))]) from None


def similar_file(path: Path) -> str:
    """Return ` (did you mean 'Input.bin'?)` if the folder of `path` has a similar name, else "".

    The names have to be much alike without their ends, which many files share.
    """
    try:
        found = [*itertools.islice(path.parent.iterdir(), 1000)]  # the search compares all of them
    except OSError:
        return ""
    found.sort(key=lambda other: other.suffix == path.suffix)
    by_stem = {other.stem.casefold(): other.name for other in found if other.name != path.name}
    near = difflib.get_close_matches(path.stem.casefold(), by_stem, n=1, cutoff=0.75)
    return suggested(by_stem[near[0]] if near else None)


def expect_file(path: Path) -> None:
    """Raise `OSError` for a pipe or a device, which may have no end."""
    if path.exists() and not path.is_file():
        raise OSError(0, "a folder, a pipe or a device")


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file. Raises `DmlError` where it cannot be read."""
    try:
        expect_file(path)
        return path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: OSError) -> DmlError:
    """Return the error that a file cannot be read, which is a `FileNotFoundError` if it is not."""
    kind = MissingFileError if isinstance(error, FileNotFoundError) else DmlError
    rule, value = f"be a file that can be read{similar_file(path)}", error.strerror or error
    return kind([Fault("", f"the file '{path}'", rule, Unquoted(value))])


def cache_folder() -> Path:
    """Return the folder of kept programs: DML_JAX_CACHE, or one in the platform's cache folder."""
    if given := os.environ.get("DML_JAX_CACHE"):
        return Path(given)
    home = Path.home()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return base / "dml-jax" / "programs"


def read_npy(path: str | Path) -> "np.ndarray":
    """Return the array of a .npy file, row-major, in native byte order.

    Raises errors of any type for other files. The size in the header is compared with the file
    before anything is allocated. The file is read, not mapped: a mapped file that another process
    cuts short ends this one.
    """
    import numpy as np

    expect_file(Path(path))
    mapped = np.lib.format.open_memmap(path, mode="r")
    count, order = mapped.size, "C" if mapped.flags.c_contiguous else "F"
    flat = np.fromfile(path, mapped.dtype, count, offset=mapped.offset)
    if flat.size != count:
        raise ValueError(f"{flat.size} of {count} elements are left")
    native = flat.astype(flat.dtype.newbyteorder("="), copy=False)
    return np.asarray(native.reshape(mapped.shape, order=order), order="C")


def write_npy(file: IO[bytes], array: "np.ndarray") -> None:
    """Write `array` to `file` as .npy, row-major; unlike NumPy's own, errors name their reason."""
    import numpy as np

    array = np.asarray(array, order="C")
    header = np.lib.format.header_data_from_array_1_0(array)
    np.lib.format.write_array_header_1_0(file, header)
    file.write(array.reshape(-1).view(np.uint8).data)


_PICTURE = " (a picture is the input of a network: dml-jax run network.onnx --input NAME=FILE)"
_OTHER_FILES = {
    ".onnx": " (dml_jax.load_onnx reads ONNX networks)",
    ".py": " (python -m dml_jax.pydirectml runs programs)",
    **dict.fromkeys((".jpg", ".jpeg", ".png"), _PICTURE),
}


def parse_file(path: Path, title: str, parse: Callable[[bytes], Any]) -> Any:
    """Return the value that `parse` makes of the JSON file at `path`; pipes are files too.

    Raises `DmlError` with all faults, within `title` ("Model") and the path.
    """
    where = f"{title} '{path}'"
    try:
        if path.exists() and not (path.is_file() or path.is_fifo()):
            text = f"a folder (`dml-jax check {path}`)" if path.is_dir() else "not a file"
            raise IsADirectoryError(0, text)
        data = path.read_bytes()
    except OSError as error:
        rule = "be a readable JSON file"
        if isinstance(error, FileNotFoundError):
            rule += similar_file(path)
        fault = Fault("", f"the {title.lower()}", rule, Unquoted(error.strerror), (where,))
        raise DmlError([fault]) from None
    suffix = path.suffix.lower()
    hint = _OTHER_FILES.get(suffix, " (the name of a JSON file ends in .json)")
    return parse_text(data, where, parse, hint if suffix not in (".json", "") else "")


def parse_text(data: bytes, where: str, parse: Callable[[bytes], Any], hint: str = "") -> Any:
    """Return the value that `parse` makes of the JSON text `data`; `hint` says what may be wrong.

    Raises `DmlError` with all faults, within `where` ("Model 'model.json'").
    """
    try:
        return parse(data)
    except UnicodeDecodeError as error:
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            fault = Fault("", "the text", "be UTF-8 (save the file as UTF-8)", Unquoted("UTF-16"))
        else:
            text = Unquoted(f"byte {error.start}: {error.reason}")
            fault = Fault("", "the text", f"be UTF-8{hint}", text)
    except RecursionError:
        fault = Fault("", "the nesting", "be less than 1000 deep", Unquoted("more"))
    except DmlError as error:
        raise error.within(where) from None
    except ValueError as error:  # also of numbers with thousands of digits
        fault = Fault("", "the text", f"be JSON{hint}", Unquoted(error))
    raise DmlError([fault]).within(where)


def as_path(value: Any, place: str) -> Path:
    """Return the path that a caller passes as argument `place`. Raises `DmlError` for others."""
    try:
        text = os.fspath(value)
    except TypeError:
        text = None
    if not isinstance(text, str) or "\0" in text:
        raise DmlError([Fault("", place, "be a path, as a str or pathlib.Path", value)])
    return Path(text)


def is_note(key: object) -> bool:
    """Return whether `key` of a JSON object begins with `$`, as the notes of an author do."""
    return str(key).startswith("$")


def distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the JSON object of `pairs`. Raises `DmlError` for a key that occurs twice.

    One of its two values would be lost.
    """
    result = dict(pairs)
    if len(result) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise DmlError([Fault("", "each key of an object", "stand once", twice)])
    return result

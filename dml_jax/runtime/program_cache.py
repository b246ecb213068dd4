"""Compiled programs that are kept in a folder: another process reads them, and compiles nothing.

A file holds machine code and a pickle, and who reads it runs it. So it is read only where nobody
but this user, or the administrator, can have written it: the folder and the file belong to this
user, and others have no right to write. Nothing is ever read from the folder of a network. The name
of a file is a digest of everything that the program follows from.
"""

import contextlib
import functools
import hashlib
import os
import pickle
import platform
import stat
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import serialize_executable

from dml_jax import __version__
from dml_jax.lowering.precision import chosen_name
from dml_jax.runtime.compiler_options import compiled_with
from dml_jax.system.free_memory import Device
from dml_jax.system.processor import cores

MOST_BYTES = 2 << 30  # of all files in a folder; those that were not read for the longest time go
PROGRAM, FACTS = ".program", ".facts"
"""How the names of files end: those of programs, and those of what is known of a description."""
KERNELS = "xla_gpu_per_fusion_autotune_cache_dir"
"""The option by which XLA keeps, in a folder, which kernels were the fastest."""
_MARK = b"dml-jax program 1\n"
_DIGEST = hashlib.sha256().digest_size


@dataclass
class ProgramCache:
    """The programs of one description, in a folder.

    Attributes:
        folder: the folder, which is made for this user alone when a program is written.
        key: what the description is made of.
        read, written: how many programs were read from the folder, and written to it.
        note: why a program was not read or not written, or "".
    """

    folder: Path
    key: str
    read: int = 0
    written: int = 0
    note: str = field(default="", compare=False)

    def compiled(
        self, name: str, jitted: Any, device: Device, *arguments: Any, own: Mapping[str, Any] = {}
    ) -> jax.stages.Compiled:
        """Return the program of a jitted function for a device: a kept one, or a new one.

        Args:
            name: tells the programs of one description apart.
            jitted: the function.
            device: where the program runs.
            arguments: arrays, or what describes them.
            own: options of XLA for the program.
        """
        path, structure = self._place(name, device, arguments, own)
        program = self._read(path, structure, device)
        return program or self._new(path, jitted.lower(*arguments), device, own)

    def later(
        self, name: str, jitted: Any, device: Device, *arguments: Any, own: Mapping[str, Any] = {}
    ) -> Callable[[], jax.stages.Compiled | None]:
        """Return a function that returns what `compiled` returns, for another thread.

        JAX's settings are those of this call. It returns None where a kept program cannot be read.
        """
        path, structure = self._place(name, device, arguments, own)
        if os.access(path, os.R_OK):
            return lambda: self._read(path, structure, device)
        lowered = jitted.lower(*arguments)
        return lambda: self._new(path, lowered, device, own)

    def _place(
        self, name: str, device: Device, arguments: Sequence[Any], own: Mapping[str, Any]
    ) -> tuple[Path, Any]:
        """Return the file of a program, and the structure of its arguments."""
        structure = jax.tree.structure((arguments, {}))
        leaves = [(tuple(np.shape(x)), np.dtype(x.dtype).name) for x in jax.tree.leaves(arguments)]
        return self._path(device, name, sorted(own.items()), str(structure), leaves), structure

    def _new(
        self, path: Path, lowered: jax.stages.Lowered, device: Device, own: Mapping[str, Any]
    ) -> jax.stages.Compiled:
        """Compile a program, and keep it."""
        program = self._made(lowered, own, device.platform)

        def data() -> bytes:
            serialized, _, results = serialize_executable.serialize(program)
            return pickle.dumps((serialized, results))

        self.written += self._put(path, data)
        return program

    def record_file(self, name: str, device: Device) -> Path:
        """Return the file where an object is kept under a name, with JAX's settings as they are."""
        return self._path(device, name).with_suffix(FACTS)

    def read_record(self, path: Path) -> Any:
        """Return the object that was kept in a file; None where there is none."""
        return self._decode(path, pickle.loads)

    def write_record(self, path: Path, facts: Any) -> None:
        """Keep an object in a file, beside the programs, where it can be pickled."""
        with contextlib.suppress(AttributeError, TypeError, pickle.PicklingError):
            data = pickle.dumps(facts)
            self._put(path, lambda: data)

    def _path(self, device: Device, *made_of: Any) -> Path:
        """Return the file of what is made of the description, and of more."""
        whole = (self.key, *made_of, _machine(device), _settings())
        return self.folder / f"{hashlib.sha256(repr(whole).encode()).hexdigest()}{PROGRAM}"

    def _made(
        self, lowered: jax.stages.Lowered, own: Mapping[str, Any], platform: str
    ) -> jax.stages.Compiled:
        """Compile a program. Which kernels XLA found to be the fastest on a GPU is kept too.

        XLA looks for that longer than for anything else, and other programs have equal parts.
        """
        if platform == "gpu":
            # There is no folder, or no place on the disk; or XLA does not know the option.
            with contextlib.suppress(OSError, RuntimeError):
                self._make_folder()
                if os.access(self.folder, os.W_OK):
                    options = {**own, KERNELS: str(self.folder / "kernels")}
                    return lowered.compile(compiler_options=options)
        return compiled_with(lowered, own)

    def _make_folder(self) -> None:
        """Make the folder, for this user alone. Raises `OSError` where it is of others."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_own(self.folder.stat(), self.folder)

    def _read(self, path: Path, structure: Any, device: Device) -> jax.stages.Compiled | None:
        """Return the program in a file; None where there is none that can be read."""

        def load(data: bytes) -> jax.stages.Compiled:
            serialized, results = pickle.loads(data)
            return serialize_executable.deserialize_and_load(
                serialized, structure, results, device.client, [device]
            )

        program = self._decode(path, load)
        self.read += program is not None
        return program

    def _decode(self, path: Path, decode: Callable[[bytes], Any]) -> Any:
        """Return what `decode` makes of a file; None where there is none that can be read."""
        try:
            data = _bytes_of(path)
            return None if data is None else decode(data)
        except Exception as error:  # of another jaxlib or version, say: it is made again
            self._say("read", error)
            return None

    def _put(self, path: Path, made: Callable[[], bytes]) -> bool:
        """Write a file, which is whole or not there; return whether it is there."""
        partial = None
        try:
            data = made()
            self._make_folder()
            _make_room(self.folder, len(data))
            # A reader in another process sees the whole file or none: it is renamed once it is
            # written.
            number, partial = tempfile.mkstemp(dir=self.folder, suffix=".partial")
            with os.fdopen(number, "wb") as file:
                file.write(_MARK + hashlib.sha256(data).digest() + data)
            Path(partial).replace(path)
        except Exception as error:  # a full disk, a folder of others, what cannot be serialized
            self._say("written", error)
            with contextlib.suppress(OSError, TypeError):
                os.unlink(partial)  # pyright: ignore[reportArgumentType]  # noqa: PTH108
            return False
        return True

    def _say(self, what: str, error: Exception) -> None:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        self.note = (
            f"a program was not {what}: {(reason.splitlines() or [type(error).__name__])[0]}"
        )

    def facts(self) -> dict[str, Any]:
        """Return the folder, the counts and the note for JSON, and the line that says them."""
        known = {"folder": str(self.folder), "read": self.read, "written": self.written}
        return {**known, "note": self.note, "said": self.report()}

    def report(self) -> str:
        """Return what was read and written, and what was in the way."""
        counted = f"{self.read} read, {self.written} written"
        return f"programs in '{self.folder}': {counted}" + (f"; {self.note}" if self.note else "")


def _bytes_of(path: Path) -> bytes | None:
    """Return what was kept in a file, None where there is no file or no whole one.

    Raises `PermissionError` where others may have written it.
    """
    try:
        _check_own(path.parent.stat(), path.parent)
        number = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return None
    with os.fdopen(number, "rb") as file:
        found = os.fstat(file.fileno())
        _check_own(found, path)
        if not stat.S_ISREG(found.st_mode):
            return None
        data = file.read()
    start = len(_MARK) + _DIGEST
    # The files that were read last are the last to go where the folder is full.
    with contextlib.suppress(OSError):
        os.utime(path)
    is_whole = data[:start] == _MARK + hashlib.sha256(data[start:]).digest()
    return data[start:] if is_whole else None


def _check_own(found: os.stat_result, path: Path) -> None:
    """Raise `PermissionError` unless a file or a folder is this user's, who alone may write it."""
    if not hasattr(os, "geteuid"):  # Windows: the folders of a user are
        return
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        text = f"others may write '{path}' (chmod 700, or another folder: DML_JAX_CACHE)"
        raise PermissionError(text)


def _make_room(folder: Path, size: int) -> None:
    """Remove the programs that were not read for the longest time, where there are too many."""
    entries = [(e.stat(), e.path) for e in os.scandir(folder) if e.name.endswith((PROGRAM, FACTS))]
    entries.sort(key=lambda entry: entry[0].st_mtime)
    most = MOST_BYTES - size
    total = sum(found.st_size for found, _ in entries)
    for found, path in entries:
        if total <= most:
            return
        with contextlib.suppress(OSError):  # another process removes it too
            os.unlink(path)  # noqa: PTH108
        total -= found.st_size


def _machine(device: Device) -> tuple[Any, ...]:
    """Return what a program follows from beside its function: versions, device, processor."""
    return (
        *_host(),
        device.platform,
        device.device_kind,
        device.id,
        device.client.platform_version,
    )


@functools.cache
def _host() -> tuple[Any, ...]:
    versions = {name: metadata.version(name) for name in ("jax", "jaxlib", "numpy")}
    for name in ("onnx", "jax-cuda13-plugin", "jax-cuda12-plugin", "jax-rocm7-plugin"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    flags = ""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
        kinds = ("model name", "flags", "Features", "CPU implementer", "CPU part")
        flags = "\n".join(line for line in lines if line.startswith(kinds))
    variables = {
        n: v for n, v in os.environ.items() if n.startswith(("XLA_", "LIBTPU_", "NVIDIA_"))
    }
    system = platform.machine(), platform.system(), platform.processor(), platform.python_version()
    return __version__, _sources(), versions, flags, sorted(variables.items()), system, cores()


def _sources() -> str:
    """Return a digest of the package's files: their names, sizes and times."""
    root = Path(__file__).parent.parent
    files = sorted(root.rglob("*.py"))
    found = [(str(f.relative_to(root)), f.stat().st_size, f.stat().st_mtime_ns) for f in files]
    return hashlib.sha256(repr(found).encode()).hexdigest()


def _settings() -> list[tuple[str, str]]:
    """Return JAX's settings, but for those that say where files lie."""
    settings: Any = jax.config
    names = (name for name in settings.values if "cache" not in name and "dump" not in name)
    chosen = ("precision", str(chosen_name()))
    return [chosen, *((name, repr(getattr(settings, name, None))) for name in sorted(names))]

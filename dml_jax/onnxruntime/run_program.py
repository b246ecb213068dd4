"""Run programs that import `onnxruntime`, or `onnxruntime_genai`."""

import functools
import importlib
import importlib.abc
import importlib.machinery
import pkgutil
import sys
from collections.abc import Iterable, Sequence
from importlib import metadata
from multiprocessing import spawn
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from dml_jax.errors import DmlError
from dml_jax.onnxruntime import session_options
from dml_jax.onnxruntime.errors import OnnxRuntimeError
from dml_jax.onnxruntime.module import VERSION
from dml_jax.system import unchanged_programs

_OWN, _NO_CACHE = "dml_jax.onnxruntime", "--no-cache"


def main(arguments: Sequence[str]) -> None:
    """Run a program or a module; it finds this package as `onnxruntime`.

    Compiled programs are kept for the next run, unless `--no-cache` stands first.
    """
    is_kept = [*arguments[:1]] != [_NO_CACHE]
    given, shown = arguments[not is_kept :], f"[{_NO_CACHE}] "
    begin = functools.partial(install, is_kept)
    unchanged_programs.run(_OWN, given, begin, _is_usage, shown, has_modules=True)


def _is_usage(error: BaseException) -> bool:
    return isinstance(error, (OnnxRuntimeError, DmlError))


def install(is_kept: bool) -> None:
    """Let `import onnxruntime` find this package, in all modules from here on.

    Processes that the program spawns find it too; `is_kept` is whether they keep programs.
    """
    session_options.DEFAULTS[session_options.CACHE_ENTRY] = str(int(is_kept))
    data_of, first = spawn.get_preparation_data, _First(is_kept)
    spawn.get_preparation_data = lambda name: {_OWN: first, **data_of(name)}
    parts = pkgutil.iter_modules(importlib.import_module(f"{_OWN}.capi").__path__)
    for name in ("", ".capi", *(f".capi.{part.name}" for part in parts)):
        sys.modules[f"onnxruntime{name}"] = importlib.import_module(_OWN + name)
    sys.meta_path.insert(0, _Finder())


class _First(NamedTuple):
    """What a spawned process gets before it imports the program: it installs the package there."""

    is_kept: bool

    def __reduce__(self) -> Any:
        return install, (self.is_kept,)


class _Finder(metadata.DistributionFinder):
    """Finds what is in the package onnxruntime beside its runtime, and the version of this one."""

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> Any:
        """Return where a module of onnxruntime is: in the package that is installed."""
        if fullname == "onnxruntime_genai":
            return importlib.machinery.ModuleSpec(fullname, _GenAI())
        package, _, rest = fullname.partition(".")
        if package != "onnxruntime" or not rest:
            return None
        folder = package_folder()
        if folder is not None:
            where = [str(folder.joinpath(*rest.split(".")[:-1]))]
            found = importlib.machinery.PathFinder.find_spec(fullname, where)
            if found is not None:
                return found
        text = f"{fullname} comes from the package onnxruntime (pip install onnxruntime)"
        raise ModuleNotFoundError(text, name=fullname)

    def find_distributions(self, context: Any = None) -> Iterable[metadata.Distribution]:
        """Yield this package as the distribution onnxruntime."""
        name = getattr(context, "name", None)
        if name is None or name.lower() == "onnxruntime":
            yield _Distribution()


class _GenAI(importlib.abc.Loader):
    """Puts `dml_jax.genai` in place of onnxruntime_genai."""

    def exec_module(self, module: ModuleType) -> None:
        """Import it; the import takes what lies under the module's name after that."""
        import dml_jax.genai

        sys.modules[module.__name__] = dml_jax.genai


class _Distribution(metadata.Distribution):
    """The distribution that programs find as onnxruntime."""

    def read_text(self, filename: str) -> str | None:
        """Return the metadata; there are no other files."""
        text = f"Metadata-Version: 2.1\nName: onnxruntime\nVersion: {VERSION}\n"
        return text if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        """Return where a file of this package is."""
        return Path(__file__).parent / path


def package_folder() -> Path | None:
    """Return the folder of the package onnxruntime; None where it is not installed."""
    found = importlib.machinery.PathFinder.find_spec("onnxruntime", sys.path)
    return None if found is None or found.origin is None else Path(found.origin).parent

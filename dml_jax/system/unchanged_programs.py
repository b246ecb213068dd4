"""Runs Python programs as `python` does, within a package that serves one of their imports."""

import importlib.util
import os
import runpy
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path

from dml_jax.errors import missing_extra

_SERVED = {
    "onnxruntime": "dml_jax.onnxruntime",
    "onnxruntime_genai": "dml_jax.onnxruntime",
    "pydirectml": "dml_jax.pydirectml",
}
"""The package that runs programs with an import."""


def need(package: str, purpose: str, extra: str) -> None:
    """Raise `DmlError`, an ImportError, where a package is missing; `python -m` ends with its line.

    The extra installs the package, whose purpose is a verb phrase.
    """
    if importlib.util.find_spec(package) is None:
        error = missing_extra(package, purpose, extra)
        if sys.argv[:1] == ["-m"]:  # Python looks for the module to run
            sys.exit(str(error))
        raise error


def run(
    package: str,
    arguments: Sequence[str],
    install: Callable[[], None],
    is_usage: Callable[[BaseException], bool],
    options: str = "",
    has_modules: bool = False,
) -> None:
    """Run a program as `python PROGRAM.py ARGUMENTS` does, within `package`, "dml_jax.pydirectml".

    Where it `has_modules`, arguments may be `-m MODULE ARGUMENTS`. `install` is called before the
    program, and makes its import find the package. Where an error `is_usage`, about the arguments
    of the program's calls, its traceback leaves out the lines of this package. `options` may stand
    before the program, as the usage shows it.
    """
    which = "[PROGRAM.py | -m MODULE]" if has_modules else "PROGRAM.py"
    if not arguments or arguments[0] in ("-h", "--help") or [*arguments] == ["-m"]:
        text = f"Usage: python -m {package} {options}{which} [ARGUMENTS]"
        is_asked = bool(arguments) and arguments[0] != "-m"
        (sys.stdout if is_asked else sys.stderr).write(f"{text}\n")
        sys.exit(0 if is_asked else 2)
    try:
        if has_modules and arguments[0] == "-m":
            _run_module(arguments[1:], install)
        else:
            _run_file(package, arguments, install)
    except KeyboardInterrupt as error:
        _show(error, is_usage)
        sys.exit(130)  # 128 + SIGINT, as shells expect
    except Exception as error:
        # The end of a program of somebody else: Python would print whatever ends it.
        _show(error, is_usage)
        sys.exit(1)


def _run_file(package: str, arguments: Sequence[str], install: Callable[[], None]) -> None:
    path = Path(arguments[0])
    try:
        source = path.read_bytes()
    except OSError as error:
        sys.stderr.write(f"{package}: can't open file '{path}': {error.strerror}\n")
        sys.exit(2)
    # `runpy` would take the module away before Python calls what the program left for its end.
    program = types.ModuleType("__main__")
    program.__file__ = str(path)
    install()
    sys.modules["__main__"] = program
    sys.argv = list(arguments)
    # `python PROGRAM.py` finds modules beside the program, unless `-P` forbids it.
    if not sys.flags.safe_path:
        sys.path[0] = os.path.realpath(path.parent)
    exec(compile(source, str(path), "exec"), program.__dict__)


def _run_module(arguments: Sequence[str], install: Callable[[], None]) -> None:
    install()
    sys.argv = list(arguments)  # runpy puts the file in place of the name
    if not sys.flags.safe_path:
        sys.path[0] = str(Path.cwd())
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)


def _show(error: BaseException, is_usage: Callable[[BaseException], bool]) -> None:
    """Print the traceback of a program without the lines that run it.

    The program's own `sys.excepthook` has its say.
    """
    if isinstance(error, ModuleNotFoundError) and error.name in _SERVED:
        error.add_note(f"python -m {_SERVED[error.name]} runs programs that import {error.name}")
    part: BaseException | None = error
    while part is not None:
        part.__traceback__ = _trim(part.__traceback__, is_usage(part))
        part = part.__cause__ or (None if part.__suppress_context__ else part.__context__)
    sys.excepthook(type(error), error, error.__traceback__)


def _trim(steps: types.TracebackType | None, is_usage: bool) -> types.TracebackType | None:
    """Return a traceback without the first steps in this package, or without all of them."""
    listed = []
    while steps is not None:
        if not _is_own(steps) or (listed and not is_usage):
            listed.append(steps)
        steps = steps.tb_next
    made = None
    for step in reversed(listed):
        made = types.TracebackType(made, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return made


def _is_own(step: types.TracebackType) -> bool:
    name = step.tb_frame.f_code.co_filename
    return name.startswith((str(Path(__file__).parents[1]), "<frozen runpy>"))

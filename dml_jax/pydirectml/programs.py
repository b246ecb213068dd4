"""Run programs that import `pydirectml`."""

import importlib
import os
import sys
import types
from collections.abc import Sequence
from pathlib import Path

from dml_jax.pydirectml.arguments import PyDirectMLError

_USAGE = "Usage: python -m dml_jax.pydirectml PROGRAM.py [ARGUMENTS]"


def main(arguments: Sequence[str]) -> None:
    """Run a program as `python PROGRAM.py ARGUMENTS` does; it finds this module as `pydirectml`."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE, file=sys.stdout if arguments else sys.stderr)
        sys.exit(0 if arguments else 2)
    path = Path(arguments[0])
    try:
        source = path.read_bytes()
    except OSError as error:
        print(f"dml_jax.pydirectml: can't open file '{path}': {error.strerror}", file=sys.stderr)
        sys.exit(2)
    program = types.ModuleType("__main__")
    program.__file__ = str(path)
    sys.modules["pydirectml"] = importlib.import_module("dml_jax.pydirectml")
    sys.modules["__main__"] = program
    sys.argv = list(arguments)
    if not sys.flags.safe_path:
        sys.path[0] = os.path.realpath(path.parent)
    try:
        exec(compile(source, str(path), "exec"), program.__dict__)
    except KeyboardInterrupt as error:
        _show(error)
        sys.exit(130)  # 128 + SIGINT, as shells expect
    except Exception as error:
        _show(error)
        sys.exit(1)


def _show(error: BaseException) -> None:
    """Print the traceback of a program without the lines that run it.

    The lines of this package are left out too where the error is about the program's arguments.
    The program's own `sys.excepthook` has its say.
    """
    part: BaseException | None = error
    while part is not None:
        is_usage = isinstance(part, PyDirectMLError) or str(part).startswith(_STARTS)
        part.__traceback__ = _trimmed(part.__traceback__, is_usage)
        part = part.__cause__ or (None if part.__suppress_context__ else part.__context__)
    sys.excepthook(type(error), error, error.__traceback__)


_STARTS = ("pydirectml.", "module 'dml_jax.pydirectml' has no")  # of errors about its arguments


def _trimmed(steps: types.TracebackType | None, is_usage: bool) -> types.TracebackType | None:
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
    return step.tb_frame.f_code.co_filename.startswith(str(Path(__file__).parents[1]))

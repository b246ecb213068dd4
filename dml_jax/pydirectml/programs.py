"""Run programs that import `pydirectml`."""

import importlib
import itertools
import os
import sys
import traceback
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
    """
    shown = traceback.TracebackException.from_exception(error)
    is_usage = isinstance(error, PyDirectMLError) or str(error).startswith("pydirectml.")
    part: traceback.TracebackException | None = shown
    while part is not None:
        lines = itertools.dropwhile(_is_own, part.stack)
        kept = [line for line in lines if not (is_usage and _is_own(line))]
        part.stack = traceback.StackSummary.from_list(kept)
        part = part.__cause__ or (None if part.__suppress_context__ else part.__context__)
    print("".join(shown.format()), end="", file=sys.stderr)


def _is_own(line: traceback.FrameSummary) -> bool:
    return line.filename.startswith(str(Path(__file__).parents[1]))

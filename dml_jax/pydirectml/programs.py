"""Run programs that import `pydirectml`."""

import importlib
import sys
from collections.abc import Sequence

from dml_jax import running
from dml_jax.pydirectml.arguments import PyDirectMLError

_STARTS = ("pydirectml.", "module 'dml_jax.pydirectml' has no")  # of errors about its arguments


def main(arguments: Sequence[str]) -> None:
    """Run a program as `python PROGRAM.py ARGUMENTS` does; it finds this module as `pydirectml`."""
    running.run("dml_jax.pydirectml", arguments, _install, _is_usage)


def _install() -> None:
    sys.modules["pydirectml"] = importlib.import_module("dml_jax.pydirectml")


def _is_usage(error: BaseException) -> bool:
    return isinstance(error, PyDirectMLError) or str(error).startswith(_STARTS)

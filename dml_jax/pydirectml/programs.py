"""Run programs that import `pydirectml`."""

import importlib
import sys
from collections.abc import Sequence

from dml_jax import running
from dml_jax.pydirectml.arguments import ArgumentError, PyDirectMLError

PACKAGE = "dml_jax.pydirectml"


def main(arguments: Sequence[str]) -> None:
    """Run a program as `python PROGRAM.py ARGUMENTS` does; it finds this module as `pydirectml`."""
    running.run(PACKAGE, arguments, _install, _is_usage)


def _install() -> None:
    sys.modules["pydirectml"] = importlib.import_module(PACKAGE)


def _is_usage(error: BaseException) -> bool:
    is_name = getattr(error, "obj", None) is sys.modules[PACKAGE]  # which the module lacks
    return is_name or isinstance(error, (PyDirectMLError, ArgumentError))

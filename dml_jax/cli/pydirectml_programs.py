"""PyDirectML programs for `dml-jax check`: read, and not run."""

import ast
import difflib
import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dml_jax import pydirectml
from dml_jax.enums import FeatureLevel
from dml_jax.errors import DmlError, Fault, Sentence, Unquoted, suggested
from dml_jax.facts import PREFIX
from dml_jax.operator import OPERATORS
from dml_jax.pydirectml import expressions

_MODULES = ("pydirectml", "dml_jax.pydirectml")


def read_program(path: Path) -> tuple[list[Fault], FeatureLevel] | None:
    """Return what a program does wrong, by line, and the first level that has all its operators.

    Wrong are names that `dml_jax.pydirectml` lacks, and calls that do not fit a function. A
    description may need a higher level. None where the program does not import PyDirectML.

    Raises `DmlError` if the file cannot be read, or is no Python.
    """
    tree = _parse_arguments(path)
    if tree is None:
        return None
    modules, names, lines = set[str](), dict[str, str](), dict[Fault, int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {
                alias.asname or alias.name for alias in node.names if alias.name in _MODULES
            }
        elif isinstance(node, ast.ImportFrom) and node.module in _MODULES:
            for alias in node.names:
                names[alias.asname or alias.name] = alias.name
                lines |= _look_up(alias.name, node.lineno)
    if not modules and not names:
        return None
    lowest = min(FeatureLevel)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (used := _path(node, modules, names)):
            lines |= _look_up(used, node.lineno)
        elif isinstance(node, ast.Call) and (called := _path(node.func, modules, names)):
            lines |= _call(called, node)
            if called in expressions.OPERATORS:
                operator = OPERATORS[f"{PREFIX}{expressions.OPERATORS[called]}"]
                lowest = max(lowest, operator.support.introduced)
    return sorted(lines, key=lines.__getitem__), lowest


def _parse_arguments(path: Path) -> ast.Module | None:
    """Return a program that names PyDirectML, as a tree."""
    try:
        data = path.read_bytes()
        return ast.parse(data) if b"pydirectml" in data else None
    except OSError as error:
        rule, text = "be a readable file", Unquoted(error.strerror)
        raise DmlError([Fault("", "the program", rule, text)]) from None
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # of nesting
        line = getattr(error, "lineno", None)
        where = f"line {line}" if line else "the file"
        text = Unquoted(getattr(error, "msg", None) or str(error) or "deep nesting")
        raise DmlError([Fault("", where, "be Python", text)]) from None


def _path(node: ast.expr, modules: set[str], names: dict[str, str]) -> str | None:
    """Return the name that an expression has in PyDirectML: `TensorDataType.FLOAT32`."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    for count in range(len(parts)):  # a module may be `dml_jax.pydirectml`
        if ".".join([node.id, *parts[:count]]) in modules:
            return ".".join(parts[count:])
    return ".".join([names[node.id], *parts]) if node.id in names else None


def _look_up(path: str, line: int) -> dict[Fault, int]:
    """Return a fault with its line if PyDirectML's module here lacks a name of a path."""
    known = [n for n, v in vars(pydirectml).items() if not inspect.ismodule(v)]
    value: Any = pydirectml
    parts = path.split(".")
    for index, name in enumerate(parts):
        if name not in known and name != "*":
            missing = ".".join(parts[: index + 1])
            other = pydirectml.elsewhere(name) if index == 0 else ""
            hint = f" ({other})" if other else suggested(_meant(name, known))
            text = f"line {line}: dml_jax.pydirectml has no {missing!r}{hint}"
            return {Fault("", f"line {line}", Sentence(text), missing): line}
        value = getattr(value, name, None)
        if not inspect.isclass(value):
            break  # only the running program knows the attributes of an instance
        known = dir(value)
    return {}


def _meant(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that `name` probably means, or None.

    In this order: the most similar one of its kind (`gemm`, `TensorDesc` or `FLOAT32`), and a
    function, class or member that is `name` in another case.
    """
    public = [n for n in known if not n.startswith("_")]
    alike = [n for n in public if _case(n) == _case(name)]
    close = difflib.get_close_matches(name, alike, n=1, cutoff=0.75)
    by_case = [n for n in public if n.casefold() == name.casefold()]
    return next(iter([*close, *sorted(by_case, key=_case)]), None)


def _case(name: str) -> int:
    """Return the kind that the case of a name tells: 0 functions, 1 classes, 2 members."""
    return 0 if name.islower() else 2 if name.isupper() else 1


def _call(path: str, node: ast.Call) -> dict[Fault, int]:
    """Return a fault with its line if the arguments of a call do not fit its function."""
    function = getattr(pydirectml, path, None)
    has_lists = any(isinstance(a, ast.Starred) for a in node.args)
    if not inspect.isfunction(function) or has_lists or any(k.arg is None for k in node.keywords):
        return {}
    try:
        inspect.signature(function).bind(*node.args, **{str(k.arg): k.value for k in node.keywords})
    except TypeError as error:
        rule = f"fit {path}({', '.join(inspect.signature(function).parameters)})"
        text = Unquoted(str(error).removeprefix("got "))
        return {Fault("", f"the call in line {node.lineno}", rule, text): node.lineno}
    return {}

"""Take arguments as pybind11 does, and raise the kinds of errors of PyDirectML."""

import functools
import inspect
import operator
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from dml_jax.errors import DmlError, Fault
from dml_jax.pydirectml.enumerations import Flags

__all__ = ["PyDirectMLError"]


class PyDirectMLError(DmlError, RuntimeError):
    """Carries every fault of a call, as `DmlError` does."""


class ArgumentError(TypeError):
    """Says what is wrong with a call of the function or class `where`.

    Programs and tracebacks know it as `TypeError`, which pybind11 raises.
    """

    __module__, __qualname__ = "builtins", "TypeError"

    def __init__(self, where: str, text: str):
        super().__init__(f"pydirectml.{where}: {text}")


def with_own_errors(function: Callable[[], Any]) -> Any:
    """Return what `function` returns; its errors become PyDirectML's."""
    try:
        return function()
    except DmlError as error:
        raise PyDirectMLError(error.faults) from None


def refuse(where: str, field: str, rule: str, value: object) -> PyDirectMLError:
    """Return the error that a `field` of the function `where` is wrong."""
    return PyDirectMLError([Fault(f"pydirectml.{where}", field, rule, value)])


_MISFIT: Any = object()  # stands for an argument of another type
NUMBERS = (bool, int, float, np.integer, np.floating)


def _convert(value: Any, hint: Any) -> Any:
    """Return an argument as its type hint says, or `_MISFIT`."""
    if isinstance(hint, types.UnionType):
        taken = (_convert(value, choice) for choice in typing.get_args(hint))
        return next((one for one in taken if one is not _MISFIT), _MISFIT)
    if typing.get_origin(hint) is Sequence:
        if not isinstance(value, (list, tuple, np.ndarray)):
            return _MISFIT
        items = [_convert(item, typing.get_args(hint)[0]) for item in value]
        return _MISFIT if any(item is _MISFIT for item in items) else items
    if hint is float:
        return float(value) if isinstance(value, NUMBERS) else _MISFIT
    if hint is bool:
        return bool(value) if isinstance(value, (bool, int, np.bool_, np.integer)) else _MISFIT
    if hint is int:
        is_integer = isinstance(value, (int, np.integer, Flags))
        return operator.index(value) if is_integer else _MISFIT
    return value if hint is Any or isinstance(value, hint) else _MISFIT


def _type_text(hint: Any) -> str:
    if isinstance(hint, types.UnionType):
        return " or ".join(map(_type_text, typing.get_args(hint)))
    if typing.get_origin(hint) is Sequence:
        return f"a list of {_type_text(typing.get_args(hint)[0])}"
    return "None" if hint is type(None) else hint.__name__


_Function = TypeVar("_Function", bound=Callable[..., Any])


def converts_arguments(function: _Function) -> _Function:
    """Return the function, which converts its arguments and raises PyDirectML's kinds of errors."""
    signature = inspect.signature(function)
    where = function.__qualname__.removesuffix(".__init__").removesuffix(".__new__")
    hints: dict[str, Any] = {}

    @functools.wraps(function)
    def call(*positional: Any, **named: Any) -> Any:
        # At the first call: a hint may name a class that stands further down in its module.
        hints.update({} if hints else typing.get_type_hints(function))
        try:
            bound = signature.bind(*positional, **named)
        except TypeError as error:
            raise ArgumentError(where, str(error)) from None
        for argument, value in bound.arguments.items():
            hint = hints.get(argument, Any)
            taken = _convert(value, hint)
            if taken is _MISFIT:
                got = type(value).__name__
                text = f"argument {argument!r} must be {_type_text(hint)}, not {got}"
                raise ArgumentError(where, text)
            bound.arguments[argument] = taken
        return with_own_errors(lambda: function(*bound.args, **bound.kwargs))

    return typing.cast(_Function, call)

"""How many turns a Loop may take: a program that goes on ends with an error."""

import contextlib
from collections.abc import Iterator
from typing import Any

import jax
from jax.experimental import io_callback

from dml_jax.errors import DmlError, Fault, Sentence, Unquoted

_MARK, _END = "a Loop goes on after ", "(turns= of load_onnx says how many)"
TURNS_MAX = 2**31 - 1
"""The number of turns that a counter of 32 bits holds."""


def turns_of(turns: Any) -> int | None:
    """Return the option `turns`. Raises `DmlError` where it is no count."""
    if turns is None or (type(turns) is int and 0 < turns <= TURNS_MAX):
        return turns
    raise DmlError([Fault("load_onnx", "turns", f"be in [1, {TURNS_MAX}], or None", turns)])


def expect_end(goes: jax.Array, label: str, turns: int) -> None:
    """Let the program end with an error where a Loop would go on.

    Args:
        goes: whether it would.
        label: names the node.
        turns: how many turns it may take.
    """

    def check(goes: Any) -> None:
        if goes:
            raise RuntimeError(f"{_MARK}{turns} turns: {label}. {_END}")

    io_callback(check, None, goes)


@contextlib.contextmanager
def ending() -> Iterator[None]:
    """Raise `DmlError` in place of JAX's error of a Loop that would go on."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        _, mark, rest = str(error).partition(_MARK)
        if not mark:
            raise
        text = rest.partition(_END)[0]  # XLA puts a traceback before it, and on a GPU more behind
        raise DmlError([Fault("", "", Sentence(mark + text + _END), Unquoted(""))]) from None

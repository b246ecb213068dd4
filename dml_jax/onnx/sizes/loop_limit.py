"""How many turns a Loop may take: a call whose Loop would go on ends with an error."""

from typing import Any

from dml_jax.errors import DmlError, Fault, Sentence
from dml_jax.onnx.nodes.number_limits import Limit

TURNS_MAX = 2**31 - 1
"""The number of turns that a counter of 32 bits holds."""


def turns_of(turns: Any) -> int | None:
    """Return the option `turns`. Raises `DmlError` where it is no count."""
    if turns is None or (type(turns) is int and 0 < turns <= TURNS_MAX):
        return turns
    raise DmlError([Fault("load_onnx", "turns", f"be in [1, {TURNS_MAX}], or None", turns)])


def limit_of(name: str, turns: int) -> Limit:
    """Return the limit of the turns of a Loop by its name: a Loop that would go on took `turns`."""
    text = f"a Loop goes on after {turns} turns: {name!r}. (turns= of load_onnx says how many)"
    return Limit((), "", Sentence(text), 0, turns - 1)

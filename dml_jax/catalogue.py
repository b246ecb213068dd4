"""The names of all of DirectML's operators, the ones that are not implemented included."""

import functools
from collections.abc import Collection
from pathlib import Path

from dml_jax.errors import Fault, Sentence, nearest

PREFIX = "DML_OPERATOR_"


@functools.cache
def names() -> tuple[str, ...]:
    """Return the names of DirectML 1.15's operators, without their prefix."""
    return tuple(Path(__file__).with_name("operator_names.txt").read_text().split())


def unknown_operator(name: str, implemented: Collection[str]) -> Fault:
    """Return the fault of an operator's `name` that is none of the `implemented` full names."""
    full = name if name.startswith(PREFIX) else f"{PREFIX}{name}"
    known = [known.removeprefix(PREFIX) for known in implemented]
    if full.removeprefix(PREFIX) in names():
        there = f"{len(known)} of {len(names())} are: dml-jax operators"
        return Fault("", "type", Sentence(f"{full} is not implemented yet ({there})"), name)
    hint = nearest(name.upper().removeprefix(PREFIX), [*known, *names()])
    return Fault("", "type", f"be an operator of DirectML{hint}", name)

"""What each operator is called elsewhere: functions here, DirectMLX, ONNX, JAX and PyTorch."""

import functools
import re
from collections.abc import Mapping

from dml_jax import facts

LIBRARIES = ("function", "DirectMLX", "ONNX", "JAX", "PyTorch")

Names = Mapping[str, tuple[str, ...]]
"""The names of one operator, by library."""


@functools.cache
def names() -> Mapping[str, Names]:
    """Return the names of every operator, by its name without DML_OPERATOR_.

    Versions of an operator have the names of the first version, where they have none of their own.
    """
    known = facts.names()
    found: dict[str, dict[str, list[str]]] = {}
    for name in facts.catalogue():
        elsewhere = known.get(name, known.get(name.rstrip("123"), {}))
        parts = {"ONNX": "onnx", "JAX": "jax", "PyTorch": "torch"}
        found[name] = {library: list(elsewhere.get(key, ())) for library, key in parts.items()}
    for function, entry in facts.functions().items():
        for name in entry["operators"]:
            found[name].setdefault("function", []).append(function)
            if "directmlx" in entry:
                found[name].setdefault("DirectMLX", []).append(entry["directmlx"])
    return {
        name: {library: tuple(own.get(library, ())) for library in LIBRARIES}
        for name, own in found.items()
    }


def plain(name: str) -> str:
    """Return one spelling for `ElementWiseClip1`, `element_wise_clip1` and the full name."""
    word = "".join(filter(str.isalnum, name.casefold()))
    return word.removeprefix("dmloperator").removeprefix("dmljax")


def called(name: str, word: str) -> list[str]:
    """Return the names elsewhere, with their library, of the operator `name` that have `word`.

    Modules are no part of a name, unless the word has a module too: `jax.nn.relu`.
    """
    word = re.sub(r"^jnp\.", "jax.numpy.", word)
    wanted = plain(word)
    return [
        other if "." in other else f"{library} {other}"
        for library, others in names().get(name, {}).items()
        if library != "function"
        for other in others
        if wanted in plain(other if "." in word else other.rpartition(".")[2])
    ]

"""The operators, a module a family, which is imported when one of its classes is asked for."""

from typing import Any

from dml_jax import facts
from dml_jax.operator import OPERATORS


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return __dir__()
    operator = facts.names_of_classes().get(name)
    try:
        return OPERATORS[f"{facts.PREFIX}{operator}"]
    except KeyError:
        pass
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [
        facts.class_name_of(name)
        for name in facts.catalogue()
        if f"{facts.PREFIX}{name}" in OPERATORS
    ]

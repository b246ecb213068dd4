"""The register of operators, which loads them family by family."""

import importlib
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from dml_jax import facts

T = TypeVar("T", bound=Any)


class Registry(Mapping[str, T]):
    """The operators by their full names; a family's module is imported when it is asked for."""

    def __init__(self) -> None:
        self._built: dict[str, T] = {}

    def put(self, op: T) -> None:
        """Add a class that has been declared. Raises `TypeError` if another class has its name."""
        known: Any = self._built.get(op.c_name, op)
        if (known.__module__, known.__qualname__) != (op.__module__, op.__qualname__):
            place = f"{known.__module__}.{known.__qualname__}"
            raise TypeError(f"{op.c_name} is declared twice: {place} has that name")
        self._built[op.c_name] = op

    def _load(self, family: str) -> None:
        """Import the module of a family. Where another thread does, wait until it has ended."""
        try:
            importlib.import_module(f"dml_jax.operators.{family}")
        except ModuleNotFoundError as error:
            if error.name != f"dml_jax.operators.{family}":
                raise

    def _load_all(self) -> None:
        for family in sorted({entry["family"] for entry in facts.catalogue().values()}):
            self._load(family)

    def __getitem__(self, name: str) -> T:
        entry = facts.catalogue().get(name.removeprefix(facts.PREFIX))
        if entry is not None and name.startswith(facts.PREFIX):
            self._load(entry["family"])  # a class may be there before its module has ended
        return self._built[name]

    def __contains__(self, name: object) -> bool:
        try:
            self[name]  # pyright: ignore[reportArgumentType]
        except KeyError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        self._load_all()
        order = {f"{facts.PREFIX}{name}": k for k, name in enumerate(facts.catalogue())}
        return iter(sorted(self._built, key=lambda name: (order.get(name, len(order)), name)))

    def __len__(self) -> int:
        self._load_all()
        return len(self._built)

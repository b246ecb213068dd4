"""The register of operators, which loads them family by family."""

import importlib
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from dml_jax import facts
from dml_jax.errors import NOTHING, DmlError, Fault

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

    def __iter__(self) -> Iterator[str]:
        self._load_all()
        order = {f"{facts.PREFIX}{name}": k for k, name in enumerate(facts.catalogue())}
        return iter(sorted(self._built, key=lambda name: (order.get(name, len(order)), name)))

    def __len__(self) -> int:
        self._load_all()
        return len(self._built)


OPERATORS: Registry[Any] = Registry()


def operator_type(name: Any) -> Any:
    """Return the operator class of a name with or without DML_OPERATOR_. Raises `DmlError`."""
    short = str(name).removeprefix(facts.PREFIX)
    short = facts.names_of_aliases().get(short, short)
    full = f"{facts.PREFIX}{short}"
    if isinstance(name, str) and full in OPERATORS:
        return OPERATORS[full]
    if not isinstance(name, str):
        raise DmlError([Fault("", "type", "be an operator's name", name)])
    raise DmlError([facts.unknown_operator(name)])


def named(value: Any) -> tuple[Any, Any]:
    """Return the class of {"Type", "Desc"}, and the fields."""
    if not isinstance(value, Mapping):
        raise DmlError([Fault("DML_OPERATOR_DESC", "", "be an object", value)])
    for pair in (("Type", "type"), ("Desc", "desc")):
        if all(name in value for name in pair):
            rule = f"stand alone, not beside {pair[0]}"
            raise DmlError([Fault("", pair[1], rule, value[pair[1]])])
    name = value.get("Type", value.get("type", NOTHING))
    if not isinstance(name, str) or name is NOTHING:
        raise DmlError([Fault("", "type", "be an operator's name", name)])
    fields = {key: item for key, item in value.items() if key not in ("Type", "type")}
    return operator_type(name), fields.get("Desc", fields.get("desc", fields))

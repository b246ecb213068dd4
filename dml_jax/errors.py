"""The one exception of the package, and the faults it carries."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, replace

FAULTS_MAX = 100
"""What lists of any length are looked through for, and what a message shows."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One broken rule: `expected {field} to {rule}, got {value}`.

    Attributes:
        operator: what was described, in DirectML's spelling (`DML_OPERATOR_REDUCE`), or "".
        field: the field, in DirectML's spelling (`OutputTensor.Sizes[2]`); "" is the value itself.
        rule: what it has to do, as a verb phrase (`be 3 (InputTensor.Sizes[2])`).
        value: what it was instead.
        context: where it was found, outermost first (`Dispatchable 'sum'`).
    """

    operator: str
    field: str
    rule: str
    value: object
    context: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = f"expected {self.field or 'value'} to {self.rule}, got {abbreviate(self.value)}"
        return ": ".join([*self.context, *([self.operator] if self.operator else []), text])


class DmlError(ValueError):
    """Everything that is wrong with one description, all faults at once.

    `.operator`, `.field`, `.rule` and `.value` are those of the first of `.faults`.
    """

    def __init__(self, faults: Iterable[Fault]):
        self.faults = tuple(faults)
        super().__init__(self.faults)

    def __str__(self) -> str:
        more = ["and more"] if len(self.faults) > FAULTS_MAX else []
        return "\n".join([*map(str, self.faults[:FAULTS_MAX]), *more])

    @property
    def operator(self) -> str:
        return self.faults[0].operator

    @property
    def field(self) -> str:
        return self.faults[0].field

    @property
    def rule(self) -> str:
        return self.faults[0].rule

    @property
    def value(self) -> object:
        return self.faults[0].value

    def moved(self, operator: str, path: str) -> list[Fault]:
        """The same faults, as those of the field `path` of `operator`."""
        return [
            replace(fault, operator=operator, field=_join(path, fault.field))
            for fault in self.faults
        ]

    def within(self, context: str) -> "DmlError":
        """The same error, said to have been found in `context`."""
        return DmlError(replace(f, context=(context, *f.context)) for f in self.faults)


def _join(path: str, field: str) -> str:
    return f"{path}{'' if not field or field[0] == '[' else '.'}{field}"


def abbreviate(value: object, limit: int = 80) -> str:
    """A value as an error message shows it: on one line, and not longer than a line."""
    try:
        text = str(value) if isinstance(value, Unquoted) else repr(value)
    except RecursionError:
        text = f"a deeply nested {type(value).__name__}"
    text = " ".join(text.split())
    return text if len(text) <= limit else f"{text[: limit - 20]} ... {text[-14:]}"


class Unquoted(str):
    """A value that error messages show as it stands."""

    __slots__ = ()


NOTHING = Unquoted("nothing")
"""The value of a field that is missing."""


def nearest(word: object, known: Iterable[str]) -> str:
    """` (did you mean 'Axis'?)` where one of the `known` words is near, else nothing."""
    by_case = {name.casefold(): name for name in known}
    if not isinstance(word, str) or len(word) > 100 or len(by_case) > 1000:
        return ""  # the search takes the product of these
    found = difflib.get_close_matches(word.casefold(), by_case, n=1)
    return f" (did you mean {by_case[found[0]]!r}?)" if found else ""

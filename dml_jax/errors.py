"""The one exception of the package, and the faults it carries."""

import difflib
import enum
import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

FAULTS_MAX = 100
"""The faults of a list after which a search stops, and the most that a message shows."""


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
        where = [*self.context, *([self.operator] if self.operator else [])]
        return printable(": ".join([*where, text]))


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


class Expect:
    """Collects what is wrong: `expect(axis < rank, "Axis", f"be below {rank}", axis)`."""

    def __init__(self, operator: str):
        self.operator = operator
        self.faults: list[Fault] = []

    def __call__(self, holds: bool, field: str, rule: str, value: object) -> bool:
        if not holds:
            self.faults.append(Fault(self.operator, field, rule, value))
        return holds

    def check(self) -> None:
        """Raises `DmlError` where anything was wrong."""
        if self.faults:
            raise DmlError(self.faults)


def field_of(path: str) -> str:
    """The field that a path begins with: `OutputTensors[1].Sizes[0]` is in `OutputTensors`."""
    return re.split(r"[.[]", path, maxsplit=1)[0]


def _join(path: str, field: str) -> str:
    return f"{path}{'' if not field or field[0] == '[' else '.'}{field}"


def abbreviate(value: object, limit: int = 80) -> str:
    """A value as an error message shows it: on one line, and not longer than a line."""
    try:
        text = str(value) if isinstance(value, Unquoted) else repr(value)
    except RecursionError:
        text = f"a deeply nested {type(value).__name__}"
    except ValueError:  # an integer of thousands of digits, or a list of such
        text = f"{with_article(type(value))} that is too long to show"
    text = " ".join(text.split())
    return text if len(text) <= limit else f"{text[: limit - 20]} ... {text[-14:]}"


def with_article(kind: type) -> str:
    """`an int`, `a list`."""
    return f"{'an' if kind.__name__[0] in 'AEIOaeiou' else 'a'} {kind.__name__}"


def printable(text: str) -> str:
    """On one line, with what moves a terminal's cursor or changes its colours escaped.

    Names come from files.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class Unquoted(str):
    """A value that error messages show as it stands."""

    __slots__ = ()


NOTHING = Unquoted("nothing")
"""The value of a field that is missing."""


def nearest(word: object, known: Iterable[str]) -> str:
    """` (did you mean 'Axis'?)` where one of the `known` words is near, else nothing."""
    return suggested(nearest_name(word, known))


def suggested(name: str | None) -> str:
    """` (did you mean 'Axis'?)`, or nothing."""
    return "" if name is None else f" (did you mean {name!r}?)"


def nearest_name(word: object, known: Iterable[str]) -> str | None:
    """Of the `known` words the one of which it is a part, or the first of the nearest ones."""
    by_case = {name.casefold(): name for name in known}
    if not isinstance(word, str) or len(word) > 100 or len(by_case) > 1000:
        return None  # the search takes the product of these
    folded = word.casefold()
    for name in by_case if len(folded) > 2 else ():
        if folded in name.split("_"):  # OWNED, CLIP
            return by_case[name]
    found = difflib.get_close_matches(folded, by_case, n=3)
    alike = {name: difflib.SequenceMatcher(None, name, folded).ratio() for name in found}
    first = (name for name in by_case if name in alike and alike[name] == max(alike.values()))
    within = (name for name in by_case if len(folded) > 2 and folded in name)
    return by_case.get(next(first, next(within, "")))


def refused(rule: str, value: object) -> DmlError:
    """The error of a value; its place in a description is added on the way out."""
    return DmlError([Fault("", "", rule, value)])


def items_of(values: Any, of: str = "") -> tuple[Any, ...]:
    """Those of a list, or of what goes as one; else raises the error that it is none."""
    rule = f"be a list{of}"
    if isinstance(values, Set):
        rule += ", in order: [2, 1] where C++ has {2, 1}"
    elif not isinstance(values, (str, bytes, Mapping, enum.Enum)):
        try:
            return tuple(values)
        except TypeError:
            pass
    raise refused(rule, values)


def missing_extra(package: str, purpose: str, extra: str, operator: str = "") -> DmlError:
    """The error of a package that an extra brings."""
    rule = f'be installed to {purpose}: pip install "dml-jax[{extra}]"'
    return DmlError([Fault(operator, f"the package {package}", rule, NOTHING)])

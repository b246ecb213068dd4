"""Constraint records, and the check of a description by all records of an operator."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dml_jax.constraints.checks import CHECKS
from dml_jax.constraints.record_expressions import (
    Aspect,
    UnknownError,
    View,
    aspect_of,
    evaluate,
    is_wrong,
    root_of,
    roots,
)
from dml_jax.enums import FeatureLevel
from dml_jax.errors import Expect

# The keys whose values are paths and expressions.
_READING = (
    *("range", "least", "one_of", "nonzero", "finite", "number", "for", "fits", "in"),
    *("unique", "size", "holds", "except"),
)


class Record:
    """A constraint: the fields that it reads, and the descriptions that it is about."""

    def __init__(self, data: Mapping[str, Any]):
        self.data = data
        kinds = [key for key in data if key in CHECKS]
        if not kinds:
            keys, known = ", ".join(map(repr, data)), ", ".join(CHECKS)
            raise TypeError(f"a constraint record has one of the keys {known}, got {keys}")
        self.kind = kinds[0]
        self.where: Mapping[str, Any] = data.get("where", {})
        self.levels: Mapping[str, str] = data.get("levels", {})
        self.is_of_newest = self.holds_at(max(FeatureLevel))
        self.reads = frozenset(self._reads())
        self.subject = root_of(data[self.kind]) if isinstance(data[self.kind], str) else ""
        roots_read = {root for root, _ in self.reads}
        # A window that is too large is reported before there is an output.
        self.needs = roots_read - {self.subject} if self.kind == "size" else roots_read
        self.never_absent = {
            root
            for root in roots_read - {*self.where}
            if self.kind != "at_least_one"
            and not (self.kind == "holds" and f"given({root})" in data["holds"])
        }

    def __repr__(self) -> str:
        return f"Record({self.data})"

    def _texts(self) -> Iterator[str]:
        data = self.data
        yield from self.where
        for key in _READING:
            if key in data:
                yield data[key]
        for key in ("is", "below", "to", "from"):
            if isinstance(data.get(key), str) and data[key] != "window" and not self._is_type(key):
                yield data[key] if self.kind != "broadcast" else f"{data[key]}.Sizes"
        yield from (str(v) for v in data.get("window", {}).values())
        yield from data.get("let", {}).values()
        if self.kind == "shapes":
            for pattern in data["shapes"].values():
                yield from re.findall(r"{([^}]*)}", str(pattern))

    def _is_type(self, key: str) -> bool:
        return self.kind == "type" and key == "is" and self.data["is"].isupper()

    def _reads(self) -> Iterator[Aspect]:
        data = self.data
        bound = {data.get("each"), *data.get("let", {})}
        # A sum goes along one dimension: it rests on the ranks, and other sizes may be wrong.
        is_sum = "sum(" in data.get("holds", "")
        for text in self._texts():
            for root, aspect in roots(text):
                if root not in bound:
                    yield root, "DimensionCount" if is_sum and aspect == "Sizes" else aspect
        if self.kind == "type":
            is_tensor = "Tensor" in data["type"]
            yield aspect_of(data["type"] + ".DataType") if is_tensor else (data["type"], "")
        elif self.kind == "length":
            yield data["length"], ""
        # Tensors that the record compares are looked at one by one, where it is checked.

    def holds_at(self, level: FeatureLevel) -> bool:
        """Return whether the record applies at a feature level."""
        below, start = self.levels.get("below"), self.levels.get("from")
        if below is not None and level >= FeatureLevel.of(below):
            return False
        return start is None or level >= FeatureLevel.of(start)

    def applies(self, view: View) -> bool:
        """Return whether the `where` of the record fits the description."""
        for path, wanted in self.where.items():
            root = root_of(path)
            if wanted in ("given", "absent"):
                if (root in view.given) != (wanted == "given"):
                    return False
            elif root not in view.given and root in view.known and path != root:
                return False
            else:
                value = view[path] if path == root else evaluate(path, view)
                if value not in (wanted if isinstance(wanted, list) else [wanted]):
                    return False
        return True


# Records of one list are checked whatever another of these says about it.
_OF_ELEMENTS = ("least", "nonzero", "unique", "range")

# Records that say more about a single field come first: later ones rely on it.
_ORDER = ["at_least_one", "given", "least", "nonzero", "unique", "length", "range", "equal", "type"]


def records_of(records: Iterable[Mapping[str, Any]]) -> tuple[Record, ...]:
    """Return the records in the order in which they are checked."""
    made = [Record(data) for data in records]
    return tuple(sorted(made, key=lambda r: _ORDER.index(r.kind) if r.kind in _ORDER else 99))


def check(
    records: Iterable[Record], view: View, expect: Expect, wrong: set[Aspect], level: FeatureLevel
) -> None:
    """Add the faults of every record that applies at `level` to `expect`.

    `view` lacks the fields that are missing or wrong. The aspects with faults are added to `wrong`.
    """
    undecided: list[tuple[Record, Exception]] = []
    of_elements: set[Aspect] = set()
    for record in records:
        if (record.levels and not record.holds_at(level)) or not record.needs <= view.known:
            continue
        is_of_elements = record.kind in _OF_ELEMENTS
        own = of_elements & {(record.subject, "")} if is_of_elements else set()
        if not record.never_absent.isdisjoint(view.absent):
            continue  # it is about a field that is left out
        if wrong and any(is_wrong(wrong - own, root, aspect) for root, aspect in record.reads):
            continue
        before = len(expect.faults)
        try:
            if not record.where or record.applies(view):
                CHECKS[record.kind](record.data, view, expect, wrong)
        except UnknownError:
            continue
        except (IndexError, ZeroDivisionError, ValueError) as error:
            undecided.append((record, error))
        for fault in expect.faults[before:]:
            root, aspect = aspect_of(fault.field)
            found = {(name, aspect) for name in (root, *view.lists_of(root))} - wrong
            of_elements |= found if is_of_elements else set()
            wrong |= found
    if undecided and not expect.faults and not wrong:
        record, error = undecided[0]
        raise TypeError(f"{expect.operator}: {record} cannot be checked") from error

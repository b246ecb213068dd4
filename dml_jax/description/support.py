"""The support tables of DirectML's operator pages: ranks and types from each feature level on."""

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dml_jax.description.tensor import TensorDesc
from dml_jax.enums import Enumeration, FeatureLevel, TensorDataType
from dml_jax.errors import Fault, Unquoted

# The sets of types that most rows of the pages use, in the pages' order.
FLOATS = "FLOAT32 FLOAT16"
TO_32_BITS = "FLOAT32 FLOAT16 INT32 INT16 INT8 UINT32 UINT16 UINT8"
ALL_BUT_FLOAT64 = "FLOAT32 FLOAT16 INT64 INT32 INT16 INT8 UINT64 UINT32 UINT16 UINT8"
ALL_TYPES = f"FLOAT64 {ALL_BUT_FLOAT64}"
INDICES = "INT64 INT32 UINT64 UINT32"

Ranks = tuple[int, int]


@dataclass(frozen=True)
class Row:
    """What one feature level supports: for each tensor field, its ranks and its data types."""

    level: FeatureLevel
    ranks: Mapping[str, Ranks]
    types: Mapping[str, tuple[TensorDataType, ...]]

    def faults(
        self, tensors: Sequence[tuple[str, str, TensorDesc]], beyond: bool = False
    ) -> list[Fault]:
        """Return the faults of tensors that this row refuses. `tensors`: (C path, field, tensor).

        A tensor `beyond` DirectML may have every type, and more dimensions.
        """
        faults: list[Fault] = []
        for path, field, tensor in tensors:
            low, high = self.ranks[field]
            rank = len(tensor.sizes)
            if rank < low or (rank > high and not beyond):
                rule = f"be {low}" if low == high else f"be in [{low}, {high}]"
                faults.append(Fault("", f"{path}.DimensionCount", rule, rank))
            if tensor.data_type not in self.types[field] and not beyond:
                known = tuple(t.name for t in self.types[field])
                rule, got = f"be one of {', '.join(known)}", tensor.data_type.shown()
                faults.append(Fault("", f"{path}.DataType", rule, got, choices=known))
        return faults

    def takes(
        self, field: str, data_type: TensorDataType | None, rank: int | None, beyond: bool
    ) -> bool:
        """Return whether the row takes a tensor; None is a type or a rank that is not known."""
        low, high = self.ranks[field]
        is_type = beyond or data_type is None or data_type in self.types[field]
        return is_type and (rank is None or (low <= rank and (beyond or rank <= high)))


@dataclass(frozen=True, repr=False)
class Support:
    """All rows of an operator's page, newest first; `by` an attribute where the page has groups.

    Attributes:
        declared: attribute value -> rows; the single key None where there are no groups. A row is
            (level, ranks, types): ranks an int or (least, most), types a string of names; either
            may be a mapping from tensor field to such.
        by: the attribute that chooses the group.
        fields: the tensor fields of the operator.
    """

    declared: Mapping[Enumeration | None, Sequence[Any]]
    by: str | None = None
    fields: Sequence[str] = ()

    def __repr__(self) -> str:
        count = sum(map(len, self.groups.values()))
        groups = f" by {self.by}" if self.by else ""
        return f"<Support{groups} from {self.introduced} on: {count} rows>"

    def of(self, fields: Sequence[str]) -> "Support":
        """Return the same rows for an operator with these tensor fields."""
        return replace(self, fields=fields)

    @functools.cached_property
    def groups(self) -> dict[Enumeration | None, tuple[Row, ...]]:
        """Attribute value -> rows, newest first. Raises `TypeError` where a row misses a tensor."""
        members = next(iter(self.declared))
        if members is not None and set(self.declared) != set(type(members)):
            raise TypeError(f"support by {self.by!r} misses some of {list(type(members))}")
        return {
            key: tuple(sorted((self._row(*r) for r in rows), key=lambda r: -r.level))
            for key, rows in self.declared.items()
        }

    def _row(self, level: str, ranks: Any, types: Any) -> Row:
        def spread(value: Any) -> Mapping[str, Any]:
            value = value if isinstance(value, Mapping) else dict.fromkeys(self.fields, value)
            if set(value) != set(self.fields):
                raise TypeError(
                    f"support row names {sorted(value)}, the operator has {self.fields}"
                )
            return value

        return Row(
            FeatureLevel.of(level),
            {f: (r, r) if isinstance(r, int) else tuple(r) for f, r in spread(ranks).items()},
            {f: _types(t) for f, t in spread(types).items()},
        )

    @functools.cached_property
    def introduced(self) -> FeatureLevel:
        """The feature level that introduced the operator."""
        return min(row.level for rows in self.groups.values() for row in rows)

    def faults(
        self,
        operator: str,
        tensors: Sequence[tuple[str, str, TensorDesc]],
        group: Enumeration | None,
        level: FeatureLevel | None = None,
        beyond: bool = False,
    ) -> list[Fault]:
        """Return why a level refuses these tensors; nothing if it accepts them.

        None is the highest level. Tensors `beyond` DirectML may have every type.

        A level supports what its own row and those of lower levels do. Where all of them refuse,
        the nearest is reported: the one with the fewest faults, the newest among equals.
        """
        rows = self.groups[group]
        at = "" if level is None else f" at feature level {level}"
        found = []
        for row in rows:
            if level is None or row.level <= level:
                faults = row.faults(tensors, beyond)
                if not faults:
                    return []
                found.append(faults)
        if not found:
            rule = f"be at least {rows[-1].level}, which introduced it"
            return [Fault(operator, "feature level", rule, Unquoted(level))]
        return [replace(f, operator=operator, rule=f.rule + at) for f in min(found, key=len)]

    def refusal(
        self,
        group: Enumeration | None,
        tensors: Sequence[tuple[str, TensorDataType | None, int | None]],
        beyond: bool = False,
    ) -> str:
        """Return why all levels refuse tensors, (field, type, rank) of each; "" if one takes them.

        A type or rank that is not known is None. Tensors `beyond` DirectML may have every type.
        """
        rows = self.groups[group]
        if any(all(row.takes(*tensor, beyond) for tensor in tensors) for row in rows):
            return ""
        shown = (f"{kind} of rank {rank} ({field})" for field, kind, rank in tensors if kind)
        return f"no feature level takes {', '.join(shown)}"


@functools.cache
def _types(names: str) -> tuple[TensorDataType, ...]:
    return tuple(map(TensorDataType.of, names.replace(",", " ").split()))


def of_facts(
    table: Sequence[Sequence[Any]], names: Mapping[str, str], enumerations: Mapping[str, Any]
) -> Support:
    """Return the support of an operator from the rows of `dml_jax.facts`.

    A row of `table` is [level, "ranks: types" or one such a tensor, the attribute's values]. Tensor
    fields have `names` by their C names, and so do the `enumerations` of attributes.
    """
    groups: dict[Enumeration | None, list[Any]] = {}
    by = None
    for level, cell_or_cells, *when in table:
        is_whole = isinstance(cell_or_cells, str)
        cells = dict.fromkeys(names, cell_or_cells) if is_whole else cell_or_cells
        ranks, types = {}, {}
        for c_name, cell in cells.items():
            low, high, types[names[c_name]] = re.fullmatch(r"(\d)(?:-(\d))?: (.*)", cell).groups()  # pyright: ignore[reportOptionalMemberAccess]
            ranks[names[c_name]] = (int(low), int(high or low))
        keys: list[Any] = [None]
        for c_name, values in when[0].items() if when else ():
            enumeration = enumerations[c_name]
            by, keys = c_name.lower(), [enumeration.of(value) for value in values]
        for key in keys:
            groups.setdefault(key, []).append((level, ranks, types))
    return Support(groups, by, list(names.values()))


def rows(*table: tuple[Any, ...]) -> Support:
    """The support of an operator whose page has one table."""
    return Support({None: table})


def by(attribute: str, groups: Mapping[tuple[Enumeration, ...], tuple[Any, ...]]) -> Support:
    """The support of an operator whose page has a table for each value of an attribute."""
    return Support({key: table for keys, table in groups.items() for key in keys}, by=attribute)

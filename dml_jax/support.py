"""The support tables of DirectML's operator pages: ranks and types from each feature level on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dml_jax.enums import Enumeration, FeatureLevel, TensorDataType
from dml_jax.errors import Fault, Unquoted
from dml_jax.tensor import TensorDesc

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

    def faults(self, tensors: Sequence[tuple[str, str, TensorDesc]]) -> list[tuple[str, str, Any]]:
        """The (field, rule, value) that this row refuses. `tensors`: (C path, field, tensor)."""
        faults: list[tuple[str, str, Any]] = []
        for path, field, tensor in tensors:
            low, high = self.ranks[field]
            if not low <= tensor.dimension_count <= high:
                rule = f"be {low}" if low == high else f"be in [{low}, {high}]"
                faults.append((f"{path}.DimensionCount", rule, tensor.dimension_count))
            if tensor.data_type not in self.types[field]:
                rule = f"be one of {', '.join(t.name for t in self.types[field])}"
                faults.append((f"{path}.DataType", rule, tensor.data_type.shown()))
        return faults


class Support:
    """All rows of an operator's page, newest first; `by` an attribute where the page has groups.

    Args:
        groups: attribute value -> rows; the single key None where there are no groups. A row is
            (level, ranks, types): ranks an int or (least, most), types a string of names; either
            may be a mapping from tensor field to such.
        by: the attribute that chooses the group.
    """

    def __init__(self, groups: Mapping[Enumeration | None, tuple[Any, ...]], by: str | None = None):
        self.by = by
        self._declared = groups
        self.groups: dict[Enumeration | None, tuple[Row, ...]] = {}
        self.introduced = FeatureLevel.LEVEL_1_0

    def __repr__(self) -> str:
        count = sum(map(len, self.groups.values()))
        groups = f" by {self.by}" if self.by else ""
        return f"<Support{groups} from {self.introduced} on: {count} rows>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Support) and vars(other) == vars(self)

    def resolved(self, fields: list[str]) -> "Support":
        """The same for an operator with these tensor fields; a row that misses one fails."""

        def spread(value: Any) -> Mapping[str, Any]:
            value = value if isinstance(value, Mapping) else dict.fromkeys(fields, value)
            if set(value) != set(fields):
                raise TypeError(f"support row names {sorted(value)}, the operator has {fields}")
            return value

        def row(level: str, ranks: Any, types: Any) -> Row:
            return Row(
                FeatureLevel.of(level),
                {f: (r, r) if isinstance(r, int) else tuple(r) for f, r in spread(ranks).items()},
                {f: tuple(map(TensorDataType.of, t.split())) for f, t in spread(types).items()},
            )

        support = Support(self._declared, self.by)
        support.groups = groups = {
            key: tuple(sorted((row(*r) for r in rows), key=lambda r: -r.level))
            for key, rows in self._declared.items()
        }
        members = next(iter(groups))
        if members is not None and set(groups) != set(type(members)):
            raise TypeError(f"support by {self.by!r} misses some of {list(type(members))}")
        support.introduced = min(row.level for rows in groups.values() for row in rows)
        return support

    def faults(
        self,
        operator: str,
        tensors: Sequence[tuple[str, str, TensorDesc]],
        group: Enumeration | None,
        level: FeatureLevel | None = None,
    ) -> list[Fault]:
        """Why these tensors are refused at a level (None: at the highest); nothing if they are not.

        A level supports what its own row and those of lower levels do. Where all of them refuse,
        the nearest is reported: the one with the fewest faults, the newest among equals.
        """
        rows = self.groups[group]
        at = "" if level is None else f" at feature level {level}"
        found = []
        for row in rows:
            if level is None or row.level <= level:
                faults = row.faults(tensors)
                if not faults:
                    return []
                found.append(faults)
        if not found:
            rule = f"be at least {rows[-1].level}, which introduced it"
            return [Fault(operator, "feature level", rule, Unquoted(level))]
        nearest = min(found, key=len)
        return [Fault(operator, field, rule + at, value) for field, rule, value in nearest]


def rows(*table: tuple[Any, ...]) -> Support:
    """The support of an operator whose page has one table."""
    return Support({None: table})


def by(attribute: str, groups: Mapping[tuple[Enumeration, ...], tuple[Any, ...]]) -> Support:
    """The support of an operator whose page has a table for each value of an attribute."""
    return Support({key: table for keys, table in groups.items() for key in keys}, by=attribute)

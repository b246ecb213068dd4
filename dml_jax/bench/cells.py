"""The cells of the bench: typical uses of operators, over types and sizes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dml_jax.description.fields import Choice, Field
from dml_jax.description.tensor import TensorDesc
from dml_jax.enums import TensorDataType
from dml_jax.errors import NOTHING, DmlError, Fault, Unquoted
from dml_jax.operator import Operator, operator_type
from dml_jax.operator.callable import Bindable

# The table where the user names no operator: one or two operators of each family.
# fmt: off
REPRESENTATIVES = (
    "ELEMENT_WISE_CLIP", "ELEMENT_WISE_CLIP_GRAD", "REDUCE", "ARGMAX", "JOIN", "TILE",
    "DEPTH_TO_SPACE1",
)
# fmt: on
VARIANTS = 2  # of each representative
TYPES = ("FLOAT32", "FLOAT16", "UINT8")
MIB = 2**20
MEBIBYTES = (8.0, 64.0)  # of the largest tensor: small cells measure the cost of a call


@dataclass(frozen=True)
class Cell:
    """A function to measure, by the name of its operator or dispatchable, and by its variant."""

    operator: str
    variant: str
    function: Bindable

    @property
    def label(self) -> str:
        """The operator and its variant."""
        return f"{self.operator} {self.variant}".strip()

    @property
    def name(self) -> str:
        """The label with the type and sizes of the largest tensor."""
        return f"{self.label} {self.tensor.shown()}"

    @property
    def tensor(self) -> TensorDesc:
        """The largest tensor; the first of several."""
        return max((*self.function.inputs, *self.function.outputs), key=_bytes)

    @property
    def bytes_in(self) -> int:
        """Bytes of all inputs: each element is read at least once."""
        return sum(map(_bytes, self.function.inputs))

    @property
    def bytes_out(self) -> int:
        """Bytes of all outputs: each element is written once."""
        return sum(map(_bytes, self.function.outputs))

    @property
    def bytes(self) -> int:
        """Bytes that must move."""
        return self.bytes_in + self.bytes_out


def _bytes(tensor: TensorDesc) -> int:
    return math.prod(tensor.sizes) * tensor.dtype.itemsize


def cells(
    operators: Sequence[str] = (),
    types: Sequence[str] = (),
    mebibytes: Sequence[float] = (),
    variants: int | None = None,
    most_types: int | None = None,
) -> list[Cell]:
    """Return the cells of operators, over each type and size that they accept.

    Args:
        operators: names, with or without DML_OPERATOR_; none stands for the representatives.
        types: names of data types; none stands for `TYPES`, or else the first that is accepted.
        mebibytes: sizes of the largest tensor, in MiB; none stands for `MEBIBYTES`.
        variants: at most so many of each operator.
        most_types: at most so many of each operator.

    Raises `DmlError` for an operator that does not exist, or if no cell is left.
    """
    classes = [operator_type(name.upper()) for name in operators or REPRESENTATIVES]
    found = [
        Cell(cls.short_name, label, use)
        for cls in classes
        for data_type in (types or _types(cls))[:most_types]
        for size in mebibytes or MEBIBYTES
        for label, use in _labelled(cls.typical(_count(size, data_type), data_type))[:variants]
    ]
    if not found:
        names = " or ".join(operators) or "an operator of the table"
        rule = f"have one that {names} accepts (`dml-jax operators NAME` lists them)"
        fault = Fault("", "the types", rule, Unquoted(", ".join(types)))
        raise DmlError([fault if types else Fault(names, "typical", "describe a use", NOTHING)])
    return found


def _types(cls: type[Operator]) -> Sequence[str]:
    """Return those of `TYPES` that an operator takes for its largest tensor, or else the first."""
    every = [t.name for t in TensorDataType if t.element_size]
    taken = [t for t in (*TYPES, *every) if cls.typical(1, t)]
    return [t for t in TYPES if t in taken] or taken[:1]


def _count(mebibytes: float, data_type: str) -> int:
    return max(int(mebibytes * MIB) // max(TensorDataType.of(data_type).element_size, 1), 1)


def _labelled(uses: Sequence[Operator]) -> list[tuple[str, Operator]]:
    """Say in which attributes each descriptor differs from the others."""
    fields = [f for f in uses[0].fields if not f.tensor] if uses else []
    told = [f for f in fields if len({_shown(f, getattr(use, f.name)) for use in uses}) > 1]
    labels = [" ".join(_shown(f, getattr(use, f.name)) for f in told) for use in uses]
    if len({*labels}) < len(labels):
        labels = [f"{label} ({number})".strip() for number, label in enumerate(labels, 1)]
    return list(zip(labels, uses, strict=True))


def _shown(field: Field, value: Any) -> str:
    """A member of an enumeration by its suffix; any other value with its field."""
    if value is None or isinstance(field.kind, Choice):
        return str(value)
    return f"{field.name}={field.kind.shown(value)}".replace(", ", ",")

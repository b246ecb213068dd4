"""The fields of an operator, from its facts, and what its declaration lacks."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING
from typing import Any

from dml_jax import enums, facts
from dml_jax.constraints import Record
from dml_jax.description.descriptor import ScaleBias, Size2D, snake_case
from dml_jax.description.fields import (
    INT,
    UINT,
    Array,
    Boolean,
    Choice,
    Field,
    Kind,
    OutputList,
    Real,
    Scalar,
    Structure,
    Tensor,
)
from dml_jax.description.tensor import TensorDesc
from dml_jax.errors import nearest
from dml_jax.operator.declared import Declared
from dml_jax.operator.fused import Fused

_KINDS: dict[str, Kind] = {
    "input": Tensor(),
    "output": Tensor(output=True),
    "UINT": UINT,
    "INT": INT,
    "BOOL": Boolean(),
    "FLOAT": Real(),
    "SCALE_BIAS": Structure(ScaleBias),
    "SIZE_2D": Structure(Size2D),
    "OPERATOR_DESC": Fused(),
}
_SHOWN: dict[str, Any] = {"UINT": int, "INT": int, "BOOL": bool, "FLOAT": float}


def fields_of_facts(lines: Sequence[str]) -> tuple[Field, ...]:
    """Return the fields that the facts of an operator list."""
    parts = [re.fullmatch(r"(\w+)(?:\[(\w+)\])?(\?)? (\w+)", line).groups() for line in lines]  # pyright: ignore[reportOptionalMemberAccess]
    counts = {count for _, count, _, _ in parts}
    typed_by = next((c for k, _, _, c in parts if k == "TENSOR_DATA_TYPE"), "")
    enumerations = enums.by_prefix()
    fields = []
    for word, count, optional, c_name in parts:
        if c_name in counts:
            continue
        if word == "SCALAR_UNION":
            kind, shown = Scalar(typed_by), float
        elif word in _KINDS:
            kind, shown = _KINDS[word], _SHOWN.get(word, object)
        else:
            enumeration = enumerations[f"DML_{word}"]
            kind, shown = Choice(enumeration), enumeration | str
        if isinstance(kind, Tensor):
            shown = TensorDesc
        elif isinstance(kind, Structure):
            shown = kind.descriptor
        if count:
            kind = OutputList() if kind == Tensor(output=True) else Array(kind)
            shown = Sequence[shown]
        default = None if optional else MISSING
        shown = shown | None if optional else shown
        fields.append(
            Field(snake_case(c_name), c_name, kind, bool(optional), default, count, shown)
        )
    return tuple(fields)


def _named(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield the tensors that a constraint record names, such as "InputTensor"."""
    yield from (name.replace("[*]", "") for name in record.get("equal", ()))
    yield from (root for root, _ in Record(record).reads if root.endswith("Tensor"))


def half_declared(cls: type[Declared], base: type[Declared]) -> Iterator[str]:
    """Yield each part that the declaration of `cls` lacks, beside `base`, or that cannot be."""
    names, (package, _, family) = facts.catalogue(), cls.__module__.rpartition(".")
    if cls.short_name not in names and not cls.fields:
        yield f"the facts have no {cls.short_name}{nearest(cls.short_name, names)}"
        return
    if package == "dml_jax.operators" and family != names[cls.short_name]["family"]:
        yield f"its family is {names[cls.short_name]['family']}, not {family}"
    for part in ("support", "lower"):
        if getattr(cls, part, None) is getattr(base, part, None):
            yield f"it lacks {part}"
    if not any(f.tensor and f.tensor.output for f in cls.fields):
        yield "it lacks an output"
    named = facts.class_name_of(cls.short_name)
    if cls.__name__ != named:
        yield f"its class is {cls.__name__}, not {named}, which follows from its name"
    chosen = cls.support.by if hasattr(cls, "support") else None
    if chosen not in (None, *(f.name for f in cls.fields)):
        yield f"its support goes by {chosen!r}, which is no field"
    known = {f.c_name for f in cls.fields}
    for name in (n for r in cls.constraints if cls.short_name not in names for n in _named(r)):
        if name not in known:
            yield f"a constraint names {name!r}, which is no field{nearest(name, known)}"
    for f in cls.fields:
        of = f.kind.type_field if isinstance(f.kind, Scalar) else None
        if of not in (None, *(other.c_name for other in cls.fields)):
            yield f"{f.c_name} is of the type {of}, which is no field"

"""What a declaration says of itself, part by part: for the command line and the docs site."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dml_jax import facts
from dml_jax.description.fields import Field
from dml_jax.enums import FeatureLevel, TensorDataType
from dml_jax.operator import Operator

_TOLD = re.compile(r": `([^`]+)`")  # a formula in a summary
_LABEL = re.compile(r"(?:^|(?<=[.;] ))(Choices?|Gradient): ")


@dataclass(frozen=True)
class Documentation:
    """The docstring of an operator, in its parts.

    Attributes:
        summary: one sentence.
        formula: what it computes, a paragraph each.
        gradient: how it is differentiated.
        choices: what was chosen where DirectML's documentation is silent; (field or "", text).
        fields: what each field is, and its rules.
        example: a worked example, as a doctest; "" where the documentation's own stand for it.
        source: the page of DirectML's documentation.
    """

    summary: str
    formula: tuple[str, ...]
    gradient: str
    choices: tuple[tuple[str, str], ...]
    fields: dict[str, str]
    example: str
    source: str

    @classmethod
    def of(cls, op: type[Operator]) -> "Documentation":
        """Return what an operator and its bases say; what a class itself says comes first.

        The general choices of the bases stay. A field that no class describes has the text of its
        C name.
        """
        own = _Said.of(op, op.__doc__)
        said = [own, *(_Said.of(op, base.__doc__) for base in op.__mro__[1:] if _is_below(base))]
        texts: dict[str, tuple[str, list[str]]] = {}
        for part in said:
            texts = {**part.fields, **texts}
        fields: dict[str, str] = {}
        choices = [("", choice) for part in reversed(said) for choice in part.choices]
        for f in op.fields:
            fields[f.name], chosen = texts.get(f.name, (default_text(f), []))
            choices += [(f.name, choice) for choice in chosen]
        return cls(
            own.summary,
            tuple(_formula(op)),
            next((part.gradient for part in said if part.gradient), ""),
            tuple(dict.fromkeys(choices)),
            fields,
            own.example,
            f"DML_{op.short_name}_OPERATOR_DESC",
        )


def _formula(op: type[Operator]) -> list[str]:
    """Return the whole formula of an operator, a paragraph each.

    Its family says what all members share. An operator, or else the one that it is a version of,
    says its own part: in a paragraph, or in the summary behind a colon.
    """
    bases = [base for base in op.__mro__[1:] if _is_below(base)]
    versions = [op, *(base for base in bases if vars(base).get("c_name"))]
    shared = [base for base in reversed(bases) if not vars(base).get("c_name")]
    formula = [text for base in shared for text in _Said.of(op, base.__doc__).formula]
    for version in versions:
        said = _Said.of(op, version.__doc__)
        told = vars(version).get("formula") or "".join(_TOLD.findall(said.summary)[:1])
        lines = [f"`{told}`" if " = " in told else f"`output = {told}`"] if told else []
        if "g(x)" in told and "g(x) = " not in "".join(said.formula):
            lines[0] += ", with `g(x) = x * scale + bias` where `scale_bias` is given, else x."
        if lines or said.formula:
            return lines + formula + said.formula
    return formula


def _is_below(base: type) -> bool:
    """Return whether a class is a family's base, or an operator."""
    return issubclass(base, Operator) and base is not Operator and bool(vars(base).get("__doc__"))


@dataclass
class _Said:
    """What the docstring of one class says; `fields` are (text, choices) by the field's name."""

    summary: str
    formula: list[str]
    gradient: str
    choices: list[str]
    fields: dict[str, tuple[str, list[str]]]
    example: str

    @classmethod
    def of(cls, op: type[Operator], docstring: str | None) -> "_Said":
        """Read a docstring of the operator `op`, or of a base of it."""
        blocks = re.split(r"\n\n+", inspect.cleandoc(docstring or ""))
        self = cls(blocks[0], [], "", [], {}, "")
        known = [f.name for f in op.fields]
        examples = []
        for block in blocks[1:]:
            if block.startswith("Fields:"):
                for names, text in _items(block):
                    plain, *rest = map(_sentence, re.split(r"Choices?: ", text))
                    self.fields |= {n: (plain, rest) for n in names or known if n in known}
            elif block.startswith(">>>"):
                examples.append(block)
            else:
                plain, *rest = _LABEL.split(" ".join(block.split()))
                if block.startswith("- "):  # each item of a list by itself
                    self.formula += [
                        " ".join(item.split()) for item in re.split(r"\n(?=- )", block)
                    ]
                elif plain:
                    self.formula.append(plain.strip())
                for label, text in zip(rest[::2], rest[1::2], strict=True):
                    if label == "Gradient":
                        self.gradient = text.strip()
                    else:
                        self.choices.append(_sentence(text))
        self.example = "\n\n".join(examples)
        return self


def default_text(field: Field) -> str:
    """Return what a field is, by its C name."""
    return facts.fields().get(field.c_name, _sentence(f"the {field.name.replace('_', ' ')}."))


def _items(block: str) -> Iterator[tuple[list[str], str]]:
    """(names, text) of each entry of a "Fields:" block; no names are all fields."""
    head, *lines = block.splitlines()
    if head != "Fields:":
        yield [], head.removeprefix("Fields: ")
    for entry in re.split(r"\n(?=    \S)", "\n".join(["", *lines]))[1:]:
        names, _, text = entry.partition(": ")
        yield re.split(r",\s+", names.strip()), " ".join(text.split())


def _sentence(text: str) -> str:
    text = text.strip()
    return text[:1].upper() + text[1:] if text else ""


def takes(field: Field) -> str:
    """Return in words what a field accepts: `a list of UINT`."""
    word = f"a {field.kind.word}" if field.is_array else field.kind.word
    plural = "s" if field.is_array and field.tensor else ""
    return f"{word}{plural}{', optional' if field.optional else ''}"


Ranks = tuple[int, int]


@dataclass(frozen=True)
class Matrix:
    """A support table: for each data type the ranks that each feature level takes.

    Attributes:
        group: the values of the attribute that the table holds for; empty where it is for all.
        tensors: C names of the tensors that it holds for.
        ranks: level -> type -> (least, most), lower levels' included; from the lowest level on,
            one entry where the table changes.
    """

    group: tuple[str, ...]
    tensors: tuple[str, ...]
    ranks: dict[FeatureLevel, dict[TensorDataType, Ranks]]

    @property
    def types(self) -> list[TensorDataType]:
        """All types, in the order of DirectML.h."""
        found = {t for by_type in self.ranks.values() for t in by_type}
        return sorted(found)

    @property
    def title(self) -> str:
        """`ARGMIN, ARGMAX: InputTensor`."""
        return ": ".join(", ".join(part) for part in (self.group, self.tensors) if part)


def matrices(op: type[Operator]) -> list[Matrix]:
    """The support tables of an operator, equal ones together."""
    by_rows: dict[Any, list[str]] = {}
    for group, rows in op.support.groups.items():
        by_rows.setdefault(repr(rows), []).append("" if group is None else group.name)
    tables = {repr(rows): rows for rows in op.support.groups.values()}
    names = {f.name: f.c_name for f in op.fields if f.tensor}
    result: list[Matrix] = []
    for key, groups in by_rows.items():
        by_ranks: dict[str, tuple[Any, list[str]]] = {}
        for name, c_name in names.items():
            ranks: dict[FeatureLevel, dict[TensorDataType, Ranks]] = {}
            known: dict[TensorDataType, Ranks] = {}
            for row in reversed(tables[key]):  # from the lowest level on
                low, high = row.ranks[name]
                for t in row.types[name]:
                    least, most = known.get(t, (low, high))
                    known[t] = (min(low, least), max(high, most))
                ranks[row.level] = dict(known)
            by_ranks.setdefault(repr(ranks), (ranks, []))[1].append(c_name)
        for ranks, tensors in by_ranks.values():
            whole = len(by_ranks) == 1
            group = tuple(g for g in groups if g)
            result.append(Matrix(group, () if whole else tuple(tensors), ranks))
    return result


def shown_ranks(ranks: Ranks | None) -> str:
    """`4`, `1 to 8`, or nothing."""
    if ranks is None:
        return ""
    low, high = ranks
    return str(low) if low == high else f"{low} to {high}"


def described(op: type[Operator]) -> dict[str, Any]:
    """The whole declaration, as plain values for JSON."""
    text = Documentation.of(op)
    return {
        "name": op.c_name,
        "class": f"dml_jax.{op.__name__}",
        "summary": text.summary,
        "formula": list(text.formula),
        "fields": [
            {
                "name": f.name,
                "c_name": f.c_name,
                **({"count": f.count} if f.count else {}),
                "takes": takes(f),
                "text": text.fields.get(f.name, ""),
            }
            for f in op.fields
        ],
        "introduced": op.support.introduced.suffix,
        "support": [
            {
                **({op.support.by: list(m.group)} if op.support.by else {}),
                "tensors": list(m.tensors) or [f.c_name for f in op.fields if f.tensor],
                "levels": {
                    level.suffix: {t.name: list(r) for t, r in by_type.items()}
                    for level, by_type in m.ranks.items()
                },
            }
            for m in matrices(op)
        ],
        "in_place": op.in_place,
        "gradient": text.gradient,
        "choices": [{"field": field, "text": choice} for field, choice in text.choices],
        "source": text.source,
    }

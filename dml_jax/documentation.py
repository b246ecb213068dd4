"""What a declaration says of itself, part by part: for the command line and the docs site."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dml_jax.enums import FeatureLevel, TensorDataType
from dml_jax.fields import Field
from dml_jax.operator import OPERATORS, Operator

_LABEL = re.compile(r"(?:^|(?<=[.;] ))(Choices?|Gradient|Source): ")
_AS_FOR = re.compile(r"as for ([A-Z][A-Z_0-9]*)\. ?")


@dataclass(frozen=True)
class Documentation:
    """The docstring of an operator, in its parts; what it says to be "as for" another is there.

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
        blocks = re.split(r"\n\n+", inspect.cleandoc(op.__doc__ or ""))
        formula: list[str] = []
        example: list[str] = []
        fields: dict[str, str] = {}
        choices: list[tuple[str, str]] = []
        labelled = {"Gradient": "", "Source": ""}
        for block in blocks[1:]:
            if block.startswith("Fields:"):
                for names, text in _items(block):
                    for name in names or [f.name for f in op.fields]:
                        plain, chosen = _resolved(text, name)
                        fields[name] = plain
                        choices += ((name, choice) for choice in chosen)
            elif block.startswith(">>>"):
                example.append(block)
            else:
                plain, *rest = _LABEL.split(" ".join(block.split()))
                formula += [plain.strip()] if plain else []
                for label, text in zip(rest[::2], rest[1::2], strict=True):
                    if label in labelled:
                        labelled[label] = _resolved_gradient(text.strip())
                    else:
                        choices.append(("", _sentence(text)))
        return cls(
            blocks[0],
            tuple(formula),
            labelled["Gradient"],
            tuple(choices),
            fields,
            "\n\n".join(example),
            labelled["Source"].removesuffix("."),
        )


def _items(block: str) -> Iterator[tuple[list[str], str]]:
    """(names, text) of each entry of a "Fields:" block; no names are all fields."""
    head, *lines = block.splitlines()
    if head != "Fields:":
        yield [], head.removeprefix("Fields: ")
    for entry in re.split(r"\n(?=    \S)", "\n".join(["", *lines]))[1:]:
        names, _, text = entry.partition(": ")
        yield re.split(r",\s+", names.strip()), " ".join(text.split())


def _resolved(text: str, name: str) -> tuple[str, list[str]]:
    """A field's text without its choices, and these; with those of the operator that it is as."""
    start, choices = "", []
    same = _AS_FOR.match(text)
    if same:
        other = Documentation.of(OPERATORS[f"DML_OPERATOR_{same[1]}"])
        start, text = other.fields[name], text[same.end() :]
        choices = [choice for field, choice in other.choices if field == name]
    plain, *rest = re.split(r"Choices?: ", text)
    plain = " ".join(part for part in (start, _sentence(plain)) if part)
    return plain, [*choices, *map(_sentence, rest)]


def _resolved_gradient(text: str) -> str:
    same = _AS_FOR.match(text)
    if same is None:
        return text
    other = Documentation.of(OPERATORS[f"DML_OPERATOR_{same[1]}"])
    return f"{other.gradient} {text[same.end() :]}".strip()


def _sentence(text: str) -> str:
    text = text.strip()
    return text[:1].upper() + text[1:] if text else ""


def takes(field: Field) -> str:
    """What a field takes, in words: `a list of UINT`."""
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

"""The pages that say nothing of their own: the README as home, and the operators as declared."""

import inspect
import re
from pathlib import Path
from typing import Any

import mkdocs_gen_files

from dml_jax import OPERATORS, FeatureLevel, Operator
from dml_jax.fields import Array, Choice, Field, Real, Scalar, Structure, Tensor

ROOT = Path(__file__).parent.parent


def kind_of(field: Field) -> str:
    """What a field takes, in words."""
    kind: Any = field.kind
    many = "a list of " if isinstance(kind, Array) else ""
    kind = kind.element if isinstance(kind, Array) else kind
    match kind:
        case Tensor():
            word = "output tensor" if kind.output else "input tensor"
        case Choice():
            word = kind.enumeration.prefix
        case Structure():
            word = kind.descriptor.c_name
        case Real():
            word = "FLOAT"
        case Scalar():
            word = f"number of the type that {kind.type_field} names"
        case _:
            word = "UINT"
    return f"{many}{word}{', optional' if field.optional else ''}"


def fields_table(op: type[Operator]) -> list[str]:
    """Field, its C name, what it takes."""
    lines = ["| field | DirectML.h | takes |", "| --- | --- | --- |"]
    for f in op.fields:
        counted = f" (and {f.count})" if f.count else ""
        lines.append(f"| `{f.name}` | {f.c_name}{counted} | {kind_of(f)} |")
    return lines


def support_table(op: type[Operator]) -> list[str]:
    """A row of ranks and types for each feature level, group and tensor."""
    by = op.support.by
    head = ["from level", *([by] if by else []), "tensor", "ranks", "data types"]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for group, rows in op.support.groups.items():
        for row in rows:
            for f in op.fields:
                if f.tensor:
                    low, high = row.ranks[f.name]
                    ranks = str(low) if low == high else f"{low} to {high}"
                    types = ", ".join(t.name for t in row.types[f.name])
                    cells = [str(row.level), *([str(group)] if by else []), f.c_name, ranks, types]
                    lines.append(f"| {' | '.join(cells)} |")
    return lines


def section(op: type[Operator]) -> list[str]:
    """One operator: its docstring, fields, support."""
    text = inspect.cleandoc(op.__doc__ or "")
    # The docstring's list of fields, as a list of Markdown.
    text = re.sub(r"^    (\S[^:]*): ", r"- `\1`: ", text, flags=re.MULTILINE)
    place = "May run in place." if op.in_place else "Does not run in place."
    return [
        f"## {op.c_name.removeprefix('DML_OPERATOR_')}",
        f"`dml_jax.{op.__name__}`, from feature level {op.support.introduced} on. {place}",
        text.replace("Fields:\n", "Fields:\n\n"),
        "\n".join(fields_table(op)),
        "\n".join(support_table(op)),
    ]


def level_table() -> list[str]:
    """Which operator changes at which feature level."""
    lines = ["| operator | feature levels with new ranks or types |", "| --- | --- |"]
    for name, op in OPERATORS.items():
        levels = sorted({row.level for rows in op.support.groups.values() for row in rows})
        short = name.removeprefix("DML_OPERATOR_")
        anchor = short.lower()
        lines.append(f"| [{short}](#{anchor}) | {', '.join(map(str, levels))} |")
    return lines


def operators_page() -> str:
    """All operators."""
    known = ", ".join(level.suffix for level in FeatureLevel)
    parts = ["# Operators", f"Generated from the declarations. Feature levels: {known}."]
    parts.append("\n".join(level_table()))
    for op in OPERATORS.values():
        parts += section(op)
    return "\n\n".join(parts) + "\n"


def home() -> str:
    """The README, with the links that the site can follow."""
    text = re.sub(r"<!--.*?-->\n", "", (ROOT / "README.md").read_text())
    text = text.replace("](docs/", "](")
    return re.sub(r"(?<!!)\[([^\]]+)\]\(examples/[^)]*\)", r"\1", text)


with mkdocs_gen_files.open("operators.md", "w") as page:
    page.write(operators_page())
with mkdocs_gen_files.open("index.md", "w") as page:
    page.write(home())
GALLERY = "examples/images/gallery.jpg"
with mkdocs_gen_files.open(GALLERY, "wb") as picture:
    picture.write((ROOT / GALLERY).read_bytes())

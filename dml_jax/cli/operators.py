"""`dml-jax operators`: the catalogue, read from the declarations."""

import difflib
from collections.abc import Sequence
from typing import Any

import click

from dml_jax.cli.terminal import console, json_option, say_json
from dml_jax.operator import OPERATORS, Operator


def _plain(name: str) -> str:
    """`ElementWiseClip1`, `element_wise_clip1` and `DML_OPERATOR_ELEMENT_WISE_CLIP1` alike."""
    word = "".join(filter(str.isalnum, name.casefold()))
    return word.removeprefix("dmloperator").removeprefix("dmljax")


def _names() -> dict[str, type[Operator]]:
    return {op.short_name: op for op in OPERATORS.values()}


def _near(word: str, names: list[str]) -> list[str]:
    """The name that is nearest as a whole, or else those of which a part is."""
    whole = difflib.get_close_matches(word, names, 1)
    parts = {part for name in names for part in name.split("_")}
    part = difflib.get_close_matches(word, sorted(parts), 1)
    return whole or [name for name in names if part and part[0] in name.split("_")]


def _complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in _names() if name.startswith(incomplete.upper())]


@click.command()
@click.argument("name", required=False, shell_complete=_complete)
@json_option
def operators(name: str | None, as_json: bool) -> None:
    """List the operators, or tell all about NAME.

    NAME is DirectML's, the Python class's or in lower case.

    \b
    dml-jax operators
    dml-jax operators REDUCE
    dml-jax operators depth_to_space1 --json
    """  # noqa: D301
    from dml_jax.documentation import described

    if name is None:
        if as_json:
            say_json([described(op) for op in OPERATORS.values()])
        else:
            _list()
        return
    known = _names()
    found = {_plain(short): op for short, op in known.items()}.get(_plain(name))
    if found is None:
        near = _near(name.upper().removeprefix("DML_OPERATOR_"), list(known))
        hint = f" (did you mean {' or '.join(near)}?)" if near else ""
        text = f"no operator {name!r} is built{hint}; `dml-jax operators` lists them."
        raise click.BadParameter(text, param_hint="NAME")
    if as_json:
        say_json(described(found))
    else:
        _describe(found)


def _list() -> None:
    from dml_jax.documentation import Documentation

    rows = []
    for name, op in _names().items():
        in_place = "yes" if op.in_place else ""
        summary = Documentation.of(op).summary.replace("`", "")
        rows.append((name, op.support.introduced.suffix, in_place, summary))
    _say_rows(console(), ("Operator", "Level", "In place", "What it does"), rows)
    click.echo("\nEach from its level on. More of one: dml-jax operators NAME")


def _say_rows(out: Any, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table, whose last column is wrapped; where that leaves no room, line by line."""
    from rich.padding import Padding
    from rich.table import Table

    *fixed, last = zip(head, *rows, strict=True)
    word = max(len(word) for cell in last for word in cell.split())
    room = max(word, min(12, max(map(len, last))))
    if sum(max(map(len, column)) + 2 for column in fixed) + room > out.width:
        for name, *cells in rows:
            out.print(name)
            for title, cell in zip(head[1:], cells, strict=True):
                if cell:
                    out.print(Padding(f"{title}: {cell}", (0, 0, 0, 2)))
        return
    table = Table(*head, box=None, pad_edge=False)
    for column in table.columns[:-1]:
        column.no_wrap = True
    for row in rows:
        table.add_row(*row)
    out.print(table)


def _describe(op: type[Operator]) -> None:
    from rich.text import Text

    from dml_jax.documentation import Documentation, matrices, shown_ranks, takes

    out = console()
    text = Documentation.of(op)

    def say(title: str, *lines: str) -> None:
        out.print(Text(f"\n{title}", "bold"))
        for line in lines:
            out.print(Text(line.replace("`", "")), width=min(out.width, 100))

    def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        out.print(Text(f"\n{title}", "bold"))
        _say_rows(out, head, rows)

    out.print(Text(f"{op.short_name}: {text.summary.replace('`', '')}", "bold"))
    out.print(f"dml_jax.{op.__name__}, from feature level {op.support.introduced} on")
    say("Formula", *text.formula)
    fields = []
    for f in op.fields:
        counted = f"{f.c_name} ({f.count})" if f.count else f.c_name
        fields.append((f.name, counted, takes(f), text.fields.get(f.name, "").replace("`", "")))
    table("Fields", ("Field", "DirectML.h", "Takes", "What it is"), fields)
    for matrix in matrices(op):
        title = f"Ranks by feature level{matrix.title and ', ' + matrix.title}"
        levels = [level.suffix for level in matrix.ranks]
        rows = []
        for data_type in matrix.types:
            cells = (shown_ranks(r.get(data_type)) or "-" for r in matrix.ranks.values())
            rows.append((data_type.name, *cells))
        table(title, ("Type", *levels), rows)
    say("In place", "An output may be an input's own memory." if op.in_place else "No.")
    say("Gradient", text.gradient[:1].upper() + text.gradient[1:])
    if text.choices:
        lines = (f"{field}: {choice}" if field else choice for field, choice in text.choices)
        say("Choices, where the documentation is silent", *lines)
    say("Source", text.source)

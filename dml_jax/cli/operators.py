"""`dml-jax operators`: the catalogue of operators, read from their declarations."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from dml_jax.cli.terminal import Command, json_option, operator_names, say_json
from dml_jax.errors import nearest
from dml_jax.facts import PREFIX, catalogue, names_of_aliases
from dml_jax.show.names import call_of, caveat, in_jax, names, plain, search

if TYPE_CHECKING:
    from dml_jax.operator import Operator

    _Found = Mapping[type[Operator], Sequence[str]]


@click.command(cls=Command)
@click.argument("name", required=False, shell_complete=operator_names)
@json_option
def operators(name: str | None, as_json: bool) -> None:
    """List the operators by family, or those that NAME finds, or describe one operator.

    NAME is DirectML's name, that of the Python class, or a part of either, in any case. A family
    finds its operators, and so does a name in DirectMLX, ONNX, JAX or PyTorch, or a part of it:
    operators of exactly this name first, each with the function to call.

    \b
    dml-jax operators                          all operators
    dml-jax operators clip                     the operators with "clip" in a name
    dml-jax operators pooling                  a family
    dml-jax operators LayerNormalization       the operators that ONNX calls so
    dml-jax operators jnp.where                the functions that compute what JAX calls so
    dml-jax operators REDUCE                   one: choices, gradient, fields, ranks and types
    dml-jax operators depth_to_space1 --json   the same for machines
    """  # noqa: D301
    from dml_jax.operator import OPERATORS

    by_name = {plain(op.short_name): op for op in OPERATORS.values()}
    by_name |= {
        plain(alias): OPERATORS[f"{PREFIX}{known}"] for alias, known in names_of_aliases().items()
    }
    exact = by_name.get(plain(name or ""))
    if exact is not None:
        if as_json:
            say_json(_value_of(exact))
        else:
            _describe(exact)
        return
    named, others = _matches(name)
    function = in_jax(name or "")
    if function:
        note = f"No operator has the name {name!r}. Use {function}: operators take JAX's arrays."
        click.echo(note, err=as_json)
        if "." in str(name):  # the user has named the library
            named, others = {}, {}
    if not named and not others and not function:
        text = f"no operator is called {name!r}{_hint(str(name))}; `dml-jax operators` lists them."
        raise click.BadParameter(text, param_hint="NAME")
    if as_json:
        say_json([_value_of(op) for op in (*named, *others)])
        return
    if named:
        if function:
            click.echo()
        _list(named)
        if note := caveat(str(name)):
            click.echo(f"\n{note}")
    if others and (named or function):
        click.echo(f"\nAlso with {name!r} in a name:\n")
    if others:
        _list(others, with_calls=name is not None)
    if name is None:
        counts = Counter(map(_family, others))
        listed = ", ".join(f"{family} {count}" for family, count in sorted(counts.items()))
        click.echo(f"\n{len(others)} operators, by family: {listed}.")
        click.echo("Level: the first feature level that has the operator.")
        click.echo("Search: dml-jax operators clip. One in full: dml-jax operators REDUCE")


def _matches(name: str | None) -> "tuple[_Found, _Found]":
    """Return the operators of exactly this name, and those that have it in a name or as family.

    Without a name all operators are among the second.
    """
    from dml_jax.operator import OPERATORS

    if name is None:
        return {}, dict.fromkeys(OPERATORS.values(), ())
    named, others = ({OPERATORS[f"{PREFIX}{n}"]: v for n, v in s.items()} for s in search(name))
    of_family = (op for op in OPERATORS.values() if plain(name) == plain(_family(op)))
    others |= {op: others.get(op, ()) for op in of_family if op not in named}
    return named, others


def _hint(name: str) -> str:
    """Return the most similar name of an operator, here or elsewhere: ` (did you mean ...?)`."""
    elsewhere = (n.rpartition(".")[2] for of in names().values() for ns in of.values() for n in ns)
    ours = nearest(name.upper().removeprefix(PREFIX), catalogue())
    return ours or nearest(name, dict.fromkeys(elsewhere))


def _value_of(op: "type[Operator]") -> dict[str, Any]:
    from dml_jax.operator.documentation import described

    return {**described(op), "family": _family(op), "names": names_of(op)}


def names_of(op: "type[Operator]") -> dict[str, list[str]]:
    """Return the names of an operator elsewhere, by library."""
    return {library: list(own) for library, own in names().get(op.short_name, {}).items() if own}


def _family(op: "type[Operator]") -> str:
    """Return the family of an operator, the module that declares it: `depth and space`."""
    return op.__module__.rpartition(".")[2].replace("_", " ")


def _list(found: "Mapping[type[Operator], Sequence[str]]", with_calls: bool = True) -> None:
    """Print the operators that were `found`, by family, with the names that were searched for.

    `with_calls` also shows the functions that make them.
    """
    from dml_jax.cli.tables import show_cells
    from dml_jax.operator.documentation import Documentation

    families: dict[str, list[type[Operator]]] = {}
    for op in sorted(found, key=lambda op: op.short_name):
        families.setdefault(_family(op), []).append(op)
    width = max(len(op.short_name) for op in found)
    for index, (family, members) in enumerate(sorted(families.items())):
        if index:
            click.echo()
        rows = []
        for op in members:
            summary = Documentation.of(op).summary.replace("`", "")
            if found[op]:
                summary += f" ({', '.join(found[op])})"
            for function in names_of(op).get("function", []) if with_calls else ():
                summary += f"\n{call_of(function)}"
            rows.append((op.short_name.ljust(width), op.support.introduced.suffix, summary))
        show_cells((family, "Level", ""), *rows)


def _describe(op: "type[Operator]") -> None:
    """Print the whole declaration of an operator, its support tables last."""
    from rich.text import Text

    from dml_jax.cli.tables import console, show_cells
    from dml_jax.operator.documentation import Documentation, matrices, shown_ranks, takes

    out = console()
    text = Documentation.of(op)

    def say(title: str, *lines: str) -> None:
        out.print(Text(f"\n{title}", "bold"))
        for line in lines:
            out.print(Text(line.replace("`", "")), width=min(out.width, 100))

    def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        out.print(Text(f"\n{title}", "bold"))
        show_cells(head, *rows)

    out.print(Text(f"{op.short_name}: {text.summary.replace('`', '')}", "bold"))
    out.print(f"dml_jax.{op.__name__}, from feature level {op.support.introduced} on")
    say("Formula", *text.formula)
    if text.choices:
        lines = (f"{field}: {choice}" if field else choice for field, choice in text.choices)
        say("Choices, where the documentation is silent", *lines)
    say("Gradient", text.gradient[:1].upper() + text.gradient[1:])
    say("In place", "An output may be an input's own memory." if op.in_place else "No.")
    fields = []
    for f in op.fields:
        counted = f"{f.c_name} ({f.count})" if f.count else f.c_name
        fields.append((f.name, counted, takes(f), text.fields.get(f.name, "").replace("`", "")))
    for function in names_of(op).get("function", []):
        out.print(f"As a function: {call_of(function)}")
    elsewhere = (f"{library}: {', '.join(own)}" for library, own in names_of(op).items())
    say("Names", *elsewhere)
    table("Fields", ("Field", "DirectML.h", "Accepts", "Meaning"), fields)
    say("Source", text.source)
    for matrix in matrices(op):
        title = f"Ranks by feature level{matrix.title and ', ' + matrix.title}"
        levels = [level.suffix for level in matrix.ranks]
        rows = []
        for data_type in matrix.types:
            cells = (shown_ranks(ranks.get(data_type)) or "-" for ranks in matrix.ranks.values())
            rows.append((data_type.name, *cells))
        table(title, ("Type", *levels), rows)

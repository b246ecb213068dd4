"""Tables of operators, graphs and networks, for people and as JSON."""

import collections
import itertools
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from dml_jax.cli.terminal import say_json
from dml_jax.description.tensor import TensorDesc
from dml_jax.dxdispatch.model import Model
from dml_jax.enums import FeatureLevel
from dml_jax.errors import DmlError, printable
from dml_jax.graph import ConstantNode, FunctionNode, Graph, OperatorNode
from dml_jax.operator.call import Bindable
from dml_jax.show.diagrams import kind_of

if TYPE_CHECKING:  # the package onnx may lack
    from dml_jax.onnx import Network

_FIRST = 4  # values of an output that a table shows


def console() -> Console:
    """Return a console: with the terminal's width and colours, or plain and wide for a pipe."""
    wide = None if sys.stdout.isatty() else 160
    return Console(width=wide, markup=False, highlight=False)


def level_of(item: Bindable) -> FeatureLevel | None:
    """Return the lowest feature level of an operator; None of a node beyond DirectML."""
    try:
        return item.minimum_feature_level
    except DmlError:
        return None


def _ends(item: Bindable | TensorDesc | FunctionNode) -> tuple[list[Any], list[Any]]:
    """Return the tensors that an operator or a function reads and writes; one is written."""
    if isinstance(item, TensorDesc):
        return [], [item]
    if isinstance(item, Bindable):
        reads, writes = ([t for _, _, t in item.tensors(output)] for output in (False, True))
    else:
        reads, writes = ([t for _, t in item.slots(output) if t] for output in (False, True))
    return reads, writes


def show_cells(head: Sequence[str], *rows: Sequence[str]) -> None:
    """Print a table without a frame, whose cells fold only behind commas and spaces.

    A table that is too wide for that becomes a block of lines for each row.
    """
    out = console()
    columns = list(zip(head, *rows, strict=True))
    least = [max(_width(part) for cell in column for part in _parts(cell)) for column in columns]
    widths = [
        max(_width(line) for cell in column for line in f"{cell}\n".split("\n"))
        for column in columns
    ]
    room = out.width - 2 * (len(widths) - 1)
    if sum(least) > room:
        for name, *cells in rows:
            out.print(name, soft_wrap=True)
            for label, cell in zip(head[1:], cells, strict=True):
                for line in _fold(f"{label}: {cell}", out.width - 4):
                    out.print(f"  {line}", soft_wrap=True)
        return
    while sum(widths) > room:
        slack = [width if width > low else 0 for width, low in zip(widths, least, strict=True)]
        widths[slack.index(max(slack))] -= 1
    for index, row in enumerate((head, *rows)):
        folded = map(_fold, row, widths)
        for cells in itertools.zip_longest(*folded, fillvalue=""):
            line = "  ".join(map(set_cell_size, cells, widths)).rstrip()
            out.print(Text(line, "" if index else "bold"), soft_wrap=True)


def _width(text: str) -> int:
    return cell_len(text.rstrip())


def _parts(cell: str) -> list[str]:
    """Return the parts of `cell` between which a line may end; at least one."""
    return re.findall(r"[^, ]*[, ]*", cell)


def _fold(cell: str, width: int) -> list[str]:
    """Return the lines of `cell` in a column of this width."""
    lines: list[str] = []
    for line in cell.splitlines():
        lines.append("")
        for part in _parts(line):
            if lines[-1] and _width(lines[-1] + part) > width:
                lines.append("")
            lines[-1] += part
    return lines


def as_values(name: str, kind: str, item: Bindable | TensorDesc | FunctionNode) -> dict[str, Any]:
    """Return a row of `show_rows` for JSON."""
    inputs, outputs = (
        [t.to_json() if isinstance(t, TensorDesc) else t.shown() for t in some]
        for some in _ends(item)
    )
    values = {"name": name, "operator": kind, "inputs": inputs, "outputs": outputs}
    if not isinstance(item, Bindable):
        return values
    level = level_of(item)
    refused = {level.suffix: [*map(str, faults)] for level, faults in item.refusals.items()}
    return values | {"feature_level": level.suffix if level else None, "refused": refused}


def show_rows(
    title: str,
    rows: Iterable[tuple[str, str, Bindable | TensorDesc | FunctionNode]],
    as_json: bool,
    known: Mapping[str, Any] = {},
) -> None:
    """Print (name, kind, operator, tensor or function) of each row; `title` heads the names.

    JSON has what is `known` beside them.
    """
    if as_json:
        say_json({**known, f"{title.lower()}s": [as_values(*row) for row in rows]})
        return
    cells = []
    for name, kind, item in rows:
        sides = ("\n".join(t.shown() for t in some) for some in _ends(item))
        level = str(level_of(item) or "none") if isinstance(item, Bindable) else ""
        cells.append([printable(name), printable(kind), *sides, level])
    show_cells([title, "Operator", "Inputs", "Outputs", "Lowest level"], *cells)


def show_model(model: Model, as_json: bool, known: Mapping[str, Any] = {}) -> None:
    """Print the operators of `model`; JSON has what is `known` beside them."""
    ops = ((key, d.operator) for key, d in model.dispatchables.items())
    show_rows("Dispatchable", ((key, kind_of(op), op) for key, op in ops), as_json, known)


def rows_of(graph: Graph) -> Iterator[tuple[str, str, Any]]:
    """Yield (name, kind, operator, tensor or function) of each node, those within nodes too."""
    for index, node in graph.all_nodes:
        name = node.name or str(index)
        if isinstance(node, OperatorNode):
            yield name, kind_of(node.operator), node.operator
        elif isinstance(node, ConstantNode):
            yield name, "constant", node.tensor
        else:
            yield name, node.label, node


def show_network(network: "Network", as_json: bool) -> None:
    """Print the nodes of a network."""
    show_rows("Node", rows_of(network.graph), as_json, _summary(network))
    if not as_json:
        _say_summary(network)


def check_network(network: "Network", as_json: bool, known: Mapping[str, Any]) -> None:
    """Print the operators of a network, its memory and its arithmetic; JSON has `known` beside."""
    from dml_jax.bench.operation_counts import bytes_by_kind, operations

    operators, flops = [*network.graph.operators], int(operations(network.graph))
    counts = collections.Counter(operator.short_name for operator in operators)
    levels: dict[str, FeatureLevel] = {}
    for operator in operators:
        highest = levels.setdefault(operator.short_name, min(FeatureLevel))
        levels[operator.short_name] = max(highest, level_of(operator) or highest)
    if as_json:
        found = {**known, **_summary(network), "operators": counts, "flops": flops}
        say_json({**found, "memory": dict(bytes_by_kind(network))})
        return
    rows = [[key, str(count), str(levels[key])] for key, count in counts.most_common()]
    show_cells(["Operator", "Nodes", "Lowest level"], *rows)
    click.echo(network.describe())
    _say_summary(network)
    parts = ", ".join(f"{count:,} of {what}" for what, count in bytes_by_kind(network))
    click.echo(f"Bytes: {parts}; {flops:,} operations")


def _summary(network: "Network") -> dict[str, Any]:
    arrays = network.weights.values()
    weights = {"count": len(arrays), "bytes": sum(a.nbytes for a in arrays)}
    return {"feature_level": network.minimum_feature_level.suffix, "weights": weights}


def _say_summary(network: "Network") -> None:
    from dml_jax.onnx.reports import sizes_by_data

    weights = _summary(network)["weights"]
    click.echo(
        f"{network.node_count} nodes, {weights['count']} weights ({weights['bytes']:,} bytes), "
        f"from feature level {network.minimum_feature_level} on"
    )
    replaceable = [name for name in network.defaults if name not in network.fixed]
    if replaceable:
        click.echo(printable(f"Inputs with defaults (--input NAME=FILE): {', '.join(replaceable)}"))
    if network.fixed:
        fixed = ", ".join(network.fixed)
        click.echo(printable(f"Inputs with fixed defaults (--constant NAME:VALUE): {fixed}"))
    for size, count in sizes_by_data(network).items():
        click.echo(printable(f"Data decides the size '{size}' of {count} edges"))
    for label, reason in network.fallbacks.items():
        click.echo(printable(f"By JAX: {label}: {reason}"))


def show_outputs(outputs: Mapping[str, Any]) -> None:
    """Print the type, the shape and the first values of each output of a network."""
    rows = [
        [printable(name), array.dtype.name, str([*array.shape]), _first_values(array)]
        for name, array in outputs.items()
    ]
    show_cells(["Output", "Type", "Shape", "Values"], *rows)


def _first_values(array: Any) -> str:
    """Return the first values of an array, with dots where there are more."""
    values = array.reshape(-1)[:_FIRST].tolist()
    shown = [f"{value:.6g}" if isinstance(value, float) else str(value) for value in values]
    return ", ".join([*shown, *["..."] * (array.size > _FIRST)])


def show_largest(largest: Mapping[str, Sequence[tuple[int, str, float]]]) -> None:
    """Print a table of the largest numbers of each output."""
    for name, rows in largest.items():
        click.echo(printable(f"Largest of '{name}':"))
        has_labels = any(label for _, label, _ in rows)
        head = ["Index", *["Label"] * has_labels, "Value"]
        lines = [
            [str(k), *[printable(label)] * has_labels, f"{value:.6g}"] for k, label, value in rows
        ]
        show_cells(head, *lines)

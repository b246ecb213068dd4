"""Measurements as a table, and as a picture."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dml_jax.bench.overhead import Overhead
from dml_jax.bench.roofline import Bandwidth, Measured
from dml_jax.errors import DmlError, Fault
from dml_jax.files import write_whole

COLOURS = {"FLOAT32": "#1f77b4", "FLOAT16": "#ff7f0e", "INT32": "#2ca02c", "UINT8": "#d62728"}


def bandwidth_table(bandwidth: Bandwidth) -> Any:
    """GB/s of each plain copy and read."""
    from rich.table import Table

    forms = list(next(iter(bandwidth.rates.values())))
    table = Table("Type", *(f"{form}, GB/s" for form in forms), box=None)
    for data_type, rates in bandwidth.rates.items():
        table.add_row(data_type.name, *(f"{rates[form] / 1e9:.1f}" for form in forms))
    return table


def cell_table(measured: Iterable[Measured]) -> Any:
    """A row a cell: the times of both ways, and what the bound one is of the memory's limit."""
    from rich.table import Table

    table = Table(
        "Cell",
        *("MB", "allocated", "bound", "GB/s", "of copy", "of best", "limit"),
        box=None,
        header_style="bold",
    )
    for column in table.columns[1:]:
        column.justify = "right"
    for m in measured:
        rate, of_limit = m.rate("bound"), m.rate("bound") / m.limit
        table.add_row(
            m.cell.name,
            f"{m.cell.bytes / 1e6:.4g}",
            *(f"{shown_time(m.times[w].median)} {_spread(m, w)}" for w in ("allocated", "bound")),
            f"{rate / 1e9:.1f}",
            f"{rate / m.copy:.2f}",
            f"{rate / m.best_copy:.2f}",
            f"{of_limit:.2f} of {'read' if m.cell.reads else 'copy'}",
            style="" if of_limit >= 0.8 else "yellow" if of_limit >= 0.4 else "red",
        )
    return table


def shown_time(seconds: float) -> str:
    """With three digits, in us or ms."""
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


def _spread(m: Measured, way: str) -> str:
    times = m.times[way]
    return f"±{(times.high - times.low) / 2 / times.median:3.0%}"


def overhead_table(overheads: Iterable[Overhead]) -> Any:
    """A row a small cell."""
    from rich.table import Table

    head = ("describe", "call", "plain call", "dispatch", "compile", "plain compile")
    table = Table("Small cell", *head, box=None, header_style="bold")
    for column in table.columns[1:]:
        column.justify = "right"
    for o in overheads:
        table.add_row(
            o.cell.name,
            "" if o.construct is None else f"{o.construct:.1f} us",
            *(f"{us:.1f} us" for us in (o.call, o.plain_call, o.dispatch)),
            *(f"{ms:.0f} ms" for ms in (o.compile, o.plain_compile)),
        )
    return table


def summary(measured: Sequence[Measured]) -> str:
    """The geometric mean of what cells take of their limit, and the lowest."""
    fractions = {m.cell.name: m.rate("bound") / m.limit for m in measured}
    lowest = min(fractions, key=fractions.__getitem__)
    mean = statistics.geometric_mean(fractions.values())
    return (
        f"{len(fractions)} cells, bound: {mean:.2f} of their limit (geometric mean), "
        f"the lowest {fractions[lowest]:.2f} ({lowest})"
    )


def draw(
    environment: Mapping[str, Any], bandwidth: Bandwidth, measured: Sequence[Measured], target: Path
) -> None:
    """Writes the roofline as a .svg or .png file. Raises `DmlError` where it cannot.

    A line a kind, or a cell where they are few: GB/s, bound filled and allocated hollow, under the
    roof that the copy (and, for reductions, the read) of the device is.
    """
    kind = check_picture(target)
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    few = len(measured) <= 40
    labels = list(dict.fromkeys(m.cell.name if few else m.cell.group for m in measured))
    figure = Figure(figsize=(11, 1.8 + 0.24 * len(labels)), layout="constrained")
    axes = figure.add_subplot()
    colours = dict(COLOURS)
    for m in measured:
        y = labels.index(m.cell.name if few else m.cell.group)
        type_name = m.cell.tensor.data_type.name
        colour = colours.setdefault(type_name, "#7f7f7f")
        for way, fill in (("allocated", "none"), ("bound", colour)):
            axes.scatter(
                m.rate(way) / 1e9, y, s=26, facecolor=fill, edgecolor=colour, alpha=0.75, zorder=3
            )
    for data_type, rates in bandwidth.rates.items():
        colour = colours.setdefault(data_type.name, "#7f7f7f")
        axes.axvline(rates["copy"] / 1e9, color=colour, lw=1.2, alpha=0.8)
        read = rates[bandwidth.read_form(data_type)]
        axes.axvline(read / 1e9, color=colour, lw=1.2, ls=":", alpha=0.8)
    axes.axvline(bandwidth.best_copy / 1e9, color="black", lw=1.5)
    axes.set(
        ylim=(len(labels) - 0.5, -0.5),
        xlabel="GB/s of the bytes that must move",
        xscale="log",
        title=f"{environment['device']}, {environment['cpu']}, jax {environment['jax']}",
    )
    axes.set_yticks(range(len(labels)), [label.replace("$", r"\$") for label in labels], fontsize=7)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    axes.grid(axis="both", lw=0.3)
    handles = [
        *(
            Line2D([], [], marker="o", ls="", color=colours[t.name], label=t.name)
            for t in bandwidth.rates
        ),
        Line2D([], [], marker="o", ls="", color="grey", label="bound"),
        Line2D([], [], marker="o", ls="", color="grey", fillstyle="none", label="allocated"),
        Line2D([], [], color="grey", label="copy of a type"),
        Line2D([], [], color="grey", ls=":", label="read of a type"),
        Line2D([], [], color="black", label="best copy"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=7)
    date = {"Date": None} if kind == "svg" else None
    with matplotlib.rc_context({"svg.hashsalt": "dml-jax"}):
        write_whole(target, lambda file: figure.savefig(file, format=kind, dpi=150, metadata=date))


def check_picture(target: Path) -> str:
    """The kind of picture a name asks for. Raises `DmlError` where it cannot be drawn."""
    kind = target.suffix.lower().removeprefix(".")
    if kind not in ("svg", "png"):
        raise DmlError([Fault("", "the picture's name", "end in .svg or .png", str(target))])
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        from dml_jax.dispatch.reading import missing_extra

        raise missing_extra("matplotlib", "draw pictures", "show") from None
    return kind

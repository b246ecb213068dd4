"""Measurements as a table, and as a picture."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dml_jax.bench.overhead import Overhead
from dml_jax.bench.roofline import Bandwidth, Measured
from dml_jax.enums import TensorDataType
from dml_jax.pictures import check_picture, save_picture

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
        *("MB", "allocated", "bound", "GB/s", "of copy", "of equal", "of best", "limit"),
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
            f"{rate / m.equal_copy:.2f}",
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

    Above, GB/s over the bytes that must move, under the roof that a copy of as many bytes is. Below
    a line a kind, or a cell where they are few, beside the copy (and, for reductions, the read) of
    large arrays. Bound is filled and allocated hollow.
    """
    check_picture(target)
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import LogLocator

    few = len(measured) <= 40
    labels = list(dict.fromkeys(m.cell.name if few else m.cell.group for m in measured))
    height = 0.4 + 0.24 * len(labels)
    figure = Figure(figsize=(11, 5 + height), layout="constrained")
    by_size, by_kind = figure.subplots(2, height_ratios=[4, height])
    colours = {t.name: COLOURS.get(t.name, "#7f7f7f") for t in bandwidth.rates}
    for m in measured:
        y = labels.index(m.cell.name if few else m.cell.group)
        colour = colours[m.cell.tensor.data_type.name]
        for way, fill in (("allocated", "none"), ("bound", colour)):
            rate = m.rate(way) / 1e9
            dot = {"facecolor": fill, "edgecolor": colour, "zorder": 3}
            by_kind.scatter(rate, y, s=26, alpha=0.75, **dot)
            by_size.scatter(m.cell.bytes / 1e6, rate, s=14, alpha=0.5, **dot)
    for data_type, rates in bandwidth.rates.items():
        colour = colours[data_type.name]
        by_kind.axvline(rates["copy"] / 1e9, color=colour, lw=1.2, alpha=0.8)
        read = rates[bandwidth.read_form(data_type)]
        by_kind.axvline(read / 1e9, color=colour, lw=1.2, ls=":", alpha=0.8)
        by_size.plot(*roof(measured, data_type), color=colour, lw=1.2, marker="D", ms=3)
    by_kind.axvline(bandwidth.best_copy / 1e9, color="black", lw=1.5)
    by_size.axhline(bandwidth.best_copy / 1e9, color="black", lw=1.5)
    by_size.set(
        xlabel="MB that must move",
        ylabel="GB/s of the bytes that must move",
        xscale="log",
        yscale="log",
        title=f"{environment['device']}, {environment['cpu']}, jax {environment['jax']}",
    )
    by_kind.set(
        ylim=(len(labels) - 0.5, -0.5), xlabel="GB/s of the bytes that must move", xscale="log"
    )
    names = [label.replace("$", r"\$") for label in labels]
    by_kind.set_yticks(range(len(labels)), names, fontsize=7)
    for axis in (by_kind.xaxis, by_size.xaxis, by_size.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_locator(LogLocator(subs=(2, 5)))
        axis.set_minor_formatter("{x:g}")
        axis.set_tick_params(which="minor", labelsize="small")
    for axes in (by_kind, by_size):
        axes.grid(axis="both", lw=0.3)
    handles = [
        *(Line2D([], [], marker="o", ls="", color=c, label=name) for name, c in colours.items()),
        Line2D([], [], marker="o", ls="", color="grey", label="bound"),
        Line2D([], [], marker="o", ls="", color="grey", fillstyle="none", label="allocated"),
        Line2D([], [], color="grey", marker="D", ms=3, label="copy of as many bytes"),
        Line2D([], [], color="grey", label="copy of a type"),
        Line2D([], [], color="grey", ls=":", label="read of a type"),
        Line2D([], [], color="black", label="best copy"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=7)
    save_picture(figure, target)


def roof(
    measured: Sequence[Measured], data_type: TensorDataType
) -> tuple[list[float], list[float]]:
    """MB, and GB/s in the median, of the copies that moved as many bytes as the cells of a type."""
    rates: dict[int, list[float]] = {}
    for m in measured:
        if m.cell.tensor.data_type == data_type:
            rates.setdefault(m.cell.bytes, []).append(m.equal_copy / 1e9)
    sizes = sorted(rates)
    return [size / 1e6 for size in sizes], [statistics.median(rates[size]) for size in sizes]

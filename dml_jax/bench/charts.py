"""A run as a chart: limits, a roofline, or shares of a copy's bandwidth."""

import textwrap
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dml_jax.bench.network_cells import PROGRAM
from dml_jax.bench.report import SMALLEST, shown
from dml_jax.bench.rows import Row, by_type, worst
from dml_jax.show.figures import check_picture, save_picture

NAMED = 10  # dots of a roofline that have their names beside them
COLOURS: Mapping[str, str] = defaultdict(
    lambda: "#7f7f7f",
    FLOAT32="#1f77b4",
    FLOAT16="#ff7f0e",
    BFLOAT16="#9467bd",
    INT32="#2ca02c",
    UINT8="#d62728",
    INT8="#8c564b",
)


def draw(title: str, rows: Sequence[Row], target: Path, verbose: bool = False) -> None:
    """Draw the chart of a run as .svg or .png.

    Raises `DmlError` if the name is no picture's, or matplotlib is missing.
    """
    check_picture(target)
    save_picture(chart(title, rows, verbose), target)


def chart(title: str, rows: Sequence[Row], verbose: bool = False) -> Any:
    """Return the figure of a run: limits, a roofline, or shares of a copy's bandwidth.

    In an SVG each mark has the name of its row as its id.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 5.5), layout="constrained")
    if limits := [row for row in rows if row.family == "limits"]:
        _draw_limits(figure, limits)
    elif any(row.peak for row in rows):
        _draw_roofline(figure, rows)
    else:
        known = [row for row in rows if row.share]
        large = [row for row in known if verbose or row.bytes >= SMALLEST]
        _draw_shares(figure, large or known)
    figure.suptitle(title, fontsize=10)
    return figure


def _dot(axes: Any, x: float, y: float, row: Row, **look: Any) -> None:
    axes.scatter(
        x, y, gid=row.name, **{"s": 24, "color": COLOURS[row.data_type], "zorder": 3} | look
    )


def _draw_shares(figure: Any, rows: Sequence[Row]) -> None:
    """Draw a dot for each cell at the share that its table says, a line for each label."""
    labels = list(dict.fromkeys(row.label for row in rows))
    figure.set_size_inches(10, 1.6 + 0.26 * len(labels))
    axes = figure.subplots()
    for row in rows:
        _dot(axes, row.share, labels.index(row.label), row, alpha=0.8)
    for name, rate in by_type(rows, "copy").items():
        axes.plot([], [], "o", color=COLOURS[name], label=f"{name}: copy {shown(rate)} GB/s")
    axes.axvline(1, color="#444444", lw=1)
    most = max([1.2, *(1.05 * row.share for row in rows)])
    axes.set(xlabel="share of the copy's bandwidth", xlim=(0, most))
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_yticks(range(len(labels)), [n.replace("$", r"\$") for n in labels], fontsize=8)
    axes.grid(axis="x", lw=0.3)
    figure.legend(loc="outside lower center", ncols=3, fontsize=8)


def _draw_roofline(figure: Any, rows: Sequence[Row]) -> None:
    """Draw the roof of each type, and a dot for each cell with arithmetic; name the worst.

    The roof rises with the copy's bandwidth up to the ridge, and is flat at the product's rate.
    """
    from matplotlib.ticker import FuncFormatter

    axes = figure.subplots()
    drawn = [row for row in rows if row.operations and row.operator != PROGRAM]
    rates, top = by_type(rows, "copy"), by_type(rows, "peak")
    ends = [*(row.intensity for row in drawn), *(top[name] / rates[name] for name in top)]
    low, high = min(ends) / 3, max(ends) * 3
    for name, rate in rates.items():
        words, most = f"{name}: copy {shown(rate)} GB/s", top.get(name, max(top.values()))
        points = [low, ridge := most / rate]
        if name in top:  # else no roof is known beyond
            words += f", product {shown(most)} GFLOP/s, ridge {shown(ridge)} FLOP/B"
            points.append(high)
        roof = [min(x * rate, most) for x in points]
        axes.plot(points, roof, color=COLOURS[name], label=words)
    for row in drawn:
        _dot(axes, row.intensity, row.work / 1e9, row, alpha=0.7)
    # Cells differ by orders of magnitude in both directions; on log axes a roof is two lines.
    axes.set(xscale="log", yscale="log", xlim=(low, high))
    axes.set(xlabel="operations for each byte that must move", ylabel="GFLOP/s")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.10g}"))
    axes.grid(which="major", lw=0.3)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8)
    named = sorted(worst(drawn, "of_roof", NAMED), key=lambda row: row.work)
    for place, row in enumerate(named):  # beside the axes, a line to each dot
        text = textwrap.shorten(row.label, 44, placeholder="").replace("$", r"\$")
        look = {"textcoords": "axes fraction", "fontsize": 7, "va": "center"}
        look["arrowprops"] = {"arrowstyle": "-", "lw": 0.4, "relpos": (0, 0.5), "shrinkA": 0}
        spot = (1.02, (place + 0.5) / len(named))
        axes.annotate(text, (row.intensity, row.work / 1e9), spot, **look)


def _draw_limits(figure: Any, rows: Sequence[Row]) -> None:
    """Draw the rates of memory and of products as bars, and caches and collectives as curves."""
    places = figure.subplot_mosaic([["left", "top"], *[["left", "below"]] * 2])
    memory, products = ("copy", "read", "write", "add"), ("product",)
    for place, title, kinds in (
        ("left", "Memory, GB/s", memory),
        ("top", "Products of matrices, GFLOP/s", products),
    ):
        axes, drawn = places[place], [row for row in rows if row.operator in kinds]
        values = [(row.rate or row.work) / 1e9 for row in drawn]
        bars = axes.barh(range(len(drawn)), values, color=[COLOURS[row.variant] for row in drawn])
        for bar, row in zip(bars, drawn, strict=True):
            bar.set_gid(row.name)
        axes.bar_label(bars, list(map(shown, values)), padding=3, fontsize=7)
        axes.set_yticks(range(len(drawn)), [row.label for row in drawn], fontsize=7)
        axes.set_xlim(0, 1.15 * max(values, default=1))
        axes.set_title(title, fontsize=9)
        axes.invert_yaxis()
    axes = places["below"]
    for kind in ("cache", "all-reduce", "all-gather"):
        drawn = {float(row.variant.split(" ")[0]): row for row in rows if row.operator == kind}
        if drawn:
            (line,) = axes.plot([*drawn], [r.rate / 1e9 for r in drawn.values()], label=kind)
            for kib, row in drawn.items():
                _dot(axes, kib, row.rate / 1e9, row, s=16, color=line.get_color())
            axes.legend(fontsize=7)
    axes.set_xscale("log", base=4)
    axes.xaxis.set_major_formatter(lambda n, _: f"{n:g} KiB" if n < 1024 else f"{n / 1024:g} MiB")
    axes.tick_params("x", labelsize=7)
    axes.set_ylim(0)
    axes.set_title("GB/s, by the size of the array", fontsize=9)
    axes.grid(lw=0.3)

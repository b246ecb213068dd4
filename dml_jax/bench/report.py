"""Rows as tables of text, Markdown and CSV, and as charts."""

import csv
import io
import statistics
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dml_jax.bench.network_cells import PROGRAM
from dml_jax.bench.rows import Results, Row, by_type, worst
from dml_jax.show.figures import check_picture, save_picture

COLUMNS = 100
FOLDED = 16  # letters of names that a line has at least
MIB = 2**20
SMALLEST = MIB  # bytes from which a cell counts: small ones measure the cost of a call
BUSY = 1.2  # the fastest copy, over the slowest, from which the machine is called busy
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
MEANING = {
    "MiB": "bytes that must move: each element that is read or written, once",
    "FLOP/B": "operations for each of these bytes",
    "Time": "median of calls, ± half the quartile distance",
    "Of copy": "GB/s, as a part of a plain copy's that was timed in turn",
    "Of roof": "the shortest time that the copy's or the product's rate allows, over Time",
    "Share": "the part of the sum over all operators, each times its count",
    "Fastest": "the fastest other library's time, over ours",
}


def shown(value: float, digits: int = 3) -> str:
    """Return `value` with so many significant digits, without an exponent: `44,300`."""
    return f"{float(f'{value:.{digits}g}'):,.15g}"


def shown_time(seconds: float) -> str:
    """Show a time with three digits, in us, ms or s."""
    if seconds >= 1:
        return f"{shown(seconds)} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


def busy(rows: Sequence[Row]) -> str:
    """Return a line for each type whose copies differ in speed, "" if none does."""
    slowest, fastest = (by_type(rows, "copy", of) for of in (min, max))
    return "\n".join(
        f"The {n} copy varied from {shown(low)} to {shown(fastest[n])} GB/s: the machine is busy."
        for n, low in slowest.items()
        if fastest[n] > BUSY * low
    )


def tabled(rows: Sequence[Row], verbose: bool = False) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of the table; of a network the slowest operators first."""
    roofline, limits = any(r.peak for r in rows), all(r.family == "limits" for r in rows)
    counted = any(r.count > 1 or r.operator == PROGRAM for r in rows)
    peers = list(dict.fromkeys(peer for r in rows for peer in r.peers))
    allocated = verbose and any("allocated" in r.seconds for r in rows)
    total = sum(r.whole for r in rows if r.operator != PROGRAM) or 1.0

    def time_of(name: str) -> Callable[[Row], str]:
        return lambda r: shown_time(r.time(name)) if name in r.seconds else ""

    columns: list[tuple[str, Any, Callable[[Row], str]]] = [
        ("Operator", True, lambda r: r.labelled),
        ("Largest tensor", not counted, lambda r: r.tensor),  # the label of a network's has sizes
        ("MiB", True, lambda r: shown(r.bytes / MIB)),
        ("FLOP/B", roofline and not peers, lambda r: shown(r.intensity)),
        ("Time", True, lambda r: f"{shown_time(r.time())} ±{r.noise:4.0%}"),
        ("Allocated", allocated, time_of("allocated")),
        ("GB/s", not roofline, lambda r: shown(r.rate / 1e9) if r.rate else ""),
        ("GFLOP/s", roofline or limits, lambda r: shown(r.work / 1e9) if r.operations else ""),
        ("Copy", not (roofline or limits or peers), lambda r: shown(r.copy / 1e9)),
        ("Of copy", not (roofline or limits), lambda r: f"{r.share:.2f}"),
        ("Of roof", roofline, lambda r: f"{r.of_roof:.2f}" if r.of_roof else ""),
        ("Count", counted, lambda r: str(r.count)),
        ("Share", counted, lambda r: "" if r.operator == PROGRAM else f"{r.whole / total:.1%}"),
        *((peer, True, time_of(peer)) for peer in peers),
        ("Fastest", peers, lambda r: f"{r.speedup:.2f}" if r.peers else ""),
    ]
    names, _, texts = zip(*(column for column in columns if column[1]), strict=True)
    ordered = sorted(rows, key=lambda r: -r.whole) if counted else rows
    return [*names], [[text(row) for text in texts] for row in ordered]


def rich_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    """Return a table for a terminal; only its first column is folded."""
    from rich.table import Table

    _, *others = (max(map(len, column)) for column in zip(head, *rows, strict=True))
    least = FOLDED + sum(others) + 2 * len(others)
    table = Table(box=None, header_style="bold", pad_edge=False, min_width=least)
    table.add_column(head[0], overflow="fold", min_width=FOLDED)
    for name in head[1:]:
        side: Any = "left" if name == "Largest tensor" else "right"
        table.add_column(name, justify=side, no_wrap=True)
    for row in rows:
        share = next((t for n, t in zip(head, row, strict=True) if n.startswith("Of ")), "") or "1"
        style = "" if float(share) >= 0.8 else "yellow" if float(share) >= 0.4 else "red"
        table.add_row(
            *row, style={"slower": "red", "failed": "red", "faster": "green"}.get(row[-1], style)
        )
    return table


def legend(head: Sequence[str]) -> str:
    """Return what the columns mean."""
    return "\n".join(f"{name}: {MEANING[name]}." for name in head if name in MEANING)


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown; names are code, and figures are aligned at the right."""
    count = 2 if "Largest tensor" in head else 1
    lines = [[*head], [*["---"] * count, *["---:"] * (len(head) - count)]]
    lines += [[*(f"`{text}`" for text in row[:count]), *row[count:]] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def csv_text(rows: Sequence[Row]) -> str:
    """Return one line a cell: what it is, the median seconds of each contender, the shares."""
    contenders = list(dict.fromkeys(name for row in rows for name in row.seconds))
    facts = ["operator", "variant", "family", "data_type", "sizes", "bytes", "operations", "count"]
    head = [*facts, *(f"{c}_seconds" for c in contenders), "of_copy", "of_roof"]
    lines = list[Sequence[Any]]()
    for row in rows:
        times = [f"{row.time(c):.6g}" if c in row.seconds else "" for c in contenders]
        known = [getattr(row, fact) for fact in facts]
        known[4] = "x".join(map(str, row.sizes))
        lines.append([*known, *times, f"{row.share:.4f}", f"{row.of_roof:.4f}"])
    return csv_of([head, *lines])


def csv_of(rows: Iterable[Sequence[Any]]) -> str:
    """Return rows as CSV."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(rows)
    return file.getvalue()


def summary(rows: Sequence[Row]) -> str:
    """Sum up a run: the mean share, the ten worst cells, what fusion gained in a network."""
    if all(row.family == "limits" for row in rows):
        return ""
    programs = [row for row in rows if row.operator == PROGRAM]
    single = [row for row in rows if row.operator != PROGRAM]
    roofline = any(row.peak for row in rows)
    key, limit = ("of_roof", "the roof") if roofline else ("share", "a copy's bandwidth")
    large = [row for row in single if row.bytes >= SMALLEST and getattr(row, key)]
    lines = []
    if large:
        mean = statistics.geometric_mean(getattr(row, key) for row in large)
        which, found = "The lowest", worst(large, key, 10 if roofline else 1)
        if programs:
            which = "Those that lose the most time"
            found = sorted(large, key=lambda r: -r.whole * (1 - getattr(r, key)))[:10]
        lines.append(
            f"Of {limit}, cells of 1 MiB or more reach {mean:.2f} (geometric mean over "
            f"{len(large)}). {which}:"
        )
        lines += [f"  {getattr(row, key):.2f}  {row.name}" for row in found]
    elif not programs:
        lines.append("No cell moves 1 MiB or more: small cells measure the cost of a call.")
    if speeds := [row.speedup for row in rows if row.peers]:
        mean = statistics.geometric_mean(speeds)
        lines.append(f"The fastest peer takes {mean:.2f} times our time (geometric mean).")
    total = sum(row.whole for row in single)
    lines += [
        f"The operators take {shown_time(total)} one by one, the program "
        f"{shown_time(row.time())}: fusion and caches save {1 - row.time() / total:.0%}."
        for row in programs
        if total
    ]
    return "\n".join(lines)


def header(results: Results, name: str) -> str:
    """Return the lines above the table: the device, the versions, the copies and products."""
    rows, known = [*results.rows.values()], results.environment
    single = [row for row in rows if row.family != "program"]  # a program has several types
    rates, tops = by_type(rows, "copy").items(), by_type(single or rows, "peak").items()
    lines = [
        f"{name}, {known.get('cpu', '')}, jax {known.get('jax', '')}",
        "The device says that it is throttled." if known.get("throttled") else "",
        ", ".join(f"copy {shown(rate)} GB/s ({n})" for n, rate in rates),
        ", ".join(f"product {shown(rate, 4)} GFLOP/s ({n})" for n, rate in tops),
    ]
    return "\n".join(filter(None, lines))


# Charts.


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

"""Rows as tables of text, Markdown and CSV, and as charts."""

import csv
import io
import itertools
import statistics
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dml_jax.bench.networks import PROGRAM
from dml_jax.bench.rows import Results, Row, copies, peaks, worst
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
    "MiB": "bytes that must move, each element once",
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
    fastest = copies(rows, max)
    return "\n".join(
        f"The {name} copy varied from {shown(low)} to {shown(high)} GB/s: the machine is busy."
        for (name, low), high in zip(copies(rows, min).items(), fastest.values(), strict=True)
        if high > BUSY * low
    )


def columns(rows: Sequence[Row], verbose: bool = False) -> list[str]:
    """Return the columns that the rows fill."""
    roofline = any(row.peak for row in rows)
    counted = any(row.count > 1 for row in rows) or any(r.operator == PROGRAM for r in rows)
    limits = all(row.family == "limits" for row in rows)
    peers = list(dict.fromkeys(peer for row in rows for peer in row.peers))
    found = ["MiB", *["FLOP/B"] * (roofline and not peers), "Time"]
    found += ["Allocated"] * (verbose and any("allocated" in row.seconds for row in rows))
    found += ["GFLOP/s"] if roofline else ["GB/s", "GFLOP/s"] if limits else ["GB/s"]
    found += ["Of roof"] if roofline else [] if limits else [*["Copy"] * (not peers), "Of copy"]
    return [*found, *["Count", "Share"] * counted, *peers, *["Fastest"] * bool(peers)]


def cells_of(row: Row, names: Sequence[str], total: float) -> list[str]:
    """Return the text of a row in some columns; `total` is the time that all operators take."""
    values = {
        "MiB": lambda: shown(row.bytes / MIB),
        "FLOP/B": lambda: shown(row.intensity),
        "Time": lambda: f"{shown_time(row.time())} ±{row.noise:4.0%}",
        "Allocated": lambda: (
            shown_time(row.time("allocated")) if "allocated" in row.seconds else ""
        ),
        "GB/s": lambda: "" if row.operator in ("launch", "product") else shown(row.rate / 1e9),
        "GFLOP/s": lambda: shown(row.operations / row.time() / 1e9) if row.operations else "",
        "Copy": lambda: shown(row.copy / 1e9),
        "Of copy": lambda: f"{row.share:.2f}",
        "Of roof": lambda: f"{row.of_roof:.2f}" if row.of_roof else "",
        "Count": lambda: str(row.count),
        "Share": lambda: "" if row.operator == PROGRAM else f"{row.count * row.time() / total:.1%}",
        "Fastest": lambda: f"{row.speedup:.2f}" if row.peers else "",
    }
    return [
        values[n]() if n in values else shown_time(row.time(n)) if n in row.seconds else ""
        for n in names
    ]


def tabled(rows: Sequence[Row], verbose: bool = False) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of the table; of a network the slowest operators first."""
    names = columns(rows, verbose)
    if "Share" in names:
        rows = sorted(rows, key=lambda row: -row.count * row.time())
    total = sum(row.count * row.time() for row in rows if row.operator != PROGRAM) or 1.0
    texts = [[row.label, row.tensor, *cells_of(row, names, total)] for row in rows]
    if "Share" in names:  # the label has the sizes
        return ["Operator", *names], [[text[0], *text[2:]] for text in texts]
    return ["Operator", "Largest tensor", *names], texts


def rich_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    """Return a table for a terminal; only its first column is folded."""
    from rich.table import Table

    _, *others = (max(map(len, column)) for column in zip(head, *rows, strict=True))
    least = FOLDED + sum(others) + 2 * len(others)
    table = Table(box=None, header_style="bold", pad_edge=False, min_width=least)
    for number, name in enumerate(head):
        left = name in ("Operator", "Largest tensor", "Cell")
        table.add_column(
            name,
            justify="left" if left else "right",
            no_wrap=number > 0,
            overflow="fold",
            min_width=FOLDED if number == 0 else None,
        )
    for row in rows:
        share = next((t for n, t in zip(head, row, strict=True) if n.startswith("Of ")), "1")
        value = float(share or 1)
        style = "" if value >= 0.8 else "yellow" if value >= 0.4 else "red"
        style = {"slower": "red", "faster": "green"}.get(row[-1], style)
        table.add_row(*row, style=style)
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
            found = sorted(large, key=lambda r: -r.count * r.time() * (1 - getattr(r, key)))[:10]
        lines.append(
            f"Of {limit}, cells of 1 MiB or more reach {mean:.2f} (geometric mean over "
            f"{len(large)}). {which}:"
        )
        lines += [f"  {getattr(row, key):.2f}  {row.name}" for row in found]
    elif not programs:
        lines.append("No cell moves 1 MiB or more: small cells measure the cost of a call.")
    speeds = [row.speedup for row in rows if row.peers]
    if speeds:
        mean = statistics.geometric_mean(speeds)
        lines.append(f"The fastest peer takes {mean:.2f} times our time (geometric mean).")
    for row in programs if single else ():
        total = sum(r.count * r.time() for r in single)
        lines.append(
            f"The operators take {shown_time(total)} one by one, the program "
            f"{shown_time(row.time())}: fusion and caches save {1 - row.time() / total:.0%}."
        )
    return "\n".join(lines)


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
    limits = [row for row in rows if row.family == "limits"]
    if limits:
        _draw_limits(figure, limits)
    elif any(row.peak for row in rows):
        _draw_roofline(figure, rows)
    else:
        _draw_shares(figure, rows, verbose)
    figure.suptitle(title, fontsize=10)
    return figure


def _draw_shares(figure: Any, rows: Sequence[Row], verbose: bool) -> None:
    """Draw a dot for each cell at the share that its table says, a row for each label."""
    known = [row for row in rows if row.share]
    drawn = [row for row in known if verbose or row.bytes >= SMALLEST] or known
    labels, rates = list(dict.fromkeys(row.label for row in drawn)), copies(rows)
    figure.set_size_inches(10, 1.6 + 0.26 * len(labels))
    axes = figure.subplots()
    seen: set[str] = set()
    for row in drawn:
        name = row.data_type
        words = f"{name}: copy {shown(rates[name])} GB/s" if name not in seen else None
        seen.add(name)
        look = {"s": 28, "color": COLOURS[name], "alpha": 0.8, "label": words}
        axes.scatter(row.share, labels.index(row.label), gid=row.name, **look)
    axes.axvline(1, color="#444444", lw=1)
    most = max([1.2, *(1.05 * row.share for row in drawn)])
    axes.set(xlabel="share of the copy's bandwidth", xlim=(0, most))
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_yticks(range(len(labels)), [n.replace("$", r"\$") for n in labels], fontsize=8)
    axes.grid(axis="x", lw=0.3)
    if drawn:
        figure.legend(loc="outside lower center", ncols=3, fontsize=8)


def _draw_roofline(figure: Any, rows: Sequence[Row]) -> None:
    """Draw the roof of each type, and a dot for each cell with arithmetic.

    The roof rises with the copy's bandwidth up to the ridge, and is flat at the product's rate.
    """
    from matplotlib.ticker import FuncFormatter

    axes = figure.subplots()
    drawn = [row for row in rows if row.operations and row.operator != PROGRAM]
    rates, top = copies(rows), peaks(rows)
    ends = [row.intensity for row in drawn] + [top[n] / rates[n] for n in top if n in rates]
    low, high = min(ends, default=1) / 3, max(ends, default=1) * 3
    for name, rate in rates.items():
        words, points = f"{name}: copy {shown(rate)} GB/s", [low, high]
        if name in top:
            ridge = top[name] / rate
            words += f", product {shown(top[name])} GFLOP/s, ridge {shown(ridge)} FLOP/B"
            points = [low, ridge, high]
        elif top:  # no roof is known beyond
            points = [low, min(high, max(low, max(top.values()) / rate))]
        roof = [min(x * rate, top.get(name, float("inf"))) for x in points]
        axes.plot(points, roof, color=COLOURS[name], label=words)
    places = {row.name: (row.intensity, row.operations / row.time() / 1e9) for row in drawn}
    for row in drawn:
        look = {"s": 22, "color": COLOURS[row.data_type], "alpha": 0.7, "zorder": 3}
        axes.scatter(*places[row.name], gid=row.name, **look)
    axes.set(xscale="log", yscale="log", xlim=(low, high))
    axes.set(xlabel="operations for each byte that must move", ylabel="GFLOP/s")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.10g}"))
    axes.grid(which="major", lw=0.3)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8)
    lowest = worst(drawn, "of_roof", NAMED)
    _name_dots(figure, axes, [(row.label, places[row.name]) for row in lowest])


def _name_dots(figure: Any, axes: Any, named: Sequence[tuple[str, Any]]) -> None:
    """Write names beside their dots: each at the nearest place without a dot, a line or a name."""
    from matplotlib.textpath import TextPath

    figure.draw_without_rendering()  # places the axes

    def points(places: Any) -> Any:
        return axes.transData.transform(places) * 72 / figure.dpi

    marks = [points(dots.get_offsets()) for dots in axes.collections]
    for line in axes.lines:
        ends = itertools.pairwise(points(line.get_xydata()))
        marks += [np.linspace(*pair, num=200) for pair in ends]
    taken = np.hstack([np.concatenate(marks) - 3, np.concatenate(marks) + 3])
    inside = axes.bbox.extents * 72 / figure.dpi + np.array([4, 4, -4, -4])
    every = itertools.product((0, 8, 20, 40, 80, 120, 160), range(-160, 161, 4), (True, False))
    shifts = sorted(every, key=lambda shift: shift[0] + abs(shift[1]))
    for name, place in named:
        text = textwrap.shorten(name, 44, placeholder="").replace("$", r"\$")
        size = np.array([TextPath((0, 0), text, size=7).get_extents().width, 7])
        at = points(place)
        for away, rise, is_right in shifts:
            beside = 6 + away if is_right else -6 - away - size[0]
            start = at + np.array([beside, rise - 3])
            box = np.concatenate([start, start + size])
            within = (box[:2] > inside[:2]).all() and (box[2:] < inside[2:]).all()
            apart = (taken[:, :2] > box[2:]) | (taken[:, 2:] < box[:2])
            if within and apart.any(1).all():
                break
        else:
            continue
        taken = np.vstack([taken, box])
        line = {"arrowstyle": "-", "lw": 0.4, "shrinkA": 0, "shrinkB": 2}
        line |= {"relpos": (0.0 if is_right else 1.0, 0.5)}
        options = {"textcoords": "offset points", "fontsize": 7}
        options |= {"arrowprops": line} if away or rise else {}
        axes.annotate(text, place, tuple(start - at), **options)


def _draw_limits(figure: Any, rows: Sequence[Row]) -> None:
    """Draw the rates of memory and of products as bars, and caches and collectives as curves."""
    places = figure.subplot_mosaic([["left", "top"], *[["left", "below"]] * 2])
    of_memory = [row for row in rows if row.operator in ("copy", "read", "write", "add")]
    products = [row for row in rows if row.operator == "product"]
    _draw_bars(places["left"], "Memory, GB/s", of_memory, lambda row: row.rate)
    work = lambda row: row.operations / row.time()  # noqa: E731
    _draw_bars(places["top"], "Products of matrices, GFLOP/s", products, work)
    axes, sizes = places["below"], set[float]()
    for kind in ("cache", "all-reduce", "all-gather"):
        found = [(row, float(row.variant.split(" ")[0])) for row in rows if row.operator == kind]
        if not found:
            continue
        rates = [row.rate / 1e9 for row, _ in found]
        (line,) = axes.plot([kib for _, kib in found], rates, label=kind)
        for row, kib in found:
            axes.scatter(kib, row.rate / 1e9, s=16, color=line.get_color(), gid=row.name)
        sizes |= {kib for _, kib in found}
    axes.set(xscale="log", ylim=(0, None))
    axes.set_title("GB/s, by the size of the array", fontsize=9)
    ticks = sorted(sizes)[::2]
    words = [f"{n / 1024:g} MiB" if n >= 1024 else f"{n:g} KiB" for n in ticks]
    axes.set_xticks(ticks, words, fontsize=7)
    axes.minorticks_off()
    axes.grid(lw=0.3)
    if sizes:
        axes.legend(fontsize=7)


def _draw_bars(axes: Any, title: str, rows: Sequence[Row], rate: Callable[[Row], float]) -> None:
    """Draw a bar with its number for each row."""
    values = [rate(row) / 1e9 for row in rows]
    bars = axes.barh(range(len(rows)), values, color=[COLOURS[row.variant] for row in rows])
    for bar, row in zip(bars, rows, strict=True):
        bar.set_gid(row.name)
    axes.bar_label(bars, list(map(shown, values)), padding=3, fontsize=7)
    axes.set_yticks(range(len(rows)), [row.label for row in rows], fontsize=7)
    axes.set_xlim(0, 1.15 * max(values, default=1))
    axes.set_title(title, fontsize=9)
    axes.invert_yaxis()


def header(results: Results, name: str) -> str:
    """Return the lines above the table: the device, the versions, the copies and products."""
    rows, known = [*results.rows.values()], results.environment
    lines = [f"{name}, {known.get('cpu', '')}, jax {known.get('jax', '')}"]
    rates = ", ".join(f"copy {shown(rate)} GB/s ({n})" for n, rate in copies(rows).items())
    tops = ", ".join(f"product {shown(rate, 4)} GFLOP/s ({n})" for n, rate in peaks(rows).items())
    if known.get("throttled"):
        lines.append("The device says that it is throttled.")
    return "\n".join(filter(None, [*lines, rates, tops]))

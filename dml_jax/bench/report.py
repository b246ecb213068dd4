"""Measurements as a table of at most 100 columns, a summary, and a bandwidth chart."""

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dml_jax.bench.cells import MIB
from dml_jax.bench.measure import Measured
from dml_jax.show.figures import check_picture, save_picture

COLUMNS = 100
SMALLEST = MIB  # bytes from which a cell counts: small ones measure the cost of a call
BUSY = 1.2  # the fastest copy, over the slowest, from which the machine is called busy
COLOURS: Mapping[str, str] = defaultdict(
    lambda: "#7f7f7f", FLOAT32="#1f77b4", FLOAT16="#ff7f0e", INT32="#2ca02c", UINT8="#d62728"
)

LEGEND = """\
MiB: bytes that must move, each element once. Time: median of calls that write into donated memory,
± half the quartile distance. Copy: GB/s of a plain copy, timed in turn. Of copy: GB/s / Copy."""
ALLOCATED = "Allocated: time of calls that make their outputs, on a CPU in new pages of memory."


def shown(value: float, digits: int = 3) -> str:
    """Return `value` with so many significant digits, without an exponent: `44,300`."""
    return f"{float(f'{value:.{digits}g}'):,.15g}"


def copies(measured: Sequence[Measured], of: Any = statistics.median) -> dict[str, float]:
    """Return the GB/s of a plain copy of each type: the median over the cells, or their `of`."""
    rates: dict[str, list[float]] = {}
    for m in measured:
        rates.setdefault(m.cell.tensor.data_type.name, []).append(m.copy / 1e9)
    return {name: round(of(found), 2) for name, found in rates.items()}


def busy(measured: Sequence[Measured]) -> str:
    """Return a line for each type whose copies differ in speed, "" if none does."""
    fastest = copies(measured, max)
    return "\n".join(
        f"The {name} copy varied from {shown(low)} to {shown(high)} GB/s: the machine is busy."
        for (name, low), high in zip(copies(measured, min).items(), fastest.values(), strict=True)
        if high > BUSY * low
    )


def cell_table(
    measured: Sequence[Measured], allocated: bool = False, roofline: bool = False
) -> Any:
    """Return a row for each cell.

    Args:
        measured: the cells.
        allocated: whether to show the time of calls that allocate.
        roofline: whether to show arithmetic, and the share of the roof in place of the copy's.
    """
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("Operator", overflow="fold")
    table.add_column("Largest tensor", no_wrap=True)
    columns = ["MiB", *["FLOP/B"] * roofline, "Time", *["Allocated"] * allocated]
    columns += ["GFLOP/s", "Of roof"] if roofline else ["GB/s", "Copy", "Of copy"]
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for m in measured:
        time = m.times["donated"]
        spread = (time.high - time.low) / 2 / time.median
        share = m.of_roof() if roofline else m.share()
        table.add_row(
            m.cell.label,
            m.cell.tensor.shown(),
            shown(m.cell.bytes / MIB),
            *([shown(m.intensity)] if roofline else []),
            f"{shown_time(time.median)} ±{spread:4.0%}",
            *([shown_time(m.times["allocated"].median)] if allocated else []),
            shown((m.operations / time.median if roofline else m.rate()) / 1e9),
            *([] if roofline else [shown(m.copy / 1e9)]),
            f"{share:.2f}",
            style="" if share >= 0.8 else "yellow" if share >= 0.4 else "red",
        )
    return table


def shown_time(seconds: float) -> str:
    """Show a time with three digits, in us or ms."""
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


def summary(measured: Sequence[Measured], roofline: bool = False) -> str:
    """Sum up the cells of at least `SMALLEST` bytes: the geometric mean, and the lowest."""
    large = [m for m in measured if m.cell.bytes >= SMALLEST]
    shares = {m.cell.name: m.of_roof() if roofline else m.share() for m in large}
    if not shares:
        return "No cell moves 1 MiB or more: small cells measure the cost of a call."
    lowest = min(shares, key=shares.__getitem__)
    mean = statistics.geometric_mean(shares.values())
    limit = "the roof" if roofline else "a copy's bandwidth"
    return (
        f"Of {limit}, cells of 1 MiB or more reach {mean:.2f} (geometric mean over "
        f"{len(shares)}).\nThe lowest: {shares[lowest]:.2f}, {lowest}"
    )


def draw(title: str, measured: Sequence[Measured], target: Path, every: bool = False) -> None:
    """Write the bandwidth chart as a .svg or .png file. Raises `DmlError` where it cannot.

    A line shows the copy of each type. Each cell is a dot, in the row of its operator and variant,
    as far along the line's GB/s as its share says: the copy beside it may have had another speed.
    With `every` there are also cells below `SMALLEST`, and hollow dots of calls that allocate.
    """
    check_picture(target)
    from matplotlib.figure import Figure

    drawn = [m for m in measured if every or m.cell.bytes >= SMALLEST]
    rates, labels = copies(measured), list(dict.fromkeys(m.cell.label for m in drawn))
    height = 1.6 + 0.26 * (len(labels) + len(rates))
    figure = Figure(figsize=(10, height), layout="constrained")
    axes = figure.subplots()
    fastest = max(rates.values(), default=1)
    for m in drawn:
        name, row = m.cell.tensor.data_type.name, labels.index(m.cell.label)
        for way in m.times if every else ["donated"]:
            fill, place = COLOURS[name] if way == "donated" else "none", m.share(way) * rates[name]
            fastest = max(fastest, place)
            dot = {"facecolor": fill, "edgecolor": COLOURS[name], "alpha": 0.8, "zorder": 3}
            axes.scatter(place, row, s=28, **dot)
    # Each line has its words in a row of its own, above the operators.
    for row, (name, rate) in enumerate(rates.items(), -len(rates)):
        words = {"color": COLOURS[name], "va": "center", "fontsize": 8, "backgroundcolor": "white"}
        axes.axvline(rate, color=COLOURS[name], lw=1.2)
        side = "right" if rate > fastest / 3 else "left"
        axes.text(rate, row, f"  {name}: copy {shown(rate)} GB/s  ", ha=side, **words)
    axes.set(
        title=title,
        xlabel=f"GB/s (Of copy, times the GB/s of the line){'; hollow: allocated' * every}",
        xlim=(0, 1.05 * fastest),
        ylim=(len(labels) - 0.5, -len(rates) - 0.5),
    )
    axes.set_yticks(range(len(labels)), [n.replace("$", r"\$") for n in labels], fontsize=8)
    axes.grid(axis="x", lw=0.3)
    save_picture(figure, target)

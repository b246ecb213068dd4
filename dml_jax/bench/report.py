"""Rows as a table, in text, Markdown and CSV, and what there is to say of them."""

import csv
import io
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dml_jax.bench.network_cells import PROGRAM
from dml_jax.bench.rows import Results, Row, by_type, worst

FOLDED = 16  # letters of names that a line has at least
MIB = 2**20
SMALLEST = MIB  # bytes from which a cell counts: small ones measure the cost of a call
BUSY = 1.2  # the fastest copy, over the slowest, from which the machine is called busy
VERDICT_STYLES = {"slower": "red", "failed": "red", "faster": "green"}  # of a comparison
MEANING = {
    "MiB": "bytes that must move: each element that is read or written, once",
    "FLOP/B": "operations for each of these bytes",
    "Time": "median of calls, ± half the quartile distance",
    "Of copy": "GB/s, as a part of a plain copy's that was timed in turn",
    "Of roof": "the shortest time that the copy's or the product's rate allows, over Time",
    "Share": "the part of the sum over all operators, each times its count",
    "Fastest": "the fastest other library's time, over ours",
}


@dataclass(frozen=True)
class Table:
    """A table of texts: its head, and its rows, whose first cell is a name."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def rich(self) -> Any:
        """Return the table for a terminal; only its first column is folded."""
        from rich.table import Table as RichTable

        _, *others = (max(map(len, column)) for column in zip(self.head, *self.rows, strict=True))
        least = FOLDED + sum(others) + 2 * len(others)
        table = RichTable(box=None, header_style="bold", pad_edge=False, min_width=least)
        table.add_column(self.head[0], overflow="fold", min_width=FOLDED)
        for name in self.head[1:]:
            side: Any = "left" if name == "Largest tensor" else "right"
            table.add_column(name, justify=side, no_wrap=True)
        share = next((k for k, name in enumerate(self.head) if name.startswith("Of ")), None)
        for row in self.rows:
            reached = float(row[share] or 1) if share else 1.0
            style = "" if reached >= 0.8 else "yellow" if reached >= 0.4 else "red"
            table.add_row(*row, style=VERDICT_STYLES.get(row[-1], style))
        return table

    def markdown(self) -> str:
        """Return the table in Markdown; names are code, and figures are aligned at the right."""
        count = 2 if "Largest tensor" in self.head else 1
        lines = [[*self.head], [*["---"] * count, *["---:"] * (len(self.head) - count)]]
        lines += [[*(f"`{text}`" for text in row[:count]), *row[count:]] for row in self.rows]
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)

    def csv(self) -> str:
        """Return the table as CSV."""
        file = io.StringIO()
        csv.writer(file, lineterminator="\n").writerows([self.head, *self.rows])
        return file.getvalue()

    def legend(self) -> str:
        """Return what the columns mean."""
        return "\n".join(f"{name}: {MEANING[name]}." for name in self.head if name in MEANING)


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


def table_of(rows: Sequence[Row], verbose: bool = False) -> Table:
    """Return the table of a run for people; of a network the slowest operators first."""
    roofline, limits = any(r.peak for r in rows), all(r.family == "limits" for r in rows)
    counted = any(r.count > 1 or r.operator == PROGRAM for r in rows)
    peers = list(dict.fromkeys(peer for r in rows for peer in r.peers))
    allocated = verbose and any("allocated" in r.seconds for r in rows)
    total = sum(r.whole for r in rows if r.operator != PROGRAM) or 1.0

    def own_time(row: Row) -> str:
        return f"{shown_time(row.time())} ±{statistics.median(row.spread[row.way]):4.0%}"

    def time_of(name: str) -> Callable[[Row], str]:
        return lambda r: shown_time(r.time(name)) if name in r.seconds else ""

    columns: list[tuple[str, Any, Callable[[Row], str]]] = [
        ("Operator", True, _label),
        ("Largest tensor", not counted, _tensor),  # the label of a network's has sizes
        ("MiB", True, lambda r: shown(r.bytes / MIB)),
        ("FLOP/B", roofline and not peers, lambda r: shown(r.intensity)),
        ("Time", True, own_time),
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
    return Table(names, [[text(row) for text in texts] for row in ordered])


def _tensor(row: Row) -> str:
    return f"{row.data_type}[{','.join(map(str, row.sizes))}]"


def _label(row: Row) -> str:
    """Return the label, and the first of the nodes of a network that the cell stands for."""
    more = f" +{len(row.nodes) - 1}" if len(row.nodes) > 1 else ""
    return f"{row.label} {row.nodes[0]}{more}" if row.nodes else row.label


def figures_of(rows: Sequence[Row]) -> Table:
    """Return the table of a run for programs: the median seconds of each contender, the shares."""
    contenders = list(dict.fromkeys(name for row in rows for name in row.seconds))
    facts = ["operator", "variant", "family", "data_type", "sizes", "bytes", "operations", "count"]
    head = [*facts, *(f"{c}_seconds" for c in contenders), "of_copy", "of_roof"]
    lines = list[Sequence[Any]]()
    for row in rows:
        times = [f"{row.time(c):.6g}" if c in row.seconds else "" for c in contenders]
        known = [getattr(row, fact) for fact in facts]
        known[4] = "x".join(map(str, row.sizes))
        lines.append([*known, *times, f"{row.share:.4f}", f"{row.of_roof:.4f}"])
    return Table(head, lines)


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


def differences(rows: Sequence[Row], peers: Sequence[str]) -> list[str]:
    """Return how answers of peers differ from ours, five at most, and which computed no cell."""
    said = sorted({(peer, text) for row in rows for peer, text in row.differs.items()})[:5]
    computed = {name for row in rows for name in (*row.peers, *row.differs)}
    lines = [f"{peer}: {text}" for peer, text in said]
    return lines + [
        f"{peer} computes none of these cells." for peer in peers if peer not in computed
    ]


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

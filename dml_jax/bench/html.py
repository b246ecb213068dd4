"""A run as one HTML file: a chart whose dots say their cell, and a table that sorts by a click."""

import html
import json
import math
from collections.abc import Sequence
from typing import Any

from dml_jax.bench.report import COLOURS, header, legend, shown, shown_time, summary, tabled
from dml_jax.bench.rows import Results, Row, copies, peaks

WIDTH, HEIGHT, EDGE = 900, 420, 60

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<link rel="icon" href="data:,">
<style>
body {{ font: 14px system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em }}
table {{ border-collapse: collapse; width: 100% }}
th {{ cursor: pointer; text-align: right; border-bottom: 1px solid #888; white-space: nowrap }}
td {{ text-align: right; padding: 2px 8px; font-variant-numeric: tabular-nums }}
th:first-child, td:first-child {{ text-align: left }}
td:nth-child(n+3) {{ white-space: nowrap }}
tr:hover {{ background: #8882 }} circle:hover {{ stroke: currentColor; stroke-width: 2 }}
svg {{ width: 100%; height: auto }} text {{ font-size: 11px; fill: currentColor }}
pre {{ white-space: pre-wrap }} :root {{ color-scheme: light dark }}
</style></head><body>
<h1>dml-jax bench</h1><pre>{head}</pre>
{chart}
<table><thead><tr>{names}</tr></thead><tbody>
{rows}
</tbody></table>
<pre>{legend}

{summary}</pre>
<details><summary>Environment and options</summary><pre>{known}</pre></details>
<script>
document.querySelectorAll("th").forEach((th, k) => th.addEventListener("click", () => {{
  const body = document.querySelector("tbody");
  const down = th.dataset.down = th.dataset.down === "1" ? "0" : "1";
  const key = row => row.cells[k].dataset.value ?? row.cells[k].textContent;
  const order = (a, b) => {{
    const [x, y] = [key(a), key(b)];
    return (isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y) * (down === "1" ? -1 : 1);
  }};
  [...body.rows].sort(order).forEach(row => body.append(row));
}}));
</script></body></html>
"""


def page(results: Results, title: str, verbose: bool = False) -> str:
    """Return the page of a run."""
    rows = [*results.rows.values()]
    head, texts = tabled(rows, verbose)
    known = {"environment": results.environment, "options": results.options}
    return PAGE.format(
        title=html.escape(title),
        head=html.escape(header(results, title)),
        chart=_chart(rows),
        names="".join(f"<th>{html.escape(name)}</th>" for name in head),
        rows="\n".join(f"<tr>{''.join(map(_td, text))}</tr>" for text in texts),
        legend=html.escape(legend(head)),
        summary=html.escape(summary(rows)),
        known=html.escape(json.dumps(known, indent=1)),
    )


def _td(text: str) -> str:
    """Return a cell of the table, with the number by which it is sorted."""
    number = text.split(" ")[0].replace(",", "").rstrip("%")
    factor = {"s": 1.0, "ms": 1e-3, "us": 1e-6}.get(text.partition(" ")[2].partition(" ")[0], 1.0)
    try:
        value = f' data-value="{float(number) * factor}"'
    except ValueError:
        value = ""
    return f"<td{value}>{html.escape(text)}</td>"


def _chart(rows: Sequence[Row]) -> str:
    """Return the chart as SVG: a roofline, or GB/s over the bytes that must move."""
    top, rates = peaks(rows), copies(rows)
    is_roofline = bool(top)
    drawn = [row for row in rows if row.operations or not is_roofline]

    def place(row: Row) -> tuple[float, float]:
        if is_roofline:
            return row.intensity, row.operations / row.time() / 1e9
        return row.bytes / 2**20, row.rate / 1e9

    points = {row.name: place(row) for row in drawn if row.bytes}
    if not points:
        return ""
    xs, ys = zip(*points.values(), strict=True)
    tops = [*top.values()] if is_roofline else [*rates.values()]
    x = _scale(min(xs) / 2, max(xs) * 2, EDGE, WIDTH - 10)
    y = _scale(min([*ys, *tops]) / 2, max([*ys, *tops]) * 2, HEIGHT - EDGE / 2, 10)
    parts = [*_axis(x, is_x=True), *_axis(y, is_x=False)]
    low, high = min(xs) / 2, max(xs) * 2
    for name, rate in rates.items():
        level = top.get(name, max(tops)) if is_roofline else rate
        corners = [(low, min(low * rate, level))] if is_roofline else [(low, level)]
        corners += [(min(max(level / rate, low), high), level)] if is_roofline else []
        corners += [(high, level)] if name in top or not is_roofline else []
        line = " ".join(f"{x.at(a):.1f},{y.at(b):.1f}" for a, b in corners)
        words = f"{name}: copy {shown(rate)} GB/s"
        words += f", product {shown(top[name])} GFLOP/s" if name in top else ""
        parts.append(
            f'<polyline points="{line}" fill="none" stroke="{COLOURS[name]}" stroke-width="2">'
            f"<title>{html.escape(words)}</title></polyline>"
        )
    for row in drawn:
        if row.name in points:
            a, b = points[row.name]
            share = (
                f"{row.of_roof:.2f} of the roof" if is_roofline else f"{row.share:.2f} of the copy"
            )
            words = html.escape(f"{row.name}\n{shown_time(row.time())}, {share}")
            parts.append(
                f'<circle cx="{x.at(a):.1f}" cy="{y.at(b):.1f}" r="5" fill-opacity="0.7" '
                f'fill="{COLOURS[row.data_type]}"><title>{words}</title></circle>'
            )
    names = ("operations a byte", "GFLOP/s") if is_roofline else ("MiB that must move", "GB/s")
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT}">{names[0]}</text>')
    parts.append(f'<text x="4" y="12">{names[1]}</text>')
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT + 6}">{"".join(parts)}</svg>'


class _scale:  # noqa: N801  (a function that keeps its ends)
    """A logarithmic scale from values to places."""

    def __init__(self, low: float, high: float, start: float, end: float):
        self.low, self.high, self.start, self.end = low, high, start, end

    def at(self, value: float) -> float:
        """Return the place of a value."""
        whole = math.log(self.high / self.low)
        return self.start + (self.end - self.start) * math.log(value / self.low) / whole


def _axis(scale: _scale, is_x: bool) -> list[str]:
    """Return a line and a number for each power of ten."""
    found: list[Any] = []
    powers = range(math.ceil(math.log10(scale.low)), math.floor(math.log10(scale.high)) + 1)
    for value in (10.0**k for k in powers):
        at = scale.at(value)
        ends = (at, 10, at, HEIGHT - EDGE / 2) if is_x else (EDGE, at, WIDTH - 10, at)
        x, y = (at, HEIGHT - 14) if is_x else (EDGE - 6, at + 4)
        found.append(
            '<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="#8885"/>'.format(*ends)
        )
        anchor = "middle" if is_x else "end"
        found.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{value:,.10g}</text>')
    return found

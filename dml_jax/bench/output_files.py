"""The files of a run and of a comparison; the end of a name says the format.

A run as .html is a chart whose dots say their cell, and a table that sorts by a click.
"""

import html
import io
import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from dml_jax.bench import charts, report
from dml_jax.bench.compare import Verdict
from dml_jax.bench.compare import table_of as comparison
from dml_jax.bench.rows import Results
from dml_jax.show.figures import PICTURES, check_picture, write_picture
from dml_jax.system.files import check_writable, write_whole

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<link rel="icon" href="data:,">
<style>
body {{ font: 14px system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em }}
table {{ border-collapse: collapse; width: 100% }}
th {{ cursor: pointer; text-align: right; border-bottom: 1px solid #888; white-space: nowrap }}
td {{ text-align: right; padding: 2px 8px; font-variant-numeric: tabular-nums }}
th:first-child, td:first-child {{ text-align: left }}
td:nth-child(n+3) {{ white-space: nowrap }}
tr:hover {{ background: #8882 }} g[data-cell]:hover * {{ stroke: #000 !important }}
svg {{ width: 100%; height: auto }}
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
  const body = document.querySelector("tbody"), units = {{ms: 1e-3, us: 1e-6}};
  const down = th.dataset.down = th.dataset.down === "1" ? "0" : "1";
  const key = row => {{
    const text = row.cells[k].textContent, words = text.replaceAll(",", "").split(" ");
    return text && parseFloat(words[0]) * (units[words[1]] ?? 1) || text;
  }};
  const order = (a, b) => {{
    const [x, y] = [key(a), key(b)];
    return (isNaN(x - y) ? `${{x}}`.localeCompare(y) : x - y) * (down === "1" ? -1 : 1);
  }};
  [...body.rows].sort(order).forEach(row => body.append(row));
}}));
</script></body></html>
"""


def check_target(target: Path) -> None:
    """Raise `DmlError` before anything is measured if a file cannot be written."""
    if target.suffix.lower() in (*PICTURES, ".html"):
        check_picture(target.with_suffix(".svg"))
    check_writable(target)


def write(target: Path, results: Results, title: str, verbose: bool) -> None:
    """Write a run as a table, a chart or a page with a `title`, or else as JSON.

    `verbose` also shows small cells and the time of allocating calls. Raises `DmlError`.
    """
    rows = [*results.rows.values()]
    match target.suffix.lower():
        case ".svg" | ".png":
            charts.draw(title, rows, target, verbose)
        case ".csv":
            write_text(target, report.figures_of(rows).csv())
        case ".md":
            write_text(target, report.table_of(rows, verbose).markdown())
        case ".html":
            write_text(target, page(results, title, verbose))
        case _:
            results.save(target)


def comparison_as(kind: str, verdicts: Sequence[Verdict]) -> str:
    """Return a comparison in the format of `kind`: .md, .csv, or else JSON."""
    match kind.lower():
        case ".md":
            return comparison(verdicts).markdown()
        case ".csv":
            return comparison(verdicts).csv()
    return json.dumps([asdict(verdict) for verdict in verdicts], indent=1) + "\n"


def write_text(target: Path, text: str) -> None:
    """Write a text whole or not at all. Raises `DmlError`."""
    write_whole(target, lambda file: file.write(text.encode()))


def page(results: Results, title: str, verbose: bool = False) -> str:
    """Return a run as a page in HTML."""
    rows = [*results.rows.values()]
    table = report.table_of(rows, verbose)
    known = {"environment": results.environment, "options": results.options}
    return _PAGE.format(
        title=html.escape(title),
        head=html.escape("\n".join([title, *report.header(results, "").splitlines()[1:]])),
        chart=_chart(results, verbose),
        names=_cells("th", table.head),
        rows="\n".join(f"<tr>{_cells('td', text)}</tr>" for text in table.rows),
        legend=html.escape(table.legend()),
        summary=html.escape(report.summary(rows)),
        known=html.escape(json.dumps(known, indent=1)),
    )


def _cells(kind: str, texts: Sequence[str]) -> str:
    return "".join(f"<{kind}>{html.escape(text)}</{kind}>" for text in texts)


def _chart(results: Results, verbose: bool) -> str:
    """Return the chart as SVG within a page, whose marks say their cells under the pointer."""
    file = io.BytesIO()
    write_picture(charts.chart("", [*results.rows.values()], verbose), file, "svg")
    _, start, body = file.getvalue().decode().partition("<svg")
    body = re.sub(r"<metadata>.*?</metadata>", "", body, count=1, flags=re.DOTALL)

    def title_of_cell(group: re.Match[str]) -> str:
        row = results.rows.get(html.unescape(group[1]))
        if row is None:
            return group[0]
        share = f"{row.of_roof:.2f} of the roof" if row.peak else f"{row.share:.2f} of the copy"
        words = f"{row.name}\n{report.shown_time(row.time())}" + f", {share}" * (row.copy_bytes > 0)
        return f"<g data-cell><title>{html.escape(words)}</title>"

    body = re.sub(r'<g id="([^"]*)">', title_of_cell, body)
    return start + re.sub(r' xmlns(:\w+)?="[^"]*"', "", body)

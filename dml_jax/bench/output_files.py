"""The files of a run and of a comparison; the end of a name says the format."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from dml_jax.bench import charts, html
from dml_jax.bench.compare import Verdict
from dml_jax.bench.compare import table_of as comparison
from dml_jax.bench.report import figures_of, table_of
from dml_jax.bench.rows import Results
from dml_jax.show.figures import check_picture
from dml_jax.system.files import check_writable, write_whole

PICTURES = (".svg", ".png")


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
            write_text(target, figures_of(rows).csv())
        case ".md":
            write_text(target, table_of(rows, verbose).markdown())
        case ".html":
            write_text(target, html.page(results, title, verbose))
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

"""Compares two runs: which cells are faster, slower, the same, or undecided.

A run has the median of each of its processes. Between two runs the machine may have changed, so a
cell counts as changed only if two measures agree: the logarithm of its time, and that of its time
over the copy's of the same process. Each has a t interval of the difference of the runs' means,
widened by half of what the copies of both runs differ by. On a CPU a second pair is the same of
the seconds of all cores, which other programs disturb less. The level of a pair is 1%, divided by
the number of cells and pairs: at most one of a hundred tables of equal runs has a cell that is
called changed.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dml_jax.bench.report import Table
from dml_jax.bench.rows import Results, Row
from dml_jax.errors import DmlError, Fault, Unquoted

LEVEL = 0.01  # of tables of equal runs may have a cell that is called changed
LEAST = 0.03  # a smaller change is called the same
SAME = 0.10  # a cell is the same if its change is surely smaller
PROCESSES = 5  # the fewest of a run
VERDICTS = ("slower", "faster", "same", "undecided", "failed", "missing")

Measures = tuple[list[list[np.ndarray]], float]
"""The measures of both rows, as logarithms, and what their copies differ by."""


@dataclass(frozen=True)
class Verdict:
    """What two runs say of a cell.

    Attributes:
        name: the cell.
        ratio: the new time over the old; None where the new run has none.
        low, high: the 95% interval of the ratio.
        verdict: one of `VERDICTS`.
    """

    name: str
    ratio: float | None
    low: float | None
    high: float | None
    verdict: str


def compare(old: Results, new: Results) -> list[Verdict]:
    """Return the verdict of each cell of the old run: those that failed first, then the slowest.

    Raises `DmlError` if no cell is in both, or if a run has too few processes.
    """
    known = [name for name in old.rows if name not in old.failed]
    lost = [Verdict(n, None, None, None, "failed") for n in known if n in new.failed]
    names = [name for name in known if name in new.rows and name not in new.failed]
    if not names and not lost:
        raise DmlError([Fault("", "both runs", "have a cell in common", Unquoted("none"))])
    lost += [
        Verdict(n, None, None, None, "missing") for n in known if n not in {*names, *new.failed}
    ]
    counts = [run.rows[name].processes for run in (old, new) for name in names]
    if min(counts, default=PROCESSES) < PROCESSES:
        rule = f"have the times of {PROCESSES} processes of each cell (--processes, --resume)"
        raise DmlError([Fault("", "a run", rule, min(counts))])
    measures = {name: _measures(old.rows[name], new.rows[name]) for name in names}
    noises: dict[str, list[float]] = {}
    for kind, (pairs, _) in (one for known in measures.values() for one in known.items()):
        noises.setdefault(kind, []).extend(float(np.std(x, ddof=1)) for x in pairs[0])
    usual = {kind: float(np.median(known)) for kind, known in noises.items()}
    found = [_verdict(name, known, usual, len(names)) for name, known in measures.items()]
    return [*lost, *sorted(found, key=lambda v: -(v.ratio or 0))]


def _measures(a: Row, b: Row) -> dict[str, Measures]:
    """Return the measures by kind of seconds: the time, and the time over the copy's."""
    found: dict[str, Measures] = {}
    for kind in ("seconds", "processor"):
        times = [getattr(row, kind) for row in (a, b)]
        own = [np.log(one.get(row.way, ())) for row, one in zip((a, b), times, strict=True)]
        copies = [np.log(one.get("copy", ())) for one in times]
        if all(map(len, (*own, *copies))):
            relative = [x[: len(y)] - y[: len(x)] for x, y in zip(own, copies, strict=True)]
            drift = abs(float(np.median(copies[1]) - np.median(copies[0])))
            found[kind] = [own, relative], drift
        elif all(map(len, own)):
            found[kind] = [own], 0.0
    return found


def _verdict(
    name: str, measures: Mapping[str, Measures], usual: Mapping[str, float], cells: int
) -> Verdict:
    from scipy.special import stdtrit

    intervals, verdicts = list[tuple[float, float]](), set[str]()
    for kind, (pairs, drift) in measures.items():
        signs = set[float]()
        for x, y in pairs:
            freedom = len(x) + len(y) - 2
            noise = math.sqrt((np.var(x) * len(x) + np.var(y) * len(y)) / freedom)
            # A few processes may agree by chance: the noise is at least half of the usual one.
            error = max(noise, usual[kind] / 2) * math.sqrt(1 / len(x) + 1 / len(y))
            level = LEVEL / cells / len(measures)
            strict, plain = (float(stdtrit(freedom, 1 - p / 2)) for p in (level, 0.05))
            change = float(np.mean(y) - np.mean(x))
            sure = abs(change) > max(strict * error + drift / 2, LEAST)
            signs.add(math.copysign(1, change) if sure else 0)
            intervals.append((plain * error, change))
        verdicts |= {"slower"} if signs == {1} else {"faster"} if signs == {-1} else set()
    half, change = min(intervals, key=lambda interval: interval[0])
    is_same = abs(change) + half < math.log1p(SAME)
    verdict = verdicts.pop() if len(verdicts) == 1 else "same" if is_same else "undecided"
    ratio, low, high = map(math.exp, (change, change - half, change + half))
    return Verdict(name, ratio, low, high, verdict)


def table_of(verdicts: Sequence[Verdict]) -> Table:
    """Return the table of a comparison."""
    rows = list[list[str]]()
    for v in verdicts:
        texts = ["", ""] if v.ratio is None else [f"{v.ratio:.3f}", f"{v.low:.3f} to {v.high:.3f}"]
        rows.append([v.name, *texts, v.verdict])
    return Table(["Cell", "new / old", "95% interval", "verdict"], rows)


def summary(verdicts: Sequence[Verdict]) -> str:
    """Return how many cells have each verdict."""
    found = [v.verdict for v in verdicts]
    named = [name for name in VERDICTS if name in VERDICTS[:4] or name in found]
    return ", ".join(f"{found.count(name)} {name}" for name in named)

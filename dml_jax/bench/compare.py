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
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dml_jax.bench.rows import Results, Row
from dml_jax.errors import DmlError, Fault, Unquoted

LEVEL = 0.01  # of tables of equal runs may have a cell that is called changed
LEAST = 0.03  # a smaller change is called the same
SAME = 0.10  # a cell is the same if its change is surely smaller
PROCESSES = 5  # the fewest of a run


@dataclass(frozen=True)
class Verdict:
    """What two runs say of a cell.

    Attributes:
        name: the cell.
        ratio: the new time over the old.
        low, high: the 95% interval of the ratio.
        verdict: `faster`, `slower`, `same` or `undecided`.
    """

    name: str
    ratio: float
    low: float
    high: float
    verdict: str


def compare(old: Results, new: Results) -> list[Verdict]:
    """Return the verdict of each cell that both runs have; the slowest first.

    Raises `DmlError` if no cell is in both, or if a run has too few processes.
    """
    names = [name for name in old.rows if name in new.rows]
    if not names:
        raise DmlError([Fault("", "both runs", "have a cell in common", Unquoted("none"))])
    counts = [run.rows[name].processes for run in (old, new) for name in names]
    if min(counts) < PROCESSES:
        rule = f"have the times of {PROCESSES} processes of each cell (--processes, --resume)"
        raise DmlError([Fault("", "a run", rule, min(counts))])
    pairs = [(old.rows[name], new.rows[name]) for name in names]
    noises: list[list[float]] = [[], []]
    for a, b in pairs:
        for kept, measures in zip(noises, _pairs(a, b), strict=False):
            kept += map(statistics.stdev, measures[0])
    usual = [statistics.median(kept) for kept in noises if kept]
    found = [_verdict(a, b, len(names), usual) for a, b in pairs]
    return sorted(found, key=lambda v: -v.ratio)


def _pairs(a: Row, b: Row) -> list[list[tuple[Any, Any]]]:
    """Return the pairs of measures, each of both rows, as logarithms: by time, and by processor."""
    found = []
    for kind in ("seconds", "processor"):
        times = [getattr(row, kind) for row in (a, b)]
        if all(one.get(row.way) for row, one in zip((a, b), times, strict=True)):
            own = [_logs(one[row.way]) for row, one in zip((a, b), times, strict=True)]
            measures = [tuple(own)]
            if all(one.get("copy") for one in times):
                copies = [_logs(one["copy"]) for one in times]
                relative = [
                    [x - y for x, y in zip(*pair, strict=False)]
                    for pair in zip(own, copies, strict=True)
                ]
                measures += [tuple(relative), tuple(copies)]
            found.append(measures)
    return found


def _logs(values: Sequence[float]) -> list[float]:
    return [math.log(x) for x in values]


def _difference(a: Sequence[float], b: Sequence[float], usual: float) -> tuple[float, float, int]:
    """Return the difference of two means, its standard error, and the degrees of freedom.

    The noise of a cell is at least half of what is usual in the table: a few processes may agree
    by chance.
    """
    freedom = len(a) + len(b) - 2
    squares = sum(statistics.variance(x) * (len(x) - 1) for x in (a, b))
    noise = max(math.sqrt(squares / freedom), usual / 2)
    error = noise * math.sqrt(1 / len(a) + 1 / len(b))
    return statistics.fmean(b) - statistics.fmean(a), error, freedom


def _verdict(a: Row, b: Row, cells: int, usual: Sequence[float]) -> Verdict:
    from scipy.special import stdtrit

    pairs, narrow, verdicts = _pairs(a, b), [], set()
    for measures, noise in zip(pairs, usual, strict=False):
        drift, signs = 0.0, set()
        if len(measures) == 3:
            before, after = map(statistics.median, measures.pop())
            drift = abs(after - before)
        for x, y in measures:
            change, error, freedom = _difference(x, y, noise)
            level = LEVEL / cells / len(pairs)
            strict, plain = (float(stdtrit(freedom, 1 - p / 2)) for p in (level, 0.05))
            sure = abs(change) > max(strict * error + drift / 2, LEAST)
            signs.add(math.copysign(1, change) if sure else 0)
            narrow.append((change - plain * error, change, change + plain * error))
        verdicts |= {"slower"} if signs == {1} else {"faster"} if signs == {-1} else set()
    low, middle, high = min(narrow, key=lambda n: n[2] - n[0])
    if len(verdicts) == 1:
        verdict = verdicts.pop()
    else:
        verdict = "same" if max(abs(low), abs(high)) < math.log1p(SAME) else "undecided"
    ratio, least, most = map(math.exp, (middle, low, high))
    return Verdict(a.name, ratio, least, most, verdict)


def table(verdicts: Sequence[Verdict]) -> tuple[list[str], list[list[Any]]]:
    """Return the head and the rows of a comparison."""
    head = ["Cell", "new / old", "95% interval", "verdict"]
    rows = [[v.name, f"{v.ratio:.3f}", f"{v.low:.3f} to {v.high:.3f}", v.verdict] for v in verdicts]
    return head, rows


def summary(verdicts: Sequence[Verdict]) -> str:
    """Return how many cells have each verdict."""
    found = [v.verdict for v in verdicts]
    names = ("slower", "faster", "same", "undecided")
    return ", ".join(f"{found.count(name)} {name}" for name in names)

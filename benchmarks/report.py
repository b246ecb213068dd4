"""What results say: ratios to the best peer, and how they stand to the targets."""

import math
import statistics
from collections import Counter
from collections.abc import Iterator
from typing import Any

from table import TRANSFORMED

FOR_TIME = "left out for time"
WAYS = ("allocated", "bound")
TARGET, FRACTION = {True: 0.8, False: 0.9}, {True: "of_limit", False: "of_copy"}
"""By whether it is a CPU: the part of the memory's speed that is aimed at, and of what form."""
BEST, EQUAL = "of_best_copy", "of_equal_copy"
"""Of copies of any type, of large arrays; of as many bytes, which older results do not have."""
ARG_TARGET = 0.4
"""Of a CPU's ARGMAX and ARGMIN."""
BACKWARD_TARGET = 0.67
"""One and a half times as long as a copy."""
SMALLEST = {"cpu": 1e6, "gpu": 64e6}
"""Bytes of all inputs, or of all outputs, from which a cell counts."""
CLIFF = 1.5
"""How many times as slow as a neighbour is a cliff."""
WORST = 12
"""So many of the worst cells are named."""


def with_ratios(cell: dict[str, Any]) -> dict[str, Any]:
    """The cell, and for each way how many times faster it is than the best peer."""
    times = cell["times"]
    ratios: dict[str, Any] = {}
    for way in WAYS:
        peers = {
            name.removesuffix(f" {way}"): found["median_us"]
            for name, found in times.items()
            if name.endswith(f" {way}")
        }
        if peers:
            best = min(peers, key=peers.__getitem__)
            ours = times[way]["median_us"]
            ratios[way] = {
                "best_peer": best,
                "ratio": round(peers[best] / ours, 3),
                "ratios": {name: round(us / ours, 3) for name, us in peers.items()},
            }
    return {**cell, "ratios": ratios}


def line(cell: dict[str, Any]) -> str:
    """The cell in one line."""
    parts = []
    for way in WAYS:
        found = cell["times"][way]
        text = f"{way} {found['median_us'] / 1e3:.3f} ms {found['gb_s']:.1f} GB/s"
        ratio = cell["ratios"].get(way)
        if ratio:
            text += f" x{ratio['ratio']:.2f} of {ratio['best_peer']}"
        parts.append(text)
    bound = cell["times"]["bound"]
    parts.append(f"{bound['of_limit']:.2f} of {cell['limit']}")
    told = {name: text for name, text in cell.get("notes", {}).items() if text != FOR_TIME}
    notes = "".join(f"; {name}: {text}" for name, text in told.items())
    return f"{cell['name']}: {', '.join(parts)}{notes}"


def overhead_line(found: dict[str, Any]) -> str:
    """A small cell in one line."""
    made = found["construct_us"]
    described = "" if made is None else f"describe {made:.1f} us, "
    return (
        f"{found['name']}: {described}call {found['call_us']:.2f} us "
        f"(plain {found['plain_call_us']:.2f}), dispatch {found['dispatch_us']:.2f} us, "
        f"compile {found['compile_ms']:.1f} ms (plain {found['plain_compile_ms']:.1f})"
    )


def lines(results: dict[str, Any]) -> Iterator[str]:
    """The report."""
    found = list(results["cells"].values())
    yield from _runs(results)
    yield ""
    if found:
        on_cpu = results["runs"][found[0]["run"]]["platform"] == "cpu"
        counted = [c for c in found if _largest(c) >= SMALLEST["cpu" if on_cpu else "gpu"]]
        yield f"{len(found)} cells, {len(counted)} of a size that counts"
        plain = [c for c in counted if c["kind"] not in TRANSFORMED]
        for way in WAYS:
            yield from _against_peers(plain, way)
        yield from _against_memory(plain, on_cpu)
        yield from _cliffs(plain)
        for kind in TRANSFORMED:
            transformed = [c for c in counted if c["kind"] == kind]
            yield from _against_peers(transformed, "bound", of=f"{kind}, ")
            target = BACKWARD_TARGET if kind == "BACKWARD" else TARGET[on_cpu]
            title = f"{kind}, target {target}"
            yield from _below(title, transformed, FRACTION[on_cpu], target)
        yield from _disagreements(found)
    if results["overhead"]:
        yield from _overheads(list(results["overhead"].values()))


def _runs(results: dict[str, Any]) -> Iterator[str]:
    """What was measured when, where, and of which code."""
    entries = [*results["cells"].values(), *results["overhead"].values()]
    counts = Counter(entry["run"] for entry in entries)
    yield ""
    for number, run in results["runs"].items():
        yield (
            f"run {number}, {run['date'][:10]}, {run['cpu']}, {run['device']}, jax {run['jax']}, "
            f"commit {run['commit']}: {counts[number]} cells"
        )


def _largest(cell: dict[str, Any]) -> float:
    return max(cell["bytes_in"], cell["bytes_out"])


def _mean(values: list[float]) -> float:
    return statistics.geometric_mean(values) if values else math.nan


def _against_peers(cells: list[dict[str, Any]], way: str, of: str = "") -> Iterator[str]:
    ratios = [(c["ratios"][way]["ratio"], c) for c in cells if way in c["ratios"]]
    if not ratios:
        return
    ratios.sort(key=lambda pair: pair[0])
    slower = [c for ratio, c in ratios if ratio < 1 / 1.05]
    mean = _mean([ratio for ratio, _ in ratios])
    yield ""
    yield (
        f"{of}{way}: {mean:.2f} times the best peer (geometric mean of {len(ratios)} cells); "
        f"{len(slower)} slower than it by more than 5%"
    )
    others = [ratio for ratio, c in ratios if "ARG" not in c["name"]]
    if len(others) < len(ratios):
        yield f"  without ARGMAX and ARGMIN {_mean(others):.2f} times, over {len(others)} cells"
    names = sorted({name for _, c in ratios for name in c["ratios"][way]["ratios"]})
    for name in names:
        of_peer = [c["ratios"][way]["ratios"].get(name) for _, c in ratios]
        against = [ratio for ratio in of_peer if ratio is not None]
        won = sum(ratio < 1 / 1.05 for ratio in against)
        best = sum(c["ratios"][way]["best_peer"] == name for _, c in ratios)
        yield (
            f"  {name:<14} {_mean(against):6.2f} times as fast over {len(against)} cells, "
            f"slower in {won}; it is the best peer of {best}"
        )
    for ratio, c in ratios[:WORST]:
        yield f"  {ratio:.2f} of {c['ratios'][way]['best_peer']:<14} {c['name']}"


def _against_memory(cells: list[dict[str, Any]], on_cpu: bool) -> Iterator[str]:
    target = TARGET[on_cpu]
    groups = {"all": (cells, target)}
    if on_cpu:
        read = [c for c in cells if c["limit"] == "read"]
        sums = ("REDUCE SUM", "REDUCE MAX", "REDUCE MIN")
        groups = {
            "copy-like, of the copy": ([c for c in cells if c["limit"] == "copy"], target),
            "SUM, MAX, MIN, of the read": ([c for c in read if c["group"] in sums], target),
            "ARGMAX, ARGMIN, of the read": ([c for c in read if "ARG" in c["group"]], ARG_TARGET),
            "other reductions, of the read": (
                [c for c in read if c["group"] not in sums and "ARG" not in c["group"]],
                target,
            ),
        }
    for title, (group, target) in groups.items():
        yield from _below(title, group, FRACTION[on_cpu], target)
    if not on_cpu:
        yield from _below("all, of the best copy of any type", cells, BEST, target)
    like_copies = [c for c in cells if c["limit"] == "copy"] if on_cpu else cells
    beside = [c for c in like_copies if EQUAL in c["times"]["bound"]]
    yield from _below("of a copy of as many bytes", beside, EQUAL, TARGET[on_cpu])


def _below(title: str, cells: list[dict[str, Any]], fraction: str, target: float) -> Iterator[str]:
    """What cells take of the memory's limit, and the lowest of those below the target."""
    shares = sorted(((c["times"]["bound"][fraction], c) for c in cells), key=lambda p: p[0])
    if not shares:
        return
    below = [(share, c) for share, c in shares if share < target]
    yield ""
    yield (
        f"bound, {title}: {_mean([s for s, _ in shares]):.2f} (geometric mean of {len(shares)}"
        f" cells), {len(below)} below {target}"
    )
    for share, c in below[:WORST]:
        best = c["times"]["bound"][BEST]
        yield f"  {share:.2f} ({best:.2f} of the best copy) {c['name']}"


def _cliffs(cells: list[dict[str, Any]]) -> Iterator[str]:
    """Neighbours, axis to axis or even to odd, whose GB/s differ by more than `CLIFF`."""
    families: dict[Any, list[dict[str, Any]]] = {}
    for c in cells:
        words = c["variant"].partition("[")[0].partition("axis")[0]
        shape = tuple(c["sizes"])
        families.setdefault((c["group"], words, c["data_type"], shape), []).append(c)
        if math.prod(shape[:2]) == 1 and len(shape) == 4:  # the squares, even and odd
            families.setdefault((c["group"], c["variant"], c["data_type"]), []).append(c)
    apart, several = [], [family for family in families.values() if len(family) > 1]
    for family in several:
        rates = {c["name"]: c["times"]["bound"]["gb_s"] for c in family}
        slow, fast = (pick(rates, key=rates.__getitem__) for pick in (min, max))
        if rates[fast] > CLIFF * rates[slow]:
            apart.append((rates[fast] / rates[slow], slow, fast))
    yield ""
    yield f"bound, neighbours further apart than {CLIFF}: {len(apart)} of {len(several)} families"
    for ratio, slow, fast in sorted(apart, reverse=True)[:WORST]:
        yield f"  {ratio:.1f}: {slow}; {fast}"


def _disagreements(cells: list[dict[str, Any]]) -> Iterator[str]:
    notes = [
        (c["name"], name, text)
        for c in cells
        for name, text in c.get("notes", {}).items()
        if text.startswith("output ")
    ]
    yield ""
    yield f"answers that differ from a peer's: {len(notes)}"
    for cell, name, text in notes[:40]:
        yield f"  {cell}: {name}: {text}"


def _overheads(found: list[dict[str, Any]]) -> Iterator[str]:
    calls = [o["call_us"] / o["plain_call_us"] for o in found]
    compiles = sorted(
        ((o["compile_ms"] / o["plain_compile_ms"], o) for o in found), key=lambda p: p[0]
    )
    made = [o["construct_us"] for o in found if o["construct_us"] is not None]
    yield ""
    yield (
        f"{len(found)} small cells: a call is {_mean(calls):.3f} of the plain one "
        f"({sum(c > 1.05 for c in calls)} above 1.05, at most {max(calls):.2f}); a descriptor "
        f"takes {statistics.median(made):.1f} us (at most {max(made):.1f}); compiling takes "
        f"{_mean([c for c, _ in compiles]):.2f} of the plain one's time"
    )
    for ratio, o in zip(calls, found, strict=True):
        if ratio > 1.05:
            yield f"  call {ratio:.2f}: {o['name']}"
    for ratio, o in compiles:
        if ratio > 1.5:
            yield f"  compile {ratio:.2f}: {o['name']}"

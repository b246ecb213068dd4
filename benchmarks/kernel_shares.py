"""Where the time of a program goes: the kinds of its kernels, in a trace of some calls."""

import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from dml_jax.bench.network_cells import computations, within

CALLS = 20
REST = "between kernels"
"""The kind of the time in which no kernel runs: Python, starts of kernels, waiting threads."""

_KINDS = (  # a fusion is of the first kind that it has an instruction of
    ("convolution", r"convolution"),
    ("product", r"dot|custom-call"),
    ("order", r"sort|scatter|gather|topk"),
    ("reduction", r"reduce|reduce-window"),
    (
        "elements",
        r"add|subtract|multiply|divide|maximum|minimum|exponential|tanh|logistic|power|select|"
        r"compare|convert|erf|sqrt|rsqrt|log|abs|negate|round-nearest-even|floor|clamp|and|or|xor",
    ),
    ("copy", r"copy|transpose|concatenate|pad|slice|dynamic-slice|dynamic-update-slice|broadcast"),
)
Span = tuple[str, float, float]


def kinds_of(text: str) -> dict[str, str]:
    """Return the kind of each instruction of an optimised program (HLO) by its name."""
    bodies, _ = computations(text)
    found: dict[str, str] = {}
    for name, line in (one for body in bodies.values() for one in body.items()):
        plain = (re.sub(r"\{[^{}]*\}", "", inner) for inner in within(line, bodies))
        words = (re.findall(r"[\])] ?([a-z][\w\-]*)\(", one)[:1] for one in plain)
        found[name] = _kind([word for some in words for word in some])
    return found


def _kind(words: Sequence[str]) -> str:
    if words[:1] == ["conditional"]:
        return ""  # its kernels stand for it: it has no kind
    if words[:1] == ["while"] or (words[:1] == ["call"] and "while" in words):
        return "loop"
    fits = (kind for kind, of_it in _KINDS if any(re.fullmatch(of_it, word) for word in words))
    return next(fits, "copy")


def spans(folder: Path) -> list[Span]:
    """Return the name, the begin and the end in nanoseconds of each kernel in a trace.

    A kernel that other threads compute ends where the trace says so.
    """
    (file,) = folder.rglob("*.xplane.pb")
    planes: Any = jax.profiler.ProfileData.from_file(str(file)).planes
    events = [event for plane in planes for line in plane.lines for event in line.events]
    begun = [(str(dict(e.stats).get("hlo_op", "")), e.start_ns, e.end_ns) for e in events]
    ends: dict[str, list[float]] = {}
    for event in sorted(events, key=lambda e: e.end_ns):
        if event.name.startswith("end: "):
            ends.setdefault(event.name[5:], []).append(event.end_ns)
    found = []
    for name, begin, end in sorted((one for one in begun if one[0]), key=lambda one: one[1]):
        later = (moment for moment in ends.get(name, ()) if moment >= begin)
        found.append((name, begin, max(end, next(later, end))))
    return found


def shares(
    kernels: Sequence[Span], kinds: Mapping[str, str], nanoseconds: float
) -> dict[str, float]:
    """Return the part of the time that each kind of kernel takes, the largest first.

    Where several kernels run, the moment is that of the one that began last: a trace on a CPU ends
    kernels late. A loop has the moments in which none of its kernels runs.
    """
    given = [one for one in kernels if one[1] < one[2] and kinds.get(one[0])]
    moments = [(begin, True, name) for name, begin, _ in given]
    moments += [(end, False, name) for name, _, end in given]
    running: list[str] = []
    found: dict[str, float] = {}
    last = 0.0
    for moment, is_begin, name in sorted(moments):
        active = [kinds[n] for n in running]
        for kind in ([kind for kind in active if kind != "loop"] or active)[-1:]:
            found[kind] = found.get(kind, 0) + (moment - last) / nanoseconds
        running.append(name) if is_begin else running.remove(name)
        last = moment
    found[REST] = max(0.0, 1 - sum(found.values()))
    return dict(sorted(found.items(), key=lambda one: -one[1]))


def shares_of(call: Callable[[], Any], text: str) -> dict[str, float]:
    """Return what `shares` does of some calls of a program.

    Args:
        call: calls the program once, and waits for its results.
        text: its optimised HLO.
    """
    call()
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0  # which takes longer than a small program
    found, nanoseconds = list[Span](), 0
    for _ in range(2):  # the first trace takes memory, and is not counted
        with tempfile.TemporaryDirectory() as folder:
            with jax.profiler.trace(folder, profiler_options=options):
                start = time.perf_counter_ns()
                for _ in range(CALLS):
                    call()
                nanoseconds = time.perf_counter_ns() - start
            found = spans(Path(folder))
    return shares(found, kinds_of(text), nanoseconds)

"""`Network.tune`: times layouts and kernels for a network on this machine, and keeps the fastest.

A winner is a file of JSON, in the folder `tuned` of `cache_folder`. Its name is a hash of the
graph, the machine and the versions. It names one of the candidates here, and nothing else is read
of it.
"""

import functools
import hashlib
import json
import pickle
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np

from dml_jax.errors import DmlError
from dml_jax.graph import ConstantNode, FunctionNode, Graph, OperatorNode
from dml_jax.lowering.dtypes import has_x64
from dml_jax.runtime.compiler_options import CONVOLUTIONS, PRODUCTS, YNNPACK
from dml_jax.runtime.executable import Choice, Executable, Planned, Start
from dml_jax.system.files import cache_folder, write_whole
from dml_jax.system.processor import cores

_ONEDNN = {
    "xla_cpu_experimental_onednn_custom_call": True,
    "xla_cpu_use_xnnpack": False,
    YNNPACK: "",
}
KERNELS: Mapping[str, Mapping[str, Any] | None] = {
    "by rule": None,
    "YNNPACK": {},
    "Eigen": {YNNPACK: ""},
    "oneDNN": _ONEDNN,
    "YNNPACK products": {YNNPACK: PRODUCTS},
    "YNNPACK convolutions": {YNNPACK: CONVOLUTIONS},
}
"""XLA's options for a CPU, by the names of kernels; None stands for those of the rule."""

_ONEDNN_SINCE = (0, 12)  # the jaxlib whose oneDNN convolves
_MAY_ABORT = {"oneDNN"}  # XLA ends the process where oneDNN lacks a primitive for a shape
_LAYOUTS = ("channels_last", "file")
_TOLERANCE = 1e-3  # of the largest absolute value of an output
_COMPILING = 0.6  # the part of the time in which candidates are compiled
_SLOW = 5  # times as slow as another one at its first call, from which a candidate is not timed
_SETTLING = 3  # calls of a turn that are not counted
_CALLS = 5  # calls of a turn that are
_TRIAL = f"import sys; from {__name__} import trial; trial(sys.stdin.buffer.read())"


@dataclass
class Candidate:
    """A way to compute a network.

    Attributes:
        layout: "channels_last" or "file".
        kernels: a name of `KERNELS`.
        options: XLA's options.
        ms: the median time of a call, in milliseconds; None where it was not timed.
        note: why it was not.
    """

    layout: str
    kernels: str
    options: Mapping[str, Any]
    ms: float | None = None
    note: str = ""

    @property
    def choice(self) -> Choice:
        """Return how a network runs by the candidate."""
        return Choice(self.layout, KERNELS[self.kernels], is_tuned=True)


@dataclass
class Tuning:
    """What `Network.tune` found; `print` shows the table.

    Attributes:
        candidates: the ways that were tried, the fastest first.
        file: the file that keeps the winner; None where it could not be written.
    """

    candidates: Sequence[Candidate]
    file: Path | None

    @property
    def winner(self) -> Candidate:
        """Return the fastest candidate."""
        return self.candidates[0]

    def __str__(self) -> str:
        rows = [("layout", "kernels", "ms")]
        rows += [
            (c.layout, c.kernels, c.note if c.ms is None else f"{c.ms:.3f}")
            for c in self.candidates
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        return "\n".join([*lines, f"kept in {self.file}" if self.file else "not kept"])


@functools.cache
def _machine() -> tuple[Any, ...]:
    facts = Path("/proc/cpuinfo")
    text = facts.read_text() if facts.exists() else ""
    known = {line for line in text.splitlines() if line.startswith(("model name", "flags"))}
    versions = [metadata.version(name) for name in ("jax", "jaxlib")]
    return platform.machine(), platform.processor(), sorted(known), cores(), versions


def _parts(graph: Graph) -> Iterator[str]:
    """Yield words for the nodes and the edges of a graph, without the elements of weights."""
    for index, node, sources in graph.plan:
        yield f"{index} {sources}"
        if isinstance(node, OperatorNode):
            yield repr(node.operator)
        elif isinstance(node, ConstantNode):
            yield node.tensor.shown()
        else:
            assert isinstance(node, FunctionNode)
            yield f"{node.label} {[t.shown() for _, t in node.slots(output=True)]}"
            for part in node.graphs:
                yield from _parts(part)


def _file_of(graph: Graph) -> Path:
    """Return the file that keeps the winner of a graph, on this machine with these versions."""
    digest = hashlib.sha256(repr((_machine(), has_x64())).encode())
    for part in _parts(graph):
        digest.update(part.encode())
    return cache_folder() / "tuned" / f"{digest.hexdigest()[:32]}.json"


def state() -> list[tuple[str, int]]:
    """Return the files of winners, and the times of their last changes."""
    folder = cache_folder() / "tuned"
    return sorted((e.name, e.stat().st_mtime_ns) for e in folder.glob("*"))


def start_of(graph: Graph) -> Start | None:
    """Return how a network starts whose graph `tune` has a winner for; None without a winner.

    A folder without files costs nothing, and a file that says anything else is left out.
    """
    if not (cache_folder() / "tuned").is_dir():
        return None
    try:
        found = json.loads(_file_of(graph).read_text())
        layout, name = found["layout"], found["kernels"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    is_known = layout in _LAYOUTS and name in KERNELS
    return Start(Choice(layout, KERNELS[name], is_tuned=True)) if is_known else None


def forget(graph: Graph) -> bool:
    """Remove the winner of a graph; return whether there was one."""
    try:
        _file_of(graph).unlink()
    except OSError:
        return False
    return True


def _keep(graph: Graph, winner: Candidate) -> Path | None:
    path = _file_of(graph)
    facts = {"layout": winner.layout, "kernels": winner.kernels, "ms": winner.ms}
    try:
        write_whole(path, lambda file: file.write(json.dumps(facts, indent=1).encode()))
    except DmlError:  # a folder that is read only, or a full disk
        return None
    return path


def tune(network: Any, seconds: float, reload: Callable[[], Any] | None) -> Tuning:
    """Time the candidates of a network, and keep the fastest.

    Args:
        network: the network.
        seconds: about how long this takes.
        reload: loads the network again, in another process too; None where it was no file.
    """
    start = time.perf_counter()
    inputs = network.random_inputs()
    calls: list[tuple[Candidate, Callable[[], Any]]] = []
    answers: Mapping[str, Any] | None = None
    executable = network.executable
    forms = {layout: executable.plan_by(Choice(layout)) for layout in _LAYOUTS}
    candidates = [*_candidates(forms)]
    for candidate in candidates:
        # The first candidate is the network as it is: there is always a winner.
        if calls and time.perf_counter() - start > _COMPILING * seconds:
            candidate.note = "no time"
            continue
        if candidate.kernels in _MAY_ABORT and not _survives(candidate, reload, seconds):
            candidate.note = "ended its process" if reload else "tried with files alone"
            continue
        planned = replace(forms[candidate.layout], compiler_options=candidate.options)
        call = functools.partial(_call, executable.with_plan(planned), network.weights, inputs)
        try:
            made = call()
        except RuntimeError as error:
            if not calls:
                raise
            candidate.note = "not known to this XLA" if "No such" in str(error) else "failed"
            continue
        answers = made if answers is None else answers
        if any(_differ(made[name], answers[name]) for name in answers):
            candidate.note = "other answers"
            continue
        candidate.ms = _milliseconds(call)
        best = min((c.ms or 0 for c, _ in calls), default=candidate.ms)
        if candidate.ms <= _SLOW * best:
            calls.append((candidate, call))
    _time(calls, start + seconds)
    candidates.sort(key=lambda c: float("inf") if c.ms is None else c.ms)
    return Tuning(candidates, _keep(network.graph, candidates[0]))


def _candidates(forms: Mapping[str, Planned]) -> Iterator[Candidate]:
    """Yield the candidates of the forms by layout; the first is the network without tuning."""
    seen: list[Any] = []
    has_onednn = tuple(map(int, metadata.version("jaxlib").split(".")[:2])) >= _ONEDNN_SINCE
    for name, options in KERNELS.items():
        for layout, form in forms.items():
            if name == "oneDNN" and not has_onednn:
                continue
            options_of = form.compiler_options if options is None else options
            counts = {rewrite: count for rewrite, count in form.rewrites.items() if count}
            if (counts, options_of) not in seen:  # a layout that changed nothing is no candidate
                seen.append((counts, options_of))
                yield Candidate(layout, name, options_of)


def _call(
    executable: Executable, weights: Mapping[str, Any], inputs: Mapping[str, Any]
) -> Mapping[str, Any]:
    results = executable.function.alone(executable.parameters(weights), inputs)
    return jax.block_until_ready(results)


def _differ(a: Any, b: Any) -> bool:
    """Return whether two arrays differ by more than rounding."""
    a, b = np.asarray(a), np.asarray(b)
    if not a.size or a.dtype.kind not in "fV":
        return not np.array_equal(a, b)
    a, b = a.astype(np.float64), b.astype(np.float64)
    most = np.nanmax(np.abs(b), initial=0)
    return not np.allclose(a, b, rtol=0, atol=_TOLERANCE * most, equal_nan=True)


def _time(calls: Sequence[tuple[Candidate, Callable[[], Any]]], end: float) -> None:
    """Set the median times of calls, which take turns until `end`, twice at least."""
    times: list[list[float]] = [[] for _ in calls]
    turns = 0
    while turns < 2 or time.perf_counter() < end:
        turns += 1
        for (_, call), found in zip(calls, times, strict=True):
            for count in range(_SETTLING + _CALLS):
                ms = _milliseconds(call)
                if count >= _SETTLING:
                    found.append(ms)
                if time.perf_counter() > end and turns > 2:
                    break
    for (candidate, _), found in zip(calls, times, strict=True):
        candidate.ms = statistics.median(found)


def _milliseconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - start)


def _survives(candidate: Candidate, reload: Callable[[], Any] | None, seconds: float) -> bool:
    """Return whether a candidate computes the network in a process of its own."""
    if reload is None:
        return False
    given = pickle.dumps((reload, candidate.layout, dict(candidate.options), has_x64()))
    command = [sys.executable, "-c", _TRIAL]
    try:
        done = subprocess.run(command, input=given, capture_output=True, timeout=seconds)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def trial(given: bytes) -> None:
    """Compute a network once; for a process of its own, which may end by it."""
    reload, layout, compiler_options, is_x64 = pickle.loads(given)
    jax.config.update("jax_enable_x64", is_x64)
    jax.config.update("jax_platforms", "cpu")
    network = reload()
    executable = network.executable
    form = replace(executable.plan_by(Choice(layout)), compiler_options=compiler_options)
    _call(executable.with_plan(form), network.weights, network.random_inputs())

"""What the benchmarks share: command lines, rows and their files, times in turn, processes."""

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from measured_code import code_of, is_changed, kind_of

from dml_jax.bench.timing import Contender, interleave
from dml_jax.errors import nearest
from dml_jax.system.files import write_whole
from dml_jax.system.processor import cores

# Its helpers make models and folders; one has the name of a package of PyPI.
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
ROUNDS = 15
SETTLING = 0.1  # seconds in which a system spreads the threads of another program over its cores
PEERS = ("torch", "onnxruntime", "onnxruntime_genai")  # whose versions the environment has
KEPT_PAGES = {  # what glibc's allocator reads when a process starts
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**64 - 1),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
Row = dict[str, Any]


def restart_with_kept_pages() -> None:
    """Start this program again with an allocator that keeps freed memory, where it has another.

    docs/performance.md has the same environment variables for users. ONNX Runtime and PyTorch keep
    freed memory by themselves.
    """
    if not KEPT_PAGES.items() <= os.environ.items():
        os.environ |= KEPT_PAGES
        os.execv(sys.executable, [sys.executable, *sys.argv])


def parser(text: str | None, rows: str) -> argparse.ArgumentParser:
    """Return the command line of a benchmark, with a text about it and a word for its rows."""
    made = argparse.ArgumentParser(description=text)
    made.add_argument("results", type=Path, help="the file, whose other rows stay")
    again = f"{rows} to measure again; by default what the file lacks, or whose code has changed"
    made.add_argument("names", nargs="*", help=again)
    made.add_argument("--budget", type=float, default=1e9, help="seconds; then no row begins")
    return made


def measure(given: argparse.Namespace, /, **tables: Mapping[str, Callable[[], Row]]) -> int:
    """Measure rows, print each one, and write it to the file; return how many are not right.

    A row that fails is a line, and the next one is measured. Each table has a call for each row.
    """
    begin, wrong, code = time.monotonic(), 0, code_of(kind_of(given.results), {})
    known = [name for every in tables.values() for name in every]
    for word in given.names:
        if not any(_is_named(name, [word]) for name in known):
            raise SystemExit(f"{word!r} names no row{nearest(word, known)}")
    for table, every in tables.items():
        rows = kept(given.results, table)
        for name in wanted(given, table, every):
            if time.monotonic() - begin > given.budget:
                break
            try:
                rows[name] = {**every[name](), "code": code}
            except Exception as error:
                wrong += 1
                print(f"{name:<24} {type(error).__name__}: {error}"[:400], flush=True)
                continue
            print(f"{name:<24} {shown(rows[name])}", flush=True)
            save(given.results, table, {n: rows[n] for n in (*every, *rows) if n in rows})
        wrong += sum(not row.get("is_right", True) for row in rows.values())
    return wrong


def wanted(given: argparse.Namespace, table: str, every: Iterable[str]) -> list[str]:
    """Return the rows of a table to measure: those that are named, or that its file lacks.

    A row whose code has changed counts as missing.
    """
    rows, kind = kept(given.results, table), kind_of(given.results)
    if given.names:
        return [name for name in every if _is_named(name, given.names)]
    return [name for name in every if name not in rows or is_changed(kind, rows[name])]


def _is_named(name: str, words: list[str]) -> bool:
    """Return whether a row has one of some names, or a name that begins with one of these."""
    return any(name == word or name.startswith(f"{word} ") for word in words)


def kept(results: Path, table: str) -> dict[str, Row]:
    """Return a table of a file of results, which is empty without the file."""
    return json.loads(results.read_text()).get(table, {}) if results.exists() else {}


def save(results: Path, table: str, rows: Mapping[str, Row]) -> None:
    """Write a table of a file of results, and where it was measured; its other tables stay."""
    import jax

    from dml_jax.bench.rows import environment

    whole = json.loads(results.read_text()) if results.exists() else {}
    facts = {name: sys.modules[name].__version__ for name in PEERS if name in sys.modules}
    whole |= {"environment": {**environment(jax.devices()[0]), **facts}, table: rows}
    write_whole(results, lambda file: file.write(f"{json.dumps(whole, indent=1)}\n".encode()))


def shown(row: Row) -> str:
    """Return a row on a line, with three digits, behind its speed beside the peer's."""
    speed = f"{row['peer_ms'] / row['ms']:6.2f} " if "peer_ms" in row else ""
    short = json.loads(json.dumps(row), parse_float=lambda text: float(f"{float(text):.3g}"))
    return speed + json.dumps(short)


def milliseconds(*calls: Callable[[], Any]) -> list[float]:
    """Return the median time of each of `calls`, which take turns, `ROUNDS` of them or a minute.

    The calls of the first `SETTLING` seconds of a turn are not counted. On one core, times are
    processor time.
    """
    contenders = {
        str(k): Contender(lambda _, call=call: call(), warm=SETTLING)
        for k, call in enumerate(calls)
    }
    times = interleave(contenders, samples=ROUNDS, seconds=60, give_up=math.inf)
    kind = "processor" if cores() == 1 else "median"
    return [1e3 * getattr(found, kind) for found in times.values()]


def best_seconds(calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the least time of each of `calls`, which take turns: two calls, of which one counts.

    Another two calls come before the first of `rounds`.
    """
    contenders = {name: Contender(lambda _, call=call: call()) for name, call in calls.items()}
    rules: dict[str, Any] = {"seconds": math.inf, "sample_seconds": 0.0, "give_up": math.inf}
    times = interleave(contenders, samples=rounds, **rules)
    return {name: found.best for name, found in times.items()}


def difference(result: Any, answer: Any) -> float:
    """Return the largest difference, as a part of the largest absolute value of `answer`."""
    result, answer = (np.asarray(array, np.float64) for array in (result, answer))
    return float(np.abs(result - answer).max() / max(np.abs(answer).max(), 1e-9))


def run(command: Callable[[], int | None], *functions: Callable[..., Any]) -> None:
    """Run a command; or, where the first word names a function, print what it returns as JSON."""
    named = {function.__name__: function for function in functions}
    if sys.argv[1:2] and sys.argv[1] in named:
        try:
            print(json.dumps(named[sys.argv[1]](*sys.argv[2:])), flush=True)
        except Exception as error:
            sys.exit(str(error).partition("\n")[0] or type(error).__name__)
    else:
        sys.exit(command())


def said_by(*words: Any, seconds: float, python: Any = sys.executable) -> Row:
    """Return the last line of JSON that a program of Python prints, of some words of a command.

    Raises `RuntimeError` with what it says at last if it prints none within so many seconds.
    """
    command = [str(word) for word in (python, *words)]
    try:
        done = subprocess.run(command, timeout=seconds, capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"no answer within {seconds:.0f} s") from None
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no answer"])[-1])
    return json.loads(lines[-1])

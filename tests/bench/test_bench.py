"""The bench: what its cells are, what their times mean, what it prints; and the comparisons."""

import csv
import errno
import importlib.util
import itertools
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from build import command, model_of, node, parse, saved
from click.testing import Result
from forms import compiled_soon
from kernel_shares import REST, kinds_of, shares, shares_of
from nightly import NIGHTLY, sample

import dml_jax
from dml_jax import OPERATORS, DmlError, Reduce, TensorDesc
from dml_jax.bench import (
    charts,
    compare,
    expressions,
    limits,
    measure,
    memory,
    output_files,
    peers,
    report,
    runs,
)
from dml_jax.bench.cells import REPRESENTATIVES, TYPES, Cell, cells
from dml_jax.bench.measure import Bench
from dml_jax.bench.measured_functions import Plain, type_name
from dml_jax.bench.memory import Data
from dml_jax.bench.network_cells import cells_of_graph, kernels
from dml_jax.bench.operation_counts import operations
from dml_jax.bench.peers import difference
from dml_jax.bench.rows import Results, Row
from dml_jax.bench.timing import Contender, Mark, interleave, jax_contender
from dml_jax.cli.bench_runs import _print
from dml_jax.dxdispatch.parsing import load_model
from dml_jax.graph.parts import ArrayType
from dml_jax.rewrite.channels_last import ChannelsLast
from dml_jax.system import files


def ticking(monkeypatch: pytest.MonkeyPatch, step: int, *modules: str) -> None:
    """Let time go on by a step at each look of modules at the clock."""
    seconds = itertools.count(0, step)
    clock = SimpleNamespace(monotonic=lambda: next(seconds))
    for name in modules:
        monkeypatch.setattr(sys.modules[f"dml_jax.{name}"], "time", clock)


ROOT = Path(__file__).parents[2]
QUICK = ["--mb", "0.004", "--seconds", "0.001"]
TILE = ["--operator", "TILE", "--dtype", "FLOAT32"]
LACKING = jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory\nmore")


@pytest.fixture(autouse=True)
def little_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times of tests mean nothing: they need not be of data that no cache holds."""
    monkeypatch.setattr(memory, "MOST_SETS", 3)
    monkeypatch.setattr(limits, "COPIED", 2**16)


def bench(*words: Any, status: int = 0, **options: Any) -> Result:
    return command("bench", *words, status=status, env={"COLUMNS": None}, **options)


def measured(*words: Any) -> list[Any]:
    """Return the cells of a quick run."""
    return json.loads(bench(*words, *QUICK, "--json").stdout)["cells"]


def places(*sizes: int) -> jax.Array:
    return jnp.zeros(sizes, int)


# The cells.


@pytest.mark.parametrize("elements", [1, 10_000, 2**20, 2**24])
@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_typical_uses_have_the_type_and_about_the_elements(name: str, elements: int):
    for data_type in (*TYPES, "UINT32"):
        for use in OPERATORS[name].typical(elements, data_type):
            largest = max((*use.inputs, *use.outputs), key=lambda t: math.prod(t.sizes))
            assert largest.data_type.name == data_type
            assert 0.75 * elements - 100 <= math.prod(largest.sizes) <= 1.5 * elements + 100


@pytest.mark.parametrize("name", REPRESENTATIVES)
def test_a_representative_accepts_the_types_of_the_table(name: str):
    assert {type_name(c.tensor) for c in cells([name])} == {"FLOAT32", "FLOAT16", "UINT8"}


def test_an_operator_has_no_typical_use_of_a_type_that_it_refuses(monkeypatch):
    assert OPERATORS["DML_OPERATOR_TILE"].typical(100, "FLOAT64") == []
    assert {u.function.name for u in Reduce.typical(100, "UINT8")} == {  # pyright: ignore
        *("ARGMIN", "ARGMAX", "MIN", "MAX")  # the functions with UINT8 on the operator's page
    }
    with pytest.raises(DmlError, match=r"be a type that TILE accepts .*, got FLOAT64"):
        cells(["TILE"], ["FLOAT64"])
    with pytest.raises(DmlError, match="did you mean 'REDUCE'"):
        cells(["REDUCES"])
    monkeypatch.setattr(OPERATORS["DML_OPERATOR_TILE"], "typical", lambda elements, data_type: [])
    with pytest.raises(DmlError, match=r"^TILE: expected typical to describe a use"):
        cells(["TILE"])


def test_each_cell_has_a_name_of_its_own():
    found = cells(list(OPERATORS), mebibytes=[0.01])
    assert len({cell.name for cell in found}) == len(found)
    assert {cell.operator for cell in found} == {op.short_name for op in OPERATORS.values()}
    assert "REDUCE LOG_SUM_EXP axes=[1] FLOAT16[1,32,16,8]" not in {c.name for c in found}
    assert any(c.name.startswith("REDUCE LOG_SUM_EXP axes=[1] FLOAT16[") for c in found)


def test_bytes_are_those_of_the_arrays():
    """As many as NumPy's arrays have that go in and come out."""
    for cell in cells(mebibytes=[0.01]):
        arrays = [np.zeros(t.sizes, t.dtype) for t in cell.function.inputs]
        results = jax.tree.leaves(jax.eval_shape(cell.function, *arrays))
        out = sum(np.empty(r.shape, r.dtype).nbytes for r in results)
        assert cell.bytes == sum(a.nbytes for a in arrays) + out


# The data.


TABLE, ROWS = jax.ShapeDtypeStruct((500, 16), jnp.float32), 4 * 16 * 4
LOOKED_UP: dict[str, tuple[Any, int]] = {
    "rows": (lambda x: jax.jit(lambda x: x[jnp.arange(4)])(x), 2 * ROWS),
    "a part": (lambda x: x.T[:, 10:14], 2 * ROWS),
    "a part of another type": (lambda x: x.astype(jnp.int8)[:4], ROWS + ROWS // 4),
    "a row at a computed place": (
        lambda x: jax.lax.dynamic_slice(x, (jnp.argmax(x[0]), 0), (4, 16)),
        2 * ROWS + ROWS // 4,
    ),
    "more rows than there are": (lambda x: x[places(600)], (500 + 600) * 64),
    "GATHER": (lambda x: dml_jax.gather(x, places(1, 4), axis=0), 2 * ROWS),
    "GATHER_ELEMENTS": (lambda x: dml_jax.gather_elements(x, places(4, 16), axis=0), 2 * ROWS),
    "SCATTER": (lambda x: dml_jax.scatter_elements(x, places(4, 16), x[:4], axis=0), 2 * 500 * 64),
    "sizes": (lambda x: jnp.zeros(x.shape[1:], jnp.float32), 64),
    "both": (lambda x: x[:4] + x.sum(), 500 * 64 + ROWS),
    "itself": (lambda x: [x[:4], x.reshape(-1)], 2 * 500 * 64 + ROWS),
    "a loop": (lambda x: jax.lax.fori_loop(0, 3, lambda k, y: y + x[k], x[0]), 501 * 64),
}


@pytest.mark.parametrize("kind", LOOKED_UP)
def test_of_a_table_the_rows_move_that_are_read(kind: str):
    function, size = LOOKED_UP[kind]
    inputs, outputs = (
        [ArrayType(x.dtype, x.shape) for x in jax.tree.leaves(some)]
        for some in (TABLE, jax.eval_shape(function, TABLE))
    )
    assert Cell("", "", Plain(function, inputs, outputs)).bytes == size


def test_random_data_is_fresh_and_in_range():
    data, tensor = Data(jax.devices()[0]), TensorDesc("FLOAT32", [64, 64])
    first, second = (np.asarray(data.array(tensor)) for _ in range(2))
    for array in (first, second):
        assert -1 <= array.min() < -0.9
        assert 0.9 < array.max() < 1
        assert len(np.unique(array)) > 4000  # of 4096
    assert (first != second).mean() > 0.99
    for name in ("INT8", "UINT8", "INT32", "UINT32"):
        whole = np.asarray(data.array(TensorDesc(name, [4096])))
        assert (whole.dtype.name, whole.min(), whole.max()) == (name.lower(), 1, 15)


def test_an_operator_says_the_range_of_its_inputs(monkeypatch: pytest.MonkeyPatch):
    data = Data(jax.devices()[0])
    (reduced,) = cells(["REDUCE"], ["FLOAT32"], [0.1], 1)
    ((x,), _) = data.sets(reduced.function, 2)
    assert 0.5 <= float(x.min()) < float(x.max()) < 1.5  # logarithms, and products of many
    monkeypatch.setattr(Reduce, "domain", classmethod(lambda cls, field: (0, 3)))
    (reduced,) = cells(["REDUCE"], ["INT32"], [0.1], 1)
    ((x,), _) = data.sets(reduced.function, 2)
    assert set(np.unique(np.asarray(x)).tolist()) == {0, 1, 2, 3}


@pytest.mark.parametrize("queued", [False, True])
def test_donated_memory_holds_the_outputs(monkeypatch, queued: bool):
    monkeypatch.setattr("dml_jax.bench.memory.has_queue", lambda device: queued)
    tensor, device = TensorDesc("FLOAT32", [8, 128]), jax.devices()[0]
    inputs = [(jnp.full(tensor.sizes, k, jnp.float32),) for k in range(3)]
    found = {
        way: memory.contender(lambda x: x * 2, inputs, device, outputs)
        for way, outputs in (("donated", [tensor]), ("allocated", ()))
    }
    calls = range(1 if queued else 3)  # of which each does all sets, or one
    results = {way: [y for k in calls for (y,) in one.call(k)] for way, one in found.items()}
    for ys in results.values():
        assert [float(y[3, 3]) for y in ys] == [0.0, 2.0, 4.0]
    places = [y.unsafe_buffer_pointer() for y in results["donated"]]
    again = [y for k in calls for (y,) in found["donated"].call(k)]
    assert [y.unsafe_buffer_pointer() for y in again] == places
    assert all(y.is_deleted() for y in results["donated"])
    ((y,), *_) = found["allocated"].call(0)
    assert y.unsafe_buffer_pointer() not in places
    assert not any(y.is_deleted() for y in results["allocated"])


class Clock:
    """Time that only the contenders spend."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.now = 0.0
        monkeypatch.setattr("dml_jax.bench.timing.time.perf_counter", lambda: self.now)
        monkeypatch.setattr("dml_jax.bench.timing.time.sleep", lambda seconds: None)

    def spending(self, *seconds: float) -> tuple[Contender, list[int]]:
        """A contender whose calls take these times in turn, and the sets that it was given."""
        sets: list[int] = []

        def call(index: int) -> None:
            self.now += seconds[len(sets) % len(seconds)]
            sets.append(index)

        return Contender(call), sets


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.mark.parametrize("queued", [False, True])
def test_the_time_is_of_one_set(monkeypatch, clock: Clock, queued: bool):
    monkeypatch.setattr("dml_jax.bench.memory.has_queue", lambda device: queued)
    inputs, done = [(jnp.full((4,), k, jnp.float32),) for k in range(4)], []
    outputs = [TensorDesc("FLOAT32", [4])]
    contender = memory.contender(lambda x: x + 0, inputs, jax.devices()[0], outputs)

    def timed(index: int) -> None:
        results: Any = contender.call(index)
        done.extend(float(x[0]) for (x,) in results)
        clock.now += len(results)

    times = interleave({"": Contender(timed, sets=contender.sets)}, 4)
    assert times[""].median == 1.0
    assert {*done} == {0.0, 1.0, 2.0, 3.0}


# The times.


def test_medians_and_quartiles_of_interleaved_samples(clock: Clock):
    steady, sets = clock.spending(1.0)
    # Two calls to warm up, then five samples, each behind a call that does not count.
    counted = [1.0, 2.0, 3.0, 4.0, 100.0]
    uneven, _ = clock.spending(9.0, 9.0, *(t for sample in counted for t in (50.0, sample)))
    times = interleave({"steady": steady, "uneven": uneven}, 4, samples=5, seconds=1e9)
    assert (times["steady"].median, times["steady"].samples, times["steady"].calls) == (1, 5, 1)
    assert (times["uneven"].low, times["uneven"].median, times["uneven"].high) == (2, 3, 4)
    assert set(sets) == {0, 1, 2, 3}  # the sets are gone through in turn


def test_short_calls_are_put_together_and_slow_ones_given_up(clock: Clock):
    seconds = {"fast": 1e-6, "slow": 5e-6, "slowest": 1e-4, "kept": 1e-4}
    contenders = {name: clock.spending(s)[0] for name, s in seconds.items()}
    times = interleave(contenders, samples=9, sample_seconds=1e-3, keep={"kept"})
    assert times["fast"].median == pytest.approx(1e-6)
    assert times["fast"].calls == 1000
    counts = {name: t.samples for name, t in times.items()}
    assert counts == {"fast": 9, "slow": 3, "slowest": 3, "kept": 9}


def test_one_that_was_slow_once_is_not_given_up(clock: Clock):
    # Two calls to warm up; before each sample one that does not count.
    spent = [1.0, 1.0, 1.0, 100.0, *[1.0] * 8]
    contenders = {"steady": clock.spending(1.0)[0], "once slow": clock.spending(*spent)[0]}
    times = interleave(contenders, samples=5, seconds=1e9)
    assert (times["once slow"].samples, times["once slow"].median) == (5, 1)


def queueing(clock: Clock, queue: float, work: float) -> Contender:
    """Calls that take the host so long to queue, and then the device to do."""
    begin, hear, done = 2e-4, 5e-4, [0.0]

    def reached(seconds: float) -> float:
        clock.now += queue
        done[0] = max(done[0], clock.now + begin) + seconds
        return done[0]

    def mark() -> Mark:
        at = reached(0.0) + hear
        return Mark(lambda: clock.now >= at, lambda: setattr(clock, "now", max(clock.now, at)))

    return Contender(lambda _: reached(work), mark=mark)


def test_what_is_queued_takes_what_the_device_takes(clock: Clock):
    """However long it takes to begin, and the host to queue, and to hear that it is done."""
    contender = queueing(clock, queue=3e-5, work=1e-3)
    times = interleave({"": contender}, samples=5, seconds=1e9)[""]
    assert times.calls > 1
    assert [times.low, times.median, times.high] == pytest.approx([1e-3] * 3)


@pytest.mark.parametrize("queue", [1e-3, 1.0])
def test_what_waits_for_the_host_takes_what_the_host_takes(clock: Clock, queue: float):
    contender = queueing(clock, queue, work=1e-5)
    times = interleave({"": contender}, samples=5, seconds=1e9, sample_seconds=2e-2)[""]
    # A mark is queued, and heard of, beside the calls.
    assert queue <= times.median <= queue * (1 + 2 / times.calls)


def test_several_devices_are_through_when_all_are(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("dml_jax.bench.timing.has_queue", lambda device: True)
    devices, results = jax.devices()[:2], []
    contender = jax_contender(lambda _: results.append(jnp.zeros(3)) or results[-1], *devices)
    assert contender.mark is not None
    mark = contender.mark()
    numbers = mark.wait()
    assert mark.passed()
    assert [number.devices() for number in numbers] == [{device} for device in devices]  # pyright: ignore
    sample = contender.sample(iter(range(9)), 3)
    assert sample.took > 0 and len(results) == 4


def test_shares_are_of_the_copy_that_was_timed_in_turn():
    run = Bench(jax.devices()[0], 0.001, memory.WAYS)
    (row,) = run.run(cells(["REDUCE"], ["FLOAT32"], [1], 1))
    assert set(row.seconds) == {"donated", "allocated", "copy"}
    if jax.default_backend() == "cpu":
        assert row.copy_bytes == 2 * limits.COPIED
    share = row.bytes / row.time() / (row.copy_bytes / row.time("copy"))
    again = Row.from_json(json.loads(json.dumps(row.to_json())))
    assert [row.share, again.share] == pytest.approx([share, share], rel=1e-3)


@pytest.mark.parametrize(
    ("cache", "free", "rotated"),
    [
        (None, None, 2**28),
        (2**20, 2**40, 2**28),
        (2**29, 2**40, 2**30),
        (2**29, 2**32, 2**29),
        (2**29, 2**20, 2**28),
    ],
)
def test_data_is_more_than_the_last_caches_hold(monkeypatch, cache, free, rotated: int):
    monkeypatch.setattr(memory, "MOST_SETS", 64)
    monkeypatch.setattr(memory, "last_cache_bytes", lambda: cache)
    monkeypatch.setattr(memory, "host_bytes", lambda: free)
    cpu = jax.devices("cpu")[0]
    assert memory.sets_moving(2**26, cpu) == rotated / 2**26
    assert memory.sets_moving(2**40, cpu) == 2
    assert memory.sets_moving(1, cpu) == 64  # at most


# The command.


def test_the_table_fits_and_has_a_legend():
    result = bench("--operator", "depth_to_space1", "--dtype", "float32", "-v", *QUICK)
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert re.match(r"copy [\d.,]+ GB/s \(FLOAT32\)", lines[1])
    head = " ".join(lines[2].split())
    assert head == "Operator Largest tensor MiB Time Allocated GB/s Copy Of copy"
    rows = [line for line in lines if "FLOAT32[" in line]
    assert len(rows) == 4  # two blocks, two orders
    assert re.search(r"FLOAT32\[[\d,]+\] +[\d.]+ +[\d.]+ [mu]s ± *\d+% +[\d.]+ [mu]s +", rows[0])
    assert any(line.startswith("MiB: bytes that must move") for line in lines)


def row(seconds: float = 1.0, copy: float = 1.0, **changes: Any) -> Row:
    """A cell of 2 MiB, beside a copy of as many bytes."""
    known = {"name": "TILE FLOAT32[8]", "operator": "TILE", "variant": "", "family": "arrangement"}
    known |= {"data_type": "FLOAT32", "sizes": [8], "bytes": 2**21, "copy_bytes": 2**21}
    known |= {"operations": 0.0, "spread": {"donated": [0.0]}}
    return Row(**known | {"seconds": {"donated": [seconds], "copy": [copy]}} | changes)


def test_no_column_of_a_wide_table_is_cut_off(capsys: pytest.CaptureFixture[str]):
    peers = ("jnp", "numpy", "torch", "torch.compile", "onnxruntime", "cupy")
    seconds = {name: [1.0] for name in ("donated", "allocated", "copy", *peers)}
    table = report.table_of([replace(row(), seconds=seconds)])
    _print(table)
    head, texts = capsys.readouterr().out.splitlines()
    assert head.split() == " ".join(table.head).split()
    assert texts.split() == " ".join(table.rows[0]).split()


def test_small_cells_are_not_summed_up():
    small = row(bytes=2**19)
    assert report.summary([small]).startswith("No cell moves 1 MiB or more")
    said = report.summary([row(2.0), row(8.0), small])
    assert "cells of 1 MiB or more reach 0.25 (geometric mean over 2). The lowest:" in said
    assert "0.12  TILE FLOAT32[8]" in said


def test_of_a_program_alone_nothing_is_summed_up():
    """`--network net.onnx --filter "whole program"` has no operators beside."""
    assert report.summary([row(operator=report.PROGRAM)]) == ""


def test_the_roof_is_the_lower_limit():
    """Memory takes 1 s; 40 operations at 8 a second take 5 s."""
    assert row(20.0, copy=1.0).of_roof == pytest.approx(1 / 20)
    assert row(20.0, operations=40, peak=8).of_roof == pytest.approx(5 / 20)
    assert row(20.0, operations=4, peak=8).of_roof == pytest.approx(1 / 20)


@pytest.mark.parametrize("peak", [0.0, 8.0])
def test_table_and_chart_agree(peak: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The chart's axis is the number of the table, though the copy beside a cell was slow."""
    from matplotlib.axes import Axes

    draw, dots = Axes.scatter, []
    works = {"operations": 1e9 * peak, "peak": peak}
    both = [row(2.0, 1.0, **works), row(4.0, 3.0, **works, name="another")]

    def seen(self: Axes, x: float, y: float, **options: Any) -> Any:
        dots.append(y if peak else x)
        return draw(self, x, y, **options)

    monkeypatch.setattr(Axes, "scatter", seen)
    charts.draw("", both, tmp_path / "x.svg")
    table = report.table_of(both)
    place = table.head.index("GFLOP/s" if peak else "Of copy")
    assert dots == pytest.approx([float(text[place]) for text in table.rows], rel=0.01)


def test_names_beside_dots_cover_nothing():
    """Neither each other, nor a dot, though the dots lie close together."""
    from matplotlib.text import Text

    known = {"operations": 1e9, "peak": 1e10}
    names = [f"GATHER_ND_{k}" for k in range(40)]
    rows = [row(1 + k / 50, **known, name=f"{k}", operator=n) for k, n in enumerate(names)]
    figure = charts.chart("", rows)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    boxes = [Text.get_window_extent(text) for text in axes.texts]
    dots = [axes.transData.transform(dots.get_offsets())[0] for dots in axes.collections]
    assert [text.get_text() for text in axes.texts] == names[:29:-1]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    assert not any(box.contains(*dot) for box in boxes for dot in dots)


def test_a_busy_machine_is_called_so():
    copies = [row(copy=2**21 / rate / 1e9) for rate in (4, 8)]
    assert report.busy(copies) == "The FLOAT32 copy varied from 4 to 8 GB/s: the machine is busy."
    assert report.busy(copies[:1]) == ""


def test_an_interrupted_run_of_processes_counts_the_cells_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def interrupted(command: Any, results: Results, *others: Any) -> Any:
        results.cells, results.complete = 5, 1
        for name in "ab":
            results.add(row(name=name))
            yield row()
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "in_processes", interrupted)
    result = bench("--operator", "JOIN", "-o", tmp_path / "found.json", status=130)
    assert "(2 of 5 cells, 1 of them complete)" in result.stdout


@pytest.mark.parametrize("disk", ["during", "at the end"])
def test_on_a_full_disk_the_other_files_are_written(disk: str, tmp_path: Path, monkeypatch: Any):
    """One line; the table is printed, and what the file had before stays."""
    full, other = tmp_path / "full.json", tmp_path / "other.csv"
    full.write_text("before")
    write, writes = files.write_whole, []

    def filled(target: Path, *arguments: Any) -> None:
        writes.append(target)
        if target != full or (disk == "at the end" and len(writes) == 1):
            return write(target, *arguments)
        with files.beside(target, "the file"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("dml_jax.bench.rows.write_whole", filled)
    monkeypatch.setattr(Bench, "row", lambda self, cell: row())
    words = [*TILE, *QUICK, "--processes", "1"]
    result = bench(*words, "-o", full, "-o", other, status=1)
    assert result.stderr == (
        f"expected the file '{full}' to be one that can be written, got No space left on device\n"
    )
    assert "TILE" in result.stdout and f"Written to '{other}'" in result.stdout
    assert other.read_text().count("\nTILE") == 1
    if disk == "during":
        assert full.read_text() == "before"
    else:
        assert len(Results.load(full).rows) == 1  # what was kept during the run


@pytest.mark.parametrize("error", [MemoryError(), jax.errors.JaxRuntimeError("device is busy")])
def test_a_device_that_fails_is_one_line(error: Exception, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("dml_jax.bench.measure.Data", mock.Mock(side_effect=error))
    result = bench("--operator", "TILE", *QUICK, status=1)
    assert result.stderr == f"The device failed: {str(error) or 'MemoryError'}\n"


def test_a_process_that_ends_leaves_the_other_cells(tmp_path: Path):
    """As one does that the system ends because memory does not suffice."""
    program = (
        "import json, sys\n"
        "done = json.load(sys.stdin)\n"
        "print(json.dumps({'names': ['large', 'TILE FLOAT32[8]']}), flush=True)\n"
        "if 'large' not in done:\n"
        "    print(json.dumps({'begun': 'large'}), flush=True)\n"
        "    sys.exit(137)\n"
        "if len(done) < 2:\n"
        f"    print(json.dumps({{'row': {row().to_json()}}}))\n"
    )
    results = Results()
    command = [sys.executable, "-c", program]
    found = [*runs.in_processes(command, results, 2, 0.0, lambda *_: None)]
    assert [one.name for one in found] == ["TILE FLOAT32[8]"] * 2
    assert results.failed == {"large": "status 137"}
    assert (results.complete, results.cells) == (1, 2)


def test_progress_is_on_stderr(monkeypatch: pytest.MonkeyPatch):
    """Every five seconds where it is no terminal, with the time that is left."""
    ticking(monkeypatch, 3, "cli.bench_runs")
    result = bench(*TILE, *QUICK, "--json")
    assert re.match(r"\[2/3, \d+ (min|s) left\] TILE repeats=\[4,1,1,1\] FLOAT32\[", result.stderr)
    assert len(json.loads(result.stdout)["cells"]) == 3


def test_quick_ends_in_half_a_minute(monkeypatch: pytest.MonkeyPatch):
    ticking(monkeypatch, 7, "cli.bench_runs", "bench.runs")
    result = bench("--quick", *QUICK)
    assert re.search(r"Time is up; not complete: \d of \d cells", result.stderr)
    assert len([line for line in result.stdout.splitlines() if "FLOAT32[" in line]) >= 1


def test_the_command_writes_each_kind_of_file(tmp_path: Path):
    files = [tmp_path / "deep" / f"x{end}" for end in (".csv", ".md", ".html", ".png", ".json")]
    words = [word for file in files for word in ("-o", file)]
    words += ["--operator", "SPLIT", "--dtype", "INT64", *QUICK, "--processes", "1"]
    result = bench(*words, "-a", "cpu")
    sheet, table, page, picture, data = files
    assert f"Drawn to '{picture}'" in result.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    found = Results.load(data)
    assert found.environment["platform"] == "cpu"
    assert found.environment["os"] and found.environment["commit"] is not None
    assert {r.data_type for r in found.rows.values()} == {"INT64"}
    (head, *lines) = csv.reader(sheet.read_text().splitlines())
    assert head[:2] == ["operator", "variant"]
    times = [float(line[head.index("donated_seconds")]) for line in lines]
    assert times == pytest.approx([one.time() for one in found.rows.values()], rel=1e-3)
    assert table.read_text().count("\n| `SPLIT") == len(lines)
    text = page.read_text()
    assert text.count("<g data-cell>") == len(lines) and text.count("<tr>") == len(lines) + 1
    assert "http" not in text  # one file


BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)
PROBE = """<script>
const times = () => [...document.querySelectorAll("tbody tr")].map(row => row.cells[4].textContent);
const before = times(), found = [before];
for (const _ of "12") { document.querySelectorAll("th")[4].click(); found.push(times()); }
document.title = JSON.stringify(found);
console.error("the end");
</script></body>"""


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed (apt-get install chromium)")
def test_a_browser_opens_the_page_without_an_error(tmp_path: Path):
    page, times = tmp_path / "x.html", ["2 s", "300 us", "40 ms"]
    works = {"operations": 1e6, "peak": 1e9}
    rows = {n: row(t, name=n, **works) for t, n in ((2.0, "a"), (3e-4, "b"), (0.04, "c"))}
    page.write_text(output_files.page(Results(rows=rows), "x").replace("</body>", PROBE))
    own = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'own'}"]
    command = [str(BROWSER), *own, "--enable-logging=stderr", "--virtual-time-budget=1000"]
    command += ["--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    (said,) = (line for line in done.stderr.splitlines() if "CONSOLE" in line)
    assert '"the end"' in said
    (title,) = re.findall("<title>(.*)</title>", done.stdout)
    before, down, up = ([t.split(" ±")[0] for t in column] for column in json.loads(title))
    assert before == times
    assert down == [times[0], times[2], times[1]] and up == down[::-1]
    assert done.stdout.count("<g data-cell") == 3


def test_cells_are_chosen_by_words_and_sizes():
    words = ["--operator", "REDUCE", "--list", "--dtype", "FLOAT32", "--mb", "8"]
    assert bench(*words, "--filter", "SUM axis 0").stdout.splitlines() == [
        "REDUCE SUM axes=[0] FLOAT32[2,64,128,128]",
        "REDUCE SUM axes=[0,1,2,3] FLOAT32[2,64,128,128]",
    ]
    for exact in ("SUM axes=[0]", "sum axis 0 float32", "SUM axes=[0] FLOAT32[2,64,128,128]"):
        listed = bench(*words, "--filter", exact).stdout
        assert listed == "REDUCE SUM axes=[0] FLOAT32[2,64,128,128]\n"
    words = ["--operator", "CONVOLUTION", "--dtype", "BFLOAT16", "--list", "--sizes"]
    assert bench(*words, "2,8,16,16").stdout == "CONVOLUTION BFLOAT16[2,8,16,16]\n"
    named = bench(*words, "input=2,8,16,16,filter=24,8,3,3")
    assert named.stdout == "CONVOLUTION BFLOAT16[2,24,16,16]\n"
    wrong = bench(*words, "inputs=2,8,16,16", status=2)
    assert "expected --sizes to name an input of input, filter, got 'inputs'" in wrong.stderr
    family = bench("--family", "matrix", "--gradient", "--dtype", "FLOAT32", "--list")
    assert "GEMM gradient NONE" in family.stdout


@pytest.mark.parametrize(
    "words",
    sample(
        [
            ["--gradient", "--vmap", "3", "--dtype", "BFLOAT16"],
            ["--dtype", "BFLOAT16"],
            ["--gradient", "--dtype", "FLOAT32"],
            ["--vmap", "3", "--dtype", "FLOAT32"],
        ],
        of=4,
    ),
)
def test_transformed_operators_are_beside_their_expressions(words: list[str]):
    found = measured(*words, "--operator", "REDUCE", "--filter", "L2", "--peers", "jnp,numpy")
    assert found
    for cell in found:
        assert {"allocated", "jnp"} <= set(cell["seconds"])
        for word in ("gradient", "vmap"):
            assert (f"--{word}" in words) == (word in cell["name"])
        assert "differs" not in cell


@pytest.mark.skipif(importlib.util.find_spec("cupy") is not None, reason="CuPy is installed")
def test_a_peer_that_is_missing_is_said():
    assert "did you mean 'torch'?" in bench("--peers", "tork", *QUICK, status=2).stderr
    assert "pip install cupy" in bench("--peers", "cupy", *QUICK, status=2).stderr
    result = bench("--operator", "GEMM", "--dtype", "FLOAT32", "--peers", "numpy,jnp", *QUICK)
    assert "\nnumpy computes none of these cells." in result.stdout
    assert "jnp computes" not in result.stdout


def test_pytorch_computes_beside_us():
    pytest.importorskip("torch")
    for cell in measured("--operator", "ACTIVATION_RELU", "--peers", "torch"):
        assert "torch" in cell["seconds"], cell["differs"]


def test_a_peer_that_lacks_memory_is_said(monkeypatch: pytest.MonkeyPatch):
    lacking = mock.Mock(side_effect=LACKING)
    monkeypatch.setitem(peers.PEERS, "jnp", lambda *_: (Contender(lacking), ()))
    for cell in measured(*TILE, "--peers", "jnp"):
        assert "RESOURCE_EXHAUSTED" in cell["differs"]["jnp"]
        assert "allocated" in cell["seconds"]
        assert "jnp" not in cell["seconds"]


def test_a_cell_that_fails_does_not_end_the_run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Bench, "row", mock.Mock(side_effect=[row(), LACKING, row()]))
    result = bench(*TILE, *QUICK)
    assert "RESOURCE_EXHAUSTED: Out of memory" in result.stderr
    assert "more\n" not in result.stderr
    assert "TILE" in result.stdout


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="a GPU itself raises an error")
def test_a_cell_that_needs_more_memory_than_is_free_is_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memory, "host_bytes", lambda: 2**10)
    line = r"(?m)^Not measured: TILE .* GiB of memory are needed, and 0.0 GiB are free$"
    assert re.search(line, bench(*TILE, *QUICK, status=1).stderr)


def test_a_run_of_processes_goes_on_where_it_stopped(tmp_path: Path):
    """A child process for each time; the file keeps the command line."""
    target = tmp_path / "run.json"
    words = ["--operator", "TILE", "--dtype", "UINT8", "--filter", "repeats=[4,", *QUICK]
    bench(*words, "--processes", "2", "-o", target)
    kept = Results.load(target)
    (one,) = kept.rows.values()
    assert len(one.seconds["donated"]) == len(one.seconds["copy"]) == 2
    one.seconds = {name: times[:1] for name, times in one.seconds.items()}
    kept.save(target)
    bench("--resume", target)
    (again,) = Results.load(target).rows.values()
    assert len(again.seconds["donated"]) == 2
    assert again.seconds["donated"][0] == pytest.approx(one.seconds["donated"][0])


def test_limits_are_of_all_kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "MULTIPLIED", 64)
    monkeypatch.setattr(limits, "LARGEST", 2**17)
    monkeypatch.setattr(limits, "COMBINED", (2**12,))
    picture, devices = tmp_path / "limits.svg", min(2, jax.device_count())
    words = ["--limits", "--dtype", "INT8", "--devices", devices, *QUICK[2:], "-o", picture]
    kinds = {line.split(" ")[0] for line in bench(*words).stdout.splitlines()}
    wanted = {"copy", "read", "write", "add", "product", "cache", "launch"}
    combined = {"all-reduce", "all-gather"} if jax.device_count() > 1 else set[str]()
    assert wanted | combined <= kinds
    assert picture.read_text().count("INT8") >= 5


def test_a_model_s_dispatchables_are_measured(monkeypatch: pytest.MonkeyPatch):
    model = ROOT / "examples" / "models" / "pixel_shuffle.json"
    monkeypatch.chdir(model.parent)
    words = ["--model", "-", "--json", "--seconds", "0.001"]
    found = json.loads(bench(*words, input=model.read_text()).stdout)["cells"]
    assert {c["operator"] for c in found} >= set(load_model(model).dispatchables)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two equal products with a Relu behind each."""
    weights = {f"w{k}": np.eye(64, dtype=np.float32) * k for k in (2, 3)}
    text = """g (float[64, 64] x) => (float[64, 64] y)
        { a = MatMul (x, w2)  b = Relu (a)  c = MatMul (b, w3)  y = Relu (c) }"""
    return saved(parse(text, **weights), tmp_path_factory.mktemp("network"))


def test_each_operator_of_a_network_is_measured(network: Path, monkeypatch: pytest.MonkeyPatch):
    """Equal ones once; the sum of their times stands beside the program's."""
    monkeypatch.setattr(limits, "MULTIPLIED", 64)
    words = ["--network", network, "--roofline", "--seconds", "0.001"]
    result = bench(*words, "--peers", "onnxruntime")
    firsts = {line.split(" ")[0] for line in result.stdout.splitlines()}
    assert firsts >= {"GEMM", "ACTIVATION_RELU"}
    assert re.search(r"The operators take [\d.]+ [mu]s one by one, the program", result.stdout)
    found = {c["operator"]: c for c in json.loads(bench(*words, "--json").stdout)["cells"]}
    assert (found["GEMM"]["count"], found["ACTIVATION_RELU"]["count"]) == (2, 2)
    assert found["GEMM"]["operations"] == 2 * 64**3
    assert found["whole program"]["operations"] == 2 * (2 * 64**3 + 64**2)


def kernels_of(network: Path, folder: Path) -> dict[str, list[str]]:
    """Profile a network; return the names of nodes by the kernel that computes them."""
    bench("--network", network, "--profile", folder)
    return json.loads((folder / "kernels.json").read_text())


def test_a_profile_says_which_kernel_computes_a_node(network: Path, tmp_path: Path):
    found = kernels_of(network, tmp_path)
    assert [*tmp_path.rglob("*.xplane.pb")]
    assert [*tmp_path.rglob("perfetto_trace.json.gz")]
    nodes = [name for names in found.values() for name in names]
    assert len(nodes) == len(set(nodes)) == 4


def test_nodes_have_the_names_of_the_file(tmp_path: Path):
    """Also after rewrites, and where a function or a weight that is read late makes the nodes."""
    opsets = [onnx.helper.make_opsetid("", 17)]
    body = [node("Mul", "a a", "t", name="inner"), node("Neg", "t", "b")]
    function = onnx.helper.make_function("l", "Own", ["a"], ["b"], body, opsets)
    nodes = [
        node("Identity", "w", "filter", name="weights"),
        node("Conv", "x filter", "c", name="stem", pads=[1, 1, 1, 1]),
        node("Own", "c", "o", name="/model/own", domain="l"),
        node("Softmax", "o", "y", name='the "head"', axis=1),
        node("Relu", "y", "z"),
    ]
    weights = {"w": np.ones((4, 4, 3, 3), np.float32)}
    inputs = {"x": (np.float32, [1, 4, 8, 8])}
    path = saved(model_of(nodes, inputs, "z", weights, 17, [function]), tmp_path)
    named = {"stem", "/model/own", 'the "head"', "Node 'z' (Relu)"}
    found = kernels_of(path, tmp_path / "trace")
    assert {name for names in found.values() for name in names} - {"weights"} == named
    assert 'the "head"' not in found.get("", [])
    result = bench("--network", path, "--seconds", "0.001", "--json")
    rows = [Row.from_json(cell) for cell in json.loads(result.stdout)["cells"]]
    assert {name for row in rows for name in row.nodes} - {"weights"} == named
    names = [text[0] for text in report.table_of(rows).rows]
    assert "CONVOLUTION [1,4,8,8] [4,4,3,3] stem" in names
    of_nodes = replace(rows[0], nodes=["a", "b", "c"])
    assert report.table_of([of_nodes]).rows[0][0].endswith(" a +2")


def test_a_node_stands_in_one_kernel():
    text = """HloModule m
%fused (p: f32[4]) -> f32[4] {
  %p = f32[4]{0} parameter(0)
  %a = f32[4]{0} add(%p, %p), metadata={op_name="jit(f)/first/add"}
  ROOT %b = f32[4]{0} negate(%a), metadata={op_name="jit(f)/second/neg"}
}
ENTRY %main (x: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0), metadata={op_name="third"}
  %one = f32[4]{0} fusion(%x), kind=kLoop, calls=%fused
  ROOT %two = f32[4]{0} negate(%one), metadata={op_name="jit(f)/second/neg"}
}
"""
    found = kernels(text, ["first", "second", "third"])
    assert found == {"one": ["first"], "two": ["second"], "": ["third"]}


def test_equal_operators_of_a_graph_are_one_cell():
    builder = dml_jax.GraphBuilder()
    x = builder.input_tensor("x", TensorDesc("FLOAT32", [4, 4]))
    graph = builder.build(dml_jax.abs(dml_jax.abs(dml_jax.abs(x)) + x))
    found = {cell.operator: cell.count for cell in cells_of_graph(graph)}
    assert found == {"ELEMENT_WISE_ABS": 3, "ELEMENT_WISE_ADD": 1}


def test_convolutions_of_channels_last_count_their_operations():
    builder = dml_jax.GraphBuilder()
    y = builder.input_tensor("x", TensorDesc("FLOAT32", [1, 16, 8, 8]))
    w = builder.constant(np.ones((16, 16, 3, 3), np.float32))
    for _ in range(3):
        y = dml_jax.convolution(y, w, start_padding=(1, 1), end_padding=(1, 1))
    turned, count = ChannelsLast(always=True).once(builder.build(y))
    (cell,) = (c for c in cells_of_graph(turned) if c.operator == "CONVOLUTION")
    work = 2 * 16 * 8 * 8 * 16 * 3 * 3
    assert (count, cell.count) == (3, 3)
    assert (cell.variant, operations(cell.function)) == ("[1,16,8,8] [16,16,3,3]", work)
    assert operations(turned) == 3 * work


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ("--operator REDUCT", 2, "did you mean 'REDUCE'?"),
        ("--operator 'REDUCE SUM'", 2, "(--operator REDUCE --filter 'SUM'), got 'REDUCE SUM'"),
        ("--dtype FLOAT33", 2, "did you mean 'FLOAT32'?"),
        ("--operator softmax", 2, "such as ACTIVATION_SOFTMAX, ACTIVATION_SOFTMAX1), got"),
        ("--operator TILE,Join", 2, "(one each: --operator TILE --operator Join), got 'TILE,"),
        ("--operator jnp.sum", 2, "(such as REDUCE), got 'jnp.sum'"),
        ("--operator --seconds 1", 2, "got '--seconds'"),
        ("--dtype float33", 2, "got 'float33'"),
        ("--mb 16GB", 2, "expected a number without a unit, such as 16, got '16GB'"),
        ("--mb 0", 2, "0.0 is not in the range"),
        ("--operator TILE --dtype UINT4", 2, "be a type that TILE accepts"),
        ("--device tpu:9", 1, "no device matches 'tpu:9'"),
        ("--model nowhere.json", 1, "nowhere.json"),
        ("--network nowhere.onnx", 1, "nowhere.onnx"),
        ("--model m.json --dtype INT8", 2, "--model stands without --dtype."),
        ("--network n.onnx --gradient", 2, "--network stands without --gradient."),
        ("--limits --mb 8 --vmap 2", 2, "--limits stands without --mb and --vmap."),
        ("--sizes 8,8 --sizes 9,9", 2, "--sizes is given twice."),
        ("--seconds 1 --quick --seconds=2", 2, "--seconds is given twice."),
        ("--exclude SUM", 2, "No such option '--exclude'.\n"),
        ("--operator GEMM --sizes 5,2", 2, "those of all inputs (a=5,2,b=...), got a\n"),
        ("--sizes 8,8 --mb 8", 2, "--sizes stands without --mb."),
        ("--compare a.json b.json --quick", 2, "--compare stands without --quick."),
        ("--compare a.json b.json -o c.svg", 2, "--compare writes .json, .md or .csv"),
        ("--fail-above 1.1", 2, "--fail-above needs --compare."),
        ("--profile x", 2, "--profile needs --network or --model."),
        ("--precision half", 2, "'half' is not one of JAX's: default, high"),
        ("--devices 99", 2, "expected --devices to be at most"),
        ("--limits --dtype UINT8", 2, "expected --dtype to be of FLOAT32, BFLOAT16"),
        ("--cells nowhere.txt", 2, "nowhere.txt"),
        ("-o chart.gif", 2, "end in .json, .csv, .md, .html, .svg or .png"),
        ("--seconds 0", 2, "0.0 is not in the range"),
        ("--sizes 8x8", 2, "'8x8' is not sizes, as 8,64,256,256"),
        ("--filter nonsense", 2, "expected --filter to be words of a cell's name"),
        ("--resume nowhere.json", 1, "expected the file 'nowhere.json' to be readable"),
        ("--compare a.json b.json", 1, "expected the file 'a.json' to be readable"),
        ("--repeat-until x", 2, "'x' is not a percentage"),
        ("--repeat-until nan", 2, "'nan' is not a percentage, as 5%."),
        ("--shape 8,8", 2, "No such option '--shape' (--sizes 8,64,56,56)"),
        (f"--network n.onnx --profile '{__file__}'", 2, "is a file"),
    ],
)
def test_what_is_wrong_is_said(words: str, status: int, message: str):
    result = bench(*shlex.split(words), status=status)
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_arguments_are_those_of_jit():
    """Trees of arrays of each type; the count of operations is that of the textbook."""
    seen, x = [], jnp.ones((8, 8), jnp.float32)

    def dense(weights: Any, pair: Any) -> Any:
        seen.append((type(weights), type(pair)))
        return pair[0] @ weights["w"], pair[1] @ weights["w"]

    row = measure.time(dense, {"w": x}, (x, x), seconds=0.001)
    assert set(seen) == {(dict, tuple)}
    assert row.operations == 2 * 2 * 8**3
    assert row.bytes == 5 * x.nbytes
    assert row.time() > 0 and row.share > 0
    for array in (x > 0, x.astype(jnp.complex64), x.astype(jnp.int8), jax.random.key(0)):
        assert measure.time(lambda x: [x, None], array, seconds=0.001).share > 0
    for wrong in ("text", 2**70):
        with pytest.raises(DmlError, match=r"arguments\[1\]\['a'\] to be an array, as jax.jit"):
            measure.time(lambda x, y: x, x, {"a": wrong})


def test_the_roof_of_a_network_is_that_of_its_products(tmp_path: Path, monkeypatch: Any):
    """A language model's first input has integers."""
    monkeypatch.setattr(limits, "MULTIPLIED", 64)
    weights = np.ones((64, 64), np.float32)
    text = """g (int64[1, 8] ids) => (float[1, 8, 64] y)
        { x = Gather (table, ids)  y = MatMul (x, w) }"""
    path = saved(parse(text, table=weights, w=weights), tmp_path)
    result = bench("--network", path, "--roofline", "--seconds", "0.001", "--json")
    peaks = {c["operator"]: c.get("peak") for c in json.loads(result.stdout)["cells"]}
    assert peaks["whole program"] == peaks["GEMM"] > 0


# The verdicts.


class Medians:
    """Tables of runs, drawn from the medians of processes that were recorded on a busy machine.

    `noise` is the usual standard deviation of the logarithm of a time; processor time has half of
    it. None keeps what was recorded, a factor of two and more.
    """

    def __init__(self, noise: float | None = None):
        recorded = json.loads((ROOT / "tests" / "facts" / "bench_medians.json").read_text())
        logs = {name: np.log(columns) for name, columns in recorded["cells"].items()}
        self.logs = {n: own - np.median(own, 1, keepdims=True) for n, own in logs.items()}
        deviations = np.median([own.std(1, ddof=1) for own in self.logs.values()], 0)
        wall, processor = (noise / deviations[0], noise / 2 / deviations[2]) if noise else (1, 1)
        self.factors = np.array([wall, wall, processor, processor])[:, None]
        self.dice = np.random.default_rng(7)

    def run(self, cells: int, processes: int, slower: float = 1.0) -> Results:
        """Return a run of some cells, all of them slower by a factor."""
        found = Results()
        for name in [*self.logs][:cells]:
            drawn = self.dice.choice(self.logs[name], processes, axis=1)
            own, copy, used, copied = np.exp(drawn * self.factors)
            seconds = {"donated": [*slower * own], "copy": [*copy]}
            processor = {"donated": [*slower * used], "copy": [*copied]}
            found.add(replace(row(name=name), seconds=seconds, processor=processor))
        return found


def comparison(
    folder: Path, old: Results, new: Results, limit: float = 9, status: int = 0
) -> tuple[Result, list[list[str]]]:
    """Compare two runs; return what the command says, and the rows of its sheet."""
    old.save(folder / "old.json")
    new.save(folder / "new.json")
    words = ["--compare", folder / "old.json", folder / "new.json", "--fail-above", limit]
    result = bench(*words, "-o", folder / "x.csv", status=status)
    return result, [*csv.reader((folder / "x.csv").read_text().splitlines())][1:]


@pytest.mark.parametrize(("noise", "processes"), [(None, 5), (0.04, 5), (0.04, 12), (0.1, 12)])
def test_equal_runs_have_no_changed_cell(noise: float | None, processes: int):
    """At most one of a hundred tables; and of those that are not too noisy few are undecided."""
    medians, changed, undecided = Medians(noise), 0, 0.0
    for _ in range(100):
        found = compare.compare(medians.run(12, processes), medians.run(12, processes))
        changed += any(v.verdict in ("slower", "faster") for v in found)
        undecided += sum(v.verdict == "undecided" for v in found) / len(found) / 100
    assert changed <= 1
    assert undecided <= 0.1 or noise is None or noise > 0.05


def test_a_slow_down_of_a_tenth_is_found():
    """In five named cells, in ten of ten tries."""
    medians = Medians(0.04)
    for _ in range(10):
        found = compare.compare(medians.run(5, 12), medians.run(5, 12, slower=1.1))
        assert [v.verdict for v in found] == ["slower"] * 5
        assert all(v.ratio is not None and 1.05 < v.ratio < 1.15 for v in found)


def test_the_comparison_is_a_table_with_an_exit_status(tmp_path: Path):
    medians = Medians(0.01)
    old, new = medians.run(3, 5), medians.run(3, 5, slower=1.5)
    result, rows = comparison(tmp_path, old, new, limit=1.2, status=1)
    assert "3 slower, 0 faster, 0 same, 0 undecided" in result.stdout.splitlines()
    assert [row[-1] for row in rows] == ["slower"] * 3
    comparison(tmp_path, old, new, limit=2)
    assert [row[-1] for row in comparison(tmp_path, new, old)[1]] == ["faster"] * 3


def test_cells_that_one_run_lacks(tmp_path: Path):
    medians = Medians(0.01)
    old, lost = medians.run(3, 5), medians.run(3, 5)
    name, other, _ = lost.rows
    lost.failed[name] = "RESOURCE_EXHAUSTED"
    lost.rows = {n: r for n, r in lost.rows.items() if n != other}
    result, rows = comparison(tmp_path, old, lost, status=1)
    assert result.stderr == f"Not measured: {name}: RESOURCE_EXHAUSTED\n"
    assert "1 failed, 1 missing" in result.stdout
    assert rows[:2] == [[name, "", "", "failed"], [other, "", "", "missing"]]
    comparison(tmp_path, lost, old)
    del lost.failed[name]
    comparison(tmp_path, old, lost)
    paths = tmp_path / "old.json", tmp_path / "new.json"
    assert json.loads(bench("--compare", *paths, "--json").stdout)[0]["verdict"] == "missing"
    result, _ = comparison(tmp_path, old, medians.run(3, 4), status=1)
    assert "expected a run to have the times of 5 processes of each cell" in result.stderr


def test_a_cell_is_repeated_until_its_interval_is_narrow():
    one = row()
    one.seconds["donated"] = [1.0, 1.1, 0.9, 1.05, 0.95]
    assert one.interval == pytest.approx(math.expm1(2.776 * 0.0792 / math.sqrt(5)), rel=0.05)
    assert runs._is_done(one, 5, 0.5)
    assert not runs._is_done(one, 5, 0.001)
    assert not runs._is_done(one, 6, 0.5)


# The operations.


def desc(*sizes: int) -> TensorDesc:
    return TensorDesc("FLOAT32", sizes)


def filled(cls: Any, **fields: Any) -> Any:
    """Return an operator whose other fields are those of a typical use."""
    (use, *_) = cls.typical(4096, "FLOAT32")
    known = {f.name: getattr(use, f.name) for f in use.fields if not f.tensor}
    return cls.infer(**known | fields)


# A product and a sum for each element of the result and each of the terms.
_GEMM = {"a_tensor": desc(2, 3, 32, 64), "b_tensor": desc(2, 3, 16, 32)}


_GEMM |= dict.fromkeys(("trans_a", "trans_b"), "TRANSPOSE")


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        ({"a_tensor": desc(1, 1, 64, 32), "b_tensor": desc(1, 1, 32, 16)}, 65_536),
        (_GEMM, 393_216),  # 2 * 6 * 64 * 16 * 32
        (_GEMM | {"c_tensor": desc(2, 3, 64, 16)}, 393_216 + 6_144),
        (_GEMM | {"fused_activation": dml_jax.ActivationRelu.fused()}, 393_216 + 6_144),
    ],
)
def test_operations_of_products(fields: Any, count: int):
    plain = {"trans_a": "NONE", "trans_b": "NONE", "alpha": 1, "beta": 0}
    assert operations(dml_jax.Gemm.infer(**plain | fields)) == count


@pytest.mark.parametrize(
    ("sizes", "filters", "fields", "count"),
    [
        # Each output element takes as many products as the filter has elements for one channel.
        ((2, 8, 10, 10), (16, 8, 3, 3), {}, 294_912),
        ((2, 8, 10, 10), (16, 2, 3, 3), {"group_count": 4}, 73_728),
        ((2, 8, 10, 10), (8, 1, 3, 3), {"group_count": 8}, 18_432),  # each channel for itself
        ((2, 8, 11, 11), (16, 8, 3, 3), {"strides": [2, 2]}, 115_200),  # of 5 x 5
        ((2, 8, 11, 11), (16, 8, 3, 3), {"dilations": [2, 2]}, 225_792),  # of 7 x 7
        (
            *((2, 8, 11, 11), (16, 2, 3, 3)),
            {"group_count": 4, "strides": [2, 2], "dilations": [2, 2]},
            18_432,  # of 4 x 4
        ),
        ((2, 8, 10, 10), (16, 8, 3, 3), {"bias_tensor": desc(1, 16, 1, 1)}, 294_912 + 2_048),
        # A transposed convolution takes a product for each input element and filter element.
        (
            *((2, 8, 10, 10), (8, 16, 3, 3)),
            {"direction": "BACKWARD", "output_sizes": [2, 16, 12, 12]},
            460_800,
        ),
    ],
)
def test_operations_of_convolutions(sizes: Any, filters: Any, fields: Any, count: int):
    known = {"start_padding": [0, 0], "end_padding": [0, 0], **fields}
    tensors = {"input_tensor": desc(*sizes), "filter_tensor": desc(*filters)}
    assert operations(filled(dml_jax.Convolution, **tensors, **known)) == count


@pytest.mark.parametrize(("cls", "gates"), [(dml_jax.Rnn, 1), (dml_jax.Gru, 3), (dml_jax.Lstm, 4)])
def test_operations_of_recurrent_networks(cls: Any, gates: int):
    """Of 5 steps of 3 sequences, 7 inputs, 4 hidden units, in both directions."""
    (use, *_) = cls.typical(4096, "FLOAT32")
    op = filled(
        cls,
        input_tensor=desc(1, 5, 3, 7),
        weight_tensor=desc(1, 2, gates * 4, 7),
        recurrence_tensor=desc(1, 2, gates * 4, 4),
        direction="BIDIRECTIONAL",
        activation_descs=use.activation_descs * 2,
    )
    assert operations(op) == 2 * (2 * 5 * 3) * (gates * 4) * (7 + 4)


_KEYS = {"query": (2, 8, 32), "key": (2, 12, 32), "value": (2, 12, 32)}


@pytest.mark.parametrize(
    ("sizes", "count"),
    [
        # 2 * (2 sequences * 4 heads) * queries * keys * (8 of a key + those of a value)
        (_KEYS, 24_576),
        (_KEYS | {"value": (2, 12, 48)}, 30_720),
        (_KEYS | {"past_key": (2, 4, 9, 8), "past_value": (2, 4, 9, 8)}, 43_008),  # 12 + 9 keys
        ({"stacked_query_key_value": (2, 10, 4, 3, 8)}, 25_600),
        ({"query": (2, 8, 32), "stacked_key_value": (2, 12, 4, 2, 8)}, 24_576),
    ],
)
def test_operations_of_attentions(sizes: Any, count: int):
    tensors = {f"{name}_tensor": desc(*own) for name, own in sizes.items()}
    known = {"head_count": 4, "scale": 1, "mask_type": "NONE", "mask_filter_value": -1e4}
    op = dml_jax.MultiheadAttention.infer(**tensors, **known, outputs=())
    assert operations(op) == count


@pytest.mark.parametrize(
    ("function", "count"),
    [
        *(("SUM", 24), ("AVERAGE", 24), ("MAX", 24), ("MULTIPLY", 24), ("ARGMIN", 24)),
        *(("SUM_SQUARE", 48), ("L2", 48), ("L1", 48)),  # a square beside
        ("LOG_SUM_EXP", 72),  # the largest, an exponential, a sum
    ],
)
def test_operations_of_reductions(function: str, count: int):
    assert operations(Reduce.infer(function=function, input_tensor=desc(4, 6), axes=[1])) == count


def test_operations_of_argmax_and_tile():
    fields = {"axes": [0], "axis_direction": "INCREASING"}
    assert operations(dml_jax.Argmax.infer(input_tensor=desc(4, 6), **fields)) == 24
    assert operations(dml_jax.Tile.infer(input_tensor=desc(4, 6), repeats=[2, 1])) == 0


# The expressions.


def test_a_wrong_answer_of_a_peer_is_seen():
    see, f32 = difference, jnp.float32
    assert see([f32([1.0, jnp.nan])], [f32([1.00001, jnp.nan])]) == ""
    differs = see([f32([1.0, jnp.nan])], [f32([1.0, 2.0])])
    assert differs.endswith("differs in 50.0% of its elements")
    assert "sizes [1], not [2]" in see([jnp.array([1, 2])], [jnp.array([1])])


_NOT_ON_A_GPU = {
    "CONVOLUTION_INTEGER": "cuDNN has no convolution of integers",
    "MAX_UNPOOLING": "x.at[...].set(...) writes equal indices in any order on a GPU",
    "SCATTER": "x.at[...].set(...) writes equal indices in any order on a GPU",
    "SCATTER_ND": "x.at[...].set(...) writes equal indices in any order on a GPU",
    "RNN": "jax.numpy's products round to TF32 on a GPU",
}
_OF_JAX = ("GATHER_ND", "SCATTER", "ROI", "MAX_UNPOOLING", "SLICE_GRAD")  # x.at[...].set(...)


@pytest.mark.parametrize("name", sorted(op.short_name for op in OPERATORS.values()))
def test_an_expression_is_its_operator(name: str, no_x64: None):
    """NumPy's where NumPy has it, in every function and direction."""
    if name in _NOT_ON_A_GPU and jax.default_backend() == "gpu":
        pytest.skip(_NOT_ON_A_GPU[name])
    library = jnp if name.startswith(_OF_JAX) else np
    data, kinds = Data(jax.devices()[0]), dict[str, Any]()
    for cell in cells([name], mebibytes=[0.0005], most_types=1):
        kinds.setdefault(re.sub(r"(axes|repeats)=\S+", "", cell.variant), cell)
    for cell in itertools.islice(kinds.values(), len(kinds) if NIGHTLY else -(-len(kinds) // 2)):
        ((*xs,), _) = data.sets(cell.function, 2)
        with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
            expression = expressions.EXPRESSIONS[name](cell.function, library)
            compiled = expression if library is np else compiled_soon(expression)
            found = compiled(*map(library.asarray, xs))
        ours = memory.as_tuple(compiled_soon(cell.function)(*xs))
        found = tuple(map(jnp.asarray, memory.as_tuple(found)))
        if name in expressions.RANDOM:
            ours, found = jax.tree.map(jnp.zeros_like, (ours, found))
        assert difference(ours, found) == ""


def test_the_kinds_of_kernels_share_the_time():
    """A kernel within a loop has the loop's time; two at once have half of it each."""
    text = """HloModule m
%fused (p: f32[4,4]) -> f32[4,4] {
  %p = f32[4,4]{1,0} parameter(0)
  %d = f32[4,4]{1,0} dot(%p, %p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %n = f32[4,4]{1,0} negate(%d)
}
%body (q: f32[4,4]) -> f32[4,4] {
  %q = f32[4,4]{1,0} parameter(0)
  ROOT %add.1 = f32[4,4]{1,0} add(%q, %q)
}
ENTRY %main (x: f32[4,4]) -> f32[4,4] {
  %x = f32[4,4]{1,0} parameter(0)
  %one = f32[4,4]{1,0} fusion(%x), kind=kLoop, calls=%fused
  %two = f32[4,4]{0,1} transpose(%one), dimensions={1,0}
  ROOT %turns = f32[4,4]{1,0} while(%two), condition=%cond, body=%body
}
"""
    kinds = kinds_of(text)
    names = ("one", "two", "turns", "add.1")
    assert [kinds[name] for name in names] == ["product", "copy", "loop", "elements"]
    spans = [("one", 0, 40), ("two", 20, 40), ("turns", 50, 90), ("add.1", 60, 80)]
    expected = {"product": 0.2, "copy": 0.2, "loop": 0.2, "elements": 0.2, REST: 0.2}
    assert shares(spans, kinds, 100) == pytest.approx(expected)


# Of Python 3.12 and later, at the first event of a GPU that JAX reads.
@pytest.mark.filterwarnings("ignore:builtin type event_stats:DeprecationWarning")
def test_a_profile_of_a_product():
    x = jnp.ones((256, 256), jnp.float32)
    program = jax.jit(lambda x: x @ x).lower(x).compile()
    found = shares_of(lambda: jax.block_until_ready(program(x)), program.as_text() or "")
    assert found["product"] > 0
    assert sum(found.values()) == pytest.approx(1)

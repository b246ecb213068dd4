"""The bench: what its cells are, what their times mean, what it prints; and the comparisons."""

import json
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import compare
import expressions
import families
import jax
import jax.numpy as jnp
import numpy as np
import peers
import pytest
import table
from click.testing import CliRunner, Result

import dml_jax
from dml_jax import OPERATORS, DmlError, Reduce, TensorDesc
from dml_jax.bench import measure, memory, report, roofline
from dml_jax.bench.arithmetic import operations
from dml_jax.bench.cells import REPRESENTATIVES, TYPES, Cell, cells
from dml_jax.bench.measure import Bench, Measured
from dml_jax.bench.memory import Data, jax_contenders, programs
from dml_jax.bench.timing import Contender, Mark, Times, interleaved, jax_contender
from dml_jax.cli import cli
from dml_jax.dispatch.model import load_model
from dml_jax.errors import install_command

ROOT = Path(__file__).parent.parent
QUICK = ["--mb", "0.004", "--seconds", "0.001"]


@pytest.fixture(autouse=True)
def little_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times of tests mean nothing: they need not be of data that no cache holds."""
    monkeypatch.setattr(memory, "MOST_SETS", 3)
    monkeypatch.setattr(measure, "COPIED", 2**16)


def bench(*words: str) -> Result:
    return CliRunner(env={"COLUMNS": None}).invoke(cli, ["bench", *words])


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
    assert {c.tensor.data_type.name for c in cells([name])} == {"FLOAT32", "FLOAT16", "UINT8"}


def test_an_operator_has_no_typical_use_of_a_type_that_it_refuses(monkeypatch):
    assert OPERATORS["DML_OPERATOR_TILE"].typical(100, "FLOAT64") == []
    assert {u.function.name for u in Reduce.typical(100, "UINT8")} == {  # pyright: ignore
        *("ARGMIN", "ARGMAX", "MIN", "MAX")  # the functions with UINT8 on the operator's page
    }
    with pytest.raises(DmlError, match=r"have one that TILE accepts .*, got FLOAT64"):
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
        assert cell.bytes_in == sum(a.nbytes for a in arrays)
        assert cell.bytes == cell.bytes_in + out


# The data.


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
    monkeypatch.setattr("dml_jax.bench.memory.is_queued", lambda device: queued)
    tensor = TensorDesc("FLOAT32", [8, 128])
    made = programs(lambda x: x * 2, [tensor], [tensor], jax.devices()[0], 3)
    assert made.sets == (3 if queued else 1)  # of which a call does all
    xs = [(jnp.full(tensor.sizes, k, jnp.float32),) for k in range(made.sets)]
    outs = [(jnp.zeros(tensor.sizes, jnp.float32),) for _ in xs]
    places = [out.unsafe_buffer_pointer() for (out,) in outs]
    results = made.donated(outs, xs)
    assert [result.unsafe_buffer_pointer() for (result,) in results] == places
    assert all(out.is_deleted() for (out,) in outs)
    assert [float(result[3, 3]) for (result,) in results] == [2.0 * k for k in range(made.sets)]
    assert made.allocated(*xs[0]).unsafe_buffer_pointer() != places[0]


@pytest.mark.parametrize("queued", [False, True])
def test_the_time_is_of_one_set(monkeypatch, queued: bool):
    monkeypatch.setattr("dml_jax.bench.memory.is_queued", lambda device: queued)
    tensor = TensorDesc("FLOAT32", [4])
    data, done = Data(jax.devices()[0]), []
    made = programs(lambda x: x, [tensor], [tensor], data.device, 4)
    counted = made._replace(donated=lambda outs, xs: done.extend(xs) or outs)
    inputs = [(jnp.full((4,), k, jnp.float32),) for k in range(4)]
    contender = jax_contenders(counted, inputs, [tensor], data)["donated"]
    clock = Clock(monkeypatch)
    call = contender.call

    def timed(index: int) -> None:
        before = len(done)
        call(index)
        clock.now += len(done) - before

    times = interleaved({"": Contender(timed, sets=contender.sets)}, 4)
    assert times[""].median == 1.0
    assert {float(x[0]) for (x,) in done} == {0.0, 1.0, 2.0, 3.0}


# The times.


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


def test_medians_and_quartiles_of_interleaved_samples(monkeypatch: pytest.MonkeyPatch):
    clock = Clock(monkeypatch)
    steady, sets = clock.spending(1.0)
    # Two calls to warm up, then five samples, each behind a call that does not count.
    counted = [1.0, 2.0, 3.0, 4.0, 100.0]
    uneven, _ = clock.spending(9.0, 9.0, *(t for sample in counted for t in (50.0, sample)))
    times = interleaved({"steady": steady, "uneven": uneven}, 4, samples=5, seconds=1e9)
    assert (times["steady"].median, times["steady"].samples, times["steady"].calls) == (1, 5, 1)
    assert (times["uneven"].low, times["uneven"].median, times["uneven"].high) == (2, 3, 4)
    assert set(sets) == {0, 1, 2, 3}  # the sets are gone through in turn


def test_short_calls_are_put_together_and_slow_ones_given_up(monkeypatch: pytest.MonkeyPatch):
    clock = Clock(monkeypatch)
    contenders = {
        name: clock.spending(s)[0]
        for name, s in {"fast": 1e-6, "slow": 5e-6, "slowest": 1e-4, "kept": 1e-4}.items()
    }
    times = interleaved(contenders, samples=9, least=3, sample_seconds=1e-3, keep={"kept"})
    assert times["fast"].median == pytest.approx(1e-6)
    assert times["fast"].calls == 1000
    counts = {name: t.samples for name, t in times.items()}
    assert counts == {"fast": 9, "slow": 3, "slowest": 3, "kept": 9}


def test_one_that_was_slow_once_is_not_given_up(monkeypatch: pytest.MonkeyPatch):
    clock = Clock(monkeypatch)
    # Two calls to warm up; before each sample one that does not count.
    spent = [1.0, 1.0, 1.0, 100.0, *[1.0] * 8]
    contenders = {"steady": clock.spending(1.0)[0], "once slow": clock.spending(*spent)[0]}
    times = interleaved(contenders, samples=5, seconds=1e9)
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


def test_what_is_queued_takes_what_the_device_takes(monkeypatch: pytest.MonkeyPatch):
    """However long it takes to begin, and the host to queue, and to hear that it is done."""
    contender = queueing(Clock(monkeypatch), queue=3e-5, work=1e-3)
    times = interleaved({"": contender}, samples=5, seconds=1e9)[""]
    assert times.calls > 1
    assert [times.low, times.median, times.high] == pytest.approx([1e-3] * 3)
    assert times.queueing is not None
    assert 0 < times.queueing < 0.1


@pytest.mark.parametrize("queue", [1e-3, 1.0])
def test_what_waits_for_the_host_takes_what_the_host_takes(monkeypatch, queue: float):
    contender = queueing(Clock(monkeypatch), queue, work=1e-5)
    times = interleaved({"": contender}, samples=5, seconds=1e9, sample_seconds=2e-2)[""]
    # A mark is queued, and heard of, beside the calls.
    assert queue <= times.median <= queue * (1 + 2 / times.calls)


def test_several_devices_are_through_when_all_are(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("dml_jax.bench.timing.is_queued", lambda device: True)
    devices, results = jax.devices()[:2], []
    contender = jax_contender(lambda _: results.append(jnp.zeros(3)) or results[-1], *devices)
    assert contender.mark is not None
    mark = contender.mark()
    numbers = mark.wait()
    assert mark.passed()
    assert [number.devices() for number in numbers] == [{device} for device in devices]  # pyright: ignore
    took, queued = contender.sample(iter(range(9)), 3)
    assert took > 0 and queued is not None and len(results) == 4


def test_shares_are_of_the_copy_that_was_timed_in_turn():
    run = Bench(jax.devices()[0], 0.001, memory.WAYS)
    with jax.enable_x64(False):
        (measured,) = run.run(cells(["REDUCE"], ["FLOAT32"], [1], 1))
    found = measured.to_json()
    assert found["copy_gb_s"] > 0
    assert set(found["times"]) == {"donated", "allocated"}
    for times in found["times"].values():
        rate = (found["bytes_in"] + found["bytes_out"]) / times["median_us"] / 1e3
        assert times["gb_s"] == pytest.approx(rate, rel=0.02, abs=0.01)
        assert times["of_copy"] == pytest.approx(rate / found["copy_gb_s"], rel=0.05, abs=1e-3)
        assert times["low_us"] <= times["median_us"] <= times["high_us"]


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
def test_data_is_more_than_the_last_caches_hold(
    monkeypatch: pytest.MonkeyPatch, cache: int | None, free: int | None, rotated: int
):
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
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert re.match(r"copy [\d.,]+ GB/s \(FLOAT32\)", lines[1])
    head = " ".join(lines[2].split())
    assert head == "Operator Largest tensor MiB Time Allocated GB/s Copy Of copy"
    rows = [line for line in lines if "FLOAT32[" in line]
    assert len(rows) == 4  # two blocks, two orders
    assert re.search(r"FLOAT32\[[\d,]+\] +[\d.]+ +[\d.]+ [mu]s ± *\d+% +[\d.]+ [mu]s +", rows[0])
    assert any(line.startswith("MiB: bytes that must move") for line in lines)


def test_small_cells_are_not_summed_up(tmp_path: Path):
    words = ["--operator", "JOIN", "--dtype", "FLOAT32", "--seconds", "0.001", "--quick"]
    small = bench(*words, "--mb", "0.01")
    assert "No cell moves 1 MiB or more" in small.stdout
    picture = tmp_path / "chart.svg"
    both = bench(*words, "--mb", "0.01", "--mb", "1", "-o", str(picture))
    assert re.search(r"cells of 1 MiB or more reach [\d.]+ \(geometric mean over 1\)", both.stdout)
    assert re.search(r"The lowest: [\d.]+, JOIN axis=1 FLOAT32\[1,64,64,64\]", both.stdout)
    text = picture.read_text()
    assert re.search(r"FLOAT32: copy [\d.,]+ GB/s", text)
    assert text.count("JOIN axis=1") == 1


def measured(copy: float, rate: float) -> Measured:
    """A cell that moves `rate` GB/s, beside a copy of `copy` GB/s."""
    cell = Cell(
        "TILE", "", dml_jax.Tile.infer(input_tensor=TensorDesc("FLOAT32", [2**18]), repeats=[1])
    )
    seconds = cell.bytes / rate / 1e9
    return Measured(cell, {"donated": Times(*[seconds] * 3, 1, 1, None)}, copy * 1e9, 1e3, 1e12)


@pytest.mark.parametrize("picture", ["bandwidth", "roofline"])
def test_table_and_chart_agree(picture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A dot has the part of its limit that the table says, though the copy beside it was slow."""
    pytest.importorskip("matplotlib")
    from matplotlib.axes import Axes

    both, dots = [measured(4, 3.9), measured(8, 2)], []
    monkeypatch.setattr(Axes, "scatter", lambda self, x, y, **_: dots.append((x, y)))
    if picture == "bandwidth":
        report.draw("", both, tmp_path / "x.svg")
        shares = [x / 6 for x, _ in dots]  # the line is the median
    else:
        roofline.draw("", both, tmp_path / "x.svg")
        shares = [y / (6 * x) for x, y in dots]
    assert shares == pytest.approx([3.9 / 4, 2 / 8])
    rows = report.cell_table(both, roofline=picture == "roofline")
    assert list(rows.columns[-1].cells) == ["0.97", "0.25"]


def test_a_busy_machine_is_called_so():
    said = report.busy([measured(4, 1), measured(8, 1)])
    assert said == "The FLOAT32 copy varied from 4 to 8 GB/s: the machine is busy."
    assert report.busy([measured(4, 1), measured(4.1, 1)]) == ""


def test_an_interrupted_run_says_how_much_it_wrote(tmp_path: Path, monkeypatch: Any):
    def interrupted(self: Bench, chosen: list[Cell]) -> Iterator[Measured]:
        yield measured(4, 1)
        raise KeyboardInterrupt

    monkeypatch.setattr(Bench, "run", interrupted)
    target = tmp_path / "found.json"
    result = bench("--operator", "JOIN", "--dtype", "FLOAT32", "--json", str(target), *QUICK)
    count = len(cells(["JOIN"], ["FLOAT32"], [0.004]))
    assert result.exit_code == 130
    assert f"Written to '{target}' (1 of {count} cells)" in result.stdout
    assert json.loads(target.read_text())["interrupted"] is True


def test_progress_is_on_stderr(monkeypatch: pytest.MonkeyPatch):
    """Every five seconds where it is no terminal."""
    seconds = iter(range(0, 1000, 3))
    clock = SimpleNamespace(monotonic=lambda: next(seconds))
    monkeypatch.setattr(sys.modules["dml_jax.cli.bench"], "time", clock)
    result = bench("--operator", "TILE", "--dtype", "FLOAT32", *QUICK, "--json")
    assert re.match(r"\[2/3\] TILE repeats=\[4,1,1,1\] FLOAT32\[", result.stderr)
    assert len(json.loads(result.stdout)["cells"]) == 3


def test_quick_ends_in_half_a_minute(monkeypatch: pytest.MonkeyPatch):
    seconds = iter(range(0, 1000, 7))
    clock = SimpleNamespace(monotonic=lambda: next(seconds))
    monkeypatch.setattr(sys.modules["dml_jax.cli.bench"], "time", clock)
    result = bench("--quick", *QUICK)
    assert result.exit_code == 0, result.output
    assert f"Time is up; not measured: {len(REPRESENTATIVES) - 2} cells" in result.stderr
    assert len([line for line in result.stdout.splitlines() if "FLOAT32[" in line]) >= 2


def test_the_command_writes_json_and_pictures(tmp_path: Path):
    target, picture = tmp_path / "found.json", tmp_path / "deep" / "chart.png"
    words = ["--operator", "SPLIT", "--dtype", "UINT8", "--dtype", "INT64", *QUICK, "-v"]
    result = bench(*words, "-a", "cpu", "--json", str(target), "-o", str(picture))
    assert result.exit_code == 0, result.output
    found = json.loads(target.read_text())
    known = found["environment"]
    assert (known["jax"], known["platform"]) == (jax.__version__, "cpu")
    assert "xla_force_host_platform_device_count" in known["flags"]["XLA_FLAGS"]
    assert {c["operator"] for c in found["cells"]} == {"SPLIT"}
    assert {c["data_type"] for c in found["cells"]} == {"UINT8", "INT64"} == set(found["copy_gb_s"])
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert f"Drawn to '{picture}', in a new folder\n" in result.stdout


@pytest.mark.parametrize("name", ["pixel_shuffle.json", "-"])
def test_a_model_s_dispatchables_are_measured(name: str, monkeypatch: pytest.MonkeyPatch):
    model = ROOT / "examples" / "models" / "pixel_shuffle.json"
    monkeypatch.chdir(model.parent)
    words = ["bench", "--model", name, "--json", "--seconds", "0.001"]
    result = CliRunner(env={"COLUMNS": None}).invoke(cli, words, input=model.read_text())
    assert result.exit_code == 0, result.output
    names = {c["operator"] for c in json.loads(result.stdout)["cells"]}
    assert names == set(load_model(model).dispatchables)


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--operator", "REDUCT"], 2, "did you mean 'REDUCE'?"),
        (["--dtype", "FLOAT33"], 2, "did you mean 'FLOAT32'?"),
        (["--operator", "softmax"], 2, "such as ACTIVATION_SOFTMAX, ACTIVATION_SOFTMAX1), got"),
        (["--operator", "TILE,Join"], 2, "(one each: --operator TILE --operator Join), got 'TILE,"),
        (["--operator", "jnp.sum"], 2, "(such as REDUCE), got 'jnp.sum'"),
        (["--operator", "--seconds", "1"], 2, "got '--seconds'"),
        (["--dtype", "float33"], 2, "got 'float33'"),
        (["--mb", "16GB"], 2, "expected a number without a unit, such as 16, got '16GB'"),
        (["--mb", "0"], 2, "0.0 is not in the range"),
        (["--operator", "TILE", "--dtype", "UINT4"], 1, "have one that TILE accepts"),
        (["--device", "tpu:9"], 1, "no device matches 'tpu:9'"),
        (["-a", "tpu:9"], 1, "no device matches 'tpu:9'"),
        (["--model", "nowhere.json"], 1, "nowhere.json"),
        (["--model", "m.json", "--dtype", "INT8"], 2, "stands without --operator"),
        (["-o", "chart.gif"], 2, "end in .svg or .png"),
        (["--seconds", "0"], 2, "0.0 is not in the range"),
    ],
)
def test_what_is_wrong_is_said(words: list[str], status: int, message: str):
    result = bench(*words)
    assert result.exit_code == status, result.output
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_a_picture_needs_matplotlib(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = bench("-o", "chart.svg")
    assert result.exit_code == 1
    assert install_command("show") in result.stderr


# The roofline.


def test_operations_are_those_of_the_textbook():
    """A product of [m, k] and [k, n] takes m n k multiplications and as many additions."""
    a, b = TensorDesc("FLOAT32", [1, 1, 64, 32]), TensorDesc("FLOAT32", [1, 1, 32, 16])
    plain = {"trans_a": "NONE", "trans_b": "NONE", "alpha": 1, "beta": 0}
    matrices = dml_jax.Gemm.infer(a_tensor=a, b_tensor=b, **plain)
    assert operations(matrices, matrices.inputs) == 2 * 64 * 32 * 16
    steps, sequences, width, hidden = 50, 4, 8, 32
    sizes = [1, steps, sequences, width], [1, 1, hidden, width], [1, 1, hidden, hidden]
    x, weight, recurrence = (TensorDesc("FLOAT32", s) for s in sizes)
    network = dml_jax.Rnn.infer(
        input_tensor=x,
        weight_tensor=weight,
        recurrence_tensor=recurrence,
        activation_descs=[dml_jax.ActivationTanh.fused()],
        direction="FORWARD",
    )
    products = 2 * steps * sequences * hidden * (width + hidden)
    assert products <= operations(network, network.inputs) < 1.2 * products
    copy = dml_jax.Tile.infer(input_tensor=a, repeats=[1, 1, 2, 1])
    assert operations(copy, copy.inputs) == 0


def test_the_roof_is_the_lower_limit():
    """100 bytes at 10 a second take 10 s; 40 operations at 8 a second take 5 s."""
    tensor = TensorDesc("UINT8", [50])
    cell = Cell("TILE", "", dml_jax.Tile.infer(input_tensor=tensor, repeats=[1]))
    times = {"donated": Times(20.0, 20.0, 20.0, 1, 1, None)}
    assert Measured(cell, times, 10, 40, 8).of_roof() == 0.5
    assert Measured(cell, times, 10, 400, 8).of_roof() == 2.5
    assert Measured(cell, times, 10).of_roof() == 0.5


def test_the_roofline_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(measure, "MULTIPLIED", 64)
    picture, target = tmp_path / "roof.svg", tmp_path / "roof.json"
    words = ["--operator", "GEMM", "--operator", "TILE", "--roofline", "-o", str(picture)]
    result = bench(*words, "--dtype", "FLOAT32", "--json", str(target), *QUICK)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert re.fullmatch(r"product [\d.,]+ GFLOP/s \(FLOAT32\)", lines[2])
    assert lines[3].split()[-6:] == ["MiB", "FLOP/B", "Time", "GFLOP/s", "Of", "roof"]
    assert re.search(
        r"The ridge, where both limits meet, in FLOP/B: [\d.]+ \(FLOAT32\)", result.stdout
    )
    found = json.loads(target.read_text())
    assert found["product_gflop_s"]["FLOAT32"] > 0
    product = next(c for c in found["cells"] if c["operator"] == "GEMM")
    assert product["operations"] == 2 * product["sizes"][-1] ** 3
    text = picture.read_text()
    assert "GEMM NONE" in text and "TILE" not in text
    assert re.search(r"ridge [\d.]+ FLOP/B", text)


# The package.


# The comparisons.


def test_families_are_compared_with_their_expressions(tmp_path: Path, capsys, monkeypatch):
    monkeypatch.delitem(expressions.EXPRESSIONS, "ARGMIN")
    target = tmp_path / "families.json"
    words = [str(target), "--mb", "0.01", "--seconds", "0.001", "--variants", "1"]
    words += ["--dtype", "FLOAT32"]
    families.main([*words, "--family", "reduction", "--family", "element_wise"])
    found = json.loads(target.read_text())
    assert found["without_expression"] == ["ARGMIN"]
    assert (found["failed"], found["without_cells"]) == ({}, [])
    assert {c["family"] for c in found["cells"].values()} == {"reduction", "element_wise"}
    for cell in found["cells"].values():
        assert cell["differs"] == ""
        for way, ratio in cell["ratios"].items():
            ours, plain = (cell["times"][f"{who} {way}"]["median_us"] for who in ("ours", "plain"))
            assert ratio == pytest.approx(plain / ours, rel=0.01, abs=1e-2)
    told = capsys.readouterr().out
    assert "without an expression in benchmarks/expressions.py: ARGMIN" in told
    assert re.search(r"^reduction +2 ( +[\d.]+){3}$", told, re.MULTILINE)
    families.main([*words, "--operator", "JOIN", "--budget", "0"])
    assert json.loads(target.read_text())["left"] == 1


def test_a_family_s_wrong_answer_is_seen():
    see, f32 = families.difference, jnp.float32
    assert see([f32([1.0, jnp.nan])], [f32([1.00001, jnp.nan])]) == ""
    assert see([f32([1.0, jnp.nan])], [f32([1.0, 2.0])]).endswith(
        "differs in 50.0% of its elements"
    )
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
    data, seen = Data(jax.devices()[0]), set()
    for cell in cells([name], mebibytes=[0.0005], most_types=1):
        kind = re.sub(r"(axes|repeats)=\S+", "", cell.variant)
        if kind in seen:
            continue
        seen.add(kind)
        ((*xs,), _) = data.sets(cell.function, 2)
        with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
            expression = expressions.EXPRESSIONS[name](cell.function, library)
            compiled = expression if library is np else jax.jit(expression)
            found = compiled(*map(library.asarray, xs))
        ours = memory.as_tuple(jax.jit(cell.function)(*xs))
        found = tuple(map(jnp.asarray, memory.as_tuple(found)))
        if name in expressions.RANDOM:
            ours, found = jax.tree.map(jnp.zeros_like, (ours, found))
        assert families.difference(ours, found) == ""


@pytest.mark.parametrize("kind", [*table.CHAINS, "VMAP"])
def test_chains_and_batches_are_their_expressions(kind: str, no_x64: None):
    data = Data(jax.devices()[0])
    for cell in table.cells([kind], limit=4096, every=25):
        arrays = [data.array(t, (table.LOW, table.HIGH)) for t in cell.function.inputs]
        ours, plain = (
            memory.as_tuple(jax.jit(f)(*arrays))
            for f in (cell.function, expressions.expression(cell.function))
        )
        assert families.difference(ours, plain) == "", cell.name


def test_the_comparison_merges_and_reports(tmp_path: Path, capsys, no_x64: None):
    target = tmp_path / "results.json"
    words = [str(target), "--limit", "0.004", "--seconds", "0.001", "--fresh-pages"]
    words += ["--peer", "jnp", "--peer", "numpy", "--dtype", "FLOAT32"]
    compare.main([*words, "--operator", "SPLIT", "--quick"])
    first = json.loads(target.read_text())["cells"]
    compare.main([*words, "--operator", "REDUCE", "--match", "MAX [1] FLOAT32[1,1"])
    found = json.loads(target.read_text())
    assert set(first) < set(found["cells"])
    assert {c["run"] for c in first.values()} == {"1"} == {found["cells"][c]["run"] for c in first}
    assert {found["cells"][c]["run"] for c in found["cells"].keys() - first.keys()} == {"2"}
    for run in found["runs"].values():
        assert run["commit"] == compare.commit()
        assert run["bandwidth"]["gb_s"]["FLOAT32"]["copy"] > 0
    compare.main([*words, "--operator", "SPLIT", "--quick"])
    found = json.loads(target.read_text())
    assert set(found["runs"]) == {"2", "3"}  # of the first nothing is left
    expected = {"allocated", "bound", "jnp allocated"}
    expected |= {"numpy bound"} if jax.default_backend() == "cpu" else set()
    for cell in found["cells"].values():
        assert expected <= set(cell["times"])
        for way in ("allocated", "bound"):
            ratio = cell["ratios"][way]
            best = cell["times"][f"{ratio['best_peer']} {way}"]["median_us"]
            assert ratio["ratio"] == pytest.approx(best / cell["times"][way]["median_us"], abs=1e-3)
        assert "notes" not in cell
    capsys.readouterr()
    compare.main([str(target), "--report"])
    told = capsys.readouterr().out
    assert f"{len(found['cells'])} cells" in told
    assert "run 3, " in told


def test_the_comparison_sees_a_wrong_answer(no_x64: None):
    tensor = TensorDesc("FLOAT32", [2, 3])
    op = Reduce(
        function="ARGMAX",
        input_tensor=tensor,
        output_tensor=TensorDesc("UINT32", [2, 1]),
        axes=[1],
    )
    cell, x = table.Cell("REDUCE", "", op), jnp.array([[1.0, 3, 3], [2, 1, 0]])
    ours = [jnp.array([[1], [0]], jnp.uint32)]
    see = peers.disagreement
    assert see(cell, [x], ours, [np.array([[2], [0]])]) == ""  # another of the equal ones
    assert see(cell, [x], ours, [np.array([[0], [0]])]).startswith("output 0 at [0, 0]: 1.0")
    total = table.Cell("REDUCE", "", Reduce.infer(function="SUM", input_tensor=tensor, axes=[1]))
    sums = jnp.array([[7.0], [np.nan]], jnp.float32)
    assert see(total, [x], [sums], [np.asarray(sums) * np.float32(1 + 1e-5)]) == ""
    assert see(total, [x], [sums], [np.array([[7.1], [np.nan]], np.float32)])
    assert see(total, [x], [sums], [np.array([[7.0], [3.0]], np.float32)])

"""The bench: every operator has cells, bytes and fractions are what they say, reports are whole."""

import json
import math
import re
import sys
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner, Result
from dml_jax.bench.plain import expression
from dml_jax.bench.roofline import Bench, Data, jax_contenders, programs
from dml_jax.bench.transformed import Backward
from forms import compiled_soon
from samples import SAMPLES

from dml_jax import OPERATORS, DmlError, Reduce, TensorDesc
from dml_jax.bench import cells as table
from dml_jax.bench import roofline
from dml_jax.bench.cells import CHAINS, TRANSFORMED, Cell, cells, small_cells
from dml_jax.bench.timing import Contender, Mark, Times, interleaved, jax_contender
from dml_jax.cli import cli
from dml_jax.dispatch.model import load_model

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
TINY = 4096  # bytes of the largest tensor
QUICK = ["--limit", "0.004", "--seconds", "0.001"]


def bench(*words: str) -> Result:
    return CliRunner().invoke(cli, ["bench", *words])


@pytest.fixture(scope="module")
def all_cells() -> list[Cell]:
    return cells(limit=200_000_000)


def test_every_operator_has_cells(all_cells: list[Cell]):
    names = {op.short_name for op in OPERATORS.values()}
    kinds = {cell.kind for cell in all_cells}
    untransformed = names | set(CHAINS)
    assert kinds == untransformed | set(TRANSFORMED)
    assert {cell.kind for cell in small_cells()} == untransformed
    assert len({cell.name for cell in all_cells}) == len(all_cells)


def test_the_table_has_what_a_roofline_needs(all_cells: list[Cell]):
    """Every function and kind of axes, every block and order, each type; the sizes asked for."""
    assert len({c.group for c in all_cells if c.kind == "REDUCE"}) == 12
    axes = {c.variant.partition(" ")[2] for c in all_cells if c.kind == "REDUCE"}
    assert {"[3]", "[1]", "[0]", "[2, 3]", "[1, 2]", "[0, 2, 3]", "[0, 1, 2, 3]"} <= axes
    for kind in ("DEPTH_TO_SPACE1", "SPACE_TO_DEPTH1"):
        variants = {c.variant for c in all_cells if c.kind == kind}
        assert len(variants) == 8, variants  # blocks 2, 3, 4, 8 in two orders
    for kind in ("SPLIT", "JOIN"):
        assert {c.variant for c in all_cells if c.kind == kind} >= {f"axis {d}" for d in range(4)}
    for kind in ("ELEMENT_WISE_CLIP", "TILE", "DEPTH_TO_SPACE1", "REDUCE", "ARGMAX"):
        types = {c.tensor.data_type.name for c in all_cells if c.kind == kind}
        assert types == {"FLOAT32", "FLOAT16", "INT32", "UINT8"}
    sizes = {c.tensor.sizes for c in cells(limit=2**31)}
    wanted = [(8, 64, 256, 256), (32, 3, 1080, 1920), (1, 1, 4096, 4096), (1, 129280)]
    assert {*wanted, (4096, 7), (7, 4096)} <= sizes


@pytest.mark.parametrize("limit", [TINY, 10**6, 200_000_000])
def test_no_tensor_is_larger_than_the_limit(limit: int):
    found = cells(limit=limit)
    for cell in found:
        for tensor in (*cell.function.inputs, *cell.function.outputs):
            assert math.prod(tensor.sizes) * tensor.dtype.itemsize <= limit
    assert {cell.kind for cell in found} >= {op.short_name for op in OPERATORS.values()}


def test_bytes_are_those_of_the_arrays():
    """As many as NumPy's arrays have that go in and come out."""
    for cell in cells(limit=TINY, every=5):
        arrays = [np.zeros(t.sizes, t.dtype) for t in cell.function.inputs]
        results = jax.tree.leaves(jax.eval_shape(cell.function, *arrays))
        out = sum(np.empty(r.shape, r.dtype).nbytes for r in results)
        assert cell.bytes_in == sum(a.nbytes for a in arrays)
        assert cell.bytes == cell.bytes_in + out


def test_types_and_sizes_are_taken_as_given():
    found = cells(["REDUCE"], [jnp_type("INT64")], [(2, 3)])
    assert {c.tensor.sizes for c in found} == {(2, 3)}
    assert {c.group for c in found} == {
        f"REDUCE {f}" for f in ("ARGMAX", "ARGMIN", "L1", "MAX", "MIN", "MULTIPLY", "SUM")
    } | {"REDUCE SUM_SQUARE"}  # the functions that take INT64 on their page
    with pytest.raises(DmlError, match="did you mean 'REDUCE'"):
        cells(["REDUCES"])
    with pytest.raises(DmlError, match=r"be taken by DEPTH_TO_SPACE .*, got"):
        cells(["DEPTH_TO_SPACE"], sizes=[(4, 4)])


def jnp_type(name: str):
    return TensorDesc(name, [1]).data_type


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_the_plain_expression_is_the_operator(name: str, no_x64: None):
    """Against the reference in float64: NumPy's in every variant and type, jnp's in each group."""
    data, seen = Data(jax.devices()[0]), set()
    for cell in cells([name], limit=TINY):
        if (cell.variant, cell.tensor.data_type) in seen:
            continue
        libraries = [np] if cell.group in seen else [np, jnp]
        seen |= {(cell.variant, cell.tensor.data_type), cell.group}
        op = cell.function
        arrays = [np.asarray(data.array(t)) for t in op.inputs]
        wanted = SAMPLES[name].reference(op, *arrays)
        for xp in libraries:
            results = expression(op, xp)(*arrays)
            results = results if isinstance(results, (tuple, list)) else [results]
            for found, expected in zip(results, wanted, strict=True):
                assert (found.shape, found.dtype) == (expected.shape, expected.dtype), cell.name
                tolerance = {"float16": 4e-3, "float32": 2e-5}.get(expected.dtype.name, 0)
                if "ScaleBias" in cell.variant:  # in float32, the reference in Python's numbers
                    tolerance = max(tolerance, 1e-6)
                np.testing.assert_allclose(
                    found, expected, rtol=tolerance, atol=tolerance, err_msg=cell.name
                )


@pytest.mark.parametrize("kind", CHAINS)
def test_chains_are_their_operators(kind: str, no_x64: None):
    cell, data = cells([kind], limit=TINY)[-1], Data(jax.devices()[0])
    arrays = [data.array(t) for t in cell.function.inputs]
    found = expression(cell.function, np)(*map(np.asarray, arrays))
    np.testing.assert_allclose(found, cell.function(*arrays), rtol=4e-3)


@pytest.mark.parametrize("kind", TRANSFORMED)
def test_transformed_operators_are_transformed_expressions(kind: str, no_x64: None):
    """JAX's derivatives and batches of the plain expressions; each of the table's variants."""
    data = Data(jax.devices()[0])
    for cell in cells([kind], limit=TINY):
        arrays = [data.array(t) for t in cell.function.inputs]
        found, expected = (
            jax.tree.leaves(compiled_soon(f)(*arrays))
            for f in (cell.function, expression(cell.function))
        )
        tolerance = 4e-3 if cell.tensor.data_type.name == "FLOAT16" else 1e-5
        for ours, plain, tensor in zip(found, expected, cell.function.outputs, strict=True):
            assert (ours.shape, ours.dtype) == (tensor.sizes, tensor.dtype), cell.name
            np.testing.assert_allclose(ours, plain, rtol=tolerance, err_msg=cell.name)


def test_only_what_a_derivative_depends_on_is_read():
    """The derivative of what is linear takes the outputs' gradients alone."""
    read = {
        cell.variant.split()[0] + " " + cell.variant.split()[1]
        for cell in cells(["BACKWARD"], limit=TINY)
        if cell.variant.startswith("REDUCE") and cell.bytes_in > cell.bytes_out
    }
    assert read == {"REDUCE L2", "REDUCE MAX", "REDUCE LOG_SUM_EXP", "REDUCE MULTIPLY"}
    with pytest.raises(DmlError, match="be floats, to have a derivative, got INT32"):
        Backward(Reduce.infer(function="SUM", input_tensor=TensorDesc("INT32", [4]), axes=[0]))


def test_random_data_is_fresh_and_in_range():
    data, tensor = Data(jax.devices()[0]), TensorDesc("FLOAT32", [64, 64])
    first, second = (np.asarray(data.array(tensor)) for _ in range(2))
    for array in (first, second):
        assert array.min() >= table.LOW
        assert array.max() < table.HIGH
        assert len(np.unique(array)) > 4000  # of 4096
    assert (first != second).mean() > 0.99
    assert np.asarray(data.array(TensorDesc("INT8", [4096]))).min() < -100
    whole = np.asarray(data.array(TensorDesc("INT32", [4096])))
    assert whole.min() < -(2**30)
    assert whole.max() > 2**30


@pytest.mark.parametrize("queued", [False, True])
def test_outputs_that_are_bound_are_written_where_they_lie(monkeypatch, queued: bool):
    monkeypatch.setattr("dml_jax.bench.roofline.is_queued", lambda device: queued)
    tensor = TensorDesc("FLOAT32", [8, 128])
    made = programs(lambda x: x * 2, [tensor], [tensor], jax.devices()[0], 3)
    assert made.sets == (3 if queued else 1)  # of which a call does all
    xs = [(jnp.full(tensor.sizes, k, jnp.float32),) for k in range(made.sets)]
    outs = [(jnp.zeros(tensor.sizes, jnp.float32),) for _ in xs]
    places = [out.unsafe_buffer_pointer() for (out,) in outs]
    results = made.bound(outs, xs)
    assert [result.unsafe_buffer_pointer() for (result,) in results] == places
    assert all(out.is_deleted() for (out,) in outs)
    assert [float(result[3, 3]) for (result,) in results] == [2.0 * k for k in range(made.sets)]
    assert made.allocated(*xs[0]).unsafe_buffer_pointer() != places[0]


@pytest.mark.parametrize("queued", [False, True])
def test_the_time_is_of_one_set(monkeypatch, queued: bool):
    monkeypatch.setattr("dml_jax.bench.roofline.is_queued", lambda device: queued)
    tensor = TensorDesc("FLOAT32", [4])
    data, done = Data(jax.devices()[0]), []
    made = programs(lambda x: x, [tensor], [tensor], data.device, 4)
    counted = replace(made, bound=lambda outs, xs: done.extend(xs) or outs)
    inputs = [(jnp.full((4,), k, jnp.float32),) for k in range(4)]
    contender = jax_contenders(counted, inputs, [tensor], data)["bound"]
    clock = Clock(monkeypatch)
    call = contender.call

    def timed(index: int) -> None:
        before = len(done)
        call(index)
        clock.now += len(done) - before

    times = interleaved({"": replace(contender, call=timed, mark=None)}, 4)
    assert times[""].median == 1.0
    assert {float(x[0]) for (x,) in done} == {0.0, 1.0, 2.0, 3.0}


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
    assert counts == {"fast": 9, "slow": 3, "slowest": 2, "kept": 9}


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


def test_fractions_are_of_what_was_measured_beside():
    cell = cells(["REDUCE"], limit=2**20, every=1000)[0]
    run = Bench(jax.devices()[0], 0.001, 2**20)
    with jax.enable_x64(False):
        (measured,) = run.run([cell])
    found = measured.to_json()
    assert found["bytes_in"] > 8 * found["bytes_out"]
    assert found["limit"] == "read"
    for way in ("allocated", "bound"):
        times = found["times"][way]
        rate = (found["bytes_in"] + found["bytes_out"]) / times["median_us"] / 1e3
        assert times["gb_s"] == pytest.approx(rate, rel=0.02, abs=0.01)
        limits = {"of_limit": "read", "of_copy": "copy", "of_equal_copy": "equal_copy"}
        for fraction, limit in limits.items():
            assert times[fraction] == pytest.approx(
                rate / found[f"{limit}_gb_s"], rel=0.1, abs=1e-3
            )
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
    monkeypatch.setattr(roofline, "last_cache_bytes", lambda: cache)
    monkeypatch.setattr(roofline, "host_bytes", lambda: free)
    roofline.rotated_on_cpu.cache_clear()
    cpu = jax.devices("cpu")[0]
    try:
        assert roofline.sets_moving(2**26, cpu) == rotated / 2**26
        assert roofline.sets_moving(2**40, cpu) == 2
        assert roofline.sets_moving(1, cpu) == roofline.MOST_SETS
        assert roofline.References(Data(cpu), 2**26).sets == rotated / 2**27
    finally:
        roofline.rotated_on_cpu.cache_clear()


def test_a_copy_of_as_many_bytes(monkeypatch: pytest.MonkeyPatch):
    """Of at most 1024 elements less, and never more than the large one; its rate is of its own."""
    second = Times(1.0, 1.0, 1.0, 1, 1, None)
    monkeypatch.setattr(
        "dml_jax.bench.roofline.interleaved", lambda given, *_, **__: dict.fromkeys(given, second)
    )
    run = Bench(jax.devices()[0], 0.001, 2**16)
    for count, copied in ((1, 1), (1000, 1000), (2047, 1024), (5000, 4096), (2**20, 2**14)):
        (cell,) = cells(["ELEMENT_WISE_CLIP1"], [jnp_type("FLOAT32")], [(count,)])
        (measured,) = run.run([cell])
        assert measured.equal_copy == 2 * 4 * copied
        assert measured.copy == 2 * 2**16


def test_the_command_prints_a_table():
    result = bench("--operator", "tile", "--quick", "--dtype", "float32", *QUICK)
    assert result.exit_code == 0, result.output
    assert re.search(r"FLOAT32 +[\d.]+ +[\d.]+", result.stdout)
    rows = [line for line in result.stdout.splitlines() if " TILE " in line]
    assert len(rows) >= 2
    assert re.search(r"[\d.]+ [mu]s ± *\d+%.* of copy", rows[0])
    assert "describe" in result.stdout
    assert result.stderr == ""


def test_the_command_writes_json_and_pictures(tmp_path: Path):
    target, picture = tmp_path / "found.json", tmp_path / "deep" / "roofline.svg"
    words = ["--operator", "CHAINS", "--dtype", "FLOAT32", "--quick", *QUICK]
    result = bench(*words, "--json", str(target), "-o", str(picture))
    assert result.exit_code == 0, result.output
    found = json.loads(target.read_text())
    known = found["environment"]
    assert (known["jax"], known["platform"]) == (jax.__version__, jax.default_backend())
    assert "xla_force_host_platform_device_count" in known["flags"]["XLA_FLAGS"]
    assert {c["kind"] for c in found["cells"]} == set(CHAINS)
    assert found["overhead"][0]["compile_ms"] > 0
    assert {"copy", "memcpy"} < set(found["bandwidth"]["gb_s"]["FLOAT32"])
    text = picture.read_text()
    assert text.startswith("<?xml")
    for kind in CHAINS:
        assert kind.replace(">", "&gt;") in text
    words[1] = "SPLIT"
    again = bench(*words, "--no-overhead", "--json", "-", "-o", str(tmp_path / "r.png"))
    assert json.loads(again.stdout)["overhead"] == []
    assert (tmp_path / "r.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["pixel_shuffle.json", "-"])
def test_a_model_s_dispatchables_are_measured(name: str, monkeypatch: pytest.MonkeyPatch):
    model = Path(__file__).parent.parent / "examples" / "models" / "pixel_shuffle.json"
    monkeypatch.chdir(model.parent)
    words = ["bench", "--model", name, "--json", "--seconds", "0.001"]
    result = CliRunner().invoke(cli, words, input=model.read_text())
    assert result.exit_code == 0, result.output
    names = {c["variant"] for c in json.loads(result.stdout)["cells"]}
    assert names == set(load_model(model).dispatchables)


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--operator", "REDUCT"], 2, "did you mean 'REDUCE'?"),
        (["--dtype", "FLOAT33"], 2, "did you mean 'FLOAT32'?"),
        (["--shape", "8x8"], 2, "expected sizes such as 8,64,256,256"),
        (["--shape", "0,3"], 2, "Sizes[0] to be in [1, 4294967295], got 0"),
        (["--operator", "TILE", "--dtype", "UINT4"], 1, "be taken by TILE (`dml-jax operators"),
        (["--device", "tpu:9"], 1, "be part of a device's name"),
        (["--model", "nowhere.json"], 1, "nowhere.json"),
        (["--model", "m.json", "--dtype", "INT8"], 2, "stands without --operator"),
        (["-o", "roofline.gif"], 1, "end in .svg or .png"),
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
    result = bench("-o", "roofline.svg")
    assert result.exit_code == 1
    assert 'pip install "dml-jax[show]"' in result.stderr


# The comparison.


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import compare

    return compare


def test_the_comparison_merges_and_reports(compare, tmp_path: Path, capsys, no_x64: None):
    target = tmp_path / "results.json"
    words = [str(target), "--limit", "0.004", "--seconds", "0.001", "--fresh-pages"]
    words += ["--peer", "jnp", "--peer", "numpy"]
    compare.main([*words, "--operator", "SPLIT", "--quick"])
    first = json.loads(target.read_text())["cells"]
    compare.main([*words, "--operator", "REDUCE", "--match", "MAX [1] FLOAT32"])
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


def test_the_comparison_sees_a_wrong_answer(compare, no_x64: None):
    tensor = TensorDesc("FLOAT32", [2, 3])
    op = Reduce(
        function="ARGMAX",
        input_tensor=tensor,
        output_tensor=TensorDesc("UINT32", [2, 1]),
        axes=[1],
    )
    cell, x = Cell("REDUCE", "", op), jnp.array([[1.0, 3, 3], [2, 1, 0]])
    ours = [jnp.array([[1], [0]], jnp.uint32)]
    see = compare.peers.disagreement
    assert see(cell, [x], ours, [np.array([[2], [0]])]) == ""  # another of the equal ones
    assert see(cell, [x], ours, [np.array([[0], [0]])]).startswith("output 0 at [0, 0]: 1.0")
    total = Cell("REDUCE", "", Reduce.infer(function="SUM", input_tensor=tensor, axes=[1]))
    sums = jnp.array([[7.0], [np.nan]], jnp.float32)
    assert see(total, [x], [sums], [np.asarray(sums) * np.float32(1 + 1e-5)]) == ""
    assert see(total, [x], [sums], [np.array([[7.1], [np.nan]], np.float32)])
    assert see(total, [x], [sums], [np.array([[7.0], [3.0]], np.float32)])

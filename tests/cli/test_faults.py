"""Under load and faults: nothing leaks, nothing is half written, and what happened is said.

Operators and models come first, then networks, and then PyDirectML's programs.
"""

import gc
import itertools
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from build import command, parse, saved
from dispatch_models import (
    Json,
    buffer,
    dispatch,
    filled,
    model_file,
    model_of,
    show,
    tensor,
    write,
)
from PIL import Image
from processes import PIPES, dml_jax, interrupt, linux, python, within
from serialized_graphs import dense

from dml_jax import (
    Argmax,
    Buffer,
    Compiled,
    ElementWiseClip,
    Graph,
    GraphBuilder,
    Reduce,
    TensorDesc,
    Tile,
    compile,
    load_onnx,
)
from dml_jax import clip as clipped
from dml_jax import pydirectml as dml
from dml_jax.dxdispatch.executor import Executor
from dml_jax.dxdispatch.parsing import load_model, parse_model
from dml_jax.errors import DmlError
from dml_jax.onnxruntime import InferenceSession, SessionOptions
from dml_jax.system import free_memory
from dml_jax.system.files import write_whole

DEVICE = jax.devices()[0]
KB = 2**10
MB = 2**20


def resident() -> int:
    """Bytes of memory that this process holds."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def clip(count: int, high: float = 1) -> ElementWiseClip:
    tensor = TensorDesc("FLOAT32", [count])
    return ElementWiseClip(input_tensor=tensor, output_tensor=tensor, min=0, max=high)


def model(target: str, count: int = 3, source: str = "", **fields: Any) -> Json:
    """Clips 1, 2, ..., or the numbers of a file, to at most 2, and writes that to a file."""
    numbers = {"valueCount": count, "valueStart": 1, "valueDelta": 1}
    desc = {"InputTensor": tensor([count]), "OutputTensor": tensor([count]), "Min": 0, "Max": 2}
    return model_of(
        {"r": buffer({"sourcePath": source} if source else numbers)},
        {"clip": {"type": "ELEMENT_WISE_CLIP", "desc": desc}},
        *[] if source else [dispatch("clip", InputTensor="r", OutputTensor="r")],
        write("r", target, **fields),
    )


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


# Load.


def assert_leaks_nothing(work: Callable[[], object], few: int, many: int, size: int) -> None:
    """Expect `many` calls of `work`, after `few`, to add no array, and fewer bytes than `size`."""

    def left_by(times: int) -> tuple[int, int]:
        for _ in range(times):
            work()
        gc.collect()
        return len(jax.live_arrays()), resident()

    arrays, held = left_by(few)
    arrays_after, held_after = left_by(many)
    assert arrays_after == arrays
    assert held_after - held < size


@linux
def test_thousands_of_dispatches_leak_nothing():
    operator = clip(1000)
    compiled = compile(operator)
    source, target = Buffer(jnp.full(1000, 5, jnp.float32)), Buffer.of(operator.output_tensor)
    bound = compiled.bind([source], [target])

    def work() -> None:
        bound.dispatch()
        compiled(source.array)
        operator(source.array)
        bound.wait()

    assert_leaks_nothing(work, 500, 4000, 10 * MB)  # the results are 16 MB for each way to call
    assert target.array.tolist() == [1] * 1000


@linux
def test_a_thousand_queued_dispatches_take_no_memory():
    operator = clip(2**24)
    source, target = Buffer(np.ones(2**24, np.float32)), Buffer.of(operator.output_tensor)
    bound = compile(operator).bind([source], [target])
    bound.dispatch()
    bound.wait()
    Path("/proc/self/clear_refs").write_text("5")  # the most that was held so far is forgotten
    with within(math.inf, 64 * MB):  # as much as one result
        for _ in range(1000):
            bound.dispatch()
        bound.wait()


@linux
def test_programs_that_differ_leave_nothing():
    """Each has another bound, and in turn another way to call."""
    bounds, x = iter(map(float, range(160))), np.ones((4, 4), np.float32)

    def work() -> None:
        high = next(bounds)
        match high % 4:
            case 0:
                clipped(x, 0, high)
            case 1:
                clipped(jnp.asarray(x, "bfloat16"), 0, high)
            case 2:
                clip(16, high)(x.ravel())
            case _:
                compile(clip(16, high))(x.ravel())

    assert_leaks_nothing(work, 70, 90, 50 * MB)


@linux
def test_a_session_with_many_sizes_keeps_four_programs(tmp_path: Path):
    options = SessionOptions()
    options.add_session_config_entry("session.dml_jax_programs", "4")
    session = InferenceSession(str(network(tmp_path)), options)
    turns = itertools.count()

    def work() -> None:
        session.run(None, {"x": np.ones((1 + next(turns) // 5 % 40, 4), np.float32)})

    assert_leaks_nothing(work, 300, 700, 50 * MB)


def called(program: Callable[..., object], sizes: tuple[int, ...]) -> object:
    program(np.ones(sizes, np.float32))
    return program


@cache
def kept() -> Compiled:
    return compile(clip(1000))


def table(_: Path) -> object:
    source, target = Buffer(np.full(1000, 5, np.float32)), Buffer.of(kept().outputs[0])
    table = kept().bind([source], [target])
    table.dispatch()
    table.wait()
    return table


def graph(_: Path) -> Graph:
    builder, weights = GraphBuilder(), np.ones((512, 512), np.float32)
    a = builder.input_tensor("a", TensorDesc.of(weights))
    return builder.build([a + builder.constant(weights)])


@pytest.mark.parametrize(
    "make",
    [
        table,
        lambda folder: called(graph(folder), (512, 512)),
        lambda folder: called(compile(graph(folder)), (512, 512)),
        lambda folder: called(load_onnx(network(folder), {"x": (2, 4)}), (2, 4)),
    ],
    ids=["table", "graph", "compiled", "network"],
)
def test_what_is_not_used_is_freed(make: Callable[[Path], object], tmp_path: Path):
    gc.collect()
    arrays = len(jax.live_arrays())
    made = [weakref.ref(make(tmp_path)) for _ in range(10)]
    gc.collect()
    assert [reference() for reference in made] == [None] * 10
    assert len(jax.live_arrays()) == arrays


def at_once(work: Callable[[int], None], count: int = 16) -> None:
    """Runs `work(0)`, `work(1)`, ... in threads that start together; raises what one raises."""
    start = threading.Barrier(count)

    def begin(index: int) -> None:
        start.wait()
        work(index)

    with ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(begin, index) for index in range(count)]:
            done.result()


def test_sixteen_threads_at_once(tmp_path: Path):
    """All of them build, compile, call and bind; some the same descriptors, some their own."""
    shared = [clip(64, high) for high in (1, 2)]
    bound = [(compile(op), op) for op in shared]

    def work(index: int) -> None:
        rng = np.random.default_rng(index)
        for turn in range(2):
            size = 8 + (index % 4) * 8 + turn  # four threads have each of these to themselves
            x = rng.normal(size=(4, size)).astype(np.float32)
            tensor = TensorDesc("FLOAT32", [4, size])
            reduced = Reduce.infer(function="MAX", input_tensor=tensor, axes=[1])
            found = Argmax(
                input_tensor=tensor,
                output_tensor=TensorDesc("INT32", [4, 1]),
                axes=[1],
                axis_direction="INCREASING",
            )
            tiled = Tile.infer(input_tensor=tensor, repeats=[2, 1])
            assert reduced == Reduce.from_json(reduced.to_json()["Desc"])
            np.testing.assert_array_equal(reduced(x), x.max(1, keepdims=True))
            np.testing.assert_array_equal(jax.jit(found)(x), x.argmax(1)[:, None])
            np.testing.assert_array_equal(compile(tiled)(x), np.tile(x, (2, 1)))
            assert reduced.minimum_feature_level.suffix == "3_0"
            compiled, operator = bound[index % 2]
            y = rng.normal(size=64).astype(np.float32)
            target = Buffer.of(operator.output_tensor)
            table = compiled.bind([Buffer(y)], [target])
            table.dispatch()
            np.testing.assert_array_equal(target.array, np.clip(y, 0, operator.max))
            with pytest.raises(DmlError, match=rf"Sizes\[1\] to be {2 * size}"):
                Tile(input_tensor=tensor, output_tensor=tensor, repeats=[1, 2])
        # All write the same file, and each its own.
        for name in ("shared.npy", f"own{index}.npy"):
            lines: list[str] = []
            value = model(str(tmp_path / name), 1000)
            Executor(parse_model(value, tmp_path), DEVICE, lines.append, folder=tmp_path).run()
            assert len(lines) == 2
            np.testing.assert_array_equal(np.load(tmp_path / name), [1] + [2] * 999)

    at_once(work)
    assert names(tmp_path) == sorted([*(f"own{i}.npy" for i in range(16)), "shared.npy"])


# Writing.


def failing(error: Exception) -> Callable[[Any], None]:
    def write(file: Any) -> None:
        file.write(b"half")
        raise error

    return write


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), MemoryError(), ValueError()]
)
def test_what_fails_halfway_leaves_the_old_file(error: Exception, tmp_path: Path):
    target = tmp_path / "a.bin"
    target.write_bytes(b"old")
    with pytest.raises(DmlError if isinstance(error, OSError) else type(error)):
        write_whole(target, failing(error))
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["a.bin"]


def test_who_may_read_a_file_stays(tmp_path: Path):
    target = tmp_path / "a.bin"
    target.touch(0o600)
    write_whole(target, lambda file: file.write(b"1"))
    assert (target.stat().st_mode & 0o777, target.read_bytes()) == (0o600, b"1")


def test_a_hash_that_two_threads_ask_for(monkeypatch: pytest.MonkeyPatch):
    tensor = TensorDesc("FLOAT32", [4, 8])
    op = ElementWiseClip(input_tensor=tensor, output_tensor=tensor, min=0, max=1)
    begun, hashed, found = threading.Event(), TensorDesc.__hash__, list[int]()

    def slow(tensor: TensorDesc) -> int:
        begun.set()
        time.sleep(0.05)
        return hashed(tensor)

    monkeypatch.setattr(TensorDesc, "__hash__", slow)
    threads = [threading.Thread(target=lambda: found.append(hash(op))) for _ in range(2)]
    threads[0].start()
    begun.wait()
    threads[1].start()
    for thread in threads:
        thread.join()
    assert found == [hash(op)] * 2


def test_a_link_is_followed(tmp_path: Path):
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "a.bin"
    link.symlink_to("elsewhere/b.bin")
    for content in (b"1", b"2"):
        write_whole(link, lambda file, c=content: file.write(c))
        assert link.is_symlink()
        assert (tmp_path / "elsewhere/b.bin").read_bytes() == content
    assert names(tmp_path) == ["a.bin", "elsewhere", "elsewhere/b.bin"]


UNWRITABLE: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "folder": ("out", Path.mkdir, "got Is a directory"),
    "device": ("out", lambda path: os.mkfifo(path), "got a device"),
    "below-a-file": ("out/a.npy", Path.touch, "got "),
    "long": ("a" * 300, lambda path: None, "got File name too long"),
}


@linux
@pytest.mark.parametrize("case", UNWRITABLE)
def test_a_target_that_is_no_file(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    target, make, fragment = UNWRITABLE[case]
    made = tmp_path / "out"
    make(made)
    kind = made.lstat().st_mode if made.exists() else None
    done = command("run", model_file(model(target), tmp_path), status=1)
    (line,) = done.stderr.splitlines()
    assert f"Resource 'r': expected targetPath '{target}' to be one that can be written" in line
    assert fragment in line
    assert "Dispatch" not in done.stdout
    assert kind == (made.lstat().st_mode if made.exists() else None)
    assert set(names(tmp_path)) <= {"model.json", "out"}


@linux
@pytest.mark.skipif(os.name == "posix" and os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_read_only(tmp_path: Path):
    (tmp_path / "out").mkdir(mode=0o555)
    done = dml_jax("run", model_file(model("out/a.npy"), tmp_path), cwd=tmp_path)
    assert done.status == 1
    assert "got Permission denied" in done.err


@linux
@pytest.mark.parametrize("name", ["a.npy", "a.png"])
def test_a_disk_that_is_full(name: str, tmp_path: Path):
    """A limit on the size of files, which fails as a full disk does; the old file stays."""
    side = 512 if name == "a.png" else 128
    rng = np.random.default_rng(0)
    np.save(tmp_path / "noise.npy", rng.random((1, 3, side, side), np.float32))  # not to compress
    (tmp_path / name).write_bytes(b"old")
    value = model(name, source="noise.npy", dimensions=[1, 3, side, side])
    done = dml_jax("run", model_file(value, tmp_path), cwd=tmp_path, RLIMIT_FSIZE=64 * KB)
    assert done.status == 1
    expected = f"Resource 'r': expected targetPath '{name}' to be one that can be written"
    assert done.err == f"{expected}, got File too large\n"
    assert (tmp_path / name).read_bytes() == b"old"
    assert names(tmp_path) == sorted([name, "noise.npy", "model.json"])


@linux
def test_names_that_the_terminal_cannot_show(tmp_path: Path):
    path = model_file(model_of({"日": buffer([1, 2, 3])}, {}, show("日")), tmp_path)
    done = dml_jax("run", path, cwd=tmp_path, env={**os.environ, "PYTHONIOENCODING": "latin-1"})
    assert done.status == 0, done.err
    assert "Resource '\\u65e5': 1, 2, 3" in done.out


@linux
@pytest.mark.parametrize("verb", ["run", "check"])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (model("a.npy", source="ä.npy"), "initialValues.sourcePath 'ä.npy' to {}"),
        (model("日.npy"), "expected targetPath to {}, got '日.npy'"),
    ],
    ids=["read", "written"],
)
def test_names_that_the_locale_has_not(verb: str, value: Json, message: str, tmp_path: Path):
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    env = {**os.environ, **locale, "PYTHONIOENCODING": "utf-8"}
    done = dml_jax(verb, model_file(value, tmp_path), cwd=tmp_path, env=env)
    (line,) = done.err.splitlines()
    rule = "be in ascii, as names of files are in this locale (see LC_ALL and PYTHONUTF8)"
    assert message.format(rule) in line
    assert (done.status, done.out) == (1, "")


# Interruptions.

# Writes a half of a .npy file, and is interrupted there.
HALF = """
import numpy.lib.format
def half(file, _):
    file.write(b"half")
    file.flush()
    assert any(name.startswith(".dml-jax-") for name in os.listdir())
    os.kill(os.getpid(), signal.{signal})
    time.sleep(60)
numpy.lib.format.write_array_header_1_0 = half
"""

# Python shuts down, beside which XLA may still be at work.
SHUT_DOWN = """
import atexit
atexit.register(lambda: print("Python shuts down.", file=sys.stderr))
"""

# Is interrupted while the command line is still being imported.
EARLY = """
class Finder:
    def find_spec(self, name, *_):
        if name == "dml_jax.cli":
            os.kill(os.getpid(), signal.{signal})
            time.sleep(60)
sys.meta_path.insert(0, Finder())
"""

# Is so in a callback, which cannot raise.
IN_A_CALLBACK = """
import gc
def interrupted(*_):
    gc.callbacks.remove(interrupted)
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(9): pass
class Finder:
    def find_spec(self, name, *_):
        if name == "dml_jax.cli":
            gc.callbacks.append(interrupted)
            gc.collect()
sys.meta_path.insert(0, Finder())
"""

# Threads start so slowly that what they do is done before.
SLOW_THREADS = """
import threading
start = threading.Thread.start
def slowly(thread):
    start(thread)
    time.sleep(0.2)
threading.Thread.start = slowly
"""

STATUS = {"SIGINT": (130, "Interrupted.\n"), "SIGTERM": (143, "")}


@linux
@pytest.mark.parametrize("name", STATUS)
@pytest.mark.parametrize("when", [HALF, EARLY], ids=["writing", "importing"])
def test_interrupted_while(when: str, name: str, tmp_path: Path):
    (tmp_path / "a.npy").write_bytes(b"old")
    path = model_file(model("a.npy"), tmp_path)
    done = dml_jax("run", path, cwd=tmp_path, before=SHUT_DOWN + when.format(signal=name))
    assert (done.status, done.err) == STATUS[name]
    assert (tmp_path / "a.npy").read_bytes() == b"old"
    assert names(tmp_path) == ["a.npy", "model.json"]


@linux
@pytest.mark.parametrize("before", ["", SLOW_THREADS], ids=["", "slow"])
def test_interrupted_in_a_callback(before: str, tmp_path: Path):
    path = model_file(model("a.npy"), tmp_path)
    done = dml_jax("run", path, "-t", "60000", cwd=tmp_path, before=before + IN_A_CALLBACK)
    assert (done.status, done.err) == (130, "Interrupted.\n")
    assert names(tmp_path) == ["model.json"]


@linux
@pytest.mark.parametrize("name", STATUS)
def test_interrupted_while_dispatching(name: str, tmp_path: Path):
    words = ["-m", "dml_jax", "run", model_file(model("a.npy"), tmp_path), "-t", "60000", "-v", "1"]
    status, out, err = interrupt("Initialize", *words, name=name, cwd=tmp_path)
    assert (status, err) == STATUS[name]
    assert "written" not in out
    assert names(tmp_path) == ["model.json"]


# Never finishes; an extension module makes another error of an exception.
SLOW_JAX = """
import time
print("IMPORTED", flush=True)
try:
    time.sleep(60)
except BaseException as error:
    raise ImportError("an extension") from error
"""

COMMAND = "from dml_jax_command import main; main()"
MODULE = "import runpy; runpy.run_module('dml_jax', run_name='__main__')"


@linux
@pytest.mark.parametrize("name", STATUS)
@pytest.mark.parametrize("start", [COMMAND, MODULE], ids=["command", "module"])
def test_ended_while_jax_is_imported(tmp_path: Path, name: str, start: str):
    (tmp_path / "jax.py").write_text(SLOW_JAX)
    program = f"import sys; sys.argv[1:] = ['run', '--show_adapters']\n{start}"
    paths = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])
    environment = os.environ | {"PYTHONPATH": paths}
    status, _, err = interrupt("IMPORTED", "-c", program, name=name, env=environment)
    assert (status, err) == STATUS[name]


def measuring(before: str, target: str) -> str:
    """Return a program that measures REDUCE, after other code, and reports to a target."""
    words = ["dml-jax", "bench", "--operator", "REDUCE", "--mb", "1", "--json", target]
    start = f"sys.argv = {words}\nfrom dml_jax.__main__ import main; main()"
    return f"import dml_jax.bench.measure as r, sys\n{before}{start}"


TOLD = """
import itertools
run, numbers = r.Bench.run, itertools.count()
def told(*args):
    for m in run(*args):
        yield m
        print("DONE", next(numbers), flush=True)
r.Bench.run = told
"""


AT_ONCE = """
def measure(*args):
    raise KeyboardInterrupt
r.Bench.run = measure
"""


@linux
def test_interrupted_while_measuring(tmp_path: Path):
    """What is measured is reported, and the file of it is written."""
    # When the second cell is measured, the first one is kept.
    program = measuring(TOLD, "bench.json")
    status, out, err = interrupt("DONE 1", "-c", program, cwd=tmp_path)
    assert (status, err.splitlines()[-1]) == (130, "Interrupted.")
    written = json.loads((tmp_path / "bench.json").read_text())
    cells = written["cells"]
    assert written["interrupted"] is True
    assert 1 <= len(cells) < 48  # twelve functions over four lists of axes, and more types
    assert f"(geometric mean over {len(cells)})" in out


@linux
def test_interrupted_while_another_process_compiles(tmp_path: Path):
    """Of a run in several processes the rows are kept that are there."""
    command = [sys.executable, "-m", "dml_jax", "bench", "--mb", "1", "-o", "kept.json"]
    command += ["--operator", "ELEMENT_WISE_ABS", "--operator", "LSTM"]  # the second one takes long
    kept = tmp_path / "kept.json"
    with subprocess.Popen(command, cwd=tmp_path, start_new_session=True, **PIPES) as process:
        while not kept.exists():
            assert process.poll() is None
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert [line for line in err.splitlines() if line[:1] != "["] == ["Interrupted."]  # a progress
    assert json.loads(kept.read_text())["cells"]


@pytest.mark.parametrize("target", ["bench.json", "-"])
def test_interrupted_before_anything_is_measured(target: str, tmp_path: Path):
    """An earlier file stays; who reads stdout is told."""
    (tmp_path / "bench.json").write_text("old")
    result = python("-c", measuring(AT_ONCE, target), cwd=tmp_path)
    assert result.returncode == 130
    assert (tmp_path / "bench.json").read_text() == "old"
    if target == "-":
        written = json.loads(result.stdout)
        assert (written["interrupted"], written["cells"]) == (True, [])


# Files that change between the check and the run.


def npy(path: Path, count: int) -> None:
    np.save(path, np.zeros(count, np.float32))


def raw(path: Path, count: int) -> None:
    path.write_bytes(bytes(4 * count))


def picture(path: Path, count: int) -> None:
    Image.new("RGB", (count, 1)).save(path, "PNG")


def test_a_raw_file_that_has_grown_gives_what_was_checked(tmp_path: Path):
    raw(tmp_path / "a.bin", 3)
    loaded = load_model(model_file(model("out.npy", source="a.bin"), tmp_path))
    (tmp_path / "a.bin").write_bytes(bytes(12) + b"more")
    assert loaded.resources["r"].bytes().tolist() == [0] * 12


@pytest.mark.parametrize(("name", "make"), [("a.npy", npy), ("a.bin", raw), ("a.png", picture)])
@pytest.mark.parametrize("change", ["gone", "short", "folder", "other"])
def test_a_file_that_changes_after_the_check(
    name: str, make: Callable[[Path, int], None], change: str, tmp_path: Path
):
    source = tmp_path / name
    make(source, 1000)
    value = model_of({"r": buffer({"sourcePath": name})}, {})
    loaded = load_model(model_file(value, tmp_path))
    content = source.read_bytes()
    source.unlink()
    if change == "short":
        source.write_bytes(content[: len(content) // 2])
    elif change == "folder":
        source.mkdir()
    elif change == "other":
        make(source, 10)
    if change == "other" and name == "a.png":  # is made as large as the first one was
        assert loaded.resources["r"].bytes().size == 3 * 4 * 1000
        return
    with pytest.raises(DmlError, match=f"Resource 'r': expected initialValues.sourcePath '{name}'"):
        Executor(loaded, DEVICE, print)


# Memory.


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Writes the files that say what a machine has free."""

    def write(path: str, text: str) -> None:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    monkeypatch.setattr(free_memory, "ROOT", tmp_path)
    return write


def test_free_memory(machine: Callable[[str, str], None]):
    assert free_memory.host_bytes() is None
    machine("proc/meminfo", "MemTotal: 16000 kB\nMemAvailable:    8000 kB\nHugePages_Total: 0\n")
    assert free_memory.host_bytes() == 8000 * KB
    machine("proc/self/cgroup", "0::/user/service\n")
    assert free_memory.host_bytes() == 8000 * KB
    machine("sys/fs/cgroup/user/service/memory.max", "max\n")
    assert free_memory.host_bytes() == 8000 * KB
    machine("sys/fs/cgroup/user/memory.max", "4096000\n")
    machine("sys/fs/cgroup/user/memory.stat", "file 3000000\nanon 96000\n")
    assert free_memory.host_bytes() == 4_000_000
    # In a container the root is its own group.
    machine("sys/fs/cgroup/memory.max", "3000000\n")
    assert free_memory.host_bytes() == 3_000_000


def test_free_memory_of_the_first_control_groups(machine: Callable[[str, str], None]):
    machine("proc/self/cgroup", "4:cpu,cpuacct:/x\n3:memory:/docker/abc\n0::/\n")
    machine("sys/fs/cgroup/memory/memory.limit_in_bytes", "1000000\n")
    machine("sys/fs/cgroup/memory/memory.stat", "rss 1\ntotal_rss 200000\n")
    assert free_memory.host_bytes() == 800_000


def test_what_does_not_fit_is_not_begun(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    loaded = parse_model(model("a.npy", 1000), tmp_path)
    device = jax.devices("cpu")[0]
    monkeypatch.setattr(free_memory, "host_bytes", lambda: 7999)  # once there, once on its way
    with pytest.raises(DmlError, match=r"its size to fit, .* 7999 bytes .*, got 4000 of 8000"):
        Executor(loaded, device, print)
    monkeypatch.setattr(free_memory, "host_bytes", lambda: 8000)
    Executor(loaded, device, print)


LAYER = "g (float[N,4] x) => (float[N,4] y) { z = MatMul(x, w)  y = Relu(z) }"
W = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)


def network(folder: Path) -> Path:
    return saved(parse(LAYER, w=W), folder)


def expected(x: np.ndarray) -> np.ndarray:
    return np.maximum(x @ W, 0)


# Networks.


@linux
def test_thousands_of_calls_leak_nothing(tmp_path: Path):
    net = load_onnx(network(tmp_path), {"x": (250, 4)})
    x = jax.numpy.ones((250, 4), jax.numpy.float32)

    def work() -> None:
        net(x)["y"].block_until_ready()

    # The results are 40 MB, and allocators keep some pages.
    assert_leaks_nothing(work, 500, 10_000, 20 * MB)


def test_sixteen_threads_call_one_network(tmp_path: Path):
    """They load networks too, and dispatch a model of one; some first calls are at once."""
    path = network(tmp_path)
    shared = load_onnx(path, {"x": (3, 4)})

    def work(index: int) -> None:
        rng = np.random.default_rng(index)
        for turn in range(3):
            x = rng.normal(size=(3, 4)).astype(np.float32)
            np.testing.assert_allclose(shared(x)["y"], expected(x), rtol=1e-5, atol=1e-6)
            own = shared if turn else load_onnx(path, {"x": (index % 3 + 1, 4)})
            y = rng.normal(size=own.inputs["x"].shape).astype(np.float32)
            np.testing.assert_allclose(own(y)["y"], expected(y), rtol=1e-5, atol=1e-6)
            with pytest.raises(DmlError, match="the input 'x' to be"):
                shared(x[:2])

    at_once(work)


def test_a_folder_for_outputs_is_checked_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "out").write_bytes(b"a file")
    monkeypatch.setattr(Executor, "run", mock.Mock(side_effect=AssertionError("it ran")))
    words = ["run", network(tmp_path), "--output_path", tmp_path / "out/in"]
    assert "to be one that can be written" in command(*words, status=1).stderr


@pytest.mark.parametrize("change", ["gone", "short"])
def test_a_constant_whose_file_changes_after_the_check(change: str, tmp_path: Path):
    (tmp_path / "g.bin").write_bytes(dense())
    (tmp_path / "w.bin").write_bytes(bytes(48))
    net = {"type": "dmlSerializedGraph", "sourcePath": "g.bin"}
    resources = {"r": filled(9, 1), "s": filled(9, 1)}
    value = model_of(resources, {"net": net}, dispatch("net", x="r", y="s"))
    loaded = load_model(model_file(value, tmp_path))
    (tmp_path / "w.bin").unlink()
    if change == "short":
        (tmp_path / "w.bin").write_bytes(bytes(40))
    with pytest.raises(DmlError, match=r"'net: w': expected initialValues\.sourcePath 'w\.bin'"):
        Executor(loaded, DEVICE, print)


# PyDirectML's programs.


class Sums:
    """A compiled graph that adds a tensor to itself."""

    def __init__(self, device: dml.Device, size: int):
        builder = dml.GraphBuilder(device)
        self.device, self.size = device, size
        self.x = dml.input_tensor(
            builder, 0, dml.TensorDesc(dml.TensorDataType.FLOAT32, [1, 1, 1, size])
        )
        self.y = self.x + self.x
        self.model = builder.build(dml.ExecutionFlags.NONE, [self.y])

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return np.array(self.device.compute(self.model, [dml.Binding(self.x, x)], [self.y])[0])


@linux
def test_thousands_of_computes_leak_nothing():
    double, x = Sums(dml.Device(True, False), 1000), np.ones(1000, np.float32)

    assert_leaks_nothing(lambda: double(x), 200, 1500, 4 * MB)  # the results are 6 MB


def test_sixteen_threads_compute_on_one_device():
    device = dml.Device(True, False)

    def work(index: int) -> None:
        double = Sums(device, 4 + index % 3)
        for turn in range(3):
            x = np.full(double.size, index + turn, np.float32)
            assert (double(x) == 2 * x).all()

    at_once(work)


PROGRAM = """
import numpy as np, pydirectml as dml
device = dml.Device(True, False)
builder = dml.GraphBuilder(device)
x = dml.input_tensor(builder, 0, dml.TensorDesc(dml.TensorDataType.FLOAT32, [1, 1, 1, 2]))
y = x + x
model = builder.build(dml.ExecutionFlags.NONE, [y])
print("READY", flush=True)
while True:
    device.compute(model, [dml.Binding(x, np.ones(2, np.float32))], [y])
"""


@linux
def test_an_interrupted_program_shows_its_own_lines_alone(tmp_path: Path):
    (tmp_path / "program.py").write_text(PROGRAM)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    words = ["-m", "dml_jax.pydirectml", "program.py"]
    status, _, err = interrupt("READY", *words, cwd=tmp_path, env=env)
    assert status == 130
    first, second, *_, last = err.splitlines()
    assert first == "Traceback (most recent call last):"
    assert 'File "program.py", line' in second
    assert last.startswith("KeyboardInterrupt")

"""Compiled programs that are kept in a folder: what is read, by whom, and what is in the way."""

import json
import os
import pickle
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from build import command, floats, parse, saved

import dml_jax
from dml_jax import load_onnx, onnxruntime
from dml_jax.onnx import loading
from dml_jax.onnxruntime import stage_builder
from dml_jax.rewrite import DEFAULT, Rewrite
from dml_jax.runtime import program_cache

X = floats([[1, -2], [3, 4]])
ON_A_CPU = pytest.mark.skipif(jax.default_backend() != "cpu", reason="a CPU alone is tuned")
POSIX = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows has other rights")


def model(scale: float = 2) -> Any:
    nodes = "t = Transpose <perm = [1, 0]> (w)  p = MatMul (x, t)  y = Relu (p)"
    return parse(f"g (float[n, 2] x) => (y) {{ {nodes} }}", w=floats([[scale, 1], [0, -1]]))


def answer(scale: float = 2) -> np.ndarray:
    return np.maximum(X @ floats([[scale, 0], [1, -1]]), 0)


def loaded(folder: Any, given: Any = None, **options: Any) -> Any:
    return load_onnx(given or model(), {"x": X.shape}, cache=folder, **options)


def kept_in(folder: Path) -> list[Path]:
    return [*folder.glob("*.program")]


def files_in(folder: Path) -> list[Path]:
    return [*kept_in(folder), *folder.glob("*.facts")]


def counts(network: Any) -> tuple[int, int]:
    return network.programs.read, network.programs.written


def test_a_second_load_reads_what_the_first_has_compiled(tmp_path: Path):
    first, second = loaded(tmp_path / "new"), loaded(tmp_path / "new")
    np.testing.assert_array_equal(first(X)["y"], answer())
    read, written = counts(first)
    assert (read, written) == (0, len(kept_in(tmp_path / "new")))
    np.testing.assert_array_equal(second(X)["y"], answer())
    assert counts(second) == (written, 0)
    assert f"programs in '{tmp_path / 'new'}': {written} read, 0 written" in second.report()
    np.testing.assert_array_equal(second(X)["y"], answer())  # the program is at hand
    assert counts(second) == (written, 0)
    compiled, again = dml_jax.compile(first), dml_jax.compile(second)
    assert (counts(first)[1], counts(second)[0]) == (written + 1, written + 1)
    np.testing.assert_array_equal(compiled(X), again(X))
    assert again.cost() == compiled.cost()


def is_translated(network: Any) -> bool:
    return network.start is None or network.translated.cache_info().currsize > 0


@pytest.mark.parametrize(
    "how", ["report", "graph", pytest.param("tuned", marks=ON_A_CPU), "apply", "compiled again"]
)
def test_a_second_load_translates_nodes_when_they_are_asked_for(how: str, tmp_path: Path):
    loaded(tmp_path)(X)
    whole, network = load_onnx(model(), {"x": X.shape}), loaded(tmp_path)
    np.testing.assert_array_equal(network(X)["y"], answer())
    facts = (network.inputs, network.outputs, network.output_types, network.describe())
    assert facts == (whole.inputs, whole.outputs, whole.output_types, whole.describe())
    np.testing.assert_array_equal(network.weights["w"], whole.weights["w"])
    assert not hasattr(network, "other")
    assert not is_translated(network)
    if how == "report":
        assert network.report().startswith(whole.report().partition("\nprograms")[0])
    elif how == "graph":
        assert (network.graph, network.rewritten) == (whole.graph, whole.rewritten)
    elif how == "tuned":
        network.tune(seconds=1)
        np.testing.assert_array_equal(network(X)["y"], answer())
        assert loaded(tmp_path).is_tuned
        network.untune()
        assert not loaded(tmp_path).is_tuned
    elif how == "apply":
        changed = network.apply({"w": 2 * network.weights["w"]}, {"x": X})
        np.testing.assert_array_equal(changed["y"], 2 * answer())
        network = network.replace(weights={"w": 2 * network.weights["w"]})
        np.testing.assert_array_equal(network(X)["y"], 2 * answer())
    else:
        for file in kept_in(tmp_path):
            file.unlink()
        again = loaded(tmp_path)
        np.testing.assert_array_equal(again(X)["y"], answer())
        assert is_translated(again)


def test_a_file_that_changes_before_its_nodes_are_asked_for_is_said(tmp_path: Path):
    path = saved(model(), tmp_path)
    loaded(tmp_path / "kept", path)(X)
    network = loaded(tmp_path / "kept", path)
    saved(model(3), tmp_path)
    np.testing.assert_array_equal(network(X)["y"], answer())
    with pytest.raises(dml_jax.DmlError, match="be as it was when it was loaded"):
        network.report()


def staged(scale: float = 2) -> Any:
    """Return a model of stages: the sum of x decides a size, and a text is made on the host."""
    text = """g (float[n] x) => (y, s) <int64 zero = {0}, int64 one = {1}>
        { sum = ReduceSum <keepdims = 0> (x)  count = Cast <to = 7> (sum)
        r = Range (zero, count, one)  f = Cast <to = 1> (r)
        y = Mul (f, w)  s = Cast <to = 8> (count) }"""
    return parse(text, w=floats([scale]))


def session_of(folder: Path | None, given: Any = None, **entries: str) -> Any:
    options = onnxruntime.SessionOptions()
    entries |= {"cache": str(folder)} if folder is not None else {}
    for name, value in entries.items():
        options.add_session_config_entry(f"session.dml_jax_{name}", value)
    return onnxruntime.InferenceSession((given or staged()).SerializeToString(), options)


def answers(session: Any, *x: float) -> tuple[list[float], str]:
    y, s = session.run(None, {"x": floats([*x])})
    return y.tolist(), str(s)


@pytest.mark.parametrize("quick", ["0", "1"])
def test_sessions_read_stages_and_programs(
    quick: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    without, first = session_of(None, quick_compile=quick), tmp_path / "kept"
    wanted = answers(without, 1, 2)
    assert wanted == ([0, 2, 4], "3")
    assert answers(session_of(first, quick_compile=quick), 1, 2) == wanted
    before = {*files_in(first)}
    assert before
    translated = list[Any]()
    attempt = stage_builder.Translation.attempt
    monkeypatch.setattr(
        stage_builder.Translation, "attempt", lambda *a: translated.append(a) or attempt(*a)
    )
    again = session_of(first, quick_compile=quick)
    assert answers(again, 1, 2) == wanted
    assert {*files_in(first)} == before
    assert not translated
    assert answers(again, 1, 3) == ([0, 2, 4, 6], "4")  # another stage follows
    assert answers(again, 1, 3, 1) == ([0, 2, 4, 6, 8], "5")
    assert answers(session_of(first, staged(3)), 1, 2) == ([0, 3, 6], "3")


@pytest.mark.parametrize("damage", ["planted", "others", "no folder"])
def test_sessions_compile_what_they_cannot_read(damage: str, tmp_path: Path):
    kept, mark = tmp_path / "kept", tmp_path / "exploded"
    wanted = answers(session_of(kept), 1, 2)
    if damage == "planted":
        plant(kept, pickle.dumps(("no", "stage")))
    elif damage == "others":
        plant(kept, pickle.dumps(Bomb(mark)))
        kept.chmod(0o777 if hasattr(os, "geteuid") else 0o700)
    else:
        (tmp_path / "file").write_text("")
        kept = tmp_path / "file" / "kept"
    assert answers(session_of(kept), 1, 2) == wanted
    assert not mark.exists() or not hasattr(os, "geteuid")


def test_nothing_is_kept_unless_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DML_JAX_CACHE", str(tmp_path / "kept"))
    network = load_onnx(model(), {"x": X.shape})
    network(X)
    assert (network.programs, (tmp_path / "kept").exists()) == (None, False)
    loaded(True)(X)
    assert (tmp_path / "kept").exists()


def test_another_process_reads_them(tmp_path: Path):
    path = saved(model(), tmp_path)
    code = (
        "import sys, numpy, jax, dml_jax\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "before = dict(jax.config.values)\n"
        f"n = dml_jax.load_onnx({str(path)!r}, {{'x': (2, 2)}}, cache={str(tmp_path / 'kept')!r})\n"
        f"x = numpy.array({X.tolist()}, numpy.float32)\n"
        "with ThreadPoolExecutor(8) as pool:\n"
        "    made = [*pool.map(lambda _: n(x)['y'].tolist(), range(8))]\n"
        "assert made == made[:1] * 8\n"
        "assert dict(jax.config.values) == before\n"
        "print(n.programs.read, n.programs.written, made[0])"
    )
    command = [sys.executable, "-c", code]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True}
    several = [subprocess.Popen(command, **pipes) for _ in range(4)]  # at once, of 8 threads each
    for process in several:
        said, _ = process.communicate(timeout=120)
        assert (process.returncode, said.split(" ", 2)[2].strip()) == (0, str(answer().tolist()))
    suffixes = {file.suffix for file in (tmp_path / "kept").iterdir() if file.is_file()}
    assert suffixes == {program_cache.PROGRAM, program_cache.FACTS}
    last = subprocess.run(command, check=True, **pipes).stdout
    assert last.split(" ", 2)[1] == "0"


@pytest.mark.parametrize("change", ["weights", "sizes", "options", "x64", "precision", "names"])
def test_what_a_program_follows_from_is_in_its_name(change: str, tmp_path: Path):
    loaded(tmp_path)(X)
    known = {*kept_in(tmp_path)}
    other, wanted = loaded(tmp_path), answer()
    if change == "weights":
        other, wanted = loaded(tmp_path, model(3)), answer(3)
    elif change == "sizes":
        other = load_onnx(model(), {"x": (3, 2)}, cache=tmp_path)
        np.testing.assert_array_equal(other(np.ones((3, 2), np.float32))["y"], [[3, 0]] * 3)
        assert counts(other) == (0, len(kept_in(tmp_path)) - len(known))
        return
    elif change == "options":
        other = loaded(tmp_path, fallback=True)
    elif change == "names":
        other = loaded(tmp_path, rewrites=DEFAULT[:1])
    with (
        jax.enable_x64(change != "x64"),
        jax.default_matmul_precision("float32" if change == "precision" else None),
    ):
        np.testing.assert_array_equal(other(X)["y"], wanted)
    read, written = counts(other)
    assert read == 0
    assert written == len({*kept_in(tmp_path)} - known) > 0


def test_external_data_counts(tmp_path: Path):
    path = tmp_path / "n.onnx"
    for scale in (2, 3):
        places = {"save_as_external_data": True, "location": "w.bin", "size_threshold": 0}
        onnx.save(model(scale), path, **places)
        network = loaded(tmp_path / "kept", path)
        np.testing.assert_array_equal(network(X)["y"], answer(scale))
        assert counts(network)[0] == 0
        (tmp_path / "w.bin").unlink()


def test_rewrites_of_the_caller_keep_nothing(tmp_path: Path):
    own = Rewrite("own", ["ACTIVATION_RELU"], lambda found: found[0])
    network = loaded(tmp_path, rewrites=[own])
    network(X)
    assert (network.programs, [*tmp_path.iterdir()]) == (None, [])


class Bomb:
    """Makes a folder where it is unpickled."""

    def __init__(self, path: Path):
        self.path = str(path)

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


def plant(folder: Path, data: bytes) -> list[Path]:
    """Replace what is kept in a folder by files that unpickle `data`."""
    files = files_in(folder)
    for file in files:
        file.write_bytes(program_cache._MARK + program_cache.hashlib.sha256(data).digest() + data)
    return files


@POSIX
@pytest.mark.parametrize("place", ["file", "folder", "link", "owner"])
def test_what_others_may_write_is_not_read(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    kept, mark = tmp_path / "kept", tmp_path / "exploded"
    loaded(kept)(X)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    files = plant(kept, pickle.dumps(Bomb(mark)))
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    if place == "file":
        for file in files:
            file.chmod(0o666)
    elif place == "folder":
        kept.chmod(0o777)
    elif place == "link":
        for file in files:
            file.symlink_to(file.rename(tmp_path / file.name))
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    network = loaded(kept)
    np.testing.assert_array_equal(network(X)["y"], answer())
    assert not mark.exists()
    assert counts(network)[0] == 0
    if place in ("folder", "owner"):
        assert "others may write" in network.report()


@pytest.mark.parametrize("damage", ["cut", "empty", "changed", "other"])
def test_a_damaged_file_is_compiled_again(damage: str, tmp_path: Path):
    loaded(tmp_path)(X)
    for file in files_in(tmp_path):
        data = file.read_bytes()
        last = bytes([data[-1] ^ 1])
        damaged = {"cut": data[: len(data) // 2], "empty": b"", "changed": data[:-1] + last}
        file.write_bytes(damaged.get(damage, data))
    if damage == "other":
        plant(tmp_path, pickle.dumps((b"no program", None)))
    for expected in (0, 1):
        network = loaded(tmp_path)
        np.testing.assert_array_equal(network(X)["y"], answer())
        assert (counts(network)[0] > 0) == expected


@pytest.mark.parametrize("option", [program_cache.KERNELS, "xla_option_of_no_version"])
@pytest.mark.parametrize("place", ["new", "file"])
def test_a_gpu_compiles_with_and_without_kernels_that_are_kept(
    option: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(program_cache, "KERNELS", option)
    lowered = jax.jit(lambda x: x + 1).lower(jnp.ones(3))
    compiled = program_cache.ProgramCache(tmp_path / place, "key")._made(lowered, {}, "gpu")
    np.testing.assert_array_equal(compiled(jnp.ones(3)), np.full(3, 2))


def test_a_folder_that_cannot_be_is_no_fault(tmp_path: Path):
    (tmp_path / "file").write_text("")
    network = loaded(tmp_path / "file" / "kept")
    np.testing.assert_array_equal(network(X)["y"], answer())
    assert "a program was not written: Not a directory" in network.report()


@POSIX
@pytest.mark.skipif(
    jax.default_backend() != "cpu", reason="XLA for a GPU itself writes files when it compiles"
)
def test_a_full_disk_is_no_fault(tmp_path: Path):
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        network = loaded(tmp_path)
        result = network(X)["y"]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    np.testing.assert_array_equal(result, answer())
    assert "a program was not written: File too large" in network.report()
    assert [*tmp_path.iterdir()] == []


def test_the_oldest_go_where_there_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    loaded(tmp_path)(X)
    old = {*kept_in(tmp_path)}
    monkeypatch.setattr(program_cache, "MOST_BYTES", 1)
    loaded(tmp_path, model(3))(X)
    assert not old & {*kept_in(tmp_path)}


@pytest.mark.skipif(jax.device_count() < 2, reason="the default backend has one device")
def test_arrays_on_another_device_have_a_program_of_their_own(tmp_path: Path):
    network, device = loaded(tmp_path), jax.devices()[1]
    network(X)
    known = {*kept_in(tmp_path)}
    y = network(jax.device_put(X, device))["y"]
    np.testing.assert_array_equal(y, answer())
    assert (y.devices(), len({*kept_in(tmp_path)} - known)) == ({device}, 1)
    again = loaded(tmp_path)(jax.device_put(X, device))["y"]
    assert again.devices() == {device}


def test_the_command_line_keeps_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DML_JAX_CACHE", str(tmp_path / "kept"))
    path = saved(model(), tmp_path)

    def run(*options: str) -> Any:
        return json.loads(command("run", path, "--json", *options).stdout)

    without = run("--no-cache")
    assert (without["cache"], (tmp_path / "kept").exists()) == (None, False)
    first, translate = run(), loading._translate
    translated = list[Any]()
    monkeypatch.setattr(loading, "_translate", lambda *a: translated.append(a) or translate(*a))
    second = run()
    assert not translated
    assert first["cache"]["written"] == second["cache"]["read"] > 0
    assert first["values"] == second["values"] == without["values"]
    before = {file: file.stat() for file in (tmp_path / "kept").iterdir()}
    run("--no-cache")
    assert {file: file.stat() for file in (tmp_path / "kept").iterdir()} == before
    shown = command("run", path).stdout
    assert f"Compiled programs in '{tmp_path / 'kept'}': {second['cache']['read']} read, 0" in shown

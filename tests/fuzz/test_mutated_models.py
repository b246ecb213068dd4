"""Models that are nearly right: run, or refused by name; no traceback, no hang, no gigabytes."""

import importlib.util
import json
import math
import random
import re
from pathlib import Path
from typing import Any

import pytest
from build import command
from click.testing import CliRunner
from dispatch_models import Json, buffer, dispatch, filled, model_of, show, tensor
from fuzz.models import check, rich_models, seeds
from fuzz.mutations import mutated
from nightly import NIGHTLY
from processes import GB, Ended, dml_jax, linux, within

from dml_jax.cli import cli
from dml_jax.dxdispatch.parsing import load_model
from dml_jax.errors import FAULTS_MAX, DmlError
from dml_jax.system import free_memory

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples/models"
FOUND = sorted((Path(__file__).parents[1] / "fuzz/found").glob("*"))
in_a_gigabyte = pytest.mark.skipif(
    importlib.util.find_spec("jax_plugins") is not None,
    reason="JAX loads a plugin for another device, and CUDA's is not loaded within a gigabyte",
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.json"


@linux
@pytest.mark.parametrize("part", range(2 if NIGHTLY else 1))
def test_mutated_files_are_taken_or_refused(part: int, path: Path):
    """Thousands of them; `check` lets nothing but a `DmlError` pass."""
    texts = sorted(seeds().items())
    rng = random.Random(part)
    with within(math.inf, GB):
        for _ in range(1000):
            path.write_bytes(mutated(rng.choice(texts)[1], rng))
            with within(10):
                check(path, EXAMPLES)


@pytest.mark.parametrize("case", FOUND, ids=lambda case: case.name)
def test_what_the_fuzzer_found(case: Path):
    check(case, EXAMPLES)


def test_unchanged_models_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What the mutations start from is right; pictures lie elsewhere."""
    monkeypatch.chdir(tmp_path)
    images = (ROOT / "examples/images").as_posix()
    for name, model in rich_models().items():
        written(path, json.dumps(model).replace("../images", images))
        command("show" if name == "graph" else "run", path)


def test_mutated_models_run_or_are_refused(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(free_memory, "host_bytes", lambda: 2**28)
    rng = random.Random(8)
    models = [json.dumps(m).encode() for name, m in rich_models().items() if name != "graph"]
    statuses = {0: 0, 1: 0}
    for _ in range(60):
        # What a model writes stays in the folder that this test made.
        text = re.sub(rb'"(/|[^"]*\.\.)[^"]*"', b'"elsewhere"', mutated(rng.choice(models), rng))
        path.write_bytes(text)
        done = CliRunner().invoke(cli, ["run", str(path)])
        assert done.exception is None or isinstance(done.exception, SystemExit), text
        statuses[done.exit_code] += 1
        assert (done.exit_code == 0) == (done.stderr == ""), done.stderr
    assert min(statuses.values()) > 4, statuses


# What asks for much.


def reduction(function: str, sizes: list[int], strides: list[int]) -> Json:
    """A reduction of all elements, which strides may take from few."""
    result = "UINT32" if function.startswith("ARG") else "FLOAT32"
    desc = {
        "Function": function,
        "InputTensor": tensor(sizes, Strides=strides),
        "OutputTensor": tensor([1] * len(sizes), result),
        "Axes": list(range(len(sizes))),
    }
    return model_of(
        {"in": filled(2**17, 1), "out": filled(1, 1, result)},
        {"op": {"type": "REDUCE", "desc": desc}},
        dispatch("op", InputTensor="in", OutputTensor="out"),
        show("out"),
    )


def holding(resource: Json, *commands: Json) -> Json:
    return model_of({"r": resource}, {}, *commands)


PRINT = {"type": "print", "resource": "r"}
SEQUENCE = {"valueCount": 2**32 - 1, "valueStart": 0, "valueDelta": 1}
PICTURE = buffer(
    {"sourcePath": str(ROOT / "examples/images/astronaut.jpg")},
    "FLOAT16",
    resampleSize=[1, 4, 30000, 30000],
)

REFUSED: dict[str, tuple[Json | str, str]] = {
    "count": (holding(filled(2**32 - 1)), "its size to fit"),
    "sequence": (holding(buffer(SEQUENCE, "UINT8")), "its size to fit"),
    "size": (holding({**filled(1), "sizeInBytes": 2**50}), "its size to fit"),
    "sum": (model_of({f"r{i}": filled(2**26, 1, "UINT8") for i in range(20)}, {}), "size to fit"),
    "picture": (holding(PICTURE), "its size to fit"),
    "offset": (holding({**filled(1), "initialValuesOffsetInBytes": 2**63}), "its size to fit"),
    "print": (holding(filled(2**25, 1, "UINT8"), show("r")), "to be printed"),
    "elements": (reduction("SUM", [2**32 - 1] * 8, [0] * 8), "hold at most 4294967295"),
    "gathered": (reduction("ARGMAX", [2**15, 2**15], [1, 1]), "the temporary memory to fit"),
    "deep": ("[" * 10**6, "nesting"),
    "objects": ('{"resources":' * 10**5, "nesting"),
    "comments": ("/*" * 10**6, "JSON"),
}


def written(path: Path, model: Json | str) -> Path:
    path.write_text(model if isinstance(model, str) else json.dumps(model))
    return path


IN_A_PROCESS = ("count", "picture", "gathered", "deep")
"""The cases under the limit of a process: one for each way to ask for memory."""


@linux
@pytest.mark.parametrize("case", sorted(REFUSED.keys() - set(IN_A_PROCESS)))
def test_refused_before_memory_is_taken(case: str, path: Path, monkeypatch: pytest.MonkeyPatch):
    model, fragment = REFUSED[case]
    written(path, model)
    monkeypatch.setattr(free_memory, "host_bytes", lambda: GB)
    with within(10, GB // 4):
        done = command("run", path, "-a", "cpu", status=1)
    (line,) = done.stderr.splitlines()
    assert fragment in line


def within_a_gigabyte(path: Path, model: Json | str, status: int) -> Ended:
    """Return how a process ends that runs a model under a limit of memory, in seconds."""
    done = dml_jax("run", written(path, model), cwd=path.parent, RLIMIT_DATA=GB)
    assert done.status == status, done.err
    assert done.seconds < 10
    assert done.peak < GB
    return done


@linux
@in_a_gigabyte
@pytest.mark.parametrize("case", IN_A_PROCESS)
def test_refused_within_a_gigabyte(case: str, path: Path):
    model, fragment = REFUSED[case]
    (line,) = within_a_gigabyte(path, model, 1).err.splitlines()
    assert fragment in line


RUN = {
    "much": (holding(filled(2**28, 1, "UINT8")), ""),
    "verbose": (holding(filled(2**20, 1), show("r", verbose=True)), "[1048575] 1 (0x3F800000)"),
    "summed": (reduction("SUM", [2**15, 2**15], [1, 1]), "'out': 1.07374e+09"),
}


@linux
@in_a_gigabyte
@pytest.mark.parametrize("case", RUN)
def test_run_within_a_gigabyte(case: str, path: Path):
    model, fragment = RUN[case]
    assert fragment in within_a_gigabyte(path, model, 0).out


# What is long: work in proportion to the text, and a message that one can read.

N = 100_000


SPLIT = {"InputTensor": tensor([N // 20]), "OutputTensors": [tensor([1])] * (N // 20), "Axis": 0}
LONG: dict[str, Json] = {
    "values": holding(buffer(["a"] * N)),
    "types": holding(buffer([{"type": "UINT9", "value": 1}] * N, None)),
    "fields": holding({f"field{i}": 1 for i in range(N)}),
    "commands": holding(filled(1), *({"type": "prin", "resource": "r"} for _ in range(N))),
    "names": model_of(
        {f"r{i}": filled(1) for i in range(N // 20)}, {}, *(show(f"x{i}") for i in range(N // 20))
    ),
    "resources": model_of({f"r{i}": {} for i in range(N)}, {}),
    "sizes": reduction("SUM", [0] * N, [1]),
    "outputs": model_of(
        {"in": filled(N // 20), "out": filled(1)},
        {"op": {"type": "SPLIT", "desc": SPLIT}},
        dispatch("op", InputTensor="in", OutputTensors=["out"] * (N // 20)),
    ),
}


@pytest.mark.parametrize("case", LONG)
def test_long_mistakes_are_refused_soon_and_shortly(case: str, path: Path):
    written(path, LONG[case])
    with within(10), pytest.raises(DmlError) as refused:
        load_model(path)
    lines = str(refused.value).splitlines()
    assert len(lines) <= FAULTS_MAX + 1
    assert (lines[-1] == "and more") == (len(refused.value.faults) > FAULTS_MAX)


@pytest.mark.parametrize("value", [None, 1, "x", {"a": 1}], ids=str)
def test_a_value_where_nodes_should_be(value: Any, path: Path):
    """The first thing that the fuzzer found: a graph whose nodes are no list."""
    written(path, {**rich_models()["graph"], "Nodes": value})
    assert "expected Nodes to be a list" in command("show", path, status=1).stderr

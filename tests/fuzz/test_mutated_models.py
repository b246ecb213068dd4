"""Models that are nearly right: run, or refused by name; no traceback, no hang, no gigabytes."""

import copy
import importlib.util
import json
import random
import re
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from fuzz.fuzz_models import check, seeds
from fuzz.models import rich_models
from fuzz.mutations import mutated
from nightly import NIGHTLY
from processes import dml_jax, linux

from dml_jax.cli import cli
from dml_jax.dxdispatch.parsing import load_model
from dml_jax.errors import FAULTS_MAX, DmlError
from dml_jax.system import free_memory

Json = dict[str, Any]
ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples/models"
FOUND = sorted((Path(__file__).parents[1] / "fuzz/found").glob("*"))
GB = 2**30
in_a_gigabyte = pytest.mark.skipif(
    importlib.util.find_spec("jax_plugins") is not None,
    reason="JAX loads a plugin for another device, and CUDA's is not loaded within a gigabyte",
)


def peak() -> int:
    """Bytes of memory that this process has held at most."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.json"


@linux
@pytest.mark.parametrize("part", range(2 if NIGHTLY else 1))
def test_mutated_files_are_taken_or_refused(part: int, path: Path):
    """Thousands of them; `check` lets nothing but a `DmlError` pass."""
    texts = sorted(seeds().items())
    rng = random.Random(part)
    slowest = 0.0
    before = peak()
    for _ in range(1000):
        path.write_bytes(mutated(rng.choice(texts)[1], rng))
        start = time.process_time()
        check(path, EXAMPLES)
        slowest = max(slowest, time.process_time() - start)
    assert slowest < 10
    assert peak() - before < GB


@pytest.mark.parametrize("case", FOUND, ids=lambda case: case.name)
def test_what_the_fuzzer_found(case: Path):
    check(case, EXAMPLES)


def test_unchanged_models_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What the mutations start from is right."""
    monkeypatch.chdir(tmp_path)
    for name, model in rich_models().items():
        path.write_text(located(json.dumps(model)))
        done = CliRunner().invoke(cli, ["show" if name == "graph" else "run", str(path)])
        assert done.exit_code == 0, f"{name}: {done.output}"


def located(text: str) -> str:
    """The model with its pictures where they lie, since it lies elsewhere itself."""
    return text.replace("../images", (ROOT / "examples/images").as_posix())


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


def constant(count: int, data_type: str = "FLOAT32") -> Json:
    return {"initialValuesDataType": data_type, "initialValues": {"valueCount": count, "value": 1}}


def reduction(function: str, sizes: list[int], strides: list[int], **resources: Json) -> Json:
    """A reduction of all elements, which strides may take from few."""
    result = "UINT32" if function.startswith("ARG") else "FLOAT32"
    desc = {
        "Function": function,
        "InputTensor": {"DataType": "FLOAT32", "Sizes": sizes, "Strides": strides},
        "OutputTensor": {"DataType": result, "Sizes": [1] * len(sizes)},
        "Axes": list(range(len(sizes))),
    }
    return {
        "resources": {"in": constant(2**17), "out": constant(1, result), **resources},
        "dispatchables": {"op": {"type": "REDUCE", "desc": desc}},
        "commands": [
            {
                "type": "dispatch",
                "dispatchable": "op",
                "bindings": {"InputTensor": "in", "OutputTensor": "out"},
            },
            {"type": "print", "resource": "out"},
        ],
    }


def holding(resource: Json, *commands: Json) -> Json:
    return {"resources": {"r": resource}, "dispatchables": {}, "commands": list(commands)}


PRINT = {"type": "print", "resource": "r"}
SEQUENCE = {
    "initialValuesDataType": "UINT8",
    "initialValues": {"valueCount": 2**32 - 1, "valueStart": 0, "valueDelta": 1},
}
PICTURE = {
    "initialValuesDataType": "FLOAT16",
    "initialValues": {"sourcePath": str(ROOT / "examples/images/astronaut.jpg")},
    "resampleSize": [1, 4, 30000, 30000],
}

REFUSED = {
    "count": (holding(constant(2**32 - 1)), "its size to fit"),
    "sequence": (holding(SEQUENCE), "its size to fit"),
    "size": (holding({**constant(1), "sizeInBytes": 2**50}), "its size to fit"),
    "sum": (
        {**holding({}), "resources": {f"r{i}": constant(2**26, "UINT8") for i in range(20)}},
        "its size to fit",
    ),
    "picture": (holding(PICTURE), "its size to fit"),
    "offset": (holding({**constant(1), "initialValuesOffsetInBytes": 2**63}), "its size to fit"),
    "print": (holding(constant(2**25, "UINT8"), PRINT), "to be printed"),
    "elements": (reduction("SUM", [2**32 - 1] * 8, [0] * 8), "hold at most 4294967295"),
    "gathered": (reduction("ARGMAX", [2**15, 2**15], [1, 1]), "the temporary memory to fit"),
    "deep": ("[" * 10**6, "nesting"),
    "objects": ('{"resources":' * 10**5, "nesting"),
    "comments": ("/*" * 10**6, "JSON"),
}


IN_A_PROCESS = ("count", "picture", "gathered", "deep")
"""The cases under the limit of a process: one for each way to ask for memory."""


@linux
@pytest.mark.parametrize("case", sorted(REFUSED.keys() - set(IN_A_PROCESS)))
def test_refused_before_memory_is_taken(case: str, path: Path, monkeypatch: pytest.MonkeyPatch):
    model, fragment = REFUSED[case]
    path.write_text(model if isinstance(model, str) else json.dumps(model))
    monkeypatch.setattr(free_memory, "host_bytes", lambda: GB)
    before, start = peak(), time.process_time()
    done = CliRunner().invoke(cli, ["run", str(path), "-a", "cpu"])
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert fragment in line
    assert time.process_time() - start < 10
    assert peak() - before < GB // 4


@linux
@in_a_gigabyte
@pytest.mark.parametrize("case", IN_A_PROCESS)
def test_refused_within_a_gigabyte(case: str, path: Path, tmp_path: Path):
    model, fragment = REFUSED[case]
    path.write_text(model if isinstance(model, str) else json.dumps(model))
    done = dml_jax("run", path, cwd=tmp_path, RLIMIT_DATA=GB)
    assert done.status == 1, done
    assert fragment in done.err.splitlines()[0]
    assert len(done.err.splitlines()) == 1, done.err
    assert done.seconds < 10
    assert done.peak < GB


RUN = {
    "much": (holding(constant(2**28, "UINT8")), ""),
    "verbose": (holding(constant(2**20), {**PRINT, "verbose": True}), "[1048575] 1 (0x3F800000)"),
    "summed": (reduction("SUM", [2**15, 2**15], [1, 1]), "'out': 1.07374e+09"),
}


@linux
@in_a_gigabyte
@pytest.mark.parametrize("case", RUN)
def test_run_within_a_gigabyte(case: str, path: Path, tmp_path: Path):
    model, fragment = RUN[case]
    path.write_text(json.dumps(model))
    done = dml_jax("run", path, cwd=tmp_path, RLIMIT_DATA=GB)
    assert done.status == 0, done.err
    assert fragment in done.out
    assert done.seconds < 10
    assert done.peak < GB


# What is long: work in proportion to the text, and a message that one can read.

N = 100_000
LONG: dict[str, Json] = {
    "values": holding({"initialValuesDataType": "FLOAT32", "initialValues": ["a"] * N}),
    "types": holding({"initialValues": [{"type": "UINT9", "value": 1}] * N}),
    "fields": holding({f"field{i}": 1 for i in range(N)}),
    "commands": holding(constant(1), *({"type": "prin", "resource": "r"} for _ in range(N))),
    "names": {
        "resources": {f"r{i}": constant(1) for i in range(N // 20)},
        "dispatchables": {},
        "commands": [{"type": "print", "resource": f"x{i}"} for i in range(N // 20)],
    },
    "resources": {
        "resources": {f"r{i}": {} for i in range(N)},
        "dispatchables": {},
        "commands": [],
    },
    "sizes": reduction("SUM", [0] * N, [1]),
    "outputs": {
        "resources": {"in": constant(N // 20), "out": constant(1)},
        "dispatchables": {
            "op": {
                "type": "SPLIT",
                "desc": {
                    "InputTensor": {"DataType": "FLOAT32", "Sizes": [N // 20]},
                    "OutputTensors": [{"DataType": "FLOAT32", "Sizes": [1]}] * (N // 20),
                    "Axis": 0,
                },
            }
        },
        "commands": [
            {
                "type": "dispatch",
                "dispatchable": "op",
                "bindings": {"InputTensor": "in", "OutputTensors": ["out"] * (N // 20)},
            }
        ],
    },
}


@pytest.mark.parametrize("case", LONG)
def test_long_mistakes_are_refused_soon_and_shortly(case: str, path: Path):
    path.write_text(json.dumps(LONG[case]))
    start = time.process_time()
    with pytest.raises(DmlError) as refused:
        load_model(path)
    assert time.process_time() - start < 10
    lines = str(refused.value).splitlines()
    assert len(lines) <= FAULTS_MAX + 1
    assert (lines[-1] == "and more") == (len(refused.value.faults) > FAULTS_MAX)


def test_a_value_where_nodes_should_be(path: Path):
    """The first thing that the fuzzer found: a graph whose nodes are no list."""
    for value in (None, 1, "x", {"a": 1}):
        graph = {**copy.deepcopy(rich_models()["graph"]), "Nodes": value}
        path.write_text(json.dumps(graph))
        done = CliRunner().invoke(cli, ["show", str(path)])
        assert done.exit_code == 1
        assert "expected Nodes to be a list" in done.stderr

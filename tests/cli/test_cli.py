"""The manners of the command line: help, JSON, colours, typos, completion. Models: test_run."""

import contextlib
import importlib
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import numpy as np
import pytest
from build import command
from click.shell_completion import BashComplete
from dispatch_models import buffer, dispatch, filled, model_file, model_of, show, tensor, write
from documented_facts import DOCUMENTED
from nightly import NIGHTLY
from processes import python

from dml_jax import (
    OPERATORS,
    DmlError,
    FeatureLevel,
    Graph,
    GraphBuilder,
    Reduce,
    TensorDesc,
    clip,
    compile,
    join,
    load_model,
    reduce,
    run_model,
)
from dml_jax.cli import cli
from dml_jax.dxdispatch.executor import Executor

CLIP = {"InputTensor": tensor([4]), "OutputTensor": tensor([4]), "Min": 2, "Max": "inf"}

COMMANDS = list(cli.commands)
LEVELS = [level.suffix for level in FeatureLevel]
MODEL = model_of(
    {"x": buffer([1, "inf", "nan", 4]), "y": filled(4)},
    {"clip": {"type": "ELEMENT_WISE_CLIP", "desc": CLIP}},
    dispatch("clip", InputTensor="x", OutputTensor="y"),
    show("y"),
    write("y", "y.npy"),
)


def values(*words: str, status: int = 0) -> Any:
    result = command(*words, "--json", status=status)
    assert result.stderr == ""
    return json.loads(result.stdout, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return str(model_file(MODEL, Path()))


@pytest.mark.parametrize("verb", COMMANDS)
def test_help_teaches_by_example(verb: str):
    shown = command(verb, "--help").stdout
    assert shown == command(verb, "-h").stdout
    assert f"\n  dml-jax {verb} " in shown
    assert "Exit status: 0 done, 1" in shown
    assert verb == "completion" or "--json" in shown
    assert max(map(len, shown.splitlines())) <= 100
    assert f"\n  dml-jax {verb} " in command(status=2).output or verb == "completion"


def test_run_for_machines(model: str):
    done = values("run", model, "-i", "3")
    (dispatch,) = done["dispatches"]
    assert dispatch["name"] == "clip"
    assert len(dispatch["samples_ms"]) == 3
    assert dispatch["median_ms"] == sorted(dispatch["samples_ms"])[1]
    assert done["resources"] == [
        {"name": "y", "data_type": "FLOAT32", "values": [2, "inf", "nan", 4]}
    ]
    assert done["files"] == [{"resource": "y", "path": "y.npy"}]
    np.testing.assert_array_equal(np.load("y.npy"), np.array([2, np.inf, np.nan, 4], "f"))
    (program,) = values("run", model, "--hlo")["programs"]
    assert program["name"] == "clip"
    assert program["hlo"].startswith("HloModule")


def test_machine_for_machines():
    shown = values("run", "-s", "-S")
    assert shown["versions"]["numpy"] == np.__version__
    assert "cpu:0" in [device["name"] for device in shown["devices"]]


def test_several_models_are_checked_each(model: str):
    other = Path(model).with_name("other.json")
    other.write_text(Path(model).read_text().replace("ELEMENT_WISE_CLIP", "CLIP"))
    (row,) = values("check", model)["dispatchables"]
    both = command("check", model, other, model, "--json", status=1)
    first, again, faults = map(json.loads, both.stdout.splitlines())
    assert first == again == {"model": model, "dispatchables": [row]}
    assert [fault["context"][0] for fault in faults["faults"]] == [str(other)]
    told = command("check", model, other, status=1)
    assert told.stdout.count("ELEMENT_WISE_CLIP") == 1
    assert told.stderr.startswith(f"{other}: ")


def test_programs_are_shown_without_places_in_python(model: str):
    shown = command("run", model, "--hlo").stdout
    assert shown.startswith("Dispatchable 'clip':\nHloModule")
    assert "ENTRY" in shown
    assert not re.search("FileNames|StackFrames|stack_frame_id|site-packages", shown)


def test_check_is_run_check(model: str):
    assert command("check", model).stdout == command("run", model, "--check").stdout
    (row,) = values("check", model)["dispatchables"]
    assert values("run", model, "--check") == values("show", model) == {"dispatchables": [row]}
    assert row["operator"] == "ELEMENT_WISE_CLIP"
    assert row["inputs"] == [tensor([4])]
    # One dimension is taken from 3_0 on: the page.
    assert row["feature_level"] == "3_0"
    assert list(row["refused"]) == ["1_0", "2_0", "2_1"]
    assert "DimensionCount to be 4 at feature level 2_1" in row["refused"]["2_1"][0]
    assert not Path("y.npy").exists()
    ways = (["check", model], ["run", model, "--check"])
    refused, too = (command(*way, "--feature-level", "1_0", status=1).stderr for way in ways)
    assert refused == too


@pytest.mark.parametrize("words", [["run"], ["check"], ["run", "--check"], ["show"]])
def test_faults_for_machines(words: list[str], model: str):
    broken = json.loads(Path(model).read_text())
    broken["dispatchables"]["clip"]["desc"]["Minn"] = 1
    broken["commands"][1]["resource"] = "z"
    model_file(broken, Path())
    faults = values(*words, model, status=1)["faults"]
    assert [fault["field"] for fault in faults] == ["Minn", "resource"]
    assert faults[0]["context"] == ["Dispatchable 'clip'"]
    assert faults[0]["operator"] == "DML_OPERATOR_ELEMENT_WISE_CLIP"
    assert [fault["value"] for fault in faults] == ["1", "'z'"]
    shown = command(*words, model, status=1)
    assert shown.stdout == ""
    assert shown.stderr.splitlines() == [fault["message"] for fault in faults]


def test_graph_for_machines(tmp_path: Path):
    builder = GraphBuilder()
    image = builder.input_tensor("image", TensorDesc("FLOAT16", [1, 1, 2, 2]))
    builder.build({"sum": reduce(clip(image, 0, 1), "SUM")}).save(tmp_path / "graph.json")
    picture = tmp_path / "graph.svg"
    result = command("show", tmp_path / "graph.json", "--json", "-o", picture)
    shown = json.loads(result.stdout)
    assert "graph.svg" in result.stderr
    assert picture.read_text().endswith("</svg>\n")
    assert [node["operator"] for node in shown["nodes"]] == ["ELEMENT_WISE_CLIP", "REDUCE"]
    assert shown["inputs"] == [tensor([1, 1, 2, 2], "FLOAT16")]


def test_a_part_of_a_name_finds_operators():
    """By family; the facts have the names."""
    shown = command("operators", "space").stdout
    names = {name.removeprefix("DML_OPERATOR_") for name in DOCUMENTED}
    expected = {name for name in names if "SPACE" in name}
    assert {word for word in shown.split() if word in names} == expected
    assert shown.startswith(f"{OPERATORS['DML_OPERATOR_DEPTH_TO_SPACE'].__module__.split('.')[-1]}")
    found = values("operators", "space")
    assert {op["name"].removeprefix("DML_OPERATOR_") for op in found} == expected
    assert len({op["family"] for op in found}) == 1


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("LayerNormalization", {f"MEAN_VARIANCE_NORMALIZATION{n}" for n in ("", "1", "2")}),
        ("jnp.cumsum", {"CUMULATIVE_SUMMATION"}),
        ("torch.cumsum", {"CUMULATIVE_SUMMATION"}),
        ("jax.nn.gelu", {"ACTIVATION_GELU"}),
        ("pixel_shuffle", {"DEPTH_TO_SPACE", "DEPTH_TO_SPACE1"}),
        ("region", {"ROI_POOLING", "ROI_ALIGN", "ROI_ALIGN1", "ROI_ALIGN_GRAD"}),
        ("CumulativeProduct", {"CUMULATIVE_PRODUCT"}),
        ("dml_operator_scatter_elements", {"SCATTER"}),
    ],
)
def test_operators_by_their_names_elsewhere(word: str, expected: set[str]):
    """By the names of ONNX, JAX and PyTorch, by family, and by another name of DirectML.h."""
    found = values("operators", word)
    found = found if isinstance(found, list) else [found]
    assert {op["name"].removeprefix("DML_OPERATOR_") for op in found} == expected
    shown = command("operators", word).stdout
    assert all(name in shown for name in expected)
    if "." in word:
        assert word.removeprefix("jnp.") in shown


def test_a_search_says_what_to_call():
    shown = command("operators", "jnp.max").stdout
    called = shown.index("dml_jax.reduce(input, function, axes=None"), shown.index("dml_jax.max(a,")
    assert called[0] < shown.index("Also with 'jnp.max' in a name") < called[1]
    line = "\nAs a function: dml_jax.if_(condition, a, b)\n"
    assert line in command("operators", "ELEMENT_WISE_IF").stdout
    assert values("operators", "jnp.max")[0]["name"] == "DML_OPERATOR_REDUCE"


def test_what_jax_has_itself():
    use = "No operator has the name 'jnp.reshape'. Use jax.numpy.reshape: operators take JAX's"
    assert command("operators", "jnp.reshape").stdout == f"{use} arrays.\n"
    shown = command("operators", "transpose").stdout
    assert shown.index("Use jax.numpy.transpose") < shown.index("(ONNX Transpose)")
    assert json.loads(command("operators", "jnp.reshape", "--json").stdout) == []


def test_what_one_needs_of_an_operator_stands_first():
    shown = command("operators", "REDUCE").stdout
    heads = ("Choices", "Gradient", "Fields", "Ranks by feature level")
    places = [shown.index(f"\n{head}") for head in heads]
    assert places == sorted(places)


def test_a_device_that_is_not_there(model: str):
    (line,) = command("run", model, "-a", "abacus", status=1).stderr.splitlines()
    assert line.startswith("no device matches 'abacus'; this machine has: ")
    assert "cpu:0, " in line
    if all(device.platform == "cpu" for device in jax.devices()):
        assert line.endswith('. NVIDIA: pip install "jax[cuda13]"')


@pytest.mark.parametrize("option", ["-e", "--enable_onnx_profiling", "-x"])
def test_options_of_dxdispatch_without_counterpart(option: str, model: str):
    result = command("run", model, option, status=2)
    assert f"Error: DxDispatch's {option} has no counterpart\n" in result.stderr


def test_a_terminal_gets_the_first_values(model: str):
    lines: list[str] = []
    most = Executor(load_model(model), jax.devices()[0], lines.append, print_most=3)
    most.run()
    assert "Resource 'y': 2, inf, nan, ... 1 more (--json prints all)" in lines
    assert len(values("run", model)["resources"][0]["values"]) == 4


@pytest.mark.parametrize("width", [50, 80])
def test_a_table_folds_at_commas(width: int, model: str, monkeypatch: pytest.MonkeyPatch):
    from rich.console import Console

    sizes = tensor([1, 2, 1, 1, 12, 512, 1024, 1])
    desc = {"InputTensor": sizes, "OutputTensor": sizes, "Min": 0, "Max": 1}
    wide = {"type": "ELEMENT_WISE_CLIP", "desc": desc}
    dispatchables = {**MODEL["dispatchables"], "stretchColumns": wide}
    model_file({**MODEL, "dispatchables": dispatchables}, Path())
    terminal = importlib.import_module("dml_jax.cli.tables")
    monkeypatch.setattr(terminal, "console", lambda: Console(width=width, highlight=False))
    lines = command("check", model).stdout.splitlines()
    assert max(map(len, lines)) <= width
    assert {"stretchColumns", "ELEMENT_WISE_CLIP", "FLOAT32[4]"} <= set(" ".join(lines).split())
    assert not any("\u2502" in line or "|" in line for line in lines)
    # A number at the end of a line is a whole one.
    ends = [re.search(r"(\d+)(,|\]|)$", line) for line in lines]
    assert {end[1] for end in ends if end} <= {"0", *map(str, sizes["Sizes"]), "4"}


def test_a_nan_ends_a_run_in_a_line(model: str):
    with jax.debug_nans(True):
        (line,) = command("run", model, status=1).stderr.splitlines()
    assert line.startswith("JAX stops at this number: invalid value (nan) encountered in ")


@pytest.mark.parametrize(
    "way",
    [
        lambda op, x: run_model(load_model("model.json")),
        lambda op, x: compile(op)(x),
        lambda op, x: op(x),
    ],
    ids=["run_model", "compile", "call"],
)
def test_debug_nans(way: Any, model: str):
    """A NaN in a result is a FloatingPointError."""
    op = Reduce.infer(function="SUM", input_tensor=TensorDesc("FLOAT32", [2]), axes=[0])
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match="nan"):
        way(op, np.array([1, np.nan], np.float32))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes")
@pytest.mark.parametrize("verb", ["run", "check", "show"])
def test_a_model_from_a_pipe(verb: str, model: str):
    """As of `dml-jax run <(generate)`; files are in the current folder."""
    np.save("x.npy", np.ones(4, np.float32))
    resources = {**MODEL["resources"], "x": buffer({"sourcePath": "x.npy"}, None)}
    Path("other").mkdir()
    os.mkfifo("other/pipe")
    text = json.dumps({**MODEL, "resources": resources})
    with ThreadPoolExecutor(1) as pool:
        pool.submit(Path("other/pipe").write_text, text)
        assert command(verb, "other/pipe").stderr == ""
    assert Path("y.npy").exists() == (verb == "run")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows removes no current folder")
def test_a_current_folder_that_was_removed(model: str, monkeypatch: pytest.MonkeyPatch):
    Path("gone").mkdir()
    monkeypatch.chdir("gone")
    Path("../gone").rmdir()
    command("check", f"../{model}")
    assert load_model(f"../{model}").dispatches
    said = command("run", f"../{model}", status=1).stderr
    assert "expected targetPath 'y.npy' to be one that can be written, got No such" in said
    command("run", f"../{model}", "--output_path", "..")
    assert Path("../y.npy").exists()


def test_the_catalogue_lists_every_operator():
    shown = command("operators").stdout
    assert {op["name"] for op in values("operators")} == set(DOCUMENTED)
    for name in DOCUMENTED:
        assert f"\n{name.removeprefix('DML_OPERATOR_')} " in f"\n{shown}"


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_catalogue_is_the_documentation(name: str):
    """Each level of each type: the ranks of all rows of the page up to it."""
    shown, facts = values("operators", name), DOCUMENTED[name]
    assert shown["introduced"] == facts["introduced"]
    has_inputs = any(f["kind"] == "input" for f in facts["fields"])  # a generator has none
    assert any(shown["in_place"].values()) == (facts["in_place"] and has_inputs)
    counts = {f.get("count_field") for f in facts["fields"]}
    assert [f["c_name"] for f in shown["fields"]] == [
        f["name"] for f in facts["fields"] if f["name"] not in counts
    ]
    expected: dict[tuple, list[int]] = {}
    for row in facts["support"]:
        for group in next(iter(row["when"].values())) if row["when"] else [""]:
            for operand, taken in row["tensors"].items():
                for data_type in taken["types"]:
                    for level in LEVELS[LEVELS.index(row["feature_level"]) :]:
                        key = group, operand, data_type, level
                        low, high = taken["dims"]
                        known = expected.setdefault(key, [low, high])
                        known[:] = [min(known[0], low), max(known[1], high)]
    found = {}
    for table in shown["support"]:
        groups = table.get("function", [""])
        by_level: dict[str, Any] = {}
        for level, by_type in table["levels"].items():
            by_level |= dict.fromkeys(LEVELS[LEVELS.index(level) :], by_type)
        found |= {
            (group, tensor, data_type, level): ranks
            for group in groups
            for tensor in table["tensors"]
            for level, by_type in by_level.items()
            for data_type, ranks in by_type.items()
        }
    assert found == expected


@pytest.mark.parametrize("name", ["REDUCE", "reduce", "Reduce", "DML_OPERATOR_REDUCE"])
def test_an_operator_by_any_of_its_names(name: str):
    shown = command("operators", name).stdout
    for words in ("dml_jax.Reduce", "AxisCount", "share among ties", "FLOAT32  4    1 to 8"):
        assert words in shown


@pytest.mark.parametrize("width", [30, 40, 60, 80] if NIGHTLY else [30, 80])
def test_the_catalogue_on_a_narrow_terminal(width: int, monkeypatch: pytest.MonkeyPatch):
    """No column of single letters, and names can be copied."""
    from rich.console import Console

    tables = importlib.import_module("dml_jax.cli.tables")
    monkeypatch.setattr(tables, "console", lambda: Console(width=width, highlight=False))
    listed = command("operators").stdout
    assert {f"DML_OPERATOR_{word}" for word in listed.split()} >= set(DOCUMENTED)
    for op in OPERATORS.values():
        shown = command("operators", op.short_name).stdout
        assert {name for f in op.fields for name in (f.name, f.c_name)} <= {*shown.split()}
        listed += shown
    assert "…" not in listed
    assert not re.search(r"(?m)^ *\S *\n *\S *$", listed)


def test_a_wrong_file_name_gets_the_nearest(model: str):
    assert "did you mean 'model.json'?" in command("run", "modle.json", status=1).stderr
    assert "did you mean" not in command("run", "network.json", status=1).stderr


@pytest.mark.parametrize("words", [["bench", "--mb"], ["bench", "--seconds"], ["run", "-t"]])
@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
def test_numbers_are_finite(words: list[str], number: str, model: str):
    result = command(*words, number, *[model] * (words[0] == "run"), status=2)
    assert result.stdout == ""
    assert f"Invalid value for '{words[1]}'" in result.stderr


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("chekc model.json", "'check'"),
        ("run --chek model.json", "--check"),
        ("check --feature-levl 2_1 model.json", "--feature-level"),
        ("check --feature-level 21 model.json", "'2_1'"),
        ("operators DEPHT_TO_SPACE", "DEPTH_TO_SPACE"),
        ("operators clp", "ELEMENT_WISE_CLIP"),
        ("completion bsh", "'bash'"),
        ("model.json", "'run model.json'"),
        ("run", "Missing argument 'MODEL'"),
        ("run model.json -m other.json", "MODEL and --model exclude each other"),
        ("run model.json --check --hlo", "--check and --hlo exclude each other"),
        ("run model.json --input_path nowhere", "Directory 'nowhere' does not exist"),
        ("run model.json --output_path model.json", "Directory 'model.json' is a file"),
    ],
)
def test_a_wrong_command_line(line: str, message: str, model: str):
    """Of a typo, the nearest name is said."""
    result = command(*line.split(), status=2)
    assert result.stdout == ""
    assert message in result.stderr


def test_files_are_read_and_written_where_the_options_say(model: str):
    resources = {**MODEL["resources"], "x": buffer({"sourcePath": "values.npy"}, None)}
    model_file({**MODEL, "resources": resources}, Path())
    Path("data").mkdir()
    np.save("data/values.npy", np.arange(4, dtype=np.float32))
    failed = command("run", model, status=1).stderr
    assert "'values.npy' to exist, in the folder '.' or the current one" in failed
    done = command("run", "-m", model, "--input_path", "data", "--output_path", "results/new")
    assert done.stderr == ""
    assert "written to 'results/new/y.npy'" in done.stdout
    assert np.load("results/new/y.npy").tolist() == [2, 2, 2, 3]
    Path(model).rename(Path("data", model))
    command("run", model, "--input_path", "data", "-v", "3")


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
@pytest.mark.parametrize("words", [["run"], ["run", "-m"], ["check"], ["show"]])
def test_a_model_on_standard_input(words: list[str], name: str, model: str):
    done = command(*words, name, input=Path(model).read_text())
    assert done.stderr == ""
    assert "clip" in done.stdout
    assert Path("y.npy").exists() == (words[0] == "run")
    refused = command(*words, name, input="{", status=1).stderr
    assert refused.startswith("Model '-': expected the text to be JSON, got Missing a name")


def test_a_device_that_fails_is_said_in_one_line(model: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Executor, "run", mock.Mock(side_effect=MemoryError))
    result = command("run", model, status=1)
    assert result.stderr.splitlines()[-1].startswith("The device failed: MemoryError")


@pytest.mark.parametrize("verb", ["run", "check"])
def test_a_graph_is_no_model(verb: str, model: str):
    Path("graph.json").write_text(json.dumps({"Nodes": []}))
    result = command(verb, "graph.json", status=1)
    (line,) = result.stderr.splitlines()
    assert result.stdout == ""
    assert line.startswith("Model 'graph.json': expected the file to hold a model")
    with pytest.raises(DmlError, match="expected the file to hold a graph"):
        Graph.load(model)


def test_what_is_no_model(model: str):
    Path("empty").mkdir()
    (line,) = command("check", "empty", status=1).stderr.splitlines()
    assert line.startswith("expected the folder 'empty' to hold a model, a graph, an ONNX network")
    for words in (["run"], ["bench", "--model"]):
        result = command(*words, "empty", status=1)
        assert "got a folder (`dml-jax check empty`)" in result.stderr
    Path("README.md").write_text("# A title")
    rule = "expected the text to be JSON (the name of a JSON file ends in .json), got Invalid value"
    assert rule in command("run", "README.md", status=1).stderr


@pytest.mark.parametrize("words", [["--json", "."], ["--json", "/"], ["-o", "x.svg/y.svg"]])
def test_what_cannot_be_written_is_said_before_measuring(words: list[str], model: str):
    Path("x.svg").write_text("kept")
    result = command("bench", "--operator", "TILE", *words, status=1)
    assert result.stdout == ""
    assert f"'{words[1]}' to be one that can be written" in result.stderr
    assert sorted(path.name for path in Path().iterdir()) == ["model.json", "x.svg"]
    assert Path("x.svg").read_text() == "kept"


@pytest.mark.parametrize("line", ["run model.json", "bench --quick"])
def test_a_platform_that_is_not_there(line: str, model: str):
    done = python("-m", "dml_jax", *line.split(), env={**os.environ, "JAX_PLATFORMS": "martian"})
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("expected JAX_PLATFORMS to name platforms that start here")
    assert line.endswith("got 'martian'")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
@pytest.mark.parametrize(
    "line", ["operators JOIN --json", "--version", "run model.json", "check model.json"]
)
def test_a_report_that_cannot_be_written(line: str, model: str):
    with Path("/dev/full").open("w") as full:
        done = python("-m", "dml_jax", *line.split(), stdout=full)
    assert done.returncode == 1
    assert done.stderr == "The report cannot be written: No space left on device\n"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows' shell closes no output")
def test_nobody_reads_the_report(model: str):
    command = f"'{sys.executable}' -m dml_jax check {model} >&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "incomplete", "expected"),
    [
        ([], "op", ["operators"]),
        (["operators"], "SPACE_TO_DEPTH1", ["SPACE_TO_DEPTH1"]),
        (["operators"], "joi", ["JOIN"]),
        (["check", "--feature-level"], "6_4", ["6_4"]),
        (["run"], "--hl", ["--hlo"]),
        (["run", "-a"], "cpu:0", ["cpu:0"]),
        (["bench", "--device"], "CPU:0", ["cpu:0"]),
        (["bench", "--dtype"], "float1", ["FLOAT16"]),
    ],
)
def test_completion(words: list[str], incomplete: str, expected: list[str]):
    shell = BashComplete(cli, {}, "dml-jax", "_DML_JAX_COMPLETE")
    assert [item.value for item in shell.get_completions(words, incomplete)] == expected


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_scripts(shell: str):
    assert f"_DML_JAX_COMPLETE={shell}_complete" in command("completion", shell).stdout


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals")
def test_colours_only_on_a_terminal():
    import pty

    words = ["-m", "dml_jax", "operators", "JOIN"]

    def on_terminal(**environment: str) -> bytes:
        ours, theirs = pty.openpty()
        settings = {**os.environ, "TERM": "xterm-256color", **environment}
        with subprocess.Popen([sys.executable, *words], env=settings, stdout=theirs, stderr=theirs):
            os.close(theirs)
            shown = b""
            with contextlib.suppress(OSError):  # the other end is closed
                while chunk := os.read(ours, 65536):
                    shown += chunk
        os.close(ours)
        return shown

    assert "\x1b[" not in python(*words).stdout
    assert b"\x1b[1m" in on_terminal()
    plain = on_terminal(NO_COLOR="1")
    assert b"JOIN" in plain
    assert not any(b"\x1b[%dm" % colour in plain for colour in range(30, 48))


@pytest.mark.parametrize("verb", ["run", "check", "show"])
def test_a_model_that_may_not_be_read(verb: str, tmp_path: Path, monkeypatch: Any):
    """It is a fault of the model, and none of the command line."""
    path = tmp_path / "m.json"
    path.write_text("{}")
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    refused = mock.Mock(side_effect=PermissionError(13, "Permission denied"))
    monkeypatch.setattr(Path, "read_bytes", refused)
    rule = "expected the model to be a readable JSON file, got Permission denied"
    assert command(verb, path, status=1).stderr == f"Model '{path}': {rule}\n"


@pytest.mark.parametrize("words", [["run"], ["run", "--hlo"], ["check"]])
def test_names_move_no_cursor(words: list[str], tmp_path: Path):
    """They come from files: ESC ] 0 ; would name the terminal's window."""
    name = "a\x1b]0;b\a[red]"
    text = json.dumps(MODEL).replace('"clip"', json.dumps(name)).replace('"y"', json.dumps(name))
    (tmp_path / "m.json").write_text(text)
    words = [*words, "--output_path", str(tmp_path)] if words == ["run"] else words
    result = command(*words, tmp_path / "m.json")
    assert "\\x1b]0;b\\x07[red]" in result.stdout
    assert "\x1b" not in result.output
    assert "\a" not in result.output


def test_a_graph_with_comments(tmp_path: Path):
    path, builder = tmp_path / "graph.json", GraphBuilder()
    x = builder.input_tensor("x", TensorDesc("FLOAT32", [4]))
    graph = builder.build(join([clip(x, 0, 1), builder.constant(np.ones(4, np.float32))], 0))
    graph.save(path)
    path.write_text("// saved\n" + path.read_text())
    assert "ELEMENT_WISE_CLIP" in command("show", path).stdout
    path.write_text(path.read_text().replace('"Axis": 0', '"Axis": 1'))
    refused = command("show", path, status=1).stderr
    assert refused.startswith(f"Graph '{path}': DML_GRAPH_DESC: expected Nodes[2].")


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("--help", 0),
        ("--version", 0),
        ("run --help", 0),
        ("completion bash", 0),
        ("nosuch", 2),
        ("run", 2),
        ("run --nosuch", 2),
        ("check --feature-level 21 model.json", 2),
        ("bench --operator REDUC", 2),
        ("bench --dtype FLOTA32", 2),
    ],
)
def test_help_and_usage_errors_start_without_jax(words: str, status: int):
    assert _imported_by(words.split(), {}, status) == []


@pytest.mark.parametrize(
    ("words", "incomplete"),
    [("", "op"), ("operators", "JOI"), ("check --feature-level", "6_"), ("bench --dtype", "FLO")],
)
def test_completion_starts_without_jax(words: str, incomplete: str):
    typed = f"dml-jax {words} {incomplete}".replace("  ", " ")
    count = str(len(typed.split()) - 1)
    shell = {"_DML_JAX_COMPLETE": "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": count}
    assert _imported_by([], shell, 0) == []


def _imported_by(words: list[str], env: dict[str, str], status: int) -> list[str]:
    """Return which heavy packages a command imports, in a process of its own."""
    code = (
        "import sys, dml_jax_command\n"
        f"sys.argv[:] = {['dml-jax', *words]}\n"
        "try: dml_jax_command.main()\n"
        "except SystemExit as ending: status = ending.code\n"
        "heavy = ('jax', 'numpy', 'onnx', 'rich')\n"
        "print('STATUS', status, *(name for name in heavy if name in sys.modules))\n"
    )
    done = python("-c", code, env={**os.environ, **env})
    _, ended, *found = done.stdout.splitlines()[-1].split()
    assert (ended, done.stdout.count("Traceback")) == (str(status), 0)
    return found

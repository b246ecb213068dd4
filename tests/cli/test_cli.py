"""The manners of the command line: help, JSON, colours, typos, completion. Models: test_run."""

import importlib
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner, Result
from documented_facts import DOCUMENTED
from nightly import NIGHTLY

from dml_jax import (
    OPERATORS,
    Buffer,
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
from dml_jax.facts import catalogue

COMMANDS = list(cli.commands)
LEVELS = [level.suffix for level in FeatureLevel]
MODEL = {
    "resources": {
        "x": {"initialValuesDataType": "FLOAT32", "initialValues": [1, "inf", "nan", 4]},
        "y": {
            "initialValuesDataType": "FLOAT32",
            "initialValues": {"valueCount": 4, "value": 0},
        },
    },
    "dispatchables": {
        "clip": {
            "type": "ELEMENT_WISE_CLIP",
            "desc": {
                "InputTensor": {"DataType": "FLOAT32", "Sizes": [4]},
                "OutputTensor": {"DataType": "FLOAT32", "Sizes": [4]},
                "Min": 2,
                "Max": "inf",
            },
        }
    },
    "commands": [
        {
            "type": "dispatch",
            "dispatchable": "clip",
            "bindings": {"InputTensor": "x", "OutputTensor": "y"},
        },
        {"type": "print", "resource": "y"},
        {"type": "writeFile", "resource": "y", "targetPath": "y.npy"},
    ],
}


def invoke(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


def values(*words: str, status: int = 0) -> Any:
    result = invoke(*words, "--json")
    assert (result.exit_code, result.stderr) == (status, ""), result.output
    return json.loads(result.stdout, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("model.json").write_text(json.dumps(MODEL))
    return "model.json"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches_by_example(command: str):
    shown = invoke(command, "--help").stdout
    assert shown == invoke(command, "-h").stdout
    assert f"\n  dml-jax {command} " in shown
    assert "Exit status: 0 done, 1" in shown
    assert command == "completion" or "--json" in shown
    assert max(map(len, shown.splitlines())) <= 100
    assert f"\n  dml-jax {command} " in invoke().output or command == "completion"


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
    both = invoke("check", model, str(other), model, "--json")
    assert both.exit_code == 1
    first, again, faults = map(json.loads, both.stdout.splitlines())
    assert first == again == {"model": model, "dispatchables": [row]}
    assert [fault["context"][0] for fault in faults["faults"]] == [str(other)]
    told = invoke("check", model, str(other))
    assert told.stdout.count("ELEMENT_WISE_CLIP") == 1
    assert told.stderr.startswith(f"{other}: ")


def test_programs_are_shown_without_places_in_python(model: str):
    shown = invoke("run", model, "--hlo").stdout
    assert "ENTRY" in shown
    assert not re.search("FileNames|StackFrames|stack_frame_id|site-packages", shown)


def test_check_is_run_check(model: str):
    assert invoke("check", model).stdout == invoke("run", model, "--check").stdout
    (row,) = values("check", model)["dispatchables"]
    assert values("run", model, "--check") == values("show", model) == {"dispatchables": [row]}
    assert row["operator"] == "ELEMENT_WISE_CLIP"
    assert row["inputs"] == [{"DataType": "FLOAT32", "Sizes": [4]}]
    # One dimension is taken from 3_0 on: the page.
    assert row["feature_level"] == "3_0"
    assert list(row["refused"]) == ["1_0", "2_0", "2_1"]
    assert "DimensionCount to be 4 at feature level 2_1" in row["refused"]["2_1"][0]
    assert not Path("y.npy").exists()
    ways = (["check", model], ["run", model, "--check"])
    refused, too = (invoke(*way, "--feature-level", "1_0") for way in ways)
    assert (refused.exit_code, refused.stderr) == (too.exit_code, too.stderr)
    assert refused.exit_code == 1


@pytest.mark.parametrize("words", [["run"], ["check"], ["run", "--check"], ["show"]])
def test_faults_for_machines(words: list[str], model: str):
    broken = json.loads(Path(model).read_text())
    broken["dispatchables"]["clip"]["desc"]["Minn"] = 1
    broken["commands"][1]["resource"] = "z"
    Path(model).write_text(json.dumps(broken))
    faults = values(*words, model, status=1)["faults"]
    assert [fault["field"] for fault in faults] == ["Minn", "resource"]
    assert faults[0]["context"] == ["Dispatchable 'clip'"]
    assert [fault["value"] for fault in faults] == ["1", "'z'"]
    shown = invoke(*words, model)
    assert (shown.exit_code, shown.stdout) == (1, "")
    assert shown.stderr.splitlines() == [fault["message"] for fault in faults]


def test_levels_for_machines(model: str):
    (fault,) = values("check", model, "--feature-level", "2_1", status=1)["faults"][:1]
    assert (fault["operator"], fault["field"]) == (
        "DML_OPERATOR_ELEMENT_WISE_CLIP",
        "InputTensor.DimensionCount",
    )


def test_graph_for_machines(tmp_path: Path):
    builder = GraphBuilder()
    image = builder.input_tensor("image", TensorDesc("FLOAT16", [1, 1, 2, 2]))
    builder.build({"sum": reduce(clip(image, 0, 1), "SUM")}).save(tmp_path / "graph.json")
    picture = tmp_path / "graph.svg"
    result = invoke("show", str(tmp_path / "graph.json"), "--json", "-o", str(picture))
    shown = json.loads(result.stdout)
    assert "graph.svg" in result.stderr
    assert picture.read_text().endswith("</svg>\n")
    assert [node["operator"] for node in shown["nodes"]] == ["ELEMENT_WISE_CLIP", "REDUCE"]
    assert shown["inputs"] == [{"DataType": "FLOAT16", "Sizes": [1, 1, 2, 2]}]


def test_a_part_of_a_name_finds_operators():
    """By family; the facts have the names."""
    shown = invoke("operators", "space").stdout
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
    shown = invoke("operators", word).stdout
    assert all(name in shown for name in expected)
    if "." in word:
        assert word.removeprefix("jnp.") in shown


def test_a_search_says_what_to_call():
    shown = invoke("operators", "jnp.max").stdout
    called = shown.index("dml_jax.reduce(input, function, axes=None"), shown.index("dml_jax.max(a,")
    assert called[0] < shown.index("Also with 'jnp.max' in a name") < called[1]
    assert (
        "\nAs a function: dml_jax.if_(condition, a, b)\n"
        in invoke("operators", "ELEMENT_WISE_IF").stdout
    )
    assert values("operators", "jnp.max")[0]["name"] == "DML_OPERATOR_REDUCE"


def test_what_jax_has_itself():
    result = invoke("operators", "jnp.reshape")
    use = "No operator has the name 'jnp.reshape'. Use jax.numpy.reshape: operators take JAX's"
    assert (result.exit_code, result.stdout) == (0, f"{use} arrays.\n")
    shown = invoke("operators", "transpose").stdout
    assert shown.index("Use jax.numpy.transpose") < shown.index("(ONNX Transpose)")
    assert json.loads(invoke("operators", "jnp.reshape", "--json").stdout) == []


def test_the_names_of_all_operators():
    found = catalogue()
    assert len(found) == len(set(found)) == 177
    assert {name.removeprefix("DML_OPERATOR_") for name in DOCUMENTED} <= set(found)


def test_what_one_needs_of_an_operator_stands_first():
    shown = invoke("operators", "REDUCE").stdout
    heads = ("Choices", "Gradient", "Fields", "Ranks by feature level")
    places = [shown.index(f"\n{head}") for head in heads]
    assert places == sorted(places)


def test_a_device_that_is_not_there(model: str):
    (line,) = invoke("run", model, "-a", "abacus").stderr.splitlines()
    assert line.startswith("no device matches 'abacus'; this machine has: ")
    assert "cpu:0, " in line
    if all(device.platform == "cpu" for device in jax.devices()):
        assert line.endswith('. NVIDIA: pip install "jax[cuda13]"')


@pytest.mark.parametrize("option", ["-e", "--enable_onnx_profiling", "-x"])
def test_options_of_dxdispatch_without_counterpart(option: str, model: str):
    result = invoke("run", model, option)
    assert result.exit_code == 2
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

    sizes = {"DataType": "FLOAT32", "Sizes": [1, 2, 1, 1, 12, 512, 1024, 1]}
    desc = {"InputTensor": sizes, "OutputTensor": sizes, "Min": 0, "Max": 1}
    wide = {"type": "ELEMENT_WISE_CLIP", "desc": desc}
    text = {**MODEL, "dispatchables": {**MODEL["dispatchables"], "stretchColumns": wide}}
    Path(model).write_text(json.dumps(text))
    terminal = importlib.import_module("dml_jax.cli.tables")
    monkeypatch.setattr(terminal, "console", lambda: Console(width=width, highlight=False))
    lines = invoke("check", model).stdout.splitlines()
    assert max(map(len, lines)) <= width
    assert {"stretchColumns", "ELEMENT_WISE_CLIP", "FLOAT32[4]"} <= set(" ".join(lines).split())
    assert not any("\u2502" in line or "|" in line for line in lines)
    # A number at the end of a line is a whole one.
    ends = [re.search(r"(\d+)(,|\]|)$", line) for line in lines]
    assert {end[1] for end in ends if end} <= {"0", *map(str, sizes["Sizes"]), "4"}


@pytest.mark.parametrize("way", ["run", "run_model", "compile", "dispatch", "call"])
def test_debug_nans(way: str, model: str):
    """A NaN in a result ends the run: FloatingPointError, as a call gives it; a line in `run`."""
    op = Reduce(
        input_tensor=TensorDesc("FLOAT32", [2]),
        output_tensor=TensorDesc("FLOAT32", [1]),
        function="SUM",
        axes=[0],
    )
    x = np.array([1, np.nan], np.float32)
    with jax.debug_nans(True):
        if way == "run":
            result = invoke("run", model)
            assert result.exit_code == 1
            (line,) = result.stderr.splitlines()
            assert line.startswith("JAX stops at this number: invalid value (nan) encountered in ")
            return
        with pytest.raises(FloatingPointError, match="nan"):
            match way:
                case "run_model":
                    run_model(load_model(model))
                case "compile":
                    compile(op)(x)
                case "dispatch":
                    y = Buffer(np.zeros(1, np.float32))
                    compile(op).bind([Buffer(x)], [y]).dispatch()
                case "call":
                    op(x)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes")
@pytest.mark.parametrize("command", ["run", "check", "show"])
def test_a_model_from_a_pipe(command: str, model: str):
    """As of `dml-jax run <(generate)`; files are in the current folder."""
    np.save("x.npy", np.ones(4, np.float32))
    resources = {**MODEL["resources"], "x": {"initialValues": {"sourcePath": "x.npy"}}}
    Path("other").mkdir()
    os.mkfifo("other/pipe")
    text = json.dumps({**MODEL, "resources": resources})
    with ThreadPoolExecutor(1) as pool:
        pool.submit(Path("other/pipe").write_text, text)
        result = invoke(command, "other/pipe")
    assert (result.exit_code, result.stderr) == (0, "")
    assert Path("y.npy").exists() == (command == "run")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows removes no current folder")
def test_a_current_folder_that_was_removed(model: str, monkeypatch: pytest.MonkeyPatch):
    Path("gone").mkdir()
    monkeypatch.chdir("gone")
    Path("../gone").rmdir()
    assert invoke("check", f"../{model}").exit_code == 0
    assert load_model(f"../{model}").dispatches
    result = invoke("run", f"../{model}")
    assert result.exit_code == 1
    assert "expected targetPath 'y.npy' to be one that can be written, got No such" in result.stderr
    assert invoke("run", f"../{model}", "--output_path", "..").exit_code == 0
    assert Path("../y.npy").exists()


def test_the_catalogue_lists_every_operator():
    shown = invoke("operators").stdout
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
            for tensor, taken in row["tensors"].items():
                for data_type in taken["types"]:
                    for level in LEVELS[LEVELS.index(row["feature_level"]) :]:
                        key = group, tensor, data_type, level
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
    shown = invoke("operators", name).stdout
    for words in ("dml_jax.Reduce", "AxisCount", "share among ties", "FLOAT32  4    1 to 8"):
        assert words in shown


@pytest.mark.parametrize("width", [30, 40, 60, 80] if NIGHTLY else [30, 80])
def test_the_catalogue_on_a_narrow_terminal(width: int, monkeypatch: pytest.MonkeyPatch):
    """No column of single letters, and names can be copied."""
    from rich.console import Console

    for name in ("operators", "tables"):
        module = importlib.import_module(f"dml_jax.cli.{name}")
        monkeypatch.setattr(module, "console", lambda: Console(width=width, highlight=False))
    listed = invoke("operators").stdout
    assert {f"DML_OPERATOR_{word}" for word in listed.split()} >= set(DOCUMENTED)
    for op in OPERATORS.values():
        shown = invoke("operators", op.short_name).stdout
        assert {name for f in op.fields for name in (f.name, f.c_name)} <= {*shown.split()}
        listed += shown
    assert "…" not in listed
    assert not re.search(r"(?m)^ *\S *\n *\S *$", listed)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["chekc", "model.json"], "'check'"),
        (["run", "--chek", "model.json"], "--check"),
        (["check", "--feature-levl", "2_1", "model.json"], "--feature-level"),
        (["check", "--feature-level", "21", "model.json"], "'2_1'"),
        (["operators", "DEPHT_TO_SPACE"], "DEPTH_TO_SPACE"),
        (["operators", "clp"], "ELEMENT_WISE_CLIP"),
        (["completion", "bsh"], "'bash'"),
        (["model.json"], "'run model.json'"),
    ],
)
def test_a_typo_gets_the_nearest_name(words: list[str], hint: str):
    result = invoke(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert hint in result.stderr


def test_a_wrong_file_name_gets_the_nearest(model: str):
    result = invoke("run", "modle.json")
    assert result.exit_code == 1
    assert "did you mean 'model.json'?" in result.stderr


@pytest.mark.parametrize("words", [["bench", "--mb"], ["bench", "--seconds"], ["run", "-t"]])
@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
def test_numbers_are_finite(words: list[str], number: str, model: str):
    result = invoke(*words, number, *[model] * (words[0] == "run"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"Invalid value for '{words[1]}'" in result.stderr


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("run", "Missing argument 'MODEL'"),
        ("run model.json -m other.json", "MODEL and --model exclude each other"),
        ("run model.json --check --hlo", "--check and --hlo exclude each other"),
        ("run model.json --input_path nowhere", "Directory 'nowhere' does not exist"),
        ("run model.json --output_path model.json", "Directory 'model.json' is a file"),
    ],
)
def test_a_wrong_command_line(line: str, message: str, model: str):
    result = invoke(*line.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_files_are_read_and_written_where_the_options_say(model: str):
    source = {"initialValues": {"sourcePath": "values.npy"}}
    resources = {**MODEL["resources"], "x": source}
    Path(model).write_text(json.dumps({**MODEL, "resources": resources}))
    Path("data").mkdir()
    np.save("data/values.npy", np.arange(4, dtype=np.float32))
    failed = invoke("run", model)
    assert "'values.npy' to exist, in the folder '.' or the current one" in failed.stderr
    done = invoke("run", "-m", model, "--input_path", "data", "--output_path", "results/new")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "written to 'results/new/y.npy'" in done.stdout
    assert np.load("results/new/y.npy").tolist() == [2, 2, 2, 3]
    Path(model).rename(Path("data", model))
    assert invoke("run", model, "--input_path", "data", "-v", "3").exit_code == 0


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
@pytest.mark.parametrize("words", [["run"], ["run", "-m"], ["check"], ["show"]])
def test_a_model_on_standard_input(words: list[str], name: str, model: str):
    def of(text: str) -> Result:
        return CliRunner().invoke(cli, [*words, name], input=text)

    done = of(Path(model).read_text())
    assert (done.exit_code, done.stderr) == (0, "")
    assert "clip" in done.stdout
    assert Path("y.npy").exists() == (words[0] == "run")
    refused = of("{")
    assert refused.exit_code == 1
    assert refused.stderr.startswith("Model '-': expected the text to be JSON, got Missing a name")


def test_a_device_that_fails_is_said_in_one_line(model: str, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("dml_jax.dxdispatch.executor.Executor.run", fail)
    result = invoke("run", model)
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("The device failed: MemoryError")


def test_a_file_that_cannot_be_written_is_said_before_anything_runs(model: str):
    Path("y.npy").mkdir()
    result = invoke("run", model)
    assert result.exit_code == 1
    assert "Dispatch" not in result.stdout
    (line,) = result.stderr.splitlines()
    assert line.startswith("Resource 'y': expected targetPath 'y.npy' to be one that can be")


def test_a_graph_is_no_model(model: str):
    saved = json.dumps({"Nodes": []})
    Path("graph.json").write_text(saved)
    for command in ("run", "check"):
        result = invoke(command, "graph.json")
        (line,) = result.stderr.splitlines()
        assert (result.exit_code, result.stdout) == (1, "")
        assert line.startswith("Model 'graph.json': expected the file to hold a model")
    with pytest.raises(DmlError, match="expected the file to hold a graph"):
        Graph.load(model)


def test_what_is_no_model(model: str):
    Path("empty").mkdir()
    (line,) = invoke("check", "empty").stderr.splitlines()
    assert line.startswith("expected the folder 'empty' to hold a model, a graph, an ONNX network")
    assert invoke("check", "empty").exit_code == 1
    for words in (["run"], ["bench", "--model"]):
        result = invoke(*words, "empty")
        assert result.exit_code == 1
        assert "got a folder (`dml-jax check empty`)" in result.stderr
    Path("README.md").write_text("# A title")
    rule = "expected the text to be JSON (the name of a JSON file ends in .json), got Invalid value"
    assert rule in invoke("run", "README.md").stderr


@pytest.mark.parametrize("words", [["--json", "."], ["--json", "/"], ["-o", "x.svg/y.svg"]])
def test_what_cannot_be_written_is_said_before_measuring(words: list[str], model: str):
    Path("x.svg").write_text("kept")
    result = invoke("bench", "--operator", "TILE", *words)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"'{words[1]}' to be one that can be written" in result.stderr
    assert sorted(path.name for path in Path().iterdir()) == ["model.json", "x.svg"]
    assert Path("x.svg").read_text() == "kept"


@pytest.mark.parametrize("command", ["run model.json", "bench --quick"])
def test_a_platform_that_is_not_there(command: str, model: str):
    settings = {**os.environ, "JAX_PLATFORMS": "martian"}
    done = subprocess.run(
        [sys.executable, "-m", "dml_jax", *command.split()],
        env=settings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("expected JAX_PLATFORMS to name platforms that start here")
    assert line.endswith("got 'martian'")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
@pytest.mark.parametrize("command", ["operators JOIN --json", "--version"])
def test_a_report_that_cannot_be_written(command: str):
    words = [sys.executable, "-m", "dml_jax", *command.split()]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "The report cannot be written: No space left on device"
    assert "Traceback" not in done.stderr


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
    script = invoke("completion", shell).stdout
    assert f"_DML_JAX_COMPLETE={shell}_complete" in script


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals")
def test_colours_only_on_a_terminal():
    import pty

    def output(terminal: bool, **environment: str) -> bytes:
        command = [sys.executable, "-m", "dml_jax", "operators", "JOIN"]
        settings = {**os.environ, "TERM": "xterm-256color", **environment}
        if not terminal:
            return subprocess.run(command, env=settings, capture_output=True, check=True).stdout
        ours, theirs = pty.openpty()
        with subprocess.Popen(command, env=settings, stdout=theirs, stderr=theirs):
            os.close(theirs)
            shown = b""
            try:
                while chunk := os.read(ours, 65536):
                    shown += chunk
            except OSError:  # the other end is closed
                pass
        os.close(ours)
        return shown

    assert b"\x1b[" not in output(terminal=False)
    assert b"\x1b[1m" in output(terminal=True)
    plain = output(terminal=True, NO_COLOR="1")
    assert b"JOIN" in plain
    assert not any(b"\x1b[%dm" % colour in plain for colour in range(30, 48))


@pytest.mark.parametrize("command", ["run", "check", "show"])
def test_a_model_that_may_not_be_read(command: str, tmp_path: Path, monkeypatch: Any):
    """It is a fault of the model, and none of the command line."""
    path = tmp_path / "m.json"
    path.write_text("{}")
    monkeypatch.setattr(os, "access", lambda *_, **__: False)

    def refused(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refused)
    result = invoke(command, str(path))
    assert result.exit_code == 1
    rule = "expected the model to be a readable JSON file, got Permission denied"
    assert result.stderr == f"Model '{path}': {rule}\n"


def test_names_move_no_cursor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """They come from files: ESC ] 0 ; would name the terminal's window."""
    monkeypatch.chdir(tmp_path)
    name = "a\x1b]0;b\a[red]"
    text = json.dumps(MODEL).replace('"clip"', json.dumps(name)).replace('"y"', json.dumps(name))
    Path("m.json").write_text(text)
    for words in (["run", "m.json"], ["run", "m.json", "--hlo"], ["check", "m.json"]):
        result = invoke(*words)
        assert result.exit_code == 0, result.output
        assert "\\x1b]0;b\\x07[red]" in result.stdout
        assert "\x1b" not in result.output
        assert "\a" not in result.output


def test_a_graph_with_comments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    builder = GraphBuilder()
    x = builder.input_tensor("x", TensorDesc("FLOAT32", [4]))
    graph = builder.build(join([clip(x, 0, 1), builder.constant(np.ones(4, np.float32))], 0))
    graph.save("graph.json")
    path = Path("graph.json")
    path.write_text("// saved\n" + path.read_text())
    assert "ELEMENT_WISE_CLIP" in invoke("show", "graph.json").stdout
    path.write_text(path.read_text().replace('"Axis": 0', '"Axis": 1'))
    result = invoke("show", "graph.json")
    assert result.stderr.startswith("Graph 'graph.json': DML_GRAPH_DESC: expected Nodes[2]."), (
        result.output
    )


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
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **env}, capture_output=True, text=True
    )
    _, ended, *found = done.stdout.splitlines()[-1].split()
    assert (ended, done.stdout.count("Traceback")) == (str(status), 0)
    return found

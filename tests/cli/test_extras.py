"""Commands without the packages of an extra: one line that says how to install them."""

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from dml_jax.errors import install_command

WITHOUT = """
import json, sys
missing, commands = sys.argv[1:]
sys.modules.update(dict.fromkeys(missing.split(",")))
from dml_jax.__main__ import main
for command in json.loads(commands):
    print("+", command, flush=True)
    sys.argv = ["dml-jax", *command.split()]
    try:
        main()
    except SystemExit as ending:
        print(*[ending.code] if isinstance(ending.code, str) else [])
        assert ending.code != 0
    sys.stderr.flush()
"""
"""Runs commands where the packages of the first argument cannot be imported."""

CLI = "click,rich,rapidjson,PIL,onnx"
CASES = {  # what is missing, the extra that brings it, commands that need it
    "onnx": (
        "onnx",
        "onnx",
        [
            "run net.onnx",
            "run net.json",
            "run net.json --hlo",
            "run folder/net.onnx --fallback",
            "check net.onnx",
            "check net.onnx --json",
            "check net.json",
            "check folder",
            "save net.onnx -o new.onnx",
            "show net.onnx",
            "show net.onnx --python",
            "show net.json",
            "bench --model net.json",
        ],
    ),
    "rapidjson": (
        "cli",
        "rapidjson",
        ["run net.json", "check net.json", "show net.json", "bench --model net.json"],
    ),
    "PIL": ("cli", "PIL", ["run net.onnx --input x=x.png", "run picture.json"]),
    "matplotlib": (
        "show",
        "matplotlib,networkx",
        ["show net.json -o o.svg", "bench -o o.svg", "show net.onnx -o o.png"],
    ),
    "networkx": ("show", "networkx", ["show net.json -o o.svg"]),
    "click": ("cli", CLI, ["run net.onnx", "operators"]),
    "rich": ("cli", "rich", ["run net.onnx", "operators"]),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a network, a model that dispatches it, one that reads a picture."""
    folder = tmp_path_factory.mktemp("files")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", [x], [y])
    network = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (folder / "folder").mkdir()
    onnx.save(network, folder / "net.onnx")
    onnx.save(network, folder / "folder" / "net.onnx")
    (folder / "x.png").write_bytes(b"")
    array = {"initialValuesDataType": "FLOAT32", "initialValues": np.zeros(6).tolist()}
    picture = {"initialValues": {"sourcePath": "x.png"}, "initialValuesDataType": "FLOAT32"}
    run = {"type": "dispatch", "dispatchable": "net", "bindings": {"x": "x", "y": "y"}}
    model = {
        "resources": {"x": array, "y": array},
        "dispatchables": {"net": {"type": "onnx", "sourcePath": "net.onnx"}},
        "commands": [run],
    }
    (folder / "net.json").write_text(json.dumps(model))
    model["resources"] = {"x": picture, "y": array}
    (folder / "picture.json").write_text(json.dumps(model))
    return folder


@pytest.mark.parametrize("missing", CASES)
def test_a_missing_package_is_one_line_with_the_command(missing: str, files: Path):
    extra, packages, commands = CASES[missing]
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT, packages, json.dumps(commands)],
        cwd=files,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    assert "Traceback" not in run.stdout
    reports = run.stdout.split("+ ")[1:]
    assert len(reports) == len(commands)
    for said in reports:
        found = [line for line in said.splitlines() if "pip install" in line]
        assert len(found) == 1, said
        assert install_command(extra) in found[0].replace("\\", "")


@pytest.mark.parametrize("extra", ["onnxruntime", "genai"])
def test_a_package_that_lacks_onnx_is_an_import_error_with_the_command(extra: str, files: Path):
    command = install_command("onnx" if extra == "onnxruntime" else extra)
    program = (
        "import sys; sys.modules['onnx'] = None\n"
        f"try:\n    import dml_jax.{extra}\n"
        "except ImportError as error:\n    print(error)"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert command in said
    assert len(said.splitlines()) == 1
    start = "import sys, runpy; sys.modules['onnx'] = None; sys.argv = ['-m']; "
    run = subprocess.run(
        [sys.executable, "-c", f"{start}runpy.run_module('dml_jax.{extra}')"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (1, said)


def test_the_command_names_packages_of_the_extra():
    if not list(metadata.distributions(name="dml-jax")):
        pytest.skip("the package is on the path, and not installed")
    assert install_command("export").startswith('pip install "flatbuffers')
    assert '"onnx' in install_command("cli")


def test_the_command_leaves_out_packages_that_are_there(monkeypatch: pytest.MonkeyPatch):
    if not list(metadata.distributions(name="dml-jax")):
        pytest.skip("the package is on the path, and not installed")
    known = metadata.version

    def version(name: str) -> str:
        if name in ("matplotlib", "networkx"):
            raise metadata.PackageNotFoundError(name)
        return known(name)

    monkeypatch.setattr(metadata, "version", version)
    packages = re.findall(r'"([a-z-]+)', install_command("show"))
    assert sorted(packages) == ["matplotlib", "networkx"]

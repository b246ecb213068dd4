"""Commands without the packages of an extra: one line that says how to install them."""

import json
import re
import subprocess
from importlib import metadata
from pathlib import Path

import pytest
from build import saved
from dispatch_models import buffer, dispatch, filled, model_file, model_of
from processes import python

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
            *("run net.onnx", "run net.json", "run net.json --hlo"),
            *("run folder/net.onnx --fallback", "check net.onnx", "check net.onnx --json"),
            *("check net.json", "check folder", "save net.onnx -o new.onnx", "show net.onnx"),
            *("show net.onnx --python", "show net.json", "bench --model net.json"),
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
    (folder / "folder").mkdir()
    for place in (folder, folder / "folder"):
        saved("net (float[2, 3] x) => (float[2, 3] y) { y = Relu (x) }", place, "net.onnx")
    (folder / "x.png").write_bytes(b"")
    net = {"net": {"type": "onnx", "sourcePath": "net.onnx"}}
    for name, x in (("picture", buffer({"sourcePath": "x.png"})), ("net", filled(6))):
        model = model_of({"x": x, "y": filled(6)}, net, dispatch("net", x="x", y="y"))
        model_file(model, folder).rename(folder / f"{name}.json")
    return folder


@pytest.mark.parametrize("missing", CASES)
def test_a_missing_package_is_one_line_with_the_command(missing: str, files: Path):
    extra, packages, commands = CASES[missing]
    words = ["-c", WITHOUT, packages, json.dumps(commands)]
    run = python(*words, cwd=files, stderr=subprocess.STDOUT)
    assert run.returncode == 0, run.stdout
    assert "Traceback" not in run.stdout
    reports = run.stdout.split("+ ")[1:]
    assert len(reports) == len(commands)
    for said in reports:
        found = [line for line in said.splitlines() if "pip install" in line]
        assert len(found) == 1, said
        assert install_command(extra) in found[0].replace("\\", "")


@pytest.mark.parametrize("extra", ["onnxruntime", "genai"])
def test_a_package_that_lacks_onnx_is_an_import_error_with_the_command(extra: str):
    start = "import sys, runpy; sys.modules['onnx'] = None\n"
    called = f"try:\n    import dml_jax.{extra}\nexcept ImportError as error:\n    print(error)"
    said = python("-c", start + called).stdout
    assert install_command("onnx" if extra == "onnxruntime" else extra) in said
    assert len(said.splitlines()) == 1
    run = python("-c", f"{start}sys.argv = ['-m']; runpy.run_module('dml_jax.{extra}')")
    assert (run.returncode, run.stderr) == (1, said)


installed = pytest.mark.skipif(
    not list(metadata.distributions(name="dml-jax")),
    reason="the package is on the path, and not installed",
)


@installed
def test_the_command_names_packages_of_the_extra():
    assert install_command("export").startswith('pip install "flatbuffers')
    assert '"onnx' in install_command("cli")


@installed
def test_the_command_leaves_out_packages_that_are_there(monkeypatch: pytest.MonkeyPatch):
    known = metadata.version

    def version(name: str) -> str:
        if name in ("matplotlib", "networkx"):
            raise metadata.PackageNotFoundError(name)
        return known(name)

    monkeypatch.setattr(metadata, "version", version)
    packages = re.findall(r'"([a-z-]+)', install_command("show"))
    assert sorted(packages) == ["matplotlib", "networkx"]

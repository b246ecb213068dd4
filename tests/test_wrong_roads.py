"""What a newcomer tries first is answered with the way that leads there."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import dml_jax
from dml_jax import DmlError
from dml_jax.cli import cli

ROOT = Path(__file__).parent.parent
MODEL = ROOT / "examples" / "models" / "exposure.json"
wrong: Any = dml_jax


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("relu", "dml_jax.activation_relu"),
        ("Device", "jax.devices()"),
        ("InferenceSession", "dml_jax.load_onnx"),
        ("load", "dml_jax.load_model"),
        ("resize", "dml_jax.resample"),
    ],
)
def test_names_that_other_libraries_have(name: str, hint: str):
    with pytest.raises(AttributeError, match=re.escape(hint)):
        getattr(wrong, name)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("x.onnx", "dml_jax.load_onnx"), ("x.jpg", "--input"), ("x.py", "dml_jax.pydirectml")],
)
def test_other_files_are_no_models(name: str, hint: str, tmp_path: Path):
    (tmp_path / name).write_bytes(b"\x08\xff\xfe" if name != "x.py" else b"import dml_jax")
    with pytest.raises(DmlError, match=re.escape(hint)):
        dml_jax.load_model(tmp_path / name)


@pytest.mark.parametrize(("option", "hint"), [("--gpu", "-a cuda"), ("--cpu", "-a cpu")])
def test_options_that_name_a_device(option: str, hint: str):
    result = CliRunner().invoke(cli, ["run", str(MODEL), option])
    assert result.exit_code == 2
    assert f"No such option '{option}' ({hint})" in result.stderr


def test_a_cpu_is_chosen_as_the_hint_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["run", str(MODEL), "-a", "cpu"])
    assert result.exit_code == 0, result.output


REDUCE = {
    "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 2, 2]},
    "OutputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 2, 1]},
    "Function": "SUM",
    "Axes": [3],
}


def model_of(path: Path, dispatchable: dict[str, Any]) -> Path:
    value = {
        "resources": {
            name: {
                "initialValuesDataType": "FLOAT32",
                "initialValues": {"valueCount": count, "value": 1},
            }
            for name, count in (("in", 4), ("out", 2))
        },
        "dispatchables": {"sum": dispatchable},
        "commands": [
            {
                "type": "dispatch",
                "dispatchable": "sum",
                "bindings": {"InputTensor": "in", "OutputTensor": "out"},
            }
        ],
    }
    path.write_text(json.dumps(value))
    return path


def test_a_model_runs_by_its_path(tmp_path: Path):
    path = model_of(tmp_path / "sum.json", {"type": "DML_OPERATOR_REDUCE", "desc": REDUCE})
    for given in (path, str(path), dml_jax.load_model(path)):
        np.testing.assert_array_equal(dml_jax.run_model(given)["out"].ravel(), [2, 2])


def test_a_mistyped_key_is_one_fault(tmp_path: Path):
    path = model_of(tmp_path / "sum.json", {"type": "DML_OPERATOR_REDUCE", "descr": REDUCE})
    with pytest.raises(DmlError, match="did you mean 'desc'") as refused:
        dml_jax.load_model(path)
    assert len(refused.value.faults) == 1


@pytest.mark.parametrize(
    ("name", "operator"),
    [("MATMUL", "GEMM"), ("RELU", "ACTIVATION_RELU"), ("SOFTMAX", "ACTIVATION_SOFTMAX")],
)
def test_operators_by_their_names_elsewhere(name: str, operator: str, tmp_path: Path):
    path = model_of(tmp_path / "m.json", {"type": f"DML_OPERATOR_{name}", "desc": REDUCE})
    with pytest.raises(DmlError, match=f"did you mean '{operator}'"):
        dml_jax.load_model(path)

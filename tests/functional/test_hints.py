"""What a newcomer tries first is answered with the way that leads there."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import dispatch_models
import jax.numpy as jnp
import numpy as np
import pytest
from build import command, parse
from dispatch_models import dispatch, filled, tensor

import dml_jax
from dml_jax import DmlError

ROOT = Path(__file__).parents[2]
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
        ("bind", "dml_jax.compile(operator).bind"),
        ("reshape", "(jax.numpy.reshape)"),
        ("squeeze", "(jax.numpy.squeeze)"),
        ("dense", "(dml_jax.gemm(x, w, b))"),
        ("softmx", "(did you mean 'softmax'? dml_jax.activation_softmax;"),
        ("transpose", "(jax.numpy.transpose)"),
        ("activation_silu", "(dml_jax.activation_swish;"),
        ("standardize", "(dml_jax.mean_variance_normalization(x, axes=-1))"),
        ("scatter_add", "(x.at[indices].add(updates))"),
    ],
)
def test_names_that_other_libraries_have(name: str, hint: str):
    with pytest.raises(AttributeError, match=re.escape(hint)):
        getattr(wrong, name)
    with pytest.raises(ImportError, match=re.escape(hint)):
        exec(f"from dml_jax import {name}")
    assert not hasattr(wrong, name)


def test_all_arguments_that_a_function_lacks_are_named_at_once():
    with pytest.raises(TypeError) as refused:
        wrong.max_pooling(np.ones((1, 1, 4, 4), np.float32), kernel_size=2, stride=1, padding=1)
    assert str(refused.value) == (
        "dml_jax.max_pooling: got unexpected arguments 'kernel_size' (window_size), "
        "'stride' (did you mean 'strides'?), 'padding' (start_padding and end_padding; "
        "jax.lax.padtype_to_pads gives those of 'SAME')"
    )


def test_hints_name_arguments_that_the_function_has():
    x = np.ones((2, 3), np.float32)
    with pytest.raises(TypeError, match=r"'beta' \(steepness\)$"):
        wrong.activation_softplus(x, beta=2)
    with pytest.raises(TypeError, match=r"'gamma'$"):
        wrong.activation_elu(x, gamma=2)


@pytest.mark.parametrize(
    ("name", "hint"), [("axis", "did you mean 'axes'?"), ("dim", "did you mean 'axes'?")]
)
def test_an_axis_by_another_name(name: str, hint: str):
    with pytest.raises(TypeError, match=re.escape(f"'{name}' ({hint})")):
        wrong.argmax(np.ones((2, 3), np.float32), **{name: 1})
    with pytest.raises(TypeError, match=re.escape("'dim' (did you mean 'axis'?)")):
        wrong.gather(np.ones((2, 3), np.float32), np.array([0]), dim=1)


@pytest.mark.parametrize("spelling", ["window_size", "window_sizes"])
@pytest.mark.parametrize("pool", ["max_pooling", "average_pooling", "lp_pooling"])
def test_pools_take_both_spellings_of_a_window(pool: str, spelling: str):
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    result = getattr(dml_jax, pool)(x, strides=1, **{spelling: 3})
    assert jnp.shape(result[0] if pool == "max_pooling" else result) == (1, 1, 2, 2)


def test_a_pool_says_how_it_reads_a_window_of_one_with_strides():
    x = np.ones((1, 1, 6, 6), np.float32)
    with pytest.warns(UserWarning, match="average_pooling reads strides=3, window_sizes=1"):
        dml_jax.average_pooling(x, 3, 1)
    assert jnp.shape(dml_jax.average_pooling(x, strides=3, window_sizes=1)) == (1, 1, 2, 2)


@pytest.mark.parametrize("name", ["bench", "pydirectml", "onnxruntime"])
def test_a_module_says_how_it_is_imported(name: str):
    program = (
        f"import dml_jax\ntry:\n    dml_jax.{name}\nexcept AttributeError as error:\n"
        "    print(error)\n"
        f"from dml_jax import {name}\nassert dml_jax.{name} is {name}"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout == f"dml_jax.{name} is a module: write `import dml_jax.{name}` first\n"


@pytest.mark.parametrize("module", ["onnxruntime", "pydirectml"])
def test_a_program_of_another_package(module: str, tmp_path: Path):
    other = {"onnxruntime": "pydirectml", "pydirectml": "onnxruntime"}[module]
    (tmp_path / "p.py").write_text(f"import {module}")
    runner = "run_program" if other == "onnxruntime" else "__main__"
    program = (  # as where the package is not installed
        "import sys, importlib.abc\n"
        f"from dml_jax.{other}.{runner} import main\n"
        "class Without(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        f"        if name == {module!r}: raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Without())\n"
        "main(['p.py'])"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert f"python -m dml_jax.{module} runs programs that import {module}" in run.stderr


@pytest.mark.parametrize(
    ("name", "hint"),
    [("x.onnx", "dml_jax.load_onnx"), ("x.jpg", "--input"), ("x.py", "dml_jax.pydirectml")],
)
def test_other_files_are_no_models(name: str, hint: str, tmp_path: Path):
    (tmp_path / name).write_bytes(b"\x08\xff\xfe" if name != "x.py" else b"import dml_jax")
    with pytest.raises(DmlError, match=re.escape(hint)):
        dml_jax.load_model(tmp_path / name)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("run", MODEL, "--gpu"), "-a cuda)"),
        (("run", MODEL, "--cpu"), "-a cpu)"),
        (("run", MODEL, "--batch"), "-f NAME:SIZE sets a free dimension)"),
        (("bench", "--csv", "3"), "-o FILE.csv"),
        (("bench", "--baseline", "3"), "--comp"),
    ],
)
def test_options_of_other_programs(words: Any, hint: str):
    option = next(word for word in words if str(word).startswith("--"))
    assert f"No such option '{option}' ({hint}" in command(*words, status=2).stderr


def test_a_cpu_is_chosen_as_the_hint_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    command("run", MODEL, "-a", "cpu")


REDUCE = {
    "InputTensor": tensor([1, 1, 2, 2]),
    "OutputTensor": tensor([1, 1, 2, 1]),
    "Function": "SUM",
    "Axes": [3],
}


def model_of(path: Path, dispatchable: dict[str, Any]) -> Path:
    resources = {"in": filled(4, 1), "out": filled(2)}
    command = dispatch("sum", InputTensor="in", OutputTensor="out")
    path.write_text(json.dumps(dispatch_models.model_of(resources, {"sum": dispatchable}, command)))
    return path


def test_a_model_runs_by_its_path(tmp_path: Path):
    path = model_of(tmp_path / "sum.json", {"type": "DML_OPERATOR_REDUCE", "desc": REDUCE})
    for given in (path, str(path), dml_jax.load_model(path)):
        np.testing.assert_array_equal(dml_jax.run_model(given)["out"].ravel(), [2, 2])


def test_an_input_names_a_resource(tmp_path: Path):
    path = model_of(tmp_path / "sum.json", {"type": "DML_OPERATOR_REDUCE", "desc": REDUCE})
    (tmp_path / "x.npy").touch()
    file = tmp_path / "x.npy"
    result = command("run", path, "--input", f"photo={file}", status=1)
    rule = "expected --input to name one of the model's resources (in, out), got 'photo'"
    assert result.stderr == f"Resource 'photo': {rule}\n"


def test_a_network_is_no_folder(tmp_path: Path):
    file = tmp_path / "net.onnx"
    file.touch()
    result = command("generate", file, "--prompt", "Once", status=2)
    assert f"is a file: dml-jax run {file}" in result.stderr


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


def test_weights_of_another_type_are_one_fault():
    model = parse(
        """g (float[2] x) => (float[2] y) <float[2] w = {1, 2}, float[2] v = {3, 4}>
        { z = Mul (x, w)  y = Add (z, v) }"""
    )
    network = dml_jax.load_onnx(model)
    rule = r"dtype to be bfloat16 or float32 \(load a file of FLOAT16 tensors.*got float16"
    with pytest.raises(DmlError, match=rule) as refused:
        network.weights_as(jnp.float16)
    assert len(refused.value.faults) == 1


def test_a_network_is_called_by_the_names_of_its_inputs():
    model = parse("""g (float[2] x) => (float[2] y) { y = Relu (x) }""")
    network, x = dml_jax.load_onnx(model), np.ones(2, np.float32)
    unknown: Any = network
    with pytest.raises(TypeError, match=re.escape("a network is called with arrays: network(x=")):
        unknown.run(None, {"x": x})
    assert network(x=x)["y"].tolist() == [1, 1]

"""DxDispatch models from Python: `load_model`, `run_model`."""

import pickle
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from build import command
from dispatch_models import (
    buffer,
    dispatch,
    filled,
    guide_model,
    model_file,
    model_of,
    tensor,
    write,
)
from several_devices import SEVERAL

from dml_jax import DmlError, Model, Reduce, load_model, run_model
from dml_jax.dxdispatch.resources import parse_resource


def loaded(tmp_path: Path, value: Any) -> Model:
    return load_model(str(model_file(value, tmp_path)))


@pytest.fixture
def guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Model:
    monkeypatch.chdir(tmp_path)
    return loaded(tmp_path, guide_model())


def resources(tmp_path: Path, **held: Any) -> Model:
    """A model of nothing else."""
    return loaded(tmp_path, model_of(held, {}))


def test_what_the_commands_leave(guide: Model, capsys: pytest.CaptureFixture[str]):
    found = run_model(guide)
    assert found["output"].tolist() == [[[[6], [15], [24]]]]
    assert found["input"].ravel().tolist() == list(range(1, 10))
    assert {array.dtype for array in found.values()} == {np.dtype(np.float32)}
    assert capsys.readouterr().out == ""
    assert sorted(path.name for path in Path().iterdir()) == ["model.json"]
    assert isinstance(guide.dispatchables["sum"].operator, Reduce)
    assert repr(guide) == "<Model of 2 resources and dispatchables 'sum'>"


@pytest.mark.parametrize("shape", [(9,), (3, 3), (1, 1, 3, 3)])
def test_other_values(shape: tuple[int, ...], guide: Model):
    x = np.arange(9, dtype=np.float32)[::-1].reshape(shape)
    sums = x.reshape(3, 3).sum(1)
    for values in ({"input": x}, {"input": jnp.asarray(x), "output": np.ones(3, np.float32)}):
        found = run_model(guide, values)
        np.testing.assert_array_equal(found["output"].ravel(), sums)
        np.testing.assert_array_equal(found["input"].ravel(), x.ravel())
    assert run_model(guide)["output"].ravel().tolist() == [6, 15, 24]  # the model is as it was


def test_a_model_is_pickled(guide: Model, tmp_path: Path):
    again = pickle.loads(pickle.dumps(guide))
    np.testing.assert_array_equal(run_model(again)["output"], run_model(guide)["output"])
    pixels = np.full((2, 2, 3), 51, np.uint8)
    pytest.importorskip("PIL.Image").fromarray(pixels).save(tmp_path / "v.png")
    values = np.arange(6, dtype=np.float32)
    np.save(tmp_path / "v.npy", values)
    values.tofile(tmp_path / "v.bin")
    model = resources(
        tmp_path,
        mixed=buffer([{"type": "INT32", "value": 5}], None),
        listed=buffer([1, 2]),
        full=filled(3, 7),
        steps=buffer({"valueCount": 3, "valueStart": 1, "valueDelta": 2}),
        **{kind: buffer({"sourcePath": f"v.{kind}"}) for kind in ("npy", "bin", "png")},
    )
    again = pickle.loads(pickle.dumps(model))
    for name, resource in model.resources.items():
        np.testing.assert_array_equal(again.resources[name].bytes(), resource.bytes())


def test_files_are_written_where_a_folder_is_given(guide: Model, tmp_path: Path):
    run_model(guide, output_folder=tmp_path / "out")
    assert np.load(tmp_path / "out" / "sums.npy").tolist() == [6, 15, 24]
    with pytest.raises(DmlError, match=r"Resource 'output': expected targetPath.*model.json"):
        run_model(guide, output_folder="model.json")


def test_on_a_device(guide: Model):
    assert run_model(guide, device=SEVERAL[-1])["output"].ravel().tolist() == [6, 15, 24]
    with jax.default_device(SEVERAL[-1]):
        assert run_model(guide)["output"].ravel().tolist() == [6, 15, 24]


def test_no_byte_is_lost_or_added(tmp_path: Path):
    """Three FLOAT16 lie in 8 bytes; what `sizeInBytes` asks for is there, where values begin."""
    three = buffer([1, 2, 3], "FLOAT16")
    mixed = [{"type": "UINT16", "value": 258}, {"type": "INT8", "value": -1}]
    model = resources(
        tmp_path,
        three=three,
        later={**three, "sizeInBytes": 12, "initialValuesOffsetInBytes": 4},
        odd={**three, "sizeInBytes": 7},
        mixed=buffer(mixed, None),
    )
    found = run_model(model)
    assert found["three"].tolist() == [1, 2, 3]
    assert found["later"].tolist() == [0, 0, 1, 2, 3, 0]
    assert (found["odd"].dtype, found["odd"].nbytes) == (np.uint8, 7)
    assert (found["mixed"].dtype, found["mixed"].tolist()) == (np.uint8, [2, 1, 255])
    jax.tree.map(np.testing.assert_array_equal, run_model(model, found), found)
    begins = run_model(model, {"later": np.array([7, 8, 9], np.float16)})["later"]
    assert begins.tolist() == [0, 0, 7, 8, 9, 0]


def test_what_a_dispatch_writes_beside_the_initial_values_is_there(tmp_path: Path):
    """It may write where there are none: before `initialValuesOffsetInBytes`, into padding."""
    eight = tensor([8], "FLOAT16")
    desc = {"InputTensor": eight, "OutputTensor": eight, "Min": 2, "Max": 7}
    numbers = {"valueCount": 8, "valueStart": 1, "valueDelta": 1}
    held = {
        "x": buffer(numbers, "FLOAT16"),
        "y": buffer([0], "FLOAT16", initialValuesOffsetInBytes=12),
    }
    clip = {"clip": {"type": "ELEMENT_WISE_CLIP", "desc": desc}}
    run = dispatch("clip", InputTensor="x", OutputTensor="y")
    model = loaded(tmp_path, model_of(held, clip, run))
    found = run_model(model)
    assert found["y"].tolist() == [2, 2, 3, 4, 5, 6, 7, 7]
    assert run_model(model, found)["y"].tolist() == found["y"].tolist()


def test_results_are_memory_of_their_own(guide: Model):
    x = np.frombuffer(bytearray(4096), np.float32)
    given = x[-x.ctypes.data % 64 // 4 :][:9]  # aligned, as JAX takes it without a copy
    found = run_model(guide, {"input": given})
    found["input"][:], found["output"][:] = 7, 7
    assert not given.any()
    assert not guide.resources["output"].bytes().any()
    assert run_model(guide, {"input": given})["output"].ravel().tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="read-only"):
        parse_resource("r", buffer([0] * 4, "UINT8"), Path()).bytes()[:] = 1


def test_its_files_stay_where_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Whatever folder is the current one when it runs."""
    np.save(tmp_path / "x.npy", np.arange(3, dtype=np.float32))
    monkeypatch.chdir(tmp_path)
    held = {"x": buffer({"sourcePath": "x.npy"}, None)}
    model = load_model(model_file(model_of(held, {}, write("x", "model.json")), Path()))
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    np.save("x.npy", np.full(3, 42, np.float32))
    assert run_model(model)["x"].tolist() == [0, 1, 2]
    with pytest.raises(DmlError, match="be another file than the model"):
        run_model(model, output_folder=tmp_path)


def test_what_is_inside_of_jit_or_gone(guide: Model):
    x = jnp.ones(9, jnp.float32)
    with pytest.raises(DmlError, match=r"values\['input'\] to be there, got a traced float32\[9\]"):
        jax.grad(lambda x: run_model(guide, {"input": x})["output"].sum())(x)
    with pytest.raises(DmlError, match=r"run_model to be called outside of jax\.jit"):
        jax.jit(lambda: run_model(guide)["output"])()
    x.delete()
    with pytest.raises(DmlError, match=r"values\['input'\] to be there, got a deleted float32"):
        run_model(guide, {"input": x})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"inptu": np.ones(9, np.float32)}, r"resources \(did you mean 'input'\?\), got float32"),
        ({"input": np.ones(9)}, r"\['input'\] to hold 9 elements of float32, got float64\[9\]"),
        ({"input": np.ones(8, np.float32)}, r"to hold 9 elements of float32, got float32\[8\]"),
        ({"input": [1.0] * 9}, r"values\['input'\] to be an array, got a list"),
        ({"input": np.ma.ones(9, np.float32)}, r"\['input'\] to be one of JAX or NumPy, got a M"),
        ({"input": np.ones(9, ">f4")}, r"\['input'\] to be in the machine's byte order"),
        ({"input": np.ones(9, bool)}, r"values\['input'\]\.dtype to be one that D.*got bool"),
        ([np.ones(9, np.float32)], "values to be arrays by the resource's name"),
    ],
)
def test_values_that_do_not_fit(values: Any, message: str, guide: Model):
    with pytest.raises(DmlError, match=message):
        run_model(guide, values)


def test_all_that_is_wrong_is_said(guide: Model):
    with pytest.raises(DmlError) as refused:
        run_model(guide, {"input": np.ones(2), "output": np.ones(2), "x": np.ones(2)})
    assert len(refused.value.faults) == 3


PATHS = (b"model.json", 3, None, "model\0.json")


PLAIN: Any = run_model  # for arguments that a type checker refuses


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda guide: PLAIN(3), r"model to be a Model \(of load_model\), got 3"),
        (lambda guide: PLAIN(guide, device="cpu"), "device to be a jax.Device, got 'cpu'"),
        (lambda guide: load_model("no.json"), r"Model 'no.json': .*No such file"),
        *(
            (lambda _, p=p: load_model(p), "path to be a path, as a str or pathlib.Path, got")
            for p in PATHS
        ),
        *(
            (lambda guide, f=f: PLAIN(guide, output_folder=f), "output_folder to be a path")
            for f in (3, 0, False)
        ),
    ],
)
def test_arguments_of_other_types(call: Any, message: str, guide: Model):
    with pytest.raises(DmlError, match=message):
        call(guide)


@pytest.mark.usefixtures("no_x64")
def test_64_bit_types_are_not_narrowed(tmp_path: Path):
    model = resources(tmp_path, large=buffer([2**40], "UINT64"))
    with pytest.raises(DmlError, match=r"Resource 'large': expected its type to have at most 32"):
        run_model(model)
    with jax.enable_x64(True):
        assert run_model(model)["large"].tolist() == [2**40]


@pytest.mark.usefixtures("no_x64")
def test_64_bit_tensors_in_other_resources(tmp_path: Path):
    value = guide_model()
    for name in ("InputTensor", "OutputTensor"):
        value["dispatchables"]["sum"]["desc"][name]["DataType"] = "INT64"
    value["resources"] = dict.fromkeys(("input", "output"), filled(72, 0, "UINT8"))
    message = "Dispatchable 'sum': DML_OPERATOR_REDUCE: expected InputTensor to have at most 32"
    with pytest.raises(DmlError, match=message):
        run_model(loaded(tmp_path, value))


@pytest.mark.parametrize("kind", ["npy", "raw"])
def test_values_come_from_files_on_the_command_line(kind: str, tmp_path: Path):
    path, own = model_file(guide_model(), tmp_path), tmp_path / f"x.{kind}"
    values = np.full((3, 3), 2, np.float32)
    if kind == "npy":
        np.save(own, values)
    else:
        values.tofile(own)
    words = ["run", path, "--output_path", tmp_path, "--input"]
    assert "6, 6, 6" in command(*words, f"input={own}").output
    for given, message in (
        (f"inputs={own}", "expected --input to name one of the model's resources"),
        (f"output={own}", "hold 3 elements of float32"),
        (f"input={tmp_path / 'none.npy'}", "none.npy"),
    ):
        assert message in command(*words, given, status=1).stderr

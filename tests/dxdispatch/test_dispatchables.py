"""DxDispatch's ways to write operators into models, and its options on the command line."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from build import command
from click.testing import Result
from dispatch_models import Json, buffer, dispatch, model_file, show, tensor, write
from dispatch_models import model_of as parts_of
from PIL import Image

from dml_jax import DmlError, load_model, run_model

X = np.arange(1, 10, dtype=np.float32).reshape(1, 1, 3, 3)


def resource(array: np.ndarray) -> Json:
    return buffer(array.reshape(-1).tolist(), array.dtype.name.upper())


def model_of(kind: str, inputs: Json, outputs: Json, fields: Json, owned: str = "") -> Json:
    """Return a model of one operator; `owned` names an input that its dispatchable binds."""
    flags = {owned: {"Flags": "DML_TENSOR_FLAG_OWNED_BY_DML"}}
    desc = {
        name: tensor(array.shape, array.dtype.name.upper(), **flags.get(name, {}))
        for name, array in (inputs | outputs).items()
    }
    own = {"bindings": {owned: owned}} if owned else {}
    return parts_of(
        {
            **{name: resource(array) for name, array in inputs.items()},
            **{name: resource(np.zeros_like(array)) for name, array in outputs.items()},
        },
        {"op": {"type": f"DML_OPERATOR_{kind}", "desc": desc | fields, **own}},
        dispatch("op", **{name: name for name in desc if name != owned}),
        *map(show, outputs),
    )


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def convolution(rank: int) -> Json:
    return {
        "Mode": "DML_CONVOLUTION_MODE_CROSS_CORRELATION",
        "Direction": "DML_CONVOLUTION_DIRECTION_FORWARD",
        "DimensionCount": rank,
        "GroupCount": 1,
        **dict.fromkeys(("Strides", "Dilations"), [1] * rank),
        **dict.fromkeys(("StartPadding", "EndPadding", "OutputPadding"), [0] * rank),
    }


HALVES = np.full((1, 1, 2, 2), 0.5, np.float32)
ONES = np.ones((1, 1, 2, 3, 3), np.float32)
ROW, COLUMN = f32(4, 5, 6)[None], f32(1, 2, 3)[:, None]
TRANSFORMS: Json = dict.fromkeys(("TransA", "TransB"), "DML_MATRIX_TRANSFORM_NONE")
ALPHAS: Json = {"Alpha": 1.0, "Beta": 1.0}
STEPS = f32(1, -2, 3)[:, None]
CASES: dict[str, tuple[Any, ...]] = {
    "convolution of 4 dimensions": (
        *("CONVOLUTION", {"InputTensor": X, "FilterTensor": HALVES}),
        *({"OutputTensor": f32(6, 8, 12, 14).reshape(1, 1, 2, 2)}, convolution(2)),
    ),
    "convolution of 5 dimensions": (
        *("CONVOLUTION", {"InputTensor": ONES, "FilterTensor": ONES[..., :2, :2]}),
        *({"OutputTensor": np.full((1, 1, 1, 2, 2), 8, np.float32)}, convolution(3)),
    ),
    "product with a matrix that is owned": (
        *("GEMM", {"ATensor": X, "BTensor": X, "CTensor": X}),
        *({"OutputTensor": X @ X + X}, TRANSFORMS | ALPHAS, "BTensor"),
    ),
    "sum of a tensor that is owned": (
        *("ELEMENT_WISE_ADD", {"ATensor": f32(1, 2, 3), "BTensor": f32(5, 8, -5)}),
        *({"OutputTensor": f32(6, 10, -2)}, {}, "ATensor"),
    ),
    "sum with an activation beside its type": (
        *("ELEMENT_WISE_ADD1", {"ATensor": f32(1, 2, 3), "BTensor": f32(5, 8, -5)}),
        {"OutputTensor": f32(6, 10, 0.5 * np.expm1(-2))},
        {"FusedActivation": {"Type": "ACTIVATION_ELU", "Alpha": 0.5}},
    ),
    "sum with an activation in a description": (
        *("ELEMENT_WISE_ADD1", {"ATensor": f32(1, -2, 3), "BTensor": f32(5, 0, -5)}),
        {"OutputTensor": f32(6, 0, 0)},
        {"FusedActivation": {"Type": "DML_OPERATOR_ACTIVATION_RELU", "Desc": {}}},
    ),
    "copy with a scale": (
        *("ELEMENT_WISE_IDENTITY", {"InputTensor": f32(1, 2, 3)}),
        *({"OutputTensor": f32(12, 14, 16)}, {"ScaleBias": {"Scale": 2, "Bias": 10}}),
    ),
    "twice as large": (
        *("UPSAMPLE_2D", {"InputTensor": f32(1, 2).reshape(1, 1, 1, 2)}),
        {"OutputTensor": f32(1, 1.25, 1.75, 2).reshape(1, 1, 1, 4)},
        {
            "ScaleSize": {"Width": 2, "Height": 1},
            "InterpolationMode": "DML_INTERPOLATION_MODE_LINEAR",
        },
    ),
    "network in both directions with one output": (
        "RNN",
        {
            "InputTensor": STEPS.reshape(1, 3, 1, 1),
            "WeightTensor": f32(2, 2).reshape(1, 2, 1, 1),
            "RecurrenceTensor": f32(1, 1).reshape(1, 2, 1, 1),
        },
        # forward: 2, 0.5 * (exp(-2) - 1), 6 and that; backward: 6, 2, 4
        {"OutputSingleTensor": f32(6 + 0.5 * np.expm1(-2), 4).reshape(1, 2, 1, 1)},
        {
            "ActivationDescCount": 2,
            "ActivationDescs": [
                {"Type": "ACTIVATION_ELU", "Alpha": 0.5},
                {"Type": "ACTIVATION_ELU", "Alpha": 3.5},
            ],
            "Direction": "DML_RECURRENT_NETWORK_DIRECTION_BIDIRECTIONAL",
        },
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_operators_as_dxdispatch_writes_them(name: str, tmp_path: Path):
    kind, inputs, outputs, fields, *owned = CASES[name]
    path = model_file(model_of(kind, inputs, outputs, fields, *owned), tmp_path)
    results = run_model(load_model(path))
    for output, right in outputs.items():
        np.testing.assert_allclose(results[output].reshape(right.shape), right, rtol=1e-5)


COPY = ("ELEMENT_WISE_IDENTITY", {"InputTensor": f32(1, 2, 3, 4)})


@pytest.fixture
def some() -> Json:
    """The model of a copy, to be changed."""
    return model_of(*COPY, {"OutputTensor": f32(1, 2, 3, 4)}, {})


def run(model: Json, folder: Path, *options: str, status: int = 0) -> Result:
    words = [model_file(model, folder), "--output_path", folder, *options]
    return command("run", *words, status=status)


@pytest.mark.parametrize(("size", "rest"), [({}, ""), ({"sizeInBytes": 24}, ", 0, 0")])
def test_a_deferred_resource_has_the_size_of_its_tensors(
    size: Json, rest: str, some: Json, tmp_path: Path
):
    some["resources"]["OutputTensor"] = buffer("deferred", **size)
    result = run(some, tmp_path)
    assert f"Resource 'OutputTensor': 1, 2, 3, 4{rest}\n" in result.stdout
    loaded = load_model(tmp_path / "model.json")
    assert run_model(loaded)["OutputTensor"].tolist()[:4] == [1, 2, 3, 4]


def test_a_deferred_resource_that_nothing_measures(some: Json, tmp_path: Path):
    some["resources"]["other"] = buffer("deferred", None)
    with pytest.raises(DmlError, match=r"'other': .* come with sizeInBytes .*, got 'deferred'"):
        load_model(model_file(some, tmp_path))


PLANES = np.arange(24, dtype=np.uint8).reshape(1, 3, 2, 4)


def writing_planes(dimensions: list[int]) -> Json:
    copy = model_of("ELEMENT_WISE_IDENTITY", {"InputTensor": PLANES}, {"OutputTensor": PLANES}, {})
    copy["commands"][1] = write("OutputTensor", "x.PNG", dimensions=dimensions)
    return copy


@pytest.mark.parametrize("dimensions", [[1, 3, 2, 4], [1, 1, 2, 4], [1, 1, 1, 4]])
def test_a_picture_has_rows_and_planes_of_the_tensor(dimensions: list[int], tmp_path: Path):
    """All of them, the first plane, and its first row."""
    run(writing_planes(dimensions), tmp_path)
    _, channels, height, _ = dimensions
    with Image.open(tmp_path / "x.PNG") as picture:
        pixels = np.asarray(picture).reshape(height, 4, channels)
    np.testing.assert_array_equal(pixels.transpose(2, 0, 1), PLANES[0, :channels, :height])


@pytest.mark.parametrize("dimensions", [[1, 3, 1, 4], [1, 3, 2, 2], [1, 1, 4, 2]])
def test_a_picture_of_other_rows_is_refused(dimensions: list[int], tmp_path: Path):
    rule = "expected dimensions to hold 24 elements for a picture, all of resource"
    said = run(writing_planes(dimensions), tmp_path, status=1).stderr
    assert f"{rule} 'OutputTensor', got {dimensions}" in said


def test_options_of_direct3d_alone_change_nothing(some: Json, tmp_path: Path):
    plain = run(some, tmp_path)
    options = ["--post_dispatch_barriers", "uav", "-d", "-q", "compute", "--enable_dred"]
    options += ["--max_gpu_time_measurements", "5", "--disable_gpu_timeout"]
    given = run(some, tmp_path, *options)
    assert plain.stderr == ""
    assert given.stderr == (
        "Without effect here: --debug, --disable_gpu_timeout, --enable_dred, "
        "--max_gpu_time_measurements, --post_dispatch_barriers, --queue_type\n"
    )
    assert given.stdout.splitlines()[-1] == plain.stdout.splitlines()[-1]


def test_commands_are_printed(some: Json, tmp_path: Path):
    _, first, _, *others = run(some, tmp_path, "--print_commands").stdout.splitlines()
    assert first == "Command 0: dispatch 'op'"
    assert others == ["Command 1: print 'OutputTensor'", "Resource 'OutputTensor': 1, 2, 3, 4"]


def test_a_feature_level_by_dxdispatchs_option(tmp_path: Path):
    inputs = {"ATensor": X, "BTensor": X}
    sums = model_of("ELEMENT_WISE_ADD1", inputs, {"OutputTensor": X + X}, {})
    run(sums, tmp_path, "--dml_feature_level", "2.0")
    assert "got 1_0" in run(sums, tmp_path, "--dml_feature_level", "1.0", status=1).stderr
    run(sums, tmp_path, "--dml_feature_level", "9.9", status=2)

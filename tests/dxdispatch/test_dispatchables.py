"""DxDispatch's ways to write operators into models, and its options on the command line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from dml_jax import DmlError, load_model, run_model
from dml_jax.cli import cli

Json = dict[str, Any]
X = np.arange(1, 10, dtype=np.float32).reshape(1, 1, 3, 3)


def tensor(array: Any, **fields: Any) -> Json:
    array = np.asarray(array)
    return {"DataType": array.dtype.name.upper(), "Sizes": list(array.shape), **fields}


def resource(array: Any) -> Json:
    array = np.asarray(array)
    kind = array.dtype.name.upper()
    return {"initialValuesDataType": kind, "initialValues": array.reshape(-1).tolist()}


def model_of(kind: str, inputs: Json, outputs: Json, fields: Json, owned: str = "") -> Json:
    """Return a model of one operator; `owned` names an input that its dispatchable binds."""
    inputs = {name: np.asarray(array) for name, array in inputs.items()}
    flags = {"Flags": "DML_TENSOR_FLAG_OWNED_BY_DML"}
    desc = {n: tensor(a, **(flags if n == owned else {})) for n, a in (inputs | outputs).items()}
    own = {"bindings": {owned: owned}} if owned else {}
    bindings = {name: name for name in desc if name != owned}
    return {
        "resources": {
            **{name: resource(array) for name, array in inputs.items()},
            **{name: resource(np.zeros_like(array)) for name, array in outputs.items()},
        },
        "dispatchables": {"op": {"type": f"DML_OPERATOR_{kind}", "desc": desc | fields, **own}},
        "commands": [
            {"type": "dispatch", "dispatchable": "op", "bindings": bindings},
            *({"type": "print", "resource": name} for name in outputs),
        ],
    }


def saved(folder: Path, model: Json) -> Path:
    path = folder / "model.json"
    path.write_text(json.dumps(model))
    return path


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
    "product of 2 dimensions": (
        *("GEMM", {"ATensor": COLUMN, "BTensor": ROW, "CTensor": np.full((3, 3), 2, np.float32)}),
        *({"OutputTensor": COLUMN @ ROW + 2}, TRANSFORMS | ALPHAS),
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
    "sequence of numbers": (
        *("FILL_VALUE_SEQUENCE", {}, {"OutputTensor": f32(3.25, 4.75, 6.25)}),
        {"ValueDataType": "FLOAT32", "ValueStart": 3.25, "ValueDelta": {"Float32": 1.5}},
    ),
    "FLOAT16 scalars": (
        *("ELEMENT_WISE_CLIP1", {"InputTensor": np.arange(1, 6, dtype=np.float16)}),
        {"OutputTensor": np.float16([2, 2, 3, 4, 4])},
        {"MinMaxDataType": "FLOAT16", "Min": 2, "Max": {"UInt16": 0x4400}},
    ),
    "running product": (
        *("CUMULATIVE_PRODUCT", {"InputTensor": f32(2, 4, 8, 3)}),
        {"OutputTensor": f32(2, 8, 64, 192)},
        {
            "Axis": 0,
            "AxisDirection": "DML_AXIS_DIRECTION_INCREASING",
            "HasExclusiveProduct": False,
        },
    ),
    "the first slice": (
        *("SLICE", {"InputTensor": X}),
        {"OutputTensor": X[:, :, 1:, ::2]},
        {
            "DimensionCount": 4,
            "Offsets": [0, 0, 1, 0],
            "Sizes": [1, 1, 2, 2],
            "Strides": [1, 1, 1, 2],
        },
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
    model = load_model(saved(tmp_path, model_of(kind, inputs, outputs, fields, *owned)))
    results = run_model(model)
    for output, right in outputs.items():
        np.testing.assert_allclose(results[output].reshape(right.shape), right, rtol=1e-5)


COPY = ("ELEMENT_WISE_IDENTITY", {"InputTensor": f32(1, 2, 3, 4)})
SOME = model_of(*COPY, {"OutputTensor": f32(1, 2, 3, 4)}, {})


def run(model: Json, folder: Path, *options: str) -> Result:
    path = str(saved(folder, model))
    return CliRunner().invoke(cli, ["run", path, "--output_path", str(folder), *options])


@pytest.mark.parametrize("size", [{}, {"sizeInBytes": 24}])
def test_a_deferred_resource_has_the_size_of_its_tensors(size: Json, tmp_path: Path):
    model = json.loads(json.dumps(SOME))
    model["resources"]["OutputTensor"] = {
        "initialValuesDataType": "FLOAT32",
        "initialValues": "deferred",
        **size,
    }
    result = run(model, tmp_path)
    rest = ", 0, 0" if size else ""
    assert f"Resource 'OutputTensor': 1, 2, 3, 4{rest}\n" in result.stdout, result.output
    loaded = load_model(tmp_path / "model.json")
    assert run_model(loaded)["OutputTensor"].tolist()[:4] == [1, 2, 3, 4]


def test_a_deferred_resource_that_nothing_measures(tmp_path: Path):
    model = json.loads(json.dumps(SOME))
    model["resources"]["other"] = {"initialValues": "deferred"}
    with pytest.raises(DmlError, match=r"'other': .* come with sizeInBytes .*, got 'deferred'"):
        load_model(saved(tmp_path, model))


@pytest.mark.parametrize("name", ["part.npy", "part.png", "part.dat"])
def test_a_file_of_the_first_elements(name: str, tmp_path: Path):
    model = json.loads(json.dumps(SOME))
    command = {"type": "writeFile", "resource": "OutputTensor", "targetPath": name}
    model["commands"].append({**command, "dimensions": [1, 1, 1, 2]})
    result = run(model, tmp_path)
    assert result.exit_code == 0, result.output
    if name == "part.npy":
        np.testing.assert_array_equal(np.load(tmp_path / name), f32(1, 2).reshape(1, 1, 1, 2))
    elif name == "part.dat":
        assert (tmp_path / name).read_bytes() == f32(1, 2).tobytes()
    else:
        from PIL import Image

        with Image.open(tmp_path / name) as picture:
            assert picture.size == (2, 1)


@pytest.mark.parametrize(
    ("dimensions", "is_right"),
    [
        ([1, 3, 2, 4], True),
        ([1, 1, 2, 4], True),  # the first plane
        ([1, 1, 1, 4], True),  # its first row
        ([1, 3, 1, 4], False),
        ([1, 3, 2, 2], False),
        ([1, 1, 4, 2], False),
    ],
)
def test_a_picture_has_rows_and_planes_of_the_tensor(
    dimensions: list[int], is_right: bool, tmp_path: Path
):
    planes = np.arange(24).reshape(1, 3, 2, 4)
    copy = {"type": "DML_OPERATOR_ELEMENT_WISE_IDENTITY", "desc": {}}
    for tensor in ("InputTensor", "OutputTensor"):
        copy["desc"][tensor] = {"DataType": "UINT8", "Sizes": [1, 3, 2, 4]}
    values = {"initialValuesDataType": "UINT8", "initialValues": planes.reshape(-1).tolist()}
    names = {"InputTensor": "InputTensor", "OutputTensor": "OutputTensor"}
    command = {"type": "writeFile", "resource": "OutputTensor", "targetPath": "x.PNG"}
    model = {
        "resources": dict.fromkeys(names, values),
        "dispatchables": {"copy": copy},
        "commands": [
            {"type": "dispatch", "dispatchable": "copy", "bindings": names},
            {**command, "dimensions": dimensions},
        ],
    }
    result = run(model, tmp_path)
    if is_right:
        from PIL import Image

        _, channels, height, _ = dimensions
        with Image.open(tmp_path / "x.PNG") as picture:
            pixels = np.asarray(picture).reshape(height, 4, channels)
        np.testing.assert_array_equal(pixels.transpose(2, 0, 1), planes[0, :channels, :height])
    else:
        rule = "expected dimensions to hold 24 elements for a picture, all of resource"
        assert f"{rule} 'OutputTensor', got {dimensions}" in result.stderr
        assert result.exit_code == 1


def test_options_of_direct3d_alone_change_nothing(tmp_path: Path):
    plain = run(SOME, tmp_path)
    options = ["--post_dispatch_barriers", "uav", "-d", "-q", "compute", "--enable_dred"]
    options += ["--max_gpu_time_measurements", "5", "--disable_gpu_timeout"]
    given = run(SOME, tmp_path, *options)
    assert (plain.exit_code, plain.stderr, given.exit_code) == (0, "", 0)
    assert given.stderr == (
        "Without effect here: --debug, --disable_gpu_timeout, --enable_dred, "
        "--max_gpu_time_measurements, --post_dispatch_barriers, --queue_type\n"
    )
    assert given.stdout.splitlines()[-1] == plain.stdout.splitlines()[-1]


def test_commands_are_printed(tmp_path: Path):
    lines = run(SOME, tmp_path, "--print_commands").stdout.splitlines()
    assert lines[1] == "Command 0: dispatch 'op'"
    assert lines[3:] == [
        "Command 1: print 'OutputTensor'",
        "Resource 'OutputTensor': 1, 2, 3, 4",
    ]


def test_a_feature_level_by_dxdispatchs_option(tmp_path: Path):
    inputs = {"ATensor": X, "BTensor": X}
    sums = model_of("ELEMENT_WISE_ADD1", inputs, {"OutputTensor": X + X}, {})
    assert run(sums, tmp_path, "--dml_feature_level", "2.0").exit_code == 0
    refused = run(sums, tmp_path, "--dml_feature_level", "1.0")
    assert refused.exit_code == 1 and "got 1_0" in refused.stderr
    assert run(sums, tmp_path, "--dml_feature_level", "9.9").exit_code == 2

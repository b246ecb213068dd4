"""Valid models: what they read, compute, print and write, and the options of the command line."""

import json
import re
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from build import command
from dispatch_models import (
    Json,
    buffer,
    dispatch,
    guide_model,
    model_file,
    model_of,
    show,
    tensor,
    write,
)
from PIL import Image
from png import png
from processes import python

from dml_jax import Operator
from dml_jax.dxdispatch.executor import Executor, Timing
from dml_jax.dxdispatch.parsing import load_model, parse_model
from dml_jax.errors import DmlError

X, Y = "InputTensor", "OutputTensor"
ONCE = Timing()


def clip(tensors: Json, low: Any, high: Any, **fields: Any) -> Json:
    return {"type": "ELEMENT_WISE_CLIP", "desc": {**tensors, "Min": low, "Max": high, **fields}}


def copying(source: Json, target: Json) -> Json:
    """An operator that copies one tensor to another of the same sizes, whatever their strides."""
    desc = {X: source, Y: target, "Repeats": [1] * len(source["Sizes"])}
    return {"type": "TILE", "desc": desc}


def reduce_model(**operator: Any) -> Json:
    """The model of DxDispatch's guide, with a list of values; it prints both resources.

    `operator` stands for its operator, if there is one.
    """
    model = guide_model()
    model["resources"]["input"] = buffer([*range(1, 10)])
    model["commands"][1:] = [show("input"), show("output")]
    model["dispatchables"]["sum"] = operator or model["dispatchables"]["sum"]
    return model


def run(model: Json | Path, folder: Path = Path(), timing: Timing = ONCE) -> list[str]:
    """The lines that a model's run reports; the model may be in a file."""
    lines: list[str] = []
    parsed = load_model(model) if isinstance(model, Path) else parse_model(model, folder)
    Executor(parsed, jax.devices()[0], lines.append, timing).run()
    return [line for part in lines for line in part.split("\n")]


def shown(model: Json, folder: Path = Path()) -> dict[str, str]:
    """What the last print of each resource shows."""
    prefix = re.compile(r"Resource '(.*?)': (.*)")
    found = filter(None, map(prefix.fullmatch, run(model, folder)))
    return {match[1]: match[2] for match in found}


def printed(resource: Json, folder: Path = Path()) -> str:
    return shown(model_of({"r": resource}, {}, show("r")), folder)["r"]


def contents(resource: Json, dtype: Any = np.uint8, folder: Path = Path()) -> np.ndarray:
    """All of a resource's bytes, padding included, as elements of a type."""
    parsed = parse_model(model_of({"r": resource}, {}), folder)
    return parsed.resources["r"].bytes().view(dtype)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def numbers(text: str) -> list[float]:
    return [float(number) for number in text.split(", ")]


@pytest.fixture(autouse=True)
def current(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory; models lie in another one, `folder`."""
    path = tmp_path / "current"
    path.mkdir()
    monkeypatch.chdir(path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    return tmp_path / "model"


# Initial values.


@pytest.mark.parametrize(
    ("data_type", "values", "expected"),
    [
        ("FLOAT32", {"valueCount": 4, "value": 0}, "0, 0, 0, 0"),
        ("FLOAT32", {"valueCount": 2, "value": -1.5}, "-1.5, -1.5"),
        ("FLOAT16", {"valueCount": 3, "value": "-INF"}, "-inf, -inf, -inf"),
        ("INT64", {"valueCount": 1, "value": -(2**63)}, "-9223372036854775808"),
        ("UINT64", {"valueCount": 1, "value": 2**64 - 1}, "18446744073709551615"),
        ("FLOAT32", {"valueCount": 4, "valueStart": 1, "valueDelta": 2.5}, "1, 3.5, 6, 8.5"),
        ("FLOAT64", {"valueCount": 3, "valueStart": 1, "valueDelta": -1}, "1, 0, -1"),
        ("UINT8", {"valueCount": 3, "valueStart": 250, "valueDelta": 5}, "250, 255, 4"),
        ("INT8", {"valueCount": 3, "valueStart": 120, "valueDelta": 10}, "120, -126, -116"),
        ("INT16", {"valueCount": 1, "valueStart": 7, "valueDelta": 3}, "7"),
        ("FLOAT32", {"valueCount": 3, "valueStart": 0, "valueDelta": "inf"}, "0, inf, inf"),
        (
            "FLOAT16",
            [65504, -65504, 4, 3, -4, -6, "nan", "inf", "-inf"],
            "65504, -65504, 4, 3, -4, -6, nan, inf, -inf",
        ),
        ("FLOAT32", ["NaN", "NAN", "Inf", "INF", "-Inf", "-INF"], "nan, nan, inf, inf, -inf, -inf"),
        ("FLOAT64", ["nAn", "iNf", "-iNF"], "nan, inf, -inf"),
        ("INT8", [-128, 65, 127], "-128, 65, 127"),
        ("UINT8", [0, 65, 255], "0, 65, 255"),
        ("DML_TENSOR_DATA_TYPE_UINT16", [0, 65535], "0, 65535"),
        ("INT32", [-(2**31), 2**31 - 1], "-2147483648, 2147483647"),
    ],
)
def test_initial_values(data_type: str, values: Any, expected: str):
    assert printed(buffer(values, data_type)) == expected


@pytest.mark.parametrize("data_type", ["FLOAT16", "FLOAT32", "FLOAT64"])
def test_a_sequence_accumulates_in_its_type(data_type: str):
    dtype = np.dtype(data_type.lower())
    expected = [dtype.type(1)]
    while len(expected) < 3000:
        expected.append(expected[-1] + dtype.type(0.1))
    values = {"valueCount": 3000, "valueStart": 1, "valueDelta": 0.1}
    np.testing.assert_array_equal(contents(buffer(values, data_type), dtype), expected)


def test_a_list_is_packed():
    # The guide's example.
    values = [
        {"name": "elementCount", "type": "UINT32", "value": 6},
        {"name": "alpha", "type": "FLOAT32", "value": 6},
        {"name": "beta", "type": "FLOAT32", "value": 2.3},
    ]
    expected = struct.pack("<Iff", 6, 6, 2.3) + bytes(244)
    assert contents(buffer(values, "UNKNOWN", sizeInBytes=256)).tobytes() == expected
    assert contents(buffer(values, None)).tobytes() == expected[:12]


def test_a_list_of_types_of_all_sizes():
    values = [
        {"type": "UINT8", "value": 1},
        {"type": "FLOAT16", "value": -2},
        {"type": "DML_TENSOR_DATA_TYPE_INT64", "value": -3},
        {"type": "FLOAT64", "value": "inf"},
    ]
    expected = struct.pack("<Beqd", 1, -2, -3, float("inf"))
    assert contents(buffer(values, "UNKNOWN")).tobytes() == expected + bytes(1)


@pytest.mark.parametrize(
    ("values", "fields", "expected"),
    [
        ([1, 2, 3], {}, [1, 2, 3]),
        ([1, 2, 3], {"sizeInBytes": 12}, [1, 2, 3]),
        ([1, 2, 3], {"sizeInBytes": 20}, [1, 2, 3, 0, 0]),
        ([1, 2, 3], {"sizeInBytes": 17}, [1, 2, 3, 0, 0]),
        ([1, 2], {"sizeInBytes": 20, "initialValuesOffsetInBytes": 8}, [0, 0, 1, 2, 0]),
        ([1, 2], {"initialValuesOffsetInBytes": 4}, [0, 1, 2]),
    ],
)
def test_size_and_offset(values: list[int], fields: Json, expected: list[int]):
    resource = buffer(values, "INT32", **fields)
    assert contents(resource, np.int32).tolist() == expected
    # What is printed is what was initialised.
    assert printed(resource) == ", ".join(map(str, values))


@pytest.mark.parametrize(("data_type", "count", "size"), [("UINT8", 5, 8), ("FLOAT16", 5, 12)])
def test_a_buffer_is_rounded_up_to_4_bytes_but_not_printed_so(
    data_type: str, count: int, size: int
):
    resource = buffer([1] * count, data_type)
    assert len(contents(resource)) == size
    assert printed(resource) == "1, 1, 1, 1, 1"


NPY_TYPES = ["f4", "f2", "f8", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8"]


@pytest.mark.parametrize("kind", NPY_TYPES)
@pytest.mark.parametrize("order", ["<", ">"])
def test_npy(kind: str, order: str, folder: Path):
    values = np.array([[0, 1, 2], [100, 101, 127]], order + kind)
    np.save(folder / "v.npy", values)
    resource = buffer({"sourcePath": "v.npy"}, None)
    assert printed(resource, folder) == "0, 1, 2, 100, 101, 127"
    native = values.astype(kind)
    np.testing.assert_array_equal(contents(resource, kind, folder)[:6], native.reshape(-1))


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.asfortranarray(np.arange(6, dtype="<f4").reshape(2, 3)), "0, 1, 2, 3, 4, 5"),
        (np.asfortranarray(np.arange(6, dtype=">i2").reshape(1, 2, 3)), "0, 1, 2, 3, 4, 5"),
        (np.float32(2.5), "2.5"),
        (np.array([True, False, True]), "1, 0, 1"),
    ],
    ids=["columns first", "columns first, other bytes", "a number", "booleans are INT8"],
)
@pytest.mark.parametrize("data_type", ["own", "UNKNOWN", None])
def test_npy_says_its_layout_and_type(
    array: np.ndarray, expected: str, data_type: str | None, folder: Path
):
    """A file may name its type too; without it, or with UNKNOWN, the array's own is taken."""
    np.save(folder / "v.npy", array)
    (folder / "v.npy").rename(folder / "V.NPY")
    own = "INT8" if array.dtype == bool else array.dtype.name.upper()
    named = own if data_type == "own" else data_type
    assert printed(buffer({"sourcePath": "V.NPY"}, named), folder) == expected


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_npy_of_every_version(version: tuple[int, int], folder: Path):
    with (folder / "v.npy").open("wb") as file:
        np.lib.format.write_array(file, np.arange(3, dtype=np.int32), version)
    assert printed(buffer({"sourcePath": "v.npy"}, "INT32"), folder) == "0, 1, 2"


@pytest.mark.parametrize("name", ["v.dat", "v.bin", "v", "v.raw"])
def test_raw(name: str, folder: Path):
    (folder / name).write_bytes(struct.pack("<3h", 1, -2, 300))
    resource = buffer({"sourcePath": name}, "INT16")
    assert printed(resource, folder) == "1, -2, 300"
    assert contents(resource, np.int16, folder).tolist() == [1, -2, 300, 0]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("both.bin", "1"),
        ("here.bin", "3"),
        ("below/v.bin", "4"),
        ("../current/both.bin", "2"),
        ("{current}/both.bin", "2"),
    ],
)
def test_a_file_is_looked_for_beside_the_model_first(
    name: str, expected: str, folder: Path, current: Path
):
    (folder / "both.bin").write_bytes(b"\x01")
    (current / "both.bin").write_bytes(b"\x02")
    (current / "here.bin").write_bytes(b"\x03")
    (folder / "below").mkdir()
    (folder / "below" / "v.bin").write_bytes(b"\x04")
    source = {"sourcePath": name.format(current=current)}
    assert printed(buffer(source, "UINT8"), folder) == expected


PIXELS = np.arange(24, dtype=np.uint8).reshape(2, 3, 4) * 10  # height, width, channels


@pytest.mark.parametrize(
    ("channels", "resample"), [(3, None), (1, [1, 1, 2, 3]), (3, [1, 3, 2, 3]), (4, [1, 4, 2, 3])]
)
@pytest.mark.parametrize("data_type", ["UINT8", "FLOAT32", "FLOAT16"])
def test_a_picture_becomes_planes(
    channels: int, resample: list[int] | None, data_type: str, folder: Path
):
    pixels = PIXELS[..., :channels]
    Image.fromarray(pixels.squeeze() if channels == 1 else pixels).save(folder / "p.png")
    fields = {} if resample is None else {"resampleSize": resample, "resampleMode": "scale"}
    dtype = np.dtype(data_type.lower())
    resource = buffer({"sourcePath": "p.png"}, data_type, **fields)
    found = contents(resource, dtype, folder)[: pixels.size]
    planes = pixels.transpose(2, 0, 1).reshape(-1)
    if data_type != "UINT8":
        planes = (planes / 255).astype(dtype)
    tolerance = 0 if data_type == "UINT8" else np.finfo(dtype).eps
    np.testing.assert_allclose(found.astype(float), planes.astype(float), rtol=tolerance)


@pytest.mark.parametrize(
    ("pixels", "sizes", "expected"),
    [
        ([[7, 200]], [1, 3, 1, 2], "7, 200, 7, 200, 7, 200"),  # grey fills all colours
        ([[[9, 8, 7]]], [1, 4, 1, 1], "9, 8, 7, 255"),  # what is opaque has full alpha
    ],
)
def test_channels_that_a_picture_lacks(pixels: Any, sizes: list[int], expected: str, folder: Path):
    Image.fromarray(np.array(pixels, np.uint8)).save(folder / "p.png")
    resource = buffer({"sourcePath": "p.png"}, "UINT8", resampleSize=sizes)
    assert printed(resource, folder) == expected
    if sizes[1] == 3:
        assert printed(buffer({"sourcePath": "p.png"}, "UINT8"), folder) == expected


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_all_pictures_of_16_bits_are_rounded_alike(count: int, folder: Path):
    """Each x becomes round(x / 257), since 65535 = 255 * 257."""
    deep = (np.arange(12 * count, dtype=np.uint16) * 1237 + 2770).reshape(3, 4, count)
    deep.reshape(-1)[:8] = [0, 128, 129, 255, 257, 385, 386, 65535]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in deep)
    (folder / "p.png").write_bytes(png(4, 3, 16, count, rows))
    resource = buffer({"sourcePath": "p.png"}, "UINT8", resampleSize=[1, 4, 3, 4])
    found = np.reshape(numbers(printed(resource, folder)), (4, 3, 4))
    eight = np.rint(deep / 257)
    colours = eight[..., : 1 if count < 3 else 3]
    alpha = eight[..., -1:] if count in (2, 4) else np.full((3, 4, 1), 255)
    rgb = np.broadcast_to(colours, (3, 4, 3))
    assert found.transpose(1, 2, 0).tolist() == np.concatenate([rgb, alpha], -1).tolist()


@pytest.mark.parametrize("name", ["p.png", "p.jpg", "p.jpeg", "P.PNG", "P.JPG"])
@pytest.mark.parametrize("size", [[1, 3, 5, 7], [1, 3, 40, 30]])
def test_a_picture_is_resampled(name: str, size: list[int], folder: Path):
    # One colour, which every way of scaling keeps.
    Image.new("RGB", (16, 16), (255, 128, 0)).save(folder / name)
    resource = buffer({"sourcePath": name}, "UINT8", resampleSize=size, resampleMode="scale")
    count = size[2] * size[3]
    planes = contents(resource, np.uint8, folder)[: 3 * count].reshape(3, count).astype(int)
    np.testing.assert_allclose(planes, [[255] * count, [128] * count, [0] * count], atol=2)


def test_a_picture_is_resampled_to_height_and_width(folder: Path):
    # Black above, white below: told apart from left and right, and still above after scaling.
    halves = np.repeat(np.array([0, 255], np.uint8), 8)[:, None] * np.ones((1, 4), np.uint8)
    Image.fromarray(halves).save(folder / "p.png")
    resource = buffer({"sourcePath": "p.png"}, "FLOAT32", resampleSize=[1, 1, 8, 2])
    found = contents(resource, np.float32, folder).reshape(8, 2)
    np.testing.assert_allclose(found[:3], 0, atol=0.1)
    np.testing.assert_allclose(found[5:], 1, atol=0.1)


# The text of a model.


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + json.dumps(reduce_model()),
        "// first\n" + json.dumps(reduce_model()) + " /* last */\n",
        json.dumps(reduce_model()).replace("]", ",]").replace("}", " , /* comma */ }"),
        json.dumps(reduce_model(), indent=8).replace("\n", "\r\n"),
    ],
    ids=["bom", "comments", "trailing-commas", "windows-lines"],
)
def test_json_as_rapidjson_takes_it(text: str, folder: Path):
    (folder / "m.json").write_bytes(text.encode())
    assert run(folder / "m.json")[-1] == "Resource 'output': 6, 15, 24"


def test_names_may_be_any_text(folder: Path):
    name = "größe 'π'/\u200b:"
    text = json.dumps(model_of({name: buffer([1])}, {}, show(name)), ensure_ascii=False)
    (folder / "m.json").write_text(text, "utf-8")
    # What has no width is escaped.
    assert run(folder / "m.json") == ["Resource 'größe 'π'/\\u200b:': 1"]


def test_an_empty_model_runs():
    assert run(model_of({}, {})) == []


# Printing.


@pytest.mark.parametrize(
    ("data_type", "values", "expected"),
    [
        ("FLOAT32", [0.1, 1 / 3, 2 / 3, 2.50, 100, -0.0], "0.1, 0.333333, 0.666667, 2.5, 100, -0"),
        ("FLOAT32", [1e20, -1e-20, 0.0001, 0.00001], "1e+20, -1e-20, 0.0001, 1e-05"),
        ("FLOAT32", [3.4028235e38, 1e-45], "3.40282e+38, 1.4013e-45"),
        ("FLOAT32", [123456, 999999, 1000000, 1234567], "123456, 999999, 1e+06, 1.23457e+06"),
        ("FLOAT32", [16777216], "1.67772e+07"),
        ("FLOAT16", [0.1, 65504, 1e-7], "0.0999756, 65504, 1.19209e-07"),
        ("FLOAT64", [1e300, 1e-300, 3.14159265358979], "1e+300, 1e-300, 3.14159"),
        ("INT8", [65], "65"),
        ("UINT8", [10], "10"),
        ("INT64", [2**63 - 1], "9223372036854775807"),
    ],
)
def test_printed_as_a_cpp_stream(data_type: str, values: list[float], expected: str):
    assert printed(buffer(values, data_type)) == expected


def test_verbose_print_shows_index_value_and_bits():
    values = [0, 1, -2, "nan", "inf", 0.1, 1e20, -0.0, 2, 3, 4]
    texts = ["0", "1", "-2", "nan", "inf", "0.1", "1e+20", "-0", "2", "3", "4"]
    bits = np.array(values, np.float32).view(np.uint32)
    lines = run(model_of({"r": buffer(values)}, {}, show("r", verbose=True)))
    expected = [f"[{k:2}] {text} (0x{bits[k]:08X})" for k, text in enumerate(texts)]
    assert lines == ["Resource 'r':", *expected]


@pytest.mark.parametrize(
    ("data_type", "value", "expected"),
    [
        ("UINT8", 65, "[0] 65 (0x41)"),
        ("INT16", -2, "[0] -2 (0xFFFE)"),
        ("FLOAT64", 1, "[0] 1 (0x3FF0000000000000)"),
    ],
)
def test_verbose_print_has_as_many_digits_as_the_type(data_type: str, value: int, expected: str):
    model = model_of({"r": buffer([value], data_type)}, {}, show("r", verbose=True))
    assert run(model)[1:] == [expected]


def test_a_list_is_printed_as_bytes():
    values = [{"type": "UINT16", "value": 258}, {"type": "UINT8", "value": 3}]
    assert printed(buffer(values, "UNKNOWN")) == "2, 1, 3"


# Writing files.


def writing(resource: Json, target: str, *dimensions: int) -> list[str]:
    """Runs a model that writes one resource; the lines it reports."""
    fields = {"dimensions": list(dimensions)} if dimensions else {}
    return run(model_of({"r": resource}, {}, write("r", target, **fields)))


@pytest.mark.parametrize("kind", NPY_TYPES)
def test_write_npy_with_dimensions(kind: str, current: Path):
    data_type = np.dtype(kind).name.upper()
    writing(buffer([1, 2, 3, 4, 5, 6], data_type), "OUT.NPY", 1, 3, 2)
    found = np.load(current / "OUT.NPY")
    assert (found.dtype, found.tolist()) == (np.dtype(kind), [[[1, 2], [3, 4], [5, 6]]])


HALF = buffer([1, 2, 3], "FLOAT16")  # 8 bytes of memory, 6 of which have values
LARGER = buffer([1, 2, 3], "FLOAT16", sizeInBytes=10)


@pytest.mark.parametrize(
    ("resource", "target", "dimensions", "expected"),
    [
        (HALF, "out.npy", [], [1, 2, 3]),
        (HALF, "out.dat", [], [1, 2, 3]),
        (HALF, "out.bin", [], [1, 2, 3]),
        (HALF, "out", [], [1, 2, 3]),
        # All that a size asks for, and not only what is initialised, which is all that is printed.
        (LARGER, "out.npy", [], [1, 2, 3, 0, 0]),
        (LARGER, "out.dat", [], [1, 2, 3, 0, 0]),
        (LARGER, "out.npy", [5, 1], [[1], [2], [3], [0], [0]]),
        # What has fewer dimensions gets the first elements.
        (LARGER, "out.npy", [3, 1], [[1], [2], [3]]),
        (LARGER, "out.npy", [2, 1], [[1], [2]]),
        (LARGER, "out.dat", [2, 1], [1, 2]),
        (LARGER, "out.npy", [1, 4], [[1, 2, 3, 0]]),
    ],
    ids=range(11),
)
def test_write_numbers(
    resource: Json, target: str, dimensions: list[int], expected: Any, current: Path
):
    lines = writing(resource, target, *dimensions)
    assert lines == [f"Resource 'r' written to '{target}'"]
    array = np.array(expected, np.float16)
    if target.endswith(".npy"):
        found = np.load(current / target)
        assert (found.dtype, found.tolist()) == (array.dtype, expected)
    else:
        assert (current / target).read_bytes() == array.tobytes()
    assert printed(resource) == "1, 2, 3"


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("data_type", ["UINT8", "FLOAT32", "FLOAT16", "FLOAT64"])
def test_write_png(channels: int, data_type: str, current: Path):
    pixels = PIXELS[..., :channels]
    planes = pixels.transpose(2, 0, 1).reshape(-1)
    values = planes.tolist() if data_type == "UINT8" else (planes / 255).tolist()
    writing(buffer(values, data_type), "out.png", 1, channels, 2, 3)
    with Image.open(current / "out.png") as image:
        assert image.mode == {1: "L", 3: "RGB", 4: "RGBA"}[channels]
        np.testing.assert_array_equal(np.asarray(image).reshape(2, 3, channels), pixels)


def test_write_png_clamps(current: Path):
    writing(buffer([-1, 2, "nan", "inf", "-inf", 0.5]), "out.png", 1, 1, 1, 6)
    with Image.open(current / "out.png") as image:
        *ends, half = np.asarray(image)[0].tolist()
    assert ends == [0, 255, 0, 255, 0]
    assert half in (127, 128)


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("name", ["out.jpg", "out.jpeg"])
def test_write_jpg(channels: int, name: str, current: Path):
    colour = [200, 100, 50, 255][:channels]
    values = np.repeat(np.array(colour) / 255, 64).tolist()
    writing(buffer(values), name, 1, channels, 8, 8)
    with Image.open(current / name) as image:
        assert image.format == "JPEG"
        assert image.size == (8, 8)
        found = np.asarray(image).reshape(8, 8, -1)[..., :channels].astype(int)
    expected = np.broadcast_to(colour[: min(channels, 3)], (8, 8, min(channels, 3)))
    np.testing.assert_allclose(found, expected, atol=3)


def test_write_makes_folders_and_leaves_no_other_file(current: Path):
    writing(buffer([1]), "a/b/c.npy")
    writing(buffer([1]), str(current / "d" / "e.bin"))
    names = ["a", "a/b", "a/b/c.npy", "d", "d/e.bin"]
    assert [str(p.relative_to(current)) for p in sorted(current.rglob("*"))] == names


def test_write_replaces_a_file(current: Path):
    (current / "out.bin").write_bytes(b"something that is longer")
    writing(buffer([1, 2], "UINT8"), "out.bin")
    assert (current / "out.bin").read_bytes() == b"\x01\x02"
    assert names_in(current) == ["out.bin"]


def test_write_a_name_as_long_as_file_systems_take(current: Path):
    name = "n" * 251 + ".bin"
    writing(buffer([1], "UINT8"), name)
    assert names_in(current) == [name]


def test_write_gives_a_file_the_usual_permissions(current: Path):
    (current / "usual").touch()
    writing(buffer([1]), "out.bin")
    assert (current / "out.bin").stat().st_mode == (current / "usual").stat().st_mode


# Dispatches.


def after(resources: Json, operator: Json, *bindings: Json) -> dict[str, str]:
    """What resources hold once an operator has run on each of the bindings.

    A resource is a list of FLOAT32 values, or a resource of a model.
    """
    held = {name: v if isinstance(v, dict) else buffer(v) for name, v in resources.items()}
    runs = (dispatch("op", **bound) for bound in bindings)
    return shown(model_of(held, {"op": operator}, *runs, *map(show, resources)))


DOUBLE = clip({X: tensor([3]), Y: tensor([3])}, "-inf", "INF", ScaleBias={"Scale": 2, "Bias": 0})
IN_PLACE = {X: "x", Y: "x"}


def test_in_place_and_state_is_kept():
    double = dispatch("double", **IN_PLACE)
    commands = [show("x"), double, show("x"), double, double, show("x")]
    lines = run(model_of({"x": buffer([1, 2, -3])}, {"double": DOUBLE}, *commands))
    values = [line for line in lines if line.startswith("Resource")]
    assert values == [f"Resource 'x': {v}" for v in ("1, 2, -3", "2, 4, -6", "8, 16, -24")]


@pytest.mark.parametrize(("iterations", "repeat"), [(1, 1), (3, 1), (1, 4), (3, 2)])
def test_every_iteration_runs(iterations: int, repeat: int):
    double = dispatch("double", **IN_PLACE)
    model = model_of({"x": buffer([1, 1, 1])}, {"double": DOUBLE}, double, show("x"))
    lines = run(model, timing=Timing(iterations, repeat))
    expected = 2 ** (iterations * repeat)
    assert lines[-1] == f"Resource 'x': {expected}, {expected}, {expected}"


SPLIT = {
    "type": "SPLIT",
    "desc": {X: tensor([4]), "OutputTensors": [tensor([1]), tensor([3])], "Axis": 0},
}


A, B, AB = "1, -1, -1, -1, -1, -1, -1, -1", "2, 3, 4, -1", {"OutputTensors": ["a", "b"]}


EMPTY = "-1, -1, -1, -1"


@pytest.mark.parametrize(
    ("bindings", "at_dispatchable", "a", "b"),
    [
        ({X: "x", **AB}, None, A, B),
        ({X: ["x"], "OutputTensors": ["a", {"name": "b"}]}, None, A, B),
        ({X: {"name": "x"}, **AB}, None, A, B),
        ({}, {X: "x", **AB}, A, B),
        ({X: "x"}, AB, A, B),
        ({X: "y"}, {X: "x", **AB}, "5, -1, -1, -1, -1, -1, -1, -1", "6, 7, 8, -1"),
        (
            {X: "x", "OutputTensors": [{"name": "a", "elementOffset": 4}, "a"]},
            *(None, "2, 3, 4, -1, 1, -1, -1, -1", EMPTY),
        ),
        (
            {
                X: {"name": "x", "elementCount": 0, "elementSizeInBytes": 0, "format": "R32_FLOAT"},
                "OutputTensors": [
                    {"name": "a", "elementCount": 1, "elementStride": 4},
                    {"name": "a", "elementCount": 3, "elementOffset": 4},
                ],
            },
            *(None, "1, -1, -1, -1, 2, 3, 4, -1", EMPTY),
        ),
    ],
)
def test_bindings(bindings: Json, at_dispatchable: Json | None, a: str, b: str):
    """Splits 1, 2, 3, 4 into 1 and 2, 3, 4; `a` and `b` are -1 where nothing is written."""
    values = {"x": [1, 2, 3, 4], "y": [5, 6, 7, 8], "a": [-1] * 8, "b": [-1] * 4}
    resources = {name: buffer(v) for name, v in values.items()}
    split = SPLIT if at_dispatchable is None else {**SPLIT, "bindings": at_dispatchable}
    run_split = dispatch("split", **bindings)
    if not bindings:
        del run_split["bindings"]
    found = shown(model_of(resources, {"split": split}, run_split, show("a"), show("b")))
    assert found == {"a": a, "b": b}


def part(offset: int, **fields: Any) -> Json:
    return {"name": "x", "elementOffset": offset, **fields}


COPY = copying(tensor([2]), tensor([2]))
MIXED = buffer([{"type": "FLOAT32", "value": v} for v in range(8)], "UNKNOWN")
LAST = part(4, elementCount=3)
OWNED = {**copying(tensor([3], Flags="OWNED_BY_DML"), tensor([3])), "bindings": {X: "w"}}
STRIDED = tensor([2, 2], Strides=[4, 1])


@pytest.mark.parametrize(
    ("resources", "operator", "bindings", "left"),
    [
        pytest.param(
            *({"x": [1] * 12}, DOUBLE, [{X: LAST, Y: LAST}]),
            {"x": "1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1"},
            id="in place on a part",
        ),
        pytest.param(
            *({"x": [1, 2, 3, 4, 5, 6, 7]}, COPY, [{X: "x", Y: part(4)}]),
            {"x": "1, 2, 3, 4, 1, 2, 7"},
            id="input and output apart in one resource",
        ),
        pytest.param(
            {"x": [1, 2], "y": [3, 4], "z": [0, 0]},
            *(COPY, [{X: "x", Y: "z"}, {X: "y", Y: "x"}, {X: "z", Y: "y"}]),
            {"x": "3, 4", "y": "1, 2", "z": "1, 2"},
            id="three dispatches of one dispatchable",
        ),
        pytest.param(
            *({"x": MIXED, "y": [0, 0]}, COPY, [{X: part(1, elementSizeInBytes=16), Y: "y"}]),
            {
                "x": "0, 0, 0, 0, 0, 0, 128, 63, 0, 0, 0, 64, 0, 0, 64, 64, 0, 0, 128, 64, 0, 0, "
                "160, 64, 0, 0, 192, 64, 0, 0, 224, 64",
                "y": "4, 5",
            },
            id="an offset into a list has a size of its own",
        ),
        pytest.param(
            *({"x": [1, 2, 3, 4, 5, 6]}, clip({X: STRIDED, Y: STRIDED}, 0, 1.5), [IN_PLACE]),
            {"x": "1, 1.5, 3, 4, 1.5, 1.5"},
            id="in place with strides",
        ),
        pytest.param(
            {"x": [-5, 1, 5]},
            clip({X: tensor([3]), Y: tensor([3])}, -2, 2.5, ScaleBias=None),
            *([IN_PLACE], {"x": "-2, 1, 2.5"}),
            id="optional fields may be null",
        ),
        pytest.param(
            {"x": [1, 2, 3, 4], "y": buffer([9], sizeInBytes=16)},
            copying(tensor([4]), tensor([4])),
            [{X: "x", Y: "y"}, {X: "y", Y: "x"}],
            {"x": "1, 2, 3, 4", "y": "1"},  # all is there, and what was initialised is printed
            id="beyond what was initialised",
        ),
        pytest.param(
            {
                name: buffer([v], "FLOAT64", sizeInBytes=n)
                for name, v, n in [("x", 1.5, 12), ("y", 0, 20)]
            },
            copying(tensor([1], "UINT64"), tensor([1], "UINT64")),
            *([{X: "x", Y: "y"}], {"x": "1.5", "y": "1.5"}),
            id="memory of no whole number of elements",
        ),
        pytest.param(
            {"w": [1, 2, 3, 4, 5, 6, 7], "y": [0, 0, 0]},
            {**OWNED, "bindings": {X: {"name": "w", "elementOffset": 4}}},
            *([{Y: "y"}], {"w": "1, 2, 3, 4, 5, 6, 7", "y": "5, 6, 7"}),
            id="owned at an offset",
        ),
    ],
)
def test_what_dispatches_leave(resources: Json, operator: Json, bindings: list[Json], left: Json):
    assert after(resources, operator, *bindings) == left


@pytest.mark.parametrize(
    ("data_type", "offset"), [("UINT8", 16), ("FLOAT16", 8), ("FLOAT32", 4), ("UINT64", 2)]
)
def test_an_offset_counts_elements_of_the_resource(data_type: str, offset: int):
    """Each is 16 bytes in."""
    values = {"valueCount": 2 * offset, "valueStart": 0, "valueDelta": 1}
    resources = {"x": buffer(values, data_type), "y": buffer([0], data_type)}
    copy = copying(tensor([1], data_type), tensor([1], data_type))
    assert after(resources, copy, {X: part(offset), Y: "y"})["y"] == str(offset)


# Strides, and types of memory.


@pytest.mark.parametrize(
    ("source", "target", "values", "expected"),
    [
        (tensor([2, 3], Strides=[1, 2]), tensor([2, 3]), range(6), "0, 2, 4, 1, 3, 5"),
        (tensor([2, 3]), tensor([2, 3], Strides=[1, 2]), range(6), "0, 3, 1, 4, 2, 5"),
        (tensor([2, 3], Strides=[0, 1]), tensor([2, 3]), [7, 8, 9], "7, 8, 9, 7, 8, 9"),
        (tensor([3], Strides=[0]), tensor([3]), [7], "7, 7, 7"),
        (tensor([3, 2], Strides=[1, 1]), tensor([3, 2]), [1, 2, 3, 4], "1, 2, 2, 3, 3, 4"),
        (
            tensor([2, 2], Strides=[3, 1]),
            tensor([2, 2], Strides=[4, 2]),
            *([1, 2, 99, 3, 4], "1, -1, 2, -1, 3, -1, 4, -1"),
        ),
        (tensor([2]), tensor([2], TotalTensorSizeInBytes=16), [1, 2], "1, 2, -1, -1"),
    ],
    ids=["transposed", "transposes", "broadcast", "one element", "windows", "padding", "larger"],
)
def test_strides(source: Json, target: Json, values: Sequence[int], expected: str):
    """What a copy between tensors of these layouts leaves in a resource that holds -1."""
    resources = {"x": [*values], "y": [-1] * len(numbers(expected))}
    assert after(resources, copying(source, target), {X: "x", Y: "y"})["y"] == expected


@pytest.mark.parametrize(
    ("source", "moved", "target", "expected"),
    [
        (("FLOAT32", [1, -2]), ("UINT8", 8), ("UINT8", [9] * 8), "0, 0, 128, 63, 0, 0, 0, 192"),
        (("FLOAT32", [1, -2]), ("INT32", 2), ("INT32", [9, 9]), "1065353216, -1073741824"),
        (("UINT8", [0, 0, 128, 63]), ("FLOAT32", 1), ("FLOAT32", [9]), "1"),
        (("FLOAT32", [0, 1.875]), ("UINT64", 1), ("FLOAT64", [9]), "1"),
        (("UINT32", [0, 0x3FF00000]), ("INT64", 1), ("FLOAT64", [9]), "1"),
        (("FLOAT64", [1]), ("UINT32", 2), ("UINT32", [9, 9]), "0, 1072693248"),
        (("INT64", [-1]), ("INT16", 4), ("INT8", [9] * 8), "-1, -1, -1, -1, -1, -1, -1, -1"),
        (("FLOAT16", [1, 2]), ("UINT32", 1), ("FLOAT16", [9, 9]), "1, 2"),
        # The rest of the resource is kept, down to the byte.
        (("UINT8", [1, 2, 3, 4]), ("UINT8", 3), ("UINT8", [9] * 5), "1, 2, 3, 9, 9"),
        (("UINT8", [1, 2, 3, 4]), ("UINT8", 1), ("UINT32", [0x08070605]), str(0x08070601)),
        (("FLOAT16", [1]), ("FLOAT16", 1), ("UINT32", [0xFFFFFFFF]), str(0xFFFF3C00)),
        (("UINT16", [1, 2, 3]), ("UINT16", 3), ("UINT64", [2**64 - 1]), str(0xFFFF000300020001)),
        (("UINT32", [5]), ("UINT32", 1), ("FLOAT64", [1, 1]), "1, 1"),
    ],
)
def test_memory_bound_as_another_type(
    source: tuple[str, list[Any]],
    moved: tuple[str, int],
    target: tuple[str, list[Any]],
    expected: str,
):
    """What `target` shows once elements of `moved`'s type are copied to it from `source`."""
    described = tensor([moved[1]], moved[0])
    resources = {"x": buffer(source[1], source[0]), "y": buffer(target[1], target[0])}
    assert after(resources, copying(described, described), {X: "x", Y: "y"})["y"] == expected


def test_float64_in_memory_of_other_types():
    outputs = [tensor([1], "FLOAT64"), tensor([2], "FLOAT64")]
    desc = {X: tensor([3], "FLOAT64"), "OutputTensors": outputs, "Axis": 0}
    # 1, -2 and 0.5, as pairs of their halves.
    halves = buffer([0, 0x3FF00000, 0, 0xC0000000, 0, 0x3FE00000], "UINT32")
    resources = {"x": halves, "y": [0, 0], "z": buffer([0, 0, 9], "FLOAT64")}
    left = after(resources, {"type": "SPLIT", "desc": desc}, {X: "x", "OutputTensors": ["y", "z"]})
    assert (left["y"], left["z"]) == ("0, 1.875", "-2, 0.5, 9")


@pytest.mark.parametrize("target", ["y", "w"])
def test_owned_tensors_are_copied_when_the_operator_is_initialised(target: str):
    """What is read is the copy, so that the output may be the owned memory itself."""
    model = model_of(
        {"w": buffer([1, 2, 3]), "y": buffer([0, 0, 0]), "z": buffer([0, 0, 0])},
        {"owned": OWNED, "double": DOUBLE, "plain": copying(tensor([3]), tensor([3]))},
        dispatch("double", InputTensor="w", OutputTensor="w"),
        dispatch("plain", InputTensor="w", OutputTensor="z"),
        dispatch("owned", OutputTensor=target),
        *map(show, "wyz"),
    )
    doubled = {"w": "2, 4, 6", "y": "0, 0, 0", "z": "2, 4, 6"}
    assert shown(model) == {**doubled, target: "1, 2, 3"}


# The ways to write a dispatchable.

REDUCED = {
    X: tensor([1, 1, 3, 3]),
    Y: tensor([1, 1, 3, 1]),
    "Function": "SUM",
    "AxisCount": 1,
    "Axes": [3],
}
FULL_TENSOR = {
    "Type": "DML_TENSOR_TYPE_BUFFER",
    "Desc": {
        "DataType": "DML_TENSOR_DATA_TYPE_FLOAT32",
        "Flags": "DML_TENSOR_FLAG_NONE",
        "DimensionCount": 4,
        "Sizes": [1, 1, 3, 3],
        "Strides": [9, 9, 3, 1],
        "TotalTensorSizeInBytes": 36,
        "GuaranteedBaseOffsetAlignment": 0,
    },
}


def reduce(**fields: Any) -> Json:
    """A REDUCE with other fields in its description."""
    return {"type": "REDUCE", "desc": {**REDUCED, **fields}}


@pytest.mark.parametrize(
    "dispatchable",
    [
        {"type": "DML_OPERATOR_REDUCE", "desc": REDUCED},
        {"Type": "REDUCE", "Desc": REDUCED},
        {"type": "DML_OPERATOR_REDUCE", **REDUCED},
        {"Type": "DML_OPERATOR_REDUCE", **REDUCED},
        {"type": "REDUCE", **REDUCED, "bindings": {}, "dmlCompileType": "DmlCompileGraph"},
        {"type": "REDUCE", "desc": {k: v for k, v in REDUCED.items() if k != "AxisCount"}},
        reduce(),
        reduce(Function="DML_REDUCE_FUNCTION_SUM"),
        reduce(InputTensor=FULL_TENSOR),
        reduce(InputTensor=FULL_TENSOR["Desc"]),
        reduce(InputTensor=tensor([1, 1, 3, 3], Type="BUFFER")),
        reduce(InputTensor=tensor([1, 1, 3, 3], Strides=None)),
        reduce(InputTensor=tensor([1, 1, 3, 3], Flags=["NONE"])),
        {**reduce(), "dmlCompileType": "DmlCompileOp"},
        {**reduce(), "executionFlags": "DESCRIPTORS_VOLATILE"},
        {**reduce(), "executionFlags": ["DML_EXECUTION_FLAG_DISABLE_META_COMMANDS", "NONE"]},
        {"$note": "ours", **reduce()},
        reduce(**{"$note": "ours"}),
        reduce(InputTensor=tensor([1, 1, 3, 3], **{"$note": "ours"})),
        reduce(InputTensor={**FULL_TENSOR, "$note": "ours"}),
    ],
    ids=range(20),
)
def test_the_ways_to_write_a_dispatchable(dispatchable: Json):
    assert shown(reduce_model(**dispatchable))["output"] == "6, 15, 24"


@pytest.mark.parametrize("change", [str.upper, str.title, str.lower])
def test_command_types_in_any_case(change: Callable[[str], str], current: Path):
    model = reduce_model()
    model["commands"].append(write("output", "o.npy"))
    for entry in model["commands"]:
        entry["type"] = change(entry["type"])
    assert shown(model)["output"] == "6, 15, 24"
    assert np.load(current / "o.npy").tolist() == [6, 15, 24]


def test_a_thread_group_count_is_ignored():
    model = reduce_model()
    model["commands"][0]["threadGroupCount"] = [2, 1, 1]
    assert shown(model)["output"] == "6, 15, 24"


# The command line.

MS = r"\d+\.\d{4} ms"


def lines_of(*args: str, model: Json | None = None) -> list[str]:
    """The lines of `run` with these options on a model, by default the guide's example."""
    result = command("run", model_file(model or reduce_model(), Path()), *args)
    assert result.stderr == ""
    return result.stdout.splitlines()


def assert_matches(lines: list[str], *patterns: str) -> None:
    assert len(lines) == len(patterns), lines
    for line, pattern in zip(lines, patterns, strict=True):
        assert re.fullmatch(pattern, line), (line, pattern)


DATA = ("Resource 'input': 1, 2, 3, 4, 5, 6, 7, 8, 9", "Resource 'output': 6, 15, 24")
FIRST = jax.devices()[0]
KIND = f" ({FIRST.device_kind})" if FIRST.platform != "cpu" else ""
ADAPTER = f"{FIRST.platform}:0{KIND}"
RUNNING = f"Running on '{ADAPTER}'"


@pytest.mark.parametrize("words", [[], ["-v", "0"]])
def test_the_report(words: list[str]):
    summary = rf"Dispatch 'sum': 1 iteration, {MS}"
    assert_matches(lines_of(*words), re.escape(RUNNING), summary, *DATA)


def test_64_bit_types_of_a_process():
    values = {"x": buffer([2**62, -1], "INT64"), "y": buffer([0.1], "FLOAT64")}
    copies = {"c": copying(tensor([2], "INT64"), tensor([2], "INT64"))}
    double = dispatch("c", InputTensor="x", OutputTensor="z")
    resources = {**values, "z": buffer([0, 0], "INT64")}
    model = model_of(resources, copies, double, show("z"), show("y"))
    done = python("-m", "dml_jax", "run", model_file(model, Path()), timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    running, dispatched, *printed = done.stdout.splitlines()
    assert_matches([running, dispatched], re.escape(RUNNING), rf"Dispatch 'c': 1 iteration, {MS}")
    assert printed == ["Resource 'z': 4611686018427387904, -1", "Resource 'y': 0.1"]


def timings(part: str, count: int) -> str:
    samples = ", ".join(rf"{MS} {what}" for what in ("average", "min", "median", "max"))
    return rf"Timings \({part}\) +: {count} samples, {samples}"


@pytest.mark.parametrize(
    ("options", "cold", "hot"),
    [
        ("-v 1 -i 10", 1, 9),
        ("-v 1 -i 10 -w 0", 0, 10),
        ("-v 1 -i 10 -w 3", 3, 7),
        ("-v 1 -i 10 --warmup_samples 9", 9, 1),
        # One sample is always hot, so that there is a median.
        ("-v 1 -i 3 -w 5", 2, 1),
        ("-v 1 -i 1", 0, 1),
        ("-v 1 -i 2 -r 3", 1, 1),
        ("--dispatch_iterations 3 --timing_verbosity 2", 1, 2),
    ],
)
def test_cold_and_hot_timings(options: str, cold: int, hot: int):
    parts = [timings("Cold", cold)] * (cold > 0) + [timings("Hot", hot)]
    if "--timing_verbosity 2" in options:
        parts += ["The timings of each iteration:"]
        parts += [rf"iteration {index}: {MS}" for index in range(cold + hot)]
    head = [rf"Initialize 'sum': {MS}", rf"Dispatch 'sum': {cold + hot} iterations?"]
    assert_matches(lines_of(*options.split()), re.escape(RUNNING), *head, *parts, *DATA)


def test_the_median_is_one_of_the_samples():
    lines = lines_of("-v", "2", "-i", "6", "-w", "0")
    samples = sorted(float(line.split()[2]) for line in lines if line.startswith("iteration "))
    hot = next(line for line in lines if line.startswith("Timings"))
    average, least, median, most = map(float, re.findall(r"(\d+\.\d+) ms", hot))
    assert (least, most) == (samples[0], samples[-1])
    assert median in samples[2:4]
    assert average == pytest.approx(sum(samples) / 6, abs=1e-4)


def iterations_of(*options: str) -> int:
    line = lines_of(*options)[1]
    match = re.fullmatch(rf"Dispatch 'sum': (\d+) iterations?, {MS}(?: median)?", line)
    assert match
    return int(match[1])


class Clock:
    """Stands for the module `time`: an iteration takes a few ticks of 0.1 ms, whatever happens."""

    now = 0.0

    def perf_counter(self) -> float:
        self.now += 1e-4
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("dml_jax.dxdispatch.repetition.time", clock)
    return clock


@pytest.mark.parametrize(
    ("options", "iterations", "seconds"),
    [
        ("-t 0", 1, 0),
        ("-t 0 -i 3", 3, 0),
        ("-t 1 -I 10 -i 4", 4, 0.03),
        ("-t 100 -I 10", 10, 0.09),
        ("-t 50 -I 300", 1, 0),
        ("-I 30 -i 4", 4, 0.09),  # three intervals from the first to the last
    ],
)
def test_milliseconds_to_run(options: str, iterations: int, seconds: float, clock: Clock):
    """DxDispatch's help: at least so many milliseconds, and at least so many iterations."""
    assert iterations_of(*options.split()) == iterations
    assert clock.now >= seconds


def test_milliseconds_are_run_without_an_interval(clock: Clock):
    assert iterations_of("-t", "200", "-i", "2") > 2
    assert clock.now >= 0.2


def test_every_dispatch_reports():
    model = reduce_model()
    model["commands"].insert(1, model["commands"][0])
    lines = lines_of(model=model)
    assert sum(line.startswith("Dispatch 'sum': 1 iteration, ") for line in lines) == 2


def test_adapter_by_part_of_its_name():
    last = f"cpu:{jax.devices('cpu')[-1].id}"
    assert lines_of("-a", last)[0] == f"Running on '{last}'"
    assert lines_of("--adapter", "CPU")[0] == "Running on 'cpu:0'"
    assert lines_of("-a", last)[-1] == DATA[1]


def test_show_adapters_and_dependencies():
    result = command("run", "-s", "-S")
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert {ADAPTER, *(f"cpu:{device.id}" for device in jax.devices("cpu"))} <= set(lines)
    assert "-Platform: cpu (cpu)" in lines
    assert {f"jax: {jax.__version__}", f"numpy: {np.__version__}"} <= {*lines}


@pytest.mark.parametrize("option", ["--check", "--hlo"])
def test_nothing_runs(option: str, current: Path):
    model = reduce_model()
    model["commands"].append(write("output", "o.npy"))
    text = "\n".join(lines_of(option, model=model))
    assert not re.search("Running on|Dispatch 'sum'|Resource", text)
    assert names_in(current) == ["model.json"]


FLAT = reduce(InputTensor=tensor([9]), OutputTensor=tensor([1]), Axes=[0])
INTEGERS = {X: tensor([1, 1, 3, 3], "INT32"), Y: tensor([1, 1, 3, 1], "INT32")}


@pytest.mark.parametrize(
    ("dispatchable", "level", "fragments"),
    [
        (reduce(Function="L1"), "1_0", ()),
        (FLAT, "2_1", ("InputTensor.DimensionCount", "be 4", "2_1", "got 1")),
        (FLAT, "DML_FEATURE_LEVEL_3_0", ()),
        (reduce(**INTEGERS), "1_0", ("InputTensor.DataType", "FLOAT32, FLOAT16", "1_0", "INT32")),
    ],
    ids=range(4),
)
def test_feature_level(dispatchable: Json, level: str, fragments: tuple[str, ...]):
    path = model_file(reduce_model(**dispatchable), Path())
    result = command("run", path, "--feature-level", level, status=1 if fragments else 0)
    if fragments:
        assert result.stdout == ""
        line = result.stderr.splitlines()[0]
        for fragment in ("Dispatchable 'sum'", "DML_OPERATOR_REDUCE", *fragments):
            assert fragment in line


@pytest.mark.parametrize(("second", "count"), [(reduce(), 1), (FLAT, 2)])
def test_feature_level_of_every_dispatchable(second: Json, count: int):
    """The first one's refusal stands, whatever the second is."""
    path = model_file({**reduce_model(), "dispatchables": {"flat": FLAT, "sum": second}}, Path())
    result = command("run", path, "--feature-level", "2_1", status=1)
    assert result.stderr.count("InputTensor.Dim") == count


# Models from Windows.


def test_paths_as_windows_has_them(folder: Path):
    (folder / "data").mkdir()
    np.save(folder / "data" / "in.npy", np.arange(3, dtype=np.float32))
    resources = {"r": buffer({"sourcePath": "data\\in.npy"}, None)}
    path = model_file(model_of(resources, {}, write("r", "out\\o.npy")), folder)
    Executor(load_model(path), jax.devices()[0], print, folder=folder).run()
    np.testing.assert_array_equal(np.load(folder / "out" / "o.npy"), [0, 1, 2])


@pytest.mark.parametrize("target", ["./model.json", "x/../model.json", "link.json", "{path}"])
def test_a_model_is_not_written_over(target: str, folder: Path):
    path = folder / "model.json"
    (folder / "x").mkdir()
    (folder / "link.json").symlink_to(path)
    model_file(model_of({"r": buffer([1])}, {}, write("r", target.format(path=path))), folder)
    executor = Executor(load_model(path), jax.devices()[0], print, folder=folder)
    with pytest.raises(DmlError, match="expected targetPath to be another file than the model"):
        executor.run()
    assert json.loads(path.read_text())


@pytest.mark.parametrize("name", ["below/Input.bin", "below\\INPUT.bin"])
def test_a_file_in_another_case_is_suggested(name: str, folder: Path):
    (folder / "below").mkdir()
    (folder / "below" / "input.bin").write_bytes(b"1")
    (folder / "below" / "inputs.bin").write_bytes(b"1")
    if (folder / "below" / "INPUT.BIN").exists():
        pytest.skip("names of files have no case on this system")
    with pytest.raises(DmlError, match=r"\(did you mean 'input.bin'\?\)$"):
        parse_model(model_of({"r": buffer({"sourcePath": name}, "UINT8")}, {}), folder)


def test_a_float_is_rounded_to_the_nearest():
    """As DxDispatch reads it; 2147483648 is the FLOAT nearest to 2147483647."""
    tensors = {X: tensor([2], "INT32"), Y: tensor([2], "INT32")}
    parsed = parse_model(model_of({}, {"c": clip(tensors, -1, 2147483647)}), Path())
    operator = parsed.dispatchables["c"].operator
    assert isinstance(operator, Operator)
    assert operator.to_json()["Desc"]["Max"] == 2147483648

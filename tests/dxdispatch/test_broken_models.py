"""Broken models: each is refused with a message that says where, which field, which rule, what."""

import copy
import io
import json
import os
import re
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from build import command
from dispatch_models import Json, buffer, filled, guide_model, tensor
from PIL import Image
from png import png
from processes import python

from dml_jax.dxdispatch.parsing import load_model
from dml_jax.errors import DmlError

TABLE = Path(__file__).parents[1] / "broken_models.txt"


def one_to_one(source: list[int], target: list[int], **fields: Any) -> Json:
    return {"InputTensor": tensor(source), "OutputTensor": tensor(target), **fields}


DESCS: dict[str, Json] = {
    "REDUCE": one_to_one([1, 1, 3, 3], [1, 1, 3, 1], Function="SUM", AxisCount=1, Axes=[3]),
    "SPLIT": {
        "InputTensor": tensor([1, 1, 2, 4]),
        "OutputCount": 2,
        "OutputTensors": [tensor([1, 1, 2, 1]), tensor([1, 1, 2, 3])],
        "Axis": 3,
    },
    "TILE": one_to_one([1, 1, 1, 2], [1, 1, 2, 6], RepeatsCount=4, Repeats=[1, 1, 2, 3]),
    "DEPTH_TO_SPACE1": one_to_one(
        *([1, 4, 1, 2], [1, 1, 2, 4]), BlockSize=2, Order="DEPTH_COLUMN_ROW"
    ),
    "ELEMENT_WISE_CLIP": one_to_one([1, 1, 2, 2], [1, 1, 2, 2], Min=0, Max=2),
}


def model_of(operator: str = "REDUCE") -> Json:
    """The guide's model; with another operator, `input` has 64 elements, and `output` still 3."""
    model = guide_model("written/sums.npy")
    model["dispatchables"]["sum"] = {"type": operator, "desc": copy.deepcopy(DESCS[operator])}
    if operator != "REDUCE":
        model["resources"]["input"]["initialValues"] = {"valueCount": 64, "value": 1}
    return model


ROOTS = {"input": "resources", "output": "resources", "sum": "dispatchables"}


def changed(model: Json, changes: str) -> str:
    """Makes changes such as `1.type = "print"; del sum.desc`; returns what the first one is in."""
    first = ""
    for change in changes.split("; ") if changes else ():
        place, _, value = change.removeprefix("del ").partition(" = ")
        root = place.partition(".")[0]
        *parents, last = [int(key) if key.isdigit() else key for key in place.split(".")]
        owner = "commands" if root.isdigit() else ROOTS.get(root)
        at: Any = model if owner is None else model[owner]
        for key in parents:
            at = at[key]
        if value:
            at[last] = json.loads(value)
        else:
            del at[last]
        titles = {"commands": f"Command {root}", "dispatchables": f"Dispatchable '{root}'"}
        titles["resources"] = f"Resource '{root}'"
        first = first or titles.get(owner or "", "")
    return first


def refused(path: Path, model: Json | bytes, parts: str, first: str = "", *args: str) -> None:
    """Runs a model that is refused with one line that has all parts.

    Args:
        path: its file.
        model: the model, or the bytes of its file.
        parts: the parts, and how many lines there are, as the table has them.
        first: another part, if the first one is no place of a model.
        args: options of the command line.
    """
    listed = parts.split(" | ")
    count = int(listed.pop().split()[0]) if re.fullmatch(r"\d lines", listed[-1]) else 1
    if not listed[0].startswith(("Resource", "Command", "Dispatchable", "Model")):
        listed.append(first)
    path.write_bytes(model if isinstance(model, bytes) else json.dumps(model).encode())
    before = contents(path.parent.parent)
    start = time.monotonic()
    result = command("run", path, *args, status=1)
    assert time.monotonic() - start < 10
    assert "Traceback" not in result.output
    lines = result.stderr.splitlines()
    assert any(all(part in line for part in listed) for line in lines), lines
    assert len(lines) == count, lines
    assert max(map(len, lines)) < 1000
    assert contents(path.parent.parent) == before


def contents(folder: Path) -> dict[str, bytes | None]:
    """All that lies in a folder; the bytes of what are files."""
    paths = sorted(folder.rglob("*"))
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in paths}


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The model's file; the current directory is an empty one beside its folder."""
    (tmp_path / "model").mkdir()
    (tmp_path / "current").mkdir()
    monkeypatch.chdir(tmp_path / "current")
    return tmp_path / "model" / "model.json"


def test_the_unbroken_model_runs(path: Path):
    path.write_text(json.dumps(model_of()))
    result = command("run", path)
    assert result.stderr == ""
    assert "Resource 'output': 6, 15, 24" in result.stdout.splitlines()
    assert np.load("written/sums.npy").tolist() == [6, 15, 24]


DIGITS = "0" * 400


def rows() -> Iterator[Any]:
    for row in TABLE.read_text().splitlines():
        if row and not row.startswith("#"):
            changes, _, parts = row.partition(" -> ")
            yield pytest.param(changes, parts, id=changes[:70])


@pytest.mark.parametrize(("changes", "parts"), [*rows()])
def test_changes(changes: str, parts: str, path: Path):
    operator, colon, rest = changes.partition(": ")
    has_operator = bool(colon) and operator in DESCS
    model = model_of(operator if has_operator else "REDUCE")
    first = changed(model, rest if has_operator else changes)
    refused(path, model, parts, first)


ANY = json.dumps([{"type": "FLOAT32", "value": 1}] * 9)
UNTYPED = f'input.initialValuesDataType = "UNKNOWN"; input.initialValues = {ANY}; '
BASE = json.dumps(model_of())


@pytest.mark.parametrize(
    ("operator", "changes", "parts", "args"),
    [
        ("REDUCE", f"input.initialValues.valueCount = 1{DIGITS}", "4294967295 | 1000000", ()),
        ("REDUCE", f"input.initialValues = [1{DIGITS}]", "initialValues[0] | 1000000", ()),
        ("ELEMENT_WISE_CLIP", f"sum.desc.Max = 1{DIGITS}", "CLIP | Max | 10000", ()),
        (
            *("REDUCE", f'input.initialValues = {{"sourcePath": "{"n" * 5000}.npy"}}'),
            *("sourcePath | 'nnnn", ()),
        ),
        (
            *(
                "REDUCE",
                f'{UNTYPED}0.bindings.InputTensor = {{"name": "input", "elementOffset": 4}}',
            ),
            *("Command 0 | InputTensor | elementSizeInBytes | UNKNOWN", ()),
        ),
        (
            *("REDUCE", f'{UNTYPED}2.resource = "input"'),
            *("Command 2 | 'input' | type | .npy | UNKNOWN", ()),
        ),
        (
            "DEPTH_TO_SPACE1",
            '0.bindings.OutputTensor = {"name": "input", "elementOffset": 16}',
            "Dispatchable 'sum' | DEPTH_TO_SPACE1 | feature level | 2_1 | 1_0",
            ("--feature-level", "1_0"),
        ),
    ],
    ids=range(7),
)
def test_long_changes_and_options(
    operator: str, changes: str, parts: str, args: tuple[str, ...], path: Path
):
    model = model_of(operator)
    refused(path, model, parts, changed(model, changes), *args)


def test_names_are_escaped(path: Path):
    model = model_of()
    model["resources"]["\x1b[31m\u202e\n"] = {}
    refused(path, model, r"Resource '\x1b[31m\u202e\n': expected initialValues to be given")
    model = model_of()
    first = changed(model, r'1.resource = "output\u001b[31m\n"; extra = 1')
    refused(path, model, r"resource | 'output\x1b[31m\n' | 2 lines", first)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (BASE[:-40], "model.json | JSON | line 1, column"),
        ('{\n  "resources": {},\n  dispatchables\n', "JSON | line 3, column 3"),
        ("{} {}", "model.json | JSON | line 1, column 4"),
        ("{} /* and then", "model.json | JSON | line 1"),
        ("", "model.json | JSON | empty"),
        (" \n\t\n", "model.json | JSON | empty"),
        (b'{"resources": "\xff"}', "model.json | UTF-8 | byte 15"),
        ("{}".encode("utf-16"), "model.json | save the file as UTF-8 | got UTF-16"),
        ("[" * 5000 + "]" * 5000, "model.json | nesting | 1000"),
        ('{"a":' * 5000 + "1" + "}" * 5000, "model.json | nesting"),
        ("[" * 100_000, "model.json"),
        ('{"resources": {}, "resources": {}}', "each key | once | 'resources'"),
        ('{"resources": {"a": {"b": 4, "b": 8}}}', "each key | once | 'b'"),
        ('{"\\ud800": 1}', "model.json | JSON"),
        ('{"resources": 1e400}', "model.json | JSON"),
        (BASE.replace('"desc"', '"Desc": {"Axis": 1}, "desc"'), "Dispatchable 'sum' | Desc | desc"),
        ('{"Nodes": []}', "Model | model.json | graph"),
        ('{"resource": {}}', "Model | model.json | resource | 4 lines"),
        ("[1, 2]", "Model | model.json | object | [1, 2]"),
        ('"resources"', "Model | object | 'resources'"),
        ("null", "Model | model.json | object | null"),
        ("{}", "Model | resources | given | nothing | 3 lines"),
    ],
    ids=range(22),
)
def test_texts(text: str | bytes, parts: str, path: Path):
    refused(path, text.encode() if isinstance(text, str) else text, parts)


# Files of resources.


def npy(array: np.ndarray, pickled: bool = False) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=pickled)
    return file.getvalue()


def npy_header(shape: str, descr: str = "<f4") -> bytes:
    """A .npy file that is but a header."""
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header


def npz() -> bytes:
    file = io.BytesIO()
    np.savez(file, a=np.zeros(9, np.float32))
    return file.getvalue()


def picture(kind: str) -> bytes:
    file = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    Image.fromarray(noise).save(file, kind)
    return file.getvalue()


def from_file(path: Path, name: str, content: bytes, data_type: str = "FLOAT32") -> Json:
    """The model whose input is read from a file of this content."""
    (path.parent / name).write_bytes(content)
    model = model_of()
    model["resources"]["input"] = buffer({"sourcePath": name}, data_type)
    return model


FLOATS, PNG, JPEG = npy(np.arange(9, dtype=np.float32)), picture("PNG"), picture("JPEG")
FIELDS = npy(np.zeros(2, [("a", "<f4"), ("b", "<i4")]))
LARGEST = 2**32 - 1


@pytest.mark.parametrize(
    ("name", "content", "data_type", "changes", "parts"),
    [
        ("w.npy", FLOATS[:-4], "FLOAT32", "", "readable .npy"),
        ("w.npy", FLOATS[:20], "FLOAT32", "", "readable .npy"),
        ("w.npy", b"", "FLOAT32", "", "readable .npy"),
        ("w.npy", b"1 2 3\n" * 9, "FLOAT32", "", "readable .npy"),
        ("w.npz", npz(), "FLOAT32", "", "end in .npy"),
        ("w.npy", npz(), "FLOAT32", "", "readable .npy"),
        ("w.npy", npy(np.array([{}, None]), True), "FLOAT32", "", "readable .npy | bject"),
        ("w.npy", npy_header("(1000000000000000,)"), "FLOAT32", "", "readable .npy"),
        ("w.npy", npy_header(f"({10**15}, {10**15})"), "FLOAT32", "", "readable .npy"),
        ("w.npy", npy_header(f"({10**40},)"), "FLOAT32", "", "readable .npy"),
        ("w.npy", npy_header("(-2,)"), "FLOAT32", "", ""),
        ("w.npy", npy(np.zeros(4, np.complex64)), "FLOAT32", "", "DirectML has | complex64"),
        ("w.npy", npy(np.array(["abc"])), "FLOAT32", "", "DirectML has | str"),
        ("w.npy", FIELDS, "FLOAT32", "", "DirectML has"),
        ("w.npy", npy(np.arange(9)), "FLOAT32", "", "FLOAT32 | initialValuesDataType | INT64"),
        ("w.npy", npy(np.zeros((0, 3), np.float32)), "FLOAT32", "", "at least 1 | [0, 3]"),
        ("w.npy", npy(np.array([True])), "UINT8", "", "got bool (read as INT8)"),
        ("w.npy", npy(np.zeros(1, jax.numpy.bfloat16)), "UINT8", "", "type (bfloat16 is stored so"),
        ("w.npy", npy(np.zeros(1, "<i2")), "UINT8", "", "got INT16"),
        ("w.bin", b"12345", "FLOAT32", "", "4 bytes | 5"),
        ("w.dat", b"", "FLOAT32", "", "positive | 0"),
        ("w.dat", b"1234", "UNKNOWN", "", "initialValuesDataType | nothing"),
        ("p.png", b"not a picture", "UINT8", "", "readable .png"),
        ("p.png", b"", "UINT8", "", "readable .png"),
        ("p.png", PNG[:600], "UINT8", "", "readable .png"),
        ("p.jpg", JPEG[:-2000], "UINT8", "", "readable .jpg"),
        ("p.jpg", b"\xff\xd8\xff\xe0" + bytes(50), "UINT8", "", "readable .jpg"),
        ("p.png", png(100_000, 100_000, 8, 3), "UINT8", "", "readable .png"),
        ("p.png", png(10_000, 10_000, 8, 3), "UINT8", "", "at most 89478485 pixels"),
        ("p.png", PNG, "INT32", "", "UINT8 | got INT32"),
        ("p.png", PNG, "UNKNOWN", "", "initialValuesDataType | got UNKNOWN"),
        ("p.png", PNG, "UINT8", "Size = [1, 2, 8, 8]", "Size | 1, 3 or 4 channels | [1, 2, 8, 8]"),
        ("p.png", PNG, "UINT8", "Size = [8, 8]", "resampleSize | [1, C, H, W] | [8, 8]"),
        ("p.png", PNG, "UINT8", "Size = [1, 3, 0, 8]", "resampleSize[2] | [1,  | 0"),
        ("p.png", PNG, "UINT8", f"Size = [1, 3, {LARGEST}, {LARGEST}]", "size | fit"),
        ("p.png", PNG, "UINT8", 'Mode = "crop"', "resampleMode | scale | 'crop'"),
    ],
    ids=range(36),
)
def test_files(name: str, content: bytes, data_type: str, changes: str, parts: str, path: Path):
    model = from_file(path, name, content, data_type)
    first = changed(model, changes and f"input.resample{changes}")
    source = f"sourcePath | {name}"
    refused(path, model, parts if changes else f"{source} | {parts}", first or "Resource 'input'")


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_files_that_are_none(kind: str, path: Path):
    model = from_file(path, "weights.bin", b"")
    file = path.parent / "weights.bin"
    file.unlink()
    (file.mkdir if kind == "folder" else lambda: os.mkfifo(file))()
    refused(path, model, "sourcePath | file | 'weights.bin'", "Resource 'input'")


def with_many_large() -> Json:
    """2 TiB in resources that are each allowed: more than any machine that tests run on."""
    model = model_of()
    for index in range(64):
        model["resources"][f"large{index}"] = filled(4294967295, 0, "FLOAT64")
    return model


def test_all_mistakes_are_reported_at_once(path: Path):
    model = model_of()
    changed(model, 'input.initialValues.valueCount = 0; output.initialValuesDataType = "FLOAT23"')
    changed(model, "sum.desc.Axes = [7]; sum.desc.OutputTensor.Sizes = [1, 1, 3]")
    changed(model, '1.resource = "outptu"; 2.targetPath = 1')
    path.write_text(json.dumps(model))
    err = command("run", path, status=1).stderr
    for place in ("valueCount", "initialValuesDataType", "Axes[0]", "Command 1", "Command 2"):
        assert sum(place in line for line in err.splitlines()) == 1, (place, err)
    # The dispatch of what could not be described is not reported as well.
    assert "Command 0" not in err


def test_a_missing_definition_is_not_reported_where_it_is_used(path: Path):
    model = model_of()
    model["resources"]["input"]["initialValues"] = []
    with pytest.raises(DmlError) as caught:
        path.write_text(json.dumps(model))
        load_model(path)
    assert [fault.context for fault in caught.value.faults] == [("Resource 'input'",)]


@pytest.mark.parametrize(
    ("name", "fragment"),
    [
        ("missing.json", "No such file"),
        ("../model", "got a folder (`dml-jax check "),
        *((name, "readable JSON file") for name in ("/dev/zero", "/dev/null", "n" * 5000)),
        ("below/model.json/x", "readable JSON file"),
    ],
)
def test_no_model_at_the_path(name: str, fragment: str, path: Path):
    result = command("run", name, status=1)
    assert result.stdout == ""
    assert name[:40] in result.stderr
    assert fragment in result.stderr


@pytest.mark.parametrize(
    ("options", "fragments"),
    [
        ("--feature-level 9_9", "--feature-level 6_4 9_9"),
        ("--feature-level=", "--feature-level 6_4"),
        ("-i 0", "dispatch_iterations 0"),
        ("-r -1", "dispatch_repeat -1"),
        ("-t -1", "milliseconds_to_run -1"),
        ("-I x", "dispatch_interval x"),
        ("-I 1e20", "dispatch_interval 1e+20"),
        ("-v -1", "timing_verbosity -1"),
        ("--nonsense", "--nonsense"),
    ],
)
def test_wrong_options(options: str, fragments: str, path: Path):
    Path("model.json").write_text(BASE)
    result = command("run", "model.json", *options.split(), status=2)
    assert result.stdout == ""
    assert all(fragment in result.stderr for fragment in fragments.split())


@pytest.mark.parametrize("depth", range(930, 1001, 7))
def test_nesting_about_as_deep_as_allowed(depth: int, path: Path):
    """What can just be parsed can be shown as well."""
    path.write_text('{"extra": ' + "[" * depth + "]" * depth + "}")
    assert re.search("extra|nesting", command("run", path, status=1).stderr)


@pytest.mark.parametrize("digits", [400, 4000, 5000])
@pytest.mark.parametrize(
    "place",
    [
        *("input.sizeInBytes", "input.initialValues.valueCount", "input.initialValues.valueStart"),
        *("sum.desc.Axes.0", "sum.desc.AxisCount", "sum.desc.InputTensor.Sizes.2"),
        "sum.desc.InputTensor.TotalTensorSizeInBytes",
        "sum.desc.InputTensor.GuaranteedBaseOffsetAlignment",
        *("1.verbose", "extra"),
    ],
)
def test_numbers_of_many_digits(place: str, digits: int, path: Path):
    model = model_of()
    changed(model, f'{place} = "NUMBER"')
    path.write_text(json.dumps(model).replace('"NUMBER"', "7" * digits))
    err = command("run", path, status=1).stderr
    assert place.rpartition(".")[2] in err or "7777" in err or "JSON" in err
    assert max(map(len, err.splitlines())) < 1000


def replacements(value: Any) -> list[Any]:
    """Values of every JSON type, and of the kinds that a field of this value may mistake."""
    return [
        v for v in (None, True, 0, -1, 1.5, 2**70, "", "x", [], {}, [[]], {"a": 1}) if v != value
    ]


def all_replaced(value: Any) -> Iterator[Any]:
    """Copies of a value in each of which one part, at any depth, is another JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        inner = all_replaced(item) if isinstance(item, (dict, list)) else ()
        for other in (*replacements(item), *inner):
            made = copy.copy(value)
            made[key] = other
            yield made


@pytest.mark.parametrize("operator", ["REDUCE", "SPLIT"])
def test_any_value_of_another_type_is_refused_or_taken(operator: str, path: Path):
    """Every value of a model in turn becomes every other JSON value: only DmlError escapes."""
    base = model_of(operator)
    base["dispatchables"]["sum"]["executionFlags"] = ["NONE"]
    bindings = {"InputTensor": [{"name": "input", "elementOffset": 0}]}
    base["dispatchables"]["sum"]["bindings"] = bindings
    for model in all_replaced(base):
        path.write_text(json.dumps(model))
        try:
            load_model(path)
        except DmlError as error:
            assert str(error)
        except Exception as error:
            pytest.fail(f"{model}: {error!r}")


def test_a_refused_process_says_one_line(path: Path):
    """No warnings of the packages below stand beside the message."""
    for model in (with_many_large(), from_file(path, "p.png", png(10_000, 10_000, 8, 3), "UINT8")):
        path.write_text(json.dumps(model))
        done = python("-m", "dml_jax", "run", path, timeout=60)
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
        assert re.search("fit|at most 89478485 pixels", done.stderr)

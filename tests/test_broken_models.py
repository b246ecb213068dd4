"""Broken models: each is refused with a message that says where, which field, which rule, what."""

import copy
import io
import json
import os
import random
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from guide_model import guide_model
from PIL import Image

from dml_jax.cli import cli
from dml_jax.dispatch.model import load_model
from dml_jax.errors import DmlError

Json = dict[str, Any]
# Changes a model, or writes files beside it; what it returns stands in the file instead of JSON.
Edit = Callable[[Json, Path], bytes | None]


def tensor(sizes: list[int], data_type: str = "FLOAT32", **fields: Any) -> Json:
    return {"DataType": data_type, "Sizes": sizes, **fields}


DESCS: dict[str, Json] = {
    "REDUCE": {
        "InputTensor": tensor([1, 1, 3, 3]),
        "OutputTensor": tensor([1, 1, 3, 1]),
        "Function": "SUM",
        "AxisCount": 1,
        "Axes": [3],
    },
    "SPLIT": {
        "InputTensor": tensor([1, 1, 2, 4]),
        "OutputCount": 2,
        "OutputTensors": [tensor([1, 1, 2, 1]), tensor([1, 1, 2, 3])],
        "Axis": 3,
    },
    "TILE": {
        "InputTensor": tensor([1, 1, 1, 2]),
        "OutputTensor": tensor([1, 1, 2, 6]),
        "RepeatsCount": 4,
        "Repeats": [1, 1, 2, 3],
    },
    "DEPTH_TO_SPACE1": {
        "InputTensor": tensor([1, 4, 1, 2]),
        "OutputTensor": tensor([1, 1, 2, 4]),
        "BlockSize": 2,
        "Order": "DEPTH_COLUMN_ROW",
    },
    "ELEMENT_WISE_CLIP": {
        "InputTensor": tensor([1, 1, 2, 2]),
        "OutputTensor": tensor([1, 1, 2, 2]),
        "Min": 0,
        "Max": 2,
    },
}

BASE: Json = guide_model("written/sums.npy")
BASE["dispatchables"]["sum"]["desc"] = DESCS["REDUCE"]


def put(path: str, value: Any) -> Edit:
    """Sets what a path such as `commands/0/type` leads to."""

    def edit(model: Json, _: Path) -> None:
        *parents, last = [int(k) if k.isdigit() else k for k in path.split("/")]
        at: Any = model
        for key in parents:
            at = at[key]
        at[last] = value

    return edit


def drop(path: str) -> Edit:
    def edit(model: Json, _: Path) -> None:
        *parents, last = path.split("/")
        at: Any = model
        for key in parents:
            at = at[int(key) if key.isdigit() else key]
        del at[last]

    return edit


def rename(path: str, name: str) -> Edit:
    """Renames a key, so that a known field becomes an unknown one beside its absence."""

    def edit(model: Json, _: Path) -> None:
        *parents, last = path.split("/")
        at: Any = model
        for key in parents:
            at = at[int(key) if key.isdigit() else key]
        at[name] = at.pop(last)

    return edit


def both(*edits: Edit) -> Edit:
    def edit(model: Json, folder: Path) -> None:
        for each in edits:
            each(model, folder)

    return edit


def described(operator: str, **changes: Any) -> Edit:
    """The dispatchable becomes this operator, with changed fields (`...` leaves one out)."""
    desc = {k: v for k, v in {**DESCS[operator], **changes}.items() if v is not ...}
    return put("dispatchables/sum", {"type": operator, "desc": desc})


def reduced(**fields: Any) -> Edit:
    """A REDUCE whose input tensor has these fields (`...` leaves one out)."""
    changed = {k: v for k, v in {**tensor([1, 1, 3, 3]), **fields}.items() if v is not ...}
    return described("REDUCE", InputTensor=changed)


def bound(operator: str, bindings: Json, **changes: Any) -> Edit:
    """The dispatchable becomes this operator, valid but for its bindings at the dispatch.

    Resource `input` has 64 FLOAT32 elements, `output` 3.
    """
    values = {"valueCount": 64, "value": 1}
    return both(
        described(operator, **changes),
        put("resources/input/initialValues", values),
        put("commands/0/bindings", bindings),
    )


def at(offset: int, name: str = "input", **fields: Any) -> Json:
    return {"name": name, "elementOffset": offset, **fields}


def text(content: str | bytes) -> Edit:
    """The model's file has this text."""
    return lambda *_: content.encode() if isinstance(content, str) else content


def source(name: str, content: bytes, data_type: str = "FLOAT32") -> Edit:
    """The input is read from a file of this content."""

    def edit(model: Json, folder: Path) -> None:
        (folder / name).write_bytes(content)
        model["resources"]["input"] = {
            "initialValuesDataType": data_type,
            "initialValues": {"sourcePath": name},
        }

    return edit


def from_path(path: str) -> Edit:
    return put("resources/input/initialValues", {"sourcePath": path})


def folder_as_source(model: Json, folder: Path) -> None:
    (folder / "weights.npy").mkdir()
    from_path("weights.npy")(model, folder)


def pipe_as_source(model: Json, folder: Path) -> None:
    os.mkfifo(folder / "weights.bin")
    from_path("weights.bin")(model, folder)


def file_as_folder(model: Json, folder: Path) -> None:
    """The target lies below what is a regular file, which nobody can write to."""
    Path("plain").write_bytes(b"x")
    put("commands/2/targetPath", "plain/sums.npy")(model, folder)


def folder_as_target(model: Json, folder: Path) -> None:
    Path("taken.npy").mkdir()
    put("commands/2/targetPath", "taken.npy")(model, folder)


def many_large(model: Json, _: Path) -> None:
    """2 TiB in resources that are each allowed: more than any machine that tests run on."""
    for index in range(64):
        model["resources"][f"large{index}"] = {
            "initialValuesDataType": "FLOAT64",
            "initialValues": {"valueCount": 4294967295, "value": 0},
        }


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


def png_header(width: int, height: int) -> bytes:
    """A PNG that promises so many pixels, and holds none."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(b"")), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@dataclass(frozen=True)
class Case:
    name: str
    edit: Edit
    fragments: tuple[str, ...]  # all in one line of the message
    lines: int
    args: tuple[str, ...]


def case(name: str, edit: Edit, *fragments: str, lines: int = 1, args: Sequence[str] = ()) -> Case:
    return Case(name, edit, fragments, lines, tuple(args))


IN, OUT, SUM = "Resource 'input'", "Resource 'output'", "Dispatchable 'sum'"
DISPATCH, PRINT, WRITE = "Command 0", "Command 1", "Command 2"
X, Y = "InputTensor", "OutputTensor"
VALUES = "resources/input/initialValues"


def sequence(**fields: Any) -> Edit:
    values = {"valueCount": 9, "valueStart": 1, "valueDelta": 1, **fields}
    return put(VALUES, {k: v for k, v in values.items() if v is not ...})


def typed(data_type: Any, values: Any = ...) -> Edit:
    fields = {"initialValuesDataType": data_type}
    return both(
        *(put(f"resources/input/{k}", v) for k, v in fields.items()),
        *([] if values is ... else [put(VALUES, values)]),
    )


TEXTS = [
    case("truncated", text(json.dumps(BASE)[:-40]), "model.json", "JSON", "line 1, column"),
    case("no-quotes", text('{\n  "resources": {},\n  dispatchables\n'), "JSON", "line 3, column 3"),
    case("two-values", text("{} {}"), "model.json", "JSON", "line 1, column 4"),
    case("unclosed-comment", text("{} /* and then"), "model.json", "JSON", "line 1"),
    case("empty-file", text(""), "model.json", "JSON", "empty"),
    case("blank-file", text(" \n\t\n"), "model.json", "JSON", "empty"),
    case("utf-8", text(b'{"resources": "\xff"}'), "model.json", "UTF-8", "byte 15"),
    case(
        "utf-16", text("{}".encode("utf-16")), "model.json", "save the file as UTF-8", "got UTF-16"
    ),
    case("lists-too-deep", text("[" * 5000 + "]" * 5000), "model.json", "nesting", "1000"),
    case("objects-too-deep", text('{"a":' * 5000 + "1" + "}" * 5000), "model.json", "nesting"),
    case("deep-and-unclosed", text("[" * 100_000), "model.json"),
    case("twice", text('{"resources": {}, "resources": {}}'), "each key", "once", "'resources'"),
    case(
        "twice-inside",
        text('{"resources": {"a": {"sizeInBytes": 4, "sizeInBytes": 8}}}'),
        *("each key", "once", "'sizeInBytes'"),
    ),
    case("lone-surrogate", text('{"\\ud800": 1}'), "model.json", "JSON"),
    case("a-list", text("[1, 2]"), "Model", "object", "[1, 2]"),
    case("a-string", text('"resources"'), "Model", "object", "'resources'"),
    case("1e400", text('{"resources": 1e400}'), "model.json", "JSON"),
    case(
        "described-twice",
        text(json.dumps(BASE).replace('"desc"', '"Desc": {"Axis": 1}, "desc"')),
        *("Dispatchable 'sum'", "Desc", "desc"),
    ),
    case("null", text("null"), "Model", "object", "null"),
    case("nothing-in-it", text("{}"), "Model", "resources", "given", "nothing", lines=3),
]

TOP = [
    case("no-resources", drop("resources"), "Model", "resources", "given", "nothing"),
    case("no-commands", drop("commands"), "Model", "commands", "given", "nothing"),
    case(
        "top-unknown-and-others",
        both(put("extra", 1), put("commands/1/resource", "output\x1b[31m\n")),
        *(PRINT, "resource", r"'output\x1b[31m\n'"),
        lines=2,
    ),
    case(
        "top-name-with-escapes",
        put("resources/\x1b[31m\u202e\n", {}),
        r"Resource '\x1b[31m\u202e\n': expected initialValues to be given",
    ),
    case(
        "top-unknown",
        put("dispatchable", {}),
        *("Model", "dispatchable", "known field", "did you mean 'dispatchables'", "{}"),
    ),
    case("resources-list", put("resources", []), "Model", "resources", "object", "[]"),
    case(
        "dispatchables-text", put("dispatchables", "x"), "Model", "dispatchables", "object", "'x'"
    ),
    case("commands-object", put("commands", {}), "Model", "commands", "list", "{}"),
    case("command-number", put("commands/1", 7), "Command 1", "object", "7"),
    case("resource-number", put("resources/input", 7), IN, "object", "7"),
    case("dispatchable-null", put("dispatchables/sum", None), SUM, "object", "null"),
]

RESOURCES = [
    case(
        "resource-unknown",
        put("resources/input/initialValuesType", "FLOAT32"),
        *(IN, "initialValuesType", "known field", "did you mean 'initialValues", "'FLOAT32'"),
    ),
    case("no-values", drop(VALUES), IN, "initialValues", "given", "nothing"),
    case("values-text", put(VALUES, "ones"), IN, "initialValues", "list", "'ones'"),
    case("values-number", put(VALUES, 3), IN, "initialValues", "list", "3"),
    case("values-null", put(VALUES, None), IN, "initialValues", "list", "null"),
    case("values-empty-object", put(VALUES, {}), IN, "initialValues", "value", "{}"),
    case("values-empty-list", put(VALUES, []), IN, "initialValues", "at least 1", "[]"),
    case(
        "values-unknown",
        sequence(valueStep=2),
        *(IN, "initialValues.valueStep", "known field", "did you mean 'valueSta", "2"),
    ),
    case(
        "constant-and-sequence",
        put(VALUES, {"valueCount": 9, "value": 0, "valueStart": 0, "valueDelta": 1}),
        *(IN, "initialValues", "value, or valueStart", "both"),
    ),
    case(
        "constant-unknown",
        put("resources/output/initialValues", {"valueCounts": 3, "valueCount": 3, "value": 0}),
        *(OUT, "initialValues.valueCounts", "known field", "did you mean 'valueCount'", "3"),
    ),
    case("no-count", sequence(valueCount=...), IN, "initialValues.valueCount", "given", "nothing"),
    case("no-delta", sequence(valueDelta=...), IN, "initialValues.valueDelta", "given", "nothing"),
    case("count-0", sequence(valueCount=0), IN, "initialValues.valueCount", "[1, ", "got 0"),
    case("count-negative", sequence(valueCount=-1), IN, "valueCount", "[1, ", "got -1"),
    case("count-1e15", sequence(valueCount=10**15), IN, "valueCount", "4294967295", f"{10**15}"),
    case(
        "count-float", sequence(valueCount=1e15), IN, "valueCount", "integer", "1000000000000000.0"
    ),
    case("count-huge", sequence(valueCount=10**400), IN, "valueCount", "4294967295", "1000000"),
    case("count-text", sequence(valueCount="9"), IN, "valueCount", "integer", "'9'"),
    case("count-true", sequence(valueCount=True), IN, "valueCount", "integer", "true"),
    case("memory", many_large, "Resource 'large", "size", "fit", "34359738360"),
    case(
        "memory-by-size",
        put("resources/input/sizeInBytes", 2**63),
        *(IN, "size", "fit", f"{2**63}"),
    ),
    case("memory-most", put("resources/input/sizeInBytes", 2**64 - 1), IN, "size", "fit"),
    case("start-text", sequence(valueStart="one"), IN, "valueStart", "number", "'one'"),
    case("start-list", sequence(valueStart=[1]), IN, "valueStart", "number", "[1]"),
    case("start-null", sequence(valueStart=None), IN, "valueStart", "number", "null"),
    case("type-unknown", typed("FLOAT23"), IN, "initialValuesDataType", "FLOAT32'?", "'FLOAT23'"),
    case("type-number", typed(1), IN, "initialValuesDataType", "one of", "got 1"),
    case("type-list", typed(["FLOAT32"]), IN, "initialValuesDataType", "one of", '["FLOAT32"]'),
    case("type-none", typed("UNKNOWN"), IN, "come with an initialValuesDataType", "nothing"),
    case("type-4-bits", typed("UINT4"), IN, "initialValuesDataType", "whole bytes", "UINT4"),
    case("type-left-out", drop("resources/input/initialValuesDataType"), IN, "DataType", "nothing"),
    case(
        "size-too-small", put("resources/input/sizeInBytes", 35), IN, "sizeInBytes", "36", "got 35"
    ),
    case("size-0", put("resources/input/sizeInBytes", 0), IN, "sizeInBytes", "[1, ", "got 0"),
    case(
        "size-float", put("resources/input/sizeInBytes", 64.0), IN, "sizeInBytes", "integer", "64.0"
    ),
    case("size-huge", put("resources/input/sizeInBytes", 2**64), IN, "sizeInBytes", f"{2**64}"),
    case(
        "offset-beyond",
        both(
            put("resources/input/sizeInBytes", 40),
            put("resources/input/initialValuesOffsetInBytes", 8),
        ),
        *(IN, "sizeInBytes", "at least 44", "got 40"),
    ),
    case(
        "offset-negative",
        put("resources/input/initialValuesOffsetInBytes", -4),
        *(IN, "initialValuesOffsetInBytes", "[0, ", "got -4"),
    ),
    case("uint8-256", typed("UINT8", [1, 256]), IN, "initialValues[1]", "[0, 255]", "256"),
    case("uint8-negative", typed("UINT8", [-1]), IN, "initialValues[0]", "[0, 255]", "-1"),
    case("int8-fraction", typed("INT8", [1.5]), IN, "initialValues[0]", "integer", "1.5"),
    case("int32-nan", typed("INT32", ["nan"]), IN, "initialValues[0]", "integer", "'nan'"),
    case("uint64-huge", typed("UINT64", [2**64]), IN, "initialValues[0]", f"{2**64}"),
    case("float16-huge", typed("FLOAT16", [65520]), IN, "initialValues[0]", "FLOAT16", "65520"),
    case("float32-huge", typed("FLOAT32", [1, -1e39]), IN, "initialValues[1]", "FLOAT32", "-1e+39"),
    case("float64-huge", typed("FLOAT64", [10**400]), IN, "initialValues[0]", "FLOAT64", "1000000"),
    case("float32-true", typed("FLOAT32", [True]), IN, "initialValues[0]", "number", "true"),
    case("float32-nested", typed("FLOAT32", [[1]]), IN, "initialValues[0]", "number", "[1]"),
    case("all-values", typed("INT8", [1, "x", 200]), IN, "initialValues[2]", "127", "200", lines=2),
    case("untyped-numbers", typed("UNKNOWN", [1]), IN, "with an initialValuesDataType", "nothing"),
    case(
        "list-no-type",
        typed("UNKNOWN", [{"name": "a", "value": 1}]),
        *(IN, "initialValues[0].type", "given", "nothing"),
    ),
    case(
        "list-no-value",
        typed("UNKNOWN", [{"type": "INT32"}]),
        *(IN, "initialValues[0].value", "given", "nothing"),
    ),
    case(
        "list-type",
        typed("UNKNOWN", [{"type": "FLOAT", "value": 1}]),
        *(IN, "initialValues[0].type", "FLOAT32", "'FLOAT'"),
    ),
    case(
        "list-value",
        typed("UNKNOWN", [{"type": "UINT16", "value": 65536}]),
        *(IN, "initialValues[0].value", "[0, 65535]", "65536"),
    ),
    case(
        "list-unknown",
        typed("UNKNOWN", [{"type": "UINT16", "value": 1, "nam": "n"}]),
        *(IN, "initialValues[0].nam", "did you mean 'name'", "'n'"),
    ),
]

FLOATS = npy(np.arange(9, dtype=np.float32))
FILES = [
    case("file-missing", from_path("no.npy"), IN, "initialValues.sourcePath", "exist", "'no.npy'"),
    case("file-number", put(VALUES, {"sourcePath": 5}), IN, "sourcePath", "string", "5"),
    case("file-empty-name", from_path(""), IN, "sourcePath", "file", "''"),
    case("file-nul-name", from_path("a\0b.npy"), IN, "sourcePath", "a\\x00b.npy"),
    case("file-long-name", from_path("n" * 5000 + ".npy"), IN, "sourcePath", "'nnnn"),
    case("file-folder", folder_as_source, IN, "sourcePath", "file", "'weights.npy'"),
    case("file-pipe", pipe_as_source, IN, "sourcePath", "file", "'weights.bin'"),
    case("file-device", from_path("/dev/zero"), IN, "sourcePath", "file", "'/dev/zero'"),
    case(
        "file-unknown",
        put(VALUES, {"sourcePath": "a.npy", "sourcepath": "a.npy"}),
        *(IN, "initialValues.sourcepath", "did you mean 'sourcePath'", "'a.npy'"),
    ),
    case("npy-truncated", source("w.npy", FLOATS[:-4]), IN, "sourcePath 'w.npy'", "readable .npy"),
    case("npy-header-cut", source("w.npy", FLOATS[:20]), IN, "sourcePath 'w.npy'", "readable .npy"),
    case("npy-empty", source("w.npy", b""), IN, "sourcePath 'w.npy'", "readable .npy"),
    case("npy-text", source("w.npy", b"1 2 3\n" * 9), IN, "sourcePath 'w.npy'", "readable .npy"),
    case("npz", source("w.npz", npz()), IN, "initialValues.sourcePath", "end in .npy", "w.npz"),
    case("npy-is-npz", source("w.npy", npz()), IN, "sourcePath 'w.npy'", "readable .npy"),
    case(
        "npy-objects",
        source("w.npy", npy(np.array([{}, None]), pickled=True)),
        *(IN, "sourcePath 'w.npy'", "readable .npy", "bject"),
    ),
    case(
        "npy-1e15",
        source("w.npy", npy_header("(1000000000000000,)")),
        *(IN, "sourcePath 'w.npy'", "readable .npy"),
    ),
    case(
        "npy-1e30",
        source("w.npy", npy_header(f"({10**15}, {10**15})")),
        *(IN, "sourcePath 'w.npy'", "readable .npy"),
    ),
    case(
        "npy-1e40",
        source("w.npy", npy_header(f"({10**40},)")),
        *(IN, "sourcePath 'w.npy'", "readable .npy"),
    ),
    case("npy-negative", source("w.npy", npy_header("(-2,)")), IN, "sourcePath 'w.npy'"),
    case(
        "npy-complex",
        source("w.npy", npy(np.zeros(4, np.complex64))),
        *(IN, "sourcePath 'w.npy'", "DirectML has", "complex64"),
    ),
    case(
        "npy-text-dtype",
        source("w.npy", npy(np.array(["abc"]))),
        *(IN, "sourcePath 'w.npy'", "DirectML has", "str"),
    ),
    case(
        "npy-fields",
        source("w.npy", npy(np.zeros(2, [("a", "<f4"), ("b", "<i4")]))),
        *(IN, "sourcePath 'w.npy'", "DirectML has"),
    ),
    case(
        "npy-other-type",
        source("w.npy", npy(np.arange(9)), "FLOAT32"),
        *(IN, "sourcePath 'w.npy'", "FLOAT32", "initialValuesDataType", "INT64"),
    ),
    case(
        "npy-no-elements",
        source("w.npy", npy(np.zeros((0, 3), np.float32))),
        *(IN, "sourcePath 'w.npy'", "at least 1", "[0, 3]"),
    ),
    case("raw-size", source("w.bin", b"12345"), IN, "sourcePath 'w.bin'", "4 bytes", "5"),
    case("raw-empty", source("w.dat", b""), IN, "sourcePath 'w.dat'", "positive", "0"),
    case(
        "raw-untyped", source("w.dat", b"1234", "UNKNOWN"), IN, "initialValuesDataType", "nothing"
    ),
    case("png-corrupt", source("p.png", b"not a picture", "UINT8"), IN, "sourcePath 'p.png'"),
    case("png-empty", source("p.png", b"", "UINT8"), IN, "sourcePath 'p.png'", "readable .png"),
    case(
        "png-truncated",
        source("p.png", picture("PNG")[:600], "UINT8"),
        *(IN, "sourcePath 'p.png'", "readable"),
    ),
    case(
        "jpg-truncated",
        source("p.jpg", picture("JPEG")[:-2000], "UINT8"),
        *(IN, "sourcePath 'p.jpg'", "readable"),
    ),
    case(
        "jpg-corrupt",
        source("p.jpg", b"\xff\xd8\xff\xe0" + bytes(50), "UINT8"),
        *(IN, "sourcePath 'p.jpg'", "readable"),
    ),
    case(
        "png-10-gigapixels",
        source("p.png", png_header(100_000, 100_000), "UINT8"),
        *(IN, "sourcePath 'p.png'", "readable .png"),
    ),
    case(
        "png-100-megapixels",
        source("p.png", png_header(10_000, 10_000), "UINT8"),
        *(IN, "sourcePath 'p.png'", "at most 89478485 pixels"),
    ),
    case(
        "picture-type",
        source("p.png", picture("PNG"), "INT32"),
        *(IN, "sourcePath 'p.png'", "UINT8", "got INT32"),
    ),
    case(
        "picture-untyped",
        source("p.png", picture("PNG"), "UNKNOWN"),
        *(IN, "sourcePath 'p.png'", "initialValuesDataType", "got UNKNOWN"),
    ),
    case(
        "resample-channels",
        both(source("p.png", picture("PNG")), put("resources/input/resampleSize", [1, 2, 8, 8])),
        *(IN, "resampleSize", "1, 3 or 4 channels", "[1, 2, 8, 8]"),
    ),
    case(
        "resample-inside",
        put(VALUES, {"sourcePath": "p.png", "resampleSize": [1, 3, 8, 8]}),
        *(IN, "initialValues.resampleSize", "outside of the braces", "[1, 3, 8, 8]"),
    ),
    case(
        "resample-rank",
        both(source("p.png", picture("PNG")), put("resources/input/resampleSize", [8, 8])),
        *(IN, "resampleSize", "[1, C, H, W]", "[8, 8]"),
    ),
    case(
        "resample-0",
        both(source("p.png", picture("PNG")), put("resources/input/resampleSize", [1, 3, 0, 8])),
        *(IN, "resampleSize[2]", "[1, ", "0"),
    ),
    case(
        "resample-huge",
        both(
            source("p.png", picture("PNG")),
            put("resources/input/resampleSize", [1, 3, 2**32 - 1, 2**32 - 1]),
        ),
        *(IN, "size", "fit"),
    ),
    case(
        "resample-mode",
        both(source("p.png", picture("PNG")), put("resources/input/resampleMode", "crop")),
        *(IN, "resampleMode", "scale", "'crop'"),
    ),
]

DISPATCHABLES = [
    case(
        "operator-unknown",
        put("dispatchables/sum/type", "REDUSE"),
        *(SUM, "type", "did you mean 'REDUCE'", "'REDUSE'"),
    ),
    case("operator-number", put("dispatchables/sum/type", 5), SUM, "ype", "name", "got 5"),
    case("operator-missing", drop("dispatchables/sum/type"), SUM, "ype", "nothing"),
    case("desc-missing", drop("dispatchables/sum/desc"), SUM, X, "given", "nothing", lines=4),
    case("desc-list", put("dispatchables/sum/desc", []), SUM, "REDUCE", "object", "[]"),
    case(
        "dispatchable-unknown",
        put("dispatchables/sum/binding", {}),
        *(SUM, "binding", "known field", "did you mean 'bindings'", "{}"),
    ),
    case(
        "hlsl",
        put("dispatchables/sum", {"type": "hlsl", "sourcePath": "a.hlsl", "compiler": "dxc"}),
        *(SUM, "type", "HLSL", "'hlsl'"),
    ),
    case(
        "onnx",
        put("dispatchables/sum", {"type": "onnx", "sourcePath": "a.onnx"}),
        *(SUM, "sourcePath 'a.onnx'", "exist"),
    ),
    case(
        "serialized-graph",
        put("dispatchables/sum", {"type": "dmlSerializedGraph", "sourcePath": "a.bin"}),
        *(SUM, "sourcePath 'a.bin'", "exist"),
    ),
    case(
        "execution-flags",
        put("dispatchables/sum/executionFlags", ["DML_EXECUTION_FLAG_FAST"]),
        *(SUM, "executionFlags", "DISABLE_META_COMMANDS", "FAST"),
    ),
    case(
        "compile-type",
        put("dispatchables/sum/dmlCompileType", "DmlCompileAll"),
        *(SUM, "dmlCompileType", "DmlCompileGraph", "'DmlCompileAll'"),
    ),
    case(
        "desc-unknown",
        described("REDUCE", Axis=3),
        *(SUM, "REDUCE", "Axis", "did you mean 'Axes'", "got 3"),
    ),
    case("tensor-null", described("REDUCE", InputTensor=None), SUM, X, "object", "null"),
    case("tensor-text", described("REDUCE", InputTensor="x"), SUM, X, "object", "'x'"),
    case("tensor-missing", described("REDUCE", InputTensor=...), SUM, X, "given", "nothing"),
]

TENSORS = [
    case(
        "tensor-unknown",
        reduced(Stride=[9, 9, 3, 1]),
        *(SUM, f"{X}.Stride", "did you mean 'Strides'", "[9, 9, 3, 1]"),
    ),
    case("data-type-missing", reduced(DataType=...), SUM, f"{X}.DataType", "given", "nothing"),
    case(
        "data-type",
        reduced(DataType="FLAOT32"),
        *(SUM, f"{X}.DataType", "did you mean 'FLOAT32'", "'FLAOT32'"),
    ),
    case("sizes-true", reduced(Sizes=[1, True, 3, 3]), SUM, f"{X}.Sizes", "integer", "true"),
    case("dimension-count", reduced(DimensionCount=3), SUM, f"{X}.DimensionCount", "be 4", "got 3"),
    case(
        "dimension-count-true",
        described(
            "REDUCE",
            Axes=[0],
            InputTensor=tensor([9], DimensionCount=True),
            OutputTensor=tensor([1]),
        ),
        *(SUM, f"{X}.DimensionCount", "got true"),
    ),
    case(
        "total-false",
        reduced(TotalTensorSizeInBytes=False),
        *(SUM, f"{X}.TotalTensorSizeInBytes", "UINT64", "false"),
    ),
    case("flags-number", reduced(Flags=1), SUM, f"{X}.Flags", "OWNED_BY_DML", "got 1"),
    case("tensor-type", reduced(Type="TEXTURE"), SUM, f"{X}.Type", "BUFFER", "'TEXTURE'"),
    case(
        "beside-desc",
        described(
            "REDUCE", InputTensor={"Type": "BUFFER", "Flags": "NONE", "Desc": tensor([1, 1, 3, 3])}
        ),
        *(SUM, f"{X}.Flags", "inside Desc", "'NONE'"),
    ),
]

A, B = tensor([1, 1, 2, 1]), tensor([1, 1, 2, 3])
OPERATORS = [
    case("split-axis", described("SPLIT", Axis=4), "SPLIT", "Axis", "[0, 3]", "got 4"),
    case("split-axis-negative", described("SPLIT", Axis=-1), "SPLIT", "Axis", "(-1 is 3 there)"),
    case(
        "split-other-size",
        described("SPLIT", OutputTensors=[A, tensor([1, 1, 5, 3])]),
        *(SUM, "SPLIT", "OutputTensors[1].Sizes[2]", "be 2", "got 5"),
    ),
    case(
        "split-none", described("SPLIT", OutputCount=..., OutputTensors=[]), "SPLIT", "1", "got 0"
    ),
    case("split-count", described("SPLIT", OutputCount=3), "SPLIT", "OutputCount", "be 2", "got 3"),
    case(
        "split-not-a-list",
        described("SPLIT", OutputCount=..., OutputTensors=A),
        *(SUM, "SPLIT", "OutputTensors", "list", '"DataType"'),
    ),
    case(
        "space-order",
        described("DEPTH_TO_SPACE1", Order="COLUMN_DEPTH_ROW"),
        *(SUM, "DEPTH_TO_SPACE1", "Order", "did you mean", "'COLUMN_DEPTH_ROW'"),
    ),
    case(
        "space-order-missing",
        described("DEPTH_TO_SPACE1", Order=...),
        *(SUM, "DEPTH_TO_SPACE1", "Order", "given", "nothing"),
    ),
    case("clip-text", described("ELEMENT_WISE_CLIP", Max="2"), "CLIP", "Max", "number", "'2'"),
    case("clip-10^400", described("ELEMENT_WISE_CLIP", Max=10**400), "CLIP", "Max", "10000"),
    case("clip-null", described("ELEMENT_WISE_CLIP", Max=None), "CLIP", "Max", "number", "null"),
    case(
        "clip-scale-bias",
        described("ELEMENT_WISE_CLIP", ScaleBias={"Scale": 2}),
        *(SUM, "CLIP", "ScaleBias.Bias", "given", "nothing"),
    ),
    case(
        "clip-scale-bias-unknown",
        described("ELEMENT_WISE_CLIP", ScaleBias={"Scale": 2, "Bias": 1, "Bais": 1}),
        *(SUM, "CLIP", "ScaleBias.Bais", "did you mean 'Bias'", "got 1"),
    ),
    case(
        "reduce-function",
        described("REDUCE", Function="DML_REDUCE_FUNCTION_SUMM"),
        *(SUM, "REDUCE", "Function", "did you mean 'SUM'", "SUMM'"),
    ),
    case("reduce-count", described("REDUCE", AxisCount=2), "REDUCE", "AxisCount", "be 1", "got 2"),
    case("reduce-count-true", described("REDUCE", AxisCount=True), "AxisCount", "got true"),
    case("reduce-fraction", described("REDUCE", Axes=[1.5]), "Axes[0]", "integer", "got 1.5"),
    case(
        "feature-level",
        bound("DEPTH_TO_SPACE1", {X: at(0), Y: at(16)}),
        *(SUM, "DEPTH_TO_SPACE1", "feature level", "2_1", "1_0"),
        args=("--feature-level", "1_0"),
    ),
    case("adapter", put("commands", []), "no device matches 'warp'", "cpu:0", args=("-a", "warp")),
]

CLIP, SPLIT = "ELEMENT_WISE_CLIP", "SPLIT"
BINDINGS = [
    case(
        "bound-unknown-tensor",
        put("commands/0/bindings", {"InputTensors": "input", X: "input", Y: "output"}),
        *(DISPATCH, "sum", "bindings", "did you mean 'InputTensor'", "'InputTensors'"),
    ),
    case(
        "bound-unknown-resource",
        put("commands/0/bindings", {X: "inptu", Y: "output"}),
        *(DISPATCH, "sum", X, "did you mean 'input'", "'inptu'"),
    ),
    case(
        "bound-missing", put("commands/0/bindings", {X: "input"}), DISPATCH, Y, "bound", "nothing"
    ),
    case("bound-nothing", drop("commands/0/bindings"), DISPATCH, X, "bound", "nothing", lines=2),
    case(
        "bound-two",
        put("commands/0/bindings", {X: ["input", "input"], Y: "output"}),
        *(DISPATCH, X, "1 resource", "got 2"),
    ),
    case(
        "bound-no-sources",
        put("commands/0/bindings", {X: [], Y: "output"}),
        *(DISPATCH, X, "1 resource", "got 0"),
    ),
    case(
        "bound-too-few",
        bound(SPLIT, {X: at(0), "OutputTensors": [at(16)]}),
        *(DISPATCH, "OutputTensors", "2 resources", "got 1"),
    ),
    case("bindings-list", put("commands/0/bindings", []), DISPATCH, "bindings", "object", "[]"),
    case(
        "binding-number",
        put("commands/0/bindings", {X: 5, Y: "output"}),
        *(DISPATCH, f"bindings.{X}", "name", "got 5"),
    ),
    case(
        "binding-unnamed",
        put("commands/0/bindings", {X: {"elementOffset": 0}, Y: "output"}),
        *(DISPATCH, f"bindings.{X}.name", "given", "nothing"),
    ),
    case(
        "binding-unknown",
        put("commands/0/bindings", {X: {"name": "input", "elementOfset": 0}, Y: "output"}),
        *(DISPATCH, f"bindings.{X}.elementOfset", "did you mean 'elementOffset'", "got 0"),
    ),
    case(
        "binding-in-list",
        put("commands/0/bindings", {X: [{"name": 7}], Y: "output"}),
        *(DISPATCH, f"bindings.{X}[0].name", "string", "got 7"),
    ),
    case(
        "binding-at-dispatchable",
        put("dispatchables/sum/bindings", {X: {"name": "input", "elementOffset": -1}}),
        *(SUM, f"bindings.{X}.elementOffset", "[0, ", "got -1"),
    ),
    case(
        "dispatchable-binds-unknown",
        put("dispatchables/sum/bindings", {"Tensor": "input"}),
        *(DISPATCH, "bindings", "name tensors", "'Tensor'"),
    ),
    case(
        "too-small",
        put("commands/0/bindings", {X: "output", Y: "input"}),
        *(DISPATCH, X, "at least 36 bytes", "12 bytes of 'output'"),
    ),
    case(
        "too-small-from-offset",
        bound(CLIP, {X: at(64), Y: "input"}),
        *(DISPATCH, X, "at least 16 bytes", "0 bytes of 'input'"),
    ),
    case(
        "offset-2^64",
        bound(CLIP, {X: at(2**64 - 4), Y: "input"}),
        *(DISPATCH, X, "at least 16 bytes", "0 bytes of 'input'"),
    ),
    case(
        "count-too-small",
        bound(CLIP, {X: at(0, elementCount=3), Y: at(16)}),
        *(DISPATCH, X, "at least 16 bytes", "12 bytes of 'input'"),
    ),
    case(
        "count-beyond",
        bound(CLIP, {X: at(60, elementCount=5), Y: at(16)}),
        *(DISPATCH, X, "256 bytes of 'input'", "260"),
    ),
    case(
        "misaligned",
        bound(CLIP, {X: at(2), Y: at(16)}),
        *(DISPATCH, X, "multiple of 16 bytes", "byte 8"),
    ),
    case(
        "misaligned-as-guaranteed",
        bound(
            CLIP,
            {X: at(4), Y: at(16)},
            InputTensor=tensor([1, 1, 2, 2], GuaranteedBaseOffsetAlignment=64),
        ),
        *(DISPATCH, X, "multiple of 64 bytes", "byte 16"),
    ),
    case(
        "outputs-overlap",
        bound(SPLIT, {X: at(0), "OutputTensors": [at(16), at(16)]}),
        *(DISPATCH, "OutputTensors[1]", "overlap OutputTensors[0]", "'input'", "64"),
    ),
    case(
        "in-place-but-shifted",
        bound(
            CLIP,
            {X: at(0), Y: at(4)},
            InputTensor=tensor([1, 1, 2, 4]),
            OutputTensor=tensor([1, 1, 2, 4]),
        ),
        *(DISPATCH, Y, "exactly", X, "bytes 16 and 0"),
    ),
    case(
        "not-in-place",
        bound("TILE", {X: "input", Y: "input"}),
        *(DISPATCH, "TILE", Y, "overlap InputTensor", "in place", "'input'"),
    ),
    case(
        "not-in-place-reduce",
        put("commands/0/bindings", {X: "input", Y: "input"}),
        *(DISPATCH, "REDUCE", Y, "overlap InputTensor", "in place", "'input'"),
    ),
    case(
        "owned-at-dispatch",
        reduced(Flags="OWNED_BY_DML"),
        *(DISPATCH, X, "dispatchable", "OWNED_BY_DML", "dispatch"),
    ),
    case(
        "owned-unbound",
        both(reduced(Flags="OWNED_BY_DML"), drop("commands/0/bindings/InputTensor")),
        *(DISPATCH, X, "bound", "nothing"),
    ),
    case(
        "offset-of-untyped",
        both(
            typed("UNKNOWN", [{"type": "FLOAT32", "value": 1}] * 9),
            put("commands/0/bindings", {X: at(4), Y: "output"}),
        ),
        *(DISPATCH, X, "elementSizeInBytes", "UNKNOWN"),
    ),
]

COMMANDS = [
    case(
        "never-dispatched",
        both(
            put("commands/0", {"type": "print", "resource": "output"}),
            put("dispatchables/sum/bindings", {X: "inptu"}),
        ),
        *("Dispatchable 'sum'", "REDUCE", X, "resource of the model", "did you mean 'input'"),
    ),
    case(
        "npy-of-half-elements",
        put("resources/output/sizeInBytes", 18),
        *("Command 2", "'output' sizeInBytes", "multiple of 4", "18"),
    ),
    case("command-type", put("commands/1/type", "prnt"), PRINT, "type", "did you mean 'print'"),
    case("command-untyped", drop("commands/1/type"), PRINT, "type", "dispatch", "nothing"),
    case("command-type-list", put("commands/1/type", ["print"]), PRINT, "type", '["print"]'),
    case(
        "dispatch-unknown",
        put("commands/0/dispatchable", "sums"),
        *(DISPATCH, "dispatchable", "did you mean 'sum'", "'sums'"),
    ),
    case("dispatch-nothing", drop("commands/0/dispatchable"), DISPATCH, "dispatchable", "nothing"),
    case(
        "dispatch-field",
        put("commands/0/dispatchables", "sum"),
        *(DISPATCH, "dispatchables", "did you mean 'dispatchable'", "'sum'"),
    ),
    case(
        "print-unknown",
        put("commands/1/resource", "outptu"),
        *(PRINT, "resource", "did you mean 'output'", "'outptu'"),
    ),
    case("print-number", put("commands/1/resource", 3), PRINT, "resource", "string", "got 3"),
    case(
        "print-field",
        put("commands/1/verbos", True),
        *(PRINT, "verbos", "did you mean 'verbose'", "true"),
    ),
    case("print-verbose", put("commands/1/verbose", 1), PRINT, "verbose", "true or false", "got 1"),
    case(
        "write-field",
        rename("commands/2/targetPath", "targetpath"),
        *(WRITE, "targetpath", "did you mean 'targetPath'", "sums.npy'"),
        lines=2,
    ),
    case("write-number", put("commands/2/targetPath", 3), WRITE, "targetPath", "string", "got 3"),
    case("write-no-name", put("commands/2/targetPath", ""), WRITE, "targetPath", "file", "''"),
    case(
        "write-nul-name",
        put("commands/2/targetPath", "a\0b.npy"),
        *("targetPath", "a\\x00b.npy"),
    ),
    case("write-unknown", put("commands/2/resource", "x"), WRITE, "resource", "resources", "'x'"),
    case(
        "write-dimensions",
        put("commands/2/dimensions", [2, 2]),
        *(WRITE, "dimensions", "at most 3 elements", "'output'", "[2, 2]"),
    ),
    case(
        "write-dimension-0",
        put("commands/2/dimensions", [0, 3]),
        *(WRITE, "dimensions[0]", "[1, ", "got 0"),
    ),
    case(
        "write-dimensions-text",
        put("commands/2/dimensions", "3"),
        *(WRITE, "dimensions", "list", "'3'"),
    ),
    case("write-bmp", put("commands/2/targetPath", "p.BMP"), WRITE, "targetPath", ".npy", "p.BMP"),
    case(
        "write-picture-without-dimensions",
        put("commands/2/targetPath", "p.png"),
        *(WRITE, "dimensions", "[1, C, H, W]", "nothing"),
    ),
    case(
        "write-picture-channels",
        both(put("commands/2/targetPath", "p.jpg"), put("commands/2/dimensions", [1, 2, 1, 1])),
        *(WRITE, "dimensions", "1, 3 or 4 channels", "[1, 2, 1, 1]"),
    ),
    case(
        "write-picture-count",
        both(put("commands/2/targetPath", "p.png"), put("commands/2/dimensions", [1, 3, 2, 1])),
        *(WRITE, "dimensions", "3 elements", "[1, 3, 2, 1]"),
    ),
    case(
        "write-picture-type",
        both(
            put("resources/output/initialValuesDataType", "INT32"),
            put("commands/2/targetPath", "p.png"),
            put("commands/2/dimensions", [1, 3, 1, 1]),
        ),
        *(WRITE, "'output'", "UINT8", "INT32"),
    ),
    case(
        "write-untyped",
        both(
            typed("UNKNOWN", [{"type": "FLOAT32", "value": 1}] * 9),
            put("commands/2/resource", "input"),
        ),
        *(WRITE, "'input'", "type", ".npy", "UNKNOWN"),
    ),
    case(
        "write-too-many-dimensions",
        put("commands/2/dimensions", [1] * 70 + [3]),
        *("dimensions", "[1, 1, 1"),
    ),
    case(
        "write-picture-too-wide",
        both(
            put("resources/output/initialValues/valueCount", 70000),
            put("commands/2/targetPath", "p.jpg"),
            put("commands/2/dimensions", [1, 1, 1, 70000]),
        ),
        *("'output'", "p.jpg"),
    ),
    case("write-below-a-file", file_as_folder, OUT, "targetPath", "written", "plain"),
    case("write-onto-a-folder", folder_as_target, OUT, "targetPath", "written", "taken.npy"),
]

CASES = [*TEXTS, *TOP, *RESOURCES, *FILES, *DISPATCHABLES, *TENSORS, *OPERATORS]
CASES += [*BINDINGS, *COMMANDS]


def contents(folder: Path) -> dict[str, bytes | None]:
    """All that lies in a folder; the bytes of what are files."""
    paths = sorted(folder.rglob("*"))
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in paths}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The model's folder; the current directory is an empty one beside it."""
    (tmp_path / "model").mkdir()
    (tmp_path / "current").mkdir()
    monkeypatch.chdir(tmp_path / "current")
    return tmp_path / "model"


def invoke(path: Path, *args: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of a run, which ends with a status whatever happens."""
    result = CliRunner().invoke(cli, ["run", str(path), *args])
    if not isinstance(result.exception, (SystemExit, type(None))):
        raise AssertionError(f"escaped: {result.exception!r}") from result.exception
    return result.exit_code, result.stdout, result.stderr


def test_the_unbroken_model_runs(folder: Path):
    path = folder / "model.json"
    path.write_text(json.dumps(BASE))
    status, out, err = invoke(path)
    assert (status, err) == (0, "")
    assert "Resource 'output': 6, 15, 24" in out.splitlines()
    assert np.load("written/sums.npy").tolist() == [6, 15, 24]


@pytest.mark.parametrize("broken", [pytest.param(c, id=c.name) for c in CASES])
def test_refused(broken: Case, folder: Path):
    model = copy.deepcopy(BASE)
    replaced = broken.edit(model, folder)
    path = folder / "model.json"
    path.write_bytes(json.dumps(model).encode() if replaced is None else replaced)
    before = contents(folder.parent)
    start = time.monotonic()
    status, out, err = invoke(path, *broken.args)
    assert time.monotonic() - start < 10
    assert status == 1, out + err
    assert "Traceback" not in out + err
    lines = err.splitlines()
    assert any(all(f in line for f in broken.fragments) for line in lines), err
    assert len(lines) == broken.lines, err
    assert max(map(len, lines)) < 1000
    assert contents(folder.parent) == before


def test_all_mistakes_are_reported_at_once(folder: Path):
    model = copy.deepcopy(BASE)
    for edit in (
        put("resources/input/initialValues/valueCount", 0),
        put("resources/output/initialValuesDataType", "FLOAT23"),
        put("dispatchables/sum/desc/Axes", [7]),
        put("dispatchables/sum/desc/OutputTensor/Sizes", [1, 1, 3]),
        put("commands/1/resource", "outptu"),
        put("commands/2/targetPath", 1),
    ):
        edit(model, folder)
    path = folder / "model.json"
    path.write_text(json.dumps(model))
    status, _, err = invoke(path)
    assert status == 1
    lines = err.splitlines()
    places = ("valueCount", "initialValuesDataType", "Axes[0]", "Command 1", "Command 2")
    for place in places:
        assert sum(place in line for line in lines) == 1, (place, err)
    # The dispatch of what could not be described is not reported as well.
    assert not any("Command 0" in line for line in lines)


def test_a_missing_definition_is_not_reported_where_it_is_used(folder: Path):
    model = copy.deepcopy(BASE)
    model["resources"]["input"]["initialValues"] = []
    with pytest.raises(DmlError) as caught:
        path = folder / "model.json"
        path.write_text(json.dumps(model))
        load_model(path)
    assert [fault.context for fault in caught.value.faults] == [("Resource 'input'",)]


@pytest.mark.parametrize(
    ("name", "fragment"),
    [("missing.json", "No such file"), ("folder.json", "got a folder (`dml-jax check ")],
)
def test_no_model_at_the_path(name: str, fragment: str, folder: Path):
    (folder / "folder.json").mkdir()
    status, out, err = invoke(folder / name)
    assert (status, out) == (1, "")
    assert name in err
    assert fragment in err


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "below/model.json/x", "n" * 5000])
def test_no_model_at_a_strange_path(path: str, folder: Path):
    status, out, err = invoke(Path(path))
    assert (status, out) == (1, "")
    assert path[:40] in err
    assert "readable JSON file" in err


@pytest.mark.parametrize(
    ("args", "fragments"),
    [
        (["--feature-level", "9_9"], ("--feature-level", "6_4", "9_9")),
        (["--feature-level", ""], ("--feature-level", "6_4")),
        (["-i", "0"], ("dispatch_iterations", "0")),
        (["-r", "-1"], ("dispatch_repeat", "-1")),
        (["-t", "-1"], ("milliseconds_to_run", "-1")),
        (["-I", "x"], ("dispatch_interval", "x")),
        (["-I", "1e20"], ("dispatch_interval", "1e+20")),
        (["-v", "-1"], ("timing_verbosity", "-1")),
        (["--nonsense"], ("--nonsense",)),
    ],
)
def test_wrong_options(args: list[str], fragments: tuple[str, ...], folder: Path):
    path = folder / "model.json"
    path.write_text(json.dumps(BASE))
    status, out, err = invoke(path, *args)
    assert (status, out) == (2, "")
    for fragment in fragments:
        assert fragment in err


def test_no_model_is_wrong_usage():
    result = CliRunner().invoke(cli, ["run"])
    assert result.exit_code == 2
    assert "MODEL" in result.stderr


def test_an_unknown_verb_is_wrong_usage():
    result = CliRunner().invoke(cli, ["rnu", "model.json"])
    assert result.exit_code == 2
    assert "'run'" in result.stderr


@pytest.mark.parametrize("depth", range(930, 1001, 7))
def test_nesting_about_as_deep_as_allowed(depth: int, folder: Path):
    """What can just be parsed can be shown as well."""
    path = folder / "model.json"
    path.write_text('{"extra": ' + "[" * depth + "]" * depth + "}")
    status, _, err = invoke(path)
    assert status == 1
    assert "extra" in err or "nesting" in err


@pytest.mark.parametrize("digits", [400, 4000, 5000])
@pytest.mark.parametrize(
    "place",
    [
        "resources/input/sizeInBytes",
        "resources/input/initialValues/valueCount",
        "resources/input/initialValues/valueStart",
        "dispatchables/sum/desc/Axes/0",
        "dispatchables/sum/desc/AxisCount",
        "dispatchables/sum/desc/InputTensor/Sizes/2",
        "dispatchables/sum/desc/InputTensor/TotalTensorSizeInBytes",
        "dispatchables/sum/desc/InputTensor/GuaranteedBaseOffsetAlignment",
        "commands/1/verbose",
        "extra",
    ],
)
def test_numbers_of_many_digits(place: str, digits: int, folder: Path):
    model = copy.deepcopy(BASE)
    put(place, "NUMBER")(model, folder)
    path = folder / "model.json"
    path.write_text(json.dumps(model).replace('"NUMBER"', "7" * digits))
    status, _, err = invoke(path)
    assert status == 1
    assert place.rsplit("/", 1)[-1] in err or "7777" in err or "JSON" in err
    assert max(map(len, err.splitlines())) < 1000


def replacements(value: Any) -> list[Any]:
    """Values of every JSON type, and of the kinds that a field of this value may mistake."""
    return [
        v for v in (None, True, 0, -1, 1.5, 2**70, "", "x", [], {}, [[]], {"a": 1}) if v != value
    ]


def places(value: Any, path: str = "") -> list[str]:
    """The path of every value inside another."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found: list[str] = []
    for key, item in items:
        found.append(f"{path}{key}")
        if isinstance(item, (dict, list)):
            found += places(item, f"{path}{key}/")
    return found


def at_place(model: Json, path: str) -> Any:
    found: Any = model
    for key in path.split("/"):
        found = found[int(key) if key.isdigit() else key]
    return found


@pytest.mark.parametrize("operator", ["REDUCE", "SPLIT"])
def test_any_value_of_another_type_is_refused_or_taken(operator: str, folder: Path):
    """Every value of a model in turn becomes every other JSON value: only DmlError escapes."""
    base = copy.deepcopy(BASE)
    described(operator)(base, folder)
    base["dispatchables"]["sum"]["executionFlags"] = ["NONE"]
    base["dispatchables"]["sum"]["bindings"] = {X: [{"name": "input", "elementOffset": 0}]}
    path = folder / "model.json"
    for place in places(base):
        for value in replacements(at_place(base, place)):
            model = copy.deepcopy(base)
            put(place, value)(model, folder)
            path.write_text(json.dumps(model))
            try:
                load_model(path)
            except DmlError as error:
                assert str(error)
            except Exception as error:
                pytest.fail(f"{place} = {value!r}: {error!r}")


def damaged(content: bytes, rng: random.Random) -> bytes:
    """A file of which some bytes near the start are others, or of which the end is missing."""
    changed = bytearray(content)
    for _ in range(rng.randrange(1, 4)):
        changed[rng.randrange(min(len(changed), 400))] = rng.randrange(256)
    return bytes(changed[: rng.randrange(1, len(changed))] if rng.random() < 0.3 else changed)


@pytest.mark.parametrize("kind", ["npy", "png", "jpg"])
def test_damaged_files_are_read_or_refused(kind: str, folder: Path):
    content = FLOATS if kind == "npy" else picture("PNG" if kind == "png" else "JPEG")
    rng = random.Random(21)
    model = copy.deepcopy(BASE)
    source(f"data.{kind}", content, "FLOAT32")(model, folder)
    model["commands"] = []
    path = folder / "model.json"
    path.write_text(json.dumps(model))
    refused = 0
    for _ in range(200):
        (folder / f"data.{kind}").write_bytes(damaged(content, rng))
        try:
            load_model(path).resources["input"].bytes()
        except DmlError as error:
            refused += 1
            assert "Resource 'input'" in str(error)
    assert refused > 20


@pytest.mark.parametrize(
    ("edit", "fragment"),
    [
        (many_large, "fit"),
        (source("p.png", png_header(10_000, 10_000), "UINT8"), "at most 89478485 pixels"),
    ],
    ids=["memory", "png-1e8"],
)
def test_refused_as_a_process(edit: Edit, fragment: str, folder: Path):
    model = copy.deepcopy(BASE)
    replaced = edit(model, folder)
    path = folder / "model.json"
    path.write_bytes(json.dumps(model).encode() if replaced is None else replaced)
    before = contents(folder.parent)
    command = [sys.executable, "-m", "dml_jax", "run", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stderr
    assert fragment in done.stderr
    # No warnings of the packages below stand beside the message.
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert contents(folder.parent) == before

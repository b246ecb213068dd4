"""Models and graphs that use every operator and feature of the format, and what holds of any."""

import json
import re
from pathlib import Path

import dispatch_models
import numpy as np
from build import saved
from dispatch_models import Json, buffer, dispatch, filled, show, tensor, write
from records import combinations, record_of
from serialized_graphs import dense

from dml_jax import (
    OPERATORS,
    DmlError,
    Graph,
    GraphBuilder,
    Operator,
    TensorDesc,
    clip,
    depth_to_space,
    reduce,
    split,
)
from dml_jax.dxdispatch.parsing import parse_model
from dml_jax.dxdispatch.reading import read_json
from dml_jax.operator import operator_from_json

ROOT = Path(__file__).parents[2]

NAMES = (
    *("SPLIT", "TILE", "JOIN", "DEPTH_TO_SPACE", "DEPTH_TO_SPACE1", "SPACE_TO_DEPTH"),
    *("SPACE_TO_DEPTH1", "ELEMENT_WISE_CLIP", "ELEMENT_WISE_CLIP1", "ELEMENT_WISE_CLIP_GRAD"),
    *("ELEMENT_WISE_CLIP_GRAD1", "ARGMAX", "ARGMIN", "REDUCE"),
)


def drawn(name: str, count: int = 2) -> list[Operator]:
    """Random descriptors of an operator, the same each time."""
    op_class, rng = OPERATORS[f"DML_OPERATOR_{name}"], np.random.default_rng(0)
    record = record_of(op_class)
    types = [types for types, _ in combinations(op_class, record)]
    return [record.operator(rng, op_class, types[i % len(types)]) for i in range(count)]


def model_of(operator: Operator) -> Json:
    """Runs an operator once, each tensor in a resource of its own, and prints what it wrote."""
    resources: Json = {}
    bindings: Json = {}
    for point in operator.bind_points():
        names = [f"{point.name}{index}" for index in range(len(point.tensors))]
        bindings[point.name] = names if point.is_array else names[0]
        for name, own in zip(names, point.tensors, strict=True):
            numbers = {"valueCount": own.span, "valueStart": 0, "valueDelta": 1}
            resources[name] = buffer(numbers, own.data_type.name)
    described = operator.to_json()
    return dispatch_models.model_of(
        resources,
        {"op": {"type": described["Type"], "desc": described["Desc"]}},
        dispatch("op", **bindings),
        *(show(name) for name in resources if name.startswith("Output")),
    )


CONCAT = "g (float[N,2] x0, float[N,2] x1) => (float[?,?] y) { y = Concat <axis = 0> (x0, x1) }"
EVERYTHING: Json = {
    "$schema": "./_schema.json",
    "resources": {
        "list": buffer([-4, 1.5, "nan", "-inf", 9]),
        "mixed": buffer(
            [
                {"name": "a", "type": "UINT8", "value": 7},
                {"type": "FLOAT64", "value": "inf"},
                {"type": "INT64", "value": -9223372036854775808},
            ],
            None,
        ),
        "constant": {
            **filled(8, 65504, "FLOAT16"),
            "initialValuesOffsetInBytes": 16,
            "sizeInBytes": 64,
        },
        "sequence": buffer({"valueCount": 64, "valueStart": 1, "valueDelta": 0.25}),
        "picture": buffer(
            {"sourcePath": "../images/astronaut.jpg"},
            "UINT8",
            resampleSize=[1, 3, 8, 8],
            resampleMode="scale",
        ),
        "out": filled(64),
    },
    "dispatchables": {
        "flat": {
            "type": "ELEMENT_WISE_CLIP",
            "InputTensor": tensor([4]),
            "OutputTensor": tensor([4]),
            "ScaleBias": {"Scale": 2, "Bias": -0.5},
            "Min": "-inf",
            "Max": 3.5,
            "bindings": {"InputTensor": "sequence", "OutputTensor": "out"},
            "executionFlags": ["DML_EXECUTION_FLAG_NONE", "DISABLE_META_COMMANDS"],
        },
        "strided": {
            "Type": "DML_OPERATOR_TILE",
            "Desc": {
                "InputTensor": {
                    "Type": "DML_TENSOR_TYPE_BUFFER",
                    "Desc": {
                        "DataType": "DML_TENSOR_DATA_TYPE_FLOAT32",
                        "Flags": ["DML_TENSOR_FLAG_OWNED_BY_DML"],
                        "DimensionCount": 3,
                        "Sizes": [2, 3, 2],
                        "Strides": [0, 2, 9],
                        "TotalTensorSizeInBytes": 64,
                        "GuaranteedBaseOffsetAlignment": 16,
                    },
                },
                "OutputTensor": tensor([2, 3, 4], Strides=[12, 1, 3]),
                "RepeatsCount": 3,
                "Repeats": [1, 1, 2],
            },
            "bindings": {"InputTensor": {"name": "sequence", "elementOffset": 4}},
            "dmlCompileType": "DmlCompileOp",
        },
        "exact": {
            "type": "ELEMENT_WISE_CLIP1",
            "desc": {
                "InputTensor": tensor([2], "INT64"),
                "OutputTensor": tensor([2], "INT64"),
                "MinMaxDataType": "INT64",
                "Min": {"Int64": -9007199254740993},
                "Max": 9007199254740993,
            },
        },
    },
    "commands": [
        dispatch("flat"),
        {
            **dispatch(
                "strided", OutputTensor={"name": "out", "elementCount": 32, "elementOffset": 4}
            ),
            "threadGroupCount": [1, 1, 1],
        },
        {
            **dispatch(
                "exact",
                InputTensor={"name": "mixed", "elementSizeInBytes": 8, "format": "x"},
                OutputTensor={"name": "constant", "elementSizeInBytes": 8, "elementOffset": 4},
            ),
            "type": "Dispatch",
        },
        show("out", verbose=True),
        write("out", "out/a.npy", dimensions=[8, 8]),
        write("picture", "b.png", dimensions=[1, 3, 8, 8]),
        write("mixed", "c"),
    ],
}


def graph() -> Json:
    """A graph of several operators, some with two outputs, with names and a constant."""
    builder = GraphBuilder()
    image = builder.input_tensor("image", TensorDesc("FLOAT32", [1, 8, 2, 2], [32, 1, 16, 8]))
    left, right = split(depth_to_space(clip(image, 0, 1), 2), 1, [1, 1])
    return builder.build({"left": left, "sum": reduce(right, "SUM")}).to_json()


def model_of_networks() -> Json:
    """A model that dispatches a network, n.onnx, twice, and a serialized graph, g.bin."""
    values = buffer([1, 2, 3, 4, 5, 6, 7, 8])
    network = {"type": "onnx", "sourcePath": "n.onnx"}
    network |= {"freeDimensionNameOverrides": {"N": 1}, "graphOptimizationLevel": 1}
    graph = {"type": "dmlSerializedGraph", "sourcePath": "g.bin"}
    shaped = {"x0": {"name": "a", "shape": [3, 2]}, "x1": "a", "y": {"name": "c", "shape": [4, 2]}}
    return dispatch_models.model_of(
        {"a": values, "b": values, "c": buffer("deferred")},
        {"net": network, "graph": graph},
        dispatch("net", **shaped),
        dispatch("net", x1={"shape": [2, 2]}),
        dispatch("graph", x="a", y="b"),
    )


def write_files(folder: Path) -> None:
    """Write what models and graphs name: a network, a graph, its weights, an array."""
    if not (folder / "k.npy").exists():
        saved(CONCAT, folder)
        (folder / "g.bin").write_bytes(dense())
        (folder / "w.bin").write_bytes(bytes(48))
        np.save(folder / "k.npy", np.ones((1, 3), np.float32))


def rich_models() -> dict[str, Json]:
    """By name; `graph` is a graph, which `dml-jax show` and a model's sourcePath take."""
    models = {
        f"{name}-{index}": model_of(operator)
        for name in NAMES
        for index, operator in enumerate(drawn(name))
    }
    return {**models, "everything": EVERYTHING, "graph": graph()}


def check(path: Path, images: Path) -> None:
    """What holds of any file: it is refused with a `DmlError`, or taken, and then consistent."""
    try:
        value = read_json(path)
        if isinstance(value, dict) and "Nodes" in value:
            graph = Graph.load(path)
            assert Graph.from_json(graph.to_json()) == graph
            graph.describe()
            return
        model = parse_model(value, images)
        for dispatchable in model.dispatchables.values():
            operator = dispatchable.operator
            operator.describe()
            operator.minimum_feature_level  # noqa: B018  (computed when it is asked for)
            if isinstance(operator, Operator):
                assert operator_from_json(operator.to_json()) == operator
        for resource in model.resources.values():
            if resource.size_in_bytes < 2**20:
                assert resource.bytes().size == resource.size_in_bytes
    except DmlError as error:
        text = str(error)
        assert text
        text.encode()


def seeds() -> dict[str, bytes]:
    """The shipped models, what was found before, and a model or graph of every operator."""
    paths = [*(ROOT / "examples/models").glob("*.json"), *(ROOT / "tests/fuzz/found").glob("*")]
    found = {path.name: path.read_bytes() for path in paths}
    # Without their comments too: only what is JSON is changed in its structure.
    found |= {f"{name}-plain": re.sub(rb"(?m)^//.*", b"", data) for name, data in found.items()}
    return found | {name: json.dumps(value).encode() for name, value in rich_models().items()}

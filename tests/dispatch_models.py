"""DxDispatch's models: the parts that tests put together, and the model of its guide."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def buffer(values: Any, data_type: str | None = "FLOAT32", **fields: Any) -> Json:
    """Return a resource of values; None for a type is none."""
    typed = {} if data_type is None else {"initialValuesDataType": data_type}
    return {"initialValues": values, **typed, **fields}


def filled(count: int, value: Any = 0, data_type: str = "FLOAT32") -> Json:
    """Return a resource of one value."""
    return buffer({"valueCount": count, "value": value}, data_type)


def tensor(sizes: Sequence[int], data_type: str = "FLOAT32", **fields: Any) -> Json:
    return {"DataType": data_type, "Sizes": list(sizes), **fields}


def dispatch(name: str, **bindings: Any) -> Json:
    return {"type": "dispatch", "dispatchable": name, "bindings": bindings}


def show(name: str, **fields: Any) -> Json:
    return {"type": "print", "resource": name, **fields}


def write(name: str, target: str, **fields: Any) -> Json:
    return {"type": "writeFile", "resource": name, "targetPath": target, **fields}


def model_of(resources: Json, dispatchables: Json, *commands: Json) -> Json:
    return {"resources": resources, "dispatchables": dispatchables, "commands": list(commands)}


def model_file(model: Json, folder: Path) -> Path:
    """Write a model to a file of a folder; return its path."""
    (folder / "model.json").write_text(json.dumps(model))
    return folder / "model.json"


def guide_model(target: str = "sums.npy") -> Json:
    """Return the sums of the rows of 1 to 9, which go to the file of this name."""
    desc = {
        "Function": "DML_REDUCE_FUNCTION_SUM",
        "InputTensor": tensor([1, 1, 3, 3]),
        "OutputTensor": tensor([1, 1, 3, 1]),
        "AxisCount": 1,
        "Axes": [3],
    }
    numbers = {"valueCount": 9, "valueStart": 1, "valueDelta": 1}
    return model_of(
        {"input": buffer(numbers), "output": filled(3)},
        {"sum": {"type": "DML_OPERATOR_REDUCE", "desc": desc}},
        dispatch("sum", InputTensor="input", OutputTensor="output"),
        show("output"),
        write("output", target),
    )

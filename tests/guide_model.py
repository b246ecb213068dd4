"""The model of DxDispatch's guide: the sums of the rows of 1 to 9, and one that writes them."""

from typing import Any


def guide_model(target: str = "sums.npy") -> dict[str, Any]:
    """One of its own, to be changed; the sums go to the file of this name."""
    desc = {
        "Function": "DML_REDUCE_FUNCTION_SUM",
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 3, 3]},
        "OutputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 3, 1]},
        "AxisCount": 1,
        "Axes": [3],
    }
    bindings = {"InputTensor": "input", "OutputTensor": "output"}
    return {
        "resources": {
            "input": {
                "initialValuesDataType": "FLOAT32",
                "initialValues": {"valueCount": 9, "valueStart": 1, "valueDelta": 1},
            },
            "output": {
                "initialValuesDataType": "FLOAT32",
                "initialValues": {"valueCount": 3, "value": 0},
            },
        },
        "dispatchables": {"sum": {"type": "DML_OPERATOR_REDUCE", "desc": desc}},
        "commands": [
            {"type": "dispatch", "dispatchable": "sum", "bindings": bindings},
            {"type": "print", "resource": "output"},
            {"type": "writeFile", "resource": "output", "targetPath": target},
        ],
    }

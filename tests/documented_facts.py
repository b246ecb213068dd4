"""The documentation's facts (tests/facts), and the worked examples as operators and arrays."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dml_jax import OPERATORS, Operator, operator_from_json

FOLDER = Path(__file__).parent / "facts"
ENUMS: dict[str, dict[str, Any]] = json.loads((FOLDER / "enums.json").read_text())
# Those of the documented operators that are built.
DOCUMENTED: dict[str, Any] = {
    name: facts
    for name, facts in json.loads((FOLDER / "operators.json").read_text()).items()
    if name in OPERATORS
}


class Example(NamedTuple):
    """A worked example: the operator, its arrays, and what the page says comes out."""

    op: Operator
    inputs: list[np.ndarray]
    outputs: list[np.ndarray]


def examples() -> Iterator[tuple[str, Example]]:
    """Every worked example of the operators that are built."""
    for name, facts in DOCUMENTED.items():
        for example in facts["examples"]:
            tensors = {**example["inputs"], **example["outputs"]}
            desc = {**example["attributes"], **{k: _desc(v) for k, v in tensors.items()}}
            op = operator_from_json({"Type": name, "Desc": desc})
            inputs, outputs = (
                [array for value in example[kind].values() for array in _arrays(value)]
                for kind in ("inputs", "outputs")
            )
            yield (
                f"{name.removeprefix('DML_OPERATOR_')}: {example['title']}",
                Example(op, inputs, outputs),
            )


def _desc(value: Any) -> Any:
    if isinstance(value, list):
        return [_desc(v) for v in value]
    if value is None:  # an optional tensor
        return None
    return {"DataType": value["dtype"], "Sizes": value["sizes"]}


def _arrays(value: Any) -> list[np.ndarray]:
    if value is None:
        return []
    if isinstance(value, list):
        return [array for v in value for array in _arrays(v)]
    return [np.array(value["values"], value["dtype"].lower()).reshape(value["sizes"])]

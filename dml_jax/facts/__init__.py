"""The catalogue of DirectML's operators, as data: fields, support rows and constraint records.

`operators.json` has one entry an operator, by its name without DML_OPERATOR_:

- `family`: the module of `dml_jax.operators` that declares it;
- `introduced`: the feature level that introduced it;
- `in_place`: whether an output may lie on an input;
- `aliases`: other names of the same operator;
- `fields`: "KIND Name" in the order of the C structure; KIND is `input`, `output`, or a C type
  without DML_; `KIND[Count]` is a list whose length is the field Count; `KIND?` may be left out;
- `support`: [level, "ranks: types", when]; the second may be an object, tensor by tensor;
- `constraints`: records (`dml_jax.constraints` says what each means).

`functions.json` has one entry a function of DirectMLX, or of an operator that DirectMLX lacks:

- `operators`: the versions that the function makes, lowest first;
- `arguments`: "name" or "name=default", in order;
- `fields`: the field of each argument that is not called as its field;
- `results`: the names of several results;
- `directmlx`: the name of the function in DirectMLX, where it has one.

`names.json` has what an operator is called elsewhere, by its name without DML_OPERATOR_; later
versions of an operator have no entry if their names are the same:

- `onnx`: the op types of ONNX and of ONNX Runtime that become this operator;
- `jax`, `torch`: the functions of JAX and of PyTorch that compute the same, or the nearest to it.

`fields.json` has what a field is, by its name in DirectML.h, where no docstring says so.
"""

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dml_jax.errors import Fault, nearest

PREFIX = "DML_OPERATOR_"


def _read(name: str) -> Mapping[str, Any]:
    return json.loads((Path(__file__).parent / f"{name}.json").read_text())


@functools.cache
def functions() -> Mapping[str, Any]:
    """Return every function's entry, by its name."""
    return _read("functions")


@functools.cache
def names() -> Mapping[str, Any]:
    """Return what operators are called elsewhere, by their names without DML_OPERATOR_."""
    return _read("names")


@functools.cache
def fields() -> Mapping[str, str]:
    """Return what fields are, by their names in DirectML.h."""
    return _read("fields")


@functools.cache
def catalogue() -> Mapping[str, Any]:
    """Return every operator's entry, by its name without DML_OPERATOR_."""
    return _read("operators")


def class_name_of(name: str) -> str:
    """Return the class of an operator: `ElementWiseClip1` for ELEMENT_WISE_CLIP1."""
    return "".join(part.capitalize() for part in name.split("_"))


@functools.cache
def names_of_classes() -> Mapping[str, str]:
    """Return the operator of each class name."""
    return {class_name_of(name): name for name in catalogue()}


@functools.cache
def names_of_aliases() -> Mapping[str, str]:
    """Return the operator of each other name that DirectML.h has for one."""
    return {
        alias: name for name, entry in catalogue().items() for alias in entry.get("aliases", ())
    }


def unknown_operator(name: str) -> Fault:
    """Return the fault of a `name` that no operator has."""
    hint = nearest(name.upper().removeprefix(PREFIX), catalogue())
    return Fault("", "type", f"be an operator of DirectML{hint}", name)

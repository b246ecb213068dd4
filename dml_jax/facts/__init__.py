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
- `arguments`: "name" or "name=default", in order; "name=..." has to be given behind a default;
- `conditions`: the arguments that may be arrays of bool;
- `fields`: the field of each argument that is not called as its field;
- `results`: the names of several results;
- `returns`: a sentence about the result, where its type may surprise;
- `elsewhere`: how to call what other libraries give this name; a call that misfits is told so;
- `directmlx`: the name of the function in DirectMLX, where it has one.

`names.json` has what an operator is called elsewhere, by its name without DML_OPERATOR_; later
versions of an operator have no entry if their names are the same:

- `onnx`: the op types of ONNX and of ONNX Runtime that become this operator;
- `jax`, `torch`: the functions of JAX and of PyTorch that compute the same, or the nearest to it.

`samples.json` has typical uses of operators, by their names without DML_OPERATOR_. In expressions E
is the number of elements, T the data type, and N, C, H and W are the sizes of a feature map of E
elements; `root` is the whole part of a square root.

- `part`: the feature map has E divided by this many elements;
- `let`: further names, each an expression;
- `tensor`: the sizes of each tensor that has no sample, `N, C, H, W` by default;
- `fields`: the value of each field: of a tensor "sizes" or "TYPE: sizes", where `*` stands for the
  sizes of `tensor`. Fields that an operator lacks are left out;
- `uses`: the further fields of each use;
- `each`: fields with several values, each combination of which is a use;
- `range`: the least and the largest element of each input, "" for the others; an expression of the
  described fields, as in constraint records.

`attributes.json` has the attributes of op types of ONNX Runtime that ONNX's package has no schema
of, by their domain and name.

`hints.json` has what helps the caller of a function: `arguments`, what other libraries call them;
`faults`, of which the first row whose patterns are found in a fault's parts has the hint.

`fields.json` has what a field is, by its name in DirectML.h, where no docstring says so.
"""

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dml_jax.errors import Fault, nearest, suggested

PREFIX = "DML_OPERATOR_"


@functools.cache
def _read(name: str) -> Any:
    return json.loads((Path(__file__).parent / f"{name}.json").read_text())


def functions() -> Mapping[str, Any]:
    """Return every function's entry, by its name."""
    return _read("functions")


def names() -> Mapping[str, Any]:
    """Return what operators are called elsewhere, by their names without DML_OPERATOR_."""
    return _read("names")


def fields() -> Mapping[str, str]:
    """Return what fields are, by their names in DirectML.h."""
    return _read("fields")


def hints() -> Mapping[str, Any]:
    """Return the hints for callers of functions, about arguments and about faults."""
    return _read("hints")


def attributes() -> Mapping[str, Mapping[str, Any]]:
    """Return the attributes of op types that ONNX has no schema of, by their domain and name."""
    return _read("attributes")


@functools.cache
def samples() -> Mapping[str, Any]:
    """Return the typical uses of operators, by their names without DML_OPERATOR_."""
    return {name: entry for names, entry in _read("samples").items() for name in names.split()}


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


def _called_elsewhere(word: str) -> str | None:
    """Return the first operator that ONNX, JAX or PyTorch calls `word`, such as MATMUL; or None."""
    for name, own in names().items():
        others = (other.rpartition(".")[2] for library in own.values() for other in library)
        if word.replace("_", "") in (other.replace("_", "").upper() for other in others):
            return name
    return None


def unknown_operator(name: str) -> Fault:
    """Return the fault of a `name` that no operator has."""
    word = name.upper().removeprefix(PREFIX)
    own = word if word in catalogue() else _called_elsewhere(word)
    hint = suggested(own) or nearest(word, catalogue())
    return Fault("", "type", f"be an operator of DirectML{hint}", name)

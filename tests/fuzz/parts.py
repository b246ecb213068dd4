"""Models of DxDispatch and graphs whose parts are exchanged, so that most of them are read far in.

`rearranged` changes what a reader of the format would: types of all tensors at once, a size that
several tensors share, who is bound where, the operator that a description is of, edges of graphs.
"""

import copy
import json
import random
from collections.abc import Callable, Iterator
from enum import EnumMeta
from typing import Any

from fuzz import models
from fuzz.models import drawn, model_of
from fuzz.mutations import NUMBERS, mutated

import dml_jax
from dml_jax import OPERATORS, DmlError
from dml_jax.enums import TensorDataType

Json = Any
Change = Callable[[Json, random.Random], None]

SIZES = [0, 1, 1, 2, 3, 4, 5, 7, 16, 255, 65536, 2**31, 2**32 - 1, 2**32, -1]
TYPES = [member.name for member in TensorDataType]
WORDS = [
    name
    for kind in vars(dml_jax.enums).values()
    if isinstance(kind, EnumMeta)
    for name in kind.__members__
]


def seeds() -> dict[str, bytes]:
    """Return models that use everything, and one of each operator."""
    names = [name.removeprefix("DML_OPERATOR_") for name in OPERATORS]
    made = {name: model_of(operator) for name in names for operator in drawn(name, 1)}
    return models.seeds() | {name: json.dumps(model).encode() for name, model in made.items()}


def rearranged(text: bytes, rng: random.Random) -> bytes:
    """Return a model after one to four changes of its parts; of its text at times."""
    try:
        model = json.loads(text)
    except (ValueError, RecursionError):
        return mutated(text, rng)
    if not isinstance(model, dict):
        return mutated(text, rng)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        try:
            rng.choice(CHANGES)(model, rng)
        except (IndexError, KeyError, ValueError, TypeError, AttributeError, DmlError):
            continue  # the model has no such part
    made = json.dumps(model, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return mutated(made, rng) if rng.random() < 0.1 else made


def _within(value: Json) -> Iterator[dict[str, Json]]:
    """Yield all objects within a value."""
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, (dict, list)):
            yield from _within(item)


def _tensors(model: Json) -> list[dict[str, Json]]:
    """Return the descriptions of tensors."""
    return [item for item in _within(model) if isinstance(item.get("Sizes"), list)]


def _retype_all(model: Json, rng: random.Random) -> None:
    """Give all tensors of a type another one, and the resources that hold it."""
    old, new = rng.choice(_tensors(model))["DataType"], rng.choice(TYPES)
    for item in _within(model):
        for key in ("DataType", "initialValuesDataType", "type", "ValueDataType"):
            if item.get(key) == old:
                item[key] = new


def _resize_all(model: Json, rng: random.Random) -> None:
    """Give all dimensions of a size another one, so that tensors fit together as before."""
    old = rng.choice(rng.choice(_tensors(model))["Sizes"])
    new = rng.choice([*SIZES, old + 1, old * 2])
    for tensor in _tensors(model):
        tensor["Sizes"] = [new if size == old else size for size in tensor["Sizes"]]


def _rerank_all(model: Json, rng: random.Random) -> None:
    """Give all tensors a dimension more, or one less."""
    is_more = rng.random() < 0.6
    for tensor in _tensors(model):
        tensor["Sizes"] = [1, *tensor["Sizes"]] if is_more else tensor["Sizes"][1:]


def _lay_out(model: Json, rng: random.Random) -> None:
    """Give a tensor strides, a size in bytes, an alignment or flags."""
    tensor = rng.choice(_tensors(model))
    count = len(tensor["Sizes"])
    match rng.randrange(4):
        case 0:
            tensor["Strides"] = [
                rng.choice([0, 1, 2, 3, 8, 64, 2**31, 2**32]) for _ in range(count)
            ]
        case 1:
            tensor["TotalTensorSizeInBytes"] = rng.choice([0, 4, 16, 64, 2**20, 2**40, 2**64 - 1])
        case 2:
            tensor["GuaranteedBaseOffsetAlignment"] = rng.choice([0, 1, 3, 4, 16, 2**31])
        case _:
            tensor["Flags"] = rng.choice(["OWNED_BY_DML", ["DML_TENSOR_FLAG_OWNED_BY_DML"], 1, 7])


def _bind(model: Json, rng: random.Random) -> None:
    """Exchange two bindings, or bind another resource, a part of it, or nothing."""
    tables = [i["bindings"] for i in _within(model) if isinstance(i.get("bindings"), dict)]
    table = rng.choice([t for t in tables if t])
    name, other = rng.choice([*table]), rng.choice([*rng.choice([t for t in tables if t])])
    resource = rng.choice([*model["resources"], "nothing"])
    part = {"elementCount": rng.choice(SIZES), "elementOffset": rng.choice(SIZES)}
    match rng.randrange(5):
        case 0:
            table[name] = table.get(other, resource)
        case 1:
            table[name] = resource
        case 2:
            table[name] = {"name": resource, **part, "elementSizeInBytes": rng.choice(SIZES)}
        case 3:
            table[name] = [resource] * rng.choice([0, 1, 2, 9])
        case _:
            del table[name]


def _operators(model: Json) -> list[dict[str, Json]]:
    """Return what has a description of an operator: dispatchables and nodes."""
    return [item for item in _within(model) if {"desc", "Desc"} & item.keys()]


def _become(model: Json, rng: random.Random) -> None:
    """Let a description be of another operator: a version of it, a relative, or any one."""
    item = rng.choice(_operators(model))
    key = "type" if "type" in item else "Type"
    name = str(item[key]).removeprefix("DML_OPERATOR_")
    near = [n for n in OPERATORS if n.removeprefix("DML_OPERATOR_").rstrip("0123456789") == name]
    item[key] = rng.choice([*near, rng.choice([*OPERATORS])])


def _lend(model: Json, rng: random.Random) -> None:
    """Give a description a field of another one, or leave one out."""
    item, other = rng.choice(_operators(model)), rng.choice(_operators(model))
    own: Any
    given: Any
    own, given = (i.get("desc", i.get("Desc")) for i in (item, other))
    if rng.random() < 0.3:
        del own[rng.choice([*own])]
    else:
        name = rng.choice([*given])
        own[rng.choice([name, *own])] = copy.deepcopy(given[name])


def _reword(model: Json, rng: random.Random) -> None:
    """Exchange a word for one of another enumeration, or a number for another one."""
    item = rng.choice([i for i in _within(model) if i])
    name = rng.choice([*item])
    value = item[name]
    if isinstance(value, str):
        item[name] = rng.choice(WORDS)
    elif isinstance(value, list) and value and isinstance(value[0], (int, float)):
        value[rng.randrange(len(value))] = rng.choice([*SIZES, *NUMBERS])
    elif isinstance(value, (int, float)):
        item[name] = rng.choice([*SIZES, *NUMBERS])
    elif isinstance(value, dict):
        item[name] = rng.choice([None, copy.deepcopy(rng.choice([*_within(model)]))])


def _fuse(model: Json, rng: random.Random) -> None:
    """Give a description a fused activation, of which some have fields that are missing."""
    item = rng.choice(_operators(model))
    own: Any = item.get("desc", item.get("Desc"))
    names = [name for name in OPERATORS if "ACTIVATION" in name or "ELEMENT_WISE" in name]
    desc = rng.choice([{}, {"Alpha": 1.0, "Beta": 0.5}, copy.deepcopy(own)])
    own["FusedActivation"] = {"Type": rng.choice(names), "Desc": desc}


def _command(model: Json, rng: random.Random) -> None:
    """Double, move, drop or change a command."""
    commands = model["commands"]
    match rng.randrange(4):
        case 0:
            commands.append(copy.deepcopy(rng.choice(commands)))
        case 1:
            rng.shuffle(commands)
        case 2:
            del commands[rng.randrange(len(commands))]
        case _:
            name = rng.choice([*model["resources"], *model["dispatchables"], "nothing"])
            command = rng.choice(commands)
            command[rng.choice(["resource", "dispatchable"])] = name


def _name(model: Json, rng: random.Random) -> None:
    """Give a resource or a dispatchable the name of another one, or none."""
    part = model[rng.choice(["resources", "dispatchables"])]
    part[rng.choice([*part, "", "x" * 300, "\0"])] = copy.deepcopy(rng.choice([*part.values()]))


def _values(model: Json, rng: random.Random) -> None:
    """Give a resource other values: of another form, too few, too many, or out of range."""
    resource = rng.choice([*model["resources"].values()])
    count = rng.choice(SIZES)
    paths = (
        *("../images/astronaut_depth.npy", "x.npy", ".", "/dev/zero", "w.bin", "k.npy"),
        *("x.gif", "C:\\k.npy", "n.onnx", "é.npy", "\ud800.npy"),
    )
    other = rng.choice([*model["resources"].values()])
    resource["initialValues"] = rng.choice(
        [
            [rng.choice(NUMBERS) for _ in range(rng.choice([0, 1, 4, 9]))],
            {"valueCount": count, "value": rng.choice(NUMBERS)},
            {"valueCount": count, "valueStart": 0, "valueDelta": rng.choice(NUMBERS)},
            {"sourcePath": rng.choice(paths)},
            "deferred",
            copy.deepcopy(other.get("initialValues")),
        ]
    )


def _target(model: Json, rng: random.Random) -> None:
    """Write a resource to another file, or with other sizes."""
    command = rng.choice(model["commands"])
    names = (
        *("a.npy", "b.png", "c.gif", "../d.npy", "e/", "", "f.bin", "/etc/g.npy", "h.jpg"),
        "i.npz",
    )
    sizes = [rng.choice(SIZES) for _ in range(rng.choice([0, 1, 2, 4, 9]))]
    resource = command.get("resource", rng.choice([*model["resources"]]))
    command.clear()
    command.update(type="writeFile", resource=resource, targetPath=rng.choice(names))
    command |= {"dimensions": sizes} if rng.random() < 0.7 else {}


def _kind(model: Json, rng: random.Random) -> None:
    """Let a dispatchable be of another kind: a shader, a graph, a network, a file of these."""
    item = rng.choice([*model["dispatchables"].values()])
    kinds = ["hlsl", "dml_graph_desc", "graph", "dmlSerializedGraph", "onnx", "dispatchable", 1]
    item["type"] = rng.choice(kinds)
    item["sourcePath"] = rng.choice(["n.onnx", "g.bin", "k.npy", "x", "w.bin", ".", 1])
    flags = ["DML_EXECUTION_FLAG_NONE", "NONE", "FAST", 1, ["DESCRIPTORS_VOLATILE"], [None]]
    if rng.random() < 0.5:
        item["executionFlags"] = rng.choice(flags)


def _edge(model: Json, rng: random.Random) -> None:
    """Let an edge of a graph begin or end elsewhere: a circle, a node that is not there."""
    keys = ("InputEdges", "IntermediateEdges", "OutputEdges")
    found = [item[k] for item in _within(model) for k in keys if isinstance(item.get(k), list)]
    edges = rng.choice([edges for edges in found if edges])
    edge = rng.choice(edges)
    names = ["image", "left", "joined", "nothing", "Output0", 0, 1, 9]
    match rng.randrange(5):
        case 0:
            edges.append(copy.deepcopy(edge))
        case 1:
            edges.remove(edge)
        case 2:
            key = rng.choice([*edge, "CountName", "PaddedAxis", "GraphInputName"])
            edge[key] = rng.choice(names)
        case _:
            numbers = [key for key, value in edge.items() if isinstance(value, int)]
            edge[rng.choice(numbers)] = rng.choice([0, 1, 2, 3, 9, -1, 2**31, 2**64])


def _node(model: Json, rng: random.Random) -> None:
    """Double, move or drop a node of a graph."""
    nodes = rng.choice([i["Nodes"] for i in _within(model) if isinstance(i.get("Nodes"), list)])
    match rng.randrange(3):
        case 0:
            nodes.append(copy.deepcopy(rng.choice(nodes)))
        case 1:
            rng.shuffle(nodes)
        case _:
            del nodes[rng.randrange(len(nodes))]


CHANGES: list[Change] = [
    *(_retype_all, _resize_all, _rerank_all, _lay_out, _bind, _become),
    *(_lend, _reword, _fuse, _command, _name, _values, _edge, _node, _target, _kind),
]

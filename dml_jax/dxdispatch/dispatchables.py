"""The dispatchables of a model: operators, graphs, serialized graphs and ONNX networks."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dml_jax.description.fields import Integer, list_of
from dml_jax.description.tensor import UINT_MAX, round_up
from dml_jax.dxdispatch import serialized
from dml_jax.dxdispatch.network_files import NetworkFile
from dml_jax.dxdispatch.reading import Reader, find_file, one_of, string
from dml_jax.dxdispatch.resources import UINT64_MAX, Resource, reading, values_of_file
from dml_jax.errors import (
    NOTHING,
    DmlError,
    Fault,
    Unquoted,
    collecting,
    inside,
    nearest_name,
    refused,
)
from dml_jax.graph import Graph
from dml_jax.onnx.options import NetworkOptions
from dml_jax.operator import operator_from_json
from dml_jax.operator.call import Bindable

_EXECUTION_FLAGS = (
    *("NONE", "ALLOW_HALF_PRECISION_COMPUTATION", "DISABLE_META_COMMANDS", "DESCRIPTORS_VOLATILE"),
)
_OTHER_KINDS = {
    "hlsl": "HLSL shaders need Direct3D",
    "dml_graph_desc": 'graphs are {"type": "graph", "sourcePath": ...}, which `Graph.save` wrote',
}


@dataclass(frozen=True)
class Binding:
    """A part of a resource, as a model binds it to a tensor.

    Attributes:
        resource: the name of the resource; None where only a shape is given.
        element_offset: the number of elements before the part.
        element_count: the number of elements in the part; None is all the rest.
        element_size: the bytes of an element; None is the size of the resource's type.
        shape: the sizes of the tensor, which networks take; None is as the network says.
    """

    resource: str | None
    element_offset: int = 0
    element_count: int | None = None
    element_size: int | None = None
    shape: tuple[int, ...] | None = None


Bindings = Mapping[str, list[Binding]]


@dataclass(frozen=True)
class Dispatchable:
    """A named operator, graph or network.

    Attributes:
        bindings: the bindings for dispatches that have none of their own.
        own: memory for tensors that are bound to nothing, by the tensor's name: of constants of a
            serialized graph, and of all inputs and outputs of a network.
    """

    name: str
    operator: Bindable
    bindings: Bindings
    own: Mapping[str, Resource] = field(default_factory=dict)

    @property
    def context(self) -> str:
        return f"Dispatchable '{self.name}'"

    def at(self, bindings: Bindings) -> "Dispatchable":
        """Return the dispatchable for a dispatch with `bindings`."""
        return self


@dataclass(frozen=True)
class NetworkDispatchable:
    """A network in a file, which becomes a `Dispatchable` for the shapes of a dispatch."""

    name: str
    file: NetworkFile
    bindings: Bindings

    @property
    def context(self) -> str:
        return f"Dispatchable '{self.name}'"

    def at(self, bindings: Bindings) -> Dispatchable:
        """Return the dispatchable for a dispatch with `bindings`. Raises `DmlError`."""
        shapes = {
            name: sources[0].shape
            for name, sources in {**self.bindings, **bindings}.items()
            if sources and sources[0].shape is not None
        }
        with inside(self.context):
            function, own = self.file.at(self.name, shapes)
        return Dispatchable(self.name, function, self.bindings, own)


def parse_dispatchable(
    name: str, value: Any, folder: Path, options: NetworkOptions
) -> Dispatchable | NetworkDispatchable:
    """Return the dispatchable `name` of a model, whose files are in `folder`, from its JSON.

    `options` of networks come before those of the model. Raises `DmlError` with all faults.
    """
    context = f"Dispatchable '{name}'"
    kind = as_object(value, context).get("type", value.get("Type", NOTHING))
    word = kind.lower() if isinstance(kind, str) else ""
    if word in _OTHER_KINDS:
        rule = f"be a DML_OPERATOR_ name ({_OTHER_KINDS[word]})"
        raise DmlError([Fault("", "type", rule, kind, (context,))])
    if word == "onnx":
        return _parse_network(name, value, context, folder, options)
    if word in ("graph", "dmlserializedgraph"):
        return _parse_graph(name, value, context, folder, word != "graph")
    own = ("type", "Type", "desc", "Desc", *_COMMON)
    flat = not ("desc" in value or "Desc" in value)
    for key in value if flat else ():
        if isinstance(value[key], Mapping) and key not in own and nearest_name(key, ["desc"]):
            rule = "be a field of a dispatchable (did you mean 'desc'?)"
            raise DmlError([Fault("", key, rule, Unquoted("an object"), (context,))])
    faults: list[Fault] = []
    bindings: Bindings = {}
    operator = None
    with collecting(faults, context), Reader(value, (*value, *own) if flat else own) as fields:
        bindings = _take_bindings(fields)
    description = {key: item for key, item in value.items() if key not in _COMMON}
    with collecting(faults, context):
        operator = operator_from_json(description)
    if faults or operator is None:
        raise DmlError(faults)
    return Dispatchable(name, operator, bindings)


def _parse_graph(
    name: str, value: Mapping[str, Any], context: str, folder: Path, is_serialized: bool
) -> Dispatchable:
    """Return the dispatchable of a file of `Graph.save`, or of a serialized graph."""
    graph: Any = None
    own: dict[str, Resource] = {}
    with Reader(value, ("type", "Type", "sourcePath", *_COMMON), context) as fields:
        bindings = _take_bindings(fields)
        source = fields.take("sourcePath", string)
        if source is not None:
            with collecting(fields.faults):
                with reading(source, "graph"):
                    path = find_file(folder, source)
                    data = path.read_bytes() if is_serialized else b""
                if is_serialized:
                    with inside(f"Graph '{path}'"):
                        read = serialized.parse(data, path.parent)
                    graph, own = read.graph, _constants(name, read)
                else:
                    graph = Graph.load(path)
    return Dispatchable(name, graph, bindings, own)


def _constants(name: str, read: serialized.SerializedGraph) -> dict[str, Resource]:
    """Return the memory of the large constants of a serialized graph, of dispatchable `name`."""
    own = {}
    for point in read.graph.bind_points():
        if point.name in read.files:
            path, (tensor,) = read.files[point.name], point.tensors
            values = values_of_file(path.name, functools.partial(Path, path), tensor.data_type)
            title, size = f"{name}: {point.name}", round_up(values.size, 4)
            own[point.name] = Resource(
                title, tensor.data_type, size, None, 0, values.size, values.make
            )
    return own


def _parse_network(
    name: str, value: Mapping[str, Any], context: str, folder: Path, options: NetworkOptions
) -> NetworkDispatchable:
    path, names, denotations = Path(), {}, {}
    sizes = ("freeDimensionNameOverrides", "freeDimensionDenotationOverrides")
    known = ("type", "Type", "sourcePath", *sizes, *_COMMON, *_OF_ONNX_RUNTIME)
    with Reader(value, known, context) as fields:
        bindings = _take_bindings(fields)
        names = fields.take(sizes[0], _sizes, {})
        denotations = fields.take(sizes[1], _sizes, {})
        source = fields.take("sourcePath", string)
        if source is not None:
            with collecting(fields.faults), reading(source, "network"):
                path = find_file(folder, source)
    return NetworkDispatchable(
        name, NetworkFile(path, NetworkOptions(names, denotations), options), bindings
    )


# Settings of ONNX Runtime, which change no result.
_OF_ONNX_RUNTIME = ("sessionOptionsConfigEntries", "graphOptimizationLevel", "loggingLevel")


def _sizes(value: Any) -> dict[str, int]:
    convert = Integer(0, UINT_MAX).convert
    with Reader(as_object(value), tuple(value)) as fields:
        return {name: fields.take(name, convert) for name in value}


# The fields of every dispatchable beside its description.
_COMMON = ("bindings", "executionFlags", "dmlCompileType")


def _take_bindings(fields: Reader) -> Bindings:
    bindings = fields.take("bindings", parse_bindings, {})
    fields.take("executionFlags", _execution_flags, None)
    fields.take("dmlCompileType", one_of("DmlCompileOp", "DmlCompileGraph"), None)
    return bindings


def _execution_flags(value: Any) -> None:
    for flag in value if isinstance(value, list) else [value]:
        suffix = string(flag).removeprefix("DML_EXECUTION_FLAG_")
        if suffix not in _EXECUTION_FLAGS:
            raise refused(f"be one of {', '.join(_EXECUTION_FLAGS)}", flag)


def as_object(value: Any, *context: str) -> Mapping[str, Any]:
    """Return a JSON object. Raises `DmlError` within `context` for another value."""
    if not isinstance(value, Mapping):
        raise DmlError([Fault("", "", "be an object", value, context)])
    return value


def parse_bindings(value: Any) -> Bindings:
    """Return the bindings of a dispatch or a dispatchable. Raises `DmlError` with all faults."""
    known = tuple(as_object(value))
    with Reader(value, known) as fields:
        return {name: fields.take(name, _parse_sources) for name in known}


def _parse_sources(value: Any) -> list[Binding]:
    return list_of(_parse_source)(value) if isinstance(value, list) else [_parse_source(value)]


def _parse_source(value: Any) -> Binding:
    if isinstance(value, str):
        return Binding(value)
    if not isinstance(value, Mapping):
        raise refused("be a resource's name, or an object with name", value)
    # The last four are for shaders; DxDispatch's operators ignore them too.
    for_others = ("elementStride", "format", "counter", "counterOffsetBytes")
    own = ("name", "elementOffset", "elementCount", "elementSizeInBytes", "shape")
    with Reader(value, (*own, *for_others)) as fields:
        shape = fields.take("shape", list_of(Integer(0, UINT_MAX).convert), None)
        unnamed = () if shape is None else (None,)
        return Binding(
            fields.take("name", string, *unnamed),
            fields.take("elementOffset", Integer(0, UINT64_MAX).convert, 0),
            fields.take("elementCount", Integer(0, UINT64_MAX).convert, None) or None,
            fields.take("elementSizeInBytes", Integer(0, UINT64_MAX).convert, None) or None,
            None if shape is None else tuple(shape),
        )

"""Parses a model's JSON, and checks it whole.

Guide.md of DxDispatch defines the format. Nothing here needs a device or allocates a buffer.
"""

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dml_jax.description.fields import list_of
from dml_jax.description.tensor import round_up
from dml_jax.dxdispatch.commands import Names, parse_command
from dml_jax.dxdispatch.dispatchables import (
    Dispatchable,
    NetworkDispatchable,
    as_object,
    parse_bindings,
    parse_dispatchable,
)
from dml_jax.dxdispatch.model import Command, Dispatch, Model, WriteFile
from dml_jax.dxdispatch.pictures import IMAGE_TYPES
from dml_jax.dxdispatch.reading import Reader, folder_of, in_json, read_json
from dml_jax.dxdispatch.resources import DEFERRED, Resource, parse_resource
from dml_jax.enums import TensorDataType
from dml_jax.errors import (
    FAULTS_MAX,
    DmlError,
    Expect,
    Fault,
    Unquoted,
    collecting,
    expect_few,
    raise_if,
)
from dml_jax.onnx.options import AS_THE_MODEL_SAYS, NetworkOptions
from dml_jax.system.files import absolute, as_path


def load_model(
    path: os.PathLike[str] | str,
    folder: os.PathLike[str] | str | None = None,
    options: NetworkOptions = AS_THE_MODEL_SAYS,
) -> Model:
    """Read a DxDispatch model from a JSON file and check it whole; compute nothing.

    Args:
        path: the file of the model.
        folder: the folder of the files that the model names; None is the model's own folder. The
            current folder is searched too. The files must exist, and are read when the model runs
            (graphs and networks at once).
        options: the options of networks, in place of those of the model.

    Raises one `DmlError` with all faults. Source: DxDispatch's Guide.md.
    """
    path = as_path(path, "path")
    where = None if folder is None else as_path(folder, "folder")
    value = read_json(path)
    model = parse_model(value, folder_of(path) if where is None else where, str(path), options)
    return replace(model, path=absolute(path))


def parse_model(
    value: Any, folder: Path, name: str = "", options: NetworkOptions = AS_THE_MODEL_SAYS
) -> Model:
    """Return the model of a JSON value, which messages call `name`, with its files in `folder`.

    `options` are those of networks. Raises one `DmlError` with all faults.
    """
    try:
        return _parse_model(value, folder, f"Model '{name}'" if name else "Model", options)
    except DmlError as error:
        raise DmlError(
            replace(fault, value=in_json(fault.value)) for fault in error.faults
        ) from None


def _sections(
    value: Any, title: str, faults: list[Fault]
) -> tuple[Mapping[str, Any], Mapping[str, Any], list[Any]]:
    """Return the resources, the dispatchables and the commands of a model, as they are written.

    `faults` takes what is wrong beside them. Raises `DmlError` where one of them is missing.
    """
    if not isinstance(value, Mapping):
        raise DmlError([Fault("", "", "be an object", value, (title,))])
    if "Nodes" in value:
        rule = 'hold a model (in which {"type": "graph", "sourcePath": ...} is a dispatchable)'
        raise DmlError([Fault("", "the file", rule, Unquoted("a graph"), (title,))])
    sections: list[Any] = []
    known = {"resources": as_object, "dispatchables": as_object, "commands": list_of(lambda c: c)}
    with collecting(faults), Reader(value, known, title) as fields:
        sections = [fields.take(key, convert) for key, convert in known.items()]
    if not sections or any(section is None for section in sections):
        raise DmlError(faults)
    for key, items in zip(known, sections, strict=True):
        expect_few(f"the number of {key}", len(items), context=(title,))
    resources, dispatchables, commands = sections
    return resources, dispatchables, commands


def _parse_model(value: Any, folder: Path, title: str, options: NetworkOptions) -> Model:
    faults: list[Fault] = []

    def each(items: Mapping[Any, Any], parse: Callable[[Any, Any], Any]) -> dict[Any, Any]:
        parsed: dict[Any, Any] = {}
        for name, item in items.items():
            if len(faults) > FAULTS_MAX:
                break
            with collecting(faults):
                parsed[name] = parse(name, item)
        return parsed

    resource_items, dispatchable_items, command_items = _sections(value, title, faults)
    resources = each(resource_items, lambda name, item: parse_resource(name, item, folder))
    dispatchables = each(
        dispatchable_items, lambda name, item: parse_dispatchable(name, item, folder, options)
    )
    resources = _size_deferred(resources, resource_items, dispatchables, command_items)
    # Names whose definitions failed are known, so that one mistake is reported once.
    names = Names(resources, dispatchables, set(resource_items), set(dispatchable_items))
    for name, item in dispatchable_items.items():
        if name not in dispatchables and isinstance(item, Mapping):
            faults += names.unknown(item.get("bindings"), f"Dispatchable '{name}'")
    parsed = each(
        dict(enumerate(command_items)), lambda k, item: parse_command(item, f"Command {k}", names)
    )
    commands: list[Command] = [command for command in parsed.values() if command is not None]
    dispatches = [command for command in commands if isinstance(command, Dispatch)]
    dispatched = {d.dispatchable.name: d.dispatchable for d in reversed(dispatches)}
    if not faults:
        dispatchables = each(dispatchables, lambda name, d: dispatched.get(name) or d.at({}))
    for name, dispatchable in dispatchables.items() if not faults else ():
        if name not in dispatched:
            expect = Expect(dispatchable.operator.c_name)
            for path, sources in dispatchable.bindings.items():
                for source in sources:
                    names.expect_resource(source, path, expect)
            faults += DmlError(expect.faults).within(dispatchable.context).faults
    if not faults:
        rule = "be values, or come with sizeInBytes (no tensor is bound to it)"
        faults += [
            Fault("", "initialValues", rule, DEFERRED, (resource.context,))
            for resource in resources.values()
            if resource.size_in_bytes == 0
        ]
    if not faults:
        faults += _cut_pictures(commands, resources)
    raise_if(faults)
    own = {r.name: r for d in dispatches for r in d.dispatchable.own.values()}
    bound = dict.fromkeys(place.memory for d in dispatches for place in d.tensors)
    hidden = {name: own[name] for name in bound if name not in resources}
    deferred = {n for n, item in resource_items.items() if item.get("initialValues") == DEFERRED}
    model = Model(resources, dispatchables, tuple(commands), None, hidden, deferred)
    faults += model.read_before_known()
    raise_if(faults)
    return model


def _size_deferred(
    resources: Mapping[str, Resource],
    items: Mapping[str, Any],
    dispatchables: Mapping[str, Dispatchable | NetworkDispatchable],
    commands: Any,
) -> dict[str, Resource]:
    """Return the resources, with the size and the type of each deferred one that has none.

    They are those of the tensors that are bound to it. The type of a network's output comes before
    that of the model. Bindings with faults are left to the check of their command.
    """
    ends: dict[str, int] = {}
    types: dict[str, TensorDataType] = {}
    of_networks: dict[str, TensorDataType] = {}
    empty: set[str] = set()
    for command in commands:
        named = command.get("dispatchable") if isinstance(command, Mapping) else None
        dispatchable = dispatchables.get(named) if isinstance(named, str) else None
        if dispatchable is None:
            continue
        try:
            bindings = {**dispatchable.bindings, **parse_bindings(command.get("bindings", {}))}
            operator = dispatchable.at(bindings).operator
        except DmlError:
            continue
        for name in operator.without_memory:
            empty |= {source.resource or "" for source in bindings.get(name, ())}
        for point in operator.bind_points():
            for desc, source in zip(point.tensors, bindings.get(point.name, ()), strict=False):
                element = source.element_size or desc.data_type.element_size
                end = source.element_offset * element + desc.total_tensor_size_in_bytes
                if source.resource is not None:
                    ends[source.resource] = max(end, ends.get(source.resource, 0))
                    if source.element_offset:
                        continue
                    if point.output and isinstance(dispatchable, NetworkDispatchable):
                        of_networks[source.resource] = desc.data_type
                    if point.output or source.resource not in types:
                        types[source.resource] = desc.data_type
    result = dict(resources)
    for name, resource in resources.items():
        if items[name].get("initialValues") != DEFERRED:
            continue
        size = ends.get(name, 4 if name in empty else 0)
        if size and not resource.size_of_model:
            whole, used = round_up(size, 4), ends.get(name, 0)
            resource = replace(resource, size_in_bytes=whole, initial_size=used)
        known = of_networks if resource.data_type.element_size else types
        result[name] = replace(resource, data_type=known.get(name, resource.data_type))
    return result


def _cut_pictures(
    commands: Sequence[Command], resources: Mapping[str, Resource]
) -> Iterator[Fault]:
    """Yield a fault for each picture whose rows are not those of the tensors in its resource."""
    places = [p for c in commands if isinstance(c, Dispatch) for p in c.tensors]
    for index, command in enumerate(commands):
        if not isinstance(command, WriteFile) or not command.target_path.lower().endswith(
            (*IMAGE_TYPES,)
        ):
            continue
        (_, channels, height, width), name = command.dimensions, command.resource
        resource, sizes = resources[name], [p.tensor.sizes for p in places if p.memory == name]
        parts = [resource.elements(p) for p in (resource.initialised, resource.written())]
        whole = [*map(math.prod, sizes)] or parts
        is_whole = channels * height * width in {*parts, *whole} or channels * height == 1
        if not is_whole and not any(
            size[-1] == width and (channels == 1 or size[-2:-1] == (height,)) for size in sizes
        ):
            rule = f"hold {max(whole)} elements for a picture, all of resource '{name}'"
            context = (f"Command {index}",)
            yield Fault("", "dimensions", rule, [*command.dimensions], context)

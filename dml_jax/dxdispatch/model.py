"""DxDispatch's JSON models: resources, dispatchables and commands, parsed and checked whole.

Guide.md of DxDispatch defines the format. Nothing here needs a device or allocates a buffer.
"""

import functools
import math
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dml_jax.description.fields import Integer, list_of
from dml_jax.description.tensor import DIMENSION_COUNT_MAX, UINT_MAX, round_up
from dml_jax.dxdispatch.dispatchables import (
    Binding,
    Bindings,
    Dispatchable,
    NetworkDispatchable,
    as_object,
    parse_bindings,
    parse_dispatchable,
)
from dml_jax.dxdispatch.network_files import as_network
from dml_jax.dxdispatch.reading import (
    Reader,
    boolean,
    folder_of,
    in_json,
    path_of,
    read_json,
    string,
)
from dml_jax.dxdispatch.resources import (
    DEFERRED,
    IMAGE_DATA_TYPES,
    IMAGE_TYPES,
    NO_OTHER_TYPE,
    OTHER_TYPES,
    Resource,
    parse_resource,
)
from dml_jax.enums import FeatureLevel, TensorDataType, TensorFlags
from dml_jax.errors import (
    FAULTS_MAX,
    NOTHING,
    DmlError,
    Expect,
    Fault,
    Unquoted,
    collecting,
    expect_few,
    moving,
    nearest,
    nearest_name,
    raise_if,
    refused,
    suggested,
)
from dml_jax.memory.binding import TensorInMemory, check_overlaps, check_range
from dml_jax.onnx.options import AS_THE_MODEL_SAYS, NetworkOptions
from dml_jax.system.files import absolute, as_path

PRINT_MAX = 2**22
"""The number of elements that a command may print: seconds of text, less than a gigabyte."""


@dataclass(frozen=True)
class Dispatch:
    """Runs a dispatchable on resources.

    Attributes:
        dispatchable: the operator, graph or network, a network with the shapes of this dispatch.
        tensors: its tensors in the resources, in the operator's order.
    """

    dispatchable: Dispatchable
    tensors: tuple[TensorInMemory, ...]


@dataclass(frozen=True)
class Print:
    """Prints the initialised part of a resource."""

    resource: str
    verbose: bool


@dataclass(frozen=True)
class WriteFile:
    """Writes a resource to a file."""

    resource: str
    target_path: str
    dimensions: tuple[int, ...]


Command = Dispatch | Print | WriteFile


@dataclass(frozen=True)
class Result:
    """What a network leaves in a deferred resource.

    Attributes:
        place: the tensor in its memory.
        shape: the sizes, with the padding where the size depends on data.
        axis: the dimension that is padded; None for none.
        count: the tensor that says how many elements along it are there.
    """

    place: TensorInMemory
    shape: tuple[int, ...]
    axis: int | None
    count: TensorInMemory | None


@dataclass(frozen=True, eq=False)
class Model:
    """A DxDispatch model in which every name resolves and every binding fits.

    Attributes:
        resources: the buffers, by name; `resource.bytes()` makes their initial contents.
        dispatchables: the operators, graphs and networks, by name: `dispatchable.operator` is a
            function. A network has the shapes of its first dispatch.
        commands: the steps of the model, in order.
        path: the file of the model, if it has one.
        hidden: the memory that dispatches need beside the resources, by a name that no resource
            has: of constants of serialized graphs, and of tensors of networks that are bound to
            nothing.
        deferred: the resources whose contents the tensors decide that are bound to them.
    """

    resources: Mapping[str, Resource]
    dispatchables: Mapping[str, Dispatchable]
    commands: tuple[Command, ...]
    path: Path | None = None
    hidden: Mapping[str, Resource] = field(default_factory=dict)
    deferred: Collection[str] = ()

    @functools.cached_property
    def memory(self) -> Mapping[str, Resource]:
        """Return all memory that the model needs, by name."""
        return {**self.resources, **self.hidden}

    def __repr__(self) -> str:
        names = ", ".join(map(repr, self.dispatchables))
        return f"<Model of {len(self.resources)} resources and dispatchables {names}>"

    def _repr_svg_(self) -> str | None:
        """Return the picture that `dml-jax show -o` draws, for notebooks; None without one."""
        return self.drawn(self)

    @staticmethod
    def drawn(model: "Model") -> str | None:
        """Return the picture of a model as SVG; None until `dispatch.diagrams` replaces this."""
        return None

    def results_of(self, dispatch: Dispatch) -> dict[str, Result]:
        """Return what a dispatch of a network leaves in deferred resources, by their names."""
        network, found = as_network(dispatch.dispatchable.operator), {}
        if network is None:
            return found
        places = {place.path: place for place in dispatch.tensors if place.output}
        for name, place in places.items():
            if place.memory in self.deferred:
                shape = network.output_types[name].shape or ()
                axis, count = network.counted.get(name, (None, ""))
                found[place.memory] = Result(place, shape, axis, places.get(count))
        return found

    def read_before_known(self) -> Iterator[Fault]:
        """Yield a fault for each tensor that reads a deferred resource which has a padding."""
        results: dict[str, Result] = {}
        for dispatch in self.dispatches:
            for place in dispatch.tensors:
                found = results.get(place.memory)
                if not place.output and found is not None and found.axis is not None:
                    rule = f"have sizes that are known at load ('{found.place.path}' has as many "
                    rule += "elements as data says; join the networks into one)"
                    context = (dispatch.dispatchable.context,)
                    yield Fault("ONNX", place.path, rule, Unquoted(f"'{place.memory}'"), context)
            results |= self.results_of(dispatch)

    @property
    def minimum_feature_level(self) -> FeatureLevel:
        """Return the lowest feature level that accepts all dispatchables."""
        levels = (d.operator.minimum_feature_level for d in self.dispatchables.values())
        return max(levels, default=min(FeatureLevel))

    def refused_at(self, feature_level: FeatureLevel | str) -> tuple[Fault, ...]:
        """Return why a feature level refuses dispatchables; nothing where it accepts them all."""
        faults: list[Fault] = []
        for dispatchable in self.dispatchables.values():
            refusals = DmlError(dispatchable.operator.refused_at(feature_level))
            faults += refusals.within(dispatchable.context).faults
        return tuple(faults)

    @property
    def dispatches(self) -> list[Dispatch]:
        """Return the dispatches among the commands, in order."""
        return [command for command in self.commands if isinstance(command, Dispatch)]


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
    resources = _measured(resources, resource_items, dispatchables, command_items)
    # Names whose definitions failed are known, so that one mistake is reported once.
    names = _Names(resources, dispatchables, set(resource_items), set(dispatchable_items))
    for name, item in dispatchable_items.items():
        if name not in dispatchables and isinstance(item, Mapping):
            faults += names.unknown(item.get("bindings"), f"Dispatchable '{name}'")
    parsed = each(
        dict(enumerate(command_items)), lambda k, item: _parse_command(item, f"Command {k}", names)
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


def _measured(
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


@dataclass(frozen=True)
class _Names:
    """The names of a model, and the parsed definitions of the faultless ones."""

    resources: Mapping[str, Resource]
    dispatchables: Mapping[str, Dispatchable | NetworkDispatchable]
    resource_names: set[str]
    dispatchable_names: set[str]

    def expect_resource(self, source: Binding, place: str, expect: Expect) -> bool:
        name, known = source.resource, self.resource_names
        if name is None:
            return expect(False, place, "name a resource of the model", NOTHING)
        hint = "" if name in known else nearest(name, known)
        return expect(name in known, place, f"be bound to a resource of the model{hint}", name)

    def unknown(self, bindings: Any, context: str) -> Iterator[Fault]:
        """Yield a fault for each resource that the model lacks, in bindings of an unknown operator.

        Bindings that cannot be read are left to whoever parses them.
        """
        expect = Expect("")
        try:
            sources = parse_bindings({} if bindings is None else bindings)
        except DmlError:
            return
        for path, listed in sources.items():
            for source in listed:
                if source.resource is not None:
                    self.expect_resource(source, path, expect)
        yield from DmlError(expect.faults).within(context).faults

    def resource(self, value: Any) -> str:
        return _known(string(value), self.resource_names, "resources")

    def dispatchable(self, value: Any) -> str:
        return _known(string(value), self.dispatchable_names, "dispatchables")


def _known(name: str, names: set[str], kind: str) -> str:
    if name not in names:
        raise refused(f"be one of the model's {kind}{nearest(name, names)}", name)
    return name


def _parse_command(value: Any, context: str, names: _Names) -> Command | None:
    kinds = {"dispatch": _parse_dispatch, "print": _parse_print, "writefile": _parse_write_file}
    kind = as_object(value, context).get("type", NOTHING)
    if not isinstance(kind, str) or kind.lower() not in kinds:
        rule = f"be dispatch, print or writeFile{nearest(kind, kinds)}"
        raise DmlError([Fault("", "type", rule, kind, (context,))])
    return kinds[kind.lower()](value, context, names)


def _parse_print(value: Any, context: str, names: _Names) -> Print:
    with Reader(value, ("type", "resource", "verbose"), context) as fields:
        name = fields.take("resource", names.resource)
        verbose = fields.take("verbose", boolean, False)
        resource = names.resources.get(name)
        if resource is not None:
            count = resource.elements(resource.initialised)
            if count > PRINT_MAX:
                rule = f"have at most {PRINT_MAX} elements to be printed (writeFile takes more)"
                fields.refuse(f"resource '{name}'", rule, count)
    return Print(name, verbose)


def _parse_write_file(value: Any, context: str, names: _Names) -> WriteFile:
    target: str = ""
    with Reader(value, ("type", "resource", "targetPath", "dimensions"), context) as fields:
        name = fields.take("resource", names.resource)
        target = fields.take("targetPath", string)
        dimensions = fields.take("dimensions", list_of(Integer(1, UINT_MAX).convert), [])
        resource = names.resources.get(name)
        if resource is not None and not fields.faults:
            fields.faults += file_faults(resource, target, dimensions)
    return WriteFile(name, target, tuple(dimensions))


def file_faults(resource: Resource, target: str, dimensions: list[int]) -> list[Fault]:
    """Return why `resource` cannot become the file `target` with these dimensions."""
    suffix = Path(target).suffix.lower()
    element = resource.data_type.element_size
    faults: list[Fault] = []
    with collecting(faults), moving("", "targetPath"):
        path_of(target)
        if re.split(r"[\\/]", target)[-1] in ("", ".", "..") or "\0" in target:
            raise refused("name a file, not a folder", target)
    if len(dimensions) > DIMENSION_COUNT_MAX:
        rule = f"have at most {DIMENSION_COUNT_MAX} elements"
        faults.append(Fault("", "dimensions", rule, dimensions))
    if (suffix == ".npy" or suffix in IMAGE_TYPES) and not element:
        rule = f"have an element type for a {suffix} file"
        faults.append(Fault("", f"resource '{resource.name}'", rule, resource.data_type.shown()))
    elif suffix == ".npy" and not dimensions and (resource.size_of_model or 0) % element:
        rule = f"be a multiple of {element} for a .npy file"
        faults.append(
            Fault("", f"resource '{resource.name}' sizeInBytes", rule, resource.size_of_model)
        )
    elif suffix == ".npy" and dimensions:
        faults += _dimensions_faults(resource, dimensions)
    elif suffix in OTHER_TYPES:
        faults.append(Fault("", "targetPath", NO_OTHER_TYPE, target))
    elif suffix in IMAGE_TYPES:
        faults += _picture_faults(resource, dimensions)
    return faults


def _picture_faults(resource: Resource, dimensions: list[int]) -> Iterator[Fault]:
    if resource.data_type.name not in IMAGE_DATA_TYPES:
        rule = f"be one of {', '.join(IMAGE_DATA_TYPES)} for a picture"
        shown = resource.data_type.shown()
        yield Fault("", f"resource '{resource.name}' data type", rule, shown)
    if len(dimensions) != 4 or dimensions[0] != 1 or dimensions[1] not in (1, 3, 4):
        rule = "be [1, C, H, W] with 1, 3 or 4 channels for a picture"
        yield Fault("", "dimensions", rule, dimensions or NOTHING)
    else:
        yield from _dimensions_faults(resource, dimensions)


def _dimensions_faults(resource: Resource, dimensions: list[int]) -> Iterator[Fault]:
    count = resource.elements(resource.written(dimensions))
    if math.prod(dimensions) != count:
        rule = f"hold at most {count} elements, as many as resource '{resource.name}'"
        yield Fault("", "dimensions", rule, dimensions)


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


def _parse_dispatch(value: Any, context: str, names: _Names) -> Dispatch | None:
    known = ("type", "dispatchable", "bindings", "threadGroupCount")
    with Reader(value, known, context) as fields:
        name = fields.take("dispatchable", names.dispatchable)
        bindings = fields.take("bindings", parse_bindings, {})
        dispatchable = names.dispatchables.get(name)
        shaped, tensors = None, None
        if dispatchable is not None and not fields.faults:
            try:
                shaped = dispatchable.at(bindings)
                tensors = _bind(shaped, bindings, names)
            except DmlError as error:
                outer = error if shaped is None else error.within(dispatchable.context)
                raise outer.within(context) from None
    if dispatchable is None:
        faults = list(names.unknown(value.get("bindings"), context))
        raise_if(faults)
    if shaped is None or tensors is None:
        return None  # its definition has the fault
    return Dispatch(shaped, tensors)


def _bind(
    dispatchable: Dispatchable, at_dispatch: Bindings, names: _Names
) -> tuple[TensorInMemory, ...] | None:
    """Place each tensor of the operator in its resource, by DirectML's binding rules.

    Returns None if the definition of a resource has faults.
    """
    operator = dispatchable.operator
    points = {point.name: point for point in operator.bind_points()}
    expect = Expect(operator.c_name)
    placed: list[TensorInMemory] = []

    wrong = {**dispatchable.bindings, **at_dispatch}.keys() - points.keys()
    wrong -= {*operator.without_memory}
    guesses = {name: nearest_name(name, points) for name in sorted(wrong)}
    for name, near in guesses.items():
        rule = f"name tensors of the operator{suggested(near)}"
        expect(False, "bindings", rule, name)
    complete = True
    for path, point in points.items():
        tensors = point.tensors
        owned = any(TensorFlags.OWNED_BY_DML in desc.flags for desc in tensors)
        if owned:
            rule = "be bound at the dispatchable only (its Flags say OWNED_BY_DML)"
            expect(path not in at_dispatch, path, rule, Unquoted("a binding at the dispatch"))
        sources = at_dispatch.get(path, dispatchable.bindings.get(path))
        is_named = sources is not None and any(s.resource is not None for s in sources)
        if path in dispatchable.own and not is_named:
            own, (desc,) = dispatchable.own[path], tensors
            rule = "be bound, since a resource has the name of its own memory"
            expect(own.name not in names.resource_names, path, rule, own.name)
            placed.append(TensorInMemory(path, desc, point.output, own.name))
            check_range(placed[-1], own.size_in_bytes, expect)
            continue
        if sources is None:
            expect(path in guesses.values(), path, "be bound", NOTHING)
            continue
        rule = f"be bound to {len(tensors)} resource{'s' * (len(tensors) != 1)}"
        if not expect(len(sources) == len(tensors), path, rule, len(sources)):
            continue
        for index, (desc, source) in enumerate(zip(tensors, sources, strict=True)):
            place = f"{path}[{index}]" if point.is_array else path
            if not names.expect_resource(source, place, expect):
                continue
            if source.resource is None or source.resource not in names.resources:
                complete = False
            else:
                resource = names.resources[source.resource]
                size = source.element_size or resource.data_type.element_size
                offset = source.element_offset * size
                tensor = TensorInMemory(place, desc, point.output, resource.name, offset)
                _check_source(tensor, source, size, resource, expect)
                placed.append(tensor)
    check_overlaps(placed, operator.in_place, expect)
    expect.check()
    return tuple(placed) if complete else None


def _check_source(
    tensor: TensorInMemory, source: Binding, size: int, resource: Resource, expect: Expect
) -> None:
    """Check that the part of `resource` which `source` names exists and holds the tensor."""
    if source.element_offset or source.element_count:
        rule = "have elementSizeInBytes, since the resource has no element type"
        expect(size > 0, tensor.path, rule, resource.data_type.shown())
    available = max(resource.size_in_bytes - tensor.offset, 0)
    if source.element_count is not None and size:
        counted = round_up(source.element_count * size, 4)
        rule = f"stay within the {resource.size_in_bytes} bytes of '{resource.name}'"
        end = Unquoted(f"elements up to byte {tensor.offset + counted}")
        if not expect(counted <= round_up(available, 4), tensor.path, rule, end):
            return
        available = counted
    check_range(tensor, available, expect)

"""Parses the commands of a model, and binds tensors to resources."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
)
from dml_jax.dxdispatch.model import Command, Dispatch, Print, WriteFile
from dml_jax.dxdispatch.pictures import IMAGE_DATA_TYPES, IMAGE_TYPES
from dml_jax.dxdispatch.reading import Reader, boolean, path_of, string
from dml_jax.dxdispatch.resources import NO_OTHER_TYPE, OTHER_TYPES, Resource
from dml_jax.enums import TensorFlags
from dml_jax.errors import (
    NOTHING,
    DmlError,
    Expect,
    Fault,
    Unquoted,
    collecting,
    inside,
    moving,
    nearest,
    nearest_name,
    raise_if,
    refused,
    suggested,
)
from dml_jax.memory.binding import TensorInMemory, check_overlaps, check_range

PRINT_MAX = 2**22
"""The number of elements that a command may print: seconds of text, less than a gigabyte."""


@dataclass(frozen=True)
class Names:
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


def parse_command(value: Any, context: str, names: Names) -> Command | None:
    kinds = {"dispatch": _parse_dispatch, "print": _parse_print, "writefile": _parse_write_file}
    kind = as_object(value, context).get("type", NOTHING)
    if not isinstance(kind, str) or kind.lower() not in kinds:
        rule = f"be dispatch, print or writeFile{nearest(kind, kinds)}"
        raise DmlError([Fault("", "type", rule, kind, (context,))])
    return kinds[kind.lower()](value, context, names)


def _parse_print(value: Any, context: str, names: Names) -> Print:
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


def _parse_write_file(value: Any, context: str, names: Names) -> WriteFile:
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


def _parse_dispatch(value: Any, context: str, names: Names) -> Dispatch | None:
    known = ("type", "dispatchable", "bindings", "threadGroupCount")
    with Reader(value, known, context) as fields:
        name = fields.take("dispatchable", names.dispatchable)
        bindings = fields.take("bindings", parse_bindings, {})
        dispatchable = names.dispatchables.get(name)
        shaped, tensors = None, None
        if dispatchable is not None and not fields.faults:
            with inside(context):
                shaped = dispatchable.at(bindings)
                with inside(dispatchable.context):
                    tensors = _bind(shaped, bindings, names)
    if dispatchable is None:
        raise_if(names.unknown(value.get("bindings"), context))
    if shaped is None or tensors is None:
        return None  # its definition has the fault
    return Dispatch(shaped, tensors)


def _bind(
    dispatchable: Dispatchable, at_dispatch: Bindings, names: Names
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
    # After all tensors have their place: an overlap is a fault of two of them.
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

"""DxDispatch models as Python programs: buffers, compiled operators and their dispatches."""

import functools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dml_jax.dxdispatch import resources
from dml_jax.dxdispatch.model import Dispatch, Model, Print, WriteFile
from dml_jax.dxdispatch.resources import Resource
from dml_jax.graph import Graph
from dml_jax.show.source import array_code, folded, head, reserved_names, statements, variable_of

_HELPERS = {
    "padded": '''
def padded(values, size, offset, data_type):
    """Return `values` from byte `offset` of a memory of `size` bytes."""
    memory = np.zeros(size, np.uint8)
    data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    memory[offset : offset + data.size] = data
    return memory.view(data_type)
''',
    "elements": '''
def elements(buffer, start, stop, data_type):
    """Return the elements in a part of a buffer, which counts bytes."""
    memory = np.asarray(buffer.array).reshape(-1).view(np.uint8)
    return memory[start:stop].view(data_type)
''',
}


def model_program(model: Model) -> str:
    """Return a Python program that does what `model` does."""
    known = reserved_names() | {*_HELPERS}
    buffers = {name: variable_of(name, known) for name in model.resources}
    lines = [
        folded(f"{buffers[name]} = Buffer({_contents(resource)})")
        for name, resource in model.resources.items()
    ]
    tables: dict[Any, str] = {}
    for dispatch in model.dispatches:
        if _key(dispatch) not in tables:
            name = variable_of(dispatch.dispatchable.name, known)
            tables[_key(dispatch)] = name
            lines += ["", *_table(dispatch, name, buffers, known)]
    lines += ["", *_commands(model, tables, buffers)]
    body = "\n".join([*lines, ""])
    helpers = "\n".join(text for name, text in _HELPERS.items() if f"{name}(" in body)
    tensors = [t.tensor for dispatch in model.dispatches for t in dispatch.tensors]
    imports = head(helpers + "\n" + body, tensors)
    title = '"""Runs the commands of a model."""'
    return "\n".join([title, "", imports, *([helpers, ""] if helpers else []), body])


def _key(dispatch: Dispatch) -> Any:
    return dispatch.dispatchable.name, dispatch.tensors


def _table(
    dispatch: Dispatch, name: str, buffers: Mapping[str, str], known: set[str]
) -> Iterator[str]:
    """Yield the lines that bind the operator of a dispatch to its buffers, as `name`."""
    operator = dispatch.dispatchable.operator
    shown = repr(operator)
    if isinstance(operator, Graph):
        shown = variable_of(f"{name}_graph", known)
        yield from statements(operator, shown, known)
    sides: tuple[list[str], list[str]] = ([], [])
    for place in dispatch.tensors:
        buffer = buffers[place.memory]
        bound = f"BufferBinding({buffer}, {place.offset})" if place.offset else buffer
        sides[place.output].append(bound)
    inputs, outputs = (f"[{', '.join(side)}]" for side in sides)
    yield folded(f"{name} = dml.compile({shown}).bind({inputs}, {outputs})")


def _commands(model: Model, tables: Mapping[Any, str], buffers: Mapping[str, str]) -> Iterator[str]:
    for command in model.commands:
        if isinstance(command, Dispatch):
            yield f"{tables[_key(command)]}.dispatch()"
            continue
        resource = model.resources[command.resource]
        is_print = isinstance(command, Print)
        part = resource.initialised if is_print else resource.written(command.dimensions)
        dtype = _dtype(resource, part.stop - part.start)
        read = f"elements({buffers[resource.name]}, {part.start}, {part.stop}, {dtype!r})"
        if is_print:
            yield folded(f"print({resource.name!r}, *{read})")
        elif isinstance(command, WriteFile):
            target = f"Path({command.target_path.replace(chr(92), '/')!r})"
            yield folded(f"write_file({target}, {read}, {tuple(command.dimensions)})")


def _dtype(resource: Resource, size: int) -> str:
    """Return the type of the elements of `size` bytes; bytes where there is a remainder."""
    element = resource.data_type.element_size
    return resource.data_type.dtype.name if element and size % element == 0 else "uint8"


def _contents(resource: Resource) -> str:
    size, dtype = resource.size_in_bytes, _dtype(resource, resource.size_in_bytes)
    values = _values(resource.make)
    if values is None:  # the size follows from the tensors
        return f"np.zeros({size // np.dtype(dtype).itemsize}, {dtype!r})"
    if resource.offset == 0 and resource.initial_size == size:
        return values
    return f"padded({values}, {size}, {resource.offset}, {dtype!r})"


def _values(make: Any) -> str | None:
    """Return initial values as Python, from the call that makes them; None where there are none."""
    assert isinstance(make, functools.partial)
    arguments = make.args
    match make.func:
        case resources.read_only:
            return array_code(arguments[0])
        case np.full:
            count, element, dtype = arguments
            return f"np.full({count}, {_number(element)}, {dtype.name!r})"
        case resources.accumulated:
            count, start, delta, dtype = arguments
            steps = f"[{_number(start)}] + [{_number(delta)}] * {count - 1}"
            return f"np.add.accumulate(np.array({steps}, {dtype.name!r}), dtype={dtype.name!r})"
        case resources.read_source:  # a file; its own call has the path
            return _values(arguments[2])
        case resources.read_array:
            return f"np.load({_path(arguments)}).astype({arguments[1].dtype.name!r})"
        case resources.read_raw:
            return f"np.fromfile({_path(arguments)}, 'uint8')"
        case resources.read_image:
            dtype = f"np.dtype({arguments[1].name!r})"
            return f"read_image({_path(arguments)}, {dtype}, {arguments[2]})"
    return None  # deferred


def _path(arguments: Any) -> str:
    return f"Path({arguments[0].as_posix()!r})"


def _number(value: Any) -> str:
    text = repr(value)
    return text if math.isfinite(value) else f"float({text!r})"

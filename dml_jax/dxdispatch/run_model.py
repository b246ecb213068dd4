"""DxDispatch models from Python: arrays in, arrays out."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
from jax.core import Tracer

from dml_jax.description.arrays import check_there
from dml_jax.description.tensor import shown_array
from dml_jax.dxdispatch.executor import Executor, as_elements, in_shape, tensors_of
from dml_jax.dxdispatch.model import Dispatch, Model, WriteFile
from dml_jax.dxdispatch.parsing import load_model
from dml_jax.dxdispatch.resources import UNKNOWN, Resource, values_of_file
from dml_jax.errors import DmlError, Expect, Fault, Unquoted, collecting, nearest, raise_if
from dml_jax.memory.binding import TensorInMemory
from dml_jax.memory.binding_table import IS_DEVICE, checked_type
from dml_jax.system.files import as_path
from dml_jax.system.free_memory import Device

Array = jax.Array | np.ndarray | np.generic


def run_model(
    model: Model | os.PathLike[str] | str,
    values: Mapping[str, Array] = {},
    *,
    device: Device | None = None,
    output_folder: os.PathLike[str] | str | None = None,
) -> dict[str, np.ndarray]:
    """Run the commands of a DxDispatch model and return the contents of its resources.

    Args:
        model: a model of `load_model`, or the path of its file.
        values: initial values of resources, by name, in place of `initialValues` in the model.
            Each is an array of the resource's type and of any shape, with as many elements as the
            model's initial values or as the result of this resource. The rest of the resource is
            zero.
        device: a `jax.Device`; None is the default device.
        output_folder: the folder of the files that `writeFile` commands write; None writes none. A
            `targetPath` outside of it is refused.

    Returns:
        The elements of each resource, by its name, as a copy. Their number is that of
        `sizeInBytes`; without it, all elements that have initial values or lie in a tensor. They
        have the sizes of the tensor that fills them (an output before an input), or else one
        dimension. They are bytes if the resource has no type, or if its size is no multiple of it.

        A deferred resource has the tensor that a network leaves in it, with the sizes of this run.

    Raises `DmlError` if a value does not fit its resource, or if the model does not fit into
    memory, has 64-bit types which JAX does not have at present, or cannot read or write its files.

    Source: DxDispatch's Guide.md.
    """
    model = load_model(model) if isinstance(model, (str, os.PathLike)) else model
    expect = Expect("")
    expect(isinstance(model, Model), "model", "be a Model (of load_model)", model)
    expect(isinstance(values, Mapping), "values", "be arrays by the resource's name", values)
    expect(device is None or isinstance(device, jax.Device), "device", IS_DEVICE, device)
    expect.check()
    folder = as_path("" if output_folder is None else output_folder, "output_folder")
    kinds = Dispatch if output_folder is None else (Dispatch, WriteFile)
    commands = tuple(command for command in model.commands if isinstance(command, kinds))
    tensors = tensors_of(model)
    parts = {
        name: _used_part(resource, tensors[name]) for name, resource in model.resources.items()
    }
    executor = Executor(
        replace(model, commands=commands),
        device or _default_device(),
        folder=folder,
        initial=_initial(model, values, parts),
    )
    executor.run()
    results = {}
    for name, resource in model.resources.items():
        result = executor.result(resource)
        if result is None:
            result = in_shape(executor.values(resource, parts[name]), tensors[name])
        results[name] = result.copy()
    return results


def _default_device() -> Device:
    array = jax.device_put(np.zeros(()))
    if isinstance(array, Tracer):
        rule = "be called outside of jax.jit (inside, call `dispatchable.operator`)"
        raise DmlError([Fault("", "run_model", rule, Unquoted("a call inside of it"))])
    (device,) = array.devices()
    return device


def _used_part(resource: Resource, tensors: Iterable[TensorInMemory]) -> slice:
    """Return the bytes of `resource` without its padding."""
    part = resource.written()
    ends = [(t.offset, t.offset + t.tensor.span_in_bytes) for t in tensors]
    start, stop = zip((part.start, part.stop), *ends, strict=True)
    return slice(min(start), min(max(stop), resource.size_in_bytes))


def initial_of_files(model: Model, files: Mapping[str, Path]) -> dict[str, np.ndarray]:
    """Return the bytes of resources, by name, whose values are read from `files`.

    A file is a .npy file of the resource's type, a picture, or raw bytes. Raises
    `DmlError` where a file cannot be read or does not fit, or a resource has another name.
    """
    arrays, faults = dict[str, np.ndarray](), list[Fault]()
    for name, path in files.items():
        with collecting(faults, f"Resource '{name}'"):
            resource = model.resources.get(name)
            if resource is None:
                names = f" ({', '.join(model.resources)})" if model.resources else ""
                hint = nearest(name, model.resources) or names
                rule = f"name one of the model's resources{hint}"
                raise DmlError([Fault("", "--input", rule, name)])
            is_typed = path.suffix.lower() == ".npy"
            kind = UNKNOWN if is_typed else resource.data_type
            data = np.ascontiguousarray(values_of_file(str(path), path.absolute, kind).make())
            flat = data.reshape(-1).view(np.uint8)
            arrays[name] = data if is_typed else as_elements(flat, resource)
    raise_if(faults)
    tensors = tensors_of(model)
    parts = {name: _used_part(model.resources[name], tensors[name]) for name in arrays}
    return _initial(model, arrays, parts)


def _initial(
    model: Model, values: Mapping[str, Array], parts: Mapping[str, slice]
) -> dict[str, np.ndarray]:
    """Return the bytes of the resources in `values`, whose used parts are `parts`."""
    initial, faults = dict[str, np.ndarray](), list[Fault]()
    for name, array in values.items():
        place = f"values[{name!r}]"
        with collecting(faults):
            if name not in model.resources:
                rule = f"be of one of the model's resources{nearest(name, model.resources)}"
                raise DmlError([Fault("", place, rule, shown_array(array))])
            initial[name] = _bytes_of(array, model.resources[name], parts[name], place)
    raise_if(faults)
    return initial


def _bytes_of(array: Array, resource: Resource, used: slice, place: str) -> np.ndarray:
    """Return a whole resource that holds `array`: at its initial values, or in its `used` part."""
    checked_type(array, place)
    check_there(array, place)
    data, takes = np.array(array).reshape(-1), list[str]()
    for part in (resource.initialised, used):
        expected = as_elements(np.empty(part.stop - part.start, np.uint8), resource)
        if (data.dtype, data.size) == (expected.dtype, expected.size):
            return resource.in_buffer(data.view(np.uint8), part.start)
        takes.append(f"{expected.size} elements of {expected.dtype}")
    rule = f"hold {' or '.join(dict.fromkeys(takes))}"
    raise DmlError([Fault("", place, rule, shown_array(array))])

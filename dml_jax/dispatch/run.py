"""DxDispatch models from Python: arrays in, arrays out."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace

import jax
import numpy as np
from jax.core import Tracer

from dml_jax.arrays import check_there
from dml_jax.binding import Bound
from dml_jax.binding_table import IS_DEVICE, checked_type
from dml_jax.dispatch.executor import Executor, bounds_of, shaped, typed
from dml_jax.dispatch.free_memory import Device
from dml_jax.dispatch.model import Dispatch, Model, WriteFile
from dml_jax.dispatch.resources import Resource
from dml_jax.errors import DmlError, Expect, Fault, Unquoted, nearest
from dml_jax.files import path_given
from dml_jax.tensor import shown_array

Array = jax.Array | np.ndarray | np.generic


def run_model(
    model: Model,
    values: Mapping[str, Array] = {},
    *,
    device: Device | None = None,
    output_folder: os.PathLike[str] | str | None = None,
) -> dict[str, np.ndarray]:
    """What the resources of a DxDispatch model hold when its commands have run.

    Args:
        model: of `load_model`.
        values: by the resource's name, what it holds at first in place of the model's
            `initialValues`: an array of the resource's type, in any shape, of as many elements as
            these, or as are returned of it. What they leave of the resource is zero.
        device: a `jax.Device`; None is the default one.
        output_folder: what the paths of `writeFile` commands start from; None writes no file.

    Returns:
        By the resource's name its elements, in memory of their own: as many as `sizeInBytes` has,
        or else as have initial values or are in a tensor that is bound; in the sizes of the tensor
        that fills them (of an output before an input), or on one axis. Bytes, where the resource
        has no type, or its size is no multiple of it.

    Raises `DmlError` where a value does not fit its resource, and where the model does not fit into
    memory, has 64-bit types that JAX has not, or cannot read or write its files.

    Source: DxDispatch's Guide.md.
    """
    expect = Expect("")
    expect(isinstance(model, Model), "model", "be a Model (of load_model)", model)
    expect(isinstance(values, Mapping), "values", "be arrays by the resource's name", values)
    expect(device is None or isinstance(device, jax.Device), "device", IS_DEVICE, device)
    expect.check()
    folder = path_given("" if output_folder is None else output_folder, "output_folder")
    kinds = Dispatch if output_folder is None else (Dispatch, WriteFile)
    commands = tuple(command for command in model.commands if isinstance(command, kinds))
    bounds = bounds_of(model)
    used = {name: _used(resource, bounds[name]) for name, resource in model.resources.items()}
    executor = Executor(
        replace(model, commands=commands),
        device or _default_device(),
        folder=folder,
        initial=_initial(model, values, used),
    )
    executor.run()
    return {
        name: shaped(executor.values(resource, used[name]), bounds[name]).copy()
        for name, resource in model.resources.items()
    }


def _default_device() -> Device:
    array = jax.device_put(np.zeros(()))
    if isinstance(array, Tracer):
        rule = "be outside of jax.jit (an operator is a function, `dispatchable.operator`)"
        raise DmlError([Fault("", "run_model", rule, Unquoted("a call inside"))])
    (device,) = array.devices()
    return device


def _used(resource: Resource, bounds: Iterable[Bound]) -> slice:
    """The bytes of a resource that are more than padding."""
    part = resource.written()
    ends = [(b.offset, b.offset + b.tensor.span_in_bytes) for b in bounds]
    start, stop = zip((part.start, part.stop), *ends, strict=True)
    return slice(min(start), min(max(stop), resource.size_in_bytes))


def _initial(
    model: Model, values: Mapping[str, Array], used: Mapping[str, slice]
) -> dict[str, np.ndarray]:
    """The bytes of the resources that are given values."""
    found, faults = dict[str, np.ndarray](), list[Fault]()
    for name, array in values.items():
        place = f"values[{name!r}]"
        try:
            if name not in model.resources:
                rule = f"be of one of the model's resources{nearest(name, model.resources)}"
                raise DmlError([Fault("", place, rule, shown_array(array))])
            found[name] = _bytes_of(array, model.resources[name], used[name], place)
        except DmlError as error:
            faults += error.faults
    if faults:
        raise DmlError(faults)
    return found


def _bytes_of(array: Array, resource: Resource, used: slice, place: str) -> np.ndarray:
    """A whole resource that holds an array: where its initial values lie, or all that is used."""
    checked_type(array, place)
    check_there(array, place)
    data, takes = np.array(array).reshape(-1), list[str]()
    for part in (resource.initialised, used):
        expected = typed(np.empty(part.stop - part.start, np.uint8), resource)
        if (data.dtype, data.size) == (expected.dtype, expected.size):
            return resource.placed(data.view(np.uint8), part.start)
        takes.append(f"{expected.size} elements of {expected.dtype}")
    rule = f"hold {' or '.join(dict.fromkeys(takes))}"
    raise DmlError([Fault("", place, rule, shown_array(array))])

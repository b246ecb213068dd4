"""Runs the commands of a model on one device, in order; buffers keep their state."""

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import InitVar, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

import jax
import numpy as np

from dml_jax.description.tensor import X64_RULE, needs_x64
from dml_jax.dxdispatch.model import Command, Dispatch, Model, Print, Result, WriteFile
from dml_jax.dxdispatch.pictures import IMAGE_TYPES, to_image
from dml_jax.dxdispatch.reading import path_of
from dml_jax.dxdispatch.repetition import ONCE, Timing, Track
from dml_jax.dxdispatch.resources import Resource
from dml_jax.errors import DmlError, Fault, Unquoted, inside, printable
from dml_jax.memory.binding import TensorInMemory
from dml_jax.memory.binding_table import BindingTable, Buffer
from dml_jax.operator.call import Bindable
from dml_jax.system import free_memory
from dml_jax.system.files import absolute, check_writable, write_npy, write_whole
from dml_jax.system.free_memory import Device

Sizes = tuple[int, ...]
Record = Callable[[str, dict[str, Any]], None]


@dataclass(eq=False)
class Executor:
    """A model on a device: its resources in memory, its dispatches compiled.

    Args:
        say: a function of each part of the report, of one or several lines.
        track: wraps the iterations of a dispatch, for a progress bar.
        record: a function of (kind, facts) of each result, for machines.
        folder: the folder of the files that are written; no target may lie elsewhere.
        initial: the initial bytes of resources, by name, in place of those of the model.
        print_most: the number of elements of a printed resource that the report shows at most.
        print_commands: whether each command is reported before it is run.

    Raises `DmlError` if the resources do not fit into the device's memory, or have 64-bit types
    which JAX does not have at present.
    """

    model: Model
    device: Device
    say: Callable[[str], None] = lambda text: None
    timing: Timing = ONCE
    track: Track = lambda iterations, _: iterations
    record: Record = lambda kind, facts: None
    folder: Path = Path()
    initial: InitVar[Mapping[str, np.ndarray]] = MappingProxyType({})
    print_most: int | None = None
    print_commands: bool = False

    def __post_init__(self, initial: Mapping[str, np.ndarray]) -> None:
        model, device = self.model, self.device
        self._results: dict[str, Result] = {}  # of the dispatches so far, by resource
        _check_types(model)
        check_memory({r.context: r.size_in_bytes for r in model.memory.values()}, device)
        tensors = tensors_of(model)

        def contents(resource: Resource) -> np.ndarray:
            data = initial.get(resource.name)
            elements = as_elements(resource.bytes() if data is None else data, resource)
            return in_shape(elements, tensors[resource.name])

        self.buffers = {
            name: Buffer(jax.device_put(contents(resource), device))
            for name, resource in model.memory.items()
        }
        # By name and tensors: dispatches with the same bindings share one program.
        self._tables: dict[Any, BindingTable] = {}
        for name in model.dispatchables:
            dispatches = [d for d in model.dispatches if d.dispatchable.name == name]
            start = time.perf_counter()
            for dispatch in dispatches:
                if (name, dispatch.tensors) not in self._tables:
                    operator = dispatch.dispatchable.operator
                    table = BindingTable(name, operator, dispatch.tensors, self.buffers)
                    where = dispatch.dispatchable
                    check_temporary(operator, table.bytes_temporary, device, where.context)
                    self._tables[name, dispatch.tensors] = table
            if self.timing.verbosity > 0 and dispatches:
                self.say(f"Initialize {_shown(name)}: {(time.perf_counter() - start) * 1e3:.4f} ms")

    def hlo(self) -> Iterator[tuple[str, str]]:
        """Yield (dispatchable, optimised HLO) of each program that a dispatch runs."""
        for table in self._tables.values():
            yield table.name, table.as_text()

    def run(self) -> None:
        """Execute the commands. Raises `DmlError` if one fails.

        Before the first command, `run` checks that every file can be written.
        """
        for command in self.model.commands:
            if isinstance(command, WriteFile):
                with self._writing(command) as target:
                    check_writable(target, "targetPath")
        for index, command in enumerate(self.model.commands):
            if self.print_commands:
                self.say(f"Command {index}: {_command_text(command)}")
            match command:
                case Dispatch():
                    self._dispatch(command)
                case Print():
                    self._print(command)
                case WriteFile():
                    resource = self.model.resources[command.resource]
                    with self._writing(command) as target:
                        values, dimensions = self._written(resource, command.dimensions)
                        write_file(target, values, dimensions)
                    self.say(f"Resource {_shown(resource.name)} written to {_shown(target)}")
                    self.record("files", {"resource": resource.name, "path": str(target)})

    @contextlib.contextmanager
    def _writing(self, command: WriteFile) -> Iterator[Path]:
        """Yield the path of the file to be written; put errors within its resource.

        A model writes nowhere but in the folder that its user chose, links followed.
        """
        with inside(self.model.resources[command.resource].context):
            name = path_of(command.target_path)
            target = self.folder / name
            if _leaves(self.folder, name):
                rule = f"lie in the folder '{absolute(self.folder)}' (another one: --output_path "
                rule += "FOLDER, or output_folder= of run_model)"
                raise DmlError([Fault("", "targetPath", rule, command.target_path)])
            if self.model.path is not None and _is_same(target, self.model.path):
                rule = "be another file than the model"
                raise DmlError([Fault("", "targetPath", rule, command.target_path)])
            yield target

    def _written(self, resource: Resource, sizes: Sizes) -> tuple[np.ndarray, Sizes]:
        """Return what a file gets, and its sizes. Raises `DmlError` where `sizes` do not fit."""
        values = self.result(resource)
        if values is None:
            return self.values(resource, resource.written(sizes)), sizes
        if sizes and math.prod(sizes) != values.size:
            rule = f"hold {values.size} elements, as the network gives"
            raise DmlError([Fault("", "dimensions", rule, list(sizes))])
        return values, sizes or values.shape

    def _dispatch(self, dispatch: Dispatch) -> None:
        table = self._tables[dispatch.dispatchable.name, dispatch.tensors]
        samples = self.timing.measure(table.name, table.dispatch, table.wait, self.track)
        self._results |= self.model.results_of(dispatch)
        self.record("dispatches", {"name": table.name, "samples_ms": samples})
        for line in self.timing.report(table.name, samples):
            self.say(line)

    def result(self, resource: Resource) -> np.ndarray | None:
        """Return the tensor that a network left in a deferred resource, without its padding."""
        found = self._results.get(resource.name)
        if found is None:
            return None
        array = self._tensor(found.place).reshape(found.shape)
        if found.axis is None or found.count is None:
            return array
        return array.take(range(self._tensor(found.count).item()), found.axis)

    def _tensor(self, place: TensorInMemory) -> np.ndarray:
        return np.asarray(place.read(self.buffers[place.memory].array))

    def values(self, resource: Resource, part: slice) -> np.ndarray:
        """Return the elements of `resource` in `part`, which counts bytes."""
        data = np.asarray(self.buffers[resource.name].array).reshape(-1).view(np.uint8)[part]
        return as_elements(data, resource)

    def _print(self, command: Print) -> None:
        resource = self.model.resources[command.resource]
        values = self.result(resource)
        if values is None:
            values = self.values(resource, resource.initialised)
        values = values.reshape(-1)
        self.record("resources", {"name": resource.name, "values": values})
        title = f"Resource {_shown(resource.name)}:"
        width, rest = len(str(len(values))), len(values) - (self.print_most or len(values))
        values = values[: self.print_most]
        more = [f"... {rest} more (--json prints all)"] if rest > 0 else []
        if not command.verbose:
            self.say(f"{title} {', '.join([*stream_text(values), *more])}")
            return
        digits = values.itemsize * 2
        bits = values.view(f"u{values.itemsize}")
        lines = (
            f"[{index:{width}}] {text} (0x{pattern:0{digits}X})"
            for index, (text, pattern) in enumerate(zip(stream_text(values), bits, strict=True))
        )
        self.say("\n".join([title, *lines, *more]))


def _command_text(command: Command) -> str:
    match command:
        case Dispatch():
            return f"dispatch {_shown(command.dispatchable.name)}"
        case Print():
            return f"print {_shown(command.resource)}"
    return f"writeFile {_shown(command.resource)} to {_shown(command.target_path)}"


def _shown(name: object) -> str:
    return f"'{printable(str(name))}'"


def _leaves(folder: Path, name: Path) -> bool:
    """Return whether the path `name` leads out of `folder`, links followed."""
    try:
        return not (folder / name).resolve().is_relative_to(folder.resolve())
    except OSError:  # the current folder has been removed
        return name.is_absolute() or ".." in name.parts


def _is_same(a: Path, b: Path) -> bool:
    """Return whether two paths lead to one file; False if the current folder has been removed."""
    try:
        return a.resolve() == b.resolve()
    except OSError:
        return False


def as_elements(data: np.ndarray, resource: Resource) -> np.ndarray:
    """Return the bytes `data` as elements of the resource's type, if there is no remainder."""
    element = resource.data_type.element_size
    if element and data.size % element == 0:
        return data.view(resource.data_type.dtype)
    return data


def in_shape(array: np.ndarray, tensors: Iterable[TensorInMemory]) -> np.ndarray:
    """Return `array` in the sizes of the first of `tensors` that fills it, as `Buffer.of` does."""
    sizes = next((place.tensor.sizes for place in tensors if place.fills(array)), array.shape)
    return array.reshape(sizes)


def tensors_of(model: Model) -> dict[str, list[TensorInMemory]]:
    """Return the tensors in each resource of `model`, by its name, outputs first."""
    by_resource: dict[str, list[TensorInMemory]] = {name: [] for name in model.memory}
    tensors = (place for dispatch in model.dispatches for place in dispatch.tensors)
    for place in sorted(tensors, key=lambda place: not place.output):
        by_resource[place.memory].append(place)
    return by_resource


def _check_types(model: Model) -> None:
    """Refuse 64-bit types if JAX has none at present: it would narrow them silently."""
    faults = [
        Fault("", "its type", X64_RULE, resource.data_type.shown(), (resource.context,))
        for resource in model.memory.values()
        if needs_x64(resource.data_type)
    ]
    faults += [
        Fault(d.operator.c_name, place.path, X64_RULE, place.tensor.shown(), (d.context,))
        for d, place in ((d.dispatchable, place) for d in model.dispatches for place in d.tensors)
        if needs_x64(place.tensor.data_type)
    ]
    if faults:
        raise DmlError(dict.fromkeys(faults))


def check_memory(sizes: Mapping[str, int], device: Device) -> None:
    """Refuse arrays that do not fit, before the first of them is made.

    `sizes` has the bytes of each, by the words for it.
    """
    total, largest = sum(sizes.values()), max(sizes, key=lambda name: sizes[name], default="")
    # The host holds one array at a time on its way to the device.
    host = sizes.get(largest, 0) + (total if device.platform == "cpu" else 0)
    for needed, free in (
        (total, free_memory.device_bytes(device)),
        (host, free_memory.host_bytes()),
    ):
        if free is not None and needed > free:
            rule = f"fit, with the other resources, into the {free} bytes that are free"
            value = Unquoted(f"{sizes[largest]} of {needed} bytes")
            raise DmlError([Fault("", "its size", rule, value, (largest,))])


def check_temporary(function: Bindable, needed: int, device: Device, where: str) -> None:
    """Refuse a dispatch of a function whose temporary memory, of `needed` bytes, does not fit."""
    free = free_memory.free_bytes(device)
    if free is not None and needed > free:
        rule = f"fit into the {free} bytes that are free"
        value = Unquoted(f"{needed} bytes")
        raise DmlError([Fault(function.c_name, "the temporary memory", rule, value, (where,))])


def stream_text(values: np.ndarray) -> Iterator[str]:
    """Return numbers as a C++ stream prints them: floats with six significant digits."""
    show = "{:g}".format if np.issubdtype(values.dtype, np.floating) else str
    return map(show, values.tolist())


def write_file(target: Path, values: np.ndarray, dimensions: tuple[int, ...]) -> None:
    """Write `values` as .npy, as a picture, or as raw bytes, by the name of `target`."""
    suffix = target.suffix.lower()

    def write(file: IO[bytes]) -> None:
        if suffix == ".npy":
            write_npy(file, values.reshape(dimensions or -1))
        elif suffix in IMAGE_TYPES:
            kind = "PNG" if suffix == ".png" else "JPEG"
            picture = to_image(values.reshape(dimensions), kind == "JPEG")
            picture.save(file, kind, quality=95)  # of JPEG; PNG loses nothing
        else:
            file.write(values.data)

    write_whole(target, write, "targetPath")

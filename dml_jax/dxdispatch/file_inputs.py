"""Inputs of networks, from files and pictures; random ones without a file."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dml_jax.dxdispatch.pictures import IMAGE_TYPES, upright_size
from dml_jax.dxdispatch.resources import UNKNOWN, Values, reading, values_of_file
from dml_jax.enums import TensorDataType
from dml_jax.errors import DmlError, Fault, Sentence, Unquoted, collecting, nearest, raise_if
from dml_jax.operator.call import BindPoint

if TYPE_CHECKING:
    from dml_jax.onnx import Network


@dataclass
class Pictures:
    """What is done to pictures.

    Attributes:
        mean: what is subtracted from each channel, or from all; None for nothing.
        std: what each channel is divided by then, or all; None for nothing.
        said: what was done to each input, by its name.
    """

    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None
    said: dict[str, str] = field(default_factory=dict)

    def normalize(self, name: str, path: Path, planes: np.ndarray) -> np.ndarray:
        """Return a picture, [..., C, H, W], as a network gets it; `said` tells what was done.

        Raises `DmlError` where a picture of integers has a mean, or the channels are others.
        """
        width, height = upright_size(path)
        channels, *sizes = planes.shape[-3:]
        kind = {1: "grey", 3: "RGB", 4: "RGBA"}[channels]
        text = f"{width} x {height} pixels"
        if (height, width) != tuple(sizes):
            text += f", resized to {sizes[1]} x {sizes[0]}"
        is_real = np.issubdtype(planes.dtype, np.floating)
        text += f", {kind} in {'[0, 1]' if is_real else '[0, 255]'}"
        for word, numbers in (("mean", self.mean), ("std", self.std)):
            if numbers is None:
                continue
            if not is_real:
                rule = f"be floats for --{word}"
                raise DmlError([Fault("", "the picture", rule, Unquoted(planes.dtype.name))])
            if len(numbers) not in (1, channels) or (word == "std" and 0 in numbers):
                rule = f"be 1 or {channels} numbers" + " other than 0" * (word == "std")
                raise DmlError([Fault("", f"--{word}", rule, list(numbers))])
            own = np.array(numbers, planes.dtype).reshape(-1, 1, 1)
            planes = planes - own if word == "mean" else planes / own
            shown = ", ".join(f"{number:g}" for number in numbers)
            text += f", {'minus' if word == 'mean' else 'divided by'} {shown}"
        low, high = float(planes.min()), float(planes.max())
        self.said[name] = f"{text}; elements from {low:.4g} to {high:.4g}"
        return planes


def read_inputs(
    network: "Network", files: Mapping[str, Path], pictures: Pictures
) -> dict[str, np.ndarray]:
    """Return an array for each input of a network: of its file, or a random one.

    `pictures` normalizes those that are pictures. Raises `DmlError` with all faults.
    """
    points = {point.name: point for point in network.bind_points() if not point.output}
    known = {**network.inputs, **network.defaults}
    found, faults = {}, list[Fault]()
    for name, path in files.items():
        with collecting(faults, f"Input '{name}'"):
            if name in network.fixed:
                rule = "keep its default, which decided something at load "
                raise DmlError([Fault("", "--input", f"{rule}(--constant {name}:VALUE)", name)])
            if name in network.options.constants:
                rule = f"name an input without a --constant (--constant {name}: has its value)"
                raise DmlError([Fault("", "--input", rule, name)])
            if name not in known:
                listed = f" ({', '.join(known)})"
                rule = f"name an input{nearest(name, known) or listed}"
                raise DmlError([Fault("", "--input", rule, name)])
            if name in network.without_memory:
                shape = list(known[name].shape or ())
                rule = "name an input with elements (this one needs no file)"
                raise DmlError([Fault("", "--input", rule, Unquoted(f"shape {shape}"))])
            found[name] = _read(network, points[name], path, pictures)
    raise_if(faults)
    missing = network.random_inputs() if found.keys() < points.keys() else {}
    for name in points.keys() - found.keys():
        (tensor,) = points[name].tensors
        found[name] = missing[name].astype(tensor.dtype).reshape(tensor.sizes)
    return {name: found[name] for name in points}


def _read(network: "Network", point: BindPoint, path: Path, pictures: Pictures) -> np.ndarray:
    (tensor,), kind = point.tensors, path.suffix.lower()
    places, sizes = None, None
    if kind in IMAGE_TYPES:
        places = channels, height, width = _places(network, point, path)
        sizes = tensor.sizes[channels], tensor.sizes[height], tensor.sizes[width]
    # An array of another type gets a message of its own.
    data_type = UNKNOWN if kind == ".npy" else tensor.data_type
    values = values_of_file(str(path), path.absolute, data_type, sizes)
    _check_input(network, point, path, values)
    data = np.ascontiguousarray(values.make()).reshape(-1).view(np.uint8)
    if places and sizes:
        planes = pictures.normalize(point.name, path, data.view(tensor.dtype).reshape(sizes))
        return np.moveaxis(planes, 0, places[0]).reshape(tensor.sizes)
    if tensor.data_type.element_size:
        return data.view(tensor.dtype).reshape(tensor.sizes)
    return np.asarray(tensor.read(data))


def _places(network: "Network", point: BindPoint, path: Path) -> tuple[int, int, int]:
    """Return the dimensions of an input that have the channels, height and width of a picture.

    Raises `DmlError` where no dimension can have the channels, and where the picture would shrink
    to a free height or width of size 1.
    """
    (tensor,) = point.tensors
    with reading(str(path), path.suffix.lower()):
        width, height = upright_size(path)
    sizes, kinds = tensor.sizes, ((-3, -2, -1), (-1, -3, -2))
    names = network.free.get(point.name) or [None] * len(sizes)
    found = [p for p in kinds if len(sizes) >= 3 and sizes[p[0]] in (1, 3, 4)]
    if not found:
        rule = "be [..., C, H, W] or [..., H, W, C] with 1, 3 or 4 channels for a picture"
        raise DmlError([Fault("", f"the input '{point.name}'", rule, Unquoted(tensor.shown()))])
    # A free dimension is rarely the channels; of several fixed ones 3 is the likeliest.
    places = min(found, key=lambda p: (names[p[0]] is not None, sizes[p[0]] != 3))
    own = [*sizes]
    for place, size in ((places[1], height), (places[2], width)):
        own[place] = size if names[place] is not None and own[place] == 1 else own[place]
    if own != [*sizes]:
        rule = f"hold {tensor.shown()}{_cure_of(network, point, own)}"
        raise DmlError([Fault("", f"'{path}'", rule, Unquoted(f"{width} x {height} pixels"))])
    return places


def _check_input(network: "Network", point: BindPoint, path: Path, values: Values) -> None:
    """Raise `DmlError` where the values of the file at `path` are not those of the input `point`.

    A .npy file holds an array of the input's type and shape, or a flat one.
    """
    (tensor,), name = point.tensors, point.name
    wanted, got, size = tensor.data_type, values.data_type, tensor.span_in_bytes
    if values.shape is not None and got != wanted:
        is_bool = network.inputs[name].dtype == bool and got == TensorDataType.INT8
        if not is_bool:
            text = f"'{path}' holds {got}, the network wants {wanted} "
            text += f"(np.save(f, a.astype('{tensor.dtype.name}')))"
            raise DmlError([Fault("", "", Sentence(text), "")])
    shapes = (tensor.sizes, network.inputs[name].shape, (math.prod(tensor.sizes),))
    if values.size == size and (values.shape is None or values.shape in shapes):
        return
    rule = f"hold {tensor.shown()}{_cure(network, point, size, values)}"
    held = f"{values.size} bytes"
    if values.shape is not None:
        held = f"{got.suffix}[{','.join(map(str, values.shape))}]"
    else:
        rule += f", {size} bytes"
    raise DmlError([Fault("", f"'{path}'", rule, Unquoted(held))])


def _cure(network: "Network", point: BindPoint, size: int, values: Values) -> str:
    """Return ` (batch is 1: -f batch:8)` where free dimensions of other sizes fit the values."""
    sizes, names = point.tensors[0].sizes, network.free.get(point.name, ())
    free = [k for k, name in enumerate(names) if name is not None]
    shape = values.shape
    if (shape is None or len(shape) == 1 != len(sizes)) and len(free) == 1:
        shape = list(sizes)
        shape[free[0]] = shape[free[0]] * values.size // size
        if math.prod(shape) * size != math.prod(sizes) * values.size:
            return ""
    if shape is None or len(shape) != len(sizes) or not free:
        return ""
    return _cure_of(network, point, shape)


def _cure_of(network: "Network", point: BindPoint, shape: Sequence[int]) -> str:
    """Return the options that give an input a shape; "" where another dimension is fixed."""
    sizes, names = point.tensors[0].sizes, network.free.get(point.name, ())
    free = [k for k, name in enumerate(names) if name is not None]
    other = [k for k, pair in enumerate(zip(sizes, shape, strict=True)) if pair[0] != pair[1]]
    if not set(other) <= set(free):
        return ""
    said = ", ".join(f"{names[k] or f'dimension {k}'} is {sizes[k]}" for k in other)
    options = " ".join(f"-f {names[k]}:{shape[k]}" for k in other)
    if not all(names[k] for k in other):
        options = f"-b {point.name}:{','.join(map(str, shape))}"
    return f" ({said}: {options})"

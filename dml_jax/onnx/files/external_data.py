"""Elements of tensors that lie in files beside the model: ONNX's external data."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.external_data_helper import uses_external_data as is_external

from dml_jax.errors import DmlError, Fault, Unquoted, collecting, raise_if
from dml_jax.onnx.files.lazy_initializers import Places, read_from
from dml_jax.onnx.files.types import readable
from dml_jax.system.aligned_memory import LARGE, align

_LONGEST = 4096  # characters of a path, of which Linux takes no more
_KNOWN = {"location", "offset", "length", "checksum"}  # entries of external data


@dataclass(frozen=True)
class Folder:
    """Where the files of a model's external data are.

    Attributes:
        apparent: the folder that locations start from.
        true: the folder of the model's file, after symbolic links are followed. Bytes have none.
        large: where the elements of large initializers are, which the model itself lacks.
        arrays: the functions that make elements when they are read, by the name of the tensor.
    """

    apparent: Path = Path()
    true: Path = Path()
    large: Places = field(default_factory=Places)
    arrays: Mapping[str, Callable[[], np.ndarray]] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path) -> "Folder":
        """Return the folder of the model at `path`."""
        return cls(path.parent, path.resolve().parent)

    def array(self, tensor: onnx.TensorProto, what: str = "the initializer") -> np.ndarray:
        """Return the elements of a tensor.

        Raises `DmlError`, which names the tensor as `what`, where they cannot be read, or where
        their file lies outside of the folder.
        """
        if tensor.name in self.arrays and not tensor.HasField("raw_data"):
            return self.arrays[tensor.name]()
        where = f"{what} '{tensor.name}'"
        with readable(where):
            elements = self.large.bytes_of(tensor)
            if elements is not None:
                return _array(tensor, elements)
            tensor, base = self._found(tensor, where)
            return _read(tensor, Path(base))

    def expect_within(self, path: Path, where: str) -> Path:
        """Return a path once symbolic links are followed.

        Raises `DmlError`, which names the file as `where`, for one outside of the folder.
        """
        if len(str(path)) > _LONGEST:
            rule = f"have a path of at most {_LONGEST} characters"
            raise DmlError([Fault("", where, rule, Unquoted(len(str(path))))])
        try:
            true = path.resolve()
        except (ValueError, OSError, RuntimeError) as error:  # no name, or links in a circle
            raise DmlError(
                [Fault("", where, f"have a path that leads to a file ({error})", str(path))]
            ) from None
        # Hugging Face's cache has links from a folder of names to one of contents, so that both are
        # the model's. Any other place could be a secret of the user that a stranger's file names.
        roots = self.apparent.resolve(), self.true
        if not any(true.is_relative_to(root.resolve()) for root in roots):
            rule = f"have its data in the model's folder '{self.apparent}' once symbolic links are "
            rule += f"followed, or in '{self.true}' (copy the file there)"
            raise DmlError([Fault("", where, rule, str(true))])
        return true

    def _found(self, tensor: onnx.TensorProto, where: str) -> tuple[onnx.TensorProto, str]:
        """Return a tensor and the folder of its file, without symbolic links on the way."""
        if tensor.HasField("raw_data"):  # in place of what lies in the file
            own = deepcopy(tensor)
            own.data_location = onnx.TensorProto.DEFAULT
            return own, str(self.apparent)
        location = next((e.value for e in tensor.external_data if e.key == "location"), "")
        base = str(self.apparent)
        if not is_external(tensor) or not location:
            return tensor, base
        if self.true == Path():  # files of the current folder may be another model's
            rule = "lie in the model's bytes (give its path: a file beside it has the elements)"
            raise DmlError([Fault("", where, rule, location)])
        path = Path(location)
        if path.is_absolute() or ".." in path.parts:
            return tensor, base  # ONNX refuses it
        true = self.expect_within(self.apparent / path, where)
        found = deepcopy(tensor)
        for entry in found.external_data:
            entry.value = true.name if entry.key == "location" else entry.value
        if all(entry.key != "length" for entry in found.external_data):
            length = -(-math.prod(tensor.dims) * _bits(tensor.data_type) // 8)
            found.external_data.add(key="length", value=str(length))
        return found, str(true.parent)


def computed_tensor(name: str, dtype: Any, sizes: Sequence[int]) -> onnx.TensorProto:
    """Return a tensor whose elements are one of `Folder.arrays`."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    place = onnx.TensorProto.EXTERNAL
    return onnx.TensorProto(name=name, dims=sizes, data_type=kind, data_location=place)


def _read(tensor: onnx.TensorProto, base: Path) -> np.ndarray:
    """Return the elements of a tensor, of its file in a folder if it has one.

    ONNX's package reads what is small or broken.
    """
    entries = {entry.key: entry.value for entry in tensor.external_data}
    path, size = base / entries.get("location", ""), _size_in_bytes(tensor)
    is_large = is_external(tensor) and size >= LARGE and {*entries} <= _KNOWN
    is_within = is_large and path.parent == base and path.is_file() and not path.is_symlink()
    if is_within and entries.get("length") == str(size):
        found = read_from(path, int(entries.get("offset", "0")), size)
        if found is not None:
            return _array(tensor, found)
    return align(numpy_helper.to_array(tensor, str(base)))


def _size_in_bytes(tensor: onnx.TensorProto) -> int:
    """Return how many bytes the elements take; 0 where each takes other than whole ones."""
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type))
    is_plain = dtype.kind in "iufc" or dtype.name == "bfloat16"
    return math.prod(tensor.dims) * dtype.itemsize * is_plain


def _bits(element: int) -> int:
    """Return the bits that an element takes in a file; names of smaller types say them."""
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(element))
    few = re.fullmatch(r"(?:u?int|float)([24])(?:_.*)?", dtype.name)
    return int(few[1]) if few else 8 * dtype.itemsize


def _array(tensor: onnx.TensorProto, elements: np.ndarray) -> np.ndarray:
    """Return the elements of a tensor that are somewhere else, of their bytes."""
    if len(elements) == _size_in_bytes(tensor):
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type))
        elements.flags.writeable = False
        return elements.view(dtype).reshape(tensor.dims)
    whole = deepcopy(tensor)  # several elements in a byte, or too few
    del whole.external_data[:]
    whole.raw_data = elements.tobytes()
    return numpy_helper.to_array(whole)


def with_inner_elements(proto: onnx.ModelProto, folder: Folder, is_own: bool) -> onnx.ModelProto:
    """Return a model whose tensors all hold their elements, but for the initializers of its graph.

    `is_own` says whether `proto` may be changed. Raises `DmlError` with each tensor whose elements
    cannot be read.
    """
    if not any(map(is_external, _inner(proto))):
        return proto
    proto = proto if is_own else deepcopy(proto)
    faults = list[Fault]()
    for tensor in filter(is_external, _inner(proto)):
        with collecting(faults):
            array = folder.array(tensor, "the tensor")
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    raise_if(faults)
    return proto


def files_of(proto: onnx.ModelProto, folder: Folder) -> list[Path]:
    """Return the files in which elements of tensors lie, by name."""
    found = {
        folder.apparent / entry.value
        for tensor in tensors_of(proto)
        if is_external(tensor)
        for entry in tensor.external_data
        if entry.key == "location" and isinstance(entry.value, str)
    }
    return sorted(found)


def tensors_of(proto: onnx.ModelProto) -> list[onnx.TensorProto]:
    """Return all tensors of a model."""
    sparse = [t for s in proto.graph.sparse_initializer for t in (s.values, s.indices)]
    return [*proto.graph.initializer, *sparse, *_inner(proto)]


def _inner(proto: onnx.ModelProto) -> list[onnx.TensorProto]:
    """Return the tensors of a model that are no initializers of its graph."""
    return [t for part in (*proto.graph.node, *proto.functions) for t in _tensors(part)]


def _tensors(message: Any) -> list[onnx.TensorProto]:
    """Return the tensors within a message, wherever they stand."""
    if isinstance(message, onnx.TensorProto):
        return [message]
    fields = [value for field, value in message.ListFields() if field.message_type is not None]
    parts = [part for value in fields for part in (value if hasattr(value, "add") else (value,))]
    return [tensor for part in parts for tensor in _tensors(part)]

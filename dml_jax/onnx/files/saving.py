"""Writes a model again, with other values of initializers."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import onnx
from google.protobuf.message import EncodeError
from onnx import TensorProto, checker, helper, numpy_helper
from onnx.external_data_helper import set_external_data

from dml_jax.errors import DmlError, Expect, Fault, Unquoted, nearest
from dml_jax.onnx.files.external_data import Folder, files_of, is_external, tensors_of
from dml_jax.onnx.files.model import Origin, parsed
from dml_jax.onnx.files.topology import graphs_of, within
from dml_jax.onnx.files.types import dense
from dml_jax.system.files import as_path, beside

_PAGE = 4096  # bytes: where tensors begin in a file, so that systems can map them
_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "raw_data")
_NARROW = {"float16": 6, "bfloat16": 13}
"""The types in which FLOAT may be stored, and the opset whose Cast reads them."""


@dataclass(frozen=True)
class _Place:
    """A tensor of a model that has a name.

    Attributes:
        tensor: its elements; those in its pattern, where it is sparse.
        sparse: the sparse tensor; None for a dense one.
    """

    tensor: TensorProto
    sparse: onnx.SparseTensorProto | None = None

    def array(self, folder: Folder) -> np.ndarray:
        """Return the elements."""
        sparse = self.sparse
        return folder.array(self.tensor) if sparse is None else dense(sparse, folder.array)

    def set(self, array: np.ndarray, folder: Folder) -> None:
        """Give the tensor other elements. A sparse one keeps its pattern where that holds them."""
        if self.sparse is None:
            return _set(self.tensor, array)
        indices = folder.array(self.sparse.indices)
        places = indices.reshape(len(indices), -1)
        if places.shape[1] == 1:
            places = np.stack(np.unravel_index(places[:, 0], array.shape), 1)
        outside = array.copy()
        outside[tuple(places.T)] = 0
        if outside.any():
            places = np.argwhere(array)
            _set(self.sparse.indices, places.astype(np.int64))
        return _set(self.tensor, array[tuple(places.T)])


def save(
    origin: Origin,
    path: Any,
    weights: Mapping[str, Any],
    dtype: Any = None,
    known: Mapping[str, Any] = {},
) -> list[str]:
    """Write a model again, as `save_onnx` says; return the names of the weights that differ.

    `origin` is what is written again, and is not changed. `known` are the values that names which
    the model lacks may have. Raises `DmlError` with each value that does not fit.
    """
    target = as_path(path, "path")
    proto, folder = origin.read()
    _check_apart(origin, proto, folder, target)
    places: dict[str, list[_Place]] = {}
    for name, place in _places(proto):
        places.setdefault(name, []).append(place)
    expect, changes = Expect(""), dict[str, np.ndarray]()
    expect(isinstance(weights, Mapping), "weights", "be a dictionary of arrays by name", weights)
    expect.check()
    for name, value in {**known, **weights}.items():
        array = _change(expect, name, np.asarray(value), places, folder, known.get(name))
        if array is not None:
            changes[name] = array
    expect.check()
    for name, array in changes.items():
        for place in places[name]:
            place.set(array, folder)
    if dtype is not None:
        _narrow(proto, folder, dtype.lower() if isinstance(dtype, str) else np.dtype(dtype).name)
    _write(origin, proto, folder, target)
    return [*changes]


def _change(
    expect: Expect,
    name: str,
    value: np.ndarray,
    places: Mapping[str, list[_Place]],
    folder: Folder,
    known: Any,
) -> np.ndarray | None:
    """Return the new elements of the tensors of a name; None where they stay, or do not fit."""
    found = places.get(name, ())
    # Tensors of several graphs may have one name: `load_onnx` numbers those that differ.
    same_name = found or places.get(re.sub(r" \(\d+\)$", "", name), ())
    if not same_name:
        is_kept = known is not None and _is_same(np.asarray(known), value)
        expect(is_kept, "weights", f"name an initializer of the model{nearest(name, places)}", name)
        return None
    array = _fitting(expect, name, value, same_name[0])
    if array is None:
        return None
    olds = [place.array(folder) for place in same_name]
    is_one = bool(found) and all(_is_same(old, olds[0]) for old in olds)
    is_old = any(_is_same(old, array) for old in olds)
    rule = "keep its value, since tensors of this name in several graphs of the model differ"
    expect(is_one or is_old, f"the weight '{name}'", rule, Unquoted("another one"))
    return None if is_old else array


def _is_same(one: np.ndarray, other: np.ndarray) -> bool:
    """Return whether arrays have the same bits."""
    is_alike = one.shape == other.shape and one.dtype == other.dtype
    return is_alike and one.tobytes() == other.tobytes()


def _fitting(expect: Expect, name: str, value: np.ndarray, place: _Place) -> np.ndarray | None:
    """Return a value in the type that the model has it in; None where it does not fit."""
    tensor, where = place.tensor, f"the weight '{name}'"
    shape = tuple(tensor.dims if place.sparse is None else place.sparse.dims)
    kind = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type))
    shown = TensorProto.DataType.Name(tensor.data_type)
    rule = f"have the shape {list(shape)} of the model"
    if not expect(value.shape == shape, where, rule, Unquoted(list(value.shape))):
        return None
    rule = f"be of numbers, in a type that {shown} holds"
    if not expect(value.dtype.kind in "biufV" and not value.dtype.names, where, rule, value.dtype):
        return None
    try:
        with np.errstate(all="ignore"):
            array = value.astype(kind)
            is_exact = (array.astype(value.dtype) == value) | (value != value)
    except (TypeError, ValueError):
        expect(False, where, rule, Unquoted(value.dtype))
        return None
    rule = f"hold numbers that {shown} holds (round them: .astype('{kind.name}'))"
    return array if expect(bool(np.all(is_exact)), where, rule, Unquoted(value.dtype)) else None


def _set(tensor: TensorProto, array: np.ndarray) -> None:
    """Give a tensor other elements. It keeps its name, its notes, and whether it is external."""
    made = numpy_helper.from_array(array)
    for field in _FIELDS:
        tensor.ClearField(field)
    tensor.dims[:], tensor.data_type, tensor.raw_data = made.dims, made.data_type, made.raw_data


def _places(proto: onnx.ModelProto) -> Iterator[tuple[str, _Place]]:
    """Yield the initializers and the constants of the graphs of a model, by name."""
    nodes = [*proto.graph.node, *(node for function in proto.functions for node in function.node)]
    inner = [graph for node in nodes for n in within(node) for graph in graphs_of(n)]
    for graph in (proto.graph, *inner):
        for tensor in graph.initializer:
            yield tensor.name, _Place(tensor)
        for sparse in graph.sparse_initializer:
            yield sparse.values.name, _Place(sparse.values, sparse)
        constants = [node for node in graph.node if node.op_type == "Constant" and node.output]
        for name, value in ((node.output[0], a) for node in constants for a in node.attribute):
            if value.HasField("t"):
                yield name, _Place(value.t)
            elif value.HasField("sparse_tensor"):
                yield name, _Place(value.sparse_tensor.values, value.sparse_tensor)


def _narrow(proto: onnx.ModelProto, folder: Folder, dtype: str) -> None:
    """Store the FLOAT initializers of the graph in another type, and let nodes cast them."""
    expect, graph, casts = Expect(""), proto.graph, list[onnx.NodeProto]()
    expect(dtype in _NARROW, "dtype", "be float16 or bfloat16, or None", Unquoted(dtype))
    expect.check()
    first = _NARROW[dtype]
    opset = max((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), default=1)
    rule = f"be {first} or above, where Cast takes {dtype}"
    expect(opset >= first, "the opset of the model", rule, opset)
    inputs = {value.name for value in graph.input}
    taken = {name for node in graph.node for name in (*node.input, *node.output)} | inputs
    for tensor in graph.initializer:
        if tensor.data_type != TensorProto.FLOAT or not tensor.dims or tensor.name in inputs:
            continue
        old, name = folder.array(tensor), tensor.name
        with np.errstate(over="ignore"):
            array = old.astype(dtype)
        rule = f"hold numbers that {dtype} does not turn into infinities"
        is_held = np.isfinite(array) | ~np.isfinite(old)
        expect(bool(is_held.all()), f"the weight '{name}'", rule, float(np.abs(old).max(initial=0)))
        tensor.name = f"{name}.{dtype}"
        while tensor.name in taken:
            tensor.name += "'"
        _set(tensor, array)
        casts.append(helper.make_node("Cast", [tensor.name], [name], to=TensorProto.FLOAT))
    expect.check()
    nodes = [*casts, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)


def _check_apart(origin: Origin, proto: onnx.ModelProto, folder: Folder, target: Path) -> None:
    """Raise `DmlError` where files that are written are some that are read."""
    files = files_of(proto, folder)
    read = [*files, origin.model] if isinstance(origin.model, Path) else files
    for path in {target, _data_of(target)} if files else {target}:
        for other in read:
            # os.path takes names that no system has
            if path.exists() and os.path.exists(other) and path.samefile(other):  # noqa: PTH110
                rule = f"be another file than '{other}', which was read"
                raise DmlError([Fault("", "the file to write", rule, str(path))])


def _data_of(model: Path) -> Path:
    return model.with_name(f"{model.name}.data")


def _write(origin: Origin, proto: onnx.ModelProto, folder: Folder, target: Path) -> None:
    """Write a model and its external data, both beside their places, then rename them."""
    external = [tensor for tensor in tensors_of(proto) if is_external(tensor)]
    with beside(target, "the file") as (real, partial):
        if not external:
            _write_proto(proto, partial)
            _check(origin, partial)
        else:
            with beside(_data_of(real), "the file") as (real_data, partial_data):
                with partial_data.open("xb") as file:
                    for tensor in external:
                        _write_data(tensor, folder, file)
                _relocate(external, partial_data.name)
                _write_proto(proto, partial)
                _check(origin, partial)
                _relocate(external, real_data.name)
                _write_proto(proto, partial)
                partial_data.replace(real_data)
        partial.replace(real)


def _write_data(tensor: TensorProto, folder: Folder, file: IO[bytes]) -> None:
    """Write the elements of an external tensor; let the tensor say where they are."""
    if not tensor.HasField("raw_data"):
        _set(tensor, folder.array(tensor, "the tensor"))
    file.write(bytes(-file.tell() % _PAGE))
    set_external_data(tensor, "", file.tell(), len(tensor.raw_data))
    file.write(tensor.raw_data)
    tensor.ClearField("raw_data")


def _relocate(external: Iterable[TensorProto], name: str) -> None:
    for tensor in external:
        tensor.external_data[0].value = name


def _write_proto(proto: onnx.ModelProto, path: Path) -> None:
    try:
        path.write_bytes(proto.SerializeToString())
    except (EncodeError, ValueError):
        rule = "take less than 2 GiB besides its external data"
        value = Unquoted(f"{proto.ByteSize()} bytes")
        raise DmlError([Fault("", "the model", rule, value)]) from None


def _check(origin: Origin, path: Path) -> None:
    """Raise `DmlError` where ONNX's checker refuses a file that was made of a valid model."""
    text = _refusal(str(path))
    if not text:
        return
    is_path = isinstance(origin.model, Path)
    source = str(origin.model) if is_path else parsed(origin.model)[0].SerializeToString()
    if not _refusal(source):
        raise DmlError([Fault("", "the model", "be valid by ONNX's checker", Unquoted(text))])


def _refusal(model: str | bytes) -> str:
    """Return what ONNX's checker has to say against a model; nothing for a valid one."""
    try:
        checker.check_model(model)
    except Exception as error:  # it has no common class of errors
        return str(error).partition("\n")[0] or type(error).__name__
    return ""

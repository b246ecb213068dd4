"""Reads ONNX models: from files, bytes or protos, with sizes that are fixed."""

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import defs, helper, numpy_helper

from dml_jax.errors import DmlError, Expect, Fault, Unquoted, expect_few, nearest, with_article
from dml_jax.onnx.files.attributes import domain_of
from dml_jax.onnx.files.dimensions import names_in, size_of
from dml_jax.onnx.files.external_data import Folder, files_of, with_inner_elements
from dml_jax.onnx.files.lazy_initializers import contents, stamp_of, without_large
from dml_jax.onnx.files.types import Type
from dml_jax.system.files import unreadable

OPSET_MIN, OPSET_MAX = 1, 28
"""The opsets whose op types the translators know."""


@dataclass(frozen=True)
class Origin:
    """What a network was read from.

    Attributes:
        model: a path, the bytes of a file, or an onnx.ModelProto.
        stamp: the size of the file and the time of its last change.
        folder: where the files of external data are, for a model that is no path.
    """

    model: Any
    stamp: tuple[int, int] | None = None
    folder: Folder | None = None

    @classmethod
    def of(cls, model: Any, folder: Folder | None = None) -> "Origin":
        """Return the origin that is `model`."""
        if not isinstance(model, (str, Path)):
            return cls(model, folder=folder)
        path = Path(model).absolute()
        return cls(path, _stamp(path))

    def read(self) -> tuple[onnx.ModelProto, Folder]:
        """Return the model, which may be changed, and the folder of its external data.

        Raises `DmlError` where the file is not as it was.
        """
        if self.stamp is not None and _stamp(self.model) != self.stamp:
            rule, value = "be as it was when it was loaded", Unquoted("another file")
            raise DmlError([Fault("", f"the file '{self.model}'", rule, value)])
        proto, folder = parsed(self.model)
        if proto is self.model:
            proto = deepcopy(proto)
        return proto, self.folder or folder


def _stamp(path: Path) -> tuple[int, int] | None:
    return stamp_of(path) if path.exists() else None


@dataclass(frozen=True)
class Model:
    """A model whose inputs have fixed sizes.

    Attributes:
        origin: what it was read from.
        proto: the model.
        folder: where the files of its external data are.
        inputs: the type of each input that is no initializer, by name.
        opsets: the version of each domain that the model imports.
        defaults: the names of the inputs that are initializers too.
        files: the files of its external data.
    """

    origin: Origin
    proto: onnx.ModelProto
    folder: Folder
    inputs: Mapping[str, Type]
    opsets: Mapping[str, int]
    defaults: Collection[str]
    files: Sequence[Path] = ()

    @property
    def replaceable(self) -> Collection[str]:
        """Return the inputs whose initializers a call may replace: none below IR version 4."""
        return self.defaults if self.proto.ir_version >= 4 else ()


def read(
    model: Any,
    input_shapes: Mapping[str, Sequence[int]] | None,
    free_dimensions: Mapping[str, int] | None,
    constants: Mapping[str, Any] | None = None,
    folder: Folder | None = None,
) -> Model:
    """Return a model whose sizes are fixed. Raises `DmlError` with all faults.

    Args:
        model: a path, the bytes of a file, or a ModelProto.
        input_shapes: the sizes of inputs, by name.
        free_dimensions: the sizes that stand for the names of free dimensions.
        constants: the values of inputs, which become initializers.
        folder: where the files of external data are, for a model that is no path.
    """
    origin = Origin.of(model, folder)  # before the file is read: it may be written meanwhile
    proto, files = parsed(model, is_whole=False)
    files = files if folder is None else replace(folder, large=files.large)
    expect_few("the number of nodes", len(proto.graph.node))
    expect = Expect("")
    external = files_of(proto, files)
    proto = with_inner_elements(proto, files, is_own=proto is not model)
    proto = _with_initializers(expect, proto, constants or {})
    opsets = opsets_of(expect, proto)
    if proto.HasField("graph"):
        expect(bool(proto.graph.output), "the outputs", "be one or more", Unquoted("none"))
    else:
        expect(False, "the file", "hold a model", Unquoted("a model without a graph"))
    # Sizes come after the initializers of `constants`: an input with a value needs no size.
    inputs = _inputs(expect, proto.graph, dict(input_shapes or {}), dict(free_dimensions or {}))
    expect.check()
    initialized = {tensor.name for tensor in proto.graph.initializer}
    defaults = [v.name for v in proto.graph.input if v.name in initialized - {*(constants or {})}]
    return Model(origin, proto, files, inputs, opsets, defaults, external)


def opsets_of(expect: Expect, proto: onnx.ModelProto) -> dict[str, int]:
    """Return the version of each domain that a model imports; `expect` takes one out of range."""
    opsets = {domain_of(o.domain): o.version for o in proto.opset_import}
    opset = opsets.get("", OPSET_MIN)
    last = min(OPSET_MAX, defs.onnx_opset_version())
    expect(OPSET_MIN <= opset <= last, "the opset", f"be in [{OPSET_MIN}, {last}]", opset)
    return opsets


def _with_initializers(
    expect: Expect, proto: onnx.ModelProto, constants: Mapping[str, Any]
) -> onnx.ModelProto:
    """Return a model in which inputs have values."""
    if not constants:
        return proto
    made = deepcopy(proto)
    inputs = {value.name: value for value in proto.graph.input}
    for name, value in constants.items():
        if not expect(name in inputs, "constants", f"name an input{nearest(name, inputs)}", name):
            continue
        kind, where = inputs[name].type.tensor_type, f"the constant '{name}'"
        dtype, held = helper.tensor_dtype_to_np_dtype(kind.elem_type), np.asarray(value)
        with np.errstate(all="ignore"):
            array = held.astype(dtype)
        is_exact = dtype.kind not in "iub" or bool((array == held).all())
        expect(is_exact, where, f"hold numbers that {dtype.name} holds", Unquoted(str(value)))
        sizes = [d.dim_value if is_fixed(d) else None for d in kind.shape.dim]
        if array.size == 1 and kind.HasField("shape"):  # a number is a list of one too
            array = array.reshape((1,) * len(sizes))
        fits = len(sizes) == array.ndim and all(
            size in (None, n) for size, n in zip(sizes, array.shape, strict=True)
        )
        shown = ["any" if size is None else size for size in sizes]
        rule = f"have the sizes [{', '.join(map(str, shown))}]"
        expect(fits or not kind.HasField("shape"), where, rule, list(array.shape))
        made.graph.initializer.append(numpy_helper.from_array(array, name))  # the last one counts
    return made


def free_sizes(
    model: Any,
    free_dimensions: Mapping[str, int],
    denotations: Mapping[str, int] = {},
    shapes: Mapping[str, Sequence[int]] = {},
    settled: Collection[str] = (),
) -> tuple[dict[str, list[int]], dict[str, int]]:
    """Return `input_shapes` and `free_dimensions` that give size 1 to what has no size.

    Args:
        model: a path, the bytes of a file, or an onnx.ModelProto.
        free_dimensions: the sizes of some free dimensions, by name.
        denotations: the sizes of free dimensions by their denotations ("DATA_BATCH").
        shapes: the sizes of inputs; others have the sizes of their dimensions.
        settled: the inputs whose shapes may differ from the sizes of free dimensions.

    Raises `DmlError` for a denotation or an input that the model has not, and where a shape and a
    free dimension give two sizes to one dimension.
    """
    graph = _graph_of(model)
    values = {v.name: v for v in _required_inputs(graph)}
    every = [d for v in values.values() for d in v.type.tensor_type.shape.dim]
    known = {d.denotation: None for d in every if d.denotation and not is_fixed(d)}
    plain = {d.dim_param for d in every}
    expect = Expect("")
    for name in denotations:
        rule = f"be that of a free dimension{nearest(name, known)}"
        expect(name in known, "the denotation", rule, name)
    for name in shapes:
        rule = f"name an input or an output{nearest(name, values)}"
        is_known = name in values or any(name == output.name for output in graph.output)
        expect(is_known, "the shape", rule, name)
    expect.check()
    found = {}
    for name, value in values.items():
        dims = value.type.tensor_type.shape.dim
        if name in shapes:
            if name not in settled:
                _expect_agreement(expect, name, dims, shapes[name], free_dimensions)
            found[name] = list(shapes[name])
        elif not all(is_fixed(d) for d in dims):
            found[name] = [
                d.dim_value
                if is_fixed(d)
                else denotations.get(d.denotation, _size_or_1(d.dim_param, free_dimensions, plain))
                for d in dims
            ]
    expect.check()
    # `found` has the sizes of these, which may be others than those of their names.
    known = {d.dim_param for d in every if d.denotation in denotations}
    dims_of = (value.type.tensor_type.shape.dim for n, value in values.items() if n in settled)
    known |= {d.dim_param for dims in dims_of for d in dims}
    return found, {name: size for name, size in free_dimensions.items() if name not in known}


def _size_or_1(name: str, given: Mapping[str, int], plain: Collection[str]) -> int:
    """Return the size of a free dimension; names without a size in `given` have size 1.

    `plain` are the names of all free dimensions; a term of others is a term of these.
    """
    parts, known = names_in(name), {*plain, *given}
    is_term = parts <= known or ("-" not in name and bool(parts & known))  # a hyphen is no minus
    found = size_of(name, {**dict.fromkeys(parts if is_term else (), 1), **given})
    return 1 if found is None else found


def _expect_agreement(
    expect: Expect, name: str, dims: Sequence[Any], sizes: Sequence[int], free: Mapping[str, int]
) -> None:
    """Expect that the sizes of an input are those that the names of its dimensions have."""
    for k, (d, size) in enumerate(zip(dims, sizes, strict=False)):
        if not is_fixed(d) and d.dim_param in free:
            wanted = int(free[d.dim_param])
            rule = f"have size {wanted} in dimension {k}, as free_dimensions (-f) says of "
            rule += f"'{d.dim_param}'"
            got = Unquoted(f"{list(sizes)} of input_shapes (-b)")
            expect(int(size) == wanted, f"the input '{name}'", rule, got)


def free_names(model: Any) -> dict[str, list[str | None]]:
    """Return the name of each dimension of the inputs: None for a fixed one, "" without a name.

    `model` is a path, the bytes of a file, or an onnx.ModelProto. Inputs without a free dimension
    are left out.
    """
    found: dict[str, list[str | None]] = {}
    for value in _required_inputs(_graph_of(model)):
        dims = value.type.tensor_type.shape.dim
        if not all(map(is_fixed, dims)):
            found[value.name] = [None if is_fixed(d) else d.dim_param for d in dims]
    return found


def sizes_of(model: Any) -> tuple[set[str], set[str], set[str]]:
    """Return the names of what has sizes: free dimensions, their denotations, inputs and outputs.

    `model` is a path, the bytes of a file, or an onnx.ModelProto.
    """
    graph = _graph_of(model)
    dims = [d for v in graph.input for d in v.type.tensor_type.shape.dim if not is_fixed(d)]
    tensors = {value.name for value in (*graph.input, *graph.output)}
    names = {n for d in dims if d.dim_param for n in _names_of(d)}
    return names, {d.denotation for d in dims}, tensors


def names_within(model: Any) -> set[str]:
    """Return the names of the outputs of nodes, and of dimensions of these.

    `model` is a path, the bytes of a file, or an onnx.ModelProto.
    """
    graph = _graph_of(model)
    values = (*graph.value_info, *graph.output)
    dims = {d.dim_param for v in values for d in v.type.tensor_type.shape.dim if d.dim_param}
    return dims | {name for node in graph.node for name in node.output if name}


def _graph_of(model: Any) -> onnx.GraphProto:
    return parsed(model, is_whole=False)[0].graph


def _required_inputs(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Return the inputs of a graph that are no initializers."""
    initialized = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in initialized]


def _names_of(dim: Any) -> list[str]:
    """Return the names that decide the size of a free dimension: its own, and those within it."""
    return [dim.dim_param, *sorted(names_in(dim.dim_param) - {dim.dim_param})]


def is_fixed(dim: Any) -> bool:
    """Return whether a dimension has a size; some exporters write -1 for one that has none."""
    return dim.HasField("dim_value") and dim.dim_value >= 0


def parsed(model: Any, is_whole: bool = True) -> tuple[onnx.ModelProto, Folder]:
    """Return the proto, and the folder of the elements that are not in it.

    Args:
        model: a path, the bytes of a file, or a ModelProto.
        is_whole: whether the proto has the elements of large initializers, which `Folder.array`
            reads one by one otherwise.

    Raises `DmlError` where a model cannot be read.
    """
    if isinstance(model, onnx.ModelProto):
        return model, Folder.of(Path("model.onnx"))
    path = Path(model) if isinstance(model, (str, Path)) else None
    if path is None and not isinstance(model, (bytes, bytearray, memoryview)):
        rule = "be a path, bytes or a ModelProto"
        raise DmlError([Fault("", "model", rule, Unquoted(with_article(type(model))))])
    where = "the bytes" if path is None else f"the file '{path}'"
    try:
        with contents(path or model) as (data, places):
            proto, found = _proto(data, where, is_whole)
    except OSError as error:
        raise unreadable(path or Path(), error) from None
    folder = Folder() if path is None else Folder.of(path)
    return proto, replace(folder, large=replace(places, places=found))


def _proto(
    data: Any, where: str, is_whole: bool
) -> tuple[onnx.ModelProto, Sequence[tuple[int, int]]]:
    """Return the model in a buffer, and the places of what is not in it."""
    if not len(data):
        raise DmlError([Fault("", where, "be an ONNX model", Unquoted("an empty file"))])
    own, places = (bytes(data), ()) if is_whole else without_large(data)
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(own)
    except DecodeError as error:
        raise DmlError([Fault("", where, "be an ONNX model", Unquoted(error))]) from None
    for value in (*proto.graph.input, *proto.graph.initializer):
        dims = value.type.tensor_type.shape.dim if isinstance(value, onnx.ValueInfoProto) else ()
        for name in (value.name, *(d.dim_param for d in dims)):
            if not isinstance(name, str):  # protobuf gives bytes that are no text as they are
                raise DmlError([Fault("", where, "have names of text", name)])
    return proto, places


def _inputs(
    expect: Expect, graph: onnx.GraphProto, shapes: dict[str, Sequence[int]], free: dict[str, int]
) -> dict[str, Type]:
    """Return the types of the inputs, with the sizes that the caller fixes."""
    asked = _required_inputs(graph)
    known = [value.name for value in asked]
    for name in shapes:
        rule = f"name an input{nearest(name, known)}"
        expect(name in known, "input_shapes", rule, name)
    dims = [d for value in asked for d in value.type.tensor_type.shape.dim]
    names = [*dict.fromkeys(n for d in dims if d.dim_param for n in _names_of(d))]
    for name in free:
        listed = f" ({', '.join(names[:8]) or 'the model has none'})"
        rule = f"name a free dimension{nearest(name, names) or listed}"
        expect(name in names, "free_dimensions", rule, name)
    found = {}
    for value in asked:
        kind = _type(expect, value, shapes.get(value.name), free)
        if kind is not None:
            found[value.name] = kind
    return found


def _type(
    expect: Expect, value: onnx.ValueInfoProto, given: Any, free: Mapping[str, int]
) -> Type | None:
    """Return the type of an input; None and a fault where its sizes are not fixed."""
    where = f"the input '{value.name}'"
    if not value.type.HasField("tensor_type"):
        expect(False, where, "be a tensor", Unquoted(value.type.WhichOneof("value") or "no type"))
        return None
    proto = value.type.tensor_type
    dims = list(proto.shape.dim)
    if given is None and not proto.HasField("shape"):
        rule = f"have sizes (input_shapes={{'{value.name}': [...]}})"
        expect(False, where, rule, Unquoted("a tensor of any rank"))
        return None
    if given is not None:
        sizes = [int(size) for size in given]
        rule = f"have {len(dims)} dimensions in input_shapes"
        if proto.HasField("shape") and not expect(len(sizes) == len(dims), where, rule, sizes):
            return None
        for k, d in enumerate(dims):
            if is_fixed(d):
                rule = f"have size {d.dim_value} in dimension {k}, as the model says"
                expect(sizes[k] == d.dim_value, where, rule, sizes[k])
        _expect_agreement(expect, value.name, dims, sizes, free)
    else:
        found = [d.dim_value if is_fixed(d) else size_of(d.dim_param, free) for d in dims]
        for k, d in enumerate(dims):
            shown = Unquoted(f"'{d.dim_param}'" if d.dim_param else "any")
            is_said = bool(d.dim_param) and shown in [str(f.value) for f in expect.faults]
            if found[k] is None and not is_said:
                name = f"free_dimensions={{'{d.dim_param}': ...}} or " if d.dim_param else ""
                rule = f"have a fixed dimension {k} ({name}input_shapes={{'{value.name}': [...]}})"
                expect(False, where, rule, shown)
        sizes = [size for size in found if size is not None]
        if len(sizes) < len(found):
            return None
    for k, size in enumerate(sizes):
        if size < 0:
            expect(False, where, f"have a size of at least 0 in dimension {k}", size)
            return None
    return Type(proto.elem_type, tuple(sizes))

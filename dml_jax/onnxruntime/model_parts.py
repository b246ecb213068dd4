"""A model that is read once, for programs of many sizes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from dml_jax.errors import (
    DmlError,
    Expect,
    Fault,
    Unquoted,
    collecting,
)
from dml_jax.onnx.files import model as models
from dml_jax.onnx.files.attributes import domain_of, label_of
from dml_jax.onnx.files.external_data import Folder, with_inner_elements
from dml_jax.onnx.files.inlined_calls import written_out
from dml_jax.onnx.files.local_functions import FunctionKey, key_of
from dml_jax.onnx.files.topology import needed, repeated, within
from dml_jax.onnx.files.types import dense
from dml_jax.onnx.loading import load_translators
from dml_jax.onnx.nodes.schemas import check_attributes, schema_of
from dml_jax.onnx.options import NetworkOptions
from dml_jax.runtime.weight_store import WeightStore

_INFERRED_MAX = 4096  # bytes of an initializer that sizes may follow from


_LISTS_OF_ELEMENTS = ("float_data", "double_data", "int32_data", "int64_data", "uint64_data")


class Source:
    """A model that is read once, for programs of many sizes.

    Attributes:
        proto: the model.
        folder: where the files of its external data are.
        opsets: the version of each domain.
        initializers: the array and the type of elements of each initializer, by name.
        functions: those whose nodes are of other versions than the model's.
        nodes: those that the outputs depend on, each after those that it reads from.
        store: the arrays on the device.
        is_quick: whether the first calls of a program have one that was compiled quickly.
        cache: the folder where stages and programs are kept; None keeps none.
        digest: what tells models apart, for what is kept.
        host: computes the nodes that only the host computes (`onnxruntime.host_nodes.HostNodes`).
    """

    host: Any
    is_quick = True
    cache: Path | None = None
    digest = ""

    def __init__(self, proto: onnx.ModelProto, folder: Folder):
        self.proto, self.folder, self.store = proto, folder, WeightStore()
        self.opsets: dict[str, int] = {}
        self.initializers: dict[str, tuple[np.ndarray, int]] = {}
        self.functions: dict[FunctionKey, onnx.FunctionProto] = {}
        self.nodes: Sequence[onnx.NodeProto] = ()

    @property
    def options(self) -> NetworkOptions:
        """Return the options of networks of the model's parts."""
        return NetworkOptions(tuned=False, is_quick_first=self.is_quick)

    @classmethod
    def parsed(cls, model: Any, folder: Folder | None = None) -> "Source":
        """Return the model of a path, of bytes, or an onnx.ModelProto, whose data `read` reads."""
        proto, own = models.parsed(model, is_whole=False)
        return cls(proto, own if folder is None else replace(folder, large=own.large))

    def read(self, initializers: Mapping[str, np.ndarray] = {}) -> "Source":
        """Read the data of the model.

        `initializers` are arrays in place of those of the file, by name. Raises `DmlError`.
        """
        load_translators()
        expect = Expect("")
        proto = with_inner_elements(self.proto, self.folder, is_own=True)
        self.opsets = models.opsets_of(expect, proto)
        expect.faults += repeated(proto.graph)
        expect.check()
        proto = written_out(proto)
        self.functions = {key_of(f.domain, f.name, f.overload): f for f in proto.functions}
        self.initializers = dict(_initializers(proto, self.folder, initializers))
        self.proto = proto = _without_elements(proto)
        outputs = [output.name for output in proto.graph.output]
        self.nodes = needed(proto.graph.node, outputs)
        return self


def undefined(source: Source) -> list[Fault]:
    """Return the faults of nodes and outputs that are of what nothing gives."""
    graph, faults = source.proto.graph, list[Fault]()
    known = {v.name for v in graph.input} | source.initializers.keys()
    known |= {name for node in source.nodes for name in node.output if name}
    for node in source.nodes:
        for name in sorted(read_by_outer(node) - known):
            rule = "be an input, an initializer or an output of a node"
            fault = Fault("", f"the tensor '{name}'", rule, Unquoted("none of these"))
            faults += DmlError([fault]).within(label_of(node)).faults
    for output in graph.output:
        if output.name not in known:
            faults.append(Fault("", "the output", "be an output of a node", output.name))
    return faults


def unknown_types(source: Source) -> list[Fault]:
    """Return the faults of inputs whose elements have no type, or one that ONNX lacks."""
    known = {*onnx.TensorProto.DataType.values()} - {onnx.TensorProto.UNDEFINED}
    kinds = [(v.name, v.type) for v in source.proto.graph.input]
    return [
        Fault("", f"the input '{name}'", "have a type of ONNX", kind.tensor_type.elem_type)
        for name, kind in kinds
        if kind.HasField("tensor_type") and kind.tensor_type.elem_type not in known
    ]


def unknown_nodes(source: Source, knows: Callable[[str, str], bool]) -> list[Fault]:
    """Return the faults of nodes whose op type, or an attribute, nobody knows.

    Args:
        source: the model.
        knows: whether the host computes the op type of a domain and a name.
    """
    faults = list[Fault]()
    for node in source.nodes:
        for inner in within(node):
            domain = domain_of(inner.domain)
            if key_of(domain, inner.op_type, inner.overload) in source.functions:
                continue
            try:
                _, schema = schema_of(domain, inner.op_type, source.opsets)
            except DmlError as error:
                if domain not in source.opsets or not knows(domain, inner.op_type):
                    faults += error.within(label_of(inner)).faults
            else:
                with collecting(faults, label_of(inner)):
                    check_attributes(inner, schema)
    return faults


def _initializers(
    proto: onnx.ModelProto, folder: Folder, given: Mapping[str, np.ndarray]
) -> Iterator[tuple[str, tuple[np.ndarray, int]]]:
    for tensor in proto.graph.initializer:
        array = given[tensor.name] if tensor.name in given else folder.array(tensor)
        yield tensor.name, (array, tensor.data_type)
    for sparse in proto.graph.sparse_initializer:
        array = dense(sparse, folder.array)
        yield sparse.values.name, (array, sparse.values.data_type)


def _without_elements(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model whose large initializers have no elements, which are in memory elsewhere."""
    made = onnx.ModelProto()
    for tensor in proto.graph.initializer:
        if tensor.ByteSize() > _INFERRED_MAX:
            for name in ("raw_data", *_LISTS_OF_ELEMENTS):
                tensor.ClearField(name)
    made.CopyFrom(proto)  # the memory of the other one is freed as a whole
    return made


def read_by_outer(node: onnx.NodeProto) -> set[str]:
    """Return the tensors around a node that it reads, also within its graphs."""
    names = {name for name in node.input if name}
    for attribute in node.attribute:
        for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
            names |= _free_in(graph)
    return names


def read_by_nodes(nodes: Iterable[onnx.NodeProto]) -> set[str]:
    """Return the tensors around nodes that these read, as `read_by_outer` does of one."""
    return {name for node in nodes for name in read_by_outer(node)}


def _free_in(graph: onnx.GraphProto) -> set[str]:
    own = {v.name for v in graph.input} | {t.name for t in graph.initializer}
    own |= {name for node in graph.node for name in node.output}
    return (read_by_nodes(graph.node) | {v.name for v in graph.output}) - own - {""}

"""A model that is read once, for programs of many sizes."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from dml_jax.errors import DmlError, Expect, Fault, Sentence, Unquoted, collecting
from dml_jax.onnx.files import model as models
from dml_jax.onnx.files.attributes import MICROSOFT, domain_of, label_of
from dml_jax.onnx.files.external_data import Folder, with_inner_elements
from dml_jax.onnx.files.local_functions import FunctionKey, functions_of, key_of, written_out
from dml_jax.onnx.files.topology import needed, repeated, within
from dml_jax.onnx.files.types import dense
from dml_jax.onnx.nodes.op_types import record_of
from dml_jax.onnx.nodes.schemas import (
    BREAKS_RULES,
    check_attributes,
    check_inference,
    is_too_long,
    schema_of,
)
from dml_jax.onnx.options import NetworkOptions
from dml_jax.onnx.translate.model_graph import load_translators
from dml_jax.onnxruntime.metadata import type_text
from dml_jax.runtime.weight_store import WeightStore
from dml_jax.system.slow_notice import SlowNotice

# Bytes of an initializer from which sizes may follow: ONNX's inference reads it in the proto. The
# elements of larger ones lie in memory once, outside of the proto.
_INFERRED_MAX = 4096
_LISTS_OF_ELEMENTS = ("float_data", "double_data", "int32_data", "int64_data", "uint64_data")
_ELEMENTS_MAX = 64  # of a tensor of numbers that sizes may depend on
# Op types of com.microsoft whose first output is as their first input is.
_LIKE_FIRST = {
    *("BiasAdd", "BiasGelu", "FastGelu", "Gelu", "QuickGelu", "SkipGroupNorm"),
    *("RotaryEmbedding", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization"),
}
# How ONNX's inference refuses a node for more than its sizes.
_OF_TYPES = ("has unsupported type", "has inconsistent type", "has been deprecated")

Types = Mapping[str, onnx.TypeProto]


@dataclass(frozen=True, eq=False)
class Source:
    """A model that is read once, for programs of many sizes.

    Attributes:
        proto: the model.
        opsets: the version of each domain.
        functions: those whose nodes are of other versions than the model's.
        initializers: the array and the type of elements of each initializer, by name.
        nodes: those that the outputs depend on, each after those that it reads from.
        options: the options of networks of the model's parts.
        cache: the folder where stages and programs are recorded; None records none.
        digest: what tells models apart, for records.
        store: the arrays on the device.
        kinds: the type of each tensor whose type follows, by name, for inputs of any sizes.
        host: computes the nodes that only the host computes (`onnxruntime.host_nodes.HostNodes`).
        notice: says that a run compiles.
    """

    proto: onnx.ModelProto
    opsets: dict[str, int]
    functions: dict[FunctionKey, onnx.FunctionProto]
    initializers: Mapping[str, tuple[np.ndarray, int]]
    nodes: Sequence[onnx.NodeProto]
    options: NetworkOptions
    cache: Path | None = None
    digest: str = ""
    store: WeightStore = field(default_factory=WeightStore)
    kinds: Types = field(default_factory=dict)
    host: Any = None
    notice: SlowNotice = field(default_factory=SlowNotice)

    @classmethod
    def read(
        cls, proto: onnx.ModelProto, folder: Folder, arrays: Mapping[str, np.ndarray], *more: Any
    ) -> "Source":
        """Return the source of a model.

        Args:
            proto: the model.
            folder: where the files of its external data are.
            arrays: arrays in place of initializers, by name.
            more: `options`, `cache` and `digest`.

        Raises `DmlError` where the model cannot be read.
        """
        # The checks of op types ask what is registered, and translators register themselves.
        load_translators()
        expect = Expect("")
        proto = with_inner_elements(proto, folder, is_own=True)
        opsets = models.opsets_of(expect, proto)
        expect.faults += repeated(proto.graph)
        inputs = Counter(value.name for value in proto.graph.input)
        for name, count in inputs.items():
            expect(count == 1, "the name of an input", "be given once", name)
        for t in proto.graph.initializer:
            sizes, where = [*t.dims], f"the sizes of the initializer '{t.name}'"
            expect(min(sizes, default=0) >= 0, where, "be at least 0", sizes)
        expect.check()
        proto = written_out(proto)
        functions = functions_of(proto)
        # They stay in the host's memory, unlike those of a network that is loaded: each new stage
        # translates its nodes with them.
        initializers = dict(_initializers(proto, folder, arrays))
        proto = _without_elements(proto)
        nodes = needed(proto.graph.node, [output.name for output in proto.graph.output])
        return cls(proto, opsets, functions, initializers, nodes, *more)


def unknown_tensors(source: Source) -> list[Fault]:
    """Return the faults of nodes that read what nothing gives."""
    known, faults = _known(source), list[Fault]()
    for node in source.nodes:
        for name in sorted(read_by_outer(node) - known):
            rule = "be an input, an initializer or an output of a node"
            fault = Fault("", f"the tensor '{name}'", rule, Unquoted("none of these"))
            faults += DmlError([fault]).within(label_of(node)).faults
    return faults


def untyped_inputs(source: Source) -> list[Fault]:
    """Return the faults of inputs without a type, which no initializer gives them."""
    given = source.initializers
    return [
        Fault("", f"the input '{v.name}'", "have a type", Unquoted("none"))
        for v in source.proto.graph.input
        if v.name not in given and v.type.WhichOneof("value") is None
    ]


def unmade_outputs(source: Source) -> list[Fault]:
    """Return the faults of outputs that nothing gives."""
    known, outputs = _known(source), source.proto.graph.output
    rule = "be an output of a node"
    return [Fault("", "the output", rule, v.name) for v in outputs if v.name not in known]


def _known(source: Source) -> set[str]:
    """Return the tensors that inputs, initializers and nodes give."""
    given = {v.name for v in source.proto.graph.input} | source.initializers.keys()
    return given | {name for node in source.nodes for name in node.output if name}


def cycles(source: Source) -> list[Fault]:
    """Return the fault of the first node that reads a tensor of a later one: nodes are sorted."""
    later = {name for node in source.nodes for name in node.output if name}
    for node in source.nodes:
        read = sorted(read_by_outer(node) & later)
        if read:
            rule = "be no output of a node that reads this one (the nodes are a cycle)"
            fault = Fault("", "the input", rule, read[0])
            return [*DmlError([fault]).within(label_of(node)).faults]
        later -= {*node.output}
    return []


def unknown_types(source: Source) -> list[Fault]:
    """Return the faults of inputs and outputs whose elements have no type, or none of ONNX."""
    known, graph = {*onnx.TensorProto.DataType.values()}, source.proto.graph
    known -= {onnx.TensorProto.UNDEFINED}
    kinds = [(f"the input '{v.name}'", v.type) for v in graph.input]
    kinds += [(f"the output '{v.name}'", v.type) for v in graph.output]
    return [
        Fault("", what, "have a type of ONNX", kind.tensor_type.elem_type)
        for what, kind in kinds
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
    proto: onnx.ModelProto, folder: Folder, arrays: Mapping[str, np.ndarray]
) -> Iterator[tuple[str, tuple[np.ndarray, int]]]:
    for tensor in proto.graph.initializer:
        array = arrays[tensor.name] if tensor.name in arrays else folder.array(tensor)
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
    # A proto keeps the memory of cleared fields. Its copy has none of it, and the memory of the
    # first one is freed as a whole.
    made.CopyFrom(proto)
    return made


def read_by_outer(node: onnx.NodeProto) -> set[str]:
    """Return the tensors around a node that it reads, also within its graphs."""
    # Unlike `topology.read_by`, without the names that inner graphs define themselves: a stage
    # would wait for tensors that never come.
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


def types_of(source: Source) -> tuple[Types, list[Fault]]:
    """Return the types of tensors, as `Source.kinds`, and the faults of nodes that ONNX refuses."""
    # Node by node: ONNX's own inference of a whole model ends the process at some models that are
    # broken, since its functions read the type of an input that has none.
    graph = source.proto.graph
    kinds = {v.name: v.type for v in graph.input}
    for t in graph.initializer:
        kinds[t.name] = helper.make_tensor_type_proto(t.data_type, list(t.dims))
    data, faults = {t.name: t for t in graph.initializer if _is_small(t)}, list[Fault]()
    for node in source.nodes:
        if node.op_type == "Constant" and node.output:
            data |= {name: a.t for name in node.output for a in node.attribute if a.name == "value"}
        try:
            kinds |= _types_of_outputs(node, source, kinds, data)
        except DmlError as error:
            refused = (fault for fault in error.faults if fault.rule.startswith(BREAKS_RULES))
            faults += DmlError(refused).within(label_of(node)).faults
    return kinds, faults


def wrong_outputs(source: Source) -> list[Fault]:
    """Return the faults of outputs whose declared types are not those that follow."""
    kinds, faults = source.kinds, list[Fault]()
    made = {name for node in source.nodes for name in node.output}
    for value in source.proto.graph.output:
        told, found = type_text(value.type), type_text(kinds.get(value.name, value.type))
        if value.name in made and told and found and told != found:
            rule = f"be declared as {found}, which the node gives"
            faults.append(Fault("", f"the output '{value.name}'", rule, Unquoted(told)))
    return faults


def _is_small(tensor: onnx.TensorProto) -> bool:
    return tensor.ByteSize() < 9 * _ELEMENTS_MAX and not tensor.external_data


def _types_of_outputs(
    node: onnx.NodeProto, source: Source, kinds: Types, data: Mapping[str, onnx.TensorProto]
) -> Types:
    """Return the types of the outputs of a node; of an If those that its branches declare."""
    if node.op_type == "If":
        branches = [a.g.output for a in node.attribute if a.name in ("then_branch", "else_branch")]
        rows = zip(node.output, *branches, strict=False) if len(branches) == 2 else ()
        typed = (row for row in rows if row[1].HasField("type"))
        return {name: _common(one.type, other.type) for name, one, other in typed}
    if domain_of(node.domain) == MICROSOFT and node.op_type in _LIKE_FIRST:
        known = kinds.get(node.input[0]) if node.input else None
        return {} if known is None else {node.output[0]: known}
    if node.op_type == "Tokenizer":  # of ONNX Runtime
        strings = helper.make_tensor_type_proto(onnx.TensorProto.STRING, None)
        return dict.fromkeys(node.output, strings)
    _, schema = schema_of(domain_of(node.domain), node.op_type, source.opsets)
    names = [name for name in node.input if name]
    is_typed = all(name in kinds and kinds[name].WhichOneof("value") for name in names)
    given = [*node.input, *[""] * len(schema.inputs if schema else ())]
    if schema is None or not is_typed or any(a.HasField("g") for a in node.attribute):
        return {}
    for one, name in zip(schema.inputs, given, strict=False):
        dims = kinds[name].tensor_type.shape.dim if name else ()
        if is_too_long(one.name, [d.dim_value for d in dims]):
            return {}
    check_inference(node)
    types = {name: kinds[name] for name in names}
    constants = {name: data[name] for name in names if name in data}
    versions = [helper.make_opsetid(domain, version) for domain, version in source.opsets.items()]
    try:
        return onnx.shape_inference.infer_node_outputs(
            *(schema, node, types, constants),
            opset_imports=versions,
            ir_version=source.proto.ir_version,
        )
    except Exception as error:
        # ONNX's own code refuses a broken node by exceptions of many types, which have no base of
        # its own. It refuses some nodes that ONNX Runtime computes.
        known = record_of(schema.domain, node.op_type).versions
        text = str(error).strip().partition("\n")[0] or type(error).__name__
        # An output's name is that of a wrong inferred type, not of a wrong node.
        is_inferred = text.partition(" ")[0] in {output.name for output in schema.outputs}
        if is_inferred or not any(words in text for words in _OF_TYPES):
            if known.inferred_as or schema.since_version < known.inferred_since:
                return {}
            shown = ", ".join(_shown(types[name]) if name else "nothing" for name in node.input)
            text += f" (inputs {shown})"
        raise DmlError([Fault("", "", Sentence(f"{BREAKS_RULES} {text}"), "")]) from None


def _common(one: onnx.TypeProto, other: onnx.TypeProto) -> onnx.TypeProto:
    """Return the type of what has either type: its sizes are those that both have."""
    made = onnx.TypeProto()
    made.CopyFrom(one)
    if one.HasField("tensor_type"):
        sizes, others = made.tensor_type.shape.dim, other.tensor_type.shape.dim
        if len(sizes) != len(others):
            made.tensor_type.ClearField("shape")
        for size, own in zip(sizes, others, strict=False):
            if size != own:
                size.Clear()
    return made


def _shown(kind: onnx.TypeProto) -> str:
    """Return the sizes of a type, such as "[n, 3]"; "[?]" of a type without sizes."""
    dims = kind.tensor_type.shape.dim
    sizes = [str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?" for d in dims]
    return f"[{', '.join(sizes)}]" if kind.tensor_type.HasField("shape") else "[?]"

"""The types of all tensors of a model, of any sizes, as ONNX infers them node by node.

ONNX's own inference of a whole model ends the process at some models that are broken: its functions
read the type of an input that has none. Here only nodes whose inputs have types are inferred.
"""

import contextlib
from collections.abc import Mapping

import onnx
from onnx import defs, helper

from dml_jax.errors import DmlError
from dml_jax.onnx.files.attributes import domain_of
from dml_jax.onnx.nodes.schemas import check_inference, is_too_long, schema_of
from dml_jax.onnxruntime.model_parts import Source

_SINGLE = defs.OpSchema.FormalParameterOption.Single
_ELEMENTS_MAX = 64  # of a tensor of numbers that sizes may depend on

Types = Mapping[str, onnx.TypeProto]


def types_of(source: Source) -> Types:
    """Return the type of each tensor whose type follows, by name."""
    graph = source.proto.graph
    kinds = {v.name: v.type for v in graph.input}
    for t in graph.initializer:
        kinds[t.name] = helper.make_tensor_type_proto(t.data_type, list(t.dims))
    data = {t.name: t for t in graph.initializer if _is_small(t)}
    for node in source.nodes:
        if node.op_type == "Constant" and node.output:
            data |= {name: a.t for name in node.output for a in node.attribute if a.name == "value"}
        with contextlib.suppress(DmlError):  # a run says what is in the way
            kinds |= _types_of_outputs(node, source, kinds, data)
    return kinds


def _is_small(tensor: onnx.TensorProto) -> bool:
    return tensor.ByteSize() < 9 * _ELEMENTS_MAX and not tensor.external_data


def _types_of_outputs(
    node: onnx.NodeProto, source: Source, kinds: Types, data: Mapping[str, onnx.TensorProto]
) -> Types:
    """Return the types of the outputs of a node; of an If those that its first branch declares."""
    if node.op_type == "If":
        branches = (a.g.output for a in node.attribute if a.name == "then_branch")
        pairs = zip(node.output, next(branches, ()), strict=False)
        return {name: value.type for name, value in pairs if value.HasField("type")}
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
        is_missing = one.option == _SINGLE and not name
        if is_missing or is_too_long(one.name, [d.dim_value for d in dims]):
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
    except Exception:
        # ONNX's own code refuses a broken node by exceptions of many types, which have no base of
        # its own. A session needs no type of such a node: a run says what is in the way.
        return {}

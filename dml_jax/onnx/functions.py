"""Functions that ONNX defines op types by, and what is computed at load."""

import functools
import sys
import time
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import onnx
from onnx import helper

from dml_jax.errors import OF_SIZES, DmlError, Fault, Sentence, Unquoted
from dml_jax.onnx.nodes import MICROSOFT, Node, attribute_value, domain_of
from dml_jax.onnx.topology import within

Opsets = Mapping[str, int]
FunctionKey = tuple[str, str, str]
"""The domain, the name and the overload of a function of a model."""

_KNOWN_MAX = 1 << 28  # bytes
_SECONDS_MAX = 3
_LOOPS = {  # op types whose reference implementation has loops as long as attributes or boxes say
    *("AveragePool", "Col2Im", "Conv", "ConvInteger", "ConvTranspose", "DeformConv", "GridSample"),
    *("LRN", "LpPool", "MaxPool", "MaxUnpool", "NonMaxSuppression", "QLinearConv", "Resize"),
    *("RoiAlign", "STFT", "TensorScatter", "Unique", "Upsample"),
}


def key_of(domain: str, name: str, overload: str) -> FunctionKey:
    """Return what a function of a model is found by."""
    return domain_of(domain), name, overload


def without(node: onnx.NodeProto, left_out: Collection[str]) -> None:
    """Leave out the inputs of a function's node that the call of the function leaves out."""
    for index, name in enumerate(node.input):
        if name in left_out:
            node.input[index] = ""
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                without(inner, left_out)


def fill(node: onnx.NodeProto, given: Mapping[str, onnx.AttributeProto]) -> None:
    """Replace the attributes of a function's node that name attributes of its call."""
    kept = []
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            for graph in (attribute.g, *attribute.graphs):
                for inner in graph.node:
                    fill(inner, given)
            kept.append(attribute)
        elif attribute.ref_attr_name in given:
            copy = deepcopy(given[attribute.ref_attr_name])
            copy.name = attribute.name
            kept.append(copy)
    del node.attribute[:]
    node.attribute.extend(kept)


_AS_ONNX = {(MICROSOFT, name): 27 for name in ("CausalConvWithState", "LinearAttention")}
"""Op types of ONNX Runtime that ONNX has too, and the version that defined them."""


def _as_onnx(node: Node, version: int) -> tuple[Any, onnx.NodeProto]:
    """Return ONNX's schema of an op type of ONNX Runtime, and the node as ONNX has it.

    Raises `DmlError` where it has an attribute that ONNX's lacks.
    """
    try:
        schema = onnx.defs.get_schema(node.op_type, version, "")
    except onnx.defs.SchemaError:  # an earlier package
        return None, node.proto
    proto = deepcopy(node.proto)
    proto.domain = ""
    del proto.attribute[:]
    for attribute in node.proto.attribute:
        value = attribute_value(attribute)
        if attribute.name in schema.attributes:
            proto.attribute.append(attribute)
        elif value != _PLAIN.get(attribute.name, 0):
            rule = f"be {_PLAIN.get(attribute.name, 0)}, as in ONNX's op type of this name"
            raise node.refusal(attribute.name, rule, value)
    return schema, proto


_PLAIN = {"ndim": 1, "dilation": 1, "state_channels_last": -1}


def body_of(node: Node) -> onnx.FunctionProto | None:
    """Return the function that ONNX defines an op type by; None where it has none."""
    schema: Any = node.schema
    proto, own = node.proto, _AS_ONNX.get((node.proto.domain, node.op_type))
    if own is not None:
        schema, proto = _as_onnx(node, own)
    if schema is None:
        return None
    version = own or node.opsets[domain_of(node.proto.domain)]
    if schema.has_context_dependent_function:
        kinds = [
            onnx.TypeProto()
            if t is None
            else helper.make_tensor_type_proto(t.type.element, t.shape)
            for t in node.inputs
        ]
        arguments = proto.SerializeToString(), [k.SerializeToString() for k in kinds]
        since = [v for v in schema.context_dependent_function_opset_versions if v <= version]
        if not since:
            return None
        text = schema.get_context_dependent_function_with_opset_version(max(since), *arguments)
    elif schema.has_function:
        since = [v for v in schema.function_opset_versions if v <= version]
        if not since:
            return None
        text = schema.get_function_with_opset_version(max(since))
    else:
        return None
    body = onnx.FunctionProto()
    body.ParseFromString(text if isinstance(text, bytes) else text.SerializeToString())
    for attribute in schema.attributes.values():
        if attribute.default_value.type != onnx.AttributeProto.UNDEFINED:
            body.attribute_proto.append(attribute.default_value)
    return body


def folded(node: Node) -> Sequence[np.ndarray]:
    """Return the outputs of a node of known inputs, by ONNX's reference implementation."""
    if any(t is not None and t.size_in_bytes > _KNOWN_MAX for t in node.types):
        rule = f"take at most {_KNOWN_MAX} bytes where it is computed at load"
        raise node.refusal("the output", rule, Unquoted("more"))
    pairs = zip(node.proto.input, node.inputs, strict=True)
    feeds = {name: t.array for name, t in pairs if t is not None}
    try:
        compute = functools.partial(by_reference, node.proto, feeds, node.opsets)
        found = iter(_within_time(compute) if node.op_type in _LOOPS else compute())
    except Exception as error:  # whatever its NumPy code comes upon
        rule = Sentence(f"cannot be computed at load: {error}")
        raise DmlError([Fault("", "", rule, "", kind=OF_SIZES)]) from None
    return [np.asarray(next(found)) if name else np.zeros(0) for name in node.outputs]


_PROGRAMS = (b"%!PS", b"\xc5\xd0\xd3\xc6")  # Pillow lets Ghostscript run them


def _within_row(proto: onnx.NodeProto, length: int) -> onnx.NodeProto:
    """Return a TfIdfVectorizer without gaps that are longer than a row; ONNX's code tries all."""
    shorter = onnx.NodeProto.FromString(proto.SerializeToString())
    for attribute in shorter.attribute:
        if attribute.name == "max_skip_count":
            attribute.i = min(attribute.i, length)
    return shorter


def by_reference(proto: onnx.NodeProto, feeds: Mapping[str, Any], opsets: Opsets) -> Any:
    """Return the outputs of a node that have a name, by ONNX's reference implementation.

    It runs as a model: a node alone would mean its newest version.
    """
    from onnx.reference import ReferenceEvaluator  # which most networks do not need, takes a while

    if any(inner.op_type == "ImageDecoder" for inner in within(proto)):
        data = feeds[proto.input[0]].tobytes() if proto.op_type == "ImageDecoder" else _PROGRAMS[0]
        if data.startswith(_PROGRAMS):
            raise ValueError("a picture that is a program, PostScript, is not read")
    if proto.op_type == "TfIdfVectorizer":
        proto = _within_row(proto, max((np.size(x) for x in feeds.values()), default=0))
    inputs = [onnx.ValueInfoProto(name=name) for name in feeds]
    outputs = [onnx.ValueInfoProto(name=name) for name in proto.output if name]
    graph = helper.make_graph([proto], "node", inputs, outputs)
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    model = helper.make_model(graph, opset_imports=imports)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's, on the way
        return ReferenceEvaluator(model).run(None, dict(feeds))


def _within_time(function: Callable[[], Any]) -> Any:
    """Return what a function of Python's loops gives. Raises `TimeoutError` where it takes long.

    Each line of ONNX's code asks for the time, as a debugger would stop there.
    """
    end, before = time.monotonic() + _SECONDS_MAX, sys.gettrace()

    def trace(frame: Any, *_: Any) -> Any:
        if not frame.f_globals.get("__name__", "").startswith("onnx."):
            return None  # a callback of the garbage collector, say, would lose the error
        if time.monotonic() > end:
            raise TimeoutError(f"it takes more than {_SECONDS_MAX} s")
        return trace

    sys.settrace(trace)
    try:
        return function()
    finally:
        sys.settrace(before)

"""Functions that ONNX defines op types by, and what is computed at load."""

import itertools
import math
import warnings
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import onnx
from onnx import helper

from dml_jax.errors import OF_SIZES, DmlError, Fault, Sentence, Unquoted
from dml_jax.onnx.files.attributes import MICROSOFT, attribute_value, domain_of, label_of
from dml_jax.onnx.nodes.node import Node

# Bytes of an output. A small file may say a ConstantOfShape or an Expand of any size.
_KNOWN_MAX = 1 << 28  # bytes
# Steps of Python's loops, about a second of them. A limit by the clock would refuse on one machine
# what another one takes.
_STEPS_MAX = 1 << 20
_LOOPS = {  # op types whose reference implementation has loops of Python
    *("AveragePool", "Col2Im", "Conv", "ConvInteger", "ConvTranspose", "DeformConv", "GridSample"),
    *("LRN", "LpPool", "MaxPool", "MaxUnpool", "NonMaxSuppression", "QLinearConv", "Resize"),
    *("RoiAlign", "STFT", "TensorScatter", "TfIdfVectorizer", "Unique", "Upsample"),
}

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
    by_context = schema.context_dependent_function_opset_versions
    since = [v for v in by_context or schema.function_opset_versions if v <= version]
    if not since:
        return None
    if by_context:
        made = [t and helper.make_tensor_type_proto(t.type.element, t.shape) for t in node.inputs]
        arguments = proto.SerializeToString(), [k.SerializeToString() if k else b"" for k in made]
        text = schema.get_context_dependent_function_with_opset_version(max(since), *arguments)
    else:
        text = schema.get_function_with_opset_version(max(since))
    body = onnx.FunctionProto()
    body.ParseFromString(text if isinstance(text, bytes) else text.SerializeToString())
    for attribute in schema.attributes.values():
        if attribute.default_value.type != onnx.AttributeProto.UNDEFINED:
            body.attribute_proto.append(attribute.default_value)
    return body


def folded(node: Node) -> Sequence[np.ndarray]:
    """Return the outputs of a node of known inputs, by ONNX's reference implementation.

    Raises `DmlError` where it cannot have them, or may take long.
    """
    from onnx.reference import ReferenceEvaluator  # which most networks do not need, takes a while

    if any(t is not None and t.size_in_bytes > _KNOWN_MAX for t in node.types):
        rule = f"take at most {_KNOWN_MAX} bytes where it is computed at load"
        raise node.refusal("the output", rule, Unquoted("more"))
    if node.op_type in _LOOPS and _steps(node) > _STEPS_MAX:
        rule = f"take at most {_STEPS_MAX} steps where it is computed at load"
        raise node.refusal(label_of(node.proto), rule, Unquoted("more"))
    pairs = zip(node.proto.input, node.inputs, strict=True)
    feeds = {name: t.array for name, t in pairs if t is not None}
    inputs = [onnx.ValueInfoProto(name=name) for name in feeds]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.proto.output if name]
    graph = helper.make_graph([node.proto], "node", inputs, outputs)
    imports = [helper.make_opsetid(domain, version) for domain, version in node.opsets.items()]
    model = helper.make_model(graph, opset_imports=imports)  # a node alone is of the newest version
    try:
        # NaN and infinity are answers in ONNX, of which NumPy warns.
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy's, on the way
            found = iter(ReferenceEvaluator(model).run(None, feeds))
    except Exception as error:  # whatever its NumPy code comes upon
        rule = Sentence(f"cannot be computed at load: {error}")
        raise DmlError([Fault("", "", rule, "", kind=OF_SIZES)]) from None
    if node.op_type == "ReduceMean" and node.type().is_empty:  # NaN, but 0 in ONNX Runtime
        found = map(np.zeros_like, found)
    return [np.asarray(next(found)) if name else np.zeros(0) for name in node.proto.output]


def _steps(node: Node) -> int:
    """Return a bound of the steps of a node's loops: sizes, and numbers of attributes, multiplied.

    The boxes of a RoiAlign decide how many samples it takes, unless an attribute does.
    """
    if node.op_type == "RoiAlign" and not node.attribute("sampling_ratio"):
        return _STEPS_MAX + 1
    kinds = [t.type for t in node.inputs if t is not None] + [t for t in node.types if t]
    counts = [kind.element_count for kind in kinds if kind.shape is not None]
    numbers = [a.ints or [a.i] for a in node.proto.attribute]
    return math.prod(max(abs(n), 1) for n in itertools.chain(counts, *numbers))

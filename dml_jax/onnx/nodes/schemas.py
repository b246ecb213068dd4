"""What ONNX says of a node: the schema of its op type, its attributes, the types of its outputs."""

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import onnx
from onnx import defs, helper, numpy_helper

from dml_jax import facts
from dml_jax.errors import OF_SIZES, DmlError, Fault, Sentence, Unquoted, nearest, raise_if
from dml_jax.onnx.files.attributes import attribute_value, domain_of
from dml_jax.onnx.files.local_functions import Opsets
from dml_jax.onnx.files.types import Type
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import OP_TYPES, OpType, of_version
from dml_jax.onnx.nodes.tensor import Tensor

BREAKS_RULES = "ONNX refuses it:"  # how faults of its inference begin
_READ_BY_INFERENCE_MAX = 64  # elements of a tensor of numbers that sizes may depend on
_LISTS = {"axes", "ends", "pads", "repeats", "roi", "scales", "shape", "sizes"}
_LISTS |= {"split", "starts", "steps"}
_COMPLEX = (onnx.TensorProto.COMPLEX64, onnx.TensorProto.COMPLEX128)
_LIST_ELEMENTS = (onnx.TensorProto.INT32, onnx.TensorProto.INT64)
_EQUATION = re.compile(r"(?:[A-Za-z ,]|\.\.\.)*(?:->(?:[A-Za-z ]|\.\.\.)*)?")
_LIST_MAX = 1024  # numbers: for each of 64 dimensions at most two, and room
_OF_ONE_PROCESSOR = ("com.microsoft.nchwc", "com.ms.internal.nhwc")
# Errors of ONNX's inference: its own two, those of its C++ code, and the TypeError of a name that
# is no text.
_REFUSALS = (
    *(onnx.shape_inference.InferenceError, onnx.checker.ValidationError),
    *(ValueError, RuntimeError, TypeError),
)


def schema_of(domain: str, op_type: str, opsets: Opsets) -> tuple[int, defs.OpSchema | None]:
    """Return the version of an op type that a model means, and its schema."""
    if domain not in opsets:
        raise DmlError([Fault("", "domain", "be imported (opset_import)", domain or "ai.onnx")])
    version = opsets[domain]
    try:
        schema = defs.get_schema(op_type, version, domain)
    except (defs.SchemaError, TypeError):  # a name that is no text is none
        if (domain, op_type) in OP_TYPES:
            return _before(domain, op_type, version)
        name = f"{domain}.{op_type}" if domain else op_type
        shown = Unquoted(f"'{name}' (opset {version})")
        if domain in _OF_ONE_PROCESSOR:
            rule = "be of all processors: ONNX Runtime wrote this one for one machine "
            rule += "(write the file with GraphOptimizationLevel.ORT_ENABLE_EXTENDED at most)"
            raise DmlError([Fault("", "op type", rule, shown)]) from None
        names = [name for known, name in OP_TYPES if known == domain]
        rule = f"be known{nearest(str(op_type), names)}"
        raise DmlError([Fault("", "op type", rule, shown)]) from None
    return schema.since_version, schema


def resolve(
    proto: onnx.NodeProto, record: OpType, inputs: Sequence[Tensor | None], opsets: Opsets
) -> tuple[int, defs.OpSchema | None]:
    """Return the version of its op type that a node means, and the schema; the node is checked.

    Raises `DmlError` where the schema refuses an attribute, or the rank or type of an input. Names
    of inputs and sizes of outputs are checked by ONNX's inference (`output_types`), before which
    these come: it ends the process for some values of attributes.
    """
    version, schema = schema_of(domain_of(proto.domain), proto.op_type, opsets)
    check_attributes(proto, schema)
    if schema is not None:
        check_inference(proto)
        _check_lists(proto, record, schema, inputs)
        if any(x is not None and x.type.element in _COMPLEX for x in inputs):
            _check_types(schema, inputs)
    return version, schema


def _before(domain: str, op_type: str, version: int) -> tuple[int, defs.OpSchema | None]:
    """Return what `schema_of` does of an op type that ONNX defines later, or never.

    The later definition holds where the op type had no other one before.
    """
    known = OP_TYPES[domain, op_type].translators
    for later in range(version, 0 if domain else defs.onnx_opset_version() + 1):
        with contextlib.suppress(defs.SchemaError, TypeError):
            schema = defs.get_schema(op_type, later, domain)
            is_same = of_version(known, later) is of_version(known, version)
            return (later, schema) if is_same else (version, None)
    return version, None


def _check_lists(
    proto: onnx.NodeProto, record: OpType, schema: defs.OpSchema, inputs: Sequence[Tensor | None]
) -> None:
    """Raise `DmlError` where a list of numbers has another rank than 1, or a weight other sizes."""
    if record.takes_scalars or schema.domain:
        return
    faults, kernel = [], [n for a in proto.attribute if a.name == "kernel_shape" for n in a.ints]
    for known, tensor in zip(schema.inputs, inputs, strict=False):
        sizes = [*tensor.shape[2:]] if tensor and known.name in ("W", "w") else kernel
        if kernel not in ([], sizes):
            faults.append(Fault("", "kernel_shape", f"be {sizes}, as in the weight", kernel))
        if tensor is None or known.name not in _LISTS:
            continue
        if len(tensor.shape) != 1:
            shown = Unquoted(f"rank {len(tensor.shape)}")
            faults.append(Fault("", known.name, "have rank 1 (be a list)", shown))
        elif is_too_long(known.name, tensor.shape):
            rule = f"be a list of at most {_LIST_MAX} numbers"
            faults.append(Fault("", known.name, rule, tensor.shape[0]))
    raise_if(faults)


def check_inference(proto: onnx.NodeProto) -> None:
    """Check attributes by which ONNX's own code ends the process, or does not end.

    Raises `DmlError`.
    """
    reads, gives = len(proto.input), len(proto.output)
    rules: dict[tuple[str, str], tuple[Callable[[Any], object], str]] = {
        ("Split", "num_outputs"): (lambda n: n == gives, f"be {gives}, as its outputs are"),
        ("Scan", "num_scan_inputs"): (lambda n: 1 <= n <= reads, f"be in [1, {reads}]"),
        ("GatherND", "batch_dims"): (lambda n: n >= 0, "be at least 0"),
        ("LayerNormalization", "axis"): (lambda n: abs(n) < 2**31, "be in [-rank, rank - 1]"),
        ("RoiAlign", "sampling_ratio"): (lambda n: 0 <= n <= 1024, "be in [0, 1024]"),
        ("Einsum", "equation"): (
            _EQUATION.fullmatch,
            "be made of letters, commas, spaces, '...' and one '->'",
        ),
    }
    for attribute in proto.attribute:
        is_right, rule = rules.get((proto.op_type, attribute.name), (None, ""))
        is_text = proto.op_type == "Einsum"
        value = attribute.s.decode(errors="replace") if is_text else attribute.i
        if is_right is not None and not is_right(value):
            raise DmlError([Fault("", attribute.name, rule, value)])


def is_too_long(name: str, shape: Sequence[int]) -> bool:
    """Return whether an input of the schema is a list of more numbers than tensors have sizes."""
    return name in _LISTS - {"split"} and len(shape) == 1 and shape[0] > _LIST_MAX


def check_attributes(proto: onnx.NodeProto, schema: defs.OpSchema | None) -> None:
    """Raise `DmlError` where a node has an attribute that is unknown, or lacks a required one.

    Without a schema, attributes are those of ONNX Runtime, where the facts have them.
    """
    given, faults = {str(a.name): a for a in proto.attribute}, []
    schemas: dict[str, Any] = dict(schema.attributes if schema else {})
    version, known = f" {schema.since_version}" if schema else "", [*schemas]
    if schema is None:
        known = facts.attributes().get(domain_of(proto.domain), {}).get(proto.op_type, given)
    for name, attribute in given.items():
        if name not in known:
            rule = f"be an attribute of {proto.op_type}{version}{nearest(name, known)}"
            faults.append(Fault("", name, rule, attribute_value(attribute)))
        elif name in schemas and attribute.type != schemas[name].type.value:
            rule = f"have type {schemas[name].type.name}"
            faults.append(Fault("", name, rule, attribute_value(attribute)))
    for name, own in schemas.items():
        if own.required and name not in given:
            faults.append(Fault("", name, "be given", Unquoted("nothing")))
    raise_if(faults)


def output_types(node: Node, ir: int) -> list[Type | None]:
    """Return the types of a node's outputs, as ONNX infers them; None where it does not.

    `ir` is the version of the format. Raises `DmlError` where ONNX refuses the node.
    """
    proto, schema, inputs, versions = node.proto, node.schema, node.inputs, node.record.versions
    if schema is None:
        return [None] * len(proto.output)
    kinds = {
        name: helper.make_tensor_type_proto(tensor.type.element, tensor.shape)
        for name, tensor in zip(proto.input, inputs, strict=True)
        if tensor is not None
    }
    if versions.inferred_as:
        proto, inputs = deepcopy(proto), [*inputs]
        versions.inferred_as(proto, kinds, inputs)
    data, weights, deciding = {}, {}, set[str]()
    for name, tensor in zip(proto.input, inputs, strict=True):
        if tensor is None or not tensor.is_known:
            continue
        is_list = tensor.type.element in _LIST_ELEMENTS and len(tensor.shape) == 1
        is_small = tensor.type.element_count <= _READ_BY_INFERENCE_MAX
        deciding |= {name} if is_list and is_small else set()
        if is_list or is_small:
            (weights if tensor.is_weight else data)[name] = tensor
    imports = [helper.make_opsetid(d, v) for d, v in node.opsets.items()]
    if schema.since_version < versions.inferred_since:
        schema = defs.get_schema(proto.op_type, versions.inferred_since, schema.domain)

    def infer(tensors: Mapping[str, Tensor]) -> dict[str, onnx.TypeProto]:
        known = {}
        for name, tensor in tensors.items():
            try:
                known[name] = numpy_helper.from_array(tensor.array, name)
            except DmlError:
                continue  # it cannot be folded; sizes that depend on it stay unknown
        try:
            return onnx.shape_inference.infer_node_outputs(
                schema, proto, kinds, known, opset_imports=imports, ir_version=ir
            )
        except _REFUSALS as error:
            text = str(error).strip().splitlines()
            lists = {n: f"{n} = {tensors[n].array.tolist()}" for n in deciding & known.keys()}
            pairs = zip(proto.input, inputs, strict=True)
            shown = ", ".join(lists.get(n, f"{[*x.shape]}") for n, x in pairs if x is not None)
            rule = Sentence(f"{BREAKS_RULES} {text[0] if text else error} (inputs {shown})")
            raise DmlError([Fault("", "", rule, "", kind=OF_SIZES)]) from None

    found = infer(data)
    made = [Type.of(kind) for kind in found.values()]
    if weights and not all(kind and kind.shape is not None for kind in made):
        found = infer({**data, **weights})  # their elements stay as they are from here on
    return [_tensor_type(name, found.get(name)) for name in proto.output]


def _tensor_type(name: str, kind: onnx.TypeProto | None) -> Type | None:
    """Return the infer type of an output. Raises `DmlError` where it is no tensor's."""
    found = Type.of(kind)
    if kind is not None and found is None:
        what = Unquoted(kind.WhichOneof("value") or "no type")
        rule = "be a tensor (a session of dml_jax.onnxruntime takes others)"
        raise DmlError([Fault("", f"the output '{name}'", rule, what)])
    return found


def _check_types(schema: defs.OpSchema, inputs: Sequence[Tensor | None]) -> None:
    """Raise `DmlError` where an input is a tensor of elements that an op type does not take."""
    formal = [*schema.inputs, *[*schema.inputs][-1:] * len(inputs)]  # the last one may repeat
    faults = []
    for one, tensor in zip(formal, inputs, strict=False):
        name = tensor.type.name if tensor is not None else ""
        if name and not any(f"tensor({name.lower()})" in kind for kind in one.types):
            rule = f"be {' or '.join(sorted(one.types))}"
            faults.append(Fault("", one.name, rule, Unquoted(name)))
    raise_if(faults)

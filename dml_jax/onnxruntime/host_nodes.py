"""Nodes that only the host computes, of strings and maps: the package onnxruntime runs them."""

import functools
import importlib
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from dml_jax.errors import DmlError, Fault
from dml_jax.onnx.files.attributes import MICROSOFT, domain_of, label_of
from dml_jax.onnx.files.local_functions import Opsets, key_of
from dml_jax.onnx.files.topology import within
from dml_jax.onnx.nodes.op_types import record_of
from dml_jax.onnx.nodes.schemas import check_inference, schema_of
from dml_jax.onnxruntime import errors
from dml_jax.onnxruntime.model_parts import Source, Types, read_by_outer
from dml_jax.onnxruntime.stage import Values
from dml_jax.system import processor

# All releases of onnxruntime read these versions that can stand beside this package.
_IR, _OPSET = 10, 21
# Small Linux systems lack en_US, ONNX's default. This locale has the same letters.
_LOCALE = "C.utf8"
# Of a session, of which a model may have many: each keeps its threads until it ends.
_THREADS_MAX = 4
_PACKAGE = "onnxruntime"
# What the package alone computes of its own domain, asked where it is not installed.
_OF_PACKAGE = {
    *("AttnLSTM", "BeamSearch", "BifurcationDetector", "BranchwiseRMSNorm", "CropAndResize"),
    *("DecoderMaskedMultiHeadAttention", "DynamicTimeWarping", "EngramGate", "GatedAdd"),
    *("GatedDeltaNet", "GatedRMSNorm", "GatherPacked", "GreedySearch", "GridSample"),
    *("HyperConnectionPostMix", "HyperConnectionPreMix", "LinearAttentionGate", "MRotaryEmbedding"),
    *("MatMulBnb4", "MatMulFpQ4", "MatMulInteger16", "MaxpoolWithMask", "MoEGroupRouter"),
    *("MurmurHash3", "NGramHashMapping", "NGramRepeatBlock", "QEmbedLayerNormalization"),
    *("QLinearWhere", "Range", "SampleOp", "Sampling", "ScaledSiLU", "SparseToDenseMatMul"),
    *("Tokenizer", "Unique", "VarlenCausalConvWithState", "VarlenNGramHashMapping"),
    *("WhisperBeamSearch", "WordConvEmbedding"),
}
# A message of the package begins with codes and places in its C++ files.
_PREFIX = re.compile(r"\[ONNXRuntimeError\] : \d+ : \w+ : (.*Status Message: )?")


class HostNodes:
    """The nodes of a model that only the host computes; neighbours are one session, which is kept.

    Raises `NotImplemented` for a node that the package onnxruntime has not, or where it is missing.
    """

    def __init__(self, source: Source):
        # By the names and types of tensors, without sizes: a model has few of these, so that none
        # is ever evicted.
        self._source, self._sessions = source, dict[Any, Any]()
        self._held, graph = set[str](), source.proto.graph
        if any(map(self.has, source.nodes)) or not all(
            _is_of_numbers(value.type) for value in (*graph.input, *graph.output)
        ):
            self._held = {name for name, kind in source.kinds.items() if not _is_of_numbers(kind)}
        found = [node for node in source.nodes if self.has(node)]
        if found and _package() is None:
            is_never = any(_is_own(*pair) for pair in self._within(found[0]))
            raise errors.NotImplemented(_missing(found[0], "" if is_never else "it has strings"))
        for node, opsets in (pair for each in found for pair in self._within(each)):
            if _is_own(node, opsets) and not knows(domain_of(node.domain), node.op_type):
                said = errors.sentence(f"neither JAX nor the package {_PACKAGE} computes it")
                raise errors.NotImplemented(said.within(label_of(node)))

    def has(self, node: onnx.NodeProto) -> bool:
        """Return whether only the host computes a node, or one of the graphs within it."""
        if self._held and not self._held.isdisjoint(read_by_outer(node).union(node.output)):
            return True
        return any(_is_own(*pair) for pair in self._within(node))

    def _within(self, node: onnx.NodeProto, opsets: Opsets | None = None) -> Iterator[Any]:
        """Yield a node, those of its graphs and those of its function, each with its versions."""
        for inner in within(node):
            key = key_of(inner.domain, inner.op_type, inner.overload)
            function = self._source.functions.get(key)
            if function is None:
                yield inner, opsets or self._source.opsets
                continue
            own = {domain_of(opset.domain): opset.version for opset in function.opset_import}
            for each in function.node:
                yield from self._within(each, own)

    def run(
        self,
        nodes: Sequence[onnx.NodeProto],
        values: Values,
        wanted: set[str],
        faults: Sequence[Fault],
    ) -> None:
        """Compute neighbours, in order; add the `wanted` ones of their results to `values`.

        `faults` say why JAX does not compute them. Raises an exception of ONNX Runtime, with these
        faults where there are some.
        """
        made = [name for node in nodes for name in node.output if name]
        reads = sorted({name for node in nodes for name in read_by_outer(node)}.difference(made))
        feeds = {name: _given(values[name]) for name in reads if name in values}
        kinds = {name: self._kind(name, value) for name, value in feeds.items()}
        asked = [name for name in made if name in wanted]
        key = (*asked, *made, *(kind.SerializeToString() for kind in kinds.values()))
        has_graph = any(attribute.HasField("g") for attribute in nodes[0].attribute)
        if _package() is None:
            # The faults say what is wrong with a plain node. Those of a node with graphs say mostly
            # that data decide sizes within it, which the package would not mind.
            if has_graph or not faults:
                raise errors.NotImplemented(_missing(nodes[0], "data decides sizes in it"))
            raise errors.NodeError(DmlError(faults))
        try:
            if key not in self._sessions:
                weights = [name for name in reads if name not in values]
                self._sessions[key] = _session(self._model(nodes, kinds, weights, asked))
            results = self._sessions[key].run(asked, feeds)
        except Exception as error:
            # The package has no base of its exceptions, and its C++ code raises Python's as well.
            text = _PREFIX.sub("", " ".join(str(error).split()))
            said = errors.sentence(f"{_PACKAGE} says: {text}")
            own = said.within(", ".join(map(label_of, nodes)))
            classes = {kind.__name__: kind for kind in errors.OnnxRuntimeError.__subclasses__()}
            kind = classes.get(type(error).__name__, errors.Fail)
            raise kind(DmlError(faults) if faults else own) from None
        values |= zip(asked, results, strict=True)

    def _kind(self, name: str, value: Any) -> onnx.TypeProto:
        """Return the type of a value: that of the model for one that tells none."""
        if isinstance(value, np.ndarray):
            return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(value.dtype), None)
        if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
            return helper.make_sequence_type_proto(self._kind(name, value[0]))
        return self._source.kinds[name]

    def _model(
        self,
        nodes: Sequence[onnx.NodeProto],
        kinds: Types,
        weights: Sequence[str],
        asked: Sequence[str],
    ) -> onnx.ModelProto:
        """Return a model of nodes, of the least versions that mean the same."""
        opsets, functions = self._source.opsets, [*self._source.functions.values()]
        versions = {"": min(opsets.get("", 1), _OPSET)}
        versions |= {domain_of(f.domain): opsets.get(domain_of(f.domain), 1) for f in functions}
        for node, own in (pair for each in nodes for pair in self._within(each)):
            check_inference(node)
            domain = domain_of(node.domain)
            versions[domain] = max(_schema(node, own)[0], versions.get(domain, 1))
        graph = helper.make_graph(
            [*nodes],
            "host",
            [helper.make_value_info(name, kind) for name, kind in kinds.items()],
            [onnx.ValueInfoProto(name=name) for name in asked],
            [numpy_helper.from_array(self._source.initializers[n][0], n) for n in weights],
        )
        for node in (inner for each in graph.node for inner in within(each)):
            has_locale = any(attribute.name == "locale" for attribute in node.attribute)
            if node.op_type == "StringNormalizer" and sys.platform == "linux" and not has_locale:
                node.attribute.append(helper.make_attribute("locale", _LOCALE))
        imports = [helper.make_opsetid(*item) for item in versions.items()]
        return helper.make_model(graph, opset_imports=imports, ir_version=_IR, functions=functions)


def _schema(node: onnx.NodeProto, opsets: Opsets) -> tuple[int, Any]:
    """Return the version of an op type, and its schema if ONNX has it."""
    domain = domain_of(node.domain)
    try:
        return schema_of(domain, node.op_type, opsets)
    except DmlError:  # the package alone knows it
        return opsets.get(domain, 1), None


def _is_own(node: onnx.NodeProto, opsets: Opsets) -> bool:
    """Return whether nothing but the package computes an op type, for any types."""
    record = record_of(domain_of(node.domain), node.op_type)
    if record.translators or record.fallbacks or record.inlined:
        return False
    _, schema = _schema(node, opsets)
    return not (schema and (schema.has_function or schema.has_context_dependent_function))


def _is_of_numbers(kind: onnx.TypeProto) -> bool:
    """Return whether arrays of JAX hold the values of a type: tensors, and sequences of them."""
    which = kind.WhichOneof("value")
    if which in ("sequence_type", "optional_type"):
        return _is_of_numbers(getattr(kind, which).elem_type)
    return which == "tensor_type" and kind.tensor_type.elem_type != TensorProto.STRING


def _given(value: Any) -> Any:
    """Return a value as the package takes it."""
    if isinstance(value, list):
        return [_given(x) for x in value]
    if value is None or isinstance(value, dict):
        return value
    array = np.asarray(value)
    return array.astype(object) if array.dtype.kind in "US" else array


def _missing(node: onnx.NodeProto, why: str) -> str:
    """Return the message about a node that the package computes; `why`, or JAX never does."""
    reason = f"since {why}" if why else "which JAX does not compute"
    text = f"expected the package {_PACKAGE} to be installed for {label_of(node)}"
    return f"{text}, {reason}: pip install {_PACKAGE}"


def _session(model: onnx.ModelProto) -> Any:
    package = _package()
    options = package.SessionOptions()
    # Its log would repeat, on the terminal, the errors that this package raises.
    options.log_severity_level = 4
    options.intra_op_num_threads = min(processor.cores(), _THREADS_MAX)
    # Threads that spin between two runs would take the cores from XLA's.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    providers = ["CPUExecutionProvider"]
    return package.InferenceSession(model.SerializeToString(), options, providers=providers)


@functools.cache
def _package() -> Any:
    """Return the package itself, also where this one has its name; None where it is missing."""
    known = {n: m for n, m in sys.modules.items() if n.partition(".")[0] == _PACKAGE}
    if _PACKAGE in known and getattr(known[_PACKAGE], "__name__", _PACKAGE) == _PACKAGE:
        return known[_PACKAGE]  # the package, or None: it must not be found
    # A program that runs within `python -m dml_jax.onnxruntime` has this package under the name of
    # the other one, in `sys.modules` and by a finder: both stand aside for this one import.
    finders = [*sys.meta_path]
    sys.meta_path[:] = [f for f in finders if not type(f).__module__.startswith("dml_jax.")]
    for name in known:
        del sys.modules[name]
    try:
        found = importlib.import_module(_PACKAGE)
        # The package sends usage from Windows. A program that asked for dml_jax agreed to nothing.
        found.disable_telemetry_events()
        return found
    except ImportError:  # also of a library that is missing
        return None
    finally:
        sys.meta_path[:] = finders
        sys.modules.update(known)


@functools.cache
def knows(domain: str, op_type: str) -> bool:
    """Return whether the package computes an op type, also where it is missing."""
    if _package() is None:
        return domain == MICROSOFT and op_type in _OF_PACKAGE
    kernels = _package().capi._pybind_state.get_all_opkernel_def()
    return any((k.domain, k.op_name) == (domain, op_type) for k in kernels)

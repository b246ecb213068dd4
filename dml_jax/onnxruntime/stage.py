"""Runs networks whose sizes follow from data: stage by stage, each with sizes that are known.

A stage is a network of all nodes that can be had of the sizes and values at hand. Where data decide
a size, the stage ends: its results are computed, and the next stage is made for them. So nothing is
padded between stages, and a program serves all runs that have its sizes. Nodes that no array
of JAX can be part of, of strings and maps, are computed in between, on the host.
"""

import functools
import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from dml_jax import beyond
from dml_jax.errors import (
    OF_LIMITS,
    DmlError,
    Expect,
    Fault,
    Sentence,
    Unquoted,
    collecting,
    raise_if,
)
from dml_jax.onnx.files import model as models
from dml_jax.onnx.files.attributes import domain_of, label_of
from dml_jax.onnx.files.external_data import Folder, with_inner_elements
from dml_jax.onnx.files.inlined_calls import written_out
from dml_jax.onnx.files.local_functions import FunctionKey, key_of
from dml_jax.onnx.files.saving import Origin
from dml_jax.onnx.files.topology import needed, read_by, repeated, within
from dml_jax.onnx.files.types import Type, dense
from dml_jax.onnx.loading import load, load_translators, network_of, translated_of
from dml_jax.onnx.network import Network, Translated
from dml_jax.onnx.nodes.schemas import BREAKS_RULES, check_attributes, schema_of
from dml_jax.onnx.nodes.tensor import Scope, Tensor, TensorList
from dml_jax.onnx.options import NetworkOptions
from dml_jax.onnx.translate.translation import Translation
from dml_jax.onnxruntime.decided_branches import decided
from dml_jax.runtime.platform import default_device, platform
from dml_jax.runtime.program_cache import ProgramCache
from dml_jax.runtime.weight_store import Storage, WeightStore

Values = dict[str, Any]
"""Values by name: arrays, a list for a sequence, and what else ONNX Runtime has in Python."""

_BY_VALUE_MAX = 4096  # elements of integers that decide sizes
_STATE = ("known", "tries", "by_value", "later", "refused", "_lists")
_INFERRED_MAX = 4096  # bytes of an initializer that sizes may follow from
_LISTS_OF_ELEMENTS = ("float_data", "double_data", "int32_data", "int64_data", "uint64_data")
_SMALL = 8  # elements of an input whose values decide sizes
_DECIDING_ALL = {"ConstantOfShape", "EyeLike", "If", "Loop", "Range", "RandomNormal"}
"""The op types whose first input may decide sizes too, besides the others."""


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


@dataclass
class Plan:
    """What a stage is made for.

    Attributes:
        nodes: those that are not computed yet, each after those that it reads from.
        values: what is computed and read, by name: a `Type` where any elements will do, an array
            where the stage is for these, a list of types for a sequence, None for what stays on
            the host.
        tries: how often each node was refused, by its first output.
    """

    nodes: Sequence[onnx.NodeProto]
    values: Mapping[str, Any]
    tries: Mapping[str, int] = field(default_factory=dict)


class Stage:
    """The part of a network that is computed at once, and what is left.

    Args:
        source: the model.
        plan: what the stage is made for.
        wanted: the names of the outputs of the model.

    Attributes:
        network: the part; None where it has no nodes.
        known: the arrays that follow from sizes alone, by name.
        hosted: the nodes that are computed after it, on the host.
        left: the nodes that the next stages compute.
        by_value: the tensors whose elements the next stage is made for.
        is_compiled: whether it ran before.
        before: the stage before it.
        reads: the tensors, computed so far, that the next stages read.
        programs: where the stage and its programs are kept, or None.

    Raises `DmlError` where the part cannot be had.
    """

    def __init__(
        self,
        source: Source,
        plan: Plan,
        wanted: Sequence[str],
        programs: ProgramCache | None = None,
    ):
        self.source, self.known = source, dict[str, np.ndarray]()
        self.hosted, self.left = list[onnx.NodeProto](), list[onnx.NodeProto]()
        self.is_compiled = False
        self.before: Stage | None = None
        self.programs = programs
        self._plan, self._is_file, self._wanted = plan, True, {*wanted}
        self._kept_in: Path | None = None
        self._lists: dict[str, int] = {}
        self.tries = dict(plan.tries)
        ir = source.proto.ir_version
        with beyond.allowed():
            translation = Translation(source.opsets, source.functions, ir, fallback=True)
            scope: Scope = {}
            inputs = self._read(translation, plan, scope, wanted)
            self.refused = self._translate(translation, plan, scope, wanted)
            outputs = self._outputs(scope, plan, wanted)
            self.network = None
            if outputs:
                given = {n: k for n, k in inputs.items() if not k.is_empty}
                translated = translated_of(translation, given, outputs)
                storage = Storage(source.store, programs)
                self.network = network_of(
                    translated, source.options, Origin(source.proto), storage, load
                )
                arrays = source.initializers
                self._is_file = all(  # or another start would not find them
                    n in arrays and w is arrays[n][0] for n, w in translated.weights.items()
                )
        self._plan_next(plan, scope)

    @classmethod
    def kept(
        cls, source: Source, plan: Plan, wanted: Sequence[str], before: "Stage | None" = None
    ) -> "Stage":
        """Return a stage, as it was kept if it was; `before` is the stage before it."""
        if source.cache is None or (device := default_device()) is None:
            return cls(source, plan, wanted)
        last = before.programs if before is not None else None
        nodes = [_key(n) for n in plan.nodes] if last is None else last.key
        given = [(name, _described(plan.values[name])) for name in sorted(plan.values)]
        whole = source.digest, nodes, given, sorted(plan.tries.items()), [*wanted]
        programs = ProgramCache(source.cache, hashlib.sha256(repr(whole).encode()).hexdigest())
        file = programs.record_file(f"stage {platform()}", device)
        state = programs.read_record(file)
        is_kept = isinstance(state, dict)
        made = cls._started if is_kept else cls
        stage = made(source, plan, wanted, programs, *([state] if is_kept else []))
        stage._kept_in = None if is_kept else file
        return stage

    @classmethod
    def _started(
        cls,
        source: Source,
        plan: Plan,
        wanted: Sequence[str],
        programs: ProgramCache,
        state: dict[str, Any],
    ) -> "Stage":
        """Return the stage of a state that was kept."""
        made, record = cls.__new__(cls), state["network"]
        fresh: Any = {"source": source, "before": None, "is_compiled": False, "programs": programs}
        vars(made).update({**state, **fresh, "_plan": plan, "_wanted": {*wanted}})
        for name in ("left", "hosted"):
            nodes = [plan.nodes[n] if isinstance(n, int) else n for n in state[name]]
            setattr(made, name, nodes)
        made.network = None
        if record is not None:

            def translated() -> Translated:
                network = cls(source, plan, wanted).network
                assert network is not None  # as it was when it was recorded
                return network.translated()

            storage, arrays = Storage(source.store, programs), source.initializers
            held = storage.store.put([arrays[name][0] for name in record.weights])
            made.network = Network(
                *(record.signature, dict(zip(record.weights, held, strict=True))),
                *(source.options, Origin(source.proto), storage, functools.cache(translated)),
                *(load, record),
            )
        return made

    def keep(self) -> None:
        """Keep the stage for other processes, once."""
        file, self._kept_in = self._kept_in, None
        if file is None or self.programs is None or not self._is_file:
            return
        places = {id(node): place for place, node in enumerate(self._plan.nodes)}
        state = {
            **{name: getattr(self, name) for name in _STATE},
            "left": [places.get(id(node), node) for node in self.left],
            "hosted": [places.get(id(node), node) for node in self.hosted],
            "network": self.network and self.network.recorded(),
        }
        self.programs.write_record(file, state)

    def _read(
        self, translation: Translation, plan: Plan, scope: Scope, wanted: Sequence[str]
    ) -> dict[str, Type]:
        """Put what the nodes read into the scope; return the types of the network's inputs."""
        reads = {name for node in plan.nodes for name in read_by(node)} | {*wanted}
        inputs: dict[str, Type] = {}
        for name, value in plan.values.items():
            if name not in reads or value is None:
                continue
            if isinstance(value, Type):
                inputs[name] = value
                scope[name] = translation.input(name, value)
            elif isinstance(value, list):
                kinds = {f"{name}[{k}]": kind for k, kind in enumerate(value)}
                inputs |= kinds
                scope[name] = TensorList([translation.input(*item) for item in kinds.items()])
            else:
                scope[name] = translation.constant(name, value)
        for name in reads & self.source.initializers.keys() - plan.values.keys():
            array, element = self.source.initializers[name]
            if array.dtype != object:
                scope[name] = translation.weight(name, array, element)
        return inputs

    def _translate(
        self, translation: Translation, plan: Plan, scope: Scope, wanted: Sequence[str]
    ) -> dict[str, Sequence[Fault]]:
        """Translate all nodes that can be had; return the faults of those that are refused."""
        refused: dict[str, Sequence[Fault]] = {}
        nodes, made = deque(plan.nodes), set[str]()
        there = plan.values.keys() | self.source.initializers.keys()
        while nodes:
            node = nodes.popleft()
            inlined = decided(node, scope)
            if inlined is not None:
                rest = (*self.left, *self.hosted)
                asked = {name for other in rest for name in read_by_outer(other)}
                nodes = deque(needed([*inlined, *nodes], asked | {*wanted}))
                continue
            missing = {name for name in read_by_outer(node) if name not in scope}
            if (is_own := self.source.host.has(node)) or missing:
                is_there = missing <= there | made if is_own else missing <= there
                (self.hosted if is_there else self.left).append(node)
                made |= {*node.output} if is_there else set()
                continue
            faults = translation.attempt(node, scope, self.source.opsets)
            raise_if(fault for fault in faults if fault.kind == OF_LIMITS)
            names = [name for name in node.output if name]
            if faults or any(scope.get(name) is None for name in names):
                for name in names:
                    scope.pop(name, None)
                refused[_key(node)] = faults
                self.left.append(node)
        return refused

    def _outputs(self, scope: Scope, plan: Plan, wanted: Sequence[str]) -> dict[str, Tensor]:
        """Return the tensors that are computed here and read later."""
        outputs: dict[str, Tensor] = {}
        rest = (*self.left, *self.hosted)
        later = {name for node in rest for name in read_by_outer(node)} | {*wanted}
        for name in scope.keys() & later - plan.values.keys() - self.source.initializers.keys():
            value = scope[name]
            if isinstance(value, TensorList):
                self._lists[name] = len(value.tensors)
                outputs |= {f"{name}[{k}]": tensor for k, tensor in enumerate(value.tensors)}
            elif value.is_known and not value.is_weight:
                self.known[name] = value.array.astype(value.type.dtype, copy=False)
            else:
                outputs[name] = value
        return outputs

    def _plan_next(self, plan: Plan, scope: Scope) -> None:
        """Decide what of the refused nodes is computed by value, or on the host."""
        values = dict.fromkeys(n for n, v in plan.values.items() if isinstance(v, np.ndarray))
        for node in self.left:
            if _key(node) not in self.refused:
                continue
            names = [name for name in node.input if name]
            tensors = [scope[name] for name in names if isinstance(scope.get(name), Tensor)]
            if any(tensor.padding for tensor in tensors):
                continue  # the next stage has it without padding
            is_typed = all(isinstance(scope.get(name), Tensor) for name in names)
            first, deciding = self.tries.get(_key(node), 0) + 1, list[str]()
            for tries in range(first, max(first, 2) + 1):
                self.tries[_key(node)] = tries
                asked = [n for n in _deciding(node, tries) if _may_decide(scope.get(n), tries)]
                deciding = [n for n in asked if n not in values and n not in self.known]
                if deciding:
                    break
            faults = self.refused[_key(node)]
            if is_typed and deciding:
                values |= dict.fromkeys(deciding)
            elif any(str(fault.rule).startswith(BREAKS_RULES) for fault in faults):
                raise DmlError(faults)  # the host might end the process
            else:
                self.hosted.append(node)
        hosted = {_key(node) for node in self.hosted}
        self.left = [node for node in self.left if _key(node) not in hosted]
        later = {name for node in self.left for name in read_by_outer(node)}
        self.by_value = tuple(name for name in values if name in later)
        self.later = later
        is_same = all(isinstance(plan.values.get(name), np.ndarray) for name in self.by_value)
        if self.network is None and not self.hosted and not self.known and self.left and is_same:
            faults = [fault for found in self.refused.values() for fault in found]
            rule = Sentence("the network cannot be computed by these sizes")
            raise DmlError(faults or [Fault("", "", rule, "")])

    def run(self, values: Values) -> None:
        """Compute the stage; add its results to `values`."""
        values |= self.known
        network, results = self.network, Values()
        if network is not None:
            given = {name: _of(values, name) for name in network.inputs}
            results = network.without_padding(network.within(network.run(given), given))
        for name, count in self._lists.items():
            values[name] = [results.pop(f"{name}[{k}]") for k in range(count)]
        values |= results
        alone = [[node] for node in self.hosted if _key(node) in self.refused]
        group = [node for node in self.hosted if _key(node) not in self.refused]
        for nodes in filter(None, (group, *alone)):
            faults = self.refused.get(_key(nodes[0]), ())
            self.source.host.run(nodes, values, self._wanted | self.later, faults)
        self.is_compiled = True
        self.keep()

    def drop(self) -> None:
        """Forget the compiled programs."""
        if self.network is not None:
            self.network.executable.forget()

    def key(self, values: Values) -> tuple[Any, ...]:
        """Return what the next stage depends on: the sizes of tensors, and the values of some."""
        return tuple(
            _signature(values[name], name in self.by_value)
            for name in sorted(self.later & values.keys())
        )

    def next(self, values: Values, wanted: Sequence[str]) -> "Stage":
        """Return the stage after this one, for these values."""
        given: dict[str, Any] = {}
        for name in self.later & values.keys():
            value = values[name]
            if name in self.known or (name in self.by_value and not isinstance(value, list)):
                given[name] = np.asarray(value)
            else:
                given[name] = type_of(value)
        return Stage.kept(self.source, Plan(self.left, given, self.tries), wanted, self)


def _key(node: onnx.NodeProto) -> str:
    """Return what a node is known by: no other one has its output."""
    return next(filter(None, node.output), "")


def read_by_outer(node: onnx.NodeProto) -> set[str]:
    """Return the tensors around a node that it reads, also within its graphs."""
    names = {name for name in node.input if name}
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            names |= _free_in(graph)
    return names


def _free_in(graph: onnx.GraphProto) -> set[str]:
    own = {v.name for v in graph.input} | {t.name for t in graph.initializer}
    own |= {name for node in graph.node for name in node.output}
    reads = {name for node in graph.node for name in read_by_outer(node)}
    return (reads | {v.name for v in graph.output}) - own - {""}


def _deciding(node: onnx.NodeProto, tries: int) -> list[str]:
    """Return the inputs of a refused node that may decide its sizes."""
    first = 0 if tries > 1 or node.op_type in _DECIDING_ALL else 1
    return [name for name in node.input[first:] if name]


def _may_decide(tensor: Any, tries: int) -> bool:
    """Return whether the elements of a tensor may decide sizes."""
    if not isinstance(tensor, Tensor) or tensor.is_known:
        return False
    is_number = tensor.type.dtype.kind in "iub" or (tries > 1 and tensor.type.is_floating)
    return is_number and tensor.type.element_count <= _BY_VALUE_MAX


def type_of(value: Any) -> Any:
    """Return the type of an array, a list of types of a sequence of arrays, None for another."""
    if isinstance(value, list):
        kinds = [type_of(x) for x in value]
        return kinds if all(isinstance(kind, Type) for kind in kinds) else None
    dtype = getattr(value, "dtype", None)
    if dtype is None or dtype.kind in "OUS":
        return None
    return Type(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), tuple(value.shape))


def _signature(value: Any, is_by_value: bool) -> Any:
    if isinstance(value, list):
        return tuple(_signature(x, False) for x in value)
    if not hasattr(value, "dtype"):
        return None
    if is_by_value:
        value = np.asarray(value)
        return value.shape, value.dtype, value.tobytes()
    return value.shape, value.dtype


def _described(value: Any) -> Any:
    """Return a value of a `Plan` as a text shows it whole."""
    if not isinstance(value, np.ndarray):
        return value
    return value.shape, value.dtype, value.tolist() if value.dtype.hasobject else value.tobytes()


def _of(values: Values, name: str) -> Any:
    if name in values:
        return values[name]
    listed, _, place = name.rpartition("[")
    return values[listed][int(place[:-1])]


def first_stage(
    source: Source,
    nodes: Sequence[onnx.NodeProto],
    values: Values,
    wanted: Sequence[str],
    deciding: set[str],
) -> Stage:
    """Return the first stage for the values of inputs.

    Args:
        source: the model.
        nodes: the part of it that is computed, each node after those that it reads from.
        values: the inputs by name.
        wanted: the names of the outputs of the model.
        deciding: the inputs whose values decide sizes; those that are found are added.
    """
    while True:
        given = {n: np.asarray(v) if n in deciding else type_of(v) for n, v in values.items()}
        stage = Stage.kept(source, Plan(nodes, given), wanted)
        found = {n for n in _origins(stage, nodes, values) if n not in deciding}
        if not found:
            return stage
        stage.keep()
        deciding |= found


def _origins(stage: Stage, nodes: Sequence[onnx.NodeProto], values: Values) -> set[str]:
    """Return the inputs that decide sizes by their values alone: a few integers each."""
    makers = {name: node for node in nodes for name in node.output if name}
    found: set[str] = set()
    for name in stage.by_value:
        names, seen, pending = set[str](), {name}, [name]
        while pending:
            one = pending.pop()
            if one in values:
                names.add(one)
            node = makers.get(one)
            if node is not None and (node.op_type not in ("Shape", "Size") or node.domain):
                fresh = read_by_outer(node) - seen
                seen |= fresh
                pending += fresh
        if all(_is_small(values[n]) for n in names):
            found |= names
    return found


def _is_small(value: Any) -> bool:
    return getattr(value, "size", _SMALL + 1) <= _SMALL and value.dtype.kind in "iub"

"""Runs networks whose sizes follow from data: stage by stage, each with sizes that are known.

A stage is a network of all nodes that can be had of the sizes and values at hand. Where data decide
a size, the stage ends: its results are computed, and the next stage is made for them. So nothing is
padded between stages, and a program serves all runs that have its sizes. Nodes that no array
of JAX can be part of, of strings and maps, are computed in between, on the host.
"""

import functools
import hashlib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from dml_jax import beyond
from dml_jax.errors import (
    OF_LIMITS,
    DmlError,
    Fault,
    Sentence,
    raise_if,
)
from dml_jax.onnx.files.saving import Origin
from dml_jax.onnx.files.topology import needed, read_by
from dml_jax.onnx.files.types import Type
from dml_jax.onnx.loading import load, network_of, translated_of
from dml_jax.onnx.network import Network, Translated
from dml_jax.onnx.nodes.schemas import BREAKS_RULES
from dml_jax.onnx.nodes.tensor import Scope, Tensor, TensorList
from dml_jax.onnx.translate.translation import Translation
from dml_jax.onnxruntime.decided_branches import decided
from dml_jax.onnxruntime.model_parts import Source, read_by_outer
from dml_jax.runtime.platform import default_device, platform
from dml_jax.runtime.program_cache import ProgramCache
from dml_jax.runtime.weight_store import Storage

Values = dict[str, Any]
"""Values by name: arrays, a list for a sequence, and what else ONNX Runtime has in Python."""

_BY_VALUE_MAX = 4096  # elements of integers that decide sizes
_STATE = ("known", "tries", "by_value", "later", "refused", "_lists")
_DECIDING_ALL = {"ConstantOfShape", "EyeLike", "If", "Loop", "Range", "RandomNormal"}
"""The op types whose first input may decide sizes too, besides the others."""


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

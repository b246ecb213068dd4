"""Makes stages: of the nodes that can be had, or of a record that another process wrote."""

import functools
import hashlib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from dml_jax.errors import OF_LIMITS, DmlError, Fault, Sentence, raise_if
from dml_jax.onnx.files.attributes import domain_of
from dml_jax.onnx.files.model import Origin
from dml_jax.onnx.files.topology import needed
from dml_jax.onnx.files.types import Type
from dml_jax.onnx.loading import network_of, record_of, start_from
from dml_jax.onnx.network import Network
from dml_jax.onnx.nodes.schemas import BREAKS_RULES
from dml_jax.onnx.nodes.tensor import Scope, Tensor, TensorList, mistyped
from dml_jax.onnx.translate.model_graph import translated_of
from dml_jax.onnx.translate.translation import Translation
from dml_jax.onnx.translated import NetworkRecord, Translated
from dml_jax.onnxruntime.model_parts import Source, read_by_nodes, read_by_outer
from dml_jax.onnxruntime.stage import Stage, Task
from dml_jax.runtime.platform import default_device, platform
from dml_jax.runtime.program_cache import ProgramCache
from dml_jax.runtime.weight_store import Storage

# Elements of integers that decide sizes. The key of the next stage has their bytes, and each other
# value costs a translation and a compile: larger arrays are data, not sizes.
_BY_VALUE_MAX = 4096
# The first input of most nodes is data, whose elements decide no size. Of these op types it may.
_DECIDING_ALL = {"ConstantOfShape", "EyeLike", "If", "Loop", "Range", "RandomNormal"}
_SAME_IN_RECORD = ("known", "lists", "reads", "by_value", "tries")


def stage_of(source: Source, task: Task, before: Stage | None = None) -> Stage:
    """Return the stage of a task: a recorded one, where a process with this cache made it.

    `before` is the stage before it. Raises `DmlError` where no node can be had, or one breaks a
    rule.
    """
    device = default_device()
    if source.cache is None or device is None:
        return _StageBuilder(source, task).build()
    # The nodes of a later stage follow from the stage before it: its key says all of them, also
    # those that an If left.
    cache = before.cache if before is not None else None
    nodes = cache.key if cache is not None else [_name_of(node) for node in task.nodes]
    values = [(name, _content_of(task.values[name])) for name in sorted(task.values)]
    content = source.digest, nodes, values, sorted(task.tries.items()), [*task.outputs]
    cache = ProgramCache(source.cache, hashlib.sha256(repr(content).encode()).hexdigest())
    file = cache.record_file(f"stage {platform()}", device)
    record = cache.read_record(file)
    if isinstance(record, dict):
        return _recorded_stage(record, source, task, cache)
    return _StageBuilder(source, task).build(cache, file)


def _recorded_stage(
    record: Mapping[str, Any], source: Source, task: Task, cache: ProgramCache
) -> Stage:
    """Return the stage of a record; no node of it is translated."""

    def nodes_of(listed: Iterable[Any]) -> Sequence[onnx.NodeProto]:
        return [task.nodes[node] if isinstance(node, int) else node for node in listed]

    return Stage(
        *(source, task, _recorded_network(record["network"], source, task, cache)),
        **{name: record[name] for name in _SAME_IN_RECORD},
        host=[(nodes_of(nodes), faults) for nodes, faults in record["host"]],
        remaining=nodes_of(record["remaining"]),
        cache=cache,
    )


def _recorded_network(
    record: NetworkRecord | None, source: Source, task: Task, cache: ProgramCache
) -> Network | None:
    if record is None:
        return None

    @functools.cache
    def translated() -> Translated:
        network = _StageBuilder(source, task).build(cache).network
        assert network is not None  # as it was when it was recorded
        return network.translated()

    arrays = [source.initializers[name][0] for name in record.weights]
    storage, origin = Storage(source.store, cache), Origin(source.proto)
    return start_from(record, arrays, source.options, origin, storage, translated)


def write_record(stage: Stage) -> None:
    """Record a stage for other processes, where it has a file for that.

    After its first run the record of its network says how long the compile took.
    """
    if stage.record_file is None or stage.cache is None:
        return
    # Nodes of the task are numbers in the record: the reader has these nodes itself.
    places = {id(node): place for place, node in enumerate(stage.task.nodes)}

    def listed(nodes: Sequence[onnx.NodeProto]) -> list[Any]:
        return [places.get(id(node), node) for node in nodes]

    record = {
        **{name: getattr(stage, name) for name in _SAME_IN_RECORD},
        "host": [(listed(nodes), faults) for nodes, faults in stage.host],
        "remaining": listed(stage.remaining),
        "network": stage.network and record_of(stage.network),
    }
    stage.cache.write_record(stage.record_file, record)


class _StageBuilder:
    """Translates the nodes of a task until none is left that can be had."""

    def __init__(self, source: Source, task: Task):
        self._source, self._task = source, task
        self._scope: Scope = {}
        ir = source.proto.ir_version
        self._translation = Translation(source.opsets, source.functions, ir, fallback=True)
        self._remaining, self._host = list[onnx.NodeProto](), list[onnx.NodeProto]()
        self._alone = list[tuple[Sequence[onnx.NodeProto], Sequence[Fault]]]()
        self._refused: dict[str, Sequence[Fault]] = {}
        self._known, self._lists = dict[str, np.ndarray](), dict[str, int]()

    def build(self, cache: ProgramCache | None = None, file: Path | None = None) -> Stage:
        """Return the stage; `cache` and `file` are where it is to be recorded."""
        source, task = self._source, self._task
        inputs = self._put_values()
        self._translate()
        outputs, network = self._outputs(), None
        if outputs:
            inputs = {name: kind for name, kind in inputs.items() if not kind.is_empty}
            translated = translated_of(self._translation, inputs, outputs)
            storage, origin = Storage(source.store, cache), Origin(source.proto)
            network = network_of(translated, source.options, origin, storage)
            # A record has the names of weights. Another process finds these among the
            # initializers of the file, not arrays that the translation made of them.
            known = source.initializers
            if any(x is not known.get(n, (None,))[0] for n, x in translated.weights.items()):
                file = None
        tries, by_value = self._resolve_refusals()
        reads = read_by_nodes(self._remaining)
        stage = Stage(
            *(source, task, network, self._known, self._lists),
            host=[*([(self._host, ())] if self._host else ()), *self._alone],
            remaining=self._remaining,
            reads=frozenset(reads),
            by_value=frozenset(by_value & reads),
            tries=tries,
            cache=cache,
            record_file=file,
        )
        self._check_progress(stage)
        return stage

    def _put_values(self) -> dict[str, Type]:
        """Put what the nodes read into the scope; return the types of the network's inputs."""
        task, translation, scope = self._task, self._translation, self._scope
        reads, inputs = read_by_nodes(task.nodes).union(task.outputs), dict[str, Type]()
        for name, value in task.values.items():
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
        for name in reads & self._source.initializers.keys() - task.values.keys():
            array, element = self._source.initializers[name]
            if array.dtype != object:
                scope[name] = translation.weight(name, array, element)
        return inputs

    def _translate(self) -> None:
        """Translate all nodes that can be had; note the faults of those that are refused."""
        source, task, scope = self._source, self._task, self._scope
        nodes, host_outputs = deque(task.nodes), set[str]()
        present = task.values.keys() | source.initializers.keys()
        while nodes:
            node = nodes.popleft()
            branch = _branch_of(node, scope)
            if branch is not None:
                # Nodes that only the other branch read are needed no more.
                reads = read_by_nodes([*self._remaining, *self._host])
                nodes = deque(needed([*branch, *nodes], reads.union(task.outputs)))
                continue
            missing = {name for name in read_by_outer(node) if name not in scope}
            is_of_host = source.host.has(node)
            if is_of_host or missing:
                is_ready = missing <= (present | host_outputs if is_of_host else present)
                (self._host if is_ready else self._remaining).append(node)
                host_outputs |= {*node.output} if is_ready else set()
                continue
            faults = self._translation.attempt(node, scope, source.opsets)
            raise_if(fault for fault in faults if fault.kind == OF_LIMITS)
            names = [name for name in node.output if name]
            if faults or any(scope.get(name) is None for name in names):
                for name in names:
                    scope.pop(name, None)
                self._refused[_name_of(node)] = faults
                self._remaining.append(node)

    def _outputs(self) -> dict[str, Tensor]:
        """Return the tensors that are computed here and read later; note the known ones."""
        task, outputs = self._task, dict[str, Tensor]()
        raise_if(mistyped(self._source.proto.graph.output, self._scope))
        reads = read_by_nodes([*self._remaining, *self._host]).union(task.outputs)
        computed = self._scope.keys() - task.values.keys() - self._source.initializers.keys()
        for name in sorted(computed & reads):  # in order: another process has the same program
            value = self._scope[name]
            if isinstance(value, TensorList):
                self._lists[name] = len(value.tensors)
                outputs |= {f"{name}[{k}]": tensor for k, tensor in enumerate(value.tensors)}
            elif value.is_known and not value.is_weight:
                self._known[name] = value.array.astype(value.type.dtype, copy=False)
            else:
                outputs[name] = value
        return outputs

    def _resolve_refusals(self) -> tuple[Mapping[str, int], set[str]]:
        """Decide what of the refused nodes is computed by value, or on the host.

        Return how often each was refused, and the tensors whose elements the next stage is for.
        """
        task, tries = self._task, dict(self._task.tries)
        by_value = {name for name, x in task.values.items() if isinstance(x, np.ndarray)}
        remaining, self._remaining = self._remaining, []
        for node in remaining:
            key = _name_of(node)
            faults = self._refused.get(key)
            tensors = [self._scope.get(name) for name in node.input if name]
            is_padded = any(isinstance(t, Tensor) and t.count for t in tensors)
            if faults is None or is_padded:  # the next stage has them without padding
                self._remaining.append(node)
                continue
            first, deciding = tries.get(key, 0) + 1, list[str]()
            for count in range(first, max(first, 2) + 1):
                tries[key] = count
                names = [
                    n for n in _deciding(node, count) if _may_decide(self._scope.get(n), count)
                ]
                deciding = [n for n in names if n not in by_value and n not in self._known]
                if deciding:
                    break
            if deciding and all(isinstance(tensor, Tensor) for tensor in tensors):
                by_value.update(deciding)
                self._remaining.append(node)
            elif any(str(fault.rule).startswith(BREAKS_RULES) for fault in faults):
                raise DmlError(faults)  # the host might end the process
            else:
                self._alone.append(([node], faults))
        return tries, by_value

    def _check_progress(self, stage: Stage) -> None:
        """Raise `DmlError` where the next stage would be for the same, and so without an end."""
        values = self._task.values
        is_same = all(isinstance(values.get(name), np.ndarray) for name in stage.by_value)
        has_results = stage.network is not None or stage.host or stage.known
        if is_same and stage.remaining and not has_results:
            faults = [fault for faults in self._refused.values() for fault in faults]
            rule = Sentence("the network cannot be computed by these sizes")
            raise DmlError(faults or [Fault("", "", rule, "")])


def _name_of(node: onnx.NodeProto) -> str:
    """Return what a node is known by: no other one has its output."""
    return next(filter(None, node.output), "")


def _deciding(node: onnx.NodeProto, tries: int) -> Iterable[str]:
    """Return the inputs of a refused node that may decide its sizes."""
    first = 0 if tries > 1 or node.op_type in _DECIDING_ALL else 1
    return filter(None, node.input[first:])


def _may_decide(tensor: Any, tries: int) -> bool:
    """Return whether the elements of a tensor may decide sizes."""
    if not isinstance(tensor, Tensor) or tensor.is_known:
        return False
    is_number = tensor.type.dtype.kind in "iub" or (tries > 1 and tensor.type.is_floating)
    return is_number and tensor.type.element_count <= _BY_VALUE_MAX


def _content_of(value: Any) -> Any:
    """Return a value of a `Task` as a text shows it whole: NumPy leaves out most of an array."""
    if not isinstance(value, np.ndarray):
        return value
    return value.shape, value.dtype, value.tolist() if value.dtype.hasobject else value.tobytes()


def _branch_of(node: onnx.NodeProto, scope: Scope) -> list[onnx.NodeProto] | None:
    """Return the nodes of the branch that an If takes; None where that is not known, or no If.

    They stand in the place of the If. Names within the branch are made distinct from those around.
    """
    if node.op_type != "If" or domain_of(node.domain) or not node.input or not node.output:
        return None
    condition = scope.get(node.input[0])
    if not isinstance(condition, Tensor) or not condition.is_known or condition.array.size != 1:
        return None
    name = "then_branch" if bool(condition.array.reshape(-1)[0]) else "else_branch"
    graph = next((a.g for a in node.attribute if a.name == name), None)
    if graph is None or graph.sparse_initializer or len(graph.output) != len(node.output):
        return None
    own = [*(n for inner in graph.node for n in inner.output), *(t.name for t in graph.initializer)]
    names = {n: f"{node.output[0]}/{n}" for n in own if n}
    constants = [
        helper.make_node("Constant", [], [names[tensor.name]], value=tensor)
        for tensor in graph.initializer
    ]
    made = [deepcopy(inner) for inner in graph.node]
    for inner in made:
        _rename(inner, names)
    pairs = zip(graph.output, node.output, strict=True)
    given = [(names.get(value.name, value.name), output) for value, output in pairs if output]
    return [*constants, *made, *(helper.make_node("Identity", [a], [b]) for a, b in given)]


def _rename(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    """Give the tensors of a node, and of the graphs within it, other names."""
    for listed in (node.input, node.output):
        for index, name in enumerate(listed):
            listed[index] = names.get(name, name)
    for attribute in node.attribute:
        for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
            own = {v.name for v in graph.input} | {t.name for t in graph.initializer}
            inner = {old: new for old, new in names.items() if old not in own}
            for each in graph.node:
                _rename(each, inner)
            for output in graph.output:
                output.name = inner.get(output.name, output.name)

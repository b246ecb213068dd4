"""Stages by sizes: each set of sizes has its own, and all share the file and its weights."""

import contextlib
import threading
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import onnx

from dml_jax.onnx.files.topology import needed
from dml_jax.onnxruntime.model_parts import Source, read_by_nodes, read_by_outer
from dml_jax.onnxruntime.stage import Stage, Task, Values, key_of, type_of
from dml_jax.onnxruntime.stage_builder import stage_of, write_record
from dml_jax.runtime.recently_used import RecentlyUsed

# Elements of an input whose values decide sizes. A shape, a sampling rate or a number of steps has
# few, and few values; an array of many would make a stage for each run.
_SMALL = 8
# Nodes of a part of a model: fewer are compiled sooner with the others.
_LEAST = 8
# The names that converters invent begin like this. Each is another one, and names no common size.
_NAMELESS = "unk__"


class Specialization:
    """A stage, and whether it ran before."""

    def __init__(self, stage: Stage):
        self.stage, self._is_compiled, self._lock = stage, False, threading.Lock()

    def run(self, values: Values) -> None:
        """Compute the stage; add its results to `values`. The first run compiles it."""
        if self._is_compiled:
            self.stage.run(values)
            return
        # Of threads that come at once one compiles: `jax.jit` would let each of them do it.
        with self._lock:
            self.stage.run(values)
            if not self._is_compiled:
                write_record(self.stage)
            self._is_compiled = True

    def drop(self) -> None:
        """Forget the compiled programs."""
        if self.stage.network is not None:
            self.stage.network.executable.forget()


class Specializations:
    """The stages of a part of a model, for the sizes that runs have.

    Args:
        source: the model.
        nodes: the part, each node after those that it reads from.
        outputs: the tensors that a run asks for.
        limit: how many stages there are at most; the least recently used goes first.
        device: where they compute; None is JAX's own choice.
    """

    def __init__(
        self,
        source: Source,
        nodes: Sequence[onnx.NodeProto],
        outputs: Sequence[str],
        limit: int,
        device: Any,
    ):
        self._source, self._nodes, self._outputs, self._device = source, nodes, outputs, device
        # First stages by the sizes of inputs, the others by the stage before and the sizes of what
        # it leaves: a program serves all runs that come to the same sizes.
        self._stages = RecentlyUsed[Specialization](limit, Specialization.drop)
        self._deciding: frozenset[str] = frozenset()  # the inputs whose values are a part of keys
        self._lock = threading.Lock()  # over `_deciding`: what one thread adds, no other may lose

    def run(self, values: Values) -> Values:
        """Return all tensors of a run by name; `values` are the inputs, checked."""
        device = self._device
        on_device = contextlib.nullcontext() if device is None else jax.default_device(device)
        # A session computes INT64 and DOUBLE in their own types, whatever the caller's setting is.
        with jax.enable_x64(True), on_device, contextlib.ExitStack() as until_end:
            specialization, values = self._first(values, until_end), dict(values)
            while True:
                specialization.run(values)
                if not specialization.stage.remaining:
                    return values
                specialization = self._next(specialization.stage, values, until_end)

    def _first(self, values: Values, until_end: contextlib.ExitStack) -> Specialization:
        """Return the first stage of a run; find the inputs whose values decide sizes."""
        while True:
            deciding, key = self._deciding, self._key(values)
            specialization = self._stages.get(key)
            if specialization is not None:
                return specialization

            def build(deciding: Collection[str] = deciding) -> Specialization:
                types = {
                    n: np.asarray(x) if n in deciding else type_of(x) for n, x in values.items()
                }
                return self._build(until_end, Task(self._nodes, types, self._outputs))

            specialization = self._stages.get_or_build(key, build)
            stage = specialization.stage
            found = _deciding_inputs(stage, self._nodes, values) - self._deciding
            if not found:
                return specialization
            # By these values one stage does the work of two. This one would give the same answer,
            # and does to a thread that has it; a later process reads its record, and so learns
            # from it what decides, without a translation.
            write_record(stage)
            with self._lock:
                self._deciding |= found
            self._stages.clear()

    def _next(
        self, stage: Stage, values: Values, until_end: contextlib.ExitStack
    ) -> Specialization:
        """Return the stage after another one, which gave `values`."""
        return self._stages.get_or_build(
            (stage, stage.key_of_next(values)),
            lambda: self._build(until_end, stage.next_task(values), stage),
        )

    def _build(
        self, until_end: contextlib.ExitStack, task: Task, before: Stage | None = None
    ) -> Specialization:
        """Return the stage of a task, after another one; the run compiles it before it ends."""
        until_end.enter_context(self._source.notice.watching())
        return Specialization(stage_of(self._source, task, before))

    def _key(self, values: Mapping[str, Any]) -> Hashable:
        """Return what the first stage depends on."""
        # All values have names in the key: inputs with defaults may be there, or not.
        return tuple(
            (name, key_of(x, name in self._deciding)) for name, x in sorted(values.items())
        )


class SplitModel:
    """The stages of a model, in two parts where that makes fewer programs; most models are one.

    A decoder that is called for each letter reads a word, whose size stays, and the letters so far,
    whose number grows. As one program it has one for each pair of sizes. In two parts, what follows
    from the word alone is compiled once for the word.

    The arguments are those of `Specializations`, whose `limit` is of each part.
    """

    def __init__(self, source: Source, outputs: Sequence[str], limit: int, device: Any):
        self._parts, parts = list[tuple[Sequence[str], Specializations]](), _parts_of(source)
        replaceable = {value.name for value in source.proto.graph.input}
        for place, nodes in enumerate(parts):
            later = {*outputs}.union(*map(_inputs_of, parts[place + 1 :]))
            results = {name for node in nodes for name in node.output} & later
            reads = _inputs_of(nodes) - (source.initializers.keys() - replaceable)
            part = Specializations(source, nodes, sorted(results), limit, device)
            self._parts.append((sorted(reads), part))

    def run(self, values: Values) -> Values:
        """Return all tensors of a run by name; `values` are the inputs, checked."""
        results = dict(values)
        for reads, part in self._parts:
            results |= part.run({name: results[name] for name in reads if name in results})
        return results


def _deciding_inputs(stage: Stage, nodes: Sequence[onnx.NodeProto], values: Values) -> set[str]:
    """Return the inputs that decide sizes by their values alone: a few integers each.

    Args:
        stage: the first stage of a run, whose next stage is for elements of some tensors.
        nodes: the part of the model that is computed.
        values: the inputs by name.
    """
    makers = {name: node for node in nodes for name in node.output if name}
    found: set[str] = set()
    for name in stage.by_value:
        names, seen, pending = set[str](), {name}, [name]
        while pending:
            one = pending.pop()
            if one in values:
                names.add(one)
            node = makers.get(one)
            # Shape and Size read the sizes of an input, which are in each key anyway.
            if node is not None and (node.op_type not in ("Shape", "Size") or node.domain):
                fresh = read_by_outer(node) - seen
                seen |= fresh
                pending += fresh
        if all(_is_small(values[n]) for n in names):
            found |= names
    return found


def _is_small(value: Any) -> bool:
    return getattr(value, "size", _SMALL + 1) <= _SMALL and value.dtype.kind in "iub"


def _parts_of(source: Source) -> Sequence[Sequence[onnx.NodeProto]]:
    """Return the nodes of a model in two parts, or in one.

    The first part depends on no input that has a certain size, by its name in the file, on which
    the second part depends. Nodes that depend on no input are in both.
    """
    graph, origins = source.proto.graph, dict[str, frozenset[str]]()
    sizes = {value.name: _size_names(value) for value in graph.input}
    for name in sizes.keys() - source.initializers.keys():
        origins[name] = frozenset([name])
    inputs_of_nodes = list[frozenset[str]]()
    for node in source.nodes:
        names = frozenset().union(*(origins.get(n, ()) for n in read_by_outer(node)))
        inputs_of_nodes.append(names)
        origins |= dict.fromkeys(node.output, names)
    found: list[Sequence[onnx.NodeProto]] = [source.nodes]
    most = _LEAST - 1
    for size in sorted(set[str]().union(*sizes.values())):
        of_size = [
            bool(names) and any(size in sizes[n] for n in names) for names in inputs_of_nodes
        ]
        pairs = [*zip(source.nodes, inputs_of_nodes, of_size, strict=True)]
        first = [node for node, names, is_of in pairs if names and not is_of]
        second = [node for node, names, is_of in pairs if is_of]
        # The longest first part wins: it is what a program for each pair of sizes would repeat.
        if len(first) > most and len(second) >= _LEAST:
            most, free = len(first), [node for node, names, _ in pairs if not names]
            results = [value.name for value in graph.output]
            found = [_with_free(first, free, ()), _with_free(second, free, results)]
    return found


def _size_names(value: onnx.ValueInfoProto) -> set[str]:
    names = {dim.dim_param for dim in value.type.tensor_type.shape.dim if dim.dim_param}
    return {name for name in names if not name.startswith(_NAMELESS)}


def _with_free(
    part: Sequence[onnx.NodeProto], free: Sequence[onnx.NodeProto], results: Sequence[str]
) -> Sequence[onnx.NodeProto]:
    """Return a part with the nodes without inputs that it, or `results`, read from."""
    outputs = [name for node in part for name in node.output if name]
    return needed([*free, *part], [*outputs, *results])


def _inputs_of(nodes: Sequence[onnx.NodeProto]) -> set[str]:
    """Return the tensors that nodes read, and do not compute."""
    return read_by_nodes(nodes) - {name for node in nodes for name in node.output}

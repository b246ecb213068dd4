"""Stages: the part of a network that can be had for known sizes, and the nodes that it leaves.

A stage is a network of all nodes that can be had of the sizes and values at hand. Where data decide
a size, the stage ends: its results are computed, and the next stage is made for them. So nothing is
padded between stages, and a program serves all runs that have its sizes. Nodes that no array
of JAX can be part of, of strings and maps, are computed in between, on the host.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from dml_jax.errors import Fault
from dml_jax.onnx.files.types import Type
from dml_jax.onnx.network import Network
from dml_jax.onnxruntime.model_parts import Source
from dml_jax.runtime.program_cache import ProgramCache

Values = dict[str, Any]
"""Values by name: arrays, a list for a sequence, and what else ONNX Runtime has in Python."""


@dataclass(frozen=True)
class Task:
    """What a stage is made for.

    Attributes:
        nodes: those that are not computed yet, each after those that it reads from.
        values: what is computed and read, by name: a `Type` where any elements will do, an array
            where the stage is for these, a list of types for a sequence, None for what stays on
            the host.
        outputs: the names of the outputs of the model.
        tries: how often each node was refused, by its first output.
    """

    nodes: Sequence[onnx.NodeProto]
    values: Mapping[str, Any]
    outputs: Sequence[str]
    tries: Mapping[str, int] = field(default_factory=dict)


# Stages are equal only to themselves: the key of a next stage holds the stage before it, and no
# other stage may take its place, even where it has the same nodes.
@dataclass(frozen=True, eq=False)
class Stage:
    """The part of a network that is computed at once, and what is left: data.

    Attributes:
        source: the model.
        task: what the stage is made for.
        network: the part; None where it has no nodes.
        known: the arrays that follow from sizes alone, by name.
        lists: how many tensors of the network are each sequence, by its name.
        host: the nodes that the host computes after the network: neighbours in one list, and the
            faults because of which JAX does not compute them.
        remaining: the nodes that the next stages compute.
        reads: the tensors, computed so far, that the next stages read.
        by_value: those of them for whose elements the next stage is made.
        tries: as of `Task`, for the next stage.
        cache: where the stage and its programs are recorded, or None.
        record_file: where the stage is to be recorded; None where it is, or cannot be.
    """

    source: Source
    task: Task
    network: Network | None
    known: Mapping[str, np.ndarray]
    lists: Mapping[str, int]
    host: Sequence[tuple[Sequence[onnx.NodeProto], Sequence[Fault]]]
    remaining: Sequence[onnx.NodeProto]
    reads: frozenset[str]
    by_value: frozenset[str]
    tries: Mapping[str, int]
    cache: ProgramCache | None = None
    record_file: Path | None = None

    def run(self, values: Values) -> None:
        """Compute the stage; add its results to `values`."""
        values |= self.known
        network, results = self.network, Values()
        if network is not None:
            inputs = {name: _value_of(values, name) for name in network.inputs}
            outputs = network.executable(network.weights, inputs)
            # Counts are known from here on: the next stage has the sizes themselves.
            results = network.without_padding(network.signature.within(outputs, inputs))
        for name, count in self.lists.items():
            values[name] = [results.pop(f"{name}[{k}]") for k in range(count)]
        values |= results
        # The host comes last: it reads results of the network, and the network none of its own.
        for nodes, faults in self.host:
            self.source.host.run(nodes, values, self.reads.union(self.task.outputs), faults)

    def key_of_next(self, values: Values) -> tuple[Any, ...]:
        """Return what the next stage depends on: the sizes of tensors, and the values of some."""
        return tuple(
            key_of(values[name], name in self.by_value)
            for name in sorted(self.reads & values.keys())
        )

    def next_task(self, values: Values) -> Task:
        """Return what the stage after this one is made for, of these values."""
        types: Values = {}
        for name in self.reads & values.keys():
            value = values[name]
            is_array = name in self.by_value and not isinstance(value, list)
            # What followed from sizes alone goes on as a constant: more sizes follow from it.
            is_constant = is_array or name in self.known
            types[name] = np.asarray(value) if is_constant else type_of(value)
        return Task(self.remaining, types, self.task.outputs, self.tries)


def type_of(value: Any) -> Any:
    """Return the type of an array, a list of types of a sequence of arrays, None for another."""
    if isinstance(value, list):
        kinds = [type_of(x) for x in value]
        return kinds if all(isinstance(kind, Type) for kind in kinds) else None
    dtype = getattr(value, "dtype", None)
    if dtype is None or dtype.kind in "OUS":
        return None
    return Type(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), tuple(value.shape))


def key_of(value: Any, is_by_value: bool) -> Any:
    """Return the sizes and type of a value, or of each in a list; with its bytes by value."""
    if isinstance(value, list):
        return tuple(key_of(x, False) for x in value)
    if not hasattr(value, "dtype"):
        return None
    return value.shape, value.dtype, np.asarray(value).tobytes() if is_by_value else None


def _value_of(values: Values, name: str) -> Any:
    """Return the value of a tensor; `name[2]` is the third one of a sequence."""
    if name in values:
        return values[name]
    listed, _, place = name.rpartition("[")
    return values[listed][int(place[:-1])]

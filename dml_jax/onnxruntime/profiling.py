"""Profiles of runs, node by node, in ONNX Runtime's format of events.

While a session is profiled, each node of the file is a program of its own, so that its time can be
taken. The sum is more than the time of a run that is not profiled, in which XLA joins nodes.
"""

import datetime
import json
import os
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
import onnx

from dml_jax.onnxruntime.model_parts import Source, read_by_outer
from dml_jax.onnxruntime.ort_values import OrtValue
from dml_jax.onnxruntime.specializations import Specializations
from dml_jax.onnxruntime.stage import Values


class Profile:
    """The events of a session, for a file whose name begins with a prefix."""

    def __init__(self, prefix: str, provider: str):
        self._prefix, self._provider = prefix, provider
        self._start = time.perf_counter_ns()
        self.start_time_ns = time.time_ns()
        self._events: list[Mapping[str, Any]] = []
        self._stages: dict[int, Specializations] = {}

    def now(self) -> int:
        """Return the microseconds since the profile began."""
        return (time.perf_counter_ns() - self._start) // 1000

    def add(self, category: str, name: str, since: int, arguments: Mapping[str, Any] = {}) -> None:
        """Add what began at `since` microseconds and ends now."""
        event = {
            "cat": category,
            "pid": os.getpid(),
            "tid": threading.get_native_id(),
            "dur": self.now() - since,
            "ts": since,
            "ph": "X",
            "name": name,
            "args": arguments,
        }
        self._events.append(event)

    def run(self, source: Source, values: Values, device: Any) -> Values:
        """Return all tensors of a run by name; each node is an event."""
        first = self.now()
        values = dict(values)
        for index, node in enumerate(source.nodes):
            reads = sorted(read_by_outer(node))
            given = {name: values[name] for name in reads if name in values}
            if index not in self._stages:
                outputs = [name for name in node.output if name]
                self._stages[index] = Specializations(source, [node], outputs, 8, device)
            stages = self._stages[index]
            stages.run(given)  # its first run of these sizes compiles it
            since = self.now()
            results = stages.run(given)
            jax.block_until_ready([x for x in results.values() if isinstance(x, jax.Array)])
            self.add("Node", f"{_name(node, index)}_kernel_time", since, {})
            made = {name: results[name] for name in node.output if name}
            self._events[-1]["args"].update(self._facts(node, index, source, given, made))
            values |= made
        self.add("Session", "SequentialExecutor::Execute", first)
        self.add("Session", "model_run", first)
        return values

    def _facts(
        self, node: onnx.NodeProto, index: int, source: Source, given: Values, made: Values
    ) -> dict[str, Any]:
        """Return what an event says of a node; numbers are texts, as in ONNX Runtime."""
        weights = {n: source.initializers[n][0] for n in node.input if n in source.initializers}
        read = [{**weights, **given}[n] for n in node.input if n in weights or n in given]
        return {
            "op_name": node.op_type,
            "provider": self._provider,
            "node_index": str(index),
            "activation_size": str(_bytes(given.values())),
            "parameter_size": str(_bytes(weights.values())),
            "output_size": str(_bytes(made.values())),
            "input_type_shape": _shapes(read),
            "output_type_shape": _shapes(made.values()),
        }

    def save(self) -> str:
        """Write the events to a file; return its name."""
        stamp = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        name = f"{self._prefix}_{stamp}.json"
        lines = ",\n".join(json.dumps(event) for event in self._events)
        with open(name, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(f"[\n{lines}\n]\n")
        return name


def _name(node: onnx.NodeProto, index: int) -> str:
    return node.name or f"{node.op_type}_{index}"


def _bytes(values: Any) -> int:
    return sum(getattr(value, "nbytes", 0) for value in values)


def _shapes(values: Any) -> Sequence[Mapping[str, Sequence[int]]]:
    arrays = [v for v in values if hasattr(v, "dtype") and np.dtype(v.dtype).kind not in "OUS"]
    return [
        {OrtValue(v).data_type()[len("tensor(") : -1]: [int(n) for n in v.shape]} for v in arrays
    ]

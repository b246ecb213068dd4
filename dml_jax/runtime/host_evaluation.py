"""What follows from weights alone, computed by NumPy: nothing is compiled that runs once.

Preparing weights mostly turns them. XLA compiles a kernel for each, which takes longer than all
copies of a network.
"""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from dml_jax.description.tensor import TensorDesc
from dml_jax.graph import ConstantNode, Graph, OperatorNode, Source
from dml_jax.graph.parts import strides_of
from dml_jax.system.aligned_memory import empty


def _dequantize(x: np.ndarray, scale: np.ndarray, *zero: np.ndarray) -> np.ndarray:
    exact = np.float32 if x.dtype.itemsize < 4 else np.int64
    steps = x.astype(exact) - sum(z.astype(exact) for z in zero)
    return steps.astype(np.float32) * scale


_FUNCTIONS = {
    "ELEMENT_WISE_ADD": np.add,
    "ELEMENT_WISE_SUBTRACT": np.subtract,
    "ELEMENT_WISE_MULTIPLY": np.multiply,
    "ELEMENT_WISE_DIVIDE": np.divide,
    "ELEMENT_WISE_SQRT": np.sqrt,
    "ELEMENT_WISE_BIT_XOR": np.bitwise_xor,
    "ELEMENT_WISE_DEQUANTIZE_LINEAR": _dequantize,
    "CAST": np.asarray,
}
"""Functions that round as XLA's do, of FLOAT32 and of bits."""

_ROWS = 16  # of a matrix, which are turned at once: a line of a cache


class HostEvaluation:
    """Computes what nodes of a graph write of weights.

    Args:
        graph: the graph.
        weights: the weights by the names of its inputs.
    """

    def __init__(self, graph: Graph, weights: Mapping[str, Any]):
        self._graph, self._nodes = graph, {i: (n, sources) for i, n, sources in graph.plan}
        self._values: dict[Source, np.ndarray | None] = {}
        for source, name, edge in graph.named_inputs:
            self._values[source] = _on_host(weights.get(name), edge)

    def __call__(self, source: Source) -> np.ndarray | None:
        """Return what a node writes; None where NumPy does not compute it."""
        if source not in self._values:
            self._values[source] = self._made(source)
        return self._values[source]

    def _made(self, source: Source) -> np.ndarray | None:
        node, sources = self._nodes[source[0]]
        if isinstance(node, ConstantNode):
            return np.asarray(node.array)
        if not isinstance(node, OperatorNode):
            return None
        operator: Any = node.operator
        name, output = operator.short_name, operator.outputs[0]
        # Each refusal here leaves the node to XLA, which computes all of them in one program.
        if len(operator.outputs) > 1 or not output.is_packed or not output.data_type.element_size:
            return None
        if name != "ELEMENT_WISE_IDENTITY" and name not in _FUNCTIONS:
            return None
        if getattr(operator, "scale_bias", None) is not None:
            return None
        inputs = [self._read(source[0], place, given) for place, given in enumerate(sources)]
        arrays = [array for array in inputs if array is not None]
        if len(arrays) < len(inputs) or any(array.shape != output.sizes for array in arrays):
            return None
        # Memory that begins as XLA's arrays do: `device_put` then takes it without a copy on a CPU.
        made = empty(output.span_in_bytes).view(output.dtype).reshape(output.sizes)
        if name == "ELEMENT_WISE_IDENTITY":
            _copy(arrays[0], made)
        elif made.dtype == np.float32 or name == "ELEMENT_WISE_BIT_XOR":
            with np.errstate(all="ignore"):
                made[...] = _FUNCTIONS[name](*arrays)
        else:
            return None
        return made

    def _read(self, node: int, place: int, source: Source) -> np.ndarray | None:
        """Return what a node reads; None where NumPy has no view of it."""
        array, view = self(source), self._graph.views.get((node, place))
        if array is None or view is None:
            return array
        written, read = view
        is_same = written.data_type.element_size == read.data_type.element_size != 0
        if not written.is_packed or not is_same or read.span > written.span:
            return None
        steps = [step * array.itemsize for step in strides_of(read)]
        flat = np.ascontiguousarray(array).reshape(-1).view(read.dtype)
        return np.lib.stride_tricks.as_strided(flat, read.sizes, steps, writeable=False)


def _on_host(array: Any, edge: Any) -> np.ndarray | None:
    """Return a weight in the memory that XLA has it in; None where that is not this process's."""
    if not isinstance(edge, TensorDesc) or not isinstance(array, jax.Array):
        return None
    if isinstance(array, Tracer) or array.committed or array.dtype != edge.dtype:
        return None
    is_here = {device.platform for device in array.devices()} == {"cpu"}
    return np.asarray(array).reshape(edge.sizes) if is_here and edge.is_packed else None


def _copy(array: np.ndarray, made: np.ndarray) -> None:
    """Copy an array, whose rows may be columns in memory."""
    if array.ndim == 0 or array.strides[-1] <= array.itemsize:
        made[...] = array
        return
    for start in range(0, array.shape[-1], _ROWS):
        made[..., start : start + _ROWS] = array[..., start : start + _ROWS]

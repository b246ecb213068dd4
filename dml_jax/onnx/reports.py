"""What is shown of a network: its report, its table for notebooks, its inputs and outputs."""

import collections
import functools
import html
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import jax
import numpy as np

from dml_jax.description.tensor import TensorDesc
from dml_jax.enums import FeatureLevel
from dml_jax.graph import Graph
from dml_jax.lowering.precision import has_tensorfloat32
from dml_jax.onnx.files.types import Type
from dml_jax.operator.call import BindPoint

_SHOWN = 8  # names in a line of a report


class _Network(Protocol):
    """What is read of a `Network`, by the same kinds of properties, which checkers compare."""

    graph: Graph
    weights: dict[str, jax.Array]
    inputs: dict[str, Type]
    defaults: dict[str, Type]
    free: Mapping[str, Sequence[str | None]]
    fixed: dict[str, np.ndarray]
    rewrites: dict[str, int]
    is_tuned: bool
    precision: str | None
    programs: Any

    @property
    def node_count(self) -> int: ...
    @property
    def output_types(self) -> Mapping[str, Type]: ...
    @functools.cached_property
    def counted(self) -> dict[str, tuple[int, str]]: ...
    @functools.cached_property
    def compiler_options(self) -> Mapping[str, Any]: ...
    @functools.cached_property
    def minimum_feature_level(self) -> FeatureLevel: ...


def report(network: _Network, prepared: Sequence[TensorDesc], beyond: Mapping[str, str]) -> str:
    """Return what a network is made of: operators, weights, and narrowed integers.

    Args:
        network: the network.
        prepared: the tensors of arrays that are computed once, of weights alone.
        beyond: the nodes of types beyond DirectML, and why each is.
    """
    counts = collections.Counter(operator.short_name for operator in network.graph.operators)
    size = sum(w.size * w.dtype.itemsize for w in network.weights.values())
    lines = [f"{counts.total()} operators, from feature level {network.minimum_feature_level} on"]
    lines += [f"  {count} {name}" for name, count in counts.most_common()]
    lines.append(f"{len(network.weights)} weights, {size} bytes")
    made = [tensor.total_tensor_size_in_bytes for tensor in prepared]
    if made:
        lines.append(f"{len(made)} arrays prepared of weights, {sum(made)} bytes beside these")
    options = network.compiler_options.items()
    if network.is_tuned:
        lines.append("layout and kernels that were tuned on this machine")
    lines += [f"compiler option {name}={value or 'nothing'}" for name, value in options]
    replaceable = [name for name in network.defaults if name not in network.fixed]
    for names, what in (
        (replaceable, "replaced by name at a call"),
        ([*network.fixed], "replaced at load alone, by constants (--constant)"),
    ):
        if names:
            shown = ", ".join(names[:_SHOWN]) + ", ..." * (len(names) > _SHOWN)
            lines.append(f"{len(names)} inputs have defaults that are {what}: {shown}")
    for name, (axis, count) in network.counted.items():
        size = (network.output_types[name].shape or ())[axis]
        lines.append(f"output '{name}': padded to {size} in dimension {axis}; '{count}' counts")
    lines += [
        f"{count} edges between nodes have the size '{name}', which data decides"
        for name, count in sizes_by_data(network).items()
    ]
    if beyond:
        lines.append(f"{len(beyond)} nodes of types beyond DirectML")
        lines += [f"  {label}: {reason}" for label, reason in beyond.items()]
    nodes = [node for node in network.graph.functions if node.reason]
    if nodes:
        lines.append(f"{len(nodes)} nodes by JAX")
        lines += [f"  {node.label}: {node.reason}" for node in nodes]
    made = {name: count for name, count in network.rewrites.items() if count}
    if made:
        lines.append(f"{sum(made.values())} nodes rewritten in the program")
        lines += [f"  {count} {name}" for name, count in made.items()]
    for place, kinds in (("input", network.inputs), ("output", network.output_types)):
        for name, kind in kinds.items():
            if kind.array_dtype.itemsize < kind.dtype.itemsize:
                lines.append(f"{place} '{name}': {kind.name} is {kind.inner.suffix} inside")
    if network.precision is not None:
        lines.append(f"products of FLOAT32 in {_precision_on(network, jax.devices()[0])}")
    if network.programs is not None:
        lines.append(network.programs.report())
    return "\n".join(lines)


def sizes_by_data(network: _Network) -> collections.Counter[str]:
    """Return how many edges between nodes have each size that data decides, by its name."""
    graphs = [network.graph, *(g for node in network.graph.functions for g in node.graphs)]
    edges = (edge for g in graphs for edge in (*g.input_edges, *g.intermediate_edges))
    return collections.Counter(edge.count_name for edge in edges if edge.count_name)


def _precision_on(network: _Network, device: Any) -> str:
    """Return the precision of products on a device."""
    if network.precision == "tensorfloat32" and not has_tensorfloat32(device):
        return f"float32 (asked for tensorfloat32, which {device.device_kind} lacks)"
    return str(network.precision)


def table(network: _Network) -> str:
    """Return a table of the inputs and outputs in HTML."""
    rows = [
        f"<tr><td>{place}</td><td>{html.escape(name)}</td><td>{kind.name}</td>"
        f"<td>{'of any sizes' if kind.shape is None else list(kind.shape)}</td></tr>"
        for place, kinds in (("input", network.inputs), ("output", network.output_types))
        for name, kind in kinds.items()
    ]
    counts = f"{network.node_count} operators, {len(network.weights)} weights"
    return f"<table><caption>Network: {counts}</caption>{''.join(rows)}</table>"


def shown_point(network: _Network, point: BindPoint) -> str:
    """Return the name, type and sizes of an input or output, with the names of its dimensions."""
    (tensor,) = point.tensors
    sizes = [*map(str, tensor.sizes)]
    for axis, name in enumerate(() if point.output else network.free.get(point.name, ())):
        sizes[axis] = sizes[axis] if name is None else f"{name or '?'}={sizes[axis]}"
    if point.output and point.name in network.counted:
        axis, count = network.counted[point.name]
        sizes[axis] = f"{count}<={sizes[axis]}"
    kind, _, rest = tensor.shown().partition("[")
    return f"{point.name} {kind}[{','.join(sizes)}{rest[rest.index(']') :]}"

"""What is shown of a network: its report, its table for notebooks, its inputs and outputs."""

import collections
import functools
import html
from collections.abc import Callable, Mapping
from typing import Any

import jax

from dml_jax.enums import FeatureLevel
from dml_jax.errors import Fault
from dml_jax.graph import FunctionNode, Graph
from dml_jax.lowering.attention import missing_cudnn
from dml_jax.lowering.precision import has_tensorfloat32
from dml_jax.onnx.options import NetworkOptions
from dml_jax.onnx.signature import Signed
from dml_jax.rewrite import refusals
from dml_jax.runtime.platform import platform
from dml_jax.runtime.weight_store import Storage

_SHOWN = 8  # names in a line of a report
_FEW = 4  # inputs or outputs that a repr shows


class Reported(Signed):
    """What says of itself what it is made of: the graph of a network, and its weights."""

    weights: dict[str, jax.Array]
    options: NetworkOptions
    translated: Callable[[], Any]
    executable: Any
    storage: Storage

    @functools.cached_property
    def graph(self) -> Graph:
        """Return the graph of the file. Its inputs are the inputs and the weights that it reads."""
        return self.translated().graph

    @property
    def programs(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return where compiled programs are kept for other processes; None where they are not."""
        return self.storage.cache

    @property
    def compiler_options(self) -> Mapping[str, Any]:
        """Return XLA's options for programs of the network alone, by shapes and types.

        Calls and `compile` use them. In a program of your own, give them to its `jax.jit`:
        `jax.jit(f, compiler_options=dict(network.compiler_options))`.
        """
        return self.executable.planned.compiler_options

    @property
    def precision(self) -> str | None:
        """Return how products are computed, as `load_onnx` takes it."""
        return self.options.precision

    @property
    def rewritten(self) -> Graph:
        """Return what rewrites made of the graph, which the program computes."""
        return self.executable.planned.plan.call_graph()

    @property
    def rewrites(self) -> Mapping[str, int]:
        """Return how many nodes each rewrite replaced, by its name."""
        return self.executable.planned.rewrites

    @property
    def is_tuned(self) -> bool:
        """Return whether layout and kernels are those that `tune` chose."""
        return self.executable.choice.is_tuned

    @property
    def kind(self) -> str:
        """Return how tables and pictures name the network."""
        count = self.node_count
        return f"network of {count} node{'s' * (count != 1)}"

    @property
    def node_count(self) -> int:
        """Return the number of operators and constants, those within functions included."""
        nodes = (node for _, node in self.graph.all_nodes)
        return sum(not isinstance(node, FunctionNode) for node in nodes)

    @functools.cached_property
    def minimum_feature_level(self) -> FeatureLevel:
        """Return the lowest feature level that accepts all operators but those of `fallbacks`."""
        operators = (o for o in self.graph.operators if not o.beyond_directml)
        levels = (operator.minimum_feature_level for operator in operators)
        return max(levels, default=min(FeatureLevel))

    def refused_at(self, feature_level: FeatureLevel | str) -> tuple[Fault, ...]:
        """Return why a feature level refuses operators of the network."""
        return self.graph.refused_at(feature_level)

    @property
    def fallbacks(self) -> dict[str, str]:
        """Return the nodes that are no operators of DirectML, and why: beyond it, or functions."""
        functions = {node.label: node.reason for node in self.graph.functions if node.reason}
        return dict(self.translated().beyond) | functions

    def report(self) -> str:
        """Return what the network is made of: operators, weights, and narrowed integers.

        It names each node that is no operator of DirectML, and says why.
        """
        return report(self)

    def __repr__(self) -> str:
        sides = []
        for kinds in (self.inputs, self.output_types):
            shown = [f"{name} {kind.name}{list(kind.shape or ())}" for name, kind in kinds.items()]
            sides.append(", ".join([*shown[:_FEW], *["..."] * (len(shown) > _FEW)]))
        counts = f"{self.node_count} operators, {len(self.weights)} weights"
        return f"<Network: {' -> '.join(sides)}; {counts}>"

    def _repr_html_(self) -> str:
        """Return a table of the inputs and outputs, for notebooks."""
        rows = [
            f"<tr><td>{place}</td><td>{html.escape(name)}</td><td>{kind.name}</td>"
            f"<td>{'of any sizes' if kind.shape is None else list(kind.shape)}</td></tr>"
            for place, kinds in (("input", self.inputs), ("output", self.output_types))
            for name, kind in kinds.items()
        ]
        counts = f"{self.node_count} operators, {len(self.weights)} weights"
        return f"<table><caption>Network: {counts}</caption>{''.join(rows)}</table>"


def report(network: Reported) -> str:
    """Return what a network is made of: operators, weights, and narrowed integers."""
    counts = collections.Counter(operator.short_name for operator in network.graph.operators)
    size = sum(w.size * w.dtype.itemsize for w in network.weights.values())
    lines = [f"{counts.total()} operators, from feature level {network.minimum_feature_level} on"]
    lines += [f"  {count} {name}" for name, count in counts.most_common()]
    lines.append(f"{len(network.weights)} weights, {size} bytes")
    prepare_graph = network.executable.planned.plan.prepare_graph
    if prepare_graph is not None:
        sizes = [tensor.total_tensor_size_in_bytes for tensor in prepare_graph.outputs]
        lines.append(f"{len(sizes)} arrays prepared of weights, {sum(sizes)} bytes beside these")
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
    beyond = network.translated().beyond
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
    lines += _refused_rewrites(network)
    for place, kinds in (("input", network.inputs), ("output", network.output_types)):
        for name, kind in kinds.items():
            if kind.array_dtype.itemsize < kind.dtype.itemsize:
                lines.append(f"{place} '{name}': {kind.name} is {kind.inner.suffix} inside")
    if network.options.precision is not None:
        lines.append(f"products of FLOAT32 in {_precision_on(network, jax.devices()[0])}")
    if network.programs is not None:
        lines.append(network.programs.report())
    return "\n".join(lines)


def _refused_rewrites(network: Reported) -> list[str]:
    """Return lines that say which nodes match a rewrite, but stay, and what keeps cuDNN away."""
    refused = refusals(network.graph, network.options.rewrites_on(platform()))
    total = sum(sum(reasons.values()) for reasons in refused.values())
    lines = [f"{total} matches of rewrites stay as they are"] if total else []
    for name, reasons in refused.items():
        lines += [f"  {count} {name}: {reason}" for reason, count in reasons.most_common()]
    names = {operator.short_name for operator in network.rewritten.operators}
    has_attention = any(name.startswith("MULTIHEAD_ATTENTION") for name in names)
    if has_attention and platform() == "gpu" and (reason := missing_cudnn()):
        lines.append(f"attention without cuDNN's kernel: {reason}")
    return lines


def sizes_by_data(network: Reported) -> collections.Counter[str]:
    """Return how many edges between nodes have each size that data decides, by its name."""
    graphs = [network.graph, *(g for node in network.graph.functions for g in node.graphs)]
    edges = (edge for g in graphs for edge in (*g.input_edges, *g.intermediate_edges))
    return collections.Counter(edge.count_name for edge in edges if edge.count_name)


def _precision_on(network: Reported, device: Any) -> str:
    """Return the precision of products on a device."""
    precision = network.options.precision
    if precision == "tensorfloat32" and not has_tensorfloat32(device):
        return f"float32 (asked for tensorfloat32, which {device.device_kind} lacks)"
    return str(precision)

"""A model in two parts, where that makes fewer programs.

A decoder that is called for each letter reads a word, whose size stays, and the letters so far,
whose number grows. As one program it has one for each pair of sizes. In two parts, what follows
from the word alone is compiled once for the word.
"""

from collections.abc import Sequence
from typing import Any

import onnx

from dml_jax.onnx.files.topology import needed
from dml_jax.onnxruntime.model_parts import Source, read_by_nodes, read_by_outer
from dml_jax.onnxruntime.specializations import Specializations
from dml_jax.onnxruntime.stage import Values

# Nodes of a part: fewer are compiled sooner with the others.
_LEAST = 8
# The names that converters invent begin like this. Each is another one, and names no common size.
_NAMELESS = "unk__"


class SplitModel:
    """The stages of a model, whose parts run one after the other; of most models there is one.

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

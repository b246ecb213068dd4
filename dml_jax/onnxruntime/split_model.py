"""A model in two parts, where that makes fewer programs.

A decoder that is called for each letter reads a word, whose size stays, and the letters so far,
whose number grows. As one program it has one for each pair of sizes. In two parts, what follows
from the word alone is compiled once for the word.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from dml_jax.onnx.files.topology import needed
from dml_jax.onnxruntime.model_parts import Source, read_by_outer
from dml_jax.onnxruntime.specializations import Programs
from dml_jax.onnxruntime.stage import Values

_LEAST = 8  # nodes of a part: fewer are compiled sooner with the others
_NAMELESS = "unk__"  # how the names begin that converters invent, each one another
_KNOWN = 4096  # sets of sizes


class Parts:
    """The programs of a model, whose parts run one after the other.

    Args:
        source: the model.
        names: the inputs that a run gives.
        wanted: the outputs.
        limit: how many programs of each part are kept.
        device: where they compute; None is JAX's own choice.
    """

    def __init__(
        self, source: Source, names: Sequence[str], wanted: Sequence[str], limit: int, device: Any
    ):
        self._names, self._known = [*names], set[Hashable]()
        self._parts: list[tuple[Sequence[str], Programs]] = []
        parts, given = divided(source), {value.name for value in source.proto.graph.input}
        for place, nodes in enumerate(parts):
            later = {*wanted} | {n for rest in parts[place + 1 :] for n in _reads(rest)}
            reads, made = _reads(nodes), {name for node in nodes for name in node.output}
            own = [name for name in reads if name in given or name not in source.initializers]
            asked = [n for n in own if n not in source.initializers]
            programs = Programs(source, nodes, asked, sorted(made & later), limit, device)
            self._parts.append((own, programs))

    @property
    def count(self) -> int:
        """Return how many programs are kept."""
        return sum(programs.count for _, programs in self._parts)

    def knows(self, feeds: Mapping[str, Any]) -> bool:
        """Return whether arrays have the sizes and types of an earlier run: these need no check."""
        is_plain = all(type(feeds.get(name)) is np.ndarray for name in self._names)
        return is_plain and len(feeds) == len(self._names) and self._key(feeds) in self._known

    def _key(self, values: Mapping[str, Any]) -> Hashable:
        return tuple((values[name].shape, values[name].dtype) for name in self._names)

    def run(self, values: Values) -> Values:
        """Return all tensors of a run by name; `values` are the inputs, checked."""
        found = dict(values)
        for reads, programs in self._parts:
            found |= programs.run({name: found[name] for name in reads if name in found})
        if len(self._known) < _KNOWN and all(hasattr(found[n], "shape") for n in self._names):
            self._known.add(self._key(values))
        return found


def divided(source: Source) -> Sequence[Sequence[onnx.NodeProto]]:
    """Return the nodes of a model in two parts, or in one.

    The first part depends on no input that has a certain size, by its name in the file, on which
    the second part depends. Nodes that depend on no input are in both.
    """
    graph, follows = source.proto.graph, dict[str, frozenset[str]]()
    sizes = {value.name: _names_of(value) for value in graph.input}
    for name in sizes.keys() - source.initializers.keys():
        follows[name] = frozenset([name])
    on = list[frozenset[str]]()
    for node in source.nodes:
        on.append(frozenset().union(*(follows.get(n, ()) for n in read_by_outer(node))))
        follows |= dict.fromkeys(node.output, on[-1])
    found: list[Sequence[onnx.NodeProto]] = [source.nodes]
    most = _LEAST - 1
    for size in sorted(set[str]().union(*sizes.values())):
        of_size = [bool(names) and any(size in sizes[n] for n in names) for names in on]
        pairs = [*zip(source.nodes, on, of_size, strict=True)]
        first = [node for node, names, is_of in pairs if names and not is_of]
        second = [node for node, names, is_of in pairs if is_of]
        if len(first) > most and len(second) >= _LEAST:
            most, free = len(first), [node for node, names, _ in pairs if not names]
            results = [value.name for value in graph.output]
            found = [_whole(first, free, ()), _whole(second, free, results)]
    return found


def _names_of(value: onnx.ValueInfoProto) -> set[str]:
    names = {dim.dim_param for dim in value.type.tensor_type.shape.dim if dim.dim_param}
    return {name for name in names if not name.startswith(_NAMELESS)}


def _whole(
    part: Sequence[onnx.NodeProto], free: Sequence[onnx.NodeProto], results: Sequence[str]
) -> Sequence[onnx.NodeProto]:
    """Return a part with the nodes without inputs that it, or `results`, read from."""
    own = [name for node in part for name in node.output if name]
    return needed([*free, *part], [*own, *results])


def _reads(nodes: Sequence[onnx.NodeProto]) -> list[str]:
    """Return the tensors that nodes read, and do not make."""
    made = {name for node in nodes for name in node.output}
    return sorted({name for node in nodes for name in read_by_outer(node)} - made)


def programs_of(
    source: Source, names: Sequence[str], wanted: Sequence[str], limit: int, device: Any
) -> "Programs | Parts":
    """Return the programs of a model, in parts where that makes fewer; arguments as `Parts`."""
    if len(divided(source)) > 1:
        return Parts(source, names, wanted, limit, device)
    return Programs(source, source.nodes, names, wanted, limit, device)

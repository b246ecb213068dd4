"""What the edges of a graph join, and what may be wrong with that."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dml_jax.enums import TensorFlags
from dml_jax.errors import NOTHING, Expect, Unquoted, nearest
from dml_jax.graph.parts import (
    ConstantNode,
    InputEdge,
    IntermediateEdge,
    OperatorNode,
    OutputEdge,
    Source,
    label_of,
    layout_of,
    same_bytes,
    same_layout,
    same_value,
    shown_at,
)
from dml_jax.tensor import TensorDesc

if TYPE_CHECKING:
    from dml_jax.graph.graph import Graph


class Wiring(Expect):
    """What the edges of a graph join, and what is wrong with that; linear in nodes and edges.

    Attributes:
        inputs, outputs: the tensors of the graph, by index.
        input_names, output_names: their names.
        plan, results: as `Graph` has them; there are none where something is wrong.
        views: (written, read) of each input of a node, by node and position, that reads the bytes
            of its source as a tensor of other sizes or strides.
        resolved: the fields of the graph, with indices for names, and names for None.
    """

    def __init__(self, graph: "Graph"):
        super().__init__(graph.c_name)
        self.nodes = graph.nodes
        self.slots = {out: [n.slots(out) for n in self.nodes] for out in (False, True)}
        self.inputs: dict[int, TensorDesc] = {}
        self.outputs: dict[int, TensorDesc] = {}
        self.plan: list[tuple[int, OperatorNode | ConstantNode, list[Source]]] = []
        self.results: list[Source] = []
        self.views: dict[tuple[int, int], tuple[TensorDesc, TensorDesc]] = {}
        self._views: dict[tuple[int, int], tuple[TensorDesc, TensorDesc]] = {}
        self._sources: list[dict[int, Source]] = [{} for _ in self.nodes]
        self._results: dict[int, Source] = {}
        self._fed: dict[Any, str] = {}  # an input of a node, or an output of the graph -> its edge
        self._first: dict[int, str] = {}  # an input of the graph -> its first edge
        self._lost: set[str] = set()  # what some edge does not find, or finds taken
        self(len(self.nodes) > 0, "NodeCount", "be at least 1", 0)
        self(graph.output_count > 0, "OutputCount", "be at least 1", 0)
        names = [node.name for node in self.nodes]
        self._by_name = {"node": self._distinct("Nodes[{}].Name", names)}
        # More inputs than edges are a mistake that is found below; it must not cost memory here.
        shown = min(graph.input_count, len(graph.input_edges) + 1)
        self.input_names = self._names("Input", graph.input_names, graph.input_count, shown)
        shown = min(graph.output_count, len(graph.output_edges) + 1)
        self.output_names = self._names("Output", graph.output_names, graph.output_count, shown)
        self._declare_inputs(graph.input_tensors, graph.input_count)
        self._by_name["graph input"] = self._distinct("InputNames[{}]", self.input_names)
        self._by_name["graph output"] = self._distinct("OutputNames[{}]", self.output_names)
        for name in self._by_name["graph input"].keys() & self._by_name["graph output"].keys():
            self(False, "OutputNames", "differ from InputNames", name)
        self._counts = {
            "node": len(self.nodes),
            "graph input": graph.input_count,
            "graph output": graph.output_count,
        }
        self.resolved = {
            "input_names": self.input_names,
            "output_names": self.output_names,
            "input_edges": tuple(map(self._input, *_numbered(graph.input_edges, "Input"))),
            "intermediate_edges": tuple(
                map(self._between, *_numbered(graph.intermediate_edges, "Intermediate"))
            ),
            "output_edges": tuple(map(self._output, *_numbered(graph.output_edges, "Output"))),
        }
        self._check_complete()
        order = self._order()
        if len(order) < len(self.nodes):
            self._name_cycle(set(range(len(self.nodes))).difference(order))
        elif not self._lost:
            self._check_live()
        if not self.faults:
            self._settle(order)

    def _declare_inputs(self, tensors: Sequence[TensorDesc] | None, count: int) -> None:
        if tensors is not None:
            rule = f"have {count} elements (InputCount)"
            if self(len(tensors) == count, "InputTensors", rule, len(tensors)):
                self.inputs = dict(enumerate(tensors))

    def _names(
        self, kind: str, names: Sequence[str] | None, count: int, shown: int
    ) -> tuple[str, ...]:
        if names is None:
            return tuple(f"{kind}{i}" for i in range(shown))
        rule = f"have {count} elements ({kind}Count)"
        self(len(names) == count, f"{kind}Names", rule, list(names))
        return tuple(names)

    def _distinct(self, field: str, names: Sequence[str | None]) -> dict[str, int]:
        """The names' indices; each may stand once."""
        indices: dict[str, int] = {}
        for index, name in enumerate(names):
            if name is not None and indices.setdefault(name, index) != index:
                rule = f"differ from {field.format(indices[name])}"
                self(False, field.format(index), rule, name)
        return indices

    def _resolve(self, kind: str, field: str, value: int | str) -> int | None:
        """The index of the node, graph input or graph output that an edge names."""
        names, count = self._by_name[kind], self._counts[kind]
        if isinstance(value, str):
            found = names.get(value)
            rule = f"be a {kind}'s name{nearest(value, names)}"
            self(found is not None, field, rule, value)
        else:
            found = self._within(field, value, count, f"{kind}s")
        if found is None:
            self._lost.add(kind)
        return found

    def _within(self, field: str, value: int, count: int, what: str) -> int | None:
        rule = (
            f"be in [0, {count - 1}] ({what})" if count else f"be one of the {what} (it has none)"
        )
        return value if self(value < count, field, rule, value) else None

    def _end(self, edge: Any, path: str, side: str) -> tuple[int, int, TensorDesc | None, str]:
        """(node, slot, tensor, words for it) of an edge's From or To side; no tensor where lost."""
        kind = "Output" if side == "From" else "Input"
        low = side.lower()
        node = self._resolve("node", f"{path}.{side}NodeIndex", getattr(edge, f"{low}_node_index"))
        slot = getattr(edge, f"{low}_node_{kind.lower()}_index")
        if node is None:
            return -1, slot, None, ""
        label = label_of(node, self.nodes[node])
        slots, field = self.slots[side == "From"][node], f"{path}.{side}Node{kind}Index"
        found = self._within(field, slot, len(slots), f"{kind.lower()}s of {label}")
        name, tensor = slots[slot] if found is not None else ("", None)
        if found is not None:
            rule = f"be an {kind.lower()} that is given ({name} of {label} is not)"
            self(tensor is not None, field, rule, slot)
        if tensor is None:
            self._lost.add("slot")
        return node, slot, tensor, f"{name} of {label}"

    def _feed(self, edge: Any, path: str) -> tuple[int, int, TensorDesc | None, str]:
        """The To side of an edge, which no other edge may feed."""
        node, slot, tensor, where = self._end(edge, path, "To")
        if tensor is not None:
            first = self._fed.setdefault((node, slot), path)
            rule = f"feed an input that no other edge feeds, as {first} does"
            if not self(first == path, path, rule, Unquoted(where)):
                self._lost.add("second")
        return node, slot, tensor, where

    def _input(self, edge: InputEdge, path: str) -> InputEdge:
        kind = "graph input"
        index = self._resolve(kind, f"{path}.GraphInputIndex", edge.graph_input_index)
        node, slot, tensor, where = self._feed(edge, path)
        if index is None:
            return edge
        declared = f"InputTensors[{index}]" if index in self.inputs else path
        first = self._first.setdefault(index, declared)
        if tensor is None:
            return edge
        self._sources[node][slot] = -1, index
        known = self.inputs.setdefault(index, tensor)
        rule = f"carry {shown_at(known, f'what {first} does, from {kind} {index}')}"
        if same_bytes(known, tensor) and not same_layout(known, tensor):
            self._views[node, slot] = known, tensor
            self._check_flags(path, known, tensor, first)
        elif self(same_value(known, tensor), path, rule, Unquoted(shown_at(tensor, where))):
            self._check_memory(path, index, known, tensor, first)
        return _with(edge, graph_input_index=index, to_node_index=node)

    def _check_memory(
        self, path: str, index: int, known: TensorDesc, tensor: TensorDesc, first: str
    ) -> None:
        """What reads one graph input reads one memory: in one layout, owned or not."""
        if known == tensor:
            return
        rule = f"read graph input {index} with strides {layout_of(known)}, as {first} does"
        self(layout_of(known) == layout_of(tensor), path, rule, layout_of(tensor))
        self._check_flags(path, known, tensor, first)
        self.inputs[index] = TensorDesc(
            known.data_type,
            known.sizes,
            known.strides,
            known.flags,
            max(known.total_tensor_size_in_bytes, tensor.total_tensor_size_in_bytes),
            max(known.guaranteed_base_offset_alignment, tensor.guaranteed_base_offset_alignment),
        )

    def _check_flags(self, path: str, known: TensorDesc, tensor: TensorDesc, first: str) -> None:
        rule = f"have flags {known.flags.name}, as {first} has"
        self(known.flags == tensor.flags, path, rule, Unquoted(tensor.flags.name))

    def _between(self, edge: IntermediateEdge, path: str) -> IntermediateEdge:
        source, output, given, origin = self._end(edge, path, "From")
        node, slot, tensor, where = self._feed(edge, path)
        if given is None or tensor is None:
            return edge
        self._sources[node][slot] = source, output
        if not same_layout(given, tensor):
            self._views[node, slot] = given, tensor
            rule, got = f"carry {shown_at(given, origin)}", Unquoted(shown_at(tensor, where))
            if same_value(given, tensor):
                rule = f"carry {given.total_tensor_size_in_bytes} bytes ({origin})"
                got = tensor.total_tensor_size_in_bytes
            self(same_bytes(given, tensor), path, rule, got)
        rule = "lead to a tensor that is not OWNED_BY_DML, which only a graph input may feed"
        self(TensorFlags.OWNED_BY_DML not in tensor.flags, path, rule, Unquoted(where))
        return _with(edge, from_node_index=source, to_node_index=node)

    def _output(self, edge: OutputEdge, path: str) -> OutputEdge:
        source, output, tensor, _ = self._end(edge, path, "From")
        kind = "graph output"
        index = self._resolve(kind, f"{path}.GraphOutputIndex", edge.graph_output_index)
        if index is None:
            return edge
        first = self._fed.setdefault(index, path)
        rule = f"feed a graph output that no other edge feeds, as {first} does"
        if not self(first == path, path, rule, index):
            self._lost.add("second")
        if tensor is None:
            return edge
        self._results[index] = source, output
        self.outputs[index] = tensor
        return _with(edge, from_node_index=source, graph_output_index=index)

    def _check_complete(self) -> None:
        """Every input of a node and output of the graph is fed, every input of the graph used.

        Not asked where an edge is lost: it may have been meant for what seems to be missing.
        """
        if not self._lost & {"node", "slot"}:
            for index, slots in enumerate(self.slots[False]):
                for slot, (path, tensor) in enumerate(slots):
                    if tensor is not None and (index, slot) not in self._fed:
                        rule = f"be fed by an edge ({label_of(index, self.nodes[index])})"
                        self(False, f"Nodes[{index}].{path}", rule, NOTHING)
        if "graph input" not in self._lost:
            for index, name in enumerate(self.input_names):
                rule = f"be read by an edge (graph input {index} '{name}')"
                self(index in self._first, f"InputNames[{index}]", rule, NOTHING)
        if "graph output" not in self._lost:
            for index, name in enumerate(self.output_names):
                rule = f"be fed by an edge (graph output {index} '{name}')"
                self(index in self._fed, f"OutputNames[{index}]", rule, NOTHING)

    def _order(self) -> list[int]:
        """The nodes, each after those that it reads; without those that read a cycle."""
        readers: list[list[int]] = [[] for _ in self.nodes]
        waiting = [0] * len(self.nodes)
        for node, sources in enumerate(self._sources):
            for source, _ in sources.values():
                if source >= 0:
                    readers[source].append(node)
                    waiting[node] += 1
        order = [node for node, count in enumerate(waiting) if count == 0]
        for node in order:  # grows on the way
            for reader in readers[node]:
                waiting[reader] -= 1
                if waiting[reader] == 0:
                    order.append(reader)
        return order

    def _name_cycle(self, left: set[int]) -> None:
        node, walked = min(left), {}
        while node not in walked:  # upstream, where each of these has another of them
            walked[node] = len(walked)
            node = next(n for n, _ in self._sources[node].values() if n in left)
        cycle = list(walked)[walked[node] :][::-1]
        start = cycle.index(min(cycle))
        cycle = [*cycle[start:], *cycle[: start + 1]]
        labels = " -> ".join(label_of(n, self.nodes[n]) for n in cycle)
        self(False, "IntermediateEdges", "make no cycle", Unquoted(labels))

    def _check_live(self) -> None:
        """Every node leads to an output of the graph."""
        ahead = [node for node, _ in self._results.values()]
        live = set(ahead)
        while ahead:
            for node, _ in self._sources[ahead.pop()].values():
                if node >= 0 and node not in live:
                    live.add(node)
                    ahead.append(node)
        for index, node in enumerate(self.nodes):
            rule = f"lead to a graph output ({label_of(index, node)})"
            kind = "a constant" if isinstance(node, ConstantNode) else "an operator"
            self(index in live, f"Nodes[{index}]", rule, Unquoted(f"{kind} of no effect"))

    def _settle(self, order: list[int]) -> None:
        """The order of the calls; optional tensors are arguments and results only if given."""
        position = [
            {slot: p for p, slot in enumerate(s for s, (_, t) in enumerate(slots) if t is not None)}
            for slots in self.slots[True]
        ]

        def settled(source: Source) -> Source:
            node, slot = source
            return source if node < 0 else (node, position[node][slot])

        for index in order:
            sources = self._sources[index]
            for place, slot in enumerate(sorted(sources)):
                if (index, slot) in self._views:
                    self.views[index, place] = self._views[index, slot]
            self.plan.append(
                (index, self.nodes[index], [settled(sources[slot]) for slot in sorted(sources)])
            )
        self.results = [settled(self._results[i]) for i in range(len(self._results))]


def _numbered(edges: Sequence[Any], kind: str) -> tuple[Sequence[Any], Iterable[str]]:
    return edges, (f"{kind}Edges[{index}]" for index in range(len(edges)))


def _with(edge: Any, **indices: int) -> Any:
    """The edge with indices in place of names."""
    if all(getattr(edge, name) == index for name, index in indices.items()):
        return edge
    return type(edge)(**{f.name: getattr(edge, f.name) for f in edge.fields} | indices)

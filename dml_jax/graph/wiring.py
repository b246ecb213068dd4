"""The wiring of a graph: the ends of its edges, the order of its nodes, and their faults."""

from collections.abc import Iterable, Sequence
from typing import Any

from dml_jax.description.tensor import DISTINCT_ADDRESSES, TensorDesc
from dml_jax.enums import TensorFlags
from dml_jax.errors import NOTHING, Expect, Unquoted, nearest
from dml_jax.graph.parts import (
    AnyNode,
    ArrayType,
    ConstantNode,
    InputEdge,
    IntermediateEdge,
    OutputEdge,
    Source,
    label_of,
    layout_of,
    reached,
    same_bytes,
    same_layout,
    same_value,
    shown_at,
)


class Wiring(Expect):
    """Resolves and checks the edges of a graph, in time linear in nodes and edges.

    Args:
        owner: the graph's name in DirectML.h.

    The other arguments are the fields of the graph, which are not checked together yet.

    Attributes:
        inputs, outputs: the tensors of the graph, by index.
        input_names, output_names: their names.
        reads, ends, plan, results, views, output_views: as in `Graph`; `plan` and `results` are
            empty if there are faults.
        resolved: the fields of the graph, with indices for names, and names for None.
    """

    def __init__(
        self,
        owner: str,
        *,
        nodes: Sequence[AnyNode],
        input_count: int,
        output_count: int,
        input_edges: Sequence[InputEdge],
        intermediate_edges: Sequence[IntermediateEdge],
        output_edges: Sequence[OutputEdge],
        input_names: Sequence[str] | None,
        output_names: Sequence[str] | None,
        input_tensors: Sequence[TensorDesc] | None,
        output_tensors: Sequence[TensorDesc] | None,
    ):
        super().__init__(owner)
        self.nodes = nodes
        self.slots = {out: [n.slots(out) for n in self.nodes] for out in (False, True)}
        self.inputs: dict[int, TensorDesc] = {}
        self.outputs: dict[int, TensorDesc] = {}
        self.plan: list[tuple[int, AnyNode, list[Source]]] = []
        self.results: list[Source] = []
        self.views: dict[tuple[int, int], tuple[TensorDesc, TensorDesc]] = {}
        self._views: dict[tuple[int, int], tuple[TensorDesc, TensorDesc]] = {}
        self.output_views: dict[int, tuple[TensorDesc, TensorDesc]] = {}
        self.reads: list[dict[int, Source]] = [{} for _ in self.nodes]
        self.ends: dict[int, Source] = {}
        self._fed: dict[Any, str] = {}  # an input of a node, or an output of the graph -> its edge
        self._first: dict[int, str] = {}  # an input of the graph -> its first edge
        self._lost: set[str] = set()  # the kinds of ends that some edge does not find, or shares
        self(len(self.nodes) > 0, "NodeCount", "be at least 1", 0)
        self(output_count > 0, "OutputCount", "be at least 1", 0)
        self.input_names = self._names("Input", input_names, input_count, len(input_edges))
        self.output_names = self._names("Output", output_names, output_count, len(output_edges))
        self.inputs |= self._declared("Input", input_tensors, input_count)
        self._wanted = self._declared("Output", output_tensors, output_count)
        self._by_name = self._numbers_by_name()
        self._counts = {
            "node": len(self.nodes),
            "graph input": input_count,
            "graph output": output_count,
        }
        self.resolved = {
            "input_names": self.input_names,
            "output_names": self.output_names,
            "input_edges": tuple(map(self._input, *_numbered(input_edges, "Input"))),
            "intermediate_edges": tuple(
                map(self._between, *_numbered(intermediate_edges, "Intermediate"))
            ),
            "output_edges": tuple(map(self._output, *_numbered(output_edges, "Output"))),
        }
        self._check_complete()
        order = self._order()
        if len(order) < len(self.nodes):
            self._name_cycle(set(range(len(self.nodes))).difference(order))
        elif not self._lost:
            self._check_live()
        if not self.faults:
            self._settle(order)

    def _numbers_by_name(self) -> dict[str, dict[str, int]]:
        """Return the numbers of nodes, inputs and outputs by their names, by kind of end."""
        found = {
            "node": self._distinct("Nodes[{}].Name", [node.name for node in self.nodes]),
            "graph input": self._distinct("InputNames[{}]", self.input_names),
            "graph output": self._distinct("OutputNames[{}]", self.output_names),
        }
        for name in found["graph output"]:
            is_other = name not in found["graph input"]
            self(is_other, "OutputNames", "differ from InputNames", name)
        return found

    def _declared(
        self, kind: str, tensors: Sequence[TensorDesc] | None, count: int
    ) -> dict[int, TensorDesc]:
        """Return the tensors that the graph declares for its inputs or outputs, by index."""
        rule = f"have {count} elements ({kind}Count)"
        if tensors is not None and self(
            len(tensors) == count, f"{kind}Tensors", rule, len(tensors)
        ):
            return dict(enumerate(tensors))
        return {}

    def _names(
        self, kind: str, names: Sequence[str] | None, count: int, edge_count: int
    ) -> tuple[str, ...]:
        """Return the names of the graph's inputs or outputs, which are numbers by default."""
        if names is None:
            # More inputs than edges are a fault, reported later; it must not cost memory here.
            return tuple(f"{kind}{i}" for i in range(min(count, edge_count + 1)))
        rule = f"have {count} elements ({kind}Count)"
        self(len(names) == count, f"{kind}Names", rule, list(names))
        return tuple(names)

    def _distinct(self, field: str, names: Sequence[str | None]) -> dict[str, int]:
        """Return the index of each name; a name that occurs twice is a fault of `field`."""
        indices: dict[str, int] = {}
        for index, name in enumerate(names):
            if name is not None and indices.setdefault(name, index) != index:
                rule = f"differ from {field.format(indices[name])}"
                self(False, field.format(index), rule, name)
        return indices

    def _resolve(self, kind: str, field: str, value: int | str) -> int | None:
        """Return the index of the node, graph input or graph output (`kind`) that an edge names."""
        names, count = self._by_name[kind], self._counts[kind]
        if isinstance(value, str):
            index = names.get(value)
            rule = f"be a {kind}'s name{nearest(value, names)}"
            self(index is not None, field, rule, value)
        else:
            index = self._within(field, value, count, f"{kind}s")
        if index is None:
            self._lost.add(kind)
        return index

    def _within(self, field: str, value: int, count: int, things: str) -> int | None:
        """Return an index that counts one of `things`; None and a fault if it is too large."""
        if value < count:
            return value
        rule = f"be in [0, {count - 1}] ({things})"
        self(False, field, rule if count else f"be one of the {things} (it has none)", value)
        return None

    def _end(self, edge: Any, path: str, side: str) -> tuple[int, int, TensorDesc | None, str]:
        """Return (node, slot, tensor, words for it) of an edge's From or To side.

        There is no tensor if the edge leads nowhere.
        """
        kind = "Output" if side == "From" else "Input"
        low = side.lower()
        node = self._resolve("node", f"{path}.{side}NodeIndex", getattr(edge, f"{low}_node_index"))
        slot = getattr(edge, f"{low}_node_{kind.lower()}_index")
        if node is None:
            return -1, slot, None, ""
        label = label_of(node, self.nodes[node])
        slots, field = self.slots[side == "From"][node], f"{path}.{side}Node{kind}Index"
        known = self._within(field, slot, len(slots), f"{kind.lower()}s of {label}")
        name, tensor = slots[slot] if known is not None else ("", None)
        if known is not None and tensor is None:
            rule = f"be an {kind.lower()} that is given ({name} of {label} is not)"
            self(False, field, rule, slot)
        if tensor is None:
            self._lost.add("slot")
        return node, slot, tensor, f"{name} of {label}"

    def _feed(self, edge: Any, path: str) -> tuple[int, int, TensorDesc | None, str]:
        """Return the To side of an edge as `_end` does; no two edges may feed one."""
        node, slot, tensor, where = self._end(edge, path, "To")
        if tensor is not None:
            first = self._fed.setdefault((node, slot), path)
            if first != path:
                rule = f"feed an input that no other edge feeds, as {first} does"
                self(False, path, rule, Unquoted(where))
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
        self._check_count(edge, path, tensor)
        self.reads[node][slot] = -1, index
        known = self.inputs.setdefault(index, tensor)
        if same_bytes(known, tensor) and not same_layout(known, tensor):
            self._views[node, slot] = known, tensor
            self._check_flags(path, known, tensor, first)
        elif same_value(known, tensor):
            self._check_memory(path, index, known, tensor, first)
        else:
            rule = f"carry {shown_at(known, f'as {first} does, from {kind} {index}')}"
            self(False, path, rule, Unquoted(shown_at(tensor, where)))
        return _with(edge, graph_input_index=index, to_node_index=node)

    def _check_memory(
        self, path: str, index: int, known: TensorDesc, tensor: TensorDesc, first: str
    ) -> None:
        """Check that all readers of a graph input agree on its layout and its flags."""
        if known == tensor or isinstance(tensor, ArrayType):
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
        source, output, sent, origin = self._end(edge, path, "From")
        node, slot, tensor, where = self._feed(edge, path)
        if sent is None or tensor is None:
            return edge
        self._check_count(edge, path, sent)
        self.reads[node][slot] = source, output
        if not same_layout(sent, tensor):
            self._views[node, slot] = sent, tensor
            if not same_bytes(sent, tensor):  # words cost more than the question
                rule, got = f"carry {shown_at(sent, origin)}", Unquoted(shown_at(tensor, where))
                if same_value(sent, tensor):
                    rule = f"carry {sent.total_tensor_size_in_bytes} bytes ({origin})"
                    got = tensor.total_tensor_size_in_bytes
                self(False, path, rule, got)
        rule = "lead to a tensor that is not OWNED_BY_DML, which only a graph input may feed"
        is_owned = isinstance(tensor, TensorDesc) and TensorFlags.OWNED_BY_DML in tensor.flags
        self(not is_owned, path, rule, Unquoted(where))
        return _with(edge, from_node_index=source, to_node_index=node)

    def _output(self, edge: OutputEdge, path: str) -> OutputEdge:
        source, output, tensor, where = self._end(edge, path, "From")
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
        self.ends[index] = source, output
        self.outputs[index] = self._wanted.get(index, tensor)
        self._check_count(edge, path, self.outputs[index])
        if not same_layout(tensor, self.outputs[index]):
            self._view_output(index, tensor, where)
        return _with(edge, from_node_index=source, graph_output_index=index)

    def _check_count(self, edge: Any, path: str, tensor: TensorDesc) -> None:
        """Check the dimension of what an edge carries whose size data decides, and its name."""
        axis, name, names = edge.padded_axis, edge.count_name, self._by_name["graph output"]
        if axis is None and name is None:
            return
        self(axis is not None, f"{path}.PaddedAxis", "be given, as CountName is", NOTHING)
        self(name is not None, f"{path}.CountName", "be given, as PaddedAxis is", NOTHING)
        if axis is not None:
            self._within(f"{path}.PaddedAxis", axis, len(tensor.sizes), "dimensions")
        if name is not None and isinstance(edge, OutputEdge):
            rule = f"be a graph output's name{nearest(name, names)}"
            self(name in names, f"{path}.CountName", rule, name)

    def _view_output(self, index: int, written: TensorDesc, where: str) -> None:
        """Let an output of the graph read the bytes of a node's output as the tensor declared."""
        wanted, field = self.outputs[index], f"OutputTensors[{index}]"
        self.output_views[index] = written, wanted
        rule = f"describe the {written.total_tensor_size_in_bytes} bytes of {where}"
        got = Unquoted(f"{wanted.total_tensor_size_in_bytes} bytes")
        self(same_bytes(written, wanted), field, rule, got)
        strides = f"{field}.Strides"
        self(wanted.has_distinct_addresses, strides, DISTINCT_ADDRESSES, list(wanted.strides or ()))

    def _check_complete(self) -> None:
        """Check that edges feed all inputs of nodes and all outputs, and read all graph inputs.

        If an edge leads nowhere, it may be the one that is missing: then this checks nothing.
        """
        if not self._lost & {"node", "slot"}:
            for index, slots in enumerate(self.slots[False]):
                for slot, (path, tensor) in enumerate(slots):
                    if tensor is not None and (index, slot) not in self._fed:
                        rule = f"be fed by an edge ({label_of(index, self.nodes[index])})"
                        self(False, f"Nodes[{index}].{path}", rule, NOTHING)
        if "graph input" not in self._lost:
            for index, name in enumerate(self.input_names):
                if index not in self._first:
                    rule = f"be read by an edge (graph input {index} '{name}')"
                    self(False, f"InputNames[{index}]", rule, NOTHING)
        if "graph output" not in self._lost:
            for index, name in enumerate(self.output_names):
                if index not in self._fed:
                    rule = f"be fed by an edge (graph output {index} '{name}')"
                    self(False, f"OutputNames[{index}]", rule, NOTHING)

    def _order(self) -> list[int]:
        """Return the nodes, each after its sources; without nodes that depend on a cycle."""
        readers: list[list[int]] = [[] for _ in self.nodes]
        waiting = [0] * len(self.nodes)
        for node, sources in enumerate(self.reads):
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
        """Report a cycle among the nodes `left`, each of which reads another of them."""
        node, places = min(left), {}
        while node not in places:  # upstream
            places[node] = len(places)
            node = next(n for n, _ in self.reads[node].values() if n in left)
        cycle = list(places)[places[node] :][::-1]
        start = cycle.index(min(cycle))
        cycle = [*cycle[start:], *cycle[: start + 1]]
        labels = " -> ".join(label_of(n, self.nodes[n]) for n in cycle)
        self(False, "IntermediateEdges", "make no cycle", Unquoted(labels))

    def _check_live(self) -> None:
        """Check that every node leads to an output of the graph."""
        sources = [[node for node, _ in ends.values()] for ends in self.reads]
        live = reached((node for node, _ in self.ends.values()), sources)
        for index, node in enumerate(self.nodes):
            rule = f"lead to a graph output ({label_of(index, node)})"
            kind = "a constant" if isinstance(node, ConstantNode) else "an operator"
            self(index in live, f"Nodes[{index}]", rule, Unquoted(f"{kind} of no effect"))

    def _settle(self, order: list[int]) -> None:
        """Fill `plan` and `results`; optional tensors without a value are no arguments."""
        position = [
            {slot: p for p, slot in enumerate(s for s, (_, t) in enumerate(slots) if t is not None)}
            for slots in self.slots[True]
        ]

        def position_of(source: Source) -> Source:
            node, slot = source
            return source if node < 0 else (node, position[node][slot])

        for index in order:
            sources = self.reads[index]
            for place, slot in enumerate(sorted(sources)):
                if (index, slot) in self._views:
                    self.views[index, place] = self._views[index, slot]
            self.plan.append(
                (index, self.nodes[index], [position_of(sources[slot]) for slot in sorted(sources)])
            )
        self.results = [position_of(self.ends[i]) for i in range(len(self.ends))]


def _numbered(edges: Sequence[Any], kind: str) -> tuple[Sequence[Any], Iterable[str]]:
    return edges, (f"{kind}Edges[{index}]" for index in range(len(edges)))


def _with(edge: Any, **indices: int) -> Any:
    """Return the edge with indices in place of names."""
    if all(getattr(edge, name) == index for name, index in indices.items()):
        return edge
    return edge.replace(**indices)

"""Builds the graph of a network: inputs, weights, constants and functions as tensors of ONNX."""

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import onnx
from onnx import helper

from dml_jax import functional as dml
from dml_jax.description.tensor import TensorDesc
from dml_jax.enums import TensorFlags
from dml_jax.errors import DmlError, Fault, collecting, raise_if
from dml_jax.graph import Expression, FunctionNode, Graph, GraphBuilder, Source
from dml_jax.graph.parts import Edge
from dml_jax.onnx.files.attributes import label_of
from dml_jax.onnx.files.types import (
    COUNT,
    QUANTIZED,
    Type,
    dense,
    dimension_in,
    elements_of,
    expect_no_more,
    expect_sizes,
    fitting,
)
from dml_jax.onnx.nodes.number_limits import Limit, kind_of, worst
from dml_jax.onnx.nodes.op_types import Bounds
from dml_jax.onnx.nodes.tensor import Count, EmptyOptional, Scope, Tensor, TensorList
from dml_jax.onnx.nodes.values import Function, edge_of, on_edges


class NetworkBuilder:
    """Builds a graph of operators and functions, whose expressions are tensors of ONNX.

    Args:
        fallback: whether tensors may have types that DirectML lacks.
        outer: the builder of the graph around this one.

    Attributes:
        builder: makes the graph of DirectML operators.
        faults: what cannot be had, each within its node.
        weights: the arrays that the program takes as arguments, by name.
        around: the tensors of the graph around this one that it reads, by their names here.
        fixed: the initializers of `replaceable` inputs whose elements something was decided by.
        padded: the tensors whose size data decides.
        inputs: the inputs of the network by name; none in a graph within it.
        limits: the inputs that have indices of tables, and the limits of these.
        checks: other tensors of numbers that may lie beyond limits, and these limits.
        is_branch: whether the graph is a branch of an If, whose weights are those around it.
    """

    def __init__(self, fallback: bool, outer: "NetworkBuilder | None" = None):
        beyond = fallback or (outer is not None and outer.builder.beyond)
        self.builder, self.faults = GraphBuilder(beyond=beyond), list[Fault]()
        self.weights: dict[str, np.ndarray] = {}
        self.around: dict[str, Tensor] = {}
        self.fixed: set[str] = set()
        self.padded: list[Tensor] = []
        self.inputs: dict[str, Tensor] = {}
        self.limits: list[tuple[str, Limit]] = []
        self.checks: list[tuple[Tensor, Sequence[Limit]]] = []
        self.is_branch = False
        self.fallback, self._outer = fallback, outer
        self._taken: set[str] = set()
        self._last: dict[str, int] = {}  # the number of the last tensor of each name
        self._made: dict[str, list[Tensor]] = {}  # weights
        self._read: dict[int, Tensor] = {}  # tensors of the graph around, by their identity

    def unique(self, name: str) -> str:
        """Return `name`, or one like it where an input or output of the graph has the name."""
        found = name
        while found in self._taken:
            self._last[name] = self._last.get(name, 1) + 1
            found = f"{name} ({self._last[name]})"
        self._taken.add(found)
        return found

    def input(self, name: str, kind: Type, bounds: Bounds | None = None) -> Tensor:
        """Return an input of the graph.

        Raises `DmlError` where DirectML lacks its type, and no fallback is asked for.
        """
        _ = kind.array_dtype if self.fallback else kind.edge_type(self.builder.beyond)
        if kind.is_empty:
            return self.empty(name, kind)
        source = self.unique(name)
        made = Tensor(name, kind, lambda: self._input(source, kind), bounds=bounds)
        self.inputs |= {} if self._outer else {name: made}
        return made

    def empty(self, name: str, kind: Type) -> Tensor:
        """Return a tensor without elements.

        Raises `DmlError` where its sizes, but for those of 0, are more than NumPy takes.
        """
        try:
            array = np.zeros(kind.shape or (), kind.dtype)
        except ValueError:
            rule = "have sizes whose product, without zeros, is one of bytes in 64 bits"
            raise DmlError(
                [Fault("", f"the tensor '{name}'", rule, [*(kind.shape or ())])]
            ) from None
        return self.constant(name, array, kind.element)

    def _edge(self, kind: Type) -> Edge:
        return edge_of(kind, self.builder.beyond)

    def _input(self, name: str, kind: Type, flags: TensorFlags | str = "NONE") -> Expression:
        desc: Any = edge_of(kind, self.builder.beyond, flags)
        return self.builder.input_tensor(name, desc)

    def weight(
        self, name: str, array: np.ndarray, element: int, is_replaceable: bool = False
    ) -> Tensor:
        """Return an initializer: floating and quantized ones are arguments of the program.

        Those that a call may replace are arguments too. `fixed` has those whose elements are read.
        """
        kind = Type(element, array.shape)
        is_argument = (
            kind.is_floating or element in QUANTIZED or (is_replaceable and kind.has_inner)
        )
        if kind.is_empty or not is_argument:
            self.fixed |= {name} if is_replaceable else set()
            return self.constant(name, array, element)
        if self._outer is not None:
            return self.captured(self._outer.weight(name, array, element))
        # Two graphs beside each other may have initializers of one name.
        known = self._made.setdefault(name, [])
        for made in known:
            if made.type == kind and np.array_equal(made.array, array):
                return made  # the same graph, translated again
        source, owned = self.unique(name), TensorFlags.OWNED_BY_DML

        def elements() -> np.ndarray:
            self.fixed |= {name} if is_replaceable else set()
            return array

        held = fitting(name, array, kind) if array.dtype.kind in "iu" else array
        self.weights[source] = held.astype(np.uint8) if array.dtype == bool else held
        tensor = Tensor(name, kind, lambda: self._input(source, kind, owned), elements, True)
        known.append(tensor)
        return tensor

    def captured(self, value: Any) -> Any:
        """Return a tensor, or a sequence of tensors, of the graph around this one."""
        if isinstance(value, EmptyOptional):
            return value
        if isinstance(value, TensorList):
            return TensorList([self.captured(tensor) for tensor in value.tensors])
        if value.is_known and not value.is_weight:
            return self.constant(value.name, value.array, value.type.element)
        argument = self.argument(value)
        if value.count is not None:
            argument.count = replace(value.count, number=self.captured(value.count.number))
            self.padded.append(argument)
        return argument

    def argument(self, tensor: Tensor) -> Tensor:
        """Return an input of the graph that stands for a tensor outside, which may be known."""
        kind = tensor.type
        if kind.is_empty:
            return self.empty(tensor.name, kind)
        if id(tensor) not in self._read:
            source = self.unique(tensor.name)
            self.around[source] = tensor
            known = (lambda: tensor.array) if tensor.is_known else None
            # A weight outside is one in a branch too.
            flags = "OWNED_BY_DML" if self.is_branch and tensor.is_known else "NONE"
            made = Tensor(tensor.name, kind, lambda: self._input(source, kind, flags), known)
            made.is_weight, made.bounds = tensor.is_known, tensor.bounds
            self._read[id(tensor)] = made
        return self._read[id(tensor)]

    def function(
        self,
        proto: onnx.NodeProto,
        reason: str,
        inputs: Sequence[Tensor | None],
        kinds: Sequence[Type | None],
        function: Function,
        graphs: Sequence[Graph] = (),
        paddings: Sequence[tuple[int, str] | None] = (),
        captured: Sequence[Mapping[str, int]] = (),
        limits: Sequence[Limit] | None = None,
    ) -> list[Tensor | None]:
        """Add a function to the graph; return its outputs, None where the node asks for none.

        Args:
            proto: the node that it computes.
            reason: why this is no operator of DirectML.
            inputs: what the function takes.
            kinds: the type of each output; None where the node does not ask for it.
            function: the function; it returns the outputs, then the counts of the padded ones, and
                then a number for each of `limits`.
            graphs: the graphs that the function runs.
            paddings: the dimension of each output that is padded, and what decides its size, as
                messages name it; None for an output that is not.
            captured: which of `inputs` the inputs of each graph are, by name.
            limits: the limits of numbers in the graphs; None for a function without graphs.
        """
        values = [None if tensor is None else self._value(tensor) for tensor in inputs]
        taken = [None if tensor is None else tensor.type for tensor in inputs]
        padded = [k for k, padding in enumerate(paddings) if padding and kinds[k]]
        everything = _named_results(proto, kinds, padded, limits)
        carried = [None if kind.is_empty else kind for _, kind in everything if kind is not None]
        results: list[Expression] = []
        if any(carried):
            node = FunctionNode(
                on_edges(function, taken, carried, self.builder.beyond),
                tuple(None if value is None else value.desc for value in values),
                tuple(map(self._edge, filter(None, carried))),
                label_of(proto),
                reason,
                tuple(graphs),
                captured=tuple(captured),
            )
            results = self.builder.function(node, values)
        made = iter(results)

        def tensor(name: str, kind: Type | None) -> Tensor | None:
            if kind is None or kind.is_empty:
                return kind and self.empty(name, kind)
            expression = next(made)
            return Tensor(name, kind, lambda: expression) if name else None

        tensors = [tensor(name, kind) for name, kind in everything]
        last = len(kinds) + len(padded)
        self.checks += [(tensor, limits) for tensor in tensors[last:] if tensor and limits]
        for k, count in zip(padded, tensors[len(kinds) : last], strict=True):
            result, padding = tensors[k], paddings[k]
            if result is not None and padding is not None and count is not None:
                result.count = Count(padding[0], count, padding[1])
        return [*tensors[: len(kinds)], *[None] * (len(proto.output) - len(kinds))]

    def _value(self, tensor: Tensor) -> Expression:
        """Return what a function reads, or the graph gives, for a tensor; also of no elements."""
        edge = self._edge(tensor.type)
        if tensor.is_weight or not tensor.is_known or isinstance(edge, TensorDesc):
            return tensor.value
        array = fitting(tensor.name, tensor.array, tensor.type)
        array = np.asarray(array).astype(edge.dtype).reshape(edge.sizes)
        literal = FunctionNode(lambda _: [array], (), (edge,), f"constant '{tensor.name}'")
        return self.builder.function(literal, ())[0]

    @property
    def every_limit(self) -> list[Limit]:
        """Return the limits of all of `checks`."""
        return [limit for _, limits in self.checks for limit in limits]

    def _worst(self) -> Tensor | None:
        """Return a number for each of `every_limit`, as `worst` does; None where there are none."""
        if not self.checks:
            return None
        inputs, groups = [t for t, _ in self.checks], [limits for _, limits in self.checks]

        def run(_: Sequence[Graph], arrays: Sequence[Any]) -> Sequence[Any]:
            return [jnp.concatenate([*map(worst, arrays, groups)])]

        node, kinds = helper.make_node("Max", [], ["limited"]), [kind_of(self.every_limit)]
        return self.function(node, "", inputs, kinds, run)[0]

    def build(self, outputs: Sequence[tuple[str, Tensor]]) -> tuple[Graph, Graph]:
        """Return the graph that gives `outputs`, (name, tensor) of each, and then their counts.

        A tensor whose size data decides has a count, which is an output too. The second graph has
        the worst numbers of `checks` as its last output, if there are any.

        Raises `DmlError` with all faults: outputs may be made of weights that are read here first.
        """
        paddings = {self.unique(name): tensor.count for name, tensor in outputs}
        tensors, counted = [tensor for _, tensor in outputs], dict[str, tuple[int, str]]()
        for (name, _), (own, padding) in zip(outputs, paddings.items(), strict=True):
            if padding is not None:
                counted[own] = padding.axis, self.unique(f"{name}.count")
                tensors.append(padding.number)
        # All outputs before `raise_if`: nodes whose inputs are known are translated here, and may
        # refuse.
        values = [self._written(self._value(tensor)) for tensor in tensors]
        last = self._worst()
        raise_if(self.faults)
        names = [*paddings, *(count for _, count in counted.values())]
        known = {id(p.number): counted[name][1] for name, p in paddings.items() if p is not None}
        every = {**self._counts_by_source(known), **counted}
        made = dict(zip(names, values, strict=True))
        graph = self.builder.build(made, True, every)
        if last is None:
            return graph, graph
        return graph, self.builder.build({**made, self.unique("limited"): last.value}, True, every)

    def _counts_by_source(self, known: Mapping[int, str]) -> dict[Source | str, tuple[int, str]]:
        """Return (dimension, name of the count) of arrays of which data decides a size, by source.

        `known` has the names of counts that are outputs, by the identity of their tensors.
        """
        found = dict[Source | str, tuple[int, str]]()
        for tensor in self.padded:
            if tensor.count is not None and tensor.is_made:
                source, padding = tensor.value.source, tensor.count
                sizes = self.builder.written(source).sizes
                axis = dimension_in(sizes, padding.axis, tensor.shape)
                if axis is not None:
                    found[source] = axis, known.get(id(padding.number), padding.number.name)
        return found

    def _written(self, x: Expression) -> Expression:
        """Return an expression that a node of the graph writes, as outputs of graphs must be."""
        if x.is_written:
            return x
        # DirectML's graphs have no edge from an input to an output: an identity stands between.
        if isinstance(x.desc, TensorDesc):
            with contextlib.suppress(DmlError):  # where DirectML copies no such tensors
                return dml.identity(x)
        node = FunctionNode(lambda _, array: [array], (x.desc,), (x.desc,), "copy")
        return self.builder.function(node, [x])[0]

    def constant(self, name: str, array: np.ndarray, element: int | None = None) -> Tensor:
        """Return a tensor whose elements are known, and stand in the graph where it is read."""
        if element is None:
            element = helper.np_dtype_to_tensor_dtype(array.dtype)
        kind = Type(element, array.shape)
        return Tensor(name, kind, lambda: self._constant(name, array, kind), lambda: array)

    def initializers(
        self,
        proto: onnx.GraphProto,
        scope: Scope,
        array_of: Callable[[onnx.TensorProto], np.ndarray] = elements_of,
        replaceable: Collection[str] = (),
    ) -> None:
        """Add the initializers of a graph to its scope, None for one that cannot be had.

        `array_of` returns the elements of a tensor; a call may give those of `replaceable` names.
        Raises `DmlError` with the faults of all that cannot be had.
        """
        faults = list[Fault]()
        # Of several initializers of one name, the last one counts.
        last = {tensor.name: tensor for tensor in proto.initializer}
        for tensor in (*last.values(), *proto.sparse_initializer):
            is_sparse = isinstance(tensor, onnx.SparseTensorProto)
            values = tensor.values if is_sparse else tensor
            name, element = values.name, values.data_type
            scope[name] = None
            with collecting(faults):
                expect_sizes(values)
                array = dense(tensor, array_of) if is_sparse else array_of(tensor)
                scope[name] = self.weight(name, array, element, name in replaceable)
        raise_if(faults)

    def stand_in(self, name: str, kind: Type) -> Tensor | None:
        """Return a tensor in place of one that cannot be had, so that its readers are checked."""
        try:
            return self.input(f"{name} (number {len(self.faults)})", kind)
        except DmlError:
            return None

    def _constant(self, name: str, array: np.ndarray, kind: Type) -> Expression:
        if kind.is_empty:
            rule = "have elements, as all tensors of DirectML"
            raise DmlError([Fault("", f"the tensor '{name}'", rule, list(array.shape))])
        inner = fitting(name, array, kind).astype(kind.edge_type(self.builder.beyond).dtype)
        return self.builder.constant(inner.reshape(array.shape or (1,)), None)


def _named_results(
    proto: onnx.NodeProto,
    kinds: Sequence[Type | None],
    padded: Sequence[int],
    limits: Sequence[Limit] | None,
) -> list[tuple[str, Type | None]]:
    """Return the name and type of each result of a function, as `NetworkBuilder.function` has them.

    Raises `DmlError` for a type with more dimensions than arrays have.
    """
    names = [*proto.output, *[""] * len(kinds)][: len(kinds)]
    counts = [(f"{names[k]}.count" if names[k] else "", COUNT) for k in padded]
    results = [*zip(names, kinds, strict=True), *counts]
    results += [] if limits is None else [("limited", kind_of(limits))]
    for name, kind in results:
        if kind is not None:
            expect_no_more(kind, f"the output '{name}'")
    return results

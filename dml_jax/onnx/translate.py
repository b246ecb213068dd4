"""Translates an ONNX graph, node by node, into expressions of DirectML operators.

What is known at load (sizes, axes, constants) is computed there, by ONNX's own reference
implementation.
"""

import contextlib
import functools
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import onnx
from onnx import helper, numpy_helper

from dml_jax import beyond
from dml_jax import functional as dml
from dml_jax.description.tensor import TensorDesc
from dml_jax.enums import TensorFlags
from dml_jax.errors import (
    OF_SIZES,
    PARTS_MAX,
    DmlError,
    Fault,
    Sentence,
    Unquoted,
    collecting,
    raise_if,
)
from dml_jax.graph import Expression, FunctionNode, Graph, GraphBuilder, OperatorNode
from dml_jax.onnx import empty
from dml_jax.onnx.affine import terms_of
from dml_jax.onnx.arrays import Function, computed, edge_of, on_edges
from dml_jax.onnx.assigned import without_ranges
from dml_jax.onnx.calls import CALLS_MAX, too_deep
from dml_jax.onnx.carried import SizeBounds, cut
from dml_jax.onnx.counts import same_padding
from dml_jax.onnx.fallbacks import curing_types, fallback_types, in_order, known_results
from dml_jax.onnx.functions import (
    FunctionKey,
    Opsets,
    body_of,
    domain_of,
    fill,
    folded,
    key_of,
    without,
)
from dml_jax.onnx.nodes import (
    Node,
    OpType,
    Site,
    attribute_value,
    inlines,
    label_of,
    listed,
    record_of,
)
from dml_jax.onnx.older import renewed
from dml_jax.onnx.ragged import passed, refusal
from dml_jax.onnx.ranges import Bounds, checked
from dml_jax.onnx.reshapes import reshaped
from dml_jax.onnx.schemas import check_attributes, check_lists, output_types, schema_of
from dml_jax.onnx.tensors import (
    COUNT,
    EmptyOptional,
    Padded,
    Padding,
    Scope,
    Tensor,
    TensorList,
    Type,
    dense,
    expect_no_more,
    fitting,
)
from dml_jax.onnx.topology import needed

_FOLDED_MAX = 1 << 20  # bytes; more than that is computed by the network, not at load


class Translation:
    """Translates a graph. All that is in the way becomes `faults`.

    Args:
        opsets: the version of each domain that the model imports.
        functions: the functions that the model defines, by domain, name and overload.
        ir: the version of the format.
        fallback: whether nodes go beyond DirectML: by types that its operators lack, and by
            functions of JAX of op types that it has no operator for.
        outer: the translation of the graph around this one.

    Attributes:
        builder: makes the graph of DirectML operators.
        faults: what cannot be had, each within its node.
        weights: the arrays that the program takes as arguments, by name.
        around: the tensors of the graph around this one that it reads, by their names here.
        curable: the nodes among the faults that `fallback` would compute.
        asked: the names of the model's inputs.
        beyond: the label of the ONNX node and the reason, of each `OperatorNode` beyond DirectML,
            by its identity.
        fixed: the initializers of `replaceable` inputs whose elements something was decided by.
        bounds: the bounds of sizes that data decides; None where nodes of such sizes are refused.
        turns: how many turns a Loop may take; None for any number.
        loops: how many loops are around what is translated, whose turns are written out.
    """

    def __init__(
        self,
        opsets: Opsets,
        functions: Mapping[FunctionKey, onnx.FunctionProto],
        ir: int,
        fallback: bool = False,
        outer: "Translation | None" = None,
    ):
        self.builder, self.faults = GraphBuilder(), list[Fault]()
        self.weights: dict[str, np.ndarray] = {}
        self.around: dict[str, Tensor] = {}
        self.curable: list[str] = []
        self.asked: set[str] = set()
        self.beyond: dict[int, tuple[str, str]] = {}
        self.fixed: set[str] = set()
        self.fallback = fallback
        self.bounds: SizeBounds | None = None
        self.turns: int | None = None
        self.loops = 0
        self._numbers = itertools.count() if outer is None else outer._numbers
        self._opsets, self._functions, self._ir, self._outer = opsets, functions, ir, outer
        self._calls = 0
        self._counts: dict[int, tuple[Any, Tensor]] = {}  # by the identity of what is counted
        self._taken: set[str] = set()
        self._last: dict[str, int] = {}  # the number of the last tensor of each name
        self._made: dict[str, list[Tensor]] = {}  # weights
        self._read: dict[int, Tensor] = {}  # tensors of the graph around, by their identity

    def inner(self) -> "Translation":
        """Return a translation of a graph within a node of the graph."""
        inner = Translation(self._opsets, self._functions, self._ir, self.fallback, self)
        inner._calls, inner.asked, inner.beyond = self._calls, self.asked, self.beyond
        inner.turns = self.turns
        return inner

    @property
    def is_inner(self) -> bool:
        """Return whether this translates a graph within a node."""
        return self._outer is not None or self.loops > 0

    @property
    def is_within_calls(self) -> bool:
        """Return whether this translates the body of a function or of a node."""
        return self._calls > 0

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
        _ = kind.array_dtype if self.fallback else kind.inner
        if kind.is_empty:
            return self._empty(name, kind)
        source = self.unique(name)
        return Tensor(name, kind, lambda: self._input(source, kind), bounds=bounds)

    def _empty(self, name: str, kind: Type) -> Tensor:
        """Return a tensor without elements."""
        return self.constant(name, np.zeros(kind.shape or (), kind.dtype), kind.element)

    def _input(self, name: str, kind: Type, flags: TensorFlags | str = "NONE") -> Expression:
        desc: Any = edge_of(kind, flags)
        return self.builder.input_tensor(name, desc)

    def weight(
        self, name: str, array: np.ndarray, element: int, is_replaceable: bool = False
    ) -> Tensor:
        """Return an initializer: floating and quantized ones are arguments of the program.

        Those that a call may replace are arguments too. `fixed` has those whose elements are read.
        """
        kind = Type(element, array.shape)
        is_argument = kind.is_floating or kind.is_quantized or (is_replaceable and kind.has_inner)
        if kind.is_empty or not is_argument:
            self.fixed |= {name} if is_replaceable else set()
            return self.constant(name, array, element)
        if self._outer is not None:
            return self.captured(self._outer.weight(name, array, element))
        known = self._made.setdefault(name, [])  # graphs beside each other may share a name
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
        made = self.argument(value)
        if value.padding is not None:
            made.padding = replace(value.padding, count=self.captured(value.padding.count))
        return made

    def argument(self, tensor: Tensor) -> Tensor:
        """Return an input of the graph that stands for a tensor outside, which may be known."""
        kind = tensor.type
        if kind.is_empty:
            return self._empty(tensor.name, kind)
        if id(tensor) not in self._read:
            source = self.unique(tensor.name)
            self.around[source] = tensor
            known = (lambda: tensor.array) if tensor.is_known else None
            made = Tensor(tensor.name, kind, lambda: self._input(source, kind), known)
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
    ) -> list[Tensor | None]:
        """Add a function to the graph; return its outputs, None where the node asks for none.

        Args:
            proto: the node that it computes.
            reason: why this is no operator of DirectML.
            inputs: what the function takes.
            kinds: the type of each output; None where the node does not ask for it.
            function: the function; it returns the outputs, then the counts of the padded ones.
            graphs: the graphs that the function runs.
            paddings: the dimension of each output that is padded, and what decides its size, as
                messages name it; None for an output that is not.
        """
        values = [None if tensor is None else self._value(tensor) for tensor in inputs]
        taken = [None if tensor is None else tensor.type for tensor in inputs]
        names = [*proto.output, *[""] * len(kinds)][: len(kinds)]
        padded = [k for k, padding in enumerate(paddings) if padding and kinds[k]]
        counted = [f"{names[k]}.count" if names[k] else "" for k in padded]
        everything = [*zip(names, kinds, strict=True), *((name, COUNT) for name in counted)]
        for name, kind in everything:
            _ = kind and expect_no_more(kind, f"the output '{name}'")
        carried = [None if kind.is_empty else kind for _, kind in everything if kind is not None]
        results: list[Expression] = []
        if any(carried):
            node = FunctionNode(
                on_edges(function, taken, carried),
                tuple(None if value is None else value.desc for value in values),
                tuple(edge_of(kind) for kind in carried if kind is not None),
                label_of(proto),
                reason,
                tuple(graphs),
            )
            results = self.builder.function(node, values)
        made = iter(results)

        def tensor(name: str, kind: Type | None) -> Tensor | None:
            if kind is None or kind.is_empty:
                return kind and self._empty(name, kind)
            expression = next(made)
            return Tensor(name, kind, lambda: expression) if name else None

        tensors = [tensor(name, kind) for name, kind in everything]
        for k, count in zip(padded, tensors[len(kinds) :], strict=True):
            result, padding = tensors[k], paddings[k]
            if result is not None and padding is not None and count is not None:
                result.padding = Padding(padding[0], count, padding[1])
        return [*tensors[: len(kinds)], *[None] * (len(proto.output) - len(kinds))]

    def _value(self, tensor: Tensor) -> Expression:
        """Return what a function reads, or the graph gives, for a tensor; also of no elements."""
        if tensor.is_weight or not tensor.is_known or isinstance(edge_of(tensor.type), TensorDesc):
            return tensor.value
        array, edge = fitting(tensor.name, tensor.array, tensor.type), edge_of(tensor.type)
        array = np.asarray(array).astype(edge.dtype).reshape(edge.sizes)
        literal = FunctionNode(lambda _: [array], (), (edge,), f"constant '{tensor.name}'")
        return self.builder.function(literal, ())[0]

    def build(self, outputs: Sequence[tuple[str, Tensor]]) -> Graph:
        """Return the graph that gives `outputs`, (name, tensor) of each, and then their counts.

        A tensor whose size data decides has a count, which is an output too.

        Raises `DmlError` with all faults: outputs may be made of weights that are read here first.
        """
        paddings = {self.unique(name): tensor.padding for name, tensor in outputs}
        tensors, counted = [tensor for _, tensor in outputs], dict[str, tuple[int, str]]()
        for (name, _), (own, padding) in zip(outputs, paddings.items(), strict=True):
            if padding is not None:
                counted[own] = padding.axis, self.unique(f"{name}.count")
                tensors.append(padding.count)
        values = [self._written(self._value(tensor)) for tensor in tensors]
        if self.faults:
            raise DmlError(self.faults)
        names = [*paddings, *(count for _, count in counted.values())]
        return self.builder.build(dict(zip(names, values, strict=True)), True, counted)

    def _written(self, x: Expression) -> Expression:
        """Return an expression that a node of the graph writes, as outputs of graphs must be."""
        if x.is_written:
            return x
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

    def graph(
        self,
        proto: onnx.GraphProto | onnx.FunctionProto,
        scope: Scope,
        outputs: Sequence[str],
        opsets: Opsets,
    ) -> list[Tensor | None]:
        """Translate the nodes that `outputs` depend on; return the outputs.

        Nodes beyond `PARTS_MAX`, those of functions and of written-out turns included, are a fault.
        """
        for node in needed(without_ranges(proto.node), outputs):
            if next(self._numbers) >= PARTS_MAX:
                rule = f"be at most {PARTS_MAX}, with those of functions and of turns of loops"
                self.faults += [Fault("", "the number of nodes", rule, Unquoted("more"))]
                break
            self._put(node, scope, opsets)
        return [scope.get(name) for name in outputs]

    def _put(self, node: onnx.NodeProto, scope: Scope, opsets: Opsets) -> None:
        """Put the outputs of a node into the scope; None, and a fault, where it is refused."""
        try:
            results = self._results(node, scope, opsets)[: len(node.output)]
            if len(results) < len(node.output):
                rule = f"be at most {len(results)}"
                raise DmlError([Fault("", "the number of outputs", rule, len(node.output))])
        except Exception as error:
            self.faults += _refusal(error).within(label_of(node)).faults
            results = [None] * len(node.output)
        scope.update({n: t for n, t in zip(node.output, results, strict=True) if n})

    def attempt(self, proto: onnx.NodeProto, scope: Scope, opsets: Opsets) -> Sequence[Fault]:
        """Translate a node; return what is in the way, of which no fault stays here."""
        count = len(self.faults)
        self._put(proto, scope, opsets)
        found, self.faults = self.faults[count:], self.faults[:count]
        return found

    def _results(self, proto: onnx.NodeProto, scope: Scope, opsets: Opsets) -> Sequence[Any]:
        """Return the outputs of a node. Raises `DmlError` where it cannot be had."""
        for name in filter(None, proto.input):
            if name not in scope:
                rule = (
                    "be an input, an initializer or an output of a node that does not read this one"
                )
                raise DmlError([Fault("", f"the tensor '{name}'", rule, Unquoted("none of these"))])
            if scope[name] is None:
                if self.faults:  # what it lacks is a fault already
                    return [None] * len(proto.output)
                rule = "be given by its node"
                raise DmlError([Fault("", f"the tensor '{name}'", rule, Unquoted("nothing"))])
        inputs = [scope[name] if name else None for name in proto.input]
        function = self._function_of(proto)
        if function is not None:
            return self._call(function, proto, inputs)
        domain, has_list = domain_of(proto.domain), any(isinstance(x, TensorList) for x in inputs)
        record = record_of(domain, proto.op_type)
        if record.inlined and (has_list or not record.translators):
            return record.inlined[1](Site(self, proto, inputs, scope, opsets))
        if has_list:
            raise DmlError([Fault("", "the inputs", "be tensors", Unquoted("a sequence"))])
        if record.written_as and opsets.get("", 0) < record.written_as.version:
            proto, inputs = renewed(proto, inputs, record.written_as, self.constant)
            opsets = {**opsets, "": record.written_as.version}
        version, schema = schema_of(domain, proto.op_type, opsets)
        if schema is not None:
            check_attributes(proto, schema)
            check_lists(record, schema, inputs)
        inputs = [*inputs]
        stated = self._stated(proto, record, version, schema, inputs, opsets)
        types = output_types(proto, record, schema, inputs, opsets, self._ir)
        node = Node(proto, record, version, schema, inputs, types, self.builder, opsets)
        node.bounds = self.bounds
        body = None if node.translator else body_of(node)
        if body is not None:
            return self._call(body, proto, inputs)
        padding = stated or passed(node)
        results = self._outputs(node)
        for result in filter(None, results):
            result.made_by = node
            if padding and result.padding and not same_padding(result.padding, padding):
                raise refusal(node.op_type, node.tensor(0), padding)
            result.padding = padding or result.padding
        return results if self.bounds is None else [self._settled(t) for t in results]

    def _stated(
        self,
        proto: onnx.NodeProto,
        record: OpType,
        version: int,
        schema: Any,
        inputs: list[Tensor | None],
        opsets: Opsets,
    ) -> Padding | None:
        """Return the padding of the output where sizes come while the program runs, else None.

        Its largest sizes take the place of the inputs that decide them.
        """
        if self.bounds is None or record.sized is None:
            return None
        kinds: list[Type | None] = [None] * len(proto.output)
        node = Node(proto, record, version, schema, inputs, kinds, self.builder, opsets)
        node.bounds = self.bounds
        found = record.sized(node)
        if found is None:
            return None
        inputs[found.index] = self.constant(node.tensor(found.index).name, found.array)
        return Padding(found.axis, found.count, node.label)

    def _settled(self, tensor: Tensor | None) -> Tensor | None:
        """Return an output: known where its elements follow from sizes, cut to its bound."""
        if tensor is None or self.bounds is None:
            return tensor
        if tensor.padding is not None:
            cut(tensor, self.bounds)
            return tensor
        is_small = tensor.type.dtype.kind in "ib" and not tensor.is_known
        terms = terms_of(tensor) if is_small and not tensor.type.is_empty else None
        numbers = [term.known for term in terms or ()]
        if not numbers or None in numbers:
            return tensor
        array = np.array(numbers).reshape(tensor.shape).astype(tensor.type.dtype)
        return self.constant(tensor.name, array, tensor.type.element)

    def _function_of(self, proto: onnx.NodeProto) -> onnx.FunctionProto | None:
        """Return the function of the model that a node calls; None where it calls none."""
        key = key_of(proto.domain, proto.op_type, proto.overload)
        if key not in self._functions and proto.overload:
            known = [repr(k[2]) for k in self._functions if k[:2] == key[:2]]
            rule = f"be that of a function of the model ({', '.join(known) or 'it has none'})"
            raise DmlError([Fault("", "overload", rule, proto.overload)])
        return self._functions.get(key)

    def _outputs(self, node: Node) -> list[Tensor | None]:
        """Return the outputs of a node: known at load, or else as its translator gives them."""
        is_known = all(t is None or t.is_known for t in node.inputs)
        if not is_known or node.record.is_random or node.record.reads_sizes:
            return self._translated(node)
        fold = functools.cache(lambda: self._folded(node))
        translated = functools.cache(lambda: self._translated(node, fold))
        asked = [kind for name, kind in zip(node.outputs, node.types, strict=True) if name]
        known = [kind for kind in node.types if kind is not None and kind.shape is not None]
        is_weight = any(t is not None and t.is_weight for t in node.inputs)
        is_large = any(kind.size_in_bytes > _FOLDED_MAX for kind in known)
        if not all(kind in known for kind in asked) or not (is_weight or is_large):
            try:
                return self._constants(node, fold())
            except DmlError:
                return translated()

        def later(index: int, name: str, kind: Type | None) -> Tensor | None:
            if kind is None or not name:
                return None
            if kind.is_empty:
                return self._empty(name, kind)

            def value() -> Expression:
                tensor = translated()[index]
                assert tensor is not None
                return tensor.value

            return Tensor(name, kind, value, lambda: fold()[index], is_weight)

        pairs = enumerate(zip(node.outputs, node.types, strict=True))
        return [later(index, name, kind) for index, (name, kind) in pairs]

    def _constants(self, node: Node, arrays: Sequence[np.ndarray]) -> list[Tensor | None]:
        """Return the outputs of a node whose elements are known."""
        return [
            None if not name else self.constant(name, array, kind.element if kind else None)
            for name, array, kind in zip(node.outputs, arrays, node.types, strict=False)
        ]

    def _folded(self, node: Node) -> Sequence[np.ndarray]:
        """Return the outputs of a node of known inputs.

        ONNX's reference implementation computes them, and what a network runs where this has not
        the version of the op type.
        """
        if node.version >= node.record.misread_before:
            try:
                return folded(node)
            except DmlError:
                if node.translator is not None or node.fallback is None:
                    raise
        inner = self.inner()
        inner.fallback = False
        own = node.over([t and inner.argument(t) for t in node.inputs], inner.builder)
        if node.translator is None:
            return known_results(own)
        with beyond.allowed():
            made = inner._translated(own)
        if inner.faults:
            raise DmlError(inner.faults)
        asked = [tensor for tensor in made if tensor is not None]
        graph, kinds = inner.build([(t.name, t) for t in asked]), [t.type for t in asked]
        values = {name: fitting(name, t.array, t.type) for name, t in inner.around.items()}
        results = iter(jax.jit(lambda values: computed(graph, values, kinds))(values))
        return [
            np.zeros(0) if t is None else np.asarray(next(results)).astype(t.type.dtype)
            for t in made
        ]

    def _translated(
        self, node: Node, fold: Callable[[], Sequence[np.ndarray]] | None = None
    ) -> list[Tensor | None]:
        """Return what the translator gives, or tensors of these types where it refuses.

        `fold` computes the outputs at load, where all inputs are known.
        """
        rule = node.record.kept_from_operator
        reason = rule(node) if rule else ""
        try:
            return self._by_fallback(node, reason) if reason else self._by_translator(node)
        except Exception as error:
            faults = [*_refusal(error).faults]
        if self.fallback and node.fallback is not None:
            try:
                return self._by_fallback(node, str(faults[0]))
            except DmlError as error:
                known = {str(fault) for fault in faults}
                faults += [fault for fault in error.faults if str(fault) not in known]
        if fold is not None:
            try:
                return self._constants(node, fold())
            except DmlError as error:
                faults += error.faults
        found, kinds = self._cured(node), node.types
        if not found and not self.fallback and (others := curing_types(node)) is not None:
            self.curable.append(node.label)
            kinds = [kind or other for kind, other in zip(kinds, others, strict=True)]
        self.faults += DmlError(faults).within(node.label).faults
        return found or [
            None if kind is None or kind.shape is None else self._stand_in(name, kind)
            for name, kind in zip(node.outputs, kinds, strict=True)
        ]

    def _by_translator(self, node: Node) -> list[Tensor | None]:
        """Return what the translator gives; nodes beyond DirectML are listed in `beyond`."""
        for name, kind in zip(node.outputs, node.types, strict=True):
            if name and kind is not None and not (kind.is_empty or kind.name == "STRING"):
                _ = kind.inner
        has_nothing = any(node.types) and all(k is None or k.is_empty for k in node.types)
        if has_nothing and node.record.must_fit:  # but of an input without elements
            has_nothing = empty.has_empty_inputs(node)
        first = len(self.builder.nodes)
        if has_nothing:
            results: Sequence[Any] = [None] * len(node.types)
        elif node.translator is None:
            raise _no_operator(node)
        else:
            try:
                results = listed(node.translator(node))
            except Exception:
                if node.schema is not None or not empty.has_empty_inputs(node):
                    raise
                results = empty.translated(node)
            if results[0] is NotImplemented:
                body = body_of(node)
                if body is None:
                    raise _no_operator(node)
                return self._call(body, node.proto, node.inputs)
        pairs = zip(node.outputs, results, strict=False)
        made = [self._tensor(n, r, node, k) for k, (n, r) in enumerate(pairs)]
        if beyond.is_allowed():
            self._list_beyond(node, self.builder.nodes[first:])
        return [*made, *[None] * (len(node.outputs) - len(made))]

    def _list_beyond(self, node: Node, made: Sequence[Any]) -> None:
        """List the nodes beyond DirectML among those of an ONNX node.

        Raises `DmlError` where it has no schema, by which ONNX would have checked its types.
        """
        for own in made:
            if isinstance(own, OperatorNode) and own.operator.beyond_directml:
                if node.schema is None:
                    raise DmlError(own.operator.beyond_directml)
                reason = str(own.operator.beyond_directml[0])
                self.beyond.setdefault(id(own), (node.label, reason))

    def _cured(self, node: Node) -> list[Tensor | None]:
        """Return what the translator gives beyond DirectML; nothing where it refuses that too."""
        if node.translator is None:
            return []
        with beyond.allowed():
            try:
                results = self._by_translator(node)
            except Exception:
                return []
        self.curable.append(node.label)
        return results

    def _by_fallback(self, node: Node, reason: str) -> list[Tensor | None]:
        """Return the outputs of a node that its fallback computes."""
        kinds, axes = fallback_types(node)
        bounds = [k and checked(node, index, k) for index, k in enumerate(kinds)]
        paddings = [None if axis is None else (axis, node.label) for axis in axes[: len(kinds)]]

        def run(_: Sequence[Graph], arrays: Sequence[Any]) -> Sequence[Any]:
            return in_order(node, arrays)

        made = self.function(node.proto, reason, node.inputs, kinds, run, (), paddings)
        for tensor, pair in zip(made, bounds, strict=False):
            if tensor is not None:
                tensor.bounds = pair or tensor.bounds
                if tensor.padding is not None:
                    tensor.padding = self._padding(tensor.padding.axis, tensor.padding.count, node)
        return made

    def _stand_in(self, name: str, kind: Type) -> Tensor | None:
        """Return a tensor in place of one that cannot be had, so that its readers are checked."""
        try:
            return self.input(f"{name} (number {len(self.faults)})", kind)
        except DmlError:
            return None

    def _tensor(self, name: str, result: Any, node: Node, index: int) -> Tensor | None:
        """Return a result of a translator as a tensor with the shape that ONNX says."""
        kind = node.types[index]
        if not name:
            return None
        if kind is not None and kind.is_empty:
            return self._empty(name, kind)
        if isinstance(result, Padded):
            tensor = self._tensor(name, result.value, node, index)
            if tensor is not None:
                most = tensor.shape[result.axis]
                count = Tensor(f"{name}.count", COUNT, lambda: result.count, bounds=(0, most))
                tensor.padding = self._padding(result.axis, count, node)
            return tensor
        if isinstance(result, Tensor):
            return result.renamed(name)
        if isinstance(result, np.ndarray):
            return self.constant(name, result, kind.element if kind else None)
        if result is None and kind is not None and kind.name == "STRING":
            return None  # who reads it is refused
        if result is None:
            raise node.refusal(f"output {index}", "be left out", Unquoted(f"'{name}'"))
        if kind is None or kind.shape is None:
            element = kind.element if kind else helper.np_dtype_to_tensor_dtype(result.dtype)
            is_scalar = result.sizes == (1,) and not any(t.shape for t in node.inputs if t)
            kind = Type(element, () if is_scalar else result.sizes)
        if int(np.prod(result.sizes)) != int(np.prod(kind.shape or ())):
            sizes = list(result.sizes)
            raise node.refusal(f"output {index}", f"have shape {list(kind.shape or ())}", sizes)
        if kind.inner != result.desc.data_type:
            shown = result.desc.data_type.shown()
            raise node.refusal(f"output {index}", f"be {kind.inner.suffix}", shown)
        expression, bounds = reshaped(result, kind.shape or ()), checked(node, index, kind)
        return Tensor(name, kind, lambda: expression, bounds=bounds)

    def _padding(self, axis: int, count: Tensor, node: Node) -> Padding:
        """Return how an output of a node is padded; what counts the same tensor has one count."""
        if node.record.counted is not None:
            value = node.tensor(node.record.counted).value
            _, count = self._counts.setdefault(id(value), (value, count))
        return Padding(axis, count, node.label)

    def initializers(
        self,
        proto: onnx.GraphProto,
        scope: Scope,
        array_of: Callable[[onnx.TensorProto], np.ndarray] = numpy_helper.to_array,
        replaceable: Collection[str] = (),
    ) -> None:
        """Add the initializers of a graph to its scope, None for one that cannot be had.

        Args:
            proto: the graph.
            scope: gets the tensors.
            array_of: returns the elements of a tensor.
            replaceable: the names of those that a call may replace.

        Raises `DmlError` with the faults of all that cannot be had.
        """
        faults = list[Fault]()
        for tensor in {t.name: t for t in proto.initializer}.values():  # the last one counts
            name, element = tensor.name, tensor.data_type
            scope[name] = None
            with collecting(faults):
                scope[name] = self.weight(name, array_of(tensor), element, name in replaceable)
        for sparse in proto.sparse_initializer:
            name, element = sparse.values.name, sparse.values.data_type
            scope[name] = None
            with collecting(faults):
                scope[name] = self.weight(name, dense(sparse, array_of), element)
        raise_if(faults)

    def _call(
        self, function: onnx.FunctionProto, proto: onnx.NodeProto, inputs: Sequence[Tensor | None]
    ) -> list[Tensor | None]:
        """Translate the body of a function in place of the node that calls it."""
        given = {a.name: a for a in proto.attribute}
        given = {a.name: a for a in function.attribute_proto} | given
        body = onnx.FunctionProto()
        body.CopyFrom(function)
        given_inputs = zip(function.input, inputs, strict=False)
        inner: Scope = {name: tensor for name, tensor in given_inputs if tensor is not None}
        left_out = {*function.input} - inner.keys()
        for node in body.node:
            fill(node, given)
            without(node, left_out)
        opsets = {domain_of(o.domain): o.version for o in function.opset_import}
        names = list(function.output)[: len(proto.output)]
        if self._calls >= CALLS_MAX:
            raise too_deep(function.name)
        self._calls += 1
        try:
            return self.graph(body, inner, names, {**self._opsets, **opsets})
        finally:
            self._calls -= 1

    def _constant(self, name: str, array: np.ndarray, kind: Type) -> Expression:
        if kind.is_empty:
            rule = "have elements, as all tensors of DirectML"
            raise DmlError([Fault("", f"the tensor '{name}'", rule, list(array.shape))])
        inner = fitting(name, array, kind).astype(kind.inner.dtype)
        return self.builder.constant(inner.reshape(array.shape or (1,)), None)


@inlines("Constant")
def _literal(site: Site) -> list[Tensor]:
    """Return the elements of a Constant."""
    translation, attribute, name = site.translation, site.proto.attribute[0], site.proto.output[0]
    if attribute.name in ("value_string", "value_strings"):
        rule = "be a tensor or numbers (strings are not taken)"
        raise DmlError([Fault("", attribute.name, rule, Unquoted("strings"))])
    if attribute.name not in ("value", "sparse_value"):
        dtype = np.float32 if attribute.name.startswith("value_float") else np.int64
        return [translation.constant(name, np.asarray(attribute_value(attribute), dtype))]
    is_sparse = attribute.name == "sparse_value"
    value = dense(attribute.sparse_tensor) if is_sparse else attribute_value(attribute)
    element = (attribute.sparse_tensor.values if is_sparse else attribute.t).data_type
    is_part = translation.is_within_calls or value.ndim == 0
    return [(translation.constant if is_part else translation.weight)(name, value, element)]


def _no_operator(node: Node) -> DmlError:
    """Return the error that DirectML has no operator for an op type."""
    text = f"{node.op_type} has no operator of DirectML"
    return node.refusal("op type", Sentence(text), node.op_type, "")


def _refusal(error: Exception) -> DmlError:
    """Return the error of a node that cannot be had."""
    if isinstance(error, DmlError):
        return error
    text = str(error).partition("\n")[0] or type(error).__name__
    return DmlError([Fault("", "", Sentence(f"cannot be translated: {text}"), "", kind=OF_SIZES)])

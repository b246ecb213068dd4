"""Translates an ONNX graph, node by node, into expressions of DirectML operators.

What is known at load (sizes, axes, constants) is computed there, by ONNX's own reference
implementation.
"""

import contextlib
import itertools
from collections.abc import Callable, Mapping, Sequence
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
from dml_jax.errors import OF_SIZES, DmlError, Fault, Sentence, Unquoted
from dml_jax.graph import Expression, FunctionNode, Graph, GraphBuilder, OperatorNode
from dml_jax.onnx import empty
from dml_jax.onnx.arrays import Function, computed, edge_of, on_edges
from dml_jax.onnx.control import CONTROLS
from dml_jax.onnx.functions import (
    FunctionKey,
    Opsets,
    body_of,
    domain_of,
    fill,
    folded,
    is_misread,
    key_of,
    without,
)
from dml_jax.onnx.nodes import (
    Node,
    Translator,
    attribute_value,
    label_of,
    listed,
    of_version,
)
from dml_jax.onnx.older import renewed
from dml_jax.onnx.plain import curing_types, in_order, known_results, plain_types
from dml_jax.onnx.ragged import passed
from dml_jax.onnx.ranges import Bounds, checked
from dml_jax.onnx.reshapes import reshaped
from dml_jax.onnx.schemas import check_attributes, check_lists, output_types, schema_of
from dml_jax.onnx.sequences import unpacking_of
from dml_jax.onnx.tensors import (
    ELEMENTS_MAX,
    EmptyOptional,
    Padded,
    Padding,
    Scope,
    Tensor,
    TensorList,
    Type,
    dense,
    fitting,
)
from dml_jax.onnx.topology import needed

_FOLDED_MAX = 1 << 20  # bytes; more than that is computed by the network, not at load
_CALLS_MAX = 64  # functions and branches within each other


class Translation:
    """Translates a graph. All that is in the way becomes `faults`.

    Args:
        opsets: the version of each domain that the model imports.
        functions: the functions that the model defines, by domain, name and overload.
        ir: the version of the format.
        fallback: whether nodes go beyond DirectML: by types that its operators lack, and by plain
            functions of op types that it has no operator for.
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
        self._opsets, self._functions, self._ir, self._outer = opsets, functions, ir, outer
        self._calls = 0
        self._taken: set[str] = set()
        self._made: dict[str, Tensor] = {}  # weights
        self._read: dict[int, Tensor] = {}  # tensors of the graph around, by their identity

    def inner(self) -> "Translation":
        """Return a translation of a graph within a node of the graph."""
        inner = Translation(self._opsets, self._functions, self._ir, self.fallback, self)
        inner._calls, inner.asked, inner.beyond = self._calls, self.asked, self.beyond
        return inner

    def unique(self, name: str) -> str:
        """Return `name`, or one like it where an input or output of the graph has the name."""
        numbered = (f"{name} ({k})" for k in itertools.count(2))
        found = next(n for n in itertools.chain([name], numbered) if n not in self._taken)
        self._taken.add(found)
        return found

    def input(self, name: str, kind: Type, bounds: Bounds | None = None) -> Tensor:
        """Return an input of the graph.

        Raises `DmlError` where DirectML lacks its type, and no fallback is asked for.
        """
        _ = kind.array_dtype if self.fallback else kind.inner
        if kind.is_empty:
            return self.constant(name, np.zeros(kind.shape or (), kind.dtype), kind.element)
        source = self.unique(name)
        return Tensor(name, kind, lambda: self._input(source, kind), bounds=bounds)

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
        made = self._made.get(name)
        if made is not None and made.type == kind and np.array_equal(made.array, array):
            return made  # the same graph, translated again
        source, owned = self.unique(name), TensorFlags.OWNED_BY_DML

        def elements() -> np.ndarray:
            self.fixed |= {name} if is_replaceable else set()
            return array

        held = fitting(name, array, kind) if array.dtype.kind in "iu" else array
        self.weights[source] = held.astype(np.uint8) if array.dtype == bool else held
        tensor = Tensor(name, kind, lambda: self._input(source, kind, owned), elements, True)
        return self._made.setdefault(name, tensor)

    def captured(self, value: Any) -> Any:
        """Return a tensor, or a sequence of tensors, of the graph around this one."""
        if isinstance(value, EmptyOptional):
            return value
        if isinstance(value, TensorList):
            return TensorList([self._captured(tensor) for tensor in value.tensors])
        return self._captured(value)

    def _captured(self, tensor: Tensor) -> Tensor:
        made = self._captured_elements(tensor)
        if tensor.padding is not None:
            count = self._captured_elements(tensor.padding.count)
            made.padding = replace(tensor.padding, count=count)
        return made

    def _captured_elements(self, tensor: Tensor) -> Tensor:
        if not tensor.is_known or tensor.is_weight:
            return self.argument(tensor)
        if id(tensor) not in self._read:  # tensors of one size have one count here too
            known = self.constant(tensor.name, tensor.array, tensor.type.element)
            self._read[id(tensor)] = known
        return self._read[id(tensor)]

    def argument(self, tensor: Tensor) -> Tensor:
        """Return an input of the graph that stands for a tensor outside, which may be known."""
        kind = tensor.type
        if kind.is_empty:
            return self.constant(tensor.name, np.zeros(kind.shape or (), kind.dtype), kind.element)
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
        names: Sequence[str] | None = None,
    ) -> list[Tensor | None]:
        """Add a function to the graph; return its outputs, None where the node asks for none.

        Args:
            proto: the node that it computes.
            reason: why this is no operator of DirectML.
            inputs: what the function takes.
            kinds: the type of each output; None where the node does not ask for it.
            function: the function.
            graphs: the graphs that the function runs.
            names: the names of the outputs, by default those of the node's.
        """
        values = [None if tensor is None else self._value(tensor) for tensor in inputs]
        taken = [None if tensor is None else tensor.type for tensor in inputs]
        named = [*(names or proto.output)]
        names = [*named, *[""] * len(kinds)][: len(kinds)]
        for name, kind in zip(names, kinds, strict=True):
            if kind is not None and kind.element_count > ELEMENTS_MAX:
                rule = f"hold at most {ELEMENTS_MAX} elements, as DirectML's tensors"
                raise DmlError(
                    [Fault("", f"the output '{name}'", rule, kind.element_count, kind=OF_SIZES)]
                )
        given = [kind for kind in kinds if kind is not None]
        carried = [None if kind.is_empty else kind for kind in given]
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
        made, tensors = iter(results), list[Tensor | None]()
        for name, kind in zip(names, kinds, strict=True):
            expression = None if kind is None or kind.is_empty else next(made)
            tensors.append(None if kind is None else self._result(name, kind, expression))
        return [*tensors, *[None] * (len(named) - len(tensors))]

    def _result(self, name: str, kind: Type, expression: Expression | None) -> Tensor | None:
        """Return an output of a function as a tensor; None where it has no name."""
        if not name:
            return None
        if expression is None:
            return self.constant(name, np.zeros(kind.shape or (), kind.dtype), kind.element)
        return Tensor(name, kind, lambda: expression)

    def _value(self, tensor: Tensor) -> Expression:
        """Return what a function reads, or the graph gives, for a tensor; also of no elements."""
        if tensor.is_weight or not tensor.is_known or isinstance(edge_of(tensor.type), TensorDesc):
            return tensor.value
        array, edge = fitting(tensor.name, tensor.array, tensor.type), edge_of(tensor.type)
        array = np.asarray(array).astype(edge.dtype).reshape(edge.sizes)
        literal = FunctionNode(lambda _: [array], (), (edge,), f"constant '{tensor.name}'")
        return self.builder.function(literal, ())[0]

    def build(self, outputs: Sequence[tuple[str, Tensor]]) -> Graph:
        """Return the graph that gives `outputs`, (name, tensor) of each.

        Raises `DmlError` with all faults: outputs may be made of weights that are read here first.
        """
        values = [(name, self._written(self._value(tensor))) for name, tensor in outputs]
        if self.faults:
            raise DmlError(self.faults)
        return self.builder.build({self.unique(n): x for n, x in values}, only_read=True)

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
        """Translate the nodes that `outputs` depend on; return the outputs."""
        for node in needed(proto.node, outputs):
            try:
                self._node(node, scope, opsets)
            except (DmlError, *_BROKEN) as error:
                self.faults += _refusal(error).within(label_of(node)).faults
                for name in node.output:
                    scope.setdefault(name, None)
        return [scope.get(name) for name in outputs]

    def attempt(self, proto: onnx.NodeProto, scope: Scope, opsets: Opsets) -> Sequence[Fault]:
        """Translate a node; return what is in the way, of which no fault stays here."""
        count = len(self.faults)
        try:
            self._node(proto, scope, opsets)
        except (DmlError, *_BROKEN) as error:
            self.faults += _refusal(error).within(label_of(proto)).faults
        found, self.faults = self.faults[count:], self.faults[:count]
        return found

    def _node(self, proto: onnx.NodeProto, scope: Scope, opsets: Opsets) -> None:
        domain = domain_of(proto.domain)
        for name in filter(None, proto.input):
            if name not in scope:
                rule = (
                    "be an input, an initializer or an output of a node that does not read this one"
                )
                raise DmlError([Fault("", f"the tensor '{name}'", rule, Unquoted("none of these"))])
            if scope[name] is None and not self.faults:
                rule = "be given by its node"
                raise DmlError([Fault("", f"the tensor '{name}'", rule, Unquoted("nothing"))])
            if scope[name] is None:  # what it lacks is a fault already
                scope.update(dict.fromkeys(filter(None, proto.output)))
                return None
        inputs = [scope[name] if name else None for name in proto.input]
        function = self._functions.get(key_of(domain, proto.op_type, proto.overload))
        if function is None and proto.overload:
            known = [repr(k[2]) for k in self._functions if k[:2] == (domain, proto.op_type)]
            rule = f"be that of a function of the model ({', '.join(known) or 'it has none'})"
            raise DmlError([Fault("", "overload", rule, proto.overload)])
        if function is not None:
            return self._call(function, proto, inputs, scope)
        if proto.op_type in CONTROLS and not domain:
            results = CONTROLS[proto.op_type](self, proto, inputs, scope, opsets)
            scope.update({n: t for n, t in zip(proto.output, results, strict=True) if n})
            return None
        unpack = None if domain else unpacking_of(proto, inputs)
        if unpack is not None:
            results = unpack(self, proto, inputs, scope, opsets)
            scope.update({n: t for n, t in zip(proto.output, results, strict=True) if n})
            return None
        if proto.op_type == "Constant" and not domain:
            return self._literal(proto, scope)
        if not domain and "" in opsets:
            proto, inputs, own = renewed(proto, inputs, opsets[""], self.constant)
            opsets = {**opsets, "": own}
        version, schema = schema_of(domain, proto.op_type, opsets)
        if schema is not None:
            check_attributes(proto, schema)
            check_lists(proto, schema, inputs)
        types = output_types(proto, schema, inputs, opsets, self._ir)
        node = Node(proto, version, schema, inputs, types, self.builder)
        translator = of_version(node.record.translators, version)
        if translator is None and schema is not None:
            body = body_of(schema, proto, inputs, opsets)
            if body is not None:
                return self._call(body, proto, inputs, scope)
        padding = passed(node)
        results = self._outputs(proto, node, translator, opsets)
        for result in filter(None, results):
            result.made_by = node
            result.padding = padding or result.padding
        scope.update({n: result for n, result in zip(proto.output, results, strict=True) if n})
        return None

    def _outputs(
        self, proto: onnx.NodeProto, node: Node, translator: Translator | None, opsets: Opsets
    ) -> list[Tensor | None]:
        """Return the outputs of a node: known at load, or else as its translator gives them."""
        made: list[list[Tensor | None]] = []  # what the translator gave, once it was asked
        arrays: list[Sequence[np.ndarray]] = []
        is_known = all(t is None or t.is_known for t in node.inputs)
        is_known = is_known and not (node.record.is_random or node.record.reads_sizes)

        def fold() -> Sequence[np.ndarray]:
            if not arrays:
                arrays.append(self._folded(proto, node, translator, opsets))
            return arrays[0]

        def translated() -> list[Tensor | None]:
            if not made:
                known = fold if is_known else None
                made.append(self._translated(proto, node, translator, opsets, known))
            return made[0]

        if not is_known:
            return translated()
        is_weight = any(t is not None and t.is_weight for t in node.inputs)
        known_types = [t for t in node.types if t is not None and t.shape is not None]
        is_large = any(t.size_in_bytes > _FOLDED_MAX for t in known_types)
        asked = [t for name, t in zip(proto.output, node.types, strict=True) if name]
        has_shapes = all(t is not None and t.shape is not None for t in asked)
        if not has_shapes or not (is_weight or is_large):
            try:
                return self._constants(proto, node, fold())
            except DmlError:
                return translated()

        def later(index: int, name: str, kind: Type | None) -> Tensor | None:
            if kind is None or not name:
                return None
            if kind.is_empty:
                return self.constant(name, np.zeros(kind.shape or (), kind.dtype), kind.element)

            def value() -> Expression:
                tensor = translated()[index]
                assert tensor is not None
                return tensor.value

            return Tensor(name, kind, value, lambda: fold()[index], is_weight)

        pairs = enumerate(zip(proto.output, node.types, strict=True))
        return [later(index, name, kind) for index, (name, kind) in pairs]

    def _constants(
        self, proto: onnx.NodeProto, node: Node, arrays: Sequence[np.ndarray]
    ) -> list[Tensor | None]:
        """Return the outputs of a node whose elements are known."""
        return [
            None if not name else self.constant(name, array, kind.element if kind else None)
            for name, array, kind in zip(proto.output, arrays, node.types, strict=False)
        ]

    def _folded(
        self, proto: onnx.NodeProto, node: Node, translator: Translator | None, opsets: Opsets
    ) -> Sequence[np.ndarray]:
        """Return the outputs of a node of known inputs.

        ONNX's reference implementation computes them, and what a network runs where this has not
        the version of the op type.
        """
        if not is_misread(node, domain_of(proto.domain)):
            try:
                return folded(proto, node, opsets)
            except DmlError as error:
                if translator is not None:
                    raise
                refused = error
            function = of_version(node.record.fallbacks, node.version)
            if function is None:
                raise refused
        inner = self.inner()
        inner.fallback = False
        inputs = [t and inner.argument(t) for t in node.inputs]
        own = Node(proto, node.version, node.schema, inputs, node.types, inner.builder)
        if translator is None:
            return known_results(own)
        with beyond.allowed():
            made = inner._translated(proto, own, translator, opsets, None)
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
        self,
        proto: onnx.NodeProto,
        node: Node,
        translator: Translator | None,
        opsets: Opsets,
        fold: Callable[[], Sequence[np.ndarray]] | None,
    ) -> list[Tensor | None]:
        """Return what the translator gives, or tensors of these types where it refuses.

        `fold` computes the outputs at load, where all inputs are known.
        """
        faults: Sequence[Fault]
        try:
            if _is_narrowed_to_bfloat16(node):  # with the fallback or not: a cast is a rounding
                reason = "Cast to BFLOAT16 rounds, and DirectML lacks the type"
                return self._plain(proto, node, reason)
            return self._by_translator(proto, node, translator)
        except (DmlError, *_BROKEN) as error:
            faults = _refusal(error).faults
        kinds: Sequence[Type | None] = node.types
        if self.fallback:
            try:
                results = self._plain(proto, node, str(faults[0]))
                if results:
                    return results
            except DmlError as error:
                known = {str(fault) for fault in faults}
                faults = [*faults, *(f for f in error.faults if str(f) not in known)]
        if fold is not None:
            try:
                return self._constants(proto, node, fold())
            except DmlError as error:
                faults = [*faults, *error.faults]
        if translator is not None and (found := self._cured(proto, node, translator)):
            self.faults += DmlError(faults).within(label_of(proto)).faults
            return found
        if not self.fallback and (found := curing_types(node)) is not None:
            self.curable.append(label_of(proto))
            kinds = [kind or other for kind, other in zip(kinds, found, strict=True)]
        self.faults += DmlError(faults).within(label_of(proto)).faults
        return [
            None if kind is None or kind.shape is None else self._stand_in(name, kind)
            for name, kind in zip(proto.output, kinds, strict=True)
        ]

    def _by_translator(
        self, proto: onnx.NodeProto, node: Node, translator: Translator | None
    ) -> list[Tensor | None]:
        """Return what the translator gives; nodes beyond DirectML are listed in `beyond`."""
        for name, kind in zip(proto.output, node.types, strict=True):
            if name and kind is not None and not (kind.is_empty or kind.name == "STRING"):
                _ = kind.inner
        has_nothing = all(kind is None or kind.is_empty for kind in node.types)
        has_nothing = has_nothing and any(node.types)
        if has_nothing and node.record.must_fit:  # but of an input without elements
            has_nothing = any(t is not None and t.type.is_empty for t in node.inputs)
        first = len(self.builder.nodes)
        if has_nothing:
            results: Sequence[Any] = [None] * len(node.types)
        elif translator is None:
            raise _no_operator(node)
        else:
            try:
                results = listed(translator(node))
            except (DmlError, *_BROKEN):
                if node.schema is not None or not empty.has_empty_inputs(node):
                    raise
                results = empty.translated(proto, node, translator)
            if results[0] is NotImplemented:
                return self._inlined(proto, node)
        pairs = zip(proto.output, results, strict=False)
        made = [self._tensor(n, r, node, k) for k, (n, r) in enumerate(pairs)]
        if beyond.is_allowed():
            self._list_beyond(node, self.builder.nodes[first:])
        return [*made, *[None] * (len(proto.output) - len(made))]

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

    def _cured(
        self, proto: onnx.NodeProto, node: Node, translator: Translator
    ) -> list[Tensor | None]:
        """Return what the translator gives beyond DirectML; nothing where it refuses that too."""
        with beyond.allowed():
            try:
                results = self._by_translator(proto, node, translator)
            except (DmlError, *_BROKEN):
                return []
        self.curable.append(label_of(proto))
        return results

    def _plain(self, proto: onnx.NodeProto, node: Node, reason: str) -> list[Tensor | None]:
        """Return the outputs of a node that a plain function computes; none where there is none."""
        function = of_version(node.record.fallbacks, node.version)
        if function is None:
            return []
        kinds, axes = plain_types(node, function)
        bounds = [k and checked(node, index, k) for index, k in enumerate(kinds)]
        padded = [k for k, axis in enumerate(axes[: len(kinds)]) if axis is not None and kinds[k]]
        names = [*proto.output, *(f"{proto.output[k]}.count" for k in padded)]
        counts = [Type(onnx.TensorProto.INT64, ())] * len(padded)

        def run(_: Sequence[Graph], arrays: Sequence[Any]) -> Sequence[Any]:
            return in_order(node, function, arrays)

        made = self.function(proto, reason, node.inputs, [*kinds, *counts], run, names=names)
        for tensor, pair in zip(made, bounds, strict=False):
            if tensor is not None and pair:
                tensor.bounds = pair
        for k, count in zip(padded, made[len(kinds) :], strict=True):
            tensor, axis = made[k], axes[k]
            if tensor is not None and count is not None and axis is not None:
                tensor.padding = Padding(axis, count, label_of(proto))
        return made[: len(kinds)]

    def _inlined(self, proto: onnx.NodeProto, node: Node) -> list[Tensor | None]:
        """Return the outputs of the function that ONNX defines an op type by."""
        opsets = {**self._opsets, domain_of(proto.domain): node.version}
        body = body_of(node.schema, proto, node.inputs, opsets)
        if body is None:
            raise _no_operator(node)
        scope: Scope = {}
        self._call(body, proto, node.inputs, scope)
        return [scope.get(name) for name in proto.output]

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
            return self.constant(name, np.zeros(kind.shape or (), kind.dtype), kind.element)
        if isinstance(result, Padded):
            tensor = self._tensor(name, result.value, node, index)
            number = Type(onnx.TensorProto.INT64, ())
            if tensor is not None:
                count = Tensor(f"{name}.count", number, lambda: result.count, bounds=(0, 2**31 - 1))
                tensor.padding = Padding(result.axis, count, node.label)
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
            kind = Type(element, result.sizes)
        if int(np.prod(result.sizes)) != int(np.prod(kind.shape or ())):
            sizes = list(result.sizes)
            raise node.refusal(f"output {index}", f"have shape {list(kind.shape or ())}", sizes)
        if kind.inner != result.desc.data_type:
            shown = result.desc.data_type.shown()
            raise node.refusal(f"output {index}", f"be {kind.inner.suffix}", shown)
        expression, bounds = reshaped(result, kind.shape or ()), checked(node, index, kind)
        return Tensor(name, kind, lambda: expression, bounds=bounds)

    def _literal(self, proto: onnx.NodeProto, scope: Scope) -> None:
        """Give the elements of a Constant."""
        attribute, name = proto.attribute[0], proto.output[0]
        if attribute.name in ("value_string", "value_strings"):
            rule = "be a tensor or numbers (strings are not taken)"
            raise DmlError([Fault("", attribute.name, rule, Unquoted("strings"))])
        is_sparse = attribute.name == "sparse_value"
        value = dense(attribute.sparse_tensor) if is_sparse else attribute_value(attribute)
        if attribute.name == "value" or is_sparse:
            element = (attribute.sparse_tensor.values if is_sparse else attribute.t).data_type
            make = self.constant if self._calls or value.ndim == 0 else self.weight
            scope[name] = make(name, value, element)
        else:
            dtype = np.float32 if attribute.name.startswith("value_float") else np.int64
            scope[name] = self.constant(name, np.asarray(value, dtype))

    def initializers(self, proto: onnx.GraphProto, scope: Scope) -> None:
        """Add the initializers of a graph to its scope."""
        for tensor in proto.initializer:
            array = numpy_helper.to_array(tensor)
            scope[tensor.name] = self.weight(tensor.name, array, tensor.data_type)
        for sparse in proto.sparse_initializer:
            array, values = dense(sparse), sparse.values
            scope[values.name] = self.weight(values.name, array, values.data_type)

    def _call(
        self,
        function: onnx.FunctionProto,
        proto: onnx.NodeProto,
        inputs: Sequence[Tensor | None],
        scope: Scope,
    ) -> None:
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
        if self._calls >= _CALLS_MAX:
            rule = f"be called by at most {_CALLS_MAX} others"
            raise DmlError([Fault("", "the function", rule, function.name)])
        self._calls += 1
        try:
            results = self.graph(body, inner, names, {**self._opsets, **opsets})
        finally:
            self._calls -= 1
        scope.update({n: t for n, t in zip(proto.output, results, strict=True) if n})

    def _constant(self, name: str, array: np.ndarray, kind: Type) -> Expression:
        if kind.is_empty:
            rule = "have elements, as all tensors of DirectML"
            raise DmlError([Fault("", f"the tensor '{name}'", rule, list(array.shape))])
        inner = fitting(name, array, kind).astype(kind.inner.dtype)
        return self.builder.constant(inner.reshape(array.shape or (1,)), None)


# What a node raises that is none of those that ONNX allows.
_BROKEN = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    StopIteration,
    TypeError,
    ValueError,
)


def _is_narrowed_to_bfloat16(node: Node) -> bool:
    """Return whether a node casts a tensor of another type to BFLOAT16."""
    if node.op_type not in ("Cast", "CastLike") or node.made().name != "BFLOAT16":
        return False
    return node.type().name != "BFLOAT16"


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

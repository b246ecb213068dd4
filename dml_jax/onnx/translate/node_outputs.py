"""The outputs of one node: known at load, or as its translator or its fallback gives them.

What is known at load (sizes, axes, constants) is computed there, by ONNX's own reference
implementation.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from onnx import helper

from dml_jax.errors import OF_SIZES, OF_VALUES, DmlError, Fault, Sentence, Unquoted, raise_if
from dml_jax.graph import Expression, Graph, OperatorNode
from dml_jax.onnx.fallbacks import curing_types, fallback_types, in_order, known_results
from dml_jax.onnx.files.types import COUNT, Type, fitting
from dml_jax.onnx.nodes.graph_context import GraphContext, Results
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import as_list
from dml_jax.onnx.nodes.reshapes import reshape
from dml_jax.onnx.nodes.tensor import Count, Padded, Tensor
from dml_jax.onnx.nodes.values import computed
from dml_jax.onnx.sizes import padding_rules
from dml_jax.onnx.sizes.integer_ranges import output_bounds
from dml_jax.onnx.translate import zero_size_inputs
from dml_jax.onnx.translate.known_values import body_of, folded

# Elements that are computed at load stand in the program as a constant, beside the weights that
# they follow from: large ones would be in memory twice.
_FOLDED_MAX = 1 << 20  # bytes; more than that is computed by the network, not at load


class NodeOutputs:
    """Makes the outputs of a node of a graph that is translated."""

    def __init__(self, translation: GraphContext, node: Node):
        self.translation, self.node = translation, node

    def made(self) -> Results:
        """Return the outputs: known at load, or else as the translator gives them."""
        node = self.node
        is_known = all(t is None or t.is_known for t in node.inputs)
        is_none = any(kind is not None and kind.is_empty for kind in node.types)
        at_run = node.record.is_random or node.record.reads_sizes
        if not is_known or at_run or (is_none and node.record.must_fit):
            return self._translate()
        # Several readers may ask, and ONNX's reference implementation is slow.
        attempted = functools.cache(self._attempt)

        def fold() -> Sequence[np.ndarray]:
            found, error = attempted()
            if error is not None:
                raise error
            return found

        translated = functools.cache(lambda: self._translate(fold))
        builder = self.translation.builder
        origin = builder.origin
        asked = [kind for name, kind in zip(node.proto.output, node.types, strict=True) if name]
        known = [kind for kind in node.types if kind is not None and kind.shape is not None]
        # Elements of weights are read only where a size or an attribute follows from them: a weight
        # that nothing has read stays an argument, which a caller may replace.
        is_weight = any(t is not None and t.is_weight for t in node.inputs)
        is_large = any(kind.size_in_bytes > _FOLDED_MAX for kind in known)
        if not all(kind in known for kind in asked) or not (is_weight or is_large):
            try:
                return self._constants(fold())
            except DmlError:
                return translated()

        def later(index: int, name: str, kind: Type | None) -> Tensor | None:
            if kind is None or not name:
                return None
            if kind.is_empty:
                return self.translation.empty(name, kind)

            def value() -> Expression:
                with builder.made_of(origin):
                    tensor = translated()[index]
                assert tensor is not None
                return tensor.value

            return Tensor(name, kind, value, lambda: fold()[index], is_weight)

        pairs = enumerate(zip(node.proto.output, node.types, strict=True))
        return [later(index, name, kind) for index, (name, kind) in pairs]

    def _constants(self, arrays: Sequence[np.ndarray]) -> Results:
        """Return the outputs, of which the elements are known."""
        constant, names = self.translation.constant, self.node.proto.output
        return [
            constant(name, array, kind.element if kind else None) if name else None
            for name, array, kind in zip(names, arrays, self.node.types, strict=False)
        ]

    def _attempt(self) -> tuple[Sequence[np.ndarray], DmlError | None]:
        """Return the elements of the outputs, or why they cannot be had."""
        try:
            with jax.enable_x64(True):
                return self._fold(), None
        except DmlError as error:
            return (), error

    def _fold(self) -> Sequence[np.ndarray]:
        """Return the elements of the outputs of a node of known inputs.

        ONNX's reference implementation computes them, and what a network runs where this has not
        the version of the op type. It takes nodes that break ONNX's rules, so that the translator
        comes first, but for arithmetic of sizes and elements, which NumPy checks as ONNX does, and
        for tensors without elements.
        """
        node, rules = self.node, self.node.record.sizes
        is_plain = rules.padding is padding_rules.by_element and not node.attributes
        has_none = zero_size_inputs.has_empty_inputs(node)
        is_checked = is_plain or rules.elements or rules.output or has_none
        is_read = node.version >= node.record.versions.misread_before and not _is_of_host(node)
        if is_read and is_checked:
            try:
                return folded(node)
            except DmlError:
                if not has_none:
                    raise
        inner = self.translation.inner(fallback=True)
        own = node.over([t and inner.argument(t) for t in node.inputs], inner.builder)
        made = NodeOutputs(inner, own)._translate() if node.translator else []
        raise_if(inner.faults)
        if is_read and not is_checked:
            try:
                return folded(node)
            except DmlError:
                if made or node.fallback is None:
                    raise
        if not made:
            return known_results(own)
        asked = [tensor for tensor in made if tensor is not None]
        graph, kinds = inner.build([(t.name, t) for t in asked])[0], [t.type for t in asked]
        values = {name: fitting(name, t.array, t.type) for name, t in inner.around.items()}
        results = iter(jax.jit(lambda values: computed(graph, values, kinds))(values))
        return [
            np.zeros(0) if t is None else np.asarray(next(results)).astype(t.type.dtype)
            for t in made
        ]

    def _translate(self, fold: Callable[[], Sequence[np.ndarray]] | None = None) -> Results:
        """Return what the translator gives, or tensors of these types where it refuses.

        `fold` computes the outputs at load, where all inputs are known.
        """
        node, translation = self.node, self.translation
        rule = node.record.kept_from_operator
        reason = rule(node) if rule else ""
        try:
            return self._by_fallback(reason) if reason else self._by_translator()
        except DmlError as error:
            faults = [*error.faults]
        if translation.fallback and node.fallback is not None:
            try:
                return self._by_fallback(str(faults[0]))
            except DmlError as error:
                faults = faults if node.translator is not None else [*error.faults]
        if fold is not None:
            try:
                return self._constants(fold())
            except DmlError as error:
                faults = faults if node.translator is not None else [*error.faults]
        # The fault is known. The translation goes on with tensors of the right types, so that one
        # run says everything that is in the way of a file.
        found, kinds = self._translate_beyond(), node.types
        if not found and not translation.fallback and (others := curing_types(node)) is not None:
            translation.curable.append(node.label)
            kinds = [kind or other for kind, other in zip(kinds, others, strict=True)]
        if needed := {fault.field for fault in faults if fault.kind == OF_VALUES}:
            own = enumerate(node.inputs)
            translation.blame([t for k, t in own if node.input_name(k) in needed])
        each = {str(fault): fault for fault in faults}.values()
        translation.faults += DmlError(each).within(node.label).faults
        return found or [
            None if kind is None or kind.shape is None else translation.stand_in(name, kind)
            for name, kind in zip(node.proto.output, kinds, strict=True)
        ]

    def _by_translator(self) -> Results:
        """Return what the translator gives; nodes beyond DirectML are listed in `beyond`."""
        node, translation = self.node, self.translation
        for name, kind in zip(node.proto.output, node.types, strict=True):
            if name and kind is not None and not (kind.is_empty or kind.name == "STRING"):
                _ = kind.edge_type(translation.builder.beyond)
        has_nothing = any(node.types) and all(k is None or k.is_empty for k in node.types)
        if has_nothing and node.record.must_fit:  # but of an input without elements
            has_nothing = zero_size_inputs.has_empty_inputs(node)
        first = len(translation.builder.nodes)
        if has_nothing:
            results: Sequence[Any] = [None] * len(node.types)
        elif node.translator is None:
            raise _no_operator(node)
        else:
            try:
                results = as_list(node.translator(node))
            except DmlError:
                if node.schema is not None or not zero_size_inputs.has_empty_inputs(node):
                    raise
                results = zero_size_inputs.translated(node)
            if results[0] is NotImplemented:
                body = body_of(node)
                if body is None:
                    raise _no_operator(node)
                return translation.call(body, node.proto, node.inputs)
        pairs = zip(node.proto.output, results, strict=False)
        made = [self._tensor(n, r, k) for k, (n, r) in enumerate(pairs)]
        if translation.builder.beyond:
            self._list_beyond(translation.builder.nodes[first:])
        return [*made, *[None] * (len(node.proto.output) - len(made))]

    def _list_beyond(self, made: Sequence[Any]) -> None:
        """List the nodes beyond DirectML among those that were made.

        Raises `DmlError` where the node has no schema, by which ONNX would have checked its types.
        """
        for own in made:
            if isinstance(own, OperatorNode) and (faults := own.operator.beyond_directml):
                if self.node.schema is None:
                    raise DmlError(faults)
                self.translation.beyond.setdefault(id(own), (self.node.label, str(faults[0])))

    def _translate_beyond(self) -> Results:
        """Return what the translator gives beyond DirectML; nothing where it refuses that too."""
        if self.node.translator is None:
            return []
        builder = self.translation.builder
        before, builder.beyond = builder.beyond, True
        try:
            results = self._by_translator()
        except DmlError:
            return []
        finally:
            builder.beyond = before
        self.translation.curable.append(self.node.label)
        return results

    def _by_fallback(self, reason: str) -> Results:
        """Return the outputs of a node that its fallback computes."""
        node = self.node
        kinds, axes = fallback_types(node)
        bounds = [k and output_bounds(node, index, k) for index, k in enumerate(kinds)]
        paddings = [None if axis is None else (axis, node.label) for axis in axes[: len(kinds)]]

        def run(_: Sequence[Graph], arrays: Sequence[Any]) -> Sequence[Any]:
            return in_order(node, arrays)

        # A number of 64 bits that the fallback reads at load must not become an array of 32 bits.
        read = {k for k in node.record.read_at_load if node.known(k) is not None}
        inputs = [None if k in read else tensor for k, tensor in enumerate(node.inputs)]
        made = self.translation.function(node.proto, reason, inputs, kinds, run, (), paddings)
        for tensor, pair in zip(made, bounds, strict=False):
            if tensor is not None:
                tensor.bounds = pair or tensor.bounds
                if (count := tensor.count) is not None:
                    tensor.count = self._count(count.axis, count.number)
        return made

    def _tensor(self, name: str, result: Any, index: int) -> Tensor | None:
        """Return a result of the translator as a tensor with the shape that ONNX says."""
        node, where = self.node, f"output {index}"
        kind = node.types[index]
        if not name:
            return None
        if kind is not None and kind.is_empty:
            return self.translation.empty(name, kind)
        if isinstance(result, Padded):
            tensor = self._tensor(name, result.value, index)
            if tensor is not None:
                most = tensor.shape[result.axis]
                number = Tensor(f"{name}.count", COUNT, lambda: result.count, bounds=(0, most))
                tensor.count = self._count(result.axis, number)
            return tensor
        if isinstance(result, Tensor):
            return result.renamed(name)
        if isinstance(result, np.ndarray):
            return self.translation.constant(name, result, kind.element if kind else None)
        if result is None and kind is not None and kind.name == "STRING":
            return None  # who reads it is refused
        if result is None:
            raise node.refusal(where, "be left out", Unquoted(f"'{name}'"))
        if kind is None or kind.shape is None:
            element = kind.element if kind else helper.np_dtype_to_tensor_dtype(result.dtype)
            is_scalar = result.sizes == (1,) and not any(t.shape for t in node.inputs if t)
            kind = Type(element, () if is_scalar else result.sizes)
        shape = kind.shape or ()
        if int(np.prod(result.sizes)) != kind.element_count:
            raise node.refusal(where, f"have shape {list(shape)}", list(result.sizes))
        if kind.inner != result.desc.data_type:
            raise node.refusal(where, f"be {kind.inner.suffix}", result.desc.data_type.shown())
        expression, bounds = reshape(result, shape), output_bounds(node, index, kind)
        return Tensor(name, kind, lambda: expression, bounds=bounds)

    def _count(self, axis: int, number: Tensor) -> Count:
        """Return the count of an output; what counts the same tensor has one count."""
        if (counted := self.node.record.sizes.counted) is not None:
            value = self.node.tensor(counted).value
            _, number = self.translation.counts.setdefault(id(value), (value, number))
        return Count(axis, number, self.node.label)


def _is_of_host(node: Node) -> bool:
    """Return whether a node is of strings, pictures or ai.onnx.ml."""
    kinds = [*(t.type for t in node.inputs if t is not None), *filter(None, node.types)]
    is_other = any(kind.name == "STRING" for kind in kinds) or bool(node.proto.domain)
    return is_other or node.op_type == "ImageDecoder"


def _no_operator(node: Node) -> DmlError:
    """Return the error that DirectML has no operator for an op type."""
    text = f"{node.op_type} has no operator of DirectML"
    return node.refusal("op type", Sentence(text), node.op_type, "")


def too_large(error: MemoryError) -> DmlError:
    """Return the error of a node whose arrays do not fit the memory of the host."""
    rule = Sentence(f"cannot be translated: {error or 'it needs more memory than there is'}")
    return DmlError([Fault("", "", rule, "", kind=OF_SIZES)])

"""Translates an ONNX graph, node by node, into expressions of DirectML operators.

What is known at load (sizes, axes, constants) is computed there, by ONNX's own reference
implementation.
"""

from collections import ChainMap
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper

from dml_jax.enums import TensorDataType, TensorFlags
from dml_jax.errors import DmlError, Fault, Sentence, Unquoted, nearest
from dml_jax.graph import Expression, GraphBuilder
from dml_jax.onnx.functions import Opsets, body_of, domain_of, fill, folded
from dml_jax.onnx.integers import checked
from dml_jax.onnx.nodes import TRANSLATORS, Node, Translator, attribute_value, translator_of
from dml_jax.onnx.tensors import Shape, Tensor, Type
from dml_jax.onnx.views import reshaped
from dml_jax.tensor import TensorDesc

Scope = MutableMapping[str, Tensor | None]

_FOLDED_MAX = 1 << 20  # bytes; more than that is computed by the network, not at load
_READ_BY_INFERENCE_MAX = 64  # elements of a parameter that sizes may depend on
_CALLS_MAX = 64  # functions and branches within each other


class Translation:
    """Translates a graph. All that is in the way becomes `faults`.

    Args:
        opsets: the version of each domain that the model imports.
        functions: the functions that the model defines, by domain and name.

    Attributes:
        builder: makes the graph of DirectML operators.
        faults: what cannot be had, each within its node.
        weights: the arrays that the program takes as arguments, by name.
        names: the names of the builder's inputs, in their order.
    """

    def __init__(
        self, opsets: Opsets, functions: Mapping[tuple[str, str], onnx.FunctionProto], ir: int
    ):
        self.builder, self.faults = GraphBuilder(), list[Fault]()
        self.weights: dict[str, np.ndarray] = {}
        self.names: list[str] = []
        self._opsets, self._functions, self._ir = opsets, functions, ir
        self._calls = 0

    def input(self, name: str, kind: Type) -> Tensor:
        """Return an input of the graph. Raises `DmlError` where DirectML lacks its type."""
        data_type = kind.inner
        if kind.is_empty:
            return self.constant(name, np.zeros(kind.shape or (), kind.dtype))
        return Tensor(name, kind, lambda: self._expression(name, data_type, kind.shape or (1,)))

    def weight(self, name: str, array: np.ndarray, element: int) -> Tensor:
        """Return an initializer: floating and quantized ones are arguments of the program."""
        kind = Type(element, array.shape)
        if kind.is_empty or not (kind.is_floating or kind.is_quantized):
            return self.constant(name, array, element)

        def expression() -> Expression:
            data_type = kind.inner
            self.weights[name] = array
            owned = TensorFlags.OWNED_BY_DML
            return self._expression(name, data_type, array.shape or (1,), owned)

        return Tensor(name, kind, expression, lambda: array, is_weight=True)

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
        for node in _needed(proto.node, outputs):
            try:
                self._node(node, scope, opsets)
            except DmlError as error:
                self.faults += error.within(_label(node)).faults
                for name in node.output:
                    scope.setdefault(name, None)
        return [scope.get(name) for name in outputs]

    def _node(self, proto: onnx.NodeProto, scope: Scope, opsets: Opsets) -> None:
        domain = domain_of(proto.domain)
        for name in filter(None, proto.input):
            if name not in scope:
                rule = "be an input, an initializer or an output of a node before it"
                raise DmlError([Fault("", f"the tensor '{name}'", rule, Unquoted("none of these"))])
            if scope[name] is None:  # what it lacks is a fault already
                scope.update(dict.fromkeys(filter(None, proto.output)))
                return None
        inputs = [scope[name] if name else None for name in proto.input]
        function = self._functions.get((domain, proto.op_type))
        if function is not None:
            return self._call(function, proto, inputs, scope)
        if proto.op_type == "If" and not domain:
            return self._branch(proto, inputs, scope, opsets)
        if proto.op_type == "Constant" and not domain:
            return self._literal(proto, scope)
        version, schema = self._schema(domain, proto.op_type, opsets)
        if schema is not None:
            _check_attributes(proto, schema)
        types = self._types(proto, schema, inputs, opsets)
        node = Node(proto, version, schema, inputs, types, self.builder)
        translator = translator_of(domain, proto.op_type, version)
        if translator is None and schema is not None:
            body = body_of(schema, proto, inputs, opsets)
            if body is not None:
                return self._call(body, proto, inputs, scope)
        results = self._outputs(proto, node, translator, opsets)
        for tensor in filter(None, results):
            tensor.made_by = node
        scope.update({n: result for n, result in zip(proto.output, results, strict=True) if n})
        return None

    def _outputs(
        self, proto: onnx.NodeProto, node: Node, translator: Translator | None, opsets: Opsets
    ) -> list[Tensor | None]:
        """Return the outputs of a node: known at load, or else as its translator gives them."""
        made: list[list[Tensor | None]] = []  # what the translator gave, once it was asked

        def translated() -> list[Tensor | None]:
            if not made:
                made.append(self._translated(proto, node, translator))
            return made[0]

        is_known = all(t is None or t.is_known for t in node.inputs)
        if not is_known or proto.op_type in _RANDOM:
            return translated()
        arrays: list[Sequence[np.ndarray]] = []

        def fold() -> Sequence[np.ndarray]:
            if not arrays:
                arrays.append(folded(proto, node, opsets))
            return arrays[0]

        is_weight = any(t is not None and t.is_weight for t in node.inputs)
        known_types = [t for t in node.types if t is not None and t.shape is not None]
        is_large = any(t.size_in_bytes > _FOLDED_MAX for t in known_types)
        if not is_weight and not is_large:
            try:
                known = fold()
            except DmlError:
                if translator is None:
                    raise
                return translated()
            return [
                None if not name else self.constant(name, array, kind.element if kind else None)
                for name, array, kind in zip(proto.output, known, node.types, strict=False)
            ]
        if not all(t is None or t.shape is not None for t in node.types):
            return translated()

        def later(index: int, name: str, kind: Type | None) -> Tensor | None:
            if kind is None or not name:
                return None

            def expression() -> Expression:
                tensor = translated()[index]
                assert tensor is not None
                return tensor.expression

            return Tensor(name, kind, expression, lambda: fold()[index], is_weight)

        pairs = enumerate(zip(proto.output, node.types, strict=True))
        return [later(index, name, kind) for index, (name, kind) in pairs]

    def _translated(
        self, proto: onnx.NodeProto, node: Node, translator: Translator | None
    ) -> list[Tensor | None]:
        """Return what the translator gives, or tensors of these types where it refuses."""
        try:
            for name, kind in zip(proto.output, node.types, strict=True):
                if name and kind is not None and not kind.is_empty:
                    _ = kind.inner
            if all(kind is None or kind.is_empty for kind in node.types) and any(node.types):
                results: Sequence[Any] = [None] * len(node.types)
            elif translator is None:
                raise node.refusal("op type", "have an operator of DirectML", node.op_type)
            else:
                results = _listed(translator(node))
                if results[0] is NotImplemented:
                    return self._inlined(proto, node)
            pairs = zip(proto.output, results, strict=False)
            made = [self._tensor(n, r, node, k) for k, (n, r) in enumerate(pairs)]
            return [*made, *[None] * (len(proto.output) - len(made))]
        except DmlError as error:
            self.faults += error.within(_label(proto)).faults
        except _BROKEN as error:  # the node is none that ONNX allows
            rule = Sentence(f"cannot be translated: {error}")
            self.faults += DmlError([Fault("", "", rule, "")]).within(_label(proto)).faults
        return [
            None if kind is None or kind.shape is None else self._stand_in(name, kind)
            for name, kind in zip(proto.output, node.types, strict=True)
        ]

    def _inlined(self, proto: onnx.NodeProto, node: Node) -> list[Tensor | None]:
        """Return the outputs of the function that ONNX defines an op type by."""
        opsets = {**self._opsets, domain_of(proto.domain): node.version}
        body = body_of(node.schema, proto, node.inputs, opsets)
        if body is None:
            raise node.refusal("op type", "have an operator of DirectML", node.op_type)
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
        if isinstance(result, Tensor):
            return result.renamed(name)
        if isinstance(result, np.ndarray):
            return self.constant(name, result, kind.element if kind else None)
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
        if attribute.name in ("value_string", "value_strings", "sparse_value"):
            rule = "be a tensor or numbers (sparse tensors and strings are not taken)"
            raise DmlError([Fault("", attribute.name, rule, Unquoted("others"))])
        value = attribute_value(attribute)
        if attribute.name == "value":
            element = attribute.t.data_type
            make = self.constant if self._calls or value.ndim == 0 else self.weight
            scope[name] = make(name, value, element)
        else:
            dtype = np.float32 if attribute.name.startswith("value_float") else np.int64
            scope[name] = self.constant(name, np.asarray(value, dtype))

    def _branch(
        self,
        proto: onnx.NodeProto,
        inputs: Sequence[Tensor | None],
        scope: Scope,
        opsets: Opsets,
    ) -> None:
        """Translate the branch of an If whose condition is known."""
        condition = inputs[0]
        if condition is None or not condition.is_known:
            rule = "be known at load (the branch is chosen there)"
            raise DmlError([Fault("", "cond", rule, Unquoted("a computed tensor"))])
        name = "then_branch" if bool(condition.array.reshape(-1)[0]) else "else_branch"
        body = next(a.g for a in proto.attribute if a.name == name)
        inner = self._within(scope)
        self.initializers(body, inner)
        results = self.graph(body, inner, [o.name for o in body.output], opsets)
        scope.update(zip(proto.output, results, strict=True))

    def _within(self, scope: Scope) -> Scope:
        return ChainMap({}, scope)

    def initializers(self, proto: onnx.GraphProto, scope: Scope, folder: str = "") -> None:
        """Add the initializers of a graph to its scope."""
        for tensor in proto.initializer:
            array = numpy_helper.to_array(tensor, folder)
            scope[tensor.name] = self.weight(tensor.name, array, tensor.data_type)

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
        for node in body.node:
            fill(node, given)
        inner: Scope = dict.fromkeys(function.input)
        inner.update(zip(function.input, inputs, strict=False))
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

    def _schema(
        self, domain: str, op_type: str, opsets: Opsets
    ) -> tuple[int, defs.OpSchema | None]:
        """Return the version of an op type that a model means, and its schema."""
        if domain not in opsets:
            rule = "be imported (opset_import)"
            raise DmlError([Fault("", "domain", rule, domain or "ai.onnx")])
        version = opsets[domain]
        try:
            schema = defs.get_schema(op_type, version, domain)
        except (defs.SchemaError, TypeError):  # a name that is no text is none
            if (domain, op_type) in TRANSLATORS:
                return version, None
            name = f"{domain}.{op_type}" if domain else op_type
            shown = Unquoted(f"'{name}' (opset {version})")
            rule = f"be known{_nearest_op_type(domain, str(op_type))}"
            raise DmlError([Fault("", "op type", rule, shown)]) from None
        return schema.since_version, schema

    def _types(
        self,
        proto: onnx.NodeProto,
        schema: defs.OpSchema | None,
        inputs: Sequence[Tensor | None],
        opsets: Opsets,
    ) -> list[Type | None]:
        """Return the types of a node's outputs, as ONNX infers them."""
        if schema is None:
            return [None] * len(proto.output)
        kinds, data = {}, {}
        for name, tensor in zip(proto.input, inputs, strict=True):
            if tensor is None:
                continue
            kinds[name] = helper.make_tensor_type_proto(tensor.type.element, tensor.shape)
            if tensor.is_known and np.prod(tensor.shape) <= _READ_BY_INFERENCE_MAX:
                try:
                    data[name] = numpy_helper.from_array(tensor.array, name)
                except DmlError:
                    continue  # it cannot be folded; sizes that depend on it stay unknown
        imports = [helper.make_opsetid(d, v) for d, v in opsets.items()]
        try:
            found = onnx.shape_inference.infer_node_outputs(
                schema, proto, kinds, data, opset_imports=imports, ir_version=self._ir
            )
        except (*_REFUSALS, ValueError, RuntimeError) as error:
            if all(tensor is None or tensor.is_known for tensor in inputs):
                return [None] * len(proto.output)  # the reference implementation has the last word
            text = str(error).strip().splitlines()
            raise DmlError(
                [Fault("", "", Sentence(f"ONNX refuses it: {text[0] if text else error}"), "")]
            ) from None
        types = [Type.of(found.get(name)) for name in proto.output]
        for name, kind in zip(proto.output, types, strict=True):
            if name in found and kind is None:
                what = found[name].WhichOneof("value") or "no type"
                rule = "be a tensor"
                raise DmlError([Fault("", f"the output '{name}'", rule, Unquoted(what))])
        return types

    def _expression(
        self, name: str, data_type: TensorDataType, sizes: Shape, flags: TensorFlags | str = "NONE"
    ) -> Expression:
        self.names.append(name)
        return self.builder.input_tensor(name, TensorDesc(data_type, sizes, flags=flags))

    def _constant(self, name: str, array: np.ndarray, kind: Type) -> Expression:
        dtype = kind.inner.dtype
        inner = array.astype(dtype)
        if array.dtype.kind in "iu" and not np.array_equal(inner, array):
            rule = f"fit {kind.inner.suffix} while 64-bit types are off in JAX"
            rule += ' (turn them on: jax.config.update("jax_enable_x64", True))'
            raise DmlError([Fault("", f"the constant '{name}'", rule, array)])
        return self.builder.constant(inner.reshape(array.shape or (1,)), None)


_REFUSALS = (onnx.shape_inference.InferenceError, onnx.checker.ValidationError)
_BROKEN = (ArithmeticError, AssertionError, LookupError, TypeError, ValueError)
_RANDOM = {
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
}


def _listed(results: Any) -> Sequence[Any]:
    return results if isinstance(results, (tuple, list)) else [results]


def _label(proto: onnx.NodeProto) -> str:
    """Return how messages name a node."""
    name = proto.name or next(filter(None, proto.output), "")
    return f"Node '{name}' ({proto.op_type})"


def _check_attributes(proto: onnx.NodeProto, schema: defs.OpSchema) -> None:
    """Raise `DmlError` where a node has an attribute that is unknown, or lacks a required one."""
    given, faults = {str(a.name): a for a in proto.attribute}, []
    schemas: dict[str, Any] = dict(schema.attributes)
    for name, attribute in given.items():
        if name not in schema.attributes:
            hint = nearest(name, schema.attributes)
            rule = f"be an attribute of {proto.op_type} {schema.since_version}{hint}"
            faults.append(Fault("", name, rule, attribute_value(attribute)))
        elif attribute.type != schemas[name].type.value:
            rule = f"have type {schemas[name].type.name}"
            faults.append(Fault("", name, rule, attribute_value(attribute)))
    for name, known in schema.attributes.items():
        if known.required and name not in given:
            faults.append(Fault("", name, "be given", Unquoted("nothing")))
    if faults:
        raise DmlError(faults)


def _nearest_op_type(domain: str, op_type: str) -> str:
    return nearest(op_type, [name for known, name in TRANSLATORS if known == domain])


def _read_by(node: onnx.NodeProto) -> Iterable[str]:
    """Yield the tensors that a node reads, those of the graphs within it included."""
    yield from node.input
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from _read_by(inner)
            yield from (output.name for output in graph.output)


def _needed(nodes: Sequence[onnx.NodeProto], outputs: Iterable[str]) -> list[onnx.NodeProto]:
    """Return the nodes that `outputs` depend on, in their order."""
    wanted, needed = set(outputs), []
    for node in reversed(nodes):
        if any(name in wanted for name in node.output if name):
            needed.append(node)
            wanted.update(_read_by(node))
    return needed[::-1]

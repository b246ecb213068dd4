"""Translates an ONNX graph, node by node, into expressions of DirectML operators.

A translator is a function of a `Node`, registered with `translates`. It returns what the node
gives: expressions, or arrays where the elements are known at load.
"""

import warnings
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from dml_jax.enums import TensorDataType, TensorFlags
from dml_jax.errors import DmlError, Fault, Sentence, Unquoted, nearest
from dml_jax.graph import Expression, GraphBuilder
from dml_jax.onnx.tensors import Shape, Tensor, Type
from dml_jax.onnx.views import reshaped
from dml_jax.tensor import TensorDesc

Translator = Callable[["Node"], Any]
Scope = MutableMapping[str, Tensor | None]
Opsets = Mapping[str, int]

TRANSLATORS: dict[tuple[str, str], dict[int, Translator]] = {}
"""The translators of each domain and op type, by the first version that each one knows."""

_FOLDED_MAX = 1 << 20  # bytes; more than that is computed by the network, not at load
_KNOWN_MAX = 1 << 28
_READ_BY_INFERENCE_MAX = 64  # elements of a parameter that sizes may depend on
_CALLS_MAX = 64  # functions and branches within each other


def translates(
    *op_types: str, since: int = 1, domain: str = ""
) -> Callable[[Translator], Translator]:
    """Register the translator of `op_types`, from version `since` of these on."""

    def register(translator: Translator) -> Translator:
        for op_type in op_types:
            TRANSLATORS.setdefault((domain, op_type), {})[since] = translator
        return translator

    return register


def translator_of(domain: str, op_type: str, version: int) -> Translator | None:
    """Return the translator of a version of an op type; None where there is none."""
    known = TRANSLATORS.get((domain, op_type), {})
    first = max((since for since in known if since <= version), default=None)
    return None if first is None else known[first]


class Node:
    """A node of the network as its translator reads it.

    `node[i]` is the expression of input `i`; `node.constant(i)` its elements, where the operator
    takes them as an attribute; `node.attribute(name)` an attribute, by default that of the schema
    of the node's own version.

    Args:
        proto: the node.
        version: the version of its op type.
        schema: the schema of that version; None for an op type that ONNX does not define.
        inputs: the inputs; None for one that is left out.
        types: the type of each output, as far as it is known; None for one that is not asked for.
        builder: makes the graph.
    """

    def __init__(
        self,
        proto: onnx.NodeProto,
        version: int,
        schema: defs.OpSchema | None,
        inputs: Sequence[Tensor | None],
        types: Sequence[Type | None],
        builder: GraphBuilder,
    ):
        self.op_type, self.version, self.schema = proto.op_type, version, schema
        self.inputs, self.types, self.builder = inputs, types, builder
        self.attributes = {a.name: _attribute_value(a) for a in proto.attribute}

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> Expression:
        return self.tensor(index).expression

    def tensor(self, index: int) -> Tensor:
        """Return input `index`. Raises `DmlError` where the node leaves it out."""
        tensor = self.inputs[index] if index < len(self.inputs) else None
        if tensor is None:
            raise self.refusal(self.input_name(index), "be given", Unquoted("nothing"))
        return tensor

    def input_name(self, index: int) -> str:
        """Return the schema's name of input `index`."""
        named = self.schema.inputs if self.schema else []
        return named[min(index, len(named) - 1)].name if named else f"input {index}"

    def has(self, index: int) -> bool:
        """Return whether input `index` is there."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def given(self, index: int) -> Expression | None:
        """Return input `index`, None where the node leaves it out."""
        return self[index] if self.has(index) else None

    def shape(self, index: int = 0) -> Shape:
        """Return the sizes of input `index`; none for a scalar."""
        return self.tensor(index).shape

    def rank(self, index: int = 0) -> int:
        """Return the number of dimensions of input `index`."""
        return len(self.shape(index))

    def type(self, index: int = 0) -> Type:
        """Return the type of input `index`."""
        return self.tensor(index).type

    def output_shape(self, index: int = 0) -> Shape:
        """Return the sizes of output `index`. Raises `DmlError` where they depend on data."""
        kind = self.types[index]
        if kind is None or kind.shape is None:
            raise self.refusal(
                f"output {index}", "have sizes that are known at load", Unquoted("others")
            )
        return kind.shape

    def output_type(self, index: int = 0) -> TensorDataType:
        """Return DirectML's type of output `index`."""
        kind = self.types[index]
        assert kind is not None
        return kind.inner

    def known(self, index: int) -> np.ndarray | None:
        """Return the elements of input `index`; None where it is left out, or not known at load."""
        tensor = self.inputs[index] if self.has(index) else None
        return tensor.array if tensor is not None and tensor.is_known else None

    def constant(self, index: int, default: Any = None) -> Any:
        """Return the elements of input `index`, or `default` where it is left out.

        Raises `DmlError` where they are not known at load.
        """
        if not self.has(index):
            return default
        if not self.tensor(index).is_known:
            rule = "be known at load, since DirectML takes it as an attribute"
            raise self.refusal(self.input_name(index), rule, Unquoted("a computed tensor"))
        return self.tensor(index).array

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute; that of the schema, or `default`, where it is left out."""
        if name in self.attributes:
            return self.attributes[name]
        known = self.schema.attributes.get(name) if self.schema else None
        if known is None or known.default_value.type == onnx.AttributeProto.UNDEFINED:
            return default
        return _attribute_value(known.default_value)

    def axis(self, name: str = "axis", index: int = 0) -> int:
        """Return the attribute `name` as a dimension of input `index`, from the start."""
        return self.from_start(self.attribute(name), self.rank(index), name)

    def from_start(self, axis: int, rank: int, name: str = "axis") -> int:
        """Return `axis` of `rank` dimensions, counted from the start."""
        if not -max(rank, 1) <= axis < max(rank, 1):
            raise self.refusal(name, f"be in [{-rank}, {rank - 1}]", axis)
        return axis + rank if axis < 0 else axis

    def refusal(self, field: str, rule: str, value: object) -> DmlError:
        """Return the error that `field` of the node breaks a rule."""
        return DmlError([Fault("", field, rule, value)])


def _attribute_value(proto: onnx.AttributeProto) -> Any:
    """Return an attribute as Python has it: strings as text, tensors as arrays."""
    value = helper.get_attribute_value(proto)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if proto.type == onnx.AttributeProto.STRINGS:
        return [v.decode(errors="replace") for v in value]
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return list(value) if proto.type in _LISTS else value


_LISTS = (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS)


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
        domain = _domain(proto.domain)
        for name in filter(None, proto.input):
            if name not in scope:
                rule = "be an input, an initializer or an output of a node before it"
                raise DmlError([Fault("", f"the tensor '{name}'", rule, Unquoted("none of these"))])
            if scope[name] is None:  # what it lacks is a fault already
                scope.update(dict.fromkeys(filter(None, proto.output)))
                return
        inputs = [scope[name] if name else None for name in proto.input]
        function = self._functions.get((domain, proto.op_type))
        if function is not None:
            return self._call(function, proto, inputs, scope)
        if proto.op_type == "If" and not domain:
            return self._branch(proto, inputs, scope, opsets)
        if proto.op_type == "Constant" and not domain:
            return self._literal(proto, scope)
        version, schema = self._schema(domain, proto.op_type, opsets)
        types = self._types(proto, schema, inputs, opsets)
        node = Node(proto, version, schema, inputs, types, self.builder)
        if schema is not None:
            for name in set(node.attributes) - set(schema.attributes):
                hint = nearest(name, schema.attributes)
                rule = f"be an attribute of {proto.op_type} {version}{hint}"
                raise DmlError([Fault("", name, rule, node.attributes[name])])
            for name, attribute in schema.attributes.items():
                if attribute.required and name not in node.attributes:
                    raise DmlError([Fault("", name, "be given", Unquoted("nothing"))])
        translator = translator_of(domain, proto.op_type, version)
        if translator is None and schema is not None:
            body = _body(schema, proto, inputs, opsets)
            if body is not None:
                return self._call(body, proto, inputs, scope)
        results = self._outputs(proto, node, translator, opsets)
        scope.update(
            {n: result for n, result in zip(proto.output, results, strict=True) if n}
        )
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
        folded: list[Sequence[np.ndarray]] = []

        def fold() -> Sequence[np.ndarray]:
            if not folded:
                folded.append(_folded(proto, node, opsets))
            return folded[0]

        is_weight = any(t is not None and t.is_weight for t in node.inputs)
        known_types = [t for t in node.types if t is not None and t.shape is not None]
        is_large = any(t.size_in_bytes > _FOLDED_MAX for t in known_types)
        if not is_weight and not is_large:
            try:
                arrays = fold()
            except DmlError:
                if translator is None:
                    raise
                return translated()
            return [
                None if not name else self.constant(name, array, kind.element if kind else None)
                for name, array, kind in zip(proto.output, arrays, node.types, strict=False)
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
            pairs = zip(proto.output, results, strict=False)
            made = [self._tensor(n, r, node, k) for k, (n, r) in enumerate(pairs)]
            return [*made, *[None] * (len(proto.output) - len(made))]
        except AttributeError as error:
            if "not implemented yet" not in str(error):
                raise
            error = node.refusal("op type", "have an operator that is implemented", node.op_type)
        except DmlError as refused:
            error = refused
        self.faults += error.within(_label(proto)).faults
        return [
            None if kind is None or kind.shape is None else self._stand_in(name, kind)
            for name, kind in zip(proto.output, node.types, strict=True)
        ]

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
            return Tensor(
                name, result.type, lambda: result.expression, result._make_array, result.is_weight
            )
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
        expression = reshaped(result, kind.shape or ())
        return Tensor(name, kind, lambda: expression)

    def _literal(self, proto: onnx.NodeProto, scope: Scope) -> None:
        """Give the elements of a Constant."""
        attribute, name = proto.attribute[0], proto.output[0]
        if attribute.name in ("value_string", "value_strings", "sparse_value"):
            rule = "be a tensor or numbers (sparse tensors and strings are not taken)"
            raise DmlError([Fault("", attribute.name, rule, Unquoted("others"))])
        value = _attribute_value(attribute)
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
            _fill(node, given)
        inner: Scope = dict.fromkeys(function.input)
        inner.update(zip(function.input, inputs, strict=False))
        opsets = {_domain(o.domain): o.version for o in function.opset_import}
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
        except defs.SchemaError:
            if (domain, op_type) in TRANSLATORS:
                return version, None
            name = f"{domain}.{op_type}" if domain else op_type
            shown = Unquoted(f"'{name}' (opset {version})")
            rule = f"be known{_nearest_op_type(domain, op_type)}"
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
        except (onnx.shape_inference.InferenceError, ValueError, RuntimeError) as error:
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


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _label(proto: onnx.NodeProto) -> str:
    """Return how messages name a node."""
    name = proto.name or next(filter(None, proto.output), "")
    return f"Node '{name}' ({proto.op_type})"


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


def _fill(node: onnx.NodeProto, given: Mapping[str, onnx.AttributeProto]) -> None:
    """Replace the attributes of a function's node that name attributes of its call."""
    kept = []
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            for graph in (attribute.g, *attribute.graphs):
                for inner in graph.node:
                    _fill(inner, given)
            kept.append(attribute)
        elif attribute.ref_attr_name in given:
            copy = onnx.AttributeProto()
            copy.CopyFrom(given[attribute.ref_attr_name])
            copy.name = attribute.name
            kept.append(copy)
    del node.attribute[:]
    node.attribute.extend(kept)


def _body(
    schema: defs.OpSchema,
    proto: onnx.NodeProto,
    inputs: Sequence[Tensor | None],
    opsets: Opsets,
) -> onnx.FunctionProto | None:
    """Return the function that ONNX defines an op type by; None where it has none."""
    version = opsets[_domain(proto.domain)]
    if schema.has_context_dependent_function:
        kinds = [
            onnx.TypeProto()
            if t is None
            else helper.make_tensor_type_proto(t.type.element, t.shape)
            for t in inputs
        ]
        arguments = proto.SerializeToString(), [k.SerializeToString() for k in kinds]
        since = [v for v in schema.context_dependent_function_opset_versions if v <= version]
        if not since:
            return None
        text = schema.get_context_dependent_function_with_opset_version(max(since), *arguments)
    elif schema.has_function:
        since = [v for v in schema.function_opset_versions if v <= version]
        if not since:
            return None
        text = schema.get_function_with_opset_version(max(since))
    else:
        return None
    body = onnx.FunctionProto()
    body.ParseFromString(text if isinstance(text, bytes) else text.SerializeToString())
    for attribute in schema.attributes.values():
        if attribute.default_value.type != onnx.AttributeProto.UNDEFINED:
            body.attribute_proto.append(attribute.default_value)
    return body


def _folded(proto: onnx.NodeProto, node: Node, opsets: Opsets) -> Sequence[np.ndarray]:
    """Return the outputs of a node of known inputs, by ONNX's reference implementation."""
    if any(t is not None and t.size_in_bytes > _KNOWN_MAX for t in node.types):
        rule = f"take at most {_KNOWN_MAX} bytes where it is computed at load"
        raise node.refusal("the output", rule, Unquoted("more"))
    feeds = {
        name: t.array for name, t in zip(proto.input, node.inputs, strict=True) if t is not None
    }
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's, on the way
        try:
            results = ReferenceEvaluator(proto, opsets=dict(opsets)).run(None, feeds)
        except Exception as error:  # whatever its NumPy code comes upon
            rule = Sentence(f"cannot be computed at load: {error}")
            raise DmlError([Fault("", "", rule, "")]) from None
    return [np.asarray(r) for r in results]  # pyright: ignore[reportGeneralTypeIssues]

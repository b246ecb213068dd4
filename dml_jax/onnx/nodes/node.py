"""Nodes of ONNX graphs as translators read them, and the records of op types.

A translator is a function of a `Node`, registered with `translates`. It returns what the node
gives: expressions, or arrays where the elements are known at load.
"""

import copy
import functools
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper

from dml_jax import facts, functional
from dml_jax.enums import TensorDataType
from dml_jax.errors import OF_SIZES, OF_VALUES, DmlError, Fault, Unquoted
from dml_jax.graph import Expression, GraphBuilder
from dml_jax.onnx.nodes.tensor import Padded, Padding, Shape, Tensor, Type, expect_sizes

MICROSOFT = "com.microsoft"
"""The domain of ONNX Runtime's own op types, which have no schemas here."""

Translator = Callable[["Node"], Any]
Function = TypeVar("Function", bound=Callable[..., Any])
Bounds = tuple[int, int]


@dataclass(frozen=True)
class Place:
    """A padded input of a node: its number, and its padding."""

    index: int
    padding: Padding


@dataclass(slots=True)  # a name that is no attribute is refused
class OpType:
    """All that is known of an op type.

    Attributes:
        translators: its translators, by the first version that each one knows.
        fallbacks: the functions of arrays that compute what DirectML has no operator for, by
            version as the translators (`dml_jax.onnx.fallbacks`).
        inlined: what translates a node of graphs or sequences in the graph around it, of its
            `Site`; returns the outputs.
        padded: returns what a node does with inputs whose size depends on data
            (`dml_jax.onnx.sizes.padding_rules`); None, or no rule, where the padding would matter.
        sized: returns the largest sizes of an output whose sizes come while the program runs
            (`dml_jax.onnx.sizes.bounds`); None where they are known, or cannot be had.
        terms: returns the elements of the first output as sums of integers that are not known at
            load (`dml_jax.onnx.sizes.symbolic_sizes`).
        counted: the input whose elements other than 0 are counted: what is padded by one tensor has
            one count.
        range: returns the bounds of an output of 64-bit integers
            (`dml_jax.onnx.sizes.integer_ranges`); without a rule an output only has elements of the
            inputs.
        is_random: whether it draws numbers, so that nothing of it is computed at load.
        reads_sizes: whether it reads the sizes of its input, and no elements.
        must_fit: whether an output is refused that is empty though no input is.
        inferred_since: the version by which ONNX infers the sizes of earlier versions too.
        inferred_as: changes copies of the node, of the types of its inputs by name, and of the
            list of these, so that ONNX's inference gives the sizes of ONNX's text, or of ONNX
            Runtime.
        written_as: the version that earlier ones are written as
            (`dml_jax.onnx.nodes.early_versions`).
        misread_before: the version before which ONNX's reference implementation computes something
            else than its text, so that nothing of it is computed at load by this.
        read_at_load: the inputs that the fallback gets no array of where their elements are known:
            it reads these numbers, which may need 64 bits.
        takes_scalars: whether an input that is a list of numbers may be one number.
        kept_from_operator: returns why the fallback computes a node though DirectML has an
            operator, "" where it does not.
    """

    translators: dict[int, Translator] = field(default_factory=dict)
    fallbacks: dict[int, Callable[..., Any]] = field(default_factory=dict)
    inlined: dict[int, Callable[..., Any]] = field(default_factory=dict)
    padded: "Callable[[Node, Sequence[Place]], Any] | None" = None
    sized: "Callable[[Node], Any] | None" = None
    terms: "Callable[[Node], Any] | None" = None
    counted: int | None = None
    range: "Callable[[Node, int], Bounds | None] | None" = None
    is_random: bool = False
    reads_sizes: bool = False
    must_fit: bool = False
    inferred_since: int = 1
    inferred_as: Callable[..., Any] | None = None
    written_as: Any = None
    misread_before: int = 0
    read_at_load: Sequence[int] = ()
    takes_scalars: bool = False
    kept_from_operator: "Callable[[Node], str] | None" = None


MISREAD = 1 << 30
"""The version before which ONNX's reference implementation is wrong in all versions."""

OP_TYPES: dict[tuple[str, str], OpType] = defaultdict(OpType)
"""The record of each op type, by its domain and name."""


def translates(
    *op_types: str, since: int = 1, domain: str = "", to: str = "translators", **facts: Any
) -> Callable[[Function], Function]:
    """Register the translator of `op_types`, from version `since` of these on.

    `facts` are further attributes of their records (`OpType`), of all versions.
    """

    def register(function: Function) -> Function:
        for op_type in op_types:
            record = OP_TYPES[domain, op_type]
            getattr(record, to)[since] = function
            for name, value in facts.items():
                setattr(record, name, value)
        return function

    return register


inlines = functools.partial(translates, to="inlined")
"""Register what translates op types in place, as `translates` registers a translator."""

fallback = functools.partial(translates, to="fallbacks")
"""Register the fallback of op types, as `translates` registers a translator."""


def listed(results: Any) -> Sequence[Any]:
    """Return what a translator or a fallback returns as a sequence of outputs."""
    if isinstance(results, Padded):
        return [results]
    return results if isinstance(results, (tuple, list)) else [results]


def record_of(domain: str, op_type: str) -> OpType:
    """Return the record of an op type, an empty one if nothing is known of it."""
    return OP_TYPES.get((domain, op_type)) or OpType()


def of_version(known: Mapping[int, Any], version: int) -> Any:
    """Return the value that serves a version, of values by first version; None where none does."""
    first = max((since for since in known if since <= version), default=None)
    return None if first is None else known[first]


def domain_of(name: str) -> str:
    """Return a domain's name, "" for ONNX's own."""
    return "" if name == "ai.onnx" else name


@functools.cache
def function_of(op_type: str) -> Callable[..., Any]:
    """Return the function of the operator that ONNX calls `op_type`, by the facts of names."""
    operators = {name for name, own in facts.names().items() if op_type in own.get("onnx", ())}
    entries = facts.functions().items()
    name = next(name for name, entry in entries if operators.intersection(entry["operators"]))
    return getattr(functional, name)


class Node:
    """A node of the network as its translator reads it.

    `node[i]` is the expression of input `i`; `node.constant(i)` its elements, where the operator
    takes them as an attribute; `node.attribute(name)` an attribute, by default that of the schema
    of the node's own version.

    Args:
        proto: the node.
        record: what is known of its op type.
        version: the version of its op type.
        schema: the schema of that version; None for an op type that ONNX does not define.
        inputs: the inputs; None for one that is left out.
        types: the type of each output, as far as it is known; None for one that is not asked for.
        builder: makes the graph.
        opsets: the version of each domain.

    Attributes:
        translator: the translator of the node's version.
        bounds: the bounds of sizes that data decides (`dml_jax.onnx.sizes.bounds`); None where a
            network is computed in stages, each with its own sizes, and for graphs within nodes.
    """

    bounds: Any = None

    def __init__(
        self,
        proto: onnx.NodeProto,
        record: OpType,
        version: int,
        schema: defs.OpSchema | None,
        inputs: Sequence[Tensor | None],
        types: Sequence[Type | None],
        builder: GraphBuilder,
        opsets: Mapping[str, int],
    ):
        self.proto, self.opsets = proto, opsets
        self.op_type, self.version, self.schema = proto.op_type, version, schema
        self.record = record
        self.translator: Translator | None = of_version(record.translators, version)
        self.inputs, self.types, self.builder = inputs, types, builder
        self.outputs, self.label = list(proto.output), label_of(proto)  # "" is left out
        self.attributes = {a.name: attribute_value(a) for a in proto.attribute}

    @property
    def fallback(self) -> Callable[..., Any] | None:
        """Return the function of arrays that computes the node's version."""
        return of_version(self.record.fallbacks, self.version)

    @property
    def function(self) -> Callable[..., Any]:
        """Return the function of `dml_jax` of the operator that ONNX calls by the op type."""
        return function_of(self.op_type)

    def over(
        self,
        inputs: Sequence[Tensor | None],
        builder: GraphBuilder,
        types: Sequence[Type | None] | None = None,
    ) -> "Node":
        """Return the node with other inputs."""
        node = copy.copy(self)
        node.inputs, node.builder = inputs, builder
        node.types = self.types if types is None else types
        return node

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
        return self.made(index).inner

    def made(self, index: int = 0) -> Type:
        """Return the type of output `index`. Raises `DmlError` where ONNX does not know it."""
        kind = self.types[index] if index < len(self.types) else None
        if kind is None:
            rule = "have a type that follows from the inputs"
            raise self.refusal(f"output {index}", rule, Unquoted("none"))
        return kind

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
            value = Unquoted("a computed tensor")
            raise self.refusal(self.input_name(index), rule, value, OF_VALUES)
        return self.tensor(index).array

    def number(self, index: int, default: Any = None) -> Any:
        """Return the element of input `index`, or `default` where it is left out.

        Raises `DmlError` where it is not known at load, or not one.
        """
        array = self.constant(index)
        if array is None:
            return default
        rule = "have one element"
        self.expect(np.size(array) == 1, self.input_name(index), rule, list(np.shape(array)))
        return array.item()

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute; that of the schema, or `default`, where it is left out."""
        if name in self.attributes:
            return self.attributes[name]
        known = self.schema.attributes.get(name) if self.schema else None
        if known is None or known.default_value.type == onnx.AttributeProto.UNDEFINED:
            return default
        return attribute_value(known.default_value)

    def choice(self, name: str, known: Collection[str], default: Any = None) -> str:
        """Return an attribute that is one of the names `known`."""
        value = self.attribute(name, default)
        self.expect(value in known, name, f"be one of {', '.join(known)}", value)
        return value

    def axis(self, name: str = "axis", index: int = 0) -> int:
        """Return the attribute `name` as a dimension of input `index`, from the start."""
        return self.from_start(self.attribute(name), self.rank(index), name)

    def from_start(self, axis: int, rank: int, name: str = "axis") -> int:
        """Return `axis` of `rank` dimensions, counted from the start."""
        if not -max(rank, 1) <= axis < max(rank, 1):
            raise self.refusal(name, f"be in [{-rank}, {rank - 1}]", axis)
        return axis + rank if axis < 0 else axis

    def expect(self, holds: object, field: str, rule: str, value: object) -> None:
        """Raise `DmlError` unless a rule of `field` holds."""
        if not holds:
            raise self.refusal(field, rule, value)

    def refusal(self, field: str, rule: str, value: object, kind: str = OF_SIZES) -> DmlError:
        """Return the error that `field` of the node breaks a rule; `kind` as of `Fault`."""
        return DmlError([Fault("", field, rule, value, kind=kind)])


def expect(holds: object, field: str, rule: str, value: object) -> None:
    """Raise `DmlError` unless a rule of a part of the node holds, which sizes may decide."""
    if not holds:
        raise refused(field, rule, value)


def refused(field: str, rule: str, value: object) -> DmlError:
    """Return the error that a part of a node breaks a rule, which sizes may decide."""
    return DmlError([Fault("", field, rule, value, kind=OF_SIZES)])


def label_of(proto: onnx.NodeProto) -> str:
    """Return how messages name a node."""
    name = proto.name or next(filter(None, proto.output), "")
    return f"Node '{name}' ({proto.op_type})"


def attribute_value(proto: onnx.AttributeProto) -> Any:
    """Return an attribute as Python has it: strings as text, tensors as arrays."""
    value = helper.get_attribute_value(proto)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if proto.type == onnx.AttributeProto.STRINGS:
        return [v.decode(errors="replace") for v in value]
    if isinstance(value, onnx.TensorProto):
        expect_sizes(value)
        return numpy_helper.to_array(value)
    return list(value) if proto.type in _LISTS else value


_LISTS = (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS)

"""Nodes of ONNX graphs as translators read them, and the records of op types.

A translator is a function of a `Node`, registered with `translates`. It returns what the node
gives: expressions, or arrays where the elements are known at load.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper

from dml_jax.enums import TensorDataType
from dml_jax.errors import OF_SIZES, OF_VALUES, DmlError, Fault, Unquoted
from dml_jax.graph import Expression, GraphBuilder
from dml_jax.onnx.tensors import Padded, Padding, Shape, Tensor, Type

MICROSOFT = "com.microsoft"
"""The domain of ONNX Runtime's own op types, which have no schemas here."""

Translator = Callable[["Node"], Any]
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
            version as the translators (`dml_jax.onnx.plain`).
        padded: returns the dimension of the outputs that is padded where these inputs are
            (`dml_jax.onnx.ragged`); None, or no rule, where the padding would matter.
        range: returns the bounds of an output of 64-bit integers (`dml_jax.onnx.ranges`); without
            a rule an output only has elements of the inputs.
        is_random: whether it draws numbers, so that nothing of it is computed at load.
        reads_sizes: whether it reads the sizes of its input, and no elements.
        must_fit: whether an output is refused that is empty though no input is.
        inferred_since: the version by which ONNX infers the sizes of earlier versions too.
    """

    translators: dict[int, Translator] = field(default_factory=dict)
    fallbacks: dict[int, Callable[..., Any]] = field(default_factory=dict)
    padded: "Callable[[Node, Sequence[Place]], int | None] | None" = None
    range: "Callable[[Node, int], Bounds | None] | None" = None
    is_random: bool = False
    reads_sizes: bool = False
    must_fit: bool = False
    inferred_since: int = 1


OP_TYPES: dict[tuple[str, str], OpType] = defaultdict(OpType)
"""The record of each op type, by its domain and name."""


def translates(
    *op_types: str, since: int = 1, domain: str = "", **facts: Any
) -> Callable[[Translator], Translator]:
    """Register the translator of `op_types`, from version `since` of these on.

    `facts` are further attributes of their records (`OpType`), of all versions.
    """

    def register(translator: Translator) -> Translator:
        for op_type in op_types:
            record = OP_TYPES[domain, op_type]
            record.translators[since] = translator
            for name, value in facts.items():
                setattr(record, name, value)
        return translator

    return register


def listed(results: Any) -> Sequence[Any]:
    """Return what a translator or a plain function returns as a sequence of outputs."""
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

    Attributes:
        record: what is known of its op type.
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
        self.record = record_of(domain_of(proto.domain), proto.op_type)
        self.inputs, self.types, self.builder = inputs, types, builder
        self.outputs, self.label = list(proto.output), label_of(proto)  # "" is left out
        self.attributes = {a.name: attribute_value(a) for a in proto.attribute}

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

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute; that of the schema, or `default`, where it is left out."""
        if name in self.attributes:
            return self.attributes[name]
        known = self.schema.attributes.get(name) if self.schema else None
        if known is None or known.default_value.type == onnx.AttributeProto.UNDEFINED:
            return default
        return attribute_value(known.default_value)

    def axis(self, name: str = "axis", index: int = 0) -> int:
        """Return the attribute `name` as a dimension of input `index`, from the start."""
        return self.from_start(self.attribute(name), self.rank(index), name)

    def from_start(self, axis: int, rank: int, name: str = "axis") -> int:
        """Return `axis` of `rank` dimensions, counted from the start."""
        if not -max(rank, 1) <= axis < max(rank, 1):
            raise self.refusal(name, f"be in [{-rank}, {rank - 1}]", axis)
        return axis + rank if axis < 0 else axis

    def refusal(self, field: str, rule: str, value: object, kind: str = OF_SIZES) -> DmlError:
        """Return the error that `field` of the node breaks a rule; `kind` as of `Fault`."""
        return DmlError([Fault("", field, rule, value, kind=kind)])


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
        return numpy_helper.to_array(value)
    return list(value) if proto.type in _LISTS else value


_LISTS = (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS)

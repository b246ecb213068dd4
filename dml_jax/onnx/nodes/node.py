"""Nodes of ONNX graphs as translators read them, and the records of op types.

A translator is a function of a `Node`, registered with `translates`. It returns what the node
gives: expressions, or arrays where the elements are known at load.
"""

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import defs

from dml_jax.enums import TensorDataType
from dml_jax.errors import OF_SIZES, OF_VALUES, DmlError, Fault, Unquoted
from dml_jax.graph import Expression, GraphBuilder
from dml_jax.onnx.files.attributes import attribute_value, label_of
from dml_jax.onnx.files.types import Shape, Type
from dml_jax.onnx.nodes.op_types import OpType, Translator, function_of, of_version
from dml_jax.onnx.nodes.tensor import Tensor


def refused(field: str, rule: str, value: object, kind: str = OF_SIZES) -> DmlError:
    """Return the error that a part of a node breaks a rule; `kind` as of `Fault`."""
    return DmlError([Fault("", field, rule, value, kind=kind)])


def expect(holds: object, field: str, rule: str, value: object) -> None:
    """Raise `DmlError` unless a rule of a part of a node holds, which sizes may decide."""
    if not holds:
        raise refused(field, rule, value)


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
        builder: makes the graph.
        opsets: the version of each domain.
        policy: decides what becomes of sizes that data decides (`dml_jax.onnx.sizes.bounds`).

    Attributes:
        types: the type of each output, as far as it is known; None for one that is not asked for.
        translator: the translator of the node's version.
    """

    expect, refusal = staticmethod(expect), staticmethod(refused)

    def __init__(
        self,
        proto: onnx.NodeProto,
        record: OpType,
        version: int,
        schema: defs.OpSchema | None,
        inputs: Sequence[Tensor | None],
        builder: GraphBuilder,
        opsets: Mapping[str, int],
        policy: Any,
    ):
        self.proto, self.opsets, self.policy = proto, opsets, policy
        self.op_type, self.version, self.schema = proto.op_type, version, schema
        self.record = record
        self.translator: Translator | None = of_version(record.translators, version)
        self.inputs, self.builder = inputs, builder
        self.types: Sequence[Type | None] = [None] * len(proto.output)
        self.label = label_of(proto)
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

    def get(self, index: int) -> Expression | None:
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
        return self.result_type(index).inner

    def result_type(self, index: int = 0) -> Type:
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


def required(node: Node, name: str) -> Any:
    """Return an attribute of a node. Raises `DmlError` where it is missing."""
    if name not in node.attributes:
        raise DmlError([Fault("", name, "be given", Unquoted("nothing"))])
    return node.attributes[name]

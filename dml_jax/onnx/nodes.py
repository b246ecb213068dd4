"""Nodes of ONNX graphs as translators read them, and the table of translators.

A translator is a function of a `Node`, registered with `translates`. It returns what the node
gives: expressions, or arrays where the elements are known at load.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper

from dml_jax.enums import TensorDataType
from dml_jax.errors import OF_SIZES, DmlError, Fault, Unquoted
from dml_jax.graph import Expression, GraphBuilder
from dml_jax.onnx.tensors import Shape, Tensor, Type

Translator = Callable[["Node"], Any]

TRANSLATORS: dict[tuple[str, str], dict[int, Translator]] = {}
"""The translators of each domain and op type, by the first version that each one knows."""


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
            raise self.refusal(self.input_name(index), rule, Unquoted("a computed tensor"), "")
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

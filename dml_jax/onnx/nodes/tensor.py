"""Tensors of a network while it is translated: their ONNX type, and what is known of them."""

import functools
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import onnx

from dml_jax.description.tensor import TensorDesc
from dml_jax.errors import Fault, Unquoted
from dml_jax.graph import Expression
from dml_jax.onnx.files.types import Shape, Type


@dataclass
class TensorList:
    """A sequence of tensors that is taken apart at load.

    Attributes:
        tensors: what it holds.
    """

    tensors: "list[Tensor]"


class EmptyOptional(TensorList):
    """An optional that holds nothing, unlike one that holds a sequence without tensors."""

    def __init__(self) -> None:
        super().__init__([])


Scope = MutableMapping[str, Any]
"""The tensors and sequences of a graph by name; None for one that cannot be had."""


@dataclass(frozen=True)
class Count:
    """How many elements a tensor has that is padded, since data decides its size.

    Attributes:
        axis: the dimension along which its elements are followed by the padding.
        number: how many elements along it are there, a scalar.
        origin: the node that decides it, as messages name it.
    """

    axis: int
    number: "Tensor"
    origin: str


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["value", "count"], meta_fields=["axis"]
)
@dataclass(frozen=True)
class Padded:
    """A result that is padded.

    Attributes:
        value: an expression, or an array.
        axis: the dimension along which its elements are followed by the padding.
        count: how many elements along it are there: an expression or an array.
    """

    value: Any
    axis: int
    count: Any


class Tensor:
    """A tensor of the network.

    Args:
        name: its name in the model.
        type: its type, with a shape that is known.
        make_value: makes the expression that stands for it in the graph.
        make_array: makes the array of its elements, where these are known at load.
        is_weight: whether the elements follow from floating or quantized weights. These are
            arguments of the program, so the graph computes what follows from them.
        bounds: the least and the largest element that 64-bit integers may have, where known.
        count: how many elements it has, where it is padded, since data decides its size.
        terms: its elements as sums of integers, where these do not follow from its node
            (`dml_jax.onnx.sizes.symbolic_sizes`).
    """

    def __init__(
        self,
        name: str,
        type: Type,  # noqa: A002
        make_value: Callable[[], Expression],
        make_array: Callable[[], np.ndarray] | None = None,
        is_weight: bool = False,
        bounds: tuple[int, int] | None = None,
        count: Count | None = None,
        terms: Any = None,
    ):
        self.name, self.type, self.is_weight, self.bounds = name, type, is_weight, bounds
        self.made_by: Any = None  # the `Node` that has it as an output
        self.count, self.terms = count, terms
        self._make_value, self._make_array = make_value, make_array

    @property
    def shape(self) -> Shape:
        """Return the sizes; none for a scalar."""
        assert self.type.shape is not None
        return self.type.shape

    def renamed(self, name: str) -> "Tensor":
        """Return the tensor under another name."""
        known, more = self._make_array, (self.is_weight, self.bounds, self.count)
        return Tensor(name, self.type, lambda: self.value, known, *more)

    def inferred_as(
        self, shape: Shape, change: Callable[[np.ndarray], np.ndarray]
    ) -> "Tensor | None":
        """Return a tensor of other elements for inference; None where these are not known."""
        kind, own = Type(self.type.element, shape), lambda: change(self.array)
        return Tensor(self.name, kind, lambda: self.value, own) if self.is_known else None

    def replace(self, type: Type, value: Expression) -> None:  # noqa: A002
        """Let the tensor be another one, which is computed."""
        self.type, self._make_value, self._make_array = type, lambda: value, None
        vars(self).pop("value", None)

    @property
    def is_made(self) -> bool:
        """Return whether it stands in the graph."""
        return "value" in vars(self)

    @property
    def is_known(self) -> bool:
        """Return whether the elements are known at load."""
        return self._make_array is not None

    @functools.cached_property
    def array(self) -> np.ndarray:
        """Return the elements, which must be known."""
        assert self._make_array is not None
        return np.asarray(self._make_array())

    @functools.cached_property
    def value(self) -> Expression:
        """Return what stands for it in the graph; functions alone read what DirectML lacks."""
        return self._make_value()

    @property
    def expression(self) -> Expression:
        """Return the expression: packed, with the tensor's sizes, [1] for a scalar.

        Raises `DmlError` where DirectML has no such tensor.
        """
        if not isinstance(self.value.desc, TensorDesc):
            _ = TensorDesc(self.type.edge_type(), self.shape or (1,))  # says why
        return self.value


def mistyped(outputs: Iterable[onnx.ValueInfoProto], scope: Scope) -> Iterator[Fault]:
    """Yield a fault for each output of a model whose tensor in `scope` has other elements."""
    for output in outputs:
        said, tensor = output.type.tensor_type.elem_type, scope.get(output.name)
        if isinstance(tensor, Tensor) and said not in (0, tensor.type.element):
            rule = f"be {Type(said, None).name}, as the model declares it"
            yield Fault("", f"the output '{output.name}'", rule, Unquoted(tensor.type.name))

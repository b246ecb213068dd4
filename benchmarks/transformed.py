"""An operator under jax.vjp or jax.vmap, as one thing to measure."""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from dml_jax.description.tensor import TensorDesc
from dml_jax.errors import DmlError, Fault
from dml_jax.operator import Operator

Tensors = tuple[TensorDesc, ...]


@dataclass(frozen=True, eq=False)
class Transformed(ABC):
    """A function of arrays that is made of an operator.

    Attributes:
        operator: which one.
    """

    operator: Operator

    @property
    @abstractmethod
    def inputs(self) -> Tensors:
        """What a call takes."""

    @property
    @abstractmethod
    def outputs(self) -> Tensors:
        """What a call returns."""

    @abstractmethod
    def of(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same made of another function that computes what the operator does."""

    def __call__(self, *arrays: Any) -> Any:
        return self.of(self.operator)(*arrays)


@dataclass(frozen=True, eq=False)
class Backward(Transformed):
    """The gradients of the inputs, given the inputs (where they matter) and those of the outputs.

    One program without the forward pass: what that has computed, and this needs, is computed again.
    Raises `DmlError` where the operator's types have no derivative.
    """

    def __post_init__(self):
        tensors = (*self.operator.inputs, *self.operator.outputs)
        for tensor in tensors:
            if not jnp.issubdtype(tensor.dtype, jnp.floating):
                rule = "be floats, to have a derivative"
                value = tensor.data_type.shown()
                raise DmlError([Fault(self.operator.c_name, "the tensors", rule, value)])

    @functools.cached_property
    def reads_inputs(self) -> bool:
        """Whether the derivative keeps an array of the forward pass; else it is linear."""
        shapes = [jax.ShapeDtypeStruct(t.sizes, t.dtype) for t in self.operator.inputs]
        kept = jax.eval_shape(lambda *xs: jax.vjp(self.operator, *xs)[1], *shapes)
        return any(x.ndim for x in jax.tree.leaves(kept))

    @property
    def inputs(self) -> Tensors:
        given = self.operator.inputs if self.reads_inputs else ()
        return (*given, *self.operator.outputs)

    @property
    def outputs(self) -> Tensors:
        return self.operator.inputs

    def of(self, function: Callable[..., Any]) -> Callable[..., Any]:
        tensors = self.operator.inputs

        def backward(*arrays: Any) -> Any:
            count = len(tensors) if self.reads_inputs else 0
            xs, gradients = arrays[:count], arrays[count:]
            if not xs:  # it is linear, the same everywhere
                xs = [jnp.zeros(t.sizes, t.dtype) for t in tensors]
            results, transposed = jax.vjp(function, *xs)
            return transposed(jax.tree.unflatten(jax.tree.structure(results), gradients))

        return backward


@dataclass(frozen=True, eq=False)
class Mapped(Transformed):
    """The operator mapped over one more axis of every array.

    Attributes:
        axis: which axis of them it is.
        size: how long.
    """

    axis: int
    size: int

    @property
    def inputs(self) -> Tensors:
        return tuple(map(self._with_axis, self.operator.inputs))

    @property
    def outputs(self) -> Tensors:
        return tuple(map(self._with_axis, self.operator.outputs))

    def _with_axis(self, tensor: TensorDesc) -> TensorDesc:
        sizes = (*tensor.sizes[: self.axis], self.size, *tensor.sizes[self.axis :])
        return TensorDesc(tensor.data_type, sizes)

    def of(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return jax.vmap(function, self.axis, self.axis)

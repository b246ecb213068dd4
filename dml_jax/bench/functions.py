"""Functions of arrays to measure beside operators: plain ones, gradients, batches, bfloat16."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dml_jax.description.tensor import TensorDesc
from dml_jax.errors import DmlError, Fault
from dml_jax.graph.parts import ArrayType, Edge

Bounds = tuple[float, float]
FLOATS: Bounds = (-1.0, 1.0)
BFLOAT16 = np.dtype(jnp.bfloat16)


def type_name(tensor: Edge) -> str:
    """Return the name of a tensor's type, as DirectML writes it; BFLOAT16 for bfloat16."""
    return tensor.data_type.name if isinstance(tensor, TensorDesc) else tensor.dtype.name.upper()


def shown(tensor: Edge) -> str:
    """Return type and sizes on one line: `FLOAT32[2,3]`."""
    return f"{type_name(tensor)}[{','.join(map(str, tensor.sizes))}]"


def byte_count(tensor: Edge) -> int:
    """Return the bytes of the elements of a tensor."""
    return math.prod(tensor.sizes) * tensor.dtype.itemsize


def drawn(function: Any) -> list[tuple[Edge, Bounds]]:
    """Return each input of a function with the range of its random elements."""
    if hasattr(function, "drawn"):
        return function.drawn
    domain = getattr(function, "domain", lambda field: FLOATS)
    return [(tensor, domain(name)) for _, name, tensor in function.tensors(output=False)]


@dataclass(frozen=True, eq=False)
class Plain:
    """A function of arrays.

    Attributes:
        function: takes an array for each of `inputs`.
        inputs: the types and sizes that it takes.
        outputs: the types and sizes that it returns.
        arrays: the arrays of its one set of data; without them data are random.
        operations: the arithmetic operations of a call.
        moved: the bytes of a call, where they are not those of inputs and outputs.
        place: gives the sharding of an input of some sizes, where it is not on one device.
        is_wide: whether it computes with 64-bit types within.
    """

    function: Callable[..., Any]
    inputs: Sequence[Edge]
    outputs: Sequence[Edge]
    arrays: Sequence[Any] | None = None
    operations: float = 0.0
    moved: int | None = None
    place: Callable[[Sequence[int]], Any] | None = None
    is_wide: bool = False

    @property
    def drawn(self) -> list[tuple[Edge, Bounds]]:
        """Return each input with the range of its elements."""
        return [(tensor, FLOATS) for tensor in self.inputs]

    def __call__(self, *arrays: Any) -> Any:
        return self.function(*arrays)


@dataclass(frozen=True, eq=False)
class Transformed(ABC):
    """A function that is made of an operator, or of one that is transformed itself."""

    operator: Any

    @property
    def c_name(self) -> str:
        """Return the name of the operator."""
        return self.operator.c_name

    @property
    def inputs(self) -> Sequence[Edge]:
        """Return the tensors that a call takes."""
        return tuple(map(self.changed, self.operator.inputs))

    @property
    def outputs(self) -> Sequence[Edge]:
        """Return the tensors that a call returns."""
        return tuple(map(self.changed, self.operator.outputs))

    def changed(self, tensor: Edge) -> Edge:
        """Return what takes the place of a tensor of the operator."""
        return tensor

    @abstractmethod
    def of(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the same made of another function that computes what the operator does."""

    @property
    def drawn(self) -> list[tuple[Edge, Bounds]]:
        """Return each input with the range of its elements, as the operator says it."""
        known = [bounds for _, bounds in drawn(self.operator)]
        known += [FLOATS] * len(self.inputs)
        return list(zip(self.inputs, known, strict=False))

    def __call__(self, *arrays: Any) -> Any:
        return self.of(self.operator)(*arrays)


@dataclass(frozen=True, eq=False)
class Gradient(Transformed):
    """The gradients of all floating inputs, given the inputs and gradients of the outputs.

    It is one program without the forward pass, but for what the gradients need of it. Raises
    `DmlError` if no input or no output is floating.
    """

    floating: Sequence[int] = field(init=False, default=())

    def __post_init__(self):
        ends = [*self.operator.inputs], [*self.operator.outputs]
        found = [[i for i, t in enumerate(ts) if _is_floating(t)] for ts in ends]
        if not all(found):
            value = shown(self.operator.inputs[0]) if self.operator.inputs else ""
            raise DmlError([Fault(self.operator.c_name, "the tensors", "be floats", value)])
        object.__setattr__(self, "floating", found[0])

    @property
    def inputs(self) -> Sequence[Edge]:
        return (*self.operator.inputs, *filter(_is_floating, self.operator.outputs))

    @property
    def outputs(self) -> Sequence[Edge]:
        return tuple(self.operator.inputs[i] for i in self.floating)

    def of(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def gradients(*arrays: Any) -> Any:
            count = len(self.operator.inputs)
            xs, given = arrays[:count], arrays[count:]

            def forward(*changing: Any) -> Any:
                whole = [*xs]
                for place, array in zip(self.floating, changing, strict=True):
                    whole[place] = array
                results = function(*whole)
                results = results if isinstance(results, (tuple, list)) else (results,)
                return [y for y in results if jnp.issubdtype(y.dtype, jnp.floating)]

            return jax.vjp(forward, *(xs[i] for i in self.floating))[1](list(given))

        return gradients


def _is_floating(tensor: Edge) -> bool:
    return jnp.issubdtype(tensor.dtype, jnp.floating)


@dataclass(frozen=True, eq=False)
class Mapped(Transformed):
    """The operator under `jax.vmap`, over a new first axis of `size` elements."""

    size: int = 4

    def changed(self, tensor: Edge) -> Edge:
        return ArrayType(tensor.dtype, (self.size, *tensor.sizes))

    def of(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return jax.vmap(function)


@dataclass(frozen=True, eq=False)
class Narrow(Transformed):
    """The operator of FLOAT32 on arrays of bfloat16, as networks compute them."""

    def changed(self, tensor: Edge) -> Edge:
        return ArrayType(BFLOAT16, tensor.sizes) if tensor.dtype == np.float32 else tensor

    def of(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if function is not self.operator:  # an expression computes in the type that it is given
            return function
        from dml_jax.graph import OperatorNode
        from dml_jax.graph.bfloat16 import computed

        node = OperatorNode(self.operator)
        return lambda *arrays: tuple(computed(node, arrays))

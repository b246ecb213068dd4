"""Functions of arrays to measure beside operators: plain ones, gradients, batches, bfloat16."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dml_jax.description.tensor import TensorDesc
from dml_jax.graph import OperatorNode
from dml_jax.graph.bfloat16 import computed
from dml_jax.graph.parts import ArrayType, Edge

Bounds = tuple[float, float]
FLOATS: Bounds = (-1.0, 1.0)
BFLOAT16 = np.dtype(jnp.bfloat16)


def type_name(tensor: Edge) -> str:
    """Return the name of a tensor's type, as DirectML writes it; BFLOAT16 for bfloat16."""
    return tensor.data_type.name if isinstance(tensor, TensorDesc) else tensor.dtype.name.upper()


def byte_count(*tensors: Edge) -> int:
    """Return the bytes of the elements of some tensors."""
    return sum(math.prod(tensor.sizes) * tensor.dtype.itemsize for tensor in tensors)


def as_tuple(results: Any) -> tuple[Any, ...]:
    """Return several results as a tuple, and one as a tuple of one."""
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def drawn(function: Any) -> list[tuple[Edge, Bounds]]:
    """Return each input of a function with the range of its random elements."""
    known: list[Bounds] = []
    if isinstance(function, Transformed):
        known = [bounds for _, bounds in drawn(function.operator)]
    elif hasattr(function, "domain"):
        known = [function.domain(name) for _, name, _ in function.tensors(output=False)]
    return list(zip(function.inputs, known + [FLOATS] * len(function.inputs), strict=False))


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

    def __call__(self, *arrays: Any) -> Any:
        return self.function(*arrays)


@dataclass(frozen=True, eq=False)
class Transformed:
    """A function that is made of an operator.

    Attributes:
        operator: what it is made of, which may be transformed itself.
        inputs: the tensors that a call takes.
        outputs: the tensors that a call returns.
        of: makes the same of another function that computes what the operator does.
        work: the operations of a call, as a multiple of the operator's.
    """

    operator: Any
    inputs: Sequence[Edge]
    outputs: Sequence[Edge]
    of: Callable[[Callable[..., Any]], Callable[..., Any]]
    work: int = 1

    def __call__(self, *arrays: Any) -> Any:
        return self.of(self.operator)(*arrays)


def gradient(operator: Any) -> Transformed | None:
    """Return the gradients of all floating inputs, given the inputs and gradients of the outputs.

    They are one program without the forward pass, but for what the gradients need of it. None if
    no input or no output is floating.
    """
    inputs, count = operator.inputs, len(operator.inputs)
    floating = [k for k, t in enumerate(inputs) if jnp.issubdtype(t.dtype, jnp.floating)]
    given = [t for t in operator.outputs if jnp.issubdtype(t.dtype, jnp.floating)]

    def of(function: Callable[..., Any]) -> Callable[..., Any]:
        def gradients(*arrays: Any) -> Any:
            def forward(*changing: Any) -> Any:
                known = dict(zip(floating, changing, strict=True))
                results = function(*(known.get(k, x) for k, x in enumerate(arrays[:count])))
                return [y for y in as_tuple(results) if jnp.issubdtype(y.dtype, jnp.floating)]

            return jax.vjp(forward, *(arrays[k] for k in floating))[1]([*arrays[count:]])

        return gradients

    made = Transformed(operator, (*inputs, *given), [inputs[k] for k in floating], of, 2)
    return made if floating and given else None


def map_over(operator: Any, size: int) -> Transformed:
    """Return the operator under `jax.vmap`, over a new first axis of `size` elements."""
    ends = operator.inputs, operator.outputs
    inputs, outputs = ([ArrayType(t.dtype, (size, *t.sizes)) for t in some] for some in ends)
    return Transformed(operator, inputs, outputs, jax.vmap, size)


def narrow(operator: Any) -> Transformed:
    """Return the operator of FLOAT32 on arrays of bfloat16, as networks compute them."""

    def change(tensor: Edge) -> Edge:
        return ArrayType(BFLOAT16, tensor.sizes) if tensor.dtype == np.float32 else tensor

    def of(function: Callable[..., Any]) -> Callable[..., Any]:
        if function is not operator:  # an expression computes in the type that it is given
            return function
        return lambda *arrays: tuple(computed(OperatorNode(operator), arrays))

    inputs, outputs = ([*map(change, some)] for some in (operator.inputs, operator.outputs))
    return Transformed(operator, inputs, outputs, of)

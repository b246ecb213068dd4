"""Counts of padded tensors: their arithmetic, and the masks that they make."""

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from dml_jax import functional as dml
from dml_jax.graph import Expression
from dml_jax.onnx.files.types import COUNT, Type
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.reshapes import on_axis, reshape
from dml_jax.onnx.nodes.tensor import Count, Tensor
from dml_jax.onnx.sizes.symbolic_sizes import number, same_terms, terms_of

Fill = float | Callable[[Type], float]
"""The number that padding holds, or a function that returns it for a type."""


def same_number(one: Count, other: Count) -> bool:
    """Return whether two tensors have as many elements along the dimensions that are padded."""
    return one.number is other.number or same_terms(terms_of(one.number), terms_of(other.number))


def same_count(one: Count, other: Count) -> bool:
    """Return whether two tensors are padded along one dimension, with as many elements there."""
    return one.axis == other.axis and same_number(one, other)


def linear_count(count: Tensor, factor: int, more: int, divisor: int) -> Tensor:
    """Return the number (count * factor + more) / divisor, rounded down, and at least 0."""
    if (factor, more, divisor) == (1, 0, 1):
        return count

    def value() -> Expression:
        x = count.expression * factor + more if factor != 1 else count.expression + more
        x = dml.max(x, 0)
        return x / divisor if divisor != 1 else x

    terms, bounds = terms_of(count), count.bounds
    if bounds is not None:
        low, high = (max(0, end * factor + more) // divisor for end in bounds)
        bounds = low, high
    # A sum of integers cannot say that it is rounded down.
    is_sum = terms is not None and divisor == 1
    terms = [term.times(factor).plus(number(more)) for term in terms or ()] if is_sum else None
    return Tensor(f"{count.name} * {factor} + {more}", COUNT, value, bounds=bounds, terms=terms)


def mask(tensor: Tensor) -> Expression:
    """Return 1 for the elements that a padded tensor has, and 0 for its padding, along its axis."""
    count, builder = tensor.count, tensor.expression.builder
    assert count is not None
    end, rank = count.number.expression, len(tensor.shape)
    places = builder.constant(np.arange(tensor.shape[count.axis]).astype(end.dtype))
    return on_axis(dml.less_than(places, reshape(end, (1,))), count.axis, rank)


def padded_with(tensor: Tensor, fill: Fill) -> Tensor:
    """Return a padded tensor whose padding holds `fill`."""
    x = dml.if_(mask(tensor), tensor.expression, fill(tensor.type) if callable(fill) else fill)
    return Tensor(tensor.name, tensor.type, lambda: x, count=tensor.count)


def from_the_start(node: Node, axis: int) -> Expression:
    """Return the second input, indices of a dimension of the first: negative ones count back."""
    count, index = node.tensor(0).count, node[1]
    if count is None or count.axis != axis:
        return index
    known = node.known(1)
    if known is not None and bool((known >= 0).all()):
        return index
    end = dml.cast(count.number.expression, index.desc.data_type)
    back = index + reshape(end, (1,) * len(index.sizes))
    return dml.if_(dml.less_than(index, 0), back, index)


def least(kind: Type) -> Any:
    """Return a number that no element of a type is below."""
    dtype = kind.inner.dtype
    return -math.inf if jnp.issubdtype(dtype, jnp.floating) else int(np.iinfo(dtype).min)


def most(kind: Type) -> Any:
    """Return a number that no element of a type is above."""
    dtype = kind.inner.dtype
    return math.inf if jnp.issubdtype(dtype, jnp.floating) else int(np.iinfo(dtype).max)


def last(kind: Type) -> Any:
    """Return the number that comes last where the least comes first: NaN behind all floats."""
    return math.nan if jnp.issubdtype(kind.inner.dtype, jnp.floating) else most(kind)

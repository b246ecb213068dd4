"""Bounds of 64-bit integers: bounds of the inputs of a node give bounds of its outputs.

While 64-bit types are off in JAX, such integers are computed in 32 bits. Indices, lengths and masks
fit 32 bits. Arithmetic of them may not, and a node whose result might not fit is refused.
"""

import functools
import math
from collections.abc import Callable, Iterable

from onnx import TensorProto

from dml_jax.lowering.dtypes import has_x64
from dml_jax.onnx.files.types import WITHOUT_X64, Type
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import Bounds
from dml_jax.onnx.nodes.tensor import Tensor

Range = Callable[[Node, int], Bounds | None]

INT32: Bounds = (-(2**31), 2**31 - 1)
_UINT32: Bounds = (0, 2**32 - 1)
_LIMITS: dict[int, Bounds] = {TensorProto.INT64: INT32, TensorProto.UINT64: _UINT32}


def bounds_of(tensor: Tensor) -> Bounds:
    """Return the least and the largest element that a tensor of integers may have."""
    # A weight whose elements are read here is fixed: a call cannot replace it. With x64,
    # no result depends on the bounds.
    is_read = not (tensor.is_weight and has_x64())
    if tensor.is_known and is_read and tensor.array.size:
        return int(tensor.array.min()), int(tensor.array.max())
    if tensor.bounds is not None:
        return tensor.bounds
    if tensor.type.name == "BOOL":
        return 0, 1
    return _LIMITS.get(tensor.type.element, INT32)


def _of(corners: Iterable[int]) -> Bounds:
    found = list(corners)
    return min(found), max(found)


def fold_pairs(pair: Callable[[Bounds, Bounds], Bounds]) -> Range:
    """Return the rule of an op type that joins its inputs one after the other by `pair`."""

    def of_all(node: Node, index: int) -> Bounds:
        return functools.reduce(pair, map(bounds_of, _given(node)))

    return of_all


def _power(a: Bounds, b: Bounds) -> Bounds:
    most = max(map(abs, a)) ** min(max(b[1], 0), 64)
    return -most, most


added = fold_pairs(lambda a, b: (a[0] + b[0], a[1] + b[1]))
_any_difference = fold_pairs(lambda a, b: (a[0] - b[1], a[1] - b[0]))
multiplied, power = fold_pairs(lambda a, b: _of(x * y for x in a for y in b)), fold_pairs(_power)


def difference(node: Node, index: int) -> Bounds | None:
    """Return the bounds of differences: a tensor less itself is 0, which ONNX's losses read."""
    return (0, 0) if node.inputs[0] is node.inputs[1] else _any_difference(node, index)


def _given(node: Node) -> list[Tensor]:
    return [t for t in node.inputs if t is not None]


def _many(node: Node) -> int:
    return math.prod(node.shape())


def _union(tensors: Iterable[Tensor]) -> Bounds | None:
    integers = [bounds_of(t) for t in tensors if t.type.element in (*_LIMITS, TensorProto.BOOL)]
    return _of(end for pair in integers for end in pair) if integers else None


def first(node: Node, index: int) -> Bounds | None:
    """Return the bounds of outputs with elements of the first input."""
    return _union([node.tensor(0)])


def top_k(node: Node, index: int) -> Bounds | None:
    """Return the bounds of elements of the first input, and of the places that are output 1."""
    if index == 1 and node.op_type == "TopK":
        return along(node, index)
    return (0, _many(node) - 1) if index == 1 else first(node, index)


def along(node: Node, index: int) -> Bounds:
    """Return the bounds of places along the axis of the node."""
    return 0, node.shape()[node.axis()] - 1


def places(node: Node, index: int) -> Bounds:
    """Return the bounds of places along any dimension of the inputs."""
    return 0, max((size for t in _given(node) for size in t.shape), default=1) - 1


def total(node: Node, index: int) -> Bounds:
    """Return the bounds of sums of elements of the first input."""
    low, high = bounds_of(node.tensor(0))
    return min(low, low * _many(node)), max(high, high * _many(node))


def product(node: Node, index: int) -> Bounds:
    """Return the bounds of products of elements of the first input, or of sums of squares."""
    most = max(map(abs, bounds_of(node.tensor(0))))
    return (-_many(node), _many(node)) if most <= 1 else (-(2**64), 2**64)


def negative(node: Node, index: int) -> Bounds:
    """Return the bounds of the negative of the first input."""
    low, high = bounds_of(node.tensor(0))
    return -high, -low


def magnitude(node: Node, index: int) -> Bounds:
    """Return the bounds of the magnitude of the first input."""
    low, high = bounds_of(node.tensor(0))
    return 0, max(-low, high)


def sum_of_products(node: Node, index: int) -> Bounds:
    """Return the bounds of sums of products of the inputs, of as many terms as the first has."""
    most = math.prod(max(map(abs, bounds_of(t))) for t in _given(node)[:2]) * _many(node)
    most += sum(max(map(abs, bounds_of(t))) for t in _given(node)[2:])
    return -most, most


def output_bounds(node: Node, index: int, kind: Type) -> Bounds | None:
    """Return the bounds of an output of 64-bit integers; None where they are not known.

    Raises `DmlError` where it is computed in 32 bits, and may not fit.
    """
    limits, rule = _LIMITS.get(kind.element), node.record.sizes.integers
    if limits is None or (has_x64() and not rule):
        return None
    found = rule(node, index) if rule else _union(_given(node))
    if has_x64():  # what nobody knows has the limits, and so has what follows from it
        return found if found and limits[0] < found[0] and found[1] < limits[1] else None
    if found is None:
        return limits
    rule = f"stay within {limits[0]} and {limits[1]} {WITHOUT_X64}"
    node.expect(found[0] >= limits[0] and found[1] <= limits[1], "the result", rule, list(found))
    return found

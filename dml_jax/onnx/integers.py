"""Bounds of 64-bit integers, which are computed in 32 bits while 64-bit types are off in JAX.

Indices, lengths and masks fit 32 bits. Arithmetic of them may not: bounds of the inputs give bounds
of the outputs, and a node whose result might not fit is refused.
"""

import math
from collections.abc import Callable, Iterable

from onnx import TensorProto

from dml_jax.onnx.nodes import Node
from dml_jax.onnx.tensors import Tensor, Type, has_x64

Bounds = tuple[int, int]

INT32: Bounds = (-(2**31), 2**31 - 1)
_UINT32: Bounds = (0, 2**32 - 1)
_LIMITS: dict[int, Bounds] = {TensorProto.INT64: INT32, TensorProto.UINT64: _UINT32}


def bounds_of(tensor: Tensor) -> Bounds:
    """Return the least and the largest element that a tensor of integers may have."""
    if tensor.is_known and tensor.array.size:
        return int(tensor.array.min()), int(tensor.array.max())
    if tensor.bounds is not None:
        return tensor.bounds
    if tensor.type.name == "BOOL":
        return 0, 1
    return _LIMITS.get(tensor.type.element, INT32)


def _of(corners: Iterable[int]) -> Bounds:
    found = list(corners)
    return min(found), max(found)


def _added(a: Bounds, b: Bounds) -> Bounds:
    return a[0] + b[0], a[1] + b[1]


def _subtracted(a: Bounds, b: Bounds) -> Bounds:
    return a[0] - b[1], a[1] - b[0]


def _multiplied(a: Bounds, b: Bounds) -> Bounds:
    return _of(x * y for x in a for y in b)


def _power(a: Bounds, b: Bounds) -> Bounds:
    most = max(map(abs, a)) ** min(max(b[1], 0), 64)
    return -most, most


_PAIRS: dict[str, Callable[[Bounds, Bounds], Bounds]] = {
    "Add": _added,
    "Mul": _multiplied,
    "Pow": _power,
    "Sub": _subtracted,
    "Sum": _added,
}
_SUMS = ("CumSum", "ReduceSum", "ReduceL1")
_FIRST = {"Gather", "GatherElements", "GatherND", "Pad", "TopK", "Slice", "Tile", "Expand"}


def _many(tensor: Tensor) -> int:
    return math.prod(tensor.shape)


def result_of(node: Node, index: int) -> Bounds | None:
    """Return the bounds of an output; None where its op type only picks or compares elements."""
    inputs = [t for t in node.inputs if t is not None]
    if node.op_type in ("ArgMax", "ArgMin"):
        return 0, node.shape()[node.axis()] - 1
    if index == 1 and node.op_type in ("TopK", "MaxPool"):
        return 0, _many(inputs[0]) - 1
    if node.op_type in _PAIRS:
        found = bounds_of(inputs[0])
        for other in inputs[1:]:
            found = _PAIRS[node.op_type](found, bounds_of(other))
        return found
    if node.op_type in _SUMS:
        low, high = bounds_of(inputs[0])
        return min(low, low * _many(inputs[0])), max(high, high * _many(inputs[0]))
    if node.op_type in ("Neg", "Abs"):
        low, high = bounds_of(inputs[0])
        return _of((-low, -high)) if node.op_type == "Neg" else (0, max(-low, high))
    if node.op_type in ("ReduceProd", "ReduceSumSquare", "CumProd"):
        most = max(map(abs, bounds_of(inputs[0])))
        if most <= 1:
            return -_many(inputs[0]), _many(inputs[0])
        return -(2**64), 2**64
    picked = inputs[:1] if node.op_type in _FIRST else inputs
    integers = [bounds_of(t) for t in picked if t.type.element in (*_LIMITS, TensorProto.BOOL)]
    return _of(end for pair in integers for end in pair) if integers else None


def checked(node: Node, index: int, kind: Type) -> Bounds | None:
    """Return the bounds of an output of 64-bit integers, which is computed in 32 bits.

    Raises `DmlError` where it may not fit.
    """
    limits = _LIMITS.get(kind.element)
    if limits is None or has_x64():
        return None
    found = result_of(node, index)
    if found is None:
        return limits
    if found[0] < limits[0] or found[1] > limits[1]:
        rule = f"stay within {limits[0]} and {limits[1]} while 64-bit types are off in JAX"
        rule += ' (turn them on: jax.config.update("jax_enable_x64", True))'
        raise node.refusal("the result", rule, list(found))
    return found

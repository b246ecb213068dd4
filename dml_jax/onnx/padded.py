"""Tensors whose size depends on data: padded to the most that it can be, with a count.

Operators that keep elements apart take such a tensor as it is, and their results are padded in
turn. An operator that would mix the padding into its result is refused.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dml_jax.errors import DmlError, Unquoted
from dml_jax.onnx.nodes import Node
from dml_jax.onnx.tensors import Padding, Tensor
from dml_jax.onnx.translators.elements import BINARY, CHAINED, UNARY

_BY_ELEMENT = {
    *UNARY,
    *BINARY,
    *CHAINED,
    *("Abs", "Cast", "Clip", "Elu", "Erf", "Gelu", "HardSigmoid", "HardSwish", "Identity", "IsInf"),
    *("LeakyRelu", "Mean", "Mod", "Pow", "Relu", "Selu", "Sigmoid", "Sign", "Softplus", "Tanh"),
    "Where",
}
_OF_SIZES = {"Shape", "Size"}  # they read the count
_VIEWS = {"Flatten", "Reshape", "Squeeze", "Unsqueeze"}


@dataclass(frozen=True)
class _Place:
    """A padded input: its number, and its padding."""

    index: int
    padding: Padding


def passed(node: Node) -> Padding | None:
    """Return the padding of the outputs of a node; None where no input is padded.

    Raises `DmlError` where the outputs would depend on the padding.
    """
    places = [_Place(k, t.padding) for k, t in enumerate(node.inputs) if t and t.padding]
    if not places or node.op_type in _OF_SIZES:
        return None
    first = places[0].padding
    axis = None
    if all(place.padding.count is first.count for place in places):
        axis = _axis(node, places)
    if axis is None:
        tensor = node.tensor(places[0].index)
        raise refusal(node, tensor, first)
    return Padding(axis, first.count, first.origin)


def refusal(node: Node, tensor: Tensor, padding: Padding) -> DmlError:
    """Return the error that a node cannot read a padded tensor."""
    rule = f"have sizes that are known at load: {padding.origin} decides the size of dimension "
    rule += f"{padding.axis} while the network runs, and {node.op_type} would read the padding "
    rule += f"(end the network at '{tensor.name}': '{tensor.name}.count' then says how many "
    rule += "elements are there)"
    return node.refusal(f"'{tensor.name}'", rule, Unquoted("a padded tensor"))


def _axis(node: Node, places: Sequence[_Place]) -> int | None:
    """Return the dimension of the outputs that is padded; None where the padding matters."""
    op_type, first = node.op_type, places[0]
    if op_type in _BY_ELEMENT:
        return _by_element(node, places)
    if op_type == "Concat":
        return _joined(node, places)
    if len(places) > 1:
        return None
    if op_type in _VIEWS and first.index == 0:
        return _viewed(node.shape(), node.output_shape(), first.padding.axis)
    found = _SINGLE.get(op_type)
    return None if found is None else found(node, first.index, first.padding.axis)


def _by_element(node: Node, places: Sequence[_Place]) -> int | None:
    rank = max(len(t.shape) for t in node.inputs if t is not None)
    axes = {p.padding.axis + rank - node.rank(p.index) for p in places}
    if len(axes) > 1:
        return None
    axis, padded = axes.pop(), {p.index for p in places}
    for k, tensor in enumerate(node.inputs):
        own = axis - rank + (len(tensor.shape) if tensor else 0)
        if tensor is not None and k not in padded and own >= 0 and tensor.shape[own] != 1:
            return None
    return axis


def _joined(node: Node, places: Sequence[_Place]) -> int | None:
    axes = {p.padding.axis for p in places}
    if len(places) < len(node) or len(axes) > 1 or node.axis() in axes:
        return None
    return axes.pop()


def _viewed(before: Sequence[int], after: Sequence[int], axis: int) -> int | None:
    """Return the dimension of a view that holds the elements of `axis`; None where none does."""
    for place, size in enumerate(after):
        if size == before[axis] and math.prod(after[:place]) == math.prod(before[:axis]):
            return place
    return None


def _transposed(node: Node, _: int, axis: int) -> int:
    order = node.attribute("perm") or [*reversed(range(node.rank()))]
    return order.index(axis)


def _gathered(node: Node, index: int, axis: int) -> int | None:
    along = node.axis()
    if index == 1:
        return along + axis
    if axis == along:
        return None
    return axis if axis < along else axis - 1 + node.rank(1)


def _gathered_nd(node: Node, index: int, axis: int) -> int | None:
    return axis if index == 1 and axis < node.rank(1) - 1 else None


def _sliced(node: Node, index: int, axis: int) -> int | None:
    axes = node.attribute("axes") if node.version < 10 else node.constant(3)
    if index or axes is None:
        return None
    return None if axis in [node.from_start(int(a), node.rank()) for a in axes] else axis


def _kept(node: Node, index: int, axis: int) -> int | None:
    return None if index or node.axis() == axis else axis


def _lines(node: Node, index: int, axis: int) -> int | None:
    return _kept(node, index, axis) if node.version >= 13 else None  # several axes before


def _arg(node: Node, index: int, axis: int) -> int | None:
    along = node.axis()
    if along == axis:
        return None
    return axis if node.attribute("keepdims") or axis < along else axis - 1


def _multiplied(node: Node, index: int, axis: int) -> int | None:
    return axis if index == 0 and axis == node.rank() - 2 and node.rank(1) <= 2 else None


def _reduced(node: Node, index: int, axis: int) -> int | None:
    known = node.known(1)
    axes = node.attribute("axes") if known is None else known.tolist()
    if index or not axes:
        return None
    over = {node.from_start(int(a), node.rank()) for a in axes}
    if axis in over:
        return None
    return axis if node.attribute("keepdims") else axis - sum(a < axis for a in over)


_REDUCTIONS = ("L1", "L2", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
_SINGLE: dict[str, Callable[[Node, int, int], int | None]] = {
    "ArgMax": _arg,
    "ArgMin": _arg,
    "Gather": _gathered,
    "GatherND": _gathered_nd,
    "LogSoftmax": _lines,
    "MatMul": _multiplied,
    "Slice": _sliced,
    "Softmax": _lines,
    "Split": _kept,
    "Transpose": _transposed,
    **{f"Reduce{name}": _reduced for name in _REDUCTIONS},
}

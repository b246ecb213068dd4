"""Tensors whose size depends on data: padded to the most that it can be, with a count.

Operators that keep elements apart take such a tensor as it is, and their results are padded in
turn. An operator that would mix the padding into its result is refused. Each op type's record names
its rule (`OpType.padded`).
"""

import math
from collections.abc import Callable, Sequence

from dml_jax.errors import DmlError, Unquoted
from dml_jax.onnx.nodes import Node, Place
from dml_jax.onnx.tensors import Padding, Tensor

Rule = Callable[[Node, Sequence[Place]], int | None]


def passed(node: Node) -> Padding | None:
    """Return the padding of the outputs of a node; None where no input is padded.

    Raises `DmlError` where the outputs would depend on the padding.
    """
    places = [Place(k, t.padding) for k, t in enumerate(node.inputs) if t and t.padding]
    if not places or node.record.reads_sizes:
        return None
    first = places[0].padding
    axis, rule = None, node.record.padded
    if rule and all(place.padding.count is first.count for place in places):
        axis = rule(node, places)
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


def single(rule: Callable[[Node, int, int], int | None]) -> Rule:
    """Return the rule of an op type of which one input may be padded.

    `rule` takes the node, the number of that input, and the dimension in which it is padded.
    """

    def of_one(node: Node, places: Sequence[Place]) -> int | None:
        if len(places) > 1:
            return None
        return rule(node, places[0].index, places[0].padding.axis)

    return of_one


def by_element(node: Node, places: Sequence[Place]) -> int | None:
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


def joined(node: Node, places: Sequence[Place]) -> int | None:
    axes = {p.padding.axis for p in places}
    if len(places) < len(node) or len(axes) > 1 or node.axis() in axes:
        return None
    return axes.pop()


@single
def viewed(node: Node, index: int, axis: int) -> int | None:
    """Return the dimension of a view that holds the elements of `axis`; None where none does."""
    if index:
        return None
    before, after = node.shape(), node.output_shape()
    for place, size in enumerate(after):
        if size == before[axis] and math.prod(after[:place]) == math.prod(before[:axis]):
            return place
    return None


@single
def transposed(node: Node, _: int, axis: int) -> int:
    order = node.attribute("perm") or [*reversed(range(node.rank()))]
    return order.index(axis)


@single
def gathered(node: Node, index: int, axis: int) -> int | None:
    along = node.axis()
    if index == 1:
        return along + axis
    if axis == along:
        return None
    return axis if axis < along else axis - 1 + node.rank(1)


@single
def gathered_nd(node: Node, index: int, axis: int) -> int | None:
    return axis if index == 1 and axis < node.rank(1) - 1 else None


@single
def sliced(node: Node, index: int, axis: int) -> int | None:
    axes = node.attribute("axes") if node.version < 10 else node.constant(3)
    if index or axes is None:
        return None
    return None if axis in [node.from_start(int(a), node.rank()) for a in axes] else axis


def _kept(node: Node, index: int, axis: int) -> int | None:
    return None if index or node.axis() == axis else axis


kept = single(_kept)


@single
def lines(node: Node, index: int, axis: int) -> int | None:
    return _kept(node, index, axis) if node.version >= 13 else None  # several axes before


@single
def arg(node: Node, index: int, axis: int) -> int | None:
    along = node.axis()
    if along == axis:
        return None
    return axis if node.attribute("keepdims") or axis < along else axis - 1


@single
def multiplied(node: Node, index: int, axis: int) -> int | None:
    return axis if index == 0 and axis == node.rank() - 2 and node.rank(1) <= 2 else None


@single
def reduced(node: Node, index: int, axis: int) -> int | None:
    known = node.known(1)
    axes = node.attribute("axes") if known is None else known.tolist()
    if index or not axes:
        return None
    over = {node.from_start(int(a), node.rank()) for a in axes}
    if axis in over:
        return None
    return axis if node.attribute("keepdims") else axis - sum(a < axis for a in over)

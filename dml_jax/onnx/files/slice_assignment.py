"""Assignments to a part of a tensor, `x[:, start:end] = value`, as PaddlePaddle exports them.

Its exports spread the value over a slice of `x`, and scatter it at a Range of indices. The size of
both follows from `start` and `end`, which data decide within a loop. A Where says the same without
such a size: it takes the value from `start` on and before `end`, and `x` elsewhere.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

from dml_jax.errors import DmlError
from dml_jax.onnx.files.attributes import attribute_value

_ALONG = ("Tile", "Expand")  # op types that repeat indices
_SAME = ("Squeeze", "Unsqueeze", "Reshape", "Identity")  # op types that keep elements

Makers = Mapping[str, onnx.NodeProto]


class _Assignment(NamedTuple):
    """An assignment to a part of a tensor, by the names of tensors.

    Attributes:
        data: the tensor, whose elements stay elsewhere.
        value: what is assigned; it is spread over the part.
        start: where the part begins along the axis, a list of one integer.
        end: where it ends.
        axis: the dimension.
        layout: the shape of indices along the axis: -1 there, and else 1.
    """

    data: str
    value: str
    start: str
    end: str
    axis: int
    layout: np.ndarray


def without_ranges(nodes: Sequence[onnx.NodeProto]) -> Sequence[onnx.NodeProto]:
    """Return the nodes of a graph with a Where in place of each scattered assignment."""
    makers = {name: node for node in nodes for name in node.output if name}
    made = list[onnx.NodeProto]()
    for node in nodes:
        found = _assignment(node, makers)
        made += [node] if found is None else _chosen(found, node.output[0])
    return made


def _assignment(node: onnx.NodeProto, makers: Makers) -> _Assignment | None:
    """Return what a node assigns; None where it is no assignment to a slice."""
    attributes = {a.name: a for a in node.attribute}
    if node.op_type != "ScatterElements" or node.domain or "reduction" in attributes:
        return None
    if len(node.input) != 3 or len(node.output) != 1:
        return None
    data, indices, updates = node.input
    spread = _made("Expand", 2, updates, makers)
    shape = spread and _made("Shape", 1, spread.input[1], makers)
    part = shape and _made("Slice", 5, shape.input[0], makers)
    if spread is None or part is None or part.input[0] != data:
        return None
    laid = _made("Reshape", 2, _source(indices, makers, _ALONG), makers)
    counted = laid and _made("Range", 3, _source(laid.input[0], makers), makers)
    layout = laid and _constant(laid.input[1], makers)
    axes, step = (_constant(name, makers) for name in part.input[3:5])
    if laid is None or counted is None or axes is None or axes.size != 1:
        return None
    if layout is None or layout.ndim != 1 or not layout.size:
        return None
    places = [_source(name, makers) for name in counted.input[:2]]
    is_same = places == [_source(name, makers) for name in part.input[1:3]]
    steps = step, _constant(_source(counted.input[2], makers), makers)
    axis = attributes["axis"].i if "axis" in attributes else 0
    along = np.flatnonzero(layout == -1).tolist()
    is_plain = is_same and set(np.abs(layout).tolist()) == {1}
    is_plain &= along == [axis % len(layout)] == [int(axes.reshape(-1)[0]) % len(layout)]
    if not is_plain or any(s is None or s.tolist() not in (1, [1]) for s in steps):
        return None
    return _Assignment(data, spread.input[0], part.input[1], part.input[2], along[0], layout)


def _made(op_type: str, count: int, name: str, makers: Makers) -> onnx.NodeProto | None:
    """Return the node of an op type that makes a tensor of `count` inputs; None for another one."""
    node = makers.get(name)
    fits = node is not None and node.op_type == op_type and not node.domain
    return node if node is not None and fits and len(node.input) >= count else None


def _source(name: str, makers: Makers, kinds: Collection[str] = _SAME) -> str:
    """Return the tensor that nodes of some op types make another one of."""
    seen = set[str]()
    while (node := makers.get(name)) is not None and node.op_type in kinds and name not in seen:
        seen.add(name)
        name = node.input[0] if node.input else ""
    return name


def _constant(name: str, makers: Makers) -> np.ndarray | None:
    """Return the integers that a Constant gives; None for another tensor."""
    node = _made("Constant", 0, name, makers)
    if node is None or not node.attribute:
        return None
    try:
        array = np.asarray(attribute_value(node.attribute[0]))
    except DmlError:  # which the node raises again where it is translated
        return None
    return array if array.dtype.kind == "i" else None


def _chosen(found: _Assignment, output: str) -> list[onnx.NodeProto]:
    """Return the nodes that assign by a Where."""
    made = list[onnx.NodeProto]()

    def add(op_type: str, *inputs: str, **attributes: Any) -> str:
        name = f"{output}/{len(made)}"
        made.append(helper.make_node(op_type, inputs, [name], **attributes))
        return name

    def number(value: Any) -> str:
        return add("Constant", value=numpy_helper.from_array(np.asarray(value, np.int64)))

    zero, one = number(0), number(1)
    size = add("Gather", add("Shape", found.data), number(found.axis))
    places = add("Reshape", add("Range", zero, size, one), number(found.layout))

    def is_before(end: str) -> str:
        """Add whether each place is before `end`, which counts from the end if it is negative."""
        place = add("Cast", end, to=onnx.TensorProto.INT64)
        back = add("Add", place, size)
        return add("Less", places, add("Where", add("Less", place, zero), back, place))

    is_part = add("And", add("Not", is_before(found.start)), is_before(found.end))
    made.append(helper.make_node("Where", [is_part, found.value, found.data], [output]))
    return made

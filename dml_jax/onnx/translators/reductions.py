"""Reductions."""

import math
from typing import Any

import numpy as np

from dml_jax import functional as dml
from dml_jax.graph import Expression
from dml_jax.onnx import ragged, ranges
from dml_jax.onnx.nodes import Node, translates
from dml_jax.onnx.reshapes import reshaped
from dml_jax.onnx.tensors import Padding

FUNCTIONS = {
    "ReduceL1": "L1",
    "ReduceL2": "L2",
    "ReduceLogSum": "LOG_SUM",
    "ReduceLogSumExp": "LOG_SUM_EXP",
    "ReduceMax": "MAX",
    "ReduceMean": "AVERAGE",
    "ReduceMin": "MIN",
    "ReduceProd": "MULTIPLY",
    "ReduceSum": "SUM",
    "ReduceSumSquare": "SUM_SQUARE",
}
BY_INPUT = {op_type: 13 if op_type == "ReduceSum" else 18 for op_type in FUNCTIONS}


def _reduce_by_attribute(node: Node) -> Any:
    return _reduced(node, node.attribute("axes"))


def _reduce_by_input(node: Node) -> Any:
    return _reduced(node, node.constant(1))


_RANGES = {
    **{f"Reduce{name}": ranges.total for name in ("L1", "Sum")},
    **{f"Reduce{name}": ranges.product for name in ("Prod", "SumSquare")},
}
_FILLS = {
    "ReduceLogSumExp": -math.inf,
    "ReduceMax": ragged.least,
    "ReduceMin": ragged.most,
    "ReduceProd": 1,
}
for _op_type, _since in BY_INPUT.items():
    translates(_op_type)(_reduce_by_attribute)
    _padded = ragged.reduced(_FILLS.get(_op_type, 0))
    _facts = {"padded": _padded, "range": _RANGES.get(_op_type)}
    translates(_op_type, since=_since, **_facts)(_reduce_by_input)


def _reduced(node: Node, given: Any) -> Any:
    """Reduce the axes; all of them where none is given, unless the node says otherwise."""
    axes = [] if given is None else [node.from_start(int(a), node.rank(), "axes") for a in given]
    if not axes and not node.attribute("noop_with_empty_axes", 0):
        axes = [*range(node.rank())]
    if not axes:
        return _of_each(node)
    x, axes = node[0], sorted(set(axes))
    if node.op_type == "ReduceL2" and not node.type().is_floating:
        total = dml.cast(dml.reduce(x, "SUM_SQUARE", axes), node.type().real)
        return dml.cast(dml.sqrt(total), node.output_type())
    padding = node.tensor(0).padding
    if node.op_type == "ReduceMean" and padding and padding.axis in axes:
        return _mean(node, x, axes, padding)
    return dml.reduce(x, FUNCTIONS[node.op_type], axes)


def _mean(node: Node, x: Expression, axes: list[int], padding: Padding) -> Expression:
    """Return the mean of what is there, of which the padding is 0."""
    is_narrow = x.desc.data_type.name == "FLOAT16"
    x = dml.cast(x, "FLOAT32") if is_narrow else x
    count = dml.cast(padding.count.expression, x.desc.data_type)
    others = math.prod(node.shape()[d] for d in axes if d != padding.axis)
    total = dml.reduce(x, "SUM", axes)
    made = total / reshaped(count * others, (1,) * len(total.sizes))
    return dml.cast(made, "FLOAT16") if is_narrow else made


def _of_each(node: Node) -> Any:
    """Return what reducing no axes gives: the function of each element."""
    if node.op_type in ("ReduceL1", "ReduceL2"):
        return dml.abs(node[0])
    if node.op_type == "ReduceSumSquare":
        return dml.multiply(node[0], node[0])
    return dml.log(node[0]) if node.op_type == "ReduceLogSum" else node.tensor(0)


@translates("ArgMax", padded=ragged.arg(ragged.least), range=ranges.along)
@translates("ArgMin", padded=ragged.arg(ragged.most), range=ranges.along)
def _arg(node: Node) -> Expression | np.ndarray:
    function = dml.argmax if node.op_type == "ArgMax" else dml.argmin
    direction = "DECREASING" if node.attribute("select_last_index", 0) else "INCREASING"
    made, padding = function(node[0], [node.axis()], direction, node.output_type()), None
    padding = node.tensor(0).padding
    if padding and padding.axis == node.axis() and direction == "DECREASING":
        end = dml.cast(padding.count.expression, node.output_type()) - 1  # the padding may be equal
        made = dml.min(made, reshaped(end, (1,) * len(made.sizes)))
    return made

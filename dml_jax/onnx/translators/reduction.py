"""Reductions."""

import math
from typing import Any

import numpy as np

from dml_jax import functional as dml
from dml_jax.enums import ReduceFunction
from dml_jax.graph import Expression
from dml_jax.lowering.dtypes import has_x64
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import translates
from dml_jax.onnx.nodes.reshapes import reshape
from dml_jax.onnx.nodes.tensor import Count
from dml_jax.onnx.sizes import counts, integer_ranges, padding_rules

REDUCTIONS: dict[str, tuple[str, Any, Any]] = {  # the function, the padding's value, the bounds
    "ReduceL1": ("L1", 0, integer_ranges.total),
    "ReduceL2": ("L2", 0, None),
    "ReduceLogSum": ("LOG_SUM", 0, None),
    "ReduceLogSumExp": ("LOG_SUM_EXP", -math.inf, None),
    "ReduceMax": ("MAX", counts.least, None),
    "ReduceMean": ("AVERAGE", 0, None),
    "ReduceMin": ("MIN", counts.most, None),
    "ReduceProd": ("MULTIPLY", 1, integer_ranges.product),
    "ReduceSum": ("SUM", 0, integer_ranges.total),
    "ReduceSumSquare": ("SUM_SQUARE", 0, integer_ranges.product),
}


def _reduce(node: Node) -> Any:
    """Reduce the axes; all of them where none is given, unless the node says otherwise."""
    given = node.constant(1) if node.has(1) else node.attribute("axes")
    axes = [] if given is None else [node.from_start(int(a), node.rank(), "axes") for a in given]
    if not axes and not node.attribute("noop_with_empty_axes", 0):
        axes = [*range(node.rank())]
    if not axes:
        return _of_each(node)
    x, axes, kind = node[0], sorted(set(axes)), node.type()
    # Sums and squares of integers wrap; of 64 bits ONNX Runtime computes them in FLOAT64 too.
    if node.op_type in ("ReduceL2", "ReduceMean") and not kind.is_floating:
        x = dml.cast(x, "FLOAT64" if has_x64() and node.builder.beyond else kind.real)
    count = node.tensor(0).count
    if node.op_type == "ReduceMean" and count and count.axis in axes:
        made = _mean(node, x, axes, count)
    else:
        made = dml.reduce(x, ReduceFunction.of(REDUCTIONS[node.op_type][0]), axes)
    return made if made.desc.data_type == node.output_type() else dml.cast(made, node.output_type())


def _mean(node: Node, x: Expression, axes: list[int], count: Count) -> Expression:
    """Return the mean of what is there, of which the padding is 0; of nothing it is 0."""
    x = dml.cast(x, "FLOAT32") if x.desc.data_type.name == "FLOAT16" else x
    number = dml.max(dml.cast(count.number.expression, x.desc.data_type), 1)
    others = math.prod(node.shape()[d] for d in axes if d != count.axis)
    total = dml.reduce(x, "SUM", axes)
    return total / reshape(number * others, (1,) * len(total.sizes))


def _of_each(node: Node) -> Any:
    """Return what reducing no axes gives: the function of each element."""
    if node.op_type in ("ReduceL1", "ReduceL2") and node.type().dtype.kind != "u":
        return dml.abs(node[0])
    if node.op_type == "ReduceSumSquare":
        return dml.multiply(node[0], node[0])
    if node.op_type == "ReduceLogSum":
        return dml.cast(dml.log(dml.cast(node[0], node.type().real)), node.output_type())
    return node.tensor(0)


for _op_type, (_, _fill, _bounds) in REDUCTIONS.items():
    translates(_op_type, padding=padding_rules.reduce_rule(_fill), integers=_bounds)(_reduce)


@translates("ArgMax", padding=padding_rules.arg_rule(counts.least), integers=integer_ranges.along)
@translates("ArgMin", padding=padding_rules.arg_rule(counts.most), integers=integer_ranges.along)
def _arg(node: Node) -> Expression | np.ndarray:
    direction = "DECREASING" if node.attribute("select_last_index", 0) else "INCREASING"
    made = node.function(node[0], [node.axis()], direction, node.output_type())
    count = node.tensor(0).count
    if count and count.axis == node.axis() and direction == "DECREASING":
        # Padding may equal the extreme, and the last place wins: it must not lie in the padding.
        end = dml.cast(count.number.expression, node.output_type()) - 1
        made = dml.min(made, reshape(end, (1,) * len(made.sizes)))
    return made

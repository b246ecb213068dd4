"""Gathers, scatters, scans, and the largest elements."""

import math
from typing import Any

import numpy as np

from dml_jax import functional as dml
from dml_jax.enums import TensorDataType
from dml_jax.errors import Unquoted
from dml_jax.graph import Expression
from dml_jax.onnx.files.attributes import MICROSOFT
from dml_jax.onnx.files.types import Type, index_type
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import translates
from dml_jax.onnx.nodes.reshapes import cut, of_rank, on_axis, reshape, spread, taken, transpose
from dml_jax.onnx.nodes.tensor import Padded
from dml_jax.onnx.sizes import counts, integer_ranges, padding_rules, symbolic_sizes


@translates("Gather", integers=integer_ranges.first, elements=symbolic_sizes.gather)
@translates("Gather", padding=padding_rules.gather_rule)
def _gather(node: Node) -> Expression:
    axis = node.axis()
    return taken(node[0], counts.from_the_start(node, axis), axis)


def check_places(node: Node) -> None:
    """Raise `DmlError` where indices have other sizes than their elements, or than the data."""
    shape, wanted, axis = node.shape(), node.shape(1), node.axis()
    is_right = len(wanted) == len(shape) and all(
        d == axis or n <= most for d, (n, most) in enumerate(zip(wanted, shape, strict=True))
    )
    rule = f"have at most the sizes {list(shape)}, but for dimension {axis}"
    node.expect(is_right, "indices", rule, list(wanted))
    if node.has(2):
        rule = f"have the sizes {list(wanted)}, as the indices"
        node.expect(node.shape(2) == wanted, "updates", rule, list(node.shape(2)))


@translates("GatherElements", integers=integer_ranges.first)
@translates("GatherElements", padding=padding_rules.gather_elements_rule)
def _gather_elements(node: Node) -> Expression:
    check_places(node)
    axis, data, wanted = node.axis(), node[0], node.shape(1)
    sizes = [n if d == axis else wanted[d] for d, n in enumerate(node.shape())]
    # DirectML wants equal sizes but along the axis; ONNX reads no element beyond the indices.
    data = cut(data, sizes or (1,))
    return dml.gather_elements(data, counts.from_the_start(node, axis), axis)


@translates("GatherND", domain=MICROSOFT, integers=integer_ranges.first)
@translates("GatherND", domain=MICROSOFT, padding=padding_rules.gather_nd_rule)
@translates("GatherND", padding=padding_rules.gather_nd_rule, integers=integer_ranges.first)
def _gather_nd(node: Node) -> Expression:
    batch, ranks = node.attribute("batch_dims", 0), (node.rank(0), node.rank(1))
    made = batch + (ranks[1] - 1 - batch) + (ranks[0] - batch - node.shape(1)[-1])
    rank = max(*ranks, made)
    data, indices = of_rank(node[0], rank), of_rank(_places(node, batch), rank)
    # ONNX's inference leaves out the type of a result that is a scalar.
    if not made and node.types[0]:
        node.types = [Type(node.types[0].element, ())]
    found = dml.gather_nd(data, indices, *ranks, batch)
    return reshape(found, (*node.shape(1)[:-1], *node.shape()[batch + node.shape(1)[-1] :]))


def _places(node: Node, batch: int = 0) -> Expression:
    """Return the second input, places in the first: negative ones count from the last element."""
    count, indices, depth = node.tensor(0).count, node[1], node.shape(1)[-1]
    if count is None or not batch <= count.axis < batch + depth:
        return indices
    is_own = np.arange(depth) == count.axis - batch
    own = node.builder.constant(is_own.astype(indices.dtype))
    own = on_axis(own, node.rank(1) - 1, node.rank(1))
    return dml.if_(dml.equals(own, 1), counts.from_the_start(node, count.axis), indices)


def _check_reduction(node: Node) -> None:
    reduction = node.attribute("reduction", "none")
    rule = "be 'none', since DirectML has no operator for others"
    node.expect(reduction == "none", "reduction", rule, reduction)


@translates("Scatter", "ScatterElements")
def _scatter_elements(node: Node) -> Any:
    _check_reduction(node)
    check_places(node)
    if node.type(1).is_empty:
        return node.tensor(0)
    axis, shape, wanted = node.axis(), node.shape(), node.shape(1)
    if all(d == axis or n == wanted[d] for d, n in enumerate(shape)):
        return dml.scatter_elements(node[0], node[1], node[2], axis)
    # Indices that are smaller than the data: the place of each update, written out.
    kind = node[1].desc.data_type
    places = []
    for d, size in enumerate(wanted):
        own = dml.fill_value_sequence((size,), kind, 0, 1, graph=node.builder)
        own = reshape(own, [size if k == d else 1 for k in range(len(wanted))])
        place = node[1] if d == axis else dml.identity(spread(own, wanted))
        places.append(reshape(place, (math.prod(wanted), 1)))
    rank = max(len(shape), 2)
    indices = of_rank(dml.join(places, 1) if len(places) > 1 else places[0], rank)
    updates = of_rank(reshape(node[2], (math.prod(wanted),)), rank)
    return dml.scatter_nd(of_rank(node[0], rank), indices, updates, len(shape), 2)


@translates("ScatterND", padding=padding_rules.scatter_nd_rule)
def _scatter_nd(node: Node) -> Any:
    _check_reduction(node)
    if node.type(1).is_empty:
        return node.tensor(0)
    rank, ranks = max(node.rank(k) for k in range(3)), (node.rank(0), node.rank(1))
    data, indices, count = node[0], _places(node), node.tensor(1).count
    # An update in the padding has no index: it goes to one more row behind the data, cut off later.
    if count is not None:
        data = dml.padding(data, "CONSTANT", 0.0, [0] * ranks[0], [1, *[0] * (ranks[0] - 1)])
        behind = np.array([node.shape()[0], *[0] * (node.shape(1)[-1] - 1)], indices.dtype)
        last = on_axis(node.builder.constant(behind), ranks[1] - 1, ranks[1])
        indices = dml.if_(counts.mask(node.tensor(1)), indices, last)
    data, indices, updates = (of_rank(x, rank) for x in (data, indices, node[2]))
    made = dml.scatter_nd(data, indices, updates, *ranks)
    if count is None:
        return made
    made = reshape(made, (node.shape()[0] + 1, *node.shape()[1:]))
    return dml.slice(made, [0] * ranks[0], node.shape(), [1] * ranks[0])


@translates("TopK", padding=padding_rules.top_k_rule, integers=integer_ranges.top_k)
def _top_k(node: Node) -> Any:
    count = None if node.version < 10 or node.tensor(1).is_known else node[1]
    if count is not None:  # all are ranked, of which the first ones are there
        node.expect(math.prod(count.sizes) == 1, "K", "have one element", count.sizes)
        k = node.shape()[node.axis()]
        return [
            None if x is None else Padded(x, node.axis(), count) for x in _first_elements(node, k)
        ]
    k = node.attribute("k") if node.version < 10 else node.number(1)
    most = node.shape()[node.axis()]
    node.expect(0 <= k <= most, "K", f"be in [0, {most}]", k)
    return _first_elements(node, k)


def _first_elements(node: Node, k: int) -> list[Expression | None]:
    """Return the `k` first elements, and their places if the node asks for these."""
    is_largest, axis, x = node.attribute("largest", 1), node.axis(), node[0]
    if is_largest or not node.type().is_floating:
        values, places = dml.top_k(x, axis, k, "DECREASING" if is_largest else "INCREASING")
    else:
        # DirectML has NaN first among the least numbers, ONNX Runtime last: ONNX Runtime wins.
        places = dml.top_k(_ranks(x), axis, k, "INCREASING")[1]
        values = dml.gather_elements(x, places, axis)
    kind = node.types[1] if len(node.types) > 1 else None
    return [values, dml.cast(places, kind.inner) if kind else None]


def _ranks(x: Expression) -> Expression:
    """Return integers in the order of floats: 0 and -0 are equal, and NaN is the largest."""
    x = dml.if_(dml.is_nan(x), math.nan, x)
    kind = TensorDataType.of(f"INT{8 * x.dtype.itemsize}")
    bits = x.reinterpret(x.sizes, data_type=kind)
    ranks = dml.if_(dml.less_than(bits, 0), bits ^ int(np.iinfo(kind.dtype).max), bits)
    return dml.if_(dml.equals(ranks, -1), 0, ranks)  # -0


@translates("OneHot", must_fit=True)
def _one_hot(node: Node) -> Expression:
    rank, depth = node.rank() + 1, int(node.number(1))
    node.expect(depth > 0, "depth", "be at least 1", depth)
    axis = node.from_start(node.attribute("axis"), rank)
    shape, indices = [*node.shape()[:axis], 1, *node.shape()[axis:]], node[0]
    if indices.dtype not in (np.int32, np.int64):
        indices = dml.cast(indices, "INT32")
    indices = reshape(indices, shape)
    return dml.one_hot(indices, of_rank(node[2], rank), depth, axis)


@translates("CumSum", padding=padding_rules.scan_rule(0), integers=integer_ranges.total)
@translates("CumProd", padding=padding_rules.scan_rule(1), integers=integer_ranges.product)
def _cumulative(node: Node) -> Expression:
    direction = "DECREASING" if node.attribute("reverse") else "INCREASING"
    is_exclusive = bool(node.attribute("exclusive"))
    if node.tensor(1).is_known:
        along = node.from_start(node.number(1), node.rank())
        return node.function(node[0], along, direction, is_exclusive)
    given = reshape(node[1], (1,) * node.rank())  # it comes at run time: of all axes, its own
    made = node.function(node[0], 0, direction, is_exclusive)
    for d in range(1, node.rank()):
        is_own = dml.logical_or(dml.equals(given, d), dml.equals(given, d - node.rank()))
        made = dml.if_(is_own, node.function(node[0], d, direction, is_exclusive), made)
    return made


@translates("NonZero", counted=0, integers=integer_ranges.places)
@translates("NonZero", padding=padding_rules.fill_rule(0))
def _non_zero(node: Node) -> Any:
    node.expect(node.rank(), "X", "have a dimension", Unquoted("a scalar"))
    if node.type().is_empty:
        return np.zeros((node.rank(), 0), np.int64)
    x, kind = node[0], index_type()
    x = dml.logical_not(dml.equals(x, 0)) if node.type().dtype.itemsize == 8 else x
    count, places = dml.non_zero_coordinates(x)
    places = dml.cast(dml.identity(transpose(places, (1, 0))), kind)
    return Padded(places, 1, dml.cast(count, kind))

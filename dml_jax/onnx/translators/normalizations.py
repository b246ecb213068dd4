"""Normalizations.

Inputs of several types are computed in the widest one, and results are rounded once.
"""

import math
from typing import Any

import onnx

from dml_jax import functional as dml
from dml_jax.enums import TensorDataType
from dml_jax.graph import Expression
from dml_jax.onnx.files.attributes import MICROSOFT
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import MISREAD, translates
from dml_jax.onnx.nodes.reshapes import (
    as_type,
    of_rank,
    on_axis,
    reshape,
    taken,
    with_channels_last,
    with_channels_second,
)
from dml_jax.onnx.sizes import padding_rules


@translates("BatchNormalization", padding=padding_rules.batch_rule, misread_before=14)
def _batch(node: Node) -> Any:
    if node.version >= 14 and node.attribute("training_mode"):
        return _training(node)
    rank = max(node.rank(), 2)
    x, *parameters = of_one_type(node, *range(5))
    x = x if node.rank() > 1 else reshape(x, (*x.sizes, 1))
    scale, bias, mean, variance = (_of_channels(p, rank) for p in parameters)
    epsilon = node.attribute("epsilon")
    made = dml.batch_normalization(x, mean, variance, scale, bias, True, epsilon)
    return as_type(made, node.output_type())


def _of_channels(x: Expression, rank: int) -> Expression:
    """Return a parameter of the channels, or (opset 7) of all elements of a sample."""
    return on_axis(x, 1, rank) if len(x.sizes) == 1 else reshape(x, (1, *x.sizes))


def _training(node: Node) -> Any:
    rank, epsilon = node.rank(), node.attribute("epsilon")
    none: Any = None  # no tensor is added
    x, *parameters = of_one_type(node, *range(5))
    scale, bias, *before = (on_axis(p, 1, rank) for p in parameters)
    y, mean, variance = dml.batch_normalization_training(x, scale, bias, none, epsilon)
    momentum = node.attribute("momentum")
    pairs = zip(before, (mean, variance), strict=True)
    running = [old * momentum + own * (1 - momentum) for old, own in pairs]
    pairs = zip((y, *running), node.types, strict=False)
    return [None if kind is None else as_type(made, kind.inner) for made, kind in pairs]


def of_one_type(node: Node, *indices: int, kind: TensorDataType | None = None) -> list[Expression]:
    """Return inputs of a node with elements of one type: `kind`, or else the widest of theirs."""
    types = [node.type(k) for k in indices]
    if kind is None:
        kind = max((t.inner for t in types), key=lambda inner: inner.bits)
        if len({t.element for t in types}) == 1:
            return [node[k] for k in indices]
    return [  # a BFLOAT16 array would have all that it meets rounded to BFLOAT16
        dml.cast(node[k], kind) if t.name == "BFLOAT16" else as_type(node[k], kind)
        for k, t in zip(indices, types, strict=True)
    ]


def _normalize(
    x: Expression, scale: Any, bias: Any, axes: Any, epsilon: float, has_mean: bool = True
) -> Expression:
    return dml.mean_variance_normalization(x, scale, bias, [*axes], True, has_mean, epsilon)


def _check_channels(node: Node, count: int) -> None:
    """Raise `DmlError` unless the scale and the bias have `count` elements."""
    for k in (1, 2):
        rule = f"have {count} elements"
        node.expect(node.shape(k) == (count,), node.input_name(k), rule, list(node.shape(k)))


@translates("InstanceNormalization", padding=padding_rules.batch_rule)
def _instance(node: Node) -> Expression:
    rank = node.rank()
    _check_channels(node, node.shape()[1])
    scale, bias = (on_axis(node[k], 1, rank) for k in (1, 2))
    return _normalize(node[0], scale, bias, range(2, rank), node.attribute("epsilon"))


@translates("LayerNormalization", padding=padding_rules.layer_norm_rule)
def _layer(node: Node) -> Any:
    axes, epsilon = range(node.axis(), node.rank()), node.attribute("epsilon")
    x, *parameters = of_one_type(node, *filter(node.has, range(3)))
    scale, bias, *_ = *(of_rank(p, node.rank()) for p in parameters), None
    y = as_type(_normalize(x, scale, bias, axes, epsilon), node.output_type())
    if len(node.types) == 1:
        return y
    x = as_type(x, node.types[1].inner if node.types[1] else TensorDataType.FLOAT32)
    mean = dml.reduce(x, "AVERAGE", [*axes])
    variance = dml.reduce(dml.difference_square(x, mean), "AVERAGE", [*axes])
    return (y, mean, dml.recip(dml.sqrt(variance + epsilon)))[: len(node.types)]


def _type_of_scale(proto: onnx.NodeProto, kinds: dict[str, onnx.TypeProto], _: Any) -> None:
    """Give the input the type of the scale, which the output has: inference takes the input's."""
    if len(kinds) == 2:
        x, scale = (kinds[name].tensor_type for name in proto.input)
        x.elem_type = scale.elem_type


def _by_group(
    x: Expression, scale: Expression, bias: Expression, groups: int, epsilon: float
) -> Expression:
    """Return [batch, channels, ...] normalized by groups of channels.

    Parameters are of each channel, or of each group.
    """
    n, c, *spatial = x.sizes
    rows = reshape(x, (n, groups, c // groups, math.prod(spatial)))
    scale, bias = (reshape(p, (1, groups, p.sizes[0] // groups, 1)) for p in (scale, bias))
    return reshape(_normalize(rows, scale, bias, (2, 3), epsilon), x.sizes)


@translates("GroupNormalization", padding=padding_rules.batch_rule, inferred_since=21)
def _group(node: Node) -> Expression:
    groups, epsilon = node.attribute("num_groups"), node.attribute("epsilon")
    _check_channels(node, groups if node.version < 21 else node.shape()[1])
    return _by_group(node[0], node[1], node[2], groups, epsilon)


@translates("GroupNorm", domain=MICROSOFT)
def _group_of_image(node: Node) -> Expression:
    node.expect(node.rank() == 4, "X", "have 4 dimensions", node.rank())
    is_last, groups = bool(node.attribute("channels_last", 1)), node.attribute("groups")
    x, scale, bias = of_one_type(node, 0, 1, 2)
    x = with_channels_second(x) if is_last else x
    made: Any = _by_group(x, scale, bias, groups, node.attribute("epsilon", 1e-5))
    made = dml.activation_swish(made, 1.0) if node.attribute("activation", 0) else made
    made = as_type(made, node.type().inner)
    return with_channels_last(made) if is_last else made


@translates("SimplifiedLayerNormalization")
@translates("RMSNormalization", inferred_as=_type_of_scale, padding=padding_rules.layer_norm_rule)
def _root_mean_square(node: Node) -> Any:
    axis = node.from_start(node.attribute("axis", -1), node.rank())
    axes, epsilon = range(axis, node.rank()), node.attribute("epsilon", 1e-5)
    x, scale = of_one_type(node, 0, 1)
    made = _normalize(x, of_rank(scale, node.rank()), None, axes, epsilon, has_mean=False)
    return as_type(made, node.type(1).inner), *[None] * (len(node.types) - 1)


@translates("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def _skip(node: Node) -> Any:
    has_mean = node.op_type == "SkipLayerNormalization"
    at_bias, kind = (4 if has_mean else 3), node.type().inner
    given = [k for k in range(5) if node.has(k)]
    wide = dict(zip(given, of_one_type(node, *given, kind=TensorDataType.FLOAT32), strict=True))
    total = wide[0] + wide[1]
    total = total + wide[at_bias] if at_bias in wide else total
    rank, epsilon = len(total.sizes), node.attribute("epsilon", 1e-12)
    beta = of_rank(wide[3], rank) if has_mean and 3 in wide else None
    y = _normalize(total, of_rank(wide[2], rank), beta, [rank - 1], epsilon, has_mean)
    return (as_type(y, kind), None, None, as_type(total, kind))[: len(node.types)]


@translates("EmbedLayerNormalization", domain=MICROSOFT)
def _embedding(node: Node) -> Any:
    batch, sequence = node.shape()
    places = node.get(8)
    if places is None:
        places = dml.fill_value_sequence((1, sequence), "INT32", 0, 1, graph=node.builder)
    total = taken(node[2], node[0], 0) + taken(node[3], places, 0)
    total = total + taken(node[4], node[1], 0) if node.has(4) else total
    gamma, beta = (of_rank(node[k], 3) for k in (5, 6))
    y = _normalize(total, gamma, beta, [2], node.attribute("epsilon", 1e-12))
    if node.has(7):
        lengths = reshape(dml.reduce(dml.cast(node[7], "INT32"), "SUM", [1]), (batch,))
    else:
        lengths = dml.fill_value_constant((batch,), "INT32", 0, graph=node.builder)
    return (y, lengths, total)[: len(node.types)]


@translates("MeanVarianceNormalization")
def _mean_variance_of_channels(node: Node) -> Expression:
    axes = (0, 1, 2, 3) if node.attribute("across_channels", 0) else (0, 2, 3)
    if node.attribute("normalize_variance", 1):
        return _normalize(node[0], None, None, axes, 1e-18)
    return node[0] - dml.reduce(node[0], "AVERAGE", axes)


@translates("MeanVarianceNormalization", since=9)
def _mean_variance(node: Node) -> Expression:
    axes = [node.from_start(a, node.rank(), "axes") for a in node.attribute("axes")]
    # ONNX's reference adds 1e-9 to the root; this is the square of it below the root.
    return _normalize(node[0], None, None, axes, 1e-18)


@translates("LpNormalization", padding=padding_rules.softmax_rule(0))
def _lp(node: Node) -> Expression:
    return dml.lp_normalization(node[0], node.axis(), 1e-30, node.attribute("p"))


@translates("LRN", padding=padding_rules.batch_rule, misread_before=MISREAD)
def _local_response(node: Node) -> Expression:
    n, c, *spatial = node.shape()
    x = reshape(node[0], (n, c, 1, math.prod(spatial))) if node.rank() != 4 else node[0]
    values = [node.attribute(name) for name in ("size", "alpha", "beta", "bias")]
    return dml.local_response_normalization(x, True, *values)

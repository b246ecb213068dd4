"""Normalizations."""

import math
from typing import Any

from dml_jax import functional as dml
from dml_jax.graph import Expression
from dml_jax.onnx.nodes import Node, translates
from dml_jax.onnx.views import on_axis, reshaped


@translates("BatchNormalization")
def _batch(node: Node) -> Any:
    if node.version >= 14 and node.attribute("training_mode"):
        return _training(node)
    x, rank = node[0], max(node.rank(), 2)
    x = x if node.rank() > 1 else reshaped(x, (*x.sizes, 1))
    kind = x.desc.data_type
    scale, bias, mean, variance = (_as_type(_of_channels(node, k, rank), kind) for k in range(1, 5))
    epsilon = node.attribute("epsilon")
    return dml.batch_normalization(x, mean, variance, scale, bias, True, epsilon)


def _of_channels(node: Node, index: int, rank: int) -> Expression:
    """Return a parameter of the channels, or (opset 7) of all elements of a sample."""
    if node.rank(index) == 1:
        return on_axis(node[index], 1, rank)
    return reshaped(node[index], (1, *node.shape(index)))


def _training(node: Node) -> Any:
    x, rank, epsilon = node[0], node.rank(), node.attribute("epsilon")
    none: Any = None  # no tensor is added
    scale, bias = (on_axis(node[k], 1, rank) for k in (1, 2))
    y, mean, variance = dml.batch_normalization_training(x, scale, bias, none, epsilon)
    momentum = node.attribute("momentum")
    running = [
        on_axis(node[k], 1, rank) * momentum + own * (1 - momentum)
        for k, own in ((3, mean), (4, variance))
    ]
    return (y, *running)


def _as_type(x: Expression, kind: Any) -> Expression:
    return x if x.desc.data_type == kind else dml.cast(x, kind)


def _normalized(
    x: Expression, scale: Any, bias: Any, axes: Any, epsilon: float, has_mean: bool = True
) -> Expression:
    return dml.mean_variance_normalization(x, scale, bias, [*axes], True, has_mean, epsilon)


@translates("InstanceNormalization")
def _instance(node: Node) -> Expression:
    rank = node.rank()
    scale, bias = (on_axis(node[k], 1, rank) for k in (1, 2))
    return _normalized(node[0], scale, bias, range(2, rank), node.attribute("epsilon"))


def _aligned(node: Node, index: int, kind: Any) -> Expression | None:
    """Return a parameter of the last dimensions; None where it is left out."""
    if not node.has(index):
        return None
    sizes = (1,) * (node.rank() - node.rank(index)) + node.shape(index)
    return _as_type(reshaped(node[index], sizes), kind)


@translates("LayerNormalization")
def _layer(node: Node) -> Any:
    axes, epsilon = range(node.axis(), node.rank()), node.attribute("epsilon")
    x = node[0]
    scale, bias = (_aligned(node, k, x.desc.data_type) for k in (1, 2))
    y = _normalized(x, scale, bias, axes, epsilon)
    if len(node.types) == 1:
        return y
    x = _as_type(x, node.types[1].inner if node.types[1] else "FLOAT32")
    mean = dml.reduce(x, "AVERAGE", [*axes])
    variance = dml.reduce(dml.difference_square(x, mean), "AVERAGE", [*axes])
    return (y, mean, dml.recip(dml.sqrt(variance + epsilon)))[: len(node.types)]


@translates("RMSNormalization")
def _root_mean_square(node: Node) -> Expression:
    axes, epsilon = range(node.axis(), node.rank()), node.attribute("epsilon")
    x = _as_type(node[0], node.output_type())
    scale = _aligned(node, 1, x.desc.data_type)
    return _normalized(x, scale, None, axes, epsilon, has_mean=False)


@translates("GroupNormalization")
def _group(node: Node) -> Expression:
    n, c, *spatial = node.shape()
    groups = node.attribute("num_groups")
    sizes = (n, groups, c // groups, math.prod(spatial))
    each = (1, groups, c // groups if node.version >= 21 else 1, 1)
    scale, bias = (reshaped(node[k], each) for k in (1, 2))
    x = reshaped(node[0], sizes)
    return reshaped(_normalized(x, scale, bias, (2, 3), node.attribute("epsilon")), node.shape())


@translates("MeanVarianceNormalization")
def _mean_variance(node: Node) -> Expression:
    axes = [node.from_start(a, node.rank(), "axes") for a in node.attribute("axes")]
    return _normalized(node[0], None, None, axes, 1e-18)  # ONNX adds 1e-9 to the root


@translates("LpNormalization")
def _lp(node: Node) -> Expression:
    return dml.lp_normalization(node[0], node.axis(), 1e-30, node.attribute("p"))


@translates("LRN")
def _local_response(node: Node) -> Expression:
    n, c, *spatial = node.shape()
    x = reshaped(node[0], (n, c, 1, math.prod(spatial))) if node.rank() != 4 else node[0]
    values = [node.attribute(name) for name in ("size", "alpha", "beta", "bias")]
    return dml.local_response_normalization(x, True, *values)

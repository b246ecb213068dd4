"""Normalizations.

Inputs of several types are computed in the widest one, and results are rounded once.
"""

import math
from typing import Any

import onnx

from dml_jax import functional as dml
from dml_jax.enums import TensorDataType
from dml_jax.graph import Expression
from dml_jax.onnx import ragged
from dml_jax.onnx.nodes import MISREAD, Node, translates
from dml_jax.onnx.reshapes import on_axis, reshaped


@translates("BatchNormalization", padded=ragged.batch, misread_before=14)
def _batch(node: Node) -> Any:
    if node.version >= 14 and node.attribute("training_mode"):
        return _training(node)
    rank = max(node.rank(), 2)
    x, *parameters = of_one_type(node, *range(5))
    x = x if node.rank() > 1 else reshaped(x, (*x.sizes, 1))
    scale, bias, mean, variance = (_of_channels(p, rank) for p in parameters)
    epsilon = node.attribute("epsilon")
    made = dml.batch_normalization(x, mean, variance, scale, bias, True, epsilon)
    return as_type(made, node.output_type())


def _of_channels(x: Expression, rank: int) -> Expression:
    """Return a parameter of the channels, or (opset 7) of all elements of a sample."""
    return on_axis(x, 1, rank) if len(x.sizes) == 1 else reshaped(x, (1, *x.sizes))


def _training(node: Node) -> Any:
    rank, epsilon = node.rank(), node.attribute("epsilon")
    none: Any = None  # no tensor is added
    x, *parameters = of_one_type(node, *range(5))
    scale, bias, *before = (on_axis(p, 1, rank) for p in parameters)
    y, mean, variance = dml.batch_normalization_training(x, scale, bias, none, epsilon)
    momentum = node.attribute("momentum")
    running = [
        old * momentum + own * (1 - momentum)
        for old, own in zip(before, (mean, variance), strict=True)
    ]
    pairs = zip((y, *running), node.types, strict=False)
    return [None if kind is None else as_type(made, kind.inner) for made, kind in pairs]


def as_type(x: Expression, kind: TensorDataType) -> Expression:
    """Return `x` with elements of another type."""
    return x if x.desc.data_type == kind else dml.cast(x, kind)


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


def _normalized(
    x: Expression, scale: Any, bias: Any, axes: Any, epsilon: float, has_mean: bool = True
) -> Expression:
    return dml.mean_variance_normalization(x, scale, bias, [*axes], True, has_mean, epsilon)


@translates("InstanceNormalization", padded=ragged.batch)
def _instance(node: Node) -> Expression:
    rank = node.rank()
    scale, bias = (on_axis(node[k], 1, rank) for k in (1, 2))
    return _normalized(node[0], scale, bias, range(2, rank), node.attribute("epsilon"))


def aligned(x: Expression, rank: int) -> Expression:
    """Return a parameter of the last of `rank` dimensions."""
    return reshaped(x, (1,) * (rank - len(x.sizes)) + tuple(x.sizes))


@translates("LayerNormalization", padded=ragged.trailing)
def _layer(node: Node) -> Any:
    axes, epsilon = range(node.axis(), node.rank()), node.attribute("epsilon")
    x, *parameters = of_one_type(node, *filter(node.has, range(3)))
    scale, bias, *_ = *(aligned(p, node.rank()) for p in parameters), None
    y = as_type(_normalized(x, scale, bias, axes, epsilon), node.output_type())
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


@translates("RMSNormalization", inferred_as=_type_of_scale, padded=ragged.trailing)
def _root_mean_square(node: Node) -> Expression:
    axes, epsilon = range(node.axis(), node.rank()), node.attribute("epsilon")
    x, scale = of_one_type(node, 0, 1)
    made = _normalized(x, aligned(scale, node.rank()), None, axes, epsilon, has_mean=False)
    return as_type(made, node.output_type())


@translates("GroupNormalization", padded=ragged.batch, inferred_since=21)
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


@translates("LpNormalization", padded=ragged.lines(0))
def _lp(node: Node) -> Expression:
    return dml.lp_normalization(node[0], node.axis(), 1e-30, node.attribute("p"))


@translates("LRN", padded=ragged.batch, misread_before=MISREAD)
def _local_response(node: Node) -> Expression:
    n, c, *spatial = node.shape()
    x = reshaped(node[0], (n, c, 1, math.prod(spatial))) if node.rank() != 4 else node[0]
    values = [node.attribute(name) for name in ("size", "alpha", "beta", "bias")]
    return dml.local_response_normalization(x, True, *values)

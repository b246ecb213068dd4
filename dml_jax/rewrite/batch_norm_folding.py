"""BATCH_NORMALIZATION becomes a part of the CONVOLUTION before it.

Source: the formula of DML_BATCH_NORMALIZATION_OPERATOR_DESC. A convolution is linear in its filter:

    scale * (conv(x, filter) + bias - mean) / sqrt(variance + epsilon) + shift
        = conv(x, factor * filter) + factor * (bias - mean) + shift,
    factor = scale / sqrt(variance + epsilon)

The graph computes the new filter and bias, as functions of the old ones.
"""

import math

from dml_jax import functional as dml
from dml_jax.enums import TensorDataType
from dml_jax.graph import Expression
from dml_jax.operators.convolution import Convolution
from dml_jax.rewrite.pattern import Found, Rewrite

_STATISTICS = ("mean_tensor", "variance_tensor", "scale_tensor", "bias_tensor")


def _refusal(norm: Found, conv: Found) -> str:
    """Return why a normalization does not scale and shift the channels of a convolution."""
    op, read, written = conv.operator, norm[0].desc, conv.output
    assert isinstance(op, Convolution)
    if conv.readers > 1:
        return "another node reads the convolution"
    if op.direction.suffix != "FORWARD":
        return "the convolution is a transpose, whose filter has its channels elsewhere"
    if op.fused_activation is not None:
        return "the convolution has an activation, which is not linear"
    is_whole = read.is_packed and written.is_packed and norm.output.is_packed
    is_whole = is_whole and read.data_type == written.data_type
    if not is_whole or read.sizes[:2] != written.sizes[:2]:
        return "the normalization reads the convolution in other strides, sizes or types"
    channels = written.sizes[1]
    statistics = [norm[name].sizes for name in _STATISTICS]
    if any(not math.prod(sizes) == channels == sizes[1] for sizes in statistics):
        return "the statistics are not one number for each channel"
    if norm.is_fixed(*_STATISTICS) and conv.is_fixed("filter_tensor", "bias_tensor"):
        return ""
    return "the statistics or the filter are no weights"


def _fold(norm: Found, conv: Found) -> Expression:
    op, kind = conv.operator, conv.output.data_type
    wide = TensorDataType.FLOAT32 if kind == TensorDataType.FLOAT16 else kind
    channels, ones = conv.output.sizes[1], (1,) * (len(conv.output.sizes) - 2)
    mean, variance, scale, shift = (
        _as(norm[name].reinterpret((1, channels, *ones)), wide) for name in _STATISTICS
    )
    factor = scale / dml.sqrt(variance + norm.operator.epsilon)
    bias = shift - mean * factor
    if conv["bias_tensor"] is not None:
        bias = bias + _as(conv["bias_tensor"], wide) * factor
    filters = _as(conv["filter_tensor"], wide) * factor.reinterpret((channels, 1, *ones))
    bias, filters = _as(bias, kind), _as(filters, kind)
    made = op.replace(
        filter_tensor=filters.desc,
        bias_tensor=bias.desc,
        fused_activation=norm.operator.fused_activation,
    )(conv["input_tensor"], filters, bias)
    return made.reinterpret(norm.output.sizes)


def _as(x: Expression, kind: TensorDataType) -> Expression:
    """Return `x` in another type: a FLOAT16 filter is scaled in FLOAT32, and rounded once."""
    return x if x.desc.data_type == kind else dml.cast(x, kind)


BATCH_NORMALIZATIONS = Rewrite(
    "BATCH_NORMALIZATION into CONVOLUTION",
    ("BATCH_NORMALIZATION", "CONVOLUTION"),
    _fold,
    _refusal,
)

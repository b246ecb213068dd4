"""Other filters of a CONVOLUTION: with the BATCH_NORMALIZATION behind it, and without idle places.

Places of a filter that meet padding alone are left out. Of a window of nine over one element, eight
places add zeros. XLA:CPU would also mirror a filter that is larger than its input, at each call.

BATCH_NORMALIZATION becomes a part of the CONVOLUTION before it. A convolution is linear in its
filter (source: the formula of DML_BATCH_NORMALIZATION_OPERATOR_DESC):

    scale * (conv(x, filter) + bias - mean) / sqrt(variance + epsilon) + shift
        = conv(x, factor * filter) + factor * (bias - mean) + shift,
    factor = scale / sqrt(variance + epsilon)

The graph computes the new filter and bias, as functions of the old ones.
"""

import math

from dml_jax import functional as dml
from dml_jax.enums import ConvolutionDirection, ConvolutionMode, TensorDataType
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


def _met(op: Convolution, dimension: int) -> tuple[int, int, int, int]:
    """Return the first and the last place that meet the input along a spatial dimension.

    Behind them stand the paddings for the places from the first to the last. All places are there
    where the others cannot be left out.
    """
    n, size, count = (
        tensor.sizes[dimension + 2]
        for tensor in (op.input_tensor, op.filter_tensor, op.output_tensor)
    )
    step, stride = op.dilations[dimension], op.strides[dimension]
    start, end = op.start_padding[dimension], op.end_padding[dimension]
    windows = range(-start, count * stride - start, stride)
    met = [k for k in range(size) if any(0 <= first + k * step < n for first in windows)]
    if met:
        before = start - met[0] * step
        behind = windows[-1] + met[-1] * step + 1 - n
        if before >= 0 and behind >= 0:
            return met[0], met[-1], before, behind
    return 0, size - 1, start, end


def _has_others(node: Found) -> bool:
    """Return whether a place of a filter meets padding alone."""
    op = node.operator
    assert isinstance(op, Convolution)
    is_forward = op.direction == ConvolutionDirection.FORWARD and op.group_count == 1
    is_plain = is_forward and op.mode == ConvolutionMode.CROSS_CORRELATION
    if not is_plain or not node.is_fixed("filter_tensor"):
        return False
    sizes = op.filter_tensor.sizes[2:]
    places = [_met(op, d)[:2] for d in range(len(sizes))]
    return any(b - a + 1 < size for (a, b), size in zip(places, sizes, strict=True))


def _without_others(node: Found) -> Expression:
    op, w = node.operator, node["filter_tensor"]
    assert isinstance(op, Convolution)
    first, last, start, end = zip(*(_met(op, d) for d in range(len(w.sizes) - 2)), strict=True)
    sizes = [b - a + 1 for a, b in zip(first, last, strict=True)]
    part = dml.slice(w, (0, 0, *first), (*w.sizes[:2], *sizes))
    made = op.replace(filter_tensor=part.desc, start_padding=start, end_padding=end)
    return made(node["input_tensor"], part, *node.inputs[2:])


BATCH_NORMALIZATIONS = Rewrite(
    "BATCH_NORMALIZATION into CONVOLUTION", ("BATCH_NORMALIZATION", "CONVOLUTION"), _fold, _refusal
)
PLACES = Rewrite("places in the padding", ("CONVOLUTION",), _without_others, _has_others)

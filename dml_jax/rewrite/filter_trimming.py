"""Places of a filter that meet padding alone are left out of a CONVOLUTION.

Of a window of nine over one element, eight places add zeros. XLA:CPU would also mirror a filter
that is larger than its input, at each call.
"""

from dml_jax import functional as dml
from dml_jax.enums import ConvolutionDirection, ConvolutionMode
from dml_jax.graph import Expression
from dml_jax.operators.convolution import Convolution
from dml_jax.rewrite.pattern import Found, Rewrite


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


PLACES = Rewrite("places in the padding", ("CONVOLUTION",), _without_others, _has_others)

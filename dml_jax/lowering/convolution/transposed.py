"""The transpose of a convolution, as a convolution of an input with zeros between its elements."""

from collections.abc import Sequence

import jax
from jax import lax

from dml_jax.lowering.convolution.api import Activation, finish, sum_type
from dml_jax.lowering.convolution.forms import correlate
from dml_jax.lowering.windows import Window


def transpose_convolution(
    x: jax.Array,
    w: jax.Array,
    bias: jax.Array | None,
    window: Window,
    groups: int,
    is_mirrored: bool,
    sizes: Sequence[int],
    output_padding: Sequence[int],
    activation: Activation | None = None,
) -> jax.Array:
    """Return the transpose of `convolution`: `y[i * stride + k * dilation - start] += x[i] * w[k]`.

    The filter is {groups * C, P, spatial...}. `sizes` are the spatial sizes of the result with
    `output_padding`: the zeros behind each dimension, which bias and activation follow. The other
    arguments are those of `convolution`.
    """
    parts = w.reshape(groups, -1, *w.shape[1:])
    w = parts.swapaxes(1, 2).reshape(-1, parts.shape[1], *w.shape[2:])
    if not is_mirrored:  # as the last step, by which XLA knows the transpose of a convolution
        w = lax.rev(w, range(2, x.ndim))
    start, end = [], []
    lists = (x.shape[2:], sizes, output_padding, *window[:4])
    for n, size, padding, k, stride, dilation, cut in zip(*lists, strict=True):
        start.append((k - 1) * dilation - cut)
        end.append(size - padding - (n - 1) * stride - 1 + cut)
    inner = Window(window.sizes, (1,) * len(sizes), window.dilations, start, end)
    y = correlate(x, w, inner, groups, window.strides, sum_type(x, bias, activation))
    zero = y.dtype.type(0)
    y = lax.pad(y, zero, [(0, 0, 0), (0, 0, 0), *((0, p, 0) for p in output_padding)])
    return finish(y, bias, activation, x.dtype)

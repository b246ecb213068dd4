"""A convolution with bias and activation, and its transpose, as operators call them."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax

from dml_jax.lowering.convolution.cost import NCHW, NHWC_HWIO, NHWC_OHWI, form, shape_of
from dml_jax.lowering.convolution.forms import correlate, correlate_last_channels
from dml_jax.lowering.dtypes import wide, wide_type
from dml_jax.lowering.windows import Window

Activation = Callable[[jax.Array], jax.Array]


def convolution(
    x: jax.Array,
    w: jax.Array,
    bias: jax.Array | None,
    window: Window,
    groups: int,
    is_mirrored: bool,
    activation: Activation | None = None,
    layout: str = NCHW,
) -> jax.Array:
    """Return `activation(x * w + bias)`, where `*` convolves, summed in FLOAT32, rounded once.

    Args:
        x: {N, groups * C, spatial...}; with channels last {N, spatial..., groups * C}.
        w: the filter, {groups * P, C, spatial...}; in NHWC_HWIO {spatial..., C, groups * P}, in
            NHWC_OHWI {groups * P, spatial..., C}.
        bias: {1, groups * P, 1...}, or {1, 1..., groups * P}.
        window: of the filter's sizes.
        groups: how many parts of the channels are convolved each by itself.
        is_mirrored: whether the last element of the filter meets the first one of the window.
        activation: a function of floats.
        layout: NCHW, NHWC_HWIO or NHWC_OHWI.
    """
    first = {NCHW: 2, NHWC_HWIO: 0, NHWC_OHWI: 1}[layout]
    w = lax.rev(w, range(first, first + x.ndim - 2)) if is_mirrored else w
    dtype = _sum_type(x, bias, activation)
    if layout == NCHW:
        y = correlate(x, w, window, groups, None, dtype)
    else:
        # A layout is chosen for a platform when weights are prepared, so that one form is enough.
        own = form(shape_of(x, w, window, groups, layout), "", layout)
        y = correlate_last_channels(own, x, w, window, groups, layout, dtype)
    return _finish(y, bias, activation, x.dtype)


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
    y = correlate(x, w, inner, groups, window.strides, _sum_type(x, bias, activation))
    zero = y.dtype.type(0)
    y = lax.pad(y, zero, [(0, 0, 0), (0, 0, 0), *((0, p, 0) for p in output_padding)])
    return _finish(y, bias, activation, x.dtype)


def _sum_type(x: jax.Array, bias: Any, activation: Any) -> np.dtype:
    """Return the type that a sum may have: a smaller one where nothing follows its rounding."""
    return x.dtype if bias is None and activation is None else wide_type(x.dtype)


def _finish(y: jax.Array, bias: Any, activation: Activation | None, dtype: Any) -> jax.Array:
    """Return the sum `y` with bias and activation, rounded to `dtype`."""
    if bias is not None:
        y = y + wide(bias)
    if activation is not None:
        y = activation(y)
    return lax.convert_element_type(y, dtype)

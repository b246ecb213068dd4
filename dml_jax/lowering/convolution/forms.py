"""The forms of a correlation: the same sums, each as a device is fast at for some sizes.

`cost` says which one is for which sizes. A form has the arguments of `correlate` that it needs, and
`plain` is what all of them mean.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from dml_jax.lowering.convolution import cost
from dml_jax.lowering.convolution.cost import NCHW, NHWC_HWIO, NHWC_OHWI, Form, shape_of
from dml_jax.lowering.convolution.winograd import by_tiles, matrix_products
from dml_jax.lowering.dtypes import wide, wide_type
from dml_jax.lowering.platform_forms import PLATFORMS, by_platform, reshaped, stored
from dml_jax.lowering.precision import operands, precision, stored_operands
from dml_jax.lowering.primitives import whole
from dml_jax.lowering.windows import Window, dilated, elements_of_windows


def correlate(
    x: jax.Array,
    w: jax.Array,
    window: Window,
    groups: int,
    inside: Sequence[int] | None = None,
    dtype: Any = None,
) -> jax.Array:
    """Return the correlation of arrays of any type, rounded to `dtype`, in the platform's form.

    `x` is {N, groups * C, spatial...}, and `inside[d] - 1` zeros go between its elements of
    dimension d. `w` is {groups * P, C, spatial...}, and `window` is over `x` with its zeros.
    """
    shape = shape_of(x, w, window, groups, NCHW, inside is not None)
    arguments: Any = {"window": window, "groups": groups, "inside": inside, "dtype": dtype}
    own = {platform: cost.form(shape, platform) for platform in ("", *PLATFORMS)}
    forms = {p: functools.partial(_in_form, form, **arguments) for p, form in own.items()}
    tuned: dict[str, Any] = {p: forms[p] for p in PLATFORMS if own[p] is not own[""]}
    return by_platform(forms[""], **tuned, whole_arrays=False)(x, w)


def _in_form(
    form: Form,
    x: jax.Array,
    w: jax.Array,
    window: Window,
    groups: int,
    inside: Sequence[int] | None,
    dtype: Any,
) -> jax.Array:
    """Return `correlate` in one form. A GPU multiplies elements of 16 bits as they are."""
    if form is Form.NARROW:
        return plain(x, w, window, groups, inside, dtype)
    if form is Form.PATCHES:
        return by_patches(x, w, window, dtype)
    y = _in_wide_form(form, *operands(wide(x), wide(w)), window, groups, inside)
    return lax.convert_element_type(y, dtype)


def _in_wide_form(
    form: Form,
    x: jax.Array,
    w: jax.Array,
    window: Window,
    groups: int,
    inside: Sequence[int] | None,
) -> jax.Array:
    match form:
        case Form.SHIFTS:
            return by_shifts(x, w, window, groups, inside)
        case Form.PRODUCT:
            return by_product(x, w, window)
        case Form.PLANES:
            return by_planes(x, w, window, groups, inside)
        case Form.GROUPS:
            return by_groups(x, w, window, groups, inside)
        case Form.COLUMNS:
            return by_columns(x, w, window)
        case Form.CHANNELS | Form.CHANNEL_ROWS:
            last = jnp.moveaxis(x, 1, -1), w.transpose(*range(2, w.ndim), 1, 0)
            return jnp.moveaxis(by_channels(form, *last, window), -1, 1)
        case _:
            return plain(x, w, window, groups, inside)


def on_cpu(
    x: jax.Array, w: jax.Array, window: Window, groups: int, inside: Sequence[int] | None = None
) -> jax.Array:
    """Return a part of a correlation, of FLOAT32, in the form that a CPU is fast at."""
    form = cost.form_on_cpu(shape_of(x, w, window, groups, NCHW, inside is not None))
    return _in_wide_form(form, x, w, window, groups, inside)


def correlate_last_channels(
    form: Form, x: jax.Array, w: jax.Array, window: Window, groups: int, layout: str, dtype: Any
) -> jax.Array:
    """Return the correlation of {N, spatial..., groups * C} in one form.

    The filter is {spatial..., C, groups * P}, or {groups * P, spatial..., C} for NHWC_OHWI. Sums
    are of `dtype` in the form NARROW, else of the type that accumulates.
    """
    if form is Form.NARROW:
        return plain_of_last(*stored_operands(x, w), window, groups, layout, dtype)
    if layout == NHWC_OHWI:
        return by_shifts_of_last(wide(x), wide(jnp.moveaxis(w, 0, -1)), window)
    return _in_wide_form_of_last(form, *operands(wide(x), wide(w)), window, groups)


def _in_wide_form_of_last(
    form: Form, x: jax.Array, w: jax.Array, window: Window, groups: int
) -> jax.Array:
    match form:
        case Form.PRODUCT:
            counts = window.counts(x.shape[1:-1])
            rows = window.at(window.padded(x, 0, 1), [0] * len(counts), counts, 1)
            y = matrix_products(rows.reshape(-1, x.shape[-1]), w.reshape(w.shape[-2:]))
            return y.reshape(x.shape[0], *counts, w.shape[-1])
        case Form.CHANNELS | Form.CHANNEL_ROWS:
            return by_channels(form, x, w, window)
        case Form.SHIFTS:
            first = jnp.moveaxis(x, -1, 1), w.transpose(-1, -2, *range(w.ndim - 2))
            return jnp.moveaxis(by_shifts(*first, window, groups), 1, -1)
        case Form.GROUPS:
            parts = zip(jnp.split(x, groups, -1), jnp.split(w, groups, -1), strict=True)
            return lax.concatenate([_part_of_last(a, b, window) for a, b in parts], x.ndim - 1)
        case Form.FLAT:  # a CPU has kernels of long rows
            x, w = jnp.moveaxis(x, -2, 1), jnp.moveaxis(w, -3, 0)
            flat = Window(*([part[-1], *part[:-1]] for part in window))
            return jnp.moveaxis(plain_of_last(x, w, flat, groups), 1, -2)
        case Form.TILES:
            return by_tiles(x, w, window)
        case _:
            return plain_of_last(x, w, window, groups)


def _part_of_last(x: jax.Array, w: jax.Array, window: Window) -> jax.Array:
    """Return the correlation of one group, which may have another form than the whole."""
    form = cost.form(shape_of(x, w, window, 1, NHWC_HWIO), "", NHWC_HWIO)
    return _in_wide_form_of_last(form, x, w, window, 1)


def plain(
    x: jax.Array,
    w: jax.Array,
    window: Window,
    groups: int,
    inside: Sequence[int] | None = None,
    dtype: Any = None,
    dimensions: lax.ConvDimensionNumbers | None = None,
) -> jax.Array:
    """Return the correlation, by `jax.lax`; sums of `dtype` are rounded once."""
    how: Any = {
        "window_strides": window.strides,
        "padding": window.padding,
        "lhs_dilation": inside,
        "rhs_dilation": window.dilations,
        "dimension_numbers": dimensions,
        "feature_group_count": groups,
        "precision": precision(),
        "preferred_element_type": dtype or wide_type(x.dtype),
    }
    return whole(lambda *xs: [lax.conv_general_dilated(*xs, **how)], x, w)[0]


def by_planes(
    x: jax.Array, w: jax.Array, window: Window, groups: int, inside: Sequence[int] | None = None
) -> jax.Array:
    """Return `plain` of 3 spatial dimensions, with the filter's depth as channels of planes."""
    deep, flat = (Window(*(part[k] for part in window)) for k in (slice(1), slice(1, 3)))
    zeros = [(0, 0, 0)] * 5
    zeros[2] = (deep.start[0], deep.end[0], inside[0] - 1 if inside else 0)
    padded = dilated(x, zeros)
    counts = deep.unpadded.counts(padded.shape[2:3])
    taps = [deep.at(padded, offset, counts)[:, :, :, None] for offset in deep.offsets]
    stacked = lax.concatenate(taps, 3).transpose(0, 2, 1, 3, 4, 5)
    planes = stacked.reshape(-1, x.shape[1] * deep.sizes[0], *x.shape[3:])
    y = on_cpu(planes, w.reshape(w.shape[0], -1, *w.shape[3:]), flat, groups, inside and inside[1:])
    return jnp.moveaxis(y.reshape(x.shape[0], counts[0], *y.shape[1:]), 1, 2)


def by_groups(
    x: jax.Array, w: jax.Array, window: Window, groups: int, inside: Sequence[int] | None = None
) -> jax.Array:
    """Return `plain` as a convolution for each group."""
    parts = zip(jnp.split(x, groups, 1), jnp.split(w, groups), strict=True)
    return lax.concatenate([on_cpu(a, b, window, 1, inside) for a, b in parts], 1)


def by_shifts(
    x: jax.Array, w: jax.Array, window: Window, groups: int, inside: Sequence[int] | None = None
) -> jax.Array:
    """Return `plain` as one multiply-add for each channel and place of the window."""
    spread = inside or [1] * len(window.sizes)
    edges = [(a, b, s - 1) for (a, b), s in zip(window.padding, spread, strict=True)]
    padded = dilated(x, [(0, 0, 0), (0, 0, 0), *edges])
    counts = window.unpadded.counts(padded.shape[2:])
    batch, channels, outputs = x.shape[0], w.shape[1], w.shape[0] // groups
    taps = w.reshape(1, groups, outputs, channels, -1, *[1] * len(counts))
    total = None
    for c in range(channels):
        of_channel = padded[:, c::channels]
        for k, offset in enumerate(window.offsets):
            shifted = window.at(of_channel, offset, counts)
            product = shifted[:, :, None] * taps[:, :, :, c, k]
            total = product if total is None else total + product
    assert total is not None
    return total.reshape(batch, groups * outputs, *counts)


def by_patches(x: jax.Array, w: jax.Array, window: Window, dtype: Any) -> jax.Array:
    """Return `plain` of one group and windows that lie side by side, as a product of matrices."""
    counts = window.counts(x.shape[2:])
    sizes = [n for pair in zip(counts, window.sizes, strict=True) for n in pair]
    order = (0, *range(2, 2 + len(sizes), 2), 1, *range(3, 3 + len(sizes), 2))
    rows = x.reshape(*x.shape[:2], *sizes).transpose(order)
    rows, columns = rows.reshape(-1, math.prod(w.shape[1:])), w.reshape(w.shape[0], -1)
    y = lax.dot_general(rows, columns, (((1,), (1,)), ((), ())), precision(), dtype)
    return jnp.moveaxis(y.reshape(x.shape[0], *counts, -1), -1, 1)


def by_columns(x: jax.Array, w: jax.Array, window: Window) -> jax.Array:
    """Return `plain` of one group, as a product of the filter and the elements of all windows."""
    elements = elements_of_windows(x, window)
    rows, counts = w.reshape(w.shape[0], -1), window.counts(x.shape[2:])
    matrix = jnp.broadcast_to(rows, (x.shape[0], *rows.shape))
    y = matrix_products(matrix, _columns(elements.reshape(x.shape[0], rows.shape[1], *counts)))
    return y.reshape(x.shape[0], w.shape[0], *counts)


def _columns(x: jax.Array) -> jax.Array:
    """Return {N, C, windows} of {N, C, counts of windows...}.

    A CPU makes no vectors in a loop over merged axes: what computes `x` loops over its own axes.
    """
    shape = (*x.shape[:2], math.prod(x.shape[2:]))
    return by_platform(
        lambda x: x.reshape(shape), cpu=lambda x: reshaped(x, shape), whole_arrays=True
    )(x)


def by_product(x: jax.Array, w: jax.Array, window: Window) -> jax.Array:
    """Return `plain` of one group and a window of one element, as a product of matrices."""
    counts = window.counts(x.shape[2:])
    moved = window.at(window.padded(x, 0), [0] * len(counts), counts)
    matrix = jnp.broadcast_to(w.reshape(w.shape[:2]), (x.shape[0], *w.shape[:2]))
    y = matrix_products(matrix, _columns(moved))
    return y.reshape(x.shape[0], w.shape[0], *counts)


def plain_of_last(
    x: jax.Array,
    w: jax.Array,
    window: Window,
    groups: int,
    layout: str = NHWC_HWIO,
    dtype: Any = None,
) -> jax.Array:
    """Return the correlation of {N, spatial..., C}, by `jax.lax`; sums of `dtype`.

    `layout` says where the filter has the channels of the result: behind its others or first.
    """
    d = len(window.sizes)
    of_filter = (0, d + 1, *range(1, d + 1)) if layout == NHWC_OHWI else (d + 1, d, *range(d))
    of_arrays = (0, d + 1, *range(1, d + 1))
    dimensions = lax.ConvDimensionNumbers(of_arrays, of_filter, of_arrays)
    return plain(x, w, window, groups, None, dtype, dimensions)


def by_channels(form: Form, x: jax.Array, w: jax.Array, window: Window) -> jax.Array:
    """Return the correlation of each channel of {N, spatial..., C} with filters of its own.

    In the form CHANNEL_ROWS some rows of the window at a time are a chain of multiply-adds.
    """
    if form is Form.CHANNELS:
        return by_shifts_of_last(x, w, window)
    rows = cost.rows_at_once(window)
    part = window.unpadded._replace(sizes=(rows, *window.sizes[1:]))
    parts = -(-window.sizes[0] // rows)
    more = parts * rows - window.sizes[0]
    w = lax.pad(w, w.dtype.type(0), [(0, more, 0), *[(0, 0, 0)] * (w.ndim - 1)])
    step, counts = window.dilations[0], window.counts(x.shape[1:-1])
    end = (window.end[0] + more * step, *window.end[1:])
    x = window._replace(end=end).padded(x, 0, 1)
    size = (counts[0] - 1) * window.strides[0] + (rows - 1) * step + 1

    def add(total: jax.Array, k: jax.Array) -> tuple[jax.Array, None]:
        read = lax.dynamic_slice_in_dim(x, k * rows * step, size, 1)
        taps = lax.dynamic_slice_in_dim(w, k * rows, rows)
        return total + by_shifts_of_last(read, taps, part), None

    zeros = jnp.zeros((x.shape[0], *counts, w.shape[-1]), x.dtype)
    return lax.scan(add, zeros, jnp.arange(parts))[0]


def by_shifts_of_last(x: jax.Array, w: jax.Array, window: Window) -> jax.Array:
    """Return `by_channels` as one chain of multiply-adds."""
    padded = window.padded(stored(x), 0, 1)  # each place of the window reads it
    counts = window.counts(x.shape[1:-1])
    outputs = w.shape[-1] // x.shape[-1]
    row = (x.shape[-1], outputs) if outputs > 1 else (x.shape[-1],)
    taps = w.reshape(-1, *[1] * (x.ndim - 1), *row)
    total = None
    for k, offset in enumerate(window.offsets):
        shifted = window.at(padded, offset, counts, 1)
        product = (shifted[..., None] if outputs > 1 else shifted) * taps[k]
        total = product if total is None else total + product
    assert total is not None
    return total.reshape(x.shape[0], *counts, w.shape[-1])

"""Convolutions of arrays {N, C, spatial...} with filters {channels, channels, spatial...}.

In the layout NHWC_HWIO arrays are {N, spatial..., C}, and filters {spatial..., channels, channels}:
the order in which a CPU reads them. In NHWC_OHWI filters are {channels, spatial..., channels}: the
order for an NVIDIA GPU, whose convolutions are cuDNN's there.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering import quantization
from dml_jax.lowering.convolution_of_bytes import by_bytes
from dml_jax.lowering.dtypes import EXACT_PRODUCTS, wide, wide_type
from dml_jax.lowering.platform_forms import by_platform, reshaped, stored
from dml_jax.lowering.precision import operands, precision, stored_operands
from dml_jax.lowering.program_primitive import whole
from dml_jax.lowering.windows import FEW, Window, dilated, elements_of_windows, unfold

NCHW, NHWC_HWIO, NHWC_OHWI = "NCHW", "NHWC HWIO", "NHWC OHWI"

# An element of the result that adds at most so many products is a chain of multiply-adds, where
# there are groups. Without groups a CPU computes such elements by a product of matrices.
FEW_PRODUCTS = 80
# A larger window of one channel is computed by rows of about so many places.
SOME_PLACES = 50
# So many windows at most, whose elements are stored, where a sum has up to twice as many products.
FEW_WINDOWS = 2**16
# Up to so many channels, places of a window and elements of all windows, where it has more.
FEW_CHANNELS, FEW_PLACES, FEW_ELEMENTS = 15, 25, 2**21
# So many groups are convolved one by one on a CPU, where a program grows with them.
FEW_GROUPS = 16
# From so many channels and tiles on, and up to so many elements of all tiles, fewer products gain.
TILED_CHANNELS, MANY_TILES, TILED_ELEMENTS = 64, 400, 2**21


def convolution(
    x: jax.Array,
    w: jax.Array,
    bias: jax.Array | None,
    window: Window,
    groups: int,
    is_mirrored: bool,
    activation: Callable[[jax.Array], jax.Array] | None = None,
    layout: str = NCHW,
) -> jax.Array:
    """Return `activation(x * w + bias)`, where `*` convolves, summed in FLOAT32, rounded once.

    Args:
        x: {N, groups * C, spatial...}; with channels last {N, spatial..., groups * C}.
        w: the filter, {groups * P, C, spatial...}; in NHWC_HWIO {spatial..., C, groups * P}, in
            NHWC_OHWI {groups * P, spatial..., C}.
        bias: {1, groups * P, 1...}, or {1, 1..., groups * P}.
        window: of the filter's sizes.
        groups: how many parts of the channels are convolved apart.
        is_mirrored: whether the last element of the filter meets the first one of the window.
        activation: a function of floats.
        layout: NCHW, NHWC_HWIO or NHWC_OHWI.
    """
    first = {NCHW: 2, NHWC_HWIO: 0, NHWC_OHWI: 1}[layout]
    w = lax.rev(w, range(first, first + x.ndim - 2)) if is_mirrored else w
    if layout == NHWC_OHWI:
        y = _of_gpu(x, w, window, groups, _type_of_sums(x, bias, activation))
    elif layout == NHWC_HWIO:
        y = _of_last_channels(*operands(wide(x), wide(w)), window, groups)
    else:
        y = _sums(x, w, window, groups, dtype=_type_of_sums(x, bias, activation))
    return _finished(y, bias, activation, x.dtype)


def transposed(
    x: jax.Array,
    w: jax.Array,
    bias: jax.Array | None,
    window: Window,
    groups: int,
    is_mirrored: bool,
    sizes: Sequence[int],
    output_padding: Sequence[int],
    activation: Callable[[jax.Array], jax.Array] | None = None,
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
    y = _sums(x, w, inner, groups, window.strides, _type_of_sums(x, bias, activation))
    zero = y.dtype.type(0)
    y = lax.pad(y, zero, [(0, 0, 0), (0, 0, 0), *((0, p, 0) for p in output_padding)])
    return _finished(y, bias, activation, x.dtype)


def _type_of_sums(x: jax.Array, bias: Any, activation: Any) -> np.dtype:
    """Return the type that a sum may have: a smaller one where nothing follows its rounding."""
    return x.dtype if bias is None and activation is None else wide_type(x.dtype)


def _finished(y: jax.Array, bias: Any, activation: Any, dtype: Any) -> jax.Array:
    """Return a sum with bias and activation, rounded."""
    if bias is not None:
        y = y + wide(bias)
    if activation is not None:
        y = activation(y)
    return lax.convert_element_type(y, dtype)


def _sums(
    x: jax.Array,
    w: jax.Array,
    window: Window,
    groups: int,
    inside: Sequence[int] | None = None,
    dtype: Any = None,
) -> jax.Array:
    """Return the correlation of arrays of any type, rounded to `dtype`.

    The other arguments are those of `_correlation`. A GPU multiplies elements of 16 bits as they
    are.
    """

    def widened(x: jax.Array, w: jax.Array) -> jax.Array:
        y = _correlation(wide(x), wide(w), window, groups, inside)
        return lax.convert_element_type(y, dtype)

    is_short = _is_chain(w, groups) and math.prod(window.sizes) <= FEW_PLACES
    if x.dtype.itemsize > 2 or is_short:
        return widened(x, w)
    narrow = functools.partial(plain, window=window, groups=groups, inside=inside, dtype=dtype)
    if groups == 1 and inside is None and _are_patches(x, window):
        narrow = functools.partial(_by_patches, window=window, dtype=dtype)
    return by_platform(widened, cuda=narrow, whole_arrays=False)(x, w)


def _are_patches(x: jax.Array, window: Window) -> bool:
    """Return whether windows of few channels lie side by side, and cover the input."""
    counts = window.counts(x.shape[2:])
    covered = tuple(n * k for n, k in zip(counts, window.sizes, strict=True))
    is_apart = (*window.sizes,) == (*window.strides,) and not window.is_padded
    is_one = math.prod(window.sizes) == 1
    return is_apart and not is_one and covered == x.shape[2:] and x.shape[1] <= FEW_CHANNELS


def _by_patches(x: jax.Array, w: jax.Array, window: Window, dtype: Any) -> jax.Array:
    """Return `plain` of one group and windows that lie side by side, as a product of matrices."""
    counts = window.counts(x.shape[2:])
    sizes = [n for pair in zip(counts, window.sizes, strict=True) for n in pair]
    order = (0, *range(2, 2 + len(sizes), 2), 1, *range(3, 3 + len(sizes), 2))
    rows = x.reshape(*x.shape[:2], *sizes).transpose(order)
    rows, columns = rows.reshape(-1, math.prod(w.shape[1:])), w.reshape(w.shape[0], -1)
    y = lax.dot_general(rows, columns, (((1,), (1,)), ((), ())), precision(), dtype)
    return jnp.moveaxis(y.reshape(x.shape[0], *counts, -1), -1, 1)


def _is_chain(w: jax.Array, groups: int) -> bool:
    """Return whether an element of the result is a chain of few multiply-adds."""
    return groups > 1 and math.prod(w.shape[1:]) <= FEW_PRODUCTS


def _correlation(
    x: jax.Array, w: jax.Array, window: Window, groups: int, inside: Sequence[int] | None = None
) -> jax.Array:
    """Return the correlation in the form that suits these shapes.

    `x` is {N, groups * C, spatial...}, and `inside[d] - 1` zeros go between its elements of
    dimension d. `w` is {groups * P, C, spatial...}, and `window` is over `x` with its zeros.
    """
    x, w = operands(x, w)
    if _is_chain(w, groups):
        return by_shifts(x, w, window, groups, inside)
    if groups == 1 and inside is None and math.prod(window.sizes) == 1:
        return by_product(x, w, window)
    gains = _gains_by_columns(x, w, window, groups, inside)
    if len(window.sizes) < 3 and groups == 1 and not gains:
        return plain(x, w, window, groups, inside)
    how: Any = {"window": window, "groups": groups, "inside": inside}
    tuned = functools.partial(on_cpu, **how)
    return by_platform(functools.partial(plain, **how), cpu=tuned, whole_arrays=False)(x, w)


def on_cpu(
    x: jax.Array, w: jax.Array, window: Window, groups: int, inside: Sequence[int] | None = None
) -> jax.Array:
    """Return the correlation in the form that a CPU is fast at."""
    if len(window.sizes) == 3:
        return by_planes(x, w, window, groups, inside)
    if _is_by_channels(groups, x.shape[1], window) and inside is None:
        y = _by_channels(jnp.moveaxis(x, 1, -1), w.transpose(*range(2, w.ndim), 1, 0), window)
        return jnp.moveaxis(y, -1, 1)
    if 1 < groups <= FEW_GROUPS:
        return by_groups(x, w, window, groups, inside)
    if _gains_by_columns(x, w, window, groups, inside):
        return by_columns(x, w, window)
    return plain(x, w, window, groups, inside)


def _gains_by_columns(
    x: jax.Array, w: jax.Array, window: Window, groups: int, inside: Sequence[int] | None
) -> bool:
    """Return whether a CPU convolves faster by a product of matrices: sums or rows are short.

    A program grows with the sizes of the window.
    """
    if groups > 1 or inside is not None:
        return False
    if x.shape[-1] == w.shape[-1] == 1:
        return w.shape[2] <= FEW
    products = math.prod(w.shape[1:])
    windows = x.shape[0] * math.prod(window.counts(x.shape[2:]))
    is_small = w.shape[1] <= FEW_CHANNELS and math.prod(window.sizes) <= FEW_PLACES
    if is_small and products * windows <= FEW_ELEMENTS:
        return True
    return products <= (2 * FEW_PRODUCTS if windows <= FEW_WINDOWS else FEW_PRODUCTS)


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


def _of_last_channels(x: jax.Array, w: jax.Array, window: Window, groups: int) -> jax.Array:
    """Return the correlation of {N, spatial..., groups * C} with {spatial..., C, groups * P}."""
    counts = window.counts(x.shape[1:-1])
    if groups == 1 and math.prod(window.sizes) == 1:
        rows = window.at(window.padded(x, 0, 1), [0] * len(counts), counts, 1)
        y = _products(rows.reshape(-1, x.shape[-1]), w.reshape(w.shape[-2:]))
        return y.reshape(x.shape[0], *counts, w.shape[-1])
    if _is_by_channels(groups, x.shape[-1], window):
        return _by_channels(x, w, window)
    if groups > 1 and math.prod(w.shape[:-1]) <= FEW_PRODUCTS:
        of_first = jnp.moveaxis(x, -1, 1), w.transpose(-1, -2, *range(w.ndim - 2))
        return jnp.moveaxis(by_shifts(*of_first, window, groups), 1, -1)
    if 1 < groups <= FEW_GROUPS:
        parts = zip(jnp.split(x, groups, -1), jnp.split(w, groups, -1), strict=True)
        return lax.concatenate([_of_last_channels(a, b, window, 1) for a, b in parts], x.ndim - 1)
    if x.shape[-2] == window.sizes[-1] == 1 < len(counts) and window.padding[-1] == (0, 0):
        x, w = jnp.moveaxis(x, -2, 1), jnp.moveaxis(w, -3, 0)  # a CPU has kernels of long rows
        flat = Window(*([part[-1], *part[:-1]] for part in window))
        return jnp.moveaxis(_plain_of_last(x, w, flat, groups), 1, -2)
    if groups == 1 and _gains_by_tiles(x, w, window):
        return by_tiles(x, w, window)
    return _plain_of_last(x, w, window, groups)


def _gains_by_tiles(x: jax.Array, w: jax.Array, window: Window) -> bool:
    """Return whether a CPU convolves {N, H, W, C} faster by `by_tiles`."""
    sizes, strides, dilations = map(tuple, window[:3])
    if sizes != (3, 3) or strides != (1, 1) or dilations != (1, 1):
        return False
    tiles = x.shape[0] * math.prod(-(-n // 2) for n in window.counts(x.shape[1:-1]))
    is_wide = min(w.shape[-2:]) >= TILED_CHANNELS and tiles >= MANY_TILES
    return is_wide and 16 * tiles * x.shape[-1] <= TILED_ELEMENTS


Parts = Sequence[Any]


def by_tiles(x: jax.Array, w: jax.Array, window: Window) -> jax.Array:
    """Return the correlation of {N, H, W, C} with {3, 3, C, P}, in steps of 1.

    Tiles of 2 by 2 results take 16 products for each pair of channels instead of 36: F(2x2, 3x3) of
    Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, arXiv:1509.09308. Infinity
    and NaN reach all results of a tile.
    """
    counts = window.counts(x.shape[1:-1])
    tiles = [-(-n // 2) for n in counts]
    whole = window.counted(x.shape[1:-1], [2 * n for n in tiles])
    padded, places = stored(whole.padded(x, 0, 1)), window._replace(strides=(2, 2))
    elements = [[places.at(padded, (i, j), tiles, 1) for j in range(4)] for i in range(4)]
    pairs = zip(_both_ways(_differences, elements), _both_ways(_spread, w), strict=True)
    products = [
        [_products(a.reshape(-1, a.shape[-1]), b) for a, b in zip(*rows, strict=True)]
        for rows in pairs
    ]
    shape = (x.shape[0], *tiles, w.shape[-1])
    rows = [[y.reshape(shape) for y in row] for row in _both_ways(_results, products)]
    y = jnp.stack([jnp.stack(row, 3) for row in rows], 2)
    y = y.reshape(shape[0], 2 * tiles[0], 2 * tiles[1], shape[-1])
    return y[:, : counts[0], : counts[1]]


def _both_ways(combine: Callable[[Parts], Parts], parts: Any) -> list[Parts]:
    """Return what `combine` makes of each row, and then of each column."""
    columns = zip(*(combine(row) for row in parts), strict=True)
    return [*zip(*(combine(column) for column in columns), strict=True)]


def _differences(x: Parts) -> Parts:
    return x[0] - x[2], x[1] + x[2], x[2] - x[1], x[1] - x[3]


def _spread(w: Parts) -> Parts:
    ends, middle = (w[0] + w[2]) * 0.5, w[1] * 0.5
    return w[0], ends + middle, ends - middle, w[2]


def _results(x: Parts) -> Parts:
    return x[0] + x[1] + x[2], x[1] - x[2] - x[3]


def _of_gpu(x: jax.Array, w: jax.Array, window: Window, groups: int, dtype: np.dtype) -> jax.Array:
    """Return the correlation of {N, spatial..., groups * C} with {groups * P, spatial..., C}.

    Sums are of `dtype`, or of the type that accumulates.
    """
    if groups == x.shape[-1] and w.shape[-1] == 1 and math.prod(window.sizes) <= FEW_PLACES:
        return _by_shifts_of_last(wide(x), wide(jnp.moveaxis(w, 0, -1)), window)
    x, w = stored_operands(x, w)
    return _plain_of_last(x, w, window, groups, _OHWI, dtype)


_HWIO, _OHWI = -1, 0


def _plain_of_last(
    x: jax.Array,
    w: jax.Array,
    window: Window,
    groups: int,
    outputs: int = _HWIO,
    dtype: Any = None,
) -> jax.Array:
    """Return the correlation of {N, spatial..., C}, by `jax.lax`; sums of `dtype`.

    `outputs` says where the filter has the channels of the result: behind its others or first.
    """
    d = len(window.sizes)
    of_filter = (d + 1, d, *range(d)) if outputs == _HWIO else (0, d + 1, *range(1, d + 1))
    of_arrays = (0, d + 1, *range(1, d + 1))
    dimensions = lax.ConvDimensionNumbers(of_arrays, of_filter, of_arrays)
    return plain(x, w, window, groups, None, dtype, dimensions)


def _is_by_channels(groups: int, channels: int, window: Window) -> bool:
    """Return whether `_by_channels` is faster: rows of a few channels are no vectors."""
    few = math.prod(window.sizes) <= FEW_PRODUCTS
    return 1 < groups == channels and (few or groups > FEW_GROUPS)


def _by_channels(x: jax.Array, w: jax.Array, window: Window) -> jax.Array:
    """Return the correlation of each channel of {N, spatial..., C} with filters of its own.

    XLA has no fast kernel for it on a CPU. Of a large window some rows at a time are a chain of
    multiply-adds: LLVM makes no vectors in a longer one.
    """
    if math.prod(window.sizes) <= FEW_PRODUCTS:
        return _by_shifts_of_last(x, w, window)
    rows = max(1, SOME_PLACES // math.prod(window.sizes[1:]))
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
        return total + _by_shifts_of_last(read, taps, part), None

    zeros = jnp.zeros((x.shape[0], *counts, w.shape[-1]), x.dtype)
    return lax.scan(add, zeros, jnp.arange(parts))[0]


def _by_shifts_of_last(x: jax.Array, w: jax.Array, window: Window) -> jax.Array:
    """Return `_by_channels` as one chain of multiply-adds."""
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


def by_columns(x: jax.Array, w: jax.Array, window: Window) -> jax.Array:
    """Return `plain` of one group, as a product of the filter and the elements of all windows."""
    elements = elements_of_windows(x, window)
    rows, counts = w.reshape(w.shape[0], -1), window.counts(x.shape[2:])
    matrix = jnp.broadcast_to(rows, (x.shape[0], *rows.shape))
    y = _products(matrix, _columns(elements.reshape(x.shape[0], rows.shape[1], *counts)))
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
    y = _products(matrix, _columns(moved))
    return y.reshape(x.shape[0], w.shape[0], *counts)


def _products(a: jax.Array, b: jax.Array) -> jax.Array:
    """Return the matrix products of the last two dimensions."""
    return lax.dot_general(a, b, _of_last(a), precision=precision())


def _of_last(a: jax.Array) -> Any:
    """Return the dimensions of a product of the last two, of as many as `a` has."""
    batch = tuple(range(a.ndim - 2))
    return ((a.ndim - 1,), (a.ndim - 2,)), (batch, batch)


def integer_convolution(
    x: jax.Array,
    x_zero: jax.Array | None,
    w: jax.Array,
    w_zero: jax.Array | None,
    window: Window,
    groups: int,
) -> jax.Array:
    """Return the sum of `(x - x_zero) * (w - w_zero)` as INT32, which wraps.

    `x` is {N, groups * C, spatial...} and `w` {groups * P, C, spatial...}, of 8 bits; padding has
    the difference 0. A zero is one element, of `w` also one for each output channel; None is 0.
    """
    zeros = [
        np.zeros(1, array.dtype) if zero is None else zero
        for array, zero in ((x, x_zero), (w, w_zero))
    ]

    def by_differences(x: jax.Array, w: jax.Array, x_zero: Any, w_zero: Any) -> jax.Array:
        form = by_shifts if few else by_exact_products
        return form(_difference(x, x_zero, 1), _difference(w, w_zero, 0), window, groups)

    few = groups > 1 and math.prod(w.shape[1:]) <= FEW_PRODUCTS
    of_bytes = by_differences if few else functools.partial(by_bytes, window=window, groups=groups)
    return by_platform(by_differences, cpu=of_bytes, whole_arrays=False)(x, w, *zeros)


def by_exact_products(x: jax.Array, w: jax.Array, window: Window, groups: int) -> jax.Array:
    """Return the correlation of INT32 of 9 bits, as products of BFLOAT16 matrices, which hold them.

    Each product has so few terms that its FLOAT32 sum is exact. (A GPU has no convolution of
    integers, and that of a CPU is slow.)
    """
    terms = math.prod(w.shape[1:])
    parts = -(-terms // EXACT_PRODUCTS)
    rest = parts * EXACT_PRODUCTS - terms if parts > 1 else 0

    def apart(matrix: jax.Array, axis: int) -> jax.Array:
        edges = [(0, rest if d == axis else 0, 0) for d in range(matrix.ndim)]
        padded = lax.pad(matrix.astype(jnp.bfloat16), jnp.bfloat16(0), edges)
        length = padded.shape[axis] // parts
        return padded.reshape(*padded.shape[:axis], parts, length, *padded.shape[axis + 1 :])

    columns = unfold(x, window)
    columns = apart(columns.reshape(x.shape[0], groups, terms, columns.shape[2]), 2)
    rows = jnp.swapaxes(apart(w.reshape(groups, -1, terms), 2), 1, 2)  # {groups, parts, P, terms}
    rows = jnp.broadcast_to(rows, (x.shape[0], *rows.shape))
    sums = lax.dot_general(rows, columns, _of_last(rows), preferred_element_type=np.float32)
    sums = sums.astype(np.int32).sum(2, dtype=np.int32)
    return sums.reshape(x.shape[0], w.shape[0], *window.counts(x.shape[2:]))


def _difference(x: jax.Array, zero: jax.Array, axis: int) -> jax.Array:
    """Return `x - zero` as INT32; several zeros go along an axis."""
    zero = _along(lax.convert_element_type(zero, np.int32), axis, x.ndim)
    return lax.convert_element_type(x, np.int32) - zero


def _along(v: jax.Array, axis: int, rank: int) -> jax.Array:
    """Return the elements of `v` along an axis of an array of this rank."""
    return v.reshape([-1 if d == axis else 1 for d in range(rank)])


def quantized(
    total: jax.Array,
    bias: jax.Array | None,
    x_scale: jax.Array,
    w_scale: jax.Array,
    scale: jax.Array,
    zero: jax.Array | None,
    dtype: Any,
) -> jax.Array:
    """Return `(total + bias) * x_scale * w_scale`, quantized by `scale` and `zero`.

    `total` is what `integer_convolution` returns, `bias` INT32 {1, channels, 1...}. The other
    arrays have one element, `w_scale` also one for each channel; None is 0.
    """
    total = total if bias is None else total + bias
    factor = _along(x_scale, 1, total.ndim) * _along(w_scale, 1, total.ndim)
    zero = None if zero is None else _along(zero, 1, total.ndim)
    real = lax.convert_element_type(total, np.float32) * factor
    return quantization.quantize(real, _along(scale, 1, total.ndim), zero, dtype)

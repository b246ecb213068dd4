"""Resizing, and regions of interest.

Output element `o` of a dimension samples the input at `(o - output_offset) / scale - input_offset`,
into which each of ONNX's coordinate modes is folded. What RESAMPLE lacks (cubic interpolation,
antialiasing as ONNX has it, values beyond a cropped region) is a product with a matrix of weights.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dml_jax import functional as dml
from dml_jax.descriptor import Size2D
from dml_jax.graph import Expression
from dml_jax.onnx.nodes import Node, translates
from dml_jax.onnx.views import packed, reshaped, transposed

_FAR = float(np.finfo(np.float32).max)  # as a scale, it samples one place only


@dataclass
class Line:
    """How one dimension is sampled: sizes, scale and offsets."""

    size: int
    out: int
    scale: float
    input_offset: float = 0.0
    output_offset: float = 0.0

    @property
    def is_kept(self) -> bool:
        """Return whether the output has the input's elements as they are."""
        return self.size == self.out and self.scale == 1 and not self.is_moved

    @property
    def is_moved(self) -> bool:
        return any(abs(x - k) > 1e-9 for k, x in enumerate(self.places()))

    def places(self) -> np.ndarray:
        """Return where each element samples the input."""
        return (np.arange(self.out) - self.output_offset) / self.scale - self.input_offset


def lines_of(node: Node, scales: Any, sizes: Any, roi: Any, mode: str) -> list[Line]:
    """Return how each dimension is sampled."""
    shape, rank = node.shape(), node.rank()
    axes = node.attribute("axes")
    axes = [*range(rank)] if axes is None else [node.from_start(a, rank, "axes") for a in axes]
    lines = [Line(n, n, 1.0) for n in shape]
    factors = _factors(node, [shape[a] for a in axes], scales, sizes)
    for k, axis in enumerate(axes):
        n = shape[axis]
        scale, out = factors[k]
        region = (0.0, 1.0) if roi is None else (float(roi[k]), float(roi[k + len(axes)]))
        lines[axis] = line_of(node, mode, n, out, scale, region)
    return lines


def _factors(node: Node, shape: Sequence[int], scales: Any, sizes: Any) -> list[tuple[float, int]]:
    """Return the scale and the size of the output for each of the axes."""
    if sizes is None:
        with np.errstate(over="ignore"):
            products = [np.float32(n) * np.float32(s) for n, s in zip(shape, scales)]  # noqa: B905
        floors = [math.floor(product) for product in products]
        return [(float(s), out) for s, out in zip(scales, floors, strict=True)]
    ratios = [int(out) / n for out, n in zip(sizes, shape, strict=True)]
    policy = node.attribute("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return [(r, int(out)) for r, out in zip(ratios, sizes, strict=True)]
    one = min(ratios) if policy == "not_larger" else max(ratios)
    return [(one, math.floor(one * n + 0.5)) for n in shape]


def line_of(
    node: Node, mode: str, n: int, out: int, scale: float, region: tuple[float, float]
) -> Line:
    """Return how a dimension of `n` elements is sampled in one of ONNX's coordinate modes."""
    line = Line(n, out, scale)
    start, end = region
    if mode in ("half_pixel", "half_pixel_symmetric") or (mode == "pytorch_half_pixel" and out > 1):
        line.input_offset, line.output_offset = 0.5, -0.5
        if mode == "half_pixel_symmetric":
            line.input_offset -= n / 2 * (1 - out / (scale * n))
    elif mode == "pytorch_half_pixel":
        line.scale = _FAR
    elif mode == "align_corners":
        length = scale * n  # fractional, as ONNX counts
        line.scale = (length - 1) / (n - 1) if n > 1 and out > 1 else _FAR
    elif mode == "tf_half_pixel_for_nn":
        line.output_offset = -0.5
    elif mode == "tf_crop_and_resize":
        if out > 1:
            line.input_offset = -start * (n - 1)
            extent = (end - start) * (n - 1)
            line.scale = (out - 1) / extent if extent else _FAR
        else:
            line.scale, line.input_offset = _FAR, -0.5 * (start + end) * (n - 1)
    elif mode != "asymmetric":
        raise node.refusal("coordinate_transformation_mode", "be known", mode)
    return line


@translates("Upsample")
def _upsample(node: Node) -> Expression:
    if node.version == 1:
        by_name = [node.attribute(f"{name}_scale") for name in ("height", "width")]
        scales = [1.0] * (node.rank() - 2) + by_name
    else:
        scales = node.attribute("scales") if node.version < 9 else node.constant(1)
    mode = node.attribute("mode")
    lines = lines_of(node, scales, None, None, "asymmetric")
    return _resampled(node, node[0], lines, mode, "floor")


@translates("Resize")
def _resize_by_scales(node: Node) -> Expression:
    lines = lines_of(node, node.constant(1), None, None, "asymmetric")
    return _resampled(node, node[0], lines, node.attribute("mode"), "floor")


@translates("Resize", since=11)
def _resize(node: Node) -> Expression:
    roi, scales, sizes = (_unless_empty(node.constant(k)) for k in (1, 2, 3))
    coordinates, mode = node.attribute("coordinate_transformation_mode"), node.attribute("mode")
    roi = roi if coordinates == "tf_crop_and_resize" else None
    lines = lines_of(node, scales, sizes, roi, coordinates)
    is_plain = mode != "cubic" and not node.attribute("antialias", 0)
    is_plain &= not node.attribute("exclude_outside") and roi is None
    if is_plain:
        return _resampled(node, node[0], lines, mode, node.attribute("nearest_mode"))
    return _weighted(node, lines, mode)


def _unless_empty(array: Any) -> Any:
    return None if array is None or not array.size else array


def _resampled(
    node: Node, x: Expression, lines: Sequence[Line], mode: str, nearest: str
) -> Expression:
    """Return the input resampled by RESAMPLE."""
    if mode != "nearest" and node.type().dtype.kind == "c":
        rule = "be 'nearest' of complex numbers"
        raise node.refusal("mode", rule, mode)
    direction, shift = "INCREASING", 0.0
    if mode == "nearest":
        shift = {"round_prefer_floor": 0.5, "round_prefer_ceil": -0.5}.get(nearest, 0.0)
        if nearest in ("round_prefer_ceil", "floor"):
            direction = "DECREASING"
    out = [line.out for line in lines]
    merged = _merged(lines)
    if not merged:
        return x
    if len(merged) > _RANK_MAX:
        rule = f"have at most {_RANK_MAX} dimensions that are resized"
        raise node.refusal("X", rule, len(merged))
    x = reshaped(x, [line.size for line in merged])
    offsets = [line.input_offset + (0.0 if line.is_kept else shift) for line in merged]
    result = dml.resample(
        x,
        [line.out for line in merged],
        "LINEAR" if mode in ("linear", "bilinear") else "NEAREST_NEIGHBOR",
        direction,
        [line.scale for line in merged],
        offsets,
        [line.output_offset for line in merged],
    )
    return reshaped(result, out)


_RANK_MAX = 4  # of RESAMPLE


def _merged(lines: Sequence[Line]) -> list[Line]:
    """Return the dimensions with neighbours that are not resized as one; none where all are so."""
    merged: list[Line] = []
    for line in lines:
        if line.is_kept and merged and merged[-1].is_kept:
            size = merged[-1].size * line.size
            merged[-1] = Line(size, size, 1.0)
        else:
            merged.append(line if not line.is_kept else Line(line.size, line.size, 1.0))
    return [] if all(line.is_kept for line in merged) else merged


def _weighted(node: Node, lines: Sequence[Line], mode: str) -> Expression:
    """Return the input resampled by a matrix of weights for each dimension."""
    kind = node.output_type()
    if node.type().dtype.kind == "c":
        raise node.refusal("mode", "be 'nearest' of complex numbers", mode)
    x = node[0] if node.type().is_floating else dml.cast(node[0], node.type().real)
    sizes = [*node.shape()]
    for d, line in enumerate(lines):
        weights = weights_of(node, line, mode)
        if line.size == line.out and np.array_equal(weights, np.eye(line.size)):
            continue
        before, after = math.prod(sizes[:d]), math.prod(sizes[d + 1 :])
        matrix = node.builder.constant(weights.astype(x.dtype))
        rows = packed(transposed(reshaped(x, (before, sizes[d], after)), (0, 2, 1)))
        made = dml.gemm(
            reshaped(rows, (before * after, sizes[d])), matrix, None, "NONE", "TRANSPOSE"
        )
        sizes[d] = line.out
        x = packed(transposed(reshaped(made, (before, after, line.out)), (0, 2, 1)))
        x = reshaped(x, sizes)
    outside = _outside(lines)
    if node.attribute("coordinate_transformation_mode") == "tf_crop_and_resize" and outside.any():
        mask = node.builder.constant(outside.astype(np.uint8))
        x = dml.if_(mask, float(node.attribute("extrapolation_value")), x)
    return x if x.desc.data_type == kind else dml.cast(dml.round(x), kind)


def _outside(lines: Sequence[Line]) -> np.ndarray:
    """Return where an element samples beyond the input."""
    mask = np.zeros([line.out for line in lines], bool)
    for d, line in enumerate(lines):
        places = line.places()
        is_out = (places < 0) | (places > line.size - 1)
        mask |= is_out.reshape([-1 if k == d else 1 for k in range(len(lines))])
    return mask


def weights_of(node: Node, line: Line, mode: str) -> np.ndarray:
    """Return the weight of each input element in each output element of a dimension."""
    if line.is_kept:
        return np.eye(line.size)
    if mode == "nearest":
        return _nearest(line, node.attribute("nearest_mode"))
    is_cubic = mode == "cubic"
    a = node.attribute("cubic_coeff_a")
    reach = 2 if is_cubic else 1
    stretch = min(line.scale, 1.0) if node.attribute("antialias", 0) else 1.0
    matrix = np.zeros((line.out, line.size))
    for row, place in zip(matrix, line.places(), strict=True):
        first = (
            math.floor(place - reach / stretch) if stretch < 1 else math.floor(place) - reach + 1
        )
        last = math.ceil(place + reach / stretch) if stretch < 1 else math.floor(place) + reach
        taps = np.arange(first, last + 1)
        distance = np.abs(taps - place) * stretch
        weights = _cubic(distance, a) if is_cubic else np.maximum(0, 1 - distance)
        if node.attribute("exclude_outside"):
            weights = np.where((taps < 0) | (taps >= line.size), 0, weights)
        if weights.sum():
            weights = weights / weights.sum()
        np.add.at(row, np.clip(taps, 0, line.size - 1), weights)
    return matrix


def _cubic(x: np.ndarray, a: float) -> np.ndarray:
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


def _nearest(line: Line, nearest: str) -> np.ndarray:
    rounded = {
        "round_prefer_floor": lambda x: np.ceil(x - 0.5),
        "round_prefer_ceil": lambda x: np.floor(x + 0.5),
        "floor": np.floor,
        "ceil": np.ceil,
    }[nearest](line.places())
    taps = np.clip(rounded, 0, line.size - 1).astype(int)
    return np.eye(line.size)[taps]


@translates("RoiAlign")
def _roi_align(node: Node) -> Expression:
    if node.attribute("mode") != "avg":
        rule = "be 'avg' (DirectML takes the maximum of interpolated samples, ONNX of corners)"
        raise node.refusal("mode", rule, node.attribute("mode"))
    default = "output_half_pixel" if node.version < 16 else None
    is_half = node.attribute("coordinate_transformation_mode", default) == "half_pixel"
    scale, ratio = node.attribute("spatial_scale"), node.attribute("sampling_ratio")
    regions = node[1] if is_half else _at_least_one(node[1], scale)
    return dml.roi_align(
        node[0],
        regions,
        dml.cast(node[2], "UINT32"),
        "AVERAGE",
        "LINEAR",
        scale,
        scale,
        0.5 if is_half else 0.0,
        -0.5,
        0.0,
        ratio or 1,
        ratio or 2**32 - 1,
        False,
        node.attribute("output_height"),
        node.attribute("output_width"),
    )


def _at_least_one(regions: Expression, scale: float) -> Expression:
    """Return regions that are at least one element wide and high behind the scale."""
    low, high = dml.split(regions, 1, (2, 2))
    return dml.join([low, dml.max(high, low + 1 / scale)], 1)


@translates("MaxRoiPool")
def _roi_pool(node: Node) -> Expression:
    height, width = node.attribute("pooled_shape")
    regions = reshaped(node[1], (1, 1, *node.shape(1)))
    size = Size2D(width=width, height=height)
    return dml.roi_pooling(node[0], regions, node.attribute("spatial_scale"), size)

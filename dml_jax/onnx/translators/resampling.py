"""Resizing, and regions of interest.

Output element `o` of a dimension samples the input at `(o - output_offset) * step - input_offset`,
into which each of ONNX's coordinate modes is folded. These places are exact fractions, so that
those that are whole or halves come out so. What RESAMPLE lacks is a gather (elements that it would
round to another side) or a product with a matrix of weights (cubic interpolation, antialiasing as
ONNX has it, values beyond a cropped region).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import onnx

from dml_jax import functional as dml
from dml_jax.description.descriptor import Size2D
from dml_jax.enums import AxisDirection
from dml_jax.graph import Expression
from dml_jax.lowering import resampling
from dml_jax.onnx.files.attributes import attribute_value
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import MISREAD, translates
from dml_jax.onnx.nodes.reshapes import as_type, permute, reshape, taken
from dml_jax.onnx.nodes.tensor import Tensor
from dml_jax.onnx.sizes import padding_rules

# A scale of DirectML that lets all places of the output be one place of the input.
_FAR = float(np.finfo(np.float32).max)
_HALF = Fraction(1, 2)
_RANK_MAX = 4  # of RESAMPLE
_DENOMINATOR_MAX = 1000  # of a scale that stands for a simple fraction


@dataclass
class Line:
    """How one dimension is sampled.

    Attributes:
        size: the number of elements of the input.
        out: that of the output.
        scale: the factor between them as ONNX has it, which widens filters.
        step: the distance between the places of two neighbours.
        input_offset, output_offset: move the places, as above.
    """

    size: int
    out: int
    scale: Fraction
    step: Fraction
    input_offset: Fraction = Fraction(0)
    output_offset: Fraction = Fraction(0)

    @classmethod
    def kept(cls, size: int) -> "Line":
        """Return how a dimension of `size` elements is sampled that stays as it is."""
        return cls(size, size, Fraction(1), Fraction(1))

    @property
    def start(self) -> Fraction:
        """Return where the first element samples the input."""
        return -self.output_offset * self.step - self.input_offset

    @property
    def is_kept(self) -> bool:
        """Return whether the output has the input's elements as they are."""
        is_in_place = self.size == 1 or (self.step == 1 and self.start == 0)
        return self.size == self.out and is_in_place

    def places(self) -> list[Fraction]:
        """Return where each element samples the input."""
        return [self.start + k * self.step for k in range(self.out)]

    def nearest(self, way: str) -> np.ndarray:
        """Return the element nearest to each place: `way` is ONNX's nearest_mode."""
        unit = 2 * math.lcm(self.step.denominator, self.start.denominator)
        half, step, start = unit // 2, int(self.step * unit), int(self.start * unit)
        # Fractions, since places that are halves decide which neighbour is nearest.
        places = np.arange(self.out, dtype=object) * step + start
        found = {
            "round_prefer_floor": lambda x: -((half - x) // unit),
            "round_prefer_ceil": lambda x: (x + half) // unit,
            "floor": lambda x: x // unit,
            "ceil": lambda x: -(-x // unit),
        }[way](places)
        return np.clip(found, 0, self.size - 1).astype(np.int64)


def lines_of(node: Node, scales: Any, sizes: Any, roi: Any, mode: str) -> list[Line]:
    """Return how each dimension is sampled."""
    shape, rank = node.shape(), node.rank()
    axes = node.attribute("axes")
    axes = [*range(rank)] if axes is None else [node.from_start(a, rank, "axes") for a in axes]
    lines = [Line.kept(n) for n in shape]
    factors = _factors(node, axes, scales, sizes)
    for k, (axis, (scale, out)) in enumerate(zip(axes, factors, strict=True)):
        region = (0, 1) if roi is None else (roi[k], roi[k + len(axes)])
        lines[axis] = line_of(node, mode, shape[axis], out, scale, region)
    return lines


def _factors(
    node: Node, axes: Sequence[int], scales: Any, sizes: Any
) -> list[tuple[Fraction, int]]:
    """Return the scale and the size of the output for each of the axes."""
    shape = [node.shape()[a] for a in axes]
    if sizes is None:
        outs = [node.output_shape()[a] for a in axes]
        return [(_meant(s, Fraction(m, n)), m) for s, m, n in zip(scales, outs, shape, strict=True)]
    node.expect(min(sizes, default=1) > 0, "sizes", "be at least 1", [*map(int, sizes)])
    ratios = [Fraction(int(out), n) for out, n in zip(sizes, shape, strict=True)]
    policy = node.attribute("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return [(r, int(out)) for r, out in zip(ratios, sizes, strict=True)]
    one = min(ratios) if policy == "not_larger" else max(ratios)
    return [(one, math.floor(one * n + _HALF)) for n in shape]


def _meant(value: float, *known: Fraction) -> Fraction:
    """Return the simple fraction whose FLOAT a value is, one of `known` first, or else the value.

    1.6 is 8/5 then, and places that are whole or halves come out so, as in ONNX Runtime.
    """
    exact = Fraction(float(value))
    for simple in (*known, exact.limit_denominator(_DENOMINATOR_MAX)):
        if np.float32(float(simple)) == np.float32(value):
            return simple
    return exact


def line_of(
    node: Node, mode: str, n: int, out: int, scale: Fraction, region: tuple[Any, Any]
) -> Line:
    """Return how a dimension of `n` elements is sampled in one of ONNX's coordinate modes."""
    line = Line(n, out, scale, 1 / scale)
    start, end = map(_meant, region)
    if mode in ("half_pixel", "half_pixel_symmetric") or (mode == "pytorch_half_pixel" and out > 1):
        line.input_offset, line.output_offset = _HALF, -_HALF
        if mode == "half_pixel_symmetric":
            line.input_offset -= Fraction(n, 2) * (1 - out / (scale * n))
    elif mode == "pytorch_half_pixel":
        line.step = Fraction(0)
    elif mode == "align_corners":
        # The length of the output is not rounded here, as ONNX's text counts it.
        line.step = (n - 1) / (scale * n - 1) if out > 1 else Fraction(0)
    elif mode == "tf_half_pixel_for_nn":
        line.output_offset = -_HALF
    elif mode == "tf_crop_and_resize":
        if out > 1:
            line.input_offset = -start * (n - 1)
            line.step = (end - start) * (n - 1) / (out - 1)
        else:
            line.step, line.input_offset = Fraction(0), -(start + end) * (n - 1) / 2
    elif mode != "asymmetric":
        raise node.refusal("coordinate_transformation_mode", "be known", mode)
    return line


def _by_floats(proto: onnx.NodeProto, _: Any, inputs: list[Tensor | None]) -> None:
    """Raise scales whose products with sizes are whole numbers in FLOAT, and less in DOUBLE.

    PyTorch and ONNX Runtime multiply in FLOAT, so that 10 times 0.7 is 7; inference is in DOUBLE.
    """
    given, x = {a.name: attribute_value(a) for a in proto.attribute}, inputs[0]
    sizes = np.array(() if x is None else x.shape, np.float32)[given.get("axes") or slice(None)]

    def raise_sizes(scales: np.ndarray) -> np.ndarray:
        if scales.shape != sizes.shape:  # regions, which are FLOAT too
            return scales
        is_less = np.floor(sizes * scales) > np.floor(sizes * scales.astype(np.float64))
        return np.where(is_less, np.nextafter(scales, np.float32(np.inf)), scales)

    for attribute in proto.attribute:
        if attribute.name == "scales":
            attribute.floats[:] = raise_sizes(np.array(attribute.floats, np.float32))
    for k, tensor in enumerate(inputs):
        if k and tensor is not None and tensor.type.name == "FLOAT":
            inputs[k] = tensor.inferred_as(tensor.shape, raise_sizes)


@translates("Resize", "Upsample", misread_before=MISREAD, inferred_as=_by_floats)
def _upsample(node: Node) -> Expression:
    if node.version == 1:
        by_name = [node.attribute(f"{name}_scale") for name in ("height", "width")]
        scales = [1.0] * (node.rank() - 2) + by_name
    else:
        scales = node.attribute("scales") or node.constant(1)
    is_right = node.op_type == "Resize" or min(scales) >= 1
    node.expect(is_right, "scales", "be at least 1, of an Upsample", [*map(float, scales)])
    lines, x = lines_of(node, scales, None, None, "asymmetric"), node[0]
    for way, is_smaller in (("floor", False), ("ceil", True)):
        kept = [Line.kept(line.out if is_smaller else line.size) for line in lines]
        pairs = zip(lines, kept, strict=True)
        part = [line if (line.scale < 1) == is_smaller else same for line, same in pairs]
        x = _resample_or_gather(node, x, part, node.attribute("mode"), way)
    return x


@translates("Resize", since=11)
def _resize(node: Node) -> Expression:
    arrays = (node.constant(k) for k in (1, 2, 3))
    roi, scales, sizes = (None if a is None or not a.size else a for a in arrays)
    coordinates, mode = node.attribute("coordinate_transformation_mode"), node.attribute("mode")
    roi = roi if coordinates == "tf_crop_and_resize" else None
    lines = lines_of(node, scales, sizes, roi, coordinates)
    nearest, x = node.attribute("nearest_mode"), node[0]
    is_plain = not node.attribute("antialias", 0) and not node.attribute("exclude_outside")
    if mode == "nearest" or (mode == "linear" and is_plain and roi is None):
        made = _resample_or_gather(node, x, lines, mode, nearest)
    else:
        made = _by_weights(node, x, lines, mode)
    return made if roi is None else _extrapolate(node, made, lines)


def _resample_or_gather(
    node: Node, x: Expression, lines: Sequence[Line], mode: str, nearest: str
) -> Expression:
    """Return the input resampled by RESAMPLE, or by gathers where that reads other elements."""
    if mode != "nearest" and node.type().dtype.kind == "c":
        raise node.refusal("mode", "be 'nearest' of complex numbers", mode)
    merged = _merge(lines)
    if not merged:
        return x
    is_linear, is_beyond = mode in ("linear", "bilinear"), len(merged) > _RANK_MAX
    if is_linear and is_beyond:
        return _by_weights(node, x, lines, mode)
    rounding = {"round_prefer_floor": ("INCREASING", 0.5), "ceil": ("INCREASING", 0.0)}
    rounding |= {"round_prefer_ceil": ("DECREASING", -0.5), "floor": ("DECREASING", 0.0)}
    direction, shift = ("INCREASING", 0.0) if is_linear else rounding[nearest]
    axes = [
        resampling.Axis(
            np.float32(min(1 / line.step, _FAR) if line.step else _FAR).item(),
            np.float32(line.input_offset + (0 if line.is_kept else Fraction(shift))).item(),
            np.float32(line.output_offset).item(),
        )
        for line in merged
    ]
    if not is_linear:
        for line, axis in zip(merged, axes, strict=True):
            taps = resampling.taps(axis, line.size, line.out, direction)
            is_exact = np.array_equal(taps.places[:, 0], line.nearest(nearest))
            if line.step < 0 or is_beyond or not is_exact:
                return _nearest(node, x, lines, nearest)
    x, sizes = reshape(x, [line.size for line in merged]), [line.out for line in merged]
    kind = "LINEAR" if is_linear else "NEAREST_NEIGHBOR"
    scales, inputs, outputs = map(list, zip(*axes, strict=True))
    result = dml.resample(x, sizes, kind, AxisDirection.of(direction), scales, inputs, outputs)
    return reshape(result, [line.out for line in lines])


def _merge(lines: Sequence[Line]) -> list[Line]:
    """Return the dimensions with neighbours that are not resized as one; none where all are so."""
    merged: list[Line] = []
    for line in lines:
        if line.is_kept and merged and merged[-1].is_kept:
            merged[-1] = Line.kept(merged[-1].size * line.size)
        else:
            merged.append(Line.kept(line.size) if line.is_kept else line)
    return [] if all(line.is_kept for line in merged) else merged


def _nearest(node: Node, x: Expression, lines: Sequence[Line], nearest: str) -> Expression:
    """Return the elements of the input nearest to the places."""
    x = reshape(x, [line.size for line in lines])
    for d, line in enumerate(lines):
        if not line.is_kept:
            x = taken(x, node.builder.constant(line.nearest(nearest).astype(np.int32)), d)
    return x


def _by_weights(node: Node, x: Expression, lines: Sequence[Line], mode: str) -> Expression:
    """Return the input resampled by a matrix of weights for each dimension."""
    kind = x.desc.data_type
    x = as_type(x, node.type().real)  # a matrix for each dimension rounds each time
    sizes = [line.size for line in lines]
    for d, line in enumerate(lines):
        if line.is_kept:
            continue
        weights = weights_of(node, line, mode == "cubic")
        before, after = math.prod(sizes[:d]), math.prod(sizes[d + 1 :])
        matrix = node.builder.constant(weights.astype(x.dtype))
        rows = permute(reshape(x, (before, sizes[d], after)), (0, 2, 1))
        rows = reshape(rows, (before * after, sizes[d]))
        made = dml.gemm(rows, matrix, None, "NONE", "TRANSPOSE")
        sizes[d] = line.out
        x = permute(reshape(made, (before, after, line.out)), (0, 2, 1))
        x = reshape(x, sizes)
    return as_type(x if kind.name.startswith("FLOAT") else dml.round(x), kind)


def _extrapolate(node: Node, x: Expression, lines: Sequence[Line]) -> Expression:
    """Return `x` with the value that stands beyond the input, where a place lies there."""
    mask = np.zeros([line.out for line in lines], bool)
    for d, line in enumerate(lines):
        is_out = np.array([place < 0 or place > line.size - 1 for place in line.places()])
        mask |= is_out.reshape([-1 if k == d else 1 for k in range(len(lines))])
    if not mask.any():
        return x
    value = x.dtype.type(node.attribute("extrapolation_value")).item()
    return dml.if_(node.builder.constant(mask.astype(np.uint8)), value, x)


def weights_of(node: Node, line: Line, is_cubic: bool) -> np.ndarray:
    """Return the weight of each input element in each output element of a dimension."""
    a = node.attribute("cubic_coeff_a")
    reach = 2 if is_cubic else 1
    stretch = min(float(line.scale), 1.0) if node.attribute("antialias", 0) else 1.0
    matrix = np.zeros((line.out, line.size))
    for row, place in zip(matrix, map(float, line.places()), strict=True):
        first, last = math.floor(place - reach / stretch), math.ceil(place + reach / stretch)
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


@translates("RoiAlign", padding=padding_rules.regions_rule, misread_before=16)
def _roi_align(node: Node) -> Expression:
    rule = "be 'avg' (DirectML takes the maximum of interpolated samples, ONNX of corners)"
    node.expect(node.attribute("mode") == "avg", "mode", rule, node.attribute("mode"))
    default = "output_half_pixel" if node.version < 16 else None
    is_half = node.attribute("coordinate_transformation_mode", default) == "half_pixel"
    scale, ratio = node.attribute("spatial_scale"), node.attribute("sampling_ratio")
    regions = node[1]
    if not is_half:  # they are at least one element wide and high behind the scale
        low, high = dml.split(regions, 1, (2, 2))
        regions = dml.join([low, dml.max(high, low + 1 / scale)], 1)
    inputs = node[0], regions, dml.cast(node[2], "UINT32")
    places = scale, scale, 0.5 if is_half else 0.0, -0.5, 0.0
    samples = ratio or 1, ratio or 2**32 - 1
    sizes = node.attribute("output_height"), node.attribute("output_width")
    return dml.roi_align(*inputs, "AVERAGE", "LINEAR", *places, *samples, False, *sizes)


@translates("MaxRoiPool")
def _roi_pool(node: Node) -> Expression:
    height, width = node.attribute("pooled_shape")
    regions = reshape(node[1], (1, 1, *node.shape(1)))
    size = Size2D(width=width, height=height)
    return dml.roi_pooling(node[0], regions, node.attribute("spatial_scale"), size)

"""Records of the operators that read regions of pictures."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from dml_jax import Size2D, TensorDesc
from dml_jax.operator import Operator
from records import Fields, Record, Rng, Types, tensors


def pooled(op: Any, x: np.ndarray, roi: np.ndarray) -> np.ndarray:
    def rounded(value: float) -> int:
        return int(math.copysign(math.floor(abs(value) + 0.5), value))

    out = np.zeros(op.output_tensor.sizes)
    size = out.shape[2:]
    for r, (batch, *corners) in enumerate(roi[0, 0]):
        picture = x[min(max(int(batch), 0), len(x) - 1)]
        x1, y1, x2, y2 = (rounded(c * op.spatial_scale) for c in corners)
        for place in np.ndindex(*size):
            ranges = []
            for k, (low, high) in enumerate(((y1, y2), (x1, x2))):
                length = max(high - low + 1, 1)
                start = place[k] * length // size[k] + low
                end = -(-(place[k] + 1) * length // size[k]) + low
                ranges.append(slice(*(min(max(v, 0), x.shape[2 + k]) for v in (start, end))))
            part = picture[:, ranges[0], ranges[1]]
            out[(r, slice(None), *place)] = part.max((1, 2)) if part.size else 0
    return out


def attribute(op: Any, name: str) -> Any:
    """Return an attribute, or the value that ROI_ALIGN, which lacks it, has for it."""
    own = {"input_pixel_offset": 0.5, "output_pixel_offset": -0.5}
    return getattr(op, name) if op.short_name != "ROI_ALIGN" else own.get(name, 0)


Sample = tuple[float, float]  # where a sample lies, and which part of the region lies before it


def samples(op: Any, start: float, end: float, scale: float, count: int) -> list[list[Sample]]:
    """Return the samples of each of `count` outputs along one axis."""
    start, extent = start * scale, (end - start) * scale
    n = max(math.ceil(extent / count), op.minimum_samples_per_output)
    n = min(n, op.maximum_samples_per_output)
    parts = max(count * n - 1, 1) if attribute(op, "align_regions_to_corners") else count * n
    numbers = np.arange(count * n) - attribute(op, "output_pixel_offset")
    places = numbers * extent / parts + start - attribute(op, "input_pixel_offset")
    found = list(zip(places.tolist(), (numbers / parts).tolist(), strict=True))
    return [found[k * n : (k + 1) * n] for k in range(count)]


Taps = list[tuple[int, float, float]]  # element, weight, and the weight's slope


def taps(op: Any, place: float, size: int) -> Taps | None:
    """Return what a sample reads; None of one that lies outside."""
    if not -1 <= place <= size:
        return None
    inner = min(max(place, 0), size - 1)
    slope = float(0 <= place < size - 1)
    if op.interpolation_mode.name != "LINEAR":
        return [(min(math.floor(inner + 0.5), size - 1), 1, 0)]
    k = math.floor(inner)
    found = [(k, k + 1 - inner, -slope), (min(k + 1, size - 1), inner - k, slope)]
    return [tap for tap in found if tap[1] or tap[2]]


def each(op: Any, roi: np.ndarray, shape: Any, sizes: Any) -> Iterator[tuple[int, Any, list[Any]]]:
    """Yield (region, output, samples): of each (y taps, x taps, y part, x part), or None."""
    for r, (x1, y1, x2, y2) in enumerate(roi.reshape(-1, 4)):
        ys = samples(op, y1, y2, op.spatial_scale_y, sizes[2])
        xs = samples(op, x1, x2, op.spatial_scale_x, sizes[3])
        for i, j in itertools.product(range(sizes[2]), range(sizes[3])):
            found: list[Any] = []
            for (y, v), (z, w) in itertools.product(ys[i], xs[j]):
                pair = taps(op, y, shape[2]), taps(op, z, shape[3])
                found.append(None if None in pair else (*pair, v, w))
            yield r, (i, j), found


def value_of(picture: np.ndarray, sample: Any, outside: float) -> np.ndarray:
    """Return the channels of a picture at a sample."""
    if sample is None:
        return np.full(len(picture), outside)
    rows, columns, *_ = sample
    return sum(v * w * picture[:, y, z] for y, v, _ in rows for z, w, _ in columns if v * w)  # pyright: ignore


def picture_of(batch: np.ndarray, region: int, count: int) -> int:
    return min(int(batch.ravel()[region]), count - 1)


def aligned(op: Any, x: np.ndarray, roi: np.ndarray, batch: np.ndarray) -> np.ndarray:
    out = np.zeros(op.output_tensor.sizes)
    for r, place, found in each(op, roi, x.shape, out.shape):
        picture = x[picture_of(batch, r, len(x))]
        values = [value_of(picture, s, op.out_of_bounds_input_value) for s in found]
        is_max = op.reduction_function.name == "MAX"
        out[(r, slice(None), *place)] = np.max(values, 0) if is_max else np.mean(values, 0)
    return out


def gradients(op: Any, x: Any, dy: np.ndarray, roi: np.ndarray, batch: np.ndarray) -> Any:
    made = op.output_gradient_tensor
    x = np.zeros(made.sizes) if x is None else x
    dx, droi = np.zeros(x.shape), np.zeros((roi.size // 4, 4))
    for r, place, found in each(op, roi, x.shape, dy.shape):
        n = picture_of(batch, r, len(x))
        picture, slope = x[n], dy[(r, slice(None), *place)]
        values = [value_of(picture, s, 0) for s in found]
        for c in range(len(picture)):
            chosen, share = found, 1 / len(found)
            if op.reduction_function.name == "MAX":
                within = [(v[c], -k) for k, v in enumerate(values) if found[k]]
                best = max(within, default=(-np.inf, 0))
                is_inside = len(within) == len(found) or best[0] >= 0
                chosen, share = ([found[-best[1]]] if is_inside and within else []), 1
            for rows, columns, v_part, w_part in filter(None, chosen):
                for (y, v, dv), (z, w, dw) in itertools.product(rows, columns):
                    dx[n, c, y, z] += v * w * share * slope[c]
                    along = share * slope[c] * picture[c, y, z] * np.array([v * dw, dv * w])
                    along *= [op.spatial_scale_x, op.spatial_scale_y]
                    parts = np.array([w_part, v_part])
                    droi[r] += np.concatenate([along * (1 - parts), along * parts])
    return dx, droi.reshape(roi.shape)


def regions(rng: Rng, types: Types, count: int) -> Fields:
    """Draw the tensors of `count` regions, of any rank that they may have."""
    ranks = int(rng.integers(2, 5)), int(rng.integers(1, 5))
    roi, batch = [1] * (ranks[0] - 2) + [count, 4], [1] * (ranks[1] - 1) + [count]
    return tensors(types, roi_tensor=roi, batch_indices_tensor=batch)


def draw(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    """Draw pictures, regions and attributes; for gradients, such that all of them are exact."""
    is_gradient = op_class.short_name == "ROI_ALIGN_GRAD"
    n, c, h, w, count = (int(v) for v in rng.integers(1, 6, 5))
    y, z = (int(v) for v in rng.choice([1, 2] if is_gradient else [1, 2, 3, 4], 2))
    least, most = rng.choice([[1, 1], [2, 2]] if is_gradient else [[1, 1], [2, 2], [1, 3], [1, 4]])
    is_max = bool(rng.integers(2))
    drawn: Fields = {
        **regions(rng, types, count),
        "reduction_function": "MAX" if is_max else "AVERAGE",
        "interpolation_mode": str(rng.choice(["LINEAR", "NEAREST_NEIGHBOR"])),
        "spatial_scale_x": float(rng.choice([1, 2])),
        "spatial_scale_y": float(rng.choice([1, 2])),
        "input_pixel_offset": float(rng.choice([0, 0.5])),
        "output_pixel_offset": float(rng.choice([0, -0.5])),
        "out_of_bounds_input_value": float(rng.choice([0, 2.5])),
        "minimum_samples_per_output": int(least),
        "maximum_samples_per_output": int(most),
        "align_regions_to_corners": bool(rng.integers(2))
        and (max(y, z) * most < 3 or not is_gradient),
    }
    picture = TensorDesc(types["input_tensor"], (n, c, h, w))
    drawn["input_tensor"] = picture
    if is_gradient:
        both = int(rng.integers(3))
        drawn["input_gradient_tensor"] = TensorDesc(picture.data_type, (count, c, y, z))
        drawn["output_gradient_tensor"] = picture if both != 1 else None
        drawn["output_roi_gradient_tensor"] = drawn["roi_tensor"] if both else None
        if not both and not is_max:
            drawn["input_tensor"] = None
    else:
        drawn["output_tensor"] = TensorDesc(picture.data_type, (count, c, y, z))
    return drawn


def draw_pooling(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    n, c, h, w, count, height, width = (int(v) for v in rng.integers(1, 6, 7))
    named = tensors(types, input_tensor=(n, c, h, w), roi_tensor=(1, 1, count, 5))
    size = Size2D(width=width, height=height)
    return {**named, "spatial_scale": float(rng.choice([0.5, 1])), "pooled_size": size}


def _corners(count: int) -> Any:
    return lambda rank, types: [1] * (rank - 1) + [count]


SMALLEST = {"reduction_function": "AVERAGE", "interpolation_mode": "LINEAR"}
SMALLEST |= dict.fromkeys(("roi_tensor", "output_roi_gradient_tensor"), _corners(4))
VALUES = {"": (1.0, 4.0), "roi_tensor": (-1.0, 5.0), "batch_indices_tensor": (0.0, 1.0)}
CHANNELS = {"input_tensor": 1, "output_tensor": 1}
REGIONS = {"roi_tensor": -2, "batch_indices_tensor": -1, "output_tensor": 0}
REGIONS_GRAD = {**REGIONS, "input_gradient_tensor": 0, "output_roi_gradient_tensor": -2}
ALIGN = Record(
    aligned,
    draw,
    SMALLEST,
    VALUES,
    ulp=64,
    special=False,
    unbroken=("one_of",),
    batch=(CHANNELS, REGIONS),
)

RECORDS = {
    # Regions share a loop as long as the largest bin, a number that devices agree on.
    "ROI_POOLING": Record(
        pooled,
        draw_pooling,
        {"roi_tensor": _corners(5)},
        {"": (-4.0, 4.0)},
        special=False,
        batch=(CHANNELS,),
    ),
    "ROI_ALIGN": ALIGN,
    "ROI_ALIGN1": ALIGN,
    "ROI_ALIGN_GRAD": Record(
        gradients,
        draw,
        SMALLEST,
        VALUES,
        special=False,
        unbroken=("one_of",),
        batch=(
            CHANNELS | dict.fromkeys(("input_gradient_tensor", "output_gradient_tensor"), 1),
            REGIONS_GRAD,
        ),
    ),
}

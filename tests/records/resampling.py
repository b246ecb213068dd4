"""Records of the operators that read a tensor on another grid."""

import math
from fractions import Fraction
from typing import Any

import numpy as np

from dml_jax import InterpolationMode, Size2D
from dml_jax.operator import Operator
from records import Fields, Record, Rng, Types, each, ranks_of, tensors

# Element and weight of all that one output reads along a dimension.
Row = list[tuple[int, Fraction]]


def row(x: Fraction, scale: Fraction, size: int, mode: str, antialiased: bool) -> Row:
    """Return what an output at x reads of `size` elements, by the formula, exactly."""
    low = math.floor(x)
    reach = 1 / scale if antialiased and scale < 1 else Fraction(1)
    if mode == "LINEAR":
        around = range(low - math.ceil(reach), low + math.ceil(reach) + 2)
        found = [(k, 1 - abs(k - x) / reach) for k in around if abs(k - x) < reach]
        whole = sum(weight for _, weight in found)
        read = [(k, weight / whole) for k, weight in found]
    elif mode == "NEAREST":
        read = [(math.floor(x + Fraction(1, 2)), Fraction(1))]
    else:
        read = [(math.ceil(x) if mode == "INCREASING" else low, Fraction(1))]
    return [(min(max(k, 0), size - 1), weight) for k, weight in read]


def rows(op: Any, sizes: Any, counts: Any) -> list[list[Row]]:
    """Return what each output reads, by dimension."""
    rank = len(sizes)
    if op.short_name == "UPSAMPLE_2D":
        scales = [1.0] * (rank - 2) + [op.scale_size.height, op.scale_size.width]
    else:
        scales = op.scales
    ins, outs = [0.5] * rank, [-0.5] * rank
    if op.short_name not in ("UPSAMPLE_2D", "RESAMPLE"):
        ins, outs = op.input_pixel_offsets, op.output_pixel_offsets
    mode = "LINEAR"
    if op.interpolation_mode != InterpolationMode.LINEAR:
        directed = op.short_name in ("RESAMPLE2", "RESAMPLE3", "RESAMPLE_GRAD1")
        mode = op.rounding_direction.suffix if directed else "NEAREST"
    antialiased = op.short_name == "RESAMPLE3" and op.antialiased
    found = []
    for n, m, scale, start, end in zip(sizes, counts, scales, ins, outs, strict=True):
        exact = Fraction(m, n) if np.float32(m / n) == np.float32(scale) else Fraction(scale)
        places = [(t - Fraction(end)) / exact - Fraction(start) for t in range(m)]
        found.append([row(x, exact, n, mode, antialiased) for x in places])
    return found


def resampled(op: Any, x: np.ndarray) -> np.ndarray:
    y = x.astype(np.float64)
    for d, read in enumerate(rows(op, x.shape, op.output_tensor.sizes)):
        y = np.moveaxis(y, d, 0)
        y = np.stack([sum(y[k] * float(w) if w != 1 else y[k] for k, w in r) for r in read])
        y = np.moveaxis(y, 0, d)
    return np.rint(y) if x.dtype.kind in "iu" else y


def gradient(op: Any, dy: np.ndarray) -> np.ndarray:
    sizes, y = op.output_gradient_tensor.sizes, dy
    for d, read in enumerate(rows(op, sizes, dy.shape)):
        y = np.moveaxis(y, d, 0)
        dx = np.zeros((sizes[d], *y.shape[1:]))
        for t, r in enumerate(read):
            for k, w in r:
                dx[k] += y[t] * float(w)
        y = np.moveaxis(dx, 0, d)
    return y


def attributes(rng: Rng, rank: int) -> Fields:
    """Draw all attributes but the scales."""
    return {
        "interpolation_mode": str(rng.choice(["LINEAR", "NEAREST_NEIGHBOR"])),
        "rounding_direction": str(rng.choice(["INCREASING", "DECREASING"])),
        "input_pixel_offsets": [float(v) for v in rng.choice([0, 0.5, -0.25], rank)],
        "output_pixel_offsets": [float(v) for v in rng.choice([0, -0.5, 1.5], rank)],
        "antialiased": bool(rng.integers(2)),
    }


def draw(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    """Draw scales that are the quotients of sizes, and others."""
    rank = int(rng.integers(1, ranks_of(op_class, types)[1] + 1))
    sizes, counts = ([int(n) for n in rng.integers(1, 6, rank)] for _ in range(2))
    binary = [float(s) for s in rng.choice([0.25, 0.5, 1, 2, 4], rank)]
    quotients = [float(np.float32(m / n)) for n, m in zip(sizes, counts, strict=True)]
    names = [f.name for f in op_class.fields if f.tensor]
    is_whole = types[names[0]] in ("INT8", "UINT8")  # exact halves have to be exact in FLOAT32
    ends = (counts, sizes) if "gradient" in names[0] else (sizes, counts)
    return {
        **tensors(types, **dict(zip(names, ends, strict=True))),
        "scales": binary if is_whole or rng.integers(2) else quotients,
        **attributes(rng, rank),
    }


def draw_upsample(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    rank = int(rng.integers(4, 6))
    width, height = (int(n) for n in rng.integers(1, 5, 2))
    size = {"scale_size": Size2D(width=width, height=height)}
    return tensors(types, input_tensor=rng.integers(1, 4, rank)) | size | attributes(rng, rank)


SMALLEST = {
    "interpolation_mode": "LINEAR",
    "scales": each(1.0),
    "input_pixel_offsets": each(0.5),
    "output_pixel_offsets": each(-0.5),
    "antialiased": False,
}
# Whole enumerations, and counts, of which one list is the first.
UNBROKEN = ("one_of", "length")
VALUES = {"": (1.0, 4.0)}  # no differences, which would cancel

RECORDS = {
    "UPSAMPLE_2D": Record(
        resampled, draw_upsample, SMALLEST, values=VALUES, ulp=8, unbroken=(*UNBROKEN, "range")
    ),
    **{
        name: Record(resampled, draw, SMALLEST, values=VALUES, ulp=8, unbroken=UNBROKEN)
        for name in ("RESAMPLE", "RESAMPLE1", "RESAMPLE2", "RESAMPLE3")
    },
    **{
        name: Record(gradient, draw, SMALLEST, values=VALUES, ulp=8, unbroken=UNBROKEN)
        for name in ("RESAMPLE_GRAD", "RESAMPLE_GRAD1")
    },
}

"""Records of the convolutions."""

import itertools
from typing import Any

import numpy as np

from dml_jax import TensorDesc
from dml_jax.operator import Operator
from records import LENGTHS, Fields, Record, Rng, Types, activated, random_attribute
from records.quantization import quantize


def places(op: Any, counts: Any) -> Any:
    """Yield (window, place in the filter, place in the input) by spatial indices."""
    for i in itertools.product(*map(range, counts)):
        for k in itertools.product(*map(range, op.filter_tensor.sizes[2:])):
            parts = zip(i, k, op.strides, op.dilations, op.start_padding, strict=True)
            yield i, k, tuple(o * s + j * d - a for o, j, s, d, a in parts)


def is_inside(place: Any, sizes: Any) -> bool:
    return all(0 <= p < n for p, n in zip(place, sizes, strict=True))


def correlation(op: Any, x: np.ndarray, w: np.ndarray, dtype: Any) -> np.ndarray:
    """Return the sums, one product of an input element and a filter element at a time."""
    y = np.zeros(op.output_tensor.sizes, dtype)
    groups, (outputs, channels) = op.group_count, w.shape[:2]
    outputs //= groups
    for i, k, place in places(op, y.shape[2:]):
        if is_inside(place, x.shape[2:]):
            for g in range(groups):
                inner = slice(g * channels, (g + 1) * channels)
                outer = slice(g * outputs, (g + 1) * outputs)
                y[:, outer, *i] += x[:, inner, *place] @ w[outer, :, *k].T
    return y


def transposed(op: Any, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return what each input element adds to the output at the places of its window."""
    y = np.zeros(op.output_tensor.sizes)
    sums = [n - p for n, p in zip(y.shape[2:], op.output_padding, strict=True)]
    groups, outputs = op.group_count, w.shape[1]
    channels = w.shape[0] // groups
    for i, k, place in places(op, x.shape[2:]):
        if is_inside(place, sums):
            for g in range(groups):
                inner = slice(g * channels, (g + 1) * channels)
                outer = slice(g * outputs, (g + 1) * outputs)
                y[:, outer, *place] += x[:, inner, *i] @ w[inner, :, *k]
    return y


def convolution(op: Any, x: np.ndarray, w: np.ndarray, bias: Any) -> np.ndarray:
    if op.mode.name == "CONVOLUTION":
        w = np.flip(w, tuple(range(2, w.ndim)))
    is_forward = op.direction.name == "FORWARD"
    y = correlation(op, x, w, float) if is_forward else transposed(op, x, w)
    return activated(op.fused_activation, y if bias is None else y + bias)


def spatial(rng: Rng, op_class: type[Operator], rank: int) -> Fields:
    """Draw a window: lists of the spatial dimensions, and the sizes that it lies in."""
    drawn: dict[str, list[int]] = {"sizes": [], "window": []}
    most = {1: 7, 2: 6, 3: 4}[rank]
    lists = {f.name for f in op_class.fields if f.count == "DimensionCount"}
    for _ in range(rank):
        size, stride = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        dilation = int(rng.integers(1, 3)) if "dilations" in lists else 1
        start, end = (int(rng.integers(0, 3)) for _ in range(2))
        least = max(1, (size - 1) * dilation + 1 - start - end)
        values = {
            "window": size,
            "strides": stride,
            "dilations": dilation,
            "start_padding": start,
            "end_padding": end,
            "sizes": int(rng.integers(least, max(least, most) + 1)),
        }
        for name, value in values.items():
            if name in lists or name in ("sizes", "window"):
                drawn.setdefault(name, []).append(value)
    return drawn


def channels(rng: Rng) -> tuple[int, int, int]:
    """Draw (groups, input channels of a group, output channels of a group)."""
    return tuple(int(n) for n in rng.integers(1, 4, 3))  # pyright: ignore[reportReturnType]


def draw(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    drawn = spatial(rng, op_class, int(rng.integers(1, 4)))
    sizes, window = drawn.pop("sizes"), drawn.pop("window")
    groups, inputs, outputs = channels(rng)
    is_forward = bool(rng.integers(2))
    first, second = (groups * outputs, inputs) if is_forward else (groups * inputs, outputs)
    type_ = types["input_tensor"]
    batch = int(rng.integers(1, 3))
    padding = [int(p) for p in rng.integers(0, 3, len(sizes))]
    drawn |= {
        "input_tensor": TensorDesc(type_, [batch, groups * inputs, *sizes]),
        "filter_tensor": TensorDesc(type_, [first, second, *window]),
        "mode": rng.choice(["CONVOLUTION", "CROSS_CORRELATION"]),
        "direction": "FORWARD" if is_forward else "BACKWARD",
        "output_padding": padding,
        "group_count": groups,
    }
    if rng.integers(2):
        drawn["bias_tensor"] = TensorDesc(type_, [1, groups * outputs, *[1] * len(sizes)])
    if rng.integers(2):
        f = next(f for f in op_class.fields if f.name == "fused_activation")
        drawn["fused_activation"] = random_attribute(rng, f.kind)
    if not is_forward:
        lists = ("strides", "dilations", "start_padding", "end_padding")
        rows = zip(sizes, window, *(drawn[name] for name in lists), padding, strict=True)
        larger = []
        for d, (n, k, s, step, a, b, p) in enumerate(rows):
            least = (n - 1) * s + (k - 1) * step + 1 - a - b
            if least < 1:  # the padding would cut everything off
                drawn["end_padding"][d] = drawn["start_padding"][d] = 0
                least += a + b
            larger.append(least + p + int(rng.integers(0, s)))
        drawn["output_tensor"] = TensorDesc(type_, [batch, groups * outputs, *larger])
    return drawn


def integer(op: Any, x: np.ndarray, x_zero: Any, w: np.ndarray, w_zero: Any) -> np.ndarray:
    x, w = x.astype(np.int64), w.astype(np.int64)
    x = x if x_zero is None else x - x_zero.astype(np.int64).ravel()[0]
    if w_zero is not None:
        w = w - w_zero.astype(np.int64).reshape(-1, *[1] * (w.ndim - 1))
    return correlation(op, x, w, np.int64).astype(np.int32)


def quantized(
    op: Any, x: Any, sx: Any, zx: Any, w: Any, sw: Any, zw: Any, bias: Any, s: Any, z: Any
) -> np.ndarray:
    total = integer(op, x, zx, w, zw).astype(float)
    if bias is not None:
        total = total + bias
    ones = [1] * (x.ndim - 2)
    real = total * sx.ravel()[0] * sw.reshape(1, -1, *ones)
    zero = None if z is None else z.ravel()[0]
    return quantize(real, s.ravel()[0], zero, op.output_tensor.data_type)


def draw_integer(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    rank = int(rng.integers(1, 3))
    drawn = spatial(rng, op_class, rank)
    sizes, window = drawn.pop("sizes"), drawn.pop("window")
    groups, inputs, outputs = channels(rng)
    shapes = {
        "input_tensor": [int(rng.integers(1, 3)), groups * inputs, *sizes],
        "filter_tensor": [groups * outputs, inputs, *window],
        "bias_tensor": [1, groups * outputs, *[1] * rank],
    }
    for f in op_class.fields:
        if f.tensor and not f.tensor.output and f.name not in shapes:
            of_filter = f.name.startswith("filter") and rng.integers(2)
            shapes[f.name] = [1, groups * outputs, *[1] * rank] if of_filter else [1] * (rank + 2)
    for f in op_class.fields:
        if f.name in shapes and (not f.optional or rng.integers(2)):
            drawn[f.name] = TensorDesc(types[f.name], shapes[f.name])
    return {**drawn, "group_count": groups}


def spatially(value: int) -> Any:
    return lambda rank, types: [value] * max(rank - 2, 1)


WINDOW = {
    **dict.fromkeys(("strides", "dilations", "window_size", "window_sizes"), spatially(1)),
    **dict.fromkeys(("start_padding", "end_padding", "output_padding"), spatially(0)),
}
SCALES = {"input_scale_tensor": (0.125, 0.5), "filter_scale_tensor": (0.125, 0.5)}

BATCH = ({"input_tensor": 0, "output_tensor": 0},)

RECORDS = {
    "CONVOLUTION": Record(
        convolution,
        draw,
        WINDOW,
        values={"": (-0.5, 0.5)},
        special=False,
        unbroken=LENGTHS,
        batch=BATCH,
    ),
    "CONVOLUTION_INTEGER": Record(
        integer, draw_integer, WINDOW, values={"": (-60, 60)}, unbroken=LENGTHS, batch=BATCH
    ),
    "QUANTIZED_LINEAR_CONVOLUTION": Record(
        quantized,
        draw_integer,
        WINDOW,
        values={"": (-3, 3), "output_scale_tensor": (1, 4), **SCALES},
        special=False,
        unbroken=LENGTHS,
        batch=BATCH,
    ),
}

"""Records of pooling, its gradients, FOLD and UNFOLD."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dml_jax import TensorDesc
from dml_jax.operator import Operator
from records import LENGTHS, Fields, Record, Rng, Types, tensors
from records.convolution import WINDOW, is_inside, spatial
from records.quantization import quantize


def windows(op: Any, counts: Any, sizes: Any) -> Iterator[tuple[Any, list[Any]]]:
    """Yield each window with the places of its elements in the input, None for padding."""
    window = getattr(op, "window_sizes", None) or op.window_size
    steps = getattr(op, "dilations", [1] * len(window))
    for i in itertools.product(*map(range, counts)):
        found = []
        for k in itertools.product(*map(range, window)):
            parts = zip(i, k, op.strides, steps, op.start_padding, strict=True)
            place = tuple(o * s + j * d - a for o, j, s, d, a in parts)
            found.append(place if is_inside(place, sizes) else None)
        yield i, found


def pooled(op: Any, x: np.ndarray, function: Callable[..., Any]) -> np.ndarray:
    """Return a function of the elements of each window, and of how many places it has."""
    y = np.zeros(op.output_tensor.sizes)
    for i, places in windows(op, y.shape[2:], x.shape[2:]):
        elements = [x[:, :, *place] for place in places if place is not None]
        y[:, :, *i] = function(np.array(elements), len(places)) if elements else 0
    return y


def average(op: Any, x: np.ndarray) -> np.ndarray:
    def mean(elements: np.ndarray, count: int) -> np.ndarray:
        return elements.sum(0) / (count if op.include_padding else len(elements))

    return pooled(op, x, mean)


def average_grad(op: Any, g: np.ndarray) -> np.ndarray:
    y = np.zeros(op.output_gradient_tensor.sizes)
    for i, places in windows(op, g.shape[2:], y.shape[2:]):
        inside = [place for place in places if place is not None]
        for place in inside:
            y[:, :, *place] += g[:, :, *i] / len(places if op.include_padding else inside)
    return y


def lp(op: Any, x: np.ndarray) -> np.ndarray:
    return pooled(op, x, lambda elements, _: (np.abs(elements) ** op.p).sum(0) ** (1 / op.p))


def first_largest(x: np.ndarray, places: list[Any]) -> Any:
    """Return the first place of the largest of some elements, or of NaN; None if there is none."""
    best = None
    for place in places:
        if place is None or (best is not None and x[best] != x[best]):
            continue
        if best is None or x[place] > x[best] or x[place] != x[place]:
            best = place
    return best


def max_pooling(op: Any, x: np.ndarray) -> list[np.ndarray]:
    lowest = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    values = np.full(op.output_tensor.sizes, lowest, x.dtype)
    indices = np.zeros(op.output_tensor.sizes, np.int64)
    for n, c in np.ndindex(x.shape[:2]):
        for i, places in windows(op, values.shape[2:], x.shape[2:]):
            best = first_largest(x[n, c], places)
            if best is not None:
                values[n, c, *i] = x[n, c, *best]
                indices[n, c, *i] = np.ravel_multi_index((n, c, *best), x.shape)
    return [values, indices] if len(op.outputs_of()) == 2 else [values]


def max_grad(op: Any, x: np.ndarray, g: np.ndarray) -> np.ndarray:
    y = np.zeros(x.shape)
    for n, c in np.ndindex(x.shape[:2]):
        for i, places in windows(op, g.shape[2:], x.shape[2:]):
            best = first_largest(x[n, c], places)
            if best is not None:
                y[n, c, *best] += g[n, c, *i]
    return y


def unpooling(op: Any, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    y = np.zeros(op.output_tensor.sizes, x.dtype)
    for value, index in zip(x.ravel(), indices.ravel().tolist(), strict=True):
        if index < y.size:
            y.ravel()[index] = value
    return y


def quantized(op: Any, x: Any, sx: Any, zx: Any, s: Any, z: Any) -> np.ndarray:
    """Return the mean in FLOAT32, which alone decides halves."""

    def along(v: np.ndarray) -> np.ndarray:
        return v.reshape(1, -1, *[1] * (x.ndim - 2))

    steps = x.astype(float) - (0 if zx is None else along(zx).astype(float))
    total = pooled(op, steps, lambda elements, _: elements.sum(0))
    count = pooled(op, steps, lambda elements, n: n if op.include_padding else len(elements))
    real = total.astype("f") * along(sx).astype("f") / np.maximum(count, 1).astype("f")
    zero = None if z is None else along(z)
    return quantize(real, along(s).astype("f"), zero, op.output_tensor.data_type)


def unfold(op: Any, x: np.ndarray) -> np.ndarray:
    sizes = [  # of the grid of windows
        (n + a + b - (k - 1) * d - 1) // s + 1
        for n, k, s, d, a, b in zip(
            x.shape[2:],
            op.window_sizes,
            op.strides,
            op.dilations,
            op.start_padding,
            op.end_padding,
            strict=True,
        )
    ]
    zeros = np.zeros(x.shape[:2])
    columns = [
        np.stack([zeros if p is None else x[:, :, *p] for p in places], 2)
        for _, places in windows(op, sizes, x.shape[2:])
    ]
    return np.stack(columns, 3).reshape(op.output_tensor.sizes)


def fold(op: Any, x: np.ndarray) -> np.ndarray:
    """Return what `unfold` makes of each single element, times its column."""
    shape = op.output_tensor.sizes
    y = np.zeros(shape).reshape(*shape[:2], -1)
    places = np.arange(1, np.prod(shape[2:]) + 1).reshape(1, 1, *shape[2:])

    class Columns:
        window_sizes, strides, dilations = op.window_sizes, op.strides, op.dilations
        start_padding, end_padding = op.start_padding, op.end_padding
        output_tensor = TensorDesc("FLOAT32", [np.prod(op.window_sizes), x.shape[-1]])

    read = unfold(Columns, places).astype(int)
    columns = x.reshape(*shape[:2], *read.shape)
    for k, i in np.ndindex(read.shape):
        if read[k, i]:
            y[:, :, read[k, i] - 1] += columns[:, :, k, i]
    return y.reshape(shape)


def draw(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    """Draw a window, and tensors of 2 or 3 spatial dimensions."""
    rank = int(rng.integers(2, 4))
    drawn = spatial(rng, op_class, rank)
    sizes, drawn["window_size"] = drawn.pop("sizes"), drawn.pop("window")
    batch, channels = (int(n) for n in rng.integers(1, 4, 2))
    shape = [batch, channels, *sizes]
    steps = drawn.get("dilations", [1] * rank)
    lists = (drawn["strides"], steps, drawn["start_padding"], drawn["end_padding"])
    parts = zip(sizes, drawn["window_size"], *lists, strict=True)
    steps_of = [(n + a + b - (k - 1) * d - 1, s) for n, k, s, d, a, b in parts]
    counts = [n // s + 1 for n, s in steps_of]
    is_chosen = bool(rng.integers(2))  # from one window to a last one that hangs over the end
    if is_chosen:
        counts = [int(rng.integers(1, -(-n // s) + 2)) for n, s in steps_of]
    drawn |= tensors(types, input_tensor=shape, output_gradient_tensor=shape)
    counted = ["input_gradient_tensor"]
    counted += ["output_tensor", "output_indices_tensor"] if is_chosen else []
    drawn |= tensors(types, **dict.fromkeys(counted, (batch, channels, *counts)))
    for f in op_class.fields:  # scales and zero points
        is_other = f.tensor and not f.tensor.output and f.name not in drawn
        if is_other and (not f.optional or rng.integers(2)):
            size = channels if rng.integers(2) else 1
            drawn[f.name] = TensorDesc(types[f.name], [1, size, *[1] * rank])
    return {**drawn, "include_padding": bool(rng.integers(2)), "p": int(rng.integers(1, 5))}


def draw_unpooling(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    shape = [int(n) for n in rng.integers(1, 4, 4)]
    output = [shape[0], shape[1], *(int(n) for n in rng.integers(1, 5, 2))]
    return tensors(types, input_tensor=shape, indices_tensor=shape, output_tensor=output)


def draw_columns(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    rank = int(rng.integers(1, 4))
    drawn = spatial(rng, op_class, rank)
    sizes, window = drawn.pop("sizes"), drawn.pop("window")
    batch, channels = (int(n) for n in rng.integers(1, 4, 2))
    lists = (drawn["strides"], drawn["dilations"], drawn["start_padding"], drawn["end_padding"])
    parts = zip(sizes, window, *lists, strict=True)
    counts = [(n + a + b - (k - 1) * d - 1) // s + 1 for n, k, s, d, a, b in parts]
    columns = [batch, channels * int(np.prod(window)), int(np.prod(counts))]
    shapes = [[*[1] * int(rng.integers(0, 3)), *columns], [batch, channels, *sizes]]
    ends = shapes if op_class.short_name == "FOLD" else shapes[::-1]
    named = tensors(types, input_tensor=ends[0], output_tensor=ends[1])
    return {**drawn, **named, "window_sizes": window}


ULP = {"AVERAGE_POOLING_GRAD": 16}  # terms are divided before they are added, and may cancel

RECORDS = {
    **{
        name: Record(function, draw, WINDOW, unbroken=LENGTHS, ulp=ULP.get(name, 4))
        for name, function in [
            ("AVERAGE_POOLING", average),
            ("AVERAGE_POOLING1", average),
            ("AVERAGE_POOLING_GRAD", average_grad),
            ("LP_POOLING", lp),
            ("LP_POOLING1", lp),
            ("MAX_POOLING", max_pooling),
            ("MAX_POOLING1", max_pooling),
            ("MAX_POOLING2", max_pooling),
            ("MAX_POOLING_GRAD", max_grad),
        ]
    },
    "MAX_UNPOOLING": Record(
        unpooling,
        draw_unpooling,
        values={"indices_tensor": (0, 4)},
        batch="an index names any element of the result",
    ),
    "QUANTIZED_LINEAR_AVERAGE_POOLING": Record(
        quantized,
        draw,
        WINDOW,
        values={"": (-10, 10), "input_scale_tensor": (0.5, 2), "output_scale_tensor": (0.5, 2)},
        unbroken=LENGTHS,
        special=False,
        batch=({"input_tensor": 0, "output_tensor": 0},),
    ),
    "UNFOLD": Record(
        unfold,
        draw_columns,
        WINDOW,
        unbroken=LENGTHS,
        batch=({"input_tensor": 0, "output_tensor": -3},),
    ),
    "FOLD": Record(
        fold,
        draw_columns,
        WINDOW,
        unbroken=LENGTHS,
        batch=({"input_tensor": -3, "output_tensor": 0},),
    ),
}

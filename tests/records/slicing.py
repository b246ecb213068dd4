"""Records of the operators that cut, pad and reverse."""

from typing import Any

import numpy as np

from dml_jax import PaddingMode, TensorDesc
from dml_jax.operator import Operator
from records import LENGTHS, Fields, Record, Rng, Types, each, sizes, tensors, type_of
from records.element_wise import cast


def slice_(op: Any, x: np.ndarray) -> np.ndarray:
    steps = zip(op.offsets, op.sizes, op.strides, strict=True)
    return x[tuple(slice(o, o + (n - 1) * s + 1, s) for o, n, s in steps)]


def draw_slice(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    shape = sizes(rng)
    offsets = [int(rng.integers(n)) for n in shape]
    strides = [int(rng.integers(1, 4)) for _ in shape]
    counts = [
        int(rng.integers(1, 2 + (n - 1 - o) // s))
        for n, o, s in zip(shape, offsets, strides, strict=True)
    ]
    drawn = tensors(types, input_tensor=shape)
    return {**drawn, "offsets": offsets, "sizes": counts, "strides": strides}


def draw_window(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    """Draw a window, of which the part has all elements or fewer."""
    shape = sizes(rng)
    offsets = [int(rng.integers(n)) for n in shape]
    windows = [int(rng.integers(1, n - o + 1)) for n, o in zip(shape, offsets, strict=True)]
    strides = [int(rng.choice([-3, -2, -1, 1, 2, 3])) for _ in shape]
    most = [1 + (w - 1) // abs(s) for w, s in zip(windows, strides, strict=True)]
    part = [int(rng.integers(1, m + 1)) for m in most] if rng.integers(2) else most
    return {
        **tensors(types, input_tensor=shape, output_tensor=part),
        **tensors(types, output_gradient_tensor=shape, input_gradient_tensor=part),
        "input_window_offsets": offsets,
        "input_window_sizes": windows,
        "input_window_strides": strides,
    }


def window_of(op: Any, counts: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """Return the indices that are read, for `numpy.ix_`."""
    windows = zip(
        op.input_window_offsets, op.input_window_sizes, op.input_window_strides, counts, strict=True
    )
    return np.ix_(*((o if s > 0 else o + w - 1) + s * np.arange(n) for o, w, s, n in windows))


def slice_grad(op: Any, gradient: np.ndarray) -> np.ndarray:
    out = np.zeros(op.output_gradient_tensor.sizes, gradient.dtype)
    out[window_of(op, gradient.shape)] = gradient
    return out


MODES: dict[str, Any] = {
    "EDGE": "edge",
    "REFLECTION": "reflect",
    "SYMMETRIC": "symmetric",
    "WRAP": "wrap",
}


def draw_padding(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    """Draw paddings that are larger than the tensor, too."""
    shape, type_ = sizes(rng, most=3, elements=12), types["input_tensor"]
    is_exact = op_class.short_name == "PADDING1"
    value = float(rng.choice([-2.5, 10.6, 300, 1e6, -np.inf]))
    return {
        "input_tensor": TensorDesc(type_, shape),
        "padding_mode": list(PaddingMode)[int(rng.integers(5))],
        "padding_value": 7 if is_exact else value,
        "start_padding": [int(p) for p in rng.integers(0, 8, len(shape))],
        "end_padding": [int(p) for p in rng.integers(0, 8, len(shape))],
        "padding_value_data_type": type_,
    }


def padding(op: Any, x: np.ndarray) -> np.ndarray:
    widths = list(zip(op.start_padding, op.end_padding, strict=True))
    if op.padding_mode == PaddingMode.CONSTANT:
        value = cast(op.padding_value, op.input_tensor.dtype)
        return np.pad(x, widths, constant_values=value)
    return np.pad(x, widths, MODES[op.padding_mode.name])


def draw_reverse(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    shape = sizes(rng)
    axis = int(rng.integers(len(shape)))
    lines = [1 if d == axis else n for d, n in enumerate(shape)]
    return tensors(types, input_tensor=shape, sequence_lengths_tensor=lines) | {"axis": axis}


def reverse(op: Any, x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    out = x.copy()
    for place in np.ndindex(*lengths.shape):
        line = (*place[: op.axis], slice(None), *place[op.axis + 1 :])
        length = min(int(lengths[place]), x.shape[op.axis])
        out[line][:length] = x[line][:length][::-1]
    return out


WINDOW = {"input_window_offsets": each(0), "input_window_sizes": each(1)}
WINDOW |= {"input_window_strides": each(1)}
PADDING = {"start_padding": each(0), "end_padding": each(0), "padding_mode": "CONSTANT"}
PADDING |= {"padding_value_data_type": type_of("input_tensor")}
BATCH = ({"": 0, "input_window_sizes": 0},)

RECORDS = {
    "SLICE": Record(
        slice_,
        draw_slice,
        {"offsets": each(0), "sizes": each(1), "strides": each(1)},
        unbroken=LENGTHS,
        batch=({"": 0, "sizes": 0},),
    ),
    "SLICE1": Record(
        lambda op, x: x[window_of(op, op.output_tensor.sizes)],
        draw_window,
        WINDOW,
        unbroken=LENGTHS,
        batch=BATCH,
    ),
    "SLICE_GRAD": Record(slice_grad, draw_window, WINDOW, unbroken=LENGTHS, batch=BATCH),
    **dict.fromkeys(
        ("PADDING", "PADDING1"),
        Record(padding, draw_padding, PADDING, unbroken=(*LENGTHS, "least", "one_of")),
    ),
    "REVERSE_SUBSEQUENCES": Record(
        reverse,
        draw_reverse,
        attributes={"axis": 0},
        values={"": (-4, 4), "sequence_lengths_tensor": (0, 1.4)},
    ),
}

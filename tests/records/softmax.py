"""Records of SOFTMAX, LOG_SOFTMAX and HARDMAX."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dml_jax.operator import Operator
from records import LENGTHS, Fields, Record, Rng, Types, sizes, tensors


def draw_last(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    """Draw a matrix or a row, with dimensions of size 1 before it."""
    shape = [1] * int(rng.integers(0, 7)) + sizes(rng, 1, 2)
    return tensors(types, input_tensor=shape)


def draw_axes(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    """Draw a tensor of any rank, and some of its axes in any order."""
    shape = sizes(rng)
    axes = rng.permutation(len(shape))[: rng.integers(1, len(shape) + 1)].tolist()
    return {**tensors(types, input_tensor=shape), "axes": axes}


def softmax(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    y = np.exp(x - x.max(axes, keepdims=True))
    return y / y.sum(axes, keepdims=True)


def log_softmax(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    x = x - x.max(axes, keepdims=True)
    return x - np.log(np.exp(x).sum(axes, keepdims=True))


def hardmax(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Set the element that `numpy.argmax` finds of those that belong together, in order."""
    axes = tuple(sorted(axis % x.ndim for axis in axes))
    kept = [d for d in range(x.ndim) if d not in axes]
    rows = x.transpose(*kept, *axes)
    flat = rows.reshape(*(x.shape[d] for d in kept), -1)
    top = np.arange(flat.shape[-1]) == flat.argmax(-1)[..., None]
    return top.reshape(rows.shape).transpose(np.argsort([*kept, *axes]))


def both(
    name: str, function: Callable[[np.ndarray, tuple[int, ...]], np.ndarray], **parts: Any
) -> dict[str, Record]:
    """Return the records of the version along the last axis and of the one with axes."""
    with_axes: dict[str, Any] = {"attributes": {"axes": [0]}, "unbroken": LENGTHS}
    return {
        f"ACTIVATION_{name}": Record(lambda op, x: function(x, (-1,)), draw_last, **parts),
        f"ACTIVATION_{name}1": Record(
            lambda op, x: function(x, tuple(op.axes)), draw_axes, **with_axes, **parts
        ),
    }


RECORDS = {
    **both("SOFTMAX", softmax),
    **both("LOG_SOFTMAX", log_softmax),
    **both("HARDMAX", hardmax),
}

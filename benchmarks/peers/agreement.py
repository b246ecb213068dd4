"""Whether two libraries give one answer."""

import math
from collections.abc import Sequence
from typing import Any

import expressions
import jax
import jax.numpy as jnp
import numpy as np
from table import Cell
from transformed import Transformed

from peers.common import (
    is_arg,
    last_node,
)

TOLERANCE = {"float16": 2e-2, "float32": 2e-4}


def disagreement(
    cell: Cell, inputs: Sequence[jax.Array], ours: Sequence[Any], theirs: Sequence[Any]
) -> str:
    """What differs between two answers, in words; "" where nothing does.

    Sums are added in another order, FLOAT16 sums by some in FLOAT16. An index may be another one's
    whose element is equal.
    """
    for index, (mine, other, op) in enumerate(
        zip(ours, theirs, last_node(cell.function), strict=True)
    ):
        if _same_on_gpu(mine, other):
            continue
        a, b = np.asarray(mine), np.asarray(_host(other))
        if a.shape != b.shape:
            return f"output {index} has the shape {list(b.shape)}, not {list(a.shape)}"
        if np.array_equal(a, b):
            continue
        if is_arg(op) and not isinstance(cell.function, Transformed):
            a, b = (_values(op, inputs[0], np.asarray(i).astype(np.int64)) for i in (a, b))
        if np.issubdtype(a.dtype, np.integer):
            limit = 0.0
            if getattr(op, "scale_bias", None) is not None:  # computed in FLOAT32
                limit = 1 + np.abs(a.astype(np.float64)) * 2.0**-22
            far = np.abs(a.astype(np.float64) - b.astype(np.float64)) > limit
        else:
            limit = TOLERANCE.get(a.dtype.name, 1e-6)
            with np.errstate(invalid="ignore", over="ignore"):
                far = ~(np.abs(a - b) <= limit * (1 + np.abs(a)))
                far &= (a != b) & ~((a != a) & (b != b))  # infinities, and NaN in both
        if far.any():
            at = np.unravel_index(np.argmax(far), far.shape)
            return (
                f"output {index} at {list(map(int, at))}: {b[at]}, not {a[at]} ({far.mean():.1%})"
            )
    return ""


def _same_on_gpu(mine: Any, other: Any) -> bool:
    """Whether two arrays on a GPU are equal, without the way of gigabytes to the host."""
    if next(iter(mine.devices())).platform == "cpu":
        return False
    try:
        import torch  # pyright: ignore[reportMissingImports]

        a, b = torch.from_dlpack(mine), torch.from_dlpack(other)
        return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b)
    except Exception:  # no PyTorch, or a type that it lacks: the host then
        return False


def _host(value: Any) -> Any:
    if hasattr(value, "get"):  # CuPy
        return value.get()
    return value.cpu().numpy() if hasattr(value, "cpu") else value


def _values(op: Any, x: jax.Array, index: np.ndarray) -> np.ndarray:
    """The elements that indices of an ARGMAX point at."""
    order, shape = expressions.reduced_last(op)
    count = math.prod(shape[:-1])
    rows = jnp.transpose(x, order).reshape(count, shape[-1])
    flat = jnp.asarray(index.reshape(count, 1).astype(np.int32))
    return np.asarray(jnp.take_along_axis(rows, flat, axis=1))

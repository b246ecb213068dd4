"""Records of running sums and products, and of the first elements of sorted lines."""

from typing import Any

import numpy as np

from dml_jax import AxisDirection
from dml_jax.operator import Operator
from records import Fields, Record, Rng, Types, sizes, tensors


def cumulative(ufunc: Any, field: str) -> Any:
    """Return the reference of a cumulative operator: NumPy's, in the array's own type."""

    def reference(op: Any, x: np.ndarray) -> np.ndarray:
        turned = op.axis_direction == AxisDirection.DECREASING
        x = np.flip(x, op.axis) if turned else x
        if getattr(op, field):
            first = np.full_like(np.take(x, [0], op.axis), ufunc.identity)
            x = np.concatenate([first, np.delete(x, -1, op.axis)], op.axis)
        y = ufunc.accumulate(x, op.axis, dtype=x.dtype)
        return np.flip(y, op.axis) if turned else y

    return reference


def draw(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    shape = sizes(rng)
    axis = int(rng.integers(len(shape)))
    drawn: Fields = {"axis": axis, "axis_direction": str(rng.choice(["INCREASING", "DECREASING"]))}
    exclusive = ("has_exclusive_sum", "has_exclusive_product")
    drawn |= dict.fromkeys(exclusive, bool(rng.integers(2)))
    drawn["k"] = int(rng.integers(1, shape[axis] + 1))
    return tensors(types, input_tensor=shape) | drawn


def top_k(op: Any, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort each line in Python: by NaN first, the number, and the index."""
    sign = 1 if getattr(op, "axis_direction", None) == AxisDirection.INCREASING else -1
    lines = np.moveaxis(x, op.axis, -1)
    places = np.zeros((*lines.shape[:-1], op.k), np.int64)
    for line in np.ndindex(*lines.shape[:-1]):
        values = lines[line].tolist()
        order = sorted(
            range(len(values)),
            key=lambda i: (0, 0, i) if values[i] != values[i] else (1, sign * values[i], i),
        )
        places[line] = order[: op.k]
    places = np.moveaxis(places, -1, op.axis)
    return np.take_along_axis(x, places, op.axis), places


RECORDS = {
    "CUMULATIVE_SUMMATION": Record(
        cumulative(np.add, "has_exclusive_sum"), draw, attributes={"axis": 0}
    ),
    "CUMULATIVE_PRODUCT": Record(
        cumulative(np.multiply, "has_exclusive_product"), draw, attributes={"axis": 0}
    ),
    # Finite differences do not see through ties, of which the elements have many.
    "TOP_K": Record(top_k, draw, attributes={"axis": 0}),
    "TOP_K1": Record(top_k, draw, attributes={"axis": 0}),
}

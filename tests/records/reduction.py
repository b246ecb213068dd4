"""Records of REDUCE, ARGMAX and ARGMIN."""

from typing import Any

import numpy as np

from dml_jax import ReduceFunction
from dml_jax.operator import Operator
from records import Fields, Record, Rng, Types, sizes, tensors

F = ReduceFunction
INDICES = (F.ARGMAX, F.ARGMIN)


def reduced(shape: list[int], axes: list[int]) -> list[int]:
    """Return the sizes with 1 for each of the axes."""
    return [1 if d in axes else n for d, n in enumerate(shape)]


def index_of(pick: Any, x: np.ndarray, axes: Any, last: bool = False) -> np.ndarray:
    """Return the row-major index of the extreme element within the axes in increasing order."""
    axes = sorted(axes)
    kept = [d for d in range(x.ndim) if d not in axes]
    rows = x.transpose(*kept, *axes).reshape(*(x.shape[d] for d in kept), -1)
    index = rows.shape[-1] - 1 - pick(rows[..., ::-1], axis=-1) if last else pick(rows, axis=-1)
    return index.reshape(reduced(list(x.shape), axes))


def _axes(rng: Rng, rank: int) -> list[int]:
    return [int(a) for a in rng.permutation(rank)[: rng.integers(1, rank + 1)]]


def draw_arg(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    shape = sizes(rng)
    direction = str(rng.choice(["INCREASING", "DECREASING"]))
    drawn = {"axes": _axes(rng, len(shape)), "axis_direction": direction}
    return tensors(types, input_tensor=shape) | drawn


def arg(pick: Any) -> Record:
    """Return the record of ARGMAX or ARGMIN."""
    return Record(
        lambda op, x: index_of(pick, x, op.axes, op.axis_direction.name == "DECREASING"),
        draw_arg,
        attributes={"axes": [0]},
    )


def draw_reduce(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    shape = sizes(rng)
    given, made = types["input_tensor"], types["output_tensor"]
    fitting = [
        f
        for f, rows in op_class.support.groups.items()
        if given in [t.name for t in rows[0].types["input_tensor"]]
        and made in [t.name for t in rows[0].types["output_tensor"]]
        and (f in INDICES or given == made)
    ]
    function = fitting[int(rng.integers(len(fitting)))]
    drawn = {"function": function, "axes": _axes(rng, len(shape))}
    return tensors(types, input_tensor=shape) | drawn


def reduce(op: Any, x: np.ndarray) -> np.ndarray:
    axes = tuple(op.axes)
    if op.function in INDICES:
        return index_of(np.argmax if op.function == F.ARGMAX else np.argmin, x, axes)

    def summed(values: np.ndarray) -> np.ndarray:
        return values.sum(axes, dtype=values.dtype, keepdims=True)

    def log_sum_exp() -> np.ndarray:
        top = x.max(axes, keepdims=True)
        shift = np.where(np.isinf(top), 0.0, top)
        return np.log(summed(np.exp(x - shift))) + shift

    return {
        F.SUM: lambda: summed(x),
        F.AVERAGE: lambda: x.mean(axes, keepdims=True),
        F.L1: lambda: summed(np.abs(x)),
        F.L2: lambda: np.sqrt(summed(x * x)),
        F.SUM_SQUARE: lambda: summed(x * x),
        F.LOG_SUM: lambda: np.log(summed(x)),
        F.LOG_SUM_EXP: log_sum_exp,
        F.MULTIPLY: lambda: x.prod(axes, dtype=x.dtype, keepdims=True),
        F.MIN: lambda: x.min(axes, keepdims=True),
        F.MAX: lambda: x.max(axes, keepdims=True),
    }[op.function]()


RECORDS = {
    "ARGMAX": arg(np.argmax),
    "ARGMIN": arg(np.argmin),
    "REDUCE": Record(
        reduce,
        draw_reduce,
        attributes={"axes": [0]},
        values={"": (0.25, 1.75)},  # LOG_SUM has a logarithm, and MULTIPLY does not vanish
        ulp=40,
    ),
}
